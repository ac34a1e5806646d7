"""Zeros that are found with certainty: how many there are and where, against signs on a dense grid and mpmath.

Values beyond a point are bounded by `_interval`: samples of the function, and the bounds worked out by hand.
"""

from __future__ import annotations

import math
import pickle

import mpmath as mp
import pytest
import sympy as sp
from flint import arb

from meanfield import MeanFieldError
from meanfield.base.symbols import Z, sigmoid, softplus
from meanfield.functions import balls, isolation
from meanfield.functions.isolation import NoProof, Root, clear_beyond, isolate
from meanfield.functions.zeros import complex_roots, is_zero, polynomial_zeros, real_zeros, same_place

x = Z[0]
SCOPE = [{"sigmoid": lambda u: 1 / (1 + mp.exp(-u)), "softplus": lambda u: mp.log1p(mp.exp(u))}, "mpmath"]


def scanned(e: sp.Expr, lo: float, hi: float) -> list:
    """Simple zeros by signs on a grid that meets none of them, then bisection."""
    f = sp.lambdify(x, e, SCOPE)
    grid = [lo + (hi - lo) * (mp.mpf(k) + mp.mpf("0.3819660113")) / 700 for k in range(700)]
    values = [f(t) for t in grid]
    found = []
    for a, b, u, v in zip(grid, grid[1:], values, values[1:]):
        if mp.sign(u) != mp.sign(v):
            found.append(mp.findroot(f, (a, b), solver="anderson", tol=1e-40))
    return found


TRANSCENDENTAL = [
    sp.exp(-x) - x / 3 + sp.Rational(1, 7),
    sp.tanh(x) * 2 - x + sp.Rational(1, 11),
    x * sp.exp(-(x**2)) - sp.Rational(1, 5),
    sp.erf(x) - x**3 + sp.Rational(1, 9),
    softplus(x) - 2 + x / 7,
    sigmoid(x) - sp.Rational(1, 3) - x**2 / 9,
    sp.cosh(x) - 3 - x,
    sp.sech(x) - x**2 / 4 + x / 19,
    sp.atan(x) - x / 2 + sp.Rational(1, 13),
    sp.asinh(x) ** 2 - 1 - x,
    sp.log(3 + x**2) - 2 + x / 5,
    x**2 * sp.exp(-x) - sp.Rational(2, 7),
    sp.sqrt(1 + x**2) - 2 + sp.tanh(x) / 3,
    (x**2 + 1) / (x**2 + 3) - sp.sech(x) + x / 23,
    sp.exp(x) - 3 * x**2 + sp.exp(-2 * x) / 9,
    sp.exp(x / 2) * x - 1 - sp.sin(sp.Rational(1, 3)) * x**2,
    softplus(-3 * x) - sp.exp(-x),
]
PARTS = [(-sp.oo, sp.oo), (0, sp.oo), (-sp.oo, sp.Rational(1, 3)), (-1, 2), (sp.sqrt(2), sp.oo), (-sp.oo, -sp.sqrt(3))]


@pytest.mark.slow_with("-_z + asinh(_z)**2 - 1", "-3*_z**2 + exp(_z) + exp(-2*_z)/9", "softplus(-3*_z) - exp(-_z)")
@pytest.mark.parametrize("e", TRANSCENDENTAL, ids=str)
def test_every_zero_once_and_none_beside(e):
    with mp.workdps(40):
        truths = [t for t in scanned(e, -25, 25)]
        for lo, hi in PARTS:
            inside = [t for t in truths if mp.mpf(sp.N(max(lo, -99), 30)) < t < mp.mpf(sp.N(min(hi, 99), 30))]
            found = sorted(isolate(e, x, lo, hi), key=lambda r: sp.N(r, 20))
            assert len(found) == len(inside), (lo, hi, found)
            for r, t in zip(found, inside):
                assert abs(mp.mpf(sp.N(r, 35)) - t) < mp.mpf(10) ** -30
        for side in (1, -1):
            far = clear_beyond(e, x, side)
            assert far >= 0 and all(side * t < far for t in truths)


