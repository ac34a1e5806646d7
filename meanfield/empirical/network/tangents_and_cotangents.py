"""What a network carries along besides its preactivations: tangents (a Jacobian), random tangents of the parameters,
and the tangent kernel. An operation's derivative is pushed through them at each site.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial

import numpy as np
from numba import njit

from meanfield.empirical.network.operations.operation_derivatives import Derivative
from meanfield.empirical.network.operations.operation_walk import Linear
from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.random.philox import normals

THETA_ROLE = 1 << 15  # the streams of parameter tangents: this plus the place of the operation in its block


class Tangents(Linear):
    """Vectors pushed through the network: `rows` of shape (number of vectors, positions, neurons).

    alone: they are those of the first position only, in a network that keeps positions apart.
    """

    def __init__(self, rows: np.ndarray, buffers: Buffers, alone: bool = False) -> None:
        super().__init__(rows)
        self._buffers, self._alone = buffers, alone

    @property
    def rows(self) -> np.ndarray:
        return self._stack[-1]

    @property
    def products(self) -> int:  # type: ignore[override]
        return len(self.rows) * self.rows.shape[1]

    def push(self, derivative: Derivative) -> None:
        old = self._stack.pop()
        new = self._new(old, derivative.shape)
        derivative.push(old, new)
        if all(old is not kept for kept in self._stack):
            self._buffers.give(old)
        self._stack.append(new)

    def _new(self, old: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
        positions = 1 if self._alone else shape[0]
        return self._buffers.take(old.shape[0], positions, shape[1])

    def add(self, mu: float) -> None:
        top, below = self._stack.pop(), self._stack.pop()
        new = self._buffers.take(*top.shape)
        add_scaled(_flat(top), mu, _flat(below), _flat(new))
        _recycle([top, below], self._stack, self._buffers)
        self._stack.append(new)

    def release(self) -> None:
        _recycle(self._stack, [], self._buffers)
        self._stack = []


class ParameterTangents(Tangents):
    """δz = Σ_θ (∂z/∂θ) ξ_θ for independent standard normal ξ: E δz_i δz′_i = Θ_ii(x, x′), at the cost of one tangent.

    θ are the entries of every W and b, standard normal or scaled by the roots of learning rates, and what else an
    operation trains. The normals of vector k, operation o of layer l are the stream (seed, network, l, THETA_ROLE + o)
    from number k·2³² on.
    """

    def __init__(
        self, vectors: int, positions: int | None, neurons: int, seed: int, index: int, buffers: Buffers
    ) -> None:
        """positions: None for the first one only, see `Tangents`."""
        rows = buffers.take(vectors, positions or 1, neurons)
        rows[...] = 0.0
        super().__init__(rows, buffers, positions is None)
        self._seed, self._index, self.layer, self._place = seed, index, 0, 0

    def begin(self, layer: int) -> None:
        """The next operations belong to the block that makes `layer`."""
        self.layer, self._place = layer, 0

    def push(self, derivative: Derivative) -> None:
        super().push(derivative)
        key = self._seed, self._index, self.layer, THETA_ROLE + self._place
        self._place += 1
        for k, row in enumerate(self.rows):
            derivative.scatter(row, partial(_first, key, k << 32))


def _first(key: tuple[int, int, int, int], start: int, count: int) -> np.ndarray:
    return normals(*key, count, start)


class TangentKernel(Linear):
    """Θ = Σ_θ (∂u/∂θ)(∂v/∂θ)ᵀ over all parameters θ up to here, for every two vectors u, v of the stack.

    At the first position of a network that keeps positions apart. The kernel of the current vector with itself alone
    would do for a chain of operations; a skip needs it with the vector saved as well.
    """

    def __init__(self, buffers: Buffers | None = None) -> None:
        self._buffers = buffers or Buffers()
        self._rows: list[list[np.ndarray]] = []  # rows[a][b] is Σ_θ (∂u_b)(∂u_a)ᵀ for vectors a ≥ b of the stack

    @property
    def matrix(self) -> np.ndarray:
        """That of the current vector with itself."""
        return self._rows[-1][-1]

    @property
    def mean(self) -> float:
        """(1/N) Σ_i Θ_ii."""
        return float(np.trace(self.matrix)) / len(self.matrix)

    def save(self) -> None:
        last = self._rows[-1]
        self._rows.append([*last, last[-1]])

    def swap(self) -> None:
        (*under, own), (*over, cross, top) = self._rows[-2:]
        transposed = self._buffers.take(*cross.shape[::-1])
        transposed[...] = cross.T
        self._rows[-2:] = [[*over, top], [*under, transposed, own]]
        self._recycle([cross])

    def push(self, derivative: Derivative) -> None:
        width = derivative.shape[1]
        if not self._rows:  # layer 1: there are no parameters before it
            matrix = self._buffers.take(width, width)
            matrix[...] = 0.0
            np.fill_diagonal(matrix, 0.0 if derivative.own is None else derivative.own)
            self._rows = [[matrix]]
            return
        old = self._rows.pop()
        row = [self._pushed(derivative, cross) for cross in old[:-1]]
        half = self._pushed(derivative, old[-1])  # Θ Mᵀ
        transposed = self._buffers.take(*half.shape[::-1])
        transposed[...] = half.T  # M Θ, as Θ is symmetric
        row.append(self._pushed(derivative, transposed))
        if derivative.own is not None:
            row[-1][np.diag_indices(width)] += derivative.own
        self._rows.append(row)
        self._recycle([*old, half, transposed])

    def add(self, mu: float) -> None:
        top, below = self._rows.pop(), self._rows.pop()
        row = [self._added(above, mu, under) for above, under in zip(top[:-2], below[:-1])]
        cross = self._added(top[-2], 0.5 * mu, below[-1])
        own = self._buffers.take(*cross.shape)
        _add_with_transpose(top[-1], mu, cross, own)
        row.append(own)
        self._rows.append(row)
        self._recycle([*top, *below, cross])

    def release(self) -> None:
        old, self._rows = self._rows, []
        self._recycle([matrix for row in old for matrix in row])

    def _pushed(self, derivative: Derivative, matrix: np.ndarray) -> np.ndarray:
        new = self._buffers.take(len(matrix), derivative.shape[1])
        derivative.push(matrix[:, None, :], new[:, None, :])
        return new

    def _added(self, first: np.ndarray, factor: float, second: np.ndarray) -> np.ndarray:
        new = self._buffers.take(*first.shape)
        add_scaled(first, factor, second, new)
        return new

    def _recycle(self, matrices: list[np.ndarray]) -> None:
        _recycle(matrices, (matrix for row in self._rows for matrix in row), self._buffers)


def _recycle(matrices: Iterable[np.ndarray], kept: Iterable[np.ndarray], buffers: Buffers) -> None:
    """Give the matrices back, each once, that are not among those kept: one saved and not yet changed is held twice."""
    held = {id(matrix) for matrix in kept}
    for name, matrix in {id(matrix): matrix for matrix in matrices}.items():
        if name not in held:
            buffers.give(matrix)


def _flat(rows: np.ndarray) -> np.ndarray:
    return rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1])


@njit(cache=True, nogil=True)
def add_scaled(first, factor, second, out):
    for i in range(first.shape[0]):
        for j in range(first.shape[1]):
            out[i, j] = first[i, j] + factor * second[i, j]


@njit(cache=True, nogil=True)
def _add_with_transpose(first, factor, second, out):
    for i in range(first.shape[0]):
        for j in range(first.shape[1]):
            out[i, j] = first[i, j] + factor * (second[i, j] + second[j, i])
