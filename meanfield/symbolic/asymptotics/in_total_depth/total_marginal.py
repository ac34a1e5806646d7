r"""Laws in L at V = 1 where no variance of a weight knows L: the first blocks end as a network without the sources that
fall with L does (`residual`), at K ~ l^κ, q → 0, q* or ∞; its sources follow as powers of L.

A source that adds L^{-δ} l^e to K overtakes l^κ at some l = L^s, e > κ, and is multiplied there by 1/(e - W), W the
feedback's power at the end of q. Where it takes q past 1, at s_c, W and J's power of l are those of q → ∞ from there
on: J ~ L^{p s_c + p′(1 - s_c)}. Where it does so at l = tL alone, k and j solve their equations from t = 0, where k is
what the first blocks make of it.

Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.symbolic.asymptotics.exponent_cells import Undecided
from meanfield.symbolic.asymptotics.in_total_depth.total_equations import equal, in_t, j, k, t
from meanfield.symbolic.asymptotics.in_total_depth.total_moves import Moves
from meanfield.symbolic.asymptotics.log_growth import CONSTANT, Growth, regular
from meanfield.symbolic.asymptotics.schedules.branch import Asymptote, Variance
from meanfield.symbolic.asymptotics.schedules.regimes import Regime
from meanfield.symbolic.asymptotics.schedules.residual import Solver


@dataclass(frozen=True)
class Force:
    """size · l^{power - 1} L^{-lost}, added to K in every block."""

    size: sp.Expr
    power: sp.Expr
    lost: sp.Expr

    @property
    def reach(self) -> sp.Expr:
        """The power of L that it adds to K."""
        return sp.expand(self.power - self.lost)


def first_blocks(moves: Moves) -> Solver:
    """The network that the first blocks see: without sources that fall with L."""

    def stays(one: Variance | None) -> Variance | None:
        return None if one is None or moves.sign(one.total) != 0 else one

    early = replace(moves.branch, a=stays(moves.branch.a), b=stays(moves.branch.b))
    return Solver(early, moves.oracle, moves.gradients, moves.strength, True)


def marginal(moves: Moves) -> list[Regime]:
    """Every attracting behaviour. Raises: `Undecided`."""
    solver = first_blocks(moves)
    try:
        return [_later(moves, solver, one) for one in solver.regimes()]
    except Undecided:
        raise
    except MeanFieldError as error:
        raise Undecided(str(error)) from None


def _later(moves: Moves, solver: Solver, regime: Regime) -> Regime:
    """What sources that fall with L make of the regime in which the first blocks are."""
    if not regime.K.is_regular:
        raise Undecided("V = 1: K outgrows powers before sources with L count; no law in L is derived")
    logs = moves.sign(regime.K.power_of(1))  # beside log l a source of the same power is lost
    late = [
        one
        for one in _forces(moves, solver, regime)
        if (order := moves.sign(one.reach - regime.K.exponent)) > 0 or (order == 0 and logs <= 0)
    ]
    if not late:
        words = "sources that fall with L add nothing"
        b, end = moves.branch.b, None if _is_far(regime) else regime.end
        late_b = None if solver.branch.b is not None else b
        if late_b is not None and end is not None and moves.sign(regime.q.exponent + late_b.fall) <= 0:
            return _ended(moves, regime, in_t(regime.K), end, regime.J and in_t(regime.J), f"{words} but to q")
        words = f"l = tL: {regime.regime}; {words}"
        return Regime(
            in_t(regime.K), in_t(regime.q), in_t(regime.square), regime.slope and in_t(regime.slope),
            regime.J and in_t(regime.J), words, regime.basin, regime.end, "marginal", plain=regime,
        )  # fmt: skip
    if regime.drive in ("rest", "slow", "slow fall"):
        return _past(moves, regime, late[0])
    top = late[0]
    for one in late[1:]:
        top = one if moves.sign(one.reach - top.reach) > 0 else top
    crossed = -1 if _is_far(regime) or moves.branch.degree is not None else moves.sign(top.reach - moves.branch.w.beta)
    if crossed >= 0:
        return _past(moves, regime, top)
    assert regime.end is not None
    parts = [one for one in late if moves.sign(one.reach - top.reach) == 0]
    W = _feedback(moves, regime.end)
    size = sp.Add(*[one.size * t**one.power / (one.power - W) for one in parts])
    if moves.sign(top.reach - regime.K.exponent) == 0:
        size += (CONSTANT if regime.K.constant is None else regime.K.constant) * t**regime.K.exponent
    return _ended(
        moves, regime, regular(size, top.reach), regime.end, regime.J and in_t(regime.J), "a source takes K over"
    )


def _is_far(regime: Regime) -> bool:
    return regime.end is not None and regime.end.square.point != 0


def _feedback(moves: Moves, end: Asymptote) -> sp.Expr:
    """W: the power of l that K has by its feedback alone, S v where ⟨φ²⟩_q ~ v q, else 0 beside a source."""
    return moves.branch.strength * end.of_square[2] if end.is_linear else sp.S.Zero


def _forces(moves: Moves, solver: Solver, regime: Regime) -> list[Force]:
    """Sources that fall with L: biases b count where q → 0, and where φ is homogeneous."""
    branch, found = moves.branch, []
    a, b, v = branch.a, branch.b, branch.v
    if a is not None and solver.branch.a is None:
        found.append(Force(a.size, 1 - a.beta, a.total))
    if b is not None and solver.branch.b is None and regime.drive != "rest" and (branch.degree or not _is_far(regime)):
        power, n, size = branch.zero.of_square
        if n != 0:
            raise Undecided("⟨φ²⟩_q has a logarithm of q there; no law in L is derived")
        found.append(Force(v.size * size * b.size**power, 1 - v.beta - power * b.beta, power * b.total))
    return found


def _past(moves: Moves, regime: Regime, force: Force) -> Regime:
    """The source takes q past 1, or past where it rests, at l = L^s, s ≤ 1."""
    branch, far = moves.branch, moves.branch.infinity
    e, m = force.power, force.power - branch.w.beta
    place = sp.cancel(force.lost / m)
    last = moves.sign(place - 1)
    if last == 0:
        if regime.drive == "slow fall":
            raise Undecided("V = 1: q falls as 1/log l until a source moves it; no law in L is derived")
        return _moving(moves, regime, force)
    W, rest = _feedback(moves, far), 1 - place
    order = moves.sign(e - W) if far.is_linear else 1
    if order > 0:
        K_ = regular(force.size * t**e / (e - W), force.reach)
    elif order == 0:
        K_ = regular(force.size * t**e * rest, force.reach, 1)
    else:
        K_ = regular(CONSTANT * t**W, sp.expand(branch.w.beta * place + W * rest))
    J_ = None
    if moves.gradients:
        a1, n, v1 = far.of_slope
        before = _J_until(regime, place)
        if (a1, n) == (0, 0):
            after = branch.strength * v1
            J_ = before * regular(t**after, sp.expand(after * rest))
        elif a1 < 0:
            J_ = before
        else:
            raise Undecided("⟨φ′²⟩_q tends to no number at q → ∞; no law in L is derived")
    return _ended(moves, regime, K_, far, J_, f"from l = L^({place}) on a source takes q to ∞")


def _J_until(regime: Regime, place: sp.Expr) -> Growth:
    """J in block L^place, up to a constant: log l there is place·log L."""
    assert regime.J is not None
    found = regular(CONSTANT)
    for key, c in regime.J.terms:
        p, logs, more, most = key
        if p != 0 or most != 0 or (logs != 0 and more != 0) or more not in (0, 1, 2):
            raise Undecided("V = 1: J is no power before a source with L counts; no law of it in L is derived")
        found = found * Growth(((key, c * place**logs),))
        if more == 2:  # (log log L + log place)²
            found = found * regular(1, 0, 2 * c * sp.log(place))
    return replace(found, leading=regime.J.leading)


def _moving(moves: Moves, regime: Regime, force: Force) -> Regime:
    """q moves in t."""
    branch, start = moves.branch, regime.K.exponent
    v, w, b = branch.v, branch.w, branch.b
    q = w.size * t**-w.beta * k(t)
    if b is not None and moves.sign(b.fall) == 0:
        q += b.size
    change = v.size * t**-v.beta * moves.value("square", q) + force.size * t ** (force.power - 1)
    if regime.drive == "rest":
        first = regime.K.constant * t**start
    else:
        assert regime.end is not None
        first = force.size * t**force.power / (force.power - _feedback(moves, regime.end))
    limit = [equal(sp.Derivative(k(t), t), change), equal(sp.Limit(k(t) / first, t, 0), sp.S.One)]
    K_, q_ = regular(k(t), w.beta), regular(q)
    J_ = slope = None
    if moves.gradients:
        slope = regular(moves.value("slope", q))
        limit += [
            equal(sp.Derivative(j(t), t), branch.strength * moves.value("slope", q) / t),
            equal(j(1), sp.S.Zero),
        ]
        J_ = _J_until(regime, sp.S.One) * regular(sp.exp(j(t)))
    words = f"l = tL: {regime.regime}, until a source moves it at l of the order of L"
    square = regular(moves.value("square", q))
    return Regime(K_, q_, square, slope, J_, words, regime.basin, None, "marginal", limit=tuple(limit))


def _ended(moves: Moves, regime: Regime, K_: Growth, end: Asymptote, J_: Growth | None, words: str) -> Regime:
    """The regime where K is `K_` and q at one of its ends."""
    w, b = moves.branch.w, moves.branch.b
    q = K_ * regular(w.size * t**-w.beta, -w.beta)
    if b is not None:
        order = moves.sign(q.exponent + b.fall)
        other = regular(b.size * t**-b.beta, -b.fall)
        if order < 0:
            q = other
        elif order == 0 and q.power_of(1) == 0 and q.constant is not None:
            q = replace(q, constant=q.constant + b.size * t**-b.beta)

    def at(law: tuple[sp.Expr, sp.Expr, sp.Expr]) -> Growth:
        a, n, v = law
        if n != 0:
            raise Undecided("an average has a logarithm of q there; no law in L is derived")
        return q**a * regular(v)

    slope = at(end.of_slope) if moves.gradients else None
    J_ = replace(J_, constant=None) if J_ is not None and J_.constant == CONSTANT else J_
    words = f"l = tL: {regime.regime}; {words}"
    return Regime(K_, q, at(end.of_square), slope, J_, words, regime.basin, end, "marginal")
