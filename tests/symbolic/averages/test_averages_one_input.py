"""One-input averages against the committed multiprecision references: float64 forms, certified balls, jump terms."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
import sympy as sp
from flint import arb

import meanfield as mf
from meanfield.base.answers.results import InfiniteAverage, MeanFieldError
from meanfield.base.symbols import K, Z, z
from meanfield.functions import balls
from meanfield.functions.piecewise import Pieces
from meanfield.numeric.lowering.averages.one_gaussian import scalar
from meanfield.symbolic.averages import enclosure
from meanfield.symbolic.averages.node import Average, average
from tests.oracles import gaussian_averages as oracles
from tests.symbolic.averages.helpers import quantities, record

REFERENCES = oracles.load_one_input()
NAMES = sorted({name for name, _, _ in REFERENCES})
POINTS = sorted({k for _, k, _ in REFERENCES})


def assert_float_accurate(name: str, quantity: str, k: float, value: float) -> None:
    """DESIGN's bar: 1e-12 relative; below 1e-290 counts as 0; at a zero crossing 1e-15 of the modulus average."""
    ref = REFERENCES[name, k, quantity]
    truth = mp.mpf(ref.value)
    if abs(truth) < 1e-290:
        assert abs(value) < 1e-280, f"{quantity} of {name} at K={k}: {value}, true {mp.nstr(truth, 5)}"
        return
    miss = abs(mp.mpf(value) - truth)
    allowed = max(1e-12 * abs(truth), 1e-15 * mp.mpf(ref.scale))
    assert miss <= allowed, f"{quantity} of {name} at K={k}: off by {mp.nstr(miss / abs(truth), 3)} relative"


def evaluate(expr: sp.Expr):
    return scalar(expr) if sp.sympify(expr).has(K) else (lambda _: float(expr))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_float64_reaches_twelve_digits(name):
    for quantity, expr in quantities(record(name)).items():
        if expr == sp.oo:
            assert all(mp.isinf(REFERENCES[name, k, quantity].value) for k in POINTS)
            continue
        f = evaluate(sp.sympify(expr))
        for k in POINTS:
            assert_float_accurate(name, quantity, k, f(k))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_certified_ball_overlaps_the_reference(name):
    for quantity, expr in quantities(record(name)).items():
        if expr == sp.oo:
            continue
        for k in POINTS:
            ball = balls.certified(sp.sympify(expr).subs(K, sp.Rational(k)), 30)
            assert_ball(name, quantity, k, ball)


def assert_ball(name: str, quantity: str, k: float, ball: arb) -> None:
    """The ball meets the reference's own error interval, and its radius is at most 1e-25 of the scale."""
    ref = REFERENCES[name, k, quantity]
    with balls.precision(400), mp.workdps(60):
        reference = arb(mp.nstr(mp.mpf(ref.value), 60), mp.nstr(mp.mpf(ref.error), 20))
        assert ball.overlaps(reference), f"{quantity} of {name} at K={k}: {ball.str(30)} excludes {ref.value}"
        scale = max(abs(mp.mpf(ref.value)), mp.mpf(ref.scale), mp.mpf("1e-9000"))
        radius = mp.mpf(ball.rad().str(10, radius=False))
        assert radius <= 1e-25 * scale, f"{quantity} of {name} at K={k}: a radius of {mp.nstr(radius, 3)}"


def test_planted_errors_fail_both_bars():
    """A value 1e-11 off fails the float bar; a ball that misses the reference by 1e-24 fails the certified one."""
    truth = float(REFERENCES["tanh", 1.0, "phi2"].value)
    with pytest.raises(AssertionError, match=r"off by 1.0e-11 relative"):
        assert_float_accurate("tanh", "phi2", 1.0, truth * (1 + 1e-11))
    good = balls.certified(average(sp.tanh(z) ** 2, K).subs(K, 1), 30)
    assert_ball("tanh", "phi2", 1.0, good)
    with pytest.raises(AssertionError, match="excludes"), balls.precision(200):
        assert_ball("tanh", "phi2", 1.0, good * (1 + arb("1e-24")))


