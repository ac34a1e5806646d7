"""Maps whose terms cancel as K → 0, written so that floats keep their digits.

⟨σ⁴⟩ − 3⟨σ²⟩² of tanh is −8K³: at K = 1e-8 two numbers of order K² leave half of a double's digits. So a map is taken
apart into its coefficients, functions of K alone, one for each product of other symbols. Where the terms of one
outweigh their sum, its series at 0 stands in its place up to a K below which the series is exact for a double; above,
cancellation costs no more digits than K has powers of ten there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

import mpmath as mp
import sympy as sp
from flint import arb

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.budgets import tick
from meanfield.base.quantities import QUANTITIES
from meanfield.base.symbols import K, Z
from meanfield.functions import balls
from meanfield.functions.piecewise import pieces
from meanfield.functions.series.ball_series import ball_series, coefficients
from meanfield.symbolic.averages.expansions.expansion import at_zero
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.series.expression_series import ExpressionSeries
from meanfield.symbolic.steps import Step

TERMS = 18  # powers of K to which averages are expanded
DIGITS = 60  # of the numbers in a series
BITS = 400  # of the balls they come from
NOTHING = mp.mpf(10) ** -40  # what is left of terms that cancel, in units of them
GOOD = 1e-14  # what the last term of a series may be of its first
WIDEST = sp.Rational(1, 8)  # no series is used beyond this K
ALLOWED = 1e-11  # what a series may miss certified values by, at the end of its range
HALVINGS = 16


@dataclass(frozen=True)
class Series:
    """Σ_i c_i K^{(first + i)/2}, as many coefficients as are known."""

    first: int
    c: tuple

    @property
    def end(self) -> int:
        return self.first + len(self.c)

    def __add__(self, other: Series) -> Series:
        first, end = min(self.first, other.first), min(self.end, other.end)
        return Series(first, tuple(self.at(i) + other.at(i) for i in range(first, end)))

    def __mul__(self, other: Series) -> Series:
        known = min(len(self.c), len(other.c))
        products = (mp.fsum(self.c[j] * other.c[i - j] for j in range(i + 1)) for i in range(known))
        return Series(self.first + other.first, tuple(products))

    def inverse(self) -> Series:
        c: list = []
        for i in range(len(self.c)):
            known = mp.fsum(self.c[i - j] * c[j] for j in range(i))
            c.append(((1 if i == 0 else 0) - known) / self.c[0])
        return Series(-self.first, tuple(c))

    def at(self, i: int):
        return self.c[i - self.first] if self.first <= i < self.end else mp.mpf(0)

    def led(self, scale) -> Series:
        """Without the coefficients at its front that are nothing in units of `scale`."""
        skip = next((i for i, c in enumerate(self.c) if abs(c) > NOTHING * scale), len(self.c))
        return Series(self.first + skip, self.c[skip:])


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
    with mp.workdps(DIGITS):
        try:
            near = _NearZero()
            parts = [near(t) for t in terms]
        except (MeanFieldError, ValueError):  # no expansion in powers at 0 is known
            return whole, 0.0
        scale = max(abs(p.c[0]) for p in parts)
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        total = total.led(scale)
        if not total.c or total.first <= min(p.first for p in parts):
            return whole, 0.0
        return _joined(whole, total)


class _NearZero(ExpressionSeries[Series]):
    """Expressions in K and averages over it, as series at K = 0, their first coefficients not 0.

    Raises: MeanFieldError where logarithms appear, or no expansion is known; ValueError where none of it is left.
    """

    def constant(self, e: sp.Expr) -> Series:
        return _number(mp.mpf(sp.N(e, DIGITS)), 0)

    def part(self, e: sp.Expr) -> Series:
        return _number(mp.mpf(1), 2) if e == K else _average(e)

    def plus(self, a: Series, b: Series) -> Series:
        return a + b

    def times(self, a: Series, b: Series) -> Series:
        return a * b

    def power(self, base: Series, n: sp.Expr) -> Series:
        if not n.is_Integer:
            raise MeanFieldError(f"The power {n} of a series in K is not among the rules.")
        return reduce(self.times, [base if n > 0 else base.inverse()] * abs(int(n)))

    def finished(self, found: Series) -> Series:
        return found.led(max(map(abs, found.c)))


def _number(value, power: int) -> Series:
    return Series(power, (value, *[mp.mpf(0)] * (4 * TERMS)))


@lru_cache(maxsize=256)
def _average(node: sp.Expr) -> Series:
    known = _by_balls(node)
    if known is not None:
        return known
    law = at_zero(node, TERMS)
    if any(t.logs != 0 or t.rate != 0 or not (2 * t.power).is_Integer for t in law.terms):
        raise MeanFieldError(f"{node} is no series in powers of K at 0.")
    end = 4 * TERMS if isinstance(law.remainder, str) else int(sp.ceiling(2 * law.remainder))
    held = {int(2 * t.power): mp.mpf(sp.N(t.coefficient, DIGITS)) for t in law.terms}
    first = min(held)  # ValueError where all of it is smaller than every power
    return Series(first, tuple(held.get(i, mp.mpf(0)) for i in range(first, end)))


def _by_balls(node: sp.Expr) -> Series | None:
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
    first = next((k for k, one in enumerate(c) if one), None)
    if first is None:
        raise ValueError("all of it is smaller than every power")
    smooth = sides[0] == sides[1]  # then odd powers vanish, the first that is not known included
    return Series(first, tuple(c[first:] + [mp.mpf(0)] * smooth))


def _half_moment(k: int) -> arb:
    """⟨z^k over z > 0⟩ at K = 1."""
    return arb(2) ** (arb(k) / 2) * (arb(k + 1) / 2).gamma() / (2 * arb.pi().sqrt())


def _joined(whole: sp.Expr, total: Series) -> tuple[sp.Expr, float]:
    """The series up to the largest power of two at which it holds what it should, the sum beyond."""
    last = max(i for i, c in enumerate(total.c) if c)
    reach = float(WIDEST)
    if last and total.end < 3 * TERMS:  # more are known only where the averages are polynomials, up to e^{-c/K}
        reach = min(reach, float((abs(total.c[0] / total.c[last]) * GOOD) ** (mp.mpf(2) / last)))
    end = sp.Rational(2) ** math.floor(math.log2(reach))
    written = _horner(total)
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


def _horner(total: Series) -> sp.Expr:
    """K^p (c_0 + x (c_1 + x (…))) with floats c, x powers of K."""
    value, after = sp.S.Zero, 0
    for i, c in reversed([(i, c) for i, c in enumerate(total.c) if c]):
        value = value * K ** sp.Rational(after - i, 2) + sp.Float(str(mp.nstr(c, 25)), 17)
        after = i
    return K ** sp.Rational(total.first, 2) * value
