"""How distances become functions of a module: `DistanceRatio` of one norm, `UnequalDistanceRatio`, `DirectionRatio` and
`DividedDifference` of two.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, K_aa, K_bb, Z, distance
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering.averages import panel_arrays
from meanfield.numeric.lowering.averages.direct import untabled
from meanfield.numeric.lowering.distances import (
    difference_quotients,
    equal_norm_distance,
    parametric,
    parametric_check,
    unequal_norm_check,
    unequal_norm_distance,
)
from meanfield.numeric.lowering.modules.module_functions import (
    DIRECT_WEIGHT,
    PAIR_WEIGHT,
    Functions,
    lowers,
    require_usable,
)
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.lowering.text.printing import code
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio
from meanfield.symbolic.averages.nodes.unequal_norms import DirectionRatio, DividedDifference, UnequalDistanceRatio

STEMS = {UnequalDistanceRatio: "unequal", DirectionRatio: "direction", DividedDifference: "difference"}


@lowers(UnequalDistanceRatio, DividedDifference)
def _two_norms(
    functions: Functions, shape: UnequalDistanceRatio | DividedDifference, written: Sequence[sp.Expr]
) -> None:
    used, moved = [functions.of(part) for part in unequal_norm_distance.parts(shape)], ""
    note, dearest = unequal_norm_distance.NOTES[type(shape)], max((functions.costs[u] for u in used), default=0.0)
    if not isinstance(shape, DividedDifference) and difference_quotients.serves(shape):
        moved, note, dearest = _moved(functions, shape), difference_quotients.NOTE, PAIR_WEIGHT
    name = functions.name(shape, STEMS[type(shape)])
    tables = [t for u in used for t in functions.table(u)]
    text = unequal_norm_distance.text(shape, name, used, moved)
    function = panel_arrays.function(functions.text + text, name, functions.plans)
    whole = printing.interpret(functions.text + text, name) if moved else None
    error = unequal_norm_check.error(shape, function, list(map(functions.array, tables)), functions.limit, whole)
    require_usable(shape, error)
    pairs = max(PAIR_WEIGHT, dearest) if dearest else DIRECT_WEIGHT
    cost = 0.0 if isinstance(shape, DividedDifference) else pairs
    functions.add(name, text, f"{name} = {shape}: {note}", error, cost, tables=tables)


@lowers(DistanceRatio)
def _one_norm(functions: Functions, shape: DistanceRatio, written: Sequence[sp.Expr]) -> None:
    if shape.params:
        _with_parameters(functions, shape, written)
        return
    tables, moved = list[str](), ""
    if difference_quotients.serves(shape):
        moved, name = _moved(functions, shape), functions.name(shape, "ratio")
        text, note, cost = difference_quotients.of_distance_ratio(name, moved), difference_quotients.NOTE, PAIR_WEIGHT
    else:
        second, product, slope = inner(functions, shape)
        name = functions.name(shape, "ratio")
        text, tables = equal_norm_distance.text(shape, name, second, product, slope), functions.table(second)
        note = f"the mean of {slope} for inputs close together, else of {product}"
        dearest = max(functions.costs[u] for u in (second, product, slope))
        cost = max(PAIR_WEIGHT, dearest) if dearest else 0.0
    function = panel_arrays.function(functions.text + text, name, functions.plans)
    whole = printing.interpret(functions.text + text, name) if moved else None
    error = equal_norm_distance.error(shape, function, list(map(functions.array, tables)), functions.limit, whole)
    require_usable(shape, error)
    functions.add(name, text, f"{name}(K, distance) = {shape}: {note}", error, cost, tables=tables)


def _moved(functions: Functions, shape: DistanceRatio) -> str:
    """The function of difference quotients, which nodes of one f share."""
    f = shape.function
    key = sp.Tuple(sp.Symbol("differences"), f)
    if key not in functions.names:
        name = functions.name(key, "differences")
        plan = functions.plans[name] = difference_quotients.plan_of(f, pieces(f, Z[0]).diff().expr)
        functions.add(name, difference_quotients.text(plan, name), f"{name}: of {f}", 0.0, 0.0, plan.limit)
    return functions.names[key]


def inner(functions: Functions, shape: DistanceRatio) -> list[str]:
    """The functions of ⟨f²⟩, ⟨f f⟩ and its slope, which are shared with the nodes of the recursion."""
    second, product, _ = equal_norm_distance.parts(shape)
    return [functions.of(second), functions.of(product), slope_of(functions, shape)]


def slope_of(functions: Functions, shape: DistanceRatio) -> str:
    """The function of the slope of ⟨f f⟩."""
    if difference_quotients.serves(shape):
        return f"{_moved(functions, shape)}_slope"
    slope = equal_norm_distance.parts(shape)[2]
    return _slope(functions, slope) if slope.has(distance) else functions.of(slope)


def _slope(functions: Functions, e: sp.Expr) -> str:
    """The function of a slope where φ jumps, by (K_aa, K_ab, K_bb, 1 - c²) of one norm: a sum over (K, distance) of
    averages over two inputs, over one where the other stands at a jump, and of densities."""
    if e not in functions.names:
        swap = {}
        for node in sorted(e.atoms(Average), key=str):
            plain, variables = node.over_symbols()
            own = untabled(functions, plain, variables) if node.dimension == 1 else functions.of(plain, variables)
            arguments = [code(sp.sympify(v)) for v in variables]
            if node.dimension == 2:
                arguments.insert(3, "sine2")
            swap[node] = sp.Symbol(f"{own}({', '.join(arguments)})", real=True)
        name = functions.name(e, "pair")
        text = f"""def {name}(K_aa, K_ab, K_bb, sine2):
    K, gap = K_aa, _closeness(K_aa, K_ab, K_bb, sine2)
    distance = 2.0 * K * (gap if K_ab > 0.0 else 2.0 - gap)
    return {code(e.xreplace(swap))}
