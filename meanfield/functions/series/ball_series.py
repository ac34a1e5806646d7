"""Power series whose coefficients are balls: Taylor models of smooth functions of one real variable.

Their ring is python-flint's `arb_series`, not that of `symbolic/series`: a ball that holds 0 may be 0 or not, so such
series have no leading order, and what they leave out is their length.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp
from flint import acb, arb, arb_series, ctx, fmpq

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.functions import balls
from meanfield.functions.balls.straight_line import Arithmetic, compile_program
from meanfield.functions.elementary import cached, elementary_of, models

x = Z[0]
SeriesFunction = Callable[[arb_series, bool], arb_series]
BallSeries = Callable[[arb_series], arb_series | arb]  # a ball where the function is a constant


def _power(u: arb_series, n: arb, _: bool = False) -> arb_series:
    """u^n of a base that is positive where it is used; elsewhere the logarithm's ball is not finite."""
    return (u.log() * n).exp()


def _refusal(e: sp.Expr) -> MeanFieldError:
    return MeanFieldError(f"{e.func} has no power series of balls.")


def _elementary(function: type) -> str | SeriesFunction | None:
    """A function's own series, else from its value and its slope's series."""
    record = elementary_of(function)
    if record is None or record.series is not None or record.slope is None:
        return None if record is None else record.series
    return _from_slope(function)


@cached(64)
def _from_slope(function: type) -> SeriesFunction | None:
    record = elementary_of(function)
    assert record is not None and record.slope is not None
    slope = record.slope(x)
    if slope.has(function):
        return None
    value, rate = balls.compile_ball(function(x), (x,)), ball_series(slope)
    return lambda u, _: models.risen(value((acb(u[0]),), False).real, rate(u), u)


_SERIES = Arithmetic(
    method=_elementary,
    number=lambda e, _: balls.constant(e),
    exact=lambda q: arb(fmpq(int(q.p), int(q.q))),
    root=lambda u, _: u.sqrt(),
    power=_power,
    joint=lambda together: together.series,
    complaint=_refusal,
)


@cached(512)
def ball_series(e: sp.Expr) -> BallSeries:
    """A smooth expression in Z[0] as a function of power series of balls."""
    f = compile_program(e, (x,), _SERIES)[1]
    return lambda s: f((s,), False)


def coefficients(f: BallSeries, ball: arb, count: int) -> list[arb] | None:
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
