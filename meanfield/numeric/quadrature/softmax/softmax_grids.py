r"""Integrals over the points of two largest entries: overlaps of two softmax rows by matrix products on grids.

A softmax is where the largest of T independent sums lies: A_s = P(s = argmax(z + G)), G standard Gumbel. With
h(u, v) = ⟨exp(-e^{u+z} - e^{v+z'})⟩ over one pair of entries of variance V and covariance C,

    Φ = T∫∫ h_uv h^{T-1},    1 - Φ = T(T-1)∫∫ h_u h_v h^{T-2},
    ∂_C Φ = T(T-1)∫∫ h_uv h^{T-3} (2 h h_uv + (T-2) h_u h_v),
    ∂_V Φ = T(T-1)∫∫ h_uv h^{T-3} (2 h h_uu + (T-2) h_u²):

by the heat equations ∂_C h = h_uv, ∂_V h = (h_uu + h_vv)/2 and partial integration, so that all but the last are
integrals of positive terms. They are entire functions, for which the trapezoidal rule converges exponentially. The two
entries share a Gaussian of variance |C|, given which h is a product of M(u) = ⟨exp(-e^{u+y})⟩, y of variance V - |C|:
a matrix product over the shared Gaussian. Where that is wide (C ≥ 1, C ≥ V/2), the grid is one of (u + v)/2, whose step
grows with √V, and of u - v, whose step grows with √(V - C), and the shared Gaussian convolves M(t + d/2) M(t - d/2).

Source: derived here; 1 - M is carried, so that no power of T loses digits.
"""

from __future__ import annotations

import math

import numpy as np

Marginal = tuple[np.ndarray, np.ndarray, np.ndarray]
_EULER = 0.5772156649015329
_SAFETY = 0.9  # of the widest step that theory allows
_LARGEST = 6.5  # log X beyond which X e^{-X} is nothing
_VIEW = np.lib.stride_tricks.sliding_window_view


def step(T: int, V: float, L: float) -> float:
    """The step at which the trapezoidal rule misses e^{-L} of functions that vary as maxima of T entries do: the
    Gumbel's strip has the half width π/2, a Gaussian's widens with its deviation, less where T selects its tail."""
    logs = math.log(T)
    return _SAFETY * math.pi**2 / (L + 2.0 * logs) * math.sqrt(1.0 + 2.0 * V / (logs + 1.0))


def _normal_step(L: float) -> float:
    return _SAFETY * math.sqrt(2.0 * math.pi**2 / L)


def _bisected(outside, low: float, high: float) -> float:
    """The end between `low` and `high` of where a monotonic condition holds; it holds at `high`."""
    for _ in range(12):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if outside(middle) else (middle, high)
    return high


def lowest(T: int, V: float, L: float) -> float:
    """A u below which T²(1 - M) < e^{-L}, M of variance V; by 1 - e^{-X} ≤ min(1, X)."""
    aim, s = math.exp(-L - 2.0 * math.log(T)), math.sqrt(V)

    def little(depth: float) -> bool:
        if s == 0.0:
            return math.exp(-depth) < aim
        above = 0.5 * math.erfc(depth / (s * math.sqrt(2.0)))
        below = math.exp(min(0.5 * V - depth, 0.0)) * 0.5 * math.erfc((V - depth) / (s * math.sqrt(2.0)))
        return above + below < aim

    far = 1.0
    while not little(far):
        far *= 1.5
    return -_bisected(little, far / 1.5, far)


def highest(T: int, V: float, L: float) -> float:
    """A u above which M^{T-2} < e^{-L} (M at T = 2); by M ≤ e^{-e^{u-cs}} + P(g < -c) for every c."""
    from scipy.special import ndtr  # a quarter of a second; only softmax rows need it

    s, c, n = math.sqrt(V), np.linspace(0.0, 9.0, 91), max(T - 2, 1)
    tail = ndtr(-c)

    def little(u: float) -> bool:
        most = float((np.exp(-np.exp(np.minimum(u - s * c, _LARGEST))) + tail).min())
        return n * math.log(min(most, 1.0)) < -L - 1.0

    far = 1.0
    while not little(far):
        far *= 1.5
    return _bisected(little, 0.0 if far == 1.0 else far / 1.5, far)


