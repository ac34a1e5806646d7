"""What networks are given: one input, two, a batch, or an array; drawn per network, or the same for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.network.operations.checks import integer, positive, real
from meanfield.empirical.observables.norms import draw_batch, draw_inputs


@dataclass(frozen=True, eq=False)
class Inputs:
    """One input of |x|²/N_0 = norm, two with `correlation`, `batch` of independent normal ones of variance norm, or
    `given`, an array (positions, N_0), the same for all networks."""

    norm: float = 1.0
    correlation: float | None = None
    given: np.ndarray | None = None
    batch: int | None = None

    @classmethod
    def of(cls, norm: Any, correlation: Any, given: np.ndarray | None, batch: Any, ensemble: Ensemble) -> Inputs:
        """As a caller gives them; raises `MeanFieldError`. `given` has been read by `given_inputs`."""
        if sum(one is not None for one in (correlation, batch, given)) > 1:
            raise MeanFieldError("Give one of correlation=, batch= and inputs=.")
        norm = positive(norm, "The input norm |x|²/N_0")
        if correlation is not None:
            correlation = _checked_correlation(correlation, ensemble)
        if batch is not None:
            batch = integer(batch, "The number of inputs (batch)", 1, 1 << 24)
        return cls(norm, correlation, given, batch)

    def positions(self, tokens: int) -> int:
        if self.given is not None:
            return len(self.given)
        return (self.batch or (1 if self.correlation is None else 2)) * tokens

    def draw(self, ensemble: Ensemble, seed: int, index: int) -> np.ndarray:
        """(positions, N_0) of network `index`."""
        if self.given is not None:
            return self.given
        if self.batch is not None or ensemble.tokens > 1:
            return draw_batch(self.positions(ensemble.tokens), ensemble.fan_in, seed, index, self.norm)
        return draw_inputs(ensemble.fan_in, seed, index, self.norm, self.correlation)


def _checked_correlation(correlation: Any, ensemble: Ensemble) -> float:
    correlation = real(correlation, "The correlation")
    if abs(correlation) > 1:
        raise MeanFieldError(f"The correlation of two inputs must lie in [−1, 1], but {correlation} was given.")
    if abs(correlation) < 1 and ensemble.fan_in == 1:
        raise MeanFieldError(f"Inputs with correlation {correlation} need N_0 ≥ 2, but N_0 = 1 was given.")
    if ensemble.tokens > 1:
        raise MeanFieldError("Two inputs with a correlation have no tokens; give inputs= or batch=.")
    return correlation
