"""The derivative of one operation of a network, as a linear map that is applied to matrices.

Each has `times(matrix, out)`, out = M matrix with M = ∂(new y)/∂y, and `own`: for every neuron of the new y the sum of
its squared derivatives with respect to the operation's own parameters (None if it has none). No M is ever formed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numba import njit

from meanfield.empirical.philox import fill_normals

_BLOCK_OF_WEIGHTS = 1 << 22  # numbers of W held at once: 32 MiB
ROUNDING = 4 * 2.0**-52  # a vector with a relative spread below this is a constant one


def aligned(*shape: int) -> np.ndarray:
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
        return free.pop() if free else aligned(*shape)

    def give(self, array: np.ndarray) -> None:
        self._free.setdefault(array.shape, []).append(array)


class Derivative(Protocol):
    """What is pushed through: see the module."""

    @property
    def own(self) -> np.ndarray | float | None: ...

    def times(self, matrix: np.ndarray, out: np.ndarray) -> None: ...


@dataclass(frozen=True, eq=False)
class Slope:
    """Of a coordinatewise map: row i is multiplied with φ′(y_i)."""

    slope: np.ndarray
    own: None = None

    def times(self, matrix: np.ndarray, out: np.ndarray) -> None:
        _scale_rows(self.slope, matrix, out)


@dataclass(frozen=True, eq=False)
class Projection:
    """Of LayerNorm, ŷ = (y − mean(y))/s: dŷ = (dy − mean(dy) − ŷ mean(ŷ dy))/s."""

    unit: np.ndarray
    spread: float
    affine: bool

    @property
    def own(self) -> np.ndarray | None:
        """γ_i ŷ_i + β_i by γ_i and β_i."""
        return self.unit * self.unit + 1.0 if self.affine else None

    def times(self, matrix: np.ndarray, out: np.ndarray) -> None:
        _project(self.unit, self.spread, matrix, out)


@dataclass(eq=False)
class Weights:
    """Of y → σ_w n^{−1/2} W y + σ_b b: the matrix `scale`·W (σ_w n^{−1/2} = scale), drawn in blocks of rows.

    `y` is the vector it is applied to, `key` its stream (seed, network, layer, role). A matrix that fits into a single
    block is drawn once, a larger one anew for every product. `release` gives the scratch memory back.
    """

    key: tuple[int, int, int, int]
    width: int
    y: np.ndarray
    scale: float
    sigma_b: float
    buffers: Buffers
    _whole: np.ndarray | None = None

    @property
    def own(self) -> float:
        """By the entries of a row of W, and by b."""
        return self.scale * self.scale * float(self.y @ self.y) + self.sigma_b * self.sigma_b

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, scale·W[rows]); the array is overwritten when the iteration goes on."""
        if self._whole is not None:
            yield slice(0, self.width), self._whole
            return
        fan_in = self.y.size
        rows = max(1, min(self.width, _BLOCK_OF_WEIGHTS // fan_in))
        scratch = self.buffers.take(rows, fan_in)
        if rows == self.width:
            self._whole = scratch
        for first in range(0, self.width, rows):
            part = scratch[: min(rows, self.width - first)]
            fill_normals(part.ravel(), *self.key, start=first * fan_in, scale=self.scale)
            yield slice(first, first + part.shape[0]), part
        if self._whole is None:
            self.buffers.give(scratch)

    def times(self, matrix: np.ndarray, out: np.ndarray) -> None:
        for rows, part in self.blocks():
            np.matmul(part, matrix, out=out[rows])

    def release(self) -> None:
        if self._whole is not None:
            self.buffers.give(self._whole)
            self._whole = None


@njit(cache=True, nogil=True)
def _scale_rows(scale, matrix, out):
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            out[i, j] = scale[i] * matrix[i, j]


@njit(cache=True, nogil=True, error_model="numpy")
def _project(unit, spread, matrix, out):
    neurons, columns = matrix.shape
    mean, along = np.zeros(columns), np.zeros(columns)
    for i in range(neurons):
        for j in range(columns):
            mean[j] += matrix[i, j]
            along[j] += unit[i] * matrix[i, j]
    mean /= neurons
    along /= neurons
    for i in range(neurons):
        for j in range(columns):
            out[i, j] = (matrix[i, j] - mean[j] - unit[i] * along[j]) / spread


@njit(cache=True, nogil=True, error_model="numpy")
def normalize(y, out):
    """out = (y − mean(y))/s, returns s (both NaN if y is constant to rounding or not finite).

    y is scaled by a power of two first: its squares neither overflow nor underflow.
    """
    largest = 0.0
    for i in range(y.size):
        largest = max(largest, abs(y[i])) if y[i] == y[i] else math.inf
    _, power = math.frexp(largest if largest < math.inf else 0.0)
    mean = 0.0
    for i in range(y.size):
        out[i] = math.ldexp(y[i], -power)
        mean += out[i]
    mean /= y.size
    square = 0.0
    for i in range(y.size):
        out[i] -= mean
        square += out[i] * out[i]
    spread = math.sqrt(square / y.size)
    if not (largest < math.inf and spread > ROUNDING * math.ldexp(largest, -power)):
        spread = math.nan
    for i in range(y.size):
        out[i] /= spread
    return math.ldexp(spread, power)
