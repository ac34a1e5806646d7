r"""Averages over pairs of tokens: f_s(z_s) and f_t(z_t) of jointly Gaussian z with means, for any functions.

z_t = m_t + sd_t ξ_t. With the coefficients a_n(t) = ⟨f_t(m_t + sd_t ξ) h_n(ξ)⟩ of orthonormal Hermite polynomials (the
mean is inside), ⟨f_s f_t⟩ − ⟨f_s⟩⟨f_t⟩ = Σ_{n ≥ 1} a_n(s) a_n(t) ρ_st^n by Mehler's formula, so that all pairs share
the one-dimensional integrals of their tokens. What N coefficients leave out is, by Schwarz's inequality, at most
|ρ|^{N+1} √(r_s r_t), r_t = Var f_t − Σ_{n ≤ N} a_n(t)²: known, since the variance is integrated directly. The diagonal
(ρ = 1) is that variance. Slopes f′ have coefficients of their own.

The integrals are over 14-point Legendre panels that end at breaks of f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit

from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.numeric.tokens.functions import Elementwise

FEWEST, MOST = 32, 512  # coefficients
POINTS = 14
REACH = 10.0  # in standard deviations: e^{−50} is left out
SCALE = 4.0  # a panel is at most so many units of z wide: that is the scale on which activations change
NARROWEST = 2.0**-7  # of a panel, in standard deviations
PHASE = 6.0  # of the fastest polynomial in one panel
TOLERANCE = 1e-12  # of √(Var Var): where the series of a pair is cut
WANTED = 1e-9  # what coefficients are taken for, as far as MOST allows


@dataclass(frozen=True, eq=False)
class Expansion:
    """f_t(z_t) and its slope at every token: means (T,), coefficients n = 1 … N (T, N), and the whole variance of f and
    mean square of f′ (T,)."""

    mean: np.ndarray
    a: np.ndarray
    variance: np.ndarray
    slope: np.ndarray
    b: np.ndarray
    slope_square: np.ndarray

    def left(self, orders: int) -> np.ndarray:
        """√ of what the first coefficients leave out of the variance of f, and of that of f′: (2, T)."""
        values = self.variance - np.square(self.a[:, :orders]).sum(axis=1)
        slopes = self.slope_square - self.slope**2 - np.square(self.b[:, :orders]).sum(axis=1)
        return np.sqrt(np.maximum([values, slopes], 0.0))


    def scaled(self, a: np.ndarray, b: np.ndarray) -> Expansion:
        """That of a f + b."""
        factor = np.broadcast_to(a, self.mean.shape)
        square = factor * factor
        return Expansion(
            factor * self.mean + b,
            factor[:, None] * self.a,
            square * self.variance,
            factor * self.slope,
            factor[:, None] * self.b,
            square * self.slope_square,
        )


def expand(f: Elementwise, mean: np.ndarray, cov: np.ndarray) -> Expansion:
    """The expansion of f_t(z_t), z with these means and covariances: as many coefficients as its correlations ask for.
    """
    sd = np.sqrt(np.maximum(np.diag(cov), 0.0))
    orders = _orders(cov, sd)
    width = 1.0
    while width > NARROWEST and (width * float(sd.max(initial=0.0)) > SCALE or width * math.sqrt(orders) > PHASE):
        width /= 2
    breaks = f.breaks(mean - REACH * sd, mean + REACH * sd)
    with np.errstate(all="ignore"):
        places = (breaks - mean[:, None]) / sd[:, None]
    places = np.where(np.isfinite(places), np.clip(places, -REACH, REACH), REACH)
    if places.shape[1] == 0:
        xi, weights, basis = _shared(width, orders)
        value, slope = f.at(mean[:, None] + sd[:, None] * xi)
        first, inner = value @ weights, slope @ weights
        value, spread = value - first[:, None], slope - inner[:, None]  # nothing of the means is left to cancel
        a, b = value @ basis, spread @ basis
        return Expansion(first, a, (value * value) @ weights, inner, b, (slope * slope) @ weights)
    xi, weights = _own(width, places)
    value, slope = f.at(mean[:, None] + sd[:, None] * xi)
    first, inner = (value * weights).sum(axis=1), (slope * weights).sum(axis=1)
    value, spread = value - first[:, None], slope - inner[:, None]
    a, b = _project(xi, weights, value, spread, orders)
    square, slope_square = (value * value * weights).sum(axis=1), (slope * slope * weights).sum(axis=1)
    return Expansion(first, a, square, inner, b, slope_square)


def _orders(cov: np.ndarray, sd: np.ndarray) -> int:
    with np.errstate(all="ignore"):
        rho = np.abs(cov) / np.multiply.outer(sd, sd)
    np.fill_diagonal(rho, 0.0)
    largest = min(float(np.nanmax(rho, initial=0.0)), 1.0)
    orders = FEWEST
    while orders < MOST and largest**orders > WANTED:
        orders *= 2
    return orders


@lru_cache(maxsize=32)
def _shared(width: float, orders: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes, weights of a standard normal, and weights times h_1 … h_N at the nodes."""
    xi, weights = (one[0] for one in _own(width, np.full((1, 0), 0.0)))
    eye = np.ones((1, xi.size))
    columns = np.empty((xi.size, orders))
    below, here = eye[0], xi
    for n in range(1, orders + 1):
        columns[:, n - 1] = weights * here
        below, here = here, (xi * here - math.sqrt(n) * below) / math.sqrt(n + 1)
    return xi, weights, columns


