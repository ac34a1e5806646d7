r"""Where the correlation of two inputs settles, 1 - c*, at many K* at once: blocks of one Dense (and a skip μ).

At fixed K the gap g = 1 - c is multiplied by σ_w²S(K, g) + μ² in every layer, S = ⟨(f_a - f_b)²⟩/⟨(z_a - z_b)²⟩, which
falls with g (the map of c is convex). So c* is the zero of log S(K, g) - log((1 - μ²)/σ_w²): a function of two numbers,
solved in a compiled, parallel loop. Few points of one octave of K ask S itself; many share a table of log S in
Chebyshev polynomials of log K and of θ = arccos c, in which S is analytic, kinks of f included (of log(θS) where f
jumps). A table is compared with S between its nodes, and θ is cut until they agree; where that does not help (branch
points, fast oscillations), S itself is asked.

Source: derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import sympy as sp

from meanfield.functions.piecewise import pieces
from meanfield.limits import tick
from meanfield.numeric.lowering import cache, loops, printing
from meanfield.numeric.lowering.assembly import MARGIN, ROUNDING, VERSION, Functions, module_of
from meanfield.numeric.lowering.modules import Module, T
from meanfield.numeric.lowering.stretches import parts
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.symbolic.averages.stretch import Stretch, stretch
from meanfield.symbols import K, Z, distance

MANY = 64  # points in an octave of K from which a table pays
K_NODES, NODES = 12, 24  # Chebyshev points in log K (an octave) and in θ (a panel)
GOOD = 1e-13  # of S, relative: what a table may miss it by, unless S itself is known less well
CUTS = 7  # θ panels are halved so often at most
GAUSS = 12  # nodes of the integral from panel to panel
EVALUATIONS = 12  # of S for one point, about
BLOCK = 4096  # points solved without a table before the clock is asked
CHECKS = 8  # points of a panel between its nodes, at which it is compared with S

_LOOP = """
@njit(cache=True, error_model='numpy')
def log_stretch(K, gap, T):
    return math.log({scale!r} * {stretch}(K, 2.0 * K * gap, T[{table}]))


@njit(cache=True, error_model='numpy', parallel=True)
def sample(K, theta, checks, T, out):
    # log ⟨f′f′⟩ (times sin θ where f jumps); at the last points log S itself
    for p in prange(K.size):
        half = math.sin(0.5 * theta[p])
        g = 2.0 * half * half
        if p < K.size - checks:
            value = {scale!r} * {slope}(K[p], K[p] * (1.0 - g), K[p], g * (2.0 - g))
            out[p] = math.log(value) + {jump} * math.log(math.sin(theta[p]))
        else:
            out[p] = log_stretch(K[p], g, T)


@njit(cache=True, error_model='numpy')
def averages(K, gap, T, out):
    # log S and log ⟨f²⟩/K
    for p in range(K.size):
        out[p, 0] = log_stretch(K[p], gap[p], T)
        out[p, 1] = math.log({scale!r} * {second}(K[p], T[{second_table}]) / K[p])


@njit(cache=True, error_model='numpy')
def direct_one(p, K, want, kept, T, gap, slope):
    # Chandrupatla's rule in the gap: bisection, or inverse quadratic interpolation where that is safe
    k, w = K[p], want[p]
    a, b = 1.0, 1e-30
    fa, fb = log_stretch(k, a, T) - w, log_stretch(k, b, T) - w
    if fa >= 0.0:
        b = 1.0
    elif fb <= 0.0:
        b = 0.0
    else:
        c, fc = a, fa
        t = 0.5
        for _ in range(100):
            x = a + t * (b - a)
            f = log_stretch(k, x, T) - w
            if (f > 0.0) == (fa > 0.0):
                c, fc = a, fa
            else:
                c, fc = b, fb
                b, fb = a, fa
            a, fa = x, f
            m, fm = (a, fa) if abs(fa) < abs(fb) else (b, fb)
            limit = 2e-16 * m / abs(b - a)
            if limit > 0.5 or fm == 0.0:
                break
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            t = 0.5
            if phi * phi < xi and (1.0 - phi) * (1.0 - phi) < 1.0 - xi:
                t = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            t = min(1.0 - limit, max(limit, t))
        b = a if abs(fa) < abs(fb) else b
    gap[p] = b
    moved = {slope}(k, k * (1.0 - b), k, b * (2.0 - b)) * {scale!r} / math.exp(log_stretch(k, max(b, 1e-30), T))
    slope[p] = 1.0 + kept * (moved - 1.0)