def test_nothing_to_search_where_far_out_reaches_in():
    assert isolate(x - 1, x, -sp.oo, -9) == [] == isolate(x + 1, x, 9, sp.oo)
    assert isolate(sp.exp(x) + 1, x) == [] and isolate(x**2 + 1, x, 3, 5) == []
    assert isolate(x - 4, x, 3, 4) == [] == isolate(x - 4, x, 4, 5) and isolate(x - 4, x, 3, 5) == [4]


@pytest.mark.slow_with("3")
@pytest.mark.parametrize("order", [1, 2, 3])
def test_multiple_zeros_are_exact_points(order):
    for place in (sp.Integer(0), sp.Rational(-3, 2), sp.Rational(7, 10)):
        for bump in (sp.exp(x), 2 + sp.tanh(x), sp.cosh(x)):
            moved = sp.expand((x - place) ** order) * bump
            assert isolate(moved, x, -5, 5) == [place]
    shifted = (sp.cosh(x - 1) - 1) * (x + 2)
    assert sorted(isolate(shifted, x, -5, 5)) == [-2, 1]


@pytest.mark.slow
def test_what_has_endless_zeros_is_undecided():
    for e in (sp.sin(x), sp.sin(x) * sp.exp(-x) + sp.exp(-x) / 2, x * sp.cos(x) + 1):
        with pytest.raises(NoProof, match=r"^$"):
            isolate(e, x)
    assert len(isolate(sp.sin(x), x, -10, 10)) == 7  # 0, ±π, ±2π, ±3π


def test_a_root_knows_any_number_of_digits():
    e = sp.exp(-x) - x
    (root,) = isolate(e, x)
    with mp.workdps(320):
        truth = mp.lambertw(1).real
        for digits in (5, 30, 100, 300):
            ball = root.ball(digits)
            value = mp.mpf(ball.mid().str(digits + 15, radius=False))
            assert abs(value - truth) <= mp.mpf(10) ** -digits and ball.rad() < arb(10) ** -digits
        assert abs(mp.mpf(sp.N(root, 250)) - truth) < mp.mpf(10) ** -249
    assert abs(float(root) - float(truth)) < 1e-16 and pickle.loads(pickle.dumps(root)) == root
    wide = Root(e, sp.Rational(1, 100), 30)
    assert wide == root and hash(wide) == hash(root) and wide != Root(e - sp.Rational(1, 9), sp.Rational(1, 9), 2)
    (other,) = isolate(-2 * e, x)
    assert other == root, "the same zero by the same name"
    (mirrored,) = isolate(e.subs(x, -x), x)
    assert mirrored == -root
    assert str(root).startswith("root(") and "0.567143" in str(root) and "root" in sp.latex(root)
    assert sp.lambdify((), root, "mpmath")() == pytest.approx(0.5671432904097838, abs=1e-15)
    with pytest.raises(MeanFieldError, match="its enclosure was lost"):
        Root(e, 2, 3)


