"""Numbers that verbs put into the records of a network: which symbol each of them reaches, and what is refused."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield import Dense, Gate, MeanFieldError, Nonlinearity, Residual, Scale, Sequential
from meanfield.base.answers.results import Solution, Status
from meanfield.networks.records import Network, Schedule
from meanfield.theory.depth_limits.coupled_limits import _measured
from meanfield.theory.queries import given_values
from meanfield.theory.queries.given_values import (
    decided,
    deviations,
    double,
    exact_number,
    inside_averages,
    mapping,
    numbered,
    of_widths,
    refuse_held,
    refuse_unknown,
    require_cosine,
    symbols_of,
    with_values,
)


def refused(words: str):
    return pytest.raises(MeanFieldError, match=re.escape(words))


LEAKY = mf.activation("leaky_relu", alpha="alpha")
INNER = Sequential((Nonlinearity(LEAKY), Scale("g"), Dense(sigma_w="v", sigma_b=Schedule("b", "beta"), expand="e")))
BLOCK = Residual(INNER, "mu", Sequential((Gate("sigmoid", Dense(sigma_w="u"), Dense()), Dense(sigma_b="t"))))
NAMES = {"alpha", "g", "v", "b", "beta", "e", "mu", "u", "t", "sigma_w", "sigma_b"}


def test_each_number_reaches_its_symbol_alone():
    assert symbols_of(BLOCK) == NAMES and of_widths(INNER) == {"e"} and of_widths(BLOCK) == {"e"}
    assert symbols_of((BLOCK, Network(Dense(sigma_w="own")).block)) == NAMES | {"own"}
    for name in NAMES - {"sigma_w", "sigma_b"}:
        assert symbols_of(with_values(BLOCK, {name: Fraction(1, 3)})) == NAMES - {name}
    assert symbols_of(with_values(BLOCK, {"sigma_w": 1, "sigma_b": 2})) == NAMES, "the network's own stay symbols"
    assert with_values(BLOCK, {}) == BLOCK == with_values(BLOCK, {"unknown": 3})
    everything = with_values(BLOCK, {n: Fraction(k, 7) for k, n in enumerate(sorted(NAMES), 1)})
    inner = everything.branch.blocks
    assert inner[1] == Scale(Fraction(5, 7)) and inner[2].sigma_w == Fraction(11, 7) and everything.mu == Fraction(6, 7)
    assert inner[2].sigma_b == Schedule(Fraction(2, 7), Fraction(3, 7)) and inner[2].expand == Fraction(4, 7)
    assert everything.shortcut.blocks[0].value.sigma_w == Fraction(10, 7)
    assert inner[0].activation.expression.subs("z", -7).subs(sp.Symbol("z", real=True), -7) == -1


def test_activations_take_theirs_and_leave_the_rest():
    theory = mf.derive("leaky_relu", alpha="alpha", mu="mu")
    held, rest = numbered(theory, {"alpha": "1/2", "mu": 3, "sigma_w": 1})
    assert rest == {"mu": 3, "sigma_w": 1} and symbols_of(held.block) == {"mu", "sigma_w", "sigma_b"}
    same, rest = numbered(theory, {"mu": 3})
    assert same is theory and rest == {"mu": 3}
    undecided = mf.derive("z if z > t else (z/2 if z > s else 0)", t="t", s="s")
    known, rest = decided(undecided, {"t": 2, "s": 1, "sigma_w": 1})
    assert rest == {"sigma_w": 1} and symbols_of(known.block) == {"sigma_w", "sigma_b"}
    same, rest = decided(theory, {"alpha": 1, "sigma_w": 0})
    assert same is theory and rest == {"alpha": 1, "sigma_w": 0}, "no break waits for α, and φ is not steep"


@pytest.mark.parametrize("order", [("step", "tanh"), ("tanh", "step"), ("sign", "step")])
def test_behind_weights_of_zero_nobody_sees_a_jump(order):
    """One steep activation among several is enough: with v = 0 the slope of φ is not asked for."""
    block = Sequential((Nonlinearity(order[0]), Dense(sigma_w="v"), Nonlinearity(order[1]), Dense(sigma_w="v")))
    theory = mf.derive(architecture=block)
    for zero in (0, "0", 0.0, sp.S.Zero):
        held, rest = decided(theory, {"v": zero, "sigma_b": 1})
        assert [b.sigma_w for b in held.block.blocks[1::2]] == [0, 0] and rest == {"sigma_b": 1}
    for other in (1, "1/2", np.ones(2)):
        same, rest = decided(theory, {"v": other})
        assert same is theory and set(rest) == {"v"}
    own, rest = decided(mf.derive("step"), {"sigma_w": 0, "sigma_b": 1})
    assert rest == {"sigma_w": 0, "sigma_b": 1} and own.block.blocks[1].sigma_w == 0
    refuse_held(own, {"sigma_w": 0, "sigma_b": 1})
    with refused("sigma_w=1 was given, but every Dense of this network has a sigma_w of its own"):
        refuse_held(mf.derive(architecture=Network(own.block, Dense(sigma_w=1))), {"sigma_w": 1})


def test_deviations_that_records_hold():
    block = Sequential((Nonlinearity("tanh"), Dense(sigma_w=2)))
    held = Network(block, Dense(sigma_w=1))
    assert deviations(held, {"sigma_w": None, "sigma_b": 3, "depth": 5}) == {"sigma_w": 1.0, "sigma_b": 3, "depth": 5}
    assert deviations(Network(block), {"sigma_w": 4, "sigma_b": 3}) == {"sigma_w": 4, "sigma_b": 3}, "the input layer's"
    assert deviations(Network(Dense("gaussian", 1, 2), Dense("gaussian", 1, 2)), {"sigma_b": None}) == {"sigma_b": 0.0}
    with refused("sigma_b has no value; give it as a keyword"):
        deviations(held, {"sigma_b": None})
    with refused("sigma_w=1 was given, but every Dense"):
        deviations(held, {"sigma_w": 1})


def test_parameters_that_no_map_has():
    recursion = mf.derive("tanh", mu="mu").one_input
    refuse_unknown({"mu": 1}, recursion)
    refuse_unknown({"depth": 1}, recursion, ("depth",))
    for name in ("sigma_w", "Q0", "nu"):
        with refused(f"{name} is not a parameter of this theory; it has mu."):
            refuse_unknown({name: 1, "mu": 2}, recursion)
    with refused("none beyond sigma_w, sigma_b. Did you mean 'sigma_w'?"):
        refuse_unknown({"sigma_v": 1}, mf.derive("tanh").one_input)
    symbolic = mf.derive("leaky_relu", alpha="alpha", mu="mu").one_input
    found = inside_averages(symbolic, {"alpha": "1/3", "mu": 2, "sigma_w": 1})
    assert found == {"alpha": sp.Rational(1, 3)} and inside_averages(symbolic, {}) == {}


def test_numbers_as_expressions_and_as_doubles():
    assert exact_number("K", 0.1) == sp.Rational(1, 10) == exact_number("K", " 1/10 ")
    assert exact_number("K", "a").name == "a"
    assert exact_number("K", "pi") == sp.pi and exact_number("K", sp.Symbol("q")) == sp.Symbol("q")
    for bad in ("", "  "):
        with refused("K must be a number, but an empty text was given"):
            exact_number("K", bad)
    assert double("K", "1/2") == 0.5 == double("K", Fraction(1, 2)) == double("K", sp.Rational(1, 2))
    assert double("K", ["1/2", (1, "3")]) == [0.5, (1, 3.0)] and double("K", np.array(["1/4", "2"])) == [0.25, 2.0]
    assert double("K", 3) == 3 and double("K", np.ones(2)).tolist() == [1, 1]
    assert given_values.listed(("a", "b", "c")) == "a, b and c"
    assert mapping(None, "at") == {} and mapping({"a": 1}, "at") == {"a": 1}
    for bad in (3, {1: 2}, [("a", 1)]):
        with refused("at must be a mapping from names to numbers"):
            mapping(bad, "at")
    for cosine in (-1, 0, 1):
        require_cosine(sp.Integer(cosine), cosine)
    for cosine in (sp.Rational(11, 10), sp.Rational(-11, 10), sp.Symbol("c")):
        with refused("correlation must be a number between -1 and 1"):
            require_cosine(cosine, cosine)


@pytest.mark.parametrize("value", [0.5, 3000.0, -20.0])
def test_numbers_by_quadrature_say_how_well_they_are_known(value):
    """Thirteen digits of a double, or what was known before where that is less."""
    exact = Solution(sp.Rational(value), Status.CERTIFIED, None)
    found = _measured(exact)
    assert found.status is Status.MEASURED and found.error == 1e-13 * max(1.0, abs(value))
    assert "nothing encloses them" in found.message
    assert _measured(Solution(sp.Rational(value), Status.CERTIFIED, 1e-6)).error == 1e-6
    for kept in (Solution(sp.oo, Status.CERTIFIED), Solution(sp.S.Zero, Status.EXACT)):
        assert _measured(kept) is kept
    assert math.isclose(float(found.value), value)
