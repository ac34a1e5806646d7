"""Phases: Table 1, § 5, Lemma H.1, (112), (113), and the line σ_b = 0 that Proposition 4.1 overlooks."""

from __future__ import annotations

import sympy as sp

from derivations.claims import At, Equation, each, network

RELU, TANH, ODD = network("relu"), network("tanh"), each("erf sin z**3")
ORDERED = (("1.5", "0.1"), ("1", "0.2"))  # (σ_w², σ_b²) of ReLU
CHAOTIC = (("2.5", "0.1"), ("3", "0.2"), ("2.5", "0"))
ON_LINE = (("2", "0.1"), ("2", "0.5"))
POINT = (("2", "0"),)
NO_BIAS = (("1.5", "0"),)
TANH_ORDERED, TANH_PREJUDICED = (("1.5", "0.1"),), (("2.5", "0.1"), ("2.2", "0.1"))
TANH_NEUTRAL = (("3", "0.1"), ("4", "0.1"))


def at(source: str, case, quantity: str, word: str, wrong: str, places) -> At:
    return At(source, case, quantity, word, wrong, places=places)


RELU_CLAIMS = (
    at("B26, § 5: c → 1", RELU, "c*", "1", "below 1/2", ORDERED + CHAOTIC + ON_LINE + POINT + NO_BIAS),
    at("B23, Table 1, ordered", RELU, "gradients", "vanish", "stable", ORDERED + NO_BIAS),
    at("B23, Table 1, EOC", RELU, "gradients", "stable", "explode", POINT),
    at("B23, Table 1, chaotic", RELU, "gradients", "explode", "stable", CHAOTIC),
    at("B26: σ_w² = 2 separates, all σ_b", RELU, "gradients", "stable", "vanish", ON_LINE),
    at("B26, (107), ordered", RELU, "variance", "converges", "diverges", ORDERED),
    at("B26, (107), chaotic", RELU, "variance", "diverges", "converges", CHAOTIC),
    at("B4, E33: σ_w² = 2, σ_b > 0 is no EOC", RELU, "variance", "diverges", "converges", ON_LINE),
    at("B4: the EOC", RELU, "variance", "converges", "diverges", POINT),
    at("B55, (107), σ_b = 0", RELU, "variance", "to 0", "converges", NO_BIAS),
    at("B55 (112), σ_w² ≤ 2", RELU, "sigma_y2 at large l", "to 0", "converges", ORDERED + ON_LINE + POINT + NO_BIAS),
    at("B55 (112), σ_w² > 2", RELU, "sigma_y2 at large l", "diverges", "to 0", CHAOTIC),
    at("B55 (113), σ_w² = 2", RELU, "sigma_mu2 at large l", "diverges", "converges", ON_LINE),
    at("B55 (113), σ_w² > 2", RELU, "sigma_mu2 at large l", "diverges", "converges", CHAOTIC),
    at("B55 (113), else", RELU, "sigma_mu2 at large l", "converges", "diverges", ORDERED + POINT),
)
TANH_CLAIMS = (
    at("B25, Table 1, ordered: χ", TANH, "gradients", "vanish", "explode", TANH_ORDERED),
    at("B25, Table 1, ordered: c", TANH, "c*", "1", "above 1/2", TANH_ORDERED),
    at("B25, Table 1, prejudice", TANH, "c*", "above 1/2", "below 1/2", TANH_PREJUDICED),
    at("B25, Table 1, neutrality", TANH, "c*", "below 1/2", "above 1/2", TANH_NEUTRAL),
    at("B25, chaotic", TANH, "gradients", "explode", "vanish", TANH_PREJUDICED + TANH_NEUTRAL),
    at("B25, bounded φ", TANH, "variance", "converges", "diverges", TANH_ORDERED + TANH_PREJUDICED + TANH_NEUTRAL),
)
NO_BIASES = (
    # E32: orthogonal inputs stay so where φ is odd and there are no biases, at the EOC, too
    Equation("B24, § 4: at the EOC c → 1", ODD, "c from 0 at sigma_b = 0", sp.S.One, sp.S.Zero, misprint=True),
    at("B24, gradients there", TANH, "gradients", "stable", "explode", (("1", "0"),)),
    at("B24, chaotic at σ_b = 0", TANH, "c*", "0", "above 1/2", (("1.5", "0"), ("3", "0"))),
)

CLAIMS = RELU_CLAIMS + TANH_CLAIMS + NO_BIASES
