"""The recursions for any φ (§ 2-5, App. B-E): each claim is decided for several φ, kinked, smooth, odd and not odd."""

from __future__ import annotations

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.claims import each, network
from derivations.comparisons import Equation, Floats, Is
from derivations.placeholders import (
    A,
    B,
    delta,
    mean,
    mean_s,
    mu,
    s,
    slope,
    slope_1,
    slope_K,
    slope_s,
    square,
    square_K,
    square_s,
    stein,
)
from derivations.quantities import C
from meanfield.base.symbols import D0, J0, N0, Q0, J, K, Theta, l, sigma_b, sigma_w

w, b = sigma_w**2, sigma_b**2
ALL, SMOOTH = "relu erf gelu tanh elu", "erf gelu tanh"
RAYS = "relu erf gelu tanh"  # A ≥ B: the line of LayerNorm on preactivations exists
PLAIN, PRE, ACT = each(ALL), each(ALL, norm="pre"), each(ALL, norm="act")
SKIP, PRE_SKIP = each(ALL, mu="mu"), each(ALL, norm="pre", mu="mu")
ONE, PRE_ONE = each(ALL, mu=1), each(ALL, norm="pre", mu=1)
CURVES, CURVES_SKIP = each("erf gelu tanh elu"), each("erf gelu tanh elu", mu="mu")
m = 1 - mu**2
CUBIC, ERF = network("tanh(z) - tanh(2*z)/8"), network("erf")  # at the critical point n = 3, c = 16, and n = c = 2
QUARTIC = network("sin(z) - sin(2*z)/5 + sin(3*z)/45")  # n = 4, c = 3/2
BENT = network("tanh(z) + tanh(z)**2 - tanh(z)**3/6")  # n = 3, and χ_J - 1 of first order in K



def settled_factors(before: int, layer: int) -> float:
    """How many factors χ_J* there are in J^{1,l} of erf beside those of the layers up to l', where χ_J has settled."""
    run = mf.derive("erf").propagate(sigma_w=1.7**0.5, sigma_b=0.3**0.5, depth=layer)
    settled = mf.derive("erf").phase(sigma_w=1.7**0.5, sigma_b=0.3**0.5).chi_J
    return float((run.log_J[layer - 1] - run.log_J[before]) / np.log(settled))


RECURSIONS = (
    Equation("R3 (11), (B.2)", PLAIN, "K", w * square + b, sigma_w * square + b),
    Equation("R3, layer 1", PLAIN, "K^1", w * Q0 + b, w + b),
    Equation("R4 (12), (B.4)", PLAIN, "J", J * w * slope, J * w * square),
    Equation("R4 (13)", PLAIN, "chi_J", w * slope, w * square_K),
    Equation("R7 (16), empty product", PLAIN, "J^1", sp.S.One, w),
    Floats(
        "R7 (17)",
        ERF,
        "factors chi_J*",
        lambda before, layer: layer - before - 1,
        lambda before, layer: layer - before,
        of=settled_factors,
        places=((60, 61), (60, 90), (100, 150)),
        tolerance=1e-9,
    ),
    Equation("R5 (14)", PLAIN, "chi_K", w * square_K, w * slope),
    Equation("R5, Stein's lemma", each(SMOOTH), "chi_K", w * stein, w * slope),
    Equation("R13 (B.7)", each(SMOOTH), "chi_Delta", w * delta, w * delta / 2),
    Equation("R13 (B.7) as dχ_J/dK", PLAIN, "chi_Delta", w * slope_K, w * square_K),
)
INPUTS = (
    Equation("R14, after (B.5)", PLAIN, "J0^1", w, w * Q0),
    Equation("R14 (B.5), (B.6)", PLAIN, "J0^2", (w * slope + 2 * w / N0 * w * slope_K * Q0) * w, w * slope * w),
    Equation(  # E-4: the print has the term of order 1/N_0 at layer 2 only
        "R15 (B.8), l ≥ 3", each(SMOOTH), "J0", J0 * w * slope, J0 * (w * slope + 2 * D0 * w * slope_K), misprint=True
    ),
    Equation("R15, S of E-4", PLAIN, "D0*J0", (w * square_K) ** 2 * D0 * J0, w * square_K * D0 * J0),
    Equation("R16", PRE_SKIP, "J0", w * A * (J0 / K - D0 * J0 / K**2) + mu**2 * J0, (w * A / K + mu**2) * J0),
    Equation("R16, D", PRE_SKIP, "D0*J0", mu**4 * D0 * J0, mu**2 * D0 * J0),
)

