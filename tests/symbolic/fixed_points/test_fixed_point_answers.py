"""Fixed points made by hand: what is said of χ beside 1, and where a K flows to."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError, Solution, Status
from meanfield.base.symbols import K, Z
from meanfield.symbolic.fixed_points import all_fixed_points, variance_map
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoint, FixedPoints, destination, rises_on
from meanfield.symbolic.fixed_points.marginality import (
    digits_near_one,
    gap_of,
    is_contracting,
    length_of,
    log_of,
    phase_of,
)

z, R = Z[0], sp.Rational
INFINITE = Solution(sp.oo, Status.NONEXISTENT)


def exact(value) -> Solution:
    return Solution(sp.sympify(value), Status.EXACT)


def ball(value, error: float) -> Solution:
    return Solution(sp.Float(value, 30), Status.CERTIFIED, error)


# ----------------------------------------------------------------------------------------------- χ held against 1

CHI = [  # χ; its phase; whether K comes to K* by it as χ_K; 1/|log χ|; what is shown beside 1
    (exact(1), "critical", False, math.inf, None),
    (exact(sp.exp(-1)), "ordered", True, 1.0, None),
    (exact(sp.E), "chaotic", False, 1.0, None),
    (exact(R(-1, 2)), "ordered", True, 0.0, None),
    (exact(-1), "ordered", False, 0.0, None),
    (exact(-2), "ordered", False, 0.0, None),
    (exact(0), "ordered", True, 0.0, None),
    (exact(sp.oo), "chaotic", False, 0.0, None),
    (INFINITE, "chaotic", False, 0.0, None),
    (Solution(sp.nan, Status.UNKNOWN), "undecided", None, math.nan, None),
    (exact(1 + R(1, 10**13)), "chaotic", False, 1e13, "1 + 1.00000e-13"),
    (exact(1 - R(1, 10**13)), "ordered", True, 1e13, "1 - 1.00000e-13"),
    (exact(1 + R(5, 10**12)), "chaotic", False, 2e11, None),
    (exact(1 + R(4, 10**12)), "chaotic", False, 2.5e11, "1 + 4.00000e-12"),
    (ball(1, 1e-13), "undecided", None, math.nan, "1 +- 1.00000e-13"),
    (ball(1, 1e-3), "undecided", None, math.nan, None),
    (ball(1, 0.0), "critical", False, math.inf, None),
    (ball(-1, 1e-13), "ordered", None, 0.0, None),
    (ball("1.5", 1e-13), "chaotic", False, 1 / math.log(1.5), None),
    (ball("0.5", 1e-13), "ordered", True, 1 / math.log(2), None),
]


@pytest.mark.parametrize("chi, phase, contracts, length, text", CHI, ids=lambda v: str(getattr(v, "value", v)))
def test_what_is_said_of_chi_beside_one(chi, phase, contracts, length, text):
    assert phase_of(chi) == phase
    assert is_contracting(chi) is contracts
    assert length_of(chi) == pytest.approx(length, rel=1e-9, nan_ok=True)
    shown = digits_near_one(chi)
    assert (shown is None) == (text is None)
    if text is not None:
        sign, size = shown.split()[1:]
        assert sign == text.split()[1] and float(size) == pytest.approx(float(text.split()[2]), rel=1e-5)


def test_chi_that_is_a_symbol_or_falls_to_0_has_no_logarithm():
    symbol = exact(sp.Symbol("mu"))
    assert is_contracting(symbol) is None and math.isnan(length_of(symbol)) and digits_near_one(symbol) is None
    assert not log_of(exact(0)).is_finite() and not log_of(exact(-1)).is_finite()
    assert float(log_of(exact(2)).mid()) == pytest.approx(math.log(2), rel=1e-14)
    assert float(log_of(exact(1 + R(1, 10**40))).mid()) == pytest.approx(1e-40, rel=1e-14)
    assert gap_of(ball(1, 1e-9)).contains(0) and not gap_of(ball(1, 1e-9)).contains(1e-8)


POINTS = [  # χ_K, stability; whether K comes or goes exponentially; ξ_K
    (R(1, 2), "stable", True, 1 / math.log(2)),
    (R(-1, 2), "stable", True, 1 / math.log(2)),
    (0, "stable", True, 0.0),
    (1, "stable", False, math.inf),
    (1, "half-stable", False, math.inf),
    (-1, "stable", False, math.inf),
    (2, "unstable", True, 1 / math.log(2)),
    (-2, "unstable", True, 1 / math.log(2)),
]


@pytest.mark.parametrize("chi, stability, exponential, length", POINTS)
def test_how_K_comes_to_a_point(chi, stability, exponential, length):
    point = FixedPoint(exact(1), exact(R(1, 2)), exact(chi), stability)
    assert point.is_exponential is exponential
    assert point.xi_K == pytest.approx(length)
    unsure = FixedPoint(exact(1), exact(R(1, 2)), ball(1, 1e-9), "stable")
    assert unsure.is_exponential is None and math.isnan(unsure.xi_K)


# ------------------------------------------------------------------------------------------------ where a K flows to


def three(monotone: bool = True, unbounded=(5, sp.oo)) -> FixedPoints:
    """0 and 3 ± 1/4 attract, 1 ± 1/4 repels, 5 attracts from below only."""
    half = exact(R(1, 2))
    points = (
        FixedPoint(exact(0), half, half, "stable", (sp.S(0), sp.S(1))),
        FixedPoint(ball(1, 0.25), half, exact(2), "unstable"),
        FixedPoint(ball(3, 0.25), half, half, "stable", (sp.S(1), sp.S(4))),
        FixedPoint(exact(5), half, exact(1), "half-stable", (sp.S(4), sp.S(5))),
    )
    return FixedPoints(points, Status.MEASURED, "made by hand", unbounded, monotone)


@pytest.mark.parametrize(
    "k, goal", [(0, 0), ("1/2", 0), ("3/2", 3), ("11/4", 3), ("13/4", 3), ("7/2", 3), ("9/2", 5), (5, 5), (6, None)]
)
def test_a_basin_is_open_and_the_error_of_a_stable_point_belongs_to_it(k, goal):
    found = three().reached_from(sp.sympify(k))
    assert (None if found is None else float(found.K.value)) == goal


@pytest.mark.parametrize("k", ["3/4", "1", "5/4"])
def test_inside_the_error_of_a_point_that_repels_nothing_is_said(k):
    with pytest.raises(MeanFieldError, match="lies within the error of the unstable fixed point 1; where it flows"):
        three().reached_from(sp.sympify(k))


def test_what_no_basin_holds_is_undecided():
    with pytest.raises(MeanFieldError, match="Where K flows from 4 is undecided here: made by hand"):
        three().reached_from(4)
    with pytest.raises(MeanFieldError, match="Where K flows from 6 is undecided"):
        three(unbounded=None).reached_from(6)
    with pytest.raises(MeanFieldError, match="Where K flows from 5 is undecided"):
        FixedPoints((), Status.MEASURED, "by hand", (sp.S(5), sp.oo)).reached_from(5)
    assert FixedPoints((), Status.EXACT, "by hand", (sp.S(0), sp.oo)).reached_from(0) is None


def test_a_map_that_may_overshoot_has_one_end_or_no_answer():
    assert three().ends == 4 and three(unbounded=None).ends == 3
    with pytest.raises(MeanFieldError, match="K = 7/2 may overshoot a fixed point"):
        three(monotone=False).reached_from("7/2")
    alone = FixedPoints(three().points[2:3], Status.CERTIFIED, "by hand", None, False)
    assert alone.ends == 1 and alone.reached_from("7/2") is alone[0]


@pytest.mark.parametrize("start, goal", [("27/10", "5/2"), ("1/100", "5/2"), ("12/5", "5/2")])
def test_an_orbit_is_followed_where_the_map_is_not_monotone(start, goal):
    """K ↦ 5/2 + (K - 5/2)²/4 - 3(K - 5/2)/8 contracts about 5/2, and its orbits alternate about it."""
    u = K - R(5, 2)
    step, here = R(5, 2) + u**2 / 4 - 3 * u / 8, (sp.S(0), sp.S(8))
    point = FixedPoint(exact(R(5, 2)), exact(0), exact(R(-3, 8)), "stable", here)
    other = FixedPoint(exact(8), exact(0), exact(R(19, 8)), "unstable")
    found = FixedPoints((point, other), Status.CERTIFIED, "by hand", (sp.S(8), sp.oo), False)
    assert destination(found, step, sp.sympify(start)).K.value == sp.sympify(goal)
    assert destination(found, step, sp.Integer(20)) is None  # beyond 8 every K grows
    with pytest.raises(MeanFieldError, match="do not decide where the orbit ends"):
        destination(replace(found, unbounded=None), step, sp.Integer(20))


def test_a_half_stable_point_draws_in_what_cannot_jump_over_it():
    """K ↦ K + (K - 2)²/8 rises between 0 and 2: what starts below comes to 2 by a power of l."""
    step = K + (K - 2) ** 2 / 8
    point = FixedPoint(exact(2), exact(0), exact(1), "half-stable", (sp.S(0), sp.S(2)))
    found = FixedPoints((point,), Status.CERTIFIED, "by hand", (sp.S(2), sp.oo), False)
    assert destination(found, step, R(1, 2)) is point
    steep = 2 - sp.sin(40 * (2 - K)) / 100 - (2 - K) ** 2  # falls and rises on the way
    with pytest.raises(MeanFieldError, match="do not decide"):
        destination(found, steep, R(1, 2))


def test_a_slope_is_enclosed_above_0_or_not():
    assert rises_on(1 + K**2, sp.S(0), sp.S(3)) and rises_on((K - 1) ** 2 + R(1, 100), sp.S(0), sp.S(2))
    assert not rises_on(K - 1, sp.S(0), sp.S(3)) and not rises_on((K - 1) ** 2 - R(1, 100), sp.S(0), sp.S(2))


def iterated(square, sigma_w, sigma_b, K, layers):
    """K layer by layer in rationals, from ⟨φ²⟩ as a polynomial written out."""
    for _ in range(layers):
        K = sp.Rational(sigma_w) ** 2 * square(K) + sp.Rational(sigma_b) ** 2
        if K > 10**60 or sp.Rational(1, 10**20) > K:
            break
        K = sp.Rational(sp.N(K, 60)) if layers > 20 else K
    return K


CUBIC = ("-z+0.2*z**3", lambda K: K - sp.Rational(6, 5) * K**2 + sp.Rational(3, 5) * K**3)
QUINTIC = ("1.6*z-0.19*z**5", lambda K: sp.Rational("2.56") * K - 6 * sp.Rational("1.52") * K**3
           + 945 * sp.Rational("0.0361") * K**5)  # fmt: skip
QUARTIC = ("1-0.6*z**2-0.15*z**4", lambda K: 1 - sp.Rational("1.2") * K + 3 * (sp.Rational("0.36") - sp.Rational("0.3"))
           * K**2 + 15 * sp.Rational("0.18") * K**3 + 105 * sp.Rational("0.0225") * K**4)  # fmt: skip


@pytest.mark.parametrize(("phi", "sigma_w", "sigma_b", "end"), [
    (CUBIC, "1.8", "0.55", sp.oo), (QUINTIC, "0.466", "0", 0), (CUBIC, "0.3", "0.1", 1e-12),
    (QUARTIC, "0.012057972389370042", "2.5442213225338435", 1e-3),  # χ_K = .9998: layers are still on their way
])  # fmt: skip
def test_where_a_map_that_may_overshoot_flows(phi, sigma_w, sigma_b, end, monkeypatch):
    """Beyond the last fixed point K grows, below the first one it falls to 0, on a rising side of a stable one it comes
    to it: several ends of a map that is not proved to increase, against layers in rationals."""
    name, square = phi
    theory = mf.derive(name)
    found = theory.phase(sigma_w=sigma_w, sigma_b=sigma_b)
    K = iterated(square, sigma_w, sigma_b, sp.Rational(sigma_w) ** 2 + sp.Rational(sigma_b) ** 2, 5000)
    if end == sp.oo:
        assert K > 10**60 and found.fixed_point is None
    elif end == 0:
        assert sp.Rational(1, 10**20) > K and found.fixed_point.K.value == 0
    else:
        assert abs(found.fixed_point.K.value - K) < end * K
    if sigma_w != "0.3":  # that orbit comes into an interval that the map contracts
        for rule in ("_grows_from", "_falls_to_zero", "_drawn_in"):
            monkeypatch.setattr(all_fixed_points, rule, lambda *_: None)
        with pytest.raises(MeanFieldError, match="do not decide where the orbit ends"):
            theory.phase(sigma_w=sigma_w, sigma_b=sigma_b)


def test_K_0_is_decided_where_averages_are_multiplied(monkeypatch):
    """GELU before a mean of two, σ_w = 2 without biases: K′ = 2(⟨φ²⟩ + ⟨φ⟩²) rests at 0, too, which small K reach; with
    a bias it does not."""
    pooled = mf.derive(mf.Sequential((mf.Nonlinearity("gelu"), mf.Pool(2, "average"), mf.Dense())))

    def resting() -> mf.FixedPoints:
        return pooled.fixed_points(sigma_w=2, sigma_b=0)

    found = resting()
    zero, other = found.points
    assert zero.K.value == 0 and zero.stability == "stable"
    assert float(zero.chi_K.value) == float(zero.chi_J.value) == 0.5
    assert zero.basin[0] == 0 and abs(zero.basin[1] - other.K.value) < 1e-20 and "not decided" not in found.message
    for share, rises in ((0.99, False), (1.01, True)):
        run = pooled.propagate(sigma_w=2, sigma_b=0, depth=40, start={"K": share * float(other.K.value)})
        assert bool(run.K[-1] > run.K[0]) is rises
    assert "not decided" not in pooled.fixed_points(sigma_w=1.7, sigma_b=0.3).message
    monkeypatch.setattr(variance_map, "_of_products", lambda step: None)
    assert len(resting()) == 1 and "K = 0 is a fixed point, too, is not decided" in resting().message  # control
