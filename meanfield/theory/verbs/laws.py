"""Laws at large depth: of one quantity, of tables over exponents, and of widths that follow them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Term
from meanfield.base.arguments import choice, scalar, shown, whole
from meanfield.base.arguments import names as names_of
from meanfield.base.quantities import CORRELATORS
from meanfield.base.symbols import Q0, l
from meanfield.correlators.depth_laws import large_depth
from meanfield.symbolic.asymptotics import depth as _depth
from meanfield.symbolic.asymptotics.comparing import direction
from meanfield.symbolic.asymptotics.exponent_cells import At
from meanfield.symbolic.asymptotics.higher_order.higher_order_laws import MOST_ORDER
from meanfield.symbolic.asymptotics.log_growth import Growth, grown
from meanfield.symbolic.asymptotics.schedules.branch import Branch, branch
from meanfield.symbolic.asymptotics.schedules.fisher import plain_fisher_law
from meanfield.symbolic.asymptotics.schedules.projections import ProjectionLaw, projection_law
from meanfield.symbolic.asymptotics.tables.phase_tree import PAIR
from meanfield.symbolic.correlator_laws.systems import CorrelatorLaw
from meanfield.symbolic.criticality import correlation_laws
from meanfield.symbolic.criticality.critical_points import CriticalPoint
from meanfield.symbolic.recursion import c0 as start_c0
from meanfield.symbolic.recursions.block_recursions import plain_form
from meanfield.symbolic.steps import Domain
from meanfield.theory.depth_limits.inputs_apart import is_odd
from meanfield.theory.depth_limits.which_limit import depth_limit_of
from meanfield.theory.queries.architecture_maps import Maps
from meanfield.theory.queries.exact_points import ExactPoint
from meanfield.theory.queries.given_values import (
    double,
    exact_number,
    listed,
    refuse_unknown,
    require_cosine,
    with_values,
)
from meanfield.theory.queries.stored_answers import keeps
from meanfield.theory.verbs.at_a_point import correlations_of, phase_of

#: inside a residual block: the variance behind its inner Dense, mean squared gradients by z, weights and biases
OF_BLOCKS = ("K[1]", "G_z", "G_w[1]", "G_b[1]", "G_w[2]", "G_b[2]")

BESIDE = sp.Rational(1, 10**6)  # how far from K* a start lies that stands for all that end there, relative to K*

if TYPE_CHECKING:
    from meanfield.numeric.run.layer_widths import WidthSchedule
    from meanfield.presentation.phase_tables import PhaseTable, ScheduledLaw


@keeps
def depth_law(
    theory: Maps,
    /,
    quantity: str = "J",
    *,
    input_norm: object = None,
    correlation: object = None,
    order: int | None = None,
    lambda_w=None,
    lambda_b=None,
    input_ratio: object = 1,
    at: CriticalPoint | None = None,
    **parameters,
) -> _depth.DepthLaw | ScheduledLaw:
    """`Theory.depth_law`; parameters: those that have values, σ_w and σ_b among them."""
    point = ExactPoint.of(theory, parameters, input_norm)
    theory = point.theory
    if point.norm is not None:
        Domain(sp.S.Zero).require("input_norm", point.norm)
    if correlation is not None and not (isinstance(quantity, str) and quantity in correlation_laws.QUANTITIES):
        raise MeanFieldError(
            f"correlation= is of two inputs, as the laws of {listed(correlation_laws.QUANTITIES)} are; "
            f"{shown(quantity)} was asked for."
        )
    if (own := depth_limit_of(theory)).answers_alone:
        more = {"order": order, "at": at, "lambda_w": lambda_w, "lambda_b": lambda_b, "correlation": correlation}
        more["input_ratio"] = None if scalar(input_ratio, "input_ratio") == 1 else input_ratio
        for name, value in more.items():
            if value is not None:
                raise MeanFieldError(
                    f"{name}= was given, but the laws of tokens that an Attention mixes are their leading ones, "
                    f"without such a choice; leave {name}= out."
                )
        return own.law(quantity, point.values)
    if isinstance(quantity, str) and quantity in (*CORRELATORS, "Theta"):
        given = {"lambda_w": lambda_w, "lambda_b": lambda_b}
        return _correlator_law(point, quantity, order, given, input_ratio, at)
    if lambda_w is not None or lambda_b is not None or scalar(input_ratio, "input_ratio") != 1:
        raise MeanFieldError(
            "lambda_w, lambda_b and input_ratio are of the laws of Theta and of correlators; "
            f"{shown(quantity)} was asked for."
        )
    known: dict[str, _depth.DepthLaw | None] = {}
    if at is not None:
        _refuse_other(at, point.given)
        law = {"K": at.law_K, "J": at.law_J}.get(quantity) if point.norm is None else None
        if law is not None:
            return law
        point = replace(point, given=point.given | {"sigma_w": at.sigma_w, "sigma_b": at.sigma_b})
        known = {} if point.norm is not None else {"K": at.law_K, "J": at.law_J}
        point = replace(point, norm=_norm_that_ends_at(at, point) if point.norm is None else point.norm)
    if order is not None:
        return _higher_order_law(point, quantity, whole(order, "order", 1, MOST_ORDER))
    if theory.one_input.knows_layer or theory.one_input.knows_depth:
        return _scheduled_law(point, quantity)
    if isinstance(quantity, str) and quantity == "fisher":
        return _fisher_law(point, known)
    choice(quantity, "quantity", ("K", "J", "Theta", "fisher", *correlation_laws.QUANTITIES, *CORRELATORS, *OF_BLOCKS))
    if quantity in OF_BLOCKS:
        return _scheduled_law(point, quantity)
    if quantity in correlation_laws.QUANTITIES:
        return closing_law(point, quantity, correlation, known={k: v for k, v in known.items() if v is not None})
    return own.law(quantity, point.values)


def table_of_phases(theory: Maps, /, *quantities: str, **fixed) -> PhaseTable:
    """`Theory.phase_table`."""
    from meanfield.presentation.phase_tables import phase_table

    asked = tuple(one for n in quantities for one in names_of(n, "A quantity"))
    return phase_table(branch_of(theory, fixed), asked)


def branch_of(theory: Maps, fixed: dict) -> Branch:
    """The branch of a residual block, with numbers put in."""
    found = branch(theory.block)
    known = {s.name: s for s in found.symbols}
    extra = sorted(set(fixed) - set(known))
    if extra:
        raise MeanFieldError(
            f"{extra[0]} is not a parameter of this block; it has {', '.join(sorted(known)) or 'none'}."
        )
    return found.subs({known[n]: exact_number(n, v) for n, v in fixed.items()})


def _refuse_other(at: object, parameters: dict) -> None:
    """Refuse an at= that is no critical point, or σ's beside it."""
    if not isinstance(at, CriticalPoint):
        raise MeanFieldError(f"at= is one of theory.critical_points(), but {shown(at)} was given.")
    if {"sigma_w", "sigma_b"} & set(parameters):
        raise MeanFieldError("at= says sigma_w and sigma_b; leave them out.")


