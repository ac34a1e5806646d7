r"""Numbers behind `ClassFraction`: mixtures of binomials, Var G_0 of any number of classes, its law for three or more.

Everywhere μ_k ~ N(0, γ) are centres in units of σ_y and `root` is √γ, positive and finite. An input goes to class 0
when μ_0 + ε_0 exceeds every μ_k + ε_k. Of two classes G_0 = Φ(x) with x ~ N(0, γ).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, log_ndtr, ndtr, ndtri, owens_t

HALF_LOG_2PI = 0.5 * np.log(2 * np.pi)
DROP = 42.0  # e-folds below its maximum at which an integrand is cut off
SHIFTS, POINTS, LEAST, BITS = 16, 1024, 64, 30  # quasi-random points: random shifts, points a shift, at least, bits
STEP, REACH = 0.125, 14.0  # of the trapezoid rule in one input's score, the largest of up to 10⁴ of which is narrow
LEFT, RIGHT = -38.0, 9.0  # Φ of these are the smallest double and 1
_GAUSS = np.polynomial.legendre.leggauss(14)
SMALL = 1e-7  # √γ below which G_0 - 1/C is linear in the centres, to 1e-7 of itself: one table serves all of them

Function = Callable[[np.ndarray], np.ndarray]


def _halving() -> np.ndarray:
    """The ends of panels of (0, 1) that halve towards 0: what is steep near the maximum is resolved there."""
    return np.concatenate(([0.0], 0.5 ** np.arange(44, 3, -1), np.arange(1, 9) / 8))


def _nodes(ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gauss nodes and weights of the panels between rising ends, along the last axis."""
    width = np.diff(ends)[..., None] / 2
    shape = (*ends.shape[:-1], -1)
    return (ends[..., :-1, None] + width * (1 + _GAUSS[0])).reshape(shape), (width * _GAUSS[1]).reshape(shape)


def _stirling(n: np.ndarray) -> np.ndarray:
    """log n! less Stirling's formula, for n ≥ 1."""
    near = np.minimum(n, 16.0)
    exact = gammaln(near + 1) - (near + 0.5) * np.log(near) + near - HALF_LOG_2PI
    y = 1 / np.maximum(n, 16.0)
    far = y * (1 / 12 - y**2 * (1 / 360 - y**2 * (1 / 1260 - y**2 * (1 / 1680 - y**2 / 1188))))
    return np.where(n < 16, exact, far)


def _mills(x: np.ndarray) -> np.ndarray:
    """φ/Φ, the slope of log Φ."""
    return np.exp(-0.5 * x * x - HALF_LOG_2PI - log_ndtr(x))


