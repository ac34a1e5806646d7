"""Laws of γ on critical lines against ten million layers of a map that shares no code with the package.

At K* the map of ε = 1 - c is ε′ = ε - ∫_0^θ D(t) sin t dt, ε = 1 - cos θ, D(t) = 1 - C′(cos t) = ½σ_w²⟨(φ′_a - φ′_b)²⟩:
positive, so that nothing cancels near c = 1. The averages are taken in polar coordinates of the plane of z_a and z_b,
where each kink is one radius for every angle; D/θ² (D/θ where φ has kinks) is analytic in θ and interpolated.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba import njit
from numpy.polynomial import chebyshev, legendre

import meanfield as mf
from tests.numeric.phases.test_correlation_ends import PHI, one

pytestmark = pytest.mark.slow
PHI = PHI | {
    "hard_tanh": (lambda z: np.clip(z, -1, 1), lambda z: (np.abs(z) < 1) * 1.0, (-1.0, 1.0)),
    "clip(z, -1/2, 2)": (lambda z: np.clip(z, -0.5, 2), lambda z: ((z > -0.5) & (z < 2)) * 1.0, (-0.5, 2.0)),
}
CASES = [  # φ, σ_b², whether φ′ jumps
    ("tanh", "0.1", False),
    ("erf", "0.1", False),
    ("gelu", "0.2", False),
    ("sin", "0.2", False),
    ("softsign", "0.1", False),
    ("z*erf(z)", "0.5", False),
    ("hard_tanh", "0.1", True),
    ("clip(z, -1/2, 2)", "0.1", True),
]
X, W = legendre.leggauss(16)


def graded(ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of 16 in each panel; `ends` (…, n + 1) gives (…, 16n)."""
    half, middle = np.diff(ends) / 2, (ends[..., 1:] + ends[..., :-1]) / 2
    x, w = middle[..., None] + half[..., None] * X, half[..., None] * W
    return x.reshape(*x.shape[:-2], -1), w.reshape(*w.shape[:-2], -1)


def moved(slope, kinks, K: float, t: float, fine: int = 48) -> float:
    """⟨(φ′_a - φ′_b)²⟩ at the angle t between the inputs."""
    turns = [math.pi / 2, math.pi / 2 + t]  # where a ray is parallel to the kinks of one input, or meets two of them
    turns += [math.atan2(b / a - math.cos(t), math.sin(t)) for a in kinks for b in kinks if a != 0]
    ends = [np.linspace(0, 2 * math.pi, fine + 1), *((a + math.pi * np.arange(3)) % (2 * math.pi) for a in turns)]
    angle, share = graded(np.unique(np.concatenate(ends)))
    s = math.sqrt(K)
    rays = np.cos(angle), np.cos(angle - t)
    with np.errstate(divide="ignore"):
        breaks = [np.clip(k / s / ray, 0, 9.5) for k in kinks for ray in rays]
    even = np.broadcast_to(np.linspace(0, 9.5, fine // 2), (angle.size, fine // 2))
    r, w = graded(np.sort(np.concatenate([even, np.reshape(breaks, (-1, angle.size)).T], axis=1), axis=1))
    w = w * r * np.exp(-r * r / 2)
    apart = slope(s * r * rays[0][:, None]) - slope(s * r * rays[1][:, None])
    return float((share * (w * apart**2).sum(axis=1)).sum() / (2 * math.pi))


def fitted(f, power: int, count: int = 48):
    """A function on [0, π/2] as θ^power times a polynomial."""
    x = (1 - np.cos(math.pi * (np.arange(count) + 0.5) / count)) / 2
    at = x * math.pi / 2
    series = chebyshev.chebfit(2 * x - 1, np.array([f(t) for t in at]) / at**power, count - 1)
    while abs(series[-1]) < 1e-15 * abs(series[0]):
        series = series[:-1]
    return series, lambda t: t**power * chebyshev.chebval(4 * t / math.pi - 1, series)


@njit
def closing(gap, layers, series, power):
    """1 - c after some layers."""
    for _ in range(layers):
        t = 2 * math.asin(math.sqrt(gap / 2))
        x, b0, b1 = 2 * (4 * t / math.pi - 1), 0.0, 0.0
        for k in range(series.shape[0] - 1, 0, -1):
            b0, b1 = series[k] + x * b0 - b1, b0
        gap -= t**power * (series[0] + 0.5 * x * b0 - b1)
    return gap


def left_over(name: str, b2: str, kinked: bool, layers=(10**5, 10**6, 10**7), off=0.0) -> tuple[list[float], mf.Law]:
    """γ of the iteration less that of the law, at three depths."""
    phi, slope, kinks = PHI[name]
    theory = mf.derive(name)
    width, place = theory.critical_line().sigma_w_at(f"sqrt({b2})")[0]
    law, K = theory.depth_law("gamma", sigma_w=width.value, sigma_b=f"sqrt({b2})"), float(place.value)
    w2 = 1 / one(lambda z: slope(z) ** 2, K, kinks)
    assert abs(w2 / float(width.value) ** 2 - 1) < 1e-12
    assert abs(w2 * one(lambda z: phi(z) ** 2, K, kinks) + float(b2) - K) < 1e-12 * K
    first = 1 if kinked else 2
    _, D = fitted(lambda t: w2 * (1 + off) * moved(slope, kinks, K, t) / 2, first)
    x, w = legendre.leggauss(40)
    series, _ = fitted(lambda t: float((w * D(t * (1 + x) / 2) * np.sin(t * (1 + x) / 2)).sum() * t / 2), first + 2)
    left, gap, done = [], 0.5, 1
    for n in layers:
        gap, done = closing(gap, n - done, series, first + 2), n
        left.append(1 / gap - 1 - float(law.at(n)))
    return left, law


def misses(name: str, b2: str, kinked: bool, off=0.0) -> float:
    """How far the law's constant is off, relative: what is left of γ stays, or of γ/l where γ grows as l²."""
    left, law = left_over(name, b2, kinked, off=off)
    lead, exponent = float(law.terms[0].coefficient), int(law.terms[0].power)
    assert exponent == (2 if kinked else 1)
    deep = (10**6, 10**7)
    rest = [x / n ** (exponent - 1) for x, n in zip(left[1:], deep)]
    return abs(rest[1] - rest[0]) / (lead * deep[1])


@pytest.mark.parametrize(("name", "b2", "kinked"), CASES)
def test_ten_million_layers(name, b2, kinked):
    """Exponent, constant and the terms with logarithms: one that is missing, or a constant 1e-6 off, would show."""
    assert misses(name, b2, kinked) < 2e-8
    assert misses(name, b2, kinked, off=1e-6) > 2e-7
