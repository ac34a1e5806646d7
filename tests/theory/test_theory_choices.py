"""What `derive` and `recursion` make of their choices, one at a time: skips, presets, rates of training."""

from __future__ import annotations

import re

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import K, Theta, Z, sigma_b, sigma_w, z
from meanfield.networks.architectures import decays, full_residual
from meanfield.networks.records import Dense, LayerNorm, Nonlinearity, Param, Residual, Schedule, Sequential, mlp
from meanfield.symbolic.averages.node import average
from meanfield.theory.depth_limits.inputs_apart import oddness

PLAIN = mlp(mf.activation("tanh"))


def refused(words: str):
    return pytest.raises(mf.MeanFieldError, match=re.escape(words))


@pytest.mark.parametrize(("lambda_w", "lambda_b"), [(None, 2), ("1/3", None), ("1/3", 2), (0, 0), (None, None)])
def test_either_rate_alone_sets_the_tangent_kernel_of_its_parameters(lambda_w, lambda_b):
    """Θ' = λ_w⟨φ²⟩ + λ_b + σ_w²⟨φ′²⟩Θ, and of a rate that is not given σ² in its place."""
    found = mf.derive("tanh").recursion("Theta", lambda_w=lambda_w, lambda_b=lambda_b)["Theta"]
    rate_w = sigma_w**2 if lambda_w is None else sp.Rational(lambda_w)
    rate_b = sigma_b**2 if lambda_b is None else sp.Rational(lambda_b)
    square, slopes = average(sp.tanh(z) ** 2, K), average(sp.sech(Z[0]) ** 4, K)
    assert sp.expand(found - (rate_w * square + rate_b + sigma_w**2 * slopes * Theta)) == 0


SKIPS = [  # (keywords, strength)
    ({}, 0), ({"residual": False}, 0), ({"residual": True}, 1), ({"residual": np.True_}, 1), ({"residual": 0}, 0),
    ({"residual": "1/2"}, "1/2"), ({"residual": 2}, 2), ({"mu": "1/2"}, "1/2"), ({"mu": 0}, 0),
    ({"residual": True, "mu": "1/3"}, "1/3"), ({"mu": "mu"}, "mu"), ({"residual": False, "mu": 3}, 3),
]  # fmt: skip


@pytest.mark.parametrize(("given", "strength"), SKIPS, ids=str)
def test_the_skip_that_residual_and_mu_ask_for(given, strength):
    block = mf.derive("tanh", **given).block
    assert block == (PLAIN if strength == 0 else Residual(PLAIN, strength))
    preset = mf.derive("tanh", architecture="resnet", **given).block
    own = 1 if strength == 0 and "mu" not in given else strength  # a residual network has a skip unless mu=0
    assert preset == (PLAIN if own == 0 else Residual(PLAIN, own))


def test_skips_that_are_refused():
    for given, words in (
        ({"residual": None}, "residual must be True, False or the strength of the skip"),
        ({"residual": "yes"}, "residual must be True, False or the strength of the skip"),
        ({"residual": 2, "mu": 3}, "both set the skip strength"),
        ({"residual": -1}, "The skip strength mu must be ≥ 0"),
        ({"architecture": "resnet", "norm": "pre"}, "norm='pre' was given, but the architecture resnet knows mu"),
        ({"architecture": "preln", "weights": "uniform"}, "weights='uniform' was given, but the architecture preln"),
        ({"architecture": "no such"}, "no such"),
    ):
        with refused(words):
            mf.derive("tanh", **given)
    with refused("derive needs an activation"):
        mf.derive(None, architecture="resnet")


def test_presets_are_the_blocks_that_they_name():
    phi = Nonlinearity(mf.activation("tanh"))
    branch = Sequential((phi, Dense()))
    assert mf.derive("tanh", architecture="resnet").block == Residual(branch, 1)
    assert mf.derive("tanh", architecture="mlp", norm="act").block == Sequential((phi, LayerNorm(), Dense()))
    normed = mf.derive("tanh", architecture="preln", mu="1/2").block
    assert normed == Residual(Sequential((LayerNorm(), *branch.blocks)), "1/2")
    assert mf.derive("swish", architecture="resnet", beta=2).block.branch.blocks[0].activation.expression.has(z)
    assert decays("v=1/2, w=0") == {"beta_v": "1/2", "beta_w": "0"}
    assert decays("a=1", "total") == {"total_a": "1"}


def test_powers_of_depth_in_a_full_residual_block():
    """A variance that falls as k^{-β} L^{-total}; with both exponents 0 it is the plain number."""
    letters = {"w": (0, "sigma_w"), "b": (0, "sigma_b"), "v": (2, "sigma_w"), "a": (2, "sigma_b")}
    plain = full_residual("tanh").block.branch.blocks
    for letter, (place, side) in letters.items():
        assert getattr(plain[place], side) == Param(f"sigma_{letter}")
        for power, exponents in (("beta", ("1/2",)), ("total", (0, "1/2"))):
            schedule = Schedule(f"sigma_{letter}", *exponents)
            blocks = full_residual("tanh", **{f"{power}_{letter}": "1/2"}).block.branch.blocks
            assert getattr(blocks[place], side) == schedule
            assert sum(a != b for a, b in zip(blocks, plain)) == 1
    assert full_residual("tanh", beta_v="b").block.branch.blocks != plain
    for name in ("beta_v", "beta_w", "beta_a", "beta_b", "total_v", "total_w"):
        for bad in (-1, "-1/9", "inf", "nan"):
            with pytest.raises(mf.MeanFieldError, match=name):
                full_residual("tanh", **{name: bad})


def test_the_source_of_a_theory_is_that_of_its_own_quantities():
    theory = mf.derive("relu")
    assert theory.source() == theory.source("K", "J") == theory.source(*theory.default_quantities)
    assert theory.source() != theory.source("K", "J", "Theta")


def test_whether_opposite_inputs_stay_so_is_said_only_where_it_is_proved():
    """True of an odd φ without bias, False behind a bias, None where nothing proves either, as of
    a ReLU without bias."""
    values = {"sigma_w": sp.Integer(1), "sigma_b": sp.Integer(0)}
    biased = values | {"sigma_b": sp.Rational(1, 10)}
    assert oddness(mf.derive("tanh"), values) is True
    assert oddness(mf.derive("tanh"), biased) is oddness(mf.derive("relu"), biased) is False
    assert oddness(mf.derive("relu"), values) is None
