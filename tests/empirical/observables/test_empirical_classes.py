"""Gradients of a cross-entropy by class: the loss by differences, the medians by plain backpropagation, and what
[bias_and_trainability] App. G.1 says of ReLU."""

import math

import numpy as np
import pytest

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical import run_ensemble
from meanfield.empirical.observables import measurement
from meanfield.empirical.observables.classes import (
    CLASS_ROWS,
    class_medians,
    draw_labels,
    favoured_classes,
    loss_gradient,
)
from meanfield.empirical.random.philox import normals
from meanfield.networks.records import Dense, Nonlinearity, Residual, Sequential, mlp

SIZES = {"sigma_w": 1.4, "sigma_b": 0.5, "width": 9, "depth": 4, "networks": 3, "batch": 12, "classes": 3, "seed": 7}
RELU = {"sigma_b": 0.1**0.5, "depth": 100, "classes": 10, "quantities": ("delta2",)}


def _loss(z, labels, classes):
    top = z[:, :classes].max(axis=1)
    return sum(
        math.log(np.exp(row[:classes] - t).sum()) + t - row[label] for row, t, label in zip(z, top, labels)
    )


def assert_gradient(found, z, labels, classes):
    for a, i in np.ndindex(z.shape):
        step = np.zeros(z.shape)
        step[a, i] = 1e-6
        expected = (_loss(z + step, labels, classes) - _loss(z - step, labels, classes)) / 2e-6
        assert abs(found[a, i] - expected) < 1e-8, f"the gradient is {found[a, i]}, not {expected}"


def test_the_gradient_of_the_loss():
    z = np.random.default_rng(0).standard_normal((5, 6))
    labels = np.array([0, 2, 1, 1, 0])
    found = loss_gradient(z, labels, 3)
    assert_gradient(found, z, labels, 3)
    with pytest.raises(AssertionError, match="the gradient is"):
        assert_gradient(1.001 * found, z, labels, 3)
    far = loss_gradient(np.array([[1e4, 0.0, 0.0], [1e4, 0.0, 0.0]]), np.array([0, 1]), 3)
    assert far.tolist() == [[0, 0, 0], [1, -1, 0]]  # exactly: nothing is left of the favoured class


def test_labels_and_classes():
    labels = draw_labels(23, 5, 1, 2)
    assert sorted(np.bincount(labels)) == [4, 4, 5, 5, 5] and (labels != draw_labels(23, 5, 1, 3)).any()
    z = np.eye(3)[[2, 2, 0, 2]]
    assert favoured_classes(z, 3) == (2, 1) and favoured_classes(z[:, :2], 2) == (0, 1)
    found = class_medians(np.array([1.0, 2, 3, 4]), np.array([0, 1, 1, 2]), 1, 2)
    assert found == {"delta2": 2.5, "delta2_favoured": 2.5, "delta2_unfavoured": 4.0}


def _backpropagated(index, width=9, depth=4, batch=12, classes=3, seed=7, sigma_w=1.4, sigma_b=0.5):
    """(88): δ^l = φ′(z^l) Wᵀ δ^{l+1} of one tanh network, drawn from the streams of its numbers."""
    z, weights = [normals(seed, index, 0, 4, batch * width).reshape(batch, width)], []
    for layer in range(1, depth + 1):
        w = sigma_w / math.sqrt(width) * normals(seed, index, layer, 0, width * width).reshape(width, width)
        y = z[-1] if layer == 1 else np.tanh(z[-1])
        z.append(y @ w.T + sigma_b * normals(seed, index, layer, 1, width))
        weights.append(w)
    labels = draw_labels(batch, classes, seed, index)
    p = np.exp(z[-1][:, :classes])
    p /= p.sum(axis=1, keepdims=True)
    delta = np.zeros((batch, width))
    delta[:, :classes] = p - np.eye(classes)[labels]
    counts = [np.sum(np.argmax(p, axis=1) == c) for c in range(classes)]
    groups = [np.full(batch, True), labels == np.argmax(counts), labels == np.argmin(counts)]
    found = []
    for layer in range(depth, 0, -1):
        squares = (delta**2).mean(axis=1)
        found.append([np.median(squares[group]) for group in groups])
        delta = (delta @ weights[layer - 1]) * (1 - np.tanh(z[layer - 1]) ** 2)
    return np.array(found[::-1]).T


def assert_rows(run):
    for index in range(3):
        for name, expected in zip(CLASS_ROWS, _backpropagated(index)):
            np.testing.assert_allclose(run.samples[name][index], expected, rtol=1e-10)


