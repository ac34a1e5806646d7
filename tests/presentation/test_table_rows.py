"""Rows of a theory's table beside formulas by hand: susceptibilities, closed forms, and where there is none."""

from __future__ import annotations

import math

import mpmath
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import K, K_aa, K_ab, K_bb, sigma_w
from meanfield.functions.activations import activation
from meanfield.presentation import tables

NONE = "no elementary closed form"


def susceptibilities(theory, kind=""):
    return {row.name: row for row in tables._susceptibility_rows(theory.one_input, kind)}


def test_susceptibilities():
    """χ_K = χ_J = σ_w²/2 of ReLU and χ_Δ = 0, with their LaTeX and the formulas as nodes; no remark."""
    found = susceptibilities(mf.derive("relu"))
    assert {n: sp.simplify(r.value - {"chi_Delta": 0}.get(n, sigma_w**2 / 2)) for n, r in found.items()} == {
        "chi_K": 0, "chi_J": 0, "chi_Delta": 0
    }  # fmt: skip
    assert {r.remark for r in found.values()} == {""}
    assert {n: r.latex_name for n, r in found.items()} == {n: "\\" + n for n in ("chi_K", "chi_J")} | {
        "chi_Delta": r"\chi_\Delta"
    }
    assert all(isinstance(r.nodes, sp.Expr) for r in found.values()) and found["chi_J"].nodes.has(sigma_w)


def test_an_infinite_susceptibility():
    """The step function jumps: χ_J is infinite, which is said in a word, without nodes."""
    found = susceptibilities(mf.derive("step"))
    assert found["chi_J"].value == "infinite" and found["chi_J"].nodes is None
    assert found["chi_K"].value == 0 and found["chi_K"].nodes == 0


def test_what_a_batch_calls_k_is_said_once():
    rows = tables._susceptibility_rows(mf.derive("relu").one_input, "batch")
    assert [row.remark for row in rows] == [tables.APART, "", ""]
    rows = tables._susceptibility_rows(mf.derive("relu").one_input, "tokens")
    assert [row.remark for row in rows] == ["", "", ""]
    assert tables._susceptibility_rows(None, "batch") == []


def closed(name):
    return {row.name: row for row in tables._closed_rows(activation(name))}


def test_closed_forms_of_erf():
    """⟨erf⟩ = 0, ⟨erf²⟩ = 2/π asin(2K/(1 + 2K)), ⟨erf′²⟩ = 4/(π √(1 + 4K)); of two inputs an arcsine, too."""
    found = closed("erf")
    expected = {
        "<phi>": 0,
        "<phi^2>": 2 / sp.pi * sp.asin(2 * K / (1 + 2 * K)),
        "<phi'^2>": 4 / (sp.pi * sp.sqrt(1 + 4 * K)),
        "<phi_a phi_b>": 2 / sp.pi * sp.asin(2 * K_ab / sp.sqrt((1 + 2 * K_aa) * (1 + 2 * K_bb))),
    }
    place = {K: sp.Rational(7, 5), K_aa: sp.Rational(3, 2), K_bb: sp.Rational(1, 3), K_ab: sp.Rational(1, 7)}
    for name, e in expected.items():
        assert abs(sp.N((found[name].value - e).subs(place), 30)) < 1e-25, name
    assert [r.latex_name for r in found.values()] == [
        r"\langle \varphi \rangle_K", r"\langle \varphi^2 \rangle_K", r"\langle \varphi'^2 \rangle_K",
        r"\langle \varphi_a \varphi_b \rangle",
    ]  # fmt: skip


def test_closed_forms_of_a_jump():
    """⟨step′²⟩ is infinite; ⟨step⟩ = ⟨step²⟩ = 1/2, and of two inputs 1/4 + asin(c)/(2π)."""
    found = closed("step")
    assert found["<phi'^2>"].value == "infinite" and found["<phi>"].value == found["<phi^2>"].value == sp.S.Half
    place = {K_aa: 4, K_bb: 9, K_ab: 3}
    assert sp.simplify(found["<phi_a phi_b>"].value.subs(place) - sp.Rational(1, 3)) == 0  # c = 1/2, asin c = π/6


def test_where_no_average_has_a_closed_form():
    """tanh is odd: ⟨tanh⟩ = 0 is no reason to list the others. Of ELU all averages of one input are elementary."""
    (row,) = tables._closed_rows(activation("tanh"))
    assert row.name == "all averages" and row.value == "no elementary closed form"
    found = closed("elu")
    assert found["<phi_a phi_b>"].value == NONE and all(
        found[n].value != NONE for n in ("<phi>", "<phi^2>", "<phi'^2>")
    )
    k = 1.7
    square = mpmath.quad(
        lambda z: mpmath.npdf(z, 0, math.sqrt(k)) * (z if z > 0 else mpmath.expm1(z)) ** 2, [-15, 0, 15]
    )
    assert float(found["<phi^2>"].value.subs(K, k)) == pytest.approx(float(square), rel=1e-12)
