"""Every record of a function, field by field, against mpmath's own function of that name.

`test_elementary.py` lets the library's own checker judge records; here the truth is written down once more, so that a
checker that has become blind is seen too.
"""

from __future__ import annotations

import math

import mpmath as mp
import pytest
import sympy as sp
from flint import acb, arb, arb_series

from meanfield.base.symbols import Z
from meanfield.functions import elementary
from meanfield.functions.elementary.record import LARGE_SHARE, SHARE, ElementaryFunction, EndBehavior, PowerEnd

u = Z[0]
TRUTH = {
    name: getattr(mp, name)
    for name in ("exp", "sinh", "cosh", "tanh", "sech", "erf", "erfc", "erfi", "log", "atan", "asinh", "asin", "acos",
                 "gamma", "zeta", "sin", "cos")
} | {"sigmoid": lambda x: mp.exp(x) / (mp.exp(x) + 1), "softplus": lambda x: mp.log(1 + mp.exp(x))}  # fmt: skip
PLACES = ("-3.25", "-1.5", "-0.375", "0.25", "0.8125", "1.75", "4.5")
ELEMENTARY_FUNCTIONS = sorted(elementary.ELEMENTARY_FUNCTIONS.values(), key=lambda h: h.name)
every = pytest.mark.parametrize("head", ELEMENTARY_FUNCTIONS, ids=lambda h: h.name)


def places(head: ElementaryFunction) -> list:
    lo, hi = (float(v) for v in head.domain)
    return [mp.mpf(t) for t in PLACES if lo < float(t) < hi]


def value(e, at) -> mp.mpf:
    return mp.mpf(sp.N(sp.sympify(e).subs(u, sp.Rational(str(at))), 40))


def near(a, b, digits: int = 28) -> bool:
    return abs(a - b) < mp.mpf(10) ** -digits * (1 + abs(b))


@every
def test_formulas_of_a_record(head):
    f = TRUTH[head.name]
    with mp.workdps(45):
        for x in places(head):
            truth = f(x)
            assert near(head.mpmath(x), truth)
            if head.slope is not None:
                assert near(value(head.slope(u), x), mp.diff(f, x), 18)
            claims = {"plain": head.plain and head.plain(u), "form": head.form and head.form[1](u)}
            claims["left form"] = head.form and head.form[-1](u)
            claims["exponential"] = head.exponential and head.exponential(sp.exp(u))
            for name, e in claims.items():
                assert not e or near(value(e, x), truth), name
            if head.exponentiated is not None:
                assert near(value(head.exponentiated(u), x), mp.exp(truth))
            if head.reflection is not None:
                assert near(mp.mpf(sp.N(head.reflection(sp.Float(str(truth), 45), sp.Float(str(x), 45)), 40)), f(-x))
            if head.square is not None:
                assert near(TRUTH[head.square.__name__](x) ** 2, 1 - truth**2)
            if head.number is not None:
                assert abs(head.number(float(x)) - float(truth)) < 1e-14 * (1 + abs(float(truth)))
            if head.branch is not None:
                for s in (1, -1):
                    assert near(mp.mpf(sp.N(head.branch(s, sp.sqrt((1 - s * sp.Rational(str(x))) / 2)), 40)), truth)


@every
def test_enclosures_of_a_record(head):
    """Balls at a point, on an interval, with and without the flag of analyticity; and series of balls."""
    f = TRUTH[head.name]
    method = (lambda v, _=False: getattr(v, head.ball)()) if isinstance(head.ball, str) else head.ball
    for x in places(head):
        with mp.workdps(30):
            coefficients = mp.taylor(f, x, 3)
        for analytic in (False, True):
            point = method(acb(arb(str(x))), analytic).real
            assert abs(float(point) - float(coefficients[0])) < 1e-13 * (1 + abs(float(coefficients[0])))
            wide = method(acb(arb(float(x), 0.05)), analytic).real
            for k in (-1, 0, 1):
                inside = float(f(x + k * mp.mpf("0.049")))
                assert not wide.is_finite() or wide.overlaps(arb(inside, 1e-13 * (1 + abs(inside))))
        if head.series is None:
            continue
        given = arb_series([float(x), 1], prec=4)
        found = getattr(given, head.series)() if isinstance(head.series, str) else head.series(given, False)
        for k, c in enumerate(coefficients):
            assert abs(float(found[k]) - float(c)) < 1e-12 * (1 + abs(float(c))), k


