"""Quadrature nodes and interpolation weights that are the same doubles on every machine.

NumPy's own (`leggauss`, `inv`, `@`) go through LAPACK and BLAS, whose kernels differ from one CPU to the next in their
last bits. Here they are computed in 50 digits and rounded once; products with them are elementwise IEEE operations with
the rounding put back, so that no order of summation is left to a library.
"""

from __future__ import annotations

from functools import lru_cache

import mpmath as mp
import numpy as np

from meanfield.base.precision import decimals

_DIGITS = 50


@lru_cache(maxsize=8)
def gauss_legendre(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (increasing) and weights of the n-point Gauss–Legendre rule on [-1, 1], correctly rounded.

    >>> x, w = gauss_legendre(2)
    >>> float(x[1]) == 3**-0.5, w.tolist()
    (True, [1.0, 1.0])
    """
    nodes, weights = np.empty(n), np.empty(n)
    with decimals(_DIGITS):
        for k in range((n + 1) // 2):
            x = mp.mpf(0) if 2 * k + 1 == n else mp.cos(mp.pi * (k + mp.mpf(3) / 4) / (n + mp.mpf(1) / 2))
            for _ in range(7):  # Newton from Tricomi's guess: 4 digits, then twice as many each time
                value, slope = _legendre(n, x)
                x -= value / slope
            nodes[n - 1 - k], nodes[k] = float(x), float(-x)
            weights[n - 1 - k] = weights[k] = float(2 / ((1 - x * x) * _legendre(n, x)[1] ** 2))
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


def _legendre(n: int, x):
    """(P_n(x), P_n'(x)) by the three-term recurrence."""
    before, here = mp.mpf(1), x
    for k in range(1, n):
        before, here = here, ((2 * k + 1) * x * here - k * before) / (k + 1)
    return here, n * (x * here - before) / (x * x - 1)


@lru_cache(maxsize=4)
def chebyshev_to_power(degree: int) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """(t, (M, m)): the Chebyshev points t and the matrix M + m (m: what M rounds away) that turns values at them into
    coefficients of powers, row i for the value at t[i]."""
    n = degree + 1
    with decimals(_DIGITS):
        points = [mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n)]
        t = np.array([float(p) for p in points])
        # Lagrange's polynomials of the doubles t, not of the points they were rounded from
        high, low = np.empty((n, n)), np.empty((n, n))
        for i in range(n):
            x, poly = mp.mpf(t[i]), [mp.mpf(1)]
            for j in range(n):
                if j != i:
                    y = mp.mpf(t[j])
                    shifted = [mp.mpf(0), *poly]
                    poly = [(a - y * b) / (x - y) for a, b in zip(shifted, [*poly, mp.mpf(0)])]
            high[i] = [float(c) for c in poly]
            low[i] = [float(c - mp.mpf(h)) for c, h in zip(poly, high[i].tolist())]
    return t, (high, low)


def exact_product(values: np.ndarray, matrix: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """values @ (M + m), as if in twice the precision and rounded once: (rows, n) × (n, k) → (rows, k).

    Elementwise operations in a fixed order, so that the bits do not depend on a BLAS. Rows whose products leave the
    range of doubles are summed plainly.
    """
    high, low = matrix
    total = np.zeros((values.shape[0], high.shape[1]))
    plain, rest = total.copy(), total.copy()
    with np.errstate(all="ignore"):
        for i in range(values.shape[1]):
            v = values[:, i, None]
            product, lost = two_product(v, high[i])
            plain += v * high[i]
            summed = total + product
            back = summed - total
            rest += ((total - (summed - back)) + (product - back)) + (lost + v * low[i])
            total = summed
        out = total + rest
    return np.where(np.isfinite(out), out, plain)


def two_product(a, b):
    """(p, e) with p + e = a·b exactly (Dekker), as long as nothing overflows."""
    p = a * b
    a1, b1 = _upper(a), _upper(b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def _upper(a):
    t = 134217729.0 * a
    return t - (t - a)


@lru_cache(maxsize=4)
def half_gauss(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, ∞) for the mean over |x| of a standard normal x, correctly rounded.

    >>> x, w = half_gauss(4)
    >>> float(abs(w.sum() - 1)) < 1e-15, float(abs((w * x**6).sum() - 15)) < 1e-13
    (True, True)
    """
    with decimals(4 * _DIGITS):
        moments = [2 ** (mp.mpf(k) / 2) * mp.gamma(mp.mpf(k + 1) / 2) / mp.sqrt(mp.pi) for k in range(2 * n)]
        hankel = mp.matrix(n, n)
        for i in range(n):
            for j in range(n):
                hankel[i, j] = moments[i + j]
        tail = mp.lu_solve(hankel, mp.matrix([-m for m in moments[n:]]))  # the orthogonal polynomial's coefficients
        nodes = sorted(mp.re(r) for r in mp.polyroots([1, *reversed(list(tail))], maxsteps=500, extraprec=1000))
        powers = mp.matrix(n, n)
        for i in range(n):
            for j in range(n):
                powers[i, j] = nodes[j] ** i
        weights = mp.lu_solve(powers, mp.matrix(moments[:n]))
        out = np.array([float(x) for x in nodes]), np.array([float(w) for w in weights])
    out[0].flags.writeable = out[1].flags.writeable = False
    return out