def _own(width: float, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights (tokens, nodes) of panels that end at multiples of `width` and at the places of each token."""
    x, w = gauss_legendre(POINTS)
    even = np.arange(-REACH, REACH + width / 2, width)
    ends = np.sort(np.concatenate((np.broadcast_to(even, (len(places), even.size)), places), axis=1), axis=1)
    middle, half = (ends[:, 1:] + ends[:, :-1]) / 2, (ends[:, 1:] - ends[:, :-1]) / 2
    xi = (middle[:, :, None] + half[:, :, None] * x).reshape(len(places), -1)
    weights = (half[:, :, None] * w).reshape(len(places), -1) * np.exp(-xi * xi / 2) / math.sqrt(2 * math.pi)
    return xi, weights


@njit(cache=True, nogil=True)
def _project(xi, weights, value, slope, orders):
    tokens, nodes = xi.shape
    a, b = np.zeros((tokens, orders)), np.zeros((tokens, orders))
    for t in range(tokens):
        for i in range(nodes):
            x, w = xi[t, i], weights[t, i]
            below, here = 1.0, x
            v, s = w * value[t, i], w * slope[t, i]
            for n in range(1, orders + 1):
                a[t, n - 1] += v * here
                b[t, n - 1] += s * here
                below, here = here, (x * here - math.sqrt(n) * below) / math.sqrt(n + 1.0)
    return a, b


def pairs(one: Expansion, other: Expansion, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """(Cov(f_s, g_t), ⟨f′_s g′_t⟩, the largest error that is possible, of the root mean squares multiplied).

    rho: correlations (tokens of f, tokens of g). Where both are one expansion the diagonal is its variance.
    """
    same, orders = one is other, min(one.a.shape[1], other.a.shape[1])
    cov, slopes, worst = _sums(
        one.a, other.a, one.b, other.b, rho, one.left(orders), other.left(orders),
        one.variance, other.variance, one.slope_square, other.slope_square, same,
    )  # fmt: skip
    slopes += one.slope[:, None] * other.slope
    if same:
        np.fill_diagonal(cov, one.variance)
        np.fill_diagonal(slopes, one.slope_square)
    return cov, slopes, float(worst)


@njit(cache=True, nogil=True)
def _sums(a, a2, b, b2, rho, left, left2, v, v2, w, w2, same):
    rows, columns, orders = a.shape[0], a2.shape[0], min(a.shape[1], a2.shape[1])
    cov, slopes = np.zeros((rows, columns)), np.zeros((rows, columns))
    worst = 0.0
    cut = math.log(TOLERANCE)
    for s in range(rows):
        for t in range(s + 1 if same else 0, columns):
            r = rho[s, t]
            if r == 0.0:
                continue
            size = abs(r)
            count = orders
            if size < 1.0:
                count = min(orders, int(cut / math.log(size)) + 1)
            x, y = 0.0, 0.0
            for n in range(count - 1, -1, -1):
                x = (x + a[s, n] * a2[t, n]) * r
                y = (y + b[s, n] * b2[t, n]) * r
            cov[s, t], slopes[s, t] = x, y
            if same:
                cov[t, s], slopes[t, s] = x, y
            if count == orders:
                power = size ** (orders + 1)
                if v[s] * v2[t] > 0.0:
                    worst = max(worst, power * left[0, s] * left2[0, t] / math.sqrt(v[s] * v2[t]))
                if w[s] * w2[t] > 0.0:
                    worst = max(worst, power * left[1, s] * left2[1, t] / math.sqrt(w[s] * w2[t]))
    return cov, slopes, worst
