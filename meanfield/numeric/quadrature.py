"""Float64 Gaussian averages of any integrand: Gauss–Legendre on dyadic panels with breaks at the kinks, and tables in
K.

No Gauss–Hermite: a kink or a saturating function at large K ruins it. The integrand is folded, f(z) + f(-z) for z > 0,
so that odd parts cancel exactly. Panels start at min(1, σ) and double outwards; all K of one octave share their panels,
so f is evaluated once an octave.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import mpmath as mp
import numpy as np
import sympy as sp

from meanfield.growth import bound
from meanfield.numeric.rules import chebyshev_to_power, exact_product, gauss_legendre
from meanfield.piecewise import half_line, pieces
from meanfield.results import MeanFieldError
from meanfield.symbols import Z, sigmoid, softplus
from meanfield.taylor import taylor

CELLS_PER_OCTAVE = 8  # a cell [1, 9/8] keeps the singularity K = 0 at 17 half-widths: degree 9 leaves 5e-16
DEGREE = 9
LOW, HIGH = -100, 100  # octaves a table covers at most: K from 2^-100 to 2^100
NODES = 20  # Gauss–Legendre nodes a panel
REACH = 9.5  # standard deviations integrated; e^{-45} is left out

_NUMPY = {
    "sigmoid": lambda x: np.exp(-np.logaddexp(0.0, -x)),
    "softplus": lambda x: np.logaddexp(0.0, x),
    "sech": lambda x: 2 * np.exp(-np.abs(x)) / (1 + np.exp(-2 * np.abs(x))),
}


def _scipy_special():
    from scipy import special  # a quarter of a second; only integrands with erf and no closed form need it

    return {"erf": special.erf, "erfc": special.erfc}


@lru_cache(maxsize=512)
def numpy_function(expr: sp.Expr):
    """A smooth expression in Z[0] as a NumPy function, with stable forms of sigmoid, softplus and sech."""
    modules = [_NUMPY, _scipy_special(), "numpy"] if expr.has(sp.erf, sp.erfc) else [_NUMPY, "numpy"]
    f = sp.lambdify(Z[0], expr, modules=modules, cse=True)
    return lambda x: np.broadcast_to(np.asarray(f(x), dtype=float), x.shape)


def evaluate(expr: sp.Expr, x: np.ndarray) -> np.ndarray:
    """A piecewise-smooth expression on an array (values at the breaks are those of the right piece)."""
    p = pieces(expr, Z[0])
    if not p.breaks:
        return numpy_function(expr)(x)
    out = np.empty_like(x)
    which = np.searchsorted(np.array([float(b) for b in p.breaks]), x, side="right")
    for k, e in enumerate(p.exprs):
        mask = which == k
        if mask.any():
            out[mask] = numpy_function(e)(x[mask])
    return out


TAYLOR_ORDER = 13


@lru_cache(maxsize=512)
def _near_zero(expr: sp.Expr) -> tuple[float, np.ndarray]:
    """(radius, coefficients) of f(z) + f(-z) as a polynomial in z ≥ 0 near 0, from the exact Taylor coefficients of
    both pieces.

    Written out, a piece like e^z - 1 or an odd leading term loses its digits there. Radius 0 where there is no Taylor
    series.
    """
    parts = pieces(expr, Z[0])
    left, right = parts.around_zero()
    try:
        a, b = _coefficients(right), _coefficients(left)
    except MeanFieldError:
        return 0.0, np.zeros(1)
    c = np.array(
        [float(sp.N(u + (-1) ** k * v, 17)) if u + (-1) ** k * v != 0 else 0.0 for k, (u, v) in enumerate(zip(a, b))]
    )
    used = np.flatnonzero(c)
    kinks = [abs(float(k)) for k in parts.breaks if k != 0]
    if not len(used):
        return 0.0, c
    # the first neglected term is taken as large as the largest kept one at unit radius of the geometric trend
    growth = max((abs(c[k] / c[used[0]])) ** (1 / (k - used[0])) for k in used[1:]) if len(used) > 1 else 1.0
    order = TAYLOR_ORDER + 1 - used[0]
    radius = (1e-18) ** (1 / order) / max(growth, 1.0) / 2
    return min([radius, 0.04, *kinks]), c


def _coefficients(piece: sp.Expr) -> tuple[sp.Expr, ...]:
    """Taylor coefficients at 0: exact, or with 30 digits where a head is met away from its own zero (sigmoid(4z - 2)),
    which would drag nested exponentials of numbers through every coefficient."""
    heads = piece.atoms(sp.tanh, sp.sech, sp.erf, sp.erfc, sigmoid, softplus, sp.exp, sp.atan, sp.asinh)
    if all(h.args[0].subs(Z[0], 0) == 0 for h in heads):
        return taylor(piece, Z[0], TAYLOR_ORDER)
    with mp.workdps(60):
        f = sp.lambdify(Z[0], piece.rewrite(sp.exp) if piece.has(sigmoid, softplus) else piece, "mpmath")
        found = mp.taylor(f, 0, TAYLOR_ORDER)
        least = mp.mpf("1e-25") * max(abs(c) for c in found)
        return tuple(sp.Float(str(c), 30) if abs(c) > least else sp.S.Zero for c in found)


def folded(expr: sp.Expr, z: np.ndarray) -> np.ndarray:
    """f(z) + f(-z) for z > 0, with the digits kept near 0."""
    out = evaluate(expr, z) + evaluate(expr, -z)
    radius, c = _near_zero(expr)
    small = z < radius
    if small.any():
        out = np.where(small, np.polynomial.polynomial.polyval(np.where(small, z, 0.0), c), out)
    return out


@dataclass(frozen=True)
class Rule:
    """How an integrand is cut up: |kinks|, growth rate c of e^{c|z|}, first panel width, largest panel width, and the
    |z| below which it is 0."""

    kinks: tuple[float, ...]
    rate: float
    first: float = 1.0
    widest: float = math.inf
    gap: float = 0.0


def rule_for(expr: sp.Expr, first: float = 1.0) -> Rule:
    p = pieces(expr, Z[0])
    rates = [b.c for e, lo, hi in p.intervals() if (b := bound(e, Z[0], half_line(lo, hi))) is not None]
    widest = 2.0 if expr.has(sp.sin, sp.cos) else math.inf
    if widest < math.inf:
        speeds = [
            abs(float(u.args[0].coeff(Z[0]))) for u in expr.atoms(sp.sin, sp.cos) if u.args[0].coeff(Z[0]).is_number
        ]
        widest = 2.0 / max([1.0, *speeds])
    edges = {abs(float(b)) for b in p.breaks} | set(centres(expr))
    walls = [abs(float(b)) for b in p.breaks]
    gap = min(walls) if walls and p.around_zero() == (0, 0) else 0.0
    return Rule(tuple(sorted(edges - {0.0})), max(rates, default=0.0), first, widest, gap)


def centres(expr: sp.Expr) -> list[float]:
    """|z| where a saturating head of a linear argument switches, as 3 in tanh(20(z - 3)): steep places the panels must
    see."""
    found = []
    for node in expr.atoms(sp.tanh, sp.sech, sp.erf, sp.erfc, sp.atan, sigmoid, softplus, sp.exp):
        u = sp.expand(node.args[0])
        slope = u.coeff(Z[0])
        if u.is_polynomial(Z[0]) and slope.is_number and slope != 0 and sp.degree(u, Z[0]) == 1:
            found.append(abs(float(-u.coeff(Z[0], 0) / slope)))
    return found


@lru_cache(maxsize=256)
def resolved(expr: sp.Expr) -> tuple[float, float]:
    """(first panel width, relative change on refining it) at which ⟨expr²⟩ stops moving over K = 0.01 … 1e4."""
    K = np.array([0.01, 1.0, 9.0, 100.0, 1e4])
    square = pieces(expr, Z[0]).map(lambda e: e**2).expr
    first = 1.0
    for _ in range(4):
        a, b = (gaussian_average(square, K, rule_for(square, w)) for w in (first, first / 4))
        with np.errstate(all="ignore"):
            change = float(np.nanmax(np.abs(a - b) / np.maximum(np.abs(b), 1e-290)))
        if change < 2e-13:
            break
        first /= 4
    return first, change


def panels(rule: Rule, sigma: float) -> np.ndarray:
    """Panel edges on [0, reach] for a standard deviation `sigma`."""
    # beyond a gap the average is as small as e^{-gap²/2K}, and all of it counts
    reach = math.hypot(REACH * sigma, rule.gap) + rule.rate * sigma**2
    edge, width, edges = 0.0, min(rule.first, sigma), [0.0]
    while edge < reach:
        edge += min(width, rule.widest)
        edges.append(min(edge, reach))
        width = max(edge, width)
        if len(edges) > 40_000:
            raise MeanFieldError(f"The integrand oscillates too fast for quadrature at standard deviation {sigma:.3g}.")
    inner = [k for k in rule.kinks if k < reach]
    for k in inner:  # grade towards each kink as towards 0, so that what is steep there is resolved at every σ
        step = min(rule.first, sigma, sigma**2 / k if k == rule.gap else sigma)
        edges.append(k)
        while step < reach:
            edges += [e for e in (k - step, k + step) if 0 < e < reach]
            step *= 2
    return np.unique(np.array(edges))


def nodes(rule: Rule, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    x, w = gauss_legendre(NODES)
    edges = panels(rule, sigma)
    half = np.diff(edges)[:, None] / 2
    return ((edges[:-1, None] + half) + half * x).ravel(), (half * w).ravel()


def gaussian_average(
    expr: sp.Expr, K: np.ndarray, rule: Rule | None = None, modulus: bool = False, gap: float = 0.0
) -> np.ndarray:
    """e^{gap²/2K}⟨expr⟩_K (mean 0) for an array of K > 0 by panel quadrature; with `modulus`, ⟨|expr|⟩, the scale
    errors are measured on."""
    K = np.atleast_1d(np.asarray(K, dtype=float))
    rule = rule or rule_for(expr)
    out = np.empty_like(K)
    octave = np.floor(np.log2(K))
    for o in np.unique(octave):
        mask = octave == o
        k = K[mask]
        z, w = nodes(rule, math.sqrt(k.max()))
        with np.errstate(all="ignore"):
            f = np.abs(evaluate(expr, z)) + np.abs(evaluate(expr, -z)) if modulus else folded(expr, z)
            density = np.exp(np.minimum(-0.5 * (z - gap) * (z + gap) / k[:, None], 0.0))  # inside the gap f is 0
            density /= np.sqrt(2 * np.pi * k)[:, None]
            product = np.where(density == 0, 0.0, (w * f) * density)
            out[mask] = product.sum(axis=1)
    return out


@dataclass(frozen=True)
class Table:
    """Piecewise polynomials in K: CELLS_PER_OCTAVE cells an octave from octave `first`, Horner coefficients in the
    local t ∈ [-1, 1).

    Outside, the value continues as the power law measured at the edge (`low`, `high`: exponents). With a gap > 0 the
    table holds e^{gap²/2K} times the value, which is what stays smooth as K → 0.
    """

    first: int
    coefficients: np.ndarray
    low: float
    high: float
    gap: float = 0.0

    @property
    def last(self) -> int:
        return self.first + len(self.coefficients) // CELLS_PER_OCTAVE


def build_table(function, first: int = LOW, last: int = HIGH) -> Table:
    """The table of `function` (vectorised, K → value) over octaves first … last; cut where values stop being finite."""
    t, to_power = chebyshev_to_power(DEGREE)
    cells = np.arange(CELLS_PER_OCTAVE)
    rows, overflow = [], False
    for o in range(first, last):
        lower = 2.0**o * (1 + cells / CELLS_PER_OCTAVE)
        K = lower[:, None] + 2.0**o / CELLS_PER_OCTAVE * (t + 1) / 2
        values = function(K.ravel()).reshape(K.shape)
        if not np.isfinite(values).all():
            last, overflow = o, True
            break
        rows.append(exact_product(values, to_power))
    if not rows:
        raise MeanFieldError("The average overflows at every K of the table.")
    table = np.ascontiguousarray(np.concatenate(rows))
    # past an overflow the average is infinite for a double, not a power
    high = math.inf if overflow else _slope(function, 2.0**last, 0.5)
    return Table(first, table, _slope(function, 2.0**first, 2.0), high)


def _slope(function, K: float, factor: float) -> float:
    a, b = function(np.array([K, K * factor]))
    if not (np.isfinite(a) and np.isfinite(b)) or a == 0 or b / a <= 0:
        return 0.0
    slope = math.log(b / a) / math.log(factor)
    nearest = round(2 * slope) / 2
    return nearest if abs(slope - nearest) < 1e-4 else slope
