"""All pairs of inputs of one network: against plain NumPy, the lazy sampler, exact means, and published numbers."""

import math
import time

import numpy as np
import pytest

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical import Ensemble, measure_pairs, run_ensemble
from meanfield.empirical.random.philox import normals
from meanfield.empirical.shared import shared_pairs
from meanfield.networks.records import BatchNorm, Dense, LayerNorm, Nonlinearity, Pool, Residual, Sequential, mlp

TANH = Nonlinearity("tanh")
WIDE = Residual(Sequential((TANH, Dense(expand=2), Pool(2), LayerNorm(), TANH, Dense())), "0.7")
SIZES = {"width": 12, "depth": 3, "batch": 4, "seed": 5, "index": 2}
POINTS = {"sigma_w": np.array([1.1, 1.9]), "sigma_b": 0.3}


def _plain(sigma_w, sigma_b, width=12, depth=3, batch=4, seed=5, index=2):
    """z^l of a tanh network, from the streams of its numbers."""
    z = normals(seed, index, 0, 4, batch * width).reshape(batch, width)
    for layer in range(1, depth + 1):
        w = normals(seed, index, layer, 0, width * width).reshape(width, width)
        y = z if layer == 1 else np.tanh(z)
        z = sigma_w / math.sqrt(width) * y @ w.T + sigma_b * normals(seed, index, layer, 1, width)
        yield z


def assert_statistics(found, reference, ddof=1):
    """Every field and row against loops over pairs and neurons."""
    for s, w in enumerate(found.sigma_w):
        for l, z in enumerate(reference(w, found.sigma_b[s])):
            m, n = z.shape
            K = np.array([[np.mean(a * b) for b in z] for a in z])
            upper = [(a, b) for a in range(m) for b in range(a + 1, m)]
            c = np.array([K[a, b] / math.sqrt(K[a, a] * K[b, b]) for a, b in upper])
            rows = {
                "K_aa": np.diag(K),
                "K_ab": [K[a, b] for a, b in upper],
                "c": c,
                "one_minus_c": 1 - c,
                "distance": [np.mean((z[a] - z[b]) ** 2) for a, b in upper],
            }
            np.testing.assert_allclose(found.K[s, l], K, rtol=1e-11)
            for name, expected in rows.items():
                np.testing.assert_allclose(found.pairs(name)[s, l], expected, rtol=1e-10)
            spread = np.mean([np.var(z[:, i], ddof=ddof) for i in range(n)])
            drift = np.var([np.mean(z[:, i]) for i in range(n)], ddof=ddof) - spread / m
            np.testing.assert_allclose([found.sigma_y2[s, l], found.sigma_mu2[s, l]], [spread, drift], rtol=1e-10)
            np.testing.assert_allclose(found.gamma[s, l], drift / spread, rtol=1e-9)
            np.testing.assert_allclose(found.c[s, l], drift / (drift + spread), rtol=1e-9)
            np.testing.assert_allclose(found.quantiles("c", 0.25)[0, s, l], np.quantile(c, 0.25), rtol=1e-10)


def test_against_a_plain_reading():
    found = measure_pairs(mlp("tanh"), sampler="explicit", **POINTS, **SIZES)
    assert_statistics(found, _plain)
    with pytest.raises(AssertionError, match="Not equal to tolerance rtol=1e-10"):
        assert_statistics(found, _plain, ddof=0)
    with pytest.raises(AssertionError, match="Not equal to tolerance rtol=1e-11"):
        assert_statistics(found, lambda w, b: _plain(1.001 * w, b))


@pytest.mark.parametrize("sampler", ["explicit", "lazy"])
@pytest.mark.parametrize("batch", [5, 40])  # 40 vectors of 24 neurons: some are dependent
def test_it_is_the_network_of_the_same_number(sampler, batch):
    """K of every layer, of skip, pool and norm, against `Network` with its own weights."""
    sizes = {"width": 24, "depth": 3, "sampler": sampler}
    found = measure_pairs(WIDE, sigma_w=[0.9, 1.7], sigma_b=[0, 0.2], batch=batch, seed=1, index=3, **sizes)
    x = normals(1, 3, 0, 4, batch * 24).reshape(batch, 24)
    for s, (w, b) in enumerate(((0.9, 0.0), (1.7, 0.2))):
        network = Ensemble(WIDE, w, b, 24, 3, sampler=sampler).network(1, 3)
        for layer, z in network.run(x):
            np.testing.assert_allclose(found.K[s, layer - 1], z @ z.T / 24, rtol=1e-10, atol=1e-11)


