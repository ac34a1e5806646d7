"""One layer of a recursion as formulas: named intermediates, then the next state; and the domains of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import sympy as sp

from meanfield.base.answers.results import MeanFieldError


@dataclass(frozen=True)
class Domain:
    """Where a parameter may lie: lower ≤ value ≤ upper, None where it is unbounded."""

    lower: sp.Expr | None = None
    upper: sp.Expr | None = None

    def within(self, other: Domain) -> Domain:
        """The values that lie in both."""
        lower = [e for e in (self.lower, other.lower) if e is not None]
        upper = [e for e in (self.upper, other.upper) if e is not None]
        return Domain(sp.Max(*lower) if lower else None, sp.Min(*upper) if upper else None)

    def require(self, name: str, value: sp.Expr) -> None:
        """Raise `MeanFieldError` for a number outside."""
        if self.lower is not None and (value < self.lower) == True:  # noqa: E712 (a symbol is not decided)
            raise MeanFieldError(f"{name} must be ≥ {self.lower}, but {value} was given.")
        if self.upper is not None and (value > self.upper) == True:  # noqa: E712
            raise MeanFieldError(f"{name} must be ≤ {self.upper}, but {value} was given.")

    @property
    def sign(self) -> dict[str, bool]:
        """What SymPy may assume of a symbol that lies here."""
        if self.lower is not None and self.lower >= 0:
            return {"positive": True} if self.lower > 0 else {"nonnegative": True}
        return {"real": True}


@dataclass(frozen=True)
class Step:
    """x' = next, by way of intermediates: definitions, (symbol, expression) in order, of the state and of those before.

    Deep blocks stay small this way: each intermediate variance is written once and known by its name from there on.
    """

    next: tuple[sp.Expr, ...]
    definitions: tuple[tuple[sp.Symbol, sp.Expr], ...] = ()

    @property
    def expressions(self) -> tuple[sp.Expr, ...]:
        return (*(e for _, e in self.definitions), *self.next)

    @property
    def free_symbols(self) -> set[sp.Symbol]:
        """Symbols that are no intermediates."""
        return set(self._free)

    @cached_property
    def _free(self) -> frozenset[sp.Symbol]:
        # asked for at every call of `propagate`: a millisecond for the maps of all correlators
        found = set().union(*[sp.sympify(e).free_symbols for e in self.expressions])
        return frozenset(found - {s for s, _ in self.definitions})

    def flat(self) -> tuple[sp.Expr, ...]:
        """The next state as formulas of the present one, every intermediate written out."""
        whole = self.whole()
        return tuple(e.xreplace(whole) for e in self.next) if whole else self.next

    def whole(self) -> dict[sp.Symbol, sp.Expr]:
        """Every intermediate as a formula of the state."""
        found: dict[sp.Symbol, sp.Expr] = {}
        for symbol, e in self.definitions:
            found[symbol] = e.xreplace(found)
        return found

    def map(self, function: Callable[[sp.Expr], sp.Expr]) -> Step:
        """`function` applied to every formula."""
        return Step(tuple(map(function, self.next)), tuple((s, function(e)) for s, e in self.definitions))

    def pick(self, indices: Sequence[int]) -> Step:
        """The step of some of the variables, with the intermediates they need."""
        kept = tuple(self.next[i] for i in indices)
        needed = set().union(*[sp.sympify(e).free_symbols for e in kept]) if kept else set()
        definitions = []
        for symbol, e in reversed(self.definitions):
            if symbol in needed:
                definitions.append((symbol, e))
                needed |= e.free_symbols
        return Step(kept, tuple(reversed(definitions)))

    def derivative(self, i: int, by: sp.Symbol) -> sp.Expr:
        """∂next_i/∂by by the chain rule, in terms of the state and of the intermediates."""
        return _derivative(self.next[i], by, self._slopes(by))

    def _slopes(self, by: sp.Symbol) -> dict[sp.Symbol, sp.Expr]:
        slopes: dict[sp.Symbol, sp.Expr] = {}
        for symbol, e in self.definitions:
            slope = _derivative(e, by, slopes)
            if slope != 0:
                slopes[symbol] = slope
        return slopes


def _derivative(e: sp.Expr, by: sp.Symbol, slopes: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    through = [sp.diff(e, s) * slope for s, slope in slopes.items() if e.has(s)]
    return sp.Add(sp.diff(e, by), *through)
