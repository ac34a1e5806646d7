"""Maps whose terms cancel as K → 0, written so that floats keep their digits.

⟨σ⁴⟩ − 3⟨σ²⟩² of tanh is −8K³: at K = 1e-8 two numbers of order K² leave half of a double's digits. So a map is taken
apart into its coefficients, functions of K alone, one for each product of other symbols. Where the terms of one
outweigh their sum, its series at 0 stands in its place up to a K below which the series is exact for a double; above,
cancellation costs no more digits than K has powers of ten there.
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from meanfield import balls
from meanfield.limits import tick
from meanfield.quantities import QUANTITIES
from meanfield.results import Law, MeanFieldError
from meanfield.symbolic.averages.expansion import at_zero
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.steps import Step
from meanfield.symbols import K

TERMS = 14  # of a series, beyond its leading power
GOOD = 1e-14  # what the last term of a series may be of its first
WIDEST = sp.Rational(1, 8)  # no series is used beyond this K
ALLOWED = 1e-11  # what a series may miss certified values by, at the end of its range
HALVINGS = 16


def steadied(recursion: Recursion) -> tuple[Recursion, float]:
    """(the recursion with series in the place of what cancels as K → 0, their largest measured relative error).

    Only recursions that carry correlators of order 1/n are looked at: others hold no differences of averages.
    """
    if not any(v.name in QUANTITIES and QUANTITIES[v.name].order for v in recursion.state):
        return recursion, 0.0
    known: dict[sp.Expr, tuple[sp.Expr, float]] = {}
    steps = []
    for step in recursion.steps:
        # an intermediate stays as it is: it is one average, or a sum of positive terms
        steps.append(Step(tuple(_map(e, known) for e in step.next), step.lets))
    worst = max((error for _, error in known.values()), default=0.0)
    return replace(recursion, head=tuple(steps[:-1]), block=steps[-1]), worst


def _map(e: sp.Expr, known: dict[sp.Expr, tuple[sp.Expr, float]]) -> sp.Expr:
    parts: dict[sp.Expr, list[sp.Expr]] = {}
    for term in sp.Add.make_args(sp.expand(e)):
        rest, of_K = term.as_independent(K, Average, as_Add=False)
        number, symbols = rest.as_coeff_Mul()
        parts.setdefault(symbols, []).append(number * of_K)
    total = []
    for symbols, terms in parts.items():
        whole = sp.Add(*terms)
        if len(terms) > 1 and all(n.cov == (K,) and not n.free_symbols - {K} for n in whole.atoms(Average)):
            if whole not in known:
                tick()
                known[whole] = _function(whole, terms)
            whole = known[whole][0]
        total.append(symbols * whole)
    return sp.Add(*total)


def _function(whole: sp.Expr, terms: list[sp.Expr]) -> tuple[sp.Expr, float]:
    """(a sum of terms as floats should compute it, the measured error of its series)."""
    try:
        largest = min(_lead(t) for t in terms)
        series = at_zero(whole, TERMS)
        if not series.terms:
            return whole, 0.0
        if series.leading.power > 2:  # as many terms beyond it as there are of others
            series = at_zero(whole, TERMS + int(sp.ceiling(series.leading.power)))
    except (MeanFieldError, ValueError):  # no expansion at 0 is known
        return whole, 0.0
    cancels = series.leading.power > largest
    if not cancels or any(t.logs != 0 or t.rate != 0 or not (2 * t.power).is_Integer for t in series.terms):
        return whole, 0.0
    written = _horner(series)
    if series.remainder == "zero":  # φ is a polynomial, or scale-invariant
        return written, 0.0
    return _joined(whole, series, written)


def _lead(term: sp.Expr) -> sp.Expr:
    """The leading power of K in one term."""
    few = at_zero(term, 3)
    return (few if few.terms else at_zero(term, TERMS)).leading.power


def _joined(whole: sp.Expr, series: Law, written: sp.Expr) -> tuple[sp.Expr, float]:
    """The series up to the largest power of two at which it holds what it should, the sum beyond."""
    first, last = series.terms[0], series.terms[-1]
    reach = WIDEST
    if last.power > first.power:
        ratio = abs(sp.N(first.coefficient / last.coefficient, 15)) * GOOD
        reach = sp.Min(reach, ratio ** (1 / (last.power - first.power)))
    end = sp.Rational(2) ** int(sp.floor(sp.log(reach, 2)))
    for _ in range(HALVINGS):
        error = max(_miss(whole, written, at) for at in (end, end * sp.Rational(5, 7)))
        if error < ALLOWED:
            return sp.Piecewise((written, sp.Lt(K, sp.Float(end))), (whole, True)), error
        end /= 2
    return whole, 0.0


def _miss(whole: sp.Expr, written: sp.Expr, at: sp.Rational) -> float:
    ball = balls.certified(whole.subs(K, at), 18)
    if not ball.is_finite() or ball.is_zero():
        return float("inf")
    return abs(float((ball - float(written.subs(K, sp.Float(at, 17)))) / ball.mid()))


def _horner(series: Law) -> sp.Expr:
    """K^p (c_0 + x (c_1 + x (…))) with floats c, x = K or √K."""
    first = series.terms[0].power
    total, at = sp.S.Zero, series.terms[-1].power
    for t in reversed(series.terms):
        total = total * K ** (at - t.power) + sp.Float(sp.N(t.coefficient, 25), 17)
        at = t.power
    return K**first * total
