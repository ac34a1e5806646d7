"""Tables in K of functions of one variance: piecewise polynomials, eight cells an octave, cut where they are too steep.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.numeric.quadrature.gaussian_averages import kept_densities
from meanfield.numeric.quadrature.rules import chebyshev_to_power, exact_product

CELLS_PER_OCTAVE = 8  # a cell [1, 9/8] keeps the singularity K = 0 at 17 half-widths: degree 9 leaves 5e-16
DEGREE = 9
LOW, HIGH = -100, 100  # octaves a table covers at most: K from 2^-100 to 2^100
SUSPECT = 1e-12  # the last Chebyshev coefficient of a cell, relative to its values, at which the cell is looked at
LEAST = 1e-290  # values below count as 0
MOST_SPLITS = 12  # a cell is cut into 2^12 at most: e^{-c²/2K} near the least double needs 2^8


@dataclass(frozen=True)
class PolynomialTable:
    """Piecewise polynomials in K: CELLS_PER_OCTAVE cells an octave from octave `first`, Horner coefficients in the
    local t ∈ [-1, 1).

    Outside, the value continues as the power law measured at the edge (`low`, `high`: exponents). With a gap > 0 the
    table holds e^{gap²/2K} times the value, which is what stays smooth as K → 0. Where a value falls so steeply that a
    cell does not hold it (e^{-c²/2K} of a function that is steep at c), the row of the cell is NaN, first row, m: the
    cell is cut into 2^m, whose rows follow after those of all cells.
    """

    first: int
    coefficients: np.ndarray
    low: float
    high: float
    gap: float = 0.0
    cells: int = 0  # rows before those of cut cells

    @property
    def last(self) -> int:
        return self.first + self.cells // CELLS_PER_OCTAVE

    @property
    def is_split(self) -> bool:
        return len(self.coefficients) > self.cells

    @property
    def rounding(self) -> float:
        """What rounding of K and of exponents alone makes of e^{-E}, at the largest E of the cells that are cut."""
        worst = 0.0
        for row in self.coefficients[: self.cells][np.isnan(self.coefficients[: self.cells, 0])]:
            ends = self.coefficients[[int(row[1]), int(row[1]) + (1 << int(row[2])) - 1], 0]
            if np.abs(ends).min() > LEAST:
                worst = max(worst, CELLS_PER_OCTAVE * abs(math.log(abs(ends[1] / ends[0]))))
        return 3 * 2.0**-52 * worst

    def tail(self, side: int) -> int | None:
        """The power of K beyond the lower (-1) or upper (1) end where it is one of a polynomial, else None."""
        power = self.low if side < 0 else self.high
        return int(power) if 0 <= power <= DEGREE and power == int(power) else None

    def split_points(self) -> list[float]:
        """K inside the cells that are cut, off the nodes of their parts."""
        cut = np.flatnonzero(np.isnan(self.coefficients[: self.cells, 0])).tolist()
        return [2.0 ** (self.first + i // 8) * (1 + (i % 8 + (0.137 + 0.61 * i) % 1) / 8) for i in cut]


def build_table(function, first: int = LOW, last: int = HIGH) -> PolynomialTable:
    """The table of `function` (vectorised, K → value) over octaves first … last; cut where values stop being finite."""
    with kept_densities():
        return _built(function, first, last)


def _built(function, first: int, last: int) -> PolynomialTable:
    t, to_power = chebyshev_to_power(DEGREE)
    cells = np.arange(CELLS_PER_OCTAVE)
    rows, overflow = [], False
    parts: dict[int, np.ndarray] = {}
    for o in range(first, last):
        lower = 2.0**o * (1 + cells / CELLS_PER_OCTAVE)
        K = lower[:, None] + 2.0**o / CELLS_PER_OCTAVE * (t + 1) / 2
        values = function(K.ravel()).reshape(K.shape)
        if not np.isfinite(values).all():
            last, overflow = o, True
            break
        rows.append(exact_product(values, to_power))
        for i in _suspects(values):
            found = _split(function, lower[i], 2.0**o / CELLS_PER_OCTAVE, rows[-1][i])
            if found is not None:
                parts[(o - first) * CELLS_PER_OCTAVE + i] = found
    if not rows:
        raise MeanFieldError("The average overflows at every K of the table.")
    table = np.concatenate(rows)
    count = at = len(table)
    for i, found in parts.items():
        table[i] = 0.0
        table[i, :3] = math.nan, at, len(found).bit_length() - 1
        at += len(found)
    table = np.ascontiguousarray(np.concatenate([table, *parts.values()]))
    # past an overflow the average is infinite for a double, not a power
    high = math.inf if overflow else _slope(function, 2.0**last, 0.5)
    return PolynomialTable(first, table, _slope(function, 2.0**first, 2.0), high, cells=count)


def _suspects(values: np.ndarray) -> list[int]:
    """The cells (rows of values at the Chebyshev points) whose polynomial may not hold the function."""
    n = values.shape[1]
    wave = np.cos(np.pi * (n - 1) * (2 * np.arange(n) + 1) / (2 * n))
    with np.errstate(all="ignore"):
        size, least = np.abs(values).max(axis=1), np.abs(values).min(axis=1)
        last = np.abs((values / least[:, None] * wave).sum(axis=1))
    return np.flatnonzero((size > LEAST) & ~(2 / n * last < SUSPECT)).tolist()


def _split(function, lower: float, width: float, whole: np.ndarray) -> np.ndarray | None:
    """Rows of the parts of a cell, as many as its function needs; None where cutting it does not help."""
    t, to_power = chebyshev_to_power(DEGREE)
    probes = np.array([-0.9, -0.43, 0.21, 0.77])  # off the Chebyshev points
    best, before = None, _worst(function, lower, width, whole[None], probes)
    for m in range(1, MOST_SPLITS + 1):
        if before <= 1.0:
            break
        n = 2**m
        starts = lower + width / n * np.arange(n)
        K = starts[:, None] + width / n * (t + 1) / 2
        values = function(K.ravel()).reshape(K.shape)
        if not np.isfinite(values).all():
            break
        rows = exact_product(values, to_power)
        miss = _worst(function, lower, width, rows, probes)
        if m > 2 and not miss < before / 2:  # what is left is rounding
            break
        if miss < before:
            best, before = rows, miss
    return best


def _worst(function, lower: float, width: float, rows: np.ndarray, probes: np.ndarray) -> float:
    """The largest relative deviation of the rows from the function at points in between, in units of what rounding
    alone explains."""
    n = len(rows)
    if n > 64:  # the ends and some between show what all do
        chosen = np.unique(np.concatenate([np.linspace(0, n - 1, 48).astype(int)]))
    else:
        chosen = np.arange(n)
    K = lower + width / n * (chosen[:, None] + (probes + 1) / 2)
    true = function(K.ravel()).reshape(K.shape)
    found = np.array([np.polynomial.polynomial.polyval(probes, c) for c in rows[chosen]])
    with np.errstate(all="ignore"):
        fall = abs(math.log(abs(true[-1, -1] / true[0, 0]))) if true[0, 0] * true[-1, -1] > 0 else 0.0
        miss = np.where(np.abs(true) > LEAST, np.abs(found - true) / np.abs(true), 0.0)
    worst = float(np.nan_to_num(miss, nan=math.inf).max())
    return worst / (1e-14 + 2e-15 * fall * CELLS_PER_OCTAVE / 8)


def _slope(function, K: float, factor: float) -> float:
    a, b = function(np.array([K, K * factor]))
    if not (np.isfinite(a) and np.isfinite(b)) or a == 0 or b / a <= 0:
        return 0.0
    slope = math.log(b / a) / math.log(factor)
    nearest = round(2 * slope) / 2
    return nearest if abs(slope - nearest) < 1e-4 else slope
