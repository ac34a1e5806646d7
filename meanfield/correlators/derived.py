"""The correlators of order 1/n of a theory: which networks have them, what rates mean, the recursion they are read off.

A `Theory` asks here for V, A, B, D, F, P, Q, R, S, T, U, for the corrections G1, Theta1, J1 of the means, and for what
is of order 1/n²: V6, V1, G2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import flag, name_of, scalar, shown, text, whole
from meanfield.base.quantities import FINITE_WIDTH, ONE_INPUT, QUANTITIES, SECOND_ORDER
from meanfield.base.symbols import l, sigma_b, sigma_w
from meanfield.functions.activations import Activation, activation
from meanfield.functions.reading.parser import expression, parse
from meanfield.networks.folds import chain, dense_of, has_skip, parts, skip_of
from meanfield.networks.records import Block, Dense, Nonlinearity, Number, Schedule
from meanfield.symbolic.finite_width.correlator_maps import correlator_map, derivation, in_averages
from meanfield.symbolic.finite_width.correlator_recursions import OF_J, correlator_recursion
from meanfield.symbolic.finite_width.monomials import lambda_b, lambda_w
from meanfield.symbolic.finite_width.variance import second_order_map
from meanfield.symbolic.finite_width.variance_steps import variance_derivation
from meanfield.symbolic.finite_width.weight_averages import C_W, C_b
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.coordinate_walk import remembered
from meanfield.symbolic.recursions.first import begun
from meanfield.symbolic.recursions.naming import describe
from meanfield.symbolic.steps import Step

KNOWN = (*ONE_INPUT, *FINITE_WIDTH)
WITHOUT_RATES = tuple(n for n in KNOWN if not QUANTITIES[n].differentials)
REMEMBERED = tuple(n for n in WITHOUT_RATES if QUANTITIES[n].order < 2)  # of networks with a skip
RATES = {"lambda_w": (lambda_w, sigma_w**2), "lambda_b": (lambda_b, sigma_b**2)}
#: (law of a block's weights, of the input layer's record) → law of the network; the usual input layer is "gaussian"
_LAWS = {
    ("gaussian", "gaussian"): "gaussian",
    ("gaussian", "mixed"): "gaussian",
    ("orthogonal", "gaussian"): "orthogonal",
    ("orthogonal", "orthogonal"): "orthogonal",
    ("orthogonal", "mixed"): "mixed",
    ("mixed", "gaussian"): "mixed",
    ("mixed", "mixed"): "mixed",
    ("mixed", "orthogonal"): "orthogonal",
    ("uniform", "gaussian"): "uniform",
    ("uniform", "uniform"): "uniform",
}


def prepared(
    block: Block, first: Dense, names: tuple[str, ...], given: dict[str, Any], ratio: object, depth: object
) -> tuple[Recursion, dict[str, Any]]:
    """(the recursion for numbers, the values of its rates): what `propagate` runs. given: lambda_w and lambda_b, those
    that are not None; see `correlator_maps` for the others."""
    rates, values = numeric_rates(given, names, depth)
    return correlators(block, first, names, rates, scalar(ratio, "input_ratio")), values


@lru_cache(maxsize=64)
def held_apart(recursion: Recursion) -> Recursion | None:
    """The recursion with V + 2K² in the place of V, None where V does not start at -2K².

    That is what a Haar-orthogonal first layer leaves of it, and near it all that other correlators are made of cancels
    as K → 0: to order K² in A and D, so that -2K² rounded to a double leaves nothing of them at K = 1e-8.
    """
    own = {v.name: v for v in recursion.state}
    if "V" not in own or "K" not in own:
        return None
    K_, V_ = own["K"].symbol, own["V"].symbol
    start = sp.expand(own["V"].initial + 2 * own["K"].initial ** 2)
    if start.subs(sigma_b, 0) != 0:
        return None
    where = [v.name for v in recursion.state]

    def apart(step: Step) -> Step:
        new = [e.xreplace({V_: V_ - 2 * K_**2}) for e in step.next]
        new[where.index("V")] += 2 * new[where.index("K")] ** 2
        return Step(tuple(map(sp.expand, new)), step.definitions)

    state = tuple(replace(v, initial=start) if v.name == "V" else v for v in recursion.state)
    return replace(recursion, state=state, head=tuple(map(apart, recursion.head)), block=apart(recursion.block))


@remembered(maxsize=256)
def correlators(
    block: Block,
    first: Dense,
    names: tuple[str, ...],
    rates: tuple[sp.Expr, sp.Expr] = (sigma_w**2, sigma_b**2),
    ratio: object = 1,
) -> Recursion:
    """The recursion that carries `names`, with what they depend on and what they are normalized by.

    block, first: of the theory; rates: (λ_w, λ_b), expressions that may hold l; ratio: N_0/n.
    Raises: MeanFieldError for networks other than a plain MLP, and for what does not exist for its φ.
    """
    wrong = [x for x in names if x not in KNOWN]
    own = [x for x in names if x in FINITE_WIDTH]
    if wrong:
        beside = f" with {own[0]}" if own else ""
        raise MeanFieldError(
            f"{wrong[0]} was asked for{beside}, but the theory of order 1/n is of one input; with it go "
            f"{', '.join(KNOWN)}."
        )
    phi, law = plain(block, first, (own or ["The theory of order 1/n"])[0])
    taken = sorted({s.name for s in phi.free_parameters} & {*FINITE_WIDTH, *OF_J})
    if taken:
        raise MeanFieldError(f"{taken[0]} is a parameter of {phi.name} and a correlator; call the parameter otherwise.")
    held = {name for x in own for name, _ in QUANTITIES[x].over}
    asked = dict.fromkeys((*names, *(x for x in ONE_INPUT if x in held)))
    return begun(correlator_recursion(phi, weights=law, quantities=tuple(asked), rates=rates, inputs=ratio), first)


def one_map(
    block: Block, first: Dense, name: str, inputs: Sequence[int] | None, rates: tuple[sp.Expr, sp.Expr], ratio: object
) -> sp.Expr:
    """The next layer's value of one mean or correlator at any inputs, in averages over this φ; see
    `Theory.correlator_map`."""
    inputs = _indices(name, inputs)
    phi, law = plain(block, first, name)
    if name in SECOND_ORDER:
        _one_input(name, inputs)
        generic = second_order_map(name, weights=_after_first(law), ratio=_positive(ratio))
    else:
        generic = correlator_map(name, inputs, weights=_after_first(law), ratio=ratio)
    at = {C_W: sigma_w**2, C_b: sigma_b**2} | dict(zip((lambda_w, lambda_b), rates))
    return in_averages(generic, phi).xreplace(at)


def steps(block: Block, first: Dense, name: str, inputs: Sequence[int] | None, ratio: object, latex: bool) -> str:
    """The derivation of a map step by step, for any σ; see `Theory.derivation`."""
    inputs, latex = _indices(name, inputs), flag(latex, "latex")
    _, law = plain(block, first, name)
    if name in SECOND_ORDER:
        _one_input(name, inputs)
        return variance_derivation(name, weights=_after_first(law), ratio=_positive(ratio), latex=latex)
    return derivation(name, inputs, weights=_after_first(law), ratio=ratio, latex=latex)


def _indices(name: object, inputs: object) -> tuple[int, ...] | None:
    """The integers that say which inputs the indices of a quantity are of."""
    text(name, "The name of a mean or correlator")
    if inputs is None:
        return None
    if not isinstance(inputs, (tuple, list)):
        raise MeanFieldError(f"inputs must be a tuple of integers, one for each index, but {shown(inputs)} was given.")
    return tuple(whole(one, "An entry of inputs", 0, 1 << 30) for one in inputs)


def _one_input(name: str, inputs: Sequence[int] | None) -> None:
    if inputs is not None and len({*inputs}) > 1:
        raise MeanFieldError(f"{name} is derived for one input, but inputs={shown(inputs)} were given.")


def _positive(ratio: object) -> sp.Expr:
    value = expression(scalar(ratio, "The ratio of widths"), "The ratio of widths")
    if not value.is_positive:
        raise MeanFieldError(f"The ratio of widths must be > 0, but {shown(ratio)} was given.")
    return value


def _after_first(law: str) -> str:
    """The law of the layers after the first."""
    return "orthogonal" if law == "mixed" else law


def is_plain(block: Block, first: Dense) -> bool:
    """Whether a network is Dense(φ(z)) again and again, one φ and one σ_w and σ_b."""
    return next(_reasons(block, first), None) is None


def plain(block: Block, first: Dense, what: str) -> tuple[Activation, str]:
    """(φ, the law of the weights) of a network that is Dense(φ(z)) again and again.

    Raises: MeanFieldError for every other one, which names what is in the way.
    """
    reason = next(_reasons(block, first), None)
    if reason is not None:
        raise MeanFieldError(
            f"{what} is not available: the theory of order 1/n is derived for layers Dense(φ(z)) with one σ_w and σ_b, "
            f"but {describe(block)} has {reason}; mf.measure gives what its networks have."
        )
    phi, dense = chain(block)
    assert isinstance(phi, Nonlinearity) and isinstance(dense, Dense)
    return activation(phi.activation), _LAWS[dense.weights, first.weights]


def _reasons(block: Block, first: Dense) -> Iterator[str]:
    inside = list(parts(block))
    dense = dense_of(block)
    if has_skip(block):
        yield "a skip, with which no map of one layer carries it (propagate gives K, J, V, G1, J1 of some)"
    if any(p.normalizes == "neurons" for p in inside):
        yield "a LayerNorm"
    if any(isinstance(s, Schedule) for d in dense for s in (d.sigma_w, d.sigma_b)):
        yield "variances that change with depth (a Schedule)"
    if len(dense) != 1:
        yield f"{len(dense)} Dense layers in its block"
    if not dense[0].is_plain:
        yield "a Dense with σ's, a width or an axis of its own"
    if [type(one) for one in chain(block)] != [Nonlinearity, Dense]:
        yield "other parts than one Nonlinearity before one Dense"
    if (dense[0].weights, first.weights) not in _LAWS:
        yield f"{dense[0].weights} weights after an input layer of {first.weights} ones"


def remembering(block: Block, first: Dense, names: tuple[str, ...], rates: dict[str, Any]) -> tuple[Activation, Number]:
    """(φ, μ) of a network of layers Dense(φ(z)) + μz with Gaussian weights (μ = 0: none), whose V, G1 and J1 are known.

    Raises: MeanFieldError for every other one, and for other quantities, by name.
    """
    own = next((x for x in (*names, *rates) if x not in REMEMBERED), None)
    if own is not None:
        raise MeanFieldError(
            f"{own} is not available: of networks with a skip {', '.join(REMEMBERED)} are derived to order 1/n; "
            "mf.measure gives what its networks have."
        )
    what = next((x for x in names if x in FINITE_WIDTH), "The theory of order 1/n")
    skip = skip_of(block)
    inner = block if skip is None else skip.branch
    reason = next(_reasons(inner, first), None)
    if reason is None and skip is not None and skip.shortcut is not None:
        reason = "a shortcut that is no multiple of z"
    elif reason is None and plain(inner, first, what)[1] != "gaussian":
        reason = "other weights than Gaussian ones"
    if reason is not None:
        raise MeanFieldError(
            f"{what} is not available: with a skip the theory of order 1/n is derived for Dense(φ(z)) + μz with one "
            "σ_w "
            f"and σ_b, but {describe(block)} has {reason}; mf.measure gives what its networks have."
        )
    return plain(inner, first, what)[0], 0 if skip is None else skip.mu


def rates_of(given: dict[str, Any]) -> tuple[sp.Expr, sp.Expr]:
    """(λ_w, λ_b) as expressions: σ_w² and σ_b² for None; numbers, formulas in l such as "1/l", or names."""
    found = []
    for name, (_, usual) in RATES.items():
        value = given.get(name)
        found.append(usual if value is None else _formula(name, value))
    return found[0], found[1]


def refuse_zero(numbers: dict[str, Any], what: str, layerwise: bool) -> None:
    """Refuse a network whose first layer is 0: every correlator is divided by its K.

    numbers: sigma_w, sigma_b and input_norm, numbers or arrays; layerwise: whether the last axis of the σ's is layers.
    """
    import numpy as np  # numbers may be of many points

    try:
        w, b = (np.asarray(numbers[k], dtype=float) for k in ("sigma_w", "sigma_b"))
        first = [a[..., 0] if layerwise and a.ndim else a for a in (w, b)]
        zero = (first[0] ** 2 * np.asarray(numbers["input_norm"], dtype=float) + first[1] ** 2 == 0).any()
    except (TypeError, ValueError):
        return  # no numbers, or of shapes that do not fit: `propagate` raises
    if zero:
        raise nothing_varies(what)


def nothing_varies(what: str) -> MeanFieldError:
    """The refusal of a network whose first layer is 0."""
    return MeanFieldError(
        f"{what} is not available: K = sigma_w²·input_norm + sigma_b² is 0 at layer 1, where nothing varies; give an "
        "input or a bias."
    )


def numeric_rates(
    given: dict[str, Any], names: tuple[str, ...], depth: object
) -> tuple[tuple[sp.Expr, sp.Expr], dict[str, Any]]:
    """((λ_w, λ_b), the values of those that are numbers or arrays, which are symbols then): what is compiled once
    serves all numbers. names: what is asked for, which must feel rates that are given."""
    import numpy as np

    from meanfield.numeric.quadrature.evaluation import on_arrays

    found, values = [], {}
    if given and not set(names) - set(WITHOUT_RATES):
        raise MeanFieldError(f"{next(iter(given))} was given, but learning rates do not change {', '.join(names)}.")
    for name, (symbol, usual) in RATES.items():
        value = given.get(name)
        formula = value is not None and isinstance(value, (str, sp.Expr))
        e = _formula(name, value) if formula else None
        if value is None:
            found.append(usual)
        elif e is None or e.is_number:
            found.append(symbol)
            values[name] = value if e is None else float(e)
        else:
            if e.free_symbols - {l}:
                raise MeanFieldError(f"{name} must be a number or a formula in l here, but {shown(value)} was given.")
            layers = np.arange(1, 1 + min(depth, 10**5), dtype=float) if isinstance(depth, int) else np.ones(1)
            with np.errstate(all="ignore"):
                rates = np.broadcast_to(on_arrays((l,), e)(layers), layers.shape)
            bad = ~(np.isfinite(rates) & (rates >= 0))
            if bad.any():
                raise MeanFieldError(
                    f"{name} must be ≥ 0 at every layer, but {shown(value)} is {rates[bad][0]} at layer "
                    f"{int(layers[bad][0])}."
                )
            found.append(e)
    return (found[0], found[1]), values


def _formula(name: str, value: Any) -> sp.Expr:
    if isinstance(value, str):
        named = value.strip()
        own = [name_of(named, name)] if named.isidentifier() else []
        e = RATES[name][0] if named == name else parse(value, ("l", *own))
    else:
        e = expression(scalar(value, name), name)
    if e.has(sp.Symbol("z", real=True)):
        raise MeanFieldError(f"{name} must be a number or a formula in l, the layer, but {shown(value)} was given.")
    if e.is_number and not (e.is_finite and e >= 0):
        raise MeanFieldError(f"{name} must be ≥ 0 and finite, but {shown(value)} was given.")
    return e
