"""Hand-written activations against 320-digit references, with planted errors."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import mpmath as mp
import numpy as np
import pytest

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.functions.reference_functions import derivatives, is_smooth, names, pair_of, resolve, twin
from meanfield.empirical.functions.registry import ScalarPair, bound, elementwise
from meanfield.empirical.functions.user_formulas import from_formula
from tests.oracles.activations import ACTIVATIONS


def _softplus(x):
    return mp.log(1 + mp.exp(x))


def _sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def _selu(x):
    # scale and slope from their defining conditions: mean 0 and variance 1 are a fixed point
    r, s = mp.erfc(1 / mp.sqrt(2)), mp.sqrt(mp.e)
    alpha = -mp.sqrt(2 / mp.pi) / (r * s - 1)
    scale = (1 - r * s) * mp.sqrt(2 * mp.pi)
    scale /= mp.sqrt(2 * mp.erfc(mp.sqrt(2)) * mp.e**2 + mp.pi * r**2 * mp.e - 2 * (2 + mp.pi) * r * s + mp.pi + 2)
    return scale * (x if x > 0 else alpha * mp.expm1(x))


REFERENCE = {
    "linear": lambda x: x,
    "relu": lambda x: (x + abs(x)) / 2,
    "leaky_relu": lambda x: max(x, x / 100),
    "scale_invariant": lambda x: mp.mpf(3) / 2 * x if x > 0 else -x / 4,
    "abs": abs,
    "step": lambda x: (1 + mp.sign(x)) / 2,
    "sign": mp.sign,
    "hard_tanh": lambda x: max(-1, min(1, x)) * mp.mpf(1),
    "relu6": lambda x: max(0, min(6, x)) * mp.mpf(1),
    "tanh": mp.tanh,
    "erf": mp.erf,
    "sigmoid": _sigmoid,
    "softsign": lambda x: x / (1 + abs(x)),
    "arctan": mp.atan,
    "gelu": lambda x: x * mp.erfc(-x / mp.sqrt(2)) / 2,
    "gelu_tanh": lambda x: x * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))) / 2,
    "silu": lambda x: x * _sigmoid(x),
    "swish": lambda x: x * _sigmoid(mp.mpf(7) / 4 * x),
    "mish": lambda x: x * mp.tanh(_softplus(x)),
    "softplus": _softplus,
    "elu": lambda x: x if x > 0 else mp.expm1(x),
    "selu": _selu,
    "sin": mp.sin,
    "cos": mp.cos,
    "gaussian": lambda x: mp.exp(-x * x / 2),
    "relu2": lambda x: max(x, mp.mpf(0)) ** 2,
    "hard_swish": lambda x: x * max(0, min(6, x + 3)) / 6,
    "erf_scaled": lambda x: mp.erf(x * mp.sqrt(mp.pi) / 2),
    "monomial": lambda x: x**5,
    "polynomial": lambda x: mp.mpf(1) / 2 + x - 2 * x**2 - x**3 / 3,
}
PARAMETERS = {"scale_invariant": {"a_plus": Fraction(3, 2), "a_minus": "-0.25"}, "swish": {"beta": 1.75}}
PARAMETERS |= {"monomial": {"n": 5}, "polynomial": {"c0": "0.5", "c2": -2}}
POINTS = np.array([1e-300, 1e-9, 1e-3, 0.1, 0.75, 1.2, 1.5, 3.3, 5.9, 6.2, 9, 26, 38, 88, 709, 745.5, 800])  # no kinks
POINTS = np.concatenate((POINTS, -POINTS))
SMOOTH = [name for name in REFERENCE if is_smooth(name)]
SMOOTH_POINTS = np.array(
    [s * x for x in (1e-9, 1e-3, 0.1, 0.57, 0.75, 1.2, 1.5, 3.3, 5.9, 9, 38, 745.5) for s in (1, -1)]
)


def _parameters(name):
    return PARAMETERS.get(name, {})


@lru_cache
def _references(name, order):
    with mp.workdps(320):  # the step of mp.diff is below the smallest point, its error below the smallest double
        return [mp.diff(REFERENCE[name], mp.mpf(x), order) if order else REFERENCE[name](mp.mpf(x)) for x in POINTS]


@lru_cache
def _smooth_references(name, order):
    found = []
    for x in SMOOTH_POINTS:
        with mp.workdps(320 if abs(x) > 7 else 60):  # digits for the tails only, where the answer is tiny
            found.append(mp.diff(REFERENCE[name], mp.mpf(x), order))
    return found


def _worst(values, name, order, points=POINTS, references=_references):
    """Largest error in units of ε(|f| + |x f′|), what rounding x and f costs; below 1e-300 it counts as nothing."""
    worst = 0.0
    for x, value, true, slope in zip(points, values, references(name, order), references(name, order + 1)):
        scale = 2.0**-53 * (abs(true) + abs(x * slope)) + mp.mpf("1e-300")
        worst = max(worst, float(abs(mp.mpf(float(value)) - true) / scale))
    return worst


def test_every_twin_has_a_reference():
    assert set(names()) == set(REFERENCE)


@pytest.mark.fast_with("linear", "relu", "abs", "step", "sign", "tanh", "silu", "sin", "cos", "relu2", "monomial")
@pytest.mark.parametrize("name", REFERENCE)
def test_values_and_derivatives(name):
    pair = pair_of(name, _parameters(name))
    out = np.empty_like(POINTS)
    for order, function in enumerate((pair.phi, pair.dphi)):
        elementwise(function)(POINTS, out, pair.parameters)
        assert _worst(out, name, order) < 12
        assert _worst(out * (1 + 1e-13), name, order) > 12 or not out.any(), "control: a planted error must be seen"


@pytest.mark.fast_with("linear", "tanh", "silu", "sin", "cos", "monomial")
@pytest.mark.parametrize("name", SMOOTH)
def test_second_and_third_derivatives(name):
    for order, out in enumerate(derivatives(name, 3, _parameters(name))(SMOOTH_POINTS)[2:], start=2):
        # mish: 1 − λ − 2λT is −0.1 at 0
        assert _worst(out, name, order, SMOOTH_POINTS, _smooth_references) < 20
        wrong = out * (1 + 1e-13)
        assert _worst(wrong, name, order, SMOOTH_POINTS, _smooth_references) > 20 or not out.any(), "control"
        for i in range(len(out)):  # a planted error at any one point is seen, too
            wrong = out + np.where(np.arange(len(out)) == i, 1e-12 * (1 + np.abs(SMOOTH_POINTS * out)), 0.0)
            assert _worst(wrong, name, order, SMOOTH_POINTS, _smooth_references) > 20, "control"


def test_those_without_kinks_have_higher_derivatives():
    """The oracle's list of kinks names the jumps of φ, φ′ and φ″; `sign` and `step` jump themselves."""
    kinked = {name for name in names() if name in ACTIVATIONS and ACTIVATIONS[name].kinks}
    assert set(names()) - kinked == set(SMOOTH)
    assert {"relu", "softsign", "elu", "relu2", "step", "hard_swish"} < kinked


