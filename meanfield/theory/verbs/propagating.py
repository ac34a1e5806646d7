"""Layers in float64: what `propagate` and `correlators` run. Numba's world is entered only inside them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield.base.answers.results import InfiniteAverage, MeanFieldError
from meanfield.base.arguments import finite, flag, one_point
from meanfield.base.arguments import names as names_of
from meanfield.base.quantities import (
    FINITE_WIDTH,
    GRADIENTS,
    KINDS,
    NORMS,
    QUANTITIES,
    made_of,
    of_two,
    recursion_of,
)
from meanfield.base.symbols import N0
from meanfield.functions.activations import activation
from meanfield.networks.folds import activations_of, has_skip, parts
from meanfield.networks.records import Block, Param
from meanfield.theory.queries.architecture_maps import Maps
from meanfield.theory.queries.given_values import (
    double,
    inside_averages,
    listed,
    refuse_unknown,
)
from meanfield.theory.queries.parameter_points import ParameterPoint
from meanfield.theory.queries.selection import selected
from meanfield.theory.queries.zero_inputs import jumps_at_zero

if TYPE_CHECKING:
    from meanfield.numeric.finite_width.many_inputs import Correlators
    from meanfield.numeric.run.depth_iteration import Run


def run(
    theory: Maps,
    /,
    *,
    sigma_w=None,
    sigma_b=None,
    input_norm=1.0,
    correlation=None,
    start=None,
    depth: int,
    quantities=None,
    layerwise: bool = False,
    every_layer: bool = True,
    lambda_w=None,
    lambda_b=None,
    input_ratio=1,
    input_dimension=None,
    **parameters,
):
    """`Theory.propagate`."""
    point = ParameterPoint.of(theory, sigma_w, sigma_b, input_norm, correlation, start, parameters)
    finite(double("input_ratio", input_ratio), "input_ratio")
    settings = dict(
        depth=depth,
        quantities=None if quantities is None else names_of(quantities, "quantities"),
        layerwise=flag(layerwise, "layerwise"),
        every_layer=flag(every_layer, "every_layer"),
        input_ratio=input_ratio,
        input_dimension=input_dimension,
    )
    return _run(theory, point, {"lambda_w": lambda_w, "lambda_b": lambda_b}, settings)


def _run(theory: Maps, point: ParameterPoint, rates: dict[str, Any], settings: dict[str, Any]):
    """The same at a point. rates: lambda_w and lambda_b, None where they are those of the σ's."""
    from meanfield.numeric.run.depth_iteration import propagate  # Numba's world is entered only here

    depth, quantities, layerwise = (settings[k] for k in ("depth", "quantities", "layerwise"))
    rates = {k: v for k, v in rates.items() if v is not None}
    if theory.rate_names:  # its maps have them as parameters
        point, rates = replace(point, parameters={**point.parameters, **rates}), {}
    inner = {s.name for a in activations_of(theory.block) for s in activation(a).free_parameters}
    swept = {k: double(k, v) for k, v in point.parameters.items() if k in inner}
    if any(getattr(v, "shape", ()) or isinstance(v, (list, tuple)) for v in swept.values()):
        return _swept(theory, point, rates, settings, swept)
    theory, point = point.decided(theory)
    if theory.kind:
        if rates:
            raise MeanFieldError("Learning rates are of inputs that are apart; leave lambda_w and lambda_b out.")
        return _positions(theory, point, settings)
    if not point.pair and any(map(of_two, quantities or ())):
        two = tuple(n for n, q in QUANTITIES.items() if of_two(n) and (n in (quantities or ()) or not q.text))
        raise MeanFieldError(f"{listed(two)} belong to two inputs; give their correlation=.")
    wanted = tuple(quantities or (theory.default_quantities if not point.pair else _usual(point)))
    if point.pair and not any(map(of_two, wanted)):
        wanted = (*wanted, "distance")  # K, J or Theta with a correlation: of two inputs of one norm
    back, other = bool(set(wanted) & set(GRADIENTS)), None
    values: dict = {}  # of learning rates
    apart = False  # whether V + 2K² is what is run in the place of V
    if back:
        if point.pair:
            raise MeanFieldError(f"{listed(GRADIENTS)} are of one input; leave correlation= and its start out.")
        from meanfield.numeric.run.layer_gradients import columns, with_gradients

        beside = tuple(n for n in wanted if n not in (*GRADIENTS, "K", "J"))
        if beside:
            other = _run(theory, point, rates, settings | {"quantities": beside})
        recursion = theory.gradients.only(*columns(theory.gradients, wanted))
    elif rates or set(made_of(wanted)) & set(FINITE_WIDTH):
        of_width = set(made_of(wanted)) & set(FINITE_WIDTH)
        if point.pair and of_width:
            raise MeanFieldError(f"{listed(FINITE_WIDTH)} are of one input here; leave correlation= out.")
        from meanfield.correlators.derived import held_apart, is_plain, prepared, refuse_zero

        if not of_width and (point.pair or not is_plain(theory.block, theory.first)):
            return _run(replace(theory, rate_names=tuple(rates)), point, rates, settings | {"quantities": wanted})
        if has_skip(theory.block):
            return _remembering(theory, point, wanted, rates, settings)
        made = made_of(wanted)
        recursion, values = prepared(theory.block, theory.first, made, rates, settings["input_ratio"], depth)
        near = None if point.start else held_apart(recursion)
        recursion, apart = (near or recursion).with_own(wanted), near is not None
        if not point.start:
            refuse_zero(point.of_one_input, wanted[0], layerwise)
    else:
        if point.started and recursion_of(wanted, point.started) == "unequal_norms":
            wanted = tuple(dict.fromkeys((*KINDS["unequal_norms"].usual, *wanted)))
        recursion = selected(theory, wanted, point.started)
    point = point.at_infinite_width(theory)
    refuse_unknown(point.parameters, recursion)
    if settings["input_dimension"] is not None:
        if N0 not in recursion.parameters:
            raise MeanFieldError(
                "input_dimension= is of J0 and D0, which start at the input; ask for one of them, or leave it out."
            )
        values = values | {N0.name: double("input_dimension", settings["input_dimension"])}
    numbers = inside_averages(recursion, point.parameters)
    if numbers:
        recursion = recursion.replaced(numbers)
    if np.ndim(depth) or depth != 1:  # what is no number `propagate` refuses
        _refuse_zero_inputs(theory, point, layerwise)
    try:
        found = propagate(
            recursion,
            **point.inputs,
            depth=depth,
            layerwise=layerwise,
            every_layer=settings["every_layer"],
            parameters=point.doubles(numbers, **values),
            start=point.start,
        )
        if apart:
            with np.errstate(over="ignore", invalid="ignore"):  # where K has left the doubles
                found = found.changed("V", lambda values: values["V"] - 2 * values["K"] ** 2)
        refuse_nothing_left(found, theory.block)
        return with_gradients(found, wanted, other) if back else found
    except InfiniteAverage:
        if quantities is not None or wanted == ("K",) or point.correlation is not None:
            raise
    # nobody asked for J, and it is infinite: φ is continuous, but its slope is not square integrable
    return _run(theory, point, rates, settings | {"quantities": ("K",)})


