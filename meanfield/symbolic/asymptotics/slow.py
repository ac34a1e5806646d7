r"""K → K* > 0 where χ_K = 1: the maps as powers of δ = |K - K*|, and the side from which K comes.

K' - K = g_n (K - K*)ⁿ + …: an odd n with g_n < 0 attracts from both sides, an even n from one, and δ falls as
l^{-1/(n-1)} (`scaling`). Which order comes first is decided by exact zeros, so K* and the closed forms must be exact.
Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from meanfield.base.symbols import K, Z
from meanfield.functions import balls, zeros
from meanfield.symbolic.asymptotics.scaling import Coefficients
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoint, rational_of, rises_on
from meanfield.symbolic.fixed_points.certified_roots import enclose, exactly, from_ball
from meanfield.symbolic.fixed_points.marginality import order_of
from meanfield.symbolic.recursion import closed

EXPANDED = 300  # operations, beyond which products are not multiplied out
SIMPLE = 60  # operations up to which a number is kept exact
DIGITS = 25  # of a number that is not kept exact
LAYERS = 400  # that are followed to see on which side of K* an orbit stays


@dataclass(frozen=True)
class Slow:
    """δ' = δ + Σ gain[k] δ^k and χ_J = Σ chi[k] δ^k with δ = side·(K - K*); side 0: K starts at K* and stays."""

    side: int
    gain: Coefficients
    chi: Coefficients


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
    first = order_of(gain, star, 2 if point.chi_K == 1 and point.chi_K.error is None else 1)
    if side is None or first is None:
        return None
    powers = {k: side ** (k - 1) * c for k, c in taylor(gain, star, first, 2 * first).items()}
    near = {} if chi is None else {k: side**k * c for k, c in taylor(closed(chi), star, 0, first).items()}
    if not sp.N(powers[sp.Integer(first)], 20) < 0:
        return None  # K* repels on this side, so K does not come from there
    return Slow(side, powers, near)


def taylor(e: sp.Expr, star: sp.Expr, first: int, end: int) -> Coefficients:
    """The coefficients of (K - K*)^k, first ≤ k < end, those that are 0 left out."""
    out: Coefficients = {}
    e = sp.expand(e)
    nodes = {n: e.coeff(n) for n in e.atoms(Average) if n.cov == (K,) and n.has(K)}
    rest = sp.expand(e - sp.Add(*[c * n for n, c in nodes.items()]))
    if any(c.has(K) for c in nodes.values()) or rest.has(*nodes):
        nodes, rest = {}, e
    for k in range(first, end):
        parts = [c * derivative(n, k) for n, c in nodes.items()]
        value = _number(sp.Add(sp.diff(rest, K, k) / sp.factorial(k), *parts).subs(K, star))
        if value != 0:
            out[sp.Integer(k)] = value
    return out


def derivative(e: sp.Expr, k: int) -> sp.Expr:
    """d^k/dK^k over k!, of one average by ⟨∂^{2k}f⟩ = ⟨f He_{2k}(z/√K)⟩/K^k: no derivative of f is formed."""
    if not isinstance(e, Average) or k == 0:
        return sp.diff(e, K, k) / sp.factorial(k)
    x = sp.Dummy("x", positive=True)
    he = sp.Poly(sp.expand(2 ** -sp.Integer(k) * sp.hermite(2 * k, x / sp.sqrt(2))), x)
    terms = [c * K ** (-sp.Rational(i, 2) - k) * average(Z[0] ** i * e.integrand, K) for (i,), c in he.terms()]
    return sp.Add(*terms) / (2**k * sp.factorial(k))


def _number(e: sp.Expr) -> sp.Expr:
    """A number as it is where it is short, else in digits."""
    if not e.has(Average):
        e = sp.expand(e) if e.count_ops() <= EXPANDED else e
        if e.is_Rational:
            return e
        if balls.certified(e, 20).contains(0) and zeros.is_zero(e):
            return sp.S.Zero
        if e.count_ops() <= SIMPLE:
            return sp.simplify(e)
    return from_ball(balls.certified(e, DIGITS)).value


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
        if monotone or rises_on(slope, *((value - error, hi) if side > 0 else (lo, value + error))):
            return side
        ball = enclose(step, lo, hi, 25)
        if not ball.is_finite() or not ball > 0:
            return None
        lo, hi = exactly(ball.lower()), exactly(ball.upper())
    return None
