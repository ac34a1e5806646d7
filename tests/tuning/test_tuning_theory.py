"""The descent of tuning losses: numbers of the specification of [autoinit], differences, and where it converges."""

import math

import numpy as np
import pytest

import meanfield as mf
from meanfield.networks.architectures import batchnorm_mlp, preln, resmlp, swiglu
from meanfield.networks.records import Dense, Nonlinearity, Residual, Sequential
from meanfield.tuning.network_gains.backward import LOSSES, Blocks, state
from meanfield.tuning.network_gains.descent import through_network
from meanfield.tuning.network_gains.tune import _drive as drive


def at(phi: str, sigma_w: float, sigma_b: float, depth: int = 8):
    sigma = np.tile([sigma_w, sigma_b], (depth, 1)).astype(float)[:, None]
    return state(Blocks(mf.networks.mlp(phi), {}), sigma, np.ones((depth, 1, 2)), 1.0)


GRADIENTS = [  # ∂log J^{l',l'+1}/∂(a_W, a_b) of layer 3 from K^0 = 1: (φ, σ_w, σ_b, l', ∂a_W, ∂a_b)
    ("tanh", 1.7, 0.4, 3, -0.75822688, -0.08260764),
    ("tanh", 1.7, 0.4, 6, -0.02963998, -0.00322923),
    ("tanh", 2, 0, 3, -0.87823766, 0),
    ("tanh", 2, 0, 6, -0.03041564, 0),
    ("gelu", 1.9, 0.3, 3, -0.00327999, None),
    ("gelu", 1.9, 0.3, 6, -0.01115917, None),
    ("erf", 1.3, 0.2, 3, -0.72988257, -0.03725758),
]


@pytest.mark.slow
@pytest.mark.parametrize(("phi", "w", "b", "l", "by_w", "by_b"), GRADIENTS)
def test_gradients_of_log_J(phi, w, b, l, by_w, by_b):
    G = at(phi, w, b).jacobian()
    assert G[l - 1, 2, 0, 0] == pytest.approx(by_w, abs=1e-7)
    assert by_b is None or G[l - 1, 2, 0, 1] == pytest.approx(by_b, abs=1e-7)


THEORIES = {
    "plain": mf.networks.mlp("erf"),
    "norm": preln("relu", mu="1/2"),
    "two Dense": Residual(Sequential((Dense(), Nonlinearity("erf"), Dense(expand=2), Nonlinearity("relu"), Dense()))),
    "batch": batchnorm_mlp("erf", mu="1/2"),
}


@pytest.mark.parametrize("name", ["plain", *(pytest.param(k, marks=pytest.mark.slow) for k in list(THEORIES)[1:])])
def test_gradient_is_a_difference_quotient_and_the_printed_factor_is_not(name):
    """Of every loss, over all blocks and over some; the planted error is the factor that (15) has too much."""
    blocks, rng = Blocks(THEORIES[name], {}), np.random.default_rng(0)
    gains = 1 + 0.1 * rng.standard_normal((5, blocks.count, 2))
    sigma = np.broadcast_to([1.3, 0.2], gains.shape).copy()
    some = np.array([False, True, True, False])
    for kind, within in (*((kind, None) for kind in LOSSES), ("JKL", some)):
        found, again = state(blocks, sigma, gains, 1.0, within).gradient(kind, 0.3), np.zeros(gains.shape)
        for i in np.ndindex(*gains.shape):
            if i[0] == 0 and i[1] > 0:
                continue  # the input layer has one Dense
            e = np.zeros(gains.shape)
            e[i] = 1e-5
            ends = [state(blocks, sigma, gains + s * e, 1.0, within).loss(kind, 0.3) for s in (1, -1)]
            again[i] = (ends[0] - ends[1]) / 2e-5
        assert np.abs(found - again).max() < 1e-7 * max(1, np.abs(again).max())
        assert np.abs(2 * found - again).max() > 1e-2


NETWORKS = {
    "relu": (mf.networks.mlp("relu"), {}),
    "tokens": (resmlp("gelu", scale="1/2"), {"tokens": 4}),
    "norm": (preln("gelu", mu="1/2"), {}),
    "batch": (batchnorm_mlp("tanh", mu="1/2"), {"inputs": 6}),
    "gate": (swiglu("silu"), {}),
}


@pytest.mark.parametrize("loss", [pytest.param("JLL", marks=pytest.mark.slow), "JKL"])
@pytest.mark.parametrize("name", [*sorted(set(NETWORKS) - {"batch"}), pytest.param("batch", marks=pytest.mark.slow)])
def test_reverse_through_pushed_probes(name, loss):
    """One drawn network with biases: the gradient by every gain against central differences."""
    block, more = NETWORKS[name]
    d, _ = drive(block, {}, 3, 6, 1.3, 0.2, more.get("inputs", 2), more.get("tokens", 1), 1.0, 2, 7)
    gains = d.gains * (1 + 0.1 * np.random.default_rng(1).standard_normal(d.gains.shape))
    slope = through_network(d, gains, 0, loss, 0.4)[1]
    for i in np.ndindex(*gains.shape):
        e = np.zeros_like(gains)
        e[i] = 1e-5
        ends = [through_network(d, gains + s * e, 0, loss, 0.4)[0] for s in (1, -1)]
        assert slope[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6 * np.abs(slope).max())


