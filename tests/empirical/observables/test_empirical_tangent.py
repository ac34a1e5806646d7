"""The tangent kernel of finite networks: against differences over every parameter, and against infinite width."""

import math

import numpy as np
import pytest

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical import run_ensemble
from meanfield.empirical.network import tangents_and_cotangents
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.network.tangents_and_cotangents import TangentKernel
from meanfield.empirical.random.philox import normals
from meanfield.networks.folds import symbols_in
from meanfield.networks.records import Dense, LayerNorm, Nonlinearity, Param, Residual, Sequential, mlp

PHI = {"tanh": np.tanh, "sin": np.sin}
TANH, SIN, NORM, FIXED = Nonlinearity("tanh"), Nonlinearity("sin"), LayerNorm(), LayerNorm(affine=False)
INNER = Residual(Sequential((SIN, Dense(), Residual(Sequential((NORM, TANH, Dense())), "0.4"), NORM)), "0.6")
BLOCKS = {
    "plain": mlp("tanh"),
    "skip": mlp("tanh", mu=Param("mu")),
    "pre": mlp("tanh", norm="pre"),
    "act inside a skip": mlp("sin", mu="0.7", norm="act"),
    "norm after a skip": Sequential((mlp("sin", mu="0.7"), NORM)),
    "two dense": Residual(Sequential((TANH, Dense(), SIN, Dense())), 1),
    "dense before a skip": Sequential((Dense(), INNER, TANH, Residual(TANH, "0.3"))),
    "fixed norms": Sequential((FIXED, TANH, Dense(), FIXED)),
    "no parameters": Residual(Residual(SIN, "0.5"), "0.25"),
}
DEPTH, WIDTH, FAN_IN, SEED = 4, 5, 3, 2
SIGMA_W, SIGMA_B, MU = np.linspace(1.1, 1.6, DEPTH), np.linspace(0.4, 0.1, DEPTH), np.array([9.0, 0.5, 0.2, 0.8])
X = np.array([1.0, -2.0, 0.5])


class Reader:
    """A plain reading of a block in which one parameter may be moved: `moved` = (layer, number of the module with
    parameters, name, index, by how much)."""

    def __init__(self, block):
        self.block, self.shapes = block, {}

    def __call__(self, moved=None):
        self.moved, z, layers = moved, X, []
        for layer in range(1, DEPTH + 1):
            self.layer, self.dense, self.modules = layer, 0, 0
            z = self.apply(self.block if layer > 1 else Dense(), z)
            layers.append(z)
        return np.array(layers)

    def value(self, name, value):
        key = self.layer, self.modules, name
        self.shapes[key] = value.shape
        if self.moved is not None and self.moved[:3] == key:
            value[self.moved[3]] += self.moved[4]
        return value

    def apply(self, block, y):
        match block:
            case Nonlinearity(name):
                return PHI[name](y)
            case Sequential(blocks):
                for inner in blocks:
                    y = self.apply(inner, y)
                return y
            case Residual(branch, mu):
                return self.apply(branch, y) + (MU[self.layer - 1] if isinstance(mu, Param) else float(mu)) * y
            case LayerNorm(affine):
                gain, shift = np.ones(WIDTH), np.zeros(WIDTH)
                if affine:
                    self.modules += 1
                    gain, shift = self.value("gamma", gain), self.value("beta", shift)
                return gain * (y - y.mean()) / y.std() + shift
        role, fan_in = 2 * self.dense, y.size
        self.dense += 1
        self.modules += 1
        w = self.value("W", normals(SEED, 0, self.layer, role, WIDTH * fan_in).reshape(WIDTH, fan_in))
        b = self.value("b", normals(SEED, 0, self.layer, role + 1, WIDTH))
        return SIGMA_W[self.layer - 1] / math.sqrt(fan_in) * (w @ y) + SIGMA_B[self.layer - 1] * b


def _by_differences(block):
    """Θ for every layer as a matrix, each parameter moved by ±h."""
    reader, h = Reader(block), 1e-5
    reader()
    theta = np.zeros((DEPTH, WIDTH, WIDTH))
    for key, shape in list(reader.shapes.items()):
        for index in np.ndindex(shape):
            slope = (reader((*key, index, h)) - reader((*key, index, -h))) / (2 * h)
            theta += slope[:, :, None] * slope[:, None, :]
    return theta


def _error(block):
    """Largest relative deviation of the pushed matrices from those by differences."""
    values = {"mu": MU} if "mu" in symbols_in(block) else {}
    ensemble = Ensemble(block, SIGMA_W, SIGMA_B, WIDTH, DEPTH, FAN_IN, values=values)
    tangent, worst = TangentKernel(), 0.0
    layers = ensemble.network(SEED, 0).layers(X[None, :], 0, tangent)
    for (_, _, jacobian), true in zip(layers, _by_differences(block)):
        worst = max(worst, np.abs(tangent.matrix - true).max() / np.abs(true).max())
        mean = np.trace(true) / WIDTH
        assert tangent.mean == pytest.approx(mean, rel=1e-8), f"the mean is {tangent.mean}, not {mean}"
        assert jacobian.shape == (WIDTH, FAN_IN)
    return worst


