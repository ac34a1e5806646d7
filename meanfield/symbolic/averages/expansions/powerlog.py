r"""Sums of c·K^p (log K)^m at K = 0 or ∞ with an honest remainder, as truncated series: no term ever outlives the
remainder of the sum it is in.

1/K, or K at ∞, is l of the ring. A remainder is (r, m): what is left out is O(K^r |log K|^m). Besides it, terms smaller
than every power may have been left out (`small`). `Law` is what a sum prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError, Term
from meanfield.base.leading import Registry
from meanfield.base.symbols import K
from meanfield.functions import balls
from meanfield.functions.series.taylor import taylor
from meanfield.symbolic.series import ring
from meanfield.symbolic.series.asymptotic_law import Law
from meanfield.symbolic.series.coefficients import ZERO, Atoms, Exact, rational
from meanfield.symbolic.series.exponents import Basis
from meanfield.symbolic.series.expression_series import ExpressionSeries, no_rule
from meanfield.symbolic.series.ring import ORDER_ONE, Series
from meanfield.symbolic.series.truncated import Calculus, Truncated

Key = tuple[sp.Expr, int]  # (p, m) of K^p (log K)^m
DEEP = fmpq(10**6)  # powers of K of an exact sum: all of them


class Sums(ExpressionSeries[Truncated]):
    """Sums of expressions in K and in averages over K as K → 0 (end = 1) or K → ∞ (end = -1).

    reach: how many powers of K an infinite series goes beyond its leading term. A factor e^{-c/K} is smaller than every
    power as K → 0 and a series in 1/K as K → ∞.
    """

    def __init__(self, end: int, reach: sp.Expr = sp.S.Zero) -> None:
        super().__init__()
        self.end, self.reach = end, rational(reach)
        self.atoms, self.basis = Atoms(), Basis()
        self.calculus = Calculus(self.atoms, is_zero=self._vanishes, basis=self.basis, deep=DEEP, most=int(DEEP))

    # ------------------------------------------------------------------------------------------ into and out of series

    def of(self, terms: Mapping[Key, sp.Expr], remainder: Key | None = None, small: bool = False) -> Truncated:
        """Σ terms[p, m] K^p (log K)^m + O(K^r |log K|^n), rest = (r, n), without the terms that this covers."""
        held: Series = {}
        for key, c in terms.items():
            k = self._key(key)
            held[k] = held.get(k, ZERO) + self.atoms.total(c * (-self.end) ** int(key[1]))
        return self.calculus.made(held, None if remainder is None else self._key(remainder), (), small)

    def terms(self, found: Truncated) -> dict[Key, sp.Expr]:
        """The coefficients of K^p (log K)^m, the most important first."""
        held = {self._powers(k): self._expr(c, k) for k, c in self.calculus.order.ordered(found.terms)}
        return {key: c for key, c in held.items() if c != 0}

    def remainder(self, found: Truncated) -> Key | None:
        """(r, n) of the remainder; None where nothing is left out, or what is smaller than every power."""
        return None if found.remainder is None else self._powers(found.remainder)

    def law(self, found: Truncated) -> Law:
        """A sum as a statement about K."""
        terms = tuple(Term(c, p, sp.Integer(m)) for (p, m), c in self.terms(found).items())
        point, remainder = (sp.S.Zero if self.end > 0 else sp.oo), self.remainder(found)
        if remainder is None:
            return Law(K, point, terms, "exponential" if found.small else "zero")
        return Law(K, point, terms, remainder[0], sp.Integer(remainder[1]))

    def of_law(self, law: Law) -> Truncated:
        """The sum that a law of powers and logarithms states."""
        terms = {(t.power, int(t.logs)): t.coefficient for t in law.terms}
        return self.of(terms, left_out(law), law.remainder == "exponential")

    def _key(self, key: Key) -> ring.Key:
        return (*self.basis.of(-self.end * key[0], "a power of K"), fmpq(int(key[1])), 0)

    def _powers(self, k: ring.Key) -> Key:
        return -self.end * self.basis.expr(k[0], k[1]), int(k[2].p)

    def _expr(self, c: Exact, k: ring.Key = ORDER_ONE) -> sp.Expr:
        return _expanded(self.atoms.expr(c) * (-self.end) ** int(k[2].p))

    def _vanishes(self, c: Exact) -> bool:
        return len(c.terms) > 1 and self._expr(c) == 0

    # ----------------------------------------------------------------------------------------------------- arithmetic

    def constant(self, e: sp.Expr) -> Truncated:
        return self.of({(sp.S.Zero, 0): e})

    def plus(self, a: Truncated, b: Truncated) -> Truncated:
        return self.calculus.plus(a, b)

    def times(self, a: Truncated, b: Truncated) -> Truncated:
        return self.calculus.times(a, b)

    def power(self, base: Truncated, n: sp.Expr) -> Truncated:
        if n.is_Integer and n >= 0:
            return self.calculus.power(base, int(n))
        what = "a power or quotient of"
        if not base.terms:
            raise MeanFieldError(
                f"The expansion of {what} an average is not available: its leading order is not known."
            )
        if self.calculus.order.largest(*base.terms)[2] != 0:  # type: ignore[index]
            raise MeanFieldError(
                f"An average behaves like {self.law(base)}; {what} such averages (a logarithm leads) is not expanded "
                "yet."
            )
        return self.calculus.real_power(base, rational(n) if n.is_Rational else n, self.reach)

    def apply(self, head: Callable[[sp.Expr], sp.Expr], inner: Truncated) -> Truncated:
        """An analytic function of a sum that tends to a number."""
        size = self.calculus.order.size
        if any(size(k) > size(ORDER_ONE) for k in inner.terms):
            raise MeanFieldError(f"The expansion of {head} of {self.law(inner)} is not known: the argument grows.")
        if inner.remainder is not None and size(inner.remainder) >= size(ORDER_ONE):
            raise MeanFieldError(f"The limit of {self.law(inner)} is not known, so {head} of it is not expanded.")
        limit = self._expr(inner.terms.get(ORDER_ONE, ZERO))
        varying = Truncated({k: c for k, c in inner.terms.items() if k != ORDER_ONE}, inner.remainder, (), inner.small)
        t = sp.Dummy("t", real=True)
        return self.composed(varying, lambda k: taylor(head(limit + t), t, max(k, 4))[k])

    def composed(self, x: Truncated, coefficient: Callable[[int], sp.Expr]) -> Truncated:
        """Σ_k coefficient(k) x^k of a sum that tends to 0."""
        return self.calculus.composed(x, cache(lambda k: self.atoms.total(coefficient(k))), self.reach)

    def part(self, e: sp.Expr) -> Truncated:
        if e == K:
            return self.of({(sp.S.One, 0): sp.S.One})
        if len(e.args) != 1:
            raise MeanFieldError(no_rule(e))
        inner = self(e.args[0])
        lead, size = self.calculus.order.largest(*inner.terms), self.calculus.order.size
        if e.func is sp.exp and lead is not None and size(lead) > size(ORDER_ONE):
            if lead[2] == 0 and _is_negative(self._expr(inner.terms[lead])):
                return Truncated({}, None, (), True)
            raise MeanFieldError(f"{e} has no power-law expansion in K.")
        return self.apply(e.func, inner)


Expand = Callable[[Any, int, Sums], Truncated]
#: how an average over K itself is expanded to some order, by the end that K goes to
ENDS: Registry[str, Expand] = Registry()


def expands(end: str) -> Callable[[Expand], Expand]:
    """Decorator: how ⟨f⟩_K is expanded at an end."""
    return ENDS.adds(end)


def left_out(law: Law) -> Key | None:
    """(r, n) of a remainder O(x^r |log x|^n); None for what is smaller than every power."""
    plain = law.remainder in ("zero", "exponential")
    return None if plain else (sp.sympify(law.remainder), int(law.remainder_logs))


def _expanded(c: sp.Expr) -> sp.Expr:
    """c, or 0 where it is proved to be 0: a sum of radicals that a ball cannot tell from 0 is simplified."""
    c = sp.expand(c)
    if not (c.is_Add and c.is_number) or any(hasattr(a, "ball") for a in sp.preorder_traversal(c)):
        return c
    try:
        close = balls.certified(c, 20).contains(0)
    except MeanFieldError:
        return c
    return sp.simplify(c) if close else c


def _is_negative(c: sp.Expr) -> bool:
    if c.is_negative or not c.is_number:
        return bool(c.is_negative)
    return bool(balls.certified(c, 20) < 0)
