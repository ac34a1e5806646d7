r"""Averages over a layer to order 1/n: E[f] = ⟨f⟩ + (1/n) Σ correlator × derivatives of f by what it connects.

At leading order neurons are independent, z Gaussian with covariance K, H_jk = δ_jk Θ, and the differentials of H are 0.
At order 1/n there are the corrections of means, G1 of K and Theta1 of Θ, and one connected average of four labels for
each of these (ΔH = H − δΘ; 1, 2, … are neurons with their inputs):

    E[z_1 z_2 z_3 z_4]_c = [(12)(34) V_1234 + (13)(24) V_1324 + (14)(23) V_1423]/n
    E[ΔH_12 ΔH_34] = [(12)(34) A_1234 + (13)(24) B_1324 + (14)(23) B_1423]/n
    E[z_1 z_2 ΔH_34] = [(12)(34) D_1234 + (13)(24) F_1324 + (14)(23) F_1423]/n
    E[dH_123 z_4] = [(14)(23) P_1423 + (12)(34) Q_1234 + (13)(24) Q_1324]/n
    E[ddI_1234] = [(12)(34) R_1234 + (13)(24) R_1324 + (14)(23) R_1423]/n
    E[ddII_1234] = [(12)(34) S_1234 + (13)(24) T_1324 + (14)(23) U_1423]/n

(the order of P's indices: first those of the pair that holds z). Weights whose law is not invariant under rotations add
a term with all four labels equal, V0, A0, D0_H, P0, R0, S0, which single neurons feel and pairs of different ones do
not. Source: [orthogonal_weights] (2.8), (5.6)-(5.14) for the definitions; the expansion is derived here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, combinations_with_replacement
from math import factorial, prod
from typing import Any

import sympy as sp

from meanfield.base.symbols import parameter
from meanfield.base.words import unknown
from meanfield.symbolic.finite_width.neuron_fields import NEURON, Mean, Sigma, Tensor, labels_of, relabelled

NeuronInput = tuple[sp.Symbol, int]  # a neuron and an input
PAIRINGS = (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2)))


@dataclass(frozen=True)
class Connected:
    """A connected average of four labels: the fields it is of, and for each pairing the correlator and its indices."""

    fields: tuple[str, ...]
    correlators: tuple[tuple[str, tuple[int, ...]], ...]
    equal: str

    def value(self, places: Sequence[NeuronInput], invariant: bool) -> sp.Expr:
        """n times the average: the correlators of the pairings that the labels allow."""
        labels, inputs = [j for j, _ in places], [a for _, a in places]
        total = sp.S.Zero
        for (one, two), (name, order) in zip(PAIRINGS, self.correlators):
            if labels[one[0]] == labels[one[1]] and labels[two[0]] == labels[two[1]]:
                total += correlator(name, [inputs[i] for i in order])
        if not invariant and len(set(labels)) == 1:
            total += correlator(self.equal, inputs)
        return total


_STRAIGHT = ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2))
CONNECTED: dict[str, Connected] = {
    "zzzz": Connected(("z", "z", "z", "z"), tuple(("V", o) for o in _STRAIGHT), "V0"),
    "HH": Connected(("H", "H"), tuple(zip("ABB", _STRAIGHT)), "A0"),
    "zzH": Connected(("z", "z", "H"), tuple(zip("DFF", _STRAIGHT)), "D0_H"),
    "dHz": Connected(("dH", "z"), (("Q", (0, 1, 2, 3)), ("Q", (0, 2, 1, 3)), ("P", (0, 3, 1, 2))), "P0"),
    "ddI": Connected(("ddI",), tuple(("R", o) for o in _STRAIGHT), "R0"),
    "ddII": Connected(("ddII",), tuple(zip("STU", _STRAIGHT)), "S0"),
}
_PAIRS: list[tuple[int, ...]] = [(1, 0, 2, 3), (0, 1, 3, 2), (2, 3, 0, 1)]
_SWAPS: list[tuple[int, ...]] = [(2, 3, 0, 1)]
#: generators of the orders of its indices that make no difference
SYMMETRY: dict[str, list[tuple[int, ...]]] = {
    "K": [(1, 0)],
    "G1": [(1, 0)],
    "Theta": [(1, 0)],
    "Theta1": [(1, 0)],
    "V": _PAIRS,
    "A": _PAIRS,
    "B": [(1, 0, 3, 2), (2, 3, 0, 1)],
    "D": _PAIRS[:2],
    "F": _SWAPS,
    "P": [(0, 1, 3, 2)],
    "Q": [],
    "R": [(0, 1, 3, 2)],
    "S": [(1, 0, 3, 2)],
    "T": _SWAPS,
    "U": _SWAPS,
    "V0": [(1, 0, 2, 3), (1, 2, 3, 0)],
    "A0": _PAIRS,
    "D0_H": _PAIRS[:2],
    "P0": [(0, 2, 1, 3)],
    "R0": [(0, 2, 1, 3), (0, 2, 3, 1)],
    "S0": [(1, 0, 3, 2)],
}


@lru_cache(maxsize=4096)
def _symbol(name: str, indices: tuple[int, ...]) -> sp.Symbol:
    found, fresh = {indices}, [indices]
    while fresh:
        one = fresh.pop()
        for order in SYMMETRY[name]:
            other = tuple(one[i] for i in order)
            if other not in found:
                found.add(other)
                fresh.append(other)
    best = min(found)
    return parameter(name if not any(best) else f"{name}_{''.join(map(str, best))}")


def correlator(name: str, inputs: Sequence[int]) -> sp.Symbol:
    """The symbol of a correlator at inputs, one for all orders that its symmetry identifies: V, or V_1212."""
    if name not in SYMMETRY:
        raise unknown("correlator", name, SYMMETRY)
    return _symbol(name, tuple(int(a) for a in inputs))


@lru_cache(maxsize=4096)
def first_order(f: sp.Expr, invariant: bool = True) -> tuple[sp.Expr, sp.Expr]:
    """(⟨f⟩, c) with E[f] = ⟨f⟩ + c/n + O(1/n²), f of different neurons.

    invariant: whether the law of the layer does not change under rotations (Gaussian and orthogonal weights).

    >>> from meanfield.symbolic.finite_width.neuron_fields import Sigma, LETTERS
    >>> j, k = LETTERS[:2]
    >>> print(*first_order(Sigma(0, 0, j) ** 2 * Sigma(0, 0, k) ** 2), sep=" | ")
    <σ**2>**2 | G1*<σ**2>*<∂∂ (σ**2)> + V*<σ**2>*<∂∂∂∂ (σ**2)>/4 + V*<∂∂ (σ**2)>**2/4
    """
    zeroth, first = sp.S.Zero, sp.S.Zero
    for term in sp.Add.make_args(sp.expand(f)):
        zero, one = _of_product(term, invariant)
        zeroth, first = zeroth + zero, first + one
    return sp.expand(zeroth), sp.expand(first)


def _of_product(term: sp.Expr, invariant: bool) -> tuple[sp.Expr, sp.Expr]:
    number, tensors, rest = sp.S.One, [], sp.S.One
    for factor in sp.Mul.make_args(term):
        base, power = factor.as_base_exp()
        if isinstance(base, Tensor):
            tensors += [base] * int(power)
        elif labels_of(factor):
            rest *= factor
        else:
            number *= factor
    by_label = {j: sp.Mul(*[x for x in sp.Mul.make_args(rest) if labels_of(x) == [j]]) for j in labels_of(term)}
    functions = {j: relabelled(f, {j: NEURON}) for j, f in by_label.items()}
    places = [(j, a) for j, f in by_label.items() for a in sorted({int(s.args[1]) for s in f.atoms(Sigma)})]

    def mean(by: Sequence[NeuronInput] = ()) -> sp.Expr:
        return sp.Mul(*[Mean(f, [a for i, a in by if i == j]) for j, f in functions.items()])

    def without(*gone: int) -> sp.Expr:
        return sp.Mul(*[_mean_of(t) for i, t in enumerate(tensors) if i not in gone])

    zeroth, first = mean() * without(), sp.S.Zero
    for two in combinations_with_replacement(places, 2):
        if two[0][0] == two[1][0]:
            first += correlator("G1", [a for _, a in two]) * mean(two) * without() / _repeats(two)
    for gone, fields in _chosen(tensors):
        left = without(*gone)
        if left == 0:
            continue
        if fields == ("H",) and _mean_of(tensors[gone[0]]) != 0:
            first += correlator("Theta1", tensors[gone[0]].inputs) * left * mean()
        at = [place for i in gone for place in zip(tensors[i].labels, tensors[i].inputs)]
        for name, zs in _CONNECTS.get(fields, ()):
            for some in combinations_with_replacement(places, zs):
                inner = [*some, *at] if CONNECTED[name].fields[0] == "z" else [*at, *some]
                value = CONNECTED[name].value([(j, int(a)) for j, a in inner], invariant)
                if value != 0:
                    first += value * left * mean(some) / _repeats(some)
    return number * zeroth, number * first


#: tensors that a connected average takes: its name, and how many z's beside them
_CONNECTS: dict[tuple[str, ...], list[tuple[str, int]]] = {}
for _name, _one in CONNECTED.items():
    _CONNECTS.setdefault(tuple(x for x in _one.fields if x != "z"), []).append((_name, _one.fields.count("z")))


def _chosen(tensors: Sequence[Any]) -> Iterator[tuple[tuple[int, ...], tuple[str, ...]]]:
    """None, one or two of the tensors, and their names: what a connected average may hold."""
    for count in range(3):
        for gone in combinations(range(len(tensors)), count):
            yield gone, tuple(tensors[i].name for i in gone)


def _mean_of(tensor: Any) -> sp.Expr:
    """The leading mean: Θ for H of one neuron, else 0."""
    if tensor.name == "H" and tensor.labels[0] == tensor.labels[1]:
        return correlator("Theta", tensor.inputs)
    return sp.S.Zero


def _repeats(places: Sequence[NeuronInput]) -> int:
    return prod(factorial(places.count(p)) for p in set(places))
