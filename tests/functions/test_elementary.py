"""One record per function: every record holds, no other module has tables of functions, and one entry adds one."""

from __future__ import annotations

import ast
import dataclasses
import math
import re
from pathlib import Path
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base import scalars
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.scalars import Scalar
from meanfield.base.symbols import HeadFunction, K, Z, z
from meanfield.empirical.functions.user_formulas import from_formula
from meanfield.functions import balls, consistency, elementary
from meanfield.functions.consistency import assert_consistent, findings
from meanfield.functions.elementary import certified_values
from meanfield.functions.elementary.record import LARGE_SHARE, ElementaryFunction, EndBehavior, PowerEnd
from meanfield.functions.growth import decay
from meanfield.networks.records import exact
from meanfield.numeric.lowering.modules import cache
from meanfield.numeric.quadrature.gaussian_averages import gaussian_average, rule_for
from meanfield.symbolic.averages.expansions.expansion import at_infinity, at_zero
from meanfield.symbolic.averages.node import average

PACKAGE = Path(mf.__file__).parent

# --------------------------------------------------------------------------------- what a table had forgotten


@pytest.mark.slow
def test_expansions_with_erfc():
    """⟨tanh² erfc²⟩ at large K, where an expansion had one term: three, against mpmath."""
    law = at_infinity(average((sp.tanh(z) * sp.erfc(z)) ** 2, K), 2)
    assert len(law.terms) == 3
    with mp.workdps(30):
        errors = []
        for at in (400, 40_000):
            truth = _mean(lambda x: (mp.tanh(x) * mp.erfc(x)) ** 2, mp.mpf(at))
            errors.append(abs(mp.mpf(sp.N(law.expr.subs(K, at), 25)) - truth))
        assert 0 < errors[1] < errors[0] * mp.mpf(100) ** -2.4  # O(K^{-5/2})


def test_panels_see_a_steep_arsinh():
    """asinh(20(z - 3)) bends at 3, over 1/20: without panels there float64 quadrature is off by 1e-4."""
    square = sp.asinh(20 * (Z[0] - 3)) ** 2
    rule = rule_for(square)
    blind = dataclasses.replace(rule, kinks=(), steep=())
    found, missed = (gaussian_average(square, np.array([0.5]), r)[0] for r in (rule, blind))
    with mp.workdps(20):
        truth = _mean(lambda x: mp.asinh(20 * (x - 3)) ** 2, mp.mpf(0.5))
    assert abs(found - truth) < 1e-12 * truth and abs(missed - truth) > 1e-10 * truth


def test_numbers_of_records_call_what_formulas_call():
    value = exact("asinh(1)/2", "mu")
    assert float(value) == math.asinh(1) / 2


# ------------------------------------------------------------------------------------------------- one entry: gd


class gd(HeadFunction):
    """The Gudermannian function ∫_0^u sech = 2 atan(tanh(u/2))."""

    parity = -1
    at_zero = sp.S.Zero

    @classmethod
    def written(cls, u):
        return 2 * sp.atan(sp.tanh(u / 2))

    @classmethod
    def slope(cls, u):
        return sp.sech(u)


def _rest(u, n, theta):
    """gd(u) - π/2 = -2 atan(e^{-u}), whose series alternates."""
    terms = [2 * (-1) ** (k + 1) * sp.exp(-(2 * k + 1) * u) / (2 * k + 1) for k in range(n + 1)]
    return sp.Add(*terms[:-1]) + terms[-1] * theta


RIGHT = EndBehavior(
    lambda u: sp.pi / 2,
    size=sp.Integer(2),
    enclosed=lambda u: sp.pi / 2 - 2 * sp.exp(-u) + LARGE_SHARE * 2 * sp.exp(-3 * u) / 3,
    series=_rest,
    small=lambda u: 2 * sp.atan(sp.exp(-u)),
)
GD = ElementaryFunction(
    gd,
    mpmath=lambda x: 2 * mp.atan(mp.tanh(x / 2)),
    ball=lambda u, analytic: 2 * certified_values.atan((u / 2).tanh(), analytic),
    slope=sp.sech,
    names=("gd",),
    values=(-sp.pi / 2, sp.pi / 2),
    shape="rising",
    number=lambda u: 2 * math.atan(math.tanh(u / 2)),
    parity=-1,
    steepest=1.0,
    right=RIGHT,
    exponential=lambda y: 2 * sp.atan(y) - sp.pi / 2,
    numpy="2 * np.arctan(np.tanh(x / 2))",
    code="return 2.0 * math.atan(math.tanh(0.5 * x))",
)
GD_SCALAR = Scalar(
    (
        "2.0 * math.atan(math.tanh(0.5 * {u}))",
        "1.0 / math.cosh({u})",
        "-math.tanh({u}) * {v1}",
        "{v1} * (1.0 - 2.0 * {v1} * {v1})",
    )
)


