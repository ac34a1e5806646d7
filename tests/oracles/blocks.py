"""The judge of laws with further terms: K and log J of a residual block by exact steps, to 13 digits over 10^6 blocks
and more. NumPy and Numba only; averages by its own quadrature in log |z|, interpolated by Chebyshev pieces in log q.
"""

import math

import numpy as np
from numba import njit

DEGREE = 14
WIDTH = 0.5  # of a piece, in log q


def averages(f, low: float, high: float) -> np.ndarray:
    """Chebyshev coefficients of ⟨f²⟩_q on pieces of log q from low to high, one row a piece: trapezoid in log |z|."""
    nodes = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    rows = []
    for left in np.arange(low, high, WIDTH):
        values = [average_at(f, math.exp(left + WIDTH * (x + 1) / 2)) for x in nodes]
        rows.append(np.polynomial.chebyshev.chebfit(nodes, values, DEGREE))
    return np.array(rows)


def average_at(f, q: float) -> float:
    """⟨f²⟩_q."""
    u = np.arange(-45.0, 0.5 * math.log(2 * 800.0) + 0.02, 0.02)
    x = np.exp(u)
    z = x * math.sqrt(q)
    weight = np.exp(u - 0.5 * x * x) * 0.02 / math.sqrt(2 * math.pi)
    return math.fsum((f(z) ** 2 + f(-z) ** 2) * weight)


@njit(cache=False)
def _at(rows, low, g):
    x = (g - low) / WIDTH
    i = int(x)
    t = 2 * (x - i) - 1
    c = rows[i]
    b1, b2 = 0.0, 0.0
    for k in range(DEGREE, 0, -1):
        b1, b2 = 2 * t * b1 - b2 + c[k], b1
    return t * b1 - b2 + c[0]


@njit(cache=False)
def steps(square, slope, low, s, beta, K, stops):
    """Rows (K before block l, q in it, log J over the blocks before it) at l = stops, increasing; σ²'s and β's in the
    order v, w, a, b. Sums are compensated."""
    out = np.empty((len(stops), 3))
    J, ck, cj, at = 0.0, 0.0, 0.0, 0
    for m in range(1, stops[-1] + 1):
        t = math.log(m)
        q = s[1] * math.exp(-beta[1] * t) * K + (s[3] * math.exp(-beta[3] * t) if s[3] > 0 else 0.0)
        if m == stops[at]:
            out[at] = K, q, J
            at += 1
            if at == len(stops):
                break
        g = math.log(q)
        v = s[0] * math.exp(-beta[0] * t)
        gain = v * _at(square, low, g) + (s[2] * math.exp(-beta[2] * t) if s[2] > 0 else 0.0) - ck
        new = K + gain
        ck, K = (new - K) - gain, new
        gain = math.log1p(v * s[1] * math.exp(-beta[1] * t) * _at(slope, low, g)) - cj
        new = J + gain
        cj, J = (new - J) - gain, new
    return out


@njit(cache=False)
def slow_flow(square, slope, low, S, source, d, q, stops):
    """Rows (log q, log J) at log l = stops for dq/dlog l = S⟨φ²⟩_q + source - d q from log l = 60, where steps and flow
    are the same to 26 digits: Runge–Kutta in log log l, log q carried."""
    x, y, J, h = math.log(60.0), math.log(q), 0.0, 0.002
    out = np.empty((len(stops), 2))
    for i in range(len(stops)):
        n = max(1, math.ceil((math.log(stops[i]) - x) / h))
        step = (math.log(stops[i]) - x) / n
        for _ in range(n):
            a, b = np.empty(4), np.empty(4)
            z, t = y, x
            for k in range(4):
                size = math.exp(t)
                a[k] = size * ((S * _at(square, low, z) + source) * math.exp(-z) - d)
                b[k] = size * S * _at(slope, low, z)
                ahead = step if k == 2 else step / 2
                if k < 3:
                    z, t = y + ahead * a[k], x + ahead
            y += step * (a[0] + 2 * a[1] + 2 * a[2] + a[3]) / 6
            J += step * (b[0] + 2 * b[1] + 2 * b[2] + b[3]) / 6
            x += step
        out[i] = y, J
    return out
