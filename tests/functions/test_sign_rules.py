"""Each rule for a sign far out on its own, fractional powers, and ranges of functions, against samples with mpmath."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
import sympy as sp

from meanfield.base.symbols import Z, sigmoid, softplus
from meanfield.functions import signs as rules
from meanfield.functions.ranges import dominated, root_of_power, span
from meanfield.functions.signs import signs

x = Z[0]
R = sp.Rational
SCOPE = [{"sigmoid": lambda u: 1 / (1 + mp.exp(-u)), "softplus": lambda u: mp.log1p(mp.exp(u))}, "mpmath"]
inf = math.inf

FAR = {  # rule: functions that it decides, each with the last place where the sign changes (0: none)
    "_far_power": {x**3 - 40 * x**2 * sp.tanh(x): 40, 5 - x**2 * sp.sech(x): 4.2, sp.erf(x) - R(1, 2): 0.5,
                   -(x**2) + 90 * x * sp.tanh(x) + 7: 90},
    "_far_bounded": {x - 20 * sp.sin(x): 20, -(x**2) + 30 * x * sp.cos(x): 29, x**3 - 9 * x**2 * sp.sin(x) - x: 8.1},
    "_far_exponential": {sp.exp(-x) - x**9 * sp.exp(-2 * x): 26.1, sp.exp(-x) - 3 * x**2 * sp.exp(-3 * x / 2): 11.6,
                         x * sp.exp(-x) - 5 * sp.exp(-x) + 400 * sp.exp(-2 * x): 5,
                         -sp.tanh(x) + sp.tanh(2 * x) - 50 * sp.exp(-3 * x): 3.3,
                         (1 - 90 * sp.exp(-x)) / (2 + sp.exp(-x)): 4.5, x**2 * sp.sech(x) - x**7 * sp.sech(x) ** 3: 5},
    "_far_algebraic": {(x - 30) / (1 + x**2): 30, sp.atan(x) - R(3, 2): 14.2, 1 / x - 100 / x**3: 10},
    "_far_analytic": {x * (sp.pi / 2 - sp.atan(x)) - 1 + 5 / x**3: 15, sp.atan(2 * x) - sp.atan(x) - 1 / x: 0},
    "_far_range": {sp.log(2 + x**2) - 5: 12.2, x**2 * (sp.asinh(x) ** 2 - 4) - 9: 4.1, 3 - sp.asinh(x): 10.1},
    "_far_small": {sp.erfc(x) - sp.exp(-(x**2)) / (2 * x): 0.9, softplus(-x) - sp.exp(-x) / 3: 0},
}  # fmt: skip


@pytest.mark.slow_with("_far_small")
@pytest.mark.parametrize("rule", FAR)
def test_a_sign_far_out_holds_from_where_the_rule_says(rule):
    for e, last in FAR[rule].items():
        found = getattr(rules, rule)(e)
        assert found is not None, e
        place, sign = found
        assert last - 0.2 <= place <= 70 * max(last, 1.0), (e, place)
        f = sp.lambdify(x, e, SCOPE)
        with mp.workdps(300):
            for k in range(25):
                at = mp.mpf(place) * mp.mpf("1.17") ** k + mp.mpf("1e-9")
                assert mp.sign(mp.re(f(at))) == sign, (e, at)


def test_what_a_rule_does_not_reach_is_none():
    for rule, e in (("_far_power", sp.sin(x)), ("_far_bounded", sp.exp(x) - x), ("_far_bounded", x * sp.sin(x) + x / 2),
                    ("_far_exponential", sp.erf(x)), ("_far_exponential", sp.exp(-x) + sp.exp(-sp.sqrt(2) * x)),
                    ("_far_algebraic", sp.tanh(x)), ("_far_range", sp.sin(x)), ("_far_small", sp.sin(x))):  # fmt: skip
        assert getattr(rules, rule)(e) is None, (rule, e)


FRACTIONAL = {  # on x > 0, signs by hand
    sp.Abs(x) ** R(3, 2) - 2 * sp.Abs(x): (-1, 1),  # at 4
    sp.Abs(x) ** R(1, 2) - sp.Abs(x): (1, -1),
    1 - sp.Abs(x) ** R(-1, 2): (-1, 1),
    3 * sp.Abs(x) ** R(2, 3) - sp.Abs(x) ** R(4, 3) - 2: (-1, 1, -1),  # u = x^{2/3}: zeros at 1 and 2
    sp.Abs(x) ** R(1, 2) * (sp.Abs(x) - 2): (-1, 1),
    sp.pi * x**4 - x**2: (-1, 1),
    -(x**2) * sp.exp(-sp.Abs(x)): (-1,),
    (x**2 + 1) * sp.cosh(x): (1,),
    -sp.tanh(x) * x * (x**2 - 3): (1, -1),
    x**2 * sp.sech(x) ** 3 * (2 - sp.cosh(x)): (1, -1),
    x - x: (),
    x**3 + sp.tanh(x): (),  # odd
    sigmoid(x) + sigmoid(-x) - 1: (),
    softplus(x) - softplus(-x) - x + x**2 - 1: (-1, 1),
    softplus(-sp.Abs(x)) - R(1, 2): (1, -1),
    softplus(-2 * sp.Abs(x)) + sp.Abs(x) - 1: (-1, 1),
    sigmoid(-sp.Abs(x)) - R(1, 4): (1, -1),
    sp.erfc(-sp.Abs(x)) - R(3, 2): (-1, 1),
}


@pytest.mark.parametrize("e", FRACTIONAL, ids=str)
def test_folded_signs_by_hand(e):
    assert signs(e) == FRACTIONAL[e]
    assert signs(-e) == tuple(-s for s in FRACTIONAL[e])


def test_point_masses_between_the_signs():
    for place, weight, expected in ((2, 1, (-1, 1)), (2, -1, (-1, 1, -1, 1)), (R(1, 2), 1, (-1, 1, -1, 1)),
                                    (R(1, 2), -3, (-1, 1)), (0, 5, (1, -1, 1)), (1, 1, (-1, 1))):  # fmt: skip
        assert signs(x**2 - 1, ((sp.sympify(place), sp.sympify(weight)),)) == expected, (place, weight)
    both = ((sp.Integer(2), sp.Integer(3)), (sp.Integer(-2), sp.Integer(-3)))
    assert signs(x**2 - 1, both) == (-1, 1), "masses at ±b add up"


SPANS = [  # (f, low, high, infimum, supremum)
    (x**3 - 3 * x, -2, 3, -2, 18),
    (x**3 - 3 * x, 0, inf, -2, inf),
    (x / (1 + x**2), -inf, inf, -0.5, 0.5),
    (x / (1 + x**2), 2, 5, 5 / 26, 0.4),
    (x * sp.exp(-x), 0, inf, 0, math.exp(-1)),
    (x**2 * sp.exp(-(x**2)), -1, 3, 0, math.exp(-1)),
    (-(x**3) + 1, -inf, 1, 0, inf),
    (sp.exp(-x) / (2 + x), 0, inf, 0, 0.5),
    (2 + 3 / (1 + x**2), -inf, inf, 2, 5),
    (sp.tanh(2 * x - 1), 0, inf, math.tanh(-1), 1),
    (sp.sech(x - 1), -1, 4, 1 / math.cosh(3), 1),
    (sp.sech(x), 1, 2, 1 / math.cosh(2), 1 / math.cosh(1)),
    (sp.cosh(x), -2, 1, 1, math.cosh(2)),
    (sp.sech(x) - sp.tanh(x) * 0, -3, -1, 1 / math.cosh(3), 1 / math.cosh(1)),
    (sp.sqrt(1 + x**2), -2, 1, 1, math.sqrt(5)),
    (1 / sp.sqrt(4 + x**2), 0, inf, 0, 0.5),
    (sp.Pow(sp.tanh(x), 2, evaluate=False), -1, 3, 0, math.tanh(3) ** 2),
    (sp.tanh(x) ** 3, -1, 2, -(math.tanh(1) ** 3), math.tanh(2) ** 3),
    (1 / (2 + sp.tanh(x)), -inf, inf, 1 / 3, 1),
    (1 / (sp.tanh(x) - 2), -inf, inf, -1, -1 / 3),
    (sp.tanh(x) ** -2, 1, inf, 1, math.tanh(1) ** -2),
    (softplus(x) - 1, -inf, 0, -1, math.log(2) - 1),
    (sp.log(1 + x**2), 1, 3, math.log(2), math.log(10)),
    (sp.sin(x), 0, 1, -1, 1),
    (3 * sp.erf(x), -1, 2, -3 * math.erf(1), 3 * math.erf(2)),
    (sp.sqrt(2) * x**2 - sp.pi, -1, 2, -math.pi, 4 * math.sqrt(2) - math.pi),
    (sp.Integer(7) / 3, -inf, inf, 7 / 3, 7 / 3),
]


@pytest.mark.parametrize(("f", "low", "high", "least", "most"), SPANS, ids=[f"{s[0]} {s[1]} {s[2]}" for s in SPANS])
def test_ranges_enclose_and_touch(f, low, high, least, most):
    found = span(sp.sympify(f), x, float(low), float(high))
    for got, truth, side in zip(found, (least, most), (-1, 1)):
        assert got == pytest.approx(truth, abs=1e-10), "tight"
        assert side * (got - truth) >= 0 or math.isclose(got, truth, rel_tol=1e-15), "outwards"


def test_ranges_that_are_not_known_are_everything():
    for f in (1 / x, sp.log(x - 5), sp.sqrt(x - 2), 1 / (sp.tanh(x) ** 3), sp.tan(x), x**sp.pi, sp.Symbol("a") * x):
        assert span(f, x, -1.0, 4.0) == (-inf, inf), f
    assert span(sp.tanh(x) ** -2, x, -1.0, 1.0) == (0.0, inf)


DYING = {  # e: (low, high, how much the exponential above what dies may cost)
    x**3 * sp.sech(x): (0, inf, 3), x**3 * sp.sech(2 * x - 1) ** 2: (0, inf, 5), x * sigmoid(x): (-inf, 0, 3),
    x**2 * softplus(3 * x) * sp.tanh(x): (-inf, 0, 3), x**4 * sp.erfc(x): (0, inf, 40),
    x * sp.sech(x) / (2 + sp.tanh(x)): (0, inf, 4),
}  # fmt: skip


@pytest.mark.fast_with("_z*sigmoid(_z)")
@pytest.mark.parametrize("e", DYING, ids=str)
def test_products_with_what_dies_are_bounded(e):
    low, high, factor = DYING[e]
    f, side = sp.lambdify(x, e, SCOPE), 1 if high > 0 else -1
    most = max(abs(float(f(side * mp.mpf(k) / 40))) for k in range(2400))
    assert most <= dominated(e, x, float(low), float(high)) <= factor * most


def test_products_with_roots_are_bounded_by_their_powers():
    cases = {x / sp.sqrt(1 + x**2): 1, x**2 / (1 + x**3) ** R(2, 3): 1, 3 * sp.tanh(x) / sp.sqrt(4 + x**2): 1.5}
    for e, most in cases.items():
        assert most <= root_of_power(e, x, 0.0, inf) * (1 + 1e-9) <= 1.01 * most
    assert root_of_power(x**2 / sp.sqrt(1 + x**2), x, 0.0, inf) == inf == root_of_power(sp.tanh(x), x, 0.0, inf)


@pytest.mark.parametrize(("low", "high", "expected"), [(1, 2, [-1]), (1, 4, [-1, 1]), (3, 4, [1])])
def test_a_power_is_followed_on_its_own_interval(low, high, expected):
    """√x − 3/2 changes its sign at 9/4: the interval of x becomes one of √x, and is one of x again."""
    found = rules._of_piece(sp.sqrt(x) - R(3, 2), sp.Integer(low), sp.Integer(high))
    assert [s for s, _, _ in found] == expected
    ends = [low, *([R(9, 4)] if len(expected) == 2 else []), high]
    assert [float(a) for _, a, _ in found] == pytest.approx(ends[:-1])
    assert [float(b) for _, _, b in found] == pytest.approx(ends[1:])
