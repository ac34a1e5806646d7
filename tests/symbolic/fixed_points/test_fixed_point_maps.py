"""Exact roots and slopes at fixed points, linear maps of every kind, and what the form of a map of K says."""

from __future__ import annotations

import pytest
import sympy as sp
from flint import arb

from meanfield.base.answers.results import MeanFieldError, Solution, Status
from meanfield.base.symbols import K, Z
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.fixed_points.all_fixed_points import _affine, short
from meanfield.symbolic.fixed_points.certified_roots import RootInterval, from_ball
from meanfield.symbolic.fixed_points.marginality import gap_of, multiple_root, order_of, slope_at, slope_of_number
from meanfield.symbolic.fixed_points.variance_map import (
    at_zero_value,
    increases,
    integrand,
    linear_map,
    moments_only,
    shared_variance,
)

z, R = Z[0], sp.Rational


def exact(value) -> Solution:
    return Solution(sp.sympify(value), Status.EXACT)


def ball(value, error: float) -> Solution:
    return Solution(sp.Float(value, 30), Status.CERTIFIED, error)


# --------------------------------------------------------------------------------------------- exact roots and slopes


@pytest.mark.slow_with("5")
@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_the_order_of_a_root_and_its_place(order):
    """K² - 2 to a power, times 1 + K: only beyond the first order is the slope of the map 1 there, and K* exact."""
    star = sp.sqrt(2)
    gain = sp.expand((K**2 - 2) ** order * (1 + K))
    assert order_of(gain, star) == order
    near = sp.Rational(sp.N(star, 40))
    root = RootInterval(near - R(1, 10**25), near + R(1, 10**25), crosses=order % 2 == 1)
    found = multiple_root(gain, gain.diff(K) + 1, root)
    assert found is None if order == 1 else found is not None and sp.simplify(found - star) == 0
    far = RootInterval(R(3), R(3) + R(1, 10**25))
    assert multiple_root(gain, gain.diff(K) + 1, far) is None
    assert multiple_root(gain, gain.diff(K) + 1, RootInterval(root.lo, root.hi, star)) is None


def test_a_slope_of_1_is_proved_and_others_are_enclosed():
    near = sp.Rational(sp.N(sp.sqrt(2), 40))
    root = RootInterval(near - R(1, 10**20), near + R(1, 10**20))
    gain = K**2 - 2
    assert slope_at(gain, R(3, 4) + 0 * K, root) == exact(R(3, 4))
    assert slope_at(gain, K**2 - 1, root) == exact(1)
    for slope, truth in ((K**2 - 1 + R(1, 10**150), R(1, 10**150)), (K / 2, sp.sqrt(2) / 2 - 1), (2 - K**4 / 4, 0)):
        found = slope_at(gain, slope, root)
        assert (found.status is Status.EXACT) == (truth == 0)
        assert float(gap_of(found).mid()) == pytest.approx(float(truth), rel=1e-10)
    assert slope_at(gain, K, RootInterval(root.lo, root.hi, sp.sqrt(2))).status is Status.CERTIFIED
    assert slope_at(gain, K / sp.sqrt(2), RootInterval(root.lo, root.hi, sp.sqrt(2))) == exact(1)
    small = slope_of_number(1 - R(1, 10**60))
    assert float(gap_of(small).mid()) == pytest.approx(-1e-60) and small.status is Status.CERTIFIED


# ------------------------------------------------------------------------------------------------------ K' = c + rK

MEAN = average(sp.tanh(z) ** 2, 1)  # 0.394294490…, without a closed form
AFFINE = [  # c, r; K*, the stability, whether K grows, words of the message
    (0, 1, "K", "neutral", False, "K' = K for every K"),
    (0, R(1, 2), 0, "stable", False, "K' = 1/2 K + 0 is linear and reaches 0 from every K"),
    (0, 2, 0, "unstable", True, "K' = 2 K + 0 is linear and grows without bound from every K > 0"),
    (3, R(1, 4), 4, "stable", False, "K' is linear in K: one fixed point, reached from every K"),
    (3, 0, 3, "stable", False, "one fixed point"),
    (3, 1, None, "", True, "K' = K + 3, which grows without bound"),
    (3, 2, None, "", True, "K' = 2 K + 3, which grows without bound"),
    (sp.sqrt(2), R(1, 2), 2 * sp.sqrt(2), "stable", False, "one fixed point"),
    (1, MEAN, 1.65096732, "stable", False, "one fixed point"),
    (1, 1 + MEAN, None, "", True, "K' = 1.39429 K + 1, which grows without bound"),
]


@pytest.mark.parametrize("c, r, star, stability, grows, said", AFFINE, ids=str)
def test_linear_maps(c, r, star, stability, grows, said):
    c, r = sp.sympify(c), sp.sympify(r)
    found = _affine(c, r, c + r * K, (1 + K) / 8)
    assert found.status is Status.EXACT and said in found.message
    assert found.unbounded == ((0, sp.oo) if grows else None)
    assert [p.stability for p in found] == [stability] * (star is not None)
    for p in found:
        if star == "K":
            assert p.K.value == K and p.basin is None and p.chi_J.value == (1 + K) / 8 and p.chi_K.value == 1
            continue
        assert float(p.K.value) == pytest.approx(float(star), rel=1e-7)
        assert (p.K.status is Status.CERTIFIED) == sp.sympify(star).is_Float
        assert p.chi_K == exact(r) and p.basin == (None if grows else (0, sp.oo))
        assert float(p.chi_J.value) == pytest.approx((1 + float(star)) / 8, rel=1e-7)
    for chi in (sp.oo, None):
        assert all(p.chi_J.status is Status.NONEXISTENT for p in _affine(c, r, c + r * K, chi))


