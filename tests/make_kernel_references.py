"""30-digit references of K and Theta between two inputs, by mpmath alone: `python -m tests.make_kernel_references`.

Ten nonlinearities and a readout, σ_w = 1.5, σ_b = 0.1, inputs of dimension 8 drawn from a normal law. Averages of
smooth φ are trapezoidal sums in two whitened variables, which converge exponentially; those of relu and erf are the
textbook forms of arccosines and arcsines. Nothing of meanfield is imported.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mpmath as mp
import numpy as np

FILE = Path(__file__).with_name("data") / "kernels.json"
SEED, INPUTS, DIMENSION, DEPTH = 17, 64, 8, 11
SIGMA_W, SIGMA_B = 1.5, 0.1
PAIRS = ((0, 1), (2, 3), (10, 45), (20, 63))
DIGITS = 30


def inputs() -> np.ndarray:
    return np.random.default_rng(SEED).standard_normal((INPUTS, DIMENSION))


def sigmoid(z):
    return 1 / (1 + mp.exp(-z)) if z > 0 else mp.exp(z) / (1 + mp.exp(z))


def normal_cdf(z):
    return mp.erfc(-z / mp.sqrt(2)) / 2


def density(z):
    return mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)


SMOOTH = {  # φ, φ′, the step at standard deviation 1
    "tanh": (mp.tanh, lambda z: mp.sech(z) ** 2, 0.13),
    "silu": (lambda z: z * sigmoid(z), lambda z: sigmoid(z) * (1 + z * sigmoid(-z)), 0.26),
    "gelu": (lambda z: z * normal_cdf(z), lambda z: normal_cdf(z) + z * density(z), 0.3),
    "sin": (mp.sin, mp.cos, 0.3),
}


def smooth(name: str, A, AB, B, scale: int = 1):
    """⟨φφ⟩ and ⟨φ′φ′⟩."""
    phi, slope, step = SMOOTH[name]
    s, t = mp.sqrt(A), mp.sqrt(B)
    c = AB / (s * t)
    d = mp.sqrt(1 - c * c)
    h = mp.mpf(step) / max(s, t, 1) / scale
    n = int(12.6 / h)
    x = [h * k for k in range(-n, n + 1)]
    weight = [density(u) * h for u in x]
    first = [(phi(s * u), slope(s * u)) for u in x]
    value = change = mp.mpf(0)
    for u, wu, (p, q) in zip(x, weight, first):
        if wu < mp.mpf(10) ** -36:
            continue
        inner = other = mp.mpf(0)
        for v, wv in zip(x, weight):
            if wu * wv > mp.mpf(10) ** -37:
                z = t * (c * u + d * v)
                inner += wv * phi(z)
                other += wv * slope(z)
        value += wu * p * inner
        change += wu * q * other
    return value, change


def erf(A, AB, B):
    root = mp.sqrt((1 + 2 * A) * (1 + 2 * B))
    return 2 / mp.pi * mp.asin(2 * AB / root), 4 / mp.pi / mp.sqrt((1 + 2 * A) * (1 + 2 * B) - 4 * AB * AB)


def relu(A, AB, B):
    root = mp.sqrt(A * B)
    angle = mp.acos(AB / root)
    return (
        root / (2 * mp.pi) * (mp.sin(angle) + (mp.pi - angle) * mp.cos(angle)),
        (mp.pi - angle) / (2 * mp.pi),
    )


def averages(name: str, A, AB, B, scale: int):
    return {"erf": erf, "relu": relu}[name](A, AB, B) if name in ("erf", "relu") else smooth(name, A, AB, B, scale)


def alone(name: str, A, scale: int):
    """⟨φ²⟩, the same sums in one variable."""
    if name == "erf":
        return 2 / mp.pi * mp.asin(2 * A / (1 + 2 * A))
    if name == "relu":
        return A / 2
    phi, _, step = SMOOTH[name]
    s = mp.sqrt(A)
    h = mp.mpf(step) / max(s, 1) / scale
    return h * mp.fsum(density(h * k) * phi(s * h * k) ** 2 for k in range(-int(12.6 / h), int(12.6 / h) + 1))


def kernel(name: str, x, y, scale: int = 1) -> tuple:
    """K_aa, K_bb, K_ab and Theta_ab at the last layer."""
    w2, b2 = mp.mpf(SIGMA_W) ** 2, mp.mpf(SIGMA_B) ** 2
    X, Y = ([mp.mpf(float(v)) for v in row] for row in (x, y))
    A, B, AB = (w2 * mp.fsum(p * q for p, q in zip(u, v)) / len(X) + b2 for u, v in ((X, X), (Y, Y), (X, Y)))
    theta = AB
    for _ in range(DEPTH - 1):
        value, change = averages(name, A, AB, B, scale)
        theta = w2 * value + b2 + w2 * change * theta
        A, B, AB = w2 * alone(name, A, scale) + b2, w2 * alone(name, B, scale) + b2, w2 * value + b2
    return A, B, AB, theta


def main(names: list[str]) -> None:
    mp.mp.dps = 40
    X = inputs()
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in names or ("relu", "erf", "sin", "gelu", "silu", "tanh"):
        rows = [kernel(name, X[a], X[b]) for a, b in PAIRS]
        known[name] = [[mp.nstr(v, DIGITS) for v in row] for row in rows]
        if name in SMOOTH:
            finer = kernel(name, X[PAIRS[0][0]], X[PAIRS[0][1]], 2) if name in ("sin",) else rows[0]
            print(name, max(abs(p - q) for p, q in zip(finer, rows[0])))
        FILE.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
