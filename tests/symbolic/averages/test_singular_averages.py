"""Certified averages of functions that are not analytic at an end of a piece: |z|^p times another function, removable
poles, logarithms. Compared with mpmath quadrature in a coordinate that flattens the singularity; no ball is nan."""

from __future__ import annotations

from itertools import pairwise

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import InfiniteAverage, MeanFieldError


def reference(f, K, places):
    """⟨f(z, z - b)⟩_K: next to a place b the variable is u, z = b ± u^12."""
    s, k = mp.sqrt(K), 12
    ends = sorted({-14 * s, -4 * s, 4 * s, 14 * s, *places, *(b + d * s for b in places for d in (-0.5, 0.5))})
    total = mp.mpf(0)
    for a, b in pairwise(ends):
        for place, other, side in ((a, b, 1), (b, a, -1)):
            if place in places:
                top = abs(other - place) ** (mp.mpf(1) / k)

                def inside(u, place=place, side=side):
                    z = place + side * u**k
                    return f(z, side * u**k) * k * u ** (k - 1) * mp.exp(-z * z / 2 / K)

                total += mp.quad(inside, [0, top])
                break
        else:
            total += mp.quad(lambda z: f(z, z - places[0]) * mp.exp(-z * z / 2 / K), [a, b])
    return total / mp.sqrt(2 * mp.pi * K)


R = mp.mpf
CASES = [
    ("silu(z)*abs(z)**1.2", lambda z, _: z / (1 + mp.exp(-z)) * abs(z) ** R("1.2"), "1", (0,)),
    ("abs(z)**(-0.4)*cos(z)", lambda z, _: abs(z) ** R("-0.4") * mp.cos(z), "1", (0,)),
    ("abs(z)**(-0.9)*exp(z)", lambda z, _: abs(z) ** R("-0.9") * mp.exp(z), "9/4", (0,)),
    ("abs(tanh(z))**(-0.4)*cos(z)", lambda z, _: abs(mp.tanh(z)) ** R("-0.4") * mp.cos(z), "4", (0,)),
    ("abs(z - 1)**(-0.25)*sigmoid(z)", lambda z, d: abs(d) ** R("-0.25") / (1 + mp.exp(-z)), "1/4", (1,)),
    ("tanh(z)**2/abs(z)", lambda z, _: mp.tanh(z) ** 2 / abs(z), "1", (0,)),
    ("tanh(z)/z", lambda z, _: mp.tanh(z) / z, "2", (0,)),
    ("sin(z)**2*abs(z)**(-1.5)", lambda z, _: mp.sin(z) ** 2 * abs(z) ** R("-1.5"), "1", (0,)),
    ("log(abs(z))**2*abs(z)**(-0.3)", lambda z, _: mp.log(abs(z)) ** 2 * abs(z) ** R("-0.3"), "1", (0,)),
    # zeros that are seen over one denominator only, and are lost in rounding close to them
    ("(1 - cos(z))/z**2", lambda z, _: 2 * mp.sin(z / 2) ** 2 / z**2, "1", (0,)),
    ("1/z**2 - cos(z)/z**2", lambda z, _: 2 * mp.sin(z / 2) ** 2 / z**2, "4", (0,)),
    ("log(1 + z**2)/z**2", lambda z, _: mp.log1p(z * z) / z**2, "1", (0,)),
    ("z/(exp(z) - 1)", lambda z, _: z / mp.expm1(z), "1", (0,)),
    ("z**2/(cosh(z) - 1)", lambda z, _: z**2 / (2 * mp.sinh(z / 2) ** 2), "1", (0,)),
    ("log(1 - exp(-z**2))", lambda z, _: mp.log(-mp.expm1(-z * z)), "1", (0,)),
    ("abs(exp(z) - 1)**(-0.5)", lambda z, _: abs(mp.expm1(z)) ** R("-0.5"), "1", (0,)),
    # a denominator that stays as it is beside a root
    ("1/(sqrt(abs(z))*(1 + abs(z)))", lambda z, _: 1 / (mp.sqrt(abs(z)) * (1 + abs(z))), "1", (0,)),
    ("softsign(z)**2*abs(z)**(-0.2)", lambda z, _: abs(z) ** R("1.8") / (1 + abs(z)) ** 2, "1", (0,)),
    ("abs(z)**sqrt(2)*tanh(z)**2", lambda z, _: abs(z) ** mp.sqrt(2) * mp.tanh(z) ** 2, "1/100", (0,)),
]


