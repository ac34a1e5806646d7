r"""⟨φ^(i)(z_a) φ^(j)(z_b)⟩ with derivatives in the weak sense, where φ has breaks.

φ^(i) is its classical part and Σ_b Σ_{k<i} Δ_k δ^{(i−1−k)}(z − b), Δ_k the jump of φ^(k) at b. With N the density
of (z_a, z_b), ⟨δ^{(r)}(z_a − s) g(z_b)⟩ is the integral of g (−∂_s)^r N(s, ·): Hermite polynomials times N. Of one
variable ⟨∂^p f⟩ = ⟨f He_p(z/√K)⟩ K^{−p/2}, f = φ^(i) φ^(j) a function.
"""

from __future__ import annotations

import math

import numpy as np

from meanfield.numeric.quadrature.covariances.slopes import Slopes
from meanfield.numeric.quadrature.covariances.whitened import ROUNDING, WhitenedGrid, product_averages

MEETING = 1e-12  # 1 − c² below it: breaks of both variables meet, and their deltas with them


def weak_pair(
    slopes: Slopes, cov: np.ndarray, highest: int, grid: WhitenedGrid
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values, errors, scales)[i, j] of ⟨φ^(i)(z_1) φ^(j)(z_2)⟩, i, j ≤ highest; infinite where deltas meet."""
    value, error, scale = product_averages(slopes, cov, (1, 1), highest, grid)
    added = np.zeros_like(scale)
    for one, two in ((0, 1), (1, 0)):
        swapped = cov[[one, two]][:, [one, two]]
        for i, s in enumerate(slopes.breaks):
            for r in range(highest):
                deltas = [(k, slopes.jumps[i, k]) for k in range(highest) if slopes.jumps[i, k] != 0]
                orders = [(k + 1 + r, step) for k, step in deltas if k + 1 + r <= highest]
                if not orders:
                    continue
                against = _against(slopes, swapped, float(s), r, highest, grid)
                for order, step in orders:
                    with np.errstate(invalid="ignore"):  # ∞ - ∞ where deltas meet
                        part = step * against
                        row = order if one == 0 else (slice(None), order)
                        value[row] += part
                        added[row] += np.abs(part)
    met = np.array([[_met(slopes, cov, i, j) for j in range(highest + 1)] for i in range(highest + 1)])
    with np.errstate(invalid="ignore"):
        added += np.abs(met)
        return value + met, error + ROUNDING * added, scale + added


def _against(slopes: Slopes, cov: np.ndarray, s: float, r: int, highest: int, grid: WhitenedGrid) -> np.ndarray:
    """∫ φ^(j)(y) (−∂_s)^r N(s, y) dy for j = 0 … highest, φ^(j) the classical derivatives."""
    first = float(cov[0, 0])
    rest = max(float(cov[1, 1]) - float(cov[0, 1]) ** 2 / first, 0.0)
    density = math.exp(-0.5 * s * s / first) / math.sqrt(2 * math.pi * first)
    mean = cov[0, 1] / first * s
    if rest <= MEETING * cov[1, 1]:
        if r == 0:
            here = np.full(1, mean)
            sides = [slopes.upto(highest, here + way * 1e-9 * (1 + abs(mean)))[:, 0] for way in (-1.0, 1.0)]
            return density * (sides[0] + sides[1]) / 2  # a break met on either side with equal weight
        return np.full(highest + 1, math.inf)
    from_mean, w = _line(slopes, mean, math.sqrt(rest), grid)
    y = mean + from_mean
    determinant = first * rest
    slope = (cov[1, 1] * s - cov[0, 1] * y) / determinant
    return density * (slopes.upto(highest, y) * (w * _hermite(slope, float(cov[1, 1]) / determinant, r))).sum(axis=-1)


def _line(slopes: Slopes, mean: float, deviation: float, grid: WhitenedGrid) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (less the mean) and weights of a normal variable, in panels that end at the breaks."""
    reach = grid.reach * deviation
    cuts = [b - mean for b in slopes.breaks if abs(b - mean) < reach]
    edges = np.unique([*np.linspace(-reach, reach, 11), *cuts])
    t, w = np.polynomial.legendre.leggauss(16)
    half = np.diff(edges)[:, None] / 2
    x = ((edges[1:] + edges[:-1])[:, None] / 2 + half * t).ravel()
    weights = (half * w).ravel() * np.exp(-0.5 * (x / deviation) ** 2) / (math.sqrt(2 * math.pi) * deviation)
    return x, weights


def _hermite(slope: np.ndarray, curvature: float, r: int) -> np.ndarray:
    """(−∂)^r N / N, where −∂ N = slope·N and the derivative of the slope is the curvature."""
    before, here = np.zeros_like(slope), np.ones_like(slope)
    for k in range(r):
        before, here = here, slope * here - k * curvature * before
    return here


def _met(slopes: Slopes, cov: np.ndarray, i: int, j: int) -> float:
    """The deltas of both variables: Σ Δ_k Δ_m (−∂_s)^{i−1−k} (−∂_t)^{j−1−m} N(s, t)."""
    total = 0.0
    determinant = float(cov[0, 0] * cov[1, 1] - cov[0, 1] ** 2)
    for one, s in enumerate(slopes.breaks):
        for k in (k for k in range(i) if slopes.jumps[one, k] != 0):
            for two, t in enumerate(slopes.breaks):
                for m in (m for m in range(j) if slopes.jumps[two, m] != 0):
                    if determinant <= MEETING * cov[0, 0] * cov[1, 1]:
                        return math.inf
                    step = slopes.jumps[one, k] * slopes.jumps[two, m]
                    total += step * _density(cov / determinant, determinant, float(s), float(t), i - 1 - k, j - 1 - m)
    return total


def _density(scaled: np.ndarray, determinant: float, s: float, t: float, r: int, q: int) -> float:
    """(−∂_s)^r (−∂_t)^q of the density of two variables; `scaled`: the covariance over its determinant."""
    a, b, c = scaled[1, 1], -scaled[0, 1], scaled[0, 0]  # the inverse of the covariance
    first, second = a * s + b * t, b * s + c * t
    table = np.zeros((r + 1, q + 1))
    table[0, 0] = 1.0
    for i in range(r + 1):
        for j in range(q + 1):
            if i:
                table[i, j] = first * table[i - 1, j] - (i - 1) * a * (table[i - 2, j] if i > 1 else 0.0)
                table[i, j] -= j * b * (table[i - 1, j - 1] if j else 0.0)
            elif j:
                table[i, j] = second * table[i, j - 1] - (j - 1) * c * (table[i, j - 2] if j > 1 else 0.0)
    density = math.exp(-0.5 * (s * first + t * second)) / (2 * math.pi * math.sqrt(determinant))
    return float(table[r, q]) * density


def weak_single(
    slopes: Slopes, variance: float, highest: int, grid: WhitenedGrid
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values, errors, scales)[i, j, p] of ⟨∂^p (φ^(i) φ^(j))⟩ of one variable, i, j ≤ 1, p ≤ highest."""
    deviation = math.sqrt(variance)
    x, w = _line(slopes, 0.0, deviation, grid)
    base = slopes.upto(1, x)
    value, scale = np.zeros((2, 2, highest + 1)), np.zeros((2, 2, highest + 1))
    for p in range(highest + 1):
        weighted = w * _hermite(x / deviation, 1.0, p) / deviation**p
        terms = base[:, None] * base[None] * weighted
        value[..., p], scale[..., p] = terms.sum(axis=-1), np.abs(terms).sum(axis=-1)
    return value, ROUNDING * scale, scale
