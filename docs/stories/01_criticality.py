"""
How deep can a signal go?
=========================

Small weights make a deep network forget its input. Large weights tear neighbouring inputs apart.
Which standard deviation lies between, for tanh, and what happens at exactly that one?
"""

import matplotlib.pyplot as plt
import numpy as np

import meanfield as mf

# %%
# The derivation
# --------------
#
# Weights are drawn with standard deviation σ_w/√n, biases with σ_b. In a wide network two numbers
# of a layer obey recursions of their own. K is the second moment of a preactivation. J is the
# squared norm of the Jacobian from the first layer, per neuron. It is the factor by which the
# square of a small difference between two inputs grows, and squared gradients on their way back.

theory = mf.derive("tanh")
print(theory.recursion("K", "J"))

# %%
# The factor of J in one layer is χ_J. Where it is 1 at the fixed point of K, small differences
# neither grow nor shrink: this is the critical line. Where K is critical, too, lies a critical
# point. All of them are found from the derived maps, with a proof that there are no others.

points = theory.critical_points()
point = points[0]
print(points)

# %%
# At this point the only fixed point is K = 0, where tanh is the identity. What tanh takes from K on
# the way there is of order K², so that K falls as a power of the layer, and J with it.

at = dict(sigma_w=point.sigma_w, sigma_b=point.sigma_b)
print(theory.depth_law("K", **at))
print(theory.depth_law("J", **at))

# %%
# The picture
# -----------
#
# J layer by layer below the critical σ_w, at it, and above it: lines by theory, points from
# networks of 200 neurons, which know nothing of the recursion. Only the middle line is a power of
# the layer, which is straight on logarithmic axes.

depth, shown = 100, np.array([1, 3, 10, 30])
sigmas = [share * float(point.sigma_w) for share in (0.8, 1, 1.5)]
runs = [theory.propagate(sigma_w=sigma, sigma_b=0, depth=depth) for sigma in sigmas]
layers = np.arange(1, depth + 1)

figure, ax = plt.subplots()
for k, (sigma, run) in enumerate(zip(sigmas, runs)):
    ax.loglog(layers, run.J, ("--", "-", ":")[k], label=f"theory, σ_w = {sigma:.1f}")
    size = dict(width=200, depth=30, networks=20)
    measured = mf.measure("tanh", sigma_w=sigma, sigma_b=0, **size, quantities=("J",))
    J = measured.estimate("J").mean
    ax.plot(shown, J[shown - 1], "o", color=f"C{k}", markersize=4)
ax.plot([], [], "ko", markersize=4, label="mean of 20 networks")
ax.set(xlabel="layer l", ylabel="J", ylim=(1e-5, 1e5))
ax.legend()

# %%
# The check
# ---------
#
# Networks of finite width differ from the limit, and from each other. ``check`` derives the first
# difference to order 1/n, adds it, and compares the rest with the standard errors of 60 networks.

report = mf.check(theory, **at, width=200, depth=20, networks=60)
print(report)

# %%
# What to remember
# ----------------
#
# - One factor, χ_J, decides. Below 1 a network forgets exponentially, and above 1 it amplifies
#   exponentially.
# - For tanh the border lies at the critical point above, without a bias.
# - There J does not stay: it falls as a power of the depth, 1/l, instead of exponentially.

some = np.array([10, 50, 100])
products = some * runs[1].J[some - 1]
print("At the critical point, l J in layers", *some, "is", *products.round(2))
for sigma in (sigmas[0], sigmas[2]):
    scale = 1 / abs(np.log(theory.phase(sigma_w=sigma, sigma_b=0).chi_J))
    print(f"At σ_w = {sigma:.1f}, J changes by a factor e in every {scale:.1f} layers")
