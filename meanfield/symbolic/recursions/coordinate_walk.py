r"""The walk through a block: from the law of the z that enters to the coordinate that leaves, and its tangents.

One rule for each record (`record_rules`), found by its type; a new record brings its own: `rule(Record)` registers it.
What all of them share is here: the push of tangents through a coordinate, names for intermediate variances, the numbers
of records as symbols with a domain.

With D = ∂x/∂z, V the variance of z, K the variance at the block's start, a = dV/dK and R = dx/dK at fixed z, a tangent
Gram matrix obeys Γ → ⟨D_p D_q⟩ Γ_pq + S·(2a² ∂_V⟨D²⟩ + 4a ⟨zDR⟩/V + 4⟨R²⟩), S = Σ_j ⟨z ∂_j z⟩² at the block's start:
what tangents change K itself (Stein's lemma; S is 0 for those of a layer of infinite width). Source: derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown
from meanfield.base.leading import Registry
from meanfield.base.symbols import K, L, Z, distance, l, lambda_b, lambda_w, parameter
from meanfield.functions.reading.parser import value_of
from meanfield.networks.records import Block, Number, Param, Schedule
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio
from meanfield.symbolic.averages.nodes.unequal_norms import DividedDifference
from meanfield.symbolic.recursions.coordinate import Coordinate, mean_of, per, tidy
from meanfield.symbolic.steps import Domain

Rule = Callable[[Any, Coordinate, "Walk"], Coordinate]
RULES: Registry[type, Rule] = Registry()
_REMEMBERED: list[Any] = []
_SMALL, _NODES = 8, (Average, DistanceRatio, DividedDifference)  # what has fewer operations and no node is written out
LETTERS = {"K": "K", "J": "chi", "J0": "chi", "Theta": "Theta"}
SUFFIXES = {
    1: {(0, 0): ""},
    2: {(0, 0): "_aa", (1, 1): "_bb", (0, 1): "_ab"},
    3: {(0, 1): "_ab", (0, 2): "_same", (1, 2): "_other"},  # two tokens, and the first one's place in another input
}


def rule(*records: type) -> Callable[[Rule], Rule]:
    """Decorator: the rule of a record, (block, coordinate, walk) → coordinate; docs/writing_a_layer.md writes one."""
    for one in records or (None,):
        if not (isinstance(one, type) and issubclass(one, Block)):
            given = "nothing" if one is None else shown(one)
            raise MeanFieldError(
                f"A rule is registered for a record, a class derived from Block, but {given} was given."
            )

    def put(function: Rule) -> Rule:
        if not callable(function):
            raise MeanFieldError(
                f"A rule is a function (block, coordinate, walk) → coordinate, but {shown(function)} was given."
            )
        if any(RULES.get(one, function) is not function for one in records):
            for cached in _REMEMBERED:
                cached.cache_clear()
        RULES.update(dict.fromkeys(records, function))
        return function

    return put


def remembered(maxsize: int) -> Callable[[Any], Any]:
    """`lru_cache` of what is derived from records: forgotten where a rule is replaced, as another theory follows."""

    def put(function: Any) -> Any:
        _REMEMBERED.append(lru_cache(maxsize=maxsize)(function))
        return _REMEMBERED[-1]

    return put


Rates = tuple[str, ...]


OPEN = (
    "what the trained gains of a norm add is not followed where the norm stands behind a Pool, nor where a skip, a "
    "Pool or another norm takes it up before a Dense averages over neurons; use affine=False in that norm."
)


class TangentUnknown(Exception):
    """γ and β of a LayerNorm whose output is a skip's input: their share of Θ depends on z in more and more ways."""


