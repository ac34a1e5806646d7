"""The interpreter of architecture records against a direct NumPy reading, and its Jacobian against differences."""

import ast
import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import meanfield.empirical
from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.functions.reference_functions import pair_of
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.network.operations import operation_derivatives
from meanfield.empirical.network.program import operations
from meanfield.empirical.random import matrices
from meanfield.empirical.random.philox import normals
from meanfield.networks.records import Dense, LayerNorm, Nonlinearity, Param, Residual, Sequential, mlp

PHI = {"tanh": np.tanh, "sin": np.sin, "softsign": lambda x: x / (1 + np.abs(x)), "arctan": np.arctan}
TANH, SIN, SOFTSIGN, ARCTAN = (Nonlinearity(name) for name in PHI)
PLAIN = mlp("tanh")
SKIP = mlp("sin", mu=Fraction(1, 2))
COORDINATEWISE = Sequential((Residual(TANH, "0.25"), SIN, Dense(), SOFTSIGN))
NESTED = Residual(
    Sequential((SOFTSIGN, Residual(Sequential((Dense(), Residual(ARCTAN, 1))), "0.3"), Dense(), SIN)), Fraction(2, 3)
)
DEGENERATE = Sequential((Residual(Residual(Sequential(()), 1), "0.1"), TANH, Dense(), Dense()))
NORM = LayerNorm()
PRE, ACT = mlp("tanh", norm="pre"), mlp("sin", norm="act")
TWICE = Sequential((NORM, Residual(Sequential((TANH, NORM, Dense(), SIN)), "0.3"), NORM))
BLOCKS = {"plain": PLAIN, "skip": SKIP, "coordinatewise": COORDINATEWISE, "nested": NESTED, "degenerate": DEGENERATE}
NORMED = {
    "pre": PRE,
    "act": ACT,
    "pre inside a skip": Residual(PRE, "0.7"),
    "act inside a skip": Residual(ACT, "0.7"),
    "after a skip": Sequential((Residual(PLAIN, "0.7"), NORM)),
    "last": Sequential((SIN, Dense(), NORM)),
    "twice": TWICE,
}
BLOCKS |= NORMED
MU = {"mu": np.array([np.e, 0.2, 0.9, 0.0, 0.5]), "nu": 0.4}
SYMBOLIC = Residual(Sequential((TANH, Residual(Sequential((Dense(), Residual(SIN, "0.1"))), Param("nu")))), Param("mu"))
DEPTH, WIDTH, FAN_IN, SEED, INDEX = 5, 7, 4, 3, 11
SIGMA_W, SIGMA_B = np.linspace(1.1, 1.7, DEPTH), np.linspace(0.0, 0.4, DEPTH)
INPUTS = np.array([[1.0, -2.0, 0.5, 0.25], [0.3, 0.1, -1.0, 2.0]])


def _ensemble(block, **more):
    return Ensemble(block, SIGMA_W, SIGMA_B, WIDTH, DEPTH, FAN_IN, **more)


def _dense(y, layer, ordinal):
    fan_in = y.shape[0]
    w = normals(SEED, INDEX, layer, 2 * ordinal, WIDTH * fan_in).reshape(WIDTH, fan_in)
    b = normals(SEED, INDEX, layer, 2 * ordinal + 1, WIDTH)
    return SIGMA_W[layer - 1] / math.sqrt(fan_in) * (w @ y) + SIGMA_B[layer - 1] * b


def _plain_reading(block, y, layer, count):
    """The block applied to one vector; `count` is a list that holds how many Dense were met."""
    if isinstance(block, Nonlinearity):
        return PHI[block.activation](y)
    if isinstance(block, Dense):
        count[0] += 1
        return _dense(y, layer, count[0] - 1)
    if isinstance(block, Sequential):
        for inner in block.blocks:
            y = _plain_reading(inner, y, layer, count)
        return y
    if isinstance(block, LayerNorm):
        return (y - y.mean()) / y.std()
    mu = np.broadcast_to(MU[block.mu.name], DEPTH)[layer - 1] if isinstance(block.mu, Param) else float(block.mu)
    return _plain_reading(block.branch, y, layer, count) + mu * y


