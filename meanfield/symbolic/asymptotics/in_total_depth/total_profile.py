r"""Powers of L at every scale l = L^s of a residual network of L blocks, 0 ≤ s ≤ 1: K ~ L^κ(s), J, and who makes them.

κ, the power of q and the power r of what the blocks of one scale add to log J are piecewise affine in s. On a stretch
`Scales` finds them with s a symbol, by an oracle that knows what holds just after the stretch begins (`Just`); the
stretch ends where one of the forms it asked about changes its sign. ε = log log L/log L stands in exponents for powers
of log L: it is > 0 and smaller than every number, so that crossings of laws with logarithms lie at places s₀ + s₁ε.

Where r < 0 nothing is added to log J, where r = 0 on a whole stretch J grows as a power, where r > 0 log J outgrows
log L. Where the feedback of q → 0 passes 1, K jumps, to where q is 1, and J by as much times v′/v, ⟨φ²⟩ ~ v q^a and
⟨φ′²⟩ ~ v′q^{a-1}. Where ⟨φ²⟩_q ~ v q far out, K then outgrows every power, as does J, K/J staying a power for v = v′.

Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import sympy as sp

from meanfield.symbolic.asymptotics.exponent_cells import Undecided
from meanfield.symbolic.asymptotics.in_total_depth.total_equations import k, t
from meanfield.symbolic.asymptotics.in_total_depth.total_moves import Moves
from meanfield.symbolic.asymptotics.in_total_depth.total_scales import Scale, Scales
from meanfield.symbolic.asymptotics.log_growth import SignOracle

S = sp.Symbol("s_place", real=True)
EPS = sp.Symbol("epsilon_log", positive=True)


@dataclass(frozen=True)
class Just:
    """Signs of forms in s just after a place; `asked`: the forms that were asked about."""

    oracle: SignOracle
    place: sp.Expr
    asked: list[sp.Expr] = field(default_factory=list)

    def sign(self, form: sp.Expr) -> int:
        form = sp.expand(form)
        self.asked.append(form)
        if self.place == 0:  # what K gains as log l is no power of log L where l is none of L
            return self.oracle.sign(form.coeff(EPS, 0).subs(S, 0)) or first_sign(
                self.oracle, form.coeff(S, 1) + EPS * form.coeff(S, 0).coeff(EPS, 1)
            )
        return first_sign(self.oracle, form.subs(S, self.place)) or self.oracle.sign(form.coeff(S, 1))


def first_sign(oracle: SignOracle, e: sp.Expr) -> int:
    """The sign of a + bε."""
    e = sp.expand(e)
    return oracle.sign(e.coeff(EPS, 0)) or oracle.sign(e.coeff(EPS, 1))


@dataclass(frozen=True)
class DistanceRatio:
    """From begin to end one set of terms makes K; all exponents are functions of s. J: the power of L in J at begin;
    r: that of what a scale adds to log J; flat: J's power per s, where every scale has one share; slow: whether K gains
    a logarithm on the stretch, which it has not where that begins."""

    begin: sp.Expr
    end: sp.Expr
    scale: Scale
    scales: Scales
    J: sp.Expr
    r: sp.Expr
    flat: sp.Expr
    slow: bool

    @property
    def exploding(self) -> bool:
        return self.scale.exploding

    def at(self, form: sp.Expr, place: sp.Expr) -> sp.Expr:
        return sp.expand(form.subs(S, place))

    @property
    def powers_of_J(self) -> tuple[sp.Expr, sp.Expr]:
        """At begin and end."""
        return self.J, sp.expand(self.J + self.flat * (self.end - self.begin))

    def power_of(self, which: str) -> sp.Expr:
        """That of ⟨φ²⟩_q or ⟨φ′²⟩_q as a function of s."""
        if self.scale.sign == 0:
            return sp.S.Zero
        end = self.scales.end(self.scale.sign)
        a, n, _ = end.of_square if which == "square" else end.of_slope
        return sp.expand(a * self.scale.y + n * EPS)


def profile(moves: Moves) -> list[DistanceRatio]:
    """The stretches in their order. Raises: `Undecided` where the σ's decide powers, or an order that is not known."""
    place, floor, J, found = sp.S.Zero, sp.S.Zero, sp.S.Zero, list[DistanceRatio]()
    slow: sp.Expr | None = None  # c of K ~ c log l
    gained = False
    for _ in range(40):
        here = Just(moves.oracle, place)
        scales = Scales(moves.branch, here, S)
        scale = scales.scale(floor)
        more = _over_all_scales(moves, scales, scale, floor)
        if more != 0:
            slow = _of_log(moves, scales, scale) if place == 0 and slow is None else None
            floor, gained = sp.expand(floor + more * EPS), True
            continue
        start = sp.expand(scale.kappa.subs(S, place))
        if first_sign(moves.oracle, start - floor) > 0 and not scale.exploding:
            J = sp.expand(J + (start - floor) * _jump(moves, scales, floor))
            place = sp.expand(place + EPS / (1 - moves.V))
            floor = sp.expand(scale.kappa.subs(S, place))
            J = sp.expand(J + (floor - start) * _landing(moves))
            continue
        if sp.expand(scale.kappa - floor) != 0 and not scale.exploding:
            here = Just(moves.oracle, place)  # asks about K as it moves, not about what it was
            scales = Scales(moves.branch, here, S)
            scale = scales.scale(scale.kappa)
        if scale.exploding:
            J = sp.expand(J + _before(moves, scales, floor, place))
            scale = replace(scale, kappa=floor)
        r = _rate(moves, scales, scale)
        if r == -EPS and place == 0 and slow is not None:  # Σ 1/(l log l)
            J = sp.expand(J + EPS * _share(moves, scales, scale, slow))
        else:
            _require_powers(moves.oracle, place, r)
        flat = sp.S.Zero if scale.exploding or here.sign(r) != 0 else _share(moves, scales, scale)
        end = sp.S.One if scale.exploding else _end(moves.oracle, place, here.asked)
        found.append(DistanceRatio(place, end, scale, scales, J, r, flat, gained))
        gained = False
        if end == 1:
            return found
        J = found[-1].powers_of_J[1]
        place, floor = end, sp.expand(scale.kappa.subs(S, end))
    raise Undecided("K changes its law at more scales of l than are followed")


