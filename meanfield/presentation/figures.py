"""Figures of runs, reports and phase diagrams. Matplotlib is imported only when one is drawn, and never through
pyplot's state.

`plot_run`, `plot_report` and `plot_phase_diagram` return a `matplotlib.figure.Figure`, one column (3.4 in) wide; `save`
writes it, whole or not at all.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from meanfield.base.quantities import is_relative, mathtext
from meanfield.base.results import MeanFieldError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".pdf", ".svg")
WIDTH = 3.4  # inches, one column of a two-column page
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito's palette
_RIM = 6.0  # a z panel ends here
LOOK = {
    "font.size": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "mathtext.fontset": "cm",
    "hatch.linewidth": 0.5,
}
STAR: dict[str, Any] = {"color": "black", "markeredgecolor": "white", "markeredgewidth": 0.4, "markersize": 8}
_CLIP = 1.0  # |log χ_J*| beyond this has the last colour: ξ is less than a layer
_SAME = 1e-10  # |log χ_J*| below this is 0: the float64 error of χ_J*
_DECADES = 100  # values beyond 1e100 or below 1e-100 are drawn as their log10


def require() -> Any:
    """The matplotlib package; raises `MeanFieldError` where it is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise MeanFieldError(
            "A figure was asked for, but matplotlib is not installed; try: pip install 'meanfield[plot]'."
        ) from None
    return matplotlib


def plot_run(run: Any, quantities: Iterable[str] | None = None, ax: Axes | Sequence[Axes] | None = None) -> Figure:
    """Quantities of a `Run` against the layer ℓ, one panel each, one curve per parameter point (the first seven).

    quantities: names to draw, by default K and J (or K_ab and c for two inputs). ax: Axes to draw into instead of a
    new figure, one per quantity; a single one without `quantities` shows the first. A vertical axis is logarithmic
    where the values are positive and span more than a factor 30 (log10 of them is drawn where they leave 1e-100 …
    1e100); ℓ is, from 100 layers on, where the first quantity grows or falls like a power.

    Returns: the Figure. Raises: MeanFieldError for a quantity the run does not hold, or without matplotlib.
    """
    import numpy as np

    names = tuple(quantities or [q for q in ("K", "J", "K_ab", "c") if q in run.quantities] or run.quantities)
    given = None if ax is None else list(ax) if isinstance(ax, Iterable) else [ax]
    if given is not None and quantities is None:
        names = names[: len(given)]
    missing = [q for q in names if q not in run.quantities]
    if missing:
        raise MeanFieldError(f"A figure of {missing[0]} was asked for; this run has {', '.join(run.quantities)}.")
    with require().rc_context(LOOK):
        panels = _panels(names, given)
        for name, panel in zip(names, panels):
            label = mathtext(name)
            decades, values = (_intact(run, v) for v in (_log10(run, name), getattr(run, name)))
            wide = np.abs(decades[np.isfinite(decades)]).max(initial=0.0) > _DECADES
            curves = decades if wide else values
            if wide:
                label = rf"$\log_{{10}}$ {label}"
            for i, curve in enumerate(curves[: len(COLOURS)]):
                finite = np.isfinite(curve)
                marker = "" if finite.sum() > 1 else "o"
                panel.plot(run.l[finite], curve[finite], color=COLOURS[i], marker=marker, label=_point(run, i))
            if not wide:
                _scale(panel, curves[: len(COLOURS)][np.isfinite(curves[: len(COLOURS)])])
            panel.set_ylabel(label)
            panel.margins(x=0.02)
        for panel in panels:
            if _like_a_power(_intact(run, _log10(run, names[0]))[0], run.l):
                panel.set_xscale("log")
            else:
                panel.xaxis.set_major_locator(_whole_numbers())
        panels[-1].set_xlabel(r"layer $\ell$")
        figure = panels[0].get_figure(root=True)
        assert figure is not None  # axes that are drawn into belong to a figure
        points = f"first {len(COLOURS)} of {len(curves)} points" if len(curves) > len(COLOURS) else None
        if given is None and len(curves) > 2:  # beside the curves there is no room
            handles, texts = panels[0].get_legend_handles_labels()
            figure.legend(handles, texts, title=points, loc="outside upper center", ncols=2)
            figure.set_figheight(figure.get_figheight() + 0.15 * (len(texts) + 3) / 2)
        else:
            panels[0].legend(title=points)
        return figure


