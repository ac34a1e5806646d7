"""Numbers that records of an architecture hold: read exactly, and refused just beyond what they may be."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest

from meanfield import Dense, Gate, LayerNorm, MeanFieldError, Network, Nonlinearity, Pool, Residual, Scale, Sequential
from meanfield.networks.architectures import full_residual
from meanfield.networks.folds import activations_of, input_weights, parts
from meanfield.networks.records import AffineNorm, BatchNorm, Param, Schedule, exact, mlp


def refused(words: str):
    return pytest.raises(MeanFieldError, match=re.escape(words))


EXACT = {"2": 2, "sqrt(0)": 0, "1/3": Fraction(1, 3), "0.125": Fraction(1, 8), "-2**3": -8,
         "sqrt(9/4)": Fraction(3, 2),
         "4**(1/2)": 2, "(1/4)**(1/2)": Fraction(1, 2), "3 - 5*2": -7, "+1e-3": Fraction(1, 1000), "1_000": 1000,
         "2^3": 8, "(1 - 2)/(3 + 1)": Fraction(-1, 4), "2**-64": Fraction(1, 2**64), "2**64": 2**64}  # fmt: skip
REAL = {"pi/2": math.pi / 2, "sqrt(2)": 2**0.5, "2**(1/3)": 2 ** (1 / 3), "exp(1) - E": 0.0,
        "tanh(1/2)": math.tanh(0.5),
        "-sqrt(3)/2": -(3**0.5) / 2, "E**2": math.e**2, "sqrt(8/9)": (8 / 9) ** 0.5}  # fmt: skip


@pytest.mark.parametrize("text", [*EXACT, *REAL])
def test_numbers_of_records(text):
    found = exact(text, "mu")
    if text in EXACT:
        assert found == EXACT[text] and type(found) in (int, Fraction)
    else:
        assert float(found) == pytest.approx(REAL[text], abs=1e-15) and str(found) == text
        assert (found > 0.5) is (REAL[text] > 0.5) and (found < 0.5) is (REAL[text] < 0.5)
        same = float(found)
        assert found >= same and found <= same and not found < same and not found > same


def test_what_is_no_number_of_a_record():
    for text in ("2**65", "2**-65", "(-8)**(1/3)", "1/0", "sqrt(-1)", "10 // 3", "foo(2)", "2*1e4000", "2**64**2",
                 "exp(1000)", "9" * 201, "[1]", "((2**64)**64)*2"):  # fmt: skip
        with refused("mu must be a finite number or a symbol's name"):
            exact(text, "mu")
    for name in ("K", "Depth", "sigma_w", "Theta", "depth", "z", "nan"):
        with refused("mu was to be"):
            exact(name, "mu")
    assert exact("mu", "mu") == Param("mu") and exact(" g ", "mu") == Param("g") and exact(2.0, "mu") == 2


def test_records_to_the_edges_of_their_numbers():
    assert Dense(expand="1/2").expand == Fraction(1, 2) and Scale(0).factor == 0 and Residual(Dense(), 0).mu == 0
    assert Pool("2", "max").size == 2 and Schedule(0, 0).total == 0 and Dense(sigma_w="sigma_w").is_plain
    assert Dense("orthogonal").is_plain and not Dense(expand=2).is_plain and not Dense(sigma_b=0).is_plain
    for make, words in (
        (lambda: Dense(expand=0), "The factor expand of a Dense must be > 0"),
        (lambda: Scale(-1), "The factor of a Scale must be ≥ 0"),
        (lambda: Residual(Dense(), "-1/2"), "The skip strength mu must be ≥ 0"),
        (lambda: Schedule(-1, 0), "The value of a Schedule must be ≥ 0"),
        (lambda: Schedule(1, -1), "The exponent beta of a Schedule must be ≥ 0"),
        (lambda: Schedule(1, 1, "-1/9"), "The exponent total of a Schedule must be ≥ 0"),
        (lambda: Pool(1), "changes nothing; leave it out"),
        (lambda: Pool(True), "a whole number from 2"),
        (lambda: Dense("normal"), "Unknown weights 'normal': did you mean 'gaussian'"),
        (lambda: Gate("silu", Dense(axis="tokens")), "The value of a Gate mixes neurons"),
        (lambda: Gate("silu", Dense(expand=2)), "its value has expand = 2 and its gate 1"),
        (lambda: Gate("silu", LayerNorm()), "The value of a Gate is a Dense"),
        (lambda: Network(Dense(), Dense(expand=2)), "The input layer of a Network is a Dense"),
        (lambda: Network(Dense(), Dense(axis="tokens")), "The input layer of a Network is a Dense"),
        (lambda: Network(Dense(), Dense(sigma_b=Schedule(1, 1))), "which counts the blocks after it"),
        (lambda: Network(Network(Dense())), "is a whole network with its input layer"),
        (lambda: Residual(Dense(), 1, "z"), "The shortcut of a Residual must be a block"),
        (lambda: Sequential(3), "A Sequential holds blocks"),
        (lambda: Nonlinearity(Dense()), "A Nonlinearity holds an activation's name"),
        (lambda: Nonlinearity(3), "A Nonlinearity holds an activation's name"),
        (lambda: LayerNorm("yes"), "affine must be True or False"),
        (lambda: BatchNorm(1), "affine must be True or False"),
        (lambda: mlp("tanh", norm="post"), "Unknown norm 'post'. A LayerNorm behind the skip"),
        (lambda: full_residual("tanh", beta_w=-1), "must be ≥ 0 (variances fall with depth)"),
    ):
        with refused(words):
            make()


def test_the_parts_of_a_block_in_order():
    gate, short = Gate("silu", Dense(sigma_b=0), Dense()), Sequential((AffineNorm(), Nonlinearity("relu")))
    block = Sequential((Residual(Sequential((LayerNorm(), gate)), 1, short), Dense("orthogonal")))
    found = list(parts(Network(block)))
    assert [type(p).__name__ for p in found] == [
        "Dense", "AffineNorm", "Nonlinearity", "LayerNorm", "Dense", "Dense", "Nonlinearity", "Dense"]  # fmt: skip
    assert found[4] == Dense(sigma_b=0) and activations_of(block) == ("relu", "silu")
    assert input_weights(block) == "gaussian" and input_weights(Dense("mixed")) == "gaussian"
    for law in ("orthogonal", "uniform", "gaussian"):
        assert input_weights(mlp("tanh", weights=law)) == law
    assert mlp("tanh", norm="pre").blocks[0] == LayerNorm() and mlp("tanh", norm="act").blocks[1] == LayerNorm()
    assert mlp("tanh", 0) == mlp("tanh") and mlp("tanh", "1/2").mu == Fraction(1, 2)
