"""How K and J behave near a critical point: coefficients and laws, at K* > 0 computed when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import sympy as sp

from meanfield import balls
from meanfield.functions.zeros import is_zero
from meanfield.results import Solution, Status, Term
from meanfield.symbolic.asymptotics.depth import DepthLaw, critical_law, is_negative
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.criticality.lines import DIGITS
from meanfield.symbolic.fixed_points.roots import Root, from_ball, value_at
from meanfield.symbolic.recursion import closed
from meanfield.symbols import K

SHORT = 20  # operations up to which an exact coefficient is shown instead of its digits


@dataclass(frozen=True)
class Approach:
    """How K and J behave near a critical point, where all of it is known from the start; see `CriticalPoint`."""

    c_n: Solution | None = None
    d_1: Solution | None = None
    A: Solution | None = None
    zeta: Solution | None = None
    law_K: DepthLaw | None = None
    law_J: DepthLaw | None = None
    side: str = ""


def sign_at_root(e: sp.Expr, root: Root) -> int | None:
    """The sign of e at a root, 0 where the closed form is 0 there; None where it is not decided."""
    ball = value_at(e, root, 20)
    if not ball.contains(0):
        return 1 if ball > 0 else -1
    form = closed(e)
    known = ball.is_finite() and root.exact is not None and not form.has(Average)
    return 0 if known and is_zero(form.subs(K, root.exact)) else None


def value_at_root(root: Root, e, square_root=False, exact=False, digits=DIGITS) -> Solution:
    """The value at the root; the factor (1 - μ²) may be symbolic and stays outside the ball."""
    outer, inner = e.as_independent(K, Average, as_Add=False)
    if (exact or isinstance(root.exact, sp.Rational)) and root.exact is not None and not closed(inner).has(Average):
        value = outer * (closed(inner) if square_root else sp.simplify(closed(inner))).subs(K, root.exact)
        return Solution(sp.sqrt(value) if square_root else sp.radsimp(sp.simplify(value)), Status.EXACT)
    ball = value_at(inner, root, digits)
    with balls.precision(200):
        found = from_ball(ball if not square_root else ball.sqrt())
    factor = sp.sqrt(outer) if square_root else outer
    if factor.is_number:
        with balls.precision(200):
            return from_ball(balls.constant(factor) * (ball.sqrt() if square_root else ball))
    return Solution(factor * found.value, found.status, found.error, "times the symbolic factor")


class ApproachToRoot:
    """The same as `Approach` at a critical point K* > 0, each part computed once, when it is asked for.

    root: K*; a, slope: ⟨f²⟩ and ⟨f′²⟩ as functions of K; mu: the strength of the skip.
    """

    def __init__(self, root: Root, a: sp.Expr, slope: sp.Expr, mu: sp.Expr) -> None:
        self.root, self.a, self.slope, self.m = root, a, slope, 1 - mu**2

    @cached_property
    def second(self) -> sp.Expr:
        return sp.diff(self.a, K, 2)

    @cached_property
    def first(self) -> sp.Expr:
        return sp.diff(self.slope, K)

    @cached_property
    def c_n(self) -> Solution:
        return value_at_root(self.root, -self.m * self.second / self.slope / 2)

    @cached_property
    def d_1(self) -> Solution:
        return value_at_root(self.root, -self.m * self.first / self.slope)

    @cached_property
    def A(self) -> Solution:
        return Solution(1 / self.c_n.value, self.c_n.status, _inverse_error(self.c_n))

    @cached_property
    def zeta(self) -> Solution:
        return value_at_root(self.root, 2 * self.first / self.second, exact=True)

    @cached_property
    def sign(self) -> int:
        """δ = K - K* from above (1), K* - K from below (-1)."""
        return 1 if is_negative(-self.c_n.value) else -1

    @property
    def side(self) -> str:
        return "attracts from above, repels below" if self.sign > 0 else "attracts from below, repels above"

    @cached_property
    def laws(self) -> tuple[DepthLaw, DepthLaw]:
        """The laws of K and J, from the expansions of the maps to the order after the leading one."""
        root, m, sign = self.root, self.m, self.sign
        c3 = value_at_root(root, -m * sp.diff(self.a, K, 3) / self.slope / 6, digits=16)
        d2 = value_at_root(root, m * sp.diff(self.slope, K, 2) / self.slope / 2, digits=16)
        c, d, e, f = sp.symbols("c d e f", real=True, cls=sp.Dummy)
        numbers = {
            symbol: known.value if known.status is Status.EXACT else sp.N(known.value, 16)
            for symbol, known in ((c, self.c_n), (d, c3), (e, self.d_1), (f, d2))
        }
        whole = {c: -m * self.second / self.slope / 2, e: -m * self.first / self.slope}

        def kept(t: Term) -> Term:
            """The term at K*: what the leading orders determine alone, certified (exact where that is short)."""
            if t.coefficient.free_symbols & {d, f} or not t.coefficient.free_symbols & {c, e}:
                return replace(t, coefficient=t.coefficient.xreplace(numbers))
            value = t.coefficient.xreplace(whole)
            exact = value_at_root(root, value, exact=True).value
            return replace(t, coefficient=exact if exact.count_ops() <= SHORT else value_at_root(root, value).value)

        gain = {sp.Integer(2): -sign * c, sp.Integer(3): -d}
        chi = {sp.S.Zero: sp.S.One, sp.S.One: -sign * e, sp.Integer(2): f}
        law_k = critical_law(gain, chi, root.solution().value, "K")
        law_j = critical_law(gain, chi, root.mid, "J")
        law_k = replace(law_k, terms=tuple(map(kept, law_k.terms)), status=self.c_n.status)
        if sign < 0:
            law_k = replace(law_k, terms=(law_k.terms[0], *(_flipped(t) for t in law_k.terms[1:])))
        return law_k, replace(law_j, terms=tuple(map(kept, law_j.terms)), status=self.zeta.status)

    @property
    def law_K(self) -> DepthLaw:
        return self.laws[0]

    @property
    def law_J(self) -> DepthLaw:
        return self.laws[1]


def _inverse_error(s: Solution) -> float | None:
    if s.error is None or not s.value.is_number:
        return s.error
    return s.error / float(abs(s.value)) ** 2


def _flipped(term: Term) -> Term:
    return replace(term, coefficient=-term.coefficient)
