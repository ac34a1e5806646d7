"""The judge of two-input laws: log K, the logarithm of distance/K and that of K_ab, by exact steps, then as a flow in
log l. ReLU, erf and sin, whose differences have closed forms that hold every digit."""

import math

import numpy as np
from numba import njit


@njit(cache=False)
def _relu(u, r, c):
    """(⟨φ²⟩/q, ⟨(φ_a - φ_b)²⟩/d less that, ⟨φ_a φ_b⟩/q) at 1/q = u, d/q = r, cosine c."""
    t = 2 * math.asin(min(1.0, math.sqrt(r) / 2))
    lift = t * t / r * (t / 3 - t**3 / 30) if t < 1e-3 else (math.sin(t) - t * math.cos(t)) / r
    return 0.5, -lift / math.pi, ((math.pi - t) * c + math.sin(t)) / (2 * math.pi)


@njit(cache=False)
def _erf(u, r, c):
    n = u + 2
    first = math.sqrt((u + r) * (u + 4 - r)) / n
    last = math.sqrt((u + 4) * u) / n
    sine = (r / n) * (4 - r) / n / ((2 / n) * first + ((2 - r) / n) * last)
    same, gap = math.atan2(2.0, math.sqrt((u + 4) * u)), math.asin(min(1.0, sine))
    square = 2 / math.pi * same * u
    return square, 4 / math.pi * gap / r * u - square, 2 / math.pi * math.asin(2 * c / n) * u


@njit(cache=False)
def _sin(u, d, c):
    q, half = 1 / u, d / 2
    square = -math.expm1(-2 * q) / 2 * u
    gap = (-math.expm1(-half) / half if half > 1e-12 else 1.0) * (1 + math.exp(half - 2 * q)) / 2
    return square, gap - square, -math.exp(-q * (1 - c)) * math.expm1(-2 * q * c) / 2 * u


@njit(cache=False)
def _slopes(kind, t, state, s, b):
    """e^t·(log K'/K, log of what distance/K grows by, log K_ab'/K_ab); s: logarithms of the σ²."""
    P, ratio, Q = state
    above = s[1] - b[1] * t  # log of (the share of K in q)/K
    own_share, shared, whole = 1.0, 0.0, 0.0  # of q: by K, by biases; log of q over its own share
    if s[3] > -math.inf:
        x = s[3] - b[3] * t - above - P
        whole = x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x))
        own_share, shared = math.exp(-whole), math.exp(x - whole)
    # beyond these the averages are what they tend to
    u = math.exp(min(320.0, max(-700.0, -above - P - whole)))
    r = math.exp(max(-600.0, ratio - whole))
    square, more, product = (
        _relu(u, r, math.exp(Q - P) * own_share + shared)
        if kind == 0
        else _erf(u, r, math.exp(Q - P) * own_share + shared)
        if kind == 1
        else _sin(u, math.exp(min(600.0, ratio + P + above)), math.exp(Q - P) * own_share + shared)
    )
    front = math.exp(t + s[0] - b[0] * t + above + whole)
    source = math.exp(t + s[2] - b[2] * t - P)
    own = front * square + source  # e^t (K'/K - 1)
    gap = front * (more * own_share - square * shared) - source  # distance grows less than K by this
    both = (front * product + source) * math.exp(P - Q)
    if t > 40 and own < math.exp(t - 20):
        return own, gap, both
    e = math.exp(t)
    return e * math.log1p(own / e), e * math.log1p(gap / (e + own)), e * math.log1p(both / e)


@njit(cache=False)
def follow_pair(kind, s, b, K, c, stops, h):
    """Rows (log K, log(distance/K), log K_ab) at log l = stops; kind 0: ReLU, 1: erf, 2: sin."""
    return follow_pair_logs(kind, np.log(s), b, K, c, stops, h, 100_000)


@njit(cache=False)
def follow_pair_logs(kind, s, b, K, c, stops, h, first):
    """The same with log σ² for σ², and `first` exact steps."""
    state = np.array([math.log(K), math.log(2 * (1 - c)), math.log(K * c)])
    for m in range(1, first):
        x, y, w = _slopes(kind, math.log(m), state, s, b)
        state = state + np.array([x, y, w]) / m
    t, out = math.log(first), np.empty((len(stops), 3))
    for i, stop in enumerate(stops):
        n = max(1, math.ceil((stop - t) / h))
        e = (stop - t) / n
        for _ in range(n):
            one = np.array(_slopes(kind, t, state, s, b))
            two = np.array(_slopes(kind, t + e / 2, state + e / 2 * one, s, b))
            three = np.array(_slopes(kind, t + e / 2, state + e / 2 * two, s, b))
            four = np.array(_slopes(kind, t + e, state + e * three, s, b))
            state = state + e * (one + 2 * two + 2 * three + four) / 6
            t += e
        out[i] = state
    return out


@njit(cache=False)
def pair_steps(kind, s, b, K, c, stops):
    """Rows (log K, log distance) before block l = stops, by exact steps whose sums are compensated."""
    state, lost = np.array([math.log(K), math.log(2 * (1 - c)), math.log(K * c)]), np.zeros(3)
    sizes, out, at = np.log(s), np.empty((len(stops), 2)), 0
    for m in range(1, stops[-1] + 1):
        if m == stops[at]:
            out[at] = state[0], state[0] + state[1]
            at += 1
            if at == len(stops):
                break
        x, y, w = _slopes(kind, math.log(m), state, sizes, b)
        gain = np.array([x, y, w]) / m - lost
        new = state + gain
        lost, state = (new - state) - gain, new
    return out
