"""MLP-Mixer: panels A1, B1 of figure 4, and that J^{l,l+1} − 1 = O(1/l) at μ = 1.

The paper measures χ_J* of 30 blocks on finite networks and gives no theory. Here it is the sampled theory: 64 tokens,
matrices of the token layers drawn, infinitely many channels; all places of a diagram share the draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import meanfield as mf
from derivations.partial_jacobians.sizes import Sizes
from meanfield.base.storage import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from meanfield.networks.records import Block

TOKENS = 64  # patches of 4 × 4 pixels of a 32 × 32 image
SETTLED = {"1/2": (4, 9), "1": (19, 25)}  # mu: blocks whose mean is χ_J*, where K has settled, or grows linearly
PLACES = ((1, 0), (1, 0.25), (10, 10))  # (σ_w², σ_b²) of figure 4's training runs


def mixer(mu: str) -> Block:
    """Block (F.4)-(F.11): N_tm = 4 N_p, N_cm = 2 C, GELU."""
    return mf.architectures.mlp_mixer("gelu", mu=mu)


def chi(mu: str, sigma_w: float, sigma_b: float, draws: int = 12, tokens: int = TOKENS) -> tuple[float, float]:
    """χ_J* and its standard error over the draws: the mean over the blocks of `SETTLED`."""
    first, last = SETTLED[mu]
    answer = mf.derive(architecture=mixer(mu)).sample(
        sigma_w=sigma_w, sigma_b=sigma_b, depth=last + 1, tokens=tokens, draws=draws, quantities="chi"
    )
    values = answer.samples["chi"][:, first - 1 :].mean(axis=1)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(draws))


def approach(sigma_w: float, sigma_b: float, depth: int = 49, draws: int = 8, tokens: int = 32) -> tuple[Any, Any, Any]:
    """(l, l(χ^l − 1), its standard error) at μ = 1: the product settles where χ − 1 falls as 1/l."""
    answer = mf.derive(architecture=mixer("1")).sample(
        sigma_w=sigma_w, sigma_b=sigma_b, depth=depth, tokens=tokens, draws=draws, quantities="chi"
    )
    found, l = answer.estimate("chi"), np.arange(1, depth)
    return l, l * (found.mean - 1), l * found.standard_error


@dataclass(frozen=True)
class Diagram:
    """χ_J* of one μ: axes, and χ (sigma_b, sigma_w)."""

    mu: str
    sigma_w: np.ndarray
    sigma_b: np.ndarray
    chi: np.ndarray


def diagram(mu: str, points: int = 11, high: float = 3.2, draws: int = 2, tokens: int = TOKENS) -> Diagram:
    """The plane 0 < σ_w ≤ high, 0 ≤ σ_b ≤ high."""
    w, b = np.linspace(high / points, high, points), np.linspace(0.0, high, points)
    found = np.array([[chi(mu, float(x), float(y), draws, tokens)[0] for x in w] for y in b])
    return Diagram(mu, w, b, found)


def diagrams(points: int = 11, draws: int = 2, tokens: int = TOKENS) -> tuple[Diagram, Diagram]:
    return diagram("1/2", points, draws=draws, tokens=tokens), diagram("1", points, draws=draws, tokens=tokens)


def figure_4(found: tuple[Diagram, ...] | None = None, sizes: Sizes | None = None) -> Figure:
    """Panels A1, B1: χ_J* over (σ_w, σ_b) for μ = ½ and 1, with the line χ_J* = 1 and the paper's three places; finite
    networks of `sizes.width` channels are written beside these places, where there are any."""
    from matplotlib.figure import Figure

    found = found or diagrams()
    with files.require().rc_context(files.LOOK):
        figure = Figure(figsize=(6.8, 3.1), layout="constrained")
        for panel, one in zip(figure.subplots(1, len(found), squeeze=False)[0], found):
            image = _panel(panel, one)
            if sizes is not None and sizes.networks:
                _networks(panel, one.mu, sizes)
        figure.colorbar(image, ax=figure.axes, label=r"$\log\,\chi_J^\ast$", shrink=0.8, extend="both")
        return figure


def _panel(panel: Axes, one: Diagram) -> Any:
    w, b, log = one.sigma_w, one.sigma_b, np.log(one.chi)
    image = panel.contourf(w, b, log, np.linspace(-0.6, 0.6, 49), cmap="RdBu_r", extend="both")
    if log.min() < 0 < log.max():
        panel.contour(w, b, log, [0.0], colors="black", linewidths=1.2)
    for square_w, square_b in PLACES:
        panel.plot(square_w**0.5, square_b**0.5, "o", color="black", ms=3, clip_on=False)
    panel.set(xlabel=r"$\sigma_w$", ylabel=r"$\sigma_b$", title=f"$\\mu = {one.mu}$")
    panel.set(xlim=(w[0], w[-1]), ylim=(b[0], b[-1]))
    return image


def _networks(panel: Axes, mu: str, sizes: Sizes) -> None:
    for square_w, square_b in PLACES:
        found = mf.measure_criticality(
            mixer(mu),
            sigma_w=square_w**0.5,
            sigma_b=square_b**0.5,
            tokens=TOKENS,
            width=sizes.width,
            depth=SETTLED[mu][1] + 1,
            networks=sizes.networks,
            seed=sizes.seed,
        ).chi
        text = f"{found.mean:.3f}({1000 * found.standard_error:.0f})"
        panel.annotate(text, (square_w**0.5, square_b**0.5), (4, 4), textcoords="offset points", fontsize=7)
