r"""Expressions in K and in averages over K as power series with exact coefficients, at K = 0 and at a fixed K*.

A series is Σ c_i y^{first + i}, as many coefficients as are known, y = √K or y = K − K*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K
from meanfield.symbolic.averages.expansions.expansion import at_zero
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.series.coefficients import ONE, ZERO, Atoms, Exact, rational


@dataclass(frozen=True)
class PowerSeries:
    """Σ_i c_i y^{first + i}, known up to (excluding) y^end."""

    first: int
    c: tuple[Exact, ...]

    @property
    def end(self) -> int:
        return self.first + len(self.c)

    def at(self, i: int) -> Exact:
        return self.c[i - self.first] if self.first <= i < self.end else ZERO

    def __add__(self, other: PowerSeries) -> PowerSeries:
        first, end = min(self.first, other.first), min(self.end, other.end)
        return PowerSeries(first, tuple(self.at(i) + other.at(i) for i in range(first, end)))

    def __mul__(self, other: PowerSeries) -> PowerSeries:
        known = min(len(self.c), len(other.c))
        out = [ZERO] * known
        for i, a in enumerate(self.c[:known]):
            if a:
                for j, b in enumerate(other.c[: known - i]):
                    if b:
                        out[i + j] = out[i + j] + a * b
        return PowerSeries(self.first + other.first, tuple(out))

    def inverse(self, reciprocal: Callable[[Exact], Exact]) -> PowerSeries:
        front = reciprocal(self.c[0])
        c: list[Exact] = []
        for i in range(len(self.c)):
            total = ONE if i == 0 else ZERO
            for j in range(i):
                total = total - self.c[i - j] * c[j]
            c.append(total * front)
        return PowerSeries(-self.first, tuple(c))

    def stripped(self) -> PowerSeries:
        """Without the zeros at its front."""
        skip = next((i for i, c in enumerate(self.c) if c), len(self.c))
        return PowerSeries(self.first + skip, self.c[skip:])


class Expander:
    """Expressions as power series; `node` expands one average, `of_K` is the series of K itself."""

    def __init__(self, atoms: Atoms, node: Callable[[sp.Expr], PowerSeries], of_K: PowerSeries, length: int) -> None:
        self.atoms, self.node, self.of_K, self.length = atoms, node, of_K, length
        self.known: dict[sp.Expr, PowerSeries] = {}

    def __call__(self, e: sp.Expr) -> PowerSeries:
        if e not in self.known:
            found = self._series(e)
            self.known[e] = PowerSeries(found.first, tuple(map(self._plain, found.c)))
        return self.known[e]

    def _plain(self, c: Exact) -> Exact:
        """A number with the powers of roots in it worked out: (√2)² is 2."""
        held = {self.atoms.found[i] for monomial in c.terms for i, _ in monomial}
        if not any(a.is_Pow and a.is_number for a in held):
            return c
        return exact(self.atoms, sp.expand(self.atoms.expr(c)))

    def _series(self, e: sp.Expr) -> PowerSeries:
        if e == K:
            return self.of_K
        if not e.has(K):
            return PowerSeries(0, (self.number(e), *[ZERO] * (self.length - 1)))
        if e.is_Mul or e.is_Add:
            found = self(e.args[0])
            for a in e.args[1:]:
                found = found * self(a) if e.is_Mul else found + self(a)
            return found.stripped()
        if e.is_Pow and e.exp.is_Integer:
            base = self(e.base).stripped()
            if not base.c:
                raise MeanFieldError(f"The expansion of {e} in K is not known far enough.")
            if e.exp < 0:
                base = base.inverse(self.reciprocal)
            found = base
            for _ in range(abs(int(e.exp)) - 1):
                found = found * base
            return found
        if isinstance(e, Average):
            return self.node(e)
        raise MeanFieldError(f"The expansion of {e} in K is not among the rules.")

    def number(self, e: sp.Expr) -> Exact:
        """A number or a polynomial in symbols as a coefficient."""
        return exact(self.atoms, e)

    def reciprocal(self, c: Exact) -> Exact:
        return self.atoms.reciprocal(c)


def exact(atoms: Atoms, e: sp.Expr) -> Exact:
    """A number as a sum of rationals times powers of atoms; of symbols, a polynomial in them."""
    symbols = sorted(e.free_symbols, key=str)
    if not symbols:
        total = ZERO
        for t in sp.Add.make_args(sp.expand(e)):
            total = total + atoms.product(t)
        return total
    if not e.is_polynomial(*symbols):
        return atoms.product(e)
    total = ZERO
    for powers, c in sp.Poly(e, *symbols).terms():
        part = exact(atoms, c)
        for s, n in zip(symbols, powers):
            for _ in range(n):
                part = part * atoms.of(s)
        total = total + part
    return total


def near_zero(atoms: Atoms, order: int, change: Callable[[sp.Expr], sp.Expr] = sp.expand) -> Expander:
    """Series in y = √K, each average known to K^order; change: what is done to a coefficient first."""

    def node(one: sp.Expr) -> PowerSeries:
        law = at_zero(one, order)
        if any(t.logs != 0 or t.rate != 0 or not (2 * t.power).is_Integer for t in law.terms):
            raise MeanFieldError(f"{one} is no series in powers of sqrt(K) as K → 0.")
        end = 2 * order + 2 if isinstance(law.remainder, str) else int(sp.ceiling(2 * law.remainder))
        held = {int(2 * t.power): exact(atoms, change(t.coefficient)) for t in law.terms}
        first = min(held, default=end)
        return PowerSeries(first, tuple(held.get(i, ZERO) for i in range(first, end)))

    of_K = PowerSeries(2, (ONE, *[ZERO] * (2 * order + 1)))
    return Expander(atoms, node, of_K, 2 * order + 2)


def rounded(x: sp.Expr, digits: int) -> fmpq:
    """A number as a rational that agrees to `digits` decimals of its size."""
    value = sp.Float(x, digits)
    return rational(sp.Rational(value)) if value != 0 else fmpq(0)
