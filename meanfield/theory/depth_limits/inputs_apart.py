"""Correlations of two inputs that are apart: what is known of their map, from the theory, and its fixed points."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.functions.growth import tail
from meanfield.functions.piecewise import pieces
from meanfield.networks.records import mlp
from meanfield.symbolic import parity
from meanfield.symbolic.criticality.phases import Phase
from meanfield.symbolic.fixed_points.all_fixed_points import start_of
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.block_recursions import plain_form
from meanfield.theory.queries.architecture_maps import Maps
from meanfield.theory.queries.given_values import inside_averages

if TYPE_CHECKING:
    from meanfield.numeric.phases.correlations import Correlations


def is_odd(theory: Maps, values: dict) -> bool:
    """Whether K_ab of (x, -y) is -1 times that of (x, y) at every layer, so that inputs go the same way."""
    try:
        return parity.is_odd(theory.two_inputs, ("K_ab",), values)
    except MeanFieldError:  # not derived for two inputs of any norms
        return False


def opposite_meet(theory: Maps, values: dict) -> bool:
    """Whether x and -x are shown to be one signal from layer 2 on."""
    try:
        return parity.meets_itself(theory.two_inputs, values)
    except MeanFieldError:  # not derived for two inputs of any norms
        return False


def oddness(theory: Maps, values: dict) -> bool | None:
    """Whether (x, -y) goes the way of (x, y); None where neither is proved. A bias behind the only Dense of a block
    keeps C(-1) above -1, whatever φ is."""
    if is_odd(theory, values):
        return True
    biased = plain_form(theory.block) is not None and values["sigma_b"] != 0
    return False if biased else None


def correlations_apart(theory: Maps, values: dict[str, sp.Expr], norm: sp.Expr, phase: Phase) -> Correlations:
    """The fixed points of the correlation of two inputs of this norm, which flow to this phase."""
    from meanfield.numeric.phases.correlations import correlations

    recursion = theory.equal_norms.only("K", "K_ab", "distance", "J_ab")
    recursion = recursion.homogeneous("Correlations are", enclosed=False)
    inside = inside_averages(recursion, values)
    recursion = recursion.replaced(inside) if inside else recursion
    rest = {k: float(v) for k, v in values.items() if k not in inside}
    deviations = {n: float(values.get(n, default)) for n, default in (("sigma_w", 1), ("sigma_b", 0))}
    numbers = {**deviations, "parameters": {k: v for k, v in rest.items() if k not in deviations}}
    start = float(start_of(theory.one_input, values | {"Q0": norm}))
    return correlations(recursion, numbers, phase, start, oddness(theory, values), lambda: at_infinity(theory, values))


def at_infinity(theory: Maps, values: dict[str, sp.Expr]) -> Recursion | None:
    """The recursion that `correlations` asks for, of the network that one of φ before one Dense becomes where K grows
    without bound: with the leading power of φ in its place. None where φ is such a power, or tends to none up to a
    constant, and for other networks."""
    form = plain_form(theory.block)
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
