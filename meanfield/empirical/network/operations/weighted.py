"""The derivatives of a Dense, on the neurons of every position or on the tokens of every input."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meanfield.empirical.network.operations.operation_derivatives import Derivative, Normals
from meanfield.empirical.random.matrices import Matrix


@dataclass(frozen=True, eq=False)
class _OfDense(Derivative):
    """step_w, step_b: square roots of the learning rates of an entry of w = σ_w n^{−1/2} W and of β = σ_b b, which are
    these factors for standard normal parameters. Gradients are by w and β."""

    y: np.ndarray
    step_w: float
    step_b: float

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return "W", "b"

    @property
    def steps(self) -> tuple[float, ...]:  # type: ignore[override]
        return self.step_w, self.step_b


@dataclass(frozen=True, eq=False)
class Weighted(_OfDense):
    """Of y → w y + β on the neurons of every position: the matrix is w.

    back: what cotangents meet in the place of the matrix.
    """

    matrix: Matrix
    back: Matrix | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.y), self.matrix.shape[0]

    @property
    def before(self) -> tuple[int, int]:
        return len(self.y), self.matrix.shape[1]

    @property
    def own(self) -> float:
        """By the entries of a row of w, and of β, each times its rate."""
        y = self.y[0]
        return self.step_w * self.step_w * float(y @ y) + self.step_b * self.step_b

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        outputs, inputs = self.matrix.shape
        self.matrix.matvec(rows.reshape(-1, inputs), out.reshape(-1, outputs))

    def pull(self, rows: np.ndarray, out: np.ndarray) -> None:
        outputs, inputs = self.matrix.shape
        back = self.matrix if self.back is None else self.back
        back.rmatvec(rows.reshape(-1, outputs), out.reshape(-1, inputs))

    def gradient(self, cotangent: np.ndarray) -> tuple[np.ndarray, ...]:
        return cotangent.T @ self.y, cotangent.sum(axis=0)

    def gradient_norms(self, cotangent: np.ndarray) -> tuple[float, ...]:
        """Without the matrix: ∂S/∂w = Σ_p u_p y_pᵀ, so ‖∂S/∂w‖² = Σ_pq (u_p·u_q)(y_p·y_q)."""
        products = (cotangent @ cotangent.T) * (self.y @ self.y.T)
        return float(products.sum()), float(np.square(cotangent.sum(axis=0)).sum())

    def scatter(self, rows: np.ndarray, normals: Normals) -> None:
        """δW y is drawn as what it is, Gaussian with covariance y_p·y_q between positions."""
        frame = _coefficients(self.y[: len(rows)])
        count = frame.shape[1]
        xi = normals((count + 1) * rows.shape[1]).reshape(count + 1, -1)
        rows += self.step_w * (frame @ xi[:count]) + self.step_b * xi[count]

    def release(self, kept: bool = False) -> None:
        """A matrix goes that no backward pass needs, or that it can draw again for less than it costs to keep."""
        if not kept or self.matrix.redrawn:
            self.matrix.release()
        if not kept and self.back is not None:
            self.back.release()


class Projected(Weighted):
    """Of a projection: a matrix that is not trained."""

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        return ()

    @property
    def steps(self) -> tuple[float, ...]:  # type: ignore[override]
        return ()

    own = None  # type: ignore[assignment]

    def gradient(self, cotangent: np.ndarray) -> tuple[np.ndarray, ...]:
        return ()

    def gradient_norms(self, cotangent: np.ndarray) -> tuple[float, ...]:
        return ()

    def scatter(self, rows: np.ndarray, normals: Normals) -> None:
        pass


@dataclass(frozen=True, eq=False)
class WeightedTokens(_OfDense):
    """Of the same on the tokens of every input and neuron: y has shape (inputs, tokens, neurons)."""

    weights: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.y.shape[0] * self.weights.shape[0], self.y.shape[2]

    @property
    def before(self) -> tuple[int, int]:
        return self.y.shape[0] * self.y.shape[1], self.y.shape[2]

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        self._apply(self.weights, rows, out)

    def pull(self, rows: np.ndarray, out: np.ndarray) -> None:
        self._apply(self.weights.T, rows, out)

    def _apply(self, matrix: np.ndarray, rows: np.ndarray, out: np.ndarray) -> None:
        vectors, neurons, inputs = rows.shape[0], rows.shape[2], self.y.shape[0]
        new, old = matrix.shape
        np.matmul(matrix, rows.reshape(vectors, inputs, old, neurons), out=out.reshape(vectors, inputs, new, neurons))

    def gradient(self, cotangent: np.ndarray) -> tuple[np.ndarray, ...]:
        inputs, _, neurons = self.y.shape
        u = cotangent.reshape(inputs, -1, neurons)
        return np.einsum("ati,asi->ts", u, self.y), u.sum(axis=(0, 2))

    def scatter(self, rows: np.ndarray, normals: Normals) -> None:
        new, old = self.weights.shape
        xi = normals(new * (old + 1)).reshape(new, old + 1)
        added = self.step_w * np.matmul(xi[:, :old], self.y) + self.step_b * xi[:, old:]
        rows += added.reshape(rows.shape)


def _coefficients(y: np.ndarray) -> np.ndarray:
    """C with C Cᵀ = y yᵀ: the coordinates of the rows of y in an orthonormal frame (more rows than neurons: y)."""
    return np.transpose(np.linalg.qr(y.T, mode="r")) if len(y) > 1 else np.sqrt((y * y).sum(axis=1, keepdims=True))
