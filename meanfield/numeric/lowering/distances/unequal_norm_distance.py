"""Float64 `Chord`, `Turn` and `Rise`: how far f moves two Gaussians of different variances apart, with all its digits.

The share of norms is a mean over one Gaussian of a squared difference quotient: panels end where either argument meets
a kink, and where the two are close the quotient is a Gauss mean of f′ between them. The share of directions is the mean
of ⟨f′f′⟩ over correlations, in the root of 1 - c as for one norm. There a kink off 0, which the two inputs meet at
different places, leaves a layer as wide as these are apart: panels double from it outwards. Far apart in angle it is
the difference of averages. A turn has another share of norms, ⟨(√(b/a) q - (a - b)/((s - t)√(ab)) f(tx))²⟩ with the
same quotient q. Of an even f opposite inputs are the same one. `unequal_norm_check` measures the error.
"""

from __future__ import annotations

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown
from meanfield.base.symbols import K, K_aa, K_bb, Z, distance
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering.averages import planes
from meanfield.numeric.lowering.distances.equal_norm_distance import CLOSE, FAINT, RULES, scale_free
from meanfield.numeric.lowering.distances.equal_norm_distance import parts as stretch_parts
from meanfield.numeric.quadrature import branches
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.symbolic import parity
from meanfield.symbolic.averages.node import Average, Integrand, average
from meanfield.symbolic.averages.nodes.equal_norms import Stretch, essential
from meanfield.symbolic.averages.nodes.unequal_norms import Chord, Rise, Turn, rise

SHORT = 0.1  # of f's own scale: up to this width four nodes give the mean of f′
LAYER = 12.0  # a layer of width v is e^{-v²/4g} at 1 - c = g, 0 for a double below (v/12)²
THIN = 1e-6  # thinnest layer of a kink that the mean sees, in (1 - c)^{1/3}: it is as deep as it is wide
OCTAVE = 1.5  # of variances: over such a segment eight nodes give the mean of d⟨f⟩/dK
GROWN = ("R", "S")  # the tables of a rise
STEPS = 8  # segments; variances further from each other leave a difference its digits
NOTES: dict[type, str] = {
    Chord: "one Gaussian for the share of norms, the mean of slopes over correlations for that of directions",
    Turn: "one Gaussian for what norms turn, the mean of slopes over correlations for what directions do",
    Rise: "the mean of the slope over a short segment, else the difference quotient",
}


def parts(node: Chord | Rise) -> tuple[sp.Expr, ...]:
    """The averages that a node over (K_aa, K_bb, …) is computed from.

    Raises: MeanFieldError for an f that this quadrature does not cover.
    """
    f = node.function
    if isinstance(node, Rise):
        return tuple(e for e in _mean_and_slope(f) if not e.is_number)
    h = _moving(f) if isinstance(node, Turn) else f
    found: tuple[sp.Expr, ...] = stretch_parts(
        Stretch(Integrand(h) if isinstance(node, Turn) else node.args[0], K, distance)
    )
    jumps = found[2].has(distance)  # more is left of it than a number over a root: it jumps off 0, or bends beside
    if jumps or branches.branches(f):
        what = "jumps" if jumps else "has a branch point"
        raise MeanFieldError(
            f"The distance of two inputs of unequal norms through {shown(f)} was asked for, which {what}; it is "
            "derived, but not compiled: ask for K_aa, K_bb and K_ab."
        )
    if not isinstance(node, Turn):
        return found
    grown = _grown(node)
    own = (average(node.square, K), *found[1:], *([grown] if isinstance(grown, Rise) else []))
    return own if h == f else (*own, average(h, K))


def _grown(node: Turn) -> sp.Expr:
    """What a Turn knows of (⟨f²⟩ - ⟨f²⟩)/(A - B) but for a factor: a `Rise`, or 1."""
    return rise(node.square, K_aa, K_bb).as_independent(Rise)[1]


def _moving(f: sp.Expr) -> sp.Expr:
    """f without what is constant beside it."""
    factor, rest = essential(f)
    return factor * rest


