"""Compiled sums over Hermite series: many pairs of one row at a time, and one pair of inputs that are close."""

from __future__ import annotations

import math

from numba import njit

WANTED = 2e-15  # of √(⟨f²⟩⟨g²⟩): what the terms left out may add
NEAR = 1e-5  # relative difference of standard deviations up to which coefficients differ by their derivative


@njit(cache=True, error_model="numpy", nogil=True)
def terms(ladder, slopes, left, right, b0, m, c, flags):
    """The number of terms (of the whole series) that m pairs with correlations c take; flags those that none serves.

    left: tails (2, rungs) of the row's input; right: (2, rungs, inputs) of the columns'.
    """
    top = ladder.size - 1
    which = 1 if slopes else 0
    most, tail = 0.0, 0.0
    for i in range(m):
        size = abs(c[i])
        bound = left[which, top] * right[which, top, b0 + i]
        if bound > WANTED and not bound * size ** (ladder[top] - slopes) <= WANTED:
            flags[b0 + i] = 2
            continue
        most = max(most, size)
    for j in range(ladder.size):
        tail = 0.0
        for i in range(m):
            tail = max(tail, right[which, j, b0 + i] if flags[b0 + i] != 2 else 0.0)
        bound = left[which, j] * tail
        if bound <= WANTED or bound * most ** (ladder[j] - slopes) <= WANTED:
            return ladder[j]
    return ladder[top]


@njit(cache=True, error_model="numpy", nogil=True)
def sums(a, b, b0, m, c, first, step, count, S, D, u, slopes):
    """S[i] = Σ_k a_k b_k c^k over the first `count` orders, and its derivative D[i] by c; u: room for a tile."""
    orders = min((count - first + step - 1) // step, a.size, b.shape[0])
    for i in range(m):
        u[i] = c[i] * c[i] if step == 2 else c[i]
        S[i] = 0.0
        D[i] = 0.0
    for j in range(orders - 1, -1, -1):
        own, row = a[j], b[j]
        if slopes:
            for i in range(m):
                D[i] = D[i] * u[i] + S[i]
                S[i] = S[i] * u[i] + own * row[b0 + i]
        else:
            for i in range(m):
                S[i] = S[i] * u[i] + own * row[b0 + i]
    if step == 2:
        for i in range(m):
            D[i] *= 2.0 * c[i]
    if first == 1:
        for i in range(m):
            D[i] = S[i] + c[i] * D[i]
            S[i] *= c[i]


@njit(cache=True, error_model="numpy", nogil=True)
def close(a, b, s, t, between, gap, first, step, out):
    """Of two inputs of standard deviations s, t (s - t = between, exactly) and correlation 1 - gap: out =
    (⟨f_a f_b⟩, its derivative by c, Σ a_k b_k (1 - c^k)/gap, Σ (a_k - b_k)², Σ (a_k² - b_k²)/(s - t)).

    Nothing cancels: where s and t are nearly the same, coefficients differ by the mean of their derivatives.
    """
    c = 1.0 - gap
    S, D, P, H, squares, rise = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    orders = min(a.size, b.size)
    derived = abs(between) <= NEAR * min(s, t)
    two = 2 // step
    left, right = 0.5 / s, 0.5 / t
    for j in range(orders - 1, -1, -1):
        k = first + step * j
        x, y = a[j], b[j]
        p = x * y
        if derived:
            # s ∂a_k/∂s = k a_k + √((k+1)(k+2)) a_{k+2}
            up = math.sqrt((k + 1.0) * (k + 2.0))
            xx, yy = (a[j + two], b[j + two]) if j + two < orders else (0.0, 0.0)
            d = (k * x + up * xx) * left + (k * y + up * yy) * right
        else:
            d = (x - y) / between
        squares += d * d
        rise += d * (x + y)
        # the next lower powers of c: every power from k down to k - step + 1 sees the same P
        D = D * c + S
        S = S * c + p
        P += p
        if k > 0:
            H = H * c + P
        if step == 2 and k >= 2:
            D = D * c + S
            S = S * c
            H = H * c + P
    out[0], out[1], out[2], out[3], out[4] = S, D, H, squares * between * between, rise
    if first == 1:
        out[1] = out[1] * c + out[0]
        out[0] = out[0] * c
