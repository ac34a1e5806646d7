"""Zeros in K of averages whose closed forms are written by hand: all are found, and bounded from both sides."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from flint import arb

from meanfield.base.symbols import K, Z
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.fixed_points import half_line
from meanfield.symbolic.fixed_points.half_line import ceiling, far_sign, floor, zeros
from meanfield.symbolic.fixed_points.products import product_zeros, products, rises

z, R = Z[0], sp.Rational


def bell(t) -> sp.Expr:
    """exp(-t z²), whose average is 1/√(1 + 2tK)."""
    return sp.exp(-sp.sympify(t) * z**2)


def places(f, lo: float = 1e-9, hi: float = 1e9) -> list[float]:
    """Where a function of K changes sign: between points of a dense grid in float64, then by bisection in mpmath."""
    grid = np.geomspace(lo, hi, 40001)
    sides = np.flatnonzero(np.diff(np.sign(f(grid, np.sqrt, np.exp))))
    with mp.workdps(30):
        ends = [tuple(mp.mpf(float(k)) for k in grid[i : i + 2]) for i in sides]
        return [float(mp.findroot(lambda k: f(k, mp.sqrt, mp.exp), pair, solver="anderson")) for pair in ends]


# ----------------------------------------------------------------------------------------------- zeros on 0 < K < ∞

BELLS = [  # constant term, multiple of z², [(a, t), …] of a·exp(-t z²), point masses (place, weight)
    (1, 0, [(-2, R(1, 2))], ()),
    (1, 0, [(-3, 1), (R(5, 2), 5)], ()),
    (R(1, 100), 0, [(-1, R(1, 10)), (4, 20)], ()),
    (0, R(1, 50), [(-1, 1), (3, 50)], ()),
    (0, 0, [(1, 1), (-3, 20)], ()),
    (0, 0, [(-1, 1), (5, 20), (R(-9, 2), 100)], ()),
    (0, R(-1, 1000), [(1, 1), (-3, 8), (R(9, 4), 60)], ()),
    (1, 0, [(-2, R(1, 2))], ((1, R(-1, 2)),)),
    (0, R(1, 4), [(-1, 1)], ((R(3, 2), R(3, 4)),)),
    (0, R(1, 4), [(-1, 1)], ((0, 1),)),
    (0, 0, [(1, 1), (-2, 8)], ((2, -1),)),
]


@pytest.mark.slow_with("1-1", "3-1", "5-1", "5--1", "6-1", "10-1")
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("case", range(len(BELLS)))
def test_all_zeros_are_found_and_bounded_from_both_sides(case, sign):
    constant, slope, bells, masses = BELLS[case]
    g = sign * (constant + slope * z**2 + sp.Add(*[a * bell(t) for a, t in bells]))
    masses = tuple((sp.sympify(b), sign * sp.sympify(w)) for b, w in masses)
    density = sp.Add(*[w * sp.exp(-(b**2) / (2 * K)) / sp.sqrt(2 * sp.pi * K) for b, w in masses])

    def truth(k, sqrt, exp):
        number = lambda e: mp.mpf(sp.Rational(e)) if sqrt is mp.sqrt else float(e)  # noqa: E731
        total = number(constant) + number(slope) * k + sum(number(a) / sqrt(1 + 2 * number(t) * k) for a, t in bells)
        density = sum(number(w) * exp(-(number(b) ** 2) / (2 * k)) / sqrt(2 * np.pi * k) for b, w in masses)
        return sign * total + density

    expected = places(truth)
    found = zeros(average(g, K) + density, g, masses)
    assert [float(r) for r in found.roots] == pytest.approx(expected, rel=1e-12)
    assert found.most >= len(expected)
    if masses and masses[0][0] == 2:  # the last block is a mass's, beyond which no end is proved
        assert not found.complete and "a close pair may be missed there, or a pair outside" in found.reason
    else:
        assert found.complete and found.outside and not found.reason
    assert all(float(r.hi - r.lo) <= 1e-20 * float(r.hi) and r.lo < r.hi for r in found.roots)
    near, far = (np.sign(truth(k, np.sqrt, np.exp)) for k in (1e-9, 1e9))
    assert (found.first, found.last) == (near, far)
    rising = [r.rising for r in found.roots]
    assert rising == [(near < 0) == (i % 2 == 0) for i in range(len(expected))]
    assert far_sign(average(g, K) + density, g, masses) == far
    low, high = floor(g, masses), ceiling(g, masses)
    assert low is None or (low > 0 and all(float(low) <= k for k in expected))
    assert high is None or all(k <= float(high) for k in expected)
    if len(expected) == found.most:  # the last block of signs is the one that ⟨G⟩ ends with
        assert (low is not None) == (masses[:1] != ((0, sign),)) and (high is not None or not (constant or slope))


def test_a_bound_of_the_zeros_is_near_them():
    """G = z² - 9 below 1, above 4: nothing to outweigh far from the change of sign."""
    g = sp.Piecewise((-1, sp.Abs(z) < 1), (0, sp.Abs(z) < 2), (z**2, True))
    assert R(1, 200) < floor(g) < 1 and ceiling(g) < 200


@pytest.mark.parametrize(
    "g, masses, sign",
    [
        (1 / (1 + sp.Abs(z)), (), 1),
        (-1 / (1 + sp.Abs(z)), ((1, 100),), -1),
        (bell(1), ((1, -1),), 1),
        (bell(1), ((1, -2),), -1),
        (bell(1) - 3 * bell(4), ((0, R(1, 2)),), -1),
        (bell(1) - 3 * bell(4), ((0, 1),), 1),
        (z**3 - z**2 / 5, ((2, 50),), -1),
        (z**2 * bell(1) - 2, (), -1),
    ],
)
def test_the_sign_at_infinity(g, masses, sign):
    """Of G itself where ∫|G| diverges, else of ∫G and the masses: ∫exp(-z²) = √π = 1.77."""
    masses = tuple((sp.sympify(b), sp.sympify(w)) for b, w in masses)
    assert far_sign(average(g, K), g, masses) == sign


def test_one_layer_of_signs_at_the_ends_of_the_runs():
    runs = ((0, arb(0), arb(1)), (1, arb(1), arb(2)), (0, arb(2), arb(3)), (1, arb(3), arb(4)), (-1, arb(5), arb(6)))
    assert half_line._first_run(runs) == (arb(4), 1) and half_line._last_run(runs) == (arb(5), -1)
    assert half_line._last_run((*runs, (0, arb(6), arb(7)), (-1, arb(7), arb(8)))) == (arb(5), -1)
    assert half_line._scale(runs) == 16


# ----------------------------------------------------------------------------------------------------- maps with K⟨h⟩


@pytest.mark.slow_with("c01--1-0-2", "1-c14--2-0.5")
@pytest.mark.parametrize("c0, c1, a, b", [(0, -1, 0, 2), (R(1, 5), -1, 0, 2), (R(1, 5), -1, R(1, 2), R(3, 2)),
                                          (2, -1, -1, 1), (1, R(-1, 10), -2, 0.5), (0, 1, 0, -2)])  # fmt: skip
def test_zeros_with_terms_K_times_an_average(c0, c1, a, b):
    """c0 + c1 K + a⟨exp(-z²)⟩ + b K⟨exp(-z²/2)⟩, whose averages are (1 + 2K)^(-1/2) and (1 + K)^(-1/2)."""
    c0, c1, a, b = (sp.nsimplify(v) for v in (c0, c1, a, b))
    e = c0 + c1 * K + a * average(bell(1), K) + b * K * average(bell(R(1, 2)), K)
    found = products(e)
    assert (found.c0, found.c1) == (c0, c1) and found.at_zero() == c0 + a
    assert [part for part, _ in found.plain] == [a] * (a != 0) and [part for part, _ in found.times] == [b]
    f = [v.p / v.q for v in (c0, c1, a, b)]
    expected = places(lambda k, sqrt, exp: f[0] + f[1] * k + f[2] / sqrt(1 + 2 * k) + f[3] * k / sqrt(1 + k))
    assert [float(r) for r in product_zeros(e, 25).roots] == pytest.approx(expected, rel=1e-12)
    density, masses = found.slope()
    assert masses == ()
    k = R(3, 2)
    slope = sp.N(average(density, k), 20)
    truth = c1 - a * (1 + 2 * k) ** R(-3, 2) + b * (1 + k / 2) * (1 + k) ** R(-3, 2)
    assert float(slope) == pytest.approx(float(truth), rel=1e-12)


def test_products_of_another_form_are_none_and_what_rises_is_known():
    h, one = average(bell(R(1, 2)), K), average(bell(1), K)
    for e in (h * one, K**2 * h, h + one, 1 / h + K * h, average(bell(1), 2 * K) * K):
        assert products(e) is None and product_zeros(e, 20) is None
    # d(K⟨exp(-z²/2)⟩)/dK = ⟨(1 - z²/2) exp(-z²/2)⟩ is positive, which the sign of its integrand does not prove
    assert not rises(K * h) and rises(K * h + K) and rises(3 * K * average(sp.tanh(z) ** 2, K))
    assert not rises(-K * h) and not rises(K * h - K) and not rises(h)
    kinked = products(K * average(sp.Heaviside(z - 1), K))
    assert kinked.slope() is None and kinked.per_K() is not None
    bent = products(K * h + 2 * average(sp.Max(z - 1, 0), K))
    assert bent.slope()[1] == ((1, 1),) and bent.per_K() is None
    assert products(average(sp.Heaviside(z), K) + K * h).slope() is None
