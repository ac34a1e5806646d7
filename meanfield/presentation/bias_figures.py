"""The figure of a `BiasDiagram`: phases as colours, with their names, and the lines that part them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meanfield.base.answers.drawing import WIDTH
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.storage.files import LOOK, new_figure, require
from meanfield.bias.guessing import BiasPhase
from meanfield.presentation.figures import STAR, critical_curves, edges, stars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHADES = {
    BiasPhase.ORDERED_DEEP_PREJUDICE: "#9ecae1",
    BiasPhase.TRANSIENT_DEEP_PREJUDICE: "#000000",
    BiasPhase.CHAOTIC_DEEP_PREJUDICE: "#fdae6b",
    BiasPhase.PREJUDICE: "#e8d9a0",
    BiasPhase.NEUTRALITY: "#a1d99b",
    BiasPhase.BALANCE: "#006d2c",
    BiasPhase.DIVERGENT_DEEP_PREJUDICE: "#a63603",
    BiasPhase.VANISHING_DEEP_PREJUDICE: "#4292c6",
    BiasPhase.BY_THE_START: "#dadaeb",
    BiasPhase.UNKNOWN: "#b3b3b3",
}
FAINT = 0.002  # of the area: smaller phases are lines or dots, drawn, but not named


def plot_bias_diagram(diagram: Any, ax: Axes | None = None, *, squared: bool = True) -> Axes:
    """A `BiasDiagram`: the phases as colours, the derived lines χ_J* = 1 (black; dashed where its fixed point repels)
    and c* = 1/2 (dotted), which is γ* = 1.

    ax: Axes to draw into instead of a new figure. squared: σ_b² to the right and σ_w² upwards; else σ_w and σ_b. A
    phase on less than 0.2 % of the area has no entry in the legend. Stars: critical points.

    Returns: the Axes. Raises: MeanFieldError without matplotlib.
    """
    import numpy as np

    columns, rows = np.argsort(diagram.sigma_w), np.argsort(diagram.sigma_b)
    w, b = diagram.sigma_w[columns], diagram.sigma_b[rows]
    field = diagram.phase[np.ix_(rows, columns)]
    lines = _lines(diagram, w, b)
    x, y, picture = w, b, field
    labels = r"$\sigma_w$", r"$\sigma_b$"
    if squared:
        x, y, picture, labels = b**2, w**2, field.T, (r"$\sigma_b^2$", r"$\sigma_w^2$")
        lines = [(v**2, u**2, style) for u, v, style in lines]
    with require().rc_context(LOOK):
        from matplotlib.colors import BoundaryNorm, ListedColormap
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch
        from matplotlib.ticker import MaxNLocator

        panel = new_figure(WIDTH, 2.9).subplots() if ax is None else ax
        figure = panel.get_figure(root=True)
        assert figure is not None  # axes that are drawn into belong to a figure
        shades = ListedColormap(list(SHADES.values()))
        norm = BoundaryNorm(np.arange(len(SHADES) + 1) - 0.5, len(SHADES))
        panel.pcolormesh(edges(x), edges(y), picture, cmap=shades, norm=norm, rasterized=True, linewidth=0)
        area = np.abs(np.diff(edges(y))[:, None] * np.diff(edges(x)))
        entries: dict[str, Any] = {}
        for i, (phase, shade) in enumerate(SHADES.items()):
            if area[picture == i].sum() > FAINT * area.sum():
                entries[phase.value] = Patch(facecolor=shade, edgecolor="0.4", linewidth=0.4)
        for across, up, name in lines:
            panel.plot(across, up, zorder=3, **_STYLES[name])
            entries[name] = Line2D([], [], **_STYLES[name])
        marks = stars(diagram.points, *([v[0], v[-1]] for v in (w, b)))
        if marks:
            places = [(v**2, u**2) if squared else (u, v) for u, v in marks]
            entries["critical point"] = panel.plot(*zip(*places), "*", clip_on=False, zorder=5, **STAR)[0]
        spread = [v[[0, -1]] if len(v) > 1 else edges(v) for v in (x, y)]
        panel.set(xlabel=labels[0], ylabel=labels[1], xlim=spread[0], ylim=spread[1])
        for side in (panel.xaxis, panel.yaxis):
            side.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        if ax is None:
            figure.legend(entries.values(), entries, loc="outside upper center", ncols=2)
            figure.set_figheight(figure.get_figheight() + 0.15 * ((len(entries) + 1) // 2))
        else:
            panel.legend(entries.values(), entries, frameon=True, framealpha=0.8, edgecolor="none")
        return panel


_STYLES: dict[str, dict[str, Any]] = {
    r"$\chi_J^\ast = 1$": {"color": "black", "linewidth": 1.0},
    r"$\chi_J^\ast = 1$, $K^\ast$ repels": {"color": "black", "linewidth": 1.0, "linestyle": (0, (2, 1.5))},
    r"$c^\ast = 1/2$": {"color": "black", "linewidth": 1.0, "linestyle": (0, (1, 1))},
}


def _lines(diagram: Any, w: Any, b: Any) -> list[tuple[Any, Any, str]]:
    """(σ_w, σ_b, name) along the critical line and the line of neutrality."""
    import numpy as np

    names = list(_STYLES)
    out = [(x, y, names[0 if stable else 1]) for x, y, stable in critical_curves(diagram.line, w, b)]
    if diagram.neutrality is not None:
        try:
            w2, b2 = diagram.neutrality.squares(np.logspace(-5, 5, 301))
        except MeanFieldError:  # averages that end before: the colours show it
            return out
        with np.errstate(all="ignore"):
            x, y = np.sqrt(w2), np.sqrt(b2)
        seen = (x <= 2 * w[-1]) & (y <= 2 * b[-1] + 1e-9)
        if seen.any():
            out.append((np.where(seen, x, np.nan), np.where(seen, y, np.nan), names[2]))
    return out
