"""Gradients layer by layer, from the last layer back: what `propagate` returns where G_z, G_w or G_b are asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meanfield.base.quantities import GRADIENTS, QUANTITIES
from meanfield.numeric.run.depth_iteration import Run
from meanfield.symbolic.recursion import Recursion


@dataclass(frozen=True, eq=False, repr=False)
class GradientRun(Run):
    """A run with gradients of u·z^L/√N_L, u random signs and L = depth, as `Theory.propagate` explains.

    values holds them as logarithms, "log_G_z" and for the Dense d = 1, 2, … of the block "log_G_w[d]" and "log_G_b[d]".
    run.G_z has the shape of run.K, run.G_w and run.G_b one more axis at the end, the Dense; `run.log_G_w` is the
    logarithm; getattr(run, "G_w[2]"), and a data frame, have one Dense at a time.
    """

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names that can be read off the run."""
        return tuple(name if name in QUANTITIES else name.removeprefix("log_") for name in self.values)

    @property
    def lost_at(self) -> np.ndarray:
        """First layer per point with an unknown gradient: 1, where the J^{l,L} behind all of them is; 0 of none."""
        known = [v for k, v in self.values.items() if k.removeprefix("log_").partition("[")[0] in GRADIENTS]
        gone = np.isnan(np.stack(known)).any(axis=0)
        return np.where(gone.any(axis=-1), self.l[gone.argmax(axis=-1)], 0)

    def __getattr__(self, name: str) -> np.ndarray:
        values, bare = self.__dict__.get("values", {}), name.removeprefix("log_")
        if values and bare.partition("[")[0] in GRADIENTS:
            columns = [k for k in values if k == f"log_{bare}" or k.startswith(f"log_{bare}[")]
            if columns:
                alone = columns[0] == f"log_{bare}"
                found = values[columns[0]] if alone else np.stack([values[k] for k in columns], axis=-1)
                with np.errstate(over="ignore"):
                    return found if name != bare else np.exp(found)
        return super().__getattr__(name)


def columns(recursion: Recursion, asked: tuple[str, ...]) -> tuple[str, ...]:
    """The state variables that `asked` are made of."""
    wanted = {"K", "G_z"} | {n for n in asked if n in recursion.names}
    return tuple(n for n in recursion.names if n in wanted or n.partition("[")[0] in asked)


def with_gradients(run: Run, asked: tuple[str, ...], other: Run | None = None) -> GradientRun:
    """The run of `blocks.gradients.gradients` as one of G_z, G_w and G_b; other: the same layers of quantities beside.

    J^{l,L} is the product of the growths of layers l + 1 … L, added up as logarithms: nothing overflows or cancels.
    """
    with np.errstate(divide="ignore", invalid="ignore"):  # log 0: σ_v = 0, a G of exactly 0
        held = run.held.values  # in units in which K stays finite, where its map is homogeneous as it grows
        steps = np.log(held["G_z"])[..., 1:]
        behind = np.concatenate((steps, np.zeros((*steps.shape[:-1], 1))), axis=-1)
        lost = ~np.isfinite(held["K"])
        log_J = np.where(lost, np.nan, np.flip(np.cumsum(np.flip(behind, -1), axis=-1), -1))
        kept = {k: run.values[k] for k, name in (("K", "K"), ("log_J", "J")) if name in asked and k in run.values}
        if other is not None:
            kept |= other.values | {n: getattr(other, n) for n, _ in other.lowered.recursion.readout if n in asked}
        for name in run.values:
            if name.partition("[")[0] in asked and name not in ("K", "log_J"):
                kept[f"log_{name}"] = log_J if name == "G_z" else log_J + run.logarithm(name)
    return GradientRun(run.l, kept, run.diverged_at, run.lowered, run.parameters, run.layerwise)
