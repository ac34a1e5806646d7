"""What every result can do: plain values, JSON, frames, files read back, notebooks, SymPy's LaTeX; numbers are numbers.

The second route: the arrays themselves, Python's own json, csv and pandas' and xarray's own readers.
"""

from __future__ import annotations

import csv
import json
import math
import operator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.export import Numbers, Result
from meanfield.base.storage.files import figure_of

TANH = mf.derive("tanh")
AT = {"sigma_w": 1.5, "sigma_b": 0.2}
ONES = {"sigma_w": 1, "sigma_v": 1, "sigma_b": 0, "sigma_a": 0}
SMALL = {"width": 30, "depth": 3, "networks": 8, "seed": 1}
ORTHOGONAL = mf.derive("tanh", weights="orthogonal")
BETAS = {"beta_v": "beta_v", "beta_w": "beta_w"}
FULL = mf.derive("tanh", architecture="full_residual", **BETAS)

#: one call of every verb that answers with a result
CALLS = {
    "recursion": lambda: TANH.recursion("K", "J"),
    "fixed_points": lambda: TANH.fixed_points(**AT),
    "fixed_point": lambda: TANH.fixed_points(**AT)[0],
    "critical_points": lambda: mf.derive("gelu").critical_points(),
    "critical_point": lambda: mf.derive("gelu").critical_points()[0],
    "critical_line": lambda: TANH.critical_line(),
    "phase": lambda: TANH.phase(**AT),
    "depth_law": lambda: TANH.depth_law("J", sigma_w=1, sigma_b=0),
    "correlator_law": lambda: ORTHOGONAL.depth_law("V", sigma_w=1, sigma_b=0),
    "scheduled_law": lambda: mf.derive("tanh", residual=True).depth_law("J", sigma_w=1, sigma_b=0, order=1),
    "expansion": lambda: TANH.expansions()["phi^2", "0"],
    "phase_table": lambda: FULL.phase_table("K"),
    "phase_row": lambda: FULL.phase_table("K").rows[0],
    "phase_orders": lambda: FULL.phase_table("K").orders(),
    "correlations": lambda: TANH.correlations(**AT),
    "bias": lambda: TANH.bias(**AT),
    "fraction": lambda: TANH.neutrality_line(),
    "run": lambda: TANH.propagate(**AT, depth=4),
    "sweep": lambda: TANH.propagate(sigma_w=[1.0, 1.5], sigma_b=[[0.1], [0.2], [0.3]], depth=3),
    "kernel": lambda: TANH.kernel(np.eye(3), np.ones((2, 3)), **AT, depth=3),
    "correlators": lambda: ORTHOGONAL.correlators(
        gram=[[1, 0.5], [0.5, 1]], depth=2, sigma_w=1, sigma_b=0, quantities="V"
    ),
    "widths": lambda: TANH.width_schedule(**AT, width=256, depth=6),
    "diagram": lambda: TANH.phase_diagram(sigma_w=[0.5, 1.5], sigma_b=[0, 0.2, 0.4], line=False),
    "bias_diagram": lambda: TANH.phase_diagram(sigma_w=[0.5, 1.5], sigma_b=[0.1], line=False, quantity="gamma"),
    "measured": lambda: mf.measure("tanh", **AT, **SMALL, quantities=("K", "J")),
    "check": lambda: mf.check("tanh", **AT, **SMALL),
    "recommendation": lambda: mf.recommend("tanh", depth=5, width=50),
    "tuning": lambda: mf.tune("tanh", depth=4, width=None),
    "rates": lambda: mf.tuning.tuning_rates("relu", sigma_w=2),
    "table": lambda: TANH.table(1),
    "number": lambda: TANH.fixed_points(**AT)[0].K,
}
MATHS = {
    "recursion", "fixed_points", "fixed_point", "critical_points", "critical_point", "critical_line", "phase",
    "depth_law", "correlator_law", "scheduled_law", "expansion", "phase_table", "phase_row", "phase_orders", "number",
}  # fmt: skip
PICTURES = {"run", "sweep", "kernel", "diagram", "bias_diagram", "measured", "check"}


