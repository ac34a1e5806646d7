"""Figures of the paper on variance and width variation: what they draw is the engine's."""

from __future__ import annotations

import numpy as np
import pytest

from derivations.variance_variation import contour_figures, figures

matplotlib = pytest.importorskip("matplotlib")


def curves(panel) -> list[tuple[np.ndarray, np.ndarray]]:
    return [line.get_data() for line in panel.get_lines()]


@pytest.mark.slow
def test_laws_lie_on_recursions_in_figure_b3():
    """Moved to the end of the recursion, the law of chi meets it within 2 % over the last factor of ten."""
    steep, edge, flat = figures.figure_b3().axes
    for panel in (edge, flat):
        (l, exact), (_, dashed) = curves(panel)
        assert np.abs(dashed / exact - 1)[l > l[-1] / 10].max() < 0.02
    (_, exact), (_, leading) = curves(steep)
    assert exact[-1] == pytest.approx(leading[-1], rel=0.1) and exact[-1] > 200


@pytest.mark.slow
def test_figure_b4_shows_the_misprint():
    """(e): the change of p follows l^{-min(U_r, V_r)} = l^{-1.2}, not l^{-2}."""
    assert [round(figures.change_law(b), 10) for b in figures.B4[1:]] == [-0.5, -0.4, -1, -1.2]
    panel = figures.figure_b4().axes[4]
    (l, _), _, (_, change), (_, law), (_, printed) = curves(panel)
    slope = np.log(change[-1] / change[-20]) / np.log(l[-1] / l[-20])
    assert slope == pytest.approx(-1.2, abs=0.1)
    assert change[30] / law[30] > 0.5 and change[30] / printed[30] < 0.1


@pytest.mark.slow
def test_contours_of_the_zig():
    """Line 8 of the list at l = 50, and the dashed line, log p = 10 by its leading term."""
    t, found = contour_figures.sweep("relu", contour_figures.ZIG, 5, depth=50)
    assert found["p"][0, -1] == pytest.approx(4 * 1.5**50 - 3) and found["p"][4, -1] == pytest.approx(54.5811, rel=1e-5)
    assert np.exp(found["chi_v"][4, -1]) == pytest.approx(124.045, rel=1e-5) and t[4] == 2
    assert found["s"][1, -1] == pytest.approx(110.723, rel=1e-5)  # line 7
    low, high = (float(np.interp(v, *contour_figures.level())) for v in (0, 0.5))
    assert low == pytest.approx(20) and high == pytest.approx(100)


@pytest.mark.slow
def test_contours_of_tanh():
    """Line 9 at l = 50 on the sweeps (a), (b), (c)."""
    for key, at, known in (
        ("a", 1, {"p": 43.4524, "chi_w": 1.35565}),
        ("b", 2, {"p": 12.12, "chi_w": 1.7754}),
        ("c", 2, {"p": 7.82574, "chi_w": 8.17107, "chi_v": 1.86099, "s": 0.976675}),
    ):
        _, found = contour_figures.sweep("tanh", contour_figures.SWEEPS[key], 5, 1.0, 50, pairs=key == "c")
        for name, value in known.items():
            got = found[name][at, -1]
            assert (np.exp(got) if name.startswith("chi") else got) == pytest.approx(value, rel=1e-4)


@pytest.mark.slow
def test_figure_1_shows_networks_beside_the_theory():
    p, e, chi = figures.figure_1(2048, 20).axes
    (_, one), (_, exact), (_, narrow), _ = curves(p)
    assert abs(one / exact - 1).max() < 0.1 and abs(narrow / exact - 1)[:36].max() < 0.15
    (_, one), (_, exact), (_, narrow), (_, halved) = curves(chi)
    assert exact[0] == pytest.approx(997.815, rel=1e-3) and halved[0] == pytest.approx(15.591, rel=1e-3)
    assert abs(np.log(one / exact)).max() < 0.3 and abs(np.log(narrow / halved)).max() < 0.7
    assert len(curves(e)) == 4
