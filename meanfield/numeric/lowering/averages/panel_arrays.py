"""Generated source whose panel quadratures are computed by NumPy: the way in which errors are measured.

A quadrature of `conditional` is that of `pair_check`, which has its rule in arrays. One of `planes` is a sum of lines,
one for each difference d, and which lines it takes does not depend on what they are. So it runs twice: first its lines
are noted and count as 0, then all of them are summed in arrays, and it is given them. Everything but the lines is the
text that Numba compiles; the sums of a line have other roundings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from meanfield.numeric.lowering.averages import pair_check
from meanfield.numeric.lowering.averages.planes import PanelPlan
from meanfield.numeric.lowering.text import interpreting
from meanfield.numeric.lowering.text.helpers import OUTWARDS, TOWARDS, helpers_for
from meanfield.numeric.quadrature.rules import gauss_legendre

MOST = 1000  # edges of a line, as in the text
BLOCK = 40_000  # nodes whose values are in memory at a time


def function(text: str, name: str, plans: Mapping[str, PanelPlan]) -> Callable:
    """The function `name` of generated source; plans: of its quadratures `key_quadrature`, by their names."""
    scope = interpreting.scope_of(helpers_for(text) + text, name)
    for key, plan in plans.items():
        if f"{key}_quadrature" in scope:
            scope[f"{key}_quadrature"] = (_Conditional if any(plan.branches) else _Twice)(scope, key, plan)
    return scope[name]


class _Conditional:
    """A quadrature of `conditional`: `pair_check` has its rule for arrays, which knows no correlation of ±1."""

    def __init__(self, scope: dict[str, Any], key: str, plan: PanelPlan):
        self.text, self.plan = scope[f"{key}_quadrature"], plan

    def __call__(self, K_aa: float, K_ab: float, K_bb: float, sine2: float) -> float:
        size = math.sqrt(K_aa) * math.sqrt(K_bb)
        if not (size > 0.0 and sine2 > 0.0):
            return self.text(K_aa, K_ab, K_bb, sine2)
        c = max(-1.0, min(1.0, K_ab / size))
        return pair_check.average(self.plan, K_aa, K_bb, c, math.sqrt(sine2), finer=False)


class _Twice:
    """A quadrature that runs once to note its lines and once to add them up."""

    def __init__(self, scope: dict[str, Any], key: str, plan: PanelPlan):
        self.scope, self.line, self.plan = scope, f"{key}_line", plan
        self.text, self.nodes = scope[f"{key}_quadrature"], len(scope[f"{key}_X"])

    def __call__(self, *arguments: float) -> float:
        noted: list[tuple] = []

        def note(*given) -> float:
            noted.append(given)
            return 0.0

        self.scope[self.line] = note
        self.text(*arguments)
        values: Iterator[float] = iter(self._lines(noted))
        self.scope[self.line] = lambda *given: next(values)
        return self.text(*arguments)

    def _lines(self, noted: list[tuple]) -> list[float]:
        _, s_a, s_b, sd_m, wide, reach, points, scales, shifts, _, _, *more = noted[0]
        d = np.array([given[0] for given in noted])
        scales = np.array(scales)
        edges = panels(-reach, reach, np.array(points) + np.array(shifts) * d[:, None], scales, wide)
        x, w = gauss_legendre(self.nodes)
        row, panel = np.nonzero(~(np.diff(edges) <= 0))
        total = np.zeros(len(d))
        for low in range(0, len(row), step := BLOCK // self.nodes):
            r, k = row[low : low + step], panel[low : low + step]
            half = 0.5 * (edges[r, k + 1] - edges[r, k])
            m = (edges[r, k] + half)[:, None] + half[:, None] * x
            value = self.plan.values(s_a, s_b, m, d[r][:, None], *more)
            part = half * (w * np.exp(-0.5 * (m / sd_m) ** 2) * value).sum(axis=1)
            total += np.bincount(r, part, len(d))
        return (total * 0.3989422804014327 / sd_m).tolist()


def panels(lo: float, hi: float, points: np.ndarray, scales: np.ndarray, widest: float) -> np.ndarray:
    """Edges from lo to hi, one row for each row of `points`, as the helper `_panels` of the text has them; rows that
    are done repeat hi."""
    at = np.full(len(points), lo)
    edges = [at]
    while (at < hi).any() and len(edges) < MOST:
        ahead = points - at[:, None]
        above = ahead > 0
        near = np.maximum(scales, np.where(above, TOWARDS * ahead, -OUTWARDS * ahead))
        width = np.minimum(near.min(axis=1, initial=np.inf), widest)
        end = np.minimum(np.where(above, points, np.inf).min(axis=1, initial=np.inf), hi)
        reached = at + width
        at = np.where(at < hi, np.where(reached > end - 0.3 * width, end, reached), at)
        edges.append(at)
    edges[0] = np.where(at < hi, np.nan, edges[0])  # as in the text, where there is no room for more
    return np.stack(edges, axis=1)
