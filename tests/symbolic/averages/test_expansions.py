"""Expansions at both ends of K, the moments behind them, and the large-depth laws."""

from __future__ import annotations

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import K, Z, sigma_b, sigma_w
from meanfield.symbolic.averages.expansions.expansion import at_infinity, at_zero
from meanfield.symbolic.averages.expansions.moments import Moment, _gaussian_rule, moment
from meanfield.symbolic.recursions.block_recursions import one_input_averages
from tests.symbolic.averages.helpers import assert_law_matches, record

pi, sqrt = sp.pi, sp.sqrt


@pytest.mark.slow_with(
    "arctan", "gelu_tanh", "hard_swish", "mish", "sigmoid", "silu", "softplus", "softsign", "swish", "tanh"
)
@pytest.mark.parametrize("name", mf.activations())
def test_both_ends_for_every_registered_activation(name):
    """Three orders at K = 1e-4 and 1e4 (scaled to the kinks) match certified values to the first order left out."""
    for quantity, node in one_input_averages(record(name)).items():
        if quantity == "phi" or node == sp.oo or not node.has(K):
            continue
        assert_law_matches(node, at_zero(node, 3), sp.Rational(1, 10**4), 1e-7)
        law = at_infinity(node, 3)
        loose = law.remainder == "smaller"
        at, most = (sp.Integer(10) ** 6, 1e-1) if loose else (sp.Integer(10) ** 4, 1e-8)
        assert_law_matches(node, law, at, most)
        # control: at the same K every coefficient off by three times what is allowed
        off = 1 + 3 * sp.Rational(str(most))
        wrong = replace(law, terms=tuple(replace(t, coefficient=t.coefficient * off) for t in law.terms))
        with pytest.raises(AssertionError, match=r"expansion misses by [234]\."):
            assert_law_matches(node, wrong, at, most)


def test_exact_coefficients():
    tanh = one_input_averages(record("tanh"))
    law = at_infinity(tanh["phi'^2"], 2)
    assert sp.simplify(law.coefficient(-sp.S.Half) - sp.Rational(4, 3) / sqrt(2 * pi)) == 0
    assert sp.simplify(law.coefficient(-sp.Rational(3, 2)) + (pi**2 / 9 - sp.Rational(2, 3)) / (2 * sqrt(2 * pi))) == 0
    softsign = at_zero(one_input_averages(record("softsign"))["phi^2"], 2)
    assert softsign.coefficient(sp.Rational(3, 2)) == -4 * sqrt(2) / sqrt(pi)
    assert at_zero(one_input_averages(record("hard_tanh"))["phi^2"], 3).remainder == "exponential"


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 2, 4])
def test_exact_moments_against_mpmath(n):
    """The eta-value rule: ∫ zⁿ(f - P) dz for sech⁴ and silu², and the certified node for mish²."""
    with mp.workdps(30):

        def silu_rest(x):
            return (x / (1 + mp.exp(-x))) ** 2 - (x**2 if x > 0 else 0)

        truth = mp.quad(lambda x: x**n * mp.sech(x) ** 4, [-60, -5, 0, 5, 60])
        assert abs(mp.mpf(str(sp.N(moment(sp.sech(Z[0]) ** 4, n), 25))) - truth) < 1e-20
        truth = mp.quad(lambda x: x**n * silu_rest(x), [-100, -10, -1e-30]) + mp.quad(
            lambda x: x**n * silu_rest(x), [1e-30, 10, 100]
        )
        ours = moment(record("silu").pieces.map(lambda e: e**2).expr, n)
        assert not ours.has(Moment)
        assert abs(mp.mpf(str(sp.N(ours, 25))) - truth) < 1e-18 * max(1, abs(truth))

        def mish_rest(x):
            return (x * mp.tanh(mp.log1p(mp.exp(x)))) ** 2 - (x**2 if x > 0 else 0)

        truth = mp.quad(lambda x: x**n * mish_rest(x), [-100, -30, -10, -3, 0]) + mp.quad(
            lambda x: x**n * mish_rest(x), [0, 3, 10, 30, 60]
        )
        ours = moment(record("mish").pieces.map(lambda e: e**2).expr, n)
        assert ours.has(Moment)
        assert abs(mp.mpf(str(sp.N(ours, 20))) - truth) < 1e-15 * max(1, abs(truth))


def test_algebraic_tails_have_every_order():
    """⟨1/(1+z²)²⟩: ∫ = π/2 gives the leading coefficient √(2π)/4, and half moments of the tail the integer powers."""
    law = at_infinity(one_input_averages(record("arctan"))["phi'^2"], 3)
    assert sp.simplify(law.leading.coefficient - sqrt(2 * pi) / 4) == 0 and law.remainder == -sp.Rational(7, 2)
    assert law.coefficient(-2) == sp.Rational(1, 3)  # the tail z⁻⁴: 2·2⁻²Γ(-3/2)/(2√π) = 1/3


@pytest.mark.slow
def test_law_of_j_for_mu_one_has_the_published_constant():
    """R44: c̃ = 4σ_w²/(3√(2π(σ_w²+σ_b²))) for tanh, 2σ_w²/(π√s) for erf; the log coefficients c̃²(3/(2s) - ½), c̃²(1/s
    - ½)."""
    s = sigma_w**2 + sigma_b**2
    for name, c, kappa in (
        ("tanh", 4 * sigma_w**2 / (3 * sqrt(2 * pi * s)), sp.Rational(3, 2) / s - sp.S.Half),
        ("erf", 2 * sigma_w**2 / (pi * sqrt(s)), 1 / s - sp.S.Half),
    ):
        law = mf.derive(name, residual=True).depth_law("J")
        assert sp.simplify(law.rate - 2 * c) == 0
        assert sp.simplify(law.exponent - c**2 * kappa) == 0
        assert sp.simplify(law.exponent - c**2 * (kappa + sp.Rational(1, 100))) != 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "erf", "hard_tanh", "sigmoid"])
