"""Averages whose integrand has parameters that change from layer to layer, by panel quadrature at every call.

Such are the averages of a nonlinearity behind a LayerNorm that acts on activations: its mean and scale are averages
themselves. A table in K alone does not serve, so the compiled function evaluates the integral: 24-point Legendre panels
that double outwards from half of min(1, √K), on the folded integrand f(z) + f(-z), and end at its breaks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import P_POSITIVE, K, K_aa, K_ab, K_bb, P, Z, distance
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering.modules.module_functions import DIRECT_WEIGHT, Functions, writes
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.quadrature import gaussian_averages as quadrature
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.numeric.quadrature.steep_points import resolving_width
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.equality import closed

SAMPLES = (1e-6, 1e-2, 0.3, 1.0, 7.0, 300.0, 1e5)  # K, at which the error is measured
STATE = (K, K_aa, K_ab, K_bb, distance)
PARAMETERS = (1.0, 0.31, 2.7)
ROUNDING = 2e-14


def direct(node: Average, name: str) -> str:
    """Source of `name(K, p0, p1, …)`, the average over N(0, K) of the node's integrand with its parameters p.

    Breaks may be any functions of the parameters: panels end at them, wherever they are at this layer.
    """
    p = pieces(node.args[0].expr, Z[0])
    names = [sp.Symbol(f"p{i}", real=True) for i in range(len(node.args[3]))]
    swap = dict(zip(P, names)) | dict(zip(P_POSITIVE, names)) | {Z[0]: sp.Symbol("z", real=True)}
    moving = [b for b in p.breaks if b != 0]
    x, w = gauss_legendre(24)
    args = ", ".join(["K", *(s.name for s in names)])
    inner = ", ".join(["z", *(s.name for s in names)])
    if moving:
        whole = _switching(p, swap, f"{name}_f", inner)
        places = [printing.code(without_overflow(b.xreplace(swap))) for b in moving]
        walls = "".join(f"    walls[{k}] = abs({place})\n" for k, place in enumerate(places))
        # behind a wall a density of that place falls within s²/wall; a wall beyond 38 s bounds nothing a double holds
        walls = f"""    walls = np.empty({len(moving)})
{walls}    walls = np.sort(walls)
    for wall in walls:
        if wall < 38.0 * s:
            reach = max(reach, math.hypot(9.5 * s, wall))
"""
        value = f"({name}_f({inner}) + {name}_f(-{inner}))"
        cut = """        for wall in walls:
            if a < wall < b:
                b = wall
"""
        grade = """        for wall in walls:
            if b == wall:
                width = min(0.5 * min(1.0, s), s * s / wall)
"""
    else:
        right, left = p.exprs[-1].xreplace(swap), p.exprs[0].subs(Z[0], -Z[0]).xreplace(swap)
        whole = f"def {name}_f({inner}):\n{printing.body(right + left)}"
        walls = cut = grade = ""
        value = f"{name}_f({inner})"
    return f"""{whole}
def {name}({args}):
    s = math.sqrt(K)
    reach, a, width, total = 9.5 * s, 0.0, 0.5 * min(1.0, s), 0.0
{walls}    while a < reach:
        b = min(a + width, reach)
        width = {"2.0 * width" if moving else "max(b, width)"}
{cut}        h, m = 0.5 * (b - a), 0.5 * (a + b)
        for x, w in zip({tuple(map(float, x))!r}, {tuple(map(float, w))!r}):
            z = m + h * x
            total += h * w * {value} * math.exp(-0.5 * (z / s) ** 2)
{grade}        if not b > a:
            break
        a = b
    return total / (s * math.sqrt(2.0 * math.pi))
