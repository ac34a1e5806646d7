r"""The fixed points of the correlation of two inputs of one norm.

At the fixed point of K the map c → c′ has a power series with coefficients ≥ 0 (φ is an expansion in Hermite
polynomials; Dense, LayerNorm and skips keep the signs), and C(1) = 1. Three things follow, whatever φ is:

- C is convex on [0, 1]: beside c = 1 there is one more fixed point in [0, 1) if C′(1) > 1, and none if C′(1) ≤ 1,
  unless C(c) = c for all c (φ is linear there).
- For c < 0 the even part of C would have to vanish: only where C is odd is there one, at c = -1.
- c = 1 attracts from below where C′(1) ≤ 1.
- Where φ jumps, C′(1) = ∞ (1 - c′ falls as √(1 - c)): there is one below 1, however close; 1 - c* is what is kept.

So the number of fixed points is proved once C′(1) is on one side of 1, which `fixed_points` certifies; the place inside
is the zero of distance′/distance - 1, monotone in the distance, to the rounding of the averages.

Source: derived here (Schoenberg's theorem for the signs); [bias_and_trainability] Sec. 4 has ReLU and tanh by search.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from meanfield.base.answers.export import Result
from meanfield.base.answers.results import MeanFieldError, Status, one_line
from meanfield.base.symbols import sigma_w
from meanfield.numeric.lowering.assembly import lower
from meanfield.numeric.phases.float_roots import between
from meanfield.numeric.phases.gap_source import LEAST
from meanfield.numeric.run.depth_iteration import propagate
from meanfield.symbolic.recursion import Recursion

NEAR = 1e-12  # relative: slopes of 1, and maps that are taken for the same at two K
NEARBY = (1.0, 7.3)  # two K at which the map of c is the same if φ is one power
FAR = (1e26, 7.3e26)  # the two K where K ends at ∞: there φ may have become one power
OFFSET = 1e-19  # of 1 - c: a jump adds 1e-26/√(1 - c) to a slope there, a kink takes √(1 - c) off it
FARTHER = 1e-9  # and how far the two maps may be apart


@dataclass(frozen=True)
class CorrelationPoint(Result):
    """A correlation c* that the map keeps.

    c, error: its value and absolute error (0 where it is exact); slope: C′(c*), ∞ at c = 1 where φ jumps; stability:
    "stable", "unstable", "marginal" (slope 1: attracts from below, by a power law); gap: 1 - c*, with digits of its own
    where c* is next to 1.
    """

    c: float
    slope: float
    stability: str
    error: float = 0.0
    gap: float = math.nan

    def __post_init__(self) -> None:
        if math.isnan(self.gap):
            object.__setattr__(self, "gap", 1 - self.c)

    @property
    def gamma(self) -> float:
        """c*/(1 - c*)."""
        return math.inf if self.gap == 0 else (1 - self.gap) / self.gap

    def text(self, digits: int) -> str:
        """c* as text, by way of 1 - c* where its digits would not tell it from 1."""
        return f"1 - {self.gap:.{digits - 3}g}" if 0 < self.gap < 10.0 ** (3 - digits) else f"{self.c:.{digits}g}"

    @property
    def xi_c(self) -> float:
        """The depth over which correlations relax, 1/|log slope| layers; ∞ at slope 1."""
        if self.slope in (0.0, math.inf):
            return 0.0
        return math.inf if self.slope == 1 else 1 / abs(math.log(abs(self.slope)))

    def __repr__(self) -> str:
        return one_line("CorrelationPoint", f"c* = {self.text(12)}, {self.stability}, slope {self.slope:.10g}")


@dataclass(frozen=True)
class Correlations(Result):
    """Every fixed point of the correlation at one place (σ_w, σ_b), from c = 1 downwards.

    K: the variance they belong to (NaN where the map of c does not depend on it); status: CERTIFIED where their number
    is proved, MEASURED where C′(1) is on one side of 1 by float arithmetic alone, UNKNOWN where nothing can be said,
    for the reason in `message`.
    """

    K: float
    points: tuple[CorrelationPoint, ...]
    status: Status
    message: str = ""

    def __iter__(self):
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> CorrelationPoint:
        return self.points[index]

    @property
    def stable(self) -> CorrelationPoint | None:
        """The point that correlations c > -1 flow to; None where it is unknown."""
        return next((p for p in self.points if p.stability in ("stable", "marginal")), None)

    @property
    def gamma(self) -> float:
        """γ* = c*/(1 - c*) of the stable point; NaN where it is unknown."""
        return math.nan if self.stable is None else self.stable.gamma

    def __repr__(self) -> str:
        return one_line("Correlations", "; ".join(f"c* = {p.text(12)} {p.stability}" for p in self.points) or "unknown")

    def __str__(self) -> str:
        lines = [f"c* = {p.text(15)}, {p.stability}: slope {p.slope:.12g}, xi_c = {p.xi_c:.10g}" for p in self.points]
        return "\n".join([*lines, f"({self.status.value}: {self.message})"])


def correlations(
    recursion: Recursion, values: dict[str, Any], phase: Any, first: float, odd: bool | None,
    at_infinity: Callable[[], Recursion | None] = lambda: None,
) -> Correlations:  # fmt: skip
    """The fixed points of the correlation; see `Theory.correlations`.

    recursion: of (K, K_ab, distance, J_ab); values: numbers of its parameters; phase: where K flows; first: K at layer
    1; odd: whether (x, -y) goes the way of (x, y), None where that is not proved either way; at_infinity: gives the
    recursion of the network that this one becomes at K → ∞, if one is known.
    """
    point = phase.fixed_point
    weightless = values["sigma_w"] == 0 and recursion["distance"].subs(sigma_w, 0) == 0
    gone = weightless or phase.chi_J.value == 0  # C has no coefficient beyond the first
    if point is not None and point.K.value != 0 and gone:
        text = "no others: the inputs are the same after one layer"
        return Correlations(float(point.K.value), (CorrelationPoint(1.0, 0.0, "stable"),), phase.status, text)
    step = _Step(recursion, values)
    K_star = first if point is not None and point.stability == "neutral" else None
    if K_star is None and point is not None:
        K_star = float(point.K.value)
    if K_star is None or not 0 < K_star < 1e290:
        free, K_star, reason = _without_K(recursion, values, "∞" if point is None else "0", at_infinity)
        if free is None:
            return Correlations(math.nan, (), Status.UNKNOWN, reason)
        step = free
    else:
        reason = ""
    slope, proved = _slope_at_one(step, K_star, phase, bool(reason))
    if math.isnan(slope):
        return Correlations(K_star, (), Status.UNKNOWN, "whether C′(1) is 1 is not decided at this place")
    found = [CorrelationPoint(1.0, slope, "unstable" if slope > 1 else "marginal" if slope == 1 else "stable")]
    if slope > 1:
        found.append(_inside(step, K_star, bool(odd)))
    elif slope == 1 and _is_identity(step, K_star):
        return Correlations(K_star, (), Status.UNKNOWN, "the map of c is the identity: every correlation stays")
    off = None if odd is not None else -step.excess(K_star, 2.0)  # C(-1) = -1: a LayerNorm takes a constant away
    looks_odd = off < NEAR if off is not None else bool(odd)
    if looks_odd:
        found.append(CorrelationPoint(-1.0, slope, found[0].stability))
    seen = off is None or off > max(NEAR, 4 * step.error)  # floats show that C is not odd, never that it is
    proved = proved and seen and phase.status != Status.MEASURED
    status = Status.CERTIFIED if proved else Status.MEASURED
    why = f"C is convex on [0, 1] and {'odd' if looks_odd else 'not odd'}"
    why += "" if seen else ", as far as float arithmetic sees"
    return Correlations(K_star if not reason else math.nan, tuple(found), status, reason or f"no others: {why}")


class _Step:
    """One layer at fixed K: what a distance does."""

    def __init__(self, recursion: Recursion, values: dict[str, Any]):
        self.recursion, self.values = recursion, values

    @cached_property
    def error(self) -> float:
        """What an average misses: known once the step is lowered, which takes long and is not always asked for."""
        return max(lower(self.recursion).errors, default=0.0)

    def at(self, K: float, distance: Any) -> tuple[Any, Any, Any]:
        """(K′/K, log of distance′/distance, K_ab slope J_ab′) for an array of distances."""
        start = {"K": np.full(np.shape(distance), K), "distance": distance, "J_ab": np.ones(np.shape(distance))}
        run = propagate(self.recursion, **self.values, depth=2, start=start)
        with np.errstate(invalid="ignore"):  # of a distance of 0 nobody asks how it grows
            grown = run.values["log_distance"][..., 1] - run.values["log_distance"][..., 0]
        return run.values["K"][..., 1] / K, grown, run.values["J_ab"][..., 1]

    def excess(self, K: float, gap: float) -> float:
        """log of (1 - c′)/(1 - c) at 1 - c = gap."""
        K_ratio, grown, _ = self.at(K, np.array([2 * K * gap]))
        return float(grown[0] - math.log(K_ratio[0]))

    def slope(self, K: float, gap: float) -> float:
        """C′ at 1 - c = gap."""
        K_ratio, _, slope = self.at(K, np.array([2 * K * gap]))
        return float(slope[0] / K_ratio[0])

    def slope_at_zero(self, K: float) -> float:
        """C′ at c = 0, the share of φ in its linear part: at most 1, and 0 where floats do not tell it from 0."""
        found = self.slope(K, 1.0)
        return 0.0 if abs(found) <= self.error + 4e-16 else found


def _without_K(
    recursion: Recursion, values: dict[str, Any], end: str, at_infinity: Callable[[], Recursion | None]
) -> tuple[_Step | None, float, str]:
    """The step where K ends at 0 or ∞, if the map of c does not depend on K without a bias (φ of one power); where φ
    becomes one power at ∞, that of the power: averages of φ itself take long at large K."""
    if not values["sigma_w"] > 0:
        return None, math.nan, "without weights and biases every signal is 0"
    values = values | {"sigma_b": 0.0}
    whole, limit = _Step(recursion, values), at_infinity() if end == "∞" else None
    looked = [(_Step(limit, values), NEARBY, NEAR)] if limit is not None else []
    looked += [(whole, NEARBY, NEAR), *[(whole, FAR, FARTHER)] * (end == "∞")]
    with np.errstate(all="ignore"):
        for step, places, near in looked:
            looks = [[step.excess(K, gap) for gap in (0.9, 0.3, 1e-3)] for K in places]
            if all(abs(a - b) <= near for a, b in zip(*looks)) and (near == NEAR or abs(looks[0][0]) > near):
                there = "" if step is whole and near == NEAR else " there"
                why = f"the map of c does not depend on K{there}, as far as float arithmetic sees"
                return step, places[0], f"K flows to {end}; {why}"
    return None, math.nan, (
        f"K flows to {end}, where the map of c depends on how it gets there; follow it with propagate(quantities="
        '("K", "c"))'
    )


def _slope_at_one(step: _Step, K: float, phase: Any, free: bool) -> tuple[float, bool]:
    """(C′(1), whether its side of 1 is proved); NaN where nothing decides."""
    if free:
        slope = step.slope(K, 0.0)
        if not math.isfinite(slope):  # φ jumps at a z that K leaves behind: beside it, what is left of the jump is 0
            slope = step.slope(K, OFFSET)
        return (1.0 if abs(slope - 1) <= (NEAR if K == 1 else FARTHER) else slope), False
    value = phase.chi_J.value
    slope = math.inf if not getattr(value, "is_finite", True) else float(value)
    if phase.name in ("critical", "critical to rounding"):
        return 1.0, phase.name == "critical"
    if phase.name == "undecided":
        return math.nan, False
    return slope, True


def _is_identity(step: _Step, K: float) -> bool:
    return all(abs(step.excess(K, gap)) <= NEAR for gap in (0.9, 0.3))


def _inside(step: _Step, K: float, odd: bool) -> CorrelationPoint:
    """The fixed point in [0, 1) of a map with C′(1) > 1: c = 0 if there is no even part, else a zero in log(1 - c)."""
    if odd:
        return CorrelationPoint(0.0, step.slope_at_zero(K), "stable")
    low, high = math.log(LEAST), 0.0
    missed = step.error + 4e-16
    if step.excess(K, 1.0) >= -missed:  # C(0) = 0 to rounding: LayerNorm takes the mean away, or ⟨φ⟩ is 0 at K*
        slope = step.slope_at_zero(K)
        return CorrelationPoint(0.0, slope, "stable", missed / max(1 - slope, 1e-300))
    if step.excess(K, math.exp(low)) > 0:
        where = between(lambda u: step.excess(K, math.exp(u)), low, high)
        gap = math.exp(where)
        slope = step.slope(K, gap)
        # d log((1 - c′)/(1 - c))/d log(1 - c) = slope - 1 there
        error = gap * (step.error + 4e-16 * (1 - where)) / max(1 - slope, 1e-300)
        if error < gap:
            return CorrelationPoint(1 - gap, slope, "stable", error, gap)
    raise MeanFieldError(
        f"The correlation's fixed point is not available: it cannot be told from 1: it lies within {LEAST:.0e} of it, "
        "or C′(1) is 1 to rounding."
    )
