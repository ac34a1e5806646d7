"""φ and its derivatives as NumPy functions, piece by piece, with what happens at the breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import combinations_with_replacement

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.functions.activations import Activation
from meanfield.functions.derivatives import derivative
from meanfield.functions.piecewise import at
from meanfield.numeric.quadrature.evaluation import numpy_function

NOTHING = 1e-25  # a jump below it is none


@dataclass(frozen=True, eq=False)
class Slopes:
    """φ, φ′, … up to the derivative number `highest`, between its breaks; jumps[i, k]: that of φ^(k) at break i."""

    name: str
    breaks: np.ndarray
    functions: tuple[tuple[Callable[[np.ndarray], np.ndarray], ...], ...]
    jumps: np.ndarray

    @property
    def highest(self) -> int:
        return len(self.functions) - 1

    def __call__(self, order: int, x: np.ndarray) -> np.ndarray:
        """φ^(order) on an array, the deltas at the breaks left out."""
        with np.errstate(all="ignore"):
            if not len(self.breaks):
                return self.functions[order][0](x)
            which = np.searchsorted(self.breaks, x, side="right")
            found = np.empty(np.shape(x))
            for k, function in enumerate(self.functions[order]):
                chosen = which == k
                found[chosen] = function(x[chosen])
            return found

    def upto(self, order: int, x: np.ndarray) -> np.ndarray:
        """φ, …, φ^(order) on an array: the derivative is the first axis."""
        return np.stack([self(d, x) for d in range(order + 1)])

    def products(self, order: int, count: int, x: np.ndarray) -> np.ndarray:
        """The products of `count` of φ, …, φ^(order), each once, in the order of `monomials`."""
        base = self.upto(order, x)
        with np.errstate(all="ignore"):
            return np.stack([reduce(np.multiply, [base[d] for d in one]) for one in monomials(order, count)])


def monomials(order: int, count: int) -> list[tuple[int, ...]]:
    """Which `count` derivatives of number 0 … order are multiplied, each choice once."""
    return list(combinations_with_replacement(range(order + 1), count))


@lru_cache(maxsize=64)
def slopes_of(phi: Activation, highest: int) -> Slopes:
    """The derivatives of an activation without free parameters.

    Raises: MeanFieldError where a derivative is not finite at a break.
    """
    x, pieces = Z[0], phi.pieces
    layers = [list(pieces.exprs)]
    for _ in range(highest):
        layers.append([derivative(e, x) if e.has(x) else sp.S.Zero for e in layers[-1]])
    jumps = np.zeros((len(pieces.breaks), highest + 1))
    for i, b in enumerate(pieces.breaks):
        for k, row in enumerate(layers):
            step = sp.N(at(row[i + 1], x, b) - at(row[i], x, b), 30)
            if not step.is_finite:
                raise MeanFieldError(
                    f"The derivative number {k} of {phi.name} is infinite at z = {b}, so averages over several inputs "
                    "are not evaluated for it."
                )
            jumps[i, k] = float(step) if abs(step) > NOTHING else 0.0
    made = tuple(tuple(map(numpy_function, row)) for row in layers)
    return Slopes(str(phi), np.array([float(b) for b in pieces.breaks]), made, jumps)
