"""Networks of explicit matrices, for the tests of powers alone: one step to first order, with all its parts."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import numpy as np

ARCHITECTURES = ("chain", "residual", "preln", "gate")


class Tape:
    """Values in the order in which they are computed; each node says how to go back, and on, from it."""

    def __init__(self, nudge: float = 0.0, steps: Any = ()) -> None:
        self.values, self.parents, self.back, self.on, self.own, self.names = [], [], [], [], [], []
        self.explicit: list[Any] = []  # of every Dense and norm, a function of ∂f/∂ of it: the step, entry by entry
        self.nudge, self.steps = nudge, iter(steps)  # parameters start from what they are and nudge · steps

    def moved(self, *held):
        """Parameters, moved by their part of `steps`."""
        return held if not self.nudge else tuple(p + self.nudge * d for p, d in zip(held, next(self.steps)))

    def put(self, value, parents=(), back=None, on=None, own=None, name=""):
        for held, new in zip((self.values, self.parents, self.back, self.on, self.own, self.names),
                             (value, parents, back, on, own, name)):  # fmt: skip
            held.append(new)
        return len(self.values) - 1

    def dense(self, x, G, b, w, of_bias, name):
        """m W a + m_b b; w, of_bias: what `numbers` gives."""
        W, b = self.moved(np.sqrt(w["variance"]) * G, b * np.sqrt(of_bias["variance"]) * (name != "readout"))
        a, m, mb = self.values[x], w["multiplier"], of_bias["multiplier"]

        def explicit(d):
            g, gb = m * np.outer(d, a), mb * d
            step = {"sgd": g, "adam": np.sign(g), "muon": _polar(g)}[w["optimizer"]]
            return -w["rate"] * step, -of_bias["rate"] * (gb if of_bias["optimizer"] == "sgd" else np.sign(gb))

        self.explicit.append(explicit)

        def own(d):
            gb = mb * d
            step_b = gb if of_bias["optimizer"] == "sgd" else np.sign(gb)
            gradient = m * np.sqrt(np.mean(d**2) * np.mean(a**2))
            return w["rate"] * m * stepped(w["optimizer"], m, d, a), -of_bias["rate"] * mb * step_b, gradient

        value = m * W @ a + mb * b
        return self.put(value, (x,), lambda d: (m * W.T @ d,), lambda t: m * W @ t[0], own, name)

    def phi(self, x, kind="tanh"):
        z = self.values[x]
        if kind == "tanh":
            value, slope = np.tanh(z), 1 - np.tanh(z) ** 2
        elif kind == "relu":
            value, slope = np.maximum(z, 0), (z > 0).astype(float)
        else:
            s = 1 / (1 + np.exp(-z))
            value, slope = z * s, s + z * s * (1 - s)
        return self.put(value, (x,), lambda d: (d * slope,), lambda t: t[0] * slope)

    def norm(self, x, of_bias, centred):
        z = self.values[x]
        mean = z.mean() if centred else 0.0
        size = np.sqrt(np.mean((z - mean) ** 2))
        y = (z - mean) / size
        m = of_bias["multiplier"]  # γ = 1 + m γ', β = m β'
        gain, shift = self.moved(np.zeros_like(y), np.zeros_like(y))

        def project(d):
            d = d - y * np.mean(d * y)
            return (d - (d.mean() if centred else 0.0)) / size

        def explicit(d):
            grads = m * d * y, m * d * centred
            return tuple(-of_bias["rate"] * (g if of_bias["optimizer"] == "sgd" else np.sign(g)) for g in grads)

        def own(d):
            to_gain, to_shift = explicit(d)
            return m * (to_gain * y + to_shift)

        self.explicit.append(explicit)
        value = (1 + m * gain) * y + m * shift
        return self.put(value, (x,), lambda d: (project(d),), lambda t: project(t[0]), own, "norm")

    def add(self, x, y, factor):
        value = self.values[x] + factor * self.values[y]
        return self.put(value, (x, y), lambda d: (d, factor * d), lambda t: t[0] + factor * t[1])

    def product(self, x, y):
        u, v = self.values[x], self.values[y]
        return self.put(u * v, (x, y), lambda d: (d * v, d * u), lambda t: t[0] * v + u * t[1])

    def step(self):
        """(∂f/∂ of every value, its change, the own parts of every Dense)."""
        slopes = [np.zeros_like(v) for v in self.values]
        slopes[-1] = np.ones_like(self.values[-1])
        for k in reversed(range(len(self.values))):
            if self.back[k]:
                for parent, d in zip(self.parents[k], self.back[k](slopes[k])):
                    slopes[parent] = slopes[parent] + d
        changes, parts = [], {}
        for k in range(len(self.values)):
            change = self.on[k]([changes[p] for p in self.parents[k]]) if self.on[k] else np.zeros_like(self.values[k])
            if self.names[k] == "norm":
                change = change + self.own[k](slopes[k])
            elif self.own[k]:
                parts[k] = (*self.own[k](slopes[k]), change)
                change = change + parts[k][0] + parts[k][1]
            changes.append(change)
        return slopes, changes, parts


def _polar(g: np.ndarray) -> np.ndarray:
    u, s, v = np.linalg.svd(g, full_matrices=False)
    return (u * (s > 1e-10 * s[0])) @ v


def stepped(optimizer: str, m: float, d: np.ndarray, a: np.ndarray) -> np.ndarray:
    """ΔW a of one step of rate 1 against the gradient m d aᵀ, which has rank one."""
    if optimizer == "sgd":
        return -m * d * (a @ a)
    if optimizer == "adam":
        return -np.sign(d) * np.abs(a).sum()
    return -d * np.linalg.norm(a) / np.linalg.norm(d)


@cache
def draws(n: int, seed: int, count: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng([seed, n])
    return [rng.standard_normal((n, n)) for _ in range(count)], [rng.standard_normal(n) for _ in range(count)]


def numbers(scheme: Any, kind: str, n: int, L: int, outside: bool = False) -> dict[str, Any]:
    """Multiplier, variance and rate of a kind; outside: of what is not in a block, without powers of L."""
    found: dict[str, Any] = dict(scheme.at(n, 1 if outside else L)[kind])
    return found | {"optimizer": "adam" if scheme.optimizer == "muon" and kind != "hidden" else scheme.optimizer}


def network(scheme: Any, architecture: str, n: int, L: int, seed: int, phi: str = "tanh", **nudged: Any) -> Tape:
    """One network of n neurons and L blocks."""
    t, hidden, bias = Tape(**nudged), numbers(scheme, "hidden", n, L), numbers(scheme, "bias", n, L)
    outer = numbers(scheme, "bias", n, L, outside=True)
    per = {"chain": 1, "residual": 1, "preln": 2, "gate": 3}[architecture]
    count = per * L + 2
    G, b = draws(n, seed, count)
    at = iter(range(1 << 30))

    def dense(x, name, kind="hidden", of=bias):
        k = next(at)
        w = hidden if kind == "hidden" else numbers(scheme, kind, n, L)
        M = G[k][:, :8] if kind == "input" else G[k][:1] if kind == "readout" else G[k]
        vector = b[k][:1] if kind == "readout" else b[k]
        return t.dense(x, M, vector, w, of, name)

    x = dense(t.put(np.ones(8) * 0.4), "input", "input", outer)
    factor = scheme.at(n, L)["factors"]["branch"]
    for _ in range(L):
        if architecture == "chain":
            x = dense(t.phi(x, phi), "dense")
            continue
        if architecture == "residual":
            y = dense(t.phi(x, phi), "dense")
        elif architecture == "preln":
            y = dense(t.phi(dense(t.norm(x, bias, True), "up"), phi), "down")
        else:
            h = t.norm(x, bias, False)
            y = dense(t.product(dense(h, "up"), t.phi(dense(h, "gate"), "silu")), "down")
        x = t.add(x, y, factor)
    y = t.phi(x, phi) if architecture in ("chain", "residual") else t.norm(x, outer, architecture == "preln")
    last = outer | {"multiplier": 1.0, "variance": 1.0, "rate": 1.0}
    dense(y, "readout", "readout", last)
    return t


def sizes(scheme: Any, architecture: str, n: int, L: int, seeds: int, **more: Any) -> dict[tuple[str, str], float]:
    """(matrix, column) → the size of it: root mean squares over neurons, blocks and networks, K as a mean square."""
    total: dict[tuple[str, str], list[float]] = defaultdict(list)
    for seed in range(seeds):
        t = network(scheme, architecture, n, L, seed, **more)
        slopes, changes, parts = t.step()
        effects: dict[str, float] = defaultdict(float)
        for k, (own, own_bias, gradient, inherited) in parts.items():
            name = t.names[k]
            z = t.values[k]
            if name == "readout":  # its mean square over readouts, given what it is given
                w = numbers(scheme, "readout", n, L)
                z = w["multiplier"] * np.sqrt(w["variance"]) * np.linalg.norm(t.values[t.parents[k][0]])
            held = {"K": z, "delta": slopes[k], "own": own, "bias": own_bias, "inherited": inherited,
                    "total": changes[k], "gradient": gradient}  # fmt: skip
            for column, values in held.items():
                total[name, column].append(float(np.mean(np.square(values))))
            effects[name] += float(np.sum(slopes[k] * own))
        for name, effect in effects.items():
            total[name, "effect"].append(effect**2)
    return {key: float(np.mean(v)) ** (1.0 if key[1] == "K" else 0.5) for key, v in total.items()}


def fitted(scheme: Any, architecture: str, at: tuple[tuple[int, int], ...], seeds: int) -> dict:
    """(matrix, column) → the exponent of what changes between two pairs (n, L): of n, or of L."""
    found = [sizes(scheme, architecture, n, L, seeds) for n, L in at]
    ratio = np.log(at[1][0] / at[0][0] * at[1][1] / at[0][1])
    return {k: float(np.log(found[1][k] / found[0][k]) / ratio) if found[0][k] else None for k in found[0]}
