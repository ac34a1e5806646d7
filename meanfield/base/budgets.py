"""Limits of size and time: what is refused before it starts, and what stops in a sentence instead of running on.

A limit that is met raises `MeanFieldError` with the size that was asked for, the limit, and what to do. Both limits can
be set from outside: MEANFIELD_MEMORY (bytes, also "8e9" or "8GB") and MEANFIELD_SECONDS (of CPU time).
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, ParamSpec, TypeVar

from meanfield.base.errors import MeanFieldError

MEMORY = 4 * 2**30  # bytes of arrays that one call may allocate
SECONDS = 300.0  # of CPU time of symbolic and certified work in one call
PATIENCE = 10  # times as long it may take on the clock, where a machine is busy
SOONEST = 1e-3  # seconds on the clock between two looks at the threads' own
STEPS = 10**11  # layers × points that one compiled run may take: hours on one core
UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
P = ParamSpec("P")
R = TypeVar("R")


def require_memory(size: float, what: str, instead: str) -> None:
    """Refuse arrays of `size` bytes in all where they exceed the limit; nothing has been allocated yet.

    what: what was asked for, as the subject of the sentence; instead: what to do.
    """
    limit = memory_limit()
    if size > limit:
        raise MeanFieldError(
            f"{what} would take about {_bytes(size)} of memory, and the limit is {_bytes(limit)}; {instead}, or set "
            "MEANFIELD_MEMORY to more."
        )


def memory_limit() -> float:
    """Bytes of arrays that one call may allocate."""
    return _from_environment("MEANFIELD_MEMORY", MEMORY, UNITS)


def require_steps(steps: int, what: str) -> None:
    """Refuse a compiled run of more than `STEPS` layers × points, which nothing could stop before its end."""
    if steps > STEPS:
        raise MeanFieldError(
            f"{what} would take {steps:.3g} steps (layers × points), and at most {STEPS:.0e} are taken in one call; "
            "ask for fewer layers or points."
        )


def require_seconds(seconds: float, what: str, instead: str) -> None:
    """Refuse work of so many seconds, of which nothing looks at the clock, where they exceed MEANFIELD_SECONDS.

    what: what was asked for, as the subject of the sentence; instead: what to do.
    """
    limit = _from_environment("MEANFIELD_SECONDS", SECONDS)
    if seconds > limit:
        raise MeanFieldError(
            f"{what} would take about {seconds:.3g} seconds, and the limit is {limit:g}; {instead}, or set "
            "MEANFIELD_SECONDS to more."
        )


@contextmanager
def deadline() -> Iterator[None]:
    """Work inside gets at most MEANFIELD_SECONDS of CPU time, and `PATIENCE` times that on the clock; only the
    outermost of nested deadlines counts.

    Counted is the time of this thread, and of those that work for it (`counted`): neither other processes, nor other
    threads of this one, take any of it. The time is asked by `tick`, which the loops that integrate, subdivide and try
    rewritings call: the work stops there, in the thread that does it, with nothing half done.
    """
    if _own.allowance is not None:
        yield
        return
    allowance = _own.allowance = _Allowance(_from_environment("MEANFIELD_SECONDS", SECONDS))
    try:
        with allowance.worker():
            yield
    except _TimeIsOver:
        raise MeanFieldError(allowance.sentence()) from None
    finally:
        _own.allowance = None


class _TimeIsOver(BaseException):
    """Passes every `except MeanFieldError` on its way out: time that is over is no fact about a formula."""


class _Allowance:
    """The seconds of one call, and what its threads have spent of them."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._began = _clock()
        self._lock = threading.Lock()
        self._spent: dict[int, float] = {}  # CPU seconds by worker, of those that have ended, too
        self._at_work = 0
        self.range: tuple[Any, Any] | None = None  # of K, in which a search has been
        self._next = self._began  # on the clock: before that no limit can have been met

    @contextmanager
    def worker(self) -> Iterator[None]:
        """What this thread does inside is counted."""
        with self._lock:
            number = len(self._spent)
            self._spent[number] = 0.0
            self._at_work += 1
            self._next = _clock()  # with more threads the time may be over sooner
        began = _cpu_time()
        _own.book = lambda: self._spent.__setitem__(number, _cpu_time() - began)
        try:
            yield
        finally:
            _own.book()
            _own.book = _nothing
            with self._lock:
                self._at_work -= 1

    def check(self) -> None:
        """Raise where a limit is met. The threads' own clocks cost a system call, and are asked when they can matter:
        CPU time passes no faster than the clock's time by the number of threads."""
        now = _clock()
        if now < self._next:
            return
        _own.book()
        with self._lock:
            left = self.limit - sum(self._spent.values())
            left_on_clock = self._began + PATIENCE * self.limit - now
            if left <= 0 or left_on_clock <= 0:
                raise _TimeIsOver
            self._next = now + min(max(left / max(1, self._at_work), SOONEST), left_on_clock)

    def sentence(self) -> str:
        """What was spent, and how to go on."""
        cpu, clock = sum(self._spent.values()), _clock() - self._began
        spent = f"{cpu:.3g} seconds of CPU time were spent in {clock:.3g} on the clock"
        if self.range is not None:
            low, high = (Decimal(int(k.numerator)) / Decimal(int(k.denominator)) for k in self.range)
            spent += f", after a search had looked at K from {low:.3g} to {high:.3g}"
        if cpu < self.limit:
            return (
                f"The answer was not found within {PATIENCE * self.limit:g} seconds on the clock, {PATIENCE} times the "
                f"limit of CPU time: {spent}, as on a machine that is busy; try again when it is not, take a simpler "
                "formula or architecture, or set MEANFIELD_SECONDS to more."
            )
        return (
            f"The answer was not found within {self.limit:g} seconds of CPU time: {spent}; take a simpler formula or "
            "architecture, or set MEANFIELD_SECONDS to more."
        )


class _Own(threading.local):
    """Of one thread: the allowance of the call it works for, and how its own time is booked there."""

    allowance: _Allowance | None = None
    book: Callable[[], None]


def _nothing() -> None:
    """What is booked outside of a call."""


_own = _Own()
_clock = time.monotonic
_cpu_time = getattr(time, "thread_time", time.process_time)
if hasattr(os, "register_at_fork"):  # a process that is forked inside a call works for calls of its own
    os.register_at_fork(after_in_child=lambda: setattr(_own, "allowance", None))


def counted(work: Callable[P, R]) -> Callable[P, R]:
    """`work` for a thread that works for this call: what it takes is the call's, and stops where that stops."""
    allowance = _own.allowance

    @functools.wraps(work)
    def inside(*args: P.args, **settings: P.kwargs) -> R:
        if allowance is None or _own.allowance is not None:
            return work(*args, **settings)
        _own.allowance = allowance
        try:
            with allowance.worker():
                return work(*args, **settings)
        finally:
            _own.allowance = None

    return inside


def tick() -> None:
    """Stop in a sentence where the deadline of this call has passed; costs a few hundred ns."""
    if _own.allowance is not None:
        _own.allowance.check()


def searched(k: Any) -> None:
    """Note that a search along K has been at this rational one, for the sentence that ends it where time is over."""
    if (allowance := _own.allowance) is not None:
        low, high = allowance.range or (k, k)
        allowance.range = min(low, k), max(high, k)


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
