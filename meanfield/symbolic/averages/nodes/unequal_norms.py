r"""Two Gaussians of different variances: `UnequalDistanceRatio`, ⟨(f(z_a) - f(z_b))²⟩/⟨(z_a - z_b)²⟩, how much f moves
them apart; `DirectionRatio`, the part of directions in it; and `DividedDifference`, (⟨f⟩_A - ⟨f⟩_B)/(A - B).

With s = √A, t = √B the distance is (s - t)² + 2st(1 - c): a share w of norms and one of directions. So is that of f's,
⟨(f(sx) - f(tx))²⟩ + 2st ∫_c^1 ⟨f′f′⟩ dc′ by Price's theorem: the ratio is w⟨((f(sx) - f(tx))/(s - t))²⟩ + (1 - w)(mean
of ⟨f′f′⟩ over the correlations from c to 1), in which nothing cancels. With a² = ⟨f(sx)²⟩, b² = ⟨f(tx)²⟩ the distance
of f's is (a - b)² + 2(ab - ⟨f f⟩), and the second share, too, is a sum of positive terms: 2(ab - ⟨f(sx) f(tx)⟩) =
⟨(√(b/a) f(sx) - √(a/b) f(tx))²⟩ in the place of ⟨(f(sx) - f(tx))²⟩. Source: derived here.
"""

from __future__ import annotations

from typing import Self

import sympy as sp
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.printer import Printer

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K_aa, K_bb, Z, distance, norm_angle
from meanfield.functions.piecewise import pieces
from meanfield.symbolic.averages.base import Defined, Paired
from meanfield.symbolic.averages.node import Integrand, average, in_digits
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio, as_body, essential, without_numbers

_NONE = sp.Tuple()


class UnequalDistanceRatio(DistanceRatio):
    """⟨(f(z_a) - f(z_b))²⟩/Δ over Gaussians of variances A, B with ⟨(z_a - z_b)²⟩ = Δ, the `distance`.

    Build it with `unequal_distance_ratio`. norm_angle, whose sine is (√A - √B)/√Δ, follows from the others, and its
    digits do not: compiled forms read it, `doit()` and `evalf(n)` the definition.
    """

    which = "unequal_distance_ratio"

    def __new__(
        cls, body: Integrand, A: sp.Expr, B: sp.Expr, distance: sp.Expr, norm_angle: sp.Expr, params: sp.Tuple = _NONE
    ) -> Self:
        body, params = without_numbers(body, params)
        made: Self = sp.Expr.__new__(cls, body, *map(sp.sympify, (A, B, distance, norm_angle)), params)
        return made

    @property
    def variances(self) -> tuple[sp.Expr, sp.Expr]:
        return self.args[1], self.args[2]

    @property
    def variance(self) -> sp.Expr:
        """The mean of the two: the scale of `distance`."""
        return (self.args[1] + self.args[2]) / 2

    @property
    def distance(self) -> sp.Expr:
        return self.args[3]

    @property
    def norm_angle(self) -> sp.Expr:
        return self.args[4]

    @property
    def paired(self) -> Paired | None:
        A, B = self.variances
        return Paired(self.which, self.function, self.variances, (A, self.distance, B, self.norm_angle))

    @property
    def square(self) -> sp.Expr:
        """f²."""
        return pieces(self.function, Z[0]).map(lambda e: e**2).expr

    @property
    def second(self) -> sp.Expr:
        """⟨f²⟩, the mean over both inputs."""
        return sum(average(self.square, v) for v in self.variances) / 2

    @property
    def product(self) -> sp.Expr:
        f, (a, b) = self.function, self.variances
        return average(f * f.xreplace({Z[0]: Z[1]}), (a, self.variance - self.distance / 2, b))

    @property
    def slope(self) -> sp.Expr:
        f = pieces(self.function, Z[0])
        return sp.oo if f.jumps() else average(f.diff().map(lambda e: e**2).expr, self.variances[0])

    @property
    def law(self) -> tuple[sp.Expr, ...]:
        return *self.variances, self.distance

    def over_symbols(self) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
        refuse_parameters(self)
        kind = DirectionRatio if isinstance(self, DirectionRatio) else UnequalDistanceRatio
        values = (*self.variances, self.distance, self.norm_angle)
        return kind(Integrand(in_digits(self.args[0].expr)), K_aa, K_bb, distance, norm_angle), values

    def separation(self) -> sp.Expr:
        return UnequalSeparation(*self.args)


class UnequalSeparation(UnequalDistanceRatio):
    """⟨(f(z_a) - f(z_b))²⟩ itself."""

    is_ratio = False


