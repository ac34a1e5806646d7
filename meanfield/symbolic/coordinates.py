r"""The state of two inputs of one norm in other coordinates, derived from its map in (K, K_ab, distance).

| names | K | K_ab | distance |
|---|---|---|---|
| K, c | K | cK | 2K(1 - c) |
| K, gamma | K | Kγ/(1 + γ) | 2K/(1 + γ) |
| sigma_mu2, sigma_y2 | σ_μ² + σ_y² | σ_μ² | 2σ_y² |

σ_μ² is the variance over weights of a neuron's mean over inputs, σ_y² that over inputs at fixed weights, γ their ratio:
the initial guessing bias of [bias_and_trainability] is these two inputs.
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.quantities import read_off
from meanfield.base.symbols import K, K_ab, distance, sigma_mu2, sigma_y2
from meanfield.symbolic.averages.nodes.equal_norms import as_printed
from meanfield.symbolic.recursion import Recursion, StateVar
from meanfield.symbolic.steps import Step

c = sp.Symbol("c", real=True)
gamma = sp.Symbol("gamma", real=True)

COORDINATES = tuple(read_off("equal_norms"))
_SPREAD = ("sigma_mu2", "sigma_y2")


def in_coordinates(recursion: Recursion, names: tuple[str, ...]) -> Recursion:
    """The recursion of two inputs of one norm with the state in the coordinates that `names` hold.

    Raises: MeanFieldError for coordinates that do not go together.
    """
    asked = [n for n in names if n in COORDINATES]
    if "log_gamma" in asked:
        raise MeanFieldError(
            "The map of log_gamma is not available: ask for that of gamma (propagate gives log_gamma)."
        )
    if len(set(asked) - set(_SPREAD)) > 1 or (set(asked) & set(_SPREAD) and set(asked) - set(_SPREAD)):
        raise MeanFieldError(
            f"The coordinates {', '.join(asked)} were asked for together; a state of two inputs has K and c, K and "
            "gamma, or sigma_mu2 and sigma_y2."
        )
    if {"K_ab", "distance"} & set(names) or ("K" in names and set(asked) & set(_SPREAD)):
        raise MeanFieldError(
            f"{', '.join(names)} are not available: K, K_ab and distance are functions of {' and '.join(asked)}; ask "
            "for one or the other."
        )
    others = tuple(n for n in names if n not in COORDINATES and n != "K")
    base = recursion.only("K", "K_ab", "distance", *others)
    if asked[0] in _SPREAD:
        state = (sigma_mu2, sigma_y2)
        here = {K: sigma_mu2 + sigma_y2, K_ab: sigma_mu2, distance: 2 * sigma_y2}

        def back(K_, K_ab_, distance_):
            return K_ab_, distance_ / 2
    elif asked[0] == "c":
        state = (K, c)
        here = {K_ab: c * K, distance: 2 * K * (1 - c)}

        def back(K_, K_ab_, distance_):
            return K_, K_ab_ / K_
    else:
        state = (K, gamma)
        here = {K_ab: K * gamma / (1 + gamma), distance: 2 * K / (1 + gamma)}

        def back(K_, K_ab_, distance_):
            return K_, 2 * K_ab_ / distance_

    at = [base.index(n) for n in ("K", "K_ab", "distance")]
    rest = [base.index(n) for n in base.names if n not in ("K", "K_ab", "distance")]

    def moved(step: Step) -> Step:
        step = step.map(lambda e: as_printed(e).subs(here, simultaneous=True))
        return Step((*map(_tidy, back(*[step.next[i] for i in at])), *[step.next[i] for i in rest]), step.definitions)

    start = back(*[base.state[i].initial for i in at])
    first = tuple(StateVar(s.name, s, _tidy(e)) for s, e in zip(state, start))
    return replace(
        base,
        state=(*first, *[base.state[i] for i in rest]),
        block=moved(base.block),
        head=tuple(map(moved, base.head)),
        readout=(),
        closer=(),
    )


def _tidy(e: sp.Expr) -> sp.Expr:
    """Common factors of a quotient cancelled, where that does not make it longer."""
    short = sp.factor_terms(e)
    return short if short.count_ops() <= e.count_ops() else e
