"""Networks that keep their parameters: gradients against differences, one step of gradient descent against their own
tangent kernel, gains, and what they refuse."""

import numpy as np
import pytest

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical import Ensemble, draw_network, number_of_parameters
from meanfield.empirical.network.operations import operation_derivatives, weighted
from meanfield.empirical.network.tangents_and_cotangents import TangentKernel, Tangents
from meanfield.networks.records import (
    AffineNorm,
    BatchNorm,
    Dense,
    Gate,
    LayerNorm,
    Nonlinearity,
    Pool,
    Projection,
    Residual,
    Scale,
    Sequential,
    mlp,
)

PHI, NORM, GAINED = Nonlinearity("tanh"), LayerNorm(), AffineNorm()
MIXER = Sequential(
    (
        Residual(Sequential((NORM, Dense(axis="tokens", expand=2), PHI, Dense(axis="tokens"))), 1),
        Residual(Sequential((NORM, Dense(expand=2), PHI, Dense(), Scale("0.4"))), "0.7"),
    )
)
BLOCKS = {
    "plain": mlp("tanh"),
    "norms": Residual(Sequential((NORM, PHI, Dense(), NORM)), "0.5"),
    "affine": Sequential((PHI, GAINED, Dense(sigma_b=0), GAINED)),
    "batch norm": Residual(Sequential((BatchNorm(), PHI, Dense())), "0.7"),
    "pools": Sequential((Dense(expand=6), PHI, Pool(2, "average"), Pool(3), Dense())),
    "formula": Sequential((Dense(expand=2), Pool(2, "z1*sigmoid(z2)"), Dense())),
    "shortcut": Residual(Sequential((Dense(expand=2), PHI, Scale("0.8"), Dense())), "0.5", Dense(sigma_b="0.3")),
    "projection": Residual(Sequential((PHI, Dense())), 1, Projection()),
    "gate": Residual(Sequential((NORM, Gate("silu"), Dense())), 1),
    "orthogonal": mlp("tanh", mu=1, weights="orthogonal"),
    "tokens": MIXER,
}
TOKENS = {"tokens": 3}
WIDTHS = {"projection": [6, 8, 5]}


def _network(name, **more):
    given = {"sigma_w": 1.3, "sigma_b": 0.4, "width": WIDTHS.get(name, 6), "depth": 3, "seed": 4, "index": 2}
    return draw_network(BLOCKS[name], **given | {"tokens": TOKENS.get(name, 1), "input_dimension": 4} | more)


def _inputs(name, count=3):
    return np.random.default_rng(1).standard_normal((count * TOKENS.get(name, 1), 4))


def _cotangent(z):
    return np.random.default_rng(2).standard_normal(z.shape)


def gap(name):
    """The largest error of ∂S/∂θ along a random direction of each parameter, relative to the norm of its gradient."""
    network, x, rng = _network(name), _inputs(name), np.random.default_rng(3)
    u = _cotangent(network.forward(x))
    gradients, worst, h = network.gradients(x, u), 0.0, 2e-3
    for parameter, value in network.parameters.items():
        for _ in range(2):
            along = rng.standard_normal(value.shape)
            along /= np.linalg.norm(along)

            def moved(step, parameter=parameter, along=along):
                return float((network.moved({parameter: along}, step).forward(x) * u).sum())

            slope = (8 * (moved(h) - moved(-h)) - (moved(2 * h) - moved(-2 * h))) / (12 * h)
            size = max(np.linalg.norm(gradients[parameter]), 1e-3)
            worst = max(worst, abs(slope - float((gradients[parameter] * along).sum())) / size)
    return worst


@pytest.mark.slow_with("formula", "tokens")
@pytest.mark.parametrize("name", BLOCKS)
def test_gradients_equal_central_differences(name):
    """By W, b, γ and β: to 1e-7 (measured 4e-10 and less)."""
    assert gap(name) < 1e-7
    names = {one.name for one in _network(name).parameters}
    assert names >= {"W", "b"} and ("gamma" in names) == (name in ("norms", "affine", "batch norm", "gate", "tokens"))


