"""The number that converges where positions act on each other: K of a token, or K - K_ab of a batch.

Some averages over a normalized batch of a finite size are known by quadrature alone; what is said of their maps is
MEASURED.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Solution, Status
from meanfield.numeric.phases.maps.scalar_map import ScalarMap
from meanfield.symbolic.asymptotics.depth import DepthLaw
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.criticality.critical_lines import CriticalLine
from meanfield.symbolic.criticality.critical_points import CriticalPoints, points_on
from meanfield.symbolic.criticality.phases import Phase
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoint, FixedPoints
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.batch import CONSTANT
from meanfield.theory.depth_limits.depth_limit import DepthLimit, Values

if TYPE_CHECKING:
    from meanfield.presentation.phase_diagram import PhaseDiagram

DIFFERENCE = "K - K_ab"  # what converges behind a BatchNorm
QUADRATURE = "averages over a normalized batch are integrated to 15 digits, and nothing encloses them"


@dataclass(frozen=True)
class CoupledDepthLimit(DepthLimit):
    """K of a token, one of many that a Dense mixes."""

    @cached_property
    def is_exact(self) -> bool:
        """Whether every average over a normalized batch of the maps has a closed form."""
        return self.theory.acting.is_exact()

    def fixed_points(self, values: Values, units: Mapping[str, Any]) -> FixedPoints:
        if self.is_exact:
            return super().fixed_points(values, units)
        found = super().fixed_points(values, {})
        return replace(found, points=tuple(map(_point, found.points)), status=Status.MEASURED, message=QUADRATURE)

    def phase(self, values: Values, norm: sp.Expr, units: Mapping[str, Any]) -> Phase:
        if self.is_exact or not self.map.is_enclosed:  # one that says itself that it is measured
            return super().phase(values, norm, units)
        found = super().phase(values, norm, {})
        point = None if found.fixed_point is None else _point(found.fixed_point)
        chi_J = _measured(found.chi_J)
        return replace(found, fixed_point=point, chi_J=chi_J, status=Status.MEASURED, message=QUADRATURE)

    def law(self, quantity: str, values: Values) -> DepthLaw:
        found = self.named(super().law(quantity, self.map.known(values)))
        if self.is_exact:
            return found
        terms = tuple(replace(t, coefficient=sp.N(t.coefficient, 14)) for t in found.terms)
        regime = found.regime if found.status is Status.MEASURED else f"{found.regime}; {QUADRATURE}"
        return replace(found, terms=terms, exact=None, regime=regime, status=Status.MEASURED)

    def named(self, law: DepthLaw) -> DepthLaw:
        """A law that says what it is of."""
        return law

    def line(self, of: str) -> CriticalLine:
        own = self.map
        return (own if self.is_exact else replace(own, recursion=own.recursion.map(_floats))).line(of)

    def critical_points(self) -> CriticalPoints:
        found = points_on(self.line("J"))
        return found if self.is_exact else replace(found, status=Status.MEASURED)


@dataclass(frozen=True)
class BatchDepthLimit(CoupledDepthLimit):
    """K - K_ab, the variance that a batch has by itself."""

    def fixed_points(self, values: Values, units: Mapping[str, Any]) -> FixedPoints:
        found = super().fixed_points(values, units)
        return replace(found, message=f"{found.message}; K stands for {DIFFERENCE}")

    def phase(self, values: Values, norm: sp.Expr, units: Mapping[str, Any]) -> Phase:
        first = self.map.recursion.start["K"]
        if first.subs({s: values[s.name] for s in first.free_symbols if s.name in values}) == 0:
            raise MeanFieldError(CONSTANT.format(""))
        return replace(super().phase(values, norm, units), of=DIFFERENCE)

    def named(self, law: DepthLaw) -> DepthLaw:
        """Of K - K_ab, and of J, which grows as J - J_ab does."""
        regime = f"{law.regime}; K stands for {DIFFERENCE}"
        return replace(law, of=DIFFERENCE if law.quantity == "K" else "", regime=regime)

    def tabulated(self, recursion: Recursion) -> ScalarMap:
        return super().tabulated(recursion.map(_with_numbers))

    def drawn(self, found: PhaseDiagram) -> PhaseDiagram:
        """With nothing said of J where K - K_ab is 0 (sigma_w = 0): `phase` refuses such a place."""
        import numpy as np

        return replace(found, chi_J=np.where(found.K == 0, np.nan, found.chi_J))


def _measured(one: Solution) -> Solution:
    """A number of a map that holds averages by quadrature."""
    if one.value.is_infinite or one.value == 0:
        return one
    error = max(one.error or 0.0, 1e-13 * max(1.0, abs(float(one.value))))
    return Solution(sp.Float(one.value, 15), Status.MEASURED, error, QUADRATURE)


def _point(point: FixedPoint) -> FixedPoint:
    return replace(point, K=_measured(point.K), chi_J=_measured(point.chi_J), chi_K=_measured(point.chi_K))


def _with_numbers(e: sp.Expr) -> sp.Expr:
    """Averages that hold no symbol (over what a BatchNorm made of variance 1) as numbers: they are the same at every
    point."""
    return e.xreplace({node: sp.N(node, 20) for node in e.atoms(Average) if not node.free_symbols})


def _floats(e: sp.Expr) -> sp.Expr:
    """Averages by quadrature as decimals again."""
    return e.xreplace({r: sp.Float(r, 15) for r in e.atoms(sp.Rational) if r.q > 10**9})
