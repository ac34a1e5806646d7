"""`ScalarMap`: the map of one number that settles, as fixed points, phases, lines and diagrams ask it; and the kind of
it that balls enclose.

A kind of map is one class, and says itself what proves its answers. `kinds_of_maps` says which one a recursion is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import sympy as sp

from meanfield.base.errors import MeanFieldError
from meanfield.networks.records import Block
from meanfield.symbolic.criticality.critical_lines import CriticalLine, line_of
from meanfield.symbolic.criticality.phases import Phase, phase_at
from meanfield.symbolic.criticality.rounding import phase_with_rounding, points_with_rounding
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoints, fixed_points
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.block_recursions import plain_form, skip_strength

if TYPE_CHECKING:
    import numpy as np

Values = Mapping[str, sp.Expr]


def known_to(recursion: Recursion, values: Values) -> dict[str, sp.Expr]:
    """The values that a recursion feels: K - K_ab of a batch often does not feel the biases."""
    names = {p.name for p in recursion.parameters} | {"Q0"}
    return {k: v for k, v in values.items() if k in names}


class GridMap(Protocol):
    """A map in doubles, for many points at once."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of what `run` takes as the rows of sigma."""

    def run(self, start: np.ndarray, sigma: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(K*, χ_J*, number of attracting states) for points with K¹ = start."""


@dataclass(frozen=True)
class ScalarMap:
    """The map K → K′ of one number, with the slope χ_K and the growth χ_J of J at it.

    recursion: of (K, J), where K may stand for another number that settles; block: the network that it is a map of.
    Values are numbers by name, those that the map does not feel among them; units: how far doubles among them reach
    (`rounding.doubles`).
    """

    recursion: Recursion
    block: Block

    is_enclosed = False  # whether balls hold the slope and χ_J, so that phases are proved
    has_laws = False  # whether K′ is a formula, of which laws at large depth are derived

    def known(self, values: Values) -> dict[str, sp.Expr]:
        """The values that the map feels."""
        return known_to(self.recursion, values)

    def fixed_points(self, values: Values, units: Mapping[str, Any]) -> FixedPoints:
        """Every fixed point that this kind of map shows, with what proves it."""
        raise NotImplementedError

    def phase(self, values: Values, norm: sp.Expr, units: Mapping[str, Any]) -> Phase:
        """Where K¹ of inputs with this norm flows, and χ_J there."""
        raise NotImplementedError

    def line(self, of: str) -> Any:
        """The points (σ_w, σ_b) with χ_J = 1 (of: "J") or χ_K = 1 ("K") at a fixed point."""
        raise NotImplementedError

    def grid(self) -> GridMap:
        """The map in doubles, for diagrams."""
        raise NotImplementedError


@dataclass(frozen=True)
class EnclosedMap(ScalarMap):
    """A map whose averages balls enclose: fixed points are certified, and counted by Descartes' rule."""

    is_enclosed = True
    has_laws = True

    def fixed_points(self, values: Values, units: Mapping[str, Any]) -> FixedPoints:
        values = self.known(values)
        found, near = fixed_points(self.recursion, values), {k: u for k, u in units.items() if k in values}
        return points_with_rounding(found, values, near, lambda moved: fixed_points(self.recursion, moved))

    def phase(self, values: Values, norm: sp.Expr, units: Mapping[str, Any]) -> Phase:
        values = self.known(values)
        found, near = phase_at(self.recursion, values, norm), {k: u for k, u in units.items() if k in values}
        return phase_with_rounding(found, values, near, lambda moved: phase_at(self.recursion, moved, norm))

    def line(self, of: str) -> CriticalLine:
        if "J" not in self.recursion.names:  # left out by a BatchNorm
            raise MeanFieldError(
                "A critical line is not available: φ jumps or rises like √|z|, so χ_J is infinite everywhere."
            )
        return line_of(self.recursion, of, plain_form(self.block), skip_strength(self.block))

    def grid(self) -> GridMap:
        from meanfield.numeric.phases.phase_grids import compile_phase

        return compile_phase(self.recursion)
