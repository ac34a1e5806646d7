"""The derivative of one operation of a network at the point where it was applied, as a linear map.

Each has `push(rows, out)`, the image of tangents, and `pull(rows, out)`, that of cotangents under the transpose: arrays
of shape (number of vectors, positions, neurons). An operation that keeps positions apart also takes the first position
alone (one position in `rows`). `shape` is (positions, neurons) after the operation, `own` for every neuron of the first
position the sum of its squared derivatives with respect to the operation's own parameters (None if it has none). No
matrix is ever formed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from meanfield.empirical.random.matrices import Matrix

ROUNDING = 4 * 2.0**-52  # a vector with a relative spread below this is a constant one


class Derivative(Protocol):
    """What is pushed through: see the module."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def own(self) -> np.ndarray | float | None: ...

    def push(self, rows: np.ndarray, out: np.ndarray) -> None: ...

    def pull(self, rows: np.ndarray, out: np.ndarray) -> None: ...


@dataclass(frozen=True, eq=False)
class Slope:
    """Of a coordinatewise map: neuron i is multiplied with φ′(y_i)."""

    slope: np.ndarray
    own: None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.slope.shape

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        np.multiply(rows, self.slope[: rows.shape[1]], out=out)

    pull = push


@dataclass(frozen=True, eq=False)
class Factor:
    """Of y → factor·y."""

    factor: float
    shape: tuple[int, int]
    own: None = None

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        np.multiply(rows, self.factor, out=out)

    pull = push


@dataclass(frozen=True, eq=False)
class Product:
    """Of y → y ⊙ y′ with y′ a signal remembered: `by_top` and `by_saved`, the derivatives by y and by y′."""

    by_top: Slope
    by_saved: Slope


@dataclass(frozen=True, eq=False)
class Projection:
    """Of LayerNorm, ŷ = (y − mean(y))/s: dŷ = (dy − mean(dy) − ŷ mean(ŷ dy))/s, a symmetric map."""

    unit: np.ndarray
    spread: np.ndarray
    affine: bool

    @property
    def shape(self) -> tuple[int, int]:
        return self.unit.shape

    @property
    def own(self) -> np.ndarray | None:
        """γ_i ŷ_i + β_i by γ_i and β_i."""
        return self.unit[0] * self.unit[0] + 1.0 if self.affine else None

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        _project(self.unit, self.spread, rows, out)

    pull = push

    def gradient(self, cotangent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(∂S/∂γ, ∂S/∂β), see `Weighted.gradient`."""
        return (cotangent * self.unit).sum(axis=0), cotangent.sum(axis=0)


@dataclass(frozen=True, eq=False)
class Trained(Projection):
    """Of y → γy + β at γ = 1, β = 0: the identity, with parameters of its own; `unit` is y."""

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        out[...] = rows

    pull = push


@dataclass(frozen=True, eq=False)
class BatchProjection:
    """Of BatchNorm: the same over the positions, for each neuron apart; spread[i] is that of neuron i."""

    unit: np.ndarray
    spread: np.ndarray
    affine: bool
    own: None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.unit.shape

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        mean, along = rows.mean(axis=1, keepdims=True), (self.unit * rows).mean(axis=1, keepdims=True)
        np.divide(rows - mean - self.unit * along, self.spread, out=out)

    pull = push
    gradient = Projection.gradient


@dataclass(frozen=True, eq=False)
class Pooled:
    """Of Pool: `share`[p, i] is the derivative of neuron i // size after it by neuron i before it (0 beyond the last
    whole group)."""

    share: np.ndarray
    size: int
    own: None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.share.shape[0], self.share.shape[1] // self.size

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        whole = out.shape[2] * self.size
        groups = (rows * self.share[: rows.shape[1]])[..., :whole].reshape(*out.shape, self.size)
        groups.sum(axis=-1, out=out)

    def pull(self, rows: np.ndarray, out: np.ndarray) -> None:
        whole = rows.shape[2] * self.size
        out[..., whole:] = 0.0
        np.multiply(np.repeat(rows, self.size, axis=-1), self.share[: rows.shape[1], :whole], out=out[..., :whole])


@dataclass(frozen=True, eq=False)
class Weighted:
    """Of y → σ_w n^{−1/2} W y + σ_b b on the neurons of every position: the matrix holds the factor σ_w n^{−1/2}.

    step_w, step_b: square roots of the learning rates of an entry of σ_w n^{−1/2} W and of σ_b b, which are these
    factors for standard normal parameters; trained: whether W and b are parameters; back: what cotangents meet in the
    place of the matrix.
    """

    matrix: Matrix
    y: np.ndarray
    step_w: float
    step_b: float
    trained: bool = True
    back: Matrix | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.y), self.matrix.shape[0]

    @property
    def own(self) -> float | None:
        """By the entries of a row of W, and of b, each times its rate."""
        if not self.trained:
            return None
        y = self.y[0]
        return self.step_w * self.step_w * float(y @ y) + self.step_b * self.step_b

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        outputs, inputs = self.matrix.shape
        self.matrix.matvec(rows.reshape(-1, inputs), out.reshape(-1, outputs))

    def pull(self, rows: np.ndarray, out: np.ndarray) -> None:
        outputs, inputs = self.matrix.shape
        back = self.matrix if self.back is None else self.back
        back.rmatvec(rows.reshape(-1, outputs), out.reshape(-1, inputs))

    def gradient(self, cotangent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(∂S/∂w, ∂S/∂β) for w = scale·W and β = σ_b b, where `cotangent` (positions × outputs) is ∂S/∂(new y)."""
        return cotangent.T @ self.y, cotangent.sum(axis=0)

    def gradient_norms(self, cotangent: np.ndarray) -> tuple[float, float]:
        """Their squared norms, without the matrix: ∂S/∂w = Σ_p u_p y_pᵀ, so ‖∂S/∂w‖² = Σ_pq (u_p·u_q)(y_p·y_q)."""
        products = (cotangent @ cotangent.T) * (self.y @ self.y.T)
        return float(products.sum()), float(np.square(cotangent.sum(axis=0)).sum())


