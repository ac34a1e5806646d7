"""
Trained networks and their prediction
=====================================

Twelve networks of width 200, trained by gradient descent on four points, beside the mean and twice
the standard deviation that the tangent kernel predicts for networks of infinite width.
"""

import matplotlib.pyplot as plt
import numpy as np

import meanfield as mf

X = np.array([[-1.0], [-0.3], [0.4], [1.0]])
y = np.sin(3 * X)
grid = np.linspace(-1.5, 1.5, 61)[:, None]
at = dict(sigma_w=1.5, sigma_b=0.3, depth=3)
how = dict(width=200, loss="mse", optimizer="scaled", rate=0.5, networks=12, keep_weights=True)
times = (0, 20, 200)
found = mf.derive("tanh").predict(X, y, grid, t=times, rate=0.5, **at).test
figure, panels = plt.subplots(1, 3, sharey=True, figsize=(7.2, 2.4), layout="constrained")
for k, (t, ax) in enumerate(zip(times, panels)):
    for outputs in mf.train("tanh", (X, y), steps=t, **how, **at).outputs(grid):
        ax.plot(grid, outputs, color="0.6", linewidth=0.4)
    mean, sd = found.mean[k, :, 0], found.sd[k]
    ax.plot(grid, mean, color="C0", label="predicted mean")
    ax.plot(grid, mean + 2 * sd, color="C0", linestyle="--", linewidth=0.9, label="± 2 sd")
    ax.plot(grid, mean - 2 * sd, color="C0", linestyle="--", linewidth=0.9)
    ax.plot(X, y, "ko", markersize=4, label="training data")
    ax.set(title=f"{t} steps", xlabel="x")
panels[0].set_ylabel("output")
panels[0].legend(fontsize=7, loc="lower right")
