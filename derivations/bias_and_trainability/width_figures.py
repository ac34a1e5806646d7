"""Figures 15-19 and 31: what a finite width does to γ, and to the covariances of the inputs of one network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

import meanfield as mf
from meanfield.base.storage import files
from meanfield.presentation import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = figures.COLOURS
BIAS = 0.1  # σ_b²
SEED = 42
NEAR = (1.8, 1.9, 2.0, 2.1, 2.2)  # σ_w² of figures 15 and 31
SQUARES = (1.5, 2.0, 2.5)  # σ_w² of figures 16-19
SMALL, PAPER = (500, 1000, 2000, 4000), (1000, 2500, 5000, 10_000)  # widths


def figure_15(widths: Sequence[int] = SMALL, depth: int = 100) -> Figure:
    """|γ of a network/γ - 1| of ReLU in per cent near σ_w² = 2, by width.

    The spread and drift have no bias from the number of inputs, so that the theory starts at σ_μ² = σ_b².
    """
    squares = NEAR[::2]
    exact = _drift(squares, depth)
    with files.require().rc_context(files.LOOK):
        figure, panels = _panels(squares)
        for width, colour in zip(widths, COLOURS):
            found = _measured("relu", squares, width, depth)
            for s, panel in enumerate(panels):
                panel.plot(
                    found.layers, 100 * np.abs(found.gamma[s] / exact[s] - 1), color=colour, label=f"$N = {width}$"
                )
        panels[0].set_ylabel(r"error of $\gamma^{\ell}$ in %")
        for panel in panels:
            panel.set(yscale="log")
        panels[0].legend()
        return figure


def covariances(name: str, quantity: str, widths: Sequence[int] = SMALL, depth: int = 100) -> Figure:
    """The width from the 5 % to the 95 % quantile of K_aa or K_ab in per cent of the median of K_aa (of both)."""
    with files.require().rc_context(files.LOOK):
        figure, panels = _panels(SQUARES)
        for width, colour in zip(widths, COLOURS):
            found = _measured(name, SQUARES, width, depth)
            low, _, high = found.quantiles(quantity)
            (median,) = found.quantiles("K_aa", (0.5,))
            for s, panel in enumerate(panels):
                panel.plot(found.layers, 100 * (high - low)[s] / median[s], color=colour, label=f"$N = {width}$")
        symbol = {"K_aa": "q_{aa}", "K_ab": "q_{ab}"}[quantity]
        panels[0].set_ylabel(f"90 % width of ${symbol}$ in %")
        for panel in panels:
            panel.set(ylim=(0, None))
        panels[0].legend()
        return figure


def figure_31(width: int = SMALL[-1], depth: int = 100) -> Figure:
    """γ of ReLU against depth near σ_w² = 2: exponential below, quadratic on the line and above; dots: a network
    (width 0: none)."""
    exact = _drift(NEAR, depth)
    found = _measured("relu", NEAR, width, depth) if width else None
    layers = np.arange(1, depth + 1)
    some = np.unique(np.geomspace(1, depth, 25).astype(int)) - 1
    with files.require().rc_context(files.LOOK):
        figure, (panel,) = _panels((0,), (3.4, 2.6))
        for s, (square, colour) in enumerate(zip(NEAR, COLOURS)):
            panel.plot(layers, exact[s], "--", color=colour, label=f"$\\sigma_w^2 = {square:g}$")
            if found is not None:
                panel.plot(layers[some], found.gamma[s][some], ".", color=colour, ms=4)
        panel.set(title="", xscale="log", yscale="log", ylabel=r"$\gamma^{\ell}$")
        panel.legend()
        return figure


@lru_cache(maxsize=8)  # K_aa and K_ab are of the same networks: figures 16 and 17, 18 and 19
def _measured(name: str, squares: tuple[float, ...], width: int, depth: int):
    return mf.measure_pairs(name, sigma_w=np.sqrt(squares), sigma_b=BIAS**0.5, width=width, depth=depth, seed=SEED)


def _drift(squares: Sequence[float], depth: int) -> np.ndarray:
    return (
        mf.derive("relu")
        .propagate(sigma_w=np.sqrt(squares), sigma_b=BIAS**0.5, depth=depth, correlation=0.0, quantities=("c", "gamma"))
        .gamma
    )


def _panels(squares: Sequence[float], size: tuple[float, float] = (6.8, 2.4)):
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(squares), sharey=True, squeeze=False)[0]
    for panel, square in zip(panels, squares):
        panel.set(title=f"$\\sigma_w^2 = {square:g}$", xlabel=r"layer $\ell$")
    return figure, panels
