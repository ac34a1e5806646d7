"""Weights of one network that several networks run with, each with its own σ_w, σ_b: drawn once, by either sampler.

Explicit: n^{−1/2} W is held, and every network multiplies its product with σ_w. Lazy: a batch, the m rows of X, is
multiplied once, so X Wᵀ is drawn as what it is, Gaussian with covariance X Xᵀ over the rows: RᵀΞ with Xᵀ = Q R, R with
a positive diagonal, and m rows Ξ of standard normals that all networks share. These are the numbers of `LazyMatrix`,
to rounding, by large products. Source: derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from threading import Lock

import numpy as np

from meanfield.empirical.network.network import Network
from meanfield.empirical.network.operations import Affine
from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.random.matrices import DrawnMatrix, Matrix, draw_entries, haar
from meanfield.empirical.random.philox import fill_normals
from meanfield.empirical.random.sampler import Key, LazyMatrix


class Shared:
    """What the Dense of one layer take, drawn when the first network needs it."""

    def __init__(self, seed: int, index: int, buffers: Buffers) -> None:
        self._seed, self._index, self._buffers = seed, index, buffers
        self._held: dict[tuple, np.ndarray] = {}
        self._lock = Lock()

    def key(self, layer: int, ordinal: int) -> Key:
        return self._seed, self._index, layer, 2 * ordinal

    def weights(self, law: str, layer: int, ordinal: int, shape: tuple[int, int]) -> np.ndarray:
        """n^{−1/2} W, with n columns."""
        with self._lock:
            name = (law, ordinal, shape)
            if name not in self._held:
                key, scale = self.key(layer, ordinal), 1 / math.sqrt(shape[1])
                if law == "orthogonal":
                    self._held[name] = haar(key, shape, scale)
                else:
                    self._held[name] = self._buffers.take(*shape)
                    draw_entries(law, self._held[name].ravel(), key, 0, scale)
            return self._held[name]

    def images(self, layer: int, ordinal: int, shape: tuple[int, int], count: int) -> np.ndarray:
        """`count` rows of standard normals, the images of orthonormal vectors, as `LazyMatrix` draws them."""
        with self._lock:
            name = ("images", ordinal, shape, count)
            if name not in self._held:
                size = max(shape)
                self._held[name] = self._buffers.take(count, shape[0])
                for c, row in enumerate(self._held[name]):
                    fill_normals(row, *self.key(layer, ordinal), start=c * size)
            return self._held[name]

    def release(self) -> None:
        while self._held:
            self._buffers.give(self._held.popitem()[1])


@dataclass(eq=False)
class _Lent(DrawnMatrix):
    """A matrix of which n^{−1/2} W is held for other networks too; σ_w multiplies the product."""

    sigma_w: float = 1.0

    def matvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        super().matvec(rows, out)
        out *= self.sigma_w

    def matvec_apart(self, rows: np.ndarray, out: np.ndarray) -> None:
        super().matvec_apart(rows, out)
        out *= self.sigma_w

    def release(self) -> None:
        pass


class _Once:
    """A Gaussian matrix that is multiplied with one batch, the rows of `matvec`, and never formed."""

    def __init__(self, drawn: Shared, layer: int, ordinal: int, shape: tuple[int, int], scale: float) -> None:
        self.shape, self._scale, self._from = shape, scale, (drawn, layer, ordinal)

    def matvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        if not np.isfinite(rows).all():
            out[...] = math.nan
            return
        drawn, layer, ordinal = self._from
        largest = np.abs(rows).max(axis=1, initial=0.0)
        power = np.frexp(np.where(largest > 0, largest, 1.0))[1]  # squares neither overflow nor underflow
        triangle = _triangle(np.ldexp(rows, -power[:, None]))
        images = drawn.images(layer, ordinal, self.shape, len(triangle))
        np.matmul(np.ldexp(triangle, power).T * self._scale, images, out=out)

    def rmatvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        raise NotImplementedError("a batch is multiplied once")

    def release(self) -> None:
        pass


def _triangle(rows: np.ndarray) -> np.ndarray:
    """R ≥ 0 on its diagonal of rowsᵀ = Q R, by Householder to 1e-16 of every row; in slices that fit into a cache."""
    count, length = rows.shape
    step = max(10 * count, 1000)
    parts = [np.asarray(np.linalg.qr(rows[:, i : i + step].T, mode="r")) for i in range(0, length, step)]
    triangle = parts[0] if len(parts) == 1 else np.asarray(np.linalg.qr(np.concatenate(parts), mode="r"))
    return triangle * np.where(np.diagonal(triangle) < 0.0, -1.0, 1.0)[:, None]


@dataclass(frozen=True)
class Sharing(Network):
    """A network that takes its weights from `drawn`; `once`: every Dense multiplies a single batch."""

    drawn: Shared
    once: bool = False

    def matrix(
        self, operation: Affine, layer: int, shape: tuple[int, int], scale: float, expected: int, role: int = 0
    ) -> Matrix:
        law, key = operation.law, self.drawn.key(layer, operation.ordinal)
        if self.ensemble.sampler == "lazy":
            if self.once and law == "gaussian":
                return _Once(self.drawn, layer, operation.ordinal, shape, scale)
            return LazyMatrix(law, key, shape, scale, self.buffers, expected)
        held = self.drawn.weights(law, layer, operation.ordinal, shape)
        return _Lent(law, key, shape, scale, self.buffers, held, scale * math.sqrt(shape[1]))
