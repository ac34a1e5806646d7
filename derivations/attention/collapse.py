"""C17 to C19, C21, C22: tokens that come together, what stops them, and what it does to gradients.

1 - ρ of tokens that nearly agree is followed as their distance, which keeps its digits. Exact is the averaged
recursion, heads → ∞; the bound of [2103.03404] is for one network, so that only its constant at random matrices is
asked.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.attention.networks import DENSE, Built, attention, block, only_attention
from derivations.attention.softmax import FREE
from derivations.claims import Claim
from derivations.comparisons import Formula, Holds
from meanfield.base.symbols import K, K_ab, distance, parameter, tokens
from meanfield.networks import RMSNorm
from meanfield.symbolic.averages.nodes.overlap import Overlap

GAP, S = sp.Symbol("g", positive=True), parameter("sigma_q")
PLAIN, NORMED = only_attention(), only_attention(norm=True)
SKIP, SKIP_NORMED = only_attention(skip=True), only_attention(norm=True, skip=True)
PRE = block("relu")
WITH_TANH = Built(
    "attention, tanh layer, no skip", (),
    mf.Network(mf.Sequential((attention(), DENSE, mf.Nonlinearity("tanh"), mf.Dense(sigma_w=4, sigma_b=0))), DENSE),
)  # fmt: skip
BRANCHES = {n: block("relu", "pre", f"pre-LN, relu, L^(-{n}/2)", sigma_q=0, total=n) for n in (0, 1)}


# -------------------------------------------------------------------------------------------------------- C17 to C19


def at_collapse(e: sp.Expr) -> sp.Expr:
    """Softmax averages with rows that are uniform: of scores whose variance has fallen to 0."""
    return e.replace(lambda x: isinstance(x, Overlap), lambda x: x.func(x.entries, 0, 0, x.which))


def cubic(theory: mf.Theory) -> sp.Expr:
    """The next 1 - ρ at K = 1 to leading order in g = 1 - ρ."""
    found = theory.recursion("K", "K_ab", "distance").flat()["distance"] / 2
    return at_collapse(sp.expand(found)).subs({K: 1, distance: 2 * GAP, K_ab: 1 - GAP})


def gained(theory: mf.Theory, number: int) -> sp.Expr:
    """What one layer adds to Θ by its number-th matrix at K = 1 and 1 - ρ = g, to leading order in g."""
    found = theory.recursion("K", "K_ab", "distance", f"Theta[{number}]").flat()[f"Theta[{number}]"]
    state = {sp.Symbol(f"Theta[{number}]", nonnegative=True): 0, sp.Symbol(f"Theta_ab[{number}]", real=True): 0}
    found = at_collapse(sp.expand(found.subs(state)))
    return sp.expand(found.subs({K: 1, distance: 2 * GAP, K_ab: 1 - GAP})).as_leading_term(GAP)


def query_share(theory: mf.Theory) -> sp.Expr:
    """Θ_Q/Θ_V of one layer."""
    return gained(theory, 1) / gained(theory, 3)


def shares_end(total: int, depth: int = 256) -> float:
    """(1 - ρ)² at that depth, by which Θ_Q/Θ_V of the last layer falls; total: 1 for branches of 1/√L."""
    run = BRANCHES[total].theory.propagate(
        depth=depth + 1, tokens=16, correlation=0.0, quantities=("K", "distance")
    )  # fmt: skip
    return float((run.distance[-1] / (2 * run.K[-1])) ** 2)


def prevented(total: int) -> bool:
    """Whether (1 - ρ)² is the same at 64 and 256 blocks, within 5 %."""
    return abs(shares_end(total) / shares_end(total, 64) - 1) < 0.05


def factor_of_bound(power: float) -> bool:
    """Whether 4β/√d_qk at Gaussian matrices of deviation 1, d = d_qk, H = γ = 1, grows as d^power from 64 to 1024.

    β = ‖W_QK‖₁ ‖W_V‖_{1,∞}, and ‖·‖_{1,∞} = √(‖·‖₁ ‖·‖_∞).
    """
    return abs(np.log2(bound_factor(1024) / bound_factor(64)) / 4 - power) < 0.1


@cache
def bound_factor(d: int) -> float:
    rng = np.random.default_rng(17)
    query, key, value = rng.standard_normal((3, d, d)) / d**0.5
    one, both = np.linalg.norm(query @ key.T, 1), np.linalg.norm(value, 1) * np.linalg.norm(value, np.inf)
    return float(4 * one * both**0.5 / d**0.5)


# ------------------------------------------------------------------------------------------------------- C21, C22


def mixed_block(alpha_a: object, alpha_m: object, sigma_w: object) -> Built:
    """x ← √(1 - α_A²)x + α_A attn(N x), x ← √(1 - α_M²)x + α_M MLP(N x), N an RMSNorm, tanh, f = 4d."""
    first, second = sp.sympify(alpha_a), sp.sympify(alpha_m)
    heads = mf.Sequential((RMSNorm(), attention(sp.Rational(3, 5)), mf.Dense(sigma_w=first, sigma_b=0)))
    wide = mf.Dense(sigma_w=sigma_w, sigma_b=0, expand=4)
    layer = mf.Sequential((RMSNorm(), wide, mf.Nonlinearity("tanh"), mf.Dense(sigma_w=second, sigma_b=0)))
    both = (mf.Residual(heads, sp.sqrt(1 - first**2)), mf.Residual(layer, sp.sqrt(1 - second**2)))
    return Built(f"C22, α = {alpha_a}, {alpha_m}, σ_w = {sigma_w}", (), mf.Network(mf.Sequential(both), DENSE))


HALF = sp.Rational(1, 2)
ORDERED = mixed_block(HALF, HALF, 1)


def is_phase(name: str, *place: object) -> bool:
    """Whether tokens of `mixed_block` come together ("ordered"), or not ("chaotic")."""
    return mixed_block(*place).theory.phase().name == name


def exponents_differ(by: str) -> bool:
    """Whether e^{λ_g - λ_a} is that in the ordered phase: 1, or 1 + α_A²/((1 - α_A²)K*), what attention hands on of
    gradients that all tokens have in common."""
    theory = ORDERED.theory
    here = theory.phase()
    ratio = float(sp.exp(theory.depth_law("J").rate) / here.chi_J.value)
    expected = {"1": 1.0, "1 + 1/(3K*)": 1 + 1 / (3 * float(here.fixed_point.K.value))}[by]
    return abs(ratio - expected) < 1e-9


CLAIMS: tuple[Claim, ...] = (
    Holds("C17, 4γβH < √d_qk at random matrices: the left over the right", PLAIN, "power of d", 0.5, 0.0, composed=True,
          of=factor_of_bound),
    Formula("C18, a skip stops the collapse, no norm", SKIP, "rate of c", sp.S.Zero, sp.log(2), misprint=True,
            by=lambda t: t.depth_law("K").rate - t.depth_law("distance").rate),
    Formula("C18, a skip stops the collapse, pre-norm", SKIP_NORMED, "power of distance/K", sp.S.Zero, sp.S.One,
            misprint=True, by=lambda t: t.depth_law("K").exponent - t.depth_law("distance").exponent),
    Formula("C18, LayerNorm plays no role: the rate beside a skip", SKIP_NORMED, "rate of c", sp.log(2), sp.S.Zero,
            misprint=True, by=lambda t: t.depth_law("K").rate - t.depth_law("distance").rate),
    Formula("C18, LayerNorm plays no role: alone", (PLAIN, NORMED), "slope at c = 1", sp.S.Zero, sp.S.One,
            by=lambda t: t.phase().chi_J.value),
    Formula("C18, an MLP stops the collapse, no skip", WITH_TANH, "slope at c = 1", sp.S.One, sp.S.Zero, misprint=True,
            by=lambda t: t.phase().chi_J.value),
    Formula("C18, pre-LN with a relu MLP", PRE, "power of distance/K", sp.S.Zero, sp.Rational(2, 3), misprint=True,
            by=lambda t: t.depth_law("K").exponent - t.depth_law("distance").exponent),
    Formula("C17, the cubic rate and its constant", FREE, "1 - c", GAP**3 * S**2 * (tokens - 1) / tokens**2,
            GAP**2 * S**2 * (tokens - 1) / tokens**2, by=cubic),
    Formula("C19, gradients of queries vanish", FREE, "Theta_Q/Theta_V", GAP**2 * S**2 * (tokens - 1) / tokens**2,
            GAP * S**2 * (tokens - 1) / tokens**2, by=query_share),
    Holds("C21, λ_a = λ_g = 0 at once: λ_g - λ_a, ordered", ORDERED, "λ_g - λ_a", "1", "1 + 1/(3K*)", misprint=True,
          of=exponents_differ),
    Holds("C21, order-chaos transition", block("tanh"), "phase", "ordered", "chaotic", of=is_phase,
          places=((HALF, HALF, 1),)),
    Holds("C21, order-chaos transition, beyond", block("tanh"), "phase", "chaotic", "ordered", of=is_phase,
          places=((HALF, HALF, 8),)),
)  # fmt: skip
SLOW: tuple[Claim, ...] = (
    Holds("C19, 1/√L prevents it", BRANCHES[1], "(1 - c)²", 1, 0, of=prevented),
)  # fmt: skip
