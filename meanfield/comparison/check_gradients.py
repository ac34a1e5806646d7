"""Rows of a check for G_z, G_w and G_b: one quantity, "G_w[2]", for each Dense of the block."""

from __future__ import annotations

from typing import Any

import numpy as np

from meanfield.base.quantities import columns
from meanfield.empirical import EnsembleResult

UNITS = "G_z, G_w, G_b: of u·z^L/√N, u random signs; G_w per input of its Dense; [d] counts the Dense of a block."


def parts(
    name: str, run: Any, ensembles: tuple[EnsembleResult, ...], reach: int
) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """(layers that have it; (mean, standard error) of every ensemble there, in units of the theory; where that is 0).

    Networks sum over all weights of a Dense: per input, G_w is divided by how many there are. Column d of layer 1 is
    the input layer's for the last Dense, and nothing for the others. Where the theory is exactly 0, units are absolute.
    """
    quantity, _, place = name.partition("[")
    log = np.asarray(getattr(run, f"log_{name}"), dtype=float)[:reach]
    last = columns(quantity, run)[-1]
    here = np.arange(reach) if name == last else np.arange(1, reach)
    nothing = np.isneginf(log[here])
    unit = np.exp(np.where(nothing, 0.0, log[here]))
    found = []
    for one in ensembles:
        estimate = one.estimate(quantity)
        at: Any = here if not place else (here, int(place[:-1]) - 1)
        scale = unit * (one.fan_ins[at] if quantity == "G_w" else 1.0)
        found.append((estimate.mean[at] / scale, estimate.standard_error[at] / scale))
    return here, found, nothing


def exactly_zero(name: str, ensembles: tuple[EnsembleResult, ...], layer: int) -> bool:
    """Whether every network has a gradient of exactly 0 (a mean of squares is 0 only then)."""
    quantity, _, place = name.partition("[")
    at: Any = layer if not place else (layer, int(place[:-1]) - 1)
    return all(float(one.estimate(quantity).mean[at]) == 0 for one in ensembles)
