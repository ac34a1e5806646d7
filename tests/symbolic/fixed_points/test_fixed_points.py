"""Fixed points: numbers against independent ones, number and stability, basins against iteration."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
from mpmath import mp

import meanfield as mf
from meanfield.base.answers.results import Status
from meanfield.base.symbols import K
from meanfield.symbolic.fixed_points.certified_roots import enclose
from tests.oracles.criticality import averages

R = sp.Rational

# [partial_jacobians] specification § 3.4: φ, σ_w², σ_b², μ → K*, χ_J, χ_K, ξ
TABLE = [
    ("erf", "1.7", ".3", 0, (1.1286008301, 0.9217428480, 0.2829861164, 12.27159478)),
    ("erf", "1", "0", 0, (0.1419237653, 1.0169025200, 0.7920742111, 59.66137914)),
    ("erf", ".5", ".2", 0, (0.3302051141, 0.4178874716, 0.2516772449, 1.14607520)),
    ("gelu", "1.5", ".3", 0, (0.7763874283, 0.6590384108, 0.7127024598, 2.39823417)),
    ("relu", "1.5", ".3", 0, (1.2, 0.75, 0.75, 3.47605950)),
    ("erf", "1.2", ".3", "1/2", (1.1976532281, 0.8849347512, 0.4370036650, 8.18053698)),
    ("gelu", "1", ".3", "1/2", (0.9066529924, 0.6996925366, 0.7324814883, 2.80022411)),
]


def root(text: str) -> sp.Expr:
    return sp.sqrt(R(text))


def assert_relative(ours: float, theirs: float, tolerance: float) -> None:
    assert abs(ours - theirs) <= tolerance * abs(theirs), (ours, theirs)


@pytest.mark.slow_with("gelu-1.5-.3-0-expected3")
@pytest.mark.parametrize(("name", "s", "b", "mu", "expected"), TABLE)
def test_published_fixed_points(name, s, b, mu, expected):
    point = mf.derive(name, mu=mu).fixed_points(sigma_w=root(s), sigma_b=root(b)).stable[0]
    got = (float(point.K.value), float(point.chi_J.value), float(point.chi_K.value), point.xi)
    for ours, theirs in zip(got, expected):
        assert_relative(ours, theirs, 1e-8)
    shifted = mf.derive(name, mu=mu).fixed_points(sigma_w=root(s) * R(101, 100), sigma_b=root(b)).stable[0]
    assert abs(float(shifted.K.value) / expected[0] - 1) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "softsign", "silu", "mish", "softplus", "elu", "hard_tanh"])
def test_the_ball_holds_a_root_of_an_independent_map(name):
    """mpmath's quadrature of hand-written formulas changes sign over the certified interval."""
    found = mf.derive(name).fixed_points(sigma_w=root("1.5"), sigma_b=root("1/10"))
    assert found.status in (Status.CERTIFIED, Status.EXACT)
    with mp.workdps(25):
        for point in found:
            k = mp.mpf(str(point.K.value))
            gaps = [mp.mpf(3) / 2 * averages(name, k * f)[0] + mp.mpf(1) / 10 - k * f for f in (1 - 1e-15, 1 + 1e-15)]
            assert gaps[0] * gaps[1] < 0
            planted = [
                mp.mpf("1.51") * averages(name, k * f)[0] + mp.mpf(1) / 10 - k * f for f in (1 - 1e-15, 1 + 1e-15)
            ]
            assert planted[0] * planted[1] > 0


@pytest.mark.slow
def test_three_fixed_points_of_gelu():
    """The critical line at K* = 3 holds an unstable fixed point between two stable ones: {1.128521, 3, 52.891031}."""
    line = mf.derive("gelu").critical_line()
    w, b = (s.value for s in line.at(3))
    found = mf.derive("gelu").fixed_points(sigma_w=sp.Rational(str(w)), sigma_b=sp.Rational(str(b)))
    for point, value in zip(found, (1.128521, 3.0, 52.891031)):
        assert abs(float(point.K.value) - value) < 1e-5
    assert [p.stability for p in found] == ["stable", "unstable", "stable"]
    assert [p.phase for p in found.stable] == ["ordered", "chaotic"]
    assert found.status is Status.CERTIFIED and len(found) == 3
    assert found.reached_from(2).K == found[0].K and found.reached_from(4).K == found[2].K


