"""Bad paths, factors, names and products end in a sentence, not in Python's own error."""

from dataclasses import dataclass

import numpy as np
import pytest

import meanfield as mf
from meanfield.networks import Block

RUN = mf.derive("tanh").propagate(sigma_w=1.2, sigma_b=0.1, depth=3)
CALLS = {
    "a factor that is no number": (lambda: mf.parametrization("mup", eps=float("nan")), "factor eps .* but nan"),
    "an infinite factor": (lambda: mf.parametrization("mup", decay=float("inf")), "factor decay .* but inf"),
    "a file by its number": (lambda: RUN.to_json(3), "must be the path of a file, but 3"),
    "a result as no file": (lambda: RUN.save(None), "saved as must be the path of a file, but None"),
    "a page by its number": (lambda: mf.derive("tanh").explore(3), "The page of an explorer must be the path"),
    "a plot of a number": (lambda: RUN.plot(quantities=3), "are names, but 3"),
    "a product with a text": (
        lambda: mf.derive("erf").kernel_operator([[1.0], [2.0]], sigma_w=1, sigma_b=0, depth=2) @ "x",
        "an array of numbers, but 'x'",
    ),
    "a gain that is none": (lambda: mf.gains("silu").decimals("foo"), "No number here is called 'foo'"),
}


@pytest.mark.parametrize("which", CALLS)
def test_a_sentence(which):
    call, words = CALLS[which]
    with pytest.raises(mf.MeanFieldError, match=words):
        call()


def test_what_is_right_is_taken(tmp_path):
    """Control: the same calls with what they ask for."""
    assert RUN.to_json(tmp_path / "run.json") and mf.gains("silu").decimals("mean")[0].isdigit()
    operator = mf.derive("erf").kernel_operator([[1.0], [2.0]], sigma_w=1, sigma_b=0, depth=2)
    assert np.allclose(operator @ ["1", "0"], operator @ [1.0, 0.0])
    assert mf.parametrization("mup", eps="1/n") is not None


@dataclass(frozen=True, repr=False)
class Misspelt(Block):
    """A record whose rule asks for a method that is not there."""


def test_an_attribute_that_a_rule_misses_is_named():
    mf.symbolic.rule(Misspelt)(lambda block, x, walk: walk.settled(x))
    theory = mf.derive(mf.Sequential((mf.Nonlinearity("tanh"), Misspelt(), mf.Dense())))
    with pytest.raises(AttributeError, match="no attribute 'settled'"):
        theory.recursion("K")
    with pytest.raises(AttributeError, match="A Theory has no 'one_inputs'"):
        theory.one_inputs  # noqa: B018
