"""App. D: a block of ResMLP, at the level of means over the matrices that mix tokens."""

from __future__ import annotations

import sympy as sp

import meanfield as mf
from derivations.autoinit.networks import resmlp
from derivations.comparisons import Formula
from derivations.placeholders import mu
from meanfield.base.symbols import J, K, parameter, sigma_b, sigma_w

w, b, pi = sigma_w**2, sigma_b**2, sp.pi
E = parameter("eps")
e = E**2
GELU, RELU = resmlp("gelu"), resmlp("relu")


def G(z):
    """⟨gelu²⟩ over a Gaussian of variance z, as printed."""
    return z / 4 + z / (2 * pi) * sp.asin(z / (1 + z)) + z**2 / (pi * (1 + z) * sp.sqrt(1 + 2 * z))


def H(z):
    """⟨gelu′²⟩."""
    tail = z * (3 + 5 * z) / ((1 + z) * (1 + 2 * z) ** sp.Rational(3, 2))
    return sp.Rational(1, 4) + (sp.asin(z / (1 + z)) + tail) / (2 * pi)


inner = w * (mu**2 * K + e * (w * K + b)) + b  # K_e
skipped = (mu**4 + mu**2 * e * w) * K + (1 + mu**2) * e * b


def next_K(theory: mf.Theory) -> sp.Expr:
    return theory.one_input["K"]


def growth(theory: mf.Theory) -> sp.Expr:
    return theory.recursion("J")["J"].subs(J, 1)


def average(name: str):
    return lambda theory: theory.averages()[name]


CLAIMS = (
    Formula("R66 (66)", GELU, "<phi^2>", G(K), G(K) - K / 4, by=average("phi^2")),
    Formula("R70 (70)", GELU, "<phi'^2>", H(K), H(K) - sp.Rational(1, 8), by=average("phi'^2")),
    Formula("R65 (65)", GELU, "K", skipped + e * w * G(inner), skipped + e * G(inner), by=next_K),
    Formula(
        "R67 (67)", RELU, "K", skipped + e * w / 2 * (inner - b) + e * w * b / 2,
        skipped + e * w * inner, by=next_K,
    ),
    # the last term of (67) is ½ℰ²σ_w²σ_b² in print; the bias of the tokens comes through both branches, ½ℰ⁴σ_w⁴σ_b²
    Formula(
        "R67 (67), as printed", RELU, "K",
        (mu**4 + mu**2 * e * w + mu**2 * e * w**2 / 2 + e**2 * w**3 / 2) * K + (1 + mu**2 + w / 2) * e * b
        + e * w * b / 2,
        (mu**4 + mu**2 * e * w + mu**2 * e * w**2 / 2 + e**2 * w**3 / 2) * K + (1 + mu**2 + w / 2) * e * b
        + e**2 * w**2 * b / 2, misprint=True, by=next_K,
    ),
    Formula(
        "R69 (69), (71)", GELU, "J", (mu**2 + e * w) * (mu**2 + e * w**2 * H(inner)),
        (mu**2 + e * w) * (mu**2 + e * w * H(inner)), by=growth,
    ),
    # (71) has σ_b² inside of σ_w²( … )
    Formula(
        "R71 (71), as printed", GELU, "J",
        (mu**2 + e * w) * (mu**2 + e * w**2 * H(w * (mu**2 * K + e * (w * K + b) + b))),
        (mu**2 + e * w) * (mu**2 + e * w**2 * H(inner)), misprint=True, by=growth,
    ),
    Formula("R72 (72)", RELU, "J", (mu**2 + e * w) * (mu**2 + e * w**2 / 2), mu**2 + e * w**2 / 2, by=growth),
)  # fmt: skip
