"""Laws of two inputs at a critical point are those of inputs whose K comes to that point."""

import pytest
import sympy as sp

import meanfield as mf


@pytest.fixture(scope="module")
def gelu():
    t = mf.derive("gelu")
    return t, next(p for p in t.critical_points() if p.kind == "half-stable")


@pytest.mark.slow
def test_the_law_of_c_at_a_half_stable_point_is_that_of_a_start_above_it(gelu):
    """K of input_norm = 1 lies below the point, and ends at another K*: c would come to 1 exponentially there."""
    t, point = gelu
    law = t.depth_law("c", at=point)
    assert law.terms[1].power == -1
    start = point.K.value * sp.Rational(11, 10)
    norm = float((start - point.sigma_b.value**2) / point.sigma_w.value**2)
    sigmas = {"sigma_w": float(point.sigma_w.value), "sigma_b": float(point.sigma_b.value)}
    run = t.propagate(**sigmas, input_norm=norm, depth=1_000_000, correlation=0.3, quantities=("K", "distance"))
    expected = float(point.K.value), float(point.law_K.terms[1].coefficient), -float(law.terms[1].coefficient)
    assert_shares_agree(run, *expected)
    with pytest.raises(AssertionError, match="of the law"):
        assert_shares_agree(run, *expected[:2], 1.02 * expected[2])


def assert_shares_agree(run, limit, of_K, of_c):
    """K and c have come as near to their laws: both lack a share ~ log l/l that is the same to its own order."""
    at = len(run.K) - 1
    K_share = (run.K[at] - limit) * run.l[at] / of_K
    c_share = run.distance[at] / (2 * run.K[at]) * run.l[at] / of_c
    assert 0.9 < K_share < 1
    assert abs(c_share - K_share) < 0.005, f"{c_share} of the law of c, {K_share} of that of K"


@pytest.mark.slow
def test_an_input_norm_beside_a_point_is_where_the_law_starts(gelu):
    t, point = gelu
    assert "exponential" in t.depth_law("c", at=point, input_norm=1).regime


@pytest.mark.slow
def test_a_point_in_digits_has_the_laws_of_c_that_its_own_laws_give():
    t = mf.derive("silu")
    point = next(p for p in t.critical_points() if p.kind == "half-stable")
    gamma, J = t.depth_law("gamma", at=point), point.law_J
    assert sp.Abs(gamma.terms[0].power + J.terms[0].coefficient) < 1e-12  # γ grows as 1/J
    with pytest.raises(mf.MeanFieldError, match="power of l with which J grows is not known"):
        t.depth_law("fisher", at=point, input_norm=1)
    assert "o(l)" in t.depth_law("J", at=point, input_norm=1).regime
