"""Runs in which K leaves the doubles: what goes on, against the same layers in mpmath, and what is said to be lost."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import meanfield as mf
from meanfield.numeric.run import vanishing

pytestmark = pytest.mark.usefixtures("interpreted")


def erf_layers(sigma_w: float, A, B, c, depth: int):
    """(c, log K_aa) by the arcsine formula; mpmath's exponents have no end."""
    w, A, B = mp.mpf(sigma_w) ** 2, mp.mpf(A), mp.mpf(B)
    AB, out = mp.sqrt(A * B) * c, []
    for _ in range(depth):
        out.append((float(AB / mp.sqrt(A * B)), float(mp.log(A))))
        A, B, AB = (
            w * 2 / mp.pi * mp.asin(2 * ab / mp.sqrt((1 + 2 * a) * (1 + 2 * b)))
            for a, b, ab in ((A, A, A), (B, B, B), (A, B, AB))
        )
    return np.array(out).T


def assert_correlations(found, wanted, rel: float = 1e-11) -> None:
    assert np.abs(found / wanted - 1).max() <= rel, "correlations"


def test_c_and_gamma_of_the_ordered_phase_without_bias():
    """K underflows at layer 153; c was a quotient of subnormals, then NaN, under an error of 6e-13."""
    place = dict(sigma_w=0.1, sigma_b=0, depth=400, correlation=0.5, quantities=("c", "gamma", "log_gamma", "K"))
    run = mf.derive("erf").propagate(**place)
    with mp.workdps(30):
        c, log_K = erf_layers(0.1, 0.01, 0.01, 0.5, 400)
    assert_correlations(run.c, c)
    assert_correlations(run.gamma, c / (1 - c))
    assert_correlations(np.exp(run.log_gamma), c / (1 - c))
    first = 1 + int(np.argmax(log_K < np.log(1e-290)))
    assert int(run.underflows_at) == first and int(run.lost_at) == 0
    assert (run.K[first - 1 :] == 0).all() and run.K[first - 2] > 0
    assert f"below 1e-290 first at layer {first}" in run.message() and "c, gamma, log_gamma go on" in run.message()
    with pytest.raises(AssertionError, match="correlations"):
        assert_correlations(run.c, c * (1 + 1e-9))
    last = mf.derive("erf").propagate(**place, every_layer=False)
    assert abs(last.c[-1] / c[-1] - 1) < 1e-11 and int(last.underflows_at) == first


@pytest.mark.slow
def test_a_state_that_ends_as_nan_below_the_doubles_has_not_diverged():
    """Behind a skip, K_ab of a kinked φ ends as 0/0: it was said to diverge at layer 684."""
    place = dict(sigma_w=0.415, sigma_b=0, depth=4000, input_norm=0.74, correlation=0.5)
    theory = mf.derive("(-1)*Max(z,0) + 0.16*z**3", residual=True, mu="1/2")
    plain, other = theory.propagate(**place), theory.propagate(**place, quantities=("c", "K"))
    assert not plain.diverged_at and not plain.lost_at and plain.underflows_at == other.underflows_at
    assert_correlations(plain.c, other.c, 1e-9)
    with pytest.raises(AssertionError, match="correlations"):
        assert_correlations(plain.c * (1 + 1e-8), other.c, 1e-9)
    last = theory.propagate(**place, every_layer=False)
    assert not last.diverged_at and abs(last.c[-1] / other.c[-1] - 1) < 1e-9
    limit = mf.derive("(-1)*Max(z,0)", residual=True, mu="1/2").propagate(**place)  # 1 - c falls as 1/l² from any start
    assert abs((1 - plain.c[-1]) / (1 - limit.c[-1]) - 1) < 1e-3


@pytest.mark.slow
def test_two_norms_keep_their_angle():
    """Products of two K underflow at 1e-154 already: K_ab became √(K_aa K_bb) there."""
    names = ("K_aa", "K_bb", "K_ab", "distance", "c")
    run = mf.derive("relu").propagate(
        sigma_w=0.05, sigma_b=0, depth=110, quantities=names, start={"K_aa": 2.0, "K_bb": 1.0, "c": 0.25}
    )
    c, log_K = [0.25], np.log(2) + np.arange(110) * np.log(0.05**2 / 2)
    for _ in range(109):
        angle = mp.acos(c[-1])
        c.append((mp.sin(angle) + (mp.pi - angle) * c[-1]) / mp.pi)
    assert_correlations(run.c, np.array(c, dtype=float))
    assert_correlations(np.exp(run.log_distance - log_K), np.array([1.5 - mp.sqrt(2) * x for x in c], dtype=float))
    assert (
        np.abs(np.sin(run.norm_angle) / [(mp.sqrt(2) - 1) / mp.sqrt(3 - 2 * mp.sqrt(2) * x) for x in c] - 1).max()
        < 1e-11
    )
    assert log_K[-1] < np.log(1e-200)
    kept = run.K_aa > 0
    assert_correlations(np.log(run.K_aa[kept]), log_K[kept])
    assert_correlations(run.K_ab[kept], (run.c * np.sqrt(run.K_aa) * np.sqrt(run.K_bb))[kept])


