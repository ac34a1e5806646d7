"""Zeros of functions of floats: changes of sign between given places, each made exact by SciPy's root finder."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

TO_ROUNDING = {"xtol": 1e-15, "rtol": 8.9e-16}  # the least that SciPy takes


def between(f: Callable[[float], float], low: float, high: float) -> float:
    """The zero of a function that changes its sign between two places, to rounding.

    >>> f"{between(lambda x: x**2 - 2, 1, 2):.15f}"
    '1.414213562373095'
    """
    from scipy.optimize import brentq

    return float(brentq(f, low, high, **TO_ROUNDING))


def zeros(f: Callable[[np.ndarray], np.ndarray], places: np.ndarray) -> np.ndarray:
    """Every zero of a function of arrays that its signs at these places show, by size; a pair between two neighbours is
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
