"""What every derivation of a residual recursion's laws needs: abbreviations of its variances, K from its sources, and
how K's law moves its tangent."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from meanfield.base.symbols import K
from meanfield.symbolic.asymptotics.comparing import added, log_of, summed
from meanfield.symbolic.asymptotics.exponent_cells import At, Undecided
from meanfield.symbolic.asymptotics.log_growth import Growth, SignOracle, exponential, product, regular
from meanfield.symbolic.asymptotics.schedules.branch import Asymptote, Branch, Variance

EVERY = "every start"
RESTS = "V = 1: q converges where its flow falls through 0 (numbers say where)"
UNASKED = regular(None)  # where a law was not wanted


@dataclass(frozen=True)
class Regime:
    """One attracting behaviour: K, q and the averages ⟨φ²⟩_q, ⟨φ′²⟩_q in block l, and J over the blocks before it.

    regime: in words; basin: the starts that end here. For two inputs: the end of q, where it goes to one; what drives K
    ("feedback", "source", "tie", "weak", "rest", "slow", "slow fall"), and the share of it that is a source. limit: of
    a network of L blocks, the equations in t = l/L that the laws' functions of t solve; plain: the same in l, where no
    variance knows L; quotients: local factors over J where both outgrow powers of L and cancel. conditional: whether
    numbers decide that there is such a behaviour, and for which starts.
    """

    K: Growth
    q: Growth
    square: Growth
    slope: Growth | None
    J: Growth | None
    regime: str
    basin: str = EVERY
    end: Asymptote | None = None
    drive: str = ""
    share: sp.Expr = sp.S.Zero
    limit: tuple[sp.Eq, ...] = ()
    plain: Regime | None = None
    quotients: tuple[tuple[str, Growth], ...] = ()
    conditional: bool = False

    @property
    def grows_by_source(self) -> bool:
        """Whether K grows by what both of two inputs share, and not by itself."""
        return self.drive == "source" or self.share == 1


@dataclass(frozen=True)
class Derivation:
    """What all regimes of one branch share; `strength` is S = σ_v²σ_w² as a coordinate of the oracle, if it is one."""

    branch: Branch
    oracle: SignOracle
    gradients: bool = True
    strength: sp.Expr | None = None
    inside: bool = True  # whether q and the averages over it are wanted, which may ask more questions

    @property
    def S(self) -> sp.Expr:
        return self.branch.strength if self.strength is None else self.strength

    @property
    def V(self) -> sp.Expr:
        return self.branch.v.beta + self.branch.w.beta

    def sign(self, form: sp.Expr) -> int:
        return self.oracle.sign(form)

    def falls(self, one: Variance) -> Growth:
        """A variance in block l."""
        return regular(one.size, -one.beta)

    def source_a(self) -> Growth | None:
        """σ_a² l^{-β_a}."""
        a = self.branch.a
        return None if a is None else regular(a.size, -a.beta)

    def inner(self, K_: Growth) -> Growth:
        """The share of K in q."""
        w = self.branch.w
        return K_ * regular(w.size, -w.beta)

    def bias(self) -> Growth | None:
        """The share of the biases in q."""
        b = self.branch.b
        return None if b is None else regular(b.size, -b.beta)

    def variance(self, K_: Growth) -> Growth:
        """q."""
        own, other = self.inner(K_), self.bias()
        if other is None or not own.is_regular:
            return own
        return added([own, other], self.oracle)

    def from_sources(self, feedback: sp.Expr, *sources: Growth | None) -> Growth:
        """K under K' = K + (feedback/l) K + Σ sources: each source alone, and what the start leaves."""
        parts = [regular(None, feedback)]
        for one in sources:
            if one is not None:
                grown = summed(one * regular(1, -feedback), self.oracle)
                parts += [] if grown is None else [grown * regular(1, feedback)]
        return added(parts, self.oracle)

    def _through(self, end: Asymptote) -> Growth | None:
        """What the biases b alone send through the branch, σ_v² l^{-β_v} v (σ_b² l^{-β_b})^a."""
        v, other = self.branch.v, self.bias()
        return None if other is None or end.is_flat else regular(v.size, -v.beta) * self.at(end.of_square, other)

    def at(self, law: tuple[sp.Expr, sp.Expr, sp.Expr], q: Growth) -> Growth:
        """v q^a |log q|^k."""
        a, k, v = law
        found = q**a * regular(v)
        return found * log_of(q, self.oracle) ** k if k != 0 else found

    def _drive(self, K_: Growth, W: sp.Expr) -> str:
        """Whether K outgrows what its linear feedback leaves, by a power ("source") or a logarithm ("tie")."""
        gap = K_ / regular(1, W)
        if self.sign(gap.exponent) > 0:
            return "source"
        return "tie" if gap.power_of(1) != 0 else "feedback"

    def _gain(self, end: Asymptote) -> sp.Expr:
        """W = S v of an end where ⟨φ²⟩_q ~ v q."""
        return self.S * end.of_square[2]

    def _without_feedback(self, end: Asymptote) -> Growth:
        """K at q → 0 without feedback."""
        return self.from_sources(sp.S.Zero, self.source_a(), self._through(end))

    def _slope_at(self, q: sp.Expr) -> sp.Expr:
        if self.branch.degree is None:
            return self.branch.slope.xreplace({K: q})
        a1, _, v1 = self.branch.zero.of_slope
        return v1 * q**a1

    def _regime(
        self,
        K_: Growth,
        end: Asymptote,
        regime: str,
        basin: str = EVERY,
        drive: str = "weak",
        share: sp.Expr = sp.S.Zero,
    ) -> Regime:
        """q at one of its ends."""
        faint = self.gradients and end.of_slope[0] * (-1 if end.square.point != 0 else 1) >= 0  # ⟨φ′²⟩ stays bounded
        if not self.inside and (not self.gradients or (faint and self.sign(1 - self.V) < 0)):
            J_ = regular(None) if self.gradients else None  # Σ l^{-V} converges
            return Regime(
                K_, UNASKED, UNASKED, UNASKED if self.gradients else None, J_, regime, basin, end, drive, share
            )
        q = self.variance(K_)
        square = self.at(end.of_square, q)
        if not self.gradients:
            return Regime(K_, q, square, None, None, regime, basin, end, drive, share)
        slope = self.at(end.of_slope, q)
        return Regime(K_, q, square, slope, self._jacobian(slope, end), regime, basin, end, drive, share)

    def _jacobian(self, slope: Growth, end: Asymptote) -> Growth:
        """J = Π (1 + S l^{-V} ⟨φ′²⟩_q)."""
        if end.of_slope[:2] == (0, 0):  # ⟨φ′²⟩ tends to a number
            found = product(self.S * end.of_slope[2], self.V, self.oracle)
            bent = len(end.slope_expansion.terms) > 1 or not isinstance(end.slope_expansion.remainder, str)
            if found.is_regular or not bent or end.is_linear:
                return found
            return (
                replace(found, leading=True)
                if found.terms
                else exponential(self.S * end.of_slope[2] / (1 - self.V), 1 - self.V, leading=True)
            )
        rate = slope * regular(self.S, -self.V)
        steep = end.square.point != 0 and end.of_slope[:2] > (0, 0)  # ⟨φ′²⟩ grows with q
        if steep and (not rate.is_regular or self.sign(rate.exponent) >= 0):
            raise Undecided(f"<phi'^2> of {self.branch.phi} grows with q, so J outgrows every law of this library")
        if not rate.is_regular:
            return regular(None)  # it falls faster than every power
        return self.tangent(rate)

    def tangent(self, rate: Growth) -> Growth:
        """J = Π (1 + rate), up to a constant."""
        total = summed(rate, self.oracle)
        if total is None:
            return regular(None)
        if total.constant is None:
            raise Undecided("log J grows with a coefficient that depends on the start; no law is derived there")
        return self._exp(total)

    def _exp(self, total: Growth) -> Growth:
        """exp of a sum that grows, up to a constant; what grows less is left out where the sum outgrows log l."""
        powers = [total.power_of(i) for i in range(3)]
        if self.sign(powers[0]) > 0:
            return exponential(total.constant, *powers, leading=True)
        if powers[1:] == [1, 0]:
            return regular(None, total.constant)
        if powers[1] > 1 or (powers[1] == 1 and powers[2] > 0):  # what follows is of order log l
            return exponential(total.constant, *powers, leading=True)
        if powers[1:] == [0, 1]:
            return regular(None, 0, total.constant)
        return Growth((((sp.S.Zero, *powers[1:], sp.S.Zero), total.constant),), (), None)


def sign_of(e: sp.Expr) -> int:
    """The sign of a number, or of what symbols > 0 decide."""
    if e.is_positive or e.is_negative:
        return 1 if e.is_positive else -1
    if e.free_symbols:
        raise Undecided(f"V = 1: the next order decides, by the sign of {e}, which needs numbers")
    return At({}).sign(e)
