r"""Large-depth laws of residual networks whose variances fall as powers of the block's number l,

    K → K + σ_v² l^{-β_v} ⟨φ²⟩_q + σ_a² l^{-β_a},    q = σ_w² l^{-β_w} K + σ_b² l^{-β_b},    and of their tangents.

What K becomes is a balance of powers: its own source l^{-β_a}, what the biases b send through the branch, and what K
feeds back. V = β_v + β_w decides how strong the feedback is: for V < 1 it drives q to ∞, for V > 1 the sources decide
alone, at V = 1 q follows dq/dlog l = S⟨φ²⟩_q + c - β_w q. Each case asks an oracle for signs of affine forms in the
exponents and nothing else, so that the same lines answer at numbers and, by splitting, everywhere (`exponent_cells`).

Source: derived here (dominant balance). The tables of [variance_variation] are what it is tested against.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from meanfield.symbolic.asymptotics.comparing import compared, log_of, summed
from meanfield.symbolic.asymptotics.exponent_cells import At, Undecided
from meanfield.symbolic.asymptotics.log_growth import Growth, inverse_gamma, product, regular
from meanfield.symbolic.asymptotics.schedules.balance import Balance
from meanfield.symbolic.asymptotics.schedules.branch import Asymptote
from meanfield.symbolic.asymptotics.schedules.marginal import Marginal
from meanfield.symbolic.asymptotics.schedules.regimes import EVERY, UNASKED, Regime


@dataclass(frozen=True)
class Solver(Marginal):
    """The derivation for one branch, in every regime."""

    def regimes(self) -> list[Regime]:
        """Every attracting behaviour; more than one where the start decides."""
        if self.branch.degree == 1:
            return [self._linear()]
        strong = self.sign(1 - self.V)
        return self._strong() if strong > 0 else self._weak() if strong < 0 else self._marginal()

    def _linear(self) -> Regime:
        """⟨φ²⟩_q = v q: the sum of what sources send, exactly."""
        W, V, end = self._gain(self.branch.zero), self.V, self.branch.zero
        strong = self.sign(1 - V)
        if strong > 0:
            K_, regime = product(W, V, self.oracle), "linear feedback, V < 1"
        elif strong == 0:
            K_, regime = self.from_sources(W, self.source_a(), self._through(end)), "linear feedback, V = 1"
        else:
            K_, regime = self.from_sources(sp.S.Zero, self.source_a(), self._through(end)), "sources alone, V > 1"
        J_ = product(W, V, self.oracle)
        if strong == 0:
            J_ = regular(inverse_gamma(W), W)
        elif strong < 0:
            m = sp.Symbol("m", integer=True, positive=True)
            J_ = regular(sp.Product(1 + W * m**-V, (m, 1, sp.oo)))
        q = self.variance(K_) if self.inside else UNASKED
        slope = regular(end.of_slope[2]) if self.gradients else None
        square = self.at(end.of_square, q) if self.inside else UNASKED
        drive = "weak" if strong < 0 else "feedback" if strong > 0 else self._drive(K_, W)
        return Regime(K_, q, square, slope, J_ if self.gradients else None, regime, end=end, drive=drive)

    def _strong(self) -> list[Regime]:
        end = self.branch.infinity
        if end.is_linear:
            K_ = product(self._gain(end), self.V, self.oracle)
            return self._with_trap(K_, end, "V < 1: linear feedback, q → ∞", "feedback")
        alone = self._fed_back(end)
        source = self.source_a()
        grown = None if source is None else summed(source, self.oracle)
        regime = "V < 1: q → ∞"
        if grown is None:
            return self._with_trap(alone, end, regime, "feedback")
        order = compared(grown, alone, self.oracle)
        K_ = grown if order > 0 else alone if order < 0 else self._tied(end, alone)
        drive = {1: "source", -1: "feedback", 0: "tie"}[order]
        shared = source.constant / (K_.exponent * K_.constant) if order == 0 and source is not None else sp.S.Zero
        return self._with_trap(K_, end, regime, drive, shared)

    def _with_trap(
        self, K_: Growth, end: Asymptote, regime: str, drive: str, share: sp.Expr = sp.S.Zero
    ) -> list[Regime]:
        """q → ∞, and q → 0 where small starts stay there."""
        trap = self._trapped()
        return [self._regime(K_, end, regime, "large starts" if trap else EVERY, drive, share), *trap]

    def _fed_back(self, end: Asymptote) -> Growth:
        """K under K' = K + σ_v² l^{-β_v} v (σ_w² l^{-β_w} K)^a |log q|^k alone, 0 ≤ a < 1, where it grows."""
        v, w = self.branch.v, self.branch.w
        a, k, c = end.of_square
        A = v.size * c * w.size**a
        e = 1 - v.beta - a * w.beta
        if self.sign(e) == 0:
            if k != 0:
                raise Undecided("A feedback with a logarithm that just grows has no law here.")
            return regular((A * (1 - a)) ** (1 / (1 - a)), 0, 1 / (1 - a))
        found = regular((A * (1 - a) / e) ** (1 / (1 - a)), e / (1 - a))
        if k == 0:
            return found
        return found * log_of(self.inner(found), self.oracle) ** (k / (1 - a))

    def _tied(self, end: Asymptote, alone: Growth, bias: bool = False) -> Growth:
        """K ~ C l^e where the feedback and sources of the same power meet: e C = A (σ_w² C + σ_b²)^a + σ_a²."""
        v, w, other = self.branch.v, self.branch.w, self.branch.b
        a, k, c = end.of_square
        if k != 0:
            raise Undecided("Feedback with a logarithm and a source of the same power meet; no law is derived there.")
        source = self.source_a()
        s = sp.S.Zero
        if source is not None and self.sign(1 + source.exponent - alone.exponent) == 0:
            s = source.constant
        b = other.size if bias and other is not None else sp.S.Zero
        C = Balance(alone.exponent, v.size * c, w.size, b, a, s).doit()
        return replace(alone, constant=C)

    def _trapped(self) -> list[Regime]:
        """q → 0 beside q → ∞, where ⟨φ²⟩_q vanishes faster than q: the start decides."""
        end = self.branch.zero
        a = end.of_square[0]
        if a <= 1:
            return []
        if end.is_flat:  # the edge falls as 1/log l: what stays above it is no power that falls
            found = self._without_feedback(end)
            stays = compared(self.variance(found), regular(1), self.oracle) >= 0
            return [] if stays else [self._lost(found, "V < 1: q → 0, the feedback is lost", "small starts")]
        # the edge between the two falls as l^{-(1 - V)/(a - 1)}; below it the feedback is lost
        found = self._without_feedback(end)
        q = self.variance(found)
        edge = regular(1, -(1 - self.V) / (a - 1))
        order = compared(q, edge, self.oracle)
        if order > 0 or (order == 0 and self._leaves_edge(end)):
            return []
        if order == 0:
            raise Undecided(
                "V < 1: a source as strong as the feedback of small q may hold small starts at q → 0 (the σ's decide); "
                "no law is derived on this edge"
            )
        return [self._regime(found, end, "V < 1: q → 0, the feedback is lost", "small starts")]

    def _leaves_edge(self, end: Asymptote) -> bool:
        """Whether K = k l^p leaves the edge below which q is trapped, where a source is as large: whether
        dk/dlog l = A (σ_w² k + b)^a + s - p k is > 0 at every k, a > 1, A, p > 0.
        """
        a, n, c = end.of_square
        v, w, own, other = self.branch.v, self.branch.w, self.branch.a, self.branch.b
        p = w.beta - (1 - self.V) / (a - 1)
        if self.sign(p) <= 0:  # K cannot fall as the edge does
            return True
        s = own.size if own is not None and self.sign(1 - own.beta - p) == 0 else sp.S.Zero
        b = other.size if other is not None and self.sign(w.beta - other.beta - p) == 0 else sp.S.Zero
        A = v.size * c
        lowest = (p / (A * a * w.size)) ** (1 / (a - 1))  # of x = σ_w² k + b
        if n != 0 or (lowest - b).free_symbols | s.free_symbols:
            return False
        here = At({})
        return here.sign(lowest - b) <= 0 or here.sign(A * lowest**a + s - p * (lowest - b) / w.size) > 0

    def _weak(self) -> list[Regime]:
        a, b, w, v = self.branch.a, self.branch.b, self.branch.w, self.branch.v
        inner_moves = self.sign(w.beta) > 0
        reach = -1 if a is None else self.sign(1 - a.beta - w.beta)
        grown = None if a is None else summed(self.source_a(), self.oracle)  # type: ignore[arg-type]
        if grown is not None and (reach > 0 or (reach == 0 and not inner_moves)):
            return [self._regime(grown, self.branch.infinity, "V > 1: q → ∞ by its own source")]
        flat = b is not None and self.sign(b.beta) == 0
        if reach == 0 and grown is not None and a is not None:
            q = w.size * a.size / w.beta + (b.size if flat and b is not None else 0)
            return [self._converging(grown, q, "V > 1: q converges by its own source")]
        if not inner_moves:
            return [self._converging(regular(None), None, "V > 1: K and q tend to what the start says")]
        if flat and b is not None:
            through = regular(v.size * self._square_at(b.size), -v.beta)
            K_ = self.from_sources(sp.S.Zero, self.source_a(), through)
            return [self._converging(K_, b.size, "V > 1: q converges to the variance of its biases")]
        return [self._fading()]

    def _fading(self) -> Regime:
        """q → 0."""
        end, regime = self.branch.zero, "V > 1: q → 0"
        a, _, c = end.of_square
        v, w = self.branch.v, self.branch.w
        if a == 0:
            K_ = self.from_sources(sp.S.Zero, self.source_a(), regular(v.size * c, -v.beta))
            return self._regime(K_, end, regime)
        quiet = self._without_feedback(end)
        if end.is_flat:
            return self._lost(quiet, regime)
        if a >= 1 or self.sign(1 - v.beta - a * w.beta) < 0:
            return self._regime(quiet, end, regime)
        alone = self._fed_back(end)
        order = compared(alone, quiet, self.oracle)
        if order < 0:
            return self._regime(quiet, end, regime)
        other, s = self.bias(), self.source_a()
        meets = other is not None and compared(self.inner(alone), other, self.oracle) == 0
        if not meets and (order > 0 or self.sign(alone.exponent) == 0):
            return self._regime(alone, end, regime, EVERY, "slow" if self.sign(alone.exponent) == 0 else "feedback")
        K_ = self._tied(end, alone, meets)
        e, C, w2 = alone.exponent, K_.constant, w.size
        # of the variance q = Q l^{e - β_w} that φ is given, what both of two inputs have in common
        own = s.constant if s is not None and order == 0 and self.sign(1 + s.exponent - e) == 0 else sp.S.Zero
        held = other.constant if meets and other is not None else sp.S.Zero
        share = (w2 * own + e * held) / (e * (w2 * C + held))
        return self._regime(K_, end, regime, EVERY, "tie", share)
