"""Rigorous ranges of smooth functions of one real variable: exact extrema where real roots can be isolated, interval
arithmetic elsewhere; and what a product with a factor that dies cannot exceed.
"""

from __future__ import annotations

import math

import sympy as sp

from meanfield.functions.elementary import cached, elementary_of
from meanfield.functions.elementary.record import ElementaryFunction, EndBehavior

Ends = tuple[float, float]
_ANY = (-math.inf, math.inf)
def _outwards(low: float, high: float) -> Ends:
    """The interval a little wider than the rounding of a few operations; not a number is anything."""
    if math.isnan(low) or math.isnan(high):
        return _ANY
    return low - 1e-14 * abs(low), high + 1e-14 * abs(high)


@cached(4096)
def span(expr: sp.Expr, x: sp.Symbol, low: float, high: float) -> Ends:
    """An interval that holds every value of a smooth `expr` for low ≤ x ≤ high: exact extrema (by isolated real roots)
    of rational functions times exponentials of polynomials, interval arithmetic and monotone functions elsewhere."""
    if not expr.has(x):
        return _outwards(*[float(sp.N(expr, 20))] * 2) if expr.is_number and expr.is_real else _ANY
    if expr == x:
        return low, high
    exact = _extremes(expr, x, low, high)
    if exact is not None:
        return exact
    if expr.is_Add:
        smooth, rest = sp.Add(*[a for a in expr.args if _is_core(a, x)]), [a for a in expr.args if not _is_core(a, x)]
        parts = [span(a, x, low, high) for a in (([smooth] if rest else list(smooth.args)) + rest)]
        return _outwards(sum(a for a, _ in parts), sum(b for _, b in parts))
    if expr.is_Mul:
        core, rest = sp.Mul(*[a for a in expr.args if _is_core(a, x)]), [a for a in expr.args if not _is_core(a, x)]
        total = (1.0, 1.0)
        for a in (core, *rest) if rest else expr.args:
            total = _times(total, span(a, x, low, high))
        return total
    if expr.is_Pow and expr.base is not sp.E:
        return _power_span(expr, span(expr.base, x, low, high)) if expr.exp.is_Rational else _ANY
    if len(expr.args) != 1:
        return _ANY
    a, b = span(expr.args[0], x, low, high)
    record = elementary_of(expr)
    return _ANY if record is None else _elementary_span(record, a, b)


def _elementary_span(record: ElementaryFunction, a: float, b: float) -> Ends:
    if record.number is None or not record.shape:
        low, high = (float(v) for v in record.values)
        exact = all(v.is_Integer for v in record.values)
        return (low, high) if record.whole and exact else _outwards(low, high) if record.whole else _ANY
    if not record.whole and not (a > record.domain[0] and (b < record.domain[1] or record.domain[1] == sp.oo)):
        return _ANY
    if record.shape in ("valley", "hill"):
        far, near = max(abs(a), abs(b)), 0.0 if a <= 0 <= b else min(abs(a), abs(b))
        a, b = near, far
    ends = [record.number(v) for v in (a, b)]
    return _outwards(min(ends), max(ends))


def _times(one: Ends, other: Ends) -> Ends:
    products = [0.0 if a == 0 or b == 0 else a * b for a in one for b in other]  # 0 times any finite value is 0
    return _outwards(min(products), max(products))


def _power_span(expr: sp.Pow, base: Ends) -> Ends:
    n, (a, b) = expr.exp, base
    if n < 0:
        if a <= 0 <= b:
            return (0.0, math.inf) if n.is_Integer and n.is_even else _ANY
        n, (a, b) = -n, _outwards(1 / b, 1 / a)
    if n.is_Integer and n.is_even and a < 0:
        a, b = (0.0 if b >= 0 else -b), max(-a, b)
    if a < 0 and not n.is_Integer:
        return _ANY
    try:
        return _outwards(*(math.copysign(abs(v) ** float(n), v) for v in (a, b)))
    except OverflowError:
        return _ANY


