"""C1 to C5, C13: moments of layers without attention, as code and lemmas have them.

[2403.09635] (DeepScaleLM, simulations/) takes one feature of variance σ² with correlation r between two tokens; σ² is K
here, r is c, and n_in σ_w² of the code is σ_w² at fan-in 1. A gradient is the tangent J read backwards: at infinite
width both have one factor a layer. C4 and C5 are composed where the layer is finite or none of the engine's records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.claims import Claim, Network, Verdict, network
from derivations.comparisons import Equation, Formula, Holds
from derivations.pairs import AT_C
from derivations.placeholders import c
from meanfield.base.symbols import J, J_ab, K, K_ab, parameter, sigma_b, sigma_w

pi, half = sp.pi, sp.Rational(1, 2)
s, r = sp.sqrt(K), c
AT_1 = {sigma_w: 1, sigma_b: 0}
RELU, GELU, LINEAR, NORM = network("relu"), network("gelu"), network("linear"), network("linear", norm="pre")


def plain(e: sp.Expr) -> sp.Expr:
    """The same with arcsines for arccosines and one fraction under each root: what SymPy needs to see equality."""
    e = sp.sympify(e).replace(sp.acos, lambda x: pi / 2 - sp.asin(sp.together(x)))
    return e.replace(
        lambda x: x.is_Pow and not x.exp.is_Integer, lambda x: sp.factor(sp.together(x.base)) ** x.exp
    )  # fmt: skip


@dataclass(frozen=True)
class Moment(Formula):
    """A formula in K and c, compared after `plain`."""

    def _judge(self, case: Network, statement: sp.Expr) -> Verdict:
        match mf.equal(plain(self._ours(case)), plain(statement)):
            case mf.symbolic.Equality.PROVED:
                return Verdict.PROVED
            case mf.symbolic.Equality.TO_30_DIGITS:
                return Verdict.DIGITS
        return Verdict.REFUTED


def mean(theory: mf.Theory) -> sp.Expr:
    return theory.averages()["phi"]


def variance(theory: mf.Theory) -> sp.Expr:
    return theory.averages()["phi^2"] - mean(theory) ** 2


def square(theory: mf.Theory) -> sp.Expr:
    return theory.averages()["phi^2"]


def covariance(theory: mf.Theory) -> sp.Expr:
    """Of φ of two tokens."""
    return theory.equal_norms["K_ab"].subs(AT_C).subs(AT_1) - mean(theory) ** 2


def slope(theory: mf.Theory) -> sp.Expr:
    """What a gradient's variance is multiplied by."""
    return theory.averages()["phi'^2"]


def slope_of_two(theory: mf.Theory) -> sp.Expr:
    """What the covariance of the gradients of two tokens is multiplied by."""
    return (theory.equal_norms["J_ab"] / J_ab).subs(AT_C).subs(AT_1)


# ------------------------------------------------------------------------------------------------------- C2, relu

RELU_VARIANCE = K * (pi - 1) / (2 * pi)
AS_CODED = K * (pi * r + sp.sqrt(1 - r**2) - r * sp.acos(r) - 1) / (2 * pi)
RELU_SLOPE = half / 2 + sp.asin(r) / (2 * pi)

# ------------------------------------------------------------------------------------------------------- C3, gelu

a = K / (1 + K)
GELU_MEAN = s * sp.sqrt(a) / sp.sqrt(2 * pi)
GELU_VARIANCE = K / (2 * pi) * (pi - a - sp.acos(a) + 2 * a * sp.sqrt((1 - a) / (1 + a)))
_root = (K + 1) ** 2 - r**2 * K**2
_bend = (2 * K / pi) * (K * (1 - r**2) + 1 + r**2) / ((K + 1) * sp.sqrt(_root))
GELU_COVARIANCE = K / 4 * (r + 2 * r / pi * sp.asin(r * a) + _bend) - GELU_MEAN**2
GELU_SLOPE = half + (-sp.acos(a) + a * (5 * K + 3) / (1 + 2 * K) ** sp.Rational(3, 2)) / (2 * pi)
_top = r * a * ((K + 1) * (2 * K + 3) - 2 * r**2 * K**2)
GELU_SLOPES = half + (-sp.acos(r * a) + _top / _root ** sp.Rational(3, 2)) / (2 * pi)