def test_several_points_and_layers_of_their_own():
    """Points that underflow beside one that does not, σ's that change from layer to layer."""
    sigma_w = np.stack([np.linspace(0.1, 0.2, 250), np.full(250, 1.2)])
    run = mf.derive("erf").propagate(sigma_w=sigma_w, sigma_b=0, depth=250, correlation=0.5, layerwise=True,
                                     quantities=("c",))  # fmt: skip
    assert run.underflows_at.shape == (2,) and run.underflows_at[0] > 0 and run.underflows_at[1] == 0
    c = mp.mpf("0.5")
    with mp.workdps(30):
        A = mp.mpf(sigma_w[0, 0]) ** 2
        AB = A * c
        for w in sigma_w[0, 1:]:
            f = [mp.mpf(w) ** 2 * 2 / mp.pi * mp.asin(2 * x / (1 + 2 * A)) for x in (A, AB)]
            A, AB = f
    assert abs(run.c[0, -1] / float(AB / A) - 1) < 1e-11
    assert abs(run.c[0, -1] / run.c[1, -1] - 1) > 1e-3


@pytest.mark.slow
def test_normalized_correlators_go_on():
    """V = 2(l - 1)K² of a linear network, at layers at which K² and K underflow."""
    theory = mf.derive("linear")
    run = theory.propagate(sigma_w=0.5, sigma_b=0, depth=600, quantities=("K", "V"))
    assert int(run.underflows_at) > 0
    assert_correlations(run.normalized("V")[1:], 2.0 * np.arange(1, 600))


def test_a_map_that_is_not_homogeneous_is_lost():
    """φ = z²: K squares itself, and nothing is known of c once it is 0."""
    place = dict(sigma_w=0.5, sigma_b=0, correlation=0.5, quantities=("c", "gamma"))
    run = mf.derive("z**2").propagate(**place, depth=30)
    lost = int(run.lost_at)
    assert lost == int(run.underflows_at) > 3
    assert np.isnan(run.c[lost - 1 :]).all() and np.isfinite(run.c[: lost - 1]).all()
    assert "c, gamma are unknown (NaN)" in run.message().replace(", log_gamma", "")
    last = mf.derive("z**2").propagate(**place, depth=30, every_layer=False)
    assert int(last.lost_at) == lost and np.isnan(last.c).all()


def test_nothing_is_said_where_k_stays():
    run = mf.derive("erf").propagate(sigma_w=1.2, sigma_b=0.1, depth=50, correlation=0.5, quantities=("c",))
    assert run.units is None and int(run.underflows_at) == int(run.lost_at) == 0 and run.message() == ""
    assert vanishing.degree("V") == 2 and vanishing.degree("R") == 2 and vanishing.degree("J1_J") == 0
    assert vanishing.degree("nothing") is None


def relu_layers(sigma_w: float, A, B, c, sigma_b: float = 0.0, depth: int = 2):
    """(c, log K_aa, log distance) by the arccosine formula in mpmath."""
    w, b, A, B = mp.mpf(sigma_w) ** 2, mp.mpf(sigma_b) ** 2, mp.mpf(A), mp.mpf(B)
    AB, out = mp.sqrt(A * B) * c, []
    for _ in range(depth):
        root = mp.sqrt(A * B)
        c = AB / root
        out.append((float(c), float(mp.log(A)), float(mp.log(A + B - 2 * AB))))
        angle = mp.acos(c)
        AB = w * root * (mp.sin(angle) + (mp.pi - angle) * c) / (2 * mp.pi) + b
        A, B = w * A / 2 + b, w * B / 2 + b
    return np.array(out).T


