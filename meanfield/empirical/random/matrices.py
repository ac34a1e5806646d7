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
_KEPT_WEIGHTS = 1 << 18  # entries of a matrix that is kept for a backward pass; a larger one is drawn again
_APART = 4  # inputs of a batch that is multiplied vector by vector


class Matrix(Protocol):
    """w = scale · W and β, drawn, revealed or held: all that a network asks of a Dense."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def redrawn(self) -> bool:
        """Whether it is cheaper to draw it again than to keep it."""

    def affine(self, rows: np.ndarray, out: np.ndarray) -> None:
        """out[j] = w rows[j] + β."""

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
    sigma_b: float = 0.0
    _whole: np.ndarray | None = None

    @property
    def redrawn(self) -> bool:
        return self.shape[0] * self.shape[1] > _KEPT_WEIGHTS

    def bias(self) -> np.ndarray | None:
        """β = σ_b b, None where σ_b = 0: b is the stream of the next role."""
        return None if self.sigma_b == 0 else draw_bias(self.key, self.shape[0], self.sigma_b)

    def affine(self, rows: np.ndarray, out: np.ndarray) -> None:
        if len(rows) <= _APART:
            self.matvec_apart(rows, out)
        else:
            self.matvec(rows, out)
        bias = self.bias()
        if bias is not None:
            out += bias

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


@dataclass(eq=False)
class HeldMatrix:
    """w = σ_w·W and β = σ_b·b of arrays that are held. σ_w, σ_b: numbers, or a column of one for every position (then
    products take all positions of a vector together)."""

    array: np.ndarray
    bias: np.ndarray | None
    sigma_w: float | np.ndarray
    sigma_b: float | np.ndarray
    redrawn = False

    @property
    def shape(self) -> tuple[int, int]:
        return self.array.shape[0], self.array.shape[1]

    def _times(self, rows: np.ndarray) -> None:
        if isinstance(self.sigma_w, np.ndarray):
            rows = rows.reshape(-1, len(self.sigma_w), rows.shape[1])
        rows *= self.sigma_w

    def affine(self, rows: np.ndarray, out: np.ndarray) -> None:
        if len(rows) <= _APART:
            for row, new in zip(rows, out):
                np.matmul(self.array, row, out=new)
        else:
            np.matmul(rows, self.array.T, out=out)
        self._times(out)
        if self.bias is not None:
            out += self.sigma_b * self.bias

    def matvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        np.matmul(rows, self.array.T, out=out)
        self._times(out)

    def rmatvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        rows = rows.copy()
        self._times(rows)
        np.matmul(rows, self.array, out=out)

    def release(self) -> None:
        """It stays."""


def draw_bias(key: Key, size: int, sigma_b: float) -> np.ndarray:
    """σ_b b of the Dense whose weights are the stream `key`."""
    seed, network, layer, role = key
    bias = np.empty(size)
    fill_normals(bias, seed, network, layer, role + 1, scale=sigma_b)
    return bias


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
