"""Where networks settle whose growth of J is an average over what a batch shares (`Common`), in float64.

V = K - K_ab follows an affine map there, so that V* is known and the growth is evaluated at it, once for each point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Solution, Status
from meanfield.base.symbols import K
from meanfield.numeric.phases.maps.scalar_map import EnclosedMap, Values
from meanfield.numeric.run.depth_iteration import first_value, propagate
from meanfield.symbolic.criticality.phases import Phase, phase_among
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoint, FixedPoints
from meanfield.symbolic.recursion import Recursion

WHY = "in float64; averages over what a batch shares are not enclosed"


def fixed_points_of(recursion: Recursion, values: dict) -> tuple[np.ndarray, np.ndarray, float]:
    """(V*, the growth of J there, its relative error) at arrays of parameters that broadcast.

    Raises: MeanFieldError where V does not follow an affine map, or grows without bound.
    """
    e = sp.expand(recursion["K"])
    rate = sp.diff(e, K)
    rest = sp.expand(e - rate * K)
    if rate.has(K) or rest.has(K):
        raise MeanFieldError(
            "The fixed point of this network is not known: the map of K - K_ab is not affine; follow it with propagate."
        )
    arrays: dict[str, np.ndarray] = {k: np.asarray(v, dtype=float) for k, v in values.items()}
    known = {k: v for k, v in arrays.items() if k in {s.name for s in rate.free_symbols | rest.free_symbols}}
    keeps, makes = np.asarray(first_value(rate, known), float), np.asarray(first_value(rest, known), float)
    if (keeps >= 1).any():
        raise MeanFieldError(
            "The fixed point of this network is not known: K - K_ab grows without bound (a skip of strength 1 or "
            "more); follow it with propagate."
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        V = makes / (1 - keeps)
    shape = np.broadcast_shapes(V.shape, *(a.shape for a in arrays.values()))
    V = np.broadcast_to(V, shape)
    names = {p.name for p in recursion.parameters}
    own = {k: np.broadcast_to(v, shape) for k, v in arrays.items()}
    fine = V > 0
    growth = np.full(shape, np.nan)
    if fine.any():
        others: dict = {k: v[fine] for k, v in own.items() if k in names and k not in ("sigma_w", "sigma_b")}
        run = propagate(
            recursion,
            sigma_w=own["sigma_w"][fine],
            sigma_b=own["sigma_b"][fine],
            depth=2,
            parameters=others,
            start={"K": V[fine]},
        )
        growth[fine] = run.J[..., 1]
        return V, growth, run.error
    return V, growth, 0.0


@dataclass(frozen=True)
class NestedMap(EnclosedMap):
    """Such a map: V* is exact, and the growth of J at it MEASURED."""

    is_enclosed = False

    def fixed_points(self, values: Values, units: Mapping[str, Any]) -> FixedPoints:
        """The one that every V > 0 flows to; where all neurons are constant V* = 0 is all that is known."""
        point = self._point(values)
        if point is None:
            return super().fixed_points(values, units)
        said = f"K' is linear in K: one fixed point, reached from every K; {WHY}"
        return FixedPoints((point,), Status.MEASURED, said)

    def phase(self, values: Values, norm: sp.Expr, units: Mapping[str, Any]) -> Phase:
        point = self._point(values)
        if point is None:
            raise MeanFieldError(
                "The phase was asked for where a neuron is constant over the batch (sigma_w = 0), and a BatchNorm "
                "divides by 0; take sigma_w > 0."
            )
        return phase_among(FixedPoints((point,), Status.MEASURED, WHY), point, point.chi_J)

    def _point(self, values: Values) -> FixedPoint | None:
        """V* and the growth of J there; None where nothing grows, as V* is 0."""
        V, growth, error = fixed_points_of(self.recursion, {k: float(v) for k, v in values.items() if v.is_number})
        chi = float(growth)
        if not math.isfinite(chi):
            return None
        chi_J = Solution(sp.Float(chi, 17), Status.MEASURED, max(error, 1e-12) * abs(chi), WHY)
        rate = sp.diff(sp.expand(self.recursion["K"]), K)
        chi_K = Solution(rate.subs({s: values[s.name] for s in rate.free_symbols}), Status.EXACT)
        point = Solution(sp.Float(float(V), 17), Status.MEASURED, 1e-15, WHY)
        return FixedPoint(point, chi_J, chi_K, "stable", (sp.S.Zero, sp.oo))

    def line(self, of: str) -> Any:
        raise MeanFieldError(
            "A critical line is not available: J behind a BatchNorm of φ(z) is an average over what a batch shares, "
            "which is not solved for sigma_w and sigma_b; ask phase at a place, or phase_diagram."
        )

    def grid(self) -> NestedMap:
        return self

    @property
    def parameters(self) -> tuple[str, ...]:
        names = {p.name for p in self.recursion.parameters} - {"Q0", "c0"}
        return tuple(sorted(names | {"sigma_w", "sigma_b"}))

    def run(self, start: np.ndarray, sigma: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(V*, the growth of J there, 1) at every point: there is no other state, whatever V is at layer 1."""
        V, growth, _ = fixed_points_of(self.recursion, dict(zip(self.parameters, sigma)))
        return np.array(V), growth, np.ones(start.size, dtype=np.int64)
