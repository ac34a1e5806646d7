"""The Jacobian J of a network of L blocks at l = tL: log J ~ L^ρ j(t), j' the rate of the terms of that order.

Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from meanfield.symbolic.asymptotics.exponent_cells import Undecided
from meanfield.symbolic.asymptotics.in_total_depth.total_equations import K_0, equal, integral, j, k, t
from meanfield.symbolic.asymptotics.in_total_depth.total_moves import Moves
from meanfield.symbolic.asymptotics.in_total_depth.total_profile import (
    EPS,
    DistanceRatio,
    first_sign,
    profile,
    share_of_scales,
)
from meanfield.symbolic.asymptotics.in_total_depth.total_scales import Scale
from meanfield.symbolic.asymptotics.log_growth import CONSTANT, Growth, exponential, regular


@dataclass(frozen=True)
class Rate:
    """log J changes by L^rho (log L)^logs · at(t) dt; grows: the sign of rho; turn: > 0 where that is made by blocks of
    the order of L, 0 where all scales have one share of it."""

    rho: sp.Expr
    logs: sp.Expr
    at: sp.Expr
    grows: int
    steep: sp.Expr | None
    bare: sp.Expr
    turn: int


def rate_of_J(moves: Moves, scale: Scale) -> Rate:
    """S l^{-V} L^{-Δ} ⟨φ′²⟩_q/N at l = tL."""
    end = moves.scales.end(scale.sign) if scale.sign else moves.branch.zero
    a1, n, _ = end.of_slope
    a1, n = (a1, n) if scale.sign else (a1, sp.S.Zero)
    bare = 1 - moves.branch.v.fall - moves.branch.w.fall + (a1 * scale.y if scale.sign else 0)
    norm = {"first": scale.kappa, "inner": scale.y_d}.get(moves.branch.norm, sp.S.Zero)
    rho = sp.expand(bare - norm)
    slope = moves.average(moves.branch.slope, "slope", scale, k(t)).constant
    divided = {"first": k(t), "inner": moves.across(scale, k(t))}.get(moves.branch.norm, sp.S.One)
    at = moves.branch.strength * t**-moves.V * slope / divided
    grows, steep = moves.sign(rho), _steepness(moves, scale, a1)
    turn = 1 if steep is None or grows < 0 else moves.sign(steep)
    return Rate(rho, n, at, grows, steep, bare, turn)


Found = tuple[Growth, tuple[sp.Eq, ...]]


def tangent(moves: Moves, scale: Scale, at: sp.Expr, solved: bool) -> Found:
    """J = Π (1 + S l^{-V} L^{-Δ} ⟨φ′²⟩_q/N), where blocks of the order of L make it, else by all scales of l."""
    try:
        return _at_the_end(moves, scale, at, solved)
    except Undecided:
        return by_all_scales(moves, scale)


def by_all_scales(moves: Moves, scale: Scale | None) -> Found:
    """J where blocks l ~ L^s, s < 1, have a share: a power for each stretch on which every scale has one, or the
    exponential of the largest sum of one scale. scale: how K moves at l = tL; None where it is c log L there."""
    stretches = profile(moves)

    def level(one: DistanceRatio) -> bool:
        return first_sign(moves.oracle, one.at(one.r, one.begin) - one.at(one.r, one.end)) == 0

    largest, peak = None, stretches[0]
    for one in stretches:
        for place in (one.begin, one.end):
            r = one.at(one.r, place)
            order = 1 if largest is None else first_sign(moves.oracle, r - largest)
            if order > 0 or (order == 0 and level(one) and not level(peak)):  # every scale of a level stretch adds
                largest, peak = r, one
    assert largest is not None
    power, logs = largest.coeff(EPS, 0), largest.coeff(EPS, 1)
    if moves.oracle.sign(power) > 0:
        if level(peak):
            length = (peak.end - peak.begin).coeff(EPS, 0)
            return exponential(share_of_scales(moves, peak) * length, power, 1 + logs, leading=True), ()
        return exponential(CONSTANT, power, logs, leading=True), ()
    if moves.oracle.sign(power) == 0 and moves.oracle.sign(logs) > 0:
        raise Undecided("log J grows by powers of log L at one scale of l; no law in L is derived")
    found, last = stretches[-1].powers_of_J[1], stretches[-1]
    prefactor = (found.coeff(EPS, 0), found.coeff(EPS, 1))
    if last.J == 0 == prefactor[1]:
        prefactor = (last.flat * (last.end - last.begin), sp.S.Zero)  # one product reads best
    if scale is None:
        if (sign := first_sign(moves.oracle, last.at(last.r, last.end))) < 0 or last.flat != 0:
            return regular(None if sign < 0 else CONSTANT * t**last.flat, *prefactor), ()
        raise Undecided("J moves as K grows as log L; no law of J in L is derived")
    alike = replace(last.scale, kappa=scale.kappa, y=scale.y, y_d=scale.y_d) == scale
    rate = rate_of_J(moves, scale)
    if rate.grows < 0:
        return regular(None, *prefactor), ()
    if alike and (last.flat != 0 or first_sign(moves.oracle, last.at(last.r, last.end)) < 0):
        return regular(CONSTANT * t**last.flat, *prefactor), ()
    equations = (equal(sp.Derivative(j(t), t), rate.at), equal(j(1), sp.S.Zero))
    return regular(CONSTANT * sp.exp(j(t)), *prefactor), equations


def _at_the_end(moves: Moves, scale: Scale, at: sp.Expr, solved: bool) -> Found:
    """J where blocks of the order of L make it."""
    found = rate_of_J(moves, scale)
    rho, n, rate, grows, turn = found.rho, found.logs, found.at, found.grows, found.turn
    if grows < 0:
        if moves.sign(scale.kappa) > 0 and not _surely_bounded(moves, scale, found.bare, found.steep):
            return by_all_scales(moves, scale)
        return regular(None), ()
    if moves.branch.norm and turn > 0 and moves.sign(scale.kappa) > 0 and profile(moves)[-1].powers_of_J[1] != 0:
        return by_all_scales(moves, scale)
    if turn <= 0 or (grows == 0 and n != 0):
        raise Undecided("J grows with every scale of l from some L^s on; no law in L is derived")
    equations = (equal(sp.Derivative(j(t), t), rate), equal(j(0), sp.S.Zero))
    value = integral(rate.subs(k(t), at)) if solved else None
    if value is None and solved and moves.branch.norm == "first" and moves.sign(scale.kappa) == 0:
        share = sp.simplify(rate.subs(k(t), at) * at / sp.diff(at, t))
        value = None if share.has(t) else share * sp.log(at / K_0)
    value = j(t) if value is None else value
    if grows > 0:
        return exponential(value, rho, n, leading=True), equations
    early = moves.sign(scale.kappa) > 0 and moves.sign(moves.D) == 0
    return regular(sp.exp(value) * (CONSTANT if early else 1)), equations


def _surely_bounded(moves: Moves, scale: Scale, bare: sp.Expr, steep: sp.Expr | None) -> bool:
    """Whether affine forms show that no scale of l adds to log J; those of the order of L do not, ρ < 0 < κ."""
    v, w = moves.branch.v, moves.branch.w
    if moves.branch.norm == "inner":  # 1/N ≤ l^{β_w} L^{δ_w}/σ_w²
        return moves.sign(1 - v.fall) < 0
    flat = moves.branch.zero.of_slope[0] >= 0
    if moves.branch.norm:  # 1/K is bounded
        return flat and moves.sign(bare) < 0
    if scale.sign <= 0 and flat:  # convex in s
        return True
    if flat and moves.sign(1 - v.fall - w.fall) < 0:  # ⟨φ′²⟩ is bounded
        return moves.branch.infinity.of_slope[0] <= 0
    return steep is not None and moves.sign(steep) > 0


def _steepness(moves: Moves, scale: Scale, a1: sp.Expr) -> sp.Expr | None:
    """The power of t with which the sum in log J starts; it is made at l of the order of L where this is > 0. None
    where that is known: K stays Θ(1), or ⟨φ′²⟩_q and N do not vary."""
    w, b = moves.branch.w, moves.branch.b
    norm = moves.branch.norm
    if not norm and a1 == 0:
        return 1 - moves.V if moves.sign(moves.D) == 0 else None
    moving = moves.sign(scale.kappa) > 0
    e = sp.S.Zero
    if moving and (norm or scale.on_w):
        e = moves.slope_of_K(scale)
    across = []
    if scale.on_w:
        across.append((sp.S.Zero if norm == "first" else e) - w.beta)
    if scale.on_b and b is not None:
        across.append(-b.beta)
    inner = moves.least(across)
    falls = {"first": e, "inner": inner}.get(norm, sp.S.Zero)
    still = norm == "inner" or (scale.sign == 0 and (norm == "first" or not moving))
    return 1 - moves.V + (sp.S.Zero if still else a1 * inner) - falls


def slow_tangent(moves: Moves, rho: sp.Expr, rate: Growth) -> Growth:
    """J where K grows as log L."""
    if moves.sign(rho) < 0 or (rate.power_of(1).is_number and rate.power_of(1) < 0 and not moves.branch.norm):
        return regular(None)
    value = integral(rate.constant) if rate.constant is not None else None
    if moves.branch.norm or rate.power_of(1) != 0 or value is None or moves.sign(moves.D) == 0:
        return by_all_scales(moves, None)[0]
    return regular(sp.exp(value))
