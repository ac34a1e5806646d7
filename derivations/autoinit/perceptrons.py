"""What the paper says of perceptrons before it tunes them: the estimator of J, covariances, χ_Δ, the kernel part of the
JKL."""

from __future__ import annotations

import sympy as sp

from derivations.claims import Claim, each, network
from derivations.comparisons import Equation, Formula
from derivations.placeholders import delta, pair
from derivations.quantities import derived
from meanfield.base.symbols import K, sigma_b, sigma_w

w, b = sigma_w**2, sigma_b**2
HERE, NEXT = 3, 2  # N_l and N_{l+1}
JACOBIAN = sp.Matrix(NEXT, HERE, sp.symbols(f"m:{NEXT * HERE}", real=True))  # ∂h_j^{l+1}/∂h_i^l


def over_vectors() -> sp.Expr:
    """The mean over v ~ N(0, 1) of Σ_i (Σ_j v_j ∂h_j^{l+1}/∂h_i^l)², by ⟨v_j v_k⟩ = δ_jk."""
    v = sp.symbols(f"v:{NEXT}", real=True)
    squares = sp.Poly(sum(e**2 for e in sp.Matrix([v]) * JACOBIAN), *v)
    return sum(squares.coeff_monomial(x**2) for x in v)


CLAIMS: tuple[Claim, ...] = (
    Formula(  # composed: no theory stands in it
        "R7 (7)",
        network("relu"),
        "J^{l,l+1}",
        over_vectors() / HERE,
        over_vectors() / NEXT,
        misprint=True,
        composed=True,
        by=lambda t: sum(e**2 for e in JACOBIAN) / NEXT,
    ),
    Equation("R10 (10)", each("relu erf"), "K_ab", w * pair + b, w * pair),
    Equation("RχΔ (26)", each("erf gelu"), "chi_Delta", w * delta, 2 * w * delta),
    Equation("S3 (28)", each("relu leaky_relu(0.1) linear"), "chi_Delta", sp.S.Zero, w),
    Formula(
        "R48 (48), K'/K - J",
        network("relu"),
        "K'/K - J",
        b / K,
        b * w / K,
        by=lambda t: sp.expand(derived(t, "K") / K - derived(t, "chi_J")),
    ),
)
