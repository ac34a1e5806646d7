"""Ease of use: numbers as text, names in any case and inside formulas, critical to rounding, bounded functions,
averages in the caller's symbols, what `dir` and `repr` show, data frames."""

from __future__ import annotations

import inspect
import math
import sys
import types
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers import plain_text
from meanfield.base.symbols import K, Z, parameter, sigmoid, softplus, z
from meanfield.empirical import criticality_grid
from meanfield.functions.activations import activation
from meanfield.functions.growth import Bound, bound, lower
from meanfield.functions.ranges import span
from meanfield.functions.reading.parser import number
from meanfield.networks.records import Constant, exact
from meanfield.symbolic.criticality import rounding

# ------------------------------------------------------------------------------------------------- numbers

NUMBERS = {
    "sqrt(2)": sp.sqrt(2),
    "2/3": sp.Rational(2, 3),
    "sqrt(3)/2": sp.sqrt(3) / 2,
    "1/sqrt(2)": 1 / sp.sqrt(2),
    "2**0.5": sp.sqrt(2),
    "pi/4": sp.pi / 4,
    "exp(-1/2)": sp.exp(-sp.Rational(1, 2)),
    "0.1": sp.Rational(1, 10),
    " 1e-3 ": sp.Rational(1, 1000),
}


@pytest.mark.parametrize("text", list(NUMBERS))
def test_records_and_recursions_read_the_same_numbers(text):
    """`exact` (records, finite networks) and `number` (theory, command line) are written apart and agree."""
    value = NUMBERS[text]
    assert sp.simplify(number(text, "x") - value) == 0
    assert math.isclose(float(exact(text, "x")), float(value), rel_tol=4e-16)
    assert isinstance(exact(text, "x"), (int, Fraction)) == value.is_Rational
    block = mf.Sequential((mf.Nonlinearity("tanh"), mf.Dense(sigma_w=text), mf.Scale(text)))
    assert float(block.blocks[1].sigma_w) == float(block.blocks[2].factor) == float(exact(text, "x"))
    assert (
        float(mf.Residual(mf.networks.mlp("tanh"), text).mu)
        == float(mf.Schedule(text, text).beta)
        == float(exact(text, "x"))
    )
    theory = mf.derive("erf", mu=text)
    assert theory == mf.derive("erf", mu=exact(text, "x"))
    assert sp.simplify(theory.susceptibilities()["chi_J"].coeff(parameter("sigma_w"), 0) - value**2) == 0


@pytest.mark.slow
def test_every_verb_takes_text():
    theory, at = mf.derive("tanh", mu="sqrt(3)/2"), {"sigma_w": "sqrt(2)/3", "sigma_b": "1/3"}
    plain = {"sigma_w": math.sqrt(2) / 3, "sigma_b": 1 / 3}
    same = mf.derive("tanh", mu=sp.sqrt(3) / 2)
    run, other = theory.propagate(**at, depth=4, input_norm="2/3"), same.propagate(**plain, depth=4, input_norm=2 / 3)
    assert np.allclose(run.K, other.K, rtol=1e-14) and np.allclose(run.log_J, other.log_J, atol=1e-14)
    swept = theory.propagate(sigma_w=["1/2", "sqrt(2)"], sigma_b=[0, sp.Rational(1, 3)], depth=3)
    assert np.array_equal(swept.parameters["sigma_w"], [0.5, math.sqrt(2)])
    pair = theory.propagate(**at, depth=2, correlation="1/2")
    assert np.allclose(pair.K_ab, theory.propagate(**plain, depth=2, correlation=0.5).K_ab, rtol=1e-14)
    assert theory.phase(**at, input_norm="2/3").name == "ordered"
    assert theory.fixed_points(**at)[0].K.value == same.fixed_points(**at)[0].K.value
    assert theory.fixed_points(**at).reached_from("sqrt(2)") is not None
    assert mf.derive("relu").depth_law("K", sigma_w="sqrt(2)", sigma_b=0).law.leading.coefficient == 2
    diagram = theory.phase_diagram(sigma_w=["1/2", "sqrt(2)"], sigma_b=["0", "2/3"], line=False)
    assert np.array_equal(diagram.sigma_w, [0.5, math.sqrt(2)]) and np.array_equal(diagram.sigma_b, [0, 2 / 3])
    line = mf.derive("tanh").critical_line()
    assert line.at("1/2") == line.at(sp.Rational(1, 2)) and line.sigma_b_at("3/2") == line.sigma_b_at(1.5)
    general = mf.derive("leaky_relu", alpha="alpha", mu="mu")
    found = general.propagate(**at, depth=3, alpha="1/3", mu="sqrt(2)/2")
    other = general.propagate(**plain, depth=3, alpha=Fraction(1, 3), mu=math.sqrt(0.5))
    assert np.allclose(found.K, other.K, rtol=1e-14)


