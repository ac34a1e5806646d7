"""What holds at one point (σ_w, σ_b): fixed points, the phase, correlations; and lines of one correlation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown
from meanfield.symbolic.criticality.critical_lines import CriticalLine, critical_line
from meanfield.symbolic.criticality.critical_points import CriticalPoints, critical_points
from meanfield.symbolic.criticality.phases import Phase
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoints
from meanfield.symbolic.recursions.block_recursions import one_dense, plain_form
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.depth_limits.which_limit import depth_limit_of
from meanfield.theory.queries.architecture_maps import Maps
from meanfield.theory.queries.exact_points import ExactPoint
from meanfield.theory.queries.given_values import (
    decided,
    exact_number,
    refuse_held,
    refuse_unknown,
    with_values,
)
from meanfield.theory.queries.stored_answers import keeps

if TYPE_CHECKING:
    from meanfield.numeric.phases.correlations import Correlations
    from meanfield.numeric.phases.maps.sampled_maps import MeasuredLine
    from meanfield.numeric.phases.neutrality import CorrelationLine
    from meanfield.symbolic.criticality.order_chaos import OrderChaosLine


@keeps
def fixed_points_at(theory: Maps, /, **parameters) -> FixedPoints:
    """`Theory.fixed_points`."""
    refuse_held(theory, parameters)
    point = ExactPoint.of(theory, parameters)
    return depth_limit_of(point.theory).fixed_points(point.values, point.units)


@keeps
def phase_of(theory: Maps, /, *, input_norm: object = 1, **parameters) -> Phase:
    """`Theory.phase`."""
    refuse_held(theory, parameters)
    point = ExactPoint.of(theory, parameters)
    norm = exact_number("input_norm", input_norm)
    if not norm.is_number or norm <= 0:
        raise MeanFieldError(f"input_norm must be a number > 0, but {shown(input_norm)} was given.")
    return depth_limit_of(point.theory).phase(point.values, norm, point.units)


@keeps
def correlations_of(theory: Maps, /, *, input_norm: object = 1, **parameters) -> Correlations:
    """`Theory.correlations`."""
    point = ExactPoint.of(theory, parameters)
    phase = phase_of(point.theory, input_norm=input_norm, **point.given)
    return depth_limit_of(point.theory).correlations(point.values, exact_number("input_norm", input_norm), phase)


@keeps
def critical_line_of(theory: Maps, of: str) -> CriticalLine | MeasuredLine | OrderChaosLine:
    """`Theory.critical_line`."""
    return depth_limit_of(theory).line(of)


@keeps
def critical_points_of(theory: Maps) -> CriticalPoints:
    """`Theory.critical_points`."""
    return depth_limit_of(theory).critical_points()


@keeps
def points_with_laws(theory: Maps) -> CriticalPoints:
    """Critical points, whose exponents and laws have been found: a point finds them when it is asked for one."""
    found = critical_points_of(theory)
    for point in found:
        _ = point.zeta, point.law_K, point.law_J
    return found


@keeps
def line_and_points(theory: Maps) -> tuple[CriticalLine, CriticalPoints]:
    """The critical line and points of a block as a phase diagram draws them. Raises: MeanFieldError where none are
    derived."""
    return critical_line(theory.block), critical_points(theory.block)


def neutrality_line_of(theory: Maps, /, *, correlation: object = "1/2", **parameters) -> CorrelationLine:
    """`Theory.neutrality_line`."""
    from meanfield.numeric.phases.neutrality import CorrelationLine

    at = exact_number("correlation", correlation)
    if not at.is_number or not 0 <= at < 1:
        raise MeanFieldError(f"correlation must be a number with 0 ≤ c < 1, but {shown(correlation)} was given.")
    theory, parameters = decided(theory, parameters)
    if own := sorted({"sigma_w", "sigma_b"} & set(parameters)):
        raise MeanFieldError(f"{own[0]} was given, but along a neutrality line σ_w and σ_b follow K; leave it out.")
    refuse_unknown(parameters, theory.one_input)
    block = with_values(theory.block, parameters)
    strength = one_dense(block)
    if strength is None or strength.free_symbols:
        raise MeanFieldError(
            "A neutrality line is not available: it is derived for a block of one nonlinearity and one Dense, with a "
            f"number for the skip's strength, but the block is {describe(block)}."
        )
    recursion = Maps(block).equal_norms.only("K", "K_ab", "distance")
    recursion = recursion.homogeneous("A neutrality line is", enclosed=False)
    form = plain_form(block)
    exact = None if form is None else (form[0], at, 1 - strength**2)
    return CorrelationLine(recursion, float(strength), float(at), exact)
