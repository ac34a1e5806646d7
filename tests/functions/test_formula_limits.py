"""What a formula may hold, at the very edge of each limit: the largest that is read, the smallest that is refused."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import Z, sigmoid, softplus, z
from meanfield.functions.activations import LARGEST_COEFFICIENT, activation
from meanfield.functions.reading.parser import (
    FUNCTIONS,
    canonical,
    close_names,
    expand,
    expression,
    number,
    parse,
    value_of,
)


def nested(depth: int) -> str:
    return "sin(" * depth + "z" + ")" * depth


def repeated(terms: int) -> str:
    return "+".join(["z"] * terms)


EDGES = [  # (read, refused, the sentence)
    ("z" + " " * 599, "z" + " " * 600, "has 601 characters; at most 600 are read"),
    (repeated(62) + "+1", repeated(63), "has more than 250 parts"),
    ("z**64", "z**65", "not a number between -64 and 64"),
    ("z**(-64)", "z**(-65)", "not a number between -64 and 64"),
    ("(z**8)**8", "(z**8)**9", "has a degree (or digits) beyond 64"),
    ("(z**8*z)**7", "(z**8*z)**8", "has a degree (or digits) beyond 64"),
    ("(z**32 + z)**2", "(z**32 + z)**3", "has a degree (or digits) beyond 64"),
    ("(3*z**16)**4", "(3*z**16)**5", "has a degree (or digits) beyond 64"),
    ("1000**21*z", "1000**22*z", "has a degree (or digits) beyond 64"),
    ("(1/1000)**21*z", "(1/1000)**22*z", "has a degree (or digits) beyond 64"),
    ("0**64*z + z", "0**65*z + z", "not a number between"),
    ("1" * 40 + "*z", "1" * 41 + "*z", "needs more than 40 digits"),
    ("0." + "1" * 39 + "*z", "0." + "1" * 40 + "*z", "needs more than 40 digits"),
    ("1e39*z", "1e40*z", "needs more than 40 digits"),
    ("1e-39*z", "1e-40*z", "needs more than 40 digits"),
    (nested(5), nested(6), "nests functions 6 deep"),
    (f"abs({nested(5)})", f"tanh({nested(5)})", "nests functions 6 deep"),
    ("exp(exp(z))", "exp(exp(exp(z)))", "nests exponentials more than twice"),
    ("sinh(cosh(z))", "exp(sinh(cosh(z)))", "nests exponentials more than twice"),
    ("clip(z, 0, 1)", "clip(z, 0)", "clip takes 3 argument(s), but 2 were given"),
    ("max(z)", "max()", "max takes one or more argument(s), but 0 were given"),
    ("tanh(z)", "tanh(z, 1)", "tanh takes 1 argument(s), but 2 were given"),
    ("exp(700)*z", "exp(710)*z", "no double holds"),
    ("+z", "~z", "not allowed"),
    ("z if z < 1 else 0", "z if 0 < z < 1 else 0", "A condition other than one comparison"),
    ("z if z <= 1 else 0", "z if z == 1 else 0", "A condition other than one comparison"),
    ("z/2", "z//2", "The operator //"),
    ("z*2", "z%2", "The operator %"),
    ("pi*z", "True*z", "A truth value"),
    ("E*z", "2j*z", "not allowed"),
]


@pytest.mark.parametrize(("read", "refused", "words"), EDGES, ids=[w[2][:30] + str(i) for i, w in enumerate(EDGES)])
def test_the_edges_of_what_is_read(read, refused, words):
    assert parse(read) is not None
    with pytest.raises(mf.MeanFieldError, match=re.escape(words)):
        parse(refused)


def test_formulas_mean_what_python_means():
    """The parsed expression at numbers against Python's own reading of the text."""
    own = {"sqrt": math.sqrt, "abs": abs, "max": max, "min": min, "exp": math.exp, "pi": math.pi, "E": math.e,
           "relu": lambda x: max(x, 0), "clip": lambda x, a, b: min(max(x, a), b), "log": math.log, "sign": np.sign,
           "step": lambda x: float(x > 0), "tanh": math.tanh, "atan": math.atan}  # fmt: skip
    texts = ["z - 2/3*z**2", "-z + +1.5", "z/4 - 1", "max(z, 1, -z) - min(2, z)",
             "clip(z, -1/2, 3/4)*sign(z)", "relu(z) - step(z)*E", "z if z > 0.5 else -2*z", "1 if z >= 0 else pi*z",
             "3 if z < -1 else (2 if z <= 1 else z)", "sqrt(4 + z**2) - abs(z - 1)", "1_000*z + 1.5e-2", "exp(-z**2/2)",
             "tanh(atan(z)) / (1 + log(2 + z**2))"]  # fmt: skip
    for text in texts:
        e = parse(text)
        for x in (-2.25, -0.625, 0.375, 1.125, 2.5):
            assert abs(float(e.subs(z, sp.Rational(x))) - eval(text, own | {"z": x})) < 1e-14, text


