r"""K → K* > 0 where χ_K = 1: the maps as powers of δ = |K - K*|, and the side from which K comes.

K' - K = g_n (K - K*)ⁿ + …: an odd n with g_n < 0 attracts from both sides, an even n from one, and δ falls as l^{-1/(n-1)}
(`scaling`). Which order comes first is decided by exact zeros, so K* and the closed forms must be exact. Source:
derived here.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from meanfield import balls
from meanfield.functions import zeros
from meanfield.results import MeanFieldError
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.asymptotics.scaling import Powers
from meanfield.symbolic.fixed_points.points import FixedPoint, rational_of
from meanfield.symbolic.fixed_points.roots import enclose, exactly, from_ball
from meanfield.symbolic.recursion import closed
from meanfield.symbols import K

HIGHEST = 12  # order n of the first power that is looked for
SIMPLE = 60  # operations up to which a number is kept exact
LAYERS = 400  # that are followed to see on which side of K* an orbit stays
PARTS = 200  # of the way to K* on which the slope of the map is enclosed


@dataclass(frozen=True)
class Slow:
    """δ' = δ + Σ gain[k] δ^k and χ_J = Σ chi[k] δ^k with δ = side·(K - K*); side 0: K starts at K* and stays."""

    side: int
    gain: Powers
    chi: Powers


def slow_approach(
    step: sp.Expr, chi: sp.Expr | None, point: FixedPoint, start: sp.Expr, monotone: bool
) -> Slow | None:
    """The maps near a K* > 0 with χ_K = 1 to the orders that decide the law; None where they are not exact or K's side
    is not decided. chi: χ_J as a function of K, None where it is not wanted."""
    star = point.K.value
    if point.K.error is not None:
        return None
    if zeros.is_zero(start - star):
        return Slow(0, {}, {})
    gain = closed(step - K)
    if gain.has(Average):
        return None
    side = side_of(step, point, start, monotone)
    first = order_of(gain, star)
    if side is None or first is None:
        return None
    powers = {k: side ** (k - 1) * c for k, c in taylor(gain, star, first, 2 * first).items()}
    near = {} if chi is None else {k: side**k * c for k, c in taylor(closed(chi), star, 0, first).items()}
    if not sp.N(powers[sp.Integer(first)], 20) < 0:
        return None  # K* repels on this side, so K does not come from there
    return Slow(side, powers, near)


def order_of(gain: sp.Expr, star: sp.Expr) -> int | None:
    """The n of the first derivative of K' - K at K* that is not 0; None where that is not decided."""
    for n in range(1, HIGHEST + 1):
        gain = sp.diff(gain, K)
        value = gain.subs(K, star)
        if not balls.certified(value, 20).contains(0):
            return n
        if not zeros.is_zero(value):
            return None
    return None


def taylor(e: sp.Expr, star: sp.Expr, first: int, end: int) -> Powers:
    """The coefficients of (K - K*)^k, first ≤ k < end, those that are 0 left out."""
    out: Powers = {}
    e = sp.diff(e, K, first)
    for k in range(first, end):
        value = _number(e.subs(K, star) / sp.factorial(k))
        if value != 0:
            out[sp.Integer(k)] = value
        e = sp.diff(e, K)
    return out


def _number(e: sp.Expr) -> sp.Expr:
    """A number as it is where it is short, else in digits."""
    if not e.has(Average):
        e = sp.expand(e)
        if e.is_Rational:
            return e
        if balls.certified(e, 20).contains(0) and zeros.is_zero(e):
            return sp.S.Zero
        if e.count_ops() <= SIMPLE:
            return sp.simplify(e)
    return from_ball(balls.certified(e, 30)).value


def side_of(step: sp.Expr, point: FixedPoint, start: sp.Expr, monotone: bool) -> int | None:
    """Whether K stays above K* (1) or below (-1) from some layer on; None where that is not decided.

    A map that increases between K and K* keeps the side: where that is not known everywhere, the orbit is followed to a
    layer from which on it is.
    """
    value, error = rational_of(point.K)
    slope = sp.diff(step, K)
    lo = hi = sp.sympify(start)
    for _ in range(LAYERS):
        side = 1 if lo > value + error else -1 if hi < value - error else 0
        if not side:
            return None
        if monotone or _increases(slope, *((value - error, hi) if side > 0 else (lo, value + error))):
            return side
        ball = enclose(step, lo, hi, 25)
        if not ball.is_finite() or not ball > 0:
            return None
        lo, hi = exactly(ball.lower()), exactly(ball.upper())
    return None


def _increases(slope: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> bool:
    """Whether the slope of a map is enclosed above 0 on [lo, hi]."""
    work, parts = [(lo, hi)], PARTS
    try:
        while work:
            a, b = work.pop()
            parts -= 1
            if enclose(slope, a, b, 12) > 0:
                continue
            if parts < 0 or enclose(slope, a, a, 12) < 0:
                return False
            middle = (sp.Rational(a) + sp.Rational(b)) / 2 if b.is_Rational and a.is_Rational else sp.Rational((a + b) / 2)
            work += [(a, middle), (middle, b)]
    except (MeanFieldError, TypeError):
        return False
    return True
