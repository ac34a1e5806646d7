"""Published equations as claims: the engine's own results decide each one, and a variant that must come out otherwise.

Source: Doshi, He, Gromov, partial Jacobians; R-numbers are those of its specification, equation numbers those of the
paper.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
import sympy as sp

import meanfield as mf
from derivations.claims import Verdict, network
from derivations.comparisons import Among, Rounds
from derivations.judging import judge
from derivations.partial_jacobians import CLAIMS, TO_DIGITS
from derivations.partial_jacobians.statements import ORDERED
from meanfield.base.symbols import K, parameter, sigma_w
from meanfield.symbolic.recursion import closed
from tests.symbolic.averages.helpers import assert_different, assert_proved_equal

mu, pi = parameter("mu"), sp.pi
IDS = [f"{c.source} {c.quantity}" for c in CLAIMS]



@pytest.mark.slow_with(
    "R5, Stein's lemma chi_K", "R13 (B.7) chi_Delta", "R15 (B.8), l ≥ 3 J0", "R15, S of E-4 D0*J0", "R16 J0",
    "R18 (B.24) Theta", "R21 (E.11) Theta", "R23, χ_J* chi_J*", "R23, line line sigma_b^2", "R25 (B.34) chi_J",
    "R25 (B.31) chi_J*", "R26, rescaled line: σ_w² line sigma_w^2(K)", "R26, rescaled line: σ_b² line sigma_b^2(K)",
    "R26, plain line: σ_w² line sigma_w^2(K)", "R27, Remark 4.2, μ = 1: σ_w line sigma_w",
    "R27, Remark 4.2, μ = 1: σ_b line sigma_b", "R27, Remark 4.2, μ < 1 K*",
    "R27, Remark 4.3: exponential law J rate_power", "R27, φ ~ z law J rate_power", "R28 (E.4) K*",
    "R28 (E.5) law K lead", "R29, χ_J* chi_J*", "R29, Remark 5.1: line line sigma_b^2", "R30, Remark 5.3 line kind",
    "R30, power p p", "R30, Γ form exact J step", "R30, Remark 5.1: J ~ l, μ < 1 J exponent on the line",
    "R30, Remark 5.1: J ~ l, μ = 1 J exponent on the line of mu < 1", "R11 (C.5), n = 2 point 0 A",
    "R11 (C.5), n = 3 point 0 A", "R11 (C.5), n = 4 point 0 A", "R11 (C.5), any c, n = 2 A, n = 2",
    "R11 (C.5), any c, n = 3 A, n = 3", "R11 (C.5), any c, n = 4 A, n = 4", "R11 ζ_K, n = 3 point 0 zeta_K",
    "R11 ζ_K, n = 4 point 0 zeta_K", "R12 (C.7) zeta - d_1/c_2", "R10 (20), n = 2 J is a power at the point",
    "R10 (20), n = 3, d_1 ≠ 0 J is a power at the point", "R31, ξ exactly log chi_J*",
    "R31 (5), Theorem 1.3 log chi_J*", "R55, Remark 5.1: ξ improved in both phases log chi_J*",
    "R34 (G.17) line sigma_b^2", "R40, μ < 1: c_2 point 0 c_n", "R43 (H.24) line sigma_b^2", "R44, tanh: c̃ law J rate",
    "R30, p of erf p", "R49 (I.10) chi_J - chi_K", "R49 (I.11), two solutions points", "R50 (I.20), ζ point 1 zeta",
    "R50, d_1/c_2 along the line d_1/c_2(K)", "R52 (I.26) chi_J*", "R53 (I.30) line sigma_w^2(K)",
    "R53 (I.33) point 1 K", "R53 (I.34) point 0 sigma_w^2", "R53 (I.35), σ_w point 1 sigma_w^2", "R30, p of GELU p",
)  # fmt: skip
@pytest.mark.parametrize("claim", CLAIMS, ids=IDS)
def test_the_print_and_its_contrast_come_out_as_they_should(claim):
    """A right equation holds and its planted change does not; a misprint fails and the corrected formula holds.

    What holds is proved; numbers and inequalities are certified. A claim that drops from a proof to digits is seen.
    """
    complaint = judge(claim, TO_DIGITS).complaint
    assert complaint is None, complaint


def test_counts():
    """A claim that silently disappears is seen."""
    assert len(CLAIMS) == len(set(IDS)) == 209
    kinds = {"Equation": 178, "Rounds": 13, "Is": 12, "AtMost": 5, "Floats": 1}
    assert Counter(type(c).__name__ for c in CLAIMS) == kinds
    assert sum(c.misprint for c in CLAIMS) == 30
    assert not any(c.composed for c in CLAIMS)


def test_every_result_that_can_be_decided_is_claimed():
    """What is missing: definitions (R1, R2), results that are numbers (tested as such), training and the Mixer."""
    found = {int(n) for c in CLAIMS for n in re.findall(r"\bR(\d+)", c.source)}
    assert set(range(1, 62)) - found == {1, 2} | {8, 9, 24, 56} | {57, 58, 59, 60, 61}


def test_a_claim_fails_when_its_print_is_changed():
    """The comparison itself: every kind of claim sees an error, and is not `decided` by a contrast that holds."""
    by_source = {c.source: c for c in CLAIMS}
    equation = by_source["R43 (H.23)"]
    assert not replace(equation, printed=equation.printed + sp.Rational(1, 10**6)).decided
    assert not replace(equation, contrast=equation.printed).decided
    assert replace(equation, printed=equation.printed + mu**2, contrast=equation.printed, misprint=True).decided
    number = by_source["R49 (I.13), σ_w"]
    assert isinstance(number, Rounds)
    assert replace(number, printed="1.4082").decided and not replace(number, printed="1.4083").decided
    word = by_source["R50, half-stable"]
    assert not replace(word, printed="stable").decided
    bound = by_source["R55, Remark 5.1: ξ improved in both phases"]
    low = Among(tuple(0.99 * b for b in bound.printed.bounds), (*bound.printed.places, *ORDERED))
    assert bound.verdict() is Verdict.CERTIFIED
    assert not replace(bound, printed=replace(low, bounds=(sp.S.Zero,))).decided
    infinite = Among((sp.log(sp.S.Zero),), bound.printed.places)
    assert replace(bound, printed=infinite).verdict()  # log 0 bounds nothing


def test_one_network_that_fails_refutes_a_claim_for_several():
    claim = next(c for c in CLAIMS if c.source == "R32 (G.4)")
    chi = sigma_w**2 / 2
    both = replace(claim, networks=(network("relu"), network("leaky_relu")), printed=chi)
    assert both.verdict() is Verdict.REFUTED
    assert replace(both, networks=network("relu")).verdict() is Verdict.PROVED


@pytest.mark.slow
def test_gelu_chi_difference_factors():
    """R49 (I.10): χ_J - χ_K = σ_w² K(K² - 3K - 2)/(2π(1+K)²(1+2K)^{3/2})."""
    ours = {n: closed(e) for n, e in mf.derive("gelu").susceptibilities().items()}
    difference = sp.factor(sp.simplify(ours["chi_J"] - ours["chi_K"]))
    numerator = sp.fraction(difference)[0]
    assert sp.rem(sp.Poly(numerator, K), sp.Poly(K * (K**2 - 3 * K - 2), K)).is_zero
    assert not sp.rem(sp.Poly(numerator, K), sp.Poly(K * (K**2 - 3 * K - 3), K)).is_zero


@pytest.mark.slow
def test_the_whole_recursion_equals_the_published_one():
    """`Recursion.equals` proves it, reports 30 digits where a node has no closed form, and sees a 1 % change."""
    ours = mf.derive("gelu", mu="mu").recursion("K", "J")
    assert ours.equals(ours.doit()) is mf.symbolic.Equality.PROVED
    assert (
        ours.equals(ours.map(lambda e: e.subs(sigma_w, sigma_w * sp.Rational(101, 100))))
        is mf.symbolic.Equality.DIFFERENT
    )
    tanh = mf.derive("tanh").recursion("K")
    other = tanh.map(
        lambda e: e.replace(
            mf.symbolic.Average, lambda *a: 1 - mf.average(1 - sp.tanh(sp.Symbol("z", real=True)) ** 2, K)
        )
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
