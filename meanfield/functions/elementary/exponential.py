"""Heads that exponentials describe far out: exp and its hyperbolic and logistic relatives, error functions."""

from __future__ import annotations

import math

import mpmath as mp
import sympy as sp

from meanfield.base.symbols import sigmoid, softplus
from meanfield.functions.elementary import certified_values, models
from meanfield.functions.elementary.record import (
    LARGE_SHARE,
    SHARE,
    ElementaryFunction,
    EndBehavior,
    ExponentialGrowth,
    Joint,
    PowerGrowth,
)

HALF = sp.Rational(1, 2)
ERF_SIZE = sp.Rational(13, 10)  # erfc u ≤ 1.01 e^{-u} for every real u
rest_of_erf = sp.Function("rest_of_erf")  # erfc in floats, of which SymPy would make 2 - erfc(-u)


def zero(u: sp.Expr) -> sp.Expr:
    return sp.S.Zero


def one(u: sp.Expr) -> sp.Expr:
    return sp.S.One


def _erfc_series(u: sp.Expr, n: int, theta: sp.Expr) -> sp.Expr:
    """erfc u = e^{-u²}/(u√π) (Σ_{k<n} (-1)^k (2k-1)!!/(2u²)^k + (-1)^n (2n-1)!!/(2u²)^n θ), u > 0. DLMF 7.12(i)."""
    terms = [(-1) ** k * sp.factorial2(2 * k - 1) / (2 * u**2) ** k for k in range(n + 1)]
    return sp.exp(-sp.expand(u**2)) / (u * sp.sqrt(sp.pi)) * (sp.Add(*terms[:-1]) + terms[-1] * theta)


def _softplus_series(u: sp.Expr, n: int, theta: sp.Expr) -> sp.Expr:
    """log(1 + v) = Σ_{k≤n} (-1)^{k+1} v^k/k + (-1)^n v^{n+1}/(n+1) θ, v = e^u ≤ 1."""
    terms = [(-1) ** (k + 1) * sp.exp(k * u) / k for k in range(1, n + 2)]
    return sp.Add(*terms[:-1]) + terms[-1] * theta


def _log1p_enclosed(v: sp.Expr) -> sp.Expr:
    """log(1 + v) for 0 ≤ v ≤ 1."""
    return v - LARGE_SHARE * v**2 / 2


def _erfc_enclosed(u: sp.Expr) -> sp.Expr:
    return SHARE * sp.exp(-(u**2))


def _over(u: float) -> bool:
    return u > 700


def _softplus_number(u: float) -> float:
    return math.inf if u == math.inf else max(u, 0.0) + math.log1p(math.exp(-abs(u)))


def _cosh_number(u: float) -> float:
    return math.inf if _over(abs(u)) else math.cosh(u)


LOGISTIC = Joint(
    at={sigmoid: (0, 1), softplus: (2, None)},
    last=softplus,
    ball=certified_values.logistic_joint,
    series=models.logistic_joint,
)

