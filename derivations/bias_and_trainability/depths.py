"""How c and γ end at large depth, by `theory.depth_law`: Lemma H.1, (114), (74), (81).

Laws are asked for at places (σ_w², σ_b²); c is 1 - c* in "power" and "rate", the power of l and the logarithm of the
factor per layer.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

import meanfield as mf
from derivations.claims import network
from derivations.comparisons import Formula
from derivations.pairs import coefficient
from derivations.quantities import derived
from meanfield.base.symbols import l, sigma_b, sigma_w

R, pi = sp.Rational, sp.pi
b = sigma_b**2
RELU = network("relu")
MAX, MEAN = network("relu", pool="max"), network("relu", pool="average")
ORDERED = ("3/2", "1/10"), ("1", "1/5")
QUADRATIC = ("1", "0"), ("2", "0"), ("5/2", "0"), ("5/2", "1/10")
ON_LINE = ("2", "1/10"), ("2", "1/2")
SLOW, FAST = 2 * l**2 / (9 * pi**2), 8 * l**2 / (9 * pi**2)


def law(theory: mf.Theory, quantity: str, place: tuple) -> mf.Law:
    w, bias = (sp.sqrt(sp.sympify(v)) for v in place)
    return theory.depth_law(quantity, sigma_w=w, sigma_b=bias)


def lead(quantity: str, place: tuple) -> Callable[[mf.Theory], sp.Expr]:
    return lambda theory: law(theory, quantity, place).leading.expr(l)


def power(place: tuple) -> Callable[[mf.Theory], sp.Expr]:
    """p of 1 - c ~ l^p"""
    return lambda theory: sp.sympify(law(theory, "c", place).exponent)


def rate(place: tuple, quantity: str = "c") -> Callable[[mf.Theory], sp.Expr]:
    return lambda theory: sp.exp(law(theory, quantity, place).rate)


def spread(bias: str) -> Callable[[mf.Theory], sp.Expr]:
    """σ_y² = q/(1 + γ) on the line σ_w² = 2, by the laws of q and γ."""
    return lambda theory: lead("K", ("2", bias))(theory) / lead("gamma", ("2", bias))(theory)


def at(place: tuple[str, str]) -> str:
    return f"σ_w² = {place[0]}, σ_b² = {place[1]}"


def growth_of_drift(theory: mf.Theory) -> sp.Expr:
    """γ'/γ at K* as γ → ∞: γ' = g/f + σ_b²/σ_y²' with σ_y²' = σ_w² σ_y² f/2 and σ_y² = K*/(1 + γ)."""
    per_drift = sigma_w**2 / 2 * derived(theory, "K*") * coefficient(theory, "f", "0")
    return coefficient(theory, "g/f", "1") + b / per_drift


LEMMA_H1 = (
    *(
        Formula(f"B56, Lemma H.1: rate, {at(p)}", RELU, "1 - c", sp.sympify(p[0]) / 2, sp.S.One, by=rate(p))
        for p in ORDERED
    ),
    *(
        Formula(f"B56, Lemma H.1: power, {at(p)}", RELU, "1 - c", -sp.S(2), -sp.S.One, by=power(p))
        for p in QUADRATIC + ON_LINE
    ),
    *(
        Formula(f"B55 (114), exponential, {at(p)}", RELU, "gamma", 2 / sp.sympify(p[0]), sp.S.One, by=rate(p, "gamma"))
        for p in ORDERED
    ),
    *(Formula(f"B55 (114), B57, {at(p)}", RELU, "gamma", SLOW, FAST, by=lead("gamma", p)) for p in QUADRATIC),
    # E25: also quadratic, but four times as fast
    *(Formula(f"B55 (114), B57, {at(p)}", RELU, "gamma", FAST, SLOW, by=lead("gamma", p)) for p in ON_LINE),
    *(
        Formula(
            f"B57, σ_y² at {at(p)}",
            RELU,
            "sigma_y2",
            9 * pi**2 * sp.sympify(p[1]) / (8 * l),
            9 * pi**2 * sp.sympify(p[1]) / (2 * l),
            by=spread(p[1]),
        )
        for p in ON_LINE
    ),
    Formula("B57, σ_μ² at σ_w² = 2", RELU, "sigma_mu2", l / 10, l / 5, by=lead("K", ON_LINE[0])),
    Formula("B57, γ at σ_w² < 2", RELU, "gamma'/gamma", 2 / sigma_w**2, sigma_w**2 / 2, by=growth_of_drift),
)

POOLED = (  # c → 1 exponentially everywhere, also where K grows or vanishes; of the maximum there, see the numbers
    Formula("B35 (74), K* finite", MAX, "1 - c", R(3, 4), sp.S.One, by=rate(("1", "1/10"))),
    Formula("B37 (81), K* finite", MEAN, "1 - c", R(3, 4), sp.S.One, by=rate(("3", "1/10"))),
    Formula("B37 (81), q → ∞", MEAN, "1 - c", pi / (pi + 1), sp.S.One, by=rate(("5", "1/10"))),
    Formula("B37 (81), σ_b = 0", MEAN, "1 - c", pi / (pi + 1), sp.S.One, by=rate(("1", "0"))),
)

CLAIMS = LEMMA_H1 + POOLED
