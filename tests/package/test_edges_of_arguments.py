"""Numbers, counts and names that a caller hands over, at the edges of what is taken; limits of laws."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

from meanfield import MeanFieldError
from meanfield.base import arguments as ask
from meanfield.base.answers.named import given_values, values_by_name
from meanfield.base.answers.results import Estimate, Status, Term
from meanfield.base.errors import KEPT, LONGEST, abbreviated, one_line
from meanfield.correlators.several_inputs import _per_layer
from meanfield.symbolic.series.asymptotic_law import Law

x = sp.Symbol("x", positive=True)


def refused(words: str):
    return pytest.raises(MeanFieldError, match=re.escape(words))


def test_numbers_to_the_edges_of_their_sizes():
    for value in (1e150, -1e150, 1e-150, 0, 0.0, np.float64(1e150), sp.Integer(10) ** 150, "1e150", "1e-150", "1e-9"):
        assert ask.scalar(value, "K") is value
    for value in (1.01e150, -1.01e150, 0.99e-150, sp.Integer(10) ** 151, "1e151", "1e-151", "-1E+151"):
        with refused("K must be 0 or of a size from 1e-150 to 1e"):
            ask.scalar(value, "K")
    for value in (None, True, np.True_, 1j, b"1", [1], np.ones(1), np.array("a"), {}, object()):
        with refused("K must be one finite real number"):
            ask.scalar(value, "K")
    for value in (math.nan, math.inf, np.float64("-inf"), 10**400):
        with refused("K must be a finite number"):
            ask.scalar(value, "K")
    for value in (sp.I, sp.oo, sp.nan, sp.zoo):
        with refused("K must be a finite real number"):
            ask.scalar(value, "K")
    for value in (sp.true, sp.Matrix([1]), sp.Interval(0, 1)):
        with refused("K must be a number"):
            ask.scalar(value, "K")
    assert ask.scalar("9" * 600, "K") and ask.scalar(x, "K") is x and ask.scalar(np.array(2.0), "K") == 2
    with refused("a text of 601 characters"):
        ask.scalar("9" * 601, "K")
    assert ask.finite("0.5", "K") == 0.5 == ask.finite(Fraction(1, 2), "K") and ask.finite(sp.sqrt(4), "K") == 2.0
    for value in ("inf", "a", x):
        with refused("K must be one finite real number"):
            ask.finite(value, "K")


def test_whole_numbers_to_their_ends():
    for value in (2, 9, np.int64(5), " +7 ", "2"):
        assert ask.whole(value, "depth", 2, 9) == int(value)
    for value in (1, 10, "1", 2.0, "2.0", True, np.True_, None, "9" * 41, 10**50):
        with refused("depth must be a whole number from 2 to 9"):
            ask.whole(value, "depth", 2, 9)
    assert ask.count_of("9" * 40) == int("9" * 40) and ask.count_of("9" * 41) == "9" * 41 and ask.count_of("-3") == -3


def test_names_choices_and_texts():
    assert ask.name_of(" mu ", "mu") == "mu" and ask.names({"b", "a"}, "n") == ("a", "b")
    assert ask.names(("b", "a", "b"), "n") == ("b", "a") and ask.names("Theta", "n") == ("Theta",)
    for value in ("half", "Inf", "True", "lambda", "2", "a b", 3, ""):
        with refused("which is no finite number, and no name of a symbol either"):
            ask.name_of(value, "mu")
    for value in ((), "", None, ("a", ""), ("a", 1), {1}, 5):
        with refused("n must be a name or a tuple of names"):
            ask.names(value, "n")
    assert ask.choice("a", "kind", ("a", "b")) == "a" and ask.flag(np.False_, "x") is False
    for value in ("c", 1, None):
        with refused("the choices are a, b"):
            ask.choice(value, "kind", ("a", "b"))
    for value in (1, "True", None):
        with refused("x must be True or False"):
            ask.flag(value, "x")
    assert ask.shown("a" * 58) == repr("a" * 58) and ask.shown("a" * 59) == repr("a" * 59)[:60] + "…"
    assert ask.meant("deph", ["depth", "width"]) == " Did you mean 'depth'?"
    assert ask.meant("zzz", ["depth", "width"]) == " It takes depth, width."
    assert ask.meant("zzz", []) == " It takes none."
    for value in ("", "  ", 3, None):
        with refused("must be a text that is not empty"):
            ask.text(value, "φ")


def test_lists_are_layers_only_where_that_is_said():
    ask.one_point({"sigma_w": 1, "sigma_b": "1/2", "K": np.array(2.0)}, False)
    ask.one_point({"sigma_w": [1, 2]}, True)
    for value in ([1], (1, 2), np.ones(3)):
        with refused("is a list, which means several points"):
            ask.one_point({"sigma_w": value}, False)
    for value in ([1.0, [2, 3]], np.ones((2, 2)), np.array([1, "2"], dtype=object)):
        ask.refuse_not_real(value, "inputs")
    for value in ([True], [1j], np.array([True]), np.array([1j]), None, {}, [[1, None]], b"1"):
        with refused("inputs must be"):
            ask.refuse_not_real(value, "inputs")


def test_values_for_each_layer():
    assert _per_layer("sigma_w", 2, 3).tolist() == [2, 2, 2] == _per_layer("sigma_w", [2], 3).tolist()
    assert _per_layer("sigma_w", [0, 1, 1e75], 3).tolist() == [0, 1, 1e75]
    for value in ([1, 2], [1, 2, 3, 4], [[1, 2, 3]]):
        with refused("must be a number or one for each of 3 layers"):
            _per_layer("sigma_w", value, 3)
    for value, wrong in (([1, -1, 2], "-1.0"), ([0, 1e75, -3], "-3.0"), ([1, 2e75, -3], "2e+75"),
                         ([math.inf, 1, 1], "inf"), (-2, "-2.0")):  # fmt: skip
        with refused(f"must be ≥ 0 and finite at every layer, but {wrong} was given"):
            _per_layer("sigma_w", value, 3)


def test_values_by_name_keep_to_what_their_symbols_stand_for():
    n = sp.Symbol("n", integer=True, positive=True)
    least, any_, e = sp.Symbol("least", nonnegative=True), sp.Symbol("any", real=True), x + n
    assert values_by_name((e + least + any_,), {"x": "1/2", n: 3, "least": 0, "any": -2}) == {
        x: sp.Rational(1, 2), n: 3, least: 0, any_: -2}  # fmt: skip
    for given, words in (({"x": 0}, "x must be > 0"), ({"x": -1}, "x must be > 0"), ({"least": -1}, "must be ≥ 0"),
                         ({"n": "1/2"}, "n must be > 0"), ({"y": 1}, "'y' is no symbol here")):  # fmt: skip
        with refused(words):
            values_by_name((e + least,), given)
    whole = sp.Symbol("whole", integer=True)
    assert values_by_name((whole,), {"whole": -3}) == {whole: -3}
    with refused("whole must be a whole number"):
        values_by_name((whole,), {"whole": "5/2"})
    assert given_values(None, {"a": 1}) == {"a": 1} == given_values({"a": 2}, {"a": 1})
    with refused("Values are given by name"):
        given_values(3, {})


@pytest.mark.parametrize("point", [sp.S.Zero, sp.oo])
@pytest.mark.parametrize("power", [-2, 0, 3])
@pytest.mark.parametrize("logs", [0, 1, 2, 3])
def test_limits_of_laws(point, power, logs):
    """x^p (log x)^q at x = 10^±60 says where it goes: to 0, to ±∞, or to its coefficient."""
    for c in (sp.Integer(-5), sp.Rational(7, 2)):
        law = Law(x, point, (Term(c, sp.Integer(power), sp.Integer(logs)),), "exponential")
        far = float(law.at(sp.Integer(10) ** (60 if point else -60)))
        if power == 0 and logs == 0:
            assert law.limit == c
        else:
            assert law.limit == (0 if abs(far) < 1e-30 else sp.oo if far > 0 else -sp.oo)
    assert Law(x, point, (), "zero").limit == 0 == Law(x, point, (), "exponential").limit
    assert Law(x, point, (), "smaller").limit is sp.nan
    assert Law(x, point, (Term(sp.S.One, rate=-sp.S.One),)).limit is sp.nan


def test_deviations_of_estimates():
    one = Estimate(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.0, 0.0]), 10)
    assert one.z(np.array([2.0, 2.0, 1.0])).tolist() == [-2.0, 0.0, math.inf]
    assert one.status is Status.MEASURED


def test_formulas_in_sentences_are_cut_where_they_are_too_long():
    """A formula of as many characters as are kept whole stays; one more, and its beginning stands for it."""
    for tail in ("", " has no closed form", " is too steep for it"):
        whole = "x+" * (LONGEST // 2) + "y" * (LONGEST % 2)
        assert len(whole) == LONGEST and abbreviated(whole + tail) == whole + tail
        assert abbreviated(whole + "1" + tail) == whole[:KEPT] + "…" + tail
    prose = "the words of a sentence are no formula however many of them there are " * 9
    assert abbreviated(prose) == prose
    inside = "f(" + "a*b + " * 60 + "c) is not known"
    assert abbreviated(inside) == inside[:KEPT].rstrip() + "… is not known"
    broken = "(" + "a*b+" * 90 + "1 and then words follow"  # a bracket that nothing closes
    assert abbreviated(broken) == broken[:KEPT] + "… and then words follow"
    flat = "a " * 49 + "bc"
    assert len(flat) == 100 and one_line("N", flat) == f"N({flat})" and one_line("N", flat + "d") == f"N({flat[:99]}…)"
