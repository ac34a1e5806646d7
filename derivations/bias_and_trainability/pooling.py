"""ReLU followed by the mean of two neighbours, f = (φ(u_1) + φ(u_2))/2 (Lemma F.8), by averages over two inputs.

The recursions of networks with pooling layers are not here.
"""

from __future__ import annotations

import sympy as sp

import meanfield as mf
from derivations.claims import Formula, network
from meanfield.symbols import K, Z, sigma_w, z

RELU = network("relu")
w, pi, R = sigma_w**2, sp.pi, sp.Rational
TWO = (K, 0, K)  # two independent neurons


def pooled(theory: mf.Theory) -> sp.Expr:
    f = theory.activations[0].expression
    return (f.subs(z, Z[0]) + f.subs(z, Z[1])) / 2


def gradient(theory: mf.Theory) -> sp.Expr:
    """‖∇f‖²"""
    return sum(pooled(theory).diff(v) ** 2 for v in Z[:2])


def at(*values: int):
    """‖∇f‖² where the neurons are there."""
    return lambda theory: gradient(theory).subs(dict(zip(Z, values)))


def second(theory: mf.Theory) -> sp.Expr:
    """σ_w²⟨f²⟩/K"""
    return w * mf.closed(mf.average(sp.expand(pooled(theory) ** 2), TWO)) / K


def bend(theory: mf.Theory) -> sp.Expr:
    """σ_w²⟨f Δf⟩, by what is left of ∂(σ_w²⟨f²⟩)/∂K without the gradient."""
    return sp.diff(K * second(theory), K) - slope(theory)


def slope(theory: mf.Theory) -> sp.Expr:
    """σ_w²⟨‖∇f‖²⟩"""
    return w * mf.closed(mf.average(gradient(theory), TWO))


CLAIMS = (
    Formula("B37 (79), (86): α", RELU, "alpha", w * (pi + 1) / (4 * pi), w * (pi + 2) / (4 * pi), by=second),
    Formula("B37 (83)", RELU, "chi~_1", w / 4, w / 2, by=slope),
    Formula("B37 (85)", RELU, "<f Laplace f>", w / (4 * pi), w / (2 * pi), by=bend),
    # E15: right on average only
    Formula("B37 (84), both positive", RELU, "|grad f|^2", sp.S.One, R(1, 2), misprint=True, by=at(1, 2)),
    Formula("B37 (84), one positive", RELU, "|grad f|^2", sp.S.Zero, R(1, 4), misprint=True, by=at(1, -2)),
    Formula("B37 (84), none positive", RELU, "|grad f|^2", sp.S.Zero, R(1, 4), by=at(-1, -2)),
    # E3: gradients go by χ̃_1, so that α = 1 is no edge of chaos
    Formula(
        "B38, Lemma F.9",
        RELU,
        "chi~_1 at alpha = 1",
        sp.S.One,
        pi / (pi + 1),
        misprint=True,
        by=lambda t: (slope(t) / w) / (second(t) / w),
    ),
    Formula("B37 (81), (87)", RELU, "chi~_1/alpha", pi / (pi + 1), (pi + 1) / pi, by=lambda t: slope(t) / second(t)),
)
