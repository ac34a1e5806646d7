"""What follows from the shape, the growth and the ends of a function's record: of records written for the purpose."""

from __future__ import annotations

import pytest
import sympy as sp

from meanfield.base.symbols import HeadFunction, Z
from meanfield.functions.elementary.record import (
    ElementaryFunction,
    EndBehavior,
    ExponentialGrowth,
    LogarithmicGrowth,
    PowerEnd,
)

u = Z[0]


class bowl(HeadFunction):
    """u², as a head of the tests' own."""


def record(**given) -> ElementaryFunction:
    return ElementaryFunction(bowl, mpmath=lambda x: x * x, ball="sqr", **given)


@pytest.mark.parametrize(
    ("shape", "low", "positive"),
    [("valley", 0, False), ("", 0, False), ("hill", 0, True), ("rising", 0, True), ("falling", 0, True),
     ("valley", 1, True), ("", 2, True), ("rising", -1, False), ("hill", -1, False)],
)  # fmt: skip
def test_what_is_positive(shape, low, positive):
    """An infimum of 0 is met by a valley (at 0), by what rises or falls only far out."""
    assert record(values=(sp.Integer(low), sp.oo), shape=shape).positive is positive


def test_what_follows_from_a_shape():
    rising, falling, hill = (record(shape=s) for s in ("rising", "falling", "hill"))
    half = record(shape="rising", domain=(sp.S.Zero, sp.oo))
    assert rising.injective and falling.injective and not hill.injective and not half.injective
    assert record(shape="rising", parity=-1).odd_rising
    assert not record(shape="falling", parity=-1).odd_rising and not rising.odd_rising
    assert record(parity=-1).odd and not record(parity=-1).even and record(parity=1).even and not rising.even
    named = {"names": ("bowl",), "shape": "rising"}
    level = record(right=EndBehavior(lambda v: sp.S.One, size=sp.S.One), growth=None, **named)
    assert level.bends and level.levels and not level.grows_exponentially and level.exponential_like
    grown = record(right=EndBehavior(lambda v: sp.S.One, size=sp.S.One), growth=ExponentialGrowth((1,)), **named)
    assert grown.bends and not grown.levels and grown.grows_exponentially
    power = record(right=PowerEnd(((sp.S.One, 0, lambda w: sp.S.One),)), growth=LogarithmicGrowth(), **named)
    assert power.bends and power.power_like and not power.exponential_like
    assert not record(right=EndBehavior(lambda v: v, size=sp.S.One), shape="rising").bends  # no formula holds it
    assert not record(**named).bends
    assert record(slope=lambda v: 1 / sp.sqrt(1 + v**2)).arc and not record(slope=sp.cos).algebraic_slope
    assert not record(slope=lambda v: 1 / v, domain=(sp.S.Zero, sp.oo)).arc


@pytest.mark.parametrize("parity", [1, -1])
def test_the_left_end_of_a_parity(parity):
    """h(-u) = ±h(u): limit, rate and powers on the left are those on the right of -u, with the sign."""
    one = record(
        parity=parity, right=EndBehavior(lambda v: v + 2, size=sp.Integer(3), rate=2, small=lambda v: sp.exp(-2 * v))
    )
    left = one.end(-1)
    assert left.limit(u) == parity * (2 - u) and (left.size, left.rate) == (3, 2)
    assert left.small(u) == parity * sp.exp(2 * u)
    far = record(parity=parity, right=PowerEnd(((sp.S.Zero, 1, lambda w: 1 + w),))).end(-1)
    assert far.parts[0][:2] == (0, 1) and sp.expand(far.parts[0][2](u) - parity * (1 - u)) == 0
    assert record(right=PowerEnd(())).end(-1) is None


@pytest.mark.parametrize(
    ("formula", "free"),
    [(lambda y: y, True), (lambda y: 2 * y / (1 + y**2), True), (lambda y: y - 1 / y, False),
     (lambda y: sp.log(1 + y), False), (None, False)],
)  # fmt: skip
def test_what_has_no_zero(formula, free):
    assert record(exponential=formula).zero_free is free
