"""What a `Prediction` asks of a regression that has been solved, at the end of training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meanfield.base.answers.results import Solution
from meanfield.prediction.solvers.likelihood import evidence
from meanfield.prediction.solvers.regression import Regression


@dataclass(frozen=True, eq=False)
class FittedRegression:
    """A regression and the test inputs that are predicted."""

    regression: Regression
    test: np.ndarray

    def _rows(self, train: bool, test: bool) -> np.ndarray:
        X = self.regression.system.X
        return np.concatenate((X[: len(X) if train else 0], self.test[: len(self.test) if test else 0]))

    def mean(self) -> np.ndarray:
        """(input, output), training inputs first."""
        own = self.regression.trained
        return np.concatenate((own, self.regression.mean(self.test))) if len(self.test) else own

    def error(self, times: np.ndarray) -> np.ndarray:
        """A bound of what is wrong with the mean, the same at all times."""
        wrong = self.regression.wrong(None)
        if len(self.test):
            wrong = np.concatenate((wrong, self.regression.wrong(self.test)))
        return np.repeat(wrong[None], len(times), axis=0)

    def covariance(self, t: float, train: bool, test: bool) -> np.ndarray:
        """Of the training inputs, the further ones, or both."""
        return self.regression.covariance(self._rows(train, test))

    def variance(self, train: bool, test: bool) -> np.ndarray:
        """The diagonal of the covariance."""
        return self.regression.variance(self._rows(train, test))

    def likelihood(self, probes: int) -> tuple[Solution, Solution]:
        """(log determinant, log likelihood)."""
        return evidence(self.regression.log_determinant(probes), self.regression.fitted, self.regression.y)
