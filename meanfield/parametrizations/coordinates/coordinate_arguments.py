"""What `coordinate_check` is given, read: a network, a parametrization, inputs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from meanfield.base.arguments import finite, shown, whole
from meanfield.base.errors import MeanFieldError
from meanfield.comparison.network_settings import network_and_pairs
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.operations.checks import given_inputs
from meanfield.networks.folds import symbols_in
from meanfield.networks.records import Network
from meanfield.parametrizations.one_parametrization import Parametrization
from meanfield.parametrizations.published import parametrization as named
from meanfield.parametrizations.step.step_case import Case
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.derivation import theory_and_values
from meanfield.theory.queries.given_values import deviations, double, with_values

LARGE = 1e60  # size of inputs and slopes
INPUT_DIMENSION = 64  # of inputs that are drawn
Pairs = Mapping[Hashable, ScalarPair]


def scheme_of(given: Any, optimizer: str | None) -> Parametrization:
    if isinstance(given, str):
        return named(given, optimizer="sgd" if optimizer == "momentum" else optimizer or "adam")
    if not isinstance(given, Parametrization):
        raise MeanFieldError(
            f"parametrization was to be a Parametrization or the name of one, but {shown(given)} was given."
        )
    if optimizer not in (None, given.optimizer) and (optimizer, given.optimizer) != ("momentum", "sgd"):
        raise MeanFieldError(
            f"optimizer={shown(optimizer)} was given with a parametrization for {given.optimizer}; leave it out, or "
            f"take parametrization({given.name!r}, optimizer={optimizer!r})."
        )
    return given



def case_of(
    scheme: Parametrization, network: Any, sigma_w: Any, sigma_b: Any, parameters: dict[str, Any]
) -> Case:
    """A network in a parametrization, without sizes: what `coordinate_check` is given first."""
    return base_of(network, scheme, sigma_w, sigma_b, parameters)[0]



def _refuse_growth(scheme: Parametrization) -> None:
    """Hidden layers whose preactivations grow with the width have no limit to compare with."""
    for kind, fan in (("input", 0), ("hidden", 1)):
        power = scheme.of(kind).effective().of_width + fan
        if power > 0:
            raise MeanFieldError(
                f"A coordinate check was asked of a parametrization whose forward pass grows with n: the mean square "
                f"of what its {kind} matrices make has the exponent {power}; take smaller variances or multipliers."
            )



def base_of(
    network: Any, scheme: Parametrization, sigma_w: Any, sigma_b: Any, parameters: dict[str, Any]
) -> tuple[Case, Pairs, str]:
    """The case with its record, without sizes; functions that networks lack; the network in words."""
    _refuse_growth(scheme)
    theory, values = theory_and_values(network, parameters)
    numbers = {name: double(name, value) for name, value in values.items()}
    record, pairs = network_and_pairs(theory, numbers)
    held = Network(with_values(record.block, values), with_values(record.first, values))  # type: ignore[arg-type]
    default = {"sigma_w": 1 if sigma_w is None else sigma_w, "sigma_b": 0 if sigma_b is None else sigma_b}
    own = {"sigma_w": sigma_w, "sigma_b": sigma_b}
    needed = {name: default[name] if name in symbols_in(held) else own[name] for name in own}
    found = deviations(held, needed)
    w, b = (_deviation(double(name, found[name]), name) for name in ("sigma_w", "sigma_b"))
    case = Case(held, scheme, w, b, 1, 2, np.ones((1, 1)), 1.0, 0.0, np.ones(1))
    return case, pairs, describe(held.block)



def _deviation(value: Any, name: str) -> float:
    found = finite(value, name)
    if found < 0:
        raise MeanFieldError(f"{name} must be one number ≥ 0, but {found:g} was given.")
    return found



def several(given: Any, what: str) -> list[Any]:
    if isinstance(given, int | str):
        return [given]
    try:
        found = list(given)
    except TypeError:
        found = []
    if not found:
        raise MeanFieldError(f"{what} must be one or several whole numbers, but {shown(given)} was given.")
    return found



def inputs_of(given: Any, seed: int) -> np.ndarray:
    if np.ndim(given) == 0:
        count = whole(given, "inputs", 1, 10**4)
        X = np.random.default_rng([seed, 0x1A]).standard_normal((count, INPUT_DIMENSION))
        return X * (math.sqrt(INPUT_DIMENSION) / np.linalg.norm(X, axis=1, keepdims=True))
    X, tokens, _ = given_inputs(given, 1, None)
    if tokens != 1:
        raise MeanFieldError("A coordinate check has inputs of one token each, (inputs, N_0), but tokens were given.")
    largest = np.abs(X).max(axis=1)
    if not largest.all():
        raise MeanFieldError("An input of a coordinate check is 0, which moves no weight; give others.")
    _refuse_sizes("inputs", largest)
    return X


def _refuse_sizes(what: str, sizes: np.ndarray) -> None:
    """Numbers whose squares are no doubles."""
    if sizes.max() > LARGE or sizes.min() < 1 / LARGE:
        found = sizes.max() if sizes.max() > LARGE else sizes.min()
        raise MeanFieldError(
            f"{what} must be of a size from {1 / LARGE:g} to {LARGE:g}, as their products are squared, but {found:g} "
            "was given; rescale them."
        )



def slopes_of(given: Any, count: int) -> np.ndarray:
    try:
        found = np.broadcast_to(np.asarray(given, dtype=float), (count,)).copy()
    except (TypeError, ValueError):
        found = np.zeros(0)
    if len(found) != count or not np.isfinite(found).all() or not found.any():
        raise MeanFieldError(
            f"slopes must be ∂L/∂f, a number or one for each of the {count} inputs, not all 0, but {shown(given)} was "
            "given."
        )
    _refuse_sizes("slopes", np.abs(found[found != 0]))
    return found



def not_negative(eps: Any) -> float:
    found = finite(eps, "eps")
    if found < 0:
        raise MeanFieldError(f"eps must be ≥ 0, but {found:g} was given: it is added to the size of a gradient.")
    return found
