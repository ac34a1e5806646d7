r"""Where the critical point of networks of width n lies: C_W = c_0 + c_1/n, C_b = b_1/n, so that the correction of K of
order 1/n stays bounded relative to K at large depth.

A shift by c_1/n adds c_1⟨φ²⟩ to the map of G1 and b_1/n adds b_1: both are sources that G1/K grows by, as V is. What
grows has to vanish, which is linear in the two.

Source: derived here; [orthogonal_weights] (4.28) has tanh.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from meanfield.base.answers.export import Result
from meanfield.base.answers.results import MeanFieldError, Status, one_line
from meanfield.functions.activations import Activation
from meanfield.symbolic.correlator_laws.local_series import near_zero
from meanfield.symbolic.correlator_laws.settings import power_law_at_zero
from meanfield.symbolic.correlator_laws.systems import CorrelatorLaw, CorrelatorSystem
from meanfield.symbolic.correlator_laws.vanishing_variance import recursion_with, shown_exactly, zero_test
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.series.coefficients import Atoms
from meanfield.symbolic.series.difference import NotFar
from meanfield.symbolic.series.truncated import Calculus
from meanfield.symbolic.steps import Step

SHIFT_W, SHIFT_B = sp.symbols("c_1 b_1", real=True)
REACHES = (1, 2, 4)


@dataclass(frozen=True)
class CriticalShift(Result):
    """The critical point of networks of width n to order 1/n: C_W = C_W0 + C_W1/n, C_b = C_b1/n (C = σ²).

    law: that of G1/K there, G1 with the shift in it.
    """

    C_W0: sp.Expr
    C_W1: sp.Expr
    C_b1: sp.Expr
    law: CorrelatorLaw

    def __repr__(self) -> str:
        return one_line("CriticalShift", str(self))

    def __str__(self) -> str:
        return f"C_W = {self.C_W0} + {self.C_W1}/n, C_b = {self.C_b1}/n; {self.law.name} = {self.law.lines()[0]}"


def shift_at_zero(phi: Activation, weights: str, sigma: sp.Expr) -> CriticalShift:
    """The shift where K falls to 0 as a power of l; sigma: the critical σ_w, σ_b = 0."""
    for reach in REACHES:
        try:
            free = _law(phi, weights, sigma, SHIFT_W, SHIFT_B, reach, 2)
            growing = [t for t in free.terms if t.power > 0]
            found: dict[sp.Symbol, sp.Expr] = {SHIFT_B: sp.S.Zero, SHIFT_W: sp.S.Zero}
            solved = sp.solve([t.coefficient for t in growing], [SHIFT_W, SHIFT_B], dict=True)
            if len(solved) != 1 or set(solved[0]) != {SHIFT_W, SHIFT_B}:
                raise MeanFieldError("No shift of C_W and C_b of order 1/n keeps the correction of K bounded here.")
            found |= solved[0]
            law = _law(phi, weights, sigma, found[SHIFT_W], found[SHIFT_B], reach, 1)
        except NotFar:
            continue
        return CriticalShift(sigma**2, sp.simplify(found[SHIFT_W] * sigma**2), found[SHIFT_B], law)
    raise MeanFieldError("The leading sources of G1 cancel in all orders that were looked at.")


def _law(
    phi: Activation, weights: str, sigma: sp.Expr, w: sp.Expr, b: sp.Expr, reach: int, order: int
) -> CorrelatorLaw:
    recursion = recursion_with(phi, weights, sigma, (sigma**2, sp.S.Zero)).only("G1").subs({"sigma_b": 0})
    atoms = Atoms()
    calculus = Calculus(atoms, is_zero=zero_test(atoms))
    setting = power_law_at_zero(calculus, near_zero(atoms, reach + 3), recursion["K"], reach + 1)
    moved = _moved(recursion, w, b)
    regime = "critical: power-law approach of K to 0"
    return CorrelatorSystem(moved, setting, regime, Status.EXACT, shown_exactly, costly=True).law("G1", order)


def _moved(recursion: Recursion, w: sp.Expr, b: sp.Expr) -> Recursion:
    """The recursion with w⟨φ²⟩ + b added to the map of G1 (σ_w inside φ, so that w is c_1/c_0)."""
    i = recursion.index("G1")
    step = list(recursion.step)
    step[i] = step[i] + w * recursion["K"] + b
    return replace(recursion, block=Step(tuple(step)))