@cache
def result(name: str) -> Result:
    return CALLS[name]()


def assert_json_values(found: object) -> None:
    """What JSON has, and nothing that it writes otherwise than it was."""
    assert json.loads(json.dumps(found, allow_nan=False)) == found


@pytest.mark.slow_with(
    "critical_points", "critical_point", "critical_line", "correlations", "bias", "fraction", "bias_diagram",
    "recommendation",
)  # fmt: skip
@pytest.mark.parametrize("name", CALLS)
def test_every_result_can_do_what_results_do(name, tmp_path):
    found = result(name)
    assert isinstance(found, Result) and "object at 0x" not in f"{found!r}{found}"
    assert_json_values(found.data())
    head = json.loads(found.to_json())
    assert (head["result"], head["data"]) == (type(found).__name__, found.data())
    assert mf.load(found.save(tmp_path / "a.json")).values == found.data()
    html = found._repr_html_()
    assert html.startswith(("<div>", "<pre>")) and ("$$" in html) == (name in MATHS)
    if name in MATHS:
        displayed = name in ("phase_table", "phase_orders")  # which is no formula, but a display of its own
        assert "mathtt" not in sp.latex(found) and (sp.latex(found) == found.latex()) is not displayed
        assert found.save(tmp_path / "a.tex").read_text() == found.latex()


@pytest.mark.slow_with("critical_points", "bias", "fraction", "correlations", "recommendation")
@pytest.mark.parametrize("name", CALLS)
def test_frames_and_files_hold_the_arrays(name, tmp_path):
    """pandas, xarray, csv and .npz say the same numbers as the arrays do."""
    pandas, found = pytest.importorskip("pandas"), result(name)
    frame, arrays = found.to_frame(), found.arrays()
    index, columns = arrays.flat()
    assert isinstance(frame, pandas.DataFrame) and list(frame.columns) == list(columns) and len(frame) > 0
    back = mf.load(found.save(tmp_path / "a.npz"))
    rows = list(csv.DictReader(found.save(tmp_path / "a.csv").read_text().splitlines()))
    assert len(rows) == len(frame)
    for column, values in columns.items():
        if values.dtype.kind in "fi":
            assert np.array_equal(frame[column].to_numpy(), values, equal_nan=True)
            assert np.array_equal([float(r[column]) for r in rows], values, equal_nan=True)
            assert np.array_equal(back[column], arrays.columns[column][1], equal_nan=True)
    for column, values in index.items():
        if column != "row" and values.dtype.kind == "f":
            assert [float(r[column]) for r in rows] == values.tolist()
    if "xarray" in str(pytest.importorskip("xarray")):
        data = found.to_xarray()
        assert set(columns) <= set(data.data_vars) and all(n in data.coords for n in arrays.coords)


def assert_kept(found, path, known: dict[str, float]) -> None:
    assert known and known.items() <= mf.load(found.save(path)).attrs.items(), f"{known} was lost"


def test_files_of_arrays_hold_what_is_known_of_them(tmp_path):
    """Bounds of a kernel's errors and the onset of a law, which .json files had alone."""
    kernel = mf.derive("relu").kernel([[1.0, 0.2], [0.3, -1.0]], sigma_w=1, sigma_b=0.1, depth=3)
    assert_kept(kernel, tmp_path / "k.npz", {f"{name}_error": bound for name, bound in kernel.error.items()})
    law = mf.derive("tanh", residual=True).depth_law("K", sigma_w=1, sigma_b=0)
    assert law.onset is not None and law.onset > 1
    assert_kept(law, tmp_path / "law.npz", {"onset": law.onset})
    with pytest.raises(AssertionError, match="was lost"):
        assert_kept(law, tmp_path / "law.npz", {"onset": 2 * law.onset})


