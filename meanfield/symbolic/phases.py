"""The phase at one place (σ_w, σ_b): where K¹ flows, and χ_J there."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from meanfield.results import MeanFieldError, Solution, Status
from meanfield.symbolic.depth import depth_law
from meanfield.symbolic.expansion import at_infinity
from meanfield.symbolic.fixed_points import (
    FixedPoint,
    destination,
    fixed_points,
    length_of,
    no_chi,
    numeric_maps,
    phase_of,
    short,
    start_of,
)
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbols import K
from meanfield.tex_names import aligned, solution_tex


@dataclass(frozen=True)
class Phase:
    """Where a network with this K¹ ends: name ("ordered", "chaotic", "critical", "undecided"; "subcritical" where χ_J →
    1 so slowly that J still grows as a stretched exponential), the fixed point it flows
    to (None if K grows without bound), χ_J in the limit, and whether other inputs end elsewhere (`bistable`)."""

    name: str
    fixed_point: FixedPoint | None
    chi_J: Solution
    bistable: bool

    @property
    def xi(self) -> float:
        """Correlation length 1/|log χ_J*| in layers."""
        return length_of(self.chi_J)

    def latex(self) -> str:
        """χ_J*, ξ, K* and the name of the phase as LaTeX for math mode (amsmath)."""
        xi = sp.oo if self.xi == float("inf") else sp.Float(self.xi, 10)
        values = [(r"\chi_J^\ast", solution_tex(self.chi_J)), (r"\xi", xi)]
        if self.fixed_point is not None:
            values.append((r"K^\ast", solution_tex(self.fixed_point.K)))
        where = ": K grows without bound" if self.fixed_point is None else ""
        return aligned(values, (f"{self.name}{where}", *(["other input norms end elsewhere"] if self.bistable else [])))

    def __str__(self) -> str:
        where = "K grows without bound" if self.fixed_point is None else f"K* = {short(self.fixed_point.K)}"
        more = "\n  other input norms end elsewhere" if self.bistable else ""
        return f"{self.name}: chi_J* = {short(self.chi_J)}, xi = {self.xi:.10g}, {where}{more}"


def phase_at(recursion: Recursion, values: dict[str, sp.Expr], norm: sp.Expr) -> Phase:
    """The phase at one place, see `Theory.phase`."""
    points = fixed_points(recursion, values)
    step, chi = numeric_maps(recursion, values)
    start = start_of(recursion, values | {"Q0": norm})
    ends = len(points.stable) + (points.unbounded is not None)
    if points and points[0].stability == "neutral":
        here: FixedPoint | None = points[0]
        chi_j = (
            Solution(sp.simplify(closed(chi).subs(K, start)), Status.EXACT) if chi not in (None, sp.oo) else no_chi()
        )
    else:
        here = destination(points, step, start)
        if here is not None:
            chi_j = here.chi_J
        elif chi in (None, sp.oo):
            chi_j = no_chi()
        else:
            law = at_infinity(chi, 1)
            if law.leading.power > 0:
                chi_j = Solution(sp.oo, Status.EXACT, None, "chi_J grows with K")
            else:
                limit = sp.simplify(law.coefficient(0))
                chi_j = Solution(limit, Status.EXACT, None, "the limit at K -> oo")
    name = "chaotic" if chi_j.value == sp.oo else phase_of(chi_j)
    if here is None and name == "critical" and _stretched(recursion, values | {"Q0": norm}):
        name = "subcritical"
    return Phase(name, here, chi_j, ends > 1)


def _stretched(recursion: Recursion, values: dict[str, sp.Expr]) -> bool:
    try:
        law = depth_law(recursion, "J", values)
    except MeanFieldError:
        return False
    return law.rate != 0 and law.rate_power != 1
