"""Figure 2: J^{l,l+1} behind a BatchNorm over the (σ_w, σ_b) plane without and with a skip, and against |B|. Figure 3,
panels J and K: blocks of ResMLP. Lines are the theory's, dots finite networks of reduced width.

AutoInit's own curves of figure 3 need its tuned gains, and are not drawn; images are replaced by independent inputs.
"""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import meanfield as mf
from derivations.autoinit.networks import normed, resmlp
from derivations.drawing import Drawn, Points, beside, write_all
from meanfield.base.storage import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
MEASURED = (6, 8, 16, 32, 64)  # |B| of the networks; below 6 single networks scatter by more than their mean
WIDTH = 400  # of those networks
BLOCKS, TOKENS, SCALE = 12, 16, "1/10"  # ResMLP-S12: 24 residual connections; 4 × 4 patches instead of 8 × 8
VARIANCES = (("2", r"$\sigma_w^2 = 2$ (Kaiming)"), ("1", r"$\sigma_w^2 = 1$"), ("1/3", r"$\sigma_w^2 = 1/3$ (uniform)"))


def last_jacobian(mu: int, batch: int, sigma_w, sigma_b, depth: int) -> np.ndarray:
    """J^{l,l+1} of ReLU at l = depth: tangents of one block alone, J_ab = 0 before it; independent inputs."""
    theory = normed("relu", mu, batch).theory
    run = theory.propagate(
        sigma_w=sigma_w, sigma_b=sigma_b, depth=depth, quantities=("K", "K_ab"), every_layer=False
    )
    start = {"K": run.K[..., -1], "K_ab": run.K_ab[..., -1]}
    return theory.propagate(sigma_w=sigma_w, sigma_b=sigma_b, depth=2, quantities=("J",), start=start).J[..., 1]


def measured_jacobian(mu: int, layer: int, width: int, networks: int = 60, sizes=MEASURED) -> Points:
    """J^{l,l+1} of networks against |B|, σ_w² = 2, σ_b = 0."""
    found = []
    for batch in sizes:
        at = {"sigma_w": 2**0.5, "sigma_b": 0, "depth": layer + 1, "batch": batch, "quantities": ("chi",), "probes": 8}
        run = mf.measure(normed("relu", mu).record, **at, width=width, networks=networks, seed=width + batch)
        found.append((run.estimate("chi", layer).mean, run.estimate("chi", layer).standard_error))
    means, errors = np.array(found, dtype=float).T
    return means, errors


