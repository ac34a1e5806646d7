"""The judge of large-depth laws: K, q and J of a residual block by exact steps to 10^5 blocks, then as a flow in log l
with their logarithms carried, to log l of thousands. NumPy and Numba only; averages by its own quadrature in log z.
"""

import math

import numpy as np
from numba import njit

STEP = 0.1  # of log q in the tables
EDGE = 300.0  # log q at the ends of the tables


def table(f, per: int) -> np.ndarray:
    """log(⟨f²⟩_q/q^per) on a grid of log q from -EDGE to EDGE: trapezoid in u = log |z|."""
    grid = np.arange(-EDGE, EDGE + STEP / 2, STEP)
    out = np.empty_like(grid)
    with np.errstate(all="ignore"):
        for i, g in enumerate(grid):
            u = np.arange(min(g / 2, 0.0) - 40.0, g / 2 + 2.5, 0.05)
            z = np.exp(u)
            values = np.abs(f(z)) ** 2 + np.abs(f(-z)) ** 2
            weight = np.exp(u - g / 2 - 0.5 * np.exp(2 * u - g)) * 0.05 / math.sqrt(2 * math.pi)
            out[i] = math.log(np.nansum(values * weight)) - per * g
    return out


@njit(cache=False)
def _at(values, g):
    x = (g + EDGE) / STEP
    i = int(min(max(x, 1.0), len(values) - 3.0))
    t = x - i
    a, b, c, d = values[i - 1], values[i], values[i + 1], values[i + 2]
    if x < 0 or x > len(values) - 1:  # far out it is a power: rounding must not be taken for one
        tilt = (values[i + 1] - values[i - 999] if x > 0 else values[i + 999] - values[i]) / 1000
        return b + t * (tilt if abs(tilt) > 1e-9 else 0.0)
    return b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)))


@njit(cache=False)
def _both(a, b):
    """log(e^a + e^b)."""
    top = max(a, b)
    return top + math.log(math.exp(a - top) + math.exp(b - top))


@njit(cache=False)
def _rates(t, P, square, slope, s, beta):
    """log q, the logarithm of a block's gain of K over K, a block's gain of log J, at log l = t. Nothing of the size of
    log K is subtracted."""
    above = math.log(s[1]) - beta[1] * t  # log(q/K)
    if s[3] > 0:
        above = _both(above, math.log(s[3]) - beta[3] * t - P)
    g = P + above
    rate = math.log(s[0]) - beta[0] * t + _at(square, g) + above
    if s[2] > 0:
        rate = _both(rate, math.log(s[2]) - beta[2] * t - P)
    x = math.exp(math.log(s[0] * s[1]) - (beta[0] + beta[1]) * t + _at(slope, g))
    return g, rate, math.log1p(x)


@njit(cache=False)
def follow(square, slope, s, beta, K, stops, h):
    """Rows (log K, log q, log J) at log l = stops (increasing, > log 10^5): of block l, J over the blocks before it."""
    P, J, first = math.log(K), 0.0, 100_000
    for m in range(1, first):
        _, rate, x = _rates(math.log(m), P, square, slope, s, beta)
        P += math.log1p(math.exp(rate)) if rate < 30 else rate
        J += x
    t, out = math.log(first), np.empty((len(stops), 3))
    for i, stop in enumerate(stops):
        n = max(1, math.ceil((stop - t) / h))
        d = (stop - t) / n
        for _ in range(n):
            k1, j1 = _slopes(t, P, square, slope, s, beta)
            k2, j2 = _slopes(t + d / 2, P + d / 2 * k1, square, slope, s, beta)
            k3, j3 = _slopes(t + d / 2, P + d / 2 * k2, square, slope, s, beta)
            k4, j4 = _slopes(t + d, P + d * k3, square, slope, s, beta)
            P += d * (k1 + 2 * k2 + 2 * k3 + k4) / 6
            J += d * (j1 + 2 * j2 + 2 * j3 + j4) / 6
            t += d
        g, _, _ = _rates(t, P, square, slope, s, beta)
        out[i] = P, g, J
    return out


@njit(cache=False)
def _slopes(t, P, square, slope, s, beta):
    """d log K/dt, d log J/dt: where a block multiplies K by more than e^0.001, its logarithm is what adds up."""
    _, rate, x = _rates(t, P, square, slope, s, beta)
    return math.exp(t) * (math.log1p(math.exp(rate)) if rate < 30 else rate), x * math.exp(t)