def test_compiled_run_to_four_million_layers_confirms_it(name):
    """(χ_J - 1)√l within 1e-3 of c̃; log J minus the derived terms constant to 1e-3 between 1e6 and 4e6 layers.

    Without the term in log(l)/√l (for tanh -0.339) the remainder still moves by 2.3e-3 there, so that term is derived,
    too.
    """
    theory = mf.derive(name, residual=True)
    law = theory.depth_law("J", sigma_w=1, sigma_b=0)
    c, kappa = float(law.rate) / 2, float(law.exponent)
    beta = float(next(t.coefficient for t in law.law.terms if t.power == -sp.S.Half and t.logs == 1))
    rest = []
    for depth in (10**6, 4 * 10**6):
        run = theory.propagate(sigma_w=1.0, sigma_b=0.0, depth=depth, every_layer=False)
        before = theory.propagate(sigma_w=1.0, sigma_b=0.0, depth=depth - 1, every_layer=False)
        chi = np.expm1(float(run.log_J[-1] - before.log_J[-1]))
        if depth == 4 * 10**6:
            assert abs(chi * depth**0.5 - c) < 1e-3
            assert not abs(chi * depth**0.5 - 1.02 * c) < 1e-3
        rest.append(
            float(run.log_J[-1]) - 2 * c * depth**0.5 - kappa * np.log(depth) - beta * np.log(depth) / depth**0.5
        )
    assert abs(rest[1] - rest[0]) < 1e-3
    without_beta = [r + beta * np.log(d) / d**0.5 for r, d in zip(rest, (10**6, 4 * 10**6))]
    if name == "tanh":
        assert abs(without_beta[1] - without_beta[0]) > 2e-3
    without_log = [r + kappa * np.log(d) for r, d in zip(rest, (10**6, 4 * 10**6))]
    assert abs(without_log[1] - without_log[0]) > 1e-2


@pytest.mark.fast_with("erf(z)-sqrt(pi)/2-1/(2*l)--1")
@pytest.mark.parametrize(
    ("formula", "sigma", "k_law", "j_exponent"),
    [
        ("tanh(z)", "1", "1/(2*l)", -1),
        ("erf(z)", "sqrt(pi)/2", "1/(2*l)", -1),
        ("softsign", "1", "pi/(8*l**2)", -2),
        ("tanh(z) - tanh(2*z)/8", "4/3", "sqrt(2)/(8*sqrt(l))", "-1/2"),
    ],
)
def test_critical_laws_at_zero(formula, sigma, k_law, j_exponent):
    theory = mf.derive(formula)
    from meanfield.base.symbols import l

    law = theory.depth_law("K", sigma_w=sp.sympify(sigma), sigma_b=0)
    assert sp.simplify(law.law.leading.expr(l) - sp.sympify(k_law, locals={"l": l})) == 0
    assert theory.depth_law("J", sigma_w=sp.sympify(sigma), sigma_b=0).exponent == sp.sympify(j_exponent)
    depth = 10**6
    run = theory.propagate(sigma_w=float(sp.sympify(sigma)), sigma_b=0.0, depth=depth, every_layer=False)
    predicted = float(law.law.expr.subs(l, depth))
    assert abs(float(run.K[-1]) / predicted - 1) < 0.03


@pytest.mark.slow
def test_stretched_exponential_at_criticality():
    law = mf.derive("sin(z) + 2/sqrt(3)*(1 - cos(z))").depth_law("J", sigma_w=1, sigma_b=0)
    assert sp.simplify(law.rate - 2 / sqrt(3)) == 0 and law.rate_power == sp.S.Half


def test_laws_that_are_not_known_say_so():
    with pytest.raises(mf.MeanFieldError, match="depends on"):
        mf.derive("tanh").depth_law("J")
    with pytest.raises(mf.MeanFieldError, match="faster than exponentially"):
        mf.derive("relu2").depth_law("J", sigma_w=3, sigma_b=1)
    with pytest.raises(mf.MeanFieldError, match="faster than exponentially"):
        mf.derive("relu2", residual=True).depth_law("K", sigma_w=1, sigma_b=0)


@pytest.mark.parametrize(
    ("text", "a", "b"),
    [
        ("t**3*exp(-t**2) + 2*t*exp(-2*t**2)", "2", "oo"),
        ("t**2*exp(-t**2 + 3*t - 1) - 5*exp(-t/3)*t**4", "1/2", "oo"),
        ("(t - 1)**2*exp(-t**2)*exp(-t)", "0", "sqrt(2)"),
    ],
)
def test_gaussians_times_polynomials_are_integrated_by_a_recursion(text, a, b):
    """Against mpmath; an integrand that grows or is no such sum is left to others."""
    t = sp.Symbol("t", positive=True)
    g, lo, hi = (sp.sympify(e, {"t": t}) for e in (text, a, b))
    found = float(_gaussian_rule(g, t, lo, hi))
    truth = float(mp.quad(sp.lambdify(t, g, "mpmath"), [float(lo), mp.inf if hi == sp.oo else float(hi)]))
    assert found == pytest.approx(truth, rel=1e-12)
    assert found != pytest.approx(truth * (1 + 1e-9), rel=1e-12)
    assert _gaussian_rule(t * sp.exp(t), t, lo, hi) is None is _gaussian_rule(sp.exp(-(t**4)), t, lo, hi)
