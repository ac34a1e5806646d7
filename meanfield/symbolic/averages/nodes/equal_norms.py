r"""`DistanceRatio`: how much f moves two Gaussians of one variance apart, ⟨(f(z_a) - f(z_b))²⟩/⟨(z_a - z_b)²⟩.

The distance of two inputs is multiplied by it in every layer. It is a node of its own because the difference of the
averages that it is made of, 2(⟨f²⟩ - ⟨f f⟩), loses every digit where the inputs come close; by Price's theorem it is
the mean of ⟨f′f′⟩ over the correlations from the present one to 1, which cancels nothing.
"""

from __future__ import annotations

from typing import Self

import sympy as sp
from sympy.printing.printer import Printer

from meanfield.base.answers.results import InfiniteAverage, MeanFieldError
from meanfield.base.symbols import P_POSITIVE, K, P, Z, distance
from meanfield.functions.piecewise import pieces
from meanfield.symbolic.averages.base import Defined, Paired, Typeset, Write
from meanfield.symbolic.averages.node import Average, Integrand, average, in_digits, outermost

_NO_PARAMETERS = sp.Tuple()


class DistanceRatio(Defined):
    r"""⟨(f(z_a) - f(z_b))²⟩/Δ over two Gaussians of variance V with ⟨(z_a - z_b)²⟩ = Δ, 0 ≤ Δ ≤ 4V.

    Build it with `distance_ratio(f, V, distance)`. At Δ = 0 it is ⟨f′²⟩_V (∞ where f jumps). `doit()` gives the
    definition in averages (closed where they close), `evalf(n)` digits.
    """

    is_nonnegative = True
    tex_letter = "S"
    is_ratio = True

    def __new__(cls, body: Integrand, variance: sp.Expr, distance: sp.Expr, params: sp.Tuple = _NO_PARAMETERS) -> Self:
        body, params = without_numbers(body, params)
        made: Self = super().__new__(cls, body, sp.sympify(variance), sp.sympify(distance), params)
        return made

    @property
    def function(self) -> sp.Expr:
        """f, in Z[0], its parameters put back."""
        return self.args[0].expr.xreplace(dict(zip(P, self.params)))

    @property
    def params(self) -> sp.Tuple:
        return self.args[-1]

    @property
    def variance(self) -> sp.Expr:
        return self.args[1]

    @property
    def distance(self) -> sp.Expr:
        return self.args[2]

    @property
    def moves_near_zero(self) -> bool:
        return not self.params and bool(pieces(self.function, Z[0]).jumps())

    @property
    def paired(self) -> Paired | None:
        V = self.variance
        return Paired("distance_ratio", self.function, (V, V), (V, self.distance, V))

    @property
    def second(self) -> sp.Expr:
        """⟨f²⟩."""
        return average(pieces(self.function, Z[0]).map(lambda e: e**2).expr, self.variance)

    @property
    def product(self) -> sp.Expr:
        """⟨f(z_a) f(z_b)⟩."""
        f, covariance = self.function, self.variance - self.distance / 2
        return average(f * f.xreplace({Z[0]: Z[1]}), (self.variance, covariance, self.variance))

    @property
    def slope(self) -> sp.Expr:
        """⟨f′²⟩, what is left at Δ = 0; ∞ where f jumps."""
        f = pieces(self.function, Z[0])
        return sp.oo if f.jumps() else average(f.diff().map(lambda e: e**2).expr, self.variance)

    def definition(self) -> sp.Expr:
        """2(⟨f²⟩ - ⟨f f⟩)/Δ, in averages; not divided where it is no ratio."""
        if not self.is_ratio:
            return sp.S.Zero if self.distance == 0 else 2 * (self.second - self.product)
        return self.slope if self.distance == 0 else 2 * (self.second - self.product) / self.distance

    def in_closed_form(self) -> sp.Expr:
        found = self.doit()
        return self if found.has(Average) else found

    def _eval_evalf(self, prec: int) -> sp.Expr | None:
        if not self.is_number:
            return None
        if self.distance == 0:
            if not self.is_ratio:
                return sp.S.Zero
            value = self.slope
            if value == sp.oo:
                raise InfiniteAverage(f"{self} is infinite: the function jumps, and the inputs are the same.")
            return value._eval_evalf(prec)
        share = sp.N(self.distance / self.variance, 15)
        if not 0 < share <= 4 + 1e-9:
            raise MeanFieldError(f"{self} needs 0 ≤ distance ≤ 4·variance, but their ratio is {share}.")
        lost = int(max(0, -sp.log(share, 2))) + 10
        return sp.N(self.definition(), int((prec + lost) / 3.3219) + 3)._eval_evalf(prec)

    def over_symbols(self) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
        own = sp.Tuple(*[P_POSITIVE[i] if p.is_positive else P[i] for i, p in enumerate(self.params)])
        body = Integrand(in_digits(self.args[0].expr))
        return DistanceRatio(body, K, distance, own), (self.variance, self.distance, *self.params)

    @property
    def law(self) -> tuple[sp.Expr, ...]:
        """What is printed of the two Gaussians."""
        return self.variance, self.distance

    def at_inputs(self) -> tuple[sp.Expr, sp.Expr]:
        """f at both inputs, as it is printed."""
        a, b = (self.function.xreplace({Z[0]: sp.Symbol(n, real=True)}) for n in ("z_a", "z_b"))
        return a, b

    def _difference(self, printer: Printer) -> str:
        a, b = self.at_inputs()
        return str(printer._print(a - b))

    def _sympystr(self, printer: Printer) -> str:
        law = ", ".join(printer._print(e) for e in self.law)
        below = "/<(z_a - z_b)**2>" if self.is_ratio else ""
        return f"<({self._difference(printer)})**2>{below}_{{{law}}}"

    def tex_inside(self) -> Typeset:
        """(f(z_a) - f(z_b) as it is printed, a function from its LaTeX to the node's)."""
        a, b = self.at_inputs()

        def ends(body: str, write: Write) -> str:
            law = ",".join(map(write, self.law))
            front = rf"\frac{{1}}{{{write(self.distance)}}} " if self.is_ratio else ""
            return rf"{front}\left\langle \left( {body} \right)^{{2}} \right\rangle_{{{law}}}"

        return a - b, ends


    def separation(self) -> sp.Expr:
        """⟨(f(z_a) - f(z_b))²⟩, as maps of the distance are printed."""
        return Separation(*self.args)


