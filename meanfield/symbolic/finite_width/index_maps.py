r"""The maps of several inputs as plain data: sums of products of arrays with input labels, one map for all patterns.

A map of the inputs 1, 2, 3, 4 holds for any of them that are equal: the derivatives by the variables of an average add
up to those by the common one. So each quantity is derived once, and evaluated at every tuple of inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.functions.activations import Activation
from meanfield.symbolic.finite_width.correlator_maps import INDEX_OF, MEANS, correlator_map
from meanfield.symbolic.finite_width.correlator_recursions import EXTRA, ORDER
from meanfield.symbolic.finite_width.ensembles import Ensemble
from meanfield.symbolic.finite_width.monomials import lambda_b, lambda_w
from meanfield.symbolic.finite_width.neuron_fields import Mean, Sigma
from meanfield.symbolic.finite_width.weight_averages import C_W, C_b

CONSTANTS = (C_W, C_b, lambda_w, lambda_b)


@dataclass(frozen=True)
class Average2:
    """⟨∂_a^{by[0]} ∂_b^{by[1]} σ^{(orders[0])}(z_a) σ^{(orders[1])}(z_b)⟩, derivatives outside, at two labels."""

    orders: tuple[int, int]
    by: tuple[int, int]
    labels: tuple[int, int]

    @property
    def key(self) -> tuple:
        return self.orders, self.by


@dataclass(frozen=True)
class Average4:
    """⟨Π σ^{(orders[i])}(z_{labels[i]})⟩ at four labels."""

    orders: tuple[int, int, int, int]
    labels: tuple[int, int, int, int]

    @property
    def key(self) -> tuple:
        return self.orders


@dataclass(frozen=True)
class CorrelatorEntry:
    """A mean or correlator of the layer before, its own indices being these labels."""

    name: str
    labels: tuple[int, ...]


@dataclass(frozen=True)
class IndexTerm:
    """coefficient (in C_W, C_b, lambda_w, lambda_b) · Π factors."""

    coefficient: sp.Expr
    factors: tuple[Average2 | Average4 | CorrelatorEntry, ...]


@dataclass(frozen=True)
class IndexMap:
    """The next value of `name` at its own indices 1, 2 (3, 4): a sum of terms."""

    name: str
    labels: tuple[int, ...]
    terms: tuple[IndexTerm, ...]

    @property
    def needs(self) -> tuple[str, ...]:
        """The quantities of the layer before that it holds."""
        return tuple(dict.fromkeys(f.name for t in self.terms for f in t.factors if isinstance(f, CorrelatorEntry)))

    @property
    def averages(self) -> tuple[Average2 | Average4, ...]:
        """The averages that it holds."""
        return tuple(dict.fromkeys(f for t in self.terms for f in t.factors if not isinstance(f, CorrelatorEntry)))

    @property
    def highest(self) -> int:
        """The highest derivative of σ that stands in it, derivatives outside of averages apart."""
        return max((d for one in self.averages for d in one.orders), default=0)


@lru_cache(maxsize=256)
def index_map(name: str, weights: Ensemble) -> IndexMap:
    """`correlator_map` of different inputs, read term by term.

    >>> from meanfield.symbolic.finite_width.ensembles import ensemble_of
    >>> found = index_map("B", ensemble_of("orthogonal"))
    >>> print(sorted(found.needs), [one.orders for one in found.averages if isinstance(one, Average4)])
    ['B', 'Theta'] [(1, 1, 1, 1)]
    """
    labels = (1, 2) if name in MEANS else (1, 2, 3, 4)
    terms = []
    for term in sp.Add.make_args(sp.expand(correlator_map(name, labels, weights=weights))):
        coefficient = sp.S.One
        factors: list[Average2 | Average4 | CorrelatorEntry] = []
        for factor in sp.Mul.make_args(term):
            base, power = factor.as_base_exp()
            if isinstance(base, Mean):
                factors += [_average(base)] * int(power)
            elif base.is_number or base in CONSTANTS:
                coefficient *= factor
            else:
                factors += [_entry(base)] * int(power)
        terms.append(IndexTerm(coefficient, tuple(factors)))
    return IndexMap(name, labels, tuple(terms))


def _average(one: Mean) -> Average2 | Average4:
    orders: dict[int, int] = {}
    for factor in sp.Mul.make_args(one.f):
        base, power = factor.as_base_exp()
        if not isinstance(base, Sigma) or power != 1 or int(base.args[1]) in orders:
            raise MeanFieldError(f"The average {one} of a map of different inputs was not expected.")
        orders[int(base.args[1])] = int(base.args[0])
    labels = tuple(sorted(orders))
    if len(labels) == 2 and set(one.by) <= set(labels):
        by = one.by.count(labels[0]), one.by.count(labels[1])
        return Average2((orders[labels[0]], orders[labels[1]]), by, (labels[0], labels[1]))
    if len(labels) == 4 and not one.by:
        return Average4(tuple(orders[a] for a in labels), labels)  # type: ignore[arg-type]
    raise MeanFieldError(f"The average {one} of a map of different inputs was not expected.")


def _entry(symbol: sp.Symbol) -> CorrelatorEntry:
    name, _, labels = symbol.name.rpartition("_")
    if name not in MEANS and name not in INDEX_OF:
        raise MeanFieldError(f"The symbol {symbol} of a map of several inputs was not expected.")
    return CorrelatorEntry(name, tuple(map(int, labels)))


def index_maps(names: Sequence[str], weights: Ensemble) -> dict[str, IndexMap]:
    """The maps of these quantities and of all that they depend on, each after what it needs."""
    known = (*ORDER, *(() if weights.invariant else EXTRA))
    found: dict[str, IndexMap] = {}
    todo = ["K", *names]
    while todo:
        name = todo.pop()
        if name not in found:
            found[name] = index_map(name, weights)
            todo += found[name].needs
    return {name: found[name] for name in known if name in found}


def refuse(phi: Activation, maps: dict[str, IndexMap], asked: Sequence[str]) -> None:
    """Refuse quantities that do not exist for this φ: averages of delta functions are not what networks have."""
    for name, one in {**{name: maps[name] for name in asked}, **maps}.items():
        if one.highest and not phi.is_continuous:
            raise MeanFieldError(
                f"{name} is not available: {phi.name} jumps; of the correlators only V and G1 exist for it, which "
                "need no slope."
            )
        if one.highest > 1 and phi.kinks:
            raise MeanFieldError(
                f"{name} is not available: {phi.name} has kinks: the second derivative of a network is not the weak "
                "one, so there are no P, Q, R, S, T and U."
            )
