"""The log determinant of a kernel with its ridge, and the marginal likelihood of targets, with errors."""

from __future__ import annotations

import numpy as np

from meanfield.base.answers.results import Solution, Status
from meanfield.base.errors import MeanFieldError
from meanfield.prediction.solvers.spectrum import Spectrum

Value = tuple[float, float]  # a number and its error


def evidence(log_determinant: Value, fitted: Value, y: np.ndarray) -> tuple[Solution, Solution]:
    """(the log determinant, the log likelihood of all outputs); fitted: Σ y·(Θ + ρ)⁻¹y over outputs."""
    n, outputs = y.shape
    value = -(fitted[0] + outputs * log_determinant[0] + n * outputs * np.log(2 * np.pi)) / 2
    error = (fitted[1] + outputs * log_determinant[1]) / 2
    return Solution(log_determinant[0], Status.MEASURED, log_determinant[1]), Solution(
        float(value), Status.MEASURED, error
    )


def evidence_of(own: Spectrum, y: np.ndarray, bounded: bool = True) -> tuple[Solution, Solution]:
    """By eigenvalues, of which each may be off by `doubt`; bounded: whether that bounds what is wrong with the kernel.

    Raises: MeanFieldError where the smallest is 0 within it."""
    size = own.values + own.ridge
    if size[0] <= own.doubt:
        raise MeanFieldError(
            f"{own.name} of the {own.count} training inputs has no finite log determinant: its smallest eigenvalue is "
            f"0 within {own.doubt:.1e}; give a larger ridge=."
        )
    share = (own.vectors.T @ y) ** 2 / size[:, None]
    doubt = own.doubt if bounded else np.inf
    log_determinant = float(np.log(size).sum()), float((doubt / size).sum())
    fitted = float(share.sum())
    return evidence(log_determinant, (fitted, float(doubt / size[0]) * fitted if fitted else 0.0), y)
