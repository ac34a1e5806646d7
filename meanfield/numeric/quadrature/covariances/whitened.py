r"""Averages of products over up to four correlated Gaussians, with the difference of two rules as their error.

z = L ξ with the pivoted Cholesky factor L of the covariance (no inverse: repeated and collinear inputs end in
columns of zeros), ξ standard normal. Axis after axis is integrated given those before; the last variable is averaged
first, as a function of its conditional mean alone, from a table where many means occur.

Smooth φ: the trapezoidal rule on every axis, which converges geometrically for analytic functions. Its spacing in z and
its reach are found with one variable. φ with breaks: Gauss-Legendre panels that end where a variable, given those
before it, crosses a break, and where one that comes later does on average.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import comb

import numpy as np
from numba import njit

from meanfield.base.answers.results import MeanFieldError
from meanfield.numeric.quadrature.covariances.slopes import Slopes

COARSER = 0.8  # of the two rules, the density of nodes of the one that measures the error of the other
WIDEST = 0.52  # the largest step of a standard normal: 2 exp(−2π²/0.52²) = 4e-32
NARROWEST = 2.0**-9  # the smallest spacing in z that is tried
REACHES = (8.5, 9.5, 10.5, 12.0, 14.0, 17.0, 21.0, 26.0)  # standard deviations that are integrated over
RESOLVED = 1e-10  # what two rules of one variable may differ by, of the scale
ROUNDING = 3e-14  # of sums, factors and tables, of the scale
POINTS = 12  # of the local polynomial that a table is read with
FINER = 8  # points of a table for one spacing
LARGEST_TABLE = 200_000
CHUNK = 300_000  # nodes that are held at once
MOST_ON_AXIS = 100_000  # nodes of one axis that are tried
BLOCK = 1000  # means at which the last variable is integrated over at once
MOST_NODES = (20_000_000, 80_000_000)  # of the trapezoidal rule, of panels (which are counted generously)
WIDER = 3.0  # how much wider apart than wanted nodes may stand, where there would be more; the error says what it costs
ORDERS = (12, 9)  # nodes of a panel, of the two rules
SLOW = 3.0  # of panels, what the difference of the two rules is multiplied by: they converge alike
EDGES = np.array([-7.0, -4.0, -2.0, 0.0, 2.0, 4.0, 7.0])  # around a sharp crossing, in its widths
PANEL = 2.6  # the largest length of a panel, in standard deviations
SHARP = 0.7  # a crossing that is sharper gets panels of its own


@dataclass(frozen=True)
class WhitenedGrid:
    """Where the axes end, in standard deviations, and the spacing of nodes in z (∞ where breaks make the panels)."""

    reach: float
    spacing: float

    def axis(self, slope: float, coarse: bool) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and weights of a standard normal that enters with at most this factor."""
        if slope == 0:
            return np.zeros(1), np.ones(1)
        step = min(WIDEST, self.spacing / slope) / (COARSER if coarse else 1.0)
        count = math.ceil(self.reach / step)
        x = step * np.arange(-count, count + 1)
        return x, step / math.sqrt(2 * math.pi) * np.exp(-0.5 * x * x)


