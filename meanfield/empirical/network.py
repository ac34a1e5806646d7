"""One network of finite width, drawn and run: the second reading of the architecture record.

z¹ = σ_w N_0^{−1/2} W x + σ_b b, then z^{l+1} = block(z^l), where Dense is y → σ_w N^{−1/2} W y + σ_b b with entries of
W and b independent standard normals, Nonlinearity is y → φ(y) coordinatewise, LayerNorm is y → (y − mean(y))/sd(y) over
the neurons (sd² = mean((y − mean(y))²), nothing added to it) and Residual is y → branch(y) + μ y. The block is turned
into a flat list of operations on a stack, and the Jacobian ∂z^l/∂z^{l0} and the tangent kernel are pushed through the
same operations by the chain rule. σ_w, σ_b may depend on the layer; all Dense of one block take those of their layer.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit

from meanfield.architecture import Block
from meanfield.empirical.carried import Jacobian, TangentKernel
from meanfield.empirical.derivatives import Buffers, Derivative, Projection, Slope, Weights, aligned, normalize
from meanfield.empirical.functions import ScalarPair, elementwise
from meanfield.empirical.operations import (
    AddSaved,
    Affine,
    Map,
    Normalize,
    Operation,
    Save,
    integer,
    operations,
    per_layer,
)
from meanfield.empirical.philox import MAX_INDEX, MAX_LAYER, MAX_NETWORK, fill_normals
from meanfield.results import MeanFieldError


@dataclass(frozen=True, eq=False)
class Ensemble:
    """The law of random networks: a block, its widths and its standard deviations.

    `block` is repeated depth − 1 times after the input layer; `sigma_w`, `sigma_b` ≥ 0 are numbers or arrays of length
    `depth`; `input_dimension` N_0 (kept as `fan_in`) is the width unless given; `mu` is the value of symbolic skip
    strengths, see `operations`. `Ensemble(...).network(seed, index)` is one draw.
    """

    block: Block
    sigma_w: Any
    sigma_b: Any
    width: int
    depth: int
    input_dimension: int | None = None
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None
    mu: Any = None
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
            "sigma_w": per_layer(self.sigma_w, "sigma_w", depth),
            "sigma_b": per_layer(self.sigma_b, "sigma_b", depth),
            "operations": operations(self.block, self.activation_pairs, self.mu, depth),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        check_width(width, self.operations)

    def network(self, seed: int, index: int, buffers: Buffers | None = None) -> Network:
        """Network number `index` of the ensemble's realization `seed`: the same numbers wherever it is drawn."""
        seed = integer(seed, "The seed", 0, 1 << 64)
        return Network(self, seed, integer(index, "The network's index", 0, MAX_NETWORK), buffers or Buffers())


