"""Float64 averages over two correlated Gaussians ⟨f(z_a) g(z_b)⟩: the checked closed form, or quadrature.

Beside the covariances stands sine2 = 1 - c², which the rounding of K_ab loses near full correlation: closed forms take
their determinant K_aa K_bb sine2 from it, quadrature its geometry (`planes`; `conditional` where f or g has branch
points). `pair_check` measures the error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, K_aa, K_ab, K_bb, Z
from meanfield.functions import balls
from meanfield.functions.isolation import Root
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering.averages import conditional, panel_arrays, planes
from meanfield.numeric.lowering.averages.direct import rational
from meanfield.numeric.lowering.averages.one_gaussian import scalar
from meanfield.numeric.lowering.averages.pair_check import measured, miss
from meanfield.numeric.lowering.modules.module_functions import BRANCH_WEIGHT, PAIR_WEIGHT, Functions, writes
from meanfield.numeric.lowering.text import printing
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.recursion import closed

GRID = (1e-8, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e8)
CORRELATIONS = (-1 + 1e-6, -0.9, 0.0, 0.3, 0.9, 1 - 1e-6)
TOLERANCE = 2e-13  # of √(⟨f²⟩⟨g²⟩), the scale of a two-input average
GOOD = 2e-14  # an error at which no finer panels are tried
MEASURED = (  # (K_aa, K_bb, c) at which the quadrature is compared with a finer one
    (1.0, 1.0, 0.6),
    (0.5, 3.0, -0.99),
    (1e-4, 1e4, 0.9),
    (1e-4, 1.0, 0.0),
    (1e-4, 1e-4, 0.0),
    (2e3, 5.0, -0.3),
    (1e4, 1e4, 1 - 1e-6),
    (1e-2, 0.3, -1 + 2.0**-30),
)
SIGNATURE = "K_aa, K_ab, K_bb, sine2"
FAR = 1e150  # a variance: products of two such are doubles


@dataclass(frozen=True)
class LoweredPair:
    """A lowered ⟨f g⟩: generated source of `name(K_aa, K_ab, K_bb, sine2)` and how it is computed."""

    name: str
    text: str
    note: str
    error: float = TOLERANCE
    closed: bool = False  # a closed form everywhere: no quadrature is ever called
    limit: float = math.inf  # the value is NaN where K_aa or K_bb is beyond: too many periods to follow
    plan: planes.PanelPlan | None = None  # of a quadrature whose lines NumPy can sum


@writes("of two")
def _lowered(functions: Functions, shape: sp.Expr, written: Sequence[sp.Expr]) -> None:
    name = functions.name(shape, "pair")
    p = pair(shape, name)
    note = f"{name}(K_aa, K_ab, K_bb) = {shape}: {p.note}"
    cost = 0.0 if p.closed else BRANCH_WEIGHT if p.plan is not None and any(p.plan.branches) else PAIR_WEIGHT
    functions.add(name, p.text, note, p.error, cost, p.limit, sine2=True)
    if p.plan is not None:
        functions.plans[name] = p.plan


@lru_cache(maxsize=128)
def pair(expr: sp.Expr, name: str = "g") -> LoweredPair:
    """Lower `expr`, a function of K_aa, K_ab, K_bb with one or more two-input averages.

    Raises: MeanFieldError where an average does not separate into a function of z_a times a function of z_b.
    """
    form = closed(expr)
    direct = closed_text(form, f"{name}_closed") if not form.has(Average) else ""
    box = _closed_box(form, expr) if direct else None
    if box == (0.0, math.inf):
        whole = f"{direct}def {name}({SIGNATURE}):\n    return {name}_closed({SIGNATURE})\n"
        return LoweredPair(name, whole, "closed form everywhere", closed=True)
    if direct and not any(n.dimension == 2 for n in expr.atoms(Average)):  # no average: the density of a jump's slope
        whole = f"{direct}def {name}({SIGNATURE}):\n    return {name}_closed({SIGNATURE})\n"
        return LoweredPair(name, whole, "closed form everywhere", closed=True)
    node = _only_node(expr)
    plan = planes.plan(node)
    quad, error = _quadrature(plan, name)
    text = direct + quad + f"def {name}({SIGNATURE}):\n"
    note = "panel quadrature"
    if box is not None:
        text += f"    if min(K_aa, K_bb) >= {box[0]!r} and max(K_aa, K_bb) <= {_float(box[1])}:\n"
        text += f"        return {name}_closed({SIGNATURE})\n"
        note = f"closed form for K in [{box[0]:.0e}, {box[1]:.0e}], elsewhere panel quadrature"
        error = max(error, TOLERANCE)
    if plan.limit < math.inf:
        text += f"    if max(K_aa, K_bb) > {plan.limit!r}:\n        return math.nan\n"
        note += f" for K up to {plan.limit:.3g}"
    if not error < 1e-6:
        raise MeanFieldError(
            f"{expr} is too steep or oscillates too fast for the float64 quadrature (measured error {error:.0e}); "
            "use certified digits (evalf, ball) or rescale the activation."
        )
    call = printing.code(expr.xreplace({node: sp.Symbol("q")}))
    text += f"    q = {name}_quadrature({SIGNATURE})\n    return {call}\n"
    return LoweredPair(name, text, note, error, limit=plan.limit, plan=plan)


def _quadrature(plan: planes.PanelPlan, name: str) -> tuple[str, float]:
    """(source of `name_quadrature`, its measured error): panels as wide as they may be."""
    if any(plan.branches):
        return conditional.text(plan, name), measured(plan, MEASURED)
    tried = []
    for widen in (1.5, 0.75, 0.375):
        text = planes.text(plan, name, widen)
        whole = printing.interpret(text, f"{name}_quadrature")
        lines = panel_arrays.function(text, f"{name}_quadrature", {name: plan})
        tried.append((text, max(miss(plan, MEASURED[:1], whole), miss(plan, MEASURED[1:], lines))))
        if tried[-1][1] <= GOOD:
            break
    return min(tried, key=lambda t: t[1])


def closed_text(form: sp.Expr, name: str, far: bool = True) -> str:
    """Source of a closed form, its determinant by way of 1 - c²; far: also for variances beyond `FAR`, at the price of
    further roots and divisions."""
    form, det = printing.as_angles(form), sp.Symbol("det", nonnegative=True)
    if far:
        form = printing.balanced(printing.by_root(form))
    else:
        form = printing.with_root(form).replace(lambda e: e == printing.ROOT**2, lambda e: det)
    lead = "".join(
        f"    {symbol} = {value}\n"
        for symbol, value in (
            (printing.ROOT, "math.sqrt(K_aa) * math.sqrt(K_bb) * math.sqrt(sine2)"),  # where K_aa K_bb overflows, too
            (det, "K_aa * K_bb * sine2"),
        )
        if form.has(symbol)
    )
    return f"def {name}({SIGNATURE}):\n{lead}{printing.body(form)}\n\n"


def needs_care(form: sp.Expr) -> bool:
    """Whether a closed form has products that leave the doubles beyond `FAR`."""
    return closed_text(form, "f") != closed_text(form, "f", far=False)


def _float(x: float) -> str:
    return repr(x) if math.isfinite(x) else "math.inf"


def _only_node(expr: sp.Expr) -> Average:
    nodes = [n for n in expr.atoms(Average) if n.dimension == 2]
    if len(nodes) != 1 or nodes[0].cov != (K_aa, K_ab, K_bb) or expr.atoms(Average) != {nodes[0]}:
        raise MeanFieldError(
            f"{expr} is not one two-input average over (K_aa, K_ab, K_bb) times a constant; it cannot be lowered yet."
        )
    return nodes[0]


@lru_cache(maxsize=256)  # single pairs and blocks of them ask for the same one
def _closed_box(form, expr) -> tuple[float, float] | None:
    """[lo, hi] such that the closed form keeps its digits for all K_aa, K_bb inside, decided against certified values
    on a grid."""
    if not {K_aa, K_bb} <= form.free_symbols | {K_ab} and not form.has(K_ab):
        return 0.0, math.inf
    scope = printing.interpret(closed_text(form, "f"), "f")
    nodes = [n for n in expr.atoms(Average) if n.dimension == 2]
    scales = _scales(nodes[0]) if len(nodes) == 1 else dict.fromkeys(GRID, None)
    exact = form.xreplace({a: rational(a) for a in form.atoms(Average, Root) if a.is_number})  # evaluated once
    good: dict[tuple[int, int], bool] = {}
    for i, a in enumerate(GRID):
        for j, b in enumerate(GRID[: i + 1]):
            good[i, j] = all(_close(exact, scope, a, b, c * math.sqrt(a * b), scales) for c in CORRELATIONS)
    best = None
    for lo in range(len(GRID)):
        for hi in range(lo, len(GRID)):
            if all(good[i, j] for i in range(lo, hi + 1) for j in range(lo, i + 1)) and (
                best is None or hi - lo > best[1] - best[0]
            ):
                best = (lo, hi)
    if best is None or best[0] == best[1]:
        return None
    return (0.0 if best[0] == 0 else GRID[best[0]]), (math.inf if best[1] == len(GRID) - 1 else GRID[best[1]])


def _scales(node):
    f, g = planes.separate(node)
    second = [average(pieces(h, Z[0]).map(lambda e: e**2).expr, K) for h in (f, g)]
    values = [scalar(s) if s.has(K) else (lambda _, s=s: float(s)) for s in second]
    return {k: (values[0](k), values[1](k)) for k in GRID}


def _close(form, f, a, b, ab, scales) -> bool:
    exact = balls.certified_at(form, {K_aa: sp.Rational(a), K_bb: sp.Rational(b), K_ab: sp.Rational(ab)}, 16)
    scale = math.sqrt(scales[a][0] * scales[b][1]) if scales[a] else abs(float(exact.mid()))
    try:
        value = f(a, ab, b, sine2_of(a, ab, b))
    except (OverflowError, ZeroDivisionError, ValueError):
        return False
    return math.isfinite(value) and abs(float(exact - value)) <= TOLERANCE * scale + 1e-290


def sine2_of(a: float, ab: float, b: float) -> float:
    """1 - c² of three covariances, as compiled loops take it."""
    return printing.interpret("def sine2(a, ab, b):\n    return _sine2(a, ab, b)\n", "sine2")(a, ab, b)
