"""Averages piece by piece: slopes of maxima, odd functions, bounds far out, finite parts, powers of K, scales of φ."""

from __future__ import annotations

import dataclasses
import math
import re

import mpmath
import numpy as np
import pytest
import sympy as sp
from flint import acb, arb, fmpq

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, K_aa, K_ab, K_bb, Z, sigmoid, softplus
from meanfield.functions import balls
from meanfield.functions.activations import activation
from meanfield.functions.balls.ball_functions import _BALLS
from meanfield.functions.balls.straight_line import compile_program
from meanfield.functions.signs import _without_minus
from meanfield.numeric.lowering import near_zero
from meanfield.numeric.lowering.distances import equal_norm_distance
from meanfield.symbolic.averages import enclosure
from meanfield.symbolic.averages import node as nodes
from meanfield.symbolic.averages.expansions import finite_parts, large_variance
from meanfield.symbolic.averages.expansions.powerlog import Sums
from meanfield.symbolic.averages.node import average

z = Z[0]
PAIR = (K_aa, K_ab, K_bb)
PLACE = {K_aa: sp.Rational(3, 2), K_ab: sp.Rational(1, 3), K_bb: sp.Rational(4, 5)}


@pytest.mark.parametrize(("i", "j"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_the_slope_of_a_maximum(i, j):
    """⟨max(z_a, z_b)⟩ = √(V/2π) with V = K_aa + K_bb - 2K_ab the variance of the difference."""
    node = average(sp.Max(Z[0], Z[1]), PAIR)
    assert node.mixed and not average(sp.Max(Z[0], 0) * Z[1], PAIR).mixed
    V = K_aa + K_bb - 2 * K_ab
    truth = sp.sqrt(V / (2 * sp.pi)).diff(PAIR[i + j]).subs(PLACE)
    assert abs(sp.N(node.derivative_cov(i, j).subs(PLACE) - truth, 30)) < 1e-28


def test_pieces_by_their_distance_to_an_end():
    """A piece on (-∞, -1) is a function of t = -1 - z, one on (-1, 2) of z + 1, one on (2, ∞) of z - 2."""
    f = sp.Piecewise((z**2, z < -1), (z + 5, z < 2), (sp.exp(-z), True))
    left, middle, right = nodes._shapes(f)
    (t,) = left.free_symbols
    assert t.is_positive and left.free_symbols == middle.free_symbols == right.free_symbols
    assert [sp.expand(e - g) for e, g in ((left, (1 + t) ** 2), (middle, 4 + t), (right, sp.exp(-2 - t)))] == [0, 0, 0]
    (whole,) = nodes._shapes(sp.sin(z))
    assert whole == sp.sin(z)


@pytest.mark.parametrize(
    ("f", "odd"),
    [
        (sp.sign(z), True),
        (sp.Piecewise((-1, z < 0), (1, True)), True),
        (sp.Piecewise((z - 1, z < 0), (z + 1, True)), True),
        (sp.Piecewise((z, z < -1), (2 * z, z < 1), (z, True)), True),
        (sp.Piecewise((z, z < -1), (2 * z, z < 2), (z, True)), False),
        (sp.Piecewise((z, z < -1), (2 * z, z < 1), (3 * z, True)), False),
        (sp.Piecewise((z - 1, z < 0), (z + 2, True)), False),
        (sp.Abs(z), False),
        (sp.Heaviside(z), False),
    ],
)
def test_which_pieces_make_an_odd_function(f, odd):
    assert nodes._is_odd(nodes._normal(f, 1), 1) == odd


def test_odd_functions_of_two_variables():
    given = [Z[0] * Z[1], Z[0] ** 3 * Z[1] ** 2, sp.tanh(Z[0]) * Z[1] ** 2, Z[0] + Z[1] ** 2, sp.Max(Z[0], Z[1])]
    assert [nodes._is_odd(e, 2) for e in given] == [False, True, True, False, False]


@pytest.mark.parametrize(
    ("f", "lo", "hi", "power"),
    [
        (sp.sinh(z) / (2 + sp.cosh(z)), 0, sp.oo, 0),
        (z**2 * sp.sinh(z) / (2 + sp.cosh(z)), -sp.oo, sp.oo, 2),
        (z**2 / (2 + sp.exp(z)) + z, -sp.oo, sp.oo, 2),
        (z**2 / (2 + sp.exp(-z)) + z, -sp.oo, sp.oo, 2),
        (3 * z / (1 + sp.exp(-z)), -sp.oo, sp.oo, 1),
        (3 * z / (1 + sp.exp(z)), -sp.oo, sp.oo, 1),
    ],
)
def test_a_bound_holds_on_both_sides(f, lo, hi, power):
    """|f(z)| ≤ A (1 + |z|)^p with the power of the side that grows faster, on a scan up to 200."""
    found = enclosure._bound_of_far_forms(f, sp.sympify(lo), hi)
    assert found.c == 0 and found.p == power
    value = sp.lambdify(z, f, "mpmath")
    for u in np.linspace(0, 200, 301):
        for side in (1, -1) if lo != 0 else (1,):
            assert abs(value(mpmath.mpf(side * u))) <= found.A * (1 + u) ** found.p
    assert enclosure._piece_bound(f, sp.sympify(lo), hi).c == 0


def test_what_has_no_bound_of_a_power():
    """e^z grows on one side only: known on one side is not enough."""
    assert enclosure._bound_of_far_forms(sp.exp(z), -sp.oo, sp.oo) is None
    assert enclosure._bound_of_far_forms(sp.exp(z), -sp.oo, sp.S.Zero).p == 0
    with pytest.raises(MeanFieldError, match=r"The growth of .* is not bounded by the rules"):
        enclosure._piece_bound(sp.gamma(z**2 + 1), -sp.oo, sp.oo)


def test_a_finite_part_that_is_not_enclosed(monkeypatch):
    """∫_0^∞ dx/(1 + x²) = π/2; a tail that no series encloses is refused, and so is one without a form."""
    f = 1 / (1 + z**2)
    assert finite_parts.outer_ball(f, z, sp.S.Zero, 0).overlaps(arb.pi() / 2)
    with pytest.raises(MeanFieldError, match=r"The tail of cos\(.*\) cannot be bounded by the rules"):
        finite_parts.outer_ball(sp.cos(z), z, sp.S.Zero, 0)
    for nothing in (arb.nan(), arb(0, 1)):
        monkeypatch.setattr(finite_parts, "_beyond", lambda *_, found=nothing: found)
        with pytest.raises(MeanFieldError, match=r"The finite part of ∫ z\^0 .* no finite enclosure was found"):
            finite_parts.outer_ball(f, z, sp.S.Zero, 0)


def test_powers_without_an_arithmetic_are_refused():
    """(2 + z)^z and z^√2 are written where balls have powers, and refused by name where they have none."""
    without = dataclasses.replace(_BALLS, power=None, off_zero=None)
    for e in (z ** sp.sqrt(2), (2 + z) ** z):
        found = balls.compile_ball(e, (z,))((acb(fmpq(3, 2)),), False)
        assert found.real.overlaps(arb(str(sp.N(e.subs(z, sp.Rational(3, 2)), 40)) + " +/- 1e-35"))
        with pytest.raises(MeanFieldError, match=re.escape(str(_BALLS.complaint(e)))):
            compile_program(e, (z,), without)


@pytest.mark.parametrize(
    ("f", "terms"),
    [
        (sp.sqrt(sp.Abs(z)), {("1/4", 0): 2**0.25 * math.gamma(0.75) / math.sqrt(math.pi)}),
        (sp.Max(0, z), {("1/2", 0): 1 / math.sqrt(2 * math.pi)}),
        (sp.exp(-(z**2)), {("-1/2", 0): 1 / math.sqrt(2), ("-3/2", 0): -1 / math.sqrt(32)}),
    ],
)
def test_expansions_of_closed_forms(f, terms):
    """⟨√|z|⟩ = 2^¼ Γ(¾) K^¼/√π, ⟨max(0, z)⟩ = √(K/2π), ⟨e^{-z²}⟩ = (1 + 2K)^{-½}."""
    sums = Sums(-1)
    found = large_variance._from_closed_form(average(f, (K,)), 2, sums)
    assert {(str(s), m): pytest.approx(float(c), rel=1e-14) for (s, m), c in sums.terms(found).items()} == terms
    assert (found.remainder is None) == (f != sp.exp(-(z**2)))


def test_a_logarithm_of_k_is_two_of_its_root():
    """½ log K = log t and ¼ (log K)² = (log t)² at t = √K: powers of logarithms count halves."""

    class Logs:
        is_finite_sum, dropped, parts = True, False, ()

        def terms(self, floor):
            return {(sp.Integer(2), 0): sp.Integer(3), (sp.S.One, 1): sp.Integer(5), (sp.S.Zero, 2): sp.Integer(7)}

    found = {}
    node = average(sp.Max(0, z), (K,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_variance, "normal_form", lambda *_: Logs())
        sums = Sums(-1)
        found = sums.terms(large_variance._from_closed_form(node, 2, sums))
    half, quarter = sp.Rational(5, 2), sp.Rational(7, 4)
    assert found == {(sp.S.One, 0): 3, (sp.S.Half, 1): half, (sp.S.Zero, 2): quarter}


def test_mirrored_arguments_cancel():
    """σ(-u) = 1 - σ(u), softplus(-u) = softplus(u) - u, and odd functions take their sign out."""
    x = sp.Symbol("x", positive=True)
    assert _without_minus(sigmoid(-x)) == 1 - sigmoid(x) and _without_minus(sigmoid(x) + sigmoid(-x)) == 1
    assert _without_minus(softplus(x) - softplus(-x)) == x
    assert _without_minus(sp.tanh(-3 * x)) == -sp.tanh(3 * x)
    assert _without_minus(sigmoid(-2 * x) + x * sigmoid(2 * x)) == 1 - sigmoid(2 * x) + x * sigmoid(2 * x)


def test_what_cancels_at_small_variances_has_a_series():
    """⟨tanh⁴⟩ - 3⟨tanh²⟩² = -8K³ + 80K⁴ - 656K⁵ + …; averages of two inputs and single averages stay as they are."""
    square, fourth = (average(sp.tanh(z) ** n, (K,)) for n in (2, 4))
    ((series, where), (whole, _)) = near_zero._map(fourth - 3 * square**2, {}).args
    assert where.lts == K and whole == fourth - 3 * square**2
    found = [float(sp.Poly(sp.expand(series), K).coeff_monomial(K**n)) for n in range(6)]
    assert found == pytest.approx([0, 0, 0, -8, 80, -656], rel=1e-14)
    between = average(sp.tanh(Z[0]) * sp.tanh(Z[1]), PAIR)
    for e in (between - square**2, square, sp.Symbol("V") * square - between, square * between - square**2 * between):
        assert near_zero._map(e, {}) == e.expand()


def test_scales_that_a_variance_holds():
    """A power on either side of 0 has no scale of its own; tanh(64z) is 64 times as steep as tanh(z)."""
    assert [equal_norm_distance.rate_of(f) for f in (sp.Max(0, z), z**3, sp.Abs(z), sp.Max(z / 5, z))] == [0, 0, 0, 0]
    assert equal_norm_distance.rate_of(sp.tanh(z)) == equal_norm_distance.rate_of(sp.tanh(z / 64)) == 1.0
    assert 64 <= equal_norm_distance.rate_of(sp.tanh(64 * z)) <= 64**2
    for f in (sp.Piecewise((0, z < 1), (z - 1, True)), sp.Piecewise((z, z < 0), (z**2, True)), sp.exp(z) + z**2):
        assert not equal_norm_distance.scale_free(f)


def test_a_piece_whose_mass_lies_at_its_end(monkeypatch):
    """⟨φ′²⟩ of clip(z, -2.9, 1.21) + .93·tanh(2.8z) at K = 1.7e14, where the density is flat: the integral of φ′². Past
    a break sech⁴ falls within z ~ 1, some 1e-7 of a standard deviation: without points there samples far away set the
    goal of a ball, which then takes minutes."""
    slopes = activation("clip(z,-2.9,1.21)+0.93*tanh(2.8*z)").pieces.diff()
    square = slopes.map(lambda e: e**2).expr
    V = sp.Rational(17 * 10**13)
    with mpmath.workdps(30):
        risen = mpmath.mpf("1.86") * (mpmath.tanh(mpmath.mpf("3.388")) + mpmath.tanh(mpmath.mpf("8.12")))
        whole = mpmath.mpf("4.11") + risen + mpmath.mpf("2.604") ** 2 * 4 / mpmath.mpf("8.4")
        exact = whole / mpmath.sqrt(2 * mpmath.pi * mpmath.mpf(17 * 10**13))
    evaluations: list[int] = []

    def tick():
        evaluations.append(1)
        assert len(evaluations) < 30_000, "too many evaluations"

    monkeypatch.setattr(enclosure, "tick", tick)
    ball = enclosure.average(square, (V,), (sp.S.Zero,), 12)
    assert ball.rad() < 1e-12 * ball and abs(float(ball.mid()) / float(exact) - 1) < 1e-12
    assert abs(float(ball.mid()) / float(exact * (1 + mpmath.mpf("1e-11"))) - 1) > 1e-12
    monkeypatch.setattr(enclosure, "FLAT", math.inf)
    evaluations.clear()
    with pytest.raises(AssertionError, match="too many evaluations"):
        enclosure.average(square, (V,), (sp.S.Zero,), 12)
