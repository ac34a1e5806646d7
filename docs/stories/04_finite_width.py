"""
How wide is wide?
=================

The recursions hold for infinitely many neurons. Two networks of the same finite width differ from
each other, and their mean differs from the limit. By how much, and at which depth is it too much?
"""

import matplotlib.pyplot as plt
import numpy as np

import meanfield as mf

# %%
# The derivation
# --------------
#
# K of one network is a mean over its n neurons. The neurons of a layer are independent only given
# the layer before, whose K fluctuates. V is n times the connected average of the squares of two
# neurons: what is left of this fluctuation at large n. Its map has a source, the variance of φ²
# over neurons, and a factor for what comes from the layer before.

theory = mf.derive("tanh")
print(theory.recursion("V"))

# %%
# The mean of K over networks is shifted, too, by G1/n. Both follow from products of weights that
# are paired in all possible ways, and ``theory.derivation("V")`` prints every step of it.

depth = 12
at = dict(sigma_w=1, sigma_b=0)
run = theory.propagate(**at, depth=depth, quantities=("V", "G1"))
layers = np.arange(1, depth + 1)
ratio = run.V / run.K**2
print("V/K² layer by layer:", *ratio.round(2))

# %%
# The picture
# -----------
#
# The standard deviation of K over networks, in units of K, is √((V + 2K²)/n)/K. The 2K² are those
# of a mean over n independent Gaussians, and V is what accumulates with depth. Lines are this
# theory, points are 600 networks of each width.


def spread(n):
    """sd(K)/K in every layer, to order 1/n."""
    return np.sqrt((ratio + 2) / n)


widths, networks = (32, 64, 128), 600
size = dict(depth=depth, networks=networks, quantities=("K",))
measured = {n: mf.measure("tanh", **at, width=n, **size).estimate("K") for n in widths}
seen = {n: K.standard_error * np.sqrt(networks) / K.mean for n, K in measured.items()}
figure, ax = plt.subplots()
for k, n in enumerate(widths):
    ax.plot(layers, spread(n), ("-", "--", ":")[k], label=f"theory, n = {n}")
    ax.plot(layers, seen[n], "o", color=f"C{k}", markersize=4)
ax.plot([], [], "ko", markersize=4, label=f"{networks} networks")
ax.set(xlabel="layer l", ylabel="sd(K)/K over networks", ylim=(0, None))
ax.legend()

# %%
# The check
# ---------
#
# The standard deviation of 600 numbers is known to 3 % at best, and the next order is about l/n of
# the one that is drawn. The mean of K is known better: n times its distance from the limit is G1.

for n, K in measured.items():
    shift, error = n * (K.mean[-1] - run.K[-1]), n * K.standard_error[-1]
    print(f"n = {n}, layer {depth}")
    print(f"  sd(K)/K      {seen[n][-1]:.3f}           theory {spread(n)[-1]:.3f}")
    print(f"  n (mean - K) {shift:.3f} ± {error:.3f}  theory {run.G1[-1]:.3f}")

# %%
# What to remember
# ----------------
#
# - Not the width counts, but the width over the depth. V/K² gains nearly the same in every layer of
#   a critical network, so that networks differ from each other by √(l/n) of K.
# - Their mean is off by l/n of K, which is less.
# - A theory of single networks needs a depth well below the width. At the depth that is printed
#   last, networks differ from each other by as much as their K.

slope = ratio[-1] - ratio[-2]
print(f"V/K² gains {slope:.2f} in a layer, so that sd(K) = K for n = {widths[-1]} ", end="")
print(f"at a depth of about {widths[-1] / slope:.0f}")
