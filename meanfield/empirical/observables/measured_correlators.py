"""Correlators of order 1/n from means over networks, without the bias of multiplying means.

With exchangeable neurons, E z_ia z_ib z_jc z_jd = E[S_ab] E[S_cd] + V_(ab)(cd)/n for i ≠ j at every n, and likewise
E ΔH_ii ΔH_jj = A/n, E H_ij H_ij = B/n, E z_i z_i ΔH_jj = D/n, E z_i z_j H_ij = F/n: the rows of a network hold the
means over pairs i ≠ j. A product of two expectations is estimated over pairs of different networks (a U-statistic):
Σ_{m≠m′} a_m b_m′/(M(M − 1)) = (M ā b̄ − mean(a b))/(M − 1).

Source: [orthogonal_weights] (2.8), (5.6)–(5.14); the estimators are derived here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

Means = Mapping[str, np.ndarray]
Estimator = Callable[[Means, int, np.ndarray], np.ndarray]


def _product(means: Means, first: str, second: str, count: int) -> np.ndarray:
    """E[a] E[b] over pairs of different networks."""
    a, b = means[f"_{first}"], means[f"_{second}"]
    return (count * _outer(a, b) - means[f"_{first}*{second}"]) / (count - 1)


def _outer(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a[l, α, β] b[l, γ, δ]."""
    return a[:, :, :, None, None] * b[:, None, None, :, :]


def _across(n: np.ndarray, values: np.ndarray) -> np.ndarray:
    """n, one per layer, times values[l, ...]."""
    return n.reshape(-1, *(1,) * (values.ndim - 1)) * values


def _connected(raw: str, first: str, second: str) -> Estimator:
    return lambda means, count, n: _across(n, means[raw] - _product(means, first, second, count))


def _plain(raw: str) -> Estimator:
    return lambda means, count, n: _across(n, means[raw])


def _correlation(means: Means, count: int, n: np.ndarray) -> np.ndarray:
    if "K_aa" in means:
        return means["K_ab"] / np.sqrt(means["K_aa"] * means["K_bb"])
    return means["K_ab"] / means["K"]


def _drift(means: Means, count: int, n: np.ndarray) -> np.ndarray:
    c = _correlation(means, count, n)
    return c / (1 - c)


#: name → (means, number of networks, widths per layer) → the estimate per layer
ESTIMATORS: dict[str, Estimator] = {
    "V": _connected("_SS", "S", "S"),
    "A": _connected("_hh", "h", "h"),
    "D": _connected("_Sh", "S", "h"),
    "S": _plain("_ddII"),
    **{name: _plain(f"_{name}") for name in ("B", "F", "P", "Q", "R", "T", "U")},
    "c": _correlation,
    "gamma": _drift,
}
NEEDS: dict[str, tuple[str, ...]] = {
    "V": ("_S", "_SS", "_S*S"),
    "A": ("_h", "_hh", "_h*h"),
    "D": ("_S", "_h", "_Sh", "_S*h"),
    "B": ("_B",),
    "F": ("_F",),
    **{name: (f"_{name}",) for name in "PQRTU"},
    "S": ("_ddII",),
    "c": ("K_ab",),
    "gamma": ("K_ab",),
}
