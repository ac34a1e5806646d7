"""Figures 1, 2, 3 and 14: networks of one input.

Dots are finite networks with two standard errors, lines the theory, which the paper draws in figure 1 alone. Both are
divided by the theory's K and Θ. Each function returns a `matplotlib.figure.Figure`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

import meanfield as mf
from derivations.drawing import Points, beside
from meanfield.base.storage import files
from meanfield.presentation import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = figures.COLOURS
SEED = 5
C_W = {"linear": 1.0, "relu": 2.0, "tanh": 1.0}  # critical, C_b = 0
NAMES = ("V", "A", "B", "D", "F", "P", "Q", "R", "S", "T", "U")
RATES = (1.0, "1/l")  # (5.17)
MANY = 1000  # networks for V, which is noisy and cheap
#: width, networks, layers of figures 2 and 3, small, and as in the paper
SIZES = {"2": ((24, 100, 9), (50, 100, 11)), "3": ((12, 300, 18), (20, 100, 31))}


def inputs(size: int, count: int = 1) -> np.ndarray:
    """Inputs with entries uniform on [0, 1], shared by all networks."""
    return np.random.default_rng(SEED).uniform(size=(count, size))


@lru_cache(maxsize=64)
def theory(phi: str, law: str, names: tuple[str, ...], layers: int, ratio: float = 1.0, width: int = 100) -> dict:
    """Normalized correlators by the theory, layer by layer, for the input of networks with N_0 = ratio · width."""
    square = float(np.mean(inputs(round(ratio * width)) ** 2))
    rates = {} if names == ("V",) else {"lambda_w": RATES[0], "lambda_b": RATES[1]}
    place = {"sigma_w": C_W[phi] ** 0.5, "sigma_b": 0, "input_norm": square, "input_ratio": ratio}
    run = mf.derive(phi, weights=law).propagate(**place, depth=layers, quantities=names, **rates)
    held = {name: np.ravel(run.normalized(name)) for name in names}
    return held | {"over": {name: np.ravel(getattr(run, name)) for name in names}, "run": run}


@lru_cache(maxsize=16)
def measured(
    phi: str, law: str, names: tuple[str, ...], width: int, networks: int, layers: int, input_dimension: int = 0
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """{name: (mean, standard error)} of normalized correlators of finite networks."""
    size = input_dimension or width
    settings: dict = {"inputs": inputs(size), "networks": networks, "width": width, "depth": layers}
    settings["seed"] = SEED + width  # two widths share no draws
    if names == ("V",):
        settings["sampler"] = "lazy"
    else:
        settings["rates"] = (RATES[0], [1 / l for l in range(1, layers + 1)])
    run = mf.measure(
        mf.networks.mlp(phi, weights=law), sigma_w=C_W[phi] ** 0.5, sigma_b=0, quantities=names, **settings
    )
    exact = theory(phi, law, names, layers, size / width, width)["run"]
    found = {}
    for name in names:
        estimate, units = run.estimate(name), _units(exact, name)
        found[name] = tuple(np.ravel(x) / units for x in (estimate.mean, estimate.standard_error))
    return found


def largest(phi: str, layers: int, width: int) -> float:
    """The largest normalized V of Gaussian weights: that of other laws may be 0."""
    return float(np.max(np.abs(theory(phi, "gaussian", ("V",), layers, 1.0, width)["V"])))


def at_two_widths(
    phi: str, law: str, names: tuple[str, ...], width: int, networks: int, layers: int, input_dimension: int = 0
) -> dict[str, tuple[np.ndarray, Points, Points]]:
    """{name: the theory's line, networks of the width, networks of half of it}, normalized."""
    lines, found = [], []
    for n in (width, width // 2):
        size = input_dimension and input_dimension * n // width
        lines.append(theory(phi, law, names, layers, (size or n) / n, n))
        found.append(measured(phi, law, names, n, networks, layers, size))
    return {
        name: (lines[0][name], found[0][name], of_half(lines[0][name], found[1][name], lines[1][name]))
        for name in names
    }  # fmt: skip


def _units(run, name: str) -> np.ndarray:
    """What a correlator is divided by: (2.9), (5.9), (5.10), (5.15), (5.16)."""
    K = np.ravel(run.K)
    if name == "V":
        return K**2
    Theta = np.ravel(run.Theta)
    return {"D": K * Theta, "F": K * Theta}.get(name, Theta**3 / K if name in "RSTU" else Theta**2)


def dotted(panel: Axes, line: np.ndarray, found: Points, half: Points, colour: str, width: int, **style) -> None:
    """Networks as dots with two standard errors, theory as a line: dashed where the dots are hollow."""
    l = np.arange(1, len(line) + 1)
    panel.plot(l, line, "--" if style.get("mfc") == "white" else "-", color=colour, lw=0.9)
    beside(panel, l, line, found, half, l / width, colour, **style)


def of_half(line: np.ndarray, found: Points, own: np.ndarray) -> Points:
    """Networks of half the width, whose inputs are others, beside the line of those of the whole width."""
    return line + found[0] - own, found[1]


def figure_1(width: int = 100, networks: int = 1000, layers: int = 11) -> Figure:
    """Ṽ of linear, ReLU and tanh networks: Gaussian (hollow, dashed) and orthogonal; right: orthogonal and mixed."""
    with files.require().rc_context(files.LOOK):
        figure, (left, right) = new(2)
        for panel, laws, names in (
            (left, ("orthogonal", "gaussian"), ("linear", "relu", "tanh")),
            (right, ("orthogonal", "mixed"), ("linear", "tanh")),
        ):
            for phi in names:
                for law in laws:
                    compared = at_two_widths(phi, law, ("V",), width, networks, layers)["V"]
                    style = {"mfc": "white"} if law != "orthogonal" else {"label": phi}
                    style |= {"note": f"V, {phi}, {law}", "size": largest(phi, layers, width)}
                    dotted(panel, *compared, COLOURS[list(C_W).index(phi)], width, **style)
            panel.set(xlabel=r"$\ell$", title=f"{laws[0]}, {laws[1].replace('gaussian', 'Gaussian')} (hollow)")
            panel.legend(loc="upper left" if panel is left else "center right")
        left.set_ylabel(r"$\tilde V$")
        return figure


def correlators(width: int, networks: int, layers: int) -> Figure:
    """Figures 2 and 3: all eleven normalized correlators of tanh networks, Gaussian and orthogonal, rates (5.17)."""
    with files.require().rc_context(files.LOOK):
        figure, panels = new(2, wide=3.6, high=3.6)
        for panel, law in zip(panels, ("gaussian", "orthogonal")):
            compared = at_two_widths("tanh", law, NAMES[1:], width, networks, layers)
            compared |= at_two_widths("tanh", law, ("V",), width, MANY, layers)
            for i, name in enumerate(NAMES):
                style = {"label": rf"$\tilde {name}$"} | ({"mfc": "white"} if i >= len(COLOURS) else {})
                style["note"] = f"{name}, {law}"
                dotted(panel, *compared[name], COLOURS[i % len(COLOURS)], width, **style)
            low, high = (end(end(compared[name][0]) for name in NAMES) for end in (min, max))
            room = 0.1 * (high - low)
            panel.set(xlabel=r"$\ell$", title=f"{law.capitalize()}, n = {width}", ylim=(low - room, high + 4 * room))
            panel.legend(ncols=4, loc="upper left")
        return figure


def figure_14(width: int = 50, networks: int = 500, layers: int = 11) -> Figure:
    """Ã, B̃, D̃, F̃ of orthogonal tanh networks on n and on 784 inputs (hollow): another start, one limit."""
    names = ("A", "B", "D", "F")
    with files.require().rc_context(files.LOOK):
        figure, (panel,) = new(1, wide=4.2)
        for size in (width, 784):
            compared = at_two_widths("tanh", "orthogonal", names, width, networks, layers, size)
            for name, colour in zip(names, COLOURS):
                style = {"mfc": "white"} if size != width else {"label": rf"$\tilde {name}$"}
                dotted(panel, *compared[name], colour, width, note=f"{name}, N_0 = {size}", **style)
        panel.set(xlabel=r"$\ell$")
        panel.legend()
        return figure


def new(count: int, wide: float = 3.2, high: float = 2.8) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(wide * count, high), layout="constrained")
    return figure, list(np.ravel(figure.subplots(1, count)))