def test_finite_networks_take_text():
    settings = {"width": 24, "depth": 3, "networks": 8}
    theory = mf.derive("tanh", mu="sqrt(3)/2")
    report = mf.check(theory, sigma_w="sqrt(2)", sigma_b="1/3", **settings)
    same = mf.check(theory, sigma_w=math.sqrt(2), sigma_b=1 / 3, **settings)
    assert report.data() == same.data()
    block = mf.Sequential((mf.Nonlinearity("tanh"), mf.Dense(), mf.Scale("1/sqrt(2)")))
    one = mf.measure_criticality(block, sigma_w="sqrt(2)", sigma_b="0", **settings)
    assert str(one) == str(mf.measure_criticality(block, sigma_w=math.sqrt(2), sigma_b=0, **settings))
    free = mf.Residual(mf.networks.mlp("tanh"), mf.Param("mu"))
    runs = [mf.measure(free, sigma_w=1, sigma_b=0, mu=mu, **settings) for mu in ("1/2", 0.5)]
    runs.append(mf.measure("tanh", mu="1/2", sigma_w=1, sigma_b=0, **settings))
    assert len({run.estimate("K").mean.tobytes() for run in runs}) == 1


@pytest.mark.parametrize(
    "bad", [True, None, "1e400", "1e999999999", "sqrt(-1)", "1/0", "9**9**9", "x + 1", [1], 1j, "__import__('os')", ""]
)
def test_what_is_no_number_gets_a_sentence(bad):
    for read in (exact, number):
        with pytest.raises(mf.MeanFieldError, match=r"mu must be .*number|mu must be 0 or of a size"):
            read(bad, "mu")


def test_a_name_is_no_number_where_one_is_needed():
    with pytest.raises(mf.MeanFieldError, match="sigma_w must be a finite number"):
        mf.derive("tanh").propagate(sigma_w="sigma", sigma_b=0, depth=2)
    assert Constant("sqrt(2)") > 1 and not Constant("sqrt(2)") < 1 and str(Constant("sqrt(2)")) == "sqrt(2)"


# ------------------------------------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("z*mish(z)", "z**2*tanh(softplus(z))"),
        ("gelu(z) + 0.1*tanh(z)", "z*(1 + erf(z/sqrt(2)))/2 + tanh(z)/10"),
        ("SiLU(2*z)", "2*z*sigmoid(2*z)"),
        ("3*ReLU(z)^2", "3*Max(z, 0)**2"),
        ("gelu( z )", "z*(1 + erf(z/sqrt(2)))/2"),
        ("z + leaky_relu(2*z, 0.2)", "z + (2*z if z > 0 else 0.4*z)"),
        ("selu(z) - elu(z)", "selu"),
        ("mish(mish(z))", "z*tanh(softplus(z))*tanh(softplus(z*tanh(softplus(z))))"),
        ("z*Tanh(z)", "z*tanh(z)"),
        ("cubic(tanh(z))", "tanh(z) - tanh(z)**3/3"),
        ("monomial(z) + z", "z**3 + z"),
    ],
)
def test_registered_names_inside_formulas(text, formula):
    found = activation(text)
    assert found.name == "custom"
    if formula == "selu":  # breaks at the same place: piece by piece
        one, two = (activation(name).pieces for name in ("selu", "elu"))
        assert all(sp.expand(a - b + c) == 0 for a, b, c in zip(found.pieces.exprs, one.exprs, two.exprs))
        return
    expected = activation(formula).pieces
    assert found.pieces.breaks == expected.breaks
    assert all(sp.simplify(a - b) == 0 for a, b in zip(found.pieces.exprs, expected.exprs))
    assert activation(found.source).expression == found.expression, "the source holds functions only"
    assert not set(mf.activations()) & {"gelu", "mish"} & set(found.source.replace("(", " ").split())


def test_a_formula_with_registered_names_is_run_by_networks():
    report = mf.check("z*mish(z)/2", sigma_w=0.8, sigma_b=0.1, width=64, depth=3, networks=32, seed=1)
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("ReLU", "relu"),
        ("GELU", "gelu"),
        ("Tanh", "tanh"),
        ("LeakyReLU", "leaky_relu"),
        ("LEAKY_RELU(0.2)", "leaky_relu"),
        ("HardTanh", "hard_tanh"),
        ("SiLU", "silu"),
        ("Swish1", "silu"),
        ("Identity", "linear"),
    ],
)
def test_names_in_any_case(written, name):
    assert activation(written).name == name
    assert mf.derive(architecture=mf.networks.mlp(written)).activations[0].name == name


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("gellu", "gelu"),
        ("reul", "relu"),
        ("tnah", "tanh"),
        ("sofplus", "softplus"),
        ("leakyrelu6", "leaky_relu"),
        ("z*gellu(z)", "gelu"),
        ("1 + tahn(z)", "tanh"),
        ("gel", "gelu"),
    ],
)
def test_what_was_meant_by_an_unknown_name(written, meant):
    with pytest.raises(mf.MeanFieldError, match=f"Did you mean .*{meant}"):
        activation(written)


