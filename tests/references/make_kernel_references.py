"""30-digit references of K and Theta between two inputs: `python -m tests.references.make_kernel_references`.

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
from flint import arb, ctx

FILE = Path(__file__).with_name("kernels.json")
SEED, INPUTS, DIMENSION, DEPTH = 17, 64, 8, 11
SIGMA_W, SIGMA_B = 1.5, 0.1
PAIRS = ((0, 1), (2, 3), (10, 45), (20, 63))
DIGITS = 30


def inputs() -> np.ndarray:
    return np.random.default_rng(SEED).standard_normal((INPUTS, DIMENSION))


def density(z):
    return mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)


def sech2(z):
    return 1 / z.cosh() ** 2


def sigmoid(z):
    return 1 / (1 + (-z).exp())


def normal_cdf(z):
    return (-z / arb(2).sqrt()).erfc() / 2


def normal_density(z):
    return (-z * z / 2).exp() / (2 * arb.pi()).sqrt()


SMOOTH = {  # φ and φ′ of arb's numbers (its functions are an order of magnitude faster), the step at deviation 1
    "tanh": (lambda z: z.tanh(), sech2, 0.13),
    "silu": (lambda z: z * sigmoid(z), lambda z: sigmoid(z) * (1 + z * sigmoid(-z)), 0.22),
    "gelu": (lambda z: z * normal_cdf(z), lambda z: normal_cdf(z) + z * normal_density(z), 0.3),
    "sin": (lambda z: z.sin(), lambda z: z.cos(), 0.3),
}


def as_arb(x) -> arb:
    return arb(mp.nstr(x, 42))


def as_mp(x: arb):
    return mp.mpf(x.mid().str(42, radius=False))


def smooth(name: str, A, AB, B, scale: float = 1):
    """⟨φφ⟩ and ⟨φ′φ′⟩: trapezoidal sums, z_a = s u and z_b = t (c u + d v)."""
    phi, slope, step = SMOOTH[name]
    s, t = mp.sqrt(A), mp.sqrt(B)
    c = AB / (s * t)
    d = mp.sqrt(1 - c * c)
    h = mp.mpf(step) / max(s, t, 1) / scale
    n = int(12.6 / h)
    x = [h * k for k in range(-n, n + 1)]
    weight = [density(u) * h for u in x]
    exact = [as_arb(w) for w in weight]
    rows = [as_arb(t * d * v) for v in x]
    logs = [float(mp.log10(w)) for w in weight]
    value = change = arb(0)
    for u, w, size in zip(x, exact, logs):
        if size < -36:
            continue
        inner, other, start = arb(0), arb(0), as_arb(t * c * u)
        for row, v, small in zip(rows, exact, logs):
            if size + small > -37:
                z = start + row
                inner += v * phi(z)
                other += v * slope(z)
        z = as_arb(s * u)
        value += w * phi(z) * inner
        change += w * slope(z) * other
    return as_mp(value), as_mp(change)


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


def averages(name: str, A, AB, B, scale: float):
    return {"erf": erf, "relu": relu}[name](A, AB, B) if name in ("erf", "relu") else smooth(name, A, AB, B, scale)


def alone(name: str, A, scale: float):
    """⟨φ²⟩, the same sums in one variable."""
    if name == "erf":
        return 2 / mp.pi * mp.asin(2 * A / (1 + 2 * A))
    if name == "relu":
        return A / 2
    phi, _, step = SMOOTH[name]
    s = mp.sqrt(A)
    h = mp.mpf(step) / max(s, 1) / scale
    n = int(12.6 / h)
    return h * mp.fsum(density(h * k) * as_mp(phi(as_arb(s * h * k))) ** 2 for k in range(-n, n + 1))


def kernel(name: str, x, y, scale: float = 1) -> tuple:
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
    mp.mp.dps, ctx.prec = 40, 140
    X = inputs()
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name in names or ("relu", "erf", "sin", "gelu", "silu", "tanh"):
        rows = [kernel(name, X[a], X[b]) for a, b in PAIRS]
        known[name] = [[mp.nstr(v, DIGITS) for v in row] for row in rows]
        if name in SMOOTH:  # a step a fifth shorter says how many digits stand
            a, b = PAIRS[0]
            print(name, max(abs(p - q) for p, q in zip(kernel(name, X[a], X[b], 1.2), rows[0])), flush=True)
        FILE.write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
