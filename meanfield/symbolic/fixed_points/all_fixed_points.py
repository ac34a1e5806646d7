r"""All fixed points of K at given σ_w, σ_b: found, certified, counted, with their stability and basins.

K' - K = c₀ + c₁K + Σ aᵢ⟨fᵢ⟩_K is itself one average, ⟨G⟩_K with G = c₀ + c₁z² + Σ aᵢfᵢ, so Descartes' rule (`signs`)
bounds the number of fixed points by the sign changes of G. When as many are found, all are found. Because √K ⟨f²⟩_K
increases, χ_K ≥ -½ at every fixed point: there are no cycles. Behind an inner Dense, averages are over a variance V(K);
where all share one that is affine in K, the rule counts in V, else points are found by a search.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import sympy as sp
from flint import arb

from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.latex import aligned, joined, solution_tex
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import InfiniteAverage, MeanFieldError, Solution, Status, one_line
from meanfield.base.progress import doing
from meanfield.base.symbols import Q0, J, K, parameter, simplified
from meanfield.functions import balls
from meanfield.functions.reading.parser import expression
from meanfield.symbolic.averages.expansions.expansion import at_zero
from meanfield.symbolic.averages.node import Average, average, outermost
from meanfield.symbolic.fixed_points.certified_roots import RootInterval, enclose, from_ball, rational, sign_at
from meanfield.symbolic.fixed_points.double_zeros import TOUCHES, double_zeros
from meanfield.symbolic.fixed_points.half_line import Zeros, zeros
from meanfield.symbolic.fixed_points.marginality import (
    digits_near_one,
    gap_of,
    is_contracting,
    length_of,
    multiple_root,
    order_of,
    phase_of,
    slope_at,
    slope_of_number,
)
from meanfield.symbolic.fixed_points.products import product_zeros, products, rises
from meanfield.symbolic.fixed_points.variance_map import (
    at_zero_value,
    increases,
    integrand,
    linear_map,
    moments_only,
    shared_variance,
)
from meanfield.symbolic.recursion import Recursion, closed

DIGITS = 25
LARGEST = arb("1e400")  # of an orbit that is followed: squares would double its digits in every layer
NEAREST = sp.Rational(1, 10**30)  # a K beside 0 at which a sign is asked for
PARTS = 60  # of an interval on which the slope of a map is enclosed
ROUNDED = "critical to rounding"  # see `rounding`


@dataclass(frozen=True)
class FixedPoint(Result):
    """A value K* that the map keeps.

    chi_J, chi_K: the derivatives of the maps there; stability: "stable", "unstable", "half-stable" (attracts from one
    side), "neutral" (every K near it is fixed, too); basin: the open interval of K that flows here, None if only K*
    itself does.

    >>> point = derive("tanh").fixed_points(sigma_w=1.5, sigma_b=0)[-1]
    >>> point.stability, point.phase
    ('stable', 'chaotic')
    >>> print(f"{point.K:.6f} {point.chi_J:.6f} {point.xi:.4f}")
    0.793354 1.139323 7.6667
    """

    K: Solution
    chi_J: Solution
    chi_K: Solution
    stability: str
    basin: tuple[sp.Expr, sp.Expr] | None = None
    to_rounding: bool = False  # χ_J - 1 changes sign within two units in the last place of the doubles given

    columns = ("K", "stability", "phase", "chi_J", "chi_K", "xi", "xi_K")

    def data(self) -> dict[str, Any]:
        """K*, χ_J*, χ_K* with their errors, the stability, phase, ξ, ξ_K and basin as plain values."""
        return {
            **{n: plain(getattr(self, n)) for n in ("K", "chi_J", "chi_K", "stability", "phase", "xi", "xi_K")},
            "basin": self.basin and [_end(e) for e in self.basin],
        }

    @property
    def phase(self) -> str:
        """ "ordered" (χ_J < 1), "chaotic" (χ_J > 1) or "critical" (χ_J = 1, proved); "undecided" inside the error,
        "critical to rounding" where the last bits of the doubles given decide."""
        return ROUNDED if self.to_rounding else phase_of(self.chi_J)

    @property
    def is_exponential(self) -> bool | None:
        """Whether what starts near K* comes to it (or leaves it) exponentially: |χ_K| ≠ 1. False at χ_K = 1, where
        K - K* falls by a power of l whether K* attracts from one side or from both; None where that is not decided."""
        if self.stability == "half-stable":
            return False
        contracts = is_contracting(self.chi_K)
        return None if contracts is None else bool(contracts or gap_of(self.chi_K) > 0 or gap_of(self.chi_K) < -2)

    @property
    def xi(self) -> float:
        """Correlation length ξ = 1/|log χ_J|, in layers; infinite at χ_J = 1, NaN where that is not decided."""
        return float("inf") if self.to_rounding else length_of(self.chi_J)

    @property
    def xi_K(self) -> float:
        """The depth over which K relaxes, 1/|log |χ_K||; 0 where χ_K = 0. Where χ_K < 0, K alternates
        about K*."""
        chi = self.chi_K
        return length_of(replace(chi, value=-chi.value) if chi.value.is_number and chi.value < 0 else chi)

    @property
    def _reached(self) -> str:
        alone = "itself alone (every K is a fixed point)" if self.stability == "neutral" else "no open set"
        return f"K in {_interval(self.basin)}" if self.basin else alone

    def __repr__(self) -> str:
        return one_line("FixedPoint", f"K* = {short(self.K)}, {self.stability}, chi_J = {short_chi(self.chi_J)}")

    def latex(self) -> str:
        r"""K*, χ_J*, χ_K* and the stability as LaTeX for math mode (amsmath)."""
        pairs = (("K^\\ast", self.K), (r"\chi_J^\ast", self.chi_J), (r"\chi_K^\ast", self.chi_K))
        flow = f"{self.stability}, {self.phase}, reached from {self._reached}"
        return aligned([(n, solution_tex(v)) for n, v in pairs], (flow,))

    def __str__(self) -> str:
        return wrapped(
            f"K* = {short(self.K)}, {self.stability}, reached from {self._reached}\n"
            f"  chi_J = {short_chi(self.chi_J)} ({self.phase}), chi_K = {short_chi(self.chi_K)}"
        )


@dataclass(frozen=True)
class FixedPoints(Result):
    """The fixed points in increasing order, whether they are all, and where K goes otherwise.

    status: EXACT or CERTIFIED when the number is proved; MEASURED when a search found these and could have missed a
    pair. unbounded: the open interval of K from which K grows without bound, None if there is none.

    >>> print(derive("tanh").fixed_points(sigma_w=1.5, sigma_b=0))
    K* = 0, unstable, reached from no open set
      chi_J = 9/4 (chaotic), chi_K = 9/4
    K* = 0.793354042607, stable, reached from K in (0, oo)
      chi_J = 1.13932322499 (chaotic), chi_K = 0.50467776017
    (certified: at K > 0 at most 1 by Descartes' rule, and 1 certified: there are
    no others)
    """

    points: tuple[FixedPoint, ...]
    status: Status
    message: str
    unbounded: tuple[sp.Expr, sp.Expr] | None = None
    monotone: bool = True  # the map increases: orbits never jump over a fixed point

    def data(self) -> dict[str, Any]:
        """All of them, and what is known of others, as plain values."""
        return {
            "points": [p.data() for p in self.points],
            "unbounded": self.unbounded and [_end(e) for e in self.unbounded],
            "monotone": self.monotone,
            "status": self.status.value,
            "message": self.message,
        }

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self):
        return iter(self.points)

    def __getitem__(self, i: int) -> FixedPoint:
        return self.points[i]

    @property
    def stable(self) -> tuple[FixedPoint, ...]:
        return tuple(p for p in self.points if p.stability == "stable")

    def reached_from(self, k: object) -> FixedPoint | None:
        """The fixed point that K¹ = k flows to; None if K grows without bound.

        Raises: MeanFieldError where that is not decided: k inside the error of a point that does not attract from both
        sides, beyond what was searched, or several ends under a map that is not proved to increase (`phase` follows
        the orbit there).
        """
        k = expression(k, "K")
        for p in self.points:
            if p.K.value == k and p.K.error is None:
                return p
            if p.stability == "neutral":
                return p
            if p.K.error is not None and abs(p.K.value - k) <= p.K.error:
                if p.stability == "stable":
                    return p
                raise MeanFieldError(
                    f"K = {k} lies within the error of the {p.stability} fixed point {short(p.K)}; where it flows is "
                    "undecided."
                )
        if not self.monotone and self.ends > 1:
            raise MeanFieldError(
                f"K = {k} may overshoot a fixed point, since the map is not proved to increase; ask phase(...), which "
                "follows the orbit."
            )
        for p in self.points:
            if p.basin and (p.basin[0] < k or p.basin[0] == k == 0) and k < p.basin[1]:
                return p
        if self.unbounded and (self.unbounded[0] < k or self.unbounded[0] == k == 0):
            return None
        raise MeanFieldError(f"Where K flows from {k} is undecided here: {self.message}.")

    @property
    def ends(self) -> int:
        """How many states attract an open set of K, K → ∞ included."""
        return sum(p.basin is not None for p in self.points) + (self.unbounded is not None)

    def __repr__(self) -> str:
        found = ", ".join(f"{p.stability} K* = {short(p.K)}" for p in self.points) or "none"
        return one_line("FixedPoints", f"{found}; {self.status.value}")

    def latex(self) -> str:
        """All fixed points and what is known of others as LaTeX for math mode (amsmath)."""
        grows = [] if self.points else ["no fixed points"]
        grows += [f"K grows without bound from K in {_interval(self.unbounded)}"] if self.unbounded else []
        last = aligned([], (*grows, f"{self.status.value}: {self.message}"))
        return joined([*(p.latex() for p in self.points), last])

    def __str__(self) -> str:
        lines = [str(p) for p in self.points]
        if self.unbounded:
            lines.append(f"K grows without bound from K in {_interval(self.unbounded)}")
        lines = lines if self.points else ["no fixed points", *lines]
        return wrapped("\n".join([*lines, f"({self.status.value}: {self.message})"]))


def short(s: Solution) -> str:
    if s.status is Status.EXACT and len(str(s.value)) < 24:
        return str(s.value)
    value = float(s.value)
    if s.error is not None and abs(s.value) <= s.error and s.value != s.error:  # no digit of it is known
        return f"{value:.2g} +- {float(s.error):.2g}"
    return f"{value:.12g}" if value or s.value == 0 else str(sp.N(s.value, 12))


def short_chi(s: Solution) -> str:
    """The same of a χ, whose distance from 1 is shown where it is small."""
    return digits_near_one(s) or short(s)


def _end(e: sp.Expr) -> str:
    return "inf" if e == sp.oo else str(e if e == 0 else sp.N(e, 30))


def _interval(ends) -> str:
    return "(" + ", ".join("oo" if e == sp.oo else f"{float(e):.8g}" for e in ends) + ")"


# --------------------------------------------------------------------------------------------------- the map at a point


def numeric_maps(recursion: Recursion, values: dict[str, sp.Expr]) -> tuple[sp.Expr, sp.Expr | None]:
    """(F, χ_J) as functions of K alone. Raises: MeanFieldError where a parameter has no value."""
    known = {p.name for p in recursion.homogeneous("Fixed points are").parameters} | {"Q0", "sigma_w", "sigma_b"}
    extra = sorted(set(values) - known)
    if extra:
        raise MeanFieldError(f"{extra[0]} is not a parameter here; known are {', '.join(sorted(known))}.")
    free = set().union(*[sp.sympify(e).free_symbols for e in recursion.step])
    swap = {s: sp.sympify(values[s.name]) for s in free if s.name in values}
    step = recursion["K"].subs(swap)
    missing = sorted(s.name for s in step.free_symbols - {K})
    if missing:
        raise MeanFieldError(f"Fixed points at one place need numbers for {', '.join(missing)}.")
    chi = None
    if "J" in recursion.names:
        chi = sp.oo if recursion["J"].has(sp.oo) else sp.diff(recursion["J"], J).subs(swap)
    return step, chi


# ------------------------------------------------------------------------------------------------------- the answer


@doing("fixed points of K")
def fixed_points(recursion: Recursion, values: dict[str, sp.Expr]) -> FixedPoints:
    """Every fixed point of K, see `Theory.fixed_points`."""
    return _of_maps(*numeric_maps(recursion, values))


@lru_cache(maxsize=32)  # a phase and the laws behind it ask for the same ones
def _of_maps(step: sp.Expr, chi: sp.Expr) -> FixedPoints:
    gain = sp.expand(step - K)
    line = linear_map(step)
    if line is not None:
        return _affine(*line, step, chi)
    found = _zeros(gain) if (v := shared_variance(gain)) is None else _in(v, gain)
    parts = products(step)
    return _assemble(gain, step, chi, at_zero_value(step) if parts is None else parts.at_zero(), found)


def _zeros(gain: sp.Expr) -> Zeros:
    g = integrand(gain)
    found = product_zeros(gain, DIGITS) if g is None else None
    return zeros(gain, g, digits=DIGITS) if found is None else found


def _in(shared: tuple[sp.Expr, sp.Expr], gain: sp.Expr) -> Zeros:
    """The zeros of the gain in K, found in x = αK + β, where Descartes' rule counts those at x > 0."""
    alpha, beta = shared
    found = _zeros(_over(shared, gain))
    roots, passed, unsure = [], 0, False
    for r in found.roots:
        if r.lo >= beta:
            exact = None if r.exact is None else simplified((r.exact - beta) / alpha)
            slack = sp.Rational(1, 10**100)  # outwards, by more than the rounding to 120 digits
            ends = zip((r.lo, r.hi), (1 - slack, 1 + slack))
            lo, hi = (sp.Rational(sp.N((e - beta) / alpha, 120)) * out for e, out in ends)
            if exact != 0:
                roots.append(replace(r, lo=lo, hi=hi, exact=exact))
        elif r.hi < beta:
            passed += r.crosses
        else:
            unsure = True
    first = None if found.first is None else found.first * (-1) ** passed
    low, high = (sp.Max(0, (e - beta) / alpha) for e in (found.low, found.high))
    reason = f"{found.reason}; " * bool(found.reason) + "one root may lie at K = 0" if unsure else found.reason
    complete, outside = found.complete and not unsure, found.outside and not unsure
    return Zeros(tuple(roots), found.most, None if unsure else first, found.last, low, high, outside, complete, reason)