def plot_report(report: Any) -> Figure:
    """A check: theory as a line, the ensemble's mean with a band of ± 2 standard errors, and z below.

    report: anything with `.rows`, each with .quantity .layer .theory .allowance .measured .standard_error .z. One panel
    per quantity. Solid: the theory of infinite width, nothing fitted; dashed, where an allowance was made: theory +
    allowance, which z refers to. The last panel holds every z, with the limits ± 4.

    Returns: the Figure. Raises: MeanFieldError for a report without rows, or without matplotlib.
    """
    import numpy as np

    names = tuple(dict.fromkeys(r.quantity for r in report.rows))
    if not names:
        raise MeanFieldError("A figure was asked for, but the report holds no rows.")
    with require().rc_context(LOOK):
        figure = _figure(1.5 * len(names) + 1.1)
        *panels, below = figure.subplots(len(names) + 1, 1, sharex=True, height_ratios=[1.5] * len(names) + [0.9])
        entries: dict[str, Any] = {}
        for i, (name, panel) in enumerate(zip(names, panels)):
            rows = [r for r in report.rows if r.quantity == name]
            layers = np.array([r.layer for r in rows])
            theory, allowance, mean, error, z = (
                np.array([getattr(r, k) for r in rows], dtype=float)
                for k in ("theory", "allowance", "measured", "standard_error", "z")
            )
            colour = COLOURS[i % len(COLOURS)]
            band = panel.fill_between(layers, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.3, linewidth=0)
            (dots,) = panel.plot(layers, mean, "o", color=colour, markersize=2.5, zorder=3)
            (line,) = panel.plot(layers, theory, color="black", linewidth=0.9)
            entries = {"measured, ± 2 s.e.": (band, dots), "theory": line} | entries  # those of the first panel
            if allowance.any():
                dashed = panel.plot(layers, theory + allowance, color="black", linewidth=0.9, linestyle=(0, (3, 2)))
                entries.setdefault("theory + allowance", dashed[0])
            _scale(panel, np.concatenate([theory, theory + allowance, mean - 2 * error]))
            label = mathtext(name)
            panel.set_ylabel(f"{label} / theory at $n = \\infty$" if is_relative(name) else label)
            z = np.where(np.isnan(z), 0.0, z)
            for inside, marker, size in ((np.abs(z) < _RIM, "o", 2.5), (z >= _RIM, "^", 4), (z <= -_RIM, "v", 4)):
                heights = np.clip(z[inside], -_RIM, _RIM)  # a failure off the scale is an arrow at the rim
                below.plot(layers[inside], heights, marker, color=colour, markersize=size, clip_on=False)
        panels[0].legend(entries.values(), entries)
        for height, style in ((-4, "--"), (0, "-"), (4, "--")):
            below.axhline(height, color="0.4", linewidth=0.6, linestyle=style, zorder=0)
        below.set(ylim=(-_RIM, _RIM), yticks=(-4, 0, 4), ylabel="$z$", xlabel=r"layer $\ell$")
        below.xaxis.set_major_locator(_whole_numbers())
        figure.align_ylabels()
        return figure


def plot_phase_diagram(diagram: Any, ax: Axes | None = None) -> Figure:
    """A `PhaseDiagram`: colour log χ_J* over the (σ_w, σ_b) plane, and where it is 0, computed and derived.

    Thin black: the contour χ_J* = 1 of the computed values. Orange: the derived critical line, solid where its fixed
    point attracts, dashed where it repels (networks then end elsewhere, and so does the boundary). Stars: critical
    points. Hatched: more than one state of K attracts. Grey: χ_J* is not a number. The colours end at |log χ_J*| = 1.

    ax: Axes to draw into instead of a new figure. Returns: the Figure. Raises: MeanFieldError without matplotlib.
    """
    import numpy as np

    columns, rows = np.argsort(diagram.sigma_w), np.argsort(diagram.sigma_b)
    w, b = diagram.sigma_w[columns], diagram.sigma_b[rows]
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log(diagram.chi_J[np.ix_(rows, columns)])
    field = np.ma.masked_invalid(np.where(np.isinf(log), np.sign(log) * 2 * _CLIP, log))
    with require().rc_context(LOOK):
        panel = _figure(2.9).subplots() if ax is None else ax
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
        return figure


