"""The quantities and the dictionary between them: § 2, App. A, Theorem 3.1 = E.1, Lemma E.2, finite widths."""

from __future__ import annotations

import sympy as sp

from derivations import nested
from derivations.claims import each, network
from derivations.comparisons import Equation, Formula
from derivations.placeholders import B, mu, nested_mean, nested_square, pair, pair_q, square, square_q
from meanfield.base.symbols import K_aa, K_ab, K_bb, sigma_b, sigma_mu2, sigma_w, sigma_y2
from meanfield.bias.guessing import variance_over_inputs

w, b = sigma_w**2, sigma_b**2
PLAIN = each("relu erf gelu tanh step")
CLOSED = each("relu erf gelu step sin")  # ⟨(φ_a - φ_b)²⟩ is compared, with closed forms
NESTED = each("relu step z**3 exp(z)")  # averages over data and then over weights have closed forms
RELU, CUBE, ODD = network("relu"), network("z**3"), each("erf tanh z**3")
ratio = (w * pair + b) / (w * (square - pair))  # γ' at (K, c)
variance = w * (nested_square - nested_mean)
of_centres = w * nested_mean + b

DICTIONARY = (
    Equation("B1 (2)", PLAIN, "c of K_ab", K_ab / sp.sqrt(K_aa * K_bb), K_ab / K_aa),
    Equation("B2 (3)", CLOSED, "gamma", ratio, (w * pair + b) / (w * square)),
    # E5: App. A calls σ_μ² what varies with the data, and σ_y² what varies with the weights
    Equation("B2, App. A, σ_μ²", NESTED, "sigma_mu2", variance, of_centres, misprint=True),
    Equation("B2, App. A, σ_y²", NESTED, "sigma_y2", of_centres, variance, misprint=True),
    Equation("B7 (4), (46)", CLOSED, "sigma_mu2 + sigma_y2", w * square_q + b, w * square_q + 2 * b),
    Equation("B7 (5), (47)", PLAIN, "sigma_mu2", w * pair_q + b, w * pair_q),
    Equation("B7 (6), (48)", each("relu erf step"), "c", ratio / (1 + ratio), ratio / (2 + ratio)),
    Equation("B7, layer 1, c", PLAIN, "c^1", b / (w + b), b / w),
    Equation("B7, layer 1, γ", PLAIN, "gamma^1", b / w, b / (w + b)),
    Equation("B6 (12), layer 1, σ_μ²", PLAIN, "sigma_mu2^1", b, w + b),
    # E21: (36) from l = 0 would apply φ to the data, but (12) is linear in them
    Equation("B6, Lemma D.3 from l = 0, ReLU", RELU, "sigma_y2^1", w * (1 - 1 / sp.pi) / 2, w, misprint=True),
    Equation("B6, Lemma D.3 from l = 0, odd φ", ODD, "sigma_y2^1", w * B, w, misprint=True),
    Formula(  # E22: the print squares the mean of the deviation
        "B6, App. A, Var over data",
        CUBE,
        "<(phi - <phi>)^2>",
        sp.S.Zero,
        9 * mu**4 * sigma_y2 + 36 * mu**2 * sigma_y2**2 + 15 * sigma_y2**3,
        misprint=True,
        by=lambda theory: _variance(theory.activations[0].expression),
    ),
)



def _variance(f: sp.Expr) -> sp.Expr:
    return nested.over_data(f**2) - nested.over_data(f) ** 2


# ------------------------------------------------------------------------------------------------ finite widths

N = 3  # neurons in identities that hold neuron by neuron
NOISE = [sp.symbols(f"eps{i}_a eps{i}_b", real=True) for i in range(N)]
CENTRES = sp.symbols(f"mu:{N}", real=True)
spread = sp.sqrt(sigma_y2)


def s(first: int, second: int) -> sp.Expr:
    """s(a, b) of (54)."""
    return sum(pair[first] * pair[second] for pair in NOISE) / N


def q(first: int, second: int) -> sp.Expr:
    """(18) with (49): Σ y_i(a) y_i(b)/N, y_i(a) = μ_i + σ_y ε_i(a)."""
    rows = [(m + spread * pair[first]) * (m + spread * pair[second]) for m, pair in zip(CENTRES, NOISE)]
    return sp.expand(sum(rows) / N)


def of_print(first: int, second: int) -> sp.Expr:
    """(53), which has no terms μ_i ε_i."""
    return sum(m**2 for m in CENTRES) / N + sigma_y2 * s(first, second)


cross = sum(spread * m * sum(pair) for m, pair in zip(CENTRES, NOISE)) / N
excess = (sigma_mu2 + sigma_y2 * s(0, 0)) * (sigma_mu2 + sigma_y2 * s(1, 1)) - (sigma_mu2 + sigma_y2 * s(0, 1)) ** 2
left = 2 * sigma_mu2 * sigma_y2 * s(0, 1) + sigma_y2**2 * s(0, 1) ** 2
right = sigma_mu2 * sigma_y2 * (s(0, 0) + s(1, 1)) + sigma_y2**2 * s(0, 0) * s(1, 1)

WIDTHS = (  # composed: algebra of (49), (53) and (54), neuron by neuron, in which no theory stands
    Formula(  # E23
        "B8 (53)",
        RELU,
        "q_ab",
        of_print(0, 1),
        of_print(0, 1) + cross,
        misprint=True,
        composed=True,
        by=lambda theory: q(0, 1),
    ),
    Formula("B8, N Var s(a, b)", RELU, "N Var s_ab", sp.S.One, sp.S(2), by=lambda t: _of_noise("K_ab")),
    Formula("B8, N Var s(a, a)", RELU, "N Var s_aa", sp.S(2), sp.S.One, by=lambda t: _of_noise("K_aa")),
    Formula(
        "B8, N Var q_ab by (53)",
        RELU,
        "N Var q_ab",
        sigma_y2**2,
        sigma_y2**2 + 2 * sigma_mu2 * sigma_y2,
        misprint=True,
        by=lambda t: variance_over_inputs("K_ab"),
    ),
    Formula(
        "B8, N Var q_aa by (53)",
        RELU,
        "N Var q_aa",
        2 * sigma_y2**2,
        2 * sigma_y2**2 + 4 * sigma_mu2 * sigma_y2,
        misprint=True,
        by=lambda t: variance_over_inputs("K_aa"),
    ),
    Formula(
        "B9 (55)",
        RELU,
        "q_aa q_bb - q_ab^2",
        right - left,
        right - 2 * left,
        composed=True,
        by=lambda t: sp.expand(excess),
    ),
    Formula(  # E13: a sum over i and j
        "B9 (56)",
        RELU,
        "s_aa + s_bb - 2 s_ab",
        sum((x[0] - y[1]) ** 2 for x in NOISE for y in NOISE) / N,
        sum((x[0] - x[1]) ** 2 for x in NOISE) / N,
        misprint=True,
        composed=True,
        by=lambda t: s(0, 0) + s(1, 1) - 2 * s(0, 1),
    ),
)


def _of_noise(quantity: str) -> sp.Expr:
    """The same without centres and with σ_y = 1."""
    return variance_over_inputs(quantity).subs({sigma_mu2: 0, sigma_y2: 1})


CLAIMS = DICTIONARY + WIDTHS
