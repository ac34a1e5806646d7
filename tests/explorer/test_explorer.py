"""The explorer: generated JavaScript under node beside `propagate`, the table of distances, refusals."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import sympy as sp

from meanfield import BatchNorm, Dense, Network, Nonlinearity, Residual, Schedule, Sequential, derive
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.explorer import javascript
from meanfield.explorer.model import model, ratio_tables, runtime
from meanfield.explorer.page import explore
from meanfield.explorer.page_content import followed, marks
from meanfield.explorer.ratios import tabulated
from meanfield.explorer.smoothing import distances
from tests.explorer.explorer_pages import (
    assert_follows,
    assert_ratios,
    by_lattice,
    followed_by_script,
    needs_node,
    points_of,
    run_script,
)  # fmt: skip

PAIR = ("K", "J", "distance")


def script_of(theory, *names, **values):
    recursion = theory.recursion(*(names or PAIR))
    return model(recursion.subs(values) if values else recursion).script


# ------------------------------------------------------------------------------------------------ layers


@needs_node
@pytest.mark.parametrize("name", ["relu", "erf", "gelu"])
def test_closed_forms_are_those_of_propagate(name):
    theory = derive(name)
    assert_follows(theory, script_of(theory), points_of(1, 16), 40)


@needs_node
def test_a_table_in_K_is_that_of_propagate():
    theory = derive("tanh")
    assert_follows(theory, script_of(theory, "K", "J"), points_of(2, 24), 60, ("K", "J"))


@pytest.mark.slow
@needs_node
def test_parameters_stay_what_a_reader_moves():
    theory = derive("relu", residual=True, mu="mu")
    assert_follows(theory, script_of(theory), points_of(3, 12, mu=(0.0, 1.0)), 30)
    full = derive("relu", architecture="full_residual")
    assert_follows(full, script_of(full), points_of(4, 12, sigma_v=(0.1, 1), sigma_a=(0, 0.5)), 30)


@needs_node
@pytest.mark.parametrize("settings", [{"norm": "act"}, {"architecture": "preln"}, {"architecture": "resnet"}])
def test_architectures_are_followed(settings):
    theory = derive("relu", **settings)
    assert_follows(theory, script_of(theory), points_of(5, 12), 30)


@pytest.mark.slow
@needs_node
def test_jumps_leave_J_out():
    theory = derive("step")
    assert_follows(theory, script_of(theory, "K", "distance"), points_of(6, 12), 30, ("K", "distance"))
    known = followed(theory, {})
    assert known.model.names == ("K", "distance") and "J is left out" in known.notes[0]


@needs_node
def test_layers_may_differ():
    falling = Dense(sigma_w=Schedule(1, "1/2"), sigma_b=0)
    theory = derive(architecture=Residual(Sequential((Dense(), Nonlinearity("relu"), falling))))
    assert_follows(theory, script_of(theory), points_of(7, 8), 30)


@needs_node
def test_where_K_leaves_the_doubles_the_curve_stops_and_says_so():
    theory = derive("relu")
    (found,) = followed_by_script(script_of(theory), [{"sigma_w": 1e3, "sigma_b": 0, "Q0": 1, "c0": 0}], 100)
    assert found["stop"]["why"] == "K grows beyond every number"
    assert found["stop"]["layer"] == len(found["columns"]["K"]) + 1 < 100


# ------------------------------------------------------------------------------------------------ planted errors


@needs_node
def test_a_changed_table_value_is_noticed():
    theory = derive("tanh")
    script = script_of(theory, "K", "J")
    assert "const HELD = [" in script
    wrong = script.replace("function avg_", "for (const t of HELD) for (let i = 0; i < t.length; i += 10) "
                           "t[i] *= 1.00001;\nfunction avg_", 1)  # fmt: skip
    assert_follows(theory, script, points_of(8, 4), 20, ("K", "J"))
    with pytest.raises(AssertionError, match="'K': "):
        assert_follows(theory, wrong, points_of(8, 4), 20, ("K", "J"))


@needs_node
def test_a_dropped_skip_is_noticed():
    theory = derive("relu", residual=True, mu="mu")
    points = points_of(9, 4, mu=(0.4, 0.9))
    with pytest.raises(AssertionError, match="'K': "):
        assert_follows(theory, script_of(theory, mu=0), points, 20)


@needs_node
def test_a_shifted_layer_is_noticed():
    theory = derive("erf")
    script = script_of(theory)
    late = script.replace("step: (s, p, layer) =>", "step: (s, p, layer) => layer === 2 ? s :")
    assert late != script
    with pytest.raises(AssertionError, match="'K': "):
        assert_follows(theory, late, points_of(10, 4), 20)


# ------------------------------------------------------------------------------------------------ distances


@pytest.mark.parametrize(("f", "own"), [(sp.tanh(Z[0]), np.tanh), (Z[0] * sp.sech(Z[0]), lambda z: z / np.cosh(z))])
def test_distances_are_those_of_a_lattice(f, own):
    for s, v in ((0.5, 1.0), (0.0625, 0.25), (1.5, 1.0)):
        found = distances(f, s, np.array([v]))
        for one, sign in zip(found, (1, -1)):
            assert one[0] == pytest.approx(by_lattice(own, s, v, sign), rel=2e-9)
        with pytest.raises(AssertionError, match="comparison failed"):
            assert found[0][0] == pytest.approx(by_lattice(own, s * 1.00001, v, 1), rel=2e-9)


def test_distances_keep_their_digits_where_inputs_are_close_or_far():
    relu = sp.Max(Z[0], 0)
    for s in (1e-7, 1e-3, 1.0, 1e5):  # closed: V (1 - c - (sin θ - θ cos θ)/π) of c = cos θ
        v = np.array([1e-6, 1.0, 1e6])
        found, _ = distances(relu, s, v)
        for one, there in zip(found, v):
            V = s * s + there
            half = math.asin(math.sqrt(min(s * s / V / 2, 1.0)))
            t = 2 * half
            rest = math.sin(t) - t * math.cos(t) if t > 1e-2 else t**3 / 3 - t**5 / 30 + t**7 / 840
            assert one == pytest.approx(V * (2 * math.sin(half) ** 2 - rest / math.pi), rel=3e-9)


@needs_node
def test_the_table_of_distances_holds_between_its_nodes_and_says_where_it_ends():
    f = sp.tanh(Z[0])
    table = tabulated(f, np.array([-4.0, -2.0, 0.0, 2.0]))
    assert table.share == 1 and table.error < 1e-7
    values = []
    for s2, v, sign in ((0.11, 0.7, 1), (1.3, 2.9, 1), (0.3, 0.21, -1), (3.1, 0.4, -1)):
        V, apart = s2 + v, 2 * (s2 + v - sign * v)
        values.append((V, apart, by_lattice(np.tanh, math.sqrt(s2), v, sign) / apart))
    assert_ratios(table, values)
    wrong = table.__class__(table.edges, table.coefficients + 1e-5, table.error, table.jumps)
    with pytest.raises(AssertionError, match="at V"):
        assert_ratios(wrong, values)
    far = run_script(f"{runtime()}\n{ratio_tables({'0': table})}\nreturn [_ratio(0, 100, 1), _ratio(0, 2, 1)];")
    assert far[0] == "NaN" and isinstance(far[1], float)


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), [
    ("tanh", {}), ("silu", {"residual": True}), ("selu", {}), ("tanh", {"architecture": "preln"}),
    ("silu", {"architecture": "swiglu"}),
])  # fmt: skip
def test_tables_of_distances_follow_propagate(name, settings):
    theory = derive(name, **settings)
    assert_follows(theory, script_of(theory), points_of(11, 8), 15)


# ------------------------------------------------------------------------------------------------ JavaScript


@needs_node
def test_error_functions_of_pages():
    x = [*np.linspace(-7, 7, 57), 1e-12, 26.0, 0.5, 0.49999]
    script = script_of(derive("relu"), "K")
    inside = script.replace("return {names", f"return {{erfs: {json.dumps(list(map(float, x)))}.map((x) => [erf(x), "
                            "erfc(x)]), names", 1)  # fmt: skip
    for u, (one, rest) in zip(x, run_script(f"return ({inside}).erfs;")):
        assert one == pytest.approx(math.erf(u), rel=1e-14)
        assert rest == pytest.approx(math.erfc(u), rel=3e-14, abs=1e-300)


@needs_node
def test_python_of_loops_means_the_same_in_javascript():
    source = """
