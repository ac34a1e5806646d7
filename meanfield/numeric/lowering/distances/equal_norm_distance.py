"""Float64 `DistanceRatio`: ⟨(f(z_a) - f(z_b))²⟩/apart with all its digits, however close the inputs are.

Where they are close it is the mean of ⟨f′f′⟩ over the correlations from the present one to 1 (Price's theorem): a few
Gauss nodes in the root of 1 - c, in which that is analytic, kinks included. Elsewhere it is the difference of averages,
if a hundredth of ⟨f²⟩ is left of it (beside f(0) at small variances there is not), else that mean by more panels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown
from meanfield.base.symbols import K, K_aa, K_ab, K_bb, Z, distance
from meanfield.functions import balls
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering.averages import pair_check, planes
from meanfield.numeric.quadrature import evaluation
from meanfield.numeric.quadrature import gaussian_averages as quadrature
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.symbolic import parity
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio
from meanfield.symbolic.equality import closed

CLOSE = 0.1  # of 1 - c, and of (z_a - z_b)²/2 in units of f's own scale
RULES = ((1e-6, 3), (1e-3, 4), (CLOSE, 8))  # up to this closeness, so many nodes
MEASURED: tuple[tuple[float, float], ...] = (
    *((1.0, 1e-12), (1.0, 0.19), (1.0, 0.21), (1.0, 1.3), (1e-3, 1e-5)),
    *((50.0, 0.02), (1e4, 1e-4), (1e4, 3e3), (1e-9, 1.2e-9)),
)
WHOLE = ((1.0, 1e-12), (1.0, 1.3))
MEASURED_CLOSED = (*MEASURED, (1e4, 3.0), (1e6, 0.5))
FLOOR = 1e-14
SMALL = 1e-290
SMALL_V = 0.01  # a variance below which the reference takes slopes, however far the inputs are apart
OPEN = (Average, DistanceRatio)  # nodes without a closed form
ONSET = 12.0  # e^{-v²/4g} is no double for v > 12 √g and a little more
FAINT = 1e-3  # 1 - c below which a difference of averages loses more than 1e-13
KEPT = 0.01  # of ⟨f²⟩: a smaller difference has lost digits, as beside f(0) at small variances


def parts(node: DistanceRatio) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
    """⟨f²⟩ over K, ⟨f f⟩ and ∂⟨f f⟩/∂K_ab over (K_aa, K_ab, K_bb) of a node over (K, distance); the slope over (K,
    distance) where f jumps and that is not one number over a root: there its densities and conditional variances keep
    their digits."""
    own = node.product
    product = own.xreplace({a: _between(a) for a in own.atoms(Average)})
    slope = _by_covariance(product, node.function)
    jumps = pieces(node.function, Z[0]).jumps()
    if jumps and (slope.has(Average) or any(b != 0 for b, _ in jumps)):
        slope = _by_covariance(own, node.function)
    return node.second, product, slope


def _by_covariance(product: sp.Expr, f: sp.Expr) -> sp.Expr:
    coefficient, inner = product.as_independent(Average)
    if not isinstance(inner, Average):
        raise MeanFieldError(f"The distance of two inputs through {shown(f)} cannot be compiled yet.")
    return coefficient * inner.derivative_cov(0, 1)


def layer_of(f: sp.Expr) -> float:
    """`_between_breaks` of an f that jumps."""
    return _between_breaks(f) if pieces(f, Z[0]).jumps() else math.inf


def _between_breaks(f: sp.Expr) -> float:
    """The least distance of two breaks of f: two inputs that stand at different ones are as likely as
    e^{-distance²/4V(1 - c)}, which has no power series in the root of 1 - c."""
    return min((float(b - a) for a, b in pairwise(pieces(f, Z[0]).breaks)), default=math.inf)


def scale_free(f: sp.Expr) -> bool:
    """Whether f is one power on either side of 0: then a variance is no scale for it."""
    p = pieces(f, Z[0])
    powers = [e.as_independent(Z[0], as_Add=False)[1] for e in p.exprs if e != 0]
    return all(b == 0 for b in p.breaks) and len(set(powers)) == 1 and powers[0].as_base_exp()[0] == Z[0]


def _between(node: Average) -> Average:
    return Average(node.args[0], sp.Tuple(K_aa, K_ab, K_bb), *node.args[2:])


def rate_of(f: sp.Expr) -> float:
    """How many of f's own scales a variance of 1 holds, squared."""
    return 0.0 if scale_free(f) else planes.resolved(f) ** -2


