"""What a network carries along besides its preactivations: a Jacobian, and the tangent kernel.

Both follow the operations of a block on a stack as the vectors do: `save` remembers the current vector, `push` takes
an operation's derivative, `add_saved` adds μ times the last vector remembered and forgets it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numba import njit

from meanfield.empirical.derivatives import Buffers, Derivative


class Jacobian:
    """∂y/∂z^{l0}, or its product with given directions (the columns of `matrix` at layer l0), for the current y."""

    def __init__(self, matrix: np.ndarray, buffers: Buffers) -> None:
        self._stack, self._buffers = [matrix], buffers

    @property
    def matrix(self) -> np.ndarray:
        return self._stack[-1]

    def save(self) -> None:
        self._stack.append(self._stack[-1])

    def push(self, derivative: Derivative, width: int) -> None:
        old = self._stack.pop()
        new = self._buffers.take(width, old.shape[1])
        derivative.times(old, new)
        if all(old is not kept for kept in self._stack):
            self._buffers.give(old)
        self._stack.append(new)

    def add_saved(self, mu: float) -> None:
        top, below = self._stack.pop(), self._stack.pop()
        new = self._buffers.take(*top.shape)
        add_scaled(top, mu, below, new)
        _recycle([top, below], self._stack, self._buffers)
        self._stack.append(new)

    def release(self) -> None:
        _recycle(self._stack, [], self._buffers)
        self._stack = []


class TangentKernel:
    """Θ = Σ_θ (∂u/∂θ)(∂v/∂θ)ᵀ over all parameters θ up to here, for every two vectors u, v of the stack.

    Each is N × N, at one input. The kernel of the current vector with itself alone would do for a chain of operations;
    a skip needs it with the vector saved as well.
    """

    def __init__(self, buffers: Buffers | None = None) -> None:
        self._buffers = buffers or Buffers()
        self._rows: list[list[np.ndarray]] = []  # rows[a][b] is that of vectors a ≥ b; that of b and a is its transpose

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

    def push(self, derivative: Derivative, width: int) -> None:
        if not self._rows:  # layer 1: there are no parameters before it
            matrix = self._buffers.take(width, width)
            matrix[...] = 0.0
            np.fill_diagonal(matrix, derivative.own or 0.0)
            self._rows = [[matrix]]
            return
        old = self._rows.pop()
        row = [self._times(derivative, cross, width) for cross in old[:-1]]
        half = self._times(derivative, old[-1], width)  # M Θ
        turned = self._buffers.take(half.shape[1], width)
        turned[...] = half.T  # Θ Mᵀ, as Θ is symmetric
        row.append(self._times(derivative, turned, width))
        if derivative.own is not None:
            row[-1][np.diag_indices(width)] += derivative.own
        self._rows.append(row)
        self._recycle([*old, half, turned])

    def add_saved(self, mu: float) -> None:
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

    def _times(self, derivative: Derivative, matrix: np.ndarray, width: int) -> np.ndarray:
        new = self._buffers.take(width, matrix.shape[1])
        derivative.times(matrix, new)
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
