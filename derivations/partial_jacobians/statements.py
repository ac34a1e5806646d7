"""Statements that are inequalities: Theorem 1.3 and the remarks on the correlation length ξ = 1/|log χ_J*|.

A lower bound on ξ is an upper bound on |log χ_J*|. It is tested at the places below with enclosures; one place where it
fails refutes it.
"""

from __future__ import annotations

import sympy as sp

from derivations.claims import each, network
from derivations.comparisons import Among, AtMost, Equation
from derivations.placeholders import A, B, mu
from meanfield.base.symbols import sigma_b, sigma_w

w, b = sigma_w**2, sigma_b**2
m = 1 - mu**2
printed = sp.log(m * A / B + mu**2)


def place(square_w: object, square_b: object, skip: object) -> dict[sp.Symbol, sp.Expr]:
    """σ_w², σ_b² and μ."""
    return {sigma_w: sp.sqrt(sp.Rational(square_w)), sigma_b: sp.sqrt(sp.Rational(square_b)), mu: sp.Rational(skip)}


ORDERED = tuple(place(*p) for p in ((1, 1, 0), (1, 1, "0.5"), (1, "0.5", "0.9"), (4, 10, "0.5"), (1, 1, "0.1")))
CHAOTIC = tuple(place(*p) for p in ((1, 0, 0), (1, "0.01", "0.5"), (4, "0.05", "0.9"), (2, "0.04", 0)))
PRE_SKIP = each("relu erf gelu", norm="pre", mu="mu")
CURVED = each("erf gelu", norm="pre", mu="mu")  # A > B: they have a chaotic phase
RELU = network("relu")
ratio = A / (B + b / w)

CLAIMS = (
    Equation("R31, ξ exactly", PRE_SKIP, "log chi_J*", sp.log(m * ratio + mu**2), printed),
    AtMost(  # E-1: ReLU, μ = 0, σ_b = σ_w has ξ = 0.910239, the bound is ∞
        "R31 (5), Theorem 1.3",
        PRE_SKIP,
        "log chi_J*",
        Among((printed,), ORDERED + CHAOTIC),
        Among((printed, sp.log(mu**2)), ORDERED + CHAOTIC),
        misprint=True,
    ),
    AtMost(
        "R31 (5), chaotic phase", CURVED, "log chi_J*", Among((printed,), CHAOTIC), Among((printed * 3 / 4,), CHAOTIC)
    ),
    AtMost(  # the sentence below (24); χ_J* ≤ A/B, and it falls to 0 as σ_b grows
        "R23, after (24): χ_J bounded from below",
        each("relu erf gelu", norm="pre"),
        "1/chi_J*",
        Among((B / A,), ORDERED),
        Among((B / A * (1 + b / w / B),), ORDERED),
        misprint=True,
    ),
    AtMost(
        "R55, Remark 5.1: ξ improved in both phases",
        PRE_SKIP,
        "log chi_J*",
        Among((sp.log(ratio),), ORDERED + CHAOTIC),
        Among((sp.log(ratio) / 2,), ORDERED + CHAOTIC),
    ),
    AtMost(  # E-14: of ReLU without LayerNorm, in the ordered phase, ξ grows with μ
        "R27, Remark 4.3: ξ decreases",
        RELU,
        "log chi_J*",
        Among((sp.log(w / 2 + mu**2),), (place(1, 1, "0.5"), place(3, 1, "0.5"))),
        Among((sp.log(w / 2 + mu**2),), (place(3, 1, "0.5"),)),
        misprint=True,
    ),
)
