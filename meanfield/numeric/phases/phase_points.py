"""The phase at one place in float64: for maps whose averages no ball encloses, behind a LayerNorm on activations, whose
mean and scale move with K."""

from __future__ import annotations

import math

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Solution, Status
from meanfield.numeric.phases.phase_grids import GRID, compile_phase
from meanfield.symbolic.criticality.phases import Phase
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoint
from meanfield.symbolic.fixed_points.marginality import phase_of
from meanfield.symbolic.recursion import Recursion

ERROR = 1e-10  # of K* and χ_J*, relative: that of phase diagrams
WHY = "in float64 along a grid of K; averages whose mean and scale move with K are not enclosed"


def measured_phase(recursion: Recursion, values: dict[str, sp.Expr], norm: sp.Expr) -> Phase:
    """The phase at one place as phase diagrams find it, MEASURED; values: numbers of every parameter of (K, J).

    Raises: MeanFieldError where K¹ lies beyond the grid of K, or φ jumps.
    """
    compiled = compile_phase(recursion)
    missing = [n for n in compiled.parameters if n not in values or not values[n].is_number]
    if missing:
        raise MeanFieldError(f"The phase is not available: give {' and '.join(missing)} a value.")
    sigma = np.array([[float(values[n])] for n in compiled.parameters])
    first = float(values["sigma_w"] ** 2 * norm + values["sigma_b"] ** 2)
    if not first < GRID[-1]:
        raise MeanFieldError(f"K¹ = {first:.3g} was asked for, and K is followed up to {GRID[-1]:.0e} only.")
    found, slope, attractors = compiled.run(np.array([max(first, GRID[0])]), sigma)
    K_star, chi = float(found[0]), float(slope[0])
    chi_J = _measured(chi)
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