def _preactivations(block, z, first=1):
    """z^first is given; all layers from there on."""
    layers = [z]
    for layer in range(first + 1, DEPTH + 1):
        layers.append(_plain_reading(block, layers[-1], layer, [0]))
    return layers


@pytest.mark.parametrize("name", BLOCKS)
def test_layers_agree_with_a_plain_reading(name):
    expected = [_preactivations(BLOCKS[name], _dense(x, 1, 0)) for x in INPUTS]
    for layer, z, jacobian in _ensemble(BLOCKS[name]).network(SEED, INDEX).layers(INPUTS):
        assert jacobian is None
        for a in range(2):
            np.testing.assert_allclose(z[a], expected[a][layer - 1], rtol=1e-12, atol=1e-13)


def _jacobian_error(ensemble, block, l0):
    """Largest deviation of the pushed Jacobian from central differences of the plain reading, over all layers."""

    def onward(start):
        """All layers from l0 on; layer 0 is the input."""
        return [start, *_preactivations(block, _dense(start, 1, 0))] if l0 == 0 else _preactivations(block, start, l0)

    start = INPUTS[0] if l0 == 0 else _preactivations(block, _dense(INPUTS[0], 1, 0))[l0 - 1]
    h = 1e-5
    ahead = [onward(start + h * e) for e in np.eye(start.size)]
    behind = [onward(start - h * e) for e in np.eye(start.size)]
    worst = 0.0
    for layer, _, jacobian in ensemble.network(SEED, INDEX).layers(INPUTS, l0):
        if layer < l0:
            assert jacobian is None
            continue
        true = np.stack([(a[layer - l0] - b[layer - l0]) / (2 * h) for a, b in zip(ahead, behind)], axis=1)
        worst = max(worst, np.abs(jacobian - true).max())
    return worst


@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("l0", [0, 1, 3])
def test_jacobian_agrees_with_differences(name, l0):
    assert _jacobian_error(_ensemble(BLOCKS[name]), BLOCKS[name], l0) < 1e-8


def test_control_a_missing_derivative_is_seen():
    arctan = pair_of("arctan")
    wrong = {"arctan": ScalarPair(arctan.phi, pair_of("linear").dphi)}
    assert _jacobian_error(_ensemble(NESTED, activation_pairs=wrong), NESTED, 3) > 1e-3


@pytest.mark.parametrize("name", NORMED)
def test_control_a_missing_term_of_layer_norm_is_seen(name, monkeypatch):
    """Its derivative without the term − ŷ mean(ŷ dy): the scale is not differentiated."""

    def wrong(unit, spread, matrix, out):
        out[...] = (matrix - matrix.mean(axis=-1, keepdims=True)) / spread[: matrix.shape[1], None]

    monkeypatch.setattr(operation_derivatives, "_project", wrong)
    assert _jacobian_error(_ensemble(NORMED[name]), NORMED[name], 3) > 1e-3


def test_layer_norm_at_the_ends_of_the_doubles():
    """(y − mean)/sd is the same at every scale; a constant vector has none and gives NaN."""
    y = np.array([1.0, -2.0, 0.5, 4.0, 4.0])
    unit, out = (y - y.mean()) / y.std(), np.empty(5)
    for power in (-1000, -3, 0, 1020):
        assert operation_derivatives.normalize(np.ldexp(y, power), out) == pytest.approx(
            math.ldexp(y.std(), power), rel=1e-14
        )
        np.testing.assert_allclose(out, unit, rtol=1e-14)
    bad = [np.zeros(5), np.full(5, 0.1), 0.1 + 1e-17 * y, np.array([1.0, math.nan, 2.0]), np.array([1.0, math.inf])]
    for vector in bad:
        out = np.zeros_like(vector)
        with np.errstate(all="ignore"):
            assert math.isnan(operation_derivatives.normalize(vector, out)) and np.isnan(out).all()


def test_layer_norm_of_one_neuron():
    with pytest.raises(MeanFieldError, match=r"LayerNorm was asked for in a network of width 1, .* at least 2\."):
        Ensemble(PRE, 1, 0, 1, 3)
    assert Ensemble(PLAIN, 1, 0, 1, 3).width == 1