def _binomial_average(
    k: np.ndarray, m: int, rest: Function, slope: Function, span: float, factor: Function | None = None,
    cuts: np.ndarray | None = None,
) -> np.ndarray:
    """∫ C(m, k) Φ(x)^k Φ(−x)^(m−k) e^rest(x) factor(x) dx for k ≤ m/2, with rest concave of `slope`.

    Without the factor the integrand is log-concave: its one maximum and the two places where it has fallen by e^DROP
    are found by bisection, and panels halve towards the maximum. span: rest curves at least as −x²/(2 span²); cuts:
    ends of further panels, a row for each k, between which the factor is smooth.
    """
    k = np.asarray(k, dtype=float)[:, None]
    some = k > 0
    p = k / max(m, 1)

    def log_f(x: np.ndarray) -> np.ndarray:
        off = ndtr(x) - p  # one difference for both logarithms, so that its rounding cancels in their sum
        hits = np.where(some, k * np.log1p(np.maximum(off / np.where(some, p, 1.0), -1.0)), 0.0)
        return hits + (m - k) * np.log1p(-off / (1 - p)) + rest(x)

    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        one = np.where(some, k, 1.0)
        other = np.maximum(m - one, 1.0)
        peak = _stirling(np.maximum(m, 1.0)) - _stirling(one) - _stirling(other) + 0.5 * np.log(m / one / other)
        peak = np.where(some, peak - HALF_LOG_2PI, 0.0)
        low, high = np.full_like(k, -40.0), np.full_like(k, 40.0)
        for _ in range(100):
            x = (low + high) / 2
            up = k * _mills(x) - (m - k) * _mills(-x) + slope(x) > 0
            low, high = np.where(up, x, low), np.where(up, high, x)
        top = (low + high) / 2
        least = log_f(top) - DROP
        nodes, weights = _nodes(_halving())
        total, reach = np.zeros(len(k)), []
        for sign in (-1, 1):
            low, high = np.full_like(k, np.log(1e-30)), np.full_like(k, np.log(10 * span))
            for _ in range(40):
                x = (low + high) / 2
                inside = log_f(top + sign * np.exp(x)) > least
                low, high = np.where(inside, x, low), np.where(inside, high, x)
            far = np.exp(high)
            reach.append(sign * far)
            if factor is None:
                total += far[:, 0] * (np.exp(log_f(top + sign * far * nodes) + peak) @ weights)
        if factor is None:
            return total
        assert cuts is not None
        ends = [top + reach[0] * _halving()[::-1], np.clip(cuts, top + reach[0], top + reach[1])]
        x, weights = _nodes(np.sort(np.concatenate([*ends, top + reach[1] * _halving()], axis=1), axis=1))
        return np.einsum("kx,kx,kx->k", np.exp(log_f(x) + peak), factor(x), weights)


def _by_rows(count: np.ndarray, function: Callable[[np.ndarray], np.ndarray], rows: int = 256) -> np.ndarray:
    """A function of a flat array of counts, a few at a time, so that its arrays of nodes stay small."""
    parts = [function(count[i : i + rows]) for i in range(0, len(count), rows)]
    return np.concatenate(parts) if parts else np.zeros(0)


def pmf_of_two(k: np.ndarray, n: int, root: float) -> np.ndarray:
    """P(k of n inputs go to class 0 of two), for whole k in [0, n]."""
    a = max(root, 1e-9 / n)  # below it differs from a binomial by less than 1e-17 of itself

    def rest(x: np.ndarray) -> np.ndarray:
        return -0.5 * (x / a) ** 2 - np.log(a) - HALF_LOG_2PI

    def one(k: np.ndarray) -> np.ndarray:
        return _binomial_average(k, n, rest, lambda x: -(x / a) / a, a)

    return _by_rows(np.minimum(k, n - k), one)


def _of_order(n: int, x: np.ndarray) -> np.ndarray:
    """What makes C(n−1, k) Φ^k Φ^(n−1−k) the density of the (k+1)-st smallest of n standard normal numbers."""
    return np.log(n) - 0.5 * x * x - HALF_LOG_2PI


def cdf_of_two(k: np.ndarray, n: int, root: float) -> np.ndarray:
    """P(at most k of n inputs go to class 0 of two), for whole k in [0, n): x ~ N(0, γ) lies below the (k+1)-st
    smallest of n standard normal numbers."""
    a = max(root, 1e-9 / n)

    def rest(x: np.ndarray) -> np.ndarray:
        return _of_order(n, x) + log_ndtr(x / a)

    def one(k: np.ndarray) -> np.ndarray:
        return _binomial_average(k, n - 1, rest, lambda x: -x + _mills(x / a) / a, 1.0)

    tail = _by_rows(np.minimum(k, n - 1 - k), one)
    return np.where(2 * k <= n - 1, tail, 1 - tail)


def cdf_of_counts(k: np.ndarray, n: int, law: Function, cuts: np.ndarray) -> np.ndarray:
    """P(at most k of n inputs go to class 0), for whole k in [0, n), from law(v) = P(G_0 ≤ Φ(v)); cuts: rising v
    between which the law is smooth (for few inputs it rises within a small part of where they are)."""

    def one(k: np.ndarray) -> np.ndarray:
        late = 2 * k > n - 1  # the mirror image
        sign = np.where(late, -1.0, 1.0)[:, None]
        return _binomial_average(
            np.where(late, n - 1 - k, k), n - 1, lambda x: _of_order(n, x), lambda x: -x, 1.0, lambda x: law(sign * x),
            sign * cuts,
        )  # fmt: skip

    return _by_rows(k, one)


