"""ReLU: Lemma C.2 and the closed forms and laws of App. H, derived from the network and compared with the print."""

from __future__ import annotations

import sympy as sp

import meanfield as mf
from derivations.claims import network
from derivations.comparisons import Equation, Formula
from derivations.pairs import G
from derivations.placeholders import gamma, mu
from derivations.quantities import derived
from meanfield.base.symbols import K, sigma_b, sigma_mu2, sigma_w, sigma_y2, z

w, b, pi, sqrt, erf, R = sigma_w**2, sigma_b**2, sp.pi, sp.sqrt, sp.erf, sp.Rational
RELU = network("relu")
v, drift = sigma_y2, sigma_mu2 / sigma_y2
step, bell = erf(mu / sqrt(2 * v)), sp.exp(-(mu**2) / (2 * v))
long = sqrt(2 * gamma + 1)
mean = mu / 2 * (step + 1) + sqrt(v / (2 * pi)) * bell
second = (mu**2 + v) / 2 * (step + 1) + mu * sqrt(v / (2 * pi)) * bell
cross = v / (2 * pi) * bell**2 + mu * sqrt(v / (2 * pi)) * (step + 1) * bell
curved = mf.average(z**2 * erf(z / sqrt(2 * v)) ** 2, sigma_mu2) / 4
rest = v * (3 * drift + 1) / (2 * pi * (drift + 1) * sqrt(2 * drift + 1))

h = 4 * sqrt(gamma / pi) * sp.atan(long) - sqrt(pi * gamma)  # (99)
I = 2 / pi * (gamma * sp.atan(long) + gamma**2 / ((gamma + 1) * long)) - gamma / 2  # (100): I/√(πγ)
g = 2 / pi * gamma * sp.atan(long) + long / pi  # (101)
f = 1 + gamma - g  # (102)
new = w / 2 * K + b


def of_drift(e: sp.Expr) -> sp.Expr:
    """A function of γ at γ = σ_μ²/σ_y²."""
    return e.subs(gamma, drift)


def integral(theory: mf.Theory, power: int) -> sp.Expr:
    """∫ x^power erf(x)² e^{-x²/γ} dx, as an average: h for power 0 and I for 2."""
    return sqrt(pi * G) * mf.symbolic.closed(mf.average(z**power * erf(z) ** 2, G / 2))


def h_of(theory: mf.Theory) -> sp.Expr:
    return integral(theory, 0).subs(G, gamma)


def slope_of_h(theory: mf.Theory) -> sp.Expr:
    return integral(theory, 0).diff(G).subs(G, gamma)


def share_of_I(theory: mf.Theory) -> sp.Expr:
    return (integral(theory, 2) / sqrt(pi * G)).subs(G, gamma)


ONE_NODE = (
    Equation("B42 (92)", RELU, "<phi>_mu", mean, mean + mu / 2),
    Equation("B43 (93)", RELU, "<phi^2>_mu", second, second.subs(mu, -mu)),
    Equation("B44 (94)", RELU, "bar<phi^2>", (v + sigma_mu2) / 2, v / 2),
    # E11: erf + 2 erf + 1 for erf² + 2 erf + 1, and then σ_y²/4 for σ_μ²/4
    Equation(
        "B45 (96), first line",
        RELU,
        "<phi>_mu^2",
        mu**2 / 4 * (3 * step + 1) + cross,
        mu**2 / 4 * (step**2 + 2 * step + 1) + cross,
        misprint=True,
    ),
    Equation(
        "B45 (96), second line", RELU, "bar<phi>^2", v / 4 + curved + rest, sigma_mu2 / 4 + curved + rest, misprint=True
    ),
    Equation(
        "B45 (96), right",
        RELU,
        "bar<phi>^2",
        v / 2 * of_drift(gamma / 2 + (3 * gamma + 1) / (pi * (gamma + 1) * long) + I),
        v / 2 * of_drift(gamma + (3 * gamma + 1) / (pi * (gamma + 1) * long) + I),
    ),
)

