"""Averages over what a batch shares (`Common`), by quadrature within quadrature at every call.

Conditional means ⟨h⟩ over N(m, V) by panels of 16 Legendre nodes, narrow where |z| is small and never wider than √V,
which end at breaks wherever they are at this m. Their functions F of m are smoothed over √V, so that the trapezoidal
rule in m converges exponentially. The error is measured by other panels and another step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering.averages.direct import without_overflow
from meanfield.numeric.lowering.modules.module_functions import PAIR_WEIGHT, Functions, lowers
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.quadrature.evaluation import numpy_function
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.numeric.quadrature.sphere import sphere_value
from meanfield.symbolic.averages.nodes.shared_averages import Common
from meanfield.symbolic.averages.nodes.spheres import SphereAverage

SAMPLES = ((1.0, 0.3), (0.03, 0.2), (6.0, 9.0), (1.7, 0.0))  # (V, M) at which the error is measured
USABLE = 1e-4  # at states far out; where V and M are of order 1 it is 1e-10 or less
_STEP = 0.2  # of the trapezoidal rule, in √V or 1
_REACH = 8.6  # standard deviations of m beyond which a double sees nothing
_FARTHEST = 37.0  # of z, beyond which its density is no double
_z = sp.Symbol("z", real=True)


def text(node: Common, name: str) -> str:
    """Source of `name(V, M)`."""
    if node.params:
        raise MeanFieldError(
            f"{node} holds {', '.join(sorted(map(str, node.params)))}; give numbers for them, which a batch's averages "
            "need before they are compiled."
        )
    own = {c: sp.Symbol(f"c{k}", real=True) for k, (c, _) in enumerate(node.body.means)}
    swap, out, lines = {Z[0]: _z} | own, "", []
    x, w = gauss_legendre(16)
    nodes = ", ".join(f"({float(a)!r}, {float(b)!r})" for a, b in zip(x, w))
    for k, (_, h) in enumerate(node.body.means):
        before = "".join(f", c{i}" for i in range(k))
        p = pieces(h, Z[0])
        out += f"def {name}_h{k}(z{before}):\n"
        for e, b in zip(p.exprs, p.breaks):
            place = printing.code(without_overflow(b.xreplace(swap)))
            out += f"    if z < {place}:\n{printing.body(e.xreplace(swap), ' ' * 8)}"
        out += printing.body(p.exprs[-1].xreplace(swap)) + "\n\n"
        walls = [printing.code(without_overflow(b.xreplace(swap))) for b in p.breaks]
        cut = "".join(f"        if a < {b} < b:\n            b = {b}\n" for b in walls)
        sum_up = f"""h, half = 0.5 * (b - a), 0.5 * (a + b)
        for x, w in ({nodes}):
            z = half + h * x
            total += h * w * {name}_h{k}(z{before}) * math.exp(-0.5 * ((z - m) / s) ** 2)
"""
        # a function that is 0 up to a wall has all of its mass right behind it, however far that is
        far = "".join(
            f"""    d = ({wall} - m) / s
    if 9.5 <= abs(d) < {_FARTHEST}:
        for i in range(20):
            a, b = {wall} + 2.0 * i * s / d, {wall} + 2.0 * (i + 1) * s / d
            if d < 0.0:
                a, b = b, a
            {sum_up.replace(chr(10), chr(10) + "    ").rstrip()}
"""
            for wall in walls
        )
        # behind a kink of the function before, what is divided by a small deviation is steep
        scales = [own[c].name for c, _ in node.body.means[:k] if c.is_positive and h.has(c)]
        unit = "".join(f"    unit = min(unit, 0.3 * math.sqrt({c}))\n" for c in scales) if walls else ""
        near = "".join(f"        width = min(width, max(unit, 0.5 * abs(a - {b})))\n" for b in walls if unit)
        out += f"""def {name}_c{k}(m, s{before}):
    a, hi, total, unit = m - 9.5 * s, m + 9.5 * s, 0.0, s
{unit}    while a < hi:
        width = 0.8 * min(s, max(0.6, a if a > 0.0 else -0.45 * a))
{near}        b = min(hi, a + width)
{cut}        if not b > a:
            break
        {sum_up}        a = b
{far}    return total / (s * math.sqrt(2.0 * math.pi))


"""
        lines.append(f"        c{k} = {name}_c{k}(m, s{before})\n")
    value = printing.code(node.body.value.xreplace(swap))
    return f"""{out}def {name}(V, M):
    if not (V > 0.0 and M >= 0.0):
        return math.nan
    s, r = math.sqrt(V), math.sqrt(M)
    h = max({_STEP} * min(r, s, 1.0), r / 400.0)
    n = int({_REACH} * r / h) if r > 0.0 else 0
    total, norm = 0.0, 0.0
    for j in range(-n, n + 1):
        m = j * h
        w = math.exp(-0.5 * (m / r) ** 2) if r > 0.0 else 1.0
{"".join(lines)}        total += w * {value}
        norm += w
    return total / norm
