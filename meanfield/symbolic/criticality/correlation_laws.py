r"""The large-depth laws of two inputs of one norm: of the correlation c, γ = c/(1 - c) and the distance 2K(1 - c).

Near c = 1 the map of ε = 1 - c is ε′ = ε·(K/K′)·(r_0(K) - r_q(K) ε^q - …), q = ½ where φ has kinks, else 1. Its linear
part multiplies up to M^l = J^{1,l}·K^1/K^l, whose law is known: where M falls exponentially, so does ε; where M falls
as l^{-p}, u = (M/ε)^q obeys u′ = u + q a M^q, a = r_q K/K′, so that ε ~ ((1 - pq)/(q a))^{1/q} l^{-1/q} for pq < 1,
with a logarithm at pq = 1, and ε ~ C l^{-p} beyond. Where M grows, c settles at a c* < 1, exponentially.

Source: derived here; [bias_and_trainability] (112)-(114) are ReLU's rates, without the constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Status, Term
from meanfield.base.symbols import K, K_ab, Z, l
from meanfield.functions import balls
from meanfield.functions.piecewise import pieces
from meanfield.functions.series.infinity import normal_form
from meanfield.functions.zeros import is_zero
from meanfield.symbolic.asymptotics.depth import CONSTANT, DepthLaw, depth_law
from meanfield.symbolic.asymptotics.scaling import decay_of
from meanfield.symbolic.averages.expansions.small_distances import gap_powers
from meanfield.symbolic.averages.node import Average, Integrand
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio, distance_ratio
from meanfield.symbolic.averages.nodes.pools import MaxDistanceRatio, kind_of
from meanfield.symbolic.criticality.chaotic_laws import inside_law
from meanfield.symbolic.criticality.phases import Phase
from meanfield.symbolic.fixed_points.all_fixed_points import start_of
from meanfield.symbolic.fixed_points.certified_roots import enclose, from_ball
from meanfield.symbolic.parity import parity
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbolic.series.asymptotic_law import Law

QUANTITIES = ("c", "gamma", "distance")


@dataclass(frozen=True)
class _Gap:
    """The law of 1 - c, and in which circumstances."""

    law: Law
    regime: str
    status: Status
    after: float = 1.0  # the onset of the laws of J and K


def correlation_law(
    recursion: Recursion,
    one: Recursion,
    quantity: str,
    values: dict[str, sp.Expr],
    correlation: sp.Expr,
    phase: Phase,
    odd: bool,
    inside: Callable[[], Any],
    known: Mapping[str, DepthLaw] = MappingProxyType({}),
) -> DepthLaw:
    """The law of "c", "gamma" or "distance"; see `Theory.depth_law`.

    recursion: of (K, K_ab, distance) at these values; one: of (K, J); correlation: c at layer 1; phase: where K flows;
    odd: whether the map of K_ab is odd; inside: gives the fixed points of c where the one at 1 repels; known: the laws
    of K and J where the place says more of them than these values do, as a critical point does.
    """
    found = _law_of_c(recursion, one, quantity, values, correlation, phase, odd, inside, known)
    if isinstance(found, DepthLaw):
        return found
    if quantity != "distance":
        return _stated(quantity, found)
    return _distance(known.get("K") or depth_law(one, "K", values), found)


def _law_of_c(
    recursion: Recursion,
    one: Recursion,
    quantity: str,
    values: dict[str, sp.Expr],
    correlation: sp.Expr,
    phase: Phase,
    odd: bool,
    inside: Callable[[], Any],
    known: Mapping[str, DepthLaw],
) -> DepthLaw | _Gap:
    """The law of 1 - c; that of the quantity itself where c ends below 1 without staying what it is."""
    stays = 1 if correlation == 1 else correlation if odd and correlation in (0, -1) else None
    if stays is not None:
        regime = "the inputs are the same" if stays == 1 else f"the map is odd: c stays {stays}"
        return _Gap(Law(l, sp.oo, ()) + (1 - stays), regime, Status.EXACT)
    if correlation == -1 and parity(recursion["K_ab"], frozenset({K_ab})) == 1:
        regime = "the map is even: the inputs are the same from layer 2 on"
        return _Gap(Law(l, sp.oo, ()), regime, Status.EXACT)
    if phase.name == "undecided":
        raise MeanFieldError("Whether chi_J is 1 is not decided at this place, nor is the law of c.")
    point = phase.fixed_point
    if point is not None and point.K.value != 0 and phase.name == "chaotic":
        moved = closed(recursion["K"] - K).subs(K, start_of(one, values))
        return inside_law(recursion, quantity, point, inside(), odd, not moved.has(Average) and is_zero(moved))
    return _gap(recursion, one, values, phase, odd, known)


def _distance(size: DepthLaw, found: _Gap) -> DepthLaw:
    """The law of 2K(1 - c) from those of K and of 1 - c: what C stands in holds up to that factor alone."""
    if size.variable != l:
        raise MeanFieldError(f"The law of the distance is not available: K falls as {size.lines()[0]}; ask for c.")
    times, gap, status = size.law, found.law, found.status
    if times.remainder == "exponential" and gap.leading.rate != 0:  # below K*, by a rate that is not stated
        times = replace(times, terms=times.terms[:1], remainder="zero")
        gap = replace(gap, remainder="smaller")
    law = 2 * times * gap
    free = [k for k, term in enumerate(law.terms) if term.coefficient.has(CONSTANT)]
    if free:  # terms behind one that the start decides are decided by more than it
        kept = (*law.terms[: free[0]], _renamed(law.terms[free[0]]))
        cut = len(kept) < len(law.terms) or law.remainder != "zero"
        law = replace(law, terms=kept, remainder="smaller" if cut else "zero", remainder_logs=sp.S.Zero)
    weakest = status if size.status is Status.EXACT or status is not Status.EXACT else size.status
    status = Status.UNKNOWN if Status.UNKNOWN in (status, size.status) else weakest
    own = law.variable, law.point, law.terms, law.remainder, law.remainder_logs
    return DepthLaw(*own, "distance", found.regime, status, after=max(found.after, size.onset or 1.0))


def _stated(quantity: str, found: _Gap) -> DepthLaw:
    """The law of c, or of γ = 1/(1 - c) - 1."""
    gap, regime = found.law, found.regime
    law = 1 - gap
    if quantity == "gamma":
        if not gap.terms and gap.remainder != "zero":
            raise MeanFieldError(f"gamma = c/(1 - c) grows exponentially; the law is not known further ({regime}).")
        if not gap.terms:
            raise MeanFieldError("gamma = c/(1 - c) is infinite at every layer: the inputs are the same.")
        if len(gap.terms) == 1 and gap.remainder == "smaller":
            law = replace(gap, terms=(gap.leading.to(sp.S.NegativeOne),))
        else:
            law = 1 / gap - 1
        # 1/C is as good a constant as C
        law = replace(law, terms=tuple(_renamed(t) for t in law.terms))
    own = law.variable, law.point, law.terms, law.remainder, law.remainder_logs
    return DepthLaw(*own, quantity, regime, found.status, after=found.after)


def _renamed(term: Term) -> Term:
    return replace(term, coefficient=CONSTANT) if term.coefficient.has(CONSTANT) else term


def _gap(
    recursion: Recursion,
    one: Recursion,
    values: dict[str, sp.Expr],
    phase: Phase,
    odd: bool,
    known: Mapping[str, DepthLaw],
) -> _Gap:
    """The law of 1 - c where it tends to 0 (or stays what the start makes it)."""
    status = phase.status if phase.status is Status.MEASURED else phase.chi_J.status
    if one["J"].has(sp.oo):
        end = "grows without bound" if phase.fixed_point is None else "falls to 0"
        raise MeanFieldError(
            f"The law of c is not available: φ jumps and K {end}: the limit of c then is not derived; follow it with "
            'propagate(quantities=("K", "c")).'
        )
    where = _LimitOfK(recursion, one, values, phase)
    free, p, whole, sure, after = _linear_part(one, values, phase, known)
    status = status if sure is not Status.UNKNOWN else sure
    (rate, power), *slower = free or ((sp.S.Zero, sp.S.One),)
    if rate != 0 and balls.certified(rate, 20) > 0:
        if power < 1 and where.at not in (None, 0):
            return replace(_followed(where, rate, power, odd, status), after=after)
        raise MeanFieldError(
            f"{where.text}, and 1 - c does not fall: the limit of c then is not derived; follow it with "
            'propagate(quantities=("K", "c")).'
        )
    if rate != 0:
        kind = "exponential" if power == 1 else "stretched exponential"
        regime = f"{kind} approach to c = 1; {where.text}"
        if not whole:  # up to a factor that may be any stretched exponential
            regime += f"; 1 - c = exp(({rate})*{l**power} + smaller order)"
            return _Gap(Law(l, sp.oo, (), "exponential"), regime, status)
        term = Term(CONSTANT, -p, rate=rate, rate_power=power, slower=tuple(slower))
        return _Gap(Law(l, sp.oo, (term,), "smaller"), regime, status, after)
    series = where.series(odd)
    falling = {q: c for q, c in series.items() if q > 0}
    if not falling:
        text = "c tends to what the start makes it" if p == 0 else "the map of c is linear"
        return _Gap(Law(l, sp.oo, (Term(CONSTANT, -p),), "smaller"), f"{text}; {where.text}", status)
    critical = "critical: power-law approach to c = 1"
    critical += " (critical to rounding)" if phase.to_rounding else ""
    regime = f"{critical}; {where.text}"
    status = Status.MEASURED if phase.to_rounding else status
    q = min(falling)
    if p == 0 and where.settled and not recursion["distance"].has(MaxDistanceRatio):  # of maxima one order is known
        names = {power: sp.Dummy("r", positive=power == q or None, real=True) for power in falling}
        near = {power: v for power, v in names.items() if power <= 2 * q}
        gain = {1 + power: (-v if power == q else v) for power, v in near.items()}
        terms = decay_of({k: v for k, v in gain.items() if k <= 1 + 2 * q}).delta
        back = {v: (-falling[power] if power == q else falling[power]) for power, v in names.items()}
        terms = tuple(replace(t, coefficient=_neat(t.coefficient, back)) for t in terms)
        return _Gap(Law(l, sp.oo, tuple(t for t in terms if t.coefficient != 0), "smaller"), regime, status)
    a, share = -falling[q], 1 - p * q
    if share > 0:
        terms = (Term(sp.simplify((share / (q * a)) ** (1 / q)), -1 / q),)
    elif share == 0:
        terms = (Term(sp.simplify((q * a) ** (-1 / q)), -1 / q, -1 / q),)
    else:
        terms = (Term(CONSTANT, -p),)
    return _Gap(Law(l, sp.oo, terms, "smaller"), regime, status, after)


def _followed(where: _LimitOfK, rate: sp.Expr, power: sp.Expr, odd: bool, status: Status) -> _Gap:
    """Where χ_J falls to 1 from above as K comes to K*: c = 1 repels by rate·power·l^{power-1} a layer, slowly enough
    for ε to stay where that and a ε^q balance."""
    falling = {q: c for q, c in where.series(odd).items() if q > 0}
    if not falling:
        raise MeanFieldError(f"{where.text}, and the map of c is linear there: c does not go to 1.")
    q = min(falling)
    term = Term(sp.simplify((rate * power / -falling[q]) ** (1 / q)), (power - 1) / q)
    regime = f"critical: c follows K to 1, where chi_J falls to 1 from above; {where.text}"
    return _Gap(Law(l, sp.oo, (term,), "smaller"), regime, status)


def _neat(coefficient: sp.Expr, back: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    found = coefficient.xreplace(back)
    return sp.N(found, 30) if found.has(sp.Float) else sp.simplify(found)


Rates = tuple[tuple[sp.Expr, sp.Expr], ...]


def _linear_part(
    one: Recursion, values: dict[str, sp.Expr], phase: Phase, known: Mapping[str, DepthLaw]
) -> tuple[Rates, sp.Expr, bool, Status | None, float]:
    """(((rate, power), …) with the fastest first, p, whether these are all, the status of the laws, the onset of those
    of J and K) of M = J/K ~ C l^{-p} exp(Σ rate·l^power)."""
    if phase.to_rounding:
        point = phase.fixed_point
        free = not sp.simplify(closed(one["K"].subs(_named(one, values))) / K).has(K)  # J and K go the same way
        if not free and (point is None or abs(float(point.chi_K.value) - 1) < 1e-6):
            raise MeanFieldError(
                "chi_J and chi_K are both 1 to rounding here, so that only exact numbers say how K ends: give sigma_w "
                "and sigma_b as text ('sqrt(2)', '0.1')."
            )
        return (), sp.S.Zero, True, None, 1.0
    j, k = (known.get(name) or depth_law(one, name, values) for name in ("J", "K"))
    rates: dict[sp.Expr, sp.Expr] = {}
    for law, sign in ((j, 1), (k, -1)):
        for rate, power in (*[(law.rate, law.rate_power)] * (law.rate != 0), *law.slower):
            rates[power] = rates.get(power, sp.S.Zero) + sign * rate
    found = sorted(((sp.simplify(r), s) for s, r in rates.items()), key=lambda pair: -float(pair[1]))
    live = tuple((r, s) for r, s in found if r != 0)
    if live and balls.certified(live[0][0], 30).contains(0):
        raise MeanFieldError("Whether J and K grow alike is not decided here, nor is the law of c.")
    status = Status.UNKNOWN if Status.UNKNOWN in (j.status, k.status) else None
    after = max([1.0, *(law.onset or 1.0 for law in (j, k) if law.variable == l)])
    if live and not j.is_whole:
        return live, sp.S.Zero, False, status, after
    exponents = j.exponent, k.exponent
    if None in exponents or (not live and status is Status.UNKNOWN):
        raise MeanFieldError("The power of l with which J grows is not known here, nor is the law of c.")
    return live, _power_of(k) - sp.sympify(exponents[0]), True, status, after


def _power_of(law: DepthLaw) -> sp.Expr:
    """The power of l that leads K itself: 0 where it settles at K* > 0."""
    return law.leading.power if law.variable == l else sp.S.Zero


def _named(recursion: Recursion, values: dict[str, sp.Expr]) -> dict[sp.Symbol, sp.Expr]:
    return {p: values[p.name] for p in recursion.parameters if p.name in values}


class _LimitOfK:
    """Where K ends, and the powers of ε in ε′/ε there."""

    def __init__(self, recursion: Recursion, one: Recursion, values: dict[str, sp.Expr], phase: Phase):
        self.one, self.values, self.point = one, values, phase.fixed_point
        self.step, self.distance_map = recursion["K"], recursion["distance"]
        point = phase.fixed_point
        self.neutral = point is not None and point.stability == "neutral"
        self.at: Any = None if point is None else point.K.value
        if self.neutral:
            self.at = start_of(recursion, values)
        # K′ = K + small: its power-law approach shows in ε, too
        slow = point is not None and not self.neutral and not point.is_exponential
        self.settled = self.at not in (None, 0) and not slow
        self.text = "K grows without bound" if self.at is None else f"K* = {float(self.at):.10g}"

    def series(self, odd: bool) -> dict[sp.Expr, sp.Expr]:
        """power of ε → coefficient in ε′/ε where K ends; without positive powers where c tends to any number."""
        if self.at not in (None, 0):
            powers = gap_powers(self.distance_map, 2)
            return {q: self._value(c * K / self.step) for q, c in powers.items()}
        ratios = self.distance_map.atoms(DistanceRatio)
        limit = self.distance_map.xreplace({s: _homogeneous(s, self.at) for s in ratios})
        exact = limit == self.distance_map
        # an odd φ = z + h moves c by h² only, relative to K: with K a power of l, by 1/l², which has a sum
        summed = odd and self.at == 0 and not limit.has(DistanceRatio)
        if not exact and not summed and not self._exponential():
            raise MeanFieldError(
                f"{self.text}, more slowly than exponentially, and the map of c depends on K all the while; its law is "
                'not derived. Follow it with propagate(quantities=("K", "c")).'
            )
        powers = gap_powers(limit, 2)
        slope = powers.get(sp.S.Zero, sp.S.One)
        found = {q: sp.simplify(c / slope) for q, c in powers.items()}
        if any(c.has(K) for c in found.values()):
            raise MeanFieldError(f"{self.text}, and the map of c depends on K in the limit; its law is not derived.")
        if exact and self.step.subs(K, 0) == 0:  # the map of c is the same at every layer
            self.settled = True
        return found

    def _exponential(self) -> bool:
        return depth_law(self.one, "K", self.values).rate != 0

    def _value(self, e: sp.Expr) -> sp.Expr:
        """A function of K at K*: exact where it closes, else a certified number."""
        e = closed(e)
        assert self.point is not None
        exact = self.neutral or self.point.K.error is None
        if exact:
            e = sp.simplify(e.subs(K, self.at))
            return from_ball(balls.certified(e, 30)).value if e.has(Average) else e
        if not e.has(K):
            return sp.simplify(e)
        return _enclosed(e, self.point)


def _enclosed(e: sp.Expr, point: Any) -> sp.Expr:
    value, error = sp.Rational(point.K.value), sp.Rational(point.K.error)
    return from_ball(enclose(e, value - error, value + error, 30)).value


def _homogeneous(node: DistanceRatio, at: Any) -> sp.Expr:
    """The distance ratio of the straight lines that f follows on both sides as K → at = 0, or → ∞ (None)."""
    p = pieces(node.function, Z[0])
    t = sp.Dummy("t", positive=True)
    slopes = []
    for side in (-1, 1):
        if at is None:
            f = (p.exprs[0] if side < 0 else p.exprs[-1]).subs(Z[0], side * t)
            terms = normal_form(f, t).terms(sp.S.One)
            if any((power, logs) != (1, 0) for power, logs in terms):
                raise MeanFieldError("K and phi grow faster than linearly; the law of c is not derived.")
            slopes.append(side * terms.get((sp.S.One, 0), sp.S.Zero))
        else:
            f = p.around_zero()[0 if side < 0 else 1]
            if sp.limit(f, Z[0], 0, "-" if side < 0 else "+") != 0:
                raise MeanFieldError("K falls to 0 although phi(0) is not 0; the law of c is not derived.")
            slopes.append(sp.limit(f.diff(Z[0]), Z[0], 0, "-" if side < 0 else "+"))
    left, right = slopes
    whole = left * Z[0] if left == right else sp.Piecewise((left * Z[0], Z[0] < 0), (right * Z[0], True))
    same = sp.simplify(pieces(whole, Z[0]).expr - p.expr) == 0 if not p.breaks else pieces(whole, Z[0]) == p
    straight = pieces(whole, Z[0]).expr
    if isinstance(node, MaxDistanceRatio) and straight != 0:  # the larger of two lines still has a kink where they meet
        kind = kind_of(straight)
        if kind is None:
            raise MeanFieldError("The maximum over nodes of phi's straight ends is not derived, nor is the law of c.")
        return node if same else MaxDistanceRatio(Integrand(straight), node.variance, node.distance, node.nodes, kind)
    return node if same else distance_ratio(straight, node.variance, node.distance)
