r"""The eigenvalues of the kernel that trains, and how far each eigenvector has been trained at a time.

On L = (1/2N) Σ_a |f(x_a) - y_a|² the outputs of a linear model follow df/dt = -(1/N) Θ (f - y): along an eigenvector of
eigenvalue λ what is left of f - y is e^{-λt/N} under gradient flow, (1 - ηλ/N)^t after t steps of rate η.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import eigh

from meanfield.base.errors import MeanFieldError

GAP = 1e3  # between the eigenvalues of a kernel of low rank and those that are 0 to rounding
EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Θ (or K) of the training inputs as V diag(λ) Vᵀ, λ rising, each not below 0.

    doubt: a bound of the spectral norm of what is wrong with the matrix, by the error of its entries and by rounding:
    an eigenvalue below it may be 0. ridge: added to every eigenvalue while training. name: of the kernel.
    """

    values: np.ndarray
    vectors: np.ndarray
    doubt: float
    ridge: float
    name: str

    @property
    def count(self) -> int:
        """N, the number of training inputs."""
        return len(self.values)

    @property
    def largest_rate(self) -> float:
        """2N/(λ_max + ridge): above it gradient descent grows along the first eigenvector."""
        top = float(self.values[-1]) + self.ridge
        return 2 * self.count / top if top > 0 else np.inf

    @property
    def times(self) -> np.ndarray:
        """N/(λ + ridge) of every eigenvector: the time in which what is left to learn along it falls by e."""
        with np.errstate(divide="ignore"):
            return self.count / (self.values + self.ridge)

    @cached_property
    def vanishing(self) -> int:
        """How many eigenvalues are 0 to rounding."""
        return int(np.searchsorted(self.values, self.doubt, side="right"))

    def trained(self, t: float, rate: float | None) -> tuple[np.ndarray, np.ndarray]:
        """(g, left) along each eigenvector: f_t = f_0 + λ g (y - f_0), and left = 1 - (λ + ridge) g.

        Raises: MeanFieldError at t = ∞ where eigenvalues pass through rounding without a gap, so that what is trained
        in the end is not known, and for rates at which steps grow.
        """
        size = self.values + self.ridge
        if np.isinf(t):
            return self._in_the_end(size, rate)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if rate is None:
                left = np.exp(-size * (t / self.count))
                g = np.where(size > 0, -np.expm1(-size * (t / self.count)) / size, t / self.count)
            else:
                part = size * (rate / self.count)
                left = (1 - part) ** t
                lost = np.where(part < 0.5, -np.expm1(t * np.log1p(-np.minimum(part, 0.5))), 1 - left)
                g = np.where(size > 0, lost / size, t * rate / self.count)
        if not np.isfinite(left).all():
            raise MeanFieldError(
                f"Gradient descent of rate {rate:g} grows beyond doubles within {t:g} steps; rates below "
                f"{self.largest_rate:.4g} are stable."
            )
        return g, left

    def _in_the_end(self, size: np.ndarray, rate: float | None) -> tuple[np.ndarray, np.ndarray]:
        if rate is not None and rate >= self.largest_rate:
            raise MeanFieldError(
                f"Gradient descent of rate {rate:g} does not come to rest: only rates below {self.largest_rate:.4g} = "
                f"2N/lambda_max do; give a lower rate=, or a finite t."
            )
        lost = 0 if self.ridge > self.doubt else self.vanishing
        if 0 < lost < self.count and self.values[lost] < GAP * self.doubt:
            raise MeanFieldError(
                f"{self.name} of the {self.count} training inputs is not positive definite to rounding: {lost} of its "
                f"eigenvalues are 0 within {self.doubt:.1e}, the next one is {self.values[lost]:.1e} and the largest "
                f"{self.values[-1]:.3g}, so that the limit t = inf is not determined by doubles. Give a finite t, or a "
                f"ridge= above {self.doubt:.0e}."
            )
        left = np.zeros_like(size)
        left[:lost] = 1.0
        with np.errstate(divide="ignore"):
            return np.where(left == 1, 0.0, 1 / size), left

    @property
    def said(self) -> str:
        """What is to be said of a kernel that is not positive definite; "" otherwise."""
        lost = self.vanishing
        if lost == 0 or lost == self.count or self.values[lost] < GAP * self.doubt:
            return ""
        return (
            f"{self.name} of the {self.count} training inputs has rank {self.count - lost} (equal inputs, or a kernel "
            f"of few functions): {lost} of its eigenvalues are 0 within {self.doubt:.1e} and the next one is "
            f"{self.values[lost]:.3g}. What lies along them is never trained"
        )


def spectrum(matrix: np.ndarray, error: float, ridge: float, name: str) -> Spectrum:
    """The spectrum of a kernel of the training inputs, whose array is used up; error: of its entries over √(Θ_aa Θ_bb).

    Raises: MeanFieldError where an eigenvalue is negative beyond rounding.
    """
    spread = float(np.trace(matrix)) * error if np.isfinite(error) else 0.0
    values, vectors = eigh(matrix, driver="evd", overwrite_a=True, check_finite=False)
    doubt = spread + len(matrix) * EPS * max(abs(float(values[-1])), abs(float(values[0])))
    if values[0] < -doubt:
        raise MeanFieldError(
            f"{name} of the training inputs has the eigenvalue {values[0]:.3g}, below 0 by more than rounding "
            f"({doubt:.1e}); no kernel of a network has one: please report it."
        )
    return Spectrum(np.maximum(values, 0.0), vectors, doubt, ridge, name)