def marginal(T: int, u: np.ndarray, V: float, L: float, spacing: float = 0.0) -> Marginal:
    """(1 - M, -M', M'' - M') at u: ⟨1 - e^{-X}⟩, ⟨X e^{-X}⟩, ⟨X² e^{-X}⟩ of X = e^{u+y}, y of variance V; spacing: of
    a lattice u."""
    if V <= 1.0:
        s, w = around(u, V, L + 2.0 * math.log(T), spacing)
        X = np.exp(np.minimum(s, _LARGEST))
        first = X * np.exp(-X)
        parts = -np.expm1(-X), first, X * first
        if s.ndim == 1:
            k = round((s.size - w.size) / (u.size - 1))
            return tuple(_VIEW(x, w.size)[::k] @ w for x in parts)
        return tuple(x @ w for x in parts)
    s, below, density = _localized(T, u, V, L, spacing)
    first = np.exp(s - np.exp(s))
    weights = np.stack([first, np.exp(s) * first], axis=1)
    weights /= weights.sum(axis=0)
    p = density @ weights
    return below @ weights[:, 0], p[:, 0], p[:, 1]


def surprise(T: int, u: np.ndarray, V: float, L: float, spacing: float = 0.0) -> np.ndarray:
    """⟨e^{-X}(log X + γ) + E₁(X)⟩ at u: what -A log A is an integral of. A positive function of X."""
    if V <= 1.0:
        s, w = around(u, V, L + 2.0 * math.log(T), 0.0)
        return _surprise(np.minimum(s, _LARGEST)) @ w
    s, _, density = _localized(T, u, V, L, spacing)
    return density @ (abs(s[1] - s[0]) * _surprise(s))


def _surprise(s: np.ndarray) -> np.ndarray:
    from scipy.special import exp1

    X = np.exp(s)
    ein, power = np.zeros_like(X), np.ones_like(X)
    small = np.minimum(X, 1.0)
    for k in range(1, 20):  # (1 - e^{-X})/X integrated
        power = power * -small / k
        ein -= power / k
    near = ein + (s + _EULER) * np.expm1(-small)
    return np.where(X < 1.0, near, np.exp(-X) * (s + _EULER) + exp1(np.maximum(X, 1.0)))


def around(u: np.ndarray, V: float, far: float, spacing: float) -> tuple[np.ndarray, np.ndarray]:
    """(u + y at the points of a trapezoidal rule over y of variance V ≤ 1, its weights): where u is a lattice, a line
    whose stretches are the points of each u; else a matrix."""
    if V == 0.0:
        return u[:, None], np.ones(1)
    deviation = math.sqrt(V)
    h = min(_normal_step(far), _SAFETY * math.pi**2 / (far * deviation))
    k, count, w = shared(deviation, h, far, spacing)
    if k and k < w.size:
        return u[0] + spacing / k * np.arange(-count, (u.size - 1) * k + count + 1), w
    g = np.arange(-count, count + 1) * (spacing / (k * deviation) if k else h)
    return u[:, None] + deviation * g, w


def shared(deviation: float, h: float, far: float, spacing: float = 0.0) -> tuple[int, int, np.ndarray]:
    """(k, n, weights of -n … n): a trapezoidal rule over a standard normal, of step h, or a smaller one with which k
    steps, times the deviation, are the spacing of a lattice."""
    k = math.ceil(spacing / (deviation * h)) if spacing else 0
    h = spacing / (k * deviation) if k else h
    n = math.ceil(math.sqrt(2.0 * far) / h)
    w = np.exp(-0.5 * (h * np.arange(-n, n + 1)) ** 2)
    return k, n, w / w.sum()


def _localized(T: int, u: np.ndarray, V: float, L: float, spacing: float) -> tuple[np.ndarray, ...]:
    """(s, P(y < u - s), the density of y at u - s): points s = log X where X e^{-X} is not nothing, falling."""
    far = L + 2.0 * math.log(T)
    h = _SAFETY * math.pi**2 / far
    if spacing:
        h = spacing / math.ceil(spacing / h)
    s = np.arange(math.log(L) + 1.5, -far, -h)
    below, density = convolution(u, s, V, spacing, h)
    return s, below, density


def convolution(u: np.ndarray, s: np.ndarray, V: float, spacing: float, h: float) -> tuple[np.ndarray, np.ndarray]:
    """(P(y < u - s), the density of y at u - s), y of variance V, as matrices of u and falling s of step h.

    Where u is a lattice whose spacing is a multiple of h, they are looked up on one line of differences.
    """
    from scipy.special import ndtr

    k = round(spacing / h)
    if k and k * u.size < u.size * s.size:
        line = (u[0] - s[0] + h * np.arange((u.size - 1) * k + s.size)) / math.sqrt(V)
    else:
        line = (u[:, None] - s) / math.sqrt(V)
    parts = ndtr(line), np.exp(-0.5 * line * line) / math.sqrt(2.0 * math.pi * V)
    if line.ndim == 1:
        return _VIEW(parts[0], s.size)[::k], _VIEW(parts[1], s.size)[::k]
    return parts