@pytest.mark.slow_with(
    "silu(z)*abs(z)**1.2", "abs(z)**(-0.4)*cos(z)", "abs(tanh(z))**(-0.4)*cos(z)", "abs(z - 1)**(-0.25)*sigmoid(z)",
    "sin(z)**2*abs(z)**(-1.5)", "log(abs(z))**2*abs(z)**(-0.3)", "1/z**2 - cos(z)/z**2",
)  # fmt: skip
@pytest.mark.parametrize(("text", "f", "K", "places"), CASES, ids=[c[0] for c in CASES])
def test_balls_of_singular_integrands(text, f, K, places):
    with mp.workdps(25):
        ball = mf.average(text, K).ball(20)
        value = reference(f, R(sp.Rational(K).p) / sp.Rational(K).q, tuple(R(p) for p in places))
        found, radius = mp.mpf(ball.mid().str(30, radius=False)), mp.mpf(ball.rad().str(5, radius=False))
        assert ball.rel_accuracy_bits() > 60
        assert abs(found - value) < radius + 1e-15 * abs(value)
        # control: a rule that misses the last percent of the way to the place does not pass
        assert abs(found - value * (1 + R("1e-12"))) > radius + 1e-15 * abs(value)


def test_logarithm_in_closed_form():
    """⟨log|z|⟩_1 = -(γ + log 2)/2."""
    with mp.workdps(30):
        ball = mf.average("log(abs(z))", 1).ball(20)
        exact = -(mp.euler + mp.log(2)) / 2
        found = mp.mpf(ball.mid().str(30, radius=False))
        assert abs(found - exact) < mp.mpf("1e-20") < abs(found - exact * (1 + mp.mpf("1e-19")))


@pytest.mark.parametrize("text", ["abs(z)**(-1.5)*cos(z)", "cos(z)/abs(z)", "(cos(z) + 1)/abs(z)**1.5", "tanh(z)/z**2"])
def test_what_is_not_integrable_is_infinite(text):
    with pytest.raises(InfiniteAverage, match=r"near z = 0 the integrand is like \|z\|\^"):
        mf.average(f"({text}) if z > 0 else 0", 1).ball(15)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["exp(-1/abs(z))", "cos(log(abs(z)))*tanh(z)**2"])
def test_no_ball_is_nan_without_a_word(text):
    with pytest.raises(MeanFieldError, match="no finite enclosure of it was found"):
        mf.average(text, 1).ball(8)


def test_a_zero_of_third_order_on_a_wide_ball():
    """⟨(z - sin z)/z³⟩: by its Taylor series Σ (-1)^k ⟨z^{2k}⟩/(2k+3)!, which converges."""
    with mp.workdps(40):
        series = mp.nsum(lambda k: (-1) ** int(k) * mp.fac2(2 * k - 1) / mp.fac(2 * k + 3), [0, mp.inf])
        ball = mf.average("(z - sin(z))/z**3", 1).ball(20)
        found = mp.mpf(ball.mid().str(30, radius=False))
        assert abs(found - series) < mp.mpf("1e-19") < abs(found - series * (1 + mp.mpf("1e-17")))


@pytest.mark.parametrize(
    "text", ["1/z", "z**(-3)", "tanh(z)/z**2", "z/(z**2 - 1)", "1/sinh(z)", "sinh(z)/(cosh(z) - 1)"]
)
def test_an_odd_function_with_a_pole_has_no_average(text):
    with pytest.raises(InfiniteAverage, match="not integrable"):
        mf.average(text, 1)


