"""Figures: what is drawn is what was computed, labelled, and written whole."""

from __future__ import annotations

import math
import os
import struct
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import meanfield
from meanfield.base.answers import drawing
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.storage import files
from meanfield.base.storage.files import figure_of
from meanfield.presentation import figures
from tests import ROOT
from tests.cli.test_cli import FakeReport, FakeRow, fake_report
from tests.cli.test_cli_critical import susceptibilities

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("matplotlib.figure")
pytest.importorskip("matplotlib.contour")


@pytest.fixture(scope="module")
def relu_run():
    return meanfield.derive("relu").propagate(sigma_w=1.5, sigma_b=0.1, depth=30)


def test_run_is_drawn_and_labelled(relu_run):
    figure = figure_of(drawing.plot_run(relu_run))
    above, below = figure.axes
    assert above.get_ylabel() == r"$K^\ell$" and below.get_ylabel() == r"$J^{1,\ell}$"
    assert below.get_xlabel() == r"layer $\ell$" and figure.get_figwidth() == 3.4
    for panel, values in ((above, relu_run.K), (below, relu_run.J)):
        (line,) = panel.get_lines()
        assert (line.get_xdata() == np.arange(1, 31)).all() and (line.get_ydata() == values).all()
        assert line.get_color() == figures.COLOURS[0]
    legend = above.get_legend().get_texts()[0].get_text()
    assert legend == r"$\sigma_w$ = 1.5, $\sigma_b$ = 0.1"


def test_axes_are_logarithmic_where_it_helps(relu_run):
    above, below = figure_of(drawing.plot_run(relu_run)).axes
    assert above.get_xscale() == "linear" and below.get_yscale() == "log"  # J falls by (9/8)^29 ~ 30
    theory = meanfield.derive("tanh")
    critical = figure_of(drawing.plot_run(theory.propagate(sigma_w=1, sigma_b=0, depth=300))).axes[0]
    assert (critical.get_xscale(), critical.get_yscale()) == ("log", "log")  # K ~ 1/l
    ordered = figure_of(drawing.plot_run(theory.propagate(sigma_w=1.5, sigma_b=0.1, depth=300))).axes
    assert [a.get_xscale() for a in ordered] == ["linear", "linear"]  # a fixed point, and J exponential in l
    assert [a.get_yscale() for a in ordered] == ["linear", "log"]


def test_beyond_the_doubles_and_divergence():
    run = meanfield.derive("relu", residual=True).propagate(sigma_w=1.5, sigma_b=0.1, depth=1000)
    lost = int(run.diverged_at)
    assert 0 < lost < 1000
    for panel, log in zip(figure_of(drawing.plot_run(run)).axes, (np.log10(run.K), run.log_J / math.log(10))):
        (line,) = panel.get_lines()
        assert panel.get_ylabel().startswith(r"$\log_{10}$") and panel.get_yscale() == "linear"
        assert line.get_xdata()[-1] == lost - 1 and line.get_ydata() == pytest.approx(log[: lost - 1])


def test_a_sweep_has_one_curve_a_point_and_a_legend_outside(relu_run):
    run = meanfield.derive("relu").propagate(sigma_w=np.linspace(1, 2, 9), sigma_b=0.1, depth=10)
    figure = figure_of(drawing.plot_run(run))
    assert [len(a.get_lines()) for a in figure.axes] == [7, 7] and len(set(figures.COLOURS)) == 7
    assert figure.legends[0].get_title().get_text() == "7 of 9 points"
    assert figure.legends[0].get_texts()[1].get_text() == r"$\sigma_w$ = 1.125, $\sigma_b$ = 0.1"


def test_layerwise_sigmas_and_two_inputs():
    theory = meanfield.derive("relu")
    run = theory.propagate(sigma_w=np.linspace(1, 1.5, 6), sigma_b=0.1, depth=6, layerwise=True)
    assert "per layer" in figure_of(drawing.plot_run(run)).axes[0].get_legend().get_texts()[0].get_text()
    pair = theory.propagate(sigma_w=1.5, sigma_b=0.1, depth=6, correlation=-0.5)
    assert [a.get_ylabel() for a in figure_of(drawing.plot_run(pair)).axes] == [r"$K^\ell_{ab}$", r"$c^\ell$"]