@dataclass(frozen=True, eq=False)
class WeightedTokens:
    """Of the same on the tokens of every input and neuron: y has shape (inputs, tokens, neurons)."""

    weights: np.ndarray
    y: np.ndarray
    step_w: float
    step_b: float
    own: None = None
    trained: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        return self.y.shape[0] * self.weights.shape[0], self.y.shape[2]

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        self._apply(self.weights, rows, out)

    def pull(self, rows: np.ndarray, out: np.ndarray) -> None:
        self._apply(self.weights.T, rows, out)

    def _apply(self, matrix: np.ndarray, rows: np.ndarray, out: np.ndarray) -> None:
        vectors, neurons, inputs = rows.shape[0], rows.shape[2], self.y.shape[0]
        new, old = matrix.shape
        np.matmul(matrix, rows.reshape(vectors, inputs, old, neurons), out=out.reshape(vectors, inputs, new, neurons))

    def gradient(self, cotangent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inputs, _, neurons = self.y.shape
        u = cotangent.reshape(inputs, -1, neurons)
        return np.einsum("ati,asi->ts", u, self.y), u.sum(axis=(0, 2))

    def gradient_norms(self, cotangent: np.ndarray) -> tuple[float, float]:
        weights, biases = self.gradient(cotangent)
        return float(np.square(weights).sum()), float(np.square(biases).sum())


@njit(cache=True, nogil=True, error_model="numpy")
def _project(unit, spread, rows, out):
    vectors, positions, neurons = rows.shape
    for k in range(vectors):
        for p in range(positions):
            mean, along = 0.0, 0.0
            for i in range(neurons):
                mean += rows[k, p, i]
                along += unit[p, i] * rows[k, p, i]
            mean /= neurons
            along /= neurons
            for i in range(neurons):
                out[k, p, i] = (rows[k, p, i] - mean - unit[p, i] * along) / spread[p]


@njit(cache=True, nogil=True, error_model="numpy")
def normalize(y, out):
    """out = (y − mean(y))/s, returns s (both NaN if y is constant to rounding or not finite).

    y is scaled by a power of two first: its squares neither overflow nor underflow.
    """
    largest = 0.0
    for i in range(y.size):
        largest = max(largest, abs(y[i])) if y[i] == y[i] else math.inf
    _, power = math.frexp(largest if largest < math.inf else 0.0)
    mean = 0.0
    for i in range(y.size):
        out[i] = math.ldexp(y[i], -power)
        mean += out[i]
    mean /= y.size
    square = 0.0
    for i in range(y.size):
        out[i] -= mean
        square += out[i] * out[i]
    spread = math.sqrt(square / y.size)
    if not (largest < math.inf and spread > ROUNDING * math.ldexp(largest, -power)):
        spread = math.nan
    for i in range(y.size):
        out[i] /= spread
    return math.ldexp(spread, power)
