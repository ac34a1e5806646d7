"""What the paper says of perceptrons before it tunes them: covariances, χ_Δ, and the kernel part of the JKL."""

from __future__ import annotations

import sympy as sp

from derivations.claims import Claim, Equation, Formula, each, network
from derivations.placeholders import delta, pair
from derivations.quantities import derived
from meanfield.base.symbols import K, sigma_b, sigma_w

w, b = sigma_w**2, sigma_b**2
CLAIMS: tuple[Claim, ...] = (
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
