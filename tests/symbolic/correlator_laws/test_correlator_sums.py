"""Sums over layers of polynomials in l and harmonic numbers, monomials of K, and what a slow approach refuses."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest
import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Solution, Status
from meanfield.base.symbols import J, K, Z, l
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.correlator_laws import positive_variance
from meanfield.symbolic.correlator_laws.scale_invariant import (
    NotClosed,
    _antidifference,
    _product,
    monomial,
    monomials,
    summed,
)
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoint

R, S = sp.Rational, sp.S


def value(f, layer: int) -> sp.Expr:
    """Σ c l^a H_l^b with H_l = 1 + 1/2 + … + 1/l."""
    return sum((c * S(layer) ** a * sp.harmonic(layer) ** b for (a, b), c in f.items()), S.Zero)


POWERS = list(itertools.product(range(4), range(3)))


@pytest.mark.parametrize("one", POWERS)
@pytest.mark.parametrize("other", [(0, 0), (2, 1), (1, 2)])
def test_sums_over_layers_are_what_they_add(one, other):
    f = {one: R(3), other: R(-2, 5)} if one != other else {one: R(3)}
    found = summed(f)
    for layer in (1, 2, 7):
        assert value(found, layer) == sum((value(f, m) for m in range(1, layer)), S.Zero)
    assert all(c != 0 for c in found.values())


def test_what_has_no_such_sum_is_said_and_products_and_differences():
    with pytest.raises(NotClosed, match=r"^$"):
        summed({(0, 3): S.One})
    f, g = {(1, 1): R(2), (0, 0): R(-1)}, {(1, 0): R(3), (0, 1): R(1, 2)}
    for layer in (1, 3, 6):
        assert value(_product(f, g), layer) == value(f, layer) * value(g, layer)
    p = sp.Poly(3 * l**4 - 2 * l + R(1, 7), l)
    whole = _antidifference(p)
    assert whole.eval(0) == 0 and all(whole.eval(n + 1) - whole.eval(n) == p.eval(n) for n in (0, 1, 5))


def test_powers_of_K():
    assert monomial(3 * K**2) == (3, 2) and monomial(S(5)) == (5, 0) and monomial(2 / sp.sqrt(K)) == (2, R(-1, 2))
    assert monomial(S.Zero) == (0, 0) and monomial(average(Z[0] ** 4, K)) == (3, 2)
    with pytest.raises(MeanFieldError, match="is no power of K"):
        monomial(K + 1)
    assert set(monomials((K + 2) ** 2 - 4 + 3 * K)) == {(1, 2), (7, 1)} and monomials(K - K) == []


def test_how_K_comes_where_that_is_not_known_is_refused(monkeypatch):
    """χ_K is 1 to 1e-9, and no exact maps say how K comes there."""
    monkeypatch.setattr(positive_variance, "slow_approach", lambda *_: None)
    star = FixedPoint(
        Solution(S(2), Status.EXACT), Solution(R(1, 2), Status.EXACT), Solution(S.One, Status.CERTIFIED, 1e-9), "stable"
    )
    place = SimpleNamespace(
        recursion=lambda: {"K": K, "J": J}, point=star, start=S.One, points=SimpleNamespace(monotone=True)
    )
    with pytest.raises(MeanFieldError, match=r"chi_K is 1 at K\* = 2, to 1.0e-09, and how K comes there is not known"):
        positive_variance._slow.__wrapped__(place, 2)
