r"""The initial guessing bias: how far an untrained network prefers one class, as the state of two inputs says it.

At fixed weights a preactivation is N(μ, σ_y²) over inputs, and over weights μ ~ N(0, σ_μ²); the bias of one layer is
γ = σ_μ²/σ_y². Its recursion averages over inputs first, ⟨·⟩ over N(μ, σ_y²), then over weights, over μ:

    σ_μ²′ = σ_w²⟨⟨φ⟩²⟩ + σ_b²,  σ_y²′ = σ_w²⟨⟨φ²⟩ - ⟨φ⟩²⟩.

Merged (`symbolic.averages.nested`), these are the averages of two inputs with K = σ_μ² + σ_y², K_ab = σ_μ².

Source: [bias_and_trainability] Lemma D.3 (36), (37); Theorem 3.1 (4)-(6); table 1.
"""

from __future__ import annotations

from enum import Enum

import sympy as sp

from meanfield.base.arguments import choice, validated
from meanfield.base.symbols import Q0, Z, sigma_b, sigma_mu2, sigma_w, sigma_y2, z
from meanfield.functions.activations import Activation
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.equality import closed
from meanfield.symbolic.recursion import Recursion, StateVar, c0
from meanfield.symbolic.steps import Step


class BiasPhase(Enum):
    """The phase of an untrained network by two order parameters: where γ ends, and on which side of 1 χ_J* lies.

    The first five are table 1 of [bias_and_trainability]; the others are what it leaves out. Deep prejudice is γ → ∞
    (c → 1): the same class for almost every input.

    >>> derive("erf").bias(sigma_w=3, sigma_b=0.3).phase
    <BiasPhase.NEUTRALITY: 'neutrality'>
    """

    ORDERED_DEEP_PREJUDICE = "ordered deep prejudice"  #: γ → ∞, χ_J* < 1
    TRANSIENT_DEEP_PREJUDICE = "transient deep prejudice"  #: γ → ∞ by a power of l, χ_J* = 1, K settles: edge of chaos
    CHAOTIC_DEEP_PREJUDICE = "chaotic deep prejudice"  #: γ → ∞, χ_J* > 1
    PREJUDICE = "prejudice"  #: 1 < γ* < ∞: χ_J* > 1, or K grows beside a skip
    NEUTRALITY = "neutrality"  #: γ* < 1, likewise
    BALANCE = "balance"  #: γ* = 1, the line between prejudice and neutrality: G_0 is uniform
    DIVERGENT_DEEP_PREJUDICE = "divergent deep prejudice"  #: γ → ∞, χ_J* = 1, but K grows without bound
    VANISHING_DEEP_PREJUDICE = "vanishing deep prejudice"  #: γ → ∞ while K → 0
    BY_THE_START = "by the start"  #: γ ends where the first layer puts it (γ = 0 for orthogonal data without biases)
    UNKNOWN = "unknown"


def phase_of(gamma: str, side: int | None, K: str) -> BiasPhase:
    """The phase from where γ ends ("oo", "above", "one", "below", "start" or "?"), the sign of χ_J* - 1 (None where it
    is not known) and where K ends ("finite", "oo", "0")."""
    if gamma == "start":
        return BiasPhase.BY_THE_START
    if gamma == "?" or (side is None and gamma == "oo"):
        return BiasPhase.UNKNOWN
    if gamma != "oo":
        return {"above": BiasPhase.PREJUDICE, "one": BiasPhase.BALANCE, "below": BiasPhase.NEUTRALITY}[gamma]
    if K == "0":
        return BiasPhase.VANISHING_DEEP_PREJUDICE
    if side == 0:
        return BiasPhase.TRANSIENT_DEEP_PREJUDICE if K == "finite" else BiasPhase.DIVERGENT_DEEP_PREJUDICE
    assert side is not None
    return BiasPhase.CHAOTIC_DEEP_PREJUDICE if side > 0 else BiasPhase.ORDERED_DEEP_PREJUDICE


def bias_recursion(activation: Activation) -> Recursion:
    """The recursion of (σ_μ², σ_y²) for Dense(φ(z)) from its definition: averages over inputs inside one over weights.

    >>> from meanfield.functions.activations import activation
    >>> print(bias_recursion(activation("tanh"))["sigma_mu2"])
    sigma_b**2 + sigma_w**2*<tanh(z_a)*tanh(z_b)>_{sigma_mu2 + sigma_y2, sigma_mu2, sigma_mu2 + sigma_y2}
    """
    f = activation.pieces
    first = average(f.expr, sigma_y2, mean=Z[0])
    second = average(f.map(lambda e: e**2).expr, sigma_y2, mean=Z[0])
    both, same = (average(e, sigma_mu2) for e in (first**2, second))
    start = sigma_w**2 * Q0 * c0 + sigma_b**2, sigma_w**2 * Q0 * (1 - c0)
    state = (StateVar("sigma_mu2", sigma_mu2, start[0]), StateVar("sigma_y2", sigma_y2, start[1]))
    return Recursion(state, Step((sigma_w**2 * both + sigma_b**2, sigma_w**2 * (same - both))))


@validated
def variance_over_inputs(quantity: str = "K_ab") -> sp.Expr:
    """N Var K_ab (or N Var K_aa): how far the mean of z_ia z_ib over N neurons moves with the inputs, at fixed weights.

    quantity: "K_ab", of two independent inputs, or "K_aa". At fixed weights z_ia is N(μ_i, σ_y²) over inputs,
    independent for different neurons and inputs, and μ_i ~ N(0, σ_μ²) over neurons: the variance over inputs at fixed
    μ, averaged over μ. Exact at every N. Fluctuations of the inputs' norms come to it in a network.

    Source: [bias_and_trainability] App. D, where the terms in σ_μ²σ_y² are missing; derived here.

    >>> variance_over_inputs("K_ab"), variance_over_inputs("K_aa")
    (2*sigma_mu2*sigma_y2 + sigma_y2**2, 4*sigma_mu2*sigma_y2 + 2*sigma_y2**2)
    """
    choice(quantity, "quantity", ("K_ab", "K_aa"))
    powers = (1, 1) if quantity == "K_ab" else (2,)

    def moment(factor: int) -> sp.Expr:
        return sp.Mul(*[closed(average(z ** (factor * p), sigma_y2, mean=Z[0])) for p in powers])

    return sp.expand(closed(average(sp.expand(moment(2) - moment(1) ** 2).subs(Z[0], z), sigma_mu2)))