def test_the_weights_are_shared():
    """Without biases a ReLU network with σ_w is (σ_w/σ_w′)^l times that with σ_w′: c does not depend on σ_w at all."""
    for sampler in ("explicit", "lazy"):
        settings = {"sigma_b": 0, "width": 60, "depth": 4, "batch": 6, "sampler": sampler}
        found = measure_pairs(mlp("relu"), sigma_w=[0.5, 3], **settings)
        np.testing.assert_allclose(found.pairs("c")[0], found.pairs("c")[1], rtol=1e-12)
        other = measure_pairs(mlp("relu"), sigma_w=0.5, seed=1, **settings)
        assert np.abs(found.pairs("c")[0] - other.pairs("c")[0]).max() > 0.01


def _first_layers(count=250):
    sizes = {"sigma_w": 1.3, "sigma_b": 0.4, "width": 8, "depth": 1, "batch": 3, "input_dimension": 6}
    runs = [measure_pairs(mlp("tanh"), index=i, **sizes) for i in range(count)]
    return np.array([(r.sigma_y2[0, 0], r.sigma_mu2[0, 0], r.sigma_y2[0, 0] / r.inputs) for r in runs])


@pytest.mark.slow
def test_the_estimators_have_no_bias():
    """Layer 1 of independent normal inputs: sigma_y2 = σ_w², sigma_mu2 = σ_b², at every width and number of inputs."""
    y2, mu2, share = _first_layers().T

    def z(values, exact):
        return (values.mean() - exact) / values.std(ddof=1) * math.sqrt(len(values))

    assert abs(z(y2, 1.69)) < 4 and abs(z(mu2, 0.16)) < 4
    assert abs(z(mu2 + share, 0.16)) > 8 and abs(z(y2 * 2 / 3, 1.69)) > 8  # what the variances give as they stand


def test_ensembles_measure_the_same():
    """The rows of `run_ensemble`, network by network, and their means at an exact first layer."""
    settings = {"sigma_w": 1.3, "sigma_b": 0.4, "width": 10, "depth": 2, "batch": 5, "seed": 6}
    run = run_ensemble(mlp("tanh"), quantities=("sigma_y2", "sigma_mu2"), networks=200, **settings)
    for index in (0, 7):
        one = measure_pairs(mlp("tanh"), sampler="explicit", index=index, **settings)
        np.testing.assert_allclose(run.samples["sigma_y2"][index], one.sigma_y2[0], rtol=1e-12)
        np.testing.assert_allclose(run.samples["sigma_mu2"][index], one.sigma_mu2[0], rtol=1e-11)
    assert abs(run.estimate("sigma_y2", l=1).z(1.69)) < 4 and abs(run.estimate("sigma_mu2", l=1).z(0.16)) < 4
    assert abs(run.estimate("sigma_y2", l=1).z(1.69 * 0.8)) > 8
    with pytest.raises(MeanFieldError, match="sigma_y2 and sigma_mu2 are variances over inputs and neurons"):
        run_ensemble(mlp("tanh"), quantities="sigma_y2", networks=2, **settings | {"batch": 1})


def test_digits_near_full_correlation():
    """1 − c of two inputs that differ by 1e-9 |x|: K alone would give 0."""
    x = normals(0, 0, 0, 7, 40).reshape(1, 40)
    x = np.concatenate((x, x + 1e-9 * normals(1, 0, 0, 7, 40)))
    near = measure_pairs(mlp("linear"), sigma_w=1, sigma_b=0, width=30, depth=1, inputs=x, sampler="explicit")
    a, b = (one @ normals(0, 0, 1, 0, 1200).reshape(30, 40).T for one in x)
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    np.testing.assert_allclose(near.pairs("one_minus_c")[0, 0], 0.5 * np.sum((a - b) ** 2), rtol=1e-5)


