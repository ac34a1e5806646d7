"""Constants of public code, each with the number that it stands for.

nfnets: 1/sd φ(z) at variance 1, "magic constants" (deepmind-research, nfnets/base.py; timm has the same digits). torch:
`calculate_gain`, read as σ_w that keeps K = 1. unit-scaling: fits li(a; x, y) = x^{1-a}y^a, m what an input is
multiplied with. jax, siren, modula: as named. Decimals are compared to 15 digits, what a double keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import sympy as sp

import meanfield as mf
from derivations.claims import Claim, Network, Verdict, network
from derivations.comparisons import ball, rounds

HELD = 15  # digits that a double keeps
DIGITS = 12  # of a softmax


@dataclass(frozen=True)
class Constant(Claim):
    """A printed decimal, or expression, is `of`: a number of the engine, or (composed) one of its own definition.

    phi: the activation of the plain network in which the constant is used; as_sigma_w: how σ_w follows from it.
    """

    of: Callable[[], sp.Expr] = field(default=lambda: sp.nan)
    phi: str = ""
    as_sigma_w: Callable[[float], float] = field(default=float)

    @property
    def usual(self) -> Verdict:
        right = self.contrast if self.misprint else self.printed
        return Verdict.CERTIFIED if isinstance(right, str) else Verdict.PROVED

    @property
    def exact(self) -> sp.Expr:
        """The number that it stands for."""
        return _known(self.of)

    @property
    def off(self) -> float:
        """published/exact - 1."""
        return float(sp.sympify(self.printed) / self.exact) - 1

    def _judge(self, case: Network, statement: Any) -> Verdict:
        value = self.exact
        if isinstance(statement, str):
            return Verdict.CERTIFIED if rounds(ball(value), _shortened(statement)) else Verdict.REFUTED
        if not value.has(sp.Float):
            found = mf.equal(value, statement) is mf.symbolic.Equality.PROVED
            return Verdict.PROVED if found else Verdict.REFUTED
        apart = abs(ball(statement) - ball(value))
        return Verdict.DIGITS if apart < mf.certified(sp.Rational(1, 10**10), 30) else Verdict.REFUTED


@cache
def _known(of: Callable[[], sp.Expr]) -> sp.Expr:
    return sp.sympify(of())


def _shortened(decimal: str) -> str:
    """The decimal with at most 15 digits."""
    return decimal if len(decimal.replace(".", "").lstrip("0")) <= HELD else f"{sp.Float(decimal, 25):.{HELD}}"


def of_phi(phi: str, name: str, variance: object = 1) -> Callable[[], sp.Expr]:
    """A gain of φ."""
    return lambda: sp.sympify(getattr(mf.gains(phi, variance), name).value)


@cache
def softmax(tokens: int, scores: object) -> Any:
    """The gains of a softmax row."""
    return mf.gains("softmax", tokens=tokens, scores=scores, digits=DIGITS)


def li(a: object, x: object, y: object) -> sp.Expr:
    """x^{1-a} y^a, the logarithmic interpolation of unit-scaling."""
    a, x, y = map(sp.sympify, (a, x, y))
    return x ** (1 - a) * y**a


# ------------------------------------------------------------------------------------------------------------ nfnets

#: name there: (activation here, published, exact)
MAGIC: dict[str, tuple[str, str, str]] = {
    "celu": ("elu", "1.270926833152771", "1.270843417850197"),
    "elu": ("elu", "1.2716004848480225", "1.270843417850197"),
    "gelu (tanh form)": ("gelu_tanh", "1.7015043497085571", "1.700916561695450"),
    "glu": ("glu", "1.8484294414520264", "1.84622854533861"),
    "leaky_relu": ("leaky_relu", "1.70590341091156", "1.70483162717734"),
    "log_sigmoid": ("-softplus(-z)", "1.9193484783172607", "1.919125980107657"),
    "relu": ("relu", "1.7139588594436646", "1.712858550449663"),
    "relu6": ("relu6", "1.7131484746932983", "1.712858554972395"),
    "selu": ("selu", "1.0008515119552612", "1.000000000000000"),
    "sigmoid": ("sigmoid", "4.803835391998291", "4.801313372039962"),
    "silu": ("silu", "1.7881293296813965", "1.787187222100442"),
    "softsign": ("softsign", "2.338853120803833", "2.337533363108540"),
    "softplus": ("softplus", "1.9203323125839233", "1.919125980107657"),
    "tanh": ("tanh", "1.5939117670059204", "1.592537419722831"),
}
NFNETS: tuple[Constant, ...] = (
    *(Constant(f"nfnets {name}", network("relu" if phi == "glu" else phi), "1/sd φ", printed, right, misprint=True,
               of=of_phi(phi, "unit_variance"), phi="" if phi == "glu" else phi)
      for name, (phi, printed, right) in MAGIC.items()),
    # z - log Σ exp z: along T entries the sum is no spread, and the variance (T - 1)/T
    Constant("nfnets log_softmax, T → ∞", network("linear"), "1/sd φ", "1.0002083778381348", "1.000000000000000",
             misprint=True, composed=True, of=lambda: sp.S.One),
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------------- torch

PLANTED = 1 + sp.Rational(1, 10**6)
TORCH: tuple[Constant, ...] = (
    Constant("torch linear", network("linear"), "σ_w, K′ = K", sp.S.One, PLANTED,
             of=of_phi("linear", "sigma_w_forward"), phi="linear"),
    Constant("torch relu", network("relu"), "σ_w, K′ = K", sp.sqrt(2), sp.sqrt(2) * PLANTED,
             of=of_phi("relu", "sigma_w_forward"), phi="relu"),
    Constant("torch leaky_relu, slope .01", network("leaky_relu"), "σ_w, K′ = K", sp.sqrt(sp.Rational(20000, 10001)),
             sp.sqrt(2), of=of_phi("leaky_relu", "sigma_w_forward"), phi="leaky_relu"),
    Constant("torch tanh", network("tanh"), "σ_w, K′ = K", sp.Rational(5, 3), "1.592537419722831", misprint=True,
             of=of_phi("tanh", "sigma_w_forward"), phi="tanh"),
    Constant("torch selu", network("selu"), "σ_w, K′ = K", sp.Rational(3, 4), "1.000000000000000", misprint=True,
             of=of_phi("selu", "sigma_w_forward"), phi="selu"),
    Constant("torch sigmoid", network("sigmoid"), "σ_w, K′ = K", sp.S.One, "1.84622854533861", misprint=True,
             of=of_phi("sigmoid", "sigma_w_forward"), phi="sigmoid"),
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------ unit-scaling


_SD, _HALF, _QUARTER = sp.sqrt(2 / (1 - 1 / sp.pi)), sp.Rational(1, 2), sp.Rational(1, 4)
#: (name, φ, the gain it fits, its value at m → ∞, q, {m: exact}): the fit is 2 at m → 0, and a = 1/(1 + q/m²)
FITS: tuple[tuple[str, str, str, sp.Expr, sp.Expr, dict[sp.Expr, str]], ...] = (
    ("gelu forward", "gelu", "unit_variance", _SD, _QUARTER,
     {_HALF: "1.81909638740399", sp.S.One: "1.70092624336333", sp.S(2): "1.67802643717539"}),
    ("gelu backward", "gelu", "unit_gradient", sp.sqrt(2), _QUARTER, {sp.S.One: "1.48111441270835"}),
    ("silu forward", "silu", "unit_variance", _SD, _QUARTER,
     {_HALF: "1.90669204071454", sp.S.One: "1.78718722210044", sp.S(2): "1.69576145698958"}),
    ("silu backward", "silu", "unit_gradient", sp.sqrt(2), sp.S.One, {sp.S.One: "1.62332025795250"}),
    ("silu_glu", "silu", "unit_rms", sp.sqrt(2), sp.S.One,
     {_HALF: "1.86017460374958", sp.S.One: "1.67653247033109", sp.S(2): "1.50846127091045"}),
)  # fmt: skip


def fit(high: sp.Expr, q: sp.Expr, m: sp.Expr, low: object = 2) -> sp.Expr:
    """li(1/(1 + q/m²); low, high)."""
    return li(1 / (1 + q / m**2), low, high)


def _of_fit(phi: str, gain: str, m: sp.Expr) -> Callable[[], sp.Expr]:
    """φ(mz)/m has the gain of φ at variance m², times m; its slope that of φ at m²."""
    return lambda: of_phi(phi, gain, m**2)() * (1 if gain == "unit_gradient" else m)


X, Y = sp.symbols("x y", real=True)


def _mean(f: sp.Expr) -> sp.Expr:
    """The average over two independent standard normals."""
    return mf.average(f, (1, 0, 1), variables=(X, Y)).doit()


def _spread(tokens: int, scores: int) -> sp.Expr:
    """The gradient of a cross-entropy, p - e_y: V over its mean square, p of logits of that deviation."""
    V = sp.Integer(tokens)
    return sp.sqrt(V / (1 + softmax(tokens, scores).overlap.value - 2 / V))


UNIT_SCALING: tuple[Constant, ...] = (
    *(Constant(f"unit-scaling {name}, m={m}", network(phi), "1/sd φ" if "variance" in gain else "1/rms",
               fit(high, q, m), right, misprint=True, of=_of_fit(phi, gain, m),
               phi=phi if gain == "unit_variance" and m == 1 else "")
      for name, phi, gain, high, q, each in FITS for m, right in each.items()),
    Constant("unit-scaling softmax forward, n=1024, m=1", network("linear"), "1/rms A_s",
             fit(sp.sqrt(1024), sp.S(4), sp.S.One, sp.S(1024)), "623.341391", misprint=True,
             of=lambda: softmax(1024, 1).unit_entry.value),
    Constant("unit-scaling softmax backward, n=1024, m=1", network("linear"), "1/rms of its gradient",
             fit(sp.sqrt(1024), sp.S(4), sp.S.One, sp.S(1024)), "626.868623", misprint=True,
             of=lambda: softmax(1024, 1).unit_entry_gradient.value),
    Constant("unit-scaling softmax forward, n=64, m=4", network("linear"), "1/rms A_s",
             fit(sp.S(8), sp.S(4), sp.S(4), sp.S(64)), "11.8191161", misprint=True,
             of=lambda: softmax(64, 4).unit_entry.value),
    Constant("unit-scaling softmax backward, n=64, m=4", network("linear"), "1/rms of its gradient",
             fit(sp.S(4), sp.S(4), sp.S(4), sp.S(16)), "6.29978214", misprint=True,
             of=lambda: softmax(64, 4).unit_entry_gradient.value / 4),
    Constant("unit-scaling attention, T=1024, h=64, m=1", network("linear"), "1/rms Σ A_s v_s",
             1 / fit(sp.S.One, sp.S(256), sp.S.One, 1 / sp.S(32)), "31.7512258", misprint=True,
             of=lambda: softmax(1024, "1/8").unit_average.value),
    Constant("unit-scaling attention, T=1024, h=64, m=8", network("linear"), "1/rms Σ A_s v_s",
             1 / fit(sp.S.One, sp.S(256), sp.S(8), 1 / sp.S(32)), "19.4794185", misprint=True,
             of=lambda: softmax(1024, 1).unit_average.value),
    Constant("unit-scaling cross-entropy, V=1024, s=0", network("linear"), "1/rms of its gradient",
             1024 / sp.sqrt(1023), 1024 / sp.sqrt(1024), of=lambda: _spread(1024, 0), composed=True),
    Constant("unit-scaling cross-entropy, V=1024, s=1", network("linear"), "1/rms of its gradient",
             1024 / sp.sqrt(1023), "31.9890890", misprint=True, of=lambda: _spread(1024, 1), composed=True),
    Constant("unit-scaling mean squared error", network("linear"), "1/rms of its gradient", sp.sqrt(_HALF) / 2, _HALF,
             of=lambda: 1 / sp.sqrt(4 * _mean((X - Y) ** 2))),
    Constant("unit-scaling sum of two", network("linear"), "1/rms", sp.sqrt(_HALF), _HALF,
             of=lambda: 1 / sp.sqrt(_mean((X + Y) ** 2))),
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------------ others


def truncated(a: object = 2) -> sp.Expr:
    """The standard deviation of a standard normal that is cut at ±a."""
    inside = mf.average(f"1 if abs(z) < {a} else 0", 1).doit()
    return sp.sqrt(mf.average(f"z**2 if abs(z) < {a} else 0", 1).doit() / inside)


def truncated_complex(a: object = 2) -> sp.Expr:
    """The same of a complex normal of variance 1 whose modulus is at most a: |z|² is exponential, cut at a²."""
    x, top = sp.Symbol("x", positive=True), sp.sympify(a) ** 2
    moments = [sp.integrate(x**k * sp.exp(-x), (x, 0, top)) for k in (0, 1)]
    return sp.sqrt(moments[1] / moments[0])


OTHERS: tuple[Constant, ...] = (
    Constant("normal cut at ±2 (haiku, jax, keras, timm)", network("linear"), "sd", "0.87962566103423978",
             "0.87962654065989978", of=truncated),
    Constant("jax complex normal cut at |z| = 2", network("linear"), "sd", "0.95311164380491208", "0.961961828008214",
             misprint=True, composed=True, of=truncated_complex, phi="relu",
             as_sigma_w=lambda c: 2**0.5 * float(truncated_complex()) / c),
    Constant("siren elu, variance", network("elu"), "1/⟨φ²⟩", "1.5505188080679277", "1.5505203585867357",
             of=lambda: of_phi("elu", "unit_rms")() ** 2, phi="elu", as_sigma_w=lambda c: c**0.5),
    Constant("modula relu", network("relu"), "1/rms φ", sp.sqrt(2), sp.sqrt(2) * PLANTED,
             of=of_phi("relu", "unit_rms"), phi="relu"),
    Constant("modula gelu", network("gelu"), "1/rms φ", sp.sqrt(2), "1.53353044119554", misprint=True,
             of=of_phi("gelu", "unit_rms"), phi="gelu"),
)  # fmt: skip

CLAIMS: tuple[Constant, ...] = (*NFNETS, *UNIT_SCALING, *TORCH, *OTHERS)
