"""Gradients of kernels of scikit-learn by log σ_w and log σ_b: in the order of theta, one column a free number.

Of one layer the kernel is σ_w² x·y/N + σ_b², by hand; deeper ones are differentiated numerically in the slow tests of
`test_kernel_blocks`.
"""

from __future__ import annotations

import numpy as np
import pytest

import meanfield as mf

SIGMA_W, SIGMA_B = 1.4, 0.2


def by_hand(X):
    """The derivatives by log σ_w and by log σ_b of one layer's kernel."""
    return {"sigma_w": 2 * SIGMA_W**2 * X @ X.T / X.shape[1], "sigma_b": np.full((len(X),) * 2, 2 * SIGMA_B**2)}


def assert_gradient(kernel, X, expected):
    """Column i is the derivative by theta[i], as scikit-learn's optimizer reads it."""
    names = [h.name for h in kernel.hyperparameters if not h.fixed]
    _, found = kernel(X, eval_gradient=True)
    assert found.shape[2] == len(names) == len(kernel.theta)
    for i, name in enumerate(names):
        gap = np.abs(found[:, :, i] - expected[name]).max()
        assert gap < 1e-12, f"column {i} of the gradient is not the derivative by log {name}: {gap:.1e} away"


@pytest.mark.fast_with("sigma_w")
@pytest.mark.parametrize("free", ["both", "sigma_w", "sigma_b"])
def test_columns_are_in_the_order_of_theta(free):
    X = np.random.default_rng(1).standard_normal((6, 3))
    fixed = {} if free == "both" else {f"sigma_{'b' if free == 'sigma_w' else 'w'}_bounds": "fixed"}
    kernel = mf.nngp(mf.derive("erf"), sigma_w=SIGMA_W, sigma_b=SIGMA_B, depth=1, **fixed)
    expected = by_hand(X)
    assert_gradient(kernel, X, expected)
    at = dict(zip((h.name for h in kernel.hyperparameters if not h.fixed), np.exp(kernel.theta)))
    assert at == pytest.approx({n: {"sigma_w": SIGMA_W, "sigma_b": SIGMA_B}[n] for n in at}, rel=1e-12)
    swapped = {"sigma_w": expected["sigma_b"], "sigma_b": expected["sigma_w"]}
    with pytest.raises(AssertionError, match="is not the derivative by log"):
        assert_gradient(kernel, X, swapped)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["hard_tanh", "max(z-1/2,0)"])
def test_small_deviations_are_differentiated_on_their_own_side(activation):
    """K is even in sigma_b: a step across 0 has a mirror image, and a negative sigma_b was refused in the user's name.
    Rows that are nearly opposite, of a kinked activation, are those that differences serve."""
    x = np.random.default_rng(1).standard_normal((2, 4))
    X = np.vstack([x, -x[0] * 1.3, x[1] * (1 + 1e-9)])
    kernel = mf.ntk(activation, sigma_w=SIGMA_W, sigma_b=1e-8, depth=3)
    _, found = kernel(X, eval_gradient=True)
    names = [h.name for h in kernel.hyperparameters]
    at = dict(sigma_b=1e-8, depth=3, quantities=("Theta",))
    ends = (mf.derive(activation).kernel(X, sigma_w=SIGMA_W * (1 + h), **at).Theta for h in (1e-3, -1e-3))
    slope = np.subtract(*ends) / 2e-3
    assert np.abs(found[:, :, names.index("sigma_w")] - slope).max() < 1e-3 * np.abs(slope).max()
    assert np.abs(found[:, :, names.index("sigma_b")]).max() < 1e-6
