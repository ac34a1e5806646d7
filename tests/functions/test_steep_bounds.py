"""Growth bounds of steep functions far from 0: rigorous, and no double overflows on the way."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import Z
from meanfield.functions import growth
from meanfield.functions.activations import activation

z = Z[0]
STEEP = ("tanh(500*(z-1))", "z*sigmoid(400*(z-1))", "silu(20*(z-20))", "z*tanh(150*(z-2))", "tanh(900*(z-1))+z/2")


def assert_decays(f: sp.Expr) -> None:
    """|f(t) - power(t)| ≤ A (1 + t)^p e^{-ct} from 1 on."""
    found = growth.decay(f, z)
    assert found is not None
    exact = sp.lambdify(z, f - found.power, "mpmath")
    with mp.workdps(1200):
        for t in (1.0, 1.001, 1.5, 2.0, 3.0, 19.0, 21.0):
            most = mp.mpf(found.A) * (1 + mp.mpf(t)) ** found.p * mp.exp(-mp.mpf(found.c) * t)
            assert abs(exact(mp.mpf(t))) <= most, t


@pytest.mark.parametrize("text", STEEP)
def test_bounds_hold_and_are_numbers(text):
    f = activation(text).pieces.expr
    for g in (f, sp.diff(f, z), sp.diff(f, z) ** 2, f * sp.diff(f, z)):
        exact = sp.lambdify(z, g, "mpmath")
        for side in (-1, 0, 1):
            found = growth.bound(g, z, side)
            assert found is not None and 0 < found.A < 1e200
            for t in (0.3, 0.999, 1.0, 1.002, 5.0, 20.0):
                at = mp.mpf(t) * (side or 1)
                assert abs(exact(at)) <= found.A * (1 + mp.mpf(t)) ** found.p * mp.exp(found.c * mp.mpf(t))
    assert_decays(f)


GROWING = sp.exp(-20 * (z - 20)), sp.log(1 + sp.exp(20 * (z - 20))), sp.tanh(sp.exp(-9 * (z - 20)))


@pytest.mark.parametrize("f", GROWING)
def test_what_grows_on_the_way_has_its_own_rate(f):
    """e^{-20(t - 20)} is e^380 at t = 1: no smaller rate bounds it, nor softplus, which follows its argument."""
    found = growth.decay(f, z)
    if found is not None:
        assert_decays(f)
    assert found is None or growth.decay(f, z).largest() > 0


def test_control_a_factor_that_is_cut(monkeypatch):
    """e^{apart} was taken as e^700 at most, at the full rate: what it bounded was larger."""
    rule = growth._least_slope

    def nearer(power, t):
        slope, offset = rule(power, t)
        return slope, min(offset, 300.0)

    monkeypatch.setattr(growth, "_least_slope", nearer)
    with pytest.raises(AssertionError, match="1"):
        assert_decays(activation("tanh(800*(z-2))").pieces.expr)


@pytest.mark.slow
def test_answers_of_steep_functions():
    """OverflowError before."""
    (point,) = mf.derive("tanh(500*(z-1))").fixed_points(sigma_w=2, sigma_b="1/10")
    K = mp.mpf(str(point.K.value))
    with mp.workdps(20):
        s = mp.sqrt(K)
        edges = [-12, (1 - 0.05) / s, 1 / s, (1 + 0.05) / s, 12]
        square = mp.quad(lambda x: mp.tanh(500 * (s * x - 1)) ** 2 * mp.npdf(x), edges)
        assert abs(4 * square + mp.mpf("0.01") - K) < 1e-10 < abs(4.001 * square + mp.mpf("0.01") - K)
