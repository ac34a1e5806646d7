"""Figures of AutoInit: the lines are the theory's, and networks lie on them."""

from __future__ import annotations

import numpy as np
import pytest

from derivations.autoinit import figures
from derivations.autoinit.resmlp import H
from derivations.drawing import without_first_term
from meanfield.base.symbols import K

matplotlib = pytest.importorskip("matplotlib")


def most(dots: figures.Points, line: np.ndarray, own: float | np.ndarray = 0.0) -> float:
    """The largest distance of a dot from its line, in standard errors."""
    return float(np.abs((dots[0] - line) / np.hypot(dots[1], own)).max())


def drawn(panel, dashed: bool = False) -> list[np.ndarray]:
    style = "--" if dashed else "-"
    return [a.get_ydata() for a in panel.get_lines() if a.get_linestyle() == style and len(a.get_ydata()) > 2]


@pytest.mark.slow
def test_the_lines_of_figure_2_are_the_theory():
    """Against |B| at μ = 0: (b) of the specification, which no layer changes. μ = 1 grows as 1 + π/((π − 1) l)."""
    known = {4: 2.408178, 5: 1.882790, 6: 1.719759, 8: 1.600288, 16: 1.507629, 32: 1.482803, 64: 1.473917}
    figure = figures.figure_2(points=3, depth=3, networks=0)
    none, unit = drawn(figure.axes[2])[:2]
    for size, value in known.items():
        assert none[figures.SIZES.index(size)] == pytest.approx(value, abs=1e-6)
    assert 10 * (unit[-1] - 1) == pytest.approx(np.pi / (np.pi - 1), rel=0.2)
    left = figure.axes[0].collections[0].get_array()
    assert np.ptp(left) < 1e-9 and left.ravel()[0] == pytest.approx(1.468522, abs=1e-6)


@pytest.mark.slow
def test_the_dashed_lines_of_figure_3_are_r69():
    """J of the averaged theory is (1 + ε²σ_w²)(1 + ε²σ_w⁴ H), H at the K that enters φ; K against (d)."""
    run = figures.blocks_on_average("2")
    K_in = np.concatenate([[1.0], run["K"][:-1]])
    inner = 2 * (K_in + 0.01 * 2 * K_in)
    slopes = np.array([float(H(K).subs(K, z)) for z in inner])
    np.testing.assert_allclose(run["chi"], 1.02 * (1 + 0.04 * slopes), rtol=1e-9)
    assert run["chi"].prod() == pytest.approx(1.605731, abs=1e-6) and run["K"][-1] == pytest.approx(1.585452, abs=1e-6)


@pytest.mark.slow
def test_networks_lie_on_the_lines_of_figure_2():
    """|z| ≤ 4 at every |B|; the line of an infinite batch, and that of the other skip, miss the dots."""
    for mu in (0, 1):
        both = [figures.measured_jacobian(mu, 10, width) for width in (figures.WIDTH, figures.WIDTH // 2)]
        dots = without_first_term(*both)
        lines = {m: np.array([float(figures.last_jacobian(m, b, 2**0.5, 0.0, 10)) for b in figures.MEASURED])
                 for m in (0, 1)}  # fmt: skip
        assert most(dots, lines[mu]) < 4 < most(dots, lines[1 - mu])
        assert most(dots, lines[mu][-1]) > 4


@pytest.mark.slow
def test_networks_lie_on_the_lines_of_figure_3():
    """J^{l,l+1} and K of 12 blocks at three σ_w; the lines of another σ_w miss the dots."""
    lines = {v: figures.blocks_by_theory(v) for v, _ in figures.VARIANCES}
    for variance, line in lines.items():
        dots, mean = figures.blocks_measured(variance), figures.blocks_on_average(variance)
        other = lines["1" if variance != "1" else "2"]
        for name in ("chi", "K"):
            assert most(dots[name], *line[name]) < 4
            assert most(line[name], mean[name]) < 4  # here the averages over token matrices are as good
        assert most(dots["chi"], *other["chi"]) > 4


@pytest.mark.slow
def test_figure_3_draws_the_theory():
    panels = figures.figure_3(draws=20, networks=4).axes
    for name, panel in zip(("chi", "K"), panels):
        for (variance, _), solid, dashed in zip(figures.VARIANCES, drawn(panel), drawn(panel, dashed=True)):
            np.testing.assert_array_equal(solid, figures.blocks_by_theory(variance, 20)[name][0])
            np.testing.assert_array_equal(dashed, figures.blocks_on_average(variance)[name])
