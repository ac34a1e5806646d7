"""What every average in a formula is: a node of SymPy's, whose arguments say all that it depends on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import sympy as sp
from sympy.printing.printer import Printer

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown

Write = Callable[[sp.Expr], str]  # an expression as LaTeX
Typeset = tuple[sp.Expr, Callable[[str, Write], str]]  # what is averaged, and from its LaTeX and a writer the node's


class Paired(NamedTuple):
    """An average over two inputs of functions of one variable each, as kernels read it.

    kind: "product" of ⟨f g⟩; "distance_ratio", "unequal_distance_ratio" and "direction_ratio" of the distance of f's
    over that of the inputs; "divided_difference" of ⟨f⟩. function: f, None of a product; variances: of each input;
    between: (A, covariance or distance, B), and the norm angle where it is read; empty of a divided difference.
    """

    kind: str
    function: sp.Expr | None
    variances: tuple[sp.Expr, sp.Expr]
    between: tuple[sp.Expr, ...]


class Node(sp.Expr):
    """An average: a real function of the symbols in its arguments.

    A node of one's own derives from it and has `__new__`, `_sympystr`, `tex_inside`, digits (`_eval_evalf`) and a
    derivative (`_eval_derivative`). Where it is compiled, it has `over_symbols`, and a function registered with
    `meanfield.numeric.lowering.modules.module_functions.lowers`.
    """

    is_commutative = True
    is_real = True
    tex_letter = "A"  # where a long formula names its averages
    is_enclosed = True  # whether its digits can be certified
    is_constant_number = False  # whether it is known to the formula as a number (a moment of a function)

    @property
    def is_number(self) -> bool:
        return not self.free_symbols

    @property
    def moves_near_zero(self) -> bool:
        """Whether a ratio of distances that holds it moves, however small they are."""
        return False

    @property
    def paired(self) -> Paired | None:
        """How a kernel of data sets reads it; None where its loops have no series for it."""
        return None

    def over_symbols(self) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
        """(the node over plain variances, covariances and parameters, what stands in their places here).

        Nodes that differ in these alone become one compiled function.
        """
        raise MeanFieldError(f"{shown(self)} is derived, but not compiled.")

    def settled(self) -> float | None:
        """The value of an average that no state moves, to the last digit of a double; None where it moves, and of
        what no ball says so well."""
        return None

    def in_closed_form(self) -> sp.Expr:
        """What `meanfield.symbolic.equality.closed` puts in its place; itself, where that is nothing simpler."""
        return self

    def tex_inside(self) -> Typeset:
        """(what is averaged, a function from its LaTeX, and one that writes variances, to the node's)."""
        raise NotImplementedError

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        inside, ends = self.tex_inside()
        text = ends(printer._print(inside), printer._print)
        return text if exp is None else rf"\left( {text} \right)^{{{exp}}}"


class Defined(Node):
    """A node that is a formula in other averages, in which digits are lost where inputs come close."""

    def definition(self) -> sp.Expr:
        """The formula."""
        raise NotImplementedError

    def doit(self, **hints: object) -> sp.Expr:
        """The definition, its averages closed where they close."""
        e = self.definition()
        return e.xreplace({a: a.doit() for a in e.atoms(Node)})

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        return self.definition().diff(symbol)


def nodes_in(e: sp.Basic) -> set[Node]:
    """The averages in an expression, those in the variances of others among them; not those that are constants."""
    return {node for node in e.atoms(Node) if not node.is_constant_number}
