"""Correlators, gradients, random tangents and class fractions against laws that are exact at any width."""

import math

import numpy as np
import pytest

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical import run_ensemble
from meanfield.networks.records import BatchNorm, Dense, LayerNorm, Nonlinearity, Pool, Residual, Sequential, mlp

PHI = Nonlinearity("tanh")


def assert_agrees(estimate, expected, limit=4.2):
    """Every entry within `limit` standard errors; where the error is 0, equal to rounding."""
    mean, error = np.asarray(estimate.mean), np.asarray(estimate.standard_error)
    gap = np.abs(mean - expected)
    assert (gap <= limit * error + 1e-9 * np.maximum(1.0, np.abs(mean))).all(), (
        f"{np.max(gap / np.maximum(error, 1e-300)):.3g} standard errors away"
    )


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["explicit", "lazy"])
@pytest.mark.parametrize(
    ("weights", "fan_in", "exact"),
    [
        ("gaussian", 8, lambda n, l: n * ((1 + 2 / n) ** (l - 1) - 1)),
        ("orthogonal", 8, lambda n, l: -2 * n / (n + 2)),
        ("mixed", 8, lambda n, l: 0.0),
        ("orthogonal", 20, lambda n, l: -2 * n / (20 + 2)),
    ],
)
def test_vertex_of_linear_networks(sampler, weights, fan_in, exact):
    """[orthogonal_weights] (3.11), (3.12), 4.17, and the pseudo-orthogonal first layer: exact at any n."""
    n, k = 8, 1.5
    run = run_ensemble(
        mlp("linear", weights=weights),
        sigma_w=1,
        sigma_b=0,
        width=n,
        input_dimension=fan_in,
        depth=4,
        networks=4000,
        quantities=("V",),
        input_norm=k,
        sampler=sampler,
    )
    expected = k * k * np.array([exact(n, l) for l in range(1, 5)])
    vertex = run.estimate("V").mean[:, 0, 0, 0, 0]
    error = run.estimate("V").standard_error[:, 0, 0, 0, 0]
    if weights == "gaussian":
        assert (np.abs(vertex - expected) < 4.2 * error).all()
        with pytest.raises(AssertionError, match="standard errors away"):
            assert_agrees(run.estimate("V", l=2), 1.8 * expected[1])
    else:
        assert (np.abs(vertex - expected) < 4.2 * error + 1e-9).all()


