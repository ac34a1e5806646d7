"""Certified evaluation in balls: the precision, constants, and compiled expressions; functions are `elementary`'
affair."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sympy as sp
from flint import acb, arb, ctx, fmpq

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown
from meanfield.base.symbols import Z
from meanfield.functions.balls.straight_line import Arithmetic, compile_program
from meanfield.functions.elementary import cached, elementary_of, where

Function = Callable[[tuple[acb, ...], bool], acb]


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with `bits` of precision, and restore what was set before."""
    old = ctx.prec
    ctx.prec = int(bits)
    try:
        yield
    finally:
        ctx.prec = old


def _ball(function: type) -> str | Callable[[acb, bool], acb] | None:
    record = elementary_of(function)
    return None if record is None else record.ball


def _elementary(e: sp.Expr, u: acb) -> acb:
    method = _ball(e.func)
    assert method is not None
    return getattr(u, method)() if isinstance(method, str) else method(u, False)


def _unknown(e: sp.Expr) -> MeanFieldError:
    what = e.func.__name__ if isinstance(e, sp.Function) else shown(e)
    advice = f"rewrite the expression with {', '.join(f.__name__ for f in where('names'))}, powers"
    return MeanFieldError(f"No certified evaluation is known for {what}; {getattr(e, 'instead', advice)}.")


def _number(e: sp.Expr, memory: dict[sp.Expr, acb]) -> acb:
    """A constant expression at the current precision; `memory` holds the parts that are known at this precision."""
    found = memory.get(e)
    if found is None:
        found = memory[e] = _number_of(e, memory)
    return found


def _number_of(e: sp.Expr, memory: dict[sp.Expr, acb]) -> acb:
    if e.is_Rational or e.is_Float:
        exact = e if e.is_Rational else sp.Rational(e)
        return acb(fmpq(int(exact.p), int(exact.q)))
    if e is sp.pi:
        return acb(arb.pi())
    if e is sp.E:
        return acb(arb.const_e())
    if e is sp.EulerGamma:
        return acb(arb.const_euler())
    if e.is_Add or e.is_Mul:
        result, *rest = (_number(a, memory) for a in e.args)
        for part in rest:
            result = result + part if e.is_Add else result * part
        return result
    if e.is_Pow and e.base is not sp.E:
        base = _number(e.base, memory)
        if e.exp.is_Integer:
            return base ** int(e.exp)
        return base.sqrt() ** int(2 * e.exp) if (2 * e.exp).is_Integer else base.pow(_number(e.exp, memory))
    if hasattr(e, "ball"):  # nodes that know their own enclosure
        return acb(e.ball(int(ctx.prec / 3.32)))
    if elementary_of(e) is None or len(e.args) != 1:
        raise _unknown(e)
    return _elementary(e, _number(e.args[0], memory))


def _power(u: acb, w: acb, analytic: bool) -> acb:
    """u^w on its principal branch. Where the ball of u reaches the branch point 0, |u^w| ≤ |u|^w is all that is said of
    a real w > 0: enough to integrate up to there."""
    value = u.pow(w, analytic=analytic)
    if value.is_finite() or not u.is_finite() or analytic or not (w.real > 0 and w.imag.is_zero()):
        return value
    return _disc(arb(u.abs_upper()) ** w.real, value)


def _power_off_zero(u: acb, w: acb, analytic: bool) -> acb:
    """u^w, of a u that is positive on the real line and analytic without zeros on the ball of the variables.

    There u^w is analytic, whatever the ball of u covers: it is the branch that is positive on the real line. Where the
    principal one is not known to be that branch, |u|^w is all that is said: enough where u is small.
    """
    value = u.pow(w, analytic=analytic)
    if value.is_finite() or not u.is_finite():
        return value
    size = arb(u.abs_upper()) if w.real > 0 else arb(u.abs_lower())
    return _disc(size**w.real, value)


def _disc(size: arb, otherwise: acb) -> acb:
    """What is known of a number no larger than `size`."""
    radius = size.abs_upper()
    return acb(arb(0, radius), arb(0, radius)) if radius.is_finite() else otherwise


_BALLS = Arithmetic(
    method=_ball,
    number=_number,
    exact=lambda q: acb(fmpq(int(q.p), int(q.q))),
    root=lambda u, a: u.sqrt(analytic=a),
    power=_power,
    joint=lambda together: together.ball,
    complaint=_unknown,
    off_zero=_power_off_zero,
)


@cached(2048)
def compile_ball(expr: sp.Expr, variables: tuple[sp.Symbol, ...] = Z[:2]) -> Function:
    """A smooth expression as a function of complex balls that honours the `analytic` flag of rigorous integration.

    The flag is that of the variables: a constant √c or log c is analytic wherever its own ball lies.
    """
    return compile_program(expr, variables, _BALLS)[1]


def constant(expr: sp.Expr) -> arb:
    """The ball of a real constant at the current precision."""
    return _number(sp.sympify(expr), {}).real
