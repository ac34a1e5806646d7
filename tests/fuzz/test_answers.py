"""The search for wrong answers: calls of fixed seeds agree, a planted error of one part in a million or a swapped
status is found, a call is the same whenever it is made, and what it is compared with imports nothing of meanfield."""

from __future__ import annotations

import ast
import dataclasses
import json
import random
from pathlib import Path

import flint
import numpy as np
import pytest
import sympy as sp
from mpmath import mp

import meanfield as mf
from meanfield.base.symbols import z

from .activations import FAMILIES, NAMED, activation, smooth
from .functions import Phi, Power
from .kinds import ANSWERS, kind_of, one_call
from .maps import One, Two
from .places import plain as plain_net
from .places import tangent
from .quadrature import moments, pair
from .runner import faults, hunt, plain, read
from .session import Session

HERE = Path(__file__).parent
ALONE = ("functions", "activations", "quadrature", "maps", "places")  # what answers are compared with


def spoiled(answer, by=1e-6):
    """The answer with its numbers changed by one part in a million, or another."""
    name, factor = type(answer).__name__, 1 + sp.Rational(repr(by))
    if isinstance(answer, np.ndarray):
        return answer * (1 + by)
    if isinstance(answer, float):
        return answer * (1 + by)
    if isinstance(answer, flint.arb):
        return answer * (1 + flint.arb(by))
    if name == "Solution":
        value = answer.value
        number = value is not None and value is not sp.nan and sp.sympify(value).is_number and value != sp.oo
        return dataclasses.replace(answer, value=sp.sympify(value) * factor) if number else answer
    if isinstance(answer, dict):
        return {k: spoiled(v, by) for k, v in answer.items()}
    if isinstance(answer, (list, tuple)):
        return type(answer)(spoiled(v, by) for v in answer)
    if name in ("Law", "DepthLaw"):
        return dataclasses.replace(answer, terms=spoiled(answer.terms, by))
    if name == "Term":
        return dataclasses.replace(answer, coefficient=answer.coefficient * factor, rate=answer.rate * factor)
    fields = {
        "Run": ("values",),
        "Kernels": ("values",),
        "Phase": ("fixed_point", "chi_J"),
        "FixedPoints": ("points",),
        "FixedPoint": ("K", "chi_J", "chi_K"),
        "CriticalPoints": ("points",),
        "CriticalPoint": ("K",),
        "Correlations": ("points",),
        "CorrelationPoint": ("slope", "c"),
        "PhaseDiagram": ("K", "chi_J"),
        "Bias": ("c", "chi_J"),
        "Prediction": ("mean",),
    }.get(name)
    if fields is None:
        return answer
    return dataclasses.replace(answer, **{f: spoiled(getattr(answer, f), by) for f in fields})


