r"""Overlaps of softmax rows in doubles: Φ = ⟨Σ_s A_s A'_s⟩, its slope and quotient in the covariance, the entropy.

A and A' are softmaxes of T normals of variance V; the pairs (z_s, z'_s) are independent, of covariance C = V - D. D is
what is given, so that rows which nearly agree keep their digits. How the integrals are taken is said in
`softmax_grids`; the rows' own (D = 0) are single integrals over M and its derivatives.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from meanfield.base.errors import MeanFieldError
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.numeric.quadrature.softmax.softmax_grids import (
    along,
    highest,
    lowest,
    marginal,
    powered,
    square,
    step,
    surprise,
)

KINDS = ("value", "slope", "quotient", "by_V", "growth", "entropy")
FULL, COARSE = 36.0, 30.0  # -log of what the rules leave out: of an answer, of one that measures its error
CLOSE = 0.05  # D below which a quotient is a mean of slopes, not a difference of values
MOST = 3000  # points in one direction of a grid


def softmax_average(kind: str, T: int, V, D=0.0) -> tuple[np.ndarray, np.ndarray]:
    """(values, errors) of an average of two softmax rows of T entries; V, D: arrays that broadcast.

    kind: "value" Φ = ⟨Σ A_s A'_s⟩; "slope" ∂Φ/∂C; "quotient" (Φ(V, V) - Φ(V, C))/D, the mean of slopes from C to V;
    "by_V" ∂Φ/∂V at fixed C; of one row (D = 0) "growth" dΦ(V, V)/dV and "entropy" -⟨Σ A_s log A_s⟩. V ≥ 0 a variance,
    C = V - D with |C| ≤ V a covariance. errors: absolute, by how much a coarser rule differs.

    Raises: MeanFieldError for other kinds and ranges, and where C is so near to -V that no grid holds it.

    >>> value, error = softmax_average("value", 32, 9.0, 9.0 * 0.7)
    >>> round(float(value), 9), bool(error < 1e-12)
    (0.076824532, True)
    """
    if kind not in KINDS:
        raise MeanFieldError(f"{kind!r} is no average of softmax rows; there are {', '.join(KINDS)}.")
    V, D = np.broadcast_arrays(np.asarray(V, dtype=float), np.asarray(D, dtype=float))
    values, errors = np.empty(V.shape), np.empty(V.shape)
    for at in np.ndindex(V.shape):
        values[at] = number(kind, T, float(V[at]), float(D[at]), FULL)
        errors[at] = abs(values[at] - number(kind, T, float(V[at]), float(D[at]), COARSE))
    return values, errors


def number(kind: str, T: int, V: float, D: float = 0.0, L: float = FULL) -> float:
    """One value of `softmax_average`, by rules that leave out about e^{-L}."""
    if not (T >= 1 and V >= 0.0 and 0.0 <= D <= 2.0 * V) or math.isinf(V):
        raise MeanFieldError(
            f"Softmax rows have T ≥ 1 entries, V ≥ 0 and 0 ≤ D ≤ 2V, but T = {T}, V = {V}, D = {D} were given."
        )
    if T == 1:
        return 1.0 if kind == "value" else 0.0
    if kind in ("growth", "entropy"):
        return one_row(T, V, L)[3 if kind == "growth" else 4]
    if kind == "by_V":
        return one_row(T, V, L)[3] - one_row(T, V, L)[2] if D == 0.0 else two_rows(T, V, D, L, True)[3]
    if kind == "quotient" and D > 0.0:
        return quotient(T, V, D, L)
    found = one_row(T, V, L) if D == 0.0 else two_rows(T, V, D, L)
    return found[0 if kind == "value" else 2]


def quotient(T: int, V: float, D: float, L: float = FULL, close: float = CLOSE) -> float:
    """(Φ(V, V) - Φ(V, V - D))/D for D > 0."""
    if D / close < 1.0:
        x, w = gauss_legendre(3)
        return float(sum(0.5 * w_k * two_rows(T, V, 0.5 * (1.0 + x_k) * D, L)[2] for x_k, w_k in zip(x, w)))
    far, near = two_rows(T, V, D, L), one_row(T, V, L)
    return ((near[0] - far[0]) if near[0] < 0.5 else (far[1] - near[1])) / D


@lru_cache(maxsize=4096)
def one_row(T: int, V: float, L: float = FULL) -> tuple[float, float, float, float, float]:
    """(Φ, 1 - Φ, ∂_C Φ, dΦ/dV, entropy) at D = 0, T ≥ 2.

    With P_k = ⟨X^k e^{-X}⟩ (M' = -P₁, M'' = P₂ - P₁) and E[A₁^a A₂^b …] = ∫P_a P_b … M^{T-n}du/Γ(a + b + …): sums of
    positive terms but for dΦ/dV, in which a total derivative has been taken out.
    """
    h = step(T, V, L)
    u = np.arange(lowest(T, V, L), highest(T, V, L) + h, h)
    lost, p, r = marginal(T, u, V, L, h)
    curved, left = r - p, np.maximum(1.0 - lost, 0.0)
    third = powered(lost, T - 3) if T > 2 else np.zeros_like(u)
    second = third * left if T > 2 else np.ones_like(u)
    fourth = powered(lost, T - 4) if T > 3 else np.zeros_like(u)
    pairs = T * (T - 1) * h
    slope = pairs / 6.0 * float((r * (2.0 * r * second + (T - 2) * p * p * third)).sum())
    growth = pairs * float((curved**2 * second).sum() - (T - 2) * (T - 3) / 6.0 * (p**4 * fourth).sum())
    entropy = pairs * float((surprise(T, u, V, L, h) * p * second).sum())
    return T * h * float((r * second * left).sum()), pairs * float((p * p * second).sum()), slope, growth, entropy


@lru_cache(maxsize=4096)
def two_rows(T: int, V: float, D: float, L: float = FULL, more: bool = False) -> tuple[float, float, float, float]:
    """(Φ, 1 - Φ, ∂_C Φ, ∂_V Φ) at D > 0, T ≥ 2; the last is NaN unless `more`."""
    C = V - D
    if max(1.0, D) <= C:
        return along(T, V, D, L, more)
    if T == 2 and C < 0.0:  # A'_1 at -z' is A'_2
        value, rest, slope, by_variance = two_rows(2, V, V + C, L, more) if V + C > 0.0 else (*_of_one(V, L),)
        return rest, value, slope, -by_variance
    width = (highest(T, V, L) - lowest(T, V, L)) / step(T, V - abs(C), L)
    if width > MOST:
        raise MeanFieldError(
            f"The overlap of {T} entries at V = {V:.6g}, C = {C:.6g} needs a grid of {width:.0f} places, and at most "
            f"{MOST} are taken; rows of exchangeable tokens have C ≥ -V/{T - 1}."
        )
    return square(T, V, C, L, more)


def _of_one(V: float, L: float) -> tuple[float, float, float, float]:
    value, rest, slope, growth, _ = one_row(2, V, L)
    return value, rest, slope, growth - slope
