"""Weingarten functions and Haar moments: two algorithms, the Gram matrix itself, peeling of rows, and sampling."""

from __future__ import annotations

import random
from collections import Counter
from math import prod

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import n
from meanfield.symbolic.finite_width.haar import orthogonality, zonal
from meanfield.symbolic.finite_width.haar.haar_moments import MOST, haar_moment, type_counts
from meanfield.symbolic.finite_width.haar.pairings import (
    all_pairings,
    coset_type,
    even_partitions,
    fits,
    join,
    partitions,
    set_partitions,
)
from tests.oracles.haar import haar_samples, peeled

NAN = float("nan")


def types(k):
    return list(partitions(k))


def number_of(type_):
    """How many pairings have this coset type with a given one."""
    repeated = prod(sp.factorial(type_.count(part)) for part in set(type_))
    return sp.factorial(sum(type_)) * 2 ** sum(type_) // (prod(2 * part for part in type_) * repeated)


# ------------------------------------------------------------------------------------------------ combinatorics


def test_counts_of_pairings_and_partitions():
    assert [len(all_pairings(k)) for k in range(5)] == [1, 1, 3, 15, 105]
    assert [len(types(k)) for k in range(9)] == [1, 1, 2, 3, 5, 7, 11, 15, 22]
    assert [sum(1 for _ in set_partitions(range(k))) for k in range(6)] == [1, 1, 2, 5, 15, 52]  # Bell
    assert [sum(1 for _ in even_partitions(range(2 * k))) for k in range(5)] == [1, 1, 4, 31, 379]  # OEIS A005046
    assert sorted(map(sorted, join([(1, 2), (3, 4)], [(2, 3), (5,)]))) == [[1, 2, 3, 4], [5]]
    for k in (2, 3, 4):
        seen = Counter(coset_type(all_pairings(k)[0], p) for p in all_pairings(k))
        assert seen == {t: number_of(t) for t in types(k)}


# ------------------------------------------------------------------------------------- Weingarten: two algorithms


def assert_algorithms_agree(k, values):
    """`values` {type: rational function} are those of orthogonality; so are numbers at n = k, k + 1, 2k + 3."""
    second = orthogonality.by_orthogonality(k)
    for t in types(k):
        assert sp.cancel(values[t] - second[t]) == 0, f"the value of {t} is not that of orthogonality"
    for size in (k, k + 1, 2 * k + 3):
        numbers = orthogonality.at_integer(k, size)
        for t in types(k):
            assert mf.symbolic.weingarten(t, size) == sp.Rational(numbers[t].numerator, numbers[t].denominator)


@pytest.mark.slow_with("5", "6")
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6, *(pytest.param(k, marks=pytest.mark.slow) for k in (7, 8))])
def test_two_algorithms(k):
    assert_algorithms_agree(k, {t: mf.symbolic.weingarten(t) for t in types(k)})


def test_a_wrong_coset_type_or_a_dropped_term_is_seen(monkeypatch):
    values = {t: mf.symbolic.weingarten(t) for t in types(4)}
    with pytest.raises(AssertionError, match="is not that of orthogonality"):
        assert_algorithms_agree(4, values | {(2, 2): values[3, 1], (3, 1): values[2, 2]})
    orthogonality.by_orthogonality.cache_clear()
    real = orthogonality.equation

    def without_a_twist(type_, p):
        row, reduced = real(type_, p)
        return ({t: c for t, c in row.items() if t != type_} if p == 3 else row), reduced

    monkeypatch.setattr(orthogonality, "equation", without_a_twist)
    with pytest.raises(AssertionError, match="is not that of orthogonality"):
        assert_algorithms_agree(4, values)
    orthogonality.by_orthogonality.cache_clear()


