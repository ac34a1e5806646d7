"""Quotients and logarithms of sums of exponentials, far out: a wide ball of e^{-z} may be anything of its size.

Compared with mpmath quadrature, and at a large K with what symmetry or the first terms of large K say.
"""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import Z
from meanfield.symbolic.averages.dominant import far_form

R = mp.mpf


def digits_of(ball):
    return mp.mpf(ball.mid().str(30, radius=False))


@pytest.mark.slow_with("1/sqrt(cosh(z - 3))-<lambda>-25")
@pytest.mark.parametrize(
    ("text", "f", "K"),
    [
        ("z**2/(2 + exp(-z))", lambda z: z**2 / (2 + mp.exp(-z)), 4),
        ("z**2/(1 + cosh(z))**2", lambda z: z**2 / (1 + mp.cosh(z)) ** 2, 100),
        ("log(cosh(z))", lambda z: mp.log(mp.cosh(z)), 100),
        ("z*sinh(z)/(2 + cosh(z))", lambda z: z * mp.sinh(z) / (2 + mp.cosh(z)), 9),
        ("1/sqrt(cosh(z - 3))", lambda z: 1 / mp.sqrt(mp.cosh(z - 3)), 25),
        ("1/(1 + exp(-z) + z**2)", lambda z: 1 / (1 + mp.exp(-z) + z**2), 4),
    ],
)
def test_against_quadrature(text, f, K):
    with mp.workdps(30):
        s = mp.sqrt(K)
        ends = [-14 * s, -4 * s, -1, 0, 1, 3, 4 * s, 14 * s]
        value = mp.quad(lambda z: f(z) * mp.exp(-z * z / 2 / K), sorted(ends)) / mp.sqrt(2 * mp.pi * K)
        found = digits_of(mf.average(text, K).ball(20))
        assert abs(found / value - 1) < R("1e-17") < abs(found / value * (1 + R("1e-15")) - 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("z**2/(2 + exp(-z))", lambda K: K / 4),  # a half of the line, divided by 2
        ("z**2*sqrt(1/(1 + exp(-z)))", lambda K: K / 2),
        ("z*sinh(z)/(2 + cosh(z))", lambda K: mp.sqrt(2 * K / mp.pi)),
        ("log(cosh(z))", lambda K: mp.sqrt(2 * K / mp.pi) - mp.log(2)),
        ("exp(z)/(2 + exp(z + 1))", lambda K: mp.exp(-1) / 2),
        ("z**2/(1 + cosh(z))**2", lambda K: (2 * mp.pi**2 / 9 - R(4) / 3) / mp.sqrt(2 * mp.pi * K)),
    ],
)
def test_large_variances(text, value):
    """The integral of z²/(1 + cosh z)² over the line is (2π² - 12)/9: checked here, too."""
    K = R(10) ** 20
    if "cosh(z))**2" in text:
        whole = mp.quad(lambda z: z**2 / (1 + mp.cosh(z)) ** 2, [-60, 0, 60])
        assert abs(whole - (2 * mp.pi**2 / 9 - R(4) / 3)) < 1e-10
    ball = mf.average(text, 10**20).ball(20)
    found, expected = digits_of(ball), value(K)
    assert ball.rel_accuracy_bits() > 60
    assert abs(found / expected - 1) < 2e-9 < abs(1.00001 * found / expected - 1)


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["z/(2 + exp(-z))", "z/sqrt(1 + exp(-z))", "z/(1 + cosh(z))", "z/sqrt(cosh(z))"])
def test_they_propagate(phi):
    """K of the second layer and the third, by quadrature of the formula in plain Python."""
    run = mf.derive(phi).propagate(sigma_w=1.1, sigma_b=0.2, depth=3)
    f = eval(f"lambda z: {phi}", {"exp": mp.exp, "cosh": mp.cosh, "sqrt": mp.sqrt})
    K = R("1.21") + R("0.04")
    for layer in (1, 2):
        density = lambda z, K=K: mp.exp(-z * z / 2 / K) / mp.sqrt(2 * mp.pi * K)  # noqa: E731
        second = mp.quad(lambda z, p=density: f(z) ** 2 * p(z), [-16, -3, 0, 3, 16])
        K = R("1.21") * second + R("0.04")
        assert abs(run.K[layer] / K - 1) < 1e-12 < abs(run.K[layer] * (1 + 1e-10) / K - 1)


def test_a_far_form_is_the_same_function():
    for e in (1 / (2 + sp.exp(-Z[0])), sp.log(sp.cosh(Z[0] - 1)), sp.sinh(Z[0]) / (2 + sp.cosh(Z[0])) ** 3):
        for side in (-1, 1):
            other = far_form(e, side)
            assert other != e or side == 1
            for x in (-7, sp.Rational(1, 3), 5):
                assert abs(sp.N((e - other).subs(Z[0], x), 30)) < 1e-25
    assert far_form(1 / (1 + Z[0] ** 2), 1) == 1 / (1 + Z[0] ** 2)
