"""Kernels of a norm behind a norm, whose averages hold averages that are numbers, against Gauss sums of their own."""

import numpy as np
import pytest
from scipy.special import erf

import meanfield as mf
from meanfield import Dense, LayerNorm, Nonlinearity, Sequential

LAYERS = 3
WEIGHT, BIAS = 1.5, 0.2
INPUTS = np.random.default_rng(1).normal(size=(4, 8))
X, W = np.polynomial.legendre.leggauss(400)
X, W = 9 * X, 9 * W * np.exp(-((9 * X) ** 2) / 2) / np.sqrt(2 * np.pi)
OUTER = {
    "sin": np.sin,
    "tanh": np.tanh,
    "gelu": lambda u: u * (1 + erf(u / np.sqrt(2))) / 2,
}


def gelu(u):
    return u * (1 + erf(u / np.sqrt(2))) / 2


def own_kernel(phi, centre=True):
    """K of the blocks LayerNorm → GELU → LayerNorm → φ → Dense: behind the first norm z has variance 1."""
    mean = (W * gelu(X)).sum() if centre else 0.0
    size = np.sqrt((W * gelu(X) ** 2).sum() - mean**2)

    def psi(u):
        return phi((gelu(u) - mean) / size)

    K = BIAS**2 + WEIGHT**2 * INPUTS @ INPUTS.T / INPUTS.shape[1]
    for _ in range(LAYERS - 1):  # the first layer is the Dense of the inputs
        root = np.sqrt(np.diag(K))
        new = np.empty_like(K)
        for i in range(len(K)):
            for j in range(len(K)):
                c = 1.0 if i == j else K[i, j] / (root[i] * root[j])
                other = c * X[:, None] + np.sqrt(max(1 - c * c, 0)) * X
                new[i, j] = BIAS**2 + WEIGHT**2 * (W[:, None] * W * psi(X)[:, None] * psi(other)).sum()
        K = new
    return K


def block(phi, affine):
    return Sequential(
        (LayerNorm(affine=affine), Nonlinearity("gelu"), LayerNorm(affine=affine), Nonlinearity(phi), Dense())
    )


@pytest.mark.slow_with("gelu-False", "tanh-True")
@pytest.mark.parametrize("phi, affine", [("sin", False), ("tanh", True), ("gelu", False)])
def test_kernels_behind_two_norms_are_those_of_gauss_sums(phi, affine):
    found = mf.derive(block(phi, affine)).kernel(INPUTS, sigma_w=WEIGHT, sigma_b=BIAS, depth=LAYERS)
    assert np.abs(found.K - own_kernel(OUTER[phi])).max() < 1e-10
    assert np.abs(found.K - own_kernel(OUTER[phi], centre=False)).max() > 1e-2  # without the second norm's mean


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["elu", "hard_swish"])
def test_pieces_that_meet_behind_a_norm_are_seen_to_meet(phi):
    """The pieces of φ(u) meet where u = (GELU(z) - m)/s is 0 (and ±3), at roots that have no closed form."""
    t = mf.derive(block(phi, True))
    K = t.propagate(sigma_w=WEIGHT, sigma_b=BIAS, depth=LAYERS, quantities=("K",)).K[-1]
    x, w = np.polynomial.legendre.leggauss(4000)
    z, w = 12 * x, 12 * w * np.exp(-((12 * x) ** 2) / 2) / np.sqrt(2 * np.pi)
    u = gelu(z) - (w * gelu(z)).sum()
    u /= np.sqrt((w * u**2).sum())
    f = {"elu": np.where(u > 0, u, np.expm1(np.minimum(u, 0))), "hard_swish": u * np.clip(u + 3, 0, 6) / 6}[phi]
    assert abs(K - (BIAS**2 + WEIGHT**2 * (w * f**2).sum())) < 1e-6
    assert abs(K - (BIAS**2 + WEIGHT**2 * (w * f**2).sum() / 1.01)) > 1e-3


def test_a_step_behind_a_norm_is_not_taken_for_a_meeting():
    """Control: φ that jumps by 1e-9 at 0 jumps behind a norm, too."""
    broken = "exp(z) - 1 if z < 0 else z + 1e-9"
    with pytest.raises(mf.MeanFieldError, match="jump"):
        mf.derive(block(broken, True)).propagate(
            sigma_w=WEIGHT, sigma_b=BIAS, depth=2, correlation=0.5, quantities=("K", "Theta")
        )


@pytest.mark.slow
def test_phases_behind_a_norm_count_in_standard_deviations():
    """sin(2u) + u/2 of u behind a LayerNorm on GELU: its phase is bounded at every K, and one layer of two inputs is
    that of a Gauss sum."""
    t = mf.derive(Sequential((Nonlinearity("gelu"), LayerNorm(), Nonlinearity("sin(2*z) + z/2"), Dense())))
    run = t.propagate(sigma_w=1.5, sigma_b=0.2, input_norm=300, correlation=0.5, depth=2, quantities=("K", "c"))
    K, c = run.K[0], run.c[0]
    x, w = np.polynomial.legendre.leggauss(1500)
    x, w = 9 * x, 9 * w * np.exp(-((9 * x) ** 2) / 2) / np.sqrt(2 * np.pi)

    def f(z):
        mean = (w * gelu(np.sqrt(K) * x)).sum()
        u = (gelu(z) - mean) / np.sqrt((w * gelu(np.sqrt(K) * x) ** 2).sum() - mean**2)
        return np.sin(2 * u) + u / 2

    other = np.sqrt(K) * (c * x[:, None] + np.sqrt(1 - c * c) * x)
    both = (w * f(np.sqrt(K) * x) * (f(other) * w).sum(axis=1)).sum()
    one = (w * f(np.sqrt(K) * x) ** 2).sum()
    assert abs(run.K[1] - (0.04 + 2.25 * one)) < 1e-6
    assert abs(run.c[1] - (0.04 + 2.25 * both) / (0.04 + 2.25 * one)) < 1e-6
    assert abs(run.c[1] - (2.25 * both) / (2.25 * one)) > 1e-3  # without the bias


@pytest.mark.slow
@pytest.mark.parametrize("inner, outer", [("elu", "clip(z, -1, 2)"), ("gelu", "sin")])
def test_runs_of_two_inputs_behind_two_norms_are_those_of_kernels(inner, outer):
    """Pieces of the outer function switch where log(mean - scale + 1) is: a number, behind a norm that makes variances
    1 (which of two comes first was not decided before)."""
    rows = INPUTS[:2] / np.sqrt((INPUTS[:2] ** 2).mean(axis=1))[:, None]
    theory = mf.derive(Sequential((LayerNorm(), Nonlinearity(inner), LayerNorm(), Nonlinearity(outer), Dense())))
    at = {"sigma_w": WEIGHT, "sigma_b": BIAS, "depth": LAYERS}
    kernel = theory.kernel(rows, **at)
    run = theory.propagate(**at, correlation=float(rows[0] @ rows[1] / 8), quantities=("K", "K_ab"))
    assert abs(run.K_ab[-1] - kernel.K[0, 1]) < 1e-12
    assert abs(run.K_ab[-1] - kernel.K[0, 0]) > 1e-2
