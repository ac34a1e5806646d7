"""Sec. 3 and App. B.4: BatchNorm before φ, with and without a skip; infinite batches and finite ones."""

from __future__ import annotations

import sympy as sp

import meanfield as mf
from derivations.autoinit.networks import normed
from derivations.comparisons import Formula
from derivations.placeholders import mu
from meanfield.base.symbols import J, J_ab, K, K_ab, sigma_b, sigma_w

w, b, pi = sigma_w**2, sigma_b**2, sp.pi
V = K - K_ab
SMOOTH = tuple(normed(a, "mu") for a in ("relu", "erf", "gelu"))
RELU, PLAIN, LINEAR = normed("relu", "mu"), normed("relu"), normed("linear")
EIGHT = normed("relu", batch=8)
rho = sp.Rational(-1, 7)
kappa = (sp.sqrt(1 - rho**2) + rho * (pi - sp.acos(rho))) / pi  # κ₁(ρ) of the arc-cosine kernel
both = sp.Rational(1, 4) + sp.asin(rho) / (2 * pi)  # P(two entries > 0)


def of(name: str):
    return lambda theory: theory.recursion(name)[name]


def one_block(theory: mf.Theory) -> sp.Expr:
    """J^{l,l+1}: tangents of one block alone, J = 1 and J_ab = 0 before it."""
    return theory.recursion("J")["J"].subs({J: 1, J_ab: 0})


def one_block_apart(theory: mf.Theory) -> sp.Expr:
    """The same where K and K_ab are those of the layers after the first."""
    maps = theory.recursion("J")
    there = {K: maps["K"], K_ab: maps["K_ab"]}
    return one_block(theory).subs(there, simultaneous=True)


def growth(theory: mf.Theory) -> sp.Expr:
    """What J^{1,l} grows by from layer to layer, far from layer 1: that of J - J_ab."""
    maps = theory.recursion("J", "J_ab")
    there = {K: maps["K"], K_ab: maps["K_ab"]}
    apart = (maps["J"] - maps["J_ab"]).subs({J: 1, J_ab: 0})
    return apart.subs(there, simultaneous=True)


def slope(theory: mf.Theory) -> sp.Expr:
    """σ_w²⟨φ′²⟩ over a Gaussian of variance 1, in the network's own average."""
    return w * theory.averages()["phi'^2"].subs(K, 1)


def residue(theory: mf.Theory) -> sp.Expr:
    """J^{l,l+1} less σ_w²⟨φ′²⟩_1/(K - K_ab), by the engine's own average of φ."""
    return sp.simplify(mf.symbolic.closed(one_block(theory) - slope(theory) / V))


def settled(theory: mf.Theory) -> sp.Expr:
    """χ_J where K - K_ab settles."""
    recursion = theory.limiting
    (here,) = sp.solve(recursion["K"] - K, K)
    return (recursion["J"] / J).subs(K, here)


def power(theory: mf.Theory) -> sp.Expr:
    """The exponent of J^{1,l} in l under a skip of strength 1: lim l(J^{l,l+1} - 1)."""
    recursion = theory.limiting
    drift = recursion["K"] - K  # K - K_ab grows by it
    return sp.limit((recursion["J"] / J - 1) * K / drift, K, sp.oo)


CLAIMS = (
    Formula("R37 (37), K", RELU, "K", w / 2 + b + mu**2 * K, w / 2 + b + mu * K, by=of("K")),
    Formula("R37 (37), K_ab", RELU, "K_ab", w / (2 * pi) + b + mu**2 * K_ab, w / 2 + b + mu**2 * K_ab, by=of("K_ab")),
    Formula("R36 (36), |B| = oo", LINEAR, "K_ab", b, w + b, by=of("K_ab")),
    # printed as δ_xy, of any batch: it is -1/(|B| - 1) between two inputs
    Formula("R36 (36), |B| = 8", normed("linear", batch=8), "K_ab", b, b - w / 7, misprint=True, by=of("K_ab")),
    Formula("R23 (23), Conjecture 3.1", SMOOTH, "J^{l,l+1} less the print", mu**2, mu, by=residue),
    Formula("R38 (38)", PLAIN, "chi_J*", pi / (pi - 1), pi / (pi - 2), by=settled),
    Formula("R38, no sigma_w, no sigma_b", PLAIN, "invariant", pi / (pi - 1), 1 + w, by=lambda t: t.batch_invariant()),
    Formula("R39, 0 < mu < 1", RELU, "chi_J*", (pi - mu**2) / (pi - 1), pi / (pi - 1) - mu**2, by=settled),
    Formula("R39 (39): l(J - 1)", normed("relu", 1), "power of l", pi / (pi - 1), sp.S.One, by=power),
    Formula("R38B (32), |B| = 8", EIGHT, "J^{l,l+1}", 6 / (5 * (1 - kappa)), 6 / (6 * (1 - kappa)), by=one_block_apart),
    # R6: J^{l0,l} is no product of one-block Jacobians where the batch is finite
    Formula(
        "R6 (6), |B| = 8", EIGHT, "growth of J", 6 / (5 * (1 - kappa)),
        (6 + 2 * both + kappa) / (5 * (1 - kappa)), misprint=True, by=growth,
    ),
    Formula("R6 (6), |B| = oo", PLAIN, "growth of J", pi / (pi - 1), pi / (pi - 2), by=growth),
)  # fmt: skip