@dataclass
class Walk:
    """One derivation: the intermediates named so far, and where the parameters met may lie.

    variance_share: S, where tangents change K; None where they do not. trained_field: whose tangents are those of all
    parameters (Θ); rate_names: "lambda_w" where weights are trained at rates λ_w (by fan-in) and not at σ_w²,
    "lambda_b" where biases are at λ_b and not at σ_b². kind: what the two positions are where they act on each other,
    any two of a "batch" or of the "tokens" of one input; size: how many there are, None for infinitely many. scores:
    the variance of the scores of every Attention that was met.
    """

    variance_share: sp.Expr | None = None
    trained_field: str = ""
    rate_names: Rates = ()
    kind: str = ""
    size: int | None = None
    scores: list[sp.Expr] = field(default_factory=list)
    definitions: list[tuple[sp.Symbol, sp.Expr]] = field(default_factory=list)
    domain: dict[str, Domain] = field(default_factory=dict)
    _assumed: dict[str, sp.Symbol] = field(default_factory=dict)
    _slopes: dict[sp.Symbol, sp.Expr] = field(default_factory=lambda: {K: sp.S.One})

    def __call__(self, block: Block, x: Coordinate) -> Coordinate:
        """The coordinate that leaves `block`."""
        found = RULES.get(type(block))
        if found is None:
            raise refusal(block)
        return found(block, x, self)

    # ------------------------------------------------------------------------------------------------- parameters

    def number(self, given: Number, lower: sp.Expr | None = sp.S.Zero) -> sp.Expr:
        """The number of a record; a `Param` as a symbol that is known to be ≥ `lower` while the walk lasts."""
        if not isinstance(given, Param):
            return value_of(given)
        symbol = parameter(given.name)
        own = Domain(lower).within(Domain(*(None if e is None else value_of(e) for e in (given.lower, given.upper))))
        self.domain[given.name] = own.within(self.domain.get(given.name, Domain()))
        if symbol.is_nonnegative:  # σ_w, σ_b
            return symbol
        return self._assumed.setdefault(given.name, sp.Dummy(given.name, **own.sign))

    def deviation(self, given: Number | Schedule) -> sp.Expr:
        """A standard deviation at the layer that is made: block k = l - 1 of L has value·k^{-beta/2} L^{-total/2}."""
        if isinstance(given, Schedule):
            falls = (l - 1) ** (-self.number(given.beta, None) / 2) * L ** (-self.number(given.total) / 2)
            return self.number(given.value) * falls
        return self.number(given)

    def plain(self, e: sp.Expr) -> sp.Expr:
        """`e` in the symbols that everyone knows."""
        return e.xreplace({dummy: parameter(name) for name, dummy in self._assumed.items()})

    def rates(self, w: sp.Expr, b: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        """The rates that weights and biases of deviations w, b are trained at."""
        self.domain |= {name: Domain(sp.S.Zero) for name in self.rate_names}
        return lambda_w if "lambda_w" in self.rate_names else w**2, lambda_b if "lambda_b" in self.rate_names else b**2

    # ---------------------------------------------------------------------------------------------- intermediates

    def named(self, x: Coordinate) -> Coordinate:
        """The same coordinate, each long variance and tangent of its z known by a name."""

        # two inputs of one norm, and any two of a batch, share what belongs to each
        known_distance: list[sp.Expr] = []
        same = x.positions > 1 and (bool(self.kind) or (x.law.distance is not None and not x.law.norm_difference))

        def name(letter: str, pq: tuple[int, int], e: sp.Expr) -> sp.Expr:
            if letter in ("distance", "direction_part"):
                if e == x.law.distance and letter == "direction_part":
                    return distance * per(known_distance[0], distance)
                stem = "ratio" if letter == "distance" else "direction"
                index = 1 + sum(s.name.startswith(f"{stem}[") for s, _ in self.definitions)
                found = distance * self._let(f"{stem}[{index}]", per(e, distance), nonnegative=True)
                known_distance.append(found)
                return found
            if letter == "norm_difference":
                index = 1 + sum(s.name.startswith("norm[") for s, _ in self.definitions)
                kept = e in (0, x.law.norm_difference) and not e.has(DividedDifference)
                return e if kept else self._let(f"norm[{index}]", e)
            stem = LETTERS.get(letter, "chi") + ("" if same and pq[0] == pq[1] else SUFFIXES[x.positions][pq])
            known = [s for s, value in self.definitions if value == e and s.name.startswith(f"{stem}[")]
            if same and known:
                return known[0]
            index = 1 + sum(s.name.startswith(f"{stem}[") for s, _ in self.definitions)
            return self._let(f"{stem}[{index}]", e, **{"positive": (letter == "K" and pq[0] == pq[1]) or None})

        return replace(x, law=replace(x.law.map(name), skip_factors=x.law.skip_factors))

    def _let(self, name: str, e: sp.Expr, **assumptions: bool | None) -> sp.Expr:
        """A symbol for a long expression, a short one as it is."""
        if e.is_Atom or e.has(sp.oo) or (not e.has(*_NODES) and e.count_ops() <= _SMALL):
            return e
        symbol = sp.Symbol(name, real=True, **assumptions)  # no user's name has brackets
        self.definitions.append((symbol, e))
        return symbol

    def slope(self, e: sp.Expr) -> sp.Expr:
        """de/dK by the chain rule, z and the start's K being what is free."""
        return sp.Add(*[sp.diff(e, symbol) * slope for symbol, slope in self._through(e)])

    def _through(self, e: sp.Expr) -> list[tuple[sp.Symbol, sp.Expr]]:
        """The symbols by which `e` depends on K, each with its own slope."""
        defined = dict(self.definitions)
        for symbol in sorted(e.free_symbols & set(defined), key=str):
            if symbol not in self._slopes:
                self._slopes[symbol] = self._let(f"d{symbol.name}", self.slope(defined[symbol]))
        found = [(s, self._slopes[s]) for s in sorted(e.free_symbols, key=str) if s in self._slopes]
        return [(s, slope) for s, slope in found if slope != 0]

    def with_constants(self, x: Coordinate) -> Coordinate:
        """The same coordinate, to be put into a function: where tangents change K, its scale and shift have names, as
        they move with K inside of it."""
        if self.variance_share is None:
            return x
        index = 1 + len({s.name[1:] for s, _ in self.definitions if s.name[:2] in ("s[", "m[")})
        scale = self._let(f"s[{index}]", x.scales[0], positive=True)
        shift = self._let(f"m[{index}]", x.shifts[0], positive=x.shifts[0].is_positive or None)
        return replace(x, scales=(scale,), shifts=(shift,))

    # --------------------------------------------------------------------------------------------------- tangents

    def tangent(self, x: Coordinate, name: str, p: int, q: int) -> sp.Expr:
        """The Gram entry Σ_j ⟨∂_j x_p ∂_j x_q⟩ of the field `name`."""
        gram = x.gram(name, p, q)
        if gram == sp.oo or self.variance_share is None:
            return gram
        return gram + self.variance_share * (self._stein(x) if x.of_one_node else x.drawn_along(self.slope))

    def _stein(self, x: Coordinate) -> sp.Expr:
        """What tangents do by way of K, per S; one position."""
        v, f = x.law.variance(0), x.pieces(0).diff()
        # scale and shift as symbols: they are constants of every average here, however long they are
        (c,), (m,) = x.scales, x.shifts
        c, m = c if c.is_number else sp.Dummy("c", positive=True), m if m.is_number else sp.Dummy("m", real=True)
        a, slope, total = self.slope(v), c * f.expr, sp.S.Zero
        if not x.is_linear and a != 0:
            at = sp.Dummy("V", positive=True)
            square = mean_of(f.map(lambda e: e**2).expr, at)
            total = 2 * (a * c) ** 2 * sp.diff(square, at).xreplace({at: v})
        drift = [(one, rate) for one, rate in self.drift(x, c, m) if one != 0 and rate != 0]
        for i, (one, rate) in enumerate(drift):
            total += 4 * a * rate * mean_of(Z[0] * slope * one, v, by_terms=True) / v
            total += 4 * rate**2 * mean_of(one**2, v, by_terms=True)
            total += sp.Add(*[8 * rate * r * mean_of(one * other, v, by_terms=True) for other, r in drift[:i]])
        return total.xreplace({c: x.scales[0], m: x.shifts[0]})

    def drift(self, x: Coordinate, c: sp.Expr, m: sp.Expr) -> list[tuple[sp.Expr, sp.Expr]]:
        """[(∂x/∂s, ds/dK)] at fixed z, over what x = c·(f - m) depends on K by: R is the sum of the products."""
        f = x.functions[0]
        inside = [(c * sp.diff(f, symbol), rate) for symbol, rate in self._through(f)]
        return [(f - m, self.slope(x.scales[0])), (-c, self.slope(x.shifts[0])), *inside]

    def as_gaussian(self, x: Coordinate) -> Coordinate:
        """The same coordinate with a linear one taken as the Gaussian itself."""
        if not x.is_linear or all(s == 1 for s in x.scales):
            return x
        back = {z: z / s for z, s in zip(Z, x.scales)}

        def scaled(name: str, pq: tuple[int, int], e: sp.Expr) -> sp.Expr:
            if name in ("norm_difference", "direction_part") or (name == "distance" and x.law.norm_difference):
                return getattr(x, name)()
            if name in ("K", "distance"):
                return tidy(x.scales[pq[0]] * x.scales[pq[1]] * e)
            return self.tangent(x, name, *pq)

        skip_factors = {
            skip: None if factors is None else tuple(f * s for f, s in zip(factors, x.scales))
            for skip, factors in x.law.skip_factors.items()
        }
        return replace(
            x,
            law=replace(x.law.map(scaled), skip_factors=skip_factors),
            scales=(sp.S.One,) * x.positions,
            z_ratios=tuple(g * s for g, s in zip(x.z_ratios, x.scales)),
            by_gains=tuple(tuple(a.xreplace(back) for a in one) for one in x.by_gains),
        )

    def ended(self, block: Block, x: Coordinate) -> Coordinate:
        """The coordinate that leaves the whole block, which must be Gaussian."""
        end = self.as_gaussian(self(block, x))
        if not end.is_linear:
            raise MeanFieldError(
                f"The block {block} does not end in Dense, so its output is not Gaussian; end it with Dense()."
            )
        return end


def refusal(block: object) -> MeanFieldError:
    return MeanFieldError(
        f"The block {shown(block)} has no rule in the theory yet; finite networks with it can be measured "
        "(meanfield.empirical.run_ensemble)."
    )
