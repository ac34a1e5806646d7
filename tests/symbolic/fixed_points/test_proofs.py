"""Certificates stand on a proof: where a step of it is taken away, the status falls, and nothing else claims it."""

from __future__ import annotations

import math

import pytest
import sympy as sp
from flint import arb

import meanfield as mf
from meanfield.base.answers.results import Status
from meanfield.base.symbols import K, Z
from meanfield.functions.isolation import sign_of_ball
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.criticality import critical_lines, phases
from meanfield.symbolic.criticality.critical_points import curvature
from meanfield.symbolic.fixed_points import all_fixed_points, half_line, products
from meanfield.symbolic.fixed_points.half_line import Zeros, zeros

z = Z[0]
R = sp.Rational
PAIR = R(1, 100) + R(9, 4) * z**2 * (1 + sp.erf(z / sp.sqrt(2))) ** 2 / 4 - z**2  # of a map K′: two zeros
ONE = sp.tanh(z) ** 2 - z**2 / 4  # one


def found(g: sp.Expr) -> Zeros:
    return zeros(average(g, K), g)


def assert_whole(search: Zeros, count: int) -> None:
    assert len(search.roots) == count and search.complete and search.outside and search.reason == ""
    assert all(r.lo < r.hi for r in search.roots)


def assert_open(search: Zeros, count: int, reason: str) -> None:
    assert len(search.roots) == count and not search.complete and reason in search.reason, search


# ------------------------------------------------------------------------------------------------- half-lines


def test_zeros_that_a_search_misses_are_not_denied(monkeypatch):
    """Planted: of two zeros one, or both, not met."""
    every, search = found(PAIR), half_line.crossings
    assert_whole(every, 2)
    for kept, reason in (((0,), "may be missed"), ((1,), "may be missed"), ((), "may be missed")):
        monkeypatch.setattr(half_line, "crossings", lambda *a, kept=kept: [search(*a)[i] for i in kept])
        assert_open(found(PAIR), len(kept), reason)
    with pytest.raises(AssertionError, match="Zeros"):
        assert_open(every, 2, "may be missed")


@pytest.mark.parametrize("end", ["floor", "ceiling"])
def test_without_a_bound_of_the_range_an_empty_range_proves_nothing(end, monkeypatch):
    """Planted: no floor, or no ceiling, while the range between is called empty."""
    monkeypatch.setattr(half_line, end, lambda *a: None)
    monkeypatch.setattr(half_line, "excluded", lambda *a: True)
    monkeypatch.setattr(half_line, "crossings", lambda *a: [])
    search = found(PAIR)
    assert_open(search, 0, "or a pair outside")
    assert not search.outside
    monkeypatch.setattr(half_line, "far_sign", lambda *a: None)
    assert_open(found(PAIR), 0, "the sign as K -> oo is not known")
    monkeypatch.setattr(half_line, "far_sign", lambda *a: -half_line.segments(PAIR)[0][0])
    assert_open(found(PAIR), 0, "the signs at K -> 0 and K -> oo say that one is missed")


@pytest.mark.slow
def test_the_last_block_is_no_ceiling_where_the_integral_converges(monkeypatch):
    """G > 0 far out, but ∫G = 2√(π/8) - 5√π/2 + π/200 < 0 decides: no bound holds above, and a zero may lie there."""
    g = 2 * sp.exp(-8 * z**2) - 5 * z**2 * sp.exp(-(z**2)) + 1 / (1 + z**2) ** 2 / 100
    assert half_line.segments(g)[-1][0] == 1
    monkeypatch.setattr(half_line, "ceiling", lambda *a: pytest.fail("the last block was taken for a ceiling"))
    search = found(g)
    assert search.last == -1 and not search.outside and not search.complete and len(search.roots) == 1
    with pytest.raises(pytest.fail.Exception, match="taken for a ceiling"):  # control: a G that ends as its integral
        found(PAIR)


@pytest.mark.parametrize("last", [None, -1])
def test_a_single_zero_that_a_walk_does_not_reach_is_not_denied(last, monkeypatch):
    """Planted: the walk ends without the change of sign."""
    assert_whole(found(ONE), 1)
    monkeypatch.setattr(half_line, "walk", lambda *a: (None, R(1, 100), sp.Integer(100)))
    monkeypatch.setattr(half_line, "far_sign", lambda *a: last)
    reason = "the sign as K -> oo is not known" if last is None else "one more lies outside K from 0.01 to 100"
    assert_open(found(ONE), 0, reason)


