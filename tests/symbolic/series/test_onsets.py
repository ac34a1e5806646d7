"""From where a law holds, and what it leaves out: never less than a scan of its terms says, and never unsaid."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp
from flint import fmpq

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError, Status, Term
from meanfield.base.answers.terms import onset_of
from meanfield.base.symbols import K, Z, l
from meanfield.cli.terminal.output import law_rows
from meanfield.presentation.phase_tables import ScheduledLaw
from meanfield.presentation.tables import Table
from meanfield.symbolic.asymptotics.depth import DepthLaw, _shortened
from meanfield.symbolic.asymptotics.higher_order.series_solution import Corrections, _check
from meanfield.symbolic.asymptotics.log_growth import exponential, grown, regular
from meanfield.symbolic.averages.expansions.expansion import at_zero
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.series.asymptotic_law import Law
from meanfield.symbolic.series.coefficients import Atoms, of
from meanfield.symbolic.series.exponents import NoHigherOrder
from meanfield.symbolic.series.ring import any_logs, key
from meanfield.symbolic.series.truncated import Calculus, Truncated

R = sp.Rational
C = sp.Symbol("C", real=True)
LATE = (Term(R(14)), Term(R(-350_000), R(-1)), Term(R(460_000_000_000), R(-2), R(1)))


def scanned(terms) -> float:
    """The last layer of a grid at which some term is larger than the one before it."""
    t, terms = np.arange(1, 4000) * 0.01, list(terms)
    sizes = []
    for term in terms:
        rates = sum(float(r) * np.exp(float(s) * t) for r, s in term.rates)
        sizes.append(math.log(abs(term.coefficient)) + float(term.power) * t + float(term.logs) * np.log(t) + rates)
    wrong = np.any(np.diff(sizes, axis=0) > 0, axis=0)
    return float(np.exp(t[wrong][-1])) if wrong.any() else 1.0


def test_the_onset_is_where_a_scan_sees_the_last_term_out_of_order():
    draw, late = random.Random(3), 0
    for _ in range(60):
        powers = sorted((R(-draw.randint(0, 6), 2) for _ in range(3)), reverse=True)
        if len(set(powers)) < 3:
            continue
        sizes = [R(draw.randint(1, 10 ** draw.randint(1, 8)), draw.randint(1, 10**3)) for _ in powers]
        terms = [Term(c, p, R(draw.randint(0, 1))) for c, p in zip(sizes, powers)]
        found, seen = onset_of(terms), scanned(terms)
        if seen < 1e15:
            assert found == pytest.approx(seen, rel=0.011) or found <= 1.02, (terms, found, seen)
            late += found > 100
            assert found == 1.0 or 1.1 * found != pytest.approx(seen, rel=0.011)
    assert late > 10


def test_onsets_of_exponentials_and_of_logarithms():
    fall = [Term(R(1)), Term(R(1000), rate=R(-1, 10)), Term(R(10**6), rate=R(-2, 10), slower=((R(1), R(1, 2)),))]
    assert onset_of(fall) == pytest.approx(scanned(fall), rel=0.02)
    assert onset_of([Term(R(1)), Term(R(5), logs=R(-1))]) == pytest.approx(math.exp(5))
    assert onset_of([Term(R(1)), Term(R(10**4), logs=R(-1))]) == math.inf
    assert onset_of([Term(R(1)), Term(R(1), R(1))]) == math.inf  # not in their order


def test_an_onset_is_printed_where_it_is_deep_and_only_there():
    late = DepthLaw(l, sp.oo, LATE, "smaller", quantity="K", regime="critical", status=Status.CERTIFIED)
    early = DepthLaw(l, sp.oo, LATE[:1], "smaller", quantity="K", regime="critical")
    assert 2e7 < late.onset < 3e7 and early.onset == 1
    assert "holds beyond l = 2.2" in str(late) and "holds" not in str(early)
    assert r"holds beyond $\ell = 2.2" in late.latex().replace("\n", " ") and "holds" not in early.latex()
    assert late.data()["onset"] == late.onset and early.data()["onset"] == 1
    for law, seen in ((late, True), (early, False)):
        table = Table("Laws", tuple(law_rows("K", law, "Large depth")))
        told = (str(table), table.latex(), table.data()[0]["remark"])
        assert all(("holds beyond" in " ".join(text.split())) == seen for text in told)


def test_no_value_of_a_law_is_given_below_its_onset():
    """silu at its half-stable point: the terms say 2e8 at layer 100, where K, iterated, is 14.33."""
    (point,) = [p for p in mf.derive("silu").critical_points() if p.K.value != 0]
    law, z, w = point.law_K, *np.polynomial.hermite_e.hermegauss(160)
    sigma_w, sigma_b, layer = float(point.sigma_w.value), float(point.sigma_b.value), 14.33
    for _ in range(99):
        u = np.sqrt(layer) * z
        layer = sigma_b**2 + sigma_w**2 * np.sum(w * (u / (1 + np.exp(-u))) ** 2) / np.sqrt(2 * np.pi)
    assert layer == pytest.approx(14.33, abs=1e-3) and law.expr.subs(l, 100) > 2e8
    assert repr(law).startswith("DepthLaw(beyond l = 2.23e+07: K = 14.32")
    theta = mf.derive("silu").depth_law("Theta", at=point)
    for late in (law, law.law, law * 1, 2 - law, 1 / law, law - law.limit, theta, theta.law, theta + 1):
        with pytest.raises(MeanFieldError, match=r"beyond l = [\d.e+]+, but its value at l = 100 .*`propagate`"):
            late.at(100)
        assert late.onset > 2e7 and repr(late).partition("(")[2].startswith("beyond l = ")
    assert law.at(10**9) == law.expr.subs(l, 10**9)
    assert law.at(sp.Symbol("m", positive=True)).has(sp.log)


def test_what_the_start_decides_and_exact_sums_have_no_onset():
    free = Law(l, sp.oo, (Term(R(-600), logs=R(1)), Term(C), Term(R(-8 * 10**5), R(-1), R(1))), "smaller")
    assert free.at(2000, C=1) == free.expr.subs({l: 2000, C: 1})
    with pytest.raises(MeanFieldError, match=r"beyond l = 1.33e\+03, but its value at l = 1000"):
        free.at(1000, C=10**9)
    some = Law(l, sp.oo, (Term(sp.Symbol("s")), Term(R(50), R(-1))), "smaller")
    assert some.onset is None and some.at(10, s=6) == 11 and some.at(10) == 5 + sp.Symbol("s")
    with pytest.raises(MeanFieldError, match="beyond l = 500, but its value at l = 10 "):
        some.at(10, s=sp.Rational(1, 10))
    growing = Law(l, sp.oo, (Term(R(1, 18), R(2)), Term(R(19, 18), R(1))), R(0))
    assert growing.onset == pytest.approx(19) and growing.at(6) == R(25, 3)  # what is left out is O(1) there, too
    small = Law(l, sp.oo, (Term(R(1)), Term(R(1, 10**6), R(-1, 2)), Term(R(2), R(-1))), "smaller")
    assert small.onset > 1e12 and small.at(30) == small.expr.subs(l, 30)  # the last term is small
    with pytest.raises(MeanFieldError, match=r"beyond l = 4e\+12, but its value at l = 10 "):
        small.at(10)
    exact = Law(l, sp.oo, (Term(R(1), R(1)), Term(R(500))), "zero")
    assert exact.onset == 1 and exact.at(2) == 502


def test_further_terms_have_no_value_below_their_onset():
    late = Corrections((((R(-1), R(0), 0), R(1000)),), (R(-2), R(0), 0))
    law = ScheduledLaw("K", regular(R(1), 1), "balance", "every start", corrections=late)
    assert law.onset == pytest.approx(1000) and repr(law).startswith("ScheduledLaw(beyond l = 1e+03: K ~ ")
    assert law.log_at(math.log(4000)) == pytest.approx(math.log(4000 * 1.25))
    with pytest.raises(MeanFieldError, match=r"beyond l = 1e\+03, but its value at l = 100 "):
        law.log_at(math.log(100))
    named = replace(late, terms=(((R(-1), R(0), 0), sp.Symbol("s")),))
    law = replace(law, corrections=named)
    assert law.onset is None and law.log_at(math.log(4), {"s": 1}) == pytest.approx(math.log(5))
    with pytest.raises(MeanFieldError, match="beyond l = 900, but its value at l = 4 "):
        law.log_at(math.log(4), {"s": 900})


def test_terms_of_the_start_are_passed_over_and_symbols_leave_it_open():
    free = Law(l, sp.oo, (Term(R(-600), logs=R(1)), Term(C), Term(R(-8 * 10**8), R(-1), R(1))), "smaller")
    assert free.onset == pytest.approx(8e8 / 600)
    assert Law(l, sp.oo, (Term(R(1)), Term(sp.Symbol("s"), R(-1)))).onset is None
    assert Law(K, sp.S.Zero, LATE).onset is None


def test_what_a_law_leaves_out_is_a_term_of_its_series():
    late = Law(l, sp.oo, LATE, "smaller")
    assert late.series == late.expr + sp.Function("o")(sp.log(l) / l**2)
    assert Law(l, sp.oo, LATE[:2], R(-3, 2), R(1)).series.getO() == sp.Order(sp.log(l) / l ** R(3, 2), (l, sp.oo))
    assert Law(l, sp.oo, LATE[:2]).series == Law(l, sp.oo, LATE[:2]).expr


def test_a_J_whose_growing_terms_are_not_all_known_does_not_look_whole():
    half = DepthLaw(l, sp.oo, (Term(R(-1, 2), R(1)),), "smaller", quantity="J")
    assert not half.is_whole and half.exponent is None and half.expr == sp.exp(-l / 2 + sp.Function("o")(l))
    with pytest.raises(TypeError, match="float"):
        float(half.expr.subs(l, 10))
    assert grown(half).leading
    terms = (Term(R(-1, 2), R(1)), Term(R(3), R(1, 2)), Term(R(2), logs=R(1)), Term(C))
    whole = DepthLaw(l, sp.oo, terms, "smaller", quantity="J")
    assert whole.is_whole and whole.exponent == 2 and not grown(whole).leading
    assert whole.expr == C * l**2 * sp.exp(3 * sp.sqrt(l) - l / 2) and whole.slower == ((R(3), R(1, 2)),)
    cut = DepthLaw(l, sp.oo, terms[:1], R(1, 2), quantity="J")
    assert not cut.is_whole and cut.expr == sp.exp(-l / 2 + sp.Order(sp.sqrt(l), (l, sp.oo)))


def test_a_growth_known_to_its_leading_term_is_named():
    part, whole = exponential(R(3), R(1, 2), leading=True), exponential(R(3), R(1, 2))
    assert part.expr.has(sp.Function("o")) and not whole.expr.has(sp.Function("o"))
    with pytest.raises(MeanFieldError, match="known to its leading terms alone"):
        part.log_at(4.0)
    assert part.log_at(4.0, leading=True) == whole.log_at(4.0) == pytest.approx(3 * math.exp(2))
    assert (part * regular(R(2), 1)).expr.has(sp.Function("o"))


# ------------------------------------------------------------------------------------------------ what remainders say


def test_a_product_leaves_out_what_either_factor_does():
    calc = Calculus(Atoms())
    whole = Truncated({key(fmpq(2)): of(fmpq(3))}, None)
    short = Truncated({key(fmpq(0)): of(fmpq(1))}, any_logs(-1))
    for a, b in ((whole, short), (short, whole)):
        assert calc.times(a, b).remainder == any_logs(1) and set(calc.times(a, b).terms) == {key(fmpq(2))}
    longer = Truncated({key(fmpq(1)): of(fmpq(1))}, any_logs(-5))
    for a, b in ((longer, short), (short, longer)):
        assert calc.times(a, b).remainder == any_logs(0)  # l·o(1/l), not l^-5


def test_the_remainder_at_zero_of_a_kinked_function_holds():
    """⟨φ⟩ of sin z for z > 0, 0 else: odd moments count on one side, so that what is left out of K^2 is K^{5/2}."""
    law = at_zero(average(sp.Piecewise((0, Z[0] < 0), (sp.sin(Z[0]), True)), K), 2)
    assert law.remainder == R(5, 2)
    left = []
    for k in (1e-2, 1e-3):
        h = math.sqrt(k) / 2000
        steps = [i * h for i in range(20_001)]
        values = [math.sin(z) * math.exp(-z * z / 2 / k) / math.sqrt(2 * math.pi * k) for z in steps]
        simpson = h / 3 * (values[0] + values[-1] + 4 * sum(values[1:-1:2]) + 2 * sum(values[2:-1:2]))
        left.append(abs(simpson - float(law.at(k))) / k ** float(law.remainder))
    assert 0.1 < left[0] / left[1] < 10 and left[1] > 1e-4  # of this order, and of no smaller one
    smooth = at_zero(average(sp.cos(Z[0]), K), 2)
    assert smooth.remainder == 3


def test_a_last_term_that_falls_or_is_constant_hides_nothing_that_grows():
    """What is smaller than 1/log l tends to 0; what is smaller than log l, or than √l/log l, need not."""
    for power, logs, whole in ((0, -1, True), (0, 0, True), (0, 1, False), (R(1, 2), -1, False), (-1, 2, True)):
        terms = (Term(R(-1, 2), R(1)), Term(R(3), R(power), logs=R(logs)))
        law = DepthLaw(l, sp.oo, terms, "smaller", quantity="J")
        assert law.is_whole is whole, (power, logs)


def test_a_law_begins_where_those_that_it_follows_from_begin():
    """Θ = 0.0235 l of silu at its critical point has one term, but K comes there beyond l = 2e7 alone."""
    theory = mf.derive("silu")
    (point,) = [p for p in theory.critical_points() if p.K.value != 0]
    law = theory.depth_law("Theta", at=point)
    late = max(scanned(point.law_K.terms), scanned(t for t in point.law_J.terms if t.coefficient != C))
    assert len(law.terms) == 1 and law.onset == pytest.approx(late, rel=0.02) and late > 2e7
    assert law.data()["onset"] == law.onset and "holds beyond" in str(law) and "holds beyond" in law.latex()
    alone = Law(law.variable, law.point, law.terms, law.remainder)
    assert alone.onset == 1 and alone.onset != pytest.approx(late, rel=0.02)  # control: of its terms alone
    c = mf.derive("(-39/70)+3.4*z-2.7*z**2-0.3*z**3+0.14*z**4+0.02*z**5")
    place = {"sigma_w": sp.sqrt(R(875, 23069)), "sigma_b": sp.sqrt(R(72951, 645932)), "input_norm": R(9, 10)}
    onset = max(scanned(t for t in c.depth_law(q, **place).terms if t.coefficient != C) for q in ("K", "J"))
    for q in ("c", "gamma", "distance", "Theta"):
        law = c.depth_law(q, **place)
        told = " ".join(str(law).split())
        assert law.onset == pytest.approx(onset, rel=0.02) and "as the laws that it follows from do" in told


def test_a_coefficient_with_digits_in_it_is_one_number():
    short = _shortened(sp.Float("0.1234567890123456789012345", 25) * sp.pi + sp.sqrt(2))
    assert short.is_Float and abs(short - (R("0.1234567890123456789012345") * sp.pi + sp.sqrt(2)).evalf(30)) < 1e-17
    assert _shortened(C * sp.Float("0.5", 25)).has(C) and _shortened(sp.sqrt(2) * sp.pi) == sp.sqrt(2) * sp.pi


def test_a_law_at_a_place_asks_for_every_symbol():
    """Those of a constant, too, and functions that equations define are named."""
    given = dict(sigma_v=1, sigma_w=1, sigma_a=0, sigma_b=0)
    law = mf.derive("tanh", architecture="full_residual", total_v="1/2").depth_law("K", **given)  # sqrt(L)*t
    with pytest.raises(mf.MeanFieldError, match=r"t has no value; give it, as in at\(1000, t=1\)"):
        law.at(1000)
    assert abs(law.at(1000, t="1/2") - 500 / math.sqrt(1000)) < 1e-12
    law = mf.derive("relu", architecture="full_residual", total_v=1).depth_law("K", **given)  # K_0*exp(t/2)
    with pytest.raises(mf.MeanFieldError, match="K_0 has no value"):
        law.at(1000, t=1)
    assert abs(law.at(1000, t=1, K_0=3) - 3 * math.exp(0.5)) < 1e-12
    totals = {f"total_{s}": 1 for s in "vwab"}
    law = mf.derive("Max(z,0)-1/3", architecture="full_residual", **totals).depth_law(
        "gamma", sigma_v=1, sigma_w=1, sigma_a=1, sigma_b=0, correlation="1/2"
    )
    with pytest.raises(mf.MeanFieldError, match="it holds h, k, which the equations beside it define"):
        law.at(1000, t=1)


def test_a_leading_term_is_found_again_to_its_own_digits():
    """Of 1e-20·√l a term of 2e-20 is another one, however small both are."""
    law = exponential(sp.Rational(1, 10**20), sp.Rational(1, 2))
    ((place, size),) = law.terms
    _check(law, [(place[:3], size)])
    with pytest.raises(NoHigherOrder, match="is not found again"):
        _check(law, [(place[:3], 2 * size)])
