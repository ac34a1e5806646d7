"""The critical line (Algorithm 1 of Hayou et al., which the paper refers to) and the neutrality line c* = ½; and c on
the critical line."""

from __future__ import annotations

import math

import sympy as sp

import meanfield as mf
from derivations.bias_and_trainability.depths import power
from derivations.claims import each, network
from derivations.comparisons import Equation, Floats, Formula
from derivations.placeholders import slope, square
from meanfield.base.symbols import K

SMOOTH, ERF, TANH = each("tanh erf gelu"), network("erf"), network("tanh")
POOLED = each("erf tanh", pool="max")
PLACES = ((0.3,), (1.0,), (4.0,))


def erf_line(k: float, ratio: float = 0.5) -> float:
    """σ_w² where (1 - ratio) K = σ_w²(⟨φ²⟩ - ⟨φφ′⟩_{c = ratio}), the difference of K′ = K and K_ab′ = ratio K."""
    second, mixed = (2 / math.pi * math.asin(2 * k * c / (1 + 2 * k)) for c in (1, ratio))
    return (1 - ratio) * k / (second - mixed)


def small_edge(theory: mf.Theory) -> sp.Expr:
    """(σ_w² - 1)/(σ_b²)^{1/3} on the critical line as K → 0."""
    width, bias = (mf.symbolic.at_zero(e, 4).expr for e in theory.critical_line().parametric)
    return _leading(width - 1, 1) / sp.cbrt(_leading(bias, 3))


def small_neutral(theory: mf.Theory) -> sp.Expr:
    """The same on the neutrality line."""
    start, term = theory.neutrality_line().near_zero().terms
    assert (start.coefficient, start.power, term.power) == (1, 0, sp.Rational(1, 3))
    return term.coefficient


def _leading(e: sp.Expr, order: int) -> sp.Expr:
    """The coefficient of K^order, which must be the first that is not 0."""
    e = sp.expand(e)
    assert all(e.coeff(K, n) == 0 for n in range(order)), f"{e} has a term below K^{order}"
    return e.coeff(K, order)


def edge_power(theory: mf.Theory) -> sp.Expr:
    """p of 1 - c ~ l^p on the critical line at K* = ½."""
    place = (mf.symbolic.closed(v).subs(K, sp.Rational(1, 2)) for v in theory.critical_line().parametric)
    return power(tuple(place))(theory)


CLAIMS = (
    Equation("B28, σ_w² of Algorithm 1", SMOOTH + POOLED, "line sigma_w^2(K)", 1 / slope, 1 / square),
    Equation("B28, σ_b² of Algorithm 1", SMOOTH + POOLED, "line sigma_b^2(K)", K - square / slope, K + square / slope),
    Floats(
        "B58, neutrality line",
        ERF,
        "sigma_w^2",
        erf_line,
        lambda k: erf_line(k, 0.6),
        of=lambda k: mf.derive("erf").neutrality_line().at(k)[0] ** 2,
        places=PLACES,
    ),
    Formula("B59, EOC", TANH, "at 0", 2 * sp.cbrt(sp.Rational(3, 4)), 2 * sp.cbrt(2), by=small_edge),
    Formula("B59, neutrality", TANH, "at 0", 2 * sp.cbrt(2), 2 * sp.cbrt(sp.Rational(3, 4)), by=small_neutral),
    # E17: c of tanh-like φ is said to converge exponentially always
    Formula("B60, B25, § 3: exponential at the EOC", ERF, "power of l", sp.S.Zero, -sp.S.One, True, by=edge_power),
)
