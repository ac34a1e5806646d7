"""What is measured on one network: K and the two-input moments of its preactivations, its partial Jacobian norm and
its tangent kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from threading import Event

import numpy as np
from numba import njit

from meanfield.empirical.carried import TangentKernel
from meanfield.empirical.network import Network
from meanfield.empirical.philox import normals

_LOG2 = math.log(2.0)
_FAR = 2.0**64  # the Jacobian is rescaled when its squared norm leaves [1/_FAR, _FAR]


@njit(cache=True, nogil=True)
def _mean_product(first, second):
    total = 0.0
    for i in range(first.size):
        total += first[i] * second[i]
    return total / first.size


@njit(cache=True, nogil=True)
def _squared_norm(matrix):
    """Sum of squares, down the columns first: fast without letting the compiler reorder a sum."""
    columns = np.zeros(matrix.shape[1])
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            columns[j] += matrix[i, j] * matrix[i, j]
    return columns.sum()


def log_squared_norm(matrix: np.ndarray) -> tuple[float, float]:
    """(ln ‖matrix‖²_F, ln s); a matrix with norm far from 1 is divided, in place, by s = a power of two, else s = 1.

    −∞ for the zero matrix, NaN for one with an entry that is not finite.
    """
    total = _squared_norm(matrix)
    if 1 / _FAR <= total <= _FAR:
        return math.log(total), 0.0
    largest = float(np.abs(matrix).max())
    if largest == 0.0 or not math.isfinite(largest):
        return (-math.inf if largest == 0.0 else math.nan), 0.0
    power = math.frexp(largest)[1]
    np.ldexp(matrix, -power, out=matrix)
    return math.log(_squared_norm(matrix)) + 2 * power * _LOG2, power * _LOG2


def draw_inputs(
    dimension: int, seed: int, index: int, input_norm: float, correlation: float | None = None
) -> np.ndarray:
    """One or two inputs (rows) of N_0 = dimension numbers, to rounding: |x|² = N_0·input_norm, ⟨x_a, x_b⟩ =
    correlation·|x|².

    Their directions are drawn per network, from the stream (seed, index, layer 0).
    """
    length = math.sqrt(input_norm * dimension)
    first = normals(seed, index, 0, 0, dimension)
    first /= math.sqrt(_mean_product(first, first) * first.size)
    if correlation is None:
        return length * first[None, :]
    second = correlation * first
    if abs(correlation) < 1:
        other = normals(seed, index, 0, 1, dimension)
        for _ in range(2):  # the second pass removes what rounding left of `first`
            other -= _mean_product(first, other) * first.size * first
            other /= math.sqrt(_mean_product(other, other) * other.size)
        second += math.sqrt((1 - correlation) * (1 + correlation)) * other
    return length * np.stack((first, second))


def draw_probes(width: int, seed: int, index: int, probes: int) -> np.ndarray:
    """`probes` columns of `width` independent fair signs ±1: |M v|² has mean ‖M‖²_F.

    Probe k takes numbers k·width + i of the stream (seed, index, layer 0, role 2), so more probes keep the first ones.
    Signs spread less than Gaussians: the diagonal of MᵀM is measured without error.
    """
    return np.where(normals(seed, index, 0, 2, probes * width) > 0.0, 1.0, -1.0).reshape(probes, width).T


def measure(
    network: Network, inputs: np.ndarray, l0: int | None, rows: Mapping[str, np.ndarray], stop: Event | None = None
) -> int:
    """Write the network's row of every quantity; return the first layer with a number that is not finite, or 0.

    From that layer on nothing is written. `rows["log_J"]` starts at layer l0 (at 1 if l0 = 0), the others at layer 1;
    J is not measured if l0 is None, and Θ if "Theta" is not among the rows.
    """
    tangent = TangentKernel(network.buffers) if "Theta" in rows else None
    carried = 0.0  # ln of what the Jacobian was divided by
    with np.errstate(all="ignore"):  # an overflow is an answer: it is returned as a layer
        for layer, z, jacobian in network.layers(inputs, l0, tangent):
            if stop is not None and stop.is_set():
                break
            found = {"K": _mean_product(z[0], z[0])}
            if len(z) == 2:
                gap = z[0] - z[1]  # K_aa + K_bb − 2 K_ab would cancel near correlation 1
                found = {
                    "K_aa": found["K"],
                    "K_bb": _mean_product(z[1], z[1]),
                    "K_ab": _mean_product(z[0], z[1]),
                    "D": _mean_product(gap, gap),
                }
            if tangent is not None:
                found["Theta"] = tangent.mean
            if not all(math.isfinite(value) for value in found.values()):
                return layer
            if jacobian is not None and l0 is not None:
                log_norm, shift = log_squared_norm(jacobian)
                if math.isnan(log_norm):
                    return layer
                rows["log_J"][layer - max(l0, 1)] = log_norm + 2 * carried - math.log(network.ensemble.width)
                carried += shift
            for name, value in found.items():
                rows[name][layer - 1] = value
    return 0
