"""Phases: Table 1 by `theory.bias`, § 5, (112), (113), the line σ_b = 0 that Proposition 4.1 overlooks, and § F.3."""

from __future__ import annotations

import sympy as sp

from derivations.claims import each, network
from derivations.comparisons import At, Equation

RELU, TANH, ODD = network("relu"), network("tanh"), each("erf sin z**3")
ORDERED = (("1.5", "0.1"), ("1", "0.2"))  # (σ_w², σ_b²) of ReLU
CHAOTIC = (("2.5", "0.1"), ("3", "0.2"), ("2.5", "0"))
ON_LINE = (("2", "0.1"), ("2", "0.5"))
POINT = (("2", "0"),)
NO_BIAS = (("1.5", "0"),)
SMALL = ORDERED + ON_LINE + POINT + NO_BIAS
TANH_ORDERED, TANH_PREJUDICED = (("1.5", "0.1"),), (("2.5", "0.1"), ("2.2", "0.1"))
TANH_NEUTRAL = (("3", "0.1"), ("4", "0.1"))


def at(source: str, case, quantity: str, word: str, wrong: str, places, misprint: bool = False) -> At:
    return At(source, case, quantity, word, wrong, misprint, places=places)


ORDERED_WORD, EOC_WORD, CHAOTIC_WORD = (f"{kind} deep prejudice" for kind in ("ordered", "transient", "chaotic"))
POOLED_TANH = network("tanh", pool="max")
RELU_CLAIMS = (
    at("B23, Table 1, ordered", RELU, "bias", ORDERED_WORD, EOC_WORD, ORDERED),
    at("B23, Table 1, EOC", RELU, "bias", EOC_WORD, CHAOTIC_WORD, POINT),
    at("B23, Table 1, chaotic", RELU, "bias", CHAOTIC_WORD, "prejudice", CHAOTIC),
    # E33: places that Table 1 does not hold
    at("B23, σ_w² = 2, σ_b > 0", RELU, "bias", "divergent deep prejudice", EOC_WORD, ON_LINE),
    at("B23, σ_w² < 2, σ_b = 0", RELU, "bias", "vanishing deep prejudice", ORDERED_WORD, NO_BIAS),
    at("B26, § 5: c → 1", RELU, "c*", "1", "below 1/2", CHAOTIC + SMALL),
    at("B26: σ_w² = 2 separates, all σ_b", RELU, "gradients", "stable", "vanish", ON_LINE),
    at("B26, (107), ordered", RELU, "variance", "converges", "diverges", ORDERED),
    at("B26, (107), chaotic", RELU, "variance", "diverges", "converges", CHAOTIC),
    at("B4, E33: σ_w² = 2, σ_b > 0 is no EOC", RELU, "variance", "diverges", "converges", ON_LINE),
    at("B4: the EOC", RELU, "variance", "converges", "diverges", POINT),
    at("B55, (107), σ_b = 0", RELU, "variance", "to 0", "converges", NO_BIAS),
    at("B27, B55 (112), σ_w² ≤ 2", RELU, "sigma_y2 at large l", "to 0", "converges", SMALL),
    at("B27, B55 (112), σ_w² > 2", RELU, "sigma_y2 at large l", "diverges", "to 0", CHAOTIC),
    at("B55 (113), σ_w² = 2", RELU, "sigma_mu2 at large l", "diverges", "converges", ON_LINE),
    at("B55 (113), σ_w² > 2", RELU, "sigma_mu2 at large l", "diverges", "converges", CHAOTIC),
    at("B55 (113), else", RELU, "sigma_mu2 at large l", "converges", "diverges", ORDERED + POINT),
)
TANH_CLAIMS = (
    at("B25, Table 1, ordered", TANH, "bias", ORDERED_WORD, "prejudice", TANH_ORDERED),
    at("B25, Table 1, prejudice", TANH, "bias", "prejudice", "neutrality", TANH_PREJUDICED),
    at("B25, Table 1, neutrality", TANH, "bias", "neutrality", "prejudice", TANH_NEUTRAL),
    at("B25, Table 1, ordered: χ", TANH, "gradients", "vanish", "explode", TANH_ORDERED),
    at("B25, Table 1, ordered: c", TANH, "c*", "1", "above 1/2", TANH_ORDERED),
    at("B25, chaotic", TANH, "gradients", "explode", "vanish", TANH_PREJUDICED + TANH_NEUTRAL),
    at("B25, bounded φ", TANH, "variance", "converges", "diverges", TANH_ORDERED + TANH_PREJUDICED + TANH_NEUTRAL),
)
NO_BIASES = (
    # E32: orthogonal inputs stay so where φ is odd and there are no biases, at the EOC, too
    Equation("B24, § 4: at the EOC c → 1", ODD, "c from 0 at sigma_b = 0", sp.S.One, sp.S.Zero, misprint=True),
    at("B24, Proposition 4.1 at (0, 1)", TANH, "bias", EOC_WORD, "by the start", (("1", "0"),), misprint=True),
    at("B24, Table 1, σ_w² < 1, σ_b = 0", TANH, "bias", ORDERED_WORD, "by the start", (("0.8", "0"),), misprint=True),
    at("B24, gradients there", TANH, "gradients", "stable", "explode", (("1", "0"),)),
    at("B24, chaotic at σ_b = 0", TANH, "c*", "0", "above 1/2", (("1.5", "0"), ("3", "0"))),
)
POOLED = (
    # E16: only the EOC is the same; the neutrality line of the maximum lies beyond σ_w² = 37
    at("§ F.3, B34: Tanh + max as Tanh", POOLED_TANH, "bias", "neutrality", "prejudice", TANH_NEUTRAL, misprint=True),
)

CLAIMS = RELU_CLAIMS + TANH_CLAIMS + NO_BIASES + POOLED
