"""Where an architecture of given depth and width is critical: certified critical points first, then a search.

A choice is judged by the worst |log J^{1,L}| over starts K¹ within two standard deviations of what a network of this
width draws (K¹ varies by √(2/n) of itself), so that a point that repels K is not taken for one that holds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.networks.folds import chain
from meanfield.networks.records import Block, Param, Projection, Residual
from meanfield.numeric.phases.float_roots import between, sides
from meanfield.symbolic.criticality.critical_lines import CriticalLine
from meanfield.theory.deriving import derive
from meanfield.tuning.dense_layers import branch_end
from meanfield.tuning.recommendation.compiled_prediction import CompiledPrediction
from meanfield.tuning.recommendation.fluctuation import of_log_J

BIASES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)  # σ_b at which a search looks for a critical σ_w
RANGE = (0.02, 50.0)  # of σ_w in a search
FLAT = 1e-9  # |log J| a layer below which an architecture is critical at every σ_w
CONVERGED = 300  # layers after which K is taken to be at its fixed point
HOLDS = 1.0  # the worst |log J| of a choice that is taken without looking further
UNSTEADY = 4.0  # times √(L/n), from which on networks are thrown off by what finite width adds to K in every layer
SCALES = (0.1, 1e-2, 1e-4, 1e-7)  # factors of branches to start from
LARGEST, SMALLEST = 1e6, 1e-6  # K* in a search


class Anchor(NamedTuple):
    """A critical point as text; side: from where its K* attracts, as in `CriticalPoint.side`."""

    sigma_w: str
    sigma_b: str
    K: str
    kind: str
    side: str = ""


@dataclass(frozen=True)
class Choice:
    """σ_w, σ_b of all Dense of the block, K¹, the factor of its branches (None without branches), and why.

    anchor: the critical point it belongs to, as text, or None. log_J: at the depth asked for;
    worst: largest |log J| over the starts K¹ that a finite width draws (of a place that was searched for, also what
    `scattered` says).
    """

    sigma_w: float
    sigma_b: float
    K1: float
    scale: float | None
    kind: str
    anchor: Anchor | None
    log_J: float
    worst: float


def spread_of_K(width: int) -> np.ndarray:
    """Factors of K¹: 1, and two standard deviations √(2/n) of a mean of n squares to both sides."""
    delta = min(2 * math.sqrt(2 / width), 0.9)
    return np.array([1.0, 1 - delta, 1 + delta])


def judged(p: CompiledPrediction, place: tuple[float, float, float], depth: int, width: int, **about: Any) -> Choice:
    """A place (σ_w, σ_b, K¹) with what happens there at this depth."""
    sigma_w, sigma_b, K1 = place
    scale = about.setdefault("scale", None)
    log_J, _ = p.last(sigma_w, sigma_b, K1 * spread_of_K(width), depth, scale)
    return Choice(sigma_w, sigma_b, K1, log_J=float(log_J[0]), worst=float(np.abs(log_J).max()), **about)


def certified(p: CompiledPrediction, depth: int, width: int) -> tuple[Choice, ...]:
    """Choices at the certified critical points, moved along σ_w to J^{1,L} = 1 where K drifts towards K* = 0."""
    try:
        points = derive(architecture=p.own, batch=p.batch).critical_points()
    except MeanFieldError:
        return ()
    found = []
    for point in points:
        try:
            sigma_w, sigma_b = float(point.sigma_w.value), float(point.sigma_b.value)
        except (TypeError, ValueError):
            continue
        if not sigma_w > 0:
            continue
        try:
            K = float(point.K.value)
        except TypeError:
            K = 0.0  # every K is fixed
        shown = str(point.K.value) if K == 0.0 else f"{K:.6g}"
        anchor = Anchor(f"{sigma_w:.6g}", f"{sigma_b:.6g}", shown, point.kind, point.side)
        if K > 0:
            place = sigma_w, sigma_b, K
        else:
            at = _crossing(partial(_from, p, sigma_b, np.ones_like, depth), sigma_w / 2, sigma_w * 2, sigma_w)
            exact = abs(float(p.last(sigma_w, sigma_b, 1.0, depth)[0])) <= FLAT * depth
            place = sigma_w if exact or at is None else at, sigma_b, 1.0
        found.append(judged(p, place, depth, width, kind="point", anchor=anchor))
    return tuple(found)


def searched(p: CompiledPrediction, depth: int, width: int) -> tuple[Choice, ...]:
    """Choices with J^{1,L} = 1 on a grid of σ_b, from K¹ = 1 and from the K that layers settle at."""
    found = []
    for sigma_b in BIASES:
        flat = np.abs(p.last(np.array([0.5, 1.0, 2.0]), sigma_b, 1.0, depth)[0]).max() <= FLAT * depth
        if flat:
            return (judged(p, (1.0, sigma_b, 1.0), depth, width, kind="flat", anchor=None),)
        for settle in (False, True):

            start = partial(_start, p, sigma_b, settle)
            at = _crossing(partial(_from, p, sigma_b, start, depth), *RANGE, 1.0)
            if at is not None and abs(float(_from(p, sigma_b, start, depth, np.array([at]))[0])) < 0.05:
                K1 = float(start(np.array([at]))[0])
                one = judged(p, (at, sigma_b, K1), depth, width, kind="search", anchor=None)
                found.append(replace(one, worst=max(one.worst, scattered(p, (at, sigma_b, K1), depth, width))))
        if any(one.worst <= HOLDS for one in found):
            break
    return tuple(found)


def scattered(p: CompiledPrediction, place: tuple[float, float, float], depth: int, width: int) -> float:
    """The standard deviation of log J^{1,L} over networks where order 1/n knows it and it is large beside √(L/n), that
    of a ReLU; else 0. K of every layer is off, not K¹ alone: where K is repelled that is what J ends by."""
    found = of_log_J(p.own, place, depth)
    sd = 0.0 if found is None else math.sqrt(found[2] / width)
    return sd if sd > max(UNSTEADY * math.sqrt(depth / width), HOLDS / 2) else 0.0


def _start(p: CompiledPrediction, sigma_b: float, settle: bool, sigma_w: np.ndarray) -> np.ndarray:
    """K¹ = 1, or the K that layers settle at from there, where that is a number of an ordinary size."""
    if not settle:
        return np.ones_like(sigma_w)
    K = p.last(sigma_w, sigma_b, 1.0, CONVERGED)[1]
    return np.where((K > SMALLEST) & (K < LARGEST), K, 1.0)


def _from(p: CompiledPrediction, sigma_b: float, start: Callable, depth: int, sigma_w: np.ndarray) -> np.ndarray:
    return p.last(sigma_w, sigma_b, start(sigma_w), depth)[0]


def _crossing(f: Callable[[np.ndarray], np.ndarray], low: float, high: float, near: float) -> float | None:
    """A zero of f in [low, high] to rounding: of the changes of sign between finite numbers that 81 places show, the
    one nearest `near` in the logarithm. None where there is none."""
    u = np.linspace(math.log(low), math.log(high), 81)
    y = f(np.exp(u))
    flips = np.flatnonzero(np.isfinite(y[:-1]) & np.isfinite(y[1:]) & (np.sign(y[:-1]) * np.sign(y[1:]) <= 0))
    if not len(flips):
        return None
    i = min(flips, key=lambda j: abs((u[j] + u[j + 1]) / 2 - math.log(near)))
    return math.exp(between(lambda one: float(f(np.exp(np.array([one])))[0]), u[i], u[i + 1]))


def on_the_line(p: CompiledPrediction, depth: int, width: int) -> tuple[Choice, ...]:
    """The choice σ_w = 1 on a critical line that is a ray through the origin, from the K that layers settle at.

    Behind a LayerNorm only σ_b/σ_w matters, and K is at its fixed point from layer 2 on.
    """
    try:
        line = derive(architecture=p.own, batch=p.batch).critical_line()
        if not isinstance(line, CriticalLine) or line.kind != "ray":
            return ()
        ((sigma_b, _),) = line.sigma_b_at(1)
        ratio = float(sigma_b.value)
    except (MeanFieldError, TypeError, ValueError):
        return ()
    K1 = float(p.last(1.0, ratio, 1.0, CONVERGED)[1])
    return (judged(p, (1.0, ratio, K1), depth, width, kind="line", anchor=None),)


def choices(p: CompiledPrediction, depth: int, width: int) -> tuple[Choice, ...]:
    """All that were found without changing the branches, the best first: certified ones that hold, then the worst |log
    J| decides."""
    other: tuple[Choice, ...] = ()
    if grows(p.block):
        return ()
    for way in (certified, on_the_line, searched):
        found = way(p, depth, width)
        if any(one.worst <= HOLDS for one in found):
            break
        other = (*other, *found)
    else:
        found = other
    return tuple(sorted(found, key=lambda c: (c.worst > HOLDS, c.worst)))


def grows(block: Block) -> bool:
    """Whether J^{l,l+1} > 1 for every factor > 0 of the branches: each part of the block adds what a branch that ends
    in weights of its own makes to μ times what came, μ ≥ 1, so that J' = J·(χ + μ²)."""
    return all(
        isinstance(one, Residual)
        and not isinstance(one.mu, Param)
        and float(one.mu) >= 1
        and (one.shortcut is None or isinstance(one.shortcut, Projection))
        and branch_end(one.branch)[0] is not None
        for one in chain(block)
    )


def largest_scale(p: CompiledPrediction, depth: int, width: int, budget: float, sigma_w: float = 1.0) -> Choice | None:
    """The largest common factor ≤ 1 of the branches with |log J^{1,L}| ≤ budget, from K¹ = 1; None where there is none.
    """

    def over(s: float) -> float:
        return abs(float(p.last(sigma_w, 0.0, 1.0, depth, s)[0])) - budget

    at = 1.0
    if over(1.0) > 0:
        inside = next((s for s in SCALES if over(s) <= 0), None)
        if inside is None:
            return None
        at, _ = sides(over, inside, 1.0)
    return judged(p, (sigma_w, 0.0, 1.0), depth, width, scale=at, kind="budget", anchor=None)
