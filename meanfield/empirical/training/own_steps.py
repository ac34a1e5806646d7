"""What one optimizer step on a Dense adds to what it makes, without the changed matrix: ΔW is known by the few vectors
that it is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

ROWS = 256  # of a matrix whose change is formed at a time


@dataclass(frozen=True)
class Move:
    """How one parameter is moved. It enters as `multiplier` times what is stored, and what is stored has the learning
    rate `rate`; optimizer: "sgd", "adam" or "muon"; eps: Adam's ε."""

    optimizer: str
    multiplier: float
    rate: float
    eps: float = 0.0

    def of_vector(self, gradient: np.ndarray) -> np.ndarray:
        """The change of m θ in the first step, for an array m θ with gradient ∂L/∂(m θ)."""
        if self.optimizer == "sgd":
            return -self.rate * self.multiplier**2 * gradient
        return -self.rate * self.multiplier * self._unit(self.multiplier * gradient)

    def _unit(self, g: np.ndarray) -> np.ndarray:
        if self.eps == 0:
            return np.sign(g)
        return g / (np.abs(g) + self.eps)

    def of_matrix(self, v: np.ndarray, a: np.ndarray, new: np.ndarray) -> np.ndarray:
        """m ΔW ã for the rows ã of `new`, the gradient by m W being Σ_b v_b a_bᵀ (v: inputs × outputs, a: inputs ×
        fan-in)."""
        size = self.multiplier * self.rate
        if self.optimizer == "sgd":
            return -size * self.multiplier * (new @ a.T) @ v
        if self.optimizer == "muon":
            return -size * _polar_product(v, a, new)
        if len(a) == 1 and self.eps == 0:
            return -size * np.sign(v) * (np.sign(a) @ new.T).T
        out = np.empty((len(new), v.shape[1]))
        for first in range(0, v.shape[1], ROWS):
            here = slice(first, first + ROWS)
            out[:, here] = new @ self._unit(self.multiplier * (v[:, here].T @ a)).T
        return -size * out


def _polar_product(v: np.ndarray, a: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The polar factor of vᵀ a, times the rows of `new`."""
    left, upper = np.linalg.qr(v.T)
    right, lower = np.linalg.qr(a.T)
    u, s, w = np.linalg.svd(upper @ lower.T)
    kept = s > 1e-10 * s[:1]
    return new @ right @ (w.T * kept) @ u.T @ left.T
