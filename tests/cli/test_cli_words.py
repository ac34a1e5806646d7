"""What the command line writes of numbers, layers and activations: cells, rows, JSON values, limits."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import Solution, Status
from meanfield.cli.terminal import critical_output as critical
from meanfield.cli.terminal import output as out
from meanfield.functions.activations import activation
from meanfield.networks.records import Dense, LayerNorm, Nonlinearity, Sequential


def run(depth, lost=0, **values):
    l = np.arange(1, depth + 1)
    logs = {k: v for k, v in values.items() if k.startswith("log_")}
    return SimpleNamespace(l=l, diverged_at=lost, values=values, **{k: v for k, v in values.items() if k not in logs})


def test_which_layers_are_shown():
    """1, 2, 3, 5, 10, 20, 50, …, the last; up to the one where K leaves the doubles and the one before."""
    assert [i + 1 for i in out.selected(run(67))] == [1, 2, 3, 5, 10, 20, 50, 67]
    assert [i + 1 for i in out.selected(run(67, lost=32))] == [1, 2, 3, 5, 10, 20, 31, 32]
    assert [i + 1 for i in out.selected(run(4))] == [1, 2, 3, 4]
    assert out.selected(run(1)) == [0]


@pytest.mark.parametrize(
    ("value", "log", "cell"),
    [
        (0.5, None, "0.5"), (1 / 3, None, "0.33333333"), (math.nan, None, "-"), (math.inf, None, "inf"),
        (0.0, -math.inf, "0"), (1e300, 690.0, "1e+300"), (math.inf, 2302.5850929940457, "1.0000e+1000"),
        (0.0, -2302.0, "1.7952e-1000"),
        (math.inf, 2302.585, "9.9991e+999"), (math.inf, 2302.5850928, "1.0000e+1000"), (math.nan, math.nan, "-"),
    ],
)  # fmt: skip
def test_cells(value, log, cell):
    """Eight digits; beyond the doubles those of the logarithm: e^2302.585… = 10^1000."""
    assert out._cell(value, log) == cell


def test_tables_of_layers():
    """Four names a table, the fifth in another; every column its own numbers, and logarithms where they are held."""
    values = {n: np.array([k + 1.0, k + 2.0, k + 3.0]) for k, n in enumerate("abcde")}
    found = run(3, **values, log_e=np.array([0.0, 800.0, 1.0]))
    first, second = out.layer_table(found, tuple("abcde")).split("\n\n")
    assert [line.split() for line in first.splitlines()] == [
        ["layer", *"abcd"], ["1", "1", "2", "3", "4"], ["2", "2", "3", "4", "5"], ["3", "3", "4", "5", "6"]
    ]  # fmt: skip
    assert second.split() == ["layer", "e", "1", "5", "2", "2.7264e+347", "3", "7"]
    assert max(map(len, first.splitlines())) <= out.COLUMNS
    log = out.columns(SimpleNamespace(l=found.l, values=found.values, log_e=found.values["log_e"], e=found.e), ("e",))
    assert list(log) == ["l", "e", "log_e"]


def test_json_values():
    given = {"a": np.array([1.0, math.inf]), 1: (-math.inf, math.nan), "b": [True, None, sp.sqrt(2)], "c": "text"}
    expected = {"a": [1.0, "inf"], "1": ["-inf", None], "b": [True, None, "sqrt(2)"], "c": "text"}
    assert out.plain(given) == expected
    whole = json.loads(out.document("verb", {"x": 1}, given))
    about = {"schema": 1, "meanfield": mf.__version__}
    assert whole == about | {"command": "verb", "inputs": {"x": 1}, "results": expected}


def test_solutions_keep_their_status():
    """The value as text, null where it is not known; a double; the error, null where there is none; the message."""
    exact = Solution(sp.sqrt(2), Status.EXACT, None, "")
    ball = Solution(sp.Float("0.5"), Status.CERTIFIED, 1e-9, "")
    unknown = Solution(sp.nan, Status.UNKNOWN, None, "not decided")
    infinite = Solution(sp.oo, Status.EXACT, None, "")
    symbol = Solution(sp.Symbol("mu") / 2, Status.EXACT)

    def form(value, double, error, status):
        return {"value": value, "float": double, "error": error, "status": status.value}

    assert out.plain(None) is None and out.plain(exact) == form("sqrt(2)", math.sqrt(2), None, Status.EXACT)
    assert out.plain(infinite) == form("inf", None, None, Status.EXACT)
    assert out.plain(ball) == form("0.500000000000000", 0.5, 1e-9, Status.CERTIFIED)
    assert out.plain(unknown) == form(None, None, None, Status.UNKNOWN) | {"message": "not decided"}
    assert out.plain(symbol) == form("mu/2", None, None, Status.EXACT)
    digits = lambda v: str(critical._digits(Solution(v, Status.EXACT, None, "")))  # noqa: E731
    assert digits(sp.oo) == "infinite" and digits(sp.Rational(1, 3)) == "1/3" and digits(sp.nan) == "nan"
    assert digits(sp.sqrt(2)) == "1.414213562373" and digits(sp.Symbol("mu") / 2) == "mu/2"
    rows = critical._shown("x", exact, "section", "x")
    assert [(r.name, str(r.value)) for r in rows] == [("x", "sqrt(2)"), ("x, in digits", "1.414213562373")]
    (row,) = critical._shown("x", Solution(sp.Rational(1, 3), Status.EXACT, None, ""), "section", "x")
    assert row.value == sp.Rational(1, 3)
    (row,) = critical._shown("x", Solution(sp.sqrt(2), Status.UNKNOWN, None, ""), "section", "x")
    assert row.value == sp.sqrt(2)


def test_depth_scales_and_intervals():
    """Infinite, unknown, a number of layers; ends of an interval as they are while they are short."""
    assert [str(critical._layers(x)) for x in (math.inf, math.nan, 12.5)] == ["infinite", "not known", "12.5 layers"]
    assert critical._layers(math.inf).latex() == r"\infty"
    assert str(critical._interval(None)) == "no open set of K^1"
    twelve, thirteen = sp.sqrt(2) / 1000, sp.sqrt(2) / 10000  # characters
    assert str(critical._interval((sp.Integer(0), sp.oo))) == "K^1 in (0, oo)"
    assert str(critical._interval((twelve, sp.oo))) == "K^1 in (sqrt(2)/1000, oo)"
    assert str(critical._interval((thirteen, sp.oo))) == "K^1 in (0.0001414213562373, oo)"


def test_where_a_norm_stands():
    phi, dense, norm = Nonlinearity("tanh"), Dense(), LayerNorm()
    for blocks, expected in (((norm, phi, dense), "pre"), ((phi, norm, dense), "act"), ((phi, dense), "none"),
                             ((norm, dense), "none")):  # fmt: skip
        assert out._norm(Sequential(blocks)) == expected
    assert out._norm(phi) == "none"


def test_the_list_of_activations():
    """Kinks with a jump have a mark, those of higher derivatives a star; parity, degree, long numbers as decimals."""
    kink = lambda z, jump, slope: {"z": z, "jump": jump, "slope_jump": slope}  # noqa: E731
    facts = {"name": "x", "formula": "f(z)", "parameters": {"a": sp.Rational(1, 3), "b": sp.sqrt(2) / 7 + sp.pi / 9},
             "parity": "odd", "kinks": [kink(0, 1, 0), kink(2, 0, 0)], "homogeneity": None}  # fmt: skip
    head, line, more = out.registry_table([facts]).splitlines()
    assert head.split() == ["name", "parity", "breaks", "degree", "formula", "in", "z"]
    assert line.split() == ["x", "odd", "0!,", "2*", "-", "f(z)"]
    assert more.strip() == f"a = 1/3, b = {math.sqrt(2) / 7 + math.pi / 9:.6g}"
    plain = facts | {"parity": None, "kinks": [], "homogeneity": 1, "parameters": {}}
    assert out.registry_table([plain]).splitlines()[1].split() == ["x", "-", "-", "1", "f(z)"]
    relu = out._facts(activation("relu"))
    assert (relu["parity"], relu["homogeneity"], relu["continuous"]) == (None, 1, True)
    assert [(k["z"], k["jump"], k["slope_jump"]) for k in relu["kinks"]] == [(0, 0, 1)]
