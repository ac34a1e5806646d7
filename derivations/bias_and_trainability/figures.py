"""The figures that need no training: 1, 3, 22 and 30 by the theory; `write` makes them and those of finite networks.

Each function returns a `matplotlib.figure.Figure`.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
from scipy.special import ndtr

import meanfield as mf
from derivations.bias_and_trainability import correlation_figures, gradient_figures, width_figures
from derivations.bias_and_trainability.pooled_numbers import at_half, pooled
from derivations.bias_and_trainability.pooling import where
from derivations.bias_and_trainability.relu import f, g, gamma
from derivations.drawing import Drawn, write_all
from meanfield.base.storage import files
from meanfield.presentation import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = figures.COLOURS
DRIFTS = (("neutrality", 0.05), ("transition", 1.0), ("prejudice", 10.0))  # γ of figure 1, σ_y² = 1
TALL = 4.0  # the largest σ_w² of figure 3, WIDE the largest σ_b²
RED = "#B00000"
WIDE = 0.2


def figure_1() -> Figure:
    """Two outputs over data, their centres at ±σ_μ, and the density of G_0, up to 5."""
    x = np.linspace(-6, 6, 600)
    with files.require().rc_context(files.LOOK):
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
            law = mf.bias.ClassFraction(value)
            place = law.ppf(ndtr(at))
            inset.plot(place, law.pdf(place), color="black", lw=0.9)
            inset.set(xlim=(0, 1), ylim=(0, 5), xticks=(0, 0.5, 1), yticks=[], xlabel="$G_0$")
            inset.tick_params(labelsize=6)
        return figure


def figure_3(points: int = 80) -> Figure:
    """The phases of ReLU and tanh in the (σ_b², σ_w²) plane: red where gradients turn from vanishing to exploding."""
    with files.require().rc_context(files.LOOK):
        figure = _new(6.8, 3.0)
        left, right = figure.subplots(1, 2, sharey=True)
        for panel, title in ((left, "ReLU"), (right, "tanh")):
            panel.set(
                title=title, xlabel=r"$\sigma_b^2$", xlim=(0, WIDE), ylim=(0, TALL), xticks=np.linspace(0, WIDE, 5)
            )
        left.set_ylabel(r"$\sigma_w^2$")
        line = float(mf.derive("relu").critical_line().sigma_w or 0) ** 2
        _filled(left, [np.full(2, line)], np.array([0.0, WIDE]))
        left.plot([0, WIDE], [line, line], "--", color=RED)
        left.plot(0, line, "o", color=RED, ms=5, clip_on=False)
        _write(left, (line / 2, "ordered: deep prejudice"), ((line + TALL) / 2, "chaotic: deep prejudice"))
        biases, edge, neutral = tanh_lines(points)
        _filled(right, [edge, neutral], biases)
        right.plot(biases, edge, color=RED, label="edge of chaos, $\\chi_1 = 1$")
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


def figure_30() -> Figure:
    """g(γ)/γ and f(γ) of ReLU; both tend to 1."""
    x = np.logspace(-2, 4, 200)
    with files.require().rc_context(files.LOOK):
        figure = _new(3.4, 2.6)
        panel = figure.subplots()
        for e, label, colour in ((g / gamma, r"$g(\gamma)/\gamma$", COLOURS[0]), (f, r"$f(\gamma)$", COLOURS[1])):
            panel.plot(x, sp.lambdify(gamma, e, "numpy")(x), color=colour, label=label)
        panel.axhline(1, color="0.6", lw=0.6, zorder=0)
        panel.set(xscale="log", yscale="log", xlabel=r"$\gamma$")
        panel.legend()
        return figure


def figure_22(points: int = 80) -> Figure:
    """The same with pools of two. Dashed: α = 1, where the paper puts ReLU's edge of chaos; red: χ̃_1 = 1."""
    with files.require().rc_context(files.LOOK):
        figure = _new(6.8, 5.4)
        for row, (kind, top) in zip(figure.subplots(2, 2, sharey="row"), (("max", TALL), ("average", 1.5 * TALL))):
            pool = {"max": "maximum", "average": "mean"}[kind]
            for panel, name in zip(row, ("ReLU", "tanh")):
                panel.set(title=f"{name}, {pool}", xlabel=r"$\sigma_b^2$", xlim=(0, WIDE), ylim=(0, top))
                panel.set(xticks=np.linspace(0, WIDE, 5))
            row[0].set_ylabel(r"$\sigma_w^2$")
            alpha, chi = (float(where(n)(pooled("relu", kind))) for n in ("chi_K", "chi_J"))
            _filled(row[0], [np.full(2, chi)], np.array([0.0, WIDE]), top)
            row[0].plot([0, WIDE], [chi, chi], color=RED, label=r"$\tilde\chi_1 = 1$")
            row[0].plot([0, WIDE], [alpha, alpha], "--", color="black", label=r"$\alpha = 1$")
            row[0].plot(0, alpha, "o", color="black", ms=5, clip_on=False)
            _write(row[0], (alpha / 2, "ordered: deep prejudice"), ((chi + top) / 2, "chaotic: deep prejudice"))
            biases, edge, neutral = pooled_tanh_lines(kind, points)
            _filled(row[1], [edge] if kind == "max" else [edge, neutral], biases, top, deep=False)
            row[1].plot(biases, edge, color=RED, label=r"$\chi_1 = 1$")
            words = ((edge.mean() / 2, "ordered: deep prejudice"), (0.7 * top if kind == "max" else 4.4, "prejudice"))
            _write(row[1], *words)
            if kind != "max":  # the maximum's neutrality line lies beyond σ_w² = 37
                row[1].plot(biases, neutral, color="black", label=r"$c^\ast = 1/2$")
                _write(row[1], (5.6, "neutrality"), at=WIDE / 5)
            for panel in row:
                panel.legend(loc="lower right")
        return figure


