"""The derivative of one operation of a network at the point where it was applied, as a linear map.

Arrays have the shape (number of vectors, positions, neurons). An operation that keeps positions apart also takes the
first position alone (one position in `rows`). No matrix is ever formed. What an operation trains, its derivative knows:
gradients, their norms and the shares of the tangent kernel are asked of it, by everything that needs them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit

from meanfield.empirical.random.sampler import dot

ROUNDING = 4 * 2.0**-52  # a vector with a relative spread below this is a constant one
Normals = Callable[[int], np.ndarray]


class Derivative:
    """What is pushed through. `push` and `pull` are what a derivative must have, and `shape`; one with parameters also
    has `names`, `own`, `gradient` and `scatter`.

    docs/writing_a_layer.md writes one. shape: (positions, neurons) after the operation. before: the same before it.
    names: those of its own trained parameters θ ("W", "b", "gamma", "beta"). steps: the square root of each one's
    learning rate. own: for every neuron of the first position the sum of its squared derivatives by θ, times the
    rates.
    """

    names: tuple[str, ...] = ()
    steps: tuple[float, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        raise NotImplementedError

    @property
    def before(self) -> tuple[int, int]:
        return self.shape

    @property
    def own(self) -> np.ndarray | float | None:
        return None

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        """out[k] = the image of the tangent rows[k]."""
        raise NotImplementedError

    def pull(self, rows: np.ndarray, out: np.ndarray) -> None:
        """out[k] = the image of the cotangent rows[k] under the transpose."""
        raise NotImplementedError

    def gradient(self, cotangent: np.ndarray) -> tuple[np.ndarray, ...]:
        """∂S/∂θ for every name, where `cotangent` (positions × neurons) is ∂S/∂(what the operation made)."""
        return ()

    def gradient_norms(self, cotangent: np.ndarray) -> tuple[float, ...]:
        """The squared norm of each."""
        return tuple(float(np.square(one).sum()) for one in self.gradient(cotangent))

    def scatter(self, rows: np.ndarray, normals: Normals) -> None:
        """rows += Σ_θ (∂y/∂θ) ξ_θ times the root of the rate, ξ standard normal: normals(n) are the first n of a
        stream; rows (positions, neurons), or those of the first position alone."""

    def release(self, kept: bool = False) -> None:
        """Give scratch memory back; kept: a backward pass is still to come."""


class _Gains(Derivative):
    """Parameters γ, β of y = γŷ + β with `unit` ŷ, if `affine` (γ alone unless `shifted`); `gain` is γ where it is not
    1."""

    unit: np.ndarray
    affine: bool
    gain: np.ndarray | None = None
    shifted = True

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("gamma", "beta")[: self._count]

    @property
    def steps(self) -> tuple[float, ...]:  # type: ignore[override]
        return (1.0, 1.0)[: self._count]

    @property
    def _count(self) -> int:
        return self.affine * (1 + self.shifted)

    @property
    def shape(self) -> tuple[int, int]:
        return self.unit.shape[0], self.unit.shape[1]

    @property
    def own(self) -> np.ndarray | None:
        return self.unit[0] * self.unit[0] + float(self.shifted) if self.affine else None

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        self.project(rows, out)
        if self.gain is not None:
            out *= self.gain

    def pull(self, rows: np.ndarray, out: np.ndarray) -> None:
        self.project(rows if self.gain is None else rows * self.gain, out)

    def project(self, rows: np.ndarray, out: np.ndarray) -> None:
        """The derivative of ŷ, a symmetric map."""
        raise NotImplementedError

    def gradient(self, cotangent: np.ndarray) -> tuple[np.ndarray, ...]:
        if not self.affine:
            return ()
        by_gain = (cotangent * self.unit).sum(axis=0)
        return (by_gain, cotangent.sum(axis=0)) if self.shifted else (by_gain,)

    def scatter(self, rows: np.ndarray, normals: Normals) -> None:
        if self.affine:
            xi = normals(self._count * rows.shape[1]).reshape(self._count, -1)
            rows += self.unit[: len(rows)] * xi[0] + (xi[1] if self.shifted else 0.0)


@dataclass(frozen=True, eq=False)
class Slope(Derivative):
    """Of a coordinatewise map: neuron i is multiplied with φ′(y_i)."""

    slope: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.slope.shape[0], self.slope.shape[1]

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        np.multiply(rows, self.slope[: rows.shape[1]], out=out)

    pull = push


@dataclass(frozen=True, eq=False)
class Factor(Derivative):
    """Of y → factor·y, y of shape `like`."""

    factor: float
    like: tuple[int, int]

    @property
    def shape(self) -> tuple[int, int]:
        return self.like

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        np.multiply(rows, self.factor, out=out)

    pull = push


@dataclass(frozen=True, eq=False)
class LayerNormDerivative(_Gains):
    """Of LayerNorm, ŷ = (y − mean(y))/s: dŷ = (dy − mean(dy) − ŷ mean(ŷ dy))/s."""

    unit: np.ndarray
    spread: np.ndarray
    affine: bool
    gain: np.ndarray | None = None

    def project(self, rows: np.ndarray, out: np.ndarray) -> None:
        _project(self.unit, self.spread, rows, out)


@dataclass(frozen=True, eq=False)
class RootProjection(_Gains):
    """Of RMSNorm, ŷ = y/s: dŷ = (dy − ŷ mean(ŷ dy))/s."""

    unit: np.ndarray
    spread: np.ndarray
    affine: bool
    gain: np.ndarray | None = None
    shifted = False

    def project(self, rows: np.ndarray, out: np.ndarray) -> None:
        _project_root(self.unit, self.spread, rows, out)


@dataclass(frozen=True, eq=False)
class GainsDerivative(_Gains):
    """Of y → γy + β: ŷ is y."""

    unit: np.ndarray
    affine: bool = True
    gain: np.ndarray | None = None

    def project(self, rows: np.ndarray, out: np.ndarray) -> None:
        out[...] = rows


@dataclass(frozen=True, eq=False)
class BatchProjection(_Gains):
    """Of BatchNorm: that of LayerNorm over the positions, for each neuron apart; spread[i] is that of neuron i."""

    unit: np.ndarray
    spread: np.ndarray
    affine: bool
    gain: np.ndarray | None = None

    def project(self, rows: np.ndarray, out: np.ndarray) -> None:
        mean, along = rows.mean(axis=1, keepdims=True), (self.unit * rows).mean(axis=1, keepdims=True)
        np.divide(rows - mean - self.unit * along, self.spread, out=out)


@dataclass(frozen=True, eq=False)
class PoolDerivative(Derivative):
    """Of Pool: `share`[p, i] is the derivative of neuron i // size after it by neuron i before it (0 beyond the last
    whole group)."""

    share: np.ndarray
    size: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.share.shape[0], self.share.shape[1] // self.size

    @property
    def before(self) -> tuple[int, int]:
        return self.share.shape[0], self.share.shape[1]

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        whole = out.shape[2] * self.size
        groups = (rows * self.share[: rows.shape[1]])[..., :whole].reshape(*out.shape, self.size)
        groups.sum(axis=-1, out=out)

    def pull(self, rows: np.ndarray, out: np.ndarray) -> None:
        whole = rows.shape[2] * self.size
        out[..., whole:] = 0.0
        np.multiply(np.repeat(rows, self.size, axis=-1), self.share[: rows.shape[1], :whole], out=out[..., :whole])


@njit(cache=True, nogil=True, error_model="numpy")
def _project(unit, spread, rows, out):
    vectors, positions, neurons = rows.shape
    for k in range(vectors):
        for p in range(positions):
            mean, along = _sum(rows[k, p]) / neurons, dot(unit[p], rows[k, p]) / neurons
            for i in range(neurons):
                out[k, p, i] = (rows[k, p, i] - mean - unit[p, i] * along) / spread[p]


@njit(cache=True, nogil=True, error_model="numpy")
def _project_root(unit, spread, rows, out):
    vectors, positions, neurons = rows.shape
    for k in range(vectors):
        for p in range(positions):
            along = dot(unit[p], rows[k, p]) / neurons
            for i in range(neurons):
                out[k, p, i] = (rows[k, p, i] - unit[p, i] * along) / spread[p]


@njit(cache=True, nogil=True, error_model="numpy")
def _scaled(y, out):
    """out = y times a power of two, so that its squares neither overflow nor underflow; returns the factor and the
    largest |y|, NaN where one is."""
    largest = 0.0
    for i in range(y.size):
        size = abs(y[i])
        largest = largest if size <= largest else size  # a NaN stays
        if size != size:
            break
    power = math.frexp(largest if largest < math.inf else 0.0)[1]
    factor = math.ldexp(1.0, -max(-1000, min(1000, power)))
    for i in range(y.size):
        out[i] = factor * y[i]
    return factor, largest


@njit(cache=True, nogil=True, error_model="numpy")
def normalize(y, out):
    """out = (y − mean(y))/s, returns s (both NaN if y is constant to rounding or not finite)."""
    factor, largest = _scaled(y, out)
    mean = _sum(out) / y.size
    for i in range(y.size):
        out[i] -= mean
    spread = math.sqrt(dot(out, out) / y.size)
    if not (largest < math.inf and spread > ROUNDING * factor * largest):
        spread = math.nan
    for i in range(y.size):
        out[i] /= spread
    return spread / factor


@njit(cache=True, nogil=True, error_model="numpy")
def normalize_rows(y, out, spreads):
    for p in range(y.shape[0]):
        spreads[p] = normalize(y[p], out[p])


@njit(cache=True, nogil=True, error_model="numpy")
def divide_rows(y, out, spreads):
    """out[p] = y[p]/s with s the root of the mean square, in spreads[p] (both NaN where y is 0 or not finite)."""
    for p in range(y.shape[0]):
        factor, largest = _scaled(y[p], out[p])
        spread = math.sqrt(dot(out[p], out[p]) / y.shape[1])
        if not (largest < math.inf and spread > 0.0):
            spread = math.nan
        for i in range(y.shape[1]):
            out[p, i] /= spread
        spreads[p] = spread / factor


@njit(cache=True, nogil=True)
def _sum(x):
    """Σ x_i in eight interleaved partial sums: a fixed order that vectorizes."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = x.size - x.size % 8
    for i in range(0, whole, 8):
        s0 += x[i]
        s1 += x[i + 1]
        s2 += x[i + 2]
        s3 += x[i + 3]
        s4 += x[i + 4]
        s5 += x[i + 5]
        s6 += x[i + 6]
        s7 += x[i + 7]
    for i in range(whole, x.size):
        s0 += x[i]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))