def _is_core(e: sp.Expr, x: sp.Symbol) -> bool:
    """Whether `e` is a rational function of x or the exponential of a polynomial."""
    return e.is_rational_function(x) or (isinstance(e, sp.exp) and e.args[0].is_polynomial(x))


def _extremes(expr: sp.Expr, x: sp.Symbol, low: float, high: float) -> Ends | None:
    """The range of N/D·e^u, polynomials with rational coefficients: its extrema are real roots of N′D - ND′ + NDu′."""
    factors = sp.Mul.make_args(expr)
    if not all(_is_core(f, x) for f in factors):
        return None
    u = sp.Add(*[f.args[0] for f in factors if isinstance(f, sp.exp)])
    fraction = sp.Mul(*[f for f in factors if not isinstance(f, sp.exp)])
    n, d, u = (_rational_poly(e, x) for e in (*sp.fraction(sp.together(fraction)), u))
    if n is None or d is None or u is None:
        return _near_extremes(expr, x, low, high)
    ends = [None if math.isinf(v) else sp.Rational(v) for v in (low, high)]
    if d.count_roots(*ends):
        return None
    derivative = n.diff(x) * d - n * d.diff(x) + n * d * u.diff(x)
    if derivative.degree() > 2 * _DEGREE:
        return None
    values = [_value_at(n, d, u, e, e) if e is not None else _limit(n, d, u, side) for e, side in zip(ends, (-1, 1))]
    if not derivative.is_zero and not derivative.is_ground:
        for (a, b), _ in derivative.intervals(eps=sp.Rational(1, 10**12)):
            if (ends[0] is None or b >= ends[0]) and (ends[1] is None or a <= ends[1]):
                values.append(_value_at(n, d, u, a, b))
    return _outwards(min(v[0] for v in values), max(v[1] for v in values))


def _rational_poly(e: sp.Expr, x: sp.Symbol) -> sp.Poly | None:
    try:
        p = sp.Poly(e, x, domain="QQ")
    except (sp.PolynomialError, sp.CoercionFailed):
        return None
    return p if p.degree() <= _DEGREE else None


_DEGREE = 24


def _value_at(n: sp.Poly, d: sp.Poly, u: sp.Poly, a: sp.Rational, b: sp.Rational) -> Ends:
    """An interval that holds N/D·e^u on [a, b], a point or a tiny interval."""
    top, bottom, power = (_poly_span(p, a, b) for p in (n, d, u))
    if bottom[0] <= 0 <= bottom[1]:
        return _ANY
    grown = _outwards(*(math.inf if v > 700 else math.exp(v) for v in power))
    return _times(_times(top, _outwards(1 / bottom[1], 1 / bottom[0])), grown)


def _poly_span(p: sp.Poly, a: sp.Rational, b: sp.Rational) -> Ends:
    """p on [a, b]: the value in the middle ± half the width times a bound of |p′|, exactly."""
    middle, reach = (a + b) / 2, max(abs(a), abs(b))
    slope = sum((abs(c) * k * reach ** (k - 1) for (k,), c in p.terms() if k), sp.S.Zero)
    centre, spread = p.eval(middle), slope * (b - a) / 2
    return _outwards(float(centre - spread), float(centre + spread))


def _limit(n: sp.Poly, d: sp.Poly, u: sp.Poly, side: int) -> Ends:
    """N/D·e^u at ±∞."""
    if n.is_zero:
        return 0.0, 0.0
    sign = 1 if n.LC() * d.LC() * side ** ((n.degree() - d.degree()) % 2) > 0 else -1
    if u.degree() > 0:
        rises = u.LC() * side ** (u.degree() % 2) > 0
        return (sign * math.inf, sign * math.inf) if rises else (0.0, 0.0)
    if n.degree() > d.degree():
        return sign * math.inf, sign * math.inf
    value = float(n.LC() / d.LC()) if n.degree() == d.degree() else 0.0
    scale = math.exp(float(u.nth(0))) if u.nth(0) < 700 else math.inf
    return _outwards(value * scale, value * scale)


