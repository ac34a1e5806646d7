"""Cells of coefficients by hand: polynomials of log V between whole cells, a variance of 0, cells kept on disk."""

from __future__ import annotations

import numpy as np
import pytest

from meanfield.kernels.loops import hermite_cells
from meanfield.kernels.loops.hermite_cells import CELLS, DEGREE, SMALLEST, HermiteCell, HermiteCells
from meanfield.kernels.loops.pair_loops import LADDER


class Known(HermiteCells):
    """a_k = cell + k + u/2 + T_2(u)/4, k below an order that grows with the cell; tails are ten times the cell."""

    def made(self, index):
        order = 4 if index < 0 else 8
        coefficients = np.zeros((DEGREE + 1, order))
        coefficients[0] = index + np.arange(order)
        coefficients[1], coefficients[2] = 0.5, 0.25
        return HermiteCell(order, coefficients, np.full((2, len(LADDER)), 10.0 * index))


@pytest.mark.slow_with("0-1")
@pytest.mark.parametrize(("first", "step"), [(0, 1), (1, 2), (0, 2)])
def test_series_are_read_off_their_cells(first, step):
    """Two layers of three inputs in different cells; one of variance 0, and one below SMALLEST, are f(0) alone."""
    V = np.array([[1.0, 2.0**0.3, 0.0], [2.0**-0.6, SMALLEST / 2, 2.0**5.99]])
    found = Known("known", first, step, 7.5).expand(V)
    assert (found.first, found.step) == (first, step) and found.a.shape == (2, len(range(first, 8, step)), 3)
    for layer, i in np.ndindex(2, 3):
        a, tails, place = found.a[layer, :, i], found.tails[layer, :, :, i], CELLS * np.log2(max(V[layer, i], 1e-300))
        if V[layer, i] <= SMALLEST:
            assert not tails.any() and a.tolist() == [7.5 if first + step * j == 0 else 0.0 for j in range(len(a))]
            continue
        cell, u = np.floor(place), 2 * (place - np.floor(place)) - 1
        order = 4 if cell < 0 else 8
        k = np.arange(first, 8, step)
        assert a == pytest.approx(np.where(k < order, cell + k + u / 2 + (2 * u * u - 1) / 4, 0.0), abs=1e-12)
        assert (tails == 10.0 * cell).all()


def test_cells_are_kept_and_taken_up(tmp_path, monkeypatch):
    """What another process kept stays; a cell that is there already is not read over; nothing new, nothing written."""
    monkeypatch.setattr(hermite_cells.cache, "folder", lambda: tmp_path)
    one = Known("known", 0, 1, 0.0)
    for index in (3, -2):
        one.cell(index)
    one.keep()
    other = Known("known", 0, 1, 0.0)
    other.found[3] = HermiteCell(1, np.full((DEGREE + 1, 1), 5.0), np.zeros((2, len(LADDER))))
    other.cell(7)
    other.keep()
    assert sorted(other.found) == [-2, 3, 7] and other.found[3].order == 1
    third = HermiteCells("known", 0, 1, 0.0)
    third.recall()
    assert [third.cell(k).order for k in (-2, 3, 7)] == [4, 1, 8]
    for index in (-2, 7):
        expected = one.made(index)
        assert np.array_equal(third.cell(index).coefficients, expected.coefficients)
        assert np.array_equal(third.cell(index).tails, expected.tails)
    before = third.file.read_bytes()
    third.file.write_bytes(b"")
    third.keep()
    assert third.file.read_bytes() == b"" != before