def test_what_was_meant_is_said_from_three_letters_on():
    for name, hint in (("er", ""), ("th", ""), ("sig", "Did you mean sign or sigmoid?"), ("softplu", "mean softplus?")):
        with pytest.raises(mf.MeanFieldError, match=name) as error:
            parse(f"{name}*z")
        assert ("Did you mean" in str(error.value)) is bool(hint) and hint in str(error.value)
    assert close_names("LeakyRelu", ["leaky_relu", "elu"]).startswith(" Did you mean leaky_relu")
    assert close_names("so", ["softsign"]) == "" and close_names("sof", ["softsign"]) == " Did you mean softsign?"
    assert close_names("softsigm", ["softsign"], lambda name: False) == ""
    assert close_names("aaaa", ["aaab", "aaac", "aaad", "aaae"]).count(" or ") == 2
    assert canonical("Leaky_ReLU") == "leakyrelu"


def test_numbers_of_every_type():
    for given, exact in (
        (3, 3), (0.1, sp.Rational(1, 10)), ("0.1", sp.Rational(1, 10)), (Fraction(2, 7), sp.Rational(2, 7)),
        ("sqrt(2)/2", sp.sqrt(2) / 2), (np.float64(0.25), sp.Rational(1, 4)), (sp.pi, sp.pi),
        ("1e-60", sp.Rational(1, 10**60)), (sp.Float("0.5"), sp.Rational(1, 2)),
    ):  # fmt: skip
        assert number(given, "mu") == exact
    for bad in (True, "nan", "1e309", "1e-9999", "sqrt(-1)", "z", float("inf"), "2**1024", sp.oo, sp.I):
        with pytest.raises(mf.MeanFieldError, match="mu must be a finite number"):
            number(bad, "mu")
    assert number("1e308", "mu") == 10**308
    assert expression(0.1, "K") == sp.Float(0.1) and expression(3, "K") is sp.Integer(3)
    assert expression("0.1", "K") == sp.Rational(1, 10) == expression(Fraction(1, 10), "K")
    assert expression(np.float32(0.5), "K") == 0.5 and isinstance(expression(np.float64(0.5), "K"), sp.Float)
    assert isinstance(expression(np.int64(7), "K"), sp.Integer) and expression(z, "K") == z
    assert value_of(mf.Param("g")) == sp.Symbol("g", real=True) and value_of(0.25) == sp.Rational(1, 4)


def test_exponents_that_are_parameters():
    """The degree a power gets when its exponent is given: 8·8 = 64 is read, 8·9 is not."""
    assert activation("abs(z**8)**p", p=8).expression.subs(z, 2) == 2**64
    for p in (9, -9, "1e3"):
        with pytest.raises(mf.MeanFieldError, match="The exponent p"):
            activation("(1 + z**8)**p", p=p)
    assert activation("(1 + z**2)**p", p="1/2").expression == sp.sqrt(1 + z**2)


def test_calls_that_are_written_out():
    def definition(name):
        return {"Twice": ("2*z", {}), "Line": ("a*z + b", {"a": "3", "b": None})}.get(name)

    cases = {"Twice": "(2*z)", "Twice(z+1)": "(2*(z+1))", "Twice()": "(2*z)", "np.tanh(z)": "tanh(z)",
             "Tanh": "tanh(z)", "Twice(Twice(z))": "(2*((2*z)))", "Line(z, 2, 5)": "(2*z + 5)", "z*3": "z*3",
             "Line(z, b=1)": "(3*z + 1)", "Line(2*z, b=z, a=1)": "(1*(2*z) + z)"}  # fmt: skip
    for text, written in cases.items():
        assert sp.simplify(parse(expand(text, definition)) - parse(written)) == 0, text
    for bad in ("Line(z)", "Line(z, 1, 2, 3)", "Line(z, 1, a=2, b=3)", "Line(z, c=1, b=2)", "Twice(z, 1)"):
        with pytest.raises(mf.MeanFieldError, match="takes a function of z and then its parameters"):
            expand(bad, definition)
    assert "sigmoid" in FUNCTIONS and parse("sigmoid(z) + softplus(z)") == sigmoid(z) + softplus(z)


