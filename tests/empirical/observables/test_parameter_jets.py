"""Differentials of the tangent kernel through any operation, by jets: against differences of gradients, which are taken
back by other code, and against the tensors pushed through Dense(φ(z)); jets themselves against SymPy."""

from itertools import product

import numpy as np
import pytest
import sympy

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical import Ensemble, draw_network, run_ensemble
from meanfield.empirical.functions.groups import group_jet
from meanfield.empirical.functions.jets import _TOWERS as TOWERS
from meanfield.empirical.functions.jets import Jet, matmul
from meanfield.empirical.network.operations import operations
from meanfield.empirical.observables.differentials import Differentials
from meanfield.empirical.observables.jet_kernels import layer_tensors, network_tensors
from meanfield.networks.records import Dense, Nonlinearity, Pool, Residual, Scale, Sequential, mlp
from tests.empirical.network.test_stored_networks import BLOCKS, TOKENS

SMOOTH = BLOCKS | {"pools": Sequential((Dense(expand=6), Nonlinearity("tanh"), Pool(3, "average"), Dense()))}


def _moved_gradients(network, x, order):
    """∂z_i/∂θ of all neurons i of all positions, the parameters in a row, and a function of where they are."""
    names, z = list(network.parameters), network.forward(x)

    def at(step):
        place, change = 0, {}
        for name in names:
            value = network.parameters[name]
            change[name] = step[place : place + value.size].reshape(value.shape)
            place += value.size
        there, rows = network.moved(change), []
        for one in np.eye(z.size).reshape(-1, *z.shape):
            found = there.gradients(x, one)
            rows.append(np.concatenate([found[name].ravel() for name in names]))
        return np.array(rows)

    return at, at(np.zeros(sum(one.size for one in network.parameters.values())))


def by_differences(network, x):
    """(H, dH, ddI, ddII) of the last layer over all neurons of all positions in a row: stencils of sixth and fourth
    order along the gradients."""
    at, g = _moved_gradients(network, x, 3)
    size = len(g)
    lengths = np.linalg.norm(g, axis=1)
    along, h = g / lengths[:, None], 2e-3
    six = ((1, 45), (2, -9), (3, 1))
    steep = [sum(w * (at(m * h * d) - at(-m * h * d)) for m, w in six) / (60 * h) for d in along]
    psi = np.array(steep) * lengths[:, None, None]  # k, i, parameter
    dH, ddII = np.einsum("kic,jc->ijk", psi, g), np.einsum("kic,ljc->ijkl", psi, psi)
    ddI, h = np.empty((size,) * 4), 1.5e-3
    four = ((1, 8), (2, -1), (-1, -8), (-2, 1))
    for k, l in product(range(size), repeat=2):
        if k <= l:
            bent = sum(v * w * at(h * (m * along[k] + n * along[l])) for (m, v), (n, w) in product(four, four))
            ddI[:, :, k, l] = ddI[:, :, l, k] = bent / (12 * h) ** 2 * lengths[k] * lengths[l] @ g.T
    return g @ g.T, dH, ddI, ddII


def flattened(tensor):
    """T[α, β, …, i, j, …] over neurons of all positions in a row."""
    count = tensor.ndim // 2
    order = [axis for k in range(count) for axis in (k, count + k)]
    size = tensor.shape[0] * tensor.shape[-1]
    return tensor.transpose(order).reshape((size,) * count)


def assert_differentials(network, x):
    """Raises where a tensor of the last layer is not what differences give; returns the largest error."""
    *_, (_, t) = network_tensors(network.network, x, 3)
    worst = 0.0
    bounds = {"H": 1e-12, "dH": 1e-8, "ddI": 1e-6, "ddII": 1e-8}
    for (name, bound), expected in zip(bounds.items(), by_differences(network, x)):
        found = flattened(getattr(t, name))
        error = np.abs(found - expected).max() / np.abs(expected).max()
        assert error < bound, f"{name}: {error:.1e}"
        worst = max(worst, error)
    return worst