@njit(cache=True, error_model='numpy', parallel=True)
def direct(K, want, kept, T, gap, slope):
    for p in prange(K.size):
        direct_one(p, K, want, kept, T, gap, slope)


@njit(cache=True, error_model='numpy')
def in_row(row, s):
    # a Chebyshev sum and its derivative (Clenshaw)
    b0, b1, d0, d1 = 0.0, 0.0, 0.0, 0.0
    for j in range(row.size - 1, 0, -1):
        d0, d1 = 2.0 * b0 + 2.0 * s * d0 - d1, d0
        b0, b1 = row[j] + 2.0 * s * b0 - b1, b0
    return row[0] + s * b0 - b1, b0 + s * d0 - d1


@njit(cache=True, error_model='numpy')
def lookup_one(p, K, octave, want, kept, lowest, first, edges, table, gap, slope):
    o = octave[p] - lowest
    t = 2.0 * (math.log2(K[p]) - octave[p]) - 1.0
    row = np.empty(table.shape[2])
    theta, rate = 0.0, 0.0
    for i in range(first[o], first[o + 1]):
        low, high = edges[i, 0], edges[i, 1]
        for j in range(row.size):
            b0, b1 = 0.0, 0.0
            for k in range(table.shape[1] - 1, 0, -1):
                b0, b1 = table[i, k, j] + 2.0 * t * b0 - b1, b0
            row[j] = table[i, 0, j] + t * b0 - b1
        end, rate = in_row(row, 1.0)
        theta, rate = high, 2.0 * rate / (high - low) - {jump} / high
        if end - {jump} * math.log(high) < want[p]:
            a, b, s = -1.0, 1.0, 0.0
            for _ in range(100):
                value, rate = in_row(row, s)
                theta = low + 0.5 * (high - low) * (1.0 + s)
                value -= want[p] + {jump} * math.log(theta)
                rate -= {jump} * 0.5 * (high - low) / theta
                if value > 0.0:
                    a = s
                else:
                    b = s
                move = s - value / rate
                if not a < move < b:
                    move = 0.5 * (a + b)
                if abs(move - s) < 2e-16 or value == 0.0:
                    break
                s = move
            rate = 2.0 * rate / (high - low)
            break
    half = math.sin(0.5 * theta)
    gap[p] = 2.0 * half * half
    slope[p] = 1.0 + kept * math.tan(0.5 * theta) * rate


@njit(cache=True, error_model='numpy', parallel=True)
def lookup(K, octave, want, kept, lowest, first, edges, table, gap, slope):
    for p in prange(K.size):
        lookup_one(p, K, octave, want, kept, lowest, first, edges, table, gap, slope)
