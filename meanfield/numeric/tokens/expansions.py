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
from meanfield.numeric.tokens.token_functions import Elementwise

FEWEST, MOST = 32, 512  # coefficients
POINTS = 14
REACH = 10.0  # in standard deviations: e^{−50} is left out
SCALE = 4.0  # a panel is at most so many units of z wide: that is the scale on which activations change
NARROWEST = 2.0**-9  # of a panel, in standard deviations
PHASE = 6.0  # of the fastest polynomial in one panel
TOLERANCE = 1e-12  # of √(Var Var): where the series of a pair is cut
WANTED = 1e-9  # what coefficients are taken for, as far as MOST allows


@dataclass(frozen=True, eq=False)
class HermiteExpansion:
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

    def scaled(self, a: np.ndarray, b: np.ndarray) -> HermiteExpansion:
        """That of a f + b."""
        factor = np.broadcast_to(a, self.mean.shape)
        square = factor * factor
        return HermiteExpansion(
            factor * self.mean + b,
            factor[:, None] * self.a,
            square * self.variance,
            factor * self.slope,
            factor[:, None] * self.b,
            square * self.slope_square,
        )


def expand(f: Elementwise, mean: np.ndarray, cov: np.ndarray) -> HermiteExpansion:
    """The expansion of f_t(z_t), z with these means and covariances, with as many coefficients as correlations ask."""
    sd = np.sqrt(np.maximum(np.diag(cov), 0.0))
    orders = _orders(cov, sd)
    far = float(np.max(f.first_deviation(sd), initial=0.0))
    width = 1.0
    while width > NARROWEST and (width * math.sqrt(orders) > PHASE or (f.oscillates and width * far > SCALE)):
        width /= 2
    ends = mean - REACH * sd, mean + REACH * sd
    breaks = f.breaks(*ends)
    if width * far > SCALE and not f.oscillates:  # what happens near z = 0 is narrow in standard deviations
        levels = [0.0, *(sign * 2.0**k for k in range(-1, math.ceil(math.log2(width * far)) + 1) for sign in (-1, 1))]
        breaks = np.concatenate((breaks, *(f.crossings(level, *ends) for level in levels)), axis=1)
    with np.errstate(all="ignore"):
        places = np.sort((breaks - mean[:, None]) / sd[:, None], axis=1)
    xi, weights, basis = _shared(width, orders)
    own, own_weights, whole = _around(places, width)
    value, slope = f.at(mean[:, None] + sd[:, None] * xi)
    shared = weights if places.shape[1] == 0 else weights * np.repeat(whole, POINTS, axis=1)
    first, inner = (shared * value).sum(axis=1), (shared * slope).sum(axis=1)
    if places.shape[1]:
        there, steep = f.at(mean[:, None] + sd[:, None] * own)
        first, inner = first + (own_weights * there).sum(axis=1), inner + (own_weights * steep).sum(axis=1)
    value, spread = value - first[:, None], slope - inner[:, None]  # nothing of the means is left to cancel
    square, slope_square = (shared * value * value).sum(axis=1), (shared * slope * slope).sum(axis=1)
    if places.shape[1] == 0:
        return HermiteExpansion(first, value @ basis, square, inner, spread @ basis, slope_square)
    value, spread = (one * np.repeat(whole, POINTS, axis=1) for one in (value, spread))
    there = there - first[:, None]
    a, b = _project(own, own_weights, there, steep - inner[:, None], orders)
    square, slope_square = (
        square + (own_weights * there * there).sum(axis=1),
        slope_square + (own_weights * steep * steep).sum(axis=1),
    )
    return HermiteExpansion(first, a + value @ basis, square, inner, b + spread @ basis, slope_square)


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
    ends = np.arange(-REACH, REACH + width / 2, width)
    xi, weights = _panels(ends[:-1], ends[1:])
    columns = np.empty((xi.size, orders))
    below, here = np.ones_like(xi), xi
    for n in range(1, orders + 1):
        columns[:, n - 1] = weights * here
        below, here = here, (xi * here - math.sqrt(n) * below) / math.sqrt(n + 1)
    return xi, weights, columns


def _panels(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes, and weights of a standard normal, of panels (…, panels): (…, nodes)."""
    x, w = gauss_legendre(POINTS)
    middle, half = (high + low) / 2, (high - low) / 2
    xi = (middle[..., None] + half[..., None] * x).reshape(*low.shape[:-1], -1)
    weights = (half[..., None] * w).reshape(*low.shape[:-1], -1) * np.exp(-xi * xi / 2) / math.sqrt(2 * math.pi)
    return xi, weights


def _around(places: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Panels that hold a break are cut there: nodes and weights of their pieces (tokens, nodes), and which of the even
    panels are whole (tokens, panels). places: sorted for each token."""
    count = round(2 * REACH / width)
    inside = np.abs(places) < REACH  # not a nan, either
    place = np.where(inside, places, REACH)
    panel = np.where(inside, np.clip(np.floor((place + REACH) / width), 0, count - 1), count).astype(int)
    left, right = panel * width - REACH, np.minimum((panel + 1) * width - REACH, REACH)
    before, after = np.full_like(place, -np.inf), np.full_like(place, np.inf)
    before[:, 1:], after[:, :-1] = place[:, :-1], place[:, 1:]
    low, last = np.maximum(left, before), after >= right
    place = np.where(inside, place, right)
    pieces = (
        np.stack((np.where(inside, low, right), place), axis=2),
        np.stack((place, np.where(last, right, place)), axis=2),
    )
    xi, weights = _panels(*(one.reshape(len(place), -1) for one in pieces))
    whole = np.ones((len(place), count + 1))
    np.put_along_axis(whole, panel, 0.0, axis=1)
    return xi, weights, whole[:, :-1]


@njit(cache=True, nogil=True)
def _project(xi, weights, value, slope, orders):
    tokens, nodes = xi.shape
    a, b = np.zeros((tokens, orders)), np.zeros((tokens, orders))
    root = np.sqrt(np.arange(orders + 2.0))
    for t in range(tokens):
        for i in range(nodes):
            x, w = xi[t, i], weights[t, i]
            below, here = 1.0, x
            v, s = w * value[t, i], w * slope[t, i]
            for n in range(1, orders + 1):
                a[t, n - 1] += v * here
                b[t, n - 1] += s * here
                below, here = here, (x * here - root[n] * below) / root[n + 1]
    return a, b


def pairs(one: HermiteExpansion, other: HermiteExpansion, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
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
