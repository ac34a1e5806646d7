"""Tables for papers: a summary of critical points, captions, labels, sections, names for long constants."""

from __future__ import annotations

import re

import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.latex import tex
from meanfield.presentation.tables import LEGEND, _decimals
from meanfield.theory.summaries import EVERYWHERE

PHIS, NETWORKS = ("tanh", "gelu", "step"), ("mlp", "preln")


@pytest.fixture(scope="module")
def found():
    return mf.summary(PHIS, NETWORKS)


def assert_rows_are_the_critical_points(rows) -> None:
    """Each row is what `critical_points` says of that pair, in that order."""
    expected = []
    for network in NETWORKS:
        for phi in PHIS:
            points = mf.derive(phi, architecture=network).critical_points()
            own = [(p.sigma_w, p.sigma_b, p.K) for p in points] or [(None, None, None)]
            expected += [(phi, network, *one) for one in own]
    assert [(e.activation, e.architecture, e.sigma_w, e.sigma_b, e.K) for e in rows] == expected


def test_a_summary_has_a_row_for_each_critical_point(found):
    assert_rows_are_the_critical_points(found)
    with pytest.raises(AssertionError, match="At index 0"):  # planted: rows in another order
        assert_rows_are_the_critical_points(tuple(found)[::-1])
    assert len(found) == 7 and max(map(len, str(found).splitlines())) <= 80
    assert "1.408211" in str(found) and "no critical point: φ jumps" in str(found)
    frame = pytest.importorskip("pandas") and found.to_frame()
    assert frame["sigma_w"].tolist()[:2] == [1.0, 2.0] and frame["K"].isna().sum() == 4
    with pytest.raises(mf.MeanFieldError, match="did you mean 'preln'"):
        mf.summary("tanh", "pre-ln").entries[0].message and mf.derive("tanh", architecture="pre-ln")


def test_what_holds_everywhere_is_said_where_one_row_needs_it():
    """With a norm and a skip every point is critical, without them one is."""
    mixed, alone = mf.summary("tanh", ("mlp", "preln")), mf.summary("tanh", ("mlp",))
    assert [e.exponent is None for e in mixed.entries] == [True, False] and alone.entries[0].exponent is None
    assert EVERYWHERE in mixed.latex() and EVERYWHERE not in alone.latex()


def test_a_summary_is_a_table_for_a_paper(found):
    text = found.latex(caption="Critical points.", label="tab:critical")
    assert r"\caption{Critical points.}" + "\n" + r"\label{tab:critical}" in text
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(body) == 8 and r"\ast$ & $\zeta$ & kind\\" in body[0] and r"$1.408211$ & $0.4158394$" in body[3]
    assert r"\zeta$: $J^{1,\ell} \sim \ell^{-\zeta}$ there" in found.latex()


def test_captions_labels_and_sections():
    table = mf.derive("erf").table()
    text = table.latex(label="tab:erf")
    assert LEGEND in text and text.count(r"\label{tab:erf}") == 1
    assert text.index(r"\caption") < text.index(r"\label")
    few = mf.derive("erf").latex(rows=["Maps (one", "Susc"], caption=r"Maps of $\varphi$.")
    assert r"\caption{Maps of $\varphi$.}" in few and "Closed forms" not in few and LEGEND not in few
    assert {r.section for r in table.only("Maps").rows} == {"Maps (one input)", "Maps (two inputs)"}
    with pytest.raises(mf.MeanFieldError, match="Unknown section of this table 'Laws'; the choices are Maps"):
        table.latex(rows=["Laws"])


@pytest.mark.slow
def test_long_constants_have_names():
    """SELU's formulas are in scale and α, whose decimals stand above; with the numbers put in they are the same."""
    theory = mf.derive("selu")
    text = str(theory.table(2))
    assert "scale = 1.0507009873554804934193349852946" in text and max(map(len, re.findall(r"\d+", text))) <= 31
    row = next(r for r in theory.table(2).rows if r.name == "chi_J")
    values = {s: v for s in row.value.free_symbols for k, v in mf.activation("selu").parameters if s.name == k}
    exact = theory.susceptibilities()["chi_J"].doit()
    assert len(values) == 2
    off = row.value.subs(values) - exact
    at = {s: 1 if "sigma" in s.name else sp.Rational(7, 5) for s in exact.free_symbols}
    assert abs(sp.N(off.subs(at), 30)) < 1e-25 < abs(sp.N((off + exact / 10**20).subs(at), 30))  # and a planted error
    assert r"\mathrm{scale}" in theory.latex(2) and "scale" not in str(mf.derive("tanh").table(2))
    assert _decimals(sp.Rational(-1, 8)) == "-0.125" and _decimals(sp.Rational(1, 3)).startswith("0.33333")


def test_words_and_functions_in_latex():
    x = sp.Symbol("x")
    assert tex(sp.loggamma(x)) == r"\log\Gamma{\left(x \right)}"
    assert tex(sp.Symbol("gain") * x) == r"\mathrm{gain} x" and tex(sp.Symbol("alpha")) == r"\alpha"
    assert "nodes carry them" not in str(mf.derive("tanh").table())


def test_recursions_show_decimals_inside_averages():
    """SELU's 60 digits stood inside the integrands; the expressions keep them, and short numbers stay fractions."""
    theory = mf.derive("selu")
    for said in (str(theory.recursion()), str(theory.susceptibilities())):
        assert "1.7580993408473769*exp(z)" in said and max(map(len, re.findall(r"\d+", said))) <= 17
    assert "(3*z/7 + tanh(z))**2" in str(mf.derive("tanh(z) + 3*z/7").recursion())


def test_long_names_are_whole():
    """Two clips with one beginning had one name."""
    lines = str(mf.summary(("min(max(z,-1),2)", "min(max(z,-1),3)", "tanh"))).splitlines()
    assert [line.split("  ")[0] for line in lines[2::2]] == ["Min(2, Max(-1, z))", "Min(3, Max(-1, z))", "tanh"]
    assert max(map(len, lines)) <= 80
