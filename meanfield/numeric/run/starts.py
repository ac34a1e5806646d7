"""The start of two inputs, of one norm or of two, in whichever coordinates it is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.numeric.quadrature.rules import two_product

COORDINATES = (("K_ab",), ("distance",), ("c",), ("gamma",), ("sigma_mu2", "sigma_y2"))
NAMES = tuple(n for chosen in COORDINATES for n in chosen)
BETWEEN = ("K_ab", "distance", "c")  # of two norms, beside K_aa and K_bb
ROUNDING = 1e-12  # by which a start may leave what two inputs can have


def pair_start(given: dict[str, Any], first: Callable[[], Any]) -> dict[str, Any]:
    """K, K_ab and distance at layer 1 from one of `COORDINATES`, with K or without; other variables as they are given.

    first: gives K at layer 1 where nothing says it. Raises: MeanFieldError for coordinates that contradict each other
    or are out of range.
    """
    used = [n for n in NAMES if n in given]
    if not used:
        return given
    chosen = next((w for w in COORDINATES if used[0] in w), ())
    if set(used) != set(chosen) or (len(chosen) == 2 and "K" in given):
        raise MeanFieldError(
            f"The start {', '.join(given)} was given; of two inputs of one norm it is K with one of K_ab, distance, c "
            "and gamma, or sigma_mu2 and sigma_y2."
        )
    rest = {n: v for n, v in given.items() if n not in (*NAMES, "K")}
    with np.errstate(all="ignore"):
        if len(chosen) == 2:
            mu2, y2 = (_array(n, given) for n in chosen)
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


def two_norms_start(given: dict[str, Any], first: Callable[[], Any]) -> dict[str, Any]:
    """K_aa, K_bb, K_ab, distance and norm_angle at layer 1 from one of `BETWEEN` and the norms; others as they are
    given. A distance may come with its norm_angle, which K_aa and K_bb of close inputs know to few digits, and then
    with K_ab, which neither says of norms that are far apart.

    first: gives a norm at layer 1 where nothing says it. All digits are kept: K_aa - K_bb is the exact difference of
    the two doubles, and 4(K_aa K_bb - K_ab²) is computed as if in twice the precision. Raises: MeanFieldError for a
    start that two inputs cannot have.
    """
    used = [n for n in BETWEEN if n in given]
    whole = used == ["K_ab", "distance"] and {"K_aa", "K_bb", "norm_angle"} <= set(given)
    if whole:  # a state as it stands
        return {n: np.asarray(v, dtype=float) for n, v in given.items()}
    angle_too = {"norm_angle"} if used == ["distance"] else set()  # what K_aa - K_bb of doubles does not say
    if len(used) != 1 or set(given) & {"norm_angle", *NAMES} - set(used) - angle_too:
        raise MeanFieldError(
            f"The start {', '.join(given)} was given; of two inputs of any norms it is K_aa and K_bb with one of "
            "distance, K_ab and c."
        )
    rest = {n: v for n, v in given.items() if n not in ("K_aa", "K_bb", "norm_angle", used[0])}
    with np.errstate(all="ignore"):
        A, B = (np.asarray(given[n] if n in given else first(), dtype=float) for n in ("K_aa", "K_bb"))
        for name, norm in (("K_aa", A), ("K_bb", B)):
            _require(norm >= 0, name, norm, "≥ 0")
        A, B, value = (np.array(v, dtype=float) for v in np.broadcast_arrays(A, B, _array(used[0], given)))
        s, t = np.sqrt(A), np.sqrt(B)
        norms = np.where(A == B, 0.0, (A - B) / (s + t))  # s - t
        if used[0] == "c":
            _require(np.abs(value) <= 1, "c", value, "between -1 and 1")
            direction_part = 2 * s * t * (1 - value)
            distance, between = norms**2 + direction_part, s * t * value
        elif used[0] == "K_ab":
            _require(np.abs(value) <= s * t * (1 + ROUNDING), "K_ab", value, "between ±sqrt(K_aa*K_bb)")
            exact = 2 * _difference(two_product(A, B), two_product(value, value)) / (s * t + value)
            direction_part = np.where((value > 0) & np.isfinite(exact), exact, 2 * (s * t - value)).clip(0)
            distance, between = norms**2 + direction_part, value
        else:
            least = np.maximum(np.abs(norms) - 1e-15 * np.maximum(s, t), 0)  # norms are doubles and know no more
            _require(value >= least**2 * (1 - ROUNDING), "distance", value, "at least (sqrt(K_aa) - sqrt(K_bb))²")
            _require(value <= (s + t) ** 2 * (1 + ROUNDING), "distance", value, "at most (sqrt(K_aa) + sqrt(K_bb))²")
            (sums, low), (gap, rest_of_gap) = _sum(A, B), _sum(A, -B)
            other, lower = _sum(2 * sums, -value)
            # 4(K_aa K_bb - K_ab²) = distance (2K_aa + 2K_bb - distance) - (K_aa - K_bb)²
            exact = _difference(two_product(value, other), two_product(gap, gap))
            exact = (exact + (value * (lower + 2 * low) - 2 * gap * rest_of_gap)) / (2 * s * t + sums - value)
            plain = value - norms**2
            direction_part = np.where((sums > value) & np.isfinite(exact), exact, plain).clip(0)
            if "norm_angle" in given:
                angle = np.broadcast_to(_array("norm_angle", given), value.shape)
                _require(np.abs(angle) <= np.pi / 2, "norm_angle", angle, "between -π/2 and π/2")
                norms, direction_part = np.sin(angle) * np.sqrt(value), np.cos(angle) ** 2 * value
            distance, between = value, s * t - direction_part / 2
    angle = np.arctan2(norms, np.sqrt(direction_part))
    return rest | {"K_aa": A, "K_bb": B, "K_ab": between, "distance": distance, "norm_angle": angle}


def _sum(a, b):
    """(s, e) with s + e = a + b exactly (Knuth)."""
    s = a + b
    back = s - a
    return s, (a - (s - back)) + (b - back)


def _difference(a, b):
    """The difference of two products that come with their rounding."""
    return (a[0] - b[0]) + (a[1] - b[1])


def _array(name: str, given: dict[str, Any]) -> np.ndarray:
    return np.asarray(given[name], dtype=float)


def _require(right, name: str, value, domain: str) -> None:
    if not np.all(right):
        wrong = value[~right] if np.shape(value) and np.shape(right) == np.shape(value) else value
        raise MeanFieldError(f"The start of {name} must be {domain}, but {np.ravel(wrong)[0]:.6g} was given.")
