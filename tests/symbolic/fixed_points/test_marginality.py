"""χ_J and χ_K held against 1, however close; maps of K whose φ bends although χ_J is constant; irrational zeros."""

from __future__ import annotations

import math
from dataclasses import replace

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError, Solution, Status
from meanfield.base.symbols import K, Z, factored, sigma_b, sigma_w
from meanfield.functions import balls, zeros
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering.averages import one_gaussian as lowered
from meanfield.symbolic.asymptotics.depth import _at_fixed_point
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.averages.singular_ends import poles
from meanfield.symbolic.fixed_points.certified_roots import enclose
from meanfield.symbolic.fixed_points.marginality import gap_of, length_of, phase_of
from meanfield.symbolic.recursion import closed

x = Z[0]
R = sp.Rational


def assert_gap(chi: Solution, truth: object) -> None:
    """χ - 1 is certified to have this value to 11 digits."""
    with balls.precision(1200):
        off = gap_of(chi) / balls.constant(sp.sympify(truth)) - 1
        assert abs(off) < 1e-11, f"chi - 1 is {gap_of(chi)}, not {truth}"


# K = 10⁻ⁿ-sized fixed points by series: ⟨tanh²⟩ = K - 2K² + …, ⟨sech⁴⟩ = 1 - 2K + …
NEAR = [
    ("tanh", "1", "1e-60", -sp.sqrt(2) * R(1, 10**60), "ordered"),
    ("tanh", "1+1e-30", "0", R(4, 3) / 10**60, "chaotic"),
    ("0.3*tanh(z)", "10/3+1e-20", "0", R(4, 3) * R(3, 10**21) ** 2, "chaotic"),
    ("relu", "sqrt(2)+1e-30", "0", sp.sqrt(2) / 10**30, "chaotic"),
]


@pytest.mark.fast_with("relu-sqrt(2)+1e-30-0-gap3-chaotic")
@pytest.mark.parametrize("phi, w, b, gap, name", NEAR)
def test_the_side_of_one_and_the_distance_from_it(phi, w, b, gap, name):
    found = mf.derive(phi).phase(sigma_w=w, sigma_b=b)
    assert_gap(found.chi_J, gap)
    with pytest.raises(AssertionError, match="chi - 1 is"):
        assert_gap(found.chi_J, -gap)
    assert found.name == name
    assert found.xi == pytest.approx(float(1 / abs(gap)), rel=1e-10)
    assert f"chi_J* = 1 {'+' if gap > 0 else '-'} " in str(found)


def test_the_distance_from_one_against_a_root_at_200_digits():
    with mp.workdps(200):
        w, b = mp.mpf(2), mp.mpf(10) ** -40

        def gain(k):
            return w**2 / mp.pi / 2 * mp.asin(2 * k / (1 + 2 * k)) * mp.pi / 4 + b**2 - k

        k = mp.findroot(gain, b / mp.sqrt(2))
        gap = sp.Rational(mp.nstr(1 / mp.sqrt(1 + 4 * k) - 1, 80))
    found = mf.derive("erf").phase(sigma_w=sp.sqrt(sp.pi) / 2, sigma_b="1e-40")
    assert_gap(found.chi_J, gap)
    with pytest.raises(AssertionError, match="chi - 1 is"):
        assert_gap(found.chi_J, gap * (1 + R(1, 10**9)))


def test_the_rate_of_J_is_not_lost_where_chi_rounds_to_one():
    law = mf.derive("0.3*tanh(z)").depth_law("J", sigma_w=1 / 0.3, sigma_b=0)
    assert float(law.rate) == pytest.approx(10 / 3 * 1e-33, rel=1e-6)  # 4/3 of (σ_w² 0.09 - 1)²/4·… by series
    assert law.status is Status.CERTIFIED


@pytest.mark.fast_with("relu(z)-1-sqrt(2)-0")
@pytest.mark.parametrize(
    "phi, w, b",
    [("abs(z)-1", 1, 0), ("relu(z)-1", "sqrt(2)", 0), ("abs(z-1)-0.3", 1, "1/2"), ("abs(z)+z/2-1", "2/sqrt(5)", 0)],
)
def test_a_constant_chi_is_the_number_that_it_is(phi, w, b):
    found = mf.derive(phi).phase(sigma_w=w, sigma_b=b)
    assert (found.chi_J.value, found.chi_J.status, found.chi_J.error) == (1, Status.EXACT, None)
    assert found.name == "critical"
    beside = mf.derive(phi).phase(sigma_w=f"{w}+1e-25", sigma_b=b)
    assert beside.name == "chaotic"


@pytest.mark.slow
@pytest.mark.parametrize("w", ["1", "13/10", "sqrt(2)"])
def test_a_tie_at_an_inexact_fixed_point_is_proved(w):
    theory = mf.derive("erf")
    bias = theory.critical_line().sigma_b.subs(sigma_w, sp.sympify(w))
    assert theory.phase(sigma_w=w, sigma_b=bias).name == "critical"
    assert theory.depth_law("J", sigma_w=w, sigma_b=bias).rate == 0
    assert theory.phase(sigma_w=w, sigma_b=bias * (1 + R(1, 10**35))).name == "ordered"


