"""Skips inside skips, whose ways have in common what both let through of their input, against one skip of the summed
strength and against networks drawn here; controls: what independent ways would give."""

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield import Dense, LayerNorm, Nonlinearity, Residual, Sequential
from meanfield.base.symbols import K, sigma_w
from meanfield.networks import BatchNorm, Projection, RMSNorm, Scale

BRANCH = Sequential((Nonlinearity("gelu"), Dense()))
AT = {"sigma_w": 1.2, "sigma_b": 0.3}
ONE = [
    (Residual(Residual(BRANCH, 2), 3), Residual(BRANCH, 5)),
    (Residual(Residual(Residual(BRANCH, "1/2")), 2), Residual(BRANCH, "7/2")),
]


def test_a_skip_inside_a_skip_is_one_of_the_summed_strength():
    rows = np.random.default_rng(0).normal(size=(4, 3)) * np.array([1, 1, 0.3, 20])[:, None]
    rows[1] = rows[0] * (1 + 1e-6)
    for nested, plain in ONE:
        one, other = mf.derive(nested), mf.derive(plain)
        for asked, pair in ((("K", "J", "Theta"), {}), (("K_ab", "distance", "J_ab"), {"correlation": 0.3})):
            runs = [t.propagate(**AT, depth=4, quantities=asked, **pair) for t in (one, other)]
            for name in asked:
                np.testing.assert_allclose(*[getattr(run, name) for run in runs], rtol=1e-13)
        kernels = [t.kernel(rows, **AT, depth=3, quantities=("K", "Theta", "distance")) for t in (one, other)]
        for name in ("K", "Theta", "distance"):
            np.testing.assert_allclose(*[getattr(k, name) for k in kernels], rtol=1e-13)
        assert one.depth_law("J", sigma_w=1, sigma_b=0).expr == other.depth_law("J", sigma_w=1, sigma_b=0).expr
    apart = mf.derive(Residual(BRANCH, "sqrt(13)")).propagate(**AT, depth=4)
    assert not np.allclose(apart.K, mf.derive(ONE[0][0]).propagate(**AT, depth=4).K, rtol=0.2), "control: 2² + 3²"


def _dense(x, rng):
    n = len(x)
    return 1.3 * rng.standard_normal((n, n)) @ x / np.sqrt(n) + 0.4 * rng.standard_normal(n)


def _norm(x):
    return (x - x.mean()) / x.std()


NETWORKS = {
    "two branches that pass": (
        Residual(
            Residual(Sequential((Nonlinearity("tanh"), Dense()))),
            1,
            Residual(Sequential((Nonlinearity("sin"), Dense()))),
        ),
        lambda x, rng: _dense(np.tanh(x), rng) + x + _dense(np.sin(x), rng) + x,
    ),
    "normalized before": (
        Residual(Sequential((LayerNorm(), Residual(Sequential((Nonlinearity("tanh"), Dense())))))),
        lambda x, rng: _dense(np.tanh(_norm(x)), rng) + _norm(x) + x,
    ),
    "normalized behind": (
        Residual(Sequential((Residual(Sequential((Nonlinearity("tanh"), Dense()))), LayerNorm()))),
        lambda x, rng: _norm(_dense(np.tanh(x), rng) + x) + x,
    ),
    "scaled, beside an RMSNorm": (
        Residual(Sequential((Residual(Sequential((Nonlinearity("tanh"), Dense()))), Scale("1/2"))), "1/3", RMSNorm()),
        lambda x, rng: (_dense(np.tanh(x), rng) + x) / 2 + x / np.sqrt((x**2).mean()) / 3,
    ),
}


@pytest.mark.parametrize("which", NETWORKS)
def test_networks_confirm_what_ways_have_in_common(which):
    block, layer = NETWORKS[which]
    rng, n, found = np.random.default_rng(5), 800, []
    for _ in range(12):
        x = _dense(np.ones(n) / 1.3 * np.sqrt(1.85 - 0.16), rng)
        for _ in range(2):
            x = layer(x, rng)
        found.append((x**2).mean())
    run = mf.derive(block).propagate(sigma_w=1.3, sigma_b=0.4, depth=3, start={"K": 1.85})
    off = (np.mean(found) - run.K[-1]) / (np.std(found, ddof=1) / np.sqrt(len(found)))
    assert abs(off) < 4
    lost = run.K[-1] * {"two branches that pass": 13.7 / 40, "normalized before": 5.5 / 13.3}.get(which, 0.8)
    assert abs((np.mean(found) - lost) / (np.std(found, ddof=1) / np.sqrt(len(found)))) > 4, "control: what was printed"


