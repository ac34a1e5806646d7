r"""Tables of two inputs near full correlation, for functions with kinks, whose Hermite series end nowhere there.

Of two inputs of standard deviations s and t at distance Δ = ⟨(z_a - z_b)²⟩ let r = √Δ/s and v = tan(τ/2), τ the norm
angle, so that t = s(1 - r sin τ) and 1 - c = cos²(τ) r²s/2t. At fixed s the ratio 2(√(⟨f²⟩_a⟨f²⟩_b) - ⟨f_a f_b⟩)/Δ, the
slope ⟨f′f′⟩ and the quotient (⟨f²⟩_a - ⟨f²⟩_b)/(s - t) are analytic in r, from r = 0 on, and smooth in v, kinks
included: in polar coordinates nothing is left of the corner that a kink is at full correlation. So they are polynomials
over boxes of (log s², r, v), which are made where a pair asks for them, by the panels of `planes`, and kept on disk.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
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
from meanfield.kernels.loops.near_sums import MISSED, NOT_MADE, NOT_SERVED, SLOTS, WEDGES, WIDTH
from meanfield.kernels.loops.pair_averages import PairAverages, pair_averages
from meanfield.numeric.lowering.modules import cache

VARIANCES, RADII, TURNS = 9, 13, 14  # nodes in log s², r and v
CHECKED = ((0.37, 0.61, -0.43), (-0.83, -0.22, 0.91), (0.05, -0.93, 0.12))  # places in a box where that is measured
FARTHEST = 300  # cells of log V on either side of 1 that are served
MAKING = RLock()  # one thread makes boxes


class Nearby(Kept[tuple[int, int], "np.ndarray | None"]):
    """The boxes of one function that were met so far, by (cell of log V, slot); a box that misses too much is None."""

    def __init__(self, f: sp.Expr, averages: PairAverages) -> None:
        self.f, self.averages = f, averages
        text = f"{sp.srepr(f)}|{sp.srepr(averages.slope)}"
        super().__init__(cache.key(f"nearby|{VARIANCES}|{RADII}|{TURNS}|{text}") + "_boxes")
        self.squares: dict[int, np.ndarray] = {}
        self.scale_free = self.averages.scale_free  # then all cells are one
        self.variances = 1 if self.scale_free else VARIANCES
        self.recall()

    def tables(self, V: np.ndarray, made: Collection[tuple[int, int]]) -> tuple[np.ndarray, ...]:
        """What the compiled loop reads at variances V[layer, input]: the row of each cell, the place in it, √⟨f²⟩,
        the first radius of each row, which box each slot has, and the boxes. made: the boxes that are read."""
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
                if (i, slot) not in made:
                    continue
                box = self.found[i, slot]
                own[slot] = NOT_SERVED if box is None else len(boxes)
                boxes += [] if box is None else [box]
        first = np.array([self._first(i) for i in met])
        room = np.zeros((SLOTS, RADII, 3 * WIDTH)), np.zeros(SLOTS, dtype=np.int64), np.zeros(3 * WIDTH)
        return row, u, np.sqrt(np.maximum(q, 0.0)), first, where, np.stack(boxes), *room

    def box(self, V: np.ndarray, number: int) -> tuple[int, int]:
        """The box that a pair asks for by the number of a row of cells and a slot."""
        row, slot = divmod(number, SLOTS)
        return 0 if self.scale_free else sorted(set(self._index(V).ravel().tolist()))[row], slot

    def price(self, box: tuple[int, int]) -> int:
        """The places at which averages are taken to make a box."""
        return self.variances * RADII * (1 if box[1] % len(WEDGES) == 0 else TURNS)

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
        """The r up to which the first ring of a cell goes."""
        return self.averages.smooth_up_to(2.0 ** ((index + 1) / CELLS / 2))

    def _squares(self, index: int) -> np.ndarray:
        """Chebyshev coefficients of ⟨f²⟩ over one cell."""
        if index not in self.squares:
            V = np.maximum(variances(index, nodes(VARIANCES)), SMALLEST)
            self.squares[index] = _along(self.averages.squares(V), to_coefficients(VARIANCES), 0)
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
        angles = x[0].shape[2]
        found = np.array(values)
        for axis, n in enumerate((self.variances, RADII, angles), 1):
            found = _along(found, to_coefficients(n), axis)
        least, steep = whole.min(), np.abs(values[1]).min()
        for i, at in enumerate(CHECKED):
            a, b, c = (np.cos(np.arange(n) * math.acos(t)) for n, t in zip(found.shape[1:], at))
            read = (found * a[:, None, None] * b[:, None] * c[:angles]).sum(axis=(1, 2, 3))
            ratio, slope, quotient = (abs(own - known[i]) for own, known in zip(read, checks))
            if not (ratio + 2 * math.sqrt(least) * quotient <= MISSED * least and slope <= MISSED * steep):
                return None
        box = np.zeros((self.variances, RADII, 3 * WIDTH))
        for q in range(3):
            box[:, :, q * WIDTH : q * WIDTH + angles] = found[q]
        return box

    def _values(self, index: int, slot: int, u, x, y) -> np.ndarray:
        """Ratio, slope and quotient at places of a box, in units of ⟨f²⟩ and s, and what they make of Δ′/Δ."""
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
        quotient = self.averages.quotient(s, t)
        qa, qb = self.averages.squares(A), self.averages.squares(t * t)
        ratio, slope = self.averages.direction_ratio(s, t, s * r * sine, gap, qa, qb, quotient)
        ratio, slope, quotient = ratio * A / qa, slope * A / qa, quotient * s / qa
        whole = ratio + (quotient * sine / (1 + np.sqrt(qb / qa))) ** 2
        return np.array([ratio, slope, quotient, whole]).reshape(4, *np.shape(u))

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


@lru_cache(maxsize=64)
def nearby(f: sp.Expr, slope: sp.Expr | None) -> Nearby | None:
    """The boxes of a function with kinks; None where its series serve, or where it jumps, branches or oscillates."""
    averages = pair_averages(f, slope)
    return Nearby(f, averages) if averages is not None and pieces(f, Z[0]).breaks else None
