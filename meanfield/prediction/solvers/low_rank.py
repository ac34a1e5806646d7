r"""The preconditioner of conjugate gradients: Θ ≈ L Lᵀ by a pivoted Cholesky factorization of few rows.

Rows are chosen at random in proportion to what is left of the diagonal, several at a time. L = Q √s in its singular
vectors makes P = Q s Qᵀ + ρ, of which the inverse, its root and the determinant are at hand.

Source: Chen, Epperly, Tropp and Webber, Randomly pivoted Cholesky (2022), algorithm 2.2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh, solve_triangular
from scipy.linalg.lapack import dpstrf

from meanfield.prediction.solvers.system import EPS, System

AT_ONCE = 64  # rows that are chosen before the diagonal is looked at again
STRIP = 4096  # rows of L that are turned at a time


class LowRank:
    """P = Q diag(s) Qᵀ + ρ of orthonormal columns Q, (n, k)."""

    def __init__(self, Q: np.ndarray, s: np.ndarray, ridge: float) -> None:
        self.Q, self.s, self.ridge = Q, s, ridge

    @property
    def rank(self) -> int:
        """k."""
        return len(self.s)

    def solve(self, v: np.ndarray) -> np.ndarray:
        """ρ P⁻¹ v."""
        return v - self.Q @ ((self.s / (self.s + self.ridge))[:, None] * (self.Q.T @ v))

    def root(self, v: np.ndarray) -> np.ndarray:
        """P^(-1/2) v."""
        part = 1 / np.sqrt(self.s + self.ridge) - 1 / np.sqrt(self.ridge)
        return v / np.sqrt(self.ridge) + self.Q @ (part[:, None] * (self.Q.T @ v))

    @property
    def log_determinant(self) -> float:
        """log det P."""
        return float(np.log1p(self.s / self.ridge).sum() + len(self.Q) * np.log(self.ridge))


def low_rank(
    system: System, rank: int, seed: int, tell: Callable[[int, int], None] | None = None
) -> LowRank:  # fmt: skip
    """P of so many rows at most; fewer where nothing is left of the diagonal."""
    rng = np.random.default_rng(seed)
    left, n = system.diagonal.copy(), system.count
    L, k = np.empty((n, rank), order="F"), 0
    while k < rank and left.sum() > n * EPS * system.trace:
        rows = np.unique(rng.choice(n, size=min(AT_ONCE, rank - k), p=left / left.sum()))
        columns = np.asarray(system.columns(system.X[rows])[system.name]) - L[:, :k] @ L[rows, :k].T
        inner, order, found, _ = dpstrf(columns[rows], lower=1, tol=-1.0)
        if found == 0:
            break
        kept = order[:found] - 1
        root = np.tril(inner[:found, :found])
        L[:, k : k + found] = solve_triangular(root, columns[:, kept].T, lower=True).T
        left = np.maximum(left - (L[:, k : k + found] ** 2).sum(axis=1), 0.0)
        left[rows] = 0.0
        k += found
        if tell is not None:
            tell(k, rank)
    L = L[:, :k]
    s, turn = eigh(L.T @ L)
    kept = s > (k + 1) * EPS * max(s[-1] if k else 0.0, 0.0)
    turn = turn[:, kept] / np.sqrt(s[kept])
    for a in range(0, n, STRIP):  # in place: there is no room for a second array
        L[a : a + STRIP, : turn.shape[1]] = L[a : a + STRIP] @ turn
    return LowRank(L[:, : turn.shape[1]], s[kept], system.ridge)
