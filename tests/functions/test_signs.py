"""Descartes' rule: sign changes are counted exactly, and never fewer than the zeros of the average."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, Z, sigmoid
from meanfield.functions.piecewise import pieces
from meanfield.functions.signs import _between, _number_place, changes, signs
from meanfield.symbolic.averages.node import average

z = Z[0]


def sampled(f: sp.Expr) -> tuple[int, ...]:
    """The folded signs on a dense grid: no proof, but another route."""
    p = pieces(f, z)
    functions = [sp.lambdify(z, e, [{"sigmoid": lambda x: 1 / (1 + np.exp(-x))}, "scipy", "numpy"]) for e in p.exprs]
    edges = [float(b) for b in p.breaks]

    def value(x):
        return np.asarray([float(functions[int(np.searchsorted(edges, t, side="right"))](t)) for t in x])

    grid = np.concatenate([np.linspace(0.0005, 4, 4000), np.linspace(4, 30, 2000)])
    total = value(grid) + value(-grid)
    s = np.sign(np.where(np.abs(total) < 1e-13, 0, total))
    s = s[s != 0]
    return tuple(int(v) for v in s[np.insert(np.diff(s) != 0, 0, True)]) if len(s) else ()


CASES = [
    z**2 - 1,
    z**4 - 5 * z**2 + 4,
    -(z**2) * (z**2 - 3) ** 2,
    sp.erf(z) ** 2 * 2 - z**2,
    sp.tanh(z) ** 2 * sp.Rational(3, 2) - z**2 + sp.Rational(1, 50),
    sp.exp(-(z**2)) - sp.Rational(1, 4) * z**2,
    z * sigmoid(z) - z**2 / 3,
    sp.atan(z) ** 2 - z**2 / 2,
    (z / (1 + sp.Abs(z))) ** 2 * 3 - z**2,
    sp.Max(z, 0) ** 2 - sp.Rational(1, 3) * z**2 + sp.Rational(1, 5),
    (2 - z**2) * sp.erf(z) * z,
    sp.sin(z) ** 2 * 3 - z**2,
]


@pytest.mark.parametrize("f", CASES, ids=lambda f: str(f).replace("_", ""))
def test_signs_equal_a_dense_sample(f):
    assert signs(f) == sampled(f)


def test_a_planted_shift_is_seen():
    assert signs(z**2 - 1) != signs(z**2 + 1)
    assert changes(sp.erf(z) ** 2 * 2 - z**2) == 1
    assert changes(sp.erf(z) ** 2 / 2 - z**2) == 0


def test_masses_count_in_their_place():
    """A point mass at 3 between positive pieces adds two changes if it is negative, none if it is positive."""
    assert signs(z**2, ((sp.Integer(3), -sp.S.One),)) == (1, -1, 1)
    assert signs(z**2, ((sp.Integer(-3), sp.S.One),)) == (1,)
    assert signs(sp.S.Zero, ((sp.Integer(1), -sp.S.One),)) == (-1,)
    assert signs(z**2, ((sp.S.Zero, -sp.S.One),)) == (-1, 1)  # a kink at 0 where f(0) ≠ 0


def test_a_kink_at_zero_under_a_value_counts():
    """φ = 1 + |z|: f f″ is a point mass 2 at 0, so χ_K > χ_J everywhere."""
    from meanfield.symbolic.criticality.critical_points import curvature

    assert signs(*curvature(mf.activation("1 + abs(z)").pieces.expr)) == (1,)


@pytest.mark.slow_with("-z**2 + 3*tanh(z)**2/2 + 1/50", "-z**2/3 + z*sigmoid(z)", "-z**2/2 + atan(z)**2")
@pytest.mark.parametrize("f", CASES[:8], ids=lambda f: str(f).replace("_", ""))
def test_no_more_zeros_than_sign_changes(f):
    """The theorem itself, on averages evaluated with 15 certified digits at 60 values of K."""
    node = average(f, K)
    found = [s for k in np.logspace(-4, 4, 60) if (s := np.sign(float(sp.N(node.subs(K, sp.Rational(float(k))), 15))))]
    zeros = sum(a != b for a, b in itertools.pairwise(found))
    assert zeros <= changes(f)


def test_what_oscillates_forever_is_not_decided():
    assert changes(sp.sin(z) * z) is None


@pytest.mark.slow_with("gelu_tanh")
@pytest.mark.parametrize("name", ["gelu", "silu", "mish", "gelu_tanh", "hard_swish", "polynomial"])
def test_one_critical_point_at_most(name):
    """f f″ of every registered activation is decided; these change sign once."""
    from meanfield.symbolic.criticality.critical_points import curvature

    assert changes(*curvature(mf.activation(name).pieces.expr)) == 1


@pytest.mark.parametrize(
    "name", ["tanh", "erf", "arctan", "softsign", "elu", "selu", "hard_tanh", "relu6", "sin", "relu"]
)
def test_none_for_concave_magnitudes(name):
    from meanfield.symbolic.criticality.critical_points import curvature

    assert changes(*curvature(mf.activation(name).pieces.expr)) == 0


def test_places_of_algebraic_numbers():
    """Balls of the roots against SymPy's digits, and rational numbers between close ones."""
    z = Z[0]
    close = sp.Poly((z**5 - 7 * z + 3) * (z**5 - 7 * z + 3 + sp.Rational(1, 10**9)) * (2 * z**3 - 9), z)
    places, roots = [], sp.real_roots(close)
    for root in roots:
        ball = _number_place(root / 3)
        exact = sp.N(root / 3, 60)
        assert abs(sp.Float(ball.mid().str(55, radius=False), 60) - exact) < 1e-44 and ball.rad() < 1e-40
        places.append(ball)
    for (a, b), (lo, hi) in zip(itertools.pairwise(places), itertools.pairwise(roots), strict=True):
        assert sp.N(lo / 3, 30) < _between(a, b) < sp.N(hi / 3, 30)
    with pytest.raises(MeanFieldError, match="too close to tell apart"):
        _between(places[0], places[0])


def test_the_end_of_a_piece_is_seen_from_inside():
    """tanh² z - tanh² 1 vanishes where its piece ends, and would be positive behind it."""
    z = Z[0]
    inside = sp.tanh(z) ** 2 - sp.tanh(1) ** 2
    f = sp.Piecewise((inside, (z > -1) & (z < 1)), (sp.exp(-(z**2)) - 1, True))
    assert signs(f) == (-1,)
    assert signs(sp.Piecewise((-inside, (z > -1) & (z < 1)), (sp.exp(-(z**2)) - 1, True))) == (1, -1)
