"""Explicit random matrices: the entries are drawn, block of rows by block of rows, and multiplied by BLAS."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.random.philox import fill_normals, fill_uniforms
from meanfield.empirical.random.sampler import Key

_BLOCK_OF_WEIGHTS = 1 << 22  # numbers of W held at once: 32 MiB


class Matrix(Protocol):
    """scale · W, drawn or revealed: all that a network asks of it."""

    shape: tuple[int, int]

    def matvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        """out[j] = scale · W rows[j]."""

    def rmatvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        """out[j] = scale · Wᵀ rows[j]."""

    def release(self) -> None:
        """Give the scratch memory back; what was drawn may be drawn again."""


@dataclass(eq=False)
class DrawnMatrix:
    """scale · W with every entry drawn: W[i, j] is normal (law "uniform": uniform, of mean 0 and variance 1) number
    i·inputs + j of the stream `key`.

    A matrix that fits into a single block is drawn once until it is released, a larger one anew for every product. A
    Haar matrix is built from those normals by QR, whole: √P times the orthogonal factor Q with every column
    times the sign of R's diagonal entry, which makes it Haar (Mezzadri 2007); P = max(shape).
    """

    law: str
    key: Key
    shape: tuple[int, int]
    scale: float
    buffers: Buffers
    _whole: np.ndarray | None = None

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """(rows, scale·W[rows]); the array is overwritten when the iteration goes on."""
        outputs, inputs = self.shape
        if self._whole is None and self.law == "orthogonal":
            self._whole = haar(self.key, self.shape, self.scale)
        if self._whole is not None:
            yield slice(0, outputs), self._whole
            return
        rows = max(1, min(outputs, _BLOCK_OF_WEIGHTS // inputs))
        scratch = self.buffers.take(rows, inputs)
        if rows == outputs:
            self._whole = scratch
        for first in range(0, outputs, rows):
            part = scratch[: min(rows, outputs - first)]
            draw_entries(self.law, part.ravel(), self.key, first * inputs, self.scale)
            yield slice(first, first + part.shape[0]), part
        if self._whole is None:
            self.buffers.give(scratch)

    def whole(self) -> np.ndarray:
        """scale·W as an array of its own."""
        return np.concatenate([part.copy() for _, part in self.blocks()])

    def matvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        for which, part in self.blocks():
            np.matmul(rows, part.T, out=out[:, which])

    def matvec_apart(self, rows: np.ndarray, out: np.ndarray) -> None:
        """One product per vector: the bits of one do not depend on which others are run with it."""
        for which, part in self.blocks():
            for row, new in zip(rows, out):
                np.matmul(part, row, out=new[which])

    def rmatvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        if self._whole is None and self.shape[0] * self.shape[1] > _BLOCK_OF_WEIGHTS:
            out[...] = 0.0
            for which, part in self.blocks():
                out += rows[:, which] @ part
            return
        for which, part in self.blocks():
            np.matmul(rows[:, which], part, out=out)

    def release(self) -> None:
        if self._whole is not None:
            self.buffers.give(self._whole)
            self._whole = None


def draw_entries(law: str, out: np.ndarray, key: Key, start: int, scale: float) -> None:
    """out[i] = scale × number start + i of the stream `key`: independent entries of a "gaussian" or "uniform" W."""
    fill = fill_uniforms if law == "uniform" else fill_normals
    fill(out, *key, start=start, scale=scale)


def haar(key: Key, shape: tuple[int, int], scale: float = 1.0, sign_fix: bool = True) -> np.ndarray:
    """scale · √P times an N′ × N block of a Haar-distributed O ∈ O(P), P = max(N′, N): orthogonal rows or columns.

    The entries have variance scale². sign_fix=False leaves the signs to LAPACK, which is not Haar (for tests).
    """
    size, thin = max(shape), min(shape)
    normals = np.empty((size, thin))
    fill_normals(normals.ravel(), *key)
    frame, triangle = np.linalg.qr(normals)
    factor = np.full(thin, scale * math.sqrt(size))
    if sign_fix:
        factor *= np.where(np.diagonal(triangle) < 0.0, -1.0, 1.0)
    frame *= factor
    return np.ascontiguousarray(frame if shape[0] >= shape[1] else frame.T)
