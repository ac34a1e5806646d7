"""Published closed forms as claims: the engine's own results must equal them, and their misprints must not.

Source: Doshi, He, Gromov, partial Jacobians; R-numbers are those of its specification, equation numbers those of the
paper.
"""

from __future__ import annotations

import pytest
import sympy as sp
from helpers import assert_different, assert_proved_equal

import meanfield as mf
from meanfield.symbolic.recursion import closed
from meanfield.symbols import K, parameter, sigma_b, sigma_w

mu, pi, sqrt, asin = parameter("mu"), sp.pi, sp.sqrt, sp.asin
a_p, a_m = parameter("a_plus"), parameter("a_minus")
square = (a_p**2 + a_m**2) / 2


def theory(name, **kw):
    return mf.derive(name, **kw)


def maps(name, **kw):
    r = theory(name, **kw).one_input
    return {"K": closed(r["K"]), **{n: closed(e) for n, e in theory(name, **kw).susceptibilities().items()}}


GELU_X = asin(K / (K + 1))
SCALE = {"a_plus": "a_plus", "a_minus": "a_minus"}
# id, activation, keywords, quantity, printed right-hand side, planted error
CLAIMS = [
    ("R32 (G.3)", "scale_invariant", SCALE, "K", sigma_w**2 * square * K + sigma_b**2, sigma_w**2 * K + sigma_b**2),
    ("R32 (G.5)", "scale_invariant", SCALE, "chi_K", sigma_w**2 * square, sigma_w**2 * square * 2),
    ("R32 (G.7)", "scale_invariant", SCALE, "chi_J", sigma_w**2 * square, sigma_w**2 * square + mu**2),
    (
        "R35 (G.19)",
        "scale_invariant",
        SCALE | {"mu": "mu"},
        "K",
        (sigma_w**2 * square + mu**2) * K + sigma_b**2,
        mu * K,
    ),
    (
        "R35 (G.21)",
        "scale_invariant",
        SCALE | {"mu": "mu"},
        "chi_J",
        sigma_w**2 * square + mu**2,
        sigma_w**2 * square + mu,
    ),
    ("R35 (G.20)", "scale_invariant", SCALE | {"mu": "mu"}, "chi_K", sigma_w**2 * square + mu**2, sigma_w**2 * square),
    ("R35 ReLU", "relu", {"mu": "mu"}, "chi_J", sigma_w**2 / 2 + mu**2, sigma_w**2 + mu**2),
    # H.2's printed arcsin(2Kλ1λ2/(1 + 2K(λ1² + λ2²))) at λ = 1 is the planted error
    (
        "R37 (H.3)",
        "erf",
        {},
        "K",
        2 * sigma_w**2 / pi * asin(2 * K / (1 + 2 * K)) + sigma_b**2,
        2 * sigma_w**2 / pi * asin(2 * K / (1 + 4 * K)) + sigma_b**2,
    ),
    (
        "R38 (H.4)",
        "erf",
        {},
        "chi_K",
        4 * sigma_w**2 / pi / ((1 + 2 * K) * sqrt(1 + 4 * K)),
        4 * sigma_w**2 / pi / ((1 + 2 * K) * sqrt(1 + 2 * K)),
    ),
    ("R38 (H.5)", "erf", {}, "chi_J", 4 * sigma_w**2 / pi / sqrt(1 + 4 * K), 4 * sigma_w**2 / pi / sqrt(1 + 2 * K)),
    (
        "R43 (H.21)",
        "erf",
        {"mu": "mu"},
        "K",
        2 * sigma_w**2 / pi * asin(2 * K / (1 + 2 * K)) + sigma_b**2 + mu**2 * K,
        2 * sigma_w**2 / pi * asin(2 * K / (1 + 2 * K)) + sigma_b**2 + mu * K,
    ),
    (
        "R43 (H.22)",
        "erf",
        {"mu": "mu"},
        "chi_K",
        4 * sigma_w**2 / pi / ((1 + 2 * K) * sqrt(1 + 4 * K)) + mu**2,
        4 * sigma_w**2 / pi / ((1 + 2 * K) * sqrt(1 + 4 * K)),
    ),
    (
        "R43 (H.23)",
        "erf",
        {"mu": "mu"},
        "chi_J",
        4 * sigma_w**2 / pi / sqrt(1 + 4 * K) + mu**2,
        4 * sigma_w**2 / pi / sqrt(1 + 4 * K) + mu,
    ),
    (
        "R46 (I.3)",
        "gelu",
        {},
        "K",
        sigma_w**2 * (K / 4 + K / (2 * pi) * (GELU_X + 2 * K / ((1 + K) * sqrt(1 + 2 * K)))) + sigma_b**2,
        # the misprint of (I.6): K instead of 2K in the second bracket term
        sigma_w**2 * (K / 4 + K / (2 * pi) * (GELU_X + K / ((1 + K) * sqrt(1 + 2 * K)))) + sigma_b**2,
    ),
    (
        "R47 (I.4)",
        "gelu",
        {},
        "chi_K",
        sigma_w**2 / 4
        + sigma_w**2
        / (2 * pi)
        * (GELU_X + (4 * K**3 + 11 * K**2 + 5 * K) / ((1 + K) ** 2 * (1 + 2 * K) ** sp.Rational(3, 2))),
        sigma_w**2 / 4
        + sigma_w**2
        / (2 * pi)
        * (GELU_X + (4 * K**3 + 11 * K**2 + 4 * K) / ((1 + K) ** 2 * (1 + 2 * K) ** sp.Rational(3, 2))),
    ),
    (
        "R47 (I.5)",
        "gelu",
        {},
        "chi_J",
        sigma_w**2 / 4
        + sigma_w**2 / (2 * pi) * (GELU_X + K * (3 + 5 * K) / ((1 + K) * (1 + 2 * K) ** sp.Rational(3, 2))),
        sigma_w**2 / 4
        + sigma_w**2 / (2 * pi) * (GELU_X + K * (3 + 4 * K) / ((1 + K) * (1 + 2 * K) ** sp.Rational(3, 2))),
    ),
    # derived beyond the paper: χ_Δ of GELU
    (
        "R47 χ_Δ",
        "gelu",
        {},
        "chi_Delta",
        sigma_w**2 * (-(K**3) + 9 * K**2 + 12 * K + 4) / (2 * pi * (1 + K) ** 2 * (1 + 2 * K) ** sp.Rational(5, 2)),
        sigma_w**2 * (-(K**3) + 9 * K**2 + 12 * K + 5) / (2 * pi * (1 + K) ** 2 * (1 + 2 * K) ** sp.Rational(5, 2)),
    ),
]


@pytest.mark.parametrize(("claim", "name", "kw", "quantity", "printed", "planted"), CLAIMS, ids=[c[0] for c in CLAIMS])
def test_claim_is_proved_and_its_misprint_refuted(claim, name, kw, quantity, printed, planted):
    ours = maps(name, **kw)[quantity]
    assert_proved_equal(ours, printed)
    assert_different(ours, planted)


def test_gelu_chi_difference_factors():
    """R49 (I.10): χ_J - χ_K = σ_w² K(K² - 3K - 2)/(2π(1+K)²(1+2K)^{3/2})."""
    ours = maps("gelu")
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
