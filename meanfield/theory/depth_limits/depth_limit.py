"""The number of a network that converges with depth, as verbs ask about it: which it is, what its map answers.

`DepthLimit` is the one of networks whose positions are apart: K of one input. Others differ in the number
(`coupled_limits`, `token_limits`); how a number's map is known is the affair of its `ScalarMap`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sympy as sp

from meanfield.numeric.phases.maps.kinds_of_maps import scalar_map
from meanfield.numeric.phases.maps.scalar_map import ScalarMap
from meanfield.symbolic.asymptotics.depth import DepthLaw, depth_law
from meanfield.symbolic.criticality.critical_points import CriticalPoints, critical_points
from meanfield.symbolic.criticality.phases import Phase
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoints
from meanfield.symbolic.recursion import Recursion
from meanfield.theory.depth_limits.inputs_apart import correlations_apart
from meanfield.theory.queries.architecture_maps import Maps

if TYPE_CHECKING:
    from meanfield.numeric.phases.correlations import Correlations
    from meanfield.presentation.phase_diagram import PhaseDiagram

Values = dict[str, sp.Expr]


@dataclass(frozen=True)
class DepthLimit:
    """K of one input."""

    theory: Maps

    answers_alone = False  # whether its laws are all that are derived of the network

    def require_bias(self) -> None:
        """Refuse the guessing bias where it is not one of two inputs."""

    @cached_property
    def map(self) -> ScalarMap:
        """The map of the number that converges."""
        return scalar_map(self.theory.limiting, self.theory.block)

    def fixed_points(self, values: Values, units: Mapping[str, Any]) -> FixedPoints:
        """Every fixed point at these values; units: see `ScalarMap`."""
        return self.map.fixed_points(values, units)

    def phase(self, values: Values, norm: sp.Expr, units: Mapping[str, Any]) -> Phase:
        """Where inputs of this norm end."""
        return self.map.phase(values, norm, units)

    def correlations(self, values: Values, norm: sp.Expr, phase: Phase) -> Correlations:
        """Where correlations end, in this phase."""
        return correlations_apart(self.theory, values, norm, phase)

    def law(self, quantity: str, values: Values) -> DepthLaw:
        """The large-depth law of K or J."""
        return depth_law(self.theory.limiting, quantity, values)

    def line(self, of: str) -> Any:
        """The line χ_J = 1 (of: "J") or χ_K = 1 ("K") of fixed points."""
        return self.map.line(of)

    def critical_points(self) -> CriticalPoints:
        """The points of both lines."""
        return critical_points(self.theory.block)

    def tabulated(self, recursion: Recursion) -> ScalarMap:
        """The map of a diagram, which gives symbols to some numbers of this one; recursion: with these."""
        return scalar_map(recursion, self.theory.block)

    def drawn(self, found: PhaseDiagram) -> PhaseDiagram:
        """A diagram, with nothing said where nothing is known."""
        return found
