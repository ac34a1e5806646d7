"""Figures and tables of the partial-Jacobian paper: what they draw and print is the engine's, and is all there."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

import meanfield as mf
from derivations.partial_jacobians import figures, mixer, phase_diagrams, rows, tables
from derivations.partial_jacobians.__main__ import main
from derivations.partial_jacobians.sizes import Sizes

matplotlib = pytest.importorskip("matplotlib")


def texts(figure) -> str:
    """Every label of every legend of a figure."""
    found = [t.get_text() for a in figure.axes for t in (a.get_legend().get_texts() if a.get_legend() else [])]
    return "\n".join(found)


def test_figure_1_shows_the_slopes_of_the_recursion_and_their_limits():
    """Specification, line 17: -1.0045, 0, 1.2161, 1.0628 (with N_0 = 784, one per mille apart)."""
    labels = texts(figures.figure_1())
    for label, limit in (("-1.005", "-1.000"), ("1.216", "1.226"), ("1.063", "1.072")):
        assert f"slope ${label}$ (${limit}$" in labels
    assert "ReLU: slope 0 (0 for" in labels and "networks" not in labels


def test_figure_5_shows_the_slope_and_the_law():
    labels = texts(figures.figure_5())
    assert "slope $1.311$" in labels and "1.2732\\sqrt{\\ell} + 0.2026" in labels


@pytest.mark.slow
def test_figure_7_is_flat():
    curves = [line.get_ydata() for axes in figures.figure_7().axes for line in axes.get_lines()]
    assert len(curves) == 2
    for y in curves:
        assert np.ptp(y[1:]) < 1e-3 * y[1]  # from layer 2 on; what is left is the term of order 1/N_0


@pytest.mark.slow
def test_figure_8_draws_28_xi():
    """Table 3.5 at σ_w² = 2: 69.1 (ReLU), 123.3 (erf), 71.3 (GELU)."""
    for line, expected in zip(figures.figure_8().axes[0].get_lines(), (69.1, 123.3, 71.3)):
        x, y = line.get_data()
        assert abs(np.interp(2.0, x, y) - expected) < 0.1
        assert abs(np.interp(2.1, x, y) - expected) > 0.1


def test_networks_are_drawn_beside_the_theory():
    """Eight networks of width 40: erf at its critical point, J^{0,l} within four standard errors at layer 5."""
    point = mf.derive("erf").critical_points()[0]
    sizes = Sizes(networks=8, width=40)
    c = figures.curve("erf", mf.derive("erf"), float(point.sigma_w.value), 0.0, 6, sizes)
    for means, errors in (c.measured, c.half):
        assert abs(means[4] - c.log_J[4]) < 4 * errors[4] + 0.05
    assert abs(c.slope(1)[0] - np.polyfit(np.log(c.l[1:]), c.log_J[1:], 1)[0]) < 1e-12
    assert "networks: slope" in texts(figures.figure_5(Sizes(networks=2, width=16)))


@pytest.mark.slow
def test_critical_curves_of_gelu_are_dashed_where_the_fixed_point_repels():
    """E-5: stable from the point (1.408, 0.416) upwards only."""
    diagram = mf.derive("gelu").phase_diagram(sigma_w=np.linspace(0.5, 3, 6), sigma_b=np.linspace(0, 3, 6))
    (w, solid, first), (_, dashed, second) = phase_diagrams.critical_curves(diagram)
    assert (first, second) == ("-", "--")
    assert np.nanmin(solid) == pytest.approx(0.41584, abs=5e-3) and np.nanmax(dashed) == pytest.approx(
        0.41584, abs=5e-3
    )
    assert np.nanmax(w) == pytest.approx(2, abs=1e-3)
    ray = mf.derive("erf", norm="pre").phase_diagram(sigma_w=np.linspace(0.5, 2, 4), sigma_b=np.linspace(0, 2, 4))
    ((x, y, _),) = phase_diagrams.critical_curves(ray)
    assert y[1] / x[1] == pytest.approx(0.3238070109)


@pytest.mark.slow
def test_figure_2_has_eighteen_panels_and_takes_measured_values(tmp_path):
    found = phase_diagrams.diagrams(points=9)
    assert set(found) == set(phase_diagrams.PANELS) and len(found) == 18
    axis = np.linspace(0.3, 3, 5)
    chi = np.broadcast_to(axis, (18, 5, 5)) / 2
    np.savez(tmp_path / "chi.npz", sigma_w=axis, sigma_b=axis, chi=chi.reshape(18, 25))
    measured = phase_diagrams.Measured.load(tmp_path / "chi.npz")
    assert measured.chi.shape == (18, 5, 5)
    plain, with_networks = (phase_diagrams.figure_2(found, m) for m in (None, measured))
    panels = [sum(len(a.collections) for a in f.axes) for f in (plain, with_networks)]
    assert panels[1] == panels[0] + 18
    run = phase_diagrams.Measured.run(Sizes(networks=2, width=12, grid=3))
    assert run.chi.shape == (18, 3, 3) and np.isfinite(run.chi[1]).all()


# --------------------------------------------------------------------------------------------------------- tables


def test_rows_hold_what_the_engine_derives():
    gelu = rows.entry("gelu", {})
    assert [p[3].split(":")[0] for p in gelu.points] == ["repelling", "half-stable"]
    assert gelu.points[1][1] == "$1.408211013$" and gelu.points[1][5] == r"$- 8 \sqrt{17} - 32$"
    erf = rows.entry("erf", {"mu": "mu"})
    assert erf.points[0][4:] == ("$1$", "$1$") and "arcsin" in erf.line
    assert r"\sqrt{1 - \mu^{2}}" in erf.points[0][1] or r"\sqrt{1-\mu^2}" in erf.points[0][1]
    assert rows.entry("erf", {"norm": "pre"}).points == (("$0$", "$0$"),)
    assert r"none: $\chi_J$ $<$ 1" in rows.entry("softplus", {"norm": "pre"}).line
    assert r"$\chi_J$" in rows.entry("sign", {}).line
    assert "everywhere" in rows.entry("relu", {"norm": "pre", "mu": 1}).line
    assert r"\log J \sim" in rows.entry("tanh", {"mu": 1}).line


def test_a_slow_or_failing_row_does_not_stop_the_table(monkeypatch):
    def work(pipe, name, keywords):
        if name == "slow":
            __import__("time").sleep(60)
        if name == "dead":
            raise SystemExit(3)
        pipe.send(rows.Entry(name, "line"))

    monkeypatch.setattr(tables, "_work", work)
    found = tables.entries(("slow", "quick", "dead"), {}, limit=1.0)
    assert "no answer within 1 s" in found[0].line and found[1].line == "line" and "exit code 3" in found[2].line


def test_prose_is_latex():
    assert rows.prose("chi_J < 1 (σ_b² = -1 σ_w²)") == r"$\chi_J$ $<$ 1 ($\sigma_b^2$ = -1 $\sigma_w^2$)"


@pytest.mark.slow
def test_the_document_compiles(tmp_path):
    text = tables.document(("erf", "relu", "sign", "sigmoid"), limit=100)
    assert text.count(r"\begin{longtable}") == 9 and "failed" not in text and "no answer" not in text
    (tmp_path / "t.tex").write_text(text)
    if shutil.which("pdflatex"):
        run = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"], cwd=tmp_path, capture_output=True
        )
        assert run.returncode == 0, run.stdout.decode(errors="replace")[-2000:]


def test_the_command_line_knows_its_verbs(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["partial_jacobians", "--help"])
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    printed = capsys.readouterr().out
    assert all(verb in printed for verb in ("numbers", "figures", "tables"))


@pytest.mark.slow
def test_figure_4_draws_the_sampled_theory():
    """The Mixer panels at reduced size: chaotic at σ_b = 0, ordered beyond, critical to O(1/l) at μ = 1."""
    found = tuple(mixer.diagram(mu, points=3, tokens=8) for mu in ("1/2", "1"))
    half, whole = found
    assert half.chi[0, -1] > 1.1 and half.chi[-1, 0] < 0.9
    assert (whole.chi > 1).all() and whole.chi.max() < 1.15
    panels = mixer.figure_4(found).axes
    assert [a.get_title() for a in panels[:2]] == [r"$\mu = 1/2$", r"$\mu = 1$"]


@pytest.mark.slow
def test_mixers_are_critical_everywhere_at_mu_1():
    """l (χ − 1) settles; χ of μ = ½ does not come near 1."""
    _, settled, error = mixer.approach(1.0, 0.5, depth=25, draws=4, tokens=8)
    assert abs(settled[-1] - settled[11]) < 0.15 * settled[-1] + 4 * error[-1]
    assert abs(mixer.chi("1/2", 1.0, 1.0, draws=2, tokens=8)[0] - 1) > 0.2, "control"
