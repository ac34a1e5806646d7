"""Maps whose averages have a parameter that moves with K, the mean or the scale of a LayerNorm on activations: no ball
encloses these where K is not one number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Solution, Status
from meanfield.numeric.lowering.assembly import lower
from meanfield.numeric.phases.maps.float_maps import FloatMap, Mapped, Numbers, layer
from meanfield.numeric.phases.maps.scalar_map import EnclosedMap, Values
from meanfield.numeric.phases.phase_grids import GRID
from meanfield.symbolic.criticality.phases import Phase, moves_with_K
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoint, FixedPoints, start_of
from meanfield.symbolic.fixed_points.marginality import phase_of

ERROR = 1e-10  # of K* and χ_J*, relative: that of phase diagrams
WHY = "in float64 along a grid of K; averages whose mean and scale move with K are not enclosed"


@dataclass(frozen=True)
class MovingMap(FloatMap, EnclosedMap):
    """Such a map: phases are those that diagrams find, fixed points those of its values."""

    is_enclosed = False
    why = WHY

    @cached_property
    def places(self) -> np.ndarray:
        return GRID[0.9 * lower(self.recursion).limit > GRID]

    def at(self, K: np.ndarray, numbers: Numbers) -> Mapped:
        following, slope, chi_J = layer(self.recursion, K, numbers)
        return Mapped(following, slope, chi_J, following * self.error, chi_J * self.error)

    def fixed_points(self, values: Values, units: Mapping[str, Any]) -> FixedPoints:
        """By its values; where only χ_J moves so (a norm ends the block), those of an enclosed map."""
        moves = moves_with_K(self.recursion.only("K"))
        return (FloatMap if moves else EnclosedMap).fixed_points(self, values, units)

    def phase(self, values: Values, norm: sp.Expr, units: Mapping[str, Any]) -> Phase:
        """The phase of a diagram of one point, MEASURED.

        Raises: MeanFieldError where K¹ lies beyond the grid of K, or φ jumps.
        """
        compiled = self.grid()
        missing = [n for n in compiled.parameters if n not in values or not values[n].is_number]
        if missing:
            raise MeanFieldError(f"The phase is not available: give {' and '.join(missing)} a value.")
        sigma = np.array([[float(values[n])] for n in compiled.parameters])
        first = float(start_of(self.recursion, self.known(values) | {"Q0": norm}))
        if not first < GRID[-1]:
            raise MeanFieldError(f"K¹ = {first:.3g} was asked for, and K is followed up to {GRID[-1]:.0e} only.")
        found, slope, attractors = compiled.run(np.array([max(first, GRID[0])]), sigma)
        K_star, chi_J = float(found[0]), _measured(float(slope[0]))
        several = bool(attractors[0] > 1)
        if not math.isfinite(K_star):
            return Phase(phase_of(chi_J), None, chi_J, several, Status.MEASURED, WHY)
        unknown = Solution(sp.nan, Status.UNKNOWN, None, "not measured")
        point = FixedPoint(_measured(K_star), chi_J, unknown, "stable")
        return Phase(phase_of(chi_J), point, chi_J, several, Status.MEASURED, WHY)


def _measured(value: float) -> Solution:
    if not math.isfinite(value):
        return Solution(sp.oo if value > 0 else sp.nan, Status.MEASURED, None, WHY)
    return Solution(sp.Float(value, 17), Status.MEASURED, ERROR * max(abs(value), 1e-300), WHY)
