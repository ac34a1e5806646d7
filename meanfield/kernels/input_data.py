"""Inputs as they are given: what is refused, and the doubles that are used."""

from __future__ import annotations

from typing import Any

import numpy as np

from meanfield.base.arguments import refuse_not_real, shown
from meanfield.base.errors import MeanFieldError


def inputs(value: Any, what: str, dimension: int | None = None) -> np.ndarray:
    """`value` as a C-contiguous array of finite doubles with a row for each input.

    Raises: MeanFieldError for what is no matrix of finite real numbers with at least one row and one column, and for a
    number of columns other than `dimension`.
    """
    if hasattr(value, "toarray"):
        raise MeanFieldError(f"{what} is a sparse matrix; give {what}.toarray().")
    if hasattr(value, "to_numpy"):  # a data frame
        value = value.to_numpy()
    if isinstance(value, (str, bytes)) or value is None:
        raise MeanFieldError(f"{what} must be an array with a row for each input, but {shown(value)} was given.")
    refuse_not_real(value, what)
    try:
        array = np.ascontiguousarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise MeanFieldError(
            f"{what} must be an array of numbers with a row for each input, but {shown(value)} was given."
        ) from None
    if array.ndim != 2 or np.ndim(value) != 2:
        raise MeanFieldError(
            f"{what} must have two axes, inputs and their entries, but its shape is {np.shape(value)}; one input of "
            "dimension N_0 is an array of shape (1, N_0)."
        )
    if 0 in array.shape:
        raise MeanFieldError(f"{what} has the shape {array.shape}: there is no input in it; give at least one.")
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise MeanFieldError(f"{what} must be finite, but {what}[{row}, {column}] is {array[row, column]}.")
    if np.abs(array).max() > 1e150:
        raise MeanFieldError(f"{what} has entries beyond 1e150, whose squares are no doubles; rescale it.")
    if dimension is not None and array.shape[1] != dimension:
        raise MeanFieldError(
            f"X has inputs of dimension {dimension} and {what} of dimension {array.shape[1]}; both must have the same."
        )
    return array
