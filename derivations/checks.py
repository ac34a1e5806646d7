"""Numbers: acceptance values of a paper's specification, each computed by the engine.

A `Check` holds the published (or independently computed) values and a function of `off` that computes them; off = 0 is
the engine's answer, off = 1/100 the same with a planted error of one per cent in what the engine is given: in σ_w, in
K, c, … where there is no σ_w, in φ where there is no number. It must miss the values by more than the tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp


@dataclass(frozen=True)
class Check:
    """Values that the engine must reproduce within `tolerance` (relative to each value unless `absolute`)."""

    line: str
    name: str
    expected: tuple[float, ...]
    tolerance: float
    compute: Callable[[sp.Rational], Sequence[float]]
    absolute: bool = False

    def found(self, off: object = 0) -> np.ndarray:
        """What the engine gives."""
        return np.atleast_1d(np.asarray(self.compute(sp.Rational(off)), dtype=float))

    def misses(self, off: object = 0) -> float:
        """The largest deviation in units of the tolerance: ≤ 1 agrees."""
        return self.deviation(self.found(off))

    def deviation(self, found: np.ndarray) -> float:
        size = 1.0 if self.absolute else np.maximum(np.abs(self.expected), self.tolerance)
        return float(np.max(np.abs(found - self.expected) / (self.tolerance * size)))


def leaky(off: object) -> str:
    """ReLU, with a slope `off` below 0 as a planted error: for numbers in which φ is all there is."""
    return f"leaky_relu({float(sp.Rational(off))})" if off else "relu"


def root(square: object) -> sp.Expr:
    """The standard deviation of a variance given as decimal text."""
    return sp.sqrt(sp.Rational(str(square)))
