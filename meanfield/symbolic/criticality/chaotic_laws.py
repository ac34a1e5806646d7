r"""The large-depth laws of c, γ and the distance of two inputs where c settles at a c* < 1, in the chaotic phase.

Beside (c*, K*) one layer is linear, so that they come there exponentially: by the slope of the map of c, or by what K
does. Source: derived here.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Status, Term
from meanfield.base.symbols import K, K_ab, l
from meanfield.symbolic.asymptotics.depth import CONSTANT, DepthLaw
from meanfield.symbolic.averages.node import independent
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoint, rational_of
from meanfield.symbolic.fixed_points.certified_roots import enclose
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbolic.series.asymptotic_law import Law

OTHER_CONSTANT = sp.Symbol("C_1", real=True)  # where the start decides two numbers
MOST_ORDER = 8  # derivatives of ⟨φ⟩² that are looked at for one that is not 0
TIED = 1e-10  # sizes of slopes, which are averages in float64, that are not told apart


def inside_law(
    recursion: Recursion, quantity: str, star: FixedPoint, found: Any, odd: bool = False, rests: bool = False
) -> DepthLaw:
    """c settles at c* < 1: as fast as the slower of the correlation and, where it still moves, of K → star.

    Beside (c*, K*) one layer is δc′ = slope·δc + b·δK, δK′ = χ_K·δK, where χ_K may be negative: δc = C slope^l +
    C₁ χ_K^l unless the two are equal. At c* = 0 the first power of δK that moves c may be a higher one (`_moved_by`).
    rests: whether K starts at K* and stays.
    """
    point = found.stable
    if point is None:
        raise MeanFieldError(f"The limit of c is not known here: {found.message}.")
    if point.gap == 0:
        raise MeanFieldError("The fixed point of c cannot be told from 1: the place is critical to rounding.")
    regime, leading = f"c* = {point.text(12)} in the chaotic phase", [(CONSTANT, point.slope)]
    gap = sp.Rational(point.gap)
    digits = 15 + max(0, int(-sp.log(gap, 10)) if gap < sp.Rational(1, 1000) else 0)  # those of 1 - c*
    end = sp.Integer(0) if point.c == 0 else sp.Float(point.c, 15) if digits == 15 else sp.Float(1 - gap, digits)
    if quantity == "gamma" and end != 0:
        end = sp.Float((1 - gap) / gap, 15)
    if quantity == "distance":
        end = sp.Float(2 * float(star.K.value) * gap, 15)
    moves = recursion["K"].has(K) and not rests
    if moves and not star.is_exponential:
        why = "chi_K = 1" if star.is_exponential is False else "whether chi_K is 1 is not decided"
        if end == 0 and not odd:
            raise MeanFieldError(f"c falls to 0 as a power of K - K* does, but {why}; its law is not derived.")
        terms, left = ((Term(end),), "smaller") if end != 0 else ((), "exponential")
        own_name = quantity if quantity == "distance" else "c"
        regime += f"; {why}, and {own_name if end != 0 else 'its rate'} converges no faster than K"
        status = Status.MEASURED if star.is_exponential is False else Status.UNKNOWN
        return DepthLaw(l, sp.oo, terms, left, quantity=quantity, regime=regime, status=status)
    order = int(moves)
    if moves and point.c == 0 and quantity != "distance":
        order = 0 if odd else _moved_by(recursion, star)
    if order:
        own = float(star.chi_K.value) ** order
        apart = abs(own) - abs(point.slope)
        close = abs(apart) <= TIED + float(star.chi_K.error or 0)
        name = "chi_K" if order == 1 else f"chi_K^{order}"
        if close and own * point.slope > 0:
            raise MeanFieldError(
                f"c and K converge equally fast here, to rounding (slope of c {point.slope:.12g}, {name} {own:.12g}), "
                "and where the two are equal c - c* has a factor l; that is not decided: move sigma_w or sigma_b."
            )
        if close:
            leading.append((OTHER_CONSTANT, own))
            regime = f"{regime}: K converges as fast as c, to rounding"
        elif apart > 0 and abs(own) < 1:  # beyond 1 K repels, and is there only if it started there
            what = "K converges" if order == 1 else f"(K - K*)^{order} falls"
            leading, regime = [(CONSTANT, own)], f"{regime}: {what} more slowly than c"
    if any(not abs(multiplier) > 1e-14 for _, multiplier in leading):
        raise MeanFieldError(f"c falls to c* = {point.c:.12g} faster than exponentially: the map is flat there.")
    rest = Law(l, sp.oo, _falling(leading), "smaller")
    if any(multiplier < 0 for _, multiplier in leading):
        regime += ", from alternate sides"
    law = rest + end
    own_terms = law.variable, law.point, law.terms, law.remainder, law.remainder_logs
    return DepthLaw(*own_terms, quantity, regime, Status.MEASURED)


def _moved_by(recursion: Recursion, star: FixedPoint) -> int:
    """The first power of K - K* that moves c at c* = 0; 0 where none does.

    Inputs of correlation 0 have K_ab′ = σ_w²⟨φ⟩_K² + σ_b², which is 0 at K* only: a square, whose first derivative is
    0 there, too.
    """
    moved = recursion["K_ab"].subs(K_ab, 0)
    moved = sp.expand(independent(moved))
    if moved == 0 or closed(moved) == 0:
        return 0
    value, error = rational_of(star.K)
    for order in range(1, MOST_ORDER + 1):
        moved = sp.diff(moved, K)
        if not enclose(moved, value - error, value + error, 30).contains(0):
            return order
    raise MeanFieldError("Which power of K - K* moves c at c* = 0 is not decided, nor is the law of c.")


def _falling(parts: list[tuple[sp.Symbol, float]]) -> tuple[Term, ...]:
    """Σ constant·multiplier^l as one term: the multipliers are of one size, and may differ in sign."""
    rate = sp.Float(float(sp.log(abs(parts[0][1]))), 15)
    coefficient = sp.Add(*[c * (sp.S.NegativeOne**l if multiplier < 0 else 1) for c, multiplier in parts])
    return (Term(coefficient, rate=rate),)