def text(node: Chord | Rise, name: str, used: list[str]) -> str:
    """Source of `name(A, B, apart, tilt, T)` or `name(A, B, T, U)` by the functions of its parts and their tables."""
    if isinstance(node, Rise):
        slope = _mean_and_slope(node.function)[1]
        if slope.is_number:
            return f"def {name}(A, B, *tables):\n    return {float(slope)!r}\n"
        return _RISE.format(name=name, value=used[0], slope=used[1], nodes=_nodes(8), octave=OCTAVE, steps=STEPS)
    second, product, slope, *more = used
    turns, moving = isinstance(node, Turn), _moving(node.function)
    whole = _along(node, name) + _across(node, name, slope)
    opposite = "gap > 1.0" if parity.of_function(moving) == 1 else "False"
    far = f"return ({second}(A, T) + {second}(B, T) - 2.0 * q) / apart"
    norms, tables = f"{name}_along(s, t, between)", ["T"]
    if turns:
        constant = node.function - moving
        if constant != 0:  # ⟨f f⟩ of f = h + constant
            mean, tables = more.pop(), ["T", "M"]
            far = f"q += {float(constant)!r} * ({mean}(A, M) + {mean}(B, M) + {float(constant)!r})\n        " + far
        far = far.replace(f"{second}(A, T) + {second}(B, T)", "2.0 * one * other")
        own = _grown(node)
        held = GROWN[: len(parts(own))] if isinstance(own, Rise) else ()
        grown = f"{more[0]}({', '.join(('A', 'B', *held))})" if isinstance(own, Rise) else "1.0"
        grown = f"{float(rise(node.square, K_aa, K_bb).as_independent(Rise)[0])!r} * {grown}"
        tables[1:1] = held
        norms = f"{name}_along(s, t, between, one, other, {grown} * (s + t))"
        whole += _SIZES.format(name=name, second=second)
    return whole + _WHOLE.format(
        name=name, product=product, faint=FAINT, close=CLOSE, rate=_rate(node.function), opposite=opposite, far=far,
        norms=norms, tables=", ".join(tables), sizes=f"one, other = {name}_sizes(A, B, T)" if turns else "pass",
        nothing="not one * other > 0.0" if turns else "False",
    )  # fmt: skip


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
    return 0.0 if scale_free(f) else planes.resolved(f)[0] ** -2


def _along(node: Chord, name: str) -> str:
    """Source of the share of norms: ⟨((f(sx) - f(tx))/(s - t))²⟩, the exact difference s - t given beside s and t."""
    f = node.function
    p, plan = pieces(f, Z[0]), planes.plan(_product(node))
    x, w = gauss_legendre(planes.NODES)
    points = sorted({0.0, *(abs(k) for k in plan.kinks[0])})
    arrays = {"X": list(map(float, x)), "W": list(map(float, w)), "B": [float(b) for b in p.breaks] or [0.0]}
    head = "".join(f"{name}_{k} = np.array({v!r})\n" for k, v in (arrays | {"P": points}).items())
    functions = planes.function_text(f, f"{name}_f") + planes.function_text(p.diff().expr, f"{name}_d")
    turned = isinstance(node, Turn)
    value = "share * {0} - less * {1}_f({2}t * x)" if turned else "{0}"
    return f"{head}\n\n{functions}" + _ALONG.format(
        name=name,
        more=", one, other, grown" if turned else "",
        before=_SHARES if turned else "",
        right=value.format(f"{name}_quotient(x, s, t, apart)", name, ""),
        left=value.format(f"{name}_quotient(-x, s, t, apart)", name, "-"),
        nodes=_nodes(4),
        short=SHORT * min(1.0, plan.step),
        step=1.5 * plan.step,
        rate=2 * plan.rate,
        wave=plan.frequencies[0],
        periods=planes.PERIODS,
    )


