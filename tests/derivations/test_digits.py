"""The page of digits: what depth does to a Gaussian process of a network, and what its likelihood chooses."""

from __future__ import annotations

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from derivations.digits import figures, tables
from derivations.digits.process import SIGMA_B2, data, length, place, process, theory
from tests.kernels.test_kernels import erf_pair


@pytest.mark.slow
@pytest.mark.parametrize("square", tables.SQUARES)
def test_accuracy_falls_within_25_correlation_lengths(square):
    near, far = tables.by_depth(square, (3, 25))
    assert near >= 0.9 and far <= 0.5
    given = data()
    wrong = replace(given, labels=np.random.default_rng(0).permutation(given.labels))
    assert process(square, SIGMA_B2, tables.layers(square, 3), given=wrong).accuracy < 0.5


@pytest.mark.slow
def test_what_is_left_of_a_correlation_falls_by_e():
    """ξ_c against two images followed by the textbook's arcsine with 60 digits."""
    mp.mp.dps = 70
    X, square = data().X, 0.8
    lost = []
    for l in (60, 100):
        A, B, AB, _ = erf_pair(X[0], X[1], l, square**0.5, SIGMA_B2**0.5)
        lost.append(float(1 - AB / (A * B) ** 0.5))
    assert np.log(lost[0] / lost[1]) / 40 == pytest.approx(1 / length(square), rel=1e-6)
    assert np.log(lost[0] / lost[1]) / 40 != pytest.approx(1 / length(0.81), rel=1e-3)


@pytest.mark.slow
def test_evidence_is_a_density():
    """The scale is where the density of the labels is largest, and the evidence its logarithm there."""
    given = data(60, 20)
    one = process(1.6, SIGMA_B2, 3, given=given)

    def density(scale):
        cov = scale * (one.M + one.noise * np.mean(np.diag(one.M)) * np.eye(60))
        return sum(multivariate_normal.logpdf(y, cov=cov) for y in given.targets.T) / given.targets.size

    assert density(one.scale) == pytest.approx(one.evidence, rel=1e-9)
    assert density(1.1 * one.scale) < one.evidence > density(0.9 * one.scale)


@pytest.mark.slow
def test_posterior_samples_have_the_posterior_mean():
    given = data()
    path = figures.between(0, 1, 7)
    one = process(1.6, SIGMA_B2, 3, given=replace(given, others=path))
    joint = theory().kernel(path, **place(1.6, SIGMA_B2, 3), quantities="K").K
    drawn = one.samples(4000, 1, joint)
    z = (drawn.mean(axis=0) - one.mean) / (drawn.std(axis=0) / 4000**0.5)
    assert np.abs(z).max() < 4.5
    assert np.abs((drawn.mean(axis=0) - 1.1 * one.mean) / (drawn.std(axis=0) / 4000**0.5)).max() > 4.5


@pytest.mark.slow
def test_the_regressor_and_the_grid_choose_alike():
    """scikit-learn climbs at least as high as the grid at that depth, and both are right about most images."""
    found = tables.fit(2)
    best = max(tables.evidences(depths=(2,)))
    assert found.log_marginal_likelihood_value_ / data().targets.size >= best[0] - 1e-3
    assert np.mean(found.predict(data().others).argmax(axis=1) == data().truth) > 0.93 < best[1]


@pytest.mark.slow
def test_the_figure():
    panels = figures.figure(4).axes
    assert len(panels) == 5  # four panels and a scale of colours
    assert [panel.get_title() for panel in panels[:4]] == [
        "NNGP", "NNGP, dashed NTK", "marginal likelihood", "posterior samples",
    ]  # fmt: skip
    curves = [line.get_ydata() for line in panels[1].get_lines()]
    assert all(curve[0] > 0.9 for curve in curves[:8]) and all(curve[-1] < 0.2 for curve in curves[:8])
