"""Distances through even functions that are not 0 at 0: opposite inputs are one, and small variances move f by less
than a double of f(0) holds. References are closed forms in 80 digits."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import meanfield as mf
from meanfield.kernels import single_pairs
from meanfield.kernels.loops import hermite_series
from meanfield.kernels.theory_at_numbers import TheoryAtNumbers
from meanfield.numeric.lowering.distances import unequal_norm_distance
from meanfield.numeric.lowering.modules import cache

W = 1.25


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("MEANFIELD_CACHE", str(tmp_path))
    hermite_series.table.cache_clear()


def bell(a, b, ab):
    """exp(-z²): ⟨f_a f_b⟩ and its derivative by K_ab."""
    whole = (1 + 2 * a) * (1 + 2 * b) - 4 * ab * ab
    return 1 / mp.sqrt(whole), 4 * ab / mp.sqrt(whole) ** 3


def cos(a, b, ab):
    near, far = mp.exp(ab - (a + b) / 2), mp.exp(-ab - (a + b) / 2)
    return (near + far) / 2, (near - far) / 2


def parabola(a, b, ab):
    """1 + z²."""
    return 1 + a + b + a * b + 2 * ab * ab, 4 * ab


def absolute(a, b, ab):
    """|z|."""
    c = ab / mp.sqrt(a * b)
    return 2 / mp.pi * mp.sqrt(a * b) * (mp.sqrt(1 - c * c) + c * mp.asin(c)), 2 / mp.pi * mp.asin(c)


def thrice(a, b, ab):
    """3 cos(z), which no other test compiles: its planted error is compiled afresh."""
    return tuple(9 * v for v in cos(a, b, ab))


FUNCTIONS = {"exp(-z**2)": bell, "cos(z)": cos, "1+z**2": parabola, "abs(z)": absolute}
EXACT = FUNCTIONS | {"3*cos(z)": thrice}


def rows(scale: float) -> np.ndarray:
    """The first row, rows beside it and opposite to it, closer and closer, and some of their own."""
    draw = np.random.default_rng(3).normal
    base = draw(size=3)
    close = [s * base * (1 + 10.0**-k) + 10.0 ** (-1.5 * k) * draw(size=3) for k in range(1, 7) for s in (1, -1)]
    return scale * np.array([base, *close, draw(size=3), draw(size=3)])


def exact(name: str, x, y, depth: int, sigma_b: float):
    """(K_ab, the distance, Theta_ab) at the last layer."""
    pair, w, b = EXACT[name], mp.mpf(W) ** 2, mp.mpf(sigma_b) ** 2
    x, y = ([mp.mpf(float(v)) for v in one] for one in (x, y))
    K = [w * mp.fsum(u * v for u, v in zip(p, q)) / len(x) + b for p, q in ((x, x), (y, y), (x, y))]
    theta = K[2]
    for _ in range(depth - 1):
        slope = pair(*K)[1]
        K = [w * pair(*one)[0] + b for one in ((K[0],) * 3, (K[1],) * 3, K)]
        theta = K[2] + w * slope * theta
    return K[2], K[0] + K[1] - 2 * K[2], theta


def assert_distances(name: str, scale: float, sigma_b: float, depth: int, off: float = 0.0) -> None:
    X = rows(scale)
    found = mf.derive(name).kernel(X, sigma_w=W, sigma_b=sigma_b, depth=depth, quantities=("K", "Theta", "distance"))
    for i in range(1, len(X)):
        with mp.workdps(80):
            K, apart, theta = exact(name, X[0], X[i], depth, sigma_b)
        size = np.sqrt(found.Theta[0, 0] * found.Theta[i, i])
        assert abs(float(found.K[0, i] / K - 1)) < found.error["K"], f"K of row {i}"
        assert abs(float(found.Theta[0, i] - theta)) < found.error["Theta"] * size, f"Theta of row {i}"
        off_by = abs(float(found.distance[0, i] * (1 + off) / apart - 1))
        assert off_by < max(found.error["distance"], 1e-12), f"the distance of row {i} by {off_by:.1e}"


@pytest.mark.fast_with("exp(-z**2)-0.001-0.0", "1+z**2-0.3-0.1")
@pytest.mark.parametrize("sigma_b", [0.0, 1e-3, 0.1])
@pytest.mark.parametrize(("name", "scale"), [(n, s) for n in FUNCTIONS for s in (1e-6, 1e-3, 0.3)])
def test_distances_have_their_digits(name, scale, sigma_b):
    for depth in (2, 3):
        assert_distances(name, scale, sigma_b, depth)
    with pytest.raises(AssertionError, match="the distance of row"):
        assert_distances(name, scale, sigma_b, 2, off=1e-8)


@pytest.mark.slow
def test_what_was_lost(monkeypatch):
    """1 + c from 1 - c; coefficients beside f(0); differences of averages that are all f(0)²."""
    with monkeypatch.context() as patch:
        patch.setattr(TheoryAtNumbers, "even", False)
        patch.setattr(single_pairs, "FACING", math.inf)
        with pytest.raises(AssertionError, match=r"the distance of row 1?[0-9] by"):
            assert_distances("exp(-z**2)", 1e-3, 0.0, 2)
    with monkeypatch.context() as patch:
        hermite_series.table.cache_clear()
        patch.setattr(hermite_series, "moving", lambda f: (f, 0.0))
        patch.setattr(cache, "key", lambda text, key=cache.key: key(f"beside {text}"))
        with pytest.raises(AssertionError, match="the distance of row"):
            assert_distances("exp(-z**2)", 1e-3, 1e-3, 2)
    hermite_series.table.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(unequal_norm_distance, "KEPT", -1.0)
        patch.setattr(cache, "key", lambda text, key=cache.key: key(f"plain {text}"))
        patch.setattr("meanfield.numeric.lowering.distances.distance_functions.require_usable", lambda *_: None)
        with pytest.raises(AssertionError, match="the distance of row"):
            assert_distances("3*cos(z)", 1e-6, 0.0, 2)


@pytest.mark.parametrize("share", [1e-6, 1e-4])
def test_an_almost_even_function_says_what_opposite_inputs_lose(share, monkeypatch):
    """z² + share·z moves opposite inputs by 2·share·z: 1 + c counts, which 1 - c knows to a rounding of 1."""
    X = np.array([[1.0, 0.5, -0.3], [-1.0, -0.5 + 1e-5, 0.3]])
    theory = mf.derive(f"z**2+{share!r}*z")
    with mp.workdps(60):
        x = [[mp.mpf(v) for v in row] for row in X]
        A, B, C = (sum(a * b for a, b in zip(x[i], x[j])) / 3 for i, j in ((0, 0), (1, 1), (0, 1)))
        exact = float(3 * A * A + 3 * B * B - 2 * A * B - 4 * C * C + mp.mpf(share) ** 2 * (A + B - 2 * C))

    def holds() -> bool:
        found = theory.kernel(X, sigma_w=1, sigma_b=0, depth=2, quantities=("K", "distance"))
        assert found.error["distance"] < 1e-14 / share**2
        return abs(found.distance[0, 1] / exact - 1) < found.error["distance"]

    assert holds()
    monkeypatch.setattr(single_pairs, "FACING", math.inf)
    assert not holds()
