"""What happens at a place (σ_w², σ_b²), in one word, for claims about phases."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

import meanfield as mf
from derivations.checks import root

FAR = 1000  # layers after which a run tells 0 from ∞


@lru_cache(maxsize=256)
def state(theory: mf.Theory, name: str, square_w: str, square_b: str) -> str:
    """The word for `name` at σ_w² and σ_b², given as decimal text."""
    return STATES[name](theory, {"sigma_w": root(square_w), "sigma_b": root(square_b)})


def variance(theory: mf.Theory, place: dict) -> str:
    """Where K flows to from K¹ = σ_w² + σ_b²."""
    point = theory.phase(**place).fixed_point
    return "diverges" if point is None else "to 0" if point.K.value == 0 else "converges"


def gradients(theory: mf.Theory, place: dict) -> str:
    """By χ_J*, the factor of gradients from layer to layer."""
    return {"ordered": "vanish", "critical": "stable", "chaotic": "explode"}[theory.phase(**place).name]


def correlation(theory: mf.Theory, place: dict) -> str:
    """Where the correlation of two inputs settles: 1, or on which side of ½ (γ = 1)."""
    point = theory.correlations(**place).stable
    if point is None or point.c == 1:
        return "unknown" if point is None else "1"
    if abs(point.c - 0.5) < 1e-9:
        return "1/2"
    return "above 1/2" if point.c > 0.5 else "0" if point.c == 0 else "below 1/2"


def limit(theory: mf.Theory, place: dict, name: str) -> str:
    """Where σ_μ² or σ_y² goes, from a run: over the last doubling of the depth it changes by a power of 2, or not."""
    numbers: dict[str, Any] = {k: float(v) for k, v in place.items()}
    run = theory.propagate(**numbers, depth=FAR, correlation=0.0, quantities=("sigma_mu2", "sigma_y2"))
    early, late = (float(np.ravel(getattr(run, name))[i]) for i in (FAR // 2 - 1, FAR - 1))
    if late < 1e-12 or late < early / 1.5:
        return "to 0"
    return "diverges" if late > 1.5 * early else "converges"


STATES: dict[str, Callable[[mf.Theory, dict], str]] = {
    "variance": variance,
    "gradients": gradients,
    "c*": correlation,
    "bias": lambda theory, place: theory.bias(**place).phase.value,
    "sigma_mu2 at large l": partial(limit, name="sigma_mu2"),
    "sigma_y2 at large l": partial(limit, name="sigma_y2"),
}
FLOATS = {"bias", "c*", "sigma_mu2 at large l", "sigma_y2 at large l"}  # decided by floats with their errors