@every
def test_size_shape_and_ends_of_a_record(head):
    f = TRUTH[head.name]
    with mp.workdps(45):
        far = [x for x in (-30, -9, 9, 30) if float(head.domain[0]) < x < float(head.domain[1])]
        grid = sorted([*places(head), *map(mp.mpf, far)])
        values = [f(x) for x in grid]
        low, high = (mp.mpf(sp.N(v, 40)) if v.is_finite else mp.inf * (1 if v > 0 else -1) for v in head.values)
        assert all(low <= v <= high for v in values)
        steps = [(a < 0, mp.sign(w - v)) for a, v, b, w in zip(grid, values, grid[1:], values[1:]) if a * b > 0]
        ways = {"rising": (1, 1), "falling": (-1, -1), "valley": (-1, 1), "hill": (1, -1)}.get(head.shape)
        if ways is not None and head.whole:
            assert all(way in (0, ways[0] if left else ways[1]) for left, way in steps)
        if head.parity is not None:
            assert all(near(f(-x), head.parity * f(x)) for x in places(head))
        if head.steepest is not None:
            slopes = [abs(mp.diff(f, mp.mpf(k) / 8)) for k in range(-40, 41)]
            assert 0.8 * head.steepest < max(slopes) <= head.steepest + mp.mpf("1e-20")
        for side in (1, -1):
            end = head.end(side)
            if isinstance(end, EndBehavior):
                check_dying(f, end, side)
            elif isinstance(end, PowerEnd) and side * 40 > float(head.domain[0]):
                assert near(powers(end, mp.mpf(side * 40)), f(mp.mpf(side * 40)))


def check_dying(f, end: EndBehavior, side: int) -> None:
    for x in map(mp.mpf, PLACES):
        left = f(x) - value(end.limit(u), x)
        assert abs(left) <= float(end.size) * mp.exp(-end.rate * side * x)
        if side * x <= 0:
            continue
        if end.remainder is not None and not end.remainder(u).has(elementary.record.rest):
            assert near(value(end.remainder(u), x), left)
        if end.small is not None and not end.small(u).atoms(sp.core.function.AppliedUndef):
            assert near(value(end.small(u), x), -left)
        if end.enclosed is not None:
            ends = [value(end.enclosed(u).subs({SHARE: s, LARGE_SHARE: t}), x) for s, t in ((0, "1/3"), (1, 1))]
            assert min(ends) <= f(x) <= max(ends)
        if end.series is not None and abs(x) > 2:
            for n in (1, 2, 3):
                ends = [value(end.series(u, n, sp.Integer(t)), x) for t in (0, 1)]
                assert min(ends) <= left <= max(ends) and (ends[0] - left) * (ends[1] - left) < 0


def powers(end: PowerEnd, x) -> mp.mpf:
    return mp.fsum(abs(x) ** int(p) * mp.log(abs(x)) ** m * value(A(1 / u), x) for p, m, A in end.parts)


@every
def test_floats_far_out(head):
    """The float of a record does not overflow into an error, and tends to where mpmath tends."""
    if head.number is None or not head.shape:
        return
    for x in (1e3, 1e300, math.inf):
        for at in (x, -x):
            if not float(head.domain[0]) < at < float(head.domain[1]) and not (head.whole and math.isinf(at)):
                continue
            with mp.workdps(30):
                truth = TRUTH[head.name](mp.mpf(at)) if abs(at) < 1e299 else None
            found = head.number(at)
            ends = {"rising": head.values, "falling": head.values[::-1], "valley": head.values[1:] * 2}
            limit = float(ends.get(head.shape, head.values[:1] * 2)[at > 0])
            assert found == limit if math.isinf(at) else found <= float(head.values[1])
            if truth is not None:
                assert math.isinf(found) if abs(truth) > 1e308 else abs(found - float(truth)) <= 1e-13 * abs(found)
