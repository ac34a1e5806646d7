"""Networks of finite width, trained by plain NumPy, beside `Theory.predict`: the mean and the spread of their outputs,
extrapolated in 1/n."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import meanfield as mf
from meanfield.training.trained_networks import Training

RATE, DEPTH, SIGMA_W, SIGMA_B = 0.5, 3, 1.4, 0.2
PHI = {
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0).astype(z.dtype)),
}


def digits():
    """30 training and 6 further images of 8 × 8 around their mean, and two codes: odd or even, below five or not."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(5).permutation(len(X))[:36]
    X, y = X[order] - X.mean(axis=0), y[order]
    X = (X / X.std()).astype(np.float32)
    codes = np.stack((1 - 2.0 * (y % 2), 1 - 2.0 * (y < 5)), axis=1).astype(np.float32)
    return X[:30], codes[:30], X[30:]


def trained(name, width, networks, steps, data, seed):
    """Outputs of networks after numbers of steps, (network, step, input, output): z = σ_w W x/√N + σ_b b, steps of
    gradient descent on (1/2N) Σ|f - y|² in W and b."""
    (X, y, far), (phi, slope) = data, PHI[name]
    every = np.concatenate((X, far))
    rng, out = np.random.default_rng(seed), []
    sizes = [X.shape[1], width, width, y.shape[1]]
    w = [np.float32(SIGMA_W / np.sqrt(m)) for m in sizes[:-1]]
    for _ in range(networks):
        W = [rng.standard_normal((m, k), dtype=np.float32) for m, k in pairwise(sizes)]
        b = [rng.standard_normal(k, dtype=np.float32) for k in sizes[1:]]
        seen = []
        for step in range(max(steps) + 1):
            if step in steps:
                seen.append(forward(every, W, b, w, phi)[-1])
            z = forward(X, W, b, w, phi)
            back = (z[-1] - y) / np.float32(len(X))
            for k in (2, 1, 0):
                below = X if k == 0 else phi(z[k - 1])
                push = (w[k] * back) @ W[k].T
                W[k] -= np.float32(RATE) * w[k] * (below.T @ back)
                b[k] -= np.float32(RATE * SIGMA_B) * back.sum(axis=0)
                back = push * slope(z[k - 1]) if k else push
        out.append(seen)
    return np.array(out, dtype=float)


def forward(x, W, b, w, phi):
    z = []
    for k in range(3):
        z.append(w[k] * ((x if k == 0 else phi(z[-1])) @ W[k]) + np.float32(SIGMA_B) * b[k])
    return z


def extrapolated(values, errors, widths):
    """(limit, its standard error) of a + b/n, by weighted least squares at every entry."""
    x = 1 / np.asarray(widths, dtype=float).reshape(-1, *[1] * (values.ndim - 1))
    p = 1 / errors**2
    s, sx, sxx = p.sum(0), (p * x).sum(0), (p * x * x).sum(0)
    sy, sxy = (p * values).sum(0), (p * x * values).sum(0)
    d = s * sxx - sx**2
    return (sxx * sy - sx * sxy) / d, np.sqrt(sxx / d)


def largest_z(name, data, runs, widths, steps, sigma_w=SIGMA_W):
    """The largest |z| of the means of all outputs, and of the standard deviations of each input while a tenth of that
    of untrained networks is left: what is below is e^{-λt} of kernels that differ, and no series in 1/n."""
    (X, y, far), theory = data, mf.derive(name)
    told = theory.predict(X, y, far, sigma_w=sigma_w, sigma_b=SIGMA_B, depth=DEPTH, t=list(steps), rate=RATE)
    begun = theory.predict(X, y, far, sigma_w=sigma_w, sigma_b=SIGMA_B, depth=DEPTH, t=0, rate=RATE)
    means = np.array([r.mean(axis=0) for r in runs])
    errors = np.array([r.std(axis=0, ddof=1) / np.sqrt(len(r)) for r in runs])
    limit, error = extrapolated(means, errors, widths)
    of_mean = np.abs((limit - told.mean) / error).max()
    spread = np.array([np.log(r.var(axis=0, ddof=1)).mean(axis=-1) / 2 for r in runs])  # of log sd, over outputs
    own = np.array([np.full(spread[0].shape, 1 / np.sqrt(2 * 2 * (len(r) - 1))) for r in runs])
    limit, error = extrapolated(spread, own, widths)
    left = told.sd > 0.1 * begun.sd
    return of_mean, np.abs((limit - np.log(told.sd)) / error)[left].max()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_wide_networks_are_trained_as_predicted(name):
    data, steps, widths = digits(), (2, 20, 200), (128, 256, 512)
    runs = [trained(name, n, 200, steps, data, n) for n in widths]
    of_mean, of_spread = largest_z(name, data, runs, widths, steps)
    assert of_mean < 4 and of_spread < 4
    assert max(largest_z(name, data, runs, widths, steps, 1.02 * SIGMA_W)) > 4


@pytest.mark.slow
def test_small_networks_follow_the_first_steps():
    """The same in seconds: widths 64 and 128, two and ten steps."""
    data, steps, widths = digits(), (2, 10), (64, 128)
    runs = [trained("tanh", n, 120, steps, data, n) for n in widths]
    of_mean, of_spread = largest_z("tanh", data, runs, widths, steps)
    assert of_mean < 4 and of_spread < 4
    assert max(largest_z("tanh", data, runs, widths, steps, 1.3 * SIGMA_W)) > 4


def test_an_object_that_has_no_fields_yet():
    """Copies are made empty and filled then: an attribute asked for before is absent, not looked up for ever."""
    empty = Training.__new__(Training)
    with pytest.raises(AttributeError, match="loss"):
        _ = empty.loss
