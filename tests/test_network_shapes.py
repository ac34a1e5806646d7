"""How long vectors get in a network, which streams its matrices are drawn from, and kernels of one layer."""

from __future__ import annotations

import numpy as np
import pytest

import meanfield as mf
from meanfield.architecture import Dense, Nonlinearity, Pool, Projection, Residual, Sequential
from meanfield.empirical import Ensemble
from meanfield.empirical.cuda import device
from meanfield.empirical.network.program import operations
from meanfield.results import MeanFieldError

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
        return [n for kind, n in found if kind == "Affine"], [n for kind, n in found if kind == "Project"]

    assert numbers(chain(Projection())) == ([0, 1, 2], [8191, 8190])
    assert numbers(chain(None)) == ([0, 1, 2], [])


def test_a_kernel_of_one_layer_knows_no_block():
    """K = σ_w² ⟨x, y⟩/N_0 at layer 1: an input of zeros is answered there, and refused at layer 2
    of a block that cannot divide by its norm."""
    X = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, -1.0]])
    found = mf.derive("relu", norm="pre").kernel(X, sigma_w=1.5, sigma_b=0, depth=1)
    assert np.abs(found.K - 2.25 * X @ X.T / 2).max() < 1e-14
    with pytest.raises(MeanFieldError, match="acts on neurons that are all 0 at 1 of 2"):
        mf.derive("relu", norm="pre").kernel(X[:2], sigma_w=1.5, sigma_b=0, depth=2)