def powered(lost: np.ndarray, n: int) -> np.ndarray:
    """(1 - lost)^n of what an average has lost of 1."""
    if n == 0:
        return np.ones_like(lost)
    with np.errstate(divide="ignore"):
        return np.exp(n * np.log1p(-np.minimum(lost, 1.0)))


def square(T: int, V: float, C: float, L: float, more: bool) -> tuple[float, float, float, float]:
    """(Φ, 1 - Φ, ∂_C Φ, ∂_V Φ) on a grid of (u, v); the last is NaN unless `more`."""
    c, d, far = math.sqrt(abs(C)), step(T, V - abs(C), L), L + 2.0 * math.log(T)
    low = lowest(T, V, L)
    n = math.ceil((highest(T, V, L) - low) / d) + 1
    finer, count, w = shared(c, _normal_step(far), far, d) if c > 0.0 else (1, 0, np.ones(1))
    if finer <= 2 * count + 1:  # every place is one of a lattice, and most of them are met often
        places = low + d / finer * np.arange(-count, (n - 1) * finer + count + 1)
        q, p, r = (_VIEW(x, 2 * count + 1)[::finer] for x in marginal(T, places, V - abs(C), L, d / finer))
    else:
        places = low + d * np.arange(n)[:, None] + d / finer * np.arange(-count, count + 1)
        q, p, r = (x.reshape(places.shape) for x in marginal(T, places.ravel(), V - abs(C), L))
    other = slice(None, None, -1) if C < 0.0 else slice(None)  # what is shared has the other sign there
    q_other, p_other = (np.ascontiguousarray((x * w)[:, other].T) for x in (q, p))
    alone, slope = q @ w, p @ w
    lost = alone[:, None] + alone - q @ q_other
    by_u, both = slope[:, None] - p @ q_other, p @ p_other
    second = None
    if more:
        of_second = r - p
        by_uu = (of_second @ w)[:, None] - of_second @ q_other
        second = by_uu + by_uu.T, by_u**2 + by_u.T**2
    return _integrals(T, lost, (by_u, by_u.T), both, second, np.full(n, d * d))


def along(T: int, V: float, D: float, L: float, more: bool) -> tuple[float, float, float, float]:
    """The same of C = V - D ≥ max(1, D), on a grid of (u + v)/2 and of d = u - v ≥ 0."""
    h = step(T, D, L)
    wide = h * max(1, math.floor(step(T, V, L) / h))
    a = np.arange(lowest(T, V, L), highest(T, V, L) + wide, wide)
    n = math.ceil(-lowest(T, 2.0 * D, L) / (2.0 * h)) + 1
    low = lowest(T, D, L) - n * h
    rows = math.ceil((highest(2, D, L) - low) / h) + 1
    found = marginal(T, low + h * np.arange(-n, rows + n), D, L, h)
    (q, p, r), (q_less, p_less, r_less) = (
        [_VIEW(x[n:], n)[:rows] for x in found], [_VIEW(x, n + 1)[:rows, :0:-1] for x in found]
    )  # fmt: skip
    by_u, by_v = p * (1.0 - q_less), p_less * (1.0 - q)
    places = low + h * np.arange(rows - 1, -1, -1)
    below, density = (h * np.ascontiguousarray(x[:, ::-1]) for x in convolution(a, places, V - D, wide, h))
    lost, slopes = below @ (by_u + by_v), (density @ by_u, density @ by_v)
    second = None
    if more:
        curved = (r - p) * (1.0 - q_less) + (r_less - p_less) * (1.0 - q)
        second = density @ curved, slopes[0] ** 2 + slopes[1] ** 2
    cells = np.full(n, 4.0 * h * wide)
    cells[0] *= 0.5
    return _integrals(T, lost, slopes, density @ (p * p_less), second, cells)


def _integrals(T: int, lost, slopes, both, second, cells) -> tuple[float, float, float, float]:
    """The four integrals from 1 - h, (-h_u, -h_v), h_uv, and (h_uu + h_vv, h_u² + h_v²); cells: of each column."""
    power = powered(lost, T - 3) if T > 2 else np.zeros_like(lost)
    left = np.maximum(1.0 - lost, 0.0)
    high = power * left if T > 2 else np.ones_like(lost)
    product = slopes[0] * slopes[1]

    def summed(values: np.ndarray) -> float:
        return float(values.sum(axis=0) @ cells)

    value, rest = T * summed(both * high * left), T * (T - 1) * summed(product * high)
    slope = T * (T - 1) * summed(both * (2.0 * both * high + (T - 2) * product * power))
    by_variance = math.nan
    if second is not None:
        by_variance = 0.5 * T * (T - 1) * summed(both * (2.0 * second[0] * high + (T - 2) * second[1] * power))
    return value, rest, slope, by_variance
