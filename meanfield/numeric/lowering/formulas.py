"""How averages over one or two Gaussians, and formulas in such averages, become functions of a module."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K_aa, K_ab, K_bb
from meanfield.numeric.lowering.averages.one_gaussian import scalar
from meanfield.numeric.lowering.modules.module_functions import FORMS, Functions, lowers
from meanfield.symbolic.averages.base import Node
from meanfield.symbolic.averages.node import Average

FORMS.rare(
    {
        "of one, with parameters": "numeric.lowering.averages.direct",
        "of two": "numeric.lowering.averages.two_gaussians",
        "of two, with parameters": "numeric.lowering.distances.parametric",
    }
)


@lowers(sp.Expr, Average)
def _formula(functions: Functions, shape: sp.Expr, written: Sequence[sp.Expr]) -> None:
    """An average over one or two Gaussians, or a formula in such averages."""
    if _inputs(shape) > 1:
        moved = isinstance(shape, Average) and len(written) > 3
        FORMS["of two, with parameters" if moved else "of two"](functions, shape, written)
    elif any(n.args[3] for n in shape.atoms(Average)):
        FORMS["of one, with parameters"](functions, shape, written)
    else:
        name = functions.name(shape, "avg")
        s = scalar(shape, name, functions.span)
        table = s.table.coefficients if s.table else np.zeros((1, 10))
        functions.add(name, s.text, f"{name}(K) = {shape}: {s.note}", s.error, 0.0, s.limit, table)
        if s.table is not None and s.only_table:
            functions.held[name] = s.table


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
    return max([n.dimension for n in shape.atoms(Average)], default=2)
