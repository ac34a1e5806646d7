"""The node behaves as a SymPy expression: nothing rewrites inside it, substitution and differentiation are right."""

from __future__ import annotations

import pickle

import pytest
import sympy as sp
from mpmath import mp

import meanfield as mf
from meanfield.base.symbols import K, K_aa, K_ab, K_bb, P, Z, z
from meanfield.functions.activations import activation
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.recursions.block_recursions import slope_average

TANH2 = average(sp.tanh(z) ** 2, K)


def test_integrand_is_opaque():
    assert sp.simplify(2 * TANH2) == 2 * TANH2
    assert sp.expand((TANH2 + 1) ** 2) == TANH2**2 + 2 * TANH2 + 1
    replacements, _ = sp.cse([TANH2 + sp.tanh(K), TANH2 * sp.tanh(K)])
    assert not any(e.has(*Z) for _, e in replacements)
    assert pickle.loads(pickle.dumps(TANH2)) == TANH2
    assert hash(average(sp.tanh(z) ** 2, K)) == hash(TANH2)


def test_numbers():
    one = TANH2.subs(K, 1)
    assert one.is_number and one > 0 and one < 1
    assert str(sp.N(one, 30)).startswith("0.394294490397841")


def test_parameters_are_arguments():
    alpha = sp.Symbol("alpha", real=True)
    symbolic = average(activation("leaky_relu", alpha="alpha").expression ** 2, K)
    assert symbolic.free_symbols == {K, alpha}
    assert symbolic.subs(alpha, sp.Rational(1, 10)) == average(activation("leaky_relu", alpha=0.1).expression ** 2, K)
    assert sp.expand(symbolic.doit() - K * (1 + alpha**2) / 2) == 0
    assert sp.expand(symbolic.diff(alpha).doit() - K * alpha) == 0
    assert not symbolic.has(*P) or all(p not in symbolic.free_symbols for p in P)


def test_sech_fourth_stays_a_node():
    chi = mf.derive("tanh", residual=True).susceptibilities()["chi_J"]
    assert str(chi) == "sigma_w**2*<sech(z)**4>_{K} + 1"
    assert r"\operatorname{sech}^{4}" in sp.latex(chi)


@pytest.mark.slow_with("erf", "gelu", "sin", "gaussian")
@pytest.mark.parametrize("name", ["erf", "gelu", "relu", "step", "leaky_relu", "sin", "gaussian", "relu2"])
def test_two_input_derivatives_match_the_closed_form(name):
    """Price's identity and the Stein form of ∂/∂K_aa against differentiation of the closed form; a missing cross term
    shows."""
    f = activation(name).pieces.expr
    node = average(f * f.xreplace({Z[0]: Z[1]}), (K_aa, K_ab, K_bb))
    at = {K_aa: sp.Rational(13, 10), K_bb: sp.Rational(7, 10), K_ab: sp.Rational(2, 5)}
    form = node.doit()
    for s in (K_aa, K_ab, K_bb):
        assert abs(sp.N((form.diff(s) - node.diff(s).doit()).subs(at), 30, chop=1e-28)) < 1e-25
    if name == "gelu":
        half = average(Z[0] * sp.diff(f, Z[0]) * f.xreplace({Z[0]: Z[1]}), (K_aa, K_ab, K_bb)) / (2 * K_aa)
        coefficient = node.as_independent(Average)[0]
        assert abs(sp.N((coefficient * half - form.diff(K_aa)).subs(at).doit(), 20)) > 1e-3


@pytest.mark.fast_with("step")
@pytest.mark.parametrize("name", ["hard_tanh", "elu", "step", "tanh"])
def test_kinked_derivative_is_a_difference_quotient(name):
    """∂⟨φφ⟩/∂K_ab of functions without closed form, jump terms included, against central differences of certified
    values."""
    phi = activation(name)
    node = average(phi.pieces.expr * phi.pieces.expr.xreplace({Z[0]: Z[1]}), (K_aa, K_ab, K_bb))
    at = {K_aa: sp.Rational(13, 10), K_bb: sp.Rational(7, 10)}
    h = sp.Rational(1, 10**5)
    up, down = (node.subs({**at, K_ab: sp.Rational(2, 5) + d}).evalf(20) for d in (h, -h))
    slope = slope_average(phi, (K_aa, K_ab, K_bb)).subs({**at, K_ab: sp.Rational(2, 5)}).evalf(15)
    quotient = (up - down) / (2 * h)
    assert abs(quotient - slope) < 1e-8
    assert not abs(quotient - slope * 1.01) < 1e-8


