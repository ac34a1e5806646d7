"""
Functions drawn at infinite width
=================================

Ten outputs of infinitely wide networks on an interval: samples of a Gaussian process with the NNGP
kernel, of tanh and of ReLU.
"""

import matplotlib.pyplot as plt
import numpy as np

import meanfield as mf

x = np.linspace(-3, 3, 120)
inputs = np.stack([x, np.ones_like(x)], axis=1)
figure, panels = plt.subplots(1, 2, sharey=True, figsize=(9, 3.5))
for ax, name in zip(panels, ("erf", "relu")):
    kernel = mf.derive(name).kernel(inputs, sigma_w=1.5, sigma_b=0.2, depth=4, quantities=("K",))
    values, vectors = np.linalg.eigh(kernel.K)
    noise = np.random.default_rng(0).standard_normal((len(x), 10))
    ax.plot(x, vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * noise), linewidth=1)
    ax.set(title=name, xlabel="x")
