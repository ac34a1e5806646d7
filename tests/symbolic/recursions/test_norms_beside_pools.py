"""Verbs of one architecture with a trained LayerNorm beside a Pool, and with a BatchNorm before one."""

import numpy as np
import pytest
from scipy.stats import norm

import meanfield as mf
from meanfield import BatchNorm, Dense, LayerNorm, Nonlinearity, Pool, Sequential

RELU, POOL = Nonlinearity("relu"), Pool(2, "max")
AT = {"sigma_w": 1.5, "sigma_b": 0.3}


@pytest.mark.slow
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


def largest_of_two(f, slope):
    """(K - K_ab, J's factor) at σ_w = 1 of the largest of two nodes f(y), y two independent normal numbers: Gauss sums
    over the quadrants' halves y_1 > y_2, where the largest of a rising f sits at y_1."""
    x, w = np.polynomial.legendre.leggauss(200)
    y, w = np.concatenate([5 * x - 5, 5 * x + 5]), 5 * np.tile(w, 2)  # either side of a kink at 0
    w = w * np.exp(-(y**2) / 2) / np.sqrt(2 * np.pi)
    share = 2 * w * norm.cdf(y)  # of y_1, both orders
    mean, second = (share * f(y)).sum(), (share * f(y) ** 2).sum()
    apart = second - mean**2
    return apart, (share * slope(y) ** 2).sum() / apart


@pytest.mark.parametrize(
    "phi, f, slope",
    [("relu", lambda y: np.maximum(y, 0), lambda y: y > 0), ("tanh", np.tanh, lambda y: 1 / np.cosh(y) ** 2)],
)
def test_phases_of_a_batch_norm_before_a_pool_are_those_of_gauss_sums(phi, f, slope):
    """Two inputs of a batch are independent behind its norm, and so are their maxima (refused before)."""
    theory = mf.derive(Sequential((BatchNorm(), Nonlinearity(phi), POOL, Dense())))
    apart, growth = largest_of_two(f, slope)
    found = theory.phase(**AT)
    assert abs(float(found.fixed_point.K.value) - 1.5**2 * apart) < 1e-10
    assert abs(float(found.chi_J.value) - growth) < 1e-10
    assert abs(float(found.fixed_point.K.value) - 1.5**2 * (apart + 0.3**2)) > 1e-2  # control: with the biases
    assert abs(float(theory.depth_law("K", **AT).expr) - float(found.fixed_point.K.value)) < 1e-12


@pytest.mark.slow
def test_averages_without_enclosure_settle_behind_a_batch_norm():
    """GELU goes up and down: its maxima are doubles, and the phase is measured."""
    theory = mf.derive(Sequential((BatchNorm(), Nonlinearity("gelu"), POOL, Dense())))
    found, run = theory.phase(**AT), theory.propagate(**AT, depth=8, quantities=("K", "K_ab", "J"))
    assert found.status is mf.Status.MEASURED
    assert abs(float(found.fixed_point.K.value) - (run.K - run.K_ab)[-1]) < 1e-9
    assert abs(np.log(float(found.chi_J.value)) - np.diff(run.log_J)[-1]) < 1e-9
    with pytest.raises(mf.MeanFieldError, match="inputs act on each other"):
        theory.depth_law("c", **AT)  # it asked for a number "c0"
