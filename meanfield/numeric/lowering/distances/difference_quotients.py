"""How far a piecewise analytic f moves two Gaussians apart, ⟨(k f(z_a) - f(z_b)/k)²⟩/Δ, with all its digits.

The panels are those of `planes`. On them k f_a - f_b/k is k(f_a - f_b) - (1/k - k) f_b: the first from the difference
z_a - z_b, which is (s - t)m + (s + t)d/2 and cancels nothing, times a quotient of differences; where the two are close
in f's own scale, and no break between them, that is a Gauss mean of f′. So neither 1 - c nor s - t can be too small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import sympy as sp

from meanfield.base.symbols import K_aa, K_ab, K_bb, Z
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering.averages import planes
from meanfield.numeric.quadrature import branches, evaluation
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.symbolic import parity
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio
from meanfield.symbolic.equality import closed

SHORT = 0.1  # of f's own scale: up to this difference `MEAN` nodes give the mean of f′
MEAN = 4
LEAST = 1e-32  # of st: a smaller Δ changes nothing, by a rounding of 1 at most
NOTE = "panels of difference quotients"
FAR = 0.01  # of st: from this Δ on the difference of two f keeps its digits
PARAMETERS = ("between", "scale", "share", "less", "plain")


@dataclass(frozen=True)
class DifferencePlan(planes.PanelPlan):
    """The plan of f beside itself, and f′."""

    slope: sp.Expr = sp.S.Zero

    @property
    def short(self) -> tuple[float, float]:
        """Up to which difference of two arguments f′ is averaged: a number, and a share of how far the nearest steep
        point is, beside which all panels widen (not where f oscillates, or grows like an exponential)."""
        alike = self.rate == 0 and not any(self.frequencies)
        phase = max(self.frequencies)
        scale = min(1.0, self.step, *([1.0 / phase] if phase else []))
        return SHORT * scale, 0.5 * SHORT if alike else 0.0

    def values(self, s_a: float, s_b: float, m: np.ndarray, d: np.ndarray, *more: float) -> np.ndarray:
        """What is averaged, at arrays of m and d; more: `PARAMETERS`."""
        between, scale, share, less, plain = more
        a, b, apart = s_a * (m + 0.5 * d), s_b * (m - 0.5 * d), between * m + 0.5 * (s_a + s_b) * d
        if scale == 0.0:
            return evaluation.evaluate(self.slope, a) * evaluation.evaluate(self.slope, b)
        other = evaluation.evaluate(self.f, b)
        if plain:
            return ((share * evaluation.evaluate(self.f, a) - other / share) * scale) ** 2
        return (share * self._quotient(a, b, apart, other) * (apart * scale) - less * other) ** 2

    def _quotient(self, a, b, apart, other):
        short, part = self.short
        breaks = np.array(_breaks(self.f))
        crossed = (np.searchsorted(breaks, np.minimum(a, b), "right") < np.searchsorted(breaks, np.maximum(a, b))) & (
            a != b
        )
        local = np.full(a.shape, np.inf)
        for k in _steep(self):
            local = np.minimum(local, np.minimum(np.abs(a - k), np.abs(b - k)))
        plain = (crossed | (np.abs(apart) > np.maximum(short, part * local))) & (a != b)
        out = np.empty_like(a)
        out[plain] = (evaluation.evaluate(self.f, a[plain]) - other[plain]) / (a - b)[plain]
        middle, apart = 0.5 * (a + b)[~plain], apart[~plain]
        out[~plain] = sum(
            0.5 * w * evaluation.evaluate(self.slope, middle + 0.5 * x * apart) for x, w in zip(*gauss_legendre(MEAN))
        )
        return out


def plan_of(f: sp.Expr, slope: sp.Expr) -> DifferencePlan:
    """The plan of a function of Z[0] and its derivative, whose poles are of one order more."""
    own = planes.plan_of(f, f)
    found = {part.name: getattr(own, part.name) for part in fields(own)}
    found |= {"gaps": (planes.quiet_up_to(slope),) * 2, "step": min(own.step, planes.resolved(slope))}
    return DifferencePlan(**found, slope=slope)


def applies(f: sp.Expr, slope: sp.Expr) -> bool:
    """Whether f neither jumps nor branches."""
    return not (pieces(f, Z[0]).jumps() or branches.branches(f) or branches.branches(slope))


def serves(node: DistanceRatio) -> bool:
    """Whether a node's distance is computed here: the mean of its slopes over correlations has no closed form."""
    slope = pieces(node.function, Z[0]).diff().expr
    if not applies(node.function, slope):
        return False
    return closed(average(slope * slope.xreplace({Z[0]: Z[1]}), (K_aa, K_ab, K_bb))).has(Average)


def _breaks(f: sp.Expr) -> list[float]:
    return [float(b) for b in pieces(f, Z[0]).breaks]


def _steep(plan: planes.PanelPlan) -> list[float]:
    return sorted({0.0, *plan.kinks[0]})