def _norm_that_ends_at(at: CriticalPoint, point: ExactPoint) -> sp.Expr | None:
    """The norm of an input whose K comes to K* of a critical point from where it attracts, or rests there where it
    attracts nothing; None (1) at K* = 0, and where every K rests."""
    limit = at.K.value
    if not limit.is_number or not limit.is_finite or limit == 0 or at.kind == "scale-invariant":
        return None
    beside = {"repelling": sp.S.Zero, "undecided": sp.S.Zero}.get(at.kind, BESIDE)
    if at.kind == "half-stable" and at.c_n is not None and float(at.c_n) < 0:  # attracts from below
        beside = -beside
    first = sp.sympify(point.theory.one_input.start["K"]).subs({s: v for s, v in _symbols(point).items()})
    slope = sp.diff(first, Q0)
    return None if slope == 0 or slope.has(Q0) else (limit * (1 + beside) - first.subs(Q0, 0)) / slope


def _symbols(point: ExactPoint) -> dict[sp.Symbol, sp.Expr]:
    """The values of a point by their symbols."""
    return {p: point.values[p.name] for p in point.theory.one_input.parameters if p.name in point.values}


def _correlator_law(
    point: ExactPoint, quantity: str, order: int | None, rates: dict, ratio: object, at: CriticalPoint | None
) -> CorrelatorLaw:
    """The law of Θ, or of a correlator divided by what it is measured in."""
    if at is not None:
        _refuse_other(at, point.given)
    slow = at is not None and at.kind == "half-stable"  # averages of many derivatives
    terms = int(not slow) if order is None else whole(order, "order", 0, MOST_ORDER)
    theory = replace(point.theory, block=with_values(point.theory.block, point.given))
    refuse_unknown(point.given, theory.one_input, also=("sigma_w", "sigma_b"))
    own = {k: v for k, v in point.given.items() if k in ("sigma_w", "sigma_b")}
    one = theory.one_input
    one = one.only("K", "J") if one["J"] != sp.oo else one.only("K")
    values = replace(point, theory=theory, given=own).values
    return large_depth(theory.block, theory.first, one, quantity, values, rates, ratio, terms, at)


