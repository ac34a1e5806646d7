"""The fraction G_0 of inputs that a random network puts into the first of two classes: Lemma D.4, § 2.3.

(43)-(45) by averages of a step; what follows from them also by the engine's law, `meanfield.bias.ClassFraction`.

The outputs are y_i = μ_i + σ_y ε_i over data, μ_i ~ N(0, σ_μ²) over weights, so that G_0 = P(y_1 > y_2) is a function
of the standard normal δ = (μ_1 - μ_2)/(√2 σ_μ).
"""

from __future__ import annotations

import math

import sympy as sp
from scipy.special import ndtr, ndtri

import meanfield as mf
from derivations.claims import network
from derivations.comparisons import Floats, Formula
from derivations.placeholders import mu
from meanfield.base.symbols import z

RELU = network("relu")  # any network: only γ enters
x, delta = sp.symbols("x delta", real=True)
gamma, v = sp.symbols("gamma sigma_y2", positive=True)
pi, erf, sqrt = sp.pi, sp.erf, sp.sqrt


def normal(e: sp.Expr) -> sp.Expr:
    """The cumulative function of the standard normal."""
    return (1 + erf(e / sqrt(2))) / 2


def of_paper(e: sp.Expr) -> sp.Expr:
    """Φ of App. A."""
    return (1 + erf(e)) / 2


def above(mean: sp.Expr, variance: sp.Expr) -> sp.Expr:
    """P(X > 0) for X ~ N(mean, variance), as the average of a step."""
    return mf.symbolic.closed(mf.average(sp.Piecewise((0, z < 0), (1, True)), variance, (mu,))).subs(mu, mean)


def fraction(theory: mf.Theory) -> sp.Expr:
    """G_0 as a function of δ: y_1 - y_2 over data is N(√2 σ_μ δ, 2σ_y²)."""
    return above(sqrt(2 * gamma * v) * delta, 2 * v)


def moment(k: int, at: sp.Expr = gamma):
    """The bar over G_0^k."""
    return lambda theory: mf.average(fraction(theory).subs({gamma: at, delta: z, v: 1}) ** k, 1)


def density(theory: mf.Theory) -> sp.Expr:
    """The density of G_0 at the G_0 of δ: that of δ divided by dG_0/dδ."""
    slope = fraction(theory).replace(sp.erfc, lambda e: 1 - erf(e)).diff(delta)
    return sp.simplify(sp.exp(-(delta**2) / 2) / sqrt(2 * pi) / slope)


G_0 = of_paper(sqrt(gamma / 2) * delta)
DRIFTS = tuple((value,) for value in (0.05, 0.5, 1.0, 2.0, 10.0))
PLACES = tuple((*drift, g) for drift in DRIFTS for g in (0.01, 0.3, 0.5, 0.9))


def cumulative(drift: float, g: float) -> float:
    return float(ndtr(ndtri(g) / math.sqrt(drift)))


def height(drift: float, g: float) -> float:
    return math.exp(ndtri(g) ** 2 / 2 * (1 - 1 / drift)) / math.sqrt(drift)


def variance(drift: float) -> float:
    return math.asin(drift / (1 + drift)) / (2 * math.pi)


def largest(drift: float) -> float:
    return 0.5 + math.atan(math.sqrt(drift)) / math.pi


def turned(drift: float) -> float:
    """+1 where the density is largest in the middle (neutrality), -1 where it is smallest there, 0 where flat."""
    law = mf.bias.ClassFraction(drift)
    rise = law.pdf(0.5) - law.pdf(0.3)
    return float(rise > 1e-9) - float(rise < -1e-9)


