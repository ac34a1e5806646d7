"""Independent uniform weights: their numbers, the networks that have them, what feels their fourth cumulant; and the
learning rates of measured tangent kernels, which are those of the theory.
"""

import math

import numpy as np
import pytest
import sympy as sp
from typer.testing import CliRunner

import meanfield as mf
from meanfield.base.symbols import Q0, sigma_w
from meanfield.cli.app import app
from meanfield.empirical import criticality_grid
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.random.matrices import DrawnMatrix
from meanfield.empirical.random.philox import fill_uniforms

KEY = (3, 1, 2, 0)


def assert_close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=tolerance)


def _numbers(count, start=0):
    out = np.empty(count)
    fill_uniforms(out, *KEY, start=start)
    return out


def test_uniform_numbers():
    """Variance 1, fourth cumulant −6/5, |x| < √3; any part of the stream is the same bits; even ones and odd ones, the
    two halves of a counter, do not know each other."""
    x = _numbers(200_000)
    assert np.abs(x).max() < math.sqrt(3) and np.abs(x).max() > 1.7319
    for found, expected, spread in (
        (x.mean(), 0, 1),
        ((x**2).mean(), 1, 4 / 5),
        ((x**4).mean(), 9 / 5, 9 - 81 / 25),
        ((x[::2] * x[1::2]).mean(), 0, 2),
    ):
        assert abs(found - expected) < 4 * math.sqrt(spread / x.size)
    for start in (0, 1, 2, 77):
        assert np.array_equal(_numbers(50, start), x[start : start + 50])
    matrix = DrawnMatrix("uniform", KEY, (4, 6), 0.5, Buffers())
    assert np.array_equal(matrix.whole().ravel(), 0.5 * x[:24])


def test_fourth_cumulant_of_a_layer():
    """E z⁴ − 3K² = −6/5 Σ x_j⁴/n² of a neuron of layer 1, exactly; of Gaussian weights it is 0."""
    x = np.array([[1.0, -1.0, 0.5, 1.5, 0.0]])
    found = {}
    for law in ("uniform", "gaussian"):
        ensemble = Ensemble(mf.networks.mlp("tanh", weights=law), 1, 0, 200, 1, 5)
        z = np.concatenate([next(ensemble.network(0, i).run(x))[1].ravel() for i in range(400)])
        K = (x**2).sum() / 5
        found[law] = (z**4).mean() - 3 * K**2, 4 * (z**4).std() / math.sqrt(z.size)
    expected = -1.2 * (x**4).sum() / 25
    assert abs(found["uniform"][0] - expected) < found["uniform"][1]
    assert abs(found["gaussian"][0]) < found["gaussian"][1] < abs(expected)


def test_what_feels_the_fourth_cumulant():
    """Of the results of order 1/n the corrections of the means, by V0 and D0_H, and no correlator of pairs of neurons;
    V0 at layer 1 is that of a random direction, ⟨x⁴⟩ = 3⟨x²⟩²."""
    uniform, gaussian = (mf.derive("tanh", weights=law) for law in ("uniform", "gaussian"))
    for name in ("K", "V", "A", "B", "D", "F", "P", "Q", "R", "S", "T", "U"):
        assert str(uniform.recursion(name)) == str(gaussian.recursion(name))
    for name, more in (("G1", {"V0"}), ("Theta1", {"V0", "D0_H"}), ("J1", {"V0", "D0_J"})):
        found = uniform.recursion(name)
        assert set(found.names) - set(gaussian.recursion(name).names) == more
        assert found.start["V0"] == -sp.Rational(18, 5) * Q0**2 * sigma_w**4


@pytest.mark.slow
def test_how_uniform_weights_are_asked_for():
    theory = mf.derive("tanh", weights="uniform")
    sizes = dict(sigma_w=1, sigma_b=0.1, depth=2, networks=3)
    assert mf.measure(theory, **sizes, width=2000, quantities=("K",)).sampler == "explicit"
    with pytest.raises(mf.MeanFieldError, match="take sampler='explicit'"):
        mf.measure(theory, **sizes, width=20, sampler="lazy")
    with pytest.raises(mf.MeanFieldError, match="entry by entry, which is slow at width 10000"):
        mf.check(theory, sigma_w=1, sigma_b=0.1)
    grid = dict(sigma_w=[1], sigma_b=[0], width=8, depth=4, networks=2)
    assert 0 < criticality_grid([mf.networks.mlp("tanh", weights="uniform")], **grid).chi[0, 0] < 1
    own = mf.Sequential((mf.Nonlinearity("tanh"), mf.Dense("uniform")))
    assert Ensemble(own, 1, 0, 5, 2).input_layer.law == "uniform"
    assert Ensemble(mf.Network(own, mf.Dense("mixed")), 1, 0, 5, 2).input_layer.law == "gaussian"
    assert mf.check(theory, sigma_w=1.2, sigma_b=0.1, width=40, depth=4, networks=60).passed
    asked = "propagate tanh --sigma-w 1 --sigma-b 0.1 --depth 3 --weights uniform --quantities V,G1"
    printed = CliRunner().invoke(app, asked.split())
    assert printed.exit_code == 0 and "uniform weights" in printed.output, printed.output


