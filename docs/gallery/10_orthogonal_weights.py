"""
Orthogonal weights fluctuate less
=================================

The four-point correlator V of tanh in units of K², for Gaussian and for Haar-orthogonal weights:
one grows with depth, the other stays.
"""

import matplotlib.pyplot as plt

import meanfield as mf

figure, ax = plt.subplots()
for weights, style in (("gaussian", "-"), ("orthogonal", "--")):
    run = mf.derive("tanh", weights=weights).propagate(sigma_w=1, sigma_b=0, depth=60, quantities=("V",))
    ax.plot(range(1, 61), run.V / run.K**2, style, label=weights)
ax.set(xlabel="layer l", ylabel="V/K²")
ax.legend()
