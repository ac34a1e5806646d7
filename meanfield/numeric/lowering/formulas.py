"""How averages over one or two Gaussians, and formulas in such averages, become functions of a module."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K_aa, K_ab, K_bb
from meanfield.numeric.lowering.averages import parametric
from meanfield.numeric.lowering.averages.direct import direct, measured
from meanfield.numeric.lowering.averages.one_gaussian import scalar
from meanfield.numeric.lowering.averages.two_gaussians import pair
from meanfield.numeric.lowering.modules.module_functions import DIRECT_WEIGHT, PAIR_WEIGHT, Functions, lowers
from meanfield.numeric.lowering.text.printing import code
from meanfield.symbolic.averages.base import Node
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.equality import closed


@lowers(sp.Expr, Average)
def _formula(functions: Functions, shape: sp.Expr, written: Sequence[sp.Expr]) -> None:
    """An average over one or two Gaussians, or a formula in such averages."""
    if _inputs(shape) == 1:
        _of_one(functions, shape, written)
        return
    name = functions.name(shape, "pair")
    if isinstance(shape, Average) and len(written) > 3:
        source, error, limit, how = parametric.pair(shape, name, written)
        note = f"{name}(K_aa, K_ab, K_bb, …) = {shape}: {how}"
        functions.add(name, source, note, error, PAIR_WEIGHT, limit, sine2=True)
        return
    p = pair(shape, name)
    note = f"{name}(K_aa, K_ab, K_bb) = {shape}: {p.note}"
    functions.add(name, p.text, note, p.error, 0.0 if p.closed else PAIR_WEIGHT, p.limit, sine2=True)
    if p.plan is not None:
        functions.plans[name] = p.plan


@lowers(Node)
def _refused(functions: Functions, shape: Node, written: Sequence[sp.Expr]) -> None:
    raise MeanFieldError(
        f"{shape} is derived, but not compiled; register a function for {type(shape).__name__} with lowers "
        "(meanfield.numeric.lowering.modules.module_functions)."
    )


def _inputs(shape: sp.Expr) -> int:
    """How many Gaussians the averages of an expression are over; of a number, or a function of K, one."""
    if not shape.atoms(Average) and not shape.has(K_aa, K_ab, K_bb):
        return 1
    return max([n.n for n in shape.atoms(Average)], default=2)


def _of_one(functions: Functions, shape: sp.Expr, written: Sequence[sp.Expr]) -> None:
    name = functions.name(shape, "avg")
    if isinstance(shape, Average) and len(written) > 1:
        _direct(functions, name, shape, written)
    elif any(n.args[3] for n in shape.atoms(Average)):
        _combined(functions, name, shape)
    else:
        s = scalar(shape, name)
        table = s.table.coefficients if s.table else np.zeros((1, 10))
        functions.add(name, s.text, f"{name}(K) = {shape}: {s.note}", s.error, 0.0, s.limit, table)
        if s.table is not None and s.only_table:
            functions.held[name] = s.table


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
        swap[node] = sp.Symbol(f"{own}({', '.join(code(sp.sympify(v)) for v in variables)})")
    text = f"def {name}(K, T=0):\n    return {code(form.xreplace(swap))}\n"
    functions.add(name, text, f"{name}(K) = {shape}", functions.worst, 0.0)


def _direct(functions: Functions, name: str, shape: Average, written: Sequence[sp.Expr]) -> None:
    source = direct(shape, name)
    error = measured(shape, source, name, written)
    functions.add(name, source, f"{name}(K, …) = {shape}: panel quadrature at every call", error, DIRECT_WEIGHT)