def _higher_order_law(point: ExactPoint, quantity: str, order: int) -> ScheduledLaw:
    """The law of one quantity with `order` further terms."""
    from meanfield.presentation.phase_tables import higher_order_law_of

    choice(quantity, "quantity", ("K", "J", *OF_BLOCKS, *PAIR))
    try:
        found = branch_of(point.theory, point.given)
    except MeanFieldError as error:
        raise MeanFieldError(f"Further terms (order={order}) were asked for. {error}") from None
    exponents = [s.name for s in found.symbols if s.name.startswith("beta")]
    if exponents:
        raise MeanFieldError(f"Further terms of {quantity} need numbers for {', '.join(exponents)}.")
    return higher_order_law_of(found, quantity, order)


def _fisher_law(point: ExactPoint, known: Mapping[str, _depth.DepthLaw | None]) -> ScheduledLaw:
    """max/min of the diagonal blocks of the Fisher information without schedules: a block with one Dense by the
    laws of K and J, others as a branch."""
    from meanfield.presentation.phase_tables import ScheduledLaw

    form = plain_form(point.theory.block)
    if form is None:
        return _scheduled_law(point, "fisher")
    K_, J_ = (
        known.get(name) or depth_law(point.theory, name, input_norm=point.norm, **point.given) for name in ("K", "J")
    )
    assert isinstance(K_, _depth.DepthLaw) and isinstance(J_, _depth.DepthLaw)
    biases = exact_number("sigma_b", point.given.get("sigma_b", 1)) != 0
    growth = plain_fisher_law(form[0], grown(K_), grown(J_), biases)
    return ScheduledLaw("fisher", growth, J_.regime, f"input_norm = {1 if point.norm is None else point.norm}")


def _scheduled_law(point: ExactPoint, quantity: str) -> ScheduledLaw:
    """The law of one quantity under schedules, at exponents that have numbers."""
    theory = point.theory
    try:
        held = branch(theory.block)
    except MeanFieldError as error:
        changes = ", but the map changes from layer to layer (a Schedule)" if theory.one_input.knows_layer else ""
        raise MeanFieldError(
            f"A large-depth law was asked for{changes}. {error}"
        ) from None
    from meanfield.presentation.phase_tables import ScheduledLaw

    used = {s.name for s in held.exponents}
    table = None
    exponents = [s.name for s in held.exponents if s.name not in point.given]
    if not exponents:
        table = table_of_phases(theory, quantity, **point.given)
        exponents = [n for n in table.coordinates if n in used or len(table) > 1]
    if table is None or exponents:
        raise MeanFieldError(
            f"The law of {quantity} under schedules depends on {', '.join(exponents)}; give them numbers, or ask "
            "phase_table for all of them."
        )
    (row,) = table.rows
    (name,) = table.quantities[:1]
    law, regime = row[name], row.regimes[0]  # refused where the start decides
    law = law.map(lambda e: sp.sympify(e).subs(dict(table.definitions)))  # a law stands without its table
    return ScheduledLaw(name, law, regime.regime, regime.basin, regime.equations)


