"""Equations solved by Cholesky's factorization, in the one array that held the kernel."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsymm
from scipy.linalg.lapack import dlange, dpocon, dpotrf, dpotrs

from meanfield.base.errors import MeanFieldError
from meanfield.prediction.conjugate import Answer, norms
from meanfield.prediction.system import System

NEVER_BELOW = 3.0  # by how much LAPACK's estimate of the norm of an inverse may be too small


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
        matrix = system.whole().T  # in LAPACK's order, without a copy
        self._at, self._doubt = np.arange(n), system.doubt(self.terms)
        self._diagonal = matrix[self._at, self._at] + system.ridge
        matrix[self._at, self._at] = self._diagonal
        size = dlange("1", matrix)
        self._factor, failed = dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
        lost = system.doubt(self.terms) if np.isfinite(system.matrix.error) else 0.0
        self.least = system.ridge
        if not failed and not system.ridge:
            self.least = float(dpocon(self._factor, size, uplo="L")[0]) * size / NEVER_BELOW
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
        found = dsymm(1.0, self._factor, np.asfortranarray(v), lower=0)
        self._factor[self._at, self._at] = own
        return found

    def solve(self, B: np.ndarray) -> Answer:
        """X of (Θ + ρ) X = B, corrected once by its residual."""
        x = dpotrs(self._factor, B, lower=1)[0]
        x += dpotrs(self._factor, B - self.times(x), lower=1)[0]
        left = B - self.times(x)
        return Answer(x, left, 0, norms(left) / np.maximum(norms(B), np.finfo(float).tiny), "")

    def log_determinant(self, probes: int) -> tuple[float, float]:
        """(log det(Θ + ρ), a bound of its error to first order)."""
        value = float(2 * np.log(self._factor[self._at, self._at]).sum())
        return value, self._doubt * len(self._at) / self.least
