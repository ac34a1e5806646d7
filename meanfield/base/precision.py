"""Digits of mpmath, one thread at a time.

mpmath has one precision for the whole process. Of two threads that change it, the first to end puts back what was
before while the other still computes, and that one, when it ends, leaves the first one's digits behind: a rule of
quadrature made then, and kept, is off in its last digit. So who changes the precision holds a lock until it is put
back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import mpmath

_CHANGED = RLock()


@contextmanager
def decimals(digits: int) -> Iterator[None]:
    """So many decimal digits inside: `mpmath.workdps`.

    >>> with decimals(30):
    ...     print(mpmath.sqrt(2))
    1.41421356237309504880168872421
    """
    with _CHANGED, mpmath.workdps(digits):
        yield


@contextmanager
def bits(precision: int) -> Iterator[None]:
    """So many bits inside: `mpmath.workprec`."""
    with _CHANGED, mpmath.workprec(precision):
        yield
