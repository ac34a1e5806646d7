"""Moments of random matrices without Weingarten functions, words or pairings of labels; nothing of meanfield.

`peeled`: exact Haar moments row by row. `sphere`: exact moments of a uniform unit vector. `haar_samples`: QR with the
sign fix. `expectation`: of a polynomial in the parameters of a network.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import prod

import numpy as np
import sympy as sp


def tied(points):
    """All ways to put points into pairs."""
    if not points:
        yield []
        return
    for i in range(1, len(points)):
        for rest in tied(points[1:i] + points[i + 1 :]):
            yield [(points[0], points[i]), *rest]


@cache
def peeled(rows, columns, size):
    """E Π O_{i j}, O uniform on O(size): given the other rows, the last is uniform on the unit sphere of what is
    orthogonal to them, of dimension d = n − (their number); its moments are sums over pairings of products of
    P = 1 − Σ o oᵀ, by d(d + 2)…; and the rows left are fewer."""
    if not rows:
        return Fraction(1)
    last = max(rows)
    mine = [c for r, c in zip(rows, columns) if r == last]
    if len(mine) % 2:
        return Fraction(0)
    rest = [(r, c) for r, c in zip(rows, columns) if r != last]
    d, k, total = size - (last - 1), len(mine) // 2, Fraction(0)
    for pairing in tied(list(range(2 * k))):
        terms = [(Fraction(1), rest)]
        for a, b in pairing:
            one, two = mine[a], mine[b]
            new = [(c, have) for c, have in terms if one == two]
            for row in range(1, last):
                new += [(-c, [*have, (row, one), (row, two)]) for c, have in terms]
            terms = new
        for c, have in terms:
            have = sorted(have)
            total += c * peeled(tuple(r for r, _ in have), tuple(x for _, x in have), size)
    return total / prod(d + 2 * j for j in range(k))


def sphere(exponents, size):
    """E Π u_i^{p_i} of a uniform unit vector: Π (p_i − 1)!!/(n(n + 2)…)."""
    if any(p % 2 for p in exponents):
        return sp.S.Zero
    return prod((sp.factorial2(p - 1) for p in exponents if p), start=sp.S.One) / prod(
        (size + 2 * j for j in range(sum(exponents) // 2)), start=sp.S.One
    )


def haar_samples(count, size, rng, sign_fix=True):
    """Haar orthogonal matrices by QR with the sign fix (Mezzadri 2007)."""
    q, r = np.linalg.qr(rng.standard_normal((count, size, size)))
    return q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :] if sign_fix else q


def entry_moment(law, power):
    """E w^p of one entry of variance 1."""
    if power % 2:
        return Fraction(0)
    return Fraction(prod(range(1, power, 2))) if law == "gaussian" else Fraction(3 ** (power // 2), power + 1)


def matrix_moment(law, entries, shape, variance):
    """E of Π W_{ij}, entries {(i, j): power} from 1 on, W (shape) with entries of variance C_W/fan-in; Haar: a block of
    an orthogonal matrix of the larger size."""
    total, inputs = sum(entries.values()), shape[1]
    if total % 2:
        return Fraction(0)
    if law != "orthogonal":
        return (variance / inputs) ** (total // 2) * prod(entry_moment(law, p) for p in entries.values())
    size = max(shape)
    factors = sorted(key for key, p in entries.items() for _ in range(p))
    value = peeled(tuple(i for i, _ in factors), tuple(j for _, j in factors), size)
    return (variance * size / inputs) ** (total // 2) * value


def expectation(polynomial, matrices, biases, law, variance, bias):
    """E of a `sp.Poly` in the entries of independent matrices [(symbols (outputs × inputs)), …] and Gaussian biases."""
    place = {s: (m, i, j) for m, M in enumerate(matrices) for i, row in enumerate(M, 1) for j, s in enumerate(row, 1)}
    total = Fraction(0)
    for powers, c in polynomial.terms():
        parts = [{} for _ in matrices]
        value = Fraction(int(c.p), int(c.q))
        for s, p in zip(polynomial.gens, powers):
            if p and s in place:
                m, i, j = place[s]
                parts[m][i, j] = p
            elif p:
                value *= bias ** (p // 2) * entry_moment("gaussian", p)
        for M, entries in zip(matrices, parts):
            if value:
                value *= matrix_moment(law, entries, (len(M), len(M[0])), variance)
        total += value
    return total
