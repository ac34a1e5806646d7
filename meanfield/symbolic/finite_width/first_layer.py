r"""The first layer z¹ = W x + b of several inputs: means and correlators in moments of the inputs, exact in n.

W is averaged over as in every layer (`weight_averages`); what is summed over the inputs' coordinates is X_ab = Σ_j x_ja
x_jb/N_0 and, for weights that feel single coordinates, X_abcd = Σ_j x_ja x_jb x_jc x_jd/N_0.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import n
from meanfield.symbolic.finite_width.correlator_maps import INDEX_OF, MEANS
from meanfield.symbolic.finite_width.ensembles import Ensemble, Orthogonal
from meanfield.symbolic.finite_width.layer_law import PAIRINGS
from meanfield.symbolic.finite_width.linear_correlators import KINDS
from meanfield.symbolic.finite_width.monomials import Structure, WeightMonomial, quantity
from meanfield.symbolic.finite_width.neuron_fields import Preactivation, Sigma, Tensor, left
from meanfield.symbolic.finite_width.weight_averages import WeightAverage, average_over_weights, leading, structure_of

_LABELS = {"z": 1, "H": 2, "dH": 3, "ddI": 4, "ddII": 4}


def input_moment(*inputs: int) -> sp.Symbol:
    """X_ab or X_abcd, the mean over coordinates of a product of inputs; one symbol for all orders."""
    return sp.Symbol("X_" + "".join(map(str, sorted(inputs))), real=True)


def first_value(name: str, weights: Ensemble, share: sp.Expr) -> sp.Expr:
    r"""A mean, a correction or a correlator at layer 1 and inputs 1, 2 (3, 4) in the order of its own indices.

    share: N_0/n, a positive number; the limit n → ∞ is taken as in `layer_law`. Symbols: C_W, C_b, lambda_w, lambda_b
    and those of `input_moment`. Source: [orthogonal_weights] Sec. 4 for V of orthogonal weights; derived here.

    >>> from meanfield.symbolic.finite_width.ensembles import ensemble_of
    >>> print(first_value("V", ensemble_of("orthogonal"), sp.S(2)))
    -C_W**2*X_13*X_24/2 - C_W**2*X_14*X_23/2
    """
    if name in MEANS:
        kind, order = MEANS[name]
        exact = _coefficients(kind, (1, 2), weights, share).get(structure_of(left(1, 2)), sp.S.Zero)
        return sp.expand(leading(exact)[order]) if exact != 0 else sp.S.Zero
    kind, number, order4 = INDEX_OF[name]
    placed = [0] * 4
    for position, a in zip(order4, (1, 2, 3, 4)):
        placed[position] = a
    labels = left(1, 2, 3, 4)
    blocks = [labels] if number < 0 else [[labels[p] for p in b] for b in PAIRINGS[number]]
    exact = _coefficients(kind, tuple(placed), weights, share).get(structure_of(*blocks), sp.S.Zero)
    if (kind == "zzzz" and number == 0) or name in "AD":
        first = "H" if name == "A" else "zz"
        second = "zz" if kind == "zzzz" else "H"
        pair = structure_of(left(1, 2))
        one = _coefficients(first, tuple(placed[:2]), weights, share).get(pair, sp.S.Zero)
        two = _coefficients(second, tuple(placed[2:]), weights, share).get(pair, sp.S.Zero)
        exact = exact - one * two
    zeroth, value = _leading(exact)
    if zeroth != 0:
        raise MeanFieldError(f"{name} of the first layer is not of order 1/n: {zeroth} is left at order 1.")
    return value


def _leading(exact: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Orders 1 and 1/n, term by term."""
    parts = [leading(term) for term in sp.Add.make_args(sp.expand(exact))]
    return sp.expand(sp.Add(*[a for a, _ in parts])), sp.expand(sp.Add(*[b for _, b in parts]))


@lru_cache(maxsize=256)
def _coefficients(kind: str, inputs: tuple[int, ...], weights: Ensemble, share: sp.Expr) -> dict[Structure, sp.Expr]:
    """{index structure: coefficient} of the average of one kind of product at layer 1."""
    fan_in: sp.Expr = share * n
    found: dict[Structure, sp.Expr] = {}
    for one in _averaged(kind, inputs, weights, share).pairings:
        value = sp.S.Zero
        for term in sp.Add.make_args(sp.expand(one.summand)):
            value += _summed(term, [g[0] for g in one.groups], fan_in)
        found[one.structure] = found.get(one.structure, sp.S.Zero) + one.coefficient * value
    return found


def _averaged(kind: str, inputs: tuple[int, ...], weights: Ensemble, share: sp.Expr) -> WeightAverage:
    labels, factors, at = left(*range(1, 1 + len(inputs))), [], 0
    for name in KINDS[kind]:
        size = _LABELS[name]
        monomials = [_of_inputs(w) for w in quantity(name, labels[at : at + size], inputs[at : at + size])]
        factors.append([w for w in monomials if w.summand != 0])
        at += size
    whole = sp.Max(sp.S.One, share) * n if isinstance(weights, Orthogonal) else share * n
    return average_over_weights(*factors, weights=weights, size=whole, fan_in=share * n, of=kind)


def _of_inputs(monomial: WeightMonomial) -> WeightMonomial:
    """σ(x) = x, and an input has no tangents."""

    def value(order: sp.Expr, a: sp.Expr, j: sp.Symbol) -> sp.Expr:
        return Preactivation(a, j) if order == 0 else sp.S.One if order == 1 else sp.S.Zero

    summand = monomial.summand.replace(Sigma, value).replace(Tensor, lambda *_: sp.S.Zero)
    return WeightMonomial(summand, monomial.weights, monomial.biases, monomial.deltas, monomial.free)


def _summed(term: sp.Expr, labels: list[sp.Symbol], fan_in: sp.Expr) -> sp.Expr:
    """Σ over the coordinates of a product of inputs."""
    at: dict[sp.Symbol, list[int]] = {label: [] for label in labels}
    number = sp.S.One
    for factor in sp.Mul.make_args(term):
        base, power = factor.as_base_exp()
        if isinstance(base, Preactivation):
            at[base.args[1]] += [int(base.args[0])] * int(power)
        else:
            number *= factor
    if any(len(inputs) % 2 for inputs in at.values()):
        raise MeanFieldError("A sum over an odd number of inputs' coordinates does not occur in a first layer.")
    return number * prod((fan_in * (input_moment(*some) if some else 1) for some in at.values()), start=sp.S.One)
