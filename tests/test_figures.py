"""Figures: what is drawn is what was computed, labelled, and written whole."""

from __future__ import annotations

import math
import os
import struct
import subprocess
import sys

import numpy as np
import pytest
from test_cli import FakeReport, FakeRow, fake_report

import meanfield
from meanfield import figures
from meanfield.results import MeanFieldError

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def relu_run():
    return meanfield.derive("relu").propagate(sigma_w=1.5, sigma_b=0.1, depth=30)


def test_run_is_drawn_and_labelled(relu_run):
    figure = figures.plot_run(relu_run)
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
    above, below = figures.plot_run(relu_run).axes
    assert above.get_xscale() == "linear" and below.get_yscale() == "log"  # J falls by (9/8)^29 ~ 30
    theory = meanfield.derive("tanh")
    critical = figures.plot_run(theory.propagate(sigma_w=1, sigma_b=0, depth=300)).axes[0]
    assert (critical.get_xscale(), critical.get_yscale()) == ("log", "log")  # K ~ 1/l
    ordered = figures.plot_run(theory.propagate(sigma_w=1.5, sigma_b=0.1, depth=300)).axes
    assert [a.get_xscale() for a in ordered] == ["linear", "linear"]  # a fixed point, and J exponential in l
    assert [a.get_yscale() for a in ordered] == ["linear", "log"]


def test_beyond_the_doubles_and_divergence():
    run = meanfield.derive("relu", residual=True).propagate(sigma_w=1.5, sigma_b=0.1, depth=1000)
    lost = int(run.diverged_at)
    assert 0 < lost < 1000
    for panel, log in zip(figures.plot_run(run).axes, (np.log10(run.K), run.log_J / math.log(10))):
        (line,) = panel.get_lines()
        assert panel.get_ylabel().startswith(r"$\log_{10}$") and panel.get_yscale() == "linear"
        assert line.get_xdata()[-1] == lost - 1 and line.get_ydata() == pytest.approx(log[: lost - 1])


def test_a_sweep_has_one_curve_a_point_and_a_legend_outside(relu_run):
    run = meanfield.derive("relu").propagate(sigma_w=np.linspace(1, 2, 9), sigma_b=0.1, depth=10)
    figure = figures.plot_run(run)
    assert [len(a.get_lines()) for a in figure.axes] == [7, 7] and len(set(figures.COLOURS)) == 7
    assert figure.legends[0].get_title().get_text() == "first 7 of 9 points"
    assert figure.legends[0].get_texts()[1].get_text() == r"$\sigma_w$ = 1.125, $\sigma_b$ = 0.1"


def test_layerwise_sigmas_and_two_inputs():
    theory = meanfield.derive("relu")
    run = theory.propagate(sigma_w=np.linspace(1, 1.5, 6), sigma_b=0.1, depth=6, layerwise=True)
    assert "per layer" in figures.plot_run(run).axes[0].get_legend().get_texts()[0].get_text()
    pair = theory.propagate(sigma_w=1.5, sigma_b=0.1, depth=6, correlation=-0.5)
    assert [a.get_ylabel() for a in figures.plot_run(pair).axes] == [r"$K^\ell_{ab}$", r"$c^\ell$"]


def test_axes_of_the_caller(relu_run):
    figure = matplotlib.figure.Figure()
    one, two = figure.subplots(2, 1)
    assert figures.plot_run(relu_run, ["J"], ax=one) is figure and one.get_ylabel() == r"$J^{1,\ell}$"
    figures.plot_run(relu_run, ax=two)
    assert two.get_ylabel() == r"$K^\ell$"
    with pytest.raises(MeanFieldError, match="1 axes were given for 2"):
        figures.plot_run(relu_run, ["K", "J"], ax=one)
    with pytest.raises(MeanFieldError, match="V was asked for"):
        figures.plot_run(relu_run, ["V"])


def test_one_layer():
    run = meanfield.derive("relu").propagate(sigma_w=1.5, sigma_b=0.1, depth=1)
    assert [a.get_lines()[0].get_marker() for a in figures.plot_run(run).axes] == ["o", "o"]