@pytest.mark.parametrize("name", ["softsign", "elu", "relu2"])
def test_a_jump_of_the_second_derivative_is_no_derivative(name):
    """Why these three have no φ″, φ‴: φ″ differs on the two sides of 0."""
    left, right = (mp.diff(REFERENCE[name], mp.mpf(x), 2) for x in ("-1e-6", "1e-6"))
    assert abs(right - left) > 0.9


def test_arrays_of_derivatives():
    z = np.array([[0.3, -1.0, 2.0], [0.0, 4.0, -0.5]])
    found = derivatives("sin", 3)(z[:, ::2])
    for out, function in zip(found, (np.sin, np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x))):
        np.testing.assert_allclose(out, function(z[:, ::2]), rtol=1e-15, atol=1e-16)
    assert [len(derivatives("relu", order)(z)) for order in (0, 1)] == [1, 2]
    own = ScalarPair(lambda x: x**3, lambda x: 3 * x**2, higher=(lambda x: 6 * x, lambda x: 6.0))
    assert is_smooth(own) and not is_smooth(ScalarPair(own.phi, own.dphi))
    assert [out[0, 2] for out in derivatives(own, 3)(z)] == [8.0, 12.0, 12.0, 6.0]
    assert [float(out[0]) for out in derivatives("monomial", 3, {"n": 1})(np.zeros(1))] == [0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "activation, order, message",
    [
        ("relu", 2, "Derivative 2 of 'relu' is not available: it has no φ″ and φ‴ here; .* higher="),
        (ScalarPair(abs, np.sign), 3, "Derivative 3 of an activation is not available"),
        ("tanh", 4, "Derivative 4 of 'tanh' is not available: only those of order 0 to 3 can be had"),
    ],
)
def test_derivatives_that_are_not_there(activation, order, message):
    with pytest.raises(MeanFieldError, match=message):
        derivatives(activation, order)


