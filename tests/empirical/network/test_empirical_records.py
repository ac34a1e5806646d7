"""The records beyond the plain MLP against a direct NumPy reading; tangents and cotangents against differences."""

import math

import numpy as np
import pytest

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical import run_ensemble
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.network.operations import operation_derivatives
from meanfield.empirical.network.operations.weighted import Weighted, WeightedTokens
from meanfield.empirical.network.tangents_and_cotangents import Tangents
from meanfield.empirical.random.philox import normals
from meanfield.networks.folds import input_weights, parts, symbols_in
from meanfield.networks.records import (
    BatchNorm,
    Dense,
    Gate,
    LayerNorm,
    Nonlinearity,
    Param,
    Pool,
    Residual,
    Scale,
    Schedule,
    Sequential,
    mlp,
)

SEED, INDEX, DEPTH, INPUTS = 3, 11, 4, 3
PHI, NORM = Nonlinearity("tanh"), LayerNorm()
MU = {"sv": np.array([9.0, 0.7, 0.8, 0.9]), "nu": 0.4, "beta": 0.6, "M": np.array([9, 3, 2, 1.5])}
BLOCKS = {
    "batch norm": Sequential((PHI, BatchNorm(), Dense())),
    "batch norm inside a skip": Residual(Sequential((BatchNorm(), PHI, Dense())), "0.7"),
    "max": Sequential((PHI, Pool(2), Dense())),
    "average, a neuron left over": Sequential((PHI, Pool(5, "average"), Dense())),
    "layer scale": Residual(Sequential((PHI, Dense(), Scale("0.3"))), 1),
    "symbolic scale": Sequential((Scale(Param("nu")), PHI, Dense())),
    "two matrices": Residual(Sequential((Dense(sigma_w="nu"), PHI, Dense(sigma_w="sv", sigma_b=0))), 1),
    "schedules": Residual(Sequential((Dense(sigma_w=Schedule("sv", "beta")), PHI, Dense(sigma_b=Schedule(2, 1)))), 1),
    "shortcut": Residual(Sequential((Dense(expand=2), PHI, Dense())), "0.5", Dense(sigma_b=0)),
    "widths of the branch": Residual(Sequential((NORM, Dense(expand="M"), PHI, Dense())), "0.5"),
    "gate": Residual(
        Sequential((NORM, Gate("tanh", Dense(sigma_b="nu", expand="M"), Dense(sigma_w="sv", expand="M")), Dense())), 1
    ),
    "gate, norm, pool": Sequential((Gate("tanh"), LayerNorm(), Pool(2, "average"), Dense())),
    "orthogonal": mlp("tanh", weights="orthogonal"),
    "mixed": mlp("tanh", mu=1, weights="mixed"),
    "tokens": Sequential((PHI, Dense(axis="tokens"), Dense())),
    "mixer": Sequential(
        (
            Residual(Sequential((NORM, Dense(axis="tokens", expand=2), PHI, Dense(axis="tokens", expand=1))), 1),
            Residual(Sequential((NORM, Dense(expand=3), PHI, Dense())), 1),
        )
    ),
    "orthogonal tokens": Sequential((PHI, Dense("orthogonal", axis="tokens"), BatchNorm(), Dense("orthogonal"))),
}
TOKENS = {"tokens": 3, "mixer": 3, "orthogonal tokens": 2}


def _ensemble(name, **more):
    tokens, values = TOKENS.get(name, 1), {k: v for k, v in MU.items() if k in symbols_in(BLOCKS[name])}
    return Ensemble(BLOCKS[name], 1.3, 0.2, 12, DEPTH, 5, None, values, tokens=tokens, **more)


def _inputs(name, count=INPUTS):
    return np.random.default_rng(0).standard_normal((count * TOKENS.get(name, 1), 5))


