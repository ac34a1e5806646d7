"""Figures 10-13: normalized correlators of up to four inputs, at the index patterns of (A.1)-(A.5)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

import meanfield as mf
from derivations.orthogonal_weights import figures as single
from meanfield.base import files

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
    settings: dict = {"sampler": "lazy"} if names == ("V",) else {}
    if not settings:
        settings["rates"] = (single.RATES[0], [1 / l for l in range(1, layers + 1)])
    return mf.measure(
        mf.networks.mlp(phi, weights=law), sigma_w=single.C_W[phi] ** 0.5, sigma_b=0, quantities=names,
        inputs=single.inputs(width, 4), networks=networks, width=width, depth=layers, seed=single.SEED, **settings,
    )  # fmt: skip


def vertices(phi: str, width: int = 100, networks: int = 1000, layers: int = 11) -> Figure:
    """Figures 10, 11, 12: Ṽ of one to four inputs; Gaussian, orthogonal and mixed networks."""
    with files.require().rc_context(files.LOOK):
        figure, panels = single.new(3, wide=2.8)
        for panel, law in zip(panels, ("gaussian", "orthogonal", "mixed")):
            exact = theory(phi, law, ("V",), layers, width)
            estimate = measured(phi, law, ("V",), width, networks, layers).estimate("V")
            for (label, at), colour in zip(PATTERNS.items(), single.COLOURS):
                over = scale(exact, "V", at)
                found = tuple(x[(slice(None), *at)] / over for x in (estimate.mean, estimate.standard_error))
                line = exact.V[(slice(None), *at)] / over
                single.dotted(panel, found, line, colour, width, f"V, {law}, inputs {label}", label=label)
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
            exact = theory("tanh", law, names, layers, width)
            run = measured("tanh", law, names, width, networks, layers)
            for name, colour in zip(names, single.COLOURS):
                at = (slice(None), *PATTERNS["4"])
                over, estimate = scale(exact, name, PATTERNS["4"]), run.estimate(name)
                found = tuple(x[at] / over for x in (estimate.mean, estimate.standard_error))
                line = getattr(exact, name)[at] / over
                single.dotted(panel, found, line, colour, width, f"{name}, {law}", label=rf"$\tilde {name}$")
            panel.set(xlabel=r"$\ell$", title=f"tanh, {law.capitalize()}")
        panels[0].legend()
        return figure
