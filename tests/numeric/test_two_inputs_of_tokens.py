"""What tokens of two inputs have in common: of one input given twice it is what the input has with itself."""

from __future__ import annotations

import numpy as np
import pytest

import meanfield as mf
from meanfield import Dense, Gate, LayerNorm, Nonlinearity, Pool, Residual, Sequential
from meanfield.networks import Attention, RMSNorm

A = Attention(8)
AT = dict(sigma_w=1.1, sigma_b=0.2, tokens=4, correlation=0.2, c_same=1, c_other=0.2)
SHARED = ("K", "K_ab", "K_same", "K_other")
BLOCKS = {
    "tanh": (Nonlinearity("tanh"), A, Dense()),
    "gate": (Gate("silu"), A, Dense()),
    "gate behind a trained norm": (Gate("silu"), RMSNorm(), A, Dense()),
    "gate behind a LayerNorm": (Gate("silu"), LayerNorm(), A, Dense()),
    "gelu behind a norm": (Nonlinearity("gelu"), RMSNorm(), A, Dense()),
    "pre-LN": (Residual(Sequential((LayerNorm(), A, Dense())), "1/2"),),
}


def assert_one(run, more=1.0):
    off = np.abs(run.K_same * more / run.K - 1).max(), np.abs((run.K_other - run.K_ab) / run.K).max()
    assert max(off) < 1e-9, f"off by {off}"


@pytest.mark.parametrize("name", BLOCKS)
def test_one_input_given_twice(name):
    """Rounding puts C above V where both are one: nan, and a "divergence", before."""
    run = mf.derive(Sequential(BLOCKS[name])).propagate(depth=4, quantities=SHARED, **AT)
    assert_one(run)
    with pytest.raises(AssertionError, match="off by"):
        assert_one(run, 1 + 1e-8)


def test_two_inputs_that_come_together_do_not_diverge():
    theory = mf.derive(Sequential(BLOCKS["pre-LN"]))
    at = dict(sigma_w=0.8, sigma_b=0.3, depth=160, correlation=0.2, tokens=4)
    run = theory.propagate(c_same=0.5, c_other=0.1, quantities=("K_same",), **at)
    alone = theory.propagate(quantities=("K",), **at)
    assert pytest.approx(alone.K, rel=1e-12) == run.K and run.status is not mf.Status.DIVERGES
    assert run.K_same[-1] == pytest.approx(run.K[-1], rel=1e-9) and run.K_same[0] < 0.9 * run.K[0]


@pytest.mark.parametrize(
    "block, what",
    [
        ((Nonlinearity("tanh"), Pool(2, "average"), A, Dense()), "through a Pool"),
        ((A, Dense(), Nonlinearity("relu"), Pool(3), Dense()), "through a Pool"),
        ((Residual(Dense(axis="tokens")), A, Dense()), "through a Dense on tokens"),
    ],
)
def test_what_both_inputs_share_and_is_not_derived_is_refused(block, what):
    """Pooled neurons, or one mixing matrix, of both inputs were taken as independent: biases alone were left."""
    theory = mf.derive(Sequential(block))
    with pytest.raises(mf.MeanFieldError, match=f"have in common is not derived {what}"):
        theory.propagate(depth=2, quantities=("K_same", "K_other"), **AT)
    own = {k: v for k, v in AT.items() if not k.startswith("c_")}
    assert np.isfinite(theory.propagate(depth=2, quantities=("K", "K_ab"), **own).K).all()