def test_axes_of_the_caller(relu_run):
    figure = matplotlib.figure.Figure()
    one, two = figure.subplots(2, 1)
    assert figure_of(drawing.plot_run(relu_run, ["J"], ax=one)) is figure and one.get_ylabel() == r"$J^{1,\ell}$"
    figure_of(drawing.plot_run(relu_run, ax=two))
    assert two.get_ylabel() == r"$K^\ell$"
    with pytest.raises(MeanFieldError, match="1 axes were given for 2"):
        figure_of(drawing.plot_run(relu_run, ["K", "J"], ax=one))
    with pytest.raises(MeanFieldError, match="Unknown quantity of this run 'V'"):
        figure_of(drawing.plot_run(relu_run, ["V"]))


def test_one_layer():
    run = meanfield.derive("relu").propagate(sigma_w=1.5, sigma_b=0.1, depth=1)
    assert [a.get_lines()[0].get_marker() for a in figure_of(drawing.plot_run(run)).axes] == ["o", "o"]


def test_report_is_drawn_and_labelled():
    report = fake_report(z=0.5)
    figure = figure_of(drawing.plot_report(report))
    k, j, z = figure.axes
    assert k.get_ylabel() == r"$K^\ell$" and j.get_ylabel().startswith(r"$J^{1,\ell}$ / theory")
    assert z.get_ylabel() == "$z$" and z.get_xlabel() == r"layer $\ell$"
    rows = [r for r in report.rows if r.quantity == "K"]
    dots, line = k.get_lines()
    assert list(line.get_ydata()) == [r.theory for r in rows] and line.get_linestyle() == "-"
    assert list(dots.get_ydata()) == [r.measured for r in rows]
    corners = k.collections[0].get_paths()[0].vertices[:, 1]
    assert corners.max() == pytest.approx(rows[-1].measured + 2 * rows[-1].standard_error)
    assert corners.min() == pytest.approx(rows[0].measured - 2 * rows[0].standard_error)
    assert {4.0, -4.0} <= {line.get_ydata()[0] for line in z.get_lines() if len(set(line.get_ydata())) == 1}
    assert [t.get_text() for t in k.get_legend().get_texts()] == ["measured, ± 2 s.e.", "theory", "theory + allowance"]
    more = [r for r in report.rows if r.quantity == "J"]
    _, solid, dashed = j.get_lines()
    assert list(solid.get_ydata()) == [r.theory for r in more] and solid.get_linestyle() == "-"
    assert list(dashed.get_ydata()) == [r.theory + r.allowance for r in more] and dashed.get_linestyle() == "--"


@pytest.mark.parametrize(("z", "marker", "height"), [(50.0, "^", 6), (-math.inf, "v", -6), (math.nan, "o", 0)])
def test_a_failure_off_the_scale_is_seen(z, marker, height):
    rows = (FakeRow("K", 1, 1.0, 0.0, 1.0, 0.1, 0.0, True), FakeRow("K", 2, 1.0, 0.0, 1.0, 0.1, z, False))
    below = figure_of(drawing.plot_report(FakeReport(rows))).axes[-1]
    points = [(line.get_marker(), *p) for line in below.get_lines() for p in line.get_xydata()]
    assert (marker, 2.0, height) in points


def test_a_report_without_rows_is_refused():
    with pytest.raises(MeanFieldError, match="no rows"):
        figure_of(drawing.plot_report(FakeReport(())))


@pytest.mark.slow
def test_a_real_report():
    theory = meanfield.derive("relu")
    report = meanfield.check(theory, sigma_w=1.4, sigma_b=0.1, width=30, depth=4, networks=40)
    assert len(figure_of(drawing.plot_report(report)).axes) == 3


# ------------------------------------------------------------------------------------------------- phase diagrams


