"""Multiprecision Gaussian averages by Gauss-Legendre panels: one input on the line, two inputs conditionally.

The same code runs in mpmath and in Arb; the oracle compares two runs that differ in arithmetic, precision, order,
panels and reach, and for two inputs also in which variable is outermost.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import flint
from mpmath import mp, mpf

from tests.oracles.activations import ARB, Activation

QUANTITIES = ("phi", "phi2", "dphi2", "dK_phi2", "dK_dphi2")
PAIR_QUANTITIES = ("phi_phi", "dphi_dphi")


@dataclass(frozen=True)
class Settings:
    """Discretization of a quadrature: arithmetic, digits, panel order, panel grading and reach in standard deviations.

    On each side of 0 the first panel has width ``first``, later ones grow with ``ratio``, none is wider than ``cap``
    standard deviations, and the last ends at ``reach`` standard deviations.
    """

    backend: Any
    digits: int
    order: int
    first: float
    ratio: float
    cap: float
    reach: float


@contextlib.contextmanager
def precision(digits: int) -> Iterator[None]:
    """Context in which mpmath and Arb both work with the given number of digits."""
    with mp.workdps(digits), flint.ctx.workdps(digits):
        yield


@cache
def gauss_nodes(backend_name: str, order: int, digits: int) -> tuple[tuple[Any, Any], ...]:
    """Gauss-Legendre nodes and weights on [-1, 1]: by Newton's method in mpmath, from the library in Arb."""
    with precision(digits):
        if backend_name == ARB.name:
            return tuple(flint.arb.legendre_p_root(order, i, weight=True) for i in range(order))
        pairs = []
        for i in range(order):
            x = mpf(math.cos(math.pi * (i + 0.75) / (order + 0.5)))
            for _ in range(math.ceil(math.log2(digits)) + 2):
                below, here = mpf(1), x
                for k in range(2, order + 1):
                    below, here = here, ((2 * k - 1) * x * here - (k - 1) * below) / k
                slope = order * (x * here - below) / (x * x - 1)
                x -= here / slope
            pairs.append((x, 2 / ((1 - x * x) * slope * slope)))
        return tuple(pairs)


def panel_edges(K: float, kinks: Sequence[float], settings: Settings) -> list[float]:
    """Edges of the panels on the line: graded from 0, no wider than a fraction of sqrt(K), and split at the kinks."""
    width = math.sqrt(K)
    end = settings.reach * width
    edges = {0.0}
    place = 0.0
    while place < end:
        place = min(end, place + min(settings.cap * width, max(settings.first, (settings.ratio - 1) * place)))
        edges |= {place, -place}
    return sorted(edges | {b for b in kinks if abs(b) < end})


@dataclass
class OneInput:
    """Averages of one activation at one variance: values, rounding radii, scales and the second route for slopes.

    ``identity`` holds the K-derivatives by <(z^2/K - 1) F>/(2K), with the average modulus of that integrand.
    """

    values: dict[str, Any]
    radii: dict[str, Any]
    scales: dict[str, Any]
    identity: dict[str, tuple[Any, Any]]


def gaussian_density(m: Any, z: Any, K: Any) -> Any:
    """Density of N(0, K) at z."""
    return m.exp(-z * z / (2 * K)) / m.sqrt(2 * m.pi() * K)


def one_input_quadrature(activation: Activation, K: float, settings: Settings) -> OneInput:
    """Averages over z ~ N(0, K) of phi, phi^2, phi'^2 and the K-derivatives of the last two.

    K-derivatives are <z F'>/(2K) plus, for each kink b of F, jump(F) b p_K(b)/(2K): no term of this is larger than the
    stated scale.  Rounding radii are zero for mpmath.
    """
    with precision(settings.digits):
        m = settings.backend
        variance, zero = m.num(K), m.num(0)
        norm = 1 / m.sqrt(2 * m.pi() * variance)
        sums = [zero] * 11
        edges = panel_edges(K, [float(b) for b, _ in activation.kinks], settings)
        rule = gauss_nodes(m.name, settings.order, settings.digits)
        for left, right in pairwise(edges):
            middle, half = (m.num(left) + m.num(right)) / 2, (m.num(right) - m.num(left)) / 2
            part = [zero] * 11
            for x, weight in rule:
                z = middle + half * x
                w = weight * m.exp(-z * z / (2 * variance))
                p, d, dd = activation.triple(m, z)
                p2, d2, h = p * p, d * d, z * z / variance - 1
                zp, zd = 2 * z * p * d, 2 * z * d * dd
                rows = (p, p2, d2, zp, zd, h * p2, h * d2, abs(p), abs(zp), abs(zd), abs(h) * (p2 + d2))
                part = [s + w * row for s, row in zip(part, rows)]
            sums = [s + half * q for s, q in zip(sums, part)]
        phi, phi2, dphi2, zp, zd, id_phi2, id_dphi2, abs_phi, abs_zp, abs_zd, abs_id = (norm * s for s in sums)
        twice = 2 * variance
        boundary = [m.num(jump) * m.num(b) * gaussian_density(m, m.num(b), variance) for b, jump in activation.kinks]
        numbers = (phi, phi2, dphi2, zp / twice, (zd + sum(boundary, zero)) / twice)
        scales = (abs_phi, phi2, dphi2, abs_zp / twice, (abs_zd + sum(map(abs, boundary), zero)) / twice)
        pairs = [m.to_mpf(v) for v in numbers]
        modulus = m.to_mpf(abs_id / twice)[0]
        return OneInput(
            values=dict(zip(QUANTITIES, (p[0] for p in pairs))),
            radii=dict(zip(QUANTITIES, (p[1] for p in pairs))),
            scales=dict(zip(QUANTITIES, (m.to_mpf(s)[0] for s in scales))),
            identity={
                "dK_phi2": (m.to_mpf(id_phi2 / twice)[0], modulus),
                "dK_dphi2": (m.to_mpf(id_dphi2 / twice)[0], modulus),
            },
        )


