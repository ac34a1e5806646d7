"""The walk that expands an expression, with three kinds of series: sums with logarithms, exact ones, digits."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, Z
from meanfield.numeric.lowering.near_zero import NearZero, size
from meanfield.symbolic.averages.expansions.expansion import at_zero
from meanfield.symbolic.averages.expansions.powerlog import Sums
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.correlator_laws.local_series import near_zero
from meanfield.symbolic.series.coefficients import Atoms

SQUARE, SLOPE = average(sp.tanh(Z[0]) ** 2, (K,)), average(sp.tanh(Z[0]) * Z[0], (K,))
EXPRESSIONS = (3 * SQUARE**2 / K - SLOPE, (K + SQUARE) ** -2, SQUARE * SLOPE / (SLOPE - 2 * SQUARE), 7 - K**3)


def coefficients(e: sp.Expr) -> list[dict[sp.Rational, sp.Expr]]:
    """Power of K → coefficient, by each kind of series, with the power that is not known."""
    sums = Sums(1, sp.Integer(5))
    sums.known |= {n: sums.of_law(at_zero(n, 4)) for n in (SQUARE, SLOPE)}
    atoms = Atoms()
    exact = near_zero(atoms, 4)(e)
    with mp.workdps(60):
        digits = NearZero()(e)
    return [
        {p: c for (p, _), c in sums.terms(sums(e)).items()},
        {-sp.Rational(int(k[0].p), 2 * int(k[0].q)): atoms.expr(c) for k, c in exact.terms.items()},
        {-sp.Rational(int(k[0].p), 2): size(c) for k, c in digits.terms.items() if abs(size(c)) > mp.mpf(10) ** -30},
    ]


@pytest.mark.parametrize("e", EXPRESSIONS)
def test_three_kinds_of_series_agree(e):
    logs, exact, digits = coefficients(e)
    first = min(digits)
    assert min(logs) == min(exact) == first
    for p in (first, first + 1, first + 2):
        assert logs.get(p, 0) == exact.get(p, 0) == pytest.approx(digits.get(p, 0), rel=1e-15)
    assert len(exact) <= len(digits)


@pytest.mark.parametrize("e", [sp.log(K), sp.sqrt(K), sp.beta(K, 1)])
def test_what_has_no_rule_is_refused(e):
    with pytest.raises(MeanFieldError, match="is not among the rules"):
        near_zero(Atoms(), 3)(e)
    with pytest.raises(MeanFieldError, match="is not among the rules"):
        Sums(1, sp.Integer(2))(sp.beta(K, 1))


def test_a_power_of_what_is_not_known_is_refused():
    nothing = sp.Add(SQUARE, -SQUARE, evaluate=False)  # SymPy would see that it is 0
    with pytest.raises(MeanFieldError, match="not known far enough"):
        near_zero(Atoms(), 3)(nothing**2)
