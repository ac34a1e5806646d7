"""Certificates hold for 0 < K < ∞: every claim of number, flow and status against scans over eighty decades of K."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import Solution, Status
from meanfield.base.symbols import Z, parameter
from meanfield.symbolic.criticality import critical_lines
from meanfield.symbolic.fixed_points import all_fixed_points as fixed_points
from meanfield.symbolic.fixed_points import exclusion, half_line
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoints

R = sp.Rational
z = Z[0]


# ------------------------------------------------------------------------------------------------ another route


def gain_on(phi, w2: float, b2: float, K: np.ndarray, mu2: float = 0.0) -> np.ndarray:
    """(K' - K)/K by the trapezoid rule in log z: nothing of the engine is used."""
    u = np.linspace(-60 * math.log(10), 45 * math.log(10), 15001)
    x = np.exp(u)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        square = phi(x) ** 2 + phi(-x) ** 2
        out = []
        for k in K:
            weight = np.exp(-np.square(x / math.sqrt(2 * k))) * (x / math.sqrt(2 * math.pi * k))
            live = weight > 1e-300
            out.append(w2 * np.trapezoid((square[live] / k) * weight[live], u[live]) + b2 / k + mu2 - 1)
    return np.array(out)


def scanned(phi, w2, b2, mu2=0.0, per_decade=4):
    """The sign changes of K' - K over [1e-40, 1e40] as (lower end, upper end), and the signs at both ends."""
    K = np.logspace(-40, 40, 80 * per_decade + 1)
    h = gain_on(phi, w2, b2, K, mu2)
    seen = [(k, math.copysign(1, v)) for k, v in zip(K, h) if abs(v) > 1e-9]
    return [(a, b) for (a, s), (b, t) in pairwise(seen) if s != t], seen[0][1], seen[-1][1]


def assert_all_found(found: FixedPoints, changes, first, last) -> None:
    positive = [float(p.K.value) for p in found if p.K.value != 0]
    assert len(positive) == len(changes), f"fixed points {positive} for the changes {changes}"
    for k, (a, b) in zip(positive, changes):
        assert a <= k <= b, f"K* = {k} lies outside of [{a}, {b}]"
    assert (found.unbounded is not None) == (last > 0), f"K from {found.unbounded} on grows, the last sign is {last}"
    for p in found:
        if p.K.value == 0:
            assert (p.stability == "stable") == (first < 0), f"0 is {p.stability}, the first sign is {first}"


def half(x):
    return np.where(np.abs(x) < 1e7, x / 2, 2e7 * np.sign(x))


def unlike_rates(x):
    return np.exp(-x * x) - np.exp(-2 * x * x / 1e6) / 1000


def bell_over_floor(x):
    return np.maximum(np.exp(-0.1234567 * x * x), 0.3)


def gauss_cdf(x):
    return 0.5 * np.vectorize(math.erfc, otypes=[float])(-np.clip(x, -40, 40) / math.sqrt(2))


# formula, φ, σ_w, σ_b (text), the status that must be reached
CASES = [
    ("z/2 if abs(z)<1e7 else 2e7*sign(z)", half, "1", "0", Status.CERTIFIED),
    ("z/2 if abs(z)<1e-9 else 2e-9*sign(z)", lambda x: half(x * 1e16) / 1e16, "1", "0", Status.CERTIFIED),
    ("tanh", np.tanh, "1/2", "1e-7", Status.CERTIFIED),
    ("tanh", np.tanh, "3/2", "1e13", Status.CERTIFIED),
    ("tanh(1e8*z)", lambda x: np.tanh(1e8 * x), "1", "0", Status.CERTIFIED),
    ("tanh(z/1e8)", lambda x: np.tanh(x / 1e8), "2e8", "0", Status.CERTIFIED),
    ("1e-9*(1e9*z)*(1+erf(1e9*z/sqrt(2)))/2", lambda x: x * gauss_cdf(1e9 * x), "1.7", "0", Status.CERTIFIED),
    ("1e8 + tanh(z)", lambda x: 1e8 + np.tanh(x), "1", "0", Status.CERTIFIED),
    ("silu", lambda x: x / (1 + np.exp(-np.clip(x, -700, 700))), "1.5", "0.3", Status.CERTIFIED),
    ("gelu", lambda x: x * gauss_cdf(x), "1.5", "0.3", Status.CERTIFIED),
    ("gelu", lambda x: x * gauss_cdf(x), "1.41", "1e-9", Status.CERTIFIED),
    ("sqrt(abs(z))", lambda x: np.sqrt(np.abs(x)), "1e-9", "0", Status.CERTIFIED),
    ("z**2", lambda x: x**2, "1e-7", "1", Status.CERTIFIED),
    ("hard_tanh", lambda x: np.clip(x, -1, 1), "1.0001", "0", Status.CERTIFIED),
    ("z*asinh(z)", lambda x: x * np.arcsinh(x), "0.5", "0.1", Status.CERTIFIED),
    ("asinh(z)", np.arcsinh, "1/2", "1e-15", Status.CERTIFIED),
    ("max(exp(-0.1234567*z**2), 0.3)", bell_over_floor, "2", "1e-3", Status.CERTIFIED),
    ("exp(-z**2) - exp(-2*z**2/10**6)/1000", unlike_rates, "1", "0.1", Status.CERTIFIED),
    ("relu", lambda x: np.maximum(x, 0), "1.2", "1e7", Status.EXACT),
    ("relu", lambda x: np.maximum(x, 0), "1.5", "1e-9", Status.EXACT),
    ("sqrt(1+z**2)", lambda x: np.sqrt(1 + x * x), "0.9", "1e-3", Status.EXACT),
]


def at(formula, w, b, **settings) -> FixedPoints:
    w, b = (sp.sympify(v, rational=True) for v in (w, b))
    return mf.derive(formula, **settings).fixed_points(sigma_w=w, sigma_b=b)


@pytest.mark.fast_with(
    "sqrt(abs(z))-1e-9-0", "z**2-1e-7-1", "hard_tanh-1.0001-0", "relu-1.2-1e7", "relu-1.5-1e-9", "sqrt(1+z**2)-0.9-1e-3"
)
@pytest.mark.parametrize(("formula", "phi", "w", "b", "status"), CASES, ids=[f"{c[0]}-{c[2]}-{c[3]}" for c in CASES])
def test_no_fixed_point_is_missed_and_none_invented(formula, phi, w, b, status):
    found = at(formula, w, b)
    assert found.status is status, found.message
    changes, first, last = scanned(phi, float(sp.sympify(w)) ** 2, float(sp.sympify(b)) ** 2)
    assert_all_found(found, changes, first, last)
    if len(found) and found[-1].K.value != 0:  # controls: one point less, and a flow that is not there
        with pytest.raises(AssertionError, match=r"fixed points .* for the changes"):
            assert_all_found(FixedPoints(found.points[:-1], status, "", found.unbounded), changes, first, last)
    with pytest.raises(AssertionError, match="on grows, the last sign"):
        wrong = None if found.unbounded else (sp.S.Zero, sp.oo)
        assert_all_found(FixedPoints(found.points, status, "", wrong), changes, first, last)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "w", "b", "K_star", "slope"),
    [
        ("tanh", "1/2", "1e-80", R(4, 3) / 10**160, R(1, 4)),
        ("asinh(z)", "1/2", "1e-20", R(4, 3) / 10**40, R(1, 4)),
        ("silu", "1/2", "1e-50", R(16, 15) / 10**100, R(1, 16)),
        ("tanh", "1", "1e-40", 1 / (sp.sqrt(2) * 10**40), 1),  # K - 2K² + σ_b² = K: the terms cancel to 40 digits
    ],
)
def test_fixed_points_at_a_tiny_bias(name, w, b, K_star, slope):
    found = at(name, w, b)
    (point,) = found
    assert found.status is Status.CERTIFIED, found.message

    def assert_point(K_star, slope):
        assert abs(sp.N(point.K.value / K_star - 1, 30)) < 1e-15, f"K* is {point.K.value}, not {K_star}"
        assert point.K.error < 1e-15 * point.K.value
        assert abs(point.chi_K.value - slope) < 1e-15, f"chi_K is {point.chi_K.value}, not {slope}"
        assert point.chi_K.error < 1e-15

    assert_point(K_star, slope)
    for wrong in ((K_star * R("1.000001"), slope), (K_star, slope * R("1.000001"))):
        with pytest.raises(AssertionError, match=r"(K\*|chi_K) is .*, not"):
            assert_point(*wrong)


