"""Figures of the paper on orthogonal weights: networks lie on the lines that the theory draws."""

from __future__ import annotations

import numpy as np
import pytest

from derivations.orthogonal_weights import figures, several_inputs

matplotlib = pytest.importorskip("matplotlib")


def z_scores(panel) -> list[np.ndarray]:
    """(dots - line)/standard error of each set of dots in a panel; dots of no error are left out."""
    lines = [line.get_ydata() for line in panel.get_lines() if len(line.get_xdata()) and line.get_marker() == "None"]
    found = []
    for container, line in zip(panel.containers, lines):
        dots, _, (bars,) = container
        error = np.array([(b[1, 1] - b[0, 1]) / 4 for b in bars.get_segments()])
        keep = error > 1e-12
        found.append((dots.get_ydata() - line)[keep] / error[keep])
    return found


def assert_on_lines(panel, most: float) -> None:
    """No dot is further from its line than `most` standard errors, the 1/n of small networks included."""
    scores = z_scores(panel)
    assert scores
    worst = max(np.abs(z).max() for z in scores)
    assert worst < most, f"a dot lies {worst:.3g} standard errors from its line"


@pytest.mark.slow
def test_networks_lie_on_the_lines(monkeypatch):
    """Figure 1 at width 100; the curves of one law under the dots of the other fail."""
    made = figures.figure_1(networks=200, layers=6)
    for panel in made.axes:
        assert_on_lines(panel, 5)
    right = figures.theory
    swapped = {"orthogonal": "gaussian", "gaussian": "orthogonal", "mixed": "gaussian"}
    monkeypatch.setattr(figures, "theory", lambda phi, law, *rest: right(phi, swapped[law], *rest))
    with pytest.raises(AssertionError, match="standard errors from its line"):
        assert_on_lines(figures.figure_1(networks=200, layers=6).axes[0], 5)


@pytest.mark.slow
def test_what_figure_1_draws():
    """Lines are the published ones where they are closed: 2(l - 1), 5(l - 1), 3l - 5, -2, 0."""
    l = np.arange(1, 6)
    for phi, law, known in (
        ("linear", "gaussian", 2 * (l - 1)),
        ("relu", "gaussian", 5 * (l - 1)),
        ("relu", "orthogonal", 3 * l - 5),
        ("linear", "orthogonal", -2 + 0 * l),
        ("linear", "mixed", 0 * l),
    ):
        assert np.allclose(figures.theory(phi, law, ("V",), 5)["V"], known, atol=1e-12)


@pytest.mark.slow
def test_another_number_of_inputs_is_felt_in_the_first_layers():
    """Figure 14: 784 inputs change Ã most, F̃ by about a percent."""
    one, two = (figures.theory("tanh", "orthogonal", tuple("ABDF"), 11, r, 50) for r in (1.0, 784 / 50))
    assert two["A"][5] > 2 * one["A"][5] and np.abs(two["F"][1:] / one["F"][1:] - 1).max() < 0.02


@pytest.mark.slow
def test_several_inputs_lie_on_the_lines(monkeypatch):
    """Figures 10 and 12 at width 100, every pattern; the lines of another law of weights miss the dots."""
    for phi in ("linear", "tanh"):
        for panel in several_inputs.vertices(phi, networks=150, layers=5).axes:
            assert_on_lines(panel, 5)
    right = several_inputs.theory

    def of_other_inputs(phi, law, names, layers, width):
        return right(phi, "gaussian" if law == "orthogonal" else "orthogonal", names, layers, width)

    monkeypatch.setattr(several_inputs, "theory", of_other_inputs)
    with pytest.raises(AssertionError, match="standard errors from its line"):
        assert_on_lines(several_inputs.vertices("tanh", networks=150, layers=5).axes[1], 5)
