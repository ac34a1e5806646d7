"""Figures of the paper on bias and trainability: what they draw is the engine's."""

from __future__ import annotations

import numpy as np
import pytest

from derivations.bias_and_trainability import figures

matplotlib = pytest.importorskip("matplotlib")


def curves(panel) -> list[tuple[np.ndarray, np.ndarray]]:
    return [line.get_data() for line in panel.get_lines()]


def test_figure_1_has_a_uniform_fraction_at_the_transition():
    insets = [panel.child_axes[0] for panel in figures.figure_1().axes if panel.child_axes]
    (_, neutral), (_, flat), (_, biased) = (curves(inset)[0] for inset in insets)
    assert np.allclose(flat, 1) and not np.allclose(neutral, 1)
    assert neutral[400] == pytest.approx(0.05**-0.5) and biased[400] == pytest.approx(10**-0.5)


def test_figure_15_grows_faster_below_the_line():
    ends = [y[-1] for _, y in curves(figures.figure_15().axes[0])]
    assert ends == sorted(ends, reverse=True) and ends[2] == pytest.approx(602.9500127)


def test_figure_30_tends_to_one():
    above, below = curves(figures.figure_30().axes[0])[:2]
    assert above[1][-1] > 1 > below[1][-1] and above[1][-1] + below[1][-1] == pytest.approx(2, abs=2e-2)
    assert below[1][0] == pytest.approx(1 - 1 / np.pi, abs=1e-2)


@pytest.mark.slow
def test_figure_3_draws_both_lines_of_tanh():
    """At σ_b² = 0.1: σ_w² = 1.98607 (critical), 2.92477 (c* = ½)."""
    biases, edge, neutral = figures.tanh_lines(80)
    for curve, square in ((edge, 1.98607), (neutral, 2.92477)):
        assert np.interp(0.1, biases, curve) == pytest.approx(square, abs=2e-3)
    panels = figures.figure_3(20).axes
    assert [len(curves(panel)) for panel in panels] == [2, 2]


@pytest.mark.slow
def test_figure_2_shows_the_limits_of_c():
    found = curves(figures.figure_2().axes[1])
    assert [float(np.ravel(y)[0]) for _, y in found[1::2]] == pytest.approx([1, 1, 0.98800, 0.66436, 0.47754], abs=1e-4)
