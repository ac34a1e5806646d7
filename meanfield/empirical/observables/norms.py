"""Inputs and probes of a network, drawn from their streams, and the sums that are taken over its neurons."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.random.philox import normals

PROBE_ROLE, COTANGENT_ROLE, BATCH_ROLE, FRESH_ROLE = 2, 3, 4, 5  # streams of layer 0; 0 and 1 are one or two inputs
PROBE_LAWS = ("signs", "gaussian", "sphere")
_LOG2 = math.log(2.0)
_FAR = 2.0**64  # the Jacobian is rescaled when its squared norm leaves [1/_FAR, _FAR]


@njit(cache=True, nogil=True)
def mean_product(first, second):
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
    first /= math.sqrt(mean_product(first, first) * first.size)
    if correlation is None:
        return length * first[None, :]
    second = correlation * first
    if abs(correlation) < 1:
        other = normals(seed, index, 0, 1, dimension)
        for _ in range(2):  # the second pass removes what rounding left of `first`
            other -= mean_product(first, other) * first.size * first
            other /= math.sqrt(mean_product(other, other) * other.size)
        second += math.sqrt((1 - correlation) * (1 + correlation)) * other
    return length * np.stack((first, second))


def draw_probes(
    width: int, seed: int, index: int, probes: int, role: int = PROBE_ROLE, after: int = 0, law: str = "signs"
) -> np.ndarray:
    """`probes` columns v of `width` numbers with E v vᵀ = 1: |M v|² has mean ‖M‖²_F.

    law: "signs", independent fair signs ±1; "gaussian", independent standard normals; "sphere", uniform on the sphere
    |v|² = width. Probe k takes numbers after + k·width + i of the stream (seed, index, layer 0, role), so more probes
    keep the first ones. With A = MᵀM the variance of |M v|² is 2(tr A² − ΣA_ii²) by signs, 2 tr A² by Gaussians and
    2(n tr A² − (tr A)²)/(n + 2) on the sphere.
    """
    drawn = normals(seed, index, 0, role, probes * width, after).reshape(probes, width)
    if law == "signs":
        drawn = np.where(drawn > 0.0, 1.0, -1.0)
    elif law == "sphere":
        drawn = drawn * (math.sqrt(width) / np.sqrt((drawn**2).sum(axis=1, keepdims=True)))
    return drawn.T


def draw_batch(positions: int, dimension: int, seed: int, index: int, input_norm: float) -> np.ndarray:
    """Independent normal entries of variance `input_norm`, drawn per network from the stream (seed, index, layer 0,
    role 4)."""
    found = normals(seed, index, 0, BATCH_ROLE, positions * dimension)
    return math.sqrt(input_norm) * found.reshape(positions, dimension)


def spread_and_drift(z: np.ndarray) -> tuple[float, float]:
    """(sigma_y2, sigma_mu2) of a signal (inputs × neurons): the mean over the neurons of the variance over the inputs,
    and the variance over the neurons of the mean over the inputs less sigma_y2/inputs; neither is biased."""
    mean = z.mean(axis=0)
    spread = float(np.square(z - mean).sum()) / ((len(z) - 1) * z.shape[1])
    return spread, float(mean.var(ddof=1)) - spread / len(z)


def pair_rows(z: np.ndarray) -> dict[str, np.ndarray]:
    """What V is made of: S_ab = (1/N) Σ_i z_ia z_ib, the mean of z_ia z_ib z_jc z_jd over i ≠ j, and S_ab S_cd."""
    neurons = z.shape[1]
    if neurons < 2:
        raise MeanFieldError("V is a correlation of two neurons, but the width is 1; take a width of at least 2.")
    pairs = np.einsum("ai,bi->abi", z, z)
    own = np.einsum("abi->ab", pairs) / neurons
    products = np.multiply.outer(own, own)
    same = np.einsum("abi,cdi->abcd", pairs, pairs) / neurons
    return {"_S": own, "_SS": (neurons * products - same) / (neurons - 1), "_S*S": products}
