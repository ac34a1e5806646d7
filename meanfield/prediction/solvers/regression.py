r"""Regression at the end of training with a ridge, by solves alone: mean, covariance, error bound and likelihood.

With A = Θ_XX + ρ and α = A⁻¹y the mean of test inputs is Θ_SX α, that of the training inputs y - ρα. With
W = A⁻¹Θ_XS the covariance is K_SS - WᵀK_XS - K_SX W + WᵀK_XX W, which for Θ = K and noise ρ is K_SS - K_SX W.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from meanfield.base.budgets import memory_limit, require_memory
from meanfield.base.errors import MeanFieldError
from meanfield.base.progress import Progress, watched
from meanfield.base.storage.checkpoints import Checkpoint
from meanfield.prediction.solvers.cholesky import Cholesky
from meanfield.prediction.solvers.conjugate import Answer, conjugate_gradients, norms
from meanfield.prediction.solvers.log_determinant import log_determinant
from meanfield.prediction.solvers.low_rank import LowRank, low_rank
from meanfield.prediction.solvers.solver_choice import SolverSettings
from meanfield.prediction.solvers.system import EPS, System, product


class Regression(ABC):
    """What is known of a regression that has been solved.

    support: the inputs that outputs are sums over, with the weights; iterations, residual: of the solve, the residual
    over the targets (None where nothing is left by construction); message: what is to be said.
    """

    name: str
    support: np.ndarray
    weights: np.ndarray
    iterations: int = 0
    residual: float | None = None
    message: str = ""

    def __init__(self, system: System, y: np.ndarray, settings: SolverSettings) -> None:
        self.system, self.y, self.settings = system, y, settings

    def mean(self, rows: np.ndarray) -> np.ndarray:
        """Of test inputs, (M, outputs)."""
        return self.system.applied(rows, self.support, self.weights, beside=True)

    @property
    @abstractmethod
    def trained(self) -> np.ndarray:
        """The mean of the training inputs."""

    @abstractmethod
    def wrong(self, rows: np.ndarray | None) -> np.ndarray:
        """A bound of what is wrong with the mean of some inputs, None: of the training inputs, (M, outputs)."""

    @abstractmethod
    def covariance(self, rows: np.ndarray) -> np.ndarray:
        """Over networks, of any inputs."""

    @abstractmethod
    def log_determinant(self, probes: int) -> tuple[float, float]:
        """(log det(Θ + ρ), its standard error)."""

    @property
    @abstractmethod
    def fitted(self) -> tuple[float, float]:
        """(Σ y·(Θ + ρ)⁻¹y over outputs, a bound of its error)."""

    def at_once(self, count: int) -> int:
        """Of how many of some inputs a covariance has room in memory."""
        return max(1, min(count, int(memory_limit() / (64 * 8 * max(self.system.count, 1)))))

    def variance(self, rows: np.ndarray) -> np.ndarray:
        """The diagonal of the covariance, of as many inputs at a time as there is memory for."""
        at_once = self.at_once(len(rows))
        parts = [np.diag(self.covariance(rows[a : a + at_once])) for a in range(0, len(rows), at_once)]
        return np.maximum(np.concatenate(parts), 0.0) if parts else np.zeros(0)


class Conjugate:
    """Θ + ρ by conjugate gradients, preconditioned by rows of Θ."""

    name = "cg"

    def __init__(self, system: System, settings: SolverSettings, progress: Progress | None) -> None:
        self.system, self.settings, self._progress = system, settings, progress
        blocks = -(-system.count // 512)
        self.terms, self.least = 512 + blocks, system.ridge  # of sums in blocks, and of blocks
        system.refuse_lost_ridge(self.terms, self.name)
        with watched(progress, "rows of the preconditioner") as tell:
            self.near: LowRank = low_rank(system, settings.rows(system.count, self.name), settings.seed, tell)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_progress": None}

    def solve(self, B: np.ndarray, file: Checkpoint | None = None) -> Answer:
        """X of (Θ + ρ) X = B."""
        with watched(self._progress, "iterations") as tell:
            return conjugate_gradients(
                self.system.times, B, self.near.solve, rtol=self.settings.rtol, maxiter=self.settings.maxiter,
                file=file, tell=tell,
            )  # fmt: skip

    def log_determinant(self, probes: int) -> tuple[float, float]:
        """By stochastic Lanczos quadrature."""
        with watched(self._progress, "Lanczos steps") as tell:
            value, spread = log_determinant(self.system.times, self.near, probes, self.settings.seed, tell)
        return value, spread + self.system.doubt(self.terms) * self.system.count / self.least


class Solved(Regression):
    """A regression whose equations are solved to rounding, or to a residual that is stated."""

    def __init__(self, system: System, y: np.ndarray, settings: SolverSettings, by: Cholesky | Conjugate) -> None:
        super().__init__(system, y, settings)
        self.name, self.support, self.by = by.name, system.X, by
        if isinstance(by, Conjugate):
            self.answer = by.solve(y, kept(settings, system, y, by.name))
        else:
            self.answer = by.solve(y)
        self.weights, self.iterations = self.answer.x, self.answer.iterations
        self.residual, self.message = float(self.answer.residual.max()), self.answer.message

    @property
    def trained(self) -> np.ndarray:
        return self.y - self.answer.left - self.system.ridge * self.weights

    def wrong(self, rows: np.ndarray | None) -> np.ndarray:
        """By the residual r and an error δ of Θ: with ‖A^(-1/2) Θ_Xs‖² ≤ Θ_ss and A ≥ ρ, that of test inputs is at
        most √(Θ_ss/ρ)(‖r‖ + ‖δ‖‖α‖) and the error of Θ_sX itself times ‖α‖; that of training inputs ‖r‖ + 2‖δ‖‖α‖. Of
        test inputs their mean is asked for first, which says how well Θ_sX is known."""
        own, system = norms(self.weights), self.system
        doubt = system.doubt(self.by.terms)
        left = norms(self.answer.left) + product(doubt, own)
        if rows is None:
            return np.broadcast_to(left + product(doubt, own), self.y.shape)
        sizes = system.sizes(rows)[:, None]
        beside = product((system.error_beside + EPS * self.by.terms) * np.sqrt(system.trace), own)
        total = left / np.sqrt(self.by.least) + beside
        return np.where(total > 0, np.where(sizes > 0, sizes, 0.0) * total, 0.0)

    def covariance(self, rows: np.ndarray) -> np.ndarray:
        system, count = self.system, len(rows)
        require_memory(
            8.0 * (10 * system.count * count + 3 * count**2), f"The covariance of {count} inputs",
            "take .variance, or fewer inputs",
        )  # fmt: skip
        last = system.name == "K"
        found = system.columns(rows, ("K",) if last else ("K", "Theta"), beside=True)
        answer = self.by.solve(np.asarray(found[system.name]))
        if answer.message:
            raise MeanFieldError(f"A covariance is not known to rtol = {self.settings.rtol:.1e}: {answer.message}.")
        own, W, K = system.among(rows, "K", beside=True), answer.x, np.asarray(found["K"])
        beside = K.T @ W
        if last:  # what is left of the solves counts by its square: K_SX A⁻¹K_XS = K_SX W + WᵀR + RᵀA⁻¹R
            beside = beside + W.T @ answer.left
        own = own - beside if last else own - beside - beside.T + W.T @ system.covariance.matmat(W)
        return (own + own.T) / 2

    def log_determinant(self, probes: int) -> tuple[float, float]:
        return self.by.log_determinant(probes)

    @property
    def fitted(self) -> tuple[float, float]:
        """What is left of y changes it by y·A⁻¹r."""
        value = float((self.y * self.weights).sum())
        left = norms(self.answer.left) + product(self.system.doubt(self.by.terms), norms(self.weights))
        return value, float((left[left > 0] * norms(self.y)[left > 0]).sum() / self.by.least)


def kept(settings: SolverSettings, system: System, y: np.ndarray, name: str) -> Checkpoint | None:
    """The checkpoint of a solve, which holds all that decides its numbers in its key."""
    if settings.checkpoint is None:
        return None
    import hashlib

    targets = hashlib.sha256(np.ascontiguousarray(y).tobytes()).hexdigest()
    about = (system.matrix.key, system.ridge, targets, name, settings.rows(system.count, name), settings.seed)
    return Checkpoint(Path(settings.checkpoint), repr(about))


Solver = Callable[[System, np.ndarray, SolverSettings, "Progress | None"], Regression]


def by_cholesky(system: System, y: np.ndarray, settings: SolverSettings, progress: Progress | None) -> Regression:
    """The regression by one factorization."""
    return Solved(system, y, settings, Cholesky(system))


def by_conjugate_gradients(
    system: System, y: np.ndarray, settings: SolverSettings, progress: Progress | None
) -> Regression:
    """The regression by products with rows of the kernel."""
    return Solved(system, y, settings, Conjugate(system, settings, progress))