INTEGRALS = (
    Formula(
        "B46, I = γ² h′",
        RELU,
        "gamma^2 h'",
        sqrt(pi * gamma) * I,
        sqrt(pi * gamma) * I + gamma,
        by=lambda t: gamma**2 * slope_of_h(t),
    ),
    Formula(
        "B47 (97)",
        RELU,
        "I - gamma h/2",
        2 * gamma**2 / sqrt(pi) / (gamma + 1) * sqrt(gamma / (2 * gamma + 1)),
        2 * gamma**2 / sqrt(pi) / (gamma + 1) * sqrt(gamma / (gamma + 1)),
        by=lambda t: integral(t, 2).subs(G, gamma) - gamma / 2 * h_of(t),
    ),
    Formula(
        "B48 (98)",
        RELU,
        "h' - h/(2 gamma)",
        2 / sqrt(pi) / (gamma + 1) * sqrt(gamma / (2 * gamma + 1)),
        sqrt(pi) / 2 / (gamma + 1) * sqrt(gamma / (2 * gamma + 1)),
        by=lambda t: slope_of_h(t) - h_of(t) / (2 * gamma),
    ),
    Formula("B48 (99)", RELU, "h", h, h + sqrt(gamma), by=h_of),
    Formula("B48, h(1)", RELU, "h(1)", sqrt(pi) / 3, sqrt(pi) / 2, by=lambda t: integral(t, 0).subs(G, 1)),
    Formula("B49 (100)", RELU, "I/sqrt(pi gamma)", I, I + gamma / 2, by=share_of_I),
    Formula("B46, I(0)", RELU, "I(0)", sp.S.Zero, sp.S.One, by=lambda t: sp.limit(integral(t, 2), G, 0)),
    Equation(
        "B50 (101), left",
        RELU,
        "g",
        gamma / 2 + I + (3 * gamma + 1) / (pi * long * (gamma + 1)),
        gamma / 2 + I + 1 / pi,
    ),
    Equation("B50 (101), right", RELU, "g", g, g - gamma / 2),
    Equation("B50 (102)", RELU, "f", f, f - 1),
    Equation("B51 (103)", RELU, "bar<phi>^2", v / 2 * of_drift(g), v * of_drift(g)),
    Equation("B51 (104)", RELU, "bar Var phi", v / 2 * of_drift(f), v * of_drift(f)),
)

MAPS = (
    Equation("B18 (30), (31)", RELU, "chi_1", 1 - b / new, 1 - b / K),
    Equation("B18, ⟨φ′²⟩", RELU, "chi~_1", w / 2, w),
    Equation("B52 (105)", RELU, "sigma_y2", w * v / 2 * of_drift(f), w * v / 2 * of_drift(f) + b),
    Equation("B52 (106)", RELU, "sigma_mu2", w * sigma_mu2 / 2 * of_drift(g / gamma) + b, w * v / 2 * of_drift(g)),
    Equation("B52 (107)", RELU, "K", new, w * K + b),
    Equation(  # E2: σ_b²/q for σ_b²/σ_y², both of the next layer
        "B53 (108)",
        RELU,
        "gamma",
        g / f + b / new,
        g / f + b * (1 + gamma) / (w / 2 * K * f),
        misprint=True,
    ),
)


def chi_limit(theory: mf.Theory, growing: bool) -> sp.Expr:
    """χ_1 as l → ∞: at K → ∞, or at K* = σ_b²/(1 - σ_w²/2)."""
    chi = derived(theory, "chi_1")
    return sp.limit(chi, K, sp.oo) if growing else sp.simplify(chi.subs(K, derived(theory, "K*")))


def term(power: str, value: sp.Expr, wrong: sp.Expr, name: str, source: str, misprint: bool = False) -> Equation:
    """One coefficient of the series of `name` at large γ."""
    return Equation(source, RELU, f"{name} {power}", value, wrong, misprint)


lead = 2 * sqrt(2) / (3 * pi)
LAWS = (
    term("1", sp.S.One, sp.S.Zero, "g", "B54 (109), γ"),
    term("-1/2", lead, -lead, "g", "B54 (109), γ^{-1/2}"),
    term("-1", sp.S.Zero, sp.S.One, "g", "B54 (109), no γ^{-1}"),
    term("-3/2", -3 * sqrt(2) / (10 * pi), sp.S.Zero, "g", "B54, γ^{-3/2} of g"),
    term("-1/2", -lead, lead, "f", "B54 (110), γ^{-1/2}"),
    term("1/2", lead, lead**2, "g/f", "B54 (111), γ^{1/2}"),
    term("0", sp.S.Zero, 8 / (9 * pi**2), "g/f", "B54 (111), remainder", misprint=True),  # E9: O(γ^{-1})
    term("-1/2", R(16, 27) * sqrt(2) / pi**3 + R(11, 30) * sqrt(2) / pi, lead, "g/f", "B54, γ^{-1/2} of g/f"),
    Formula("B18 (32), σ_w² ≥ 2", RELU, "lim chi_1", sp.S.One, w / 2, by=lambda t: chi_limit(t, True)),
    Formula("B18 (32), σ_w² < 2", RELU, "lim chi_1", w / 2, sp.S.One, by=lambda t: chi_limit(t, False)),
    Equation("B55, after (107)", RELU, "K*", sp.S.Zero, b / (1 - w / 2), misprint=True),  # E10
    Equation("B55, before (112)", RELU, "K*", sp.S.Zero, b / (1 - w / 2), misprint=True),
)

CLAIMS = ONE_NODE + INTEGRALS + MAPS + LAWS
