"""
Kernels of a circle
===================

NNGP and tangent kernel of ReLU with three hidden layers, between inputs on a circle: both depend on
the angle alone.
"""

import matplotlib.pyplot as plt
import numpy as np

import meanfield as mf

angle = np.linspace(0, np.pi, 200)
points = np.stack([np.cos(angle), np.sin(angle)], axis=1) * np.sqrt(2)
kernel = mf.derive("relu").kernel(points, sigma_w="sqrt(2)", sigma_b=0, depth=4, quantities=("K", "Theta"))

figure, ax = plt.subplots()
ax.plot(angle, kernel.K[0] / kernel.K[0, 0], label="NNGP: K(θ)/K(0)")
ax.plot(angle, kernel.Theta[0] / kernel.Theta[0, 0], "--", label="NTK: Θ(θ)/Θ(0)")
ax.set(xlabel="angle θ", ylabel="kernel")
ax.legend()
