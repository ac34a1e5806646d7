"""Two neighbours pooled after φ (App. F): their maximum or their mean, by the engine's theory of `Pool`.

f = max(φ(u_1), φ(u_2)) or (φ(u_1) + φ(u_2))/2. The pooled value stands for both neurons, so that the fan-in stays N.
"""

from __future__ import annotations

import sympy as sp

import meanfield as mf
from derivations.claims import Network, each, network
from derivations.comparisons import Equation, Formula
from derivations.pairs import slope_of_c
from derivations.placeholders import c, mean, pair, slope, square
from derivations.quantities import derived
from meanfield.base.symbols import K, Z, sigma_b, sigma_w, z

w, b, pi, R = sigma_w**2, sigma_b**2, sp.pi, sp.Rational
MAX, MEAN = network("relu", pool="max"), network("relu", pool="average")
RISING = each("relu erf tanh z**3 exp(z)", pool="max")
ODD, ODD_RISING = each("erf tanh sin z**3", pool="max"), each("erf tanh z**3", pool="max")
EVEN = each("abs z**2 exp(-z**2)", pool="max")
ANY, TANH_MEAN = each("relu erf gelu", pool="average"), each("tanh erf", pool="average")
ODD_MEAN = each("erf sin z**3", pool="average")
PLAIN = network("relu")


def normal(e: sp.Expr) -> sp.Expr:
    return (1 + sp.erf(e / sp.sqrt(2))) / 2


def weighed(case: Network, weight: sp.Expr, power: int = 2, slopes: bool = False) -> sp.Expr:
    """⟨φ^power weight⟩, or ⟨φ′^power weight⟩, the weight a function of y = z/√K: right-hand sides of Lemma F.5."""
    f = mf.activation(case.activation).expression
    return mf.average((f.diff(z) if slopes else f) ** power * weight.subs(z, z / sp.sqrt(K)), K)


def bend(theory: mf.Theory) -> sp.Expr:
    """σ_w²⟨f Δf⟩: what χ_K has beyond χ_J."""
    return derived(theory, "chi_K") - derived(theory, "chi_J")


def share(theory: mf.Theory) -> sp.Expr:
    return derived(theory, "chi_J") / derived(theory, "chi_K")


def chi_1(theory: mf.Theory) -> sp.Expr:
    """χ_J q/q′"""
    return sp.simplify(K / derived(theory, "K") * derived(theory, "chi_J"))


def where(name: str):
    """σ_w² at which χ_J or χ_K is 1."""
    return lambda theory: 1 / (derived(theory, name) / w)


def at_the_other(theory: mf.Theory) -> sp.Expr:
    """χ_J where χ_K = 1."""
    return derived(theory, "chi_J").subs(sigma_w, sp.sqrt(where("chi_K")(theory)))


def gradient(*values: int):
    """‖∇f‖² of the mean, where the two neurons are there."""

    def by(theory: mf.Theory) -> sp.Expr:
        phi = theory.activations[0].expression
        f = (phi.subs(z, Z[0]) + phi.subs(z, Z[1])) / 2
        return sum(f.diff(v) ** 2 for v in Z[:2]).subs(dict(zip(Z, values)))

    return by


def lemma_f5(case: Network) -> tuple[Formula, ...]:
    """(69), (70) for F = f² and ‖∇f‖²; E1: the last step loses the factor 2, and Φ is that of App. A."""
    wrong, right = (1 + sp.erf(z)) / 2, 2 * normal(z)
    name = case.activation
    return (
        Formula(
            f"B33 (69), (70), V(f²), {name}",
            case,
            "V(f^2)",
            w * weighed(case, wrong),
            w * weighed(case, right),
            misprint=True,
            by=lambda t: derived(t, "K") - b,
        ),
        Formula(
            f"B33 (70), V(|grad f|²), {name}",
            case,
            "V(|grad f|^2)",
            w * weighed(case, wrong, slopes=True),
            w * weighed(case, right, slopes=True),
            misprint=True,
            by=lambda t: derived(t, "chi_J"),
        ),
    )


def threshold(source: str, case: Network, printed: sp.Expr, right: sp.Expr) -> tuple[Formula, ...]:
    """E3: the print takes α = 1 for the edge of chaos, but gradients go by χ̃_1."""
    return (
        Formula(f"{source}: α = 1", case, "sigma_w^2", printed, right, by=where("chi_K")),
        Formula(f"{source}: χ̃_1 at the EOC", case, "chi~_1", sp.S.One, printed / right, misprint=True, by=at_the_other),
        Equation(f"{source}, critical line", case, "line sigma_w^2", printed, right, misprint=True),
    )


