"""Critical lines made by hand: what each kind answers and refuses, its expansion at small biases, and rounding."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Status
from meanfield.base.symbols import K, Z, sigma_w
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.criticality.critical_lines import CriticalLine, _at_zero, _inverse, _positive, _ray
from meanfield.symbolic.criticality.small_bias import inverted

z, R = Z[0], sp.Rational
MEAN, NUMBER = average(sp.tanh(z) ** 2, 1), 0.39429449  # by quadrature


def line(kind: str, w=None, b=None, **more) -> CriticalLine:
    return CriticalLine(kind, w, b, "made by hand", **more)


def numbers(found) -> list[tuple[float, float]]:
    return [(float(a.value), float(b.value)) for a, b in found]


# -------------------------------------------------------------------------------------------------- what a line says


def test_lines_that_are_no_curve():
    assert line("none").sigma_b_at(1) == () == line("none").sigma_w_at(1)
    for ask in (line("unknown").sigma_b_at, line("unknown").sigma_w_at):
        with pytest.raises(MeanFieldError, match="The critical line is not known: made by hand"):
            ask(1)
    for ask in (line("everywhere").sigma_b_at, line("everywhere").sigma_w_at):
        with pytest.raises(MeanFieldError, match="Every point is critical here"):
            ask(1)
    with pytest.raises(MeanFieldError, match="This critical line is vertical"):
        line("vertical", sp.S(2)).sigma_b_at(1)
    for w, status, value in ((sp.sqrt(2), Status.EXACT, math.sqrt(2)), (1 + MEAN, Status.CERTIFIED, 1 + NUMBER)):
        ((found, star),) = line("vertical", w).sigma_w_at(1)
        assert found.status is status and float(found.value) == pytest.approx(value, rel=1e-7)
        assert star.status is Status.NOT_UNIQUE and star.value is sp.nan
    with pytest.raises(MeanFieldError, match="sigma_b must be ≥ 0, but -1 was given"):
        line("vertical", sp.S(2)).sigma_w_at(-1)
    assert len(line("vertical", sp.S(2)).sigma_w_at(0)) == 1


def test_rays():
    for slope, status, value in ((sp.S(2), Status.EXACT, 2.0), (MEAN, Status.CERTIFIED, NUMBER)):
        ray = line("ray", None, slope * sigma_w)
        ((up, star),), ((back, _),) = ray.sigma_b_at(3), ray.sigma_w_at(6)
        assert up.status is status and star.status is Status.NOT_UNIQUE
        assert float(up.value) == pytest.approx(3 * value, rel=1e-7) and not up.value.has(average(z**4, 1))
        assert float(back.value) == pytest.approx(6 / value, rel=1e-7) and back.status is status
        assert not up.value.atoms(type(MEAN)) and not back.value.atoms(type(MEAN))
    flat = line("ray", None, sp.S.Zero * sigma_w)
    assert flat.sigma_w_at(1) == () and flat.sigma_b_at(5)[0][0].value == 0
    with pytest.raises(MeanFieldError, match="This critical line is σ_b = 0"):
        flat.sigma_w_at(0)
    curved = line("closed", None, sigma_w**2)
    assert curved.sigma_b_at(3)[0][0].value == 9
    with pytest.raises(MeanFieldError, match="not a ray in σ_w; ask for sigma_b_at"):
        curved.sigma_w_at(9)


CURVES = [  # σ_w², σ_b² as functions of K; asked at σ_w or at σ_b; (the other one, K*)
    (1 + K, K**2 - K / 2, "b", sp.sqrt(2), [(math.sqrt(0.5), 1)]),
    (1 + K, K**2 - K / 2, "b", R(11, 10), []),  # at K = 0.21 the bias would be imaginary
    (1 + K, K**2 - K / 2, "b", sp.sqrt(R(3, 2)), [(0, 0.5)]),
    (1 + K, K**2 - K / 2, "w", 0, [(1, 0), (math.sqrt(1.5), 0.5)]),
    (1 + K, (K - 1) ** 2, "w", 1, [(math.sqrt(3), 2)]),
    (1 + K, (K - 1) ** 2, "w", R(1, 2), [(math.sqrt(1.5), 0.5), (math.sqrt(2.5), 1.5)]),
    (1 + K, K**2 * (K - 2) ** 2, "w", 0, [(1, 0), (math.sqrt(3), 2)]),
    (2 - K, K, "w", 2, []),
    (1 + K * (K - 3) ** 2, K, "b", sp.sqrt(5), [(1, 1), (2, 4)]),  # K (K - 3)² is 4 at K = 1, twice, and at K = 4
]


@pytest.mark.parametrize("s, b, ask, value, expected", CURVES, ids=str)
def test_curves_meet_a_number(s, b, ask, value, expected):
    curve = line("parametric", sp.sqrt(s), sp.sqrt(b), parametric=(s, b))
    found = numbers(curve.sigma_b_at(value) if ask == "b" else curve.sigma_w_at(value))
    assert [pytest.approx(pair, abs=1e-12) for pair in expected] == found
    doubled = line("parametric", None, None, parametric=(s, b), place=1 + 2 * K)
    if ask == "b":
        assert numbers(doubled.sigma_b_at(value)) == [pytest.approx((v, 1 + 2 * k)) for v, k in expected]


def test_a_place_on_a_curve():
    mu = sp.Symbol("mu", positive=True)
    curve = line("parametric", parametric=(1 + K, mu * (K**2 - K / 2)))
    assert [float(v.value) for v in curve.at(2, mu=2)] == pytest.approx([math.sqrt(3), math.sqrt(6)])
    assert [float(v.value) for v in curve.at(K=2, mu=2)] == pytest.approx([math.sqrt(3), math.sqrt(6)])
    assert float(curve.at("1/2", mu=2)[1].value) == 0
    with pytest.raises(MeanFieldError, match=r"At K\* = 1/4 the critical line would need σ_b² = -0.0625 < 0"):
        curve.at("1/4", mu=1)
    with pytest.raises(MeanFieldError, match=r"mu has no value; give it as a keyword \(mu=...\)"):
        curve.at(2)
    with pytest.raises(MeanFieldError, match="K was given twice"):
        curve.at(2, K=2, mu=1)
    for ask in (line("ray").at, line("ray").near_zero):
        with pytest.raises(MeanFieldError, match="has no parameter K"):
            ask()


# ------------------------------------------------------------------------------------------------- parts of the answer


@pytest.mark.parametrize("top", [1, -1, sp.pi, -sp.pi, 3 - sp.pi])
@pytest.mark.parametrize("bottom", [1 - sp.pi, sp.pi - 1, 2 * (1 - sp.pi), (1 - sp.pi) * (5 + sp.pi), 7])
def test_a_quotient_keeps_its_value_and_loses_its_signs(top, bottom):
    shown = _positive(sp.sympify(top) / bottom)
    assert sp.N(shown - sp.sympify(top) / bottom, 30, chop=True) == 0
    assert all(f > 0 for f in sp.Mul.make_args(sp.fraction(shown)[1]))


def test_rays_of_every_sign():
    s = sp.Dummy("s")
    assert _ray(None, s).kind == _ray(s, s).kind == _ray(sigma_w, s).kind == "none"
    below = _ray(sp.S(-2), s)
    assert below.kind == "none" and "chi_J < 1 everywhere (it would need σ_b² = -2 σ_w²)" in below.message
    assert _ray(sp.S.Zero, s).sigma_b == 0 and _ray(sp.S(4), s).sigma_b == 2 * sigma_w
    assert _ray(MEAN - 1, s).kind == "none" and _ray(MEAN, s).sigma_b == sp.sqrt(MEAN) * sigma_w


def test_limits_and_inverses():
    growing = average(sp.tanh(z) ** 2 + 3, K)
    assert _at_zero((growing + K) / (2 + K)) == R(3, 2) and _at_zero(growing / K) is None and _at_zero(K + 5) == 5
    for s in (3 * (2 * K + 5) ** R(1, 2), 4 / (1 + K) ** 2, 7 * K):
        assert sp.simplify(s.subs(K, _inverse(s).subs(sigma_w, sp.sqrt(s.subs(K, 2)))) - s.subs(K, 2)) == 0
        assert sp.simplify(_inverse(s).subs(sigma_w, sp.sqrt(s.subs(K, 2))) - 2) == 0
    assert _inverse(1 + K**2) is None and _inverse(sp.exp(K)) is None and _inverse(MEAN * (1 + K)) is None


SMALL = [  # the powers of K in σ_w² and in σ_b²
    ({0: 1, 1: 2, 2: -1}, {1: 3, 2: 1}),
    ({0: 1, 1: 2, 2: 5}, {3: R(1, 2), 4: 1, 5: -2}),
    ({0: 2, R(1, 2): 1, 1: -1}, {1: 1, R(3, 2): 2}),
    ({R(1, 2): 3, 1: 1}, {2: 1, R(5, 2): -1}),
    ({1: 1, 2: 4}, {2: 4, 3: 1, 4: 1}),
]


@pytest.mark.parametrize("s, b", SMALL, ids=str)
@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_line_at_small_biases(s, b, order):
    """σ_w² at the K that solves σ_b² = x, and what the series leaves out falls faster than its last term."""
    found = inverted({sp.sympify(p): sp.sympify(c) for p, c in s.items()}, {sp.sympify(p): sp.sympify(c) for p, c in
                     b.items()}, order)  # fmt: skip
    assert len(found.terms) == order and found.variable.name == "sigma_b2"
    with mp.workdps(220):
        lead = min(b)

        def whole(powers, k):
            return sum(mp.mpf(R(c).p) / R(c).q * k ** (mp.mpf(R(p).p) / R(p).q) for p, c in powers.items())

        missed = []
        for x in (mp.mpf(10) ** -40, mp.mpf(10) ** -44):
            guess = (x / mp.mpf(R(b[lead]).p) * R(b[lead]).q) ** (1 / (mp.mpf(R(lead).p) / R(lead).q))
            k = mp.findroot(lambda k, x=x: whole(b, k) / x - 1, (guess, guess * (1 + mp.mpf(10) ** -6)), tol=1e-230)
            value = sp.N(found.expr.subs(found.variable, sp.Float(mp.nstr(x, 200), 200)), 200)
            missed.append(
                abs(whole(s, k) - mp.mpf(str(value))) / x ** (mp.mpf(found.terms[-1].power.p) / found.terms[-1].power.q)
            )
        assert missed[0] < mp.mpf("1e-5") and missed[1] < missed[0] / 5


def test_lines_that_do_not_reach_small_biases():
    one = {sp.S.Zero: sp.S.One}
    cases = [({}, "is 0 along the line"), ({sp.S.One: sp.S.Zero}, "is 0 along the line"), (one, "does not reach")]
    cases += [({sp.S(-1): sp.S.One}, "does not reach"), ({sp.S.One: sp.S(-1)}, "would need sigma_b")]
    for b, said in cases:
        with pytest.raises(MeanFieldError, match=said):
            inverted(one, b, 1)
