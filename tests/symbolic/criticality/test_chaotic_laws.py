"""How c settles below 1 where K overshoots its fixed point (χ_K < 0): against iteration by closed Gaussian moments."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import sympy as sp
from mpmath import mp

import meanfield as mf
from meanfield.base.answers.results import Solution, Status
from meanfield.base.symbols import K, K_ab, Z, l
from meanfield.numeric.phases.correlations import CorrelationPoint
from meanfield.symbolic.asymptotics.depth import DepthLaw
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.criticality import chaotic_laws
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoint
from meanfield.theory.verbs import laws

C, C_1 = sp.Symbol("C", real=True), sp.Symbol("C_1", real=True)
THEORY = mf.derive("z*exp(-z**2)")


def layer(w: str, b: str, K, c):
    """K and c of z e^{-z²} at the next layer: its products under a Gaussian are moments of another Gaussian."""
    w2, b2 = mp.mpf(w) ** 2, mp.mpf(b) ** 2
    d = K * K * (1 - c * c)
    p, q = K / d + 2, -c * K / d
    inside = p * p - q * q
    after = w2 * K / (1 + 4 * K) ** mp.mpf(1.5) + b2
    return after, (w2 * (-q / inside) / mp.sqrt(inside * d) + b2) / after


def iterated(w: str, b: str, layers: int = 150):
    """(c at layers 1, 2, … of orthogonal inputs of norm 1, K*, the slope of c′ at c*)."""
    with mp.workdps(90):
        K = mp.mpf(w) ** 2 + mp.mpf(b) ** 2
        c, out = mp.mpf(b) ** 2 / K, []
        for _ in range(layers):
            out.append(c)
            K, c = layer(w, b, K, c)
        return np.array(out), K, mp.diff(lambda x: layer(w, b, K, x)[1], c)


def law(monkeypatch, quantity: str, w: str, b: str) -> tuple[DepthLaw, np.ndarray]:
    """The engine's law, and c by iteration, which stands for `correlations` (its loop would be compiled), too."""
    c, _, slope = iterated(w, b)
    stable = CorrelationPoint(float(c[-1]), float(slope), "stable")
    monkeypatch.setattr(laws, "correlations_of", lambda *a, **k: SimpleNamespace(stable=stable, message=""))
    return THEORY.depth_law(quantity, sigma_w=w, sigma_b=b), c


def ratios_of(law: sp.Expr, first: int, last: int) -> list[float]:
    """By how much the law's deviation from its limit is multiplied in a layer."""
    end = law.subs({C: 0, C_1: 0})
    return [float((law.subs(l, n + 1) - end) / (law.subs(l, n) - end)) for n in range(first, last)]


def assert_settles(law: sp.Expr, c: np.ndarray, first: int = 60, last: int = 64) -> None:
    assert float(law.subs({C: 0, C_1: 0})) == pytest.approx(float(c[-1]), rel=1e-12)
    with mp.workdps(90):
        right = [float((c[n] - c[-1]) / (c[n - 1] - c[-1])) for n in range(first, last)]
    assert ratios_of(law, first, last) == pytest.approx(right, rel=1e-5), "not these ratios"


@pytest.mark.slow
@pytest.mark.parametrize(("w", "b", "sign"), [("6", "0.5", -1), ("5", "0.3", -1), ("3", "0.5", 1)])
def test_c_settles_as_the_slower_of_c_and_K_with_its_sign(w, b, sign, monkeypatch):
    """At (6, 1/2) χ_K = -0.336 outlasts the slope 0.148 of c; at (3, 1/2) the slope 0.394 outlasts χ_K = -0.161."""
    found, c = law(monkeypatch, "c", w, b)
    assert_settles(found.expr, c)
    assert found.status is Status.MEASURED and ("alternate sides" in found.regime) == (sign < 0)
    with mp.workdps(90):
        gamma = c / (1 - c)
    assert_settles(law(monkeypatch, "gamma", w, b)[0].expr, gamma)
    end = found.expr.subs(C, 0)
    for planted in ((-1) ** l, sp.Rational(10001, 10000) ** l):
        with pytest.raises(AssertionError, match="not these ratios"):
            assert_settles(end + (found.expr - end) * planted, c)