def _swept(theory: Maps, point: ParameterPoint, rates: dict, settings: dict, swept: dict):
    """A run for every value of parameters inside averages that are arrays."""
    from meanfield.numeric.run.sweeps import sweep

    numbers = {k: v for k, v in point.inputs.items() if v is not None}
    numbers |= {k: double(k, v) for k, v in point.parameters.items() if k not in swept and v is not None}
    numbers |= {f"{k}^1": v for k, v in point.start.items()}  # as no parameter is called

    def one(**given):
        first = {k: given.pop(f"{k}^1") for k in point.start}
        inputs = {k: given.pop(k) for k in point.inputs if k in given}
        return _run(theory, replace(point, **inputs, start=first, parameters=given), rates, settings)

    return sweep(one, swept, numbers, settings["layerwise"])


def _usual(point: ParameterPoint) -> tuple[str, ...]:
    """What is propagated of two inputs when nobody says, from a start in these quantities."""
    return KINDS[recursion_of((), point.started, inputs=2)].usual


def _refuse_zero_inputs(theory: Maps, point: ParameterPoint, layerwise: bool) -> None:
    """Refuse an input that is 0 at layer 1 where φ jumps at 0, as `kernel` does: K = 0 is not K → 0."""
    from meanfield.numeric.run.depth_iteration import first_value

    begin = point.start
    try:
        values = {**point.inputs, **point.parameters}
        given = {k: np.asarray(v, dtype=float) for k, v in values.items() if v is not None}
        if layerwise:
            given = {k: v[..., 0] if v.ndim and k not in ("input_norm", "correlation") else v for k, v in given.items()}
        norms = [np.asarray(v, dtype=float) for k, v in begin.items() if k in NORMS]
        if {"sigma_mu2", "sigma_y2"} <= set(begin):
            norms.append(np.add(begin["sigma_mu2"], begin["sigma_y2"]))
        if not norms:
            norms.append(first_value(theory.one_input.state[0].initial, given | {"Q0": given["input_norm"]}))
    except (KeyError, TypeError, ValueError):
        return  # no numbers, or of shapes that do not fit: `propagate` raises
    if any((np.asarray(v) == 0).any() for v in norms) and jumps_at_zero(theory, given):
        raise MeanFieldError(
            "A run is not available: an input is 0 at layer 1, where φ jumps: φ(0) is no limit of averages at small "
            "K; start at K > 0."
        )


