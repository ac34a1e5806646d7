"""Θ of kernels by learning rates λ_w, λ_b: sums over layers written out with closed forms, and finite networks."""

from __future__ import annotations

import numpy as np
import pytest

import meanfield as mf

RNG = np.random.default_rng(37)
X = RNG.standard_normal((9, 5))
DEPTH = 4
W, B = [1.3, 1.1, 1.6, 0.9], [0.2, 0.3, 0.1, 0.4]
LW, LB = [0.7, 1.9, 0.3, 2.2], [0.5, 0.0, 1.5, 0.0]


def relu_averages(K):
    """⟨φφ⟩ and ⟨φ′φ′⟩ of ReLU, by the arc cosine."""
    size = np.sqrt(np.outer(np.diag(K), np.diag(K)))
    c = np.clip(K / size, -1, 1)
    return size * (np.sqrt(1 - c**2) + (np.pi - np.arccos(c)) * c) / (2 * np.pi), (np.pi - np.arccos(c)) / (2 * np.pi)


def erf_averages(K):
    own = 1 + 2 * np.diag(K)
    inner = np.sqrt(np.outer(own, own))
    return 2 / np.pi * np.arcsin(2 * K / inner), 4 / np.pi / np.sqrt(inner**2 - 4 * K**2)


def summed(averages, X, w, b, lw, lb, skip=0.0):
    """Θ layer by layer in NumPy, rates of their own at every layer."""
    gram = X @ X.T / X.shape[1]
    K, theta = w[0] ** 2 * gram + b[0] ** 2, lw[0] * gram + lb[0]
    for w_, b_, lw_, lb_ in zip(w[1:], b[1:], lw[1:], lb[1:]):
        values, slopes = averages(K)
        theta = (w_**2 * slopes + skip**2) * theta + lw_ * values + lb_
        K = w_**2 * values + b_**2 + skip**2 * K
    return theta


def assert_close(found, wanted, within=1e-12) -> None:
    off = np.abs(found - wanted).max() / np.abs(wanted).max()
    assert off < within, f"Theta is off by {off:.2g}"


@pytest.mark.slow
@pytest.mark.parametrize("name, averages", [("relu", relu_averages), ("erf", erf_averages)])
@pytest.mark.parametrize("skip", [0, 0.6])
def test_rates_of_every_layer(name, averages, skip):
    theory = mf.derive(name, mu=skip) if skip else mf.derive(name)
    at = dict(sigma_w=W, sigma_b=B, depth=DEPTH, layerwise=True)
    found = theory.kernel(X, **at, lambda_w=LW, lambda_b=LB)
    wanted = summed(averages, X, W, B, LW, LB, skip)
    # the diagonal of relu: the arc cosine at 1 loses half of its digits
    assert_close(found.Theta, wanted, 1e-7 if name == "relu" else 1e-12)
    off = ~np.eye(len(X), dtype=bool)
    assert_close(found.Theta[off], wanted[off])
    with pytest.raises(AssertionError, match="Theta is off"):
        assert_close(theory.kernel(X, **at, lambda_w=LW).Theta, wanted, 1e-7)
    with pytest.raises(AssertionError, match="Theta is off"):
        assert_close(theory.kernel(X, **at, lambda_w=LW[::-1], lambda_b=LB).Theta, wanted, 1e-7)


@pytest.mark.slow
def test_rates_that_are_the_variances_change_nothing():
    for theory in (mf.derive("gelu"), mf.derive("tanh", norm="pre", mu=0.5), mf.derive("silu", architecture="swiglu")):
        plain = theory.kernel(X, sigma_w=1.3, sigma_b=0.2, depth=DEPTH)
        same = theory.kernel(X, sigma_w=1.3, sigma_b=0.2, depth=DEPTH, lambda_w=1.3**2, lambda_b=0.2**2)
        assert_close(same.Theta, plain.Theta, 1e-13)
        assert np.abs(same.K - plain.K).max() < 1e-14 and np.abs(same.distance - plain.distance).max() < 1e-14
        other = theory.kernel(X, sigma_w=1.3, sigma_b=0.2, depth=DEPTH, lambda_w=1.0, lambda_b=0)
        assert (other.Theta < plain.Theta).any()
        K = theory.kernel_operator(X, quantity="Theta", sigma_w=1.3, sigma_b=0.2, depth=DEPTH, lambda_w=1, lambda_b=0)
        assert_close(K @ np.eye(len(X)), other.Theta, 1e-13)


