"""Figures 1 (width variation), B.3 and B.4 (recursions beside derived laws); `write` makes all of the paper's figures
that need no training. Each function returns a `matplotlib.figure.Figure`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import meanfield as mf
from derivations.drawing import Drawn, Points, note_beside, note_law, write_all
from derivations.variance_variation import contour_figures
from derivations.variance_variation.acceptance import theory
from derivations.variance_variation.regions import full
from meanfield.base.storage import files
from meanfield.networks.architectures import full_residual
from meanfield.presentation import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = figures.COLOURS
LAYERS = 100
HALVED = tuple(n * n for n in range(4, 10))  # where figure 1 halves the width
BLUE, GREEN, RED = COLOURS[0], COLOURS[2], "#B00000"
FAR = 10**5
# (β_v, β_w, β_a, β_b) of figures B.3 (V_r = 0.2, 1, 1.6) and B.4 (its five cases)
B3 = (("1/10", "1/10", 1, 1), ("2/5", "3/5", 1, 1), ("4/5", "4/5", 1, 1))
B4 = (
    ("1/10", "1/10", "3/10", "3/10"),
    ("2/5", "3/5", "4/5", "4/5"),
    ("1/5", "7/5", "2/5", "4/5"),
    ("1/5", "7/5", 1, 2),
    ("1/5", 1, 2, 2),
)


def halved(width: int) -> np.ndarray:
    """N^(0) … N^(L), halved at 16, 25, …, 81."""
    return np.array([width >> sum(l >= n for n in HALVED) for l in range(LAYERS + 1)])


def _ratio(log_values: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """chi^(l)/chi^(L) from G_z and widths."""
    return np.exp(log_values - log_values[..., -1:]) * widths[-1] / widths


def figure_1(width: int = 2048, networks: int = 60) -> Figure:
    """p, e and chi of tanh with widths halved at squares from 16 on (orange), and without (blue): mean and standard
    deviation over networks, theory dashed."""
    exact = theory("tanh").propagate(sigma_w=1, sigma_b=1, depth=LAYERS + 1, quantities=("K", "G_z"))
    pair = theory("tanh").propagate(sigma_w=1, sigma_b=1, depth=LAYERS + 1, correlation=0.5)
    l = np.arange(LAYERS + 1)
    with files.require().rc_context(files.LOOK):
        figure, panels = _new(3, sharey=False)
        for widths, colour, label in (
            (np.full(LAYERS + 1, width), COLOURS[0], "one width"),
            (halved(width), COLOURS[1], "halved"),
        ):
            found, half = measured(widths, networks), measured(widths // 2, networks, seed=1)
            for panel, name, known in zip(
                panels,
                ("p", "e", "chi"),
                (exact.K, np.ravel(pair.c), _ratio(np.asarray(exact.log_G_z), widths)),
            ):
                mean, spread = found[name].mean(axis=0), found[name].std(axis=0, ddof=1)
                low = np.maximum(mean - spread, known.min() / 3) if name == "chi" else mean - spread
                panel.fill_between(l, low, mean + spread, color=colour, alpha=0.2, lw=0)
                panel.plot(l, mean, color=colour, label=label)
                panel.plot(l, known, "--", color="black", lw=0.8)
                some = slice(5, None, 10)
                compared = (_points(one[name][:, some]) for one in (found, half))
                ratio = np.cumsum(1 / widths)[some]
                note_beside(figure, f"{name}, {label}", l[some], known[some], *compared, ratio)
                panel.set(xlabel="$l$", title={"p": "$p$", "e": "$e$", "chi": r"$\chi^{(l)}/\chi^{(L)}$"}[name])
        panels[2].set_yscale("log")
        panels[0].legend()
        return figure


def _points(samples: np.ndarray) -> Points:
    return samples.mean(axis=0), samples.std(axis=0, ddof=1) / len(samples) ** 0.5


def measured(widths: np.ndarray, networks: int, seed: int = 0) -> dict[str, np.ndarray]:
    """p, e, chi of every network, layer by layer."""
    network = full_residual("tanh", sigma_v=1, sigma_a=1)
    place = {"sigma_w": 1, "sigma_b": 1, "width": widths.tolist(), "depth": LAYERS + 1, "networks": networks}
    place |= {"sampler": "lazy", "seed": seed}  # the same law as explicit matrices, and quick at the paper's width
    one = mf.measure(network, **place, quantities=("K", "G_z")).samples
    two = mf.measure(network, **place, correlation=0.5, quantities=("K_aa", "K_bb", "K_ab")).samples
    e = two["K_ab"] / np.sqrt(two["K_aa"] * two["K_bb"])
    return {"p": one["K"], "e": e, "chi": _ratio(np.log(one["G_z"]), widths)}


def law(betas: Sequence, name: str, layers: np.ndarray) -> np.ndarray:
    """The logarithm of the engine's law of K or J at σ = 1, up to a constant."""
    made = full("relu").theory.phase_table("K", "J")
    row = made.at(**dict(zip(("beta_v", "beta_w", "beta_a", "beta_b"), betas)), **dict.fromkeys(SIGMAS, 1))
    shape = row[name].of_unknown_size
    return np.array([shape.log_at(float(np.log(l)), leading=True) for l in layers])


SIGMAS = ("sigma_v", "sigma_w", "sigma_a", "sigma_b")


def grid(depth: int = FAR) -> np.ndarray:
    """Numbers of blocks, from 3 on."""
    return np.unique(np.geomspace(3, depth, 60).astype(int))


