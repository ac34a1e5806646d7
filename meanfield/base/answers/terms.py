"""The terms of an asymptotic sum, and from where on they fall in the order in which they stand.

A law says what happens as x → ∞, and nothing of where that begins: 14.3 - 3.5·10⁵/x + 4.6·10¹¹ log x/x² is about 14.3
at x = 10⁸ and 10⁷ at x = 100. Source: derived here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import sympy as sp

from meanfield.base.errors import MeanFieldError

Size = tuple[float, float, float, tuple[tuple[float, float], ...]]  # log|c|, p, q, ((rate, power), …)
FAR = 700.0  # log x up to which exponentials are looked at
STEPS = 4000
LATE = 0.1  # of the first term: where the last one is larger, before the onset, the sum is no value
DEEP = 100  # from which on an onset is printed, and no value given below it: beyond the depth of most networks


@dataclass(frozen=True)
class Term:
    """coefficient · x^power · log(x)^logs · exp(rate · x^rate_power + Σ r · x^s), slower holding the pairs (r, s) of
    lower powers s.

    >>> [t.expr(sp.Symbol("l")) for t in derive("tanh").depth_law("K", sigma_w=1, sigma_b=0).law.terms]
    [1/(2*l), 5*log(l)/(24*l**2)]
    """

    coefficient: sp.Expr
    power: sp.Expr = sp.S.Zero
    logs: sp.Expr = sp.S.Zero
    rate: sp.Expr = sp.S.Zero
    rate_power: sp.Expr = sp.S.One
    slower: tuple[tuple[sp.Expr, sp.Expr], ...] = ()

    def expr(self, x: sp.Symbol) -> sp.Expr:
        growth = sp.exp(sp.Add(*[r * x**s for r, s in self.rates]))
        return self.coefficient * x**self.power * sp.log(x) ** self.logs * growth

    @property
    def rates(self) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
        """(rate, power) of every exponential, the fastest first."""
        return (((self.rate, self.rate_power),) if self.rate != 0 else ()) + self.slower

    @property
    def _kind(self) -> tuple[Any, ...]:
        return self.power, self.logs, self.rates

    def times(self, other: Term) -> Term:
        """The product. Raises: MeanFieldError where exponentials of different powers of x meet."""
        if self.rate != 0 != other.rate and self.rate_power != other.rate_power:
            raise MeanFieldError(f"A product of exp({self.rate}*x^{self.rate_power}) and others is no term of a Law.")
        sums: dict[sp.Expr, sp.Expr] = {}
        for r, s in (*self.rates, *other.rates):
            sums[s] = sums.get(s, sp.S.Zero) + r
        return self._with(self.coefficient * other.coefficient, self.power + other.power, self.logs + other.logs, sums)

    def to(self, n: sp.Expr) -> Term:
        """Its n-th power."""
        return self._with(self.coefficient**n, n * self.power, n * self.logs, {s: n * r for r, s in self.rates})

    @staticmethod
    def _with(c: sp.Expr, power: sp.Expr, logs: sp.Expr, rates: dict[sp.Expr, sp.Expr]) -> Term:
        """A term whose exponentials are {power: rate}."""
        live = [(r, s) for s, r in rates.items() if r != 0]
        if not live:
            return Term(c, power, logs)
        (rate, first), *slower = sorted(live, key=lambda pair: -abs(float(pair[1]))) if len(live) > 1 else live
        return Term(c, power, logs, rate, first, tuple(slower))

    def size(self, point: sp.Expr) -> tuple[Any, ...]:
        """Larger means more important as x → point (0 or ∞)."""
        end = -1 if point == 0 else 1
        if not all(e.is_number for e in (self.power, self.logs, *(x for pair in self.rates for x in pair))):
            raise MeanFieldError(f"Which terms of a Law matter is not decided: {self._kind} hold symbols.")
        growth = []
        for rate, power in self.rates:
            sign = 1 if rate > 0 else -1
            growth.append((sign, sign * end * float(power), float(rate)))
        first = growth[0] if growth else (0, 0.0, 0.0)
        return (*first, (*growth[1:], (0, 0.0, 0.0)), end * float(self.power), float(self.logs))


def of_start(s: sp.Basic) -> bool:
    """Whether a symbol is a constant that the start decides: C, or C_X of a quantity X."""
    return isinstance(s, sp.Symbol) and (s.name == "C" or s.name.startswith("C_"))


def little_o(e: sp.Expr) -> sp.Expr:
    """o(e), which SymPy has no class for."""
    return sp.Function("o")(e)


def big_o(e: sp.Expr, x: sp.Symbol, point: sp.Expr) -> sp.Expr:
    """O(e) as x → point."""
    if e.free_symbols != {x} and e.free_symbols:  # a symbolic power
        return sp.Function("O")(e)
    return sp.Order(e, (x, point))


# ---------------------------------------------------------------------------------------------------------- onset


def onset_of(terms: Iterable[Term]) -> float:
    """The least x ≥ 1 from which on every term is at most as large as the one before it; ∞ beyond the doubles.

    terms: without symbols, in the order of their sizes as x → ∞.

    >>> round(onset_of([Term(sp.S(14)), Term(sp.S(-350), sp.S(-1)), Term(sp.S(4600), sp.S(-2))]), 9)
    25.0
    """
    sizes = [_size(t) for t in terms]
    return max([1.0, *(_crossing(a, b) for a, b in itertools.pairwise(sizes))])


def onset_text(onset: float | None, x: sp.Symbol) -> str:
    """An onset as a sentence where it lies deeper than `DEEP`, else nothing."""
    if onset is None or onset <= DEEP:
        return ""
    return f"holds {_beyond(onset, x)}, where each term falls below the one before it"


def onset_mark(onset: float | None, x: sp.Symbol) -> str:
    """The same in the few words that a `repr` has room for, before the law."""
    return "" if onset is None or onset <= DEEP else f"{_beyond(onset, x)}: "


def _beyond(onset: float, x: sp.Symbol) -> str:
    return f"beyond {x} = {min(onset, 1e308):.3g}"


def refuse_before(onset: float, terms: Iterable[Term], value: object, x: sp.Symbol) -> None:
    """Refuse a number at which a sum says nothing yet: below an onset that is printed, where the last term, which says
    how large those are that are left out, is more than `LATE` of the first one.

    Raises: MeanFieldError.
    """
    place = sp.sympify(value)
    if onset <= DEEP or not place.is_number or not place.is_real or place >= onset:
        return
    at = max(float(sp.log(place)), 0.0) if place > 0 else 0.0
    sizes = [_log(_size(t), at) for t in terms]
    if len(sizes) > 1 and sizes[-1] <= sizes[0] + math.log(LATE):
        return
    raise MeanFieldError(
        f"This law holds {_beyond(onset, x)}, but its value at {x} = {float(place):.6g} was asked for. `propagate` "
        "computes each layer; `.expr` is the sum of the terms at every layer."
    )


def _log(size: Size, t: float) -> float:
    """log|term| at log x = t."""
    c, p, q, rates = size
    return c + p * t + (q * math.log(t) if q and t > 0 else 0.0) + sum(r * math.exp(min(s * t, FAR)) for r, s in rates)


def _size(t: Term) -> Size:
    size = abs(sp.N(t.coefficient, 20))
    return float(sp.log(size)), float(t.power), float(t.logs), tuple((float(r), float(s)) for r, s in t.rates)


def _crossing(first: Size, second: Size) -> float:
    """The last x at which the second term is as large as the first; 1 where there is none."""
    c, p, q = (b - a for a, b in zip(first[:3], second[:3]))
    rates = [*second[3], *((-r, s) for r, s in first[3])]

    def excess(t: float) -> float:
        """log of their ratio at log x = t > 0."""
        grown = sum(r * math.exp(min(s * t, FAR)) for r, s in rates)
        return c + p * t + q * math.log(t) + grown

    if not any(r for r, _ in rates):
        return _of_powers(c, p, q, excess)
    ts = [FAR * (k / STEPS) ** 2 for k in range(1, STEPS + 1)]
    last = max((k for k, t in enumerate(ts) if excess(t) > 0), default=-1)
    if last < 0:
        return 1.0
    return _exp(_bisected(excess, ts[last], ts[last + 1])) if last + 1 < STEPS else math.inf


def _of_powers(c: float, p: float, q: float, excess: Callable[[float], float]) -> float:
    """The same of powers and logarithms, whose ratio e^c x^p (log x)^q falls beyond log x = -q/p at the latest."""
    if (p, q) == (0, 0):
        return 1.0
    if (p, q) > (0, 0):  # not in the order of their sizes
        return math.inf
    if p == 0:
        return _exp(_exp(-c / q))  # (log x)^q falls
    top = max(-q / p, 0.0)
    if q > 0 and excess(top) <= 0:  # it rises up to there
        return 1.0
    low, high = max(top, 1e-300), max(2 * top, 1.0)
    while excess(high) > 0:
        low, high = high, 2 * high
        if high > 1e300:
            return math.inf
    return _exp(_bisected(excess, low, high))


def _bisected(excess: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(200):
        middle = (low + high) / 2
        if excess(middle) > 0:
            low = middle
        else:
            high = middle
    return high


def _exp(t: float) -> float:
    return math.exp(t) if t < 709 else math.inf
