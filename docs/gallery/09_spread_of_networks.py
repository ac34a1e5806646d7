"""
How far networks scatter
========================

The standard deviation of K over networks of width 100, derived to order 1/n, and that of 400
networks.
"""

import matplotlib.pyplot as plt
import numpy as np

import meanfield as mf

depth, width = 20, 100
run = mf.derive("tanh").propagate(sigma_w=1, sigma_b=0, depth=depth, quantities=("V",))
measured = mf.measure("tanh", sigma_w=1, sigma_b=0, width=width, depth=depth, networks=400, quantities=("K",))
spread = measured.K.standard_error * np.sqrt(400)

figure, ax = plt.subplots()
ax.plot(range(1, depth + 1), np.sqrt((run.V + 2 * run.K**2) / width) / run.K, label="theory, order 1/n")
ax.plot(range(1, depth + 1), spread / measured.K.mean, "o", label="400 networks")
ax.set(xlabel="layer l", ylabel="sd(K)/K at width 100")
ax.legend()
