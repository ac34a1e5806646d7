"""Grids over (σ_w, σ_b), and the guessing bias at one place and over a grid."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import choice, flag, scalar
from meanfield.base.symbols import J
from meanfield.networks.folds import skip_of
from meanfield.networks.records import OWN, Param
from meanfield.symbolic.recursions.block_recursions import plain_form
from meanfield.theory.depth_limits.inputs_apart import is_odd, opposite_meet
from meanfield.theory.depth_limits.which_limit import depth_limit_of
from meanfield.theory.queries.architecture_maps import Maps
from meanfield.theory.queries.exact_points import ExactPoint
from meanfield.theory.queries.given_values import (
    decided,
    deviations,
    double,
    exact_number,
    inside_averages,
    refuse_unknown,
    require_cosine,
    symbols_of,
    with_values,
)
from meanfield.theory.queries.stored_answers import keeps
from meanfield.theory.verbs.at_a_point import (
    correlations_of,
    line_and_points,
    neutrality_line_of,
    phase_of,
)
from meanfield.theory.verbs.laws import closing_law, growing_law

if TYPE_CHECKING:
    from meanfield.bias.initial import Bias
    from meanfield.presentation.bias_diagrams import BiasDiagram
    from meanfield.presentation.phase_diagram import PhaseDiagram


AXIS = (0.0, 3.0, 300)  # unless given
MOST_FLOATS = 400  # points of a bias diagram whose every c* is a search by slow averages
LAYERS = 1000  # that a start is followed, where it decides


def diagram(
    theory: Maps,
    /,
    *,
    sigma_w=None,
    sigma_b=None,
    input_norm: float = 1.0,
    line: bool = True,
    quantity: str = "J",
    **parameters,
) -> PhaseDiagram | BiasDiagram:
    """`Theory.phase_diagram`."""
    known = symbols_of((theory.block, theory.first))
    given = {"sigma_w": sigma_w, "sigma_b": sigma_b}
    given = {k: AXIS if v is None and k in known else v for k, v in given.items()}
    sigma_w, sigma_b = (([v] if k not in known else v) for k, v in deviations(theory, given).items())
    from meanfield.presentation.phase_diagram import (  # NumPy is loaded only when numbers are asked for
        axis,
        phase_diagram,
    )

    choice(quantity, "quantity", ("J", "gamma"))
    theory, parameters = decided(theory, {k: scalar(v, k) for k, v in parameters.items()})
    recursion, fixed, line = theory.limiting, {}, flag(line, "line")
    jumps = quantity == "gamma" and recursion["J"] == sp.oo
    sigma_w, sigma_b = (axis(n, double(n, v)) for n, v in (("sigma_w", sigma_w), ("sigma_b", sigma_b)))
    skip = skip_of(theory.block)
    if skip is not None and not isinstance(skip.mu, Param):
        # one compiled module serves every skip strength; no parameter of a user's is called so
        own = "mu" if all(p.name != "mu" for p in recursion.parameters) else "mu_of_the_outer_skip"
        fixed = {own: float(skip.mu)}
        recursion = replace(theory, block=replace(skip, mu=Param(own))).limiting
    if jumps:
        recursion = recursion.map(lambda e: J if e == sp.oo else e)  # K alone is asked for
    refuse_unknown(parameters, recursion)
    inside = inside_averages(recursion, parameters | fixed)
    if inside:
        recursion = recursion.replaced(inside)
    rest = {k: v for k, v in (parameters | fixed).items() if k not in inside}
    drawn: tuple = (None, None)
    if line:
        block = theory.block if not parameters else with_values(theory.block, parameters)
        try:
            drawn = line_and_points(Maps(block))
        except MeanFieldError:
            drawn = (None, None)  # several Dense layers: the diagram itself shows the line
    norm, rest = double("input_norm", input_norm), {k: double(k, v) for k, v in rest.items()}
    settles = depth_limit_of(theory)
    found = settles.drawn(phase_diagram(settles.tabulated(recursion), sigma_w, sigma_b, norm, rest, *drawn))
    return found if quantity == "J" else _bias_diagram(theory, found, line, jumps, parameters)


def _bias_diagram(theory: Maps, base: PhaseDiagram, line: bool, jumps: bool, parameters: dict) -> BiasDiagram:
    """c* and the bias over the grid of a diagram that has K* and χ_J*."""
    from meanfield.numeric.phases.correlation_grids import Plain, Stepwise
    from meanfield.numeric.phases.gaps import compile_gaps
    from meanfield.presentation.bias_diagrams import bias_diagram

    if (theory.first.sigma_w, theory.first.sigma_b) != OWN:
        raise MeanFieldError("A diagram of the bias is of networks whose input layer has no σ's of its own.")
    theory = Maps(with_values(theory.block, parameters))
    form, neutral = plain_form(theory.block), None
    way: Plain | Stepwise
    if form is not None and not form[1].free_symbols:
        way = Plain(compile_gaps(form[0]), float(form[1]))
    else:
        recursion = theory.equal_norms.only("K", "distance").homogeneous("A phase diagram is", enclosed=False)
        if recursion.only_floats and base.K.size > MOST_FLOATS:
            raise MeanFieldError(
                f"A diagram of the bias of {base.K.size} points is not available: the averages of two inputs through "
                f"this Pool take a second a point; take at most {MOST_FLOATS}, or ask correlations and bias at places."
            )
        inside = inside_averages(recursion, parameters)
        recursion = recursion.replaced(inside) if inside else recursion
        names = {p.name for p in recursion.parameters}
        way = Stepwise(recursion, {k: double(k, v) for k, v in parameters.items() if k in names})
    with suppress(MeanFieldError):  # several Dense layers, a LayerNorm: the diagram itself shows the line
        neutral = neutrality_line_of(theory) if line else None
    odd = is_odd(theory, {k: exact_number(k, v) for k, v in parameters.items()} | {"sigma_b": sp.S.Zero})
    weightless = None
    if jumps:
        still, _ = decided(theory, {"sigma_w": 0})
        weightless = double("chi_J", sp.diff(still.one_input["J"], J))
    return bias_diagram(base, way, odd, weightless, neutral)


@keeps
def initial_bias(theory: Maps, /, *, input_norm: object = 1, correlation: object = 0, **parameters) -> Bias:
    """`Theory.bias`."""
    from meanfield.bias.guessing import BiasPhase
    from meanfield.bias.initial import bias_of

    point = ExactPoint.of(theory, parameters, input_norm)
    theory, cosine = point.theory, exact_number("correlation", correlation)
    require_cosine(cosine, correlation)
    depth_limit_of(theory).require_bias()
    if cosine == 1:
        raise MeanFieldError("The guessing bias of an input with itself is not available: give correlation < 1.")
    if cosine == -1 and opposite_meet(theory, point.values):
        raise MeanFieldError(
            "The guessing bias at correlation = -1 is not available: φ is even, so that the inputs are the same from "
            "layer 2 on; give another correlation."
        )
    phase = phase_of(theory, input_norm=input_norm, **point.given)
    proved = depth_limit_of(theory).map.has_laws  # else c* decides alone
    settled = phase.fixed_point is not None and phase.fixed_point.K.value != 0
    settled = settled and (not proved or phase.name == "chaotic")
    found = correlations_of(theory, **point.keywords) if settled else None
    law, why, grown = None, "", False
    try:
        law = closing_law(point, "gamma", correlation, growing=False)
    except MeanFieldError as error:
        why = str(error)
        with suppress(MeanFieldError):  # where K grows as a power: one c* for every start between -1 and 1
            law = growing_law(point, "gamma") if abs(cosine) != 1 else None
            grown = law is not None
    powers = all(a.homogeneity is not None for a in theory.activations)
    plain = powers or phase.fixed_point is None or point.values.get("sigma_w") == 0
    # how γ gets there is not known (z**2), or it starts where every other start ends (z**3), but where that is
    if (law is None or law.regime.endswith("c stays 0")) and found is None and plain:
        with suppress(MeanFieldError):
            found = correlations_of(theory, **point.keywords)
            found = found if found.stable is not None else None
    bias = bias_of(phase, law, why, found, grown)
    if bias.phase is not BiasPhase.BY_THE_START or not math.isnan(bias.gamma):
        return bias
    with suppress(MeanFieldError):
        gamma, c = _from_start(theory, input_norm, correlation, parameters)
        if not math.isnan(gamma):
            followed = f"{bias.message}; gamma* and c* are those of this start, followed in double precision"
            bias = replace(bias, gamma=gamma, c=c, message=followed)
    return bias


def _from_start(theory: Maps, input_norm: object, correlation: object, parameters: dict) -> tuple[float, float]:
    """γ and c that a start decides, where a thousand layers (or those before K overflows) settle them; else NaN."""
    from meanfield.theory.verbs.propagating import run

    given = {n: double(n, v) for n, v in (("input_norm", input_norm), ("correlation", correlation))}
    sigmas = {n: double(n, v) if n in ("sigma_w", "sigma_b") else v for n, v in parameters.items()}
    for depth in (LAYERS // 8, LAYERS):  # most settle soon, and K may have become what averages take long at
        found = run(theory, **sigmas, **given, depth=depth, quantities=("gamma", "c"))
        last = int(found.diverged_at or depth + 1) - 2  # of the layers, from 0
        gamma, c = (np.asarray(getattr(found, n))[[last // 2, last]].tolist() for n in ("gamma", "c"))
        if all(math.isclose(*both, rel_tol=1e-9, abs_tol=1e-12) for both in (gamma, c)):
            return gamma[1], c[1]
    return math.nan, math.nan