@pytest.fixture(scope="module")
def added():
    """gd, added by its one entry and taken back."""
    elementary.add(GD, GD_SCALAR)
    yield GD
    elementary.remove(GD)


def _mean(f, variance) -> mp.mpf:
    """⟨f⟩ by mpmath alone."""
    s = mp.sqrt(variance)
    edges = sorted({mp.mpf(k) * s for k in (-17, -9, -5, -3, -1.5, 0, 1.5, 3, 5, 9, 17)} | {mp.mpf(k) for k in (-3, 3)})
    return mp.quad(lambda x: f(x) * mp.exp(-(x**2) / (2 * variance)), edges) / mp.sqrt(2 * mp.pi * variance)


def test_an_added_function_is_parsed(added):
    phi = mf.activation("z*gd(2*z) + 1")
    assert phi.expression == z * gd(2 * z) + 1
    assert "gd" in str(phi) and r"\operatorname{gd}" in sp.latex(phi.expression)
    assert mf.activation("gd(z)").parity == -1 and gd(-z) == -gd(z)
    assert exact("gd(1)", "mu")  # a number of a record, too
    assert mf.Pool(2, kind="gd(z1) + z2")
    with pytest.raises(MeanFieldError, match="known already"):
        elementary.add(dataclasses.replace(GD, function=type("other", (HeadFunction,), {})), GD_SCALAR)


def test_an_added_function_is_bounded(added):
    phi = mf.activation("gd(z)")
    assert phi.bound.p == phi.bound.c == 0 and abs(phi.bound.A - math.pi / 2) < 1e-10
    assert [t.power for t in phi.tails] == [-sp.pi / 2, sp.pi / 2]
    t = sp.Symbol("t", positive=True)
    found = decay(t * gd(t), t)
    for at in (1.0, 4.0, 12.0):
        left = at * float(2 * mp.atan(mp.exp(-at)))
        assert left <= found.A * (1 + at) ** found.p * math.exp(-found.c * at) <= 100 * left
    (switch,) = mf.activation("Max(gd(z), 1/2)").kinks
    with mp.workdps(30):
        assert abs(mp.mpf(str(sp.N(switch.location, 25))) - mp.asinh(mp.tan(0.5))) < 1e-22
    assert switch.jump == 0


@pytest.mark.slow
def test_an_added_function_is_integrated_in_balls(added):
    """30 digits, against mpmath; and a ball that has moved does not hold them."""
    with mp.workdps(45):
        truth = _mean(lambda x: GD.mpmath(x) ** 2, 2)
        ball = balls.certified(average(gd(z) ** 2, 2), 30)
        assert abs(mp.mpf(ball.mid().str(40, radius=False)) - truth) < mp.mpf(10) ** -30
        assert float(ball.rad()) < 1e-29


@pytest.mark.slow
def test_an_added_function_is_expanded_at_both_ends(added):
    """⟨gd²⟩ and ⟨z gd⟩ at K = 1/100 and 10⁴, against mpmath: the error is that of the first term left out."""
    with mp.workdps(45):
        for f, h in ((gd(z) ** 2, lambda x: GD.mpmath(x) ** 2), (z * gd(z), lambda x: x * GD.mpmath(x))):
            small, large = at_zero(average(f, K), 5), at_infinity(average(f, K), 3)
            for law, at in ((small, sp.Rational(1, 100)), (large, sp.Integer(10**4))):
                truth = _mean(h, mp.mpf(at.p) / at.q)
                error = abs(mp.mpf(sp.N(law.expr.subs(K, at), 40)) - truth)
                left_out = mp.mpf(sp.N(sp.Abs(at) ** law.remainder, 20))
                assert mp.mpf(10) ** -14 * left_out < error < 3000 * left_out


@pytest.mark.slow
def test_an_added_function_has_fixed_points_and_critical_lines(added):
    theory = mf.derive("gd(z)")
    (point,) = theory.fixed_points(sigma_w=1.5, sigma_b=0.2)
    with mp.workdps(25):
        k = mp.mpf(str(point.K.value))
        assert 1 < k < 3
        assert abs(mp.mpf("0.04") + mp.mpf("2.25") * _mean(lambda x: GD.mpmath(x) ** 2, k) - k) < 1e-20
        assert abs(mp.mpf("2.25") * _mean(lambda x: mp.sech(x) ** 2, k) - mp.mpf(str(point.chi_J.value))) < 1e-20
    (origin,) = theory.critical_points()
    assert (origin.sigma_w.value, origin.sigma_b.value) == (1, 0)


