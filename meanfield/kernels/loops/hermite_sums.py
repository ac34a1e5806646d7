"""Compiled sums over Hermite series: many pairs of one row at a time, and one pair of inputs that are close."""

from __future__ import annotations

import math

from numba import njit

from meanfield.kernels.loops.pair_loops import WANTED

ALIKE = 1e-12  # squared share of a correction up to which the next one is left out
COEFFICIENT = 1e-15  # of the root of ⟨f²⟩: rounding of a coefficient
MISSED = 1e-12  # of a distance: what differences of coefficients may miss
MISSING = 1e-13  # of a distance: what the terms left out may add
ROUNDED = 1e-15  # 1 + c of opposite inputs


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
def moved(a, k, j, two):
    """k a_k + √((k+1)(k+2)) a_{k+2} = s ∂a_k/∂s, k the order of a[j]."""
    up = a[j + two] if j + two < a.size else 0.0
    return k * a[j] + math.sqrt((k + 1.0) * (k + 2.0)) * up


@njit(cache=True, error_model="numpy", nogil=True)
def differences(a, b, s, t, between, first, step, d):
    """d[j] = (a_k - b_k)/(s - t), s - t = between; returns what its root mean square misses of it, at most.

    Of close s and t it is the trapezoid rule in log s with its first correction, whose square is the next one's size;
    else the difference, which keeps what rounding leaves of it.
    """
    two = 2 // step
    h = math.log1p(between / t) if between > -0.5 * t else math.log(s / t)
    per = h / between if between != 0.0 else 1.0 / t
    total, wrong, size = 0.0, 0.0, 0.0
    for j in range(d.size):
        k = first + step * j
        x, y = moved(a, k, j, two), moved(b, k, j, two)
        xx = moved(a, k + 2.0, j + two, two) if j + two < a.size else 0.0
        yy = moved(b, k + 2.0, j + two, two) if j + two < b.size else 0.0
        up = math.sqrt((k + 1.0) * (k + 2.0))
        turning = h / 12.0 * (k * (x - y) + up * (xx - yy))
        d[j] = (0.5 * (x + y) - turning) * per
        total += d[j] * d[j]
        wrong += (turning * per) ** 2
        size += max(a[j] * a[j], b[j] * b[j])
    if wrong <= ALIKE * total:
        return wrong / total if total > 0.0 else 0.0
    total = 0.0
    for j in range(d.size):
        d[j] = (a[j] - b[j]) / between
        total += d[j] * d[j]
    return COEFFICIENT * math.sqrt(size / total) / abs(between) if total > 0.0 else math.inf


@njit(cache=True, error_model="numpy", nogil=True)
def close(a, b, s, t, between, gap, first, step, left, right, top, d, out):
    """Of two inputs of standard deviations s, t (s - t = between, exactly) and correlation 1 - gap: out =
    (⟨f_a f_b⟩, its derivative by c, 2Σ a_k b_k (1 - c^k), Σ (a_k - b_k)², Σ (a_k² - b_k²)/(s - t), Σ (a_k √(|b|/|a|) -
    b_k √(|a|/|b|))²); whether the terms that series leave out change none of them. left, right: the roots of the tails
    of ⟨f²⟩ and of V⟨f′²⟩ from `top` terms on; d: room for the orders.

    Nothing cancels: of close s and t coefficients differ by their derivatives, and of an even f opposite inputs are the
    same one.
    """
    even = step == 2 and first == 0 and gap > 1.0
    if even:
        gap = 2.0 - gap if gap < 2.0 - ROUNDED else 0.0
    c = 1.0 - gap
    S, D, P, H = 0.0, 0.0, 0.0, 0.0
    one, other, rising, falling = 0.0, 0.0, 0.0, 0.0
    orders = min(a.size, b.size)
    for j in range(orders - 1, -1, -1):
        k = first + step * j
        x, y = a[j], b[j]
        p = x * y
        one += x * x
        other += y * y
        rising += k * x * x
        falling += k * y * y
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
    out[0], out[1], out[2] = S, D, 2.0 * gap * H
    if first == 1:
        out[1] = out[1] * c + out[0]
        out[0] = out[0] * c
    if even:
        out[1] = -out[1]
    moves = d[:orders]
    missed = differences(a, b, s, t, between, first, step, moves)
    size, less = math.sqrt(one), math.sqrt(other)
    squares, quotient, direction_part = 0.0, 0.0, 0.0
    for j in range(orders):
        squares += moves[j] * moves[j]
        quotient += moves[j] * (a[j] + b[j])
    if size * less > 0.0:
        share, back = math.sqrt(less / size), quotient / (size + less) / math.sqrt(size * less)
        for j in range(orders):
            direction_part += (share * moves[j] - back * b[j]) ** 2
    out[3], out[4], out[5] = squares * between * between, quotient, direction_part * between * between
    whole = out[2] + out[3]
    if out[3] * missed > MISSED * whole:
        return False
    # what is left out: of a difference at most the sum of the tails, or what their derivatives leave
    A, B = left[0] * size, right[0] * less
    steep = max(left[1] * math.sqrt(rising), right[1] * math.sqrt(falling))
    beyond = 4.0 * top * (steep * between / min(s, t)) ** 2
    norms = min((A + B) ** 2, beyond)
    weighed = min((A * math.sqrt(less / size) + B * math.sqrt(size / less)) ** 2, beyond) if size * less > 0.0 else 0.0
    directions = min(4.0 * A * B, 2.0 * gap * left[1] * right[1] * math.sqrt(rising * falling))
    if max(norms, weighed) + directions > MISSING * min(whole, size * less):
        return False
    return (A + B) * math.sqrt(norms) <= MISSING * math.sqrt(whole) * min(size, less)