@pytest.mark.slow_with("dense before a skip")
@pytest.mark.parametrize("name", BLOCKS)
def test_against_differences_over_every_parameter(name):
    assert _error(BLOCKS[name]) < 1e-8


def test_control_the_kernel_with_the_vector_saved_is_needed(monkeypatch):
    """Without it a skip adds two kernels as if they were independent; nothing else changes."""

    def wrong(first, factor, second, out):
        out[...] = first

    monkeypatch.setattr(tangents_and_cotangents, "_add_with_transpose", wrong)
    assert _error(BLOCKS["plain"]) < 1e-8
    for name in ("skip", "act inside a skip", "norm after a skip", "two dense", "dense before a skip"):
        with pytest.raises(AssertionError, match="the mean is"):
            _error(BLOCKS[name])


def test_gain_and_shift_are_parameters_only_if_trained():
    """They change no preactivation; Θ is smaller without them."""
    arguments = {"sigma_w": 1.2, "sigma_b": 0.3, "width": 20, "depth": 3, "networks": 2, "theta": True}
    blocks = [Sequential((LayerNorm(affine), TANH, Dense())) for affine in (True, False)]
    trained, fixed = (run_ensemble(block, **arguments) for block in blocks)
    assert (trained.samples["K"] == fixed.samples["K"]).all()
    assert (trained.samples["log_J"] == fixed.samples["log_J"]).all()
    assert (trained.samples["Theta"][:, 0] == fixed.samples["Theta"][:, 0]).all()
    assert (trained.samples["Theta"][:, 1:] > fixed.samples["Theta"][:, 1:] + 0.1).all()


def test_same_bits_with_and_without_the_jacobian_and_for_any_threads():
    arguments = {"sigma_w": 1.2, "sigma_b": 0.3, "width": 33, "depth": 4, "networks": 5, "seed": 4, "theta": True}
    block = BLOCKS["dense before a skip"]
    both = run_ensemble(block, threads=2, correlation=0.3, **arguments)
    alone = run_ensemble(block, threads=1, jacobian=False, **arguments)
    assert alone.quantities == ("K", "Theta") and alone.layers("Theta").tolist() == [1, 2, 3, 4]
    assert (both.samples["Theta"] == alone.samples["Theta"]).all()
    with pytest.raises(MeanFieldError, match="Unknown quantity of this ensemble 'Theta'; the choices are K, J"):
        run_ensemble(block, **(arguments | {"theta": False})).estimate("Theta")
    with pytest.raises(MeanFieldError, match="Theta was asked for an activation that jumps"):
        run_ensemble(mlp("step"), jacobian=False, **arguments)


# Θ⁵ at infinite width, (σ_w², σ_b²) = (1.7, .3), |x|²/N_0 = 1, for erf, GELU, ReLU; by (norm, μ).
WIDE = {
    ("none", 0): (5.1407, 6.0951, 7.4173),
    ("pre", 0): (8.2839, 8.0306, 8.0076),
    ("act", 0): (34.3873, 31.6274, 35.8322),
    ("none", "0.7"): (10.3417, 25.5420, 27.0844),
    ("pre", "0.7"): (10.0230, 10.4120, 10.6999),
    ("pre", 1): (18.1914, 19.3967, 20.1111),
}


@pytest.mark.slow
@pytest.mark.parametrize("norm, mu", WIDE)
def test_infinite_width(norm, mu):
    """2 Θ(N) − Θ(N/2) has no term in 1/N; each half of it is an average over its own networks."""
    for activation, predicted in zip(("erf", "gelu", "relu"), WIDE[norm, mu]):
        wide, narrow = (
            run_ensemble(
                mlp(activation, mu, norm=norm),
                sigma_w=math.sqrt(1.7),
                sigma_b=math.sqrt(0.3),
                width=width,
                depth=5,
                networks=100,
                first_network=width,
                seed=3,
                jacobian=False,
                theta=True,
            ).estimate("Theta", l=5)
            for width in (300, 150)
        )
        error = math.hypot(2 * wide.standard_error, narrow.standard_error)
        assert error < 0.05 * predicted
        limit = 2 * wide.mean - narrow.mean
        assert abs(limit - predicted) <= 4 * error, activation
        published = {("pre", 0): 7.179, ("pre", "0.7"): 7.827}.get((norm, mu))
        if activation == "erf" and published is not None:
            assert abs(limit - published) > 4 * error, "control: a wrong value from the literature"