def test_a_tie_of_opposite_signs_keeps_both_constants(monkeypatch):
    """At σ_w = 4.154… χ_K = -slope: c - c* is (C + C₁ (-1)^l) e^{-rate l}, whose constants an iteration gives."""
    found, c = law(monkeypatch, "c", "4.15432690304153414", "0.5")
    assert found.terms[-1].coefficient.free_symbols == {C, C_1, l} and "as fast as c" in found.regime
    assert float(found.rate) == pytest.approx(math.log(0.2529342765772884664), rel=1e-12)
    with mp.workdps(90):
        left = ((c[:60] - c[-1]) * np.array([mp.exp(-found.rate * n) for n in range(1, 61)])).astype(float)
    even, odd = left[41:60:2], left[40:59:2]
    assert np.ptp(even) < 1e-6 * abs(even[-1]) and np.ptp(odd) < 1e-6 * abs(odd[-1])
    for sign in (1, -1):  # with one constant they would agree, or be opposite
        assert abs(even[-1] - sign * odd[-1]) > 0.05 * abs(even[-1])


def inside(slope: float, chi_K: Solution):
    """The law where c has this slope at c* = 1/5, and K this χ_K."""
    stable = CorrelationPoint(0.2, slope, "stable")
    star = FixedPoint(Solution(sp.S.One, Status.CERTIFIED), Solution(sp.S(2), Status.CERTIFIED), chi_K, "stable")
    return chaotic_laws.inside_law(THEORY.equal_norms, "c", star, SimpleNamespace(stable=stable, message=""))


def test_ties_of_one_sign_and_unknown_rates_are_refused():
    def of(value: float, error: float = 1e-20) -> Solution:
        return Solution(sp.Float(value, 20), Status.CERTIFIED, error)

    with pytest.raises(mf.MeanFieldError, match=r"equally fast here, to rounding \(slope of c 0.3, chi_K 0.3\)"):
        inside(0.3, of(0.3))
    with pytest.raises(mf.MeanFieldError, match="equally fast"):
        inside(0.3, of(0.301, 0.01))  # the error of χ_K covers the tie
    assert float(inside(0.3, of(0.301)).rate) == pytest.approx(math.log(0.301))
    assert float(inside(0.3, of(-0.299)).rate) == pytest.approx(math.log(0.3))
    assert float(inside(0.3, of(1.7)).rate) == pytest.approx(math.log(0.3))  # K repels: it started at its fixed point
    unknown = inside(0.3, Solution(sp.nan, Status.UNKNOWN, None, "no law"))
    assert unknown.status is Status.UNKNOWN and "whether chi_K is 1 is not decided" in unknown.regime
    with pytest.raises(mf.MeanFieldError, match="the map is flat there"):
        inside(0.0, of(0.0))
    assert float(inside(0.0, of(-0.4)).rate) == pytest.approx(math.log(0.4))


@pytest.mark.slow
def test_the_depth_over_which_K_relaxes_under_a_negative_slope():
    """ξ_K = 1/|log |χ_K||, with χ_K of K′ = σ_w² K (1 + 4K)^{-3/2} + σ_b²."""
    for w, b in ((6.0, 0.5), (4.0, 0.5), (1.5, 0.5)):
        (point,) = THEORY.fixed_points(sigma_w=w, sigma_b=b)
        K = float(point.K.value)
        slope = w * w * (1 - 2 * K) / (1 + 4 * K) ** 2.5
        assert float(point.chi_K.value) == pytest.approx(slope, rel=1e-12)
        assert point.xi_K == pytest.approx(1 / abs(math.log(abs(slope))), rel=1e-12)
        assert point.xi_K != pytest.approx(1 / abs(math.log(abs(slope * 1.01))), rel=1e-12)


def test_c_settles_by_its_own_slope_where_K_starts_at_its_fixed_point(monkeypatch):
    """K* = 2 at σ_w² = 189/8, σ_b = 1/2, and K is 2 at layer 1: χ_K = -7/24 has nothing to act on."""
    w, b = sp.sqrt(sp.Rational(189, 8)), sp.S.Half
    with mp.workdps(40):
        number = mp.sqrt(mp.mpf(189) / 8)
        c, seen = mp.mpf("0.125"), []
        for _ in range(40):
            seen.append(c)
            K, c = layer(number, "0.5", mp.mpf(2), c)
            assert abs(K - 2) < 1e-35
        ratio = float((seen[25] - c) / (seen[24] - c))
    stable = CorrelationPoint(float(c), ratio, "stable")
    monkeypatch.setattr(laws, "correlations_of", lambda *a, **k: SimpleNamespace(stable=stable, message=""))
    rests, moves = (THEORY.depth_law("c", sigma_w=w, sigma_b=b, input_norm=q) for q in (sp.Rational(2, 27), sp.S.One))
    assert math.exp(rests.rate) == pytest.approx(ratio, rel=1e-9) and "alternate" not in rests.regime
    assert math.exp(moves.rate) == pytest.approx(7 / 24, rel=1e-9) and abs(ratio) < 0.21  # control: K moves


