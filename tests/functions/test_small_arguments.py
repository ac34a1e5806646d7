"""Formulas that are 0 in doubles near z = 0 (exp(z) - 1 of an elu): what two inputs become as K falls to 0.

There elu is a leaky ReLU and softplus - log(2) is z/2, whose averages close; the polynomials are judged by mpmath.
"""

from __future__ import annotations

import re

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import Z
from meanfield.functions.series.small_arguments import Small, small_arguments
from meanfield.numeric.lowering import assembly
from meanfield.numeric.lowering.averages import planes, two_gaussians
from meanfield.numeric.lowering.modules import cache, generated_modules
from meanfield.numeric.quadrature import evaluation

z = Z[0]
LOSE = (
    sp.exp(z) - 1,
    sp.Rational(27, 50) * (sp.exp(z) - 1),
    sp.tanh(z) - z,
    sp.cos(z) - 1,
    sp.log(1 + sp.exp(z)) - sp.log(2),
    sp.sqrt(1 + z**2) - 1,
    sp.tanh(z + sp.Rational(3, 10)) - sp.tanh(sp.Rational(3, 10)),
    (1 - sp.exp(-(z**2))) * sp.erf(z),
    (sp.exp(z) - 1 - z) / z,
)
KEEP = (sp.tanh(z), sp.erf(z), z * (1 + sp.erf(z)) / 2, sp.exp(z), z**3 - z, sp.sqrt(z), z / (1 + z), sp.sin(z) / z)


def assert_exact(found: Small, f: sp.Expr) -> None:
    """To four roundings of a double, over the whole reach."""
    true = sp.lambdify(z, f, "mpmath")
    for x in (*np.geomspace(1e-60, 0.999 * found.reach, 40), *-np.geomspace(1e-60, 0.999 * found.reach, 40)):
        with mp.workdps(400):
            off = abs(mp.mpf(float(found(np.array(x)))) / true(mp.mpf(float(x))) - 1)
        assert off < 1e-15, (f, x, float(off))
        assert eval(found.code(), {"z": float(x)}) == pytest.approx(float(found(np.array(x))), rel=1e-15)


@pytest.mark.parametrize("f", LOSE, ids=str)
def test_polynomials_keep_their_digits(f):
    found = small_arguments(f)
    assert found is not None and found.reach >= 0.25
    assert_exact(found, f)
    planted = Small(found.order, (found.coefficients[0], *(1.001 * c for c in found.coefficients[1:])), found.reach)
    with pytest.raises(AssertionError, match=re.escape(str(f))):
        assert_exact(planted, f)


@pytest.mark.parametrize("f", KEEP, ids=str)
def test_formulas_that_keep_theirs_are_left(f):
    assert small_arguments(f) is None


def assert_like(phi: dict, limit: dict, quantities: tuple[str, ...], start: dict, allowed: float = 1e-12) -> None:
    """The same ratios of next to this layer's values as the φ that it is at K → 0."""
    at = {"sigma_w": 1.3, "sigma_b": 0.0, "depth": 4, "start": start, "quantities": quantities}
    mine, other = (mf.derive(**one).propagate(**at) for one in (phi, limit))
    for name in quantities:
        ratio = getattr(mine, name)[-1] / getattr(other, name)[-1]
        assert abs(ratio - 1) < allowed, (name, start, ratio)


ELU = {"activation": "elu", "alpha": "0.54"}, {"activation": "leaky_relu", "alpha": "0.54"}
SOFTPLUS = {"activation": "softplus(z) - log(2)"}, {"activation": "z/2"}


@pytest.mark.slow
@pytest.mark.parametrize(("phi", "limit"), [ELU, SOFTPLUS], ids=["elu", "softplus"])
@pytest.mark.parametrize("K", [pytest.param(1e-28, marks=pytest.mark.slow), 1e-60])
def test_two_inputs_of_small_K_go_the_way_of_the_limit(phi, limit, K):
    """c of elu came near 1 too fast from K = 1e-20 on: 0.98115 for 0.96518 after 171 layers."""
    assert_like(phi, limit, ("K_aa", "K_bb", "K_ab", "J_ab"), {"K_aa": K, "K_bb": 3 * K, "K_ab": 0.7 * K})
    assert_like(phi, limit, ("K", "distance", "c"), {"K": K, "c": 0.4})


@pytest.mark.slow
def test_the_limit_is_missed_where_formulas_are_taken_as_they_stand(monkeypatch, tmp_path):
    monkeypatch.setattr(planes, "small_arguments", lambda f: None)
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    monkeypatch.setattr(generated_modules, "PATIENCE", np.inf)
    for kept in (assembly.lower, two_gaussians.pair):
        kept.cache_clear()
    start = {"K_aa": 1e-60, "K_bb": 3e-60, "K_ab": 7e-61}
    try:
        with pytest.raises(AssertionError, match="K_ab"):
            assert_like(*ELU, ("K_ab",), start)
    finally:
        for kept in (assembly.lower, two_gaussians.pair):
            kept.cache_clear()


@pytest.mark.slow
def test_kernels_of_small_inputs():
    X = 1e-20 * np.array([[1.0, 0.0], [0.6, 0.8], [2.0, 1.0]])
    at = {"sigma_w": 1.3, "sigma_b": 0.0, "depth": 3}
    for phi, limit in (ELU, SOFTPLUS):
        mine, other = (mf.derive(**one).kernel(X, **at) for one in (phi, limit))
        assert abs(mine.K / other.K - 1).max() < 1e-12 and abs(mine.Theta / other.Theta - 1).max() < 1e-11
        off = ~np.eye(3, dtype=bool)
        assert abs(mine.distance[off] / other.distance[off] - 1).max() < 1e-12


def test_numpy_functions_too():
    x = np.array([1e-3, -1e-10, 1e-20])
    assert np.allclose(evaluation.numpy_function(sp.exp(z) - 1)(x), np.expm1(x), rtol=3e-16, atol=0)
    assert not np.allclose(np.exp(x) - 1, np.expm1(x), rtol=1e-9, atol=0)  # the control
