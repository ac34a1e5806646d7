"""Whether (x, -y) goes the way of (x, y) is asked of the derived map, and agrees with the numbers of c and -c."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import K, K_ab
from meanfield.networks.records import Dense, Gate, LayerNorm, Network, Nonlinearity, Pool, Residual, Sequential, mlp
from meanfield.symbolic import parity
from meanfield.theory.depth_limits.inputs_apart import is_odd
from meanfield.theory.queries.selection import selected

TANH, SQUARE = Nonlinearity("tanh"), Nonlinearity("z**2")
PLACE = {"sigma_w": 1.1, "sigma_b": 0}


def _after(*blocks):
    return Sequential((*blocks, Dense()))


ODD = {
    "tanh": mlp("tanh"),
    "skip": mlp("erf", mu="0.5"),
    "clipped": mlp("clip(z, -1, 1)"),
    "layer norm": mlp("tanh", norm="act"),
    "pre norm": mlp("tanh", norm="pre"),
    "odd times even": _after(Gate("z**2")),
    "even gate beside a skip": Residual(_after(Gate("exp(-z**2)")), 1),
    "odd powers": _after(TANH, Pool(2, "z1**3 + z2*z1**2")),
    "mean": _after(TANH, Pool(3, "average")),
    "two layers": _after(Nonlinearity("z**3"), Dense(sigma_b=0), TANH),
}
NOT_ODD = {
    "relu": mlp("relu"),
    "odd times odd": _after(Gate("z")),
    "odd gate beside a skip": Residual(_after(Gate("tanh")), 1),
    "even powers": _after(TANH, Pool(2, "z1*z2")),
    "even before odd": _after(SQUARE, Dense(sigma_b=0), TANH),
    "a bias inside": _after(TANH, Dense(sigma_b="1/2"), TANH),
    "a shifted function": mlp("tanh(z - 1)"),
    "neither gate": _after(Gate("silu")),
}


def assert_parity(block, claimed, c=(0.3, 0.8)):
    """K_ab from c and from -c by compiled layers: of one size with other signs, or not, as is claimed."""
    runs = [
        mf.derive(architecture=block).propagate(
            sigma_w=1.1, sigma_b=0, depth=3, correlation=s * np.array(c), quantities=("K", "K_ab")
        )
        for s in (1, -1)
    ]
    ahead, back = (run.K_ab[:, -1] for run in runs)
    odd = bool(np.abs(ahead + back).max() < 1e-12 * np.abs(ahead).max())
    assert odd == claimed, f"{block}: K_ab of c is {ahead}, that of -c {back}"


CHEAP = ("relu", "skip", "odd times even", "odd times odd", "odd gate beside a skip")


@pytest.mark.slow_with("odd gate beside a skip")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in CHEAP else pytest.mark.slow) for n in (*ODD, *NOT_ODD)]
)
def test_the_numbers(name):
    assert_parity((ODD | NOT_ODD)[name], name in ODD)


@pytest.mark.parametrize("name", [*ODD, *NOT_ODD])
def test_the_claim(name):
    theory = mf.derive(architecture=(ODD | NOT_ODD)[name])
    assert is_odd(theory, PLACE) is (name in ODD)
    assert not is_odd(theory, PLACE | {"sigma_b": sp.Rational(1, 10)}) or "layer" in name or "norm" in name


def test_an_input_layer_with_a_bias_is_not_odd():
    assert is_odd(mf.derive(architecture=Network(mlp("tanh"), Dense(sigma_b=0))), PLACE)
    assert not is_odd(mf.derive(architecture=Network(mlp("tanh"), Dense(sigma_b=1))), PLACE)


def test_fixed_points_of_the_correlation_behind_gates():
    """u·φ(v) with odd φ is even: opposite inputs become equal ones, and -1 is no fixed point. With even φ it is."""
    product = mf.derive(architecture=_after(Gate("z"))).correlations(sigma_w=1, sigma_b=0)
    assert [p.c for p in product.points] == [1, 0] and product.status.name == "CERTIFIED"
    opposite = mf.derive(architecture=_after(Gate("exp(-z**2)"))).correlations(sigma_w=1.2, sigma_b=0)
    assert -1 in [p.c for p in opposite.points]


def test_control_a_wrong_parity_is_seen(monkeypatch):
    right = parity._in_second
    monkeypatch.setattr(parity, "_in_second", lambda f: right(f) and -1)
    block = _after(Nonlinearity("exp(-z**2)"), Dense(sigma_b=0), TANH)
    assert is_odd(mf.derive(architecture=block), PLACE)
    with pytest.raises(AssertionError, match="that of -c"):
        assert_parity(block, True)


def test_formulas():
    flipped = frozenset({K_ab})
    both = {K * sp.asin(K_ab / K): -1, sp.cos(K_ab): 1, sp.exp(K_ab): None, K_ab**-3: -1, sp.sqrt(1 - K_ab**2): 1}
    for e, expected in both.items():
        assert parity.parity(e, flipped) == expected, e


@pytest.mark.parametrize("affine", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_kernels_of_opposite_rows(affine):
    """Rows next to opposite ones: K is that of close rows with the other sign, also where β is trained; Theta is only
    where it is not."""
    theory = mf.derive(architecture=Sequential((LayerNorm(affine), TANH, Dense())))
    X, Y = np.array([[1.0, 0.0]]), np.array([[1.0, 1e-7], [0.6, 0.8]])
    place = {"sigma_w": 1.3, "sigma_b": 0, "depth": 4}
    ahead, back = (theory.kernel(X, s * Y, quantities=("K", "Theta"), **place) for s in (1, -1))
    np.testing.assert_allclose(ahead.K, -back.K, rtol=1e-13)
    same = np.allclose(ahead.Theta, -back.Theta, rtol=1e-13)
    assert same != affine


def test_an_even_first_step_is_seen_and_a_skip_is_not():
    """|z| and a product of odd functions forget the sign of K_ab; tanh, a skip and 1 + z³ do not."""
    names = ("K_ab", "Theta_ab")
    cases = (("abs", 0, True), ("z*tanh(z)", 0, True), ("tanh", 0, False), ("abs", 1, False), ("1+z**3", 0, False))
    for phi, skip, even in cases:
        theory = mf.derive(phi, mu=skip) if skip else mf.derive(phi)
        recursion = selected(theory, ("K_aa", "K_bb", *names))
        assert parity.is_even(recursion, names, {"sigma_b": 1}) == even, (phi, skip)
