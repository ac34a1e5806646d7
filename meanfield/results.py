"""What solvers and ensembles return: a value never leaves them without its error or its status.

`MeanFieldError` is the one exception users see: a sentence saying what was asked, what was found and what to do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

import sympy as sp

from meanfield.printed import named, wrapped
from meanfield.tex.names import aligned


class MeanFieldError(ValueError):
    """A request that cannot be answered, said in one sentence for the person at the call site."""

    def __init__(self, *args: object):
        # the variables of integrals are dummies, which print with an underscore: _z is z to the reader
        super().__init__(*(re.sub(r"(?<!\w)_(?=[zp]\d?\b)", "", a) if isinstance(a, str) else a for a in args))


class NoClosedForm(MeanFieldError):
    """The rule for closed forms does not reach this average; the message says which factor stops it."""


class InfiniteAverage(MeanFieldError):
    """The average does not exist or is infinite (the square of a jump's derivative, a tail heavier than a Gaussian)."""


class Undetermined(MeanFieldError):
    """Where φ switches depends on parameters that have no numbers; with numbers it may be decided."""


def one_line(name: str, text: str, room: int = 100) -> str:
    """`name(text)` on one line, what does not fit cut off: how records show themselves in a session."""
    flat = " ".join(text.split())
    return f"{name}({flat if len(flat) <= room else flat[: room - 1] + '…'})"


class Status(Enum):
    """How much is known of an answer."""

    EXACT = "exact"  #: proved symbolically
    CERTIFIED = "certified"  #: enclosed in a ball
    MEASURED = "measured"  #: float64 with a measured bound, or an ensemble with a standard error
    DIVERGES = "diverges"  #: grows without bound (the layer is stated)
    NONEXISTENT = "does not exist"
    NOT_UNIQUE = "not unique"
    UNKNOWN = "unknown"


class Equality(Enum):
    """Answer of an `equals` question. Only `PROVED` is a theorem; `TO_30_DIGITS` is strong evidence."""

    PROVED = "proved equal"
    TO_30_DIGITS = "equal to 30 digits"
    DIFFERENT = "different"

    def __bool__(self) -> bool:
        return self is not Equality.DIFFERENT


@dataclass(frozen=True)
class Solution:
    """An answer with its status: `value`, `error` (absolute, None when exact) and a sentence `message`."""

    value: Any
    status: Status
    error: float | None = None
    message: str = ""


@dataclass(frozen=True)
class Estimate:
    """A measured mean with its standard error over `count` independent samples (dimensionless, arrays allowed)."""

    mean: Any
    standard_error: Any
    count: int

    def z(self, predicted: Any) -> Any:
        """Deviation from a prediction in standard errors."""
        import numpy as np

        difference = np.asarray(self.mean - predicted, dtype=float)
        # a quantity that is the same in every network (J at its first layer) has standard error 0: z is 0 if it agrees,
        # infinite if not
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(difference == 0, 0.0, difference / np.asarray(self.standard_error, dtype=float))[()]


@dataclass(frozen=True)
class Term:
    """coefficient · x^power · log(x)^logs · exp(rate · x^rate_power)."""

    coefficient: sp.Expr
    power: sp.Expr = sp.S.Zero
    logs: sp.Expr = sp.S.Zero
    rate: sp.Expr = sp.S.Zero
    rate_power: sp.Expr = sp.S.One

    def expr(self, x: sp.Symbol) -> sp.Expr:
        growth = sp.exp(self.rate * x**self.rate_power) if self.rate != 0 else sp.S.One
        return self.coefficient * x**self.power * sp.log(x) ** self.logs * growth


@dataclass(frozen=True)
class Law:
    """An asymptotic statement: the sum of `terms`, most important first, as `variable` → `point`, and what is left out.

    remainder: "zero" (the sum is exact), "exponential" (smaller than every power), "smaller" (of smaller order than the
    last term, by how much is not known), or a power: O(variable^remainder · |log variable|^remainder_logs).
    """

    variable: sp.Symbol
    point: sp.Expr
    terms: tuple[Term, ...]
    remainder: str | sp.Expr = "zero"
    remainder_logs: sp.Expr = sp.S.Zero

    @property
    def expr(self) -> sp.Expr:
        """The sum of the terms, without the remainder."""
        return sp.Add(*[t.expr(self.variable) for t in self.terms])

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

    def coefficient(self, power: object) -> sp.Expr:
        """The coefficient of x^power (no logarithm, no exponential)."""
        power = sp.sympify(power)
        return sp.Add(*[t.coefficient for t in self.terms if t.power == power and t.logs == 0 and t.rate == 0])

    def parts(self) -> list[sp.Expr]:
        """The terms in order, for printing."""
        return [t.expr(self.variable) for t in self.terms] or [sp.S.Zero]

    def latex(self) -> str:
        """The expansion as LaTeX for math mode (amsmath), in lines that fit."""
        return aligned([("", self)])

    def tail_text(self) -> str:
        """What is left out, in words or as O(·)."""
        if self.remainder == "zero":
            return ""
        if self.remainder == "exponential":
            return "exponentially small"
        if self.remainder == "smaller":
            return "smaller order"
        return f"O({self.variable**self.remainder * sp.log(self.variable) ** self.remainder_logs})"

    def text(self) -> str:
        """The law on one line, every number as it is."""
        return self._sum(self.parts())

    def lines(self) -> list[str]:
        """The law on one line, with a name for each number that is no closed form, and these numbers in digits."""
        parts, numbers = named(self.parts())
        return [self._sum(parts), *(f"  where {n}" for n in numbers)]

    def _sum(self, parts: list[sp.Expr]) -> str:
        text = " + ".join(str(p) for p in parts).replace("+ -", "- ")
        left = self.tail_text()
        return f"{text} + {left}" if left else text

    def __repr__(self) -> str:
        return one_line("Law", self.lines()[0])

    def __str__(self) -> str:
        return wrapped("\n".join(self.lines()))