def _stored(name, width=3, seed=4):
    """With γ and β that are not what they start from."""
    network = draw_network(
        SMOOTH[name],
        sigma_w=1.3,
        sigma_b=0.4,
        width=width,
        depth=3,
        seed=seed,
        tokens=min(TOKENS.get(name, 1), 2),
        input_dimension=3,
    )
    draw = np.random.default_rng(5)
    return network.moved({k: 0.2 * draw.standard_normal(v.shape) for k, v in network.parameters.items()})


def _inputs(count=2):
    return np.random.default_rng(1).standard_normal((count, 3))


@pytest.mark.fast_with("projection")
@pytest.mark.parametrize("name", SMOOTH)
def test_differentials_equal_differences_of_gradients(name):
    network = _stored(name, [3, 4, 2] if name == "projection" else 3)
    assert_differentials(network, _inputs(3 if name == "batch norm" else 2))


@pytest.mark.fast_with("gate-Map-formula-<lambda>")
@pytest.mark.parametrize(
    ("name", "owner", "method", "change"),
    [
        ("norms", operations.Normalize, "unit", lambda jet: jet.through(lambda x: [x, 1 + 1e-5 * x, 0 * x, 0 * x])),
        (
            "batch norm",
            operations.NormalizeBatch,
            "unit",
            lambda jet: jet.through(lambda x: [x, x**0, 1e-4 * x, 0 * x]),
        ),
        ("tokens", operations.DenseOperation, "formula", lambda jet: Jet([*jet.c[:3], None, *jet.c[4:]])),
        ("gate", operations.Map, "formula", lambda jet: Jet([*jet.c[:-1], None])),
        ("formula", operations.PoolGroups, "formula", lambda jet: 1.00001 * jet),
    ],
)
def test_control_planted_errors_are_seen(name, owner, method, change, monkeypatch):
    right = getattr(owner, method)
    monkeypatch.setattr(owner, method, lambda *given: change(right(*given)))
    with pytest.raises(AssertionError, match=r"^(H|dH|ddI|ddII): "):
        assert_differentials(_stored(name), _inputs(3 if name == "batch norm" else 2))


@pytest.mark.parametrize(
    ("phi", "positions", "rates"), [("tanh", 1, None), ("silu", 3, ((0.7, 1.3, 0.4), (0.9, 2, 1)))]
)
def test_a_chain_of_dense_layers_is_the_same_by_both_ways(phi, positions, rates):
    x = _inputs(positions)
    given = {} if rates is None else {"rates": rates}
    network = Ensemble(mlp(phi), 1.3, 0.3, [4, 3, 4], 3, 3, **given).network(3, 1)
    pushed = Differentials(x, 3)
    for (_, found), _ in zip(network_tensors(network, x, 3), network.run(x, [pushed]), strict=True):
        for name, expected in vars(pushed.tensors).items():
            error = np.abs(getattr(found, name) - expected).max()
            assert error <= 1e-12 * max(np.abs(expected).max(), 1e-12), name


def test_an_ensemble_measures_them_behind_anything():
    """A factor 1 behind a Dense changes the way they are computed and no number; another factor does."""
    given = {"sigma_w": 1.2, "sigma_b": 0.1, "width": 5, "depth": 3, "networks": 3, "quantities": ("A", "P", "T")}
    chain = run_ensemble(mlp("tanh"), **given)
    for factor, same in (("1", True), ("1.001", False)):
        block = Sequential((Nonlinearity("tanh"), Dense(), Scale(factor)))
        assert len(block.blocks) == 3
        found = run_ensemble(block, **given)
        assert found.samples.keys() == chain.samples.keys()
        errors = [np.abs(found.samples[k] / np.where(v == 0, 1, v) - (v != 0)).max() for k, v in chain.samples.items()]
        assert (max(errors) < 1e-10) == same


