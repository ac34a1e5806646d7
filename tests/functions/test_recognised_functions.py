"""Logistic functions that are written by exponentials are recognised, and nothing else is taken for one."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

from meanfield import Pool, derive
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, Z, recognise, sigma_b, sigma_w, sigmoid, softplus, z
from meanfield.networks.records import Dense, Nonlinearity, Sequential
from meanfield.symbolic.averages.node import average

SCOPE = [{"sigmoid": lambda u: 1 / (1 + mp.exp(-u)), "softplus": lambda u: mp.log(1 + mp.exp(u))}, "mpmath"]
E = sp.exp
KNOWN = {
    1 / (1 + E(-z)): sigmoid(z),
    1 / (1 + E(2 * z)): sigmoid(-2 * z),
    z / (1 + E(-z)): z * sigmoid(z),
    E(z) / (1 + E(z)): sigmoid(z),
    3 * z**2 * E(z) / (1 + E(z)): 3 * z**2 * sigmoid(z),
    (1 + E(-z)) ** sp.Rational(-3, 2): sigmoid(z) ** sp.Rational(3, 2),
    sp.log(1 + E(3 * z - 1)): softplus(3 * z - 1),
    sp.tanh(sp.log(1 + E(z))): sp.tanh(softplus(z)),
}
OTHERS = [1 / (2 + E(-z)), sp.log(2 + E(z)), 1 / (z + E(z)), sp.log(z**2 + E(z)), 1 / (1 + z**2 + E(z)),
          (1 + E(z)) ** 2, sp.sqrt(1 + E(z)), 1 / (1 + z**2), sp.log(1 + z**2),
          E(z) / (1 + E(2 * z)) * (1 + z)]  # fmt: skip


@pytest.mark.parametrize("e", [*KNOWN, *OTHERS], ids=str)
def test_values_stay_and_names_are_found(e):
    found = recognise(e)
    with mp.workdps(30):
        for at in (-2, sp.Rational(-1, 3), sp.Rational(5, 4), 3):
            before, after = (sp.lambdify(z, f, SCOPE)(mp.mpf(sp.N(at, 30))) for f in (e, found))
            assert abs(before - after) < mp.mpf(10) ** -24
    if e in KNOWN:
        assert found == KNOWN[e]
    else:
        assert not found.has(softplus) and (not found.has(sigmoid) or e == OTHERS[-1])


def test_logistic_functions_at_their_ends():
    assert sigmoid(sp.oo) == 1 and sigmoid(-sp.oo) == 0 and sigmoid(0) == sp.S.Half and softplus(0) == sp.log(2)
    for f in (sigmoid, softplus):
        assert abs(sp.N(f(z).diff(z).subs(z, 0.3) - sp.diff(f.written(z), z).subs(z, 0.3), 20)) < 1e-15
        assert abs(sp.N(f(sp.Rational(3, 2)), 30) - sp.N(f.written(sp.Rational(3, 2)), 30)) < 1e-28
        assert sp.simplify(f(z).rewrite(sp.exp) - f.written(z)) == 0 and f(z).is_positive


def test_averages_of_a_pooled_formula_have_no_certified_digits():
    formula = Sequential((Nonlinearity("tanh"), Pool(3, "max(z1, z2*z3)"), Dense()))
    with pytest.raises(MeanFieldError, match=r"Digits of .* are not available: the averages of a Pool"):
        sp.N(derive(architecture=formula).recursion("K")["K"].subs({sigma_w: 1, sigma_b: 0, K: 1}))


@pytest.mark.slow_with("80")
@pytest.mark.parametrize("digits", [15, 40, 80])
def test_digits_of_an_average_are_as_many_as_asked(digits):
    """⟨sech² z⟩ at K = 1/2, and ⟨erf²⟩ = (2/π) asin(2K/(1 + 2K))."""
    with mp.workdps(digits + 20):
        K_ = mp.mpf(1) / 2
        truth = mp.quad(lambda u: mp.sech(u) ** 2 * mp.exp(-u * u / (2 * K_)), [-12, -4, -1, 0, 1, 4, 12])
        truth /= mp.sqrt(2 * mp.pi * K_)
        if digits < 20:
            found = mp.mpf(str(sp.N(average(sp.sech(Z[0]) ** 2, sp.Rational(1, 2)), digits)))
            assert abs(found - truth) < mp.mpf(10) ** (1 - digits)
        node = average(sp.erf(Z[0]) ** 2, sp.Rational(1, 2))
        exact = 2 / mp.pi * mp.asin(mp.mpf(1) / 2)
        assert abs(mp.mpf(str(sp.N(node, digits))) - exact) < mp.mpf(10) ** (1 - digits)
