"""The arithmetic of asymptotic statements: against series in SymPy, term by term, and never beyond what is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError, Term
from meanfield.base.symbols import K, l
from meanfield.symbolic.series.asymptotic_law import Law

HALF = sp.Rational(1, 2)


def law(*terms, remainder="zero", logs=0, point=sp.oo) -> Law:
    found = tuple(Term(*(sp.sympify(x) for x in t)) for t in terms)
    return Law(l, sp.sympify(point), found, remainder, sp.sympify(logs))


A = law((2, 1), (3, 0), (1, -1), remainder=sp.Integer(-2))
B = law((1, HALF), (-1, 0, 1), (5, 0), remainder=-HALF)
EXACT = law((1, 1), (1, 0))


def assert_series(found: Law, expected: str) -> None:
    """The sum of the terms and the remainder, as they print."""
    assert found.text() == expected, f"the series is {found.text()}"


def test_sums_and_products_end_where_a_remainder_begins():
    assert_series(A + B, "2*l + sqrt(l) - log(l) + 8 + O(1/sqrt(l))")
    assert_series(A - A, "0 + O(l**(-2))")
    assert_series(A * A, "4*l**2 + 12*l + 13 + 6/l + O(1/l)".replace(" + 6/l", ""))
    assert_series(A * B, "2*l**(3/2) - 2*l*log(l) + 10*l + O(sqrt(l))")
    assert_series(3 - EXACT, "-l + 2")
    assert_series(sp.pi * EXACT + 1, "pi*l + 1 + pi")
    assert_series(B - 5, "sqrt(l) - log(l) + O(1/sqrt(l))")


def test_powers_against_series():
    x = sp.Symbol("x", positive=True)
    for exponent in (-1, HALF, sp.Rational(-3, 2)):
        found = A**exponent
        series = sp.series((2 + 3 * x + x**2) ** exponent, x, 0, 3).removeO()
        expected = sp.expand(series.subs(x, 1 / l) * l**exponent)
        assert sp.simplify(found.expr - expected) == 0
        assert found.remainder == exponent - 3
    assert_series(EXACT**3, "l**3 + 3*l**2 + 3*l + 1")
    root = EXACT**HALF
    assert root.remainder == HALF - 5 and len(root.terms) == 5
    assert_series(law((4, 2, 2)) ** HALF, "2*l*log(l)")
    assert_series((A / A), "1 + O(l**(-3))")
    with pytest.raises(MeanFieldError, match="can lead"):
        law((1, 1, 1), (1, 0)) ** HALF


@pytest.mark.slow
def test_floats_leave_no_constant_behind():
    """c·(1/c) of a float of 30 digits is 1 to rounding: what is left of 1 - 1 is no term of the quotient."""
    for k in range(40):
        c, d = sp.Float(37 + k, 30) / 10, sp.Float(3 + k, 30) / 7
        gap = replace(law((c, -1), (d, -2, 1)), remainder="smaller")
        found = 1 / gap - 1
        assert [(t.power, t.logs) for t in found.terms] == [(1, 0), (0, 1)], (k, found)
        assert abs(found.terms[0].coefficient * c - 1) < 1e-28
        assert abs(found.terms[1].coefficient * c * c + d) < 1e-27


def test_the_end_at_zero():
    near = law((1, 1), (2, 2, 1), remainder=sp.Integer(2), point=0)
    assert_series(near * near, "l**2 + 4*l**3*log(l) + O(l**3)")
    assert near < 1 and law((1, -1), point=0) > 1
    assert not near < near and near**2 < near


def test_exponentials_and_smaller_orders():
    growing, falling = law((1, 2, 0, 3)), law((1, 0, 0, -2), remainder="exponential")
    assert growing > law((1, 50)) and law((1, -9)) > falling
    assert_series(growing * law((1, 0, 0, -3)), "l**2")
    rough = law((2, 1), (1, 0, 1), remainder="smaller")
    assert_series(rough + law((1, 0)), "2*l + log(l) + smaller order")
    assert_series(rough * rough, "4*l**2 + 4*l*log(l) + smaller order")
    assert (law((1, 0), remainder="exponential") * EXACT).remainder == "exponential"
    with pytest.raises(MeanFieldError, match="no term of a Law"):
        growing * law((1, 0, 0, 1, HALF))


def test_what_is_left_out_of_sums_of_exponentials():
    """o(·) keeps the term itself through a power, and covers all that grows less; O(·) beside e^x is small in relation
    to it; what is smaller than every power swallows terms that fall exponentially, and stays so small times a power."""
    assert_series(1 / law((2, 1), remainder="smaller"), "1/(2*l) + smaller order")
    growing = law((4, 1, 0, 2), remainder=sp.S.One)
    assert_series(growing**HALF, "2*sqrt(l)*exp(l) + smaller order")
    assert_series(law((1, 0, 0, 1), remainder="smaller") + EXACT, "exp(l) + smaller order")
    assert_series(growing * growing, "16*l**2*exp(4*l) + smaller order")
    two = law((1, 1, 0, 1), (1, 0, 0, 1), remainder=sp.S.Zero)
    assert_series(two**3, "l**3*exp(3*l) + 3*l**2*exp(3*l) + 3*l*exp(3*l) + exp(3*l) + smaller order")
    small = law(remainder="exponential")
    assert_series(small * law(remainder=sp.Integer(3)), "0 + exponentially small")
    assert_series(small * law((1, 2, 0, 1)), "0 + smaller order")
    assert_series(law((1, 1), (1, 1, 0, -1), remainder="smaller") + small, "l + exponentially small")
    with pytest.raises(MeanFieldError, match="of a logarithm is not computed with"):
        1 + law((1, 1, sp.sqrt(2)))
    with pytest.raises(MeanFieldError, match="leading order of this law is not known"):
        1 + law(remainder="smaller")


def test_values_and_refusals():
    assert A.at(2) == sp.Rational(15, 2)
    with pytest.raises(MeanFieldError, match="meets one in"):
        A + Law(K, sp.oo, (Term(sp.S.One),))
    with pytest.raises(TypeError, match="unsupported operand"):
        A + "l"
    with pytest.raises(MeanFieldError, match="hold symbols"):
        A + law((1, sp.Symbol("p")))


def test_a_planted_remainder_is_seen():
    """A product that forgot where its factors end."""
    with pytest.raises(AssertionError, match="the series is"):
        forgetful = law((2, 1), (3, 0), (1, -1))
        assert_series(forgetful * forgetful, (A * A).text())


def test_laws_of_a_theory_are_laws():
    """K of GELU's residual network and J: their quotient, and K² against ⟨φ²⟩² by expansions."""
    theory = mf.derive("tanh", residual=True)
    k, log_j = (theory.depth_law(q, sigma_w=1, sigma_b=0) for q in "KJ")
    assert isinstance(k, mf.Law) and log_j < k and (k * k).leading.power == 2 * k.exponent
    assert (log_j / log_j.rate).leading.coefficient == 1 and log_j.law == mf.Law(*[
        getattr(log_j, n) for n in ("variable", "point", "terms", "remainder", "remainder_logs")
    ])
    node = mf.average(sp.tanh(sp.Symbol("z", real=True)) ** 2, K)
    square = mf.symbolic.at_infinity(node, 3) ** 2
    direct = mf.symbolic.at_infinity(node**2, 3)
    assert sp.simplify(square.coefficient(-HALF) - direct.coefficient(-HALF)) == 0