@pytest.mark.parametrize("k", range(1, 7))
def test_series_of_two_algorithms(k):
    """Wg of a type with m loops begins with n^{m − 2k}; the coefficients count paths of the recursion."""
    by_paths = orthogonality.series(k, k + 5)
    for t in types(k):
        lead = 2 * k - len(t)
        law = mf.symbolic.weingarten(t, terms=5)
        assert law.remainder == -lead - 5 and not any(by_paths[t][: lead - k])
        assert law.expr == sum(by_paths[t][lead - k + m] * n ** (-lead - m) for m in range(5))
        if k < 4:
            x = sp.Symbol("x", positive=True)
            taylor = sp.series(sp.cancel(mf.symbolic.weingarten(t).subs(n, 1 / x)), x, 0, lead + 5).removeO()
            assert sp.expand(taylor.subs(x, 1 / n) - law.expr) == 0


def test_published_values():
    """[orthogonal_weights] (2.6), (4.10), (4.11) and the order 6 of its specification."""
    w = mf.symbolic.weingarten
    assert w((1, 1)).equals((n + 1) / ((n - 1) * n * (n + 2))) and w((2,)).equals(-1 / ((n - 1) * n * (n + 2)))
    d = n * (n - 2) * (n - 1) * (n + 2) * (n + 4)
    assert w((1, 1, 1)).equals((n**2 + 3 * n - 2) / d) and w((2, 1)).equals(-(n + 2) / d) and w(3).equals(2 / d)
    assert w((1, 1), terms=4).expr == n**-2 + 2 * n**-4 - 2 * n**-5
    assert w(2, terms=2).expr == -(n**-3) + n**-4


# ---------------------------------------------------------------------------------------------- the Gram matrix


def gram(k, size):
    return [[size ** len(join(p, q)) for q in all_pairings(k)] for p in all_pairings(k)]


def assert_inverts(k, size, value):
    """G W G = G and W G W = W exactly, W the matrix of `value` of coset types: with symmetry, the pseudo-inverse."""
    G = sp.Matrix(gram(k, size))
    kinds = {t: value(t) for t in types(k)}
    W = sp.Matrix([[kinds[coset_type(p, q)] for q in all_pairings(k)] for p in all_pairings(k)])
    assert G * W * G == G and W * G * W == W and (G * W).is_symmetric(), "W is no pseudo-inverse of G"


@pytest.mark.parametrize(("k", "size"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (3, 7)])
def test_pseudo_inverse_of_the_gram_matrix(k, size):
    assert_inverts(k, size, lambda t: mf.symbolic.weingarten(t, size))


def test_a_pole_filled_in_by_hand_is_no_pseudo_inverse():
    with pytest.raises(AssertionError, match="no pseudo-inverse"):
        assert_inverts(3, 2, lambda t: sp.Rational(1, 3) if len(t) == 3 else mf.symbolic.weingarten(t, 2))
    with pytest.raises(AssertionError, match="no pseudo-inverse"):
        assert_inverts(3, 3, lambda t: mf.symbolic.weingarten(t, 3) * (2 if t == (2, 1) else 1))


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_pseudo_inverse_of_order_four(size):
    G = np.array(gram(4, size), dtype=float)
    kinds = {t: float(mf.symbolic.weingarten(t, size)) for t in types(4)}
    W = np.array([[kinds[coset_type(p, q)] for q in all_pairings(4)] for p in all_pairings(4)])
    assert np.allclose(W, np.linalg.pinv(G, rcond=1e-10), atol=1e-12)


# ---------------------------------------------------------------------------------------------------- sum rules


@pytest.mark.slow_with("6")
@pytest.mark.parametrize("k", [*range(1, 7), *(pytest.param(k, marks=pytest.mark.slow) for k in (7, 8))])
def test_sum_rules(k):
    """Σ Wg = 1/(n(n + 2)…(n + 2k − 2)) and Σ n^(loops) Wg = 1 over all pairings, Σ of squares by type as f_2λ says."""
    total = sum(number_of(t) * mf.symbolic.weingarten(t) for t in types(k))
    assert sp.cancel(total * prod(n + 2 * j for j in range(k)) - 1) == 0
    size = k + 3
    assert sum(number_of(t) * size ** len(t) * mf.symbolic.weingarten(t, size) for t in types(k)) == 1
    dropped = sum(number_of(t) * size ** len(t) * mf.symbolic.weingarten(t, size) for t in types(k) if t != (k,))
    assert dropped != 1
    assert sum(zonal.dimensions(k).values()) == zonal.double_factorial(k)


