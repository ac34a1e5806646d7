"""What solvers and ensembles return: a value never leaves them without its error or its status.

`MeanFieldError` is the one exception users see: a sentence saying what was asked, what was found and what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class MeanFieldError(ValueError):
    """A request that cannot be answered, said in one sentence for the person at the call site."""


class NoClosedForm(MeanFieldError):
    """The rule for closed forms does not reach this average; the message says which factor stops it."""


class InfiniteAverage(MeanFieldError):
    """The average does not exist or is infinite (the square of a jump's derivative, a tail heavier than a Gaussian)."""


class Status(Enum):
    """How much is known of an answer."""

    EXACT = "exact"                    #: proved symbolically
    CERTIFIED = "certified"            #: enclosed in a ball
    MEASURED = "measured"              #: float64 with a measured bound, or an ensemble with a standard error
    DIVERGES = "diverges"              #: grows without bound (the layer is stated)
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
        return (self.mean - predicted) / self.standard_error
