r"""Linear difference equations x_{l+1} = m_l x_l + s_l as l → ∞, m and s series in powers of l and log l with exact
coefficients, times exponentials.

A sequence is ρ^l times a series that is known down to a power of l (`DifferenceExpansion`). With x = ρ^l y and m = μ(1
+ h) the equation of y is

    l y′ − a y = l s/μ + (l h − a) y − l (½ y″ + y‴/6 + …),    a = lim l h,

where ρ = μ; put in again and again, each time a power further. l^a solves it without s, with a constant that the start
decides, and a term of the right side with just this power makes a logarithm. Where the source grows faster than μ^l,
y is determined, and where it grows less, it is nothing beside the free solution.

Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError
from meanfield.symbolic.series.coefficients import ONE, ZERO, Atoms, Exact, expression, of
from meanfield.symbolic.series.recurrences import balanced, differences, put_in
from meanfield.symbolic.series.ring import (
    NONE,
    UNIT,
    Key,
    Ring,
    Series,
    binomial,
    key,
    over,
    plus,
    scaled,
)

DEPTH = fmpq(6)  # powers of 1/log l that are worked out, where a logarithm leads a denominator
Rate = tuple[fmpq, ...]  # exponents of the bases of exponentials


class NotFar(Exception):
    """Series that go further are needed."""


@dataclass(frozen=True)
class DifferenceExpansion:
    """ρ^l times a series in l and log l, known down to (excluding) l^rest; None: nothing is left out but what is
    exponentially smaller."""

    terms: Series
    rest: fmpq | None = None
    rate: Rate = ()


@dataclass
class Calculus:
    """Arithmetic of expansions, and the equations between them.

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

    def ring(self, rest: fmpq | None) -> Ring:
        floor = fmpq(30) if rest is None else -rest
        return Ring(self.atoms, floor, DEPTH, self.irrational, self.value)

    def size(self, k: Key) -> fmpq:
        return k[0] + k[1] * self.value if k[1] else k[0]

    def made(self, terms: Series, rest: fmpq | None, rate: Rate) -> DifferenceExpansion:
        """Without the terms that `rest` covers, and those that are 0."""
        kept = {k: c for k, c in terms.items() if (rest is None or self.size(k) > rest) and not self._nothing(c)}
        return DifferenceExpansion(kept, rest, rate)

    def _nothing(self, c: Exact) -> bool:
        return not c or (self.is_zero is not None and c.number is None and self.is_zero(c))

    def lead(self, x: DifferenceExpansion) -> fmpq | None:
        """The largest power of l in it, or what it is known to be below; None for 0."""
        return max((self.size(k) for k in x.terms), default=x.rest)

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

    def constant(self, c: Exact) -> DifferenceExpansion:
        return DifferenceExpansion({UNIT: c} if c else {}, None, (NONE,) * len(self.bases))

    def plus(self, *parts: DifferenceExpansion) -> DifferenceExpansion:
        """A sum: what is exponentially smaller is left out."""
        live = [p for p in parts if p.terms or p.rest is not None]
        if not live:
            return self.constant(ZERO)
        top = live[0].rate
        for p in live[1:]:
            top = p.rate if self.compare(p.rate, top) > 0 else top
        same = [p for p in live if p.rate == top]
        rests = [p.rest for p in same if p.rest is not None]
        total = self.made(plus(*[p.terms for p in same]), max(rests, default=None), top)
        if self.transient and not total.terms:
            raise MeanFieldError("The leading sources of a correlator cancel; what is exponentially smaller decides.")
        return total

    def times(self, a: DifferenceExpansion, b: DifferenceExpansion) -> DifferenceExpansion:
        rate = tuple(x + y for x, y in zip(a.rate, b.rate))
        rests = []
        for x, y in ((a, b), (b, a)):
            lead = self.lead(y)
            if x.rest is not None and lead is not None:
                rests.append(x.rest + lead)
        rest = max(rests, default=None)
        return self.made(self.ring(rest).product(a.terms, b.terms), rest, rate)

    def scaled(self, a: DifferenceExpansion, c: Exact, shift: Key = UNIT) -> DifferenceExpansion:
        rest = None if a.rest is None else a.rest + self.size(shift)
        return DifferenceExpansion(scaled(a.terms, c, shift), rest, a.rate) if c else self.constant(ZERO)

    def power(self, x: DifferenceExpansion, n: int) -> DifferenceExpansion:
        """x^n for a whole number n. Raises: MeanFieldError for 1/0, and where the leading order is not known."""
        if n < 0:
            return self.power(self.inverse(x), -n)
        out = self.constant(ONE)
        for _ in range(n):
            out = self.times(out, x)
        return out

    def inverse(self, x: DifferenceExpansion) -> DifferenceExpansion:
        ring = self.ring(x.rest)
        if not x.terms:
            raise MeanFieldError("The leading order of a quantity that is divided by is not known.")
        top, c = ring.ordered(x.terms)[0]
        front = self.reciprocal(c)
        rest = None if x.rest is None else x.rest - self.size(top)
        small = {over(k, top): v * front for k, v in x.terms.items() if k != top}
        floor = fmpq(-8) if rest is None else rest
        ring = self.ring(floor)
        series = ring.composed(ring.powers(small), lambda j: of(fmpq((-1) ** j)))
        exact = not small and rest is None
        back = tuple(-r for r in x.rate)
        whole = scaled(series, front, over(UNIT, top))
        return self.made(whole, None if exact else floor - self.size(top), back)

    def reciprocal(self, c: Exact) -> Exact:
        return self.atoms.reciprocal(c)

    def real_power(self, x: DifferenceExpansion, p: fmpq) -> DifferenceExpansion:
        """x^p for a series led by 1·l^…, without an exponential."""
        ring = self.ring(x.rest)
        top, c = ring.ordered(x.terms)[0]
        if c.number != 1 or top[2] != 0:
            raise MeanFieldError("Only a plain power of l can lead a power of a series.")
        rest = fmpq(-30) if x.rest is None else x.rest - self.size(top)
        ring = self.ring(rest)
        small = {over(k, top): v for k, v in x.terms.items() if k != top}
        series = ring.composed(ring.powers(small), lambda j: binomial(p, j))
        shift: Key = (top[0] * p, top[1] * p, NONE, 0)
        return self.made(scaled(series, ONE, shift), rest + self.size(shift), x.rate)

    def later(self, x: DifferenceExpansion) -> DifferenceExpansion:
        """x_{l+1} of a sequence without an exponential: Σ x^(j)/j!."""
        ring = self.ring(x.rest)
        total, part, j = x.terms, x.terms, 0
        while part and j < 40:
            j += 1
            part = scaled(ring.derivative(part), of(fmpq(1, j)))
            total = plus(total, part)
        return self.made(total, x.rest, x.rate)

    def earlier(self, x: DifferenceExpansion) -> DifferenceExpansion:
        """x_{l-1}."""
        ring = self.ring(x.rest)
        total, part, j = x.terms, x.terms, 0
        while part and j < 40:
            j += 1
            part = scaled(ring.derivative(part), of(fmpq(-1, j)))
            total = plus(total, part)
        return self.made(scaled(total, self.base(tuple(-r for r in x.rate))), x.rest, x.rate)

    # ------------------------------------------------------------------------------------------------- equations

    def solved(self, m: DifferenceExpansion, s: DifferenceExpansion, free: Callable[[], Exact]) -> DifferenceExpansion:
        """x with x_{l+1} = m_l x_l + s_l, m = μ^l-free: m.rate says which exponential the solution without s has, and
        m.terms are 1 + h. free: the constant of the start, asked for where it is not covered by what is left out."""
        sourceless = not s.terms and s.rest is None
        order = 1 if sourceless else self.compare(m.rate, s.rate)
        if order < 0:
            return self._forced(m, s)
        home = self.home(m)
        if order > 0:  # the source is nothing beside the free solution
            return self._homed(m, self.constant(ZERO), home, free, m.rate)
        return self._homed(m, s, home, free, m.rate)

    def home(self, m: DifferenceExpansion) -> Key:
        """The power l^a of the solution without a source."""
        if m.rest is not None and m.rest >= -1:
            raise NotFar
        unit = m.terms.get(UNIT)
        if unit is None or unit.number != 1:
            raise MeanFieldError("A multiplier was expected to tend to 1.")
        for k in m.terms:
            if k != UNIT and (self.size(k) > -1 or (self.size(k) == -1 and k[2] != 0)):
                raise MeanFieldError("A stretched exponential is no series in powers of l.")
        a = m.terms.get(key(-1), ZERO)
        number = a.number
        if number is not None:
            return key(number)
        linear = self._linear(a)
        if linear is None:
            raise MeanFieldError(f"The power {self.atoms.expr(a)} of l is no number that is known as one here.")
        return linear[0], linear[1], NONE, 0

    def _linear(self, a: Exact) -> tuple[fmpq, fmpq] | None:
        """(a, b) of a + bλ."""
        if self.irrational is None:
            return None
        lam = self.atoms.of(self.irrational)
        (monomial,) = lam.terms
        rest = {k: c for k, c in a.terms.items() if k not in ((), monomial)}
        if rest:
            return None
        return a.terms.get((), fmpq(0)), a.terms.get(monomial, fmpq(0)) / lam.terms[monomial]

    def _homed(
        self, m: DifferenceExpansion, s: DifferenceExpansion, home: Key, free: Callable[[], Exact], rate: Rate
    ) -> DifferenceExpansion:
        """The free solution with the particular one, both ρ^l times series."""
        slow = replace(m, terms={k: c for k, c in m.terms.items() if k != UNIT and k != key(-1)})
        if any(m.rate):
            s = self.scaled(s, self.base(tuple(-r for r in m.rate)))
        rest = s.rest + 1 if s.rest is not None else None
        if m.rest is not None:
            bound = m.rest + 1 + (self.size(home) if not s.terms else max(self.size(home), self.top(s) + 1))
            rest = bound if rest is None else max(rest, bound)
        start: Series = {}
        if rest is None or self.size(home) > rest:
            start = {home: c} if (c := free()) else {}
        x = self._iterated(slow, s, (-home[0], -home[1]), rest, start)
        lead = self.lead(self.made(x, rest, rate))
        if m.rest is not None and lead is not None:
            bound = m.rest + 1 + lead
            rest = bound if s.rest is None else max(s.rest + 1, bound)
        return self.made(x, rest, rate)

    def top(self, s: DifferenceExpansion) -> fmpq:
        """The largest power of l among its terms."""
        return max(self.size(k) for k in s.terms)

    def _iterated(
        self,
        slow: DifferenceExpansion,
        s: DifferenceExpansion,
        slope: tuple[fmpq, fmpq],
        rest: fmpq | None,
        start: Series,
    ) -> Series:
        ring = self.ring(rest)
        source, own = (scaled(one.terms, ONE, key(1)) for one in (s, slow))

        def right(x: Series) -> Series:
            return plus(source, ring.product(own, x), *differences(UNIT, ring, x))

        return balanced(ring, right, slope, free=start)

    def _forced(self, m: DifferenceExpansion, s: DifferenceExpansion) -> DifferenceExpansion:
        """ρ^l y of a source that grows faster: y = (s + (μ/ρ)(1 + h) y − Σ y^(j)/j!)/(1 − μ/ρ), ρ^l s/ρ the source."""
        back = tuple(-r for r in s.rate)
        ratio = self.base(tuple(x + y for x, y in zip(m.rate, back)))
        source = scaled(s.terms, self.base(back))
        front = self.reciprocal(ONE - ratio)
        rest = s.rest
        if m.rest is not None:
            bound = m.rest + self.top(s)
            rest = bound if rest is None else max(rest, bound)
        slow = {k: c * ratio for k, c in m.terms.items() if k != UNIT}
        ring = self.ring(rest)

        def answer(y: Series) -> Series:
            change = plus(self.later(DifferenceExpansion(y, rest, ())).terms, scaled(y, of(fmpq(-1))))
            right = plus(source, ring.product(slow, y), scaled(change, of(fmpq(-1))))
            return self.made(ring.cut(scaled(right, front)), rest, ()).terms  # as `later` has it

        return self.made(put_in(answer, "a sequence"), rest, s.rate)