new, new_pre = w * square + b, w * B + b  # K^l in the recursions of the tangent kernel
chi, chi_pre = w * slope, w * A / K
bend = w * slope_1  # χ_Δ at K = 1
KERNELS = (
    Equation("R17 (B.10)", PLAIN, "Theta", chi * Theta + new, chi * Theta + K),
    Equation("R17 (B.11), layer 1", PLAIN, "Theta^1", w * Q0 + b, w * Q0),
    Equation(  # E-3
        "R18 (B.24)",
        PRE,
        "Theta",
        chi_pre * Theta + new_pre + 2 * chi_pre + 2 * bend,
        chi_pre * Theta + new_pre + 2 * K * chi_pre + 2 * bend,
        misprint=True,
    ),
    Equation("R19 (B.37)", ACT, "Theta", w * slope / (square - mean**2) * Theta + s + 2 * w, w * slope * Theta + s),
    Equation("R20 (D.7)", SKIP, "Theta", (chi + mu**2) * Theta + new, (chi + mu**2) * Theta + new - mu**2 * K),
    Equation(  # E-3; the proof's (E.13) has 2χ_J + 2χ_Δ
        "R21 (E.11)",
        PRE_SKIP,
        "Theta",
        (chi_pre + mu**2) * Theta + new_pre + chi_pre + mu**2 + bend,
        (chi_pre + mu**2) * Theta + new_pre + 2 * K * chi_pre + 2 * bend,
        misprint=True,
    ),
    Equation(
        "R21 (E.13)",
        PRE_SKIP,
        "Theta",
        (chi_pre + mu**2) * Theta + new_pre + 2 * (chi_pre + mu**2) + 2 * bend,
        (chi_pre + mu**2) * Theta + new_pre + 2 * K * chi_pre + 2 * bend,
        misprint=True,
    ),
)

NORMALIZED = (
    # E-12: with the printed denominator K the normalized second moment would be 1/K
    Equation("R22 (22), Remark 3.3", network("linear", norm="pre"), "K", w / K + b, w + b, misprint=True),
    Equation("R23 (23), (B.19)", PRE, "K", new_pre, new),
    Equation("R23 (24), (B.21)", PRE, "chi_J", chi_pre, w * A),
    Equation("R23, χ_J*", PRE, "chi_J*", w * A / new_pre, A / B),
    Equation("R23, line", each(RAYS, norm="pre"), "line sigma_b^2", (A - B) * w, A * w),
    Is("R23, A < B", each("sigmoid softplus", norm="pre"), "line kind", "none", "ray"),
    Equation("R22, § 3.1: χ_K* = 1", PRE, "chi_K", sp.S.One, sp.S.Zero, misprint=True),  # E-13
    Equation("R25 (B.32)", ACT, "K", s, new),
    Equation(
        "R25 (B.33), next to last line",
        each("relu gelu elu", norm="act"),
        "K",
        w * (square - mean**2) / mean**2 + b,
        s,
        misprint=True,
    ),  # E-15
    Equation("R25 (B.34)", ACT, "chi_J", w * slope / (square - mean**2), w * slope / square),
    Equation("R25 (B.31)", ACT, "chi_J*", w * slope_s / (square_s - mean_s**2), w * slope_s / square_s),
)

SKIPS = (
    Equation("R26 (26), (D.2)", SKIP, "K", w * square + b + mu**2 * K, w * square + b + mu * K),
    Equation("R26 (27), (D.4)", SKIP, "chi_J", w * slope + mu**2, w * slope + mu),
    Equation("R26, rescaled line: σ_w²", CURVES_SKIP, "line sigma_w^2(K)", m / slope, m**2 / slope),
    Equation(
        "R26, rescaled line: σ_b²", CURVES_SKIP, "line sigma_b^2(K)", m * (K - square / slope), K - square / slope
    ),
    Equation("R26, plain line: σ_w²", CURVES, "line sigma_w^2(K)", 1 / slope, 1 / square_K),
    Equation("R26, plain line: σ_b²", CURVES, "line sigma_b^2(K)", K - square / slope, K - square),
    Equation("R27, Remark 4.2, μ = 1: σ_w", ONE, "line sigma_w", sp.S.Zero, sp.S.One),
    Equation("R27, Remark 4.2, μ = 1: σ_b", ONE, "line sigma_b", sp.S.Zero, sp.S.One),
    Equation(  # it is K* at (σ_w, σ_b)/√(1 - μ²), which only LayerNorm makes K*/(1 - μ²)
        "R27, Remark 4.2, μ < 1", network("relu", mu="mu"), "K*", b / (1 - w / 2) / m, b / (m - w / 2), misprint=True
    ),
    Equation(  # E-14
        "R27, Remark 4.3: exponential", each("erf tanh", mu=1), "law J rate_power", sp.S.One, sp.S.Half, misprint=True
    ),
    Equation("R27, φ ~ z", each("relu gelu", mu=1), "law J rate_power", sp.S.One, sp.S.Half),
)