def test_report_is_drawn_and_labelled():
    report = fake_report(z=0.5)
    figure = figures.plot_report(report)
    k, j, z = figure.axes
    assert k.get_ylabel() == r"$K^\ell$" and j.get_ylabel().startswith(r"$J^{1,\ell}$ / theory")
    assert z.get_ylabel() == "$z$" and z.get_xlabel() == r"layer $\ell$"
    rows = [r for r in report.rows if r.quantity == "K"]
    dots, line = k.get_lines()
    assert list(line.get_ydata()) == [r.predicted for r in rows]
    assert list(dots.get_ydata()) == [r.measured for r in rows]
    corners = k.collections[0].get_paths()[0].vertices[:, 1]
    assert corners.max() == pytest.approx(rows[-1].measured + 2 * rows[-1].standard_error)
    assert corners.min() == pytest.approx(rows[0].measured - 2 * rows[0].standard_error)
    assert {4.0, -4.0} <= {line.get_ydata()[0] for line in z.get_lines() if len(set(line.get_ydata())) == 1}
    assert [t.get_text() for t in k.get_legend().get_texts()] == ["measured, ± 2 s.e.", "predicted"]


@pytest.mark.parametrize(("z", "marker", "height"), [(50.0, "^", 6), (-math.inf, "v", -6), (math.nan, "o", 0)])
def test_a_failure_off_the_scale_is_seen(z, marker, height):
    rows = (FakeRow("K", 1, 1.0, 1.0, 0.1, 0.0, True), FakeRow("K", 2, 1.0, 1.0, 0.1, z, False))
    below = figures.plot_report(FakeReport(rows)).axes[-1]
    points = [(line.get_marker(), *p) for line in below.get_lines() for p in line.get_xydata()]
    assert (marker, 2.0, height) in points


def test_a_report_without_rows_is_refused():
    with pytest.raises(MeanFieldError, match="no rows"):
        figures.plot_report(FakeReport(()))


def test_a_real_report():
    theory = meanfield.derive("relu")
    report = meanfield.check(theory, sigma_w=1.4, sigma_b=0.1, width=30, depth=4, networks=40)
    assert len(figures.plot_report(report).axes) == 3


@pytest.mark.parametrize(("name", "head"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")])
def test_save(relu_run, tmp_path, name, head):
    path = figures.save(figures.plot_run(relu_run), tmp_path / name)
    assert path.read_bytes().startswith(head) and list(tmp_path.iterdir()) == [path]
    if name == "a.png":
        width, height = struct.unpack(">II", path.read_bytes()[16:24])
        assert width == 1020 and height > width / 2  # 3.4 in at 300 dots per inch


def test_save_is_whole_or_nothing(relu_run, tmp_path, monkeypatch):
    target = tmp_path / "a.png"
    target.write_bytes(b"before")
    figure = figures.plot_run(relu_run)
    with pytest.raises(MeanFieldError, match=r"\.png, \.pdf, \.svg"):
        figures.save(figure, tmp_path / "a.jpg")
    with pytest.raises(MeanFieldError, match="cannot be written"):
        figures.save(figure, tmp_path / "no" / "a.png")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(MeanFieldError, match="No space left"):
        figures.save(figure, target)
    assert target.read_bytes() == b"before" and list(tmp_path.iterdir()) == [target]


def test_writing_follows_links_and_spares_other_things(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"before")
    link.symlink_to(file)
    figures.write_whole(link, b"after")
    assert link.is_symlink() and file.read_bytes() == b"after"
    with pytest.raises(MeanFieldError, match="not a file"):
        figures.write_whole(tmp_path, b"")


def test_without_matplotlib(relu_run, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MeanFieldError, match=r"pip install 'meanfield\[plot\]'"):
        figures.plot_run(relu_run)


def test_no_global_state(relu_run):
    before = dict(matplotlib.rcParams)
    figures.plot_run(relu_run)
    assert dict(matplotlib.rcParams) == before
    code = (
        "import sys, meanfield as mf; from meanfield.figures import plot_report; from test_cli import fake_report\n"
        "figure = plot_report(fake_report()); print('matplotlib.pyplot' in sys.modules)"
    )
    here = os.path.dirname(__file__)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([here, os.path.dirname(here)])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "False"
