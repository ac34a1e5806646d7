"""Arrays whose entries are polynomials in a few infinitesimals: derivatives of any operation, by arithmetic alone.

A jet in m infinitesimals with ε_k² = 0 is Σ_S c_S ε^S over the subsets S of them. With x = x₀ + ε₁u + ε₂v + ε₃w the
coefficient of ε₁ε₂ε₃ in f(x) is the third derivative D³f(u, v, w), of ε₁ε₂ that of D²f(u, v), and so on: Leibniz' rule
for a product, Faà di Bruno's for a function of a number. Nothing is symbolic, and no step has a size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from meanfield.base.answers.results import MeanFieldError

Array = np.ndarray | None  # None is 0


class Jet(NDArrayOperatorsMixin):
    """Coefficients c[S] by the bits of S, 2^m of them. Axes in front of a signal's two (positions, neurons) count
    directions; coefficients broadcast against each other, so each has length 1 where it does not depend on one.

    +, −, ×, ÷, @, powers with a number, `mean`, `sum` and np.sqrt, exp, log, tanh, sin and cos know it; `linear` and
    `through` are for the rest. Axes are counted from the end.

    >>> x = Jet([np.array([[2.0]]), np.array([[1.0]]), np.array([[1.0]]), None])
    >>> [float(c[0, 0]) for c in (x * x * x).c]
    [8.0, 12.0, 12.0, 12.0]
    """

    __slots__ = ("c",)

    c: tuple[Any, ...]

    def __init__(self, coefficients: Sequence[Array]) -> None:
        value, *others = coefficients
        assert value is not None
        end = value.shape[-2:]  # what a row brought stands at every position: sums and means count it
        self.c = (value, *(None if one is None else np.broadcast_to(one, one.shape[:-2] + end) for one in others))

    @property
    def value(self) -> np.ndarray:
        """The coefficient without infinitesimals."""
        return self.c[0]

    @property
    def infinitesimals(self) -> int:
        return len(self.c).bit_length() - 1

    def linear(self, f: Callable[[np.ndarray], np.ndarray]) -> Jet:
        """A linear function of arrays, which leaves the axes in front as they are."""
        return Jet([None if one is None else f(one) for one in self.c])

    def through(self, derivatives: Callable[[np.ndarray], Sequence[np.ndarray]]) -> Jet:
        """A function of every entry by itself: derivatives(x₀) = (f, f′, f″, …), m + 1 of them at least."""
        f = derivatives(self.value)
        found: list[Array] = [f[0]]
        for subset in range(1, len(self.c)):
            total: Array = None
            for blocks in _partitions(subset):
                parts = [self.c[block] for block in blocks]
                if not any(one is None for one in parts):
                    total = _plus(total, math.prod(parts, start=f[len(blocks)]))
            found.append(total)
        return Jet(found)

    def mean(self, axis: int = -1, keepdims: bool = False, **_: Any) -> Jet:
        return self.linear(lambda one: one.mean(axis=_from_the_end(axis), keepdims=keepdims))

    def sum(self, axis: int = -1, keepdims: bool = False, **_: Any) -> Jet:
        return self.linear(lambda one: one.sum(axis=_from_the_end(axis), keepdims=keepdims))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            return NotImplemented
        if ufunc in _TOWERS:
            return self.through(_TOWERS[ufunc])
        if ufunc is np.negative:
            return self.linear(np.negative)
        if ufunc is np.square:
            return self * self
        if ufunc is np.power and not isinstance(given[1], Jet | np.ndarray):
            return self.through(lambda x: _powers(x, float(given[1]), len(self.c).bit_length()))
        a, b = (one.c if isinstance(one, Jet) else (np.atleast_2d(one), *[None] * (len(self.c) - 1)) for one in given)
        if ufunc is np.add or ufunc is np.subtract:
            return Jet([_plus(p, q if q is None or ufunc is np.add else -q) for p, q in zip(a, b)])
        if ufunc is np.multiply or ufunc is np.matmul:
            return Jet(list(_product(a, b, np.multiply if ufunc is np.multiply else matmul)))
        if ufunc is np.divide:
            return self._divided(*given)
        raise MeanFieldError(
            f"np.{ufunc.__name__} has no derivatives for a jet; write the formula with + − × ÷ @ and powers, or with "
            "`linear` and `through`."
        )

    @staticmethod
    def _divided(a: Any, b: Any) -> Any:
        if isinstance(b, Jet):
            return a * b.through(lambda x: _powers(x, -1.0, len(b.c).bit_length()))
        return a.linear(lambda one: one / b)


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b, as one product of matrices where no axis in front is longer than 1 in both."""
    front = max(a.ndim, b.ndim) - 2
    a, b = (one.reshape((1,) * (front + 2 - one.ndim) + one.shape) for one in (a, b))
    if any(p > 1 and q > 1 for p, q in zip(a.shape[:-2], b.shape[:-2])):
        return np.matmul(a, b)
    rows, columns = a.shape[-2], b.shape[-1]
    flat = a.reshape(-1, a.shape[-1]) @ np.moveaxis(b, -2, 0).reshape(b.shape[-2], -1)
    both = flat.reshape(*a.shape[:-1], *b.shape[:-2], columns)  # a's front, rows, b's front, columns
    order = [axis for k in range(front) for axis in (k, front + 1 + k)]
    merged = [p * q for p, q in zip(a.shape[:-2], b.shape[:-2])]
    return both.transpose(*order, front, 2 * front + 1).reshape(*merged, rows, columns)


