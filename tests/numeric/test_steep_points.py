"""Widths of the first panels beside steep points: by scale, by certified averages, with planted errors."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import Z
from meanfield.functions.activations import activation
from meanfield.numeric.quadrature import steep_points
from meanfield.numeric.quadrature.gaussian_averages import QuadratureRule, fastest_phase, gaussian_average
from meanfield.numeric.quadrature.steep_points import resolving_width

NODES = 20


def function(text: str) -> sp.Expr:
    return activation(text).pieces.expr


def assert_widths_scale(form: str, exponents) -> None:
    """What is 2^k times as steep asks for 2^-k of the width, up to a width of 1."""
    widest = resolving_width(function(form.format(a=2**6)), NODES, 1.0) * 2**6
    for k in exponents:
        found = resolving_width(function(form.format(a=2**k)), NODES, 1.0)
        assert found == min(1.0, widest * 2.0**-k), (form, k, found)


@pytest.mark.parametrize("form", ["tanh({a}*z)", "atan({a}*z)", "1/(1 + ({a}*z)**2)", "exp(-({a}*z)**2)"])
def test_widths_scale(form):
    assert_widths_scale(form, (0, 3, 10, 20, 30))


def test_control_a_search_from_wide_to_narrow(monkeypatch):
    """Nodes of a panel of width 1 do not meet what is steep: it seems to be resolved."""
    monkeypatch.setattr(steep_points, "NARROWEST", 0)
    resolving_width.cache_clear()
    try:
        with pytest.raises(AssertionError, match=r"20, 1\.0\)"):
            assert_widths_scale("tanh({a}*z)", (20,))
    finally:
        resolving_width.cache_clear()


@pytest.mark.parametrize(
    ("text", "width"),
    [("hard_swish", 1.0), ("relu6", 1.0), ("tanh(16*(z - 3))", 0.25), ("tanh(z) + tanh(32*z)", 0.125)],
)
def test_places_away_from_zero_know_fewer_digits(text, width):
    """Points beside 3 have their distance from it to 4e-16/width: that is no sign of a steep function."""
    assert resolving_width(function(text), NODES, 1.0) == width


STEEP = ("tanh(100000*z)**2", "atan(1000*z)**2", "1/(1 + 10**10*z**2)", "tanh(300*(z - 1))**2")


@pytest.mark.parametrize("text", STEEP)
def test_averages_of_steep_functions(text):
    f = function(text)
    right = float(mf.certified(mf.average(f.xreplace({Z[0]: sp.Symbol("z", real=True)}), 1), 20))
    assert gaussian_average(f, np.array([1.0]))[0] == pytest.approx(right, rel=1e-14, abs=0)


@pytest.mark.slow_with("tanh({a}*z)-tanh-more0")
@pytest.mark.parametrize(
    ("form", "base", "more"),
    [
        ("tanh({a}*z)", "tanh", {"quantities": ("K", "c"), "correlation": 0.9999}),
        ("atan({a}*z)", "arctan", {"quantities": ("K", "J")}),
    ],
)
def test_recursions_of_steep_functions(form, base, more, interpreted):
    """phi(a z) is phi with a sigma_w, a sigma_b: K by a^2, c and J as they are. Both were refused."""
    a, at = 1000, {"depth": 4, "input_norm": 1.3} | more
    one = mf.derive(form.format(a=a)).propagate(sigma_w=1.5, sigma_b=0.3, **at)
    other = mf.derive(base).propagate(sigma_w=1.5 * a, sigma_b=0.3 * a, **at)
    np.testing.assert_allclose(one.K * a * a, other.K, rtol=1e-13)
    name = at["quantities"][1]
    np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12)


@pytest.mark.slow
def test_kernels_of_very_steep_functions(interpreted):
    """K of tanh(1e5 z) was 11 % off under 3e-9."""
    X, a = np.array([[1.0, 1.0], [1.0, 1.1], [-0.3, 0.7]]), 1e5
    one = mf.derive("tanh(100000*z)").kernel(X, sigma_w=1.5, sigma_b=0.3, depth=2)
    other = mf.derive("tanh").kernel(X, sigma_w=1.5 * a, sigma_b=0.3 * a, depth=2)
    np.testing.assert_allclose(one.K * a * a, other.K, rtol=1e-13)
    np.testing.assert_allclose(one.Theta * a * a, other.Theta, rtol=1e-12)


def test_the_fastest_of_several_phases():
    """Panels of cos(z²/2) + cos(10 z²) follow the second: its frequency at z is 20 z."""
    z = Z[0]
    for slopes in ((z, 20 * z), (20 * z, z)):
        assert fastest_phase(QuadratureRule((), 0.0, slopes=slopes), 3.0) == pytest.approx(20 * (3 + 1))
