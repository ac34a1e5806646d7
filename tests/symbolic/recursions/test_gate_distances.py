"""Two inputs behind a Gate u ⊙ φ(v): covariances and distances against the arc-cosine kernel, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import meanfield as mf
from meanfield.networks.records import Dense, Gate, LayerNorm, Sequential

W, B = 1.3, 0.4


def relu(V: np.ndarray) -> np.ndarray:
    """⟨max(0, v_p) max(0, v_q)⟩ of a 2×2 covariance."""
    size = math.sqrt(V[0, 0] * V[1, 1])
    angle = math.acos(min(1.0, V[0, 1] / size))
    M = np.diag(np.diag(V) / 2)
    M[0, 1] = M[1, 0] = size * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / (2 * math.pi)
    return M


def dense(V: np.ndarray, w: float, b: float) -> np.ndarray:
    return w**2 * V + b**2


def steps(c0, depth, **block):
    """Covariances of two inputs of norm 1 in layers 1 … depth."""
    return following(dense(np.array([[1.0, c0], [c0, 1.0]]), W, B), depth, **block)


def following(first, depth, u=(W, B), v=(W, B), normed=False):
    """The same from those of layer 1, of Gate("relu", u, v) and Dense, with an optional LayerNorm between them."""
    K = [first]
    for _ in range(depth - 1):
        x = dense(K[-1], *u) * relu(dense(K[-1], *v))
        if normed:
            x = x / np.sqrt(np.outer(np.diag(x), np.diag(x)))
        K.append(dense(x, W, B))
    return np.array(K)


@pytest.mark.slow_with("given0-own0--0.5")
@pytest.mark.parametrize("c0", [-0.5, 0.3, 0.99])
@pytest.mark.parametrize(
    ("given", "own"),
    [((), {}), ((Dense(sigma_w="13/10", sigma_b="1/5"), Dense(sigma_w="3/5", sigma_b="2/5")),
               {"u": (1.3, 0.2), "v": (0.6, 0.4)})],
)  # fmt: skip
def test_distances_of_equal_norms(given, own, c0):
    """K and K_ab, whose difference is half of the distance, at four layers."""
    theory = mf.derive(architecture=Sequential((Gate("relu", *given), Dense())))
    run = theory.propagate(sigma_w=W, sigma_b=B, depth=4, quantities=("K", "K_ab", "distance"), correlation=c0,
                           every_layer=True)  # fmt: skip
    K = steps(c0, 4, **own)
    assert run.K_ab == pytest.approx(K[:, 0, 1], rel=1e-10)
    assert np.abs(run.K / K[:, 0, 0] - 1).max() < 1e-12
    assert run.distance == pytest.approx(2 * (K[:, 0, 0] - K[:, 0, 1]), rel=1e-10)


@pytest.mark.slow_with("-0.5")
@pytest.mark.parametrize("c0", [-0.5, 0.3, 0.99])
def test_distances_behind_a_layer_norm(c0):
    theory = mf.derive(architecture=Sequential((Gate("relu"), LayerNorm(), Dense())))
    run = theory.propagate(sigma_w=W, sigma_b=B, depth=4, quantities=("K", "distance"), correlation=c0,
                           every_layer=True)  # fmt: skip
    K = steps(c0, 4, normed=True)
    assert run.distance == pytest.approx(2 * (K[:, 0, 0] - K[:, 0, 1]), rel=1e-10)


@pytest.mark.parametrize("c0", [-0.5, 0.3, 0.99])
def test_distances_of_unequal_norms(c0):
    """K_aa + K_bb - 2 K_ab is the distance, from given covariances on."""
    theory = mf.derive(architecture=Sequential((Gate("relu"), Dense())))
    run = theory.propagate(
        sigma_w=W,
        sigma_b=B,
        depth=4,
        quantities=("K_aa", "K_bb", "K_ab", "distance"),
        start={"K_aa": 1.0, "K_bb": 2.5, "c": c0},
        every_layer=True,
    )
    cross = c0 * math.sqrt(2.5)
    K = following(np.array([[1.0, cross], [cross, 2.5]]), 4)
    assert run.K_aa == pytest.approx(K[:, 0, 0], rel=1e-12)
    assert run.K_bb == pytest.approx(K[:, 1, 1], rel=1e-12)
    assert run.distance == pytest.approx(K[:, 0, 0] + K[:, 1, 1] - 2 * K[:, 0, 1], rel=1e-10)
