"""Figures of the paper on bias and trainability: what they draw is the engine's."""

from __future__ import annotations

import numpy as np
import pytest

from derivations.bias_and_trainability import correlation_figures, figures, gradient_figures, width_figures

matplotlib = pytest.importorskip("matplotlib")


def curves(panel) -> list[tuple[np.ndarray, np.ndarray]]:
    return [line.get_data() for line in panel.get_lines()]


def test_figure_1_has_a_uniform_fraction_at_the_transition():
    insets = [panel.child_axes[0] for panel in figures.figure_1().axes if panel.child_axes]
    (_, neutral), (_, flat), (_, biased) = (curves(inset)[0] for inset in insets)
    assert np.allclose(flat, 1) and not np.allclose(neutral, 1)
    assert neutral[400] == pytest.approx(0.05**-0.5) and biased[400] == pytest.approx(10**-0.5)


@pytest.mark.slow
def test_figure_31_grows_faster_below_the_line():
    ends = [y[-1] for _, y in curves(width_figures.figure_31(0).axes[0])]
    assert ends == sorted(ends, reverse=True) and ends[2] == pytest.approx(602.9500127)


def test_figure_30_tends_to_one():
    above, below = curves(figures.figure_30().axes[0])[:2]
    assert above[1][-1] > 1 > below[1][-1] and above[1][-1] + below[1][-1] == pytest.approx(2, abs=2e-2)
    assert below[1][0] == pytest.approx(1 - 1 / np.pi, abs=1e-2)


def assert_grows_by(measured: np.ndarray, theory: np.ndarray) -> None:
    """log of the first over the last layer, within a fifth and one."""
    found, exact = (np.log(y[0] / y[-1]) for y in (measured, theory))
    assert abs(found - exact) < 0.2 * abs(exact) + 1, f"the gradient grows by exp({found:.1f}), not exp({exact:.1f})"


@pytest.mark.slow
def test_figures_of_gradients():
    """ReLU: all classes as the product of χ_J, the preferred one without a gradient where it is chaotic; residual
    networks: ReLU stays, tanh decays towards the input."""
    panels = gradient_figures.figure_4(200, 40).axes
    lines = [y for _, y in curves(panels[0])]
    for measured, theory in zip(lines[::2], lines[1::2], strict=True):
        assert_grows_by(measured, theory)
    with pytest.raises(AssertionError, match="the gradient grows by"):
        assert_grows_by(lines[0], lines[3])
    preferred, least = ([np.nan_to_num(y[0]) for _, y in curves(panel)] for panel in panels[1:])
    assert preferred[2] < gradient_figures.LEAST < preferred[0] and least[2] > 1
    above, below = (row[0] for row in np.split(np.array(gradient_figures.figure_26(48, 40).axes), 2))
    assert all(1 / 6 < y[0] / y[-1] < 6 for _, y in curves(above)) and len(curves(above)) == 3
    assert all(y[0] / y[-1] < 1 / 20 for _, y in curves(below))


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
    found = curves(correlation_figures.figure_2(0).axes[1])
    assert [float(np.ravel(y)[0]) for _, y in found[1::2]] == pytest.approx([1, 1, 0.98800, 0.66436, 0.47754], abs=1e-4)


@pytest.mark.slow
def test_figure_2_shows_a_network_beside_the_theory():
    """Network, theory and limit of each σ_w²: at layer 10, N = 500, they agree within the spread of the network."""
    found = curves(correlation_figures.figure_2(500, 20).axes[0])
    for (_, measured), (_, exact), _ in zip(found[:5], found[5::2], found[6::2]):
        assert abs(measured[9] - exact[9]) < 0.06 and measured[9] != exact[9]


@pytest.mark.slow
def test_figures_of_widths():
    """γ of ReLU is off by less in a wide network, and so are the bands of covariances, which halve by width · 4."""
    error = [np.median(y) for _, y in curves(width_figures.figure_15((250, 4000), 30).axes[1])]
    assert error[1] < error[0] / 1.5
    for name in ("relu", "tanh"):
        for quantity in ("K_aa", "K_ab"):
            narrow, wide = (y for _, y in curves(width_figures.covariances(name, quantity, (500, 2000), 10).axes[1]))
            assert np.mean(wide / narrow) == pytest.approx(0.5, abs=0.15)
    found = curves(width_figures.figure_31(2000, 20).axes[0])
    for (_, exact), (at, measured) in zip(found[::2], found[1::2], strict=True):
        ratio = measured / exact[at.astype(int) - 1]
        assert np.abs(ratio - 1).max() < 0.4 and not np.allclose(ratio, 1)


@pytest.mark.slow
def test_figure_22_draws_both_thresholds():
    panels = figures.figure_22(20).axes
    heights = [[float(y[0]) for _, y in curves(panel)[:2]] for panel in panels[::2]]
    assert heights == [pytest.approx([4 / 3, 1.0999225]), pytest.approx([4, 3.0341880])]
    assert [len(curves(panel)) for panel in panels] == [3, 1, 3, 2]
    biases, edge, neutral = figures.pooled_tanh_lines("average", 80)
    for curve, square in ((edge, 3.97215), (neutral, 5.84953)):
        assert np.interp(0.1, biases, curve) == pytest.approx(square, abs=4e-3)
