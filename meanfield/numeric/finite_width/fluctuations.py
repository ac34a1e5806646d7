"""Runs of networks with a skip that hold V, G1 and J1: the layers of infinite width, and what they are of order 1/n."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meanfield.functions.activations import Activation
from meanfield.numeric.finite_width.skip_correlators import corrections
from meanfield.numeric.run.depth_iteration import Run

CARRIED = {"V": "V", "G1": "G1", "J1": "J1_J"}  # by name, what a run holds of it


@dataclass(frozen=True, eq=False, repr=False)
class FluctuationRun(Run):
    """A run with quantities of order 1/n of a network with a skip; run.J1 is J times the J1_J that is held.

    measured: the largest relative error of an average behind them.
    """

    measured: float = 0.0

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names that can be read off the run."""
        return (*(name.removeprefix("log_") for name in self.values), *["J1"] * ("J1_J" in self.values))

    @property
    def error(self) -> float:
        """Measured relative error of the worst average in one layer (not of the iterated result)."""
        return max(super().error, self.measured)

    def __getattr__(self, name: str) -> np.ndarray:
        values = self.__dict__.get("values", {})
        if name == "J1" and "J1_J" in values:
            with np.errstate(over="ignore", invalid="ignore"):
                return self.J * values["J1_J"]
        return super().__getattr__(name)


def with_corrections(
    run: Run, asked: tuple[str, ...], phi: Activation, mu: float | str, every_layer: bool = True
) -> FluctuationRun:
    """A run of K (and J, where J1 is asked for) at every layer, with V, G1 and J1 as `skip_correlators` derives them.

    mu: the strength of the skip, or the name of the run's parameter. Layers at which K overflows have NaN.
    """
    shape, depth = np.shape(run.diverged_at), len(run.l)

    def layers(value) -> np.ndarray:
        array = np.asarray(value, dtype=float)
        array = array if run.layerwise and array.ndim else array[..., None]
        return np.broadcast_to(array, (*shape, depth)).reshape(-1, depth)[:, 1:]

    sigma_w, sigma_b, skip = (
        layers(run.parameters[x] if isinstance(x, str) else x) for x in ("sigma_w", "sigma_b", mu)
    )
    K = run.values["K"].reshape(-1, depth)
    log_J = run.values["log_J"].reshape(-1, depth) if "J1" in asked else None
    names = [name for name in CARRIED if name in asked]
    found, error = np.full((len(names), len(K), depth), np.nan), 0.0
    ends = np.where(np.asarray(run.diverged_at) > 0, np.asarray(run.diverged_at) - 1, depth).reshape(-1)
    for i, end in enumerate(ends.tolist()):
        logs = None if log_J is None else log_J[i, :end]
        one = corrections(phi, K[i, :end], logs, sigma_w[i] ** 2, sigma_b[i] ** 2, skip[i])
        error = max(error, one.error)
        for k, name in enumerate(names):
            found[k, i, :end] = getattr(one, CARRIED[name])
    values = {k: v for k, v in run.values.items() if k.removeprefix("log_") in ("K", *asked) or "J1" in asked}
    values |= {CARRIED[name]: found[k].reshape(*shape, depth) for k, name in enumerate(names)}
    if not every_layer:
        values = {k: v[..., -1:] for k, v in values.items()}
    l = run.l if every_layer else run.l[-1:]
    return FluctuationRun(l, values, run.diverged_at, run.lowered, run.parameters, run.layerwise, error)