@pytest.mark.parametrize("name", ALONE)
def test_what_answers_are_compared_with_imports_nothing_of_meanfield(name):
    imported = []
    for node in ast.walk(ast.parse((HERE / f"{name}.py").read_text())):
        if isinstance(node, ast.Import):
            imported += [n.name for n in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 or node.module in ALONE, node.module
            imported += [node.module or ""] if node.level == 0 else []
    assert imported
    assert not [n for n in imported if n.split(".")[0] == "meanfield"]


def assert_reads_alike(phi: Phi) -> None:
    """The tree, in NumPy and in mpmath, is the function that the engine reads from the text."""
    f = mf.activation(phi.source, **dict(phi.keywords)).expression
    for x in (-2.7321, -0.8113, -0.0517, 0.3371, 1.9173):
        value = float(f.subs(z, sp.Rational(str(x))).evalf(20))
        assert abs(float(phi(x)) - value) < 1e-12 * (1 + abs(value)), (phi.source, x)
        assert abs(float(phi.digits(mp.mpf(x))[0]) - value) < 1e-12 * (1 + abs(value)), (phi.source, x)
        h = 1e-6
        slope = (float(phi(x + h)) - float(phi(x - h))) / (2 * h)
        assert abs(float(phi.jet(x)[1]) - slope) < 1e-5 * (1 + abs(slope)), (phi.source, x)


@pytest.mark.slow_with("modulus times")
@pytest.mark.parametrize("family", ["named", *FAMILIES])
def test_trees_are_what_the_engine_reads(family):
    for seed in range(4):
        assert_reads_alike(activation(random.Random(seed), (family,)))


def test_names_are_what_the_engine_reads():
    for name, tree in NAMED.items():
        assert_reads_alike(Phi(tree, name, "named"))
    with pytest.raises(AssertionError, match="tanh"):  # a tree of another function
        assert_reads_alike(Phi(NAMED["erf"], "tanh", "named"))


@pytest.mark.slow
def test_parts_are_what_the_engine_reads():
    """Every function that sums and products are made of, by its text: in some of them it is not the name's."""
    parts = {tree.text: tree for seed in range(60) for tree in (smooth(random.Random(seed)), NAMED["gelu"])}
    assert len(parts) > 30
    for text, tree in parts.items():
        assert_reads_alike(Phi(tree, text, "curved"))
    with pytest.raises(AssertionError, match=r"erf\(z\)"):
        assert_reads_alike(Phi(NAMED["gelu"], "z*(0.5+0.5*erf(z))", "curved"))


def test_unequal_norms_say_what_a_distance_loses():
    """K_ab is kept as a distance: behind a cube, at norms of ratio 1e4, the error that is stated covers the loss."""
    of = plain_net(Phi(Power(NAMED["linear"], 3), "z**3", "polynomial"))
    a, b, ab = 1.31, 13017.7, 20.03
    found = of.two(Two(a, b, a + b - 2 * ab), 1.0, 0.0)
    exact, scale = 9 * a * b * ab + 6 * ab**3, 15 * (a * b) ** 1.5
    assert found.error < 1e-8
    assert 1e-15 < abs(found.K_ab - exact) / scale < found.error


def test_averages_of_known_form():
    relu = Phi(NAMED["relu"], "relu", "named")
    found = moments(relu, 2.5)
    assert abs(found.m2 - 1.25) < 1e-14 and abs(found.rise - 0.5) < 1e-14 and abs(found.slope - 0.5) < 1e-14
    erf = Phi(NAMED["erf"], "erf", "named")
    for a, b, c in ((1.0, 1.0, 0.3), (100.0, 0.01, 0.9), (4.0, 4.0, 1 - 1e-9), (50.0, 0.5, 1.0)):
        q = c * np.sqrt(a * b)
        exact = 2 / np.pi * np.arcsin(2 * q / np.sqrt((1 + 2 * a) * (1 + 2 * b)))
        scale = np.sqrt(moments(erf, a).m2 * moments(erf, b).m2)
        assert abs(pair(erf, a, b, a + b - 2 * q).product - exact) < 1e-13 * scale
    sign = pair(Phi(NAMED["sign"], "sign", "named"), 2.0, 2.0, 4 * (1 - 0.4))
    assert abs(sign.product - 2 / np.pi * np.arcsin(0.4)) < 1e-12


@pytest.mark.slow
def test_triple_roots_are_what_they_are_called():
    phi, place, K = next(t for seed in range(20) if (t := tangent(random.Random(seed))) is not None)
    of, K = plain_net(phi), float(K)
    ends = [of.one(One(k), place.w, place.b) for k in (K * 0.999, K, K * 1.001)]
    assert abs(ends[1].K / K - 1) < 1e-12 and abs(ends[1].chi_K - 1) < 1e-12
    assert ends[0].chi_K < 1 > ends[2].chi_K


def test_a_layer_of_two_inputs_is_that_of_one_where_they_are_the_same():
    of = plain_net(activation(random.Random(5), ("curved",)))
    one, two = of.one(One(1.7, Theta=0.4), 1.2, 0.3), of.two(Two(1.7, 1.7, 0.0, 1.0, 0.4), 1.2, 0.3)
    assert abs(two.K_ab - one.K) < 1e-12 and two.distance == 0
    assert abs(two.J_ab - one.chi_J) < 1e-12 and abs(two.Theta_ab - one.Theta) < 1e-12


#: kind → (seed, number) of calls that agree and are cheap
CHEAP: dict[str, tuple[tuple[int, int], ...]] = {
    "average": ((1, 5), (1, 2), (1, 10), (1, 24)),
    "expansion": ((101, 142), (102, 24)),
    "phase": ((1, 1), (1, 7), (1, 16), (1, 19), (1, 26)),
    "fixed_points": ((1, 11), (1, 9), (1, 17), (1, 18), (1, 20)),
    "critical_points": ((1, 18), (1, 37), (1, 52)),
    "critical_line": ((101, 100),),
    "run": ((102, 42), (101, 53)),
    "law": ((102, 72),),
    "diagram": ((102, 34),),
    "correlations": ((102, 11),),
    "bias": ((101, 15),),
    "pair_run": ((102, 84),),
    "decay": ((101, 105),),
    "kernel": ((101, 127),),
    "closing": ((101, 42),),
    "neutrality": ((101, 126),),
    "tokens": ((7700, 3), (7700, 0)),
    "prediction": ((7800, 4), (7800, 3)),
}


SLOW = ("neutrality",)  # twelve seconds each


def marked(kind, *more):
    return pytest.param(kind, *more, marks=[pytest.mark.slow] * (kind in SLOW))


def made(kind, which, plant=None):
    seed, number = CHEAP[kind][which]
    return one_call(seed, number, kind, plant=plant)


@pytest.mark.fast_with(
    "expansion-0", "expansion-1", "phase-0", "phase-3", "fixed_points-2", "fixed_points-4",
    "critical_points-1", "run-0", "run-1", "diagram-0", "bias-0", "decay-0", "kernel-0", "closing-0",
)  # fmt: skip
@pytest.mark.parametrize(("kind", "which"), [marked(k, n) for k, those in CHEAP.items() for n in range(len(those))])
def test_calls_agree(kind, which):
    record = made(kind, which)
    assert record.status == "agrees" and record.compared, record


def test_every_kind_of_answer_is_tried():
    assert set(CHEAP) == set(ANSWERS)


#: by how much answers are off that are compared at places which they say, or by rates
COARSE = {"critical_line": 1e-3, "neutrality": 1e-4, "closing": 1e-3, "law": 1e-3}


@pytest.mark.parametrize("kind", [marked(k) for k in CHEAP])
def test_one_part_in_a_million_is_found(kind):
    record = made(kind, 0, plant=lambda _, answer: spoiled(answer, COARSE.get(kind, 1e-6)))
    assert record.status == "found", record
    assert "import meanfield as mf" in record.findings[0]["snippet"]


def swapped(answer, names):
    """The answer with the words of a status turned into one another."""
    other = names | {v: k for k, v in names.items()}
    if hasattr(answer, "points"):
        points = tuple(dataclasses.replace(p, stability=other.get(p.stability, p.stability)) for p in answer.points)
        return dataclasses.replace(answer, points=points)
    return dataclasses.replace(answer, name=other[answer.name])


@pytest.mark.slow_with("phase-names2")
@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("fixed_points", {"stable": "unstable"}),
        ("correlations", {"stable": "unstable"}),
        ("phase", {"ordered": "chaotic"}),
    ],
)
def test_a_swapped_status_is_found(kind, names):
    def plant(call, answer):
        return swapped(answer, names) if call.startswith(kind) else answer

    records = [made(kind, n, plant) for n in range(len(CHEAP[kind]))]
    assert "found" in {r.status for r in records}


