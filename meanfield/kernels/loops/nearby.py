r"""Tables of two inputs near full correlation, for functions with kinks, whose Hermite series end nowhere there.

Of two inputs of standard deviations s and t at distance Δ = ⟨(z_a - z_b)²⟩ let r = √Δ/s and v = tan(tilt/2), so that
t = s(1 - r sin tilt) and 1 - c = cos²(tilt) r²s/2t. At fixed s the ratio 2(√(⟨f²⟩_a⟨f²⟩_b) - ⟨f_a f_b⟩)/Δ, the slope
⟨f′f′⟩ and the rise (⟨f²⟩_a - ⟨f²⟩_b)/(s - t) are analytic in r, from r = 0 on, and smooth in v, kinks included: in
polar coordinates nothing is left of the corner that a kink is at full correlation. So they are polynomials over boxes
of (log s², r, v), which are made where a pair asks for them, by the panels of `planes`, and kept on disk.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from threading import RLock

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.budgets import tick
from meanfield.base.progress import doing
from meanfield.base.symbols import Z
from meanfield.functions.piecewise import pieces
from meanfield.kernels.loops.hermite_cells import CELLS, SMALLEST, Kept, nodes, to_coefficients, variances
from meanfield.kernels.loops.near_sums import MISSED, NOT_MADE, NOT_SERVED, SLOTS, WEDGES, WIDEST, WIDTH
from meanfield.numeric.lowering.averages import planes
from meanfield.numeric.lowering.averages.equal_norm_distance import rate_of, scale_free
from meanfield.numeric.lowering.modules import cache
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.lowering.text.helpers import COMPILED, HEADER
from meanfield.numeric.quadrature import branches
from meanfield.numeric.quadrature.gaussian_averages import gaussian_average, squared
from meanfield.numeric.quadrature.rules import gauss_legendre

VARIANCES, RADII, TURNS = 9, 13, 14  # nodes in log s², r and v
CHECKED = ((0.37, 0.61, -0.43), (-0.83, -0.22, 0.91), (0.05, -0.93, 0.12))  # places in a box where that is measured
FARTHEST = 300  # cells of log V on either side of 1 that are served
MAKING = RLock()  # one thread makes boxes


class Nearby(Kept[tuple[int, int], "np.ndarray | None"]):
    """The boxes of one function that were met so far, by (cell of log V, slot); a box that misses too much is None."""

    def __init__(self, f: sp.Expr, slope: sp.Expr) -> None:
        self.f, self.slope = f, slope
        text = f"{sp.srepr(f)}|{sp.srepr(slope)}"
        super().__init__(cache.key(f"nearby|{VARIANCES}|{RADII}|{TURNS}|{text}") + "_boxes")
        self.squares: dict[int, np.ndarray] = {}
        self.scale_free = scale_free(f)  # then all cells are one
        self.variances = 1 if self.scale_free else VARIANCES
        self._rate = math.sqrt(rate_of(f))
        self.recall()

    def tables(self, V: np.ndarray) -> tuple[np.ndarray, ...]:
        """What the compiled loop reads at variances V[layer, input]: the row of each cell, the place in it, √⟨f²⟩,
        the first radius of each row, which box each slot has, and the boxes."""
        place, index = CELLS * np.log2(np.maximum(V, SMALLEST)), self._index(V)
        met = sorted(set(index.ravel().tolist()))
        row = np.searchsorted(met, index)
        u = np.clip(2.0 * (place - index) - 1.0, -1.0, 1.0)
        squares = np.array([self._squares(i) for i in met])
        q = squares[row, 0] + squares[row, 1] * u
        before, now = np.ones_like(u), u
        for n in range(2, VARIANCES):  # by products alone: NumPy's cosine is not the same on every processor
            before, now = now, 2 * u * now - before
            q += squares[row, n] * now
        where = np.full((len(met), SLOTS), NOT_SERVED, dtype=np.int64)
        boxes = [np.zeros((self.variances, RADII, 3 * WIDTH))]
        if self.scale_free:
            where, met, row = where[:1], [0], np.zeros_like(row)
        for own, i in zip(where, met):
            if abs(i) > FARTHEST:
                continue
            own[:] = NOT_MADE
            for slot in range(SLOTS):
                if (i, slot) not in self.found:
                    continue
                box = self.found[i, slot]
                own[slot] = NOT_SERVED if box is None else len(boxes)
                boxes += [] if box is None else [box]
        first = np.array([self._first(i) for i in met])
        room = np.zeros((SLOTS, RADII, 3 * WIDTH)), np.zeros(SLOTS, dtype=np.int64), np.zeros(3 * WIDTH)
        return row, u, np.sqrt(np.maximum(q, 0.0)), first, where, np.stack(boxes), *room

    def asked(self, V: np.ndarray, number: int) -> None:
        """Make the box that a pair asked for by the number of a row of cells and a slot."""
        row, slot = divmod(number, SLOTS)
        self.make(0 if self.scale_free else sorted(set(self._index(V).ravel().tolist()))[row], slot)

    @staticmethod
    def _index(V: np.ndarray) -> np.ndarray:
        return np.floor(CELLS * np.log2(np.maximum(V, SMALLEST))).astype(np.int64)

    def make(self, index: int, slot: int) -> None:
        """Make one box."""
        with MAKING:
            if (index, slot) not in self.found:
                tick()
                with doing("tables near full correlation"):
                    self.found[index, slot] = self._box(index, slot)

    def _first(self, index: int) -> float:
        """The r up to which a function is as smooth as its own scale lets it be, of the first ring of a cell."""
        sd = 2.0 ** ((index + 1) / CELLS / 2)
        return WIDEST / 2.0 ** max(0, math.ceil(math.log2(max(1.0, sd * self._rate)) - 1e-9))

    def _squares(self, index: int) -> np.ndarray:
        """Chebyshev coefficients of ⟨f²⟩ over one cell."""
        if index not in self.squares:
            V = np.maximum(variances(index, nodes(VARIANCES)), SMALLEST)
            self.squares[index] = _along(gaussian_average(squared(self.f), V), to_coefficients(VARIANCES), 0)
        return self.squares[index]

    def _box(self, index: int, slot: int) -> np.ndarray | None:
        x = np.meshgrid(nodes(self.variances), nodes(RADII), nodes(TURNS), indexing="ij")
        if slot % len(WEDGES) == 0:
            x = tuple(a[:, :, :1] for a in x)
        try:
            *values, whole = self._values(index, slot, *x)
            *checks, _ = self._values(index, slot, *np.array(CHECKED).T)
        except MeanFieldError:
            return None
        if not (np.isfinite(values).all() and np.isfinite(checks).all()):
            return None
        turns = x[0].shape[2]
        found = np.array(values)
        for axis, n in enumerate((self.variances, RADII, turns), 1):
            found = _along(found, to_coefficients(n), axis)
        least, steep = whole.min(), np.abs(values[1]).min()
        for i, at in enumerate(CHECKED):
            a, b, c = (np.cos(np.arange(n) * math.acos(t)) for n, t in zip(found.shape[1:], at))
            read = (found * a[:, None, None] * b[:, None] * c[:turns]).sum(axis=(1, 2, 3))
            ratio, slope, rise = (abs(own - known[i]) for own, known in zip(read, checks))
            if not (ratio + 2 * math.sqrt(least) * rise <= MISSED * least and slope <= MISSED * steep):
                return None
        box = np.zeros((self.variances, RADII, 3 * WIDTH))
        for q in range(3):
            box[:, :, q * WIDTH : q * WIDTH + turns] = found[q]
        return box

    def _values(self, index: int, slot: int, u, x, y) -> np.ndarray:
        """Ratio, slope and rise at places of a box, in units of ⟨f²⟩ and s, and what they make of Δ′/Δ."""
        ring, wedge = divmod(slot, len(WEDGES))
        first = self._first(index)
        low, high = (0.0, first) if ring == 0 else (first * 2.0 ** (ring - 1), first * 2.0**ring)
        A = variances(index, np.ravel(u))
        r = low + (high - low) * (np.ravel(x) + 1) / 2
        lo, hi = WEDGES[wedge]
        v = lo + (hi - lo) * (np.ravel(y) + 1) / 2
        sine, cosine = 2 * v / (1 + v * v), (1 - v) * (1 + v) / (1 + v * v)
        s = np.sqrt(A)
        t = s * (1 - r * sine)
        gap = 0.5 * (cosine * r) ** 2 * s / t
        B = t * t
        rise = self._rise(A, s, t)
        qa, qb = gaussian_average(squared(self.f), A), gaussian_average(squared(self.f), B)
        apart, slope = np.empty(A.size), np.empty(A.size)
        if not ((qa > 0) & (qb > 0)).all():
            return np.full((4, *np.shape(u)), np.nan)
        self._fill(A, B, gap * (2 - gap), np.sqrt(np.sqrt(qb / qa)), apart, slope)
        ratio, slope, rise = apart / (r * r * qa), slope * A / qa, rise * s / qa
        whole = ratio + (rise * sine / (1 + np.sqrt(qb / qa))) ** 2
        return np.array([ratio, slope, rise, whole]).reshape(4, *np.shape(u))

    def _rise(self, A, s, t) -> np.ndarray:
        """(⟨f²⟩_a - ⟨f²⟩_b)/(s - t): the mean of d⟨f²⟩/ds = 2⟨f f′ z⟩/s between the two."""
        p = pieces(self.f, Z[0])
        body = p.map(lambda e: e * e.diff(Z[0]) * Z[0]).expr
        nodes, weights = gauss_legendre(8)
        total = np.zeros(A.size)
        for x, w in zip(nodes, weights):
            at = t + (s - t) * (1 + x) / 2
            total += w * gaussian_average(body, at * at) / at
        return total

    @property
    def _fill(self):
        name = self.name.removesuffix("_boxes")
        if cache.read(name) is None:
            cache.write(name, _source(self.f, self.slope), {})
        return cache.load(name).fill

    def unpacked(self, arrays: dict[str, np.ndarray]) -> Iterator[tuple[tuple[int, int], np.ndarray | None]]:
        for (index, slot), at in zip(arrays["index"].tolist(), arrays["at"].tolist()):
            yield (index, slot), arrays["boxes"][at] if at >= 0 else None

    def packed(self, boxes: list[np.ndarray | None]) -> dict[str, np.ndarray]:
        there = [box for box in boxes if box is not None]
        at = np.cumsum([box is not None for box in boxes]) - 1
        whole = np.stack(there) if there else np.zeros((0, self.variances, RADII, 3 * WIDTH))
        return {"at": np.where([box is None for box in boxes], -1, at), "boxes": whole}


def _along(values: np.ndarray, matrix: np.ndarray, axis: int) -> np.ndarray:
    """matrix @ values along one axis, element by element: a BLAS has not the same bits on every processor."""
    moved = np.moveaxis(values, axis, -1)
    total = moved[..., :1] * matrix[:, 0]
    for k in range(1, matrix.shape[1]):
        total = total + moved[..., k : k + 1] * matrix[:, k]
    return np.moveaxis(total, -1, axis)


def _source(f: sp.Expr, slope: sp.Expr) -> str:
    """Source of `fill`: ⟨(k f_a - f_b/k)²⟩ and ⟨f′f′⟩ at arrays of variances, 1 - c² and k."""
    functions = planes.text(planes.plan_of(f, f), "average", slope=slope)
    body = """@njit(cache=True, error_model='numpy', nogil=True)
def fill(A, B, sine2, k, apart, slope):
    for i in range(2 * A.size):
        j = i // 2
        value = average_quadrature(A[j], math.sqrt(A[j] * B[j]), B[j], sine2[j], k[j] if i % 2 == 0 else 0.0)
        if i % 2 == 0:
            apart[j] = value
        else:
            slope[j] = value
"""
    head = HEADER.format(version="", summary=f"two inputs near full correlation, f = {f}")
    return head + printing.helpers_for(functions) + printing.decorated(functions, COMPILED) + body


@lru_cache(maxsize=64)
def nearby(f: sp.Expr, slope: sp.Expr | None) -> Nearby | None:
    """The boxes of a function with kinks; None where its series serve, or where it jumps, branches or oscillates."""
    p = pieces(f, Z[0])
    if slope is None or not p.breaks or p.jumps() or f.has(sp.sin, sp.cos):
        return None
    return None if branches.branches(f) or branches.branches(slope) else Nearby(f, slope)