def test_close_and_opposite_inputs_follow_their_rates():
    """Pairs one by one: equal, close, collinear and opposite rows, against the sum at 1 - c as NumPy knows it."""
    rows = np.concatenate((X[:2], X[:1] * (1 + 1e-9), X[:1] * 2, -X[:1], X[:1]))
    at = dict(sigma_w=1.3, sigma_b=0.2, depth=DEPTH)
    found = mf.derive("erf").kernel(rows, **at, lambda_w=0.8, lambda_b=0.3).Theta
    four = [1.0] * 4
    wanted = summed(erf_averages, rows, np.multiply(1.3, four), np.multiply(0.2, four), np.multiply(0.8, four),
                    np.multiply(0.3, four))  # fmt: skip
    assert_close(found, wanted, 1e-10)
    assert found[0, 5] == found[0, 0]
    first = mf.derive("erf").kernel(rows, sigma_w=1.3, sigma_b=0.2, depth=1, lambda_w=0.8, lambda_b=0.3).Theta
    assert_close(first, 0.8 * rows @ rows.T / 5 + 0.3)


@pytest.mark.slow
def test_networks_have_the_same_theta():
    """Ensembles measure Θ with rates of their own."""
    x = X[:1]
    theory = mf.derive("tanh")
    found = theory.kernel(x, sigma_w=1.3, sigma_b=0.2, depth=3, lambda_w=0.8, lambda_b=0.3).Theta[0, 0]
    norm = float((x**2).sum() / 5)
    seen = mf.measure("tanh", sigma_w=1.3, sigma_b=0.2, depth=3, width=400, networks=400, input_norm=norm,
                      quantities=("Theta",), lambda_w=0.8, lambda_b=0.3, seed=1).estimate("Theta")  # fmt: skip
    z = (seen.mean[-1] - found) / np.hypot(seen.standard_error[-1], found * 2 / 400)
    assert abs(z) < 4
    other = theory.kernel(x, sigma_w=1.3, sigma_b=0.2, depth=3, lambda_w=0.8, lambda_b=0.35).Theta[0, 0]
    assert abs(seen.mean[-1] - other) / np.hypot(seen.standard_error[-1], found * 2 / 400) > 4


def test_weights_that_start_at_zero_are_trained_by_the_inputs():
    """σ_w = 0 at layer 1: K there is σ_b² for all, and Theta is λ_w x·y/N_0 + λ_b."""
    w, b, lw, lb = [0.0, 1.2, 0.9], [1.0, 0.1, 0.2], [0.7, 1.9, 0.3], [0.5, 0.0, 1.5]
    found = mf.derive("erf").kernel(X, sigma_w=w, sigma_b=b, depth=3, lambda_w=lw, lambda_b=lb, layerwise=True).Theta
    assert_close(found, summed(erf_averages, X, w, b, lw, lb))
    with pytest.raises(AssertionError, match="Theta is off"):
        assert_close(found, summed(erf_averages, X, w, b, [0.7 + 1e-9, *lw[1:]], lb))


@pytest.mark.parametrize("sigma_b", [1e3, 1e5])
def test_a_large_bias_leaves_products_of_inputs_their_digits(sigma_b):
    """K is σ_b² to six digits or more; the distance and, with λ_b = 0, Theta are those of the inputs alone."""
    rows = np.concatenate((X, -X[:2], X[:1] + 1e-5))
    own = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    for shown in (own, own * (1 + 1e-10)):
        found = mf.derive("erf").kernel(rows, sigma_w=1.3, sigma_b=sigma_b, depth=1, quantities=("distance",))
        off = np.abs(found.distance / np.where(own > 0, 1.3**2 * shown / 5, 1.0) - (own > 0)).max()
        assert (off < found.error["distance"]) == (shown is own)
    at = dict(sigma_w=1.3, sigma_b=sigma_b, lambda_w=0.8, lambda_b=0.0)
    found = mf.derive("erf").kernel(rows, depth=1, **at).Theta
    assert_close(found, 0.8 * rows @ rows.T / 5, 1e-15)
    with pytest.raises(AssertionError, match="Theta is off"):
        assert_close(found + 1e-16 * sigma_b**2, 0.8 * rows @ rows.T / 5, 1e-15)  # what a·K + b leaves


