"""Sums of truncated series times different exponentials exp(Σ r x^s), which is what laws are sums of.

A sum is a dictionary from the pairs (r, s) of an exponential to its series. What it leaves out stands with one of them,
and covers all that grow less. o(x^p (log x)^q) is the key of this term with log log x to so low a power that the term
itself is larger, and every other one that is smaller than the term is not.

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import sympy as sp
from flint import fmpq

from meanfield.base.answers.terms import Term
from meanfield.base.errors import MeanFieldError
from meanfield.symbolic.series.coefficients import ZERO, Atoms, Exact, expression, of, rational
from meanfield.symbolic.series.exponents import Basis
from meanfield.symbolic.series.ring import MOST, Key, Series
from meanfield.symbolic.series.truncated import Calculus, Truncated

Rates = tuple[tuple[sp.Expr, sp.Expr], ...]
Sum = dict[Rates, Truncated]
Stated = tuple[tuple[Term, ...], Any, sp.Expr]  # terms, remainder and its logarithms, as a `Law` has them
SERIES = 4  # powers of what follows the leading term, in a power of an exact sum
DEEP = fmpq(10**6)  # powers of x and of log x that are kept: all of them


class ExponentialSums:
    """Their sums, products and powers as x → point, 0 or ∞; x or 1/x is l of the ring.

    Keys count powers of log x at both ends: no derivative is taken, which would tell it from log l.
    """

    def __init__(self, point: sp.Expr) -> None:
        self.point, self.end = point, -1 if point == 0 else 1
        self.atoms, self.basis = Atoms(), Basis()
        self.calculus = Calculus(self.atoms, is_zero=self._vanishes, basis=self.basis, deep=DEEP, depth=DEEP)

    # ------------------------------------------------------------------------------------------ into and out of series

    def of(self, terms: Iterable[Term], remainder: Any = "zero", logs: sp.Expr = sp.S.Zero) -> Sum:
        """The sum that a law states. Raises: MeanFieldError where symbols decide which terms matter."""
        series: dict[Rates, Series] = {}
        last, rest = None, None
        for t in terms:
            t.size(self.point)
            last, held = t, series.setdefault(t.rates, {})
            k = self._key(t.power, t.logs)
            held[k] = held.get(k, ZERO) + self._coefficient(t.coefficient)
        if remainder == "smaller" and last is None:
            raise MeanFieldError("The leading order of this law is not known, so nothing can be computed with it.")
        home = last.rates if last is not None and remainder == "smaller" else ()
        if last is not None and remainder == "smaller":
            rest = _less_than(self._key(last.power, last.logs))
        elif not isinstance(remainder, str):
            rest = self._key(sp.sympify(remainder), logs)
        if rest is not None or remainder == "exponential":
            series.setdefault(home, {})
        small = remainder == "exponential"
        made = self.calculus.made
        return {r: made(s, rest if r == home else None, (), small and r == home) for r, s in series.items()}

    def stated(self, x: Sum) -> Stated:
        """A sum as terms, most important first, and what is left out."""
        order, terms = self.calculus.order, []
        for rates, series in x.items():
            for k, c in order.ordered(series.terms):
                terms.append(_term(self._expr(c), self._power(k), expression(k[2]), rates))
        terms.sort(key=lambda t: t.size(self.point), reverse=True)
        home = self._home(x)
        if home is None:
            return tuple(terms), "exponential" if any(s.small for s in x.values()) else "zero", sp.S.Zero
        edge = x[home].remainder
        assert edge is not None
        power, logs = self._power(edge), expression(edge[2])
        last = (terms[-1].power, terms[-1].logs, terms[-1].rates) if terms else None
        if home or last == (power, logs, home):
            return tuple(terms), "smaller", sp.S.Zero
        return tuple(terms), power, logs

    def _key(self, power: sp.Expr, logs: sp.Expr) -> Key:
        if not logs.is_Rational:
            raise MeanFieldError(f"A law with the power {logs} of a logarithm is not computed with.")
        return (*self.basis.of(self.end * power, "a power of a law"), rational(logs), 0)

    def _power(self, k: Key) -> sp.Expr:
        return self.end * self.basis.expr(k[0], k[1])

    def _coefficient(self, c: sp.Expr) -> Exact:
        """An atom of its own, as it stands, unless it is a rational."""
        if c.is_Rational:
            return of(rational(c))
        if c not in self.atoms.index:
            self.atoms.index[c] = len(self.atoms.found)
            self.atoms.found.append(c)
        return Exact({((self.atoms.index[c], 1),): fmpq(1)})

    def _expr(self, c: Exact) -> sp.Expr:
        e = self.atoms.expr(c)
        return sp.expand(e) if len(c.terms) > 1 else e

    def _vanishes(self, c: Exact) -> bool:
        return len(c.terms) > 1 and self._expr(c) == 0

    # ----------------------------------------------------------------------------------------------------- arithmetic

    def plus(self, *parts: Sum) -> Sum:
        rates = dict.fromkeys(r for p in parts for r in p)
        return self._reduced({r: self.calculus.plus(*[p[r] for p in parts if r in p]) for r in rates})

    def times(self, a: Sum, b: Sum) -> Sum:
        """The product. Raises: MeanFieldError where exponentials of different powers of x meet."""
        found = []
        for r, x in a.items():
            for s, y in b.items():
                made = self.calculus.times(x, y)
                for one, other, rates in ((x, y, s), (y, x, r)):
                    lead = self.calculus.lead(other)
                    if one.small and lead is not None and self._growth(rates)[0] > 0:  # small times e^x: below e^x
                        rest = self.calculus.order.largest(made.remainder, _less_than(lead))
                        made = self.calculus.made(made.terms, rest, ())
                found.append({_term(sp.S.One, rates=r).times(_term(sp.S.One, rates=s)).rates: made})
        return self.plus(*found)

    def power(self, x: Sum, n: sp.Expr) -> Sum:
        """x^n: a series in what follows the leading term, ended where that is not known, or after SERIES powers of it.

        Raises: MeanFieldError where no term leads.
        """
        one = self.of([Term(sp.S.One)])
        if n.is_Integer and n >= 0:
            total = one
            for _ in range(int(n)):
                total = self.times(total, x)
            return total
        terms, remainder, _ = self.stated(x)
        lead = terms[0]
        scale = self.of([lead.to(n)])
        if len(terms) == 1 and remainder == "zero":
            return scale
        # without its leading term, in the place of the quotient less 1: c·(1/c) of a float is 1 to rounding only
        k = self._key(lead.power, lead.logs)
        first = x[lead.rates]
        others = x | {lead.rates: replace(first, terms={j: c for j, c in first.terms.items() if j != k})}
        w = self.times(others, self.of([lead.to(sp.S.NegativeOne)]))
        total = part = one
        for j in range(1, SERIES + 1):
            part = self.times(part, w)
            factor = self._coefficient(sp.binomial(n, j))
            total = self.plus(total, {r: self.calculus.scaled(s, factor) for r, s in part.items()})
        left = self.times(part, w)
        if left:
            top = max(left, key=self._growth)
            beyond = Truncated({}, self.calculus.lead(left[top]), (), left[top].small)
            total = self.plus(total, {top: beyond})
        return self.times(total, scale)

    def _growth(self, rates: Rates) -> tuple[Any, ...]:
        """What orders exponentials."""
        return _term(sp.S.One, rates=rates).size(self.point)[:4]

    def _home(self, x: Sum) -> Rates | None:
        """The exponential of what is left out."""
        return max((r for r, s in x.items() if s.remainder is not None), key=self._growth, default=None)

    def _reduced(self, x: Sum) -> Sum:
        """Without the exponentials that are below what is left out; where that is below every power, it stands with
        them."""
        home, small = self._home(x), any(s.small for s in x.values())
        if small and home is not None and self._growth(home)[0] < 0:
            home = None
        edge = self._growth(home) if home is not None else None
        kept = {
            r: replace(s, small=False)
            for r, s in x.items()
            if (s.terms or s.remainder is not None)
            and (edge is None or self._growth(r) >= edge)
            and not (small and self._growth(r)[0] < 0)
        }
        if small and home is None:
            kept[()] = replace(kept.get((), self.calculus.constant(ZERO)), small=True)
        return kept


def _term(c: sp.Expr, power: sp.Expr = sp.S.Zero, logs: sp.Expr = sp.S.Zero, rates: Rates = ()) -> Term:
    return Term(c, power, logs, *rates[0], rates[1:]) if rates else Term(c, power, logs)


def _less_than(k: Key) -> Key:
    """The key of o(·) of a term."""
    return k[0], k[1], k[2], k[3] - MOST
