"""
What trains, and the depth scale
================================

Accuracy of tanh networks on digits after fifty steps, over σ_w and depth; dashed: six times the
depth scale ξ of correlations at initialization.
"""

import numpy as np

import meanfield as mf

found = mf.trainability(
    "tanh",
    mf.data.digits().take(300),
    axes={"sigma_w": np.linspace(0.8, 2.2, 7), "depth": [6, 12, 18, 24]},
    sigma_b=0.2,
    width=32,
    steps=50,
    rate=0.2,
    networks=1,
)
found.plot("accuracy/train")
