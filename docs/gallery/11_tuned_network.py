"""
Tuning one drawn network
========================

log J of every layer of a ReLU network that was drawn too wide, before and after ``mf.tune`` moved
its gains.
"""

import matplotlib.pyplot as plt

import meanfield as mf

tuned = mf.tune("relu", depth=20, width=64, sigma_w=2, seed=1)
figure, ax = plt.subplots()
ax.plot(range(1, 20), tuned.before, "o-", label="before")
ax.plot(range(1, 20), tuned.after, "o-", label="after")
ax.set(xlabel="layer l", ylabel="log J from l to l + 1")
ax.legend()
