r"""How far apart the diagonal blocks of the Fisher information lie in a network of L blocks whose variances know L.

As in `fisher`, max/min over blocks and groups of local factors over J; here all of them are powers of L, affine in s on
each stretch of scales l = L^s (`total_profile`), so that extremes are met where stretches end. Where J outgrows every
power, the smallest is in the last block and the ratio that of J, unless all groups grow as J does.

Source: derived here.
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from meanfield.base.symbols import L
from meanfield.symbolic.asymptotics.in_total_depth.total_equations import t
from meanfield.symbolic.asymptotics.in_total_depth.total_moves import Moves
from meanfield.symbolic.asymptotics.in_total_depth.total_profile import EPS, DistanceRatio, S, first_sign, profile
from meanfield.symbolic.asymptotics.log_growth import Growth, regular
from meanfield.symbolic.asymptotics.schedules.fisher import fisher_law
from meanfield.symbolic.asymptotics.schedules.regimes import Regime

BIASES = ("G_b[1]", "G_b[2]")


def fisher_in_depth(moves: Moves, regime: Regime) -> Growth:
    """max/min of the mean diagonal of F over groups and all blocks, as L → ∞. Raises: `Undecided`."""
    if regime.plain is not None:
        return replace(fisher_law(regime.plain, moves.branch, moves.oracle), of=L)
    stretches, held, J_ = profile(moves), _held(moves), regime.J
    if J_ is not None and J_.stretched:
        beside = stretches[-1].exploding and not any(name in held for name in BIASES)
        if not beside or not regime.quotients:
            at_the_end = J_ / regime.K if beside else J_
            return replace(at_the_end.map(lambda e: sp.sympify(e).subs(t, 1)), of=L)
    powers = [f.subs({S: 0, EPS: 0}) for name, f in _factors(moves, stretches[0]).items() if name in held]
    for one in stretches:
        before, after = one.powers_of_J
        for place, J in ((one.begin, before), (one.end, after))[one.slow :]:
            powers += [sp.expand(one.at(f, place) - J) for name, f in _factors(moves, one).items() if name in held]
    top, bottom = powers[0], powers[0]
    for one in powers[1:]:
        top = one if first_sign(moves.oracle, one - top) > 0 else top
        bottom = one if first_sign(moves.oracle, one - bottom) < 0 else bottom
    gap = sp.expand(top - bottom)
    return replace(regular(None, gap.coeff(EPS, 0), gap.coeff(EPS, 1)), of=L)


def _held(moves: Moves) -> list[str]:
    """The groups of parameters that are there and random."""
    branch = moves.branch
    there = {"G_w[1]": branch.inner, "G_b[1]": branch.b, "G_w[2]": True, "G_b[2]": branch.a}
    return [name for name, one in there.items() if one]


def _factors(moves: Moves, one: DistanceRatio) -> dict[str, sp.Expr]:
    """The powers of L, as functions of s, of the local factors of G."""
    branch, scale = moves.branch, one.scale
    through = -one.scales.fall(branch.v)
    if one.exploding:  # relative to K, as J is
        return {"G_w[1]": through + scale.kappa, "G_w[2]": scale.kappa - one.scales.fall(branch.w)}
    through += one.power_of("slope") - (scale.y_d if branch.norm == "inner" else 0)
    entered = through + (0 if branch.norm == "first" else scale.kappa)
    return {"G_w[1]": entered, "G_b[1]": through, "G_w[2]": one.power_of("square"), "G_b[2]": sp.S.Zero}
