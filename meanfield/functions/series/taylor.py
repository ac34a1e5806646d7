"""Exact truncated power series of smooth expressions, by coefficient recurrences.

SymPy's `series` takes a second on mish; walking the tree once with the differential equation of each function takes
milliseconds. Such an equation needs the product of two lists coefficient by coefficient, each simplified before the
next one: the ring of `symbolic/series`, whose products are worked out whole, takes what is found here.
"""

from __future__ import annotations

import math

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import steep
from meanfield.functions.elementary import cached, elementary_of, where

Series = list[sp.Expr]


@cached(1024)
def taylor(expr: sp.Expr, x: sp.Symbol, order: int) -> tuple[sp.Expr, ...]:
    """Coefficients of x^0 … x^order of `expr` about 0, exact.

    Raises: MeanFieldError if the expression is not analytic at 0 as far as these rules see.
    """
    return tuple(_walk(expr, _variable(x, order + 1), order + 1))


@cached(512)
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
        if c.is_Rational or not c.has(*where("rational_in_exponentials")) or steep(c)
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


Known = dict[sp.Symbol, Series]  # symbols whose series are given


def _variable(x: sp.Symbol, n: int) -> Known:
    return {x: ([sp.S.Zero, sp.S.One] + [sp.S.Zero] * n)[:n]}


def _walk(expr: sp.Expr, known: Known, n: int) -> Series:
    """n coefficients of an expression in symbols with series of at least n coefficients."""
    if not expr.has(*known):
        return [expr, *[sp.S.Zero] * (n - 1)]
    if expr in known:
        return known[expr][:n]
    if expr.is_Add:
        parts = [_walk(a, known, n) for a in expr.args]
        return [sp.expand(sp.Add(*c)) for c in zip(*parts)]
    if expr.is_Mul:
        result = _walk(expr.args[0], known, n)
        for a in expr.args[1:]:
            result = _mul(result, _walk(a, known, n))
        return result
    if expr.is_Pow and expr.base is not sp.E:
        return _power(_walk(expr.base, known, n), expr.exp, expr)
    return _compose(expr, _walk(expr.args[0], known, n))


def _power(a: Series, p: sp.Expr, expr: sp.Expr) -> Series:
    """a^p by the recurrence of (a^p)' a = p a' a^p; an integer p also when a(0) = 0."""
    n = len(a)
    if p.is_Integer and p >= 0:
        result = a if p > 0 else [sp.S.One, *[sp.S.Zero] * (n - 1)]
        for _ in range(int(p) - 1):
            result = _mul(result, a)
        return result
    if a[0] == 0:
        raise MeanFieldError(f"{expr} is not analytic at 0, so it has no Taylor series there.")
    y = [a[0] ** p]
    for k in range(1, n):
        total = sp.Add(*[(p * i - (k - i)) * a[i] * y[k - i] for i in range(1, k + 1) if a[i] != 0])
        y.append(_tidy(total / (k * a[0])))
    return y


_U = sp.Dummy("u", real=True)


@cached(64)
def _system(function: type) -> tuple[tuple[sp.Symbol, sp.Expr, type], ...]:
    """(symbol, slope, class) of a function of `_U` and of all functions of `_U` that slopes hold, in symbols for
    these."""
    found: dict[type, sp.Symbol] = {}
    slopes: dict[type, sp.Expr] = {}
    pending = [function]
    while pending:
        record = elementary_of(pending.pop())
        if record is None or record.slope is None:
            return ()
        found[record.function] = sp.Dummy(record.name)
        slopes[record.function] = record.slope(_U)
        inner = {a.func for a in slopes[record.function].atoms(sp.Function, sp.exp) if a.args == (_U,)}
        pending += [f for f in inner if f not in found and f not in pending]
    swap = {f(_U): symbol for f, symbol in found.items()}
    return tuple((symbol, slopes[f].xreplace(swap), f) for f, symbol in found.items())


def _compose(expr: sp.Expr, g: Series) -> Series:
    """A function of a series: h(g)′ = h′(g) g′, coefficient by coefficient, with the functions that h′ holds beside
    it."""
    system = _system(expr.func) if len(expr.args) == 1 else ()
    if not system:
        raise MeanFieldError(
            f"The Taylor series of {expr.func} is not among the rules; write {expr} with exp, tanh, erf, sigmoid, … ."
        )
    n, dg = len(g), [(i, c) for i, c in enumerate(_d(g)) if c != 0]
    parts = {symbol: [_tidy(function(g[0]))] for symbol, _, function in system}
    given = {symbol: _walk(slope, {_U: g}, n) for symbol, slope, _ in system if not slope.has(*parts)}
    tidy = sp.expand if _is_pair(system) else _tidy
    for k in range(1, n):
        known = {_U: g} | {symbol: list(y) for symbol, y in parts.items()}  # k coefficients of each, so far
        for symbol, slope, _ in system:
            s = given[symbol] if symbol in given else _walk(slope, known, k)
            parts[symbol].append(tidy(sp.Add(*[s[k - 1 - i] * c for i, c in dg if i < k]) / k))
    return parts[system[0][0]]


def _is_pair(system: tuple[tuple[sp.Symbol, sp.Expr, type], ...]) -> bool:
    """Whether the slopes are functions of the system themselves, up to their signs (sin and cos): nothing grows that
    would have to be simplified."""
    symbols = {symbol for symbol, _, _ in system}
    return len(system) > 1 and all(slope in symbols or -slope in symbols for _, slope, _ in system)
