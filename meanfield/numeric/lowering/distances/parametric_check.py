"""How accurate two-input averages with parameters that change from layer to layer are: at samples of a state, with the
parameters that come with it put in, against the finer panels of another geometry (`pair_check`)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import sympy as sp

from meanfield.base.symbols import P_POSITIVE, K, K_aa, K_ab, K_bb, P, Z, distance
from meanfield.numeric.lowering.averages import pair_check, planes
from meanfield.numeric.lowering.averages.direct import rational
from meanfield.numeric.lowering.distances import equal_norm_distance
from meanfield.symbolic.averages.node import Average, Integrand, outermost

PLACES = (  # (K_aa, K_bb, c); of one variance: (K_aa, K_aa, c)
    (1.0, 1.0, 0.6),
    (0.5, 3.0, -0.99),
    (1e-6, 1e-6, 0.3),
    (1e-2, 0.3, -1 + 2.0**-30),
    (7.0, 20.0, -0.3),
    (1e-4, 1e3, 0.9),
    (2e3, 5.0, 0.0),
    (1e5, 1e5, 1 - 1e-6),
)
APART = ((1.0, 1e-12), (1.0, 0.095), (1.0, 0.65), (1e-3, 5e-3), (50.0, 2e-4), (1e4, 1e-8), (1e4, 0.15), (7.0, 1.7))
OTHERS = (1.0, 0.31, 2.7)  # values of σ's and skip strengths, in turns
NEAR = 0.02  # of 1 - c in units of f's own scale, up to which twelve slopes are enough, two kinks that meet included
DIGITS = 20


@dataclass(frozen=True)
class Sample:
    """One place at which a node is measured: its variances, c, the parameters that come with them, and the plan of the
    integrand with these put in, its z in units of min(1, √K) (behind a norm a small K brings its own scale)."""

    K_aa: float
    K_bb: float
    c: float
    parameters: tuple[float, ...]
    units: tuple[float, float]
    plan: planes.PanelPlan

    @property
    def scaled(self) -> tuple[float, float]:
        """The variances in these units."""
        return self.K_aa / self.units[0] ** 2, self.K_bb / self.units[1] ** 2

    @cached_property
    def true(self) -> float:
        """The average, by finer panels."""
        root = math.sqrt((1 - abs(self.c)) * (1 + abs(self.c)))
        return pair_check.average(self.plan, *self.scaled, self.c, root, finer=True)

    @cached_property
    def size(self) -> float:
        """√(⟨f²⟩⟨g²⟩)."""
        return pair_check.scale(self.plan, *self.scaled)


def samples(node: Average, variables) -> list[Sample]:
    """Places of a node over (K_aa, K_ab, K_bb) and its own dummies; variables: its three covariances and its parameters
    as formulas of the state.

    Parameters of their own choice would measure what never occurs: a mean above the root of its second moment, or
    a switch point at a hundred standard deviations.
    """
    first, _, second, *parameters = map(sp.sympify, variables)
    one = first == second
    out = []
    for i, (a, b, c) in enumerate(PLACES):
        state = _state(a, a if one else b)
        (at, to), values = _values((first, second), state, i), _values(parameters, state, i)
        units = min(1.0, math.sqrt(at)), min(1.0, math.sqrt(to))
        out.append(Sample(at, to, c, values, units, planes.plan(_substituted(node, values, units))))
    return out


def _state(a: float, b: float) -> dict[sp.Symbol, sp.Expr]:
    return {K: sp.Rational(a), K_aa: sp.Rational(a), K_bb: sp.Rational(b)}


def _values(formulas, state, direction_ratio: int) -> tuple[float, ...]:
    """Numbers of formulas of the state and of other symbols, which take values in turns."""
    others = sorted(set().union(*(v.free_symbols for v in formulas)) - {*state, K_ab, distance}, key=str)
    fixed = {s: sp.Rational(OTHERS[direction_ratio % 3] * (1 + 0.37 * i)) for i, s in enumerate(others)}
    return tuple(_number(v.subs(fixed | state)) for v in formulas)


@lru_cache(maxsize=1024)
def _number(e: sp.Expr) -> float:
    return float(sp.N(e.xreplace({a: _digits(a) for a in outermost(e)}), DIGITS))


@lru_cache(maxsize=1024)
def _digits(node: Average) -> sp.Expr:
    return sp.N(node, DIGITS)


def _substituted(node: Average, values, units) -> Average:
    """The node with numbers for its parameters, z in the given units."""
    numbers = [sp.Rational(v) for v in values]
    body = rational(node.args[0].expr.xreplace(dict(zip(P, numbers)) | dict(zip(P_POSITIVE, numbers))))
    scaled = {z: sp.Rational(u) * z for z, u in zip(Z, units) if u < 1}
    return Average(Integrand(body.xreplace(scaled)), sp.Tuple(K_aa, K_ab, K_bb), sp.Tuple(0, 0))


def miss(places: list[Sample], function) -> float:
    """The largest difference of `function(K_aa, K_ab, K_bb, sine2, p0, …)` at the places, in units of √(⟨f²⟩⟨g²⟩)."""
    worst = pair_check.FLOOR
    for s in places:
        if max(s.scaled) > s.plan.limit or not s.size > 0:
            continue
        between, sine2 = s.c * math.sqrt(s.K_aa) * math.sqrt(s.K_bb), (1 - abs(s.c)) * (1 + abs(s.c))
        off = abs(function(s.K_aa, between, s.K_bb, sine2, *s.parameters) - s.true)
        worst = max(worst, math.inf if math.isnan(off) else off / s.size)
    return worst


def distance_ratio_error(parts, function, variables, limit: float) -> float:
    """The largest relative error of `function(V, apart, p0, …)` for a `DistanceRatio` over (K, distance) and its own
    dummies.

    parts: ⟨f f⟩ and ∂⟨f f⟩/∂K_ab; variables: its variance, distance and parameters as formulas of the state.
    """
    variance, _, *parameters = map(sp.sympify, variables)
    worst = equal_norm_distance.FLOOR
    for i, (k, gap) in enumerate(APART):
        state = _state(k, k)
        (V,), values = _values((variance,), state, i), _values(parameters, state, i)
        if limit < V:
            continue
        unit = min(1.0, math.sqrt(V))
        product, slope = (_with_numbers(e, values, unit) for e in parts)
        # everything per distance in these units: a slope in z is one in them over the unit
        true = (
            equal_norm_distance.reference(product, unit**2 * slope, V / unit**2, 2 * V / unit**2 * gap, NEAR) / unit**2
        )
        if abs(true) < equal_norm_distance.SMALL:
            continue
        try:
            off = abs(function(V, 2 * V * gap, *values) / true - 1)
        except (OverflowError, ZeroDivisionError, ValueError):
            off = math.inf
        worst = max(worst, math.inf if math.isnan(off) else off)
    return worst


def _with_numbers(e: sp.Expr, values, unit: float) -> sp.Expr:
    """An expression in averages over (K_aa, K_ab, K_bb) with numbers for the parameters, z in units of `unit`."""
    numbers = [sp.Rational(v) for v in values]
    filled = dict(zip(P, numbers)) | dict(zip(P_POSITIVE, numbers))
    own = {n: [_number(sp.sympify(p).xreplace(filled)) for p in n.args[3]] for n in e.atoms(Average)}
    return e.xreplace({n: _substituted(n, own[n], (unit, unit)) for n in own}).xreplace(filled)
