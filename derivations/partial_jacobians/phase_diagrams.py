"""Figure 2: χ_J* over the (σ_w, σ_b) plane, 18 panels, with χ of finite networks where they are given."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.partial_jacobians.sizes import Sizes
from derivations.quantities import derived
from meanfield.base.storage import files
from meanfield.base.symbols import K, sigma_w
from meanfield.presentation import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = figures.COLOURS

ROWS = (("relu", "ReLU"), ("erf", "erf"), ("gelu", "GELU"))
COLUMNS = tuple((norm, mu) for norm in (None, "pre") for mu in ("0", "1/2", "1"))
PANELS = tuple((name, norm, mu) for name, _ in ROWS for norm, mu in COLUMNS)


@dataclass(frozen=True)
class Measured:
    """χ of finite networks: the axes, and one (len(sigma_b), len(sigma_w)) array for each of the 18 `PANELS`."""

    sigma_w: np.ndarray
    sigma_b: np.ndarray
    chi: np.ndarray

    @staticmethod
    def load(path: str | os.PathLike) -> Measured:
        """From an .npz file with sigma_w, sigma_b and chi of shape (18, points) or (18, rows, columns)."""
        with np.load(path) as data:
            w, b, chi = data["sigma_w"], data["sigma_b"], data["chi"]
        return Measured(w, b, chi.reshape(len(PANELS), b.size, w.size))

    @staticmethod
    def run(sizes: Sizes, high: float = 3.0) -> Measured:
        """From `criticality_grid`: all panels share their weights. Depth 50."""
        from meanfield.empirical import criticality_grid

        w, b = np.linspace(high / sizes.grid, high, sizes.grid), np.linspace(0, high, sizes.grid)
        points = [a.ravel() for a in np.meshgrid(w, b)]
        blocks = [mf.derive(name, norm=norm, mu=mu).block for name, norm, mu in PANELS]
        found = criticality_grid(
            blocks,
            sigma_w=points[0],
            sigma_b=points[1],
            width=sizes.width,
            networks=sizes.networks,
            seed=sizes.seed,
        )
        return Measured(w, b, found.chi.reshape(len(PANELS), b.size, w.size))


def diagrams(points: int = 61, high: float = 3.0) -> dict[tuple[str, str | None, str], mf.presentation.PhaseDiagram]:
    """The 18 phase diagrams, inputs with |x|²/N_0 = 1."""
    w, b = np.linspace(high / points, high, points), np.linspace(0.0, high, points)
    return {
        (name, norm, mu): mf.derive(name, norm=norm, mu=mu).phase_diagram(sigma_w=w, sigma_b=b)
        for name, norm, mu in PANELS
    }


def figure_2(
    found: dict[tuple[str, str | None, str], mf.presentation.PhaseDiagram] | None = None,
    measured: Measured | None = None,
) -> Figure:
    """χ_J* over (σ_w, σ_b) for ReLU, erf, GELU; μ = 0, ½, 1; without and with LayerNorm on preactivations.

    measured: χ of finite networks; its contour χ = 1 is drawn in green (the hook for `criticality_grid`).
    """
    from matplotlib.figure import Figure

    found = found or diagrams()
    with files.require().rc_context(files.LOOK | {"axes.titlesize": 8}):
        figure = Figure(figsize=(11.0, 5.6), layout="constrained")
        grid = figure.subplots(len(ROWS), len(COLUMNS), sharex=True, sharey=True)
        for k, (name, norm, mu) in enumerate(PANELS):
            panel, diagram = grid[k // len(COLUMNS), k % len(COLUMNS)], found[name, norm, mu]
            image = _panel(panel, diagram)
            if norm and mu == "1":  # dotted: the critical line of μ < 1
                at = _along_ray(derived(mf.derive(name, norm=norm), "line sigma_b"), 3.0)
                panel.plot(*at, ":", color="black", lw=1.2, scalex=False, scaley=False)
            if measured is not None and np.isfinite(measured.chi[k]).any():
                values = np.ma.masked_invalid(measured.chi[k])
                panel.contour(measured.sigma_w, measured.sigma_b, values, [1.0], colors=COLOURS[2], linewidths=0.9)
            if k < len(COLUMNS):
                panel.set_title(f"{'LN, ' if norm else ''}$\\mu = {mu}$")
            panel.set(xlabel=r"$\sigma_w$" if k >= 12 else "", ylabel="")
            if k % len(COLUMNS) == 0:
                panel.set_ylabel(f"{ROWS[k // len(COLUMNS)][1]}\n$\\sigma_b$")
        figure.legend(handles=_legend(measured is not None), loc="outside lower center", ncols=7)
        figure.colorbar(image, ax=grid, label=r"$\log\,\chi_J^\ast$", shrink=0.7, extend="both")
        return figure


def _legend(measured: bool) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    lines = [
        ("critical line, $K^\\ast$ stable", COLOURS[4], "-", 1.6),
        ("$K^\\ast$ unstable", COLOURS[4], "--", 1.6),
        (r"$\chi_J^\ast = 1$ where $K^1$ flows", "black", "-", 0.6),
        (r"critical line of $\mu < 1$", "black", ":", 1.2),
    ]
    if measured:
        lines.append((r"$\chi = 1$ of finite networks", COLOURS[2], "-", 0.9))
    handles: list[Any] = [Line2D([], [], color=c, ls=style, lw=width, label=text) for text, c, style, width in lines]
    handles.append(Line2D([], [], color="black", marker="*", ls="", ms=7, label="critical point"))
    return [*handles, Patch(facecolor="none", edgecolor="black", hatch="////", label="bistable")]


def _panel(panel: Axes, diagram: mf.presentation.PhaseDiagram) -> Any:
    """One phase diagram: colour, contour χ_J = 1 (thin), derived line (thick; dashed: unstable K*), stars, hatching."""
    w, b = diagram.sigma_w, diagram.sigma_b
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.clip(np.log(diagram.chi_J), -1.2, 1.2)
    image = panel.pcolormesh(w, b, log, cmap="RdBu_r", vmin=-1, vmax=1, shading="nearest", rasterized=True)
    if diagram.bistable.any():
        panel.contourf(w, b, diagram.bistable.astype(float), [0.5, 1.5], colors="none", hatches=["////"])
    if np.nanmin(log) < -1e-9 and np.nanmax(log) > 1e-9:
        panel.contour(w, b, log, [0.0], colors="black", linewidths=0.6)
    for x, y, style in critical_curves(diagram):
        panel.plot(x, y, style, color=COLOURS[4], lw=1.6, scalex=False, scaley=False)
    for point in diagram.points or ():
        at = float(point.sigma_w.value), float(point.sigma_b.value)
        panel.plot(*at, "*", color="black", ms=7, clip_on=False, scalex=False, scaley=False)
    panel.set(xlim=(0, w[-1]), ylim=(0, b[-1]))
    return image


def critical_curves(diagram: mf.presentation.PhaseDiagram) -> list[tuple[np.ndarray, np.ndarray, str]]:
    """The derived critical line as curves (σ_w, σ_b, style): solid where its fixed point attracts, dashed elsewhere."""
    line = diagram.line
    if line is None or line.kind in ("none", "everywhere"):
        return []
    high = max(diagram.sigma_w[-1], diagram.sigma_b[-1])
    if line.kind == "vertical" and line.sigma_w is not None:
        return [(np.full(2, float(line.sigma_w)), np.array([0.0, high]), "-")]
    if line.parametric is None or line.kind == "ray":
        return [] if line.sigma_b is None else [(*_along_ray(line.sigma_b, high), "-")]
    k = np.geomspace(1e-5, 1e5, 800)
    w2, b2, chi = (
        np.broadcast_to(sp.lambdify(K, mf.symbolic.closed(e), "numpy")(k), k.shape)
        for e in (*line.parametric, line.chi_K or 0 * K)
    )
    good = b2 >= 0
    w, b = np.sqrt(np.where(good, w2, np.nan)), np.sqrt(np.where(good, b2, np.nan))
    stable, unstable = np.where(chi <= 1 + 1e-12, b, np.nan), np.where(chi >= 1 - 1e-12, b, np.nan)
    return [(w, stable, "-"), (w, unstable, "--")]


def _along_ray(bias: sp.Expr, high: float) -> tuple[np.ndarray, np.ndarray]:
    """σ_b proportional to σ_w, from 0 to σ_w = high."""
    return np.array([0.0, high]), np.array([0.0, high * float(sp.N(bias.subs(sigma_w, 1), 17))])
