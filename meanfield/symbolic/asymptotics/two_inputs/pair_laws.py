r"""How far two inputs of one norm end apart: the distance Δ = 2(K - K_ab) and γ = c/(1 - c), c = K_ab/K.

Δ → Δ (1 + S l^{-V} R), R = ⟨(φ_a - φ_b)²⟩/δ at δ = σ_w² l^{-β_w} Δ. As R is the mean of ⟨φ′φ′⟩ over correlations up to
1, R ≤ ⟨φ′²⟩, so Δ^l/Δ^1 ≤ J^{1,l} for every φ. ε = 1 - c goes to 0 by a power where K has a larger source than its
feedback, or by the 3/2 power that a kink leaves; else to a root. Source: derived here.
"""

from __future__ import annotations

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, K_ab, Z
from meanfield.functions.series.taylor import fractional
from meanfield.symbolic.asymptotics.comparing import added, summed
from meanfield.symbolic.asymptotics.exponent_cells import Undecided
from meanfield.symbolic.asymptotics.log_growth import Growth, regular
from meanfield.symbolic.asymptotics.schedules.balance import Correlated
from meanfield.symbolic.asymptotics.schedules.power_tails import Meeting, Tail, tail, unlike
from meanfield.symbolic.asymptotics.schedules.regimes import Regime, sign_of
from meanfield.symbolic.asymptotics.schedules.residual import Solver
from meanfield.symbolic.averages.expansions.expansion import at_infinity
from meanfield.symbolic.averages.node import average

_T = sp.Dummy("t", positive=True)
SQUARE_INTEGRABLE = (-sp.S.Half, 0)  # ⟨φ²⟩_q ~ v/√q: φ² has a finite integral, so that q → ∞ meets φ ever more rarely
Pair = tuple[Growth | None, Growth | None]


def pair_laws(solver: Solver, regime: Regime) -> Pair:
    """The laws of Δ and γ along one regime; None for one that is not derived."""
    if regime.drive == "normed":
        raise Undecided("behind a LayerNorm the distance of two inputs is not derived")
    if regime.drive == "weak":
        return _by_distance(regime, regular(None))
    if regime.drive == "rest":
        return _at_rest(solver, regime)
    if regime.drive == "slow fall":
        return _falling(solver, regime)
    if regime.end is None:
        return None, None
    far = regime.end.square.point != 0
    try:
        found = tail(solver.branch.phi.pieces, far)
    except MeanFieldError:
        if far and regime.end.of_square[:2] == SQUARE_INTEGRABLE:
            return _square_integrable(solver, regime)
        share = unlike(solver.branch.phi.pieces) if far else None
        if share is None:
            raise Undecided(f"{solver.branch.phi} is no power of |z| at this end") from None
        return _waves(solver, regime, share)
    try:
        if regime.end.is_linear:
            return _linear(solver, regime, found)
        if regime.grows_by_source:
            return _behind_source(solver, regime, found)
        return _meeting(solver, regime, found)
    except Undecided:
        raise
    except MeanFieldError as error:
        raise Undecided(str(error)) from None


def _falling(solver: Solver, regime: Regime) -> Pair:
    """q falls as a power of log l, as S⟨φ²⟩_q - β_w q ~ -q^s does: of the terms of that order in ⟨φ_aφ_b⟩ those of
    φ′(0)z with another are linear in c, as K is, and move nothing; ⟨|z_a|^s|z_b|^s⟩, of an even part, does. What
    follows adds up to a finite number.
    """
    found = [fractional(e.subs(Z[0], side * _T), _T, 3)[0] for side, e in zip((1, -1), _around(solver))]
    assert regime.end is not None
    s = regime.end.square.terms[1].power
    if found[0].get(1, 0) != -found[1].get(1, 0) or regime.end.square.terms[1].logs != 0:
        raise Undecided("q falls as a power of log l beside a kink; how two inputs move apart meanwhile is not derived")
    even = sp.simplify(sp.Add(*(one.get(s, sp.S.Zero) for one in found)) / 2)
    if even == 0:
        return regime.K.of_unknown_size, regular(None)
    if s != 2:
        raise Undecided(f"an even part |z|^({s}) of φ moves c as q falls; no law is derived there")
    return regime.K, regular(1)  # dc ~ (1 - c)(1 - 2c): c → 1/2


