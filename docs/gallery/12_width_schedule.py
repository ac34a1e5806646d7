"""
Widths that follow the gradient
===============================

In a residual network without decay J grows like a power; widths that shrink with it keep gradients
per neuron within a factor of 5/2.
"""

import matplotlib.pyplot as plt

import meanfield as mf

theory = mf.derive("tanh", architecture="full_residual", sigma_v=1, sigma_a=1)
found = theory.width_schedule(width=4096, depth=101, sigma_w=1, sigma_b=1, factor="5/2")
figure, (top, bottom) = plt.subplots(2, 1, sharex=True)
top.semilogy(found.widths)
top.set(ylabel="width")
bottom.semilogy(found.chi)
bottom.set(xlabel="block", ylabel="χ per neuron")