# ------------------------------------------------------------------------------- c* = 0 without φ being odd


def centred(share: float):
    """cos z - 1/e + share sin z at σ_b = 0, whose mean is 0 at K* = 2: (theory, place, K and c by iteration, slope)."""
    s, e = sp.nsimplify(share), math.exp(-1)
    w2 = 2 / ((1 + sp.exp(-4)) / 2 - sp.exp(-2) + s**2 * (1 - sp.exp(-4)) / 2)
    K, c, out = 0.5, 0.5, []
    for _ in range(26):
        out.append((K, c))
        cosines, sines = math.exp(-K) * np.cosh([K, K * c]), math.exp(-K) * np.sinh([K, K * c])
        K, other = float(w2) * (cosines - 2 * e * math.exp(-K / 2) + e**2 + share**2 * sines)
        c = other / K
    theory = mf.derive("cos(z)-exp(-1)" + (f"+({s})*sin(z)" if s else ""))
    return theory, {"sigma_w": sp.sqrt(w2), "sigma_b": 0}, np.array(out), float(w2) * share**2 * math.exp(-2)


def assert_falls(share: float, monkeypatch, quantity: str = "c") -> None:
    theory, where, path, slope = centred(share)
    stable = CorrelationPoint(0.0, slope, "stable")
    monkeypatch.setattr(laws, "correlations_of", lambda *a, **k: SimpleNamespace(stable=stable, message=""))
    found = theory.depth_law(quantity, **where, input_norm="1/4", correlation="1/2")
    seen = path[:, 1] if quantity != "distance" else 2 * path[:, 0] * (1 - path[:, 1]) - 4
    assert math.exp(found.rate) == pytest.approx(seen[20] / seen[19], rel=1e-2), "not this rate"


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 1 / 3, 0.8])
def test_the_square_of_what_K_lacks_moves_c_at_zero(share, monkeypatch):
    """K_ab′ holds σ_w²⟨φ⟩²: c falls by χ_K² = .392 where the map of c is flat, by .309 for its slope of .070, and by
    the slope .252 where that is the larger one (χ_K² is .140)."""
    for quantity in ("c", "gamma", "distance"):
        assert_falls(share, monkeypatch, quantity)


@pytest.mark.slow
def test_controls_c_at_zero_by_its_slope_alone_or_by_chi_K(monkeypatch):
    for order, share in ((0, 1 / 3), (1, 1 / 3), (1, 0.8)):
        monkeypatch.setattr(chaotic_laws, "_moved_by", lambda *a, order=order: order)
        with pytest.raises(AssertionError, match="not this rate"):
            assert_falls(share, monkeypatch)
    monkeypatch.setattr(chaotic_laws, "_moved_by", lambda *a: 0)
    with pytest.raises(mf.MeanFieldError, match="the map is flat there"):
        assert_falls(0.0, monkeypatch)


def test_c_at_zero_is_not_exponential_where_K_comes_by_a_power():
    slow = FixedPoint(Solution(sp.Integer(2), Status.EXACT), Solution(sp.S(2), Status.EXACT),
                      Solution(sp.S.One, Status.EXACT), "half-stable")  # fmt: skip
    found = SimpleNamespace(stable=CorrelationPoint(0.0, 0.5, "stable"), message="")
    with pytest.raises(mf.MeanFieldError, match="as a power of K"):
        chaotic_laws.inside_law(THEORY.equal_norms, "c", slow, found)
    assert chaotic_laws.inside_law(THEORY.equal_norms, "c", slow, found, odd=True).remainder == "exponential"


def test_a_mean_that_is_taken_away_moves_nothing():
    both, mean = average(Z[0] ** 2 * Z[1] ** 2, (K, K_ab, K)), average(Z[0] ** 2, K)
    star = FixedPoint(Solution(sp.Integer(2), Status.EXACT), Solution(sp.S(2), Status.EXACT),
                      Solution(sp.S.Half, Status.EXACT), "stable")  # fmt: skip
    assert chaotic_laws._moved_by({"K": K / 2 + 1, "K_ab": both - mean**2}, star) == 0
    assert chaotic_laws._moved_by({"K": K / 2 + 1, "K_ab": both - 4 * mean + 4}, star) == 2  # (K - 2)² at c = 0
    assert chaotic_laws._moved_by({"K": K / 2 + 1, "K_ab": both}, star) == 1
