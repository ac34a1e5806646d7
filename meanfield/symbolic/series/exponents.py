r"""Exponents of long expansions: a rational number plus a sum of rational multiples of irrational ones that have names.

Two sums are equal if and only if their parts are, as long as the named numbers and 1 are independent over the
rationals. So a number becomes a name only after a search for an integer relation with the names before it (PSLQ, 60
digits): one that is found has to be proved, and is then how the number is written. Where two exponents meet, a
logarithm may enter; a relation that is overlooked has coefficients beyond `LARGEST`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import mpmath
import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.precision import decimals
from meanfield.functions import balls
from meanfield.symbolic.series.coefficients import expression, rational

DIGITS = 60
LARGEST = 10**6  # coefficient of an integer relation that is looked for
NO_POWER = fmpq(0)


class NoHigherOrder(MeanFieldError):
    """Further terms are not derived here; the sentence says why."""


class Span:
    """Σ c_i λ_i ≠ 0, as ((i, c_i), …) with c_i ≠ 0: a sum that vanishes is the rational 0."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[tuple[int, fmpq], ...]):
        self.parts = parts

    def __add__(self, other: Span | fmpq | int) -> Span | fmpq:
        if not isinstance(other, Span):
            return self._rational_only(other)
        total = dict(self.parts)
        for i, c in other.parts:
            total[i] = total.get(i, NO_POWER) + c
        return span(total)

    def _rational_only(self, other: fmpq | int) -> Span:
        if other != 0:
            raise TypeError("a rational is kept apart from the irrational part of an exponent")
        return self

    __radd__ = __add__

    def __neg__(self) -> Span:
        return Span(tuple((i, -c) for i, c in self.parts))

    def __sub__(self, other: Span | fmpq | int) -> Span | fmpq:
        return self + -other

    def __rsub__(self, other: fmpq | int) -> Span:
        return -self._rational_only(other)

    def __mul__(self, c: fmpq | int) -> Span | fmpq:
        return span({i: x * c for i, x in self.parts})

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Span) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        return " + ".join(f"{c}*lambda_{i}" for i, c in self.parts)


def span(parts: dict[int, fmpq]) -> Span | fmpq:
    """Σ c_i λ_i."""
    left = tuple((i, c) for i, c in sorted(parts.items()) if c != 0)
    return Span(left) if left else NO_POWER


def is_zero(e: sp.Expr) -> bool:
    """Whether a number is proved to be 0: by rewriting it, or an algebraic one by its minimal polynomial."""
    if sp.simplify(e) == 0:
        return True
    x = sp.Dummy("x")
    try:
        return bool(e.is_algebraic and sp.minimal_polynomial(e, x) == x)
    except NotImplementedError:
        return False


@dataclass
class Basis:
    """The irrational numbers λ_0, λ_1, … that have a name, with rationals that agree with them to 60 digits.

    keeper: the node that holds a number of averages and roots where it stands in an exponent, if there are such.

    >>> basis = Basis()
    >>> basis.of(sp.sqrt(2) / 3)
    (0, 1/3*lambda_0)
    >>> basis.of(1 - sp.sqrt(8))
    (1, -2*lambda_0)
    """

    names: list[sp.Expr] = field(default_factory=list)
    values: list[fmpq] = field(default_factory=list)
    keeper: type[sp.Expr] | None = None

    def of(self, number: sp.Expr, what: str = "an exponent") -> tuple[fmpq, Span | fmpq]:
        """A real number as (its rational part, its irrational part). Raises: NoHigherOrder for one that 60 digits
        take for a sum that it is not proved to be."""
        number = sp.sympify(number)
        if number.free_symbols:
            raise NoHigherOrder(
                f"Further terms need a number for {what}, which is {number}; give the σ's and β's numbers."
            )
        held = any(hasattr(n, "tex_letter") for n in sp.preorder_traversal(number))
        prefactor, remainder = (number if held else sp.expand(number)).as_coeff_Add()
        a: Any = rational(prefactor)
        b: Any = NO_POWER
        for term in (remainder,) if held else sp.Add.make_args(remainder):
            if term != 0:
                c, name = term.as_coeff_Mul()
                more, part = self._named(self._kept(name) if held else name, what)
                a, b = a + rational(c) * more, b + part * rational(c)
        return a, b

    def value(self, part: Span | fmpq) -> fmpq:
        """An irrational part, to 60 digits."""
        return sum((c * self.values[i] for i, c in part.parts), NO_POWER) if isinstance(part, Span) else NO_POWER

    def expr(self, a: fmpq, b: Span | fmpq) -> sp.Expr:
        """An exponent as an expression."""
        parts = b.parts if isinstance(b, Span) else ()
        return sp.Add(expression(a), *[expression(c) * self.names[i] for i, c in parts])

    def _kept(self, name: sp.Expr) -> sp.Expr:
        return name if self.keeper is None or isinstance(name, self.keeper) else self.keeper(name)

    def _named(self, name: sp.Expr, what: str) -> tuple[fmpq, Span | fmpq]:
        """A number as a sum of 1 and the names, to which it is added where it is no such sum."""
        if name.is_Rational:
            return rational(name), NO_POWER
        if name in self.names:
            return NO_POWER, span({self.names.index(name): fmpq(1)})
        value = name.args[0] if self.keeper is not None and isinstance(name, self.keeper) else name
        digits = balls.certified(value, DIGITS).mid().str(DIGITS, radius=False)
        relation = self._relation(digits)
        if relation is not None:
            a, *parts = relation
            guess = sp.Add(expression(a), *[expression(c) * n for c, n in zip(parts, self.names)])
            if not is_zero(value - guess):
                raise NoHigherOrder(
                    f"Whether {what}, {name}, is {guess} is not decided, and a logarithm depends on it."
                )
            return a, span(dict(enumerate(parts)))
        self.names.append(name)
        self.values.append(rational(sp.Rational(digits)))
        return NO_POWER, span({len(self.names) - 1: fmpq(1)})

    def _relation(self, digits: str) -> list[fmpq] | None:
        """The rationals a, c_0, … with number = a + Σ c_i λ_i to 40 digits and more."""
        with decimals(DIGITS):
            known = [mpmath.mpf(int(v.p)) / int(v.q) for v in self.values]
            found = mpmath.pslq([mpmath.mpf(digits), mpmath.mpf(1), *known], mpmath.mpf(10) ** -45, LARGEST, 10**4)
        if found is None or found[0] == 0:
            return None
        return [fmpq(-n, found[0]) for n in found[1:]]


def decided(e: sp.Expr, what: str) -> sp.Rational | None:
    """The rational that a number is, None for an irrational one. Raises: NoHigherOrder where that is open."""
    e = sp.sympify(e)
    if e.is_Rational:
        return e
    a, b = Basis().of(e, what)
    return expression(a) if b == 0 else None