def test_what_lies_beyond_the_doubles_is_said():
    """tanh at σ_b = 10¹⁴⁹: K* = 10²⁹⁸."""
    search = mf.derive("tanh").fixed_points(sigma_w="3/2", sigma_b="1e149")
    assert len(search) == 0 and search.status is Status.MEASURED and "one more lies outside" in search.message
    near = mf.derive("tanh").fixed_points(sigma_w="3/2", sigma_b="1e13")
    assert near.status is Status.CERTIFIED and float(near[0].K.value) == pytest.approx(1e26)


@pytest.mark.slow
def test_a_far_sign_that_is_not_known_leaves_critical_points_open():
    """|z| + c e^{-z²}: the masses and ∫φφ″ are 4c - c²√(π/2), which is 0 at c = 4√(2/π)."""
    tuned = mf.derive("abs(z) + 4*sqrt(2/pi)*exp(-z**2)").critical_points()
    assert tuned.status is Status.MEASURED and "the sign as K -> oo is not known" in tuned.message
    for c in (3, 4):
        g, masses = curvature(sp.Abs(z) + c * sp.exp(-(z**2)))
        assert half_line.far_sign(sp.S.Zero, g, masses) == math.copysign(1, 4 * c - c * c * math.sqrt(math.pi / 2))


# ------------------------------------------------------------------------------------------------- fixed points


@pytest.mark.slow
def test_an_undecided_start_is_said_and_not_dropped():
    """atan 2 + atan 3 = 3π/4, so that φ(0) = 0, which no digits prove."""
    theory = mf.derive("tanh(z) + atan(2) + atan(3) - 3*pi/4")
    search = theory.fixed_points(sigma_w="3/2", sigma_b=0)
    decided = any(p.K.value == 0 for p in search)
    assert decided or (search.status is Status.MEASURED and "whether K = 0 is a fixed point" in search.message)
    certain = mf.derive("tanh(z)").fixed_points(sigma_w="3/2", sigma_b=0)
    assert certain[0].K.value == 0 and certain.status is Status.CERTIFIED and "K = 0" not in certain.message


def test_zeros_in_the_variance_of_an_inner_dense():
    """(x - 1)(x - 3) in x = K + 1 has a zero at K = 0, which is not told from one beside it; (x - ½)(x - 3) has one at
    K = 2, above which the sign is that of a second crossing."""
    over = average(z**4 / 3, K + 1)
    search = all_fixed_points._in((sp.S.One, sp.S.One), over - 4 * (K + 1) + 3)
    assert_open(search, 1, "one root may lie at K = 0")
    assert search.first is None and not search.outside
    search = all_fixed_points._in((sp.S.One, sp.S.One), over - R(7, 2) * (K + 1) + R(3, 2))
    assert search.complete and [r.exact for r in search.roots] == [2] and search.first == -1


def test_products_are_counted_by_their_slope(monkeypatch):
    """K⟨h⟩ - K + 1/20 with h = 2 tanh²: the slope changes sign once, so there are at most two zeros, of which a search
    that meets one, or none, proves nothing."""
    h = 2 * sp.tanh(z) ** 2
    e = K * average(h, K) - K + R(1, 20)
    search, meet = products.product_zeros(e, 20), half_line.crossings
    assert search.complete and len(search.roots) == 2
    for kept in ((0,), (1,), ()):
        monkeypatch.setattr(half_line, "crossings", lambda *a, kept=kept: [meet(*a)[i] for i in kept])
        assert not products.product_zeros(e, 20).complete, kept
    monkeypatch.setattr(half_line, "crossings", meet)
    lifted = e + 1  # no zero: its minimum is above 0
    assert products.product_zeros(lifted, 20).complete and not products.product_zeros(lifted, 20).roots
    monkeypatch.setattr(products, "enclose", lambda *a: -sp.S.One)
    assert not products.product_zeros(lifted, 20).complete  # planted: the minimum is not known to be above 0


# ------------------------------------------------------------------------------------------------- phases, lines


OVERSHOOTS = "z**2*exp(-z**2)"  # ⟨z⁴e^{-2z²}⟩ rises and falls: K is thrown over the point between


