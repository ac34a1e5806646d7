"""Pages of activations that oscillate: distances beside closed forms, a lattice and `propagate`."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

from meanfield import derive
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.explorer.model import model
from meanfield.explorer.ratios import edges_of, tabulated, unit_of
from meanfield.explorer.smoothing import distances
from tests.explorer.explorer_pages import (
    assert_follows,
    assert_ratios,
    by_lattice,
    column,
    followed_by_script,
    needs_node,
    points_of,
)

GROWING = Z[0] * sp.tanh(Z[0]) / 2 + sp.sin(Z[0])
KINKED = sp.Max(Z[0], 0) * sp.sin(Z[0])


def growing(z):
    return z * np.tanh(z) / 2 + np.sin(z)


def assert_sine(found, speed: float, s: float, v: np.ndarray, within=1e-8):
    """Raise unless these are ⟨(sin ωz_a - sin ωz_b)²⟩ of covariances v and -v, by their closed form."""
    a, b = (speed * s) ** 2, speed**2 * (s * s + 2 * v)
    for one, true in zip(found, (-np.expm1(-a) * (1 + np.exp(-b)), -np.expm1(-b) * (1 + np.exp(-a)))):
        if not np.abs(one / true - 1).max() <= within:
            raise AssertionError(f"{one} at s = {s}, where it is {true}")


@pytest.mark.parametrize("speed", [sp.Rational(1, 3), 1, 4])
def test_distances_of_a_sine_are_its_closed_form(speed):
    v = 2.0 ** np.arange(-30, 9)
    for s in (1e-7, 0.1, 0.7, 5.0, 16.0):
        found = distances(sp.sin(speed * Z[0]), s, v)
        assert_sine(found, float(speed), s, v)
    with pytest.raises(AssertionError, match="where it is"):
        assert_sine(found, float(speed) * 1.1, 0.3, v)


def test_distances_of_a_growing_wave_are_those_of_a_lattice():
    for s, v in ((0.3, 50.0), (0.7, 300.0), (7.0, 30.0), (20.0, 500.0)):
        found = distances(GROWING, s, np.array([v]))
        for one, sign in zip(found, (1, -1)):
            assert one[0] == pytest.approx(by_lattice(growing, s, v, sign, 0.01), rel=2e-9)
        with pytest.raises(AssertionError, match="comparison failed"):
            assert found[0][0] == pytest.approx(by_lattice(growing, s * 1.00001, v, 1, 0.01), rel=2e-9)


def test_a_kinked_wave_is_that_of_finer_panels():
    v = 2.0 ** np.arange(-20, 11, 3)
    for s in (1e-3, 0.4, 3.0):
        for one, finer in zip(distances(KINKED, s, v), distances(KINKED, s, v, 2)):
            assert np.abs(one / finer - 1).max() < 1e-8


@needs_node
def test_the_table_of_a_wave_holds_where_panels_that_double_do_not():
    assert edges_of(GROWING)[-1] == 12  # the average over two inputs is compiled up to K = 4096
    table = tabulated(GROWING, np.array([4.0, 5.0, 6.0]))
    assert table.share == 1 and table.error < 1e-7
    values = []
    for s2, v, sign in ((20.0, 37.0, 1), (33.0, 60.0, 1), (40.0, 17.5, -1)):
        apart = 2 * (s2 + v - sign * v)
        values.append((s2 + v, apart, by_lattice(growing, math.sqrt(s2), v, sign, 0.02) / apart))
    assert_ratios(table, values)
    wrong = table.__class__(table.edges, table.coefficients + 1e-5, table.error, table.jumps)
    with pytest.raises(AssertionError, match="at V"):
        assert_ratios(wrong, values)


@needs_node
def test_below_its_boxes_a_table_goes_on_as_a_power():
    table = tabulated(Z[0] * sp.tanh(Z[0]), edges_of(Z[0] * sp.tanh(Z[0]))[:11])
    values = [(V, V * part, V * (4 - part)) for V in (2.0**-26, 2.0**-40, 1e-200) for part in (0.01, 0.3, 1.9, 3.9)]
    assert_ratios(table, values)  # z² has ⟨(z_a² - z_b²)²⟩ = apart (4V - apart)
    assert_ratios(table, [(V, V * 1e-9, V * 4) for V in (2.0**-27, 1e-12)], 1e-4)  # as good as 1 - c is small
    with pytest.raises(AssertionError, match="at V = "):
        assert_ratios(replace(table, degree=0.0), values)


def test_steep_functions_are_measured_in_a_unit_of_their_own():
    assert [unit_of(sp.tanh(k * Z[0])) for k in (1, 5, sp.Rational(1, 9))] == [1, sp.Rational(1, 4), 1]
    assert unit_of(sp.sin(20 * Z[0]) * sp.tanh(Z[0])) == sp.Rational(1, 16)


@needs_node
@pytest.mark.slow
@pytest.mark.parametrize("act", ["tanh(20*z)", "z*tanh(z)", "sin(5*z)*tanh(z)"])
def test_steep_and_flat_functions_follow_propagate(act):
    theory = derive(act)
    points = [p | {"Q0": min(p["Q0"], 10.0)} for p in points_of(13, 4)]  # a wave is compiled up to K = 128
    assert_follows(theory, model(theory.recursion("K", "J", "distance")).script, points, 12)


@needs_node
@pytest.mark.slow
def test_c_of_a_wave_is_that_of_propagate_and_stops_where_it_does():
    theory, rng = derive("z*tanh(z)/2 + sin(z)", residual=True), np.random.default_rng(12)
    script = model(theory.recursion("K", "J", "distance")).script
    points = [
        {"sigma_w": float(rng.uniform(0.1, 0.9)), "sigma_b": float(rng.uniform(0, 0.5)),
         "Q0": float(10 ** rng.uniform(-12, 2)), "c0": (0.6, 0.0, 1 - 1e-9, -1.0, -0.4)[i % 5]}
        for i in range(4)
    ][2:]  # fmt: skip
    assert_follows(theory, script, points, 8)
    wrong = script.replace("let b0 = 0, b1 = 0;", "let b0 = 0, b1 = 1e-3;", 1)
    assert wrong != script
    with pytest.raises(AssertionError, match="'c': "):
        assert_follows(theory, wrong, points, 8)  # at the last point: c is near 1 at the other, whatever it says
    far = {"sigma_w": 1.0, "sigma_b": 0.0, "Q0": 1e3, "c0": 0.5}
    (found,) = followed_by_script(script, [far], 30)
    K, layer = column(found["columns"]["K"]), found["lost"]["layer"]
    assert np.isfinite(K).all() and K[layer - 2] > 4096
    layer = 1 + int((K <= 4096).sum())  # the last that `propagate` knows
    more = {"input_norm": 1e3, "correlation": 0.5, "quantities": ("K", "distance")}
    assert np.isfinite(theory.propagate(sigma_w=1, sigma_b=0, depth=layer, **more).c).all()
    with pytest.raises(MeanFieldError, match="oscillates too fast"):
        theory.propagate(sigma_w=1, sigma_b=0, depth=layer + 1, **more)