def figure_2(points: int = 40, depth: int = 30, batch: int = 256, layer: int = 10, networks: int = 60) -> Figure:
    """Left, middle: μ = 0 and μ = 1 at |B| = 256, layer 30; right: against |B|, σ_w² = 2, σ_b = 0, with networks."""
    from matplotlib.figure import Figure

    with files.require().rc_context(files.LOOK):
        figure = Figure(figsize=(9.6, 2.8), layout="constrained")
        panels = figure.subplots(1, 3)
        axis = np.linspace(0.1, 4, points)
        for panel, mu in zip(panels, (0, 1)):
            J = last_jacobian(mu, batch, axis[None, :], axis[:, None], depth)
            image = panel.pcolormesh(axis, axis, J, cmap="RdBu_r", vmin=0.5, vmax=1.5, shading="nearest")
            panel.set(xlabel=r"$\sigma_w$", ylabel=r"$\sigma_b$", title=rf"$\mu = {mu}$, $|B| = {batch}$")
            figure.colorbar(image, ax=panel)
        for mu, color in ((0, "C0"), (1, "C1")):
            J = [float(last_jacobian(mu, size, 2**0.5, 0.0, layer)) for size in SIZES]
            panels[2].semilogx(SIZES, J, "-", color=color, label=rf"$\mu = {mu}$")
            if networks:
                found, half = (measured_jacobian(mu, layer, width, networks) for width in (WIDTH, WIDTH // 2))
                line = np.array([J[SIZES.index(size)] for size in MEASURED])
                note = f"J behind a BatchNorm, mu = {mu}"
                beside(panels[2], MEASURED, line, found, half, layer / WIDTH, color, note=note)
        panels[2].axhline(np.pi / (np.pi - 1), lw=0.8, ls=":", color="grey")
        panels[2].set(xlabel=r"$|B|$", ylabel=r"$J^{l,l+1}$", title=rf"layer {layer}, dots: networks")
        panels[2].legend()
        return figure


def place(variance: str) -> dict[str, float]:
    """σ_w, σ_b = 0 and inputs such that K of the first block's input is 1."""
    square = float(Fraction(variance))
    return {"sigma_w": square**0.5, "sigma_b": 0.0, "depth": BLOCKS + 1, "input_norm": 1 / square}


def blocks_by_theory(variance: str, draws: int = 400) -> dict[str, Points]:
    """J^{l,l+1} of the blocks and K behind each, at TOKENS tokens and infinitely many channels; exact but for draws."""
    theory = resmlp("gelu", SCALE, 1).theory
    run = theory.sample(**place(variance), tokens=TOKENS, draws=draws, quantities=("K", "chi"))
    return {name: _behind(run, name) for name in ("chi", "K")}


def blocks_on_average(variance: str) -> dict[str, np.ndarray]:
    """R65 and R69: K and J averaged over token matrices layer by layer."""
    run = resmlp("gelu", SCALE, 1).theory.propagate(**place(variance), quantities=("K", "J"))
    return {"chi": run.J[1:] / run.J[:-1], "K": run.K[1:]}


def blocks_measured(variance: str, width: int = 64, networks: int = 100) -> dict[str, Points]:
    """The same of networks of `width` channels."""
    at = {"tokens": TOKENS, "width": width, "networks": networks, "seed": 5 + width}
    at |= {"quantities": ("K", "chi"), "probes": 4}
    run = mf.measure(resmlp("gelu", SCALE, 1).record, **place(variance), **at)
    return {name: _behind(run, name) for name in ("chi", "K")}


def _behind(run, name: str) -> Points:
    """Values behind blocks 1 to BLOCKS: K starts a layer before them."""
    found = run.estimate(name)
    return np.array(found.mean)[-BLOCKS:], np.array(found.standard_error)[-BLOCKS:]


def figure_3(draws: int = 400, width: int = 64, networks: int = 100) -> Figure:
    """Panels J and K: solid, the theory at 16 tokens; dashed, averaged over token matrices; dots, networks."""
    from matplotlib.figure import Figure

    with files.require().rc_context(files.LOOK):
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
        panels = dict(zip(("chi", "K"), figure.subplots(1, 2)))
        l = np.arange(1, BLOCKS + 1)
        for k, (variance, label) in enumerate(VARIANCES):
            found, mean = blocks_by_theory(variance, draws), blocks_on_average(variance)
            dots, half = (blocks_measured(variance, n, networks) for n in (width, width // 2))
            for name, panel in panels.items():
                panel.plot(l, found[name][0], color=f"C{k}", label=label)
                panel.plot(l, mean[name], "--", lw=0.8, color=f"C{k}", label=f"_{label}")
                note = f"{name}, sigma_w^2 = {variance}"
                # the line is a mean over drawn token matrices: what is off by its error is not off
                ours, errors = found[name]
                dots[name] = dots[name][0], np.hypot(dots[name][1], errors / 2)
                beside(panel, l, ours, dots[name], half[name], l / width, f"C{k}", note=note)
        panels["chi"].set(xlabel="block", ylabel=r"$\mathcal{J}^{l,l+1}$", title=r"GELU, $\mathcal{E} = 0.1$")
        panels["K"].set(xlabel="block", ylabel=r"$\mathcal{K}^l$", title=f"{TOKENS} tokens, {width} channels")
        panels["K"].legend()
        return figure


PLANE = (40, 30)  # of figures 1 and 5: values of σ_w by values of the rate, 1200 points


def one_step(loss: str, width: int = 500, depth: int = 11, at=(0.5, 1.0, 2.0)) -> list[np.ndarray]:
    """J^{l,l+1} of one network behind a single step at the rate that brings infinite width to 1, for each σ_w."""
    found = []
    for sigma_w in at:
        rate = mf.tuning.tuning_rates("relu", sigma_w=sigma_w, loss=loss).one_step
        settings = {"depth": depth, "width": width, "sigma_w": sigma_w, "method": "gradient", "loss": loss}
        found.append(np.exp(mf.tune("relu", **settings, rate=rate, steps=1, tolerance=0).after))
    return found


def region(loss: str, plane: tuple[int, int] = PLANE) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(σ_w, rate, J after 980 steps) over the η–σ_w plane."""
    sigma_w, rate = np.linspace(0.1, 5, plane[0]), np.geomspace(1e-3, 10, plane[1])
    return sigma_w, rate, mf.tuning.tuning_region("relu", sigma_w=sigma_w[None, :], rate=rate[:, None], loss=loss)


def figure_1(loss: str = "JLL", width: int = 500) -> Figure:
    """Left: J after one step of a network. Right: where 980 steps end at 0.8 < J < 1.25; η_0 (solid) and what decides
    (dashed): 1/σ_w², of JSL also 4/(σ_w²(σ_w² − 2)). Figure 5 is that of loss="JSL"."""
    from matplotlib.figure import Figure

    with files.require().rc_context(files.LOOK):
        figure = Figure(figsize=(7.2, 2.9), layout="constrained")
        left, right = figure.subplots(1, 2)
        at = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)  # beyond, JSL takes gains of such a width below 0 in this one step
        for sigma_w, J in zip(at, one_step(loss, width, at=at)):
            left.plot([sigma_w] * len(J), J, "o", ms=3, color="C0")
        left.axhline(1.0, lw=0.8, ls=":", color="grey")
        left.set(xlabel=r"$\sigma_w$", ylabel=r"$\mathcal{J}^{l,l+1}(t=1)$", title=f"{loss}, one step, N = {width}")
        sigma_w, rate, J = region(loss)
        good = (J > 0.8) & (J < 1.25)
        x, y = np.meshgrid(sigma_w, rate)
        right.semilogy(x[good], y[good], "s", ms=2, color="C2")
        fine = np.linspace(0.1, 5, 200)
        rates = [mf.tuning.tuning_rates("relu", sigma_w=float(s), loss=loss) for s in fine]
        right.semilogy(fine, [one.falling for one in rates], "-", color="C0", label=r"$\eta_0$ of the paper")
        edges = [one.edge * min(1.0, 2 / max(one.J - 1, 1e-12)) if loss == "JSL" else one.edge for one in rates]
        right.semilogy(fine, edges, "--", color="C3", label="edge")
        right.set(xlabel=r"$\sigma_w$", ylabel=r"$\eta$", ylim=(1e-3, 10), title="980 steps")
        right.legend()
        return figure


def figure_5(width: int = 500) -> Figure:
    """Figure 1 with the square loss."""
    return figure_1("JSL", width)


def drawn(paper: bool = False) -> Drawn:
    """Figures 1, 2, 3 (panels J, K) and 5 by name; the paper draws no networks in them, so `paper` changes nothing."""
    return {"figure1": figure_1, "figure2": figure_2, "figure3": figure_3, "figure5": figure_5}


def write(folder: str | os.PathLike, suffix: str = ".png") -> list[Path]:
    """All figures into `folder`; returns the files."""
    return write_all(drawn(), folder, suffix)
