"""The figure of docs/coordinate_checks.md: broken networks beside the line of the right parametrization, own and total
changes of the layer that the check names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from derivations.parametrizations.broken import EXAMPLES, Example
from meanfield.base.storage import files
from meanfield.presentation import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = (0, 2, 3, 4, 5, 6)  # of SGD the readout's panel would be that of Adam
NAMES = {"own": "own", "total": "total", "Df_readout": r"$\Delta f$, readout", "Df": r"$\Delta f$"}


def panel(axes: Axes, example: Example) -> None:
    """Lines of the right parametrization, points of broken networks: of the layer that is named first, own filled."""
    check: Any = example.compared
    layer, _, of, _, _ = example.first
    columns = {1: ("own",), 4: ("Df_readout", "Df")}.get(layer, ("own", "total"))
    for name, colour, filled in zip(columns, figures.COLOURS, (True, False)):
        rows = [row for row in check.column(name) if row.layer == (row.depth - 1 if of == "L" else layer)]
        if of == "L":
            rows = [row for row in rows if row.width == max(check.column(name), key=lambda r: r.width).width]
        sizes = [row.depth - 2 if of == "L" else row.width for row in rows]
        axes.plot(sizes, [row.theory for row in rows], color=colour, linestyle="-" if filled else "--")
        axes.plot(
            sizes, [row.measured for row in rows], "o", color=colour, markersize=3.5, label=NAMES[name],
            markerfacecolor=colour if filled else "white",
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low / 1.6, high * 1.6)
    axes.set_xlabel("blocks L" if of == "L" else "width n")
    where = {1: "input", 4: "readout"}.get(layer, "last block" if of == "L" else f"layer {layer}")
    axes.set_title(f"{example.what.removesuffix(', Adam')}\n{where}", fontsize=6)
    axes.legend(fontsize=5)


def write(folder: str | os.PathLike[str]) -> list[Path]:
    """The figure as .png; returns its path."""
    with figures.require().rc_context(figures.LOOK):
        figure = figures.new_figure(2 * figures.WIDTH, 4.2)
        for axes, k in zip(figure.subplots(2, 3).flat, SHOWN):
            panel(axes, EXAMPLES[k])
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        return [files.save(figure, target / "coordinate_checks.png")]