@pytest.fixture(scope="module")
def erf_diagram():
    return meanfield.derive("erf").phase_diagram(sigma_w=(0, 3, 121), sigma_b=(0, 3, 121))


@pytest.fixture(scope="module")
def gelu_diagram():
    return meanfield.derive("gelu").phase_diagram(sigma_w=(1.2, 2.2, 60), sigma_b=(0, 0.6, 60))


def erf_line(sigma_w):
    """σ_b on the critical line of erf, by hand: σ_w² = π√(1+4K)/4, σ_b² = K - σ_w² (2/π) asin(2K/(1+2K))."""
    k = ((4 * sigma_w**2 / np.pi) ** 2 - 1) / 4
    return np.sqrt(np.maximum(k - sigma_w**2 * 2 / np.pi * np.arcsin(2 * k / (1 + 2 * k)), 0))


def contour(figure):
    """The vertices of the contour χ_J* = 1 (the first filled or unfilled contour set of the diagram's axes)."""
    sets = [c for c in figure.axes[0].collections if isinstance(c, matplotlib.contour.ContourSet) and not c.filled]
    return np.concatenate([p.vertices for p in sets[0].get_paths()])


def furthest(points, line) -> float:
    """The largest distance from a point to a finely sampled line (σ_w, σ_b)."""
    gaps = np.hypot(points[:, None, 0] - line[None, :, 0], points[:, None, 1] - line[None, :, 1])
    return float(gaps.min(axis=1).max())


def test_contour_and_derived_line_lie_on_the_closed_form(erf_diagram):
    figure = figure_of(erf_diagram.plot())
    w = np.linspace(math.sqrt(math.pi) / 2, 3.2, 4000)
    truth, cell = np.column_stack([w, erf_line(w)]), 3 / 120
    vertices = contour(figure)
    assert len(vertices) > 100 and furthest(vertices, truth) < cell
    assert furthest(vertices, truth * [1, 1.05]) > cell  # a line 5 % off is seen
    (derived,) = [line for line in figure.axes[0].get_lines() if line.get_color() == figures.COLOURS[4]]
    x, y = derived.get_data()
    inside = np.isfinite(y) & (x < 3)
    assert derived.get_linestyle() == "-" and inside.sum() > 50
    assert abs(y[inside] - erf_line(x[inside])).max() < 1e-9
    assert abs(y[inside] - erf_line(1.0001 * x[inside])).max() > 1e-5


def test_phase_diagram_is_labelled(erf_diagram):
    figure = figure_of(erf_diagram.plot())
    panel, bar = figure.axes
    assert (panel.get_xlabel(), panel.get_ylabel()) == (r"$\sigma_w$", r"$\sigma_b$") and figure.get_figwidth() == 3.4
    assert panel.get_xlim() == (0, 3) and panel.get_ylim() == (0, 3) and "chi_J" in bar.get_ylabel()
    (mesh,) = [c for c in panel.collections if isinstance(c, matplotlib.collections.QuadMesh)]
    shown = np.where(erf_diagram.chi_J == 0, -2, np.log(np.maximum(erf_diagram.chi_J, 1e-300)))
    np.testing.assert_allclose(np.asarray(mesh.get_array()).reshape(121, 121), shown, rtol=1e-12, atol=1e-12)
    assert mesh.get_clim() == (-1, 1)
    texts = [t.get_text() for t in figure.legends[0].get_texts()]
    assert texts == ["derived", r"$\chi_J^\ast = 1$, computed", "critical point"]
    star = next(line for line in panel.get_lines() if line.get_marker() == "*")
    assert star.get_xydata() == pytest.approx(np.array([[math.sqrt(math.pi) / 2, 0]]))


