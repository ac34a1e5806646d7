"""Theorems C.2 and C.3 (R1 … R12): the recursions of a block, of one and two inputs, forward and backward; Lemma D.1.

The engine's block l + 1 is the paper's layer l. Averages over N(0, q) are the placeholders of `placeholders`, at K = q.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp

import meanfield as mf
from derivations.claims import network
from derivations.comparisons import Floats, Formula
from derivations.placeholders import c as cosine
from derivations.placeholders import pair, slope, square
from derivations.variance_variation.regions import full
from meanfield.base.symbols import K, K_ab, l, parameter

NETWORKS = tuple(full(phi) for phi in ("relu", "erf", "gelu"))
p, gamma, lam, e, X = sp.symbols("p gamma_x lambda e X", positive=True)
N, N_before, M, pi2 = sp.symbols("N N_- M sigma_pi^2", positive=True)
bv, bw, ba, bb = (parameter(f"beta_{k}") for k in "vwab")
sv, sw, sa, sb = (parameter(f"sigma_{k}") for k in "vwab")
v, w, a, b = (s**2 * l**-beta for s, beta in ((sv, bv), (sw, bw), (sa, ba), (sb, bb)))
inner = w * p + b


def step(name: str) -> Callable[[mf.Theory], sp.Expr]:
    """The engine's next value, or factor of a gradient, with q in the place of K and p in that of the state."""

    def derive(theory: mf.Theory) -> sp.Expr:
        found = theory.gradients
        ((q, formula),) = found.block.definitions
        e = formula if name == "q" else dict(zip(found.names, found.block.next))[name]
        e = e.subs(parameter("J"), 1) if name == "J" else e
        return e.subs(K, p).subs(q, K).subs(l, l + 1)

    return derive


def of_pair(name: str) -> Callable[[mf.Theory], sp.Expr]:
    """λ, q and γ of the next layer at (p, γ)."""

    def derive(theory: mf.Theory) -> sp.Expr:
        after = theory.equal_norms["K_ab"]
        (node,) = after.atoms(mf.symbolic.Average)
        known = {"lambda": node.covariance(0, 1), "q": node.covariance(0, 0)}
        if name in known:
            return known[name].subs({K: p, K_ab: gamma}).subs(l, l + 1)
        inside = node.xreplace({known["lambda"]: cosine * K, known["q"]: K})
        return after.xreplace({node: inside}).subs({K_ab: gamma}).subs(l, l + 1)

    return derive


def shortcut(name: str) -> Callable[[mf.Theory], sp.Expr]:
    """A block whose shortcut has the variance σ_π² (a strength √σ_π²)."""

    def derive(theory: mf.Theory) -> sp.Expr:
        block = theory.block
        mu = parameter("mu")
        other = mf.derive(architecture=mf.Residual(block.branch, "mu"))
        return step(name)(other).subs(mu, sp.sqrt(pi2))

    return derive


def claim(source: str, quantity: str, printed, contrast, by, misprint: bool = False) -> Formula:
    return Formula(source, NETWORKS, quantity, sp.sympify(printed), sp.sympify(contrast), misprint, by=by)


FORWARD = (
    claim("R1, Thm C.2, q", "q", inner, w * p + sb**2 * l**-bw, step("q")),
    claim("R2, Thm C.2, p", "p", v * square + a + p, v * square + a, step("K")),
    # E1: standard deviations σ l^{-β} as § 4 has them
    claim("R1, § 4: deviations fall as l^{-β}, q", "q", sw**2 * l ** (-2 * bw) * p + sb**2 * l ** (-2 * bb), inner,
          step("q"), True),
    # E2
    claim("R3, Thm C.2, Table A.2, λ", "lambda", w * lam + b, w * gamma + b, of_pair("lambda"), True),
    claim("R4, Thm C.2, γ", "gamma", v * pair + a + gamma, v * pair + a, of_pair("gamma")),
    claim("R2, R12, projections with σ_π", "p", v * square + a + pi2 * p, v * square + a + p, shortcut("K")),
)  # fmt: skip
through = v * slope
BACKWARD = (
    claim("R6, Thm C.3, identity", "chi_-/chi", through * w + 1, through * w, step("J")),
    claim("R6, Thm C.3, projection", "chi_-/chi", through * w + pi2, through * w + 1, shortcut("J")),
    claim("R7, Thm C.3, chi_b", "chi_b/chi", through, slope, step("G_b[1]")),
    claim("R8, Thm C.3, chi_w", "chi_w/chi", through * p, through * inner, step("G_w[1]")),
    claim("R9, Thm C.3, chi_v", "chi_v/chi", square, v * square, step("G_w[2]")),
    claim("R10, Thm C.3, chi_a", "chi_a/chi", 1, a, step("G_b[2]")),
)

