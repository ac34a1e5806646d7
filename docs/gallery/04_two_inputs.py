"""
Two inputs converge, or do not
==============================

The correlation of two inputs through 40 layers of erf, in the ordered phase, on the critical line,
and in the chaotic phase.
"""

import matplotlib.pyplot as plt

import meanfield as mf

theory = mf.derive("erf")
figure, ax = plt.subplots()
for sigma_w, style in (("4/5", "--"), ("sqrt(pi)/2", "-"), ("3/2", ":")):
    run = theory.propagate(sigma_w=sigma_w, sigma_b=0, depth=40, correlation=0.5, quantities=("c",))
    phase = theory.phase(sigma_w=sigma_w, sigma_b=0).name
    ax.plot(range(1, 41), run.c, style, label=f"σ_w = {sigma_w}: {phase}")
ax.set(xlabel="layer l", ylabel="correlation c")
ax.legend()
