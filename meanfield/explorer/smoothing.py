r"""⟨(f_a - f_b)²⟩ of two Gaussians of one variance V and covariance K_ab, by what they share.

For K_ab = v ≥ 0, z_a = m + s e_a and z_b = m + s e_b with m ~ N(0, v), s² = V - v and independent e's: the distance is
2⟨Var f(m + s e)⟩ over m. For K_ab = -v, z_b = -m + s e_b, and it is ⟨Var f(m + s e) + Var f(-m + s e) + (the difference
of the two means)²⟩. All terms are positive. The variance and the mean of f over e are found from I(e), the integral of
f′ from m to m + s e (and the jumps on the way), in which nothing cancels. So at one s all v are Gaussian averages of
two functions of m, and in log s and log v the answer is smooth, whatever kinks and jumps f has.

Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp

from meanfield.base.answers.results import InfiniteAverage
from meanfield.base.symbols import Z
from meanfield.explorer import oscillatory_moments
from meanfield.explorer.oscillatory_moments import NODES, REACH
from meanfield.functions.piecewise import pieces
from meanfield.numeric.quadrature.evaluation import evaluate
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.numeric.quadrature.steep_points import centres

FINE = 8  # how far from a centre f has a scale of its own
NEAR, FAR = -40, 25  # octaves of z between which panels double


@dataclass(frozen=True)
class Grain:
    """What panels of f end at: the places around which it has a scale of its own, and its jumps; its fastest frequency
    and the variance up to which that is followed (`oscillatory_moments`)."""

    f: sp.Expr
    slope: sp.Expr
    centres: tuple[float, ...]
    kinked: bool
    jumps: tuple[tuple[float, float], ...]
    speed: float
    limit: float


@lru_cache(maxsize=32)
def grain(f: sp.Expr) -> Grain:
    """The grain of f(z). Raises: InfiniteAverage where f has an infinite jump or slope that is not integrable."""
    p = pieces(f, Z[0])
    jumps = tuple((float(b), float(step)) for b, step in p.jumps())
    if not np.isfinite([step for _, step in jumps]).all():
        raise InfiniteAverage(f"{f} has an infinite jump.")
    steep = {sign * c for c in centres(f) for sign in (-1, 1) if c > FINE - 2}
    places = sorted({0.0, *map(float, p.breaks), *steep})
    return Grain(f, p.diff().expr, tuple(places), bool(p.breaks), jumps, *oscillatory_moments.waves(f))


def distances(f: sp.Expr, s: float, v: np.ndarray, refine: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """⟨(f_a - f_b)²⟩ at V = s² + v for covariances v and -v, many v ≥ 0 at once.

    refine: how many times finer the panels are, for a second opinion.

    >>> from meanfield.base.symbols import Z
    >>> above, below = distances(Z[0], 1.0, np.array([3.0]))
    >>> print(above.round(6), below.round(6))  # 2s² and 2s² + 4v
    [2.] [14.]
    """
    g = grain(f)
    m, weight = _shared(g, s, refine)
    variance, mean = (_of_waves if g.speed else _moments)(g, m, s, refine)
    right, other, opposite = slice(m.size // 2, None), variance[::-1], mean[::-1]  # the nodes m are symmetric
    parts = np.array([variance + other, variance + other + (mean - opposite) ** 2])[:, right]
    m, weight = m[right], weight[right]
    out = np.empty((2, v.size))
    scale = np.floor(np.log2(v) / 2)
    for one in np.unique(scale):
        some = scale == one
        near = slice(0, int(np.searchsorted(m, 2.0 ** (one + 1) * 9)))
        with np.errstate(under="ignore"):
            density = np.exp(-0.5 * m[near] ** 2 / v[some, None]) * weight[near]
        out[:, some] = parts[:, near] @ density.T / density.sum(axis=1)
    return out[0], out[1]


def _shared(g: Grain, s: float, refine: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes m and weights: panels that double from every centre outwards, symmetric about 0."""
    steps = 2.0 ** (np.arange(NEAR * refine, FAR * refine + 1) / refine)
    fine = np.arange(1, 2 * FINE * refine + 1) * 0.5 / refine  # f's own scale
    one = np.concatenate([[0.0], steps, fine])
    edges = np.unique(np.abs(np.concatenate([c + sign * one for c in g.centres for sign in (-1, 1)])))
    edges = edges[np.append(True, np.diff(edges) > 1e-13 * edges[1:])]
    if g.speed:
        end = _inner(g)
        outer = oscillatory_moments.outer_edges(g.speed, g.limit, s, end, refine)
        edges = np.concatenate([edges[edges < end * (1 - 1e-9)], outer])
    x, w = gauss_legendre(NODES)
    half = np.diff(edges)[:, None] / 2
    right, weights = (edges[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()
    return np.concatenate([-right[::-1], right]), np.concatenate([weights[::-1], weights])


def _inner(g: Grain) -> float:
    """How far from 0 f has a scale of its own."""
    return max(map(abs, g.centres)) + FINE


def _of_waves(g: Grain, m: np.ndarray, s: float, refine: int) -> tuple[np.ndarray, np.ndarray]:
    """(Var f(m + s e), ⟨f(m + s e)⟩) at every m, of an f that oscillates."""
    narrow = s <= oscillatory_moments.narrow(g.speed) / refine
    far = np.abs(m) > (_inner(g) if narrow else _inner(g) + REACH * s if s * g.speed <= 0.5 / refine else np.inf)
    out = np.empty((2, m.size))
    out[:, far] = oscillatory_moments.narrow_moments(g.f, g.slope, m[far], s)
    if narrow:
        out[:, ~far] = _moments(g, m[~far], s, refine)
    else:
        out[:, ~far] = oscillatory_moments.wide_moments(g.f, g.centres, g.speed, m[~far], s, refine)
    return out[0], out[1]


def _moments(g: Grain, m: np.ndarray, s: float, refine: int) -> tuple[np.ndarray, np.ndarray]:
    """(Var f(m + s e), ⟨f(m + s e)⟩) at every m."""
    out = np.empty((2, m.size))
    doubled = 8.0 * 2.0 ** (np.arange(1, FAR * refine) / refine)
    own = np.concatenate([[0.0], np.arange(1, 13 * refine) * 2 / 3 / refine, doubled])
    places = np.unique(np.concatenate([c + sign * own for c in g.centres for sign in (-1, 1)]))
    window = s * REACH
    base = np.linspace(-REACH, REACH, 8 * refine + 1)
    near = np.array([np.searchsorted(places, m - window), np.searchsorted(places, m + window)])
    for count in np.unique(near[1] - near[0]):  # as many panels at a time as a window holds
        chosen = np.flatnonzero(near[1] - near[0] == count)
        for at in np.array_split(chosen, max(1, chosen.size * (count + 20) // 60000)):
            inside = places[near[0][at][:, None] + np.arange(count)]
            e = (inside - m[at][:, None]) / s
            edges = np.sort(np.concatenate([e, np.broadcast_to(base, (at.size, base.size))], axis=1), axis=1)
            out[:, at] = _of_panels(g, m[at], s, edges)
    return out[0], out[1]


@lru_cache(maxsize=1)
def _running() -> np.ndarray:
    """The matrix from values at Gauss nodes of [-1, 1] to integrals from -1 to each of them."""
    x, _ = gauss_legendre(NODES)
    basis = np.polynomial.legendre.legvander(x, NODES - 1)
    whole = np.array([np.polynomial.legendre.legint(row, lbnd=-1) for row in np.eye(NODES)])
    return np.polynomial.legendre.legval(x, whole.T).T @ np.linalg.inv(basis)


def _of_panels(g: Grain, m: np.ndarray, s: float, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, w = gauss_legendre(NODES)
    half = np.diff(edges, axis=1)[..., None] / 2
    e = edges[:, :-1, None] + half * (1 + x)
    z = m[:, None, None] + s * e
    slope = evaluate(g.slope, z)
    slope = np.where(half > 0, slope, 0.0)
    inner = np.einsum("mpj,ij->mpi", slope, _running()) * half * s
    whole = (slope * w).sum(axis=-1) * half[..., 0] * s
    before = np.cumsum(whole, axis=1) - whole
    total = before[..., None] + inner  # of f′ from the lower end
    for b, step in g.jumps:
        total = total + step * (z > b)
    weight = np.exp(-0.5 * e * e) * half * w
    weight /= weight.sum(axis=(1, 2))[:, None, None]
    mean = (weight * total).sum(axis=(1, 2))
    variance = (weight * (total - mean[:, None, None]) ** 2).sum(axis=(1, 2))
    low = evaluate(g.f, m + s * edges[:, 0])
    return variance, low + mean