def test_weights_in_blocks_of_rows(monkeypatch):
    whole = list(_ensemble(NESTED).network(SEED, INDEX).layers(INPUTS, 1))[-1]
    monkeypatch.setattr(matrices, "_BLOCK_OF_WEIGHTS", 15)
    _, z, jacobian = list(_ensemble(NESTED).network(SEED, INDEX).layers(INPUTS, 1))[-1]
    np.testing.assert_allclose(z, whole[1], rtol=1e-12)
    np.testing.assert_allclose(jacobian, whole[2], rtol=1e-11, atol=1e-12)


def test_symbolic_skip_strength():
    block = mlp("tanh", mu=Param("mu"))
    with pytest.raises(MeanFieldError, match=r"needs a number for the skip strength mu.*give mu=\.\.\."):
        operations(block)
    with pytest.raises(MeanFieldError, match="skip strength mu must be finite and ≥ 0, but -1 was given"):
        operations(block, values={"mu": -1})
    half = operations(mlp("tanh", mu="0.5"))
    assert operations(block, values={"mu": Fraction(1, 2)}) == half == operations(block, values={"mu": 0.5})
    with pytest.raises(MeanFieldError, match="my is not a parameter of this network; it has mu"):
        operations(block, values={"mu": 0.5, "my": 0.5})


def test_skip_strength_per_layer():
    """Entry l − 1 is used for making layer l; a number in the record is not touched."""
    for l0 in (1, 3):
        assert _jacobian_error(_ensemble(SYMBOLIC, values=MU), SYMBOLIC, l0) < 1e-8
    shifted = MU | {"mu": np.roll(MU["mu"], 1)}
    assert _jacobian_error(_ensemble(SYMBOLIC, values=shifted), SYMBOLIC, 1) > 1e-2, "control: off by one layer"
    first = MU | {"mu": np.r_[7.0, MU["mu"][1:]]}
    assert _jacobian_error(_ensemble(SYMBOLIC, values=first), SYMBOLIC, 1) < 1e-8, "layer 1 has no skip"
    one = mlp("tanh", mu=Param("nu"))
    assert operations(one, values={"nu": 0.4}, depth=5) == operations(one, values={"nu": np.full(5, 0.4)}, depth=5)
    assert operations(mlp("tanh", mu="0.4"), depth=5) == operations(one, values={"nu": 0.4}, depth=5)
    with pytest.raises(MeanFieldError, match=r"nu must be one number or one per layer \(depth = 5\), but"):
        _ensemble(one, values={"nu": [0.1, 0.2]})
    with pytest.raises(MeanFieldError, match="skip strength nu must be finite and ≥ 0, but"):
        _ensemble(one, values={"nu": [0.1, 0.2, 0.3, 0.4, -0.5]})


def test_a_block_it_does_not_know():
    with pytest.raises(MeanFieldError, match=r"with 'dense'; .* Dense, Nonlinearity, "):
        operations("dense")


@pytest.mark.slow
def test_the_judge_does_not_import_the_accused():
    allowed = set(sys.stdlib_module_names) | {"numpy", "numba", "threadpoolctl", "lazy_loader", "matplotlib", "rich"}
    home = Path(meanfield.empirical.__file__).parent
    ground = "errors", "quantities", "encodings", "arguments", "budgets", "scalars", "checkpoints", "files", "words"
    ground += "progress", "leading", *(f"answers.{name}" for name in ("results", "arrays", "export", "drawing"))
    known = *(f"base.{name}" for name in ground), "networks.records", "networks.pooling", "networks.folds"
    known += ("networks.attention",)
    shared = tuple(f"meanfield.{name}" for name in known)
    read = set(known) - {"base.answers.results", "networks.records"}
    files = [*home.rglob("*.py"), *(home.parent / f"{name.replace('.', '/')}.py" for name in read)]
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0 and node.module != "meanfield"
                names.append(node.module)
            for name in names:
                own = name in shared or name.startswith("meanfield.empirical")
                assert own or name.split(".")[0] in allowed, f"{path.name} imports {name}"
