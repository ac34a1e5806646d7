r"""Mean and variance of an oscillating f over a Gaussian, at many places: `smoothing` for a period that stays.

Panels that double outwards hold many periods; here they are as wide as a part of one, and go as far as the average over
two inputs is compiled, which `propagate` uses. Narrow Gaussians: Var f(m + s e) = s² Σ c_n²/(n + 1) with the Hermite
coefficients c_n of f′(m + s e), in which nothing cancels (Mehler and Price). Wide ones: both are smooth on the scale of
s, so they are computed at few places and interpolated.

Source: derived here.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

from meanfield.base.errors import MeanFieldError
from meanfield.numeric.lowering.averages import planes
from meanfield.numeric.quadrature.evaluation import evaluate
from meanfield.numeric.quadrature.rules import gauss_legendre

NODES = 8  # of a panel
REACH = 7.5  # standard deviations: what is beyond is 1e-13
OWN = 8.0  # around centres, f has a scale of its own
ORDER = 20  # Hermite coefficients of a narrow Gaussian


@lru_cache(maxsize=32)
def waves(f: sp.Expr) -> tuple[float, float]:
    """(the fastest frequency of f(z), the largest variance at which averages over two inputs are compiled); (0, ∞) of
    what does not oscillate."""
    try:
        found = planes.plan_of(f, f)
    except MeanFieldError:  # as of sin(z²): nothing that is compiled knows it
        return 0.0, float(np.inf)
    return (found.frequencies[0], found.limit) if np.isfinite(found.limit) else (0.0, np.inf)


def narrow(speed: float) -> float:
    """The standard deviation below which a Gaussian is narrow, also near the centres of f."""
    return 0.5 / max(0.5, speed)


def outer_edges(speed: float, limit: float, s: float, inner: float, refine: int) -> np.ndarray:
    """Edges of panels from `inner` to where the widest Gaussian ends, for averages over m of moments over s."""
    far, width = inner + REACH * np.sqrt(limit), max(1 / speed, s / 2) / refine
    grown = inner * 1.25 ** (np.arange(1 + np.log(far / inner) / np.log(1.25) * refine) / refine)  # as v may be small
    grown = grown[: 1 + int((np.diff(grown) < width).sum())]
    return np.concatenate([grown, np.arange(grown[-1] + width, far + width, width)])


def narrow_moments(f: sp.Expr, slope: sp.Expr, m: np.ndarray, s: float) -> tuple[np.ndarray, np.ndarray]:
    """(Var f(m + s e), ⟨f(m + s e)⟩) where f is analytic around m, beyond s/5 of it."""
    e, weight, hermite = _lattice()
    z = m[:, None] + s * e
    found = evaluate(slope, z) @ hermite
    return s * s * (found**2 @ (1 / np.arange(1.0, ORDER + 1))), evaluate(f, z) @ weight


@lru_cache(maxsize=1)
def _lattice() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places, weights of a standard Gaussian, and the weights of Hermite coefficients, (places, ORDER)."""
    e = np.arange(-18, 19) * 0.5
    weight = np.exp(-e * e / 2) * 0.5 / np.sqrt(2 * np.pi)
    rows = [np.ones_like(e), e]
    for n in range(1, ORDER - 1):
        rows.append((e * rows[-1] - np.sqrt(n) * rows[-2]) / np.sqrt(n + 1))  # He_n/√n!
    return e, weight, (np.array(rows) * weight).T


def wide_moments(
    f: sp.Expr, centres: tuple[float, ...], speed: float, m: np.ndarray, s: float, refine: int
) -> tuple[np.ndarray, np.ndarray]:
    """The same for s that is not narrow, interpolated between Gauss nodes of panels of width s/2."""
    far, width = float(np.abs(m).max()) + s / 2, s / 2 / refine
    count = int(2 * far / width) + 1
    edges = (np.arange(count + 1) - count / 2) * width
    x, w = gauss_legendre(NODES)
    at = (edges[:-1, None] + width * (1 + x) / 2).ravel()
    known = np.array(_direct(f, centres, speed, at, s, refine)).reshape(2, count, NODES)
    panel = np.clip(((m - edges[0]) / width).astype(int), 0, count - 1)
    t = 2 * (m - edges[panel]) / width - 1
    basis = np.polynomial.legendre.legvander(x, NODES - 1)
    projection = (w[:, None] * basis) * (np.arange(NODES) + 0.5)  # values at nodes → Legendre coefficients
    series = (known @ projection)[:, panel]
    variance, mean = (np.polynomial.legendre.legvander(t, NODES - 1) * series).sum(axis=-1)
    return variance, mean


def _direct(
    f: sp.Expr, centres: tuple[float, ...], speed: float, m: np.ndarray, s: float, refine: int
) -> tuple[np.ndarray, np.ndarray]:
    z, w = _nodes(centres, min(1 / speed, 2 * s), float(np.abs(m).max()) + REACH * s, refine)
    value = evaluate(f, z)
    out = np.empty((2, m.size))
    for rows in np.array_split(np.arange(m.size), m.size // 64 + 1):  # neighbours, which see the same nodes
        low, high = np.searchsorted(z, [m[rows[0]] - REACH * s, m[rows[-1]] + REACH * s])
        middle = value[(low + high) // 2]
        u, local = w[low:high], value[low:high] - middle
        weight = np.exp(-0.5 * ((z[low:high] - m[rows, None]) / s) ** 2)
        whole, first, second = (weight @ np.array([u, u * local, u * local**2]).T).T
        out[:, rows] = second / whole - (first / whole) ** 2, middle + first / whole
    return out[0], out[1]


def _nodes(centres: tuple[float, ...], widest: float, far: float, refine: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights over z from -far to far: panels that end at centres, and are narrower near them."""
    reaches = ((0.5, OWN), (1.0, 2 * OWN), (widest, far + widest))
    steps = np.concatenate([np.arange(0.0, end, width / refine) for width, end in reaches])
    edges = np.unique(np.concatenate([c + sign * steps for c in centres for sign in (-1, 1)]))
    edges = edges[np.append(True, np.diff(edges) > 1e-9)]
    x, w = gauss_legendre(NODES)
    half = np.diff(edges)[:, None] / 2
    return (edges[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()
