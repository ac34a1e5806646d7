"""
With which weights should a deep network start?
===============================================

Initializers choose the standard deviation of weights from the fan-in alone. The right one depends
on the activation, and in a deep network it matters. Which one keeps the gradients of thirty layers
of GELU, and what do the usual ones do?
"""

import matplotlib.pyplot as plt
import numpy as np

import meanfield as mf

# %%
# The derivation
# --------------
#
# J is the squared gradient of layer 1 over that of layer l, and gets a factor χ_J in each layer.
# The usual gains are made for linear layers or for ReLU, where χ_J does not depend on K. For GELU
# it does, so that K has to stay where χ_J = 1.

theory = mf.derive("gelu")
print(theory.recursion("K", "J"))

# %%
# A start that keeps both is a critical point: a fixed point of K at which χ_J = 1. All of them are
# found and certified from the derived maps.

points = theory.critical_points()
print(points)

# %%
# The first of them attracts no start. At the other one K stays at its fixed point if it begins there
# or a little above. The first layer sees to that: for inputs whose entries have mean square 1, its
# own σ_w is the square root of the fixed point, and it has no bias.

depth, width = 30, 128
point = points[1]
sigma_w, sigma_b, K = float(point.sigma_w), float(point.sigma_b), float(point.K)
print(f"first layer: σ_w = {np.sqrt(K):.4f}, σ_b = 0; ", end="")
print(f"all others: σ_w = {sigma_w:.4f}, σ_b = {sigma_b:.4f}")

# %%
# The picture
# -----------
#
# log J from layer 1 to layer l: lines by theory, points from networks of 128 neurons. At 0
# gradients neither vanish nor explode.

starts = {
    "critical": ([np.sqrt(K)] + [sigma_w] * (depth - 1), [0] + [sigma_b] * (depth - 1)),
    "He": ([np.sqrt(2)] * depth, [0] * depth),
    "Xavier, LeCun": ([1] * depth, [0] * depth),
    "PyTorch's default": ([1 / np.sqrt(3)] * depth, [1 / np.sqrt(3 * width)] * depth),
}
layers, shown = np.arange(1, depth + 1), np.array([1, 10, 20, 30])
figure, ax = plt.subplots()
expected, measured, errors = {}, {}, {}
for k, (name, (w, b)) in enumerate(starts.items()):
    start = dict(sigma_w=w, sigma_b=b, depth=depth, layerwise=True)
    expected[name] = theory.propagate(**start).log_J
    size = dict(width=width, networks=24, quantities=("J",), probes=8)
    run = mf.measure("gelu", **start, **size).estimate("log_J")
    measured[name], errors[name] = run.mean, run.standard_error
    ax.plot(layers, expected[name], ("-", "--", "-.", ":")[k], label=name)
    ax.plot(shown, run.mean[shown - 1], "o", color=f"C{k}", markersize=4)
ax.plot([], [], "ko", markersize=4, label="24 networks")
ax.set(xlabel="layer l", ylabel="log J")
ax.legend()

# %%
# The check
# ---------
#
# The same numbers at the last layer. What is left at the critical start is an effect of the width,
# of relative size l/n.

for name, values in expected.items():
    last = round(values[-1], 2) + 0.0
    print(f"{name}: log J is {measured[name][-1]:.2f} ± {errors[name][-1]:.2f}, ", end="")
    print(f"by theory {last:.2f}")

# %%
# What to remember
# ----------------
#
# - A gain belongs to an activation, and the bias belongs to the gain: GELU has two critical points,
#   and only the one with a bias holds K.
# - A factor that looks harmless in one layer is taken to the power of the depth. What is left of
#   gradients after thirty layers is printed below.
# - ``mf.recommend("gelu", depth=30, width=128)`` makes this choice, and does so for any network. Its
#   ``.torch()`` is the code that sets the weights.

for name, values in expected.items():
    print(f"{name}: squared gradients of layer 1 are {np.exp(values[-1]):.1e} ", end="")
    print(f"of those of layer {depth}")