def test_rates_of_one_layer():
    for loss, first in (("JLL", 0.42255559), ("JSL", 0.14644661)):
        found = mf.tuning.tuning_rates("relu", sigma_w=2, loss=loss)
        assert found.falling == pytest.approx(first, abs=1e-8)
        assert mf.tuning.tuning_region("relu", sigma_w=2, rate=found.one_step, steps=1, loss=loss) == pytest.approx(
            1, 1e-12
        )
        assert mf.tuning.tuning_rates("linear", sigma_w=2, loss=loss).edge == found.edge / 2  # A = 1, not 1/2
    assert mf.tuning.tuning_rates("relu", sigma_w=3, loss="JSL").converges(0.06)
    assert not mf.tuning.tuning_rates("relu", sigma_w=3, loss="JSL").converges(0.07)  # 4/(σ_w²(σ_w² − 2)) = .0635


EDGES = [(0.5, 4.17633, 4.42211), (1.0, 1.02749, 1.03550), (2.0, 0.25687, 0.26298), (3.0, 0.11603, 0.06348)]


def test_edges_of_figures_1_and_5():
    for sigma_w, *edges in EDGES:
        for loss, edge in zip(("JLL", "JSL"), edges):
            J = mf.tuning.tuning_region("relu", sigma_w=sigma_w, rate=[edge * 0.999, edge * 1.002], loss=loss)
            assert 0.8 < J[0] < 1.25 and not 0.8 < J[1] < 1.25


@pytest.mark.slow
def test_relu_of_width_500_descends_as_the_map_says():
    found = mf.tune("relu", depth=11, width=500, sigma_w=2, method="gradient", rate=0.05, steps=20, tolerance=0)
    J = [math.exp(one["worst"]) for one in found.trace]
    one = mf.tuning.tuning_region("relu", sigma_w=2, rate=0.05, steps=1)
    assert J[1] == pytest.approx(float(one), abs=0.15) and float(one) == pytest.approx(1.7324, abs=1e-4)
    assert J[20] == pytest.approx(1, abs=1e-3)


@pytest.mark.slow
def test_tanh_of_infinite_width():
    settings = {"depth": 11, "sigma_w": 2, "method": "gradient", "tolerance": 0}
    found = mf.tune("tanh", rate=0.05, steps=20, **settings)
    assert float(np.exp(found.after).mean()) == pytest.approx(1.0851, abs=0.002)
    found = mf.tune("tanh", rate=0.03, steps=600, **settings)
    assert 2 / found.rate_bound == pytest.approx(12.677, abs=0.01)


def test_divergence_and_explosion_are_said():
    found = mf.tune("erf", depth=6, sigma_w=2, method="gradient", rate=1.0, steps=200)
    assert found.status == "not converged" and "must stay below" in found.message
    found = mf.tune("tanh", depth=40, width=60, sigma_w=4, method="gradient", probes=4, steps=3)
    assert found.status == "exploded" and "sweep" in found.message


@pytest.mark.slow
def test_two_probes_stop_at_their_noise():
    found = mf.tune("relu", depth=11, width=500, sigma_w=2, method="gradient", rate=0.03, steps=392, probes=2)
    assert found.status == "tuned" and "noise" in found.message and found.worst < 0.1


@pytest.mark.slow_with("<lambda>-not of degree 1_0", "<lambda>-not of degree 1_1")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mf.tune("relu", depth=5, method="gradient", rate=-1), "rate must be > 0"),
        (lambda: mf.tune("relu", depth=5, method="gradient", loss="mse"), "loss"),
        (lambda: mf.tune("relu", depth=5, method="gradient", rate=[0.1, 0.1]), "one per layer"),
        (lambda: mf.tune("relu", depth=5, method="gradient", blocks=(3, 2)), "first, last"),
        (lambda: mf.tune("step", depth=5, method="gradient"), "jumps"),
        (lambda: mf.tuning.tuning_rates("erf", sigma_w=1), "depends on K"),
        (lambda: mf.tuning.tuning_rates("z if z < 50 else 100 - z", sigma_w=1), "not of degree 1"),
        (lambda: mf.tuning.tuning_rates("z if z < 50 else 2*z - 50", sigma_w=1), "not of degree 1"),
        (lambda: mf.tuning.tuning_region("relu(z) + 1e-9", sigma_w=1, rate=0.1), "not of degree 1"),
        (lambda: mf.tuning.tuning_rates("relu", sigma_w=-1), "must be > 0"),
        (lambda: mf.tuning.tuning_region("relu", sigma_w=[1, 2], rate=[1, 2, 3]), "broadcast"),
        (lambda: mf.tune("step", depth=3, width=9, method="gradient"), "no perturbation passes"),
    ],
)
def test_what_cannot_be_descended_is_a_sentence(call, words):
    with pytest.raises(mf.MeanFieldError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.slow_with("(sin(z)**2 + cos(z)**2)*z-slopes2")
@pytest.mark.parametrize(
    ("phi", "slopes"),
    [
        ("relu", (0, 1)),
        ("z*(1 + sign(z)/2)", (0.5, 1.5)),
        ("(sin(z)**2 + cos(z)**2)*z", (1, 1)),
        ("z**2/abs(z)", (1, 1)),
    ],
)
def test_functions_of_degree_1_are_proved_to_be(phi, slopes):
    """J = (a² + b²)/2 of the slopes a, b on both sides of 0, however φ is written."""
    wanted = (slopes[0] ** 2 + slopes[1] ** 2) / 2

    def assert_slope(found):
        assert abs(found - wanted) < 1e-12, "slopes"

    assert_slope(mf.tuning.tuning_rates(phi, sigma_w=1).J)
    with pytest.raises(AssertionError, match="slopes"):  # planted
        assert_slope(slopes[1] ** 2 / 2 + 1e-9)
