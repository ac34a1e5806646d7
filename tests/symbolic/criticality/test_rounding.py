"""Critical to rounding: the doubles that are moved, by how much, and what the phases around decide."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import Solution, Status
from meanfield.symbolic.criticality.phases import Phase
from meanfield.symbolic.criticality.rounding import corners, doubles, phase_with_rounding, points_with_rounding
from meanfield.symbolic.fixed_points.all_fixed_points import ROUNDED, FixedPoint, FixedPoints


def exact(value) -> Solution:
    return Solution(sp.sympify(value), Status.EXACT)


def test_units_in_the_last_place_of_what_is_rounded():
    given = {"a": 1.5, "b": np.float64(-3.0), "c": np.float32(1.5), "d": sp.Float("1.25", 30), "e": np.array(2.0)}
    others = {"text": "1.5", "whole": 2, "ratio": sp.Rational(1, 3), "zero": 0.0, "no": math.nan, "far": math.inf,
              "list": np.array([1.0, 2.0]), "count": np.int64(3), "none": sp.Float(0)}  # fmt: skip
    units = doubles(given | others)
    assert units == {"a": 2.0**-52, "b": 2.0**-51, "c": 2.0**-23, "d": sp.Rational(1, 10**29), "e": 2.0**-51}
    assert doubles({"x": sp.Float("0.02", 20), "y": sp.Float("-345.6", 20)}) == {
        "x": sp.Rational(1, 10**21), "y": sp.Rational(1, 10**17)}  # fmt: skip


def test_corners_move_every_double_by_two_units():
    values = {"w": sp.S(2), "b": sp.S(1), "mu": sp.Rational(1, 2)}
    found = list(corners(values, {"w": 0.25, "b": sp.Rational(1, 8)}))
    assert len(found) == 4 and all(c["mu"] == sp.Rational(1, 2) and list(c) == list(values) for c in found)
    assert {(c["w"], c["b"]) for c in found} == {
        (w, b) for w in (sp.Rational(3, 2), sp.Rational(5, 2)) for b in (sp.Rational(3, 4), sp.Rational(5, 4))
    }


def phase(name: str, chi) -> Phase:
    return Phase(name, None, exact(chi), False)


ORDER_ONE = {"w": 2.0**-52}
CLOSE = 1 + sp.Rational(1, 10**10)  # 100·√(2⁻⁵²/1) = 1.49e-6


@pytest.mark.parametrize(
    "name, chi, units, around, changes",
    [
        ("chaotic", CLOSE, ORDER_ONE, ("chaotic", "chaotic"), False),
        ("chaotic", CLOSE, ORDER_ONE, ("chaotic", "ordered"), True),
        ("chaotic", CLOSE, ORDER_ONE, ("critical", "chaotic"), True),
        ("ordered", CLOSE, ORDER_ONE, ("ordered", "ordered"), False),
        ("ordered", CLOSE, ORDER_ONE, ("chaotic", "chaotic"), True),
        ("undecided", CLOSE, ORDER_ONE, ("critical", "undecided"), False),
        ("undecided", CLOSE, ORDER_ONE, ("critical", "ordered"), True),
        ("critical", CLOSE, ORDER_ONE, ("ordered", "chaotic"), False),
        ("chaotic", CLOSE, {}, ("ordered", "ordered"), False),
        ("chaotic", 1 + sp.Rational(2, 10**6), ORDER_ONE, ("ordered", "ordered"), False),
        ("chaotic", 1 + sp.Rational(1, 10**6), ORDER_ONE, ("ordered", "ordered"), True),
        ("ordered", 1 - sp.Rational(2, 10**6), ORDER_ONE, ("chaotic", "chaotic"), False),
        ("chaotic", sp.oo, ORDER_ONE, ("ordered", "ordered"), False),
        ("undecided", sp.nan, ORDER_ONE, ("ordered", "ordered"), False),
        ("undecided", sp.Symbol("mu"), ORDER_ONE, ("ordered", "ordered"), False),
    ],
)
def test_a_phase_is_critical_to_rounding_where_the_last_bits_decide(name, chi, units, around, changes):
    place = {"w": sp.S.One}
    found = phase_with_rounding(
        phase(name, chi), place, units, lambda moved: phase(around[1 if moved["w"] > 1 else 0], 1)
    )
    assert found.name == (ROUNDED if changes else name) and found.to_rounding == changes
    assert math.isinf(found.xi) or not changes


def test_the_unit_counts_beside_its_value():
    """2⁻⁵² of 10⁻⁶ is large: 100·√(2.2e-10) = 1.5e-3."""
    away = phase("chaotic", 1 + sp.Rational(1, 1000))
    for w, changes in ((sp.Rational(1, 10**6), True), (-sp.Rational(1, 10**6), True), (sp.S.One, False)):
        found = phase_with_rounding(
            away, {"w": w, "b": sp.S(1)}, {"b": 2.0**-60} | ORDER_ONE, lambda _: phase("ordered", 1)
        )
        assert found.to_rounding is changes


def point(k, chi) -> FixedPoint:
    return FixedPoint(exact(k), exact(chi), exact(sp.Rational(1, 2)), "stable")


@pytest.mark.parametrize(
    "around, changes",
    [
        ([(2, CLOSE)], False),
        ([(2, 2 - CLOSE)], True),
        ([(2, 1)], True),
        ([(2, 2 - CLOSE), (2, CLOSE)], False),
        ([(2 + 1e-4, CLOSE)], False),
        ([(2 + 3e-4, CLOSE)], True),
        ([(2 - 3e-4, CLOSE)], True),
        ([(5, CLOSE)], True),
        ([], True),
    ],
)
def test_a_fixed_point_is_critical_to_rounding_where_it_does_not_stay_on_its_side(around, changes):
    found = FixedPoints((point(2, CLOSE), point(7, 3), point(9, 1)), Status.EXACT, "by hand")
    other = FixedPoints(tuple(point(k, chi) for k, chi in around), Status.EXACT, "by hand")
    marked = points_with_rounding(found, {"w": sp.S.One}, ORDER_ONE, lambda moved: found if moved["w"] < 1 else other)
    assert [p.to_rounding for p in marked] == [changes, False, False]
    assert marked[0].phase == (ROUNDED if changes else "chaotic") and math.isinf(marked[0].xi) == changes
    neutral = replace(found, points=(replace(found[1], K=exact(sp.Symbol("K"))),))
    assert points_with_rounding(neutral, {"w": sp.S.One}, ORDER_ONE, lambda moved: other) is neutral


def test_a_floating_zero_is_zero():
    """SymPy's 0.0 is not equal to 0; what is small but not 0 is refused still."""
    theory = mf.derive("erf")
    found, known = (theory.phase(sigma_w="3/2", sigma_b=b) for b in (sp.Float(0, 40), 0))
    assert found.chi_J == known.chi_J and found.fixed_point.K == known.fixed_point.K
    with pytest.raises(mf.MeanFieldError, match="must be 0 or of a size from"):
        theory.phase(sigma_w=1, sigma_b=sp.Float("1e-400"))
