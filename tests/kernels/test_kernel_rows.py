"""Loops over rows of inputs by hand: inner products, distances and angles at 50 digits, flags and mirrors."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from meanfield.kernels import inner_products

RNG = np.random.default_rng(5)
X, Y = RNG.standard_normal((4, 7)), RNG.standard_normal((5, 7))


def test_products_of_rows():
    """scale·x·y + shift: of all columns from first[a] on, of single pairs, of rows with themselves."""
    first, out = np.array([0, 2, 4, 5]), np.full((4, 5), 9.0)
    inner_products.gram(X, np.ascontiguousarray(Y.T), first, 0.5, 0.25, out)
    there = np.arange(5) >= first[:, None]
    assert out[there] == pytest.approx((0.5 * X @ Y.T + 0.25)[there], rel=1e-13) and (out[~there] == 9.0).all()
    own = np.empty(4)
    inner_products.norms(X, own)
    assert own == pytest.approx((X * X).sum(axis=1), rel=1e-14)
    left, right, found = np.array([0, 3, 1]), np.array([4, 0, 1]), np.empty(3)
    inner_products.products(X, Y, left, right, 0.5, 0.25, found)
    assert found == pytest.approx(0.5 * (X[left] * Y[right]).sum(axis=1) + 0.25, rel=1e-13)


@pytest.mark.parametrize("n, first", [(9, 0), (11, [0, 0, 0, 0, 2, 3, 3, 3, 3, 3, 5])])
@pytest.mark.parametrize("terms", [3, 8, 18])
def test_rows_together_have_the_bits_of_single_ones(n, first, terms):
    """Four rows that begin together are summed side by side, each in its own order: one number after the other."""
    rows, columns = RNG.standard_normal((n, terms)), RNG.standard_normal((terms, 6))
    first, out = np.broadcast_to(np.asarray(first), n).copy(), np.full((n, 6), 9.0)
    inner_products.gram(rows, columns, first, 0.3, 0.1, out)
    for a, row in enumerate(rows):
        total = np.zeros(6)
        for x, column in zip(row, columns):
            total = total + x * column
        there = np.arange(6) >= first[a]
        assert (out[a][there] == (0.3 * total + 0.1)[there]).all() and (out[a][~there] == 9.0).all()


@pytest.mark.parametrize("shift", [0.0, 0.25])
def test_how_far_rows_are_apart(shift):
    """Distance and angle at 50 digits: of close rows, collinear, opposite and equal ones, and 0."""
    x, scale = X[0], 0.5
    other = np.stack([x + 1e-9 * X[1], 2.0 * x, (1 + 2.0**-40) * x, -x, x, Y[0], 0 * x])
    left, right = np.zeros(7, dtype=np.int64), np.arange(7)
    KX, KY = scale * (X * X).sum(axis=1) + shift, scale * (other * other).sum(axis=1) + shift
    distance, norm_angle, across = np.empty(7), np.empty(7), np.empty(7)
    inner_products.pair_distances(X, other, left, right, scale, shift, KX, KY, distance, norm_angle, across)
    with mp.workdps(50):
        for p in range(7):
            a, b = ([mp.mpf(float(v)) for v in row] for row in (x, other[p]))
            A, B = (scale * mp.fsum(v * v for v in row) + shift for row in (a, b))
            square = scale * mp.fsum((v - w) ** 2 for v, w in zip(a, b))
            between = mp.sqrt(A) - mp.sqrt(B)
            assert distance[p] == pytest.approx(float(square), rel=1e-13)
            angle = mp.asin(between / mp.sqrt(square)) if square else mp.mpf(0)
            assert norm_angle[p] == pytest.approx(
                float(angle), rel=1e-6 if p in (1, 2) and not shift else 1e-11, abs=1e-15
            )


def test_pairs_that_are_flagged_and_opposite_ones():
    """1 − c < least flags, 1 + c < least is opposite; of pairs from first[a] on alone, the edge itself is neither."""
    KX, KY, first = np.array([1.0, 4.0]), np.array([1.0, 9.0, 4.0]), np.array([0, 1])
    size = np.sqrt(np.outer(KX, KY))
    c = np.array([[0.9375, -0.75, 1.0], [0.99, -0.9375, 0.96]])
    flags = np.zeros((2, 3), dtype=np.uint8)
    inner_products.close_at_start(c * size, KX, KY, 0.0625, first, flags)
    assert flags.tolist() == [[0, 0, 1], [0, 0, 1]]
    assert [v.tolist() for v in inner_products.flagged(flags, first)] == [[0, 1], [2, 2]]
    assert [v.tolist() for v in inner_products.flagged(np.ones((2, 3), np.uint8), np.array([1, 2]))] == [
        [0, 0, 1],
        [1, 2, 2],
    ]
    assert [v.size for v in inner_products.flagged(np.zeros((2, 3), np.uint8), first)] == [0, 0]
    assert inner_products.opposite(c * size, KX, KY, 0.0625, first) == 0.0
    assert inner_products.opposite(c * size, KX, KY, 0.07, first) == 9.0
    assert inner_products.opposite(c[:1] * size[:1], KX[:1], KY, 0.3, first) == 9.0
    assert inner_products.opposite(np.full((1, 1), -6.0), np.array([9.0]), np.array([4.0]), 0.3, first) == 9.0


@pytest.mark.slow
def test_distances_of_a_block():
    """K_aa + K_bb − 2K_ab, and the largest √(K_aa K_bb) over it of pairs that are not flagged; ∞ where one is 0."""
    KX, KY, first = np.array([1.0, 4.0]), np.array([1.0, 9.0]), np.array([0, 1])
    K_ab, out = np.array([[0.5, 1.0], [7.0, 5.5]]), np.full((2, 2), 8.0)
    flags = np.zeros((2, 2), dtype=np.uint8)
    assert inner_products.distances(K_ab, KX, KY, first, flags, out) == pytest.approx(6 / 2)
    assert out.tolist() == [[1.0, 8.0], [8.0, 2.0]]
    flags[1, 1] = 1
    assert inner_products.distances(K_ab, KX, KY, first, flags, out) == pytest.approx(1.0)
    assert inner_products.distances(np.array([[1.0]]), KX[:1], KY[:1], first, flags, out) == math.inf


def test_a_triangle_is_mirrored():
    n = 2 * inner_products.SQUARE + 5
    values, own = RNG.standard_normal((n, n)), np.arange(n, dtype=float)
    expected = np.triu(values, 1) + np.triu(values, 1).T + np.diag(own)
    inner_products.mirror(values, own)
    assert np.array_equal(values, expected)
