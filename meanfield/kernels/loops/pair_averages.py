"""Averages over two inputs of one function, pair by pair, by the panels of `planes`.

They are what tables near full correlation are made of, and what is taken instead where there is no table, or where too
few pairs ask for one: at every correlation, kinks included, nothing in them cancels.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import numpy as np
import sympy as sp

from meanfield.base.symbols import Z
from meanfield.functions.piecewise import pieces
from meanfield.kernels.loops.hermite_cells import nodes, to_coefficients
from meanfield.kernels.loops.hermite_series import parity
from meanfield.kernels.loops.near_sums import APART, WIDEST
from meanfield.numeric.lowering.averages import planes
from meanfield.numeric.lowering.distances.equal_norm_distance import rate_of, scale_free
from meanfield.numeric.lowering.modules import cache
from meanfield.numeric.lowering.modules.generated_modules import Module
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.lowering.text.helpers import COMPILED, HEADER
from meanfield.numeric.quadrature import branches
from meanfield.numeric.quadrature.gaussian_averages import gaussian_average, squared
from meanfield.numeric.quadrature.rules import gauss_legendre

TAKEN_OF = 5  # numbers of one pair
CLOSE = 4e-3  # of the r up to which averages are smooth: below, panels lose digits
RING, PLACES = 0.5, 10  # of that r: how far out places lie, and how many
ALIKE = 0.1  # of s: how far norms are apart whose ⟨f²⟩ have a difference with digits
FARTHEST = 37.5  # of log2 s: variances beyond are no scale that panels were tried at
SMALLEST = 1e-145  # of s
WEIGHT = 1e4  # work of one average over a pair, relative to a layer of a plain recursion


class PairAverages:
    """⟨f_a f_b⟩ and ⟨f′_a f′_b⟩ of pairs of inputs, and how ⟨f²⟩ differs between them.

    f, slope: a function of Z[0] and its derivative. Arguments are arrays over pairs: standard deviations s and t, or
    between = s - t, which may be known to more digits, and gap = 1 - c in [0, 2].
    """

    def __init__(self, f: sp.Expr, slope: sp.Expr) -> None:
        self.f, self.slope = f, slope
        self.square = squared(f)
        self.scale_free = scale_free(f)
        self._rate = math.sqrt(rate_of(f))
        self._even = parity(f) == (0, 2)

    def smooth_up_to(self, sd: float) -> float:
        """The r = √Δ/s up to which averages at s = sd are as smooth in r as the function's own scale lets them be."""
        return WIDEST / 2.0 ** max(0, math.ceil(math.log2(max(1.0, sd * self._rate)) - 1e-9))

    def of_pairs(self, s: np.ndarray, t: np.ndarray, between: np.ndarray, gap: np.ndarray) -> np.ndarray:
        """2(√(⟨f²⟩_a⟨f²⟩_b) - ⟨f_a f_b⟩), ⟨f′f′⟩, the rise of ⟨f²⟩ by s and both √⟨f²⟩ for each pair, (pairs, 5), with
        s - t = between; nan where variances are beyond `FARTHEST` or ⟨f²⟩ is 0 in doubles, and for a rise that a
        difference of averages gives.

        Of close inputs panels see f_a - f_b with the digits that √Δ has beside s. So the first two, over Δ where they
        vanish with it, are polynomials in r through places that are not so close, at the same tilt.
        """
        found = np.full((s.size, TAKEN_OF), np.nan)
        whole, other = gaussian_average(self.square, s * s), gaussian_average(self.square, t * t)
        unit = s if self.scale_free else np.ones_like(s)  # a power on either side of 0 is computed at s = 1
        served = (whole > 0) & (other > 0) & (np.abs(np.log2(np.maximum(s / unit, SMALLEST))) <= FARTHEST)
        there = np.flatnonzero(served)
        if not there.size:
            return found
        unit, whole = unit[there], whole[there]
        s, t, between, gap = s[there] / unit, t[there] / unit, between[there] / unit, gap[there]
        opposite = gap > 1.0
        if self._even:
            gap = np.where(opposite, 2.0 - gap, gap)
        qa = gaussian_average(self.square, s * s)
        across = np.sqrt(2.0 * s * t * gap)
        r = np.hypot(between, across) / s
        near = self._near(s, r)
        turned, slope = np.empty(s.size), np.empty(s.size)
        turned[~near], slope[~near] = self.turned(*(v[~near] for v in (s, t, gap)))
        if near.any():
            whole_r = np.where(r > 0, r * s, 1.0)[near]
            sine, cosine = between[near] / whole_r, np.where(r[near] > 0, across[near] / whole_r, 1.0)
            turned[near], slope[near] = self._towards(s[near], sine, cosine, r[near])
        if self._even:
            slope = np.where(opposite, -slope, slope)
        size = whole / qa
        found[there, 0], found[there, 1] = turned * size, slope * size / unit**2
        found[there, 3], found[there, 4] = np.sqrt(whole), np.sqrt(other[there])
        alike = (gap < APART) & (np.abs(between) < ALIKE * s)
        if alike.any():
            found[there[alike], 2] = self.rise(s[alike], t[alike]) * (size / unit)[alike]
        return found

    def _reach(self, s: np.ndarray) -> np.ndarray:
        """`smooth_up_to` for each pair; many pairs share a standard deviation."""
        met, index = np.unique(s, return_inverse=True)
        return np.array([self.smooth_up_to(float(x)) for x in met])[index]

    def _near(self, s: np.ndarray, r: np.ndarray) -> np.ndarray:
        return r < CLOSE * self._reach(s)

    def cost(self, s: np.ndarray, t: np.ndarray, between: np.ndarray, gap: np.ndarray) -> np.ndarray:
        """The places at which averages are taken for each pair."""
        r = np.hypot(between, np.sqrt(2.0 * s * t * gap)) / s
        return np.where(self._near(np.ones_like(s) if self.scale_free else s, r), PLACES, 1)

    def _towards(self, s, sine, cosine, r) -> tuple[np.ndarray, np.ndarray]:
        """`turned` of pairs at √Δ = r s, by places farther out on the same line."""
        ends = RING * self._reach(s)
        x = nodes(PLACES)
        out = ends[:, None] * (1 + x) / 2
        wide = [np.broadcast_to(v[:, None], out.shape) for v in (s, sine, cosine)]
        t = wide[0] * (1 - out * wide[1])
        gap = 0.5 * (wide[2] * out) ** 2 * wide[0] / t
        ratio, slope = (v.reshape(out.shape) for v in self.turned(wide[0].ravel(), t.ravel(), gap.ravel()))
        ratio = ratio / out**2
        at = 2 * r / ends - 1
        below, now = np.ones_like(at), at
        terms = [below, now]
        for _ in range(2, PLACES):
            below, now = now, 2 * at * now - below
            terms.append(now)
        basis = np.stack(terms, axis=1)
        found = []
        for values in (ratio, slope):
            total = np.zeros(r.size)
            for n, row in enumerate(to_coefficients(PLACES)):
                total += basis[:, n] * sum(values[:, k] * c for k, c in enumerate(row))
            found.append(total)
        return found[0] * r * r, found[1]

    def turned(self, s: np.ndarray, t: np.ndarray, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """2(√(⟨f²⟩_a⟨f²⟩_b) - ⟨f_a f_b⟩), which is ⟨(k f_a - f_b/k)²⟩ with k⁴ = ⟨f²⟩_b/⟨f²⟩_a, and ⟨f′_a f′_b⟩."""
        A, B = s * s, t * t
        qa, qb = gaussian_average(self.square, A), gaussian_average(self.square, B)
        apart, slope = np.empty(A.size), np.empty(A.size)
        if not ((qa > 0) & (qb > 0)).all():
            return np.full(A.size, np.nan), np.full(A.size, np.nan)
        sign, weights = np.where(gap > 1.0, -1.0, 1.0), np.sqrt(np.sqrt(qb / qa))
        self._module.call("fill", 2 * A.size, A, sign, B, gap * (2 - gap), weights, apart, slope)
        return apart, slope

    def rise(self, s: np.ndarray, t: np.ndarray) -> np.ndarray:
        """(⟨f²⟩_a - ⟨f²⟩_b)/(s - t) of close s and t: the mean of d⟨f²⟩/ds = 2⟨f f′ z⟩/s between the two."""
        body = pieces(self.f, Z[0]).map(lambda e: e * e.diff(Z[0]) * Z[0]).expr
        total = np.zeros(s.size)
        for x, w in zip(*gauss_legendre(8)):
            at = t + (s - t) * (1 + x) / 2
            total += w * gaussian_average(body, at * at) / at
        return total

    @cached_property
    def _module(self) -> Module:
        name = cache.key(f"pair averages|{sp.srepr(self.f)}|{sp.srepr(self.slope)}")
        stored = cache.read(name)
        source = _source(self.f, self.slope) if stored is None else stored[0]
        if stored is None:
            cache.write(name, source, {})
        return Module(name, source, (), WEIGHT)


@lru_cache(maxsize=64)
def pair_averages(f: sp.Expr, slope: sp.Expr | None) -> PairAverages | None:
    """The averages of a function; None where it jumps, branches or oscillates."""
    if slope is None or pieces(f, Z[0]).jumps() or f.has(sp.sin, sp.cos):
        return None
    return None if branches.branches(f) or branches.branches(slope) else PairAverages(f, slope)


def _source(f: sp.Expr, slope: sp.Expr) -> str:
    """Source of `fill`: ⟨(k f_a - f_b/k)²⟩ and ⟨f′f′⟩ at arrays of variances, the sign of c, 1 - c² and k."""
    functions = planes.text(planes.plan_of(f, f), "average", slope=slope)
    body = """@njit(cache=True, error_model='numpy', nogil=True)
def fill(A, sign, B, sine2, k, apart, slope):
    for i in range(2 * A.size):
        j = i // 2
        weight = float(k[j]) if i % 2 == 0 else 0.0
        value = average_quadrature(float(A[j]), float(sign[j]), float(B[j]), float(sine2[j]), weight)
        if i % 2 == 0:
            apart[j] = value
        else:
            slope[j] = value
"""
    head = HEADER.format(version="", summary=f"averages over two inputs, f = {f}")
    return head + printing.helpers_for(functions) + printing.decorated(functions, COMPILED) + body