def resolved(f: Callable[[np.ndarray], np.ndarray], deviation: float, name: str, smooth: bool = True) -> WhitenedGrid:
    """The grid that resolves averages of f(z) (an array, one row for each function), z of this standard deviation.

    smooth: whether f has no breaks; else the reach alone is looked for.

    Raises: MeanFieldError where f grows, or oscillates, too fast.
    """
    for reach in REACHES:
        x = np.linspace(-reach, reach, 400)
        with np.errstate(all="ignore"):
            weighted = np.abs(f(deviation * x)) * np.exp(-0.5 * x * x)
        top = weighted.max(axis=1)
        if np.isfinite(weighted).all() and (weighted[:, [0, -1]].max(axis=1) <= 3e-15 * top).all():
            break
    else:
        raise MeanFieldError(
            f"Averages of {name} over Gaussians of variance {deviation**2:.3g} are not available: its powers grow too "
            "fast there; take a smaller sigma_w, sigma_b or inputs."
        )
    if not smooth or deviation == 0:
        return WhitenedGrid(reach, math.inf)
    spacing = min(1.0, WIDEST * deviation)
    narrowest = max(min(NARROWEST, spacing / 64), reach * deviation / MOST_ON_AXIS)
    while spacing > narrowest:
        rules = []
        for step, shift in ((spacing / COARSER, 0.0), (spacing / COARSER, 0.5), (spacing, 0.0)):
            h = min(step / deviation, WIDEST / COARSER)
            t = h * (np.arange(-math.ceil(reach / h), math.ceil(reach / h) + 1) + shift)
            values = h / math.sqrt(2 * math.pi) * f(deviation * t) * np.exp(-0.5 * t * t)
            rules.append((values.sum(axis=1), np.abs(values).sum(axis=1)))
        (one, _), (two, _), (best, scale) = rules
        if (np.maximum(np.abs(one - best), np.abs(two - best)) <= RESOLVED * scale).all():
            return WhitenedGrid(reach, spacing)
        spacing *= COARSER
    raise MeanFieldError(
        f"Averages of {name} over Gaussians of variance {deviation**2:.3g} are not available: it oscillates too fast "
        "there; take a smaller sigma_w, sigma_b or inputs."
    )


