"""Width variation (§ 6, R67 … R71) and the link of gradients to the Fisher matrix (§ 2, R73, R74).

G_z of the theory is a squared gradient per J, so chi of a layer is G_z times N^(L)/N^(l) (docs/notation.md).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.claims import Claim, Floats, Formula, network
from derivations.placeholders import slope
from derivations.variance_variation.recursions import NETWORKS, step, sv, sw
from derivations.variance_variation.regions import full
from meanfield.symbols import K, l, parameter

TANH = network("tanh")
A = 4 / 3 * math.sqrt(2 / math.pi) / math.sqrt(2)  # of § 6 at σ = 1
bv, bw = parameter("beta_v"), parameter("beta_w")
m = sp.Symbol("m", positive=True)


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


def bounded(factor: float) -> float:
    """1 where the spread of chi over layers is the same at 100 and at 2500 blocks within a factor of 3."""
    spread = [float(np.ptp(np.log(chi(depth, factor)))) for depth in (100, 2500)]
    return float(spread[1] < spread[0] + math.log(3))


def of_layer(layer: sp.Symbol) -> sp.Expr:
    """χ^(m-1)/χ^(m) after the cancelled factor of the widths, with the variances of block `layer`."""
    return sv**2 * sw**2 * layer ** (-bv - bw) * slope + 1


def forward(theory: mf.Theory) -> sp.Expr:
    """What K of the next layer depends on beside σ's, β's and l, as a sum of symbols."""
    known = {K, l, *(parameter(f"{s}_{k}") for s in ("sigma", "beta") for k in "vwab")}
    return sp.Add(*(theory.gradients["K"].free_symbols - known))


RULES = (
    Formula("R67, § 6: widths do not enter the forward pass", full("erf"), "symbols", sp.S.Zero, m, by=forward),
    Formula("R69, § 6: chi^(m-1) = (… l^{-β_v-β_w} …) chi^(l)", NETWORKS, "factor", of_layer(l), of_layer(m), True,
            by=lambda t: step("J")(t).subs(l, m)),
    Floats("R70, § 6: A", TANH, "A", lambda n: A, lambda n: A / 2, tolerance=2e-4,
           of=lambda n: (math.log(gradients(n)[0]) - math.log(gradients(n // 4)[0]) - math.log(4) / 9 / math.pi)
           / math.sqrt(n) * 2, places=((40_000,),)),
    # E25: read as it is printed, widths grow
    Floats("R70, § 6: N^(l-1) = N^(l)/e^A bounds chi", TANH, "bounded", lambda f: 1.0, lambda f: 0.0, True,
           of=bounded, places=((math.exp(-A),),)),
    Floats("R70, § 6: N^(l) = N^(l-1)/e^A bounds chi", TANH, "bounded", lambda f: 1.0, lambda f: 0.0, of=bounded,
           places=((math.exp(A),),)),
    Floats("R70: without projections chi is unbounded", TANH, "bounded", lambda f: 0.0, lambda f: 1.0, of=bounded,
           places=((1.0,),)),
)  # fmt: skip


# --------------------------------------------------------------------------------------------------- Fisher matrix


def fisher(square_w: float, square_b: float, depth: int, seed: int, width: int = 6, inputs: int = 400):
    """(F, layer of each parameter) of a feedforward tanh network with Gaussian outputs: F is the mean over inputs of
    DᵀD, D the derivatives of its outputs by all weights and biases."""
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
    return D.T @ D / inputs, np.repeat(np.arange(depth), width * width + width)


PHASES = {"chaotic": (6.0, 0.1), "critical": (1.0, 0.0), "ordered": (0.5, 0.1)}


def condition_holds(phase: str, depth: int) -> float:
    """1 where the condition number is at least the ratio of the diagonal's ends in each of four networks."""
    held = []
    for seed in range(4):
        F, _ = fisher(*PHASES[phase], depth, seed)
        values, diagonal = np.linalg.eigvalsh(F), np.diag(F)
        smallest = max(values[0], 0.0)  # rounding makes it negative where F is nearly singular
        held.append(values[-1] * diagonal.min() >= diagonal.max() * smallest)
    return float(all(held))


@lru_cache(maxsize=16)
def unequal(phase: str, depth: int) -> float:
    """log of the ratio of the diagonal's layer means, mean over eight networks."""
    found = []
    for seed in range(8):
        F, layer = fisher(*PHASES[phase], depth, seed)
        means = np.bincount(layer, np.diag(F)) / np.bincount(layer)
        found.append(math.log(means.max() / means.min()))
    return float(np.mean(found))


FISHER = (
    Floats("R73, § 2: condition number ≥ max/min of the diagonal", TANH, "holds", lambda *p: 1.0, lambda *p: 0.0,
           of=condition_holds, places=tuple((phase, depth) for phase in PHASES for depth in (3, 6, 9, 12))),
    Floats("R74, § 2: exponential off criticality", TANH, "further apart than at it", lambda p: 1.0, lambda p: 0.0,
           of=lambda p: float(unequal(p, 12) > 1.5 * unequal("critical", 12) and unequal(p, 12) > 2 * unequal(p, 3)),
           places=(("chaotic",), ("ordered",))),
)  # fmt: skip
CLAIMS: tuple[Claim, ...] = RULES + FISHER
