"""Averages over one and two inputs (R13 … R22): ReLU's in closed form, large-q expansions of tanh's (Lemmas D.2 … D.5).

q is K. Expansions are the engine's (`at_infinity`); the integrals of the lemmas are done by SymPy, or by quadrature.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import sympy as sp

import meanfield as mf
from derivations.claims import network
from derivations.comparisons import Equation, Floats, Formula, Holds
from derivations.placeholders import c
from meanfield.base.symbols import K, Z, z

RELU, TANH = network("relu"), network("tanh")
R, pi = sp.Rational, sp.pi


def coefficient(f: sp.Expr, n: int) -> Callable[[mf.Theory], sp.Expr]:
    """That of q^{-n - 1/2} in ⟨f⟩_q as q → ∞."""
    return lambda theory: mf.symbolic.at_infinity(mf.average(f, K), n + 2).coefficient(-n - R(1, 2))


def integral(f: sp.Expr, n: int) -> sp.Expr:
    """C_n of Lemma D.2 for φ² = f."""
    whole = 2 * sp.integrate(f * z ** (2 * n), (z, 0, sp.oo))
    return (-1) ** n / (2**n * sp.factorial(n) * sp.sqrt(2 * pi)) * whole


def leading(f: sp.Expr) -> Callable[[mf.Theory], sp.Expr]:
    return lambda theory: mf.symbolic.at_infinity(mf.average(f, K), 2).leading.expr(K)


def pair(theory: mf.Theory) -> sp.Expr:
    f = theory.activations[0].expression
    return mf.average(f.subs(z, Z[0]) * f.subs(z, Z[1]), (K, c * K, K))


J_1 = (sp.sqrt(1 - c**2) + (pi - sp.acos(c)) * c) / pi
of_relu = (
    Equation("R13, ReLU, Vφ", RELU, "<phi^2>", K / 2, K),
    Equation("R13, ReLU, Vφ′", RELU, "<phi'^2>", R(1, 2), sp.S.One),
    Formula("R14, proof of C.10, ReLU, Wφ", RELU, "<phi_a phi_b>", K / 2 * J_1, K * J_1, by=pair),
)


def kernel(cosine: float) -> float:
    """J_1 of the engine: ⟨φφ⟩ of a second layer over ⟨φ²⟩."""
    found = mf.derive("relu").propagate(sigma_w=1, sigma_b=0, depth=2, correlation=cosine)
    return 2 * float(found.K_ab[1])


def cho_saul(x: float) -> float:
    return (math.sqrt(1 - x * x) + (math.pi - math.acos(x)) * x) / math.pi


ENDS = (
    Floats("R14, J_1", RELU, "J_1", cho_saul, lambda x: x, of=kernel, places=((-1.0,), (0.0,), (0.3,), (0.95,))),
    Holds("R14, proof of C.10, J_1(c) ≥ c", RELU, "J_1", lambda x: x, lambda x: (1 + x) / 2,
          of=lambda bound, x: kernel(x) >= bound(x), places=((-0.9,), (0.0,), (0.5,), (0.9,), (1.0,))),
)  # fmt: skip
gauss = sp.exp(-(z**2))
LEMMA_D2 = tuple(
    Formula(f"R15, R16, Lemma D.2, n = {n}", RELU, "C_n", integral(gauss**2, n), -integral(gauss**2, n),
            by=coefficient(gauss**2, n))
    for n in range(3)
)  # fmt: skip


def sech_integral(power: int, n: int) -> float:
    """C_n of Lemma D.3, sech^{2d} = sech^power, by quadrature."""
    whole = mpmath.quad(lambda x: mpmath.sech(x) ** power * x ** (2 * n), [0, 1, 4, 16, 60]) * 2
    return float((-1) ** n * whole / (2**n * mpmath.factorial(n) * mpmath.sqrt(2 * mpmath.pi)))


def sech_coefficient(power: int, n: int) -> float:
    return float(sp.N(coefficient(sp.sech(z) ** power, n)(mf.derive("tanh")), 20))


def of_integral(f: sp.Expr) -> sp.Expr:
    """⟨f′⟩ from an integral f that is printed, by Stein's lemma: f is the integral of f′ where the two are equal at
    every K, as a Gaussian of width √K tells smooth functions apart."""
    return mf.average(z * f, K) / K


C_0, square, slope = sp.sqrt(2 / pi), sp.tanh(z) ** 2, sp.sech(z) ** 4
next_square = -(pi**2) / (12 * sp.sqrt(2 * pi))
next_slope = -(pi**2 - 6) / (18 * sp.sqrt(2 * pi))
last = 7 * pi**4 / (960 * sp.sqrt(2 * pi))
OF_TANH = (
    Floats("R17, Lemma D.3, sech, sech²", TANH, "C_n", sech_integral, lambda d, n: -sech_integral(d, n),
           of=sech_coefficient, places=tuple((d, n) for d in (2, 4) for n in range(3))),
    # E18: the dot is lost; as printed it is a statement on tanh itself
    Formula("R18, Lemma D.4, V tanh", TANH, "leading term", R(2, 3) * C_0 / sp.sqrt(K), sp.S.One, True,
            by=leading(square)),
    Equation("R18, Lemma D.4, proof: tanh(z) = sech²(z)", TANH, "<phi^2>", mf.average(slope, K),
             mf.average(square, K), True),
    Formula("R18, Lemma D.4, V tanh′", TANH, "leading term", R(2, 3) * C_0 / sp.sqrt(K), C_0 / sp.sqrt(K),
            by=leading(slope)),
    Formula("R19, Lemma D.5, 1 - V tanh", TANH, "leading term", C_0 / sp.sqrt(K), R(2, 3) * C_0 / sp.sqrt(K),
            by=leading(1 - square)),
    Formula("R19, Lemma D.5, next order", TANH, "C_1", next_square, -next_square, by=coefficient(1 - square, 1)),
    Formula("R19, C_2 of 1 - V tanh", TANH, "C_2", last, 2 * last, by=coefficient(1 - square, 2)),
    Formula("R18, Lemma D.4, next order", TANH, "C_1", next_slope, -next_slope, by=coefficient(slope, 1)),
    # E19
    Equation("R22, Lemma D.4, proof, integral of sech⁴", TANH, "<phi'^2>",
             of_integral(R(2, 3) * sp.tanh(z) + sp.sech(z) ** 2 * sp.tanh(z) / 2),
             of_integral(R(2, 3) * sp.tanh(z) + sp.sech(z) ** 2 * sp.tanh(z) / 3), True),
    Formula("R22, Lemma D.5, proof, integral of sech²", TANH, "1 - <phi^2>", of_integral(sp.tanh(z)),
            of_integral(2 * sp.tanh(z)), by=lambda t: 1 - t.averages()["phi^2"]),
)  # fmt: skip


def far(cosine: float) -> float:
    """⟨tanh tanh⟩ at K = 10^30, from a layer whose input has this norm."""
    found = mf.derive("tanh").propagate(sigma_w=1, sigma_b=0, depth=2, input_norm=1e30, correlation=cosine)
    return float(found.K_ab[1])


LIMIT = Floats("R20, proof of C.7, W tanh → (2/π) arcsin e", TANH, "limit", lambda x: 2 / math.pi * math.asin(x),
               lambda x: x, of=far, places=((0.2,), (0.5,), (0.9,)), tolerance=1e-12)  # fmt: skip
CLAIMS = (*of_relu, *ENDS, *LEMMA_D2, *OF_TANH, LIMIT)
