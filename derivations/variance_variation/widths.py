"""Width variation (§ 6, R67 … R71) and the link of gradients to the Fisher matrix (§ 2, R73, R74).

G_z of the theory is a squared gradient per J, so chi of a layer is G_z times N^(L)/N^(l) (docs/notation.md).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.claims import Claim, network
from derivations.comparisons import Floats, Formula, Holds
from derivations.placeholders import slope, square
from derivations.variance_variation.recursions import NETWORKS, a, p, step, sv, sw, v
from meanfield.base.symbols import l, parameter

TANH = network("tanh")
A = 4 / 3 * math.sqrt(2 / math.pi) / math.sqrt(2)  # of § 6 at σ = 1
bv, bw = parameter("beta_v"), parameter("beta_w")
m = parameter("m")


@lru_cache(maxsize=8)
def gradients(depth: int, sigma_w: float = 1.0) -> np.ndarray:
    """chi^(l)/chi^(L), l = 0 … L, of tanh at equal widths, no decay."""
    theory = mf.derive("tanh", architecture="full_residual", sigma_v=1, sigma_a=1)
    return np.asarray(theory.propagate(sigma_w=sigma_w, sigma_b=1, depth=depth + 1, quantities=("G_z",)).G_z)


def chi(depth: int, factor: float, first: int = 1, sigma_w: float = 1.0) -> np.ndarray:
    """The same where N^(l) = N^(l-1)/factor at l = n², n ≥ first."""
    squares = [n * n for n in range(first, math.isqrt(depth) + 1)]
    fewer = np.array([sum(n <= layer for n in squares) for layer in range(depth + 1)])
    return gradients(depth, sigma_w) * factor ** (fewer - fewer[-1]).astype(float)


def bounded(factor: float) -> bool:
    """Whether the spread of chi over layers is the same at 100 and at 2500 blocks within a factor of 3."""
    spread = [float(np.ptp(np.log(chi(depth, factor)))) for depth in (100, 2500)]
    return spread[1] < spread[0] + math.log(3)


def of_layer(layer: sp.Symbol) -> sp.Expr:
    """χ^(m-1)/χ^(m) after the cancelled factor of the widths, with the variances of block `layer`."""
    return sv**2 * sw**2 * layer ** (-bv - bw) * slope + 1


def widened(theory: mf.Theory) -> mf.Theory:
    """The network whose inner layers have m times as many neurons as those around them."""
    first, phi, second = theory.block.branch.blocks
    branch = mf.Sequential((replace(first, expand=mf.Param("m")), phi, second))
    return mf.derive(architecture=replace(theory.block, branch=branch))


def rate(theory: mf.Theory) -> sp.Expr:
    """c of log chi ~ c √l at σ = 1, no decay."""
    found = mf.derive(theory.activations[0], architecture="full_residual", sigma_v=1, sigma_a=1)
    law = found.depth_law("J", sigma_w=1, sigma_b=1)
    assert law.rate_power == sp.S.Half, "log chi grows otherwise than as √l"
    return law.rate


RULES = (
    Formula("R67, § 6: widths do not enter the forward pass", NETWORKS, "p", v * square + a + p,
            m * v * square + a + p, by=lambda t: step("K")(widened(t))),
    Formula("R69, § 6: chi^(m-1) = (… l^{-β_v-β_w} …) chi^(l)", NETWORKS, "factor", of_layer(l), of_layer(m), True,
            by=lambda t: step("J")(t).subs(l, m)),
    Formula("R70, § 6: A", TANH, "A", sp.Rational(4, 3) * sp.sqrt(2 / sp.pi) / sp.sqrt(2),
            sp.Rational(2, 3) * sp.sqrt(2 / sp.pi) / sp.sqrt(2), by=rate),
    # E25: read as it is printed, widths grow
    Holds("R70, § 6: N^(l-1) = N^(l)/e^A bounds chi", TANH, "factor", math.exp(-A), math.exp(A), True, of=bounded),
    Holds("R70, § 6: N^(l) = N^(l-1)/e^A bounds chi", TANH, "factor", math.exp(A), math.exp(A / 2), of=bounded),
    Holds("R70: without projections chi is unbounded", TANH, "factor", 1.0, math.exp(A),
          of=lambda factor: not bounded(factor)),
)  # fmt: skip


# --------------------------------------------------------------------------------------------------- Fisher matrix


def fisher(square_w: float, square_b: float, depth: int, seed: int, width: int = 6, inputs: int = 400) -> np.ndarray:
    """The mean over inputs of DᵀD for a feedforward tanh network, D the derivatives of its outputs, which are Gaussian,
    by all weights and biases."""
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((inputs, width))
    weights = draw.standard_normal((depth, width, width)) * math.sqrt(square_w / width)
    biases = draw.standard_normal((depth, width)) * math.sqrt(square_b)
    before, slopes = [], []
    for w, b in zip(weights, biases):
        before.append(x)
        x = np.tanh(x @ w.T + b)
        slopes.append(1 - x**2)
    back = np.broadcast_to(np.eye(width), (inputs, width, width))  # ∂ output/∂ x^(l), output by neuron
    parts: list[np.ndarray] = []
    for w, h, steep in zip(weights[::-1], before[::-1], slopes[::-1]):
        inner = back * steep[:, None, :]
        by_weight = (inner[..., None] * h[:, None, None, :]).reshape(inputs, width, -1)
        parts.insert(0, np.concatenate([by_weight, inner], axis=2))
        back = inner @ w
    D = np.concatenate(parts, axis=2).reshape(inputs * width, -1)
    return D.T @ D / inputs


PHASES = {"chaotic": (6.0, 0.1), "critical": (1.0, 0.0), "ordered": (0.5, 0.1)}


def conditioned(power: float, phase: str, depth: int) -> bool:
    """Whether the condition number is at least a power of that of the diagonal's ends, in each of four networks."""
    ends = [fisher_ends(phase, depth, seed) for seed in range(4)]
    return all(largest >= ratio**power * smallest for largest, smallest, ratio in ends)


