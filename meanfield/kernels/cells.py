"""Coefficients of Hermite series read off cells of log V, which are kept on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numba import njit

from meanfield.kernels.loops import LADDER, Series
from meanfield.numeric.lowering import cache

CELLS, DEGREE = 4, 14  # cells in an octave of V, and the degree of a coefficient in log V there
SMALLEST = 1e-290  # of a variance


@dataclass(frozen=True, eq=False)
class Cell:
    """The coefficients over one cell of log V, as Chebyshev polynomials (degree + 1, order), and the roots of the
    tails, the largest in the cell."""

    order: int
    coefficients: np.ndarray
    tails: np.ndarray


class Cells:
    """The cells of one function that were met so far, by their index: [index, index + 1] of CELLS·log2 V.

    name: of the file that keeps them; first, step: of the k whose coefficients are not 0; at_zero: f(0).
    """

    def __init__(self, name: str, first: int, step: int, at_zero: float) -> None:
        self.name, self.first, self.step, self.at_zero = name, first, step, at_zero
        self.found: dict[int, Cell] = {}
        self._kept = 0  # how many of them are on disk

    def cell(self, index: int) -> Cell:
        """One cell."""
        if index not in self.found:
            self.found[index] = self.made(index)
        return self.found[index]

    def made(self, index: int) -> Cell:
        """A cell that was not met before."""
        raise NotImplementedError

    def nothing(self) -> Cell:
        """The cell of a variance that is 0: f(0)."""
        coefficients = np.zeros((DEGREE + 1, LADDER[0]))
        coefficients[0, 0] = self.at_zero
        return Cell(LADDER[0], coefficients, np.zeros((2, len(LADDER))))

    def expand(self, V: np.ndarray) -> Series:
        """The series at variances V[layer, input]."""
        first, step = self.first, self.step
        flat = np.ascontiguousarray(V.ravel())
        with np.errstate(divide="ignore"):
            place = CELLS * np.log2(flat)
        cells = np.where(flat > SMALLEST, np.floor(place), -np.inf)
        met = np.array(sorted(set(cells.tolist())))  # np.unique loads masked arrays, which takes longer than all this
        where = np.searchsorted(met, cells)
        found = [self.cell(int(one)) if one > -np.inf else self.nothing() for one in met]
        order = max(cell.order for cell in found)
        polynomials = np.zeros((met.size, DEGREE + 1, len(range(first, order, step))))
        for own, cell in zip(polynomials, found):
            part = cell.coefficients[:, first::step]
            own[:, : part.shape[1]] = part
        with np.errstate(invalid="ignore"):
            u = np.where(flat > SMALLEST, np.clip(2 * (place - cells) - 1, -1.0, 1.0), 0.0)
        # rows that are a multiple of 4096 bytes apart share the same few lines of a cache
        a = np.zeros((V.shape[0], polynomials.shape[2], V.shape[1] + (0 if V.shape[1] % 64 else 8)))
        tails = np.empty((V.shape[0], 2, len(LADDER), V.shape[1]))
        own, of_cells = np.empty(a.shape[1]), np.stack([c.tails for c in found])
        _read(u.reshape(V.shape), where.reshape(V.shape), polynomials, of_cells, own, a, tails)
        return Series(a, tails, first, step)

    @property
    def file(self) -> Path:
        return cache.folder() / f"{self.name}.npz"

    def recall(self) -> None:
        """Take up the cells that are kept."""
        kept = cache.arrays(self.file)
        if kept is None:
            return
        at = 0
        for index, order, tails in zip(kept["index"].tolist(), kept["order"].tolist(), kept["tails"]):
            size = (DEGREE + 1) * order
            coefficients = kept["coefficients"][at : at + size].reshape(DEGREE + 1, order)
            self.found.setdefault(index, Cell(order, coefficients, tails))
            at += size
        self._kept = len(kept["index"])

    def keep(self) -> None:
        """Write the cells, and those that another process has kept, where there are new ones."""
        if len(self.found) == self._kept:
            return
        self.recall()
        own = {k: self.found[k] for k in sorted(self.found)}
        arrays = {
            "index": np.array(list(own)),
            "order": np.array([c.order for c in own.values()]),
            "tails": np.stack([c.tails for c in own.values()]),
            "coefficients": np.concatenate([c.coefficients.ravel() for c in own.values()]),
        }
        cache.replace(self.file, lambda f: np.savez(f, **arrays))  # type: ignore[arg-type]
        self._kept = len(own)


@njit(cache=True, nogil=True)
def _read(u, where, polynomials, of_cells, own, a, tails):
    """Chebyshev polynomials of cells at u[layer, input] → a[layer, j, input], and what the cells say of tails; own:
    room for one polynomial each."""
    for layer in range(u.shape[0]):
        for i in range(u.shape[1]):
            rows, x = polynomials[where[layer, i]], u[layer, i]
            below, here = x, 1.0  # T_{k-1} and T_k
            for j in range(own.size):
                own[j] = 0.0
            for k in range(rows.shape[0]):
                row = rows[k]
                for j in range(own.size):
                    own[j] += here * row[j]
                below, here = here, 2.0 * x * here - below
            for j in range(own.size):
                a[layer, j, i] = own[j]
            for kind in range(2):
                for rung in range(tails.shape[2]):
                    tails[layer, kind, rung, i] = of_cells[where[layer, i], kind, rung]