def factor(cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(order, L) with cov[order][:, order] = L Lᵀ, L lower triangular, largest conditional variance first.

    What rounding leaves of a variance, 1e-15 of it and less, is 0.
    """
    size = len(cov)
    order, rest = list(range(size)), np.array(cov, dtype=float)
    L = np.zeros((size, size))
    for j in range(size):
        left = np.array([rest[i, i] for i in order])
        best = j + int(np.argmax(left[j:]))
        order[j], order[best] = order[best], order[j]
        L[[j, best]] = L[[best, j]]
        p = order[j]
        if rest[p, p] <= 1e-15 * cov[p, p]:
            break
        L[j, j] = math.sqrt(rest[p, p])
        for i in range(j + 1, size):
            L[i, j] = rest[order[i], p] / L[j, j]
        column = np.zeros(size)
        for i in range(j, size):
            column[order[i]] = L[i, j]
        rest = rest - np.outer(column, column)
    return np.array(order), L


def product_averages(
    slopes: Slopes, cov: np.ndarray, counts: Sequence[int], order: int, grid: WhitenedGrid
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values, errors, scales) of ⟨Π_e (a product of counts[e] of φ, …, φ^(order) at z_e)⟩, z of this covariance.

    One axis for each variable, its entries in the order of `monomials`. The error is what a coarser rule differs by,
    and rounding; the scale bounds the average of the modulus (Hölder). Raises: MeanFieldError where too many nodes
    would be needed.
    """
    places, L = factor(cov)
    sizes = [counts[p] for p in places]
    grid = _affordable(_Rule(slopes, L, sizes, order, grid, False))
    fine, coarse = (_Rule(slopes, L, sizes, order, grid, which).value() for which in (False, True))
    back = np.argsort(places)
    value = np.transpose(fine, back)
    error = (SLOW if len(slopes.breaks) else 1.0) * np.transpose(np.abs(fine - coarse), back)
    scale = _scale(slopes, cov, counts, order, grid)
    return value, error + ROUNDING * scale, scale


def _affordable(rule: _Rule) -> WhitenedGrid:
    """The grid, with nodes as far apart as their number asks for.

    Raises: MeanFieldError where that is too far.
    """
    grid, nodes, panels = rule.grid, rule.nodes(), len(rule.slopes.breaks) > 0
    while nodes > MOST_NODES[panels] and not panels and grid.spacing < WIDER * rule.grid.spacing:
        grid = replace(grid, spacing=1.1 * grid.spacing)
        nodes = replace(rule, grid=grid).nodes()
    if nodes > MOST_NODES[panels]:
        raise MeanFieldError(
            f"Averages of {rule.slopes.name} over {len(rule.L)} inputs are not available: they would need {nodes:.0e} "
            "nodes; take a smaller sigma_w, sigma_b or inputs."
        )
    return grid


def _scale(slopes: Slopes, cov: np.ndarray, counts: Sequence[int], order: int, grid: WhitenedGrid) -> np.ndarray:
    """Π of the root mean squares of the factors, to the powers that Hölder's inequality asks for."""
    total, found = sum(counts), np.ones(())
    for e, count in enumerate(counts):
        x, w = grid.axis(math.sqrt(cov[e, e]), False) if cov[e, e] > 0 else (np.zeros(1), np.ones(1))
        f = np.abs(slopes.products(order, count, math.sqrt(cov[e, e]) * x))
        found = np.multiply.outer(found, ((w * f ** (total / count)).sum(axis=-1)) ** (count / total))
    return found


@dataclass(eq=False)
class _Rule:
    """One rule for the variables in the order of their factor L."""

    slopes: Slopes
    L: np.ndarray
    counts: Sequence[int]
    order: int
    grid: WhitenedGrid
    coarse: bool
    _table: tuple[np.ndarray, float, float] | None = None

    def value(self) -> np.ndarray:
        size = len(self.L)
        explicit = size - 1
        x, w = self._axis(0, np.zeros((1, size))) if explicit else (np.zeros((1, 1)), np.ones((1, 1)))
        x, w = x[0], w[0]
        rows = max(1, CHUNK // max(1, self.nodes() // len(x)))
        self._prepare(explicit, self.nodes())
        parts = [self._part(x[i : i + rows], w[i : i + rows], explicit) for i in range(0, len(x), rows)]
        return np.sum(parts, axis=0)

    def _part(self, x: np.ndarray, w: np.ndarray, explicit: int) -> np.ndarray:
        """The share of some nodes of the first axis."""
        size, L = len(self.L), self.L
        means = x[:, None] * L[:, 0] if explicit else np.zeros((1, size))  # of all variables, given the axes so far
        weights, parts = w, []
        for j in range(explicit):
            if j:
                x, w = self._axis(j, means)
                means = means[..., None, :] + x[..., None] * L[:, j]
                weights = w
            f = self.slopes.products(self.order, self.counts[j], means[..., j])
            parts.append(f * weights)
        total = self._inner(means[..., -1])  # (monomials, axis 1, …)
        letters = "xyz"[: max(explicit, 1)]
        if not explicit:
            return total[..., 0]
        inner = total
        found = "t"
        for j in range(explicit - 1, -1, -1):
            own, axes = "abc"[j], letters[: j + 1]
            inner = np.einsum(f"{own}{axes},{found}{axes}->{own}{found}{letters[:j]}", parts[j], inner)
            found = own + found
        return inner

    # ------------------------------------------------------------------------------------------------------- axes

    def _axis(self, j: int, means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and weights of axis j, one row for each place of the axes before."""
        if not len(self.slopes.breaks):
            x, w = self.grid.axis(float(np.abs(self.L[:, j]).max()), self.coarse)
            shape = (*means.shape[:-1], len(x))
            return np.broadcast_to(x, shape), np.broadcast_to(w, shape)
        if not self.L[:, j].any():
            return np.zeros((*means.shape[:-1], 1)), np.ones((*means.shape[:-1], 1))
        return self._panels(self._edges(j, means))

    def _edges(self, j: int, means: np.ndarray) -> np.ndarray:
        """Where panels of axis j end: equally apart, and where this variable or a later one crosses a break."""
        reach, L = self.grid.reach, self.L
        base = np.linspace(-reach, reach, 1 + math.ceil(2 * reach / PANEL))
        found = [np.broadcast_to(base, (*means.shape[:-1], len(base)))]
        for a, sharp in self._crossings(j):
            for b in self.slopes.breaks:
                centre = (b - means[..., a, None]) / L[a, j]
                found.append(centre + sharp * EDGES if sharp > 0 else centre)
        edges = np.sort(np.clip(np.concatenate(found, axis=-1), -reach, reach), axis=-1)
        flat = edges.reshape(-1, edges.shape[-1])
        used = (np.diff(flat, axis=-1) > 0).any(axis=0)  # panels that are empty at every place
        return edges[..., np.concatenate([[True], used])] if not used.all() else edges

    def _panels(self, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        t, w = np.polynomial.legendre.leggauss(ORDERS[self.coarse])
        half = np.diff(edges, axis=-1)[..., None] / 2
        middle = (edges[..., 1:] + edges[..., :-1])[..., None] / 2
        x = middle + half * t
        weights = half * w * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        shape = (*edges.shape[:-1], -1)
        return x.reshape(shape), weights.reshape(shape)

    def _crossings(self, j: int) -> list[tuple[int, float]]:
        """Which variables cross their breaks on axis j, and within which width, if it is small."""
        found = []
        for a in range(j, len(self.L)):
            if self.L[a, j] != 0:
                sharp = math.sqrt(float((self.L[a, j + 1 :] ** 2).sum())) / abs(float(self.L[a, j]))
                found += [(a, sharp)] if sharp < SHARP else []
        return found

    def nodes(self) -> int:
        """How many nodes the axes have together, at most, but for the last variable's."""
        total = 1
        for j in range(len(self.L) - 1):
            if not self.L[:, j].any():
                continue
            if not len(self.slopes.breaks):
                total *= len(self.grid.axis(float(np.abs(self.L[:, j]).max()), self.coarse)[0])
            else:
                edges = sum(len(EDGES) if sharp > 0 else 1 for _, sharp in self._crossings(j)) * len(self.slopes.breaks)
                total *= (math.ceil(2 * self.grid.reach / PANEL) + edges) * ORDERS[self.coarse]
        return total

    # --------------------------------------------------------------------------------------------- the last variable

    def _prepare(self, explicit: int, nodes: int) -> None:
        """A table of the last variable's average over its conditional mean, where that is cheaper than all means."""
        last = float(self.L[-1, -1])
        reach = (self.grid.reach + 0.1) * float(np.abs(self.L[-1, :explicit]).sum())
        if last == 0 or reach == 0:
            return
        step = self.grid.spacing / FINER if not len(self.slopes.breaks) else last / FINER
        step = min(step, reach / POINTS) / (COARSER if self.coarse else 1.0)
        count = 2 * math.ceil(reach / step) + 2 * POINTS
        if count > LARGEST_TABLE:
            count, step = LARGEST_TABLE, 2 * reach / (LARGEST_TABLE - 2 * POINTS)
        if 2 * count > nodes:
            return
        start = -step * (count - 1) / 2
        t = start + step * np.arange(count)
        self._table = (self._average(t), start, step)

    def _inner(self, means: np.ndarray) -> np.ndarray:
        if self._table is None:
            return self._average(means)
        values, start, step = self._table
        return interpolated(values, start, step, np.ascontiguousarray(means).ravel()).reshape(-1, *means.shape)

    def _average(self, means: np.ndarray) -> np.ndarray:
        """Over the last variable, given its mean: one row for each product."""
        last, count = float(self.L[-1, -1]), self.counts[-1]
        if last == 0:
            return self.slopes.products(self.order, count, means)
        flat, parts = means.reshape(-1), []
        lone = _Rule(self.slopes, np.array([[last]]), (count,), self.order, self.grid, self.coarse)
        for i in range(0, flat.size, BLOCK):
            some = flat[i : i + BLOCK, None]
            x, w = lone._axis(0, some)
            parts.append((self.slopes.products(self.order, count, some + last * x) * w).sum(axis=-1))
        return np.concatenate(parts, axis=-1).reshape(-1, *means.shape)


_BINOMIALS = np.array([(-1) ** k * comb(POINTS - 1, k) for k in range(POINTS)], dtype=float)


@njit(cache=True, error_model="numpy")
def interpolated(table, start, step, x):
    """Rows of a table at equally spaced points, read at x by local polynomials through `POINTS` of them."""
    rows, count = table.shape
    points = _BINOMIALS.shape[0]
    out = np.empty((rows, x.shape[0]))
    for i in range(x.shape[0]):
        t = (x[i] - start) / step
        first = min(max(int(np.floor(t)) - points // 2 + 1, 0), count - points)
        hit, total = -1, 0.0
        weights = np.empty(points)
        for k in range(points):
            gap = t - (first + k)
            if gap == 0.0:
                hit = k
                break
            weights[k] = _BINOMIALS[k] / gap
            total += weights[k]
        for row in range(rows):
            if hit >= 0:
                out[row, i] = table[row, first + hit]
            else:
                value = 0.0
                for k in range(points):
                    value += weights[k] * table[row, first + k]
                out[row, i] = value / total
    return out
