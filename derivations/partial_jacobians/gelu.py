"""Appendix I: GELU."""

from __future__ import annotations

import sympy as sp

from derivations.claims import network
from derivations.comparisons import Equation, Is, Rounds
from derivations.placeholders import mu
from meanfield.base.symbols import K, sigma_b, sigma_w

w, b, pi, sqrt, asin, R = sigma_w**2, sigma_b**2, sp.pi, sp.sqrt, sp.asin, sp.Rational
m = 1 - mu**2
s = w + b
GELU, PRE, ACT = network("gelu"), network("gelu", norm="pre"), network("gelu", norm="act")
SKIP, PRE_SKIP, PRE_ONE = (
    network("gelu", mu="mu"),
    network("gelu", norm="pre", mu="mu"),
    network("gelu", norm="pre", mu=1),
)

angle = asin(K / (1 + K))
square = K / 4 + K / (2 * pi) * (angle + 2 * K / ((1 + K) * sqrt(1 + 2 * K)))  # (I.2)
slope = R(1, 4) + (angle + K * (3 + 5 * K) / ((1 + K) * (1 + 2 * K) ** R(3, 2))) / (2 * pi)  # (I.5)
curve = R(1, 4) + (angle + (4 * K**3 + 11 * K**2 + 5 * K) / ((1 + K) ** 2 * (1 + 2 * K) ** R(3, 2))) / (2 * pi)
width = 4 / (1 + 2 * K * (3 + 5 * K) / (pi * (1 + K) * (1 + 2 * K) ** R(3, 2)) + 2 / pi * angle)  # (I.8) squared
bias = K**2 / (2 * pi * (1 + 2 * K) ** R(3, 2))  # (I.9): σ_b²/σ_w²
misprinted = (  # (I.6): σ_w² K where 2K belongs
    w * K / 4 + w / (2 * pi) * (angle + w * K / (pi * (1 + K) * sqrt(1 + 2 * K))) * K + b
)
gap = (K**3 - 3 * K**2 - 2 * K) / (2 * pi * (1 + K) ** 2 * (1 + 2 * K) ** R(3, 2))  # (I.10)
star = (3 + sqrt(17)) / 2
bend = (-(K**3) + 9 * K**2 + 12 * K + 4) / (2 * pi * (1 + K) ** 2 * (1 + 2 * K) ** R(5, 2))
root3 = sqrt(3)
below = w * (6 * pi + 3 * root3) + 18 * pi * b
top_act = w * (1 + s) * (pi + 2 * asin(s / (1 + s)) + 2 * s * (3 + 5 * s) / ((1 + s) * (1 + 2 * s) ** R(3, 2)))
bottom_act = pi * s * (1 + s) - 2 * s**2 + 4 * s**2 / sqrt(1 + 2 * s) + 2 * s * (1 + s) * asin(s / (1 + s))
zeta = 2 * (1 + K) * (K**3 - 9 * K**2 - 12 * K - 4) / (5 * K**3 - 11 * K**2 - 18 * K - 6)

