r"""`Overlap`: averages of two softmax rows, Φ_T(V, C) = ⟨Σ_s A_s A'_s⟩, and what follows from it.

A = softmax(z), A' = softmax(z') over T entries; the pairs (z_s, z'_s) are independent Gaussians of variance V and
covariance C, -V ≤ C ≤ V. A node is written in V and D = V - C, so that rows which nearly agree keep their digits. C = V
is one row: Φ_T(V, V) is its inverse participation ratio. Φ_T(V, 0) = Φ_T(0, 0) = 1/T.

By Price's theorem ∂_C Φ = ⟨Σ_su ∂_u A_s ∂_u A'_s⟩, which is (T - 1)/T² at V = 0. Of T = 2 all closes to averages of
hyperbolic functions of the two differences. Source: derived here; digits by `softmax_digits`.
"""

from __future__ import annotations

from typing import TypeAlias

import sympy as sp
from sympy.printing.printer import Printer

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown
from meanfield.base.symbols import K, Z, distance
from meanfield.symbolic.averages.base import Node, Typeset, Write
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.averages.nodes.softmax_digits import digits

Number: TypeAlias = sp.Expr | str | float  # what SymPy makes an exact number of
VALUE, SLOPE, QUOTIENT, BY_V, GROWTH, ENTROPY = KINDS = "value", "slope", "quotient", "by_V", "growth", "entropy"
_TEXT = {
    VALUE: ("Phi_{T}({V}, {C})", r"\Phi_{{{T}}}({V}, {C})"),
    SLOPE: ("dPhi_{T}/dC({V}, {C})", r"\partial_C \Phi_{{{T}}}({V}, {C})"),
    QUOTIENT: ("quotient(Phi_{T})({V}, {C})", r"\frac{{\Phi_{{{T}}}({V}, {V}) - \Phi_{{{T}}}({V}, {C})}}{{{D}}}"),
    BY_V: ("dPhi_{T}/dV({V}, {C})", r"\partial_V \Phi_{{{T}}}({V}, {C})"),
    GROWTH: ("d(Phi_{T}(V, V))/dV({V})", r"\Phi_{{{T}}}^{{\prime}}({V})"),
    ENTROPY: ("entropy_{T}({V})", r"H_{{{T}}}({V})"),
}


class Overlap(Node):
    """An average `kind` of two softmax rows of T entries, of variance V and covariance C = V - D; built by `overlap`,
    `overlap_slope`, `overlap_quotient`, `overlap_by_variance`, `overlap_growth`, `softmax_entropy`, which say what each
    is."""

    tex_letter = "Phi"
    is_enclosed = False
    moves_near_zero = True

    def __new__(cls, T: Number, V: Number, D: Number, kind: str | sp.Integer) -> sp.Expr:
        T, V, D, kind = sp.sympify(T), sp.sympify(V), sp.sympify(D), kind if kind in KINDS else KINDS[int(kind)]
        if kind in (GROWTH, ENTROPY):
            D = sp.S.Zero
        if T.is_number and not (T.is_Integer and T >= 1):
            raise MeanFieldError(f"A softmax is over a number of entries T = 1, 2, …, but T = {shown(T)} was given.")
        if any(x.is_number and x.is_negative for x in (V, D)):
            raise MeanFieldError(
                f"Two softmax rows have a variance V ≥ 0 and a covariance V - D ≤ V, but V = {shown(V)} and D = "
                f"{shown(D)} were given."
            )
        exact = _exact(T, V, D, kind)
        if exact is not None:
            return exact
        if D == 0 and kind == QUOTIENT:
            kind = SLOPE
        return sp.Expr.__new__(cls, T, V, D, sp.Integer(KINDS.index(kind)))

    @property
    def entries(self) -> sp.Expr:
        """T."""
        return self.args[0]

    @property
    def variance(self) -> sp.Expr:
        """V."""
        return self.args[1]

    @property
    def distance(self) -> sp.Expr:
        """D = V - C."""
        return self.args[2]

    @property
    def which(self) -> str:
        return KINDS[int(self.args[3])]

    @property
    def covariance(self) -> sp.Expr:
        """C as it is printed."""
        V, D = self.variance, self.distance
        return V if D == 0 else sp.factor_terms(sp.expand(V - D))

    def of(self, kind: str, distance: sp.Expr | None = None) -> sp.Expr:
        """Another average of the same rows, or of others that are so far apart."""
        return type(self)(self.entries, self.variance, self.distance if distance is None else distance, kind)

    def _eval_is_positive(self) -> bool | None:
        return True if self.which in (VALUE, SLOPE, QUOTIENT, ENTROPY, GROWTH) else None

    def over_symbols(self) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
        if not self.entries.is_Integer:
            raise MeanFieldError(
                f"{shown(self)} is a softmax over {shown(self.entries)} tokens, which has no value; give a number."
            )
        if self.distance == 0:
            return type(self)(self.entries, K, sp.S.Zero, self.which), (self.variance,)
        return type(self)(self.entries, K, distance, self.which), (self.variance, self.distance)

    def doit(self, **hints: object) -> sp.Expr:
        """The closed form, in averages over two Gaussians, where T = 2; itself elsewhere."""
        V, C = self.variance, self.variance - self.distance
        if self.entries != 2 or self.which not in (VALUE, SLOPE) or self.distance == 0:
            return self
        law = (2 * V, 2 * C, 2 * V)
        if self.which == VALUE:
            return sp.S.Half + average(sp.tanh(Z[0] / 2) * sp.tanh(Z[1] / 2), law) / 2
        return average((1 - sp.tanh(Z[0] / 2) ** 2) * (1 - sp.tanh(Z[1] / 2) ** 2), law) / 4

    def _eval_evalf(self, prec: int) -> sp.Float | None:
        if self.free_symbols:
            return None
        bits = prec + 6
        V, D = (str(sp.N(x, int(bits / 3.3) + 5)) for x in (self.variance, self.distance))
        if not 0 <= float(D) <= 2 * float(V) * (1 + 1e-15):
            raise MeanFieldError(f"{shown(self)} has a covariance of modulus above its variance.")
        return sp.Float(digits(self.which, int(self.entries), V, D, bits), precision=prec)

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        V, D = self.variance, self.distance
        by_v, by_d = V.diff(symbol), D.diff(symbol)
        if by_v == 0 and by_d == 0:
            return sp.S.Zero
        if self.which == VALUE and D == 0:
            return by_v * self.of(GROWTH)
        if self.which == VALUE:
            return by_v * (self.of(BY_V) + self.of(SLOPE)) - by_d * self.of(SLOPE)
        if self.which == QUOTIENT:
            along = self.of(GROWTH) - self.of(BY_V) - self.of(SLOPE)
            return (by_v * along + by_d * (self.of(SLOPE) - self)) / D
        if self.which == ENTROPY:
            return by_v * (V * self.of(GROWTH) - (1 - self.of(VALUE)) / 2)
        return sp.Derivative(self, symbol, evaluate=False)  # of second order: it prints, and has no digits

    def _sympystr(self, printer: Printer) -> str:
        return _TEXT[self.which][0].format(**{k: printer._print(e) for k, e in self._named().items()})

    def tex_inside(self) -> Typeset:
        def ends(body: str, write: Write) -> str:
            return _TEXT[self.which][1].format(**{k: write(e) for k, e in self._named().items()})

        return self.variance, ends

    def _named(self) -> dict[str, sp.Expr]:
        return {"T": self.entries, "V": self.variance, "C": self.covariance, "D": self.distance}


