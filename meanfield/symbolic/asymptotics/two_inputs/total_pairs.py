r"""How far two inputs of one norm part in a network of L blocks, at l = tL: Δ = 2(K - K_ab) and γ = c/(1 - c).

K_ab ~ L^κ h(t) moves as K does, by ⟨φ_aφ_b⟩: in full where q is Θ(1), where q → 0 or ∞ by the kernel of a tail of φ
(`power_tails`). Δ grows by S l^{-V} L^{-Δ} R, R ≤ ⟨φ′²⟩, R → ⟨φ′²⟩ where the variance σ_w² l^{-β_w} L^{-δ_w} Δ of what
parts two inputs inside is small beside q (and beside 1, where only |z| = O(1) counts): Δ ~ J while K outgrows it. Where
φ saturates, log J outgrows log L and a source makes K, Δ is wide inside and moves by the power n = d + 1/2 that a tail
|z|^d leaves of 1 - c.

Source: derived here.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import L, Z
from meanfield.symbolic.asymptotics.comparing import direction
from meanfield.symbolic.asymptotics.exponent_cells import Undecided
from meanfield.symbolic.asymptotics.in_total_depth.total_equations import K_0, c_0, equal, h, in_t, integral, k, t
from meanfield.symbolic.asymptotics.in_total_depth.total_marginal import first_blocks
from meanfield.symbolic.asymptotics.in_total_depth.total_moves import Moves
from meanfield.symbolic.asymptotics.in_total_depth.total_profile import EPS, S, profile
from meanfield.symbolic.asymptotics.in_total_depth.total_scales import Scale
from meanfield.symbolic.asymptotics.in_total_depth.total_tangents import Rate, rate_of_J
from meanfield.symbolic.asymptotics.log_growth import CONSTANT, Growth, regular
from meanfield.symbolic.asymptotics.schedules.power_tails import Meeting, Tail, tail, unlike
from meanfield.symbolic.asymptotics.schedules.regimes import Regime
from meanfield.symbolic.asymptotics.schedules.residual import Solver
from meanfield.symbolic.asymptotics.two_inputs.pair_laws import pair_laws, require_tails_that_part
from meanfield.symbolic.averages.node import average

PairGrowths = tuple[Growth | None, Growth | None, tuple[sp.Eq, ...]]
GAP = 2 * K_0 * (1 - c_0)  # the distance behind the first blocks


def pair_in_depth(moves: Moves, regime: Regime) -> PairGrowths:
    """The distance, γ (None for one that is not derived) and the equations of h. Raises: `Undecided`."""
    distance, gamma, equations = _pair_growths(moves, regime)
    return distance and replace(distance, of=L), gamma and replace(gamma, of=L), equations


def _pair_growths(moves: Moves, regime: Regime) -> PairGrowths:
    if regime.drive == "marginal":
        return _marginal(moves, regime)
    if regime.plain is not None:
        plain = Solver(moves.branch, moves.oracle, moves.gradients, moves.strength, moves.inside)
        distance, gamma = pair_laws(plain, regime.plain)
        return distance and in_t(distance), gamma and in_t(gamma), ()
    if regime.drive == "slow":
        return _slow(moves, regime)
    scale = moves.scales.scale()
    if scale.exploding:
        return _exploding(moves, regime, scale)
    if moves.sign(scale.kappa) == 0:
        return _still(moves, regime, scale)
    if _is_bounded(regime):
        return regular(None), _unsized(regime.K), ()
    rate = rate_of_J(moves, scale)
    if rate.grows == 0 and rate.turn > 0 and regime.J is not None:
        _require_narrow(moves, scale)
        return *_by_distance(regime, regime.J.times(GAP) if not _has_free(regime.J) else regime.J), ()
    if rate.grows > 0 and rate.turn > 0:
        return _wide(moves, regime, scale, rate)
    raise Undecided("the distance of two inputs is not derived where J is made at every scale of l")


def _marginal(moves: Moves, regime: Regime) -> PairGrowths:
    """V = 1 with no L in the feedback: as in l where sources with L add nothing, γ unless it goes to 0, as then what
    they add to K_ab may count."""
    if regime.plain is None:
        raise Undecided("V = 1: the distance of two inputs is not derived where sources with L take over")
    distance, gamma = pair_laws(first_blocks(moves), regime.plain)
    if gamma is not None and direction(gamma, moves.oracle) < 0:
        gamma = None
    return distance and in_t(distance), gamma and in_t(gamma), ()


def _is_bounded(regime: Regime) -> bool:
    return regime.J is not None and regime.J.constant is None and not regime.J.terms


def _has_free(law: Growth) -> bool:
    return law.constant is None or law.constant.has(CONSTANT)


def _unsized(law: Growth) -> Growth:
    """The law up to a factor that depends on the start, and not on t."""
    if law.constant is None or not law.constant.has(t):
        return law.of_unknown_size
    return replace(law, constant=CONSTANT * law.constant.as_independent(t, as_Add=False)[1])


def _by_distance(regime: Regime, distance: Growth) -> tuple[Growth, Growth]:
    return distance, (regime.K / distance).times(sp.Integer(2))


def _by_share(regime: Regime, c: sp.Expr) -> tuple[Growth, Growth]:
    """Both where K_ab/K tends to c in (0, 1)."""
    return regime.K.times(2 * (1 - c)), regular(c / (1 - c))


def _slow(moves: Moves, regime: Regime) -> PairGrowths:
    """K grows as log L: the distance stays behind, as J is Θ(1)."""
    if _is_bounded(regime):
        return regular(None), _unsized(regime.K), ()
    if regime.J is None:
        raise Undecided("the distance of two inputs is not derived where J is made at every scale of l")
    _require_narrow(moves, moves.scales.scale())
    return *_by_distance(regime, regime.J.times(GAP) if not _has_free(regime.J) else regime.J), ()


WIDTH = (
    "q → ∞ while what parts two inputs inside stays of order 1, so that all of φ parts them, not its tails; no law of "
    "two inputs is derived"
)


def _require_narrow(moves: Moves, scale: Scale) -> None:
    """Refuse a distance of order 1 inside where ⟨φ′²⟩_q, q → ∞, is made at |z| = O(1) or by waves."""
    if scale.sign < 0 or not scale.on_w or moves.branch.norm or moves.sign(moves.branch.w.fall) > 0:
        return
    try:
        if tail(moves.branch.phi.pieces, True).d > sp.S.Half:
            return
    except MeanFieldError:
        pass
    raise Undecided(WIDTH)


# ------------------------------------------------------------------------------------------------- K of order 1


def _still(moves: Moves, regime: Regime, scale: Scale) -> PairGrowths:
    """K stays Θ(1): so do h, K_0 c_0 at t = 0, and the distance."""
    K_ = regime.K.constant or K_0
    if not scale.fed or not scale.on_w:  # what moves K is the same of both inputs
        return regular(GAP), regular(2 * K_ / GAP - 1), ()
    change, linear = _change_of_h(moves, scale)
    grown = None if linear is None else integral(linear)
    if grown is not None:  # K - K_ab moves by its own first power
        distance = GAP * sp.exp(grown)
        return regular(distance), regular(2 * K_ / distance - 1), ()
    gap = K_ - h(t)
    equations = (equal(sp.Derivative(h(t), t), change), equal(h(0), c_0 * K_0))
    return regular(2 * gap), regular(h(t) / gap), equations


def _change_of_h(moves: Moves, scale: Scale) -> tuple[sp.Expr, sp.Expr | None]:
    """(dh/dt, the rate at which k - h grows where that is linear)."""
    branch = moves.branch
    v, a = branch.v, branch.a
    whole, shared = moves.across(scale, k(t)), moves.across(scale, h(t), h(t) / k(t))
    rate, prefactor = None, v.size * t**-v.beta
    if scale.sign == 0:
        q, between = (sp.S.One, shared / whole) if branch.norm == "inner" else (whole, shared)
        phi = branch.phi.pieces.expr
        change = prefactor * average(phi * phi.xreplace({Z[0]: Z[1]}), (q, between, q))
    else:
        square = moves.average(branch.square, "square", scale, k(t)).constant
        assert square is not None
        kernel, c = _kernel(moves, scale, between := sp.Dummy("c", real=True)), sp.cancel(shared / whole)
        if kernel == between and not branch.norm and branch.zero.is_linear:
            rate = prefactor * branch.zero.of_square[2] * branch.w.size * t**-branch.w.beta
        change = prefactor * square * kernel.xreplace({between: c})
    if scale.sourced and a is not None:
        change += a.size * t**-a.beta
    return change, rate


def _kernel(moves: Moves, scale: Scale, c: sp.Expr) -> sp.Expr:
    """⟨φ_aφ_b⟩/⟨φ²⟩ at the end of q, of two inputs with correlation c."""
    found = _tail(moves, scale)
    return found if isinstance(found, sp.Expr) else found.kernel(c)


def _tail(moves: Moves, scale: Scale) -> Tail | sp.Expr:
    """The tail of φ at the end of q; of waves, what is left of ⟨φ_aφ_b⟩/⟨φ²⟩."""
    pieces = moves.branch.phi.pieces
    try:
        return tail(pieces, scale.sign > 0)
    except MeanFieldError as error:
        share = unlike(pieces) if scale.sign > 0 else None
        if share is None:
            raise Undecided(str(error)) from None
        return share


# -------------------------------------------------------------------------------- q → ∞ where log J outgrows log L


def _wide(moves: Moves, regime: Regime, scale: Scale, rate: Rate) -> PairGrowths:
    """⟨φ′²⟩_q lives at |z| = O(1): two inputs part until the tails of φ alone decide."""
    found = _tail(moves, scale)
    if scale.fed:
        return _meeting(moves, regime, scale, found)
    branch, v = moves.branch, moves.branch.v
    square = moves.average(branch.square, "square", scale, regime.K.constant).constant
    power = moves.scales.feedback(scale.kappa)  # of L in what the branch adds to K
    assert square is not None and regime.K.constant is not None
    prefactor = 2 * v.size * t**-v.beta * square
    if isinstance(found, sp.Expr):  # waves: inputs that differ share no more than `found`
        grown, n = integral(prefactor * (1 - found)), sp.S.Zero
    else:
        try:
            slope_of_gap, n = found.nearness()
        except MeanFieldError as error:
            raise Undecided(str(error)) from None
        grown = integral((1 - n) * prefactor * slope_of_gap / (2 * regime.K.constant) ** n)
        power = (power - n * scale.kappa) / (1 - n)
    if grown is None:
        raise Undecided("two inputs part by an integral that has no closed form; no law in L is derived")
    return *_by_distance(regime, regular(sp.powdenest(grown ** (1 / (1 - n)), force=True), power)), ()


def _meeting(moves: Moves, regime: Regime, scale: Scale, found: Tail | sp.Expr) -> PairGrowths:
    """K grows by its feedback: c is the root of c = (1 - s)κ(c) + s, s the share of its source, where all that makes K
    is one power of t; else h moves, as far below k as may be."""
    branch, at = moves.branch, regime.K.constant
    assert at is not None
    if not at.has(k(t)):
        rate, share = sp.simplify(t * sp.diff(at, t) / at), sp.S.Zero
        if scale.sourced and branch.a is not None:
            share = sp.simplify(branch.a.size * t ** (1 - branch.a.beta) / (rate * at))
        if rate.has(t) or share.has(t):
            raise Undecided("K is made by two powers of l, between which c moves; no law of two inputs is derived")
        if isinstance(found, sp.Expr):
            c = (1 - share) * found + share
        else:
            require_tails_that_part(found)
            c = Meeting(found.d, found.right, found.left, share).doit()
        if c != 0:
            return *_by_share(regime, c), ()
        return regime.K.times(sp.Integer(2)), _dying(moves, scale, found, rate), ()
    change, _ = _change_of_h(moves, scale)
    equations = (equal(sp.Derivative(h(t), t), change), equal(h(0), sp.S.Zero))
    gap = at - h(t)
    return regular(2 * gap, scale.kappa), regular(h(t) / gap), equations


def _dying(moves: Moves, scale: Scale, found: Tail | sp.Expr, e: sp.Expr) -> Growth | None:
    """c where it goes to 0, φ being odd far out: K_ab grows by the power κ′(0) of K, from where K begins to grow as
    l^e, or is what both inputs share, if that is more. None where K follows another line first, or two are of one
    order."""
    branch, parts = moves.branch, [(sp.S.Zero, sp.S.Zero)]  # powers of L and of t in K_ab
    try:
        if moves.sign(branch.w.fall) != 0 or not _grows_at_once(moves, scale.kappa, e):  # q is small before it is large
            return None
        if isinstance(found, Tail):
            x = (1 - found.d) / 2
            slope = 1 / sp.hyperexpand(sp.hyper((x, x), (sp.Rational(3, 2),), 1))
            parts = [(scale.kappa * slope, e * slope)]
            if branch.b is not None:
                parts.append((scale.kappa - branch.b.fall - scale.y, branch.w.beta - branch.b.beta))
        if branch.a is not None:
            parts.append((1 - branch.a.fall, 1 - branch.a.beta))
        if any(moves.sign(one - other) == 0 for (one, _), (other, _) in combinations(parts, 2)):
            return None
        power, of_t = parts[0]
        for one, other in parts[1:]:
            power, of_t = (one, other) if moves.sign(one - power) > 0 else (power, of_t)
    except Undecided:
        return None
    return regular(CONSTANT * t ** sp.expand(of_t - e), power - scale.kappa)


def _grows_at_once(moves: Moves, kappa: sp.Expr, e: sp.Expr) -> bool:
    """Whether K is of order 1 and from some scale of l on l^e, up to a factor."""

    def vanishes(form: sp.Expr) -> bool:
        return moves.sign(form.coeff(S, 1)) == moves.sign(form.coeff(S, 0)) == 0

    lines = [sp.expand(one.scale.kappa) for one in profile(moves)]
    whole = kappa + e * (S - 1)
    return not any(line.has(EPS) for line in lines) and all(
        vanishes(line) or vanishes(sp.expand(line - whole)) for line in lines
    )


# ------------------------------------------------------------------------------------------ K beyond every power


def _exploding(moves: Moves, regime: Regime, scale: Scale) -> PairGrowths:
    """⟨φ²⟩_q ~ v q: 1 - c closes by the 3/2 power that a kink between the tails leaves."""
    found = _tail(moves, scale)
    if isinstance(found, sp.Expr):
        raise Undecided("waves beside a linear feedback; no law of two inputs is derived")
    (slope_of_gap, _), V, begun = found.nearness(), moves.V, _at_the_start(moves)
    W, rho = moves.branch.strength * moves.branch.infinity.of_square[2], 1 - moves.branch.v.fall - moves.branch.w.fall
    order = -1 if slope_of_gap == 0 else moves.sign(2 * rho - begun)
    if order == 0:
        raise Undecided("a source leaves 1 - c as large as the feedback's kink does; no law of two inputs is derived")
    if order < 0:  # nothing parts directions, or less than a source drew them together before
        gamma = regular(None, begun)
        return _unsized(regime.K / gamma), gamma, ()
    rate = (
        slope_of_gap * W / (2 * (1 + W)) * t
        if moves.sign(rho - 1) == 0
        else slope_of_gap * W * t ** (1 - V) / (2 * (1 - V))
    )
    gamma = regular(rate**2, sp.expand(2 * rho))
    return (regime.K / gamma).times(sp.Integer(2)), gamma, ()


def _at_the_start(moves: Moves) -> sp.Expr:
    """The power of L in K/distance where the feedback begins to multiply K."""
    last = profile(moves)[-1]
    if last.scale.kappa.has(EPS) or sp.expand(last.J) != 0:
        raise Undecided("K and the distance both move before the feedback takes over; no law of two inputs is derived")
    return last.scale.kappa
