"""Equations solved by Cholesky's factorization, in the one array that held the kernel."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsymm, dtrsm
from scipy.linalg.lapack import dlange, dpocon, dpotrf, dpotrs
from threadpoolctl import ThreadpoolController

from meanfield.base.errors import MeanFieldError
from meanfield.prediction.solvers.conjugate import Answer, norms
from meanfield.prediction.solvers.system import System

BLOCK = 512  # columns that are factorized at a time
NEVER_BELOW = 3.0  # by how much LAPACK's estimate of the norm of an inverse may be too small


def factorized(matrix: np.ndarray) -> bool:
    """L of a symmetric matrix into its lower triangle, the other as it was; False where it is not positive definite.

    Column by column of blocks, each a product with those before it: OpenBLAS 0.3.30 and 0.3.31 crash in `dpotrf` of
    16,000 rows and more where they have several threads.
    """
    n, few = len(matrix), ThreadpoolController()
    for a in range(0, n, BLOCK):
        b = min(a + BLOCK, n)
        part = matrix[a:, a:b] - matrix[a:, :a] @ matrix[a:b, :a].T
        with few.limit(limits=1, user_api="blas"):  # threads that share a small block mostly wait
            root, failed = dpotrf(part[: b - a].T, lower=0, clean=1)  # of what is symmetric: C's rows as columns
        if failed:
            return False
        rest = dtrsm(1.0, root, part[b - a :].T, lower=0, trans_a=1)
        own = np.tril_indices(b - a)
        matrix[a:b, a:b][own] = root.T[own]
        matrix[b:, a:b] = rest.T
    return True


class Cholesky:
    """Θ + ρ = L Lᵀ. L fills one triangle of the array; the other still holds Θ, and the diagonal is kept: so residuals
    need no second array.

    least: a lower bound of the smallest eigenvalue of Θ + ρ. Raises: MeanFieldError where the matrix is not positive
    definite to rounding.
    """

    name = "cholesky"

    def __init__(self, system: System) -> None:
        n, self.terms = system.count, system.count + 1
        system.refuse_lost_ridge(self.terms, self.name)
        matrix = system.whole()
        self._at, self._doubt = np.arange(n), system.doubt(self.terms)
        self._diagonal = matrix[self._at, self._at] + system.ridge
        matrix[self._at, self._at] = self._diagonal
        size = 0.0 if system.ridge else float(dlange("1", matrix.T))
        failed = not factorized(matrix)
        self._factor = matrix.T  # Lᵀ in the upper triangle, as LAPACK reads it
        lost = system.doubt(self.terms) if np.isfinite(system.error) else 0.0
        self.least = system.ridge
        if not failed and not system.ridge:
            self.least = float(dpocon(self._factor, size, uplo="U")[0]) * size / NEVER_BELOW
        if failed or (not system.ridge and self.least <= lost):
            raise MeanFieldError(
                f"{system.name} of the {n} training inputs is not positive definite to rounding ({lost:.1e})"
                f"{system.equal_inputs()}. Give a larger ridge=, or take solver='eigh', which finds what is never "
                "trained."
            )

    def times(self, v: np.ndarray) -> np.ndarray:
        """(Θ + ρ) v, by the triangle that is not L."""
        own = self._factor[self._at, self._at].copy()
        self._factor[self._at, self._at] = self._diagonal
        found = dsymm(1.0, self._factor, np.asfortranarray(v), lower=1)
        self._factor[self._at, self._at] = own
        return found

    def solve(self, B: np.ndarray) -> Answer:
        """X of (Θ + ρ) X = B, corrected once by its residual."""
        x = dpotrs(self._factor, B, lower=0)[0]
        x += dpotrs(self._factor, B - self.times(x), lower=0)[0]
        left = B - self.times(x)
        return Answer(x, left, 0, norms(left) / np.maximum(norms(B), np.finfo(float).tiny), "")

    def log_determinant(self, probes: int) -> tuple[float, float]:
        """(log det(Θ + ρ), a bound of its error to first order)."""
        value = float(2 * np.log(self._factor[self._at, self._at]).sum())
        return value, self._doubt * len(self._at) / self.least
