"""Two inputs behind a LayerNorm of activations, φ₂(LN(φ₁(z))): whatever is computed of them against quadrature of the
texts, iterations of its own, and networks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

import meanfield as mf
from meanfield.architecture import Dense, LayerNorm, Nonlinearity, Sequential

W, B = 1.3, 0.2  # σ_w, σ_b
PHI = {  # name → (φ, φ′, kinks)
    "tanh": (np.tanh, lambda z: 1 / np.cosh(np.clip(z, -300, 300)) ** 2, ()),
    "relu": (lambda z: np.maximum(z, 0.0), lambda z: (z > 0) * 1.0, (0.0,)),
    "gelu": (
        lambda z: z * special.ndtr(z),
        lambda z: special.ndtr(z) + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi),
        (),
    ),
    "erf": (special.erf, lambda z: 2 / math.sqrt(math.pi) * np.exp(-z * z), ()),
}
X, V = np.polynomial.legendre.leggauss(24)
QUANTITIES = ("K", "K_ab", "distance", "J_ab")


def panels(edges):
    """(places, weights) of Legendre panels, along the last axis."""
    edges = np.sort(edges, axis=-1)
    lo, hi = edges[..., :-1, None], edges[..., 1:, None]
    z, w = lo + (hi - lo) * (1 + X) / 2, (hi - lo) * V / 2
    return z.reshape(*edges.shape[:-1], -1), w.reshape(*edges.shape[:-1], -1)


def edges(scale, reach=9.0):
    """From -9 to 9 standard deviations, narrow around 0 where f's own scale is narrow there."""
    first = min(0.5, scale)
    half = np.concatenate([np.arange(0.0, reach, 0.5), first * 2.0 ** np.arange(0.0, math.log2(reach / first))])
    return np.unique(np.concatenate([-half, half, [-reach, reach]]))


def composed(first, second, K, error=0.0):
    """(f, f′, kinks) of φ₂(LN(φ₁(√K x))) as functions of x; error: planted in the mean."""
    f, df, kinks = PHI[first]
    g, dg, own = PHI[second]
    s = math.sqrt(K)
    x, w = panels(edges(1 / s))
    w = w * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    m = float(w @ f(s * x)) + error
    sd = math.sqrt(float(w @ (f(s * x) - m) ** 2))
    places = [k / s for k in kinks]
    if own:  # where φ₁ equals its mean, by bisection: these φ₁ pass it once, where z > -0.7
        lo, hi = -0.7 / s, 9.0
        for _ in range(200):
            middle = (lo + hi) / 2
            lo, hi = (middle, hi) if f(s * middle) < m else (lo, middle)
        places.append(lo)
    return lambda x: g((f(s * x) - m) / sd), lambda x: dg((f(s * x) - m) / sd) * df(s * x) / sd, sorted(places)


def product(h, kinks, gap, scale):
    """⟨h(x) h(y)⟩ of standard Gaussians of correlation 1 - gap, over half their sum and their difference."""
    sd_m, sd_d = math.sqrt(1 - gap / 2), math.sqrt(2 * gap)
    own = [abs(a - b) for a in kinks for b in kinks] + [0.0]
    d, wd = panels(np.unique(np.clip([*(edges(scale / sd_d) * sd_d), *own, *(-np.array(own))], -9 * sd_d, 9 * sd_d)))
    walls = [k + side * d / 2 for k in kinks for side in (1, -1)]
    grid = np.concatenate([edges(scale) * sd_m, *(k + edges(scale) * sd_m for k in kinks)])
    m, wm = panels(np.stack([np.full_like(d, e) for e in np.unique(np.clip(grid, -9 * sd_m, 9 * sd_m))] + walls, -1))
    wm = wm * np.exp(-((m / sd_m) ** 2) / 2) / (sd_m * math.sqrt(2 * math.pi))
    inner = (wm * h(m + d[:, None] / 2) * h(m - d[:, None] / 2)).sum(axis=-1)
    return float((wd * np.exp(-((d / sd_d) ** 2) / 2) / (sd_d * math.sqrt(2 * math.pi))) @ inner)


def layer(first, second, K, gap, error=0.0):
    """(K′, K_ab′, distance′, J_ab′) from (K, 1 - c = gap) and J_ab = 1."""
    f, df, kinks = composed(first, second, K, error)
    scale = min(1.0, 1 / math.sqrt(K))
    x, w = panels(np.concatenate([edges(scale), kinks]))
    w = w * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    same, slope = float(w @ f(x) ** 2), float(w @ df(x) ** 2)
    if gap == 0:
        return W**2 * same + B**2, W**2 * same + B**2, 0.0, W**2 * slope
    if gap == 2:  # z_b = -z_a
        between, slopes = float(w @ (f(x) * f(-x))), float(w @ (df(x) * df(-x)))
        return W**2 * same + B**2, W**2 * between + B**2, 2 * W**2 * (same - between), W**2 * slopes
    between, slopes = product(f, kinks, gap, scale), product(df, kinks, gap, scale)
    apart = 2 * (same - between)
    if gap < 1e-3:  # Price: the mean of slopes over the correlations up to 1
        u, v = np.polynomial.legendre.leggauss(6)
        u = (1 + u) / 2
        apart = 2 * gap * K * sum(t * b * product(df, kinks, gap * t * t, scale) for t, b in zip(u, v))
    return W**2 * same + B**2, W**2 * between + B**2, W**2 * apart, W**2 * slopes
