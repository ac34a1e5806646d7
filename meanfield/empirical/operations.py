"""From the architecture record to a flat list of operations on a stack, and the checks of numbers given by a user."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.architecture import Block, Dense, LayerNorm, Nonlinearity, Param, Residual, Sequential
from meanfield.empirical.functions import ScalarPair
from meanfield.empirical.twins import resolve
from meanfield.results import MeanFieldError


@dataclass(frozen=True)
class Map:
    """y → φ(y)."""

    pair: ScalarPair


@dataclass(frozen=True)
class Affine:
    """y → σ_w N^{−1/2} W y + σ_b b, the `ordinal`-th Dense of the block."""

    ordinal: int


@dataclass(frozen=True)
class Normalize:
    """y → (y − mean(y))/sd(y) over the neurons; `affine`: its γ and β are trained."""

    affine: bool


@dataclass(frozen=True)
class Save:
    """Remember y."""


@dataclass(frozen=True)
class AddSaved:
    """y → y + μ y′ with y′ the last one remembered, which is then forgotten; μ = mu[l − 1] in the block that makes
    layer l."""

    mu: tuple[float, ...]


Operation = Map | Affine | Normalize | Save | AddSaved


def operations(
    block: Block,
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None,
    mu: Any = None,
    depth: int = 1,
) -> tuple[Operation, ...]:
    """The block as a flat list.

    mu: the value of the block's `Param`s: one number, one per layer (`depth` of them, of which the first is not used:
    layer 1 has no skip), or a mapping from names to either. A number in the block is the same in every layer.

    Raises `MeanFieldError` for an activation without functions and for a `Param` without a value.
    """
    pairs = activation_pairs or {}
    ordinals = iter(range(1 << 15))

    def strength(value: Any) -> tuple[float, ...]:
        if not isinstance(value, Param):
            return (float(value),) * depth
        given = mu.get(value.name) if isinstance(mu, Mapping) else mu
        if given is None:
            raise MeanFieldError(
                f"A finite-width network needs a number for the skip strength {value.name}, which the architecture "
                f"leaves symbolic; give mu=..., or mu={{{value.name!r}: ...}}."
            )
        return tuple(per_layer(given, f"The skip strength {value.name}", depth).tolist())

    def walk(part: Block) -> Iterator[Operation]:
        match part:
            case Nonlinearity(activation):
                yield Map(resolve(activation, pairs))
            case Dense():
                yield Affine(next(ordinals))
            case LayerNorm(affine):
                yield Normalize(affine)
            case Sequential(blocks):
                for inner in blocks:
                    yield from walk(inner)
            case Residual(branch, value):
                yield Save()
                yield from walk(branch)
                yield AddSaved(strength(value))
            case _:
                raise MeanFieldError(
                    f"A finite-width network was asked for with the block {part!r}; the blocks that can be run so far "
                    "are Dense, Nonlinearity, LayerNorm, Sequential and Residual."
                )

    return tuple(walk(block))


def refuse_jumps(done: tuple[Operation, ...], what: str, instead: str) -> None:
    """Refuse a derivative, `what`, of operations with an activation that jumps; `instead` is what to do."""
    if not all(operation.pair.continuous for operation in done if isinstance(operation, Map)):
        raise MeanFieldError(
            f"{what} was asked for an activation that jumps: a finite network measures a derivative of 0 almost "
            f"surely, while the value at infinite width is infinite; {instead}."
        )


def real(value: Any, what: str) -> float:
    """`value` as a finite double, or `MeanFieldError`."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise MeanFieldError(f"{what} must be a finite number, but {value!r} was given.")
    return number


def positive(value: Any, what: str) -> float:
    """`value` as a finite double > 0, or `MeanFieldError`."""
    number = real(value, what)
    if number <= 0:
        raise MeanFieldError(f"{what} must be > 0, but {number} was given.")
    return number


def integer(value: Any, what: str, lowest: int, below: int) -> int:
    """`value` as an integer of [lowest, below), or `MeanFieldError`."""
    try:
        number = int(value) if int(value) == value and not isinstance(value, bool) else None
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not lowest <= number < below:
        raise MeanFieldError(f"{what} must be an integer from {lowest} to {below - 1}, but {value!r} was given.")
    return number


def per_layer(value: Any, what: str, depth: int) -> np.ndarray:
    """`value`, one number ≥ 0 or `depth` of them, as an array of length `depth`, or `MeanFieldError`."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        array = np.asarray(math.nan)
    if array.ndim > 1 or (array.ndim == 1 and array.size != depth):
        raise MeanFieldError(
            f"{what} must be one number or one per layer (depth = {depth}), but its shape is {array.shape}."
        )
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise MeanFieldError(f"{what} must be finite and ≥ 0, but {value!r} was given.")
    return np.array(np.broadcast_to(array, (depth,)))
