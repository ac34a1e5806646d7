"""Blocks whose J is 0 or ∞, neurons that are constant over a batch, and averages at K = 0: one sentence or the right
answer each."""

from __future__ import annotations

import numpy as np
import pytest

import meanfield as mf
from meanfield import BatchNorm, Dense, Gate, Nonlinearity, Residual, Scale, Sequential

D, RELU = Dense(), Nonlinearity("relu")
PLACE, NO_WEIGHTS = {"sigma_w": 1.2, "sigma_b": 0.3}, {"sigma_w": 0, "sigma_b": 0.3}
NORMED = Sequential((BatchNorm(), RELU, D))


@pytest.mark.slow_with("block0-place0-None", "block0-place0-8", "block1-place1-None", "block1-place1-8")
@pytest.mark.parametrize("batch", [None, 8])
@pytest.mark.parametrize(
    ("block", "place"),
    [
        (NORMED, NO_WEIGHTS),
        (Residual(NORMED, 1), NO_WEIGHTS),
        (Sequential((Dense(sigma_w=0), BatchNorm(), RELU, D)), PLACE),
        (Sequential((Scale(0), BatchNorm(), RELU, D)), PLACE),
    ],
)
def test_a_neuron_that_is_constant_over_the_batch_is_named(block, place, batch):
    theory = mf.derive(architecture=block, batch=batch)
    for asked in (("K", "J"), ("K", "K_ab")):
        with pytest.raises(mf.MeanFieldError, match="constant over the batch"):
            theory.propagate(**place, depth=4, quantities=asked)
    with pytest.raises(mf.MeanFieldError, match="constant over the batch"):
        theory.phase(**place)
    with pytest.raises(mf.MeanFieldError, match="constant over the batch"):
        mf.check(theory, **place, depth=3, width=16, networks=4, batch=8)
    with pytest.raises(mf.MeanFieldError, match="normalized equal numbers"):
        mf.measure_criticality(block, **place, depth=4, width=16, networks=2, batch=8)
    run = mf.measure(block, **place, depth=4, width=16, networks=2, batch=8, quantities=("K", "chi"))
    assert "layers end at 1" in repr(run)


@pytest.mark.slow
def test_points_of_a_grid_are_counted_and_other_points_are_answered():
    theory = mf.derive(architecture=NORMED)
    with pytest.raises(mf.MeanFieldError, match="at 1 of 3 points"):
        theory.propagate(sigma_w=[0, 1, 2], sigma_b=0.3, depth=4)
    weights = [1.2, 1.2, 0.0]  # behind the last layer nothing is normalized
    run = theory.propagate(sigma_w=weights, sigma_b=0.3, depth=3, layerwise=True, quantities=("K", "K_ab", "J"))
    assert run.K[-1] == run.K_ab[-1] == pytest.approx(0.09) and run.J[-1] == 0
    with pytest.raises(mf.MeanFieldError, match="constant over the batch"):
        theory.propagate(sigma_w=[1.2, 0.0, 1.2], sigma_b=0.3, depth=3, layerwise=True)


@pytest.mark.slow
def test_what_float64_cannot_average_behind_an_activation_says_what_to_do():
    theory = mf.derive(architecture=Sequential((RELU, BatchNorm(), D)))
    with pytest.raises(mf.MeanFieldError, match=r"BatchNorm behind this activation.*measure the network"):
        theory.propagate(**PLACE, depth=4, quantities=("K", "J"))
    run = theory.propagate(**PLACE, depth=4, quantities=("K", "K_ab"))
    assert run.K[1:] == pytest.approx(1.53) and run.K_ab[1:] == pytest.approx(0.09)


def test_a_gate_that_is_held_at_one_value():
    """sigmoid(0) = ½: K′ = σ_w²(σ_w²K + σ_b²)/4 + σ_b², χ_J = σ_w⁴/4; and a gate that jumps there is refused."""
    held = Dense(sigma_w=0, sigma_b=0)
    block = Sequential((Gate("sigmoid", D, held), D))
    phase = mf.derive(architecture=block).phase(sigma_w="1.2", sigma_b="0.3")
    w, b = 1.44, 0.09
    assert float(phase.chi_J.value) == pytest.approx(w * w / 4)
    assert float(phase.fixed_point.K.value) == pytest.approx((w * b / 4 + b) / (1 - w * w / 4))
    run = mf.derive(architecture=block).propagate(**PLACE, depth=4, quantities=("K", "J"))
    np.testing.assert_allclose(run.J, (w * w / 4) ** np.arange(4), rtol=1e-12)


@pytest.mark.slow
def test_a_block_that_carries_nothing_on():
    """J = 0 in theory and in networks; the sampled theory, which divides by it, says so."""
    closed = Dense(sigma_w=0, sigma_b=0)
    for block in (
        Sequential((Gate("silu", D, closed), D)),
        Sequential((Dense(axis="tokens", sigma_w=0, sigma_b=0), RELU, D)),
    ):
        theory = mf.derive(architecture=block)
        assert list(theory.propagate(**PLACE, depth=3, quantities=("K", "J")).J) == [1, 0, 0]
        with pytest.raises(mf.MeanFieldError, match="J of the block that makes layer 2 is 0"):
            theory.sample(**PLACE, depth=3, tokens=4, draws=2)
        tokens = {"tokens": 4} if theory.kind else {}
        assert mf.measure_criticality(block, **PLACE, depth=3, width=8, networks=2, **tokens).chi.mean == 0


@pytest.mark.parametrize("record", [BatchNorm(), Residual(Sequential((Dense(axis="tokens"),)), 1)])
def test_an_infinite_J_is_named(record):
    block = Sequential((record, Nonlinearity("step"), D))
    theory = mf.derive(architecture=block)
    with pytest.raises(mf.MeanFieldError, match="J is not available: it is infinite"):
        theory.propagate(**PLACE, depth=3, quantities=("K", "J"))
    size = {"tokens": 4} if theory.kind == "tokens" else {"batch": 8}
    for verb in (mf.measure, mf.measure_criticality):
        more = {"quantities": ("chi",)} if verb is mf.measure else {}
        with pytest.raises(mf.MeanFieldError, match="activation that jumps"):
            verb(block, **PLACE, depth=3, width=8, networks=2, **size, **more)