def test_names_stay_safe():
    with pytest.raises(mf.MeanFieldError, match="No activation is named 'qqqq'") as error:
        activation("qqqq")
    assert "Did you mean" not in str(error.value)
    for text, word in (
        ("leaky_relu(z)", "write leaky_relu for the default"),
        ("z + gelu(z, 1)", "has none"),
        ("gelu(n=1) + z", "arguments"),
        ("+".join(["gelu_tanh(gelu_tanh(gelu_tanh(z)))"] * 3), "parts"),
    ):
        with pytest.raises(mf.MeanFieldError, match=word):
            activation(text)
    for taken in ("ReLU", "Leaky_ReLU", "exp", "TANH"):
        with pytest.raises(mf.MeanFieldError, match="new identifier"):
            mf.register(taken, "z")


# ------------------------------------------------------------------------------------- critical to rounding


@pytest.mark.parametrize(
    ("sigma_w", "name"),
    [
        (2**0.5, "critical to rounding"),
        (np.sqrt(2), "critical to rounding"),
        (np.float32(2) ** np.float32(0.5), "critical to rounding"),
        (math.nextafter(2**0.5, 0), "critical to rounding"),
        ("sqrt(2)", "critical"),
        (1.4142135623731, "chaotic"),  # 20 units off
        (1.41421356237309, "ordered"),
        ("1.4142135623730951", "chaotic"),  # text is exact
        (1.4143, "chaotic"),
    ],
)
def test_a_relu_at_a_float_root_of_two(sigma_w, name):
    phase = mf.derive("relu").phase(sigma_w=sigma_w, sigma_b=0)
    points = mf.derive("relu").fixed_points(sigma_w=sigma_w, sigma_b=0)
    assert (phase.name, points[0].phase) == (name, name)
    assert phase.to_rounding == points[0].to_rounding == (name == "critical to rounding")
    assert name in str(phase) and name in str(points)
    assert math.isinf(phase.xi) == math.isinf(points[0].xi) == name.startswith("critical")


def test_the_correlation_length_of_an_exact_decimal_is_finite():
    phase = mf.derive("relu").phase(sigma_w="1.4142135623730951", sigma_b=0)
    assert phase.xi == pytest.approx(1 / float(sp.Rational("1.4142135623730951") ** 2 / 2 - 1), rel=1e-6)


@pytest.mark.slow_with(
    "erf-{}-{'sigma_w': 0.8862269254527579, 'sigma_b': 0}", "tanh-{}-{'sigma_w': 1.0000000000000002, 'sigma_b': 0}"
)
@pytest.mark.parametrize(
    ("name", "kw", "at"),
    [
        ("erf", {}, {"sigma_w": math.pi**0.5 / 2, "sigma_b": 0}),
        ("leaky_relu", {"alpha": "0.3"}, {"sigma_w": (2 / 1.09) ** 0.5, "sigma_b": 0}),
        ("relu", {"mu": 0.6}, {"sigma_w": 1.28**0.5, "sigma_b": 0.0}),
        ("tanh", {}, {"sigma_w": 1.0000000000000002, "sigma_b": 0}),
    ],
    ids=str,
)
def test_other_critical_values_in_doubles(name, kw, at):
    assert mf.derive(name, **kw).phase(**at).name.startswith("critical")
    off = at | {"sigma_w": at["sigma_w"] * (1 + 1e-12)}
    assert mf.derive(name, **kw).phase(**off).name in ("chaotic", "ordered")


@pytest.mark.slow
def test_a_point_on_a_critical_line_in_doubles():
    """K* > 0: χ_J at the doubles of a point of the line; a planted reach of 0 units forgets it."""
    theory = mf.derive("erf")
    w, b = (float(s.value) for s in theory.critical_line().at(sp.Rational(1, 2)))
    assert theory.phase(sigma_w=w, sigma_b=b).name == "critical to rounding"
    assert theory.phase(sigma_w=w * (1 + 1e-9), sigma_b=b).name == "chaotic"


def test_planted_reach_of_nothing_is_seen(monkeypatch):
    monkeypatch.setattr(rounding, "REACH", 0)
    assert mf.derive("relu").phase(sigma_w=2**0.5, sigma_b=0).name == "chaotic"


# ------------------------------------------------------------------------------------------ bounded functions

