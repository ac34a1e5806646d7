"""The judge of two inputs under φ = right·z^a on z > 0, left·|z|^a on z < 0: as `pair_flow`, at every q, its
averages by quadrature over the angle of (z_a, z_b)."""

import math
from itertools import pairwise

import numpy as np
from numba import njit

STEP, LOW = 0.05, -13.0  # of log angle


def _over(f, breaks: list[float]) -> float:
    """∫ f over the pieces between breaks, which may be powers there: double-exponential nodes."""
    t = np.arange(-3.4, 3.4001, 0.04)
    x = np.tanh(math.pi / 2 * np.sinh(t))
    weight = 0.02 * math.pi * np.cosh(t) / np.cosh(math.pi / 2 * np.sinh(t)) ** 2
    pieces = pairwise(breaks)
    return float(sum(np.sum((h - l) / 2 * weight * f((h + l) / 2 + (h - l) / 2 * x)) for l, h in pieces))


def kernel(a: float, right: float, left: float) -> tuple[float, np.ndarray]:
    """⟨φ²⟩_1, and (1 - κ(c))/(1 - c), ⟨φ_aφ_b⟩ = κ(c)⟨φ²⟩, at c = cos(angle), the angle from e^LOW up to π."""

    def phi(x):
        y = np.cos(x)
        return np.where(y > 0, right, left) * np.abs(y) ** a

    edge, pi = math.pi / 2, math.pi
    square = _over(lambda x: phi(x) ** 2, [-edge, edge, 3 * edge])
    logs = np.append(np.arange(LOW, math.log(pi), STEP), math.log(pi))
    out = []
    for angle in np.exp(logs):
        breaks = sorted({-edge, edge, 3 * edge, angle - edge, *([angle + edge] if angle < pi else [])})
        gap = _over(lambda x, s=angle: (phi(x) - phi(x - s)) ** 2, breaks)
        out.append(gap / square / (4 * math.sin(angle / 2) ** 2))
    moment = 2**a * math.gamma(a + 1) / (2 * pi)  # ⟨r^{2a}⟩ over the circle
    return moment * square, np.array(out)


@njit(cache=False)
def _closing(table, a, log_half):
    """(1 - κ)/(1 - c) at log((1 - c)/2) = log_half."""
    if log_half > 2 * LOW - 1:
        log_angle = math.log(2 * math.asin(math.exp(min(0.0, log_half / 2))))
        x = (log_angle - LOW) / STEP
        if x >= len(table) - 2:  # the last step is shorter
            last = (math.log(math.pi) - LOW) / STEP - len(table) + 2
            return table[-2] + (table[-1] - table[-2]) * (x - len(table) + 2) / last
        if x >= 0:
            i = min(max(int(x), 1), len(table) - 4)
            y, (p, q, r, s) = x - i, table[i - 1 : i + 3]
            return (
                -p * y * (y - 1) * (y - 2) / 6
                + q * (y + 1) * (y - 1) * (y - 2) / 2
                - r * (y + 1) * y * (y - 2) / 2
                + s * (y + 1) * y * (y - 1) / 6
            )
    log_angle = math.log(2.0) + log_half / 2
    power = 2 * a - 1  # what follows the value at equal inputs
    one, two = math.exp(power * LOW), math.exp(power * (LOW + 20 * STEP))
    slope = (table[20] - table[0]) / (two - one)
    return table[0] + slope * (math.exp(power * log_angle) - one)


@njit(cache=False)
def _slopes(t, state, v, table, a, s, b):
    """e^t·(log K'/K, log of what distance/K grows by, log K_ab'/K_ab)."""
    P, ratio, Q = state
    inner, bias = math.log(s[1]) - b[1] * t + P, math.log(s[3]) - b[3] * t if s[3] > 0 else -math.inf
    top = max(inner, bias)
    q = top + math.log(math.exp(inner - top) + math.exp(bias - top))
    square = math.log(s[0]) - b[0] * t + math.log(v) + a * q  # log of what the branch adds to K
    source = math.log(s[2]) - b[2] * t if s[2] > 0 else -math.inf
    fed = math.exp(t + square - P)
    own = fed + math.exp(t + source - P)
    apart = inner + ratio - math.log(2.0) - q  # log of 1 - c of what φ is given
    closing = _closing(table, a, apart - math.log(2.0))
    gap = fed * math.exp(inner - q) * closing
    c = math.exp(inner + Q - P - q) + math.exp(bias - q)
    kappa = 1 - closing * math.exp(apart) if apart > -1.0 or c > 0.7 else 0.0
    if apart > -1.0 and c < 0.7:
        kappa = 1 - _closing(table, a, math.log((1 - c) / 2)) * (1 - c)
        if c < 0.02:  # κ(0) + κ'(0) c, whose first term an odd φ has not
            first = 1 - _closing(table, a, -math.log(2.0))
            first = first if abs(first) > 1e-5 else 0.0
            at = 1 - _closing(table, a, math.log(0.49)) * 0.98
            kappa = first + (at - first) * c / 0.02
    both = (fed * kappa + math.exp(t + source - P)) * math.exp(P - Q)
    if t > 20:
        return own, gap - own, both
    e = math.exp(t)
    return e * math.log1p(own / e), e * (math.log1p(gap / e) - math.log1p(own / e)), e * math.log1p(both / e)


@njit(cache=False)
def follow_powers(v, table, a, s, b, K, c, stops, h):
    """Rows (log K, log(distance/K), log K_ab) at log l = stops."""
    state, first = np.array([math.log(K), math.log(2 * (1 - c)), math.log(K * c)]), 100_000
    for m in range(1, first):
        x, y, w = _slopes(math.log(m), state, v, table, a, s, b)
        state = state + np.array([x, y, w]) / m
    t, out = math.log(first), np.empty((len(stops), 3))
    for i, stop in enumerate(stops):
        n = max(1, math.ceil((stop - t) / h))
        e = (stop - t) / n
        for _ in range(n):
            one = np.array(_slopes(t, state, v, table, a, s, b))
            two = np.array(_slopes(t + e / 2, state + e / 2 * one, v, table, a, s, b))
            three = np.array(_slopes(t + e / 2, state + e / 2 * two, v, table, a, s, b))
            four = np.array(_slopes(t + e, state + e * three, v, table, a, s, b))
            state = state + e * (one + 2 * two + 2 * three + four) / 6
            t += e
        out[i] = state
    return out
