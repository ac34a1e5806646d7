"""Pools of formulas in z1 … z4: what the record refuses, values against NumPy, derivatives against differences."""

import pickle

import numpy as np
import pytest

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical import Ensemble, run_ensemble
from meanfield.empirical.functions.groups import group_kernel, jumps
from meanfield.empirical.network.operations.operations import PoolGroups
from meanfield.empirical.network.tangents_and_cotangents import Tangents
from meanfield.empirical.random.philox import normals
from meanfield.functions.reading.parser import FUNCTIONS
from meanfield.networks.pooling import ARGUMENTS
from meanfield.networks.records import Dense, Nonlinearity, Pool, Residual, Sequential

TANH = Nonlinearity("tanh")
FORMULAS = {
    "max(z1, z2) - min(z1, z2)": lambda a, b: np.abs(a - b),
    "(z1^2 + 1.5*z2**2)/(1 + exp(-z1))": lambda a, b: (a**2 + 1.5 * b**2) / (1 + np.exp(-a)),
    "z1 if z1 > z2 else 0.25*z1 + 0.75*z2": lambda a, b: np.where(a > b, a, 0.25 * a + 0.75 * b),
    "clip(z1, -1/2, 0.5)*softplus(z2) + relu(z3)**3": lambda a, b, c: (
        np.clip(a, -0.5, 0.5) * np.log1p(np.exp(b)) + np.maximum(c, 0) ** 3
    ),
    "sqrt(z1**2 + z2**2 + z3**2 + z4**2)": lambda *z: np.sqrt(sum(x**2 for x in z)),
}


def _groups(formula, count=50):
    size = FORMULAS[formula].__code__.co_argcount or 4
    return size, np.random.default_rng(0).standard_normal((1, 1, size * count))


