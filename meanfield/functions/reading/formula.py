"""A SymPy expression as the text of a formula: what `parser.parse` reads, written again without any normal form."""

from __future__ import annotations

import sympy as sp
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanFalse, BooleanTrue
from sympy.printing.str import StrPrinter

from meanfield.base.answers.results import MeanFieldError


class _Formula(StrPrinter):
    def _print_Piecewise(self, expr: sp.Piecewise) -> str:
        text = ""
        for e, condition in reversed(expr.args):
            if not text and condition != True:  # noqa: E712 - a SymPy truth value
                raise MeanFieldError(f"{expr} has no value where none of its conditions holds; give it one everywhere.")
            here = f"({self._print(e)})"
            text = here if not text else f"({here} if {self._print(condition)} else {text})"
        return text

    def _print_And(self, expr: sp.And) -> str:
        return " and ".join(f"({self._print(a)})" for a in expr.args)

    def _print_Or(self, expr: sp.Or) -> str:
        return " or ".join(f"({self._print(a)})" for a in expr.args)

    def _print_Not(self, expr: sp.Not) -> str:
        return f"not ({self._print(expr.args[0])})"

    def _print_BooleanTrue(self, expr: BooleanTrue) -> str:
        return "True"

    def _print_BooleanFalse(self, expr: BooleanFalse) -> str:
        return "False"

    def _print_Relational(self, expr: Relational) -> str:
        if expr.func not in (sp.Lt, sp.Le, sp.Gt, sp.Ge):
            raise MeanFieldError(f"The condition {expr} cannot be run in finite networks; use <, <=, > or >=.")
        return f"({self._print(expr.lhs)}) {expr.rel_op} ({self._print(expr.rhs)})"

    def _print_Heaviside(self, expr: sp.Heaviside) -> str:
        return f"step({self._print(expr.args[0])})"

    def _print_Rational(self, expr: sp.Rational) -> str:
        return f"({expr.p}/{expr.q})"


def formula(expr: sp.Expr) -> str:
    """The text of an activation's expression.

    Raises: MeanFieldError for conditions a formula cannot hold.

    >>> from meanfield.base.symbols import z
    >>> formula(sp.Piecewise((z, z > 1), (z / 3, True)))
    '((z) if (z) > (1) else (z/3))'
    """
    text: str = _Formula().doprint(expr)
    return text
