"""The loops of `sums` and `rows` for small blocks of pairs, by NumPy: one operation for all pairs, or those of a tile.

A small block is computed before its loop would be compiled, or loaded. Sums are in the order of the compiled ones, with
their bits; powers round differently, and a pair may take one rung more or less where it needs it or does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

WANTED = 2e-15  # as in `sums`, which needs Numba
SMALL = 64**2  # pairs up to which these are taken: beyond, what they write in between leaves the cache


def terms(ladder, slopes, left, right, b0, m, c, flags):
    """`sums.terms`."""
    top, which, size = ladder.size - 1, int(slopes), np.abs(c[:m])
    tails = right[which, :, b0 : b0 + m]
    bound = left[which, top] * tails[top]
    lost = (bound > WANTED) & ~(bound * size ** float(ladder[top] - slopes) <= WANTED)
    most = np.fmax.reduce(size[~lost], initial=0.0)
    of_tile = flags[b0 : b0 + m]
    of_tile[lost] = 2
    tail = np.fmax.reduce(tails[:, of_tile != 2], axis=1, initial=0.0)
    bound = left[which] * tail
    enough = (bound <= WANTED) | (bound * most ** (ladder - float(slopes)) <= WANTED)
    return int(ladder[np.argmax(enough)] if enough.any() else ladder[top])


def sums(a, b, b0, m, c, first, step, count, S, D, u, slopes):
    """`sums.sums`."""
    orders = min((count - first + step - 1) // step, a.size, b.shape[0])
    c, S, D, u = c[:m], S[:m], D[:m], u[:m]
    u[:] = c * c if step == 2 else c
    S[:], D[:] = 0.0, 0.0
    parts = a[:orders, None] * b[:orders, b0 : b0 + m]
    for j in range(orders - 1, -1, -1):
        if slopes:
            D *= u
            D += S
        S *= u
        S += parts[j]
    if step == 2:
        D *= 2.0 * c
    if first == 1:
        D[:] = S + c * D
        S *= c


PLAIN: dict[str, Callable[..., Any]] = {"terms": terms, "sums": sums}
TERM, TILE, PAIR = 1.2, 40.0, 4.0  # units of work of one term of a tile, of a tile, of a pair in a layer


def work(pairs: int, tiles: int, layers: int, series: list[int]) -> float:
    """The work of a block of pairs, in units; series: the numbers of coefficients of each that is summed."""
    return layers * (PAIR * pairs + tiles * sum(TILE + TERM * orders for orders in series))


def norms(X, out):
    """`rows.norms`: a cumulative sum goes in order."""
    out[:] = np.cumsum(X * X, axis=1)[:, -1]


def gram(X, columns, first, scale, shift, out):
    """`rows.gram`."""
    total = np.zeros(out.shape)
    for k in range(X.shape[1]):
        total += X[:, k, None] * columns[k]
    out[...] = scale * total + shift


def close_at_start(K_ab, KX, KY, least, first, flags):
    """`rows.close_at_start`."""
    size = _sizes(KX, KY)
    with np.errstate(all="ignore"):  # what is not computed may be anything
        near = size - K_ab < least * size
    flags[near & _upper(first, K_ab.shape)] = 1


def opposite(K_ab, KX, KY, least, first):
    """`rows.opposite`."""
    size = _sizes(KX, KY)
    with np.errstate(all="ignore"):
        found = (size + K_ab < least * size) & _upper(first, K_ab.shape)
    return float(np.maximum(KX[:, None], KY)[found].max(initial=0.0))


def distances(K_ab, KX, KY, first, flags, out):
    """`rows.distances`."""
    with np.errstate(all="ignore"):
        out[...] = KX[:, None] + KY - 2.0 * K_ab
        size, seen = _sizes(KX, KY), _upper(first, K_ab.shape) & (flags == 0)
        least = np.fmin.reduce((out / size)[seen & (out < np.inf)], initial=np.inf)
    return 1.0 / least if least > 0.0 else np.inf


def _sizes(KX, KY):
    """√K_aa √K_bb of all pairs."""
    return np.sqrt(KX)[:, None] * np.sqrt(KY)


def _upper(first, shape):
    """Which pairs are computed: those from first[a] on."""
    return np.arange(shape[1]) >= first[: shape[0], None]


def mirror(values, own):
    """`rows.mirror`."""
    i, j = np.tril_indices(len(values), -1)
    values[i, j] = values[j, i]
    np.fill_diagonal(values, own)
