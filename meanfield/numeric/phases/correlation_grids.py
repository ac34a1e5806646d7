r"""Where the correlation of two inputs of one norm ends, over a grid of (σ_w, σ_b): 1 - c*, its slope and its error.

C, the map of c at fixed K, is convex on [0, 1] with C(1) = 1 (`phases.correlations`): with C′(1) = χ_J* ≤ 1 every
correlation ends at 1, with χ_J* > 1 at the one zero in [0, 1). Where K ends at 0 or ∞ the map must not depend on K (φ
of one power; at ∞ also one that has become a power there: GELU), which its values at two K show; where that map is the
identity and K falls or grows by a factor a layer, the first layers decide. Elsewhere nothing is claimed, except that
two orthogonal inputs stay orthogonal where every φ is odd and there are no biases.

Source: derived here; [bias_and_trainability] Sec. 4 and figure 3 have ReLU and tanh by a scan.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.numeric.lowering.assembly import lower
from meanfield.numeric.phases.correlations import FAR, FARTHER, NEAR
from meanfield.numeric.phases.gap_source import LEAST
from meanfield.numeric.phases.gaps import Gaps
from meanfield.numeric.run.depth_iteration import propagate
from meanfield.symbolic.recursion import Recursion

EXACTLY = 1e-10  # |χ_J - 1| below this is critical: the float64 error of χ_J*
LOOKS = (0.9, 0.3, 1e-3, 1e-12)  # 1 - c at which two maps of c are compared
TWICE = (1.0, 7.3)  # the K of the two
RESTING = 1e-24  # a K at which the map of c is that of K → 0
STEPS = 100

Zeros = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class CorrelationCells:
    """The points of a diagram, flat arrays: σ_w, σ_b, K* (0 or ∞ where K ends there), χ_J*; odd: whether every φ is
    odd and there are no biases."""

    sigma_w: np.ndarray
    sigma_b: np.ndarray
    K: np.ndarray
    chi_J: np.ndarray
    odd: np.ndarray

    def at(self, where: np.ndarray) -> CorrelationCells:
        return CorrelationCells(*(v[where] for v in (self.sigma_w, self.sigma_b, self.K, self.chi_J, self.odd)))


@dataclass(frozen=True)
class Ends:
    """1 - c*, C′(c*) and the absolute error of c* (NaN: not known); start: where the first layer decides, and the gap
    is that of orthogonal inputs if every φ is odd."""

    gap: np.ndarray
    slope: np.ndarray
    error: np.ndarray
    start: np.ndarray


class Plain:
    """A block of one Dense with skip μ; gaps: of its f, None where that is linear."""

    def __init__(self, gaps: Gaps | None, mu: float):
        self.gaps, self.mu = gaps, mu

    def fixed_points(self, cells: CorrelationCells) -> Zeros:
        """(1 - c*, slope, error) where K is finite and χ_J* > 1."""
        assert self.gaps is not None  # a linear f has no such point
        kept = 1 - self.mu**2
        return self.gaps.fixed_points(cells.K, math.log(kept) - 2 * np.log(cells.sigma_w), kept)

    def is_identity(self, cells: CorrelationCells) -> np.ndarray:
        """Whether every correlation stays, at points with χ_J* = 1."""
        return (cells.sigma_b == 0) & ((cells.sigma_w == 0) | (self.gaps is None))

    def without_K(self, cells: CorrelationCells) -> Zeros:
        """The same where K ends at 0 or ∞, NaN where the map of c depends on K, even there, or is the identity."""
        unknown = np.full((3, cells.K.size), math.nan)
        if self.gaps is None:  # distances stay at χ_J = 1, and K grows by the biases or φ(0)²
            with np.errstate(invalid="ignore"):
                grows = np.isinf(cells.K) & (np.abs(cells.chi_J - 1) <= EXACTLY)
            unknown[:, grows] = np.array([[0.0], [1.0], [0.0]])
            return tuple(unknown)
        if self.mu > 1:
            return tuple(unknown)
        found = np.array(self._free(cells, TWICE, NEAR))
        far = np.isnan(found[0]) & np.isinf(cells.K)
        if far.any():
            found[:, far] = self._free(cells.at(far), FAR, FARTHER)
        return tuple(found)

    def keeps_angles(self, cells: CorrelationCells) -> np.ndarray:
        """Whether the map of c tends to the identity where K ends: at 0 or at ∞."""
        if self.gaps is None:
            return np.ones(cells.K.shape, dtype=bool)
        found = np.empty(cells.K.shape, dtype=bool)
        for end, K, near in ((0.0, RESTING, NEAR), (math.inf, FAR[0], FARTHER)):
            if np.any(there := np.equal(cells.K, end)):
                logs = self.gaps.averages(np.full(len(LOOKS), K), np.array(LOOKS))
                found[there] = np.abs(logs[:, 0] - logs[:, 1]).max() <= near
        return found

    def _free(self, cells: CorrelationCells, places: tuple[float, float], near: float) -> Zeros:
        """`without_K` by the maps of c at two K; near: how far they may be apart."""
        assert self.gaps is not None
        unknown = np.full((3, cells.K.size), math.nan)
        logs = self.gaps.averages(np.repeat(places, len(LOOKS)), np.tile(LOOKS, 2)).reshape(2, len(LOOKS), 2)
        ratio = logs[..., 0] - logs[..., 1]
        # without a skip S/⟨f²⟩ decides, with one S and ⟨f²⟩/K
        moved = np.abs(logs[0] - logs[1]) if self.mu else np.abs(ratio[0] - ratio[1])
        near = max(near, 2 * self.gaps.error)  # what each of the two may miss tells no maps apart
        if not moved.max() <= near or np.abs(ratio).max() <= near:
            return tuple(unknown)
        if ratio[0, -1] <= near:
            gap, slope, error = (np.array([v]) for v in (0.0, 1.0, 0.0))
        else:
            gap, slope, error = self.gaps.fixed_points(np.array(places[:1]), logs[0, :1, 1], 1.0)
        own = cells.sigma_w**2 * math.exp(logs[0, 0, 1])
        with np.errstate(invalid="ignore"):
            found = np.array([gap + 0 * own, 1 + own / (own + self.mu**2) * (slope - 1), error + 0 * own])
        return tuple(np.where(cells.sigma_w > 0, found, unknown))


class Stepwise:
    """Any other block: one layer at a time through its compiled recursion of (K, K_ab, distance)."""

    def __init__(self, recursion: Recursion, values: dict[str, Any]):
        self.recursion, self.values = recursion, values
        self.error = max(lower(recursion).errors, default=0.0)

    def excess(self, cells: CorrelationCells, K: np.ndarray, gap: np.ndarray, biased: bool = True) -> np.ndarray:
        """log of (1 - c′)/(1 - c)."""
        start = {"K": K, "distance": 2 * K * gap}
        sigma_b = cells.sigma_b if biased else np.zeros(cells.K.shape)
        run = propagate(
            self.recursion, sigma_w=cells.sigma_w, sigma_b=sigma_b, parameters=self.values, depth=2, start=start
        )
        with np.errstate(all="ignore"):
            grown = run.values["log_distance"][..., 1] - run.values["log_distance"][..., 0]
            return grown - np.log(run.values["K"][..., 1] / K)

    def fixed_points(self, cells: CorrelationCells) -> Zeros:
        return self._zeros(cells, cells.K, True)

    def is_identity(self, cells: CorrelationCells) -> np.ndarray:
        looks = [np.abs(self.excess(cells, cells.K, np.full(cells.K.shape, g))) <= NEAR for g in LOOKS[:2]]
        return looks[0] & looks[1]

    def keeps_angles(self, cells: CorrelationCells) -> np.ndarray:
        small = cells.K == 0
        K = np.where(small, RESTING, FAR[0])
        looks = np.array([np.abs(self.excess(cells, K, np.full(K.shape, g), False)) for g in LOOKS])
        return looks.max(axis=0) <= np.where(small, NEAR, FARTHER)

    def without_K(self, cells: CorrelationCells) -> Zeros:
        found = np.array(self._free(cells, TWICE, NEAR))
        far = np.isnan(found[0]) & np.isinf(cells.K)
        if far.any():
            found[:, far] = self._free(cells.at(far), FAR, FARTHER)
        return tuple(found)

    def _free(self, cells: CorrelationCells, places: tuple[float, float], near: float) -> Zeros:
        found = np.full((3, cells.K.size), math.nan)
        ones = np.ones(cells.K.size)
        looks = np.array([[self.excess(cells, k * ones, g * ones, False) for g in LOOKS] for k in places])
        near = max(near, 2 * self.error)
        with np.errstate(invalid="ignore"):
            free = (cells.sigma_w > 0) & (np.abs(looks[0] - looks[1]).max(axis=0) <= near)
            free &= np.abs(looks[0]).max(axis=0) > near
        inside = free & (looks[0, -1] > near)
        found[:, free & ~inside] = np.array([[0.0], [1.0], [0.0]])
        if inside.any():
            found[:, inside] = self._zeros(cells.at(inside), places[0] * ones[inside], False)
        return tuple(found)

    def _zeros(self, cells: CorrelationCells, K: np.ndarray, biased: bool) -> Zeros:
        def excess(where: np.ndarray, gap: np.ndarray) -> np.ndarray:
            return self.excess(cells.at(where), K[where], gap, biased)

        gap, everywhere = zeros(excess, K.size), np.arange(K.size)
        h = 0.003  # of log(1 - c), in which the slope is a derivative
        at = np.maximum(gap, LEAST)
        there = {k: excess(everywhere, at * math.exp(k * h)) for k in (-2, -1, 1, 2)}
        slope = 1 + (8 * (there[1] - there[-1]) - (there[2] - there[-2])) / (12 * h)
        with np.errstate(divide="ignore"):
            return gap, slope, gap * (self.error + 4e-16) / np.maximum(1 - slope, 1e-300) + 2.0**-53


def zeros(excess: Callable[[np.ndarray, np.ndarray], np.ndarray], count: int) -> np.ndarray:
    """The zero in (0, 1] of falling functions of the gap, many at once (Chandrupatla's rule); 1 where they do not fall
    below 0, NaN where they are never above: nearer to c = 1 than is searched.

    excess: (indices, a gap for each) → values.
    """
    every = np.arange(count)
    a, b = np.zeros(count), np.full(count, math.log(LEAST))  # in log gap: where φ jumps it may be tiny
    fa, fb = excess(every, np.ones(count)), excess(every, np.exp(b))
    out = np.where((fa >= 0) & ~np.isnan(fb), 1.0, math.nan)
    live = np.flatnonzero((fa < 0) & (fb > 0))
    a, b, fa, fb = a[live], b[live], fa[live], fb[live]
    c, fc, t = a.copy(), fa.copy(), np.full(live.size, 0.5)
    for _ in range(STEPS):
        if not live.size:
            break
        x = a + t * (b - a)
        f = excess(live, np.exp(x))
        same = (f > 0) == (fa > 0)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = x, f
        best = np.abs(fa) < np.abs(fb)
        middle = np.where(best, a, b)
        out[live] = np.exp(middle)
        with np.errstate(all="ignore"):
            limit = 4e-16 * np.maximum(1.0, np.abs(middle)) / np.abs(b - a)
            go = (limit <= 0.5) & (np.where(best, fa, fb) != 0)
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            smooth = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            curved = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            t = np.clip(np.where(smooth, curved, 0.5), limit, 1 - limit)
        live, a, b, c, fa, fb, fc, t = (v[go] for v in (live, a, b, c, fa, fb, fc, t))
    return out


def ends(cells: CorrelationCells, block: Plain | Stepwise) -> Ends:
    """Where two inputs that start orthogonal end, at every point."""
    found = np.full((3, cells.K.size), math.nan)
    finite = np.isfinite(cells.K) & (cells.K > 0)
    with np.errstate(invalid="ignore"):
        ordered = finite & (cells.chi_J <= 1 + EXACTLY)
        inside = finite & (cells.chi_J > 1 + EXACTLY)
    found[:, ordered] = np.array([np.zeros(ordered.sum()), cells.chi_J[ordered], np.zeros(ordered.sum())])
    flat = np.flatnonzero(ordered & (np.abs(cells.chi_J - 1) <= EXACTLY))
    if flat.size:
        stays = flat[block.is_identity(cells.at(flat))]
        found[:, stays] = math.nan
    if inside.any():
        found[:, inside] = block.fixed_points(cells.at(inside))
    loose = ~finite & ~np.isnan(cells.chi_J)
    if loose.any():
        found[:, loose] = block.without_K(cells.at(loose))
    exact = cells.odd & inside
    found[0, exact], found[2, exact] = 1.0, 0.0
    open_ = np.isnan(found[0]) & (cells.sigma_w > 0)
    start = cells.odd & open_
    found[0, start], found[2, start] = 1.0, 0.0
    with np.errstate(invalid="ignore"):  # K falls, or grows, by a factor a layer, and what moves c falls with it
        falls = (cells.K == 0) & (cells.chi_J > 0) & (cells.chi_J < 1 - EXACTLY)
        rises = np.isinf(cells.K) & (cells.chi_J > 1 + EXACTLY) & np.isfinite(cells.chi_J)
    scaled = np.flatnonzero(open_ & ~cells.odd & (falls | rises))
    if scaled.size:
        start[scaled] = block.keeps_angles(cells.at(scaled))
    return Ends(found[0], found[1], found[2], start)