def _around(solver: Solver) -> list[sp.Expr]:
    """φ on the right and on the left of 0."""
    return list(reversed(solver.branch.phi.pieces.around_zero()))


def _by_distance(regime: Regime, distance: Growth) -> Pair:
    return distance, (regime.K / distance).times(sp.Integer(2))


def _linear(solver: Solver, regime: Regime, found: Tail) -> Pair:
    """⟨φ²⟩_q ~ v q: ε falls by d log ε = -W l^{-V} k √ε where φ has a kink between its tails."""
    assert regime.end is not None
    W, V, (k, _) = solver.S * regime.end.of_square[2], solver.V, found.nearness()
    strong = solver.sign(1 - V)
    if regime.drive == "source" or (regime.drive == "tie" and k == 0):  # what both share outgrows Δ
        return _by_distance(regime, regular(None, W))
    if k == 0:  # nothing parts directions
        unknown = regular(None)
        return regime.K.of_unknown_size, unknown
    if strong > 0 and solver.sign(V) == 0:
        gamma = regular((k * W / (2 * (1 + W))) ** 2, 2)
    elif strong > 0:
        gamma = regular((k * W / (2 * (1 - V))) ** 2, 2 * (1 - V))
    else:
        gamma = regular((k * W * (1 if regime.drive == "tie" else sp.S.Half)) ** 2, 0, 2)
    return (regime.K / gamma).times(sp.Integer(2)), gamma


def _meeting(solver: Solver, regime: Regime, found: Tail) -> Pair:
    """K grows by its feedback: c goes to the root of c = (1 - s)κ(c) + s, or to 1 where that has no other."""
    require_tails_that_part(found)
    share = regime.share
    pull = sp.oo if found.slope == sp.oo else (1 - share) * found.slope - 1
    sign = 1 if pull == sp.oo else solver.sign(pull) if not pull.free_symbols else sign_of(pull)
    if sign < 0:
        return _by_distance(regime, regular(None, regime.K.exponent * (1 - share) * found.slope))
    if sign == 0:
        raise Undecided("two inputs meet at a marginal rate; no law is derived")
    c = Meeting(found.d, found.right, found.left, share).doit()
    own = _own_share(solver, regime)
    if own != 1:  # c is of what φ is given: 1 - K_ab/K = (1 - c)/own
        return regime.K.times(2 * (1 - c) / own), regular((own - 1 + c) / (1 - c))
    distance = regime.K.times(2 * (1 - c))
    if c != 0:
        return distance, regular(c / (1 - c))
    # an odd φ: K_ab dies by κ′(0) < 1
    x = (1 - found.d) / 2
    rate = 1 / sp.hyperexpand(sp.hyper((x, x), (sp.Rational(3, 2),), 1))
    if regime.drive == "slow":
        return distance, added([_of_log(regime) ** (rate - 1), *_shared(solver, regime)], solver.oracle)
    return distance, _dying(solver, regime, regime.K.exponent * rate)


def require_tails_that_part(found: Tail) -> None:
    """Refuse a φ that is one constant at this end: κ = 1, and what parts two inputs is not in the tails."""
    if found.d == 0 and found.odd == 0:
        raise Undecided(
            "φ tends to one number on both sides, so that two inputs meet; how fast depends on all of φ, and no law is "
            "derived"
        )


def _own_share(solver: Solver, regime: Regime) -> sp.Expr:
    """The share of K in q, where biases of the same power may have the rest."""
    assert regime.end is not None
    if regime.end.square.point != 0 or regime.K.constant is None or regime.q.constant is None:
        return sp.S.One
    return sp.simplify(solver.branch.w.size * regime.K.constant / regime.q.constant)


def _of_log(regime: Regime) -> Growth:
    return regular(None, 0, regime.K.power_of(1))


def _shared(solver: Solver, regime: Regime, every: bool = True) -> list[Growth]:
    """What both inputs have in common beside K_ab itself, relative to K: their sources, and biases in the branch."""
    parts = (_relative(solver.bias(), regime.q) if every else None, _sourced(solver, regime))
    return [one.of_unknown_size for one in parts if one is not None]