@pytest.mark.slow_with("erf", "mish", "selu", "gaussian", "erf_scaled")
@pytest.mark.parametrize("name", REFERENCE)
def test_no_finite_double_gives_nan(name):
    pair = pair_of(name, _parameters(name))
    x = np.array([s * v for v in (0.0, 5e-324, 1e-308, 1e100, 1e155, 1e200, 1.7e308) for s in (1, -1)])
    out = np.empty_like(x)
    for function in (pair.phi, pair.dphi, *(pair.higher or ())):
        with np.errstate(over="ignore", under="ignore"):  # numpy's scalars warn where the compiler is switched off
            elementwise(function)(x, out, pair.parameters)
        assert not np.isnan(out).any()
        if name not in ("relu2", "scale_invariant", "monomial", "polynomial"):  # overflow where the true value does
            assert np.isfinite(out).all()


@pytest.mark.slow
def test_twins_are_scalar_functions():
    phi, dphi = twin("leaky_relu", {"alpha": "0.2"})
    assert (phi(-3.0), dphi(-3.0), phi(2.0)) == (0.2 * -3.0, 0.2, 2.0)
    phi, dphi = twin("tanh")
    assert phi(0.5) == pytest.approx(float(mp.tanh(0.5)), rel=1e-15)
    assert twin("erf_scaled", {"s": mp.sqrt(mp.pi) / 2})[0](0.5) == twin("erf_scaled")[0](0.5)
    assert [twin("monomial", {"n": 0})[k](0.0) for k in (0, 1)] == [1.0, 0.0]
    assert dphi(0.5) == pytest.approx(float(mp.sech(0.5) ** 2), rel=1e-15)


def test_records_and_users_functions():
    @dataclass(frozen=True)
    class Record:
        name: str
        parameters: tuple = ()

    assert twin(Record("swish", (("beta", 2),)))[0](1.0) == twin("swish", {"beta": 2})[0](1.0)
    own = ScalarPair(lambda x: x**3, lambda x: 3 * x**2)
    assert twin(own)[1](2.0) == 12.0
    record = Record("z**3")
    assert resolve(record, {record: own}) is own
    out = np.empty(2)
    elementwise(resolve(record, {record: (own.phi, own.dphi)}).phi)(np.array([1.0, 2.0]), out, ())
    assert out.tolist() == [1.0, 8.0]
    assert bound(own.phi) is bound(own.phi)


@pytest.mark.parametrize(
    "name, parameters, message",
    [
        ("tahn", {}, "'tahn' has no hand-written twin .* activation_pairs.*tanh"),
        ("tanh", {"alpha": 1}, "takes these parameters: none; alpha was given"),
        ("scale_invariant", {"plus": 1}, "takes these parameters: a_plus, a_minus; plus was given"),
        ("elu", {"alpha": "x"}, "The parameter alpha of 'elu' must be a finite number, but 'x' was given"),
        ("elu", {"alpha": float("inf")}, "must be a finite number, but inf was given"),
    ],
)
def test_errors(name, parameters, message):
    with pytest.raises(MeanFieldError, match=message):
        twin(name, parameters)


@pytest.mark.parametrize(
    ("text", "given", "smooth"),
    [("tanh(z)", None, True), ("z if z > 0 else 0.1*z", None, False), ("z if z > 0 else 0.1*z", True, True),
     ("tanh(z)", False, False), ("abs(z)*z", False, False)],
)  # fmt: skip
def test_which_formulas_have_higher_derivatives(text, given, smooth):
    """φ″ and φ‴ where nothing switches, or where it is said; of z³ they are 6z and 6."""
    assert (from_formula(text, smooth=given).higher is not None) == smooth
    second, third = from_formula("z**3").higher
    assert [second(0.5), third(0.5)] == pytest.approx([3.0, 6.0])
