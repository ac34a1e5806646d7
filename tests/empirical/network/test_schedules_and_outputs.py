"""Numbers of the operations of a finite network: σ's that fall with the layer, outputs of a Dense, shapes of layers."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.network.operations.operations import DenseOperation
from meanfield.empirical.network.program import operations
from meanfield.empirical.network.shapes import Shapes, check_shapes
from meanfield.networks.records import Dense, Nonlinearity, Projection, Residual, Schedule, Sequential


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
@pytest.mark.parametrize(("beta", "total"), [(1, 0), (0, 1), ("1/2", 2)])
def test_schedules(depth, beta, total):
    """σ (l − 1)^(−β/2) (L − 1)^(−δ/2) at layer l of L blocks; layer 1, of the input, and a network of one layer have
    the σ itself; a number and the network's own σ alike."""
    sigma_w = np.linspace(1.0, 2.0, depth)
    block = Sequential((Dense(sigma_w=Schedule("sigma_w", beta, total), sigma_b=Schedule(3, beta, total)),
                        Nonlinearity("tanh"), Dense()))  # fmt: skip
    first, _, last = operations(block, depth=depth, own={"sigma_w": sigma_w, "sigma_b": np.zeros(depth)})
    b, d = float(Fraction(beta)), float(Fraction(total))
    for l in range(1, depth + 1):
        factor = 1.0 if l == 1 else (l - 1) ** (-b / 2)
        factor *= 1.0 if depth == 1 else (depth - 1) ** (-d / 2)
        assert first.sigma_w[l - 1] == pytest.approx(sigma_w[l - 1] * factor, rel=1e-14)
        assert first.sigma_b[l - 1] == pytest.approx(3 * factor, rel=1e-14)
    assert last.sigma_w is last.sigma_b is None
    assert len(first.sigma_w) == depth


@pytest.mark.parametrize(
    ("expand", "basis", "number"),
    [
        (None, 7, 7), (2.0, 7, 14), (0.5, 8, 4), (1 / 3, 9, 3), (1.0, (1 << 53) - 1, (1 << 53) - 1),
        (1.0, 1 << 53, None), (0.5, 7, None), (0.0, 7, None), (-1.0, 7, None), (0.05, 7, None), (1.0 + 3e-9, 7, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("tokens", [False, True])
def test_outputs(expand, basis, number, tokens):
    """Whole numbers from 1 up to where doubles hold them all; the layer's own factor is used and named."""
    dense = DenseOperation(0, expand=None if expand is None else (9.25, expand), tokens=tokens)
    if number is not None:
        assert dense.outputs(2, basis) == number
        shape = dense.shape((basis, 5) if tokens else (5, basis), 2, (basis, basis))
        assert shape == ((number, 5) if tokens else (5, number))
        return
    with pytest.raises(MeanFieldError, match=f"of {basis} {'tokens' if tokens else 'neurons'} at layer 2"):
        dense.outputs(2, basis)


def test_operations_that_are_the_identity_are_left_out():
    """A Projection between equal widths, at every layer alike; of one layer nothing is known, and all stay."""
    plain = Sequential((Nonlinearity("tanh"), Dense()))
    done = operations(Residual(plain, 1, Projection()), depth=3)
    assert len(check_shapes(done, (8, 8, 8), 1)) == len(done) - 1
    assert check_shapes(done, (8, 8, 4), 1) == done and check_shapes(done, (8,), 1) == done
    with pytest.raises(MeanFieldError, match="A skip adds"):
        check_shapes(operations(Residual(plain, 1), depth=2), (8, 4), 1)


def test_how_much_a_layer_holds():
    """The longest signal and the most at once: a Dense of three times the neurons, two signals beside a skip."""
    carrier = Shapes((1, 4), 2)
    assert (carrier.longest, carrier.held, carrier.before) == (4, 1, (1, 4))
    carrier.save()
    carrier.save()
    carrier.add(1.0)
    assert (carrier.held, carrier.here, carrier.before) == (3, (1, 4), (1, 4))
    site = SimpleNamespace(operation=DenseOperation(0, expand=(1.0, 3.0)), layer=2, end=(1, 4))
    carrier.apply(site)
    assert (carrier.longest, carrier.here, carrier.before) == (12, (1, 12), (1, 4))
    with pytest.raises(MeanFieldError, match="A skip adds"):
        carrier.add(1.0)