# ------------------------------------------------------------------------------------------------- linear maps


@pytest.mark.parametrize(
    ("formula", "w", "b", "settings", "value", "slope"),
    [
        ("relu", "1.2", "1e7", {}, R(10**14) / R("0.28"), R("0.72")),
        ("leaky_relu(0.2)", "1", "1e9", {}, R(10**18) / R("0.48"), R("0.52")),
        ("abs(z)", "0.5", "1e-30", {}, R(1, 10**60) / R("0.75"), R("0.25")),
        ("sqrt(1+z**2)", "1/2", "1", {}, R(5, 3), R(1, 4)),
        ("sin(z)+cos(z)", "1", "1", {}, R(2), R(0)),
        ("sqrt(z**2 + tanh(z) + 3)", "1/2", "0", {}, R(1), R(1, 4)),
        ("relu", "1", "1", {"mu": "1/2"}, R(4), R(3, 4)),
        ("step", "1", "1", {}, R(3, 2), R(0)),
    ],
)
def test_linear_maps_are_solved_exactly(formula, w, b, settings, value, slope):
    found = at(formula, w, b, **settings)
    assert found.status is Status.EXACT and len(found) == 1 and found.unbounded is None
    assert sp.simplify(found[0].K.value - value) == 0 and found[0].basin == (0, sp.oo)
    assert found[0].K.status is Status.EXACT and sp.simplify(found[0].chi_K.value - slope) == 0
    assert found.reached_from(R(1, 10**90)) is found[0] and found.reached_from(10**90) is found[0]


