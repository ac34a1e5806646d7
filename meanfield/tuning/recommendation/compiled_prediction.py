"""K^L and log J^{1,L} of an architecture as a function of everything an initializer chooses, in compiled float64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.networks.folds import has_skip
from meanfield.networks.records import Block, Dense, Network, Param
from meanfield.theory.deriving import derive
from meanfield.theory.queries.given_values import symbols_of
from meanfield.theory.theory import Theory
from meanfield.tuning.dense_layers import BRANCH, own_deviations, with_scales, without_open_scales

INPUT = "input_w"  # the symbol of σ_w of the input layer


@dataclass(frozen=True, eq=False)
class CompiledPrediction:
    """An architecture whose input layer has a σ_w of its own (and no bias) and whose branches share one factor, which
    is the value of a `Scale` that the record leaves open. Without a factor (None) it is 1.

    Symbols of the record are standard deviations, which are then the network's own, or widths, which it does not know.
    input_norm: Q0 of the inputs; batch: of its `BatchNorm`.
    """

    block: Block
    input_norm: float = 1.0
    batch: int | None = None

    @property
    def branches(self) -> bool:
        return has_skip(self.block)

    @cached_property
    def own(self) -> Block:
        """The record whose symbolic standard deviations are the network's own, without Scales that are left open."""
        return own_deviations(without_open_scales(self.block))

    @cached_property
    def theory(self) -> Theory:
        """Of the record with one factor of all branches."""
        return self._of(with_scales(self.own))

    def factor(self, scale: Any) -> dict[str, Any]:
        """The value of the symbol that the factor of the branches is in `theory`."""
        return {BRANCH: 1.0 if scale is None else scale} if self.branches else {}

    def open(self, **deviations: Any) -> dict[str, Any]:
        """Those standard deviations that the record leaves open."""
        known = symbols_of(self.own)
        return {name: value for name, value in deviations.items() if name in known}

    def _of(self, block: Block) -> Theory:
        found = derive(architecture=Network(block, Dense(sigma_w=Param(INPUT), sigma_b=0)), batch=self.batch)
        if "J" not in found.default_quantities:
            raise MeanFieldError(
                f"No initialization keeps the gradients of {found.activations[0]}: it jumps, so that J is infinite at "
                "infinite width and 0 in a finite network; take a continuous activation."
            )
        return found

    def run(self, sigma_w: Any, sigma_b: Any, K1: Any, depth: int, scale: Any = None, **settings: Any) -> Any:
        """`propagate` from K¹ = K1 at layer 1; all may be arrays."""
        theory, values = self.theory, self.factor(scale)
        values[INPUT] = np.sqrt(np.asarray(K1, dtype=float) / self.input_norm)
        settings = {"input_norm": self.input_norm} | settings
        with np.errstate(all="ignore"):
            return theory.propagate(**self.open(sigma_w=sigma_w, sigma_b=sigma_b), depth=depth, **settings, **values)

    def last(self, sigma_w: Any, sigma_b: Any, K1: Any, depth: int, scale: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """(log J^{1,depth}, K^depth); log J is ∞ where it does not exist any more."""
        shape = np.broadcast_shapes(*(np.shape(v) for v in (sigma_w, sigma_b, K1, 1.0 if scale is None else scale)))
        run = self.run(sigma_w, sigma_b, K1, depth, scale, quantities=("K", "J"), every_layer=False)
        log_J, K = (np.broadcast_to(np.asarray(a, dtype=float)[..., -1], shape) for a in (run.log_J, run.K))
        return np.where(np.isnan(log_J), math.inf, log_J), K

    def rate(self, sigma_w: Any, sigma_b: Any, K1: Any, depth: int, scale: Any = None) -> np.ndarray:
        """log J^{depth, depth+1}."""
        run = self.run(sigma_w, sigma_b, K1, depth + 1, scale, quantities=("K", "J"))
        return run.log_J[..., -1] - run.log_J[..., -2]
