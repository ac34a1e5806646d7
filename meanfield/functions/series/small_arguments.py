"""Smooth functions that lose their digits in floats near 0, as polynomials there: exp(z) - 1 is 0 below 1e-16.

A formula is compared with itself in many digits at small arguments. Where doubles miss it, its Taylor series stands in
its place as far as that is exact, which is measured in many digits, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import mpmath as mp
import sympy as sp
from flint import arb

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.precision import bits, decimals
from meanfield.base.symbols import Z
from meanfield.functions import balls
from meanfield.functions.elementary import mpmath_functions
from meanfield.functions.series.ball_series import ball_series, coefficients

if TYPE_CHECKING:
    import numpy as np

PROBES = (1.03e-2, 2.3e-4, 1.7e-7, 1.3e-11, 3.1e-20, 1.9e-60)  # where formulas are tried, on both sides
LOST = 4e-15  # a relative error in doubles beyond which the formula is not used near 0
DIGITS, BITS = 120, 500  # of the values, and of the balls of the series
REACHES = (1.0, 0.5, 0.25, 0.125, 2.0**-5, 2.0**-7, 2.0**-10)  # up to which a polynomial may serve
TERMS = 40
EXACT = 2e-17  # what it may miss there, relative
NOTHING = arb(10) ** -90  # a coefficient whose ball lies inside is 0


@dataclass(frozen=True)
class Small:
    """z^order Σ_k coefficients[k] z^k for |z| < reach."""

    order: int
    coefficients: tuple[float, ...]
    reach: float

    def code(self, z: str = "z") -> str:
        """Python text of the polynomial in a variable."""
        text = repr(self.coefficients[-1])
        for c in reversed(self.coefficients[:-1]):
            text = f"{c!r} + {z} * ({text})" if c else f"{z} * ({text})"
        return " * ".join([z] * self.order + [f"({text})"])

    def __call__(self, x: np.ndarray) -> np.ndarray:
        import numpy as np  # the polynomial itself is found without it

        values: np.ndarray = x**self.order * np.polynomial.polynomial.polyval(x, np.array(self.coefficients))
        return values


@lru_cache(maxsize=2048)
def small_arguments(f: sp.Expr) -> Small | None:
    """What stands for a function of Z[0] near 0; None where the formula keeps its digits, or is not analytic there.

    Accuracy: `EXACT` relative, measured against 120 digits at the end of its reach and inside.

    >>> found = small_arguments(sp.exp(Z[0]) - 1)
    >>> found.order, found.coefficients[:3], small_arguments(sp.tanh(Z[0]))
    (1, (1.0, 0.5, 0.16666666666666666), None)
    """
    if f.free_symbols != {Z[0]}:
        return None
    function = sp.lambdify(Z[0], f, [dict(mpmath_functions()), "mpmath"])
    if not _loses(function):
        return None
    with balls.precision(BITS):
        series = next((s for shift in (0, 1, 2, 4) if (s := _series(f, shift)) is not None), None)
        if series is None:
            return None
        exact = [mp.mpf(0) if abs(c) < NOTHING else _number(c) for c in series]
    order = next((k for k, c in enumerate(exact) if c), None)
    if order is None:
        return None
    return next((m for r in REACHES if (m := _served(function, exact, order, r)) is not None), None)


def _series(f: sp.Expr, shift: int) -> list[arb] | None:
    """The coefficients of f from those of f z^shift, which divides by nothing that is 0; None where there are none."""
    try:
        found = coefficients(ball_series(sp.expand(f * Z[0] ** shift)), arb(0), TERMS + shift)
    except MeanFieldError:
        return None
    if found is None or not all(c.is_finite() for c in found) or any(not abs(c) < NOTHING for c in found[:shift]):
        return None
    return found[shift:]


def _number(ball: arb) -> Any:
    with decimals(DIGITS):
        return mp.mpf(ball.mid().str(DIGITS, radius=False))


def _value(function: Callable[[Any], Any], z: Any) -> Any:
    """The function at a place; nan where it has no value."""
    try:
        return mp.mpmathify(function(z))
    except (ValueError, ZeroDivisionError, OverflowError, TypeError, ArithmeticError, mp.libmp.NoConvergence):
        return mp.nan


def _loses(function: Callable[[Any], Any]) -> bool:
    for probe in PROBES:
        for z in (probe, -probe):
            with decimals(DIGITS):
                true = _value(function, mp.mpf(z))
            if mp.im(true) != 0 or not mp.isfinite(true):
                continue  # the other side of a square root: another piece is there
            with bits(53):
                rounded = _value(function, mp.mpf(z))
            if not mp.isfinite(rounded) or abs(rounded - true) > LOST * abs(true):
                return True
    return False


def _served(function: Callable[[Any], Any], exact: list[Any], order: int, reach: float) -> Small | None:
    """The polynomial up to `reach`; None where it is not exact there."""
    with decimals(DIGITS):
        lead = abs(exact[order])
        last = max(k for k, c in enumerate(exact) if k >= order and abs(c) * reach ** (k - order) > EXACT / 100 * lead)
        cut = exact[: last + 1]
        for part in (1, 0.7, 0.31, 0.05, 1e-3, 1e-9):
            for z in (mp.mpf(part * reach), -mp.mpf(part * reach)):
                true = _value(function, z)
                if not mp.isfinite(true) or abs(mp.polyval(cut[::-1], z) - true) > EXACT * abs(true):
                    return None
    return Small(order, tuple(map(float, cut[order:])), reach)
