"""How accurate a two-input quadrature is: against conditional panels (`conditional`), written for arrays and finer.

The finer rule has panels 2.7 times narrower and a longer reach; near branch points it has 24 nodes for 16 and another
power of the distance. Where the two agree to ε the coarser one is off by about ε, in units of √(⟨f²⟩⟨g²⟩).
"""

from __future__ import annotations

import math

import numpy as np
import sympy as sp

from meanfield.base.answers.results import InfiniteAverage
from meanfield.numeric.lowering.averages.planes import FARTHEST
from meanfield.numeric.quadrature import branches, evaluation
from meanfield.numeric.quadrature import gaussian_averages as quadrature
from meanfield.numeric.quadrature.rules import gauss_legendre

FLOOR = 2e-14  # rounding of the many terms, seen against multiprecision values
NOTHING = 44.0  # e to minus this adds nothing to an average: panels beyond are left out


def measured(plan, points) -> float:
    """The largest difference of `conditional`'s rule over the points (K_aa, K_bb, c) of interest, at least `FLOOR`."""
    return miss(plan, points, None)


def miss(plan, points, quadrature) -> float:
    """The largest difference of `quadrature(K_aa, K_ab, K_bb, sine2)` (None: `conditional`'s rule) over the points."""
    worst = FLOOR
    for a, b, c in points:
        if max(a, b) > plan.limit:
            a, b = min(a, plan.limit / 3), min(b, plan.limit / 5)
        # 1 - c² from the distance of c to ±1, so that both rules get the very same arguments
        r = math.sqrt((1 - abs(c)) * (1 + abs(c)))
        size, s = scale(plan, a, b), math.sqrt(a) * math.sqrt(b)
        if not size > 0:
            continue
        with np.errstate(all="ignore"):
            coarse = quadrature(a, c * s, b, r * r) if quadrature else average(plan, a, b, c, r, finer=False)
            off = abs(coarse - average(plan, a, b, c, r, finer=True))
        if not math.isfinite(off):
            return math.inf
        worst = max(worst, off / size)
    return worst


def scale(plan, a: float, b: float) -> float:
    """√(⟨f²⟩⟨g²⟩) at variances a, b (of the moduli where a square is not integrable); 0 where it is not known."""
    second = []
    for h, k in ((plan.f, a), (plan.g, b)):
        for power in (2, 1):
            try:
                value = (
                    quadrature.gaussian_average(quadrature.squared(h), np.array([k]))
                    if power == 2
                    else quadrature.gaussian_average(h, np.array([k]), modulus=True) ** 2
                )
                second.append(float(value[0]))
                break
            except InfiniteAverage:
                continue
    return math.sqrt(second[0] * second[1]) if len(second) == 2 else 0.0


def average(plan, a: float, b: float, c: float, r: float, finer: bool) -> float:
    """⟨f g⟩ at variances a, b and correlation c (r = √(1 - c²)) by the rule of `conditional`, or a finer one."""
    with np.errstate(all="ignore"):  # at a branch point a derivative is infinite, with weight 0
        return _average(plan, a, b, c, r, finer)


def _average(plan, a: float, b: float, c: float, r: float, finer: bool) -> float:
    s_a, s_b, step = math.sqrt(a), math.sqrt(b), plan.step / (2.7 if finer else 1.0)
    order = 24 if finer and any(plan.branches) else 16
    reach = 10.0 if finer else 9.0
    if finer:  # where f or g is 0 up to a wall, all of the average lies beyond it
        reach = min(math.hypot(reach, max(plan.gaps[0] / s_a, plan.gaps[1] / s_b)), FARTHEST)
    reach += plan.rate * max(s_a, s_b)
    wf, wg = plan.frequencies
    near = [
        np.array([branches.NEAR if any(s.at == k for s in sites) else 1.0 for k in kinks])
        for kinks, sites in zip(plan.kinks, plan.branches)
    ]
    kf, kg = (np.array(k) for k in plan.kinks)
    points, scales = [np.zeros(2), kf / s_a], [
        np.array([min(1.0, step / s_a), min(1.0, step / (s_b * max(abs(c), 1e-3)))]),
        np.maximum(1e-12, min(1.0, step / s_a) * near[0]),
    ]
    if abs(c) > 1e-3:
        width = min(1.0, max(r, 1e-12) / abs(c)) / (2.7 if finer else 1.0)
        points += [kg / (s_b * c), np.zeros(1)]
        scales += [np.maximum(1e-12, width * near[1]), np.array([width])]
    phase = wf * s_a + wg * s_b * abs(c) + 1e-9
    edges = _edges(np.concatenate(points)[None], np.concatenate(scales)[None], reach, 6.0 / phase)
    second = [s.at / (s_b * c) for s in plan.branches[1]] if abs(c) > 1e-3 else []
    sites = [(np.array([[s.at / s_a for s in plan.branches[0]]]), 0), (np.array([second]), 1)]
    x, v, d, at = _nodes(edges, order, reach, plan.m_outer + finer, sites)
    x, v, d, at = x.ravel(), v.ravel(), d.ravel(), at.ravel()
    f = _value(plan.f, plan.branches[0], s_a * x, s_a * d, np.where(at >= 100, 0, at))
    v = v * np.exp(-0.5 * x * x) * f
    keep = (v != 0) & np.isfinite(x)
    x, v = x[keep], v[keep]
    s, total = s_b * r, 0.0
    for lo in range(0, len(x), 400):  # blocks of the outer variable, so that memory stays small
        shift = (s_b * c * x[lo : lo + 400])[:, None]
        n = len(shift)
        middle = -shift / s if plan.branches[1] else np.zeros((n, 1))
        inner_p = np.concatenate([-shift / s, middle, (kg[None] - shift) / s], axis=1)
        inner_h = np.concatenate([[min(1.0, step / s), 1.0], np.maximum(1e-12, min(1.0, step / s) * near[1])])
        widest = min(2.0 if plan.branches[1] else 1e10, 6.0 / (wg * s + 1e-9))
        edges = _edges(inner_p, np.broadcast_to(inner_h, inner_p.shape), reach, widest)
        closest = np.where(edges[:, :-1] > 0, edges[:, :-1], np.where(edges[:, 1:] < 0, -edges[:, 1:], 0.0))
        row, panel = np.nonzero((np.diff(edges) > 0) & (closest * (closest / 2 - plan.rate * s) < NOTHING))
        ends = np.stack([edges[row, panel], edges[row, panel + 1]], axis=1)
        near_y = (np.array([s_.at for s_ in plan.branches[1]])[None] - shift[row]) / s
        power = plan.m_inner + finer * (plan.m_inner > 1)
        y, w, d, at = (v[:, 0] for v in _nodes(ends, order, reach, power, [(near_y, 0)]))
        g = _value(plan.g, plan.branches[1], shift[row] + s * y, s * d, at)
        part = np.where(w > 0, w * np.exp(-0.5 * y * y) * g, 0.0).sum(axis=1)
        total += float((v[lo : lo + 400] * np.bincount(row, part, n)).sum())
    return total / (2 * math.pi)


