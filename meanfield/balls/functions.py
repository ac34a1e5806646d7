"""Certified evaluation in balls: the precision, the functions that have one, constants, and compiled expressions.

The `analytic` flag of rigorous integration asks that the result be non-finite where a function is not analytic on the
whole ball: every head with a branch cut honours it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from functools import lru_cache

import sympy as sp
from flint import acb, arb, ctx, fmpq

from meanfield.balls.straight_line import Arithmetic, compile_program
from meanfield.results import MeanFieldError
from meanfield.symbols import Z, sigmoid, softplus

Function = Callable[[tuple[acb, ...], bool], acb]


@contextmanager
def precision(bits: int):
    """Work with `bits` of precision, and restore what was set before."""
    old = ctx.prec
    ctx.prec = int(bits)
    try:
        yield
    finally:
        ctx.prec = old


def _nan() -> acb:
    return acb(arb.nan(), arb.nan())


def _sigmoid(u: acb, analytic: bool) -> acb:
    if u.real < 0:
        e = u.exp()
        return e / (1 + e)
    return 1 / (1 + (-u).exp()) if u.real > 0 else (1 + (u / 2).tanh()) / 2


def _logistic(u: acb, analytic: bool, wanted: bool) -> tuple[acb, acb, acb | None]:
    """σ(u), σ(-u) and, if wanted, softplus(u), from one exponential."""
    if u.real > 0:
        e = (-u).exp()
        right = 1 / (1 + e)
        return right, e * right, u + _log1p(e, analytic) if wanted else None
    if u.real < 0:
        e = u.exp()
        left = 1 / (1 + e)
        return e * left, left, _log1p(e, analytic) if wanted else None
    t = (u / 2).tanh()
    return (1 + t) / 2, (1 - t) / 2, _softplus(u, analytic) if wanted else None


def _log1p(w: acb, analytic: bool) -> acb:
    if analytic and not (w.real > -1) and w.imag.contains(0):
        return _nan()
    return w.log1p()


def _softplus(u: acb, analytic: bool) -> acb:
    # two analytic continuations of one real function; each call uses one of them for its whole ball, which is all a
    # bound needs
    return u + _log1p((-u).exp(), analytic) if u.real.mid() > 0 else _log1p(u.exp(), analytic)


def _atan(u: acb, analytic: bool) -> acb:
    if analytic and u.real.contains(0) and not (abs(u.imag) < 1):
        return _nan()
    return u.atan()


def _asinh(u: acb, analytic: bool) -> acb:
    if u.real.mid() < 0:  # odd; the logarithm cancels on the left
        return -_asinh(-u, analytic)
    return (u + (u * u + 1).sqrt(analytic=analytic)).log(analytic=analytic)


def _asin(u: acb, analytic: bool) -> acb:
    if u.imag.is_zero() and not analytic:
        return acb(u.real.asin()) if abs(u.real) <= 1 else acb(_clip(u.real).asin())
    return u.asin() if not analytic or _inside(u) else _nan()


def _acos(u: acb, analytic: bool) -> acb:
    return u.acos() if not analytic or _inside(u) else _nan()


def _inside(u: acb) -> bool:
    """Away from the cuts of arcsine and arccosine, the real |x| ≥ 1."""
    return not u.imag.contains(0) or abs(u.real) < 1


def _clip(x: arb) -> arb:
    """A correlation is in [-1, 1]; rounding may push its ball's edge out."""
    return x.intersection(arb(0, 1)) if x.overlaps(arb(0, 1)) else arb.nan()


_HEADS: dict[type, str | Callable[[acb, bool], acb]] = {
    sp.exp: "exp",
    sp.erf: "erf",
    sp.erfc: "erfc",
    sp.erfi: "erfi",
    sp.tanh: "tanh",
    sp.sech: "sech",
    sp.sinh: "sinh",
    sp.cosh: "cosh",
    sp.sin: "sin",
    sp.cos: "cos",
    sp.log: lambda u, a: u.log(analytic=a),
    sp.atan: _atan,
    sp.asin: _asin,
    sp.acos: _acos,
    sigmoid: _sigmoid,
    softplus: _softplus,
    sp.gamma: "gamma",
    sp.zeta: "zeta",
    sp.asinh: _asinh,
}


def _head(e: sp.Expr, u: acb) -> acb:
    head = _HEADS[e.func]
    return getattr(u, head)() if isinstance(head, str) else head(u, False)


def _unknown(e: sp.Expr) -> MeanFieldError:
    return MeanFieldError(
        f"No certified evaluation is known for {e.func.__name__ if e.args else e}; rewrite the expression "
        "with exp, log, erf, tanh, sigmoid, softplus, sin, cos, atan, powers."
    )


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
    if e.func not in _HEADS or len(e.args) != 1:
        raise _unknown(e)
    return _head(e, _number(e.args[0], memory))


_BALLS = Arithmetic(
    heads=_HEADS,
    number=_number,
    exact=lambda q: acb(fmpq(int(q.p), int(q.q))),
    root=lambda u, a: u.sqrt(analytic=a),
    power=lambda u, w, a: u.pow(w, analytic=a),
    logistic=_logistic,
    complaint=_unknown,
)


@lru_cache(maxsize=2048)
def compile_ball(expr: sp.Expr, variables: tuple[sp.Symbol, ...] = Z[:2]) -> Function:
    """A smooth expression as a function of complex balls that honours the `analytic` flag of rigorous integration.

    The flag is that of the variables: a constant √c or log c is analytic wherever its own ball lies.
    """
    return compile_program(expr, variables, _BALLS)[1]


def constant(expr: sp.Expr) -> arb:
    """The ball of a real constant at the current precision."""
    return _number(sp.sympify(expr), {}).real
