r"""The line in the (σ_w, σ_b) plane on which the correlation of two inputs settles at a given c, ½ unless said.

At c* = ½ (γ = 1) the fraction of inputs that a random network puts into one of two classes is uniform: above the line
it is neutral, below prejudiced. For a block with one Dense, K = σ_w²F + σ_b² + μ²K and cK = σ_w²G + σ_b² + μ²cK with
F = ⟨f²⟩_K, G = ⟨f_a f_b⟩ at correlation c are linear in (σ_w², σ_b²): the line is a curve in K, as the critical line
(c → 1) is. Source: derived here; [bias_and_trainability] Fig. 3 has tanh's by a scan.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy as sp

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.export import Result
from meanfield.base.answers.results import MeanFieldError, Solution, Status, one_line
from meanfield.base.arguments import whole
from meanfield.numeric.phases.float_roots import zeros
from meanfield.numeric.run.depth_iteration import propagate
from meanfield.symbolic.criticality.small_bias import inverted, neutrality_powers
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.series.asymptotic_law import Law

GRID = np.logspace(-8, 8, 321)  # of K, on which changes of sign are looked for
ERROR = 1e-12  # relative, of points on the line: what is left of averages that hold 1e-13


class CurveInK(Result):
    """A curve in the (σ_w, σ_b) plane whose parameter is the fixed point K."""

    grid = GRID

    @property
    def error(self) -> float:
        """Of points on the line, relative."""
        return ERROR

    def squares(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(σ_w², σ_b²) along the line at an array of K > 0; σ_b² < 0 where no bias would do."""
        raise NotImplementedError

    def arrays(self) -> Arrays:
        """σ_w and σ_b over the fixed point K, NaN where no bias would do."""
        with np.errstate(all="ignore"):
            w, b = (np.sqrt(v) for v in self.squares(self.grid))
        columns = {"sigma_w": np.where(np.isnan(b), b, w), "sigma_b": b}
        return Arrays({"K": (("K",), self.grid)}, {n: (("K",), v) for n, v in columns.items()}, {})

    def at(self, K: object) -> tuple[float, float]:
        """(σ_w, σ_b) of the point whose fixed point is K. Raises: MeanFieldError where σ_b² would be negative."""
        k = _positive(K, "K")
        w2, b2 = (float(v[0]) for v in self.squares(np.array([k])))
        if not b2 >= -self.error * k:
            raise MeanFieldError(f"At K = {k:.6g} the line would need σ_b² = {b2:.6g} < 0.")
        return w2**0.5, max(b2, 0.0) ** 0.5

    def sigma_w_at(self, sigma_b: object) -> tuple[tuple[Solution, Solution], ...]:
        """((σ_w, K*), …) of the points with this σ_b > 0, by increasing K*, found by a search over K in [1e-8, 1e8]."""
        return self._meets(_positive(sigma_b, "sigma_b"), known=1, wanted=0)

    def sigma_b_at(self, sigma_w: object) -> tuple[tuple[Solution, Solution], ...]:
        """((σ_b, K*), …) of the points with this σ_w > 0, by increasing K*, found by a search over K in [1e-8, 1e8]."""
        return self._meets(_positive(sigma_w, "sigma_w"), known=0, wanted=1)

    def _meets(self, value: float, known: int, wanted: int) -> tuple[tuple[Solution, Solution], ...]:
        def off(log_K: np.ndarray) -> np.ndarray:
            return self.squares(np.exp(np.atleast_1d(log_K)))[known] - value**2

        out = []
        for k in np.exp(zeros(off, np.log(self.grid))):
            square = float(self.squares(np.array([k]))[wanted][0])
            if square >= 0:
                where = f"found by a search over K in [{self.grid[0]:g}, {self.grid[-1]:g}]"
                number, place = float(square**0.5), float(k)
                out.append(
                    (
                        Solution(number, Status.MEASURED, self.error * number, where),
                        Solution(place, Status.MEASURED, self.error * place, where),
                    )
                )
        return tuple(out)


@dataclass(frozen=True, eq=False)
class CorrelationLine(CurveInK):
    """Where c* = c, as a curve in K; see `Theory.neutrality_line`.

    recursion: of (K, K_ab, distance), linear in (σ_w², σ_b²); strength: μ of the skip; c: the correlation.
    """

    recursion: Recursion
    strength: float
    c: float = 0.5
    exact: tuple[sp.Expr, sp.Expr, sp.Expr] | None = None  # (f, c, 1 - μ²), where f is a function of one Gaussian

    def near_zero(self, order: int = 2) -> Law:
        """σ_w² along the line as σ_b² → 0, `order` terms of a series in powers of σ_b², for φ that is smooth at 0.

        >>> from meanfield import derive
        >>> derive("tanh").neutrality_line().near_zero().terms[1].coefficient
        2*2**(1/3)
        """
        order = whole(order, "order", 1, 6)
        if self.exact is None:
            raise MeanFieldError(
                "The line at small sigma_b is not available: it is expanded for blocks without a Pool."
            )
        return inverted(*neutrality_powers(*self.exact, order), order)

    def squares(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(σ_w², σ_b²) along the line at an array of K > 0; σ_b² < 0 where no bias would do."""
        K = np.asarray(K, dtype=float)
        distance = 2 * K * (1 - self.c)
        run = propagate(
            self.recursion, sigma_w=1.0, sigma_b=0.0, depth=2, start={"K": K, "distance": distance}
        )  # one layer with unit weights: F + μ²K, and how far apart it puts the two
        kept = 1 - self.strength**2
        with np.errstate(all="ignore"):
            moved = np.exp(run.values["log_distance"][..., 1]) - self.strength**2 * distance
            w2 = kept * distance / moved
            return w2, kept * K - w2 * (run.values["K"][..., 1] - self.strength**2 * K)

    def __repr__(self) -> str:
        return one_line("CorrelationLine", f"c* = {self.c:g}, a curve in K")


def _positive(value: object, name: str) -> float:
    from meanfield.functions.reading.parser import number

    found = float(number(value, name))
    if not found > 0:
        raise MeanFieldError(f"{name} must be a number > 0, but {value} was given.")
    return found
