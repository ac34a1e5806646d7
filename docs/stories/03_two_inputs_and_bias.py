"""
Why does an untrained network prefer a class?
=============================================

A network with random weights has learned nothing. Yet a deep one often puts nearly all inputs into
one class. How does depth do that, and how unequal do the classes get?
"""

import matplotlib.pyplot as plt
import numpy as np

import meanfield as mf
from meanfield.bias import ClassFraction

# %%
# The derivation
# --------------
#
# Two inputs go through the same weights. Their preactivations are jointly Gaussian: beside their
# variances K_aa and K_bb there is the covariance K_ab. Its map has a closed form for ReLU.

theory = mf.derive("relu")
print(theory.two_inputs.doit())

# %%
# The values of a neuron on many inputs have a mean, which the weights choose, and a spread about
# it. The variance of the mean over weights is K_ab, and that of the spread is K - K_ab. Their ratio
# γ = c/(1 - c), where c is the correlation of two inputs, is the guessing bias. Where it is large,
# what tells inputs apart is small beside what they share.

at = dict(sigma_w="sqrt(2)", sigma_b=0)
print(theory.bias(**at))

# %%
# At σ_w = √2 ReLU is critical: K and J stay as they are. The correlation still tends to 1, because
# the outputs of a ReLU have a mean, and γ grows as the square of the depth.
#
# Of two classes, the one with the larger output wins. The fraction of inputs in class 0 is then
# G = Φ(√γ δ), with δ a standard normal number that the weights draw. ``ClassFraction`` is its law.
# It has one maximum at ½ for γ < 1, is uniform at γ = 1, and has two maxima at 0 and 1 above.

depth = 1000
run = theory.propagate(**at, depth=depth, correlation=0, quantities=("c", "gamma"))
first = int(np.argmax(run.gamma > 1)) + 1
print(f"γ is above 1 from layer {first} on")

# %%
# The picture
# -----------
#
# Left: the law of G in three layers. Right: the mean of G² over networks, which is ¼ where both
# classes are equal in all networks, and ½ where one of them has all inputs. Each of 150 networks of
# 200 neurons gets 100 independent inputs, and its classes are counted in every layer.

inputs, counted, shown = 100, 20, 40
laws = [ClassFraction(gamma, inputs=inputs) for gamma in run.gamma[:shown]]
G2 = np.array([law.moment(2) for law in laws])
size = dict(width=200, depth=counted, networks=150, batch=inputs)
measured = mf.measure("relu", **at, **size, quantities=("G0_squared",)).estimate("G0_squared")
errors = measured.standard_error

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
g = np.linspace(0.005, 0.995, 199)
for layer, style in ((2, "-"), (first, "--"), (20, ":")):
    density = ClassFraction(run.gamma[layer - 1]).pdf(g)
    left.plot(g, density, style, label=f"layer {layer}")
left.set(xlabel="fraction G of inputs in class 0", ylabel="density over weights")
left.set_ylim(0, 4)
left.legend()
right.plot(np.arange(1, shown + 1), G2, label="theory")
right.errorbar(np.arange(1, counted + 1), measured.mean, 2 * errors, fmt="ko", markersize=3)
right.plot([], [], "ko", markersize=3, label="150 networks, ± 2 errors")
right.set(xlabel="layer l", ylabel="mean of G²")
right.legend(loc="lower right")

# %%
# The check
# ---------
#
# The same numbers, with the difference in standard errors. Layers of one network are not
# independent, so that a difference lasts for several of them.

for layer in (1, 2, first, 10, 20):
    theirs, ours, error = (one[layer - 1] for one in (G2, measured.mean, errors))
    print(f"layer {layer}: theory {theirs:.3f}, networks {ours:.3f} ± {error:.3f}, ", end="")
    print(f"z = {(ours - theirs) / error:.1f}")

# %%
# What to remember
# ----------------
#
# - Criticality of one input says nothing about two: K and J stay, and correlations still tend to 1.
# - Where γ is above 1, most draws of the weights prefer one class clearly.
# - For ReLU γ grows as the square of the depth, so that every deep network of this kind starts with
#   a strong preference, which training has to undo first.

law = theory.depth_law("gamma", **at, correlation=0)
for layer in (10, 100, depth):
    gamma, by_law = run.gamma[layer - 1], float(law.at(layer))
    share = ClassFraction(gamma).largest()
    print(f"layer {layer}: γ = {gamma:.5g}, by its law {by_law:.5g}; ", end="")
    print(f"the larger class has {share:.1%} of all inputs on average")