def test_relu_at_a_published_point():
    """[bias_and_trainability] recursion (105), (106) at σ_w² = 2.5, σ_b² = .1: c⁽⁵⁾ = 0.70692; the band of q_aa at
    layer 1, of inputs and weights of relative variance 2/N each, is near 2·1.645·√(4/N) wide."""
    run = {"sigma_w": 2.5**0.5, "sigma_b": 0.1**0.5, "depth": 5, "batch": 60, "seed": 3}
    wide, narrow = (measure_pairs(mlp("relu"), width=n, input_dimension=n, **run) for n in (4000, 1000))
    assert abs(wide.quantiles("c", 0.5)[0, 0, 4] - 0.70692) < 0.01 and abs(wide.c[0, 4] - 0.70692) < 0.01
    low, middle, high = wide.quantiles("K_aa")[:, 0, 0]
    band = (high - low) / middle
    low, middle, high = narrow.quantiles("K_aa")[:, 0, 0]
    assert band == pytest.approx(0.0915, abs=0.03) and (high - low) / middle == pytest.approx(2 * band, rel=0.35)


@pytest.mark.slow
def test_the_size_of_the_figure():
    """N = 10 000, 100 layers, 100 inputs, three σ_w: seconds, and within the published spread of the theory's c."""
    start = time.perf_counter()
    found = mf.measure_pairs(
        "relu", sigma_w=["sqrt(1.5)", "sqrt(2)", "sqrt(2.5)"], sigma_b="sqrt(1/10)", width=10_000, depth=100, seed=42
    )
    assert time.perf_counter() - start < 120
    low, middle, high = found.quantiles("c")
    for s, l, c in ((0, 10, 0.953640424068), (1, 100, 0.998344233829), (2, 10, 0.866753314889), (2, 100, 0.9964162088)):
        assert abs(middle[s, l - 1] - c) < 6 * (high - low)[s, l - 1] / 3.3
    gap = found.quantiles("one_minus_c", 0.5)[0, 0]
    assert math.log(gap[59] / gap[99]) / 40 == pytest.approx(math.log(4 / 3), rel=0.03)  # 1 − c falls as (σ_w²/2)^l


def test_what_overflows_is_named():
    found = measure_pairs(mlp("relu2"), sigma_w=[0.5, 1e30], sigma_b=0, width=10, depth=6, batch=3)
    assert found.diverged_at[0] == 0 < found.diverged_at[1] and np.isfinite(found.K[0]).all()
    at = found.diverged_at[1] - 1
    assert np.isfinite(found.K[1, :at]).all() and np.isnan(found.K[1, at:]).all() and "1 of them overflow" in str(found)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"batch": 1}, "batch must be an integer from 2"),
        ({"inputs": np.ones((1, 4))}, "Pairs need two inputs or more, but one was given"),
        ({"inputs": np.ones((2, 4)), "batch": 2}, "Give one of batch= and inputs="),
        ({"inputs": np.ones((2, 3, 4))}, "Inputs of 3 tokens"),
        ({"sigma_w": [1, -1]}, "sigma_w must be a number ≥ 0 or a list of them"),
        ({"sigma_w": [1, 2], "sigma_b": [1, 2, 3]}, "they have 2 and 3 numbers"),
        ({"sigma_w": [[1]]}, "sigma_w must be a number ≥ 0 or a list of them"),
        ({"width": 1}, "A variance over the neurons needs two"),
        ({"sampler": "none"}, "Unknown sampler 'none'"),
        ({"depth": 10**4, "batch": 5000}, "take fewer inputs, points, layers or neurons"),
        ({"with": 3}, "with is not a parameter of this network"),
    ],
)
def test_refusals(more, message):
    with pytest.raises(MeanFieldError, match=message):
        measure_pairs(mlp("tanh"), **{"sigma_w": 1, "sigma_b": 0, "width": 6, "depth": 2} | more)
    found = measure_pairs(Sequential((TANH, BatchNorm(), Dense())), sigma_w=1, sigma_b=0, width=4, depth=2, batch=3)
    for call, said in (
        (lambda: found.pairs("K"), "Unknown name 'K'; the choices are K_aa"),
        (lambda: found.quantiles("c", 1.5), "levels must be numbers from 0 to 1"),
        (lambda: found.quantiles("c", True), "levels must be a real number"),
    ):
        with pytest.raises(MeanFieldError, match=said):
            call()


def test_no_product_is_taken_twice(monkeypatch):
    """Control: the images of another layer are seen."""
    right = shared_pairs.SharedWeights.images
    monkeypatch.setattr(shared_pairs.SharedWeights, "images", lambda self, l, *rest: right(self, 1, *rest))
    with pytest.raises(AssertionError, match="Not equal to tolerance rtol=1e-10"):
        test_it_is_the_network_of_the_same_number("lazy", 5)
