r"""What further terms come to: X = C · exp(terms that grow) · (1 + Σ c l^p (log l)^r (log log l)^s), p ≤ 0, with what
is left out; products and powers of such, sums over blocks, and the law that is stated.

Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import Term
from meanfield.base.symbols import l
from meanfield.symbolic.asymptotics.log_growth import Growth, value_of
from meanfield.symbolic.asymptotics.schedules.balance import kept
from meanfield.symbolic.series.asymptotic_law import Law
from meanfield.symbolic.series.coefficients import ZERO, Exact, expression, of
from meanfield.symbolic.series.exponents import NO_POWER, NoHigherOrder
from meanfield.symbolic.series.ring import Key, Ring, Series, binomial, plus, scaled
from meanfield.symbolic.series.truncated import Calculus, Truncated

Powers = tuple[sp.Expr, sp.Expr, int]
MOST_SIMPLIFIED = 60  # monomials of a coefficient that is factored
LOG: Key = (NO_POWER, NO_POWER, fmpq(1), 0)
LOG_LOG: Key = (NO_POWER, NO_POWER, NO_POWER, 1)


@dataclass(frozen=True)
class Corrections:
    """1 + Σ coefficient · l^p (log l)^r (log log l)^s and what is left out.

    terms: ((p, r, s), coefficient), most important first; omitted: (p, r, s) of O(·), None where nothing is left out
    but what is smaller than every power; head: what they are added to, 1 unless the terms that grow are not all
    known: then those of log X, and `omitted` grows, too.

    >>> Corrections((((-sp.S.Half, sp.S(1), 0), sp.S(3)),), (-sp.S.One, sp.S.Zero, 0)).text()
    '1 + 3*log(l)/sqrt(l) + O(1/l)'
    """

    terms: tuple[tuple[Powers, sp.Expr], ...] = ()
    omitted: Powers | None = None
    head: tuple[sp.Expr, ...] = (sp.S.One,)

    @property
    def expr(self) -> sp.Expr:
        """The sum without what is left out."""
        return sp.Add(*self.parts())

    def parts(self) -> list[sp.Expr]:
        """The terms as expressions in l, the head first."""
        return [*self.head, *(c * monomial(k) for k, c in self.terms)]

    @property
    def remainder(self) -> str:
        """What is left out, in one word."""
        return "exponential" if self.omitted is None else "power"

    @property
    def left_out(self) -> sp.Expr | None:
        """The argument of O(·)."""
        return None if self.omitted is None else monomial(self.omitted)

    def law(
        self, log: tuple[tuple[tuple, sp.Expr], ...] = (), values: Mapping[sp.Symbol, object] | None = None
    ) -> Law | None:
        """The sum as a `Law`; None where powers of log log l stand in it. log: the terms of log X, where these are what
        it is added to; values: numbers for the symbols in powers."""
        powers = [((p, r, s), c) for (p, r, s, *_), c in log] if self.head != (sp.S.One,) else [((0, 0, 0), sp.S.One)]
        every = [*powers, *self.terms]
        if any(s != 0 for (_, _, s), _ in every):
            return None
        numbers = [(sp.sympify(c), *(sp.sympify(e).subs(values or {}) for e in k[:2])) for k, c in every]
        return Law(l, sp.oo, tuple(Term(*n) for n in numbers), "smaller")

    def text(self, parts: list[sp.Expr] | None = None, left: sp.Expr | None = None) -> str:
        """On one line; parts, left: the terms and the argument of O(·) as they are to be written."""
        tail = [] if self.omitted is None else [f"O({left or self.left_out})"]
        return " + ".join([*map(str, parts or self.parts()), *tail]).replace("+ -", "- ")

    def at(self, t: float, values: Mapping[sp.Symbol, object] | None = None) -> float:
        """The sum of the terms alone at log l = t > 1, in floats."""
        total = 0.0
        for powers, c in self.terms:
            p, r, s = (value_of(e, values) for e in powers)
            total += value_of(c, values) * math.exp(p * t + r * math.log(t)) * math.log(t) ** s
        return total


def monomial(k: Powers) -> sp.Expr:
    """l^p (log l)^r (log log l)^s."""
    return l ** k[0] * sp.log(l) ** k[1] * sp.log(sp.log(l)) ** k[2]


@dataclass(frozen=True)
class SeriesSolution:
    """What was derived of one quantity: log X = grown + log(1 + small) + a constant, down to what `small` leaves out.

    short: whether the expansions of the averages, not of the solution, set that; amplitude: of the leading term, for
    one that holds C of K.
    """

    calculus: Calculus
    grown: Series
    small: Truncated
    short: bool = False
    amplitude: sp.Expr | None = None

    @property
    def remainder(self) -> Key | None:
        """The key of what is left out."""
        return self.small.remainder


def power_law(ring: Ring, k: Key) -> Series:
    """log of l^… of a key, as terms that grow."""
    if k[3]:
        raise NoHigherOrder("Further terms are not derived where a power of log(log(l)) leads.")
    return {j: c for j, c in ((LOG, ring.exponent(*k[:2])), (LOG_LOG, of(k[2]))) if c}


def multiplied(*factors: SeriesSolution) -> SeriesSolution:
    """The product of quantities whose exponents and numbers have names in common."""
    calculus, small = factors[0].calculus, factors[0].small
    for f in factors[1:]:
        small = calculus.plus(small, f.small, calculus.times(small, f.small))
    short = any(f.short and f.remainder == small.remainder for f in factors)
    grown = plus(*[f.grown for f in factors])
    return SeriesSolution(calculus, calculus.order.above(grown, small.remainder), small, short)


def raised(one: SeriesSolution, n: fmpq) -> SeriesSolution:
    """A power of a quantity."""
    small = one.calculus.composed(one.small, lambda j: binomial(n, j) if j else ZERO)
    return SeriesSolution(one.calculus, scaled(one.grown, of(n)), small, one.short)


def product_of(calculus: Calculus, x: Truncated, short: bool, after: bool = False) -> SeriesSolution:
    """Π_{m<l} (1 + x_m) for a series that vanishes, or Π_{m≤l}; short: whether its averages say what it leaves out."""
    rate = calculus.composed(x, lambda j: of(fmpq((-1) ** (j + 1), j)) if j else ZERO)
    ring = calculus.ring()
    total = plus(ring.summed(rate.terms), rate.terms if after else {})
    remainder = ring.largest(None if rate.remainder is None else _integrated(rate.remainder), ring.lost)
    vanishing = Truncated({k: c for k, c in total.items() if ring.size(k) < (0, 0, 0)}, remainder)
    small = calculus.composed(vanishing, lambda j: of(fmpq(1, math.factorial(j))) if j else ZERO)
    grown = {k: c for k, c in total.items() if ring.size(k) > (0, 0, 0)}
    return SeriesSolution(calculus, ring.above(grown, small.remainder), small, short and rate.remainder == x.remainder)


def _integrated(k: Key) -> Key:
    """The key of Σ_{m<l} of a term of this key."""
    p, b, r, s = k[0] + 1, *k[1:]
    if (p, b) != (0, 0):
        return p, b, r, s
    return (p, b, r + 1, s) if r != -1 else (p, b, NO_POWER, s + 1)


# ---------------------------------------------------------------------------------------------- stating what is found



def _terms(found: SeriesSolution, series: Series) -> list[tuple[Key, Exact]]:
    """The terms, most important first, without those that are 0 to 30 digits."""
    ring = found.calculus.order
    return [(k, c) for k, c in ring.ordered(series) if not _is_zero(ring, c)]


def _is_zero(ring: Ring, c: Exact) -> bool:
    if c.number is not None or not ring.atoms.vanishes(c):
        return c.number == 0
    return ring.atoms.vanishes(c, 25)


def _value(ring: Ring, c: Exact) -> sp.Expr:
    """A coefficient as an expression; 1/(a + bλ) stays a factor."""
    e = ring.atoms.expr(c)
    if len(c.terms) > MOST_SIMPLIFIED:
        return e
    return kept(e, lambda x: sp.factor_terms(x if ring.basis and ring.basis.names else sp.expand(x)))


def _powers(ring: Ring, k: Key) -> Powers:
    assert ring.basis is not None
    return ring.basis.expr(*k[:2]), expression(k[2]), k[3]


def count_of(found: SeriesSolution, law: Growth) -> int:
    """How many further terms there are: powers of l and of logarithms that the law states are none."""
    grown = 0 if law.is_regular else max(0, len(_terms(found, found.grown)) - 1)
    return grown + len(_terms(found, found.small.terms))


def stated(found: SeriesSolution, law: Growth, order: int) -> tuple[Growth, Corrections]:
    """The law with `order` of the terms found."""
    ring = found.calculus.order
    grown, small = (_terms(found, one) for one in (found.grown, found.small.terms))
    _check(law, [(_powers(ring, k), _value(ring, c)) for k, c in grown[:1]])
    most = len(grown) if law.is_regular else order + 1
    remainder = found.remainder if len(grown) <= most else grown[most][0]
    terms = tuple(((*_powers(ring, k), sp.S.Zero), _value(ring, c)) for k, c in grown[:most])
    if remainder is not None and ring.size(remainder) >= (0, 0, 0):
        if not grown:
            raise NoHigherOrder("Further terms of this law are not derived.")
        return Growth(terms, (), None, True), Corrections((), _powers(ring, remainder), _head(terms))
    room = order - (0 if law.is_regular else max(0, len(grown) - 1))
    if grown:
        same = law.is_regular and {k for k, _ in law.terms} == {k for k, _ in terms}
        law = Growth(terms, (), law.constant if same else None)
    elif found.amplitude is not None and law.constant is None:
        law = replace(law, constant=found.amplitude)
    if len(small) > room:
        remainder = small[room][0]
    kept = tuple((_powers(ring, k), _value(ring, c)) for k, c in small[:room])
    return law, Corrections(kept, None if remainder is None else _powers(ring, remainder))


def _head(terms: tuple[tuple[tuple[sp.Expr, ...], sp.Expr], ...]) -> tuple[sp.Expr, ...]:
    """The terms of log X."""
    return tuple(c * monomial((k[0], k[1], int(k[2]))) for k, c in terms)


def _check(law: Growth, first: list[tuple[Powers, sp.Expr]]) -> None:
    """That the first term of log X is what the leading order says."""
    known = {k[:3]: c for k, c in law.terms}
    known |= {(1 - V, sp.S.Zero, 0): n * W / (1 - V) for W, V, n in law.products}
    for k, value in first:
        if k not in known or abs(sp.N(known[k] - value, 30)) > 1e-15 * abs(sp.N(value, 30)):
            raise NoHigherOrder("The leading term of the logarithm is not found again in its expansion.")
    if not first and (law.stretched or law.products):
        raise NoHigherOrder("The leading term of the logarithm is not found again in its expansion.")
