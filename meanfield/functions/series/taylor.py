"""Exact truncated power series of smooth expressions, by coefficient recurrences.

SymPy's `series` takes a second on mish; walking the tree once with the differential equation of each head takes
milliseconds.
"""

from __future__ import annotations

import math
from functools import lru_cache

import sympy as sp

from meanfield.results import MeanFieldError
from meanfield.symbols import sigmoid, softplus, steep

Series = list[sp.Expr]


@lru_cache(maxsize=1024)
def taylor(expr: sp.Expr, x: sp.Symbol, order: int) -> tuple[sp.Expr, ...]:
    """Coefficients of x^0 … x^order of `expr` about 0, exact.

    Raises: MeanFieldError if the expression is not analytic at 0 as far as these rules see.
    """
    return tuple(_walk(expr, x, order + 1))


@lru_cache(maxsize=512)
def fractional(expr: sp.Expr, x: sp.Symbol, order: int) -> tuple[dict[sp.Rational, sp.Expr], sp.Rational | None]:
    """({power: coefficient}, first power left out or None) of `expr` as x → 0+: a Taylor series in x^{1/q}, times a
    power.

    Powers up to x^order. The second is None where nothing is left out.

    Raises: MeanFieldError where a power is irrational or symbolic, or the rules see no series.
    """
    u = sp.Dummy("u", positive=True)
    powers = [e.exp for e in expr.atoms(sp.Pow) if e.base.has(x) and not e.exp.has(x)]
    if not all(p.is_Rational for p in powers):
        raise MeanFieldError(f"{expr} has a power that is no fraction, so its series at 0 is not known.")
    q = math.lcm(*[int(p.q) for p in powers])
    moved = sp.expand(expr.subs(x, u**q))
    for shift in (0, q, 2 * q, 4 * q, 8 * q):
        shifted = sp.expand(moved * u**shift)
        last = order * q + shift
        if shifted.is_polynomial(u):
            rest, last = None, max(last, sp.degree(shifted, u))
        else:
            rest = sp.Rational(last + 1 - shift, q)
        try:
            found = taylor(shifted, u, int(last))
        except MeanFieldError:
            if shift == 8 * q:
                raise
            continue
        return {sp.Rational(k - shift, q): c for k, c in enumerate(found) if c != 0}, rest
    raise AssertionError


def _tidy(c: sp.Expr) -> sp.Expr:
    c = sp.expand(c)
    return (
        c
        if c.is_Rational or not c.has(sp.exp, sp.tanh, sp.sinh, sp.cosh, sigmoid) or steep(c)
        else sp.radsimp(sp.simplify(c.rewrite(sp.exp)))
    )


def _mul(a: Series, b: Series) -> Series:
    n = len(a)
    left = [(i, c) for i, c in enumerate(a) if c != 0]
    out: list[list[sp.Expr]] = [[] for _ in range(n)]
    for j, d in enumerate(b):
        if d != 0:
            for i, c in left:
                if i + j >= n:
                    break
                out[i + j].append(c * d)
    return [sp.expand(sp.Add(*terms)) for terms in out]


def _d(a: Series) -> Series:
    return [k * c for k, c in enumerate(a)][1:]


def _walk(expr, x, n) -> Series:
    if not expr.has(x):
        return [expr, *[sp.S.Zero] * (n - 1)]
    if expr == x:
        return ([sp.S.Zero, sp.S.One] + [sp.S.Zero] * n)[:n]
    if expr.is_Add:
        parts = [_walk(a, x, n) for a in expr.args]
        return [sp.expand(sp.Add(*c)) for c in zip(*parts)]
    if expr.is_Mul:
        result = _walk(expr.args[0], x, n)
        for a in expr.args[1:]:
            result = _mul(result, _walk(a, x, n))
        return result
    if expr.is_Pow and expr.base is not sp.E:
        return _power(_walk(expr.base, x, n), expr.exp, expr)
    return _compose(expr, _walk(expr.args[0], x, n), x)


