"""The judge of large-depth laws: K, q and J of a residual block by exact steps to 10^5 blocks, then as a flow in log l
with their logarithms carried, to log l of thousands. NumPy and Numba only; averages by its own quadrature in log z.
"""

import math

import numpy as np
from numba import njit

STEP = 0.25  # of log q in the tables
EDGE = 300.0  # log q at the ends of the tables


def table(f, per: int) -> np.ndarray:
    """log(⟨f²⟩_q/q^per) on a grid of log q from -EDGE to EDGE: trapezoid in u = log |z|."""
    grid = np.arange(-EDGE, EDGE + STEP / 2, STEP)
    out = np.empty_like(grid)
    with np.errstate(all="ignore"):
        for i, g in enumerate(grid):
            u = np.arange(min(g / 2, 0.0) - 40.0, g / 2 + 2.5, 0.08)
            z = np.exp(u)
            values = np.abs(f(z)) ** 2 + np.abs(f(-z)) ** 2
            weight = np.exp(u - g / 2 - 0.5 * np.exp(2 * u - g)) * 0.08 / math.sqrt(2 * math.pi)
            out[i] = math.log(np.nansum(values * weight)) - per * g
    return out


@njit(cache=False)
def _at(values, g):
    x = (g + EDGE) / STEP
    i = int(min(max(x, 1.0), len(values) - 3.0))
    t = x - i
    a, b, c, d = values[i - 1], values[i], values[i + 1], values[i + 2]
    if x < 0 or x > len(values) - 1:  # far out: a + b·g + c·log|g| through three places; rounding is no power
        n, far = len(values), 1.0 if x > 0 else -1.0
        at2, at3 = (5 * n // 6, 2 * n // 3) if x > 0 else (n // 6, n // 3)
        one, two, three = values[n - 1 if x > 0 else 0], values[at2], values[at3]
        g1, g2, g3 = EDGE, abs(at2 * STEP - EDGE), abs(at3 * STEP - EDGE)
        l1, l2, l3 = math.log(g1), math.log(g2), math.log(g3)
        c = ((one - two) * (g2 - g3) - (two - three) * (g1 - g2)) / ((l1 - l2) * (g2 - g3) - (l2 - l3) * (g1 - g2))
        slope = (one - two - c * (l1 - l2)) / (g1 - g2)
        c, slope = 0.0 if abs(c) < 1e-7 else c, 0.0 if abs(slope) < 1e-9 else slope
        return one + slope * (far * g - g1) + c * (math.log(far * g) - l1)
    return b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))


@njit(cache=False)
def _both(a, b):
    """log(e^a + e^b)."""
    top = max(a, b)
    return top + math.log(math.exp(a - top) + math.exp(b - top))


@njit(cache=False)
def _rates(t, P, square, slope, s, beta, norm):
    """log q and the logarithms of K'/K - 1 and J'/J - 1 of a block at log l = t. Nothing of the size of log K is
    subtracted. s: logarithms of the σ²; norm: 1 for a LayerNorm before the inner Dense, 2 for one after it, else 0."""
    above = s[1] - beta[1] * t - (P if norm == 1 else 0.0)  # log(q/K)
    if s[3] > -math.inf:
        above = _both(above, s[3] - beta[3] * t - P)
    g = P + above
    inside, most = (0.0, -P) if norm == 2 else (g, above)  # of what φ is given: its log variance, over K
    rate = s[0] - beta[0] * t + _at(square, inside) + most
    if s[2] > -math.inf:
        rate = _both(rate, s[2] - beta[2] * t - P)
    x = s[0] + s[1] - (beta[0] + beta[1]) * t + _at(slope, inside)
    return g, rate, x - (P if norm == 1 else g if norm == 2 else 0.0)


@njit(cache=False)
def _log1p(x, t):
    """e^t log(1 + e^x)."""
    if x < -40:
        return math.exp(t + x)
    return math.exp(t) * (math.log1p(math.exp(x)) if x < 30 else x)


@njit(cache=False)
def follow(square, slope, s, beta, K, stops, h, norm=0):
    """Rows (log K, log q, log J) at log l = stops (increasing, > log 10^5): of block l, J over the blocks before it."""
    return follow_logs(square, slope, np.log(s), beta, K, stops, h, norm, 100_000)


@njit(cache=False)
def follow_logs(square, slope, s, beta, K, stops, h, norm, first):
    """The same with log σ² for σ², and `first` exact steps."""
    P, J = math.log(K), 0.0
    for m in range(1, first):
        _, rate, x = _rates(math.log(m), P, square, slope, s, beta, norm)
        P += _log1p(rate, 0.0)
        J += _log1p(x, 0.0)
    t, out = math.log(first), np.empty((len(stops), 3))
    for i, stop in enumerate(stops):
        n = max(1, math.ceil((stop - t) / h))
        d = (stop - t) / n
        for _ in range(n):
            k1, j1 = _slopes(t, P, square, slope, s, beta, norm)
            k2, j2 = _slopes(t + d / 2, P + d / 2 * k1, square, slope, s, beta, norm)
            k3, j3 = _slopes(t + d / 2, P + d / 2 * k2, square, slope, s, beta, norm)
            k4, j4 = _slopes(t + d, P + d * k3, square, slope, s, beta, norm)
            P += d * (k1 + 2 * k2 + 2 * k3 + k4) / 6
            J += d * (j1 + 2 * j2 + 2 * j3 + j4) / 6
            t += d
        g, _, _ = _rates(t, P, square, slope, s, beta, norm)
        out[i] = P, g, J
    return out


@njit(cache=False)
def _slopes(t, P, square, slope, s, beta, norm):
    """d log K/dt, d log J/dt."""
    _, rate, x = _rates(t, P, square, slope, s, beta, norm)
    return _log1p(rate, t), _log1p(x, t)