def test_an_added_function_runs_in_networks(added):
    pair = from_formula("gd(z)")
    for x in (-2.5, -0.3, 0.7, 6.0):
        orders = [f(x) for f in (pair.phi, pair.dphi, *pair.higher)]
        with mp.workdps(30):
            truths = [mp.diff(GD.mpmath, mp.mpf(x), k) for k in range(4)]
        assert np.allclose(orders, [float(t) for t in truths], rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_networks_of_an_added_function_agree_with_its_theory(added):
    theory = mf.derive("gd(z)")
    assert mf.check(theory, sigma_w=1.5, sigma_b=0.2, depth=6, width=400, networks=60, seed=3).passed
    tanh = mf.check(mf.derive("tanh(z)"), sigma_w=1.5, sigma_b=0.2, depth=6, width=400, networks=60, seed=3)
    gd_run, tanh_run = (t.propagate(sigma_w=1.5, sigma_b=0.2, depth=6) for t in (theory, mf.derive("tanh")))
    assert tanh.passed and abs(gd_run.K[-1] / tanh_run.K[-1] - 1) > 0.2  # another function would not have passed


# ------------------------------------------------------------------------------------------- every record holds

FAST = ("tanh", "softplus", "log")


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(h, marks=() if h.name in FAST else pytest.mark.slow, id=h.name)
        for h in elementary.ELEMENTARY_FUNCTIONS.values()
    ],
)
def test_records_hold(head):
    assert_consistent(head, scalars.SCALARS.get(head.names[0]) if head.names else None)


def test_networks_and_theory_know_the_same_functions():
    smooth = {name for name, s in scalars.SCALARS.items() if not s.switches} - {"sqrt", "tan"}
    assert smooth == set(elementary.NAMES)
    assert all(len(elementary.ELEMENTARY_FUNCTIONS[f].names) for f in elementary.where("names"))


def _planted(**changes) -> ElementaryFunction:
    """A record of a class of its own with something wrong in it."""
    own = type("gd_planted", (gd,), {})
    head = dataclasses.replace(GD, function=own, **changes)
    return head


PLANTED = {
    "slope": dict(slope=lambda u: sp.sech(u) ** 2),
    "ball at u": dict(ball=lambda u, analytic: 2 * certified_values.atan((u / 2).tanh(), analytic) + 1e-9),
    "analytic continuation": dict(
        ball=lambda u, analytic: 2 * certified_values.atan((u / 2).tanh(), analytic).conjugate()
    ),
    "series at u": dict(series=lambda u, _: u.tanh() if hasattr(u, "tanh") else u.atan()),
    "values are": dict(values=(sp.Integer(-1), sp.Integer(1))),
    "number": dict(number=math.tanh),
    "shape is": dict(shape="falling"),
    "parity is": dict(parity=1, right=dataclasses.replace(RIGHT), left=RIGHT),
    "inverse of h": dict(inverse=lambda w: sp.asinh(w)),
    "is not proved": dict(inverse=lambda w: sp.asinh(sp.sin(w) / sp.cos(w))),
    "growth is missing": dict(values=(-sp.oo, sp.oo)),
    "steepest is": dict(steepest=0.9),
    "right end: |h - limit|": dict(right=dataclasses.replace(RIGHT, size=sp.S.One)),
    "right end: enclosed": dict(right=dataclasses.replace(RIGHT, enclosed=lambda u: sp.pi / 2 - sp.exp(-u))),
    "right end: 2 terms of series": dict(
        right=dataclasses.replace(RIGHT, series=lambda u, n, theta: _rest(u, n, theta) + sp.exp(-5 * u) / 2)
    ),
    "right end: small": dict(right=dataclasses.replace(RIGHT, small=lambda u: 2 * sp.exp(-u))),
    "exponential": dict(exponential=lambda y: 2 * sp.atan(y) - sp.pi / 3),
    "numpy": dict(numpy="np.tanh(x)"),
    "code": dict(code="return 2.0 * math.atan(math.tanh(0.5 * x)) * (1 + 1e-12)"),
}


@pytest.mark.parametrize(
    "what", [pytest.param(w, marks=() if w == "numpy" else pytest.mark.slow) for w in PLANTED]
)
def test_a_planted_error_is_found(what):
    found = findings(_planted(**PLANTED[what]), GD_SCALAR)
    assert any(what in line for line in found), found


def test_a_wrong_tail_coefficient_and_a_wrong_derivative_of_networks_are_found():
    record = elementary.ELEMENTARY_FUNCTIONS[sp.atan]
    tail = PowerEnd(((sp.S.Zero, 0, lambda w: sp.pi / 2 - sp.atan(w) + w**5 / 10**6),))
    assert any("right end" in line for line in findings(dataclasses.replace(record, right=tail)))
    assert not findings(record, scalars.SCALARS["atan"])
    wrong = dataclasses.replace(GD_SCALAR, texts=(*GD_SCALAR.texts[:3], "{v1} * (1.0 - 2.0 * {v1})"))
    assert [line for line in findings(_planted(), wrong) if "order 3" in line]


