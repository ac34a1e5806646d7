"""The loops of `hermite_sums` and `inner_products` for small blocks of pairs, by NumPy: one operation for all pairs, or
those of a tile.

A small block is computed before its loop would be compiled, or loaded. Sums and powers are made of the same products in
the same order as the compiled ones, and so have their bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meanfield.kernels.loops.pair_loops import WANTED

SMALL = 64**2  # pairs up to which these are taken: beyond, what they write in between leaves the cache


def terms(ladder, slopes, left, right, b0, m, c, flags):
    """`hermite_sums.terms`."""
    top, which, size = ladder.size - 1, int(slopes), np.abs(c[:m])
    tails = right[which, :, b0 : b0 + m]
    bound = left[which, top] * tails[top]
    lost = bound > WANTED
    if lost.any():
        lost &= ~(bound * _power(size, int(ladder[top]) - which) <= WANTED)
    most = float(np.fmax.reduce(size[~lost], initial=0.0))
    of_tile = flags[b0 : b0 + m]
    of_tile[lost] = 2
    tail = np.fmax.reduce(tails[:, of_tile != 2], axis=1, initial=0.0)
    for rung, bound in zip(ladder.tolist(), (left[which] * tail).tolist()):
        if bound <= WANTED or bound * _power(most, rung - which) <= WANTED:
            return rung
    return int(ladder[top])


def _power(x, n: int):
    """x^n by squares, as Numba takes it: NumPy's power rounds in another way."""
    found = 1.0
    while n:
        if n & 1:
            found = found * x
        n >>= 1
        x = x * x
    return found


def sums(a, b, b0, m, c, first, step, count, S, D, u, slopes):
    """`hermite_sums.sums`."""
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
    """`inner_products.norms`: a cumulative sum goes in order."""
    out[:] = np.cumsum(X * X, axis=1)[:, -1]


def gram(X, columns, first, scale, shift, out):
    """`inner_products.gram`."""
    total = np.zeros(out.shape)
    for k in range(X.shape[1]):
        total += X[:, k, None] * columns[k]
    out[...] = scale * total + shift


def close_at_start(K_ab, KX, KY, least, first, flags):
    """`inner_products.close_at_start`."""
    size = _sizes(KX, KY)
    with np.errstate(all="ignore"):  # what is not computed may be anything
        near = size - K_ab < least * size
    flags[near & _upper(first, K_ab.shape)] = 1


def opposite(K_ab, KX, KY, least, first):
    """`inner_products.opposite`."""
    size = _sizes(KX, KY)
    with np.errstate(all="ignore"):
        found = (size + K_ab < least * size) & _upper(first, K_ab.shape)
    return float(np.maximum(KX[:, None], KY)[found].max(initial=0.0))


def distances(K_ab, KX, KY, first, flags, out):
    """`inner_products.distances`."""
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
    """`inner_products.mirror`."""
    i, j = np.tril_indices(len(values), -1)
    values[i, j] = values[j, i]
    np.fill_diagonal(values, own)