@pytest.mark.slow
def test_gelu_without_bias_runs_away_or_dies():
    """σ_w² = 2.89: K → 0 below the unstable point, K → ∞ above; Q0 = 1 is above."""
    theory = mf.derive("gelu")
    found = theory.fixed_points(sigma_w=root("2.89"), sigma_b=0)
    assert [p.stability for p in found] == ["stable", "unstable"] and found.unbounded is not None
    assert found.reached_from(R(289, 100)) is None
    assert theory.phase(sigma_w=root("2.89"), sigma_b=0).name == "chaotic"
    assert theory.phase(sigma_w=root("2.89"), sigma_b=0, input_norm="1/10").name == "ordered"
    assert theory.phase(sigma_w=root("2.89"), sigma_b=0).bistable


@pytest.mark.fast_with("2")
@pytest.mark.parametrize("seed", range(4))
def test_basins_hold_the_orbits(seed):
    """From random K¹ the compiled recursion ends where the basin says."""
    rng = np.random.default_rng(seed)
    name = ["gelu", "silu", "relu2", "tanh"][seed]
    w, b = [("1.41", "0.3"), ("1.412", "0.35"), ("0.9", "0.3"), ("1.6", "0.2")][seed]
    theory = mf.derive(name)
    found = theory.fixed_points(sigma_w=w, sigma_b=b)
    assert found.status is Status.CERTIFIED
    for k in rng.uniform(0.05, 6, 6):
        start = max(float(k), float(b) ** 2 * 1.01)
        norm = (start - float(b) ** 2) / float(w) ** 2
        run = theory.propagate(
            sigma_w=float(w), sigma_b=float(b), input_norm=norm, depth=60000, every_layer=False, quantities=("K",)
        )
        goal = found.reached_from(sp.Float(start))
        if goal is None:
            assert run.diverged_at > 0 or run.K[-1] > 1e3
        else:
            assert_relative(float(run.K[-1]), float(goal.K.value), 1e-3)


def test_no_fixed_point_and_every_fixed_point():
    assert len(mf.derive("relu").fixed_points(sigma_w=root("2"), sigma_b=1)) == 0
    neutral = mf.derive("relu").fixed_points(sigma_w=root("2"), sigma_b=0)
    assert neutral[0].stability == "neutral" and neutral.status is Status.EXACT
    assert len(mf.derive("erf", mu=1).fixed_points(sigma_w=1, sigma_b="0.1")) == 0


@pytest.mark.slow
def test_layer_norm_hides_k():
    """R28: K* = (σ_w²B + σ_b²)/(1 - μ²), reached from everywhere; χ_J* of the specification, line 5."""
    for name, chi in (("relu", 0.625), ("erf", 0.6927489681), ("gelu", 0.6195203318)):
        point = mf.derive(name, norm="pre", mu="1/2").fixed_points(sigma_w=root("2"), sigma_b=1)[0]
        assert abs(float(point.chi_J.value) - chi) < 1e-9 and point.basin == (0, sp.oo)
    assert len(mf.derive("tanh", norm="pre", mu=1).fixed_points(sigma_w=1, sigma_b=1)) == 0


def test_enclosures_hold_and_are_tight():
    node = mf.derive("tanh").averages()["phi^2"]
    wide = enclose(node, R(1), R(11, 10), 15)
    for k in (R(1), R(104, 100), R(11, 10)):
        value = float(sp.N(node.subs(K, k), 20))
        assert wide.contains(value)
    assert float(wide.rad()) < 0.05
    assert not wide.contains(float(sp.N(node.subs(K, R(3, 2)), 20)))


def test_questions_that_cannot_be_answered():
    with pytest.raises(mf.MeanFieldError, match="need numbers for sigma_b"):
        mf.derive("tanh").fixed_points(sigma_w=1)
    with pytest.raises(mf.MeanFieldError, match="not a parameter"):
        mf.derive("tanh").fixed_points(sigma_w=1, sigma_b=0, mu=1)
    assert math.isinf(mf.derive("step").fixed_points(sigma_w=1, sigma_b=1)[0].chi_J.value)
