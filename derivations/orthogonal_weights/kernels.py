"""Kernels, susceptibilities and criticality (4.1)-(4.8), and the expansions of tanh (4.20)-(4.23)."""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

import meanfield as mf
from derivations.claims import Verdict, network
from derivations.comparisons import Equation, Formula
from derivations.orthogonal_weights.kinds import PerNetwork, Says, of_law, power
from derivations.placeholders import slope, square
from meanfield.base.symbols import K, l, sigma_b, sigma_w, z

w, b = sigma_w**2, sigma_b**2
ANY = of_law("orthogonal", "tanh", "relu", "gelu", "sin", "elu")
TANH = network("tanh", weights="orthogonal")
EXPANDED = 5  # powers of K
fourth, squared = (lambda theory, p=p: power(theory, *[0] * p) for p in (4, 2))


def parallel(theory: mf.Theory) -> sp.Expr:
    """(4.4) as printed."""
    f = theory.activations[0].expression
    return w / (2 * K**2) * mf.average(f**2 * (z**2 - K), K)


def parallel_wrong(theory: mf.Theory) -> sp.Expr:
    f = theory.activations[0].expression
    return w / K**2 * mf.average(f**2 * (z**2 - K), K)


def series(e: sp.Expr, order: int = EXPANDED) -> sp.Expr:
    """An average, or a polynomial in averages, up to K^order."""
    nodes = {
        node: sum(t.expr(K) for t in mf.symbolic.at_zero(node, order).terms) for node in e.atoms(mf.symbolic.Average)
    }
    return sp.series(sp.expand(e.xreplace(nodes)), K, 0, order + 1).removeO()


def upto(order: int, of: Callable[[mf.Theory], sp.Expr]) -> Callable[[mf.Theory], sp.Expr]:
    """The series of `of` up to K^order."""
    return lambda theory: sum(series(of(theory)).coeff(K, i) * K**i for i in range(order + 1))


def chi(name: str) -> Callable[[mf.Theory], sp.Expr]:
    return lambda theory: theory.susceptibilities()[name].subs(sigma_w, 1)


def critical_w(theory: mf.Theory) -> sp.Expr:
    """σ_w² of criticality, σ_b = 0."""
    return sp.expand(mf.symbolic.closed(theory.critical_line().sigma_w ** 2))


def share(theory: mf.Theory) -> sp.Expr:
    """A of ⟨σ²⟩ = A K."""
    return sp.cancel(mf.symbolic.closed(squared(theory)) / K)


def smooth_edge(theory: mf.Theory) -> tuple[str, sp.Expr]:
    """(the phase, K*) at σ_w = 1/|σ′(0)|, σ_b = 0."""
    first = theory.activations[0].expression.diff(z).subs(z, 0)
    found = theory.phase(sigma_w=1 / abs(first), sigma_b=0)
    return found.name, found.fixed_point.K.value


def kernel_term(theory: mf.Theory) -> sp.Expr:
    """The second term of K at large depth."""
    return theory.depth_law("K", sigma_w=1, sigma_b=0).law.terms[1].expr(l)


KERNELS = (
    Equation("(4.3)", ANY, "K", w * square + b, w * square),
    *(
        Equation(f"(4.3), {law}", of_law(law, "tanh", "relu"), "K", w * square + b, w * square + 2 * b)
        for law in ("gaussian", "mixed")
    ),
    PerNetwork("(4.4)", of_law("orthogonal", "tanh", "relu", "gelu", "sin"), "chi_par", parallel, parallel_wrong,
               by=lambda theory: theory.susceptibilities()["chi_K"]),
    Equation("(4.5)", ANY, "chi_J", w * slope, w * square),
    Formula("(4.7), A of linear", network("linear", weights="orthogonal"), "A", sp.S.One, sp.S.Half, by=share),
    Formula("(4.7), A of ReLU", network("relu", weights="orthogonal"), "A", sp.S.Half, sp.S.One, by=share),
    PerNetwork("(4.7)", of_law("orthogonal", "linear", "relu", "leaky_relu", "abs"), "critical C_W",
               lambda theory: 1 / share(theory), lambda theory: 1 / (1 + share(theory)), by=critical_w),
    Says("(4.8)", of_law("orthogonal", "tanh", "sin", "erf", "atan(z)", "sinh(tanh(2*z))"), "critical C_W, K*",
         ("critical", sp.S.Zero), ("critical", sp.S.One), by=smooth_edge, how=Verdict.CERTIFIED),
)  # fmt: skip
EXPANSIONS = (
    Formula("(4.20)", TANH, "<sigma^4>", 3 * K**2 - 20 * K**3, 3 * K**2 - 12 * K**3, by=upto(3, fourth)),
    Formula("(4.20), next", TANH, "<sigma^4>", 3 * K**2 - 20 * K**3 + 126 * K**4, 3 * K**2 - 20 * K**3 + 125 * K**4,
            by=upto(4, fourth)),
    Formula("(4.21)", TANH, "<sigma^2>^2", K**2 - 4 * K**3, K**2 - 2 * K**3, by=upto(3, lambda t: squared(t) ** 2)),
    Formula("(4.22)", TANH, "chi_par", 1 - 4 * K + 17 * K**2, 1 - 2 * K + 17 * K**2, by=upto(2, chi("chi_K"))),
    Formula("§ 8, 9: chi_perp", TANH, "chi_perp", 1 - 2 * K + 7 * K**2 - sp.Rational(94, 3) * K**3,
            1 - 2 * K + 7 * K**2 - sp.Rational(95, 3) * K**3, by=upto(3, chi("chi_J"))),
    # E8: printed as 1/(2 l) + O(1/l²)
    Formula("E8 § 4.3: K at large depth, second term", TANH, "K", sp.Rational(5, 24) / l**2,
            sp.Rational(5, 24) * sp.log(l) / l**2, True, by=kernel_term),
)  # fmt: skip
CLAIMS = KERNELS + EXPANSIONS
