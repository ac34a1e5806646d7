"""Limits of size and time: what is refused before it starts, and what stops in a sentence instead of running on.

A limit that is met raises `MeanFieldError` with the size that was asked for, the limit, and what to do. Both limits can
be set from outside: MEANFIELD_MEMORY (bytes, also "8e9" or "8GB") and MEANFIELD_SECONDS.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from meanfield.errors import MeanFieldError

MEMORY = 4 * 2**30  # bytes of arrays that one call may allocate
SECONDS = 300.0  # of symbolic and certified work in one call
STEPS = 10**11  # layers × points that one compiled run may take: hours on one core
UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_clock = threading.local()


def require_memory(size: float, what: str, instead: str) -> None:
    """Refuse arrays of `size` bytes in all where they exceed the limit; nothing has been allocated yet.

    what: what was asked for, as the subject of the sentence; instead: what to do.
    """
    limit = _from_environment("MEANFIELD_MEMORY", MEMORY, UNITS)
    if size > limit:
        raise MeanFieldError(
            f"{what} would take about {_bytes(size)} of memory, and the limit is {_bytes(limit)}; {instead}, or set "
            "MEANFIELD_MEMORY to more."
        )


def require_steps(steps: int, what: str) -> None:
    """Refuse a compiled run of more than `STEPS` layers × points, which nothing could stop before its end."""
    if steps > STEPS:
        raise MeanFieldError(
            f"{what} would take {steps:.3g} steps (layers × points), and at most {STEPS:.0e} are taken in one call; "
            "ask for fewer layers or points."
        )


@contextmanager
def deadline() -> Iterator[None]:
    """Work inside gets at most MEANFIELD_SECONDS; only the outermost of nested deadlines counts.

    The clock is asked by `tick`, which the loops that integrate, subdivide and try rewritings call: the work stops
    there, in the thread that does it, with nothing half done.
    """
    if getattr(_clock, "end", None) is not None:
        yield
        return
    _clock.limit = _from_environment("MEANFIELD_SECONDS", SECONDS)
    _clock.end = time.monotonic() + _clock.limit
    try:
        yield
    except _TimeIsOver:
        raise MeanFieldError(
            f"The answer was not found within {_clock.limit:g} seconds; take a simpler formula or architecture, or set "
            "MEANFIELD_SECONDS to more."
        ) from None
    finally:
        _clock.end = None


class _TimeIsOver(BaseException):
    """Passes every `except MeanFieldError` on its way out: time that is over is no fact about a formula."""


def tick() -> None:
    """Stop in a sentence where the deadline of this thread has passed; costs some 100 ns."""
    end = getattr(_clock, "end", None)
    if end is not None and time.monotonic() > end:
        raise _TimeIsOver


def _from_environment(name: str, default: float, units: dict[str, int] | None = None) -> float:
    text = os.environ.get(name, "").strip().lower()
    if not text:
        return default
    number = text.rstrip("bgkmt") if units else text
    try:
        value = float(number) * (units or {"": 1})[text[len(number) :].strip()]
    except (ValueError, KeyError):
        value = float("nan")
    if not value > 0:
        more = ' such as 8e9 or "8GB"' if units else ""
        raise MeanFieldError(f"The environment variable {name} must be a number > 0{more}, but {text!r} is set.")
    return value


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
