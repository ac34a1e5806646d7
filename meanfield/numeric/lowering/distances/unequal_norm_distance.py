"""Float64 `UnequalDistanceRatio`, `DirectionRatio` and `DividedDifference`: how far f moves two Gaussians of different
variances apart, with all its digits.

The first two are quadratures of difference quotients (`difference_quotients`), or, where ⟨f′f′⟩ has a closed form,
cheaper: the part of norms is then a mean over one Gaussian of a squared difference quotient (panels end where either
argument meets a kink, and where the two are close the quotient is a Gauss mean of f′ between them), the part of
directions the mean of ⟨f′f′⟩ over correlations, as for one norm; far apart in angle it is the difference of averages,
if that keeps its digits (`equal_norm_distance`). In a `DirectionRatio` the part of norms is another one,
⟨(√(b/a) q - (a - b)/((s - t)√(ab)) f(tx))²⟩ with the same quotient q. Of an even f opposite inputs are the same one.
`unequal_norm_check` measures the error.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown
from meanfield.base.symbols import K, K_aa, K_bb, Z, distance
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering.averages import planes
from meanfield.numeric.lowering.distances import difference_quotients
from meanfield.numeric.lowering.distances.equal_norm_distance import CLOSE, FAINT, KEPT, mean_of_slopes, scale_free
from meanfield.numeric.lowering.distances.equal_norm_distance import parts as distance_ratio_parts
from meanfield.numeric.quadrature import branches
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.symbolic import parity
from meanfield.symbolic.averages.node import Average, Integrand, average
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio, essential
from meanfield.symbolic.averages.nodes.unequal_norms import (
    DirectionRatio,
    DividedDifference,
    UnequalDistanceRatio,
    divided_difference,
)
from meanfield.symbolic.equality import closed

OCTAVE = 1.5  # of variances: over such a segment eight nodes give the mean of d⟨f⟩/dK
GROWN = ("R", "S")  # the tables of a divided difference
STEPS = 8  # segments; variances further from each other leave a difference its digits
NOTES: dict[type, str] = {
    UnequalDistanceRatio: (
        "one Gaussian for the share of norms, the mean of slopes over correlations for that of directions"
    ),
    DirectionRatio: "one Gaussian for the part of norms, the mean of slopes over correlations for that of directions",
    DividedDifference: "the mean of the slope over a short segment, else the difference quotient",
}


def parts(node: UnequalDistanceRatio | DividedDifference) -> tuple[sp.Expr, ...]:
    """The averages that a node over (K_aa, K_bb, …) is computed from.

    Raises: MeanFieldError for an f that no quadrature here covers.
    """
    f = node.function
    if isinstance(node, DividedDifference):
        return tuple(e for e in _mean_and_slope(f) if not e.is_number)
    h = _moving(f) if isinstance(node, DirectionRatio) else f
    own: tuple[sp.Expr, ...] = ()
    if not difference_quotients.serves(node):
        own = distance_ratio_parts(
            DistanceRatio(Integrand(h) if isinstance(node, DirectionRatio) else node.args[0], K, distance)
        )
        jumps = own[2].has(distance)  # more is left of it than a number over a root: it jumps off 0, or bends beside
        if jumps or closed(own[2]).has(Average) or branches.branches(f):
            what = "jumps" if jumps else "has a branch point"
            raise MeanFieldError(
                f"The distance of two inputs of unequal norms through {shown(f)} was asked for, which {what}; it is "
                "derived, but not compiled: ask for K_aa, K_bb and K_ab."
            )
    if not isinstance(node, DirectionRatio):
        return own
    grown = _grown(node)
    differences = [grown] if isinstance(grown, DividedDifference) else []
    constant = [average(h, K)] if own and h != f else []
    return average(node.square, K), *own[1:], *differences, *constant


def _grown(node: DirectionRatio) -> sp.Expr:
    """What a DirectionRatio knows of (⟨f²⟩ - ⟨f²⟩)/(A - B) but for a factor: a `DividedDifference`, or 1."""
    return divided_difference(node.square, K_aa, K_bb).as_independent(DividedDifference)[1]


def _moving(f: sp.Expr) -> sp.Expr:
    """f without what is constant beside it."""
    factor, rest = essential(f)
    return factor * rest


def text(node: UnequalDistanceRatio | DividedDifference, name: str, used: list[str], moved: str = "") -> str:
    """Source of `name(A, B, apart, norm_angle, T)` or `name(A, B, T, U)` by the functions of its parts and their
    tables; moved: the function of difference quotients, where these serve."""
    if isinstance(node, DividedDifference):
        slope = _mean_and_slope(node.function)[1]
        if slope.is_number:
            return f"def {name}(A, B, *tables):\n    return {float(slope)!r}\n"
        return _RISE.format(name=name, value=used[0], slope=used[1], nodes=_nodes(8), octave=OCTAVE, steps=STEPS)
    if moved and not isinstance(node, DirectionRatio):
        return difference_quotients.of_unequal_ratio(name, moved)
    if moved:
        grown, held = _growth(node, used[1:])
        return difference_quotients.of_direction_ratio(name, moved, used[0], ("T", *held), f"{grown} * (s + t)")
    second, product, slope, *more = used
    of_directions, moving = isinstance(node, DirectionRatio), _moving(node.function)
    whole = _along(node, name) + _across(name, slope)
    opposite = "gap > 1.0" if parity.of_function(moving) == 1 else "False"
    far, whole_size = "left = size - 2.0 * q", f"{second}(A, T) + {second}(B, T)"
    norms, tables = f"{name}_along(s, t, between)", ["T"]
    if of_directions:
        constant = node.function - moving
        if constant != 0:  # ⟨f f⟩ of f = h + constant
            mean, tables = more.pop(), ["T", "M"]
            far = f"q += {float(constant)!r} * ({mean}(A, M) + {mean}(B, M) + {float(constant)!r})\n        " + far
        whole_size = "2.0 * one * other"
        grown, held = _growth(node, more)
        tables[1:1] = held
        norms = f"{name}_along(s, t, between, one, other, {grown} * (s + t))"
        whole += _SIZES.format(name=name, second=second)
    return whole + _WHOLE.format(
        name=name, product=product, faint=FAINT, close=CLOSE, rate=_rate(node.function), opposite=opposite, far=far,
        size=whole_size, kept=KEPT, norms=norms, tables=", ".join(tables),
        sizes=f"one, other = {name}_sizes(A, B, T)" if of_directions else "pass",
        nothing="not one * other > 0.0" if of_directions else "False",
    )  # fmt: skip


def _growth(node: DirectionRatio, used: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Source of (⟨f²⟩ - ⟨f²⟩)/(A - B), and the tables it reads; used: the function of a
    `DividedDifference`, if there is one."""
    own, factor = _grown(node), float(divided_difference(node.square, K_aa, K_bb).as_independent(DividedDifference)[0])
    if not isinstance(own, DividedDifference):
        return f"{factor!r} * 1.0", ()
    held = GROWN[: len(parts(own))]
    return f"{factor!r} * {used[0]}({', '.join(('A', 'B', *held))})", held