# ----------------------------------------------------------------------- what a finite LayerNorm and a dropout do


def gradient_behind_norm(theory: mf.Theory) -> sp.Expr:
    """J′/J of a LayerNorm followed by a Dense of deviation 1."""
    return (theory.one_input["J"] / J).subs(AT_1)


def tokens_behind_norm(theory: mf.Theory) -> sp.Expr:
    return theory.equal_norms["K_ab"].subs(AT_C).subs(AT_1)


def mean_correlation(d: int, rho: float, draws: int = 20_000) -> tuple[float, float]:
    """The covariance of a feature of two tokens behind LayerNorm over d features, drawn; with its standard error."""
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((2, draws, d))
    y = rho * x + np.sqrt(1 - rho**2) * y
    x, y = (one - one.mean(axis=1, keepdims=True) for one in (x, y))
    found = (x * y).sum(axis=1) / np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    return float(found.mean()), float(found.std() / draws**0.5)


def follows_draws(kind: str, d: int, rho: float) -> bool:
    """Whether a formula for that covariance is within three standard errors of the draws, and exact at rho = 1."""
    formulas = {"r(1 - 1/d)": lambda x: x * (1 - 1 / d), "exact": lambda x: exact_correlation(d, x)}
    value, error = mean_correlation(d, rho)
    return abs(formulas[kind](rho) - value) < 3 * error and abs(formulas[kind](1.0) - 1) < 1e-12


def exact_correlation(d: int, rho: float) -> float:
    """The mean of the sample correlation of d normal pairs: r (2/n)(Γ(n/2 + ½)/Γ(n/2))² ₂F₁(½, ½; n/2 + 1; r²), n =
    d - 1; r(1 - (1 - r²)/(2d)) to order 1/d."""
    half_n = sp.Rational(d - 1, 2)
    front = float((sp.gamma(half_n + half) / sp.gamma(half_n)) ** 2 / half_n)
    return rho * front * float(sp.hyper([half, half], [half_n + 1], sp.Float(rho) ** 2).evalf())


def dropped(theory: mf.Theory) -> sp.Expr:
    """The variance of m x, m = 1/(1 - p) with probability 1 - p and 0 else, x of mean mu and variance K."""
    p, mu = parameter("p"), parameter("mu")
    return sp.simplify((1 - p) * (K + mu**2) / (1 - p) ** 2 - mu**2)


def norm_of_jacobian(x: np.ndarray) -> float:
    """‖∂LN/∂x‖₂ by central differences."""

    def normed(v: np.ndarray) -> np.ndarray:
        v = v - v.mean()
        return v / np.sqrt((v**2).mean())

    step = 1e-6 * np.linalg.norm(x - x.mean())
    rows = [(normed(x + step * e) - normed(x - step * e)) / (2 * step) for e in np.eye(len(x))]
    return float(np.linalg.norm(np.array(rows), 2))


def sized(kind: str, offset: float) -> bool:
    """Whether ‖∂LN/∂x‖₂ is within a factor of 2 of √d/‖x‖, or of √d/‖x - mean‖, at y + offset."""
    y = np.random.default_rng(13).standard_normal(32)
    x = y - y.mean() + offset
    size = {"x": x, "x - mean": y - y.mean()}[kind]
    return 0.5 < norm_of_jacobian(x) * np.linalg.norm(size) / np.sqrt(len(x)) < 2.0


def near(bound: float, fit: str) -> bool:
    """Whether a polynomial in r that approximations.py has is within `bound` of the correlation it stands for."""
    at = np.linspace(0, 1, 101)
    theory = mf.derive("relu")
    pair = theory.equal_norms["K_ab"].subs(AT_C).subs(AT_1 | {K: 1})
    moment = sp.lambdify(c, mf.symbolic.closed(pair), "numpy")(at)
    own = float(mf.symbolic.closed(square(theory)).subs(K, 1))
    mean_square = float(mf.symbolic.closed(mean(theory) ** 2).subs(K, 1))
    exact = (moment - mean_square) / (own - mean_square) if fit == "relu" else moment / own
    printed = {"relu": 0.7 * at + 0.3 * at**2, "FFN": 1 / np.pi + at / 2 + (0.5 - 1 / np.pi) * at**2}[fit]
    return float(np.abs(exact - printed).max()) < bound


