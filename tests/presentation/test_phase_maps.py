"""A map of a phase table, drawn from a tree made by hand: which row is where, its colour, its number, its lines."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp

from meanfield import MeanFieldError
from meanfield.base.storage.files import figure_of
from meanfield.presentation.phase_maps import plot_phase_table
from meanfield.symbolic.asymptotics.exponent_cells import Cell, PartitionNode
from meanfield.symbolic.asymptotics.tables.leaf_merging import Region

pytest.importorskip("matplotlib")

a, b, S = (sp.Symbol(name, positive=True) for name in ("beta_a", "beta_b", "S"))
STRIPS = 12  # more regimes than there are colours


def leaf(cell):
    """A leaf that is a region of its own."""
    return PartitionNode(cell, None, found=Region(cell, ()))


def strips(symbol, regimes):
    """Strips of equal width in one coordinate from 0 to 2, `regimes` from below; row 1 is the last of them."""
    cell = Cell((a, b, S))
    node = leaf(cell)
    for k in range(1, len(regimes)):
        node = PartitionNode(cell, symbol - sp.Rational(2 * k, len(regimes)), (((0, 1), leaf(cell)), ((-1,), node)))
    rows = [SimpleNamespace(regimes=(SimpleNamespace(regime=regime),)) for regime in reversed(regimes)]
    definitions = ((S, sp.Symbol("sigma_v", positive=True) ** 2 * sp.Symbol("sigma_w", positive=True) ** 2),)
    return SimpleNamespace(tree=node, rows=rows, coordinates=("beta_a", "beta_b", "S"), definitions=definitions)


def colours(figure):
    """The colours of the strips from left to right, in the middle of each, by 8 bits."""
    picture = figure.axes[0].images[0].get_array()
    n = picture.shape[1]
    return [tuple(round(255 * float(v)) for v in picture[n // 2, int((k + 0.5) * n / STRIPS)]) for k in range(STRIPS)]


@pytest.fixture(scope="module")
def figure():
    return figure_of(plot_phase_table(strips(a, [f"regime {k}" for k in range(STRIPS)]), "beta_a", "beta_b", {"S": 1}))


@pytest.mark.slow
def test_colours_begin_anew_behind_the_last(figure):
    """Nine colours, in the order of rows; the tenth regime has the first again; the legend names all."""
    found = colours(figure)[::-1]  # rows are numbered from the right
    assert len(set(found)) == 9 and found[9:] == found[:3]
    legend = figure.legends[0]
    assert [t.get_text() for t in legend.get_texts()] == [f"regime {k}" for k in reversed(range(STRIPS))]
    shown = [tuple(round(255 * v) for v in patch.get_facecolor()) for patch in legend.get_patches()]
    assert shown == found


def test_numbers_of_rows_stand_inside(figure):
    """Row 1 is the strip on the right, its number in its middle; a line goes along each side of a strip."""
    numbers = {int(t.get_text()): t.xy for t in figure.axes[0].texts}
    assert sorted(numbers) == list(range(1, STRIPS + 1))
    for row, (x, y) in numbers.items():
        assert x == pytest.approx(2 - (row - 0.5) * 2 / STRIPS, abs=0.01) and y == pytest.approx(1, abs=0.01)
    paths = [path.vertices[:, 0] for c in figure.axes[0].collections for path in c.get_paths() if len(path.vertices)]
    places = np.concatenate(paths) * STRIPS / 2
    assert np.abs(places - np.rint(places)).max() < 0.02 and set(np.rint(places)) == set(range(1, STRIPS))


def test_rows_of_one_regime_share_a_colour():
    table = strips(b, ["same"] * STRIPS)
    figure = figure_of(plot_phase_table(table, "beta_a", "beta_b", {"sigma_v": 2, "sigma_w": "1/2"}))
    assert len(set(colours(figure))) == 1 and len(figure.axes[0].texts) == STRIPS
    assert all(t.xy[0] == pytest.approx(1, abs=0.01) for t in figure.axes[0].texts)


def test_the_other_coordinates_are_numbers():
    """S may be given, or by all of its σ's: then S = 4 · 1/4 = 1 lies above 2/3 and below 4/3."""
    table = strips(S, ["low", "middle", "high"])
    for rest in ({"S": 1}, {"sigma_v": 2, "sigma_w": "1/2"}, {"S": 1, "sigma_v": 7, "sigma_w": 7}):
        figure = figure_of(plot_phase_table(table, "beta_a", "beta_b", rest))
        assert [t.get_text() for t in figure.axes[0].texts] == ["2"], rest
    for rest, words in (
        ({}, "for the others: S"),
        ({"sigma_v": 2}, "for the others: S"),
        ({"sigma_w": 2}, "others: S"),
    ):
        with pytest.raises(MeanFieldError, match=words):
            figure_of(plot_phase_table(table, "beta_a", "beta_b", rest))
    with pytest.raises(MeanFieldError, match="A map needs two coordinates and numbers for the others: S"):
        figure_of(plot_phase_table(table, "S", "S", {"beta_a": 1, "beta_b": 1}))


@pytest.mark.parametrize(
    ("form", "rest", "shown"),
    [
        (a, {"S": 1}, {"1"}),
        (a - b, {"S": 1}, {"1", "3"}),
        (a + b - 2, {"S": 1}, {"1", "3"}),
        (a + 2 * b - 2, {"S": 1}, {"1", "3"}),
        (S - 1, {"S": 1}, {"1"}),
        (S - 1, {"S": "999/1000"}, {"3"}),
    ],
)
def test_what_holds_on_a_line_alone_is_not_drawn(form, rest, shown):
    """Row 2 is where the form is 0; points are drawn beside lines, those of the other coordinates above them."""
    cell = Cell((a, b, S))
    leaves = [leaf(cell) for _ in range(3)]
    tree = PartitionNode(cell, form, tuple(((sign,), leaf) for sign, leaf in zip((1, 0, -1), leaves)))
    rows = [SimpleNamespace(regimes=(SimpleNamespace(regime=word),)) for word in ("above", "on it", "below")]
    table = SimpleNamespace(tree=tree, rows=rows, coordinates=("beta_a", "beta_b", "S"), definitions=())
    figure = figure_of(plot_phase_table(table, "beta_a", "beta_b", rest))
    assert {t.get_text() for t in figure.axes[0].texts} == shown
    assert {t.get_text() for t in figure.legends[0].get_texts()} == {rows[int(i) - 1].regimes[0].regime for i in shown}