_RISE = """def {name}(A, B, T, U):
    low, high = max(min(A, B), 1e-290), max(A, B, 1e-290)
    top, bottom, total, at = {value}(high, T), {value}(low, T), 0.0, low
    if abs(top - bottom) > 0.2 * (abs(top) + abs(bottom)):  # the difference keeps its digits
        return (top - bottom) / (high - low)
    for _ in range({steps}):
        end = min(high, {octave!r} * at)
        part = 0.0
        for u, w in {nodes}:
            part += w * {slope}(at + (end - at) * u, U)
        if end >= high:
            return total + part * ((high - at) / (high - low) if high > low else 1.0)
        total += part * (end - at) / (high - low)
        at = end
    return (top - bottom) / (high - low)
"""


def _mean_and_slope(f: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    mean = average(f, K)
    return mean, mean.derivative_cov(0, 0)


def _nodes(n: int) -> str:
    """Gauss nodes and weights of a mean over [0, 1], as source."""
    x, w = gauss_legendre(n)
    return repr(tuple((0.5 * (1 + float(t)), 0.5 * float(v)) for t, v in zip(x, w)))


def _rate(f: sp.Expr) -> float:
    """1/(f's own scale)²."""
    return 0.0 if scale_free(f) else planes.resolved(f) ** -2


def _along(node: UnequalDistanceRatio, name: str) -> str:
    """Source of the share of norms: ⟨((f(sx) - f(tx))/(s - t))²⟩, the exact difference s - t given beside s and t."""
    f = node.function
    plan, rules = difference_quotients.plan_of(f, pieces(f, Z[0]).diff().expr), planes.plan(_product(node))
    points = sorted({0.0, *(abs(k) for k in rules.kinks[0])})
    of_directions = isinstance(node, DirectionRatio)
    value = "share * {0} - less * {1}_f({2}t * x)" if of_directions else "{0}"
    call = "{1}x * {0}_quotient({1}s * x, {1}t * x, {1}apart * x)"
    head = f"{name}_P = np.array({points!r})\n"
    return difference_quotients.quotient(plan, name) + head + _ALONG.format(
        name=name,
        more=", one, other, grown" if of_directions else "",
        before=_SHARES if of_directions else "",
        right=value.format(call.format(name, ""), name, ""),
        left=value.format(call.format(name, "-"), name, "-"),
        step=1.5 * rules.step,
        rate=2 * rules.rate,
        wave=rules.frequencies[0],
        periods=planes.PERIODS,
    )  # fmt: skip


_ALONG = """

def {name}_along(s, t, apart{more}):
{before}    X, W, P = {name}_X, {name}_W, {name}_P
    n = P.shape[0]
    points, scales, edges = _room(2 * n), _room(2 * n), _room(1000)
    for k in range(n):
        points[k], scales[k] = P[k] / s, {step!r} / s
        points[n + k], scales[n + k] = P[k] / t, {step!r} / t
    top = max(s, t)
    m = _panels(0.0, 9.0 + {rate!r} * top, points, scales, min(2.0, {periods!r} / ({wave!r} * (s + t) + 1e-9)), edges)
    total = 0.0
    for i in range(m - 1):
        half = 0.5 * (edges[i + 1] - edges[i])
        for k in range(X.shape[0]):
            x = edges[i] + half * (1.0 + X[k])
            right, left = {right}, {left}
            total += W[k] * half * math.exp(-0.5 * x * x) * (right * right + left * left)
    return total * 0.3989422804014327


"""


_SHARES = """    # of √(b/a) f(sx) - √(a/b) f(tx) per s - t; grown: (a² - b²)/(s - t)
    share, less = math.sqrt(other / one), grown / ((one + other) * math.sqrt(one * other))
"""


def _across(name: str, slope: str) -> str:
    """Source of the share of directions: the mean of a closed ⟨f′f′⟩ over correlations from 1 - gap to 1."""
    call = f"{slope}(A, s * t * (1.0 - g), B, g * (2.0 - g))"
    return f"def {name}_across(A, B, s, t, gap, near):\n{mean_of_slopes(call, 12)}\n\n"


_WHOLE = """def {name}(A, B, apart, norm_angle, {tables}):
    A, B = max(A, 1e-290), max(B, 1e-290)
    s, t = math.sqrt(A), math.sqrt(B)
    norms, turns = math.sin(norm_angle) ** 2, _cos(norm_angle) ** 2
    gap = min(0.5 * turns * apart / (s * t), 2.0)
    {sizes}
    if {nothing}:
        return 0.0
    if {opposite}:  # an even function does not tell z from -z
        gap = 2.0 - gap
        turns = 2.0 * s * t * gap / apart
    near = gap * max(1.0, max(A, B) * {rate!r})
    if gap > {faint!r} and near > {close!r}:
        size, q = {size}, {product}(A, s * t * (1.0 - gap), B, gap * (2.0 - gap))
        {far}
        if left > {kept!r} * size:
            return left / apart
    between = math.sin(norm_angle) * math.sqrt(apart)
    total = norms * {norms} if norms > 0.0 else 0.0
    if turns > 0.0:
        total += turns * {name}_across(A, B, s, t, gap, near)
    return total
"""
_SIZES = """def {name}_sizes(A, B, T):
    # the roots of ⟨f²⟩
    return math.sqrt(max({second}(A, T), 0.0)), math.sqrt(max({second}(B, T), 0.0))


"""


def _product(node: UnequalDistanceRatio) -> Average:
    (found,) = distance_ratio_parts(DistanceRatio(Integrand(_moving(node.function)), K, distance))[1].atoms(Average)
    return found
