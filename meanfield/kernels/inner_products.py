"""Inner products of inputs, and how far two inputs are apart, in one order of summation on every machine."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

SQUARE = 32  # rows and columns of what is turned over at a time


@njit(cache=True, nogil=True)
def gram(X, columns, first, scale, shift, out):
    """out[a, b] = scale·Σ_k X[a, k] columns[k, b] + shift, for b from first[a] on; four terms at a time, in order, and
    four rows that begin together, so that `columns`, which no cache near the processor holds, are read once for them.
    """
    fours = X.shape[1] - X.shape[1] % 4
    together = 0
    while together + 4 <= X.shape[0] and (first[together : together + 4] == first[together]).all():
        _four_rows(X[together : together + 4], columns, first[together], scale, shift, out[together : together + 4])
        together += 4
    for a in range(together, X.shape[0]):
        row, at = out[a, first[a] :], first[a]
        for b in range(row.size):
            row[b] = 0.0
        for k in range(0, fours, 4):
            x, y, z, w = X[a, k], X[a, k + 1], X[a, k + 2], X[a, k + 3]
            p, q, r, s = columns[k, at:], columns[k + 1, at:], columns[k + 2, at:], columns[k + 3, at:]
            for b in range(row.size):
                row[b] = (((row[b] + x * p[b]) + y * q[b]) + z * r[b]) + w * s[b]
        for k in range(fours, X.shape[1]):
            x, other = X[a, k], columns[k, at:]
            for b in range(row.size):
                row[b] += x * other[b]
        for b in range(row.size):
            row[b] = scale * row[b] + shift


@njit(cache=True, nogil=True)
def _four_rows(X, columns, at, scale, shift, out):
    """`gram` of four rows."""
    fours = X.shape[1] - X.shape[1] % 4
    a, b, c, d = out[0, at:], out[1, at:], out[2, at:], out[3, at:]
    for i in range(a.size):
        a[i], b[i], c[i], d[i] = 0.0, 0.0, 0.0, 0.0
    for k in range(0, fours, 4):
        p, q, r, s = columns[k, at:], columns[k + 1, at:], columns[k + 2, at:], columns[k + 3, at:]
        a0, a1, a2, a3 = X[0, k], X[0, k + 1], X[0, k + 2], X[0, k + 3]
        b0, b1, b2, b3 = X[1, k], X[1, k + 1], X[1, k + 2], X[1, k + 3]
        c0, c1, c2, c3 = X[2, k], X[2, k + 1], X[2, k + 2], X[2, k + 3]
        d0, d1, d2, d3 = X[3, k], X[3, k + 1], X[3, k + 2], X[3, k + 3]
        for i in range(a.size):
            a[i] = (((a[i] + a0 * p[i]) + a1 * q[i]) + a2 * r[i]) + a3 * s[i]
            b[i] = (((b[i] + b0 * p[i]) + b1 * q[i]) + b2 * r[i]) + b3 * s[i]
            c[i] = (((c[i] + c0 * p[i]) + c1 * q[i]) + c2 * r[i]) + c3 * s[i]
            d[i] = (((d[i] + d0 * p[i]) + d1 * q[i]) + d2 * r[i]) + d3 * s[i]
    for k in range(fours, X.shape[1]):
        p = columns[k, at:]
        x, y, z, w = X[0, k], X[1, k], X[2, k], X[3, k]
        for i in range(a.size):
            a[i] += x * p[i]
            b[i] += y * p[i]
            c[i] += z * p[i]
            d[i] += w * p[i]
    for i in range(a.size):
        a[i], b[i], c[i], d[i] = scale * a[i] + shift, scale * b[i] + shift, scale * c[i] + shift, scale * d[i] + shift


@njit(cache=True, nogil=True)
def norms(X, out):
    """Σ_k X[a, k]², as `gram` sums it."""
    for a in range(X.shape[0]):
        total = 0.0
        for k in range(X.shape[1]):
            total += X[a, k] * X[a, k]
        out[a] = total


@njit(cache=True, nogil=True)
def pair_distances(X, Y, left, right, scale, shift, KX, KY, distance, norm_angle, across):
    """The distance of pairs; the angle that says which share of it is one of norms: sin(norm_angle)·√distance is the
    difference of the roots of K; and its cosine, which an angle near ±π/2 does not hold."""
    for p in range(left.size):
        x, y = X[left[p]], Y[right[p]]
        square, difference, along, inner, norm, other, beside = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(x.size):
            d = x[k] - y[k]
            square += d * d
            difference += d * (x[k] + y[k])
            along += d * x[k]
            inner += x[k] * y[k]
            norm += x[k] * x[k]
            other += y[k] * y[k]
        near = square < other  # of close inputs x - y says what is across, of others y
        share = (along if near else inner) / norm if norm > 0.0 else 0.0
        for k in range(x.size):  # what y has across x: of collinear inputs nothing else would have its digits
            d = (x[k] - y[k] if near else y[k]) - share * x[k]
            beside += d * d
        A, B = KX[left[p]], KY[right[p]]
        s, t = math.sqrt(A), math.sqrt(B)
        square *= scale
        distance[p] = square
        between = scale * difference / (s + t) if s + t > 0.0 else 0.0
        # 2(√(K_aa K_bb) - K_ab): of K_ab > 0 by K_aa K_bb - K_ab², x·x times the square of what is across, and of the
        # shift, in quotients that underflow nowhere
        size, product = s * t, scale * inner + shift
        direction_part = 2.0 * (size - product)
        if product > 0.0:
            over = size + product
            direction_part = 2.0 * (scale * norm / over * scale * beside + shift / over * square)
        root = math.sqrt(max(direction_part, 0.0))
        norm_angle[p] = math.atan2(between, root)
        across[p] = root / math.hypot(between, root) if root > 0.0 else 0.0


@njit(cache=True, nogil=True)
def close_at_start(K_ab, KX, KY, least, first, flags):
    """Flags pairs whose covariance does not say how far they are apart."""
    left, right = np.sqrt(KX), np.sqrt(KY)
    for a in range(K_ab.shape[0]):
        row, root, flag = K_ab[a, first[a] :], right[first[a] :], flags[a, first[a] :]
        for b in range(row.size):
            size = left[a] * root[b]
            flag[b] = 1 if size - row[b] < least * size else flag[b]


@njit(cache=True, nogil=True)
def opposite(K_ab, KX, KY, least, first):
    """The largest K of pairs with 1 + c < least; 0 where there are none."""
    left, right, largest = np.sqrt(KX), np.sqrt(KY), 0.0
    for a in range(K_ab.shape[0]):
        row, root, found = K_ab[a, first[a] :], right[first[a] :], 0
        for b in range(row.size):  # counted first: without a branch this is vector code
            size = left[a] * root[b]
            found += size + row[b] < least * size
        for b in range(row.size if found else 0):
            size = left[a] * root[b]
            if size + row[b] < least * size:
                largest = max(largest, KX[a], KY[first[a] + b])
    return largest


def flagged(flags: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows, columns) of the pairs from first[a] on that are flagged."""
    left, right = np.nonzero(flags) if flags.any() else (np.empty(0, np.int64), np.empty(0, np.int64))
    there = right >= first[left]
    return left[there], right[there]


