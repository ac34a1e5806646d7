"""Averages of functions with algebraic tails at K → ∞, the arithmetic of laws, and depth laws at generic parameters.

References share no code with the library: functions written out here, integrated by mpmath or by the trapezoidal rule
in log z; recursions iterated or solved as dl = dK/gain.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from flint import arb, fmpq

import meanfield as mf
from meanfield.base.answers.results import Term
from meanfield.base.symbols import K, Z, z
from meanfield.functions import balls
from meanfield.functions.series.ball_series import ball_series, coefficients
from meanfield.functions.series.infinity import normal_form
from meanfield.symbolic.asymptotics import depth, scaling
from meanfield.symbolic.averages.expansions.expansion import at_infinity, at_zero
from meanfield.symbolic.averages.expansions.exponentially_small import exponential_at_zero
from meanfield.symbolic.averages.expansions.moments import Moment, moment
from meanfield.symbolic.averages.expansions.powerlog import Sums
from meanfield.symbolic.averages.node import Integrand
from meanfield.symbolic.fixed_points.half_line import sign_at_infinity
from meanfield.symbolic.series.asymptotic_law import Law

# formula, the same even part f(z) + f(-z) in mpmath
TAILS = {
    "z**2/(1+z**2)": lambda x: 2 * x * x / (1 + x * x),
    "(z**3+1)/(1+z**2)": lambda x: 2 / (1 + x * x),
    "atan(z)**2": lambda x: 2 * mp.atan(x) ** 2,
    "z*atan(z)": lambda x: 2 * x * mp.atan(x),
    "(z+atan(z))**2": lambda x: 2 * (x + mp.atan(x)) ** 2,
    "(z/(1+abs(z)))**2": lambda x: 2 * (x / (1 + x)) ** 2,
    "abs(z)**3/(1+abs(z))": lambda x: 2 * x**3 / (1 + x),
    "sqrt(1+z**2)": lambda x: 2 * mp.sqrt(1 + x * x),
    "asinh(z)**2": lambda x: 2 * mp.asinh(x) ** 2,
    "z*asinh(z)": lambda x: 2 * x * mp.asinh(x),
    "(1+z**2)**(1/4)": lambda x: 2 * (1 + x * x) ** mp.mpf("0.25"),
    "log(1+z**2)": lambda x: 2 * mp.log1p(x * x),
    "log(1+z**2)**2/(1+z**2)": lambda x: 2 * mp.log1p(x * x) ** 2 / (1 + x * x),
    "log(1+z**2)*(1+z**2)**(1/3)": lambda x: 2 * mp.log1p(x * x) * mp.cbrt(1 + x * x),
    "z**2*asinh(z)**2": lambda x: 2 * (x * mp.asinh(x)) ** 2,
    "atan(z)/(1+exp(-z))": lambda x: mp.atan(x) * mp.tanh(x / 2),
    "1/sqrt(1+z**2)": lambda x: 2 / mp.sqrt(1 + x * x),
    "tanh(z)*atan(z)": lambda x: 2 * mp.tanh(x) * mp.atan(x),
    "1/(sqrt(1+z**2)-abs(z)/2)": lambda x: 2 / (mp.sqrt(1 + x * x) - x / 2),
    "sqrt(abs(z)+sqrt(1+abs(z)))": lambda x: 2 * mp.sqrt(x + mp.sqrt(1 + x)),
    "z**2 if z > 1 else z/(1+z**2)": lambda x: x * x - x / (1 + x * x) if x > 1 else 0 * x,
}


def formula(text: str) -> sp.Expr:
    if " if " in text:
        first, condition, last = re.fullmatch(r"(.*) if (.*) else (.*)", text).groups()
        return sp.Piecewise((formula(first), formula(condition)), (formula(last), True))
    return sp.sympify(text, locals={"z": z, "abs": sp.Abs})


def reference(even, k) -> mp.mpf:
    """⟨f⟩_k in 30 digits: Gauss–Legendre in s = log z, in short panels."""
    scale = 1 / mp.sqrt(2 * mp.pi * k)
    ends = [mp.mpf(i) / 2 for i in range(-160, 2 * int(mp.log(12 * mp.sqrt(k))) + 4)]

    def g(s):
        x = mp.exp(s)
        return even(x) * x * mp.exp(-x * x / (2 * k)) * scale

    return mp.quad(g, ends, method="gauss-legendre", maxdegree=4)


def assert_remainder(law: Law, even, ks=(10**4, 10**7)) -> None:
    """The law misses the reference by O(K^r) at two K: the slope of the error is the remainder's, or the error is
    rounding."""
    with mp.workdps(30):
        errors = [abs(reference(even, k) - mp.mpf(str(sp.N(law.expr.subs(K, k), 28)))) for k in ks]
        if errors[1] < mp.mpf(10) ** -25:
            assert errors[0] < mp.mpf(ks[0]) ** (float(law.remainder) + 0.6), errors
            return
        slope = mp.log(errors[1] / errors[0]) / mp.log(mp.mpf(ks[1]) / ks[0])
        assert slope < float(law.remainder) + 0.15, f"errors {errors} fall with the slope {slope}, not {law.remainder}"


@pytest.mark.fast_with("z**2 if z > 1 else z/(1+z**2)")
@pytest.mark.parametrize("text", TAILS)
def test_tails_to_any_order_against_quadrature(text):
    law = at_infinity(mf.average(formula(text), K), 2)
    assert law.remainder == -sp.Rational(5, 2)
    assert_remainder(law, TAILS[text])


@pytest.mark.slow
@pytest.mark.parametrize("text", ["atan(z)**2", "sqrt(1+z**2)", "log(1+z**2)"])
def test_control_one_coefficient_of_a_tail_is_off(text):
    law = at_infinity(mf.average(formula(text), K), 2)
    for i, t in enumerate(law.terms):
        if t.power == law.remainder:  # a logarithm there: no slope tells it from what is left out
            continue
        terms = list(law.terms)
        terms[i] = replace(t, coefficient=t.coefficient * sp.Rational(5, 4))
        with pytest.raises(AssertionError, match="slope"):
            assert_remainder(replace(law, terms=tuple(terms)), TAILS[text])


def test_odd_leading_orders_cancel_and_the_next_ones_answer():
    law = at_infinity(mf.average((z**3 + 1) / (1 + z**2), K), 3)
    assert sp.simplify(law.leading.coefficient - sp.sqrt(2 * sp.pi) / 2) == 0 and law.leading.power == -sp.S.Half


def test_what_has_no_powers_is_refused_and_what_is_exact_says_so():
    for text in ("sin(z)/(1+z**2)", "1/log(2+z**2)", "sin(z**2)*z"):
        with pytest.raises(mf.MeanFieldError, match="has no power-law limit at infinity"):
            at_infinity(mf.average(formula(text) ** 2, K), 2)
    law = at_infinity(mf.average(sp.Abs(z) ** sp.Rational(3, 2), K), 2)
    assert law.remainder == "zero" and len(law.terms) == 1


# ----------------------------------------------------------------------------------------------------- moments


@pytest.mark.parametrize(
    ("text", "n", "truth"),
    [
        ("1/(1+z**2)", 0, lambda: mp.pi),
        ("z**2/(1+z**2)", 2, lambda: mp.pi),  # z² - 1 + 1/(1 + z²)
        ("sqrt(1+z**2)", 0, lambda: mp.mpf(1) / 2 + mp.log(2)),  # T² + log 2T + ½ without the powers
        ("atan(z)**2", 0, lambda: 2 * mp.pi * (mp.log(2) - 1)),
        ("asinh(z)**2", 0, lambda: mp.mpf(0)),
        ("log(1+z**2)", 0, lambda: 2 * mp.pi),
        ("1/(1+abs(z))", 2, lambda: mp.mpf(0)),
    ],
)
def test_finite_parts_by_hand(text, n, truth):
    """Exact value and certified node agree with a finite part taken by hand."""
    f = formula(text).xreplace({z: Z[0]})
    with mp.workdps(25):
        node = Moment(Integrand(f), n).ball(25)
        for value in (mp.mpf(node.mid().str(25, radius=False)), mp.mpf(str(sp.N(moment(f, n), 25)))):
            assert abs(value - truth()) < mp.mpf(10) ** -20
            assert not abs(value - truth() - mp.mpf(10) ** -12) < mp.mpf(10) ** -20
        assert node.rad() < 1e-20


def test_ball_series_reach_as_far_as_asked():
    """Coefficient 15 of √(1 + x) is C(½, 15), not 0: enclosures of remainders rest on it."""
    with balls.precision(100):
        found = coefficients(ball_series(sp.sqrt(1 + Z[0])), arb(0), 16)
        assert found is not None and found[15].overlaps(balls.constant(sp.binomial(sp.S.Half, 15)))
        assert not found[15].contains(0)


def test_forms_at_infinity_keep_their_digits():
    """Terms down to t^-8 leave an error below t^-8 (log t)² at t = 200."""
    t = sp.Symbol("t", positive=True)
    for e in (
        sp.atan(sp.sqrt(t)) * sp.log(1 + t),
        1 / (t - sp.atan(t)),
        sp.asin(2 * t**2 / (1 + 2 * t**2)),
        sp.tanh(sp.log(1 + t**2)),
        sp.exp(-1 / (1 + t)) * sp.sqrt(t**2 + t),
        sp.erf(sp.sqrt(1 + t)) * sp.asinh(t),
    ):
        series = sp.Add(*[c * t**s * sp.log(t) ** m for (s, m), c in normal_form(e, t).terms(sp.Integer(-8)).items()])
        miss = abs(sp.N((series - e).subs(t, 200), 10, maxn=300))
        assert miss < 200 * 200.0**-9 * math.log(200) ** 2 * 50
        with pytest.raises(AssertionError, match="the series misses by"):  # control: one order fewer
            short = normal_form(e, t).terms(sp.Integer(-3))
            series = sp.Add(*[c * t**s * sp.log(t) ** m for (s, m), c in short.items()])
            miss = abs(sp.N((series - e).subs(t, 200), 10, maxn=300))
            assert miss < 200 * 200.0**-9 * math.log(200) ** 2 * 50, f"the series misses by {miss}"


# -------------------------------------------------------------------------------------------- arithmetic of laws


def test_no_term_outlives_the_remainder():
    """1 + K^{-1/2} + O(K^{-1}) plus K^{-2} keeps no K^{-2}; a product with K shifts the remainder; log K/K beats
    O(1/K)."""
    sums = Sums(-1)
    rough = sums.of({(sp.S.Zero, 0): sp.S.One, (-sp.S.Half, 0): sp.S.One}, (-sp.S.One, 0))
    fine = sums.of({(-sp.Integer(2), 0): sp.S.One, (-sp.S.One, 1): sp.S.One})
    total = sums.law(sums.plus(rough, fine))
    assert [(t.power, t.logs) for t in total.terms] == [(0, 0), (-sp.S.Half, 0), (-1, 1)] and total.remainder == -1
    moved = sums.law(sums.times(sums(K), rough))
    assert moved.remainder == 0 and [t.power for t in moved.terms] == [1, sp.S.Half]
    at_0 = Sums(1)
    short = at_0.of({(sp.S.One, 0): sp.S.One, (sp.Integer(3), 0): sp.S.One}, (sp.Integer(2), 0))
    assert [t.power for t in at_0.law(short).terms] == [1]
    logs = sums.law(sums.times(rough, sums.of({(sp.S.Zero, 1): sp.S.One})))
    assert logs.remainder_logs == 1 and "log(K)" in logs.tail_text()


def test_limits_of_laws():
    """A logarithm that leads at power 0 is no finite limit, whatever constant stands behind it."""
    chi = at_infinity(mf.average((sp.asinh(z) + z / sp.sqrt(1 + z**2)) ** 2, K), 1)
    assert chi.leading.logs == 2 and chi.coefficient(0) != 0 and chi.limit == sp.oo
    assert at_infinity(mf.average(sp.tanh(z) ** 2, K), 1).limit == 1
    assert at_infinity(mf.average(1 / (1 + z**2), K), 1).limit == 0
    assert Law(K, sp.S.Zero, (Term(sp.Integer(-2), sp.S.Zero, sp.S.One),)).limit == sp.oo
    assert Law(K, sp.oo, (), sp.S.One).limit is sp.nan


@pytest.mark.slow
def test_sums_whose_leading_orders_cancel():
    """⟨f²⟩ - K for f = z + z/(1+z²) tends to 2; with finitely many orders asked for, no smaller term shows."""
    gain = mf.average((z + z / (1 + z**2)) ** 2, K) - K
    for order in (1, 2, 3):
        law = at_infinity(gain, order)
        assert law.coefficient(0) == 2 and all(t.power > law.remainder for t in law.terms)
    assert_remainder(at_infinity(gain, 2), lambda x: 4 * x * x / (1 + x * x) + 2 * (x / (1 + x * x)) ** 2)


@pytest.mark.slow
def test_quotients_of_averages():
    """⟨atan²⟩/⟨z²/(1+z²)⟩ with logarithms in both, against quadrature; a quotient led by a logarithm is refused."""
    ratio = mf.average(sp.atan(z) ** 2, K) / mf.average((z / (1 + sp.Abs(z))) ** 2, K)
    law = at_infinity(ratio, 1)
    with mp.workdps(25):
        for k in (10**4, 10**6):
            truth = reference(TAILS["atan(z)**2"], k) / reference(TAILS["(z/(1+abs(z)))**2"], k)
            miss = abs(truth - mp.mpf(str(sp.N(law.expr.subs(K, k), 25))))
            assert miss < 60 * mp.log(k) ** 3 * mp.mpf(k) ** float(law.remainder)
            assert miss < 0.01 * abs(truth - mp.pi**2 / 4)
    with pytest.raises(mf.MeanFieldError, match="logarithm leads"):
        at_infinity(1 / mf.average(sp.log(1 + z**2), K), 1)


def test_exponential_factors_are_no_powers():
    """e^{-b²/2K} is smaller than every power as K → 0 and a series in 1/K as K → ∞."""
    factor = sp.exp(-sp.Rational(9, 8) / K) / sp.sqrt(K)
    assert at_zero(factor, 3).terms == () and at_zero(factor, 3).remainder == "exponential"
    law = at_infinity(factor, 3)
    assert law.coefficient(-sp.S.Half) == 1 and law.coefficient(-sp.Rational(3, 2)) == -sp.Rational(9, 8)
    assert law.coefficient(-sp.Rational(5, 2)) == sp.Rational(81, 128)
    found = mf.derive("z if z > 1 else z/2").fixed_points(sigma_w=1, sigma_b=0)
    assert found[0].chi_K.value == sp.Rational(1, 4) and found[0].stability == "stable"
    found = mf.derive("2*z if abs(z) > 2 else z/3").fixed_points(sigma_w=1, sigma_b=0)
    assert found[0].chi_K.value == sp.Rational(1, 9)
    with pytest.raises(mf.MeanFieldError, match="has no power-law expansion"):
        Sums(-1, sp.Integer(3))(sp.exp(K))


def test_exponentially_small_terms_keep_their_factor():
    """K' - K of z/2·1[z<1] + z·1[z>1]: the term K^{-1/2} e^{-1/2K} found by `exponential_at_zero` dominates the
    rest."""
    node = mf.average(formula("z if z > 1 else z/2") ** 2, K)
    lead = exponential_at_zero(node - K / 4)
    assert lead is not None
    ratio = balls.certified((node - K / 4).subs(K, sp.Rational(1, 400)) / lead.expr(K).subs(K, sp.Rational(1, 400)), 15)
    assert abs(float(ratio) - 1) < 0.02


# ------------------------------------------------------------------------------------------------------- signs


@pytest.mark.slow
def test_the_sign_at_infinity_of_nearly_cancelling_maps():
    """z³/(1+z²) at σ_w = 1: K' - K → σ_b² - 2, so the sign turns at σ_b = √2, however close."""
    gain = mf.average((z**3 / (1 + z**2)) ** 2, K) - K
    assert sign_at_infinity(gain + sp.Rational("1.4142135") ** 2) == -1
    assert sign_at_infinity(gain + sp.Rational("1.4142136") ** 2) == 1
    # at σ_b = √2 the next order, positive, decides: 1/(1 + z²) has ∫ > 0
    assert sign_at_infinity(gain + 2) == 1
    truth = [reference(lambda x: 2 * x**6 / (1 + x * x) ** 2 - 2 * x * x + 4, k) for k in (10**4, 10**6)]
    assert all(t > 0 for t in truth)