def test_linear_maps_without_a_fixed_point_and_with_every_one():
    growing = at("sqrt(1+z**2)", "1", "0")
    assert growing.status is Status.EXACT and len(growing) == 0 and growing.reached_from(5) is None
    dying = at("relu", "1", "0")
    assert dying[0].K.value == 0 and dying[0].stability == "stable" and dying.unbounded is None
    neutral = at("abs(z)", "1", "0")
    assert neutral[0].stability == "neutral" and neutral.reached_from(R(7, 3)) is neutral[0]
    hidden = at("leaky_relu(0.2)", sp.sqrt(2 / (1 + R("0.04"))), "0")
    assert hidden[0].stability == "neutral"
    normed = at("relu", "2", "1e9", norm="pre", mu="1/2")
    assert normed.status is Status.EXACT and normed[0].K.value == R(4) / 3 * (10**18 + 2)


@pytest.mark.slow
def test_a_map_is_called_linear_only_where_it_is():
    for formula in ("tanh", "abs(z) + 1", "gelu", "z if abs(z) < 1e6 else 2*z", "sqrt(z**2 + z**4/(1e9+z**2))"):
        step = mf.derive(formula).one_input["K"].subs({parameter("sigma_w"): 1, parameter("sigma_b"): 0})
        assert fixed_points.linear_map(step) is None, formula


# ------------------------------------------------------------------------------------------- double roots, pairs


def test_a_double_root_is_half_stable():
    """K' = 3K² + 1/12 touches K at 1/6; a hair to either side there are none, or two."""
    touching = at("z**2", "1", "1/sqrt(12)")
    (point,) = touching
    assert point.K.value == R(1, 6) and point.stability == "half-stable" and point.chi_K.value == 1
    assert touching.status is Status.CERTIFIED
    assert touching.reached_from(R(1, 100)) is point and touching.reached_from(R(1, 5)) is None
    assert len(at("z**2", "1", sp.sqrt(R(1, 12) + R(1, 10**30)))) == 0
    assert len(at("z**2", "1", sp.sqrt(R(1, 12) - R(1, 10**30)))) == 2


def on_the_fold() -> FixedPoints:
    """GELU within 1e-25 of its critical point, where K' touches K at (3 + √17)/2, which no sign change shows."""
    point = mf.derive("gelu").critical_points()[1]
    w, b = (sp.Rational(str(sp.N(s.value, 25))) for s in (point.sigma_w, point.sigma_b))
    return mf.derive("gelu").fixed_points(sigma_w=w, sigma_b=b)


def assert_honest_at_the_fold(found: FixedPoints) -> None:
    whole = any(abs(float(p.K.value) - 3.5615528) < 1e-6 for p in found)
    assert whole or found.status is Status.MEASURED, f"certified without the fold: {found.message}"


def assert_pairs_excluded() -> None:
    for name, w, b, count in (("gelu", "1.41", "0.3", 1), ("silu", "1.41", "0.9", 1)):
        found = at(name, w, b)
        assert len(found) == count and found.status is Status.CERTIFIED, f"pairs are not excluded: {found.message}"


