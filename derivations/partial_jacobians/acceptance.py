"""The table of acceptance values: lines 1-15, 17, 19-21 of section 8 of the specification, and E-5."""

from __future__ import annotations

import sympy as sp

import meanfield as mf
from derivations.checks import Check
from derivations.comparisons import ball
from derivations.partial_jacobians import numbers as n
from derivations.quantities import LAMBDA, derived
from meanfield.base.symbols import K

AVERAGES = {
    ("erf", "0.5"): (0.333333333333, 0.735105193896, 0, 0.367552596948, -0.490070129264),
    ("erf", "1"): (0.464559054398, 0.569410034734, 0, 0.189803344911, -0.227764013893),
    ("erf", "2"): (0.590334470602, 0.424413181578, 0, 0.084882636316, -0.094314040351),
    ("relu", "1"): (0.5, 0.5, 0.398942280401, 0.5, 0),
    ("gelu", "0.5"): (0.189556541832, 0.407247968544, 0.162867503968, 0.447887246704, 0.151615768520),
    ("gelu", "1"): (0.425221482570, 0.455850865649, 0.282094791774, 0.486480248728, 0.061258766158),
    ("gelu", "2"): (0.922082872110, 0.489511937792, 0.460658865962, 0.502165494119, 0.017714978858),
}
FIXED = {
    ("erf", "1.7", "0.3", "0"): (1.1286008301, 0.9217428480, 0.2829861164, 12.27159478),
    ("erf", "1", "0", "0"): (0.1419237653, 1.0169025200, 0.7920742111, 59.66137914),
    ("erf", "0.5", "0.2", "0"): (0.3302051141, 0.4178874716, 0.2516772449, 1.14607520),
    ("gelu", "1.5", "0.3", "0"): (0.7763874283, 0.6590384108, 0.7127024598, 2.39823417),
    ("relu", "1.5", "0.3", "0"): (1.2, 0.75, 0.75, 3.47605950),
    ("erf", "1.2", "0.3", "0.5"): (1.1976532281, 0.8849347512, 0.4370036650, 8.18053698),
    ("gelu", "1", "0.3", "0.5"): (0.9066529924, 0.6996925366, 0.7324814883, 2.80022411),
}
PLACES = "0.1 0.5 1 1.5 2 3"
LINES = {  # LayerNorm on activations
    "erf": (0.0011323614, 0.1035527235, 0.5405256637, 1.3156155605, 2.4185101268, 5.5912309131),
    "gelu": (0.0111705259, 0.2208901660, 0.5883992074, 0.9622203480, 1.3302613093, 2.0491580280),
    "relu": (0.0683331696, 0.3416658481, 0.6833316961, 1.0249975442, 1.3666633922, 2.0499950884),
}
LENGTHS = {
    "relu": (25.5, 40.4, 54.8, 69.1, 97.3, 125.5, 153.6),
    "erf": (29.6, 53.1, 83.0, 123.3, 271.7, 805.2, 3272.6),
    "gelu": (24.6, 39.6, 55.0, 71.3, 107.2, 148.8, 197.7),
}
SLOPES = (  # figure 1: (label, recursion's slope, computation)
    ("erf", -1.0045, n.slope_of("erf", sp.pi / 4, 250, 100)),
    ("ReLU", 0.0, n.slope_of("relu", 2, 100, 0)),
    ("LN-erf, μ = 1", 1.2161, n.slope_of("erf", 2, 250, 100, norm="pre", mu=1)),
    ("LN-GELU, μ = 1", 1.0628, n.slope_of("gelu", 2, 250, 100, norm="pre", mu=1)),
)


def _erf_pair(off) -> tuple[float]:
    e = derived(mf.derive("erf"), "<erf(l1 z) erf(l2 z)>")
    at = dict(zip(LAMBDA, (n.R(4, 5) * (1 + off), n.R(19, 10)))) | {K: n.R(3, 5)}
    return (float(ball(e.subs(at))),)


def _flag(off) -> tuple[float]:
    """χ_K on GELU's critical line at K* = ½: above 1, so this part of the line holds unstable fixed points."""
    return (float(ball(derived(mf.derive("gelu"), "line chi_K(K)").subs(K, n.R(1, 2) * (1 + off)))),)


def _separatrix(off) -> tuple[float]:
    """E-5: the σ_w at which GELU's K¹ = σ_w² is the unstable fixed point at σ_b = 0: ⟨φ²⟩_K = 1 at K = σ_w²."""
    square = derived(mf.derive("gelu"), "<phi^2>")
    return (float(sp.sqrt(sp.nsolve(square - 1 - off, K, 2.1, prec=30))),)


def _beyond_the_point(off) -> tuple[float, ...]:
    """E-5: where K¹ = σ_w² + σ_b² goes at GELU's critical point (30 digits): K, χ_J, ξ. Not to K* = 3.56."""
    theory = mf.derive("gelu")
    point = theory.critical_points()[1]
    w, b = (sp.Rational(str(sp.N(v.value, 30))) for v in (point.sigma_w, point.sigma_b))
    phase = theory.phase(sigma_w=w * (1 + off), sigma_b=b)
    here = phase.fixed_point
    return (float(here.K.value), float(phase.chi_J.value), phase.xi) if here else (0.0, 0.0, 0.0)