# -------------------------------------------------------------------------------------------------- depth laws


def gauss(even, k: float) -> float:
    """⟨f⟩_k by the trapezoidal rule in log z: its error is e^{-2π·(π/4)/h}."""
    s = np.arange(-45.0, math.log(10 * math.sqrt(k)), 0.05)
    x = np.exp(s)
    return float(np.sum(even(x) * x * np.exp(-x * x / (2 * k)))) * 0.05 / math.sqrt(2 * math.pi * k)


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def path(gain, log_chi, ks) -> tuple[list[float], list[float]]:
    """l(K) and Σ log χ_J up to constants, from dl = dK/gain: panels of Gauss–Legendre in log K."""
    depths, sums = [0.0], [0.0]
    for a, b in itertools.pairwise(ks):
        ends = np.linspace(math.log(a), math.log(b), 9)
        l_part = j_part = 0.0
        for u, v in itertools.pairwise(ends):
            for x, w in zip(_NODES, _WEIGHTS):
                k = math.exp((u + v) / 2 + (v - u) / 2 * x)
                step = w * (v - u) / 2 * k / gain(k)
                l_part += step
                j_part += step * log_chi(k)
        depths.append(depths[-1] + l_part)
        sums.append(sums[-1] + j_part)
    return depths, sums


def assert_settles(law_k, law_j, gain, log_chi, tolerance, ks=(1e5, 1e7, 1e9)) -> None:
    """K - law(l) and log J - law(l) move by less than `tolerance` from 1e7 to 1e9: only a constant is left out."""
    depths, sums = path(gain, log_chi, ks)
    K_of = sp.lambdify(sp.Symbol("l"), law_k.law.expr.subs(mf.symbols.l, sp.Symbol("l")), "math")
    constant = {depth.CONSTANT: 0, mf.symbols.l: sp.Symbol("l")}
    J_of = sp.lambdify(sp.Symbol("l"), law_j.law.expr.subs(constant), "math")
    # the start of l is where the law gives K = ks[0]
    lo, hi = 1e3, 1e7
    for _ in range(200):
        lo, hi = ((lo + hi) / 2, hi) if K_of((lo + hi) / 2) < ks[0] else (lo, (lo + hi) / 2)
    rest_k = [k - K_of(lo + d) for k, d in zip(ks, depths)]
    rest_j = [s - J_of(lo + d) for s, d in zip(sums, depths)]
    moved = abs(rest_k[2] - rest_k[1]), abs(rest_j[2] - rest_j[1])
    assert moved[0] < tolerance[0] and moved[1] < tolerance[1], f"moved by {moved}"