def refuse_nothing_left(run: Run, block: Block) -> None:
    """Refuse a run where a LayerNorm met neurons that are all the same: 0/0, which only σ's or inputs show, and J."""
    if not any(part.normalizes == "neurons" for part in parts(block)):
        return
    met = run.undefined("J", "log_J", "Theta")
    if "K" in run.values:  # behind a K of 0, not of one that overflows
        K = run.values["K"]
        met |= ((K[..., :-1] == 0) & np.isnan(K[..., 1:])).any(-1)
    if met.any():
        raise MeanFieldError(
            f"A LayerNorm acts on neurons that are all 0{run.at_points(met)}, and divides by their standard deviation; "
            "take sigma_w > 0 or sigma_b > 0 in front of it, and inputs that are not 0."
        )


def _positions(theory: Maps, point: ParameterPoint, settings: dict):
    """A run of positions that act on each other."""
    from meanfield.numeric.run.depth_iteration import propagate

    own = theory.acting
    default = ("K", "K_ab", *theory.default_quantities[1:])
    wanted = own.spelled_out(settings["quantities"] or default)
    recursion = own.to_follow(wanted)
    own.refuse_impossible(point.inputs, point.parameters, point.start, wanted)
    point = point.at_infinite_width(theory)
    refuse_unknown(point.parameters, recursion, also=theory.named_in_records)
    known = {p.name for p in recursion.parameters}  # a norm may hide a deviation
    point = replace(point, parameters={k: v for k, v in point.parameters.items() if k in known})
    numbers = inside_averages(recursion, point.parameters) | own.inside(recursion, point.parameters)
    found = propagate(
        own.at(recursion, tuple(numbers.items())) if numbers else recursion,
        **(point.inputs | {"correlation": 0.0 if point.correlation is None else point.correlation}),
        **{k: settings[k] for k in ("depth", "layerwise", "every_layer")},
        parameters=point.doubles(numbers),
        start=own.checked_start(point.start, recursion),
    )
    if theory.kind == "tokens":
        refuse_nothing_left(found, theory.block)
        return replace(found, level="averaged")
    own.refuse_constant(found)
    return found


def _remembering(theory: Maps, point: ParameterPoint, wanted, rates, settings: dict):
    """A run of a network with a skip with quantities of order 1/n, which no map of one layer carries."""
    from meanfield.correlators.derived import refuse_zero, remembering
    from meanfield.numeric.finite_width.fluctuations import with_corrections

    theory, point = point.numbered(theory)
    phi, mu = remembering(theory.block, theory.first, wanted, rates)
    if not point.start:
        refuse_zero(point.of_one_input, wanted[0], settings["layerwise"])
    base = tuple(n for n in ("K", "J") if n == "K" or {"J", "J1"} & set(wanted))
    found = _run(theory, point, {}, settings | {"quantities": base, "every_layer": True})
    strength = mu.name if isinstance(mu, Param) else float(mu)
    return with_corrections(found, wanted, phi, strength, settings["every_layer"])


def run_correlators(
    theory: Maps,
    /,
    inputs=None,
    *,
    gram=None,
    depth: int,
    sigma_w=None,
    sigma_b=None,
    layerwise=False,
    quantities=None,
    lambda_w=None,
    lambda_b=None,
    input_ratio=1,
    **parameters,
) -> Correlators:
    """`Theory.correlators`."""
    from meanfield.correlators.several_inputs import several_inputs  # Numba's world is entered only here

    theory, point = ParameterPoint.of(theory, sigma_w, sigma_b, 1.0, None, None, parameters).decided(theory)
    own = {"sigma_w": point.sigma_w, "sigma_b": point.sigma_b}
    one_point({**own, "lambda_w": lambda_w, "lambda_b": lambda_b}, layerwise)
    return several_inputs(
        theory.block,
        theory.first,
        inputs,
        gram,
        depth,
        quantities,
        own,
        {k: v for k, v in (("lambda_w", lambda_w), ("lambda_b", lambda_b)) if v is not None},
        input_ratio,
        point.parameters,
    )
