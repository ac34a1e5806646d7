"""Figures 2 and 23: c of one network against depth, without and with pools of two, beside the theory.

Solid: γ/(1 + γ) of a network's spread σ_y² and drift σ_μ² over 100 inputs; shaded: from the 5 % to the 95 % quantile of
the correlations of all its pairs of inputs; dashed: the theory; dots: its limit. Below, the distance from the limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import meanfield as mf
from derivations.claims import Network, network
from meanfield.base.storage import files
from meanfield.presentation import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = figures.COLOURS
BIAS = 0.1  # σ_b²
SEED = 42
SQUARES = (1.0, 1.5, 2.0, 2.5, 3.0)  # σ_w² of figure 2, from ordered to chaotic
SMALL, PAPER = 2000, 10_000  # widths
PLAIN = (("ReLU", network("relu"), SQUARES), ("tanh", network("tanh"), SQUARES))
POOLED = (
    ("ReLU, maximum", network("relu", pool="max"), (0.5, 0.8, 1.1, 4 / 3, 1.6)),
    ("ReLU, mean", network("relu", pool="average"), (1.5, 2.25, 3.03, 4.0, 5.0)),
    ("tanh, maximum", network("tanh", pool="max"), SQUARES),
    ("tanh, mean", network("tanh", pool="average"), (2.0, 3.0, 3.97, 5.0, 6.0)),
)
LONGEST = 30  # layers of the theory of a maximum, whose map is slow


def figure_2(width: int = SMALL, depth: int = 100) -> Figure:
    """c against depth for orthogonal inputs at σ_b² = 0.1; width 0 leaves the network out."""
    return _drawn(PLAIN, width, depth)


def figure_23(width: int = SMALL, depth: int = 100) -> Figure:
    """The same with pools of two. Where q grows, γ/(1 + γ) stays below 1 by the spread of the inputs' norms (E34)."""
    return _drawn(POOLED, width, depth)


def _drawn(cases: tuple[tuple[str, Network, tuple[float, ...]], ...], width: int, depth: int) -> Figure:
    from matplotlib.figure import Figure

    with files.require().rc_context(files.LOOK):
        figure = Figure(figsize=(3.4 * len(cases), 4.2), layout="constrained")
        panels = figure.subplots(2, len(cases), sharex="row", squeeze=False)
        for (above, below), (title, case, squares) in zip(panels.T, cases):
            ends = [_limit(case, square) for square in squares]
            _network(above, below, case, squares, ends, width, depth)
            _theory(above, below, case, squares, ends, depth)
            above.set(title=title, xlabel=r"layer $\ell$", ylim=(0, 1.02))
            below.set(xscale="log", yscale="log", xlabel=r"layer $\ell$", ylim=(1e-8, 1.5))
            above.legend(loc="lower right", ncols=2)
        panels[0, 0].set_ylabel(r"$c^{\ell}$")
        panels[1, 0].set_ylabel(r"$|c^{\ell} - c^\ast|$")
        return figure


def _limit(case: Network, square: float) -> float:
    """The stable c*; of ReLU it is 1 everywhere (Lemmas F.6, F.8, H.1)."""
    if case.activation == "relu":
        return 1.0
    stable = case.theory.correlations(sigma_w=f"sqrt({square})", sigma_b=f"sqrt({BIAS})").stable
    assert stable is not None, "the correlation settles at σ_b > 0"
    return float(stable.c)


def _network(above: Axes, below: Axes, case: Network, squares: tuple, ends: list[float], width: int, depth: int):
    if not width:
        return
    found = mf.measure_pairs(
        case.theory, sigma_w=np.sqrt(squares), sigma_b=BIAS**0.5, width=width, depth=depth, seed=SEED
    )
    low, _, high = found.quantiles("c")
    for s, (colour, end) in enumerate(zip(COLOURS, ends)):
        gamma = found.gamma[s]
        above.plot(found.layers, found.c[s], color=colour)
        above.fill_between(found.layers, low[s], high[s], color=colour, alpha=0.25, lw=0)
        below.plot(found.layers, 1 / (1 + gamma) if end == 1 else np.abs(found.c[s] - end), color=colour)


def _theory(above: Axes, below: Axes, case: Network, squares: tuple, ends: list[float], depth: int):
    layers = min(depth, LONGEST) if dict(case.keywords).get("pool") == "max" else depth
    run = case.theory.propagate(
        sigma_w=np.sqrt(squares), sigma_b=BIAS**0.5, depth=layers, correlation=0.0, quantities=("K_ab", "c", "gamma")
    )
    for c, gamma, square, colour, end in zip(run.c, run.gamma, squares, COLOURS, ends):
        above.plot(run.l, c, "--", color=colour, lw=0.9, label=f"$\\sigma_w^2 = {square:.3g}$")
        above.plot(depth * 1.04, end, "o", color=colour, ms=3, clip_on=False)
        below.plot(run.l, 1 / (1 + gamma) if end == 1 else np.abs(c - end), "--", color=colour, lw=0.9)
