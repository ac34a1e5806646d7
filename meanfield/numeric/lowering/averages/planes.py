"""Two-input averages of piecewise analytic functions ⟨f(z_a) g(z_b)⟩: panel quadrature over sum and difference.

With z_a = s_a x, z_b = s_b y and correlation c = 1 - gap ≥ 0, m = (x + y)/2 and d = x - y are independent, of variances
1 - gap/2 and 2 gap, whatever s_a and s_b are. For fixed d the kinks of f lie at k/s_a - d/2, those of g at
k/s_b + d/2: panels in m end there, and what is left is analytic in d but where two of them cross. So nothing has to be
graded, at full correlation least of all (one line, d = 0), and correlation -1 is that of g(-z). Where f or g
oscillates, no panel holds more than a period, which limits K. `pair_check` measures the error against another geometry.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from meanfield.base.answers.results import InfiniteAverage, MeanFieldError
from meanfield.base.symbols import Z
from meanfield.functions.piecewise import pieces
from meanfield.functions.series.small_arguments import small_arguments
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.quadrature import branches, evaluation
from meanfield.numeric.quadrature import gaussian_averages as quadrature
from meanfield.numeric.quadrature.rules import gauss_legendre, half_gauss
from meanfield.numeric.quadrature.steep_points import centres, resolving_width
from meanfield.symbolic.averages.node import Average

NODES = 16  # Gauss–Legendre nodes a panel
WIDER = 1.5  # of a plan's step: the first panels beside a steep point
LAST = 1.3  # of such a panel: a rest that is less than .3 of a panel is joined to it
FEW = 8  # nodes in |d| where all that happens is far away
REACH, FARTHEST = 9.0, 40.0  # standard deviations integrated; where all mass lies farther out, up to e^{-800}
QUIET = 1e-3  # of a function's size: what is less before its first steep point does not count
PERIODS = 6.0  # radians of phase a panel may hold
FINEST, LEAST = 1e-14, 1e-9  # of m and of d: narrower panels add nothing to an average, even to that of a step
PANELS = 400  # of one variable, for phases; this limits K


@dataclass(frozen=True)
class PanelPlan:
    """What the quadrature knows of f and g: steep points, which of them branch, panel scales, frequencies."""

    f: sp.Expr
    g: sp.Expr
    kinks: tuple[tuple[float, ...], tuple[float, ...]]
    branches: tuple[tuple[branches.BranchPoint, ...], tuple[branches.BranchPoint, ...]]
    m_inner: int
    m_outer: int
    rate: float
    step: float
    frequencies: tuple[float, float]
    limit: float
    gaps: tuple[float, float] = (0.0, 0.0)

    def values(self, s_a: float, s_b: float, m: np.ndarray, d: np.ndarray, *more: float) -> np.ndarray:
        """What is averaged, at arrays of m and d; more: what the quadrature takes beside the covariances."""
        f, g = (evaluation.evaluate(h, z) for h, z in ((self.f, s_a * (m + 0.5 * d)), (self.g, s_b * (m - 0.5 * d))))
        return f * g


def plan(node: Average) -> PanelPlan:
    """The plan of a node ⟨f(z_a) g(z_b)⟩. Raises: MeanFieldError where its integrand does not separate."""
    return plan_of(*separate(node))


@lru_cache(maxsize=128)
def plan_of(f: sp.Expr, g: sp.Expr) -> PanelPlan:
    """The plan of f and g, both in Z[0]."""
    pair = f, g
    kinks = tuple(
        tuple(sorted({float(b) for b in pieces(h, Z[0]).breaks} | set(_signed_centres(h)))) or (0.0,) for h in pair
    )
    sites = tuple(branches.branches(h) for h in pair)
    powers = [min([0.0, *(b.power for b in found)]) for found in sites]
    ms = [max([1, *(b.m for b in found)]) for found in sites]
    # at |c| = 1 both factors can branch at one place, and the powers add; there 0.15 is as near to -1 as is resolved
    both = math.ceil(4.5 / max(0.15, 1 + sum(powers)))
    frequencies, limit = _frequencies(pair)
    return PanelPlan(
        f,
        g,
        (kinks[0], kinks[1]),
        (sites[0], sites[1]),
        ms[1],
        max(*ms, both) if any(sites) else 1,
        max(quadrature.rule_for(h).rate for h in pair),
        min(resolved(h) for h in pair),
        frequencies,
        limit,
        (quiet_up_to(f), quiet_up_to(g)),
    )


def quiet_up_to(h: sp.Expr) -> float:
    """The |z| at which h first rises from next to nothing, as 3 in max(z - 3, 0): at small variances all that counts of
    an average lies beyond; 0 where h is something near 0."""
    places = sorted({abs(float(b)) for b in pieces(h, Z[0]).breaks} | set(centres(h)))
    for place in (p for p in places if p > 0):
        inside, outside = (np.array([u * place for u in at]) for at in ((-0.5, 0.0, 0.5), (-1.5, -1.0, 1.0, 1.5)))
        with np.errstate(all="ignore"):
            near, far = (np.abs(evaluation.evaluate(h, z)).max() for z in (inside, outside))
        return place if near <= QUIET * far else 0.0
    return 0.0


def separate(node: Average) -> tuple[sp.Expr, sp.Expr]:
    """(f, g), both in Z[0], with integrand f(z_a) g(z_b)."""
    return separated(node.integrand)


def separated(integrand: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """(f, g), both in Z[0], of f(Z[0]) g(Z[1])."""
    f = g = sp.S.One
    factors = list(sp.Mul.make_args(integrand))
    if any(one.has(Z[0]) and one.has(Z[1]) for one in factors):  # (1 + z_a²)(1 + z_b²), multiplied out
        factors = [part for one in factors for part in sp.Mul.make_args(_factored(one))]
    for factor in factors:
        used = [i for i in (0, 1) if factor.has(Z[i])]
        if len(used) > 1:
            raise MeanFieldError(f"{factor} does not separate into a function of z_a times a function of z_b.")
        if used == [1]:
            g *= factor.xreplace({Z[1]: Z[0]})
        else:
            f *= factor
    return f, g


def _factored(e: sp.Expr) -> sp.Expr:
    """A power of a polynomial in both variables as a product."""
    base, power = e.as_base_exp()
    if not (e.has(Z[0]) and e.has(Z[1]) and base.is_polynomial(*Z[:2])):
        return e
    return sp.Mul(*[part**power for part in sp.Mul.make_args(sp.factor(base))])


def _signed_centres(h) -> list[float]:
    """Places where a factor is steep although it has no kink, on both sides (harmless where there is nothing)."""
    found = [c for c in centres(h) if c != 0]
    return [*found, *(-c for c in found)]


def resolved(h: sp.Expr) -> float:
    """The step at which panels resolve h²."""
    step = resolving_width(h, NODES, WIDER * LAST)
    with suppress(InfiniteAverage):  # ⟨h²⟩ = ∞, as of |z|^(-3/5); ⟨h h⟩ is finite away from full correlation
        step = min(step, quadrature.resolved(h)[0])
    return step


def _frequencies(pair) -> tuple[tuple[float, float], float]:
    """The fastest phases of f and g for K up to a limit, which is ∞ where nothing oscillates."""
    rules = [quadrature.rule_for(h) for h in pair]
    if not any(r.fastest or r.slopes for r in rules):
        return (0.0, 0.0), math.inf
    best = (0.0, 0.0), 0.0
    for octave in range(-8, 20):
        K = 2.0**octave
        speeds = tuple(quadrature.fastest_phase(r, 9.0 * math.sqrt(K)) for r in rules)
        if 18.0 / PERIODS * sum(speeds) * math.sqrt(K) > PANELS:
            break
        best = (speeds[0], speeds[1]), K
    return best


def function_text(h: sp.Expr, name: str) -> str:
    """Source of `name(z)`, piece by piece."""
    p, z = pieces(h, Z[0]), sp.Symbol("z", real=True)
    out, last = f"def {name}(z):\n", len(p.exprs) - 1
    for i, (e, lo, hi) in enumerate(p.intervals()):
        indent = " " * (4 if i == last else 8)
        out += "" if i == last else f"    if z < {float(hi)!r}:\n"
        if lo <= 0 <= hi and (near := small_arguments(e)) is not None:
            out += f"{indent}if abs(z) < {near.reach!r}:\n{indent}    return {near.code()}\n"
        out += printing.body(e.xreplace({Z[0]: z}), indent)
    return out + "\n\n"


_TEMPLATE = """
def {name}_line(d, s_a, s_b, sd_m, wide, reach, points, scales, shifts, moved, edges{more}):
    # the average over m at one difference d
    X, W = {name}_X, {name}_W
    for k in range(points.shape[0]):
        moved[k] = points[k] + shifts[k] * d
    n = _panels(-reach, reach, moved, scales, wide, edges)
    total = 0.0
    for i in range(n - 1):
        half = 0.5 * (edges[i + 1] - edges[i])
        part = 0.0
        for k in range(X.shape[0]):
            m = edges[i] + half * (1.0 + X[k])
            part += W[k] * math.exp(-0.5 * (m / sd_m) ** 2) * {value}
        total += half * part
    return total * 0.3989422804014327 / sd_m


