"""Searches over K where φ oscillates: the range that is affordable is searched, and said; nothing runs for minutes."""

from __future__ import annotations

import mpmath
import pytest

import meanfield as mf
from meanfield.base.answers.results import Status
from meanfield.functions import balls


def average(f, K):
    s = mpmath.sqrt(K)
    return mpmath.quad(lambda x: f(s * x) * mpmath.npdf(x), mpmath.linspace(-9, 9, 19))


def phi(z):
    return mpmath.tanh(z) + mpmath.mpf("0.3") * mpmath.sin(2 * z)


def slope(z):
    return mpmath.sech(z) ** 2 + mpmath.mpf("0.6") * mpmath.cos(2 * z)


def assert_is_a_fixed_point(point, sigma_w, sigma_b) -> None:
    """K* and its slopes by quadrature of 15 digits."""
    K = mpmath.mpf(float(point.K))
    off = abs(sigma_w**2 * average(lambda z: phi(z) ** 2, K) + sigma_b**2 - K)
    assert off < 1e-9, f"K' is {float(off):.1g} off K"
    assert abs(sigma_w**2 * average(lambda z: slope(z) ** 2, K) - float(point.chi_J)) < 1e-9


@pytest.mark.slow
def test_fixed_points_of_an_oscillating_activation():
    theory = mf.derive("tanh(z) + 0.3*sin(2*z)")
    (point,) = theory.fixed_points(sigma_w=1, sigma_b="0.1")
    assert_is_a_fixed_point(point, 1, 0.1)
    with pytest.raises(AssertionError, match="off K"):
        assert_is_a_fixed_point(point, 1.001, 0.1)


@pytest.mark.slow
def test_a_search_does_not_depend_on_what_was_asked_before():
    """The range is by what averages cost when nothing is remembered of them."""
    theory = mf.derive("z*erf(z) + 0.3*sin(2*z)")
    first, again = (theory.fixed_points(sigma_w=1, sigma_b="0.1") for _ in range(2))
    assert first.message == again.message and "a search from K = 1e-12 to 1e+04" in first.message


@pytest.mark.slow
def test_a_search_for_counted_zeros_stops_too():
    """At σ_w = 1.01 the zeros are counted first, and the search for them went to K = 1e12, for hours."""
    before = balls.evaluations()
    found = mf.derive("z*erf(z) + 0.3*sin(2*z)").fixed_points(sigma_w="1.01", sigma_b="0.1")
    assert balls.evaluations() - before < 400_000
    for point in found:
        K = mpmath.mpf(float(point.K))
        image = 1.01**2 * average(lambda z: (z * mpmath.erf(z) + mpmath.mpf("0.3") * mpmath.sin(2 * z)) ** 2, K) + 0.01
        assert abs(image - K) < 1e-9 * K
    assert len(found) == 2


@pytest.mark.slow
def test_a_search_says_how_far_it_went():
    """By a scan of K in NumPy: one critical point at K > 0, K* = .21322 at (1.20640, .20063)."""
    before = balls.evaluations()
    found = mf.derive("z*tanh(z) + 0.3*sin(2*z)").critical_points()
    assert balls.evaluations() - before < 2_000_000
    assert found.status is Status.MEASURED and "a search from K = 1e-12 to 1e+04" in found.message
    origin, point = found
    assert (float(origin.sigma_w), float(origin.K)) == (pytest.approx(5 / 3), 0)
    seen = [float(x) for x in (point.K, point.sigma_w, point.sigma_b)]
    assert seen == pytest.approx([0.21322, 1.20640, 0.20063], abs=1e-5)


def test_a_phase_whose_limit_is_not_known_says_what_to_do():
    with pytest.raises(mf.MeanFieldError, match="K grows without bound here, and the limit of chi_J") as said:
        mf.derive("z*erf(z) + 0.3*sin(2*z)").phase(sigma_w="1.5", sigma_b="0.1")
    assert "propagate(...)" in str(said.value) and "cos(2*|z|)" in str(said.value) and "_t" not in str(said.value)
