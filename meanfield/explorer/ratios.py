r"""Tables of log S, S = ⟨(f_a - f_b)²⟩/⟨(z_a - z_b)²⟩ of two Gaussians of variance V and covariance ±v, V = s² + v.

S is what the distance of two inputs is multiplied by in a layer, and a quadrature where it has no closed form: too slow
to follow a mouse. In x = log2 s² and y = log2 v it is as smooth as an average is in log K, kinks and jumps of f
included: boxes of Chebyshev polynomials hold it, up to 1e13 in either, or up to where averages over two inputs of
an f that oscillates are compiled. Each box is compared with a finer quadrature between its nodes; one that misses it is
left out, and who asks there is told nothing.

Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp

from meanfield.base.budgets import tick
from meanfield.base.symbols import Z
from meanfield.explorer.oscillatory_moments import waves
from meanfield.explorer.smoothing import Grain, distances, grain
from meanfield.numeric.lowering.modules import cache
from meanfield.numeric.lowering.modules.generated_modules import VERSION
from meanfield.numeric.quadrature.evaluation import evaluate
from meanfield.numeric.quadrature.steep_points import steepness

CORE = (-8.0, 8.0, 2.0)  # octaves between which f has a scale of its own: from, to, and the width of a box
QUIET = -6.0  # below it an oscillation is none; its boxes above are half as wide
SIDES = 3.0  # width of a box elsewhere, where S still depends on s²/v
SMOOTH, KINKED, HIGH = (-30.0, -20.0, -14.0, -10.0), -74.0, 44.0  # a smooth f is linear below,
FLAT = -44.0  # unless f'(0) = 0
ROOM = {"smooth": 0.0, "flat": 14.0, "kinked": 18.0}  # octaves above the first edge, below which S is a power
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
    degree: float = 0.0
    whole: float = -np.inf

    @property
    def share(self) -> float:
        """The share of boxes that hold S."""
        return float(np.isfinite(self.coefficients[..., 0, 0]).mean())


@lru_cache(maxsize=64)
def ratios(f: sp.Expr) -> Ratios:
    """The table of f(z) without free parameters, made once and kept beside compiled modules."""
    unit = unit_of(f)
    own = f if unit == 1 else f.xreplace({Z[0]: unit * Z[0]})
    edges = edges_of(own)
    name = cache.key(f"ratios|{VERSION}|{sp.srepr(f)}|{unit}|{edges}|{NODES}")
    stored = cache.read(name)
    if stored is None:
        made = tabulated(own, edges)
        coefficients = made.coefficients
        coefficients[..., 0, 0] -= 2 * np.log(float(unit))
        numbers = np.array([made.error, made.degree, made.whole])
        stored = "", {"coefficients": coefficients, "numbers": numbers}
        cache.write(name, *stored)
    found = stored[1]
    error, degree, whole = found["numbers"].tolist()
    moved, jumps = 2 * np.log2(float(unit)), bool(grain(f).jumps)
    return Ratios(edges + moved, found["coefficients"], error, jumps, degree, float(whole + moved))


def unit_of(f: sp.Expr) -> sp.Rational:
    """A power of 2 by which z is measured, so that a steep or fast f is neither."""
    fastest = max(steepness(f), waves(f)[0])
    return sp.Rational(1, 2 ** max(0, int(np.floor(np.log2(fastest)))))


def edges_of(f: sp.Expr) -> np.ndarray:
    """The edges of the boxes of f(z), in octaves."""
    g = grain(f)
    core, above = np.arange(*CORE), np.arange(CORE[1], HIGH + 1, SIDES)
    if g.speed:  # what oscillates averages out within an octave
        top = np.log2(g.limit)
        core, above = np.append(np.arange(CORE[0], QUIET, CORE[2]), np.arange(QUIET, top)), np.array([top])
    below = {"smooth": np.array(SMOOTH), "flat": np.arange(FLAT, CORE[0], CORE[2])}
    below["kinked"] = np.arange(KINKED, CORE[0], SIDES)
    return np.concatenate([below[_kind(g)], core, above])


def _kind(g: Grain) -> str:
    if g.kinked:
        return "kinked"
    return "flat" if float(evaluate(g.slope, np.zeros(1))[0]) == 0 else "smooth"


def _degree(f: sp.Expr, octave: float) -> float:
    """The slope of log S where s² = v; 1 of z², 0 of a kink, -1 of a jump."""
    one, other = (_logarithms(f, x, np.array([x]))[0, 0] for x in (octave, octave + 2))
    found = (other - one) / np.log(4)
    near = np.round(12 * found) / 12
    return float(near if abs(found - near) < 1e-4 else found if np.isfinite(found) else 0.0)


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
    whole = float(edges[0] + ROOM[_kind(grain(f))])
    return Ratios(edges, out, worst, bool(grain(f).jumps), _degree(f, whole), whole)