@pytest.mark.parametrize("kind", ["fixed_points", "critical_points", "correlations"])
def test_a_point_left_out_is_found(kind):
    def plant(call, answer):
        return dataclasses.replace(answer, points=answer.points[1:]) if call.startswith(kind) else answer

    records = [made(kind, n, plant) for n in range(len(CHEAP[kind]))]
    assert any("missing" in f["what"] or "kept" in f["what"] for r in records for f in r.findings)


@pytest.mark.slow
def test_a_call_is_the_same_whenever_it_is_made():
    first = one_call(3, 7, "average")
    one_call(3, 8, "average")
    again = one_call(3, 7, "average")
    assert first.asked == again.asked and first.asked
    assert kind_of(3, 7, ANSWERS) == kind_of(3, 7, ANSWERS)
    assert one_call(3, 8, "average").asked != first.asked


def test_what_raises_is_found_and_what_refuses_is_counted():
    def crash(*_):
        raise TypeError("planted")

    session = Session("phase", random.Random(0))
    session.derive("mf.derive('tanh')", "named")
    session.theory = type("T", (), {"phase": crash})()
    with pytest.raises(Exception, match="TypeError: planted"):
        session.ask("phase()")
    assert "no MeanFieldError" in session.findings[0]["what"]

    def refuse(*_):
        raise mf.MeanFieldError("No. " * 200)

    session.theory = type("T", (), {"phase": refuse})()
    assert session.ask("phase()", needed=False) is None
    assert "no plain sentence" in session.findings[1]["what"] and len(session.refusals) == 1


@pytest.mark.slow
def test_a_hunt_that_was_stopped_goes_on(tmp_path, capsys):
    out = tmp_path / "calls.jsonl"
    assert hunt(0, range(3), ("average",), 1, str(out), 60.0) in (0, 1)
    lines = out.read_text().splitlines()
    out.write_text("\n".join(lines[:1]) + "\n" + lines[1][:20])  # cut off while it was written
    assert len(read(out)) == 1
    out.write_text(lines[0] + "\n")
    hunt(0, range(3), ("average",), 1, str(out), 60.0)
    again = [json.loads(t) for t in out.read_text().splitlines()]
    assert [r["asked"] for r in again] == [json.loads(t)["asked"] for t in lines]
    assert "3 calls" in capsys.readouterr().out


@pytest.mark.slow
def test_what_is_always_refused_is_a_fault():
    refused = [dataclasses.replace(one_call(0, 0, "average"), status="refused", findings=[]) for _ in range(1)] * 12
    assert any("was refused in all of 12" in f for f in faults(refused))
    answered = [*refused[1:], dataclasses.replace(refused[0], status="agrees")]
    assert not [f for f in faults(answered) if "refused in all of" in f and "any" in f]
    assert plain("K* = 1.25 of 'tanh' at l = 3") == plain("K* = 7e-3 of 'erf(z)' at l = 12")
