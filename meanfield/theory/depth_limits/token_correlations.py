"""Where correlations of two tokens end below c = 1: zeros of the map of c in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Status
from meanfield.numeric.phases.correlations import CorrelationPoint, Correlations
from meanfield.numeric.phases.float_roots import zeros
from meanfield.numeric.run.depth_iteration import propagate
from meanfield.symbolic.criticality.phases import Phase
from meanfield.symbolic.recursion import Recursion
from meanfield.theory.queries.architecture_maps import Maps

SEARCHED = 512  # correlations between which a change of sign is looked for
_LARGE = (1e5, 1e6)  # variances from which zeros of the map of c are taken to infinity


def token_correlations(theory: Maps, values: Mapping[str, sp.Expr], here: Phase) -> Correlations:
    """Where correlations of two tokens end: c = 1 and what is found below it between 512 places, 0 ≤ c < 1."""
    step = _Step.of(theory, values)
    grows = here.fixed_point is None
    found = sp.nan if here.fixed_point is None else here.fixed_point.K.value
    K = float(found) if sp.sympify(found).is_number else 1.0  # where every K is kept, c does not see it
    gaps = step.where_K_grows() if grows else step.zeros(K)
    if not grows and len(gaps) and not np.allclose(step(K, gaps)[0], K, rtol=1e-8, atol=0):
        raise _moves()
    stability = {"ordered": "stable", "chaotic": "unstable"}.get(here.name, "")
    if not stability:  # of first order nothing happens: what is left decides
        stability = "marginal" if step.change(_LARGE[1] if grows else K, np.array([1e-2]))[0] <= 0 else "unstable"
    steep = here.chi_J.value == sp.oo
    points = [CorrelationPoint(1.0, 1.0 if grows and not steep else float(here.chi_J.value), stability)]
    for gap in sorted(gaps.tolist()):
        stability = "stable" if stability == "unstable" else "unstable"
        slope = 1.0 if grows else step.slope(K, gap)
        points.append(CorrelationPoint(1 - gap, slope, stability, 1e-8 if grows else 1e-10, gap))
    text = f"zeros of the map of c between {SEARCHED} places, 0 ≤ c < 1; {here.tokens}"
    return Correlations(K, tuple(points), Status.MEASURED, text)


def _moves() -> MeanFieldError:
    return MeanFieldError(
        "Correlations are not available: the map of c depends on K, which does not settle apart from it; follow both "
        "with propagate."
    )


@dataclass(frozen=True)
class _Step:
    """One block in floats: (K, 1 - c) → (K, distance)."""

    recursion: Recursion
    own: dict[str, float]
    parameters: dict[str, float]

    @classmethod
    def of(cls, theory: Maps, values: Mapping[str, Any]) -> _Step:
        recursion = theory.acting.to_follow(("K", "K_ab", "distance"))
        inside = theory.acting.inside(recursion, values)
        recursion = recursion.replaced(inside)
        known = {p.name for p in recursion.parameters}
        numbers = {k: float(v) for k, v in values.items() if k in known}
        own = {n: numbers.pop(n, 1.0) for n in ("sigma_w", "sigma_b")}
        return cls(recursion, own, numbers)

    def __call__(self, K: float, gap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        start = {"K": K * np.ones_like(gap), "distance": 2 * K * gap}
        w, b = (self.own[n] for n in ("sigma_w", "sigma_b"))
        held = propagate(
            self.recursion, sigma_w=w, sigma_b=b, depth=2, start=start, parameters=self.parameters, correlation=0.0
        )
        return held.K[..., -1], held.distance[..., -1]

    def change(self, K: float, gap: np.ndarray) -> np.ndarray:
        """The next 1 - c over this one, less 1."""
        following, distance = self(K, gap)
        return distance / (2 * following * gap) - 1

    def zeros(self, K: float) -> np.ndarray:
        """1 - c that a block keeps."""
        half = SEARCHED // 2
        grid = np.concatenate([np.geomspace(1e-9, 0.1, half, endpoint=False), np.linspace(0.1, 1, half)])
        found = zeros(partial(self.change, K), grid)
        return found[found > grid[0]]  # the first place stands for c = 1

    def where_K_grows(self) -> np.ndarray:
        """The zeros as K → ∞, from those at two large K: they move by a multiple of 1/K."""
        (near, far), ratio = (self.zeros(K) for K in _LARGE), _LARGE[1] / _LARGE[0]
        if len(near) != len(far) or not np.allclose(near, far, rtol=0.1, atol=0):
            raise _moves()
        return (ratio * far - near) / (ratio - 1)

    def slope(self, K: float, gap: float) -> float:
        """C′(c*) by central differences of fourth order."""
        step = 1e-3 * min(gap, 1 - gap) if gap < 1 else 1e-3
        places = gap + step * np.array([-2.0, -1.0, 1.0, 2.0])
        nexts = (1 + self.change(K, places)) * places
        return float(nexts @ np.array([1.0, -8.0, 8.0, -1.0]) / (12 * step))
