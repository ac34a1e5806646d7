"""The averages of a recursion as functions of one module, with their tables, measured errors and costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy as sp

from meanfield.base.symbols import K_ab, distance
from meanfield.numeric.lowering import formulas  # noqa: F401  registers how averages over Gaussians are compiled
from meanfield.numeric.lowering.modules.module_functions import EVERY_K, LOWERED, Functions
from meanfield.numeric.lowering.text import depth_loops
from meanfield.numeric.lowering.text.printing import code
from meanfield.numeric.quadrature.polynomial_tables import PolynomialTable
from meanfield.symbolic.averages.base import Node
from meanfield.symbolic.recursion import Recursion

MARGIN = 3.0  # between the places where an error is measured it may be larger: up to 2.3 times was seen
ROUNDING = 2e-15  # no average is claimed to be better: libm and NumPy round differently from one CPU to the next
LOWERED.rare(
    {
        "symbolic.averages.nodes.equal_norms.DistanceRatio": "numeric.lowering.distances.distance_functions",
        "symbolic.averages.nodes.unequal_norms.UnequalDistanceRatio": "numeric.lowering.distances.distance_functions",
        "symbolic.averages.nodes.unequal_norms.DividedDifference": "numeric.lowering.distances.distance_functions",
        "symbolic.averages.nodes.group_functions.GroupAverage": "numeric.lowering.many_positions.lattice_averages",
        "symbolic.averages.nodes.maxima.MaximumAverage": "numeric.lowering.many_positions.maximum_averages",
        "symbolic.averages.nodes.overlap.Overlap": "numeric.lowering.many_positions.softmax_rows",
        "symbolic.averages.nodes.shared_averages.Common": "numeric.lowering.many_positions.nested_quadrature",
        "symbolic.averages.nodes.spheres.SphereAverage": "numeric.lowering.many_positions.nested_quadrature",
    }
)


@dataclass(frozen=True)
class LoweredAverages:
    """What the averages of a recursion became: node → source of its evaluation, source of the functions called, a line
    on each, their tables and errors; the functions that are a table and nothing else, with its first octave."""

    calls: dict[Node, str]
    text: str
    notes: list[str]
    arrays: dict[str, np.ndarray]
    held: dict[str, PolynomialTable]


def averages(recursion: Recursion, span: tuple[float, float] = EVERY_K) -> LoweredAverages:
    """Functions and tables for every average of a recursion, at K of the span."""
    calls: dict[Node, str] = {}
    symbols, ordered = depth_loops.identifiers(recursion), depth_loops.placeholders(recursion)
    functions = Functions(span)
    for node in ordered:
        shape, variables = node.over_symbols()
        written = [sp.sympify(v).xreplace(_written_out(recursion, node)) for v in variables]
        if (value := node.settled()) is not None:  # as behind a norm: no table is made for it
            calls[node] = repr(value)
            continue
        name = functions.of(shape, written)
        if shape in functions.numbers:
            calls[node] = name
            continue
        arguments = [code(sp.sympify(v).xreplace(ordered).xreplace(symbols)) for v in variables]
        if functions.takes_sine2(name):
            arguments.insert(3, _sine2(node, arguments[:3], ordered, symbols))
        calls[node] = f"{name}({', '.join([*arguments, *functions.table(name)])})"
    arrays = functions.arrays | {"errors": np.maximum(MARGIN * np.array(functions.errors), ROUNDING)}
    arrays |= {"weight": np.array(functions.weight), "limit": np.array(functions.limit)}
    return LoweredAverages(calls, functions.text, functions.notes, arrays, functions.held)


def _written_out(recursion: Recursion, node: Node) -> dict[sp.Symbol, sp.Expr]:
    """What the intermediates are in the step that holds the node."""
    here = (step for step in recursion.steps if any(e.has(node) for e in step.expressions))
    return next(here, recursion.block).whole()


def _sine2(node: Node, arguments: list[str], ordered: dict, symbols: dict) -> str:
    """Source of 1 - c²: by way of the distance, where the covariance is given by it, of two norms by its share that is
    one of directions: then no term of 1 - c is left that is not a part of the distance."""
    a, ab, b = node.cov
    size = a if a == b else sp.sqrt(a) * sp.sqrt(b)
    near = sp.expand(2 * (size - ab))
    parted = a == b or all(t.has(distance) for t in sp.Add.make_args(near))
    if near.has(K_ab) or not near.has(distance) or not parted:
        return f"_sine2({', '.join(arguments)})"
    gap = code((near / (2 * size)).xreplace(ordered).xreplace(symbols))
    return f"_of_gap({gap})"
