"""
A law at large depth
====================

At its critical point K of tanh falls like 1/(2l). The law with its next term, beside a thousand
exact layers.
"""

import matplotlib.pyplot as plt

import meanfield as mf

theory = mf.derive("tanh")
run = theory.propagate(sigma_w=1, sigma_b=0, depth=1000)
law = theory.depth_law("K", sigma_w=1, sigma_b=0)

figure, ax = plt.subplots()
ax.loglog(range(1, 1001), run.K, label="exact layers")
layers = range(3, 1001)
ax.loglog(layers, [float(law.at(layer)) for layer in layers], "--", label=f"K = {law.text()}")
ax.set(xlabel="layer l", ylabel="K")
ax.legend()
