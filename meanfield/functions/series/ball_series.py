"""Power series whose coefficients are balls: Taylor models of smooth functions of one real variable."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import sympy as sp
from flint import arb, arb_series, ctx, fmpq

from meanfield import balls
from meanfield.balls.straight_line import Arithmetic, compile_program
from meanfield.results import MeanFieldError
from meanfield.symbols import Z, sigmoid, softplus

x = Z[0]


def _risen(value: arb, slope, u):
    """The series with this value at u's centre and derivative slope·u′: unlike differences of exponentials it keeps
    its digits where the value is near 0."""
    return arb_series([value], prec=u.prec) + (slope * u.derivative()).integral()


def _tanh(u, _=False):
    if abs(u[0].mid()) < 0.5:
        return _risen(u[0].tanh(), _sech(u) ** 2, u)
    if u[0].mid() < 0:
        return -_tanh(-u)
    e = (-2 * u).exp()
    return (1 - e) / (1 + e)


def _sech(u, _=False):
    e = (u if u[0].mid() < 0 else -u).exp()
    return 2 * e / (1 + e * e)


def _cosh(u):
    return (u.exp() + (-u).exp()) / 2


def _logistic(u, _=False, wanted=True):
    """σ(u), σ(-u), softplus(u) from one exponential that does not overflow."""
    left = u[0].mid() < 0
    e = (u if left else -u).exp()
    large = 1 / (1 + e)
    small = e * large
    plus = None if not wanted else (1 + e).log() if left else u + (1 + e).log()
    return (small, large, plus) if left else (large, small, plus)


def _power(u, n, _=False):
    """u^n of a base that is positive where it is used; elsewhere the logarithm's ball is not finite."""
    return (u.log() * n).exp()


def _refusal(e: sp.Expr) -> MeanFieldError:
    return MeanFieldError(f"{e.func} has no power series of balls.")


_SERIES = Arithmetic(
    heads={
        sp.exp: "exp",
        sp.erf: "erf",
        sp.erfc: "erfc",
        sp.sin: "sin",
        sp.cos: "cos",
        sp.atan: "atan",
        sp.log: "log",
        sp.sinh: lambda u, _: _risen(u[0].sinh(), _cosh(u), u),
        sp.cosh: lambda u, _: _cosh(u),
        sp.tanh: _tanh,
        sp.sech: _sech,
        sigmoid: lambda u, _: _logistic(u, wanted=False)[0],
        softplus: lambda u, _: _logistic(u)[2],
        sp.asinh: lambda u, _: _risen(u[0].asinh(), 1 / (u * u + 1).sqrt(), u),
    },
    number=lambda e, _: balls.constant(e),
    exact=lambda q: arb(fmpq(int(q.p), int(q.q))),
    root=lambda u, _: u.sqrt(),
    power=_power,
    logistic=_logistic,
    complaint=_refusal,
)


@lru_cache(maxsize=512)
def ball_series(e: sp.Expr) -> Callable[[Any], Any]:
    """A smooth expression in Z[0] as a function of power series of balls."""
    f = compile_program(e, (x,), _SERIES)[1]
    return lambda s: f((s,), False)


def coefficients(f, ball: arb, count: int) -> list[arb] | None:
    """Taylor coefficients 0 … count - 1 at a ball; None where a denominator's ball holds 0."""
    cap = ctx.cap
    ctx.cap = max(cap, count)  # series are cut at ctx.cap (10) terms, and what is cut reads as 0, which is no enclosure
    try:
        series = f(arb_series([ball, 1], prec=count))
    except (ValueError, ZeroDivisionError):
        return None
    finally:
        ctx.cap = cap
    if isinstance(series, arb_series) and series.prec < count:
        return None
    if not isinstance(series, arb_series):
        return [arb(series)] + [arb(0)] * (count - 1)
    return [series[k] for k in range(count)]
