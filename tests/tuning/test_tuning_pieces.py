"""Gains of small theories in closed form, zeros that the sweep looks for, and places a search starts from."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

import meanfield as mf
from meanfield.networks.architectures import resnet
from meanfield.networks.records import BatchNorm, Dense, LayerNorm, Nonlinearity, Projection, Residual, Sequential
from meanfield.numeric.phases.float_roots import sides
from meanfield.tuning.network_gains import sweep
from meanfield.tuning.recommendation import choices
from meanfield.tuning.recommendation.recommend import has_batch_norm

BRANCH = Sequential((Nonlinearity("relu"), Dense()))


def test_the_sweep_of_relu_theories():
    """J = σ_w²/2 (+ ¼ beside a skip of ½) is 1 at √2 and √1.5; the message has the largest |log J| that is left."""
    plain = mf.tune("relu", depth=4, sigma_w=2.5)
    assert plain.status == "tuned" and plain.converged and plain.caveats == ()
    assert plain.sigma[1:, 0, 0] == pytest.approx(np.full(3, math.sqrt(2)), rel=1e-12) and plain.sigma[0, 0, 0] == 2.5
    assert plain.before == pytest.approx(np.full(3, math.log(3.125)), rel=1e-12)
    assert plain.log_J[0] == pytest.approx(3 * math.log(3.125)) and plain.log_J[1] == pytest.approx(0, abs=1e-12)
    skip = mf.tune(resnet("relu", mu="1/2"), depth=4, sigma_w=0.5)
    assert skip.status == "tuned" and skip.sigma[1:, 0, 0] == pytest.approx(np.full(3, math.sqrt(1.5)), rel=1e-8)
    for found in (plain, skip, mf.tune(resnet("tanh", mu="1/2"), depth=5)):  # of the last no two blocks are alike
        assert found.message.split()[0] == "every" and f"<= {np.abs(found.after).max():.2g}" in found.message


def test_branches_within_a_budget():
    """(1 + s²/2)^(L − 1) = e^budget; the descent of the same loss says that it has no minimum, the sweep does not."""
    for budget in (1.0, 0.25):
        within = mf.tune(resnet("relu"), depth=5, budget=budget)
        assert within.status == "within budget" and within.converged and within.caveats == ()
        assert within.scale == pytest.approx(math.sqrt(2 * math.expm1(budget / 4)), rel=1e-6)
        assert within.log_J[1] == pytest.approx(budget, rel=1e-6) and within.gains[0, 0, 0] == 1.0
    loose = mf.tune(resnet("relu"), depth=3, budget=9.0)
    assert loose.scale == 1.0 and loose.log_J[1] == pytest.approx(2 * math.log(1.5), rel=1e-9)
    falls = mf.tune(resnet("relu"), depth=3, method="gradient", steps=1)
    assert "the loss falls until they are empty" in falls.caveats[0] and falls.scale is None
    assert mf.tune("relu", depth=3, method="gradient", steps=1).caveats == ()


@pytest.mark.parametrize(
    ("f", "ends", "root"),
    [
        (lambda x: x**8 - 2, (0.1, 20.0), 2**0.125), (lambda x: 2 - x**8, (20.0, 0.1), 2**0.125),
        (lambda x: -0.25 if x <= 7 else math.inf, (1.0, 100.0), 7.0),
        (lambda x: x - 7.5 if x <= 7 else math.nan, (1.0, 9.0), 7.0),
        (lambda x: -math.inf if x <= 7 else math.inf, (1.0, 100.0), 7.0),
        (lambda x: math.log2(x / 4), (1.0, 16.0), 4.0),  # 0 at the first place that is tried: it is inside
        (lambda x: max(x - 3.0, 0.0), (1.0, 9.0), 3.0),  # 0 up to the change
    ],
)  # fmt: skip
def test_both_sides_of_a_change_of_sign(f, ends, root):
    """The inside is within, the other is not, and the change is between the two; few places are asked."""
    asked = []

    def counted(x):
        asked.append(x)
        return f(x)

    inside, outside = sides(counted, *ends)
    assert f(inside) <= 0 and not f(outside) <= 0 and len(asked) < 70
    assert inside == pytest.approx(root, rel=2e-12) and outside == pytest.approx(root, rel=2e-12)
    assert min(inside, outside) <= root <= max(inside, outside)


@pytest.mark.parametrize("root", [1.0, 3.0, 1 / 3, 0.5, 2.0, 900.0, 1.0001])
@pytest.mark.parametrize("sign", [1, -1])
def test_zeros_of_one_gain(root, sign):
    found = sweep.zero(lambda x: sign * (math.log(x) - math.log(root)))
    assert found == pytest.approx(root, rel=1e-7)


def test_where_there_is_no_zero():
    """One sign everywhere; a pole is no change of sign, and of two zeros that above 1 is taken."""
    assert sweep.zero(lambda x: 1 + x * x) is None and sweep.zero(lambda x: -1 / (1 + x)) is None
    assert sweep.zero(lambda x: 1.0 if x < 3 else -math.inf) is None
    assert sweep.zero(lambda x: (x - 4) * (x - 1 / 4)) == pytest.approx(4, rel=1e-7)


@pytest.mark.parametrize(
    ("block", "yes"),
    [
        (Residual(BRANCH, 1), True), (Residual(BRANCH, "1.5"), True), (Residual(BRANCH, "0.99"), False),
        (BRANCH, False), (Residual(BRANCH, "mu"), False), (Residual(BRANCH, 1, Projection()), True),
        (Residual(BRANCH, 1, Dense()), False),
        (Sequential((Residual(BRANCH, 1), Residual(BRANCH, 2))), True),
        (Sequential((Residual(BRANCH, 1), Residual(BRANCH, "0.5"))), False),
        (Sequential((Residual(BRANCH, 1), Nonlinearity("relu"))), False),
        (Residual(Sequential((Nonlinearity("relu"), Dense(), LayerNorm())), 1), False),
    ],
)  # fmt: skip
def test_which_blocks_grow_at_every_scale(block, yes):
    """Skips of strength 1 or more beside branches that end in weights, in every part of the block."""
    assert choices.grows(block) == yes


def test_where_there_is_a_batch_norm():
    norm = Sequential((BatchNorm(), *BRANCH.blocks))
    assert has_batch_norm(BatchNorm()) and has_batch_norm(norm) and has_batch_norm(Residual(norm, 1))
    assert has_batch_norm(Residual(BRANCH, 1, norm)) and not has_batch_norm(Residual(BRANCH, 1, Dense()))
    assert not has_batch_norm(BRANCH) and not has_batch_norm(Residual(BRANCH, 1))


def test_starts_within_two_deviations():
    """K¹ of a mean of n squares varies by √(2/n) of itself: 1, and 1 ∓ 2√(2/n), never below 0.1."""
    assert choices.spread_of_K(800).tolist() == pytest.approx([1, 0.9, 1.1])
    assert choices.spread_of_K(2).tolist() == pytest.approx([1, 0.1, 1.9])
    p = SimpleNamespace(last=lambda w, b, K, depth, scale=None: (np.log(K) * depth, K))
    one = choices.judged(p, (1.0, 0.0, 1.0), 3, 800, kind="search", anchor=None)
    assert (one.log_J, one.scale) == (0.0, None) and one.worst == pytest.approx(-3 * math.log(0.9))


def test_the_start_of_a_search():
    """K¹ = 1, or where layers settle, while that is a number of an ordinary size."""

    def last(w, b, K, depth, scale=None):
        return None, np.array([0.5, choices.SMALLEST, choices.LARGEST, math.inf, 2e-6, 9e5])

    p, w = SimpleNamespace(last=last), np.ones(6)
    assert choices._start(p, 0.0, False, w).tolist() == [1.0] * 6
    assert choices._start(p, 0.0, True, w).tolist() == [0.5, 1.0, 1.0, 1.0, 2e-6, 9e5]


def test_the_largest_scale_of_branches():
    """log J = 4 s² stays within the budget up to s = ½ √budget; 1 where it does at 1, None where at no scale."""
    p = SimpleNamespace(last=lambda w, b, K, depth, s=None: (4 * s * s * np.ones_like(np.asarray(K)), K))
    for budget, scale in ((1.0, 0.5), (0.01, 0.05), (4.5, 1.0)):
        found = choices.largest_scale(p, 5, 100, budget)
        assert found.scale == pytest.approx(scale, rel=1e-6) and found.kind == "budget" and found.K1 == 1.0
    assert choices.largest_scale(p, 5, 100, 1e-9).scale == pytest.approx(0.5e-4 * 10**-0.5, rel=1e-6)
    assert choices.largest_scale(p, 5, 100, 1e-15) is None
