"""Operations without weights on a signal (positions × neurons): the new signal, and the derivative there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from meanfield.empirical.functions.groups import group_kernel
from meanfield.empirical.functions.registry import ScalarPair, elementwise
from meanfield.empirical.network.operations.operation_derivatives import (
    BatchProjection,
    Derivative,
    LayerNormDerivative,
    PoolDerivative,
    RootProjection,
    Slope,
    divide_rows,
    normalize_rows,
)
from meanfield.empirical.random.buffers import aligned

_EMPTY = np.empty((0, 0))


def apply_map(
    pair: ScalarPair, z: np.ndarray, differentiate: bool, new: Callable[..., np.ndarray] = aligned
) -> tuple[np.ndarray, Derivative]:
    """φ(z); without `differentiate` the derivative is left empty."""
    new_z, slope = new(*z.shape), new(*z.shape) if differentiate else _EMPTY
    elementwise(pair.phi)(z.ravel(), new_z.ravel(), pair.parameters)
    if differentiate:
        elementwise(pair.dphi)(z.ravel(), slope.ravel(), pair.parameters)
    return new_z, Slope(slope)


def apply_norm(z: np.ndarray, affine: bool, gain: np.ndarray | None = None) -> tuple[np.ndarray, Derivative]:
    """LayerNorm without gains and shifts: over the neurons of every position; the derivative is with `gain`."""
    new_z = aligned(*z.shape)
    spreads = np.empty(len(z))
    normalize_rows(z, new_z, spreads)
    return new_z, LayerNormDerivative(new_z, spreads, affine, gain)


def apply_root_norm(z: np.ndarray, affine: bool, gain: np.ndarray | None = None) -> tuple[np.ndarray, Derivative]:
    """RMSNorm, in the same way: the neurons of every position divided by their root mean square."""
    new_z, spreads = aligned(*z.shape), np.empty(len(z))
    divide_rows(z, new_z, spreads)
    return new_z, RootProjection(new_z, spreads, affine, gain)


def apply_batch_norm(z: np.ndarray, affine: bool, gain: np.ndarray | None = None) -> tuple[np.ndarray, Derivative]:
    """BatchNorm, in the same way: over the positions of every neuron."""
    transposed = np.ascontiguousarray(z.T)
    unit = np.empty_like(transposed)
    spreads = np.empty(len(transposed))
    normalize_rows(transposed, unit, spreads)
    new_z = aligned(*z.shape)
    new_z[...] = unit.T
    return new_z, BatchProjection(new_z, spreads, affine, gain)


def apply_pool(z: np.ndarray, size: int, largest: bool) -> tuple[np.ndarray, Derivative]:
    """Groups of `size` neurons → their largest (the first of several) or their mean."""
    positions, neurons = len(z), z.shape[1] // size
    share = aligned(*z.shape)
    share[...] = 0.0
    inner = share[:, : neurons * size].reshape(positions, neurons, size)
    groups = z[:, : neurons * size].reshape(positions, neurons, size)
    new_z = aligned(positions, neurons)
    if largest:
        groups.max(axis=-1, out=new_z)
        np.put_along_axis(inner, groups.argmax(axis=-1)[..., None], 1.0, axis=-1)
    else:
        groups.mean(axis=-1, out=new_z)
        inner[...] = 1.0 / size
    return new_z, PoolDerivative(share, size)


def apply_group(z: np.ndarray, size: int, formula: str, differentiate: bool) -> tuple[np.ndarray, Derivative]:
    """Groups of `size` neurons → a formula in z1 … z_size; without `differentiate` the derivative is left empty."""
    positions, neurons = len(z), z.shape[1] // size
    new_z, share = aligned(positions, neurons), aligned(*(z.shape if differentiate else (0, 0)))
    share[...] = 0.0
    group_kernel(formula, size)(z[None], new_z[None], share[None])
    return new_z, PoolDerivative(share, size)


@njit(cache=True, nogil=True)
def mark_rows(z, lost):
    """lost[a] is set if z[a] holds a number that is not finite."""
    for a in range(z.shape[0]):
        s0 = s1 = s2 = s3 = 0.0  # 0·z is 0 or NaN, which stays in a sum
        whole = z.shape[1] - z.shape[1] % 4
        for i in range(0, whole, 4):
            s0 += 0.0 * z[a, i]
            s1 += 0.0 * z[a, i + 1]
            s2 += 0.0 * z[a, i + 2]
            s3 += 0.0 * z[a, i + 3]
        for i in range(whole, z.shape[1]):
            s0 += 0.0 * z[a, i]
        if (s0 + s1) + (s2 + s3) != 0.0:
            lost[a] = True
