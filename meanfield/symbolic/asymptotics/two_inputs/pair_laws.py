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
from meanfield.symbolic.asymptotics.schedules.regimes import Way, sign_of
from meanfield.symbolic.asymptotics.schedules.residual import Solver
from meanfield.symbolic.averages.node import average

_T = sp.Dummy("t", positive=True)
Pair = tuple[Growth | None, Growth | None]


def pair_laws(solver: Solver, way: Way) -> Pair:
    """The laws of Δ and γ along one way; None for one that is not derived."""
    if way.drive == "normed":
        raise Undecided("behind a LayerNorm how far two inputs part is not derived")
    if way.drive == "weak":
        return _by_distance(way, regular(None))
    if way.drive == "rest":
        return _at_rest(solver, way)
    if way.drive == "slow fall":
        return _falling(solver, way)
    if way.end is None:
        return None, None
    far = way.end.square.point != 0
    try:
        found = tail(solver.branch.phi.pieces, far)
    except MeanFieldError:
        share = unlike(solver.branch.phi.pieces) if far else None
        if share is None:
            raise Undecided(f"{solver.branch.phi} is no power of |z| at this end") from None
        return _waves(solver, way, share)
    try:
        if way.end.is_linear:
            return _linear(solver, way, found)
        if way.drive == "source":
            return _behind_source(solver, way, found)
        return _meeting(solver, way, found)
    except Undecided:
        raise
    except MeanFieldError as error:
        raise Undecided(str(error)) from None


def _falling(solver: Solver, way: Way) -> Pair:
    """q falls as a power of log l, as S⟨φ²⟩_q - β_w q ~ -q^s does: of the terms of that order in ⟨φ_aφ_b⟩ those of
    φ′(0)z with another are linear in c, as K is, and move nothing; ⟨|z_a|^s|z_b|^s⟩, of an even part, does. What
    follows adds up to a finite number.
    """
    found = [fractional(e.subs(Z[0], side * _T), _T, 3)[0] for side, e in zip((1, -1), _around(solver))]
    assert way.end is not None
    s = way.end.square.terms[1].power
    if found[0].get(1, 0) != -found[1].get(1, 0) or way.end.square.terms[1].logs != 0:
        raise Undecided("q falls as a power of log l beside a kink; how two inputs move apart meanwhile is not derived")
    even = sp.simplify(sp.Add(*(one.get(s, sp.S.Zero) for one in found)) / 2)
    if even == 0:
        return way.K.of_unknown_size, regular(None)
    if s != 2:
        raise Undecided(f"an even part |z|^({s}) of φ moves c as q falls; no law is derived there")
    return way.K, regular(1)  # dc ~ (1 - c)(1 - 2c): c → 1/2


def _around(solver: Solver) -> list[sp.Expr]:
    """φ on the right and on the left of 0."""
    return list(reversed(solver.branch.phi.pieces.around_zero()))


def _by_distance(way: Way, distance: Growth) -> Pair:
    return distance, (way.K / distance).times(sp.Integer(2))


def _linear(solver: Solver, way: Way, found: Tail) -> Pair:
    """⟨φ²⟩_q ~ v q: ε falls by d log ε = -W l^{-V} k √ε where φ has a kink between its tails."""
    assert way.end is not None
    W, V, (k, _) = solver.S * way.end.of_square[2], solver.V, found.nearness()
    strong = solver.sign(1 - V)
    if way.drive == "source" or (way.drive == "tie" and k == 0):  # what both share outgrows Δ
        return _by_distance(way, regular(None, W))
    if k == 0:  # nothing parts directions
        unknown = regular(None)
        return way.K.of_unknown_size, unknown
    if strong > 0 and solver.sign(V) == 0:
        gamma = regular((k * W / (2 * (1 + W))) ** 2, 2)
    elif strong > 0:
        gamma = regular((k * W / (2 * (1 - V))) ** 2, 2 * (1 - V))
    else:
        gamma = regular((k * W * (1 if way.drive == "tie" else sp.S.Half)) ** 2, 0, 2)
    return (way.K / gamma).times(sp.Integer(2)), gamma


def _meeting(solver: Solver, way: Way, found: Tail) -> Pair:
    """K lives on its feedback: c goes to the root of c = (1 - s)κ(c) + s, or to 1 where that has no other."""
    share = way.share
    pull = sp.oo if found.slope == sp.oo else (1 - share) * found.slope - 1
    sign = 1 if pull == sp.oo else solver.sign(pull) if not pull.free_symbols else sign_of(pull)
    if sign < 0:
        return _by_distance(way, regular(None, way.K.exponent * (1 - share) * found.slope))
    if sign == 0:
        raise Undecided("two inputs meet at a marginal rate; no law is derived")
    c = Meeting(found.d, found.right, found.left, share).doit()
    own = _own_share(solver, way)
    if own != 1:  # c is of what φ is given: 1 - K_ab/K = (1 - c)/own
        return way.K.times(2 * (1 - c) / own), regular((own - 1 + c) / (1 - c))
    distance = way.K.times(2 * (1 - c))
    if c != 0:
        return distance, regular(c / (1 - c))
    # an odd φ: K_ab dies by κ′(0) < 1
    x = (1 - found.d) / 2
    rate = 1 / sp.hyperexpand(sp.hyper((x, x), (sp.Rational(3, 2),), 1))
    if way.drive == "slow":
        return distance, added([_of_log(way) ** (rate - 1), *_shared(solver, way)], solver.oracle)
    return distance, _dying(solver, way, way.K.exponent * rate)