@pytest.mark.parametrize(
    ("name", "owner", "factor"),
    [
        ("plain", weighted.Weighted, 1 + 1e-6),
        ("tokens", weighted.WeightedTokens, 1 + 1e-6),
        ("norms", operation_derivatives.LayerNormDerivative, 1 - 1e-6),
        ("batch norm", operation_derivatives.BatchProjection, 1 + 1e-6),
    ],
)
def test_control_a_gradient_off_by_a_millionth_is_seen(name, owner, factor, monkeypatch):
    right = owner.gradient
    monkeypatch.setattr(owner, "gradient", lambda self, u: tuple(factor * one for one in right(self, u)))
    assert gap(name) > 1e-7


def _step_errors(name, spoil=None):
    """Of z(θ − η ∂L/∂θ) − z(θ) = −η Θ ∂L/∂z, L = |z − t|²/2: the error at η, η/2, η/4, relative to the step at η."""
    network, x = _network(name), _inputs(name)
    z = network.forward(x)
    loss = z - np.random.default_rng(5).standard_normal(z.shape)
    theta = network.tangent_kernel(x) if spoil is None else spoil(network.tangent_kernel(x))
    gradients, first = network.gradients(x, loss), np.einsum("piqj,qj->pi", theta, loss)
    eta = 1e-3 / np.abs(first).max()
    errors = []
    for step in (eta, eta / 2, eta / 4):
        change = network.moved(gradients, -step).forward(x) - z
        errors.append(np.linalg.norm(change + step * first) / np.linalg.norm(eta * first))
    return errors


@pytest.mark.slow_with("formula")
@pytest.mark.parametrize("name", BLOCKS)
def test_one_step_of_gradient_descent_moves_outputs_by_the_tangent_kernel(name):
    """The error falls as η²; one that is linear in η, from a wrong Θ, halves."""
    errors = _step_errors(name)
    assert errors[0] < 2e-2
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.05) and errors[1] / errors[2] == pytest.approx(4, rel=0.05)
    wrong = _step_errors(name, lambda theta: 1.001 * theta)
    assert wrong[1] / wrong[2] < 3, "control: Θ 0.1 % too large"


@pytest.mark.parametrize("name", BLOCKS)
def test_it_is_the_network_that_an_ensemble_measures(name):
    network, x = _network(name), _inputs(name)
    drawn = network.ensemble.network(4, 2)
    for (_, expected), z in zip(drawn.run(x), network.layers(x), strict=True):
        np.testing.assert_allclose(z, expected, rtol=1e-12, atol=1e-13)
    if not network.ensemble.couples:
        alone, kernel = network.tangent_kernel(x[:1])[0, :, 0, :], TangentKernel()
        for layer, _, _ in drawn.layers(x[:1], None, kernel):
            if layer == 3:
                np.testing.assert_allclose(alone, kernel.matrix, rtol=1e-11, atol=1e-12)


def test_gains_are_factors_of_the_deviations_while_it_runs():
    network, x = _network("shortcut"), _inputs("shortcut")
    assert network.gain_w.shape == (3, 3)
    bias = network.layers(x)[0] - _network("shortcut", sigma_b=0).layers(x)[0]
    twice = network.with_gains(gain_w=2.0, gain_b=[[1, 1, 3]] * 3)
    np.testing.assert_allclose(twice.layers(x)[0], 2 * network.layers(x)[0] + bias, rtol=1e-12, atol=1e-13)
    plain = Residual(
        Sequential((Dense(sigma_w="2.6", expand=2), PHI, Scale("0.8"), Dense(sigma_w="2.6"))),
        "0.5",
        Dense(sigma_w="2.6", sigma_b="0.3"),
    )
    first = draw_network(plain, sigma_w=2.6, sigma_b=0.4, width=6, depth=3, seed=4, index=2, input_dimension=4)
    np.testing.assert_allclose(network.with_gains(gain_w=2.0).forward(x), first.forward(x), rtol=1e-12)
    run = network.with_gains()
    passed = []
    for layer, z in run.network.run(x):  # one pass that changes the gains ahead of it
        passed.append(z)
        if layer < 3:
            run.gain_w[layer] = 2.0
    expected = network.with_gains(gain_w=[[1.0] * 3, [2.0] * 3, [2.0] * 3]).forward(x)
    np.testing.assert_array_equal(passed[-1], expected)


