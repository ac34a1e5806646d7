"""What the acceptance values are computed by."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy as sp

import meanfield as mf
from derivations.autoinit.networks import normed, resmlp
from meanfield.base.symbols import z

Compute = Callable[[sp.Rational], Sequence[float]]


def one_block(size: int, mu: int = 0) -> Compute:
    """J^{l,l+1} of ReLU at |B| = size, l ≥ 2: tangents of one block alone."""

    def compute(off: sp.Rational) -> Sequence[float]:
        run = normed("relu", mu, size).theory.propagate(
            sigma_w=1, sigma_b=0, depth=3, start={"K": 1, "K_ab": 0}, quantities=("K", "K_ab")
        )
        at = {"K": float(run.K[1]), "K_ab": float(run.K_ab[1])}
        again = normed("relu", mu, size).theory.propagate(sigma_w=float(1 + off), sigma_b=0, depth=2, start=at)
        return (float(again.J[1]),)

    return compute


def infinite(*names: str) -> Compute:
    """J^{l,l+1} behind a BatchNorm of an infinite batch, without skip: ⟨φ′²⟩/Var φ; planted: φ + off·z for φ."""

    def compute(off: sp.Rational) -> Sequence[float]:
        chosen = [mf.activation(n).expression + off * z if off else n for n in names]
        return [float(sp.N(normed(phi).theory.batch_invariant(), 20)) for phi in chosen]

    return compute


def last_block(size: int, depth: int) -> Compute:
    """J^{l,l+1} of ReLU with a skip of strength 1 at l = depth, where K - K_ab is σ_w² at layer 1."""

    def compute(off: sp.Rational) -> Sequence[float]:
        theory = normed("relu", 1, size).theory
        run = theory.propagate(sigma_w=1, sigma_b=0, depth=depth, start={"K": 1, "K_ab": 0}, quantities=("K", "K_ab"))
        at = {"K": float(run.K[-1]), "K_ab": float(run.K_ab[-1])}
        again = theory.propagate(sigma_w=float(1 + off), sigma_b=0, depth=2, start=at)
        return (float(again.J[1]),)

    return compute


def blocks_of_resmlp(variance: str, scale: str) -> Compute:
    """J^{0,1}, J^{0,12} and K^{12} of gelu, μ = 1, K^0 = 1, σ_b = 0."""

    def compute(off: sp.Rational) -> Sequence[float]:
        theory = resmlp("gelu", scale, 1).theory
        sigma = float(sp.sqrt(sp.Rational(variance)) * (1 + off))
        run = theory.propagate(sigma_w=sigma, sigma_b=0, depth=13, start={"K": 1}, quantities=("K", "J"))
        return float(run.J[1]), float(run.J[12]), float(run.K[12])

    return compute