def _dying(solver: Solver, regime: Regime, power: sp.Expr) -> Growth:
    """c where it goes to 0: what the start leaves of K_ab = l^power, over K, or what both inputs share if that is more.
    Where rates are numbers like 2/π, over which cells are not cut, the largest of the powers."""
    bias, per = solver.bias(), regular(1, -1)
    inside = None if bias is None or power == 0 else regime.K * bias / regime.q * per
    try:
        return (solver.from_sources(power, solver.source_a(), inside) / regime.K).of_unknown_size
    except Undecided:
        parts = [regular(None, power) / regime.K, *_shared(solver, regime)]
        if any(one.power_of(1) != 0 for one in parts):
            raise
        return regular(None, sp.Max(*[one.exponent for one in parts]))


def _relative(one: Growth | None, to: Growth) -> Growth | None:
    return None if one is None else one / to


def _sourced(solver: Solver, regime: Regime) -> Growth | None:
    source = solver.source_a()
    return None if source is None else source * regular(1, 1) / regime.K


def _waves(solver: Solver, regime: Regime, share: sp.Expr) -> Pair:
    """φ of waves alone as q → ∞: inputs that differ have ⟨φ_a φ_b⟩ = share·⟨φ²⟩, whatever their correlation."""
    assert regime.end is not None and regime.J is not None
    if regime.drive == "source":
        v, w = solver.branch.v, solver.branch.w
        source = regular(2 * v.size * (1 - share) * regime.end.of_square[2], -v.beta)
        if solver.sign(w.beta) > 0 and solver.sign(1 - solver.V) == 0:  # the distance settles in q
            return _by_distance(regime, regular(None, _smaller(w.beta, regime.J.exponent)))
        return _by_distance(regime, summed(source, solver.oracle) or regular(None))
    c = (1 - regime.share) * share + regime.share
    distance = regime.K.times(2 * (1 - c))
    if c != 0:
        return distance, regular(c / (1 - c))
    if regime.drive == "slow":
        return distance, added([_of_log(regime) ** -1, *_shared(solver, regime, False)], solver.oracle)
    return distance, _dying(solver, regime, sp.S.Zero)


def _square_integrable(solver: Solver, regime: Regime) -> Pair:
    """φ² of a finite integral as q → ∞: where two inputs differ by more than φ is wide, one meets it where the other
    does not, and ⟨φ_aφ_b⟩/⟨φ²⟩ → 0.

    Behind a source Δ grows by 2σ_v² l^{-β_v}⟨φ²⟩_q then, if what that makes of δ = σ_w² l^{-β_w} Δ grows; else by J.
    On K's own feedback c goes to the share of the source, and where there is none, K_ab keeps what the sources, ⟨φ⟩²
    and ⟨φ′⟩² times the biases inside add to its start: S l^{-V}⟨φ′⟩², by which it grows itself, adds up to a number.
    """
    assert regime.end is not None
    v, w = solver.branch.v, solver.branch.w
    if regime.grows_by_source:
        source = solver.at(regime.end.of_square, regime.q) * solver.falls(v).times(sp.Integer(2))
        settles = solver.sign(source.exponent + 1 - w.beta)
        if settles > 0 or (settles == 0 and solver.sign(w.beta) == 0):
            return _by_distance(regime, summed(source, solver.oracle) or regular(None))
        if regime.J is None:
            raise Undecided("phi jumps, so that J is infinite; how two inputs part that come closer is not derived")
        if settles < 0:
            return _by_distance(regime, regime.J.of_unknown_size)
        if source.power_of(1) != 0:
            raise Undecided("the distance of two inputs grows as fast as φ is wide, but for logarithms of l")
        return _by_distance(regime, regular(None, _smaller(w.beta, regime.J.exponent)))
    if regime.share != 0:
        return regime.K.times(2 * (1 - regime.share)), regular(regime.share / (1 - regime.share))
    shared = [_met(solver, regime, 0), None if solver.bias() is None else _met(solver, regime, 1)]
    own = solver.from_sources(sp.S.Zero, solver.source_a(), *shared)
    return regime.K.times(sp.Integer(2)), (own / regime.K).of_unknown_size


def _met(solver: Solver, regime: Regime, slope: int) -> Growth | None:
    """σ_v² l^{-β_v}⟨φ⟩_q², or with ⟨φ′⟩_q = ⟨zφ⟩_q/q and the biases inside (slope: 1); None where it is 0 by parity."""
    mean = average(solver.branch.phi.pieces.map(lambda e: Z[0] ** slope * e).expr, K) / K**slope
    if mean == 0:
        return None
    terms = at_infinity(mean, 1).terms
    if not terms:
        raise Undecided(f"the mean of {solver.branch.phi} at large variances is not known")
    lead = terms[0]
    found = solver.falls(solver.branch.v) * solver.at((2 * lead.power, 2 * lead.logs, lead.coefficient**2), regime.q)
    bias = solver.bias() if slope else None
    return found if bias is None else found * bias


