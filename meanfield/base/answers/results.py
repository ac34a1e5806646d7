"""What solvers and ensembles return: a value never leaves them without its error or its status.

`MeanFieldError` (from `errors`) is the one exception users see: a sentence with what was asked, what was found and what
to do.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import sympy as sp

from meanfield.base.answers.export import SHOWN, Result, plain
from meanfield.base.answers.terms import DEEP as DEEP
from meanfield.base.answers.terms import Term as Term
from meanfield.base.answers.terms import of_start as of_start
from meanfield.base.errors import InfiniteAverage as InfiniteAverage
from meanfield.base.errors import MeanFieldError as MeanFieldError
from meanfield.base.errors import NoClosedForm as NoClosedForm
from meanfield.base.errors import Undetermined as Undetermined
from meanfield.base.errors import one_line as one_line

SHOWN.rare(
    {
        "latex of a law": "base.answers.latex",
        "latex of a solution": "base.answers.latex",
        "latex of equations": "base.answers.latex",
        "latex of layers": "base.answers.latex",
        "latex of maps": "base.answers.latex",
        "plot of a law": "base.answers.drawing",
        "plot of layers": "base.answers.drawing",
    }
)


class Status(Enum):
    """How much is known of an answer.

    >>> derive("tanh").fixed_points(sigma_w=1.5, sigma_b=0.2)[0].K.status
    <Status.CERTIFIED: 'certified'>
    """

    EXACT = "exact"  #: proved symbolically
    CERTIFIED = "certified"  #: enclosed in a ball
    MEASURED = "measured"  #: float64 with a measured bound, or an ensemble with a standard error
    DIVERGES = "diverges"  #: grows without bound (the layer is stated)
    NONEXISTENT = "does not exist"
    NOT_UNIQUE = "not unique"
    UNKNOWN = "unknown"


class Equality(Enum):
    """Answer of an `equals` question. Only `PROVED` is a theorem; `TO_30_DIGITS` is strong evidence.

    >>> from meanfield.base.symbols import z
    >>> equal(sp.sin(z)**2 + sp.cos(z)**2, sp.S.One)
    <Equality.PROVED: 'proved equal'>
    """

    PROVED = "proved equal"
    TO_30_DIGITS = "equal to 30 digits"
    DIFFERENT = "different"

    def __bool__(self) -> bool:
        return self is not Equality.DIFFERENT


@dataclass(frozen=True, eq=False)
class Solution(Result):
    """A number with its status: `value`, `error` (absolute, None when exact) and a sentence `message`.

    It counts as its value for Python, NumPy and SymPy, which drop the error: `float(x)`, `x + 1`, `numpy.sqrt(x)`,
    `sympy.sqrt(x)`, `f"{x:.6g}"`. A comparison with a number inside the error raises, for it is undecided.

    >>> half = Solution(sp.Rational(1, 2), Status.EXACT)
    >>> print(float(half), half + 1, half == 0.5, half < 1, f"{half:.3f}", sp.sqrt(half))
    0.5 3/2 True True 0.500 sqrt(2)/2
    """

    value: Any
    status: Status
    error: float | None = None
    message: str = ""

    def data(self) -> Any:
        """{value, float, error, status, message}: value is exact, or all its digits, as text; float a double, None
        where symbols are left or it is infinite; error the radius of a certified one, None where there is none."""
        known = sp.sympify(self.value)
        double = float(known) if known.is_number and known.is_finite else None
        value = plain(known) if known in (sp.nan, sp.oo, -sp.oo) else str(self.value)
        found = {"value": value, "float": double, "error": self.error, "status": self.status.value}
        return found | ({"message": self.message} if self.message else {})

    def latex(self) -> Any:
        """The number as LaTeX for math mode."""
        return SHOWN["latex of a solution"](self)

    def __float__(self) -> float:
        try:
            return float(self.value)
        except TypeError:
            free = ", ".join(sorted(s.name for s in sp.sympify(self.value).free_symbols)) or "no number"
            raise MeanFieldError(
                f"{self.value} depends on {free}, and so is no number; put numbers in with .value.subs(...)."
            ) from None

    def __int__(self) -> int:
        return int(self.value)

    def __format__(self, how: str) -> str:
        return format(float(self), how) if how else str(self)

    def __str__(self) -> str:
        value = sp.sympify(self.value)
        if self.error is None or not value.is_number:
            return str(value)
        size = abs(value)
        if not float(self.error) < math.inf:
            return f"{sp.N(value, 15)} +- inf"
        digits = 15 if not self.error or not size else min(60, max(2, int(sp.floor(sp.log(size / self.error, 10)))))
        return f"{sp.N(value, digits)} +- {float(self.error):.1e}"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy as np

        return np.array(float(self), dtype=dtype)

    def _sympy_(self) -> sp.Expr:
        return sp.sympify(self.value)

    def evalf(self, n: int = 15) -> sp.Expr:
        """The value to n digits (of those that are known)."""
        return sp.N(self.value, n)

    def __hash__(self) -> int:
        try:
            return hash(float(self.value))
        except (TypeError, OverflowError):
            return hash(self.value)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, Solution):
            mine, its = ((x.value, x.status, x.error, x.message) for x in (self, other))
            return mine == its
        if not _is_number(other):
            return NotImplemented
        return float(self) == other if isinstance(other, float) else bool(sp.sympify(self.value) == sp.sympify(other))

    def _compared(self, other: Any, holds: Callable[[Any, Any], Any]) -> Any:
        if not _is_number(other):
            return NotImplemented
        its, room = (other.value, other.error or 0.0) if isinstance(other, Solution) else (other, 0.0)
        gap = sp.sympify(self.value) - sp.sympify(its)
        room += self.error or 0.0
        if room and gap.is_number and abs(gap) <= room:
            raise MeanFieldError(f"Whether {self} lies below or above {other} is undecided inside the error.")
        return bool(holds(gap, 0))

    def __lt__(self, other: Any) -> Any:
        return self._compared(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compared(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compared(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compared(other, operator.ge)

    def _with(self, other: Any, made: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, (int, float, sp.Expr, Solution)):
            return made(sp.sympify(self.value), sp.sympify(other))
        return made(float(self), other) if hasattr(other, "dtype") else NotImplemented

    def __add__(self, other: Any) -> Any:
        return self._with(other, operator.add)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, operator.sub)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, operator.mul)

    def __truediv__(self, other: Any) -> Any:
        return self._with(other, operator.truediv)

    def __pow__(self, other: Any) -> Any:
        return self._with(other, operator.pow)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b - a)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b / a)

    def __rpow__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b**a)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return -sp.sympify(self.value)

    def __abs__(self) -> Any:
        return abs(sp.sympify(self.value))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, sp.Expr, Solution)) or getattr(value, "ndim", None) == 0


@dataclass(frozen=True)
class Estimate(Result):
    """A measured mean with its standard error over `count` independent samples (dimensionless, arrays allowed).

    status: MEASURED, or DIVERGES where layers that were asked for are missing; message: which, and why.

    >>> measured = measure("relu", sigma_w=1.4, sigma_b=0, width=64, depth=3, networks=20)
    >>> measured.K.mean.round(2), measured.K.standard_error.round(2)
    (array([1.9 , 2.11, 2.16]), array([0.07, 0.13, 0.23]))
    >>> measured.K.z(1.96).round(1)
    array([-0.9,  1.2,  0.9])
    """

    mean: Any
    standard_error: Any
    count: int
    status: Status = Status.MEASURED
    message: str = ""

    def z(self, predicted: Any) -> Any:
        """Deviation from a prediction in standard errors."""
        import numpy as np

        difference = np.asarray(self.mean - predicted, dtype=float)
        # a quantity that is the same in every network (J at its first layer) has standard error 0: z is 0 if it agrees,
        # infinite if not
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(difference == 0, 0.0, difference / np.asarray(self.standard_error, dtype=float))[()]
