r"""Expressions in K and in averages over K as power series with exact coefficients, at K = 0 and at a fixed K*.

y = √K or y = K − K* is 1/l of the ring: a series is Σ c_i l^{-i}, down to where it is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K
from meanfield.symbolic.averages.expansions.expansion import at_zero
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.series.coefficients import ONE, ZERO, Atoms, Exact, rational
from meanfield.symbolic.series.expression_series import ExpressionSeries, no_rule
from meanfield.symbolic.series.ring import ORDER_ONE, any_logs, key
from meanfield.symbolic.series.truncated import Calculus, Truncated


def power_series(coefficients: Iterable[Exact], first: int = 0) -> Truncated:
    """Σ_i c_i y^{first + i}, known as far as there are coefficients."""
    held = {key(-i): c for i, c in enumerate(coefficients, first)}
    return Truncated({k: c for k, c in held.items() if c}, any_logs(-first - len(held)))


class Expander(ExpressionSeries[Truncated]):
    """Expressions as power series; `node` expands one average, `of_K` is the series of K itself, `length` the number
    of coefficients that constants are taken to have."""

    def __init__(
        self, atoms: Atoms, node: Callable[[sp.Expr], Truncated], of_K: Truncated, length: int
    ) -> None:
        super().__init__()
        self.atoms, self.node, self.length = atoms, node, length
        self.calculus = Calculus(atoms)
        self.known[K] = of_K

    def finished(self, found: Truncated) -> Truncated:
        return self.calculus.made({k: self._plain(c) for k, c in found.terms.items()}, found.remainder, ())

    def _plain(self, c: Exact) -> Exact:
        """A number with the powers of roots in it worked out, (√2)² is 2, and over a sum in lowest terms."""
        held = {self.atoms.found[i] for monomial in c.terms for i, _ in monomial}
        if not any(a.is_Pow and a.is_number for a in held):
            return c
        e = self.atoms.expr(c)
        if sp.fraction(sp.together(e))[1].has(sp.Add) and not e.free_symbols:
            return self.atoms.product(in_lowest_terms(e))
        return exact(self.atoms, sp.expand(e))

    def number(self, c: Exact) -> Truncated:
        """A number as a series."""
        return Truncated({ORDER_ONE: c} if c else {}, any_logs(-self.length))

    def constant(self, e: sp.Expr) -> Truncated:
        return self.number(exact(self.atoms, e))

    def plus(self, a: Truncated, b: Truncated) -> Truncated:
        return self.calculus.plus(a, b)

    def times(self, a: Truncated, b: Truncated) -> Truncated:
        return self.calculus.times(a, b)

    def power(self, base: Truncated, n: sp.Expr) -> Truncated:
        if not n.is_Integer:
            raise MeanFieldError(f"The power {n} of a series in K is not among the rules.")
        if not base.terms:
            raise MeanFieldError("The expansion in K of what is raised to a power is not known far enough.")
        return self.calculus.power(base, int(n))

    def part(self, e: sp.Expr) -> Truncated:
        if not isinstance(e, Average):
            raise MeanFieldError(no_rule(e))
        return self.node(e)


def in_lowest_terms(e: sp.Expr) -> sp.Expr:
    """A number made of roots as one fraction, numerator and denominator as factors: √π and π are powers of one name."""
    roots = {(a.base, a.exp.q): sp.Dummy(positive=True) for a in e.atoms(sp.Pow) if not a.exp.is_Integer}
    named = e.xreplace({b ** sp.Rational(k, q): d**k for (b, q), d in roots.items() for k in range(-8, 9) if k % q})
    named = named.xreplace({b: d**q for (b, q), d in roots.items() if not b.is_Rational})
    whole = sp.factor(named)
    return whole.xreplace({d: b ** sp.Rational(1, q) for (b, q), d in roots.items()})


def exact(atoms: Atoms, e: sp.Expr) -> Exact:
    """A number as a sum of rationals times powers of atoms; of symbols, a polynomial in them."""
    symbols = sorted(e.free_symbols, key=str)
    if not symbols:
        return atoms.total(e)
    if not e.is_polynomial(*symbols):
        return atoms.product(e)
    total = ZERO
    for powers, c in sp.Poly(e, *symbols).terms():
        part = exact(atoms, c)
        for s, n in zip(symbols, powers):
            for _ in range(n):
                part = part * atoms.of(s)
        total = total + part
    return total


def near_zero(atoms: Atoms, order: int, change: Callable[[sp.Expr], sp.Expr] = sp.expand) -> Expander:
    """Series in y = √K, each average known to K^order; change: what is done to a coefficient first."""

    def node(one: sp.Expr) -> Truncated:
        law = at_zero(one, order)
        if any(t.logs != 0 or t.rate != 0 or not (2 * t.power).is_Integer for t in law.terms):
            raise MeanFieldError(f"{one} is no series in powers of sqrt(K) as K → 0.")
        end = 2 * order + 2 if isinstance(law.remainder, str) else int(sp.ceiling(2 * law.remainder))
        held = {key(-int(2 * t.power)): exact(atoms, change(t.coefficient)) for t in law.terms}
        return Calculus(atoms).made(held, any_logs(-end), ())

    length = 2 * order + 2
    return Expander(atoms, node, power_series([ONE, *[ZERO] * (length - 1)], 2), length)


def rounded(x: sp.Expr, digits: int) -> fmpq:
    """A number as a rational that agrees to `digits` decimals of its size."""
    value = sp.Float(x, digits)
    return rational(sp.Rational(value)) if value != 0 else fmpq(0)