def test_full_correlation_reduces_to_one_input():
    f = activation("hard_tanh").pieces.expr
    node = average(f * f.xreplace({Z[0]: Z[1]}), (K_aa, K_ab, K_bb))
    same = node.subs({K_aa: 2, K_bb: 2, K_ab: 2})
    assert abs(float(same.evalf(20)) - float(average(f**2, K).subs(K, 2).evalf(20))) < 1e-18
    opposite = node.subs({K_aa: 2, K_bb: 8, K_ab: -4})
    swapped = average(f * -activation("clip(2*z, -1, 1)").pieces.expr, K).subs(K, 2)
    assert abs(float(opposite.evalf(20)) - float(swapped.evalf(20))) < 1e-18


def test_what_average_returns_has_certified_digits_whatever_it_is():
    """Products, sums and the 0 of an odd function, against mpmath's quadrature."""
    with mp.workdps(25):
        truth = mp.quad(lambda x: mp.tanh(x) ** 2 * mp.exp(-x * x / 2), [-12, -3, 0, 3, 12]) / mp.sqrt(2 * mp.pi)
    for f, value in (("2*tanh(z)**2", 2 * truth), ("tanh(z)", 0), ("1 + tanh(z)**2", 1 + truth), ("3", 3)):
        found = mf.certified(mf.average(f, 1), 20)
        assert abs(mp.mpf(found.mid().str(22, radius=False)) - value) < 1e-19
        assert abs(mp.mpf(found.mid().str(22, radius=False)) - value - truth / 10**9) > 1e-10
    assert mf.certified(0) == 0 and mf.certified(1.5) == 1.5
    for wrong in (True, None, K, "1/2", float("nan")):
        with pytest.raises(mf.MeanFieldError, match="ertified digits"):
            mf.certified(wrong)


def test_the_derivative_by_a_parameter_of_pieces_in_both_variables():
    """φ = αz + (1 - α) max(z, 0), so ⟨φφ⟩ = αK_ab + (1 - α)² R, R the kernel of ReLU, and its derivative by α is
    K_ab - 2(1 - α) R."""
    alpha = sp.Symbol("alpha", real=True)
    f = activation("leaky_relu", alpha="alpha").expression.xreplace({z: Z[0]})
    node = average(f * f.xreplace({Z[0]: Z[1]}), (K_aa, K_ab, K_bb))
    at = {K_aa: sp.Rational(13, 10), K_bb: sp.Rational(7, 10), K_ab: sp.Rational(2, 5), alpha: sp.Rational(1, 4)}
    size, angle = sp.sqrt(K_aa * K_bb), sp.acos(K_ab / sp.sqrt(K_aa * K_bb))
    relu = size * (sp.sin(angle) + (sp.pi - angle) * sp.cos(angle)) / (2 * sp.pi)
    found = node.diff(alpha)
    for expected, same in ((K_ab - 2 * (1 - alpha) * relu, True), (K_ab - (1 - alpha) * relu, False)):
        gap = sp.N(found.subs(at).doit(), 20) - sp.N(expected.subs(at), 20)
        assert bool(abs(gap) < 1e-15) is same


def test_the_derivative_by_a_place_where_the_second_variable_jumps():
    """∂⟨max(z_a, 0) 1[z_b > α]⟩/∂α = -p(α) ⟨max(z_a, 0) | z_b = α⟩, and of a factor α beside it the average itself."""
    alpha = sp.Symbol("alpha", real=True)
    f = sp.Max(Z[0], 0) * sp.Heaviside(Z[1] - alpha, sp.S.Half) * alpha
    node = average(f, (K_aa, K_ab, K_bb))
    at = {K_aa: sp.Rational(13, 10), K_bb: sp.Rational(7, 10), K_ab: sp.Rational(2, 5), alpha: sp.Rational(1, 4)}
    mean, spread = K_ab * alpha / K_bb, sp.sqrt(K_aa - K_ab**2 / K_bb)
    density = sp.exp(-(alpha**2) / (2 * K_bb)) / sp.sqrt(2 * sp.pi * K_bb)
    bell = sp.exp(-(mean**2) / (2 * spread**2)) / sp.sqrt(2 * sp.pi)
    given = mean * (1 + sp.erf(mean / spread / sp.sqrt(2))) / 2 + spread * bell
    expected = (node / alpha - alpha * density * given).subs(at)
    assert abs(sp.N(node.diff(alpha).subs(at) - expected, 15)) < 1e-12
