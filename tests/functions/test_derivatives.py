"""Derivatives of quotients keep their digits far out, denominators keep their multiple roots together, and what rests
on both: runs of algebraic φ, against an iteration by mpmath quadrature."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import softplus, z
from meanfield.functions import zeros
from meanfield.functions.derivatives import derivative, expanded

THIRD = sp.Rational(1, 3)
QUOTIENTS = [
    z / sp.sqrt(1 + z**2),
    z / (1 + z**4) ** (THIRD * 3 / 4),
    z / (1 + z),
    (3 + z**2) / (1 + z**2),
    softplus(z) / sp.sqrt(1 + softplus(z) ** 2),
    z / (1 - z) ** 2 * (1 - z),
    sp.sqrt(1 + z**2) - z,
]


@pytest.mark.parametrize("f", QUOTIENTS, ids=str)
def test_slopes_of_quotients_keep_their_digits(f):
    """At z = 10^5, in doubles: SymPy's own slope is a difference of equal numbers there."""
    order = 1 if f != sp.sqrt(1 + z**2) - z else 2
    slope = f if order == 1 else derivative(f, z)
    tidy, plain = derivative(slope, z), sp.diff(f, z, order)
    exact = sp.N(plain.subs(z, 10**5), 30)
    heads = {"softplus": lambda u: u, "sigmoid": lambda u: 1.0 if u > 0 else 0.0}  # at ±10^5, in doubles
    own, other = (sp.lambdify(z, e, [heads, "math"])(1e5) for e in (tidy, plain))
    assert abs(own / float(exact) - 1) < 1e-13
    if f not in (z / (1 + z), z / (1 - z) ** 2 * (1 - z)):
        assert abs(other / float(exact) - 1) > 1e-10  # control: it is the form that keeps them


def test_sums_in_which_nothing_cancels_stay():
    for f in (z * sp.exp(z), sp.tanh(z) / (1 + z**2), z**2 + sp.sin(z)):
        assert derivative(f, z) == derivative(f, z).func(*derivative(f, z).args)
        assert sp.simplify(derivative(f, z).rewrite(sp.exp) - sp.diff(f, z).rewrite(sp.exp)) == 0


def test_denominators_are_not_multiplied_out():
    e = (z**2 / (1 + z) ** 4 + 1) * (z + 2)
    assert expanded(e).has((1 + z) ** -4) and sp.simplify(expanded(e) - e) == 0
    assert not sp.expand(e).has((1 + z) ** -4)  # control


@pytest.mark.parametrize(
    ("poly", "roots"),
    [((z - 1) ** 4, [1]), (sp.expand((z**2 + 2 * z + 2) ** 3), [-1 - 1j, -1 + 1j]),
     (sp.expand((z - sp.sqrt(2)) ** 2 * (z + 1)), [-1, 2**0.5])],
    ids=str,
)
def test_complex_roots_are_distinct(poly, roots):
    found = sorted((complex(float(r.real), float(r.imag)) for r in zeros.complex_roots(sp.Poly(poly, z))), key=str)
    assert np.allclose(sorted(found, key=lambda c: (c.real, c.imag)), roots, atol=1e-12)
    assert len(found) == len(roots) < sp.Poly(poly, z).degree()


def test_a_multiple_pole_is_seen():
    """z² + √2 z + 1/2 = (z + 1/√2)²: its third power has a root of order six on the real line."""
    with pytest.raises(MeanFieldError, match=r"not real and finite near z = -0\.70710678"):
        mf.activation("z/(z**2 + sqrt(2)*z + 1/2)**3")
    assert mf.activation("z/(z**2 + sqrt(2)*z + 1)**3").name == "custom"  # control: no real root


def iterated(phi, slope, w, b, depth):
    """(K, J, Θ) by the field's recursions, averages by mpmath."""
    def mean(f, K):
        s = mp.sqrt(K)
        return mp.quad(lambda x: f(s * x) * mp.npdf(x), [-11, -3, 0, 3, 11])

    K, J = w**2 + b**2, mp.mpf(1)
    theta = K
    for _ in range(depth - 1):
        chi, K = w**2 * mean(lambda x: slope(x) ** 2, K), w**2 * mean(lambda x: phi(x) ** 2, K) + b**2
        theta, J = K + chi * theta, chi * J
    return K, J, theta


