r"""Where K' - K touches 0 without a change of sign: a double zero, as at a half-stable critical point.

No sign tells a double zero from none, nor from a close pair. A zero of χ_K - 1 at which K' - K vanishes, proved by a
closed forms at an algebraic number, is one; so is, to the digits of the numbers given, one at which K' - K is 0 to more
digits than a double has. Source: derived here.
"""

from __future__ import annotations

import mpmath
import sympy as sp

from meanfield.base.precision import decimals
from meanfield.base.symbols import K
from meanfield.functions import balls, zeros
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.fixed_points.certified_roots import RootInterval, crossings, refine, sign_at, value_at
from meanfield.symbolic.fixed_points.half_line import HIGH, LOW, Zeros
from meanfield.symbolic.recursion import closed

DIGITS = 50
TOUCHES = 1e-20  # relative to K
OFFSET = sp.Rational(1, 1000)  # how far from the zero the signs beside it are taken, relative to K


def double_zeros(gain: sp.Expr, slope: sp.Expr, found: Zeros) -> tuple[RootInterval, ...]:
    """Where `gain` = K' - K touches 0 without a change of sign, as at a half-stable critical point: zeros of χ_K - 1 at
    which it is 0 to more digits than a double has. Looked for where Descartes' rule allows a pair that was not found.
    """
    if found.complete or found.most is None or len(found.roots) + 2 > found.most:
        return ()
    out = []
    low, high = found.low or LOW, HIGH if found.high == sp.oo else found.high  # a search in log K ends somewhere
    for bracket in crossings(slope - 1, low, high, None):
        root = refine(slope - 1, bracket, DIGITS)
        size = value_at(gain, root, DIGITS) / balls.constant(root.mid)
        if size.is_finite() and abs(size) < TOUCHES:
            below, above = (sign_at(gain, end) for end in (root.lo * (1 - OFFSET), root.hi * (1 + OFFSET)))
            if below == above != 0:
                out.append(RootInterval(root.lo, root.hi, _algebraic(gain, slope, root), above > 0, crosses=False))
    return tuple(out)


def _algebraic(gain: sp.Expr, slope: sp.Expr, root: RootInterval) -> sp.Expr | None:
    """The algebraic number of a low degree that lies in a root's interval, where `gain` and its derivative are proved
    to be 0 there: of a zero of `gain` alone no digits tell whether it is double or one of a close pair."""
    forms = closed(gain), closed(slope) - 1
    if any(form.has(Average) for form in forms):
        return None
    with decimals(DIGITS):
        near = mpmath.mpf(root.mid.p) / root.mid.q
        found = next((c for n in (1, 2) if (c := mpmath.findpoly(near, n, maxcoeff=1000, tol=10.0**-40))), None)
    if found is None:
        return None
    inside = [k for k in sp.roots(sp.Poly(found, K)) if k.is_real and root.lo < k and k < root.hi]
    return next((k for k in inside if all(zeros.is_zero(form.subs(K, k)) for form in forms)), None)
