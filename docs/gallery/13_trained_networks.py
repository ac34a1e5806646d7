"""
Trained networks and their prediction
=====================================

Thirty networks of width 256, trained by gradient descent on four points, beside the mean and twice
the standard deviation that the tangent kernel predicts for networks of infinite width.
"""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

import meanfield as mf

X = np.array([[-1.0], [-0.3], [0.4], [1.0]])
y = np.sin(3 * X)
grid = np.linspace(-1.5, 1.5, 61)[:, None]
rate, width, sigma_w, sigma_b, times = 0.5, 256, 1.5, 0.3, (0, 20, 400)
rng = np.random.default_rng(0)


def forward(x, W, b):
    layers = [x]
    for k, (w, bias) in enumerate(zip(W, b)):
        z = sigma_w * layers[-1] @ w / np.sqrt(len(w)) + sigma_b * bias
        layers.append(np.tanh(z) if k < len(W) - 1 else z)
    return layers


def trained():
    """The outputs of one network on the grid at each of the times."""
    sizes = [1, width, width, 1]
    W = [rng.standard_normal(shape) for shape in pairwise(sizes)]
    b = [rng.standard_normal(n) for n in sizes[1:]]
    seen = []
    for step in range(max(times) + 1):
        if step in times:
            seen.append(forward(grid, W, b)[-1][:, 0])
        layers = forward(X, W, b)
        back = (layers[-1] - y) / len(X)
        for k in (2, 1, 0):
            scale = sigma_w / np.sqrt(len(W[k]))
            below = scale * back @ W[k].T
            W[k] -= rate * scale * layers[k].T @ back
            b[k] -= rate * sigma_b * back.sum(axis=0)
            back = below * (1 - layers[k] ** 2)
    return seen


theory = mf.derive("tanh")
at = dict(sigma_w=sigma_w, sigma_b=sigma_b, depth=3)
found = theory.predict(X, y, grid, t=times, rate=rate, **at).test
networks = [trained() for _ in range(30)]
figure, panels = plt.subplots(1, 3, sharey=True, figsize=(7.2, 2.4), layout="constrained")
for k, (t, ax) in enumerate(zip(times, panels)):
    for network in networks:
        ax.plot(grid, network[k], color="0.6", linewidth=0.4)
    mean, sd = found.mean[k, :, 0], found.sd[k]
    ax.plot(grid, mean, color="C0", label="predicted mean")
    ax.plot(grid, mean + 2 * sd, color="C0", linestyle="--", linewidth=0.9, label="± 2 sd")
    ax.plot(grid, mean - 2 * sd, color="C0", linestyle="--", linewidth=0.9)
    ax.plot(X, y, "ko", markersize=4, label="training data")
    ax.set(title=f"{t} steps", xlabel="x")
panels[0].set_ylabel("output")
panels[0].legend(fontsize=7, loc="lower right")
