"""Bounds of growth and decay that certified averages cut their tails with: each inequality sampled, on either side."""

from __future__ import annotations

import math

import pytest
import sympy as sp
from mpmath import mp

import meanfield as mf
from meanfield.base.symbols import K, Z
from meanfield.functions import growth
from meanfield.functions.growth import Bound, bound, decay

z = Z[0]
FUNCTIONS = {  # not bounded on one side at least, the rate of the left and of the right differ
    "falling": sp.exp(-3 * z / 2),
    "rising": sp.exp(2 * z / 3),
    "both": sp.exp(z / 2) - 3 * sp.exp(-2 * z),
    "shifted": (1 + z**2) * sp.exp(-z + 2),
    "saturating exponent": sp.exp(sp.tanh(z) - z),
    "hyperbolic": z**3 * sp.cosh(z / 3 - 1),
    "powers": (1 + z**2) ** sp.Rational(3, 2) / (2 + sp.cos(z)),
    "logarithm": z * sp.log(2 + z**2),
    "soft": sp.log(1 + sp.exp(-2 * z)),
}


def assert_bounded(name: str, side: int, found: Bound) -> None:
    """|f(z)| ≤ A (1 + |z|)^p e^{c|z|} out to |z| = 80."""
    f = sp.lambdify(z, FUNCTIONS[name], "mpmath")
    ways = (side,) if side else (1, -1)
    for way in ways:
        for j in range(0, 161):
            x = mp.mpf(way * j) / 2
            size = found.A * (1 + abs(x)) ** found.p * mp.exp(found.c * abs(x))
            assert abs(f(x)) <= size * (1 + mp.mpf(10) ** -14), (name, side, x)


@pytest.mark.parametrize("side", [-1, 0, 1])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_growth_bound_holds_on_its_side(name, side):
    found = bound(FUNCTIONS[name], z, side)
    assert found is not None
    assert_bounded(name, side, found)
    for planted in (Bound(found.A / 1000, found.p, found.c / 2), Bound(found.A / 1000, found.p / 2 - 0.1, found.c)):
        if found.c > 0 or found.p > 0:
            with pytest.raises(AssertionError, match=name):
                assert_bounded(name, side, planted)


def assert_average(rate: int, side: str) -> None:
    """⟨e^{rate |z|}/(2 + cos z) on one side, 1 on the other⟩ at K = 9, against mpmath about its maximum at 9·rate."""
    text = f"exp({'-' * (side == 'left')}{rate}*z)/(2 + cos(z)) if z {'<' if side == 'left' else '>'} 0 else 1"
    with mp.workdps(30):
        grown = [0, *[9 * rate + 3 * j for j in range(-6, 15)]]
        part = mp.quad(lambda x: mp.exp(rate * x - x * x / 18) / (2 + mp.cos(x)), [x for x in grown if x >= 0])
        right = part / mp.sqrt(18 * mp.pi) + mp.mpf(1) / 2
        ball = mf.average(text, 9).ball(20)
        assert ball.is_finite() and float(ball.rad() / abs(ball.mid())) < 1e-12
        assert abs(mp.mpf(str(sp.Float(ball.mid().str(40, radius=False), 40))) - right) < 1e-15 * right, text


def by_the_other_side(u, x, side, ends):
    """Planted: on z ≤ 0 the rate of z ≥ 0."""
    found = EXP_BOUND(u, x, side, ends)
    slope = sp.Poly(u, x).nth(1) if u.is_polynomial(x) and sp.Poly(u, x).degree() == 1 else 0
    return found if side != -1 or found is None else Bound(found.A, found.p, max(float(slope), 0.0))


EXP_BOUND = growth._exp_bound


@pytest.mark.slow
@pytest.mark.parametrize("side", ["left", "right"])
def test_certified_averages_of_what_grows_on_one_side(side):
    assert_average(6, side)


@pytest.mark.slow
def test_control_the_rate_of_the_left_side(monkeypatch):
    monkeypatch.setattr(growth, "_exp_bound", by_the_other_side)
    bound.cache_clear()
    try:
        with pytest.raises(AssertionError, match="falling"):
            assert_bounded("falling", -1, bound(FUNCTIONS["falling"], z, -1))
        assert_bounded("rising", 1, bound(FUNCTIONS["rising"], z, 1))
        with pytest.raises(AssertionError, match="exp"):  # a certificate of a wrong number
            assert_average(7, "left")
    finally:
        bound.cache_clear()


TAILS = {  # f and its power part as t → +∞
    "tanh": (sp.tanh(2 * z - 1), 1),
    "squared": (z**2 * sp.tanh(z) ** 2, z**2),
    "sum": (3 * z - sp.erf(z / 2) + sp.exp(-z), 3 * z - 1),
    "one side": (z * (1 + sp.erf(z / 2)) / 2, z),
}


def assert_decays(name: str, A: float, p: float, c: float) -> None:
    f, power = (sp.lambdify(z, sp.sympify(e).rewrite(sp.exp), "mpmath") for e in TAILS[name])
    with mp.workdps(120):
        for j in range(0, 121):
            t = 1 + mp.mpf(j) / 2
            assert abs(f(t) - power(t)) <= A * (1 + t) ** p * mp.exp(-c * t), (name, t)


@pytest.mark.parametrize("name", TAILS)
def test_what_is_left_of_a_tail_dies_as_fast_as_is_said(name):
    found = decay(TAILS[name][0], z)
    assert found is not None and sp.expand(found.power - TAILS[name][1]) == 0 and math.isfinite(found.c)
    assert_decays(name, found.A, found.p, found.c)
    with pytest.raises(AssertionError, match=name):
        assert_decays(name, found.A, found.p, found.c * 1.5 + 1)


def test_the_bound_of_a_product_is_that_of_its_factors():
    assert bound(z * sp.exp(-z), z, -1) == Bound(pytest.approx(1.0), 1.0, pytest.approx(1.0))
    assert bound(sp.exp(-z), z, 1) == Bound(pytest.approx(1.0), 0.0, 0.0)
    assert bound(sp.exp(K * z), z, 1) is None  # no number
