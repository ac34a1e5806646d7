"""Cells of exponents against linear programs in floats; the largest of affine forms at random places."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import linprog

from meanfield.base.answers.results import MeanFieldError
from meanfield.symbolic.asymptotics.exponent_cells import At, Cell, CellSplit, Undecided, is_zero, partition
from meanfield.symbolic.asymptotics.log_growth import Growth, exponential, regular
from meanfield.symbolic.asymptotics.tables.phase_tree import _strength
from meanfield.symbolic.asymptotics.tables.row_orders import Group, extreme

X = sp.symbols("x y z", real=True)
R = sp.Rational


def row(form: sp.Expr) -> np.ndarray:
    return np.array([*(float(form.coeff(s)) for s in X), float(form.subs(dict.fromkeys(X, 0)))])


def made(strict=(), weak=(), equal=()) -> Cell:
    empty = Cell(X)
    return Cell(X, *(tuple(empty.affine(f) for f in forms) for forms in (strict, weak, equal)))


def margin(strict, weak, equal) -> float | None:
    """The largest d ≤ 1 with strict ≥ d, weak ≥ 0, equal = 0; None where weak and equal alone have no point."""
    above = [[*-row(f)[:3], 1.0] for f in strict] + [[*-row(f)[:3], 0.0] for f in weak]
    right = [row(f)[3] for f in (*strict, *weak)]
    sides = dict(A_ub=above, b_ub=right) if above else {}
    if equal:
        sides |= dict(A_eq=[[*row(f)[:3], 0.0] for f in equal], b_eq=[-row(f)[3] for f in equal])
    found = linprog([0, 0, 0, -1.0], bounds=[(None, None)] * 3 + [(-50, 1)], **sides)
    return -found.fun if found.status == 0 else None


def drawn(seed: int):
    """Three lists of forms with small whole coefficients."""
    rng = np.random.default_rng(seed)

    def form():
        while True:
            c = rng.integers(-2, 3, 4)
            if c[:3].any():
                return sp.Add(*[int(a) * s for a, s in zip(c, X)], int(c[3]))

    counts = rng.integers(0, 5), rng.integers(0, 3), rng.integers(0, 2)
    return [[form() for _ in range(n)] for n in counts]


@pytest.mark.parametrize("seed", range(40))
def test_a_cell_is_empty_exactly_where_a_linear_program_says_so(seed):
    strict, weak, equal = drawn(seed)
    cell, known = made(strict, weak, equal), margin(strict, weak, equal)
    assert cell.is_empty == (known is None or (bool(strict) and known < 1e-9))
    place = cell.point()
    if place is None:
        assert cell.is_empty
        return
    assert all(f.subs(place) > 0 for f in strict) and all(f.subs(place) >= 0 for f in weak)
    assert all(f.subs(place) == 0 for f in equal) and cell.contains(place)
    fewer = cell.reduced()
    rng = np.random.default_rng(seed + 1000)
    for _ in range(30):
        there = {s: R(int(n), 2) for s, n in zip(X, rng.integers(-6, 7, 3))}
        inside = all(f.subs(there) > 0 for f in strict) and all(f.subs(there) >= 0 for f in weak)
        inside = inside and all(f.subs(there) == 0 for f in equal)
        assert cell.contains(there) == inside == fewer.contains(there)
    for one in fewer.strict:  # none of what is left follows from the others
        rest = [fewer.expr(b) for b in fewer.strict if b != one]
        left = [fewer.expr(b) for b in fewer.weak] + [-fewer.expr(one)]
        known = margin(rest, left, equal)
        assert known is not None and (not rest or known > 1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_the_sign_of_a_form_or_a_split(seed):
    strict, weak, equal = drawn(seed)
    cell, form = made(strict, weak, equal), drawn(seed + 100)[0]
    form = form[0] if form else X[0] - X[1]
    kinds = [(1, [*strict, form], equal), (0, strict, [*equal, form]), (-1, [*strict, -form], equal)]
    alive = [s for s, up, same in kinds if (d := margin(up, weak, same)) is not None and (not up or d > 1e-9)]
    assert [s for s, part in cell.parts(form) if not part.is_empty] == alive
    if len(alive) == 1:
        assert cell.sign(form) == alive[0]
    else:
        with pytest.raises(CellSplit, match=f"^{re.escape(str(form))}$") as split:
            cell.sign(form)
        assert split.value.form == form


def test_a_partition_covers_the_cell_and_answers_each_question_once():
    x, y, _ = X
    cell = made(strict=[x, y], weak=[2 - x - y])

    def derive(part: Cell) -> int:
        return 3 * part.sign(x - y) + (part.sign(x - 1) if part.sign(x - y) > 0 else 0)

    leaves = list(partition(cell, derive).leaves())
    assert [leaf.found for leaf in leaves] == [4, 3, 2, 0, -3]
    rng = np.random.default_rng(0)
    for _ in range(40):
        there = {s: R(int(n), 6) for s, n in zip(X, rng.integers(0, 13, 3))}
        held = [leaf.found for leaf in leaves if leaf.cell.contains(there)]
        assert len(held) == cell.contains(there)
        if held:
            assert held[0] == 3 * sp.sign(there[x] - there[y]) + (sp.sign(there[x] - 1) if there[x] > there[y] else 0)


def test_equations_are_put_in():
    x, y, z = X
    cell = made(strict=[x - 1], equal=[x + y - 2, z - 3 * x])
    assert (
        sp.expand(cell.simplified(x + y + z) - (2 + 3 * x)) == 0 or not cell.simplified(x + y + z - 2 - z).free_symbols
    )
    assert cell.simplified(sp.Abs(x - 1)) == cell.simplified(x - 1)
    assert cell.simplified(sp.Abs(y - 1)) == -cell.simplified(y - 1)
    for place in ({x: R(3), y: R(-1), z: R(9)}, {x: R(2), y: R(0), z: R(6)}):
        assert cell.simplified(x * y + z**2).subs(place) == (x * y + z**2).subs(place) and cell.contains(place)
    assert not cell.contains({x: R(1), y: R(1), z: R(3)})
    assert cell.contains({x: sp.sqrt(2), y: 2 - sp.sqrt(2), z: 3 * sp.sqrt(2)})
    assert not cell.contains({x: sp.sqrt(2) - 1, y: 3 - sp.sqrt(2)}) and cell.contains({x: sp.sqrt(2)})


def test_forms_that_cut_no_cell_and_signs_of_numbers():
    cell = made(strict=[X[0]])
    for form in (X[0] ** 2, sp.sqrt(2) * X[0], X[0] + sp.pi):
        with pytest.raises(Undecided, match="is not affine with rational coefficients"):
            cell.sign(form)
    assert cell.sign(sp.sqrt(2) - 1) == 1 and cell.sign(sp.S.Zero) == 0 and cell.sign(3 - sp.pi) == -1
    at = At({X[0]: sp.sqrt(2), X[1]: R(3, 2)})
    assert (at.sign(X[0] - X[1]), at.sign(X[1] - X[0]), at.sign(2 * X[1] - 3), at.sign(X[0] ** 2 - 2)) == (-1, 1, 0, 0)
    with pytest.raises(MeanFieldError, match=r"depends on the sign of .*; give z numbers"):
        at.sign(X[2] - X[0])
    assert is_zero(sp.sqrt(3 + 2 * sp.sqrt(2)) - sp.sqrt(2) - 1)
    assert not is_zero(sp.sqrt(2) - 1) and not is_zero(sp.pi - 3)


@pytest.mark.slow_with("max-3", "max-7", "min-2", "min-3", "min-7")
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("mode", ["max", "min"])
def test_the_largest_of_affine_forms(seed, mode):
    rng = np.random.default_rng(seed)
    count = 1 + seed % 4
    forms = [
        sp.Add(*[int(c) * s for c, s in zip(rng.integers(-2, 3, 3), X)], R(int(rng.integers(-2, 3)), 2))
        for _ in range(count)
    ]
    found = extreme(forms, mode)
    for _ in range(6):
        there = {s: R(int(n), 3) for s, n in zip(X, rng.integers(-9, 10, 3))}
        values = [f.subs(there) for f in forms]
        assert found.subs(there) == (max(values) if mode == "max" else min(values))


def test_the_law_of_several_parts_has_the_largest_exponent():
    """Constants are left out, powers of logarithms stay, and a power 0 is none."""
    place, group = (0, "K"), Group(((((0, "K"), "log", None, 0, 0, 0, (), -1)),))
    for forms, expected in (([X[0], X[1]], sp.Max(X[0], X[1])), ([sp.S.Zero], sp.S.Zero), ([2 * X[0]], 2 * X[0])):
        group.forms[place], group.modes[place] = forms, ("max",)
        assert group._order(regular(3, X[0], 2), place) == regular(None, expected, 2)
        assert group._order(regular(3, X[2], 2), (1, "K")) == regular(None, X[2], 2)
        root = exponential(-5, R(1, 2))
        assert dict(group._order(root * regular(3, X[0]), place).terms) == dict((root * regular(None, expected)).terms)
    lead = Growth((((X[0], sp.S.Zero, sp.S.Zero, sp.S.Zero), sp.Integer(-7)),), (), None, True)
    ((key, sign),) = group._order(lead, place).terms
    assert key[0] == 2 * X[0] and sign == -1


def test_the_coordinate_in_which_a_strength_stands():
    """S itself where both ends give rational multiples of q, W = S v where they give multiples of one irrational v."""

    def found(strength, *gains, norm="", knows_depth=False):
        ends = [SimpleNamespace(is_linear=v is not None, of_square=(1, 0, v)) for v in gains]
        return _strength(SimpleNamespace(norm=norm, knows_depth=knows_depth, strength=strength, zero=ends[0],
                                         infinity=ends[1], phi="phi"))  # fmt: skip

    a, v = sp.Symbol("a", positive=True), 1 - 2 / sp.pi
    for plain in (found(a, v, v, norm="inner"), found(a, v, v, knows_depth=True), found(a, None, None)):
        assert plain == (a, ())
    assert found(R(3, 2), v, R(1, 2)) == (R(3, 2), ())
    symbol, ((name, meant),) = found(a, R(1, 2), None)
    assert symbol == name and meant == a
    size, ((name, meant),) = found(a, v, 2 * v)
    assert sp.simplify(size.subs(name, meant) - a) == 0 and meant == a * v
    with pytest.raises(MeanFieldError, match="The table of phi with symbols for sigma_v, sigma_w is not rational"):
        found(a, v, R(1, 2))


@pytest.mark.parametrize(
    ("strict", "weak", "first"),
    [
        ((), (), 0),
        ((3 - X[0],), (), 2),
        ((), (3 - X[0],), 2),
        ((-R(5, 2) - X[0],), (), -3),
        ((X[0] - 2,), (), 3),
        ((), (X[0] - 2,), 2),
        ((), (X[0] - R(5, 2),), 3),
        ((X[0] - R(1, 3), R(1, 2) - X[0]), (), R(2, 5)),
        ((), (X[0] - R(1, 3), R(1, 2) - X[0]), R(1, 2)),
        ((), (X[0] - R(1, 2), R(1, 2) - X[0]), R(1, 2)),
    ],
)
def test_the_point_of_a_cell_is_the_simplest_of_its_bounds(strict, weak, first):
    """Whole where the bounds allow it, next to them; else of the smallest denominator."""
    assert made(strict, weak).point()[X[0]] == first
