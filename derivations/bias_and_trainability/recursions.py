"""Recursions and susceptibilities for any φ (App. C, D), single nodes of App. F, and gradients (App. G)."""

from __future__ import annotations

import sympy as sp

import meanfield as mf
from derivations.claims import each
from derivations.comparisons import Equation, Formula
from derivations.placeholders import (
    c,
    curl,
    nested_mean,
    nested_square,
    pair,
    pair_bend,
    pair_slope,
    slope,
    square,
    square_K,
    square_root,
)
from meanfield.base.symbols import J_ab, K, Z, sigma_b, sigma_w, z

w, b = sigma_w**2, sigma_b**2
PLAIN, SMOOTH = each("relu erf gelu tanh elu"), each("erf gelu tanh")
PAIRS = each("relu erf sin")
MADE = each("z**3 sin exp(z)")  # averages over y and y′ have closed forms
NESTED = each("relu step z**3 exp(z)")  # averages over data and then over weights have closed forms
new = w * square + b
root = sp.sqrt(1 - c**2)
u, u_ = (sp.sqrt(K) * v for v in (Z[0], c * Z[0] + root * Z[1]))  # (9), (10) for one norm


def of_two(weight: sp.Expr, first: int, second: int):
    """⟨φ^(first)(u) φ^(second)(u′) weight⟩ over independent standard normals y, y′."""

    def by(theory: mf.Theory) -> sp.Expr:
        f = theory.activations[0].expression
        return mf.average(f.diff(z, first).subs(z, u) * f.diff(z, second).subs(z, u_) * weight, (1, 0, 1))

    return by


COVARIANCES = (
    Equation("B13 (7), (17)", PLAIN, "K", w * square + b, w * square),
    Equation("B14 (8), (19)", PAIRS, "K_ab", w * pair + b, w * pair + c * b),
    Formula("B14 (8), over y and y′", MADE, "<phi(u) phi(u')>", pair, c * square, by=of_two(sp.S.One, 0, 0)),
    Equation("B14 (9), variance of u", PAIRS, "Var u", K, K * c),
    Equation("B14 (10), variance of u′", PAIRS, "Var u'", K * (c**2 + root**2), K * (c**2 + 1 - c)),
    Equation("B14 (10), covariance", PAIRS, "Cov(u, u')", K * c, K * root),
    # E8: √(1 - c) for √(1 - c²)
    Equation("B30 (60), variance of u′", PAIRS, "Var u'", K * (c**2 + 1 - c), K * (c**2 + root**2), misprint=True),
    # E14: σ_w² twice, and √q for q
    Equation("B32, after Def. F.4", PLAIN, "K", w * w * square_root + b, w * square + b, misprint=True),
    Equation("B6 (36)", NESTED, "sigma_y2", w * (nested_square - nested_mean), w * nested_square),
    Equation("B6 (37)", NESTED, "sigma_mu2", w * nested_mean + b, w * nested_mean),
)


def steins(f: sp.Expr, variables: tuple[sp.Symbol, ...]) -> tuple[sp.Expr, ...]:
    """⟨f y⟩ and ⟨∂f/∂y⟩ over standard normals, y the first of the variables."""
    y, law = variables[0], 1 if len(variables) == 1 else (1, 0, 1)
    return tuple(mf.average(e, law) for e in (f * y, f.diff(y)))


OF_ONE, OF_TWO = (sp.exp(z) * sp.erf(z), (z,)), (Z[0] ** 2 * Z[1] * sp.exp(Z[0] + Z[1]), Z[:2])
(_, one), (_, two) = steins(*OF_ONE), steins(*OF_TWO)
STEIN = (
    Formula("B19 (24)", PLAIN[0], "<F(y) y>", one, 2 * one, by=lambda theory: steins(*OF_ONE)[0]),
    Formula("B19 (67)", PLAIN[0], "<f(y) y_1>", two, 2 * two, by=lambda theory: steins(*OF_TWO)[0]),
)

SUSCEPTIBILITIES = (
    Equation("B15 (20), χ_1 where q is fixed", PLAIN, "chi_J", w * slope, w * square_K),
    Equation("B15 (21)", SMOOTH, "chi_K", w * slope + w * curl, w * slope),
    Formula(  # Price's theorem: what (23) comes to
        "B16 (23)",
        MADE,
        "<phi(u) phi'(u') du'/dc>",
        K * pair_slope,
        K * pair,
        by=of_two(sp.sqrt(K) * (Z[0] - c / root * Z[1]), 0, 1),
    ),
    Formula(
        "B16 (25)",
        MADE,
        "<phi(u) phi'(u') y>",
        sp.sqrt(K) * (pair_slope + c * pair_bend),
        sp.sqrt(K) * (pair_slope + pair_bend),
        by=of_two(Z[0], 0, 1),
    ),
    Formula(
        "B16 (26)",
        MADE,
        "<phi(u) phi'(u') y'>",
        root * sp.sqrt(K) * pair_bend,
        sp.sqrt(K) * pair_bend,
        by=of_two(Z[1], 0, 1),
    ),
    Equation("B16 (27)", PAIRS, "dc'/dc", K / new * w * pair_slope, w * pair_slope),
    Equation("B17 (22)", PLAIN, "chi_1", K / new * slope, K / new * w * slope, misprint=True),  # E7
    Equation("B17 (28)", PLAIN, "chi_1", K / new * w * slope, w * slope),
    Equation("B17 (29)", PLAIN, "chi~_1", w * slope, w * square_K),
)

GRADIENTS = (
    Equation("B21 (90)", PAIRS, "J_ab", J_ab * w * pair_slope, J_ab * w * pair),
    Equation("B21 (91), a = b", PLAIN, "chi_J", w * slope, w * square),
    Equation("B21 (91), c = 1", PLAIN, "chi~_1", w * slope, K / new * w * slope),
)

CLAIMS = COVARIANCES + STEIN + SUSCEPTIBILITIES + GRADIENTS