def _over(shared: tuple[sp.Expr, sp.Expr], e: sp.Expr) -> sp.Expr:
    """e as a function of x = αK + β, which is written K."""
    alpha, beta = shared
    names = {n: sp.Dummy(f"a{i}", real=True) for i, n in enumerate(sorted(outermost(e), key=str))}
    back = {v: average(n.integrand, K) if n.has(K) else n for n, v in names.items()}
    return sp.expand(e.xreplace(names).subs(K, (K - beta) / alpha)).xreplace(back)


def _neutral(chi) -> FixedPoints:
    here = Solution(K, Status.EXACT, None, "every K is fixed: the map is the identity")
    chi_j = Solution(simplified(closed(chi)), Status.EXACT) if chi not in (None, sp.oo) else no_chi()
    point = FixedPoint(here, chi_j, Solution(sp.S.One, Status.EXACT), "neutral")
    return FixedPoints((point,), Status.EXACT, "K' = K for every K")


def no_chi() -> Solution:
    return Solution(sp.oo, Status.NONEXISTENT, None, "φ jumps or rises like sqrt(|z|), so chi_J is infinite")


def _affine(c, r, step, chi) -> FixedPoints:
    """K' = c + rK for every K."""
    c, r = (simplified(closed(e)) if closed(e) != e or not e.is_Rational else e for e in (c, r))
    rise, start = _sign_of(r - 1), _sign_of(c)
    if rise is None or start is None:
        raise MeanFieldError(f"K' = {c} + ({r}) K, and the digits do not decide whether {r} is 1 or {c} is 0.")
    if rise == 0 and start == 0:
        return _neutral(chi)
    words = f"K' = {_number(r)} K + {_number(c)}" if r != 1 else f"K' = K + {_number(c)}"
    if start == 0:
        _, chi_j = _limits_at_zero(sp.diff(step, K), chi)
        here = (sp.S.Zero, sp.oo)
        point = FixedPoint(
            Solution(sp.S.Zero, Status.EXACT),
            chi_j,
            Solution(r, Status.EXACT),
            _stability(rise),
            here if rise < 0 else None,
        )
        ending = "grows without bound from every K > 0" if rise > 0 else "reaches 0 from every K"
        return FixedPoints((point,), Status.EXACT, f"{words} is linear and {ending}", here if rise > 0 else None)
    if rise >= 0:
        return FixedPoints((), Status.EXACT, words + ", which grows without bound", (sp.S.Zero, sp.oo))
    exact = simplified(c / (1 - r))
    value = Solution(exact, Status.EXACT) if not exact.has(Average) else from_ball(balls.certified(exact, DIGITS))
    chi_j = no_chi()
    if chi not in (None, sp.oo):
        at = closed(chi.subs(K, exact))
        simple = simplified(at) if not at.has(Average) else at
        chi_j = Solution(simple, Status.EXACT) if not simple.has(Average) else slope_of_number(simple)
    point = FixedPoint(value, chi_j, Solution(r, Status.EXACT), "stable", (sp.S.Zero, sp.oo))
    return FixedPoints((point,), Status.EXACT, "K' is linear in K: one fixed point, reached from every K")