@pytest.mark.slow
def test_pairs_are_excluded_where_they_are_not_and_nowhere_else(monkeypatch):
    """Planted: every pair excluded (a false certificate at the fold), and none."""
    found = on_the_fold()
    assert_honest_at_the_fold(found)
    assert "may be missed" in found.message and "none elsewhere" in found.message
    assert_pairs_excluded()
    with monkeypatch.context() as m:
        m.setattr(half_line, "excluded", lambda *a: True)
        with pytest.raises(AssertionError, match="certified without the fold"):
            assert_honest_at_the_fold(on_the_fold())
    with monkeypatch.context() as m:
        m.setattr(half_line, "excluded", lambda *a: False)
        with pytest.raises(AssertionError, match="pairs are not excluded"):
            assert_pairs_excluded()
    with monkeypatch.context() as m:  # within the exclusion: every part called empty
        m.setattr(exclusion, "_count", lambda *a: 0)
        with pytest.raises(AssertionError, match="pairs are not excluded"):
            assert_pairs_excluded()


FUNCTIONS = [
    (z / 2) ** 2 - z**2 + sp.Piecewise((0, sp.Abs(z) < 10**7), (4 * 10**14 - z**2 / 4, True)),
    z**4 - 5 * z**2 + 1,  # 3K² - 5K + 1
    sp.exp(-(z**2)) - sp.exp(-2 * z**2 / 10**6) / 500 + z**2 / 10**14,
    R(1, 100) + R(225, 100) * z**2 * (1 + sp.erf(z / sp.sqrt(2))) ** 2 / 4 - z**2,
]  # each ⟨G⟩ has zeros: without, nothing would lie between the two ends


def assert_no_change_outside(g, low, high) -> None:
    """The sign of ⟨g⟩ below low and above high is that at K → 0 and K → ∞."""
    f = sp.lambdify(z, g, [{"erf": np.vectorize(math.erf, otypes=[float])}, "numpy"])
    u = np.linspace(-40, 60, 15001)
    x = np.exp(u)
    with np.errstate(over="ignore", under="ignore"):
        folded = (f(x) + f(-x)) * x
        for ks in (np.geomspace(float(low) * 1e-9, float(low), 60), np.geomspace(float(high), float(high) * 1e9, 60)):
            values = [np.trapezoid(folded * np.exp(-np.square(x) / (2 * k)), u) for k in ks]
            assert len(set(np.sign(values))) == 1, "the sign changes outside of the bounds"


@pytest.mark.parametrize("g", FUNCTIONS, ids=["far pair", "polynomial", "three scales", "gelu"])
def test_zeros_lie_between_the_two_ends(g):
    low, high = half_line.floor(g), half_line.ceiling(g)
    assert 0 < low < high
    assert_no_change_outside(g, low, high)
    with pytest.raises(AssertionError, match="the sign changes outside"):  # control: bounds that cross
        assert_no_change_outside(g, high, low)


# ------------------------------------------------------------------------------------------- critical points


def assert_complete_critical_points() -> None:
    found = mf.derive("gelu").critical_points()
    assert [p.kind for p in found] == ["repelling", "half-stable"], f"critical points: {[p.kind for p in found]}"
    assert found.status is Status.CERTIFIED, f"critical points are {found.status}"


def fresh(function):
    """The cached function run anew, so that a planted error acts."""
    function.cache_clear()


@pytest.mark.slow
def test_one_change_of_sign_is_settled_by_the_proved_ends(monkeypatch):
    """Planted: the sign far out taken to be that near 0, as if nothing were left to find."""
    from meanfield.symbolic.criticality.critical_points import critical_points

    fresh(critical_points)
    assert_complete_critical_points()
    with monkeypatch.context() as m:
        m.setattr(half_line, "far_sign", lambda expr, g, masses=(): half_line.segments(g, masses)[0][0])
        fresh(critical_points)
        with pytest.raises(AssertionError, match="critical points"):
            assert_complete_critical_points()
        found = at("tanh", "3/2", "1e13")
        with pytest.raises(AssertionError, match=r"fixed points .* for the changes"):
            assert_all_found(found, *scanned(np.tanh, 2.25, 1e26))
    fresh(critical_points)