def variance(classes: int, angle: float) -> float:
    """P(input a and input b go to class 0) − 1/C² for scores of correlation r = sin(angle) between the inputs.

    Its derivative in r is the sum over the scores of class k of E[∂_k f(u) ∂_k f(v)], f the indicator of class 0: a
    sum of positive integrals over the plane, so that a small variance keeps its digits. Coordinates p, m are the
    independent standard normal sum and difference of the two scores, u = Ap + Bm, v = Ap − Bm.
    """
    step = 0.125
    p, m = np.arange(-6.5, 11.5, step)[:, None], np.arange(step / 2, 9.0, step)[None, :]
    total = 0.0
    for node, weight in zip(*np.polynomial.legendre.leggauss(24)):
        theta = angle * (1 + node) / 2
        r, A, B = np.sin(theta), np.cos(np.pi / 4 - theta / 2), np.sin(np.pi / 4 - theta / 2)
        u, v, to_v, to_u = A * p + B * m, A * p - B * m, B * p - A * m, B * p + A * m
        with np.errstate(divide="ignore"):
            both = (ndtr(u) + ndtr(v)) / 2 - owens_t(u, to_v / u) - owens_t(v, to_u / v) - np.where(u * v < 0, 0.5, 0)
        both = np.clip(both, 0.0, 1.0)  # P(both scores of another class are below u and v)
        same = 2 * np.exp(-(p**2) - m**2) * both ** (classes - 2)
        mixed = np.exp(-((2 + r) * p**2 + (2 - r) * m**2) / 2) * ndtr(to_v) * ndtr(to_u) * both ** max(classes - 3, 0)
        total += weight * float(np.sum(same + (classes - 2) * np.cos(theta) * mixed))
    return float((classes - 1) * total * step**2 * angle / (4 * math.pi**2))  # m < 0 is the mirror image: 2/2


def _scores() -> np.ndarray:
    return np.arange(-REACH, REACH + STEP / 2, STEP)


def _behind(gaps: np.ndarray) -> np.ndarray:
    """∏_k Φ(y + gap_k) on the grid of y, for rows of gaps."""
    y = _scores()
    product = np.ones((len(gaps), len(y)))
    for gap in gaps.T:
        product *= ndtr(y + gap[:, None])
    return product


def fractions_at(centres: np.ndarray, root: float, rows: int = 4096) -> np.ndarray:
    """G_0 for rows of centres (class 0 first), standard normal numbers of which root times is μ."""
    weights = STEP * np.exp(-0.5 * _scores() ** 2 - HALF_LOG_2PI)
    gaps = np.clip(root * (centres[:, :1] - centres[:, 1:]), -1e3, 1e3)
    return np.clip(_by_rows(gaps, lambda g: _behind(g) @ weights, rows), 0.0, 1.0)


def centre(classes: int) -> float:
    """Φ⁻¹(1/C), from which the v of a table count."""
    return float(ndtri(1 / classes))


