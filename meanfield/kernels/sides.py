"""The inputs of one side of a block, and the sentences for those whose K leaves the doubles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.base.errors import MeanFieldError
from meanfield.kernels.loops.pair_loops import LEAST, Series

QUANTITIES = ("K", "Theta", "distance")
JUMPS = 1 / np.sqrt(2 * LEAST)  # slope of an arcsine where a covariance still tells inputs apart
SMALLEST = 1e-290  # of a K whose digits are all there


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


def sample(X: np.ndarray, scale: float, shift: float) -> np.ndarray:
    """K¹ = scale·Q0 + shift of a few inputs, which tell how errors add up."""
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
            f"The kernel is not available: K of input {row} is below {SMALLEST:g} at layer {first + layer}, where "
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
            f"The kernel is not available: input {bad[0]} is 0 at layer {layer - 1}, and a LayerNorm divides by its "
            "norm; leave that input out, or take sigma_b > 0."
        )
    raise MeanFieldError(
        f"The kernel is not available: K of input {bad[0]} exceeds 1e300 at layer {layer}; take a smaller depth, "
        "sigma_w or sigma_b, or smaller inputs."
    )
