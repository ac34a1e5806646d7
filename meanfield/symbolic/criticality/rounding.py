"""Critical to rounding: σ's given as floating-point numbers whose last bits decide between ordered and chaotic.

2**0.5 is no square root of 2; its square is 2.0000000000000004, and with a ReLU that is chaotic with a correlation
length of 10¹⁶ layers. A critical network was meant. So where χ_J* − 1 changes sign within two units in the last place
of the doubles given, the answer says so. Text and fractions are exact and never rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import sympy as sp
from mpmath.libmp import prec_to_dps

from meanfield.base.answers.results import Solution
from meanfield.symbolic.criticality.phases import Phase
from meanfield.symbolic.fixed_points.all_fixed_points import ROUNDED, FixedPoint, FixedPoints
from meanfield.symbolic.fixed_points.marginality import phase_of

REACH = 2  # units in the last place
_SIDES = {"ordered": -1, "chaotic": 1}  # every other phase lies on the line, or is not known


def doubles(given: Mapping[str, Any]) -> dict[str, float | sp.Rational]:
    """The values that are floating-point numbers other than 0, with their unit in the last place: doubles, and SymPy's
    numbers of more digits (a line's σ_w)."""
    out: dict[str, float | sp.Rational] = {}
    for name, value in given.items():
        if isinstance(value, sp.Float) and not value.is_zero:
            digits = prec_to_dps(value._prec)  # it counts as the decimal that it prints as
            out[name] = sp.Rational(10) ** (int(sp.floor(sp.log(abs(value), 10))) + 1 - digits)
            continue
        kind = getattr(value, "dtype", None)
        if kind is not None and kind.kind == "f" and value.ndim == 0:
            import numpy as np  # the value is one of NumPy's

            unit = float(np.spacing(np.abs(value)))
        elif isinstance(value, float):
            unit = math.ulp(value)
        else:
            continue
        if math.isfinite(value) and value != 0:
            out[name] = unit
    return out


def corners(values: Mapping[str, sp.Expr], units: Mapping[str, Any]) -> Iterator[dict[str, sp.Expr]]:
    """The values with every double moved by `REACH` units in the last place, up or down."""
    for signs in product((1, -1), repeat=len(units)):
        moved = {k: values[k] + s * REACH * sp.Rational(u) for s, (k, u) in zip(signs, units.items())}
        yield dict(values) | moved


def _near(chi: Solution, values: Mapping[str, sp.Expr], units: Mapping[str, Any]) -> bool:
    """Whether χ_J is close enough to 1 for the last bits to matter; at a double root they move it by their square
    root."""
    if not units or chi.value in (sp.oo, sp.nan) or not chi.value.is_number:
        return False
    relative = max(float(u) / abs(float(values[k])) for k, u in units.items())
    return bool(abs(chi.value - 1) <= 100 * math.sqrt(relative))


def phase_with_rounding(
    found: Phase, values: Mapping[str, sp.Expr], units: Mapping[str, Any], again: Callable[[dict], Phase]
) -> Phase:
    """`found`, called critical to rounding where it is; again(values) is the phase at other values."""
    side = _SIDES.get(found.name, 0)
    if found.name not in (*_SIDES, "undecided") or not _near(found.chi_J, values, units):
        return found
    if all(_SIDES.get(again(moved).name, 0) == side for moved in corners(values, units)):
        return found
    return replace(found, name=ROUNDED)


def points_with_rounding(
    found: FixedPoints, values: Mapping[str, sp.Expr], units: Mapping[str, Any], again: Callable[[dict], FixedPoints]
) -> FixedPoints:
    """`found`, with the points marked that are critical to rounding; again(values) finds the points at other values."""
    near = [p for p in found if p.phase in (*_SIDES, "undecided") and _near(p.chi_J, values, units)]
    if not near:
        return found
    elsewhere = [again(moved) for moved in corners(values, units)]
    marked = tuple(
        replace(p, to_rounding=True) if p in near and not all(_keeps(p, one) for one in elsewhere) else p for p in found
    )
    return replace(found, points=marked)


def _keeps(point: FixedPoint, others: FixedPoints) -> bool:
    """Whether the same fixed point is among the others, on the same side of χ_J = 1."""
    k = float(point.K.value)
    same = [q for q in others if q.K.value.is_number and abs(float(q.K.value) - k) <= 1e-4 * k]
    return any(phase_of(q.chi_J) == point.phase for q in same)