def _own_share(solver: Solver, way: Way) -> sp.Expr:
    """The share of K in q, where biases of the same power may have the rest."""
    assert way.end is not None
    if way.end.square.point != 0 or way.K.constant is None or way.q.constant is None:
        return sp.S.One
    return sp.simplify(solver.branch.w.size * way.K.constant / way.q.constant)


def _of_log(way: Way) -> Growth:
    return regular(None, 0, way.K.power_of(1))


def _shared(solver: Solver, way: Way, every: bool = True) -> list[Growth]:
    """What both inputs have in common beside K_ab itself, relative to K: their sources, and biases in the branch."""
    parts = (_relative(solver.bias(), way.q) if every else None, _sourced(solver, way))
    return [one.of_unknown_size for one in parts if one is not None]


def _dying(solver: Solver, way: Way, power: sp.Expr) -> Growth:
    """c where it goes to 0: what the start leaves of K_ab = l^power, over K, or what both inputs share if that is more.
    Where rates are numbers like 2/π, over which cells are not cut, the largest of the powers."""
    bias, per = solver.bias(), regular(1, -1)
    inside = None if bias is None or power == 0 else way.K * bias / way.q * per
    try:
        return (solver.from_sources(power, solver.source_a(), inside) / way.K).of_unknown_size
    except Undecided:
        parts = [regular(None, power) / way.K, *_shared(solver, way)]
        if any(one.power_of(1) != 0 for one in parts):
            raise
        return regular(None, sp.Max(*[one.exponent for one in parts]))


def _relative(one: Growth | None, to: Growth) -> Growth | None:
    return None if one is None else one / to


def _sourced(solver: Solver, way: Way) -> Growth | None:
    source = solver.source_a()
    return None if source is None else source * regular(1, 1) / way.K


def _waves(solver: Solver, way: Way, share: sp.Expr) -> Pair:
    """φ of waves alone as q → ∞: inputs that differ have ⟨φ_a φ_b⟩ = share·⟨φ²⟩, whatever their correlation."""
    assert way.end is not None and way.J is not None
    if way.drive == "source":
        v, w = solver.branch.v, solver.branch.w
        source = regular(2 * v.size * (1 - share) * way.end.of_square[2], -v.beta)
        if solver.sign(w.beta) > 0 and solver.sign(1 - solver.V) == 0:  # the distance settles in q
            return _by_distance(way, regular(None, _smaller(w.beta, way.J.exponent)))
        return _by_distance(way, summed(source, solver.oracle) or regular(None))
    c = (1 - way.share) * share + way.share
    distance = way.K.times(2 * (1 - c))
    if c != 0:
        return distance, regular(c / (1 - c))
    if way.drive == "slow":
        return distance, added([_of_log(way) ** -1, *_shared(solver, way, False)], solver.oracle)
    return distance, _dying(solver, way, sp.S.Zero)


def _behind_source(solver: Solver, way: Way, found: Tail) -> Pair:
    """K lives on its own source, which both inputs share: c → 1."""
    if found.slope != sp.oo:
        assert way.J is not None
        return _by_distance(way, way.J.of_unknown_size)
    (k, n), v, w = found.nearness(), solver.branch.v, solver.branch.w
    assert way.end is not None and way.K.constant is not None and way.J is not None
    grown = 1 - v.beta - found.d * w.beta - way.K.exponent / 2  # of Δ^{1-n}, which 2 σ_v² ⟨φ²⟩_q k (Δ/2K)^n drives
    wide = solver.sign(grown - (1 - n) * w.beta)
    if wide < 0:
        return _by_distance(way, way.J.of_unknown_size)
    even = wide == 0 and solver.sign(w.beta) == 0
    if wide == 0 and not even:  # ⟨(φ_a - φ_b)²⟩/δ falls from J's rate to 0 as δ grows: δ settles, or J is too slow
        return _by_distance(way, regular(None, _smaller(w.beta, way.J.exponent)))
    drive = 2 * v.size * way.end.of_square[2] * k * w.size**found.d * way.K.constant**found.d
    size = (1 - n) * drive / (2 * way.K.constant) ** n
    if even:
        return _by_distance(way, regular(size ** (1 / (1 - n)), 0, 1 / (1 - n)))
    return _by_distance(way, regular((size / grown) ** (1 / (1 - n)), grown / (1 - n)))


def _smaller(a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """The smaller of two different exponents."""
    if (a - b).free_symbols:
        return sp.Min(a, b)
    sign = sign_of(a - b)
    if sign == 0:
        raise Undecided("the distance of two inputs grows just as fast as φ bends; no law is derived there")
    return b if sign > 0 else a


def _at_rest(solver: Solver, way: Way) -> Pair:
    """q → q*: two inputs meet where the correlation at q* attracts them, else they part as far as K goes."""
    q, S, d = way.q.constant, solver.S, solver.branch.w.beta
    assert q is not None and way.slope is not None
    if solver.branch.is_odd and way.share == 0:  # d = S⟨φ²⟩/q ≥ S⟨φ′⟩², which is what K_ab/q grows by
        mean = average(solver.branch.phi.pieces.map(lambda e: Z[0] * e).expr, K).xreplace({K: q}) / q
        return way.K.times(sp.Integer(2)), _dying(solver, way, S * mean**2)
    gain = S * way.slope.constant - d
    if gain.free_symbols:
        raise Undecided("whether two inputs meet at a variance that converges needs numbers")
    sign = sign_of(gain)
    if sign < 0:
        return _by_distance(way, regular(None, S * way.slope.constant))
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
    apart, shared = (Correlated(pair, S, way.share, d, q, flat, kind) for kind in (1, 2))
    w = solver.branch.w
    return regular(2 * apart / w.size, w.beta), regular(shared / apart)