_ALONG = """def {name}_quotient(x, s, t, apart):
    a, b, crossed = s * x, t * x, False
    for k in range({name}_B.shape[0]):
        crossed = crossed or (a - {name}_B[k]) * (b - {name}_B[k]) < 0.0
    if a != b and (crossed or abs(apart * x) > {short!r}):
        return x * ({name}_f(a) - {name}_f(b)) / (a - b)  # the secant of the very places that f is taken at
    total = 0.0
    for u, w in {nodes}:
        total += w * {name}_d(0.5 * (a + b) + (u - 0.5) * apart * x)
    return total * x


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


def _across(node: Chord, name: str, slope: str) -> str:
    """Source of the share of directions: the mean of ⟨f′f′⟩ over correlations from 1 - gap to 1."""
    breaks = [float(b) for b in pieces(node.function, Z[0]).breaks]
    out = f"{name}_Q = np.array({breaks or [0.0]!r})\n\n\n" + _LAYERS.format(name=name)
    out += f"""def {name}_across(A, B, s, t, apart, gap, near):
    root = math.sqrt(gap)
    layer = max({name}_layer(s, t, apart) / {LAYER!r}, {THIN!r} * root ** (2.0 / 3.0))
    thin = layer < root
"""
    for most, n in RULES:
        x, w = gauss_legendre(n)
        places = tuple(0.5 * (1 + float(t)) for t in x)
        pairs = tuple((u, u * float(v)) for u, v in zip(places, w))
        out += f"""    if near <= {most!r} and not thin:
        total = 0.0
        for u, w in {pairs!r}:
            g = gap * u * u
            total += w * {slope}(A, s * t * (1.0 - g), B, g * (2.0 - g))
        return total
"""
    x, w = gauss_legendre(12)
    return out + f"""    total, low, high = 0.0, 0.0, max(0.3 / math.sqrt(near), 1e-12) if near > {CLOSE!r} else 1.0
    if thin:
        high = min(high, layer / root)
    while low < 1.0:
        high = min(high, 1.0)
        half = 0.5 * (high - low)
        for x, w in {tuple(zip(map(float, x), map(float, w)))!r}:
            u = low + half * (1.0 + x)
            g = gap * u * u
            total += 2.0 * half * w * u * {slope}(A, s * t * (1.0 - g), B, g * (2.0 - g))
        low, high = high, 2.0 * high
    return total


"""


_LAYERS = """def {name}_layer(s, t, apart):
    # how near a kink of one input comes to one of the other
    least = math.inf
    for i in range({name}_Q.shape[0]):
        for j in range({name}_Q.shape[0]):
            b, c = {name}_Q[i], {name}_Q[j]
            width = abs(b * apart / (s * t)) if i == j else abs(b / s - c / t)
            if width > 0.0:
                least = min(least, width)
    return least


"""
_WHOLE = """def {name}(A, B, apart, tilt, {tables}):
    A, B = max(A, 1e-290), max(B, 1e-290)
    s, t = math.sqrt(A), math.sqrt(B)
    norms, turns = math.sin(tilt) ** 2, _cos(tilt) ** 2
    gap = min(0.5 * turns * apart / (s * t), 2.0)
    {sizes}
    if {nothing}:
        return 0.0
    if {opposite}:  # an even function does not tell z from -z
        gap = 2.0 - gap
        turns = 2.0 * s * t * gap / apart
    near = gap * max(1.0, max(A, B) * {rate!r})
    if gap > {faint!r} and near > {close!r}:
        q = {product}(A, s * t * (1.0 - gap), B, gap * (2.0 - gap))
        {far}
    between = math.sin(tilt) * math.sqrt(apart)
    total = norms * {norms} if norms > 0.0 else 0.0
    if turns > 0.0:
        total += turns * {name}_across(A, B, s, t, between, gap, near)
    return total
"""
_SIZES = """def {name}_sizes(A, B, T):
    # the roots of ⟨f²⟩
    return math.sqrt(max({second}(A, T), 0.0)), math.sqrt(max({second}(B, T), 0.0))


"""


def _product(node: Chord) -> Average:
    (found,) = stretch_parts(Stretch(Integrand(_moving(node.function)), K, distance))[1].atoms(Average)
    return found
