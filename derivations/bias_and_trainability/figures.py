"""The figures that need no training, by the theory: 1, 2, 3, 30, and the γ that figure 15 compares networks with.

Each function returns a `matplotlib.figure.Figure`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.bias_and_trainability.fractions import delta, density, fraction
from derivations.bias_and_trainability.fractions import gamma as drift
from derivations.bias_and_trainability.fractions import v as spread
from derivations.bias_and_trainability.relu import f, g, gamma
from meanfield.presentation import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = figures.COLOURS
BIAS = 0.1  # σ_b² of figures 2 and 15
WIDTHS = (1.0, 1.5, 2.0, 2.5, 3.0)  # σ_w² of figure 2, from ordered to chaotic
NEAR = (1.8, 1.9, 2.0, 2.1, 2.2)  # σ_w² of figure 15
DRIFTS = (("neutrality", 0.05), ("transition", 1.0), ("prejudice", 10.0))  # γ of figure 1, σ_y² = 1
TALL = 4.0  # the largest σ_w² of figure 3, WIDE the largest σ_b²
WIDE = 0.2


def figure_1() -> Figure:
    """Two outputs over data, their centres at ±σ_μ, and the density of G_0, up to 5."""
    x = np.linspace(-6, 6, 600)
    relu = mf.derive("relu")  # G_0 depends on γ alone
    with figures.require().rc_context(figures.LOOK):
        figure = _new(6.8, 2.4)
        for panel, (name, value) in zip(figure.subplots(1, 3), DRIFTS):
            for sign, colour in zip((-1, 1), COLOURS):
                centre = sign * value**0.5
                panel.fill_between(
                    x, np.exp(-((x - centre) ** 2) / 2) / (2 * np.pi) ** 0.5, color=colour, alpha=0.5, lw=0
                )
            panel.set(title=f"{name}, $\\gamma = {value:g}$", xlabel="$y$", yticks=[], ylim=(0, 0.9), xlim=(-6, 6))
            inset = panel.inset_axes((0.3, 0.68, 0.4, 0.26))
            at = np.linspace(-1, 1, 801) * 3.2 / max(value, 1) ** 0.5  # of δ; the ends of G_0 are left out
            here = {drift: sp.Float(value), spread: 1}
            place, height = (sp.lambdify(delta, e.subs(here), "scipy")(at) for e in (fraction(relu), density(relu)))
            inset.plot(place, np.broadcast_to(height, at.shape), color="black", lw=0.9)
            inset.set(xlim=(0, 1), ylim=(0, 5), xticks=(0, 0.5, 1), yticks=[], xlabel="$G_0$")
            inset.tick_params(labelsize=6)
        return figure


def figure_2(depth: int = 100) -> Figure:
    """c against depth for orthogonal inputs at σ_b² = 0.1, with its limit, and below its distance from that."""
    with figures.require().rc_context(figures.LOOK):
        figure = _new(6.8, 4.2)
        panels = figure.subplots(2, 2, sharex="row")
        for (above, below), name in zip(panels.T, ("relu", "tanh")):
            theory = mf.derive(name)
            above.set(title="ReLU" if name == "relu" else "tanh", xlabel=r"layer $\ell$", ylabel=r"$c^{\ell}$")
            for square, colour in zip(WIDTHS, COLOURS):
                run = _run(theory, square, depth)
                stable = theory.correlations(sigma_w=f"sqrt({square})", sigma_b=f"sqrt({BIAS})").stable
                assert stable is not None, "the correlation settles at σ_b > 0"
                limit = stable.c
                line = {"color": colour, "ls": "--" if square == WIDTHS[-1] else "-"}  # ReLU's last two coincide
                above.plot(run.l, run.c.ravel(), **line, label=f"$\\sigma_w^2 = {square:g}$")
                above.plot(depth * 1.04, limit, "o", color=colour, ms=3, clip_on=False)
                far = 1 / (1 + run.gamma.ravel()) if limit == 1 else np.abs(run.c.ravel() - limit)
                below.plot(run.l, far, **line)
            below.set(xscale="log", yscale="log", xlabel=r"layer $\ell$", ylabel=r"$|c^{\ell} - c^\ast|$")
            below.set(ylim=(1e-8, 1.5))
        panels[0, 0].legend(loc="lower right")
        return figure


def figure_3(points: int = 80) -> Figure:
    """The phases of ReLU and tanh in the (σ_b², σ_w²) plane: red where gradients turn from vanishing to exploding."""
    with figures.require().rc_context(figures.LOOK):
        figure = _new(6.8, 3.0)
        left, right = figure.subplots(1, 2, sharey=True)
        for panel, title in ((left, "ReLU"), (right, "tanh")):
            panel.set(
                title=title, xlabel=r"$\sigma_b^2$", xlim=(0, WIDE), ylim=(0, TALL), xticks=np.linspace(0, WIDE, 5)
            )
        left.set_ylabel(r"$\sigma_w^2$")
        line = float(mf.derive("relu").critical_line().sigma_w or 0) ** 2
        _filled(left, [np.full(2, line)], np.array([0.0, WIDE]))
        left.plot([0, WIDE], [line, line], "--", color="#B00000")
        left.plot(0, line, "o", color="#B00000", ms=5, clip_on=False)
        _write(left, (line / 2, "ordered: deep prejudice"), ((line + TALL) / 2, "chaotic: deep prejudice"))
        biases, edge, neutral = tanh_lines(points)
        _filled(right, [edge, neutral], biases)
        right.plot(biases, edge, color="#B00000", label="edge of chaos, $\\chi_1 = 1$")
        right.plot(biases, neutral, color="black", label=r"$c^\ast = 1/2$")
        _write(right, (1.2, "ordered: deep prejudice"), (2.55, "prejudice"), (3.5, "neutrality"))
        right.legend(loc="lower right")
        return figure


def tanh_lines(points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """σ_b² from 0 to `WIDE`, and σ_w² of tanh's critical and neutrality lines there; both begin at (0, 1)."""
    theory = mf.derive("tanh")
    edge, neutral = theory.critical_line(), theory.neutrality_line()
    places = np.geomspace(0.02, 2.5, points)
    curves = []
    for line in (edge, neutral):
        found = [line.at(float(k)) for k in places]
        square_w, square_b = (np.array([float(getattr(v, "value", v)) ** 2 for v in side]) for side in zip(*found))
        curves.append((np.append(0, square_b), np.append(1, square_w)))
    biases = np.linspace(0, WIDE**0.5, 200) ** 2
    return (biases, *(np.interp(biases, *curve) for curve in curves))