def test_a_linear_map_whose_digits_decide_nothing_is_refused():
    same = sp.asin(R(3, 5)) + sp.asin(R(4, 5)) - sp.pi / 2  # 0, which its digits cannot tell
    for c, r in ((same, R(1, 2)), (sp.S(1), 1 + same)):
        with pytest.raises(MeanFieldError, match=r"the digits do not decide whether .* is 1 or .* is 0"):
            _affine(c, r, c + r * K, None)


def test_numbers_are_shown_as_far_as_they_are_known():
    assert short(exact(R(1, 3))) == "1/3" and short(exact(sp.sqrt(2) * 10**30 + 1)) == "1.41421356237e+30"
    assert short(ball("0.001", 0.25)) == "0.001 +- 0.25" and short(ball("1.5", 1e-9)) == "1.5"
    assert short(from_ball(arb(0))) == "0" and short(ball("1e-400", 0.0)).startswith("1.0000")


# ------------------------------------------------------------------------------------------------- the form of a map


@pytest.mark.parametrize(
    "f, c, r",
    [
        (sp.Max(z, 0) ** 2, 0, R(1, 2)),
        (sp.Abs(z - 1) ** 2, 1, 1),
        ((z + sp.tanh(z) ** 2 - sp.tanh(sp.Abs(z)) ** 2) ** 2, 0, 1),
        (sp.Piecewise((3 * z**2 + z, z < 0), (z**2 + z + 2, True)), 1, 2),
        (z + z**3, 0, 0),
        (sp.Heaviside(z), R(1, 2), 0),
        (z**4, None, None),
        (sp.Abs(z), None, None),
        (sp.Piecewise((z**2, sp.Abs(z) < 50), (2 * z**2, True)), None, None),
        (sp.Piecewise((z**2, sp.Abs(z) < 50), (z**2 + 1, True)), None, None),
        (sp.Piecewise((sp.Abs(z) ** 3, sp.Abs(z) < 3), (z**2, True)), None, None),
        (sp.tanh(z) ** 2, None, None),
    ],
    ids=str,
)
def test_a_map_is_linear_or_not(f, c, r):
    """⟨f⟩_K is linear exactly where f(z) + f(-z) is a + b z²: then it is a/2 + K b/2."""
    found = linear_map(1 + 2 * K + 3 * average(f, K))
    assert found is None if c is None else tuple(map(sp.simplify, found)) == (1 + 3 * c, 2 + 3 * r)


def test_linear_maps_without_averages_of_K():
    assert linear_map(3 * K + average(sp.tanh(z) ** 2, 1)) == (average(sp.tanh(z) ** 2, 1), 3)
    assert linear_map(K**2 + K) is None and linear_map(sp.sqrt(K)) is None
    assert linear_map(average(z**2, 2 * K + average(sp.tanh(z), K) ** 2)) in (None, (0, 2))


BENT = average(sp.tanh(z) ** 2, K)


@pytest.mark.parametrize(
    "step, at_zero, rising, moments",
    [
        (BENT + 2, 2, True, True),
        (2 - BENT, 2, False, False),
        (average(sp.Piecewise((3, z < 0), (5, True)) * (1 + z**2), K), 4, True, True),
        (K + K**3, 0, True, True),
        (K - 2 * K**2, 0, False, False),
        (average(1 / (1 + z**2), K) + K, 1, True, True),
        (average(1 / (1 + z**2), K), 1, False, True),
        (average(sp.exp(-(z**2)) - R(1, 2), K) + K, R(1, 2), True, False),
        (K * BENT, 0, False, False),
        (average(1 / (1 + z**2), K) ** 2 + 3 * K * BENT + R(1, 2), R(3, 2), False, False),
        (1 / (1 + BENT), None, False, False),
    ],
    ids=str,
)
def test_what_the_form_of_a_map_says(step, at_zero, rising, moments):
    assert at_zero_value(step) == at_zero and increases(step) is rising and moments_only(step) is moments


def test_an_average_stands_for_a_map():
    """c0 + c1 K + c2 K² + a⟨f⟩ is the average of c0 + c1 z² + c2 z⁴/3 + a f."""
    g = integrand(1 + 2 * K + 3 * K**2 - 5 * BENT)
    assert sp.expand(g - (1 + 2 * z**2 + z**4 - 5 * sp.tanh(z) ** 2)) == 0
    assert integrand(K * BENT) is None and integrand(average(sp.tanh(z) ** 2, 2 * K)) is None


@pytest.mark.parametrize("alpha, beta, known", [(2, 0, True), (R(1, 2), 3, True), (-1, 2, False), (1, -1, False)])
def test_the_variance_that_all_averages_share(alpha, beta, known):
    one = average(sp.tanh(z) ** 2, alpha * K + beta)
    expected = (alpha, beta) if known else None
    assert shared_variance(one + 3 * average(sp.sin(z) ** 2, alpha * K + beta) - K) == expected
    assert shared_variance(one + BENT) is None and shared_variance(K**2) is None and shared_variance(BENT) is None
    assert shared_variance(average(sp.tanh(z) ** 2, K**2 + K)) is None
