"""The equations (Θ + ρ) α = y of a regression: products, columns and the diagonal of their matrix, never stored."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from meanfield.base.errors import MeanFieldError
from meanfield.kernels.kernel_matrices import KernelOperator, Kernels

EPS = float(np.finfo(float).eps)


class System:
    """Θ + ρ of the training inputs X, as everything that solves asks for it.

    kernel, operator: `Theory.kernel` and `Theory.kernel_operator` of one theory; name: "Theta" or "K", the kernel that
    trains; ridge: ρ; settings: further keywords of both (σ's, depth, rates, threads, executor).
    """

    def __init__(
        self, kernel: Callable[..., Kernels], operator: Callable[..., KernelOperator], X: np.ndarray, name: str,
        ridge: float, settings: dict[str, Any],
    ) -> None:  # fmt: skip
        self._kernel, self._operator, self.X, self.name, self.ridge = kernel, operator, X, name, ridge
        self._settings = settings
        self._met = self._met_beside = 0.0  # what kernels that were computed said of their entries

    def __getstate__(self) -> dict[str, Any]:
        """Without the executor, which belongs to one process, and the maps that hold it."""
        own = {k: v for k, v in self.__dict__.items() if k not in ("matrix", "covariance")}
        return own | {"_settings": {**self._settings, "executor": None}}

    def _of(self, *names: str) -> dict[str, Any]:
        """The settings with which these kernels are asked for: learning rates change Theta alone, and are refused where
        K is asked for by itself."""
        if self.name == "K" or "Theta" in names:
            return self._settings
        return {k: v for k, v in self._settings.items() if not k.startswith("lambda_")}

    @property
    def count(self) -> int:
        """N, the number of training inputs."""
        return len(self.X)

    @cached_property
    def matrix(self) -> KernelOperator:
        """Θ of the training inputs as a linear map."""
        return self._operator(self.X, quantity=self.name, **self._settings)

    @cached_property
    def covariance(self) -> KernelOperator:
        """K of the training inputs as a linear map."""
        return self.matrix if self.name == "K" else self._operator(self.X, quantity="K", **self._of("K"))

    @cached_property
    def diagonal(self) -> np.ndarray:
        """Θ_aa."""
        return self.matrix.diagonal()

    @cached_property
    def trace(self) -> float:
        """Σ Θ_aa, which no eigenvalue exceeds."""
        return float(self.diagonal.sum())

    def times(self, v: np.ndarray) -> np.ndarray:
        """(Θ + ρ) v, by one pass over the rows of Θ for all columns of v."""
        return self.matrix.matmat(v) + self.ridge * v

    @property
    def error(self) -> float:
        """A bound of the entries of Θ of the training inputs, over √(Θ_aa Θ_bb), as far as they were computed."""
        return max(self.matrix.error, self._met)

    @property
    def error_beside(self) -> float:
        """The same of test inputs with the training inputs."""
        return max(self.matrix.error, self._met_beside)

    def _heard(self, found: Kernels | KernelOperator, beside: bool = False) -> None:
        """Keep what a kernel says of its entries, which is known once they are computed."""
        error = found.error if isinstance(found, KernelOperator) else found.error.get(self.name, 0.0)
        if beside:
            self._met_beside = max(self._met_beside, error)
        else:
            self._met = max(self._met, error)

    def whole(self) -> np.ndarray:
        """Θ as an array, which belongs to the caller."""
        found = self._kernel(self.X, quantities=(self.name,), **self._settings)
        self._heard(found)
        return np.asarray(found[self.name])

    def columns(
        self, rows: np.ndarray, names: tuple[str, ...] = (), X: np.ndarray | None = None, beside: bool = False
    ) -> Kernels:
        """Θ (or what is named) of all X (or of those given) with some rows; beside: whether either are test inputs."""
        names = names or (self.name,)
        left = self.X if X is None else X
        found = self._kernel(left, rows, quantities=names, **self._of(*names), progress=_silent)
        self._heard(found, beside)
        return found

    def among(self, rows: np.ndarray, name: str, beside: bool = False) -> np.ndarray:
        """Θ or K of some rows with themselves."""
        found = self._kernel(rows, quantities=(name,), **self._of(name), progress=_silent)
        self._heard(found, beside)
        return np.asarray(found[name])

    def sizes(self, rows: np.ndarray) -> np.ndarray:
        """√Θ_aa of some rows."""
        return np.sqrt(self._operator(rows, quantity=self.name, **self._settings).diagonal())

    def applied(self, rows: np.ndarray, support: np.ndarray, weights: np.ndarray, beside: bool = False) -> np.ndarray:
        """Θ of rows with the support, times weights."""
        operator = self._operator(rows, support, quantity=self.name, **self._settings)
        found = operator.matmat(weights)
        self._heard(operator, beside)
        return found

    def doubt(self, terms: int) -> float:
        """A bound of the spectral norm of what is wrong with Θ: by the error of its entries, and by rounding in sums of
        so many terms, of which |Θ| ≤ √(Θ_aa Θ_bb) has at most the trace as its norm. Infinite where nothing bounds the
        entries."""
        return self.trace * (self.error + terms * EPS)

    def refuse_lost_ridge(self, terms: int, solver: str) -> None:
        """Refuse a ridge that is less than what rounding leaves of Θ."""
        lost = self.trace * terms * EPS
        if 0 < self.ridge <= lost:
            raise MeanFieldError(
                f"ridge = {self.ridge:.3g} is lost in {self.name} of {self.count} inputs, of which solver={solver!r} "
                f"knows the eigenvalues to {lost:.1e}; give a larger ridge, or take solver='eigh', which finds what is "
                "never trained."
            )

    def equal_inputs(self) -> str:
        """The first two training inputs that are the same, as the end of a sentence; "" where there are none."""
        _, place = np.unique(self.X, axis=0, return_inverse=True)
        order = np.argsort(place, kind="stable")
        same = np.flatnonzero(place[order][1:] == place[order][:-1])
        if not same.size:
            return ""
        a, b = sorted((int(order[same[0]]), int(order[same[0] + 1])))
        return f"; inputs {a} and {b} are the same"


def product(bound: float, sizes: np.ndarray) -> np.ndarray:
    """A bound of what is wrong with a matrix times numbers that are known: nothing is wrong with what is 0."""
    return np.multiply(bound, sizes, out=np.zeros_like(sizes), where=sizes > 0)


def _silent(done: int, total: int) -> None:
    """The progress of what is a small part of something else."""