SIZES = {"sigma_w": 1.2, "sigma_b": 0.7, "depth": 9}
RUN = network("relu", architecture="full_residual", sigma_v="3/2", sigma_a="1/2", beta_v="1/2", beta_w="1/5")


def between(name: str) -> Callable[..., float]:
    """A quantity of two inputs with cosine ½ at a layer: p, e or |x - x'|²/N."""

    def compute(layer: int) -> float:
        found = RUN.theory.propagate(**SIZES, correlation=0.5, quantities=("K", "c", "distance"))
        return float({"p": found.K, "e": found.c, "d": found.distance}[name][..., layer].ravel()[0])

    return compute


def metric(layer: int) -> float:
    return (1 - between("e")(layer)) * between("p")(layer)


LAYERS = ((2,), (8,))
DEFINITIONS = (
    Floats("R5, Def. 4.2, s = (1 - e) p", RUN, "|x - x'|^2/2N", metric, between("p"),
           of=lambda n: between("d")(n) / 2, places=LAYERS),
    # E31: Table A.1 leaves the ½ out
    Floats("R5, Table A.1, s", RUN, "|x - x'|^2/N", metric, lambda n: 2 * metric(n), True,
           of=between("d"), places=LAYERS),
)  # fmt: skip


def series(point: str, order: int) -> Callable[[mf.Theory], sp.Expr]:
    """The coefficient of X^order in c = λ/q, X = l^{β_b - β_w} p, at X → 0, ∞ or C (there of X - C)."""

    def derive(theory: mf.Theory) -> sp.Expr:
        ratio = of_pair("lambda")(theory) / of_pair("q")(theory)
        of_x = sp.simplify(ratio.subs(gamma, e * p).subs(p, X * l ** (bw - bb)))
        x = sp.Symbol("x", positive=True)
        at = {"0": x, "oo": 1 / x, "C": C + x}[point]
        return sp.simplify(sp.diff(sp.simplify(of_x.subs(X, at)), x, order).subs(x, 0) / sp.factorial(order))

    return derive


C = sp.Symbol("C", positive=True)
total = sw**2 * C + sb**2
ratio = sw**2 / sb**2
ONE = full("relu")


def lemma(source: str, printed, contrast, point: str, order: int, misprint: bool = False) -> Formula:
    return Formula(source, ONE, "c", sp.sympify(printed), sp.sympify(contrast), misprint, by=series(point, order))


LEMMA_D1 = (
    lemma("R23, Lemma D.1, X → 0, leading", 1, e, "0", 0),
    lemma("R23, Lemma D.1, X → 0, first order", -ratio * (1 - e), ratio * (1 - e), "0", 1),
    lemma("R23, X → 0, second order", ratio**2 * (1 - e), ratio * (1 - e), "0", 2),
    lemma("R23, Lemma D.1, X → ∞, leading", e, 1, "oo", 0),
    lemma("R23, Lemma D.1, X → ∞, first order", (e - 1) / ratio, (1 - e) / ratio, "oo", 1, True),  # E6
    lemma("R23, Lemma D.1, X → C, leading", (sw**2 * C * e + sb**2) / total, e, "C", 0),
    lemma("R23, Lemma D.1, X → C, first order", sw**2 * sb**2 / total**2 * (e - 1), (e - 1) / total, "C", 1),
)
CLAIMS = FORWARD + BACKWARD + DEFINITIONS + LEMMA_D1
