"""Averages of a formula of several nodes by a lattice rule: any `GroupAverage`, for one input and for two.

F and its slopes are written out by forward differentiation of the formula, so maxima, moduli and cases need no normal
form. The points are a Korobov lattice of up to eight dimensions under the baker's transformation, which makes the rule
one of second order for smooth F; kinks leave it about first order. (F_a - F_b)² is averaged as it stands, so close
inputs lose nothing. The error is measured by two other shifts of the lattice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, Z, distance
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering.averages import planes
from meanfield.numeric.lowering.modules.module_functions import Functions, lowers
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.lowering.text.helpers import helpers_for
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.symbolic.averages.nodes import group_functions
from meanfield.symbolic.averages.nodes.group_functions import (
    DIFFERENCE,
    PRODUCT,
    RADIAL,
    RATIO,
    SECOND,
    SLOPE,
    SLOPES,
    UNEQUAL_RATIO,
    GroupAverage,
)

POINTS, GENERATOR = 131071, 15913  # a prime, and a factor good in two, four, six and eight dimensions
CLOSE = 1e-11  # distance in units of the norms below which F moves by its slopes
NEAREST = 1e-13  # 1 - c below which (F_a - F_b)² is the slope's
OFFSETS = (0, 48011, 21737, 113609, 83603, 36673, 124477, 64271)  # of each dimension: no point lies in a corner
MOVES = (0, 43759, 86417, 17011)  # of the whole lattice: the rule's own, and those that measure it
SAMPLES = (0.02, 1.0, 10.0)  # variances at which it is measured
GAPS = (1.0, 0.1, 1e-4)  # and 1 - c
USABLE = 0.01  # a larger measured error is refused
Value = tuple[str, dict[int, str]]  # source of a value and of its slopes by the nodes that it depends on


@lru_cache(maxsize=1)
def _deviates() -> np.ndarray:
    """Normal deviates at the baker's images of (j + 1/4)/POINTS."""
    u = (np.arange(POINTS) + 0.25) / POINTS
    inverse = NormalDist().inv_cdf
    return np.array([inverse(t) for t in 1.0 - np.abs(2.0 * u - 1.0)])


def normals(move: int = MOVES[0]) -> np.ndarray:
    """Normal deviates at the baker's images of (j + move + 1/4)/POINTS."""
    return np.array([np.roll(_deviates(), -move)])


