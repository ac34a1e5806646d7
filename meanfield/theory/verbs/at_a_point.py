"""What holds at one place (σ_w, σ_b): fixed points, the phase, correlations; and lines of one correlation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Status
from meanfield.base.arguments import shown
from meanfield.base.symbols import Z
from meanfield.functions.growth import tail
from meanfield.functions.piecewise import pieces
from meanfield.networks.folds import symbols_in
from meanfield.networks.records import mlp
from meanfield.symbolic import parity
from meanfield.symbolic.criticality.critical_lines import CriticalLine, critical_line
from meanfield.symbolic.criticality.critical_points import CriticalPoints, critical_points, points_on
from meanfield.symbolic.criticality.phases import Phase, moves_with_K, phase_at
from meanfield.symbolic.criticality.rounding import doubles, phase_with_rounding, points_with_rounding
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoints, fixed_points, start_of
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.block_recursions import one_dense, plain_form
from meanfield.symbolic.recursions.naming import describe
from meanfield.symbolic.recursions.tokens.exchangeable import attends
from meanfield.theory.asked import positions
from meanfield.theory.asked.architecture_maps import Maps
from meanfield.theory.asked.given_values import (
    decided,
    exact_number,
    inside_averages,
    refuse_held,
    refuse_unknown,
    with_values,
)
from meanfield.theory.asked.kept_answers import keeps
from meanfield.theory.verbs import attending

if TYPE_CHECKING:
    from meanfield.numeric.phases.correlations import Correlations
    from meanfield.numeric.phases.neutrality import CorrelationLine
    from meanfield.numeric.phases.sampled_maps import MeasuredLine
    from meanfield.symbolic.criticality.order_chaos import OrderChaosLine


def place(theory: Maps, given: dict) -> dict[str, sp.Expr]:
    """Exact values of σ_w, σ_b and parameters, each known to the recursion, σ and μ ≥ 0."""
    known = ("sigma_w", "sigma_b", *symbols_in(theory.block), *(("tokens",) if attends(theory.block) else ()))
    refuse_unknown(given, theory.one_input, also=known)
    values = {k: exact_number(k, v) for k, v in given.items()}
    domains = theory.one_input.domains
    for name, value in values.items():
        if name in domains and value.is_number:
            domains[name].require(name, value)
    return values


def is_odd(theory: Maps, values: dict) -> bool:
    """Whether K_ab of (x, -y) is -1 times that of (x, y) at every layer, so that inputs go the same way."""
    if theory.kind:
        return False
    try:
        return parity.is_odd(theory.two_inputs, ("K_ab",), values)
    except MeanFieldError:  # not derived for two inputs of any norms
        return False


def oddness(theory: Maps, values: dict) -> bool | None:
    """Whether (x, -y) goes the way of (x, y); None where neither is proved. A bias behind the only Dense of a block
    keeps C(-1) above -1, whatever φ is."""
    if is_odd(theory, values):
        return True
    biased = plain_form(theory.block) is not None and values["sigma_b"] != 0
    return False if biased else None


@keeps
def fixed_points_at(theory: Maps, /, **parameters) -> FixedPoints:
    """`Theory.fixed_points`."""
    refuse_held(theory, parameters)
    theory, parameters = decided(theory, parameters)
    recursion, values = theory.limiting, place(theory, parameters)
    if recursion.only_floats:
        from meanfield.numeric.phases.sampled_maps import sampled

        return sampled(recursion.homogeneous("Fixed points are", enclosed=False)).points(values)
    if theory.kind:
        values = positions.kept(values, recursion)
    found = fixed_points(recursion, values)
    if theory.kind and not positions.is_exact(theory.block, theory.batch):
        found = positions.measured_points(found)
    else:
        units = {k: u for k, u in doubles(parameters).items() if k in values}
        found = points_with_rounding(found, values, units, lambda moved: fixed_points(recursion, moved))
    return positions.points_of_difference(found) if theory.kind == "batch" else found


@keeps
def phase_of(theory: Maps, /, *, input_norm: object = 1, **parameters) -> Phase:
    """`Theory.phase`."""
    refuse_held(theory, parameters)
    theory, parameters = decided(theory, parameters)
    norm = exact_number("input_norm", input_norm)
    if not norm.is_number or norm <= 0:
        raise MeanFieldError(f"input_norm must be a number > 0, but {shown(input_norm)} was given.")
    if attends(theory.block):
        return attending.phase(theory, place(theory, parameters), norm)
    recursion, values = theory.limiting, place(theory, parameters)
    if theory.kind:
        values = positions.kept(values, recursion)
    if theory.kind == "batch":
        positions.refuse_constant_start(recursion, place(theory, parameters))
    if recursion.only_floats:
        from meanfield.numeric.phases.sampled_maps import sampled

        first = float(start_of(theory.one_input, values | {"Q0": norm}))
        return sampled(recursion.homogeneous("The phase is", enclosed=False)).phase(values, first)
    if positions.is_nested(recursion):
        from meanfield.numeric.phases.nested_maps import nested_phase

        return nested_phase(recursion, values | place(theory, parameters))
    if moves_with_K(recursion):
        from meanfield.numeric.phases.phase_points import measured_phase  # floats: no ball encloses these averages

        return measured_phase(recursion, values, norm)
    found = phase_at(recursion, values, norm)
    if theory.kind and not positions.is_exact(theory.block, theory.batch):
        return positions.measured_phase(found)
    units = {k: u for k, u in doubles(parameters).items() if k in values}
    return phase_with_rounding(found, values, units, lambda moved: phase_at(recursion, moved, norm))


@keeps
def correlations_of(theory: Maps, /, *, input_norm: object = 1, **parameters) -> Correlations:
    """`Theory.correlations`."""
    from meanfield.numeric.phases.correlations import correlations

    theory, parameters = decided(theory, parameters)
    if attends(theory.block):
        from meanfield.theory.verbs.token_correlations import token_correlations

        return token_correlations(theory, place(theory, parameters), exact_number("input_norm", input_norm))
    phase = phase_of(theory, input_norm=input_norm, **parameters)
    exact = place(theory, parameters)
    recursion = theory.equal_norms.only("K", "K_ab", "distance", "J_ab")
    recursion = recursion.homogeneous("Correlations are", enclosed=False)
    inside = inside_averages(recursion, exact)
    recursion = recursion.replaced(inside) if inside else recursion
    values = {k: float(v) for k, v in exact.items() if k not in inside}
    deviations = {n: float(exact.get(n, default)) for n, default in (("sigma_w", 1), ("sigma_b", 0))}
    numbers = {**deviations, "parameters": {k: v for k, v in values.items() if k not in deviations}}
    start = float(start_of(theory.one_input, exact | {"Q0": exact_number("input_norm", input_norm)}))
    return correlations(recursion, numbers, phase, start, oddness(theory, exact), lambda: _at_infinity(theory, exact))


def _at_infinity(theory: Maps, values: dict[str, sp.Expr]) -> Recursion | None:
    """The recursion that `correlations` asks for, of the network that one of φ before one Dense becomes where K grows
    without bound: with the leading power of φ in its place. None where φ is such a power, or tends to none up to a
    constant, and for other networks."""
    form = None if theory.kind else plain_form(theory.block)
    if form is None:
        return None
    swap = {s: values[s.name] for e in form for s in e.free_symbols if s.name in values}
    f, mu = (e.xreplace(swap) for e in form)
    if f.free_symbols - {Z[0]} or mu.free_symbols:
        return None
    p = pieces(f, Z[0])
    powers = [tail(p.exprs[0], Z[0], -1), tail(p.exprs[-1], Z[0], 1)]
    if any(one.power is None or one.remainder == "algebraic" for one in powers):
        return None
    degrees = [sp.degree(one.power, Z[0]) for one in powers]
    left, right = (sp.LT(one.power, Z[0]) if d == max(degrees) else sp.S.Zero for one, d in zip(powers, degrees))
    if max(degrees) < 1 or (p.exprs in ((left, right), (left,)) and not any(p.breaks)):
        return None
    leading = right if left == right else sp.Piecewise((left, Z[0] < 0), (right, True))
    return Maps(mlp(leading, mu)).equal_norms.only("K", "K_ab", "distance", "J_ab")


def critical_line_of(theory: Maps, of: str) -> CriticalLine | MeasuredLine | OrderChaosLine:
    """`Theory.critical_line`."""
    if attends(theory.block):
        if of == "K":
            raise MeanFieldError(
                "The line chi_K = 1 is not derived where an Attention mixes tokens; leave quantity out for the line "
                "between order and chaos."
            )
        return attending.line(theory)
    if theory.kind:
        return positions.line(theory.limiting, theory.block, of, theory.batch)
    recursion = theory.one_input.only("K", "J")
    if not recursion.only_floats:
        return _exact_line(theory, of)
    from meanfield.numeric.phases.sampled_maps import MeasuredLine, sampled

    strength = one_dense(theory.block)
    if strength is None or strength.free_symbols:
        raise MeanFieldError(
            "A critical line is not available: through this Pool it is found for a block of one Dense, with a number "
            "for "
            f"the skip's strength, but the block is {describe(theory.block)}."
        )
    return MeasuredLine(sampled(recursion.homogeneous("A critical line is", enclosed=False)), float(strength), of)


@keeps
def _exact_line(theory: Maps, of: str) -> CriticalLine:
    return critical_line(theory.block, of)


@keeps
def critical_points_of(theory: Maps) -> CriticalPoints:
    """`Theory.critical_points`."""
    if not theory.kind:
        return critical_points(theory.block)
    if attends(theory.block):
        raise MeanFieldError(
            "Critical points are those of a line in (sigma_w, sigma_b), and tokens have a condition on all deviations; "
            "critical_line() is the line between order and chaos, and phase says what a place is."
        )
    line = critical_line_of(theory, "J")
    assert isinstance(line, CriticalLine)  # no Pool stands there
    found = points_on(line)
    return found if positions.is_exact(theory.block, theory.batch) else replace(found, status=Status.MEASURED)


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