def test_signs_far_out():
    """Where ∫|G| diverges the last block decides; where it converges the integral does, whatever the last block is, and
    where that is 0 the next order: 1/√(1+s) - 2/√(4+s) = -3s/8 + …, s = 1/2K."""
    from meanfield.base.symbols import K
    from meanfield.symbolic.averages.node import average

    for g, sign in (
        (1 - z**2, -1),
        (sp.exp(-(z**2)) - 2 * sp.exp(-4 * z**2), -1),
        (3 * sp.exp(-(z**2)) - z**2 * sp.exp(-(z**2) / 2) / 100, 1),
        (-100 * sp.exp(-(z**2)) + 1 / (1 + z**2) ** 2, -1),
    ):
        found = half_line.far_sign(average(g, K), g)
        assert found == sign, g


def test_a_line_that_begins_far_out_is_not_denied(monkeypatch):
    """1000 + tanh z needs σ_b² < 0 up to K ~ 1e12, and not beyond; √(1+z²) needs it everywhere."""
    assert mf.derive("1000 + tanh(z)").critical_line().kind == "parametric"
    _, b = mf.derive("1000 + tanh(z)").critical_line().at(10**15)
    assert b.value > 0
    with pytest.raises(mf.MeanFieldError, match="σ_b² ="):
        mf.derive("1000 + tanh(z)").critical_line().at(10**6)
    line = mf.derive("sqrt(1+z**2)").critical_line()
    assert line.kind == "none" and "every K" in line.message
    with monkeypatch.context() as m:
        m.setattr(critical_lines, "_needs_negative_bias", lambda form: True)
        fresh(critical_lines.line_of)
        assert mf.derive("1000 + tanh(z)").critical_line().kind == "none"
    fresh(critical_lines.line_of)


# ------------------------------------------------------------------------------------------------ flows, phases


@pytest.mark.slow
def test_what_lies_in_the_error_of_an_unstable_point_is_undecided():
    found = at("gelu", "1.7", "0")
    unstable = found[1]
    assert unstable.stability == "unstable"
    with pytest.raises(mf.MeanFieldError, match="within the error"):
        found.reached_from(unstable.K.value)
    assert found.reached_from(unstable.K.value * R(1001, 1000)) is None
    assert found.reached_from(unstable.K.value * R(999, 1000)) is found[0]


def test_orbits_that_overshoot_are_followed():
    """⟨z⁴e^{-2z²}⟩ rises and falls: 0 attracts, another point attracts, and K is thrown over the point between."""
    theory = mf.derive("z**2*exp(-z**2)")
    found = theory.fixed_points(sigma_w=12, sigma_b=0)
    assert not found.monotone and len(found.stable) == 2
    with pytest.raises(mf.MeanFieldError, match="overshoot"):
        found.reached_from(1)
    for norm in (R(1, 10**6), R(1, 500), R(1, 10), 3, 10**5):
        k = 144 * float(norm)
        for _ in range(400):
            k = 144 * 3 * k**2 / (1 + 4 * k) ** 2.5
        try:
            phase = theory.phase(sigma_w=12, sigma_b=0, input_norm=norm)
        except mf.MeanFieldError:
            continue
        assert phase.bistable
        assert abs(float(phase.fixed_point.K.value) - k) < 1e-9 * max(k, 1e-9)


@pytest.mark.slow
def test_a_measured_list_of_points_makes_measured_laws():
    """0.81 z² (1 + sin(z)/2)² - z² changes sign in every period, so nothing counts the fixed points; at σ_w = 1/2 it is
    negative everywhere, which its range shows."""
    theory = mf.derive("z + z*sin(z)/2")
    values = {"sigma_w": R(9, 10), "sigma_b": R(1, 10)}
    assert theory.fixed_points(sigma_w=R(1, 2), sigma_b=R(1, 10)).status is Status.CERTIFIED
    found = theory.fixed_points(**values)
    assert found.status is Status.MEASURED and "1e+12" in found.message
    assert theory.phase(**values).status is Status.MEASURED
    assert theory.phase(**values).chi_J.status is Status.MEASURED and "measured" in str(theory.phase(**values))
    assert theory.depth_law("K", **values).status is Status.MEASURED
    proved = mf.derive("tanh").phase(sigma_w="1.5", sigma_b="0.3")
    assert proved.status is Status.CERTIFIED and "measured" not in str(proved)


# --------------------------------------------------------------------------------------------------- diagrams


