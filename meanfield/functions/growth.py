"""What a smooth function does far out: its power part at ±∞, how the remainder dies, and a rigorous bound.

`tail` reads the limit structure off the expression (bounded functions saturate, exponentials die); `Bound` is |f| ≤ A
(1 + |z|)^p e^{c|z|}, the inequality that certified averages cut their tails with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import sympy as sp

from meanfield.functions.elementary import cached, elementary_of, far_out, where
from meanfield.functions.elementary.record import (
    ElementaryFunction,
    EndBehavior,
    ExponentialGrowth,
    LogarithmicGrowth,
    PowerEnd,
    PowerGrowth,
)
from meanfield.functions.ranges import Ends, dominated, root_of_power, span

Interval = tuple[sp.Expr, sp.Expr]


@dataclass(frozen=True)
class TailExpansion:
    """f(z) = power(z) + remainder as z → ±∞.

    `power` is a polynomial in z (None when f has no power-law limit, as sin); `remainder` is "zero", "exponential"
    (smaller than every power), "algebraic" (then `power` is the leading term only, which may be a fractional power) or
    "none".
    """

    power: sp.Expr | None
    remainder: str


ROOM = 150.0  # e^ROOM is the largest factor of an exponential: its fourth power is a double
MOST = 700.0  # beyond, an exponential is no double
LEAST = 1e-300  # stands for what is less
HUGE = 1e100  # times the factor of a bound that grows: one that does not is no better



def tail(expr: sp.Expr, x: sp.Symbol, side: int) -> TailExpansion:
    """The power part of a smooth `expr` as x → +∞ (`side` = 1) or -∞ (`side` = -1)."""
    t = sp.Dummy("t", positive=True)
    flipped = expr.subs(x, side * t)
    reduced, dropped = _saturate(flipped, t)
    if reduced is None:
        return TailExpansion(None, "none")
    reduced = sp.expand(reduced)
    if reduced.is_polynomial(t):
        power = sp.expand(reduced.subs(t, side * x))
        return TailExpansion(power, "exponential" if dropped else "zero")
    if reduced.has(*where("exponential_like")):
        return TailExpansion(None, "none")
    lead = _leading(reduced, t)
    if lead is None:
        return TailExpansion(None, "none")
    return TailExpansion(lead.subs(t, side * x), "algebraic")


def _leading(expr: sp.Expr, t: sp.Symbol) -> sp.Expr | None:
    """The leading term c t^s of an algebraic function as t → ∞, or None."""
    w = sp.Dummy("w", positive=True)
    try:
        inner = sp.together(far_out(expr.subs(t, 1 / w), w))
        c, s = inner.leadterm(w)
    except (ValueError, NotImplementedError, TypeError, sp.PoleError):
        return None
    return c * t ** (-s) if not sp.sympify(c).has(w) and not sp.sympify(c).has(sp.log) else None


def _direction(u: sp.Expr, t: sp.Symbol) -> int | None:
    """Sign of the infinite limit of a polynomial-like u(t), 0 when u stays finite, None when unknown."""
    if not u.has(t):
        return 0
    if u.is_polynomial(t):
        lead = sp.Poly(u, t).LC()
    else:
        lead = _leading(u, t)
        if lead is None:
            return None
        if sp.limit(lead, t, sp.oo).is_finite:
            return 0
        lead = lead.subs(t, 1)
    return 1 if lead.is_positive else -1 if lead.is_negative else None


def _saturate(expr: sp.Expr, t: sp.Symbol) -> tuple[sp.Expr | None, bool]:
    """`expr` with exponentially small parts dropped, and whether any were; (None, _) when it has no limit structure."""
    if not expr.args or not expr.has(t):
        return expr, False
    parts = [_saturate(a, t) for a in expr.args]
    if any(p is None for p, _ in parts):
        return None, True
    args = [p for p, _ in parts]
    dropped = any(d for _, d in parts)
    u = args[0]
    head, record = expr.func, elementary_of(expr)
    if record is not None and record.exponential_like:
        way = _direction(sp.expand(u), t)
        if way == 0:
            return head(u), dropped
        end = record.end(way) if way else None
        return (end.limit(u), True) if isinstance(end, EndBehavior) else (None, True)
    if head is sp.Mul and any(a == 0 for a in args):
        return sp.S.Zero, True
    return head(*args), dropped


@dataclass(frozen=True)
class Bound:
    """|f(z)| ≤ A (1 + |z|)^p e^{c|z|} for every real z on the stated side (float constants, rounded up)."""

    A: float
    p: float = 0.0
    c: float = 0.0

    def __mul__(self, other: Bound) -> Bound:
        return Bound(_up(self.A * other.A), _rate(self.p + other.p), _rate(self.c + other.c))

    def __add__(self, other: Bound) -> Bound:
        return Bound(_up(self.A + other.A), max(self.p, other.p), max(self.c, other.c))

    def __pow__(self, n: float) -> Bound:
        try:
            size = self.A**n
        except OverflowError:
            size = math.inf
        return Bound(_up(size), _rate(self.p * n), _rate(self.c * n))


def _rate(value: float) -> float:
    """Rounded up unless it is a small whole number, which the sum or product of whole ones is exactly."""
    return value if value.is_integer() else _up(value)


def _up(value: float) -> float:
    return value * (1 + 1e-12) if value > 0 else value


def _mag(e: sp.Expr) -> float:
    return abs(float(sp.N(e, 20))) * (1 + 1e-15)


@cached(4096)
def bound(expr: sp.Expr, x: sp.Symbol, side: int = 0, ends: Interval | None = None) -> Bound | None:
    """A rigorous growth bound of a smooth expression for all real x (`side` 0), x ≥ 0 (1) or x ≤ 0 (-1), or between
    `ends`; None where the rules fail. A bounded expression has p = c = 0 wherever `span` or `dominated` sees it by a
    size that is worth it."""
    limits = _ends(side, ends)
    found = _bound_by_rules(expr, x, side, ends)
    if found is not None and not math.isfinite(found.A):
        found = None
    if found is not None and found.p == found.c == 0:
        return found
    size = _largest(map(abs, span(expr, x, *limits)))
    if math.isinf(size) and expr.is_Mul:
        halves = (limits[0], min(limits[1], 0.0)), (max(limits[0], 0.0), limits[1])
        size = _largest(dominated(expr, x, *half) for half in halves if half[0] < half[1])
    if math.isinf(size):
        size = _largest([root_of_power(expr, x, *limits)])
    if found is not None and size > HUGE * found.A:  # its square, and those of sums with it, would be no doubles
        return found
    return found if math.isinf(size) else Bound(_up(size))


def _largest(sizes: Iterable[float]) -> float:
    """The largest, at least `LEAST`, for what is 0 may be less than a double holds; ∞ where one is 0 times ∞."""
    found = list(sizes)
    return math.inf if any(map(math.isnan, found)) else max([*found, LEAST])


def _ends(side: int, ends: Interval | None) -> Ends:
    """The interval as doubles, rounded outwards."""
    low, high = (-math.inf if side != 1 else 0.0, math.inf if side != -1 else 0.0)
    if ends is None:
        return low, high
    a, b = (float(sp.N(e, 20)) if e.is_number else None for e in map(sp.sympify, ends))
    return (low if a is None else a - 1e-15 * abs(a)), (high if b is None else b + 1e-15 * abs(b))


def _bound_by_rules(expr: sp.Expr, x: sp.Symbol, side: int, ends: Interval | None) -> Bound | None:
    if not expr.has(x):
        return Bound(_mag(expr)) if expr.is_number else None
    if expr == x:
        return Bound(1.0, 1.0)
    if expr.is_Add:
        return _fold(Bound.__add__, [bound(a, x, side, ends) for a in expr.args])
    if expr.is_Mul:
        return _fold(Bound.__mul__, [bound(a, x, side, ends) for a in expr.args])
    if expr.is_Pow and expr.base is not sp.E:
        return _power_bound(expr, x, side, ends)
    return _elementary_bound(expr, x, side, ends)


def _fold(operation: Callable[[Bound, Bound], Bound], bounds: list[Bound | None]) -> Bound | None:
    known = [b for b in bounds if b is not None]
    if len(known) < len(bounds):
        return None
    total = known[0]
    for b in known[1:]:
        total = operation(total, b)
    return total


def _power_bound(expr: sp.Pow, x: sp.Symbol, side: int, ends: Interval | None) -> Bound | None:
    if not expr.exp.is_number:
        return None
    n = float(expr.exp)
    if n > 0:
        base = bound(expr.base, x, side, ends)
        return None if base is None else base**n
    low, high = span(expr.base, x, *_ends(side, ends))
    least = low if low > 0 else -high
    return Bound(_up((1 / least) ** (-n))) if least > 0 else None


def _elementary_bound(expr: sp.Expr, x: sp.Symbol, side: int, ends: Interval | None) -> Bound | None:
    u, head = expr.args[0], elementary_of(expr)
    if head is None:
        return None
    if head.growth is None:
        size = max(map(abs, head.values))
        return Bound(float(size) if size.is_Integer else _up(_mag(size))) if size.is_finite else None
    inner = bound(u, x, side, ends)
    if inner is None:
        return None
    match head.growth:
        case PowerGrowth(constant, factor, power):
            grown = Bound(factor) * inner**power if power != 1 or factor != 1 else inner
            return Bound(constant) + grown if constant else grown
        case ExponentialGrowth(signs):
            return _fold(Bound.__add__, [_exp_bound(s * u, x, side, ends) for s in signs])
        case LogarithmicGrowth():
            least = lower(u, x, side, ends)
            if least is None or least <= 0:
                return None
            # log(A (1+|z|)^p e^{c|z|}) ≤ |log A| + (p + c)|z|
            return Bound(_up(abs(math.log(least)) + abs(math.log(inner.A)) + inner.p + inner.c), 1.0)
    raise AssertionError(head.growth)


def _exp_bound(u: sp.Expr, x: sp.Symbol, side: int, ends: Interval | None) -> Bound | None:
    """e^u: constant where u is bounded above; with the slope of u where that is linear; else u ≤ A (1 + |x|) by its own
    bound."""
    above = span(u, x, *_ends(side, ends))[1]
    if above < 700:
        return Bound(_up(math.exp(above)))
    if u.is_polynomial(x) and sp.Poly(u, x).degree() == 1:
        b, c = (sp.Poly(u, x).nth(k) for k in (1, 0))
        if not (b.is_number and c.is_number):
            return None
        b, c = float(sp.N(b, 20)), float(sp.N(c, 20))
        rate = max(b, 0.0) if side == 1 else max(-b, 0.0) if side == -1 else abs(b)
        return Bound(_up(math.exp(c)), 0.0, _up(rate)) if c < 700 else None
    if u.is_Add:
        polynomial = [a for a in u.args if a.is_polynomial(x)]
        rest = [a for a in u.args if not a.is_polynomial(x)]
        if polynomial and rest:
            return _fold(Bound.__mul__, [_exp_bound(sp.Add(*part), x, side, ends) for part in (polynomial, rest)])
    size = bound(u, x, side, ends)
    if size is None or size.p > 1 or size.c > 0 or size.A >= 700:
        return None
    return Bound(_up(math.exp(size.A)), 0.0, size.A)


def lower(expr: sp.Expr, x: sp.Symbol, side: int = 0, ends: Interval | None = None) -> float | None:
    """A number below `expr` for every real x on the stated side, None where the rules fail."""
    least = span(expr, x, *_ends(side, ends))[0]
    return None if least == -math.inf else least


@dataclass(frozen=True)
class ExponentialDecay:
    """|f(t) - power(t)| ≤ A (1 + t)^p e^{-c t} for t ≥ 1; A = 0 when f is its power part."""

    power: sp.Expr
    A: float = 0.0
    p: float = 0.0
    c: float = math.inf

    def plus(self, other: ExponentialDecay) -> ExponentialDecay:
        return ExponentialDecay(
            sp.expand(self.power + other.power), _up(self.A + other.A), max(self.p, other.p), min(self.c, other.c)
        )

    def times(self, other: ExponentialDecay, t: sp.Symbol) -> ExponentialDecay | None:
        a, b = bound(self.power, t, 1), bound(other.power, t, 1)
        if a is None or b is None:
            return None
        size = a.A * other.A + b.A * self.A + self.A * other.A
        if not math.isfinite(size):
            return None
        return ExponentialDecay(
            sp.expand(self.power * other.power),
            _up(size),
            max(a.p + other.p, b.p + self.p, self.p + other.p),
            min(self.c, other.c),
        )

    def largest(self) -> float:
        """A bound of the remainder over t ≥ 1."""
        if self.A == 0:
            return 0.0
        best = max(1.0, self.p / self.c - 1) if self.c > 0 else math.inf
        return _up(self.A * (1 + best) ** self.p * math.exp(-self.c * best))


def decay(expr: sp.Expr, t: sp.Symbol, algebraic: bool = False) -> ExponentialDecay | None:
    """The power part of a smooth expression as t → +∞ with a rigorous exponential remainder; None where the rules do
    not reach.

    algebraic: what is left when the exponentially small part is gone may be any function without exponentials (z/(1+z),
    atan), not only a polynomial.
    """
    if not expr.has(t) or expr == t:
        return ExponentialDecay(expr)
    if algebraic and not expr.has(*where("exponential_like")):
        return ExponentialDecay(expr)
    if expr.is_Add or expr.is_Mul or (expr.is_Pow and expr.exp.is_Integer and expr.exp > 0):
        total: ExponentialDecay | None = None
        for a in expr.args if not expr.is_Pow else [expr.base] * int(expr.exp):
            part = decay(a, t, algebraic)
            if part is None:
                return None
            total = part if total is None else total.plus(part) if expr.is_Add else total.times(part, t)
            if total is None:
                return None
        return total
    if len(expr.args) != 1:
        return None
    inner = decay(expr.args[0], t, algebraic)
    head = elementary_of(expr)
    if inner is None or head is None:
        return None
    if algebraic and isinstance(head.right, PowerEnd) and head.steepest is not None and inner.power.has(t):
        return ExponentialDecay(expr.func(inner.power), _up(inner.A * head.steepest), inner.p, inner.c)
    return _elementary_decay(head, inner, t)


def _elementary_decay(head: ElementaryFunction, u: ExponentialDecay, t: sp.Symbol) -> ExponentialDecay | None:
    if not u.power.has(t):  # tanh(softplus(z)) at -∞: the argument itself approaches a constant
        if head.function is sp.exp:
            limit = float(u.power) + u.largest()
            return ExponentialDecay(sp.exp(u.power), _up(u.A * math.exp(limit)), u.p, u.c) if limit < 500 else None
        if head.steepest is None or not u.power.is_real:
            return None
        return ExponentialDecay(head.function(u.power), _up(u.A * head.steepest), u.p, u.c)
    slope, offset = _least_slope(u.power, t)
    if slope is None:
        return None
    end, k, apart = head.end(1 if slope > 0 else -1), abs(slope), offset + u.largest()
    if not isinstance(end, EndBehavior):
        return None
    # |u| ≥ k t - apart, so e^{-|u|} ≤ e^{apart - k t}
    size, rate, exponent = float(end.size), end.rate * k, end.rate * apart
    if exponent > ROOM and head.growth is None:  # a bounded function is no farther from its limit than its values are
        low, high = (float(v) for v in head.values)  # apart, so that a smaller rate serves as well
        size, rate, exponent = max(size, _up(high - low)), rate * (ROOM / exponent) * (1 - 1e-12), ROOM
    if exponent > MOST:
        return None
    own = ExponentialDecay(end.limit(u.power), _up(size * math.exp(exponent)), 0.0, rate)
    follows = abs(sp.expand(end.limit(_U)).coeff(_U))  # how much of a change of u the limit takes over
    return (
        own if u.A == 0 or follows == 0 else own.plus(ExponentialDecay(sp.S.Zero, _up(float(follows) * u.A), u.p, u.c))
    )


_U = sp.Dummy("u", real=True)


def _least_slope(power: sp.Expr, t: sp.Symbol) -> tuple[float | None, float]:
    """(k, b) with |power(t)| ≥ |k| t - b for t ≥ 1 and the sign of k that of power; (None, 0) if the rules fail."""
    if not power.is_polynomial(t) or not power.has(t):
        return None, 0.0
    poly = sp.Poly(power, t)
    coefficients = [float(c) for c in poly.all_coeffs()]
    sign = 1.0 if coefficients[0] > 0 else -1.0
    rising = [sign * c for c in coefficients[:-1]]
    if any(c < 0 for c in rising):
        return None, 0.0
    return sign * sum(rising) * (1 - 1e-12), max(0.0, -sign * coefficients[-1])