"""


def without_overflow(b: sp.Expr) -> sp.Expr:
    """A break with log(e^u + c) as u + log(1 + c e^-u): where softplus passes a large mean, e^u is no double."""

    def apart(e: sp.log) -> sp.Expr:
        exponents = [a for a in sp.Add.make_args(e.args[0]) if isinstance(a, sp.exp)]
        if len(exponents) != 1:
            return e
        (u,) = exponents[0].args
        return u + sp.log(1 + (e.args[0] - exponents[0]) * sp.exp(-u))

    return b.replace(lambda e: isinstance(e, sp.log) and e.args[0].is_Add, apart)


def _switching(p, swap, name: str, arguments: str) -> str:
    """Source of a piecewise function whose breaks are computed when it is called."""
    text = f"def {name}({arguments}):\n"
    for e, b in zip(p.exprs, p.breaks):
        place = printing.code(without_overflow(b.xreplace(swap)))
        text += f"    if z < {place}:\n{printing.body(e.xreplace(swap), ' ' * 8)}"
    return text + printing.body(p.exprs[-1].xreplace(swap)) + "\n"


def settings(variables) -> list[tuple[float, tuple[float, ...]]]:
    """(variance, parameters) as they come together: `variables` at a sample of states and of the other symbols.

    Parameters of their own choice would measure what never occurs: a mean above the root of its second moment, or
    a switch point at a hundred standard deviations.
    """
    others = sorted(set().union(*(v.free_symbols for v in variables)) - {*STATE}, key=str)
    out = []
    for value in PARAMETERS if others else PARAMETERS[:1]:
        fixed = {s: sp.Rational(value * (1 + 0.37 * i)) for i, s in enumerate(others)}
        for k in map(sp.Rational, SAMPLES):
            state = dict.fromkeys(STATE, k) | {K_ab: k / 2}  # at c = 1/2 the distance is K
            at, *parameters = (float(sp.N(v.subs(fixed | state), 20)) for v in variables)
            out.append((at, tuple(parameters)))
    return out


def rational(e: sp.Expr) -> sp.Expr:
    """An expression with one rational of 30 digits for each part that does not depend on z: powers of the root of
    a long rational would take minutes to multiply out."""
    if not e.has(*Z):
        short = e.is_Rational and e.q < 10**6
        return e if short or not e.is_number else sp.Rational(str(sp.N(e, 30)))
    if isinstance(e, sp.Piecewise):
        return sp.Piecewise(*[(rational(a), where) for a, where in e.args], evaluate=False)
    if e.is_Add or e.is_Mul:
        free, rest = e.as_independent(*Z, as_Add=e.is_Add)
        parts = rest.args if rest.func == e.func else (rest,)
        return e.func(rational(free), *map(rational, parts))
    return e.func(*map(rational, e.args)) if e.args else e


def measured(node: Average, text: str, name: str, variables) -> float:
    """The largest deviation of `text` from the quadrature of `quadrature`, whose panels see steep places and branch
    points, over a sample of variances and of the parameters that come with them (`settings`); relative to the average
    of the modulus.

    Raises: MeanFieldError where it is not small.
    """
    f, worst = printing.interpret(text, name), ROUNDING
    for variance, parameters in settings([sp.sympify(v) for v in variables]):
        values = [sp.Rational(v) for v in parameters]
        body = rational(node.args[0].expr.xreplace(dict(zip(P, values)) | dict(zip(P_POSITIVE, values))))
        # a small variance may bring its own scale with it (z/√K behind a norm); the quadrature knows that of 1
        unit = min(1.0, math.sqrt(variance))
        body = body.xreplace({Z[0]: sp.Rational(unit) * Z[0]}) if unit < 1 else body
        first = min(0.3, resolving_width(body, quadrature.NODES, 1.0))
        at, rule = np.array([variance / unit**2]), quadrature.rule_for(body, first)
        true = float(quadrature.gaussian_average(body, at, rule)[0])
        scale = float(quadrature.gaussian_average(body, at, rule, modulus=True)[0])
        if math.isinf(true) or scale < 1e-290:
            continue
        try:
            miss = abs(f(variance, *parameters) - true) / scale
        except (OverflowError, ZeroDivisionError, ValueError):
            miss = math.inf
        worst = max(worst, math.inf if math.isnan(miss) else miss)  # ∞ - ∞, here or in the reference: no measure
    if not worst < 1e-6:
        raise MeanFieldError(
            f"{node} is too steep or oscillates too fast for quadrature at every layer (measured error {worst:.0e}); "
            "it is derived, but not compiled."
        )
    return worst


@writes("of one, with parameters")
def _with_parameters(functions: Functions, shape: sp.Expr, written: Sequence[sp.Expr]) -> None:
    name = functions.name(shape, "avg")
    if isinstance(shape, Average) and len(written) > 1:
        _direct(functions, name, shape, written)
    else:
        _combined(functions, name, shape)


def untabled(functions: Functions, plain: Average, variables: Sequence[sp.Expr]) -> str:
    """An average by quadrature at every call, beside the same one's own function, which may be a table."""
    own = functions.names.get(sp.Tuple(plain))
    if own is None:
        own = functions.name(sp.Tuple(plain), "avg")
        _direct(functions, own, plain, [sp.sympify(v) for v in variables])
    return own


def _combined(functions: Functions, name: str, shape: sp.Expr) -> None:
    """An expression in K with averages whose parameters are functions of K."""
    form = closed(shape)
    swap = {}
    for node in sorted(form.atoms(Average), key=str):
        plain, variables = node.over_symbols()
        own = untabled(functions, plain, variables)
        swap[node] = sp.Symbol(f"{own}({', '.join(printing.code(sp.sympify(v)) for v in variables)})")
    text = f"def {name}(K, T=0):\n    return {printing.code(form.xreplace(swap))}\n"
    functions.add(name, text, f"{name}(K) = {shape}", functions.worst, 0.0)


def _direct(functions: Functions, name: str, shape: Average, written: Sequence[sp.Expr]) -> None:
    source = direct(shape, name)
    error = measured(shape, source, name, written)
    functions.add(name, source, f"{name}(K, …) = {shape}: panel quadrature at every call", error, DIRECT_WEIGHT)
