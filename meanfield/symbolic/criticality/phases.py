"""The phase at one place (σ_w, σ_b): where K¹ flows, and χ_J there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.latex import aligned, solution_tex
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError, Solution, Status, one_line
from meanfield.base.symbols import K
from meanfield.symbolic.asymptotics.depth import depth_law
from meanfield.symbolic.averages.base import nodes_in
from meanfield.symbolic.averages.expansions.expansion import at_infinity
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.fixed_points.all_fixed_points import (
    ROUNDED,
    FixedPoint,
    FixedPoints,
    destination,
    fixed_points,
    no_chi,
    numeric_maps,
    short,
    short_chi,
    start_of,
)
from meanfield.symbolic.fixed_points.marginality import length_of, phase_of
from meanfield.symbolic.recursion import Recursion, closed


@dataclass(frozen=True)
class Phase(Result):
    """Where a network with this K¹ ends: name ("ordered", "chaotic", "critical", "undecided"; "subcritical" where χ_J →
    1 so slowly that J still grows as a stretched exponential; "critical to rounding" where χ_J - 1 changes sign
    within two units in the last place of the doubles given), the fixed point it flows
    to (None if K grows without bound), χ_J in the limit, and whether other inputs end elsewhere (`bistable`).

    status: CERTIFIED where it is proved that K flows there (and that other inputs do or do not end elsewhere); MEASURED
    where a search could have missed a pair of fixed points, for the reason in `message`. tokens: how 1 - c of two
    tokens goes, where attention lets them act on each other; they come together in the ordered phase, and χ_J is the
    growth of their distance. This is derived of tokens that start nearly alike, and status is then MEASURED. of: what K
    stands for where it is not itself: "K - K_ab" behind a BatchNorm.

    >>> found = derive("erf").phase(sigma_w=1.5, sigma_b=0.1)
    >>> found.name, f"{found.chi_J:.6f}", f"{found.xi:.4f}"
    ('chaotic', '1.235937', '4.7208')
    """

    name: str
    fixed_point: FixedPoint | None
    chi_J: Solution
    bistable: bool
    status: Status = Status.CERTIFIED
    message: str = ""
    tokens: str = ""
    of: str = ""

    columns = ("name", "chi_J", "xi", "bistable", "status")

    def data(self) -> dict[str, Any]:
        """The phase, K* ("inf" where K grows without bound), χ_J*, ξ and what is known of them, as plain values."""
        return {
            "name": self.name,
            "K": "inf" if self.fixed_point is None else self.fixed_point.K.data(),
            **{n: plain(getattr(self, n)) for n in ("chi_J", "xi", "bistable", "status", "message")},
            **{n: getattr(self, n) for n in ("tokens", "of") if getattr(self, n)},
        }

    @property
    def xi(self) -> float:
        """Correlation length 1/|log χ_J*| in layers; NaN where it is not decided whether χ_J* is 1."""
        return float("inf") if self.to_rounding else length_of(self.chi_J)

    @property
    def to_rounding(self) -> bool:
        """Whether only the last bits of the doubles given keep it off the critical line; text is exact."""
        return self.name == ROUNDED

    def __repr__(self) -> str:
        return one_line("Phase", str(self).splitlines()[0])

    def latex(self) -> str:
        """χ_J*, ξ, K* and the name of the phase as LaTeX for math mode (amsmath)."""
        xi = sp.oo if self.xi == float("inf") else sp.nan if self.xi != self.xi else sp.Float(self.xi, 10)
        values = [(r"\chi_J^\ast", solution_tex(self.chi_J)), (r"\xi", xi)]
        if self.fixed_point is not None:
            values.append((r"(K - K_{ab})^\ast" if self.of else r"K^\ast", solution_tex(self.fixed_point.K)))
        where = ": K grows without bound" if self.fixed_point is None else ""
        return aligned(values, (f"{self.name}{where}", *(["other input norms end elsewhere"] if self.bistable else [])))

    def __str__(self) -> str:
        where = "K grows without bound" if self.fixed_point is None else f"K* = {short(self.fixed_point.K)}"
        more = "\n  other input norms end elsewhere" if self.bistable else ""
        if self.to_rounding:
            more += "\n  chi_J* - 1 changes sign within 2 ulp of the floats given; text such as 'sqrt(2)' is exact"
        if self.tokens:
            more += f"\n  {self.tokens}"
        if self.of:
            more += f"\n  K stands for {self.of}"
        if self.status is Status.MEASURED:
            more += f"\n  (measured: {self.message})"
        return wrapped(f"{self.name}: chi_J* = {short_chi(self.chi_J)}, xi = {self.xi:.10g}, {where}{more}")


def phase_at(recursion: Recursion, values: dict[str, sp.Expr], norm: sp.Expr) -> Phase:
    """The phase at one place, see `Theory.phase`."""
    points = fixed_points(recursion, values)
    step, chi = numeric_maps(recursion, values)
    start = start_of(recursion, values | {"Q0": norm})
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
            limit = _limit(chi)
            message = "chi_J grows with K" if limit == sp.oo else "the limit at K -> oo"
            chi_j = Solution(sp.simplify(limit), Status.EXACT, None, message)
    found = phase_among(points, here, chi_j)
    if here is None and found.name == "critical" and _stretched(recursion, values | {"Q0": norm}):
        return replace(found, name="subcritical")
    return found


def phase_among(points: FixedPoints, here: FixedPoint | None, chi_J: Solution) -> Phase:
    """The phase where K¹ flows to `here` of these fixed points, to infinity for None, and χ_J becomes `chi_J`."""
    if points.status is Status.MEASURED and chi_J.status in (Status.EXACT, Status.CERTIFIED):
        chi_J = replace(chi_J, status=Status.MEASURED, message=points.message)
    sure = Status.MEASURED if points.status is Status.MEASURED else Status.CERTIFIED
    return Phase(phase_of(chi_J), here, chi_J, points.ends > 1, sure, points.message)


def _limit(chi: sp.Expr) -> sp.Expr:
    """χ_J as K → ∞. Raises: MeanFieldError where it is not known."""
    try:
        if (limit := at_infinity(chi, 1).limit) is not sp.nan:
            return limit
        reason = f"chi_J = {chi}."
    except MeanFieldError as error:
        reason = str(error)
    raise MeanFieldError(
        "The phase is not available: K grows without bound here, and the limit of chi_J as K -> oo is not known; "
        f"propagate(...) gives J layer by layer. {reason}"
    )


def _stretched(recursion: Recursion, values: dict[str, sp.Expr]) -> bool:
    try:
        law = depth_law(recursion, "J", values)
    except MeanFieldError:
        return False
    return law.rate != 0 and law.rate_power != 1


def inside_averages(recursion: Recursion) -> set[sp.Symbol]:
    """The symbols that averages are taken at: K alone where σ_w and σ_b stand before them; these, too, where a Dense
    stands before a Pool, as a Gate's own does."""
    return set().union(*[n.free_symbols for step in recursion.steps for e in step.expressions for n in nodes_in(e)])


def moves_with_K(recursion: Recursion) -> bool:
    """Whether an average of the maps has a parameter that moves with K, the mean or the scale of a LayerNorm."""
    nodes = {a for step in recursion.steps for e in step.expressions for a in e.atoms(Average)}
    return any(K in sp.sympify(p).free_symbols for a in nodes for p in a.args[3])