@lru_cache(maxsize=4)
def table(classes: int, root: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(v, P(G_0 ≤ Φ(centre + v)), its derivative in v), the last two once for each random shift.

    G_0 grows with μ_0 less the mean of the other centres, which does not depend on how these lie about their mean:
    given that, G_0 ≤ g exactly where the difference ≤ m(g), so that the law is the average of Φ(m(g)/its spread) over
    quasi-random points of C − 2 coordinates. m is read off a table of G_0 in w, the height of μ_0 above `base`.
    """
    from scipy.linalg import helmert
    from scipy.stats import qmc

    if root < SMALL:
        v, below, slope = table(classes, SMALL)
        return v * (root / SMALL), below, slope * (SMALL / root)
    count = max(LEAST, min(POINTS, 1 << int(np.log2(16 * POINTS / (classes - 1)))))
    points = (qmc.Sobol(classes - 2, scramble=False, bits=BITS).random(count) * 2.0**BITS).astype(np.int64)
    shifts = np.random.default_rng(0).integers(0, 1 << BITS, (SHIFTS, 1, classes - 2))
    contrasts, spread = helmert(classes - 1), root * (classes / (classes - 1)) ** 0.5
    wide = root >= 1
    w = np.arange(-9.0, 11.0, STEP) if wide else np.linspace(-9.0, 9.0, 73) * root
    kernel = STEP * np.exp(-0.5 * (_scores()[:, None] - w) ** 2 - HALF_LOG_2PI)
    moved = kernel * (_scores()[:, None] - w)  # the derivative in w
    middle = centre(classes)
    low, high = max(LEFT, -4 - 8 * root) - middle, RIGHT - middle
    if not wide:
        low, high = max(low, -14 * root), min(high, 14 * root)
    v = np.linspace(low, high, 192)
    below, slope = np.empty((SHIFTS, len(v))), np.empty((SHIFTS, len(v)))
    for i, shift in enumerate(shifts):
        z = ndtri(((points ^ shift) + 0.5) / 2.0**BITS) @ contrasts  # a digital shift keeps the net
        base = z.max(axis=1, keepdims=True) if wide else np.zeros((count, 1))
        product = _behind(np.clip(root * (base - z), -1e3, 1e3))
        g = product @ kernel + ndtr(w - REACH - STEP / 2)
        at = ndtri(np.minimum(g, 1 - 1e-16))
        inverse = np.exp(-0.5 * at**2 - HALF_LOG_2PI) / (product @ moved + kernel[-1] / STEP)  # dw/dv
        place, speed = _inverse(at - middle, w, inverse, v)
        x = (root * base + place) / spread
        below[i] = ndtr(x).mean(axis=0)
        slope[i] = (np.exp(-0.5 * x * x - HALF_LOG_2PI) * speed).mean(axis=0) / spread
    return v, below, slope


def _inverse(at: np.ndarray, w: np.ndarray, inverse: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each row of `at`, a rising function of w, reaches the targets, and dw/dtarget there; straight outside."""
    i = np.clip(np.stack([np.searchsorted(row, target) for row in at]) - 1, 0, len(w) - 2)
    left, right, before, after = (np.take_along_axis(a, k, 1) for a in (at, inverse) for k in (i, i + 1))
    with np.errstate(all="ignore"):  # where the row no longer rises; not taken
        place, speed = _cubic(target, left, right, w[i], w[i + 1], before, after)
    under, over = target < left, target > right
    place = np.where(under, w[i] + before * (target - left), np.where(over, w[i + 1] + after * (target - right), place))
    return place, np.where(under, before, np.where(over, after, speed))


def _cubic(x, x0, x1, y0, y1, d0, d1) -> tuple[np.ndarray, np.ndarray]:
    """The cubic with values y and slopes d at x0 and x1, and its slope, at x."""
    h = np.maximum(x1 - x0, 1e-300)
    t, rise = (x - x0) / h, (y1 - y0) / h
    a, b = d0 + d1 - 2 * rise, 3 * rise - 2 * d0 - d1
    return y0 + h * t * (d0 + t * (b + t * a)), d0 + t * (2 * b + 3 * t * a)


def interpolated(v: np.ndarray, below: np.ndarray, slope: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The law of a `table` and its derivative at x, for one row or their mean; constant outside."""
    inside = np.clip(x, v[0], v[-1])
    i = np.clip(np.searchsorted(v, inside) - 1, 0, len(v) - 2)
    value, rate = _cubic(inside, v[i], v[i + 1], below[i], below[i + 1], slope[i], slope[i + 1])
    return np.clip(value, 0.0, 1.0), np.where(inside == x, np.maximum(rate, 0.0), 0.0)
