"""Numbers that a user gives to a network: read, checked, and refused in one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import count_of, refuse_not_real, shown
from meanfield.base.words import no_parameter
from meanfield.empirical.functions.user_formulas import number
from meanfield.empirical.random.philox import MAX_INDEX, MAX_NETWORK
from meanfield.networks.folds import symbols_in
from meanfield.networks.records import Block


def real(value: Any, what: str) -> float:
    """`value` as a finite double, or `MeanFieldError`."""
    try:
        refused = isinstance(value, str | bytes | bool | np.bool_ | np.complexfloating) or np.ndim(value) > 0
        number = math.nan if refused else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise MeanFieldError(f"{what} must be a finite number, but {shown(value)} was given.")
    return number


def positive(value: Any, what: str) -> float:
    """`value` as a finite double > 0, or `MeanFieldError`."""
    number = real(value, what)
    if number <= 0:
        raise MeanFieldError(f"{what} must be > 0, but {number} was given.")
    return number


def integer(value: Any, what: str, lowest: int, below: int) -> int:
    """`value`, a whole number or a text of its digits, as an integer of [lowest, below), or `MeanFieldError`."""
    given, value = value, count_of(value)
    try:
        refused = isinstance(value, bool | np.bool_ | np.complexfloating) or np.ndim(value) > 0
        refused = refused or not abs(float(value)) < 1e30  # a Decimal of 10^6 digits is not written out first
        number = None if refused or int(value) != value else int(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not lowest <= number < below:
        raise MeanFieldError(f"{what} must be an integer from {lowest} to {below - 1}, but {shown(given)} was given.")
    return number


def networks_of(given: Any, least: int = 2) -> int:
    """How many networks are drawn, `least` or more, or `MeanFieldError`."""
    return integer(given, "The number of networks", least, MAX_NETWORK + 1)


def seed_of(given: Any) -> int:
    """A seed, or `MeanFieldError`."""
    return integer(given, "The seed", 0, 1 << 64)


def stream_of(seed: Any, index: Any) -> tuple[int, int]:
    """The seed and the number of the one network that is drawn, or `MeanFieldError`."""
    return seed_of(seed), integer(index, "The network's index", 0, MAX_NETWORK)


def probes_of(given: Any, numbers: int = 1) -> int:
    """How many probes are drawn, or `MeanFieldError`; numbers: of one, which bound how many a stream holds."""
    return integer(given, "The number of probes", 1, min(1 << 16, MAX_INDEX // numbers))


def per_layer(value: Any, what: str, depth: int) -> np.ndarray:
    """`value`, one number ≥ 0 or `depth` of them, as an array of length `depth`, or `MeanFieldError`."""
    refuse_not_real(value, what)
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        array = np.asarray(math.nan)
    if array.ndim > 1 or (array.ndim == 1 and array.size != depth):
        raise MeanFieldError(
            f"{what} must be one number or one per layer (depth = {depth}), but its shape is {array.shape}."
        )
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise MeanFieldError(f"{what} must be finite and ≥ 0, but {shown(value)} was given.")
    return np.array(np.broadcast_to(array, (depth,)))


def given_inputs(inputs: Any, tokens: int, dimension: int | None) -> tuple[np.ndarray, int, int]:
    refuse_not_real(inputs, "inputs")
    try:
        array = np.asarray(inputs, dtype=float)
    except (TypeError, ValueError, OverflowError):
        array = np.asarray(math.nan)
    if array.ndim not in (2, 3) or not array.size or not np.isfinite(array).all():
        raise MeanFieldError(
            "inputs must be finite numbers of shape (inputs, N_0) or (inputs, tokens, N_0), but an array of shape "
            f"{array.shape} was given."
        )
    if array.ndim == 3:
        if tokens not in (1, array.shape[1]):
            raise MeanFieldError(
                f"tokens={tokens} was given with inputs of {array.shape[1]} tokens; leave tokens= out."
            )
        tokens, array = array.shape[1], array.reshape(-1, array.shape[2])
    if dimension is not None and dimension != array.shape[1]:
        raise MeanFieldError(
            f"input_dimension={dimension} was given with inputs of {array.shape[1]} numbers; leave it out."
        )
    if len(array) % tokens:
        raise MeanFieldError(f"{len(array)} positions are no whole number of inputs of {tokens} tokens.")
    return np.ascontiguousarray(array), tokens, array.shape[1]


def rates_per_layer(given: Any, depth: int) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Learning rates (λ_w, λ_b) as `Ensemble` takes them, for layers 1 … depth: the layer that is made is l."""
    if given is None:
        return None, None
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise MeanFieldError(f"rates must be (λ_w, λ_b), but {shown(given)} was given.")
    return _rate(given[0], "lambda_w", depth), _rate(given[1], "lambda_b", depth)


def _rate(given: Any, name: str, depth: int) -> tuple[float, ...] | None:
    if given is None:
        return None
    if isinstance(given, str):
        given = [number(given, {"l": float(layer)}) for layer in range(1, depth + 1)]
    return tuple(per_layer(given, f"The learning rate {name}", depth).tolist())


def sampled(networks: object, probes: object, seed: object, input_norm: object, numbers: int = 1) -> tuple:
    """(networks, probes, seed, input_norm) of a measurement with standard errors; numbers: as in `probes_of`."""
    drawn = networks_of(networks), probes_of(probes, numbers), seed_of(seed)
    return *drawn, positive(input_norm, "The input norm |x|²/N_0")


def of_each(blocks: Sequence[Block], values: Mapping[str, Any]) -> list[tuple[Block, dict[str, Any]]]:
    """Every block with the values of its own symbols; a value of no symbol of any of them is refused."""
    known = [symbols_in(block) for block in blocks]
    for name in values:
        if not any(name in own for own in known):
            raise no_parameter(name, set().union(*known) - {"sigma_w", "sigma_b"}, "network")
    return [(block, {k: v for k, v in values.items() if k in own}) for block, own in zip(blocks, known)]


def blocks_of(blocks: object) -> None:
    """Raise `MeanFieldError` for what is not a list of blocks."""
    if isinstance(blocks, str) or not isinstance(blocks, Sequence) or not blocks:
        raise MeanFieldError(f"A list of at least one block was needed, but {blocks!r} was given.")