def text(node: DistanceRatio, name: str, second: str, product: str, slope: str) -> str:
    """Source of `name(V, apart, T)` by the functions of its parts; T: the table of `second`."""
    scales, even = f"max(1.0, V * {rate_of(node.function)!r})", parity.of_function(node.function) == 1
    return by_parts(name, second, product, slope, scales, "T", layer=layer_of(node.function), even=even)


def by_parts(
    name: str,
    second: str,
    product: str,
    slope: str,
    scales: str,
    table: str = "",
    more: str = "",
    faint=FAINT,
    layer: float = math.inf,
    even: bool = False,
) -> str:
    """Source of `name(V, apart, …)` by the functions of its parts; scales: source of how many of f's own scales the
    variance V holds, squared; table, more: arguments of `second`, of all; faint: 1 - c up to which only slopes serve
    (beyond it the difference of averages, if `KEPT` of ⟨f²⟩ is left of it); layer: see `layer_of`; even: whether f is,
    so that opposite inputs are one.
    """
    seen = layer < math.inf  # panels double from the closeness at which two breaks begin to see each other
    own = f", {table}" if table else ""
    out = f"""def {name}(V, apart{own}{more}):
    V = max(V, 1e-290)
    gap = min(0.5 * apart / V, 2.0)
"""
    if even:
        out += """    share = 1.0
    if gap > 1.0:
        share, gap = 2.0 / gap - 1.0, 2.0 - gap
"""
    out += f"    near = gap * {scales}\n"
    if seen:
        out += f"    onset = {layer / ONSET!r} / math.sqrt(V * gap) if gap > 0.0 else math.inf\n"
        out += "    thick = onset >= 1.0\n"
    times = "share * " if even else ""
    far = f"gap > {faint!r}" if seen else f"gap > {faint!r} and near > {CLOSE!r}"
    call = f"{slope}(V, V * (1.0 - g), V, g * (2.0 - g){more})"
    before = f"""    if {far}:
        square = {second}(V{own}{more})
        left = square - {product}(V, V * (1.0 - gap), V, gap * (2.0 - gap){more})
        if left > {KEPT!r} * square:
            return {times}left / (V * gap)
"""
    return out + mean_of_slopes(call, 16 if seen else 8, seen, times, before)


def mean_of_slopes(slope: str, nodes: int, layers: bool = False, times: str = "", before: str = "") -> str:
    """Source of statements that return the mean of slopes over correlations from 1 - gap to 1, in the root of 1 - c:
    by few nodes up to each `near` of `RULES`, else by panels that double from f's own scale outwards. slope: source of
    the slope at 1 - c = g; layers: whether `onset` and `thick` say where two breaks begin to see each other; times:
    source of a factor; before: statements before the panels."""
    out, thick = "", " and thick" if layers else ""
    for most, n in RULES:
        x, w = gauss_legendre(n)
        places = tuple(0.5 * (1 + float(t)) for t in x)
        weights = tuple(u * float(v) for u, v in zip(places, w))
        out += f"""    if near <= {most!r}{thick}:
        total = 0.0
        for u, w in zip({places!r}, {weights!r}):
            g = gap * u * u
            total += w * {slope}
        return {times}total
"""
    x, w = gauss_legendre(nodes)
    first = "max(min(0.3 / math.sqrt(near), onset), 1e-12)" if layers else "max(0.3 / math.sqrt(near), 1e-12)"
    result = "max(total, 0.0)" if before else "total"
    out += before + f"""    total, low, high = 0.0, 0.0, {first}
    while low < 1.0:
        high = min(high, 1.0)
        half = 0.5 * (high - low)
        for x, w in zip({tuple(map(float, x))!r}, {tuple(map(float, w))!r}):
            u = low + half * (1.0 + x)
            g = gap * u * u
            total += 2.0 * half * w * u * {slope}
        low, high = high, 2.0 * high
    return {times}{result}
"""
    return out


