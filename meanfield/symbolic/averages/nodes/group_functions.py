r"""Averages over any function F of the values φ(z_i) at n independent nodes: what a `Pool` of a formula needs.

A formula that switches at planes only (ReLUs, maxima, moduli of their differences) closes by the rule of
`closed_form`, for one input and, of two nodes, for two. Any other stays a `GroupAverage`: six averages over n
independent Gaussians of one variance, or over n pairs of one covariance, that are lowered to lattice rules. Of F the
value and the slopes ∂F/∂z_i are needed: with Price's theorem Σ_i⟨∂_iF ∂_iF′⟩ = ∂⟨F F′⟩/∂K_ab.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Self

import sympy as sp
from sympy.printing.printer import Printer

from meanfield.base.answers.results import MeanFieldError, NoClosedForm
from meanfield.base.symbols import K, K_aa, K_ab, K_bb, Z, distance, norm_angle
from meanfield.functions.derivatives import derivative
from meanfield.functions.piecewise import SWITCHES, pieces
from meanfield.symbolic.averages.base import Node, Typeset, Write
from meanfield.symbolic.averages.closed_form import closed_form
from meanfield.symbolic.averages.node import Integrand

MEAN, SECOND, SLOPE, RADIAL, PRODUCT, SLOPES, RATIO, UNEQUAL_RATIO, DIFFERENCE = range(9)
_SHOWN = (
    "F", "F**2", "|dF|**2", "F*(z.dF)", "F_a*F_b", "dF_a.dF_b", "(F_a - F_b)**2/distance", "(F_a - F_b)**2/distance",
    "(F_a**2 - F_b**2)/(K_aa - K_bb)",
)  # fmt: skip
_TEX = (
    "F", "F^{2}", r"\lvert \partial F \rvert^{2}", r"F z \cdot \partial F", "F_a F_b",
    r"\partial F_a \cdot \partial F_b", r"(F_a - F_b)^{2}/\Delta", r"(F_a - F_b)^{2}/\Delta",
    r"(F_a^{2} - F_b^{2})/(K_{aa} - K_{bb})",
)  # fmt: skip


class GroupAverage(Node):
    """⟨F²⟩ and its like (`which`) for F = f(φ(z_1), …, φ(z_n)): over (V,), over (K_aa, K_ab, K_bb); a
    distance ratio over (V, distance), at two norms over (K_aa, K_bb, distance, norm_angle), a divided difference over
    (K_aa, K_bb)."""

    is_enclosed = False

    def __new__(
        cls,
        formula: Integrand,
        phi: Integrand,
        nodes: int | sp.Integer,
        which: int | sp.Integer,
        variables: Iterable[sp.Expr],
    ) -> Self:
        made: Self = super().__new__(cls, formula, phi, sp.Integer(nodes), sp.Integer(which), sp.Tuple(*variables))
        return made

    @property
    def formula(self) -> sp.Expr:
        """f, of the nodes' values Z[0], Z[1], …"""
        return self.args[0].expr

    @property
    def function(self) -> sp.Expr:
        """φ, of Z[0]."""
        return self.args[1].expr

    @property
    def nodes(self) -> int:
        return int(self.args[2])

    @property
    def which(self) -> int:
        return int(self.args[3])

    @property
    def variables(self) -> tuple[sp.Expr, ...]:
        return tuple(self.args[-1])

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.which in (SECOND, SLOPE, RATIO, UNEQUAL_RATIO) else None

    def of(self, which: int) -> GroupAverage:
        """Another average of the same F over the same variables."""
        return self.over(self.variables, which)

    def over(self, variables: Iterable[sp.Expr], which: int | None = None) -> GroupAverage:
        """The same average over other variables."""
        formula, phi, nodes = self.args[:3]
        return GroupAverage(formula, phi, nodes, self.which if which is None else which, variables)

    def over_symbols(self) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
        plain = {RATIO: (K, distance), UNEQUAL_RATIO: (K_aa, K_bb, distance, norm_angle), DIFFERENCE: (K_aa, K_bb)}.get(
            self.which
        )
        return self.over(plain or ((K,) if len(self.variables) == 1 else (K_aa, K_ab, K_bb))), self.variables

    def _eval_evalf(self, prec: int) -> None:
        if not self.is_number:
            return None
        raise MeanFieldError(
            f"Digits of {self} are not available: the averages of a Pool of a formula have those of a lattice rule "
            "(propagate, check): they are not enclosed, and have no fixed points, lines or laws."
        )

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        """⟨F²⟩ by V: ⟨F z·∇F⟩/V; ⟨F F′⟩ by K_ab: ⟨∇F·∇F′⟩."""
        by = [v.diff(symbol) for v in self.variables]
        if self.which == SECOND:
            return by[0] * self.of(RADIAL) / self.variables[0]
        if self.which == PRODUCT and by[0] == 0 and by[2] == 0:
            return by[1] * self.of(SLOPES)
        if not any(by):
            return sp.S.Zero
        return sp.Derivative(self, symbol, evaluate=False)  # with second slopes of F: it prints, and has no digits

    def _names(self) -> dict[sp.Symbol, sp.Symbol]:
        return {z: sp.Symbol(f"phi{k + 1}", real=True) for k, z in enumerate(Z[: self.nodes])}

    def _sympystr(self, printer: Printer) -> str:
        return self._printed(printer, printer._print(self.formula.xreplace(self._names())))

    def _printed(self, printer: Printer, formula: str) -> str:
        law = ", ".join(printer._print(v) for v in self.variables)
        return f"<{_SHOWN[self.which]}; F = {formula}>_{{{law}}}"

    tex_letter = "F"

    def tex_inside(self) -> Typeset:
        names = {z: sp.Symbol(rf"\varphi_{{{k + 1}}}", real=True) for k, z in enumerate(Z[: self.nodes])}
        return self.formula.xreplace(names), self._tex

    def _tex(self, body: str, write: Write) -> str:
        law = ",".join(map(write, self.variables))
        return rf"\left\langle {_TEX[self.which]}; F = {body} \right\rangle_{{{law}}}"