@pytest.mark.slow
def test_distances_add_up_behind_nested_skips():
    """Of two inputs of unequal norms the distance is what K_aa + K_bb - 2K_ab says, where the ways have more than one
    thing in common."""
    start = {"K_aa": 4.0, "K_bb": 1.0, "K_ab": 0.6}
    for block, _ in (*NETWORKS.values(), *ONE):
        theory = mf.derive(block)
        alone = theory.propagate(**AT, depth=3, start=start, quantities=("K_aa", "K_bb", "K_ab"))
        try:
            both = theory.propagate(**AT, depth=3, start=start, quantities=("K_ab", "distance"))
        except mf.MeanFieldError as error:
            assert "factors that differ" in str(error) or "LayerNorm" in str(error)
            continue
        np.testing.assert_allclose(both.distance, alone.K_aa + alone.K_bb - 2 * alone.K_ab, rtol=1e-12)
        np.testing.assert_allclose(both.K_ab, alone.K_ab, rtol=1e-12)


def test_fresh_weights_have_nothing_in_common():
    tanh = Sequential((Nonlinearity("tanh"), Dense()))
    ended = mf.derive(Residual(Sequential((Residual(tanh), Dense())), 1)).recursion("K")["K"]
    assert sp.expand(ended).coeff(K) == 1 + sigma_w**2, "a Dense behind the inner skip"
    projected = mf.derive(Residual(Residual(tanh), 1, Projection())).recursion("K")["K"]
    assert projected.coeff(K) == 2, "a Projection draws weights of its own"


def test_what_is_not_derived_is_refused():
    tanh = Sequential((Nonlinearity("tanh"), Dense()))
    batched = Residual(Sequential((Residual(tanh), BatchNorm())), 1)
    with pytest.raises(mf.MeanFieldError, match="normalizes it over a batch"):
        mf.derive(batched).propagate(sigma_w=1, sigma_b=0, depth=2)
    normed = mf.derive(NETWORKS["normalized before"][0])
    with pytest.raises(mf.MeanFieldError, match="J0"):
        normed.propagate(sigma_w=1, sigma_b=0, depth=2, quantities=("J0",), input_dimension=4)


UNEQUAL = {
    "a function of each": Sequential((Residual(Sequential((LayerNorm(), Nonlinearity("gelu"))), "1/2"), Dense())),
    "behind an RMSNorm": Sequential((Residual(Sequential((RMSNorm(), Nonlinearity("tanh")))), Dense())),
    "and another norm": Sequential(
        (
            Residual(Sequential((LayerNorm(), Nonlinearity("gelu"))), "1/2"),
            Dense(),
            LayerNorm(),
            Nonlinearity("tanh"),
            Dense(),
        )
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("which", UNEQUAL)
def test_two_functions_of_two_norms_have_no_common_distance(which):
    """A skip beside a norm without fresh weights is another function of either input: distances were those of one of
    them (2.525 printed as 3.325)."""
    start, theory = {"K_aa": 4.0, "K_bb": 1.0, "K_ab": 0.6}, mf.derive(UNEQUAL[which])
    run = theory.propagate(sigma_w=1, sigma_b=0, depth=2, start=start, quantities=("K_aa", "K_bb", "K_ab"))
    if which == "a function of each":  # by quadrature over two Gaussians, elsewhere
        assert run.K_ab[1] == pytest.approx(0.5376772, abs=1e-6)
    for asked in (("K_ab", "distance"), ("c",)):
        with pytest.raises(mf.MeanFieldError, match="a function of its own"):
            theory.propagate(sigma_w=1, sigma_b=0, depth=2, start=start, quantities=asked)
    equal = {"K": 1.0, "K_ab": 0.6}
    run = theory.propagate(sigma_w=1, sigma_b=0, depth=2, start=equal, quantities=("K", "K_ab", "distance"))
    assert run.distance[1] == pytest.approx(2 * run.K[1] - 2 * run.K_ab[1], rel=1e-12), "of one norm it is derived"
