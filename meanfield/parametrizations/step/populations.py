"""Neurons of infinitely wide layers: what they are is drawn, averages over a layer are averages over them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from meanfield.base.errors import MeanFieldError

MOST = 21201  # coordinates of a Sobol point
SMALLEST = 1e-10  # share of its largest eigenvalue below which a direction of a covariance is none


class Population:
    """Draws of `neurons` neurons of a layer, `replicates` times over: arrays (replicates, neurons, inputs).

    dimensions: how many normals a neuron takes in all. They are the coordinates of Sobol points, moved by a shift of
    its own in each replicate, so that averages over a layer converge faster than with independent neurons, and each
    replicate estimates them without bias. The second half of the neurons repeats the first with the other sign of what
    is drawn with `turned`: what a readout makes of a network has two signs that are equally likely.
    Source: I. M. Sobol, 1967; shifts: R. Cranley and T. N. L. Patterson, 1976.
    """

    def __init__(self, dimensions: int, neurons: int = 4096, replicates: int = 8, seed: int = 0) -> None:
        if dimensions > MOST:
            raise MeanFieldError(
                f"A neuron of these layers takes {dimensions} numbers, three for every input of every Dense, and at "
                f"most {MOST} are drawn; take fewer inputs or blocks."
            )
        self.neurons, self.replicates, self.dimensions = neurons, replicates, dimensions
        self._rng, self._next = np.random.default_rng([seed, 0x5EED]), 0

    def normals(self, kept: int, turned: int) -> tuple[np.ndarray, np.ndarray]:
        """Standard normals, `kept` for each neuron that are the same in both halves, and `turned` that change sign."""
        half, count = self.neurons // 2, kept + turned
        first, self._next = self._next, self._next + count
        u = _points(self.dimensions, half)[first : self._next].T + self._rng.random((self.replicates, 1, count))
        u -= np.floor(u)
        x = ndtri(np.clip(u, 1e-16, 1 - 1e-16))
        one, other = x[..., :kept], x[..., kept:]
        return np.concatenate((one, one), axis=1), np.concatenate((other, -other), axis=1)

    def sample(self, values: np.ndarray, count: int) -> np.ndarray:
        """Of so many neurons, both signs of each."""
        if values.shape[1] <= count:
            return values
        half, few = values.shape[1] // 2, count // 2
        return np.concatenate((values[:, :few], values[:, half : half + few]), axis=1)


@lru_cache(maxsize=4)
def _points(dimensions: int, count: int) -> np.ndarray:
    """(dimensions, count)"""
    from scipy.stats.qmc import Sobol

    return np.ascontiguousarray(Sobol(dimensions, scramble=False).random(count).T) + 0.5 / count


def mean_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """⟨a_i b_j⟩ over the neurons of a layer: (replicates, inputs, inputs)."""
    return np.matmul(a.transpose(0, 2, 1), b) / a.shape[1]


def root(covariance: np.ndarray) -> np.ndarray:
    """The symmetric root of covariances (replicates, inputs, inputs)."""
    if covariance.shape[-1] == 1:
        return np.sqrt(np.maximum(covariance, 0.0))
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ vectors.transpose(0, 2, 1)


def inverse(covariance: np.ndarray) -> np.ndarray:
    """The inverse where there is one; directions without variance are left out."""
    if covariance.shape[-1] == 1:
        return np.divide(1.0, covariance, out=np.zeros_like(covariance), where=covariance > 0)
    size = np.sqrt(np.maximum(np.einsum("rii->ri", covariance), 1e-300))  # inputs may differ in size
    unit = covariance / size[:, :, None] / size[:, None, :]
    return np.linalg.pinv(unit, rcond=SMALLEST, hermitian=True) / size[:, :, None] / size[:, None, :]
