r"""Monomials: sums over neurons of products of one layer's weights, and the quantities of a layer as sums of monomials.

A monomial is Π W_{i j} · Π b_i · Π δ_{i i'} · f, f a function of the layer before, summed over the labels j on the
right (and over `free` ones that no W carries). The preactivation and the differentials of the tangent kernel of the
next layer follow from z′ = W σ(z) + b by the chain rule: a derivative by a parameter falls on this layer's own W or
b, or on the old z. With legs D(i; a, b, …) = ∂_a ∂_b … z_i they are contractions over parameters, each with its λ_a:

    H_12 = D(1; a) D(2; a)                          dH_123 = D(1; a, b) D(2; a) D(3; b)
    ddI_1234 = D(1; a, b, c) D(2; a) D(3; b) D(4; c)    ddII_1234 = D(1; a, c) D(2; b, c) D(3; a) D(4; b)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product as choices
from typing import TypeAlias

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import lambda_b, lambda_w, n
from meanfield.base.words import unknown
from meanfield.symbolic.finite_width.haar.pairings import join, set_partitions
from meanfield.symbolic.finite_width.neuron_fields import Sigma, Tensor, labels_of, relabelled, right

Label: TypeAlias = sp.Symbol
Structure: TypeAlias = tuple[tuple[Label, ...], ...]  # blocks of labels on the left that are equal, in order

CONTRACTIONS: dict[str, tuple[str, ...]] = {
    "z": ("",),
    "H": ("a", "a"),
    "dH": ("ab", "a", "b"),
    "ddI": ("abc", "a", "b", "c"),
    "ddII": ("ac", "bc", "a", "b"),
}


@dataclass(frozen=True)
class WeightMonomial:
    """Σ over the right labels of Π W_{i j} Π b_i Π δ_{i i'} · summand."""

    summand: sp.Expr
    weights: tuple[tuple[Label, Label], ...] = ()
    biases: tuple[Label, ...] = ()
    deltas: tuple[tuple[Label, Label], ...] = ()
    free: tuple[Label, ...] = ()

    @property
    def summed(self) -> tuple[Label, ...]:
        """The labels that are summed over."""
        return (*(j for _, j in self.weights), *self.free)

    def shifted(self, by: int) -> WeightMonomial:
        """The same monomial, its right labels j1, j2, … numbered from `by` + 1 on."""
        new = {j: right(by + i) for i, j in enumerate(self.summed, 1)}
        weights = tuple((i, new[j]) for i, j in self.weights)
        free = tuple(new[j] for j in self.free)
        return replace(self, summand=relabelled(self.summand, new), weights=weights, free=free)

    def times(self, other: WeightMonomial) -> WeightMonomial:
        """The product; its right labels are numbered on."""
        other = other.shifted(len(self.summed))
        ours = self.shifted(0)
        return WeightMonomial(
            ours.summand * other.summand,
            ours.weights + other.weights,
            ours.biases + other.biases,
            ours.deltas + other.deltas,
            ours.free + other.free,
        ).shifted(0)

    def __str__(self) -> str:
        return self._text(lambda x: str(x), "δ_{{{} {}}}", "W_{{{} {}}}", "b_{{{}}}", "Σ_{{{}}} ", " ")

    def latex(self) -> str:
        return self._text(sp.latex, r"\delta_{{{} {}}}", "W_{{{} {}}}", "b_{{{}}}", r"\sum_{{{}}} ", r" \, ")

    def _text(self, name, delta: str, weight: str, bias: str, total: str, space: str) -> str:
        parts = [delta.format(*map(name, d)) for d in self.deltas]
        body = [weight.format(name(i), name(j)) for i, j in self.weights] + [bias.format(name(i)) for i in self.biases]
        inner = space.join([*body, name(self.summand)] if self.summand != 1 or not body else body)
        head = total.format(" ".join(map(name, self.summed))) if self.summed else ""
        return space.join([*parts, head + inner])


def monomial_product(*factors: Sequence[WeightMonomial]) -> list[WeightMonomial]:
    """The product of sums of monomials, equal monomials added up."""
    total = [WeightMonomial(sp.S.One)]
    for monomials in factors:
        total = [one.times(two) for one in total for two in monomials]
    return merged(total)


def merged(monomials: Sequence[WeightMonomial]) -> list[WeightMonomial]:
    """Monomials that differ in their coefficient alone added up; zeros left out."""
    found: dict[tuple, sp.Expr] = {}
    for monomial in monomials:
        for term in sp.Add.make_args(sp.expand(monomial.summand)):
            number, rest = _coefficient(term)
            key = (replace(monomial, summand=rest),)
            found[key] = found.get(key, sp.S.Zero) + number
    return [replace(key[0], summand=sp.factor(c) * key[0].summand) for key, c in found.items() if sp.expand(c) != 0]


def _coefficient(term: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """A product as (constants, functions of the layer before)."""
    rest = [f for f in sp.Mul.make_args(term) if labels_of(f)]
    return sp.Mul(*[f for f in sp.Mul.make_args(term) if not labels_of(f)]), sp.Mul(*rest)


def quantity(name: str, labels: Sequence[Label], inputs: Sequence[int] | None = None) -> list[WeightMonomial]:
    """z, H, dH, ddI or ddII of the next layer at neurons `labels` of it and at `inputs` (0, the only one, unless
    given), as monomials of this layer's W and b and of the tensors of the layer before."""
    if name not in CONTRACTIONS:
        raise unknown("quantity", name, CONTRACTIONS)
    legs = CONTRACTIONS[name]
    at = tuple(inputs) if inputs is not None else (0,) * len(legs)
    if len(labels) != len(legs) or len(at) != len(legs):
        raise MeanFieldError(f"{name} has {len(legs)} labels and inputs, but {len(labels)} and {len(at)} were given.")
    letters = sorted({c for leg in legs for c in leg})
    monomials: list[WeightMonomial] = []
    for places in choices(("old", "w", "b"), repeat=len(letters)):
        monomials += _chosen(legs, tuple(labels), at, dict(zip(letters, places)))
    if name == "z":
        monomials.append(WeightMonomial(sp.S.One, biases=(labels[0],)))
    return merged([monomial.shifted(0) for monomial in monomials])


def _chosen(
    legs: tuple[str, ...], labels: tuple[Label, ...], inputs: tuple, where: dict[str, str]
) -> Iterator[WeightMonomial]:
    """The monomials in which each contracted parameter is an old one, a weight or a bias of this layer."""
    rate = sp.S.One
    deltas: list[tuple[Label, Label]] = []
    free: dict[str, Label] = {}
    for c, place in where.items():
        if place != "old":
            one, two = (i for i, leg in enumerate(legs) if c in leg)
            deltas.append((labels[one], labels[two]))
            rate *= lambda_w / n if place == "w" else lambda_b
            if place == "w":
                free[c] = right(100 + len(free))
    weights: list[tuple[Label, Label]] = []
    terms: list[tuple[sp.Expr, list]] = [(rate, [])]
    for i, leg in enumerate(legs):
        own = [c for c in leg if where[c] != "old"]
        if len(own) > 1 or (own and where[own[0]] == "b" and len(leg) > 1):
            return  # z is linear in this layer's parameters, and its slope by a bias is a constant
        if own and where[own[0]] == "b":
            continue
        label = free[own[0]] if own else right(i + 1)
        if not own:
            weights.append((labels[i], label))
        old = [c for c in leg if where[c] == "old"]
        terms = [
            (f * Sigma(len(blocks), inputs[i], label), [*have, *((label, inputs[i], b) for b in blocks)])
            for f, have in terms
            for blocks in set_partitions(old)
        ]
    for f, found in terms:
        yield WeightMonomial(f * _tensors(found), tuple(weights), (), tuple(deltas), tuple(free.values()))


def _tensors(legs: list[tuple[Label, int, tuple[str, ...]]]) -> sp.Expr:
    """Contracted legs of the layer before as a product of its tensors."""
    total = sp.S.One
    for block in join([(i, *(f"of {c}" for c in leg[2])) for i, leg in enumerate(legs)]):
        some = sorted((legs[i] for i in block if isinstance(i, int)), key=lambda leg: -len(leg[2]))
        heads = [leg for leg in some if len(leg[2]) > 1]
        ends = {leg[2][0]: leg for leg in some if len(leg[2]) == 1}
        if not heads:
            order, name = some, "H"
        elif len(heads) == 1:
            order, name = [heads[0], *(ends[c] for c in heads[0][2])], {2: "dH", 3: "ddI"}[len(heads[0][2])]
        else:
            order, name = [*heads, *(next(ends[c] for c in head[2] if c in ends) for head in heads)], "ddII"
        total *= Tensor(sp.Symbol(name), sp.Tuple(*[x[0] for x in order]), sp.Tuple(*[x[1] for x in order]))
    return total
