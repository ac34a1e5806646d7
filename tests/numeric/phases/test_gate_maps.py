"""Phases of networks whose Gate has a Dense of its own before a Nonlinearity or a Pool, against sums of their own."""

import numpy as np
import pytest

import meanfield as mf
from meanfield import Dense, Gate, LayerNorm, Nonlinearity, Pool, Sequential

X, W = np.polynomial.legendre.leggauss(600)
X, W = 9 * X, 9 * W * np.exp(-((9 * X) ** 2) / 2) / np.sqrt(2 * np.pi)
BOTH = W[:, None] * W
AT = {"sigma_w": 1.5, "sigma_b": 0.3}
GATED = Sequential((Gate("z"), Nonlinearity("tanh"), Dense()))


def follow(own_dense: bool = True) -> tuple[float, float]:
    """(K*, χ_J*) of tanh(g·u), where both Dense of the gate have variance V = σ_w²K + σ_b² (a planted error: K), by a
    Gauss sum."""
    w2, b2 = AT["sigma_w"] ** 2, AT["sigma_b"] ** 2
    K = 1.4
    for _ in range(40):
        V = w2 * K + b2 if own_dense else K
        product = V * X[:, None] * X
        K = b2 + w2 * (BOTH * np.tanh(product) ** 2).sum()
    V = w2 * K + b2
    product = V * X[:, None] * X
    slopes = (1 - np.tanh(product) ** 2) ** 2 * V * (X[:, None] ** 2 + X**2)
    return K, w2 * w2 * (BOTH * slopes).sum()


def test_a_gates_own_dense_is_in_the_fixed_point():
    theory, (K, chi) = mf.derive(GATED), follow()
    phase, points = theory.phase(**AT), theory.fixed_points(**AT)
    assert abs(float(phase.fixed_point.K) - K) < 1e-4 and abs(float(phase.chi_J) - chi) < 1e-3
    assert len(points) == 1 and abs(float(points[0].K) - K) < 1e-4
    assert abs(float(phase.fixed_point.K) - theory.propagate(**AT, depth=200).K[-1]) < 1e-9
    assert abs(float(phase.fixed_point.K) - follow(own_dense=False)[0]) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("block", [GATED, Sequential((LayerNorm(affine=False), Gate("relu"), Pool(2, "max"), Dense()))])
def test_phases_and_runs_end_at_one_K_and_c(block):
    theory = mf.derive(block)
    run = theory.propagate(**AT, depth=120, correlation=0.5, quantities=("K", "c"))
    assert abs(float(theory.phase(**AT).fixed_point.K) - run.K[-1]) < 1e-8
    inside = [p.c for p in theory.correlations(**AT) if float(p.c) < 1]
    assert len(inside) == 1 and abs(float(inside[0]) - run.c[-1]) < 1e-8


def test_what_asks_for_one_dense_says_so():
    with pytest.raises(mf.MeanFieldError, match=r"critical_line\(\) too, where the block has one Dense"):
        mf.derive(GATED).critical_line()
