"""Where K grows without bound: the bias, J beyond the overflow of K; and what no weights leave of a jump."""

from __future__ import annotations

import math

import numpy as np
import pytest

import meanfield as mf
from meanfield import MeanFieldError


@pytest.mark.slow
@pytest.mark.parametrize(("sigma_w", "sigma_b"), [(1.5, 0.0), (1.8, 0.05)])
def test_a_diagram_knows_what_bias_knows(sigma_w, sigma_b):
    theory = mf.derive("gelu")
    diagram = theory.phase_diagram(sigma_w=[sigma_w], sigma_b=[sigma_b], quantity="gamma", line=False)
    found = theory.bias(sigma_w=sigma_w, sigma_b=sigma_b)
    assert diagram.phases[diagram.phase[0, 0]] == found.phase.value == "chaotic deep prejudice"
    assert diagram.c[0, 0] == 1 and np.isinf(diagram.K[0, 0])
    square = mf.derive("z**2").phase_diagram(sigma_w=[1.9], sigma_b=[0.3], quantity="gamma", line=False)
    assert square.c[0, 0] == pytest.approx(0.5, abs=1e-12)  # c′ = (1 + 2c²)/3


@pytest.mark.slow
def test_a_residual_tanh_settles_for_every_start():
    """c = 288 asin(c)/(145π) + 1/145, from the sources and the sign kernel: its root, by another solver."""
    theory = mf.derive("tanh", residual=True)
    found = theory.bias(sigma_w="1.2", sigma_b="0.1")
    c = 0.02
    for _ in range(200):
        c = 288 * math.asin(c) / (145 * math.pi) + 1 / 145
    assert found.c == pytest.approx(c, rel=1e-10) and found.phase is mf.bias.BiasPhase.NEUTRALITY
    assert found.c != pytest.approx(c * 1.0001, rel=1e-10)
    assert theory.bias(sigma_w="0.5", sigma_b="0.3").phase is mf.bias.BiasPhase.PREJUDICE
    assert theory.bias(sigma_w="1.2", sigma_b=0).phase is mf.bias.BiasPhase.BY_THE_START


def test_J_goes_on_where_K_has_overflowed():
    run = mf.derive("relu").propagate(sigma_w=3, sigma_b=0.1, depth=1000, quantities=("K", "J"))
    assert np.isinf(run.K[-1]) and run.diverged_at > 0
    assert run.log_J == pytest.approx(np.arange(1000) * math.log(4.5), rel=1e-12)
    assert run.log_J[-1] != pytest.approx(1000 * math.log(4.5), rel=1e-12)
    square = mf.derive("z**2").propagate(sigma_w=3, sigma_b=0.1, depth=100, quantities=("K", "J"))
    assert np.isnan(square.log_J[-1])  # J grows by another factor in every layer: nothing is claimed


def test_without_weights_a_jump_is_not_seen():
    theory = mf.derive("step")
    assert theory.phase(sigma_w=0, sigma_b=0.3).name == "ordered"
    assert theory.phase(sigma_w=1, sigma_b=0.3).name == "chaotic"


@pytest.mark.parametrize("beta", [-1, -0.5, "-1/2", float("nan"), float("inf")])
def test_variances_that_grow_with_depth_are_refused(beta):
    with pytest.raises(MeanFieldError, match="beta of a Schedule must be") as refused:
        mf.Schedule(1, beta)
    assert str(refused.value).count(".") <= 2
    assert mf.Schedule(1, 0) and mf.Schedule(1, "beta_v")


@pytest.mark.slow_with("tanh-1/2")
@pytest.mark.parametrize("phi, correlation", [("tanh", "1/2"), ("exp(-z**2)", "0")])
def test_what_falls_is_no_prejudice(phi, correlation):
    """c → 0 as K grows: γ* = 0 (γ* = ∞, c* = 1 before, as of every law that moves)."""
    theory = mf.derive(phi, residual=True)
    found = theory.bias(sigma_w=1, sigma_b=0, correlation=correlation)
    assert (found.phase.value, found.gamma, found.c) == ("neutrality", 0, 0)
    run = theory.propagate(sigma_w=1, sigma_b=0, correlation=0.5, depth=20_000, quantities=("c",))
    assert run.c[-1] < 0.5 * run.c[200] and float(found.law.leading.power) < 0
    rising = theory.bias(sigma_w=1, sigma_b="1/2", correlation=correlation)  # control
    assert rising.gamma > 1e-3


def test_gradients_go_on_where_K_has_overflowed():
    """ReLU at σ_w = 2: log G_z^l = (L - l) log 2 and G_w = J^{1,L} for every layer, in layers whose K is infinite too
    (nan before, and `lost_at` 0)."""
    run = mf.derive("relu").propagate(sigma_w=2, sigma_b=0, depth=1100, quantities=("K", "J", "G_z", "G_w"))
    assert run.diverged_at == 996 and run.lost_at == 0 and np.isinf(run.K[-1])
    assert run.log_G_z == pytest.approx((1100 - run.l) * np.log(2), abs=1e-9)
    assert run.log_G_w[:, 0] == pytest.approx(run.log_J[-1], abs=1e-9)
    square = mf.derive("z**2").propagate(sigma_w=2, sigma_b=0, depth=30, quantities=("G_z",))  # no map at infinity
    assert np.isnan(square.log_G_z).all() and square.lost_at == 1
    assert "from layer 1 on G_z are unknown" in square.message() and "G_z, G_w[1] go on" in run.message()