def _number(e: sp.Expr) -> str:
    return str(e) if len(str(e)) < 12 else f"{float(balls.certified(e, 15).mid()):.6g}"


def _sign_of(e: sp.Expr) -> int | None:
    """The sign of a constant, 0 where it simplifies to 0; None where its digits decide nothing."""
    e = simplified(e)
    if e == 0:
        return 0
    value = balls.certified(e, 60)
    return None if value.contains(0) else 1 if value > 0 else -1


def _assemble(gain, step, chi, zero, found: Zeros) -> FixedPoints:
    """The points with the sign of K' - K on either side of each, which says what they attract."""
    slope = sp.diff(step, K)
    doubled = double_zeros(gain, slope, found)
    if doubled:
        found = replace(found, roots=tuple(sorted((*found.roots, *doubled), key=lambda r: r.lo)))
    found = _with_orders(gain, slope, found)
    start = None if zero is None else _sign_of(zero)
    edges: list[tuple[sp.Expr, RootInterval | None]] = [(sp.S.Zero, None)] if start == 0 else []
    edges += [(r.mid, r) for r in found.roots]
    below, message = _sign_near_zero(gain, found)
    points = []
    for i, (_, root) in enumerate(edges):
        down = edges[i - 1][0] if i else sp.S.Zero
        up = edges[i + 1][0] if i + 1 < len(edges) else sp.oo
        if root is None:
            basin = (sp.S.Zero, up) if below < 0 else None
            chi_k, chi_j = _limits_at_zero(slope, chi)
            points.append(FixedPoint(Solution(sp.S.Zero, Status.EXACT), chi_j, chi_k, _stability(below), basin))
            continue
        before = -below if root.crosses else below
        below, before = before, below  # the sign above the root, the sign below it
        chi_j = _chi_at(gain, chi, root)
        if root.crosses:
            chi_k = slope_at(gain, slope, root) if root.exact is None else _exactly(gain, slope, root)
        elif root.exact is not None:
            chi_k = Solution(sp.S.One, Status.EXACT)
        else:  # a critical point whose σ's are known to so many digits
            chi_k, chi_j = _to_digits(slope_at(gain, slope, root)), _to_digits(chi_j)
            message += f"; K' touches K at K* = {float(root.mid):.12g}, to the digits given"
        word = "half-stable" if not root.crosses else _stability(below)
        basin = (down if before > 0 else root.mid, up if below < 0 else root.mid)
        if _overshoots(chi_k):  # K jumps from one side to the other, ever further
            word, basin = "unstable", (root.mid, root.mid)
        points.append(FixedPoint(root.solution(), chi_j, chi_k, word, basin if basin[0] != basin[1] else None))
    unbounded = None
    if below > 0 and (found.complete or found.last == 1):
        unbounded = ((edges[-1][0] if edges else sp.S.Zero), sp.oo)
    increasing = increases(step) or _rises(step)
    if not increasing:
        message += "; the map is not proved monotone, so basins hold for orbits that do not overshoot"
    if start is None:
        message += "; whether K = 0 is a fixed point, too, is not decided"
    status = Status.CERTIFIED if found.complete and start is not None else Status.MEASURED
    return FixedPoints(tuple(points), status, message, unbounded, increasing)