@pytest.mark.slow_with("run")
@pytest.mark.parametrize("name", sorted(PICTURES))
def test_pictures_are_axes_and_take_axes(name, tmp_path):
    matplotlib = pytest.importorskip("matplotlib.figure")
    found = result(name)
    drawn = found.plot()
    panels = [drawn] if hasattr(drawn, "plot") else list(drawn)
    assert found.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    own = matplotlib.Figure().subplots(len(panels), 1, squeeze=False)[:, 0]
    again = found.plot(ax=own[0] if len(panels) == 1 else own)
    assert figure_of(again) is own[0].figure
    assert len(own[0].lines + own[0].collections + own[0].images) > 0


def test_the_points_of_a_sweep_are_named_by_what_varies():
    """Along its own axis a parameter is one of xarray's dimensions; together with another it is a coordinate."""
    pytest.importorskip("xarray")
    found = result("sweep").to_xarray()
    assert dict(found.sizes) == {"sigma_b": 3, "sigma_w": 2, "layer": 3}
    here = found.K.sel(sigma_w=1.5, sigma_b=0.3, layer=3)
    assert float(here) == float(TANH.propagate(sigma_w=1.5, sigma_b=0.3, depth=3).K[-1])
    zipped = TANH.propagate(sigma_w=[1.0, 1.5], sigma_b=[0.1, 0.2], depth=3).to_xarray()
    assert zipped.K.dims == ("point", "layer") and zipped.sigma_b.dims == ("point",)
    frame = result("sweep").to_frame()
    assert list(frame.index.names) == ["sigma_w", "sigma_b", "layer"] and frame.loc[(1.5, 0.3, 3), "K"] == float(here)


@pytest.mark.parametrize("name", [n for n in CALLS if n in ("run", "kernel", "correlators", "measured")])
def test_arrays_are_items_and_attributes(name):
    found = result(name)
    assert isinstance(found, Numbers)
    key = "K"
    assert np.array_equal(
        np.asarray(getattr(found[key], "mean", found[key])), getattr(getattr(found, key), "mean", getattr(found, key))
    )
    with pytest.raises(mf.MeanFieldError, match="'Z'"):
        found["Z"]
    with pytest.raises(AttributeError, match="'Z'"):
        found.Z  # noqa: B018


def test_ensembles_and_kernels_print_their_numbers():
    measured, kernel = result("measured"), result("kernel")
    last = measured.estimate("K", 3)
    assert f"{last.mean:.8g}" in str(measured) and f"{last.standard_error:.2g}" in str(measured)
    assert f"{kernel.K[0, 1]:.8g}" in str(kernel) and f"{kernel.error['K']:.1e}" in str(kernel)
    assert max(map(len, f"{measured}\n{kernel}".splitlines())) <= 80


def assert_counts_as(number: mf.Solution, value: float) -> None:
    """Python, NumPy and SymPy compute with it as with the value."""
    assert float(number) == value and f"{number:.6f}" == f"{value:.6f}"
    for one in (number + 1, 1 + number):
        assert isinstance(one, sp.Expr) and float(one) == pytest.approx(value + 1, rel=1e-15)
    for how in (operator.sub, operator.mul, operator.truediv, operator.pow):
        assert float(how(number, 3)) == pytest.approx(how(value, 3), rel=1e-14)
        assert float(how(3, number)) == pytest.approx(how(3, value), rel=1e-14)
        assert float(how(number, np.float64(3))) == pytest.approx(how(value, 3), rel=1e-14)
        assert np.allclose(how(np.array([1.0, 3.0]), number), how(np.array([1.0, 3.0]), value), rtol=1e-14)
    assert float(-number) == -value and float(abs(number)) == abs(value) and int(number) == int(value)
    assert np.sqrt(number) == math.sqrt(value) == math.sqrt(number)
    assert np.asarray([number, number], dtype=float).tolist() == [value, value]
    assert float(sp.sqrt(number)) == pytest.approx(math.sqrt(value), rel=1e-15)
    assert number > value / 2 and number < 2 * value and not number < value / 2 and 2 * value >= number