def check_width(width: int, done: tuple[Operation, ...]) -> None:
    """One neuron minus its mean is 0, with or without the rest of LayerNorm."""
    if width == 1 and any(isinstance(operation, Normalize) for operation in done):
        raise MeanFieldError(
            "LayerNorm was asked for in a network of width 1, where a neuron is its own mean and the standard "
            "deviation is 0; take a width of at least 2."
        )


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

    def layers(
        self,
        inputs: np.ndarray,
        l0: int | None = None,
        tangent: TangentKernel | None = None,
        directions: np.ndarray | None = None,
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
        """Yield (l, z, G) for l = 1..depth: z[a] = z^l for input a, and G = ∂z^l/∂z^{l0} at the first input.

        `inputs` has shape (number of inputs, N_0). G is None before layer l0, or always if l0 is None; it may be
        rescaled in place by the caller (it enters linearly) and is overwritten when the iteration goes on. l0 = 0 is
        the input x, and then G is N × N_0. With `directions` V given, G is (∂z^l/∂z^{l0}) V. `tangent` holds the
        tangent kernel at the first input for the layer just yielded.
        """
        ensemble = self.ensemble
        z = np.ascontiguousarray(inputs, dtype=float)
        jacobian = self._jacobian(ensemble.fan_in, directions) if l0 == 0 else None
        try:
            for layer in range(1, ensemble.depth + 1):
                z = self._block(layer, z, jacobian, tangent)
                if layer == l0:
                    jacobian = self._jacobian(ensemble.width, directions)
                yield layer, z, None if jacobian is None else jacobian.matrix
        finally:
            for carried in (jacobian, tangent):
                if carried is not None:
                    carried.release()

    def _jacobian(self, size: int, directions: np.ndarray | None) -> Jacobian:
        matrix = self.buffers.take(size, size if directions is None else directions.shape[1])
        matrix[...] = 0.0 if directions is None else directions
        if directions is None:
            np.fill_diagonal(matrix, 1.0)
        return Jacobian(matrix, self.buffers)

    def _block(self, layer: int, z: np.ndarray, jacobian: Jacobian | None, tangent: TangentKernel | None) -> np.ndarray:
        derivative: Derivative | None
        lost = np.zeros(len(z), dtype=bool)
        carried = [one for one in (jacobian, tangent) if one is not None]
        saved: list[np.ndarray] = []
        for operation in self.ensemble.operations if layer > 1 else (Affine(0),):
            match operation:
                case Save():
                    saved.append(z)
                    for one in carried:
                        one.save()
                    continue
                case AddSaved(mu):
                    new_z = np.multiply(saved.pop(), mu[layer - 1], out=aligned(*z.shape))
                    new_z += z
                    z, derivative = new_z, None
                    for one in carried:
                        one.add_saved(mu[layer - 1])
                case Map(pair):
                    z, derivative = self._map(pair, z, bool(carried))
                case Normalize(affine):
                    z, derivative = self._normalize(z, affine)
                case Affine(ordinal):
                    z, derivative = self._affine(ordinal, layer, z)
            if derivative is not None:
                for one in carried:
                    one.push(derivative, self.ensemble.width)
            if isinstance(derivative, Weights):
                derivative.release()
            _mark_rows(z, lost)
        # an overflow (or a LayerNorm of equal numbers) inside the block stays one: max(NaN, 0) and erf(∞) are finite
        return np.where(lost[:, None], math.nan, z) if lost.any() else z

    def _map(self, pair: ScalarPair, z: np.ndarray, differentiate: bool) -> tuple[np.ndarray, Derivative]:
        new_z, slope = aligned(*z.shape), np.empty(z.shape[1] if differentiate else 0)
        elementwise(pair.phi)(z.ravel(), new_z.ravel(), pair.parameters)
        if differentiate:
            elementwise(pair.dphi)(z[0], slope, pair.parameters)
        return new_z, Slope(slope)

    def _normalize(self, z: np.ndarray, affine: bool) -> tuple[np.ndarray, Derivative]:
        new_z = aligned(*z.shape)
        spreads = [normalize(z[a], new_z[a]) for a in range(z.shape[0])]
        return new_z, Projection(new_z[0], spreads[0], affine)

    def _affine(self, ordinal: int, layer: int, z: np.ndarray) -> tuple[np.ndarray, Weights]:
        width, fan_in = self.ensemble.width, z.shape[1]
        sigma_w, sigma_b = self.ensemble.sigma_w[layer - 1], self.ensemble.sigma_b[layer - 1]
        key = self.seed, self.index, layer, 2 * ordinal
        scale = sigma_w / math.sqrt(fan_in)
        weights = Weights(key, width, z[0], scale, sigma_b, self.buffers)
        new_z = aligned(z.shape[0], width)
        for rows, part in weights.blocks():
            for a in range(z.shape[0]):  # one product per input: its bits do not depend on which others are run with it
                np.matmul(part, z[a], out=new_z[a, rows])
        if sigma_b > 0:
            bias = np.empty(width)
            fill_normals(bias, self.seed, self.index, layer, 2 * ordinal + 1, scale=sigma_b)
            new_z += bias
        return new_z, weights


@njit(cache=True, nogil=True)
def _mark_rows(z, lost):
    """lost[a] is set if z[a] holds a number that is not finite."""
    for a in range(z.shape[0]):
        total = 0.0
        for i in range(z.shape[1]):
            total += 0.0 * z[a, i]  # 0 or NaN, which stays in a sum
        if total != 0.0:
            lost[a] = True
