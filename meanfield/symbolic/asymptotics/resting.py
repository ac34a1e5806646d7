"""Where the variance of a branch settles in log l: dq/d log l = S⟨φ²⟩_q + c - d·q.

K → K + (that)/(1 + d) has the same zeros and never overshoots, so the fixed points of the engine, with their
certificates, answer it.
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp
from flint import arb

from meanfield import balls
from meanfield.functions.piecewise import pieces
from meanfield.functions.signs import signs
from meanfield.results import MeanFieldError
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.fixed_points.half_line import zeros
from meanfield.symbolic.fixed_points.maps import integrand
from meanfield.symbolic.fixed_points.points import DIGITS, FixedPoint, FixedPoints, fixed_points
from meanfield.symbolic.recursion import Recursion, StateVar
from meanfield.symbolic.steps import Step
from meanfield.symbols import K, Z


@lru_cache(maxsize=256)
def resting_points(square: sp.Expr, S: sp.Expr, c: sp.Expr, d: sp.Expr) -> FixedPoints:
    """Every q with S⟨φ²⟩_q + c = d·q, its stability and basin."""
    step = K + (S * square + c - d * K) / (1 + d)
    return fixed_points(Recursion((StateVar("K", K, sp.S.One),), Step((sp.expand(step),))), {})


def attractors(square: sp.Expr, S: sp.Expr, c: sp.Expr, d: sp.Expr) -> list[FixedPoint]:
    """Those q > 0 that attract, from below."""
    return [p for p in resting_points(square, S, c, d) if p.stability == "stable" and p.K.value != 0]


@lru_cache(maxsize=256)
def resting_ball(square: sp.Expr, S: sp.Expr, c: sp.Expr, d: sp.Expr, index: int, digits: int) -> arb:
    """The attractor number `index`, with that many digits."""
    with balls.precision(int(3.4 * digits) + 60):
        return _resting_ball(square, S, c, d, index, digits)


def _resting_ball(square: sp.Expr, S: sp.Expr, c: sp.Expr, d: sp.Expr, index: int, digits: int) -> arb:
    found = attractors(square, S, c, d)[index].K
    if found.error is None:
        return balls.certified(found.value, digits)
    near = arb(str(found.value.evalf(40)), str(sp.Float(found.error, 5)))
    if digits <= DIGITS - 5:
        return near
    step = sp.expand(S * square + c - d * K)
    for root in zeros(step, integrand(step), digits=digits + 5).roots:
        if near.overlaps(root.ball()):
            return root.ball()
    raise MeanFieldError("A variance at which a branch settles was not found again with more digits.")


@lru_cache(maxsize=128)
def is_monotone(square: sp.Expr) -> bool:
    """Whether ⟨φ²⟩_q/q is proved to rise or to fall throughout: then S⟨φ²⟩_q = d·q has at most one solution.

    Its slope in log q is ⟨z φ φ′ - φ²⟩/q, which changes sign no more often than the integrand does on z > 0.
    """
    if not isinstance(square, Average):
        return True
    slope = pieces(square.integrand, Z[0]).map(lambda e: Z[0] * sp.diff(e, Z[0]) / 2 - e)
    return len(signs(slope.expr) or (1, -1)) == 1