def test_numbers_are_numbers():
    exact = mf.Solution(sp.sqrt(2), mf.Status.EXACT)
    for number in (exact, result("number"), mf.derive("gelu").critical_points()[1].sigma_w):
        assert_counts_as(number, float(number.value))
    with pytest.raises(AssertionError, match=r"1\.4142135623730951 == 1\.4\)"):  # planted: another number
        assert_counts_as(exact, 1.4)
    assert exact**2 == 2 and exact == math.sqrt(2) and exact != 1.5 and exact == sp.sqrt(2)
    assert mf.Solution(sp.Integer(1), mf.Status.EXACT) == 1 and hash(mf.Solution(1, mf.Status.EXACT)) == hash(1)
    assert exact == replace(exact) != replace(exact, status=mf.Status.MEASURED)
    assert (
        str(exact) == "sqrt(2)"
        and str(result("number")).startswith("0.87089889581695539637")
        and "+-" in str(result("number"))
    )
    assert (
        TANH.propagate(sigma_w=exact, sigma_b=0, depth=3).K[-1]
        == TANH.propagate(sigma_w="sqrt(2)", sigma_b=0, depth=3).K[-1]
    )
    assert TANH.phase(sigma_w=exact, sigma_b=0).chi_J.status is mf.Status.CERTIFIED


def assert_law_says_one_thing(law, depth: int, **constants: float) -> None:
    """`at`, `expr`, `law` and the picture are of one law."""
    value = float(law.at(depth, **constants))
    names = {s: constants.get(s.name, depth) for s in law.expr.free_symbols}
    assert value == pytest.approx(float(law.expr.subs(names)), rel=1e-9)
    assert value == pytest.approx(float(law.law.at(depth, **constants)), rel=1e-9)


@pytest.mark.slow
def test_every_law_has_the_same_face():
    """A depth law, one with further terms, one under a schedule, a correlator's: at, expr, law, onset, text."""
    skip = mf.derive("tanh", residual=True)
    laws = {
        TANH.depth_law("K", sigma_w=1, sigma_b=0): {},
        skip.depth_law("K", sigma_w=1, sigma_b=0, order=3): {"C": 0.3},
        skip.depth_law("J", sigma_w=1, sigma_b=0, order=4): {"C": 0.3, "C_K": 1.0},
        ORTHOGONAL.depth_law("V", sigma_w=1, sigma_b=0): {},
        FULL.depth_law("K", **ONES, beta_w=0, beta_v="1/4"): {},
    }
    for law, constants in laws.items():
        assert_law_says_one_thing(law, 5000, **constants)
        assert law.text() and (law.onset is None or law.onset < 5000)
        assert law.plot().get_xlabel() == r"layer $\ell$"
    one = list(laws)[1]  # planted: another constant in one of the readings
    with pytest.raises(AssertionError, match="comparison failed"):
        assert float(one.at(5000, C=0.4)) == pytest.approx(float(one.law.at(5000, C=0.3)), rel=1e-9)
    with pytest.raises(mf.MeanFieldError, match="C has no value; give it, as in at\\(100, C=1\\)"):
        list(laws)[1].at(100)
    with pytest.raises(mf.MeanFieldError, match="give l once"):
        list(laws)[1].at()
    with pytest.raises(mf.MeanFieldError, match="must be > 1"):
        list(laws)[1].at(1, C=1)
    with pytest.raises(mf.MeanFieldError, match="it holds as K → 0"):
        TANH.expansions()["phi^2", "0"].plot()
    swept = mf.derive("relu", architecture="full_residual", **BETAS).depth_law("J", **ONES, beta_w="1/4", beta_v="1/4")
    with pytest.raises(mf.MeanFieldError, match="is no sum of terms"):
        swept.law  # noqa: B018


