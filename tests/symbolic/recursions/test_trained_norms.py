"""Tangent kernels of blocks that end in a trained LayerNorm, and where two inputs start, by hand for ReLU."""

from __future__ import annotations

import math

import pytest
import sympy as sp

from meanfield.networks.records import Dense, LayerNorm, Nonlinearity, Sequential, mlp
from meanfield.symbolic.recursions.block_recursions import input_jacobian, one_input, pair_tangents, two_inputs

W, B, Q, C = 1.3, 0.4, 1.7, 0.35
GIVEN = {
    "sigma_w": sp.Rational(13, 10),
    "sigma_b": sp.Rational(2, 5),
    "Q0": sp.Rational(17, 10),
    "c0": sp.Rational(7, 20),
}


def relu(kaa, kbb, kab):
    """⟨φ_a φ_b⟩ and ⟨φ′_a φ′_b⟩."""
    size = math.sqrt(kaa * kbb)
    angle = math.acos(kab / size)
    return size * (math.sin(angle) + (math.pi - angle) * kab / size) / (2 * math.pi), (math.pi - angle) / (2 * math.pi)


def test_a_trained_norm_at_the_end():
    """Of z = γ x/√K + β: Θ_ab = 1 + c + Θ^x_ab/K; behind φ the share of γ and β is ⟨(1 + z_a z_b) φ′_a φ′_b⟩, and
    z_a z_b φ′_a φ′_b = φ_a φ_b of ReLU."""
    block = Sequential((Nonlinearity("relu"), Dense(), LayerNorm()))
    found = pair_tangents(block).iterate(GIVEN, 3)
    k, c = W**2 * Q + B**2, W**2 * Q * C + B**2
    theta, shared = c, False
    for layer in found[1:]:
        square, (product, slopes) = k / 2, relu(k, k, c)
        through = (theta - 1 - c) * slopes + slopes + product if shared else theta * slopes
        inner, across = W**2 * square + B**2, W**2 * product + B**2
        k, c = 1.0, across / inner
        theta, shared = 1 + c + (W**2 * through + across) / inner, True
        assert float(layer["K_ab"]) == pytest.approx(c, rel=1e-14)
        assert float(layer["Theta_ab"]) == pytest.approx(theta, rel=1e-14)


def test_a_trained_norm_of_one_input():
    """The same at c = 1: Θ = 2 + Θ^x/K."""
    found = one_input(Sequential((Nonlinearity("relu"), Dense(), LayerNorm()))).iterate(GIVEN, 3)
    k = theta = W**2 * Q + B**2
    for layer in found[1:]:
        through = (theta - 2) / 2 + 0.5 + k / 2 if layer is found[2] else theta / 2
        inner = W**2 * k / 2 + B**2
        k, theta = 1.0, 2 + (W**2 * through + inner) / inner
        assert float(layer["Theta"]) == pytest.approx(theta, rel=1e-14)


def test_where_two_inputs_start():
    """K_ab = σ_w² Q0 c0 + σ_b² at layer 1, Θ_ab the same, and one step of each is that of the arc-cosine kernel."""
    first, second = pair_tangents(mlp("relu")).iterate(GIVEN, 2)
    k, c = W**2 * Q + B**2, W**2 * Q * C + B**2
    start = {"K_aa": k, "K_bb": k, "K_ab": c, "J_ab": 1, "Theta_ab": c}
    assert {n: float(v) for n, v in first.items()} == pytest.approx(start, rel=1e-14)
    product, slopes = relu(k, k, c)
    across = W**2 * product + B**2
    found = [float(second[n]) for n in ("K_ab", "J_ab", "Theta_ab")]
    assert found == pytest.approx([across, W**2 * slopes, W**2 * slopes * c + across], rel=1e-14)
    assert [float(v) for v in two_inputs(mlp("relu")).iterate(GIVEN, 1)[0].values()] == pytest.approx([k, k, c])


def test_the_jacobian_from_an_input_of_finite_dimension():
    """J0 = σ_w² at layer 1 and χ σ_w² at layer 2; D0 = σ_w² Q0/N_0, then χ D0, χ = σ_w²/2 of ReLU."""
    first, second = input_jacobian(mlp("relu")).iterate(GIVEN | {"N0": 10}, 2)
    share = W**2 * Q / 10
    assert [float(first[n]) for n in ("D0", "J0")] == pytest.approx([share, W**2], rel=1e-14)
    chi = W**2 / 2
    assert [float(second[n]) for n in ("D0", "J0")] == pytest.approx([chi * share, chi * W**2], rel=1e-14)
