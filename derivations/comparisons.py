"""How the two sides of a claim are compared, by kind: equations for all values, words at places, decimals, doubles.

In a printed formula the symbols of `placeholders` stand for averages over the network's own φ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import sympy as sp

import meanfield as mf
from derivations import placeholders
from derivations.claims import Claim, Network, Verdict
from derivations.placeholders import c, gamma
from derivations.quantities import derived
from derivations.states import FLOATS, state
from meanfield.base.symbols import sigma_mu2


@dataclass(frozen=True)
class Equation(Claim):
    """The quantity is the printed expression, for all values of its symbols."""

    def _judge(self, case: Network, statement: sp.Expr) -> Verdict:
        ours, theirs = self._ours(case), filled(sp.sympify(statement), case)
        if sp.oo in (ours, theirs):
            return Verdict.PROVED if ours == theirs else Verdict.REFUTED
        ours, theirs = (inside(e) for e in (sp.sympify(ours), theirs))
        match mf.equal(ours, theirs):
            case mf.symbolic.Equality.PROVED:
                return Verdict.PROVED
            case mf.symbolic.Equality.TO_30_DIGITS:
                return Verdict.PROVED if equal_by_slopes(ours, theirs) else Verdict.DIGITS
        return Verdict.REFUTED

    def sides(self, case: Network) -> tuple[Any, Any]:
        return sp.sympify(self.printed), shorter(sp.sympify(self._ours(case)))

    def _ours(self, case: Network) -> sp.Expr:
        return derived(case.theory, self.quantity)


@dataclass(frozen=True)
class Formula(Equation):
    """An equation about a formula on the way to a result; `by` works it out by other means than the print."""

    by: Callable[[mf.Theory], sp.Expr] = field(default=lambda theory: sp.nan)

    def _ours(self, case: Network) -> sp.Expr:
        return mf.symbolic.closed(sp.sympify(self.by(case.theory)))


@dataclass(frozen=True)
class At(Claim):
    """At each of the places (σ_w², σ_b²) the quantity, one of `states.STATES`, is the printed word."""

    places: tuple[tuple[str, str], ...] = ()

    @property
    def usual(self) -> Verdict:
        return Verdict.MEASURED if self.quantity in FLOATS else Verdict.CERTIFIED

    def sides(self, case: Network) -> tuple[Any, Any]:
        where = [f"sigma_w^2 = {w}, sigma_b^2 = {b}" for w, b in self.places]
        found = [state(case.theory, self.quantity, *place) for place in self.places]
        return self.printed, tuple(zip(where, found))

    def _judge(self, case: Network, statement: str) -> Verdict:
        found = all(state(case.theory, self.quantity, *place) == statement for place in self.places)
        return self.usual if found else Verdict.REFUTED


@dataclass(frozen=True)
class Rounds(Claim):
    """The quantity, a number, rounds to the printed decimal: it lies within half a unit of the last digit.

    at: the values of the symbols left in the quantity.
    """

    at: tuple[tuple[sp.Symbol, Any], ...] = ()

    @property
    def usual(self) -> Verdict:
        return Verdict.CERTIFIED

    def sides(self, case: Network) -> tuple[Any, Any]:
        value = ball(filled(sp.sympify(derived(case.theory, self.quantity)), case).subs(dict(self.at)))
        return self.printed, sp.Float(value.str(17, radius=False), 17)

    def _judge(self, case: Network, statement: str) -> Verdict:
        value = ball(filled(sp.sympify(derived(case.theory, self.quantity)), case).subs(dict(self.at)))
        return Verdict.CERTIFIED if rounds(value, statement) else Verdict.REFUTED


def rounds(value: Any, decimal: str) -> bool:
    """Whether a ball rounds to a printed decimal: it lies within half a unit of the last digit."""
    number = Decimal(decimal)
    half = Decimal(5).scaleb(int(number.as_tuple().exponent) - 1)
    low, high = (mf.certified(sp.Rational(str(number + d)), 30) for d in (-half, half))
    return bool(low <= value and value <= high)


@dataclass(frozen=True)
class Floats(Claim):
    """`of` the engine's doubles at each of the places is the printed function of the place, to `tolerance` of 1 or
    more."""

    of: Callable[..., float] = field(default=lambda *place: float("nan"))
    places: tuple[tuple[Any, ...], ...] = ()
    tolerance: float = 1e-11

    @property
    def usual(self) -> Verdict:
        return Verdict.MEASURED

    def sides(self, case: Network) -> tuple[Any, Any]:
        where = [", ".join(map(str, place)) for place in self.places]
        printed, ours = ([float(f(*place)) for place in self.places] for f in (self.printed, self.of))
        return tuple(zip(where, printed)), tuple(zip(where, ours))

    def _judge(self, case: Network, statement: Callable[..., float]) -> Verdict:
        for place in self.places:
            ours, theirs = self.of(*place), float(statement(*place))
            if not abs(ours - theirs) <= self.tolerance * max(abs(theirs), 1):
                return Verdict.REFUTED
        return Verdict.MEASURED


@dataclass(frozen=True)
class Holds(Claim):
    """`of` the printed word, number or function, and of each of the places, is true of the engine's doubles.

    Print and contrast are inputs of `of` (a bound, a rule, a start), so that a contrast fails only where the engine
    tells them apart.
    """

    of: Callable[..., bool] = field(default=lambda statement, *place: False)
    places: tuple[tuple[Any, ...], ...] = ((),)

    @property
    def usual(self) -> Verdict:
        return Verdict.MEASURED

    def _judge(self, case: Network, statement: Any) -> Verdict:
        return Verdict.MEASURED if all(self.of(statement, *place) for place in self.places) else Verdict.REFUTED


@dataclass(frozen=True)
class Is(Claim):
    """The quantity is the printed word, truth value or whole number (the kind of a line, the number of points)."""

    def sides(self, case: Network) -> tuple[Any, Any]:
        return self.printed, derived(case.theory, self.quantity)

    def _judge(self, case: Network, statement: Any) -> Verdict:
        return Verdict.PROVED if derived(case.theory, self.quantity) == statement else Verdict.REFUTED


@dataclass(frozen=True)
class Among:
    """|x| ≤ the largest of |bounds| at each of the `places`: (values of sigma_w, sigma_b, mu)."""

    bounds: tuple[sp.Expr, ...]
    places: tuple[dict[sp.Symbol, sp.Expr], ...]


@dataclass(frozen=True)
class AtMost(Claim):
    """|quantity| is at most the largest of the printed numbers, at each of the printed places. One place refutes."""

    @property
    def usual(self) -> Verdict:
        return Verdict.CERTIFIED

    def sides(self, case: Network) -> tuple[Any, Any]:
        return sp.Max(*self.printed.bounds), abs(sp.sympify(derived(case.theory, self.quantity)))

    def _judge(self, case: Network, statement: Among) -> Verdict:
        ours = filled(sp.sympify(derived(case.theory, self.quantity)), case)
        for place in statement.places:
            left = abs(ball(ours.subs(place)))
            bounds = [filled(b, case).subs(place) for b in statement.bounds]
            rights = [abs(ball(b)) for b in bounds if b.is_finite is not False]  # log 0 bounds nothing
            if len(rights) == len(bounds) and not any(left <= r or left.overlaps(r) for r in rights):
                return Verdict.REFUTED
        return Verdict.CERTIFIED


def shorter(e: sp.Expr) -> sp.Expr:
    """An expression, or its factors where these are shorter to read."""
    if not isinstance(e, sp.Expr) or e.count_ops() > 300:
        return e
    try:
        return min(e, sp.factor(e), key=lambda form: form.count_ops())
    except sp.PolynomialError:
        return e


def inside(e: sp.Expr) -> sp.Expr:
    """`e` with its correlation c written γ/(1 + γ), and γ and σ_μ² > 0: any values of these make a covariance."""
    e = e.subs(c, gamma / (1 + gamma)).subs({v: sp.Symbol(v.name, positive=True) for v in (gamma, sigma_mu2)})
    return mf.symbolic.closed(e).replace(sp.erfc, lambda x: 1 - sp.erf(x))


def equal_by_slopes(a: sp.Expr, b: sp.Expr, order: int = 2) -> bool:
    """Whether two smooth functions of one positive variable are proved equal: derivatives of one order are the same
    everywhere, and at 1 those of lower order are."""
    variables = (a - b).free_symbols
    if len(variables) != 1 or a.has(mf.symbolic.Average) or b.has(mf.symbolic.Average):
        return False
    (x,) = variables
    slopes = [[sp.diff(e, x, k) for e in (a, b)] for k in range(order + 1)]
    there = [[e.subs(x, 1) for e in pair] for pair in slopes[:-1]]
    return all(mf.equal(*pair) is mf.symbolic.Equality.PROVED for pair in (*there, slopes[-1]))


def ball(e: sp.Expr):
    """The enclosure of a number, 30 digits."""
    return mf.certified(mf.symbolic.closed(sp.sympify(e)), 30)


def filled(e: sp.Expr, case: Network) -> sp.Expr:
    """The printed expression with the averages of this network's φ in place of the placeholders."""
    of = case.theory.activations  # attention alone has none
    return placeholders.filled(e, of[0]) if of else e
