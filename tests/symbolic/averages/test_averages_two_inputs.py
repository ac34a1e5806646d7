"""Two-input averages: the lowered float forms against polar-coordinate quadrature and multiprecision points, and
certified balls."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

from meanfield.base.answers.results import InfiniteAverage
from meanfield.base.symbols import K_aa, K_ab, K_bb, Z
from meanfield.functions import balls
from meanfield.numeric.lowering.averages.two_gaussians import pair, sine2_of
from meanfield.numeric.lowering.text import printing
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.equality import closed
from meanfield.symbolic.recursions.block_recursions import slope_average
from tests.oracles import gaussian_averages as oracles
from tests.oracles.polar import NUMPY_TWINS, one_input_float, two_input_float
from tests.symbolic.averages.helpers import record

POINTS = (1e-4, 1.0, 1e4)
CORRELATIONS = (-1.0, -0.9, 0.0, 0.3, 0.9, 1 - 1e-6, 1.0)
SMOOTH = ["tanh", "silu", "mish", "softplus", "gelu_tanh", "sigmoid", "arctan"]
NAMES = [
    "relu",
    "leaky_relu",
    "abs",
    "step",
    "hard_tanh",
    "relu6",
    "elu",
    "softsign",
    "erf",
    "gelu",
    "gaussian",
    "relu2",
    *SMOOTH,
]
REFERENCES = oracles.load_two_input()


def node(name: str):
    f = record(name).pieces.expr
    return average(f * f.xreplace({Z[0]: Z[1]}), (K_aa, K_ab, K_bb))


def lowered(expr):
    """The compiled form as a function of the covariances."""
    g = printing.compiled(pair(expr, "g").text, "g")
    return lambda a, ab, b: g(a, ab, b, sine2_of(a, ab, b))


def assert_agree(what: str, ours: float, theirs: float, scale: float) -> None:
    """Agreement to 1e-12 of the one-input scale √(S_a S_b)."""
    assert abs(ours - theirs) <= 1e-12 * scale, (
        f"{what}: {ours!r} against {theirs!r}, {abs(ours - theirs) / scale:.1e} of the scale"
    )


def square_scale(function, kinks, a: float, b: float) -> float:
    return math.sqrt(
        one_input_float(lambda x: function(x) ** 2, a, kinks) * one_input_float(lambda x: function(x) ** 2, b, kinks)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_second_float_route_agrees(name):
    phi, dphi, kinks = NUMPY_TWINS[name][:3]
    cases = [("phi phi", node(name), phi)]
    if record(name).is_continuous:
        cases.append(("phi' phi'", slope_average(record(name), (K_aa, K_ab, K_bb)), dphi))
    for label, expr, function in cases:
        g = lowered(expr)
        for a in POINTS:
            for b in POINTS:
                for c in CORRELATIONS:
                    ab = c * math.sqrt(a * b)
                    theirs = two_input_float(function, a, b, ab, kinks)
                    assert_agree(
                        f"<{label}> of {name} at {a}, {b}, c={c}",
                        g(a, ab, b),
                        theirs,
                        square_scale(function, kinks, a, b),
                    )


def test_step_slope_is_the_bivariate_density():
    g = lowered(slope_average(record("step"), (K_aa, K_ab, K_bb)))
    for c in (-0.9, 0.0, 0.3, 0.9):
        truth = 1 / (2 * math.pi * math.sqrt(1 - c * c))
        assert abs(g(1.0, c, 1.0) - truth) < 1e-13 * truth
        assert not abs(g(1.0, c, 1.0) * (1 + 1e-12) - truth) < 1e-13 * truth


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({n for n, *_ in REFERENCES}))
def test_multiprecision_points(name):
    functions = {"phi_phi": lowered(node(name)), "dphi_dphi": lowered(slope_average(record(name), (K_aa, K_ab, K_bb)))}
    keys = [k for k in REFERENCES if k[0] == name]
    assert keys
    for key in keys:
        _, a, b, ab, quantity = key
        ref = REFERENCES[key]
        assert_agree(f"{key}", functions[quantity](a, ab, b), float(mp.mpf(ref.value)), float(mp.mpf(ref.scale)))


@pytest.mark.slow
def test_planted_error_is_seen():
    g = lowered(node("tanh"))
    value = two_input_float(*[NUMPY_TWINS["tanh"][0]], 1.0, 1.0, 0.3)
    with pytest.raises(AssertionError, match="tanh with K_ab off by 1e-11: "):
        assert_agree("tanh with K_ab off by 1e-11", g(1.0, 0.3 * (1 + 1e-10), 1.0), value, 1.0)
    with pytest.raises(AssertionError, match="hard_tanh without its kinks: "):  # a quadrature that ignores the kinks
        wrong = two_input_float(NUMPY_TWINS["hard_tanh"][0], 1.0, 1.0, 0.3, ())
        assert_agree("hard_tanh without its kinks", lowered(node("hard_tanh"))(1.0, 0.3, 1.0), wrong, 1.0)


@pytest.mark.fast_with("relu-9/10-25", "erf-999999/1000000-25", "gelu--9/10-25")
@pytest.mark.parametrize(
    ("name", "c", "digits"),
    [
        ("tanh", "3/10", 20),
        ("silu", "-9/10", 12),
        ("hard_tanh", "9/10", 18),
        ("relu", "9/10", 25),
        ("erf", "999999/1000000", 25),
        ("softsign", "3/10", 12),
        ("gelu", "-9/10", 25),
    ],
)
def test_certified_two_input_ball(name, c, digits):
    """The enclosure contains the float value's neighbourhood, has the digits asked for, and excludes a value 1e-11
    off."""
    a, b = sp.Rational(13, 10), sp.Rational(7, 10)
    ab = sp.Rational(sp.Rational(c) * sp.sqrt(a * b).n(30))
    ball = balls.certified(node(name).subs({K_aa: a, K_bb: b, K_ab: ab}), digits)
    phi, _, kinks = NUMPY_TWINS[name][:3]
    value = two_input_float(phi, float(a), float(b), float(ab), kinks)
    scale = square_scale(phi, kinks, float(a), float(b))
    assert float(ball.rad()) <= 10.0 ** (1 - digits) * scale
    assert abs(float(ball.mid()) - value) <= 1e-12 * scale
    assert not abs(float(ball.mid()) * (1 + 1e-10) - value) <= 1e-12 * scale


@pytest.mark.slow
def test_an_exponential_that_outgrows_some_gaussians_has_no_closed_form():
    """exp(-(z_a² + 4 z_a z_b + z_b²)) has an average for some covariances only."""
    a, b = Z[:2]
    indefinite, definite = (
        closed(average(sp.exp(-(a**2 + k * a * b + b**2)), (K_aa, K_ab, K_bb))) for k in (4, 1)
    )
    assert indefinite.has(Average)
    assert not definite.has(Average)
    at = {K_aa: sp.Rational(3, 2), K_ab: sp.Rational(-1, 3), K_bb: sp.Rational(1, 2)}
    C = sp.Matrix([[at[K_aa], at[K_ab]], [at[K_ab], at[K_bb]]])
    exact = 1 / sp.sqrt((sp.eye(2) + sp.Matrix([[2, 1], [1, 2]]) * C).det())
    assert sp.simplify(definite.subs(at) - exact) == 0 and sp.simplify(definite.subs(at) - 1 / exact) != 0


def over_grid(f, a: float, ab: float, b: float) -> float:
    """By the trapezoid rule, which is exact to rounding for what is smooth and decays."""
    z = np.linspace(-14, 14, 1401)
    x, y = np.meshgrid(z, z)
    det = a * b - ab * ab
    density = np.exp(-(b * x * x - 2 * ab * x * y + a * y * y) / (2 * det)) / (2 * math.pi * math.sqrt(det))
    return float((f(x, y) * density).sum() * (z[1] - z[0]) ** 2)


WAVES = {
    "cos(xy)": (lambda x, y, m: m.cos(x * y)),
    "sin(xy)": (lambda x, y, m: m.sin(x * y)),
    "xy cos(xy)": (lambda x, y, m: x * y * m.cos(x * y)),
    "cos of a square": (lambda x, y, m: m.cos((x - y) ** 2)),
    "cos of a circle": (lambda x, y, m: m.cos(x**2 + y**2)),
    "bell and wave": (lambda x, y, m: m.exp(-(x**2)) * m.cos(x * y + y)),
    "growth and wave": (lambda x, y, m: m.exp(x * y / 3) * m.cos(x * y)),
}


@pytest.mark.parametrize("name", WAVES)
def test_waves_of_a_quadratic_form(name):
    """|cos| ≤ 1: their averages were said to be infinite. The exponential's root is complex; one of -ab is not it."""
    x, y = Z[:2]
    wave = WAVES[name]
    ball = average(wave(x, y, sp), (sp.S(2), sp.Rational(3, 5), sp.S(1))).ball(15)
    exact = over_grid(lambda u, v: wave(u, v, np), 2.0, 0.6, 1.0)
    assert float(ball.rad()) < 1e-13 and abs(float(ball.mid()) - exact) < 1e-12
    assert abs(float(ball.mid()) - over_grid(lambda u, v: wave(u, v, np), 2.1, 0.6, 1.0)) > 1e-5


@pytest.mark.parametrize("more", [sp.S.One, sp.erf(Z[0]) ** 2, Z[0] ** 2 * sp.Heaviside(Z[0])])
def test_two_directions_that_outgrow_the_gaussian(more):
    """det(1 + CQ) = (-3)² > 0, and ⟨exp(x² + y²)⟩ of variances 2 is infinite: 1/3 was its closed form."""
    x, y = Z[:2]
    for spread, finite in ((sp.S(2), False), (sp.Rational(3, 10), True)):
        node = average(sp.exp(x**2 + y**2) * more, (spread, sp.S.Zero, spread))
        if finite:
            assert float(node.ball(10).mid()) > 0
        else:
            with pytest.raises(InfiniteAverage, match="outgrows the Gaussian"):
                node.ball(10)