@njit(cache=True, nogil=True)
def products(X, Y, left, right, scale, shift, out):
    """scale·x·y + shift of single pairs."""
    for p in range(left.size):
        x, y = X[left[p]], Y[right[p]]
        total = 0.0
        for k in range(x.size):
            total += x[k] * y[k]
        out[p] = scale * total + shift


@njit(cache=True, nogil=True)
def distances(K_ab, KX, KY, first, flags, out):
    """K_aa + K_bb - 2K_ab, for b from first[a] on; returns the largest √(K_aa K_bb)/distance of unflagged pairs."""
    least = np.inf
    for a in range(K_ab.shape[0]):
        for b in range(first[a], K_ab.shape[1]):
            out[a, b] = KX[a] + KY[b] - 2.0 * K_ab[a, b]
            if flags[a, b] == 0 and out[a, b] < least * (math.sqrt(KX[a]) * math.sqrt(KY[b])):
                least = out[a, b] / (math.sqrt(KX[a]) * math.sqrt(KY[b]))
    return 1.0 / least if least > 0.0 else np.inf


@njit(cache=True, nogil=True)
def mirror(values, own):
    """The upper triangle below, and the diagonal; a square at a time, which stays in the cache."""
    n = values.shape[0]
    for a0 in range(0, n, SQUARE):
        for b0 in range(a0, n, SQUARE):
            for b in range(b0, min(b0 + SQUARE, n)):
                for a in range(a0, min(a0 + SQUARE, b)):
                    values[b, a] = values[a, b]
    for a in range(n):
        values[a, a] = own[a]