def test_what_a_ball_says_of_one():
    inside = Solution(sp.Float("1.0000000001", 30), Status.CERTIFIED, 1e-9)
    assert phase_of(inside) == "undecided" and math.isnan(length_of(inside))
    assert phase_of(replace(inside, error=1e-11)) == "chaotic"
    assert phase_of(Solution(sp.Float(1, 60), Status.CERTIFIED, 0.0)) == "critical"
    assert phase_of(Solution(sp.sqrt(2) * sp.sqrt(3) / sp.sqrt(6), Status.EXACT)) == "critical"
    assert phase_of(Solution(1 + R(1, 10**300), Status.EXACT)) == "chaotic"


def test_no_rate_of_J_is_claimed_where_it_is_not_known():
    point = mf.derive("tanh").fixed_points(sigma_w="3/2", sigma_b="1/2")[0]
    assert _at_fixed_point(point, "J").rate != 0
    wide = replace(point, chi_J=replace(point.chi_J, error=2 * abs(float(point.chi_J.value) - 1)))
    with pytest.raises(MeanFieldError, match="Whether chi_J is 1"):
        _at_fixed_point(wide, "J")


# -------------------------------------------------------------------------------------- what K does on a vertical line


def assert_says_what_K_does(line, theory) -> None:
    """The sentence about K on a vertical critical line, held against the map at two places."""
    step = closed(theory.recursion("K")["K"]).subs(sigma_w, line.sigma_w)
    gains = [sp.simplify((step - K).subs(K, k)) for k in (1, 2)]
    steady = sp.simplify(gains[0] - gains[1]) == 0
    assert ("a layer" in line.message) == steady, f"K grows steadily: {steady}, and is said to: {line.message}"
    if steady:
        said = line.message.split("grows by ")[1].split(" a layer")[0].replace("^", "**")
        assert sp.simplify(sp.sympify(said, locals={"sigma_b": sigma_b}) - gains[0]) == 0, (
            f"K grows by {gains[0]}, but: {line.message}"
        )


@pytest.mark.fast_with("relu", "abs(z)+z/2", "abs(z-1)")
@pytest.mark.parametrize(
    "phi", ["relu", "abs(z)+z/2", "abs(z-1)", "abs(z)-1", "relu(z)-1", "relu(z)+1", "abs(z)+0.5*z-1"]
)
def test_a_vertical_line_says_what_the_map_says(phi):
    theory = mf.derive(phi)
    line = theory.critical_line()
    assert line.kind == "vertical"
    assert_says_what_K_does(line, theory)
    wrong = "K grows by 3*sigma_b^2 a layer" if "a layer" in line.message else "K grows by sigma_b^2 a layer"
    with pytest.raises(AssertionError, match=r"K grows (steadily|by)"):
        assert_says_what_K_does(replace(line, message=wrong), theory)


# ----------------------------------------------------------------------------------------------------- irrational zeros


