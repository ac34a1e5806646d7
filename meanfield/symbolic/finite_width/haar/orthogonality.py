r"""Weingarten functions from the orthogonality of rows alone: nothing is shared with the zonal expansion.

Let two columns in E[O_{i_1 j_1} … O_{i_2k j_2k}] be equal and summed over: O Oᵀ = 1 lowers the order by one. Written by
Weingarten functions, with p half the length of the loop that runs through this pair, R the other parts of the type:

    (n + p − 1) Wg(p, R) + Σ_{q ∈ R} 2q Wg(p + q, R − q) + Σ_{r=1}^{p−1} Wg(r, p − r, R) = [p = 1] Wg(R).

Of the 2k − 2 other positions, 2q lie on a loop q, which the exchange joins to p; of the 2p − 2 on the loop itself half
cut it in two and half turn a piece of it round. One such equation for each type determines all Wg of an order as
rational functions; solved for n Wg and iterated it gives their series in 1/n; all of them, solved as numbers, the
values at an integer n ≥ k.

Source: derived here; the method is that of [Collins, Matsumoto 2017].
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import sympy as sp
from sympy.polys.matrices import DomainMatrix

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import n
from meanfield.symbolic.finite_width.haar.pairings import Type, joined, partitions

Row = tuple[dict[Type, int], Type | None]  # of every type its coefficient, apart from n; the type on the right, or none


def equations(k: int) -> Iterator[tuple[Type, Row]]:
    """(type, its equation) for every type of order k and every loop of it."""
    for type_ in partitions(k):
        for p in sorted(set(type_)):
            yield type_, equation(type_, p)


def equation(type_: Type, p: int) -> Row:
    """The equation of one type and one of its loops."""
    row: dict[Type, int] = {}

    def add(which: Type, count: int) -> None:
        row[which] = row.get(which, 0) + count

    rest = joined(type_, (p,), ())
    if p > 1:
        add(type_, p - 1)
    for q in rest:
        add(joined(type_, (p, q), (p + q,)), 2 * q)
    for r in range(1, p):
        add(joined(type_, (p,), (r, p - r)), 1)
    return row, rest if p == 1 else None


@lru_cache(maxsize=32)
def by_orthogonality(k: int) -> dict[Type, sp.Expr]:
    """{coset type: Wg} of order k as rational functions of n.

    >>> by_orthogonality(2)[1, 1]
    (n + 1)/(n**3 + n**2 - 2*n)
    """
    if k == 0:
        return {(): sp.S.One}
    types, field = list(partitions(k)), sp.QQ.frac_field(n)
    place, lower, x = {t: i for i, t in enumerate(types)}, by_orthogonality(k - 1), field.from_sympy(n)
    left = [[field.zero] * len(types) for _ in types]
    right = [[field.zero] for _ in types]
    for i, type_ in enumerate(types):
        row, reduced = equation(type_, type_[-1])
        left[i][i] += x
        for t, count in row.items():
            left[i][place[t]] += count
        if reduced is not None:
            right[i][0] = field.from_sympy(lower[reduced])
    size = len(types)
    solved = DomainMatrix(left, (size, size), field).lu_solve(DomainMatrix(right, (size, 1), field))
    return {t: field.to_sympy(solved[i, 0].element) for i, t in enumerate(types)}


def at_integer(k: int, width: int) -> dict[Type, Fraction]:
    """{coset type: Wg} of order k at an integer n = `width` ≥ k, where the Gram matrix has an inverse.

    Raises: MeanFieldError for width < k, where the equations leave more than one solution.
    """
    if width < k:
        raise MeanFieldError(
            f"Weingarten functions of order {k} at n = {width} were asked for by orthogonality alone; it determines "
            f"them for n ≥ {k}, the zonal expansion (`weingarten`) for every n ≥ 1."
        )
    known: dict[Type, Fraction] = {(): Fraction(1)}
    for order in range(1, k + 1):
        types = list(partitions(order))
        rows = []
        for type_, (row, reduced) in equations(order):
            line = [Fraction(row.get(t, 0) + (width if t == type_ else 0)) for t in types]
            rows.append([*line, known[reduced] if reduced is not None else Fraction(0)])
        known = dict(zip(types, _solved(rows, len(types))))
    return known


def _solved(rows: list[list[Fraction]], unknowns: int) -> list[Fraction]:
    """The solution of a system with more equations than unknowns."""
    for i in range(unknowns):
        pivot = next(r for r in range(i, len(rows)) if rows[r][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        head = rows[i] = [x / rows[i][i] for x in rows[i]]
        for r, row in enumerate(rows):
            if r != i and row[i]:
                rows[r] = [x - row[i] * y for x, y in zip(row, head)]
    if any(row[-1] for row in rows[unknowns:]):
        raise MeanFieldError("The equations of orthogonality contradict each other.")
    return [row[-1] for row in rows[:unknowns]]


def series(k: int, terms: int) -> dict[Type, list[int]]:
    """{coset type: [c_0, c_1, …]} with Wg = Σ_m c_m n^{−k−m}, `terms` of them, by iterating the equations."""
    known: dict[Type, list[int]] = {(): [1] + [0] * (terms - 1)}
    for order in range(1, k + 1):
        table = {t: equation(t, t[-1]) for t in partitions(order)}
        found: dict[Type, list[int]] = {t: [] for t in table}
        for m in range(terms):
            here = {}
            for t, (row, reduced) in table.items():
                source = known[reduced][m] if reduced is not None else 0
                here[t] = source - (sum(count * found[u][m - 1] for u, count in row.items()) if m else 0)
            for t, value in here.items():
                found[t].append(value)
        known = found
    return known
