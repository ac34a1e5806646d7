"""The one walk that expands an expression in K: sums, products and powers by the arithmetic of a kind of series."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import reduce
from typing import Generic, TypeVar

import sympy as sp

from meanfield.base.symbols import K

S = TypeVar("S")


class ExpressionSeries(ABC, Generic[S]):
    """Expressions in K as series of one kind, each expanded once."""

    def __init__(self) -> None:
        self.known: dict[sp.Expr, S] = {}

    def __call__(self, e: sp.Expr) -> S:
        if e not in self.known:
            self.known[e] = self.finished(self._expanded(e))
        return self.known[e]

    def _expanded(self, e: sp.Expr) -> S:
        if not e.has(K):
            return self.constant(e)
        if e.is_Add or e.is_Mul:
            return reduce(self.plus if e.is_Add else self.times, map(self, e.args))
        if e.is_Pow and e.base is not sp.E and not e.exp.has(K):
            return self.power(self(e.base), e.exp)
        return self.part(e)

    @abstractmethod
    def constant(self, e: sp.Expr) -> S:
        """An expression without K."""

    @abstractmethod
    def part(self, e: sp.Expr) -> S:
        """What is no sum, product or power: K, an average, a function. Raises: MeanFieldError for what has no rule."""

    @abstractmethod
    def plus(self, a: S, b: S) -> S: ...

    @abstractmethod
    def times(self, a: S, b: S) -> S: ...

    @abstractmethod
    def power(self, base: S, n: sp.Expr) -> S: ...

    def finished(self, found: S) -> S:
        """A series as it is kept."""
        return found


def no_rule(e: sp.Expr) -> str:
    """Why an expression is not expanded."""
    return f"The expansion of {e} in K is not among the rules."