BOUNDED = {
    "1/(1+z+z**2)": 4 / 3,
    "exp(-z**4)": 1.0,
    "exp(sin(z))": math.e,
    "exp(-z**4+z**3)": math.exp(27 / 256),
    "z/(1+z**2)": 0.5,
    "z*exp(-z**2)": math.exp(-0.5) / math.sqrt(2),
    "z/sqrt(1+z**2)": 1.0,
    "(z**2+1)/(z**2+2)": 1.0,
    "1/(z**4-z**2+1)": 4 / 3,
    "1/(1+z**2+sqrt(2)*z)": 2.0,
    "1/(2+sin(z))": 1.0,
    "exp(-softplus(z))": 1.0,
    "exp(tanh(z))": math.e,
    "log(2+cos(z))": math.log(3),
    "z*sech(z)": None,
    "exp(-z**2+sin(z))": None,
    "(1+z)/(2+z**2+tanh(z))": None,
    "erf(z)/z if abs(z)>1 else z": 1.0,
    "exp(z**2) if abs(z)<1 else 3": 3.0,
    "z/(1+abs(z)**3)**(1/3)": 1.0,
    "exp(-pi*z**4+z)": None,
    "max(z, 0)/(1 + max(z, 0))": 1.0,
}


def _values(text: str):
    """(x, φ(x)) at many points, by mpmath."""
    for e, lo, hi in activation(text).pieces.intervals():
        f = sp.lambdify(Z[0], e.rewrite(sp.exp) if e.has(sigmoid, softplus) else e, "mpmath")
        for k in range(-400, 401):
            x = math.sinh(k / 80)
            if lo < x < hi:
                yield x, float(f(mp.mpf(x)))


def assert_bounded(text: str, found, largest: float | None) -> None:
    """A constant bound that holds, and is close to the largest value where that is known."""
    assert found is not None and found.p == found.c == 0, f"{text} has the bound {found}"
    assert all(abs(v) <= found.A for _, v in _values(text)), f"{text} exceeds {found.A}"
    if largest is not None:
        assert largest * (1 + 1e-9) >= found.A, f"{text}: {found.A} for {largest}"


@pytest.mark.parametrize("text", list(BOUNDED))
def test_bounded_functions_are_bounded(text):
    assert_bounded(text, activation(text).bound, BOUNDED[text])


@pytest.mark.parametrize("text", ["z", "z**2/(1+abs(z))", "softplus(z)", "z*tanh(z)", "log(1+z**2)", "exp(z-1)"])
def test_unbounded_functions_are_not(text):
    found = activation(text).bound
    assert found is not None and (found.p > 0 or found.c > 0)
    assert all(abs(v) <= found.A * (1 + abs(x)) ** found.p * math.exp(found.c * abs(x)) for x, v in _values(text))


def test_a_planted_bound_is_caught():
    with pytest.raises(AssertionError, match=r"exceeds 1.33"):
        assert_bounded("1/(1+z+z**2)", Bound(1.33), 4 / 3)
    with pytest.raises(AssertionError, match=r"1.34 for 1.33"):
        assert_bounded("1/(1+z+z**2)", Bound(1.34), 4 / 3)


def test_ranges_of_polynomials_are_exact():
    x = Z[0]
    for e, low, high, least, most in (
        (x**2 - 3 * x + 1, -math.inf, math.inf, -1.25, math.inf),
        (x**3 - 3 * x, -2, 2, -2, 2),
        (x**3 - 3 * x, 0, math.inf, -2, math.inf),
        (x**6 - sp.sqrt(2) * x**3, -math.inf, math.inf, -0.5, math.inf),
        ((1 - x) ** 4, -math.inf, math.inf, 0, math.inf),
        (1 / (x - 3), -1, 1, -0.5, -0.25),
    ):
        a, b = span(e, x, float(low), float(high))
        assert a <= least + 1e-12 and b >= most - 1e-12, e
        assert a == pytest.approx(least, abs=1e-9) and (b == most or b == pytest.approx(most, abs=1e-9)), e
    assert span(1 / x, x, -1.0, 1.0) == (-math.inf, math.inf)
    assert lower(sp.cosh(x) - x, x) is None and lower(1 + x + x**2, x) == pytest.approx(0.75)
    assert bound(1 / (1 + x), x, 1) is not None and bound(1 / (1 + x), x) is None


@pytest.mark.slow
def test_certified_averages_of_bounded_functions():
    """What had no bound had no certified average; against mpmath's quadrature."""
    for text in ("1/(1+z+z**2)", "exp(-z**4)", "exp(sin(z))", "z/sqrt(1+z**2)"):
        value = sp.N(mf.derive(text).averages()["phi^2"].subs(K, sp.Rational(3, 2)), 20)
        f = sp.lambdify(Z[0], activation(text).pieces.exprs[0], "mpmath")
        with mp.workdps(30):
            truth = mp.quad(lambda x, f=f: f(x) ** 2 * mp.exp(-(x**2) / 3), mp.linspace(-24, 24, 49))
            truth /= mp.sqrt(3 * mp.pi)
        assert abs(mp.mpf(str(value)) / truth - 1) < 1e-15, text


