"""A compiled loop over pairs, as it is stored: what it takes, how well it was measured. Nothing here needs SymPy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.numeric.lowering.modules.generated_modules import Module

LADDER = (4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # numbers of terms that a pair may take
RUNGS = np.array(LADDER)
TILE = 32  # pairs of one row that share a number of terms; the length of a row of a workspace
LONG_TILE = 128  # the same where no series is summed, so that nothing is shared
WANTED = 2e-15  # of √(⟨f²⟩⟨g²⟩): what the terms left out of a series may add
LEAST = 1e-4  # 1 - c from which on a covariance says how far two inputs are apart


@dataclass(frozen=True, eq=False)
class Series:
    """Coefficients a[layer, j, input] of k = first + step·j, and the roots of the tails of ⟨f²⟩ and ⟨f′²⟩ relative to
    the whole, tails[layer, 0 or 1, rung, input], where N is a rung of the `LADDER`."""

    a: np.ndarray
    tails: np.ndarray
    first: int
    step: int

    def full(self) -> Series:
        """The same series with every k."""
        layers, orders, inputs = self.a.shape
        a = np.zeros((layers, self.first + self.step * orders, inputs))
        a[:, self.first :: self.step] = self.a
        return Series(a, self.tails, 0, 1)


@dataclass(frozen=True, eq=False)
class PairLoop:
    """The compiled loop of one recursion of two inputs.

    module, entry: where it is stored; state: what is carried of a pair; parameters: the numbers that come with each
    layer; beside: how many numbers inputs bring beside K; groups: the two expansions whose series it reads, in their
    order; variances: of each expansion, the number of its variance among what inputs bring (0 is K, 1 the K of the
    layer that is made); boxes: between which variances its closed forms hold, by the same numbers; error: what an
    average misses; least: from which 1 - c on K_ab says all that it needs, -1 (always) where averages ⟨f g⟩ are of
    functions without jumps, which K_ab's rounding moves by as much as itself; workspace: numbers that a call has for
    its own use.
    """

    module: Module
    entry: str
    state: tuple[str, ...]
    parameters: tuple[str, ...]
    auxiliary: int
    groups: tuple[tuple[int, int], ...]
    variances: tuple[int, ...]
    boxes: tuple[tuple[int, float, float], ...]
    error: float
    least: float
    workspace: int

    def run(self, *arguments, work: float = math.inf) -> None:
        """Run the function; each call has a workspace of its own.

        work: how much of it there is, in units of `generated_modules.UNIT`; so little is interpreted, and what the
        interpreter began before it met what only compiled code answers is forgotten.
        """
        if self.module.is_little(self.module.seconds(work)):
            own = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
            if self.module.interpreted(self.entry, (*own, np.zeros(self.workspace))):
                for given, found in zip(arguments, own):
                    if isinstance(given, np.ndarray) and given.flags.writeable:
                        given[...] = found
                return
        getattr(self.module.compiled, self.entry)(*arguments, np.zeros(self.workspace))

    def variance(self, number: int, brought: np.ndarray) -> np.ndarray:
        """A variance of all inputs, (layers, inputs); brought: what inputs bring, (numbers, layers, inputs)."""
        return brought[0, :-1] if number == 0 else brought[number - 1, 1:]

    def cells(self, expansion: int) -> Any:
        """What expands a function at many variances (`hermite_cells.HermiteCells`)."""
        raise NotImplementedError

    def series(self, brought: np.ndarray) -> dict[int, Series]:
        """The series that the loop reads, by expansion."""
        met = dict.fromkeys(e for pair in self.groups for e in pair)
        return {e: self.cells(e).expand(self.variance(self.variances[e], brought)) for e in met}

    def outside(self, brought: np.ndarray) -> np.ndarray:
        """Which inputs have a variance at which a closed form loses its digits."""
        bad = np.zeros(brought.shape[2], dtype=bool)
        for number, low, high in self.boxes:
            V = self.variance(number, brought)
            bad |= ((low > V) | (high < V)).any(axis=0)
        return bad

    def tables(self, left: dict[int, Series], right: dict[int, Series]) -> list[Any]:
        """The series of rows and columns as the loop over blocks takes them."""
        out: list[Any] = []
        for one, other in self.groups:
            a, b = left[one], right[other]
            if (a.first, a.step) != (b.first, b.step):
                a, b = a.full(), b.full()
            out += [a.a, b.a, a.tails, b.tails, (a.first, a.step)]
        return out