# ------------------------------------------------------------------------------------------- no tables elsewhere

#: what averages over Gaussians and their expansions are written in: not looked up, but computed with
LANGUAGE = {"exp", "log", "sin", "cos", "erf", "erfc", "asin", "gamma", "zeta"}
NAMES = {h.name for h in elementary.ELEMENTARY_FUNCTIONS.values()}


_MENTION = re.compile(rf"\b(sp\.({'|'.join(sorted(NAMES - LANGUAGE))})|sigmoid|softplus)\b|\{{.*sp\.\w+:")


def tables(text: str) -> list[str]:
    """Heads that a module treats by name: keys of dictionaries, and classes that are not called, outside `LANGUAGE`."""

    def head(node) -> str | None:
        attribute = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sp"
        found = node.attr if attribute else node.id if isinstance(node, ast.Name) else None
        return found if found in NAMES and (attribute or found in ("sigmoid", "softplus")) else None

    if not _MENTION.search(text):
        return []
    tree = ast.parse(text)
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    nodes = [n for n in ast.walk(tree) if id(n) not in called]
    found = [f"line {n.lineno}: {h}" for n in nodes if (h := head(n)) and h not in LANGUAGE]
    keys = [(n.lineno, head(k)) for n in ast.walk(tree) if isinstance(n, ast.Dict) for k in n.keys if k is not None]
    return found + [f"line {line}: a dictionary has the key {h}" for line, h in keys if h]


@pytest.mark.slow
def test_no_other_module_has_a_table_of_functions():
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.parent.name != "elementary":
            assert not tables(path.read_text()), path


@pytest.mark.parametrize("text", ["x = {sp.exp: 1}", "isinstance(e, (sp.exp, sp.tanh))", "head is softplus"])
def test_planted_tables_are_seen(text):
    assert tables(text)


def test_tables_may_compute():
    assert not tables("sp.atan(x) + softplus(-u); e.has(sp.exp)")


@pytest.mark.slow
def test_the_entry_of_the_page():
    """docs/functions.md adds log cosh, which is a line at both ends: its expansion at K → ∞ holds."""
    page = (PACKAGE.parent / "docs" / "functions.md").read_text()
    scope: dict = {"__name__": "page"}
    exec(re.search(r"```python\n(.*?)```", page, re.S)[1], scope)  # type: ignore[index]
    head, scalar = scope["LOGCOSH"], scope["NETWORKS"]
    assert not findings(head, scalar)
    elementary.add(head, scalar)
    try:
        law = at_infinity(average(head.function(z) - z / 2, K), 3)
        with mp.workdps(30):
            truth = _mean(lambda x: head.mpmath(x) - x / 2, mp.mpf(10**4))
            assert 0 < abs(mp.mpf(sp.N(law.expr.subs(K, 10**4), 30)) - truth) < 1e-12
    finally:
        elementary.remove(head)


def test_a_module_of_an_added_function_has_a_name_of_its_own(added):
    """The cache must not hand a stored module to a function of the same name and another meaning."""
    one = elementary.fingerprint()
    elementary.remove(GD)
    try:
        other = dataclasses.replace(GD, code="return math.tanh(x)")
        elementary.add(other, GD_SCALAR)
        assert elementary.fingerprint() != one
        names = {cache.key("a recursion of gd")}
        elementary.remove(other)
        assert elementary.fingerprint() == ""
        names.add(cache.key("a recursion of gd"))
    finally:
        elementary.add(GD, GD_SCALAR)
    assert elementary.fingerprint() == one
    names.add(cache.key("a recursion of gd"))
    assert len(names) == 3 and cache.key("a recursion of gd") in names


def test_the_series_of_gd_follows_from_its_slope(added):
    assert mf.activation("gd(z)").taylor(5) == (0, 1, 0, -sp.Rational(1, 6), 0, sp.Rational(1, 24))
    assert sp.diff(gd(Z[0]), Z[0]) == sp.sech(Z[0])


def test_sample_points_lie_inside_of_a_bounded_domain():
    """Places from -5 to 5 are moved to the domain and spread over all of it; of an unbounded one they are kept."""
    texts = ("-5", "-4", "0", "2.5", "4", "6")
    inside = [float(p) for p in consistency._points(SimpleNamespace(domain=(-1, 3)), texts)]
    assert inside == pytest.approx([-0.6, 1, 2, 2.6])
    half = consistency._points(SimpleNamespace(domain=(0, sp.oo)), ("-4", "0", "2.5", "6"))
    assert [float(p) for p in half] == [2.5, 6]