def recursion(betas: Sequence, name: str, depth: int = FAR) -> tuple[np.ndarray, np.ndarray]:
    """(l, log p or log chi^(0)/chi^(l)) by the recursion."""
    found = theory("relu", *betas).propagate(sigma_w=1, sigma_b=1, depth=depth + 1, quantities=("K", "J"))
    values = np.log(found.K) if name == "K" else np.asarray(found.log_J)
    return grid(depth), values[grid(depth)]


def figure_b3() -> Figure:
    """chi^(0)/chi^(l) of ReLU by the recursion, and its law dashed (green: shifted to meet its end)."""
    with files.require().rc_context(files.LOOK):
        figure, panels = _new(3, sharey=False)
        for panel, betas, title in zip(panels, B3, ("(a) $V_r = 0.2$", "(b) $V_r = 1$", "(c) $V_r = 1.6$")):
            first = betas is B3[0]
            l, found = recursion(betas, "J", 2000 if first else FAR)
            if first:  # the logarithm, with its leading term W_r l^{1-V_r}/(1-V_r) unshifted
                panel.plot(l, found, color=BLUE)
                panel.plot(l, 0.5 * l**0.8 / 0.8, "--", color=BLUE)
            else:
                panel.plot(l, np.exp(found), color=GREEN)
                _dashed(panel, l, found, law(betas, "J", l), GREEN, f"log chi^(0)/chi^(l), {title[:3]}")
            panel.set(title=title, xlabel="$l$", xscale="log")
            panel.set_yscale("log" if panel is not panels[2] else "linear")
        panels[2].set_ylim(1, None)
        panels[0].set_ylabel(r"$\log\,\chi^{(0)}/\chi^{(l)}$")
        panels[1].set_ylabel(r"$\chi^{(0)}/\chi^{(l)}$")
        return figure


def figure_b4() -> Figure:
    """p (blue) and Δp (green) of ReLU by the recursion, laws dashed and shifted to meet their ends; red: log p and its
    leading term. Dotted in (e): l^{-U_r}, as the paper has it."""
    titles = ("(a) $V_r < 1$", "(b) $V_r = 1$", "(c) $V_r > 1 > U_r$", "(d) $V_r > 1 = U_r$", "(e) $V_r, U_r > 1$")
    with files.require().rc_context(files.LOOK):
        figure, panels = _new(5, sharey=False)
        for panel, betas, title in zip(panels, B4, titles):
            first = betas is B4[0]
            l, found = recursion(betas, "K", 2000 if first else FAR)
            if first:
                panel.plot(l, found, color=RED)
                panel.plot(l, 0.5 * l**0.8 / 0.8, "--", color=RED)
            else:
                panel.plot(l, np.exp(found), color=BLUE)
                _dashed(panel, l, found, law(betas, "K", l), BLUE, f"log p, {title[:3]}")
                change = _change(betas, l)
                panel.plot(l, change, color=GREEN)
                known = change_law(betas) * np.log(l)
                _dashed(panel, l, np.log(change), known, GREEN, f"log of the change of p, {title[:3]}")
            if betas is B4[-1]:
                panel.plot(l, change[-1] * (l / l[-1]) ** -2.0, ":", color="0.5")
                panel.set_ylim(change[-1] / 3, None)
            panel.set(title=title, xlabel="$l$", xscale="log", yscale="log")
        panels[0].set_ylabel(r"$\log p$")
        panels[1].set_ylabel(r"$p$, $\Delta p$")
        return figure


def _change(betas: Sequence, l: np.ndarray) -> np.ndarray:
    """Δp = p^(l) - p^(l-1)."""
    K = theory("relu", *betas).propagate(sigma_w=1, sigma_b=1, depth=FAR + 1).K
    return K[l] - K[l - 1]


def change_law(betas: Sequence) -> float:
    """The exponent of Δp = σ_v² l^{-β_v} ⟨φ²⟩_q + σ_a² l^{-β_a}, ⟨φ²⟩ = J G_w of the outer Dense."""
    made = full("relu").theory.phase_table("J", "G_w")
    row = made.at(**dict(zip(("beta_v", "beta_w", "beta_a", "beta_b"), betas)), **dict.fromkeys(SIGMAS, 1))
    square = row["J"] * row["G_w[2]"]
    return max(float(square.exponent) - float(Fraction(betas[0])), -float(Fraction(betas[2])))


def _dashed(panel: Axes, l: np.ndarray, found: np.ndarray, known: np.ndarray, colour: str, note: str) -> None:
    """exp(known), moved to end where found ends."""
    note_law(panel, note, l, known, found)
    panel.plot(l, np.exp(known + found[-1] - known[-1]), "--", color=colour)


def _new(count: int, sharey: bool) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.3 * count, 2.4), layout="constrained")
    return figure, list(figure.subplots(1, count, sharey=sharey))


def drawn(paper: bool = False) -> Drawn:
    """The figures by name: figure 1 with networks of the paper's widths, with and without `paper`, as they are drawn
    lazily; the others are the theory's alone."""
    return {
        "figure1": figure_1,
        "figure2": contour_figures.figure_2,
        "figure3": contour_figures.figure_3,
        "figureA1": partial(contour_figures.appendix, "zig"),
        "figureA2": partial(contour_figures.appendix, "zag"),
        "figureB3": figure_b3,
        "figureB4": figure_b4,
    }


def write(folder: str | os.PathLike, suffix: str = ".png") -> list[Path]:
    """All figures into `folder`; returns the files."""
    return write_all(drawn(), folder, suffix)
