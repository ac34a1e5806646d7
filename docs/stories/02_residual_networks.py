"""
Why do skips need a factor 1/√L?
================================

A skip hands every block's input on, so that nothing is forgotten. But every block also adds
something. What do L blocks add to the signal and to gradients, and what does a factor in front of
the branches change?
"""

import matplotlib.pyplot as plt
import numpy as np

import meanfield as mf

# %%
# The derivation
# --------------
#
# With a skip of strength 1, a block makes z + W φ(z). Skip and branch are independent, so that
# variances add up: K grows by what the branch makes, and J is multiplied by 1 plus the factor of
# the branch. This is above 1 for every σ_w > 0, so that there is no critical point.

plain = mf.derive("tanh", residual=True)
print(plain.recursion("K", "J"))
print(plain.critical_points())

# %%
# K grows in proportion to the depth. The larger it is, the fewer neurons have a slope that is not
# near 0: the factor of the branch falls as 1/√K, which is 1/√l. These add up to √l in the exponent
# of J, which grows without bound, if more slowly than exponentially.

at = dict(sigma_w=1, sigma_b=0)
print(plain.depth_law("K", **at))
print(plain.depth_law("J", **at))

# %%
# With a factor 1/√L in front of each of L branches, each adds 1/L of what it added before. This
# factor depends on the number of blocks. It is part of the record that describes a block.


def scaled(total):
    """A block whose branch has the variance σ_w² L^(-total)."""
    last = mf.Dense(sigma_w=mf.Schedule("sigma_w", 0, total=total), sigma_b=0)
    return mf.Residual(mf.Sequential((mf.Nonlinearity("tanh"), last)))


# %%
# The picture
# -----------
#
# log J from the first layer to the last, for networks of more and more blocks: lines by theory,
# points from networks of 128 neurons by the same records. On logarithmic axes √L and 1/L are
# straight lines. The layer before the first block is the input layer, so that L blocks end in layer
# L + 1.

blocks, few = 2 ** np.arange(9), np.array([2, 8, 32])
branches = {"1": 0, "1/√L": 1, "1/L": 2}
theories = {name: mf.derive(architecture=scaled(branches[name])) for name in branches}


def log_J(name, L):
    """log J behind L blocks, by theory."""
    return float(theories[name].propagate(**at, depth=int(L) + 1).log_J[-1])


def measured(name, L):
    """log J behind L blocks of 24 networks, and its standard error."""
    size = dict(width=128, depth=int(L) + 1, networks=24)
    run = mf.measure(scaled(branches[name]), **at, **size, quantities=("J",)).estimate("log_J")
    return float(run.mean[-1]), float(run.standard_error[-1])


networks = {(name, L): measured(name, L) for name in branches for L in few}
lines = {name: [log_J(name, L) for L in blocks] for name in branches}
figure, ax = plt.subplots()
for k, name in enumerate(branches):
    ax.plot(blocks, lines[name], ("-", "--", ":")[k], label=f"branches times {name}")
    ax.plot(few, [networks[name, L][0] for L in few], "o", color=f"C{k}", markersize=4)
ax.plot([], [], "ko", markersize=4, label="24 networks")
ax.set(xscale="log", yscale="log")
ax.set(xlabel="number of blocks L", ylabel="log J from the first layer to the last")
ax.legend()

# %%
# The check
# ---------
#
# The same numbers, with the difference in standard errors.

for (name, L), (mean, error) in networks.items():
    theory = log_J(name, L)
    z = (mean - theory) / error
    print(f"branches times {name}, L = {L}: ", end="")
    print(f"theory {theory:.3f}, networks {mean:.3f} ± {error:.3f}, z = {z:.1f}")

# %%
# What to remember
# ----------------
#
# - With plain skips gradients grow without bound, whatever σ_w is.
# - With branches times 1/√L they grow by a factor that does not depend on the depth, and that a few
#   blocks already have.
# - With branches times 1/L a deep network does nothing: J tends to 1.

for name, values in lines.items():
    before, last = np.exp(values[-2:])
    print(f"branches times {name}: ", end="")
    print(f"J = {before:.4g} after {blocks[-2]} blocks, {last:.4g} after {blocks[-1]}")
