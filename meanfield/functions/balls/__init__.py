"""Certified values by ball arithmetic (python-flint): compiled expressions, constants, integrals.

A ball is a midpoint and a radius that provably contains the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import sympy as sp
from flint import acb as acb
from flint import arb

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import scalar, shown, validated, whole
from meanfield.functions.balls.ball_functions import Function
from meanfield.functions.balls.ball_functions import compile_ball as compile_ball
from meanfield.functions.balls.ball_functions import constant as constant
from meanfield.functions.balls.ball_functions import precision as precision

_CALLS = [0]


def evaluations() -> int:
    """How many values of integrands were asked for in this process: what a search costs, whatever the clock says."""
    return _CALLS[0]


def integral(f: Callable[[acb, bool], acb], lo: acb, hi: acb, **goals: Any) -> acb:
    """`acb.integral`, where what f raises (a deadline, an interrupt) comes out as it is.

    python-flint may call f again after an exception, and then fails with one of its own.
    """
    raised: list[BaseException] = []

    def guarded(x: acb, analytic: bool) -> acb:
        _CALLS[0] += 1
        if not raised:
            try:
                return f(x, analytic)
            except BaseException as error:
                raised.append(error)
        return acb("nan")

    value = acb.integral(guarded, lo, hi, **goals)
    if raised:
        raise raised[0]
    return value


@validated
def certified(expr: Any, digits: int = 20) -> arb:
    """The ball (python-flint `arb`: midpoint and radius that provably contain it) of a real constant expression, or of
    a number, with about `digits` correct digits; precision is raised until they are there.

    It takes all that `average` returns: a node, a product or sum of nodes, and the 0 of an odd function.

    >>> from meanfield.base.symbols import z
    >>> certified(average(sp.tanh(z)**2, 1) / 2, 30).str(20, radius=False)
    '0.19714724519892058721'
    """
    digits = whole(digits, "digits", 1, 100_000)
    given = expr
    if not isinstance(expr, sp.Basic) and not isinstance(expr, str):
        expr = sp.sympify(scalar(expr, "What certified digits are asked for"))
    if not isinstance(expr, sp.Expr) or expr.free_symbols:
        raise MeanFieldError(f"Certified digits of {shown(given)} were asked for, which is not a constant expression.")
    return _raised(lambda: constant(expr), digits)


def certified_at(expr: sp.Expr, at: Mapping[sp.Symbol, sp.Expr], digits: int = 20) -> arb:
    """`certified` of an expression at numbers for its symbols. The expression is compiled once for all of them, and
    SymPy is not made to take roots of long rationals apart."""
    f = _compiled(expr, tuple(at))
    return _raised(lambda: f(tuple(acb(constant(value)) for value in at.values()), False).real, digits)


@lru_cache(maxsize=64)
def _compiled(expr: sp.Expr, variables: tuple[sp.Symbol, ...]) -> Function:
    return compile_ball(expr, variables)


def _raised(evaluate: Callable[[], arb], digits: int) -> arb:
    bits = int(digits * 3.33) + 30
    value = arb.nan()
    for _ in range(5):
        with precision(bits):
            value = evaluate()
        if value.is_finite() and (value.is_zero() or value.rel_accuracy_bits() >= digits * 3.33):
            break
        bits = 2 * bits + 60
    return value
