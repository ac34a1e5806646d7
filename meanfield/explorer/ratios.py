r"""Tables of log S, S = ⟨(f_a - f_b)²⟩/⟨(z_a - z_b)²⟩ of two Gaussians of variance V and covariance ±v, V = s² + v.

S is what the distance of two inputs is multiplied by in a layer, and a quadrature where it has no closed form: too slow
to follow a mouse. In x = log2 s² and y = log2 v it is as smooth as an average is in log K, kinks and jumps of f
included: boxes of Chebyshev polynomials hold it, up to 1e13 in either. Each box is compared with a finer
quadrature between its nodes; one that misses it is left out, and who asks there is told nothing.

Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp

from meanfield.base.limits import tick
from meanfield.explorer.smoothing import distances, grain
from meanfield.numeric.lowering import cache
from meanfield.numeric.lowering.modules import VERSION

CORE = (-8.0, 8.0, 2.0)  # octaves between which f has a scale of its own: from, to, and the width of a box
SIDES = 3.0  # width of a box elsewhere, where S still depends on s²/v
SMOOTH, KINKED, HIGH = (-30.0, -20.0, -14.0, -10.0), -56.0, 44.0  # a smooth f is linear below
NODES = 9  # Chebyshev points of a box, in each direction
USABLE = 1e-7  # a box that misses log S by more is left out
BETWEEN = (0.37, -0.93)  # where a box is compared, in x and in y


@dataclass(frozen=True, eq=False)
class Ratios:
    """log S in boxes.

    edges: of boxes, in octaves of s² and of v; coefficients (2, boxes in x, boxes in y, NODES, NODES): of covariances v
    and -v, NaN in boxes that are left out; error: the largest deviation seen in the others; jumps: whether f jumps, so
    that S ~ 1/s as s → 0.
    """

    edges: np.ndarray
    coefficients: np.ndarray
    error: float
    jumps: bool

    @property
    def share(self) -> float:
        """The share of boxes that hold S."""
        return float(np.isfinite(self.coefficients[..., 0, 0]).mean())


@lru_cache(maxsize=64)
def ratios(f: sp.Expr) -> Ratios:
    """The table of f(z) without free parameters, made once and kept beside compiled modules."""
    name = cache.key(f"ratios|{VERSION}|{sp.srepr(f)}|{_edges(f)}|{NODES}")
    stored = cache.read(name)
    if stored is None:
        made = tabulated(f, _edges(f))
        stored = "", {"coefficients": made.coefficients, "error": np.array(made.error)}
        cache.write(name, *stored)
    found = stored[1]
    return Ratios(_edges(f), found["coefficients"], float(found["error"]), bool(grain(f).jumps))


def _edges(f: sp.Expr) -> np.ndarray:
    core, above = np.arange(*CORE), np.arange(CORE[1], HIGH + 1, SIDES)
    below = np.arange(KINKED, CORE[0], SIDES) if grain(f).kinked else np.array(SMOOTH)
    return np.concatenate([below, core, above])


def _transform() -> np.ndarray:
    k = np.arange(NODES)
    matrix = 2 / NODES * np.cos(np.pi * k[:, None] * (k + 0.5) / NODES)
    matrix[0] /= 2
    return matrix


def _logarithms(f: sp.Expr, x: float, y: np.ndarray, refine: int = 1) -> np.ndarray:
    """log S (2, places) at one x."""
    s2, v = 2.0**x, 2.0**y
    with np.errstate(all="ignore"):
        above, below = distances(f, float(np.sqrt(s2)), v, refine)
        return np.log(np.array([above / (2 * s2), below / (2 * s2 + 4 * v)]))


def tabulated(f: sp.Expr, edges: np.ndarray) -> Ratios:
    """The table of f(z) in boxes between these edges."""
    t = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    low, width = edges[:-1], np.diff(edges)
    y = (low[:, None] + width[:, None] * (1 + t) / 2).ravel()
    y_between = low + width * (1 + BETWEEN[1]) / 2
    boxes, matrix = low.size, _transform()
    out = np.empty((2, boxes, boxes, NODES, NODES))
    at = np.cos(np.arange(NODES)[:, None] * np.arccos(BETWEEN))  # the polynomials there
    worst = 0.0
    for i in range(boxes):
        tick()
        rows = np.array([_logarithms(f, low[i] + width[i] * (1 + u) / 2, y) for u in t])
        values = rows.reshape(NODES, 2, boxes, NODES)
        out[:, i] = np.einsum("ki,isbj,lj->sbkl", matrix, values, matrix)
        seen = np.einsum("sbkl,k,l->sb", out[:, i], at[:, 0], at[:, 1])
        true = _logarithms(f, low[i] + width[i] * (1 + BETWEEN[0]) / 2, y_between, 2)
        with np.errstate(invalid="ignore"):
            miss = np.abs(seen - true)
            good = miss <= USABLE
        out[:, i][~good] = np.nan
        worst = max(worst, float(miss[good].max(initial=0.0)))
    return Ratios(edges, out, worst, bool(grain(f).jumps))
