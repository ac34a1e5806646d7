"""One step of training of finite networks, in plain NumPy for the tests: by how much every Dense's outputs change.

The loss is linear in the outputs, (1/B) Σ_b chi_b f(x_b) over B inputs, and the step is that of the stored W and b. No
code of the library is called; `differences` repeats the gradients, which are written by hand, by central differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.parametrizations.coordinate_nodes import Parameters, Seen, denses, inputs_of, run

SIGMA = 1e-10  # singular values of a gradient below this share of the largest one are rounding


def draw(body: tuple, d: int, rng: np.random.Generator) -> list[Parameters]:
    """Stored parameters of a network that is given d numbers."""
    drawn = []
    for node, size in zip(denses(body), inputs_of(body, d)[1], strict=True):
        s = node.setting
        W = rng.standard_normal((node.size, size))
        drawn.append(Parameters(s.S * W, s.Sb * rng.standard_normal(node.size)))
    return drawn


def gradients(body: tuple, weights: list[Parameters], x: np.ndarray, chi: np.ndarray) -> tuple[list, list[Seen]]:
    """(gradients of (1/B) Σ chi_b f_b by the stored W and b as pairs, what every Dense saw)."""
    seen: list[Seen] = []
    f, back = run(body, x, iter(weights), seen)
    back((chi / len(x))[:, None] * np.ones_like(f))
    found = []
    for one, node in zip(seen, denses(body), strict=True):
        found.append((node.setting.M * one.delta.T @ one.a, node.setting.Mb * one.delta.sum(axis=0)))
    return found, seen


def loss(body: tuple, weights: list[Parameters], x: np.ndarray, chi: np.ndarray) -> float:
    return float((chi * run(body, x, iter(weights), [])[0][:, 0]).mean())


def differences(body: tuple, weights: list[Parameters], x: np.ndarray, chi: np.ndarray, step: float = 1e-5) -> list:
    """The same gradients by central differences of the loss, entry by entry: for small networks."""
    found = []
    for pair in weights:
        sides = []
        for array in pair:
            slope = np.zeros(array.shape)
            for at in np.ndindex(array.shape):
                kept = array[at]
                array[at] = kept + step
                up = loss(body, weights, x, chi)
                array[at] = kept - step
                slope[at] = (up - loss(body, weights, x, chi)) / (2 * step)
                array[at] = kept
            sides.append(slope)
        found.append(tuple(sides))
    return found


def polar(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """U Vᵀ of leftᵀ right = U Σ Vᵀ, of which zero singular values are left out; left (B, out) and right (B, in)."""
    (Q, R), (P, T) = np.linalg.qr(left.T), np.linalg.qr(right.T)
    U, size, V = np.linalg.svd(R @ T.T)
    keep = size > SIGMA * size.max(initial=0)
    return (Q @ U[:, : len(size)][:, keep]) @ (V[: len(size)][keep] @ P.T)


def moved(rule: str, eta: float, eps: float, gradient: np.ndarray, factors: Callable[[], np.ndarray]) -> np.ndarray:
    """What one step adds to a stored array; `factors` gives the polar factor of the gradient."""
    if eta == 0:
        return np.zeros_like(gradient)
    if rule == "sgd":
        return -eta * gradient
    if rule == "adam":
        if eps == 0:
            return -eta * np.sign(gradient)
        return -eta * gradient / (np.abs(gradient) + eps)
    if rule == "muon":
        return -eta * factors()
    raise ValueError(f"a rule is sgd, adam or muon, and not {rule}")


def steps(body: tuple, found: list, seen: list[Seen]) -> list[Parameters]:
    """What the first step adds to every W and b."""
    changes = []
    for node, (gW, gb), one in zip(denses(body), found, seen, strict=True):
        s = node.setting
        dW = moved(s.rule, s.eta, s.eps, gW, lambda one=one, s=s: polar(s.M * one.delta, one.a))
        db = moved(s.rule_of_bias, s.eta_b, s.eps, gb, lambda gb=gb: polar(gb[None], np.ones((1, 1)))[:, 0])
        changes.append(Parameters(dW, db))
    return changes


# ------------------------------------------------------------------------------------------------------------ measured


@dataclass(frozen=True)
class Measured:
    """Mean squares over neurons and inputs, a row per network, a column per Dense: (networks, denses); the readout is
    the last Dense. Of the outputs (f, Df and its two parts), the numbers themselves: (networks, inputs)."""

    z: np.ndarray  # of z at the start
    total: np.ndarray  # of z_new − z
    own: np.ndarray  # of M·dW a_new + Mb·db
    delta: np.ndarray  # of the gradient of the loss by z at the start
    f: np.ndarray
    Df: np.ndarray
    Df_own: np.ndarray  # by the readout's own parameters
    Df_rest: np.ndarray  # Df − Df_own


def measure_one(body: tuple, x: np.ndarray, chi: np.ndarray, rng: np.random.Generator) -> tuple:
    """Of one network: the columns of `Measured` as one row each."""
    nodes = denses(body)
    weights = draw(body, x.shape[1], rng)
    found, seen = gradients(body, weights, x, chi)
    changes = steps(body, found, seen)
    after: list[Seen] = []
    run(body, x, iter([Parameters(w.W + c.W, w.b + c.b) for w, c in zip(weights, changes)]), after)
    own = [
        node.setting.M * (new.a @ change.W.T) + node.setting.Mb * change.b
        for node, new, change in zip(nodes, after, changes)
    ]
    total = [new.z - old.z for old, new in zip(seen, after)]

    def squares(arrays: list) -> np.ndarray:
        return np.array([np.mean(a**2) for a in arrays])

    Df, Df_own = total[-1][:, 0], own[-1][:, 0]
    old = [one.z for one in seen]
    deltas = [one.delta for one in seen]
    return (*map(squares, (old, total, own, deltas)), seen[-1].z[:, 0], Df, Df_own, Df - Df_own)


def measure(body: tuple, x: np.ndarray, networks: int, seed: int, chi: float | np.ndarray = 1.0) -> Measured:
    """`networks` draws of a network, one step each; x is (inputs, d) or, for one input, (d,)."""
    x = np.atleast_2d(np.asarray(x, dtype=float))
    chi = np.broadcast_to(np.asarray(chi, dtype=float), len(x))
    rows = [measure_one(body, x, chi, np.random.default_rng([seed, k])) for k in range(networks)]
    return Measured(*(np.array(column) for column in zip(*rows)))


def rms(squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(√mean, its standard error) over the networks, the first axis of mean squares."""
    mean = squares.mean(axis=0)
    error = squares.std(axis=0, ddof=1) / np.sqrt(len(squares))
    root = np.sqrt(mean)
    return root, np.divide(error, 2 * root, out=np.zeros_like(root), where=root > 0)
