"""Closed forms of two inputs (and one) at variances whose products leave the doubles: against determinants in many
digits, and against the homogeneous tail that φ has become there."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import K, K_ab
from meanfield.numeric.lowering.averages.two_gaussians import closed_text
from meanfield.numeric.lowering.text import printing
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.recursion import closed

pytestmark = pytest.mark.usefixtures("interpreted")

FAR = (1e-280, 1e-160, 1e-3, 1.0, 1e3, 1e160, 1e280)


def erf(a, b, ab):
    return 2 / mp.pi * mp.asin(2 * ab / mp.sqrt((1 + 2 * a) * (1 + 2 * b)))


def bell(a, b, ab):
    """⟨e^{-z_a²} e^{-z_b²}⟩ = det(1 + 2Σ)^(-1/2)."""
    return 1 / mp.sqrt((1 + 2 * a) * (1 + 2 * b) - 4 * ab**2)


def wave(a, b, ab):
    """⟨z_a e^{-z_a²} z_b e^{-z_b²}⟩ = (Σ(1 + 2Σ)^(-1))_ab det(1 + 2Σ)^(-1/2)."""
    return ab / mp.sqrt((1 + 2 * a) * (1 + 2 * b) - 4 * ab**2) ** 3


def gelu(a, b, ab):
    """4 ⟨z_a Φ(z_a) z_b Φ(z_b)⟩ by Stein's identity in both arguments (a quadrature of it is below)."""
    root = mp.sqrt((1 + a) * (1 + b) - ab**2)
    below = mp.mpf(1) / 4 + mp.asin(ab / mp.sqrt((1 + a) * (1 + b))) / (2 * mp.pi)
    return 4 * (ab * below + (a * b + ab**2 * (1 - a / (1 + a) - b / (1 + b))) / root / (2 * mp.pi))


FORMS = {"erf(z)": erf, "exp(-z**2)": bell, "z*exp(-z**2)": wave, "gelu": gelu}
FUNCTIONS = {
    "erf(z)": mp.erf,
    "exp(-z**2)": lambda z: mp.exp(-z * z),
    "z*exp(-z**2)": lambda z: z * mp.exp(-z * z),
    "gelu": lambda z: 2 * z * mp.ncdf(z),
}


def form_of(phi: str) -> sp.Expr:
    f = mf.derive(phi).recursion("K_aa", "K_bb", "K_ab")
    (node,) = (n for e in f.steps[-1].flat() for n in e.atoms(Average) if n.dimension == 2 and K_ab in n.free_symbols)
    return closed(node)


def assert_far(f, phi: str) -> None:
    """f(K_aa, K_ab, K_bb, sine2) is right to 1e-14 of the roots of both second moments."""
    with mp.workdps(700):
        for a in FAR:
            for b in FAR:
                for c in (-0.9, 0.3, 1 / 3, 0.999):
                    ab = c * math.sqrt(a) * math.sqrt(b)
                    true = FORMS[phi](mp.mpf(a), mp.mpf(b), mp.mpf(ab))
                    size = mp.sqrt(FORMS[phi](*[mp.mpf(a)] * 3)) * mp.sqrt(FORMS[phi](*[mp.mpf(b)] * 3))
                    found = f(a, ab, b, (1 - abs(c)) * (1 + abs(c)))
                    assert abs(found - true) <= 1e-14 * size + 1e-300, (a, b, c)


@pytest.mark.slow
@pytest.mark.parametrize("phi", FORMS)
def test_forms_are_their_definition(phi):
    a, b, ab, f = mp.mpf(2), mp.mpf(3), mp.mpf(1), FUNCTIONS[phi]

    def of_x(x):
        here = ab / mp.sqrt(a) * x, mp.sqrt(b - ab**2 / a)
        inner = mp.quad(lambda y: f(here[0] + here[1] * y) * mp.npdf(y), mp.linspace(-9, 9, 4), maxdegree=4)
        return f(mp.sqrt(a) * x) * mp.npdf(x) * inner

    with mp.workdps(15):
        found = mp.quad(of_x, mp.linspace(-9, 9, 4), maxdegree=4)
        assert abs(found - FORMS[phi](a, b, ab)) < 1e-10


@pytest.mark.slow_with("erf(z)", "gelu")
@pytest.mark.parametrize("phi", FORMS)
def test_products_of_variances_may_leave_the_doubles(phi, monkeypatch):
    assert_far(printing.interpret(closed_text(form_of(phi), "far"), "far"), phi)
    monkeypatch.setattr(printing, "by_root", lambda e: e)
    refuse_products(phi)


def refuse_products(phi: str) -> None:
    """What is planted is seen."""
    planted = printing.interpret(closed_text(form_of(phi), "far"), "far")
    with pytest.raises((AssertionError, ArithmeticError), match=r"1e|too large|division"):
        assert_far(planted, phi)


@pytest.mark.slow
def test_quotients_of_products(monkeypatch):
    """⟨GELU²⟩ → K/2 at K beyond 1e154, and its slope, 1/2; products before quotients overflow."""
    found = mf.derive("gelu").propagate(sigma_w=1, sigma_b=0, depth=2, start={"K": 1e200}, quantities=("K", "J"))
    assert abs(found.K[1] / 1e200 - 0.5) < 1e-14
    assert abs(found.J[1] - 0.5) < 1e-12
    monkeypatch.setattr(printing, "balanced", lambda e: e)
    refuse_products("gelu")


@pytest.mark.fast_with("1e+77")
@pytest.mark.parametrize("scale", [1e77, 1e140])
def test_kernels_and_runs_of_erf_of_far_inputs(scale):
    """c = 1/3 goes to 2/π asin(1/3) in one layer, whatever the norms are; it was 1, and 0 at 1e77."""
    rows = scale * np.array([[1, 0], [1 / 3, math.sqrt(8) / 3]])
    true = 2 / math.pi * math.asin(1 / 3)
    theory = mf.derive("erf")
    found = theory.kernel(rows, sigma_w=1, sigma_b=0, depth=2, quantities="K")
    assert abs(found.K[0, 1] - true) < 5e-14  # one by one, from distance and norm_angle
    start = {"K_aa": scale**2, "K_bb": scale**2, "K_ab": scale**2 / 3}
    run = theory.propagate(sigma_w=1, sigma_b=0, depth=2, start=start, quantities="K_ab")
    assert abs(run.K_ab[1] - true) < 1e-14


QUOTIENTS = K / (K + 1) ** sp.Rational(3, 2), K**2 / ((K + 1) * sp.sqrt(2 * K + 1)), K / (K + 1)


@pytest.mark.parametrize("formula", QUOTIENTS)
def test_quotients_of_products_end_at_the_largest_double(formula):
    """(K + 1)^(3/2) is no double from 1e205 on; K/(K + 1)^(3/2) is one up to the end."""
    run = sp.lambdify(K, printing.balanced(formula), [{"over": lambda a, b: a / b}, "math"])
    for value in (1e-3, 1.0, 1e200, 1e307):
        exact = mp.mpf(str(sp.N(formula.subs(K, sp.Float(value, 40)), 30)))
        assert abs(run(value) / exact - 1) < 1e-14, value
