"""Large-depth laws of pre-norm residual blocks: the laws of a table against a flow in log l."""

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield import Dense, LayerNorm, MeanFieldError, Nonlinearity, Param, Residual, Schedule, Sequential
from meanfield.base.symbols import K, l
from meanfield.symbolic.asymptotics.log_growth import regular
from tests.oracles.flow import follow
from tests.symbolic.asymptotics.schedules.test_phase_tables import (
    BETAS,
    PHI,
    SIGMAS,
    assert_follows,
    far_for,
    full,
    place,
    tables,
)


def normed(phi: str, norm: str) -> mf.Theory:
    """LayerNorm before the inner Dense ("first"), after it ("inner"), or before φ of a block with one Dense ("one")."""
    inner, nonlinearity, last = full(phi).block.branch.blocks
    chain = {
        "first": (LayerNorm(), inner, nonlinearity, last),
        "inner": (inner, LayerNorm(), nonlinearity, last),
        "one": (LayerNorm(), nonlinearity, last),
    }[norm]
    return mf.derive(architecture=Residual(Sequential(chain)))


def assert_law_holds(phi: str, norm: str, beta, size, wrong=None) -> None:
    """The laws of K, K[1] and J at one place are what the flow does."""
    if norm == "one":
        beta, size = [beta[0], 0, beta[2], 0], [size[0], 1, size[2], 0]
    names = [n for n, keep in zip((*BETAS, *SIGMAS), (1, 0, 1, 0) * 2) if keep or norm != "one"]
    fixed = dict(zip(BETAS, beta)) | {n: f"sqrt({s})" for n, s in zip(SIGMAS, size)}
    (row,) = normed(phi, norm).phase_table("K", "K[1]", "J", **{n: fixed[n] for n in names})
    ways = row.regimes if wrong is None else [wrong(one) for one in row.regimes]
    far = far_for(ways)
    s, b = (np.array([float(x) for x in one]) for one in (size, beta))
    kind = 2 if norm == "inner" else 1
    rows = follow(*tables(phi), s, b, 1.0, np.array([far / 2, far]), 0.05 if far <= 2000 else 0.25, kind)
    assert_follows(ways, rows, far)


def places(number: int, seed: int, names=("tanh", "relu", "gelu")):
    draw = random.Random(seed)
    return [(draw.choice(names), draw.choice(["first", "inner", "one"]), *place(draw)) for _ in range(number)]


@pytest.mark.slow
def test_laws_follow_the_flow():
    for one in places(6, 5, ("tanh", "relu")):
        assert_law_holds(*one)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_more_laws_follow_the_flow(seed):
    for one in places(150, 40 + seed, tuple(PHI)):
        assert_law_holds(*one)


@pytest.mark.slow
def test_a_law_that_is_wrong_is_seen():
    beta, size = (Fraction(1, 2), Fraction(1, 5), Fraction(9, 10), Fraction(2, 5)), (1, 1, 1, 1)

    def moved(name: str, by):
        return lambda way: replace(way, laws=tuple((n, g * by if n == name else g) for n, g in way.laws))

    for name in ("K", "K[1]", "J"):
        for by in (regular(1, "1/50"), regular(1, 0, -1)):
            with pytest.raises(AssertionError, match="no way is the flow"):
                assert_law_holds("tanh", "first", beta, size, moved(name, by))
    with pytest.raises(AssertionError, match="no way is the flow"):
        assert_law_holds("tanh", "first", beta, size, moved("K", regular("51/50")))


def test_no_schedule_is_the_old_law():
    """β = 0: the laws of `depth_law` without schedules."""
    for phi in ("tanh", "relu", "gelu"):
        theory = mf.derive(phi, residual=True, norm="pre")
        (row,) = theory.phase_table("K", "J", sigma_w="7/5", sigma_b="1/2")
        old = {q: theory.depth_law(q, sigma_w="7/5", sigma_b="1/2") for q in ("K", "J")}
        assert sp.simplify(row["K"].constant - old["K"].leading.coefficient) == 0 and row["K"].exponent == 1
        (power,) = [t.coefficient for t in old["J"].terms if t.logs == 1]
        assert abs(sp.N(row["J"].exponent - power, 20)) < 1e-18


@pytest.mark.parametrize("norm", ["first", *(pytest.param(n, marks=pytest.mark.slow) for n in ("inner", "one"))])
def test_tables_are_derivations_at_numbers(norm):
    theory = normed("tanh", norm)
    made, names = theory.phase_table("K", "K[1]", "J", "G_w", "G_b"), (*BETAS, *SIGMAS)
    for _, _, beta, size in places(12, 9):
        values = dict(zip(names, (*beta, *(s or 1 for s in size))))
        values = {n: v for n, v in values.items() if norm != "one" or n[-1] in "va"}
        row, (direct,) = made.at(**values), theory.phase_table(*made.quantities, **values).rows
        for name, law in direct.regimes[0].laws:
            gap = row[name] / law
            assert all(abs(sp.N(c, 20)) < 1e-15 for _, c in gap.terms), (values, name)
            assert gap.constant is None or abs(sp.N(gap.constant - 1, 20)) < 1e-15


def test_gradients_are_those_of_the_recursion():
    """G_w and G_b of the table, times J, against the factors that the walk gives, far down."""
    deep = 10**80
    beta = dict(beta_v="1/4", beta_w="1/2", beta_a="3/4", beta_b="1")
    for norm in ("first", "inner"):
        theory, values = normed("tanh", norm), beta | dict.fromkeys(SIGMAS, 2)
        (row,) = theory.phase_table("K", "J", "G_w", "G_b", **values).rows
        names = [f"G_{x}[{d}]" for x in "wb" for d in (1, 2)]
        walked = theory.gradients.only(*names).replaced({k: sp.Rational(v) for k, v in values.items()})
        for name in names:
            exact = [sp.N(walked[name].subs({K: row["K"].expr.subs(l, m), l: m + 1}), 20) for m in (deep, deep**2)]
            law = [(row[name] * row["J"]).log_at(float(sp.log(m)), leading=True) for m in (deep, deep**2)]
            assert abs(law[1] - law[0] - sp.log(exact[1] / exact[0])) < 1e-8, (norm, name, law, exact)


def test_what_is_not_derived_is_a_sentence():
    chain = (Nonlinearity("tanh"), LayerNorm(), Dense(sigma_w=Schedule(Param("sigma_v"), Param("beta"))))
    with pytest.raises(MeanFieldError, match="at most a LayerNorm before"):
        mf.derive(architecture=Residual(Sequential(chain))).phase_table()
    table = normed("tanh", "one").phase_table("gamma")
    assert all("behind a LayerNorm" in str(row) for row in table)
