"""c* and ξ_c of ten activations against iteration by quadrature of their texts: smooth, kinked, even and odd ones.

z_a is integrated in Gauss-Legendre panels, z_b given z_a in panels of its own that end where φ has a kink; nothing is
shared with the package, whose geometry is sum and difference.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import erf, expit

import meanfield as mf

pytestmark = pytest.mark.slow
ROOT_PI = math.sqrt(math.pi)


def _bell(z):
    return np.exp(-z * z / 2) / math.sqrt(2 * math.pi)


PHI = {  # φ, φ′, its kinks
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2, ()),
    "erf": (erf, lambda z: 2 / ROOT_PI * np.exp(-z * z), ()),
    "gelu": (
        lambda z: z * (1 + erf(z / math.sqrt(2))) / 2,
        lambda z: (1 + erf(z / math.sqrt(2))) / 2 + z * _bell(z),
        (),
    ),
    "silu": (lambda z: z * expit(z), lambda z: expit(z) * (1 + z * expit(-z)), ()),
    "z*tanh(z)": (lambda z: z * np.tanh(z), lambda z: np.tanh(z) + z * (1 - np.tanh(z) ** 2), ()),
    "sin": (np.sin, np.cos, ()),
    "softsign": (lambda z: z / (1 + np.abs(z)), lambda z: 1 / (1 + np.abs(z)) ** 2, (0.0,)),
    "z*erf(z)": (lambda z: z * erf(z), lambda z: erf(z) + 2 * z / ROOT_PI * np.exp(-z * z), ()),
    "max(z - 1/2, 0)": (lambda z: np.maximum(z - 0.5, 0), lambda z: (z > 0.5) * 1.0, (0.5,)),
    "tanh(z) + max(z + 1/3, 0)/4": (
        lambda z: np.tanh(z) + np.maximum(z + 1 / 3, 0) / 4,
        lambda z: 1 - np.tanh(z) ** 2 + (z > -1 / 3) / 4,
        (-1 / 3,),
    ),
}
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
GRID = np.linspace(-9, 9, 37)


def panels(kinks) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and Gaussian weights in the place of ∫ Dx, panels ending at `kinks` (an array: a row of nodes for each)."""
    kinks = np.clip(np.asarray(kinks, dtype=float), -9, 9)
    ends = np.sort(np.concatenate([np.broadcast_to(GRID, (*kinks.shape[:-1], GRID.size)), kinks], axis=-1), axis=-1)
    half, middle = np.diff(ends) / 2, (ends[..., 1:] + ends[..., :-1]) / 2
    x = middle[..., None] + half[..., None] * NODES
    w = half[..., None] * WEIGHTS * _bell(x)
    return x.reshape(*x.shape[:-2], -1), w.reshape(*w.shape[:-2], -1)


def one(f, K: float, kinks) -> float:
    x, w = panels(np.array(kinks) / math.sqrt(K))
    return float((w * f(math.sqrt(K) * x)).sum())


def two(f, K: float, c: float, kinks) -> float:
    s = math.sqrt(K)
    x, w = panels(np.array(kinks) / s)
    y, v = panels((np.array(kinks) / s - c * x[:, None]) / math.sqrt(1 - c * c))
    inner = (v * f(s * (c * x[:, None] + math.sqrt(1 - c * c) * y))).sum(axis=1)
    return float((w * f(s * x) * inner).sum())


def settled(image, x: float) -> float:
    """Where x, image(x), … ends: thirty layers, then the secant through the last two until nothing moves."""
    for _ in range(30):
        before, x = x, image(x)
    left = image(x) - x
    last = x - before
    for _ in range(30):
        if last == left or abs(left) < 2e-16 * abs(x):
            break
        before, x = x, x - left * (x - before) / (left - last)
        last, left = left, image(x) - x
    return x


def iterated(name: str, w2: float, b2: float) -> tuple[float, float, float]:
    """K*, c*, and the slope of the map of c there."""
    phi, slope, kinks = PHI[name]
    K = settled(lambda K: w2 * one(lambda z: phi(z) ** 2, K, kinks) + b2, w2 + b2)
    chi = w2 * one(lambda z: slope(z) ** 2, K, kinks)
    if chi < 1:
        return K, 1.0, chi
    c = settled(lambda c: (w2 * two(phi, K, c, kinks) + b2) / K, b2 / (w2 + b2))
    return K, c, w2 * two(slope, K, c, kinks)


CASES = [  # chaotic where φ allows it at a K that attracts, and ordered
    ("tanh", 3.0, 0.1),
    ("tanh", 1.5, 0.1),
    ("erf", 2.5, 0.1),
    ("erf", 0.9, 0.2),
    ("gelu", 1.9, 0.1),
    ("gelu", 1.0, 0.3),
    ("gelu", 1.974025, 0.25),
    ("silu", 1.9, 0.2),
    ("silu", 1.9881, 0.64),
    ("z*tanh(z)", 0.9801, 0.64),
    ("z*tanh(z)", 0.8, 0.02),
    ("sin", 4.0, 0.25),
    ("sin", 1.2, 0.1),
    ("softsign", 6.0, 0.1),
    ("softsign", 1.5, 0.3),
    ("z*erf(z)", 0.9801, 0.25),
    ("z*erf(z)", 0.7, 0.02),
    ("max(z - 1/2, 0)", 2.0, 0.3),
    ("tanh(z) + max(z + 1/3, 0)/4", 2.0, 0.1),
    ("tanh(z) + max(z + 1/3, 0)/4", 0.9, 0.1),
]


def deviations(name: str, w2: float, b2: float, off: float = 0.0) -> tuple[float, float, float]:
    """How far K*, c* and the slope (which is e^(-1/ξ_c)) of the engine are from those of the iteration."""
    K, c, slope = iterated(name, w2 * (1 + off), b2)
    found = mf.derive(name).correlations(sigma_w=f"sqrt({w2})", sigma_b=f"sqrt({b2})")
    end = found.stable
    assert end.xi_c == pytest.approx(-1 / math.log(end.slope), rel=1e-12)
    return abs(found.K / K - 1), abs(end.c - c), abs(end.slope - slope)


@pytest.mark.parametrize(("name", "w2", "b2"), CASES)
def test_where_two_inputs_end_and_how_fast(name, w2, b2):
    found = deviations(name, w2, b2)
    assert max(found) < 1e-12, found
    assert max(deviations(name, w2, b2, 1e-6)) > 1e-8


def test_the_iteration_against_closed_forms():
    """erf in closed form: the quadrature itself."""
    for K, c in ((1.3, 0.4), (0.2, 0.97)):
        exact = 2 / math.pi * math.asin(2 * K * c / (1 + 2 * K))
        assert abs(two(erf, K, c, ()) - exact) < 1e-14
    exact = (math.sqrt(1 - 0.09) + 0.3 * (math.pi - math.acos(0.3))) / (2 * math.pi)
    relu = two(lambda z: np.maximum(z, 0), 1.0, 0.3, (0.0,))
    assert abs(relu - exact) < 1e-14
