"""Averages over a normalized batch in doubles: Legendre nodes in the angles, on panels that end at breaks."""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.functions.piecewise import pieces
from meanfield.numeric.quadrature.evaluation import evaluate
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.symbolic.averages.nodes.spheres import SphereAverage, with_numbers

REACH = 13.0  # standard deviations of an entry beyond which its density is no double
USABLE = 1e-8


@lru_cache(maxsize=512)
def sphere_value(node: SphereAverage) -> tuple[float, float]:
    """(value, measured error) of an average without symbols; a closed form's digits where there is one.

    Raises: MeanFieldError where the quadrature does not settle.
    """
    closed = node.doit()
    if not closed.has(SphereAverage):
        return float(sp.N(closed, 20)), 0.0
    f, g = (with_numbers(e, lambda a: sp.Float(sphere_value(a)[0], 17)) for e in node.functions)
    coarse, fine = (_nested(f, g, node.size, order, share) for order, share in ((20, 1.0), (28, 0.7)))
    error = abs(coarse - fine)
    if not error < USABLE * max(1.0, abs(fine)):
        raise MeanFieldError(
            f"{node} is too steep or oscillates too fast for float64 (two quadratures differ by {error:.0e})."
        )
    return fine, error


def _nested(f: sp.Expr, g: sp.Expr, size: int, order: int, share: float) -> float:
    root, rho = math.sqrt(size - 1), -1 / (size - 1)
    side = math.sqrt(1 - rho * rho)
    own, others = (np.array([float(b) / root for b in pieces(e, Z[0]).breaks]) for e in (f, g))
    places = [math.asin(b) for b in own if abs(b) < 1]
    for b in others[np.abs(others) < 1]:  # where a break of g leaves the circle of y_b
        for sign in (1, -1):
            phase = math.atan2(sign * side, rho)
            for base in (math.asin(b), math.pi - math.asin(b)):
                places.append(math.remainder(base - phase, 2 * math.pi))
    theta, weight = _panels(places, size, order, share)
    t = np.sin(theta)
    weight = weight * np.cos(theta) ** (size - 3)
    if g == 1:
        inner = np.ones_like(t)
    else:
        inner = np.empty_like(t)
        for k, x in enumerate(t):
            far = side * math.sqrt(max(0.0, 1 - x * x))
            cuts = [math.asin(c) for c in (others - rho * x) / far if abs(c) < 1] if far > 0 else []
            psi, own_weight = _panels(cuts, size, order, share)
            own_weight = own_weight * np.cos(psi) ** (size - 4)
            values = evaluate(g, root * (rho * x + far * np.sin(psi)))
            inner[k] = (own_weight * values).sum() / own_weight.sum()
    return float((weight * inner * evaluate(f, root * t)).sum() / weight.sum())


def _panels(places: list[float], size: int, order: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights over (-π/2, π/2), panels ending at `places`, where roots of the distance are smoothed away."""
    end = min(math.pi / 2, REACH / math.sqrt(size))
    cuts = [-end, *sorted({p for p in places if abs(p) < end}), end]
    x, w = gauss_legendre(order)
    nodes, weights = [], []
    for a, b in pairwise(cuts):
        count = max(1, math.ceil((b - a) * math.sqrt(size) / (2.0 * share)))
        for k in range(count):
            s = (k + 0.5 * (1 + x)) / count
            nodes.append(a + (b - a) * s * s * (3 - 2 * s))
            weights.append((b - a) * 6 * s * (1 - s) * 0.5 * w / count)
    return np.concatenate(nodes), np.concatenate(weights)