def save(figure: Figure, path: str | os.PathLike) -> Path:
    """Write a figure as PNG (300 dots per inch), PDF or SVG, by the path's suffix; whole or not at all."""
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise MeanFieldError(f"{target.name} was asked for; figures are written as {', '.join(FORMATS)}.")
    with require().rc_context(LOOK), io.BytesIO() as buffer:
        figure.savefig(buffer, format=target.suffix.lower()[1:], dpi=300)
        return write_whole(target, buffer.getvalue())


def write_whole(path: str | os.PathLike, content: bytes) -> Path:
    """Put `content` at `path` in one step: a reader sees the old file or the new one, never a part.

    Raises: MeanFieldError where the folder is missing or cannot be written.
    """
    target = Path(path).resolve() if Path(path).is_symlink() else Path(path)
    if target.exists() and not target.is_file():
        raise MeanFieldError(f"{path} cannot be written: it is not a file.")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        try:
            temporary.write_bytes(content)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise MeanFieldError(f"{path} cannot be written: {error.strerror or error}.") from None
    return Path(path)


def _figure(height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH, height), layout="constrained")


def _panels(names: tuple[str, ...], given: list[Axes] | None) -> list[Axes]:
    """The axes to draw into: the caller's, or one under the other in a new figure."""
    if given is None:
        return list(_figure(0.5 + 1.6 * len(names)).subplots(len(names), 1, sharex=True, squeeze=False)[:, 0])
    if len(given) != len(names):
        raise MeanFieldError(f"{len(given)} axes were given for {len(names)} quantities ({', '.join(names)}).")
    return given


def _whole_numbers() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10], min_n_ticks=1)


def _scale(panel: Axes, values: Any) -> None:
    """A logarithmic vertical axis for positive values over more than a factor 30."""
    if len(values) and values.min() > 0 and values.max() > 30 * values.min():
        panel.set_yscale("log")


def _intact(run: Any, values: Any) -> Any:
    """(points, layers) of a quantity, NaN from the layer on at which K diverges."""
    import numpy as np

    lost = np.ravel(run.diverged_at)[:, None]
    return np.where((lost > 0) & (run.l >= lost), np.nan, np.asarray(values, dtype=float).reshape(-1, len(run.l)))


def _log10(run: Any, name: str) -> Any:
    """log10 |quantity| of a run; taken from the logarithm where the run carries one."""
    import numpy as np

    if f"log_{name}" in run.values:
        return run.values[f"log_{name}"] / math.log(10)
    with np.errstate(divide="ignore"):
        return np.log10(np.abs(getattr(run, name)))


def _like_a_power(decades: Any, layers: Any) -> bool:
    """Whether doubling ℓ at the end multiplies the values by a moderate factor: no fixed point, no exponential."""
    if layers[-1] < 100 or len(layers) < 100:
        return False
    factor = abs(decades[-1] - decades[len(decades) // 2])
    return 0.1 < factor < 1.3


def _point(run: Any, i: int) -> str:
    """σ_w and σ_b (and μ) of the i-th point of a run."""
    import numpy as np

    parts, shape = [], np.shape(run.diverged_at)
    for name, symbol in (("sigma_w", r"$\sigma_w$"), ("sigma_b", r"$\sigma_b$"), ("mu", r"$\mu$")):
        if name not in run.parameters:
            continue
        value = np.asarray(run.parameters[name])
        try:
            value = np.broadcast_to(value, shape).ravel()[i]
        except ValueError:  # one value per layer
            parts.append(f"{symbol} per layer")
        else:
            parts.append(f"{symbol} = {float(value):.4g}")
    return ", ".join(parts)


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

    from meanfield.numeric.lowering.scalar import scalar
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
