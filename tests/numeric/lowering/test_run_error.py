"""`run.error` is true: lowered averages against values written down elsewhere, in every range of K that is used.

Reference values: tests/references/run_error.json (25 digits, by make_run_error_references.py, which shares nothing with
the package), and formulas for two inputs in mpmath.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from flint import arb

import meanfield as mf
from meanfield.base.answers.results import InfiniteAverage, MeanFieldError
from meanfield.base.symbols import K, K_aa, K_ab, K_bb, Z, z
from meanfield.functions import balls
from meanfield.functions.activations import activation
from meanfield.numeric.lowering.averages import conditional, one_gaussian, pair_check, planes, two_gaussians
from meanfield.numeric.lowering.evaluators import ROUNDING
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.quadrature import evaluation, oscillatory_integrands, polynomial_tables
from meanfield.numeric.quadrature import gaussian_averages as quadrature
from meanfield.symbolic.averages import enclosure
from meanfield.symbolic.averages.expansions.expansion import at_zero
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.recursions.block_recursions import one_input_averages, slope_average
from tests import REFERENCES

ROWS = json.loads((REFERENCES / "run_error.json").read_text())
NAMES = {"phi2": "phi^2", "dphi2": "phi'^2"}
FAST = [
    ("tanh(z)*sin(z)", "phi2"),
    ("abs(z)**1.5", "phi2"),
    ("abs(z)**0.7", "dphi2"),
    ("tanh(z)*sqrt(abs(z))", "phi2"),
    ("abs(z)**0.8*exp(-abs(z))", "dphi2"),
    ("arctan(20*z)", "phi2"),
    ("tanh(30*(z-2))", "phi2"),
    ("tanh(30*(z-2))", "dphi2"),
]
CASES = sorted({(r["phi"], q) for r in ROWS for q in NAMES})


def assert_within_claim(f, rows, quantity: str, claimed: float) -> None:
    """Every reference lies within the claimed relative error, and the claim is at most 3e-13."""
    assert claimed <= 3e-13, f"the claim is {claimed:.1e}"
    for row in rows:
        truth = mp.mpf(row[quantity])
        if abs(truth) < 1e-290:
            continue
        miss = abs(mp.mpf(f(row["K"])) - truth) / abs(truth)
        assert miss <= claimed, f"{quantity} at K = {row['K']:g}: off by {mp.nstr(miss, 3)}, claimed {claimed:.1e}"


def check(text: str, quantity: str) -> None:
    rows = [r for r in ROWS if r["phi"] == text]
    expr = one_input_averages(activation(text))[NAMES[quantity]]
    if rows[0][quantity] == "inf":
        assert expr == sp.oo
        return
    lowered = one_gaussian.scalar(expr)
    assert_within_claim(lowered, rows, quantity, max(lowered.error, ROUNDING))


@pytest.mark.fast_with("abs(z)**1.5-phi2", "abs(z)**0.7-dphi2")
@pytest.mark.parametrize(("text", "quantity"), FAST)
def test_one_input_claims(text, quantity):
    check(text, quantity)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "quantity"), [c for c in CASES if c not in FAST])
def test_one_input_claims_of_all(text, quantity):
    check(text, quantity)


def test_references_agree_with_themselves():
    """The second computation of each reference, with other panels and another order, differs by less than 1e-20."""
    seconds = [x for r in ROWS if r["second"] for x in r["second"] if float(r["phi2"]) > 1e-290]
    assert len(seconds) > 150 and max(seconds) < 1e-20


def test_a_power_law_after_an_oscillation_is_measured_and_fails():
    """What was wrong before: a table that ends at 2^18 and goes on as a power. Its error is seen, by the measurement
    and by the references."""
    expr = average(sp.tanh(z) ** 2 * sp.sin(z) ** 2, K)
    nodes = list(expr.atoms(Average))
    rules = [quadrature.rule_for(n.integrand) for n in nodes]
    values = one_gaussian._values(expr, nodes, rules)
    table = polynomial_tables.build_table(values, 10, 18)
    assert one_gaussian._continuation(expr, nodes, table, values, 1) > 1e-5
    f = printing.interpret(f"def f(K, T):\n    return {one_gaussian._table_call(table)}\n", "f")
    rows = [r for r in ROWS if r["phi"] == "tanh(z)*sin(z)" and r["K"] > 2e5]
    with pytest.raises(AssertionError, match="off by"):
        assert_within_claim(lambda k: f(k, table.coefficients), rows, "phi2", 1e-13)


def test_waves_rebuild_the_integrand():
    """Σ A Re Σ c e^{iωz} is the function; a changed frequency is not. What does not split is said not to."""
    x = np.linspace(-30.0, 30.0, 41)
    for f in (
        sp.tanh(z) ** 2 * sp.sin(z) ** 2,
        sp.sin(3 * z + 1) * sp.cos(sp.sqrt(2) * z) / (1 + z**2),
        sp.tanh(sp.sin(z)),
        sp.cos(2 * z + sp.tanh(z)) * sp.exp(sp.cos(z)),
    ):
        f = f.xreplace({z: Z[0]})
        exact = evaluation.numpy_function(f)(x)
        total, shifted = np.zeros_like(x), np.zeros_like(x)
        for amplitude, group in oscillatory_integrands.split(f):
            a = evaluation.numpy_function(amplitude)(x)
            for w, c in group:
                total += a * (c * np.exp(1j * w * x)).real
                shifted += a * (c * np.exp(1j * w * (1 + 1e-9) * x)).real
        assert np.abs(total - exact).max() < 5e-14
        assert not np.abs(shifted - exact).max() < 5e-14
    assert (
        oscillatory_integrands.split(sp.sin(Z[0] ** 2)) is None
        and oscillatory_integrands.split(sp.cos(sp.exp(Z[0]))) is None
    )


@pytest.mark.slow
def test_beyond_a_followed_range_a_run_is_refused():
    """sin(z²) does not split into waves: inside its range it runs, beyond it the run is refused, not continued."""
    theory = mf.derive("sin(z**2)")
    run = theory.propagate(sigma_w=0.5, sigma_b=1.0, depth=5, quantities="K")
    assert run.error < 1e-11 and np.isfinite(run.K).all()
    truth = (1 - (1 + 16 * mp.mpf(run.K[1]) ** 2) ** mp.mpf(-0.25) * mp.cos(mp.atan(4 * mp.mpf(run.K[1])) / 2)) / 2
    assert abs(run.K[2] - (0.25 * truth + 1)) < 1e-12
    with pytest.raises(MeanFieldError, match="oscillates too fast"):
        theory.propagate(sigma_w=0.5, sigma_b=100.0, depth=5, quantities="K")


# ------------------------------------------------------------------------------------------------ steep averages


def assert_follows(f, truth, claimed: float) -> None:
    for j in range(40):
        k = 10.0 ** (-2.3 + j / 13)
        miss = float(abs(f(k) / truth(k) - 1))
        assert miss <= claimed, f"K = {k:.2e}: off by {miss:.1e}, claimed {claimed:.1e}"


@pytest.mark.slow
def test_cells_are_cut_where_an_average_is_steep(monkeypatch):
    """⟨e^{-(z-2)²/2s²}⟩ = s/√(s²+K) e^{-2/(s²+K)} from a table: e^{-2/K} at small K. Without cuts it is refused."""
    s2 = sp.Rational(1, 900)
    node = average(sp.exp(-((z - 2) ** 2) / (2 * s2)), K)
    monkeypatch.setattr(one_gaussian, "closed", lambda e: e)  # the table, although there is a closed form

    def truth(k):
        with mp.workdps(40):
            v = mp.mpf(s2.p) / s2.q + mp.mpf(k)
            return mp.sqrt(1 / (900 * v)) * mp.exp(-2 / v)

    f = one_gaussian.scalar.__wrapped__(node)
    assert f.table.is_split and f.error < 3e-13
    assert_follows(f, truth, f.error)
    with pytest.raises(AssertionError, match="off by"):
        assert_follows(lambda k: f(k) * (1 + 6e-13), truth, f.error)
    monkeypatch.setattr(polynomial_tables, "MOST_SPLITS", 0)
    with pytest.raises(MeanFieldError, match="too steep"):
        one_gaussian.scalar.__wrapped__(node)


@pytest.mark.slow
def test_an_exponential_in_a_closed_form_is_one():
    """⟨e^{-2(50z-150)²}⟩ is e^{-45000/(1+10⁴K)}/√(1+10⁴K), with no e^{-45000} of its own, which is 0 for a double."""
    f = one_gaussian.scalar(average(sp.exp(-2 * (50 * z - 150) ** 2), K))
    assert f.table is None
    with mp.workdps(30):
        v = 1 + 10**4 * mp.mpf(0.5)
        assert abs(f(0.5) * mp.exp(45000 / v) * mp.sqrt(v) - 1) < 1e-14


def test_saturated_heads_keep_their_digits():
    x = np.array([-0.5, -3.0, -8.0])
    values = evaluation.numpy_function(1 + sp.erf(3 * Z[0]))(x)
    assert all(abs(v / mp.erfc(-3 * a) - 1) < 1e-13 for v, a in zip(values, x))
    values = evaluation.numpy_function(Z[0] * (2 - 2 * sp.tanh(-5 * Z[0])))(x)
    assert all(abs(v / (a * 4 / (1 + mp.exp(-10 * mp.mpf(a)))) - 1) < 1e-13 for v, a in zip(values, x))


# ------------------------------------------------------------------------------------------------ powers of |z|


def test_a_parameter_as_exponent():
    """φ = |z|^p with a symbol p: positive, since φ is finite at 0; ⟨φ′²⟩ is finite above p = 1/2."""
    theory = mf.derive("abs(z)**p", p="p")
    p = next(s for s in theory.one_input.parameters if s.name == "p")
    assert p.is_positive
    square, slope = (theory.averages()[n].doit() for n in ("phi^2", "phi'^2"))
    assert sp.simplify(square - (2 * K) ** p * sp.gamma(p + sp.S.Half) / sp.sqrt(sp.pi)) == 0
    assert slope.subs(p, sp.Rational(1, 2)) == slope.subs(p, sp.Rational(1, 5)) == sp.oo
    for text in ("abs(z)**1.5", "sign(z)*abs(z)**1.5"):
        fixed = {n: v.doit() for n, v in mf.derive(text).averages().items()}
        assert sp.simplify(slope.subs(p, sp.Rational(3, 2)) - fixed["phi'^2"]) == 0
        assert sp.simplify(square.subs(p, sp.Rational(3, 2)) - fixed["phi^2"]) == 0
        assert sp.simplify(square.subs(p, sp.Rational(8, 5)) - fixed["phi^2"]) != 0
    assert mf.derive("abs(z)**p", p=0.5).one_input["J"] == sp.oo
    half = mf.derive("z**p if z > 0 else 0", p="p").averages()["phi^2"].doit()
    assert sp.simplify(2 * half - square) == 0
    for text, value, said in (
        ("abs(z)**p", 100, "becomes 100, which"),
        ("2**p*z", 10**9, "becomes 1000000000, which"),
        ("z**p", "p", "is not real and finite"),
        ("abs(z)**p", -0.3, "is infinite at z = 0"),
    ):
        with pytest.raises(MeanFieldError, match=said):
            mf.derive(text, p=value)


@pytest.mark.slow
def test_fixed_points_of_powers():
    """K* of |z|^p at σ_b = 0 is the root of K = (2K)^p Γ(p + ½)/√π; χ_J = p²/(2p - 1) there, and χ_K = p."""
    for text, p in (("abs(z)**1.5", 1.5), ("sign(z)*abs(z)**1.2", 1.2), ("abs(z)**0.7", 0.7), ("abs(z)**0.8", 0.8)):
        found = mf.derive(text).fixed_points(sigma_w=1, sigma_b=0)
        assert found.status is mf.Status.CERTIFIED and len(found) == 2
        point = found[1]
        truth = (2**p * math.gamma(p + 0.5) / math.sqrt(math.pi)) ** (1 / (1 - p))
        assert abs(float(point.K.value) / truth - 1) < 1e-12
        assert abs(float(point.chi_J.value) - p**2 / (2 * p - 1)) < 1e-12
        assert not abs(float(point.chi_J.value) - p**2 / (2 * p - 1) * 1.01) < 1e-12
        assert abs(float(point.chi_K.value) - p) < 1e-12
    steep = mf.derive("tanh(sqrt(abs(z)))").critical_points()
    assert steep.status is mf.Status.EXACT and not steep.points and "infinite" in steep.message


def test_expansions_at_zero_of_powers():
    """⟨|z|^{1/3}/(1 + z²)⟩ as K → 0, against quadrature; the terms stop before the remainder."""
    node = average(sp.Abs(z) ** sp.Rational(1, 3) / (1 + z**2), K)
    law = at_zero(node, 2)
    assert [t.power for t in law.terms] == [sp.Rational(1, 6), sp.Rational(7, 6)]
    with mp.workdps(30):
        for k in (mp.mpf("1e-3"), mp.mpf("1e-4")):
            weight = 2 / mp.sqrt(2 * mp.pi * k)
            ends = [mp.mpf(0), *[mp.sqrt(k) ** (mp.mpf(1) / 3) * i for i in (1, 1.5, 2, 2.4)]]
            true = weight * mp.quad(lambda u, k=k: 3 * u**3 / (1 + u**6) * mp.exp(-(u**6) / (2 * k)), ends)
            mine = sum(mp.mpf(str(sp.N(t.coefficient, 30))) * k ** (mp.mpf(t.power.p) / t.power.q) for t in law.terms)
            assert abs(mine - true) < 100 * k ** (mp.mpf(13) / 6)
            assert not abs(mine * (1 + k) - true) < 100 * k ** (mp.mpf(13) / 6)


def test_powers_in_closed_form():
    p = sp.Symbol("p", positive=True)
    form = average(sp.Abs(z) ** p, K).doit()
    assert sp.simplify(form - (2 * K) ** (p / 2) * sp.gamma((p + 1) / 2) / sp.sqrt(sp.pi)) == 0
    for f, lower, in (
        (sp.Abs(z) ** sp.Rational(-3, 5), -1),
        (z * sp.sqrt(sp.Abs(z)) * sp.sign(z) * sp.exp(-(z**2)), -1),
        (sp.Heaviside(z) * z ** sp.Rational(1, 3) * (2 + z), 0),
    ):
        value = average(f, K).subs(K, sp.Rational(7, 3)).evalf(25)
        g = sp.lambdify(z, f.rewrite(sp.Piecewise), "mpmath")
        with mp.workdps(30):
            weight = 1 / mp.sqrt(2 * mp.pi * mp.mpf(7) / 3)
            ends = [0, 1, 1.3, 1.6]
            half = [
                weight * mp.quad(lambda w, s=s, g=g: 10 * w**9 * g(s * w**10) * mp.exp(-3 * w**20 / 14), ends)
                for s in ((1, -1) if lower else (1,))
            ]
            assert abs(mp.mpf(str(value)) - sum(half)) < mp.mpf("1e-18")
            assert not abs(mp.mpf(str(value)) * (1 + mp.mpf("1e-15")) - sum(half)) < mp.mpf("1e-18")
    with pytest.raises(InfiniteAverage, match="is infinite: "):
        average(1 / sp.Abs(z), K).doit()
    bounded = (1 - sp.exp(-(z**2))) / z**2  # parts are infinite, the sum is not
    assert average(bounded, K).doit() == average(bounded, K)
    assert one_input_averages(activation("sign(z)*sqrt(abs(z))"))["phi'^2"] == sp.oo


# ------------------------------------------------------------------------------------------------ two inputs


def slope_truth(p: float, a: float, b: float, ab: float):
    """p² ⟨sgn z_a sgn z_b |z_a z_b|^q⟩ = p² (ab)^{q/2} c 2^{q+1}/π Γ(1+q/2)² ₂F₁((1-q)/2, (1-q)/2; 3/2; c²) with
    q = p - 1."""
    with mp.workdps(40):
        q, size = mp.mpf(p) - 1, mp.sqrt(mp.mpf(a) * b)
        c = mp.mpf(ab) / size
        u = (1 - q) / 2
        series = mp.hyp2f1(u, u, 1.5, c * c)
        return p**2 * size**q * c * 2 ** (q + 1) / mp.pi * mp.gamma(1 + q / 2) ** 2 * series


def slope_scale(p: float, a: float, b: float):
    q = p - 1
    return p**2 * (a * b) ** (q / 2) * 2**q * math.gamma(q + 0.5) / math.sqrt(math.pi)


POINTS = [
    (1.0, 1.0, 0.6),
    (0.5, 3.0, -0.99),
    (1e-3, 40.0, 0.3),
    (5e3, 7.0, -0.9),
    (2.0, 2.0, 1 - 1e-9),
    (1.0, 4.0, -1 + 1e-5),
    (1.0, 1.0, 1.0),
]


def assert_pair_within_claim(f, p: float, claimed: float, points=POINTS) -> None:
    for a, b, c in points:
        ab = c * math.sqrt(a * b)
        miss = abs(f(a, ab, b, two_gaussians.sine2_of(a, ab, b)) - slope_truth(p, a, b, ab)) / slope_scale(p, a, b)
        assert miss <= claimed, f"|z|^{p} at {a}, {b}, c = {c}: off by {mp.nstr(miss, 3)}, claimed {claimed:.1e}"


def lowered_slope(p: float):
    return two_gaussians.pair(slope_average(activation(f"abs(z)**{p}"), (K_aa, K_ab, K_bb)), "g")


@pytest.mark.slow
def test_two_input_branch_points():
    """⟨φ′φ′⟩ of |z|^p, also where φ′ is infinite at 0 and the inputs are fully correlated."""
    pair = lowered_slope(1.5)
    assert pair.error <= 1e-12
    f = printing.interpret(pair.text, "g")
    assert_pair_within_claim(f, 1.5, pair.error, POINTS[1:2] + POINTS[-3:-2])
    with pytest.raises(AssertionError, match="off by"):
        assert_pair_within_claim(lambda *at: f(*at) * (1 + 1e-12), 1.5, pair.error, POINTS[1:2])


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.7, 0.8, 1.2, 1.5, 2.5])
def test_two_input_branch_points_of_all(p):
    pair = lowered_slope(p)
    assert_pair_within_claim(printing.compiled(pair.text, "g"), p, pair.error)


def test_the_measurement_for_two_inputs_sees_a_rule_without_branch_points():
    """The same rule that does not know of the branch point is off by more than 1e-10, and says so."""
    plan = planes.plan(slope_average(activation("abs(z)**1.5"), (K_aa, K_ab, K_bb)))
    blind = replace(plan, branches=((), ()), m_inner=1, m_outer=1)
    point = [(0.5, 3.0, -0.99)]
    assert pair_check.measured(plan, point) < 1e-13
    assert pair_check.measured(blind, point) > 1e-10


@pytest.mark.slow
def test_the_measured_rule_is_the_compiled_one():
    """That of functions with branch points has a twin for arrays; others are measured as they are."""
    plan = planes.plan(slope_average(activation("abs(z)**1.5"), (K_aa, K_ab, K_bb)))
    f = printing.interpret(conditional.text(plan, "g"), "g_quadrature")
    c = 0.52 / math.sqrt(0.91)
    twin = pair_check.average(plan, 1.3, 0.7, c, math.sqrt(1 - c * c), False)
    assert abs(f(1.3, 0.52, 0.7, 1 - c * c) - twin) < 1e-15


def test_the_measurement_for_two_inputs_sees_panels_that_are_too_wide():
    plan = planes.plan(average(sp.tanh(Z[0]) * sp.tanh(Z[1]), (K_aa, K_ab, K_bb)))
    point = [(100.0, 100.0, 0.5)]
    for widen, least, most in ((1.5, 0.0, 2e-14), (12.0, 1e-12, 1.0)):
        quadrature = printing.interpret(planes.text(plan, "g", widen), "g_quadrature")
        assert least <= pair_check.miss(plan, point, quadrature) <= most


@pytest.mark.parametrize("act", ["tanh", "hard_swish", "exp(z/3)"])
def test_panels_that_are_left_out_add_nothing(act, monkeypatch):
    """The finer rule drops what lies beyond all weight; dropped from 2.4 standard deviations on, it is felt."""
    f = activation(act).pieces.expr
    plan = planes.plan_of(f, f)
    at = [(1.0, 1.0, 0.6, 0.8), (1.0, 4.0, 1 - 1e-6, math.sqrt(2e-6 - 1e-12)), (0.5, 3.0, -0.6, 0.8)]

    def values(nothing: float) -> list[float]:
        monkeypatch.setattr(pair_check, "NOTHING", nothing)
        return [pair_check.average(plan, *where, True) for where in at]

    kept, whole, cut = (values(nothing) for nothing in (pair_check.NOTHING, math.inf, 3.0))
    assert kept == pytest.approx(whole, rel=1e-15)
    assert all(abs(a / b - 1) > 1e-12 for a, b in zip(cut, whole))


# ------------------------------------------------------------------------------------------------ teeth


@pytest.mark.slow
def test_the_tail_of_a_two_input_ball_counts(monkeypatch):
    """⟨z_a¹²⁰ z_b²⟩ at unit variances is 119!!(1 + 120 c²). At 20 bits the plane is cut at |x| = 10.4, where z¹²⁰ has
    its mass: the ball holds the truth through its tail alone."""
    c = sp.Rational(3, 10)
    truth = sp.factorial2(119) * (1 + 120 * c**2)

    def ball():
        with balls.precision(20):
            return enclosure._average_2(Z[0] ** 120 * Z[1] ** 2, (sp.S.One, c, sp.S.One), (sp.S.Zero, sp.S.Zero))

    def assert_holds(value):
        with balls.precision(900):
            assert value.contains(balls.constant(truth)), f"the ball {value} does not hold {truth}"

    assert_holds(ball())
    monkeypatch.setattr(enclosure, "_tail_2", lambda *args: arb(0))
    with pytest.raises(AssertionError, match="does not hold"):
        assert_holds(ball())


def assert_twelve_digits() -> None:
    """⟨(z sin z)²⟩ = (K - (K - 4K²) e^{-2K})/2, which cancels at small K, from 1e-7 to 1."""
    f = one_gaussian.scalar.__wrapped__(average(z**2 * sp.sin(z) ** 2, K))
    for j in range(28):
        k = 10.0 ** (-7 + j / 4)
        with mp.workdps(50):
            truth = (k - (k - 4 * mp.mpf(k) ** 2) * mp.exp(-2 * mp.mpf(k))) / 2
            miss = abs(f(k) - truth) / truth
        assert miss <= 3e-13, f"K = {k:.2e}: off by {mp.nstr(miss, 3)}"
        assert miss <= f.error


@pytest.mark.slow
def test_a_closed_form_is_dropped_where_it_loses_digits(monkeypatch):
    assert_twelve_digits()
    monkeypatch.setattr(one_gaussian, "_cheaper", lambda expr, closed: closed)  # a table would hide what the form loses
    assert_twelve_digits()
    monkeypatch.setattr(one_gaussian, "TOLERANCE", 1e-9)
    with pytest.raises(AssertionError, match="off by"):
        assert_twelve_digits()