def _to_digits(chi: Solution) -> Solution:
    """χ as 1 where it is 1 to more digits than a double has."""
    if not chi.value.is_number or chi.value in (sp.nan, sp.oo) or not abs(gap_of(chi)) < TOUCHES:
        return chi
    return Solution(sp.S.One, Status.MEASURED, None, "to the digits given")


def _with_orders(gain: sp.Expr, slope: sp.Expr, found: Zeros) -> Zeros:
    """The same with roots of higher order exact where they are proved to be such: each counts as often in Descartes'
    rule, so that the list may be complete."""
    if found.most in (0, 1):
        return found
    places = [None if not r.crosses else multiple_root(gain, slope, r) for r in found.roots]
    doubled = [not r.crosses and r.exact is not None for r in found.roots]
    if not any(p is not None for p in places) and not any(doubled):
        return found
    roots = tuple(r if p is None else replace(r, exact=p) for r, p in zip(found.roots, places))
    # where the expression touches 0 its order is even: 2 at least
    orders = [2 if t else 1 if p is None else order_of(closed(gain), p) or 1 for t, p in zip(doubled, places)]
    if found.complete or sum(orders) != found.most:
        return replace(found, roots=roots)
    return replace(found, roots=roots, complete=True, outside=True, reason="")


def _rises(step: sp.Expr) -> bool:
    """Whether a map with terms K⟨h⟩ increases, over a variance that increases with K."""
    shared = shared_variance(step)
    return rises(step if shared is None else _over(shared, step))


