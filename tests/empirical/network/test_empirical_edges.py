"""Corners: sizes that are not Python ints, empty reports, merged parts of blocks, refusals in one sentence."""

import json

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical import ScalarPair, run_ensemble
from meanfield.empirical.ensemble import ensemble_blocks
from meanfield.empirical.network.network import Ensemble
from meanfield.networks.records import Dense, LayerNorm, Nonlinearity, Residual, Sequential, mlp

PHI = Nonlinearity("tanh")
SIZES = {"sigma_w": 1.2, "sigma_b": 0.1, "width": 8, "depth": 3, "networks": 30}


@pytest.mark.slow
def test_a_jackknife_of_j_is_in_units_of_j():
    run = run_ensemble(mlp("tanh"), **SIZES | {"networks": 600, "depth": 8})
    mean, error = run.jackknife(lambda means, count: means["J"], ("J",))
    np.testing.assert_allclose(mean, run.estimate("J").mean, rtol=1e-12)
    np.testing.assert_allclose(error[1:], run.estimate("J").standard_error[1:], rtol=0.2)


def test_parts_of_a_block_are_merged_exactly(monkeypatch):
    """Networks are summed up a few at a time; means, deviations and shifts are those of all."""
    more = {"quantities": ("J", "V"), "keep_samples": False, "networks": 40}
    monkeypatch.setattr(ensemble_blocks, "MOST_BLOCKS", 2)
    whole = run_ensemble(mlp("relu"), **SIZES | more)
    monkeypatch.setattr(ensemble_blocks, "TOGETHER", 3)
    parts = run_ensemble(mlp("relu"), **SIZES | more)
    for name in ("K", "J", "V", "log_J"):
        one, other = whole.estimate(name), parts.estimate(name)
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-11)
        np.testing.assert_allclose(one.standard_error, other.standard_error, rtol=1e-9, atol=1e-14)


def test_blas_threads_are_given_back():
    def threads():
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

    before = threads()
    run_ensemble(mlp("tanh"), **SIZES, threads=2)
    assert threads() == before


def test_sizes_of_numpy_are_sizes():
    sizes = {"sigma_w": 1.2, "sigma_b": 0.1, "width": np.int64(64), "depth": np.int64(3), "networks": np.int64(40)}
    report = mf.check("tanh", **sizes, seed=np.int64(1))
    assert report.passed and report.quantities == ("K", "J")
    json.dumps(report.data())
    wrong = mf.check("tanh", **sizes | {"sigma_w": np.float32(5.0)}, quantities="J")
    assert wrong.quantities == ("J",) and json.dumps(wrong.data())
    with pytest.raises(MeanFieldError, match="The width must be an integer"):
        mf.check("tanh", **sizes | {"width": 200.5})
    with pytest.raises(MeanFieldError, match="takes one number for mu"):
        mf.check(mf.derive("tanh", mu="mu"), **sizes, mu=[0, 0.5])


def test_there_is_no_report_without_rows():
    settings = dict(sigma_b=0, width=64, depth=3, networks=4, quantities=("K",))
    with pytest.raises(mf.MeanFieldError, match="measured at no layer, and networks overflow"):
        mf.check("linear", sigma_w=1.3e154, **settings)
    assert mf.check("linear", sigma_w=1, **settings).rows


def test_a_symbolic_skip_of_any_name():
    theory = mf.derive("tanh", mu="alpha")
    assert mf.check(theory, sigma_w=1.1, sigma_b=0.1, width=60, depth=4, networks=60, alpha=0.5).passed


def test_one_token_in_the_middle():
    """A bottleneck of one token is not one position that stands for all."""
    narrow = Sequential((Dense(axis="tokens", expand="1/4"), PHI, Dense(axis="tokens"), Dense()))
    for batch in (1, 2):
        run = run_ensemble(narrow, **SIZES, tokens=4, batch=batch, quantities=("J", "Theta", "G_w"), probes=2)
        assert np.isfinite(run.estimate("J").mean).all() and np.isfinite(run.estimate("G_w").mean).all()


