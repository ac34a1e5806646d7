"""Estimates of correlators of order 1/n from ensembles of one width, with what is 0 on average regressed out,
and their extrapolation in 1/n.

A regression on controls leaves estimates without bias (to 1/networks) and takes out what they share with the noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

MEANS = {"V": ("S", "S"), "A": ("h", "h"), "D": ("S", "h")}


@dataclass
class Estimate:
    """n times a connected average at every layer, with its standard error: arrays (depth, …)."""

    mean: np.ndarray
    error: np.ndarray


@dataclass
class Ensemble:
    """The rows and controls of many networks of one width."""

    n: int
    rows: list[dict[str, np.ndarray]]
    controls: list[tuple[np.ndarray, np.ndarray]]
    _known: dict = field(default_factory=dict)

    def estimate(self, name: str, controlled: bool = True) -> Estimate:
        found = [self._at(name, layer, controlled) for layer in range(len(self.rows))]
        return Estimate(*(np.stack(part) for part in zip(*found)))

    def _at(self, name: str, layer: int, controlled: bool) -> tuple[np.ndarray, np.ndarray]:
        here = self.rows[layer]
        raw = here[name].reshape(len(here[name]), -1)
        count, shape = len(raw), here[name].shape[1:]
        influence, mean = raw, raw.mean(axis=0)
        if name in MEANS:  # means over pairs of different networks
            a, b = (here[x].reshape(count, -1) for x in MEANS[name])
            ab = np.einsum("Ni,Nj->ij", a, b) / count
            outer = np.multiply.outer
            A, B = a.mean(axis=0), b.mean(axis=0)
            mean = mean - ((count * outer(A, B) - ab) / (count - 1)).ravel()
            influence = raw - (A[:, None] * b[:, None, :] + a[:, :, None] * B).reshape(count, -1)
        influence = influence - influence.mean(axis=0)
        C = self.known(layer)
        if controlled and C.shape[1]:
            C = C / np.maximum(C.std(axis=0), 1e-300)
            centred = C - C.mean(axis=0)
            beta = np.linalg.pinv(centred.T @ centred, rcond=1e-10, hermitian=True) @ (centred.T @ influence)
            influence, mean = influence - centred @ beta, mean - C.mean(axis=0) @ beta
        used = C.shape[1] * controlled
        error = influence.std(axis=0, ddof=1 + used) * np.sqrt((1 + used / (count - used - 2)) / count)
        return (self.n * mean).reshape(shape), (self.n * error).reshape(shape)

    def known(self, layer: int) -> np.ndarray:
        """As many kinds of controls as there are five times as many networks for."""
        if layer not in self._known:
            linear = [c for c, _ in self.controls[: layer + 1]]
            products = [p for _, p in self.controls[: layer + 1]]
            crossed = [(a[:, :, None] * b[:, None]).reshape(len(a), -1) for a, b in combinations(linear, 2)]
            C = np.empty((len(linear[0]), 0))
            for kind in (linear, products, crossed):
                more = np.concatenate([C, *kind], axis=1)
                more = more[:, more.std(axis=0) > 1e-6]
                if 5 * more.shape[1] < len(more):
                    C = more
            self._known = {layer: C}
        return self._known[layer]


def joined(n: int, parts: list) -> Ensemble:
    """One ensemble of batches: of each the (rows, controls, products) of every layer."""
    layers = [list(zip(*layer)) for layer in zip(*parts)]
    return Ensemble(
        n,
        [{x: np.concatenate([r[x] for r in layer[0]]) for x in layer[0][0]} for layer in layers],
        [(np.concatenate(layer[1]), np.concatenate(layer[2])) for layer in layers],
    )


def extrapolated(
    estimates: dict[int, Estimate], terms: int = 3, floor: float = 0.003, every_layer: bool = False
) -> Estimate:
    """x₀ of x₀ + x₁/n + … (`terms` of them), fitted at every layer to widths weighted by their errors.

    Errors have at least `floor` of the largest |value| (of every layer, or of all) beside them: what is better known
    than that feels terms beyond.
    """
    widths = np.array(list(estimates))
    powers = np.vander(1 / widths, terms, increasing=True)
    mean = np.stack([e.mean for e in estimates.values()])
    axes = tuple(range(1 + every_layer, mean.ndim))
    error = np.hypot(
        np.stack([e.error for e in estimates.values()]), floor * np.abs(mean).max(axis=axes, keepdims=True)
    )
    x0, s0 = np.empty(mean.shape[1:]), np.empty(mean.shape[1:])
    for place in np.ndindex(*x0.shape):
        m, e = mean[(slice(None), *place)], error[(slice(None), *place)]
        weights = (np.linalg.pinv(powers / e[:, None]) / e)[0] if e.all() else np.zeros(len(m))
        x0[place], s0[place] = weights @ m, np.sqrt(weights**2 @ e**2)
    return Estimate(x0, s0)