@pytest.mark.parametrize("sigma_b", [0.0, 1.0])
def test_c_goes_on_where_k_overflows(sigma_b):
    """K doubles at every layer and is infinite from layer 996 on; c and γ were NaN from there on, with a bias too."""
    place = dict(sigma_w=2, sigma_b=sigma_b, correlation=0.3, depth=1200, quantities=("c", "gamma", "distance", "J"))
    run = mf.derive("relu").propagate(**place)
    with mp.workdps(40):
        A = 4 + sigma_b**2
        c, log_K, log_distance = relu_layers(2, A, A, (mp.mpf(4) * 0.3 + sigma_b**2) / A, sigma_b, 1200)
    first = 1 + int(np.argmax(log_K > np.log(1e300)))
    assert int(run.diverged_at) == first and int(run.lost_at) == int(run.underflows_at) == 0
    assert np.isinf(run.K[first - 1 :]).all() and np.isfinite(run.K[: first - 1]).all()
    assert run.status == mf.Status.DIVERGES and "c, gamma, log_gamma go on" in run.message()
    assert_correlations(run.c, c)
    assert_correlations(run.gamma, c / (1 - c), 1e-10)
    assert np.abs(run.log_distance - log_distance).max() < 1e-10
    assert np.abs(run.log_J - np.log(2) * np.arange(1200)).max() < 1e-9
    with pytest.raises(AssertionError, match="correlations"):  # planted: c stays as it is where K overflows
        assert_correlations(np.where(np.arange(1, 1201) < first, run.c, run.c[first - 2]), c)
    last = mf.derive("relu").propagate(**place, every_layer=False)
    assert abs(last.c[-1] / c[-1] - 1) < 1e-11 and last.log_J[-1] == run.log_J[-1] and np.isinf(last.K[-1])


@pytest.mark.slow
def test_two_norms_and_correlators_beyond_the_doubles():
    """Two norms of ReLU, and V/K² = 5(l - 1), whose V is beyond the doubles at half of the layers of K."""
    start = {"K_aa": 2.0, "K_bb": 1.0, "c": 0.25}
    run = mf.derive("relu").propagate(
        sigma_w=20, sigma_b=0, depth=160, start=start, quantities=("K_aa", "c", "norm_angle")
    )
    with mp.workdps(40):
        c, log_K, _ = relu_layers(20, 2, 1, mp.mpf(1) / 4, depth=160)
    assert int(run.diverged_at) == 1 + int(np.argmax(log_K > np.log(1e300)))
    assert_correlations(run.c, c)
    assert np.isinf(run.K_aa[-1]) and np.isinf(run.K_bb[-1])
    V = mf.derive("relu").propagate(sigma_w=20, sigma_b=0, depth=160, quantities=("K", "V"))
    assert_correlations(V.normalized("V")[1:], 5.0 * np.arange(1, 160))


def test_overflow_of_a_map_that_is_not_homogeneous_is_lost():
    """φ = z² squares K: nothing is said of c once K is infinite. A run that only comes from a large K is followed."""
    run = mf.derive("z**2").propagate(sigma_w=2, sigma_b=0, correlation=0.5, depth=30, quantities=("c", "gamma"))
    first = int(run.diverged_at)
    assert int(run.lost_at) == first > 3 and int(run.underflows_at) == 0
    assert np.isfinite(run.c[: first - 1]).all() and np.isnan(run.c[first - 1 :]).all()
    assert f"from layer {first} on c, gamma, log_gamma are unknown (NaN)" in run.message()
    start = {"K": 1e150, "c": 0.5}
    run = mf.derive("erf").propagate(sigma_w=0.1, sigma_b=0, depth=300, start=start, quantities=("c",))
    with mp.workdps(250):
        c, _ = erf_layers(0.1, mp.mpf(1e150), mp.mpf(1e150), mp.mpf(1) / 2, 300)
    assert_correlations(run.c, c)
    assert int(run.lost_at) == int(run.diverged_at) == 0 < int(run.underflows_at)


@pytest.mark.slow
def test_a_bias_of_one_layer_is_not_hidden_by_other_units():
    """K is 1e-610 where one layer has σ_b = 1e-60: from there on c = 1, and the units in which K had 1e-60 do not say
    0.99995. What is known before is kept."""
    sigma_b = np.zeros(1200)
    sigma_b[500] = 1e-60
    place = dict(sigma_w=0.3, correlation=0.3, depth=1200, layerwise=True, quantities=("c",))
    run = mf.derive("erf").propagate(sigma_b=sigma_b, **place)
    with mp.workdps(30):
        c, _ = erf_layers(0.3, 0.09, 0.09, mp.mpf("0.3"), 500)
    assert int(run.underflows_at) < int(run.lost_at) == 501
    assert_correlations(run.c[:500], c)
    assert np.isnan(run.c[500:]).all() and run.K[500] == 1e-60**2
    place["depth"] = 503  # K is 1e-122 at the end
    early = mf.derive("erf").propagate(sigma_b=sigma_b[:503], **place)
    assert_correlations(early.c[:500], c)
    assert int(early.lost_at) == 501 and int(early.underflows_at) == int(run.underflows_at)
    place["depth"] = 1200
    assert int(mf.derive("erf").propagate(sigma_b=0 * sigma_b, **place).lost_at) == 0  # control: no bias
