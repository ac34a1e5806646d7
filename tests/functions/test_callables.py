"""Python functions as activations: read by calling them on a symbol, known by their values, or measured by a table."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.special
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import z
from meanfield.empirical.functions.tabulated import sources, tabulated
from meanfield.functions.reading.callables import POINTS, UnreadableFunction, nearest, points, traced, values_of

READ = {
    "tanh": (np.tanh, sp.tanh(z)),
    "sympy": (sp.tanh, sp.tanh(z)),
    "product": (lambda x: 2 * x * np.tanh(x) - x / 3, 2 * z * sp.tanh(z) - z / 3),
    "powers": (lambda x: (x**3 - 1) / (1 + x * x) + 2 ** (-x * x), (z**3 - 1) / (1 + z**2) + 2 ** (-(z**2))),
    "softplus": (lambda x: np.log1p(np.exp(x)), sp.log(1 + sp.exp(z))),
    "absolute": (lambda x: x / (1 + np.abs(x)), z / (1 + sp.Abs(z))),
    "other names": (lambda x: np.square(np.arctan(-x)) + np.expm1(x), sp.atan(z) ** 2 + sp.exp(z) - 1),
}
#: what decides by comparing numbers, or is compiled, with the activation that it is
KNOWN = {
    "relu": lambda x: np.maximum(x, 0),
    "relu of one number": lambda x: max(x, 0.0),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "erf": scipy.special.erf,
    "tanh": math.tanh,
    "gelu": lambda x: 0.5 * x * (1 + scipy.special.erf(x / math.sqrt(2))),
    "silu": lambda x: x * scipy.special.expit(x),
}


def bent(x: float) -> float:
    """No registered activation, and it compares."""
    return x if x > 0.3 else 0.3 + math.sin(x - 0.3)


@pytest.mark.slow_with("product", "powers", "absolute", "other names")
@pytest.mark.parametrize("name", READ)
def test_a_function_is_called_on_a_symbol(name):
    function, expected = READ[name]
    assert sp.simplify(traced(function) - expected) == 0
    theory = mf.derive(function)
    run, other = (t.propagate(sigma_w=1.2, sigma_b=0.1, depth=4) for t in (theory, mf.derive(expected)))
    assert run.K.tolist() == other.K.tolist()


@pytest.mark.parametrize("name", KNOWN)
def test_a_function_is_known_by_its_values(name):
    function = KNOWN[name]
    assert traced(function) is None
    assert mf.activation(function) == mf.activation(name.split(" ")[0])


def test_a_torch_module_is_called_on_a_tensor(monkeypatch):
    """A stand-in with the part of torch that is used: tensors are made by as_tensor and read by detach().numpy()."""

    class Tensor:
        def __init__(self, values):
            self.values = values

        def detach(self):
            return self

        def numpy(self):
            return self.values

    class GELU:
        def __call__(self, x):
            if not isinstance(x, Tensor):
                raise TypeError("gelu(): argument 'input' must be Tensor")
            return Tensor(KNOWN["gelu"](x.values).astype(np.float32))

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(as_tensor=Tensor))
    assert mf.derive(GELU(), residual=True) == mf.derive("gelu", residual=True)
    with pytest.raises(mf.MeanFieldError, match=r"the class GELU, and not one of it such as GELU\(\)"):
        mf.derive(GELU)


def test_what_nothing_reads_is_named_with_its_nearest():
    with pytest.raises(UnreadableFunction, match=r"The function bent cannot be read .*: \w+ comes nearest, .* measure"):
        mf.derive(bent)
    with pytest.raises(UnreadableFunction, match="takes no array, number or tensor"):
        mf.derive(lambda x, y: x + y)
    with pytest.raises(mf.MeanFieldError, match="is not a real finite function"):
        mf.derive(lambda x: 1j * x)
    with pytest.raises(mf.MeanFieldError, match="alpha was given beside a function"):
        mf.derive(KNOWN["relu"], alpha=0.1)
    with pytest.raises(UnreadableFunction, match="takes no array"):
        values_of(lambda x: None, points())


def test_control_a_function_that_is_a_millionth_off_is_another():
    """Planted: 2e-6 of a cosine beside ReLU; half as much as the tolerance passes, and the points see both."""
    known = [("relu", sp.Max(z, 0))]
    off = {s: nearest(lambda x, s=s: np.maximum(x, 0) + s * np.cos(x), known)[1] for s in (4e-7, 2e-6)}
    assert off[4e-7] < 1e-6 < off[2e-6]
    assert len(set(points().tolist())) == POINTS and abs(points()).max() > 10 and (abs(points()) < 1).sum() > 30


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.minimum(np.maximum(x, 0), 20),
        lambda x: max(x, 0.0) * 1.0000001,
        lambda x: math.tanh(x) if abs(x) < 13 else x,
        lambda x: x * (1 + math.erf(x / 1.41421)) / 2 if x < 1e9 else x,
    ],
)
def test_another_function_far_out_or_in_its_seventh_digit_is_another(function):
    """Each was read as a registered activation, and its answers were said to be exact: K of the first at layer 30 of
    sigma_w = 2 was 2e9 for 421."""
    with pytest.raises(UnreadableFunction, match=r"cannot be read .*: \w+ comes nearest, .* off"):
        mf.derive(function)


def test_functions_of_single_precision_are_known_far_out():
    def sine(x):
        return np.sin(np.asarray(x, dtype=float).astype(np.float32))

    assert mf.derive(sine) == mf.derive("sin")


def test_functions_that_overflow_far_out_are_known_where_they_have_values():
    assert mf.derive(lambda x: x * (1 / (1 + math.exp(-x)) if x > -700 else 0.0)) == mf.derive("silu")


def assert_near(found, expected, error: float) -> None:
    assert np.max(np.abs(np.asarray(found) - expected) / (1 + np.abs(expected))) <= error


def test_a_table_is_the_function():
    """Smooth: φ to 1e-10, φ′ to 1e-7, straight beyond the ends; kinked: as far off as the answer says."""
    phi, pair = tabulated("tanh", np.tanh)
    value, slope = pair
    at = np.linspace(-23.9, 23.9, 1777)
    assert phi.error < 1e-10 and pair.continuous
    assert_near([value(x) for x in at], np.tanh(at), 1e-10)
    assert_near([slope(x) for x in at], 1 / np.cosh(at) ** 2, 1e-7)
    line, straight = tabulated("line", lambda x: 2 * x + 1)
    assert next(iter(straight))(1e3) == pytest.approx(2001, rel=1e-9) and line.error < 1e-12
    kinked, _ = tabulated("relu", lambda x: np.maximum(x - 1 / 700, 0))
    assert 1e-5 < kinked.error < 1e-3 and f"{kinked.error:.1g}" in str(kinked)
    assert not tabulated("step", lambda x: np.sign(x - 1 / 700))[1].continuous
    with pytest.raises(mf.MeanFieldError, match="is not finite on all of"):
        tabulated("pole", lambda x: np.where(x == 1, np.inf, x))
    wrong = sources(np.tanh(np.arange(-100, 101) / 256.0))[0].replace("/ 6 + (b - c) / 2", "/ 6 + (b - c) / 3")
    assert wrong != sources(np.tanh(np.arange(-100, 101) / 256.0))[0]
    with pytest.raises(AssertionError, match="assert "):  # planted: another table
        assert_near([value(x) for x in at], np.tanh(1.001 * at), 1e-10)


@pytest.mark.slow
def test_networks_measure_what_nothing_reads():
    """bent as a formula and as a function: the same draws, so the same K and J to the error of the table."""
    settings = {"sigma_w": 1.3, "sigma_b": 0.2, "width": 60, "depth": 4, "networks": 8, "seed": 3}
    found = mf.measure(bent, **settings, quantities=("K", "J"))
    formula = "z if z > 0.3 else 0.3 + sin(z - 0.3)"
    same = mf.measure(formula, **settings, quantities=("K", "J"))
    for name, error in (("K", 1e-5), ("J", 1e-3)):
        assert_near(found[name].mean, same[name].mean, error)
    assert "activation: The function bent (a table of its values, to" in found.note in str(found)
    assert found.note in repr(found) and same.note == ""
    other = mf.measure(lambda x: bent(1.01 * x), **settings, quantities="K")
    with pytest.raises(AssertionError, match="assert "):  # planted: another function
        assert_near(other.K.mean, same.K.mean, 1e-3)
    deep = mf.measure(bent, residual=True, norm="pre", **settings, quantities="K")
    assert deep.K.mean[-1] > found.K.mean[-1]
    with pytest.raises(UnreadableFunction, match="cannot be read"):
        mf.check(bent, **settings)


def of_torch(name, values):
    """A function as torch has them: one that says its name to what is no tensor, here no array."""

    def function(x, *more, **named):
        if hasattr(type(x), "__torch_function__"):
            return type(x).__torch_function__(function, (type(x),), (x, *more), named)
        return values(np.asarray(x), *more, **named)

    function.__name__ = name
    return function


def logistic(x):
    return 1 / (1 + np.exp(-x))


SIGMOID, TANH = of_torch("sigmoid", logistic), of_torch("tanh", np.tanh)
LEAKY = of_torch("leaky_relu", lambda x, negative_slope: np.where(x > 0, x, negative_slope * x))
SOFTPLUS = of_torch("softplus", lambda x, beta, threshold: np.logaddexp(0, beta * x) / beta)
CLAMP = of_torch("clamp", lambda x, min, max: np.clip(x, min, max))
GELU = of_torch("gelu", lambda x: x * scipy.special.ndtr(x))
MUL = of_torch("mul", lambda x, y: x * y)
OF_TORCH = {
    "quick gelu": (lambda x: x * SIGMOID(1.702 * x), "z*sigmoid(1.702*z)"),
    "a slope": (lambda x: LEAKY(x, 0.2), "leaky_relu(0.2)"),
    "a slope by name": (lambda x: LEAKY(x, negative_slope=0.25), "leaky_relu(0.25)"),
    "beta": (lambda x: SOFTPLUS(x, 2.0, 20), "softplus(2*z)/2"),
    "two ends": (lambda x: CLAMP(x, min=-1, max=2), "clip(z, -1, 2)"),
    "one in the other": (lambda x: GELU(TANH(x)), "tanh(z)*(1 + erf(tanh(z)/sqrt(2)))/2"),
    "an operator": (lambda x: MUL(TANH(x), 3) + x, "3*tanh(z) + z"),
}


@pytest.mark.slow_with("one in the other")
@pytest.mark.parametrize("name", OF_TORCH)
def test_functions_of_torch_say_their_names(name):
    function, formula = OF_TORCH[name]
    found, expected = mf.activation(function).expression, mf.activation(formula).expression
    at = points()[:20]
    ours, right = (np.array([float(e.subs(z, sp.Float(x))) for x in at]) for e in (found, expected))
    np.testing.assert_allclose(ours, right, rtol=1e-12, atol=1e-15)


def test_control_a_function_that_says_another_name_is_not_believed():
    """What is written down is compared with what the function does."""
    liar = of_torch("tanh", lambda x: np.tanh(1.1 * x))
    with pytest.raises(UnreadableFunction, match="agrees with no registered activation"):
        mf.activation(lambda x: liar(x) * 2)


def test_what_acts_on_several_numbers_or_is_random_is_no_activation():
    draws = np.random.default_rng(0)
    softmax, dropout = scipy.special.softmax, lambda x: np.asarray(x) * (draws.random(np.shape(x)) > 0.5)
    for function in (softmax, dropout):
        with pytest.raises(UnreadableFunction, match="is no activation: it gives other values for the same number"):
            mf.derive(function)


def test_an_error_in_the_function_is_told():
    with pytest.raises(UnreadableFunction, match="Calling it raised NameError: name 'undefined' is not defined"):
        mf.derive(lambda x: undefined(x))  # noqa: F821


def test_a_function_that_asks_for_equality_is_known_by_its_values():
    """z == |z| of a symbol is False, so that the formula would be 0."""
    assert mf.activation(lambda z: z if z == abs(z) else 0 * z).name == "relu"
    with pytest.raises(UnreadableFunction, match="agrees with no registered activation"):
        mf.activation(lambda z: np.tanh(z) if np.all(abs(z) != z) else np.tanh(z) / 3)


def test_a_formula_that_cancels_is_still_read():
    found = mf.activation(lambda z: (np.sqrt(1 + z**2) - 1) / (1 + z**4))
    assert sp.simplify(found.expression - (sp.sqrt(1 + z**2) - 1) / (1 + z**4)) == 0