def test_a_tail_cut_without_its_bound_excludes_the_truth():
    """⟨2 z²⟩ at K = 1 is 2; integrating to |t| = 10 and forgetting the rest gives a tight ball that does not hold
    it."""
    with balls.precision(130):
        honest = enclosure.average(2 * Z[0] ** 2, (sp.S.One,), (sp.S.Zero,), 30)
        norm = 1 / (2 * arb.pi()).sqrt()
        from flint import acb

        cut = acb.integral(lambda t, _: 2 * t * t * (-t * t / 2).exp(), acb(-10), acb(10)).real * norm
    assert honest.contains(2) and float(honest.rad()) < 1e-28
    assert not cut.contains(2)


@pytest.mark.slow_with("selu", "elu", "gelu")
@pytest.mark.parametrize("name", ["hard_tanh", "selu", "relu6", "hard_swish", "elu", "abs", "relu2", "gelu"])
def test_weak_derivative_keeps_its_jump_terms(name):
    """d⟨φ′²⟩/dK by the engine against the derivative of the closed form; without jump terms it is wrong."""
    slope = quantities(record(name))["dphi2"]
    if not sp.sympify(slope).has(K):
        return
    ours, exact = sp.diff(slope, K), sp.diff(slope.doit(), K)
    for k in (sp.Rational(1, 3), sp.Rational(13, 10), sp.Integer(20)):
        assert abs(sp.N((ours - exact).subs(K, k).doit(), 30, chop=1e-28)) < 1e-24
    node = next(iter(slope.atoms(Average)))
    parts = Pieces(Z[0], *(lambda p: (p.breaks, p.exprs))(record(name).pieces.diff().map(lambda e: e**2)))
    if name in ("hard_tanh", "hard_swish"):  # a kink at 0 has no jump term in this form of the derivative
        smooth_only = average(Z[0] * parts.diff().expr, K) / (2 * K)
        assert abs(sp.N((smooth_only - exact).subs(K, 1).doit(), 20)) > 1e-3, node


def test_infinite_averages_say_so():
    from meanfield.symbolic.recursions.block_recursions import slope_average

    assert slope_average(record("step")) == sp.oo
    with pytest.raises((InfiniteAverage, MeanFieldError), match="does not exist"):
        average(sp.oo * z, K)
    with pytest.raises(MeanFieldError, match="is not bounded by the rules"):
        enclosure.average(sp.exp(Z[0] ** 2), (sp.S.One,), (sp.S.Zero,), 20)


@pytest.mark.slow_with("60")
@pytest.mark.parametrize("digits", [15, 30, 60])
def test_precision_ladder(digits):
    """The same average at 15, 30 and 60 digits, against mpmath's tanh-sinh in its own variables."""
    value = average(sp.tanh(z) ** 2, K).subs(K, sp.Rational(37, 10)).evalf(digits)
    with mp.workdps(digits + 10):
        k = mp.mpf(37) / 10
        truth = mp.quad(lambda x: mp.tanh(x) ** 2 * mp.exp(-x * x / (2 * k)), [-40, -10, -3, 0, 3, 10, 40]) / mp.sqrt(
            2 * mp.pi * k
        )
        assert abs(mp.mpf(str(value)) - truth) < mp.mpf(10) ** (5 - digits)
        assert not abs(mp.mpf(str(value)) * (1 + mp.mpf(10) ** (8 - digits)) - truth) < mp.mpf(10) ** (5 - digits)


def test_zero_and_exact_values():
    assert average(sp.tanh(z), K) == 0
    assert average(sp.sin(z) ** 3, K) == 0
    assert math.isclose(scalar(average(sp.Abs(z), K))(4.0), 2 * math.sqrt(2 / math.pi))