def {name}_quadrature(K_aa, K_ab, K_bb, sine2{parameters}):
{setup}    X, W = {name}_X, {name}_W
    s_a, s_b = math.sqrt(K_aa), math.sqrt(K_bb)
    if K_ab < 0.0:  # g(-z) has correlation -c
        s_b = -s_b
    gap = _closeness(K_aa, K_ab, K_bb, sine2)
    sd_m, sd_d = math.sqrt(1.0 - 0.5 * gap), math.sqrt(2.0 * gap)
    nf, ng = {kf}.shape[0], {kg}.shape[0]
    points, scales, shifts, moved = _room(nf + ng), _room(nf + ng), _room(nf + ng), _room(nf + ng)
    for i in range(nf):
        points[i], shifts[i] = {kf}[i] / max(s_a, 1e-150), -0.5
        scales[i] = max({step_a} / max(s_a, 1e-150), {finest!r})
    for j in range(ng):
        s = s_b if abs(s_b) > 1e-150 else 1e-150
        points[nf + j], shifts[nf + j] = {kg}[j] / s, 0.5
        scales[nf + j] = max({step_b} / abs(s), {finest!r})
    far = {rate} * {sizes}
    rise = max({gap_a!r} / max(s_a, 1e-150), {gap_b!r} / max(abs(s_b), 1e-150))
    most = min(math.hypot({reach!r}, rise), {farthest!r})
    reach = most * sd_m + far * sd_m**2
    phase = {phase} + 1e-9
    wide = min(2.0 * sd_m, {periods} / phase)
    edges = _room(1000)
    if sd_d == 0.0:
        return {name}_line(0.0, s_a, s_b, sd_m, wide, reach, points, scales, shifts, moved, edges{more})
    crossings, widths = _room(nf * ng), _room(nf * ng)
    near = min(sd_m, 2.0 / phase)
    for i in range(nf):
        for j in range(ng):
            k = i * ng + j
            crossings[k] = points[i] - points[nf + j]
            widths[k] = _width(scales[i], scales[nf + j], {name}_BF[i], {name}_BG[j], sd_m)
            near = min(near, widths[k], abs(crossings[k]) if crossings[k] != 0.0 else near)
            widths[k] = max(widths[k], {least!r})
    total = 0.0
    if near > 18.0 * sd_d:
        Y, V = {name}_Y, {name}_V
        for k in range(Y.shape[0]):
            d = sd_d * Y[k]
            here = {name}_line(d, s_a, s_b, sd_m, wide, reach, points, scales, shifts, moved, edges{more})
            if {even}:
                total += V[k] * here
            else:
                there = {name}_line(-d, s_a, s_b, sd_m, wide, reach, points, scales, shifts, moved, edges{more})
                total += 0.5 * V[k] * (here + there)
        return total
    end = most * sd_d + 0.5 * far * sd_d**2
    both = sd_d / math.sqrt(1.0 + 0.25 * (sd_d / sd_m) ** 2)  # of its density and of the edges that move with d
    widest = min(2.2 * both, 2.0 * {periods} / phase)
    outer = _room(1000)
    n = _panels(0.0 if {even} else -end, end, crossings, widths, widest, outer)
    for i in range(n - 1):
        half = 0.5 * (outer[i + 1] - outer[i])
        for k in range(X.shape[0]):
            d = outer[i] + half * (1.0 + X[k])
            here = {name}_line(d, s_a, s_b, sd_m, wide, reach, points, scales, shifts, moved, edges{more})
            total += W[k] * half * math.exp(-0.5 * (d / sd_d) ** 2) * here
    if {even}:
        total *= 2.0
    return total * 0.3989422804014327 / sd_d