def halved_panels(
    low: float, high: float, splits: Sequence[float], centres: Sequence[tuple[float, float]], cap: float, grade: float
) -> list[tuple[float, float]]:
    """Panels of [low, high], split at given places and halved until graded.

    A panel is fine when its width is at most ``cap`` and, for every centre (p, w), at most max(w, grade * distance).
    """
    edges = sorted({low, high, *(s for s in splits if low < s < high)})
    stack, done = list(pairwise(edges)), []
    while stack:
        a, b = stack.pop()
        if b - a > min([cap, *(max(w, grade * (a - p), grade * (p - b)) for p, w in centres)]) * (1 + 1e-9):
            stack += [(a, (a + b) / 2), ((a + b) / 2, b)]
        else:
            done.append((a, b))
    return done


def two_input_quadrature(
    activation: Activation, K_aa: float, K_bb: float, K_ab: float, settings: Settings
) -> dict[str, tuple[Any, Any]]:
    """Averages <phi_a phi_b> and <phi'_a phi'_b> over a centred Gaussian pair, as (value, rounding radius).

    The outer integral runs over z_a with the density N(0, K_aa), the inner one over z_b with its conditional density
    of mean z_a K_ab/K_aa and variance K_bb - K_ab^2/K_aa.  Outer panels are graded at 0 and where the conditional mean
    meets a feature of phi: a kink there is smoothed over the conditional width.  The mesh is chosen in floats; all
    averages use the exact doubles.  By the kinks' splits the slopes are weak derivatives.
    """
    m, order = settings.backend, settings.order
    kinks = [float(b) for b, _ in activation.kinks]
    with precision(settings.digits):
        zero, k_aa, k_bb, k_ab = m.num(0), m.num(K_aa), m.num(K_bb), m.num(K_ab)
        ratio, conditional = k_ab / k_aa, k_bb - k_ab * k_ab / k_aa
        twice = 2 * conditional
        width = math.sqrt(float(m.to_mpf(conditional)[0]))
        first, cap, grade, reach = settings.first, settings.cap, settings.ratio - 1, settings.reach
        centres = [(0.0, first)]
        if K_ab:
            shrink = K_aa / abs(K_ab)
            centres.append((0.0, first * max(1.0, width) * shrink))
            centres += [(k * K_aa / K_ab, first * width * shrink) for k in kinks]
        end = reach * math.sqrt(K_aa)
        rule = gauss_nodes(m.name, order, settings.digits)
        total = [zero, zero]
        for a, b in halved_panels(-end, end, [0.0, *kinks], centres, cap * math.sqrt(K_aa), grade):
            middle, half = (m.num(a) + m.num(b)) / 2, (m.num(b) - m.num(a)) / 2
            for x, weight in rule:
                z_a = middle + half * x
                mean = ratio * z_a
                near = float(m.to_mpf(mean)[0])
                inner = [zero, zero]
                low, high = near - reach * width, near + reach * width
                for c, d in halved_panels(low, high, [0.0, *kinks], [(0.0, first)], cap * width, grade):
                    mid, hal = (m.num(c) + m.num(d)) / 2, (m.num(d) - m.num(c)) / 2
                    part = [zero, zero]
                    for y, v in rule:
                        z_b = mid + hal * y
                        g = v * m.exp(-((z_b - mean) ** 2) / twice)
                        p, slope, _ = activation.triple(m, z_b)
                        part = [part[0] + g * p, part[1] + g * slope]
                    inner = [inner[0] + hal * part[0], inner[1] + hal * part[1]]
                w = half * weight * m.exp(-z_a * z_a / (2 * k_aa))
                p, slope, _ = activation.triple(m, z_a)
                total = [total[0] + w * p * inner[0], total[1] + w * slope * inner[1]]
        norm = 1 / (2 * m.pi() * m.sqrt(k_aa * conditional))
        return {q: m.to_mpf(norm * t) for q, t in zip(PAIR_QUANTITIES, total)}
