"""Maps whose averages have a parameter that moves with K, the mean or the scale of a LayerNorm on activations: no ball
encloses these where K is not one number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.numeric.lowering.assembly import lower
from meanfield.numeric.phases.maps.float_maps import FloatMap, Mapped, Numbers, layer, stepped
from meanfield.numeric.phases.maps.scalar_map import EnclosedMap, Values
from meanfield.numeric.phases.phase_grids import GRID
from meanfield.symbolic.criticality.phases import Phase, moves_with_K
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoints, start_of

ERROR = 1e-10  # relative, of averages whose parameters move: that of phase diagrams
WHY = "in float64 along a grid of K; averages whose mean and scale move with K are not enclosed"
OF_SEVERAL = "in float64 along a grid of K: averages over several Gaussians are known as doubles, and not enclosed"


@dataclass(frozen=True)
class MovingMap(FloatMap, EnclosedMap):
    """Such a map: fixed points and phases are those of its values."""

    is_enclosed = False

    @property
    def why(self) -> str:  # type: ignore[override]
        return OF_SEVERAL if self.recursion.only_floats else WHY

    @cached_property
    def points(self) -> np.ndarray:
        return GRID[0.9 * lower(self.recursion).limit > GRID]

    @cached_property
    def error(self) -> float:
        return max(super().error, ERROR)

    def at(self, K: np.ndarray, numbers: Numbers) -> Mapped:
        following, slope, chi_J = layer(self.recursion, K, numbers)
        return Mapped(following, slope, chi_J, following * self.error, chi_J * self.error)

    def next_K(self, K: np.ndarray, numbers: Numbers) -> np.ndarray:
        return stepped(self.recursion, K, numbers)[0]

    def fixed_points(self, values: Values, units: Mapping[str, Any]) -> FixedPoints:
        """By its values; where only χ_J moves so (a norm ends the block), those of an enclosed map."""
        own = self.recursion.only("K")
        moves = own.only_floats or moves_with_K(own)
        return (FloatMap if moves else EnclosedMap).fixed_points(self, values, units)

    def phase(self, values: Values, norm: sp.Expr, units: Mapping[str, Any]) -> Phase:
        first = start_of(self.recursion, self.known(values) | {"Q0": norm})
        if first.is_number and not first < self.points[-1]:
            raise MeanFieldError(
                f"K¹ = {float(first):.3g} was asked for, and K is followed up to {self.points[-1]:.0e} only."
            )
        return super().phase(values, norm, units)