def test_unstable_part_is_dashed_and_bistable_part_hatched(gelu_diagram):
    """Dashed where an independent quadrature finds χ_K > 1, below the critical point's K*; solid above."""
    figure = figure_of(gelu_diagram.plot())
    panel, line = figure.axes[0], gelu_diagram.line
    solid, dashed = (c for c in panel.get_lines() if c.get_color() == figures.COLOURS[4])
    assert solid.get_linestyle() == "-" and dashed.get_linestyle() == "--"
    edge = 3 / 2 + math.sqrt(17) / 2  # the critical point parts the line: K* attracts above it
    w, b = (float(s.value) for s in line.at(meanfield.derive("gelu").critical_points()[1].K.value))
    for curve, ks in ((solid, (1.2 * edge, 10 * edge)), (dashed, (0.1 * edge, 0.8 * edge))):
        for k in ks:
            place = np.array([[float(s.value) for s in line.at(k)]])
            gap, chi_j, chi_k = susceptibilities(k, *place[0])
            assert abs(gap) < 1e-9 and abs(chi_j - 1) < 1e-9 and (chi_k > 1) == (curve is dashed)
            drawn = curve.get_xydata()
            drawn = drawn[np.isfinite(drawn).all(axis=1)]
            fine = np.column_stack(
                [np.interp(np.linspace(0, 1, 20000), np.linspace(0, 1, len(drawn)), c) for c in drawn.T]
            )
            assert furthest(place, fine) < 1e-3
    stars = next(c for c in panel.get_lines() if c.get_marker() == "*").get_xydata()
    assert stars == pytest.approx(np.array([[2, 0], [w, b]]))
    hatched = [c for c in panel.collections if isinstance(c, matplotlib.contour.ContourSet) and c.hatches == ["////"]]
    region = hatched[0].get_paths()[0]
    for i, j in ((10, 14), (10, 30), (30, 40), (40, 10)):
        assert region.contains_point((gelu_diagram.sigma_w[j], gelu_diagram.sigma_b[i])) == gelu_diagram.bistable[i, j]


@pytest.mark.slow
def test_a_line_with_averages_agrees_with_iteration():
    """Points of the drawn line of tanh have χ_J = 1 where the map, iterated by an independent quadrature, ends."""
    diagram = meanfield.derive("tanh").phase_diagram(sigma_w=(0, 3, 12), sigma_b=(0, 3, 12))
    derived = next(c for c in figure_of(diagram.plot()).axes[0].get_lines() if c.get_color() == figures.COLOURS[4])
    x, y = derived.get_data()
    t = np.linspace(-10, 10, 2001)
    weight = np.exp(-(t**2) / 2) * (t[1] - t[0]) / np.sqrt(2 * np.pi)
    for i in np.flatnonzero(np.isfinite(y) & (x > 1.3) & (x < 3))[::10]:
        k = 1.0
        for _ in range(400):
            k = x[i] ** 2 * (weight * np.tanh(np.sqrt(k) * t) ** 2).sum() + y[i] ** 2
        chi = x[i] ** 2 * (weight / np.cosh(np.sqrt(k) * t) ** 4).sum()
        assert abs(chi - 1) < 1e-9
        assert abs(1.001**2 * chi - 1) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings", "entries"),
    [
        ("relu", {}, ["derived", "computed", "critical"]),  # vertical
        ("relu", {"norm": "pre"}, ["derived"]),  # the line σ_b = 0, no chaos
        ("relu", {"norm": "act"}, ["derived", "computed"]),
        ("tanh", {"norm": "pre"}, ["derived", "computed"]),  # a ray whose slope is an average
        ("tanh", {"norm": "act", "mu": "1/2"}, ["derived", "computed"]),
    ],
)
def test_every_kind_of_line_is_drawn_where_the_contour_is(name, settings, entries):
    diagram = meanfield.derive(name, **settings).phase_diagram(sigma_w=(0.3, 3, 40), sigma_b=(0, 3, 40))
    figure = figure_of(diagram.plot())
    texts = [t.get_text() for t in figure.legends[0].get_texts()]
    assert len(texts) == len(entries) and all(e in t for e, t in zip(entries, texts))
    if "computed" in entries:
        drawn = next(c for c in figure.axes[0].get_lines() if c.get_color() == figures.COLOURS[4]).get_xydata()
        drawn = drawn[np.isfinite(drawn).all(axis=1)]
        fine = np.column_stack([np.interp(np.linspace(0, 1, 20000), np.linspace(0, 1, len(drawn)), c) for c in drawn.T])
        assert furthest(contour(figure), fine) < 0.05


