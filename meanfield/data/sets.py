"""`Data`: inputs and what belongs to them, for training and for testing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from meanfield.base.answers.export import Result
from meanfield.base.arguments import choice, record, refuse_not_real, shown, validated, whole
from meanfield.base.errors import MeanFieldError, one_line
from meanfield.prediction.targets import of_objects

OVER = ("all", "input", "feature")


@record
@dataclass(frozen=True, eq=False, repr=False)
class Data(Result):
    """Inputs with their labels or targets.

    X: training inputs (N, N_0), or (N, tokens, N_0); y: a label for each, or targets (N,) or (N, outputs); X_test,
    y_test: the same of the test inputs, empty arrays where there are none; name: what it is called. Each method returns
    new Data and leaves these as they are.

    >>> from meanfield.data import from_arrays
    >>> data = from_arrays([[0.0], [1.0], [2.0]], ["a", "b", "a"])
    >>> data, data.classes
    (Data(arrays: 3 training and 0 test inputs of 1, 2 classes), ('a', 'b'))
    """

    X: Any
    y: Any
    X_test: Any = None
    y_test: Any = None
    name: str = "arrays"

    def __post_init__(self) -> None:
        given = [one if one is None or np.size(one) else None for one in (self.X_test, self.y_test)]
        if (given[0] is None) != (given[1] is None):
            raise MeanFieldError("X_test and y_test belong together: give both, or neither.")
        X, y = _inputs(self.X, "X"), _targets(self.y, "y")
        _fits(X, y, "X", "y")
        X_test, y_test = np.empty(0), np.empty(0)
        if given[0] is not None:
            X_test, y_test = _inputs(given[0], "X_test"), _targets(given[1], "y_test")
            _fits(X_test, y_test, "X_test", "y_test")
            if X_test.shape[1:] != X.shape[1:] or y_test.shape[1:] != y.shape[1:]:
                raise MeanFieldError(
                    f"X_test and y_test must be like X and y, but inputs of shape {X_test.shape[1:]} and targets of "
                    f"shape {y_test.shape[1:]} were given beside {X.shape[1:]} and {y.shape[1:]}."
                )
        for name, one in (("X", X), ("y", y), ("X_test", X_test), ("y_test", y_test)):
            object.__setattr__(self, name, one)

    @property
    def classes(self) -> tuple[Any, ...]:
        """The labels, sorted, where y has whole numbers or texts; () where it has targets: doubles, or rows."""
        if self.y.ndim > 1 or self.y.dtype.kind == "f":
            return ()
        return tuple(np.unique(np.concatenate((self.y, self.y_test)) if len(self.y_test) else self.y).tolist())

    @property
    def tokens(self) -> int:
        """How many tokens an input has."""
        return self.X.shape[1] if self.X.ndim == 3 else 1

    def __repr__(self) -> str:
        sizes = " × ".join(map(str, self.X.shape[1:]))
        of = sizes + (f", {len(self.classes)} classes" if self.classes else "")
        return one_line("Data", f"{self.name}: {len(self.X)} training and {len(self.X_test)} test inputs of {of}")

    def data(self) -> dict[str, Any]:
        """Name, sizes and classes."""
        sizes = {"training_inputs": len(self.X), "test_inputs": len(self.X_test), "shape": list(self.X.shape[1:])}
        return {"name": self.name, **sizes, "classes": list(self.classes)}

    @validated
    def normalized(self, over: str = "all") -> Data:
        """Mean 0 and variance 1 of the training inputs; the test inputs are shifted and scaled by the same numbers.

        over: "all" numbers together (as [orthogonal_weights] does it), every "feature" apart (one that is constant is
        set to 0), or every "input" by itself, so that |x|²/N_0 = 1 (of training and test inputs alike).
        Raises: MeanFieldError for inputs that are constant.

        >>> from meanfield.data import from_arrays
        >>> from_arrays([[1.0, 2], [3, 6]], [0, 1]).normalized("input").X.tolist()
        [[-1.0, 1.0], [-1.0, 1.0]]
        """
        choice(over, "over", OVER)
        size = np.ldexp(1.0, np.frexp(np.abs(self.X).max())[1])  # squares neither overflow nor underflow
        X, X_test = self.X / size, self.X_test / size if len(self.X_test) else self.X_test
        if over == "input":
            return replace(self, X=_each(X), X_test=_each(X_test))
        axis = tuple(range(X.ndim)) if over == "all" else tuple(range(X.ndim - 1))
        mean, spread = X.mean(axis=axis, keepdims=True), X.std(axis=axis, keepdims=True)
        varies = X.max(axis=axis, keepdims=True) > X.min(axis=axis, keepdims=True)  # a spread may be that of rounding
        if not varies.any():
            raise MeanFieldError("The training inputs are constant, and cannot be scaled to variance 1.")
        factor = np.where(varies, 1 / np.where(varies, spread, 1.0), 0.0)
        test = (X_test - mean) * factor if len(X_test) else X_test
        return replace(self, X=(X - mean) * factor, X_test=test)

    @validated
    def split(self, test: float = 0.2, seed: int = 0) -> Data:
        """Training and test inputs drawn anew from all of both, in an order that the seed decides.

        test: which part of them is for testing, 0 ≤ test < 1.

        >>> from meanfield.data import from_arrays
        >>> from_arrays(np.eye(10), range(10)).split(0.3)
        Data(arrays: 7 training and 3 test inputs of 10, 10 classes)
        """
        if isinstance(test, bool) or not isinstance(test, (int, float)) or not 0 <= test < 1:
            raise MeanFieldError(f"test must be a part of the inputs, 0 ≤ test < 1, but {shown(test)} was given.")
        X = np.concatenate((self.X, self.X_test)) if len(self.X_test) else self.X
        y = np.concatenate((self.y, self.y_test)) if len(self.y_test) else self.y
        order = shuffled(len(X), seed)
        count = round(test * len(X))
        if count == len(X):
            raise MeanFieldError(f"test = {test} of {len(X)} inputs leaves none for training; take less.")
        return replace(self, X=X[order[count:]], y=y[order[count:]], X_test=X[order[:count]], y_test=y[order[:count]])

    @validated
    def take(self, count: int, seed: int | None = None) -> Data:
        """The first `count` training inputs, or so many in the order of a seed; the test inputs stay."""
        count = whole(count, "count", 1, len(self.X))
        which = np.arange(count) if seed is None else shuffled(len(self.X), seed)[:count]
        return replace(self, X=self.X[which], y=self.y[which])

    def odd_even(self) -> Data:
        """The same inputs with two classes: 0 for even labels, 1 for odd ones. Raises: MeanFieldError for labels that
        are no whole numbers."""
        if self.y.dtype.kind not in "iu":
            raise MeanFieldError("Odd and even are asked of labels that are whole numbers; these are not.")
        return replace(self, y=np.mod(self.y, 2).astype(int), y_test=np.mod(self.y_test, 2).astype(int))

    @validated
    def patches(self, height: int = 2, width: int | None = None, *, image: tuple[int, int] | None = None) -> Data:
        """Images as tokens: patches of height × width pixels, row by row, each the numbers of a token.

        width: as height unless given; image: (rows, columns) of an image, a square unless given.

        >>> from meanfield.data import digits
        >>> digits().patches().X.shape  # 8 × 8 pixels: 16 tokens of 4 numbers
        (1438, 16, 4)
        """
        if self.X.ndim != 2:
            raise MeanFieldError(f"Patches are made of inputs (N, pixels), but these have the shape {self.X.shape}.")
        side = round(self.X.shape[1] ** 0.5)
        image = (side, side) if image is None else image
        if not isinstance(image, (tuple, list)) or len(image) != 2:
            raise MeanFieldError(f"image must be (rows, columns), but {shown(image)} was given.")
        rows, columns = (whole(one, "image", 1, 1 << 20) for one in image)
        height = whole(height, "height", 1, 1 << 20)
        width = height if width is None else whole(width, "width", 1, 1 << 20)
        if rows * columns != self.X.shape[1] or rows % height or columns % width:
            raise MeanFieldError(
                f"{self.X.shape[1]} pixels are no image of {rows} × {columns} in patches of {height} × {width}; give "
                "image=(rows, columns), and patches that fill it."
            )

        def cut(x: np.ndarray) -> np.ndarray:
            if not len(x):
                return x
            parts = x.reshape(len(x), rows // height, height, columns // width, width)
            return np.ascontiguousarray(parts.transpose(0, 1, 3, 2, 4).reshape(len(x), -1, height * width))

        return replace(self, X=cut(self.X), X_test=cut(self.X_test))


def _each(x: np.ndarray) -> np.ndarray:
    if not len(x):
        return x
    axes = tuple(range(1, x.ndim))
    spread, varies = x.std(axis=axes, keepdims=True), x.max(axis=axes) > x.min(axis=axes)
    if not varies.all():
        where = int(np.flatnonzero(~varies)[0])
        raise MeanFieldError(f"Input number {where} is constant, and cannot be scaled to variance 1; leave it out.")
    return (x - x.mean(axis=axes, keepdims=True)) / spread


def shuffled(count: int, seed: object) -> np.ndarray:
    """An order of so many inputs, the same on every machine."""
    state = np.random.SeedSequence(whole(seed, "seed", 0, 2**63)).generate_state(count, np.uint64)
    return np.argsort(state, kind="stable")


def _inputs(X: Any, what: str) -> np.ndarray:
    refuse_not_real(X, what)
    try:
        array = np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X, dtype=float)
    except (TypeError, ValueError, OverflowError):
        array = np.empty(0)
    if array.ndim not in (2, 3) or not array.size:
        raise MeanFieldError(
            f"{what} must be numbers of shape (inputs, N_0) or (inputs, tokens, N_0), but {shown(X)} was given."
        )
    if not np.isfinite(array).all():
        where = int(np.argwhere(~np.isfinite(array))[0][0])
        raise MeanFieldError(f"{what} must be finite numbers, but input number {where} holds one that is not.")
    return array


def _targets(y: Any, what: str) -> np.ndarray:
    try:
        array = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.dtype.kind == "O" and array.size:
        array = of_objects(array)
    if array.ndim not in (1, 2) or not array.size or array.dtype.kind not in ("iufbUS" if array.ndim == 1 else "iufb"):
        raise MeanFieldError(
            f"{what} must be labels, an entry for each input, or targets of shape (inputs,) or (inputs, outputs), but "
            f"{shown(y)} was given."
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise MeanFieldError(f"{what} must be finite, but an entry is not: labels and targets may not be missing.")
    return array.astype(int) if array.dtype.kind == "b" else array


def _fits(inputs: np.ndarray, targets: np.ndarray, X: str, y: str) -> None:
    if len(inputs) != len(targets):
        raise MeanFieldError(f"{y} must have an entry for each of {len(inputs)} inputs ({X}), but has {len(targets)}.")