def text(node: GroupAverage, name: str) -> str:
    """Source of `name(V, T)`, `name(K_aa, K_ab, K_bb, T)` or its like of a ratio of distances, a divided
    difference; T: `normals`."""
    n, which = node.nodes, node.which
    if which == group_functions.DIFFERENCE:
        own = "".join(text(node.over((K,), w), f"{name}_{k}") for k, w in (("value", SECOND), ("radial", RADIAL)))
        return own + _RISE.format(name=name, nodes=tuple((0.5 + 0.5 * float(x), 0.5 * float(w)) for x, w in _FOUR))
    f = pieces(node.function, Z[0])
    out = planes.function_text(f.expr, f"{name}_f")
    sloped = which in (SLOPE, RADIAL, SLOPES, RATIO, UNEQUAL_RATIO)
    if sloped:
        out += planes.function_text(f.diff().expr, f"{name}_d")
    out += _formula_text(node, f"{name}_F", sloped)
    pairs = which in (PRODUCT, SLOPES, RATIO, UNEQUAL_RATIO)
    factors = [pow(GENERATOR, j, POINTS) for j in range(2 * n if pairs else n)]
    draws = [f"g{j} = drawn[(k * {a} + {OFFSETS[j]}) % {POINTS}]" for j, a in enumerate(factors)]
    head = {
        RATIO: "V, apart, T",
        UNEQUAL_RATIO: "A, B, apart, norm_angle, T",
        PRODUCT: "K_aa, K_ab, K_bb, T",
        SLOPES: "K_aa, K_ab, K_bb, T",
    }.get(which, "V, T")
    body = ["total = 0.0"]
    if not pairs:
        body += ["s = math.sqrt(max(V, 0.0))"]
        places = [[f"z{i} = s * g{i}" for i in range(n)]]
    else:
        if which == RATIO:
            body += [
                "V = max(V, 1e-290)",
                "gap = min(0.5 * apart / V, 2.0)",
                f"near = gap < {NEAREST!r}",
                "p, m, s, t = math.sqrt(1.0 - 0.5 * gap), math.sqrt(0.5 * gap), math.sqrt(V), math.sqrt(V)",
                "if near:",
                "    p, m = 1.0, 0.0",
            ]
        elif which == UNEQUAL_RATIO:
            body += [
                "s, t = math.sqrt(max(A, 1e-290)), math.sqrt(max(B, 1e-290))",
                "gap = min(0.5 * _cos(norm_angle) ** 2 * apart / (s * t), 2.0)",
                f"near = apart < {CLOSE!r} * s * t",
                "p, m = math.sqrt(1.0 - 0.5 * gap), math.sqrt(0.5 * gap)",
                "along, across = p * math.sin(norm_angle) * math.sqrt(apart), m * (s + t)",
            ]
        else:  # c = ±(1 - gap), of mean and half the difference
            body += [
                "s, t = math.sqrt(max(K_aa, 1e-290)), math.sqrt(max(K_bb, 1e-290))",
                "gap = _closeness(s * s, K_ab, t * t, _sine2(max(K_aa, 1e-290), K_ab, max(K_bb, 1e-290)))",
                "gap = gap if K_ab >= 0.0 else 2.0 - gap",
                "p, m = math.sqrt(1.0 - 0.5 * gap), math.sqrt(0.5 * gap)",
            ]
        places = [
            [f"z{i} = {side} * (p * g{i} {sign} m * g{n + i})" for i in range(n)]
            for side, sign in (("s", "+"), ("t", "-"))
        ]
    loop = list(draws)
    for k, lines in enumerate(places):
        loop += lines + [f"w{i} = {name}_f(z{i})" for i in range(n)]
        arguments = ", ".join(f"w{i}" for i in range(n))
        if not sloped:
            loop.append(f"F{k} = {name}_F({arguments})")
            continue
        loop.append(f"F{k}, {', '.join(f'h{i}_{k}' for i in range(n))} = {name}_F({arguments})")
        loop += [f"h{i}_{k} = h{i}_{k} * {name}_d(z{i}) if h{i}_{k} != 0.0 else 0.0" for i in range(n)]
    last = "1" if pairs else "0"
    dot = " + ".join(f"h{i}_0 * h{i}_{last}" for i in range(n))
    moved = " + ".join(f"h{i}_0 * (along * g{i} + across * g{n + i})" for i in range(n))
    loop += {
        group_functions.MEAN: ["total += F0"],
        SECOND: ["total += F0 * F0"],
        SLOPE: [f"total += {dot}"],
        RADIAL: [f"total += F0 * ({' + '.join(f'z{i} * h{i}_0' for i in range(n))})"],
        PRODUCT: ["total += F0 * F1"],
        SLOPES: [f"total += {dot}"],
        RATIO: [f"total += ({dot}) * apart if near else (F0 - F1) * (F0 - F1)"],
        UNEQUAL_RATIO: [f"total += ({moved}) ** 2 if near else (F0 - F1) * (F0 - F1)"],
    }[which]
    end = f"total / {POINTS}"
    if which == UNEQUAL_RATIO:
        body += ["if apart <= 0.0:", "    near, apart, along, across = True, 1.0, 1.0, 0.0"]
        end = f"total / {POINTS} / apart"
    if which == RATIO:
        body += ["if apart <= 0.0:", "    near, apart = True, 1.0"]
        end = f"total / {POINTS} / apart"
    lines = [f"def {name}({head}):", *(f"    {t}" for t in body), "    drawn = T[0]", f"    for k in range({POINTS}):"]
    return out + "\n".join([*lines, *(f"        {t}" for t in loop), f"    return {end}"]) + "\n"


_FOUR = list(zip(*gauss_legendre(4)))
_RISE = """def {name}(A, B, T):
    low, high = max(min(A, B), 1e-290), max(A, B, 1e-290)
    if high > 1.5 * low:
        return ({name}_value(high, T) - {name}_value(low, T)) / (high - low)
    total = 0.0
    for u, w in {nodes}:
        V = low + u * (high - low)
        total += w * {name}_radial(V, T) / V
    return total
"""


