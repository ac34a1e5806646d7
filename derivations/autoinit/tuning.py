"""Sec. 2, App. B and C: gradients of log J by the gains of other layers, and the descent of one layer of ReLU.

Every claim is of doubles: the engine's numbers are differences of what `propagate` makes of other standard deviations,
or gains that `tune` ends a step at; the printed side has the susceptibilities of the maps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.claims import network
from derivations.comparisons import Floats
from meanfield.base.symbols import K, sigma_b, sigma_w

STEP = 1e-3  # of a gain, in differences of fourth order
Place = tuple[str, float, float, int, int]  # φ, σ_w, σ_b, l and l': a gain of layer l + 1, and J^{l',l'+1}
LATER: tuple[Place, ...] = (("erf", 1.7, 0.4, 2, 3), ("erf", 1.7, 0.4, 2, 5), ("gelu", 1.9, 0.3, 2, 6))
OWN: tuple[Place, ...] = (("erf", 1.7, 0.4, 2, 2), ("gelu", 1.9, 0.3, 3, 3))


@cache
def layers(phi: str, w: float, b: float, depth: int, at: int = 0, gain_w: float = 1.0, gain_b: float = 1.0):
    """(K^l, log J^{l,l+1}) with gains on layer `at`."""
    by = np.ones((2, depth))
    if at:
        by[:, at - 1] = gain_w, gain_b
    run = mf.derive(phi).propagate(sigma_w=w * by[0], sigma_b=b * by[1], depth=depth, layerwise=True)
    return np.asarray(run.K), np.diff(run.log_J)


def slope(phi: str, w: float, b: float, l: int, later: int, which: int) -> float:
    """∂log J^{l',l'+1}/∂a of layer l + 1, a_W (which = 0) or a_b, at gains of 1: a difference quotient."""
    total = 0.0
    for k, weight in ((-2, 1), (-1, -8), (1, 8), (2, -1)):
        gains = [1.0, 1.0]
        gains[which] += k * STEP
        total += weight * layers(phi, w, b, later + 1, l + 1, *gains)[1][later - 1]
    return total / (12 * STEP)


@cache
def chi(phi: str, name: str) -> Callable[..., float]:
    maps = mf.derive(phi).susceptibilities()
    return sp.lambdify((K, sigma_w, sigma_b), mf.symbolic.closed(maps[name]), "scipy")


def through(phi: str, w: float, b: float, l: int, later: int) -> float:
    """χ_Δ^{l'}/J^{l',l'+1} times χ_K of layers l + 1 … l' − 1: ∂log J^{l',l'+1}/∂K^{l+1}."""
    K_l, log_J = layers(phi, w, b, later + 1)
    found = chi(phi, "chi_Delta")(K_l[later - 1], w, b) / math.exp(log_J[later - 1])
    return found * math.prod(chi(phi, "chi_K")(K_l[m - 1], w, b) for m in range(l + 1, later))


def by_weights(factor: float, biases: bool) -> Callable[..., float]:
    """factor · χ_Δ Πχ_K/J · (K^{l+1}, less σ_b² or not)."""
    return lambda phi, w, b, l, k: factor * through(phi, w, b, l, k) * (
        layers(phi, w, b, k + 1)[0][l] - (b * b if biases else 0.0)
    )


def by_biases(factor: float) -> Callable[..., float]:
    return lambda phi, w, b, l, k: factor * b * b * through(phi, w, b, l, k)


def of_kernel(weight: float = 0.3) -> Callable[..., float]:
    """∂/∂a_W of layer l + 1 of (λ/2)(log K^{l+1}/K^l)²."""

    def compute(phi: str, w: float, b: float, l: int, _: int) -> float:
        total = 0.0
        for k, by in ((-2, 1), (-1, -8), (1, 8), (2, -1)):
            K_l = layers(phi, w, b, l + 1, l + 1, 1 + k * STEP, 1.0)[0]
            total += by * 0.5 * weight * math.log(K_l[l] / K_l[l - 1]) ** 2
        return total / (12 * STEP)

    return compute


def kernel_term(biases: bool, weight: float = 0.3) -> Callable[..., float]:
    def compute(phi: str, w: float, b: float, l: int, _: int) -> float:
        K_l = layers(phi, w, b, l + 1)[0]
        return 2 * weight * (1 - (b * b / K_l[l] if biases else 0.0)) * math.log(K_l[l] / K_l[l - 1])

    return compute


@cache
def step(phi: str, w: float, rate: float, loss: str) -> float:
    """√J behind one step of the descent by `tune`, a small one, whose loss is the lower; in units of √J before."""
    found = mf.tune(phi, depth=3, sigma_w=w, method="gradient", loss=loss, rate=rate, steps=1, tolerance=0)
    return float(found.gains[1, 0, 0])


def after(loss: str) -> Callable[..., float]:
    return lambda w, rate: step("relu", w, rate, loss) * w / math.sqrt(2)


def one_step(loss: str, phi: str = "relu", A: float = 0.5) -> Callable[..., float]:
    """The rate at which J = 1 after one step: the step is linear in the rate."""

    def compute(w: float) -> float:
        rate = 1e-3 / w**4
        slope_ = (1 - step(phi, w, rate, loss)) / rate
        return (1 - 1 / (w * math.sqrt(A))) / slope_

    return compute


def root(w: float, A: float = 0.5) -> float:
    return w * math.sqrt(A)


RELU, ERF = network("relu"), network("erf")
WIDE = ((0.7,), (2.0,), (3.0,))
MOVES = ((2.0, 0.05), (3.0, 0.005), (0.8, 0.1))
CLAIMS: tuple[Floats, ...] = (
    Floats("R14 (14)", ERF, "", lambda *_: 2.0, lambda *_: 4.0, of=lambda *p: slope(*p, 0), places=OWN, tolerance=1e-8),
    Floats(
        "R15 (15)", ERF, "", by_weights(4, False), by_weights(2, True), True,
        of=lambda *p: slope(*p, 0), places=LATER, tolerance=1e-8,
    ),
    Floats(
        "R27 (27), K^{l+1} without its bias", ERF, "", by_weights(2, False), by_weights(2, True), True,
        of=lambda *p: slope(*p, 0), places=LATER, tolerance=1e-8,
    ),
    Floats(
        "R16 (16)", ERF, "", by_biases(4), by_biases(2), True,
        of=lambda *p: slope(*p, 1), places=LATER, tolerance=1e-8,
    ),
    Floats(
        "R46 (46)", ERF, "", kernel_term(False), kernel_term(True), True, of=of_kernel(), places=LATER, tolerance=1e-8
    ),
    Floats(
        "R17 (17)", RELU, "", lambda w, r: root(w) - r * w * w * math.log(root(w) ** 2) / root(w),
        lambda w, r: root(w) - 2 * r * w * w * math.log(root(w) ** 2) / root(w), of=after("JLL"), places=MOVES,
    ),
    Floats(
        "R41 (41)", RELU, "", lambda w, r: root(w) - r * w * w * root(w) * (root(w) ** 2 - 1),
        lambda w, r: root(w) - r * w * w * (root(w) ** 2 - 1), of=after("JSL"), places=MOVES,
    ),
    Floats(
        "R19 (19)", RELU, "", lambda w: (root(w) - 1) * root(w) / (w * w * math.log(root(w) ** 2)),
        lambda w: 2 * (root(w) - 1) * root(w) / (w * w * math.log(root(w) ** 2)), of=one_step("JLL"), places=WIDE,
    ),
    Floats(
        "R43 (43)", RELU, "", lambda w: 1 / (w * w * root(w) * (1 + root(w))),
        lambda w: 2 / (w * w * root(w) * (1 + root(w))), of=one_step("JSL"), places=WIDE,
    ),
    Floats(
        "R20 (20)", RELU, "", lambda w: (w - math.sqrt(2)) / (w * (math.log(w * w) - math.log(2))),
        lambda w: 2 * (w - math.sqrt(2)) / (w * (math.log(w * w) - math.log(2))),
        of=lambda w: mf.tuning.tuning_rates("relu", sigma_w=w).falling, places=WIDE,
    ),
    Floats(
        "R44 (44)", RELU, "", lambda w: 4 / (w**3 * (math.sqrt(2) + w)), lambda w: 4 / (w**3 * (2 + w)),
        of=lambda w: mf.tuning.tuning_rates("relu", sigma_w=w, loss="JSL").falling, places=WIDE,
    ),
    Floats(
        "R19 (19), linear", network("linear"), "", lambda w: (w - 1) * w / (w * w * math.log(w * w)),
        lambda w: (w - 1) * w / (2 * w * w * math.log(w * w)), True, of=one_step("JLL", "linear", 1.0), places=WIDE,
    ),
)