class Reading:
    """Arrays of shape (inputs, tokens, neurons), one record after the other."""

    def __init__(self, name, width=12):
        self.name, self.width, self.tokens, self.count = name, width, TOKENS.get(name, 1), 0

    def value(self, number, layer):
        if isinstance(number, Param):
            given = {"sigma_w": 1.3, "sigma_b": 0.2}.get(number.name, MU.get(number.name))
            return float(np.broadcast_to(given, DEPTH)[layer - 1])
        if isinstance(number, Schedule):
            return self.value(number.value, layer) * (layer - 1) ** (-self.value(number.beta, layer) / 2)
        return float(number)

    def matrix(self, law, layer, ordinal, outputs, inputs):
        size, thin = max(outputs, inputs), min(outputs, inputs)
        if law == "gaussian":
            return normals(SEED, INDEX, layer, 2 * ordinal, outputs * inputs).reshape(outputs, inputs)
        q, r = np.linalg.qr(normals(SEED, INDEX, layer, 2 * ordinal, size * thin).reshape(size, thin))
        q = math.sqrt(size) * q * np.sign(np.diag(r))
        return q if outputs >= inputs else q.T

    def dense(self, record, y, layer, law=None):
        y = np.swapaxes(y, 1, 2) if record.axis == "tokens" else y
        basis = self.tokens if record.axis == "tokens" else self.width
        outputs, inputs = round(self.value(record.expand, layer) * basis), y.shape[-1]
        law = law or ("gaussian" if record.weights == "gaussian" else "orthogonal")
        w = self.matrix(law, layer, self.count, outputs, inputs)
        b = normals(SEED, INDEX, layer, 2 * self.count + 1, outputs)
        self.count += 1
        y = self.value(record.sigma_w, layer) / math.sqrt(inputs) * (y @ w.T) + self.value(record.sigma_b, layer) * b
        return np.swapaxes(y, 1, 2) if record.axis == "tokens" else y

    def apply(self, record, y, layer):
        match record:
            case Dense():
                return self.dense(record, y, layer)
            case Nonlinearity():
                return np.tanh(y)
            case LayerNorm():
                return (y - y.mean(axis=-1, keepdims=True)) / y.std(axis=-1, keepdims=True)
            case BatchNorm():
                return (y - y.mean(axis=(0, 1))) / y.std(axis=(0, 1))
            case Pool(size, kind):
                groups = [y[..., i : i + size] for i in range(0, y.shape[-1] - size + 1, size)]
                return np.stack([g.max(axis=-1) if kind == "max" else g.mean(axis=-1) for g in groups], axis=-1)
            case Gate("tanh", value, gate):
                u = self.dense(value, y, layer)
                return u * np.tanh(self.dense(gate, y, layer))
            case Scale(factor):
                return self.value(factor, layer) * y
            case Sequential(blocks):
                for inner in blocks:
                    y = self.apply(inner, y, layer)
                return y
            case Residual(branch, mu, shortcut):
                skip = y if shortcut is None else self.apply(shortcut, y, layer)
                return self.apply(branch, y, layer) + self.value(mu, layer) * skip

    def layers(self, x):
        block = BLOCKS[self.name]
        y = x.reshape(-1, self.tokens, x.shape[-1])
        y = self.dense(Dense(), y, 1, input_weights(block))
        found = [y]
        for layer in range(2, DEPTH + 1):
            self.count = 0
            found.append(self.apply(block, found[-1], layer))
        return [one.reshape(-1, one.shape[-1]) for one in found]


