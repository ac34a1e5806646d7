r"""Tables of softmax overlaps of one T: rectangles on which log Φ, log ∂_C Φ and log of the quotient are polynomials.

Three rectangles hold every V and D. Up to V₁: by log(1 + V) and log(1 + D)/log(1 + νV), ν = T/(T - 1). Beyond it, with
two scales, that of the softmax's own width and that of V: up to D₁ by 1/√V and log(1 + D), beyond D₁ by 1/√D and
arccos(C/V). In these variables what is left of β^k at large β is smooth to the end, so that no expansion takes over
there or at V = 0. At T = 2 rows of negative covariance, A'(-z') = 1 - A'(z'), have two rectangles of their own, by
2V - D.

Values at Chebyshev points of each rectangle are interpolated, and written as polynomials of degree 9 by 9 on 8 by 8
cells; one row's (D = 0) are alike in V alone. The error is measured at points of neither. Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from meanfield.numeric.quadrature.rules import chebyshev_to_power
from meanfield.numeric.quadrature.softmax.overlaps import number, quotient, two_rows

PAIRS = ("value", "slope", "quotient")
ALONE = ("value", "slope", "growth", "entropy")
CELLS, DEGREE = 8, 9
SHARP = 64  # entries below which slopes at close rows need finer rules
CLOSE = 0.02
ONE_ROW = 24  # points of a panel of one row
DRAWS = 48  # points where the error is measured
Variances = tuple[float, float]


@dataclass(frozen=True)
class TableFrame:
    """Where the rectangles of T entries begin and end: D₁, ν, V₁."""

    T: int

    @property
    def D1(self) -> float:
        return 6.0 if self.T < 8 else 16.0

    @property
    def nu(self) -> float:
        """D/V at the least covariance; at T = 2, where D and 2V - D change points, of independent rows."""
        return 1.0 if self.T == 2 else self.T / (self.T - 1.0)

    @property
    def V1(self) -> float:
        return self.D1 / self.nu

    @property
    def turn(self) -> float:
        """Half the largest angle between two rows, arccos(C/V)."""
        return math.asin(math.sqrt(0.5 * self.nu))

    def rectangles(self) -> list[Rectangle]:
        third, T, nu = math.log1p(self.V1) / 3.0, self.T, self.nu

        def small(panel: int) -> Callable[[float, float], Variances]:
            def variances(a: float, b: float) -> Variances:
                V = math.expm1((panel + a) * third)
                if T > 2:
                    return V, math.expm1(b * math.log1p(nu * V))
                q = (1.0 + 2.0 * V) ** (2.0 * b - 1.0)  # (1 + D)/(1 + 2V - D)
                return V, min(max((q * (1.0 + 2.0 * V) - 1.0) / (1.0 + q), 0.0), 2.0 * V)

            return variances

        def near(a: float, b: float) -> Variances:
            return self.V1 / a**2, math.expm1(b * math.log1p(self.D1))

        def far(a: float, b: float) -> Variances:
            D = self.D1 / a**2
            return D / (2.0 * math.sin(b * self.turn) ** 2), D

        many, slow = 28 if T < 8 else 24, T >= SHARP
        sizes = ((15, 16), (18 if slow else 15, 20), (16, 28))
        if T < 8:
            sizes = ((20, 20), (16, 22), (16, 30))
        out = [Rectangle(f"small {p}", *sizes[p], small(p), _flat) for p in range(3)]
        out += [Rectangle("near", 23 if slow else 19, 25, near, _near), Rectangle("far", 15, many, far, _far)]
        if T == 2:
            out += [Rectangle("near, mirrored", 19, 24, _mirrored(near), _near_mirrored)]
            out += [Rectangle("far, mirrored", 15, many, _mirrored(far), _far_mirrored)]
        return out


@dataclass(frozen=True)
class Rectangle:
    """`rows` by `columns` Chebyshev points (a, b) of the unit square, what (V, D) they are, and what a kind is
    multiplied by before its logarithm is taken."""

    name: str
    rows: int
    columns: int
    variances: Callable[[float, float], Variances]
    scale: Callable[[str, int, float, float], float]


def _flat(kind: str, T: int, V: float, D: float) -> float:
    return 1.0


def _near(kind: str, T: int, V: float, D: float) -> float:
    return 1.0 if kind == "value" else math.sqrt(V)


def _far(kind: str, T: int, V: float, D: float) -> float:
    return 1.0 if kind == "value" else math.sqrt(V) * math.sqrt(D)


def _near_mirrored(kind: str, T: int, V: float, D: float) -> float:
    return V if kind == "quotient" else math.sqrt(V)


def _far_mirrored(kind: str, T: int, V: float, D: float) -> float:
    other = 2.0 * V - D
    return V if kind == "quotient" else math.sqrt(V / other) if kind == "value" else math.sqrt(V) * math.sqrt(other)


def _mirrored(variances: Callable[[float, float], Variances]) -> Callable[[float, float], Variances]:
    def mirrored(a: float, b: float) -> Variances:
        V, D = variances(a, b)
        return V, 2.0 * V - D

    return mirrored


@dataclass(frozen=True)
class Tables:
    """Of T entries: tables by kind of two rows and of one, rows of ten coefficients, and their largest relative
    errors."""

    T: int
    pairs: dict[str, np.ndarray]
    alone: dict[str, np.ndarray]
    errors: dict[str, float]

    def arrays(self) -> dict[str, np.ndarray]:
        """All of it as arrays of one file."""
        held = {f"pairs_{k}": v for k, v in self.pairs.items()} | {f"alone_{k}": v for k, v in self.alone.items()}
        return held | {f"error_{k}": np.array(v) for k, v in self.errors.items()}

    @classmethod
    def of(cls, T: int, arrays: dict[str, np.ndarray]) -> Tables:
        """What `arrays` gave."""
        parts: dict[str, dict] = {"pairs": {}, "alone": {}, "error": {}}
        for key, value in arrays.items():
            where, kind = key.split("_", 1)
            parts[where][kind] = value if where != "error" else float(value)
        return cls(T, parts["pairs"], parts["alone"], parts["error"])


def build(T: int) -> Tables:
    """The tables of T ≥ 2 entries; seconds."""
    from threadpoolctl import threadpool_limits  # tables are made seldom: elsewhere they are read

    frame = TableFrame(T)
    with threadpool_limits(1):
        pairs: dict[str, list[np.ndarray]] = {kind: [] for kind in PAIRS}
        for one in frame.rectangles():
            values = _logarithms(T, one)
            for kind, v in zip(PAIRS, values):
                pairs[kind].append(_cells(v))
        alone = {kind: np.concatenate(_one_row(T, kind, frame)) for kind in ALONE}
    return Tables(T, {k: np.concatenate(v) for k, v in pairs.items()}, alone, {})


def _logarithms(T: int, one: Rectangle) -> np.ndarray:
    out, L = np.empty((len(PAIRS), one.rows, one.columns)), 31.0 if T < SHARP else 27.0
    for i, a in enumerate(_points(one.rows)):
        for j, b in enumerate(_points(one.columns)):
            V, D = one.variances(a, b)
            found = two_rows(T, V, D, L)
            got = found[0], found[2], quotient(T, V, D, L, CLOSE)
            out[:, i, j] = [math.log(x * one.scale(kind, T, V, D)) for kind, x in zip(PAIRS, got)]
    return out


def alone_scale(kind: str, V: float, V1: float) -> float:
    """What an average of one row is multiplied by before its logarithm is taken."""
    if V <= V1 or kind == "value":
        return 1.0
    return V * math.sqrt(V) if kind == "growth" else math.sqrt(V)


def _one_row(T: int, kind: str, frame: TableFrame) -> list[np.ndarray]:
    third, out = math.log1p(frame.V1) / 3.0, []
    for panel in range(4):
        V = [math.expm1((panel + a) * third) if panel < 3 else frame.V1 / a**2 for a in _points(ONE_ROW)]
        scaled = [number(kind, T, v) * alone_scale(kind, v if panel == 3 else 0.0, frame.V1) for v in V]
        out.append(_onto_cells(np.log(np.array(scaled))[:, None])[:, :, 0].reshape(CELLS, DEGREE + 1))
    return out


def _points(n: int) -> np.ndarray:
    """Chebyshev points of [0, 1]."""
    return 0.5 + 0.5 * np.cos(np.pi * (2 * np.arange(n) + 1) / (2 * n))


def _onto_cells(values: np.ndarray) -> np.ndarray:
    """(cells, degree + 1, …): what is interpolated along the first axis, as polynomials in -1 … 1 of each cell."""
    n = values.shape[0]
    k = np.arange(n)
    transform = 2.0 / n * np.cos(np.pi * np.outer(k, 2 * np.arange(n) + 1) / (2 * n))
    transform[0] *= 0.5
    t, (high, _) = chebyshev_to_power(DEGREE)
    places = (np.arange(CELLS)[:, None] + 0.5 + 0.5 * t) / CELLS  # of each cell's own points
    onto = np.cos(np.arccos(np.clip(2.0 * places - 1.0, -1.0, 1.0))[..., None] * k) @ transform
    return np.einsum("tp,ctn,n...->cp...", high, onto, values)


def _cells(values: np.ndarray) -> np.ndarray:
    """Rows of coefficients: ten rows (powers of a) of ten (of b) for each cell, those of b side by side."""
    by_a = _onto_cells(values)  # (cells of a, powers of a, columns)
    both = _onto_cells(np.moveaxis(by_a, 2, 0))  # (cells of b, powers of b, cells of a, powers of a)
    return np.ascontiguousarray(both.transpose(2, 0, 3, 1)).reshape(-1, DEGREE + 1)


def measured(T: int, kind: str, function: Callable[..., float], two: bool) -> float:
    """The largest relative error of a function of (V, D), or of V, at points drawn over β from 1e-3 to 1e4 and r."""
    from threadpoolctl import threadpool_limits

    draws, worst = np.random.default_rng(T), 0.0
    least = -1.0 / (T - 1)
    with threadpool_limits(1):
        for k in range(DRAWS):
            V = float(10.0 ** draws.uniform(-6.0, 8.0) if k % 3 else 10.0 ** draws.uniform(-1.0, 3.0))
            shape = draws.uniform()
            r = draws.uniform(least, 1.0) if k % 2 else 1.0 - 10.0 ** (-8.0 * shape)
            D = float(min((1.0 - r) * V, (1.0 - least) * V))
            true = number(kind, T, V, D) if two else number(kind, T, V)
            worst = max(worst, abs((function(V, D) if two else function(V)) / true - 1.0))
    return worst

