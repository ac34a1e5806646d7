r"""Sums of c·K^p (log K)^m with an honest remainder, and their arithmetic: no term ever outlives the remainder of the
sum it is in.

Near K = 0 the smaller powers matter most, at K = ∞ the larger; a sum knows its end. A remainder is (r, m): what is left
out is O(K^r |log K|^m). Besides it, terms smaller than every power may have been left out (`exponential`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy as sp

from meanfield.base.answers.results import Law, MeanFieldError, Term
from meanfield.base.leading import Registry
from meanfield.base.symbols import K
from meanfield.functions import balls
from meanfield.functions.series.taylor import taylor
from meanfield.symbolic.series.expression_series import ExpressionSeries, no_rule

Key = tuple[sp.Expr, int]
_ZERO: Key = (sp.S.Zero, 0)


@dataclass(frozen=True)
class Sum:
    """Σ terms[p, m] K^p (log K)^m as K → 0 (end = 1) or K → ∞ (end = -1); rest: see the module, None: nothing left out.

    Terms that the remainder covers are dropped on construction.
    """

    end: int
    terms: Mapping[Key, sp.Expr] = field(default_factory=dict)
    rest: Key | None = None
    exponential: bool = False

    def __post_init__(self):
        kept = {}
        for key, c in self.terms.items():
            c = _expanded(c)
            if c != 0 and (self.rest is None or self._size(key) > self._size(self.rest)):
                kept[key] = c
        object.__setattr__(self, "terms", kept)

    def _size(self, key: Key):
        """Larger means more important near the end of this sum."""
        return _Order(-self.end * key[0], key[1])

    def _weaker(self, a: Key | None, b: Key | None) -> Key | None:
        if a is None or b is None:
            return b if a is None else a
        return max(a, b, key=self._size)

    @property
    def lead(self) -> Key | None:
        """The most important term; the remainder if there is none."""
        return max(self.terms, key=self._size) if self.terms else self.rest

    def cut(self, rest: Key) -> Sum:
        """The same with a remainder that is not finer than `rest`."""
        return Sum(self.end, self.terms, self._weaker(self.rest, rest), self.exponential)

    def __add__(self, other: Sum) -> Sum:
        total = dict(self.terms)
        for key, c in other.terms.items():
            total[key] = total.get(key, sp.S.Zero) + c
        return Sum(self.end, total, self._weaker(self.rest, other.rest), self.exponential or other.exponential)

    def __mul__(self, other: Sum) -> Sum:
        total: dict[Key, sp.Expr] = {}
        for (p, m), a in self.terms.items():
            for (q, n), b in other.terms.items():
                total[p + q, m + n] = total.get((p + q, m + n), sp.S.Zero) + a * b
        rest = None
        for x, y in ((self, other), (other, self)):
            if x.rest is not None and y.lead is not None:
                rest = self._weaker(rest, (x.rest[0] + y.lead[0], x.rest[1] + y.lead[1]))
        small = (self.exponential and other.lead is not None) or (other.exponential and self.lead is not None)
        return Sum(self.end, total, rest, small or (self.exponential and other.exponential))

    def power(self, n: sp.Expr, reach: sp.Expr) -> Sum:
        """Its n-th power; an infinite series ends where it is `reach` powers of K below its leading term."""
        if n.is_Integer and n >= 0:
            total = Sum(self.end, {_ZERO: sp.S.One})
            for _ in range(int(n)):
                total = total * self
            return total
        lead, c = self._decided_lead("a power or quotient of")
        x = self.relative(lead, c)
        series = {0: sp.S.One}
        total = self.composed(x, lambda k: sp.binomial(n, k), reach, series)
        scale = Sum(self.end, {(n * lead[0], 0): c**n})
        return scale * total

    def apply(self, head, reach: sp.Expr) -> Sum:
        """An analytic function of it, where it tends to a number."""
        if any(self._size(key) > self._size(_ZERO) for key in self.terms):
            raise MeanFieldError(f"The expansion of {head} of {self.law()} is not known: the argument grows.")
        if self.rest is not None and self._size(self.rest) >= self._size(_ZERO):
            raise MeanFieldError(f"The limit of {self.law()} is not known, so {head} of it is not expanded.")
        limit = self.terms.get(_ZERO, sp.S.Zero)
        x = Sum(self.end, {k: c for k, c in self.terms.items() if k != _ZERO}, self.rest, self.exponential)
        t = sp.Dummy("t", real=True)
        return self.composed(x, lambda k: taylor(head(limit + t), t, max(k, 4))[k], reach, {})

    def composed(self, x: Sum, coefficient, reach, known) -> Sum:
        """Σ coefficient(k) x^k for an x that tends to 0."""
        total = Sum(self.end, {_ZERO: known.get(0) or coefficient(0)})
        if x.lead is None:
            return Sum(self.end, total.terms, None, x.exponential)
        gap = abs(x.lead[0])
        count = int(sp.ceiling(reach / gap)) if gap != 0 else 0
        if gap == 0:
            raise MeanFieldError(f"{x.law()} is not a power of K; a function of it is not expanded.")
        part = Sum(self.end, {_ZERO: sp.S.One})
        left = None if len(x.terms) == 0 and x.rest is None else (x.lead[0] * (count + 1), x.lead[1] * (count + 1))
        for k in range(1, count + 1):
            part = part * x if left is None else (part * x).cut(left)
            total = total + Sum(self.end, {_ZERO: coefficient(k)}) * part
        rest = total._weaker(total.rest, left)
        return Sum(self.end, total.terms, rest, total.exponential or x.exponential)

    def _decided_lead(self, what: str) -> tuple[Key, sp.Expr]:
        if not self.terms:
            raise MeanFieldError(
                f"The expansion of {what} an average is not available: its leading order is not known."
            )
        lead = self.lead
        assert lead is not None
        if lead[1] != 0:
            raise MeanFieldError(
                f"An average behaves like {self.law()}; {what} such averages (a logarithm leads) is not expanded yet."
            )
        return lead, self.terms[lead]

    def relative(self, lead: Key, c: sp.Expr) -> Sum:
        """w of c K^p (1 + w), its leading term."""
        rest = None if self.rest is None else (self.rest[0] - lead[0], self.rest[1])
        scaled = {(p - lead[0], m): v / c for (p, m), v in self.terms.items() if (p, m) != lead}
        return Sum(self.end, scaled, rest, self.exponential)

    def law(self) -> Law:
        """The sum as a statement about K."""
        ordered = sorted(self.terms, key=self._size, reverse=True)
        found = tuple(Term(self.terms[key], key[0], sp.Integer(key[1])) for key in ordered)
        point = sp.S.Zero if self.end > 0 else sp.oo
        if self.rest is None:
            return Law(K, point, found, "exponential" if self.exponential else "zero")
        return Law(K, point, found, self.rest[0], sp.Integer(self.rest[1]))


Expand = Callable[[Any, int], Sum]
#: how an average over K itself is expanded to some order, by the end that K goes to
ENDS: Registry[str, Expand] = Registry()


def expands(end: str) -> Callable[[Expand], Expand]:
    """Decorator: how ⟨f⟩_K is expanded at an end."""

    def put(function: Expand) -> Expand:
        ENDS[end] = function
        return function

    return put


def from_law(law: Law) -> Sum:
    """The sum that a law of powers and logarithms states."""
    terms = {(t.power, int(t.logs)): t.coefficient for t in law.terms}
    plain = law.remainder in ("zero", "exponential")
    rest = None if plain else (sp.sympify(law.remainder), int(law.remainder_logs))
    return Sum(1 if law.point == 0 else -1, terms, rest, law.remainder == "exponential")


class _Order:
    """(number, integer) compared by the numbers' values: powers may be irrational."""

    __slots__ = ("logs", "power")

    def __init__(self, power, logs):
        self.power, self.logs = power, logs

    def _key(self, other):
        gap = self.power - other.power
        return (0 if gap == 0 else 1 if gap > 0 else -1), self.logs - other.logs

    def __gt__(self, other):
        return self._key(other) > (0, 0)

    def __lt__(self, other):
        return self._key(other) < (0, 0)

    def __ge__(self, other):
        return self._key(other) >= (0, 0)


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


