"""Transformers in plain NumPy, written for the tests: no code of the library, derivatives by central differences."""

from __future__ import annotations

import numpy as np
from scipy.special import erf

STEP = 1e-5


def rotated(x, base):
    """Channels i and i + d/2 turned by t base^{−2i/d}; x is (..., T, d)."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[-2])[:, None] * base ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate((a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)), axis=-1)


def head_weights(q, k, causal=False, rotary=0, qk_norm=False, scale="1/sqrt(d)"):
    """softmax(q k^T / √d) of heads (..., T, d), written out."""
    d = q.shape[-1]
    if qk_norm:
        q, k = (x / np.sqrt((x**2).mean(axis=-1, keepdims=True)) for x in (q, k))
    if rotary:
        q, k = (rotated(x, rotary) for x in (q, k))
    S = np.einsum("...td,...sd->...ts", q, k) / (d if scale == "1/d" else np.sqrt(d))
    if causal:
        for t in range(S.shape[-1]):
            S[..., t, t + 1 :] = -1e300
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True)


def dense(rng, x, new, w, b=0.0):
    W = rng.standard_normal((x.shape[-1], new))
    return w / np.sqrt(x.shape[-1]) * (x @ W) + b * rng.standard_normal(new)


def attention(rng, x, heads, sides, key_dim=None, value_dim=None, groups=None, **options):
    """x is (signals, T, N); sides: (σ_w, σ_b) of query, key, value."""
    N, groups = x.shape[-1], groups or heads
    d, d_v = key_dim or N // heads, value_dim or N // heads

    def split(count, size, side):
        return dense(rng, x, count * size, *side).reshape(*x.shape[:-1], count, size).swapaxes(-3, -2)

    q, k, v = split(heads, d, sides[0]), split(groups, d, sides[1]), split(groups, d_v, sides[2])
    k, v = (np.repeat(one, heads // groups, axis=-3) for one in (k, v))
    out = head_weights(q, k, **options) @ v
    return out.swapaxes(-3, -2).reshape(*x.shape[:-1], heads * d_v)


def rms(x):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True))


def mlp(rng, x, w):
    z = dense(rng, x, 2 * x.shape[-1], w)
    return dense(rng, z * (1 + erf(z / np.sqrt(2))) / 2, x.shape[-1], w)


def one_network(seed, N, T, layers, mu, pre, sigma_o, sigma_mlp, correlation, **settings):
    """K, K_ab and J, of all tokens and of the last, at the last layer of a network of its own; J by one random tangent
    at layer 1, whose square is unbiased."""
    rng = np.random.default_rng(seed)
    own, common = rng.standard_normal((T, N)), rng.standard_normal(N)
    x = np.sqrt(1 - correlation) * own + np.sqrt(correlation) * common
    tangent = rng.standard_normal((T, N))
    x = np.stack((x, x + STEP * tangent, x - STEP * tangent))
    for _ in range(layers - 1):
        y = attention(rng, rms(x) if pre else x, **settings)
        x = mu * x + dense(rng, y, N, sigma_o)
        if sigma_mlp:
            x = mu * x + mlp(rng, rms(x) if pre else x, sigma_mlp)
    gram = x[0] @ x[0].T / N
    J = (((x[1] - x[2]) / (2 * STEP)) ** 2).mean(axis=1)
    off = (gram.sum() - np.trace(gram)) / (T * (T - 1))
    last = gram[-1, -1], gram[-1, :-1].mean(), J[-1]
    return np.array([[np.trace(gram) / T, off, J.mean()], last])


def at_infinite_width(widths, networks, **settings):
    """(mean, standard error) of all that `one_network` returns, a line in 1/N through the widths: (2, 3) each."""
    rows = []
    for i, N in enumerate(widths):
        found = np.array([one_network((i, j), N, **settings) for j in range(networks[i])])
        rows.append((1 / N, found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))))
    mean, error = np.empty((2, 3)), np.empty((2, 3))
    for place in np.ndindex(2, 3):
        e = np.array([row[2][place] for row in rows])
        design = np.array([[1.0, row[0]] for row in rows]) / e[:, None]
        cov = np.linalg.inv(design.T @ design)
        mean[place] = (cov @ design.T @ (np.array([row[1][place] for row in rows]) / e))[0]
        error[place] = np.sqrt(cov[0, 0])
    return mean, error
