"""
What the usual initializations do
=================================

log J from the first layer to layer l of a GELU network: PyTorch's default, He, Xavier and LeCun,
and what ``mf.recommend`` chooses for 30 layers. Near 0 gradients neither vanish nor explode.
"""

import matplotlib.pyplot as plt

import meanfield as mf

found = mf.recommend("gelu", depth=30, width=512, networks=0)
theory = mf.derive("gelu")
choices = {
    "recommended": (found.sigma_w, found.sigma_b),
    "He": (2**0.5, 0.0),
    "Xavier, LeCun": (1.0, 0.0),
    "PyTorch's default": (3**-0.5, 3**-0.5 / 512**0.5),
}
figure, ax = plt.subplots()
for style, (name, (sigma_w, sigma_b)) in zip(("-", "--", "-.", ":"), choices.items()):
    run = theory.propagate(sigma_w=sigma_w, sigma_b=sigma_b, depth=30)
    ax.plot(range(1, 31), run.log_J, style, label=name)
ax.set(xlabel="layer l", ylabel="log J")
ax.legend()