def assert_orbits(decided: int = 5) -> None:
    """Wherever an answer is given, the orbit ends there; it is given at most starts."""
    theory, answers = mf.derive(OVERSHOOTS), 0
    for norm in (R(1, 10**6), R(1, 500), R(1, 50), R(1, 10), 1, 3, 100, 10**5):
        k = 144 * float(norm)
        for _ in range(400):
            k = 144 * 3 * k**2 / (1 + 4 * k) ** 2.5
        try:
            phase = theory.phase(sigma_w=12, sigma_b=0, input_norm=norm)
        except mf.MeanFieldError as error:
            assert "do not decide where the orbit ends" in str(error) and k < 1e-300, error
            continue
        answers += 1
        assert phase.status is Status.CERTIFIED and phase.bistable
        assert float(phase.fixed_point.K.value) == pytest.approx(k, rel=1e-9, abs=1e-300), norm
    assert answers >= decided, answers


def nearest(search, step, lo, hi):
    """Planted: the nearest stable point, whether or not the map contracts to it."""
    return min(search.stable, key=lambda p: abs(float(p.K.value) - float(lo)))


def test_a_phase_is_that_of_the_orbit(monkeypatch):
    assert_orbits()
    monkeypatch.setattr(all_fixed_points, "_contracted", nearest)
    with pytest.raises(AssertionError, match="comparison failed"):
        assert_orbits()


def test_a_measured_list_of_points_leaves_no_certified_phase(monkeypatch):
    """Planted: the points of tanh and of relu, as a search alone would have found them."""
    proved = phases.fixed_points

    def measured(*args):
        search = proved(*args)
        return all_fixed_points.replace(search, status=Status.MEASURED, message="found by a search")

    cases = [("tanh", "1.5", "0.3"), ("tanh", "0.5", "0"), ("relu", "2", "0.1"), ("z", "0.5", "0.1"), ("z", "1", "0")]
    at = [(mf.derive(name), {"sigma_w": w, "sigma_b": b}) for name, w, b in cases]
    before = [theory.phase(**place) for theory, place in at]
    assert all(p.status is Status.CERTIFIED and p.chi_J.status is not Status.MEASURED for p in before)
    assert before[2].fixed_point is None and before[2].chi_J.status is Status.EXACT  # K grows without bound
    monkeypatch.setattr(phases, "fixed_points", measured)
    for theory, place in at:
        phase = phases.phase_at(theory.one_input.only("K", "J"), numbers(place), sp.S.One)
        assert phase.status is Status.MEASURED and phase.chi_J.status is Status.MEASURED
        assert phase.message == "found by a search" and "(measured: found by a search)" in str(phase)


def numbers(place: dict[str, str]) -> dict[str, sp.Expr]:
    return {name: sp.Rational(value) for name, value in place.items()}


@pytest.mark.slow
def test_a_line_that_a_search_met_says_that_others_may_exist(monkeypatch):
    """Planted: the completeness of the search taken away."""
    line = mf.derive("gelu").critical_line()
    sure = line.sigma_b_at("1.41")
    assert sure and all(k.message == "" for _, k in sure)
    proved = critical_lines.zeros

    def doubtful(*args, **settings):
        return all_fixed_points.replace(proved(*args, **settings), complete=False, reason="a pair may be missed")

    monkeypatch.setattr(critical_lines, "zeros", doubtful)
    assert all("others may exist: a pair may be missed" in k.message for _, k in line.sigma_b_at("1.41"))
    monkeypatch.setattr(critical_lines, "zeros", lambda *a, **k: all_fixed_points.replace(doubtful(*a, **k), roots=()))
    with pytest.raises(mf.MeanFieldError, match=r"meets σ_w = 1.41 is not decided: a pair may be missed"):
        line.sigma_b_at("1.41")


def test_a_ball_that_touches_zero_has_no_sign():
    """Of 0 itself, and of balls around it, nothing is said; outside of 0 it is."""
    for ball in (arb(0), arb(0, 1e-30), arb(1e-30, 1), arb(-1e-30, 1), arb("nan")):
        assert sign_of_ball(ball) == 0
    assert sign_of_ball(arb(1e-30)) == 1 and sign_of_ball(arb(-1, 0.999)) == -1
