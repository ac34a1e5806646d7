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
from meanfield.kernels.loops.near_sums import WIDEST
from meanfield.numeric.lowering.distances import difference_quotients
from meanfield.numeric.lowering.distances.equal_norm_distance import rate_of, scale_free
from meanfield.numeric.lowering.modules import cache
from meanfield.numeric.lowering.modules.generated_modules import Module
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.lowering.text.helpers import COMPILED, HEADER
from meanfield.numeric.quadrature.gaussian_averages import gaussian_average, resolved, rule_for, squared
from meanfield.numeric.quadrature.rules import gauss_legendre

TAKEN_OF = 5  # numbers of one pair
ALIKE = 0.1  # of ⟨f²⟩_a + ⟨f²⟩_b: a larger difference of the two has its digits
FARTHEST = 2.0**37.5  # of s or 1/s: variances beyond are no scale that panels were tried at
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
        self._width = min(resolved(f)[0], resolved(slope)[0])

    def smooth_up_to(self, sd: float) -> float:
        """The r = √Δ/s up to which averages at s = sd are as smooth in r as the function's own scale lets them be."""
        return WIDEST / 2.0 ** max(0, math.ceil(math.log2(max(1.0, sd * self._rate)) - 1e-9))

    def squares(self, V: np.ndarray) -> np.ndarray:
        """⟨f²⟩ at variances V, by panels that resolve f."""
        return gaussian_average(self.square, V, rule_for(self.square, self._width))

    def of_pairs(self, s: np.ndarray, t: np.ndarray, between: np.ndarray, gap: np.ndarray) -> np.ndarray:
        """2(√(⟨f²⟩_a⟨f²⟩_b) - ⟨f_a f_b⟩), ⟨f′f′⟩, the quotient of ⟨f²⟩ by s and both √⟨f²⟩ for each pair, (pairs, 5),
        with s - t = between; nan where variances are beyond `FARTHEST` or ⟨f²⟩ is 0 in doubles, and for a
        quotient that a difference of averages gives."""
        found = np.full((s.size, TAKEN_OF), np.nan)
        whole, other = self.squares(s * s), self.squares(t * t)
        unit = s if self.scale_free else np.ones_like(s)  # a power on either side of 0 is computed at s = 1
        there = np.flatnonzero((whole > 0) & (other > 0) & (s >= unit / FARTHEST) & (s <= unit * FARTHEST))
        if not there.size:
            return found
        unit, whole, other = unit[there], whole[there], other[there]
        s, t, between, gap = s[there] / unit, t[there] / unit, between[there] / unit, gap[there]
        qa = self.squares(s * s)
        size = whole / qa
        quotient = np.full(s.size, np.nan)
        qb = other / size
        alike = np.abs(qa - qb) < ALIKE * (qa + qb)
        quotient[alike] = self.quotient(s[alike], t[alike])
        ratio, slope = self.direction_ratio(s, t, between, gap, qa, qb, quotient)
        found[there, 0] = ratio * (between * between + 2.0 * s * t * gap) * size
        found[there, 1], found[there, 2] = slope * size / unit**2, quotient * size / unit
        found[there, 3], found[there, 4] = np.sqrt(whole), np.sqrt(other)
        return found

    def direction_ratio(self, s, t, between, gap, qa, qb, quotient) -> tuple[np.ndarray, np.ndarray]:
        """2(√(⟨f²⟩_a⟨f²⟩_b) - ⟨f_a f_b⟩) over Δ, which is ⟨(k f_a - f_b/k)²⟩/Δ with k⁴ = ⟨f²⟩_b/⟨f²⟩_a; and
        ⟨f′_a f′_b⟩. qa, qb: ⟨f²⟩; quotient: (qa - qb)/(s - t), nan where the difference has digits."""
        one, other = np.sqrt(qa), np.sqrt(qb)
        less = np.where(np.isnan(quotient), one - other, quotient * between / (one + other)) / np.sqrt(one * other)
        ratio, slope = np.empty(s.size), np.empty(s.size)
        self._module.call("fill", 2 * s.size, s, t, between, gap, np.sqrt(other / one), less, ratio, slope)
        return ratio, slope

    def quotient(self, s: np.ndarray, t: np.ndarray) -> np.ndarray:
        """(⟨f²⟩_a - ⟨f²⟩_b)/(s - t): the mean of d⟨f²⟩/ds = 2⟨f f′ z⟩/s between the two."""
        body = pieces(self.f, Z[0]).map(lambda e: e * e.diff(Z[0]) * Z[0]).expr
        total = np.zeros(s.size)
        for x, w in zip(*gauss_legendre(8)):
            at = t + (s - t) * (1 + x) / 2
            total += w * gaussian_average(body, at * at, rule_for(body, self._width)) / at
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
    if slope is None or f.has(sp.sin, sp.cos) or not difference_quotients.applies(f, slope):
        return None
    return PairAverages(f, slope)


def _source(f: sp.Expr, slope: sp.Expr) -> str:
    """Source of `fill`: the direction part of a pair over its distance, and ⟨f′f′⟩, at arrays over pairs."""
    functions = difference_quotients.text(difference_quotients.plan_of(f, slope), "average")
    body = """@njit(cache=True, error_model='numpy', nogil=True)
def fill(s, t, between, gap, share, less, ratio, slope):
    for i in range(s.size):
        turns = 2.0 * s[i] * t[i] * gap[i]
        apart = between[i] * between[i] + turns
        root = math.sqrt(apart)
        sine, rest = 0.0, 0.0
        if apart > 0.0:
            sine, rest = between[i] / root, less[i] / root
        ratio[i] = average_moved(s[i] * s[i], t[i] * t[i], apart, sine, gap[i], share[i], rest)
        slope[i] = average_slope(s[i] * s[i], s[i] * t[i] * (1.0 - gap[i]), t[i] * t[i], gap[i] * (2.0 - gap[i]))
"""
    head = HEADER.format(version="", summary=f"averages over two inputs, f = {f}")
    return head + printing.helpers_for(functions + body) + printing.decorated(functions, COMPILED) + body
