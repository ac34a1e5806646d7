"""Where the initial guessing bias of one network ends: the record that `Theory.bias` answers with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import sympy as sp

from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError, Solution, Status, one_line
from meanfield.base.answers.terms import Term
from meanfield.bias.class_fraction import ClassFraction
from meanfield.bias.guessing import BiasPhase, phase_of
from meanfield.symbolic.asymptotics.depth import DepthLaw
from meanfield.symbolic.criticality.phases import Phase
from meanfield.symbolic.fixed_points.all_fixed_points import ROUNDED


@dataclass(frozen=True)
class Bias(Result):
    """Where the guessing bias of one network ends; see `Theory.bias`.

    phase: a `BiasPhase`; gamma, c: the limits of γ and of the correlation (NaN where they are not known; the value the
    start decides for `BY_THE_START` is that of the start given, followed in doubles); chi_J: χ_J* of the gradients;
    law: how γ gets there (None where it is not known); status: EXACT or CERTIFIED where the phase is proved, MEASURED
    where float arithmetic decided, UNKNOWN where nothing did, for the reason in `message`.

    >>> found = derive("relu").bias(sigma_w="sqrt(2)", sigma_b=0)
    >>> found.phase.value, found.gamma
    ('transient deep prejudice', inf)
    """

    phase: BiasPhase
    gamma: float
    c: float
    chi_J: Solution
    law: DepthLaw | None
    status: Status
    message: str = ""

    columns = ("phase", "gamma", "c", "chi_J", "status")

    def data(self) -> dict[str, Any]:
        """The phase, γ*, c*, χ_J*, the law of γ and the spread of class fractions as plain values."""
        law = None if math.isnan(self.gamma) else self.fraction()
        fraction = None if law is None else {"std": plain(law.std()), "largest": plain(law.largest())}
        own = {n: plain(getattr(self, n)) for n in ("phase", "gamma", "c", "chi_J", "law")}
        return {**own, "fraction": fraction, "status": self.status.value, "message": self.message}

    def fraction(self, classes: int = 2, inputs: int | None = None) -> ClassFraction:
        """The law of the fraction of inputs that a deep network puts into one class (`ClassFraction` at γ*)."""
        if math.isnan(self.gamma):
            why = self.message.rstrip(".")
            raise MeanFieldError(f"Class fractions are not available: gamma* is not known here: {why}.")
        return ClassFraction(self.gamma, classes, inputs)

    def __repr__(self) -> str:
        return one_line("Bias", f"{self.phase.value}: gamma* = {self.gamma:.10g}, c* = {self.c:.10g}")

    def __str__(self) -> str:
        chi = float(self.chi_J.value) if self.chi_J.value is not sp.nan else float("nan")
        lines = [f"{self.phase.value}: gamma* = {self.gamma:.10g}, c* = {self.c:.10g}, chi_J* = {chi:.10g}"]
        lines += [str(self.law)] if self.law is not None else []
        lines += [f"({self.status.value}: {self.message})"] if self.message else []
        return wrapped("\n".join(lines))


SIDES = {"ordered": -1, "critical": 0, ROUNDED: 0, "subcritical": 0, "chaotic": 1}


def bias_of(phase: Phase, law: DepthLaw | None, why: str, found: Any, grown: bool = False) -> Bias:
    """The bias from where K flows (`phase`), the law of γ (None: `why` not) and, where the correlation settles inside
    (chaotic, K finite), its fixed points `found`; grown: whether the law is one of a growing K, whose γ* no start
    decides."""
    if law is not None and law.regime.endswith("c stays -1"):  # the one start from which an odd φ does not leave
        found = None
    side, point = SIDES.get(phase.name), phase.fixed_point
    K = "oo" if point is None else "0" if point.K.value == 0 else "finite"
    infinite = phase.chi_J.status is Status.NONEXISTENT  # φ jumps, which is proved
    status = phase.status if infinite or phase.status is Status.MEASURED else phase.chi_J.status
    if found is not None:
        stable = found.stable
        if stable is None:
            return Bias(BiasPhase.UNKNOWN, math.nan, math.nan, phase.chi_J, law, Status.UNKNOWN, found.message)
        if stable.gap == 0:
            message = f"the law of gamma is not known: {why.rstrip('.')}" if law is None else found.message
            return Bias(phase_of("oo", side, K), math.inf, 1.0, phase.chi_J, law, found.status, message)
        where = "one" if abs(stable.c - 0.5) <= stable.error else "above" if stable.c > 0.5 else "below"
        message = f"gamma* is 1 within {stable.error:.1e}" if where == "one" else ""
        status = Status.MEASURED if where == "one" else found.status
        return Bias(phase_of(where, side, K), found.gamma, stable.c, phase.chi_J, law, status, message)
    if law is None:
        return Bias(BiasPhase.UNKNOWN, math.nan, math.nan, phase.chi_J, None, Status.UNKNOWN, why)
    lead = law.leading
    if lead.power == 0 and lead.logs == 0 and lead.rate == 0:  # it stays, or ends where the start puts it
        gamma = float(lead.coefficient) if not lead.coefficient.free_symbols else math.nan
        c = gamma / (1 + gamma)
        if grown:
            where = "one" if abs(gamma - 1) <= 1e-12 else "above" if gamma > 1 else "below"
            return Bias(phase_of(where, side, K), gamma, c, phase.chi_J, law, status, law.regime)
        return Bias(phase_of("start", side, K), gamma, c, phase.chi_J, law, status, law.regime)
    if lead.size(sp.oo) < Term(sp.S.One).size(sp.oo):  # c → 0, as of an odd φ whose K grows
        return Bias(phase_of("below", side, K), 0.0, 0.0, phase.chi_J, law, status, law.regime)
    message = phase.message if side is not None else "whether chi_J* is 1 is not decided"
    if phase.to_rounding:
        status, message = Status.MEASURED, "critical to rounding"
    return Bias(phase_of("oo", side, K), math.inf, 1.0, phase.chi_J, law, status, message)