# ------------------------------------------------------------------------------------- the caller's symbols


def test_averages_in_any_symbol():
    x, q, a = sp.symbols("x q a")
    assert mf.average(sp.tanh(x) ** 2, K) == mf.average(sp.tanh(z) ** 2, K) == mf.average("tanh(z)**2", "K")
    assert mf.average(sp.erf(x) ** 2, q).doit() == 2 * sp.asin(2 * q / (2 * q + 1)) / sp.pi
    assert mf.average(sp.Abs(x), K).doit() == sp.sqrt(2 * K / sp.pi)
    assert mf.average(sp.sqrt(x**2), K) == mf.average(sp.Abs(x), K)
    assert mf.average(sp.Piecewise((x, x > 0), (0, True)) ** 2, K).doit() == K / 2
    assert mf.average(a * sp.Symbol("z") ** 2, K).doit() == mf.average(a * z**2, K).doit() == a * K
    assert mf.average(sp.exp(a * x), K, variables=x).doit() == sp.exp(K * a**2 / 2)
    two = mf.average(sp.Max(x, 0) * sp.Max(a, 0), (1, q, 1), variables=(x, a)).doit()
    assert sp.N(two.subs(q, 0), 15) == pytest.approx(1 / (2 * math.pi))
    assert mf.average("z*gelu(z)", K) == mf.average(activation("z*gelu(z)").expression, K)
    assert mf.average(x**2, 2, mean=3).doit() == 11 and mf.average(3, K) == 3 and mf.average(K**2, K) == K**2
    assert mf.average("tanh(z)**2", "2/3") == mf.average(sp.tanh(x) ** 2, sp.Rational(2, 3))
    assert mf.average(sp.Float(0.5) * x**2, K).doit() == K / 2


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((sp.tanh(sp.Symbol("a") * sp.Symbol("x")), K), "call the one averaged over z"),
        ((sp.Symbol("x") * sp.Symbol("y"), (1, 0, 1)), "name the 2"),
        ((sp.Symbol("p", positive=True) ** 2, K), "every real value"),
        ((sp.Symbol("n", integer=True) ** 2, K), "every real value"),
        ((sp.I * sp.Symbol("x"), K), "not a real function"),
        (("__import__('os').system('true')", K), "not allowed"),
        (("foo(z)", K), "not allowed"),
        ((None, K), "expression or a formula"),
        ((sp.Symbol("x") > 0, K), "expression or a formula"),
        ((z, "__import__('os')"), "finite number"),
        ((z, None), "real number or symbol"),
        ((z, -1), "variance"),
        ((z, (1, 2)), "lower triangle"),
        ((z, K, (1, 2)), "mean"),
    ],
    ids=str,
)
def test_an_average_that_is_not_clear_gets_a_sentence(arguments, word):
    with pytest.raises(mf.MeanFieldError, match=word):
        mf.average(*arguments)


# ------------------------------------------------------------------------------------------- what is shown


def test_dir_shows_the_public_names_and_nothing_else():
    shown = dir(mf)
    assert shown == sorted(mf.__all__) and {"derive", "check", "measure", "average", "register"} <= set(shown)
    rooms = {name for name in shown if inspect.ismodule(getattr(mf, name))}
    assert rooms == {"architectures", "bias", "data", "empirical", "kernels", "networks", "parametrizations",
                     "prediction", "presentation", "recipes", "symbolic", "symbols", "training", "tuning"}  # fmt: skip
    assert not any(name.startswith("_") for name in shown)
    space: dict = {}
    exec("from meanfield import *", space)
    assert set(shown) <= set(space)


def assert_short(thing) -> None:
    """A repr on one line of at most 130 characters, without arrays, that starts with the type's name."""
    text = repr(thing)
    short = len(text) <= 130 and "\n" not in text and "array(" not in text and "Solution(" not in text
    assert short, f"no short repr: {text}"
    assert text.startswith(type(thing).__name__ + "("), text


def test_short_reprs():
    theory = mf.derive("gelu", mu="1/2")
    run = theory.propagate(sigma_w=[1.0, 1.2], sigma_b=0.1, depth=5)
    points = mf.derive("gelu").critical_points()
    found = mf.derive("gelu").fixed_points(sigma_w="1.7", sigma_b=0)
    report = mf.check("relu", sigma_w=1, sigma_b=0, width=16, depth=2, networks=8)
    diagram = mf.derive("relu").phase_diagram(sigma_w=[0, 0.5, 1, 1.5, 2], sigma_b=[0, 0.5, 1], line=False)
    long = mf.derive("+".join(f"tanh({k}*z)" for k in range(1, 24)))
    phase = mf.derive("gelu").phase(sigma_w=1, sigma_b=0.1)
    for thing in (theory, theory.one_input, run, report, found, found[0], points, points[1], diagram, phase):
        assert_short(thing)
    for thing in (theory.activations[0], long, long.activations[0], mf.derive("relu").critical_line()):
        assert_short(thing)
    assert repr(theory) == "Theory(residual MLP (mu = 1/2), gelu)"
    assert repr(run) == "Run(K, J; layers 1 to 5; 2 points (2,))"
    assert repr(report) == "Report(passed: Check of MLP, relu; K, J; 4 rows)"
    assert repr(activation("leaky_relu", alpha="1/3")) == "Activation(leaky_relu(alpha=1/3))"
    with pytest.raises(AssertionError, match="no short repr"):
        assert_short(found[0].K)