# ------------------------------------------------------------------------------------------------------------ rates


def assert_rates(rates, planted=None):
    """Θ of networks of width 100 within 4 standard errors (and 2/n) of the theory's with λ_w, λ_b = rates."""
    theory, settings = mf.derive("erf"), dict(sigma_w=1.1, sigma_b=0.3, depth=4)
    keys = ("lambda_w", "lambda_b")
    run = theory.propagate(**settings, quantities=("Theta", "Theta1"), **dict(zip(keys, planted or rates)))
    found = mf.measure(
        theory, **settings, width=100, networks=150, quantities=("Theta",), probes=2, **dict(zip(keys, rates))
    ).estimate("Theta")
    gap = found.mean - run.Theta - run.Theta1 / 100
    assert (np.abs(gap) < 4 * found.standard_error + 0.002 * run.Theta).all(), (
        f"Theta is not the theory's: z = {gap / found.standard_error}"
    )


@pytest.mark.slow
def test_rates_of_networks_are_those_of_the_theory():
    """Numbers, formulas in l, one alone; swapped, constant in the place of 1/l, or divided by σ², they fail."""
    assert_rates((1, "1/l"))
    assert_rates((None, 2))
    with pytest.raises(AssertionError, match="Theta is not the theory's"):
        assert_rates((1, "1/l"), planted=("1/l", 1))
    with pytest.raises(AssertionError, match="Theta is not the theory's"):
        assert_rates((1, "1/l"), planted=(1, 1))
    with pytest.raises(AssertionError, match="Theta is not the theory's"):
        assert_rates((1, 1), planted=(None, 1))


@pytest.mark.slow
def test_every_kernel_knows_the_rates():
    """The exact Θ, h of the tangent correlators and the kernel by its definition; random tangents to their errors."""
    block, layers = mf.networks.mlp("tanh"), np.arange(1, 5)
    sizes = dict(sigma_w=1.3, sigma_b=0.4, width=7, depth=4, networks=40)
    rates = {"lambda_w": "2/(l + 1)", "lambda_b": "sqrt(l)/3"}
    exact = mf.measure(block, **sizes, **rates, quantities=("Theta",)).samples["Theta"]
    arrays = {"lambda_w": 2 / (layers + 1), "lambda_b": np.sqrt(layers) / 3}
    listed = mf.measure(block, **sizes, **arrays, layerwise=True, quantities=("Theta",))
    assert_close(listed.samples["Theta"], exact, 1e-13)
    pairs = tuple(arrays.values())
    h = mf.measure(block, **sizes, rates=pairs, quantities=("A",)).samples["_h"][:, :, 0, 0]
    assert_close(h, exact, 1e-12)
    assert_close(exact[:, 0], 1.0 + 1 / 3, 1e-12)  # λ_w |x|²/N_0 + λ_b
    random = mf.measure(block, **sizes | {"networks": 3000}, **rates, quantities=("Theta", "Theta_ab"), correlation=1.0)
    mean = mf.measure(block, **sizes | {"networks": 3000}, **rates, quantities=("Theta",)).estimate("Theta")
    for name in ("Theta", "Theta_ab"):  # the same input twice
        assert np.abs(random.estimate(name).z(mean.mean)).max() < 5
    skip = mf.derive("tanh", residual=True)
    usual = mf.measure(skip, **sizes, quantities=("Theta",)).samples["Theta"]
    double = mf.measure(skip, **sizes, lambda_w=2 * 1.69, lambda_b=2 * 0.16, quantities=("Theta",)).samples["Theta"]
    assert_close(double, 2 * usual, 1e-12)


@pytest.mark.parametrize(
    ("rates", "sentence"),
    [
        ({"lambda_w": -1}, "learning rate lambda_w must be finite and ≥ 0"),
        ({"lambda_b": "1 - l"}, "learning rate lambda_b must be finite and ≥ 0"),
        ({"lambda_b": "1/(l - 2)"}, "constant"),
        ({"lambda_b": "1/k"}, "k in '1/k' has no value here; it may hold l"),
        ({"lambda_b": "1/"}, "is not a formula"),
        ({"lambda_w": [1, 2], "layerwise": True}, "one number or one per layer"),
        ({"lambda_w": 1, "rates": (1, 1)}, "give one or the other"),
        ({"lambda_b": 1, "rates": (1, 1)}, "give one or the other"),
    ],
)
def test_rates_that_are_refused(rates, sentence):
    with pytest.raises(mf.MeanFieldError, match=sentence):
        mf.measure("tanh", sigma_w=1, sigma_b=0, width=4, depth=3, networks=2, quantities=("Theta",), **rates)