def error(
    node: DistanceRatio,
    f: Callable,
    tables: Sequence[np.ndarray],
    limit: float = math.inf,
    whole: Callable | None = None,
) -> float:
    """The largest relative error of f(V, apart, *tables) at `MEASURED` (variance, apart): against balls where the
    averages close, else against finer panels of another geometry; ∞ where a value cannot be measured. limit: the
    largest variance at which the parts are known; whole: f as it is compiled, which is slow, at `WHOLE` alone.
    """
    worst, exact = FLOOR, closed(node)
    for V, separation in MEASURED if exact.has(*OPEN) else MEASURED_CLOSED:
        if limit < V:
            continue
        true = _true(node, exact, V, separation)
        if abs(true) < SMALL:  # nothing that a double could hold relatively
            continue
        for own in [f] if whole is None or (V, separation) not in WHOLE else [f, whole]:
            try:
                off = abs(own(V, separation, *tables) / true - 1)
            except (OverflowError, ZeroDivisionError, ValueError):
                off = math.inf
            worst = max(worst, math.inf if math.isnan(off) else off)  # ∞ - ∞, here or in the reference: no measure
    return worst


def _true(node: DistanceRatio, exact: sp.Expr, V: float, separation: float) -> float:
    if not exact.has(*OPEN):
        return float(balls.certified(exact.subs({K: sp.Rational(V), distance: sp.Rational(separation)}), 20))
    _, product, slope = parts(node)
    f = node.function
    return reference(product, slope, V, separation, layer=_between_breaks(f), rate=max(1.0, rate_of(f)))


def reference(
    product: sp.Expr,
    slope: sp.Expr,
    V: float,
    separation: float,
    close: float = 0.3,
    layer: float = math.inf,
    rate: float = 1.0,
) -> float:
    """⟨(f(z_a) - f(z_b))²⟩/apart of ⟨f f⟩ and ∂⟨f f⟩/∂K_ab as `parts` has them, by finer panels; up to `close` in
    units of f's own scale by the slope, and where a difference has few digits; rate: how many of these units a
    variance of 1 holds, squared."""
    gap = separation / V / 2
    scales = gap * max(1.0, V * rate)
    near = scales < close or V < SMALL_V or (rate > 1.0 and gap < FAINT)
    if near and not slope.has(sp.oo) and slope.has(Average, distance):
        onset = layer / math.sqrt(V * gap) / 20
        if scales > close:
            onset = min(onset, math.sqrt(close / scales))
        edges = [0.0, *(onset * 3.0**k for k in range(12) if onset * 3.0**k < 1), 1.0]
        x, w = gauss_legendre(12)
        total = 0.0
        for low, high in pairwise(edges):
            for u, v in zip(low + (high - low) * (1 + x) / 2, (high - low) * w):
                total += v * u * _slope(slope, V, gap * u * u)
        return total
    (a,) = product.atoms(Average)
    plan, factor = planes.plan(a), float(product.subs(a, 1))
    same = float(quadrature.gaussian_average(quadrature.squared(plan.f), np.array([V]))[0])
    other = pair_check.average(plan, V, V, 1 - gap, math.sqrt(gap * (2 - gap)), True)
    return 2 * factor * (same - other) / separation


def _slope(slope: sp.Expr, V: float, gap: float) -> float:
    """∂⟨f f⟩/∂K_ab at one variance, its averages by finer panels."""
    at = {K: sp.Rational(V), distance: 2 * sp.Rational(V) * sp.Rational(gap)}
    found = {}
    for a in slope.atoms(Average):
        if a.dimension == 2:
            found[a] = pair_check.average(planes.plan(a), V, V, 1 - gap, math.sqrt(gap * (2 - gap)), True)
        else:
            found[a] = _given(a.integrand, *(float(sp.N(e.subs(at), 20)) for e in (a.cov[0], a.mean[0])))
    return float(sp.N(slope.xreplace({a: sp.Float(v, 17) for a, v in found.items()}).subs(at), 17))


def _given(f: sp.Expr, variance: float, mean: float) -> float:
    """⟨f⟩ over N(mean, variance), in panels that end where f breaks."""
    x, w = gauss_legendre(24)
    sd = math.sqrt(variance)
    inside = [t for b in pieces(f, Z[0]).breaks if abs(t := (float(b) - mean) / sd) < 10]
    edges = sorted({*np.arange(-10.0, 10.5, 0.5).tolist(), *inside})
    total = 0.0
    for low, high in pairwise(edges):
        t = low + (high - low) * (1 + x) / 2
        value = evaluation.evaluate(f, mean + sd * t) * np.exp(-t * t / 2)
        total += 0.5 * (high - low) * float((w * value).sum())
    return total / math.sqrt(2 * math.pi)
