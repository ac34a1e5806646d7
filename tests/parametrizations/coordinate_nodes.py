"""Networks in plain NumPy, written for the tests: outputs, and gradients by hand. No code of the library is called.

A Dense is z = M·W a + Mb·b. W and b are what is stored and stepped, M and Mb are fixed multipliers. The entries of W
are N(0, S²) and those of b N(0, Sb²). Nodes are composed freely; four architectures are named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import erf

Back = Callable[[np.ndarray], np.ndarray]  # the gradient of the loss by a node's output ↦ by its input


@dataclass(frozen=True)
class Setting:
    """The numbers of one Dense. `rule` is "sgd", "adam" or "muon"; `bias_rule` is that of b, by default the same, but
    Adam's beside Muon. `eps` is Adam's, and belongs to the gradients of W and b as they are stored."""

    S: float = 1.0
    M: float = 1.0
    Sb: float = 0.0
    Mb: float = 1.0
    eta: float = 0.0
    eta_b: float = 0.0
    rule: str = "sgd"
    bias_rule: str = ""
    eps: float = 0.0

    @property
    def rule_of_bias(self) -> str:
        return self.bias_rule or ("adam" if self.rule == "muon" else self.rule)


@dataclass
class Seen:
    """What one Dense was given and gave, (inputs, neurons), and the gradient of the loss by z; a row per input."""

    a: np.ndarray
    z: np.ndarray
    delta: np.ndarray = field(default_factory=lambda: np.zeros(0))


class Parameters(NamedTuple):
    """One Dense's W, (out, in), and b, (out,)."""

    W: np.ndarray
    b: np.ndarray


# ---------------------------------------------------------------------------------- nodes: outputs, and gradients back


@dataclass(frozen=True)
class Dense:
    """z = M·W a + Mb·b with `size` outputs."""

    size: int
    setting: Setting

    def run(self, x: np.ndarray, weights: Iterator[Parameters], seen: list[Seen]) -> tuple[np.ndarray, Back]:
        W, b = next(weights)
        one = Seen(x, self.setting.M * (x @ W.T) + self.setting.Mb * b)
        seen.append(one)

        def back(g: np.ndarray) -> np.ndarray:
            one.delta = g
            return self.setting.M * (g @ W)

        return one.z, back


@dataclass(frozen=True)
class Phi:
    """phi of every neuron: tanh, relu or gelu (the one with erf)."""

    name: str

    def run(self, x: np.ndarray, weights: Iterator[Parameters], seen: list[Seen]) -> tuple[np.ndarray, Back]:
        value, slope = phi(self.name, x)
        return value, lambda g: g * slope


@dataclass(frozen=True)
class Norm:
    """A LayerNorm without gains: mean 0 and mean square 1 over the neurons."""

    def run(self, x: np.ndarray, weights: Iterator[Parameters], seen: list[Seen]) -> tuple[np.ndarray, Back]:
        sd = x.std(axis=-1, keepdims=True)
        y = (x - x.mean(axis=-1, keepdims=True)) / sd

        def back(g: np.ndarray) -> np.ndarray:
            return (g - g.mean(axis=-1, keepdims=True) - y * (g * y).mean(axis=-1, keepdims=True)) / sd

        return y, back


@dataclass(frozen=True)
class Residual:
    """h + s·body(h)."""

    body: tuple
    s: float = 1.0

    def run(self, x: np.ndarray, weights: Iterator[Parameters], seen: list[Seen]) -> tuple[np.ndarray, Back]:
        y, inner = run(self.body, x, weights, seen)
        return x + self.s * y, lambda g: g + inner(self.s * g)


@dataclass(frozen=True)
class Gate:
    """u·v of two bodies that are given the same; the weights of u come first."""

    u: tuple
    v: tuple

    def run(self, x: np.ndarray, weights: Iterator[Parameters], seen: list[Seen]) -> tuple[np.ndarray, Back]:
        u, back_u = run(self.u, x, weights, seen)
        v, back_v = run(self.v, x, weights, seen)
        return u * v, lambda g: back_u(g * v) + back_v(g * u)


