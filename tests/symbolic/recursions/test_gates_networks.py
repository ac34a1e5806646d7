"""Finite networks against the theory of gates: compositions nobody has analysed, an input of finite dimension, and
planted errors."""

from __future__ import annotations

import numpy as np
import pytest

import meanfield as mf
from meanfield.empirical import run_ensemble
from meanfield.networks.architectures import mlp_mixer, resmlp, swiglu
from meanfield.networks.records import Dense, Gate, LayerNorm, Nonlinearity, Pool, Residual, Scale, Sequential


def chain(*blocks):
    return Sequential(blocks)


ORDER_ONE = Dense(sigma_w=1, sigma_b=0)
SMALL = {"sigma_w": 1.2, "sigma_b": 0.2, "depth": 6, "seed": 3, "sampler": "lazy"}
BLOCKS = {
    "a language model's": swiglu("silu"),
    "a pre-norm skip, then a maximum": chain(
        Residual(chain(LayerNorm(), Dense(), Gate("silu"), Dense(), Scale("1/2"))), Pool(2), Dense()
    ),
    "no skip": chain(Gate("relu"), Dense()),
    "a norm and a pool behind": chain(
        Gate("sigmoid", Dense(expand=2), Dense(sigma_w=2, expand=2)), LayerNorm(), Pool(2, "average"), Dense()
    ),
    "a gate in a gate": chain(LayerNorm(False), Gate("tanh"), Gate("gelu"), Dense()),
    "a nonlinearity behind": chain(Gate("silu"), Nonlinearity("tanh"), Dense()),
    "a maximum behind": chain(LayerNorm(), Gate("silu"), Pool(2), Dense()),
    "a gate in a skip in a skip": Residual(
        chain(LayerNorm(False), Residual(chain(Gate("relu"), ORDER_ONE), "1/2"), Nonlinearity("tanh"), Dense()), "3/5"
    ),
}
FAST = "a language model's"


def scores(samples, expected):
    """(mean - expected) in standard errors at every layer but the first."""
    mean, error = samples.mean(axis=0), samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    return (mean - expected)[1:] / error[1:]


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_networks_confirm_one_input(name):
    theory = mf.derive(architecture=BLOCKS[name])
    report = mf.check(theory, width=1200, networks=60, probes=8, quantities=("K", "J", "Theta"), **SMALL)
    assert report.passed and max(abs(row.z) for row in report.rows) < 4


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_networks_confirm_two_inputs(name):
    theory = mf.derive(architecture=BLOCKS[name])
    report = mf.check(theory, width=1200, networks=60, correlation=0.3, quantities=("K_ab", "c", "J_ab"), **SMALL)
    assert report.passed and max(abs(row.z) for row in report.rows) < 4


def wide(block, **more):
    given = {"sigma_w": 1.1, "sigma_b": 0.2, "width": 2048, "depth": 4, "networks": 60, "seed": 11, "probes": 4}
    return run_ensemble(block, **given | {"sampler": "lazy"} | more)


@pytest.mark.slow
def test_planted_errors_fail():
    """2 % in σ_w, u and v of the same weights, and u multiplied with φ(u + v) instead of φ(v)."""
    place = {"sigma_w": 1.1, "sigma_b": 0.2, "depth": 4}
    block = swiglu("silu")
    networks = wide(block).samples

    def worst(block, **more):
        run = mf.derive(architecture=block).propagate(**place | more)
        return [np.abs(scores(x, y)).max() for x, y in ((networks["K"], run.K), (np.exp(networks["log_J"]), run.J))]

    shared = Residual(chain(LayerNorm(), Dense(), Nonlinearity("z**2*sigmoid(z)"), Dense()))
    steeper = Residual(chain(LayerNorm(), Gate("silu", gate=Dense(sigma_w="1.5556")), Dense()))  # of variance 2
    assert max(worst(block)) < 4
    for wrong in (worst(block, sigma_w=1.122), worst(shared), worst(steeper)):
        assert min(wrong) > 6, wrong


@pytest.mark.slow
def test_an_input_of_three_dimensions():
    """Tangents that change K: u and v feel the same change, which adds to ⟨φ²⟩ and ⟨φ′²⟩."""
    for gate in (Gate("tanh"), Gate("relu", Dense(sigma_b=0), Dense(sigma_w=2))):
        for block in (chain(gate, Dense()), chain(gate, LayerNorm(False), Dense())):
            theory = mf.derive(architecture=block)
            report = mf.check(
                theory, width=2048, input_dimension=3, networks=200, probes=3, quantities=("J0",),
                sigma_w=1.2, sigma_b=0.3, depth=4, seed=5, sampler="lazy",
            )  # fmt: skip
            assert max(abs(row.z) for row in report.rows) < 4, block
            found = theory.propagate(sigma_w=1.2, sigma_b=0.3, depth=4, input_dimension=3, quantities=("J0",)).J0
            plain = theory.propagate(sigma_w=1.2, sigma_b=0.3, depth=4, quantities=("K", "J")).J * 1.2**2
            assert abs(found[-1] / plain[-1] - 1) > 0.05  # what it adds is seen


def test_presets_build_networks():
    """Those that couple tokens are measured: K, and J by probes that push every token."""
    for block in (resmlp("gelu"), mlp_mixer("gelu")):
        found = run_ensemble(
            block, sigma_w=1.0, sigma_b=0.2, width=16, depth=2, networks=2, tokens=4, batch=2, probes=2, seed=1
        )
        assert np.isfinite(found.samples["K"]).all() and np.isfinite(found.samples["log_J"]).all()
