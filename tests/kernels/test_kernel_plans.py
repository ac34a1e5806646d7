"""What kernels take for the same average twice: functions that are proved proportional, at one covariance."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.kernels.loops import plans
from meanfield.numeric.lowering.modules import generated_modules


def cubic_gap(gap: float, places: tuple[int, ...]) -> float:
    """1 - c behind three times LN → z + z³ → Dense at σ_w = 1.3, σ_b = 0.3, by Hermite polynomials: z + z³ = 4 H₁ + H₃.
    places: at which gap each of the three maps is taken, that of the first, second or third."""
    K, gaps = 1.69 * 22 + 0.09, [gap]
    for _ in range(3):
        g = gaps[-1]
        gaps.append(1.69 * (16 * g + 6 * (3 * g - 3 * g**2 + g**3)) / K)
    slope = [gaps[k + 1] / gaps[k] for k in range(3)]
    return float(gap * np.prod([slope[k] for k in places]))


@pytest.mark.slow
def test_one_function_at_one_variance_in_two_places():
    """The second and the third φ have one variance, and distances of their own; the loop took one for both."""
    own = {"sigma_w": "1.3", "sigma_b": "0.3"}
    one = (mf.LayerNorm(affine=False), mf.Nonlinearity("z**3 + z"), mf.Dense(**own))
    theory = mf.derive(architecture=mf.Network(mf.Sequential(one * 3), mf.Dense(sigma_w=1, sigma_b=0)))
    angle = 3e-3
    found = theory.kernel([[1.0, 0.0], [np.cos(angle), np.sin(angle)]], depth=2, quantities="distance")
    K, gap = 1.69 * 22 + 0.09, 2 * np.sin(angle / 2) ** 2
    off = [abs(found.distance[0, 1] / (2 * K * cubic_gap(gap, places)) - 1) for places in ((0, 1, 2), (0, 1, 1))]
    assert off[0] < max(1e-11, found.error["distance"]) < off[1]


def test_functions_are_proportional_where_that_is_proved():
    """Numbers between -2.3 and 2.9 do not see what is added at 5."""
    z = plans.Z[0]
    far = sp.tanh(z) + sp.Max(0, z - 5)
    assert plans._ratio(far, sp.tanh(z)) is None and plans._ratio(sp.tanh(z), far) is None
    assert plans._ratio(3 * far, far) == 3.0
    assert plans._ratio((1 + sp.exp(z)) ** 2 / 2, 1 + 2 * sp.exp(z) + sp.exp(2 * z)) == 0.5
    p, q = (plans.evaluate(f, plans.PROBES) for f in (far, sp.tanh(z)))
    assert np.allclose(p, q, rtol=1e-12)  # what was taken for a proof


def above(A: float, B: float, AB: float, h: float) -> float:
    """P(x > h, y > h), by quadrature over x."""
    c = AB / np.sqrt(A * B)
    u, weight = np.polynomial.legendre.leggauss(200)
    low, high = h / np.sqrt(A), h / np.sqrt(A) + 12
    x = low + (high - low) * (u + 1) / 2
    other = [0.5 * math.erfc(-(c * t - h / np.sqrt(B)) / np.sqrt(2 * (1 - c * c))) for t in x]
    return float((high - low) / 2 * np.sum(weight * np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * other))


def test_kernels_through_an_inner_jump_follow_the_covariance(monkeypatch):
    """The distance through a jump off 0 is not compiled where norms differ; K alone was refused with it."""
    monkeypatch.setattr(generated_modules, "PATIENCE", np.inf)
    block = mf.Sequential((mf.Nonlinearity("erf"), mf.Dense(), mf.Nonlinearity("step(z - 1/2)"), mf.Dense()))
    X = np.array([[1.0, 0.3], [0.2, -0.7]])
    found = mf.derive(architecture=block).kernel(X, sigma_w=1.3, sigma_b=0.3, depth=2, quantities="K")
    C = 1.69 * X @ X.T / 2 + 0.09
    size = 1 + 2 * np.diag(C)
    C = 1.69 * 2 / np.pi * np.arcsin(2 * C / np.sqrt(np.outer(size, size))) + 0.09
    wanted = 1.69 * above(C[0, 0], C[1, 1], C[0, 1], 0.5) + 0.09
    assert abs(found.K[0, 1] - wanted) < 1e-9 < abs(found.K[0, 1] - 1.69 * above(C[0, 0], C[1, 1], C[0, 1], 0.501))


def test_a_first_step_of_its_own_names_its_averages_apart():
    """A trained norm at the end: Theta's first step differs from the others, and holds averages that these hold, too.
    K_ab is asin(2c q)/asin(2q) with q = K/(1 + 2K) of the layer before, whose K is 1 from layer 2 on."""
    block = mf.Sequential(mf.Nonlinearity("erf"), mf.Dense(), mf.LayerNorm())
    theory, rows = mf.derive(architecture=block), np.array([[1.0, 0.0], [0.6, 0.8]]) * math.sqrt(2)
    c, K, wanted = 0.6, 2.25, []
    for _ in range(2):
        c, K = math.asin(2 * K * c / (1 + 2 * K)) / math.asin(2 * K / (1 + 2 * K)), 1.0
        wanted.append(c)
    for depth, known in ((2, wanted[0]), (3, wanted[1])):
        found = theory.kernel(rows, sigma_w=1.5, sigma_b=0, depth=depth)
        pair = theory.propagate(
            sigma_w=1.5, sigma_b=0, depth=depth, start={"K_aa": 2.25, "K_bb": 2.25, "K_ab": 1.35},
            quantities=("K_aa", "K_bb", "K_ab", "Theta_ab"),
        )  # fmt: skip
        np.testing.assert_allclose([found.K[0, 1], found.distance[0, 1] / 2], [known, 1 - known], rtol=1e-12)
        np.testing.assert_allclose(found.Theta[0, 1], pair.Theta_ab[-1], rtol=1e-11)
        with pytest.raises(AssertionError, match="Not equal to tolerance"):
            np.testing.assert_allclose(found.K[0, 1] * (1 + 1e-9), known, rtol=1e-12)
