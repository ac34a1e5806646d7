"""What a network is trained to say: numbers for each input, or its class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.base.arguments import refuse_not_real, shown
from meanfield.base.errors import MeanFieldError


def values(y: Any, inputs: int) -> np.ndarray:
    """Targets as doubles, (inputs, outputs); one axis is one output.

    Raises: MeanFieldError for what is no array of finite real numbers with a row for each input.
    """
    array = _array(y, inputs)
    if array.dtype.kind == "b" and array.ndim == 2:  # one-hot rows
        array = array.astype(float)
    if array.dtype.kind not in "iuf":
        raise MeanFieldError(
            "y must be numbers for loss='mse', but it holds "
            f"{shown(array.ravel().tolist()[0])}; of labels, give codes (one-hot, or -1 and 1), or "
            "loss='cross_entropy'."
        )
    found = array.astype(float)
    if not np.isfinite(found).all():
        place = tuple(map(int, np.argwhere(~np.isfinite(found))[0]))
        raise MeanFieldError(f"y must be finite, but y[{', '.join(map(str, place))}] is {found[place]}.")
    if np.abs(found).max() > 1e150:
        raise MeanFieldError("y has entries beyond 1e150, whose squares are no doubles; rescale it.")
    return found.reshape(inputs, -1)


ROUNDED = 1e-5  # by which probabilities in single precision may miss 1


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes of some inputs: the names, and a row of probabilities for each input."""

    names: tuple[Any, ...]
    codes: np.ndarray


def classes(y: Any, inputs: int) -> Classes:
    """Labels (one axis: whole numbers, texts or truth values), or rows of probabilities (two axes), as classes.

    Raises: MeanFieldError for labels that are no classes, for fewer than two of them, and for rows that are no
    probabilities.
    """
    array = _array(y, inputs)
    if array.ndim == 2 and array.shape[1] > 1:
        rows = values(array, inputs)
        if (rows < 0).any() or np.abs(rows.sum(axis=1) - 1).max() > ROUNDED:
            worst = int(np.argmax(np.abs(rows.sum(axis=1) - 1)))
            raise MeanFieldError(
                "y with two axes must be probabilities of the classes, ≥ 0 with sum 1 in each row, but row "
                f"{worst} is {shown(rows[worst].tolist())}."
            )
        return Classes(tuple(range(rows.shape[1])), rows / rows.sum(axis=1, keepdims=True))
    labels = array.reshape(inputs)
    if labels.dtype.kind == "f" and not (np.isfinite(labels) & (labels == np.floor(labels))).all():
        strange = labels[~(np.isfinite(labels) & (labels == np.floor(labels)))].tolist()[0]
        raise MeanFieldError(
            f"y must be labels of classes for loss='cross_entropy', but {strange!r} is no label; give whole numbers, "
            "texts, or a row of probabilities for each input."
        )
    names, places = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise MeanFieldError(f"y has one class alone, {shown(names.tolist()[0])}; a classifier needs at least two.")
    return Classes(tuple(names.tolist()), np.eye(len(names))[places])


def _array(y: Any, inputs: int) -> np.ndarray:
    if hasattr(y, "to_numpy"):  # a data frame, or one of its columns
        y = y.to_numpy()
    if y is None or isinstance(y, (str, bytes, dict, set)):
        raise MeanFieldError(f"y must be an array with an entry for each input, but {shown(y)} was given.")
    try:
        array = np.asarray(y)
    except (ValueError, TypeError, OverflowError):  # rows of several lengths
        array = np.empty(0)
    if array.ndim not in (1, 2) or len(array) != inputs or array.size == 0:
        raise MeanFieldError(
            f"y must have an entry or a row for each of the {inputs} training inputs, but its shape is {array.shape}."
        )
    if array.dtype.kind == "O":
        array = of_objects(array)
    elif array.dtype.kind not in "iufbUS":
        refuse_not_real(array, "y")
    return array


def of_objects(array: np.ndarray) -> np.ndarray:
    """An array of Python's objects as one of texts, truth values or doubles."""
    entries = array.ravel().tolist()
    for kind in (str, bool):
        if all(isinstance(one, kind) for one in entries):
            return array.astype(kind)
    try:
        if any(isinstance(one, (str, bool)) for one in entries):
            raise ValueError
        return array.astype(float)
    except (ValueError, TypeError, OverflowError):
        kinds = sorted({type(one).__name__ for one in entries})
        raise MeanFieldError(
            f"y must be numbers, or labels of one kind, none of them missing, but it holds {', '.join(kinds)}; "
            f"the first entries are {shown(entries[:4])}."
        ) from None
