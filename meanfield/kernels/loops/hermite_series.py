r"""Functions of one Gaussian as Hermite series, at many variances at once: what all pairs of a data set share.

f(√V x) = Σ_k a_k(V) h_k(x) with orthonormal h_k, so that ⟨f(z_a) g(z_b)⟩ = Σ_k a_k(V_a) b_k(V_b) c^k at correlation c
(Mehler). What the terms from N on leave out is at most |c|^N √(r_a r_b), r = ⟨f²⟩ − Σ_{k < N} a_k² (Schwarz), and so
with ⟨f′²⟩ for the slope ∂⟨f g⟩/∂c. Both r are kept on a ladder of N, which decides for each pair how many terms it
takes, and which pairs no series reaches.

The coefficients are integrals over Legendre panels that end at breaks of f; f is folded, since h_k is even or odd.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np
import sympy as sp
from numba import njit

from meanfield.base.symbols import Z
from meanfield.functions.piecewise import pieces
from meanfield.kernels.loops.hermite_cells import (
    CELLS,
    DEGREE,
    HermiteCell,
    HermiteCells,
    nodes,
    to_coefficients,
    variances,
)
from meanfield.kernels.loops.pair_loops import LADDER, Series
from meanfield.numeric.lowering.modules import cache
from meanfield.numeric.quadrature.evaluation import evaluate
from meanfield.numeric.quadrature.gaussian_averages import QuadratureRule, panels, resolved, rule_for
from meanfield.numeric.quadrature.rules import gauss_legendre

ROUNDING = 3e-14  # of ⟨f²⟩: a rest below is no rest
REACH = 13.0  # in standard deviations: e^{−x²/4} is below all digits there
PHASE = 6.0  # of the fastest polynomial in one panel
NODES = 16
NEGLIGIBLE = 1e-29  # of ⟨f²⟩: a double sees the root of it, and so much is rounding of the coefficients
LEAST_RUNG = 4  # of the ladder, from which on coefficients are looked for
HALVINGS = 40  # of a panel towards a branch point
OCTAVE = 2.0  # ratio of standard deviations that share their nodes


def parity(f: sp.Expr) -> tuple[int, int]:
    """(first, step) of the k whose coefficients are not 0: (1, 2) of an odd f, (0, 2) of an even one, else (0, 1).

    Numbers rule parities out, and what they leave is proved: `1 if z > 0.3 else -1` and tanh(100z - 5) are odd at all
    numbers beyond their step.
    """
    x = np.array([0.3, 0.7, 1.1, 1.9, 3.3, 7.1])
    right, left = evaluate(f, x), evaluate(f, -x)
    size = np.abs(right) + np.abs(left) + 1e-300
    for first, sign in ((1, 1), (0, -1)):
        if (np.abs(right + sign * left) <= 1e-15 * size).all() and _mirrored(f, sign):
            return first, 2
    return 0, 1


def _mirrored(f: sp.Expr, sign: int) -> bool:
    """Whether f(z) + sign·f(-z) is 0, piece by piece."""
    p = pieces(f, Z[0])
    if tuple(-b for b in reversed(p.breaks)) != tuple(p.breaks):
        return False
    return all(
        sp.expand(one + sign * other.xreplace({Z[0]: -Z[0]})) == 0 for one, other in zip(p.exprs, reversed(p.exprs))
    )


def expand(f: sp.Expr, slope: sp.Expr | None, V: np.ndarray) -> Series:
    """The series of f (and the tails of its derivative `slope`) at variances V[layer, input].

    Coefficients are read off tables: polynomials in log V, made for the cells that are met.
    """
    return table(f, slope).expand(V)


class HermiteTable(HermiteCells):
    """The cells of one function, made when they are met."""

    def __init__(self, f: sp.Expr, slope: sp.Expr | None) -> None:
        name = cache.key(f"cells|{CELLS}|{DEGREE}|{sp.srepr(f)}|{sp.srepr(slope)}")
        super().__init__(name, *parity(f), float(evaluate(f, np.zeros(1))[0]))
        self.f, self.slope, self.jumps = f, slope, bool(pieces(f, Z[0]).jumps())
        # then coefficients fall as a power of k once the breaks are seen, and all are computed at once
        self.breaks = bool(pieces(f, Z[0]).breaks)
        self.recall()

    def made(self, index: int) -> HermiteCell:
        """The coefficients at Chebyshev points of the cell, as polynomials."""
        V = variances(index, nodes(DEGREE + 1))
        top = len(LADDER) - 1
        a, square, slopes = _coefficients(self.f, self.slope, V, LADDER[top if self.breaks else LEAST_RUNG])
        for rung in range(LEAST_RUNG, top + 1):
            if not self.breaks and rung > LEAST_RUNG:
                a, square, slopes = _coefficients(self.f, self.slope, V, LADDER[rung])
            own = a[:, : LADDER[rung]]
            tails, done = _tails(own, square, slopes, rung)
            if self.jumps:  # ⟨f′²⟩ is infinite, whatever the pieces' slopes are
                tails[1] = 1.0
            if done:
                break
        return HermiteCell(LADDER[rung], project(to_coefficients(len(V)), own), np.sqrt(tails.max(axis=2)))


@lru_cache(maxsize=64)
def moving(f: sp.Expr) -> tuple[sp.Expr, float]:
    """(f - f(0), f(0)); f itself and 0 where it jumps at 0."""
    left, right = (e.subs(Z[0], 0) for e in pieces(f, Z[0]).around_zero())
    if left != right or not right.is_finite:
        return f, 0.0
    return pieces(f, Z[0]).map(lambda e: e - right).expr, float(right)


@lru_cache(maxsize=64)
def table(f: sp.Expr, slope: sp.Expr | None) -> HermiteTable:
    return HermiteTable(f, slope)


def _tails(a: np.ndarray, square: np.ndarray, slopes: np.ndarray, rung: int) -> tuple[np.ndarray, bool]:
    """((2, rungs, variances): what the terms from N on are of ⟨f²⟩ and of V⟨f′²⟩; whether none are missing).

    The sums of what has been computed are exact; what is behind them is the rest of the average where that is more than
    rounding, else what goes on as the last terms did. Last terms that are 0 say nothing while a rest is left: those of
    sin at V = 6000 are 0 up to k = 512, and the sum of squares stands at k = 6000.
    """
    k = np.arange(LADDER[rung])
    out = np.zeros((2, len(LADDER), len(a)))
    done = True
    for i, (whole, parts) in enumerate(((square, a**2), (slopes, k * a**2))):
        with np.errstate(all="ignore"):
            parts = np.where(whole[:, None] > 0, parts / whole[:, None], 0.0)
            behind = np.cumsum(parts[:, ::-1], axis=1)[:, ::-1]
            last, before = behind[:, LADDER[rung - 1]], behind[:, LADDER[rung - 2]]
            fall = np.where(before > last, last / before, 0.0)
            rest = np.where(whole > 0, 1 - behind[:, 0], 0.0)
            settled = (before < NEGLIGIBLE) & ~(rest > ROUNDING)
            rest = np.where(rest > ROUNDING, rest, last * fall / (1 - fall))
        done = done and bool(settled.all())
        for j, n in enumerate(LADDER):
            out[i, j] = np.where(settled, 0.0, rest) + (behind[:, n] if n < k.size else 0.0)
    return out, done


def _coefficients(f, slope, V: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """a (variances, order), ⟨f²⟩ and V⟨f′²⟩. What f moves by from f(0) is integrated: at small V all but a_0 is lost
    beside f(0)."""
    a, square, slopes = np.zeros((V.size, order)), np.zeros(V.size), np.zeros(V.size)
    at_rest = evaluate(f, np.zeros(1))[0]
    f, constant = moving(f)
    sigma = np.sqrt(V)
    shared = not any(b != 0 for b in pieces(f, Z[0]).breaks)
    with np.errstate(divide="ignore"):
        level = np.floor(np.log2(sigma)) if shared else np.unique(sigma, return_inverse=True)[1]
    for one in np.unique(level):
        here = np.flatnonzero(level == one)
        if sigma[here[0]] == 0.0:
            a[here, 0], square[here] = at_rest, at_rest**2
            continue
        top = float(2.0 ** (one + 1)) if shared else float(sigma[here[0]])
        x, w, even, odd = _basis(f, top, order)
        z = sigma[here, None] * x
        right, left = evaluate(f, z), evaluate(f, -z)
        a[here[:, None], np.arange(0, order, 2)] = project(right + left, even)
        a[here[:, None], np.arange(1, order, 2)] = project(right - left, odd)
        square[here] = project(right * right + left * left, w)[:, 0] + constant * (constant + 2 * a[here, 0])
        a[here, 0] += constant
        if slope is not None:
            right, left = evaluate(slope, z), evaluate(slope, -z)
            slopes[here] = V[here] * project(right * right + left * left, w)[:, 0]
    return a, square, slopes


@lru_cache(maxsize=64)
def _rule(f: sp.Expr) -> QuadratureRule:
    return rule_for(f, resolved(f)[0])


@lru_cache(maxsize=64)
def _basis(f: sp.Expr, sigma: float, order: int):
    """Nodes x > 0, weights of a standard normal, and weights times h_0, h_2, … and h_1, h_3, …"""
    rule = _rule(f)
    edges = panels(rule, sigma) / sigma
    edges = np.append(edges[edges < REACH * (1 - 1e-9)], REACH)
    for b in {abs(one.at) / sigma for one in rule.branches if abs(one.at) < REACH * sigma}:
        steps = 0.5 ** np.arange(1, HALVINGS)  # no polynomial follows a power of the distance to its branch point
        at = int(np.searchsorted(edges, b * (1 - 1e-12)))
        right, left = edges[min(at + 1, edges.size - 1)] - b, b - edges[at - 1] if at else 0.0
        edges = np.unique(np.concatenate([edges, b + right * steps, b - left * steps]))
    widest = min(PHASE / math.sqrt(order), 4.0 / (rule.fastest * sigma + 1e-9))
    cut = [np.linspace(lo, hi, math.ceil((hi - lo) / widest) + 1)[:-1] for lo, hi in pairwise(edges)]
    edges = np.append(np.concatenate(cut), REACH)
    nodes, weights = gauss_legendre(NODES)
    half = np.diff(edges)[:, None] / 2
    x = (edges[:-1, None] + half * (1 + nodes)).ravel()
    root = np.exp(-x * x / 4)
    w = (half * weights).ravel() / math.sqrt(2 * math.pi) * root
    return x, (w * root)[:, None], *_columns(x, w, root, order)


def _columns(x, w, root, order):
    """Weights times even and odd polynomials, which are carried with the root of the density."""
    even, odd = np.empty((x.size, (order + 1) // 2)), np.empty((x.size, order // 2))
    _hermite(x, w, root, order, np.sqrt(np.arange(order + 1.0)), even, odd)
    return even, odd


@njit(cache=True, nogil=True)
def _hermite(x, w, root, order, up, even, odd):
    for i in range(x.size):
        below, here = 0.0, root[i]
        for k in range(order):
            if k % 2 == 0:
                even[i, k // 2] = w[i] * here
            else:
                odd[i, k // 2] = w[i] * here
            below, here = here, (x[i] * here - up[k] * below) / up[k + 1]


def project(values: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """values @ basis, summed in one order on every machine."""
    out = np.zeros((len(values), basis.shape[1]))
    _project(np.ascontiguousarray(values), np.ascontiguousarray(basis), out)
    return out


@njit(cache=True, nogil=True)
def _project(values, basis, out):
    for r in range(values.shape[0]):
        own = out[r]
        for i in range(values.shape[1]):
            v = values[r, i]
            column = basis[i]
            for k in range(own.size):
                own[k] += v * column[k]
