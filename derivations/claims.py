"""Claims: published statements as data, and the engine's verdict on each.

A claim says where it is printed (R-number of the specification, equation number of the paper), for which networks, of
which quantity, and what is printed. Beside the print stands a contrast: a planted change where the print is right, the
right formula where the print is wrong (`misprint`). The engine derives the quantity from the architecture; nothing here
feeds it. A claim is `decided` when exactly one of print and contrast holds, the one that should. Where a claim puts
what it compares together itself (algebra or an iteration of what its author wrote down, networks of its own), it is
`composed`: such claims are counted apart, as they say nothing of the engine.

In a printed formula the symbols of `placeholders` stand for averages over the network's own φ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any

import sympy as sp

import meanfield as mf
from derivations import placeholders
from derivations.placeholders import c, gamma
from derivations.quantities import derived
from derivations.states import FLOATS, state
from meanfield.base.symbols import sigma_mu2


class Verdict(Enum):
    """What the engine says of a statement: PROVED symbolically, CERTIFIED by enclosures, MEASURED in floats, ..."""

    PROVED = "proved"
    CERTIFIED = "certified"
    DIGITS = "equal to 30 digits"
    MEASURED = "measured"
    REFUTED = "refuted"

    def __bool__(self) -> bool:
        return self is not Verdict.REFUTED


@dataclass(frozen=True)
class Network:
    """An activation and the keywords of `meanfield.derive`, or pool: what it does with two neighbours after φ."""

    activation: str
    keywords: tuple[tuple[str, Any], ...] = ()

    @property
    def theory(self) -> mf.Theory:
        more = dict(self.keywords)
        pool = more.pop("pool", None)
        if pool is None:
            return mf.derive(self.activation, **more)
        return mf.derive(architecture=mf.Sequential((mf.Nonlinearity(self.activation), mf.Pool(2, pool), mf.Dense())))

    def __str__(self) -> str:
        short = {"a_plus": "a±", "a_minus": ""}
        named = {"norm": "norm: {}"} | {k: "{}" for k, v in self.keywords if k == str(v)}
        parts = [short.get(k, named.get(k, f"{k} = {{}}").format(v)) for k, v in self.keywords]
        return ", ".join([self.activation, *[p for p in parts if p]])


def network(activation: str, **keywords: Any) -> Network:
    return Network(activation, tuple(keywords.items()))


def each(names: str, **keywords: Any) -> tuple[Network, ...]:
    """The same architecture with several activations."""
    return tuple(network(n, **keywords) for n in names.split())


@dataclass(frozen=True)
class Claim:
    """One published statement about `quantity` of `networks`; the kinds below say what `printed` means."""

    source: str
    networks: Network | tuple[Network, ...]
    quantity: str
    printed: Any
    contrast: Any
    misprint: bool = False
    composed: bool = field(default=False, kw_only=True)

    @property
    def usual(self) -> Verdict:
        """The verdict on a statement of this kind that holds, unless its paper names it as weaker."""
        return Verdict.PROVED

    @property
    def cases(self) -> tuple[Network, ...]:
        return self.networks if isinstance(self.networks, tuple) else (self.networks,)

    def sides(self, case: Network) -> tuple[Any, Any]:
        """The print and what the engine has for it on one network, to be shown beside each other: expressions, words,
        numbers, or (place, value) for each place; the second is None where there is only a verdict."""
        return self.printed, None

    @property
    def where(self) -> tuple[sp.Basic, ...]:
        """The conditions under which it is stated."""
        return ()

    @property
    def telling(self) -> Network:
        """The network on which the sides say most: the first on which the print fails, or the first."""
        failing = (case for case in self.cases[:-1] if not self._judge(case, self.printed))
        return next(failing, self.cases[-1]) if self.misprint else self.cases[0]

    def verdict(self) -> Verdict:
        """Whether the print holds on every network of the claim."""
        return self._over_networks(self.printed)

    def contrast_verdict(self) -> Verdict:
        """The same question for the contrast."""
        return self._over_networks(self.contrast)

    @property
    def decided(self) -> bool:
        """The print holds and the planted change does not, or the other way round where the print is wrong."""
        return bool(self.verdict()) != self.misprint and bool(self.contrast_verdict()) == self.misprint

    def _over_networks(self, statement: Any) -> Verdict:
        order, worst = list(Verdict), Verdict.PROVED
        for case in self.cases:
            worst = max(worst, self._judge(case, statement), key=order.index)
            if worst is Verdict.REFUTED:  # one network is enough
                break
        return worst

    def _judge(self, case: Network, statement: Any) -> Verdict:
        raise NotImplementedError


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
        return sp.sympify(self.printed), sp.sympify(self._ours(case))

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
