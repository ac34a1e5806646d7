"""Float64 Gaussian averages of any integrand: Gauss–Legendre on dyadic panels with breaks at the kinks.

No Gauss–Hermite: a kink or a saturating function at large K ruins it. The integrand is folded, f(z) + f(-z) for z > 0,
so that odd parts cancel exactly. Panels start at min(1, σ) and double outwards; all K of one octave share their panels,
so f is evaluated once an octave. On panels with several periods of a sin or cos, the amplitudes are integrated against
the wave (`oscillatory_integrands`); the panel that touches a branch point is integrated in a power of its distance
(`branches`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp
from flint import arb

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.functions import balls
from meanfield.functions.growth import bound
from meanfield.functions.piecewise import half_line, pieces
from meanfield.functions.series.ball_series import ball_series, coefficients
from meanfield.functions.series.taylor import taylor
from meanfield.numeric.quadrature import branches, oscillatory_integrands
from meanfield.numeric.quadrature.evaluation import evaluate, numpy_function
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.numeric.quadrature.steep_points import centres, resolving_width

NODES = 20  # Gauss–Legendre nodes a panel
REACH = 9.5  # standard deviations integrated; e^{-45} is left out
FAR = 38.6  # beyond, the density is 0 in double precision
MOST_PANELS = 20_000
BLOCK = 400  # K at a time, so that memory stays small
FLAT = 2.0**-28  # of a standard deviation: up to there its density is constant

TAYLOR_ORDER = 13
BITS = 250  # of the balls of Taylor coefficients: one that holds 0 is 0


@lru_cache(maxsize=512)
def _near_zero(expr: sp.Expr) -> tuple[float, np.ndarray]:
    """(radius, coefficients) of f(z) + f(-z) as a polynomial in z ≥ 0 near 0, from the Taylor coefficients of both
    pieces.

    Written out, a piece like e^z - 1 or an odd leading term loses its digits there. Radius 0 where there is no Taylor
    series.
    """
    parts = pieces(expr, Z[0])
    left, right = parts.around_zero()
    last = TAYLOR_ORDER
    while True:
        try:
            a, b = _coefficients(right, last), _coefficients(left, last)
        except MeanFieldError:
            return 0.0, np.zeros(1)
        with balls.precision(BITS):
            both = [u + (-1) ** k * v for k, (u, v) in enumerate(zip(a, b))]
        c = np.array([0.0 if s.contains(0) else float(s.mid()) for s in both])
        used = np.flatnonzero(c)
        if not len(used) or last - used[0] >= TAYLOR_ORDER - 3 or last > TAYLOR_ORDER:
            break
        last += int(used[0])  # where low orders cancel, as many are kept behind the first that does not
    kinks = [abs(float(k)) for k in parts.breaks if k != 0]
    if not len(used):
        return 0.0, c
    # the first neglected term is taken as large as the largest kept one at unit radius of the geometric trend
    growth = max((abs(c[k] / c[used[0]])) ** (1 / (k - used[0])) for k in used[1:]) if len(used) > 1 else 1.0
    order = last + 1 - used[0]
    radius = (1e-18) ** (1 / order) / max(growth, 1.0) / 2
    return min([radius, 0.04, *kinks]), c


def _coefficients(piece: sp.Expr, order: int) -> list[arb]:
    """Taylor coefficients at 0, in balls far narrower than a double: exact ones drag powers of every number in the
    piece, or nested exponentials, through all of them."""
    with balls.precision(BITS):
        try:
            found = coefficients(ball_series(piece), arb(0), order + 1)
        except MeanFieldError:  # a function without a series of balls
            found = None
        if found is None or not all(c.is_finite() for c in found):
            found = [balls.constant(c) for c in taylor(piece, Z[0], order)]
    return found


def folded(expr: sp.Expr, z: np.ndarray) -> np.ndarray:
    """f(z) + f(-z) for z > 0, with the digits kept near 0."""
    out = evaluate(expr, z) + evaluate(expr, -z)
    radius, c = _near_zero(expr)
    small = z < radius
    if small.any():
        out = np.where(small, np.polynomial.polynomial.polyval(np.where(small, z, 0.0), c), out)
    return out


@dataclass(frozen=True)
class QuadratureRule:
    """How an integrand is cut up: |kinks|, growth rate c of e^{c|z|}, first panel width; the largest frequency of its
    waves; where it does not split into waves the slopes of its phases, whose every period panels must follow; |b| of
    its steep points; branch points; nodes a panel; the |z| below which it is
    0."""

    kinks: tuple[float, ...]
    rate: float
    first: float = 1.0
    fastest: float = 0.0
    slopes: tuple[sp.Expr, ...] = ()
    steep: tuple[float, ...] = ()
    branches: tuple[branches.BranchPoint, ...] = ()
    order: int = NODES
    gap: float = 0.0

    @property
    def limited(self) -> bool:
        """Whether panels follow every period, so that K cannot be arbitrarily large."""
        return bool(self.slopes)


def rule_for(expr: sp.Expr, first: float = 1.0) -> QuadratureRule:
    p = pieces(expr, Z[0])
    rates = [b.c for e, lo, hi in p.intervals() if (b := bound(e, Z[0], half_line(lo, hi))) is not None]
    fastest, slopes = 0.0, ()
    if expr.has(sp.sin, sp.cos):
        if all(oscillatory_integrands.split(e) is not None for e in p.exprs):
            fastest = max(oscillatory_integrands.fastest(e) for e in p.exprs)
        else:
            heads = expr.atoms(sp.sin, sp.cos)
            slopes = tuple(sorted({u.args[0].diff(Z[0]) for u in heads if u.has(Z[0])}, key=str))
    sites = branches.branches(expr)
    steep = tuple(c for c in centres(expr) if c > 0)
    edges = {abs(float(b)) for b in p.breaks} | set(centres(expr)) | {abs(b.at) for b in sites}
    walls = [abs(float(b)) for b in p.breaks]
    gap = min(walls) if walls and p.around_zero() == (0, 0) else 0.0
    kinks = tuple(sorted(edges - {0.0}))
    return QuadratureRule(kinks, max(rates, default=0.0), first, fastest, slopes, steep, sites, gap=gap)


def squared(expr: sp.Expr) -> sp.Expr:
    """expr², piece by piece."""
    return pieces(expr, Z[0]).map(lambda e: e**2).expr


@lru_cache(maxsize=256)
def resolved(expr: sp.Expr) -> tuple[float, float]:
    """(first panel width, relative change on refining it) at which ⟨expr²⟩ stops moving over K = 0.01 … 1e4."""
    K = np.array([0.01, 1.0, 9.0, 100.0, 1e4])
    square = squared(expr)
    first = resolving_width(expr, NODES, 1.0)
    for _ in range(4):
        a, b = (gaussian_average(square, K, rule_for(square, w)) for w in (first, first / 4))
        with np.errstate(all="ignore"):
            moved = np.abs(a - b) / np.maximum(np.abs(b), 1e-290)
        change = float(moved[np.isfinite(moved)].max()) if np.isfinite(moved).any() else math.inf
        if change < 2e-13:
            break
        first /= 4
    return first, change


def panels(rule: QuadratureRule, sigma: float) -> np.ndarray:
    """Panel edges on [0, reach] for a standard deviation `sigma`."""
    # beyond a gap the average is as small as e^{-gap²/2K}, and all of it counts
    reach = math.hypot(REACH * sigma, rule.gap) + rule.rate * sigma**2
    edge, width, edges = 0.0, min(rule.first, sigma), [0.0]
    widest = _periods(rule)
    while edge < reach:
        edge += min(width, widest(edge)) if widest is not None else width
        edges.append(min(edge, reach))
        width = max(edge, width)
        if len(edges) > MOST_PANELS:
            raise MeanFieldError(f"The integrand oscillates too fast for quadrature at standard deviation {sigma:.3g}.")
    # where the integrand is tiny at 0 and large at a kink or a steep place, the mass lies there as long as the density
    # is not zero in double precision
    if any(3 * sigma < k < FAR * sigma for k in rule.kinks) or any(3 * sigma < k < 140 * sigma for k in rule.steep):
        far = np.arange(reach, max(reach, FAR * sigma), 2 * sigma)
        reach = max(reach, FAR * sigma)
        edges += [*far, reach]
    inner = [k for k in rule.kinks if k < reach]
    for k in inner:  # grade towards each kink as towards 0, so that what is steep there is resolved at every σ
        step = min(rule.first, sigma, sigma**2 / k if k == rule.gap else sigma)
        edges.append(k)
        while step < reach:
            edges += [e for e in (k - step, k + step) if 0 < e < reach]
            step *= 2
    out = np.unique(np.array(edges))
    for b in {abs(b.at) for b in rule.branches if abs(b.at) < reach}:
        i = int(np.searchsorted(out, b))
        right, left = out[i + 1] - b, b - out[i - 1] if i else 0.0
        steps = 0.5 ** np.arange(1, 1 - math.log2(branches.NEAR))
        out = np.unique(np.concatenate([out, b + right * steps, b - left * steps]))
    return out


def _periods(rule: QuadratureRule):
    """The largest panel width at a place, for phases that must be followed; None where there are none."""
    if not rule.slopes:
        return None
    speed = _speed(rule)
    return lambda edge: 2.0 / max(1.0, speed(edge))


def _speed(rule: QuadratureRule):
    """The fastest of the phases that are no straight lines, as far as one unit of z beyond a place."""
    if not any(e.has(Z[0]) for e in rule.slopes):
        constant = max(abs(float(e)) for e in rule.slopes)
        return lambda _: constant
    f = [numpy_function(e) for e in rule.slopes]

    def speed(edge):
        ahead = np.array([edge, edge + 0.5, edge + 1.0])
        x = np.concatenate([ahead, -ahead])
        with np.errstate(all="ignore"):
            return max(float(np.abs(g(x)).max()) for g in f)

    return speed


def fastest_phase(rule: QuadratureRule, reach: float) -> float:
    """The largest frequency, or slope of a phase, for |z| up to `reach`."""
    if not rule.slopes:
        return rule.fastest
    speed = _speed(rule)
    return max(speed(x) for x in np.linspace(0.0, reach, 40))


def _samples(expr: sp.Expr, rule: QuadratureRule, sigma: float, modulus: bool) -> tuple[np.ndarray, np.ndarray]:
    """Places z > 0 and numbers v with ⟨expr⟩ = Σ v·σ·density(z); without σ, v would underflow where σ² does not."""
    edges = panels(rule, sigma)
    half, left, n = np.diff(edges) / 2, edges[:-1], rule.order
    x, w = gauss_legendre(n)
    z = (left + half)[:, None] + half[:, None] * x
    wide = rule.fastest * half > 4 if not modulus else np.zeros(len(half), dtype=bool)
    special = np.zeros(len(half), dtype=bool)
    places, values = [], []
    for b in rule.branches:
        special |= (edges[:-1] == abs(b.at)) | (edges[1:] == abs(b.at))
    for i in np.flatnonzero(special):
        wide[i] = False
        for t, v in _branch_panel(expr, rule, edges[i], edges[i + 1], sigma, modulus):
            places.append(t)
            values.append(v)
    plain = ~(wide | special)
    if plain.any():
        where = z[plain].ravel()
        f = np.abs(evaluate(expr, where)) + np.abs(evaluate(expr, -where)) if modulus else folded(expr, where)
        places.append(where)
        values.append((half[plain, None] / sigma * w).ravel() * f)
    if wide.any():
        places.append(z[wide].ravel())
        values.append(_wave_values(expr, z[wide], (left + half)[wide], half[wide], n, sigma).ravel())
    return np.concatenate(places), np.concatenate(values)


def _branch_panel(expr, rule, lo, hi, sigma, modulus):
    """(z, v) of a panel that has a branch point at one end, for both signs of z."""
    signs = (1.0, -1.0)
    for sign in signs:
        ends = [b for b in rule.branches if sign * b.at in (lo, hi) and (b.at != 0 or lo == 0)]
        if not ends:
            x, w = gauss_legendre(rule.order)
            z, v = (lo + hi) / 2 + (hi - lo) / 2 * x, (hi - lo) / 2 * w
            f = evaluate(expr, sign * z)
        else:
            b = ends[0]
            t, v = branches.panel(hi - lo, b.m, rule.order)
            outward = sign * b.at == lo  # |z| grows away from the branch point
            z = lo + t if outward else hi - t
            step = sign if outward else -sign  # the side of b the panel lies on
            f = numpy_function(b.right if step > 0 else b.left)(step * t)
        yield z, v / sigma * (np.abs(f) if modulus else f)


def _wave_values(expr, z, middle, half, n, sigma):
    """Weights times integrand on panels that hold several periods: each amplitude against its own wave."""
    p = pieces(expr, Z[0])
    breaks = np.array([float(b) for b in p.breaks])
    moments: dict[float, np.ndarray] = {}
    total = np.zeros_like(z)
    for sign in (1.0, -1.0):
        which = np.searchsorted(breaks, sign * middle, side="right")
        for k, piece in enumerate(p.exprs):
            rows = which == k
            if not rows.any() or piece == 0:
                continue
            for amplitude, group in oscillatory_integrands.split(piece) or ():
                weight = np.zeros(z.shape)
                for omega, c in group:
                    if omega not in moments:
                        moments[omega] = oscillatory_integrands.weights(omega, middle, half, n) / sigma
                    weight += (complex(c) * moments[omega] if sign > 0 else np.conj(c) * moments[omega]).real
                inside = numpy_function(amplitude)(sign * z[rows].ravel()).reshape(z[rows].shape)
                total[rows] += weight[rows] * inside
    return total


Panels = dict[tuple[bytes, bytes], np.ndarray]
_panels: ContextVar[Panels | None] = ContextVar("densities of panels, while a table is built", default=None)


@contextmanager
def kept_densities() -> Iterator[None]:
    """Densities are kept from one octave of K to the next."""
    token = _panels.set({})
    try:
        yield
    finally:
        _panels.reset(token)


def densities(z: np.ndarray, K: np.ndarray, sigma: float, gap: float, order: int) -> np.ndarray:
    """sigma times the density of N(0, K) at places z > 0, (K, z); with a gap, times e^{gap²/2K}; order: of a panel.

    Panels double, and so do a table's octaves: σ → 2σ, z → 2z repeats all numbers, bit for bit, and most of them are
    met again in the next octave but one.
    """
    kept = _panels.get()
    if gap or kept is None:
        density = np.exp(np.minimum(-0.5 * (z - gap) * (z + gap) / K[:, None], 0.0))  # inside the gap f is 0
        density *= (sigma / np.sqrt(2 * np.pi * K))[:, None]
        return density
    power = math.frexp(sigma)[1]
    z, K, sigma = np.ldexp(z, -power), np.ldexp(K, -2 * power), math.ldexp(sigma, -power)
    factor, out = (sigma / np.sqrt(2 * np.pi * K))[:, None], np.empty((len(K), z.size))
    own = K.tobytes()
    for i in range(0, z.size, order):
        part = z[i : i + order]
        key = own, part.tobytes()
        found = kept.get(key)
        if found is None:
            found = kept[key] = np.exp(-0.5 * part * part / K[:, None]) * factor
        out[:, i : i + order] = found
    return out


def flat_panels(z: np.ndarray, K: np.ndarray, order: int) -> int:
    """How many of the first places, whole panels, lie where e^{-z²/2K} is 1 for a double, so that all K see one sum: of
    a table up to 2^1000 that is nearly all there is."""
    varies = z >= FLAT * math.sqrt(K.min())
    return int(varies.argmax() if varies.any() else varies.size) // order * order


def gaussian_average(
    expr: sp.Expr, K: np.ndarray, rule: QuadratureRule | None = None, modulus: bool = False, gap: float = 0.0
) -> np.ndarray:
    """e^{gap²/2K}⟨expr⟩_K (mean 0) for an array of K > 0 by panel quadrature; with `modulus`, ⟨|expr|⟩, the scale
    errors are measured on."""
    K = np.atleast_1d(np.asarray(K, dtype=float))
    rule = rule or rule_for(expr, resolving_width(expr, NODES, 1.0))
    out = np.empty_like(K)
    octave = np.floor(np.log2(K))
    for o in np.unique(octave):
        mask = octave == o
        k = K[mask]
        with np.errstate(all="ignore"):
            sigma = math.sqrt(k.max())
            z, v = _samples(expr, rule, sigma, modulus)
            value = np.empty_like(k)
            n = 0 if gap else flat_panels(z, k, rule.order)
            flat, z, v = v[:n].sum(), z[n:], v[n:]
            finite = bool(np.isfinite(v).all())
            for i in range(0, len(k), BLOCK):
                part = k[i : i + BLOCK]
                density = densities(z, part, sigma, gap, rule.order)
                if finite:
                    density *= v
                    density += 0.0  # no zero has a sign
                else:
                    density = np.where(density == 0, 0.0, v * density)
                value[i : i + BLOCK] = density.sum(axis=1)
            if n:
                value += flat * (sigma / np.sqrt(2 * np.pi * k))
            out[mask] = value
    return out
