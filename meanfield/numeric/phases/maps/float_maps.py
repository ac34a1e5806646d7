"""Maps that are known as doubles alone: fixed points and phases by their values along a grid of K, MEASURED.

A kind of such a map says what K, its slope and χ_J become (`at`), and how far these may be wrong. A pair of fixed
points within one step of the grid is not seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Solution, Status
from meanfield.numeric.lowering.assembly import lower
from meanfield.numeric.phases.float_roots import between
from meanfield.numeric.phases.maps.scalar_map import ScalarMap, Values
from meanfield.symbolic.criticality.phases import Phase, phase_among
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoint, FixedPoints, start_of
from meanfield.symbolic.recursion import Recursion

FLAT = 1e-12  # of K'/K - 1: less counts as 0
BEYOND = 1e-4  # absolute error of χ_J at the last place, taken for that of all larger K
Numbers = Mapping[str, float]


@dataclass(frozen=True)
class Mapped:
    """What a map makes of an array of K: K′, its slope χ_K and χ_J, and the absolute errors of K′ and χ_J."""

    K: np.ndarray
    chi_K: np.ndarray
    chi_J: np.ndarray
    error: np.ndarray
    error_J: np.ndarray


def stepped(recursion: Recursion, K: np.ndarray, numbers: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """(K′, χ_J) of a lowered recursion of (K, J) at an array of K > 0; 0 for a number that is not given."""
    lowered = lower(recursion)
    state = np.zeros((K.size, len(recursion.state)))  # log J = 0
    state[:, recursion.index("K")] = K.ravel()
    sigma = np.array([np.full(K.size, numbers.get(n, 0.0)) for n in lowered.parameters])
    after = lowered.step(state, sigma).reshape(*K.shape, -1)
    return after[..., recursion.index("K")], np.exp(after[..., recursion.index("J")])


def layer(recursion: Recursion, K: np.ndarray, numbers: Numbers) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(K′, its slope, χ_J), as `stepped`."""
    h, K = 1e-3, np.asarray(K, dtype=float)
    F, X = stepped(recursion, np.stack([K * (1 + k * h) for k in (-2, -1, 0, 1, 2)]), numbers)
    return F[2], (8 * (F[3] - F[1]) - (F[4] - F[0])) / (12 * h * K), X[2]


class FloatMap(ScalarMap):
    """A map that is known by its values; `why`: what answers say of that."""

    why = "in float64 along a grid of K: nothing encloses its values"

    @property
    def points(self) -> np.ndarray:
        """The K, by size, between which a change of sign of K′ - K is looked for."""
        raise NotImplementedError

    @cached_property
    def error(self) -> float:
        """How far averages are off, relative."""
        return max(lower(self.recursion).errors, default=0.0) + 1e-13

    def at(self, K: np.ndarray, numbers: Numbers) -> Mapped:
        """The map at an array of K > 0, with numbers for its parameters."""
        raise NotImplementedError

    def next_K(self, K: np.ndarray, numbers: Numbers) -> np.ndarray:
        """K′ alone, which a search for fixed points asks for."""
        return self.at(K, numbers).K

    def keeps_zero(self, numbers: Numbers) -> bool:
        """Whether K = 0 is a fixed point, as far as floats see."""
        return False

    def require(self, what: str) -> None:
        """Refuse a map that changes from layer to layer; `what` needs it to stay."""
        self.recursion.homogeneous(what, enclosed=False)

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.recursion.parameters if p.name not in ("Q0", "c0"))

    def fixed_points(self, values: Values, units: Mapping[str, Any]) -> FixedPoints:
        """Every fixed point that the grid shows."""
        self.require("Fixed points are")
        return self._points(self._numbers(values))

    def phase(self, values: Values, norm: sp.Expr, units: Mapping[str, Any]) -> Phase:
        self.require("The phase is")
        numbers = self._numbers(values)
        first = float(start_of(self.recursion, self.known(values) | {"Q0": norm}))
        found = self._points(numbers)
        point = found.reached_from(sp.Float(first, 17))
        if point is None:
            beyond = self._value(float(self.at(self.points[-1:], numbers).chi_J[0]), BEYOND)
            return phase_among(found, None, beyond)
        return phase_among(found, point, point.chi_J)

    def _numbers(self, values: Values) -> dict[str, float]:
        missing = [n for n in self.parameters if n not in values or not values[n].is_number]
        if missing:
            raise MeanFieldError(f"The limit of K is not known: give {' and '.join(missing)} a value.")
        return {n: float(values[n]) for n in self.parameters}

    def _points(self, numbers: Numbers) -> FixedPoints:
        points = self.points
        gain = self.next_K(points, numbers) / points - 1
        signs = (gain > FLAT).astype(int) - (gain < -FLAT).astype(int)
        found: list[tuple[FixedPoint, float]] = []
        if self.keeps_zero(numbers):
            zero = Solution(sp.S.Zero, Status.MEASURED, None, self.why)
            first = self.at(points[:1], numbers)
            chi_J, chi_K = (self._value(float(chi[0]), 10 * self.error) for chi in (first.chi_J, first.chi_K))
            found.append((FixedPoint(zero, chi_J, chi_K, "stable" if signs[0] < 0 else "unstable"), 0.0))
        for i, j in pairwise(map(int, np.flatnonzero(signs))):
            if signs[i] != signs[j]:
                point = self._between(float(points[i]), float(points[j]), int(signs[i]), numbers)
                found.append((point, float(point.K.value)))
        kept, ends = [], [sp.S.Zero, *[point.K.value for point, k in found if k], sp.oo]
        start = 1 if not found or found[0][1] else 0  # K* = 0 is the first end itself
        for n, (point, _) in enumerate(found, start):
            basin = (ends[max(n - 1, 0)], ends[n + 1]) if point.stability == "stable" else None
            kept.append(FixedPoint(point.K, point.chi_J, point.chi_K, point.stability, basin))
        free = (ends[-2], sp.oo) if signs[-1] > 0 else None
        return FixedPoints(tuple(kept), Status.MEASURED, self.why, free)

    def _between(self, low: float, high: float, sign: int, numbers: Numbers) -> FixedPoint:
        """The fixed point between two K, above the first of which K′ - K has this sign."""

        def gain(log_K: float) -> float:
            k = math.exp(log_K)
            return float(self.next_K(np.array([k]), numbers)[0]) / k - 1

        K = math.exp(between(gain, math.log(low), math.log(high)))
        here = self.at(np.array([K]), numbers)
        chi_K, chi_J, error = float(here.chi_K[0]), float(here.chi_J[0]), float(here.error[0])
        off = error / max(abs(1 - chi_K), 1e-12)
        near = float(self.at(np.array([K + min(off, 0.1 * K)]), numbers).chi_J[0]) if off else chi_J
        return FixedPoint(
            self._value(K, off),
            self._value(chi_J, float(here.error_J[0]) + abs(near - chi_J)),
            self._value(chi_K, 10 * max(self.error * abs(chi_K), error / K)),
            "stable" if sign > 0 else "unstable",
        )

    def _value(self, value: float, error: float) -> Solution:
        if not math.isfinite(value):  # φ jumps
            return Solution(sp.oo if value > 0 else sp.nan, Status.MEASURED, None, self.why)
        return Solution(sp.Float(value, 17), Status.MEASURED, error, self.why)
