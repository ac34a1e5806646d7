"""Series in l and log l against calculus, and how a small distance dies against an orbit."""

from __future__ import annotations

import math

import pytest
import sympy as sp

from meanfield.base.symbols import l
from meanfield.symbolic.asymptotics.scaling import _binomial, _grown, _integrated, _log1p, _product, decay, logarithm

R, S = sp.Rational, sp.S

SERIES = {(S.Zero, 0): S(2), (R(-1, 2), 1): S(3), (S(-1), 0): S(5), (S(-1), 2): R(1, 7), (S.One, 1): S(4)}
SMALL = {(R(-1, 2), 0): S(3), (S(-1), 1): S(-2), (R(-3, 2), 0): S.One}


def value(series) -> sp.Expr:
    return sp.Add(*[c * l**p * sp.log(l) ** g for (p, g), c in series.items()])


def test_integrals_and_products_of_series():
    assert sp.expand(sp.diff(value(_grown(SERIES)), l) - value(SERIES)) == 0
    assert sp.expand(value(_product(SERIES, SMALL, S(-9))) - sp.expand(value(SERIES) * value(SMALL))) == 0
    cut = _product(SERIES, SMALL, S(-1))
    assert min(p for p, _ in cut) == -1 and (S(-1), 1) in cut
    below = {(R(-3, 2), 1): S(2), (R(-3, 2), 0): S(7), (S(-2), 2): S(9)}
    assert _integrated(SERIES | below) == _grown(SERIES) | {(R(-1, 2), 1): _grown(SERIES).get((R(-1, 2), 1), 0) - 4}


@pytest.mark.parametrize("power", [R(1, 2), S(-1), R(-3, 2), S(2)])
def test_powers_and_logarithms_of_series(power):
    for n in (10**6, 10**8):
        w = value(SMALL).subs(l, n)
        ours = sp.N(value(_binomial(SMALL, power, S(-2), inclusive=True)).subs(l, n), 20)
        assert abs(ours - sp.N((1 + w) ** power, 20)) < 500 * n**-2.5 * math.log(n) ** 3
        assert abs(sp.N(value(_log1p(SMALL, S(-2))).subs(l, n) - sp.log(1 + w), 20)) < 500 * n**-2.5 * math.log(n) ** 3
    bare = _binomial(SMALL, power, S(-1))
    assert (S(-1), 1) in bare and (S(-1), 0) not in bare


def test_the_logarithm_of_a_power_series():
    x = sp.Symbol("x", positive=True)
    for powers, top in (({0: 1, 1: 2, 2: -3}, 4), ({0: 1, R(1, 2): 1, R(3, 2): 2}, 2)):
        found = logarithm({sp.sympify(p): sp.sympify(c) for p, c in powers.items()}, S(top))
        exact = sp.series(
            sp.log(sum(sp.sympify(c) * x ** (2 * sp.sympify(p)) for p, c in powers.items())), x, 0, 2 * top + 1
        )
        assert sp.expand(exact.removeO() - sum(c * x ** (2 * p) for p, c in found.items())) == 0


@pytest.mark.parametrize(
    "gain", [{2: -1, 3: 2}, {3: -2, 5: 1}, {R(3, 2): -1, 2: 1}, {R(5, 3): -R(1, 2), R(7, 3): R(1, 5)}]
)
def test_how_a_small_distance_dies(gain):
    """δ^l against an orbit, from two layers: what the law leaves out falls by its constant's power."""
    found = decay({sp.sympify(p): sp.sympify(c) for p, c in gain.items()})
    n, c = float(min(gain)), -float(gain[min(gain)])
    assert float(found.amplitude) == pytest.approx(((n - 1) * c) ** (-1 / (n - 1)))
    assert float(found.exponent) == pytest.approx(1 / (n - 1))
    powers, places, k = [(float(p), float(c)) for p, c in gain.items()], {}, 0.2
    for layer in range(1, 80001):
        places[layer] = k
        k += sum(c * k**p for p, c in powers)
    k1, k2 = places[5000], places[80000]
    law = sp.Add(*[t.expr(l) for t in found.delta])
    e1, e2 = (k / float(law.subs(l, m)) - 1 for k, m in ((k1, 5000), (k2, 80000)))
    assert abs(e2) < 1e-2 and abs(e2) < abs(e1) / 4 + 1e-6