# ------------------------------------------------------------------------------------------------------ moments


PATTERNS = [
    ((1, 1), (1, 1)),
    ((1, 1, 2, 2), (1, 1, 2, 2)),
    ((1, 1, 2, 2), (1, 2, 1, 2)),
    ((1, 1, 1, 1, 2, 2), (1, 1, 2, 2, 1, 1)),
    ((1, 2, 1, 2, 1, 2, 1, 2), (1, 1, 1, 1, 2, 2, 2, 2)),
    ((1, 1, 2, 2, 1, 1, 2, 2), (1, 2, 1, 2, 1, 2, 1, 2)),
    ((1, 1, 1, 1, 1, 1, 1, 1), (1, 1, 2, 2, 1, 1, 2, 2)),
    ((1, 1, 2, 2, 3, 3), (1, 2, 2, 3, 3, 1)),
    ((1, 1, 2, 2, 3, 3, 1, 1), (1, 2, 2, 3, 3, 1, 3, 3)),
]


def assert_moment(rows, columns, size, value):
    moment = sp.Rational(str(peeled(rows, columns, size)))
    assert value == moment, f"the moment is {moment}, not {value}"


@pytest.mark.parametrize(("rows", "columns"), PATTERNS)
def test_moments_against_peeled_rows(rows, columns):
    """Also at n below the order, where the Gram matrix is singular; and the rational function has no pole there."""
    function = mf.symbolic.haar_moment(rows, columns)
    for size in range(max(*rows, *columns), 7):
        assert_moment(rows, columns, size, mf.symbolic.haar_moment(rows, columns, size))
        assert_moment(rows, columns, size, function.subs(n, size))
    with pytest.raises(AssertionError, match="the moment is"):
        assert_moment(rows, columns, 5, mf.symbolic.haar_moment(rows, columns, 6))


def test_type_counts_are_those_of_pairs_of_pairings():
    rng = random.Random(5)
    for _ in range(60):
        k, labels = rng.choice([1, 2, 3]), rng.choice([1, 2, 3])
        rows, columns = ([rng.randrange(labels) for _ in range(2 * k)] for _ in range(2))
        allowed = [[p for p in all_pairings(k) if fits(x, p)] for x in (rows, columns)]
        assert type_counts(rows, columns) == Counter(coset_type(p, q) for p in allowed[0] for q in allowed[1])


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_rows_are_orthonormal(size):
    """Σ_j E[O_1j O_ij X] is E[X] for i = 1 and 0 for i = 2, whatever X: at n below the order, too."""
    for rows, columns in (((1, 1, 1, 1), (1, 1, 1, 1)), ((min(2, size),) * 4, (1, 1, size, size))):
        for i in range(1, min(size, 2) + 1):
            extra = (1, i) if i == 1 else (1, 2)
            total = sum(mf.symbolic.haar_moment([*rows, *extra], [*columns, j, j], size) for j in range(1, size + 1))
            assert total == (mf.symbolic.haar_moment(rows, columns, size) if i == 1 else 0)


def test_orthonormality_has_teeth():
    """With Σ over n − 1 columns, or the rational function's values at its poles' neighbours, it fails."""
    total = sum(mf.symbolic.haar_moment([1, 1, 1, 1], [1, 1, j, j], 3) for j in (1, 2))
    assert total != mf.symbolic.haar_moment([1, 1], [1, 1], 3)


@pytest.mark.parametrize("k", [*range(1, 9), *(pytest.param(k, marks=pytest.mark.slow) for k in range(9, 13))])
def test_one_entry_is_a_coordinate_of_the_sphere(k):
    """E O_11^{2k} = (2k − 1)!!/(n(n + 2)…), up to 24 factors; the law of O_11² is Beta(1/2, (n − 1)/2)."""
    value = mf.symbolic.haar_moment([1] * 2 * k, [1] * 2 * k, 7)
    assert value == sp.rf(sp.Rational(1, 2), k) / sp.rf(sp.Rational(7, 2), k)


