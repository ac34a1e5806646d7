"""The large-depth laws of the correlators of order 1/n of a theory, and the shift of its critical point: which class a
network belongs to at the numbers that are given.
"""

from __future__ import annotations

import math
from typing import Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import scalar, shown
from meanfield.base.symbols import Q0, sigma_b, sigma_w
from meanfield.correlators.derived import correlators, nothing_varies, plain, rates_of
from meanfield.functions.zeros import is_zero
from meanfield.networks.records import Block, Dense
from meanfield.symbolic.correlator_laws.critical_shift import CriticalShift, shift_at_zero
from meanfield.symbolic.correlator_laws.exact import homogeneous_law, is_homogeneous
from meanfield.symbolic.correlator_laws.positive_variance import (
    NearFixedPoint,
    law_at_critical_point,
    law_at_point,
    law_where_slow,
)
from meanfield.symbolic.correlator_laws.systems import CorrelatorLaw
from meanfield.symbolic.correlator_laws.vanishing_variance import law_at_zero, names_for
from meanfield.symbolic.criticality.critical_points import CriticalPoint, CriticalPoints
from meanfield.symbolic.fixed_points.all_fixed_points import destination, fixed_points
from meanfield.symbolic.recursion import Recursion


def large_depth(
    block: Block,
    first: Dense,
    one: Recursion,
    name: str,
    point: dict[str, sp.Expr],
    given: dict[str, Any],
    ratio: object,
    order: int,
    at: CriticalPoint | None = None,
) -> CorrelatorLaw:
    """The large-depth law of one normalized correlator, of Θ, or of the correction of a mean divided by the mean.

    one: the recursion of K and J; place: exact σ's and Q0; given: rates; ratio: N_0/n; order: how many powers of l
    below the leading one; at: a critical point in the place of σ's.
    """
    phi, weights = plain(block, first, f"The large-depth law of {name}")
    rates = rates_of({k: _decimal(v) for k, v in given.items() if v is not None})
    share = scalar(ratio, "input_ratio")
    if not (sp.sympify(share) > 0) == True:  # noqa: E712 (nan, symbols)
        raise MeanFieldError(f"The ratio N_0/n of inputs to neurons must be > 0, but {shown(ratio)} was given.")
    if name not in names_for(phi):
        correlators(block, first, (name,), rates, share)  # says why it does not exist for this φ
    if at is not None:
        if at.kind == "half-stable" and at.order == 2:
            return law_at_critical_point(phi, weights, at, rates, name, order)
        point = point | {"sigma_w": at.sigma_w.value, "sigma_b": at.sigma_b.value}
    missing = [s for s in ("sigma_w", "sigma_b") if s not in point or not point[s].is_number]
    missing += sorted(s.name for s in phi.free_parameters)
    if missing:
        raise MeanFieldError(f"The large-depth law of {name} is not available: give {' and '.join(missing)} numbers.")
    sigma, bias, norm = point["sigma_w"], point["sigma_b"], point.get("Q0", sp.S.One)
    rates = rates[0].subs({sigma_w: sigma, sigma_b: bias}), rates[1].subs({sigma_w: sigma, sigma_b: bias})
    values = {"sigma_w": sigma, "sigma_b": bias}
    points = fixed_points(one, values)
    start = one.initial["K"].subs({sigma_w: sigma, sigma_b: bias, Q0: norm})
    if start == 0:
        raise nothing_varies(name)
    neutral = bool(points) and points[0].stability == "neutral"
    here = None if neutral else destination(points, one["K"].subs({sigma_w: sigma, sigma_b: bias}), start)
    if neutral or here is None or here.K.value == 0:
        if is_homogeneous(phi):
            recursion = correlators(block, first, names_for(phi), rates, share)
            return homogeneous_law(recursion, sigma, bias, norm, name, order)
        if here is None:
            raise MeanFieldError(
                f"The large-depth law of {name} is not available: K grows without bound; laws of correlators are "
                "derived there for positively homogeneous φ alone (linear, ReLU, leaky ReLU, |z|)."
            )
        return law_at_zero(phi, weights, sigma, rates, name, order, points.status)
    slow = not here.is_exponential and here.basin is not None
    settled = NearFixedPoint(phi, weights, sigma, bias, rates, start, here, points)
    if slow and (here.K.error is not None or not is_zero(start - here.K.value)):
        return law_where_slow(settled, name, order)
    if here.stability != "stable" and not slow:
        raise MeanFieldError(
            f"The large-depth law of {name} was asked for at a {here.stability} fixed point; at a critical point give "
            "it as at=theory.critical_points()[i]."
        )
    return law_at_point(settled, name, order)


def _decimal(value: Any) -> Any:
    """A float, also one of NumPy's, as the decimal it prints as."""
    is_float = isinstance(value, float) or getattr(getattr(value, "dtype", None), "kind", "") == "f"
    single = is_float and not getattr(value, "shape", ())
    return sp.Rational(repr(float(value))) if single and math.isfinite(value) else value


def critical_shift(block: Block, first: Dense, points: CriticalPoints) -> CriticalShift:
    """See `Theory.critical_shift`. points: the critical points at infinite width."""
    phi, weights = plain(block, first, "The critical point at finite width")
    kinds = {p.kind: p for p in points}
    if "scale-invariant" in kinds:
        sigma = kinds["scale-invariant"].sigma_w.value
        recursion = correlators(block, first, ("G1",))
        law = homogeneous_law(recursion, sigma, sp.S.Zero, sp.S.One, "G1", 1)
        if law.terms:
            raise MeanFieldError("G1 of a homogeneous φ is expected to be 0; it is not, so no shift is stated.")
        return CriticalShift(sigma**2, sp.S.Zero, sp.S.Zero, law)
    if "power law" not in kinds:
        found = ", ".join(kinds) or "none"
        raise MeanFieldError(
            "The shift of the critical point by finite width is derived where K falls to 0 by a power of l and where "
            f"every K is fixed; the critical points of {phi.name} are: {found}."
        )
    return shift_at_zero(phi, weights, kinds["power law"].sigma_w.value)
