"""A theory with numbers, as blocks of pairs need it: what decides a kernel beside its inputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from meanfield.errors import MeanFieldError
from meanfield.kernels.loops import LEAST, Loop, Series

QUANTITIES = ("K", "Theta", "distance")
JUMPS = 1 / np.sqrt(2 * LEAST)  # slope of an arcsine where a covariance still tells inputs apart
SMALLEST = 1e-290  # of a K whose digits are all there
DEPTH = "L"  # the parameter that stands for the number of blocks


@dataclass(frozen=True, eq=False)
class Side:
    """Inputs of one side of a block: rows, K¹, K and Theta at the last layer; what they bring to the loop over blocks,
    their series, and which of them are outside of its closed forms."""

    X: np.ndarray
    K: np.ndarray
    last: dict[str, np.ndarray]
    brought: np.ndarray | None = None
    series: dict[int, Series] | None = None
    outside: Any = None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.X.nbytes + sum(one.a.nbytes + one.tails.nbytes for one in (self.series or {}).values())


@dataclass(frozen=True, eq=False)
class Numbers(ABC):
    """values: numbers by the name of a parameter, tuples of one entry per layer where they change with it; depth: the
    last layer; theta: whether Theta is followed."""

    values: tuple[tuple[str, Any], ...]
    depth: int
    theta: bool

    @property
    def names(self) -> tuple[str, ...]:
        return ("K_ab", "Theta_ab") if self.theta else ("K_ab",)

    @cached_property
    def given(self) -> dict[str, np.ndarray]:
        """Values of parameters at the layers 1 … depth."""
        out = {n: np.broadcast_to(np.asarray(v, dtype=float), (self.depth,)) for n, v in self.values}
        return out | {DEPTH: np.full(self.depth, float(max(self.depth - 1, 1)))}

    @cached_property
    def constant(self) -> bool:
        """Whether every layer has the same numbers."""
        return all((v == v[0]).all() for v in self.given.values())

    def sigma(self, names: tuple[str, ...]) -> np.ndarray:
        """Rows of parameters at the layers 2 … depth."""
        missing = [n for n in names if n not in self.given]
        if missing:
            raise MeanFieldError(f"{missing[0]} has no value; give it as a keyword ({missing[0]}=...).")
        rest = [self.given[n][1:] if self.depth > 1 else self.given[n] for n in names]
        return np.ascontiguousarray(rest).reshape(len(names), max(1, self.depth - 1))

    def rows(self, names: tuple[str, ...], inputs: int) -> np.ndarray:
        """The same for each of some inputs, (parameters, inputs, layers), as loops over single inputs take them."""
        layers = max(1, self.depth - 1)
        if not names:
            return np.zeros((1, inputs, layers))
        return np.broadcast_to(self.sigma(names)[:, None, :], (len(names), inputs, layers))

    @property
    @abstractmethod
    def described(self) -> str:
        """The theory as text, by which a journal knows it."""

    @property
    @abstractmethod
    def begin(self) -> tuple[float, float]:
        """(scale, shift) with K¹_ab = scale·x_a·x_b/N_0 + shift."""

    @property
    @abstractmethod
    def block(self) -> Loop | None:
        """The loop over blocks of pairs, where there is one."""

    @property
    @abstractmethod
    def keeps_distances(self) -> bool:
        """Whether close rows are followed by their distance; else it is a difference of covariances, and nothing bounds
        its relative error."""

    @property
    @abstractmethod
    def mirrors(self) -> bool:
        """Whether opposite inputs are followed as close ones."""

    @property
    @abstractmethod
    def error(self) -> float:
        """What one average misses in one layer, of the root mean squares of its factors."""

    @abstractmethod
    def growth(self, X: np.ndarray) -> float:
        """The largest Θ/K at the last layer, by which errors of single layers add up; a guess where Θ is infinite."""

    @abstractmethod
    def alone(self, K: np.ndarray) -> dict[str, np.ndarray]:
        """K (and Theta) of inputs by themselves at the last layer, from K at the first."""

    @abstractmethod
    def brought(self, loop: Any, K: np.ndarray) -> np.ndarray:
        """What inputs bring to every layer of a loop, (numbers, layers, inputs); K: at layer 1."""

    @abstractmethod
    def one_by_one(self, left: Side, right: Side, where, line: tuple[float, float], found: dict) -> tuple[float, float]:
        """Pairs that the blocks leave out, into the arrays of `found`; inf if some of them are followed by their
        covariance, else what distances miss (and what K) where functions that jump see shares of directions. where:
        their rows and columns; line: (scale/N_0, shift)."""

    @abstractmethod
    def refuse_zero(self, K: np.ndarray) -> None:
        """A sentence where an input is 0 and φ jumps there. K: (layers, inputs) from layer 1 on."""


def sample(numbers: Numbers, X: np.ndarray) -> np.ndarray:
    """K at layer 1 of a few inputs, which tell how errors add up."""
    scale, shift = numbers.begin
    K = np.sort(np.square(X).sum(axis=1) * (scale / X.shape[1]) + shift)
    K = K[np.append(True, K[1:] != K[:-1])]
    return K[:: max(1, K.size // 16)]


def refuse_underflow(X: np.ndarray, K: np.ndarray, first: int, scale: float) -> None:
    """A sentence where an input that is not 0 has a K without digits. K: (layers, inputs) from layer `first` on; scale:
    of the squared norms in K at layer 1."""
    lost = (K > 0) & (K < SMALLEST)
    lost[0] |= (K[0] == 0) & (X != 0).any(axis=1) & (scale > 0)
    if lost.any():
        layer, row = np.argwhere(lost)[0]
        raise MeanFieldError(
            f"The kernel was asked for, but K of input {row} is below {SMALLEST:g} at layer {first + layer}, where "
            "doubles lose their digits; leave that input out or scale the inputs up, take a smaller depth, a larger "
            "sigma_w, or sigma_b > 0."
        )


def refuse_divergence(diverged: np.ndarray, K: np.ndarray | None) -> None:
    """A sentence where an input's K leaves the doubles."""
    bad = np.flatnonzero(diverged)
    if not bad.size:
        return
    layer = int(diverged[bad[0]])
    if K is not None and np.isnan(K[bad[0], layer - 1]):
        raise MeanFieldError(
            f"The kernel was asked for, but input {bad[0]} is 0 at layer {layer - 1}, and a LayerNorm divides by its "
            "norm; leave that input out, or take sigma_b > 0."
        )
    raise MeanFieldError(
        f"The kernel was asked for, but K of input {bad[0]} exceeds 1e300 at layer {layer}; take a smaller depth, "
        "sigma_w or sigma_b, or smaller inputs."
    )