@pytest.mark.fast_with("sin(z) if z > 1 else 0-None-<lambda>")
@pytest.mark.parametrize(
    ("text", "left", "right"),
    [
        ("sin(z) if z > 1 else 0", None, lambda x: mp.sin(x)),
        ("z*cos(2*z + 1/3) if z > 1 else 0", None, lambda x: x * mp.cos(2 * x + mp.mpf(1) / 3)),
        ("z**2*sin(3*z) if z < 1 else cos(z)", lambda x: x**2 * mp.sin(3 * x), mp.cos),
        ("z**2 + z*sin(z)**2 if z > 1 else 0", None, lambda x: x**2 + x * mp.sin(x) ** 2),
    ],
)
def test_waves_over_half_lines_take_no_longer_the_more_periods_there_are(text, left, right):
    """Against mpmath period by period at K = 10^4; at 10^12 against the leading terms of partial integration."""
    with mp.workdps(25):
        ends = [1 + 2 * mp.pi * k for k in range(150)]
        weight = lambda x: mp.exp(-x * x / 20000) / mp.sqrt(20000 * mp.pi)  # noqa: E731
        truth = mp.quad(lambda x: right(x) * weight(x), ends)
        if left is not None:
            truth += mp.quad(lambda x: left(x) * weight(x), [2 - x for x in reversed(ends)])
    ball = mf.certified(mf.average(text, 10**4), 15)
    near = mp.mpf(ball.mid().str(25, radius=False))
    assert abs(near - truth) < 1e-13 * abs(truth) < abs(near * (1 + mp.mpf(10) ** -12) - truth)
    assert mf.certified(mf.average(text, 10**12), 15).is_finite()


def test_the_half_wave_at_large_K_is_its_first_terms():
    """∫_1^∞ sin z e^(−z²/2K) dz → cos 1 by parts, up to 1/K."""
    K_ = sp.Integer(10) ** 10
    found = mf.certified(mf.average("sin(z) if z > 1 else 0", K_), 20)
    size = math.sqrt(2 * math.pi * 1e10)
    assert float(found.mid()) * size == pytest.approx(math.cos(1), rel=1e-9)
    assert float(found.mid()) * size != pytest.approx(math.sin(1), rel=1e-3)


#: functions of sines that are, and that are not, sums of polynomials times waves; φ by mpmath
OF_SINES = {
    "tanh(sin(z))**2": lambda x: mp.tanh(mp.sin(x)) ** 2,
    "1/(2+cos(z))**2": lambda x: 1 / (2 + mp.cos(x)) ** 2,
    "sin(z)*tanh(z)": lambda x: mp.sin(x) * mp.tanh(x),
    "exp(sin(z))": lambda x: mp.exp(mp.sin(x)),
    "abs(z)*sin(z)**2": lambda x: abs(x) * mp.sin(x) ** 2,
    "exp(-6*z)/(2+cos(z)) if z < 0 else 1": lambda x: mp.exp(-6 * x) / (2 + mp.cos(x)) if x < 0 else 1,
}


@pytest.mark.fast_with("tanh(sin(z))**2-1", "abs(z)*sin(z)**2-1")
@pytest.mark.parametrize("k", [1, 9])
@pytest.mark.parametrize("text", OF_SINES)
def test_balls_of_functions_of_sines(text, k):
    """Against mpmath; a power of what holds a wave is not a wave: its exponent was taken for one."""
    ball = mf.average(text, k).ball(20)
    with mp.workdps(30):
        s = mp.sqrt(k)
        edges = [s * mp.mpf(j) / 2 for j in range(-70, 71)]
        truth = mp.quad(lambda x: OF_SINES[text](x) * mp.npdf(x / s) / s, edges)
        found = mp.mpf(ball.mid().str(30, radius=False))
        assert abs(found - truth) < 1e-17 * abs(truth)
        assert abs(found - truth * (1 + mp.mpf(10) ** -15)) > 1e-17 * abs(truth)
