"""Moments of weights (§ 2, § 3) and their series in 1/n (4.10), (4.11)."""

from __future__ import annotations

from functools import partial

import sympy as sp

import meanfield as mf
from derivations.comparisons import Formula
from derivations.orthogonal_weights.kinds import LINEAR, Says
from meanfield.base.symbols import n

DOUBLE = (n + 1) / ((n - 1) * n * (n + 2))  # W[1,1]
SINGLE = -1 / ((n - 1) * n * (n + 2))  # W[2]


def moment(rows: str, columns: str):
    """E[Π W_{i j}] of a Haar matrix, labels as digits."""
    return lambda theory: mf.symbolic.haar_moment([int(i) for i in rows], [int(j) for j in columns])


def coefficient(*type_: int):
    return lambda theory: mf.symbolic.weingarten(type_)


def series(*type_: int, terms: int):
    return lambda theory: sp.Add(*[t.expr(n) for t in mf.symbolic.weingarten(type_, terms=terms).terms])


def row_sum(m: int, theory: mf.Theory) -> sp.Expr:
    """Σ over pairings of the Weingarten function: E[W_11^{2m}] over the number of pairings."""
    return sp.cancel(mf.symbolic.haar_moment([1] * 2 * m, [1] * 2 * m) / sp.factorial2(2 * m - 1))


def rising(m: int, by: int = 2) -> sp.Expr:
    """n(n + 2)…(n + 2m - 2)."""
    return sp.Mul(*[n + by * k for k in range(m)])


def gaussian_vertex(theory: mf.Theory) -> sp.Expr:
    """V of a first layer by (2.4): nothing is connected."""
    return mf.symbolic.first_linear_layer(n, bias=0).correlators()["V"]


MOMENTS = (
    Formula("(2.2) C_W = 1", LINEAR, "E W^2", 1 / n, 1 / n**2, by=moment("11", "11")),
    Formula("(2.4) first layer", LINEAR, "V", sp.S.Zero, -2 * n / (n + 2), by=gaussian_vertex),
    Formula("(2.5) i, j paired alike", LINEAR, "E WWWW", DOUBLE, SINGLE, by=moment("1122", "1122")),
    Formula("(2.5) i, j paired otherwise", LINEAR, "E WWWW", SINGLE, DOUBLE, by=moment("1122", "1212")),
    Formula("(2.5) two rows, one column", LINEAR, "E WWWW", DOUBLE + 2 * SINGLE, DOUBLE + SINGLE,
            by=moment("1122", "1111")),
    Formula("(2.5) one entry", LINEAR, "E WWWW", 3 * DOUBLE + 6 * SINGLE, 9 * DOUBLE, by=moment("1111", "1111")),
    Formula("(2.6) W[1,1]", LINEAR, "W[1,1]", DOUBLE, n / ((n - 1) * (n**2 + n - 2)), by=coefficient(1, 1)),
    Formula("(2.6) W[2]", LINEAR, "W[2]", SINGLE, -SINGLE, by=coefficient(2)),
    # E9: asked for n > 2
    Says("E9 (2.5): not at n = 2", LINEAR, "E WWWW", False, True, True,
         by=lambda theory: [mf.symbolic.haar_moment((1, 1, 2, 2), j, 2) for j in ((1, 1, 2, 2), (1, 2, 1, 2))]
         == [DOUBLE.subs(n, 2), SINGLE.subs(n, 2)]),
    *(
        Formula(f"(3.13) order {2 * m}", LINEAR, "sum of W", 1 / rising(m), 1 / rising(m, 1), by=partial(row_sum, m))
        for m in (2, 3, 4, 5)
    ),
)  # fmt: skip
SERIES = (
    Formula("(4.10) W[2]", LINEAR, "W[2]", -(n**-3), -(n**-4), by=series(2, terms=1)),
    Formula("(4.11) W[1,1]", LINEAR, "W[1,1]", n**-2 + 2 * n**-4, n**-2 + 2 * n**-3, by=series(1, 1, terms=3)),
)
CLAIMS = MOMENTS + SERIES
