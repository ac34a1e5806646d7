"""J where K grows as a power of the depth other than the first, against iterated quadrature of its own."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import Term
from meanfield.base.symbols import K
from meanfield.symbolic.asymptotics import depth
from meanfield.symbolic.series.asymptotic_law import Law

EDGES = np.array([0, *2.0 ** np.arange(-1, 11)])
NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
HALF = np.concatenate([(b - a) / 2 * NODES + (a + b) / 2 for a, b in itertools.pairwise(EDGES)])
AREA = np.concatenate([(b - a) / 2 * WEIGHTS for a, b in itertools.pairwise(EDGES)])
Z = np.concatenate([-HALF[::-1], HALF])
W = np.concatenate([AREA[::-1], AREA])
CASES = {
    "softplus": (2, lambda z: np.logaddexp(0, z), lambda z: 1 / (1 + np.exp(-np.clip(z, -700, 700)))),
    "z + z*exp(-z**2)": (1, lambda z: z + z * np.exp(-z * z), lambda z: 1 + (1 - 2 * z * z) * np.exp(-z * z)),
}


def iterated(name: str, layers: tuple[int, ...]) -> list[float]:
    """log J at the layers."""
    s, phi, slope = CASES[name]
    square, steep = phi(Z) ** 2, slope(Z) ** 2
    k, log_j, out = 1.0, 0.0, []
    for layer in range(1, max(layers) + 1):
        if layer in layers:
            out.append(log_j)
        density = W * np.exp(-Z * Z / (2 * k)) / np.sqrt(2 * np.pi * k)
        log_j += np.log(s * (density @ steep))
        k = s * (density @ square)
    return out


def assert_grows(name, law, layers=(2500, 20000)):
    """rate·l^{rate_power} explains the gain between two depths, up to what falls more slowly than it."""
    found = iterated(name, layers)
    ours = [float(sp.N(law.rate)) * n ** float(law.rate_power) for n in layers]
    ratio = (found[1] - found[0]) / (ours[1] - ours[0])
    if not abs(ratio - 1) < 0.02:
        raise AssertionError(f"log J gains {ratio} times what the law says")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_stretched_exponential_along_power_growth(name):
    law = mf.derive(name).depth_law("J", sigma_w=sp.sqrt(CASES[name][0]), sigma_b=0)
    assert law.rate_power == sp.Rational(2, 3) and law.law.remainder == "smaller"
    assert_grows(name, law)
    with pytest.raises(AssertionError, match="times what the law says"):
        lead = replace(law.leading, coefficient=law.rate * sp.Rational(21, 20))
        assert_grows(name, replace(law, terms=(lead, *law.terms[1:])))


def chi(*terms) -> Law:
    return Law(K, sp.oo, (Term(sp.S.One), *terms), sp.Integer(-3))


@pytest.mark.parametrize(
    ("p", "s", "n", "expected"),
    [  # K' = K + 2 K^p, log chi_J = 3 K^-s (log K)^n: K = (2(1-p) l)^{1/(1-p)}
        ("1/2", "1/2", 0, ("3", 0, 1)),  # K = l²: Σ 3/l
        ("1/2", "1/2", 1, ("3", 0, 2)),  # Σ 3·2 log l/l
        ("1/2", "1/4", 0, ("6", "1/2", 0)),  # Σ 3/√l
        ("-1/2", "1/2", 0, ("3*3**(-1/3)*3/2", "2/3", 0)),  # K = (3l)^{2/3}
        ("1/2", "3/4", 0, None),  # Σ l^{-3/2} converges
    ],
)
def test_leading_orders(p, s, n, expected):
    lead = Term(sp.Integer(2), sp.Rational(p))
    law = depth._power_growth_of_j(lead, chi(Term(sp.Integer(3), -sp.Rational(s), sp.Integer(n)))).law.leading
    if expected is None:
        assert law.coefficient == depth.CONSTANT
        return
    size, power, logs = map(sp.sympify, expected)
    assert (law.power, law.logs) == (power, logs)
    assert sp.simplify(law.coefficient - sp.sympify(str(size), rational=True)) == 0


def test_a_limit_that_is_not_one():
    doubled = Law(K, sp.oo, (Term(sp.Integer(2)),), sp.Integer(-3))
    law = depth._power_growth_of_j(Term(sp.Integer(2), sp.S.Half), doubled)
    assert law.rate == sp.log(2) and law.rate_power == 1


@pytest.mark.slow
def test_quotients_led_by_a_logarithm_are_read_or_refused_in_a_sentence():
    law = mf.derive("tanh(z)/log(3 + z**2)").depth_law("K", sigma_w=1, sigma_b=0)
    assert sp.simplify(law.rate + 2 * sp.log(sp.log(3))) == 0
