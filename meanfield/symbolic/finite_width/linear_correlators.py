r"""Linear networks: the same monomials and pairings, exact in n, because the average over the layer before closes.

With σ(z) = z every summand is a product of z's and tensors of the layer before, whose averages are sums over set
partitions of Kronecker deltas with one number each (`Moments`). A sum over all neurons of a product of deltas is
n^(blocks of the join). So a layer is a linear map of these numbers, with no remainder: E of zz, zzzz, H, zzH, HH, dH z,
ddI and ddII, from which all correlators follow at every n; and E of 2m z's of one input for any m up to 100.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from math import prod
from typing import Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import meant, shown, whole
from meanfield.base.symbols import n
from meanfield.functions.reading.parser import expression
from meanfield.symbolic.finite_width.ensembles import Ensemble, Independent, ensemble_of
from meanfield.symbolic.finite_width.haar.pairings import Blocks, join
from meanfield.symbolic.finite_width.layer_law import CONNECTED, PAIRINGS
from meanfield.symbolic.finite_width.monomials import WeightMonomial, lambda_b, lambda_w, quantity
from meanfield.symbolic.finite_width.neuron_fields import Preactivation, Sigma, Tensor, left
from meanfield.symbolic.finite_width.weight_averages import C_W, C_b, LabelPairing, paired

#: averages that close: the quantities of one product, in the order of their labels
KINDS: dict[str, tuple[str, ...]] = {
    "zz": ("z", "z"),
    "H": ("H",),
    **{name: one.fields for name, one in CONNECTED.items()},
}
_SIZE = {"z": 1, "H": 2, "dH": 3, "ddI": 4, "ddII": 4}
Moments = Mapping[str, Mapping[Blocks, sp.Expr]]  # {kind: {blocks of equal labels: coefficient}}


@lru_cache(maxsize=64)
def _monomials(kind: str) -> tuple[tuple[WeightMonomial, ...], ...]:
    """The factors of a kind as monomials with σ(z) = z."""
    factors, first = [], 1
    for name in KINDS[kind]:
        labels = left(*range(first, first + _SIZE[name]))
        factors.append(tuple(map(_linear, quantity(name, labels))))
        first += _SIZE[name]
    return tuple(tuple(w for w in f if w.summand != 0) for f in factors)


def _linear(monomial: WeightMonomial) -> WeightMonomial:
    def value(order: sp.Expr, a: sp.Expr, j: sp.Symbol) -> sp.Expr:
        return Preactivation(a, j) if order == 0 else sp.S.One if order == 1 else sp.S.Zero

    return WeightMonomial(
        monomial.summand.replace(Sigma, value), monomial.weights, monomial.biases, monomial.deltas, monomial.free
    )


@dataclass(frozen=True)
class LinearLayer:
    """The exact averages of one layer of a linear network: `haar_moments`, at its `width` (a number or the symbol
    n)."""

    width: sp.Expr
    moments: Moments

    def next(self, width: object = None, **law: Any) -> LinearLayer:
        """The layer after it, of `width` neurons (the same unless given); see `first_linear_layer` for `law`."""
        here = self.width

        def averaged(kind: str, groups, summand: sp.Expr) -> sp.Expr:
            name, labels, number = _read(summand)
            if name == "":
                return number * here ** len(groups)
            alone = [(g[0],) for g in groups]
            known = self.moments[name]
            return number * sp.Add(
                *[c * here ** len(join(alone, [[labels[p] for p in b] for b in s])) for s, c in known.items()]
            )

        return _layer(averaged, here, here if width is None else _size_of(width, "width"), law)

    def correlators(self) -> dict[str, sp.Expr]:
        """K, Theta and the eleven correlators, times the width of the layer; for weights that are not invariant under
        rotations also V0, A0, D0_H, P0, R0 and S0, the terms with all labels equal."""
        pair = ((0, 1),)
        K, Theta = self.moments["zz"][pair], self.moments["H"][pair]
        found = {"K": K, "Theta": Theta}
        means = {"zzzz": K**2, "HH": Theta**2, "zzH": K * Theta}
        for kind, one in CONNECTED.items():
            for pairing, (name, _) in zip(PAIRINGS, one.correlators):
                value = self.moments[kind].get(pairing, sp.S.Zero)
                mean = means.get(kind, sp.S.Zero) if pairing == PAIRINGS[0] or kind == "zzzz" else sp.S.Zero
                found[name] = sp.factor(self.width * (value - mean))
            rest = self.moments[kind].get(((0, 1, 2, 3),), sp.S.Zero)
            if rest != 0:
                found[one.equal] = sp.factor(self.width * rest)
        return found


def first_linear_layer(
    fan_in: object, width: object = n, square: object = None, fourth: object = None, **law: Any
) -> LinearLayer:
    r"""The first layer z = W x + b of a linear network, exact: its averages over W and b.

    fan_in: N_0, an integer or a symbol; width: the layer's; square: |x|² (N_0 unless given); fourth: Σ_j x_j⁴, which
    weights with a fourth cumulant feel (square²/N_0, all x_j² equal, unless given).
    law: weights ("gaussian"), variance (C_W), bias (C_b), rates (λ_w, λ_b), symbols or numbers. Orthogonal W is a block
    of an orthogonal matrix of the larger of fan-in and width; where symbols leave that open, the two must be equal.

    Accuracy: exact. Raises: MeanFieldError for widths that cannot be compared and unknown ensembles.

    >>> layer = first_linear_layer(n, weights="orthogonal", variance=1, bias=0)
    >>> layer.next(weights="orthogonal", variance=1, bias=0).correlators()["V"]
    -2*n/(n + 2)
    """
    inputs = _size_of(fan_in, "fan_in")
    squared = inputs if square is None else _given(square, "square")
    powers = {0: inputs, 2: squared, 4: squared**2 / inputs if fourth is None else _given(fourth, "fourth")}

    def averaged(kind: str, groups, summand: sp.Expr) -> sp.Expr:
        name, labels, number = _read(summand)
        if "H" in name or "dd" in name:
            return sp.S.Zero  # an input has no tangent kernel
        return number * prod((powers[labels.count(g[0])] for g in groups), start=sp.S.One)

    return _layer(averaged, inputs, _size_of(width, "width"), law)


def _layer(averaged, fan_in: sp.Expr, width: sp.Expr, law: dict[str, Any]) -> LinearLayer:
    given = law.pop("rates", (lambda_w, lambda_b))
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise MeanFieldError(f"rates must be (lambda_w, lambda_b), but {shown(given)} was given.")
    rates = {s: _given(value, s.name) for s, value in zip((lambda_w, lambda_b), given)}
    usual = {"weights": "gaussian", "variance": C_W, "bias": C_b}
    for name in law.keys() - usual.keys():
        raise MeanFieldError(f"{name} is no part of the law of a layer.{meant(name, [*usual, 'rates'])}")
    law = usual | law
    law |= {name: _given(law[name], name) for name in ("variance", "bias")}
    size = _larger(fan_in, width) if ensemble_of(law["weights"]).name == "orthogonal" else fan_in
    moments: dict[str, dict[Blocks, sp.Expr]] = {}
    for kind in KINDS:
        made = _averages(kind, law["weights"], law["variance"], law["bias"], size, fan_in)
        found: dict[Blocks, sp.Expr] = {}
        for one in made:
            for term in sp.Add.make_args(sp.expand(one.summand)):
                place = tuple(tuple(int(label.name[1:]) - 1 for label in b) for b in one.structure)
                value = one.coefficient.xreplace(rates) * averaged(kind, one.groups, term)
                found[place] = found.get(place, sp.S.Zero) + value
        moments[kind] = {place: one for place, value in found.items() if (one := sp.factor(value)) != 0}
    return LinearLayer(width, moments)


@lru_cache(maxsize=256)
def _averages(kind: str, weights: Any, variance, bias, size, fan_in) -> tuple[LabelPairing, ...]:
    return paired(_monomials(kind), ensemble_of(weights), variance, bias, size, fan_in)[1]


def _given(value: object, what: str) -> sp.Expr:
    """A number ≥ 0, or an expression in symbols."""
    found = expression(value, what)
    if found.is_negative:
        raise MeanFieldError(f"{what} must be ≥ 0, but {shown(value)} was given.")
    return found


def _size_of(value: object, what: str) -> sp.Expr:
    """How many neurons: a whole number > 0, or a symbol."""
    if isinstance(value, sp.Expr) and value.free_symbols:
        return _given(value, what)
    return sp.Integer(whole(value, what, 1, 1 << 62))


def _larger(one: sp.Expr, two: sp.Expr) -> sp.Expr:
    found = sp.Max(one, two)
    if found.has(sp.Max):
        raise MeanFieldError(
            f"An orthogonal layer of {two} neurons on {one} is not available: it is a block of a matrix of the larger "
            "size, so give numbers, or equal widths."
        )
    return found


def _read(term: sp.Expr) -> tuple[str, tuple[sp.Symbol, ...], sp.Expr]:
    """A product of z's and tensors as (kind, its labels in order, the number before it)."""
    fields: list[tuple[str, tuple]] = []
    number = sp.S.One
    for factor in sp.Mul.make_args(term):
        base, power = factor.as_base_exp()
        if isinstance(base, Preactivation):
            fields += [("z", (base.args[1],))] * int(power)
        elif isinstance(base, Tensor):
            fields += [(base.name, base.labels)] * int(power)
        else:
            number *= factor
    for kind in ("", *KINDS):
        wanted = KINDS.get(kind, ())
        if sorted(wanted) == sorted(name for name, _ in fields):
            ordered = [labels for name, _ in groupby(wanted) for other, labels in fields if other == name]
            return kind, tuple(x for labels in ordered for x in labels), number
    raise MeanFieldError(f"The average of {term} does not close in a linear network.")


