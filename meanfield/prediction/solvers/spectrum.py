r"""The eigenvalues of the kernel that trains, and how far each eigenvector has been trained at a time.

On L = (1/2N) Σ_a |f(x_a) - y_a|² the outputs of a linear model follow df/dt = -(1/N) Θ (f - y): along an eigenvector of
eigenvalue λ what is left of f - y is e^{-λt/N} under gradient flow, (1 - ηλ/N)^t after t steps of rate η.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import eigh

from meanfield.base.errors import MeanFieldError

EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Θ (or K) of the training inputs as V diag(λ) Vᵀ, λ rising, each not below 0.

    doubt: a bound of the spectral norm of what is wrong with the matrix, by the error of its entries and by rounding:
    an eigenvalue below it may be 0. ridge: added to every eigenvalue while training. name: of the kernel; rank: that of
    the exact matrix, at most.
    """

    values: np.ndarray
    vectors: np.ndarray
    doubt: float
    ridge: float
    name: str
    rank: int

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

        Raises: MeanFieldError at times that eigenvalues matter at which are 0 to rounding and not for certain, so that
        what is trained is not known, and for rates at which steps grow.
        """
        size = self.values + self.ridge
        lost = 0 if self.ridge > self.doubt else self.vanishing
        if np.isinf(t) and rate is not None and rate >= self.largest_rate:
            raise MeanFieldError(
                f"Gradient descent of rate {rate:g} does not come to rest: only rates below {self.largest_rate:.4g} = "
                f"2N/lambda_max do; give a lower rate=, or a finite t."
            )
        passed = t if rate is None else t * rate
        if lost and not self.is_singular and passed * self.doubt > self.count:
            following = self.values[min(lost, self.count - 1)]
            raise MeanFieldError(
                f"{self.name} of the {self.count} training inputs is not positive definite to rounding: {lost} of its "
                f"eigenvalues are 0 within {self.doubt:.1e}, the next one is {following:.1e} and the largest "
                f"{self.values[-1]:.3g}, so that what is learned by t = {t:g} is not determined by doubles. Give a "
                f"smaller t, or a ridge= above {self.doubt:.0e}."
            )
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if np.isinf(t):
                left, learned, start = np.zeros_like(size), np.ones_like(size), np.inf
            elif rate is None:
                left, learned = np.exp(-size * (t / self.count)), -np.expm1(-size * (t / self.count))
                start = t / self.count
            else:
                part = size * (rate / self.count)
                small = t * np.log1p(-np.minimum(part, 0.5))
                left = np.where(part < 0.5, np.exp(small), (1 - part) ** t)
                learned = np.where(part < 0.5, -np.expm1(small), 1 - left)
                start = t * rate / self.count
            g = np.where(size > 0, learned / size, start)
        if lost and self.is_singular:  # never trained
            g[:lost], left[:lost] = 0.0, 1.0
        if not (np.isfinite(left).all() and np.abs(left).max() < 1e100):
            raise MeanFieldError(
                f"Gradient descent of rate {rate:g} grows beyond doubles within {t:g} steps; rates below "
                f"{self.largest_rate:.4g} are stable."
            )
        return g, left

    def most(self, t: float, rate: float | None) -> np.ndarray:
        """∫ |what is left at s| ds along each eigenvector up to t, over N; g where nothing alternates."""
        g, _ = self.trained(t, rate)
        if rate is None:
            return g
        part = (self.values + self.ridge) * (rate / self.count)
        size = np.abs(1 - part)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            added = rate / self.count * np.where(size == 1, t, (1 - size**t) / (1 - size))
        return np.where(part > 1, added, g)

    @property
    def is_singular(self) -> bool:
        """Whether the eigenvalues that are 0 to rounding are 0: whether they are as many as those that are 0 for
        certain."""
        return 0 < self.vanishing == self.count - self.rank

    @property
    def said(self) -> str:
        """What is to be said of a kernel that is not positive definite; "" otherwise."""
        lost = self.vanishing
        if lost in (0, self.count) or not self.is_singular:
            return ""
        return (
            f"{self.name} of the {self.count} training inputs has rank {self.count - lost} (equal inputs, or a kernel "
            f"of few functions): {lost} of its eigenvalues are 0 within {self.doubt:.1e} and the next one is "
            f"{self.values[lost]:.3g}. What lies along them is never trained"
        )


def spectrum(matrix: np.ndarray, error: float, ridge: float, name: str, rank: Callable[[], int]) -> Spectrum:
    """The spectrum of a kernel of the training inputs, whose array is used up; error: of its entries over √(Θ_aa Θ_bb);
    rank: of the exact matrix, at most (`largest_rank`), asked for where an eigenvalue is 0 to rounding.

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
    found = Spectrum(np.maximum(values, 0.0), vectors, doubt, ridge, name, len(values))
    if not found.vanishing:
        return found
    return replace(found, rank=rank() if doubt > 0 else 0)  # a matrix of zeros, as where nothing is trained
