"""Kernels of data sets against networks of width 10⁴, in NumPy alone."""

from __future__ import annotations

import numpy as np
import pytest

import meanfield as mf

WIDTH, NETWORKS, SIGMA_W, SIGMA_B = 10_000, 12, 1.4, 0.3
FUNCTIONS = {"tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2), "relu": (lambda z: np.maximum(z, 0), lambda z: z > 0)}


def network(name: str, X: np.ndarray, rng) -> tuple[np.ndarray, np.ndarray]:
    """K of the last hidden Dense (three nonlinearities before it) as a mean over neurons, and the tangent kernel of a
    readout beyond it, every weight and bias a standard normal: Σ over layers of (gradients) × (inputs of the layer)."""
    phi, slope = FUNCTIONS[name]
    h, z, held, inner = X.T.astype(np.float32), [], [], []
    for layer in range(3):
        W = rng.standard_normal((WIDTH, h.shape[0]), dtype=np.float32)
        inner.append(SIGMA_W**2 * (h.T @ h).astype(float) / h.shape[0] + SIGMA_B**2)
        z.append(SIGMA_W * (W @ h) / np.sqrt(h.shape[0]) + SIGMA_B * rng.standard_normal((WIDTH, 1), dtype=np.float32))
        h, held = phi(z[-1]).astype(np.float32), [*held, W if layer else None]
    inner.append(SIGMA_W**2 * (h.T @ h).astype(float) / WIDTH + SIGMA_B**2)
    theta = inner[-1].copy()
    back = SIGMA_W / np.sqrt(WIDTH) * rng.standard_normal((WIDTH, 1), dtype=np.float32) * slope(z[2])
    for layer in (2, 1, 0):
        theta += (back.T @ back).astype(float) * inner[layer]
        if layer:
            back = SIGMA_W / np.sqrt(WIDTH) * (held[layer].T @ back.astype(np.float32)) * slope(z[layer - 1])
    return z[2].T.astype(float) @ z[2] / WIDTH, theta


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_networks_of_width_ten_thousand(name):
    """Ten inputs: |z| ≤ 4 for all 55 entries of K and of Theta, and 2 % in σ_w fails."""
    X = np.random.default_rng(0).standard_normal((10, 6))
    rng = np.random.default_rng(1)
    drawn = [np.array(found) for found in zip(*(network(name, X, rng) for _ in range(NETWORKS)))]
    theory = mf.derive(name)

    def deviations(factor: float) -> float:
        at = {"sigma_w": factor * SIGMA_W, "sigma_b": SIGMA_B}
        exact = theory.kernel(X, **at, depth=3).K, theory.kernel(X, **at, depth=4).Theta
        worst = 0.0
        for found, kernel in zip(drawn, exact):
            size = np.sqrt(np.outer(np.diag(kernel), np.diag(kernel)))
            error = found.std(axis=0, ddof=1) / np.sqrt(NETWORKS) + 3 * size / WIDTH  # of order 1/n: not sampled
            worst = max(worst, float(np.max(np.abs(found.mean(axis=0) - kernel) / error)))
        return worst

    assert deviations(1.0) <= 4
    assert deviations(1.02) > 4 and deviations(0.98) > 4