def _exact(T: sp.Expr, V: sp.Expr, D: sp.Expr, kind: str) -> sp.Expr | None:
    """What is known exactly: of one entry, of variance 0, of independent rows."""
    if T == 1:
        return sp.S.One if kind == VALUE else sp.S.Zero
    if V == 0:
        flat = (T - 1) / T**2
        return {VALUE: 1 / T, BY_V: sp.S.Zero, ENTROPY: sp.log(T)}.get(kind, flat)
    if kind in (VALUE, BY_V) and D - V == 0:
        return 1 / T if kind == VALUE else sp.S.Zero
    if kind == BY_V and D == 0:
        return Overlap(T, V, D, GROWTH) - Overlap(T, V, D, SLOPE)
    return None


def overlap(T: Number, V: Number, D: Number = 0) -> sp.Expr:
    """Φ_T(V, C) = ⟨Σ_s A_s A'_s⟩, the mean overlap of two softmax rows, by D = V - C.

    T: the number of entries, an integer ≥ 1 (or a symbol: then it prints, and has no digits); V ≥ 0: the variance of an
    entry's score; D: what it is above the covariance of the two rows' scores, 0 ≤ D ≤ 2V; 0 is one row with itself.
    Exact at T = 1, V = 0 and D = V. Raises: MeanFieldError for other numbers. Source: derived here.

    >>> overlap(32, 9, "63/10")
    Phi_32(9, 27/10)
    >>> overlap(32, 9, "63/10").evalf(12)
    0.0768245315053
    >>> overlap(32, 9, 9)
    1/32
    """
    return Overlap(T, V, D, VALUE)


def overlap_slope(T: Number, V: Number, D: Number = 0) -> sp.Expr:
    """∂_C Φ_T(V, C) = ⟨Σ_su ∂_u A_s ∂_u A'_s⟩ of two softmax rows, by D = V - C; as `overlap`.

    >>> overlap_slope(16, 0)
    15/256
    """
    return Overlap(T, V, D, SLOPE)


def overlap_quotient(T: Number, V: Number, D: Number) -> sp.Expr:
    """(Φ_T(V, V) - Φ_T(V, C))/D, D = V - C: the mean of ∂_C Φ over the covariances from C to V; as `overlap`.

    It is ⟨Σ_s (A_s - A'_s)²⟩/2D, and keeps its digits however small D is. At D = 0 it is the slope.

    >>> overlap_quotient(16, 1, 0)
    dPhi_16/dC(1, 1)
    """
    return Overlap(T, V, D, QUOTIENT)


def overlap_by_variance(T: Number, V: Number, D: Number = 0) -> sp.Expr:
    """∂_V Φ_T(V, C) at fixed C, by D = V - C; as `overlap`."""
    return Overlap(T, V, D, BY_V)


def overlap_growth(T: Number, V: Number) -> sp.Expr:
    """dΦ_T(V, V)/dV, the growth of one row's inverse participation ratio."""
    return Overlap(T, V, 0, GROWTH)


def softmax_entropy(T: Number, V: Number) -> sp.Expr:
    """-⟨Σ_s A_s log A_s⟩ of one softmax row, log T at V = 0; as `overlap`.

    >>> softmax_entropy(16, 0)
    log(16)
    """
    return Overlap(T, V, 0, ENTROPY)