def pooled_tanh_lines(kind: str, points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """σ_b² from 0 to `WIDE`, and σ_w² of the critical and neutrality lines of tanh with a pool (inf: beyond 37)."""
    line = pooled("tanh", kind).critical_line()
    places = np.geomspace(0.02, 2.5, points)
    found = np.array([[float(getattr(v, "value", v)) ** 2 for v in line.at(float(k))] for k in places])
    biases = np.linspace(0, WIDE**0.5, 200) ** 2
    first = 1.0 if kind == "max" else 2.0
    edge = np.interp(biases, np.append(0, found[:, 1]), np.append(first, found[:, 0]))
    if kind == "max":
        return biases, edge, np.full_like(edge, np.inf)
    width, bias = np.array([at_half(pooled("tanh", kind), float(k)) for k in places]).T
    return biases, edge, np.interp(biases, np.append(0, bias), np.append(first, width))


def _filled(panel: Axes, lines: list[np.ndarray], x: np.ndarray, top: float = TALL, deep: bool = True) -> None:
    """The regions below, between and above the lines in shades of one colour each; deep: beyond one line is deep
    prejudice, not prejudice."""
    edges = [np.zeros_like(x), *lines, np.full_like(x, top)]
    shades = ("#0072B2", "#D55E00") if deep and len(lines) == 1 else ("#0072B2", "#E69F00", "#009E73")
    for low, high, colour in zip(edges, edges[1:], shades):
        panel.fill_between(x, low, high, color=colour, alpha=0.25, lw=0)


def _write(panel: Axes, *texts: tuple[float, str], at: float = WIDE / 2) -> None:
    for height, text in texts:
        panel.text(at, height, text, ha="center", va="center")


def _new(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def drawn(paper: bool = False) -> Drawn:
    """The figures by name, with networks of the paper's sizes or smaller ones."""
    width = correlation_figures.PAPER if paper else correlation_figures.SMALL
    widths = width_figures.PAPER if paper else width_figures.SMALL
    deep = gradient_figures.PAPER if paper else gradient_figures.SMALL
    return {
        "figure1": figure_1,
        "figure2": partial(correlation_figures.figure_2, width),
        "figure3": figure_3,
        "figure4": partial(gradient_figures.figure_4, deep),
        "figure15": partial(width_figures.figure_15, widths),
        "figure16": partial(width_figures.covariances, "relu", "K_aa", widths),
        "figure17": partial(width_figures.covariances, "relu", "K_ab", widths),
        "figure18": partial(width_figures.covariances, "tanh", "K_aa", widths),
        "figure19": partial(width_figures.covariances, "tanh", "K_ab", widths),
        "figure22": figure_22,
        "figure23": partial(correlation_figures.figure_23, width),
        "figure24": partial(gradient_figures.figure_24, deep),
        "figure25": partial(gradient_figures.figure_25, deep),
        "figure26": partial(gradient_figures.figure_26, deep),
        "figure30": figure_30,
        "figure31": partial(width_figures.figure_31, widths[-1]),
    }


def write(folder: str | os.PathLike, suffix: str = ".png", paper: bool = False) -> list[Path]:
    """All figures into `folder`; returns the files."""
    return write_all(drawn(paper), folder, suffix)