def assert_group(formula, reference, tolerance=1e-6):
    """Value and slopes of a formula against NumPy's values and their differences."""
    size, x = _groups(formula)
    out, share = np.empty((1, 1, x.size // size)), np.empty(x.shape)
    group_kernel(formula, size)(x, out, share)
    z = x.reshape(-1, size)
    np.testing.assert_allclose(out[0, 0], reference(*z.T), rtol=1e-13, atol=1e-14)
    for k in range(size):
        step = np.zeros(size)
        step[k] = 1e-6
        expected = (reference(*(z + step).T) - reference(*(z - step).T)) / 2e-6
        np.testing.assert_allclose(share.reshape(-1, size)[:, k], expected, atol=tolerance)


SLOW = list(FORMULAS)[1], list(FORMULAS)[3]


@pytest.mark.slow
@pytest.mark.parametrize("formula", [pytest.param(f, marks=[pytest.mark.slow] * (f in SLOW)) for f in FORMULAS])
def test_values_and_slopes(formula):
    assert_group(formula, FORMULAS[formula])


def test_control_a_wrong_slope_is_seen():
    with pytest.raises(AssertionError, match="Not equal to tolerance rtol=1e-13"):
        assert_group("max(z1, z2) - min(z1, z2)", lambda a, b: np.abs(a - 1.001 * b))


def _run(kind, size, sampler="explicit", **more):
    block = Sequential((TANH, Dense(expand=size), Pool(size, kind)))
    settings = {"sigma_w": 1.3, "sigma_b": 0.2, "width": 6, "depth": 3, "networks": 2, "seed": 4, "sampler": sampler}
    return run_ensemble(block, **settings | more)


def assert_same(first, second):
    for name, values in first.samples.items():
        np.testing.assert_allclose(second.samples[name], values, rtol=1e-13)


@pytest.mark.slow_with("average-(z1+z2)/2-lazy")
@pytest.mark.parametrize(
    ("kind", "formula", "sampler"),
    [
        ("max", "max(z1, z2)", "explicit"),
        pytest.param("max", "max(z1, z2)", "lazy", marks=pytest.mark.slow),
        pytest.param("average", "(z1+z2)/2", "explicit", marks=pytest.mark.slow),
        ("average", "(z1+z2)/2", "lazy"),
    ],
)
def test_the_named_pools_as_formulas(kind, formula, sampler):
    names = ("J", "Theta", "G_w") if sampler == "explicit" else ("J", "G_z")
    given = {"quantities": names, "probes": 2 if sampler == "lazy" else None}
    assert_same(_run(kind, 2, sampler, **given), _run(formula, 2, sampler, **given))


def test_control_another_formula_gives_other_numbers():
    with pytest.raises(AssertionError, match="Not equal to tolerance rtol=1e-13"):
        assert_same(_run("max", 2), _run("max(z1, 1.001*z2)", 2))


@pytest.mark.slow
def test_a_network_against_a_plain_reading():
    """Values, tangents and cotangents of a network with a product of three and a skip; one neuron is left over."""
    block = Residual(Sequential((TANH, Dense(expand="19/6"), Pool(3, "z1*z2 + sin(z3)"), TANH, Dense())), "0.5")
    seed, index, width, depth = 3, 2, 6, 3
    ensemble = Ensemble(block, 1.3, 0.2, width, depth, 5)
    x = np.random.default_rng(1).standard_normal((2, 5))

    def dense(y, layer, ordinal, outputs):
        n = y.shape[1]
        w = normals(seed, index, layer, 2 * ordinal, outputs * n).reshape(outputs, n)
        return 1.3 / np.sqrt(n) * y @ w.T + 0.2 * normals(seed, index, layer, 2 * ordinal + 1, outputs)

    def plain(x):
        z = dense(x, 1, 0, width)
        for layer in (2, 3):
            g = dense(np.tanh(z), layer, 0, 19)[:, :18].reshape(-1, 6, 3)
            z = dense(np.tanh(g[..., 0] * g[..., 1] + np.sin(g[..., 2])), layer, 1, width) + 0.5 * z
        return z

    network = ensemble.network(seed, index)
    t, u = np.random.default_rng(2).standard_normal((1, 2, 5)), np.random.default_rng(3).standard_normal((1, 2, width))
    carried, trace = Tangents(t.copy(), network.buffers), []
    for _, last in network.run(x, [carried], trace, 1):
        z, pushed = last, carried.rows.copy()
    np.testing.assert_allclose(z, plain(x), rtol=1e-11)
    np.testing.assert_allclose(pushed[0], (plain(x + 1e-5 * t[0]) - plain(x - 1e-5 * t[0])) / 2e-5, atol=1e-7)
    *_, (_, _, pulled) = network.pull(trace, u)
    np.testing.assert_allclose((u * pushed).sum(), (pulled * t).sum(), rtol=1e-12)


@pytest.mark.slow
def test_the_norm_of_two_zeros_has_no_infinite_slope():
    """After a ReLU a quarter of the groups are (0, 0), where √(z1² + z2²) has a kink: its slope counts as 0 there."""
    out, share = np.empty((1, 1, 1)), np.empty((1, 1, 2))
    group_kernel("sqrt(z1**2 + z2**2)", 2)(np.zeros((1, 1, 2)), out, share)
    assert out[0, 0, 0] == 0 and (share == 0).all()
    block = Sequential((Nonlinearity("relu"), Pool(2, "sqrt(z1**2 + z2**2)"), Dense()))
    run = run_ensemble(block, sigma_w=1, sigma_b=0, width=200, depth=3, networks=30, seed=1)
    found = run.estimate("J", l=2)  # |∇f|² is 1 but on a quarter of the groups; the fan-in is N/2
    assert abs(found.z(0.75)) < 4 and abs(found.z(0.5)) > 10


@pytest.mark.slow
def test_derivatives_of_a_pool_that_jumps_are_refused():
    assert jumps("step(z1)*z2", 2) and jumps("z1 if z1 > z2 else -z2", 2)
    assert not jumps("max", 9) and not any(jumps(f, _groups(f)[0]) for f in FORMULAS if f not in SLOW)
    with pytest.raises(MeanFieldError, match="a pool that jumps"):
        _run("step(z1)*z2", 2)
    assert _run("step(z1)*z2", 2, quantities=("K",)).estimate("K").mean.shape == (3,)


def test_the_functions_of_pools_are_those_of_formulas():
    assert {name: arity for name, (arity, _) in FUNCTIONS.items()} == ARGUMENTS
    text = " + ".join(f"{n}({', '.join(['z1', '-1', '2'][: c or 2])})" for n, c in sorted(ARGUMENTS.items()))
    group_kernel(Pool(2, text + " + z2").kind, 2)  # networks read every one of them


REFUSED = [
    (lambda: Pool(1), "A Pool over one node was asked for, which changes nothing; leave it out"),
    (lambda: Pool(0), "number of neurons of a Pool must be a whole number from 2"),
    (lambda: Pool(2, "median"), "kind='median' is not available: the choices are max, average and a formula"),
    (lambda: Pool(2, 3), "kind=3 is not available"),
    (lambda: Pool(5, "z1*z2*z3*z4*z5"), "A Pool of 5 nodes was given the formula .* 2 to 4 nodes"),
    (lambda: Pool(3, "z1*z2"), "does not hold z3; take every one of z1, z2, z3"),
    (lambda: Pool(2, "z1*z3"), "holds z3, which is none of z1, z2"),
    (lambda: Pool(2, "alpha*z1*z2"), "holds alpha, which is none of z1, z2"),
    (lambda: Pool(2, "z1 +"), "is no formula"),
    (lambda: Pool(2, "z1.real + z2"), "'z1.real' in .* is not allowed"),
    (lambda: Pool(2, "__import__('os').system('ls') + z1 + z2"), "is not allowed"),
    (lambda: Pool(2, "open(z1, z2)"), "The function open in"),
    (lambda: Pool(2, "[z1, z2][0]"), r"'\[z1, z2\]\[0\]' in"),
    (lambda: Pool(2, "(lambda: z1)() + z2"), r"'\(lambda: z1\)\(\)' in"),
    (lambda: Pool(2, "tanh(z1, z2)"), r"tanh with 2 argument\(s\) in"),
    (lambda: Pool(2, "z1**z2"), "An exponent that is no number"),
    (lambda: Pool(2, "z1*9**9**9**9 + z2"), "An exponent that is no number"),
    (lambda: Pool(2, "z1 + 1e999*z2"), "A number beyond"),
    (lambda: Pool(2, "z1 == z2"), "'z1 == z2' in"),
    (lambda: Pool(2, "z1 + " * 200 + "z2"), "is no formula of at most"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_the_record_refuses(call, message):
    with pytest.raises(MeanFieldError, match=message) as refusal:
        call()
    assert "\n" not in str(refusal.value)


def test_records_and_operations_are_plain_data():
    pool = mf.Pool(2, " max(z1,  z2)  - min(z1, z2) ")
    assert pool == Pool(2, "max(z1, z2) - min(z1, z2)") and repr(pool) == "Pool(kind='max(z1, z2) - min(z1, z2)')"
    step = PoolGroups(2, pool.kind)
    assert pickle.loads(pickle.dumps(step)) == step


@pytest.mark.slow
def test_gradients_through_pools_of_relu():
    """E J^{1,21} = χ̃²⁰ (1 + a/N): χ̃ = 3/4 σ_w² (maximum), σ_w²/4 (mean), and a = A (α/χ̃)²⁰ with A about 10, since a
    deep network follows α = (3π + 2)/(4π) σ_w², (π + 1)/(4π) σ_w² ([bias_and_trainability] App. F, errata)."""
    pi = np.pi
    for kind, chi, alpha in (("max(z1, z2)", 0.75, (3 * pi + 2) / (4 * pi)), ("average", 0.25, (pi + 1) / (4 * pi))):
        block, rest = Sequential((Nonlinearity("relu"), Pool(2, kind), Dense())), []
        for width in (256, 512, 1024):
            run = mf.measure(
                block, sigma_w=chi**-0.5, sigma_b=0, width=width, depth=21, networks=600, sampler="lazy", probes=4
            )
            found = run.estimate("J", l=21)
            rest.append((width * (found.mean - 1), width * found.standard_error))
            if kind != "average" and width == 512:
                assert abs(found.mean - 1.88) < 4 * np.hypot(0.1, found.standard_error)  # measured elsewhere
        mean, error = np.array(rest).T
        assert np.ptp(mean) < 4 * error.max() and 8 < mean.mean() / (alpha / chi) ** 20 < 14


def test_one_pool_may_take_all_neurons_and_no_more():
    pool = PoolGroups(4, "max")
    assert pool.shape((1, 4), 1, (1, 4)) == (1, 1)
    with pytest.raises(MeanFieldError, match="A Pool of 4 neurons meets 3 at layer 2"):
        pool.shape((1, 3), 2, (1, 3))