def attractors_of(loop_edit=lambda text: text):
    """The number of attracting states of GELU at σ_w² = 2.89, σ_b = 0, by the generated module run as plain Python."""
    from meanfield.numeric.phases import phase_grids

    recursion = mf.derive("gelu").recursion("K", "J")
    text, arrays = phase_grids._generate(recursion, ("sigma_b", "sigma_w"))
    text = loop_edit("\n".join(t for t in text.splitlines() if not t.startswith(("from numba", "import numba"))))
    space: dict = {"njit": lambda *a, **k: (a[0] if a else lambda f: f), "prange": range}
    exec(compile(text, "generated", "exec"), space)
    tables = tuple(arrays[f"T{i}"] for i in range(sum(key.startswith("T") for key in arrays)))
    nodes = np.zeros((4, phase_grids.GRID.size))
    K_star, chi, count = np.empty(1), np.empty(1), np.zeros(1, dtype=np.int64)
    with np.errstate(all="ignore"):
        space["tabulate"](phase_grids.GRID, tables, nodes)
        sigma = np.array([[0.0], [1.7]])
        space["point"](0, phase_grids.GRID, nodes, np.array([2.89]), sigma, tables, K_star, chi, count)
    return int(count[0]), float(K_star[0])


def assert_zero_attracts(count: int) -> None:
    assert count == 2, f"{count} ends attract"  # K = 0 and K → ∞


def test_zero_is_an_attractor_of_a_diagram():
    """Planted: the state at K = 0 not counted."""
    count, end = attractors_of()
    assert_zero_attracts(count)
    assert math.isinf(end)
    mutant, _ = attractors_of(lambda t: t.replace("count = int(signs[0] < 0) + ", "count = "))
    with pytest.raises(AssertionError, match="1 ends attract"):
        assert_zero_attracts(mutant)


def test_a_diagram_refuses_what_it_cannot_follow():
    with pytest.raises(mf.MeanFieldError, match="follows K up to"):
        mf.derive("relu").phase_diagram(sigma_w=(1, 2, 2), sigma_b=np.array([1e16]), line=False)


# ---------------------------------------------------------------------------------------------------- statuses


def statuses() -> dict[Status, object]:
    """One answer of each status, from public verbs."""
    jump = at("step", "1", "1")[0].chi_J
    ray = mf.derive("relu", norm="act").critical_line().sigma_b_at(1)[0][1]
    run = mf.derive("relu").propagate(sigma_w=3.0, sigma_b=0.0, depth=700, every_layer=False, quantities=("K",))
    return {
        Status.EXACT: at("relu", "1.2", "1e7").status,
        Status.CERTIFIED: at("tanh", "1.5", "0.3").status,
        Status.MEASURED: at("z + z*sin(z)/2", "9/10", "0.1").status,
        Status.DIVERGES: np.ravel(run.status)[0],
        Status.NONEXISTENT: jump.status,
        Status.NOT_UNIQUE: ray.status,
        Status.UNKNOWN: mf.derive("swish", beta="beta").critical_points().status,
    }


def test_every_status_is_reached():
    found = statuses()
    assert set(found) == set(Status)
    for wanted, got in found.items():
        assert got is wanted, (wanted, got)


def test_no_error_is_rounded_to_zero():
    """A radius below the smallest double stays above 0."""
    from flint import arb

    from meanfield.symbolic.fixed_points.certified_roots import from_ball

    tiny = from_ball(arb("1e-400", "1e-420"))
    assert isinstance(tiny, Solution) and tiny.error > 0


def test_a_ray_is_exact_only_where_its_averages_are_closed():
    """σ_b²/σ_w² = ⟨φ′²⟩_1 - ⟨φ²⟩_1 behind a LayerNorm; ⟨tanh²⟩_1 and ⟨sech⁴⟩_1 are enclosed, those of erf closed."""
    tanh, erf = (mf.derive(name, norm="pre").critical_line() for name in ("tanh", "erf"))
    assert tanh.kind == erf.kind == "ray"
    for line, status in ((tanh, Status.CERTIFIED), (erf, Status.EXACT)):
        assert line.sigma_b_at("3/2")[0][0].status is status and line.sigma_w_at("1/2")[0][0].status is status
    z, w = np.polynomial.hermite_e.hermegauss(180)
    ratio = w @ (1 / np.cosh(z) ** 4 - np.tanh(z) ** 2) / np.sqrt(2 * np.pi)
    assert float(tanh.sigma_b_at("3/2")[0][0].value) == pytest.approx(1.5 * math.sqrt(ratio), rel=1e-9)
