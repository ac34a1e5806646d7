"""Maps of phase tables: which law holds where, over two of the coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from meanfield.base.answers.drawing import WIDTH
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import choice
from meanfield.base.storage.files import LOOK, figure_of, new_figure, require
from meanfield.functions.reading.parser import number
from meanfield.numeric.quadrature.evaluation import on_arrays
from meanfield.symbolic.asymptotics.tables.leaf_merging import regions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = 400  # points an axis
MOST = 2.0  # an exponent's axis ends here


def plot_phase_table(table: Any, x: str, y: str, rest: Mapping[str, object], ax: Axes | None = None) -> Axes:
    """The rows of a `PhaseTable` over the coordinates x and y, from 0 to 2, the others at the numbers in `rest`: a
    colour for each regime, lines between rows, the number of each row inside of it (`print(table)` numbers them alike).

    ax: Axes to draw into instead of a new figure. Returns: the Axes. Raises: MeanFieldError for unknown or missing
    coordinates, or without matplotlib.
    """
    for name, what in ((x, "x"), (y, "y")):
        choice(name, what, table.coordinates)
    rest = dict(rest)
    for s, e in table.definitions:  # S = σ_v²σ_w² of σ's that were given
        parts = {p: rest.pop(p.name) for p in sorted(e.free_symbols, key=str) if p.name in rest and s.name not in rest}
        if parts and len(parts) == len(e.free_symbols):
            rest[s.name] = e.subs({p: number(v, p.name) for p, v in parts.items()})
    others = [n for n in table.coordinates if n not in (x, y)]
    missing = [n for n in others if n not in rest]
    if x == y or missing:
        raise MeanFieldError(f"A map needs two coordinates and numbers for the others: {', '.join(missing) or x}.")
    symbols = {s.name: s for s in table.tree.cell.coordinates}
    place = np.linspace(0, MOST, SIZE) + 1e-9 * np.sqrt(np.arange(1, SIZE + 1))  # beside the lines, not on them
    across, up = np.meshgrid(place, place + 1e-10)  # the diagonal is a line, too
    values = {symbols[x]: across, symbols[y]: up}
    values |= {symbols[n]: np.full_like(across, float(number(rest[n], n)) + 1e-9) for n in others}
    field = _rows_at(table, values)
    with require().rc_context(LOOK):
        from matplotlib.patches import Patch
        from matplotlib.pyplot import get_cmap

        panel = new_figure(WIDTH, 3.2).subplots() if ax is None else ax
        regimes = {i: "; ".join(w.regime for w in table.rows[i].regimes) for i in np.unique(field)}
        names = list(dict.fromkeys(regimes.values()))
        shades = get_cmap("Pastel1")(np.arange(len(names)) % 9)
        picture = np.vectorize({i: names.index(r) for i, r in regimes.items()}.get)(field)
        panel.imshow(shades[picture], origin="lower", extent=(0, MOST, 0, MOST), aspect="auto", interpolation="nearest")
        for i in np.unique(field):  # rows of one regime differ in their laws
            panel.contour(place, place, field == i, levels=[0.5], colors="0.2", linewidths=0.5)
            middle = float(np.median(across[field == i])), float(np.median(up[field == i]))
            panel.annotate(str(i + 1), middle, fontsize=7, ha="center", va="center")
        panel.set_xlabel(rf"$\{x}$" if x.startswith("beta") else f"${x}$")
        panel.set_ylabel(rf"$\{y}$" if y.startswith("beta") else f"${y}$")
        patches = [Patch(facecolor=shade, label=name) for shade, name in zip(shades, names)]
        if ax is None:
            figure_of(panel).legend(handles=patches, loc="outside lower center", fontsize=6)
        else:
            panel.legend(handles=patches, fontsize=6)
    return panel


def _rows_at(table: Any, values: Mapping[sp.Symbol, np.ndarray]) -> np.ndarray:
    """The index of the row at every point, in floats."""
    field = np.full(next(iter(values.values())).shape, -1)
    index = {region: i for i, region in enumerate(regions(table.tree))}

    def paint(node, mask):
        if node.form is None:
            field[mask] = index[node.found]
            return
        form = np.broadcast_to(on_arrays(list(values), node.form)(*values.values()), field.shape)
        for signs, part in node.parts:
            side = np.zeros_like(mask)
            for s in signs:
                side |= np.sign(form) == s
            if (mask & side).any():
                paint(part, mask & side)

    paint(table.tree, np.ones_like(field, dtype=bool))
    return field
