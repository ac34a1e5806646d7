"""One network of finite width, drawn and run: the second reading of the architecture record.

z¹ = σ_w N_0^{−1/2} W x + σ_b b, then z^{l+1} = block(z^l), where Dense is y → σ_w N^{−1/2} W y + σ_b b with entries of
W and b independent standard normals, Nonlinearity is y → φ(y) coordinatewise and Residual is y → branch(y) + μ y. The
block is turned into a flat list of operations on a stack, and the Jacobian ∂z^l/∂z^{l0} is pushed through the same
operations by the chain rule. σ_w, σ_b may depend on the layer; all Dense of one block take those of their layer.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit

from meanfield.architecture import Block, Dense, Nonlinearity, Param, Residual, Sequential
from meanfield.empirical.functions import ScalarPair, elementwise
from meanfield.empirical.philox import MAX_INDEX, MAX_LAYER, MAX_NETWORK, fill_normals
from meanfield.empirical.twins import resolve
from meanfield.results import MeanFieldError

_BLOCK_OF_WEIGHTS = 1 << 22  # numbers of W held at once: 32 MiB


@dataclass(frozen=True)
class Map:
    """y → φ(y); the Jacobian's rows are multiplied with φ′(y)."""

    pair: ScalarPair


@dataclass(frozen=True)
class Affine:
    """y → σ_w N^{−1/2} W y + σ_b b, the `ordinal`-th Dense of the block."""

    ordinal: int


@dataclass(frozen=True)
class Save:
    """Remember y."""


@dataclass(frozen=True)
class AddSaved:
    """y → y + μ y′ with y′ the last one remembered, which is then forgotten."""

    mu: float


Operation = Map | Affine | Save | AddSaved
Matrix = np.ndarray | None


def operations(
    block: Block,
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None,
    mu: float | Mapping[str, float] | None = None,
) -> tuple[Operation, ...]:
    """The block as a flat list; `mu` is the value of its `Param`s, one number or a mapping from names.

    Raises `MeanFieldError` for an activation without functions and for a `Param` without a value.
    """
    pairs = activation_pairs or {}
    ordinals = iter(range(1 << 15))

    def strength(value: Any) -> float:
        if not isinstance(value, Param):
            return float(value)
        given = mu.get(value.name) if isinstance(mu, Mapping) else mu
        if given is None:
            raise MeanFieldError(
                f"A finite-width network needs a number for the skip strength {value.name}, which the architecture "
                f"leaves symbolic; give mu=..., or mu={{{value.name!r}: ...}}."
            )
        number = real(given, f"The skip strength {value.name}")
        if number < 0:
            raise MeanFieldError(f"The skip strength {value.name} must be ≥ 0, but {given!r} was given.")
        return number

    def walk(part: Block) -> Iterator[Operation]:
        match part:
            case Nonlinearity(activation):
                yield Map(resolve(activation, pairs))
            case Dense():
                yield Affine(next(ordinals))
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
                    "are Dense, Nonlinearity, Sequential and Residual."
                )

    return tuple(walk(block))


def real(value: Any, what: str) -> float:
    """`value` as a finite double, or `MeanFieldError`."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise MeanFieldError(f"{what} must be a finite number, but {value!r} was given.")
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


def _per_layer(value: Any, what: str, depth: int) -> np.ndarray:
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


def _aligned(*shape: int) -> np.ndarray:
    """An empty array that starts on a cache line, so that no BLAS peels off a different head in another run."""
    raw = np.empty(math.prod(shape) + 8)
    skip = (-raw.ctypes.data // 8) % 8
    return raw[skip : skip + math.prod(shape)].reshape(shape)


class Buffers:
    """Recycled scratch matrices of one thread: fresh pages for every N × N product would cost as much as the draw."""

    def __init__(self) -> None:
        self._free: dict[tuple[int, ...], list[np.ndarray]] = {}

    def take(self, *shape: int) -> np.ndarray:
        free = self._free.get(shape)
        return free.pop() if free else _aligned(*shape)

    def give(self, array: np.ndarray) -> None:
        self._free.setdefault(array.shape, []).append(array)


@njit(cache=True, nogil=True)
def _scale_rows(scale, matrix, out):
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            out[i, j] = scale[i] * matrix[i, j]


@njit(cache=True, nogil=True)
def _add_scaled(first, factor, second, out):
    for i in range(first.shape[0]):
        for j in range(first.shape[1]):
            out[i, j] = first[i, j] + factor * second[i, j]


@dataclass(frozen=True, eq=False)
class Ensemble:
    """The law of random networks: a block, its widths and its standard deviations.

    `block` is repeated depth − 1 times after the input layer; `sigma_w`, `sigma_b` ≥ 0 are numbers or arrays of length
    `depth`; `input_dimension` N_0 (kept as `fan_in`) is the width unless given. `Ensemble(...).network(seed, index)`
    is one draw.
    """

    block: Block
    sigma_w: Any
    sigma_b: Any
    width: int
    depth: int
    input_dimension: int | None = None
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None
    mu: float | Mapping[str, float] | None = None
    fan_in: int = field(init=False)
    operations: tuple[Operation, ...] = field(init=False)

    def __post_init__(self) -> None:
        width = integer(self.width, "The width", 1, 1 << 24)
        depth = integer(self.depth, "The depth", 1, MAX_LAYER)
        given = width if self.input_dimension is None else self.input_dimension
        checked = {
            "width": width,
            "depth": depth,
            "fan_in": integer(given, "The input dimension N_0", 1, MAX_INDEX // width),
            "sigma_w": _per_layer(self.sigma_w, "sigma_w", depth),
            "sigma_b": _per_layer(self.sigma_b, "sigma_b", depth),
            "operations": operations(self.block, self.activation_pairs, self.mu),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def network(self, seed: int, index: int, buffers: Buffers | None = None) -> Network:
        """Network number `index` of the ensemble's realization `seed`: the same numbers wherever it is drawn."""
        seed = integer(seed, "The seed", 0, 1 << 64)
        return Network(self, seed, integer(index, "The network's index", 0, MAX_NETWORK), buffers or Buffers())