def assert_reads_alike(name, reading):
    x = _inputs(name)
    for (_, z), expected in zip(_ensemble(name).network(SEED, INDEX).run(x), reading.layers(x), strict=True):
        np.testing.assert_allclose(z, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", BLOCKS)
def test_layers_agree_with_a_plain_reading(name):
    assert_reads_alike(name, Reading(name))


@pytest.mark.parametrize("name", ["schedules", "shortcut", "mixer", "orthogonal"])
def test_control_a_wrong_reading_is_seen(name):
    class Wrong(Reading):
        def value(self, number, layer):
            return super().value(number, layer) * (1.01 if isinstance(number, Param | Schedule) else 1)

    with pytest.raises(AssertionError, match="Not equal to tolerance rtol=1e-11"):
        assert_reads_alike(name, Wrong(name))


def _pushed_and_pulled(name, sampler="explicit"):
    network = _ensemble(name, sampler=sampler).network(SEED, INDEX)
    x = _inputs(name)
    rng = np.random.default_rng(1)
    t = rng.standard_normal((2, *x.shape))
    carried, trace = Tangents(t.copy(), network.buffers), []
    for _ in network.run(x, [carried], trace, 2):
        pushed = carried.rows.copy()
    u = rng.standard_normal(pushed.shape)
    return t, pushed, u, list(network.pull(trace, u))


def _difference(name, direction, step=1e-5):
    x = _inputs(name)
    ahead, behind = (Reading(name).layers(x + sign * step * direction)[-1] for sign in (1, -1))
    return (ahead - behind) / (2 * step)


def assert_tangents(name):
    t, pushed, _, _ = _pushed_and_pulled(name)
    for k in range(2):
        expected = _difference(name, t[k])
        off = np.abs(pushed[k] - expected).max() / np.abs(expected).max()
        assert off < 1e-6, f"tangent {k} is off by {off:.1e}"


@pytest.mark.parametrize("name", BLOCKS)
def test_tangents_agree_with_differences(name):
    assert_tangents(name)


@pytest.mark.parametrize("name", ["batch norm", "max", "mixer", "gate"])
def test_control_a_missing_term_is_seen(name, monkeypatch):
    steps = {
        "batch norm": operation_derivatives.BatchProjection,
        "max": operation_derivatives.PoolDerivative,
        "mixer": WeightedTokens,
    }
    step = steps.get(name, operation_derivatives.Slope)
    right = step.push

    def wrong(self, rows, out):
        right(self, rows, out)
        out *= 1.001

    monkeypatch.setattr(step, "push", wrong)
    with pytest.raises(AssertionError, match=r"tangent . is off by"):
        assert_tangents(name)


@pytest.mark.parametrize("sampler", ["explicit", "lazy"])
@pytest.mark.parametrize("name", BLOCKS)
def test_cotangents_are_adjoint(name, sampler):
    t, pushed, u, pulled = _pushed_and_pulled(name, sampler)
    assert [layer for layer, derivative, _ in pulled if derivative is None] == list(range(DEPTH, -1, -1))
    left, right = (u * pushed).sum(axis=(1, 2)), (pulled[-1][2] * t).sum(axis=(1, 2))
    np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-13 * np.abs(u).sum() * np.abs(pushed).max())


@pytest.mark.fast_with("batch norm", "orthogonal")
@pytest.mark.parametrize("name", ["two matrices", "mixer", "batch norm", "shortcut", "gate", "orthogonal"])
def test_parameter_gradients_agree_with_differences(name):
    """‖∂S/∂w‖² and |∂S/∂β|² of every Dense, S = u·z^L: each entry of w and β is moved by hand."""
    _, _, u, pulled = _pushed_and_pulled(name)
    for layer in (1, DEPTH):
        steps = [(d, one) for l, d, one in pulled if l == layer and isinstance(d, Weighted | WeightedTokens)][::-1]
        whole = [found for found in _ensemble(name).network(SEED, INDEX).gradients(_inputs(name), u[0])]
        whole = [(w, b) for l, w, b in whole if l == layer and w.ndim == 2]
        for ordinal, (derivative, cotangents) in enumerate(steps):
            found = derivative.gradient_norms(cotangents[0])
            expected = _gradient_by_differences(name, layer, ordinal, u[0])
            np.testing.assert_allclose(found, expected, rtol=1e-5)
            np.testing.assert_allclose(found, [np.square(one).sum() for one in whole[ordinal]], rtol=1e-12)


def test_products_with_the_jacobian():
    for name in ("mixer", "batch norm", "shortcut"):
        t, pushed, u, pulled = _pushed_and_pulled(name)
        network = _ensemble(name).network(SEED, INDEX)
        z, forward = network.jvp(_inputs(name), t)
        again, back = network.vjp(_inputs(name), u)
        assert (z == again).all() and (forward == pushed).all() and (back == pulled[-1][2]).all()