"""


def text(plan: PanelPlan, name: str, widen: float = WIDER) -> str:
    """Source of `name_quadrature(K_aa, K_ab, K_bb, sine2)`; widen: the first panels' width in the plan's steps."""
    kinks = {k: sorted({0.0, *points}) for k, points in zip(("KF", "KG"), plan.kinks)}
    flags = {}
    for k, h in (("F", plan.f), ("G", plan.g)):
        breaks = {float(b) for b in pieces(h, Z[0]).breaks}
        flags[f"B{k}"] = [x in breaks for x in kinks[f"K{k}"]]
    same = plan.f == plan.g
    functions = function_text(plan.f, f"{name}_f") + ("" if same else function_text(plan.g, f"{name}_g"))
    value = f"{name}_f(s_a * (m + 0.5 * d)) * {name}_{'f' if same else 'g'}(s_b * (m - 0.5 * d))"
    even = "s_a == s_b" if same else "False"
    return arrays(name, kinks, flags) + functions + filled_for(plan, name, value, even, widen)


def filled_for(plan: PanelPlan, name: str, value: str, even: str, widen: float = WIDER, **fill: Any) -> str:
    """The template for the value at (s_a, s_b, m, d); even: source of whether d and -d are alike."""
    return filled(
        name=name,
        value=value,
        even=even,
        kf=f"{name}_KF",
        kg=f"{name}_KG",
        step_a=widen * plan.step,
        step_b=widen * plan.step,
        gap_a=plan.gaps[0],
        gap_b=plan.gaps[1],
        rate=plan.rate,
        sizes="(s_a + abs(s_b))",
        phase=f"{plan.frequencies[0]} * s_a + {plan.frequencies[1]} * abs(s_b)",
        **fill,
    )


def arrays(name: str, kinks: dict[str, list[float]], flags: dict[str, list[bool]]) -> str:
    """Source of the constant arrays of a quadrature: nodes and weights, places, and which of them are breaks."""
    numbers: dict[str, Any] = dict(zip("XW", gauss_legendre(NODES))) | dict(zip("YV", half_gauss(FEW))) | kinks
    head = "".join(f"{name}_{k} = np.array({[float(t) for t in v]!r})\n" for k, v in numbers.items())
    return head + "".join(f"{name}_{k} = np.array({v!r})\n" for k, v in flags.items()) + "\n\n"


def filled(setup: str = "", parameters: str = "", more: str = "", **fill: Any) -> str:
    """The template with what is known of f and g put in; more: what they take beside their variable."""
    fill = {"gap_a": 0.0, "gap_b": 0.0, "reach": REACH, "farthest": FARTHEST} | fill
    fill |= {"periods": PERIODS, "finest": FINEST, "least": LEAST}
    return _TEMPLATE.format(setup=setup, parameters=parameters, more=more, **fill).lstrip("\n")
