"""`PhaseDiagram`: χ_J*, ξ and the phase over a grid of (σ_w, σ_b), with its critical line; to a picture or a file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.base.arguments import finite, refuse_not_real, shown
from meanfield.base.budgets import require_memory
from meanfield.numeric.phases.maps.scalar_map import ScalarMap
from meanfield.symbolic.criticality.critical_lines import CriticalLine
from meanfield.symbolic.criticality.critical_points import CriticalPoints
from meanfield.symbolic.recursions.naming import describe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PHASES = ("ordered", "chaotic", "critical", "unknown")
DOUBLES = 16  # doubles that one point takes while a diagram is computed
SIGMAS = 10  # up to which the last of three rising numbers may be a value as well as a count
EXACTLY = 1e-10  # |χ_J - 1| below this is called critical: the float64 error of χ_J*


@dataclass(frozen=True, eq=False)
class PhaseDiagram(Result):
    """The phases of one architecture; every array has shape (len(sigma_b), len(sigma_w)).

    sigma_w, sigma_b: the axes. K: fixed point that K¹ = σ_w² Q0 + σ_b² flows to (0 where K falls below 1e-30, inf where
    it grows beyond 1e30; whether it stops farther out is a question for `fixed_points`).
    chi_J: χ_J there (its limit where K is inf). phase: index into `PHASES`; critical means
    χ_J* = 1, where J may still grow or fall as a power or a stretched exponential. attractors: number of attracting
    states of K, 0 and ∞ included; more than one is bistability. line, points: the critical line and points, where they
    are derived. Accuracy: float64; a pair of fixed points within 1/24 decade of K is not resolved.

    >>> found = derive("erf").phase_diagram(sigma_w=[0.8, 1.5], sigma_b=[0.1])
    >>> found.chi_J.round(4)
    array([[0.7557, 1.2359]])
    """

    title: str
    sigma_w: np.ndarray
    sigma_b: np.ndarray
    input_norm: float
    K: np.ndarray
    chi_J: np.ndarray
    attractors: np.ndarray
    line: CriticalLine | None
    points: CriticalPoints | None
    parameters: dict[str, float]

    @cached_property
    def phase(self) -> np.ndarray:
        gap = self.chi_J - 1
        known = np.where(np.abs(gap) <= EXACTLY, 2, np.where(gap > 0, 1, 0))
        return np.where(np.isnan(gap), 3, known).astype(np.int8)

    @property
    def xi(self) -> np.ndarray:
        """Correlation length ξ = 1/|log χ_J*| in layers (inf at criticality)."""
        with np.errstate(divide="ignore"):
            size = np.abs(np.log(self.chi_J))
            return np.where(self.phase == 2, np.inf, 1 / size)

    @property
    def bistable(self) -> np.ndarray:
        """Where more than one state of K attracts, so that the phase depends on the norm of the input."""
        return self.attractors > 1

    def plot(self, ax: Axes | None = None) -> Axes:
        """The diagram: colour log χ_J*, the critical line, the critical points, bistable regions
        hatched."""
        from meanfield.presentation import figures

        return figures.plot_phase_diagram(self, ax)

    def arrays(self) -> Arrays:
        """K, χ_J*, ξ, the phase by its name and the number of attracting states over σ_b and σ_w."""
        columns = {n: (PLANE, getattr(self, n)) for n in ("K", "chi_J", "xi", "attractors")}
        columns["phase"] = PLANE, np.array(PHASES, dtype=object)[self.phase]
        return Arrays(plane(self), columns, {"title": self.title, "input_norm": self.input_norm})

    def data(self) -> dict[str, Any]:
        """Axes and arrays as lists, the phase of each point by its name, the line and the critical points."""
        return plane_data(self)

    def __repr__(self) -> str:
        return one_line("PhaseDiagram", f"{self.title}; {self.sigma_w.size} x {self.sigma_b.size} points")

    def __str__(self) -> str:
        share = {p: float((self.phase == i).mean()) for i, p in enumerate(PHASES)}
        parts = ", ".join(f"{p} {100 * s:.3g} %" for p, s in share.items() if s)
        more = f", bistable {100 * float(self.bistable.mean()):.3g} %" if self.bistable.any() else ""
        return wrapped(
            f"{self.title}: sigma_w {self.sigma_w[0]:g} to {self.sigma_w[-1]:g} ({self.sigma_w.size}), "
            f"sigma_b {self.sigma_b[0]:g} to {self.sigma_b[-1]:g} ({self.sigma_b.size}): {parts}{more}"
        )


PLANE = ("sigma_b", "sigma_w")


def plane(diagram: Any) -> dict[str, Any]:
    """The axes of a diagram as coordinates."""
    return {name: ((name,), getattr(diagram, name)) for name in PLANE}


def plane_data(diagram: Any) -> dict[str, Any]:
    """A diagram as plain values."""
    found = diagram.arrays()
    held = {name: plain(values) for name, (_, values) in found.every.items()}
    return {**found.attrs, **held, "line": plain(diagram.line), "critical_points": plain(diagram.points)}


def axis(name: str, given: object) -> np.ndarray:
    """(low, high, count) or an array of values ≥ 0 as the axis of a diagram.

    A tuple of three is (low, high, count), the count a whole number; three values are written as a list, and three
    rising numbers up to `SIGMAS`, which could be either, are refused.
    """
    refuse_not_real(given, name)
    try:
        if isinstance(given, tuple) and len(given) == 3:
            values = _evenly(name, given)
        else:
            values = np.asarray(given, dtype=float)
    except MeanFieldError:
        raise
    except (TypeError, ValueError, OverflowError):
        values = np.array([np.nan])
    if values.ndim != 1 or values.size < 1 or not np.isfinite(values).all() or (values < 0).any():
        raise MeanFieldError(
            f"{name} must be (low, high, count) or an array of numbers ≥ 0, but {shown(given)} was given."
        )
    return values


def _evenly(name: str, given: tuple) -> np.ndarray:
    """`count` numbers from low to high."""
    low, high, last = (float(v) for v in given)
    counted = not isinstance(given[2], float | np.floating) and math.isfinite(last) and last == int(last) >= 1
    as_list = shown(list(given))
    if math.isfinite(last) and (not counted or (last == 1 and low != high)):
        raise MeanFieldError(
            f"{name}={shown(given)} is read as (low, high, count), and {given[2]} is no number of points from "
            f"{low:g} to {high:g}; give a whole number ≥ 2, or three values as a list, {as_list}."
        )
    if 0 <= low < high < last <= SIGMAS:
        raise MeanFieldError(
            f"{name}={shown(given)} could be three values or {int(last)} numbers from {low:g} to {high:g}; write the "
            f"first as a list, {as_list}, and the second as numpy.linspace{shown(given)}."
        )
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(last)):
        return np.array([np.nan])
    require_memory(8.0 * DOUBLES * last, f"An axis of {int(last)} values of {name}", "take fewer values")
    return np.linspace(low, high, int(last))


def phase_diagram(
    one: ScalarMap,
    sigma_w: object,
    sigma_b: object,
    input_norm: float,
    parameters: dict[str, float],
    line: CriticalLine | None,
    points: CriticalPoints | None,
) -> PhaseDiagram:
    """The diagram of a map; see `Theory.phase_diagram`."""
    from meanfield.numeric.phases.phase_grids import GRID
    from meanfield.numeric.run.depth_iteration import first_value

    w, b = axis("sigma_w", sigma_w), axis("sigma_b", sigma_b)
    norm = finite(input_norm, "input_norm")
    if norm <= 0:
        raise MeanFieldError(f"input_norm must be > 0, but {input_norm!r} was given.")
    if w.size * b.size > 2**26:
        raise MeanFieldError(
            f"A diagram of {w.size} × {b.size} points is not available: at most 2^26 are computed at once."
        )
    require_memory(
        8.0 * DOUBLES * w.size * b.size, f"A diagram of {w.size} × {b.size} points", "take fewer values of σ_w or σ_b"
    )
    compiled = one.grid()
    missing = [n for n in compiled.parameters if n not in ("sigma_w", "sigma_b", *parameters)]
    if missing:
        raise MeanFieldError(f"{missing[0]} has no value; give it as a keyword ({missing[0]}=...).")
    W, B = np.meshgrid(w, b)
    values = {"sigma_w": W.ravel(), "sigma_b": B.ravel()}
    sigma = np.empty((max(1, len(compiled.parameters)), W.size))
    for i, n in enumerate(compiled.parameters):
        sigma[i] = values[n] if n in values else finite(parameters[n], n)
    first = first_value(one.recursion.start["K"], parameters | values | {"Q0": norm})
    start = np.maximum(np.broadcast_to(first, W.size), GRID[0])
    if not start.max() < GRID[-1]:
        raise MeanFieldError(
            f"K¹ = σ_w² Q0 + σ_b² reaches {start.max():.3g} here, and a diagram follows K up to {GRID[-1]:.0e} only; "
            "ask for smaller sigma_w and sigma_b, or fixed_points(...) at single places."
        )
    K, chi, attractors = compiled.run(start, sigma)
    shape, title = W.shape, describe(one.block)
    return PhaseDiagram(
        title, w, b, norm, K.reshape(shape), chi.reshape(shape), attractors.reshape(shape), line, points, parameters
    )