def _gradient_by_differences(name, layer, ordinal, u):
    class Moved(Reading):
        def dense(self, record, y, at, law=None):
            here = at == layer and self.count == ordinal
            new = super().dense(record, y, at, law)
            if not here:
                return new
            y, new = (np.swapaxes(one, 1, 2) if record.axis == "tokens" else one for one in (y, new))
            self.shape = new.shape[-1], y.shape[-1]
            if self.entry is not None:
                i, j = self.entry
                new = new.copy()
                new[..., i] += self.step * (1.0 if j is None else y[..., j])
            return np.swapaxes(new, 1, 2) if record.axis == "tokens" else new

    def value(entry, step):
        reading = Moved(name)
        reading.entry, reading.step = entry, step
        total = (reading.layers(_inputs(name))[-1] * u).sum()
        return total, reading.shape

    _, (outputs, inputs) = value(None, 0.0)
    h = 1e-5

    def slope(entry):
        return (value(entry, h)[0] - value(entry, -h)[0]) / (2 * h)

    weights = sum(slope((i, j)) ** 2 for i in range(outputs) for j in range(inputs))
    return weights, sum(slope((i, None)) ** 2 for i in range(outputs))


# ---------------------------------------------------------------------------------------------------- refusals


def test_what_a_record_refuses():
    cases = [
        (lambda: Dense("haar"), "Unknown weights 'haar': did you mean 'orthogonal'"),
        (lambda: Dense(axis="heads"), "Unknown axis 'heads'; the choices are neurons, tokens"),
        (lambda: Dense(sigma_w=-1), "sigma_w of a Dense must be ≥ 0"),
        (lambda: Dense(expand=0), "expand of a Dense must be > 0"),
        (lambda: Gate("silu", "tanh"), "The value of a Gate is a Dense"),
        (lambda: Gate("silu", gate=Dense(axis="tokens")), "The gate of a Gate mixes neurons, but a Dense over tokens"),
        (lambda: Gate("silu", Dense(expand=2)), "its value has expand = 2 and its gate 1"),
        (lambda: Gate(3), "activation's name, a formula or a record"),
        (lambda: Pool(0), "number of neurons of a Pool must be a whole number"),
        (lambda: Pool(2, "median"), "kind='median'"),
        (lambda: Scale(-1), "factor of a Scale must be ≥ 0"),
        (lambda: Residual(PHI, -1), "skip strength mu must be ≥ 0"),
    ]
    for call, message in cases:
        with pytest.raises(MeanFieldError, match=message):
            call()


@pytest.mark.parametrize(
    ("block", "more", "message"),
    [
        (Sequential((PHI, Dense(expand="0.3"))), {"width": 7}, "makes 2.1 of 7 neurons at layer 2"),
        (Sequential((PHI, Pool(9), Dense())), {"width": 8}, "A Pool of 9 neurons meets 8 at layer 2"),
        (mlp("tanh", mu=1), {"width": [4, 5, 5]}, "A skip adds 1 × 4 .* where 1 × 5 are wanted at layer 2"),
        (Sequential((PHI, Pool(2))), {"width": 8}, "The block makes 1 × 4 .* where 1 × 8 are wanted at layer 2"),
        (mlp("tanh"), {"width": [4, 5]}, r"one per layer \(depth = 3\), but 2 were given"),
        (mlp("tanh"), {"sampler": "magic"}, "Unknown sampler 'magic'; the choices are explicit, lazy"),
        (Sequential((Dense(sigma_w="sv"), PHI, Dense())), {}, "needs a number for the standard deviation sv"),
    ],
)
def test_what_does_not_fit(block, more, message):
    with pytest.raises(MeanFieldError, match=message):
        run_ensemble(block, **{"sigma_w": 1, "sigma_b": 0, "width": 6, "depth": 3, "networks": 2} | more)


def test_parts_and_the_law_of_the_input_layer():
    block = Residual(Sequential((PHI, Dense("orthogonal"))), 1, Dense("mixed"))
    assert list(parts(block)) == [Dense("mixed"), PHI, Dense("orthogonal")]
    assert input_weights(block) == "gaussian" and input_weights(block.branch) == "orthogonal"
    assert input_weights(mlp("tanh")) == input_weights(mlp("tanh", weights="mixed")) == "gaussian"
