"""
What does a very wide network learn?
====================================

Training moves every weight of a wide network by very little, and its outputs follow a kernel that
does not move at all. Then they are known after any number of steps, before anything is trained. How
wide must a network be for this?
"""

import matplotlib.pyplot as plt
import numpy as np

import meanfield as mf

# %%
# The derivation
# --------------
#
# Outputs at initialization are a Gaussian process with the covariance K_ab. A step of gradient
# descent changes the output at one input by the tangent kernel Θ_ab with every input that is
# trained on. Both have maps from layer to layer, in closed form for erf.

theory = mf.derive("erf")
print(theory.recursion("Theta").doit())

# %%
# With a fixed kernel, gradient descent on the square loss is linear. The mean over networks and the
# covariance after every step follow from one eigendecomposition.

X = np.array([[-1.0], [-0.3], [0.4], [1.0]])
y = np.sin(3 * X)
grid = np.linspace(-1.5, 1.5, 31)[:, None]
at = dict(sigma_w=1.5, sigma_b=0.3, depth=3)
steps, rate = 20, 0.5
predicted = theory.predict(X, y, grid, t=steps, rate=rate, **at)
mean, sd = predicted.test.mean[0, :, 0], predicted.test.sd[0]
print("Steps in which a factor e of each direction of the data is learned:")
print(*(predicted.times / rate).round(1))

# %%
# The picture
# -----------
#
# The prediction after 20 steps, with the band of two standard deviations in which single networks
# lie, and 40 trained networks of 16 and of 256 neurons. The slowest direction is still on its way.

networks = 40


def trained(width):
    """Outputs of trained networks on the grid: (networks, inputs)."""
    how = dict(steps=steps, rate=rate, loss="mse", optimizer="scaled", keep_weights=True)
    run = mf.train("erf", (X, y), width=width, networks=networks, **how, **at)
    return np.asarray(run.outputs(grid)).reshape(networks, -1)


outputs = {width: trained(width) for width in (16, 256)}
figure, panels = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True, layout="constrained")
for ax, (width, seen) in zip(panels, outputs.items()):
    ax.plot(grid, seen.T, color="0.7", linewidth=0.5)
    ax.plot(grid, mean, label="predicted mean")
    ax.fill_between(grid[:, 0], mean - 2 * sd, mean + 2 * sd, alpha=0.2, label="± 2 sd")
    ax.plot(X, y, "ko", markersize=4, label="training data")
    ax.set(xlabel="input", title=f"{networks} networks of width {width}")
panels[0].set_ylabel("output")
panels[1].legend()

# %%
# The check
# ---------
#
# At every point of the grid, the distance of the networks' mean from the predicted one in units of
# its standard error, and the networks' standard deviation over the predicted one.

for width, seen in outputs.items():
    z = (seen.mean(axis=0) - mean) / (sd / np.sqrt(networks))
    share = np.sqrt(np.mean(seen.var(axis=0, ddof=1)) / np.mean(sd**2))
    print(f"width {width}: largest |z| {np.abs(z).max():.1f}, ", end="")
    print(f"standard deviation {share:.2f} times the predicted one")

# %%
# What to remember
# ----------------
#
# - A wide network that is trained by small steps is a Gaussian process at every step. Its mean and
#   its covariance need one eigendecomposition, and no training.
# - Directions with large eigenvalues are learned first, in the numbers of steps that are printed
#   above.
# - A few hundred neurons are wide for three layers and four inputs, and sixteen are not.

trace = np.trace(theory.kernel(X, quantities=("Theta",), **at).Theta)
eigenvalues = len(X) / predicted.times
print(f"These times belong to eigenvalues that add up to {eigenvalues.sum():.4f}; ", end="")
print(f"the kernel has the trace {trace:.4f}")