@dataclass(frozen=True)
class Network:
    """One draw of an ensemble.

    The weights of layer l are the streams (seed, index, l, role), role = 2·ordinal for W, 2·ordinal + 1 for b; W[i, j]
    is number i·fan_in + j of its stream. They are drawn when they are used, and not kept.
    """

    ensemble: Ensemble
    seed: int
    index: int
    buffers: Buffers

    def layers(self, inputs: np.ndarray, l0: int | None = None) -> Iterator[tuple[int, np.ndarray, Matrix]]:
        """Yield (l, z, G) for l = 1..depth: z[a] = z^l for input a, and G = ∂z^l/∂z^{l0} at the first input.

        `inputs` has shape (number of inputs, N_0). G is None before layer l0, or always if l0 is None; it may be
        rescaled in place by the caller (it enters linearly) and is overwritten when the iteration goes on.
        """
        z, _ = self._affine(0, 1, np.ascontiguousarray(inputs, dtype=float), None)
        jacobian = None
        for layer in range(1, self.ensemble.depth + 1):
            if layer > 1:
                z, jacobian = self._block(layer, z, jacobian)
            if layer == l0:
                jacobian = self.buffers.take(self.ensemble.width, self.ensemble.width)
                jacobian[...] = 0.0
                np.fill_diagonal(jacobian, 1.0)
            yield layer, z, jacobian
        if jacobian is not None:
            self.buffers.give(jacobian)

    def _block(self, layer: int, z: np.ndarray, jacobian: Matrix) -> tuple[np.ndarray, Matrix]:
        saved: list[tuple[np.ndarray, Matrix]] = []
        for operation in self.ensemble.operations:
            skip = None
            match operation:
                case Save():
                    saved.append((z, jacobian))
                    continue
                case Map(pair):
                    new_z, new = self._map(pair, z, jacobian)
                case Affine(ordinal):
                    new_z, new = self._affine(ordinal, layer, z, jacobian)
                case AddSaved(mu):
                    skip_z, skip = saved.pop()
                    new_z, new = np.multiply(skip_z, mu, out=_aligned(*z.shape)), None
                    new_z += z
                    if jacobian is not None:
                        new = self.buffers.take(*jacobian.shape)
                        _add_scaled(jacobian, mu, skip, new)
            self._recycle(jacobian, saved)
            if skip is not jacobian:
                self._recycle(skip, saved)
            z, jacobian = new_z, new
        return z, jacobian

    def _recycle(self, matrix: Matrix, saved: list[tuple[np.ndarray, Matrix]]) -> None:
        if matrix is not None and all(matrix is not kept for _, kept in saved):
            self.buffers.give(matrix)

    def _map(self, pair: ScalarPair, z: np.ndarray, jacobian: Matrix) -> tuple[np.ndarray, Matrix]:
        new_z = _aligned(*z.shape)
        elementwise(pair.phi)(z.ravel(), new_z.ravel(), pair.parameters)
        if jacobian is None:
            return new_z, None
        slope = np.empty(z.shape[1])
        elementwise(pair.dphi)(z[0], slope, pair.parameters)
        new = self.buffers.take(*jacobian.shape)
        _scale_rows(slope, jacobian, new)
        return new_z, new

    def _affine(self, ordinal: int, layer: int, z: np.ndarray, jacobian: Matrix) -> tuple[np.ndarray, Matrix]:
        width, fan_in = self.ensemble.width, z.shape[1]
        sigma_w, sigma_b = self.ensemble.sigma_w[layer - 1], self.ensemble.sigma_b[layer - 1]
        new_z = _aligned(z.shape[0], width)
        new = None if jacobian is None else self.buffers.take(width, jacobian.shape[1])
        rows = max(1, min(width, _BLOCK_OF_WEIGHTS // fan_in))
        weights = self.buffers.take(rows, fan_in)
        for first in range(0, width, rows):
            part = weights[: min(rows, width - first)]
            here = slice(first, first + part.shape[0])
            key = self.seed, self.index, layer, 2 * ordinal
            fill_normals(part.ravel(), *key, start=first * fan_in, scale=sigma_w / math.sqrt(fan_in))
            for a in range(z.shape[0]):  # one product per input: its bits do not depend on which others are run with it
                np.matmul(part, z[a], out=new_z[a, here])
            if jacobian is not None and new is not None:
                np.matmul(part, jacobian, out=new[here])
        self.buffers.give(weights)
        if sigma_b > 0:
            bias = np.empty(width)
            fill_normals(bias, self.seed, self.index, layer, 2 * ordinal + 1, scale=sigma_b)
            new_z += bias
        return new_z, new