def _power(a: Series, p: sp.Expr, expr) -> Series:
    """a(x)^p by the recurrence of (a^p)' a = p a' a^p; an integer p also when a(0) = 0."""
    n = len(a)
    if p.is_Integer and p >= 0:
        result = [sp.S.One, *[sp.S.Zero] * (n - 1)]
        for _ in range(int(p)):
            result = _mul(result, a)
        return result
    if a[0] == 0:
        raise MeanFieldError(f"{expr} is not analytic at 0, so it has no Taylor series there.")
    y = [a[0] ** p]
    for k in range(1, n):
        total = sp.Add(*[(p * i - (k - i)) * a[i] * y[k - i] for i in range(1, k + 1) if a[i] != 0])
        y.append(_tidy(total / (k * a[0])))
    return y


def _integrate(slope, g: Series, y0) -> Series:
    """y with y' = slope(y so far) · g', coefficient by coefficient; `slope` gives the coefficients of dF/du known so
    far."""
    n, dg, y = len(g), _d(g), [y0]
    for k in range(1, n):
        s = slope(y, k)  # k coefficients, built from y[0..k-1]
        y.append(_tidy(sp.Add(*[s[i] * dg[k - 1 - i] for i in range(k) if dg[k - 1 - i] != 0]) / k))
    return y


def _compose(expr, g: Series, x) -> Series:
    head, g0 = expr.func, g[0]
    y0 = _tidy(head(g0))
    if head is sp.exp:
        return _integrate(lambda y, k: y[:k], g, y0)
    if head is sp.tanh:
        return _integrate(lambda y, k: _sub(1, _mul(y[:k], y[:k])), g, y0)
    if head is sigmoid:
        return _integrate(lambda y, k: _mul(y[:k], _sub(1, y[:k])), g, y0)
    if head is softplus:
        s = _compose(sigmoid(expr.args[0]), g, x)
        return _integrate(lambda y, k: s[:k], g, y0)
    if head in (sp.erf, sp.erfc):
        sign = 1 if head is sp.erf else -1
        e = _compose(sp.exp(x), [-c for c in _mul(g, g)], x)
        return _integrate(lambda y, k: [sign * 2 / sp.sqrt(sp.pi) * c for c in e[:k]], g, y0)
    if head is sp.atan:
        s = _power([sp.S.One + _mul(g, g)[0], *_mul(g, g)[1:]], sp.S.NegativeOne, expr)
        return _integrate(lambda y, k: s[:k], g, y0)
    if head is sp.asinh:
        s = _power([sp.S.One + _mul(g, g)[0], *_mul(g, g)[1:]], -sp.S.Half, expr)
        return _integrate(lambda y, k: s[:k], g, y0)
    if head in (sp.asin, sp.acos):
        sign = 1 if head is sp.asin else -1
        s = _power(_sub(1, _mul(g, g)), -sp.S.Half, expr)
        return _integrate(lambda y, k: [sign * c for c in s[:k]], g, y0)
    if head is sp.log:
        s = _power(g, sp.S.NegativeOne, expr)
        return _integrate(lambda y, k: s[:k], g, y0)
    if head in (sp.sin, sp.cos, sp.sinh, sp.cosh):
        return _pair(head, g)
    if head is sp.sech:
        return _power(_pair(sp.cosh, g), sp.S.NegativeOne, expr)
    raise MeanFieldError(
        f"The Taylor series of {head} is not among the rules; write {expr} with exp, tanh, erf, sigmoid, … ."
    )


def _sub(c, a: Series) -> Series:
    return [c - a[0], *[-v for v in a[1:]]]


def _pair(head, g: Series) -> Series:
    """sin and cos (or sinh and cosh) together: each is the other's slope."""
    circular = head in (sp.sin, sp.cos)
    s, c = ([sp.sin(g[0])], [sp.cos(g[0])]) if circular else ([_tidy(sp.sinh(g[0]))], [_tidy(sp.cosh(g[0]))])
    sign, dg = (-1 if circular else 1), _d(g)
    for k in range(1, len(g)):
        s_k = sp.Add(*[c[i] * dg[k - 1 - i] for i in range(k)]) / k
        c_k = sign * sp.Add(*[s[i] * dg[k - 1 - i] for i in range(k)]) / k
        s.append(sp.expand(s_k))
        c.append(sp.expand(c_k))
    return s if head in (sp.sin, sp.sinh) else c