def test_tangents_and_cotangents_of_a_stored_network():
    network, x = _network("norms"), _inputs("norms")
    moved = network.moved({name: 0.1 * value for name, value in network.parameters.items()})  # γ is 1.1, β is 0
    t = np.random.default_rng(6).standard_normal((1, *x.shape))
    pushed = Tangents(t.copy(), moved.network.buffers)
    for _, z in moved.network.run(x, [pushed]):
        last = z, pushed.rows.copy()
    h = 1e-5
    expected = (moved.forward(x + h * t[0]) - moved.forward(x - h * t[0])) / (2 * h)
    np.testing.assert_allclose(last[1][0], expected, rtol=1e-6, atol=1e-8)
    cotangent = np.random.default_rng(7).standard_normal(last[0].shape)
    _, pulled = moved.network.vjp(x, cotangent[None])
    assert (cotangent * last[1][0]).sum() == pytest.approx((pulled[0] * t[0]).sum(), rel=1e-12)


def test_what_it_refuses():
    network = _network("plain")
    x = _inputs("plain")
    with pytest.raises(MeanFieldError, match=r"A change of shape \(2,\) was given for the parameter"):
        network.moved({(1, 0, "W"): [1.0, 2.0]})
    with pytest.raises(MeanFieldError, match="no such parameter"):
        network.moved({(9, 0, "W"): [1.0]})
    with pytest.raises(MeanFieldError, match=r"Gains must be finite numbers that fit \(3, 1\)"):
        network.with_gains(gain_w=np.ones((5, 5)))
    with pytest.raises(MeanFieldError, match="A cotangent has the shape"):
        network.gradients(x, np.ones(3))
    with pytest.raises(MeanFieldError, match="input_dimension=4 was given with inputs of 7"):
        network.forward(np.ones((2, 7)))
    with pytest.raises(MeanFieldError, match="sigma_w"):
        draw_network(mlp("tanh"), sigma_w=-1, sigma_b=0, width=4, depth=3)
    with pytest.raises(MeanFieldError, match="parameters of a network of 3 layers"):
        draw_network(mlp("tanh"), sigma_w=1, sigma_b=0, width=10**6, depth=3)
    assert isinstance(network.ensemble, Ensemble)


@pytest.mark.parametrize("name", BLOCKS)
def test_number_of_parameters_is_that_of_a_drawn_network(name):
    """Weights, biases, gains; without biases; control: one neuron more."""
    sizes = {"width": 12, "depth": 3, "input_dimension": 7, "tokens": 4}
    held = draw_network(BLOCKS[name], sigma_w=1, sigma_b=1, **sizes).parameters
    assert number_of_parameters(BLOCKS[name], **sizes) == sum(one.size for one in held.values())
    bare = sum(one.size for key, one in held.items() if key.name != "b")
    assert number_of_parameters(BLOCKS[name], biases=False, **sizes) == bare
    assert number_of_parameters(BLOCKS[name], **(sizes | {"input_dimension": 8})) > sum(
        one.size for one in held.values()
    )


def test_number_of_parameters_by_hand():
    """A perceptron; a mixer of T tokens and n neurons: 4T² + 4n², its biases, gains and shifts of two norms."""
    assert number_of_parameters(mlp("relu"), width=[5, 6, 2], depth=3, input_dimension=3) == 4 * 5 + 6 * 6 + 7 * 2
    T, n = 4, 12
    block = 4 * T * T + 3 * T + 4 * n * n + 3 * n + 2 * 2 * n
    assert number_of_parameters(MIXER, width=n, depth=2, tokens=T) == n * n + n + block
    with pytest.raises(MeanFieldError, match="biases must be True or False, but 1 was given"):
        number_of_parameters(MIXER, width=n, depth=2, tokens=T, biases=1)
