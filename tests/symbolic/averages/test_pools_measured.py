"""Pools that nothing encloses, and two inputs of unequal norms through pools: exact cases, iteration, other routes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import meanfield as mf
from meanfield import MeanFieldError, Status
from meanfield.numeric.phases.maps.sampled_maps import MeasuredLine


def pooled(phi, size, kind) -> mf.Theory:
    return mf.derive(architecture=mf.Sequential((mf.Nonlinearity(phi), mf.Pool(size, kind), mf.Dense())))


PLACE = {"sigma_w": 1.2, "sigma_b": 0.3, "depth": 3}
START = {"K_aa": 1.0, "K_bb": 2.0, "c": 0.5}


def two_ways(theory: mf.Theory) -> tuple[np.ndarray, np.ndarray]:
    """The distance of two inputs of unequal norms by itself, and as K_aa + K_bb - 2 K_ab of a run with these."""
    own = theory.propagate(**PLACE, start=START, quantities=("K_aa", "distance"))
    other = theory.propagate(**PLACE, start=START, quantities=("K_aa", "K_bb", "K_ab"))
    return own.distance, other.K_aa + other.K_bb - 2 * other.K_ab


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["relu", pytest.param("sin", marks=pytest.mark.slow)])
def test_unequal_norms_through_means(phi):
    own, other = two_ways(pooled(phi, 3, "average"))
    assert own == pytest.approx(other, rel=1e-11)
    assert own[1:] != pytest.approx(other[1:] * (1 + 1e-9), rel=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phi", "size", "kind"),
    [("tanh", 2, "max"), ("gelu", 3, "max"), ("tanh", 2, "z1*z2"), ("tanh", 3, "z1*z2*z3 + z2")],
)
def test_unequal_norms_through_pools(phi, size, kind):
    own, other = two_ways(pooled(phi, size, kind))
    assert own == pytest.approx(other, rel=1e-9)
    assert own[1:] != pytest.approx(other[1:] * (1 + 1e-7), rel=1e-9)


@pytest.mark.slow
def test_collinear_inputs_through_a_maximum():
    """Of ReLU the maximum is homogeneous: the distance of collinear inputs is multiplied as K is, to seven digits at
    1e-7 and at 1e-10."""
    exact, square = 0.75 + 1 / (2 * math.pi), 1.44
    theory = pooled("relu", 2, "max")
    for off in (1e-3, 1e-7, 1e-10):
        start = {"K_aa": 1.0, "K_bb": (1 + off) ** 2, "c": 1.0}
        run = theory.propagate(sigma_w=1.2, sigma_b=0.0, depth=4, start=start, quantities=("K_aa", "distance"))
        grown = np.diff(run.log_distance)
        assert grown == pytest.approx(math.log(square * exact), abs=1e-7)
        assert grown != pytest.approx(math.log(square * exact * 1.00001), abs=1e-7)


@pytest.mark.slow
def test_a_formula_of_one_power():
    """√(φ_1² + φ_2²) of ReLUs: ⟨f²⟩ = K and ⟨‖∇f‖²⟩ = ¾, so K* = σ_b²/(1 - σ_w²) and χ_J* = ¾σ_w²."""
    theory, place = pooled("relu", 2, "sqrt(z1**2 + z2**2)"), {"sigma_w": "0.7", "sigma_b": "0.3"}
    (point,) = theory.fixed_points(**place)
    assert abs(float(point.K.value) - 0.09 / 0.51) <= point.K.error < 1e-3
    assert abs(float(point.chi_J.value) - 0.75 * 0.49) <= point.chi_J.error < 1e-3
    assert abs(float(point.chi_J.value) - 0.76 * 0.49) > point.chi_J.error
    phase = theory.phase(**place)
    assert phase.name == "ordered" and phase.status is Status.MEASURED and not phase.bistable
    assert theory.phase(sigma_w="1.2", sigma_b="0.3").fixed_point is None
    assert theory.bias(**place).phase is mf.bias.BiasPhase.ORDERED_DEEP_PREJUDICE
    assert theory.correlations(**place).stable.c == 1
    line = theory.critical_line()
    assert isinstance(line, MeasuredLine) and line.sigma_w_at("0.3") == ()  # K* is gone where χ_J = 1
    diagram = theory.phase_diagram(sigma_w=[0.5, 0.7, 1.2], sigma_b=[0.3])
    assert diagram.K[0, :2] == pytest.approx([0.09 / 0.75, 0.09 / 0.51], rel=1e-5) and np.isinf(diagram.K[0, 2])
    with pytest.raises(MeanFieldError, match="nothing encloses"):
        theory.critical_points()


@pytest.mark.slow
def test_a_maximum_of_a_phi_that_turns():
    """Five GELUs: the fixed point against iteration, the critical line against χ_J = 1 there."""
    theory, place = pooled("gelu", 5, "max"), {"sigma_w": "0.7", "sigma_b": "0.3"}
    point = theory.phase(**place).fixed_point
    run = theory.propagate(sigma_w=0.7, sigma_b=0.3, depth=200, quantities=("K", "J"))
    assert float(point.K.value) == pytest.approx(float(run.K[-1]), rel=1e-9)
    assert math.log(point.chi_J.value) == pytest.approx(float(np.diff(run.log_J)[-1]), abs=1e-9)
    assert float(point.K.value) != pytest.approx(float(run.K[-1]) * (1 + 1e-7), rel=1e-9)
    for w, K in theory.critical_line().sigma_w_at("0.01"):
        at = theory.fixed_points(sigma_w=repr(float(w.value)), sigma_b="0.01")
        near = min(at, key=lambda p: abs(float(p.K.value) - float(K.value)))
        assert abs(float(near.chi_J.value) - 1) < 1e-5


NORMED = mf.Sequential((mf.LayerNorm(), mf.Nonlinearity("tanh"), mf.Pool(2, "average"), mf.Dense()))


def test_a_trained_layer_norm_before_a_pool_leaves_theta_out():
    """K and J of such networks are those of fixed gains; Theta is refused by name."""
    trained, fixed = (
        mf.derive(architecture=mf.Sequential((mf.LayerNorm(affine), *NORMED.blocks[1:]))) for affine in (True, False)
    )
    assert trained.one_input == fixed.one_input.only("K", "J") and "Theta" in fixed.one_input
    with pytest.raises(MeanFieldError, match="a Pool or another norm takes it up"):
        trained.propagate(**PLACE, quantities=("Theta",))


def test_theta_of_a_batch_through_a_pool():
    """Where no trained gain stands between a Pool and the Dense before it, Theta closes: the mean of two odd functions
    has half the second moment, as a Dense of half the variance makes it."""

    def run(phi, *end):
        inner = (mf.Dense(), mf.BatchNorm(), mf.Nonlinearity("tanh"), mf.Dense(), mf.Nonlinearity(phi))
        theory = mf.derive(architecture=mf.Sequential((*inner, *end)), batch=16)
        found = theory.propagate(**PLACE, correlation=0.4, quantities=("K", "K_ab", "J", "Theta", "Theta_ab"))
        return np.array([found.K, found.K_ab, found.log_J, found.Theta, found.Theta_ab])

    half, whole = mf.Dense(sigma_w=1), mf.Dense(sigma_w="sqrt(2)")
    assert run("erf", half) == pytest.approx(run("erf", mf.Pool(2, "average"), whole), rel=1e-12)
    assert run("relu", half)[3] != pytest.approx(run("relu", mf.Pool(2, "average"), whole)[3], rel=1e-2)
