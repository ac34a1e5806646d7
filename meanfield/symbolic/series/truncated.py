"""Truncated series in l and log l with exact coefficients, times exponentials, each with what it leaves out.

A sequence is ρ^l times a series that is known down to a power of l and of log l; with y for 1/l it is a power series
in y.

Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError
from meanfield.symbolic.series.coefficients import ONE, ZERO, Atoms, Exact, expression, of
from meanfield.symbolic.series.ring import (
    NONE,
    UNIT,
    Key,
    Ring,
    Series,
    any_logs,
    binomial,
    over,
    plus,
    scaled,
    shifted,
)

FAR = any_logs(-8)  # relative power of l down to which a power of a series that is known without end is worked out
MOST_DERIVATIVES = 40
DEPTH = fmpq(6)  # powers of 1/log l that are worked out, where a logarithm leads a denominator
Rate = tuple[fmpq, ...]  # exponents of the bases of exponentials


@dataclass(frozen=True)
class Truncated:
    """ρ^l times a series in l and log l, known down to (excluding) the size of rest, the key of a power of l and of
    log l; None: nothing is left out but what is exponentially smaller."""

    terms: Series
    rest: Key | None = None
    rate: Rate = ()


def leading(series: Truncated) -> tuple[int, Exact]:
    """(k, c) of the term c y^k that leads a series in y = 1/l."""
    top = max(series.terms, key=lambda k: k[0])
    return -int(top[0].p), series.terms[top]


@dataclass
class Calculus:
    """Arithmetic of truncated series, in which no term outlives what is left out.

    atoms: numbers with a name; irrational: λ of exponents a + bλ, value: a rational near it; bases: those of
    exponentials, numbers > 0 other than 1; is_zero: whether a coefficient with atoms is 0; transient: whether what is
    exponentially smaller is left out everywhere.
    """

    atoms: Atoms
    irrational: sp.Expr | None = None
    value: fmpq = field(default_factory=lambda: fmpq(0))
    bases: tuple[sp.Expr, ...] = ()
    is_zero: Callable[[Exact], bool] | None = None
    transient: bool = False

    def ring(self, rest: Key | None) -> Ring:
        floor = fmpq(30) if rest is None else -self.size(rest)
        return Ring(self.atoms, floor, DEPTH, self.irrational, self.value)

    @cached_property
    def order(self) -> Ring:
        """What orders keys."""
        return self.ring(None)

    def size(self, k: Key) -> fmpq:
        """The power of l of a key."""
        return self.order.size(k)[0]

    def edge(self, x: Truncated) -> fmpq | None:
        """The power of l of what is left out; None for nothing."""
        return None if x.rest is None else self.size(x.rest)

    def made(self, terms: Series, rest: Key | None, rate: Rate) -> Truncated:
        """Without the terms that `rest` covers, and those that are 0."""
        kept = {k: c for k, c in self.order.above(terms, rest).items() if not self._nothing(c)}
        return Truncated(kept, rest, rate)

    def _nothing(self, c: Exact) -> bool:
        return not c or (self.is_zero is not None and c.number is None and self.is_zero(c))

    def lead(self, x: Truncated) -> Key | None:
        """The key of its largest term, or what it is known to be below; None for 0."""
        return self.order.largest(*x.terms) or x.rest

    def growth(self, rate: Rate) -> float:
        return sum(float(r.p) / float(r.q) * math.log(float(b)) for r, b in zip(rate, self.bases))

    def base(self, rate: Rate) -> Exact:
        """ρ of ρ^l, as a coefficient."""
        return self.atoms.of(sp.Mul(*[b ** expression(r) for r, b in zip(rate, self.bases)]))

    def compare(self, a: Rate, b: Rate) -> int:
        """Which exponential is larger; equal only where the exponents are."""
        if a == b:
            return 0
        gap = self.growth(a) - self.growth(b)
        if abs(gap) < 1e-9:
            raise MeanFieldError("Which of two exponentials is larger is not decided by the digits known here.")
        return 1 if gap > 0 else -1

    def constant(self, c: Exact) -> Truncated:
        return Truncated({UNIT: c} if c else {}, None, (NONE,) * len(self.bases))

    def plus(self, *parts: Truncated) -> Truncated:
        """A sum: what is exponentially smaller is left out."""
        live = [p for p in parts if p.terms or p.rest is not None]
        if not live:
            return self.constant(ZERO)
        top = live[0].rate
        for p in live[1:]:
            top = p.rate if self.compare(p.rate, top) > 0 else top
        same = [p for p in live if p.rate == top]
        rest = self.order.largest(*[p.rest for p in same])
        total = self.made(plus(*[p.terms for p in same]), rest, top)
        if self.transient and not total.terms:
            raise MeanFieldError("The leading sources of a correlator cancel; what is exponentially smaller decides.")
        return total

    def times(self, a: Truncated, b: Truncated) -> Truncated:
        rate = tuple(x + y for x, y in zip(a.rate, b.rate))
        rests = [shifted(x.rest, lead) for x, y in ((a, b), (b, a)) if (lead := self.lead(y)) is not None]
        rest = self.order.largest(*rests)
        return self.made(self.ring(rest).product(a.terms, b.terms), rest, rate)

    def scaled(self, a: Truncated, c: Exact, shift: Key = UNIT) -> Truncated:
        return Truncated(scaled(a.terms, c, shift), shifted(a.rest, shift), a.rate) if c else self.constant(ZERO)

    def power(self, x: Truncated, n: int) -> Truncated:
        """x^n for a whole number n. Raises: MeanFieldError for 1/0, and where the leading order is not known."""
        if n < 0:
            return self.power(self.real_power(x, fmpq(-1)), -n)
        out = self.constant(ONE)
        for _ in range(n):
            out = self.times(out, x)
        return out

    def real_power(self, x: Truncated, p: fmpq) -> Truncated:
        """x^p; for p ≠ -1 of a series led by 1·l^…, without an exponential.

        Raises: MeanFieldError where the leading order is not known, or is no such power.
        """
        if not x.terms:
            raise MeanFieldError("The leading order of a quantity that is divided by is not known.")
        top, c = self.ring(x.rest).ordered(x.terms)[0]
        if p != -1 and (c.number != 1 or top[2] != 0 or top[3]):
            raise MeanFieldError("Only a plain power of l can lead a power of a series.")
        front = self.atoms.reciprocal(c) if p == -1 else ONE
        small = {over(k, top): v * front for k, v in x.terms.items() if k != top}
        rest = FAR if x.rest is None else shifted(x.rest, over(UNIT, top))
        ring = self.ring(rest)
        series = ring.composed(ring.powers(small), lambda j: binomial(p, j))
        shift: Key = (top[0] * p, top[1] * p, top[2] * p, int((top[3] * p).p))
        exact = not small and x.rest is None
        rate = tuple(r * p for r in x.rate)
        return self.made(scaled(series, front, shift), None if exact else shifted(rest, shift), rate)

    def later(self, x: Truncated, layers: int = 1) -> Truncated:
        """x_{l+1}, or x_{l-1}, of a sequence: Σ x^(j)/j!, and a factor of its exponential."""
        ring = self.ring(x.rest)
        total, part, j = x.terms, x.terms, 0
        while part and j < MOST_DERIVATIVES:
            j += 1
            part = scaled(ring.derivative(part), of(fmpq(layers, j)))
            total = plus(total, part)
        return self.made(scaled(total, self.base(tuple(layers * r for r in x.rate))), x.rest, x.rate)