"""


def error(node: Common, source: str, name: str) -> float:
    """The largest deviation of the source from a quadrature with other panels and another step, over sample states.

    Raises: MeanFieldError where it is not small.
    """
    f, worst = printing.compiled(source, name), 1e-14
    for V, M in SAMPLES:
        try:
            miss = abs(f(V, M) - (true := reference(node, V, M))) / max(abs(true), 1e-12)
        except ZeroDivisionError:
            miss = math.inf
        worst = max(worst, miss if math.isfinite(miss) else math.inf)
    if not worst < USABLE:
        raise MeanFieldError(
            f"A BatchNorm behind this activation is not available: its average {node} is too steep for float64 where "
            "the "
            f"batch shares nearly all of a neuron (measured error {worst:.0e}): it is derived but not computed; "
            "ask for quantities=('K', 'K_ab'), or measure the network (meanfield.measure)."
        )
    return worst


def reference(node: Common, V: float, M: float) -> float:
    """The same average by NumPy: 24-point panels of one width, a finer step."""
    names = [c for c, _ in node.body.means]
    read = []
    for k, (_, h) in enumerate(node.body.means):
        p = pieces(h, Z[0])
        put = {c: sp.Symbol(f"c{i}", real=True) for i, c in enumerate(names[:k])}
        arguments = list(put.values())
        places = [sp.lambdify(arguments, b.xreplace(put), "math") for b in p.breaks]
        read.append((p.exprs, places))
    value = sp.lambdify(names, node.body.value, "math")
    s, r = math.sqrt(V), math.sqrt(M)
    step = 0.13 * min(r, s, 1.0)
    points = np.arange(-int(_REACH * r / step), int(_REACH * r / step) + 1) * step if r > 0 else np.zeros(1)
    x, w = gauss_legendre(24)
    total = norm = 0.0
    for m in points:
        known: list[float] = []
        for exprs, places in read:
            walls = [b(*known) for b in places]
            low, high = m - 9.5 * s, m + 9.5 * s
            grid = np.arange(math.floor(low / 0.37), math.ceil(high / 0.37) + 1) * 0.37 if s > 0.37 else np.empty(0)
            fine = np.linspace(low, high, 27)
            tails = [np.empty(0)]
            for wall in walls:
                d = (wall - m) / s
                tails += [wall + sign * s * np.geomspace(1e-9, 3, 80) for sign in (1, -1)] if known else []
                if 9.5 <= abs(d) < _FARTHEST:
                    tails.append(wall + np.linspace(0, 41, 27) * s / d)
                    low, high = min(low, tails[-1].min()), max(high, tails[-1].max())
            cuts = np.unique(np.clip(np.concatenate([grid, fine, *tails, walls, [low, high]]), low, high))
            mean = 0.0
            half, middle = 0.5 * np.diff(cuts), 0.5 * (cuts[1:] + cuts[:-1])
            z = middle[:, None] + half[:, None] * x
            weight = half[:, None] * w * np.exp(-0.5 * ((z - m) / s) ** 2)
            which = np.searchsorted(np.array(walls), middle, side="right")
            for k, e in enumerate(exprs):
                if (which == k).any():
                    f = numpy_function(e, tuple(names[: len(known)]))
                    mean += float((weight[which == k] * f(z[which == k], *known)).sum())
            known.append(mean / (s * math.sqrt(2 * math.pi)))
        weight_m = math.exp(-0.5 * (m / r) ** 2) if r > 0 else 1.0
        total, norm = total + weight_m * value(*known), norm + weight_m
    return total / norm


@lowers(Common)
def _lowered(functions: Functions, shape: Common, written: Sequence[sp.Expr]) -> None:
    name = functions.name(shape, "common")
    source = text(shape, name)
    note = f"{name}(V, M) = {shape}: quadrature within quadrature at every call"
    functions.add(name, source, note, error(shape, source, name), PAIR_WEIGHT)


@lowers(SphereAverage)
def _constant(functions: Functions, shape: SphereAverage, written: Sequence[sp.Expr]) -> None:
    """An average over a normalized batch, which no state moves."""
    if shape.free_symbols:
        raise MeanFieldError(
            f"{shape} holds {', '.join(sorted(map(str, shape.free_symbols)))}; give numbers for them, which the "
            "averages of a batch need before they are compiled."
        )
    functions.number(shape, *sphere_value(shape))
