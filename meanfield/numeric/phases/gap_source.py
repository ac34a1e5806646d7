"""Source of the compiled loops of `phases.gaps`: samples of log S, zeros without a table, zeros by tables."""

from __future__ import annotations

import math

import numpy as np

from meanfield.numeric.lowering.distances.distance_functions import slope_of
from meanfield.numeric.lowering.evaluators import MARGIN, ROUNDING
from meanfield.numeric.lowering.modules.generated_modules import VERSION
from meanfield.numeric.lowering.modules.module_functions import Functions
from meanfield.numeric.lowering.text import helpers, printing
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio

LEAST = 1e-200  # of 1 - c, searched: 1 - c* is of the order of (σ_w/σ_b)⁴ where φ jumps

_LOOP = """
@njit(cache=True, error_model='numpy')
def log_ratio(K, gap, T):
    return math.log({scale!r} * {ratio}(K, 2.0 * K * gap{tables}))


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
            out[p] = log_ratio(K[p], g, T)


@njit(cache=True, error_model='numpy')
def averages(K, gap, T, out):
    # log S and log ⟨f²⟩/K
    for p in range(K.size):
        out[p, 0] = log_ratio(K[p], gap[p], T)
        out[p, 1] = math.log({scale!r} * {second}(K[p]{second_tables}) / K[p])


@njit(cache=True, error_model='numpy')
def direct_one(p, K, want, kept, T, gap, slope):
    # Chandrupatla's rule in log gap: bisection, or inverse quadratic interpolation where that is safe
    k, w = K[p], want[p]
    a, b = 0.0, {least!r}
    fa, fb = log_ratio(k, 1.0, T) - w, log_ratio(k, math.exp(b), T) - w
    if fa >= 0.0:
        b = 1.0
    elif not fb > 0.0:
        b = math.nan  # nearer to 1 than is searched
    else:
        c, fc = a, fa
        t = 0.5
        for _ in range(100):
            x = a + t * (b - a)
            f = log_ratio(k, math.exp(x), T) - w
            if (f > 0.0) == (fa > 0.0):
                c, fc = a, fa
            else:
                c, fc = b, fb
                b, fb = a, fa
            a, fa = x, f
            m, fm = (a, fa) if abs(fa) < abs(fb) else (b, fb)
            limit = 2e-16 * max(1.0, abs(m)) / abs(b - a)
            if limit > 0.5 or fm == 0.0:
                break
            xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
            t = 0.5
            if phi * phi < xi and (1.0 - phi) * (1.0 - phi) < 1.0 - xi:
                t = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
            t = min(1.0 - limit, max(limit, t))
        b = math.exp(a if abs(fa) < abs(fb) else b)
    gap[p] = b
    moved = {slope}(k, k * (1.0 - b), k, b * (2.0 - b)) * {scale!r} / math.exp(log_ratio(k, max(b, {floor!r}), T))
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
        d0, d1 = 2.0 * b0 - d1 + 2.0 * s * d0, d0
        b0, b1 = row[j] - b1 + 2.0 * s * b0, b0  # in this order the last one waits for two operations, not three
    return row[0] + s * b0 - b1, b0 + s * d0 - d1


@njit(cache=True, error_model='numpy')
def lookup_one(p, K, octave, want, kept, lowest, first, edges, table, gap, slope):
    o = octave[p] - lowest
    t = 2.0 * (math.log2(K[p]) - octave[p]) - 1.0
    row, older = np.empty(table.shape[2]), np.empty(table.shape[2])
    theta, rate = 0.0, 0.0
    for i in range(first[o], first[o + 1]):
        low, high = edges[i, 0], edges[i, 1]
        # the sum in log K for every coefficient in θ: they are the inner loop, which becomes vector code
        row[:] = 0.0
        older[:] = 0.0
        for k in range(table.shape[1] - 1, -1, -1):
            twice = 2.0 if k else 1.0
            for j in range(row.size):
                row[j], older[j] = table[i, k, j] + twice * t * row[j] - older[j], row[j]
        end, rate = in_row(row, 1.0)
        theta, rate = high, 2.0 * rate / (high - low) - {jump} / high
        if end - {jump} * math.log(high) < want[p]:
            a, b, s = {begin}
            for _ in range(100):
                theta, moved = {place}
                value, rate = in_row(row, 2.0 * (theta - low) / (high - low) - 1.0)
                value -= want[p] + {jump} * math.log(theta)
                rate = 2.0 * rate / (high - low) - {jump} / theta
                if value > 0.0:
                    a = s
                else:
                    b = s
                step = value / (rate * moved)
                if abs(step) < 1e-12:  # what is left is of the order of its square
                    s -= step
                    break
                s = s - step if a < s - step < b else 0.5 * (a + b)
            theta, moved = {place}
            break
    half = math.sin(0.5 * theta)
    gap[p] = 2.0 * half * half
    slope[p] = 1.0 + kept * math.tan(0.5 * theta) * rate


@njit(cache=True, error_model='numpy', parallel=True)
def lookup(K, octave, want, kept, lowest, first, edges, table, gap, slope):
    for p in prange(K.size):
        lookup_one(p, K, octave, want, kept, lowest, first, edges, table, gap, slope)
"""


#: what a zero of a panel is sought in, with its bounds and first value: (θ, dθ/ds) of s. Where f jumps θ itself may be
#: as small as a number can be, so that s is log θ; elsewhere a zero at θ → 0 is no simple one of log θ.
_LINEAR = {"begin": "-1.0, 1.0, 0.0", "place": "low + 0.5 * (high - low) * (1.0 + s), 0.5 * (high - low)"}
_LOGARITHMIC = {
    "begin": f"math.log(max(low, {math.sqrt(2 * LEAST)!r})), math.log(high), math.log(high)",
    "place": "math.exp(s), math.exp(s)",
}


def generate(node: DistanceRatio, scale: float, jumps: bool) -> tuple[str, dict[str, np.ndarray]]:
    """(source, tables and errors) of the module of scale·S; jumps: whether f jumps, so that θS is what is tabulated."""
    functions = Functions()
    name = functions.of(node)
    second, slope = functions.of(node.second), slope_of(functions, node)
    fill = {"ratio": name, "tables": _read(functions, name), "second": second}
    fill |= {"second_tables": _read(functions, second)}
    fill |= _LOGARITHMIC if jumps else _LINEAR
    loop = _LOOP.format(**fill, slope=slope, scale=scale, jump=int(jumps), least=math.log(LEAST), floor=LEAST)
    head = helpers.HEADER.format(version=VERSION, summary="\n".join(["1 - c* over a grid", "", *functions.notes]))
    text = head + helpers.helpers_for(functions.text + loop)
    text += printing.decorated(functions.text, "@njit(cache=True, error_model='numpy')") + loop
    own = functions.errors[list(functions.names.values()).index(name)]
    arrays = functions.arrays | {"weight": np.array(functions.weight), "error": np.array(max(MARGIN * own, ROUNDING))}
    return text, arrays


def _read(functions: Functions, name: str) -> str:
    """Source of the tables that a call hands over."""
    return "".join(f", {table}" for table in functions.table(name))
