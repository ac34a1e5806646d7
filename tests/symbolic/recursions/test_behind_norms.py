"""Kinks behind a LayerNorm of activations: the place where φ equals its own mean, against quadrature of the texts."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import Z, sigmoid, softplus
from meanfield.functions import piecewise
from meanfield.networks.records import Dense, LayerNorm, Nonlinearity, Sequential

K1 = mp.mpf("1.73")
PHI = {
    "relu": lambda z: max(z, mp.mpf(0)),
    "leaky_relu": lambda z: z if z > 0 else z / 100,
    "elu": lambda z: z if z > 0 else mp.expm1(z),
    "softplus": lambda z: mp.log1p(mp.exp(z)),
    "tanh": mp.tanh,
    "abs": abs,
}
PAIRS = [
    ("relu", "relu"),
    ("leaky_relu", "relu"),
    ("elu", "relu"),
    ("softplus", "leaky_relu"),
    ("tanh", "relu"),
    ("relu", "tanh"),
    ("abs", "abs"),
]


def average(f, breaks):
    """⟨f⟩ over N(0, K1)."""
    edges = sorted({-9 * mp.sqrt(K1), 9 * mp.sqrt(K1), mp.mpf(0), *breaks})
    return mp.quad(lambda z: f(z) * mp.npdf(z, 0, mp.sqrt(K1)), edges)


def roots(f, level):
    """Where f = level, by a scan and bisection."""
    grid = [mp.mpf(k) / 8 + mp.mpf(1) / 97 for k in range(-90, 90)]
    return [
        mp.findroot(lambda z: f(z) - level, (a, b), solver="anderson")
        for a, b in itertools.pairwise(grid)
        if (f(a) - level) * (f(b) - level) < 0
    ]


def layer(first, second, error=0):
    """(K², J²) of Dense ∘ second ∘ LayerNorm ∘ first at σ_w = 1.3, σ_b = 0.2; error: planted in the mean."""
    f, g = PHI[first], PHI[second]
    m = average(f, ()) + error
    sd = mp.sqrt(average(lambda z: f(z) ** 2, ()) - m**2)
    places = roots(f, m)
    steps = mp.mpf("1e-12")

    def slope(h):
        return lambda z: (h(z + steps) - h(z - steps)) / (2 * steps)

    whole = lambda z: g((f(z) - m) / sd)  # noqa: E731
    second_moment = average(lambda z: whole(z) ** 2, places)
    gain = average(lambda z: slope(whole)(z) ** 2, places)
    return mp.mpf("1.69") * second_moment + mp.mpf("0.04"), mp.mpf("1.69") * gain


def assert_layer(run, truth):
    for name, value, close in (("K", truth[0], 1e-11), ("J", truth[1], 1e-9)):
        found = getattr(run, name)[1]
        if not abs(found / float(value) - 1) < close:
            raise AssertionError(f"{name} is {found}, not {value}")


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_against_quadrature(pair):
    first, second = map(Nonlinearity, pair)
    run = mf.derive(architecture=Sequential((first, LayerNorm(), second, Dense()))).propagate(
        sigma_w=1.3, sigma_b=0.2, depth=2
    )
    with mp.workdps(25):
        assert_layer(run, layer(*pair))
        with pytest.raises(AssertionError, match=r"K is .*, not"):
            assert_layer(run, layer(*pair, error=mp.mpf("1e-5")))


def test_means_of_functions_that_change_sign_are_known_to_be_positive():
    z = sp.Symbol("z", real=True)
    assert mf.average("z if z > 0 else exp(z) - 1", "K").is_positive
    assert mf.average("z if z > 0 else z/100", "K").is_positive
    assert not mf.average(sp.tanh(z) - sp.Rational(1, 3), "K").is_positive


def test_symbolic_continuity_is_proved_or_refused():
    m, x = sp.Symbol("m", positive=True), Z[0]
    zero = sp.S.Zero
    for head, place in ((softplus, sp.log(sp.exp(m) - 1)), (sigmoid, sp.log(m)), (sp.exp, sp.log(m))):
        level = head(place) if head is sigmoid else m
        assert piecewise.jump(zero, head(x) - level, x, place) == 0
    assert piecewise.jump(zero, softplus(x) - m + sp.Rational(1, 10**9), x, sp.log(sp.exp(m) - 1)) != 0  # control


def test_signs_far_out_decide_between_symbolic_branches():
    b = sp.Symbol("b", positive=True)
    found = piecewise.pieces(sp.Max(softplus(Z[0]), b), Z[0])
    assert found.exprs == (b, softplus(Z[0])) and not found.jumps()


def test_a_break_behind_softplus_does_not_overflow():
    """log(e^m - 1), where softplus passes its mean m, at m beyond 709: far out softplus is the ReLU, and K' no longer
    depends on K (it fell from 1.25 to 2e-4 at K = 3.2e6)."""
    block = mf.Sequential((mf.Nonlinearity("softplus"), mf.LayerNorm(), mf.Nonlinearity("relu"), mf.Dense()))
    run = mf.derive(architecture=block).propagate(
        sigma_w=1.3, sigma_b=0, depth=2, start={"K": np.array([1e6, 1e7, 1e12])}, quantities=("K",)
    )
    limit = mf.derive(architecture=mf.Sequential((mf.Nonlinearity("relu"), *block.blocks[1:]))).propagate(
        sigma_w=1.3, sigma_b=0, depth=2, start={"K": 1.0}, quantities=("K",)
    )
    np.testing.assert_allclose(run.K[:, 1], limit.K[1], rtol=2e-5)
