"""Learning rates of the descent of one layer of a φ of degree 1, and where it converges: 1-D maps.

There J^{l,l+1} = (a_w σ_w)²⟨φ′²⟩ knows no other layer, of infinite width or not: the neurons that are on stay on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from meanfield.base.answers.export import Result
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import choice, finite, refuse_not_real, shown, validated, whole
from meanfield.functions.piecewise import Pieces
from meanfield.theory.deriving import derive


@dataclass(frozen=True)
class TuningRates(Result):
    """Learning rates of the descent of one layer of a φ with φ(cz) = cφ(z), c > 0, where J does not depend on K.

    one_step: J = 1 after one step; falling: below it |√J − 1| falls in the first step (η_0 of the paper); edge: below
    it J = 1 attracts. J: at the start.

    >>> found = tuning_rates("relu", sigma_w=2)
    >>> round(found.falling, 6)
    0.422556
    """

    loss: str
    J: float
    one_step: float
    falling: float
    edge: float

    def converges(self, rate: float) -> bool:
        """Whether the descent with this constant rate ends at J = 1."""
        return 0 < rate < self.edge and self.reach(rate) > self.J

    def reach(self, rate: float) -> float:
        """The J(0) from which the descent runs away at this rate: 1 + 2/κ, κ = rate/edge, of JSL; ∞ of JLL."""
        return math.inf if self.loss == "JLL" else 1 + 2 * self.edge / rate


@validated
def tuning_rates(activation: Any, *, sigma_w: Any, loss: str = "JLL", gain: float = 1.0) -> TuningRates:
    """Learning rates with which the gain a_w of one layer, J = (a_w σ_w)² A, descends to J = 1; A = ⟨φ′²⟩.

    activation: φ with φ(cz) = cφ(z) for c > 0 (ReLU, leaky ReLU, linear, |z|), else MeanFieldError: for others J knows
    the layers before. loss: "JLL" or "JSL". In s = √J the steps are s → s − 2κ log s/s and s → s − κs(s² − 1) with κ =
    2Aσ_w²·rate, so that J = 1 attracts for κ < 1; JSL runs away from J > 1 + 2/κ. Source: [autoinit] (18)–(20), (42)–
    (44), which are those of ReLU; A, the edge and the reach are derived here.

    >>> found = tuning_rates("relu", sigma_w=2)
    >>> round(found.one_step, 6), found.edge
    (0.211278, 0.25)
    """
    choice(loss, "loss", ("JLL", "JSL"))
    A, sigma, gain = _slope_square(activation), finite(sigma_w, "sigma_w"), finite(gain, "gain")
    if not sigma > 0 or not gain > 0:
        raise MeanFieldError(f"sigma_w and gain must be > 0, but {sigma:g} and {gain:g} were given.")
    J = (gain * sigma) ** 2 * A
    s, c = math.sqrt(J), 2 * A * sigma * sigma
    if loss == "JLL":
        one = (s - 1) * s / (c * math.log(J)) if abs(J - 1) > 1e-12 else 1 / (2 * c)
        return TuningRates(loss, J, one, 2 * one, 1 / c)
    one = 1 / (c * s * (1 + s))
    return TuningRates(loss, J, one, 2 * one, 1 / c)


def _slope_square(activation: Any) -> float:
    """A = ⟨φ′²⟩ of a φ of degree 1: proved of its pieces, a kink far out shows at no K that is tried."""
    theory = derive(activation)
    K = np.array([0.1, 1.0, 10.0])
    run = theory.propagate(sigma_w=1.0, sigma_b=0.0, depth=2, start={"K": K}, quantities=("K", "J"))
    A, B = run.K[..., 1] / K, run.J[..., 1]
    moves = max(np.ptp(A) / A[1], np.ptp(B) / B[1]) > 1e-8  # behind a norm, of the φ's below, too
    if moves or not all(_is_of_degree_1(phi.pieces) for phi in theory.activations):
        raise MeanFieldError(
            f"Rates of one layer alone were asked for with {activation}, which is not of degree 1, φ(cz) = cφ(z), or "
            "has norms: J depends on K and so on the layers before; take tune(..., method='gradient'), whose answer "
            "has the largest rate that holds (rate_bound)."
        )
    return float(B[1])


def _is_of_degree_1(pieces: Pieces) -> bool:
    """Whether φ(cz) = cφ(z) for every c > 0: φ is a multiple of z on each side of 0."""
    z = pieces.variable
    return all(b == 0 for b in pieces.breaks) and not any(sp.simplify(e / z).has(z) for e in pieces.exprs)


@validated
def tuning_region(activation: Any, *, sigma_w: Any, rate: Any, steps: int = 980, loss: str = "JLL") -> np.ndarray:
    """J of a layer after `steps` of the descent with constant rates, from a_w = 1; ∞ where it ran away.

    sigma_w, rate: numbers or arrays that broadcast (the η–σ_w plane); activation and loss as in `tuning_rates`.
    Source: [autoinit] figures 1 and 5.

    >>> found = tuning_region("relu", sigma_w=2, rate=np.array([0.2, 0.3]))
    >>> (np.abs(found - 1) < 0.2).tolist()
    [True, False]
    """
    choice(loss, "loss", ("JLL", "JSL"))
    A = _slope_square(activation)
    steps = whole(steps, "steps", 0, 100_000_000)
    refuse_not_real(sigma_w, "sigma_w")
    refuse_not_real(rate, "rate")
    try:
        sigma, eta = np.broadcast_arrays(np.asarray(sigma_w, dtype=float), np.asarray(rate, dtype=float))
    except (TypeError, ValueError, OverflowError):
        raise MeanFieldError(
            f"sigma_w and rate must be numbers or arrays that broadcast, but {shown(sigma_w)} and {shown(rate)} were "
            "given."
        ) from None
    if not (sigma.size and ((sigma > 0) & (eta > 0) & np.isfinite(sigma) & np.isfinite(eta)).all()):
        raise MeanFieldError("sigma_w and rate must be finite and > 0 everywhere, but others were given.")
    s, kappa = np.sqrt(A) * sigma, 2 * A * sigma * sigma * eta
    with np.errstate(all="ignore"):
        for _ in range(steps):
            s = np.abs(s - 2 * kappa * np.log(s) / s if loss == "JLL" else s - kappa * s * (s * s - 1))
            s = np.where(s < 1e100, s, math.inf)
    return np.where(np.isfinite(s), s * s, math.inf)
