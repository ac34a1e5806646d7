"""φ that is 0 around 0 under schedules: ⟨φ²⟩_q falls as e^(-1/2q), and what starts small brings nothing back."""

from __future__ import annotations

import math

import pytest

import meanfield as mf

THRESHOLD = "Max(z-1,0)-Max(-z-1,0)"
BARE = dict(sigma_v=1, sigma_w=1, sigma_a=0, sigma_b=0)


def square(q):
    """⟨φ²⟩_q of the soft threshold."""
    return (q + 1) * math.erfc(1 / math.sqrt(2 * q)) - math.sqrt(2 * q / math.pi) * math.exp(-1 / (2 * q)) if q else 0.0


def followed(beta_v, beta_w, K, depth=20_000):
    """K at the middle and at the end, block by block."""
    found = []
    for l in range(1, depth + 1):
        K += l**-beta_v * square(l**-beta_w * K)
        if l in (depth // 2, depth):
            found.append(K)
    return found


def theory(phi=THRESHOLD, v="1/2", w="1/2", **more):
    return mf.derive(phi, architecture="full_residual", beta_v=v, beta_w=w, beta_a=2, beta_b=2, **more)


@pytest.mark.parametrize("power, small, large", [(0.5, 1.0, 100.0), (0.25, 0.05, 10.0)])
def test_the_start_decides(power, small, large):
    """From a small K nothing moves, from a large one all does: two laws, each with its starts."""
    v = w = str(power)
    for quantity in ("K", "J", "distance"):
        with pytest.raises(mf.MeanFieldError, match=rf"The start decides between 2 laws of {quantity}"):
            theory(v=v, w=w).depth_law(quantity, **BARE)
    still, moved = followed(power, power, small), followed(power, power, large)
    assert still[1] / still[0] - 1 < 1e-6 and moved[1] / moved[0] > 1.5


def test_where_feedback_is_too_weak_every_start_stays():
    """(z - 1)₊ at S/2 < β_w, and anything at V > 1 where q falls."""
    for one in (theory("Max(z-1,0)"), theory("Max(Min(z-1,1),0)"), theory(v="1/2", w="1")):
        for quantity in ("K", "J"):
            law = one.depth_law(quantity, **BARE)
            assert (law.text(), law.basin) == ("C", "every start")
    for K in (0.5, 4.0):
        half, whole = followed(0.5, 1.0, K)
        assert whole / half - 1 < 1e-6


@pytest.mark.parametrize("totals", [("0", "2"), ("1/2", "1/2"), ("0", "1/2")])
def test_no_law_in_the_depth_where_q_falls_with_it(totals):
    one = mf.derive(THRESHOLD, architecture="full_residual", total_v=totals[0], total_w=totals[1])
    with pytest.raises(mf.MeanFieldError, match="is 0 around 0, so that a q that falls with L brings nothing back"):
        one.depth_law("K", sigma_v=1, sigma_w="3/2", sigma_a=0, sigma_b=0)
    kept = mf.derive(THRESHOLD, architecture="full_residual", total_v="1", total_w="0")
    assert kept.depth_law("K", sigma_v=1, sigma_w="3/2", sigma_a=0, sigma_b=0).text() == "k(t)"


def test_no_law_behind_a_norm_where_the_variance_falls():
    parts = [mf.Dense(sigma_w=mf.Schedule(f"sigma_{s}", "1/2"), sigma_b=0) for s in "wv"]
    block = mf.Residual(mf.Sequential((mf.LayerNorm(affine=False), parts[0], mf.Nonlinearity(THRESHOLD), parts[1])))
    for quantity in ("K", "J"):
        with pytest.raises(mf.MeanFieldError, match="no law of it is derived behind a LayerNorm"):
            mf.derive(architecture=block).depth_law(quantity, sigma_v=1, sigma_w=1)
