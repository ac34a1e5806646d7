"""What is said of a quantity at one end of its variable: a sum of terms, and what is left out of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import sympy as sp

from meanfield.base.answers.arrays import Arrays, cell, of_rows
from meanfield.base.answers.export import SHOWN, Result, plain
from meanfield.base.answers.named import values_by_name
from meanfield.base.answers.plain_text import named, wrapped
from meanfield.base.answers.terms import (
    DEEP,
    Term,
    big_o,
    little_o,
    of_start,
    onset_mark,
    onset_of,
    onset_text,
    refuse_before,
)
from meanfield.base.errors import MeanFieldError, one_line
from meanfield.symbolic.series.exponential_sums import ExponentialSums


@dataclass(frozen=True)
class Law(Result):
    """An asymptotic statement: the sum of `terms`, most important first, as `variable` → `point`, and what is left out.

    Laws of one variable, and numbers, are added, multiplied, divided and raised to powers; no term outlives what is
    left out. `a < b` says that a is of smaller order; `at` evaluates the terms. remainder: "zero" (the sum is exact),
    "exponential" (smaller than every power), "smaller" (of smaller order than the last term, by how much is not known),
    or a power: O(variable^remainder · |log variable|^remainder_logs). after: the onset of those that it follows from.

    >>> x = sp.Symbol("x", positive=True)
    >>> law = Law(x, sp.oo, (Term(sp.S(2), sp.S(1)), Term(sp.S(3))), sp.S(-1))
    >>> print((law**2 - 9).text(), "|", (1 / law).text(), "|", law < law**2)
    4*x**2 + 12*x + O(1) | 1/(2*x) - 3/(4*x**2) + O(x**(-3)) | True
    """

    variable: sp.Symbol
    point: sp.Expr
    terms: tuple[Term, ...]
    remainder: str | sp.Expr = "zero"
    remainder_logs: sp.Expr = sp.S.Zero
    after: float = field(default=1.0, kw_only=True, compare=False)

    @property
    def expr_of_terms(self) -> sp.Expr:
        """The sum of the terms alone, of log J where the law is that of J."""
        return sp.Add(*[t.expr(self.variable) for t in self.terms])

    @property
    def expr(self) -> sp.Expr:
        """The sum of the terms, without the remainder (`series` has it), and as it is below the `onset`, too."""
        return self.expr_of_terms

    @property
    def tail(self) -> sp.Expr:
        """What is left out as SymPy writes it: 0, O(x**p), or o(·) of the last term where no order is known. Smaller
        than every power is o(x**p) of no p that could be named; it is written exponentially_small(x)."""
        x = self.variable
        if self.remainder == "zero":
            return sp.S.Zero
        if self.remainder == "exponential":
            return sp.Function("exponentially_small")(x)
        if self.remainder == "smaller":
            return little_o(replace(self.terms[-1], coefficient=sp.S.One).expr(x) if self.terms else sp.S.One)
        return big_o(self.left_out, x, self.point)

    @property
    def series(self) -> sp.Expr:
        """The sum of the terms and what is left out, as SymPy's `series` gives it; `expr` is the sum alone."""
        return self.expr + self.tail

    @property
    def onset(self) -> float | None:
        """The least x from which on every term is at most as large as the one before it, for a law at x → ∞, and from
        which on the laws hold that it follows from: below it the law says nothing. ∞ beyond the doubles; None where
        symbols stand in the terms, those aside that the start decides (C): such terms are passed over."""
        own = self._own_onset
        return own if own is None else max(own, self.after)

    @property
    def _own_onset(self) -> float | None:
        """The onset as its terms alone say it; an exact sum holds everywhere."""
        known = self._known
        return None if known is None else 1.0 if self.remainder == "zero" else onset_of(known)

    @property
    def _known(self) -> list[Term] | None:
        """The terms without those that the start decides; None where symbols stand in them."""
        live = [t for t in self.terms if t.coefficient != 0]
        known = [t for t in live if not any(map(of_start, sp.sympify(t.coefficient).free_symbols))]
        numbers = [e for t in known for e in (t.coefficient, t.power, t.logs, *(x for pair in t.rates for x in pair))]
        return known if self.point == sp.oo and all(sp.sympify(e).is_number for e in numbers) else None

    def require(self, place: object, values: Mapping[sp.Symbol, object] | None = None) -> None:
        """Refuse a place at which the sum says nothing yet; values: numbers for symbols of the terms.

        Raises: MeanFieldError below an `onset` deeper than `DEEP`, where the laws that it follows from do not hold or
        the last term is not small beside the first one.
        """
        fixed = {s: v for s, v in (values or {}).items() if not of_start(s)}
        terms = tuple(replace(t, coefficient=sp.sympify(t.coefficient).subs(fixed)) for t in self.terms)
        own = Law(self.variable, self.point, terms, self.remainder)
        refuse_before(self.after, (), place, self.variable)
        refuse_before(own.onset or 1.0, own._known or (), place, self.variable)

    def onset_text(self) -> str:
        """The onset as a sentence where it lies deeper than `DEEP`, else nothing."""
        own = self._own_onset
        if self.after <= DEEP or (own is not None and own >= self.after):
            return onset_text(own, self.variable)
        return f"holds beyond {self.variable} = {min(self.after, 1e308):.3g}, as the laws that it follows from do"

    @property
    def leading(self) -> Term:
        return self.terms[0] if self.terms else Term(sp.S.Zero)

    @property
    def limit(self) -> sp.Expr:
        """What the sum tends to: 0, a number, ±oo, or nan where the terms do not say."""
        lead = self.leading
        power = -lead.power if self.point == 0 else lead.power
        if lead.rate != 0 or not self.terms:
            return sp.nan if self.terms or self.remainder not in ("zero", "exponential") else sp.S.Zero
        if power > 0 or (power == 0 and lead.logs > 0):
            return lead.coefficient * sp.oo * (-1 if self.point == 0 and lead.logs % 2 else 1)
        return lead.coefficient if power == 0 and lead.logs == 0 else sp.S.Zero

    def __call__(self, value: object = None, **named: object) -> sp.Expr:
        """`at`."""
        return self.at(value, **named)

    def at(self, value: object = None, **named: object) -> sp.Expr:
        """The sum of the terms at one place; named: values of the variable and of other symbols by their names.

        Raises: MeanFieldError for a place at which the sum says nothing yet (`require`).
        """
        total = self.expr_of_terms
        given: dict[Any, object] = named if value is None else {self.variable.name: value, **named}
        if value is not None and self.variable.name in named:
            raise MeanFieldError(f"{self.variable.name} was given twice; give it once.")
        if not given:
            raise MeanFieldError(f"The value of a law is not available: give {self.variable.name}, as in at(100).")
        values = values_by_name((total, self.variable), given)
        if self.variable in values:
            self.require(values[self.variable], values)
        return total.subs(values)

    def __add__(self, other: object) -> Law:
        other = self._like(other)
        return NotImplemented if other is None else self._computed(ExponentialSums.plus, other)

    def __neg__(self) -> Law:
        return self * -1

    def __sub__(self, other: object) -> Law:
        other = self._like(other)
        return NotImplemented if other is None else self + (-other)

    def __rsub__(self, other: object) -> Law:
        return -self + other

    def __mul__(self, other: object) -> Law:
        other = self._like(other)
        return NotImplemented if other is None else self._computed(ExponentialSums.times, other)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: object) -> Law:
        other = self._like(other)
        return NotImplemented if other is None else self * other**-1

    def __rtruediv__(self, other: object) -> Law:
        return self**-1 * other

    def __pow__(self, n: Any) -> Law:
        """Its n-th power: a series in what follows the leading term, ended where that is not known, or after SERIES
        powers of it. Raises: MeanFieldError where a logarithm leads a sum and n is no whole number ≥ 0."""
        n = sp.sympify(n)
        alone = len(self.terms) == 1 and self.remainder == "zero"
        if not (n.is_Integer and n >= 0) and (not self.terms or (self.leading.logs != 0 and not alone)):
            raise MeanFieldError(
                f"The power {n} of {self.text()} is not available: only a plain power of x can lead it."
            )
        return self._computed(lambda sums, x: sums.power(x, n))

    def __lt__(self, other: object) -> bool:
        """Whether it is of smaller order than another law, or a number: the quotient tends to 0."""
        return self._order(other) < 0

    def __gt__(self, other: object) -> bool:
        """Whether it is of larger order: the quotient tends to ∞."""
        return self._order(other) > 0

    def _order(self, other: object) -> int:
        other = self._like(other)
        if other is None or not (self.terms or other.terms):
            raise MeanFieldError("Two laws of the same variable, or a law and a number, can be compared.")
        sizes = [one._size() for one in (self, other)]
        bare = [not one.terms and one.remainder != "zero" for one in (self, other)]
        order = (sizes[0] > sizes[1]) - (sizes[0] < sizes[1])
        if (bare[0] and order > 0) or (bare[1] and order < 0):  # O(x) may be as small as one likes
            return 0
        return order

    def _like(self, other: object) -> Law | None:
        """Another law of the same variable, a number as one; None for other things."""
        if isinstance(other, Law):
            if (other.variable, other.point) != (self.variable, self.point):
                raise MeanFieldError(
                    f"A law in {self.variable} → {self.point} meets one in {other.variable} → {other.point}."
                )
            return other
        if isinstance(other, str):
            return None
        try:
            number = sp.sympify(other)
        except (sp.SympifyError, TypeError):
            return None
        if not isinstance(number, sp.Expr) or number.has(self.variable):
            return None
        if number.has(sp.nan) or number.is_finite is False or number.is_real is False:
            raise MeanFieldError(f"A law meets {number}, which is no finite real number.")
        return Law(self.variable, self.point, (Term(number),) if number != 0 else ())

    def _size(self) -> tuple[Any, ...]:
        """What orders laws: the size of the leading term, or of what is left out where there is none."""
        if self.terms:
            return self.terms[0].size(self.point)
        if self.remainder == "smaller":
            raise MeanFieldError("The leading order of this law is not known, so nothing can be computed with it.")
        if isinstance(self.remainder, str):
            return (-math.inf,)
        return Term(sp.S.One, sp.sympify(self.remainder), self.remainder_logs).size(self.point)

    def _computed(self, operation: Callable[..., Any], *others: Law) -> Law:
        """The law of an operation on the series of laws; it begins where these have begun."""
        sums, laws = ExponentialSums(self.point), (self, *others)
        found = operation(sums, *[sums.of(one.terms, one.remainder, one.remainder_logs) for one in laws])
        after = max([1.0, *(one.onset or one.after for one in laws)])
        return Law(self.variable, self.point, *sums.stated(found), after=after)

    def coefficient(self, power: object) -> sp.Expr:
        """The coefficient of x^power (no logarithm, no exponential)."""
        power = sp.sympify(power)
        return sp.Add(*[t.coefficient for t in self.terms if t.power == power and t.logs == 0 and t.rate == 0])

    def parts(self) -> list[sp.Expr]:
        """The terms in order, for printing."""
        return [t.expr(self.variable) for t in self.terms] or [sp.S.Zero]

    def data(self) -> dict[str, Any]:
        """The law, its terms (coefficient, power, logs, …), what is left out and its onset, as plain values."""
        return {
            "law": Law.text(self),
            "latex": SHOWN["latex of a law"](self),
            "terms": [{f.name: plain(getattr(t, f.name)) for f in fields(t)} for t in self.terms],
            "remainder": plain(self.remainder),
            "onset": plain(self.onset),
        }

    def arrays(self) -> Arrays:
        """A row for each term; where one is known, the onset."""
        names = ("coefficient", "power", "logs", "rate", "rate_power")
        found = of_rows([{n: cell(getattr(t, n)) for n in names} for t in self.terms])
        return found if self.onset is None else replace(found, attrs={"onset": float(self.onset)})

    def latex(self) -> str:
        """The expansion as LaTeX for math mode (amsmath), in lines that fit."""
        text: str = SHOWN["latex of equations"]([("", self)], self.remarks())
        return text

    def plot(self, ax: Any = None) -> Any:
        """The sum against x, from its onset over two decades, constants of the start 1; returns the Axes.

        Raises: MeanFieldError for a law at a finite point, and where other symbols have no number.
        """
        free = {s for t in self.parts() for s in t.free_symbols} - {self.variable}
        other = sorted(s.name for s in free if not of_start(s))
        if self.point != sp.oo or other:
            why = f"{other[0]} has no number" if other else f"it holds as {self.variable} → {self.point}"
            raise MeanFieldError(f"A picture of a law in l → ∞ is not available: {why}.")
        value = sp.lambdify(self.variable, self.expr_of_terms.subs(dict.fromkeys(free, 1)), "math")
        return SHOWN["plot of a law"](value, self.onset or 1.0, getattr(self, "name", "law"), ax)

    def remarks(self) -> tuple[str, ...]:
        """What LaTeX says below the law: its onset, where that is printed."""
        return (self.onset_text(),) if self.onset_text() else ()

    @property
    def left_out(self) -> sp.Expr | None:
        """The argument of O(·), where what is left out is a power."""
        if isinstance(self.remainder, str):
            return None
        return self.variable**self.remainder * sp.log(self.variable) ** self.remainder_logs

    def tail_text(self) -> str:
        """What is left out, in words or as O(·)."""
        if self.remainder == "zero":
            return ""
        if self.remainder == "exponential":
            return "exponentially small"
        if self.remainder == "smaller":
            return "smaller order"
        return f"O({self.left_out})"

    def text(self) -> str:
        """The law on one line, every number as it is."""
        return self._sum(self.parts())

    def lines(self) -> list[str]:
        """The law on one line, with a name for each number that is no closed form, and these numbers in digits."""
        parts, numbers = named(self.parts())
        onset = self.onset_text()
        return [self._sum(parts), *(f"  where {n}" for n in numbers), *[f"  {onset}"] * bool(onset)]

    def _sum(self, parts: list[sp.Expr]) -> str:
        text = " + ".join(str(p) for p in parts).replace("+ -", "- ")
        left = self.tail_text()
        return f"{text} + {left}" if left else text

    def __repr__(self) -> str:
        return one_line("Law", onset_mark(self.onset, self.variable) + self.lines()[0])

    def __str__(self) -> str:
        return wrapped("\n".join(self.lines()))
