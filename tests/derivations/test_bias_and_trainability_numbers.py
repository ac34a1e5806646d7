"""The acceptance values of the paper on bias and trainability (section 8 of its specification), each with a planted
error, and its statements on finite networks by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from derivations.bias_and_trainability.acceptance import CHECKS

FAST = {"7", "8", "9, 10", "11", "12", "14", "15", "16", "24, 33", "25", "33", "E2"}
CASES = [pytest.param(c, id=f"{c.line} {c.name}", marks=[pytest.mark.slow] * (c.line not in FAST)) for c in CHECKS]


@pytest.mark.slow_with("15 g/f at large γ")
@pytest.mark.parametrize("check", CASES)
def test_the_engine_reproduces_the_value_and_a_planted_error_does_not(check):
    """Within the tolerance; one per cent in σ_w (or σ_b, K, …) is outside it."""
    assert check.misses() <= 1
    assert check.misses("1/100") > 1


def test_all_lines_of_the_specification_are_there():
    """The other lines are claims (5, 10, 20, 23, 28), figures, or finite networks."""
    lines = {n for c in CHECKS for n in c.line.split(", ")}
    assert lines == {*(str(n) for n in (*range(1, 5), *range(6, 20), 20, 21, 22, 24, 25, 27, 29, 30, 31, 33))} | {
        *("§3", "E2", "E17", "E18", "E24", "E25", "E32")
    }
    assert len(CHECKS) == 96


def variances(width: int, draws: int, seed: int) -> tuple[float, float, float, float]:
    """N Var q_ab, N Var q_aa over data at fixed centres (σ_μ² = 2, σ_y² = 0.7), and their relative errors."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal(width) * 2**0.5
    centres *= (2 / np.mean(centres**2)) ** 0.5
    one, two = (centres + 0.7**0.5 * rng.standard_normal((draws, width)) for _ in range(2))
    found = [width * np.var(np.mean(one * other, axis=1), ddof=1) for other in (two, one)]
    return (*found, (2 / draws) ** 0.5, (2 / draws) ** 0.5)


@pytest.mark.slow
def test_cross_terms_of_finite_widths():
    """E23: N Var q_ab = σ_y⁴ + 2σ_μ²σ_y² = 3.29 and N Var q_aa twice that; (53) gives 0.49 and 0.98."""
    ab, aa, error, _ = variances(500, 8000, seed=1)
    assert abs(ab / 3.29 - 1) < 4 * error and abs(aa / 6.58 - 1) < 4 * error
    assert abs(ab / 0.49 - 1) > 100 * error and abs(aa / 0.98 - 1) > 100 * error


@pytest.mark.slow
def test_which_sum_of_weights_averages_itself():
    """E22: Σ_k W_ik² tends to σ_w² as the width grows; Σ_{k,p} W_ik W_ip has the variance 2σ_w⁴ at every width."""
    weights = np.random.default_rng(2).standard_normal((4000, 1000)) / 1000**0.5
    squares, double = np.sum(weights**2, axis=1), np.sum(weights, axis=1) ** 2
    assert np.var(squares) < 3e-3 and abs(np.mean(squares) - 1) < 1e-2
    assert abs(np.var(double) - 2) < 0.5


@pytest.mark.slow
def test_the_first_layer_is_linear_in_the_data():
    """E21: σ_y² of layer 1 is σ_w², not σ_w² Var φ(ξ) = σ_w² (1 - 1/π)/2 of ReLU."""
    rng = np.random.default_rng(3)
    data, weights = rng.standard_normal((2000, 400)), rng.standard_normal((400, 400)) * (1.5 / 400) ** 0.5
    spread, through_phi = (np.mean(np.var(x @ weights, axis=0)) for x in (data, np.maximum(data, 0)))
    assert abs(spread - 1.5) < 0.02
    assert abs(through_phi - 1.5 * (1 - 1 / np.pi) / 2) < 0.02