def group(formula: sp.Expr, phi: sp.Expr, nodes: int, which: int, variables: Iterable[sp.Expr]) -> sp.Expr:
    """The average `which` of F, closed where the rule reaches; a `GroupAverage` elsewhere.

    Raises: MeanFieldError where φ has parameters without numbers.
    """
    free = (formula.free_symbols | phi.free_symbols) - set(Z)
    if free:
        raise MeanFieldError(
            f"A Pool of the formula {formula} needs numbers for {', '.join(sorted(map(str, free)))}; give them in "
            "derive(...)."
        )
    form = _closed(formula, phi, nodes, which)
    if form is not None:
        names, found = form
        return found.xreplace(dict(zip(names, map(sp.sympify, variables))))
    return GroupAverage(Integrand(formula), Integrand(phi), nodes, which, variables)


@lru_cache(maxsize=256)
def jumps(formula: sp.Expr, phi: sp.Expr, nodes: int) -> bool:
    """Whether F jumps somewhere, so that ⟨‖∇F‖²⟩ = ∞: φ does, or f along some straight line through its arguments."""
    if pieces(phi, Z[0]).jumps():
        return True
    if not formula.has(sp.sign, sp.Heaviside, sp.Piecewise):
        return False  # moduli, maxima and analytic functions
    lines = ((sp.Rational(3, 7), 1), (-sp.Rational(5, 11), sp.Rational(2, 3)), (sp.Rational(1, 13), -sp.Rational(7, 5)))
    for start, slope in lines:
        line = {z: (k + 1) * start + (1 + k * slope) * Z[0] for k, z in enumerate(Z[:nodes])}
        if pieces(formula.subs(line, simultaneous=True), Z[0]).jumps():
            return True
    return False


@lru_cache(maxsize=256)
def _closed(formula: sp.Expr, phi: sp.Expr, nodes: int, which: int) -> tuple[tuple[sp.Symbol, ...], sp.Expr] | None:
    """(names of the variables, closed form in them); None where the rule does not reach."""
    pairs = which in (PRODUCT, SLOPES)
    inputs = 2 if pairs else 1
    if which in (RADIAL, RATIO, UNEQUAL_RATIO, DIFFERENCE) or nodes * inputs > len(Z):
        return None
    F = [_whole(formula, phi, nodes, k * nodes) for k in range(inputs)]
    if which == MEAN:
        f = F[0]
    elif which in (SECOND, PRODUCT):
        f = F[0] * F[-1]
    else:
        slopes = [[_classical(e, Z[k * nodes + i]) for i in range(nodes)] for k, e in enumerate(F)]
        f = sp.Add(*[a * b for a, b in zip(slopes[0], slopes[-1])])
    a, b = (sp.Dummy(name, positive=True) for name in ("K_aa", "K_bb"))
    ab = sp.Dummy("K_ab", real=True)
    n = nodes * inputs
    cov = []
    for i in range(n):
        for j in range(i + 1):
            cov.append((a if i < nodes else b) if i == j else ab if i == j + nodes else sp.S.Zero)
    try:
        found = closed_form(f, tuple(cov), (sp.S.Zero,) * n)
    except (NoClosedForm, MeanFieldError):
        return None
    return ((a, ab, b) if pairs else (a,)), sp.simplify(found) if found.count_ops() < 200 else found


def _whole(formula: sp.Expr, phi: sp.Expr, nodes: int, first: int) -> sp.Expr:
    return formula.xreplace({Z[i]: phi.xreplace({Z[0]: Z[first + i]}) for i in range(nodes)})


def _classical(e: sp.Expr, x: sp.Symbol) -> sp.Expr:
    """The derivative where it exists."""
    slope = derivative(e, x)
    return slope.replace(sp.DiracDelta, lambda *_: sp.S.Zero) if e.has(*SWITCHES) else slope