def _from_the_end(axis: int) -> int:
    if axis not in (-1, -2):
        raise MeanFieldError(
            f"A signal's axes are −2 (positions) and −1 (neurons) here, as directions stand in front; axis {axis} was "
            "given."
        )
    return axis


def _plus(a: Array, b: Array) -> Array:
    return b if a is None else a if b is None else a + b


def _product(a: Sequence[Array], b: Sequence[Array], times: Callable[..., np.ndarray]) -> Iterator[Array]:
    for subset in range(len(a)):
        total: Array = None
        for part in range(subset + 1):
            p, q = a[part], b[subset ^ part]
            if part & subset == part and p is not None and q is not None:
                total = _plus(total, times(p, q))
        yield total


@lru_cache(maxsize=64)
def _partitions(subset: int) -> tuple[tuple[int, ...], ...]:
    """All ways to cut a set, given by its bits, into blocks.

    >>> _partitions(0b11)
    ((1, 2), (3,))
    """
    if not subset:
        return ((),)
    first = subset & -subset
    others = subset ^ first
    inner = [part for part in range(others + 1) if part & others == part]
    return tuple((part | first, *rest) for part in inner for rest in _partitions(others ^ part))


def _powers(x: np.ndarray, exponent: float, count: int) -> list[np.ndarray]:
    """x^a and its derivatives, `count` arrays."""
    found, factor = [], 1.0
    for k in range(count):
        found.append(factor * x ** (exponent - k) if factor else np.zeros_like(x))
        factor *= exponent - k
    return found


def _tanh(x: np.ndarray) -> list[np.ndarray]:
    t = np.tanh(x)
    slope = 1 - t * t
    return [t, slope, -2 * t * slope, (6 * t * t - 2) * slope]


_TOWERS: dict[np.ufunc, Callable[[np.ndarray], Sequence[np.ndarray]]] = {
    np.sqrt: lambda x: _powers(x, 0.5, 4),
    np.exp: lambda x: [np.exp(x)] * 4,
    np.log: lambda x: [np.log(x), *_powers(x, -1.0, 3)],
    np.reciprocal: lambda x: _powers(x, -1.0, 4),
    np.tanh: _tanh,
    np.sin: lambda x: [np.sin(x), np.cos(x), -np.sin(x), -np.cos(x)],
    np.cos: lambda x: [np.cos(x), -np.sin(x), -np.cos(x), np.sin(x)],
}