"""
        how = "panel quadrature" if swap else "closed form everywhere"
        cost = PAIR_WEIGHT if swap else 0.0
        functions.add(name, text, f"{name}(K, distance) = {e}: {how}", functions.worst, cost, sine2=True)
    return functions.names[e]


def _with_parameters(functions: Functions, shape: DistanceRatio, written: Sequence[sp.Expr]) -> None:
    """The distance ratio of a function that changes from layer to layer."""
    if pieces(shape.function, Z[0]).jumps():
        raise MeanFieldError(
            f"The distance of two inputs through {shape.function} was asked for, which jumps at a place or by a "
            "height that changes from layer to layer; it is derived, but not compiled: ask for K_aa, K_bb and K_ab."
        )
    back = dict.fromkeys((K, K_aa, K_bb), written[0]) | dict(zip(shape.params, written[2:]))
    parts = equal_norm_distance.parts(shape)
    calls = [_wrapped(functions, part, back) for part in parts]
    name = functions.name(shape, "ratio")
    used, text = (f"{name}_second", f"{name}_product", f"{name}_slope"), ""
    for own, call, signature in zip(used, calls, ("K", parametric.SIGNATURE, parametric.SIGNATURE)):
        more = "".join(f", {p}" for p in parametric.names(len(shape.params)))
        text += f"def {own}({signature}{more}):\n    return {call}\n\n\n"
    text += parametric.distance_ratio(name, used, shape, written)
    function = printing.interpret(functions.text + text, name)
    error = parametric_check.distance_ratio_error(parts[1:], function, written, functions.limit)
    require_usable(shape, error)
    note = f"{name}(K, distance, …) = {shape}: the mean of slopes for inputs close together, else of products"
    functions.add(name, text, note, error, PAIR_WEIGHT)


def _wrapped(functions: Functions, e: sp.Expr, back: dict[sp.Symbol, sp.Expr]) -> str:
    """Source of an expression in averages whose parameters are functions of p0, p1, …; back: what these, and the
    variances, are as formulas of the state."""
    swap = {}
    for node in sorted(e.atoms(Average), key=str):
        plain, variables = node.over_symbols()
        own = functions.of(plain, [sp.sympify(v).xreplace(back) for v in variables])
        arguments = [code(parametric.named(sp.sympify(v))) for v in variables]
        if functions.takes_sine2(own):
            arguments.insert(3, "sine2")
        elif functions.table(own):
            raise MeanFieldError(f"{e} holds an average without parameters beside others; it is not compiled.")
        swap[node] = sp.Symbol(f"{own}({', '.join(arguments)})", real=True)
    return code(parametric.named(e.xreplace(swap)))
