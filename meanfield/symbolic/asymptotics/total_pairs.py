"""How far two inputs of one norm part in a network of L blocks, at l = tL. Source: derived here."""

from __future__ import annotations

import sympy as sp

from meanfield.symbolic.asymptotics.cells import Undecided
from meanfield.symbolic.asymptotics.growth import Growth, regular
from meanfield.symbolic.asymptotics.residual import Way
from meanfield.symbolic.asymptotics.total_equations import K_0, c_0, equal, h, k, t
from meanfield.symbolic.asymptotics.total_moves import Moves
from meanfield.symbolic.averages.node import average
from meanfield.symbols import Z


def pair_in_depth(moves: Moves, way: Way) -> tuple[Growth, Growth, tuple[sp.Eq, ...]]:
    """The distance of two inputs of one norm, γ, and the equations of h = lim K_ab, where q stays of order 1; a
    distance between its start and that times J where J stays bounded. Raises: `Undecided` elsewhere."""
    scale = moves.scales.scale() if way.drive == "total" else None
    if scale is None or scale.exploding:
        raise Undecided("how far two inputs part is derived in L where J stays bounded or all stays of order 1")
    still = moves.sign(scale.kappa) == 0
    if still and not scale.fed:
        gap = 2 * K_0 * (1 - c_0)
        return regular(gap), regular(2 * (way.K.constant or K_0) / gap - 1), ()
    if not still and way.J is not None and way.J.constant is None and not way.J.terms:
        return regular(None), way.K.of_unknown_size, ()
    if moves.branch.norm or scale.sign or not still:
        raise Undecided("how far two inputs part is derived in L where J stays bounded or all stays of order 1")
    assert way.K.constant is not None
    phi, v, a = moves.branch.phi.pieces.expr, moves.branch.v, moves.branch.a
    q, between = moves.across(scale, k(t)), moves.across(scale, h(t))
    change = v.size * t**-v.beta * average(phi * phi.xreplace({Z[0]: Z[1]}), (q, between, q))
    if scale.sourced and a is not None:
        change += a.size * t**-a.beta
    gap = way.K.constant - h(t)
    equations = (equal(sp.Derivative(h(t), t), change), equal(h(0), c_0 * K_0))
    return regular(2 * gap), regular(h(t) / gap), equations