def closing_law(
    point: ExactPoint,
    quantity: str,
    correlation: object,
    growing: bool = True,
    known: Mapping[str, _depth.DepthLaw] = MappingProxyType({}),
) -> _depth.DepthLaw:
    """The law of c, γ or the distance of two inputs of one norm (1 unless given) and this cosine (0 unless given);
    growing: whether one may be looked for where K grows; known: the laws of K and J of a critical point."""
    theory, norm = point.theory, point.keywords["input_norm"]
    values = replace(point, norm=None).values
    cosine = sp.S.Zero if correlation is None else exact_number("correlation", correlation)
    require_cosine(cosine, correlation)
    swap = {s: values[s.name] for s in theory.equal_norms.parameters if s.name in values}
    missing = [s.name for s in theory.one_input.only("K", "J").parameters if s.name not in (*values, "Q0")]
    if missing:
        raise MeanFieldError(f"The law of {quantity} is not available: give {' and '.join(missing)} numbers.")
    phase = phase_of(theory, **point.keywords)
    recursion = theory.equal_norms.only("K", "K_ab", "distance").homogeneous("A large-depth law is").subs(swap)
    first = {n: sp.sympify(e).subs({Q0: norm, start_c0: cosine}) for n, e in recursion.start.items()}
    same = first["distance"] == 0
    start = sp.S.One if same else sp.simplify(first["K_ab"] / first["K"]) if first["K"] != 0 else sp.S.Zero
    one = theory.one_input.only("K", "J")
    try:
        return correlation_laws.correlation_law(
            recursion,
            one,
            quantity,
            values | {"Q0": norm},
            start,
            phase,
            is_odd(theory, values),
            lambda: correlations_of(theory, **point.keywords),
            known,
        )
    except MeanFieldError as error:  # K grows as a power, and the map of c depends on it
        found = growing_law(point, quantity) if growing and abs(start) != 1 else None
        if found is None:
            raise error
        return found


def growing_law(point: ExactPoint, quantity: str) -> _depth.DepthLaw | None:
    """The law of c, γ or the distance under a skip of strength 1, by the balance of powers that schedules have, too;
    None where that does not say it."""
    try:
        table = table_of_phases(point.theory, "K", "distance" if quantity == "distance" else "gamma", **point.given)
        ((regime,),) = (row.regimes for row in table)
        gamma = regime["distance" if quantity == "distance" else "gamma"]
    except (MeanFieldError, ValueError):
        return None
    if not gamma.is_regular or gamma.power_of(2) != 0:
        return None
    size = _depth.CONSTANT if gamma.constant is None else gamma.constant
    grows, power, logs = direction(gamma, At({})), gamma.power_of(0), gamma.power_of(1)
    terms: tuple[Term, ...] = (Term(size, power, logs),)
    if quantity == "c" and grows > 0:
        terms = (Term(sp.S.One), Term(-1 / size, -power, -logs))
    elif quantity == "c" and grows == 0:
        terms = (Term(sp.cancel(size / (1 + size))),)
    return _depth.DepthLaw(l, sp.oo, terms, "smaller", quantity=quantity, regime=regime.regime)


def projections(theory: Maps, /, *, factor: object = 2, input_norm: object = None, **parameters) -> ProjectionLaw:
    """`Theory.projection_law`."""
    ratio = exact_number("factor", factor)
    if not ratio.is_number or not ratio.is_real or ratio <= 1:
        raise MeanFieldError(f"factor must be a number > 1, but {shown(factor)} was given.")
    growth, regime = _growth_of_J(theory, parameters | {"input_norm": input_norm})
    return projection_law(growth, ratio, At({}), regime)


def _growth_of_J(theory: Maps, parameters: dict) -> tuple[Growth, str]:
    """The law of J^{1,l} as a `Growth`, and which balance holds."""
    found = depth_law(theory, "J", **parameters)
    return (grown(found) if isinstance(found, _depth.DepthLaw) else found.growth), found.regime


def schedule_of_widths(
    theory: Maps,
    /,
    *,
    width: int,
    depth: int,
    sigma_w=None,
    sigma_b=None,
    factor: object = 2,
    fixed: str = "first",
    multiple: int = 1,
    input_norm=1.0,
    layerwise: bool = False,
    **parameters,
) -> WidthSchedule:
    """`Theory.width_schedule`."""
    from meanfield.numeric.run import layer_widths
    from meanfield.theory.verbs.propagating import run

    width, multiple = layer_widths.checked_sizes(width, multiple)
    choice(fixed, "fixed", layer_widths.ENDS)
    ratio = double("factor", scalar(factor, "factor"))
    if not ratio > 1:
        raise MeanFieldError(f"factor must be a number > 1, but {shown(factor)} was given.")
    layer_widths.refuse_rigid(theory.block)
    expand = layer_widths.inner_factors(theory.block, parameters)
    deep = run(
        theory,
        sigma_w=sigma_w,
        sigma_b=sigma_b,
        depth=depth,
        input_norm=input_norm,
        layerwise=layerwise,
        quantities=("G_z",),
        **parameters,
    )
    if deep.log_G_z.ndim != 1:
        raise MeanFieldError("Widths are those of one network; give one number for each parameter.")
    return layer_widths.width_schedule(deep.log_G_z, width, float(ratio), fixed, multiple, expand)