LAW = (
    Floats(
        "B10 (45), as a law",
        RELU,
        "cdf",
        cumulative,
        lambda drift, g: cumulative(drift / 2, g),
        of=lambda drift, g: mf.bias.ClassFraction(drift).cdf(g),
        places=PLACES,
    ),
    Floats(
        "B12, density, as a law",
        RELU,
        "pdf",
        height,
        lambda drift, g: height(2 * drift, g),
        of=lambda drift, g: mf.bias.ClassFraction(drift).pdf(g),
        places=PLACES,
    ),
    Floats(
        "B12, Var G_0, as a law",
        RELU,
        "var",
        variance,
        lambda drift: 2 * variance(drift),
        of=lambda drift: mf.bias.ClassFraction(drift).var(),
        places=DRIFTS,
    ),
    Floats(
        "B12, mean of max(G_0, 1 - G_0)",
        RELU,
        "largest",
        largest,
        lambda drift: 2 * largest(drift) - 0.5,
        of=lambda drift: mf.bias.ClassFraction(drift).largest(),
        places=DRIFTS,
    ),
    Floats(
        "B11: one maximum for γ < 1, two for γ > 1",
        RELU,
        "shape",
        lambda drift: (drift < 1) - (drift > 1),
        lambda drift: (drift < 2) - (drift > 2),
        of=turned,
        places=DRIFTS,
    ),
    Floats(
        "B11, γ = 1: uniform, as a law",
        RELU,
        "cdf",
        lambda g: g,
        lambda g: g * g,
        of=lambda g: mf.bias.ClassFraction(1).cdf(g),
        places=((0.2,), (0.7,)),
    ),
    Floats(
        "B11, γ = 0: all mass at 1/2",
        RELU,
        "cdf",
        lambda g: float(g >= 0.5),
        lambda g: 0.5 + (g >= 1) / 2,
        of=lambda g: mf.bias.ClassFraction(0).cdf(g),
        places=((0.49,), (0.5,), (0.51,)),
    ),
    Floats(
        "B11, γ = ∞: half at 0 and half at 1",
        RELU,
        "cdf",
        lambda g: 0.5 + (g >= 1) / 2,
        lambda g: float(g >= 0.5),
        of=lambda g: mf.bias.ClassFraction("oo").cdf(g),
        places=((0.01,), (0.99,), (1.0,)),
    ),
)
BY_AVERAGES = (
    Formula(  # E6: it is the cumulative function at √2 x
        "B10, App. A, Φ", RELU, "P(z < x)", of_paper(x), normal(x), misprint=True, by=lambda t: above(x, sp.S.One)
    ),
    Formula(
        "B10 (44)",
        RELU,
        "P(y_1 > y_2)",
        1 - of_paper(-x / (2 * sqrt(v))),
        1 - normal(-x / (2 * sqrt(v))),
        by=lambda t: above(x, 2 * v),
    ),
    Formula("B10 (43), (45)", RELU, "G_0", G_0, normal(sqrt(gamma / 2) * delta), by=fraction),
    Formula("B11, γ = 1: uniform", RELU, "density of G_0", sp.S.One, sp.S(2), by=lambda t: density(t).subs(gamma, 1)),
    Formula(
        "B12, density of G_0",
        RELU,
        "density of G_0",
        sp.exp(gamma * delta**2 / 2 * (1 - 1 / gamma)) / sqrt(gamma),
        sp.exp(delta**2 / 2 * (1 - 1 / gamma)) / sqrt(gamma),
        by=density,
    ),
    Formula("B12, mean of G_0", RELU, "bar G_0", sp.S.Half, sp.S.One, by=moment(1)),
    Formula(
        "B12, variance of G_0",
        RELU,
        "Var G_0",
        sp.asin(gamma / (1 + gamma)) / (2 * pi),
        sp.asin(gamma / (1 + gamma)) / pi,
        by=lambda t: moment(2)(t) - sp.Rational(1, 4),
    ),
    Formula("B11, γ → 0: Var G_0", RELU, "Var G_0", sp.S.Zero, sp.Rational(1, 4), by=lambda t: _at_end(t, 0)),
    Formula("B11, γ → ∞: Var G_0", RELU, "Var G_0", sp.Rational(1, 4), sp.S.Zero, by=lambda t: _at_end(t, sp.oo)),
)


def _at_end(theory: mf.Theory, end: sp.Expr) -> sp.Expr:
    """Var G_0 at γ → 0 (all mass at ½) or γ → ∞ (half of it at 0, half at 1)."""
    return sp.limit(mf.symbolic.closed(moment(2)(theory)) - sp.Rational(1, 4), gamma, end)


CLAIMS = BY_AVERAGES + LAW
