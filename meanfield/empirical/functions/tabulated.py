"""φ from a table of its values: what a function that nothing reads is to a finite network.

Cubic polynomials through four neighbouring points, φ′ their derivative, straight lines beyond the ends: of a smooth φ
right to 1e-9, at a kink to a fraction of the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.functions.registry import ScalarPair

REACH, STEP = 24.0, 1.0 / 256  # the table covers [-REACH, REACH]
JUMP = 0.05  # between two points of a table: φ jumps there, or is too steep for one


@dataclass(frozen=True)
class Tabulated:
    """A function of which a network knows values alone; error: how far the table is off between its points, of 1 +
    |φ|."""

    name: str
    error: float

    def __str__(self) -> str:
        return f"{self.name} (a table of its values, to {self.error:.1g})"


def tabulated(name: str, values_of: Callable[[Any], Any]) -> tuple[Tabulated, ScalarPair]:
    """(what is known of a function, φ and φ′ from its table); values_of: its values at an array of points.

    Raises: MeanFieldError where a value is not finite.
    """
    half = int(REACH / STEP)
    at = np.arange(-half - 1, half + 2) * STEP
    table, between = (np.asarray(values_of(x), dtype=float) for x in (at, at[:-1] + STEP / 2))
    if not (np.isfinite(table).all() and np.isfinite(between).all()):
        raise MeanFieldError(f"{name} is not finite on all of [-{REACH:g}, {REACH:g}], so no network can hold it.")
    pair = ScalarPair.from_sources(*sources(table), continuous=bool(np.abs(np.diff(table)).max() < JUMP))
    phi = next(iter(pair))
    error = np.abs(np.array([phi(x) for x in at[1:-2] + STEP / 2]) - between[1:-1]) / (1 + np.abs(between[1:-1]))
    return Tabulated(name, float(error.max())), pair


def sources(table: np.ndarray) -> tuple[str, str]:
    """Python text of φ and φ′ of a table whose second point lies at -REACH."""
    head = f"T = np.array({table.tolist()})\n@njit\ndef f(z):\n"
    head += f"    x = min(max(z, {-REACH!r}), {REACH!r})\n"
    head += f"    i = min(int((x + {REACH!r}) / {STEP!r}), {len(table) - 4})\n"
    head += f"    u = (x + {REACH!r}) / {STEP!r} - i\n    a, b, c, d = T[i], T[i + 1], T[i + 2], T[i + 3]\n"
    head += "    p, q, r = (d - a) / 6 + (b - c) / 2, (a + c) / 2 - b, c - a / 3 - b / 2 - d / 6\n"
    slope = f"((3 * p * u + 2 * q) * u + r) / {STEP!r}"
    return head + f"    return ((p * u + q) * u + r) * u + b + (z - x) * {slope}\n", head + f"    return {slope}\n"
