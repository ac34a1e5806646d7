r"""Tables of log S over an octave of K and θ = arccos c in [0, π/2]: Chebyshev polynomials in log K and θ.

What is sampled is ⟨f′f′⟩, the slope of the map of c; gS is its integral over the gap g = 1 - c (Price's theorem), all
terms positive. The panels in θ are halved until their last coefficients are small; then log S is compared with S itself
between the nodes. Where f jumps, ⟨f′f′⟩ sin θ and θS are analytic in θ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from meanfield.base.budgets import tick
from meanfield.numeric.lowering.evaluators import MARGIN
from meanfield.numeric.lowering.modules.generated_modules import Module, T
from meanfield.numeric.quadrature.rules import gauss_legendre

K_NODES, NODES = 16, 24  # Chebyshev points in log K (an octave) and in θ (a panel)
GOOD = 1e-13  # of S, relative: what a table may miss it by, unless S itself is known less well
CUTS = 7  # θ panels are halved so often at most
GAUSS = 12  # nodes of the integral from panel to panel
CHECKS = 8  # points of a panel between its nodes, at which it is compared with S


@dataclass(frozen=True)
class Panel:
    """log S over one octave of K and low ≤ θ ≤ high: Chebyshev coefficients (K_NODES, NODES) and the largest deviation
    seen between the nodes."""

    low: float
    high: float
    coefficients: np.ndarray
    error: float


def tables(module: Module, error: float, jumps: bool, octaves: list[int]) -> dict[int, tuple[Panel, ...] | None]:
    """The tables of these octaves, None where no table holds S; all panels of one level of cutting in one parallel
    call.

    error: of S, relative; jumps: whether f jumps.
    """
    good = max(GOOD, error)
    slopes: dict[int, list[_Slope] | None] = {o: [] for o in octaves}
    todo = [(o, 0.0, math.pi / 2) for o in octaves]
    for level in range(CUTS + 1):
        later: list[tuple[int, float, float]] = []
        for one in _sampled(module, todo) if todo else ():
            row = slopes[one.octave]
            if row is None:
                continue
            across, along = one.tails
            if across > good or not math.isfinite(along) or (along > 3 * good and level == CUTS):
                slopes[one.octave] = None
            elif along > 3 * good:
                middle = (one.low + one.high) / 2
                later += [(one.octave, one.low, middle), (one.octave, middle, one.high)]
            else:
                row.append(one)
        todo = [place for place in later if slopes[place[0]] is not None]
        if not todo:
            break
        tick()
    found: dict[int, tuple[Panel, ...] | None] = {}
    for o, row in slopes.items():
        panels = None if row is None else _integrated(sorted(row, key=lambda p: p.low), jumps)
        kept = panels is not None and max(p.error for p in panels) <= MARGIN * good
        found[o] = panels if kept else None
    return found


def _sampled(module: Module, places: list[tuple[int, float, float]]) -> list[_Slope]:
    """log ⟨f′f′⟩ at the nodes of panels (octave, low θ, high θ), and log S between them."""
    t, s = (_nodes(n) for n in (K_NODES, NODES))
    where = np.array(places)
    low, width = where[:, 1:2], where[:, 2:] - where[:, 1:2]

    def spread(across: np.ndarray, along: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return 2.0 ** (where[:, :1] + (across + 1) / 2), low + width * (along + 1) / 2

    K, theta = spread(np.repeat(t, NODES), np.tile(s, K_NODES))
    K_check, theta_check = spread(*_CHECKED)
    out = np.empty(K.size + K_check.size)
    both = [np.concatenate([a.ravel(), b.ravel()]) for a, b in ((K, K_check), (theta, theta_check))]
    module.call("sample", out.size, *both, K_check.size, T, out)
    values = out[: K.size].reshape(-1, K_NODES, NODES)
    checks = out[K.size :].reshape(K_check.shape)
    return [_Slope(*place, v, c) for place, v, c in zip(places, values, checks)]


@dataclass(frozen=True)
class _Slope:
    """log ⟨f′f′⟩ (of it times sin θ where f jumps) at the nodes of one panel, and log S at its checks."""

    octave: int
    low: float
    high: float
    values: np.ndarray
    checks: np.ndarray

    @property
    def tails(self) -> tuple[float, float]:
        """The last coefficients in log K and in θ; NaN where there are none."""
        with np.errstate(all="ignore"):
            c = np.abs(_coefficients(self.values))
            return float(c[-1].max()), float(c[:, -2:].max())


def _nodes(n: int) -> np.ndarray:
    return np.cos(np.pi * (np.arange(n) + 0.5) / n)


def _transform(n: int) -> np.ndarray:
    """The matrix from values at Chebyshev points to coefficients."""
    k = np.arange(n)
    matrix = 2 / n * np.cos(np.pi * k[:, None] * (k + 0.5) / n)
    matrix[0] /= 2
    return matrix


def _coefficients(values: np.ndarray) -> np.ndarray:
    return np.einsum("ki,ij,lj->kl", _transform(K_NODES), values, _transform(NODES))


def _checked() -> tuple[np.ndarray, np.ndarray]:
    """Places (log K, θ) of a panel between its nodes, in [-1, 1]; the first near full correlation."""
    k = np.arange(1, CHECKS + 1)
    u, v = (2 * ((0.5 + a * k) % 1) - 1 for a in (0.7548776662466927, 0.5698402909980532))
    u[0], v[0] = 0.93, -0.995
    return u, v


_CHECKED = _checked()


def _integrated(row: list[_Slope], jumps: bool) -> tuple[Panel, ...]:
    """log S (log θS where f jumps) from its derivative, panel by panel from θ = 0 outwards."""
    s, x, w = _nodes(NODES), *gauss_legendre(GAUSS)
    before, out = np.zeros(K_NODES), []  # gS at the lower end
    u, v = _CHECKED
    for one in row:
        width = one.high - one.low
        ends = np.append(one.low + width * (s + 1) / 2, one.high)
        # the integral over the gap from the lower end, by Gauss's rule in u, sin(θ′/2) = … u: smooth, all terms > 0
        low = math.sin(one.low / 2)
        half = low + (np.sin(ends / 2) - low)[:, None] * (x + 1) / 2
        at = 2 * np.arcsin(half)
        weight = (np.sin(ends / 2) - low)[:, None] * w / 2 * (2 / np.cos(at / 2) if jumps else 4 * half)
        place = 2 * (at - one.low) / width - 1
        basis = np.polynomial.chebyshev.chebvander(place, NODES - 1)
        along = np.einsum("ij,lj->il", one.values, _transform(NODES))
        total = before[:, None] + (weight * np.exp(np.einsum("egj,ij->ieg", basis, along))).sum(axis=-1)
        gap = 2 * np.sin(ends / 2) ** 2
        with np.errstate(all="ignore"):
            values = np.log(total / gap * (ends if jumps else 1.0))[:, :-1]
        before, c = total[:, -1], _coefficients(values)
        theta = one.low + width * (v + 1) / 2
        found = np.polynomial.chebyshev.chebval2d(u, v, c) - (np.log(theta) if jumps else 0.0)
        missed = float(np.abs(found - one.checks).max())
        out.append(Panel(one.low, one.high, c, MARGIN * missed if math.isfinite(missed) else math.inf))
    return tuple(out)
