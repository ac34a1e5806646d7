r"""No further zero of an expression in averages between two values of K: h = ⟨G⟩/K enclosed over short intervals.

|h(K) - h(m)| ≤ |log K - log m|·sup |dh/d log K|. With closed forms the supremum is interval arithmetic; without, h is
expanded in log K about m, d/d log K of ⟨f⟩/K being ⟨½zf′ - f⟩/K, with the last derivative bounded by Cauchy and Schwarz
(√K⟨u²⟩_K increases). Source: derived here.
"""

from __future__ import annotations

import math
from functools import lru_cache

import sympy as sp
from flint import arb

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, Z
from meanfield.functions import balls
from meanfield.functions.derivatives import derivative
from meanfield.functions.piecewise import Pieces, pieces
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.fixed_points.certified_roots import RootInterval, enclose, sign_at
from meanfield.symbolic.recursion import closed

x = Z[0]
CLOSE = 1 + sp.Rational(1, 10**9)  # intervals are not made shorter than this ratio of their ends
ORDER = 2  # derivatives in log K of a smooth G: higher ones cost more than they save


def excluded(expr: sp.Expr, g: sp.Expr | None, found: tuple[RootInterval, ...], low: sp.Expr, high: sp.Expr) -> bool:
    """Whether [low, high] holds no zero of expr besides those found: False where that is not proved.

    g: the G with expr = ⟨G⟩_K; None where expr holds point masses, too, so that only its closed form can be used. The
    range is cut until h = expr/K has no zero in a part or is monotone there, when the signs at its ends say which.
    """
    form = closed(expr)
    if form.has(Average) and g is None:
        return False
    try:
        tests = _by_averages(expr, g) if form.has(Average) else _by_closed_form(expr, form)
        return _count(expr, tests, low, high, 500 if form.has(Average) else 6000) == len(found)
    except MeanFieldError:
        return False


def _count(expr, tests, low, high, budget: int) -> int | None:
    """The number of zeros in [low, high]; None where the budget does not decide it."""
    away, monotone = tests
    total, work = 0, [(low, high)]
    while work:
        a, b = work.pop()
        budget -= 1
        if budget < 0 or b < a * CLOSE:
            return None
        m = middle_of(a, b)
        if b > 16 * a:
            work += [(a, m), (m, b)]
        elif away(a, m, b):
            continue
        elif monotone(a, m, b):
            ends = sign_at(expr, a), sign_at(expr, b)
            if 0 in ends:
                return None
            total += ends[0] != ends[1]
        else:
            work += [(a, m), (m, b)]
    return total


def _by_closed_form(expr, form):
    """(whether h has no zero in [a, b], whether it is monotone there), h and K·dh/dK by interval arithmetic."""
    change = balls.compile_ball(_once(closed(sp.diff(expr, K)) - form / K), (K,))
    height = balls.compile_ball(_once(form / K), (K,))

    def bits(a):
        return balls.precision(80 + int(2 * abs(math.log2(float(a)))))

    def slope(a, b):
        return change((balls.acb(balls.constant(a).union(balls.constant(b))),), False).real

    def away(a, m, b):
        with bits(a):
            middle = height((balls.acb(balls.constant(m)),), False).real
            return bool(abs(middle) > abs(slope(a, b)) * (balls.constant(b) / balls.constant(a)).log())

    def monotone(a, m, b):
        with bits(a):
            return slope(a, b).is_finite() and not slope(a, b).contains(0)

    return away, monotone


def _by_averages(expr, g):
    """The same by Taylor polynomials in log K whose coefficients are averages."""
    rungs, last = _derivatives(g)
    first = sp.diff(expr, K) - expr / K

    def away(a, m, b):
        return _is_away(rungs, last, a, m, b)

    def monotone(a, m, b):
        if len(rungs) > 1:
            return _is_away(rungs[1:], last, a, m, b)
        return not enclose(first, a, b, 12).contains(0)

    return away, monotone


def _is_away(rungs, last, a, m, b) -> bool:
    """Whether ⟨rungs[0]⟩/K has no zero in [a, b]: its Taylor polynomial about log m is larger than what it leaves
    out."""
    node, jumps = last
    with balls.precision(90):
        ends = balls.constant(a), balls.constant(b)
        width = (ends[1] / ends[0]).log() * arb("0.5000001")  # m is the geometric mean to rounding
        room = abs(_value(rungs[0], m))
        for k, rung in enumerate(rungs[1:], 1):
            room -= abs(_value(rung, m)) * width**k / math.factorial(k)
        if not room > 0:
            return False
        scale = balls.constant(m) / ends[0]
        rest = (ends[1] / ends[0]).sqrt().sqrt() * _value(node, b).sqrt() * scale
        for point, jump in jumps:  # ½ b·jump·p_K(b), over K and for every K in [a, b]
            edge = balls.constant(point)
            density = (-(edge**2) / (2 * ends[1])).exp() / (2 * arb.pi() * ends[0]).sqrt()
            rest += abs(edge * balls.constant(jump)) / 2 * density * scale
        return bool(room > rest * width ** len(rungs) / math.factorial(len(rungs)))


@lru_cache(maxsize=4096)
def _value(node, k) -> arb:
    at = node.subs(K, k)
    return at.ball(10) if isinstance(at, Average) else balls.certified(at, 10)


@lru_cache(maxsize=32)
def _derivatives(g: sp.Expr):
    """(⟨G⟩, ⟨DG⟩, … as nodes, (the node ⟨(DⁿG)²⟩, jumps of Dⁿ⁻¹G)) with D = ½z d/dz - 1; n = 1 where G has breaks."""
    p = pieces(g, x)
    order = 1 if p.breaks else ORDER
    rungs, current = [], p
    for _ in range(order):
        rungs.append(average(current.expr, K))
        jumps = current.jumps()
        current = Pieces(x, p.breaks, tuple(x * derivative(e, x) / 2 - e for e in current.exprs))
    return rungs, (average(current.map(lambda e: sp.expand(e**2) if e.is_polynomial(x) else e**2).expr, K), jumps)


def middle_of(a: sp.Expr, b: sp.Expr) -> sp.Rational:
    """A rational near the geometric mean."""
    return sp.Rational(float(a) * math.sqrt(float(b) / float(a)))


def _once(e: sp.Expr) -> sp.Expr:
    """K/(1 + K) → 1 - 1/(1 + K) inside asin: an interval must not meet K twice there."""
    return e.replace(sp.asin, lambda u: sp.asin(sp.apart(u, K)))