def test_a_comparison_inside_the_error_is_undecided():
    ball = mf.Solution(sp.Float("1.0000", 10), mf.Status.CERTIFIED, 1e-3)
    assert ball < 1.01 and ball > 0.99
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        with pytest.raises(mf.MeanFieldError, match="undecided inside the error"):
            compare(ball, 1)
    with pytest.raises(mf.MeanFieldError, match="depends on mu"):
        float(mf.Solution(sp.Symbol("mu"), mf.Status.EXACT))
    with pytest.raises(TypeError, match="not supported"):
        ball < "1"  # noqa: B015
    assert ball != "1.0000" and ball is not None


def test_files_that_are_not_results_are_refused(tmp_path):
    (tmp_path / "a.json").write_text('{"other": 1}')
    (tmp_path / "b.json").write_text("not json")
    np.savez(tmp_path / "c.npz", x=np.arange(3))
    for name in ("a.json", "b.json", "c.npz"):
        with pytest.raises(mf.MeanFieldError, match="no file that a result has saved"):
            mf.load(tmp_path / name)
    with pytest.raises(mf.MeanFieldError, match="cannot be read: No such file"):
        mf.load(tmp_path / "none.npz")
    with pytest.raises(mf.MeanFieldError, match=r"ends in \.xyz; a Run is saved as \.json"):
        result("run").save(tmp_path / "a.xyz")
    with pytest.raises(mf.MeanFieldError, match="cannot be written"):
        result("run").save(tmp_path / "no" / "a.json")
    with pytest.raises(mf.MeanFieldError, match="nothing to draw"):
        result("phase").save(tmp_path / "a.png")
    saved = mf.load(result("run").save(tmp_path / "run.npz"))
    assert saved.sigma_w == 1.5 and repr(saved) == "Saved(Run: K, J, log_J)" and saved["layer"].tolist() == [1, 2, 3, 4]
    with pytest.raises(mf.MeanFieldError, match="This Saved has no 'V'; it has K, J, log_J"):
        saved["V"]
    with pytest.raises(mf.MeanFieldError, match="without arrays"):
        mf.load(result("run").save(tmp_path / "run.json")).to_frame()


def test_a_json_file_gives_the_numbers_under_the_same_names(tmp_path):
    """An .npz and a .json of one run say the same by name (K of a .json stood under values.values before)."""
    run = result("run")
    one, other = (mf.load(run.save(tmp_path / f"run.{suffix}")) for suffix in ("json", "npz"))
    for name in ("K", "J", "log_J"):
        assert np.array_equal(getattr(one, name), getattr(other, name)) and np.array_equal(one[name], other[name])
    kernel = mf.derive("erf").kernel(np.eye(3), sigma_w=1, sigma_b=0.1, depth=3)
    assert np.array_equal(mf.load(kernel.save(tmp_path / "kernel.json")).Theta, kernel.Theta)
    with pytest.raises(AttributeError, match=r"has no 'V'; it has .*K, J, log_J"):
        _ = one.V
    with pytest.raises(AssertionError, match="Arrays are not equal"):  # planted: another run
        np.testing.assert_array_equal(one.K, 1.0001 * other.K)


def test_control_a_file_with_another_number_is_seen(tmp_path):
    """Planted: one number of a saved run changed."""
    other = replace(result("run"), values=result("run").values | {"K": result("run").K + 1e-15})
    back = mf.load(other.save(tmp_path / "a.npz"))
    assert not np.array_equal(back.K, result("run").K)


def test_without_pandas_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    monkeypatch.setitem(__import__("sys").modules, "xarray", None)
    with pytest.raises(mf.MeanFieldError, match="A data frame needs pandas, which is not installed"):
        result("run").to_frame()
    with pytest.raises(mf.MeanFieldError, match="A Dataset needs xarray"):
        result("run").to_xarray()