@pytest.mark.slow
def test_vertex_of_several_inputs():
    """Gaussian linear, layer 2: V_(ab)(cd) = K_ac K_bd + K_ad K_bc for every choice of indices."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 6))
    run = run_ensemble(
        mlp("linear"),
        sigma_w=1,
        sigma_b=0.5,
        width=10,
        depth=2,
        networks=8000,
        inputs=x,
        quantities=("V",),
        sampler="lazy",
    )
    k = x @ x.T / 6 + 0.25
    expected = np.einsum("ac,bd->abcd", k, k) + np.einsum("ad,bc->abcd", k, k)
    found = run.estimate("V", l=2)
    assert found.mean.shape == (4, 4, 4, 4)
    assert_agrees(found, expected, 4.5)
    with pytest.raises(AssertionError, match="standard errors away"):
        assert_agrees(found, np.einsum("ab,cd->abcd", k, k) + np.einsum("ad,bc->abcd", k, k), 4.5)


RATES = (np.array([0.7, 1.3]), np.array([0.2, 0.4]))


@pytest.fixture(scope="module")
def linear():
    """Two layers, σ_w² = 1.44: K¹ = 1.44 Q0, Θ¹ = λ_b + λ_w Q0."""
    return run_ensemble(
        mlp("linear"),
        sigma_w=1.2,
        sigma_b=0,
        width=6,
        depth=2,
        networks=8000,
        input_norm=0.9,
        quantities=tuple("ABDFPQRSTU"),
        rates=RATES,
        keep_samples=False,
    )


@pytest.mark.slow
def test_tangent_correlators_of_linear_networks(linear):
    """By hand for z² = W z¹: H = δ (λ_b + λ_w |z|²/n) + Θ¹ W Wᵀ, dH_ijk = (λ_w/n) Θ¹ (δ_ij z_k + δ_ik z_j), …"""
    c, w, theta = 1.44, 1.3, 0.2 + 0.7 * 0.9
    k1 = c * 0.9
    k2 = c * k1
    expected = {
        "A": 2 * (w * k1) ** 2,
        "B": (theta * c) ** 2,
        "D": 2 * c * w * k1**2,
        "F": theta * c * c * k1,
        "P": 0.0,
        "Q": w * theta * k2,
        "R": 0.0,
        "S": w * theta**2 * c,
        "T": w * w * theta * k1,
        "U": 0.0,
    }
    for name, value in expected.items():
        first, second = (np.asarray(linear.estimate(name, l=l).mean).item() for l in (1, 2))
        error = np.asarray(linear.estimate(name, l=2).standard_error).item()
        assert abs(first) < 1e-9, "at layer 1 nothing fluctuates"
        assert abs(second - value) < 4.2 * error + 1e-12, name
        if value:
            assert abs(second - 1.25 * value) > 4.2 * error, f"control: {name}"


@pytest.mark.slow
def test_gradients_are_those_of_the_tangent_kernel():
    """E_u Σ_layers (scale² ‖∂S/∂w‖² + σ_b² |∂S/∂β|² + those of γ, β) is Θ^L, and G_z^l is J^{l,L}, in the mean."""
    sizes = {"sigma_w": 1.3, "sigma_b": 0.4, "width": 9, "depth": 4, "networks": 2000, "input_dimension": 5}
    block = Residual(Sequential((LayerNorm(), PHI, Dense())), "0.5")
    pulled = run_ensemble(block, quantities=("G_z", "G_w", "G_b"), probes=2, **sizes)
    exact = run_ensemble(block, quantities=("J", "Theta"), **sizes)
    fan_in = np.array([5, 9, 9, 9.0])
    theta = (pulled.samples["G_w"][:, :, 0] * 1.69 / fan_in + pulled.samples["G_b"][:, :, 0] * 0.16).sum(axis=1)
    theta += (pulled.samples["G_gamma"] + pulled.samples["G_beta"]).sum(axis=(1, 2))
    gap = theta - exact.samples["Theta"][:, -1]
    assert abs(gap.mean()) < 4 * gap.std() / math.sqrt(2000)
    wrong = theta - 1.05 * exact.samples["Theta"][:, -1]
    assert abs(wrong.mean()) > 4 * wrong.std() / math.sqrt(2000), "control"
    back = pulled.samples["G_z"][:, 0] - np.exp(exact.samples["log_J"][:, -1])
    assert abs(back.mean()) < 4 * back.std() / math.sqrt(2000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "block",
    [
        mlp("tanh"),
        mlp("gelu", mu=1, norm="pre"),
        Sequential((PHI, Pool(2), Dense())),
        mlp("sin", weights="orthogonal"),
        Residual(Sequential((LayerNorm(), Dense(expand=2), PHI, Dense())), "0.5", Dense()),
    ],
    ids=["plain", "norm in a skip", "pool", "orthogonal", "shortcut"],
)
def test_random_tangents_measure_theta(block):
    """The same networks with the exact kernel and with random parameter tangents."""
    sizes = {"sigma_w": 1.3, "sigma_b": 0.4, "width": 10, "depth": 4, "networks": 1500}
    exact = run_ensemble(block, quantities=("Theta",), **sizes).samples["Theta"]
    random = run_ensemble(block, quantities=("Theta",), probes=3, **sizes).samples["Theta"]
    gap = random - exact
    assert (np.abs(gap.mean(axis=0)) < 4.2 * gap.std(axis=0) / math.sqrt(1500)).all()
    wrong = random - 1.05 * exact
    assert (np.abs(wrong.mean(axis=0)) > 4.2 * wrong.std(axis=0) / math.sqrt(1500)).any(), "control"


@pytest.mark.slow
def test_jacobian_of_a_coupled_batch():
    """J of a network with BatchNorm is the mean over pairs of positions: probes against all unit vectors."""
    block = Residual(Sequential((BatchNorm(), PHI, Dense())), "0.5")
    sizes = {"sigma_w": 1.2, "sigma_b": 0.1, "width": 4, "depth": 3, "networks": 800, "batch": 3}
    random = run_ensemble(block, quantities=("J",), probes=2, **sizes).samples["log_J"]
    exact = run_ensemble(block, quantities=("J",), **sizes).samples["log_J"]
    gap = np.exp(random) - np.exp(exact)
    assert (exact[:, 0] == 0).all(), "one at the first layer, not the number of positions"
    assert (np.abs(gap.mean(axis=0)) <= 4 * gap.std(axis=0) / math.sqrt(800) + 1e-12).all()
    ratio = np.exp(random - exact)  # J itself has heavy tails; the probes of each network have mean 1
    error = ratio.std(axis=0) / math.sqrt(800)
    assert (np.abs(ratio.mean(axis=0) - 1) <= 4 * error + 1e-12).all()
    assert (np.abs(1.15 * ratio.mean(axis=0) - 1) > 4 * 1.15 * error).all(), "control"
    with pytest.raises(MeanFieldError, match="Theta of a network whose positions act on each other is measured with"):
        run_ensemble(block, quantities=("Theta",), **sizes)


@pytest.mark.fast_with("1.0")
@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_class_fractions_of_a_linear_classifier(ratio):
    """One layer on normal data: G_0 = Φ(√γ δ), γ = σ_b²/σ_w²; Var G_0 = arcsin(γ/(1 + γ))/2π, at γ = 1 uniform.

    [bias_and_trainability] Lemma D.4; finite batches add E p(1 − p)/batch to the variance.
    """
    batch, networks = 400, 2000
    run = run_ensemble(
        mlp("tanh"),
        sigma_w=1,
        sigma_b=math.sqrt(ratio),
        width=2,
        input_dimension=200,
        depth=1,
        networks=networks,
        batch=batch,
        quantities=("G0", "gamma"),
    )
    variance = math.asin(ratio / (1 + ratio)) / (2 * math.pi)
    second = 0.25 + variance + (0.25 - variance) / batch
    assert_agrees(run.estimate("G0"), 0.5)
    assert_agrees(run.estimate("G0_squared"), second)
    assert_agrees(run.estimate("G_max"), 0.5 + math.atan(math.sqrt(ratio)) / math.pi, 6)
    assert_agrees(run.estimate("gamma"), ratio)
    with pytest.raises(AssertionError, match="standard errors away"):
        assert_agrees(run.estimate("gamma"), 1.3 * ratio)


def test_correlation_of_two_inputs():
    run = run_ensemble(
        mlp("linear"),
        sigma_w=1,
        sigma_b=0,
        width=400,
        depth=3,
        networks=500,
        correlation=-0.4,
        quantities=("c", "gamma"),
        sampler="lazy",
    )
    assert_agrees(run.estimate("c", l=1), -0.4)
    assert_agrees(run.estimate("gamma", l=1), -0.4 / 1.4)
    with pytest.raises(AssertionError, match="standard errors away"):
        assert_agrees(run.estimate("c", l=1), -0.42)


POOLED = Sequential((Dense(expand=2), Nonlinearity("tanh"), Pool(2), Dense()))
REFUSED = [
    (mlp("tanh"), {"quantities": ("X",)}, "Unknown quantity 'X'; the choices are"),
    (mlp("tanh"), {"quantities": ("A",), "sampler": "lazy"}, "take sampler='explicit'"),
    (mlp("relu"), {"quantities": ("P",)}, "this network has an activation with a kink"),
    (POOLED, {"quantities": ("P",), "width": 6}, "this network has a pool with a kink"),
    (mlp("tanh", mu=1), {"quantities": ("R",), "batch": 4, "width": 26}, "N ≤ 25 for 4 inputs, but N = 26"),
    (mlp("tanh"), {"quantities": ("J",), "sampler": "lazy", "probes": 0}, "number of probes must be"),
    (mlp("tanh"), {"quantities": ("c",)}, "need several inputs"),
    (mlp("tanh"), {"quantities": ("G0",), "batch": 5, "classes": 9}, "classes must be from 2 to the smallest width"),
    (mlp("step"), {"quantities": ("G_z",)}, "an activation that jumps"),
    (mlp("tanh"), {"batch": 3, "correlation": 0.5}, "Give one of correlation=, batch= and inputs="),
    (mlp("tanh"), {"inputs": [[1.0, math.nan]]}, "must be finite numbers of shape"),
    (mlp("tanh"), {"inputs": np.ones((2, 3)), "input_dimension": 4}, "leave it out"),
    (mlp("tanh"), {"inputs": np.ones((2, 3)), "tokens": 3}, "no whole number of inputs"),
    (mlp("tanh"), {"quantities": ("V",), "batch": 9}, "for up to 8 inputs"),
    (mlp("tanh"), {"device": "tpu"}, "Unknown device 'tpu'; the choices are cpu, cuda"),
    (mlp("tanh"), {"quantities": ("V",), "width": 1}, "take a width of at least 2"),
    (mlp("tanh"), {"quantities": ("A",), "rates": (1,)}, "rates must be"),
]


@pytest.mark.parametrize(("block", "more", "message"), REFUSED)
def test_refusals(block, more, message):
    with pytest.raises(MeanFieldError, match=message):
        run_ensemble(block, **{"sigma_w": 1, "sigma_b": 0, "width": 6, "depth": 3, "networks": 4} | more)
