"""The figure of docs/digits.md: accuracy over (σ_w², depth) and over depth/ξ_c, evidence, and posterior samples."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from derivations.digits.process import SIGMA_B2, data, length, place, process, theory
from derivations.digits.tables import SQUARES
from meanfield.base.storage import files
from meanfield.presentation import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DEEPEST = 300


def depths(most: int, count: int) -> np.ndarray:
    """Whole numbers from 1 to `most`, spread evenly in their logarithm."""
    return np.unique(np.geomspace(1, most, count).round().astype(int))


def accuracies(squares, layers) -> np.ndarray:
    """(layers, squares)."""
    return np.array([[process(s, SIGMA_B2, int(l)).accuracy for s in squares] for l in layers])


def plane(panel: Axes, count: int, most: int) -> None:
    """Accuracy over (σ_w², depth), with lines of 3ξ_c and 25ξ_c."""
    squares, layers = np.linspace(0.4, 4, count), depths(most, count)
    image = panel.pcolormesh(
        squares, layers, accuracies(squares, layers), shading="nearest", vmin=0, vmax=1, rasterized=True
    )
    panel.figure.colorbar(image, ax=panel, label="accuracy")
    fine = np.linspace(0.4, 4, 4 * count)
    lengths = np.array([length(round(float(s), 6)) for s in fine])
    for multiple, style in ((3, "--"), (25, "-")):
        panel.plot(fine, multiple * lengths, style, color="white", label=rf"${multiple}\,\xi_c$")
    panel.set(yscale="log", ylim=(1, most), xlim=(0.4, 4), xlabel=r"$\sigma_w^2$", ylabel="layers", title="NNGP")
    panel.legend(loc="lower right", labelcolor="white", frameon=True, facecolor="#39568c", edgecolor="none")


def against_length(panel: Axes, count: int) -> None:
    """Accuracy against depth in units of ξ_c: K solid, Theta dashed."""
    multiples = np.geomspace(0.2, 40, count)
    for square, colour in zip(SQUARES, figures.COLOURS):
        for quantity, style in (("K", "-"), ("Theta", "--")):
            layers = np.unique(np.maximum(1, (multiples * length(square)).round().astype(int)))
            found = [process(square, SIGMA_B2, int(l), quantity=quantity).accuracy for l in layers]
            label = rf"$\sigma_w^2 = {square:g}$" if quantity == "K" else None
            panel.plot(layers / length(square), found, style, color=colour, label=label)
    for multiple in (3, 25):
        panel.axvline(multiple, lw=0.6, ls=":", color="grey")
    panel.axhline(0.1, lw=0.6, ls=":", color="grey")
    panel.set(xscale="log", ylim=(0, 1), xlabel=r"layers$/\xi_c$", ylabel="accuracy", title="NNGP, dashed NTK")
    panel.legend(loc="lower left")


def evidence(panel: Axes, count: int) -> None:
    """The marginal likelihood of each label against depth; stars: where it is largest."""
    for square, colour in zip(SQUARES, figures.COLOURS):
        layers = depths(60, count)
        found = [process(square, SIGMA_B2, int(l)).evidence for l in layers]
        panel.plot(layers, found, color=colour, label=rf"$\sigma_w^2 = {square:g}$")
        best = int(np.argmax(found))
        panel.plot(layers[best], found[best], "*", color=colour, markersize=8)
    panel.set(xscale="log", xlabel="layers", ylabel="log evidence of a label", title="marginal likelihood")


def between(first: int, second: int, points: int) -> np.ndarray:
    """Images on the straight line between two of those that are known."""
    given, t = data(), np.linspace(0, 1, points)[:, None]
    return (1 - t) * given.X[first] + t * given.X[second]


def samples(panel: Axes, points: int = 61, count: int = 12) -> None:
    """Two outputs of networks that agree with all labels, between a known 3 and a known 8: draws, means and two
    standard deviations."""
    given = data()
    ends = [int(np.flatnonzero(given.labels == digit)[0]) for digit in (3, 8)]
    path = between(*ends, points)
    one = process(1.6, SIGMA_B2, 3, given=replace(given, others=path))
    joint = theory().kernel(path, **place(1.6, SIGMA_B2, 3), quantities="K").K
    drawn, t = one.samples(200, 0, joint), np.linspace(0, 1, points)
    for digit, colour in zip((3, 8), figures.COLOURS):
        panel.plot(t, drawn[:count, :, digit].T + 0.1, color=colour, lw=0.4, alpha=0.6)
        mean, spread = one.mean[:, digit] + 0.1, 2 * drawn[:, :, digit].std(axis=0)
        panel.fill_between(t, mean - spread, mean + spread, color=colour, alpha=0.15, lw=0)
        panel.plot(t, mean, color=colour, label=f"output {digit}")
    panel.set(xlabel="from a 3 to an 8", ylabel="output", xlim=(0, 1), title="posterior samples")
    panel.legend(loc="center left")


def figure(count: int = 24) -> Figure:
    """All four panels; count: places along an axis."""
    from matplotlib.figure import Figure

    with files.require().rc_context(files.LOOK):
        made = Figure(figsize=(7.2, 5.2), layout="constrained")
        panels = made.subplots(2, 2)
        plane(panels[0, 0], count, DEEPEST)
        against_length(panels[0, 1], count)
        evidence(panels[1, 0], count)
        samples(panels[1, 1])
        return made


def write(folder: str | os.PathLike, suffix: str = ".png") -> list[Path]:
    """The figure into `folder`."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    return [files.save(figure(), target / f"digits{suffix}")]
