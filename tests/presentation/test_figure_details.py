"""Details of figures and tables: where a contour is drawn, which ends of a scale are open, where a page ends."""

from __future__ import annotations

import numpy as np
import pytest

from meanfield.presentation import figures
from meanfield.presentation.tables import _HEIGHT, _Cell, _pages

pytest.importorskip("matplotlib")


@pytest.fixture
def panel():
    from matplotlib.figure import Figure

    return Figure().subplots()


@pytest.mark.parametrize(
    ("low", "high", "drawn"),
    [
        (-2.0, 2.0, True), (-1.0, 2.0, False), (-2.0, 1.0, False), (-1.01, 1.01, True), (1.5, 2.0, False),
        (-2.0, -1.5, False),
    ],
)  # fmt: skip
def test_a_contour_is_drawn_between_two_phases(panel, low, high, drawn):
    """In units of what is the same as 0: on both sides of it, and beyond, of a field that has two rows and columns."""
    unit = figures._SAME
    field = np.ma.masked_invalid(np.array([[low, low], [high, high]]) * unit)
    entries = figures._boundaries(panel, np.array([1.0, 2.0]), np.array([0.0, 1.0]), field, None)
    assert bool(entries) == drawn
    assert not figures._boundaries(panel, np.array([1.0, 2.0]), np.array([0.0]), field[:1], None)
    nothing = np.ma.masked_all((2, 2))
    assert not figures._boundaries(panel, np.array([1.0, 2.0]), np.array([0.0, 1.0]), nothing, None)


def cell(height, section="A", joined=False):
    return _Cell(section, "left", ("line",), height, joined)


def pages_of(cells):
    return _pages(cells, _HEIGHT)


def heights(cells):
    return [[c.height / _HEIGHT for c in page] for page in pages_of(cells)]


def test_pages_of_rows():
    """A page ends where the next row would not fit, beside 20 points for the head of a section; a row stays with its
    definitions, and a section whole where more than 0.6 of the page is used."""
    third, half = _HEIGHT * 0.3, _HEIGHT * 0.5
    assert heights([cell(third)] * 3) == [[0.3] * 3]
    assert heights([cell(third)] * 4) == [[0.3] * 3, [0.3]]
    edge = (_HEIGHT - 20.0) / 2
    assert [len(p) for p in pages_of([cell(edge)] * 2)] == [2]
    assert [len(p) for p in pages_of([cell(edge), cell(edge + 0.01)])] == [1, 1]
    row, definition = cell(third), cell(0.25 * _HEIGHT, joined=True)
    assert [len(p) for p in pages_of([cell(half), row, definition])] == [1, 2]
    assert [len(p) for p in pages_of([cell(half), cell(half, joined=True), definition])] == [1, 2]
    other = cell(0.2 * _HEIGHT, "B")
    assert [len(p) for p in pages_of([cell(0.5 * _HEIGHT), other, other, other])] == [3, 1]
    assert [len(p) for p in pages_of([cell(0.65 * _HEIGHT), other, other])] == [1, 2]
    assert [len(p) for p in pages_of([cell(0.65 * _HEIGHT), other])] == [2]
    assert [len(p) for p in pages_of([cell(2 * _HEIGHT), cell(2 * _HEIGHT)])] == [1, 1]
