"""A critical point at K* > 0, handed back to the verbs of one place: K' touches K there, without a change of sign."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import Status
from meanfield.base.symbols import K
from meanfield.symbolic.fixed_points.double_zeros import double_zeros
from meanfield.symbolic.fixed_points.half_line import Zeros


def at(name):
    theory = mf.derive(name)
    point = theory.critical_points()[-1]
    return theory, point, {"sigma_w": point.sigma_w, "sigma_b": point.sigma_b}


@pytest.mark.slow
def test_the_point_is_a_fixed_point_of_gelu():
    """K* = (3 + √17)/2 is a double zero of K' - K next to a simple one: three with multiplicity, Descartes' bound.

    A double of σ_w, 1e-16 off, has no such point; nor has σ_w a little smaller or larger."""
    theory, point, place = at("gelu")
    found = theory.fixed_points(**place)
    assert [p.stability for p in found] == ["stable", "half-stable"] and found.status is Status.CERTIFIED
    low, touching = found
    assert touching.K.value == point.K.value and touching.chi_J == touching.chi_K == 1 and touching.phase == "critical"
    assert low.basin[1] == touching.basin[0] and math.isinf(float(touching.basin[1]))
    for K1, end in ((10, touching), (3.3, low), (0.1, low)):
        assert found.reached_from(K1) is end
    w, b = float(point.sigma_w), float(point.sigma_b)
    for moved, count in ((w, {1, 3}), (w * (1 - 1e-6), {1})):
        other = theory.fixed_points(sigma_w=moved, sigma_b=b)
        assert "half-stable" not in [p.stability for p in other] and len(other) in count


@pytest.mark.parametrize(("low", "high"), [(0, 100), (0, sp.oo), (sp.Rational(1, 10), sp.oo)])
def test_a_point_is_looked_for_where_the_range_has_no_end(low, high):
    """K' - K = K(K - 2)²: 2 is met from K = 0 on (a TypeError of SymPy once), and what only comes close is not."""
    found = Zeros((), 2, 1, 1, sp.sympify(low), sp.sympify(high), False, False)
    gain = K * (K - 2) ** 2
    (root,) = double_zeros(gain, sp.diff(gain + K, K), found)
    assert root.exact == 2 and not root.crosses
    near = gain + K / 1000
    assert double_zeros(near, sp.diff(near + K, K), found) == ()


@pytest.mark.slow
def test_laws_on_both_sides_of_it():
    """From above J grows as l^ζ, ζ = 32 + 8√17, as a run over 4·10⁶ layers does; from below K leaves for 3.03."""
    theory, _, place = at("gelu")
    above, below = (theory.depth_law("J", **place, input_norm=q) for q in (10, 1))
    zeta = 32 + 8 * math.sqrt(17)
    assert float(above.terms[0].coefficient) == pytest.approx(zeta, rel=1e-15) and above.terms[0].logs == 1
    assert below.terms[0].power == 1 and float(below.terms[0].coefficient) == pytest.approx(-0.0060397, rel=1e-4)
    layers = 4 * 10**6
    numbers = {n: float(v) for n, v in place.items()}
    run = theory.propagate(**numbers, depth=layers, input_norm=10, quantities=("K", "J"))
    log_J = np.asarray(run.log_J)
    seen = log_J[layers - 1] - log_J[layers // 2 - 1]
    slow = 679894.010753538 * (math.log(layers) / layers - math.log(layers // 2) / (layers // 2))
    error = 8e6 / layers  # the next order
    assert abs(seen - zeta * math.log(2) - slow) < error < zeta * math.log(2)
    assert abs(seen + zeta * math.log(2)) > error  # planted: the other sign


@pytest.mark.slow
def test_decimals_of_a_point_are_the_point_to_their_digits():
    """silu's point has no closed form: its σ's are known to so many digits, and K' touches K to as many."""
    theory, point, place = at("silu")
    found = theory.fixed_points(**place)
    touching, high = found
    assert (touching.stability, high.stability) == ("half-stable", "stable") and found.status is Status.MEASURED
    assert "touches K at K* = 14.320173618, to the digits given" in found.message
    assert float(touching.K) == pytest.approx(float(point.K), rel=1e-12) and touching.phase == "critical"
    assert theory.phase(**place).name == "critical"
    assert str(theory.depth_law("J", **place)).startswith("log J = 0 + smaller order")
    rounded = theory.fixed_points(sigma_w=round(float(point.sigma_w), 12), sigma_b=round(float(point.sigma_b), 12))
    assert "half-stable" not in [p.stability for p in rounded]


def test_laws_at_a_point():
    """at= is the point: K and J on the side from which K* attracts, other laws at its σ's."""
    theory, point, place = at("gelu")
    for name, law in (("J", point.law_J), ("K", point.law_K)):
        assert theory.depth_law(name, at=point) is law
    with pytest.raises(mf.MeanFieldError, match="at= says sigma_w and sigma_b; leave them out"):
        theory.depth_law("J", at=point, **place)
    with pytest.raises(mf.MeanFieldError, match=r"at= is one of theory.critical_points\(\), but 3 was given"):
        theory.depth_law("J", at=3)
    selu = mf.derive("selu")
    origin = selu.critical_points()[0]
    text = str(selu.depth_law("J", at=origin))
    assert "0.73070794195976502*log(l)/l" in text and "(0, 0)" not in text and max(map(len, text.split())) < 40
