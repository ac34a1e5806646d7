"""Published closed forms as claims: the engine's own results must equal them, and their misprints must not.

Source: Doshi, He, Gromov, partial Jacobians; R-numbers are those of its specification, equation numbers those of the
paper.
"""

from __future__ import annotations

import pytest
import sympy as sp
from helpers import assert_different, assert_proved_equal

import meanfield as mf
from derivations.partial_jacobians import CLAIMS
from meanfield.symbolic.recursion import closed
from meanfield.symbols import K, parameter, sigma_w

mu, pi = parameter("mu"), sp.pi


@pytest.mark.parametrize("claim", CLAIMS, ids=[f"{c.source} {c.activation}" for c in CLAIMS])
def test_claim_is_proved_and_its_misprint_refuted(claim):
    ours = claim.derived()
    assert_proved_equal(ours, claim.printed)
    assert_different(ours, claim.refuted)


def test_counts():
    """Seventeen claims, all proved: a claim that silently disappears or drops to thirty digits is seen."""
    assert len(CLAIMS) == 17
    assert sum(c.verdict() is mf.Equality.PROVED for c in CLAIMS) == 17


def test_gelu_chi_difference_factors():
    """R49 (I.10): χ_J - χ_K = σ_w² K(K² - 3K - 2)/(2π(1+K)²(1+2K)^{3/2})."""
    ours = {n: closed(e) for n, e in mf.derive("gelu").susceptibilities().items()}
    difference = sp.factor(sp.simplify(ours["chi_J"] - ours["chi_K"]))
    numerator = sp.fraction(difference)[0]
    assert sp.rem(sp.Poly(numerator, K), sp.Poly(K * (K**2 - 3 * K - 2), K)).is_zero
    assert not sp.rem(sp.Poly(numerator, K), sp.Poly(K * (K**2 - 3 * K - 3), K)).is_zero


def test_the_whole_recursion_equals_the_published_one():
    """`Recursion.equals` proves it, reports 30 digits where a node has no closed form, and sees a 1 % change."""
    ours = mf.derive("gelu", mu="mu").recursion("K", "J")
    assert ours.equals(ours.doit()) is mf.Equality.PROVED
    assert ours.equals(ours.map(lambda e: e.subs(sigma_w, sigma_w * sp.Rational(101, 100)))) is mf.Equality.DIFFERENT
    tanh = mf.derive("tanh").recursion("K")
    other = tanh.map(
        lambda e: e.replace(mf.Average, lambda *a: 1 - mf.average(1 - sp.tanh(sp.Symbol("z", real=True)) ** 2, K))
    )
    assert other != tanh
    assert bool(tanh.equals(other))


def test_theta_recursion_of_the_residual_network():
    """R20 (D.7): Θ' = χ_J Θ + K' - μ² K, from the block rules."""
    r = mf.derive("gelu", mu="mu").one_input
    Theta = r.state[2].symbol
    chi_j = sp.diff(r["J"], r.state[1].symbol)
    assert_proved_equal(closed(r["Theta"]), closed(chi_j * Theta + r["K"] - mu**2 * K))
    assert_different(closed(r["Theta"]), closed(chi_j * Theta + r["K"]))


def test_golden_gaussian_values():
    """Specification § 3.2: ⟨φ²⟩, ⟨φ′²⟩ of tanh at K = 1 and A/B of the critical-line tables."""
    a = mf.derive("tanh").averages()
    assert abs(float(a["phi^2"].subs(K, 1).evalf(15)) - 0.394294490398) < 1e-12
    assert abs(float(a["phi'^2"].subs(K, 1).evalf(15)) - 0.464402902448) < 1e-12
    for name, ratio in (("erf", 1.2257000037857), ("gelu", 1.0720315984363), ("relu", 1.0)):
        a = mf.derive(name).averages()
        assert abs(float((a["phi'^2"] / a["phi^2"]).subs(K, 1).evalf(20)) - ratio) < 1e-12
