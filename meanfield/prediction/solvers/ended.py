"""What a `Prediction` asks of a regression that has been solved, at the end of training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meanfield.base.answers.results import Solution
from meanfield.prediction.solvers.likelihood import evidence
from meanfield.prediction.solvers.regression import Regression


@dataclass(frozen=True, eq=False)
class Ended:
    """A regression and the further inputs that are predicted."""

    found: Regression
    further: np.ndarray

    def _rows(self, train: bool, further: bool) -> np.ndarray:
        X = self.found.system.X
        return np.concatenate((X[: len(X) if train else 0], self.further[: len(self.further) if further else 0]))

    def mean(self) -> np.ndarray:
        """(input, output), training inputs first."""
        own = self.found.trained
        return np.concatenate((own, self.found.mean(self.further))) if len(self.further) else own

    def error(self, times: np.ndarray) -> np.ndarray:
        """A bound of what is wrong with the mean, the same at all times."""
        wrong = self.found.wrong(None)
        if len(self.further):
            wrong = np.concatenate((wrong, self.found.wrong(self.further)))
        return np.repeat(wrong[None], len(times), axis=0)

    def covariance(self, t: float, train: bool, further: bool) -> np.ndarray:
        """Of the training inputs, the further ones, or both."""
        return self.found.covariance(self._rows(train, further))

    def variance(self, train: bool, further: bool) -> np.ndarray:
        """The diagonal of the covariance."""
        return self.found.variance(self._rows(train, further))

    def likelihood(self, probes: int) -> tuple[Solution, Solution]:
        """(log determinant, log likelihood)."""
        return evidence(self.found.log_determinant(probes), self.found.fitted, self.found.y)
