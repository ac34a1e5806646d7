"""Power series whose coefficients are balls: Taylor models of smooth functions of one real variable."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import sympy as sp
from flint import arb, arb_series

from meanfield import balls
from meanfield.results import MeanFieldError
from meanfield.symbols import Z, sigmoid, softplus

x = Z[0]

_SERIES: dict[type, Callable] = {
    sp.exp: lambda u: u.exp(),
    sp.erf: lambda u: u.erf(),
    sp.erfc: lambda u: u.erfc(),
    sp.sin: lambda u: u.sin(),
    sp.cos: lambda u: u.cos(),
    sp.atan: lambda u: u.atan(),
    sp.log: lambda u: u.log(),
    sp.sinh: lambda u: (u.exp() - (-u).exp()) / 2,
    sp.cosh: lambda u: (u.exp() + (-u).exp()) / 2,
    sp.tanh: lambda u: -_tanh(-u) if u[0].mid() < 0 else _tanh(u),
    sp.sech: lambda u: _sech(-u) if u[0].mid() < 0 else _sech(u),
    sigmoid: lambda u: (u.exp() / (1 + u.exp())) if u[0].mid() < 0 else 1 / (1 + (-u).exp()),
    softplus: lambda u: (1 + u.exp()).log() if u[0].mid() < 0 else u + (1 + (-u).exp()).log(),
    sp.asinh: lambda u: (u + (u * u + 1).sqrt()).log(),
}


def _tanh(u):
    e = (-2 * u).exp()
    return (1 - e) / (1 + e)


def _sech(u):
    e = (-u).exp()
    return 2 * e / (1 + e * e)


@lru_cache(maxsize=512)
def ball_series(e: sp.Expr) -> Callable:
    """A smooth expression in Z[0] as a function of power series of balls."""
    if e == x:
        return lambda s: s
    if e.is_number:
        return lambda s: balls.constant(e)
    if e.is_Add or e.is_Mul:
        parts = [ball_series(a) for a in e.args]
        return (lambda s: sum(p(s) for p in parts)) if e.is_Add else (lambda s: math.prod(p(s) for p in parts))
    if e.is_Pow and e.base is not sp.E:
        base, n = ball_series(e.base), e.exp
        if n.is_Integer:
            return (lambda s: base(s) ** int(n)) if n > 0 else (lambda s: 1 / base(s) ** int(-n))
        if (2 * n).is_Integer:
            return lambda s: base(s).sqrt() ** int(2 * n) if n > 0 else 1 / base(s).sqrt() ** int(-2 * n)
    head = _SERIES.get(e.func)
    if head is None or len(e.args) != 1:
        raise MeanFieldError(f"{e.func} has no power series of balls.")
    inner = ball_series(e.args[0])
    return lambda s: head(inner(s))


def coefficients(f, ball: arb, count: int) -> list[arb] | None:
    """Taylor coefficients 0 … count - 1 at a ball; None where a denominator's ball holds 0."""
    try:
        series = f(arb_series([ball, 1], prec=count))
    except (ValueError, ZeroDivisionError):
        return None
    if not isinstance(series, arb_series):
        return [arb(series)] + [arb(0)] * (count - 1)
    return [series[k] for k in range(count)]
