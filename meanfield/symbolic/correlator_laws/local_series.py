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
from meanfield.symbolic.series.difference import Calculus, DifferenceExpansion
from meanfield.symbolic.series.ring import UNIT, key


def power_series(coefficients: Iterable[Exact], first: int = 0) -> DifferenceExpansion:
    """Σ_i c_i y^{first + i}, known as far as there are coefficients."""
    held = {key(-i): c for i, c in enumerate(coefficients, first)}
    return DifferenceExpansion({k: c for k, c in held.items() if c}, fmpq(-first - len(held)))


class Expander:
    """Expressions as power series; `node` expands one average, `of_K` is the series of K itself, `length` the number
    of coefficients that constants are taken to have."""

    def __init__(
        self, atoms: Atoms, node: Callable[[sp.Expr], DifferenceExpansion], of_K: DifferenceExpansion, length: int
    ) -> None:
        self.atoms, self.node, self.of_K, self.length = atoms, node, of_K, length
        self.calculus = Calculus(atoms)
        self.known: dict[sp.Expr, DifferenceExpansion] = {}

    def __call__(self, e: sp.Expr) -> DifferenceExpansion:
        if e not in self.known:
            found = self._series(e)
            plain = {k: self._plain(c) for k, c in found.terms.items()}
            self.known[e] = self.calculus.made(plain, found.rest, ())
        return self.known[e]

    def _plain(self, c: Exact) -> Exact:
        """A number with the powers of roots in it worked out: (√2)² is 2."""
        held = {self.atoms.found[i] for monomial in c.terms for i, _ in monomial}
        if not any(a.is_Pow and a.is_number for a in held):
            return c
        return exact(self.atoms, sp.expand(self.atoms.expr(c)))

    def constant(self, c: Exact) -> DifferenceExpansion:
        """A number as a series."""
        return DifferenceExpansion({UNIT: c} if c else {}, fmpq(-self.length))

    def _series(self, e: sp.Expr) -> DifferenceExpansion:
        if e == K:
            return self.of_K
        if not e.has(K):
            return self.constant(self.number(e))
        if e.is_Mul or e.is_Add:
            found = self(e.args[0])
            for a in e.args[1:]:
                found = self.calculus.times(found, self(a)) if e.is_Mul else self.calculus.plus(found, self(a))
            return found
        if e.is_Pow and e.exp.is_Integer:
            base = self(e.base)
            if not base.terms:
                raise MeanFieldError(f"The expansion of {e} in K is not known far enough.")
            return self.calculus.power(base, int(e.exp))
        if isinstance(e, Average):
            return self.node(e)
        raise MeanFieldError(f"The expansion of {e} in K is not among the rules.")

    def number(self, e: sp.Expr) -> Exact:
        """A number or a polynomial in symbols as a coefficient."""
        return exact(self.atoms, e)


def exact(atoms: Atoms, e: sp.Expr) -> Exact:
    """A number as a sum of rationals times powers of atoms; of symbols, a polynomial in them."""
    symbols = sorted(e.free_symbols, key=str)
    if not symbols:
        total = ZERO
        for t in sp.Add.make_args(sp.expand(e)):
            total = total + atoms.product(t)
        return total
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

    def node(one: sp.Expr) -> DifferenceExpansion:
        law = at_zero(one, order)
        if any(t.logs != 0 or t.rate != 0 or not (2 * t.power).is_Integer for t in law.terms):
            raise MeanFieldError(f"{one} is no series in powers of sqrt(K) as K → 0.")
        end = 2 * order + 2 if isinstance(law.remainder, str) else int(sp.ceiling(2 * law.remainder))
        held = {key(-int(2 * t.power)): exact(atoms, change(t.coefficient)) for t in law.terms}
        return Calculus(atoms).made(held, fmpq(-end), ())

    length = 2 * order + 2
    return Expander(atoms, node, power_series([ONE, *[ZERO] * (length - 1)], 2), length)


def rounded(x: sp.Expr, digits: int) -> fmpq:
    """A number as a rational that agrees to `digits` decimals of its size."""
    value = sp.Float(x, digits)
    return rational(sp.Rational(value)) if value != 0 else fmpq(0)
