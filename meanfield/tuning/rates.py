"""The descent of tuning losses at infinite width: gradients by a backward recursion, rates, and where it converges.

Of Dense(φ(z)) with gains: K^{l+1} = (a_w σ_w)²⟨φ²⟩_{K^l} + (a_b σ_b)², J^{l,l+1} = (a_w σ_w)²⟨φ′²⟩_{K^l}, a_w and a_b
of layer l + 1. Losses over blocks l = 1 … D − 1: "JLL" ½Σ(log J)², "JSL" ½Σ(J − 1)², "JKL" JLL + (λ/2)Σ(log
K^{l+1}/K^l)².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.architecture import Dense, Nonlinearity, Sequential
from meanfield.arguments import choice, finite, spoken
from meanfield.deriving import derive
from meanfield.results import MeanFieldError
from meanfield.theory import Theory

LOSSES = ("JLL", "JSL", "JKL")
_STEP = 2e-3  # of log K, in differences of fourth order
_STENCIL = np.array([-2, -1, 0, 1, 2])
_WEIGHTS = np.array([1, -8, 0, 8, -1]) / 12


@dataclass(frozen=True, eq=False)
class Layers:
    """A plain MLP's maps as functions of K: ⟨φ²⟩ and ⟨φ′²⟩ with their derivatives, by compiled averages."""

    theory: Theory

    def __post_init__(self) -> None:
        match self.theory.block:
            case Sequential((Nonlinearity(), Dense() as dense)) if dense.is_plain:
                return
        raise MeanFieldError(
            "The descent of a theory is of plain layers Dense(φ(z)), but another block was given; give width=... and "
            "tune a drawn network, or take method='sweep'."
        )

    def averages(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """⟨φ²⟩, ⟨φ′²⟩ and their derivatives by K, to about 1e-10 of themselves."""
        points = np.exp(np.log(K)[:, None] + _STEP * _STENCIL)
        run = self.theory.propagate(sigma_w=1.0, sigma_b=0.0, depth=2, start={"K": points}, quantities=("K", "J"))
        logs = np.log(run.K[..., -1]), run.log_J[..., -1]
        values = [np.exp(one[:, 2]) for one in logs]
        slopes = [(one @ _WEIGHTS) / _STEP * value / K for one, value in zip(logs, values)]
        return values[0], values[1], slopes[0], slopes[1]


@dataclass(frozen=True, eq=False)
class State:
    """All layers with gains (layers, 2): K^l for l = 1 … D, J^{l,l+1}, χ_K, χ_Δ for l = 1 … D − 1."""

    K: np.ndarray
    J: np.ndarray
    chi_K: np.ndarray
    chi_Delta: np.ndarray
    sigma: np.ndarray
    gains: np.ndarray

    def loss(self, kind: str, lam: float) -> float:
        """½Σ(log J)², ½Σ(J − 1)², or the first and (λ/2)Σ(log K^{l+1}/K^l)²."""
        if kind == "JSL":
            return 0.5 * float(((self.J - 1) ** 2).sum())
        found = 0.5 * float((np.log(self.J) ** 2).sum())
        return found if kind == "JLL" else found + 0.5 * lam * float((np.diff(np.log(self.K)) ** 2).sum())

    def gradient(self, kind: str, lam: float) -> np.ndarray:
        """∂loss/∂(a_w, a_b) of every layer, by one pass back: Λ_l = ∂loss/∂K^l."""
        J, K, D = self.J, self.K, len(self.K)
        by_J = (J - 1) if kind == "JSL" else np.log(J) / J
        step = lam * np.diff(np.log(K)) if kind == "JKL" else np.zeros(D - 1)
        out, back = np.zeros((D, 2)), 0.0
        square = (self.gains * self.sigma) ** 2
        for l in range(D - 1, -1, -1):
            if l < D - 1:
                back = by_J[l] * self.chi_Delta[l] + self.chi_K[l] * back - step[l] / K[l]
            if l > 0:
                back += step[l - 1] / K[l]
            own = 2 * J[l - 1] * by_J[l - 1] if l > 0 else 0.0
            out[l, 0] = (own + 2 * (K[l] - square[l, 1]) * back) / self.gains[l, 0]
            out[l, 1] = 2 * self.gains[l, 1] * self.sigma[l, 1] ** 2 * back
        return out

    def jacobian(self) -> np.ndarray:
        """G = ∂log J^{l,l+1}/∂a, a row for each block, columns a_w of layers 1 … D, then a_b."""
        D = len(self.K)
        out = np.zeros((D - 1, D, 2))
        square = (self.gains * self.sigma) ** 2
        for l in range(1, D):
            back = self.chi_Delta[l - 1] / self.J[l - 1]  # by K^l
            out[l - 1, l, 0] += 2 / self.gains[l, 0]
            for m in range(l - 1, -1, -1):
                out[l - 1, m, 0] += 2 * (self.K[m] - square[m, 1]) * back / self.gains[m, 0]
                out[l - 1, m, 1] += 2 * self.gains[m, 1] * self.sigma[m, 1] ** 2 * back
                if m > 0:
                    back *= self.chi_K[m - 1]
        return np.concatenate([out[..., 0], out[..., 1]], axis=1)


def state(layers: Layers, sigma: np.ndarray, gains: np.ndarray, input_norm: float) -> State:
    """K, J and their derivatives in all layers; sigma, gains (layers, 2)."""
    square = (gains * sigma) ** 2
    D = len(sigma)
    run = layers.theory.propagate(
        sigma_w=np.sqrt(square[:, 0]),
        sigma_b=np.sqrt(square[:, 1]),
        depth=D,
        input_norm=input_norm,
        layerwise=True,
        quantities=("K", "J"),
    )
    K = np.asarray(run.K, dtype=float)
    if not (np.isfinite(K).all() and (K > 0).all() and (K < 1e280).all()):
        raise MeanFieldError(f"K left the range of floats at layer {int(np.argmax(~(np.isfinite(K) & (K > 0)))) + 1}.")
    _, B, dA, dB = layers.averages(K[:-1])
    w = square[1:, 0]
    return State(K, w * B, w * dA, w * dB, sigma, gains)


@dataclass(frozen=True)
class TuningRates:
    """Learning rates of the descent of one layer of a φ with φ(cz) = cφ(z), c > 0, where J does not depend on K.

    one_step: J = 1 after one step; falling: below it |√J − 1| falls in the first step (η_0 of the paper); edge: below
    it J = 1 attracts. J: at the start.
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


@spoken
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
    A, sigma = _slope_square(activation), finite(sigma_w, "sigma_w")
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
    theory = derive(activation)
    layers = Layers(theory)
    A, B, dA, dB = layers.averages(np.array([0.1, 1.0, 10.0]))
    if np.abs(dB).max() > 1e-8 or np.abs(dA - A / np.array([0.1, 1.0, 10.0])).max() > 1e-8:
        raise MeanFieldError(
            f"Rates of one layer alone were asked for with {activation}, whose J depends on K and so on the layers "
            "before; take tune(..., method='gradient'), which says when it diverges."
        )
    return float(B[1])


@spoken
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
    sigma, eta = np.broadcast_arrays(np.asarray(sigma_w, dtype=float), np.asarray(rate, dtype=float))
    if not ((sigma > 0).all() and (eta > 0).all()):
        raise MeanFieldError("sigma_w and rate must be > 0 everywhere, but others were given.")
    s, kappa = np.sqrt(A) * sigma, 2 * A * sigma * sigma * eta
    with np.errstate(all="ignore"):
        for _ in range(int(steps)):
            s = np.abs(s - 2 * kappa * np.log(s) / s if loss == "JLL" else s - kappa * s * (s * s - 1))
            s = np.where(s < 1e100, s, math.inf)
    return np.where(np.isfinite(s), s * s, math.inf)


