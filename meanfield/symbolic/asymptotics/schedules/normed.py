r"""Large-depth laws of pre-norm blocks, l counting blocks: a LayerNorm on preactivations stands before φ,

    K → K + σ_v² l^{-β_v} ⟨φ²⟩_q + σ_a² l^{-β_a},    J → J (1 + S l^{-V} ⟨φ′²⟩_q / N),    S = σ_v²σ_w², V = β_v + β_w.

Before the inner Dense (or without one) q = σ_w² l^{-β_w} + σ_b² l^{-β_b} and N = K; after it q = 1 and N is the
variance that is divided away, σ_w² l^{-β_w} K + σ_b² l^{-β_b}. The branch does not depend on K, so that K is a
sum of sources and log J one of S l^{-V}⟨φ′²⟩_q/N, which is at most of the order of log K: J is a power of l or of
log l, or bounded.
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from meanfield.symbolic.asymptotics.comparing import added
from meanfield.symbolic.asymptotics.exponent_cells import Undecided
from meanfield.symbolic.asymptotics.log_growth import Growth, regular
from meanfield.symbolic.asymptotics.schedules.regimes import Regime
from meanfield.symbolic.asymptotics.schedules.residual import Solver


def regimes(solver: Solver) -> list[Regime]:
    """Every attracting behaviour of a branch, with a LayerNorm in it or without."""
    return [normed(solver)] if solver.branch.norm else solver.regimes()


def normed(solver: Solver) -> Regime:
    """The one behaviour of a pre-norm block."""
    branch, first = solver.branch, solver.branch.norm == "first"
    q = _inside(solver) if first else None
    square, slope, rough = _averages(solver, q)
    v = branch.v
    K_ = solver.from_sources(sp.S.Zero, solver.source_a(), square * regular(v.size, -v.beta))
    across = solver.variance(K_)  # the variance inside, before a LayerNorm there
    if q is None:
        q, N = across, across
    else:
        N = K_
    J_ = None
    if slope is not None:
        J_ = solver.tangent(slope * regular(solver.S, -solver.V) / N)
        J_ = replace(J_, leading=J_.leading or (rough and bool(J_.terms)))
    return Regime(K_, q, square, slope, J_, "behind LayerNorm: sources alone", drive="normed")


def _inside(solver: Solver) -> Growth:
    """q = σ_w² l^{-β_w} + σ_b² l^{-β_b}."""
    w, b = solver.branch.w, solver.branch.b
    return added([regular(one.size, -one.beta) for one in (w, b) if one is not None], solver.oracle)


def _averages(solver: Solver, q: Growth | None) -> tuple[Growth, Growth | None, bool]:
    """⟨φ²⟩_q and ⟨φ′²⟩_q (None where gradients are not asked for), and whether they go by logarithms of q."""
    branch = solver.branch
    if q is not None and solver.sign(q.exponent) < 0:
        end = branch.zero
        if end.is_flat:
            raise Undecided(
                f"{branch.phi} is 0 around 0, so that a branch whose variance falls with l brings nothing; no law of "
                "it is derived behind a LayerNorm"
            )
        slope = solver.at(end.of_slope, q) if solver.gradients else None
        rough = end.of_square[1] != 0 or (solver.gradients and end.of_slope[1] != 0)
        return solver.at(end.of_square, q), slope, rough
    at = sp.S.One if q is None else q.constant
    slope = regular(solver._slope_at(at)) if solver.gradients else None
    return regular(solver._square_at(at)), slope, False
