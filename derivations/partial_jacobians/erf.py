"""Appendix H: erf."""

from __future__ import annotations

import sympy as sp

from derivations.claims import each, network
from derivations.comparisons import Equation, Is, Rounds
from derivations.placeholders import mu
from derivations.quantities import LAMBDA
from meanfield.base.symbols import K, l, sigma_b, sigma_w

w, b, pi, sqrt, asin = sigma_w**2, sigma_b**2, sp.pi, sp.sqrt, sp.asin
m = 1 - mu**2
s = w + b
ERF, PRE, ACT = network("erf"), network("erf", norm="pre"), network("erf", norm="act")
SKIP, ONE = network("erf", mu="mu"), network("erf", mu=1)
PRE_SKIP, PRE_ONE = network("erf", norm="pre", mu="mu"), network("erf", norm="pre", mu=1)
TANH_ONE = network("tanh", mu=1)

square = 2 / pi * asin(2 * K / (1 + 2 * K))
slope = 4 / pi / sqrt(1 + 4 * K)
decay = 4 * w / pi / ((1 + 2 * K) * sqrt(1 + 4 * K))  # χ_K without the skip
one, two = LAMBDA
size = 1 + 2 * K * (one**2 + two**2)
top, bottom = 16 * w**2 - pi**2, 16 * w**2 + pi**2
top_m, bottom_m = 16 * w**2 - pi**2 * m**2, 16 * w**2 + pi**2 * m**2
ray = 2 / pi * (2 / sqrt(5) - asin(sp.Rational(2, 3)))
normal = sqrt(5) * (2 * w * asin(sp.Rational(2, 3)) + pi * b)
rate = 2 * w / (pi * sqrt(s))  # c̃
rate_tanh = 4 * w / (3 * sqrt(2 * pi * s))