W, B = 1.3, 0.6
GENERIC = {
    "tanh(z)": (lambda x: 2 * np.tanh(x) ** 2, lambda x: 2 / np.cosh(np.minimum(x, 80.0)) ** 4),
    "z/sqrt(1+z**2)": (lambda x: 2 * x * x / (1 + x * x), lambda x: 2 / (1 + x * x) ** 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("text", GENERIC)
def test_depth_laws_at_generic_sigma(text):
    """μ = 1, σ_w = 1.3, σ_b = 0.6: every coefficient down to log l, against dl = dK/gain."""
    square, slope = GENERIC[text]
    theory = mf.derive(text, residual=True)
    law_k, law_j = (theory.depth_law(q, sigma_w="1.3", sigma_b="0.6") for q in "KJ")

    def gain(k):
        return W * W * gauss(square, k) + B * B

    def log_chi(k):
        return math.log1p(W * W * gauss(slope, k))

    tolerance = (0.1, 5e-4)
    assert_settles(law_k, law_j, gain, log_chi, tolerance)
    for law, broken in ((law_k, 0), (law_j, 1)):  # control: each coefficient of what grows, off by 10 %
        for i, t in enumerate(law.law.terms):
            if t.coefficient == depth.CONSTANT or t.power < 0:
                continue
            terms = list(law.law.terms)
            terms[i] = replace(t, coefficient=t.coefficient * sp.Rational(11, 10))
            wrong = replace(law, terms=tuple(terms))
            laws = (wrong, law_j) if broken == 0 else (law_k, wrong)
            with pytest.raises(AssertionError, match="moved"):
                assert_settles(*laws, gain, log_chi, tolerance)


@pytest.mark.slow
def test_a_map_whose_leading_orders_cancel_has_its_law():
    """z + z/(1+z²) at (1, 1): K ~ 3 l, then -√(6π l)/2 and (1/3 - π/8) log l."""
    theory = mf.derive("z + z/(1+z**2)")
    law_k, law_j = (theory.depth_law(q, sigma_w=1, sigma_b=1) for q in "KJ")
    assert law_k.law.leading.coefficient == 3

    def gain(k):
        return 1 + gauss(lambda x: 4 * x * x / (1 + x * x) + 2 * (x / (1 + x * x)) ** 2, k)

    def log_chi(k):  # φ' - 1 = (1 - x²)/(1 + x²)²
        def more(x):
            slope = (1 - x * x) / (1 + x * x) ** 2
            return 4 * slope + 2 * slope**2

        return math.log1p(gauss(more, k))

    assert_settles(law_k, law_j, gain, log_chi, (0.1, 5e-4))


HALF = sp.S.Half
SYNTHETIC = {  # K' - K and log χ_J as {(power, logs): coefficient}
    "halves": (
        {(0, 0): "17/10", (-HALF, 0): "-9/10", (-1, 0): "4/5", (-3 * HALF, 0): "1/3"},
        {(-HALF, 0): "3/5", (-1, 0): "-7/10", (-3 * HALF, 0): "2"},
    ),
    "halves, other signs": (
        {(0, 0): "3/5", (-HALF, 0): "1/2", (-1, 0): "-2/5"},
        {(-HALF, 0): "-3/10", (-1, 0): "9/10"},
    ),
    "logarithms": (
        {(0, 0): "5/4", (-HALF, 1): "-2/3", (-HALF, 0): "3/7", (-1, 0): "1/5", (-1, 1): "2/9"},
        {(-HALF, 1): "1/3", (-HALF, 0): "1/2", (-1, 1): "-1/4", (-1, 0): "1/6"},
    ),
    "quarters": (
        {(0, 0): "7/5", (-HALF / 2, 0): "2/3", (-HALF, 0): "-1/4", (-1, 0): "1/2"},
        {(0, 0): "-1/9", (-3 * HALF / 2, 0): "1/4", (-1, 0): "1/3"},
    ),
}


def synthetic(name):
    gain, chi = ({(sp.sympify(p), m): sp.Rational(c) for (p, m), c in e.items()} for e in SYNTHETIC[name])
    terms = tuple(Term(c, p, sp.Integer(m)) for (p, m), c in gain.items())
    known = Law(K, sp.oo, terms, -sp.Integer(2))
    found = scaling.path(known)
    # log χ = Σ: the law of χ itself is its exponential, which `_linear_growth_of_j` undoes
    sums = Sums(-1, sp.Integer(2))
    order = sums.law(sums.apply(sp.exp, sums.of(chi, (-sp.Integer(2), 0))))
    return gain, chi, found, depth._linear_growth_of_j(found, order)


def numbers(terms):
    return [(mp.mpf(p.p) / p.q, int(m), mp.mpf(str(sp.N(c, 50)))) for (p, m), c in terms.items()]


def evaluated(terms, x):
    """Σ c x^p (log x)^m in mpmath."""
    return mp.fsum(c * x**p * mp.log(x) ** m for p, m, c in terms)


POWERS = (50, 55, 57, 59)


def solved(gain, chi):
    """(l, log J) at K = e^u for u in POWERS, each from the first on, by dl = dK/gain in panels of Gauss–Legendre."""
    gain, chi = numbers(gain), numbers(chi)
    rows = [(mp.mpf(0), mp.mpf(0))]
    for u, v in itertools.pairwise(POWERS):
        ends = mp.linspace(u, v, 2 * (v - u) + 1)
        values = [
            mp.quad(
                lambda x, f=f: mp.exp(x) / evaluated(gain, mp.exp(x)) * f(mp.exp(x)),
                ends,
                method="gauss-legendre",
                maxdegree=4,
            )
            for f in (lambda _: 1, lambda k: evaluated(chi, k))
        ]
        rows.append((rows[-1][0] + values[0], rows[-1][1] + values[1]))
    return rows


def assert_only_constants_left(rows, K_terms, J_terms, fine) -> None:
    """K and log J minus their laws move by less than 1e-5 from K = e^55 on; with `fine`, log J = law + C + c/√l."""
    K_terms, J_terms = numbers(K_terms), numbers(J_terms)
    start = mp.findroot(lambda l: evaluated(K_terms, l) - mp.exp(POWERS[0]), mp.exp(POWERS[0]))
    left = [
        (start + l, mp.exp(u) - evaluated(K_terms, start + l), j - evaluated(J_terms, start + l))
        for u, (l, j) in zip(POWERS, rows)
    ]
    _, (l2, k2, j2), (l3, k3, j3), (l4, _, j4) = left
    assert abs(k3 - k2) < 1e-5 and abs(j3 - j2) < 1e-5, f"moved by {k3 - k2}, {j3 - j2}"
    if fine:
        slopes = [(b - a) / (1 / mp.sqrt(y) - 1 / mp.sqrt(x)) for x, a, y, b in ((l2, j2, l3, j3), (l3, j3, l4, j4))]
        assert abs(slopes[1] - slopes[0]) < 1e-3, f"moved by {slopes}: a logarithm over √l is missing"


@pytest.mark.slow
@pytest.mark.parametrize("name", SYNTHETIC)
def test_every_term_of_linear_growth(name):
    """Generic coefficients with halves, quarters and logarithms, solved as dl = dK/gain up to K = e^59."""
    gain, chi, found, law_j = synthetic(name)
    K_terms = {(t.power, t.logs): t.coefficient for t in found.x}
    J_terms = {(t.power, t.logs): t.coefficient for t in law_j.law.terms if t.coefficient != depth.CONSTANT}
    fine = name.startswith("halves")
    assert fine == any(p < 0 for p, _ in J_terms)
    with mp.workdps(45):
        rows = solved(gain, chi)
        assert_only_constants_left(rows, K_terms, J_terms, fine)
        for terms, is_k in ((K_terms, True), (J_terms, False)):  # control: any coefficient off by 1 %, log l/√l by 5 %
            for key, c in terms.items():
                wrong = terms | {key: c * (sp.Rational(101, 100) if key[0] >= 0 else sp.Rational(21, 20))}
                with pytest.raises(AssertionError, match="moved"):
                    assert_only_constants_left(rows, *((wrong, J_terms) if is_k else (K_terms, wrong)), fine)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["halves", "halves, other signs"])
def test_the_same_laws_against_plain_iteration(name):
    """4·10^5 layers of K' = K + gain(K): what is left settles, so replacing the recursion by dl = dK/gain lost no
    term."""
    gain, chi, found, law_j = synthetic(name)
    rows, k, total = [], 50.0, 0.0
    floats = [[(float(p), m, float(c)) for (p, m), c in e.items()] for e in (gain, chi)]
    depths = (25_000, 100_000, 400_000)
    for n in range(1, depths[-1] + 1):
        total += sum(c * k**p for p, _, c in floats[1])
        k += sum(c * k**p for p, _, c in floats[0])
        if n in depths:
            rows.append((k, total))

    def value(terms, n):
        return sum(
            float(t.coefficient) * n ** float(t.power) * math.log(n) ** int(t.logs)
            for t in terms
            if t.coefficient != depth.CONSTANT
        )

    left = [(k - value(found.x, n), j - value(law_j.law.terms, n)) for n, (k, j) in zip(depths, rows)]
    limits = [(2 * b[0] - a[0], 2 * b[1] - a[1]) for a, b in itertools.pairwise(left)]  # C + c/√l over l → 4 l
    moved = abs(limits[1][0] - limits[0][0]), abs(limits[1][1] - limits[0][1])
    assert moved[0] < 0.02 and moved[1] < 0.005, f"moved by {moved}"


@pytest.mark.slow
def test_the_symbolic_log_coefficients_agree_with_elementary_integrals(monkeypatch):
    """tanh at μ = 1: ⟨tanh²⟩ = 1 - 2/√(2πK) + …, ⟨sech⁴⟩ = (4/3)/√(2πK) + …, so g₁ = -2σ_w²/√(2π), g₂ = 0,
    e₁ = 4σ_w²/(3√(2π)), e₂ = -e₁²/2, s = σ_w² + σ_b²; log l of K: g₂/s - g₁²/s²; of J: e₂/s - e₁g₁/s²; log l/√l:
    e₁(g₂/s - g₁²/s²)/s^{3/2}."""
    w, b = sp.Rational(7, 5), sp.Rational(1, 3)
    s, g1 = w**2 + b**2, -2 * w**2 / sp.sqrt(2 * sp.pi)
    e1 = 4 * w**2 / (3 * sp.sqrt(2 * sp.pi))

    def assert_coefficients():
        theory = mf.derive("tanh", residual=True)
        law_k, law_j = (theory.depth_law(q, sigma_w=w, sigma_b=b) for q in "KJ")
        kappa = -(g1**2) / s**2
        log_k = next(t.coefficient for t in law_k.law.terms if t.logs == 1)
        assert sp.simplify(log_k - kappa) == 0, f"log K has {log_k}, not {kappa}"
        assert sp.simplify(law_j.exponent - (-(e1**2) / 2 / s - e1 * g1 / s**2)) == 0
        last = next(t.coefficient for t in law_j.law.terms if t.logs == 1 and t.power == -sp.S.Half)
        assert sp.simplify(last - e1 * kappa / s ** sp.Rational(3, 2)) == 0
        assert law_j.law.remainder == -sp.S.Half

    assert_coefficients()
    right = scaling.growing

    def planted(*args, **options):
        return {key: c.scaled(fmpq(2)) if key[2] else c for key, c in right(*args, **options).items()}

    monkeypatch.setattr(scaling, "growing", planted)
    with pytest.raises(AssertionError, match="log K has"):
        assert_coefficients()


def assert_power_growth(c: sp.Rational, p: sp.Rational, m: int) -> None:
    """l = ∫ dK/(c K^p (log K)^m) at log K = 10^6 and 10^7, in logarithms: the law's K has the logarithm's K but for
    O(log log K)·… relative to log K, and exactly so for m = 0."""
    law = depth._power_growth(Term(c, p, sp.Integer(m)), "K").law
    lead = law.leading
    with mp.workdps(40):
        for u in (mp.mpf(10) ** 6, mp.mpf(10) ** 7):
            r = 1 - mp.mpf(p.p) / p.q
            # ∫ e^{ru} u^{-m} du = e^{ru} u^{-m}/r · (1 + m/(ru) + …)
            series = mp.fsum(mp.rf(m, j) / (r * u) ** j for j in range(8))
            log_l = r * u - m * mp.log(u) + mp.log(series / r) - mp.log(mp.mpf(c.p) / c.q)
            log_k = (
                mp.log(mp.mpf(str(sp.N(lead.coefficient, 40))))
                + mp.mpf(str(sp.N(lead.power, 40))) * log_l
                + mp.mpf(str(sp.N(lead.logs, 40))) * mp.log(log_l)
            )
            assert abs(log_k - u) < 30 * m * mp.log(u) / u + mp.mpf(10) ** -30, f"log K is {log_k}, not {u}"


@pytest.mark.parametrize("m", [0, 1, 2])
@pytest.mark.parametrize(("c", "p"), [("7/3", "1/2"), ("2/5", "-1/2"), ("9/4", "0"), ("5/7", "1/4")])
def test_power_growth_at_generic_coefficients(c, p, m):
    assert_power_growth(sp.Rational(c), sp.Rational(p), m)


def test_control_power_growth(monkeypatch):
    right = depth._power_growth
    for factor, power, logs in ((sp.Rational(11, 10), 0, 0), (1, sp.Rational(1, 100), 0), (1, 0, 1)):

        def planted(lead, quantity, factor=factor, power=power, logs=logs):
            law = right(lead, quantity)
            t = law.law.leading
            wrong = Term(t.coefficient * factor, t.power + power, t.logs + logs)
            return replace(law, terms=(wrong,))

        monkeypatch.setattr(depth, "_power_growth", planted)
        with pytest.raises(AssertionError, match="log K is"):
            assert_power_growth(sp.Rational(7, 3), sp.S.Half, 1)


@pytest.mark.slow
def test_power_growth_of_a_whole_theory():
    """z + atan(z) at (1, σ_b): the gain is 2⟨z atan z⟩ + … ~ √(2πK), so K ~ π l²/2; followed to K = 10^12."""
    law = mf.derive("z + atan(z)").depth_law("K", sigma_w=1, sigma_b="1/2").law

    def gain(k):
        return 0.25 + gauss(lambda x: 4 * x * np.arctan(x) + 2 * np.arctan(x) ** 2, k)

    depths, _ = path(gain, lambda k: 0.0, (1e2, 1e6, 1e12))
    assert abs(float(law.leading.coefficient) * depths[-1] ** float(law.leading.power) / 1e12 - 1) < 1e-3
    # after π l²/2 and its l log l only a constant times l is left
    theory = mf.derive("z + atan(z)")
    settings = {"sigma_w": 1.0, "sigma_b": 0.5, "every_layer": False}
    left = []
    for n in (10**4, 10**5, 10**6):
        left.append((float(theory.propagate(depth=n, **settings).K[0]) - float(law.at(n))) / n)
    assert abs(left[2] - left[1]) < 1e-3 and abs(left[1] - left[0]) < 1e-2, left
    assert not abs(1.01 * float(law.leading.coefficient) * depths[-1] ** 2 / 1e12 - 1) < 1e-3


def test_laws_with_a_skip_strength():
    """μ ≠ 1: the growth rate of K is log(μ² + σ_w²/2) for ReLU, at generic values."""
    law = mf.derive("relu", mu="mu").depth_law("K", sigma_w="1.1", sigma_b="0.3", mu="0.9")
    assert sp.simplify(law.rate - sp.log(sp.Rational("0.81") + sp.Rational("1.21") / 2)) == 0


def test_an_undecided_leading_order_is_refused():
    """Where every known order cancels there is no law, rather than the next term that happens to stand."""
    law = Law(K, sp.oo, (), -sp.S.Half)
    with pytest.raises(mf.MeanFieldError, match="cancel"):
        _refuse(law)


def _refuse(law):
    original = depth.at_infinity
    try:
        depth.at_infinity = lambda *_: law
        return depth._gain_at_infinity(K)
    finally:
        depth.at_infinity = original
