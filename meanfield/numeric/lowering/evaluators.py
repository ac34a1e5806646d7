"""The averages of a recursion as functions of one module, with their tables, measured errors and costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K_ab, distance

# each registers how its nodes are compiled
from meanfield.numeric.lowering import distances, formulas  # noqa: F401
from meanfield.numeric.lowering.many_positions import (  # noqa: F401
    lattice_averages,
    maximum_averages,
    nested_quadrature,
    softmax_rows,
)
from meanfield.numeric.lowering.modules.module_functions import Functions
from meanfield.numeric.lowering.text import depth_loops
from meanfield.numeric.lowering.text.printing import code
from meanfield.numeric.quadrature.gaussian_averages import Table
from meanfield.numeric.quadrature.sphere import sphere_value
from meanfield.symbolic.averages.base import Node
from meanfield.symbolic.averages.nodes.spheres import SphereAverage
from meanfield.symbolic.recursion import Recursion

MARGIN = 3.0  # between the places where an error is measured it may be larger: up to 2.3 times was seen
ROUNDING = 2e-15  # no average is claimed to be better: libm and NumPy round differently from one CPU to the next


@dataclass(frozen=True)
class Averages:
    """What the averages of a recursion became: node → source of its evaluation, source of the functions called, a line
    on each, their tables and errors; the functions that are a table and nothing else, with its first octave."""

    calls: dict[Node, str]
    text: str
    notes: list[str]
    arrays: dict[str, np.ndarray]
    held: dict[str, Table]


def averages(recursion: Recursion) -> Averages:
    """Functions and tables for every average of a recursion."""
    calls: dict[Node, str] = {}
    symbols, ordered, functions = depth_loops.identifiers(recursion), depth_loops.placeholders(recursion), Functions()
    for node in ordered:
        if isinstance(node, SphereAverage):
            calls[node] = _constant(functions, node)
            continue
        shape, variables = node.over_symbols()
        written = [sp.sympify(v).xreplace(_written_out(recursion, node)) for v in variables]
        name = functions.of(shape, written)
        arguments = [code(sp.sympify(v).xreplace(ordered).xreplace(symbols)) for v in variables]
        if functions.takes_sine2(name):
            arguments.insert(3, _sine2(node, arguments[:3], ordered, symbols))
        calls[node] = f"{name}({', '.join([*arguments, *functions.table(name)])})"
    arrays = functions.arrays | {"errors": np.maximum(MARGIN * np.array(functions.errors), ROUNDING)}
    arrays |= {"weight": np.array(functions.weight), "limit": np.array(functions.limit)}
    return Averages(calls, functions.text, functions.notes, arrays, functions.held)


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


def _constant(functions: Functions, node: SphereAverage) -> str:
    """Source of an average over a normalized batch, which no state moves."""
    if node.free_symbols:
        raise MeanFieldError(
            f"{node} holds {', '.join(sorted(map(str, node.free_symbols)))}; give numbers for them, which the "
            "averages of a batch need before they are compiled."
        )
    value, error = sphere_value(node)
    functions.errors.append(error)
    return repr(value)