CLAIMS = (
    Equation(  # E-6
        "R37 (H.2), third line",
        ERF,
        "<d erf(l1 z) d erf(l2 z)>",
        4 * K / (pi * size),
        4 * K / (pi * size ** sp.Rational(3, 2)),
        misprint=True,
    ),
    Equation(
        "R37 (H.2), fourth line",
        ERF,
        "<erf(l1 z) erf(l2 z)>",
        2 / pi * asin(2 * K * one * two / size),
        2 / pi * asin(2 * K * one * two / sqrt((1 + 2 * K * one**2) * (1 + 2 * K * two**2))),
        misprint=True,
    ),
    # the planted error is (H.2)'s fourth line at λ = 1
    Equation("R37 (H.3)", ERF, "K", w * square + b, 2 * w / pi * asin(2 * K / (1 + 4 * K)) + b),
    Equation("R38 (H.4)", ERF, "chi_K", decay, 4 * w / pi / ((1 + 2 * K) * sqrt(1 + 2 * K))),
    Equation("R38 (H.5)", ERF, "chi_J", w * slope, 4 * w / pi / sqrt(1 + 2 * K)),
    Equation("R39 (H.6), (H.7): σ_w²(K*)", ERF, "line sigma_w^2(K)", pi * sqrt(1 + 4 * K) / 4, pi * (1 + 4 * K) / 4),
    Equation(
        "R39 (H.8)",
        ERF,
        "line sigma_b^2",
        top / (4 * pi**2) - 2 * w / pi * asin(top / bottom),
        top / (4 * pi**2) - 2 * w / pi * asin(top / (16 * w**2)),
    ),
    Equation("R39 (H.9), σ_w", ERF, "point 0 sigma_w", sqrt(pi / 4), sqrt(pi) / 4),
    Equation("R39 (H.9), σ_b", ERF, "point 0 sigma_b", sp.S.Zero, sp.S.One),
    Equation("R39 (H.9), K*", ERF, "point 0 K", sp.S.Zero, sp.S.One),
    Is("R39, the only point", ERF, "points", 1, 2),
    Equation("R39, χ_K on the line", ERF, "line chi_K(K)", 1 / (1 + 2 * K), sp.S.One),
    Equation("R40 (H.10), c_2", ERF, "point 0 c_n", sp.S(2), sp.S.One),
    Equation("R40 (H.10), next order", ERF, "K at the point", K - 2 * K**2 + sp.Rational(14, 3) * K**3, K - 2 * K**2),
    Equation("R40 (H.11), A", ERF, "point 0 A", sp.S.Half, sp.S(2)),
    Equation("R40 (H.11), ζ_K", ERF, "point 0 zeta_K", sp.S.One, sp.S.Half),
    Equation("R40 (H.12), d_1", ERF, "point 0 d_1", sp.S(2), sp.S.One),
    Equation("R40 (H.15)", ERF, "point 0 zeta", sp.S.One, sp.S(2)),
    Equation("R40, μ < 1: c_2", SKIP, "point 0 c_n", 2 * m, sp.S(2)),
    Equation("R40, μ < 1: d_1", SKIP, "point 0 d_1", 2 * m, 2 * m**2),
    Equation("R40, μ < 1: ζ", SKIP, "point 0 zeta", sp.S.One, m),
    Equation("R40, other odd φ: ζ", each("tanh arctan sin polynomial"), "point 0 zeta", sp.S.One, sp.S(2)),
    Equation("R41 (H.16)", PRE, "chi_J*", 4 * w / normal, 4 * w / (normal + 1)),
    Equation("R41 (H.17)", PRE, "line sigma_b^2", ray * w, 2 * ray * w),
    Rounds("R41 (H.17), 0.324", PRE, "line sigma_b", "0.324", "0.323", at=((sigma_w, 1),)),
    Equation("R42 (H.18)", ACT, "<phi'^2>_s", slope.subs(K, s), slope.subs(K, 2 * s)),
    Equation("R42 (H.19)", ACT, "<phi^2>_s", square.subs(K, s), square.subs(K, 2 * s)),
    Equation("R42, E[φ] = 0", ACT, "<phi>_s", sp.S.Zero, sp.S.One),
    Equation(
        "R42 (H.20)",
        ACT,
        "chi_J*",
        2 * w / sqrt(1 + 4 * s) / asin(2 * s / (1 + 2 * s)),
        2 * w / sqrt(1 + 2 * s) / asin(2 * s / (1 + 2 * s)),
    ),
    Equation("R43 (H.21)", SKIP, "K", w * square + b + mu**2 * K, w * square + b + mu * K),
    Equation("R43 (H.22)", SKIP, "chi_K", decay + mu**2, decay),
    Equation("R43 (H.23)", SKIP, "chi_J", w * slope + mu**2, w * slope + mu),
    Equation(  # E-2: one power of 1 - μ² too many
        "R43 (H.24)",
        SKIP,
        "line sigma_b^2",
        top_m / (4 * pi**2 * m**2) - 2 * w / pi * asin(top_m / bottom_m),
        top_m / (4 * pi**2 * m) - 2 * w / pi * asin(top_m / bottom_m),
        misprint=True,
    ),
    Equation("R43 (H.25), σ_w²", SKIP, "point 0 sigma_w^2", pi * m / 4, pi / 4),
    Is("R43, the only point", SKIP, "points", 1, 2),
    Equation("R44 (H.26)", ONE, "law K lead", s * l, w * l),
    Equation("R44 (28): c̃/√l", ONE, "chi_J - 1 at large l", rate, 2 * rate),
    Equation("R44 (H.28): 2c̃√l", ONE, "law J rate", 2 * rate, rate),
    Equation("R44 (H.28): √l", ONE, "law J rate_power", sp.S.Half, sp.S.One),
    Equation("R44 (29): 1/λ = 4c̃²", ONE, "1/lambda", 4 * rate**2, 1 / (4 * rate**2)),
    Equation("R44, O(log l)", ONE, "law J exponent", rate**2 * (1 / s - sp.S.Half), rate**2 / s),
    # "there is no explicit expression for c̃" of tanh: there is
    Equation("R44, tanh: c̃", TANH_ONE, "law J rate", 2 * rate_tanh, 2 * rate),
    Equation("R45 (H.30)", PRE_SKIP, "chi_J*", 4 * w * m / normal + mu**2, 4 * w / normal + mu**2),
    Equation("R45 (H.31)", PRE_SKIP, "line sigma_b^2", ray * w, m * ray * w),
    Rounds("R45 (H.31), 0.324", PRE_SKIP, "line sigma_b", "0.324", "0.323", at=((sigma_w, 1),)),
    Equation("R30, p of erf", PRE_ONE, "p", 4 * w / normal, 4 * w / (normal + pi * b)),
)