def f(x, n):
    total, k = 0.0, 0
    for u, w in zip((0.5, 2.0), (1.0, 3.0)):
        total += w * u ** 2
    for i in range(1, n):
        if i == 3 or not x > 0.0:
            continue
        total = total + x * i if 0.0 < x <= 4.0 else -total
    while k < n and total > 10.0:
        total /= 2.0
        k += 1
    a, b = total, math.copysign(k, -1.0)
    return min(a, 5.0) + b
"""
    scope = {"math": math}
    exec(source, scope)
    for x, n in ((1.5, 6), (4.0, 3), (-1.0, 4), (9.0, 5)):
        assert run_script(f"{runtime()}\n{javascript.script(source)}\nreturn f({x}, {n});") == scope["f"](x, n)


def test_python_beyond_the_subset_is_refused_by_name():
    with pytest.raises(MeanFieldError, match="compiled as 'sorted"):
        javascript.script("def f(x):\n    return sorted(x)[::2]")


# ------------------------------------------------------------------------------------------------ refusals


def test_what_a_page_cannot_follow_is_refused_by_name(tmp_path):
    theory = derive("relu")
    batch = derive(architecture=Sequential((BatchNorm(), Nonlinearity("relu"), Dense())))
    with pytest.raises(MeanFieldError, match="inputs of a batch act on each other"):
        batch.explore(tmp_path / "page.html")
    with pytest.raises(MeanFieldError, match=r"ends in \.html, but"):
        theory.explore(tmp_path / "page.txt")
    with pytest.raises(MeanFieldError, match="does not exist"):
        theory.explore(tmp_path / "none" / "page.html")
    own = Dense(sigma_w=1, sigma_b=0)
    fixed = derive(architecture=Network(Sequential((Nonlinearity("relu"), own)), own))
    with pytest.raises(MeanFieldError, match="a sigma_w of its own"):
        followed(fixed, {})
    with pytest.raises(MeanFieldError, match="nu"):
        followed(theory, {"nu": 1})


def test_a_folder_is_no_page(tmp_path):
    pytest.importorskip("bokeh", reason="Bokeh is not installed, which writes pages")
    (tmp_path / "page.html").mkdir()
    with pytest.raises(MeanFieldError, match="it is not a file"):
        explore(derive("relu"), tmp_path / "page.html")


def test_critical_points_are_recommended():
    points, said = marks(derive("relu"))
    assert points[0][:2] == pytest.approx((math.sqrt(2), 0.0)) and "1.414214" in said
