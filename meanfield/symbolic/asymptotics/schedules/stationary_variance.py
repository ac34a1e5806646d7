"""Where the variance of a branch settles in log l: dq/d log l = S⟨φ²⟩_q + c - d·q.

K → K + (that)/(1 + d) has the same zeros and never overshoots, so the fixed points of the engine, with their
certificates, answer it.
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp
from flint import arb

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, Z
from meanfield.functions import balls
from meanfield.functions.derivatives import derivative
from meanfield.functions.piecewise import pieces
from meanfield.functions.signs import signs
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.fixed_points.all_fixed_points import DIGITS, FixedPoint, FixedPoints, fixed_points
from meanfield.symbolic.fixed_points.half_line import zeros
from meanfield.symbolic.fixed_points.variance_map import integrand
from meanfield.symbolic.recursion import Recursion, StateVar
from meanfield.symbolic.steps import Step


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
    every = attractors(square, S, c, d)
    if index >= len(every):
        raise MeanFieldError(
            f"The fixed point number {index + 1} of q is not available: at these numbers there are {len(every)}; "
            "phase_table(...).at(...) with numbers for all σ's says where q goes."
        )
    found = every[index].K
    if found.error is None:
        return balls.certified(found.value, digits)
    near = arb(str(found.value.evalf(40)), str(sp.Float(found.error, 5)))
    if digits <= DIGITS - 5:
        return near
    step = sp.expand(S * square + c - d * K)
    for root in zeros(step, integrand(step), digits=digits + 5).roots:
        if near.overlaps(root.ball()):
            return root.ball()
    raise MeanFieldError("The limit of a branch's variance was not found again with more digits.")


@lru_cache(maxsize=128)
def is_monotone(square: sp.Expr) -> bool:
    """Whether ⟨φ²⟩_q/q is proved to rise or to fall throughout: then S⟨φ²⟩_q = d·q has at most one solution.

    Its slope in log q is ⟨z φ φ′ - φ²⟩/q, which changes sign no more often than the integrand does on z > 0; of waves
    ⟨φ²⟩_q is a sum of exponentials, whose slope has one sign if derivatives say so.
    """
    if not isinstance(square, Average):
        return True
    slope = pieces(square.integrand, Z[0]).map(lambda e: Z[0] * derivative(e, Z[0]) / 2 - e)
    if len(signs(slope.expr) or (1, -1)) == 1:
        return True
    closed = square.doit()
    return not closed.has(Average) and sign_of_exponentials(K * sp.diff(closed, K) - closed) != 0


def sign_of_exponentials(e: sp.Expr, steps: int = 12) -> int:
    """The proved sign on K > 0 of Σ P_i(K) e^{-a_i K} with rational numbers; 0 where none is proved.

    A function that is ≥ 0 at 0 and rises is > 0: after division by its first exponential, whose polynomial loses a
    degree with every derivative, its sign is that of its slope, down to one polynomial.
    """
    terms: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(sp.powsimp(sp.expand(e))):
        front, power = term.as_independent(sp.exp)
        rate = sp.diff(sp.log(power), K) if power != 1 else sp.S.Zero
        rate = sp.simplify(rate)
        if not (rate.is_Rational and front.is_polynomial(K) and sp.simplify(power - sp.exp(rate * K)) == 0):
            return 0
        terms[rate] = terms.get(rate, sp.S.Zero) + front
    kept = {r: sp.Poly(sp.expand(f), K) for r, f in terms.items() if sp.expand(f) != 0}
    if not kept or not all(c.is_Rational for f in kept.values() for c in f.coeffs()):
        return 0
    found = {int(sp.sign(c)) for f in kept.values() for c in f.coeffs()}
    if len(found) == 1:
        return found.pop()
    if steps == 0:
        return 0
    first = max(kept)
    over = sp.Add(*[f.as_expr() * sp.exp((r - first) * K) for r, f in kept.items()])
    start, slope = sp.sign(over.subs(K, 0)), sign_of_exponentials(sp.diff(over, K), steps - 1)
    return slope if start in (0, slope) else 0
