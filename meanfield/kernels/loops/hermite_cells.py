"""Coefficients of Hermite series read off cells of log V; how such pieces are kept on disk."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar

import mpmath as mp
import numpy as np
from numba import njit

from meanfield.base.precision import decimals
from meanfield.kernels.loops.pair_loops import LADDER, Series
from meanfield.numeric.lowering.modules import cache

CELLS, DEGREE = 4, 14  # cells in an octave of V, and the degree of a coefficient in log V there
SMALLEST = 1e-290  # of a variance
Key = TypeVar("Key")
Piece = TypeVar("Piece")


@dataclass(frozen=True, eq=False)
class HermiteCell:
    """The coefficients over one cell of log V, as Chebyshev polynomials (degree + 1, order), and the roots of the
    tails, the largest in the cell."""

    order: int
    coefficients: np.ndarray
    tails: np.ndarray


@lru_cache(maxsize=16)
def nodes(n: int) -> np.ndarray:
    """Chebyshev points of [-1, 1]."""
    return np.array([math.cos(math.pi * (k + 0.5) / n) for k in range(n)])


@lru_cache(maxsize=16)
def to_coefficients(n: int) -> np.ndarray:
    """The matrix from values at `nodes` to Chebyshev coefficients."""
    rows = [[(2 if i else 1) / n * math.cos(math.pi * i * (k + 0.5) / n) for k in range(n)] for i in range(n)]
    return np.array(rows)


@lru_cache(maxsize=4096)
def _root_of_two(quarter: int, u: float) -> float:
    with decimals(30):
        return float(mp.mpf(2) ** ((quarter + (mp.mpf(u) + 1) / 2) / CELLS))


def variances(index: int, u: np.ndarray) -> np.ndarray:
    """V at places u of [-1, 1] in a cell, rounded from 30 digits: powers by NumPy are not the same on every CPU."""
    quarter = index % CELLS
    flat = np.array([_root_of_two(quarter, x) for x in np.ravel(u).tolist()])
    return np.ldexp(flat, (index - quarter) // CELLS).reshape(np.shape(u))


class Kept(Generic[Key, Piece]):
    """What is made of one function, piece by piece where it is asked for, and kept on disk for further processes.

    name: of the file; found: the pieces that were met so far, by what asks for them.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.found: dict[Key, Piece] = {}
        self._kept = 0  # how many of them are on disk

    def unpacked(self, arrays: dict[str, np.ndarray]) -> Iterator[tuple[Key, Piece]]:
        """The pieces of a file: "index" and what `packed` gave."""
        raise NotImplementedError

    def packed(self, pieces: list[Piece]) -> dict[str, np.ndarray]:
        """Pieces as arrays."""
        raise NotImplementedError

    @property
    def file(self) -> Path:
        return cache.folder() / f"{self.name}.npz"

    def recall(self) -> None:
        """Take up the pieces that are on disk; those that are there stay."""
        arrays = cache.arrays(self.file)
        if arrays is None:
            return
        for key, piece in self.unpacked(arrays):
            self.found.setdefault(key, piece)
        self._kept = len(arrays["index"])

    def keep(self) -> None:
        """Write the pieces, and those that another process has kept, where there are new ones."""
        if len(self.found) == self._kept:
            return
        self.recall()
        keys = sorted(self.found)  # type: ignore[type-var]
        arrays = {"index": np.array(keys)} | self.packed([self.found[k] for k in keys])
        cache.replace(self.file, lambda f: np.savez(f, **arrays))  # type: ignore[arg-type]
        self._kept = len(keys)


class HermiteCells(Kept[int, HermiteCell]):
    """The cells of one function that were met so far, by their index: [index, index + 1] of CELLS·log2 V.

    name: of the file that keeps them; first, step: of the k whose coefficients are not 0; at_zero: f(0).
    """

    def __init__(self, name: str, first: int, step: int, at_zero: float) -> None:
        super().__init__(name)
        self.first, self.step, self.at_zero = first, step, at_zero

    def cell(self, index: int) -> HermiteCell:
        """One cell."""
        if index not in self.found:
            self.found[index] = self.made(index)
        return self.found[index]

    def made(self, index: int) -> HermiteCell:
        """A cell that was not met before."""
        raise NotImplementedError

    def nothing(self) -> HermiteCell:
        """The cell of a variance that is 0: f(0)."""
        coefficients = np.zeros((DEGREE + 1, LADDER[0]))
        coefficients[0, 0] = self.at_zero
        return HermiteCell(LADDER[0], coefficients, np.zeros((2, len(LADDER))))

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

    def unpacked(self, arrays: dict[str, np.ndarray]) -> Iterator[tuple[int, HermiteCell]]:
        at = 0
        for index, order, tails in zip(arrays["index"].tolist(), arrays["order"].tolist(), arrays["tails"]):
            size = (DEGREE + 1) * order
            yield index, HermiteCell(order, arrays["coefficients"][at : at + size].reshape(DEGREE + 1, order), tails)
            at += size

    def packed(self, cells: list[HermiteCell]) -> dict[str, np.ndarray]:
        return {
            "order": np.array([c.order for c in cells]),
            "tails": np.stack([c.tails for c in cells]),
            "coefficients": np.concatenate([c.coefficients.ravel() for c in cells]),
        }


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
