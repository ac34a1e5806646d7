"""Parameters of an activation swept as arrays: one propagation for each distinct value, put together into one run.

A threshold orders the switch points, so another value may be another formula: a compiled recursion serves one value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.budgets import require_memory, tick
from meanfield.numeric.run.depth_iteration import Run, checked, common_shape
from meanfield.numeric.run.vanishing import together


def sweep(one: Callable[..., Run], swept: Mapping[str, Any], others: Mapping[str, Any], layerwise: bool) -> Run:
    """The run over arrays of `swept` (parameters inside averages) and `others` (σ's, input_norm, correlation, μ), which
    broadcast with each other.

    one: propagates arrays of `others` at numbers for `swept`. `run.error` is the worst of all runs.
    """
    arrays = {k: checked(k, v) for k, v in {**swept, **others}.items()}
    if layerwise:
        raise MeanFieldError(
            f"{', '.join(swept)} was given as an array together with layerwise=True, but a parameter of the activation "
            "is the same in every layer; give numbers for it, one run each."
        )
    shape = common_shape({n: a.shape for n, a in arrays.items()})
    points = math.prod(shape)
    if points == 0:
        raise MeanFieldError("An empty array of parameters was given; there is nothing to propagate.")
    require_memory(8.0 * points * (len(arrays) + 2), f"{points} points", "ask for fewer points")
    flat = {k: np.broadcast_to(a, shape).reshape(points) for k, a in arrays.items()}
    places, which = np.unique(np.stack([flat[k] for k in swept], axis=1), axis=0, return_inverse=True)
    which = which.reshape(points)
    values: dict[str, np.ndarray] = {}
    diverged = np.zeros(points, dtype=np.int64)
    runs, beside = [], []
    for i, place in enumerate(places):
        tick()
        here = np.flatnonzero(which == i)
        numbers = {k: float(v) for k, v in zip(swept, place)}
        run = one(**numbers, **{k: flat[k][here] if arrays[k].ndim else arrays[k][()] for k in others})
        runs.append(run)
        for name, part in run.values.items():
            kept = values.setdefault(name, np.full((points, part.shape[-1]), np.nan))
            kept[here] = part  # one point, or as many as there are here
        diverged[here] = run.diverged_at
        beside.append((here, run.units))
    if any(run.quantities != runs[0].quantities for run in runs):
        raise MeanFieldError(
            f"J is finite at some values of {', '.join(swept)} and infinite at others; ask for quantities=('K',)."
        )
    lowered = replace(runs[0].lowered, errors=tuple(e for run in runs for e in run.lowered.errors))
    names = {"input_norm": "Q0", "correlation": "c0"}
    parameters = {names.get(k, k): a for k, a in arrays.items()}
    shaped = {n: v.reshape(*shape, v.shape[-1]) for n, v in values.items()}
    return replace(
        runs[0], values=shaped, diverged_at=diverged.reshape(shape), lowered=lowered, parameters=parameters,
        units=together(shaped, beside, shape),
    )  # fmt: skip