# ----------------------------------------------------------------------------------------------- data frames


class _Frame:
    """What a data frame is made of, for a test without pandas."""

    def __init__(self, columns, index):
        self.columns, self.index = columns, index


def _pandas() -> types.ModuleType:
    module = types.ModuleType("pandas")
    module.DataFrame = _Frame
    module.Index = lambda values, name: {name: list(values)}
    module.MultiIndex = types.SimpleNamespace(
        from_arrays=lambda arrays, names: dict(zip(names, [list(a) for a in arrays], strict=True))
    )
    return module


@pytest.mark.slow
def test_a_run_as_a_data_frame(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", _pandas())
    theory = mf.derive("tanh")
    run = theory.propagate(sigma_w=1.2, sigma_b=0.1, depth=3)
    frame = run.to_frame()
    assert frame.index == {"layer": [1, 2, 3]} and list(frame.columns) == ["K", "J", "log_J"]
    assert np.array_equal(frame.columns["K"], run.K)
    grid = theory.propagate(sigma_w=[[1.0], [2.0]], sigma_b=[0.1, 0.2], depth=2)
    frame = grid.to_frame()
    assert list(frame.index) == ["sigma_w", "sigma_b", "layer"]
    for w, b, l, k in zip(*frame.index.values(), frame.columns["K"]):
        assert k == grid.K[[1.0, 2.0].index(w), [0.1, 0.2].index(b), l - 1]
    layered = theory.propagate(sigma_w=[1.0, 2.0], sigma_b=0.1, depth=2, layerwise=True, input_norm=[1.0, 3.0])
    assert layered.to_frame().index == {"input_norm": [1.0, 1.0, 3.0, 3.0], "layer": [1, 2, 1, 2]}
    pair = theory.propagate(sigma_w=1.0, sigma_b=0.1, depth=2, correlation=0.5).to_frame()
    assert list(pair.columns) == ["K_aa", "K_bb", "K_ab", "c"]


def test_a_data_frame_without_pandas_gets_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(mf.MeanFieldError, match="pip install pandas"):
        mf.derive("tanh").propagate(sigma_w=1.2, sigma_b=0.1, depth=3).to_frame()


@pytest.mark.slow
def test_sentences_name_the_variable_as_it_was_written():
    with pytest.raises(mf.MeanFieldError, match=r"exp\(2\*z\*\*2\)"):
        mf.derive("exp(z**2)").propagate(sigma_w=1, sigma_b=1, depth=3)
    with pytest.raises(mf.MeanFieldError, match="No activation is named 'zzz") as raised:
        mf.derive("z" * 5000)
    assert len(str(raised.value)) < 500


def test_an_infinite_slope_on_both_sides_is_no_jump():
    """|z|^(2/5): φ is continuous, its slope is infinite at 0; K is followed, J is refused for its true reason."""
    theory = mf.derive("abs(z)**0.4")
    assert theory.activations[0].is_continuous
    run = theory.propagate(sigma_w=1, sigma_b=1, depth=2)
    assert run.quantities == ("K",)
    power = 2**0.4 * math.gamma(0.9) / math.sqrt(math.pi)  # ⟨|t|^0.8⟩
    assert run.K[1] == pytest.approx(1 + 2**0.4 * power, rel=1e-14)
    with pytest.raises(mf.MeanFieldError, match="infinite"):
        theory.propagate(sigma_w=1, sigma_b=1, depth=3, quantities=("K", "J"))


def test_a_result_of_networks_is_short():
    run = mf.measure("relu", sigma_w=1, sigma_b=0, width=20, depth=2, networks=3)
    assert repr(run) == "EnsembleResult(K, J; width 20, depth 2, 3 networks)"


# ------------------------------------------------------------------------------------------------- printed answers


def assert_eighty_columns(text: str) -> None:
    assert max(map(len, text.splitlines())) <= 80, f"wider than 80 columns: {text}"


def printed_answers() -> list[str]:
    erf, gelu = mf.derive("erf"), mf.derive("gelu")
    return [
        str(one)
        for one in (
            gelu.fixed_points(sigma_w="1.7", sigma_b=0),
            gelu.critical_line(),
            mf.derive("tanh").critical_points(),
            mf.derive("gelu", norm="act", mu="mu").critical_line(),
            mf.derive("softplus").depth_law("K", sigma_w="sqrt(2)", sigma_b=0),
            mf.derive("sigmoid", residual=True).depth_law("J", sigma_w=1, sigma_b=0),
            erf.phase(sigma_w="1.3", sigma_b="0.2"),
            mf.derive("softplus").table(),
        )
    ]


@pytest.mark.slow
def test_printed_answers_fit_eighty_columns():
    for text in printed_answers():
        assert_eighty_columns(text)
    with pytest.raises(AssertionError, match="wider than 80 columns"):
        assert_eighty_columns(mf.derive("gelu").fixed_points(sigma_w="1.7", sigma_b=0).message + " " * 80 + ".")


@pytest.mark.parametrize("columns", [30, 79])
def test_lines_break_without_losing_anything(columns):
    text = "  K = " + " + ".join(f"sqrt(pi)*f(K, {i})/3" for i in range(20)) + "\n(short)\n  " + "9" * 200
    lines = plain_text.wrapped(text, columns)
    assert max(map(len, lines.splitlines())) <= columns and "".join(lines.split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("theory", "first"),
    [
        (lambda: mf.derive("softplus"), "no critical points"),
        (lambda: mf.derive("step"), "no critical points"),
        (lambda: mf.derive("tanh", norm="pre"), "no isolated critical points"),
        (lambda: mf.derive("tanh"), "critical point: sigma_w = 1, sigma_b = 0"),
    ],
)
def test_an_answer_without_points_says_so_first(theory, first):
    found = theory().critical_points()
    assert str(found).splitlines()[0] == first
    assert (len(found) == 0) == first.startswith("no ")
    assert len(found) or first in found.latex()


def test_where_nothing_is_fixed_it_is_said_first():
    found = mf.derive("relu").fixed_points(sigma_w="2", sigma_b=1)
    assert len(found) == 0 and str(found).splitlines()[0] == "no fixed points"
    assert not str(mf.derive("erf").fixed_points(sigma_w="1", sigma_b=1)).startswith("no ")


@pytest.mark.slow
def test_numbers_without_a_closed_form_are_named_and_given():
    law = mf.derive("softplus").depth_law("K", sigma_w="sqrt(2)", sigma_b=0)
    first = str(law).splitlines()[0]
    where = next(line for line in str(law).splitlines() if "where M_1" in line)
    moment = mp.quad(lambda t: mp.log1p(mp.exp(-abs(t))) * (2 * max(t, 0) + mp.log1p(mp.exp(-abs(t)))), [-90, 0, 90])
    name, _, digits = where.strip().removeprefix("where ").split(" = ")
    assert name in first and "Moment" not in first and "Moment" not in repr(law)
    assert math.isclose(float(digits), float(moment), rel_tol=1e-11)
    assert "Moment" in law.law.text(), "files keep the number itself"
    table = str(mf.derive("softplus").table())
    assert "where M_3 = Moment(softplus(z)**2, 4) = 239.558484821" in " ".join(table.split())
    many = str(mf.derive("mish", norm="pre", residual=True).depth_law("J", sigma_w=1, sigma_b=0))
    assert "A_1/A_2" in many and many.count("where A_") == 2


# ------------------------------------------------------------------------------------------------- counts, matrices


def test_counts_are_read_from_text():
    """What the command line reads as a whole number, every verb does."""
    text, plain = {"width": "24", "depth": " 3", "networks": "8"}, {"width": 24, "depth": 3, "networks": 8}
    at = {"sigma_w": 1, "sigma_b": 0}
    assert mf.check("tanh", **at, **text, seed="1").data() == mf.check("tanh", **at, **plain, seed=1).data()
    runs = [mf.measure("tanh", **at, **given).estimate("K").mean for given in (text, plain)]
    assert np.array_equal(*runs)
    assert mf.measure("tanh", **at, **text | {"width": "2000"}).sampler == "lazy"
    assert mf.measure("tanh", **at, **text | {"width": ["24", "12", "6"]}).widths == (24, 12, 6)
    assert str(mf.measure_criticality("tanh", **at, **text)) == str(mf.measure_criticality("tanh", **at, **plain))
    theory = mf.derive("erf")
    assert np.array_equal(theory.propagate(**at, depth="4").K, theory.propagate(**at, depth=4).K)
    assert theory.expansions(order="2") == theory.expansions(order=2) and mf.Pool("4") == mf.Pool(4)


@pytest.mark.parametrize("bad", ["3.5", "three", "", "0", "-2", "9" * 50, "٣x", "1e2", "3 4"])
def test_what_is_no_count_gets_a_sentence(bad):
    for call in (
        lambda: mf.derive("erf").propagate(sigma_w=1, sigma_b=0, depth=bad),
        lambda: mf.measure("tanh", sigma_w=1, sigma_b=0, width=bad, depth=2, networks=4),
    ):
        with pytest.raises(mf.MeanFieldError, match=r"must be (a whole number|an integer) from"):
            call()


@pytest.mark.parametrize("axis", [(0, 2, 1), (0, 2, 1.5), (0, 0.5, 1), (0, 2, 0), (0, 2, -3), (0.5, 1, 1.5)])
def test_three_numbers_of_an_axis_are_low_high_count(axis):
    theory, rest = mf.derive("erf"), {"sigma_b": [0.0, 0.5], "line": False}
    with pytest.raises(mf.MeanFieldError, match=r"read as \(low, high, count\).*as a list"):
        theory.phase_diagram(sigma_w=axis, **rest)
    if min(axis) >= 0:
        assert theory.phase_diagram(sigma_w=list(axis), **rest).sigma_w.tolist() == list(axis)
    assert theory.phase_diagram(sigma_w=(0, 2, 11), **rest).sigma_w.tolist() == np.linspace(0, 2, 11).tolist()


@pytest.mark.parametrize("axis", [(1, 1.5, 2), (0.5, 2, 4), (0, 1, 10)])
def test_three_rising_numbers_could_be_an_axis_or_values(axis):
    theory, rest = mf.derive("erf"), {"sigma_b": [0.0, 0.5], "line": False}
    with pytest.raises(mf.MeanFieldError, match=r"could be three values or .* as a list, .* numpy\.linspace\("):
        theory.phase_diagram(sigma_w=axis, **rest)
    for written in (list(axis), np.linspace(*axis[:2], int(axis[2]))):  # as the sentence says
        assert theory.phase_diagram(sigma_w=written, **rest).sigma_w.tolist() == list(written)


def test_a_covariance_is_a_triangle_or_a_matrix():
    a, b, c, x, y = sp.symbols("a b c x y")
    triangle = mf.average(sp.erf(x) * sp.erf(y), (a, b, c), variables=(x, y))
    assert mf.average(sp.erf(x) * sp.erf(y), sp.Matrix([[a, b], [b, c]]), variables=(x, y)) == triangle
    assert mf.average(sp.erf(x) * sp.erf(y), [[a, b], [b, c]], variables=(x, y)) == triangle
    assert mf.average("z**2", sp.Matrix([[a]])).doit() == a
    for found in (np.array([[1, 0.5], [0.5, 2]]), np.array([1, 0.5, 2])):
        assert mf.average(x * y, found, variables=(x, y)).doit() == 0.5


@pytest.mark.parametrize(
    ("cov", "words"),
    [
        (sp.Matrix([[1, 2]]), "as many columns as rows"),
        (sp.Matrix([[1, sp.Rational(1, 2)], [0, 1]]), r"symmetric, but entries \(2, 1\) and \(1, 2\)"),
        (sp.Matrix([[1, 0], [0, -1]]), "variance must be ≥ 0"),
        (sp.eye(5), "at most 4 rows"),
        ([[1, 0], 1], "as many columns as rows"),
    ],
)
def test_what_is_no_covariance_gets_a_sentence(cov, words):
    x, y = sp.symbols("x y")
    with pytest.raises(mf.MeanFieldError, match=words):
        mf.average(x * y, cov, variables=(x, y))


BLOCKS = [
    (mf.networks.mlp("tanh"), "Sequential((Nonlinearity('tanh'), Dense()))"),
    (mf.Residual(mf.Dense(sigma_w="1/sqrt(2)"), 0.5), "Residual(Dense(sigma_w='1/sqrt(2)'), "),
    (mf.Pool(3), "Pool(size=3)"),
    (mf.LayerNorm(affine=False), "LayerNorm(affine=False)"),
    (mf.Scale("sqrt(2)"), "Scale('sqrt(2)')"),
    (mf.Param("mu"), "Param('mu')"),
]


@pytest.mark.parametrize(("block", "text"), BLOCKS, ids=[t for _, t in BLOCKS])
def test_blocks_show_themselves_as_they_are_written(block, text):
    assert repr(block).startswith(text)
    assert eval(repr(block), {**vars(mf), "Fraction": Fraction}) == block


def test_answers_show_themselves_in_one_line():
    found = mf.measure_criticality("tanh", sigma_w=1, sigma_b=0, width=8, depth=3, networks=40)
    law = mf.derive("softplus").depth_law("K", sigma_w="sqrt(2)", sigma_b=0).law
    grid = criticality_grid([mf.networks.mlp("tanh")], sigma_w=[0.5, 1], sigma_b=[0, 0], width=8, depth=3, networks=4)
    for one in (
        found,
        law,
        grid,
        mf.derive("tanh").table(),
        mf.networks.mlp("tanh", mu="mu"),
        mf.networks.mlp("gelu", norm="pre"),
    ):
        assert len(repr(one)) <= 125 and "\n" not in repr(one) and "array" not in repr(one), repr(one)