def _behind_source(solver: Solver, regime: Regime, found: Tail) -> Pair:
    """K grows by its own source, which both inputs share: c → 1."""
    if found.slope != sp.oo:
        assert regime.J is not None
        return _by_distance(regime, regime.J.of_unknown_size)
    (k, n), v, w = found.nearness(), solver.branch.v, solver.branch.w
    assert regime.end is not None and regime.K.constant is not None and regime.J is not None
    grown = 1 - v.beta - found.d * w.beta - regime.K.exponent / 2  # of Δ^{1-n}, which 2 σ_v² ⟨φ²⟩_q k (Δ/2K)^n drives
    wide = solver.sign(grown - (1 - n) * w.beta)
    if wide < 0:
        return _by_distance(regime, regime.J.of_unknown_size)
    even = wide == 0 and solver.sign(w.beta) == 0
    if wide == 0 and not even and regime.K.power_of(1) != 0:
        raise Undecided("the distance of two inputs grows as fast as φ is wide, but for logarithms of l")
    if wide == 0 and not even:  # ⟨(φ_a - φ_b)²⟩/δ falls from J's rate to 0 as δ grows: δ settles, or J is too slow
        return _by_distance(regime, regular(None, _smaller(w.beta, regime.J.exponent)))
    drive = 2 * v.size * regime.end.of_square[2] * k * w.size**found.d * regime.K.constant**found.d
    size = (1 - n) * drive / (2 * regime.K.constant) ** n
    if even:  # per log l, with K a power of that where it grows so slowly
        grown = 1 - regime.K.power_of(1) / sp.Integer(2)
        if solver.sign(grown) <= 0:
            raise Undecided("K grows as a power of log l, and how two inputs part meanwhile is not derived")
        return _by_distance(regime, regular((size / grown) ** (1 / (1 - n)), 0, grown / (1 - n)))
    return _by_distance(regime, regular((size / grown) ** (1 / (1 - n)), grown / (1 - n)))


def _smaller(a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """The smaller of two different exponents."""
    if (a - b).free_symbols:
        return sp.Min(a, b)
    sign = sign_of(a - b)
    if sign == 0:
        raise Undecided("the distance of two inputs grows just as fast as φ bends; no law is derived there")
    return b if sign > 0 else a


def _at_rest(solver: Solver, regime: Regime) -> Pair:
    """q → q*: two inputs meet where the correlation at q* attracts them, else they part as far as K goes."""
    q, S, d = regime.q.constant, solver.S, solver.branch.w.beta
    assert q is not None and regime.slope is not None
    if solver.branch.is_odd and regime.share == 0:  # d = S⟨φ²⟩/q ≥ S⟨φ′⟩², which is what K_ab/q grows by
        mean = average(solver.branch.phi.pieces.map(lambda e: Z[0] * e).expr, K).xreplace({K: q}) / q
        return regime.K.times(sp.Integer(2)), _dying(solver, regime, S * mean**2)
    gain = S * regime.slope.constant - d
    if gain.free_symbols:
        raise Undecided("whether two inputs meet at a variance that converges needs numbers")
    sign = sign_of(gain)
    if sign < 0:
        return _by_distance(regime, regular(None, S * regime.slope.constant))
    if sign == 0:
        raise Undecided("two inputs meet at a marginal rate; no law is derived")
    phi = solver.branch.phi.pieces.expr
    degree, _, size = solver.branch.infinity.of_square
    if solver.branch.degree is None:
        pair = average(phi * phi.xreplace({Z[0]: Z[1]}), (K, K_ab, K))
    else:  # a power is its own tail
        pair = size * K**degree * tail(solver.branch.phi.pieces, True).kernel(K_ab / K)
    b = solver.branch.b
    flat = b.size if b is not None and solver.sign(b.beta) == 0 else sp.S.Zero
    # K has no share of the biases that both are given inside
    apart, shared = (Correlated(pair, S, regime.share, d, q, flat, kind) for kind in (1, 2))
    w = solver.branch.w
    return regular(2 * apart / w.size, w.beta), regular(shared / apart)