def figure_15(depth: int = 100) -> Figure:
    """γ of ReLU against depth near σ_w² = 2 at σ_b² = 0.1: exponential below, quadratic on the line and above."""
    with figures.require().rc_context(figures.LOOK):
        figure = _new(3.4, 2.6)
        panel = figure.subplots()
        for square, colour in zip(NEAR, COLOURS):
            run = _run(mf.derive("relu"), square, depth)
            panel.plot(run.l, run.gamma.ravel(), color=colour, label=f"$\\sigma_w^2 = {square:g}$")
        panel.set(xscale="log", yscale="log", xlabel=r"layer $\ell$", ylabel=r"$\gamma^{\ell}$")
        panel.legend()
        return figure


def figure_30() -> Figure:
    """g(γ)/γ and f(γ) of ReLU; both tend to 1."""
    x = np.logspace(-2, 4, 200)
    with figures.require().rc_context(figures.LOOK):
        figure = _new(3.4, 2.6)
        panel = figure.subplots()
        for e, label, colour in ((g / gamma, r"$g(\gamma)/\gamma$", COLOURS[0]), (f, r"$f(\gamma)$", COLOURS[1])):
            panel.plot(x, sp.lambdify(gamma, e, "numpy")(x), color=colour, label=label)
        panel.axhline(1, color="0.6", lw=0.6, zorder=0)
        panel.set(xscale="log", yscale="log", xlabel=r"$\gamma$")
        panel.legend()
        return figure


def _run(theory: mf.Theory, square: float, depth: int):
    return theory.propagate(
        sigma_w=square**0.5, sigma_b=BIAS**0.5, depth=depth, correlation=0.0, quantities=("c", "gamma")
    )


def _filled(panel: Axes, lines: list[np.ndarray], x: np.ndarray) -> None:
    """The regions below, between and above the lines in shades of one colour each."""
    edges = [np.zeros_like(x), *lines, np.full_like(x, TALL)]
    shades = ("#0072B2", "#E69F00", "#009E73") if len(lines) == 2 else ("#0072B2", "#D55E00")
    for low, high, colour in zip(edges, edges[1:], shades):
        panel.fill_between(x, low, high, color=colour, alpha=0.25, lw=0)


def _write(panel: Axes, *texts: tuple[float, str]) -> None:
    for height, text in texts:
        panel.text(WIDE / 2, height, text, ha="center", va="center")


def _new(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def write(folder: str | os.PathLike, suffix: str = ".png") -> list[Path]:
    """All figures into `folder`; returns the files."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    made = {
        "figure1": figure_1(),
        "figure2": figure_2(),
        "figure3": figure_3(),
        "figure15": figure_15(),
        "figure30": figure_30(),
    }
    return [figures.save(figure, target / f"{name}{suffix}") for name, figure in made.items()]
