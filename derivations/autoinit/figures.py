"""Figure 2: J^{l,l+1} behind a BatchNorm over the (σ_w, σ_b) plane without and with a skip, and against |B|."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from derivations.autoinit.networks import normed
from meanfield.presentation import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


def last_jacobian(mu: int, batch: int, sigma_w, sigma_b, depth: int) -> np.ndarray:
    """J^{l,l+1} of ReLU at l = depth: tangents of one block alone, J_ab = 0 before it; independent inputs."""
    theory = normed("relu", mu, batch).theory
    run = theory.propagate(
        sigma_w=sigma_w, sigma_b=sigma_b, depth=depth, quantities=("K", "K_ab"), every_layer=False
    )
    start = {"K": run.K[..., -1], "K_ab": run.K_ab[..., -1]}
    return theory.propagate(sigma_w=sigma_w, sigma_b=sigma_b, depth=2, quantities=("J",), start=start).J[..., 1]


def figure_2(points: int = 40, depth: int = 30, batch: int = 256) -> Figure:
    """Left, middle: μ = 0 and μ = 1 at |B| = 256, layer 30; right: against |B|, σ_w² = 2, σ_b = 0."""
    from matplotlib.figure import Figure

    with figures.require().rc_context(figures.LOOK):
        figure = Figure(figsize=(9.6, 2.8), layout="constrained")
        panels = figure.subplots(1, 3)
        axis = np.linspace(0.1, 4, points)
        for panel, mu in zip(panels, (0, 1)):
            J = last_jacobian(mu, batch, axis[None, :], axis[:, None], depth)
            image = panel.pcolormesh(axis, axis, J, cmap="RdBu_r", vmin=0.5, vmax=1.5, shading="nearest")
            panel.set(xlabel=r"$\sigma_w$", ylabel=r"$\sigma_b$", title=rf"$\mu = {mu}$, $|B| = {batch}$")
            figure.colorbar(image, ax=panel)
        for mu in (0, 1):
            J = [float(last_jacobian(mu, size, 2**0.5, 0.0, depth)) for size in SIZES]
            panels[2].semilogx(SIZES, J, "o-", ms=3, label=rf"$\mu = {mu}$")
        panels[2].axhline(np.pi / (np.pi - 1), lw=0.8, ls=":")
        panels[2].set(xlabel=r"$|B|$", ylabel=r"$J^{l,l+1}$")
        panels[2].legend()
        return figure


def write(folder: str | os.PathLike, suffix: str = ".png") -> list[Path]:
    """Figure 2 into `folder`."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    return [figures.save(figure_2(), target / f"figure2{suffix}")]