"""


@dataclass(frozen=True)
class Panel:
    """log S over one octave of K and low ≤ θ ≤ high: Chebyshev coefficients (K_NODES, NODES) and the largest deviation
    seen between the nodes."""

    low: float
    high: float
    coefficients: np.ndarray
    error: float


@dataclass(frozen=True)
class Gaps:
    """The compiled gaps of one f: its module, the relative error of S, whether f jumps, and the tables made so far (by
    octave of K; None where S itself is asked)."""

    module: Module
    error: float
    jumps: bool
    tables: dict[int, tuple[Panel, ...] | None] = field(default_factory=dict)

    def averages(self, K: np.ndarray, gap: np.ndarray) -> np.ndarray:
        """(log S, log ⟨f²⟩/K) at places."""
        out = np.empty((K.size, 2))
        self.module.call("averages", 2 * K.size, K, gap, T, out)
        return out

    def settle(self, K: np.ndarray, want: np.ndarray, kept: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(1 - c*, C′(c*), absolute error of c*) at fixed points K with C′(1) > 1.

        want: log((1 - μ²)/σ_w²), what log S must be; kept: 1 - μ².
        """
        gap, slope, error = (np.empty(K.size) for _ in range(3))
        octaves = np.floor(np.log2(K)).astype(np.int64)
        found, counts = np.unique(octaves, return_counts=True)
        many = [int(o) for o in found[counts >= MANY]]
        self._tabulate([o for o in many if o not in self.tables])
        own = [o for o in many if self.tables[o] is not None]
        inside = np.isin(octaves, own)
        eps = np.full(K.size, self.error)
        if own:
            panels = [self.tables.get(o) or () for o in range(own[0], own[-1] + 1)]
            flat = [p for row in panels for p in row]
            first = np.concatenate([[0], np.cumsum([len(row) for row in panels])])
            edges = np.array([(p.low, p.high) for p in flat])
            table = np.array([p.coefficients for p in flat])
            for o in own:
                eps[octaves == o] += max(p.error for p in self.tables[o] or ())
            parts = np.empty((2, int(inside.sum())))
            arguments = (K[inside], octaves[inside], want[inside], kept, own[0], first, edges, table, *parts)
            self.module.call("lookup", EVALUATIONS * parts.shape[1] / self.module.weight, *arguments)
            gap[inside], slope[inside] = parts
        if not inside.all():
            rest = np.flatnonzero(~inside)
            for at in range(0, rest.size, BLOCK):
                tick()
                here = rest[at : at + BLOCK]
                parts = np.empty((2, here.size))
                self.module.call("direct", EVALUATIONS * here.size, K[here], want[here], kept, T, *parts)
                gap[here], slope[here] = parts
        with np.errstate(divide="ignore"):
            error[:] = gap * (eps + 2.0**-52) / np.maximum(1 - slope, 1e-300) + 2.0**-53
        return gap, slope, error

    def _tabulate(self, octaves: list[int]) -> None:
        """Make the tables of these octaves: all panels of one level of cutting in one parallel call.

        What is sampled is ⟨f′f′⟩, the slope of the map; gS is its integral over the gap (Price's theorem).
        """
        good = max(GOOD, self.error)
        slopes: dict[int, list[_Slope] | None] = {o: [] for o in octaves}
        todo = [(o, 0.0, math.pi / 2) for o in octaves]
        for level in range(CUTS + 1):
            later: list[tuple[int, float, float]] = []
            for one in self._sampled(todo) if todo else ():
                row = slopes[one.octave]
                if row is None:
                    continue
                across, along = one.tails
                if across > good or not math.isfinite(along) or (along > 3 * good and level == CUTS):
                    slopes[one.octave] = None
                elif along > 3 * good:
                    middle = (one.low + one.high) / 2
                    later += [(one.octave, one.low, middle), (one.octave, middle, one.high)]
                else:
                    row.append(one)
            todo = [place for place in later if slopes[place[0]] is not None]
            if not todo:
                break
            tick()
        for o, row in slopes.items():
            panels = None if row is None else _integrated(sorted(row, key=lambda p: p.low), self.jumps)
            kept = panels is not None and max(p.error for p in panels) <= MARGIN * good
            self.tables[o] = panels if kept else None

    def _sampled(self, places: list[tuple[int, float, float]]) -> list[_Slope]:
        """log ⟨f′f′⟩ at the nodes of panels (octave, low θ, high θ), and log S between them."""
        t, s = (_nodes(n) for n in (K_NODES, NODES))
        where = np.array(places)
        low, width = where[:, 1:2], where[:, 2:] - where[:, 1:2]

        def spread(across: np.ndarray, along: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return 2.0 ** (where[:, :1] + (across + 1) / 2), low + width * (along + 1) / 2

        K, theta = spread(np.repeat(t, NODES), np.tile(s, K_NODES))
        K_check, theta_check = spread(*_CHECKED)
        out = np.empty(K.size + K_check.size)
        both = [np.concatenate([a.ravel(), b.ravel()]) for a, b in ((K, K_check), (theta, theta_check))]
        self.module.call("sample", out.size, *both, K_check.size, T, out)
        values = out[: K.size].reshape(-1, K_NODES, NODES)
        checks = out[K.size :].reshape(K_check.shape)
        return [_Slope(*place, v, c) for place, v, c in zip(places, values, checks)]


@dataclass(frozen=True)
class _Slope:
    """log ⟨f′f′⟩ (of it times sin θ where f jumps) at the nodes of one panel, and log S at its checks."""

    octave: int
    low: float
    high: float
    values: np.ndarray
    checks: np.ndarray

    @property
    def tails(self) -> tuple[float, float]:
        """The last coefficients in log K and in θ; NaN where there are none."""
        with np.errstate(all="ignore"):
            c = np.abs(_coefficients(self.values))
            return float(c[-1].max()), float(c[:, -2:].max())


def _nodes(n: int) -> np.ndarray:
    return np.cos(np.pi * (np.arange(n) + 0.5) / n)


def _transform(n: int) -> np.ndarray:
    """The matrix from values at Chebyshev points to coefficients."""
    k = np.arange(n)
    matrix = 2 / n * np.cos(np.pi * k[:, None] * (k + 0.5) / n)
    matrix[0] /= 2
    return matrix


def _coefficients(values: np.ndarray) -> np.ndarray:
    return np.einsum("ki,ij,lj->kl", _transform(K_NODES), values, _transform(NODES))


def _checked() -> tuple[np.ndarray, np.ndarray]:
    """Places (log K, θ) of a panel between its nodes, in [-1, 1]; the first near full correlation."""
    k = np.arange(1, CHECKS + 1)
    u, v = (2 * ((0.5 + a * k) % 1) - 1 for a in (0.7548776662466927, 0.5698402909980532))
    u[0], v[0] = 0.93, -0.995
    return u, v


_CHECKED = _checked()


def _integrated(row: list[_Slope], jumps: bool) -> tuple[Panel, ...]:
    """log S (log θS where f jumps) from its derivative, panel by panel from θ = 0 outwards."""
    s, x, w = _nodes(NODES), *gauss_legendre(GAUSS)
    before, out = np.zeros(K_NODES), []  # gS at the lower end
    u, v = _CHECKED
    for one in row:
        width = one.high - one.low
        ends = np.append(one.low + width * (s + 1) / 2, one.high)
        # the integral over the gap from the lower end, by Gauss's rule in u, sin(θ′/2) = … u: smooth, all terms > 0
        low = math.sin(one.low / 2)
        half = low + (np.sin(ends / 2) - low)[:, None] * (x + 1) / 2
        at = 2 * np.arcsin(half)
        weight = (np.sin(ends / 2) - low)[:, None] * w / 2 * (2 / np.cos(at / 2) if jumps else 4 * half)
        place = 2 * (at - one.low) / width - 1
        basis = np.polynomial.chebyshev.chebvander(place, NODES - 1)
        along = np.einsum("ij,lj->il", one.values, _transform(NODES))
        total = before[:, None] + (weight * np.exp(np.einsum("egj,ij->ieg", basis, along))).sum(axis=-1)
        gap = 2 * np.sin(ends / 2) ** 2
        with np.errstate(all="ignore"):
            values = np.log(total / gap * (ends if jumps else 1.0))[:, :-1]
        before, c = total[:, -1], _coefficients(values)
        theta = one.low + width * (v + 1) / 2
        found = np.polynomial.chebyshev.chebval2d(u, v, c) - (np.log(theta) if jumps else 0.0)
        missed = float(np.abs(found - one.checks).max())
        out.append(Panel(one.low, one.high, c, MARGIN * missed if math.isfinite(missed) else math.inf))
    return tuple(out)


@lru_cache(maxsize=64)
def compile_gaps(f: sp.Expr) -> Gaps | None:
    """The compiled gaps of f(z) without free parameters; None where f is linear, so that no map of c has a zero inside.

    Raises: MeanFieldError where S cannot be lowered.
    """
    node = stretch(f, K, distance)
    scale, node = node.as_independent(Stretch)
    if not isinstance(node, Stretch):
        return None
    jumps = bool(pieces(node.function, Z[0]).jumps())
    name = cache.key(f"gaps|{VERSION}|{sp.srepr(node)}|{sp.srepr(node.args[0].expr)}|{scale}|{jumps}")
    stored = cache.read(name)
    if stored is None:
        stored = _generate(node, float(scale), jumps)
        cache.write(name, *stored)
    return Gaps(module_of(name, *stored), float(stored[1]["error"]), jumps)


def _generate(node: Stretch, scale: float, jumps: bool) -> tuple[str, dict[str, np.ndarray]]:
    functions = Functions()
    name = functions.of(node)
    second, _, slope = (functions.of(part) for part in parts(node))
    fill = {"stretch": name, "table": name.split("_")[1], "second": second, "second_table": second.split("_")[1]}
    loop = _LOOP.format(**fill, slope=slope, scale=scale, jump=int(jumps))
    head = loops.HEADER.format(version=VERSION, summary="\n".join(["1 - c* over a grid", "", *functions.notes]))
    text = head + printing.helpers_for(functions.text + loop)
    text += printing.decorated(functions.text, "@njit(cache=True, error_model='numpy')") + loop
    own = functions.errors[list(functions.names.values()).index(name)]
    arrays = functions.arrays | {"weight": np.array(functions.weight), "error": np.array(max(MARGIN * own, ROUNDING))}
    return text, arrays