def z_scores(sample, size):
    out = []
    for rows, columns in PATTERNS:
        if max(*rows, *columns) <= size:
            product = prod(sample[:, i - 1, j - 1] for i, j in zip(rows, columns))
            error = product.std() / len(product) ** 0.5
            if error > 1e-9:  # O(1): every even power is 1
                out.append((product.mean() - float(mf.symbolic.haar_moment(rows, columns, size))) / error)
    odd = sample[:, 0, 0] ** 3
    return np.array([*out, odd.mean() / odd.std() * len(odd) ** 0.5])


@pytest.mark.parametrize("size", [2, 3, pytest.param(5, marks=pytest.mark.slow)])
def test_moments_against_sampled_matrices(size):
    """At n = 2, 3 below the orders up to 4."""
    z = z_scores(haar_samples(60_000, size, np.random.default_rng(20 + size)), size)
    assert np.abs(z).max() < 4, z
    without = z_scores(haar_samples(60_000, size, np.random.default_rng(20 + size), sign_fix=False), size)
    assert np.abs(without).max() > 10  # LAPACK's signs are not Haar


# -------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (((0, 1),), "partition"),
        (((2, 1.5),), "partition"),
        (("two",), "partition"),
        ((None,), "partition"),
        ((13,), "order 12"),
        (((7, 7),), "order 12"),
        (({1, 2},), "partition"),
        (({2: 1},), "partition"),
        (((1, 1), 0), "whole number from 1"),
        (((1, 1), 2.5), "whole number"),
        (((1, 1), NAN), "whole number"),
        (((1, 1), True), "whole number"),
        (((1, 1), "many"), "whole number"),
    ],
)
def test_bad_coset_types_and_sizes(arguments, words):
    with pytest.raises(MeanFieldError, match=words):
        mf.symbolic.weingarten(*arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1, 1], [1]), "2 rows and 1 columns"),
        (([1, 1, 3, 3], [1, 1, 1, 1], 2), "rows"),
        (([1, 1], [0, 0]), "columns"),
        (([1, 1], [1, 1], 0), "size"),
        (([1, 1.5], [1, 1]), "rows"),
        ((["a", "a"], [1, 1]), "rows"),
        ((1, [1]), "sequence"),
        ((None, None), "sequence"),
        (([1] * 26, [1] * 26), "24"),
        (({1, 2}, [1, 1]), "sequence"),
    ],
)
def test_bad_labels(arguments, words):
    with pytest.raises(MeanFieldError, match=words):
        mf.symbolic.haar_moment(*arguments)


def test_terms_and_n_are_alternatives():
    with pytest.raises(MeanFieldError, match="one of them"):
        mf.symbolic.weingarten(2, 5, terms=3)
    with pytest.raises(MeanFieldError, match="terms"):
        mf.symbolic.weingarten(2, terms=0)
    with pytest.raises(MeanFieldError, match="n ≥ 3"):
        orthogonality.at_integer(3, 2)


def test_odd_products_vanish():
    assert mf.symbolic.haar_moment([1], [1]) == 0 == mf.symbolic.haar_moment([1, 1, 1], [1, 1, 1], 4)
    assert mf.symbolic.haar_moment([1, 1, 2, 2], [1, 1, 1, 2]) == 0 and mf.symbolic.haar_moment(
        [], []
    ) == 1 == mf.symbolic.weingarten(())
    assert mf.symbolic.haar_moment([1, 1, 2], [1, 1, 2], terms=3).expr == 0


def test_the_most_factors_of_a_moment():
    """⟨O_11^24⟩ = 23!!/(n(n + 2)…(n + 22)), the moment of a coordinate on the sphere; 25 factors are too many."""
    size = 7
    truth = sp.Rational(prod(range(1, 2 * MOST, 2)), prod(range(size, size + 2 * MOST, 2)))
    assert haar_moment([1] * 2 * MOST, [1] * 2 * MOST, size) == truth
    with pytest.raises(MeanFieldError, match=rf"at most {2 * MOST} factors are known, but more rows were given"):
        haar_moment([1] * (2 * MOST + 1), [1] * (2 * MOST + 1), size)
