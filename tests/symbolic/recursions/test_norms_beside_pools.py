"""Verbs of one architecture with a trained LayerNorm beside a Pool, and with a BatchNorm before one."""

import numpy as np
import pytest

import meanfield as mf
from meanfield import BatchNorm, Dense, LayerNorm, Nonlinearity, Pool, Sequential

RELU, POOL = Nonlinearity("relu"), Pool(2, "max")
AT = {"sigma_w": 1.5, "sigma_b": 0.3}


@pytest.mark.parametrize("parts", [(LayerNorm(), RELU, POOL), (RELU, POOL, LayerNorm())])
def test_a_trained_norm_beside_a_pool_has_lines_and_correlations(parts):
    """Gains are 1 at the start: all but Θ is that of the norm without them (OpenTangent before)."""
    trained = mf.derive(Sequential((*parts, Dense())))
    bare = mf.derive(Sequential((*(LayerNorm(affine=False) if p == LayerNorm() else p for p in parts), Dense())))
    assert str(trained.critical_line()) == str(bare.critical_line())
    c, other = (t.correlations(**AT)[-1].c for t in (trained, bare))
    assert float(c) == float(other)
    run = trained.propagate(**AT, depth=300, correlation=0.5, quantities=("K", "c"))
    assert abs(run.c[-1] - float(c)) < 1e-8


def test_a_diagram_of_a_batch_norm_before_a_pool_is_that_of_runs():
    theory = mf.derive(Sequential((BatchNorm(), RELU, POOL, Dense())))
    chi = theory.phase_diagram(sigma_w=[1.0, 1.5], sigma_b=[0.0, 0.3]).chi_J
    run = theory.propagate(**AT, depth=20, quantities=("K", "J"))
    grown = np.diff(run.log_J)[-1]
    assert abs(np.log(chi).max() - grown) < 1e-9 and np.ptp(chi) < 1e-12
    assert abs(np.log(chi).max() - 1.05 * grown) > 1e-3
