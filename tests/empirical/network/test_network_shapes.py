"""How long vectors get in a network, which streams its matrices are drawn from, and kernels of one layer."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from meanfield.empirical import Ensemble
from meanfield.empirical.cuda import device
from meanfield.empirical.network.program import operations
from meanfield.kernels.pairs import side_of
from meanfield.networks.records import Dense, Nonlinearity, Pool, Projection, Residual, Sequential

WIDE = Sequential((Nonlinearity("gelu"), Dense(expand=2), Pool(2, "max")))


@pytest.mark.parametrize(
    ("widths", "longest"), [([4, 4, 40], 80), ([4, 40, 4], 80), ([40, 4, 4], 40), ([5, 6, 7], 14), ([7], 7)]
)
def test_the_longest_vector(widths, longest):
    """Twice the neurons of the layer that is made, beside the widths themselves; one is held, and one is made of it."""
    ensemble = Ensemble(WIDE, sigma_w=1, sigma_b=0, width=widths, depth=len(widths))
    assert device._extent(ensemble) == (longest, 2)


def test_a_skip_holds_one_vector_more():
    skip = Residual(WIDE, 1, Projection())
    assert device._extent(Ensemble(skip, sigma_w=1, sigma_b=0, width=[4, 4, 40], depth=3)) == (80, 3)
    assert device._extent(Ensemble(WIDE, sigma_w=1, sigma_b=0, width=4, depth=2, input_dimension=50)) == (50, 2)


def test_matrices_are_numbered_from_both_ends():
    """Dense count up from 0 and projections down from 2¹³ - 1: their random streams stay what they were, and those of
    Dense are the same with projections and without."""

    def chain(shortcut):
        first = Residual(Sequential((Nonlinearity("tanh"), Dense(expand=2), Dense())), 1, shortcut)
        return Sequential((first, Residual(Dense(), 1, shortcut)))

    def numbers(block):
        found = [(type(one).__name__, one.ordinal) for one in operations(block) if hasattr(one, "ordinal")]
        return [n for kind, n in found if kind == "DenseOperation"], [n for kind, n in found if kind == "Project"]

    assert numbers(chain(Projection())) == ([0, 1, 2], [8191, 8190])
    assert numbers(chain(None)) == ([0, 1, 2], [])


def test_a_side_of_one_layer_knows_no_block():
    """K = σ_w² |x|²/N_0 at layer 1, an input of zeros included: no block is asked for."""

    def fail(*_):
        raise AssertionError("a network of one layer has no block to pass")

    line = (2.25, 0.0)
    alone = SimpleNamespace(begin=line, lines={"K_ab": line}, depth=1, block=object(), refuse_zero=fail, brought=fail)
    alone.alone = lambda K: {"K": K}
    side = side_of(alone, np.array([[0.0, 0.0], [3.0, 4.0], [1.0, -1.0]]))
    assert pytest.approx([0.0, 2.25 * 12.5, 2.25]) == side.K and side.brought is None
