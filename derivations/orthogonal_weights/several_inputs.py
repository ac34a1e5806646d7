"""Figures 10-13: normalized correlators of up to four inputs, at the index patterns of (A.1)-(A.5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

import meanfield as mf
from derivations.drawing import Points
from derivations.orthogonal_weights import figures as single
from meanfield.base.storage import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: indices of the patterns in the figures' legends
PATTERNS = {
    "1": (0, 0, 0, 0),
    "2 (3-1)": (0, 0, 0, 1),
    "2 (2-2)": (0, 0, 1, 1),
    "3": (0, 1, 2, 0),
    "4": (0, 1, 2, 3),
}
FIGURES = {"10": "linear", "11": "relu", "12": "tanh"}


@lru_cache(maxsize=16)
def theory(phi: str, law: str, names: tuple[str, ...], layers: int, width: int):
    """Correlators of the four inputs of networks of one width, by the theory."""
    rates = {} if names == ("V",) else {"lambda_w": single.RATES[0], "lambda_b": single.RATES[1]}
    return mf.derive(phi, weights=law).correlators(
        single.inputs(width, 4), depth=layers, sigma_w=single.C_W[phi] ** 0.5, sigma_b=0, quantities=names, **rates
    )


def scale(run, name: str, at: tuple[int, ...]) -> np.ndarray:
    """What a correlator is divided by at one tuple of inputs, layer by layer, as (A.1)-(A.5) print it."""
    a, b, c, d = at
    K = np.asarray(run.K)
    if name == "V":
        if len(set(at)) == 1:
            return K[:, a, a] ** 2  # (2.9)
        if (a, c) == (b, d):
            return (K[:, a, a] * K[:, c, c] + K[:, a, c] ** 2) / 2
        if a == b == c:
            return K[:, a, a] * K[:, a, d]
        if a == d:
            return (K[:, a, b] * K[:, a, c] + K[:, a, a] * K[:, b, c]) / 2
    Theta = K if name == "V" else np.asarray(run.Theta)
    if name in "DF":
        pairs = ((Theta, K), (K, Theta))
        return sum(
            x[:, a, b] * y[:, c, d] + x[:, a, c] * y[:, b, d] + x[:, a, d] * y[:, b, c] for x, y in pairs
        ) / 6
    x = Theta
    return (x[:, a, b] * x[:, c, d] + x[:, a, c] * x[:, b, d] + x[:, a, d] * x[:, b, c]) / 3


def measured(phi: str, law: str, names: tuple[str, ...], width: int, networks: int, layers: int):
    """The estimates of finite networks at the same inputs."""
    settings: dict = {"seed": single.SEED + width}
    if names == ("V",):
        settings["sampler"] = "lazy"
    else:
        settings["rates"] = (single.RATES[0], [1 / l for l in range(1, layers + 1)])
    return mf.measure(
        mf.networks.mlp(phi, weights=law), sigma_w=single.C_W[phi] ** 0.5, sigma_b=0, quantities=names,
        inputs=single.inputs(width, 4), networks=networks, width=width, depth=layers, **settings,
    )  # fmt: skip


def at_two_widths(
    phi: str, law: str, names: tuple[str, ...], width: int, networks: int, layers: int
) -> Callable[[str, tuple[int, ...]], tuple[np.ndarray, Points, Points]]:
    """A function of a correlator's name and a tuple of inputs: the theory's line, networks of the width, networks of
    half of it, normalized."""
    runs = [
        (theory(phi, law, names, layers, n), measured(phi, law, names, n, networks, layers))
        for n in (width, width // 2)
    ]

    def at_inputs(name: str, inputs: tuple[int, ...]) -> tuple[np.ndarray, Points, Points]:
        at, lines, found = (slice(None), *inputs), [], []
        for exact, run in runs:
            over, estimate = scale(exact, name, inputs), run.estimate(name)
            lines.append(getattr(exact, name)[at] / over)
            found.append(tuple(x[at] / over for x in (estimate.mean, estimate.standard_error)))
        return lines[0], found[0], single.of_half(lines[0], found[1], lines[1])

    return at_inputs


def vertices(phi: str, width: int = 100, networks: int = 1000, layers: int = 11) -> Figure:
    """Figures 10, 11, 12: Ṽ of one to four inputs; Gaussian, orthogonal and mixed networks."""
    with files.require().rc_context(files.LOOK):
        figure, panels = single.new(3, wide=2.8)
        size = single.largest(phi, layers, width)
        for panel, law in zip(panels, ("gaussian", "orthogonal", "mixed")):
            compared = at_two_widths(phi, law, ("V",), width, networks, layers)
            for (label, at), colour in zip(PATTERNS.items(), single.COLOURS):
                style = {"label": label, "note": f"V, {law}, inputs {label}", "size": size}
                single.dotted(panel, *compared("V", at), colour, width, **style)
            panel.set(xlabel=r"$\ell$", title=f"{phi}, {law.capitalize()}")
        panels[0].set_ylabel(r"$\tilde V$")
        panels[0].legend(title="inputs")
        return figure


def figure_13(width: int = 50, networks: int = 500, layers: int = 11) -> Figure:
    """Ã, B̃, D̃, F̃ of four inputs of tanh networks, Gaussian and orthogonal."""
    names = ("A", "B", "D", "F")
    with files.require().rc_context(files.LOOK):
        figure, panels = single.new(2)
        for panel, law in zip(panels, ("gaussian", "orthogonal")):
            compared = at_two_widths("tanh", law, names, width, networks, layers)
            for name, colour in zip(names, single.COLOURS):
                style = {"label": rf"$\tilde {name}$", "note": f"{name}, {law}"}
                single.dotted(panel, *compared(name, PATTERNS["4"]), colour, width, **style)
            panel.set(xlabel=r"$\ell$", title=f"tanh, {law.capitalize()}")
        panels[0].legend()
        return figure
