r"""Which power of L a residual network of L blocks gives K, and who makes it, for variances σ² l^{-β} L^{-δ}:

    K ~ L^κ,  q ~ L^y,  y = max(κ - b_w, -b_b),  b = β + δ,  κ = max(0, 1 - b_a, 1 - b_v + a·y),

a the power of ⟨φ²⟩_q at the end of q that y points to. K starts at Θ(1) and never falls, so the least κ is reached. At
the scale l = L^s every exponent is s(1 - β) - δ in the place of 1 - b; each is ≤ 0 at s = 0 and convex in s, so that
what grows is made at l of the order of L.

Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from meanfield.symbolic.asymptotics.exponent_cells import Undecided
from meanfield.symbolic.asymptotics.log_growth import SignOracle
from meanfield.symbolic.asymptotics.schedules.branch import Asymptote, Branch, Variance


@dataclass(frozen=True)
class Scale:
    """The powers of L at l = tL: of K and of the variance q that φ is given, with its sign.

    on_w, on_b: whether K's share and the biases' share of the inner Dense are of the order of what it puts out (y_d,
    q before a LayerNorm there); fed, sourced: whether K grows, in this order, by its feedback and by its own source;
    exploding: whether K grows faster than every power of L.
    """

    kappa: sp.Expr
    y: sp.Expr
    sign: int
    y_d: sp.Expr
    on_w: bool
    on_b: bool
    fed: bool
    sourced: bool
    exploding: bool = False


@dataclass(frozen=True)
class Scales:
    """Powers of L of one branch; at: the place s of the scale l = L^s, 1 for the end of the network."""

    branch: Branch
    oracle: SignOracle
    at: sp.Expr = sp.S.One

    def sign(self, form: sp.Expr) -> int:
        return self.oracle.sign(sp.expand(form))

    def fall(self, one: Variance) -> sp.Expr:
        """What a variance loses, as a power of L."""
        return self.at * one.beta + one.total

    def end(self, sign: int) -> Asymptote:
        """The end of q that a power of that sign points to."""
        return self.branch.zero if sign < 0 else self.branch.infinity

    def square_power(self, sign: int) -> sp.Expr:
        """The power of q in ⟨φ²⟩_q."""
        if sign == 0:
            return sp.S.Zero
        a, k, _ = self.end(sign).of_square
        if k != 0:
            raise Undecided("⟨φ²⟩_q has a logarithm of q there; no law in L is derived")
        return a

    def inner(self, kappa: sp.Expr) -> tuple[sp.Expr, bool, bool]:
        """(the power of L of what the inner Dense puts out, whether K and whether the biases make it)."""
        w, b = self.branch.w, self.branch.b
        own = (sp.S.Zero if self.branch.norm == "first" else kappa) - self.fall(w)
        if b is None:
            return own, True, False
        order = self.sign(own + self.fall(b))
        return (own if order >= 0 else -self.fall(b)), order >= 0, order <= 0

    def given(self, kappa: sp.Expr) -> tuple[sp.Expr, int]:
        """The power of L of the variance q that φ is given, and its sign."""
        y = sp.S.Zero if self.branch.norm == "inner" else self.inner(kappa)[0]
        return y, self.sign(y)

    def feedback(self, kappa: sp.Expr) -> sp.Expr:
        """The power of L of what the branch adds to K by l = L^s."""
        y, sign = self.given(kappa)
        return self.at - self.fall(self.branch.v) + self.square_power(sign) * y

    def scale(self, floor: sp.Expr = sp.S.Zero) -> Scale:
        """The least κ ≥ floor that reproduces itself."""
        a = self.branch.a
        source = None if a is None else self.at - self.fall(a)
        kappa = floor
        if source is not None and self.sign(source - floor) > 0:
            kappa = source
        exploding = False
        for _ in range(4):
            if self.sign(self.feedback(kappa) - kappa) <= 0:
                break
            higher = self._higher(kappa)
            if higher is None:
                exploding = True
                break
            kappa = sp.expand(higher)
        y, sign = self.given(kappa)
        y_d, on_w, on_b = self.inner(kappa)
        fed = exploding or self.sign(self.feedback(kappa) - kappa) == 0
        sourced = not exploding and source is not None and self.sign(source - kappa) == 0
        return Scale(kappa, y, 1 if exploding else sign, y_d, on_w, on_b, fed, sourced, exploding)

    def _higher(self, kappa: sp.Expr) -> sp.Expr | None:
        """The next κ where K outgrows `kappa` by its feedback; None where no power holds it."""
        found, (_, sign), (_, on_w, _) = self.feedback(kappa), self.given(kappa), self.inner(kappa)
        if self.branch.norm:
            return found
        v, w, b = self.branch.v, self.branch.w, self.branch.b
        if not on_w:
            assert b is not None
            edge = self.fall(w) - self.fall(b)  # from here on K makes q
            return found if self.sign(found - edge) <= 0 else edge
        strong = self.at - self.fall(v) - self.fall(w)
        if sign < 0:
            a = self.square_power(-1)
            if a < 1 and self.sign(strong) <= 0:
                return (self.at - self.fall(v) - a * self.fall(w)) / (1 - a)
        a = self.square_power(1)
        return None if a == 1 else (self.at - self.fall(v) - a * self.fall(w)) / (1 - a)