@pytest.mark.parametrize("text", ["tanh(z)*abs(z)**1.2", "tanh(z)/abs(z)", "z**3/(1 + z**2)"])
def test_an_odd_integrable_function_has_the_average_0(text):
    assert mf.average(text, 1) == 0


@pytest.mark.parametrize(
    "text", ["sqrt(z)", "z**0.3", "sqrt(z + 100)", "(z**2 - 1)**0.5", "log(1 + z)", "sqrt(abs(z) - 1)"]
)
def test_what_is_not_real_has_no_average(text):
    with pytest.raises(MeanFieldError, match="is not real at z = "):
        mf.average(text, 1)
    # control: the same functions where they are real
    real = {"sqrt(z)": "sqrt(abs(z))", "z**0.3": "relu(z)**0.3", "log(1 + z)": "log(1 + z**2)"}.get(
        text, "sqrt(1 + z**2)"
    )
    assert mf.average(real, 1).ball(10).is_finite()


def test_arguments_of_averages():
    node = mf.average("tanh(z)**2", 1)
    for digits in (True, "many", 0, -3, 2.5):
        with pytest.raises(MeanFieldError, match="digits must be a whole number"):
            node.ball(digits)
    assert abs(float(node.ball("20").mid()) - 0.394294490397842) < 1e-12
    x, y = sp.symbols("x y", real=True)
    f = abs(x) * sp.tanh(y) ** 2
    with pytest.raises(MeanFieldError, match=r"2² > 1·1"):
        mf.average(f, (1, 2, 1), variables=(x, y))
    assert mf.average((1 + x) ** 2 * sp.tanh(y) ** 2, (0, 0, 1), variables=(x, y)).ball(20).overlaps(node.ball(20))
    for text in ("abs(z)**(-0.5)", "log(abs(z))"):
        with pytest.raises(MeanFieldError, match="no finite value at the mean"):
            mf.average(text, 0).ball(10)


@pytest.mark.slow
@pytest.mark.parametrize(("a", "rho"), [("3/2", "1/2"), ("1/2", "-1/3"), ("1/2", "0")])
def test_branch_points_of_both_inputs(a, rho):
    """⟨|x|^a |y|^a⟩ = 2^a Γ((a+1)/2)²/π · ₂F₁(-a/2, -a/2; 1/2; ρ²), of a sign that kinks elsewhere to have no closed
    form: relu(x)^a relu(y)^a and relu(-x)^a relu(y)^a, which add up to a half of it."""
    x, y = sp.symbols("x y", real=True)
    p, total = sp.Rational(a), mp.mpf(0)
    with mp.workdps(25):
        for side in (1, -1):
            ball = mf.average(sp.Max(side * x, 0) ** p * sp.Max(y, 0) ** p, (1, rho, 1), variables=(x, y)).ball(18)
            total += 2 * mp.mpf(ball.mid().str(30, radius=False))
        e, c = mp.mpf(p.p) / p.q, mp.mpf(sp.Rational(rho).p) / sp.Rational(rho).q
        exact = 2**e * mp.gamma((e + 1) / 2) ** 2 / mp.pi * mp.hyp2f1(-e / 2, -e / 2, 0.5, c**2)
        assert abs(total - exact) < mp.mpf("1e-16") < abs(total * (1 + mp.mpf("1e-14")) - exact)


def test_two_inputs_that_are_refused_are_refused_at_once():
    x, y = sp.symbols("x y", real=True)
    for f in (sp.log(abs(x)) * y**2, sp.cos(y) / abs(x) ** sp.Rational(2, 5), x / y, sp.tanh(x * y) ** 2):
        with pytest.raises(MeanFieldError, match=r"not bounded by the rules|does not separate"):
            mf.average(f, (1, "1/2", 1), variables=(x, y)).ball(15)
    with pytest.raises(MeanFieldError, match="is not real at z = "):
        mf.average(sp.sqrt(x + 2) * y, (1, "1/2", 1), variables=(x, y))