def test_records_print_what_is_not_the_default():
    printed = {("leaky_relu",): "leaky_relu", ("leaky_relu(0.2)",): "leaky_relu(alpha=1/5)", ("z*2",): "2*z",
               ("scale_invariant(1, 0.5)",): "scale_invariant(a_minus=1/2)", ("swish(1)",): "swish"}  # fmt: skip
    for given, text in printed.items():
        assert str(activation(*given)) == text
    assert str(activation("swish", beta="b")) == "swish(beta=b)" and repr(activation("erf")) == "Activation(erf)"


def test_coefficients_up_to_what_doubles_hold():
    for edge in (LARGEST_COEFFICIENT, sp.Rational(1, LARGEST_COEFFICIENT)):
        assert activation(edge * sp.tanh(z)).expression == edge * sp.tanh(z)
    for beyond in (LARGEST_COEFFICIENT + 1, -LARGEST_COEFFICIENT - 1, sp.Rational(1, LARGEST_COEFFICIENT + 1)):
        with pytest.raises(mf.MeanFieldError, match="a coefficient that no double holds"):
            activation(beyond * sp.tanh(z))


@pytest.mark.parametrize(("text", "degree"), [("monomial(0)", 0), ("monomial(64)", 64), ("monomial(3)", 3)])
def test_monomials_to_their_edges(text, degree):
    assert activation(text).expression == z**degree
    for bad in (-1, 65, "1/2"):
        with pytest.raises(mf.MeanFieldError, match="an integer degree between 0 and 64"):
            activation("monomial", n=bad)


HOMOGENEOUS = {"Max(z, 0)": 1, "z**2*sign(z)": 2, "step": 0, "z**3": 3, "tanh": None, "Max(z - 1, 0)": None,
               "abs(z)**1.5": sp.Rational(3, 2), "z if z > 0 else z**2": None, "leaky_relu(0.3)": 1}  # fmt: skip


@pytest.mark.parametrize("text", HOMOGENEOUS)
def test_degrees_parities_and_kinks(text):
    """φ(2z) = 2^k φ(z) and φ(-z) = ±φ(z) where the record says so, and nowhere else; kinks by values on both sides."""
    phi, points = activation(text), [sp.Rational(p, 8) for p in (3, 11, 21)]
    f = phi.pieces.expr
    values = {s: [sp.N(f.subs(Z[0], s * p), 30) for p in points] for s in (1, -1)}
    double = {s: [sp.N(f.subs(Z[0], 2 * s * p), 30) for p in points] for s in (1, -1)}
    k = phi.homogeneity
    assert k == HOMOGENEOUS[text]
    if k is not None:
        assert all(abs(d - 2**k * v) < 1e-20 for s in (1, -1) for d, v in zip(double[s], values[s]))
    for parity in (1, -1):
        mirrored = all(abs(a - parity * b) < 1e-20 for a, b in zip(values[-1], values[1]))
        assert mirrored is (phi.parity == parity)
    tiny = sp.Rational(1, 10**12)
    for kink in phi.kinks:
        left, right = (sp.N(f.subs(Z[0], kink.location + s * tiny), 40) for s in (-1, 1))
        assert abs(right - left - kink.jump) < 1e-9
    assert phi.is_continuous is (not any(kink.jump for kink in phi.kinks))


def test_what_is_registered_depends_on_z_and_has_a_name_of_its_own():
    before = mf.functions.activations.activations()
    for name, formula, words in (("flat", "5 + pi", "does not depend on z"), ("tanh", "z", "new identifier"),
                                 ("a b", "z", "must be a new identifier"), ("unread", "1/0*z", "not a real finite"),
                                 ("pi", "z", "new identifier"), ("K", "z", "has a fixed meaning")):  # fmt: skip
        with pytest.raises(mf.MeanFieldError, match=re.escape(words)):
            mf.functions.activations.register(name, formula)
        assert mf.functions.activations.activations() == before, "nothing is left of what was refused"