def text(plan: DifferencePlan, name: str) -> str:
    """Source of `name_moved(A, B, apart, sine, gap, share, less)`: ⟨(share f(z_a) - f(z_b)/share)²⟩/apart, where sine
    is (√A - √B)/√apart, gap = 1 - c, and less (1/share - share)/√apart; and of `name_slope(K_aa, K_ab, K_bb, sine2)`,
    ⟨f′(z_a) f′(z_b)⟩."""
    one, other = "s_a * (m + 0.5 * d)", "s_b * (m - 0.5 * d)"
    apart = f"{name}_apart({one}, {other}, between * m + 0.5 * (s_a + s_b) * d, scale, share, less)"
    value = f"((share * {name}_f({one}) - {name}_f({other}) / share) * scale if plain else {apart}) ** 2"
    value = f"({value} if scale > 0.0 else {name}_d({one}) * {name}_d({other}))"
    more = "".join(f", {p}" for p in PARAMETERS)
    whole = quotient(plan, name, ("F", "G")) + _APART.format(name=name) + planes.filled_for(
        plan, name, value, "s_a == s_b and between == 0.0", parameters=more, more=more
    )  # fmt: skip
    at_rest = np.abs(evaluation.evaluate(plan.f, np.array([-1e-300, 0.0, 1e-300]))).max()
    far = "math.inf" if at_rest > 1e-290 else repr(FAR)  # beside f(0) small differences have few digits
    even = "gap > 1.0" if parity.of_function(plan.f) == 1 else "False"
    beyond = f"max(A, B) > {plan.limit!r}" if plan.limit < math.inf else "False"
    return whole + _MOVED.format(name=name, even=even, least=LEAST, beyond=beyond, far=far)


def quotient(plan: DifferencePlan, name: str, arrays: Sequence[str] = ("F",)) -> str:
    """Source of `name_f(z)`, `name_d(z)` = f′(z), and `name_quotient(a, b, apart)`, (f(a) - f(b))/(a - b); arrays: of
    which factors steep points and breaks are written down."""
    (short, part), steep, breaks = plan.short, _steep(plan), _breaks(plan.f)
    x, w = gauss_legendre(MEAN)
    mean = repr(tuple((0.5 * float(t), 0.5 * float(v)) for t, v in zip(x, w)))
    places = {f"K{k}": steep for k in arrays}
    functions = planes.function_text(plan.f, f"{name}_f") + planes.function_text(plan.slope, f"{name}_d")
    head = planes.arrays(name, places, {f"B{k}": [x in breaks for x in steep] for k in arrays})
    return head + functions + _QUOTIENT.format(name=name, short=short, part=part, mean=mean)


_QUOTIENT = """def {name}_quotient(a, b, apart):
    # (f(a) - f(b))/(a - b); apart: a - b with the digits that its rounded places do not have
    local, crossed = math.inf, False
    for k in range({name}_KF.shape[0]):
        u, v = a - {name}_KF[k], b - {name}_KF[k]
        local = min(local, abs(u), abs(v))
        crossed = crossed or ({name}_BF[k] and u * v < 0.0)
    if a != b and (crossed or abs(apart) > max({short!r}, {part!r} * local)):
        return ({name}_f(a) - {name}_f(b)) / (a - b)
    total, middle = 0.0, 0.5 * (a + b)
    for x, w in {mean}:
        total += w * {name}_d(middle + x * apart)
    return total


"""
_APART = """def {name}_apart(a, b, apart, scale, share, less):
    return share * {name}_quotient(a, b, apart) * (apart * scale) - less * {name}_f(b)


"""
_MOVED = """def {name}_moved(A, B, apart, sine, gap, share, less):
    if {beyond}:
        return math.nan
    s, t = math.sqrt(A), math.sqrt(B)
    if apart < {least!r} * s * t:
        apart, gap = {least!r} * s * t, 0.5 * {least!r} * (1.0 - sine * sine)
    between, scale = sine * math.sqrt(apart), 1.0 / math.sqrt(apart)
    if {even}:  # an even function does not tell z from -z
        gap = 2.0 - gap
    elif gap > 1.0:
        between = s + t
    plain = apart > {far} * s * t
    return {name}_quadrature(A, s * t * (1.0 - gap), B, gap * (2.0 - gap), between, scale, share, less, plain)


def {name}_slope(K_aa, K_ab, K_bb, sine2):
    return {name}_quadrature(K_aa, K_ab, K_bb, sine2, 0.0, 0.0, 0.0, 0.0, False)


"""


def of_distance_ratio(name: str, moved: str) -> str:
    """Source of a `DistanceRatio`, `name(V, apart)`, by the function `moved` of `text`."""
    return f"""def {name}(V, apart):
    V = max(V, 1e-290)
    return {moved}_moved(V, V, apart, 0.0, min(0.5 * apart / V, 2.0), 1.0, 0.0)
"""


def of_unequal_ratio(name: str, moved: str) -> str:
    """Source of an `UnequalDistanceRatio`, `name(A, B, apart, norm_angle)`."""
    return f"""def {name}(A, B, apart, norm_angle):
    A, B = max(A, 1e-290), max(B, 1e-290)
    gap = min(0.5 * _cos(norm_angle) ** 2 * apart / (math.sqrt(A) * math.sqrt(B)), 2.0)
    return {moved}_moved(A, B, apart, math.sin(norm_angle), gap, 1.0, 0.0)
"""


def of_direction_ratio(name: str, moved: str, second: str, tables: Sequence[str], grown: str) -> str:
    """Source of a `DirectionRatio`, `name(A, B, apart, norm_angle, T, …)`; second: the function of ⟨f²⟩, by the first
    table; grown: source of how ⟨f²⟩ differs between the two inputs, over s - t."""
    return f"""def {name}(A, B, apart, norm_angle, {", ".join(tables)}):
    A, B = max(A, 1e-290), max(B, 1e-290)
    s, t = math.sqrt(A), math.sqrt(B)
    one, other = math.sqrt(max({second}(A, T), 0.0)), math.sqrt(max({second}(B, T), 0.0))
    if not one * other > 0.0:
        return 0.0
    less = {grown} / ((one + other) * math.sqrt(one * other))
    sine, gap = math.sin(norm_angle), min(0.5 * _cos(norm_angle) ** 2 * apart / (s * t), 2.0)
    return {moved}_moved(A, B, apart, sine, gap, math.sqrt(other / one), less * sine)
"""
