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
PARTS = 8  # of a panel


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
    widths = 0.5 ** np.arange(NARROWEST, -1, -1.0)
    width, before = widths[0], math.inf
    for here, missed in zip(widths, _missed(h, places, branched, wider * widths, nodes)):
        if missed > max(MISSED, RISES * before):
            break
        width, before = here, missed
    return float(width)


def _missed(h: sp.Expr, places: np.ndarray, branched: set[float], widths: np.ndarray, nodes: int) -> np.ndarray:
    """For each width of the first panel beside a steep point, the largest share of ∫h² there that two panels miss, the
    second twice as wide as the first: what they make of it against eight panels in place of each."""
    x, w = gauss_legendre(nodes)
    fine = ((np.arange(PARTS)[:, None] + 0.5 * (1.0 + x)) / PARTS).ravel()
    at, weights = np.concatenate([0.5 * (1.0 + x), fine]), np.concatenate([0.5 * w, np.tile(0.5 * w / PARTS, PARTS)])
    worst = np.zeros(widths.size)
    for k, place in enumerate(places):
        missed, whole = np.zeros(widths.size), np.zeros(widths.size)
        for side, near in ((1.0, places[k + 1 : k + 2]), (-1.0, places[max(k - 1, 0) : k])):
            end = abs(near[0] - place) if near.size else math.inf
            if place in branched:
                continue
            asked = 3.0 * widths < end if near.size and near[0] in branched else np.ones(widths.size, dtype=bool)
            low, high = (np.minimum(np.outer(widths, u), end) for u in ((0.0, 1.0), (1.0, 3.0)))
            size = (high - low)[..., None]
            with np.errstate(all="ignore"):
                values = evaluate(h, (place + side * (low[..., None] + size * at)).ravel()).reshape(*low.shape, at.size)
                values = values**2 * (weights * size)
            once, cut = values[..., :nodes].sum(axis=-1), values[..., nodes:].sum(axis=-1)
            missed += np.where(asked, np.abs(once - cut).sum(axis=-1), 0.0)
            whole += np.where(asked, np.abs(cut).sum(axis=-1), 0.0)
        known = (whole > 0.0) & (whole < math.inf)
        share = np.divide(missed, whole, out=np.zeros(widths.size), where=known)
        worst = np.maximum(worst, share - ROUNDING * abs(place) / widths)
    return worst
