"""The judge of the law of max/min over the diagonal blocks of the Fisher information: largest and smallest squared
gradients per entry, by exact steps to 10^5 blocks, then along the flow of `flow`."""

import math

import numpy as np
from numba import njit

from tests.oracles.flow import _at, _log1p, _rates, _slopes

GROUPS = ("w of the inner Dense", "b of the inner Dense", "w of the outer Dense", "b of the outer Dense")


@njit(cache=False)
def _gradients(t, P, J, square, slope, s, beta, norm, out):
    """log G of the four groups in block l = e^t over J^{1,L}; s: logarithms of the σ²."""
    g, _, _ = _rates(t, P, square, slope, s, beta, norm)
    inside = 0.0 if norm == 2 else g
    through = s[0] - beta[0] * t + _at(slope, inside) - J - (g if norm == 2 else 0.0)
    out[0], out[1] = through + (0.0 if norm == 1 else P), through
    out[2], out[3] = _at(square, inside) + inside - J, -J


@njit(cache=False)
def _widen(found, held, ends):
    for i in range(4):
        if held[i]:
            ends[0], ends[1] = max(ends[0], found[i]), min(ends[1], found[i])


@njit(cache=False)
def spread(square, slope, s, beta, K, held, stops, h):
    """log(max/min) over blocks 1 … l and the groups that are held, at log l = stops (increasing, > log 10^5)."""
    return spread_logs(square, slope, np.log(s), beta, K, held, stops, h, 0, 100_000)


@njit(cache=False)
def spread_logs(square, slope, s, beta, K, held, stops, h, norm, first):
    """The same with log σ² for σ², a LayerNorm as in `flow`, and `first` exact steps."""
    P, J, found = math.log(K), 0.0, np.empty(4)
    ends = np.array([-np.inf, np.inf])
    for m in range(1, first):
        t = math.log(m)
        _gradients(t, P, J, square, slope, s, beta, norm, found)
        _widen(found, held, ends)
        _, rate, x = _rates(t, P, square, slope, s, beta, norm)
        P += _log1p(rate, 0.0)
        J += _log1p(x, 0.0)
    t, out = math.log(first), np.empty(len(stops))
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
            _gradients(t, P, J, square, slope, s, beta, norm, found)
            _widen(found, held, ends)
        out[i] = ends[0] - ends[1]
    return out
