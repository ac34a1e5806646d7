"""The functions of a generated module: one for each shape of an average, made by what its node's type has registered.

A shape is a node over plain symbols (`Node.over_symbols`), or a formula in such nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.leading import Registry
from meanfield.numeric.quadrature.polynomial_tables import PolynomialTable

DIRECT_WEIGHT = 300.0  # what a call of an average by quadrature costs, in layers of tables
PAIR_WEIGHT = 2e4  # the same of averages over several inputs
BRANCH_WEIGHT = 5e5  # of averages over two inputs of functions with branch points
EVERY_K = (0.0, math.inf)  # the K that tables are wanted for
USABLE = 1e-6  # the largest measured error with which an average is compiled

Made = Callable[["Functions", Any, Sequence[sp.Expr]], None]
LOWERED: Registry[type, Made] = Registry()
#: how averages over Gaussians are compiled that are more than a function of one variance
FORMS: Registry[str, Made] = Registry()
M = TypeVar("M", bound=Made)


def lowers(*types: type) -> Callable[[M], M]:
    """Decorator: how a node is compiled, from (functions, its shape, its variables as formulas of the state).

    What is decorated names the function (`Functions.name`), and adds its source with `Functions.add`: the error that it
    was measured to have, what a call costs, and its tables.
    """
    return LOWERED.adds(*types)


def writes(form: str) -> Callable[[M], M]:
    """Decorator: how averages of a form are compiled, as for `lowers`."""
    return FORMS.adds(form)


class Functions:
    """The functions of a module, one for each shape of an average, and their tables T[i]. span: the K at which those
    of one variance are wanted."""

    def __init__(self, span: tuple[float, float] = EVERY_K) -> None:
        self.span = span
        self.names: dict[sp.Basic, str] = {}
        self.text, self.weight, self.limit = "", 1.0, float("inf")
        self.notes: list[str] = []
        self.errors: list[float] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.held: dict[str, PolynomialTable] = {}  # functions that are a table and nothing else
        self.costs: dict[str, float] = {}
        self.numbers: dict[sp.Basic, str] = {}  # shapes that are no function
        self.plans: dict[str, Any] = {}  # of panel quadratures, which NumPy can follow where an error is measured
        self._tabled: dict[str, list[str]] = {}
        self._of_sine2: set[str] = set()

    def of(self, shape: sp.Expr, written: Sequence[sp.Expr] = ()) -> str:
        """The name of the function for `shape`, or its number; written: its variables as formulas of the state."""
        if shape not in self.names and shape not in self.numbers:
            made = LOWERED.nearest(type(shape))
            assert made is not None  # `formulas` has one of every expression
            made(self, shape, written)
        return self.numbers[shape] if shape in self.numbers else self.names[shape]

    def name(self, shape: sp.Basic, kind: str) -> str:
        """A new name for the function of `shape`, which has none yet: its number is that of no other."""
        if shape in self.names:
            raise ValueError(f"{shape} is {self.names[shape]} already")
        self.names[shape] = f"{kind}_{len(self.names)}"
        return self.names[shape]

    def number(self, shape: sp.Basic, value: float, error: float) -> None:
        """An average that no state moves: its value stands in the place of a function's name."""
        self.numbers[shape] = repr(value)
        self.errors.append(error)

    def add(
        self,
        name: str,
        text: str,
        note: str,
        error: float,
        cost: float,
        limit: float = float("inf"),
        table: np.ndarray | None = None,
        tables: Sequence[str] | None = None,
        sine2: bool = False,
    ) -> None:
        """The source of a function.

        note: a line for who reads the module; error: what it was measured to miss, relative; cost: of a call (0: of a
        table or a formula); limit: the largest K at which it is known; table: its own; tables: arguments T[i] that
        callers hand over (its own where it has one); sine2: whether it takes 1 - c² behind the three covariances.
        """
        index = name.split("_")[1]
        self.arrays[f"T{index}"] = np.zeros((1, 10)) if table is None else table
        self.text += text + "\n\n"
        self.notes.append(note)
        self.errors.append(error)
        self.costs[name] = cost
        self.weight += cost
        self.limit = min(self.limit, limit)
        held = [f"T[{index}]"] if tables is None and table is not None else tables
        if held is not None:
            self._tabled[name] = list(held)
        if sine2:
            self._of_sine2.add(name)

    def table(self, name: str) -> list[str]:
        """The arguments by which a function gets its tables, if it has some."""
        return self._tabled.get(name, [])

    def array(self, argument: str) -> np.ndarray:
        """The table that an argument T[i] hands over."""
        return self.arrays[argument[:-1].replace("[", "")]

    def takes_sine2(self, name: str) -> bool:
        """Whether a function is one of two covariances and of 1 - c², which is handed over with its digits."""
        return name in self._of_sine2

    @property
    def worst(self) -> float:
        """The largest error so far: that of a formula in functions that are known."""
        return max(self.errors, default=0.0)


def require_usable(shape: sp.Expr, error: float) -> None:
    """Refuse an average whose compiled form misses by more than `USABLE`."""
    if not error < USABLE:
        raise MeanFieldError(
            f"{shape} is too steep or oscillates too fast for float64 (measured error {error:.0e}); it is derived, "
            "but not compiled."
        )

