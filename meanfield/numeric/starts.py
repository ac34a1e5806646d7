"""The start of two inputs of one norm, in whichever coordinates it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meanfield.results import MeanFieldError

WAYS = (("K_ab",), ("distance",), ("c",), ("gamma",), ("sigma_mu2", "sigma_y2"))
NAMES = tuple(n for way in WAYS for n in way)


def pair_start(given: dict[str, Any], first: Callable[[], Any]) -> dict[str, Any]:
    """K, K_ab and distance at layer 1 from one of `WAYS`, with K or without; other variables as they are given.

    first: gives K at layer 1 where nothing says it. Raises: MeanFieldError for coordinates that contradict each other
    or are out of range.
    """
    used = [n for n in NAMES if n in given]
    if not used:
        return given
    way = next((w for w in WAYS if used[0] in w), ())
    if set(used) != set(way) or (len(way) == 2 and "K" in given):
        raise MeanFieldError(
            f"The start {', '.join(given)} was given; of two inputs of one norm it is K with one of K_ab, distance, c "
            "and gamma, or sigma_mu2 and sigma_y2."
        )
    rest = {n: v for n, v in given.items() if n not in (*NAMES, "K")}
    with np.errstate(all="ignore"):
        if len(way) == 2:
            mu2, y2 = (_array(n, given) for n in way)
            _require(mu2 >= 0, "sigma_mu2", mu2, "≥ 0")
            _require(y2 >= 0, "sigma_y2", y2, "≥ 0")
            return rest | {"K": mu2 + y2, "K_ab": mu2, "distance": 2 * y2}
        K = np.asarray(given["K"] if "K" in given else first(), dtype=float)
        value = _array(used[0], given)
        if used[0] == "K_ab":
            _require(np.abs(value) <= K * (1 + 1e-12), "K_ab", value, "between -K and K")
            return rest | {"K": K, "K_ab": value, "distance": np.maximum(2 * (K - value), 0)}
        if used[0] == "distance":
            _require((value >= 0) & (value <= 4 * K * (1 + 1e-12)), "distance", value, "between 0 and 4K")
            return rest | {"K": K, "K_ab": K - value / 2, "distance": value}
        if used[0] == "c":
            _require(np.abs(value) <= 1, "c", value, "between -1 and 1")
            return rest | {"K": K, "K_ab": K * value, "distance": 2 * K * (1 - value)}
        _require(value >= -0.5, "gamma", value, "≥ -1/2 (c = -1)")
        return rest | {"K": K, "K_ab": K * value / (1 + value), "distance": 2 * K / (1 + value)}


def _array(name: str, given: dict[str, Any]) -> np.ndarray:
    return np.asarray(given[name], dtype=float)


def _require(right, name: str, value, domain: str) -> None:
    if not np.all(right):
        wrong = value[~right] if np.shape(value) and np.shape(right) == np.shape(value) else value
        raise MeanFieldError(f"The start of {name} must be {domain}, but {np.ravel(wrong)[0]:.6g} was given.")