CHECKS: tuple[Check, ...] = (
    *(Check("1", f"averages of {f} at K = {k}", v, 1e-10, n.at_k(f, k)) for (f, k), v in AVERAGES.items()),
    Check(
        "1", "averages of tanh at K = 1", (0.394294490398, 0.464402902448), 1e-10, lambda o: n.at_k("tanh", 1)(o)[:2]
    ),
    Check("2", "two scales of erf", (0.404960682802,), 1e-10, _erf_pair),
    *(Check("4", f"fixed point {', '.join(k)}", v, 1e-8, n.fixed(*k)) for k, v in FIXED.items()),
    Check("4", "GELU, three states where the line has K* = 3", (1.128521, 3, 52.891031), 1e-5, n.gelu_states),
    Check("4", "GELU, K → ∞ and K → 0 at σ_w² = 2.89", (1, 1), 1e-9, n.gelu_grows),
    Check("5", "χ_J, erf", (0.9217428480,), 1e-9, n.phase_at("erf", "1.7", "0.3", "none", "0")),
    Check("5", "χ_J, ReLU, LN, μ = ½", (0.625,), 1e-9, n.phase_at("relu", "2", "1", "pre", "0.5")),
    Check("5", "χ_J, erf, LN, μ = ½", (0.6927489681,), 1e-9, n.phase_at("erf", "2", "1", "pre", "0.5")),
    Check("5", "χ_J, GELU, LN, μ = ½", (0.6195203318,), 1e-9, n.phase_at("gelu", "2", "1", "pre", "0.5")),
    Check(
        "6",
        "J^{0,l}, erf, N_0 = 3",
        (1, 0.41262739, 0.27969919, 0.20998540, 0.16328079),
        1e-7,
        n.input_gradient("erf", "1", "0.1", 5),
    ),
    Check(
        "6",
        "J^{0,l}, erf, (B.8) as printed",
        (1, 0.41262739, 0.28788843, 0.21724084, 0.16911054),
        1e-7,
        n.printed_input_gradient,
    ),
    Check(
        "6",
        "J^{0,l}, GELU, LN, μ = 0.8, N_0 = 3",
        (2, 1.8726, 1.848, 1.8444),
        1e-4,
        n.input_gradient("gelu", "2", "0.1", 4, norm="pre", mu="0.8"),
    ),
    Check("7", "line of erf at σ_w = 1.3", (0.3919657758,), 1e-9, n.line_at("erf", "1.3")),
    Check("7", "line of erf, μ = ½", (0.1751023489,), 1e-9, n.line_at("erf", mu="0.5")),
    Check("7", "line of erf, LN", (0.3238070109,), 1e-9, n.line_at("erf", norm="pre")),
    Check("7", "line of GELU, LN", (0.1750125226,), 1e-9, n.line_at("gelu", norm="pre")),
    Check("7", "line of ReLU, LN on activations", (0.6833316961,), 1e-9, n.line_at("relu", norm="act")),
    Check("7", "line of leaky ReLU (0.1)", (0.5854770288,), 1e-9, n.line_at("leaky_relu(0.1)", norm="act")),
    *(
        Check("8", f"line of {f}, LN on activations", v, 1e-9, n.lines_at(f, PLACES, norm="act"), absolute=True)
        for f, v in LINES.items()
    ),
    Check("9", "GELU's critical point", (1.408211013108, 0.415839380959), 1e-10, n.gelu_point("0")),
    Check("9", "GELU's critical point, μ = ½", (1.219546511240, 0.360127467804), 1e-10, n.gelu_point("0.5")),
    Check("9", "χ_K on GELU's line at K* = ½", (1.0997900083,), 1e-10, _flag),
    Check(
        "10",
        "exponents",
        (1.43626418732e-4, -64.9848450049, -1.909859317103, 1, 0.8451542547),
        1e-9,
        n.exponents,
    ),
    Check("11", "p of J ~ l^p", (1.2257000038, 0.5903319575, 1.0720315984), 1e-9, n.powers),
    Check("11", "Γ form of log J at l = 10⁵", (0.0,), 1e-9, n.gamma_form, absolute=True),
    Check("12", "everywhere critical; χ_J at L = 50", (1.0213, 1), 5e-4, n.everywhere, absolute=True),
    Check("13", "c̃, λ, log, c̃ of tanh", (0.6366197724, 0.6168502751, 0.2026423673, 0.5319230405), 1e-9, n.subcritical),
    Check("13", "log J - 2c̃√l at l = 4·10⁶", (1.60130,), 1e-4, n.subcritical_run),
    Check("14", "Theorem 1.3: |log bound|, ξ", (0, 0.910239, 1 / 6.39, 1.63, 1 / 73.6, 39.4), 3e-3, n.theorem),
    *(Check("15", f"Θ⁵, {k}", v, 1e-4, n.kernel(k)) for k, v in n.KERNELS.items()),
    Check("15", "Θ at the critical points", (0.5, 1.0), 1e-4, n.kernel_at_points),
    *(Check("17", f"figure 1, slope of {k}", (v,), 1e-4, f, absolute=True) for k, v, f in SLOPES),
    Check(
        "19", "figure 5, slope", (1.3105,), 1e-4, n.slope_of("erf", 1, 250, 100, root_scale=True, mu=1), absolute=True
    ),
    Check("20", "figure 7, |log χ_J| from layer 2 on", (0, 0), 1e-12, n.flat, absolute=True),
    *(Check("21", f"figure 8, 28 ξ of {k}", v, 0.1, n.lengths(k), absolute=True) for k, v in LENGTHS.items()),
    Check("R8", "J^{L-2,L-1} at L = 50, and its ξ (19)", (0.9217428480, 12.27159478), 1e-9, n.last_block),
    Check("E-5", "GELU's separatrix at σ_b = 0", (1.46801,), 1e-5, _separatrix),
    Check("E-5", "where K¹ goes at GELU's critical point", (3.034981, 0.993978, 165.6), 5e-4, _beyond_the_point),
)