star = (w * B + b) / m
EVERYWHERE = (
    Equation("R28 (31), (E.2)", PRE_SKIP, "K", new_pre + mu**2 * K, new_pre + mu * K),
    Equation("R28 (E.4)", PRE_SKIP, "K*", star, star * m),
    Equation("R28, Remark 5.1: K*", PRE_SKIP, "K*", star * m**2, star, misprint=True),  # E-11
    Equation("R28 (E.5), step", PRE_ONE, "K", K + w * B + b, w * B + b),
    Equation("R28 (E.5)", PRE_ONE, "law K lead", (w * B + b) * l, w * B * l),
    Equation("R29 (32), (E.7)", PRE_SKIP, "chi_J", chi_pre + mu**2, chi_pre + mu),
    Equation("R29, χ_J*", PRE_SKIP, "chi_J*", m * w * A / (w * B + b) + mu**2, w * A / (w * B + b) + mu**2),
    Equation("R55, Remark 5.1: nearer 1", PRE_SKIP, "chi_J*", 1 + m * (w * A / (w * B + b) - 1), w * A / (w * B + b)),
    Equation("R29, Remark 5.1: line", each(RAYS, norm="pre", mu="mu"), "line sigma_b^2", (A - B) * w, m * (A - B) * w),
    Equation("R30 (E.9)", PRE_ONE, "chi_J", 1 + chi_pre, chi_pre),
    Is("R30, Remark 5.3", PRE_ONE, "line kind", "everywhere", "none"),
    Equation("R30, power p", PRE_ONE, "p", w * A / (w * B + b), w * A / (w * B)),
    Equation("R30, Γ form", PRE_ONE, "exact J step", 1 + w * A / K, 1 + w * B / K),
    Equation(  # E-11: J saturates
        "R30, Remark 5.1: J ~ l, μ < 1",
        each("relu erf gelu", norm="pre", mu="1/2"),
        "J exponent on the line",
        sp.S.One,
        sp.S.Zero,
        misprint=True,
    ),
    Equation(
        "R30, Remark 5.1: J ~ l, μ = 1",
        each("relu erf gelu", norm="pre", mu=1),
        "J exponent on the line of mu < 1",
        1,
        0,
    ),
)

EXPONENTS = (
    Equation("R11 (C.5), n = 2", ERF, "point 0 A", sp.S.Half, sp.S.One),
    Equation("R11 (C.5), n = 3", CUBIC, "point 0 A", sp.Rational(1, 32), sp.sqrt(2) / 8, misprint=True),  # E-7
    Equation("R11 (C.5), n = 4", QUARTIC, "point 0 A", sp.Rational(2, 9), sp.cbrt(sp.Rational(2, 9)), misprint=True),
    Equation("R11 (C.5), any c, n = 2", ERF, "A, n = 2", 1 / C, 2 / C),
    Equation("R11 (C.5), any c, n = 3", ERF, "A, n = 3", 1 / (2 * C), 1 / sp.sqrt(2 * C), misprint=True),
    Equation("R11 (C.5), any c, n = 4", ERF, "A, n = 4", 1 / (3 * C), (3 * C) ** -sp.Rational(1, 3), misprint=True),
    Equation("R11 ζ_K, n = 3", CUBIC, "point 0 zeta_K", sp.S.Half, sp.S.One),
    Equation("R11 ζ_K, n = 4", QUARTIC, "point 0 zeta_K", sp.Rational(1, 3), sp.S.Half),
    Equation("R12 (C.7)", each("erf tanh arctan sin"), "zeta - d_1/c_2", sp.S.Zero, sp.S.One),
    Is("R10 (20), n = 2", each("erf tanh elu"), "J is a power at the point", True, False),
    Is("R10 (20), n = 3, d_1 ≠ 0", BENT, "J is a power at the point", True, False, misprint=True),
)

CLAIMS = RECURSIONS + INPUTS + KERNELS + NORMALIZED + SKIPS + EVERYWHERE + EXPONENTS