def test_zeros_of_polynomials_with_irrational_coefficients():
    def assert_zeros(poly, lo, hi, truth):
        found = zeros.polynomial_zeros(sp.Poly(sp.expand(poly), x), lo, hi)
        assert [float(r) for r in found] == pytest.approx([float(t) for t in truth]), f"the zeros are {found}"

    cubic = (x - sp.sqrt(2)) * (x - sp.pi) * (x + 1)
    assert_zeros(cubic, sp.S.Zero, sp.oo, [sp.sqrt(2), sp.pi])
    assert_zeros(cubic, sp.S(2), sp.oo, [sp.pi])
    with pytest.raises(AssertionError, match="the zeros are"):
        assert_zeros(cubic, sp.S.Zero, sp.oo, [sp.sqrt(2)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "phi, scale, half, w, b", [("sqrt(2)*relu(z)-1", 2, 1, "1/2", "1/2"), ("sqrt(3)*abs(z)-1", 3, 0, "1/2", "1")]
)
def test_fixed_points_under_irrational_coefficients(phi, scale, half, w, b):
    """⟨(√c |z| - 1)²⟩ = cK - 2√c √(2K/π) + 1, and half of the powers where the left side is flat."""
    part = mp.mpf(1) / 2 if half else mp.mpf(1)
    s, c = mp.mpf(1) / 4, mp.mpf(sp.Rational(b) ** 2)
    truth = mp.findroot(lambda k: s * part * (scale * k - 2 * mp.sqrt(scale * 2 * k / mp.pi)) + s + c - k, 1)
    (point,) = mf.derive(phi).fixed_points(sigma_w=w, sigma_b=b)
    assert float(point.K.value) == pytest.approx(float(truth), rel=1e-12)
    assert point.phase == "ordered"
    law = mf.derive(phi).depth_law("K", sigma_w=w, sigma_b=b)
    assert float(law.law.terms[0].coefficient) == pytest.approx(float(truth), rel=1e-12)


def test_a_pole_at_an_irrational_place_is_seen():
    assert poles(1 / (sp.sqrt(2) * x**2 + 1), -sp.oo, sp.oo) == []
    assert poles(1 / (sp.sqrt(2) * x - 1) ** 2, sp.S.Zero, sp.oo) == [1 / sp.sqrt(2)]
    assert poles(1 / (sp.sqrt(2) * x - 1) ** 2, -sp.oo, sp.S.Zero) == []


def test_long_numbers_do_not_slow_the_factors():
    tiny = R(1, 10**120)
    e = sp.expand((x - 1) * (x * sp.tanh(x) - tiny))
    assert sp.expand(factored(e) - e) == 0
    assert factored(e).is_Mul


def test_equal_angles_look_equal():
    u = (28561 - 625 * sp.pi**2) / (625 * sp.pi**2 + 28561)
    split = -1 + 2 * sp.Integer(28561) / (625 * sp.pi**2 + 28561)
    assert zeros.is_zero(sp.asin(u) - sp.asin(split))
    assert not zeros.is_zero(sp.asin(u) - sp.asin(split * (1 + R(1, 10**50))))


# ------------------------------------------------------------------------------------------------- pieces that are one


def test_pieces_that_are_equal_after_expansion_are_one():
    e = sp.exp(x) - 2
    assert pieces(sp.Abs(e), x).map(lambda u: u**2).breaks == ()
    assert pieces(sp.Abs(e), x).map(lambda u: u**3).breaks != ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "phi, same, rate, low",
    [("abs(exp(z)-2)", "exp(z)-2", 1.0, 2), ("abs(1-exp(z/2))", "exp(z/2)-1", 0.5, 1)],
)
def test_propagate_under_an_absolute_value(phi, same, rate, low):
    ours, theirs = (mf.derive(p).propagate(sigma_w=0.1, sigma_b=0.1, depth=3) for p in (phi, same))
    assert list(ours.K) == pytest.approx(list(theirs.K), rel=1e-12)
    k = mp.mpf("0.02")
    for value in ours.K[1:]:
        mean = mp.exp(2 * rate**2 * k) - 2 * low * mp.exp(rate**2 * k / 2) + low**2
        k = mp.mpf("0.01") * (mean + 1)
        assert float(value) == pytest.approx(float(k), rel=1e-11)


def test_a_form_that_ends_as_a_difference_of_infinities():
    value = lowered.scalar(average((sp.exp(x) - 2) ** 2, K))
    assert value.table is None
    assert value(1e5) == math.inf and value(1.0) == pytest.approx(math.exp(2) - 4 * math.exp(0.5) + 4, rel=1e-13)
    falls = sp.exp(K / 2) - sp.exp(2 * K)  # -∞, which the same rescue must not call +∞
    truth = [balls.certified_at(falls, {K: sp.Rational(k)}, 20) for k in lowered.LADDER]
    ranges, _, _ = lowered._closed_ranges(falls, truth, lowered._body_that_overflows)
    assert not lowered._reaches_infinity(ranges)


# --------------------------------------------------------------------------- averages whose slope has no second moment


def test_an_average_is_enclosed_without_the_second_moment_of_its_slope():
    node = average(x * sp.sqrt(sp.Abs(x - 1)) * sp.sign(x - 1), K)

    def truth(k):
        def weighted(z):
            return z * mp.sqrt(abs(z - 1)) * mp.sign(z - 1) * mp.npdf(z, 0, mp.sqrt(k))

        return float(mp.quad(weighted, [-12, 0, 1, 2, 12]))

    ball = enclose(node, R(2), R(201, 100), 15)
    assert all(abs(ball.mid() - truth(k)) <= ball.rad() + 1e-8 for k in (2, 2.005, 2.01))
    assert not abs(ball.mid() - truth(2.3)) <= ball.rad() + 1e-8
    assert ball.rad() < 0.02


@pytest.mark.slow
def test_fixed_points_where_the_slope_has_no_fourth_moment():
    """|z - 1|^¾, whose growth no rule bounded: K* against a quadrature, χ_J finite, and none beyond |z|^5/4."""
    (point,) = mf.derive("abs(z-1)**0.75").fixed_points(sigma_w=1, sigma_b=1)

    def at(k, f):
        return float(mp.quad(lambda z: f(abs(z - 1)) * mp.npdf(z, 0, mp.sqrt(k)), [-30, -8, 0, 1, 1.01, 2, 8, 30]))

    k = float(point.K.value)
    assert at(k, lambda t: t**1.5) + 1 == pytest.approx(k, rel=1e-11)
    assert at(k * 1.001, lambda t: t**1.5) + 1 != pytest.approx(k * 1.001, rel=1e-5)
    assert float(point.chi_J.value) == pytest.approx(0.5625 * at(k, lambda t: t**-0.5 if t else 0), rel=1e-4)
    assert float(mf.derive("abs(z-1)**0.25").fixed_points(sigma_w=1, sigma_b=1)[0].chi_J.value) == math.inf
    assert not mf.derive("abs(z-1)**1.25").fixed_points(sigma_w=1, sigma_b=1)
