r"""Moments of Haar-orthogonal matrices: how often each coset type occurs for given labels, and the sum over them.

Fix a pairing of the factors that the columns allow. Its pairs are k open threads whose ends carry row labels; pairings
that the rows allow tie ends of equal labels. Only the multiset of threads matters, so that the count by types is a
sum over few states, where pairs of pairings would be (2k − 1)!!² for equal labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from functools import lru_cache
from math import factorial, prod
from typing import Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown, validated, whole
from meanfield.symbolic.finite_width.haar.pairings import Type, joined
from meanfield.symbolic.finite_width.haar.weingarten import LARGEST, MOST, in_form, listed
from meanfield.symbolic.finite_width.haar.zonal import components, double_factorial
from meanfield.symbolic.series.asymptotic_law import Law

Thread = tuple[int, int, int]  # the labels of its ends, the smaller first, and half its length
Threads = tuple[Thread, ...]


@validated
def haar_moment(
    rows: Sequence[int], columns: Sequence[int], n: int | None = None, *, terms: int | None = None
) -> sp.Expr | Law:
    r"""E[O_{i_1 j_1} O_{i_2 j_2} … O_{i_r j_r}] for O uniform (Haar) on the orthogonal group O(n).

    rows, columns: i_1 … i_r and j_1 … j_r, integers from 1 to n, as many of one as of the other; at most 24. A block of
    a larger orthogonal matrix has the moments of that matrix: n is the size of the whole.
    n: None gives a rational function of the symbol n, valid at every integer n that is at least the number of different
    rows and that of different columns; an integer from the largest label to 10^9 gives a fraction.
    terms: instead, this many powers of 1/n, from the leading one on, as a `Law` in n → ∞ (zeros are counted).

    An odd number of factors, or of those in one row or column, gives 0. To scale: weights W = √v · √n · O with entries
    of variance v have the moment times (v n)^{r/2}.

    Accuracy: exact. Raises: MeanFieldError for labels that are no integers of [1, n], or lists of unequal lengths.
    Source: [Collins, Śniady 2006] for the sum over Weingarten functions; counting by threads is derived here.

    >>> print(haar_moment([1, 1, 2, 2], [1, 1, 2, 2]), "|", haar_moment([1, 1, 2, 2], [1, 2, 1, 2], 5))
    (n + 1)/(n*(n - 1)*(n + 2)) | -1/140
    >>> print(haar_moment([1] * 8, [1] * 8), "|", haar_moment([1, 1, 2], [1, 1, 2]))
    105/(n*(n + 2)*(n + 4)*(n + 6)) | 0
    """
    row, column = _labels(rows, "rows", n), _labels(columns, "columns", n)
    if len(row) != len(column):
        raise MeanFieldError(
            f"A moment needs a row and a column for every factor, but {len(row)} rows and {len(column)} columns were "
            "given."
        )
    counts = type_counts(row, column)
    parts = components({t: Fraction(c) for t, c in counts.items()}) if counts else {}
    return in_form(parts, n, terms)


def _labels(given: Any, what: str, n: int | None) -> tuple[int, ...]:
    labels = listed(given, 2 * MOST)
    if labels is None:
        raise MeanFieldError(f"The {what} must be a sequence of integers, but {shown(given)} was given.")
    if len(labels) > 2 * MOST:
        raise MeanFieldError(f"Moments of at most {2 * MOST} factors are known, but more {what} were given.")
    highest = LARGEST if n is None else whole(n, "n, the size of the orthogonal matrix,", 1, LARGEST)
    return tuple(whole(x, f"Every label of {what}", 1, highest) for x in labels)


def type_counts(rows: Sequence[Hashable], columns: Sequence[Hashable]) -> dict[Type, int]:
    """{coset type of p and q: number of pairs of a pairing p that the rows allow and a q that the columns allow}."""
    if any(c % 2 for labels in (rows, columns) for c in Counter(labels).values()):
        return {}
    groups = min((_groups(rows, columns), _groups(columns, rows)), key=_many)
    states: Counter[Threads] = Counter({(): 1})
    for group in groups:
        states = _product(states, _paired(group))
    found: Counter[Type] = Counter()
    for threads, times in states.items():
        for type_, count in _closed(threads).items():
            found[type_] += times * count
    return dict(found)


def _groups(rows: Sequence[Hashable], columns: Sequence[Hashable]) -> list[tuple[int, ...]]:
    """For each column the rows that occur in it, as numbers."""
    number = {label: i for i, label in enumerate(dict.fromkeys(rows))}
    groups: dict[Hashable, list[int]] = {}
    for row, column in zip(rows, columns):
        groups.setdefault(column, []).append(number[row])
    return [tuple(sorted(group)) for group in groups.values()]


def _many(groups: list[tuple[int, ...]]) -> float:
    """About how many states pairing the groups makes."""
    return prod(max(1.0, double_factorial(len(g) // 2) / prod(map(factorial, Counter(g).values()))) for g in groups)


def _product(one: Counter[Threads], two: dict[Threads, int]) -> Counter[Threads]:
    found: Counter[Threads] = Counter()
    for a, m in one.items():
        for b, k in two.items():
            found[tuple(sorted(a + b))] += m * k
    return found


@lru_cache(maxsize=4096)
def _paired(labels: tuple[int, ...]) -> dict[Threads, int]:
    """All pairings of labelled positions, counted by the multiset of threads of length 1 that they make."""
    if not labels:
        return {(): 1}
    first, rest = labels[0], labels[1:]
    found: Counter[Threads] = Counter()
    for partner, times in Counter(rest).items():
        left = list(rest)
        left.remove(partner)
        for threads, count in _paired(tuple(left)).items():
            found[tuple(sorted([*threads, (first, partner, 1)]))] += times * count
    return dict(found)


@lru_cache(maxsize=1 << 16)
def _closed(threads: Threads) -> dict[Type, int]:
    """The ways to tie ends of equal labels, counted by the lengths of the loops that come out."""
    if not threads:
        return {(): 1}
    (begin, end, length), rest = threads[0], threads[1:]
    found: Counter[Type] = Counter()
    if begin == end:  # the first thread closes on itself
        for type_, count in _closed(rest).items():
            found[joined(type_, (), (length,))] += count
    for other, times in Counter(rest).items():
        left = list(rest)
        left.remove(other)
        for near, far in ((other[0], other[1]), (other[1], other[0])):
            if near == begin:  # `begin` is tied to one end of another: one longer thread
                new = (*sorted((end, far)), length + other[2])
                for type_, count in _closed(tuple(sorted([*left, new]))).items():
                    found[type_] += times * count
    return dict(found)
