r"""The correlators of one input as a `Recursion`: maps, values at layer 1, what each needs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import names as names_of
from meanfield.base.arguments import scalar, shown
from meanfield.base.encodings import LOGARITHM, PLAIN
from meanfield.base.quantities import QUANTITIES
from meanfield.base.symbols import Q0, J, l, n, parameter, sigma_b, sigma_w
from meanfield.base.words import unknown
from meanfield.functions.activations import activation as record
from meanfield.functions.reading.parser import expression
from meanfield.symbolic.finite_width.correlator_maps import INDEX_OF, MEANS, correlator_map, in_averages
from meanfield.symbolic.finite_width.ensembles import Ensemble, ensemble_of
from meanfield.symbolic.finite_width.layer_law import correlator
from meanfield.symbolic.finite_width.linear_correlators import first_linear_layer
from meanfield.symbolic.finite_width.monomials import lambda_b, lambda_w
from meanfield.symbolic.finite_width.variance import NAMES as OF_VARIANCE
from meanfield.symbolic.finite_width.variance import SECOND, first_cumulants, second_order_map, symbol
from meanfield.symbolic.finite_width.weight_averages import C_W, C_b, leading
from meanfield.symbolic.recursion import Recursion, StateVar
from meanfield.symbolic.steps import Domain, Step

#: each after all that its map may hold; weights that are not invariant under rotations have `EXTRA`, too
ORDER = ("K", "Theta", "V", "G1", "B", "D", "F", "A", "Theta1", "P", "Q", "R", "S", "T", "U")
EXTRA = ("V0", "D0_H")
#: the Jacobian, which is a tangent kernel with zero rates and H¹ = 1: J, its D, F, D0_H and Theta1 divided by J, and
#: its A, B and A0 by J²
OF_J = {"J": "Theta", "D_J": "D", "F_J": "F", "D0_J": "D0_H", "J1_J": "Theta1", "B_J": "B", "A_J": "A", "A0_J": "A0"}
SQUARES = ("A", "B", "A0")  # of second degree in the tangent kernel
NEED_SLOPE = ("Theta", "B", "D", "F", "A", "Theta1", "D0_H", *OF_J)
NEED_CURVATURE = tuple(n for n, q in QUANTITIES.items() if q.differentials > 1)


def correlator_recursion(
    activation: Any,
    *,
    weights: object = "gaussian",
    quantities: Sequence[str] | None = None,
    rates: tuple[Any, Any] | None = None,
    inputs: object = 1,
) -> Recursion:
    r"""K, Theta, their corrections of order 1/n and the eleven correlators of an MLP, from layer to layer.

    z¹ = W x + b, z^{l+1} = W φ(z^l) + b with hidden layers of one width n; a correlator is n times the connected
    average that `layer_law` defines, in the limit n → ∞.

    activation: a name, formula, expression or record; weights: "gaussian", "orthogonal", "mixed" (a Gaussian first
    layer, then orthogonal ones), "uniform", or an `Independent`; quantities: names, with what they depend on (all that
    exist for this φ, unless given: V and G1 where φ jumps, no P, Q, R, S, T, U where it has kinks; J, its correction J1
    and V6, V1, G2 of order 1/n², from `variance`, only where they are named); rates: (λ_w, λ_b), numbers,
    expressions or names (σ_w², σ_b² unless given; λ_w is divided by the fan-in), which may hold l, the layer that is
    made; inputs: N_0/n, a number > 0.
    Weights with a fourth cumulant feel Σ_j x_j⁴ at layer 1: V0 there is that of an input in a random direction, whose
    entries have ⟨x⁴⟩ = 3⟨x²⟩², as networks draw it. J1 = J·J1_J is read off, and J1_J, D_J and F_J, carried divided by
    J, stay finite where J overflows.

    Raises: MeanFieldError for unknown names, a quantity that does not exist for this φ, and averages that do not.

    >>> print(correlator_recursion("relu", weights="orthogonal", quantities="V").doit())
    K' = K*sigma_w**2/2 + sigma_b**2
    V' = 3*K**2*sigma_w**4/4 + V*sigma_w**4/4
    """
    phi, mixed = record(activation), weights == "mixed"
    ensemble = ensemble_of("orthogonal" if mixed else weights)
    known = (*ORDER, *(() if ensemble.invariant else EXTRA))
    can_be_asked = (*known, "J", "J1", "A_J", *(SECOND if ensemble.invariant else ()))
    asked = known if quantities is None else names_of(quantities, "quantities")
    for name in asked:
        if name in SECOND and not ensemble.invariant:
            second_order_map(name, weights=ensemble)  # refuses
        if name not in can_be_asked:
            raise unknown("quantity", name, can_be_asked)
    corrected = "J1" in asked
    asked = tuple(y for x in asked for y in (("J", "J1_J") if x == "J1" else (x,)))
    if quantities is None and phi.kinks:
        gone = (*NEED_CURVATURE, *(() if phi.is_continuous else NEED_SLOPE))
        asked = tuple(x for x in asked if x not in gone)
    at = {C_W: sigma_w**2, C_b: sigma_b**2} | dict(zip((lambda_w, lambda_b), _rates(rates)))
    symbols = {_symbol(x): x for x in (*known, *OF_J, *SECOND)}
    maps: dict[str, sp.Expr] = {}
    todo = list(asked)
    while todo:
        name = todo.pop()
        if name not in maps:
            maps[name] = _map(name, ensemble)
            todo += [symbols[s] for s in maps[name].free_symbols if s in symbols]
            todo.append("K")
    start = _start(ensemble_of("gaussian") if mixed else ensemble, inputs)
    order = [x for x in (*_ordered(known), *OF_J, *SECOND) if x in maps]
    first = {x: start[x].xreplace(at).subs(l, 1) for x in order}
    state = tuple(StateVar(x, _symbol(x), first[x], LOGARITHM if x == "J" else PLAIN) for x in order)
    step = Step(tuple(in_averages(maps[x], phi).xreplace(at) for x in order))
    domain = tuple((s, Domain(sp.S.Zero)) for s in (lambda_w, lambda_b) if s in step.free_symbols)
    return Recursion(state, step, readout=(("J1", J * _symbol("J1_J")),) if corrected else (), domain=domain)


def _map(name: str, ensemble: Ensemble) -> sp.Expr:
    if name in SECOND:
        return second_order_map(name, weights=ensemble)
    return _of_jacobian(name, ensemble) if name in OF_J else correlator_map(name, weights=ensemble)


def _of_jacobian(name: str, ensemble: Ensemble) -> sp.Expr:
    """The map of J, or of D_J, …, J1_J, A_J: that of Theta, D, …, Theta1, A with zero rates, divided by J′ or J′²."""
    there = {_symbol(old): J ** (1 + (old in SQUARES)) * _symbol(new) for new, old in OF_J.items() if new != "J"}
    there |= {_symbol("Theta"): J, lambda_w: sp.S.Zero, lambda_b: sp.S.Zero}

    def of(what: str) -> sp.Expr:
        return sp.expand(correlator_map(what, weights=ensemble).xreplace(there))

    if name == "J":
        return of("Theta")
    return sp.expand(of(OF_J[name]) / of("Theta") ** (1 + (OF_J[name] in SQUARES)))


def _ordered(known: Sequence[str]) -> list[str]:
    """K and Theta, the parts of single neurons, then the correlators, each after what it depends on."""
    first = [x for x in ("K", "Theta") if x in known] + [x for x in EXTRA if x in known]
    return first + [x for x in known if x not in first]


def _symbol(name: str) -> sp.Symbol:
    if name in OF_J:
        return parameter(name)
    if name in SECOND:
        return symbol(*OF_VARIANCE[name])
    return correlator(name, (0,) * (2 if name in MEANS else 4))


def _rates(rates: tuple[Any, Any] | None) -> tuple[sp.Expr, sp.Expr]:
    if rates is None:
        return sigma_w**2, sigma_b**2
    if not isinstance(rates, (tuple, list)) or len(rates) != 2:
        raise MeanFieldError(f"rates are (λ_w, λ_b), but {shown(rates)} was given.")
    found = tuple(expression(scalar(r, "A learning rate"), "A learning rate") for r in rates)
    for rate in found:
        if rate.is_negative:
            raise MeanFieldError(f"Learning rates must be ≥ 0, but {rate} was given.")
    return found


def _start(weights: Ensemble, ratio: object) -> dict[str, sp.Expr]:
    """The values at layer 1 with N_0 = ratio·n inputs of |x|² = N_0 Q0, n → ∞."""
    what = "The ratio N_0/n of inputs to neurons"
    share = sp.nsimplify(expression(scalar(ratio, what), what), rational=True)
    if not share.is_positive:
        raise MeanFieldError(f"{what} must be a number > 0, but {shown(ratio)} was given.")
    return _first(weights, share)


@lru_cache(maxsize=64)
def _first(weights: Ensemble, share: sp.Expr) -> dict[str, sp.Expr]:
    direction = {"square": share * n * Q0, "fourth": 3 * share * n * Q0**2}
    layer = first_linear_layer(share * n, n, weights=weights, rates=(lambda_w, lambda_b), **direction)
    found = {x: leading(v)[0] for x, v in layer.correlators().items()}
    if weights.invariant:
        cumulants = first_cumulants(2, weights, share, C_W * Q0)
        found |= {x: cumulants[OF_VARIANCE[x]] for x in SECOND}
    return {x: found.get(x, sp.S.Zero) for x in (*MEANS, *INDEX_OF, *OF_J, *SECOND)} | {"J": sp.S.One}
