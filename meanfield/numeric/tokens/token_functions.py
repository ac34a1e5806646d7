"""Functions of one Gaussian variable at every token: value and slope on arrays, and where they break."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from meanfield.numeric.quadrature.covariances.slopes import Slopes

SCAN = 257  # places where a composed function is looked at for crossings of a break


class Elementwise:
    """x_t = f_t(z_t): `at(z)` gives (f, f′) for an array z (tokens, nodes)."""

    is_line = False
    oscillates = False  # whether it oscillates at any distance

    def at(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def breaks(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Places z (tokens, how many) between low and high where f or f′ jumps, nan where a token has fewer."""
        raise NotImplementedError

    def first_deviation(self, sd: np.ndarray) -> np.ndarray:
        """The standard deviation that its first activation meets, at every token."""
        raise NotImplementedError

    def crossings(self, level: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Where that is `level` (tokens, how many)."""
        raise NotImplementedError

    def scaled(self, a: np.ndarray | float, b: np.ndarray | float) -> Elementwise:
        """a f + b, one number or one for each token."""
        return ScaledFunction(self, np.asarray(a, dtype=float), np.asarray(b, dtype=float))


@dataclass(frozen=True, eq=False)
class Line(Elementwise):
    """f(z) = a z + b; gaussian: whether z is, or only its second moments are known (a product)."""

    a: np.ndarray
    b: np.ndarray
    gaussian: bool = True
    is_line = True

    def at(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        a = np.broadcast_to(self.a[..., None], z.shape)
        return a * z + self.b[..., None], a

    def breaks(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.empty((len(low), 0))

    def first_deviation(self, sd: np.ndarray) -> np.ndarray:
        return np.abs(self.a) * sd

    def crossings(self, level: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return _crossings(self, level, low, high)

    def scaled(self, a: np.ndarray | float, b: np.ndarray | float) -> Line:
        return Line(np.asarray(a * self.a, dtype=float), np.asarray(a * self.b + b, dtype=float), self.gaussian)


@dataclass(frozen=True, eq=False)
class ScaledFunction(Elementwise):
    """a f + b."""

    inner: Elementwise
    a: np.ndarray
    b: np.ndarray

    def at(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = self.inner.at(z)
        return self.a[..., None] * value + self.b[..., None], self.a[..., None] * slope

    def breaks(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return self.inner.breaks(low, high)

    def first_deviation(self, sd: np.ndarray) -> np.ndarray:
        return self.inner.first_deviation(sd)

    def crossings(self, level: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return self.inner.crossings(level, low, high)

    @property
    def oscillates(self) -> bool:  # type: ignore[override]
        return self.inner.oscillates

    def scaled(self, a: np.ndarray | float, b: np.ndarray | float) -> ScaledFunction:
        return ScaledFunction(self.inner, np.asarray(a * self.a, dtype=float), np.asarray(a * self.b + b, dtype=float))


@dataclass(frozen=True, eq=False)
class Applied(Elementwise):
    """φ(f(z))."""

    phi: Slopes
    inner: Elementwise
    periodic: bool = False

    @property
    def oscillates(self) -> bool:  # type: ignore[override]
        return self.periodic or self.inner.oscillates

    def first_deviation(self, sd: np.ndarray) -> np.ndarray:
        return self.inner.first_deviation(sd)

    def crossings(self, level: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return self.inner.crossings(level, low, high)

    def at(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = self.inner.at(z)
        return self.phi(0, value), self.phi(1, value) * slope

    def breaks(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        found = [self.inner.breaks(low, high)]
        found += [_crossings(self.inner, float(b), low, high) for b in self.phi.breaks]
        return np.concatenate(found, axis=1)


@dataclass(frozen=True, eq=False)
class Sum(Elementwise):
    """Σ f_k(z)."""

    parts: tuple[Elementwise, ...]

    def at(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values = [part.at(z) for part in self.parts]
        return sum(v for v, _ in values), sum(s for _, s in values)  # type: ignore[return-value]

    def breaks(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.concatenate([part.breaks(low, high) for part in self.parts], axis=1)

    @property
    def oscillates(self) -> bool:  # type: ignore[override]
        return any(part.oscillates for part in self.parts)

    def first_deviation(self, sd: np.ndarray) -> np.ndarray:
        return np.max([part.first_deviation(sd) for part in self.parts], axis=0)

    def crossings(self, level: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.concatenate([part.crossings(level, low, high) for part in self.parts], axis=1)


def added(parts: list[Elementwise]) -> Elementwise:
    """The sum of functions of one variable; of lines it is a line."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, Line) for part in parts):
        lines = [part for part in parts if isinstance(part, Line)]
        total = np.asarray(sum(p.a for p in lines)), np.asarray(sum(p.b for p in lines))
        return Line(*total, all(p.gaussian for p in lines))
    return Sum(tuple(parts))


def _crossings(f: Elementwise, level: float, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Where f crosses a level between low and high, by bisection; a line's place is computed."""
    if isinstance(f, Line):
        with np.errstate(all="ignore"):
            place = (level - f.b) / f.a * np.ones_like(low)
        return np.where(np.isfinite(place), place, np.nan)[:, None]
    grid = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, SCAN)
    above = f.at(grid)[0] > level
    changes = above[:, 1:] != above[:, :-1]
    found = np.full((len(low), int(changes.sum(axis=1).max(initial=0))), np.nan)
    rows, columns = np.nonzero(changes)
    rank = np.concatenate([np.arange(n) for n in changes.sum(axis=1)]) if len(rows) else rows
    a, b, first = grid[rows, columns], grid[rows, columns + 1], above[rows, columns]
    for _ in range(60):
        middle = (a + b) / 2
        wide = np.full((len(low), found.shape[1]), np.nan)
        wide[rows, rank] = middle
        here = (f.at(np.where(np.isnan(wide), 0.0, wide))[0] > level)[rows, rank]
        a, b = np.where(here == first, middle, a), np.where(here == first, b, middle)
    found[rows, rank] = b
    return found
