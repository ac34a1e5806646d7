"""Zeros of functions of floats: changes of sign between given points, each made exact by SciPy's root finder."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

TO_ROUNDING = {"xtol": 1e-15, "rtol": 8.9e-16}  # the least that SciPy takes
FAR = 1e3  # stands for ∞, of which an interpolation could use the sign alone


def between(f: Callable[[float], float], low: float, high: float) -> float:
    """The zero of a function that changes its sign between two points, to rounding.

    >>> f"{between(lambda x: x**2 - 2, 1, 2):.15f}"
    '1.414213562373095'
    """
    from scipy.optimize import brentq

    return float(brentq(f, low, high, **TO_ROUNDING))


def sides(f: Callable[[float], float], inside: float, outside: float, xtol: float = 1e-12) -> tuple[float, float]:
    """The two points next to a change of sign, the one with f ≤ 0 first, to xtol in log₂; both are > 0. Places where f
    is > 0, ∞ or no number are outside.

    SciPy's root is one number on either side of the change. This remembers what was asked, because a budget is kept on
    one side only, and because where f jumps neither side is a root.

    >>> low, high = sides(lambda x: x**2 - 2 if x < 1.25 else math.inf, 1, 4)
    >>> low < 1.25 <= high, f"{high - low:.0e}"
    (True, '4e-13')
    """
    from scipy.optimize import brentq

    found = [inside, outside]
    given = {math.log2(x): x for x in found}  # 2^log₂ x is not always x

    def asked(u: float) -> float:
        x = given.get(u) or math.exp2(u)
        value = f(x)
        if value <= 0:
            found[0] = x
            return max(value, -FAR) or -1e-300  # a zero would end the search with the other side far away
        found[1] = x
        return value if value < FAR else FAR

    brentq(asked, *given, xtol=xtol, rtol=TO_ROUNDING["rtol"])
    return found[0], found[1]


def zeros(f: Callable[[np.ndarray], np.ndarray], places: np.ndarray) -> np.ndarray:
    """Every zero of a function of arrays that its signs at these points show, by size; a pair between two neighbours is
    not seen. Places where f is 0 are zeros, too; what is not a number has no sign.

    >>> zeros(lambda x: (x - 1) * (x - 2.5), np.arange(5.0)).tolist()
    [1.0, 2.5]
    """
    values = np.asarray(f(places), dtype=float)
    signs = np.sign(values)
    crossed = np.flatnonzero(signs[:-1] * signs[1:] < 0)

    def one(x: float) -> float:
        return float(np.asarray(f(np.array([x])))[0])

    inner = [between(one, float(places[i]), float(places[i + 1])) for i in crossed]
    return np.sort(np.array([*inner, *places[values == 0]]))