BOUNDED = {  # f for x ≥ lo: (lo, inf, sup) by hand
    "3 - 2*x": (x * -2 + 3, 1, -math.inf, 1),
    "x**2 - x": (x**2 - x, 2, 2, math.inf),
    "x*exp(-x)": (x * sp.exp(-x), 1, 0, math.exp(-1)),
    "-x**2*exp(-x)*5": (-5 * x**2 * sp.exp(-x), 2, -20 * math.exp(-2), 0),
    "tanh": (sp.tanh(x), 1, math.tanh(1), 1),
    "1 - tanh": (1 - sp.tanh(x) * 2, 0, -1, 1),
    "sech": (sp.sech(x), 2, 0, 1 / math.cosh(2)),
    "sech of minus": (sp.sech(-x), 2, 0, 1 / math.cosh(2)),
    "cosh": (sp.cosh(x), 1, math.cosh(1), math.inf),
    "erfc": (sp.erfc(x), 1, 0, math.erfc(1)),
    "-softplus": (-softplus(x), 0, -math.inf, -math.log(2)),
    "softplus of minus": (softplus(-x), 1, 0, math.log1p(math.exp(-1))),
    "sin": (sp.sin(x), 0, -1, 1),
    "log": (sp.log(x), 2, math.log(2), math.inf),
    "1/x": (1 / x, 2, 0, 0.5),
    "-x**-3": (-(x**-3), 2, -0.125, 0),
    "sqrt": (sp.sqrt(x + 1), 3, 2, math.inf),
    "x**-1/2": (1 / sp.sqrt(x), 4, 0, 0.5),
    "square of falling": ((1 - x) ** 2, 3, 4, math.inf),
    "square over 0": (sp.Pow(sp.tanh(x) - sp.Rational(1, 2), 2, evaluate=False), 0, 0, 0.25),
    "negative square": (sp.Pow(sp.tanh(x) - 2, 2, evaluate=False), 0, 1, 4),
    "cube": (sp.Pow(sp.tanh(x) - 2, 3, evaluate=False), 0, -8, -1),
    "exp of minus square": (sp.exp(-(x**2)), 1, 0, math.exp(-1)),
    "sum": (sp.tanh(x) + sp.atan(x), 0, 0, 1 + math.pi / 2),
    "product": ((sp.tanh(x) - 2) * sp.erf(x), 0, -2, 0),
    "constant": (sp.sqrt(2) - 3, 0, math.sqrt(2) - 3, math.sqrt(2) - 3),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_far_out_are_those_worked_out_by_hand(name):
    e, lo, below, above = BOUNDED[name]
    with balls.precision(100):
        found = isolation._interval(e, x, arb(lo))
    assert found is not None
    for got, truth in zip(found, (below, above)):
        assert float(got) == pytest.approx(truth, abs=1e-14)
    assert found[0] <= arb(below) + arb(1e-15) and found[1] >= arb(above) - arb(1e-15)


@pytest.mark.parametrize("e", [sp.log(x - 2), sp.sqrt(x - 2), 1 / (x - 2), x**2 - 3 * x, sp.gamma(x) + 1, x**sp.pi])
def test_no_bounds_where_no_rule_holds(e):
    assert isolation._interval(e, x, arb(0)) is None


def test_zeros_of_formulas_are_exact_or_refused():
    a = sp.Symbol("a", positive=True)
    exact = {
        sp.tanh(x) - sp.tanh(2): [2], sp.exp(x) - 3: [sp.log(3)], x**3 - 8: [2], (x**2 - 2) * (x - 5): None,
        sp.cosh(x) - 1: [0], sp.sech(x) - 2: [], sp.sech(2 * x - 1) - 1: [sp.Rational(1, 2)], x**4 + 1: [],
        sp.erf(x): [0], sp.atan(3 * x) - sp.pi / 4: [sp.Rational(1, 3)], 1 / (x - 4): [4], x - a: [a],
        sp.sqrt(x + 2) - 3: [7], softplus(x) - sp.log(2): [0], sp.log(x) - 1: [sp.E], x**2 - sp.pi: None,
        x**3 + sp.pi: [-sp.cbrt(sp.pi)], x**5 - sp.sqrt(2): [sp.Integer(2) ** sp.Rational(1, 10)], x**4 + sp.pi: [],
    }  # fmt: skip
    for e, truth in exact.items():
        found = same_place(real_zeros(e, x))
        if truth is not None:
            assert len(found) == len(truth) and all(is_zero(f - t) for f, t in zip(found, truth)), e
        assert all(abs(sp.N(e.subs(x, r), 20, chop=True)) < 1e-15 for r in found if e.subs(x, r).is_finite), e
        assert found == same_place(found[::-1])
    assert len(real_zeros((x**2 - 2) * (x - 5), x)) == 3 and len(real_zeros(x**2 - sp.pi, x)) == 2
    with pytest.raises(MeanFieldError, match="depend on the range of a"):
        real_zeros(sp.exp(a * x) - x, x)
    with pytest.raises(MeanFieldError, match="could not all be found with certainty"):
        real_zeros(sp.sin(x) - x / 100 * sp.cos(x), x)
    p = sp.Poly((x - 1) * (x - 3) * (x**2 - sp.sqrt(2)), x)
    assert [round(float(r), 3) for r in polynomial_zeros(p, 0, 3)] == [1.0, 1.189]
    assert polynomial_zeros(sp.Poly((x - 1) ** 2 * (x - 3), x), 1, 4) == [3]
    double = complex_roots(sp.Poly(sp.expand((x - 1) ** 2 * (x - 2)), x))
    assert sorted(round(float(r.real), 6) for r in double) == [1, 2]
