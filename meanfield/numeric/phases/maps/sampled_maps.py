r"""Fixed points, phases, diagrams and critical lines where no ball encloses the averages: a `Pool` whose function of
the nodes has them as doubles alone (a formula that does not close; the maximum of a φ that goes up and down).

The block has one Dense, so that K' = σ_w² F(K) + σ_b² + μ²K and χ_J = σ_w² X(K) + μ² with two functions of K. They are
computed on a grid, and at a fixed point again: answers are MEASURED. A pair of fixed points within one step of the grid
is not seen. Errors are those of the averages, carried through the fixed point's own slope.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Solution, Status, one_line
from meanfield.base.symbols import sigma_b, sigma_w
from meanfield.networks.records import Block
from meanfield.numeric.lowering.assembly import lower
from meanfield.numeric.phases.float_roots import between
from meanfield.numeric.phases.maps.scalar_map import Grid, ScalarMap, Values
from meanfield.numeric.phases.neutrality import CurveInK
from meanfield.symbolic.averages.nodes.group_functions import Group
from meanfield.symbolic.criticality.phases import Phase
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoint, FixedPoints, start_of
from meanfield.symbolic.fixed_points.marginality import phase_of
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.block_recursions import one_dense
from meanfield.symbolic.recursions.naming import describe

GRID = np.logspace(-10, 10, 241)  # of K
SPLINE = 1e-6  # error of values between its points, relative
ENOUGH = 60  # halvings
WHY = "in float64 along a grid of K: a Pool's averages are known as doubles, and not enclosed"


@dataclass(frozen=True)
class SampledMap(ScalarMap):
    """F, F′ and X of a block of one Dense, known as doubles."""

    def _require(self, what: str) -> None:
        """Refuse a map that changes from layer to layer (`what` needs it to stay), or that is not of this form."""
        self.recursion.homogeneous(what, enclosed=False)
        step, chi = self.recursion["K"], self.recursion["J"]
        if chi.has(sp.oo):
            raise MeanFieldError("χ_J is infinite everywhere here: φ or the Pool jumps, and there is no line.")
        nodes = {g: sp.Dummy("g") for e in (step, chi) for g in e.atoms(Group)}
        flat = sp.expand(step.xreplace(nodes) - sigma_b**2)
        mu = [s for s in self.recursion.parameters if s not in (sigma_w, sigma_b) and s.name not in ("Q0", "c0")]
        scaled = sp.expand(flat.subs(sigma_w, 2) - 4 * flat.subs(sigma_w, 1))
        linear = not flat.has(sigma_b) and not scaled.has(*nodes.values())
        if not linear or len(mu) > 1 or self.recursion.block.lets:
            raise MeanFieldError(
                "The limit of K is not known: through a Pool whose averages nothing encloses it is found for "
                "blocks of one Dense with the network's own sigma_w and sigma_b. Follow this one with propagate."
            )

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.recursion.parameters if p.name not in ("Q0", "c0"))

    @cached_property
    def error(self) -> float:
        """Of the averages, relative."""
        return max(lower(self.recursion).errors, default=0.0) + 1e-13

    @cached_property
    def places(self) -> np.ndarray:
        return GRID[0.9 * lower(self.recursion).limit > GRID]

    def maps(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(F, F′, X) at an array of K > 0."""
        h, K = 1e-3, np.asarray(K, dtype=float)
        places = np.stack([K * (1 + k * h) for k in (-2, -1, 0, 1, 2)])
        lowered = lower(self.recursion)
        state = np.zeros((places.size, len(self.recursion.state)))  # log J = 0
        state[:, self.recursion.index("K")] = places.ravel()
        # without biases, and without the skip
        sigma = np.array([np.full(places.size, float(n == "sigma_w")) for n in lowered.parameters])
        after = lowered.step(state, sigma).reshape(*places.shape, -1)
        F, X = after[..., self.recursion.index("K")], np.exp(after[..., self.recursion.index("J")])
        return F[2], (8 * (F[3] - F[1]) - (F[4] - F[0])) / (12 * h * K), X[2]

    @cached_property
    def at_places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same on the grid."""
        return self.maps(self.places)

    @cached_property
    def splines(self):
        """log F and log X (X may fall to 0) as functions of log K."""
        from scipy.interpolate import CubicSpline

        F, _, X = (np.maximum(v, 1e-300) for v in self.at_places)
        return CubicSpline(np.log(self.places), np.log(F)), CubicSpline(np.log(self.places), np.log(X))

    def _gain(self, log_K: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        """K'/K - 1 by the splines."""
        w, b, mu = self._deviations(sigma)
        return w**2 * np.exp(self.splines[0](log_K) - log_K) + b**2 * np.exp(-log_K) + mu**2 - 1

    def _deviations(self, sigma: np.ndarray) -> list[np.ndarray]:
        own = dict(zip(self.parameters, sigma))
        rest = [v for n, v in own.items() if n not in ("sigma_w", "sigma_b")]
        zero = np.zeros(sigma.shape[1])
        return [own.get("sigma_w", zero), own.get("sigma_b", zero), rest[0] if rest else zero]

    def run(self, start: np.ndarray, sigma: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(K*, χ_J*, number of attracting states) for points with K¹ = start and parameters sigma (rows)."""
        logs, parts = np.log(self.places), []
        for at in range(0, start.size, 4096):
            here = slice(at, at + 4096)
            own, first = sigma[:, here], np.log(np.clip(start[here], self.places[0], self.places[-1]))
            signs = self._signs(logs[:, None], own)
            way = self._signs(first, own)
            inside = (logs[:, None] - first) * way > 0
            turned = inside & (signs == -way)
            j = np.where(way > 0, turned.argmax(axis=0), logs.size - 1 - turned[::-1].argmax(axis=0))
            met = turned.any(axis=0)
            low, high = np.where(way == 0, first, logs[np.clip(j - way, 0, logs.size - 1)]), logs[j]
            low = np.where((first - low) * way > 0, first, low)  # K¹ lies in the very cell
            for _ in range(ENOUGH):
                middle = 0.5 * (low + high)
                same = self._signs(middle, own) == way
                low, high = np.where(same, middle, low), np.where(same, high, middle)
            log_K = np.where(way == 0, first, np.where(met, low, np.where(way > 0, logs[-1], logs[0])))
            w, _, mu = self._deviations(own)
            chi = w**2 * np.exp(self.splines[1](log_K)) + mu**2
            K = np.where((way == 0) | met, np.exp(log_K), np.where(way > 0, math.inf, 0.0))
            ends = np.ones((1, w.size))  # K rises from 0, and comes back from ∞, where nothing attracts
            closed = np.concatenate([ends, signs, -ends])
            parts.append((K, chi, (np.diff(closed, axis=0) < 0).sum(axis=0)))
        K, chi, count = (np.concatenate(v) for v in zip(*parts))
        return K, chi, count.astype(np.int64)

    def _signs(self, log_K: np.ndarray, sigma: np.ndarray) -> np.ndarray:
        gain = self._gain(log_K, sigma)
        return (gain > 1e-12).astype(int) - (gain < -1e-12).astype(int)

    # ------------------------------------------------------------------------------------------------ at one place

    def fixed_points(self, values: Values, units: Mapping[str, Any]) -> FixedPoints:
        """Every fixed point that the grid shows."""
        self._require("Fixed points are")
        sigma = self._numbers(values)
        w, b, mu = (float(v[0]) for v in self._deviations(sigma))
        logs = np.log(self.places)
        signs = self._signs(logs, sigma)
        found: list[tuple[FixedPoint, float]] = []
        if b == 0 and self.at_places[0][0] < 1e-3 * math.sqrt(self.places[0]):  # F(0) = 0
            _, slope, X = (float(v[0]) for v in self.at_places)
            down = bool(signs[0] < 0)
            zero = Solution(sp.S.Zero, Status.MEASURED, None, WHY)
            chis = _value(w * w * X + mu * mu, 10 * self.error), _value(w * w * slope + mu * mu, 10 * self.error)
            found.append((FixedPoint(zero, *chis, "stable" if down else "unstable"), 0.0))
        for i in map(int, np.flatnonzero(signs[:-1] * signs[1:] < 0)):
            point = self._refined(float(logs[i]), float(logs[i + 1]), int(signs[i]), (w, b, mu))
            found.append((point, float(point.K.value)))
        kept, ends = [], [sp.S.Zero, *[point.K.value for point, k in found if k], sp.oo]
        first = 1 if not found or found[0][1] else 0  # K* = 0 is the first end itself
        for n, (point, _) in enumerate(found, first):
            basin = (ends[max(n - 1, 0)], ends[n + 1]) if point.stability == "stable" else None
            kept.append(FixedPoint(point.K, point.chi_J, point.chi_K, point.stability, basin))
        free = (ends[-2], sp.oo) if signs[-1] > 0 else None
        return FixedPoints(tuple(kept), Status.MEASURED, WHY, free)

    def phase(self, values: Values, norm: sp.Expr, units: Mapping[str, Any]) -> Phase:
        """Where K¹ flows."""
        self._require("The phase is")
        first = float(start_of(self.recursion, self.known(values) | {"Q0": norm}))
        found = self.fixed_points(values, units)
        point = found.reached_from(sp.Float(first, 17))
        several = found.ends > 1
        if point is None:
            w, _, mu = (float(v[0]) for v in self._deviations(self._numbers(values)))
            chi = _value(w * w * float(self.at_places[2][-1]) + mu * mu, 1e-4)
            return Phase(phase_of(chi), None, chi, several, Status.MEASURED, WHY)
        return Phase(phase_of(point.chi_J), point, point.chi_J, several, Status.MEASURED, WHY)

    def line(self, of: str) -> MeasuredLine:
        strength = one_dense(self.block)
        if strength is None or strength.free_symbols:
            raise MeanFieldError(
                "A critical line is not available: through this Pool it is found for a block of one Dense, with a "
                f"number for the skip's strength, but the block is {describe(self.block)}."
            )
        self._require("A critical line is")
        return MeasuredLine(self, float(strength), of)

    def grid(self) -> Grid:
        self._require("A phase diagram is")
        return self

    def _numbers(self, values: Values) -> np.ndarray:
        missing = [n for n in self.parameters if n not in values or not values[n].is_number]
        if missing:
            raise MeanFieldError(f"The limit of K is not known: give {' and '.join(missing)} a value.")
        return np.array([[float(values[n])] for n in self.parameters])

    def _refined(self, low: float, high: float, sign: int, deviations: tuple[float, float, float]) -> FixedPoint:
        w, b, mu = deviations

        def gain(log_K: float) -> float:
            k = math.exp(log_K)
            return (w * w * float(self.maps(np.array([k]))[0][0]) + b * b) / k + mu * mu - 1

        K = math.exp(between(gain, low, high))
        F, slope, X = (float(v[0]) for v in self.maps(np.array([K])))
        chi_K = w * w * slope + mu * mu
        off = w * w * F * self.error / max(abs(1 - chi_K), 1e-12)
        near = self.maps(np.array([K + min(off, 0.1 * K)]))[2][0] if off else X
        error_J = w * w * (X * self.error + abs(float(near) - X))
        return FixedPoint(
            _value(K, off), _value(w * w * X + mu * mu, error_J),
            _value(chi_K, 10 * self.error * max(abs(chi_K), w * w * F / K)), "stable" if sign > 0 else "unstable",
        )  # fmt: skip


@lru_cache(maxsize=16)
def sampled(recursion: Recursion, block: Block) -> SampledMap:
    """The map of a (K, J) recursion, sampled once in a process."""
    return SampledMap(recursion, block)


def _value(value: float, error: float) -> Solution:
    return Solution(sp.Float(value, 17), Status.MEASURED, error, WHY)


@dataclass(frozen=True, eq=False)
class MeasuredLine(CurveInK):
    """The line χ_J* = 1 (of: "J") or χ_K* = 1 ("K") as a curve in K, by averages that nothing encloses.

    kind: "measured". Points are found by a search over K in [1e-8, 1e8], and MEASURED, with the error of the averages.
    """

    maps: SampledMap
    strength: float
    of: str = "J"
    kind: str = "measured"

    @property
    def error(self) -> float:
        return 10 * self.maps.error

    def squares(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(σ_w², σ_b²) along the line at an array of K > 0; σ_b² < 0 where no bias would do."""
        K = np.asarray(K, dtype=float)
        F, slope, X = self.maps.maps(K)
        kept = 1 - self.strength**2
        with np.errstate(all="ignore"):
            w2 = kept / (X if self.of == "J" else slope)
            return w2, kept * K - w2 * F

    def __repr__(self) -> str:
        return one_line("MeasuredLine", f"chi_{self.of} = 1, a curve in K")

    def __str__(self) -> str:
        return (
            "critical line: sigma_w and sigma_b by the fixed point K, measured (ask at(K), sigma_w_at(sigma_b))\n"
            f"  ({WHY})"
        )
