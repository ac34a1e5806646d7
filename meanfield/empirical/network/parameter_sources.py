"""Where the parameters of a network come from: drawn where they are used, revealed product by product, or stored.

The weights of layer l are the streams (seed, index, l, role), role = 2·ordinal for W, 2·ordinal + 1 for b. `shared`
has those that several networks take from one draw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from meanfield.empirical.network.operations.operation_walk import Site
from meanfield.empirical.network.operations.operations import DenseOperation
from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.random.matrices import DrawnMatrix, HeldMatrix, Matrix
from meanfield.empirical.random.sampler import Key, LazyMatrix

COPY_ROLE = 3 << 14  # the streams of the copies that cotangents are pulled through: this plus that of the weights


@dataclass(eq=False)
class DrawnParameters:
    """Network `index` of the realization `seed` of `ensemble`, whose σ's, rates and sampler are read: parameters are
    drawn when they are used, and not kept."""

    ensemble: Any
    seed: int
    index: int
    buffers: Buffers

    def deviations(self, dense: DenseOperation, layer: int) -> tuple[Any, Any]:
        """(σ_w, σ_b) of one Dense."""
        own, of_network = (dense.sigma_w, dense.sigma_b), (self.ensemble.sigma_w, self.ensemble.sigma_b)
        w, b = (float((whole if one is None else one)[layer - 1]) for one, whole in zip(own, of_network))
        return w, b

    def steps(self, dense: DenseOperation, layer: int) -> tuple[float, float]:
        (rate_w, rate_b), (sigma_w, sigma_b) = self.ensemble.rates, self.deviations(dense, layer)
        return (
            sigma_w if rate_w is None else math.sqrt(rate_w[layer - 1]),
            sigma_b if rate_b is None else math.sqrt(rate_b[layer - 1]),
        )

    def key(self, dense: DenseOperation, layer: int, role: int = 0) -> Key:
        return self.seed, self.index, layer, role + 2 * dense.ordinal

    def matrix(self, dense: DenseOperation, site: Site, shape: tuple[int, int]) -> Matrix:
        return self._drawn(dense, site, shape, site.passage.expected)

    def back(self, dense: DenseOperation, site: Site, shape: tuple[int, int]) -> Matrix | None:
        if self.ensemble.backward != "copy":
            return None
        return self._drawn(dense, site, shape, site.passage.pulls, COPY_ROLE)

    def _drawn(self, dense: DenseOperation, site: Site, shape: tuple[int, int], expected: int, role: int = 0) -> Matrix:
        sigma_w, sigma_b = self.deviations(dense, site.layer)
        given = dense.law, self.key(dense, site.layer, role), shape, sigma_w / math.sqrt(shape[1]), self.buffers
        if self.ensemble.sampler == "lazy":
            return LazyMatrix(*given, expected, sigma_b)
        return DrawnMatrix(*given, sigma_b)

    def whole(self, dense: DenseOperation, site: Site, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray | None]:
        sigma_w, sigma_b = self.deviations(dense, site.layer)
        scale = sigma_w / math.sqrt(shape[1])
        drawn = DrawnMatrix(dense.law, self.key(dense, site.layer), shape, scale, Buffers(), sigma_b)
        return drawn.whole(), drawn.bias()

    def value(self, site: Site, name: str) -> np.ndarray | None:
        return None


class Name(NamedTuple):
    """A parameter of a network: `name` ("W", "b", "gamma", "beta") of operation number `place` of the block that makes
    `layer`."""

    layer: int
    place: int
    name: str


@dataclass(eq=False)
class Stored(DrawnParameters):
    """Parameters that are kept: W and b standard normal as they were drawn, or moved since; γ and β.

    gain_w, gain_b: factors of σ_w and σ_b, arrays (layers, Dense) with the Dense of a block in the order they are met
    and the input layer in the last place. They are read when an operation is met, so they may change during a run.
    """

    values: Mapping[Name, np.ndarray]
    gain_w: np.ndarray
    gain_b: np.ndarray

    def deviations(self, dense: DenseOperation, layer: int) -> tuple[Any, Any]:
        sigma_w, sigma_b = super().deviations(dense, layer)
        count = self.gain_w.shape[1]
        if dense.ordinal >= count:  # a projection's
            return sigma_w, sigma_b
        at = layer - 1, (count - 1 if layer == 1 else dense.ordinal)
        return sigma_w * float(self.gain_w[at]), sigma_b * float(self.gain_b[at])

    def matrix(self, dense: DenseOperation, site: Site, shape: tuple[int, int]) -> Matrix:
        sigma_w, sigma_b = self.deviations(dense, site.layer)
        weights, bias = self.values[self._name(site, "W")], self.value(site, "b")
        return HeldMatrix(weights, bias, sigma_w / math.sqrt(shape[1]), sigma_b)

    def back(self, dense: DenseOperation, site: Site, shape: tuple[int, int]) -> Matrix | None:
        return None

    def whole(self, dense: DenseOperation, site: Site, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray | None]:
        sigma_w, sigma_b = self.deviations(dense, site.layer)
        bias = self.value(site, "b")
        scaled = self.values[self._name(site, "W")] * (sigma_w / math.sqrt(shape[1]))
        return scaled, None if bias is None else sigma_b * bias

    def value(self, site: Site, name: str) -> np.ndarray | None:
        return self.values.get(self._name(site, name))

    @staticmethod
    def _name(site: Site, name: str) -> Name:
        return Name(site.layer, site.place, name)
