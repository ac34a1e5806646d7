"""Finite-width ensembles and their random numbers, beside plain NumPy."""

import numpy as np
import pytest

from meanfield import mlp
from meanfield.empirical.ensemble import run_ensemble
from meanfield.empirical.philox import fill_normals

NETWORKS, WIDTH, DEPTH, SHARE = 200, 500, 50, 4


def test_normals(beside):
    """One standard normal (2**20 in a call)."""
    out, generator = np.empty(2**20), np.random.default_rng(0)
    ours = lambda: fill_normals(out, 1, 2, 3, 0)  # noqa: E731
    peer = lambda: [generator.standard_normal(out=out)]  # noqa: E731
    beside(ours, peer, "numpy Generator.standard_normal", rounds=21, units=out.size, peer_units=out.size)


@pytest.mark.slow
def test_ensemble(beside):
    """200 networks of 500 x 50, tanh residual, exact Jacobian."""

    def peer():
        generator = np.random.default_rng(0)
        for _ in range(SHARE):
            z, J = generator.standard_normal(WIDTH), np.eye(WIDTH)
            for _ in range(DEPTH - 1):
                W, h = generator.standard_normal((WIDTH, WIDTH)) / np.sqrt(WIDTH), np.tanh(z)
                J += W @ ((1 - h * h)[:, None] * J)
                z = z + W @ h

    size = {"width": WIDTH, "depth": DEPTH, "networks": NETWORKS}
    ours = lambda: run_ensemble(mlp("tanh", mu=1), sigma_w=1, sigma_b=0, **size)  # noqa: E731
    name = f"NumPy loop, {SHARE} networks, scaled by {NETWORKS // SHARE}"
    beside(ours, peer, name, rounds=2, peer_units=SHARE / NETWORKS, warm=False)