def run(body: tuple, x: np.ndarray, weights: Iterator[Parameters], seen: list[Seen]) -> tuple[np.ndarray, Back]:
    """Nodes one after the other. Every Dense appends what it saw, and delta once a gradient is sent back."""
    backs = []
    for node in body:
        x, back = node.run(x, weights, seen)
        backs.append(back)

    def chained(g: np.ndarray) -> np.ndarray:
        for one in reversed(backs):
            g = one(g)
        return g

    return x, chained


def phi(name: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(phi, phi′)."""
    if name == "tanh":
        value = np.tanh(x)
        return value, 1 - value**2
    if name == "relu":
        return np.maximum(x, 0), (x > 0).astype(float)
    if name == "gelu":
        below = (1 + erf(x / np.sqrt(2))) / 2
        return x * below, below + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    raise ValueError(f"phi is tanh, relu or gelu, and not {name}")


# ------------------------------------------------------------------------------------------------------ architectures
# Each takes the settings of its Dense in the order in which they are run: input, blocks, readout.


def chain(n: int, phi: str, settings: Sequence[Setting]) -> tuple:
    """Dense, then (phi, Dense) × blocks, then phi and Dense(1); blocks = len(settings) − 2."""
    first, *blocks, last = settings
    inner = [node for one in blocks for node in (Phi(phi), Dense(n, one))]
    return (Dense(n, first), *inner, Phi(phi), Dense(1, last))


def residual(n: int, phi: str, settings: Sequence[Setting], s: float = 1.0) -> tuple:
    """Dense, then h + s·(phi, Dense)(h) × blocks, then phi and Dense(1); blocks = len(settings) − 2."""
    first, *blocks, last = settings
    inner = [Residual((Phi(phi), Dense(n, one)), s) for one in blocks]
    return (Dense(n, first), *inner, Phi(phi), Dense(1, last))


def pre_norm(n: int, phi: str, settings: Sequence[Setting], s: float = 1.0, r: int = 1) -> tuple:
    """Dense, then h + s·(LN, Dense(r·n), phi, Dense(n))(h) × blocks, then LN and Dense(1); two settings a block."""
    first, *blocks, last = settings
    pairs = zip(blocks[::2], blocks[1::2], strict=True)
    inner = [Residual((Norm(), Dense(r * n, a), Phi(phi), Dense(n, b)), s) for a, b in pairs]
    return (Dense(n, first), *inner, Norm(), Dense(1, last))


def gated(n: int, phi: str, settings: Sequence[Setting], r: int = 1, norm: bool = True) -> tuple:
    """Dense, then ([LN,] u·phi(v), Dense(n)) × blocks, then [LN and] Dense(1); u and v are Dense(r·n), three settings a
    block in the order u, v, Dense."""
    first, *blocks, last = settings
    threes = zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True)
    before = (Norm(),) if norm else ()
    inner = [
        node
        for u, v, out in threes
        for node in (*before, Gate((Dense(r * n, u),), (Dense(r * n, v), Phi(phi))), Dense(n, out))
    ]
    return (Dense(n, first), *inner, *before, Dense(1, last))


def denses(body: tuple) -> list[Dense]:
    """The Dense of a network in the order in which they are run."""
    found = []
    for node in body:
        if isinstance(node, Dense):
            found.append(node)
        elif isinstance(node, Residual):
            found += denses(node.body)
        elif isinstance(node, Gate):
            found += denses(node.u) + denses(node.v)
    return found


def inputs_of(body: tuple, d: int) -> tuple[int, list[int]]:
    """(the number of outputs, the numbers of inputs of every Dense) of a body that is given d numbers."""
    sizes: list[int] = []
    for node in body:
        if isinstance(node, Dense):
            sizes.append(d)
            d = node.size
        elif isinstance(node, Residual):
            sizes += inputs_of(node.body, d)[1]
        elif isinstance(node, Gate):
            out, left = inputs_of(node.u, d)
            sizes += left + inputs_of(node.v, d)[1]
            d = out
    return d, sizes
