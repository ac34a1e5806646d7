"""Figures 4 and 24-26: gradients of a cross-entropy in networks as they are drawn, of all inputs and of two classes.

Rows: activations; columns: the inputs of all classes, of the class that the network prefers and of the one it likes
least. Solid: the median over inputs, then over networks; dashed: the theory's product of χ_J, to the last layer, where
the theory knows the block: that of figure 26 ends in φ, and its networks stand alone.
Images are replaced by independent Gaussian inputs, which belong to classes by chance. What is 0 is not drawn: in the
chaotic phase the preferred class of ReLU has no gradient at all, and of two classes the median of all inputs may have
none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

import meanfield as mf
from meanfield.base.storage import files
from meanfield.presentation import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from meanfield.networks.records import Block

COLOURS = figures.COLOURS
BIAS = 0.1  # σ_b²
SQUARES = (1.5, 2.0, 2.5)  # σ_w²: ordered, at the edge of ReLU, chaotic
GROUPS = (("delta2", "all classes"), ("delta2_favoured", "preferred class"), ("delta2_unfavoured", "least liked"))
SMALL, PAPER = 200, 1000  # widths
LEAST = 1e-20  # below it nothing is drawn
INPUTS, NETWORKS, SEED = 100, 3, 42


def plain(phi: str, depth: int, square: float) -> Block:
    """z′ = W φ(z) + b, which is the same for all depths and σ's."""
    return mf.architectures.mlp(phi)


def residual(phi: str, depth: int, square: float) -> Block:
    """x′ = φ(x + (W x + b)/√L): the branch is scaled by the depth."""
    branch = mf.Dense(sigma_w=f"sqrt({square}/{depth})", sigma_b=f"sqrt({BIAS}/{depth})")
    return mf.Sequential((mf.Residual(branch, 1), mf.Nonlinearity(phi)))


def profiles(block: Block, square: float, classes: int, width: int, depth: int) -> dict[str, np.ndarray]:
    """The median square of ∂loss/∂z^l by group, for l = 1 … depth."""
    run = mf.measure(
        block, sigma_w=square**0.5, sigma_b=BIAS**0.5, quantities=("delta2",), classes=classes, batch=INPUTS,
        width=width, depth=depth, networks=NETWORKS, seed=SEED,
    )  # fmt: skip
    return {name: np.median(run.samples[name], axis=0) for name, _ in GROUPS}


def products(phi: str, square: float, depth: int) -> np.ndarray:
    """The product of χ_J from layer l to the last, for l = 1 … depth."""
    log_J = mf.derive(phi).propagate(sigma_w=square**0.5, sigma_b=BIAS**0.5, depth=depth).log_J
    return np.exp(log_J[-1] - log_J)


def gradients(
    activations: tuple[str, ...], classes: int, network: Callable[..., Block], width: int, depth: int
) -> Figure:
    """One row of three panels an activation."""
    from matplotlib.figure import Figure

    layers = np.arange(1, depth + 1)
    with files.require().rc_context(files.LOOK):
        figure = Figure(figsize=(7.2, 2.2 * len(activations) + 0.3), layout="constrained")
        rows = figure.subplots(len(activations), len(GROUPS), sharex=True, sharey="row", squeeze=False)
        for phi, row in zip(activations, rows):
            for square, colour in zip(SQUARES, COLOURS):
                found = profiles(network(phi, depth, square), square, classes, width, depth)
                for panel, (name, title) in zip(row, GROUPS):
                    seen = np.where(found[name] > 0, found[name], np.nan)
                    panel.plot(layers, seen, color=colour, label=f"$\\sigma_w^2 = {square:g}$")
                    panel.set_title(f"{'ReLU' if phi == 'relu' else phi}, {title}")
                if network is plain:
                    row[0].plot(layers, products(phi, square, depth) * found["delta2"][-1], "--", color=colour)
            for panel in row:
                panel.set_yscale("log")
            row[0].set(ylabel=r"$\tilde q_{aa}^{\ell}$", ylim=(max(row[0].get_ylim()[0], LEAST), None))
        for panel in rows[-1]:
            panel.set_xlabel(r"layer $\ell$")
        rows[0, 0].legend()
        return figure


def figure_4(width: int = SMALL, depth: int = 100) -> Figure:
    """ReLU, ten classes."""
    return gradients(("relu",), 10, plain, width, depth)


def figure_24(width: int = SMALL, depth: int = 100) -> Figure:
    """ReLU and tanh, two classes."""
    return gradients(("relu", "tanh"), 2, plain, width, depth)


def figure_25(width: int = SMALL, depth: int = 100) -> Figure:
    """ReLU and tanh, ten classes."""
    return gradients(("relu", "tanh"), 10, plain, width, depth)


def figure_26(width: int = SMALL, depth: int = 100) -> Figure:
    """Residual networks of ReLU and tanh, two classes: those of ReLU have gradients that stay, of tanh a decay."""
    return gradients(("relu", "tanh"), 2, residual, width, depth)
