r"""`MaximumAverage`: averages over the maximum of φ at n independent nodes where φ is not monotone or two norms differ.

Where φ rises or falls (with z or |z|) and inputs have one norm, `pools` writes such averages over one or two Gaussians.
Elsewhere the maximum is known by its distribution alone, F(t)^n with F(t) = P(φ(z) ≤ t), and at two inputs F₂(s, t)^n:
two-dimensional integrals over values for any n, which `many_positions.maximum_averages` computes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import sympy as sp
from sympy.printing.printer import Printer

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.symbolic.averages.base import Typeset
from meanfield.symbolic.averages.node import Integrand
from meanfield.symbolic.averages.nodes.group_functions import GroupAverage


class MaximumAverage(GroupAverage):
    """A `GroupAverage` whose F is the largest of φ(z_1) … φ(z_n), n ≥ 2, with no limit to n."""

    def __new__(
        cls, phi: Integrand, nodes: int | sp.Integer, which: int | sp.Integer, variables: Iterable[sp.Expr]
    ) -> Self:
        made: Self = sp.Expr.__new__(cls, phi, sp.Integer(nodes), sp.Integer(which), sp.Tuple(*variables))
        return made

    @property
    def formula(self) -> sp.Expr:
        return sp.Max(*Z[: min(self.nodes, len(Z))])

    @property
    def function(self) -> sp.Expr:
        return self.args[0].expr

    @property
    def nodes(self) -> int:
        return int(self.args[1])

    @property
    def which(self) -> int:
        return int(self.args[2])

    @property
    def variables(self) -> tuple[sp.Expr, ...]:
        return tuple(self.args[3])

    @property
    def cov(self) -> tuple[sp.Expr, ...]:
        """(K_aa, K_ab, K_bb) of two inputs."""
        return self.variables

    def over(self, variables: Iterable[sp.Expr], which: int | None = None) -> MaximumAverage:
        return MaximumAverage(self.args[0], self.nodes, self.which if which is None else which, variables)

    def _eval_evalf(self, prec: int) -> None:
        if not self.is_number:
            return None
        raise MeanFieldError(
            f"Digits of {self} are not available: the maximum of a function that goes up and down, or at two norms, "
            "has "
            "those of doubles (propagate, check)."
        )

    def _shown(self, name: str) -> str:
        return f"max{self.nodes}({name})"

    def _sympystr(self, printer: Printer) -> str:
        z = self.function.xreplace({Z[0]: sp.Symbol("z", real=True)})
        return self._printed(printer, self._shown(printer._print(z)))

    def tex_inside(self) -> Typeset:
        z = self.function.xreplace({Z[0]: sp.Symbol("z", real=True)})
        front = rf"\max_{{{self.nodes}}} "
        return z, lambda body, write: self._tex(front + body, write)


def maximum_average(phi: sp.Expr, nodes: int, which: int, variables: Iterable[sp.Expr]) -> MaximumAverage:
    """The node."""
    return MaximumAverage(Integrand(phi), nodes, which, variables)