PLAIN = (
    Equation("R46 (I.2)", GELU, "<phi^2>", square, square - K / 4),
    Equation("R46 (I.3)", GELU, "K", w * square + b, w * square),
    Equation("R47 (I.4)", GELU, "chi_K", w * curve, w * slope),
    Equation("R47 (I.5)", GELU, "chi_J", w * slope, w * slope.subs(5 * K + 3, 4 * K + 3)),
    Equation("R47 (I.23)", GELU, "<phi>", K / sqrt(2 * pi * (1 + K)), K / sqrt(2 * pi * (1 + 2 * K))),
    Equation("R47, χ_Δ", GELU, "chi_Delta", w * bend, w * (bend + K)),
    Equation("R48 (I.6)", GELU, "K", misprinted, w * square + b, misprint=True),  # E-9
    Equation("R48 (I.8)", GELU, "line sigma_w^2(K)", width, width / 4),
    Equation("R48 (I.9)", GELU, "line sigma_b^2(K)", bias * width, 2 * bias * width),
    Equation("R49 (I.10)", GELU, "chi_J - chi_K", w * gap, w * gap.subs(K**3, 2 * K**3)),
    Is("R49 (I.11), two solutions", GELU, "points", 2, 3),
    Equation("R49 (I.11), K* = 0", GELU, "point 0 K", sp.S.Zero, sp.S.One),
    Equation("R49 (I.11), K*", GELU, "point 1 K", star, (3 + sqrt(13)) / 2),
    Equation("R49 (I.12), σ_w", GELU, "point 0 sigma_w", sp.S(2), sqrt(2)),
    Equation("R49 (I.12), σ_b", GELU, "point 0 sigma_b", sp.S.Zero, sp.S.One),
    Rounds("R49 (I.13), σ_w", GELU, "point 1 sigma_w", "1.408", "1.409"),
    Rounds("R49 (I.13), σ_b", GELU, "point 1 sigma_b", "0.416", "0.415"),
    # E-5: the fixed point of the line's branch 0 < K* < 3.56 is unstable
    Rounds("R48, χ_K on the line at K* = ½", GELU, "line chi_K(K)", "1.0997900083", "0.9", at=((K, R(1, 2)),)),
)
EXPONENTS = (
    Equation("R50 (I.14)", GELU, "point 0 c_n", -6 / pi, 6 / pi),
    Is("R50 (I.15): no power law", GELU, "point 0 kind", "repelling", "power law"),
    # E-10: sign, and two digits of 1.436e-4
    Rounds("R50 (I.16), -c_2", GELU, "-c_2 at point 1", "0.00014", "-0.000143626418732", misprint=True),
    Rounds("R50 (I.17), A", GELU, "point 1 A", "-7142.9", "6962.50738", misprint=True),
    Rounds("R50 (I.18), -d_1/c_2", GELU, "l (chi_J - 1) at point 1", "-66.668", "64.98484500", misprint=True),
    Rounds("R50 (I.20), ζ", GELU, "point 1 zeta", "66.668", "-64.9848450049", misprint=True),
    Equation("R50, ζ exactly", GELU, "point 1 zeta", -(32 + 8 * sqrt(17)), 32 + 8 * sqrt(17)),
    Equation("R50, d_1/c_2 along the line", GELU, "d_1/c_2(K)", zeta, zeta + K),
    Is("R50, half-stable", GELU, "point 1 kind", "half-stable", "power law"),
    Is("R50, side", GELU, "point 1 side", "attracts from above, repels below", "attracts from below, repels above"),
)
NORMALIZED = (
    Equation("R51 (I.21)", PRE, "chi_J*", w * (6 * pi + 4 * root3) / below, w * (6 * pi + 3 * root3) / below),
    Equation("R51 (I.22)", PRE, "line sigma_b^2", w / (6 * root3 * pi), w / (6 * pi)),
    Rounds("R51 (I.22), 0.175", PRE, "line sigma_b", "0.175", "0.176", at=((sigma_w, 1),)),
    Equation("R52 (I.23)", ACT, "<phi>_s", s / sqrt(2 * pi * (1 + s)), s / sqrt(2 * pi)),
    Equation("R52 (I.24)", ACT, "<phi'^2>_s", slope.subs(K, s), square.subs(K, s)),
    Equation("R52 (I.25)", ACT, "<phi^2>_s", square.subs(K, s), slope.subs(K, s)),
    Equation("R52 (I.26)", ACT, "chi_J*", top_act / bottom_act, top_act / (bottom_act + s)),
)
SKIPS = (
    Equation("R53 (I.27)", SKIP, "K", w * square + b + mu**2 * K, w * square + b + mu * K),
    Equation("R53 (I.28)", SKIP, "chi_K", w * curve + mu**2, w * curve),
    Equation("R53 (I.29)", SKIP, "chi_J", w * slope + mu**2, w * slope + mu),
    Equation("R53 (I.30)", SKIP, "line sigma_w^2(K)", m * width, m**2 * width),
    Equation("R53 (I.31)", SKIP, "line sigma_b^2(K)", m * width * bias, width * bias),
    Equation("R53 (I.32)", SKIP, "chi_J - chi_K", w * gap, m * w * gap),
    Equation("R53 (I.33)", SKIP, "point 1 K", star, m * star),
    Equation("R53 (I.34)", SKIP, "point 0 sigma_w^2", 4 * m, sp.S(4)),
    Equation("R53 (I.35), σ_w", SKIP, "point 1 sigma_w^2", (m * width).subs(K, star), (m**2 * width).subs(K, star)),
    Rounds("R53 (I.35), σ_b at μ = ½", SKIP, "point 1 sigma_b", "0.360", "0.416", at=((mu, R(1, 2)),)),
    Equation("R54 (I.36)", PRE_SKIP, "chi_J*", w * (6 * pi + 4 * root3) * m / below + mu**2, mu**2),
    Equation(  # E-8: the sign of the fraction
        "R54 (I.36), last line",
        PRE_SKIP,
        "chi_J*",
        1 - (root3 * w - 18 * pi * b) * m / below,
        1 + (root3 * w - 18 * pi * b) * m / below,
        misprint=True,
    ),
    Equation("R54 (I.37)", PRE_SKIP, "line sigma_b^2", w / (6 * root3 * pi), m * w / (6 * root3 * pi)),
    Rounds("R54 (I.37), 0.175", PRE_SKIP, "line sigma_b", "0.175", "0.176", at=((sigma_w, 1),)),
    Equation("R30, p of GELU", PRE_ONE, "p", w * (6 * pi + 4 * root3) / below, w * 6 * pi / below),
)

CLAIMS = PLAIN + EXPONENTS + NORMALIZED + SKIPS