def _overshoots(chi_k: Solution) -> bool:
    value = sp.sympify(chi_k.value)
    return bool(value.is_number and value.is_real and value + (chi_k.error or 0) < -1)


def _sign_near_zero(gain, found: Zeros) -> tuple[int, str]:
    """(the sign of K' - K between 0 and the first point, what is claimed of the number of points)."""
    count = len(found.roots)
    if found.complete:
        many = f"at K > 0 at most {found.most} by Descartes' rule"
        return found.first or 0, f"{many}, and {count} certified: there are no others"
    if found.most is None:
        message = f"{found.reason}; " + (f"each of the {count} found is certified" if count else "none was found")
    else:
        message = f"at K > 0 at most {found.most} by Descartes' rule, {count} found and certified; {found.reason}"
    if found.first is not None:
        return found.first, message
    if found.roots:
        return -1 if found.roots[0].rising else 1, message
    # searched from 0 on, the map keeps one sign; at K = 0 itself it may be 0 (a factor K beside an average)
    low = found.low if found.low != 0 else NEAREST
    return sign_at(gain, low) or sign_at(gain, sp.Rational(3, 2)), message


def _chi_at(gain, chi, root: RootInterval) -> Solution:
    if chi in (None, sp.oo):
        return no_chi()
    try:
        return slope_at(gain, chi, root)
    except InfiniteAverage as error:
        return Solution(sp.oo, Status.NONEXISTENT, None, str(error))