def test_rates_of_a_dense_with_its_own_deviations():
    block = Sequential((PHI, Dense(sigma_w=2, sigma_b="0.5")))
    tensors = run_ensemble(block, **SIZES, quantities=("A",)).samples["_h"][:, :, 0, 0]
    np.testing.assert_allclose(
        tensors, run_ensemble(block, **SIZES, quantities=("Theta",)).samples["Theta"], rtol=1e-10
    )


@pytest.mark.slow
def test_functions_are_part_of_a_fingerprint(tmp_path):
    def block(factor):
        return Sequential((Nonlinearity(ScalarPair(lambda x: factor * x, lambda x: factor)), Dense()))

    run_ensemble(block(0.5), **SIZES, checkpoint=tmp_path / "run.npz")
    with pytest.raises(MeanFieldError, match="checkpoint of another run"):
        run_ensemble(block(1.5), **SIZES, checkpoint=tmp_path / "run.npz")


def test_names_that_come_with_others():
    run = run_ensemble(mlp("tanh"), **SIZES, batch=4, quantities=("G_max", "log_J"))
    assert {"G0", "G_max", "J"} <= set(run.quantities)
    assert run_ensemble(mlp("tanh"), **SIZES, quantities="Theta").quantities == ("K", "Theta")


REFUSED = [
    (mlp("step"), {"quantities": ("A",)}, "A was asked for an activation that jumps"),
    (mlp("tanh"), {"quantities": ("R",), "width": 200}, "here N ≤ 100, but N = 200 was given"),
    (mlp("tanh"), {"quantities": ("distance",)}, "are of two inputs; give correlation="),
    (
        Residual(Sequential((Dense(sigma_w="s"), PHI, Dense())), "nu"),
        {"mu": 0.5},
        "mu is not a parameter of this network; it has nu, s",
    ),
]


@pytest.mark.parametrize(("block", "more", "message"), REFUSED)
def test_refusals(block, more, message):
    with pytest.raises(MeanFieldError, match=message):
        run_ensemble(block, **SIZES | more)


def test_gradients_of_networks_that_overflow():
    run = run_ensemble(mlp("relu"), **SIZES | {"sigma_w": 1e150, "depth": 5}, quantities=("G_z",))
    assert run.finite_depth < 5
    with pytest.raises(MeanFieldError, match="G_z is not a number: networks overflow"):
        run.estimate("G_z")


def test_the_lazy_sampler_has_no_second_pass():
    network = Ensemble(mlp("tanh"), 1, 0, 6, 3, sampler="lazy").network(0, 0)
    x, t = np.ones((1, 6)), np.ones((1, 1, 6))
    for call in (lambda: network.jvp(x, t), lambda: network.vjp(x, t), lambda: network.gradients(x, t[0])):
        with pytest.raises(MeanFieldError, match="reveals other weights in every pass"):
            call()


def test_measure_takes_the_lazy_sampler_for_wide_networks():
    run = mf.measure("tanh", sigma_w=1, sigma_b=0, width=3000, depth=2, networks=4)
    assert run.sampler == "lazy" and run.probes == 4
    named = mf.measure("tanh", sigma_w=1, sigma_b=0, width=3000, depth=2, networks=4, quantities="Theta")
    assert named.sampler == "lazy", "a name is not a set of letters"
    normed = Sequential((LayerNorm(), PHI, Dense()))
    assert mf.measure(normed, sigma_w=1, sigma_b=0, width=30, depth=2, networks=4).sampler == "explicit"


@pytest.mark.parametrize("width", [[[1, 2], [3]], [[4, 4], [4, 4]], np.full((2, 2), 4), [[], 3]])
def test_a_ragged_list_of_widths_is_refused(width):
    with pytest.raises(MeanFieldError, match="width"):
        run_ensemble(mlp("tanh"), sigma_w=1, sigma_b=0, width=width, depth=2, networks=2)
