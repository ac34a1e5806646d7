"""Exact coefficients of long expansions: polynomials over the rationals in named numbers ("atoms").

A product of SymPy sums is expanded anew at every step; a dictionary from monomials to rationals is not, and becomes an
expression once, at the end. Atoms are taken as independent, so a relation between them (the balance of a leading order)
has to be used before they are made.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import mpmath
import sympy as sp
from flint import fmpq

from meanfield.base.precision import decimals

Monomial = tuple[tuple[int, int], ...]  # (atom, power ≠ 0), atoms in order


def rational(x: object) -> fmpq:
    """A rational number of SymPy or Python."""
    r = sp.Rational(str(x)) if not isinstance(x, (int, sp.Rational)) else sp.Rational(x)
    return fmpq(int(r.p), int(r.q))


def expression(x: fmpq) -> sp.Rational:
    return sp.Rational(int(x.p), int(x.q))


@dataclass(frozen=True)
class Exact:
    """Σ rational · Π atom^power."""

    terms: dict[Monomial, fmpq]

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __add__(self, other: Exact) -> Exact:
        out = dict(self.terms)
        for m, c in other.terms.items():
            total = out.get(m, 0) + c
            if total == 0:
                out.pop(m, None)
            else:
                out[m] = total
        return Exact(out)

    def __neg__(self) -> Exact:
        return self.scaled(fmpq(-1))

    def __sub__(self, other: Exact) -> Exact:
        return self + -other

    def __mul__(self, other: Exact) -> Exact:
        out: dict[Monomial, fmpq] = {}
        for a, x in self.terms.items():
            for b, y in other.terms.items():
                m = _times(a, b)
                out[m] = out.get(m, 0) + x * y
        return Exact({m: c for m, c in out.items() if c != 0})

    def scaled(self, number: fmpq) -> Exact:
        return Exact({m: c * number for m, c in self.terms.items()}) if number != 0 else ZERO

    @property
    def number(self) -> fmpq | None:
        """Its value where no atom is in it."""
        if not self.terms:
            return fmpq(0)
        return self.terms[()] if set(self.terms) == {()} else None


def _times(a: Monomial, b: Monomial) -> Monomial:
    if not a or not b:
        return a or b
    powers = dict(a)
    for i, n in b:
        powers[i] = powers.get(i, 0) + n
    return tuple(sorted((i, n) for i, n in powers.items() if n))


TRIAL = sp.Rational(37, 91)  # for symbols, where whether something is 0 is looked at
ZERO, ONE = Exact({}), Exact({(): fmpq(1)})


def of(number: fmpq) -> Exact:
    """A rational as a coefficient."""
    return Exact({(): number}) if number != 0 else ZERO


@dataclass
class Atoms:
    """The numbers that have a name, in the order in which they were met."""

    found: list[sp.Expr] = field(default_factory=list)
    index: dict[sp.Expr, int] = field(default_factory=dict)
    values: dict[tuple[int, int], mpmath.mpf] = field(default_factory=dict)

    def of(self, e: object) -> Exact:
        """A number as a coefficient: a rational as it is, else a rational times an atom."""
        prefactor, remainder = sp.sympify(e).as_coeff_Mul()
        if not prefactor.is_Rational:
            prefactor, remainder = sp.S.One, sp.sympify(e)
        if remainder == 1 or prefactor == 0:
            return of(rational(prefactor))
        if remainder not in self.index:
            self.index[remainder] = len(self.found)
            self.found.append(remainder)
        return Exact({((self.index[remainder], 1),): rational(prefactor)})

    def product(self, e: sp.Expr) -> Exact:
        """A product of powers as one of atoms' powers, so that π and 1/π cancel."""
        total = ONE
        for factor in sp.Mul.make_args(sp.sympify(e)):
            base, n = factor.as_base_exp()
            if not base.is_Symbol and base.is_positive and not base.is_Rational:  # π and √π are powers of one atom
                base, n = sp.sqrt(base), 2 * n
            if not n.is_Integer or base.is_Rational:
                total = total * self.of(factor)
                continue
            ((monomial, c),) = self.of(base).terms.items()
            total = total * Exact({tuple((i, k * int(n)) for i, k in monomial): c ** int(n)})
        return total

    def total(self, e: sp.Expr) -> Exact:
        """A sum, written out, of such products."""
        out = ZERO
        for t in sp.Add.make_args(sp.expand(e)):
            out = out + self.product(t)
        return out

    def reciprocal(self, c: Exact) -> Exact:
        """1/c: of one monomial exactly that, of a sum a new atom."""
        if len(c.terms) == 1:
            ((monomial, x),) = c.terms.items()
            return Exact({tuple((i, -n) for i, n in monomial): 1 / x})
        return self.of(1 / sp.factor_terms(self.expr(c)))

    def expr(self, c: Exact) -> sp.Expr:
        """A coefficient as an expression."""
        parts = [expression(x) * sp.Mul(*[self.found[i] ** n for i, n in monomial]) for monomial, x in c.terms.items()]
        return sp.Add(*parts)

    def vanishes(self, c: Exact, digits: int = 10) -> bool:
        """Whether a coefficient is 0 to so many digits, symbols taken as numbers."""
        with decimals(digits + 10):
            total = size = mpmath.mpf(0)
            for monomial, x in c.terms.items():
                value = mpmath.mpf(int(x.p)) / int(x.q)
                for i, n in monomial:
                    value *= self._value(i, digits + 10) ** n
                total, size = total + value, size + abs(value)
            return bool(abs(total) <= mpmath.mpf(10) ** -digits * size)

    def _value(self, i: int, digits: int) -> mpmath.mpf:
        if (i, digits) not in self.values:
            e = self.found[i]
            place = {s: TRIAL + j for j, s in enumerate(sorted(e.free_symbols, key=str))}
            self.values[i, digits] = mpmath.mpmathify(sp.N(e.subs(place), digits))
        return self.values[i, digits]