GENERAL = (
    Equation("B30 (57), mean", ANY, "K", w * (square + mean**2) / 2 + b, w * (square + mean**2) + b),
    Equation("B30 (58), B40, mean", ANY, "K_ab", w * (pair + mean**2) / 2 + b, w * pair / 2 + b),
    Equation("B31 (66), mean", ANY, "chi_J", w * slope / 2, w * slope),
    Formula("B31 (65), mean", MEAN, "dc'/dc at 1", pi / (pi + 1), sp.S.One, by=lambda t: _ratio(t)),
    *(formula for case in RISING for formula in lemma_f5(case)),
    Equation("B34, Lemma F.3: V(f²) = V(φ²), odd φ", ODD, "K", w * square + b, w * square),
    Equation("B34, Lemma F.3: V(|∇f|²) = V(φ′²), odd φ", ODD_RISING, "chi_J", w * slope, w * square),
    # E4: the values of |u_1| and |u_2| are not symmetric
    Equation("B34, Lemma F.3, |z|", EVEN[0], "K", w * square + b, w * K * (1 + 2 / pi) + b, misprint=True),
    Equation("B34, Lemma F.3, z²", EVEN[1], "K", w * square + b, w * K**2 * (3 + 8 / pi) + b, misprint=True),
    Formula(
        "B34, Lemma F.3, exp(-z²)",
        EVEN[2],
        "V(f^2)",
        w / sp.sqrt(4 * K + 1),
        2 * w * weighed(EVEN[2], 1 - sp.erf(sp.sqrt(z**2 / 2))),
        misprint=True,
        by=lambda t: derived(t, "K") - b,
    ),
    Equation("B34, Tanh + max: σ_w² of the EOC", ODD_RISING, "line sigma_w^2(K)", 1 / slope, 2 / slope),
    Equation("B39, Tanh + mean: σ_w² of the EOC", TANH_MEAN, "line sigma_w^2(K)", 2 / slope, 1 / slope),
    Equation("B39, Tanh + mean: q", TANH_MEAN, "K", w * square / 2 + b, w * square + b),
    Equation("B39, odd φ + mean: q_ab", ODD_MEAN, "K_ab", w * pair / 2 + b, w * pair + b),
)

OF_RELU = (
    Equation("B35 (71), (77): α", MAX, "chi_K", w * (3 * pi + 2) / (4 * pi), w * R(3, 4)),
    Equation("B35 (75), χ̃_1", MAX, "chi_J", R(3, 4) * w, w / 2),
    Formula("B35 (76), the kink", MAX, "<f Laplace f>", w / (2 * pi), sp.S.Zero, by=bend),
    Equation("B35 (72)", MAX, "K", w * (3 * pi + 2) / (4 * pi) * K + b, w * R(3, 4) * K + b),
    Formula(
        "B35 (78)",
        MAX,
        "chi_1",
        3 * pi / (3 * pi + 2) * (1 - b / (w * (3 * pi + 2) / (4 * pi) * K + b)),
        1 - b / (w * (3 * pi + 2) / (4 * pi) * K + b),
        by=chi_1,
    ),
    *threshold("B36, Lemma F.7", MAX, 4 * pi / (3 * pi + 2), R(4, 3)),
    Equation("B37 (79), (86): α", MEAN, "chi_K", w * (pi + 1) / (4 * pi), w * (pi + 2) / (4 * pi)),
    Equation("B37 (80)", MEAN, "K", w * (pi + 1) / (4 * pi) * K + b, w / 4 * K + b),
    Equation("B37 (83), χ̃_1", MEAN, "chi_J", w / 4, w / 2),
    Formula("B37 (85)", MEAN, "<f Laplace f>", w / (4 * pi), w / (2 * pi), by=bend),
    # E15: right on average only; composed: of a pool the theory has averages alone
    *(
        Formula(
            f"B37 (84), {word} positive",
            PLAIN,
            "|grad f|^2",
            printed,
            right,
            misprint=word != "none",
            composed=True,
            by=gradient(*signs),
        )
        for word, signs, printed, right in (
            ("both", (1, 2), sp.S.One, R(1, 2)),
            ("one", (1, -2), sp.S.Zero, R(1, 4)),
            ("none", (-1, -2), sp.S.Zero, R(1, 4)),
        )
    ),
    Formula("B37 (81), (87)", MEAN, "chi~_1/alpha", pi / (pi + 1), (pi + 1) / pi, by=share),
    *threshold("B38, Lemma F.9", MEAN, 4 * pi / (pi + 1), sp.S(4)),
    Equation(
        "B40, ReLU + mean",
        MEAN,
        "K_ab",
        w * K / 2 * ((sp.sqrt(1 - c**2) + c * (pi - sp.acos(c))) / (2 * pi) + 1 / (2 * pi)) + b,
        w * K / 2 * (sp.sqrt(1 - c**2) + c * (pi - sp.acos(c))) / (2 * pi) + b,
    ),
)


def _ratio(theory: mf.Theory) -> sp.Expr:
    """∂c′/∂c at c = 1 and σ_b = 0, from the map of c."""
    return mf.symbolic.closed(slope_of_c(theory).subs(sigma_b, 0).subs(c, 1))


CLAIMS = GENERAL + OF_RELU
