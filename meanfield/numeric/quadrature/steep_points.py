"""Where a function is steep, how steep, and how wide panels may be beside such a place."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import lru_cache

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.functions import zeros
from meanfield.functions.elementary import where
from meanfield.functions.piecewise import pieces
from meanfield.numeric.quadrature import branches
from meanfield.numeric.quadrature.evaluation import evaluate
from meanfield.numeric.quadrature.rules import gauss_legendre

MISSED = 1e-14  # of the integral beside a steep point, by the panels there
RISES = 4.0  # times what half the width misses: less is rounding of the function
ROUNDING = 16 * 2.0**-53  # of a place: what panels beside it do not know of their own
NARROWEST = 40  # halvings of 1 at which the search begins


def centres(expr: sp.Expr) -> list[float]:
    """|z| where a saturating head of a linear argument switches, as 3 in tanh(20(z - 3)), where e^{-(20z - 60)²} has
    its top, and next to the poles of a fraction, as 2 in 1/(1 + 400(z - 2)²): steep points the panels must see."""
    found = []
    for node in expr.atoms(sp.exp):
        u = sp.expand(node.args[0])
        if u.is_polynomial(Z[0]) and sp.degree(u, Z[0]) == 2 and u.coeff(Z[0], 2).is_negative:
            top = -u.coeff(Z[0], 1) / (2 * u.coeff(Z[0], 2))
            found += [abs(float(top))] if top.is_number else []
    for node in expr.atoms(sp.Pow):
        if node.exp.is_negative and node.base.has(Z[0]) and node.base.is_polynomial(Z[0]):
            poly = sp.Poly(node.base, Z[0])
            if all(c.is_number for c in poly.all_coeffs()):
                with suppress(MeanFieldError):  # without them panels are narrowed until the values stop moving
                    found += [abs(float(r.real)) for r in zeros.complex_roots(poly)]
    for node in expr.atoms(*where("bends")):
        u = sp.expand(node.args[0])
        slope = u.coeff(Z[0])
        if u.is_polynomial(Z[0]) and slope.is_number and slope != 0 and sp.degree(u, Z[0]) == 1:
            found.append(abs(float(-u.coeff(Z[0], 0) / slope)))
    return found


def steepness(expr: sp.Expr) -> float:
    """The largest slope of a linear argument of a function, 100 in tanh(100(z - 5))."""
    heads = expr.atoms(*where("levels"))
    slopes = [sp.expand(h.args[0]).coeff(Z[0]) for h in heads]
    return max([abs(float(s)) for s in slopes if s.is_number], default=1.0)


@lru_cache(maxsize=512)
def resolving_width(h: sp.Expr, nodes: int, wider: float) -> float:
    """The largest 2^-k ≤ 1 such that panels that begin `wider` times as wide beside a steep point follow h², and all
    narrower ones do: the nodes of wide panels may not meet what is steep. Each side counts alone, for panels need not
    lie alike on both, and the odd part of h² then does not cancel. Beside a branch point nothing is asked."""
    steep = centres(h)
    places = np.array(sorted({0.0, *(float(b) for b in pieces(h, Z[0]).breaks), *steep, *(-c for c in steep)}))
    branched = {float(b.at) for b in branches.branches(h)}
    width, before = 0.5**NARROWEST, math.inf
    for k in range(NARROWEST, -1, -1):
        missed = _missed(h, places, branched, wider * 0.5**k, nodes)
        if missed > max(MISSED, RISES * before):
            break
        width, before = 0.5**k, missed
    return width


def _missed(h: sp.Expr, places: np.ndarray, branched: set[float], width: float, nodes: int) -> float:
    """The largest share of ∫h² beside a steep point that its first two panels miss, the second twice as wide."""
    x, w = gauss_legendre(nodes)
    worst = 0.0
    for k, place in enumerate(places):
        missed, whole = 0.0, 0.0
        for side, near in ((1.0, places[k + 1 : k + 2]), (-1.0, places[max(k - 1, 0) : k])):
            end = abs(near[0] - place) if near.size else math.inf
            if place in branched or (near.size and near[0] in branched and end < 3.0 * width):
                continue
            for low, high in ((0.0, 1.0), (1.0, 3.0)):
                ends = min(low * width, end), min(high * width, end)
                once, cut = (_integral(h, place, side, np.linspace(*ends, n + 1), x, w) for n in (1, 8))
                missed, whole = missed + abs(once - cut), whole + abs(cut)
        if 0.0 < whole < math.inf:
            worst = max(worst, missed / whole - ROUNDING * abs(place) / width)
    return worst


def _integral(h: sp.Expr, place: float, side: float, edges: np.ndarray, x: np.ndarray, w: np.ndarray) -> float:
    """∫h² over panels at a side of a place."""
    half = 0.5 * np.diff(edges)[:, None]
    with np.errstate(all="ignore"):
        values = evaluate(h, (place + side * (edges[:-1, None] + half * (1.0 + x))).ravel())
        return float(((half * w).ravel() * values**2).sum())