def _near_extremes(expr: sp.Expr, x: sp.Symbol, low: float, high: float) -> Ends | None:
    """The range of a polynomial with irrational coefficients, between two polynomials with rational ones."""
    if not expr.is_polynomial(x):
        return None
    p = sp.Poly(expr, x)
    if p.degree() > _DEGREE or not all(c.is_number and c.is_real for c in p.coeffs()):
        return None
    if low < 0 < high:
        left, right = _near_extremes(expr, x, low, 0.0), _near_extremes(expr, x, 0.0, high)
        return None if left is None or right is None else (min(left[0], right[0]), max(left[1], right[1]))
    sign = 1 if high > 0 else -1
    near, slack = sp.S.Zero, sp.S.Zero
    for (k,), c in p.terms():  # |x|^k = (sign x)^k
        q = sp.Rational(str(sp.N(c, 40)))
        near, slack = near + q * x**k, slack + abs(q) * sp.Rational(1, 10**30) * (sign * x) ** k
    under, over = (_extremes(sp.expand(e), x, low, high) for e in (near - slack, near + slack))
    return None if under is None or over is None else (under[0], over[1])


def dominated(expr: sp.Expr, x: sp.Symbol, low: float, high: float) -> float:
    """A bound of |product| on one side of 0, with factors that die replaced by the exponential above them: sech u ≤ 2
    e^{-|u|}, σ(u) and softplus(u) ≤ e^u. Infinite where that does not bound it."""
    core, others = sp.S.One, 1.0
    for f in sp.Mul.make_args(expr):
        base, n = (f.base, f.exp) if f.is_Pow and f.base is not sp.E and f.exp.is_Integer and f.exp > 0 else (f, 1)
        above = _above(base, x, high > 0)
        if above is not None:
            core *= above**n
        elif _is_core(f, x):
            core *= f
        elif (below := _below(f, x, low, high)) is not None:
            core /= below
        else:
            others *= max(map(abs, span(f, x, low, high)))
    size = max(map(abs, span(sp.powsimp(core), x, low, high)))
    return size * others if size > 0 else 0.0


def root_of_power(expr: sp.Expr, x: sp.Symbol, low: float, high: float) -> float:
    """A bound of a product with roots, as z/√(1 + z²): its k-th power is rational. Infinite where that fails."""
    factors = sp.Mul.make_args(expr)
    roots = [f for f in factors if _is_core(f, x) or (f.is_Pow and f.exp.is_Rational and _is_core(f.base, x))]
    k = math.lcm(*[f.exp.q for f in roots if f.is_Pow and f.exp.is_Rational])
    if not 1 < k < 5:
        return math.inf
    size = max(map(abs, span(sp.Mul(*[f**k for f in roots]), x, low, high))) ** (1 / k)
    for f in factors:
        if f not in roots:
            size *= max(map(abs, span(f, x, low, high)))
    return math.inf if math.isnan(size) else size


def _below(f: sp.Expr, x: sp.Symbol, low: float, high: float) -> sp.Expr | None:
    """For f = (polynomial + bounded)^{-n}: a positive rational function below 1/f."""
    if not (f.is_Pow and f.exp.is_Integer and f.exp < 0 and f.base.is_Add):
        return None
    smooth, rest = (sp.Add(*[a for a in f.base.args if _is_core(a, x) is core]) for core in (True, False))
    least = span(rest, x, low, high)[0]
    if math.isinf(least):
        return None
    below = smooth + sp.Rational(least)
    return below ** (-f.exp) if span(below, x, low, high)[0] > 0 else None


def _above(e: sp.Expr, x: sp.Symbol, right: bool) -> sp.Expr | None:
    """An exponential above a factor that dies on this side."""
    record = elementary_of(e)
    if record is None or _is_core(e, x) or not record.bends or not e.args[0].is_polynomial(x):
        return None
    u = e.args[0]
    lead = sp.Poly(u, x).LC() * (1 if right else -1) ** sp.Poly(u, x).degree()
    way = 1 if lead.is_positive else -1 if lead.is_negative else 0
    end = record.end(way) if way else None
    if not isinstance(end, EndBehavior) or end.limit(u) != 0:
        return None
    return end.size * sp.exp(-way * end.rate * u)
