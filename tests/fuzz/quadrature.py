"""Gaussian averages by Gauss-Legendre panels split at the places where φ breaks: NumPy for answers, mpmath for judging.

Nothing of meanfield is imported. Every float average is taken by two orders; their difference is its error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import mpmath as mp
import numpy as np

from .functions import Phi

REACH = 11.5  # standard deviations: exp(-66) = 2e-29
FINE, COARSE = 20, 14
PAIRS = ((13, 10), (9, 7))  # orders outside and inside, fine and coarse


class OutOfReach(ArithmeticError):
    """What cannot be averaged here: nothing is compared with it."""


@lru_cache
def _rule(order: int) -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(order)


def _nodes(edges: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
    x, w = _rule(order)
    middle, half = (edges[..., 1:] + edges[..., :-1]) / 2, (edges[..., 1:] - edges[..., :-1]) / 2
    shape = (*edges.shape[:-1], -1)
    return (middle[..., None] + half[..., None] * x).reshape(shape), (half[..., None] * w).reshape(shape)


def panels(spread: float, phi: Phi, more: tuple[float, ...] = (), fine: float = 0.5) -> np.ndarray:
    """Edges for z ~ N(0, spread²): none wider than most of a standard deviation, fine where φ has its features."""
    end = REACH * spread
    found = [np.arange(-REACH, REACH + 0.1, 0.75) * spread]
    if spread > 0.3:
        near = min(end, 14.0)
        found.append(np.arange(-near, near, fine))
        if end > 14:
            steps = math.ceil(math.log(end / 14) / math.log(1.35))
            far = 14 * 1.35 ** np.arange(steps + 1)
            if phi.waves:
                far = np.arange(14, min(end, 3000.0), 0.75)
            found += [far, -far]
    for b in phi.splits:
        if abs(b) >= end:
            continue
        found.append(np.array([b]))
        grade = 2.0 ** -np.arange(0, 44) * min(1.0, spread) if b in phi.rough else np.array([])
        found += [b + grade, b - grade]
    found.append(np.array(more))
    edges = np.unique(np.clip(np.concatenate(found), -end, end))
    return edges[np.concatenate([[True], np.diff(edges) > 1e-16 * end])]


@dataclass(frozen=True)
class Moments:
    """Averages over z ~ N(0, K): m1 = ⟨φ⟩, m2 = ⟨φ²⟩, rise = d⟨φ²⟩/dK, slope = ⟨φ′²⟩ (∞ where φ jumps), and the
    largest relative error of them."""

    m1: float
    m2: float
    rise: float
    slope: float
    error: float


def moments(phi: Phi, K: float) -> Moments:
    if not 0 < K < 1e290:
        raise OutOfReach(f"no averages at K = {K}")
    spread = math.sqrt(K)
    edges, found = panels(spread, phi), []
    for order in (FINE, COARSE):
        z, w = _nodes(edges, order)
        x = z / spread
        w = w * np.exp(-x * x / 2) / (math.sqrt(2 * math.pi) * spread)
        v, d = phi.jet(z)
        with np.errstate(all="ignore"):
            rise = float(w @ (x * v * d)) / spread
            for b, left, right in phi.jumps:
                density = math.exp(-b * b / (2 * K)) / (math.sqrt(2 * math.pi) * spread)
                rise += b * (right**2 - left**2) * density / (2 * K)
            found.append(np.array([w @ v, w @ (v * v), rise, w @ (d * d)]))
    scale = np.array([math.sqrt(abs(found[0][1])), found[0][1], abs(found[0][2]) + abs(found[0][3]), found[0][3]])
    with np.errstate(all="ignore"):
        error = float(np.nanmax(np.abs(found[0] - found[1]) / np.maximum(scale, 1e-300))) + 1e-15
    m1, m2, rise, slope = map(float, found[0])
    if phi.steepest < 1:  # what the innermost panel misses of ⟨φ′²⟩
        error += 2.0 ** (-44 * (2 * phi.steepest - 1))
    infinite = bool(phi.jumps) or phi.steepest <= 0.5
    return Moments(m1, m2, rise, math.inf if infinite else slope, min(error, 1.0))


@dataclass(frozen=True)
class Pair:
    """Averages over two Gaussians: m_a, m_b = ⟨φ⟩, product = ⟨φ_a φ_b⟩, slopes = ⟨φ′_a φ′_b⟩ (of what is between the
    jumps), gap = ⟨(φ_a - φ_b)²⟩; error: of product, in units of √(⟨φ_a²⟩⟨φ_b²⟩)."""

    m_a: float
    m_b: float
    product: float
    slopes: float
    gap: float
    error: float
    gap_error: float


def pair(phi: Phi, q_a: float, q_b: float, distance: float) -> Pair:
    """distance = q_a + q_b - 2 q_ab, given by itself so that nothing cancels for close inputs."""
    if q_b > q_a:
        found = pair(phi, q_b, q_a, distance)
        return Pair(found.m_b, found.m_a, found.product, found.slopes, found.gap, found.error, found.gap_error)
    s_a, s_b = math.sqrt(q_a), math.sqrt(q_b)
    q_ab = (q_a + q_b - distance) / 2
    # the inner variable is the one of the larger norm, z_a given z_b: β can be large, its spread is what remains
    if not (q_b > 0 and q_a < 1e290 and math.isfinite(distance)):
        raise OutOfReach(f"no averages of two inputs at K = {q_a}, {q_b}")
    left = max(0.0, (distance - (s_a - s_b) ** 2) / q_b * ((s_a + s_b) ** 2 - distance) / 4)
    beta, inner = q_ab / q_b, math.sqrt(left)
    excess = (q_a - q_b - distance) / (2 * q_b)  # β - 1
    found = [_pair_by(phi, s_a, s_b, beta, excess, inner, orders) for orders in PAIRS]
    fine, coarse = found
    scale = math.sqrt(fine[5] * fine[6]) or 1.0
    error = abs(fine[2] - coarse[2]) / scale + 1e-15
    gap_error = abs(fine[4] - coarse[4]) / fine[4] if fine[4] > 0 else 0.0
    gap_error += 4e-16 * math.sqrt(max(fine[5], fine[6]) / fine[4]) if fine[4] > 0 else 0.0
    return Pair(fine[0], fine[1], fine[2], fine[3], fine[4], float(error), float(gap_error))


def _pair_by(phi: Phi, s_a, s_b, beta, excess, inner, orders) -> np.ndarray:
    more: list[float] = []
    flat = inner < 1e-9 * s_a
    reach = REACH * 1.2 * max(s_a, s_b)
    splits, rough = [b for b in phi.splits if abs(b) < reach], [b for b in phi.rough if abs(b) < reach]
    if not flat:
        steps = np.array([0.0, 0.5, 1, 1.5, 2, 3, 4, 5, 6.5, 8, 10, 13, 18, 26, 40, 70, 120, 250, 500, 1000])
        for b in splits:  # where the inner variable passes a break: resolved at the scale of what remains
            if abs(beta) > 1e-3:
                width = inner / abs(beta)
                near = steps[steps * width < max(1.0, 2 * width)] * width
                more += [*(b / beta + near), *(b / beta - near)]
        if abs(beta) > 1:  # features of φ seen through β
            more += [*(np.arange(-12, 12.1, 0.5) / beta)]
    elif abs(beta) > 1e-3:
        more += [b / beta for b in splits]
    if abs(beta) > 1:
        more += [x / abs(beta) * s for x in np.geomspace(12, max(13.0, abs(beta) * s_b * REACH), 24) for s in (1, -1)]
    z, w = _nodes(panels(s_b, phi, tuple(more), 0.75), orders[0])
    x = z / s_b
    w = w * np.exp(-x * x / 2) / (math.sqrt(2 * math.pi) * s_b)
    v_b, d_b = phi.jet(z)
    weight = w * (1 + v_b * v_b)
    if not np.isfinite(weight.max()):
        raise OutOfReach(f"phi overflows at K = {s_b**2}")
    keep = weight > 1e-21 * weight.max()
    z, w, v_b, d_b = z[keep], w[keep], v_b[keep], d_b[keep]
    if flat:
        y, u = np.zeros((1, 1)), np.ones((1, 1))
        other = beta * z[:, None]
    else:
        ends = 9.0
        steps = np.arange(-ends, ends + 0.1, 1.2)
        edges = np.broadcast_to(steps, (z.size, steps.size))
        extra = [np.full(z.shape, b) for b in splits]
        if inner > 0.6:
            extra += [np.full(z.shape, t) for t in np.arange(-6, 6.1, 0.75)]
            if inner * ends > 8:
                far = np.geomspace(7, 7 + 2 * REACH * s_a, 12)
                extra += [np.full(z.shape, t) for t in (*far, *-far)]
        if rough:
            grade = 2.0 ** -np.arange(0, 30, 1.0) * min(1.0, inner)
            extra += [np.full(z.shape, b + s * g) for b in rough for g in grade for s in (1, -1)]
        if extra:
            moved = (np.stack(extra, axis=1) - beta * z[:, None]) / inner
            edges = np.sort(np.concatenate([edges, np.clip(moved, -ends, ends)], axis=1), axis=1)
        y, u = _nodes(edges, orders[1])
        u = u * np.exp(-y * y / 2) / math.sqrt(2 * math.pi)
        other = beta * z[:, None] + inner * y
    v_a, d_a = phi.jet(other)
    step = excess * z[:, None] + inner * y
    if flat and abs(excess) < 1e-12:
        step = np.zeros_like(other)
    # close points: the difference of values by the slope where the step is too small for a difference
    tiny = np.abs(step) < 1e-9 * (np.abs(z[:, None]) + 1e-300)
    between = v_a - v_b[:, None]
    same = np.ones_like(tiny)
    for b in splits:
        same &= (other > b) == (z[:, None] > b)
    between = np.where(tiny & same, d_b[:, None] * step, between)
    inside = u * v_a
    return np.array(
        [
            w @ np.sum(inside, axis=1),
            w @ v_b,
            (w * v_b) @ np.sum(inside, axis=1),
            (w * d_b) @ np.sum(u * d_a, axis=1),
            w @ np.sum(u * between**2, axis=1),
            w @ np.sum(inside * v_a, axis=1),
            w @ (v_b * v_b),
        ]
    )


# ------------------------------------------------------------------------------------------------------------- judging


def average_digits(f: Callable[[Any], Any], K: Any, phi: Phi, digits: int = 30) -> tuple[Any, Any]:
    """(⟨f⟩_K, error) in mpmath, f of one mpmath number; split where φ breaks and graded there."""
    with mp.workdps(digits + 10):
        spread = mp.sqrt(K)
        end = 14 * spread if digits <= 25 else 16 * spread
        edges = {-end, end, mp.mpf(0)}
        for k in range(-16, 17, 2):
            edges.add(k * spread)
        grid = [mp.mpf(k) for k in (-32, -16, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 16, 32)]
        edges |= {t for t in grid if abs(t) < end} if spread > 0.3 else set()
        places = [
            (mp.mpf(b.split("/")[0]) / mp.mpf(([*b.split("/"), "1"])[1]), r) for b, r in phi.tree.breaks().items()
        ]
        edges |= {b for b, _ in places if abs(b) < end}
        points = sorted(t for t in edges if -end <= t <= end)
        weight = lambda z: f(z) * mp.exp(-z * z / (2 * K))  # noqa: E731
        total, error = mp.quad(weight, points, error=True, maxdegree=9)
        return total / mp.sqrt(2 * mp.pi * K), error / mp.sqrt(2 * mp.pi * K)