@lru_cache(maxsize=256)  # recursions of one network share their averages: each is compiled and measured once
def error(node: GroupAverage) -> float:
    """The error of the rule: the largest relative difference between shifts of the lattice.

    Raises: MeanFieldError where the rule does not see the average.
    """
    if node.which in (UNEQUAL_RATIO, DIFFERENCE):  # made of what these measure
        return error(node.over((K, distance), RATIO) if node.which == UNEQUAL_RATIO else node.over((K,), RADIAL))
    f, worst = _compiled(node), 0.0
    scale = None if node.which not in (group_functions.MEAN, RADIAL) else node.of(SECOND)
    size = _compiled(scale) if scale is not None else None
    for V in SAMPLES:
        for gap in GAPS if node.which > RADIAL else GAPS[:1]:
            at: tuple[float, ...] = (V,) if node.which < PRODUCT else (V, V * (1 - gap), V)
            at = (V, 2 * V * gap) if node.which == RATIO else at
            own, *others = (f(*at, normals(s)) for s in MOVES)
            if node.which in (PRODUCT, SLOPES):  # in units of full correlation, where signs cancel
                unit = f(V, V, V, normals())
            elif size is not None:
                unit = size(V, normals()) if node.which == RADIAL else math.sqrt(size(V, normals()))
            else:
                unit = own
            if unit:
                worst = max([worst, *[abs((x - own) / unit) for x in others]])
    if not worst < USABLE:
        raise MeanFieldError(
            f"{node} is too steep, or grows too fast, for a lattice of {POINTS} points (measured error "
            f"{worst:.0e}); it is derived, but not compiled."
        )
    return worst


@lru_cache(maxsize=64)
def _compiled(node: GroupAverage):
    """The function of an average, compiled: a rule has too many points for the interpreter."""
    from numba import njit

    source = text(node, "rule")
    scope = {"math": math, "np": np, "njit": njit}
    whole = helpers_for(source) + printing.decorated(source, "@njit(error_model='numpy')")
    whole = whole.replace("cache=True, ", "")
    exec(compile(whole, "<rule>", "exec"), scope)  # generated here, from expressions only
    return scope["rule"]


# ---------------------------------------------------------------------------------------------------- the formula


def _formula_text(node: GroupAverage, name: str, sloped: bool) -> str:
    """Source of `name(w0, w1, …)`: F, and with it ∂F/∂w_i where they are asked for."""
    tape = _Tape(node.nodes)
    value, slopes = tape.of(node.formula)
    found = ", ".join([value, *(slopes.get(i, "0.0") for i in range(node.nodes))]) if sloped else value
    arguments = ", ".join(f"w{i}" for i in range(node.nodes))
    return "\n".join([f"def {name}({arguments}):", *(f"    {t}" for t in tape.lines), f"    return {found}"]) + "\n\n\n"