def _exactly(gain: sp.Expr, slope: sp.Expr, root: RootInterval) -> Solution:
    form = closed(slope)
    if form.has(Average):
        return slope_at(gain, slope, root)
    return Solution(simplified(form.subs(K, root.exact)), Status.EXACT)


def _stability(sign: int) -> str:
    """How a point behaves above which K' - K has this sign (and below which it has the other)."""
    return "stable" if sign < 0 else "unstable" if sign > 0 else "undecided"


def _limits_at_zero(slope, chi) -> tuple[Solution, Solution]:
    out = []
    for e in (slope, chi):
        if e is None or e == sp.oo:
            out.append(no_chi())
            continue
        try:
            law = at_zero(e, 1)
            if any(t.power < 0 for t in law.terms):
                out.append(Solution(sp.oo, Status.EXACT, None, "the slope of the map is infinite at K = 0"))
                continue
            out.append(Solution(simplified(law.coefficient(0)), Status.EXACT))
        except InfiniteAverage as error:
            out.append(Solution(sp.oo, Status.NONEXISTENT, None, str(error)))
        except MeanFieldError as error:
            out.append(Solution(sp.nan, Status.UNKNOWN, None, str(error)))
    return out[0], out[1]


def start_of(recursion: Recursion, values: dict[str, sp.Expr]) -> sp.Expr:
    """K¹ at these values, Q0 = 1 unless given."""
    swap = {parameter(k): sp.sympify(v) for k, v in values.items()}
    return recursion.initial["K"].subs(swap).subs(Q0, 1)


