"""Curves against the layer, and matrices: runs, laws, ensembles, reports of a check, kernels.

Matplotlib is imported only when one is drawn. A new figure is one of pyplot, which a notebook or `plt.show()` shows.

Each function returns the Axes it drew into, an array of them where there are several; a new figure is one column
(3.4 in) wide. The figure of Axes is `axes.figure`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from meanfield.base.answers.export import shows
from meanfield.base.errors import MeanFieldError
from meanfield.base.quantities import is_relative, mathtext
from meanfield.base.storage.files import LOOK, figure_of, new_figure, require
from meanfield.base.words import unknown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RIM = 6.0  # a z panel ends here
_DECADES = 100  # values beyond 1e100 or below 1e-100 are drawn as their log10
WIDTH = 3.4  # inches, one column of a two-column page
#: of the curves of one panel, which grey keeps apart
STYLES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (6, 3)), (0, (1, 3)))
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito's palette


@shows("plot of layers")
def plot_run(run: Any, quantities: Iterable[str] | None = None, ax: Axes | Sequence[Axes] | None = None) -> Any:
    """Quantities of a `Run` against the layer ℓ, one panel each, one curve per parameter point (seven of many).

    quantities: names to draw, by default K and J (or K_ab and c for two inputs). ax: Axes to draw into instead of a
    new figure, one per quantity; a single one without `quantities` shows the first. A vertical axis is logarithmic
    where the values are positive and span more than a factor 30 (log10 of them is drawn where they leave 1e-100 …
    1e100); ℓ is, from 100 layers on, where the first quantity grows or falls like a power.

    Returns: the Axes, an array of them for several quantities. Raises: MeanFieldError for a quantity the run does not
    hold, or without matplotlib.
    """
    import numpy as np

    usual = [q for q in ("K", "J", "K_ab", "c") if q in run.quantities] or run.quantities
    names, given = _chosen_names("run", run.quantities, usual, quantities, ax)
    with require().rc_context(LOOK):
        panels = _panels(names, given)
        for name, panel in zip(names, panels):
            label = mathtext(name)
            decades, values = (_intact(run, v) for v in (_log10(run, name), getattr(run, name)))
            wide = np.abs(decades[np.isfinite(decades)]).max(initial=0.0) > _DECADES
            curves = decades if wide else values
            if wide:
                label = rf"$\log_{{10}}$ {label}"
            picked = np.unique(np.linspace(0, len(curves) - 1, min(len(curves), len(COLOURS))).round().astype(int))
            for colour, style, i in zip(COLOURS, STYLES, picked):
                curve = curves[i]
                finite = np.isfinite(curve)
                marker = "" if finite.sum() > 1 else "o"
                look: Any = {"color": colour, "linestyle": style, "marker": marker}
                panel.plot(run.l[finite], curve[finite], **look, label=_point(run, i))
            if not wide:
                _scale(panel, curves[picked][np.isfinite(curves[picked])])
            panel.set_ylabel(label)
            panel.margins(x=0.02)
        for panel in panels:
            if _like_a_power(_intact(run, _log10(run, names[0]))[0], run.l):
                panel.set_xscale("log")
            else:
                panel.xaxis.set_major_locator(_whole_numbers())
        panels[-1].set_xlabel(r"layer $\ell$")
        figure = figure_of(panels[0])
        points = f"{len(COLOURS)} of {len(curves)} points" if len(curves) > len(COLOURS) else None
        if given is None and len(curves) > 2:  # beside the curves there is no room
            handles, texts = panels[0].get_legend_handles_labels()
            figure.legend(handles, texts, title=points, loc="outside upper center", ncols=2)
            figure.set_figheight(figure.get_figheight() + 0.15 * (len(texts) + 3) / 2)
        else:
            panels[0].legend(title=points)
        return drawn(panels)


def plot_flow(flow: Any, quantities: Iterable[str] | None = None, ax: Any = None) -> Any:
    """Quantities of a `Flow` against t = l/L, one panel each, one curve per point (seven of many).

    quantities, ax and what is returned: as of `plot_run`; every quantity it holds is drawn unless named.
    """
    import numpy as np

    names, given = _chosen_names("flow", flow.quantities, flow.quantities, quantities, ax)
    with require().rc_context(LOOK):
        panels = _panels(names, given)
        for name, panel in zip(names, panels):
            curves = np.reshape(flow[name], (-1, len(flow.t)))
            for colour, style, curve in zip(COLOURS, STYLES, curves):
                panel.plot(flow.t, curve, color=colour, linestyle=style)
            label = mathtext(name.removeprefix("log_"))
            panel.set_ylabel(rf"$\log$ {label}" if name.startswith("log_") else label)
            panel.margins(x=0.02)
        panels[-1].set_xlabel(r"$t = \ell/L$")
        return drawn(panels)


def plot_report(report: Any, ax: Sequence[Axes] | None = None) -> Any:
    """A check: theory as a line, the ensemble's mean with a band of ± 2 standard errors, and z below.

    report: anything with `.rows`, each with .quantity .layer .theory .allowance .measured .standard_error .z. One panel
    per quantity. Solid: the theory of infinite width, nothing fitted; dashed, where an allowance was made: theory +
    allowance, which z refers to. The last panel holds every z, with the limits ± 4.

    ax: one Axes for each quantity and one for z, instead of a new figure. Returns: an array of these. Raises:
    MeanFieldError for a report without rows, or without matplotlib.
    """
    import numpy as np

    names = tuple(dict.fromkeys(r.quantity for r in report.rows))
    if not names:
        raise MeanFieldError("A figure is not available: the report holds no rows.")
    with require().rc_context(LOOK):
        if ax is None:
            figure = new_figure(WIDTH, 1.5 * len(names) + 1.1)
            ax = figure.subplots(len(names) + 1, 1, sharex=True, height_ratios=[1.5] * len(names) + [0.9])
        *panels, below = _panels((*names, "z"), list(ax))
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
        figure_of(below).align_ylabels()
        return drawn([*panels, below])


def plot_estimates(measured: Any, quantities: Iterable[str] | None = None, ax: Any = None) -> Any:
    """An ensemble: the mean of every quantity against the layer, with a band of ± 2 standard errors.

    measured: anything with `.quantities`, `.layers(name)` and `.estimate(name)`. quantities, ax and what is returned:
    as of `plot_run`.
    """
    import numpy as np

    usual = [q for q in measured.quantities if measured.layers(q).size]
    if not quantities and not usual:
        raise MeanFieldError("This ensemble has no layer that every network reached, and so nothing to draw.")
    names, given = _chosen_names("ensemble", measured.quantities, usual, quantities, ax)
    with require().rc_context(LOOK):
        panels = _panels(names, given)
        for i, (name, panel) in enumerate(zip(names, panels)):
            layers, found = measured.layers(name), measured.estimate(name)
            mean, error = np.asarray(found.mean), np.asarray(found.standard_error)
            mean, error = (v.reshape(len(layers), -1)[:, 0] for v in (mean, error))  # of several inputs, the first
            colour = COLOURS[i % len(COLOURS)]
            panel.fill_between(layers, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.3, linewidth=0)
            panel.plot(layers, mean, "o", color=colour, markersize=2.5)
            _scale(panel, (mean - 2 * error)[np.isfinite(mean)])
            panel.set_ylabel(mathtext(name))
            panel.xaxis.set_major_locator(_whole_numbers())
        panels[-1].set_xlabel(r"layer $\ell$")
        return drawn(panels)


@shows("plot of a law")
def plot_law(at: Any, onset: float, name: str, ax: Axes | None = None) -> Axes:
    """A law against l, from its onset over two decades; at: its value at a number l, in doubles.

    Both axes are logarithmic where the law is positive. ax: Axes to draw into. Returns: the Axes.
    """
    import numpy as np

    l = np.geomspace(max(onset, 10.0), 100 * max(onset, 10.0), 100)
    values = np.array([at(x) for x in l])
    with require().rc_context(LOOK):
        panel = new_figure(WIDTH, 2.1).subplots() if ax is None else ax
        panel.plot(l, values, color=COLOURS[0], label=name)
        panel.set(xscale="log", xlabel=r"layer $\ell$", ylabel=mathtext(name))
        _scale(panel, values[np.isfinite(values)])
        return panel


def plot_matrix(values: Any, title: str, ax: Axes | None = None) -> Axes:
    """A matrix as colours, its first row on top. ax: Axes to draw into. Returns: the Axes."""
    with require().rc_context(LOOK):
        panel = new_figure(WIDTH, 2.8).subplots() if ax is None else ax
        image = panel.imshow(values, cmap="cividis", interpolation="nearest")
        figure_of(panel).colorbar(image, ax=panel)
        panel.set_title(mathtext(title))
        return panel


def drawn(panels: Sequence[Axes]) -> Any:
    """One Axes, or an array of several."""
    import numpy as np

    return panels[0] if len(panels) == 1 else np.array(panels, dtype=object)


def _chosen_names(
    what: str, known: Sequence[str], usual: Sequence[str], quantities: Iterable[str] | None, ax: Any
) -> tuple[tuple[str, ...], list[Axes] | None]:
    """(names to draw, Axes that were given): the usual names unless some are asked for, of which given Axes show the
    first. Raises: MeanFieldError for a name that is not known."""
    if quantities is not None and not isinstance(quantities, Iterable):
        raise MeanFieldError(f"quantities= of a plot are names, but {quantities!r} was given.")
    names = tuple(quantities or usual)
    given = None if ax is None else list(ax) if isinstance(ax, Iterable) else [ax]
    if given is not None and quantities is None:
        names = names[: len(given)]
    missing = [n for n in names if n not in known]
    if missing:
        raise unknown(f"quantity of this {what}", missing[0], known)
    return names, given


def _panels(names: tuple[str, ...], given: list[Axes] | None) -> list[Axes]:
    """The axes to draw into: the caller's, or one under the other in a new figure."""
    if given is None:
        return list(new_figure(WIDTH, 0.5 + 1.6 * len(names)).subplots(len(names), 1, sharex=True, squeeze=False)[:, 0])
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
    return bool(0.1 < factor < 1.3)


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
