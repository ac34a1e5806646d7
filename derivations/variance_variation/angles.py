"""Two inputs: Theorems C.7 and C.10 (R36, R61 … R66), by runs of the engine's map, as it has no laws of them yet.

Exponents are those of the last factor of ten of l; e → 1 means that 1 - e falls as a power, or keeps falling.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq

import meanfield as mf
from derivations.claims import Claim, network
from derivations.comparisons import Floats, Holds
from derivations.variance_variation.kernels import far

RELU, TANH = network("relu"), network("tanh")
FAR = 10**6


@lru_cache(maxsize=32)
def run(phi: str, betas: tuple, depth: int = FAR, c0: float = 0.5, sigmas: tuple = (1, 1, 1, 1), norm: float = 1.0):
    """(p, 1 - e) at l = depth/100, depth/10, depth for β_v, β_w, β_a, β_b and σ_v, σ_w, σ_a, σ_b."""
    names = dict(zip(("beta_v", "beta_w", "beta_a", "beta_b"), (str(b) for b in betas)))
    v, w, a, b = sigmas
    theory = mf.derive(phi, architecture="full_residual", sigma_v=str(v), sigma_a=str(a), **names)
    found = theory.propagate(
        sigma_w=w, sigma_b=b, depth=depth + 1, correlation=c0, input_norm=norm, quantities=("K", "distance")
    )
    at = np.array([depth // 100, depth // 10, depth])
    K, distance = (np.asarray(x)[..., at].ravel() for x in (found.K, found.distance))
    return K, distance / 2 / K


def falling(phi: str, *, depth: int = FAR, **more) -> Callable[..., float]:
    """The exponent of 1 - e."""

    def compute(*betas: float) -> float:
        gap = run(phi, betas, depth, **more)[1]
        return math.log10(gap[2] / gap[1])

    return compute


def settling(*betas: float) -> float:
    """The exponent of e* - e, from the last two increments of e."""
    one, two, three = 1 - run("relu", betas)[1]
    return math.log10(abs(three - two) / abs(two - one))


def rises(c0: float, *betas: float) -> bool:
    """Whether e rises from this start."""
    return bool(np.all(np.diff(run("relu", betas, c0=c0)[1]) < -1e-3))


def differs(cases: tuple[tuple[float, ...], ...]) -> bool:
    """Whether the starts e = 0 and ½ end at numbers below 1 that are 0.1 apart."""
    ends = np.array([[run("relu", betas, 10**4, c0)[1][2] for c0 in (0.0, 0.5)] for betas in cases])
    return bool(ends.min() > 0.05 and np.abs(np.diff(ends)).min() > 0.1)


def rate(V: float, W: float) -> float:
    """(1 - e)(k W l^{1-V}/(2(1 - V)))² without sources, W = ½: k = 2√2/(3π)."""
    betas, depth = (0, V, 0, 0), 10**5
    gap = run("relu", betas, depth, sigmas=(1, math.sqrt(2 * W), 0, 0))[1][2]
    k = 2 * math.sqrt(2) / (3 * math.pi)
    return gap * (k * W * depth ** (1 - V) / (2 * (1 - V))) ** 2


def rising(*betas: float) -> float:
    """The exponent of 1/√(1 - e), from its last two increments."""
    one, two, three = run("relu", betas, 10**4)[1] ** -0.5
    return math.log10((three - two) / (two - one))


def metric(*betas: float) -> float:
    """The exponent of s = (1 - e) p."""
    K, gap = run("relu", betas)
    return math.log10(K[2] * gap[2] / (K[1] * gap[1]))


def floats(source, case, quantity, printed, wrong, of, places, tolerance, misprint=False) -> Floats:
    return Floats(source, case, quantity, printed, wrong, misprint, of=of, places=places, tolerance=tolerance)


def U(v: float, w: float, a: float, b: float) -> float:
    return min(v + b, a)


SLOWING = ((0.2, 0.8, 0.7, 0.7), (0.4, 1.6, 1, 1), (0.4, 0.6, 0.5, 0.9))  # V = 1; U = 1; V = 1, W = 1 - U: logarithms
COLLAPSE = (
    floats("R61, R65, V_r > 1, U_r < 1: 1 - e ~ l^{U_r - 1}", RELU, "exponent of 1 - e", lambda *b: U(*b) - 1,
           lambda *b: 0.0, falling("relu"), ((0.5, 1.0, 0.4, 0.9), (0.2, 1.5, 0.5, 0.3)), 0.05),
    floats("R61, R65, V_r = 1, W_r < 1 - U_r", RELU, "exponent of 1 - e", lambda *b: 0.5 - (1 - U(*b)), lambda *b: 0.0,
           falling("relu"), ((0.2, 0.8, 0.1, 0.9), (0.0, 1.0, 0.0, 0.0)), 0.05),
    floats("R61, R65, V_r < 1, biases: 1 - e ~ l^{-2(1 - V_r)}", RELU, "exponent of √(1/(1 - e))",
           lambda *b: 1 - b[0] - b[1], lambda *b: 2 * (1 - b[0] - b[1]), rising,
           ((0.0, 0.4, 0.5, 0.5), (0.2, 0.3, 0.5, 0.5), (0.1, 0.3, 0.1, 2)), 0.03),
    Holds("R61, Thm C.10 (1): e rises", RELU, "1 - e falls", 0.5, 1.0, of=rises, places=SLOWING),
    floats("R65, V_r < 1, no sources", RELU, "constant", lambda V, W: 1.0, lambda V, W: 2.0, rate,
           ((0.5, 0.5), (0.6, 1.0)), 0.1),
    floats("R63, e = 1 stays", RELU, "1 - e", lambda *b: 0.0, lambda *b: 1.0,
           lambda *b: float(run("relu", b, 1000, 1.0)[1][2]), ((0.2, 1.3, 3, 3), (0, 0, 0, 0)), 1e-12),
)  # fmt: skip
APART = (
    floats("R62, Thm C.10 (2), U_r ≤ V_r: l^{1 - U_r}", RELU, "exponent of e* - e", lambda *b: 1 - U(*b),
           lambda *b: -U(*b), settling, ((0.5, 1.5, 1.5, 3), (0.3, 1.7, 2.5, 1.3)), 0.03),
    floats("R62, Thm C.10 (2), V_r < U_r: l^{1 - U_r}", RELU, "exponent of e* - e", lambda *b: 1 - U(*b),  # E8
           lambda *b: 1 - min(U(*b), b[0] + b[1]), settling, ((0.2, 1.3, 3, 3), (0.4, 1.2, 2, 2)), 0.03, True),
    Holds("R62, Thm C.10 (2): e* < 1 knows the start", RELU, "e*", ((0.5, 1.5, 1.5, 3), (0.2, 1.3, 3, 3)),
          ((0.5, 1.5, 1.5, 3), (0.2, 1.5, 0.5, 0.3)), of=differs),
)  # fmt: skip
METRIC = (
    floats("R66: s bounded for V_r > 1", RELU, "exponent of s", lambda *b: 0.0, lambda *b: 0.5, metric,
           ((0.5, 1.0, 0.4, 0.9), (0.2, 1.8, 1, 1), (0.2, 1.3, 3, 3)), 5e-3),
    floats("R65: s ~ l^{W_r} for V_r = 1, W_r < 1 - U_r", RELU, "exponent of s", lambda *b: 0.5, lambda *b: 0.0, metric,
           ((0.2, 0.8, 0.1, 0.9), (0.0, 1.0, 0.0, 0.0)), 0.05),
)  # fmt: skip


def fixed(square_v: float, square_a: float, of: Callable[[float], float] | None = None) -> float:
    """The root < 1 of e = (σ_v² W + σ_a²)/(σ_v² V + σ_a²), W and V those of the engine at q = 10^30."""
    pair = of or far
    size = pair(1.0)
    return brentq(lambda x: (square_v * pair(x) + square_a) / (square_v * size + square_a) - x, 0.0, 0.999, xtol=1e-13)


def printed_root(square_v: float, square_a: float) -> float:
    return fixed(square_v, square_a, lambda x: 2 / math.pi * math.asin(x))


def pushes(square_v: float, square_a: float) -> float:
    """The sign of e′ - e just below e = 1: -1 where this root repels."""
    x = 0.999
    return math.copysign(1, (square_v * far(x) + square_a) / (square_v * far(1.0) + square_a) - x)


PLACES = ((1.0, 1.0), (1.0, 0.5), (1.0, 0.1))
LIMITS = (
    floats("R36, Thm C.7, β_a = β_v", TANH, "e*", printed_root, lambda v, a: 1.0, fixed, PLACES, 1e-10),
    # E21: the equation has the root 1 also, from which inputs are driven apart
    floats("R36, Thm C.7, β_a = β_v: e* = 1 attracts", TANH, "sign of e' - e", lambda v, a: 1.0, lambda v, a: -1.0,
           pushes, PLACES, 1e-9, True),
)  # fmt: skip
DEEP = 3000
RUNS = (
    floats("R36, Thm C.7, β_a > β_v: e → 0", TANH, "exponent of e", lambda *b: (2 / math.pi - 1) * (1 - b[0]),
           lambda *b: 0.0, lambda *b: math.log10(np.divide(*(1 - run("tanh", b, DEEP)[1])[:0:-1])),
           ((0, 0, 2, 0),), 0.06),
    Holds("R36, Thm C.7, β_a < β_v: e → 1", TANH, "1 - e falls", (0.6, 0.1, 0, 0), (0, 0, 0, 0),
          of=lambda b: falling("tanh", depth=DEEP)(*b) < -0.2),
    # the contrast is e* of σ_a² = 1/10
    Holds("R36, Thm C.7, β_a = β_v: e falls to e*", TANH, "gap to e* shrinks", 1.0, 0.1,
          of=lambda square_a, *b: shrinks(square_a, *b), places=((0, 0, 0, 0),)),
)  # fmt: skip


def shrinks(square_a: float, *betas: float) -> bool:
    """Whether e, of σ_v = σ_a = 1, comes closer to e* of σ_a², by a factor below 0.6 over a factor of ten of l."""
    gap = 1 - run("tanh", betas, DEEP)[1] - printed_root(1.0, square_a)
    return bool(0 < gap[2] < 0.6 * gap[1])


FAST: tuple[Claim, ...] = COLLAPSE + APART + METRIC
CLAIMS: tuple[Claim, ...] = FAST + LIMITS + RUNS
