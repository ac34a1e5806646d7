"""The acceptance values of section 8 of the specification as functions of a planted error, for `checks.Check`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.checks import root
from derivations.claims import network
from derivations.comparisons import ball, filled
from derivations.partial_jacobians import statements
from derivations.quantities import derived, prefactor
from meanfield.base.symbols import D0, J0, K, l, parameter, sigma_b, sigma_w

R = sp.Rational


def at_k(name: str, k: object) -> Callable[[sp.Rational], tuple[float, ...]]:
    """⟨φ²⟩, ⟨φ′²⟩, ⟨φ⟩, d⟨φ²⟩/dK and dχ_J/dK at σ_w = 1."""

    def compute(off):
        theory = mf.derive(name)
        a = theory.averages()
        parts = (a["phi^2"], a["phi'^2"], a["phi"], sp.diff(a["phi^2"], K), sp.diff(a["phi'^2"], K))
        return tuple(float(ball(sp.sympify(e).subs(K, R(str(k)) * (1 + off)))) for e in parts)

    return compute


def fixed(name: str, square_w: str, square_b: str, mu: str) -> Callable:
    """K*, χ_J, χ_K and ξ of the one fixed point."""

    def compute(off):
        theory = mf.derive(name, mu=mu)
        (p,) = [
            p for p in theory.fixed_points(sigma_w=root(square_w) * (1 + off), sigma_b=root(square_b)) if p.K.value != 0
        ]
        return float(p.K.value), float(p.chi_J.value), float(p.chi_K.value), p.xi

    return compute


def phase_at(name: str, square_w: str, square_b: str, norm: str, mu: str) -> Callable:
    def compute(off):
        theory = mf.derive(name, norm=norm, mu=mu)
        return (float(theory.phase(sigma_w=root(square_w) * (1 + off), sigma_b=root(square_b)).chi_J.value),)

    return compute


def gelu_states(off) -> tuple[float, ...]:
    """Every fixed point of K where the critical line has K* = 3, and χ_J at the last one."""
    line = mf.derive("gelu").critical_line()
    w, b = (p.value for p in line.at(3))
    found = mf.derive("gelu").fixed_points(sigma_w=w * (1 + off / 100), sigma_b=b)
    states = [float(p.K.value) for p in found]
    return tuple((states + [0.0] * 3)[:3])


def gelu_grows(off) -> tuple[float, ...]:
    """Where K from K¹ = σ_w² flows at σ_w² = 2.89, σ_b = 0, and where from K¹ = 0.01 σ_w²: ∞ and 0."""
    theory = mf.derive("gelu")
    high, low = (
        theory.phase(sigma_w=root("2.89"), sigma_b=0, input_norm=q).fixed_point for q in (1 - 99 * off, R(1, 100))
    )
    return (1.0 if high is None else 0.0, 0.0 if low is None else 1.0 - float(low.K.value))


def input_gradient(name: str, square_w: str, square_b: str, depth: int, **keywords) -> Callable:
    """J^{0,1} … J^{0,depth} with N_0 = 3, Q_0 = 1."""

    def compute(off):
        w, b = (float(root(v)) for v in (square_w, square_b))
        theory = mf.derive(name, **keywords)
        at = {"sigma_w": w * float(1 + off), "sigma_b": b, "depth": depth}
        return theory.propagate(**at, quantities=("J0",), input_dimension=3).J0

    return compute


def printed_input_gradient(off) -> list[float]:
    """(B.8) as it is printed, erf, σ_w² = 1, σ_b² = 0.1, N_0 = 3: the term of order 1/N_0 at layer 2 only."""
    theory = mf.derive("erf")
    values = {"sigma_w": 1 + off, "sigma_b": root("0.1"), "Q0": 1, "N0": 3}
    swap = {parameter(k): v for k, v in values.items()}
    r, chi = theory.input_jacobian, mf.symbolic.closed(theory.susceptibilities()["chi_J"])
    k = r.initial["K"].subs(swap)
    second = mf.symbolic.closed(r["J0"]).subs({D0: r.initial["D0"], J0: r.initial["J0"]}).subs(swap)
    out = [r.initial["J0"].subs(swap), second.subs(K, k)]
    for _ in range(3):
        k = sp.N(mf.symbolic.closed(r["K"]).subs(swap).subs(K, k), 30)
        out.append(out[-1] * chi.subs(swap).subs(K, k))
    return [float(v) for v in out]


def line_at(name: str, at: str = "1", **keywords) -> Callable:
    """σ_b of the critical line at one σ_w."""

    def compute(off):
        ((b, _),) = mf.derive(name, **keywords).critical_line().sigma_b_at(R(at) * (1 + off))
        return (float(sp.N(b.value, 20)),)

    return compute


def lines_at(name: str, places: str, **keywords) -> Callable:
    def compute(off):
        return [line_at(name, at, **keywords)(off)[0] for at in places.split()]

    return compute


def gelu_point(mu: str) -> Callable:
    """(σ_w, σ_b) of the second critical point; the planted error is in μ."""

    def compute(off):
        point = mf.derive("gelu", mu=R(mu) + off).critical_points()[1]
        return float(point.sigma_w.value), float(point.sigma_b.value)

    return compute


def exponents(off) -> tuple[float, ...]:
    """c_2 of GELU's second point, its ζ, c_2 at (2, 0), ζ of tanh, A for n = 3 and c = 0.7.

    Planted: b = 1 + off in GELU = z(1 + b erf(z/√2))/2, tanh z + off·tanh² z for tanh, and c.
    """
    bent = (f"gelu(z) + ({off})*z*erf(z/sqrt(2))/2", f"tanh(z) + ({off})*tanh(z)**2") if off else ("gelu", "tanh")
    gelu, tanh = (mf.derive(phi).critical_points() for phi in bent)
    c = sp.Symbol("c", positive=True)
    values = (s.value for s in (gelu[1].c_n, gelu[1].zeta, gelu[0].c_n, tanh[0].zeta) if s is not None)
    return (*(float(v) for v in values), float(prefactor(3).subs(c, R(7, 10) * (1 + off))))


def powers(off) -> list[float]:
    """p of J ~ l^p with LayerNorm on preactivations and μ = 1; the planted error is in σ_b."""
    places = (("erf", 2, 0), ("erf", 2, 1), ("gelu", 2, 0))
    out = []
    for name, w, b in places:
        law = mf.derive(name, norm="pre", mu=1).depth_law("J", sigma_w=sp.sqrt(w), sigma_b=sp.sqrt(b) + off)
        out.append(float(law.exponent or 0))
    return out


def gamma_form(off) -> tuple[float]:
    """log J at l = 10⁵: compiled product of χ_J minus Γ form (erf, σ_w² = 2, σ_b² = 1)."""
    theory = mf.derive("erf", norm="pre", mu=1)
    law = theory.depth_law("J", sigma_w=sp.sqrt(2), sigma_b=1).exact
    run = theory.propagate(sigma_w=2**0.5 * float(1 + off), sigma_b=1.0, depth=10**5, every_layer=False)
    log = sp.Add(*[power * sp.loggamma(gamma.args[0]) for gamma, power in _gammas(law)])
    return (float(run.log_J[-1] - float(sp.N(log.subs(l, 10**5), 25))),)


def _gammas(law: sp.Expr):
    return [(f.base, f.exp) if f.is_Pow else (f, 1) for f in sp.Mul.make_args(law)]


def everywhere(off) -> tuple[float, ...]:
    """χ_J of the last of 50 layers of GELU, LayerNorm, μ = 1, (σ_w, σ_b) = (½, 0); critical in the limit: 1, ξ: ∞."""
    theory = mf.derive("gelu", norm="pre", mu=1)
    run = theory.propagate(sigma_w=0.5, sigma_b=float(30 * off), depth=50)
    phases = [theory.phase(sigma_w=w, sigma_b=b).name for w, b in (("0.5", 0), (2, 3), ("0.1", 1))]
    return float(np.exp(run.log_J[-1] - run.log_J[-2])), float(all(p == "critical" for p in phases))


def subcritical(off) -> tuple[float, ...]:
    """c̃, λ and the coefficient of log l of erf at σ_w = 1, σ_b = 0, μ = 1; c̃ of tanh."""
    erf, tanh = (mf.derive(n, mu=1).depth_law("J", sigma_w=1 + off, sigma_b=0) for n in ("erf", "tanh"))
    return float(erf.rate / 2), float(1 / erf.rate**2), float(erf.exponent or 0), float(tanh.rate / 2)


def subcritical_run(off) -> tuple[float]:
    """log J - 2c̃√l after l = 4·10⁶ factors χ_J from K¹ = 1."""
    theory = mf.derive("erf", mu=1)
    run = theory.propagate(sigma_w=float(1 + off), sigma_b=0.0, depth=4 * 10**6 + 1, every_layer=False)
    return (float(run.log_J[-1] - 4 / np.pi * 2000),)


def theorem(off) -> tuple[float, ...]:
    """|log| of the printed bound, 1/ξ, and the corrected bound's |log| at ReLU μ = 0, erf μ = ½, both at σ_b = σ_w; ξ
    of GELU, μ = 0.9, σ_b² = σ_w²/10."""
    out = []
    for name, square_b, mu in (("relu", "1", "0"), ("erf", "1", "0.5"), ("gelu", "0.1", "0.9")):
        case = network(name, norm="pre", mu="mu")
        at = {sigma_w: 1 + off, sigma_b: root(square_b), parameter("mu"): R(mu)}
        printed = abs(float(ball(filled(statements.printed, case).subs(at))))
        exact = abs(float(ball(derived(case.theory, "log chi_J*").subs(at))))
        out += [printed, 1 / exact]
    return tuple(out)


ARCHITECTURES = {
    "plain": {},
    "LN-pre": {"norm": "pre"},
    "LN-act": {"norm": "act"},
    "residual": {"mu": "0.7"},
    "residual LN-pre": {"norm": "pre", "mu": "0.7"},
    "residual LN-pre, μ = 1": {"norm": "pre", "mu": 1},
}
KERNELS = {
    "plain": (5.1407, 6.0951, 7.4173),
    "LN-pre": (8.2839, 8.0306, 8.0076),
    "LN-act": (34.3873, 31.6274, 35.8322),
    "residual": (10.3417, 25.5420, 27.0844),
    "residual LN-pre": (10.0230, 10.4120, 10.6999),
    "residual LN-pre, μ = 1": (18.1914, 19.3967, 20.1111),
}


def kernel(label: str) -> Callable:
    """Θ⁵ of erf, GELU, ReLU at σ_w² = 1.7, σ_b² = 0.3, Q_0 = 1."""

    def compute(off):
        out = []
        for name in ("erf", "gelu", "relu"):
            theory = mf.derive(name, **ARCHITECTURES[label])
            run = theory.propagate(sigma_w=1.7**0.5 * float(1 + off), sigma_b=0.3**0.5, depth=5, quantities=("Theta",))
            out.append(float(run.Theta[-1]))
        return out

    return compute


def kernel_at_points(off) -> tuple[float, ...]:
    """Θ at l = 2·10⁵ at erf's critical point (→ ½), and Θ^l/(lK) at ReLU's."""
    w = (np.pi / 4) ** 0.5 * float(1 + off)
    erf = mf.derive("erf").propagate(sigma_w=w, sigma_b=0.0, depth=2 * 10**5, quantities=("Theta",), every_layer=False)
    relu = mf.derive("relu").propagate(
        sigma_w=2**0.5 * float(1 + off), sigma_b=0.0, depth=1000, quantities=("K", "Theta")
    )
    return float(erf.Theta[-1]), float(relu.Theta[-1] / relu.K[0] / 1000)


def slope_of(
    name: str, square_w: object, depth: int, fit_from: int, *, root_scale: bool = False, **keywords
) -> Callable:
    """The fitted slope of log J^{0,l} against log l (or √l) over fit_from < l ≤ depth, Q_0 = 1, σ_b = 0."""

    def compute(off):
        w = float(sp.sqrt(sp.sympify(square_w))) * float(1 + off)
        run = mf.derive(name, **keywords).propagate(sigma_w=w, sigma_b=float(10 * off), depth=depth)
        keep = run.l > fit_from
        x = np.sqrt(run.l[keep]) if root_scale else np.log(run.l[keep])
        return (float(np.polyfit(x, run.log_J[keep], 1)[0]),)

    return compute


def flat(off) -> list[float]:
    """The largest |log χ_J| after layer 2 on the lines of erf with LayerNorm, at σ_w = 1."""
    out = []
    for norm in ("pre", "act"):
        theory = mf.derive("erf", norm=norm)
        ((b, _),) = theory.critical_line().sigma_b_at(1)
        run = theory.propagate(sigma_w=float(1 + off), sigma_b=float(sp.N(b.value, 20)), depth=250)
        out.append(float(np.abs(np.diff(run.log_J[1:])).max()))
    return out


def last_block(off) -> tuple[float, float]:
    """Proposition 2.6: J^{L-2,L-1} of erf, σ_w² = 1.7, σ_b² = 0.3, L = 50, is χ_J*; 1/|log| of it is ξ (19)."""
    run = mf.derive("erf").propagate(sigma_w=1.7**0.5 * float(1 + off), sigma_b=0.3**0.5, depth=49)
    step = float(run.log_J[-1] - run.log_J[-2])
    return float(np.exp(step)), 1 / abs(step)


WIDTHS = ("0.5", "1", "1.5", "2", "3", "4", "5")


def lengths(name: str) -> Callable:
    """28 ξ with LayerNorm on preactivations at σ_b² = ½ and the σ_w² of `WIDTHS`."""

    def compute(off):
        theory = mf.derive(name, norm="pre")
        return [28 * theory.phase(sigma_w=root(w) * (1 + off), sigma_b=root("0.5")).xi for w in WIDTHS]

    return compute