RUNS = [
    ("z/sqrt(1+z**2)", lambda x: x / mp.sqrt(1 + x * x), lambda x: (1 + x * x) ** R(-1.5)),
    (
        "z/(1+3*abs(z)+3*z**2+abs(z)**3)",
        lambda x: x / (1 + abs(x)) ** 3,
        lambda x: (1 - 2 * abs(x)) / (1 + abs(x)) ** 4,
    ),
]
R = mp.mpf


@pytest.mark.slow
@pytest.mark.parametrize(("text", "phi", "slope"), RUNS, ids=[r[0] for r in RUNS])
def test_runs_of_algebraic_functions(text, phi, slope):
    run = mf.derive(text).propagate(sigma_w=1.7, sigma_b=0.3, depth=4, quantities=("K", "J", "Theta"))
    with mp.workdps(18):
        exact = iterated(phi, slope, R(1.7), R(0.3), 4)
    for name, value in zip(("K", "J", "Theta"), exact):
        assert abs(getattr(run, name)[-1] / float(value) - 1) < 1e-12
        assert abs(getattr(run, name)[-1] / float(value * (1 + R(1e-11))) - 1) > 1e-12  # control


@pytest.mark.slow
def test_of_order_one_over_n():
    """F of z/√(1 + z²) needs ⟨z²/(1 + z²)²⟩ and ⟨z²/(1 + z²)⁴⟩, which the run once called too steep."""
    theory = mf.derive("z/sqrt(1+z**2)")
    run = theory.propagate(sigma_w=1.5, sigma_b=0.2, depth=3, quantities=("K", "F", "Theta"))

    def mean(f, K):
        return mp.quad(lambda x: f(mp.sqrt(K) * x) * mp.npdf(x), [-11, -3, 0, 3, 11])

    K, theta, F = R(run.K[0]), R(run.Theta[0]), R(run.F[0])
    for layer in (1, 2):
        w2, b2 = R(1.5) ** 2, R(0.2) ** 2
        one, two = (mean(lambda x, n=n: x * x / (1 + x * x) ** n, K) for n in (2, 4))
        F = w2**2 * (F * (one / K) ** 2 + theta * two)
        chi = w2 * mean(lambda x: (1 + x * x) ** -3, K)
        K = w2 * mean(lambda x: x * x / (1 + x * x), K) + b2
        theta = K + chi * theta
        assert abs(run.F[layer] / float(F) - 1) < 1e-12 < abs(run.F[layer] / float(F * (1 + R(1e-11))) - 1)


@pytest.mark.slow
def test_softsign_behind_a_layernorm_runs():
    """Θ of LayerNorm → softsign: (1 + |z|)⁻⁴ is not multiplied out, and its four roots are one."""
    theory = mf.derive("softsign", norm="pre")
    text = str(theory.recursion("Theta")["Theta"])
    assert "**(-4)" in text and "6*z**2" not in text
    run = theory.propagate(sigma_w=1.5, sigma_b=0.2, depth=3, quantities=("K", "Theta"))

    def mean(f):
        return mp.quad(lambda x: f(abs(x)) * mp.npdf(x), [-11, -3, 0, 3, 11])

    w2, b2 = 1.5**2, 0.2**2
    square, slope, mixed = (float(mean(f)) for f in (
        lambda x: x**2 / (1 + x) ** 2, lambda x: (1 + x) ** -4, lambda x: x**2 / (1 + x) ** 4))
    K, theta = w2 + b2, w2 + b2
    for layer in (1, 2):
        theta = b2 + w2 * square + w2 * (slope + mixed + theta * slope / K)
        K = b2 + w2 * square
        found = run.Theta[layer] - theta
        assert abs(run.K[layer] / K - 1) < 1e-12
        assert abs(found) < 1e-10 * theta < abs(run.Theta[layer] - theta * 1.001)
