r"""Series in l^p (log l)^r (log log l)^s with exact coefficients, l → ∞: products, powers, differences, their inverses.

A series is a dictionary from keys to coefficients. p is kept as a pair (a, b), a rational and b = 0 or a sum of
irrational numbers (`exponents`; one number λ times a rational where a ring has no `basis`). `Ring` says down to which
key terms are kept and remembers the largest one that it left out.

Source: derived here. The inverse of a difference is Euler and Maclaurin's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError
from meanfield.symbolic.series.coefficients import ONE, ZERO, Atoms, Exact, expression, of
from meanfield.symbolic.series.exponents import NO_POWER, Basis, NoHigherOrder, Span

Part = Any  # fmpq or Span; 0 is the fmpq
Key = tuple[fmpq, Part, fmpq, int]  # (a, b, r, s) of l^{a + b} (log l)^r (log log l)^s
Size = tuple[fmpq, fmpq, int]
Series = dict[Key, Exact]

ORDER_ONE: Key = (NO_POWER, NO_POWER, NO_POWER, 0)
MOST = 400  # terms of one series
MANY = fmpq(MOST)  # logarithms, more than any term has
MOST_MONOMIALS = 20_000  # of all its coefficients
NEAR = fmpq(1, 10**30)  # of two irrational exponents that differ, beyond which 60 digits do not order what follows


class TooLong(MeanFieldError):
    """A series outgrew what is worked out."""

    def __init__(self) -> None:
        super().__init__(f"A series at large depth has more than {MOST} terms or {MOST_MONOMIALS} monomials.")


def key(p: int | fmpq) -> Key:
    """l^p for a rational p."""
    return fmpq(p), NO_POWER, NO_POWER, 0


def times(a: Key, b: Key) -> Key:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]


def over(a: Key, b: Key) -> Key:
    return a[0] - b[0], a[1] - b[1], a[2] - b[2], a[3] - b[3]


def any_logs(p: int | fmpq | None) -> Key | None:
    """What covers l^p times every power of log l; None for nothing."""
    return None if p is None else (fmpq(p), NO_POWER, MANY, 0)


def shifted(remainder: Key | None, by: Key) -> Key | None:
    """What is left out, times l^…: l^p times every power of log l stays that."""
    if remainder is None:
        return None
    a, b, r, s = times(remainder, by)
    return (a, b, MANY, 0) if MANY in (remainder[2], by[2]) else (a, b, r, s)


def plus(*series: Series) -> Series:
    out: Series = {}
    for one in series:
        for k, c in one.items():
            total = out[k] + c if k in out else c
            if total:
                out[k] = total
            else:
                out.pop(k, None)
    return out


def scaled(a: Series, c: Exact, shift: Key = ORDER_ONE) -> Series:
    """c l^… times a series."""
    if c.terms == ONE.terms:
        return {times(k, shift): x for k, x in a.items()} if shift != ORDER_ONE else a
    return {times(k, shift): x * c for k, x in a.items()} if c else {}


@dataclass
class Ring:
    """Series of relative size down to l^-floor and (log l)^-depth; `lost` is the key of the largest term left out.

    basis: the irrational numbers of exponents; irrational: the one there is, λ, with its value to 60 digits, where b
    is a rational that multiplies it.
    """

    atoms: Atoms
    floor: fmpq
    depth: fmpq
    irrational: sp.Expr | None = None
    value: fmpq = field(default_factory=lambda: fmpq(0))
    lost: Key | None = None
    basis: Basis | None = None
    most: int = MOST

    def worth(self, b: Part) -> fmpq:
        """The irrational part of an exponent as a rational that agrees with it to 60 digits."""
        if isinstance(b, Span):
            assert self.basis is not None
            return self.basis.value(b)
        irrational: fmpq = b * self.value if b else b
        return irrational

    def size(self, k: Key) -> Size:
        """What orders terms."""
        return (k[0] + self.worth(k[1]) if k[1] != 0 else k[0]), k[2], k[3]

    def with_floor(self, floor: fmpq, depth: fmpq) -> Ring:
        return Ring(self.atoms, floor, depth, self.irrational, self.value, None, self.basis)

    def exponent(self, a: fmpq, b: Part) -> Exact:
        """a + b as a coefficient."""
        if isinstance(b, Span):
            assert self.basis is not None
            named = [self.atoms.of(self.basis.names[i]).scaled(c) for i, c in b.parts]
            return sum(named, of(a))
        return of(a) + self.atoms.of(self.irrational).scaled(b) if b != 0 else of(a)

    def inverse(self, a: fmpq, b: Part) -> Exact:
        """1/(a + b). Raises: NoHigherOrder where 60 digits hardly tell it from 1/0."""
        if isinstance(b, Span):
            assert self.basis is not None
            if abs(a + self.worth(b)) < NEAR:
                number = self.basis.expr(a, b)
                raise NoHigherOrder(
                    f"Further terms were asked for where two exponents differ by {number}, less than 1e-30; no order "
                    "of what follows is derived there."
                )
            return self.atoms.of(1 / self.basis.expr(a, b))
        if b == 0:
            return of(1 / a)
        return self.atoms.of(1 / (expression(a) + expression(b) * self.irrational))

    def keeps(self, k: Key) -> bool:
        """Whether a term is worked out; the largest that is not is remembered."""
        size = self.size(k)
        if size[0] >= -self.floor and size[1] >= -self.depth:
            return True
        self.lost = self.largest(self.lost, k)
        return False

    def largest(self, *keys: Key | None) -> Key | None:
        """The key of the largest size; None stands for nothing."""
        return max((k for k in keys if k is not None), key=self.size, default=None)

    def above(self, a: Series, k: Key | None) -> Series:
        """The terms larger than l^… of a key."""
        if k is None:
            return a
        edge = self.size(k)
        return {j: c for j, c in a.items() if self.size(j) > edge}

    def cut(self, a: Series) -> Series:
        return {k: c for k, c in a.items() if self.keeps(k)}

    def product(self, a: Series, b: Series) -> Series:
        out: Series = {}
        for k, x in a.items():
            for j, y in b.items():
                new = times(k, j)
                if self.keeps(new):
                    out[new] = out[new] + x * y if new in out else x * y
            if len(out) > self.most or sum(len(c.terms) for c in out.values()) > MOST_MONOMIALS:
                raise TooLong
        return {k: c for k, c in out.items() if c}

    def powers(self, a: Series, most: int | None = None) -> list[Series]:
        """a, a², … while something of them is kept, `most` of them; every term of a must vanish as l → ∞."""
        out: list[Series] = []
        part = self.cut(a) if most != 0 else {}
        while part:
            out.append(part)
            if len(out) == most:
                break
            if len(out) > self.most:
                raise TooLong
            part = self.product(part, a)
        return out

    def composed(self, powers: list[Series], coefficient: Callable[[int], Exact]) -> Series:
        """Σ_{j ≥ 0} coefficient(j) a^j from the powers of a."""
        return plus({ORDER_ONE: coefficient(0)}, *[scaled(p, coefficient(j)) for j, p in enumerate(powers, 1)])

    def derivative(self, a: Series, base: Key = ORDER_ONE) -> Series:
        """d/dl of base·a, over base."""
        out: Series = {}

        def put(k: Key, c: Exact) -> None:
            if c and self.keeps(k):
                out[k] = out[k] + c if k in out else c

        for k, c in a.items():
            p, b, r, s = times(k, base)
            one = (k[0] - 1, k[1], k[2], k[3])
            put(one, c * self.exponent(p, b))
            put((one[0], one[1], k[2] - 1, k[3]), c.scaled(r))
            if s:
                put((one[0], one[1], k[2] - 1, k[3] - 1), c.scaled(fmpq(s)))
        return {k: c for k, c in out.items() if c}

    def solved(self, rhs: Series, slope: tuple[fmpq, Part] = (NO_POWER, NO_POWER), logs: fmpq = NO_POWER) -> Series:
        """x with l x′ + slope·x + logs·x/log l = rhs, without solutions of the equation with 0: where l^p is one, a
        logarithm enters."""
        out: Series = {}
        todo = dict(rhs)
        while todo:
            k = max(todo, key=self.size)
            c = todo.pop(k)
            if not c:
                continue
            p, b, r, s = k
            a, n = p + slope[0], b + slope[1]
            if a != 0 or n != 0:
                if not self.keeps(k):
                    continue
                x = c * self.inverse(a, n)
                _put(out, k, x)
                _put(todo, (p, b, r - 1, s), x.scaled(-(r + logs)))
            else:
                rise = r + 1 + logs
                if rise != 0:
                    x = c.scaled(1 / rise)
                    new: Key = (p, b, r + 1, s)
                else:
                    x = c.scaled(fmpq(1, s + 1))
                    new = (p, b, r + 1, s + 1)
                if not self.keeps(new):
                    continue
                _put(out, new, x)
                if rise == 0:
                    continue
            if s:  # d/dl of (log log l)^s, for the key that x was put at
                _put(todo, (p, b, r - 1 if a != 0 or n != 0 else r, s - 1), x.scaled(fmpq(-s)))
            if len(out) > MOST:
                raise TooLong
        return {k: c for k, c in out.items() if c}

    def summed(self, a: Series) -> Series:
        """Σ_{m<l} of a series in m, up to a constant: ∫ a - a/2 + a′/12 - …"""
        integral = self.solved(scaled(a, ONE, key(1)))
        parts, slope, n = [integral, scaled(a, of(fmpq(-1, 2)))], self.derivative(a), 2
        while slope:
            parts.append(scaled(slope, of(fmpq(int(sp.bernoulli(n).p), int(sp.bernoulli(n).q) * int(sp.factorial(n))))))
            slope, n = self.derivative(self.derivative(slope)), n + 2
        return self.cut(plus(*parts))

    def log1p(self, powers: list[Series]) -> Series:
        """log(1 + a) from the powers of a."""
        return self.composed(powers, lambda j: of(fmpq((-1) ** (j + 1), j)) if j else ZERO)

    def ordered(self, a: Series) -> list[tuple[Key, Exact]]:
        """Its terms, most important first."""
        return sorted(a.items(), key=lambda t: self.size(t[0]), reverse=True)


def _put(series: Series, k: Key, c: Exact) -> None:
    if c:
        series[k] = series[k] + c if k in series else c


def natural(a: fmpq) -> int | None:
    """A whole number ≥ 0 as one; None for others."""
    return int(a.p) if a.q == 1 and a >= 0 else None


def binomial(a: fmpq | Exact, j: int) -> Exact:
    """The coefficient of x^j in (1 + x)^a."""
    a = a if isinstance(a, Exact) else of(a)
    number, out = a.number, ONE
    for i in range(j):
        factor = a - of(fmpq(i)) if number is None else of(number - i)
        out = (out * factor).scaled(fmpq(1, i + 1))
    return out