EXPONENTIAL = (
    ElementaryFunction(
        sp.exp,
        mpmath=mp.exp,
        ball="exp",
        series="exp",
        slope=sp.exp,
        names=("exp",),
        values=(sp.S.Zero, sp.oo),
        shape="rising",
        number=lambda u: math.inf if _over(u) else math.exp(u),
        inverse=sp.log,
        growth=ExponentialGrowth((1,)),
        left=EndBehavior(zero, size=sp.S.One),
        exponential=lambda y: y,
        code="return math.exp(x) if x < 709.0 else math.inf",
    ),
    ElementaryFunction(
        sp.sinh,
        mpmath=mp.sinh,
        ball="sinh",
        series=models.sinh,
        slope=sp.cosh,
        names=("sinh",),
        shape="rising",
        number=lambda u: math.copysign(math.inf, u) if _over(abs(u)) else math.sinh(u),
        parity=-1,
        inverse=sp.asinh,
        growth=ExponentialGrowth((1, -1)),
        exponential=lambda y: (y - 1 / y) / 2,
    ),
    ElementaryFunction(
        sp.cosh,
        mpmath=mp.cosh,
        ball="cosh",
        series=lambda u, _: models.cosh(u),
        slope=sp.sinh,
        names=("cosh",),
        values=(sp.S.One, sp.oo),
        shape="valley",
        number=_cosh_number,
        parity=1,
        inverse=lambda w: sp.log(w + sp.sqrt(w**2 - 1)),
        growth=ExponentialGrowth((1, -1)),
        exponential=lambda y: (y + 1 / y) / 2,
    ),
    ElementaryFunction(
        sp.tanh,
        mpmath=mp.tanh,
        ball="tanh",
        series=models.tanh,
        slope=lambda u: 1 - sp.tanh(u) ** 2,
        names=("tanh",),
        values=(sp.S.NegativeOne, sp.S.One),
        shape="rising",
        number=math.tanh,
        parity=-1,
        inverse=lambda w: sp.log((1 + w) / (1 - w)) / 2,
        square=sp.sech,
        steepest=1.0,
        right=EndBehavior(one, size=sp.Integer(2), rate=2, small=lambda u: 2 * sigmoid(-2 * u)),
        exponential=lambda y: (y**2 - 1) / (y**2 + 1),
    ),
    ElementaryFunction(
        sp.sech,
        mpmath=mp.sech,
        ball="sech",
        series=models.sech,
        slope=lambda u: -sp.tanh(u) * sp.sech(u),
        names=("sech",),
        values=(sp.S.Zero, sp.S.One),
        shape="hill",
        number=lambda u: 1 / _cosh_number(u),
        parity=1,
        inverse=lambda w: sp.log((1 + sp.sqrt(1 - w**2)) / w),
        steepest=0.5,
        right=EndBehavior(zero, size=sp.Integer(2)),
        exponential=lambda y: 2 * y / (y**2 + 1),
        numpy="2 * np.exp(-np.abs(x)) / (1 + np.exp(-2 * np.abs(x)))",
        code="e = math.exp(-abs(x))\nreturn 2.0 * e / (1.0 + e * e)",
    ),
    ElementaryFunction(
        sigmoid,
        mpmath=lambda x: 1 / (1 + mp.exp(-x)),
        ball=certified_values.logistic,
        series=models.logistic,
        slope=lambda u: sigmoid(u) * (1 - sigmoid(u)),
        names=("sigmoid",),
        values=(sp.S.Zero, sp.S.One),
        shape="rising",
        number=lambda u: 1 / (1 + math.exp(-u)) if u > -700 else 0.0,
        reflection=lambda h, u: 1 - h,
        inverse=lambda w: sp.log(w / (1 - w)),
        steepest=0.25,
        right=EndBehavior(one, size=sp.S.One, small=lambda u: sigmoid(-u)),
        left=EndBehavior(zero, size=sp.S.One),
        exponential=lambda y: y / (1 + y),
        numpy="np.exp(-np.logaddexp(0.0, -x))",
        code="if x >= 0.0:\n    return 1.0 / (1.0 + math.exp(-x))\ne = math.exp(x)\nreturn e / (1.0 + e)",
        joint=LOGISTIC,
    ),
    ElementaryFunction(
        softplus,
        mpmath=lambda x: mp.log1p(mp.exp(-abs(x))) + max(x, 0),
        ball=certified_values.softplus,
        series=models.softplus,
        slope=sigmoid,
        names=("softplus",),
        values=(sp.S.Zero, sp.oo),
        shape="rising",
        number=_softplus_number,
        reflection=lambda h, u: h - u,
        inverse=lambda w: sp.log(sp.exp(w) - 1),
        growth=PowerGrowth(0.7, 1.0),
        steepest=1.0,
        right=EndBehavior(
            lambda u: u,
            size=sp.S.One,
            enclosed=lambda u: u + _log1p_enclosed(sp.exp(-u)),
            remainder=lambda u: softplus(-u),
        ),
        left=EndBehavior(zero, size=sp.S.One, enclosed=lambda u: _log1p_enclosed(sp.exp(u)), series=_softplus_series),
        exponential=lambda y: sp.log(1 + y),
        exponentiated=lambda u: 1 + sp.exp(u),
        numpy="np.logaddexp(0.0, x)",
        code="return max(x, 0.0) + math.log1p(math.exp(-abs(x)))",
        joint=LOGISTIC,
    ),
    ElementaryFunction(
        sp.erf,
        mpmath=mp.erf,
        ball="erf",
        series="erf",
        slope=lambda u: 2 / sp.sqrt(sp.pi) * sp.exp(-(u**2)),
        names=("erf",),
        values=(sp.S.NegativeOne, sp.S.One),
        shape="rising",
        number=math.erf,
        parity=-1,
        steepest=1.13,
        right=EndBehavior(
            one,
            size=ERF_SIZE,
            enclosed=lambda u: 1 - _erfc_enclosed(u),
            remainder=lambda u: -sp.erfc(u),
            small=rest_of_erf,
        ),
        numpy="special().erf(x)",
    ),
    ElementaryFunction(
        sp.erfc,
        mpmath=mp.erfc,
        ball="erfc",
        series="erfc",
        slope=lambda u: -2 / sp.sqrt(sp.pi) * sp.exp(-(u**2)),
        names=("erfc",),
        plain=lambda u: 1 - sp.erf(u),
        values=(sp.S.Zero, sp.Integer(2)),
        shape="falling",
        number=math.erfc,
        reflection=lambda h, u: 2 - h,
        inverse=lambda w: (sp.erf, 1 - w),
        steepest=1.13,
        right=EndBehavior(zero, size=ERF_SIZE, enclosed=_erfc_enclosed, series=_erfc_series),
        left=EndBehavior(
            lambda u: sp.Integer(2),
            size=ERF_SIZE,
            enclosed=lambda u: 2 - _erfc_enclosed(u),
            remainder=lambda u: -sp.erfc(-u),
        ),
        numpy="special().erfc(x)",
    ),
    ElementaryFunction(
        sp.erfi,
        mpmath=mp.erfi,
        ball="erfi",
        slope=lambda u: 2 / sp.sqrt(sp.pi) * sp.exp(u**2),
        shape="rising",
        parity=-1,
    ),
)

NUMPY = {"rest_of_erf": "special().erfc(x)"}
