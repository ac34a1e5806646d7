"""Appendix G: φ = a₊ z for z > 0 and a₋ z for z < 0, with symbolic slopes; ReLU for the printed decimals."""

from __future__ import annotations

import sympy as sp

from derivations.claims import network
from derivations.comparisons import Equation, Is, Rounds
from derivations.placeholders import mu
from meanfield.base.symbols import K, parameter, sigma_b, sigma_w

w, b, pi = sigma_w**2, sigma_b**2, sp.pi
a_p, a_m = parameter("a_plus"), parameter("a_minus")
sum_of_squares, difference = a_p**2 + a_m**2, a_p - a_m
half = sum_of_squares / 2
m = 1 - mu**2


def phi(**keywords):
    return network("scale_invariant", a_plus="a_plus", a_minus="a_minus", **keywords)


LEAKY, PRE, ACT, SKIP = phi(), phi(norm="pre"), phi(norm="act"), phi(mu="mu")
PRE_SKIP, PRE_ONE = phi(norm="pre", mu="mu"), phi(norm="pre", mu=1)
RELU = network("relu")
s = w + b
chi_act = pi * sum_of_squares / (pi * sum_of_squares - difference**2)
slope_act = difference**2 / (pi * sum_of_squares - difference**2)

CLAIMS = (
    Equation("R32 (G.2)", LEAKY, "<phi^2>", half * K, half * K**2),
    # E-15: the full-line integral of (a₊² + a₋²) h² has twice the value
    Equation("R32 (G.2), first line", LEAKY, "<phi^2>", sum_of_squares * K, half * K, misprint=True),
    Equation("R32 (G.3)", LEAKY, "K", w * half * K + b, w * K + b),
    Equation("R32 (G.4)", LEAKY, "chi_K", w * half, w * sum_of_squares),
    Equation("R32 (G.6)", LEAKY, "chi_J", w * half, w * half + mu**2),
    # E-15: a₊Θ(h) - a₋Θ(h) squared; the second Θ is Θ(-h) and the sign +
    Equation("R32 (G.6), second line", LEAKY, "chi_J", w * difference**2 / 2, w * half, misprint=True),
    Equation("R32 (G.5), (G.7)", LEAKY, "line sigma_w^2", 2 / sum_of_squares, 1 / sum_of_squares),
    Is("R32 (G.7), any σ_b", LEAKY, "line kind", "vertical", "ray"),
    Equation("R32 (G.8)", RELU, "line sigma_w", sp.sqrt(2), sp.S.One),
    Equation("R32 (G.9), σ_w", RELU, "point 0 sigma_w", sp.sqrt(2), sp.S(2)),
    Equation("R32 (G.9), σ_b", RELU, "point 0 sigma_b", sp.S.Zero, sp.S.One),
    Equation("R32 (G.10), ζ_K", RELU, "point 0 zeta_K", sp.S.Zero, sp.S.One),
    Equation("R32 (G.10), ζ", RELU, "point 0 zeta", sp.S.Zero, sp.S.One),
    Equation("R6, footnote 2: K on the line", RELU, "K on the line", K + b, K),
    Equation(
        "R33 (G.11)", PRE, "chi_J*", w * sum_of_squares / (w * sum_of_squares + 2 * b), w * half / (w * half + 2 * b)
    ),
    Equation("R33 (G.12), line", PRE, "line sigma_b", sp.S.Zero, sigma_w),
    Equation("R33 (G.12), 1 - χ_J ≥ 0", PRE, "chi_J*", 1 - 2 * b / (w * sum_of_squares + 2 * b), sp.S.One),
    Equation("R34 (G.13)", ACT, "<phi'^2>_s", half, sum_of_squares),
    Equation("R34 (G.14)", ACT, "<phi^2>_s", half * s, half * w),
    Equation("R34 (G.15)", ACT, "<phi>_s", difference * sp.sqrt(s / (2 * pi)), difference * sp.sqrt(s / pi)),
    Equation("R34 (G.16)", ACT, "chi_J*", w / s * chi_act, w / s),
    Equation("R34 (G.17)", ACT, "line sigma_b^2", slope_act * w, w * difference**2 / (pi * sum_of_squares)),
    Equation("R34 (G.18)", network("relu", norm="act"), "line sigma_b^2", w / (pi - 1), w / pi),
    Rounds("R34 (G.18), 0.683", network("relu", norm="act"), "line sigma_b", "0.683", "0.684", at=((sigma_w, 1),)),
    Equation("R35 (G.19)", SKIP, "K", (w * half + mu**2) * K + b, mu * K),
    Equation("R35 (G.20)", SKIP, "chi_K", w * half + mu**2, w * half),
    Equation("R35 (G.22)", SKIP, "chi_J", w * half + mu**2, w * half + mu),
    Equation("R35 (G.21), (G.23)", SKIP, "line sigma_w^2", 2 * m / sum_of_squares, 2 * m**2 / sum_of_squares),
    Equation("R35, ReLU", network("relu", mu="mu"), "chi_J", w / 2 + mu**2, w + mu**2),
    Equation("R35, ReLU point", network("relu", mu="mu"), "point 0 sigma_w^2", 2 * m, sp.S(2)),
    Equation("R35, K diverges linearly", network("relu", mu="mu"), "K on the line", K + b, K),
    Equation("R36 (G.24)", PRE_SKIP, "chi_J*", w * sum_of_squares * m / (w * sum_of_squares + 2 * b) + mu**2, mu**2),
    Equation(
        "R36 (G.24), last line", PRE_SKIP, "chi_J*", 1 - 2 * b * m / (w * sum_of_squares + 2 * b), 1 - 2 * b * m / w
    ),
    Equation("R36 (G.25), line", PRE_SKIP, "line sigma_b", sp.S.Zero, sigma_w),
    Is("R36, μ = 1", PRE_ONE, "line kind", "everywhere", "ray"),
    Equation("R55, He: χ_J = 1 at (√2, 0)", network("relu", norm="pre"), "chi_J* at sigma_b = 0", sp.S.One, sp.S(2)),
)