class DirectionRatio(UnequalDistanceRatio):
    """2(√⟨f²⟩_A √⟨f²⟩_B - ⟨f f⟩)/Δ over Gaussians of variances A, B with ⟨(z_a - z_b)²⟩ = Δ: the part of directions in
    the distance of f's. Build it with `direction_ratio`."""

    which = "direction_ratio"

    def definition(self) -> sp.Expr:
        if self.is_ratio and self.distance == 0:
            return self.slope
        one, other = (average(self.square, v) for v in self.variances)
        whole = 2 * (sp.sqrt(one) * sp.sqrt(other) - self.product)
        return whole / self.distance if self.is_ratio else whole

    def _sympystr(self, printer: Printer) -> str:
        return str(printer.parenthesize(self.definition(), PRECEDENCE["Mul"]))

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        text = rf"\left( {printer._print(self.definition())} \right)"
        return text if exp is None else rf"{text}^{{{exp}}}"

    def separation(self) -> sp.Expr:
        return DirectionSeparation(*self.args)


class DirectionSeparation(DirectionRatio):
    """2(√⟨f²⟩_A √⟨f²⟩_B - ⟨f f⟩) itself."""

    is_ratio = False


class DividedDifference(Defined):
    """(⟨f⟩_A - ⟨f⟩_B)/(A - B), ∂⟨f⟩/∂A where A = B. Build it with `divided_difference`."""

    precedence = PRECEDENCE["Mul"]

    def __new__(cls, body: Integrand, A: sp.Expr, B: sp.Expr, params: sp.Tuple = _NONE) -> Self:
        body, params = without_numbers(body, params)
        made: Self = super().__new__(cls, body, sp.sympify(A), sp.sympify(B), params)
        return made

    function, params = DistanceRatio.function, DistanceRatio.params

    @property
    def paired(self) -> Paired | None:
        return Paired("divided_difference", self.function, (self.args[1], self.args[2]), ())

    def definition(self) -> sp.Expr:
        a, b = self.args[1:3]
        if a == b:
            return average(self.function, a).derivative_cov(0, 0)
        return (average(self.function, a) - average(self.function, b)) / (a - b)

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        if not self.is_number:
            return None
        a, b = self.args[1:3]
        lost = 0 if a == b else int(max(0, -sp.log(sp.N(abs(a - b) / max(a, b), 15), 2)))
        return sp.N(self.definition(), int((prec + lost) / 3.3219) + 3)._eval_evalf(prec)

    def over_symbols(self) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
        refuse_parameters(self)
        return DividedDifference(Integrand(in_digits(self.args[0].expr)), K_aa, K_bb), self.args[1:3]

    def _sympystr(self, printer: Printer) -> str:
        a, b = self.args[1:3]
        f = average(self.function, a), average(self.function, b)
        return f"({printer._print(f[0])} - {printer._print(f[1])})/({printer._print(a - b)})"

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        a, b = self.args[1:3]
        over = printer._print(average(self.function, a) - average(self.function, b))
        text = rf"\frac{{{over}}}{{{printer._print(a - b)}}}"
        return text if exp is None else rf"\left( {text} \right)^{{{exp}}}"


def refuse_parameters(node: UnequalDistanceRatio | DividedDifference) -> None:
    """Refuse to compile averages over two norms whose function changes from layer to layer."""
    if node.params:
        raise MeanFieldError(
            f"The distance of two inputs through {node} depends on a mean and a scale that change from layer to "
            "layer; it is derived, but not compiled."
        )


def unequal_distance_ratio(f: sp.Expr, A: sp.Expr, B: sp.Expr, distance: sp.Expr, norm_angle: sp.Expr) -> sp.Expr:
    """The node; constants and what is linear are taken out."""
    constant, f = essential(f)
    if not f.has(Z[0]):
        return sp.S.Zero
    if f == Z[0]:
        return constant**2
    body, params = as_body(f)
    return constant**2 * UnequalDistanceRatio(body, A, B, distance, norm_angle, params)


def direction_ratio(f: sp.Expr, A: sp.Expr, B: sp.Expr, distance: sp.Expr, norm_angle: sp.Expr) -> sp.Expr:
    """The node; factors are taken out (a constant beside f changes the direction, too).

    >>> from meanfield.base.symbols import K_aa, K_bb, Z, distance, norm_angle
    >>> direction_ratio(3 * Z[0], K_aa, K_bb, distance, norm_angle)
    9*cos(norm_angle)**2
    """
    constant, f = f.as_independent(Z[0], as_Add=False)
    if not f.has(Z[0]):
        return sp.S.Zero
    if f == Z[0]:
        return constant**2 * sp.cos(norm_angle) ** 2
    body, params = as_body(f)
    return constant**2 * DirectionRatio(body, A, B, distance, norm_angle, params)


def divided_difference(f: sp.Expr, A: sp.Expr, B: sp.Expr) -> sp.Expr:
    """The node; of z² it is 1, and constants are taken out.

    >>> from meanfield.base.symbols import K_aa, K_bb, Z
    >>> divided_difference(3 * Z[0] ** 2 + 1, K_aa, K_bb)
    3
    """
    constant, f = essential(f)
    if average(f, A) == 0 or not f.has(Z[0]):
        return sp.S.Zero
    if f == Z[0] ** 2:
        return constant
    body, params = as_body(f)
    return constant * DividedDifference(body, A, B, params)
