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
from typing import Any

import numpy as np

from meanfield.empirical.network.network import Ensemble, Network
from meanfield.empirical.network.operations.operation_walk import Site
from meanfield.empirical.network.operations.operations import DenseOperation
from meanfield.empirical.network.parameter_sources import DrawnParameters
from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.random.matrices import HeldMatrix, Matrix, draw_bias, draw_entries, haar
from meanfield.empirical.random.philox import fill_normals
from meanfield.empirical.random.sampler import Key, LazyMatrix, with_bias


class SharedWeights:
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

    def bias(self, layer: int, ordinal: int, size: int) -> np.ndarray:
        """b."""
        with self._lock:
            name = ("bias", ordinal, size)
            if name not in self._held:
                self._held[name] = draw_bias(self.key(layer, ordinal), size, 1.0)
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


class _Once:
    """A Gaussian matrix that is multiplied with one batch, the rows of `affine`, and never formed; its bias is one more
    coordinate of theirs."""

    redrawn = False

    def __init__(
        self, drawn: SharedWeights, layer: int, ordinal: int, shape: tuple[int, int], scale: float, sigma_b: float
    ) -> None:
        self.shape, self._from = shape, (drawn, layer, ordinal)
        self._scale, self._coordinate, self._kept = with_bias(scale, sigma_b)

    def affine(self, rows: np.ndarray, out: np.ndarray) -> None:
        if not np.isfinite(rows).all():
            out[...] = math.nan
            return
        if self._coordinate > 0.0:
            rows = np.concatenate((self._kept * rows, np.full((len(rows), 1), self._coordinate)), axis=1)
        drawn, layer, ordinal = self._from
        largest = np.abs(rows).max(axis=1, initial=0.0)
        power = np.frexp(np.where(largest > 0, largest, 1.0))[1]  # squares neither overflow nor underflow
        triangle = _triangle(np.ldexp(rows, -power[:, None]))
        images = drawn.images(layer, ordinal, self.shape, len(triangle))
        np.matmul(np.ldexp(triangle, power).T * self._scale, images, out=out)

    def matvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        raise NotImplementedError("a batch is multiplied once")

    rmatvec = matvec

    def release(self) -> None:
        pass


def _triangle(rows: np.ndarray) -> np.ndarray:
    """R ≥ 0 on its diagonal of rowsᵀ = Q R, by Householder to 1e-16 of every row; in slices that fit into a cache."""
    count, length = rows.shape
    step = max(10 * count, 1000)
    parts = [np.asarray(np.linalg.qr(rows[:, i : i + step].T, mode="r")) for i in range(0, length, step)]
    triangle = parts[0] if len(parts) == 1 else np.asarray(np.linalg.qr(np.concatenate(parts), mode="r"))
    return triangle * np.where(np.diagonal(triangle) < 0.0, -1.0, 1.0)[:, None]


@dataclass(eq=False)
class Lent(DrawnParameters):
    """Parameters of one of several networks that take theirs from one draw; `once`: every Dense multiplies one batch.

    sigma_w, sigma_b: columns of one number for every position, in the place of the network's own (None: the network's).
    """

    drawn: SharedWeights
    once: bool = False
    sigma_w: np.ndarray | None = None
    sigma_b: np.ndarray | None = None

    def deviations(self, dense: DenseOperation, layer: int) -> tuple[Any, Any]:
        sigma_w, sigma_b = super().deviations(dense, layer)
        return (
            sigma_w if self.sigma_w is None or dense.sigma_w is not None else self.sigma_w,
            sigma_b if self.sigma_b is None or dense.sigma_b is not None else self.sigma_b,
        )

    def matrix(self, dense: DenseOperation, site: Site, shape: tuple[int, int]) -> Matrix:
        sigma_w, sigma_b = self.deviations(dense, site.layer)
        law, key = dense.law, self.drawn.key(site.layer, dense.ordinal)
        if self.ensemble.sampler == "lazy":
            scale = sigma_w / math.sqrt(shape[1])
            if self.once and law == "gaussian":
                return _Once(self.drawn, site.layer, dense.ordinal, shape, scale, sigma_b)
            return LazyMatrix(law, key, shape, scale, self.buffers, site.passage.expected, sigma_b)
        held = self.drawn.weights(law, site.layer, dense.ordinal, shape)
        bias = self.drawn.bias(site.layer, dense.ordinal, shape[0]) if np.any(sigma_b) else None
        return HeldMatrix(held, bias, sigma_w, sigma_b)


def sharing(ensemble: Ensemble, seed: int, index: int, buffers: Buffers, drawn: SharedWeights, **more: Any) -> Network:
    """A network that takes its weights from `drawn`; more: as in `Lent`."""
    return Network(ensemble, seed, index, buffers, Lent(ensemble, seed, index, buffers, drawn, **more))