def test_lower_orders_and_layers():
    network, x = _stored("norms").network, _inputs()
    full = list(layer_tensors(network, x, 3))
    assert [layer for layer, _ in full] == [1, 2, 3]
    for order, names in ((1, "z H"), (2, "z H dH")):
        for (_, t), (_, every) in zip(layer_tensors(network, x, order), full, strict=True):
            assert " ".join(name for name, value in vars(t).items() if value is not None) == names
            for name in names.split():
                np.testing.assert_array_equal(getattr(t, name), getattr(every, name))


def test_what_has_no_second_derivative_is_refused():
    network = Ensemble(Residual(Sequential((Nonlinearity("relu"), Dense())), 1), 1, 0, 3, 2).network(0, 0)
    *_, (_, t) = layer_tensors(network, np.ones((1, 3)), 1)
    assert t.H.shape == (1, 1, 3, 3) and t.dH is None
    with pytest.raises(MeanFieldError, match="no φ″ and φ‴ here"):
        list(layer_tensors(network, np.ones((1, 3)), 2))
    with pytest.raises(MeanFieldError, match=r"np\.maximum has no derivatives for a jet"):
        np.maximum(Jet([np.ones((1, 1)), None]), 0.0)
    with pytest.raises(MeanFieldError, match=r"'Max\(z1, z2\)' in it has none"):
        group_jet("Max(z1, z2)", [Jet([np.ones((1, 1)), None])] * 2)
    with pytest.raises(MeanFieldError, match="axes are −2"):
        Jet([np.ones((1, 1))]).sum(axis=0)


FORMULAS = (
    "x*y + x/y - 2*y + 3",
    "sqrt(x**2 + y**2)*exp(-x) + log(y)*tanh(x*y)",
    "sin(x)**3*cos(y)/(1 + x**2) - y**(-1.5) + (2 - x)/3",
)


@pytest.mark.fast_with("sin(x)**3*cos(y)/(1 + x**2) - y**(-1.5) + (2 - x)/3")
@pytest.mark.parametrize("text", FORMULAS)
def test_jets_are_derivatives(text):
    """Every coefficient along random directions, to rounding."""
    x, y, *e = sympy.symbols("x y e1:4")
    draw = np.random.default_rng(7)
    directions = draw.standard_normal((3, 2))
    given = (0.7, 1.3)
    moved = [v + sum(k * d[i] for k, d in zip(e, directions)) for i, v in enumerate(given)]
    exact = sympy.sympify(text).subs({x: moved[0], y: moved[1]})
    jets = []
    for i, v in enumerate(given):
        c = [None] * 8
        c[0] = np.array([[v]])
        for k in range(3):
            c[1 << k] = np.array([[directions[k, i]]])
        jets.append(Jet(c))
    found = eval(text, vars(np) | {"x": jets[0], "y": jets[1]})
    for subset in range(8):
        expected = exact
        for k in range(3):
            expected = sympy.diff(expected, e[k]) if subset >> k & 1 else expected
        expected = float(expected.subs(dict.fromkeys(e, 0)))
        assert found.c[subset].item() == pytest.approx(expected, rel=1e-12, abs=1e-12), subset


@pytest.mark.parametrize("a, b", [((4, 1, 2, 3), (1, 5, 3, 2)), ((2, 3), (4, 5, 3, 2)), ((4, 1, 2, 3), (4, 5, 3, 2))])
def test_products_of_stacks_of_matrices(a, b):
    draw = np.random.default_rng(2)
    p, q = draw.standard_normal(a), draw.standard_normal(b)
    np.testing.assert_allclose(matmul(p, q), np.matmul(p, q), rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("function", list(TOWERS))
def test_derivatives_of_functions(function):
    """Value and three derivatives of each function that a jet knows, against SymPy in 30 digits."""
    x = sympy.Symbol("x")
    exact = 1 / x if function is np.reciprocal else getattr(sympy, function.__name__)(x)
    at = np.array([0.3, 1.7])
    for k, found in enumerate(TOWERS[function](at)):
        right = [float(exact.diff(x, k).subs(x, sympy.Float(v, 30)).evalf(30)) for v in at]
        np.testing.assert_allclose(found, right, rtol=1e-14, err_msg=f"derivative {k}")