def test_against_plain_backpropagation(monkeypatch):
    run = run_ensemble(mlp("tanh"), quantities=("delta2",), **SIZES)
    assert_rows(run)
    assert set(CLASS_ROWS) <= set(run.quantities) and run.estimate("delta2_favoured", l=1).mean > 0
    both = run_ensemble(mlp("tanh"), quantities=("G_w", "delta2_unfavoured"), **SIZES)
    alone = run_ensemble(mlp("tanh"), quantities=("G_w",), **SIZES)
    assert_rows(both)
    for name in ("G_z", "G_w", "G_b"):
        np.testing.assert_allclose(both.samples[name], alone.samples[name], rtol=1e-12)
    monkeypatch.setattr(measurement, "draw_labels", lambda *a: np.roll(draw_labels(*a), 1))
    with pytest.raises(AssertionError, match="Not equal to tolerance rtol=1e-10"):
        assert_rows(run_ensemble(mlp("tanh"), quantities=("delta2",), **SIZES))


def assert_favoured_has_no_gradient(run, least=1e6):
    """Chaotic: the favoured class has none at all, the others an exploding one at layer 1."""
    assert (run.samples["delta2_favoured"] == 0).all(), "the favoured class has a gradient"
    least_of = [run.samples[name][:, 0].min() for name in ("delta2_unfavoured", "delta2")]
    assert min(least_of) >= least, f"the gradients do not explode: {least_of}"


def assert_all_vanish(run, most=1e-14):
    for name in CLASS_ROWS:
        assert (run.samples[name][:, 0] <= most).all() and (run.samples[name] > 0).all()


def test_the_favoured_class_of_relu():
    sizes = RELU | {"width": 64, "networks": 2, "batch": 50}
    chaotic, ordered = (run_ensemble(mlp("relu"), sigma_w=w2**0.5, **sizes) for w2 in (3, 1.5))
    assert_favoured_has_no_gradient(chaotic)
    assert_all_vanish(ordered)
    with pytest.raises(AssertionError, match=r"the gradients? do not explode|the favoured class has"):
        assert_favoured_has_no_gradient(ordered)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["explicit", "lazy"])
def test_the_size_of_the_paper(sampler):
    sizes = RELU | {"width": 512, "networks": 2, "batch": 100, "seed": 1, "sampler": sampler}
    assert_favoured_has_no_gradient(run_ensemble(mlp("relu"), sigma_w=2.5**0.5, **sizes))
    assert_all_vanish(run_ensemble(mlp("relu"), sigma_w=1.5**0.5, **sizes))


@pytest.mark.slow
def test_gradients_of_a_residual_network():
    """x → φ(x + (W x + b)/√L), L = 100, σ_w² = 2: of ReLU flat within a factor 1.5, of tanh a decay to about 0.01 (Fig.
    26); the same of random cotangents."""
    branch, profiles = Dense(sigma_w="sqrt(2)/10", sigma_b="sqrt(1/10)/10"), {}
    sizes = {"width": 256, "networks": 4, "batch": 40, "seed": 0}
    for phi in ("relu", "tanh"):
        block = Sequential((Residual(branch, 1), Nonlinearity(phi)))
        run = run_ensemble(block, sigma_w=2**0.5, probes=2, **RELU | sizes | {"quantities": ("delta2", "G_z")})
        profiles[phi] = [run.samples[name].mean(axis=0) for name in ("delta2", "G_z")]
    for flat, decayed in zip(*profiles.values()):
        assert flat.max() / flat.min() < 1.5
        assert 0.004 < decayed[0] / decayed[-1] < 0.03


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"batch": 2}, "delta2 of 3 classes needs an input of every class, but there are 2"),
        ({"classes": 10}, "classes must be from 2 to 9, the width of the last layer, but 10 was given"),
        ({"tokens": 2}, "one label for each input"),
        ({"device": "cuda"}, "delta2 is not available"),
    ],
)
def test_refusals(more, message):
    with pytest.raises(MeanFieldError, match=message):
        run_ensemble(mlp("tanh"), quantities=("delta2",), **SIZES | more)
    with pytest.raises(MeanFieldError, match="jumps"):
        run_ensemble(mlp("step"), quantities=("delta2",), **SIZES)
    lost = run_ensemble(mlp("relu2"), quantities=("delta2",), **SIZES | {"sigma_w": 1e80, "depth": 4})
    with pytest.raises(MeanFieldError, match="delta2"):
        lost.estimate("delta2", l=1)