def test_what_cannot_be_is_refused():
    theory = mf.derive("erf")
    with pytest.raises(mf.MeanFieldError, match="lambda_b must be ≥ 0"):
        theory.kernel(X, sigma_w=1, sigma_b=0, depth=3, lambda_b=-1)
    with pytest.raises(mf.MeanFieldError, match=r"lambda_w=\[1, 2\] is a list"):
        theory.kernel(X, sigma_w=1, sigma_b=0, depth=3, lambda_w=[1, 2])


def test_a_readout_without_bias_is_trained_by_no_bias():
    y = RNG.standard_normal(9)
    at = dict(sigma_w=[1.3, 1.3, 1.0], sigma_b=[0.2, 0.2, 0.0], depth=3, layerwise=True)
    own = mf.derive("erf").predict(X, y, X[:2] + 0.1, t=2, **at)
    told = mf.derive("erf").predict(X, y, X[:2] + 0.1, t=2, lambda_w=[1.69, 1.69, 1], lambda_b=[0.04, 0.04, 0], **at)
    assert np.abs(own.mean - told.mean).max() < 1e-12
    other = mf.derive("erf").predict(X, y, X[:2] + 0.1, t=2, lambda_w=[1.69, 1.69, 1], lambda_b=0.04, **at)
    assert np.abs(own.mean - other.mean).max() > 1e-4


@pytest.mark.parametrize("skip", [0, 0.6])
def test_propagate_takes_rates_of_two_inputs_and_of_any_network(skip):
    """Theta and Theta_ab of rows that start at their K: the sums of the kernel's tests, layer by layer; without rates
    Theta starts at K."""
    theory = mf.derive("erf", mu=skip) if skip else mf.derive("erf")
    gram = X @ X.T / X.shape[1]
    at = dict(sigma_w=W, sigma_b=B, depth=DEPTH, layerwise=True)
    for rates in ({"lambda_w": LW, "lambda_b": LB}, {"lambda_w": LW}, {}):
        lw, lb = rates.get("lambda_w", np.square(W)), rates.get("lambda_b", np.square(B))
        wanted = summed(erf_averages, X, W, B, lw, lb, skip)
        K = W[0] ** 2 * gram + B[0] ** 2
        pair = theory.propagate(
            **at,
            **rates,
            quantities=("K_aa", "K_bb", "K_ab", "Theta_ab"),
            start={"K_aa": K[0, 0], "K_bb": K[1, 1], "K_ab": K[0, 1]},
        )
        alone = theory.propagate(**at, **rates, quantities=("K", "Theta"), start={"K": K[0, 0]})
        norm = theory.propagate(**at, **rates, quantities=("K", "Theta"), input_norm=gram[0, 0])
        assert_close(np.array([pair.Theta_ab[-1], alone.Theta[-1], norm.Theta[-1]]), wanted[0, [1, 0, 0]])
        with pytest.raises(AssertionError, match="Theta is off"):
            assert_close(pair.Theta_ab[-1] + (lw[0] * 1e-9), wanted[0, 1])
    with pytest.raises(mf.MeanFieldError, match="with sigma_w = 0 there, K_ab does not know the inputs"):
        theory.propagate(
            sigma_w=0, sigma_b=1, depth=2, lambda_w=1, quantities=("K_aa", "K_bb", "K_ab", "Theta_ab"),
            start={"K_aa": 1, "K_bb": 1, "K_ab": 1},
        )  # fmt: skip


def test_opposite_inputs_of_an_even_function_with_rates():
    """What opposite inputs lose is asked of a network without rates: z·tanh(z), rows that meet and rows that face."""
    rows = np.array([[1.0, 0.0], [-1.0, 1e-9], [-1.0, 0.0]])
    theory, at = mf.derive("z*tanh(z)"), dict(sigma_w=1.2, sigma_b=0, depth=3)
    found, plain = theory.kernel(rows, **at, lambda_b=0.2), theory.kernel(rows, **at)
    np.testing.assert_allclose(found.K, plain.K, rtol=1e-14)
    K = 0.72  # σ_w²/2
    wanted = theory.propagate(**at, lambda_b=0.2, quantities=("K", "Theta"), start={"K": K, "Theta": K + 0.2})
    np.testing.assert_allclose(found.Theta[1, 1], wanted.Theta[-1], rtol=1e-12)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        np.testing.assert_allclose(plain.Theta[1, 1], wanted.Theta[-1], rtol=1e-12)