def _end(oracle: SignOracle, place: sp.Expr, asked: list[sp.Expr]) -> sp.Expr:
    """The first place after this one where a form changes its sign; 1 where that is the end of the network."""
    end = sp.S.One
    for form in dict.fromkeys(asked):
        slope = form.coeff(S, 1)
        value = sp.expand(form.subs(S, place))
        if place == 0 and value.coeff(EPS, 0) == 0:
            continue
        if not form.has(S) or first_sign(oracle, value) * oracle.sign(slope) >= 0:
            continue
        root = sp.expand(place - value / slope)
        end = root if first_sign(oracle, root - end) < 0 else end
    return end


def _over_all_scales(moves: Moves, scales: Scales, scale: Scale, floor: sp.Expr) -> sp.Expr:
    """The power of log L that K gains by terms of its own size at every scale of a stretch; 0 where there are none."""
    if sp.expand(scale.kappa - floor) != 0 or scale.exploding:
        return sp.S.Zero
    if scale.fed and scales.sign(scales.feedback(floor) - floor) == 0:
        if scale.on_w and not moves.branch.norm:
            a = scales.square_power(scale.sign)
            if scale.sign == 0 or a == 1:
                raise Undecided("K feeds back at every scale of l with no L in it; the σ's decide powers of L")
            return 1 / (1 - a)
        return sp.S.One
    return sp.S.One if scale.sourced else sp.S.Zero


def _of_log(moves: Moves, scales: Scales, scale: Scale) -> sp.Expr | None:
    """c of K ~ c log l, where nothing of K feeds it."""
    change = sp.simplify(t * moves.at(scales).equation(scale))
    return None if change.has(t) else change


