"""Maps whose terms cancel as K → 0, written so that floats keep their digits.

⟨σ⁴⟩ − 3⟨σ²⟩² of tanh is −8K³: at K = 1e-8 two numbers of order K² leave half of a double's digits. So a map is taken
apart into its coefficients, functions of K alone, one for each product of other symbols. Where the terms of one
outweigh their sum, its series at 0 stands in its place up to a K below which the series is exact for a double; above,
cancellation costs no more digits than K has powers of ten there.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import mpmath as mp
import sympy as sp
from flint import arb, fmpq

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.budgets import tick
from meanfield.base.precision import decimals
from meanfield.base.symbols import K, Z
from meanfield.functions import balls
from meanfield.functions.piecewise import pieces
from meanfield.functions.series.ball_series import ball_series, coefficients
from meanfield.symbolic.averages.expansions.expansion import at_zero
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.correlator_laws.local_series import Expander, power_series
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.series.coefficients import ONE, ZERO, Atoms, Exact, of
from meanfield.symbolic.series.ring import any_logs, key
from meanfield.symbolic.series.truncated import Truncated, leading
from meanfield.symbolic.steps import Step

TERMS = 18  # powers of K to which averages are expanded
DIGITS = 60  # of the numbers in a series
BITS = 400  # of the balls they come from
NOTHING = mp.mpf(10) ** -40  # what is left of terms that cancel, in units of them
GOOD = 1e-14  # what the last term of a series may be of its first
WIDEST = sp.Rational(1, 8)  # no series is used beyond this K
ALLOWED = 1e-11  # what a series may miss certified values by, at the end of its range
HALVINGS = 16


def steadied(recursion: Recursion) -> tuple[Recursion, float]:
    """(the recursion with series in the place of what cancels as K → 0, their largest measured relative error).

    Only recursions that carry correlators of order 1/n need it: others hold no differences of averages.
    """
    known: dict[sp.Expr, tuple[sp.Expr, float]] = {}
    steps = []
    for step in recursion.steps:
        # an intermediate stays as it is: it is one average, or a sum of positive terms
        steps.append(Step(tuple(_map(e, known) for e in step.next), step.definitions))
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
    with decimals(DIGITS):
        near = NearZero()
        try:
            parts = [near(t) for t in terms]
        except (MeanFieldError, ValueError):  # no expansion in powers at 0 is known
            return whole, 0.0
        leads = [leading(p) for p in parts]
        total = led(near.calculus.plus(*parts), max(abs(size(c)) for _, c in leads))
        if not total.terms or leading(total)[0] <= min(first for first, _ in leads):
            return whole, 0.0
        return _joined(whole, total)


class NearZero(Expander):
    """Expressions in K and averages over it, as series in √K whose coefficients are digits, the first of them not 0.

    Raises: MeanFieldError where logarithms appear, or no expansion is known; ValueError where none of it is left.
    """

    def __init__(self) -> None:
        length = 4 * TERMS + 1
        super().__init__(Atoms(), _average, power_series([ONE, *[ZERO] * (length - 1)], 2), length)

    def constant(self, e: sp.Expr) -> Truncated:
        return self.number(_digits(mp.mpf(sp.N(e, DIGITS))))

    def finished(self, found: Truncated) -> Truncated:
        rounded = {k: _digits(size(c)) for k, c in found.terms.items()}
        return led(replace(found, terms=rounded), max(abs(size(c)) for c in rounded.values()))


def _digits(value: mp.mpf) -> Exact:
    """A number in digits as a coefficient: a whole number times a power of 2."""
    sign, whole, power, _ = value._mpf_
    return of(fmpq(-int(whole) if sign else int(whole)) * fmpq(2) ** power)


def size(c: Exact) -> mp.mpf:
    """A coefficient that is a number, in digits."""
    number = c.number
    assert number is not None
    return mp.mpf(int(number.p)) / int(number.q)


def led(series: Truncated, scale: mp.mpf) -> Truncated:
    """Without the coefficients at its front that are nothing in units of `scale`."""
    kept = dict(sorted(series.terms.items(), key=lambda t: t[0][0], reverse=True))
    for k, c in list(kept.items()):
        if abs(size(c)) > NOTHING * scale:
            break
        del kept[k]
    return replace(series, terms=kept)


@lru_cache(maxsize=256)
def _average(node: sp.Expr) -> Truncated:
    known = _by_balls(node)
    if known is not None:
        return known
    law = at_zero(node, TERMS)
    if any(t.logs != 0 or t.rate != 0 or not (2 * t.power).is_Integer for t in law.terms):
        raise MeanFieldError(f"{node} is no series in powers of K at 0.")
    end = 4 * TERMS if isinstance(law.remainder, str) else int(sp.ceiling(2 * law.remainder))
    held = {key(-int(2 * t.power)): _digits(mp.mpf(sp.N(t.coefficient, DIGITS))) for t in law.terms}
    if not held:
        raise ValueError("all of it is smaller than every power")
    return Truncated({k: c for k, c in held.items() if k[0] > -end}, any_logs(-end))


def _by_balls(node: sp.Expr) -> Truncated | None:
    """The series of an average over K of a function with Taylor series at both sides of 0, from their coefficients in
    balls: those of a derivative of fourth order would fill pages as exact numbers. None where `at_zero` is needed: for
    a polynomial, whose series ends, and where a piece is not smooth at 0."""
    if not isinstance(node, Average) or node.cov != (K,) or node.mean != (sp.S.Zero,) or node.free_symbols - {K}:
        return None
    sides = pieces(node.integrand, Z[0]).around_zero()
    count = 2 * TERMS + 1
    if all(s.is_polynomial(Z[0]) for s in sides):
        return None
    with balls.precision(BITS):
        found = [coefficients(ball_series(s), arb(0), count) for s in sides]
        left, right = found
        if left is None or right is None or not all(b.is_finite() for b in (*left, *right)):
            return None
        half = [_half_moment(k) for k in range(count)]
        exact = [(b + (-1) ** k * a) * m for k, (a, b, m) in enumerate(zip(left, right, half))]
        c = [mp.mpf(0) if b.contains(0) else mp.mpf(b.mid().str(DIGITS + 5, radius=False)) for b in exact]
    if not any(c):
        raise ValueError("all of it is smaller than every power")
    smooth = sides[0] == sides[1]  # then odd powers vanish, the first that is not known included
    return power_series([*map(_digits, c), *[ZERO] * smooth])


def _half_moment(k: int) -> arb:
    """⟨z^k over z > 0⟩ at K = 1."""
    return arb(2) ** (arb(k) / 2) * (arb(k + 1) / 2).gamma() / (2 * arb.pi().sqrt())


def _joined(whole: sp.Expr, total: Truncated) -> tuple[sp.Expr, float]:
    """The series up to the largest power of two at which it holds what it should, the sum beyond."""
    assert total.remainder is not None
    powers = [(-int(k[0].p), size(c)) for k, c in total.terms.items()]
    (first, front), (end_power, back) = powers[0], powers[-1]
    last, reach = end_power - first, float(WIDEST)
    if last and -total.remainder[0] < 3 * TERMS:  # more are known only where averages are polynomials, up to e^{-c/K}
        reach = min(reach, float((abs(front / back) * GOOD) ** (mp.mpf(2) / last)))
    end = sp.Rational(2) ** math.floor(math.log2(reach))
    written = _horner(powers)
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


def _horner(powers: list[tuple[int, mp.mpf]]) -> sp.Expr:
    """K^p (c_0 + x (c_1 + x (…))) with floats c, x powers of K, from powers of √K with their coefficients in order."""
    value, after = sp.S.Zero, powers[0][0]
    for i, c in reversed(powers):
        value = value * K ** sp.Rational(after - i, 2) + sp.Float(str(mp.nstr(c, 25)), 17)
        after = i
    return K ** sp.Rational(powers[0][0], 2) * value
