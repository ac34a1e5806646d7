r"""How far apart the diagonal blocks of the Fisher information lie after L blocks of a residual network.

With Gaussian outputs the diagonal of F is E Σ (∂ outputs/∂θ)², so the mean of a block of it, the weights or the biases
of one Dense, is G_w or G_b per entry. The condition number of F is at least max F_ii/min F_ii, and so at least the
ratio of the largest of these means to the smallest, over groups and blocks l ≤ L of the network. Every G is a local
factor over J^{1,l}, times J^{1,L}, which drops out: the ratio is that of the extremes of local factors over J, each of
which is met either at l = L or near l = 1. Source: [variance_variation] Sec. 2, the law derived here.
"""

from __future__ import annotations

import sympy as sp

from meanfield.base.symbols import K
from meanfield.symbolic.asymptotics.comparing import compared, direction, log_of
from meanfield.symbolic.asymptotics.exponent_cells import At, CellSplit, Undecided
from meanfield.symbolic.asymptotics.log_growth import Growth, SignOracle, regular
from meanfield.symbolic.asymptotics.schedules.branch import Branch
from meanfield.symbolic.asymptotics.schedules.regimes import Regime
from meanfield.symbolic.averages.expansions.expansion import at_infinity, at_zero
from meanfield.symbolic.averages.node import average


def local_factors(regime: Regime, branch: Branch, falls: Growth) -> dict[str, Growth]:
    """G_w and G_b of each Dense of block l per J^{l+1,L}, by name: the inner Dense [1], the outer one [2]; falls: the
    variance of the outer weights in that block. A LayerNorm divides what enters, or what the inner Dense puts out."""
    assert regime.slope is not None
    through = regime.slope * falls
    if branch.norm == "inner":
        through = through / regime.q
    entered = through if branch.norm == "first" else through * regime.K
    return {"G_w[1]": entered, "G_b[1]": through, "G_w[2]": regime.square, "G_b[2]": regular(1)}


def trained_groups(regime: Regime, branch: Branch) -> dict[str, Growth]:
    """Those of parameters that are there and random at initialization, σ ≠ 0."""
    falls = regular(branch.v.size, -branch.v.beta)
    held = {"G_w[1]": branch.inner, "G_b[1]": branch.b, "G_w[2]": True, "G_b[2]": branch.a}
    return {name: law for name, law in local_factors(regime, branch, falls).items() if held[name]}


def fisher_law(regime: Regime, branch: Branch, oracle: SignOracle) -> Growth:
    """max/min of the mean diagonal of F over groups and blocks l ≤ L, as L → ∞ (L is written l).

    Raises: `Undecided` where which group is the extreme one depends on what is not known.
    """
    assert regime.J is not None
    return _ratio(regime.J, list(trained_groups(regime, branch).values()), oracle)


def plain_fisher_law(f: sp.Expr, variance: Growth, J: Growth, biases: bool) -> Growth:
    """The same of a network whose block is one Dense behind f(z), by its laws of K and J: ⟨f²⟩_K and 1, if there are
    biases, over J."""
    square, regime = average(f**2, K), direction(variance, At({}))
    through = regular(None)
    if regime:
        lead = (at_infinity(square, 1) if regime > 0 else at_zero(square, 1)).leading
        through = variance**lead.power
        if lead.logs != 0:
            through = through * log_of(variance, At({})) ** lead.logs
    return _ratio(J, [through, regular(1)] if biases else [through], At({}))


def _ratio(J: Growth, groups: list[Growth], oracle: SignOracle) -> Growth:
    """The largest over the smallest of local factors over J; J itself stands for a block near l = 1, whose G are
    J^{1,L} times numbers."""
    top, bottom = (_extreme([J, *groups], sign, oracle) for sign in (1, -1))
    return (top / bottom).of_unknown_size


def _extreme(laws: list[Growth], sign: int, oracle: SignOracle) -> Growth:
    """The largest (sign 1) or the smallest (-1) of laws; those that another is known to beat ask no questions."""
    left = list(laws)
    for one in laws:
        if any(other is not one and _beaten(one, other, sign, oracle) for other in left):
            left = [other for other in left if other is not one]
    found = left[0]
    for one in left[1:]:
        found = one if sign * compared(one, found, oracle) > 0 else found
    return found


def _beaten(one: Growth, other: Growth, sign: int, oracle: SignOracle) -> bool:
    try:
        return sign * compared(one, other, oracle) <= 0
    except (CellSplit, Undecided):
        return False
