r"""No further zero of an expression in averages between two values of K, by enclosures of h = ⟨G⟩/K over short intervals.

|h(K) - h(m)| ≤ |log K - log m|·sup |dh/d log K|. With closed forms the supremum is interval arithmetic; without, h is
expanded in log K about m, d/d log K of ⟨f⟩/K being ⟨½zf′ - f⟩/K, with the last derivative bounded by Cauchy and Schwarz
(√K⟨u²⟩_K increases). Source: derived here.
"""

from __future__ import annotations

import math
from functools import lru_cache

import sympy as sp
from flint import arb

from meanfield import balls
from meanfield.piecewise import Pieces, derivative, pieces
from meanfield.results import MeanFieldError
from meanfield.symbolic.average import Average, average
from meanfield.symbolic.recursion import closed
from meanfield.symbolic.roots import Root, enclose
from meanfield.symbols import K, Z

x = Z[0]
ORDER = 4  # derivatives in log K of a smooth G


def excluded(expr: sp.Expr, g: sp.Expr | None, found: tuple[Root, ...], low: sp.Expr, high: sp.Expr) -> bool:
    """Whether [low, high] holds no zero of expr besides those found: False where that is not proved.

    g: the G with expr = ⟨G⟩_K; None where expr holds point masses, too, so that only its closed form can be used.
    """
    slope = sp.diff(expr, K)
    edges = [low]
    for r in found:
        near = r.lo * sp.Rational(99, 100), r.hi * sp.Rational(101, 100)
        if enclose(slope, *near, 12).contains(0):
            return False
        edges += near
    edges.append(high)
    work = [(a, b) for a, b in zip(edges[::2], edges[1::2]) if a < b]
    form = closed(expr)
    if not form.has(Average):
        return _excluded_closed(expr, form, work)
    if g is None:
        return False
    try:
        return _excluded_by_averages(g, work)
    except MeanFieldError:
        return False


def _excluded_closed(expr, form, work, budget: int = 6000) -> bool:
    change = balls.compile_ball(_once(closed(sp.diff(expr, K)) - form / K), (K,))
    height = balls.compile_ball(_once(form / K), (K,))
    while work:
        a, b = work.pop()
        budget -= 1
        if budget < 0:
            return False
        m = middle_of(a, b)
        if b <= 4 * a:
            with balls.precision(80 + int(2 * abs(math.log2(float(a))))):
                ends = balls.constant(a), balls.constant(b)
                moved = abs(change((balls.acb(ends[0].union(ends[1])),), False).real)
                middle = height((balls.acb(balls.constant(m)),), False).real
                if abs(middle) > moved * (ends[1] / ends[0]).log():
                    continue
            if b < a * sp.Rational(1001, 1000):
                return False
        work += [(a, m), (m, b)]
    return True


def _excluded_by_averages(g, work, budget: int = 400) -> bool:
    rungs, last = _derivatives(g)
    while work:
        a, b = work.pop()
        budget -= 1
        if budget < 0:
            return False
        m = middle_of(a, b)
        if b <= 16 * a and _is_away(rungs, last, a, m, b):
            continue
        if b < a * sp.Rational(1001, 1000):
            return False
        work += [(a, m), (m, b)]
    return True


def _is_away(rungs, last, a, m, b) -> bool:
    """Whether h has no zero in [a, b]: its Taylor polynomial about log m is larger than what it leaves out."""
    node, jumps = last
    with balls.precision(90):
        ends = balls.constant(a), balls.constant(b)
        width = (ends[1] / ends[0]).log() * arb("0.5000000001")
        value = _value(rungs[0], m)
        room = abs(value) - sum((abs(_value(r, m)) * width**k / math.factorial(k) for k, r in enumerate(rungs) if k), arb(0))
        if not room > 0:
            return False
        grown = (ends[1] / ends[0]).sqrt()
        rest = grown.sqrt() * _value(node, b).sqrt() * balls.constant(m) / ends[0]
        for point, jump in jumps:  # ½ b·jump·p_K(b), over K and for every K in [a, b]
            edge = balls.constant(point)
            density = (-(edge**2) / (2 * ends[1])).exp() / (2 * arb.pi() * ends[0]).sqrt()
            rest += abs(edge * balls.constant(jump)) / 2 * density * balls.constant(m) / ends[0]
        return bool(room > rest * width ** len(rungs) / math.factorial(len(rungs)))


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
