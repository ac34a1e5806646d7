"""Kernels of functions with kinks near full correlation, against recursions in mpmath that know no series and no table:
a conditional mean in closed form, integrated once more."""

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

from meanfield import derive
from meanfield.base.symbols import Z
from meanfield.functions.activations import activation
from meanfield.functions.piecewise import pieces
from meanfield.kernels import near_sums, nearby

W, B = sp.Rational(7, 10), sp.Rational(3, 10)


def _part(m, s, lo, hi, power):
    """∫ uᵖ over lo < u < hi of N(m, s²), p = 0, 1, 2."""
    a, b = (lo - m) / s, (hi - m) / s
    p = (mp.erfc(a / mp.sqrt(2)) - mp.erfc(b / mp.sqrt(2))) / 2
    if a < 0:
        p = (mp.erfc(-b / mp.sqrt(2)) - mp.erfc(-a / mp.sqrt(2))) / 2
    da, db = (mp.npdf(t) if mp.isfinite(t) else mp.mpf(0) for t in (a, b))
    if power == 0:
        return p
    first = m * p + s * (da - db)
    if power == 1:
        return first
    ends = (a * da if mp.isfinite(a) else 0) - (b * db if mp.isfinite(b) else 0)
    return m * m * p + 2 * m * s * (da - db) + s * s * (p + ends)


def _elu(u):
    return u if u > 0 else mp.expm1(u)


def _elu_slope(u):
    return mp.mpf(1) if u > 0 else mp.exp(u)


def _elu_mean(m, s):
    below = mp.exp(m + s * s / 2) * mp.erfc((m / s + s) / mp.sqrt(2)) / 2
    return _part(m, s, 0, mp.inf, 1) + below - _part(m, s, -mp.inf, 0, 0)


def _elu_slope_mean(m, s):
    return _part(m, s, 0, mp.inf, 0) + mp.exp(m + s * s / 2) * mp.erfc((m / s + s) / mp.sqrt(2)) / 2


def _swish(u):
    return u if u >= 3 else mp.mpf(0) if u <= -3 else u * (u + 3) / 6


def _swish_slope(u):
    return mp.mpf(1) if u >= 3 else mp.mpf(0) if u <= -3 else (2 * u + 3) / 6


def _swish_mean(m, s):
    return _part(m, s, 3, mp.inf, 1) + (_part(m, s, -3, 3, 2) + 3 * _part(m, s, -3, 3, 1)) / 6


def _swish_slope_mean(m, s):
    return _part(m, s, 3, mp.inf, 0) + (2 * _part(m, s, -3, 3, 1) + 3 * _part(m, s, -3, 3, 0)) / 6


KNOWN = {
    "elu": ((0,), _elu, _elu_mean, _elu_slope, _elu_slope_mean),
    "hard_swish": ((-3, 3), _swish, _swish_mean, _swish_slope, _swish_slope_mean),
}


def _average(breaks, f, mean, A, B, gap):
    """⟨f(z_a) f(z_b)⟩ at 1 - c = gap by a conditional mean; panels end at kinks, and where these are smoothed."""
    s, t = mp.sqrt(A), mp.sqrt(B)
    c, rest = 1 - gap, mp.sqrt(gap * (2 - gap))
    edges = {mp.mpf(k) for k in range(-12, 13, 2)}
    for b in breaks:
        for k in (0, 0.5, 2, 5, 12) if rest < 0.3 else (0,):
            edges |= {b / s, b / (t * c) + k * rest, b / (t * c) - k * rest}
    edges = sorted(e for e in edges if abs(e) <= 12)
    edges = [e for i, e in enumerate(edges) if i == 0 or e > edges[i - 1]]
    if gap == 0:
        value = lambda x: mp.npdf(x) * f(s * x) ** 2  # noqa: E731
    else:
        value = lambda x: mp.npdf(x) * f(s * x) * mean(t * c * x, t * rest)  # noqa: E731
    return mp.quad(value, edges, maxdegree=5)


def oracle(name, X, depth):
    """[(K_aa, K_bb, gap, K_ab, Theta_ab)] at layers 1 … depth."""
    breaks, f, mean, slope, slope_mean = KNOWN[name]
    w, b = mp.mpf(7) / 10, mp.mpf(3) / 10
    x, y = ([mp.mpf(float(v)) for v in row] for row in X)
    dot = lambda p, q: w**2 * mp.fdot(p, q) / len(p) + b**2  # noqa: E731
    A, C, AB = dot(x, x), dot(y, y), dot(x, y)
    theta, out = AB, []
    for _ in range(depth):
        gap = 1 - AB / mp.sqrt(A * C)
        out.append((A, C, gap, AB, theta))
        rate = w**2 * _average(breaks, slope, slope_mean, A, C, gap)
        AB = w**2 * _average(breaks, f, mean, A, C, gap) + b**2
        A, C = (w**2 * _average(breaks, f, mean, v, v, 0) + b**2 for v in (A, C))
        theta = AB + rate * theta
    return out


def pair(exponent, equal):
    """Two inputs with 1 - c of about 10^exponent, of one norm or of two."""
    e = 10.0 ** (exponent / 2)
    if equal:
        return np.array([[1.0, e], [1.0, -e]])
    return np.array([[1.3, -0.4, 0.2, 0.9], [1.3 + 2.1 * e, -0.4 + 1.4 * e, 0.2, 0.9 - 0.7 * e]])
