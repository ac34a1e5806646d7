"""The acceptance values of the partial-Jacobian paper (section 8 of its specification), each with a planted error."""

from __future__ import annotations

import pytest

from derivations.checks import Check
from derivations.partial_jacobians.acceptance import CHECKS


@pytest.mark.slow_with(
    "4 GELU, three states where the line has K* = 3", "8 line of erf, LN on activations",
    "8 line of gelu, LN on activations", "8 line of relu, LN on activations", "10 exponents",
    "12 everywhere critical; χ_J at L = 50", "13 log J - 2c̃√l at l = 4·10⁶", "15 Θ⁵, plain", "15 Θ⁵, LN-pre",
    "15 Θ⁵, LN-act", "15 Θ⁵, residual", "15 Θ⁵, residual LN-pre", "15 Θ⁵, residual LN-pre, μ = 1",
    "15 Θ at the critical points", "21 figure 8, 28 ξ of relu", "21 figure 8, 28 ξ of erf", "21 figure 8, 28 ξ of gelu",
    "E-5 where K¹ goes at GELU's critical point",
)  # fmt: skip
@pytest.mark.parametrize("check", CHECKS, ids=[f"{c.line} {c.name}" for c in CHECKS])
def test_the_engine_reproduces_the_value_and_a_planted_error_does_not(check):
    """Within the tolerance; one per cent in σ_w (or K, c, …) is outside it."""
    assert check.misses() <= 1
    assert check.misses("1/100") > 1


def test_all_lines_of_the_specification_are_there():
    """Lines 3, 16, 18 and 22-25 are claims, ensembles and the Mixer, tested elsewhere."""
    assert {c.line for c in CHECKS} == {*(str(n) for n in (1, 2, *range(4, 16), 17, 19, 20, 21)), "E-5", "R8"}
    assert len(CHECKS) == 63


def test_a_check_measures_in_units_of_its_tolerance():
    check = Check("", "", (2.0, 0.0), 1e-3, lambda off: (2.002, 1e-3 * off))
    assert check.misses() == pytest.approx(1)
    assert Check("", "", (2.0,), 1e-3, lambda off: (2.002,), absolute=True).misses() == pytest.approx(2)
