r"""Fixed points, phases, diagrams and critical lines where no ball encloses the averages: a `Pool` whose function of
the nodes has them as doubles alone (a formula that does not close; the maximum of a φ that goes up and down).

The block has one Dense, so that K' = σ_w² F(K) + σ_b² + μ²K and χ_J = σ_w² X(K) + μ² with two functions of K. They are
computed on a grid, and at a fixed point again: answers are MEASURED. A pair of fixed points within one step of the grid
is not seen. Errors are those of the averages, carried through the fixed point's own slope.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.base.symbols import sigma_b, sigma_w
from meanfield.networks.records import Block
from meanfield.numeric.lowering.assembly import lower
from meanfield.numeric.phases.maps.float_maps import FLAT, FloatMap, Mapped, Numbers, layer
from meanfield.numeric.phases.maps.scalar_map import GridMap
from meanfield.numeric.phases.neutrality import CurveInK
from meanfield.symbolic.averages.nodes.group_functions import GroupAverage
from meanfield.symbolic.criticality.phases import inside_averages
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.block_recursions import one_dense
from meanfield.symbolic.recursions.naming import describe

GRID = np.logspace(-10, 10, 241)  # of K
SPLINE = 1e-6  # error of values between its points, relative
ENOUGH = 60  # halvings
WHY = "in float64 along a grid of K: a Pool's averages are known as doubles, and not enclosed"


@dataclass(frozen=True)
class SampledMap(FloatMap):
    """F, F′ and X of a block of one Dense, known as doubles."""

    why = WHY

    def require(self, what: str) -> None:
        """Refuse also a map that is not of this form."""
        super().require(what)
        step, chi = self.recursion["K"], self.recursion["J"]
        if chi.has(sp.oo):
            raise MeanFieldError("χ_J is infinite everywhere here: φ or the Pool jumps, and there is no line.")
        nodes = {g: sp.Dummy("g") for e in (step, chi) for g in e.atoms(GroupAverage)}
        flat = sp.expand(step.xreplace(nodes) - (sigma_b**2 if step.has(sigma_b) else 0))  # a batch shares its biases
        mu = [s for s in self.recursion.parameters if s not in (sigma_w, sigma_b) and s.name not in ("Q0", "c0")]
        scaled = sp.expand(flat.subs(sigma_w, 2) - 4 * flat.subs(sigma_w, 1))
        outside = not inside_averages(self.recursion) & {sigma_w, sigma_b}
        linear = outside and not flat.has(sigma_b) and not scaled.has(*nodes.values())
        if not linear or len(mu) > 1 or self.recursion.block.definitions:
            raise MeanFieldError(
                "The limit of K is not known: through a Pool whose averages nothing encloses it is found for "
                "blocks of one Dense with the network's own sigma_w and sigma_b. Follow this one with propagate."
            )

    @cached_property
    def points(self) -> np.ndarray:
        return GRID[0.9 * lower(self.recursion).limit > GRID]

    def maps(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(F, F′, X) at an array of K > 0."""
        return layer(self.recursion, K, {"sigma_w": 1.0})  # without biases, and without the skip

    @cached_property
    def at_points(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same on the grid."""
        return self.maps(self.points)

    @cached_property
    def splines(self):
        """log F and log X (X may fall to 0) as functions of log K."""
        from scipy.interpolate import CubicSpline

        F, _, X = (np.maximum(v, 1e-300) for v in self.at_points)
        return CubicSpline(np.log(self.points), np.log(F)), CubicSpline(np.log(self.points), np.log(X))

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
        logs, parts = np.log(self.points), []
        for at in range(0, start.size, 4096):
            here = slice(at, at + 4096)
            own, first = sigma[:, here], np.log(np.clip(start[here], self.points[0], self.points[-1]))
            signs = self._signs(logs[:, None], own)
            way = self._signs(first, own)
            inside = (logs[:, None] - first) * way > 0
            crossed = inside & (signs == -way)
            j = np.where(way > 0, crossed.argmax(axis=0), logs.size - 1 - crossed[::-1].argmax(axis=0))
            met = crossed.any(axis=0)
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
        return (gain > FLAT).astype(int) - (gain < -FLAT).astype(int)

    def at(self, K: np.ndarray, numbers: Numbers) -> Mapped:
        w, b, mu = (float(v[0]) for v in self._deviations(np.array([[numbers[n]] for n in self.parameters])))
        F, slope, X = self.at_points if K is self.points else self.maps(K)
        made, grown = w * w * F, w * w * X
        return Mapped(
            made + b * b + mu * mu * K, w * w * slope + mu * mu, grown + mu * mu, made * self.error, grown * self.error
        )

    def keeps_zero(self, numbers: Numbers) -> bool:
        flat = self.at_points[0][0] < 1e-3 * math.sqrt(self.points[0])  # F(0) = 0
        return bool(numbers.get("sigma_b", 0) == 0 and flat)

    def line(self, of: str) -> MeasuredLine:
        strength = one_dense(self.block)
        if strength is None or strength.free_symbols:
            raise MeanFieldError(
                "A critical line is not available: through this Pool it is found for a block of one Dense, with a "
                f"number for the skip's strength, but the block is {describe(self.block)}."
            )
        self.require("A critical line is")
        return MeasuredLine(self, float(strength), of)

    def grid(self) -> GridMap:
        self.require("A phase diagram is")
        return self


@lru_cache(maxsize=16)
def sampled(recursion: Recursion, block: Block) -> SampledMap:
    """The map of a (K, J) recursion, sampled once in a process."""
    return SampledMap(recursion, block)


@dataclass(frozen=True, eq=False)
class MeasuredLine(CurveInK):
    """The line χ_J* = 1 (of: "J") or χ_K* = 1 ("K") as a curve in K, by averages that nothing encloses.

    kind: "measured". Points are found by a search over K in [1e-8, 1e8], and MEASURED, with the error of the averages.
    """

    maps: SampledMap
    strength: float
    of: str = "J"
    kind: str = "measured"

    has_points = False  # none are derived from doubles

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