@lru_cache(maxsize=64)
def fisher_ends(phase: str, depth: int, seed: int) -> tuple[float, float, float]:
    """The largest and the smallest eigenvalue, and the ratio of the diagonal's ends."""
    F = fisher(*PHASES[phase], depth, seed)
    values, diagonal = np.linalg.eigvalsh(F), np.diag(F)
    # rounding makes the smallest negative where F is nearly singular
    return float(values[-1]), max(float(values[0]), 0.0), float(diagonal.max() / diagonal.min())


def deviations(phase: str) -> dict[str, float]:
    return dict(zip(("sigma_w", "sigma_b"), map(math.sqrt, PHASES[phase])))


@lru_cache(maxsize=16)
def unequal(phase: str, depth: int) -> float:
    """log of the ratio of the largest to the smallest squared gradient of a layer's weights or biases."""
    run = mf.derive("tanh").propagate(**deviations(phase), depth=depth, quantities=("G_w", "G_b"))
    return max(float(np.ptp(np.log(np.asarray(G)[1:]))) for G in (run.G_w, run.G_b))


def growth(phase: str) -> float:
    """What that logarithm grows by a layer."""
    return (unequal(phase, 500) - unequal(phase, 250)) / 250


def gap(phase: str) -> float:
    """|log χ_J*|"""
    return abs(math.log(float(mf.derive("tanh").phase(**deviations(phase)).chi_J.value)))


FISHER = (
    # of any covariance; the networks are drawn here
    Holds("R73, § 2: condition number ≥ max/min of the diagonal", TANH, "power", 1.0, 4.0, composed=True,
          of=conditioned, places=tuple((phase, depth) for phase in PHASES for depth in (3, 6, 9, 12))),
    Floats("R74, § 2: exponential off criticality", TANH, "log max/min of the diagonal, a layer", gap,
           lambda phase: 2 * gap(phase), of=growth, places=tuple((phase,) for phase in PHASES), tolerance=5e-3),
)  # fmt: skip
CLAIMS: tuple[Claim, ...] = RULES + FISHER
