"""Numbers of networks with pools of two, and laws of depth, as functions of a planted error, for `checks.Check`.

All runs of a pooled φ ask for the same quantities, as a pool's two-input map takes many seconds to compile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.bias_and_trainability.pooling import where
from derivations.checks import leaky, root
from derivations.claims import network
from derivations.quantities import derived
from meanfield.base.symbols import K, sigma_b, sigma_w
from meanfield.theory.depth_scales import crossover_depth

READ = ("K_ab", "c", "gamma")
R = sp.Rational


@lru_cache
def pooled(name: str, kind: str) -> mf.Theory:
    return network(name, pool=kind).theory


def run(theory: mf.Theory, square_w: float, square_b: float, depth: int, correlation: object = 0.0):
    return theory.propagate(
        sigma_w=square_w**0.5, sigma_b=square_b**0.5, depth=depth, correlation=correlation, quantities=READ
    )


def along(name: str, kind: str, square_w: str, square_b: str, layers: Sequence[int]) -> Callable:
    """c at the layers, from orthogonal inputs."""

    def compute(off):
        square = float(R(square_w)) * float(1 + off) ** 2
        found = run(pooled(name, kind), square, float(R(square_b)), max(layers)).c.ravel()
        return [found[l - 1] for l in layers]

    return compute


def kernel(name: str, kind: str, cosines: Sequence[float]) -> Callable:
    """⟨f f′⟩ at K = 1 and the correlations, as layer 2 at σ_w = 1; the planted error is in K."""

    def compute(off):
        start = float(1 + off)  # K¹ = σ_w², and layer 2 has another factor σ_w²
        found = run(pooled(name, kind), start, 0.0, 2, np.array(cosines))
        return np.atleast_2d(found.K_ab)[:, 1] / start

    return compute


def mean_of_pool(off) -> list[float]:
    """⟨max(0, u_1, u_2)⟩ at K = 1, the root of ⟨f f′⟩ of independent inputs."""
    return [float(np.sqrt(kernel("relu", "max", (0.0,))(off)[0]))]


def approach(kind: str, l: int) -> Callable:
    """(1 - c′)/(1 - c) of ReLU at layer l at σ_w² = 1.5, σ_b² = 0.1; the planted error is a slope below 0, as no place
    changes it."""

    def compute(off):
        gamma = run(pooled(leaky(off), kind), 1.5, 0.1, l + 1).gamma.ravel()
        return [float((1 + gamma[l - 1]) / (1 + gamma[l]))]

    return compute


def settled(name: str, kind: str, squares: Sequence[str]) -> Callable:
    """The stable c* at σ_b² = 0.1."""

    def compute(off):
        places = [{"sigma_w": root(s) * (1 + off), "sigma_b": root("0.1")} for s in squares]
        return [pooled(name, kind).correlations(**place).stable.c for place in places]

    return compute


def edge(name: str, kind: str) -> Callable:
    """σ_w² of the critical line at σ_b² = 0.1."""

    def compute(off):
        ((point, _),) = pooled(name, kind).critical_line().sigma_w_at(root("0.1") * (1 + off))
        return (float(point.value) ** 2,)

    return compute


def at_half(theory: mf.Theory, k: float) -> tuple[float, float]:
    """(σ_w², σ_b²) where K* = k and c* = ½: K/2 = σ_w²(⟨f²⟩ - ⟨ff′⟩) and σ_b² = K - σ_w²⟨f²⟩ at c = ½."""
    found = run(theory, k, 0.0, 2, 0.5)
    mixed = float(found.K_ab.ravel()[1]) / k
    second = mixed / float(found.c.ravel()[1])
    width = k / 2 / (second - mixed)
    return width, k - width * second


def neutral(name: str, kind: str, square_b: str) -> Callable:
    """σ_w² of the neutrality line, c* = ½."""
    from scipy.optimize import brentq

    def compute(off):
        theory, bias = pooled(name, kind), float(R(square_b)) * float(1 + off) ** 2
        k = brentq(lambda k: at_half(theory, k)[1] - bias, 0.05, 60, xtol=1e-12)
        return (at_half(theory, k)[0],)

    return compute


def alpha_of_relu(off) -> list[float]:
    """α and the part of the kink, and ‖∇f‖², per σ_w²: maximum, mean; nothing in them varies, so σ_w is moved."""
    found = []
    for kind in ("max", "average"):
        chi_K, chi_J = (derived(pooled("relu", kind), name) for name in ("chi_K", "chi_J"))
        found += [chi_K, chi_K - chi_J, chi_J]
    return [float(e.subs(sigma_w, 1 + off)) for e in found]


def thresholds(off) -> list[float]:
    """σ_w² at which α = 1 and χ̃_1 = 1 of ReLU: maximum, mean; the planted error is a slope below 0."""
    return [float(where(name)(pooled(leaky(off), kind))) for kind in ("max", "average") for name in ("chi_K", "chi_J")]


def crossover(width: int = 1000, amplitude: float = 10) -> Callable:
    """Layers after which a deep network of ReLU and finite width follows α: log(N/A)/log(α/χ̃_1); the planted error is
    a slope below 0, ten times as large."""

    def compute(off):
        theories = [pooled(leaky(10 * off), kind) for kind in ("max", "average")]
        given = {"width": width, "amplitude": amplitude, "sigma_w": 1, "sigma_b": R(1, 10)}
        return [crossover_depth(theory, **given) for theory in theories]

    return compute


def second_moment(off) -> list[float]:
    """⟨max(0, u_1, u_2)²⟩ at K = 1, as K′ at σ_w = 1, σ_b = 0."""
    return [float(derived(pooled("relu", "max"), "K").subs({K: 1 + off, sigma_w: 1, sigma_b: 0}))]


# ------------------------------------------------------------------------------------------------ laws of depth


def lead_of_drift(square_w: object, square_b: object, planted: str) -> Callable:
    """γ/l² of ReLU by the engine's law; the planted error is in "sigma_w", in "sigma_b" (from 0), or in "phi"."""

    def compute(off):
        width, bias = root(square_w), root(square_b)
        width = width * (1 + off) if planted == "sigma_w" else width
        bias = bias + off if planted == "sigma_b" else bias
        law = mf.derive(leaky(off) if planted == "phi" else "relu").depth_law("gamma", sigma_w=width, sigma_b=bias)
        return [float(law.leading.coefficient)]

    return compute


def factor(name: str, quantity: str, square_w: object, square_b: object) -> Callable:
    """The factor per layer by which γ grows, or c comes closer to c*."""

    def compute(off):
        law = mf.derive(name).depth_law(quantity, sigma_w=root(square_w) * (1 + off), sigma_b=root(square_b))
        return [math.exp(float(law.rate))]

    return compute


def on_erfs_line(off) -> list[float]:
    """β of 1 - c ~ β/l on erf's critical line at K* = ½, where 2⟨φ′²⟩/(K⟨φ″²⟩) = (1 + 4K)/(2K²)."""
    theory = mf.derive("erf")
    squares = [mf.symbolic.closed(e).subs(K, R(1, 2) * (1 + off)) for e in theory.critical_line().parametric]
    law = theory.depth_law("c", **dict(zip(("sigma_w", "sigma_b"), map(sp.sqrt, squares))))
    return [-float(law.terms[1].coefficient)]