def linear_moments(
    order: int,
    depth: int,
    fan_in: object = n,
    width: object = n,
    weights: object = "gaussian",
    variance: sp.Expr = C_W,
) -> list[sp.Expr]:
    r"""G_{2m} of layers 1 … depth of a linear network without biases: E[z_{i_1} … z_{i_2m}] = Σ_pairings δ · G_{2m}.

    order: 2m, even, from 2 to 200; fan_in, width: N_0 and n, symbols or integers; |x|² = N_0; weights: Gaussian or
    orthogonal (with others the deltas are not those of pairings alone).

    Accuracy: exact. Source: [orthogonal_weights] (3.9), (3.16), (3.17), (3.24), derived here for unequal widths.

    >>> print(linear_moments(4, 2, weights="orthogonal", variance=1), linear_moments(4, 3, variance=1)[2].factor())
    [n/(n + 2), n/(n + 2)] (n + 2)**2/n**2
    """
    m = whole(order, "The order of a moment", 2, 200) // 2
    if whole(order, "The order of a moment", 2, 200) % 2:
        raise MeanFieldError(f"A moment of even order was asked for by its order, but {order} was given.")
    layers, ensemble = whole(depth, "The depth", 1, 10**4), ensemble_of(weights)
    if not ensemble.invariant:
        raise MeanFieldError(f"{ensemble.name} weights do not keep the sum over pairings; use `first_linear_layer`.")
    inputs, neurons = (
        x if isinstance(x, sp.Expr) else sp.Integer(whole(x, "A width", 1, 10**9)) for x in (fan_in, width)
    )
    square = _given(variance, "variance")
    first = _row_sum(ensemble, m, inputs, neurons, square) * inputs**m
    again = _row_sum(ensemble, m, neurons, neurons, square) * _loops(m, neurons)
    return [first * again**layer for layer in range(layers)]


def _row_sum(ensemble: Ensemble, m: int, fan_in: sp.Expr, width: sp.Expr, variance: sp.Expr) -> sp.Expr:
    """Σ over pairings on the right of the coefficient of one pairing on the left.

    An orthogonal matrix of size P keeps |x|²: contracting z with itself m times gives G Σ_pairings P^(loops) = |x|^2m.
    So the sum of Weingarten functions is 1/(P (P + 2) … (P + 2m - 2)) at every order.
    """
    if isinstance(ensemble, Independent):
        return (variance / fan_in) ** m
    size = _larger(fan_in, width)
    return (variance * size / fan_in) ** m / _loops(m, size)


def _loops(m: int, width: sp.Expr) -> sp.Expr:
    """Σ over the pairings of 2m labels of n^(loops with a given one): the k-th pair closes a loop, or joins one of the
    2k ends of those before."""
    return prod((width + 2 * k for k in range(m)), start=sp.S.One)