CLAIMS: tuple[Claim, ...] = (
    Equation("C1, linear, variance", LINEAR, "K", sigma_w**2 * K + sigma_b**2, sigma_w * K + sigma_b**2),
    Formula("C1, linear, covariance", LINEAR, "K_ab", sigma_w**2 * K_ab, sigma_w**2 * K,
            by=lambda t: t.equal_norms["K_ab"].subs(sigma_b, 0)),
    Equation("C1, linear, gradient", LINEAR, "J", sigma_w**2 * J, sigma_w**2 * J / 2),
    Formula("C1, linear, gradients of two tokens", LINEAR, "J_ab", sigma_w**2 * J_ab, sigma_w**2 * J,
            by=lambda t: t.equal_norms["J_ab"]),
    Moment("C2, relu, mean", RELU, "<phi>", s / sp.sqrt(2 * pi), s / sp.sqrt(pi), by=mean),
    Moment("C2, relu, variance", RELU, "Var phi", RELU_VARIANCE, K / 2, by=variance),
    Moment("C2, relu, covariance", RELU, "Cov phi", AS_CODED, AS_CODED - K * r / 100, by=covariance),
    Moment("C2, relu, gradient", RELU, "<phi'^2>", half, half + r / 100, by=slope),
    Moment("C2, relu, gradients of two tokens", RELU, "<phi'_a phi'_b>", RELU_SLOPE, half, by=slope_of_two),
    Moment("C3, gelu, mean", GELU, "<phi>", GELU_MEAN, s * a / sp.sqrt(2 * pi), by=mean),
    Moment("C3, gelu, variance", GELU, "Var phi", GELU_VARIANCE, GELU_VARIANCE + a**2 / 100, by=variance),
    Moment("C3, gelu, covariance", GELU, "Cov phi", GELU_COVARIANCE, GELU_COVARIANCE + GELU_MEAN**2, by=covariance),
    Moment("C3, gelu, gradient", GELU, "<phi'^2>", GELU_SLOPE, half, by=slope),
    Moment("C3, gelu, gradients of two tokens", GELU, "<phi'_a phi'_b>", GELU_SLOPES,
           GELU_SLOPES.subs(K, 2 * K), by=slope_of_two),
    Formula("C4, LayerNorm, variance", NORM, "K", sp.S.One, K, by=lambda t: t.one_input["K"].subs(AT_1)),
    Moment("C4, LayerNorm, tokens, d = ∞", NORM, "K_ab", r, r / 2, by=tokens_behind_norm),
    Holds("C4, LayerNorm, tokens, d = 16", NORM, "K_ab", "r(1 - 1/d)", "exact", misprint=True, composed=True,
          of=follows_draws, places=((16, 0.5), (16, 0.9))),
    Formula("C4, LayerNorm, gradient", NORM, "J", 1 / K, sp.S.One, by=gradient_behind_norm),
    Formula("C5, dropout, variance", LINEAR, "K", (K + parameter("p") * parameter("mu") ** 2) / (1 - parameter("p")),
            K / (1 - parameter("p")), by=dropped, composed=True),
    Formula("C13, Lemma 1", RELU, "<phi^2>", K / 2, K, by=square),
    Holds("C13, Lemma 3, means of 10³ deviations", NORM, "norm of J_LN", "x", "x - mean", misprint=True,
          composed=True, of=sized, places=((0.0,), (1000.0,))),
    Holds("C13, Lemma 3, means near 0", NORM, "norm of J_LN", 0.0, 1000.0, composed=True,
          of=lambda offset: sized("x", offset)),
    Holds("approximations.py, relu", RELU, "correlation", 0.013, 0.0005, of=lambda b: near(b, "relu")),
    Holds("approximations.py, FFN", RELU, "correlation", 0.013, 0.0005, of=lambda b: near(b, "FFN")),
)  # fmt: skip
