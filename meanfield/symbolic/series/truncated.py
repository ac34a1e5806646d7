"""Truncated series in l and log l with exact coefficients, times exponentials, each with what it leaves out.

A sequence is ρ^l times a series that is known down to a power of l and of log l; with y for 1/l it is a power series
in y, and with K or 1/K for l an expansion in K at one of its ends.

Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError
from meanfield.symbolic.series.coefficients import ONE, ZERO, Atoms, Exact, expression, of
from meanfield.symbolic.series.exponents import NO_POWER, Basis
from meanfield.symbolic.series.ring import (
    MANY,
    MOST,
    ORDER_ONE,
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
    """ρ^l times a series in l and log l, known down to (excluding) the size of `remainder`, the key of a power of l and
    of log l; None: nothing is left out but what is exponentially smaller. small: whether that may be, for who asks."""

    terms: Series
    remainder: Key | None = None
    rate: Rate = ()
    small: bool = False


def leading(series: Truncated) -> tuple[int, Exact]:
    """(k, c) of the term c y^k that leads a series in y = 1/l."""
    top = max(series.terms, key=lambda k: k[0])
    return -int(top[0].p), series.terms[top]


@dataclass
class Calculus:
    """Arithmetic of truncated series, in which no term outlives what is left out.

    atoms: numbers with a name; irrational: λ of exponents a + bλ, value: a rational near it; bases: those of
    exponentials, numbers > 0 other than 1; is_zero: whether a coefficient with atoms is 0; transient: whether what is
    exponentially smaller is left out everywhere; basis: the irrational numbers of exponents, where there are several;
    deep: powers of 1/l of a series that is known without end; depth: of 1/log l; most: terms of a series; counted:
    whether every series ends there, and what lies beyond is left out.
    """

    atoms: Atoms
    irrational: sp.Expr | None = None
    value: fmpq = field(default_factory=lambda: fmpq(0))
    bases: tuple[sp.Expr, ...] = ()
    is_zero: Callable[[Exact], bool] | None = None
    transient: bool = False
    basis: Basis | None = None
    deep: fmpq = field(default_factory=lambda: fmpq(30))
    depth: fmpq = DEPTH
    most: int = MOST
    counted: bool = False

    def ring(self, remainder: Key | None = None) -> Ring:
        floor = self.deep if remainder is None or self.counted else -self.size(remainder)
        return Ring(self.atoms, floor, self.depth, self.irrational, self.value, None, self.basis, self.most)

    @cached_property
    def order(self) -> Ring:
        """What orders keys."""
        return self.ring(None)

    def size(self, k: Key) -> fmpq:
        """The power of l of a key."""
        return self.order.size(k)[0]

    def edge(self, x: Truncated) -> fmpq | None:
        """The power of l of what is left out; None for nothing."""
        return None if x.remainder is None else self.size(x.remainder)

    def made(self, terms: Series, remainder: Key | None, rate: Rate, small: bool = False) -> Truncated:
        """Without the terms that `remainder` covers, and those that are 0."""
        kept = {k: c for k, c in self.order.above(terms, remainder).items() if not self._nothing(c)}
        return Truncated(kept, remainder, rate, small)

    def _nothing(self, c: Exact) -> bool:
        return not c or (self.is_zero is not None and c.number is None and self.is_zero(c))

    def below(self, ring: Ring, *rests: Key | None) -> Key | None:
        """The largest of what is left out, by these and, where it is counted, by what was worked out in a ring."""
        return self.order.largest(*rests, ring.lost if self.counted else None)

    def lead(self, x: Truncated) -> Key | None:
        """The key of its largest term, or what it is known to be below; None for 0."""
        return self.order.largest(*x.terms) or x.remainder

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
        return Truncated({ORDER_ONE: c} if c else {}, None, (NO_POWER,) * len(self.bases))

    def plus(self, *parts: Truncated) -> Truncated:
        """A sum: what is exponentially smaller is left out."""
        live = [p for p in parts if p.terms or p.remainder is not None or p.small]
        if not live:
            return self.constant(ZERO)
        top = live[0].rate
        for p in live[1:]:
            top = p.rate if self.compare(p.rate, top) > 0 else top
        same = [p for p in live if p.rate == top]
        remainder = self.order.largest(*[p.remainder for p in same])
        total = self.made(plus(*[p.terms for p in same]), remainder, top, any(p.small for p in live))
        if self.transient and not total.terms:
            raise MeanFieldError("The leading sources of a correlator cancel; what is exponentially smaller decides.")
        return total

    def times(self, a: Truncated, b: Truncated) -> Truncated:
        rate = tuple(x + y for x, y in zip(a.rate, b.rate))
        leads, small = (self.lead(a), self.lead(b)), a.small and b.small
        remainder = None
        for x, lead in zip((b, a), leads):
            if lead is not None:
                remainder, small = self.order.largest(remainder, shifted(x.remainder, lead)), small or x.small
        ring = self.ring(remainder)
        return self.made(ring.product(a.terms, b.terms), self.below(ring, remainder), rate, small)

    def scaled(self, a: Truncated, c: Exact, shift: Key = ORDER_ONE) -> Truncated:
        if not c:
            return self.constant(ZERO)
        return Truncated(scaled(a.terms, c, shift), shifted(a.remainder, shift), a.rate, a.small)

    def power(self, x: Truncated, n: int) -> Truncated:
        """x^n for a whole number n. Raises: MeanFieldError for 1/0, and where the leading order is not known."""
        if n < 0:
            return self.power(self.real_power(x, fmpq(-1)), -n)
        out = self.constant(ONE)
        for _ in range(n):
            out = self.times(out, x)
        return out

    def relative(self, x: Truncated) -> tuple[Key, Exact, Truncated]:
        """(k, c, w) of x = c l^… (1 + w) without an exponential, k the key of l^…, its leading term."""
        top = self.lead(x)
        if top is None or top not in x.terms:
            raise MeanFieldError("The leading order of a quantity that is divided by is not known.")
        c = x.terms[top]
        others = {k: v for k, v in x.terms.items() if k != top}
        w = scaled(others, self.atoms.reciprocal(c) if c.number != 1 else ONE, over(ORDER_ONE, top))
        return top, c, Truncated(w, shifted(x.remainder, over(ORDER_ONE, top)), (NO_POWER,) * len(self.bases), x.small)

    def composed(self, x: Truncated, coefficient: Callable[[int], Exact], reach: fmpq | None = None) -> Truncated:
        """Σ_j coefficient(j) x^j of an x that vanishes as l → ∞. It ends `reach` powers of l down at the least; None:
        where x is known, and `FAR` down where that is everywhere.

        Raises: MeanFieldError where x falls by no power of l, and a reach is given.
        """
        lead = self.lead(x)
        if lead is None:
            return replace(self.constant(coefficient(0)), small=x.small)
        most, first, left = None, 1, FAR if x.remainder is None and not self.counted else None
        if reach is not None:
            gap = -self.size(lead)
            if gap <= 0:
                raise MeanFieldError("A function of a series that does not fall as a power is not expanded.")
            most = int((reach / gap).ceil())
            left = _raised(lead, fmpq(most + 1))
            first = next((j for j in range(1, most + 1) if coefficient(j)), most + 1)
        remainder = self.order.largest(left, shifted(x.remainder, _raised(lead, fmpq(first - 1))))
        ring = self.ring(remainder)
        terms = ring.composed(ring.powers(x.terms, most), coefficient)
        return self.made(terms, self.below(ring, remainder), x.rate, x.small)

    def real_power(self, x: Truncated, p: fmpq | sp.Expr, reach: fmpq | None = None) -> Truncated:
        """x^p, as `composed` ends it; for p ≠ -1 of a series that a power of l leads, an irrational p without an
        exponential.

        Raises: MeanFieldError where the leading order is not known, or is no such power.
        """
        top, c, w = self.relative(x)
        if p != -1 and (top[2] != 0 or top[3]):
            raise MeanFieldError("Only a plain power of l can lead a power of a series.")
        prefactor, n, shift, rate = self.atoms.reciprocal(c) if p == -1 else ONE, p, top, x.rate
        if isinstance(p, fmpq):
            shift, rate = _raised(top, p), tuple(r * p for r in x.rate)
        else:
            assert self.basis is not None
            parts = self.basis.of(p * self.basis.expr(top[0], top[1]))
            n, shift = self.order.exponent(*self.basis.of(p)), (*parts, NO_POWER, 0)
        if p != -1 and c.number != 1:
            prefactor = self.atoms.total(self.atoms.expr(c) ** (expression(p) if isinstance(p, fmpq) else p))
        series = self.composed(w, lambda j: binomial(n, j), reach)
        return replace(self.scaled(series, prefactor, shift), rate=rate)

    def later(self, x: Truncated, layers: int = 1) -> Truncated:
        """x_{l+1}, or x_{l-1}, of a sequence: Σ x^(j)/j!, and a factor of its exponential."""
        ring = self.ring(x.remainder)
        total, part, j = x.terms, x.terms, 0
        while part and j < MOST_DERIVATIVES:
            j += 1
            part = scaled(ring.derivative(part), of(fmpq(layers, j)))
            total = plus(total, part)
        return self.made(scaled(total, self.base(tuple(layers * r for r in x.rate))), x.remainder, x.rate)


def _raised(k: Key, n: fmpq) -> Key:
    """(l^…)^n."""
    return k[0] * n, k[1] * n, MANY if k[2] == MANY and n > 0 else k[2] * n, int((k[3] * n).p)