class Sums(ExpressionSeries[Sum]):
    """Sums of expressions in K and in averages over K, whose own sums are given.

    A factor e^{-c/K} is smaller than every power as K → 0 and a series in 1/K as K → ∞.
    """

    def __init__(self, end: int, nodes: Mapping[sp.Expr, Sum], reach: sp.Expr) -> None:
        super().__init__()
        self.end, self.reach = end, reach
        self.known |= nodes

    def constant(self, e: sp.Expr) -> Sum:
        return Sum(self.end, {_ZERO: e})

    def plus(self, a: Sum, b: Sum) -> Sum:
        return a + b

    def times(self, a: Sum, b: Sum) -> Sum:
        return a * b

    def power(self, base: Sum, n: sp.Expr) -> Sum:
        return base.power(n, self.reach)

    def part(self, e: sp.Expr) -> Sum:
        if e == K:
            return Sum(self.end, {(sp.S.One, 0): sp.S.One})
        if len(e.args) != 1:
            raise MeanFieldError(no_rule(e))
        inner = self(e.args[0])
        if e.func is sp.exp and inner.terms:
            lead = inner.lead
            assert lead is not None
            if inner._size(lead) > inner._size(_ZERO):
                if lead[1] == 0 and _is_negative(inner.terms[lead]):
                    return Sum(self.end, {}, None, True)
                raise MeanFieldError(f"{e} has no power-law expansion in K.")
        return inner.apply(e.func, self.reach)


def expand(e: sp.Expr, end: int, nodes: Mapping[sp.Expr, Sum], reach: sp.Expr) -> Sum:
    """The sum of an expression in K and in averages over K, whose own sums are given."""
    return Sums(end, nodes, reach)(e)


def _is_negative(c: sp.Expr) -> bool:
    if c.is_negative or not c.is_number:
        return bool(c.is_negative)
    return bool(balls.certified(c, 20) < 0)
