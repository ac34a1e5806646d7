"""The averages of one layer of several inputs: of two and of four derivatives of φ, at all tuples of inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, product

import numpy as np

from meanfield.base.budgets import tick
from meanfield.functions.activations import Activation
from meanfield.numeric.quadrature.covariances.slopes import Slopes, monomials, slopes_of
from meanfield.numeric.quadrature.covariances.weak import weak_pair, weak_single
from meanfield.numeric.quadrature.covariances.whitened import WhitenedGrid, product_averages, resolved

Key2 = tuple[tuple[int, int], tuple[int, int]]  # derivatives of φ, and those outside of the average


@dataclass(frozen=True, eq=False)
class LayerAverages:
    """two[key][a, b] and four[orders][a, b, c, d], and what they miss at most, of the root mean squares of the factors
    multiplied."""

    two: dict[Key2, np.ndarray]
    four: dict[tuple[int, ...], np.ndarray]
    error: float


@dataclass(frozen=True, eq=False)
class NeededAverages:
    """What averages of one φ are needed: `two` and `four` as the keys of `LayerAverages`."""

    slopes: Slopes
    two: tuple[Key2, ...]
    four: tuple[tuple[int, ...], ...]

    @property
    def highest2(self) -> int:
        return max((o + p for orders, by in self.two for o, p in zip(orders, by)), default=0)

    @property
    def highest4(self) -> int:
        return max((max(orders) for orders in self.four), default=0)

    def grid(self, variance: float) -> WhitenedGrid:
        """What resolves all averages up to this variance."""
        deviation, smooth = math.sqrt(variance), not len(self.slopes.breaks)
        totals = max((sum(orders) + sum(by) for orders, by in self.two), default=0)
        fours = max((sum(orders) for orders in self.four), default=-1)

        def needed(x: np.ndarray) -> np.ndarray:
            found = []
            for count, order, total in ((2, self.highest2, totals), (4, self.highest4, fours)):
                if total >= 0:
                    rows = self.slopes.products(order, count, x)
                    found += [row for row, one in zip(rows, monomials(order, count)) if sum(one) <= total]
            return np.stack(found)

        return resolved(needed, deviation, self.slopes.name, smooth)

    def at(self, K: np.ndarray) -> LayerAverages:
        """All averages at a covariance of P different inputs.

        Raises: MeanFieldError where φ grows or oscillates too fast for the quadrature.
        """
        grid = self.grid(float(np.diag(K).max()))
        two, worst2 = self._pairs(K, grid)
        four, worst4 = self._fours(K, grid)
        return LayerAverages(two, four, max(worst2, worst4))

    def _pairs(self, K: np.ndarray, grid: WhitenedGrid) -> tuple[dict[Key2, np.ndarray], float]:
        inputs, h, smooth = len(K), self.highest2, not len(self.slopes.breaks)
        table = np.zeros((3, inputs, inputs, h + 1, h + 1))  # values, errors, scales
        single = [np.zeros(())] * inputs
        for a in range(inputs):
            if not smooth:
                single[a] = np.stack(weak_single(self.slopes, float(K[a, a]), h, grid))
                continue
            found = np.stack(product_averages(self.slopes, K[a : a + 1, a : a + 1], (2,), h, grid))
            for row, (i, j) in enumerate(monomials(h, 2)):
                table[:, a, a, i, j] = table[:, a, a, j, i] = found[:, row]
        pair = (
            (lambda cov: product_averages(self.slopes, cov, (1, 1), h, grid))
            if smooth
            else (lambda cov: weak_pair(self.slopes, cov, h, grid))
        )
        for a, b in combinations(range(inputs), 2):
            table[:, a, b] = np.stack(pair(K[[a, b]][:, [a, b]]))
            table[:, b, a] = np.swapaxes(table[:, a, b], -1, -2)
        two, worst = {}, 0.0
        for orders, by in self.two:
            here = table[:, :, :, orders[0] + by[0], orders[1] + by[1]].copy()
            for a in range(0 if smooth else inputs):
                # derivatives by both variables of one input are summed up in those by the first
                here[:, a, a] = (0.0, 0.0, 1.0) if by[1] else single[a][:, orders[0], orders[1], by[0]]
            two[orders, by] = here[0]
            worst = max(worst, _relative(here[1], here[2]))
        return two, worst

    def _fours(self, K: np.ndarray, grid: WhitenedGrid) -> tuple[dict[tuple[int, ...], np.ndarray], float]:
        if not self.four:
            return {}, 0.0
        inputs, order = len(K), self.highest4
        places, values = _positions(inputs, order, self.four), []
        for elements, counts in _multisets(inputs):
            tick()
            cov = K[list(elements)][:, list(elements)]
            values.append(np.stack([part.ravel() for part in product_averages(self.slopes, cov, counts, order, grid)]))
        flat = np.concatenate(values, axis=1)
        four = {orders: flat[0][where] for orders, where in places.items()}
        return four, max(_relative(flat[1][where], flat[2][where]) for where in places.values())


def _relative(error: np.ndarray, scale: np.ndarray) -> float:
    """The largest error in units of its scale, of the numbers that are finite."""
    known = np.isfinite(error) & np.isfinite(scale) & (scale > 0)
    return float(np.max(error[known] / scale[known], initial=0.0))


def _multisets(inputs: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Four inputs, some of them equal: (the different ones, how often each)."""
    found = []
    for some in combinations_with_replacement(range(inputs), 4):
        elements = tuple(dict.fromkeys(some))
        found.append((elements, tuple(some.count(e) for e in elements)))
    return found


@lru_cache(maxsize=16)
def _positions(inputs: int, order: int, wanted: tuple[tuple[int, ...], ...]) -> dict[tuple[int, ...], np.ndarray]:
    """Where the average of given derivatives at inputs (a, b, c, d) stands among all of `_multisets`, one after the
    other."""
    start, offsets = 0, {}
    position = {count: {one: i for i, one in enumerate(monomials(order, count))} for count in (1, 2, 3, 4)}
    for elements, counts in _multisets(inputs):
        shape = tuple(len(position[c]) for c in counts)
        offsets[elements, counts] = start, shape
        start += math.prod(shape)
    found = {orders: np.zeros((inputs,) * 4, dtype=int) for orders in wanted}
    for at in product(range(inputs), repeat=4):
        elements = tuple(sorted(set(at)))
        counts = tuple(at.count(e) for e in elements)
        begin, shape = offsets[elements, counts]
        for orders in wanted:
            index = tuple(
                position[c][tuple(sorted(d for d, e in zip(orders, at) if e == element))]
                for element, c in zip(elements, counts)
            )
            found[orders][at] = begin + int(np.ravel_multi_index(index, shape))
    return found


def averages_of(phi: Activation, two: Iterable[Key2], four: Iterable[Sequence[int]]) -> NeededAverages:
    """The averages of an activation without free parameters that a layer needs."""
    twos, fours = tuple(dict.fromkeys(two)), tuple(dict.fromkeys(map(tuple, four)))
    highest = max(
        [1, *(o + p for orders, by in twos for o, p in zip(orders, by)), *(d for orders in fours for d in orders)]
    )
    return NeededAverages(slopes_of(phi, highest), twos, fours)
