"""How accurate `UnequalDistanceRatio`, `DirectionRatio` and `DividedDifference` are in float64: against balls where
averages close, else against a finer rule of another geometry: plain quotients in thirty digits, and conditional
panels over correlations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import mpmath as mp
import numpy as np
import sympy as sp

from meanfield.base.precision import decimals
from meanfield.base.symbols import K, K_aa, K_bb, Z, distance
from meanfield.functions import balls
from meanfield.functions.elementary import mpmath_functions
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering.averages import pair_check, planes
from meanfield.numeric.lowering.distances.equal_norm_distance import FLOOR
from meanfield.numeric.lowering.distances.equal_norm_distance import parts as distance_ratio_parts
from meanfield.numeric.quadrature import gaussian_averages as quadrature
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.symbolic.averages.node import Average, Integrand, average
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio, essential
from meanfield.symbolic.averages.nodes.unequal_norms import DirectionRatio, DividedDifference, UnequalDistanceRatio

MEASURED = (  # (A, B, 1 - c)
    (1.0, 1.0 + 2.0**-50, 1e-28),
    (1.0, 1.0002, 1e-9),
    (1.0, 4.0, 1e-6),
    (1.44, 1.0, 0.02),
    (50.0, 45.0, 0.01),
    (1e-3, 2e-3, 1e-5),
    (2.0, 0.5, 0.6),
    (100.0, 1.0, 1e-3),
)
WHOLE = ((1.0, 1.0 + 2.0**-50), (1.0, 1.0002), (2.0, 0.5))
FAR = ((1e4, 1.1e4, 1e-4), (1e6, 1e5, 0.3), (1e-8, 1e-7, 0.1), (1e-8, 2e-8, 0.8))  # where closed forms measure
SEGMENTS = ((1.0, 1.0 + 1e-9), (1.0, 1.3), (2e-3, 1e-3), (50.0, 30.0), (20.0, 0.01))
MODEST = 1e-3  # of ⟨f⟩/A: a divided difference below adds nothing to a distance


def error(
    node: UnequalDistanceRatio | DividedDifference,
    f: Callable,
    tables: list[np.ndarray],
    limit: float,
    whole: Callable | None = None,
) -> float:
    """The largest relative error of f at the places above; ∞ where a value cannot be measured. limit: the largest
    variance at which the parts are known; whole: f as it is compiled, which is slow, at `WHOLE` alone."""
    exact = node.doit()
    if isinstance(node, DividedDifference):
        return _of_divided_difference(node, exact, f, tables, limit)
    return _of_unequal_ratio(node, exact, f, tables, limit, whole)


def _of_divided_difference(node: DividedDifference, exact: sp.Expr, f, tables, limit: float) -> float:
    worst = FLOOR
    for A, B in SEGMENTS:
        if max(A, B) > limit:
            continue
        at = {K_aa: sp.Rational(A), K_bb: sp.Rational(B)}
        true = float(balls.certified(exact.xreplace(at), 20))
        mean = average(node.function, max(A, B)).evalf(8)
        scale = max(abs(true), MODEST * abs(float(mean)) / max(A, B))
        worst = max(worst, _off(f, (A, B, *tables), true, scale))
    return worst


def _of_unequal_ratio(node: UnequalDistanceRatio, exact: sp.Expr, f, tables, limit: float, whole) -> float:
    worst, known = FLOOR, not exact.has(Average)
    for A, B, gap in (*MEASURED, *FAR) if known else MEASURED:
        if max(A, B) > limit:
            continue
        with decimals(60):  # the gap of the doubles that f is given; apart then is what belongs to it, to rounding
            s, t = mp.sqrt(A), mp.sqrt(B)
            separation = (s - t) ** 2 + 2 * s * t * gap
            given = A, B, float(separation), float(mp.atan2(s - t, mp.sqrt(2 * s * t * gap)))
            gap = given[2] * mp.cos(given[3]) ** 2 / (2 * s * t)
            separation = (s - t) ** 2 + 2 * s * t * gap
            if known:
                places = {K_aa: A, K_bb: B, distance: mp.nstr(separation, 58)}
                true = float(balls.certified(exact.xreplace({k: sp.Rational(v) for k, v in places.items()}), 20))
            else:
                true = _true(node, A, B, float(separation), gap)
        for own in [f, whole] if whole is not None and (A, B) in WHOLE else [f]:
            worst = max(worst, _off(own, (*given, *tables), true, abs(true)))
    return worst


def _off(f, arguments, true: float, scale: float) -> float:
    try:
        off = abs(f(*arguments) - true) / scale if scale > 0 else 0.0
    except (OverflowError, ZeroDivisionError, ValueError):
        return math.inf
    return off if math.isfinite(off) else math.inf


def _true(node: UnequalDistanceRatio, A: float, B: float, separation: float, gap) -> float:
    factor, moving = essential(node.function)
    moving = factor * moving
    _, product, slope = distance_ratio_parts(DistanceRatio(Integrand(moving), K, distance))
    (a,) = product.atoms(Average)
    g, of_directions = float(gap), isinstance(node, DirectionRatio)
    if g * max(1.0, max(A, B) * max(1.0, planes.plan(a).frequencies[0]) ** 2) > 0.3 or slope.has(sp.oo):
        factor = float(product.subs(a, 1))
        other = factor * pair_check.average(planes.plan(a), A, B, 1 - g, math.sqrt(g * (2 - g)), True)
        return _apart(moving, node.function - moving, A, B, other, of_directions) / separation
    (b,) = slope.atoms(Average)
    plan, factor = planes.plan(b), float(slope.subs(b, 1))
    norms = 1 - float(2 * mp.sqrt(A) * mp.sqrt(B) * gap / separation)
    edges, breaks = [0.0, 1.0], [float(x) for x in pieces(node.function, Z[0]).breaks]
    for x in breaks:  # panels that triple from each layer outwards
        for y in breaks:
            layer = abs(x / math.sqrt(A) - y / math.sqrt(B)) / math.sqrt(g) / 20
            edges += [layer * 3.0**k for k in range(12) if 1e-5 < layer * 3.0**k < 1]
    edges = sorted(set(edges))
    total, nodes = 0.0, [(float(u), float(v)) for u, v in zip(*gauss_legendre(10))]
    for low, high in pairwise(edges):
        for node_at, weight in nodes:
            u = low + (high - low) * (1 + node_at) / 2
            h = g * u * u
            total += weight * (high - low) * u * pair_check.average(plan, A, B, 1 - h, math.sqrt(h * (2 - h)), True)
    return norms * _norms(node.function, A, B, planes.plan(a), of_directions) + (1 - norms) * factor * total


def _apart(moving: sp.Expr, constant: sp.Expr, A: float, B: float, product: float, of_directions: bool) -> float:
    """⟨(f_a - f_b)²⟩, or 2(√(⟨f²⟩_a⟨f²⟩_b) - ⟨f_a f_b⟩), of f = moving + constant by averages of what moves."""
    square, mean = (
        [mp.mpf(float(v)) for v in quadrature.gaussian_average(of, np.array([A, B]))]
        for of in (quadrature.squared(moving), moving)
    )
    if not of_directions:
        return float(sum(square) - 2 * product)
    with decimals(30):
        c = mp.mpf(str(sp.N(constant, 30)))
        one, other = (mp.sqrt(c * c + 2 * c * m + q) for m, q in zip(mean, square))
        return float(2 * (one * other - c * c - c * sum(mean) - product))


def _norms(f: sp.Expr, A: float, B: float, plan: planes.PanelPlan, of_directions: bool) -> float:
    """⟨((f(sx) - f(tx))/(s - t))²⟩ by plain quotients in thirty digits; of_directions: what is left of it beside the
    difference
    of the roots of ⟨f²⟩."""
    p = pieces(f, Z[0])
    branches = [sp.lambdify(Z[0], e, [dict(mpmath_functions()), "mpmath"]) for e in p.exprs]
    with decimals(45):
        s, t = mp.sqrt(A), mp.sqrt(B)
        breaks = [mp.mpf(str(sp.N(b, 45))) for b in p.breaks]
        reach = 9 + 2 * plan.rate * float(max(s, t))
        edges = {mp.mpf(-reach), mp.mpf(reach), mp.mpf(0)}
        for k in {mp.mpf(0), *breaks, *map(mp.mpf, plan.kinks[0])}:
            for r in (s, t):
                width = min(mp.mpf(1), plan.step / (mp.mpf("2.7") * r))
                places = [k / r] + [k / r + sign * width * 2**i for i in range(40) for sign in (-1, 1)]
                edges |= {x for x in places if abs(x) < reach}
        if (wave := plan.frequencies[0] * float(max(s, t))) > 0:  # three radians of phase a panel
            edges |= {mp.mpf(k * 3.0 / wave) for k in range(-int(reach * wave / 3), int(reach * wave / 3) + 1)}
        ordered, total, squares = sorted(edges), mp.mpf(0), [mp.mpf(0), mp.mpf(0)]
        x, w = (list(map(mp.mpf, v.tolist())) for v in gauss_legendre(14))

        def value(z):
            return branches[sum(z >= b for b in breaks)](z)

        for low, high in pairwise(ordered):
            half = (high - low) / 2
            for u, v in zip(x, w):
                at = low + half * (1 + u)
                weight, one, other = v * half * mp.exp(-at * at / 2), value(s * at), value(t * at)
                total += weight * ((one - other) / (s - t)) ** 2 if s != t else 0
                squares = [q + weight * h**2 for q, h in zip(squares, (one, other))]
        if of_directions and s != t:
            total -= ((mp.sqrt(squares[0]) - mp.sqrt(squares[1])) / (s - t)) ** 2
        return float(total / mp.sqrt(2 * mp.pi))
