"""Laws where χ_K = 1 at a K* > 0: K comes there by a power of l, from one side or from both. Against iterations by
hand: maps written out from Gaussian moments, which share nothing with the library."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import Solution, Status
from meanfield.base.symbols import K, Z, l
from meanfield.numeric.phases.correlations import CorrelationPoint
from meanfield.symbolic.asymptotics.depth import _at_fixed_point
from meanfield.symbolic.asymptotics.schedules.stationary_variance import attractors
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.criticality.chaotic_laws import inside_law
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoint, _with_orders
from meanfield.symbolic.fixed_points.certified_roots import RootInterval
from meanfield.symbolic.fixed_points.half_line import Zeros
from meanfield.symbolic.fixed_points.marginality import is_contracting, multiple_root, order_of

R = sp.Rational
C = sp.Symbol("C", real=True)
#: coefficients of φ, σ_w², σ_b²: K* = 1 is a triple root of K' = K; c.f. `moments`
TRIPLE = ((R(-39, 70), R(17, 5), R(-27, 10), R(-3, 10), R(7, 50), R(1, 50)), R(875, 23069), R(72951, 645932))
DOUBLE = ((R(1), R(-1, 2), R(1, 4), R(-1, 8)), R(64, 165), R(2, 165))
CRITICAL = ((R(3), R(-27, 2), R(-3), R(-1), R(0), R(1, 10)), R(1, 267), R(38, 445))  # χ_J = 1, too


def formula(coefficients) -> str:
    return "+".join(f"({c})*z**{i}" for i, c in enumerate(coefficients))


def moments(coefficients, slope: bool = False) -> np.ndarray:
    """⟨φ²⟩ (or ⟨φ′²⟩) as a polynomial in K, of the highest power first: ⟨z^{2i}⟩ = (2i - 1)!! K^i."""
    p = np.polynomial.Polynomial([float(c) for c in coefficients])
    square = ((p.deriv() if slope else p) ** 2).coef
    return np.array([c * math.prod(range(1, 2 * i, 2)) for i, c in enumerate(square[::2])])[::-1]


def theory(case):
    coefficients, w, b = case
    return mf.derive(formula(coefficients)), {"sigma_w": sp.sqrt(w), "sigma_b": sp.sqrt(b)}


def walked(case, norm, marks) -> list[tuple[float, float, float]]:
    """(K, log J, Θ) at layers, Θ' = χ_J Θ + K'."""
    coefficients, w, b = case
    square, slope = moments(coefficients) * float(w), moments(coefficients, True) * float(w)
    k = theta = float(w * norm + b)
    log_j, out = 0.0, []
    for layer in range(1, marks[-1] + 1):
        if layer in marks:
            out.append((k, log_j, theta))
        total = chi = 0.0
        for c in square:
            total = total * k + c
        for c in slope:
            chi = chi * k + c
        k, log_j = total + float(b), log_j + math.log(chi)
        theta = chi * theta + k
    return out


MARKS = (2500, 10_000, 40_000)


@pytest.mark.slow
@pytest.mark.parametrize("norm", [R(9, 10), R(500)])
def test_K_and_J_at_a_triple_root_come_from_both_sides(norm):
    found, place = theory(TRIPLE)
    if norm == 500:
        norm = (R(11, 10) - TRIPLE[2]) / TRIPLE[1]  # K¹ = 1.1
    k, j = (found.depth_law(q, input_norm=norm, **place) for q in ("K", "J"))
    assert k.status is Status.EXACT and k.remainder == "smaller" and k.terms[1].power == -R(1, 2)
    assert j.status is Status.CERTIFIED and "chi_K = 1" in k.regime
    path = walked(TRIPLE, norm, MARKS)
    law = sp.lambdify(l, k.law.expr)
    left = [(x - law(n)) * n**1.5 for n, (x, _, _) in zip(MARKS, path)]
    assert left[2] == pytest.approx(left[1], rel=0.1)  # what depends on the start falls as l^{-3/2}
    wrong = [x + 0.01 * float(k.terms[1].coefficient) * n for x, n in zip(left, MARKS)]
    assert wrong[2] != pytest.approx(wrong[1], rel=0.1)
    logs = sp.lambdify(l, j.law.expr.subs(C, 0))
    miss = [x - logs(n) for n, (_, x, _) in zip(MARKS, path)]
    assert abs(miss[2] - miss[1]) < 15  # of -1.8 √l, which alone is -180 between them
    plain = [x - float(j.rate) * n for n, (_, x, _) in zip(MARKS, path)]
    assert abs(plain[2] - plain[1]) > 150


@pytest.mark.slow
def test_c_and_gamma_inherit_the_powers_of_J():
    found, place = theory(TRIPLE)
    j, c, gamma = (found.depth_law(q, input_norm=R(9, 10), **place) for q in ("J", "c", "gamma"))
    assert len(j.slower) == 1 and j.slower[0][1] == R(1, 2) and j.exponent > 0
    gap = c.terms[1]
    assert (gap.power, gap.rate, gap.slower) == (j.exponent, j.rate, j.slower) and c.terms[0].coefficient == 1
    assert gamma.terms[0].slower == tuple((-r, s) for r, s in j.slower) and gamma.leading.power == -j.exponent
    # 1 - c by Hermite coefficients of φ(√K x), logarithms carried
    coefficients, w, b = TRIPLE
    x, weight = np.polynomial.hermite_e.hermegauss(12)
    weight = weight / weight.sum()
    hermite = np.polynomial.hermite_e.hermeval
    basis = np.array([hermite(x, np.eye(6)[k]) / math.sqrt(math.factorial(k)) for k in range(6)])
    phi = np.polynomial.Polynomial([float(e) for e in coefficients])
    k, log_gap, marks, seen = float(w * R(9, 10) + b), math.log(0.7), (1000, 4000), []
    for layer in range(1, marks[-1] + 1):
        if layer in marks:
            seen.append(log_gap)
        a2 = (basis @ (weight * phi(math.sqrt(k) * x))) ** 2
        deeper = float(w) * a2.sum() + float(b)
        gap = math.exp(log_gap)
        grown = sum(-a2[i] * math.expm1(i * math.log1p(-gap)) / gap if gap > 1e-14 else i * a2[i] for i in range(1, 6))
        log_gap += math.log(float(w) * grown / deeper)
        k = deeper
    falls = sum(t.expr(l) for t in j.terms if t.power < 0)  # what is left out of c, known from J

    def told(n, term):
        rates = sum(float(r) * n ** float(s) for r, s in term.rates)
        return float(term.power) * math.log(n) + rates + float(falls.subs(l, n))

    change, whole = seen[1] - seen[0], c.terms[1]
    assert abs(told(4000, whole) - told(1000, whole) - change) < 12
    lone = replace(whole, slower=())
    assert abs(told(4000, lone) - told(1000, lone) - change) > 40


@pytest.mark.slow
def test_theta_and_V_at_a_triple_root():
    found, place = theory(TRIPLE)
    laws = {q: found.depth_law(q, input_norm=R(9, 10), **place) for q in ("Theta", "V")}
    assert laws["Theta"].limit == R(46138, 4173) and laws["Theta"].remainder == -R(3, 2)
    law = sp.lambdify(l, laws["Theta"].law.expr)
    left = [(x - law(n)) * n**1.5 / math.log(n) for n, (_, _, x) in zip(MARKS, walked(TRIPLE, R(9, 10), MARKS))]
    assert max(map(abs, left)) < 9000 and abs(left[2] - left[1]) < abs(left[1] - left[0])
    # V' = χ_K² V + σ_w⁴(⟨φ⁴⟩ - ⟨φ²⟩²): what is left over the law is one constant of the start, C_K
    coefficients, w, b = TRIPLE
    square = moments(coefficients) * float(w)
    steep, fourth = np.polyder(square), moments(np.convolve(*[[float(c) for c in coefficients]] * 2)) * float(w) ** 2
    k, v, starts = float(w * R(9, 10) + b), 0.0, []
    e, start = laws["V"].law.expr, sp.Symbol("C_K", real=True)
    front = e.coeff(start)
    bare = sp.lambdify(l, e.subs(start, 0))
    for n in range(1, MARKS[2] + 1):
        if n in MARKS[1:]:
            starts.append((v / k**2 - bare(n)) / float(front))
        grown = np.polyval(square, k)
        k, v = grown + float(b), np.polyval(steep, k) ** 2 * v + np.polyval(fourth, k) - grown**2
    assert abs(starts[1] - starts[0]) < 60  # it comes to rest as log(l)/√l
    lead = float(e.coeff(l, 1).subs(start, 0) if e.coeff(l, 1).is_number else front)
    assert abs(starts[1] - starts[0] - 0.01 * lead * (MARKS[2] - MARKS[1]) / float(front)) > 200


def map_of(F: sp.Expr) -> sp.Expr:
    """φ with ⟨φ²⟩_K = F(K), a polynomial: the root of Σ c_i z^{2i}/(2i - 1)!!."""
    return sp.sqrt(sum(c * Z[0] ** (2 * i) / sp.factorial2(2 * i - 1) for (i,), c in sp.Poly(sp.expand(F), K).terms()))


@pytest.mark.slow
def test_a_quintuple_root():
    F = K - (K - 1) ** 5 * (1 - K / 2) / 50
    law = mf.derive(map_of(F)).depth_law("K", sigma_w=1, sigma_b=0, input_norm=R(1, 2))
    assert law.status is Status.EXACT and law.terms[1].expr(l) == -sp.sqrt(5) / l ** R(1, 4)
    f, k, left = sp.lambdify(l, law.law.expr), 0.5, []
    for n in range(1, 10**5 + 1):
        if n in (10**3, 10**4, 10**5):
            left.append((k - f(n)) * n**1.25)
        k = k - (k - 1) ** 5 * (1 - k / 2) / 50
    assert left[2] == pytest.approx(left[1], rel=0.1)
    assert left[2] + 0.01 * 5**0.5 * 10**5 != pytest.approx(left[1] + 0.01 * 5**0.5 * 10**4, rel=0.1)


@pytest.mark.slow
def test_a_skip_keeps_the_order_of_the_root():
    F = sp.expand(K - (K - 1) ** 3 * (1 - K / 2) / 20 - K / 4)
    found = mf.derive(map_of(F), residual=True, mu="1/2")
    law = found.depth_law("K", sigma_w=1, sigma_b=0, input_norm=R(1, 2))
    assert law.terms[1].expr(l) == -2 * sp.sqrt(5) / sp.sqrt(l) and law.status is Status.EXACT
    above = found.depth_law("K", sigma_w=1, sigma_b=0, input_norm=R(3, 2))
    assert above.terms[1].coefficient == 2 * sp.sqrt(5)


def test_a_half_stable_point_with_another_chi_J():
    """K = 1 - 55/(27 l) + …, and J ~ C χ^l l^p with p = (slope of log χ_J)·55/27."""
    found, place = theory(DOUBLE)
    start = (R(9, 10) - DOUBLE[2]) / DOUBLE[1]
    k, j = (found.depth_law(q, input_norm=start, **place) for q in ("K", "J"))
    assert k.terms[1].expr(l) == -R(55, 27) / l
    steep = np.poly1d(moments(DOUBLE[0], True))
    power = -float(steep.deriv()(1) / steep(1)) * 55 / 27
    assert float(j.exponent) == pytest.approx(power, rel=1e-12) != pytest.approx(1.001 * power, rel=1e-12)
    assert sp.expand(j.expr / (C * l**j.exponent * sp.exp(j.rate * l))) == 1 and j.is_whole


def test_what_starts_at_the_root_stays():
    found, place = theory(DOUBLE)
    start = (1 - DOUBLE[2]) / DOUBLE[1]
    k, j = (found.depth_law(q, input_norm=start, **place) for q in ("K", "J"))
    assert k.law == mf.Law(l, sp.oo, k.terms, "zero") and k.at(7) == 1 and "stays" in k.regime
    assert float(j.at(1)) == 0 and j.remainder == "zero"
    assert found.depth_law("K", input_norm=start - R(1, 100), **place).remainder == "smaller"


@pytest.mark.slow
def test_a_critical_point_of_third_order_attracts_from_both_sides():
    found, place = theory(CRITICAL)
    point, *others = found.critical_points()
    assert (point.kind, point.order, point.zeta_K) == ("stable", 3, R(1, 2)) and point.K.value == 1
    assert point.c_n.value == R(5, 89) and point.A.value == sp.sqrt(R(89, 10)) and point.zeta is None
    assert others[0].kind == "half-stable" and others[0].law_K is not None and "both" not in others[0].side
    law = found.depth_law("J", input_norm=100, **place)
    assert law.rate_power == R(1, 2) and law.rate == -4 * sp.sqrt(890) / 89  # d log χ_J/dK·2A, from below
    slope = moments(CRITICAL[0], True)
    steep = float(np.poly1d(slope).deriv()(1) / np.poly1d(slope)(1))
    rate = -2 * math.sqrt(8.9) * steep
    assert float(law.rate) == pytest.approx(rate) != pytest.approx(0.99 * rate)


def near(error: float | None, chi: object, status=Status.CERTIFIED) -> FixedPoint:
    value = Solution(sp.Float("0.25", 20), status, error)
    steep = Solution(sp.Float("0.9", 20), Status.CERTIFIED, 1e-18)
    return FixedPoint(value, steep, Solution(sp.sympify(chi), Status.CERTIFIED, 1e-13), "stable", (sp.S.Zero, sp.oo))


def test_undecided_whether_chi_K_is_one_is_no_exponential():
    open_, settled = near(1e-15, sp.Float(1, 20)), near(1e-15, sp.Float("0.5", 20))
    assert open_.is_exponential is None and settled.is_exponential is True
    for quantity in ("K", "J"):
        law = _at_fixed_point(open_, quantity)
        assert law.status is Status.UNKNOWN and law.remainder == "smaller" and "not decided" in law.regime
        assert _at_fixed_point(settled, quantity).status is not Status.UNKNOWN
    assert _at_fixed_point(settled, "K").remainder == "exponential"
    o = sp.Function("o")
    assert _at_fixed_point(open_, "J").expr.has(o) and not _at_fixed_point(settled, "J").expr.has(o)
    slow = _at_fixed_point(near(1e-15, sp.Float("0.99999999999", 20)), "K")  # 10^11 layers
    assert "layers" in slow.regime and "layers" not in _at_fixed_point(settled, "K").regime


CONTRACTS = [(1, False), ("1.5", False), ("-1", False), ("-0.3", True), ("0.999", True)]


@pytest.mark.parametrize(("chi", "contracts"), CONTRACTS)
def test_contraction(chi, contracts):
    exact = Solution(sp.Rational(chi), Status.EXACT)
    assert is_contracting(exact) is contracts


def test_a_triple_root_of_exponentials_is_proved():
    """⟨(sin² z + z/2)²⟩ = 3/8 - e^{-2K}/2 + e^{-8K}/8 + K/4 turns at K = log(2)/3: no digits say so."""
    square = R(3, 8) - sp.exp(-2 * K) / 2 + sp.exp(-8 * K) / 8 + K / 4
    star = sp.log(2) / 3
    s = 1 / (R(1, 4) + R(3, 4) * 4 ** -R(1, 3))
    gain = s * (square - square.subs(K, star)) + star - K
    root = RootInterval(R("0.2310490601866"), R("0.2310490601867"), rising=False)
    assert multiple_root(gain, gain.diff(K) + 1, root) == star and order_of(gain, star) == 3
    found = _with_orders(gain, gain.diff(K) + 1, Zeros((root,), 3, 1, -1, sp.S.Zero, sp.oo, False, False, "a pair"))
    assert found.complete and found.roots[0].exact == star  # of order 3, it counts three times
    more = _with_orders(gain, gain.diff(K) + 1, Zeros((root,), 5, 1, -1, sp.S.Zero, sp.oo, False, False, "a pair"))
    assert not more.complete
    tilted = gain + (K - star) / 10**40
    assert multiple_root(tilted, tilted.diff(K) + 1, root) is None


def test_a_place_of_rest_of_higher_order_has_no_law():
    """S⟨φ²⟩_q - d q = -(q - 1)³(1 - q/2)/20: q → 1 by a power of log l."""
    square = average(sp.expand(map_of(K / 2 - (K - 1) ** 3 * (1 - K / 2) / 40) ** 2), K)
    (flat, *_) = attractors(square, sp.S.One, sp.S.Zero, R(1, 2))
    assert flat.K.value == 1 and flat.is_exponential is False
    tilted = average(sp.expand(map_of(K / 2 - (K - 1) * (2 - K) / 40) ** 2), K)
    (steep, *_) = attractors(tilted, sp.S.One, sp.S.Zero, R(1, 2))
    assert steep.K.value == 1 and steep.is_exponential is True


@pytest.mark.slow
def test_one_is_one_in_any_writing():
    """χ_K at K* = 0 is 1 for σ_w = √(3 + 2√2) - √2, too."""
    plain, nested = (mf.derive("tanh").depth_law("J", sigma_w=s, sigma_b=0) for s in ("1", "sqrt(3+2*sqrt(2))-sqrt(2)"))
    assert nested.exponent == plain.exponent == -1 and nested.rate == 0
    assert mf.derive("tanh").depth_law("J", sigma_w="0.99", sigma_b=0).rate != 0


@pytest.mark.slow
def test_c_where_J_is_a_stretched_exponential_below():
    found, place = theory(CRITICAL)
    assert found.depth_law("c", input_norm=100, **place).terms[1].rate_power == R(1, 2)


def gaps(case, mu2: float, k: float, marks) -> list[float]:
    """1 - c at layers, by Hermite coefficients of φ(√K x), from 1 - c = 0.8."""
    coefficients, w, b = case
    n, weights, bias = len(coefficients), float(w), float(b)
    hermite = [np.polynomial.hermite_e.poly2herme([0] * i + [1]) for i in range(n)]
    shares = np.zeros((n, n))  # of z^i in He_j
    for i, h in enumerate(hermite):
        shares[i, : i + 1] = float(coefficients[i]) * h
    size, powers = np.sqrt([math.factorial(i) for i in range(n)]), np.arange(n)
    gap, out = 0.8, []
    for layer in range(1, marks[-1] + 1):
        if layer in marks:
            out.append(gap)
        a2 = ((math.sqrt(k) ** powers) @ shares * size) ** 2
        deeper = mu2 * k + weights * a2.sum() + bias
        gap *= (mu2 * k + weights * (a2 * (1 - (1 - gap) ** powers)).sum() / gap) / deeper
        k = deeper
    return out


def test_c_follows_K_to_one_where_chi_J_falls_to_one_from_above():
    """φ of order 4 behind a skip of 1/2: χ_J = χ_K = 1 and F″ = 0 at K* = 1, χ_J > 1 above. 1 - c ~ 1.51/√l."""
    case = ((R(-3, 10), R(-8, 5), R(9, 5), R(0), R(-1, 10)), R(75, 928), R(81, 464))
    found = mf.derive(formula(case[0]), residual=True, mu="1/2")
    place = {"sigma_w": sp.sqrt(case[1]), "sigma_b": sp.sqrt(case[2]), "input_norm": (R(21, 20) - case[2]) / case[1]}
    c, gamma, distance = (found.depth_law(q, **place) for q in ("c", "gamma", "distance"))
    assert "chi_J falls to 1 from above" in c.regime and gamma.leading.power == R(1, 2)
    size = -c.terms[1].coefficient
    assert c.terms[1].power == -R(1, 2) and distance.leading.coefficient == 2 * size
    assert sp.simplify(gamma.leading.coefficient * size) == 1
    first, second = (g * math.sqrt(n) for g, n in zip(gaps(case, 0.25, 1.05, (5000, 20_000)), (5000, 20_000)))
    assert 3 < (1 - first / size) / (1 - second / size) < 4 and second < size  # falls as log(l)/l
    for wrong in (0.95, 1.05):
        assert not 3 < (1 - first / (wrong * size)) / (1 - second / (wrong * size)) < 4


def test_c_settles_no_faster_than_K():
    """Beside a c* < 1 whose K has χ_K = 1, or undecided, no exponential is stated."""

    class Found:
        stable = CorrelationPoint(0.25, 0.5, "stable")

    recursion = mf.derive("tanh").equal_norms
    for chi, status, left in ((sp.S.One, Status.MEASURED, "smaller"), (sp.Float(1, 20), Status.UNKNOWN, "smaller")):
        star = replace(near(1e-15, chi), chi_K=Solution(chi, Status.CERTIFIED, None if chi == sp.S.One else 1e-13))
        law = inside_law(recursion, "c", star, Found())
        assert (law.status, law.remainder, law.limit) == (status, left, sp.Float(0.25, 15))
    law = inside_law(recursion, "c", near(1e-15, sp.Float("0.2", 20)), Found())
    assert float(law.rate) == pytest.approx(math.log(0.5))
