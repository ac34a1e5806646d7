"""Pictures of phase diagrams; curves against the layer are in `answers.drawing`. Matplotlib is imported only when one
is drawn, and never through pyplot's state.

Each function returns the Axes it drew into, an array of them where there are several; a new figure is one column
(3.4 in) wide. The figure of Axes is `axes.figure`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meanfield.base.answers.drawing import COLOURS, WIDTH
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.storage.files import LOOK, new_figure, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STAR: dict[str, Any] = {"color": "black", "markeredgecolor": "white", "markeredgewidth": 0.4, "markersize": 8}
_CLIP = 1.0  # |log χ_J*| beyond this has the last colour: ξ is less than a layer
_SAME = 1e-10  # |log χ_J*| below this is 0: the float64 error of χ_J*


def plot_phase_diagram(diagram: Any, ax: Axes | None = None) -> Axes:
    """A `PhaseDiagram`: colour log χ_J* over the (σ_w, σ_b) plane, and where it is 0, computed and derived.

    Thin black: the contour χ_J* = 1 of the computed values. Orange: the derived critical line, solid where its fixed
    point attracts, dashed where it repels (networks then end elsewhere, and so does the boundary). Stars: critical
    points. Hatched: more than one state of K attracts. Grey: χ_J* is not a number. The colours end at |log χ_J*| = 1.

    ax: Axes to draw into instead of a new figure. Returns: the Axes. Raises: MeanFieldError without matplotlib.
    """
    import numpy as np

    columns, rows = np.argsort(diagram.sigma_w), np.argsort(diagram.sigma_b)
    w, b = diagram.sigma_w[columns], diagram.sigma_b[rows]
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log(diagram.chi_J[np.ix_(rows, columns)])
    field = np.ma.masked_invalid(np.where(np.isinf(log), np.sign(log) * 2 * _CLIP, log))
    with require().rc_context(LOOK):
        panel = new_figure(WIDTH, 2.9).subplots() if ax is None else ax
        figure = panel.get_figure(root=True)
        assert figure is not None  # axes that are drawn into belong to a figure
        _surface(figure, panel, w, b, field)
        xlim, ylim = (values[[0, -1]] if len(values) > 1 else edges(values) for values in (w, b))
        entries = _boundaries(panel, w, b, field, diagram.line)
        entries |= _marks(panel, w, b, diagram.bistable[np.ix_(rows, columns)], stars(diagram.points, xlim, ylim))
        if field.count() and np.abs(field).max() <= _SAME:
            panel.text(0.5, 0.5, r"$\chi_J^\ast = 1$ everywhere", transform=panel.transAxes, ha="center", va="center")
        panel.set(xlabel=r"$\sigma_w$", ylabel=r"$\sigma_b$", xlim=xlim, ylim=ylim)
        if entries and ax is None:
            figure.legend(entries.values(), entries, loc="outside upper center", ncols=2)
            figure.set_figheight(figure.get_figheight() + 0.15 * ((len(entries) + 1) // 2))
        elif entries:
            panel.legend(entries.values(), entries, frameon=True, framealpha=0.8, edgecolor="none")
        return panel


def _surface(figure: Figure, panel: Axes, w: Any, b: Any, field: Any) -> None:
    """log χ_J* as colours, with their bar; white is 0, NaN grey."""
    from matplotlib.ticker import MaxNLocator

    colours = require().colormaps["RdBu_r"].with_extremes(bad="0.7")
    style = {"cmap": colours, "vmin": -_CLIP, "vmax": _CLIP, "rasterized": True, "linewidth": 0}
    mesh = panel.pcolormesh(edges(w), edges(b), field, **style)
    low, high = bool((field < -_CLIP).any()), bool((field > _CLIP).any())
    extend = "both" if low and high else "min" if low else "max" if high else "neither"
    bar = figure.colorbar(mesh, ax=panel, extend=extend, ticks=[-1, -0.5, 0, 0.5, 1])
    bar.set_label(r"$\log\,\chi_J^\ast$")
    bar.outline.set_linewidth(0.6)
    for side in (panel.xaxis, panel.yaxis):
        side.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))


def _boundaries(panel: Axes, w: Any, b: Any, field: Any, line: Any) -> dict[str, Any]:
    """The derived critical line and the computed contour χ_J* = 1, drawn; the entries of the legend."""
    from matplotlib.lines import Line2D

    entries: dict[str, Any] = {}
    for x, y, stable in critical_curves(line, w, b):
        name = "derived" if stable else r"derived, $K^\ast$ repels"
        style: dict[str, Any] = {"color": COLOURS[4], "linestyle": "-" if stable else (0, (2, 1.5)), "linewidth": 2}
        (entries[name],) = panel.plot(x, y, zorder=2.5, **style)
    if min(field.shape) > 1 and field.count() and field.min() < -_SAME and field.max() > _SAME:
        panel.contour(w, b, field, levels=[0.0], colors="black", linewidths=0.7, zorder=3)
        entries[r"$\chi_J^\ast = 1$, computed"] = Line2D([], [], color="black", linewidth=0.7)
    return entries


def _marks(panel: Axes, w: Any, b: Any, bistable: Any, places: list[tuple[float, float]]) -> dict[str, Any]:
    """Hatching where more than one state of K attracts, and stars at the critical points; the entries of the legend."""
    from matplotlib.patches import Patch

    entries: dict[str, Any] = {}
    if min(bistable.shape) > 1 and bistable.any():
        hatching = panel.contourf(w, b, bistable.astype(float), levels=[0.5, 1.5], colors="none", hatches=["////"])
        hatching.set(edgecolor="black", linewidth=0)
        entries["bistable"] = Patch(facecolor="none", edgecolor="black", hatch="////", linewidth=0)
    if places:
        (entries["critical point"],) = panel.plot(*zip(*places), "*", clip_on=False, zorder=5, **STAR)
    return entries


def edges(centres: Any) -> Any:
    """The borders of the cells around points of an axis; the outermost are as far out as the next ones are in."""
    import numpy as np

    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middle = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([[2 * centres[0] - middle[0]], middle, [2 * centres[-1] - middle[-1]]])


def stars(points: Any, xlim: Any, ylim: Any) -> list[tuple[float, float]]:
    """(σ_w, σ_b) of the critical points inside the axes."""
    pairs = [(p.sigma_w.value, p.sigma_b.value) for p in points or ()]
    found = [(float(x), float(y)) for x, y in pairs if x.is_number and y.is_number]
    return [(x, y) for x, y in found if xlim[0] <= x <= xlim[1] and ylim[0] <= y <= ylim[1]]


def critical_curves(line: Any, w: Any, b: Any) -> list[tuple[Any, Any, bool]]:
    """(σ_w, σ_b, whether the fixed point attracts) of the parts of a derived critical line."""
    import numpy as np
    import sympy as sp

    from meanfield.base.symbols import K, sigma_w

    if line is None or line.kind in ("none", "everywhere", "unknown"):
        return []
    if line.kind == "vertical":
        ends = np.array([b[0], b[-1]])
        return [(np.full(2, float(line.sigma_w)), ends, True)] if line.sigma_w.is_number else []
    try:
        if line.parametric is None:
            x = np.linspace(w[0], w[-1], 400)
            return [(x, _on(line.sigma_b, sigma_w, x), True)]
        k = np.logspace(-6, 6, 400)
        x2, y2 = (_on(e, K, k) for e in line.parametric)
        slope = np.zeros_like(k) if line.chi_K is None else _on(sp.sympify(line.chi_K), K, k)
    except MeanFieldError:  # a symbol without a value, or averages beyond float64: the contour is there
        return []
    crossings = np.flatnonzero(np.nan_to_num(np.diff(np.sign(y2))))  # where it is a number on both sides
    for i in crossings:  # end the curve on σ_b = 0, not at the last sample before it
        out, t = i + (y2[i] >= 0), y2[i] / (y2[i] - y2[i + 1])
        x2[out], y2[out] = x2[i] + t * (x2[i + 1] - x2[i]), 0.0
    with np.errstate(invalid="ignore"):
        x, y, unstable = np.sqrt(x2), np.sqrt(y2), slope > 1
    joined = unstable | np.roll(unstable, 1) | np.roll(unstable, -1)  # the two parts meet
    parts = [(np.where(unstable, np.nan, y), True), (np.where(joined, y, np.nan), False)]
    return [(x, part, stable) for part, stable in parts if np.isfinite(part).any()]


def _on(expr: Any, symbol: Any, values: Any) -> Any:
    """An expression in one symbol at float64 values, averages over N(0, symbol) or N(0, number) included.

    NaN where it is not real.
    """
    import numpy as np
    import sympy as sp

    from meanfield.numeric.lowering.averages.one_gaussian import scalar
    from meanfield.symbolic.averages.node import Average

    nodes = sorted(expr.atoms(Average), key=str)
    names = [sp.Dummy(f"a{i}", real=True) for i in range(len(nodes))]
    outer = expr.xreplace(dict(zip(nodes, names)))
    left = (outer.free_symbols | {s for n in nodes for s in n.free_symbols}) - {symbol, *names}
    if left:
        raise MeanFieldError(f"{expr} cannot be drawn: {min(s.name for s in left)} has no value.")
    known = [
        np.array([scalar(n)(v) for v in values]) if n.has(symbol) else np.full(len(values), float(sp.N(n)))
        for n in nodes
    ]
    with np.errstate(all="ignore"):
        found = sp.lambdify([symbol, *names], outer, modules=["scipy", "numpy"])(values, *known)
    found = np.broadcast_to(np.asarray(found), values.shape)
    return np.where(np.abs(found.imag) > 0, np.nan, found.real).astype(float)
