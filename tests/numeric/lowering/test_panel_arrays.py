"""Panel quadratures whose lines NumPy sums, beside the interpreter that runs the same text line by line."""

import math

import numpy as np
import pytest
import sympy as sp

from meanfield.base.symbols import Z
from meanfield.functions.activations import activation
from meanfield.numeric.lowering.averages import panel_arrays, planes, two_gaussians
from meanfield.numeric.lowering.text import interpreting, printing
from meanfield.numeric.lowering.text.helpers import helpers_for

z = Z[0]
KINKED = sp.Piecewise((0, z < -3), (z * (z + 3) / 6, z < 3), (z, True))
PAIRS = {
    "one smooth function": (sp.tanh(z), sp.tanh(z)),
    "kinks": (KINKED, KINKED),
    "a kink beside a wave": (sp.Max(0, z), sp.sin(2 * z)),
    "a bump beside a line": (sp.exp(-(z**2)), z + 1),
}


def both(name):
    f, g = PAIRS[name]
    plan = planes.plan_of(f, g)
    text = planes.text(plan, "p")
    return plan, printing.interpret(text, "p_quadrature"), panel_arrays.function(text, "p_quadrature", {"p": plan})


def assert_same(plan, one, other):
    for a, b, c in two_gaussians.MEASURED:
        a, b = min(a, plan.limit), min(b, plan.limit)
        size = max(math.sqrt(planes_scale(plan, a, b)), 1e-300)
        given = a, c * math.sqrt(a * b), b, (1 - c) * (1 + c)
        assert abs(one(*given) - other(*given)) <= 2e-14 * size, f"lines differ at {a}, {b}, {c}"


def planes_scale(plan, a, b):
    """⟨f²⟩⟨g²⟩ by a plain sum."""
    x = np.linspace(-9, 9, 20001)
    weight = np.exp(-x * x / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
    f, g = (sp.lambdify(z, h, "numpy") for h in (plan.f, plan.g))
    return float((weight * f(math.sqrt(a) * x) ** 2).sum() * (weight * g(math.sqrt(b) * x) ** 2).sum())


@pytest.mark.slow_with("a kink beside a wave")
@pytest.mark.parametrize("name", PAIRS)
def test_lines_as_arrays_are_the_lines_of_the_text(name):
    assert_same(*both(name))


@pytest.mark.parametrize("name", ["kinks"])
def test_a_line_without_its_kinks_is_seen(name, monkeypatch):
    """Panels that do not end at the kinks give other values: the comparison would see it."""
    plan, one, other = both(name)
    whole = panel_arrays.panels
    monkeypatch.setattr(
        panel_arrays, "panels", lambda lo, hi, points, scales, widest: whole(lo, hi, points[:, :1], scales[:1], widest)
    )
    with pytest.raises(AssertionError, match="lines differ at"):
        assert_same(plan, one, other)


def test_edges_are_those_of_the_text():
    scope = interpreting.scope_of(helpers_for("_panels(") , "edges")
    points, scales = np.array([[-1.0, 0.3], [0.5, 8.0], [2.0, 2.0]]), np.array([0.7, 0.01])
    found = panel_arrays.panels(-9.0, 9.0, points, scales, 2.0)
    for row, edges in zip(points, found):
        expected = np.empty(1000)
        n = scope["_panels"](-9.0, 9.0, row, scales, 2.0, expected)
        assert edges[:n].tolist() == expected[:n].tolist() and (edges[n:] == 9.0).all()


def lines_are_left(twice) -> bool:
    """Whether a quadrature that has been called took fewer lines when it added them up than when they were noted."""
    try:
        twice.scope[twice.line]()
    except StopIteration:
        return False
    return True


@pytest.mark.parametrize("name", PAIRS)
def test_which_lines_there_are_does_not_depend_on_their_values(name):
    """Every noted line is taken, and no other; one that asks again where it found 0 would be followed wrongly."""
    plan, _, other = both(name)
    for a, b, c in two_gaussians.MEASURED:
        a, b = min(a, plan.limit), min(b, plan.limit)
        other(a, c * math.sqrt(a * b), b, (1 - c) * (1 + c))
        assert not lines_are_left(other)
    own = other.text
    other.text = lambda *given: own(*given) or own(*given)
    other(1.0, 0.5, 2.0, 0.875)
    assert lines_are_left(other)


def assert_far(f, K: float, c: float, exact: float) -> None:
    """⟨f f⟩ at a variance so large that f is a step, or a ramp."""
    plan = planes.plan_of(f, f)
    found = panel_arrays.function(planes.text(plan, "p"), "p_quadrature", {"p": plan})(K, c * K, K, 1 - c * c)
    assert abs(found / exact - 1) < 3e-15, f"{f}: {found} for {exact}"


@pytest.mark.parametrize("K", [1e3, 1e10, 1e20, 1e34, 1e80])
def test_variances_at_which_no_scale_is_left(K, monkeypatch):
    """Panels narrower than a rounding add nothing, and are not made: a line over 1e154 once had a thousand."""
    c = 0.6
    ramp = K / (2 * math.pi) * (math.sqrt(1 - c * c) + (math.pi - math.acos(c)) * c)
    assert_far(sp.erf(z), K, c, 2 / math.pi * math.asin(2 * c * K / (1 + 2 * K)))
    if K > 1e16:
        assert_far(activation("softplus").pieces.expr, K, c, ramp)
    monkeypatch.setattr(planes, "FINEST", 0.3)
    if K == 1e3:
        with pytest.raises(AssertionError, match="erf"):
            assert_far(sp.erf(z), K, c, 2 / math.pi * math.asin(2 * c * K / (1 + 2 * K)))


def test_a_line_without_room_is_no_average(monkeypatch):
    """At K = 1e34 panels as narrow as tanh's own scale do not move on, and the sum up to there was 21 % off."""
    monkeypatch.setattr(planes, "FINEST", 0.0)
    plan = planes.plan_of(sp.tanh(z), sp.tanh(z))
    text = planes.text(plan, "p")
    for found in (panel_arrays.function(text, "p_quadrature", {"p": plan}), printing.interpret(text, "p_quadrature")):
        assert math.isnan(found(1e34, 0.6e34, 1e34, 0.64))
        assert not math.isnan(found(1e4, 0.6e4, 1e4, 0.64))