class _Tape:
    """Source lines that compute an expression of the nodes' values and its slopes, each part once."""

    def __init__(self, nodes: int) -> None:
        self.lines: list[str] = []
        self.known: dict[sp.Expr, Value] = {z: (f"w{i}", {i: "1.0"}) for i, z in enumerate(Z[:nodes])}

    def of(self, e: sp.Expr) -> Value:
        if e not in self.known:
            self.known[e] = self._of(e)
        return self.known[e]

    def _keep(self, source: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {source}")
        return name

    def _of(self, e: sp.Expr) -> Value:
        if not e.has(*Z):
            return f"({printing.code(sp.sympify(e))})", {}
        if isinstance(e, sp.Piecewise):
            return self._cases(e)
        parts = [self.of(a) for a in e.args]
        values = [v for v, _ in parts]
        nodes = sorted({i for _, slopes in parts for i in slopes})
        if e.is_Add:
            return self._keep(" + ".join(values)), {
                i: self._keep(" + ".join(s[i] for _, s in parts if i in s)) for i in nodes
            }
        if e.is_Mul:
            out = {}
            for i in nodes:
                terms = []
                for k, (_, slopes) in enumerate(parts):
                    if i in slopes:
                        terms.append(" * ".join([slopes[i], *(v for j, v in enumerate(values) if j != k)]))
                out[i] = self._keep(" + ".join(terms))
            return self._keep(" * ".join(values)), out
        if isinstance(e, (sp.Max, sp.Min)):
            return self._best(parts, ">=" if isinstance(e, sp.Max) else "<=", nodes)
        if isinstance(e, sp.Heaviside):
            return self._keep(f"1.0 if {values[0]} > 0.0 else 0.0"), {}
        if isinstance(e, sp.sign):
            return self._keep(f"1.0 if {values[0]} > 0.0 else -1.0"), {}
        if isinstance(e, sp.Abs):
            (u, slopes) = parts[0]
            return self._keep(f"abs({u})"), {i: self._keep(f"{s} if {u} >= 0.0 else -{s}") for i, s in slopes.items()}
        return self._smooth(e, parts)

    def _smooth(self, e: sp.Expr, parts: list[Value]) -> Value:
        """g(u) of one argument, a power among them; where u has no slope, g′ (√0 has none) is not asked for."""
        moving = [k for k, (_, slopes) in enumerate(parts) if slopes]
        if len(moving) > 1:
            raise MeanFieldError(f"The slope of {e} in a Pool's formula is not known; write it with exp and log.")
        inside, slopes = parts[moving[0]] if moving else parts[0]
        k = moving[0] if moving else 0
        u = sp.Symbol("u", real=True)
        g = e.func(*[u if j == k else a for j, a in enumerate(e.args)])
        argument = sp.Symbol(inside, real=True)
        value = self._keep(printing.code(g.xreplace({u: argument})))
        rate = printing.code(g.diff(u).xreplace({u: argument}))
        return value, {i: self._keep(f"{s} * ({rate}) if {s} != 0.0 else 0.0") for i, s in slopes.items()}

    def _best(self, parts: list[Value], better: str, nodes: list[int]) -> Value:
        value, slopes = parts[0]
        for other, more in parts[1:]:
            test = self._keep(f"{other} {better} {value}")
            slopes = {i: self._keep(f"{more.get(i, '0.0')} if {test} else {slopes.get(i, '0.0')}") for i in nodes}
            value = self._keep(f"{other} if {test} else {value}")
        return value, slopes

    def _cases(self, e: sp.Piecewise) -> Value:
        *cases, (otherwise, _) = e.args
        value, slopes = self.of(otherwise)
        for piece, where in reversed(cases):
            own, more = self.of(piece)
            test = self._keep(self._test(where))
            nodes = sorted({*slopes, *more})
            slopes = {i: self._keep(f"{more.get(i, '0.0')} if {test} else {slopes.get(i, '0.0')}") for i in nodes}
            value = self._keep(f"{own} if {test} else {value}")
        return value, slopes

    def _test(self, where) -> str:
        if isinstance(where, (sp.And, sp.Or)):
            return f"({(' and ' if isinstance(where, sp.And) else ' or ').join(map(self._test, where.args))})"
        if isinstance(where, sp.Not):
            return f"(not {self._test(where.args[0])})"
        signs = {sp.Lt: "<", sp.Le: "<=", sp.Gt: ">", sp.Ge: ">=", sp.Eq: "==", sp.Ne: "!="}
        if type(where) not in signs:
            raise MeanFieldError(f"The condition {where} in a Pool's formula is not a comparison.")
        return f"{self.of(where.lhs)[0]} {signs[type(where)]} {self.of(where.rhs)[0]}"


@lowers(GroupAverage)
def _lowered(functions: Functions, shape: GroupAverage, written: Sequence[sp.Expr]) -> None:
    name = functions.name(shape, "group")
    source = text(shape, name)
    missed = error(shape)
    note = f"{name} = {shape}: a lattice of {POINTS} points, measured error {missed:.0e}"
    cost = float(POINTS * (2 if len(shape.variables) > 1 else 1))  # a point is a plain layer's work
    functions.add(name, source, note, missed, cost, table=normals())
