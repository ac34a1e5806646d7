"""The data, and regression on one-hot labels by a Gaussian process whose covariance is a network's K or Theta."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve

import meanfield as mf

SIGMA_B2 = 0.05
NOISE = 1e-3  # of the mean of K_aa


@dataclass(frozen=True, eq=False)
class Data:
    """Images as rows of 64 numbers in [0, 1], and their digits: those that are known, and those that are asked for."""

    X: np.ndarray
    labels: np.ndarray
    others: np.ndarray
    truth: np.ndarray

    @cached_property
    def targets(self) -> np.ndarray:
        """One-hot labels less their mean, a column for each digit."""
        return np.eye(10)[self.labels] - 0.1


@lru_cache(maxsize=4)
def data(known: int = 400, asked: int = 400, seed: int = 0) -> Data:
    """Images drawn without replacement."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    X, y = X[order] / 16, y[order]
    return Data(X[:known], y[:known], X[known : known + asked], y[known : known + asked])


@lru_cache(maxsize=4)
def theory(phi: str = "erf") -> mf.Theory:
    return mf.derive(phi)


@lru_cache(maxsize=256)
def length(square: float, bias: float = SIGMA_B2) -> float:
    """ξ_c, the layers in which what is left of a correlation falls by e, at σ_w² = square, σ_b² = bias."""
    found = theory().correlations(sigma_w=f"sqrt({square!r})", sigma_b=f"sqrt({bias!r})").stable
    return float(found.xi_c)


def place(square: float, bias: float, layers: int) -> dict:
    """`layers` nonlinearities and a readout."""
    return {"sigma_w": square**0.5, "sigma_b": bias**0.5, "depth": layers + 1}


@dataclass(frozen=True, eq=False)
class Process:
    """Regression with covariance s·(M + ν·1), M the kernel of `known` images; the scale s is where the marginal
    likelihood is largest, ν = noise·mean M_aa."""

    data: Data
    M: np.ndarray
    across: np.ndarray
    noise: float

    @cached_property
    def factor(self):
        return cho_factor(self.M + self.noise * np.mean(np.diag(self.M)) * np.eye(len(self.M)), lower=True)

    @cached_property
    def weights(self) -> np.ndarray:
        return cho_solve(self.factor, self.data.targets)

    @property
    def mean(self) -> np.ndarray:
        """Posterior means, a row for each image that is asked for."""
        return self.across @ self.weights

    @property
    def accuracy(self) -> float:
        """The share of images whose largest mean is that of their digit."""
        return float(np.mean(self.mean.argmax(axis=1) == self.data.truth))

    @property
    def scale(self) -> float:
        """s = yᵀ(M + ν)⁻¹y / n over all outputs."""
        return float(np.sum(self.data.targets * self.weights) / self.data.targets.size)

    @property
    def evidence(self) -> float:
        """The logarithm of the marginal likelihood, for each label and output."""
        n = len(self.M)
        logdet = 2 * np.log(np.diag(self.factor[0])).sum() / n
        return -0.5 * (1 + np.log(2 * np.pi * self.scale) + logdet)

    def samples(self, count: int, seed: int, joint: np.ndarray) -> np.ndarray:
        """Draws of the ten outputs at the images that are asked for, (count, images, 10); joint: their kernel."""
        inner = joint - self.across @ cho_solve(self.factor, self.across.T)
        root = cholesky(self.scale * inner + 1e-10 * np.mean(np.diag(joint)) * np.eye(len(inner)), lower=True)
        z = np.random.default_rng(seed).standard_normal((count, len(inner), 10))
        return self.mean + np.einsum("ab,cbk->cak", root, z)


def exact(one: Process) -> float:
    """The accuracy of the same means without any noise, by elimination: the matrix need not be positive in floats."""
    means = one.across @ solve(one.M, one.data.targets, check_finite=False)
    return float(np.mean(means.argmax(axis=1) == one.data.truth))


def process(
    square: float,
    bias: float,
    layers: int,
    *,
    given: Data | None = None,
    quantity: str = "K",
    noise: float = NOISE,
) -> Process:
    """The process of erf networks at σ_w² = square, σ_b² = bias."""
    given = given or data()
    at = place(square, bias, layers) | {"quantities": quantity}
    M = getattr(theory().kernel(given.X, **at), quantity)
    across = getattr(theory().kernel(given.others, given.X, **at), quantity)
    return Process(given, M, across, noise)