def _jump(moves: Moves, scales: Scales, floor: sp.Expr) -> sp.Expr:
    """log J/log K where K goes as an exponential by the feedback of q → 0."""
    if moves.branch.norm or scales.given(floor)[1] >= 0:
        raise Undecided("K jumps without a feedback that is known")
    zero = moves.branch.zero
    (a, n, v), (a1, n1, v1) = zero.of_square, zero.of_slope
    if (n, n1) != (0, 0) or a1 != a - 1:
        raise Undecided("⟨φ′²⟩_q is not of the order of ⟨φ²⟩_q/q at q → 0; no law of J in L is derived")
    return sp.simplify(v1 / v)


def _landing(moves: Moves) -> sp.Expr:
    """log J/log K where q has passed 1, as far as that is a number."""
    (a, n, v), (a1, n1, v1) = moves.branch.infinity.of_square, moves.branch.infinity.of_slope
    return sp.simplify(v1 / v) if (a1, n, n1) == (a - 1, 0, 0) else sp.S.Zero


def _before(moves: Moves, scales: Scales, floor: sp.Expr, place: sp.Expr) -> sp.Expr:
    """What J gains less K while q → 1, before the feedback of q → ∞ takes over."""
    y, sign = scales.given(floor)
    if sign >= 0 or moves.branch.degree is not None:
        return sp.S.Zero
    gained = -y.subs(S, place)
    return sp.expand(gained * (_jump(moves, scales, floor) - 1))


def _rate(moves: Moves, scales: Scales, scale: Scale) -> sp.Expr:
    """r(s)."""
    branch = moves.branch
    end = scales.end(scale.sign) if scale.sign else branch.zero
    a1, n, _ = end.of_slope
    out = S - scales.fall(branch.v) - scales.fall(branch.w)
    if scale.exploding:
        return sp.expand(out)
    if scale.sign:
        out += a1 * scale.y + n * EPS
    return sp.expand(out - {"first": scale.kappa, "inner": scale.y_d}.get(branch.norm, sp.S.Zero))


def _require_powers(oracle: SignOracle, place: sp.Expr, r: sp.Expr) -> None:
    """Refuse sums of powers of log l, over all scales of a stretch, which add up to no power of L."""
    logs = r.coeff(EPS, 1)
    if logs == 0 or oracle.sign(r.coeff(S, 1)) or oracle.sign(sp.expand(r.subs(S, place)).coeff(EPS, 0)):
        return
    if oracle.sign(logs + 1) > 0 or (place == 0 and oracle.sign(logs + 1) == 0):
        raise Undecided("log J grows with every scale of l by a power of its logarithm; no law in L is derived")


def share_of_scales(moves: Moves, one: DistanceRatio) -> sp.Expr:
    """What log J gains per e-fold of l on a stretch, over L^r."""
    return _share(moves, one.scales, one.scale)


def _share(moves: Moves, scales: Scales, scale: Scale, at: sp.Expr | None = None) -> sp.Expr:
    """The same: where r = 0, J's power of l; at: K, where it is not what moves."""
    inside = moves.at(scales)
    if at is None and (scale.fed or scale.sourced):
        at = inside.solved(scale)
    slope = inside.average(moves.branch.slope, "slope", scale, k(t)).constant
    divided = {"first": k(t), "inner": inside.across(scale, k(t))}.get(moves.branch.norm, sp.S.One)
    rate = moves.branch.strength * t ** (1 - moves.V) * slope / divided
    if rate.has(k):
        if at is None or at.has(k):
            raise Undecided("J grows with every scale of l by a power that depends on the start")
        rate = rate.subs(k(t), at)
    rate = sp.simplify(sp.powdenest(sp.expand_power_base(rate, force=True), force=True))
    if rate.has(t):
        raise Undecided("J grows with every scale of l, K by two terms; no law of J in L is derived")
    return rate
