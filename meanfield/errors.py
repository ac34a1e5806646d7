"""What is raised, and how records show themselves: nothing here needs SymPy or NumPy."""

from __future__ import annotations

import re


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
