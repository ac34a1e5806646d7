"""Items of the specification of the bias paper that have no other test: the recursion of its definition over many
layers, φ on the inputs or not, and figure 23."""

from __future__ import annotations

import math

import numpy as np
import pytest

import meanfield as mf
from derivations.bias_and_trainability import correlation_figures

W2, B2 = 2.5, 0.1
X, V = np.polynomial.legendre.leggauss(12)


def gaussian() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for N(0, 1), panels of half a standard deviation."""
    ends = np.linspace(-9, 9, 37)
    x = ((ends[1:] + ends[:-1]) / 2)[:, None] + 0.25 * X
    return x.ravel(), (0.25 * V * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)).ravel()


def spread(layers: int, w2: float = W2) -> list[tuple[float, float]]:
    """(σ_μ², σ_y²) of tanh, layer by layer, as variance over inputs and of centres over weights (Lemma D.3)."""
    x, w = gaussian()
    mu2, y2 = B2, w2
    out = [(mu2, y2)]
    for _ in range(layers - 1):
        phi = np.tanh(math.sqrt(mu2) * x[:, None] + math.sqrt(y2) * x)
        centres = phi @ w
        mu2, y2 = w2 * float(w @ centres**2) + B2, w2 * float(w @ ((phi - centres[:, None]) ** 2 @ w))
        out.append((mu2, y2))
    return out


def deviation(w2: float = W2, layers: int = 60) -> float:
    """The largest relative difference of that recursion, and of K, K_ab, from the compiled ones."""
    run = mf.derive("tanh").propagate(
        sigma_w=math.sqrt(W2), sigma_b=math.sqrt(B2), depth=layers, correlation=0,
        quantities=("sigma_mu2", "sigma_y2", "K", "K_ab"),
    )  # fmt: skip
    mu2, y2 = np.array(spread(layers, w2)).T
    pairs = ((run.sigma_mu2, mu2), (run.sigma_y2, y2), (run.K, mu2 + y2), (run.K_ab, mu2))
    return max(float(np.max(np.abs(found / wanted - 1))) for found, wanted in pairs)


@pytest.mark.slow
def test_the_definition_over_sixty_layers():
    """Item 3: the two recursions are the same numbers, in two different quadratures."""
    assert deviation() < 1e-12
    assert deviation(W2 * (1 + 1e-9)) > 1e-10


def test_phi_on_the_inputs_or_not():
    """Item 37: the first layer is linear in the data, unless `start` says that the data are preactivations."""
    place = dict(sigma_w=math.sqrt(W2), sigma_b=math.sqrt(B2), quantities=("K", "K_ab"))
    relu = mf.derive("relu")
    linear = relu.propagate(**place, depth=1, correlation=0)
    assert linear.K[0] == pytest.approx(W2 + B2, rel=1e-14) and linear.K_ab[0] == pytest.approx(B2, rel=1e-13)
    through = relu.propagate(**place, depth=2, start={"K": 1, "c": 0})
    assert through.K[1] == pytest.approx(W2 / 2 + B2, rel=1e-14)
    assert through.K_ab[1] == pytest.approx(W2 / (2 * math.pi) + B2, rel=1e-13)
    assert through.K_ab[1] != pytest.approx(linear.K_ab[0], rel=1e-3)


@pytest.mark.slow
def test_figure_23_shows_the_limits_of_c():
    """Item 40: c → 1 for ReLU; of tanh, c* of the maximum at σ_w² = 2.5, 3, and of the mean (twice tanh's plane)."""
    panels = correlation_figures.figure_23(0, 30).axes[:4]
    ends = [[float(np.ravel(line.get_ydata())[0]) for line in p.get_lines()[1::2]] for p in panels]
    assert ends[0] == ends[1] == [1] * 5
    assert ends[2][:2] == [1, 1] and 0.99 < ends[2][2] < 1  # just beyond the critical line, 1.98607
    assert ends[2][3:] == pytest.approx([0.958935, 0.904902], abs=2e-6)
    alone = [mf.derive("tanh").correlations(sigma_w=f"sqrt({s / 2})", sigma_b="sqrt(0.1)") for s in (2.0, 3.0, 5.0)]
    assert [ends[3][i] for i in (0, 1, 3)] == pytest.approx([a.stable.c for a in alone], abs=1e-6)
