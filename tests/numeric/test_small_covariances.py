"""Averages of several inputs by Taylor polynomials: against quadrature at 55 digits, within what they say they miss."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from flint import arb

from meanfield.functions import balls
from meanfield.functions.activations import activation
from meanfield.numeric.quadrature.covariances import small_variance


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(55):
        yield


SHAPES = {"tanh": mp.tanh, "sin": mp.sin, "erf": mp.erf}
TWO = tuple(((o, p), by) for o in range(3) for p in range(3) for by in ((0, 0), (1, 0)))
FOUR = ((0, 0, 0, 0), (1, 0, 2, 1), (3, 1, 0, 0), (2, 2, 2, 2))


def in_balls(values):
    return np.vectorize(arb, otypes=[object])(np.asarray(values, dtype=float))


def asked(two=(), four=()):
    """What `small` reads of an `Averages`."""
    return SimpleNamespace(two=two, four=four, highest2=3, highest4=3)


def averages_of_one(name, K):
    """orders → ⟨Π φ^(o)(√K x)⟩ by the trapezoid rule at 55 digits, φ^(o) of Taylor's polynomial about every node."""
    nodes = [mp.mpf(i) / 3 for i in range(-51, 52)]
    weights = [mp.exp(-x * x / 2) / (3 * mp.sqrt(2 * mp.pi)) for x in nodes]
    slopes = [[c * mp.factorial(o) for o, c in enumerate(mp.taylor(SHAPES[name], mp.sqrt(K) * x, 3))] for x in nodes]
    return lambda orders: mp.fsum(w * mp.fprod(f[o] for o in orders) for w, f in zip(weights, slopes))


@pytest.mark.parametrize(("name", "x"), [("tanh", 9e-5), ("sin", 3e-5), ("erf", 1e-6), ("tanh", 1e-7)])
def test_one_input_within_the_stated_error(name, x):
    """What an average of one input misses of its factors' root mean squares multiplied is 10/11 of what it states, and
    nothing where the product is odd; several averages state the largest."""
    phi = activation(name)
    K = x / small_variance.coefficients(phi, 3)[1]
    average = averages_of_one(name, mp.mpf(K))
    roots = [mp.sqrt(average((o, o))) for o in range(4)]
    stated = []
    for key in (*TWO, *FOUR):
        orders = tuple(o + b for o, b in zip(*key)) if key in TWO else key
        with balls.precision(small_variance.BITS):
            found = small_variance.small(asked((key,)) if key in TWO else asked(four=(key,)), phi, in_balls([[K]]))
            table = found.two[key] if key in TWO else found.four[key]
            value = mp.mpf(table.item().mid().str(55, radius=False))
        missed = abs(value - average(orders)) / mp.fprod(roots[o] for o in orders)
        stated.append(found.error)
        if sum(orders) % 2:
            assert missed < 1e-50 and found.error == 0, f"{name}: {key} is odd"
        else:
            assert 0.9 <= missed / found.error <= 0.92, f"{name}: {key} misses {mp.nstr(missed, 3)}"
    with balls.precision(small_variance.BITS):
        assert small_variance.small(asked(TWO, FOUR), phi, in_balls([[K]])).error == pytest.approx(
            max(stated), rel=1e-12
        )


def test_a_polynomial_of_degree_six_is_averaged_exactly():
    """⟨f(z_1) g(z_2)⟩ of polynomials by Gauss and Hermite's rule in two variables, and the terms beyond a degree left
    out: z^6 stays at degree 6 and is gone at 4."""
    K = np.array([[0.75, 0.25], [0.25, 0.5]])
    f, g = [(0, 1), (1, -2), (3, 4), (6, 3)], [(0, 1), (2, 5)]
    one = [[(k, arb(c)) for k, c in some] for some in (f, g)]
    x, w = np.polynomial.hermite_e.hermegauss(8)
    weights, L = np.outer(w, w).ravel() / (2 * np.pi), np.linalg.cholesky(K)
    z = L @ np.array(np.meshgrid(x, x, indexing="ij")).reshape(2, -1)
    for degree in (8, 6, 4, 0):
        table = small_variance._table(one, small_variance.GaussianMoments(in_balls(K)), degree)
        assert table.shape == (2, 2)
        for a in (0, 1):
            for b in (0, 1):
                true = sum(
                    c * d * float(weights @ (z[a] ** k * z[b] ** m)) for k, c in f for m, d in g if k + m <= degree
                )
                assert float(table[a, b]) == pytest.approx(true, rel=1e-12, abs=1e-12)


def test_derivatives_of_a_polynomial():
    """Of Σ z^k/k!: every derivative is the same series, one term shorter, up to the degree and with it."""
    terms, count = [arb(1) / arb(int(mp.factorial(k))) for k in range(8)], 8
    for order in range(4):
        for degree in (0, 3, 7, 20):
            found = small_variance._derivative(terms, order, degree)
            assert [k for k, _ in found] == list(range(min(degree + 1, count - order)))
            assert all(float(c) == pytest.approx(float(1 / mp.factorial(k)), rel=1e-14) for k, c in found)
    assert [k for k, _ in small_variance._derivative([arb(0), arb(2), arb(0), arb(5)], 1, 9)] == [0, 2]


def test_moments_are_those_of_pairings():
    """⟨z_1^4⟩ = 3K², ⟨z_1² z_2²⟩ = K_11 K_22 + 2K_12², ⟨z_1³ z_2⟩ = 3K_11 K_12; of odd degree 0."""
    a, b, c = Fraction(3, 4), Fraction(1, 2), Fraction(1, 4)
    moment = small_variance.GaussianMoments(in_balls([[a, c], [c, b]]))
    for powers, true in (((4, 0), 3 * a**2), ((2, 2), a * b + 2 * c**2), ((3, 1), 3 * a * c), ((1, 1), c), ((2, 1), 0),
                         ((0, 0), 1), ((0, 6), 15 * b**3)):  # fmt: skip
        assert float(moment(powers)) == float(true)


def test_where_K_is_small():
    """Up to LARGEST and at 0, not beyond; the largest of the variances decides; a φ with a kink and one without a slope
    at 0 have no such K."""
    phi = activation("tanh")
    bend = small_variance.coefficients(phi, 0)[1]
    assert bend == pytest.approx(max(abs(float(c)) ** (2 / (k - 1)) for k, c in enumerate(mp.taylor(mp.tanh, 0, 16))
                                     if k > 1), rel=1e-12)  # fmt: skip
    edge = small_variance.LARGEST / bend
    for K, there in (((0.99 * edge, 1e-9), True), ((1.01 * edge, 1e-9), False), ((1e-9, 1.01 * edge), False),
                     ((0.0, 0.0), True)):  # fmt: skip
        found = small_variance.small(asked((((0, 0), (0, 0)),)), phi, in_balls(np.diag(K)))
        assert (found is not None) == there
    for name in ("relu", "z**2", "cos(z)"):
        assert small_variance.coefficients(activation(name), 0) is None
    assert small_variance.coefficients(activation("z"), 0)[1] == 0.0
