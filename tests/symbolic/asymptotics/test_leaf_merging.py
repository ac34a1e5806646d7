"""Rows of a phase table out of the leaves of its tree: whatever the order of questions, laws and regions stay."""

from __future__ import annotations

import random
from itertools import permutations

import pytest
import sympy as sp

import meanfield as mf
from meanfield.symbolic.asymptotics.exponent_cells import Cell, partition
from meanfield.symbolic.asymptotics.log_growth import regular
from meanfield.symbolic.asymptotics.tables import phase_tree
from meanfield.symbolic.asymptotics.tables.leaf_merging import merged, regions, union
from meanfield.symbolic.asymptotics.tables.phase_tree import Laws

x, y = sp.symbols("beta_a beta_b", positive=True)
WHOLE = Cell((x, y), (), tuple(Cell((x, y)).affine(s) for s in (x, y)))
FORMS = (x - 1, y - 1, x + y - 3, x - y)


def law(e: sp.Expr, words: str = "one regime") -> tuple[Laws, ...]:
    return (Laws((("K", regular(1, e)),), words, "every start"),)


def rows(law_of, order):
    """The regions of K ~ l^f, f as a function of the signs of some forms, asked in a given order."""

    def derive(here: Cell):
        signs = {f: here.sign(f) for f in order}
        return tuple(one.map(here.simplified) for one in law_of(signs))

    return regions(merged(partition(WHOLE, derive)))


def half_plane(signs):
    """2 - x where x < 1, else 1: the same on the line between."""
    return law(2 - x) if signs[x - 1] < 0 else law(sp.S.One)


def largest(signs):
    """The largest of x and y: that of each on the line between."""
    return law(x) if signs[x - y] >= 0 else law(y)


def corner(signs):
    """0 in a corner, 1 around it: no polyhedron."""
    return law(sp.S.Zero) if signs[x - 1] < 0 and signs[y - 1] < 0 else law(sp.S.One)


@pytest.mark.parametrize(("law_of", "number"), [(half_plane, 2), (largest, 2), (corner, 3)])
def test_the_order_of_questions_changes_no_row(law_of, number):
    """Questions that part nothing leave no trace, in whatever order they were asked among others."""
    found = [rows(law_of, order) for order in permutations(FORMS)]
    assert {len(one) for one in found} == {number}
    if law_of is not corner:  # a region that is a polyhedron is known by its inequalities
        known = [{(frozenset(one.cell.strict), frozenset(one.cell.weak)) for one in every} for every in found]
        assert all(one == known[0] for one in known)


def test_a_planted_law_is_a_row_of_its_own():
    """One leaf with another exponent, constant or word is not taken in; nor is what lies on both sides of it."""

    def wrong(change):
        def law_of(signs):
            on_it = signs[x - 1] == 0 and signs[y - 1] < 0
            return change if on_it else half_plane(signs)

        return len(rows(law_of, FORMS[:2]))

    assert wrong(law(sp.S.One)) == 2
    constant = (Laws((("K", regular(2, 1)),), "one regime", "every start"),)
    for change in (law(sp.Rational(101, 100)), law(sp.S.One, "another"), constant):
        assert wrong(change) == 4, change


def cell(*strict, weak=(), equal=()) -> Cell:
    made = Cell((x, y))
    return Cell((x, y), *(tuple(made.affine(f) for f in forms) for forms in (strict, weak, equal)))


def test_a_union_is_a_polyhedron_or_none():
    """Halves of a square join by the line between them, which one of both must hold; a gap or a corner is none."""
    left, right = cell(x, 1 - x, y, 1 - y), cell(x - 1, 2 - x, y, 1 - y)
    line = cell(y, 1 - y, equal=[x - 1])
    assert union(left, right) is None  # the line lacks
    with_line = union(left, line)
    assert with_line is not None and union(with_line, right) is not None
    assert union(with_line, cell(x - 1, 2 - x, y, 2 - y)) is None  # a corner lacks
    assert union(left, cell(y, equal=[x - 1])) is None  # the line is longer than the side
    assert union(left, cell(x - 2, 3 - x, y, 1 - y)) is None
    whole = union(cell(x, y, 1 - x - y), cell(x, y, weak=[x + y - 1]))
    assert whole is not None and whole.contains({x: sp.Rational(7), y: sp.Rational(9)})


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["relu", "tanh"])
def test_a_table_whose_questions_come_in_another_order_has_the_same_laws(phi, monkeypatch):
    """Four other questions first: each place lies in one row, and that has the law of K and J of the first table."""
    theory = mf.derive(phi, architecture="full_residual", **{f"beta_{s}": f"beta_{s}" for s in "vwab"})
    one = theory.phase_table("K", "J")
    draw = random.Random(3)
    coordinates = one.tree.cell.coordinates
    v, w, a, b = coordinates[:4]

    def first(cell, derive):
        def asked(here):
            for form in (v - b, a + w - 1, 1 - v - w, a - b - v):
                here.sign(form)
            return derive(here)

        return partition(cell, asked)

    monkeypatch.setattr(phase_tree, "partition", first)
    tree, _ = phase_tree.phase_tree(one.branch, one.quantities)
    found = regions(tree)
    assert phi == "relu" or len(found) == len(one)  # of ReLU, regions that are no polyhedra fall apart otherwise
    for _ in range(60):
        q = draw.choice([1, 2, 4])
        place = {s: sp.Rational(draw.randint(int(s is coordinates[-1]), 2 * q), q) for s in coordinates}
        (here,), (there,) = ([r for r in every if c(r).contains(place)]
                             for every, c in ((one.rows, lambda r: r.region), (found, lambda r: r.cell)))
        assert [way.at(place).laws for way in here.regimes] == [way.at(place).laws for way in there.laws], place