def _edges(points, scales, reach, widest) -> np.ndarray:
    """Sorted edges, row by row; rows have the same number, panels of width 0 are harmless."""
    far = np.maximum(np.abs(points) - reach, 0.0)
    start = scales * 2.0 ** np.ceil(np.log2(np.maximum(far / scales, 1.0)))
    most = int(np.ceil(np.log2(((2 * reach + far) / start).max()))) + 1
    steps = start[:, :, None] * 2.0 ** np.arange(most)
    rows = [points[:, :, None], points[:, :, None] - steps, points[:, :, None] + steps]
    n = points.shape[0]
    edges = np.concatenate([r.reshape(n, -1) for r in rows], axis=1)
    edges = np.concatenate([np.clip(edges, -reach, reach), np.full((n, 1), -reach), np.full((n, 1), reach)], axis=1)
    if widest < 2 * reach:
        grid = np.linspace(-reach, reach, math.ceil(2 * reach / widest) + 1)
        edges = np.concatenate([edges, np.broadcast_to(grid, (n, len(grid)))], axis=1)
    edges = np.sort(edges, axis=1)
    return edges[:, (np.diff(edges, axis=1, prepend=-np.inf) > 0).any(axis=0)]


def _nodes(edges, order, reach, m, sites):
    """(place, weight, distance to the branch point, its number ± or 0) of every node: (rows, panels,
    nodes)."""
    x, w = gauss_legendre(order)
    lo, hi = edges[:, :-1, None], edges[:, 1:, None]
    width = hi - lo
    at = np.zeros(lo.shape[:2], dtype=int)
    for places, group in sites:
        for k in range(places.shape[1]):
            p = places[:, k, None]
            number = k + 1 + 100 * group
            at = np.where((at == 0) & (np.abs(lo[..., 0] - p) <= 1.1e-14 * reach) & (width[..., 0] > 0), number, at)
            at = np.where((at == 0) & (np.abs(hi[..., 0] - p) <= 1.1e-14 * reach) & (width[..., 0] > 0), -number, at)
    u = (1 + x) / 2
    side = np.sign(at)[..., None]
    if not at.any():
        place = lo + width * u
        return place, width * w / 2, np.zeros_like(place), np.zeros(place.shape, dtype=int)
    d = np.where(side == 0, 0.0, side * width * u**m)
    place = np.where(side == 0, lo + width * u, np.where(side > 0, lo + d, hi + d))
    weight = np.where(side == 0, width * w / 2, width * m * u ** (m - 1) * w / 2)
    return place, weight, d, np.broadcast_to(np.abs(at)[..., None], place.shape)


def _value(h: sp.Expr, sites, z, d, at) -> np.ndarray:
    """h at z, in the distance d to branch point `at` - 1 where there is one."""
    out = evaluation.evaluate(h, np.ascontiguousarray(z))
    for k, site in enumerate(sites):
        mask = at == k + 1
        if mask.any():
            t = d[mask]
            left, right = evaluation.numpy_function(site.left), evaluation.numpy_function(site.right)
            out = np.array(out)
            out[mask] = np.where(t < 0, left(np.where(t < 0, t, -1.0)), right(np.where(t < 0, 1.0, t)))
    return out