def rational_of(k: Solution) -> tuple[sp.Rational, sp.Rational]:
    """A number K* > 0 as a rational, and how far it may be from it."""
    if k.error is not None or k.value.is_Rational:
        return sp.Rational(k.value), sp.Rational(k.error or 0)
    value = sp.Rational(sp.N(k.value, 60))
    return value, value / 10**50


def destination(points: FixedPoints, step: sp.Expr, start: sp.Expr) -> FixedPoint | None:
    """Where K flows from `start`, None where it grows without bound: by the basins if the map increases or there is one
    end only (where the map is a sum of moments over K, √K F(K) increases, so there are no cycles, and every bounded
    orbit of a continuous map without 2-cycles converges), else by an orbit in balls until it is inside an interval that
    the map contracts, or beyond all fixed points but 0 or infinity."""
    if points.monotone or (points.ends <= 1 and moments_only(step)):
        return points.reached_from(start)
    lo = hi = sp.sympify(start)
    for layer in range(200):
        if _grows_from(points, lo):
            return None
        here = _falls_to_zero(points, hi) or _contracted(points, step, lo, hi)
        here = here or _drawn_in(points, step, lo, hi, layer & (layer - 1) == 0)
        if here is not None:
            return here
        ball = enclose(step, lo, hi, 25)
        if not ball.is_finite() or not ball > 0 or not ball < LARGEST:
            break
        lo, hi = (rational(end, 40) for end in (ball.lower(), ball.upper()))
        lo, hi = lo * (1 - sp.Rational(1, 10**38)), hi * (1 + sp.Rational(1, 10**38))
    raise MeanFieldError(
        f"The map is not proved to increase, and its layers from K = {start} (200, or until K passes 1e400) do not "
        "decide where the orbit ends."
    )


def rises_on(slope: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> bool:
    """Whether the slope of a map is enclosed above 0 on [lo, hi]; False where that is not proved."""
    work, parts = [(lo, hi)], PARTS
    try:
        while work:
            a, b = work.pop()
            parts -= 1
            if enclose(slope, a, b, 12) > 0:
                continue
            if parts < 0 or enclose(slope, a, a, 12) < 0:
                return False
            middle = sp.Rational((a + b) / 2)
            work += [(a, middle), (middle, b)]
    except (MeanFieldError, TypeError):
        return False
    return True


def _grows_from(points: FixedPoints, lo) -> bool:
    """Whether K grows without bound from every K ≥ lo: beyond the last fixed point F(K) > K stays there."""
    if points.unbounded is None:
        return False
    error = points[-1].K.error if len(points) else None
    return bool(lo > points.unbounded[0] + (error or 0))


def _falls_to_zero(points: FixedPoints, hi) -> FixedPoint | None:
    """The point K* = 0 where all of (0, hi] flows to it: below the next fixed point F(K) < K stays there."""
    first = points[0] if len(points) else None
    if first is None or first.K.value != 0 or first.basin is None:
        return None
    error = points[1].K.error if len(points) > 1 else None
    return first if hi < first.basin[1] - (error or 0) else None


def _drawn_in(points: FixedPoints, step, lo, hi, all_kinds: bool) -> FixedPoint | None:
    """The point to which all of [lo, hi] flows because it lies in its basin, on one side, and the map rises from there
    to it, so that no orbit jumps over it; without all_kinds only of those with χ_K = 1 (or not decided), which contract
    no interval."""
    for p in points:
        inside = p.basin is not None and p.basin[0] <= lo and hi <= p.basin[1]
        if not inside or p.K.value == 0 or (p.is_exponential and not all_kinds):
            continue
        value, error = rational_of(p.K)
        one_side = hi < value - error or lo > value + error
        if one_side and rises_on(sp.diff(step, K), min(lo, value - error), max(hi, value + error)):
            return p
    return None


def _contracted(points: FixedPoints, step, lo, hi) -> FixedPoint | None:
    """The stable point p for which an interval about p that holds [lo, hi] has |F′| < 1 throughout: all of it flows to
    p. None if there is none."""
    for p in points.stable:
        if p.K.value == 0:
            continue
        value, error = rational_of(p.K)
        reach = max(abs(value - lo), abs(value - hi)) + error
        if 4 * reach < value and abs(enclose(sp.diff(step, K), value - reach - error, value + reach + error, 12)) < 1:
            return p
    return None