class Separation(DistanceRatio):
    """⟨(f(z_a) - f(z_b))²⟩ itself: 0 at Δ = 0, also where f jumps."""

    is_ratio = False


def as_printed(e: sp.Expr) -> sp.Expr:
    """distance·(⟨…⟩/distance) as ⟨…⟩."""
    found = {s: s.separation() / s.distance for s in e.atoms(DistanceRatio) if s.is_ratio}
    return sp.expand(e.xreplace(found), deep=False) if found else e


def without_numbers(body: Integrand, params: sp.Tuple) -> tuple[Integrand, sp.Tuple]:
    """The same with what became a number put into f: α → 1/10 must give the very node that was built with 1/10."""
    numbers = {P[i]: p for i, p in enumerate(params) if p.is_number}
    if not numbers:
        return body, sp.Tuple(*params)
    rest = [i for i in range(len(params)) if P[i] not in numbers]
    swap = numbers | {P[i]: P[j] for j, i in enumerate(rest)}
    f = body.expr.subs(swap, simultaneous=True)
    return Integrand(pieces(f, Z[0]).expr), sp.Tuple(*[params[i] for i in rest])


def distance_ratio(f: sp.Expr, variance: sp.Expr, distance: sp.Expr) -> sp.Expr:
    """The node; constants and what is linear are taken out.

    >>> from meanfield.base.symbols import K, Z, distance
    >>> distance_ratio(3 * Z[0], K, distance)
    9
    """
    constant, f = essential(f)
    if not f.has(Z[0]):
        return sp.S.Zero
    if f == Z[0]:
        return constant**2
    body, params = as_body(f)
    return constant**2 * DistanceRatio(body, variance, distance, params)


def essential(f: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """(c, h) with f = c·h + (constant): what a difference of f's is made of."""
    f = f - f.as_independent(Z[0], as_Add=True)[0] if f.is_Add else f
    return f.as_independent(Z[0], as_Add=False) if f.is_Mul else (sp.S.One, f)


def as_body(f: sp.Expr) -> tuple[Integrand, sp.Tuple]:
    """f as an atom in canonical dummies, and its parameters."""
    inside = sorted(outermost(f), key=str)  # the mean and scale of a LayerNorm before φ
    names = {a: sp.Dummy("q", real=True) for a in inside}
    f = f.xreplace(names)
    free = [*names.values(), *sorted(f.free_symbols - set(Z) - set(names.values()), key=lambda s: s.name)]
    return Integrand(f.xreplace(dict(zip(free, P)))), sp.Tuple(*inside, *free[len(inside) :])
