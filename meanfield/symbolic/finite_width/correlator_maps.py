r"""The maps of all correlators of order 1/n from layer to layer, read off the average over one layer's weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import sympy as sp

from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import name_of, scalar, shown
from meanfield.base.symbols import Z, n, parameter, z
from meanfield.base.words import unknown
from meanfield.functions.activations import activation as record
from meanfield.functions.reading.parser import expression
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.finite_width.ensembles import Ensemble, ensemble_of
from meanfield.symbolic.finite_width.layer_law import CONNECTED, PAIRINGS, correlator, first_order
from meanfield.symbolic.finite_width.monomials import quantity
from meanfield.symbolic.finite_width.neuron_fields import Mean, Sigma, left
from meanfield.symbolic.finite_width.weight_averages import WeightAverage, average_over_weights, structure_of

SIZES = {"z": 1, "H": 2, "dH": 3, "ddI": 4, "ddII": 4}
#: name → (what it is an average of, which pairing of its labels, the order of its indices)
INDEX_OF: dict[str, tuple[str, int, tuple[int, ...]]] = {}
for _kind, _one in CONNECTED.items():
    for _number, (_name, _order) in enumerate(_one.correlators):
        INDEX_OF.setdefault(_name, (_kind, _number, _order))
    INDEX_OF[_one.equal] = (_kind, -1, (0, 1, 2, 3))
MEANS = {"K": ("zz", 0), "Theta": ("H", 0), "G1": ("zz", 1), "Theta1": ("H", 1)}
NAMES = (*MEANS, *(name for name in INDEX_OF if "0" not in name))
_FIELDS: dict[str, tuple[str, ...]] = {"zz": ("z", "z"), "H": ("H",), **{k: c.fields for k, c in CONNECTED.items()}}


@lru_cache(maxsize=512)
def weight_average(kind: str, inputs: tuple[int, ...], weights: Ensemble, ratio: sp.Expr = sp.S.One) -> WeightAverage:
    """E over W and b of the product that a correlator is of ("zzzz", "HH", "zzH", "dHz", "ddI", "ddII", "zz", "H"),
    step by step; `inputs`: one for each label; `ratio`: see `correlator_map`."""
    labels, factors, at = left(*range(1, 1 + len(inputs))), [], 0
    for name in _FIELDS[kind]:
        size = SIZES[name]
        factors.append(quantity(name, labels[at : at + size], inputs[at : at + size]))
        at += size
    of = " ".join(f"{name}'_{{{' '.join(map(str, part))}}}" for name, part in _named(kind, labels))
    return average_over_weights(*factors, weights=weights, size=sp.Max(sp.S.One, ratio) * n, of=of)


def _named(kind: str, labels: Sequence[sp.Symbol]) -> list[tuple[str, tuple[sp.Symbol, ...]]]:
    found, at = [], 0
    for name in _FIELDS[kind]:
        found.append((name, tuple(labels[at : at + SIZES[name]])))
        at += SIZES[name]
    return found


def correlator_map(
    name: str, inputs: Sequence[int] | None = None, *, weights: object = "gaussian", ratio: object = 1
) -> sp.Expr:
    r"""The next layer's value of a mean or correlator, in averages ⟨…⟩ and in the means and correlators of this layer.

    name: K, Theta (leading order), G1, Theta1 (their corrections of order 1/n), V, A, B, D, F, P, Q, R, S, T or U, as
    `layer_law` defines them; or V0, A0, … of weights that are not invariant under rotations, whose layers have these
    terms too. Each is n times the connected average, n the width of its own layer.
    inputs: an integer for each index, in the order of the correlator's own indices (0, the only input, unless given);
    weights: "gaussian", "orthogonal", "uniform" or an `Independent`; ratio: width of the new layer by that of the layer
    before (an orthogonal W is a block of an orthogonal matrix of the larger size).

    Symbols: C_W, C_b variances of weights (times n) and biases, lambda_w (by fan-in) and lambda_b rates. `in_averages`
    puts in an activation. Raises: MeanFieldError for an unknown name or ensemble, or a number of inputs that is not
    that of the indices. Source: derived; [orthogonal_weights] (4.16) is V.

    >>> print(correlator_map("V", weights="orthogonal"))
    C_W**2*V*<∂∂ (σ**2)>**2/4 - 3*C_W**2*<σ**2>**2 + C_W**2*<σ**4>
    """
    ensemble, width = ensemble_of(weights), _ratio(ratio)
    kind, placed = _indexed(name, inputs)
    if name in MEANS:
        order = MEANS[name][1]
        return sp.expand((width if order else sp.S.One) * _mean(kind, placed, ensemble, width)[order])
    number = INDEX_OF[name][1]
    found = _expanded(kind, placed, ensemble, width)
    labels = left(1, 2, 3, 4)
    blocks = [labels] if number < 0 else [[labels[p] for p in b] for b in PAIRINGS[number]]
    zeroth, first = found.get(structure_of(*blocks), (sp.S.Zero, sp.S.Zero))
    if kind == "zzzz" and number == 0:
        zeroth, first = _connected(zeroth, first, "zz", placed[:2], "zz", placed[2:], ensemble, width)
    elif name in "AD":
        other = "zz" if name == "D" else "H"
        zeroth, first = _connected(zeroth, first, other, placed[:2], "H", placed[2:], ensemble, width)
    if sp.expand(zeroth) != 0:
        raise MeanFieldError(f"{name} is not of order 1/n: {zeroth} is left at order 1.")
    return sp.expand(width * first)


#: of the symbols of a derivation, which are those of the papers on order 1/n
MEANINGS = (
    "σ = φ(z), σ' = φ'(z); C_W = σ_w², C_b = σ_b²; H is the tangent kernel of one network, Theta its mean, lambda_w "
    "and lambda_b learning rates; a prime on z, H or a quantity is the next layer; <.> is the average at infinite width"
)


def derivation(
    name: str,
    inputs: Sequence[int] | None = None,
    *,
    weights: object = "gaussian",
    ratio: object = 1,
    latex: bool = False,
) -> str:
    r"""How `correlator_map` finds a mean or correlator, as on paper: monomials, pairings, coincidences, the averages of
    the layer before to order 1/n, the collected terms, and the map itself: one of these terms, for V, A and D less the
    product of means, for correlators times the width of the new layer.

    Arguments are those of `correlator_map`; latex: an align* of amsmath instead of text.

    >>> print(derivation("K").split("expansion")[1])
    : E[f] = <f> + (...)/n of the layer before, n its width
      E[σ_{j}**2] = <σ**2> + (G1*<∂∂ (σ**2)>/2 + V*<∂∂∂∂ (σ**2)>/8)/n
    collected: order 1, and order 1/n
      δ_{i1 i2}:
        C_W*<σ**2> + C_b
        + (C_W*G1*<∂∂ (σ**2)>/2 + C_W*V*<∂∂∂∂ (σ**2)>/8)/n
    K' = C_W*<σ**2> + C_b
    """
    ensemble, width = ensemble_of(weights), _ratio(ratio)
    kind, placed = _indexed(name, inputs)
    steps = weight_average(kind, placed, ensemble, width)
    law = partial(first_order, invariant=ensemble.invariant)
    found, label = correlator_map(name, inputs, weights=weights, ratio=ratio), _label(name, inputs)
    if latex:
        told = MEANINGS.translate({ord("σ"): r"\sigma", ord("φ"): r"\varphi", ord("²"): "^2"})
        text, begin = steps.latex(law, f"{sp.latex(label)}' = {sp.latex(found)}"), "\\begin{align*}\n"
        return text.replace(begin, f"{begin}% {told}\n", 1)
    return f"{wrapped(MEANINGS)}\n{steps.text(law)}\n{label}' = {found}"


def _label(name: str, inputs: Sequence[int] | None) -> sp.Symbol:
    return correlator(name, inputs if inputs is not None else (0,) * (2 if name in MEANS else 4))


def _ratio(given: object) -> sp.Expr:
    what = "The ratio of widths"
    value = parameter(name_of(given, what)) if isinstance(given, str) and given.isidentifier() else None
    value = expression(scalar(given, what), what) if value is None else value
    if value.is_positive is False:
        raise MeanFieldError(f"The ratio of widths must be > 0, but {given} was given.")
    return value


def _indexed(name: str, inputs: Sequence[int] | None) -> tuple[str, tuple[int, ...]]:
    """(what a correlator is an average of, the inputs of its labels)."""
    if name not in MEANS and name not in INDEX_OF:
        raise unknown("correlator", name, (*MEANS, *INDEX_OF))
    length = 2 if name in MEANS else 4
    at = tuple(inputs) if inputs is not None else (0,) * length
    if len(at) != length or not all(isinstance(a, int) and a >= 0 for a in at):
        raise MeanFieldError(f"{name} has {length} indices, integers ≥ 0, but inputs={shown(inputs)} were given.")
    if name in MEANS:
        return MEANS[name][0], at
    kind, _, order = INDEX_OF[name]
    placed = [0] * 4
    for position, a in zip(order, at):
        placed[position] = a
    return kind, tuple(placed)


def _expanded(kind: str, inputs: tuple[int, ...], ensemble: Ensemble, ratio: sp.Expr) -> dict:
    law = partial(first_order, invariant=ensemble.invariant)
    return weight_average(kind, inputs, ensemble, ratio).expanded(law)


def _mean(kind: str, inputs: Sequence[int], ensemble: Ensemble, ratio: sp.Expr) -> tuple[sp.Expr, ...]:
    return _expanded(kind, tuple(inputs), ensemble, ratio)[structure_of(left(1, 2))]


def _connected(
    zeroth, first, one: str, at, two: str, there, ensemble: Ensemble, ratio: sp.Expr
) -> tuple[sp.Expr, sp.Expr]:
    """The connected part: the product of two means taken off, to order 1/n."""
    (a0, a1), (b0, b1) = _mean(one, at, ensemble, ratio), _mean(two, there, ensemble, ratio)
    return sp.expand(zeroth - a0 * b0), sp.expand(first - a0 * b1 - a1 * b0)


def in_averages(e: sp.Expr, activation: Any) -> sp.Expr:
    r"""A map with its averages ⟨…⟩ over a generic σ as `Average` nodes of one activation.

    Derivatives are taken of the averages, in the weak sense: ⟨∂_a ∂_b f⟩ = ∂⟨f⟩/∂K_ab (twice that for a = b), and what
    is left of an odd number as the slope by a mean; with one input ⟨∂f⟩ = ⟨z f⟩/K. So kinks count, and K is not
    inverted for several inputs.

    activation: a name, a formula, an expression or a record. Raises: MeanFieldError where σ′ stands in the map and φ
    jumps, or σ″ and φ has kinks: averages of delta functions are not what networks have.
    """
    phi = record(activation)
    highest = max((int(s.args[0]) for s in e.atoms(Sigma)), default=0)
    if highest and not phi.is_continuous:
        raise MeanFieldError(
            f"{phi.name} jumps; of the correlators only V and G1, and of the next order V6, V1 and G2, exist for it, "
            "which need no slope."
        )
    if highest > 1 and phi.kinks:
        raise MeanFieldError(
            f"The second derivative of {phi.name} is needed, which has kinks: the one of a network is not the weak "
            "one, so there are no P, Q, R, S, T and U."
        )
    slopes, last = [phi.expression.xreplace({z: Z[0]})], phi.pieces
    for _ in range(highest):
        last = last.diff()
        slopes.append(last.expr)
    return e.xreplace({one: _node(one, slopes) for one in e.atoms(Mean)})


def _node(one: Mean, slopes: Sequence[sp.Expr]) -> sp.Expr:
    names = sorted({int(s.args[1]) for s in one.f.atoms(Sigma)} | set(one.by))
    if len(names) > len(Z):
        raise MeanFieldError(f"Averages over at most {len(Z)} inputs are known, but {one} is over {len(names)}.")
    place = {a: i for i, a in enumerate(names)}
    values = {s: slopes[int(s.args[0])].xreplace({Z[0]: Z[place[int(s.args[1])]]}) for s in one.f.atoms(Sigma)}
    f, left_over = one.f.xreplace(values), list(one.by)
    cov = [correlator("K", (a, b)) for i, a in enumerate(names) for b in names[: i + 1]]
    odd = left_over.pop() if len(left_over) % 2 else None
    mean = [sp.S.Zero] * len(names)
    slope = sp.Dummy("m", real=True)
    if odd is not None and len(names) == 1:
        found = average(Z[0] * f, cov) / cov[0]
    elif odd is not None:
        mean[place[odd]] = slope
        found = average(f, cov, mean).diff(slope).xreplace({slope: sp.S.Zero})
    else:
        found = average(f, cov)
    while left_over:
        a, b = left_over.pop(), left_over.pop()
        found = (2 if a == b else 1) * found.diff(correlator("K", (a, b)))
    return found