@pytest.mark.slow
def test_diagrams_without_lines_or_numbers(erf_diagram, tmp_path):
    axis = np.linspace(0, 3, 9)
    everywhere = figure_of(meanfield.derive("erf", mu=1).phase_diagram(sigma_w=axis, sigma_b=axis).plot())
    assert any("everywhere" in t.get_text() for t in everywhere.axes[0].texts) and not everywhere.legends
    bare = replace(erf_diagram, line=None, points=None, chi_J=np.full_like(erf_diagram.chi_J, np.nan))
    holes = np.where(np.arange(121) % 2, erf_diagram.chi_J, np.nan)
    for diagram in (bare, replace(erf_diagram, chi_J=holes)):
        files.save(figure_of(diagram.plot()), tmp_path / "a.png")
    theory = meanfield.derive("erf")
    for w, b in (([1.2], [0.3]), ([2, 1, 1.5], [0.3]), ([2, 1, 1.5], [1, 0.0])):
        files.save(figure_of(theory.phase_diagram(sigma_w=w, sigma_b=b).plot()), tmp_path / "b.png")
    sorted_axes = figure_of(theory.phase_diagram(sigma_w=[2, 1, 1.5], sigma_b=[1, 0.0]).plot()).axes[0]
    assert sorted_axes.get_xlim() == (1, 2) and sorted_axes.get_ylim() == (0, 1)


def test_phase_diagram_in_axes_of_the_caller(erf_diagram, gelu_diagram):
    figure = matplotlib.figure.Figure()
    one, two = figure.subplots(1, 2)
    assert erf_diagram.plot(one) is one and figures.plot_phase_diagram(gelu_diagram, two) is two
    assert not figure.legends and len(two.get_legend().get_texts()) == 5


@pytest.mark.slow
@pytest.mark.parametrize(("name", "head"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")])
def test_save(relu_run, tmp_path, name, head):
    path = files.save(figure_of(drawing.plot_run(relu_run)), tmp_path / name)
    assert path.read_bytes().startswith(head) and list(tmp_path.iterdir()) == [path]
    if name == "a.png":
        width, height = struct.unpack(">II", path.read_bytes()[16:24])
        assert width == 1020 and height > width / 2  # 3.4 in at 300 dots per inch


def test_save_is_whole_or_nothing(relu_run, tmp_path, monkeypatch):
    target = tmp_path / "a.png"
    target.write_bytes(b"before")
    figure = figure_of(drawing.plot_run(relu_run))
    with pytest.raises(MeanFieldError, match=r"\.png, \.pdf, \.svg"):
        files.save(figure, tmp_path / "a.jpg")
    with pytest.raises(MeanFieldError, match="cannot be written"):
        files.save(figure, tmp_path / "no" / "a.png")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(MeanFieldError, match="No space left"):
        files.save(figure, target)
    assert target.read_bytes() == b"before" and list(tmp_path.iterdir()) == [target]


def test_writing_follows_links_and_spares_other_things(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"before")
    link.symlink_to(file)
    files.write_whole(link, b"after")
    assert link.is_symlink() and file.read_bytes() == b"after"
    with pytest.raises(MeanFieldError, match="not a file"):
        files.write_whole(tmp_path, b"")


def test_without_matplotlib(relu_run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MeanFieldError, match=r"pip install 'meanfield\[plot\]'"):
        figure_of(drawing.plot_run(relu_run))


@pytest.mark.slow
def test_no_global_state(relu_run):
    before = dict(matplotlib.rcParams)
    figure_of(drawing.plot_run(relu_run))
    assert dict(matplotlib.rcParams) == before
    code = (
        "import sys, meanfield as mf; from meanfield.base.answers.drawing import plot_report\n"
        "from meanfield.base.storage.files import figures_for_files\n"
        "from tests.cli.test_cli import fake_report\n"
        "with figures_for_files():\n"
        "    plot_report(fake_report())\n"
        "print('matplotlib.pyplot' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "False"
