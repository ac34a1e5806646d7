r"""Laws in L, the number of blocks, at l = tL of residual networks whose variances fall as σ² l^{-β} L^{-δ}.

K ~ L^κ k(t), and k solves the balance of the terms of that order (`total_scales`),

    dk/dt = σ_v² t^{-β_v} ⟨φ²⟩_q + σ_a² t^{-β_a},    q = σ_w² t^{-β_w} k + σ_b² t^{-β_b},

⟨φ²⟩_q in full where q is Θ(1), by its leading power where q → 0 or ∞, with k(0) = K_0 where κ = 0, else 0. So does
log J ~ L^ρ j(t), dj/dt = S t^{-V} ⟨φ′²⟩_q. What is linear or one power is solved, other equations are returned as they
are. Source: derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import L
from meanfield.symbolic.asymptotics.exponent_cells import Undecided
from meanfield.symbolic.asymptotics.in_total_depth.total_equations import K_0, equal, in_t, k, linear, t
from meanfield.symbolic.asymptotics.in_total_depth.total_marginal import marginal
from meanfield.symbolic.asymptotics.in_total_depth.total_moves import Moves
from meanfield.symbolic.asymptotics.in_total_depth.total_profile import EPS, DistanceRatio, profile
from meanfield.symbolic.asymptotics.in_total_depth.total_scales import Scale
from meanfield.symbolic.asymptotics.in_total_depth.total_tangents import slow_tangent, tangent
from meanfield.symbolic.asymptotics.log_growth import CONSTANT, Growth, exponential, regular
from meanfield.symbolic.asymptotics.schedules.branch import Asymptote
from meanfield.symbolic.asymptotics.schedules.normed import regimes as regimes_in_l
from meanfield.symbolic.asymptotics.schedules.regimes import Regime
from meanfield.symbolic.asymptotics.schedules.residual import Solver


class TotalSolver(Moves):
    """The derivation for one branch, as `Solver` is where no variance knows L."""

    def regimes(self) -> list[Regime]:
        """The behaviour at l = tL; several where no variance falls with L and the start decides."""
        if self.sign(sp.Add(*[one.total for one in self.branch.variances])) == 0:
            plain = Solver(self.branch, self.oracle, self.gradients, self.strength, self.inside)
            try:
                return [_in_t(one) for one in regimes_in_l(plain)]
            except MeanFieldError as error:
                raise Undecided(str(error)) from None
        if not self.branch.norm:
            if self.sign(self.D) == 0 and self.sign(1 - self.V) == 0:
                return marginal(self)
            self._require_depth()
        scale = self.scales.scale()
        found = self._exploding(scale) if scale.exploding else self._at(scale)
        return [found]

    def _require_depth(self) -> None:
        """Refuse a feedback without L where the first blocks decide, and one that φ cuts off at small q."""
        if self.branch.zero.is_flat and self.sign(self.branch.w.total) > 0:
            raise Undecided(
                f"{self.branch.phi} is 0 around 0, so that a q that falls with L brings nothing back; no law in L is "
                "derived"
            )
        if self.sign(self.D) != 0:
            return
        if self.sign(1 - self.V) > 0 and self.branch.zero.of_square[0] > 1:
            raise Undecided("no L in a feedback that small starts lose: the first blocks decide; no law is derived")

    # -------------------------------------------------------------------------------------------------------- K

    def _at(self, scale: Scale) -> Regime:
        """K a power of L."""
        moves = scale.fed or scale.sourced
        if moves and (slow := self._logarithmic(scale)) != 0:
            return self._at_every_scale(scale, slow)
        equation = self.equation(scale) if moves else None
        size = self.solved(scale) if moves else K_0
        limit: tuple[sp.Eq, ...] = ()
        if equation is not None:
            start = K_0 if self.sign(scale.kappa) == 0 else sp.S.Zero
            limit = (equal(sp.Derivative(k(t), t), equation), equal(k(0), start))
        at = k(t) if size is None else size
        K_ = regular(at, scale.kappa)
        across = self.across(scale, at)
        q = regular(across, scale.y_d)
        square = self.average(self.branch.square, "square", scale, at)
        J_ = slope = None
        words = self._words(scale)
        if self.gradients:
            slope = self.average(self.branch.slope, "slope", scale, at)
            try:
                J_, more = tangent(self, scale, at, size is not None)
                limit += more
            except Undecided as error:
                words += f"; of J: {error}"
        return Regime(K_, q, square, slope, J_, words, drive="total", limit=limit)

    def _words(self, scale: Scale) -> str:
        where = {-1: "q → 0", 0: "q stays of order 1", 1: "q → ∞"}[scale.sign]
        if self.branch.norm:
            where = f"behind LayerNorm, {where}"
        by = [n for n, one in (("its feedback", scale.fed), ("its source", scale.sourced)) if one]
        if self.branch.norm and scale.fed:
            by[0] = "its branch"
        if not by:
            return f"l = tL: K stays where it starts; {where}"
        if self.sign(scale.kappa) == 0:
            return f"l = tL: K stays of order 1 and moves by {' and '.join(by)}; {where}"
        return f"l = tL: K grows by {' and '.join(by)}; {where}"

    def _logarithmic(self, scale: Scale) -> sp.Expr:
        """c of K ~ c log L, from terms c/m at every scale of l; 0 where there are none."""
        if self.sign(scale.kappa) != 0:
            return sp.S.Zero
        v, c = self.branch.v, sp.S.Zero
        if scale.sourced and self.branch.a is not None and self.sign(self.branch.a.total) == 0:
            c += self.branch.a.size
        if not scale.fed:
            return c
        if scale.sign == 0:
            across = sp.S.One if self.branch.norm == "inner" else self.across(scale, K_0)
            return c + (v.size * self.value("square", across) if self.sign(v.total) == 0 else 0)
        a = self.scales.square_power(scale.sign)
        makers = [one for one in self.makers(scale) if self.sign(v.total + a * one.total) == 0]
        if not makers:
            return c
        if a != 0 and not self.branch.norm and self.branch.w in makers:
            raise Undecided("K feeds back at every scale of l with no L in it; no law in L is derived")
        size = v.size * self.branch.zero.of_square[2]
        return c + size * (sp.S.One if a == 0 else sp.Add(*[one.size for one in makers]) ** a)

    def _at_every_scale(self, scale: Scale, c: sp.Expr) -> Regime:
        """K ~ c log L where the last blocks begin, which a feedback that is linear multiplies by a number."""
        branch, own = self.branch, scale.on_w and not self.branch.norm
        far = own and scale.sign == 0  # q ~ log L
        end = branch.infinity if far else branch.zero
        a, n, gain = end.of_square
        size, limit = c, tuple[sp.Eq, ...]()
        if scale.fed and own:
            if n != 0 or a > 1:
                raise Undecided("K grows as log L and feeds back by more than its first power; no law is derived")
            if a == 1:
                size = linear(c, branch.strength * gain, self.V, [])
                limit = (equal(sp.Derivative(k(t), t), branch.strength * gain * t**-self.V * k(t)), equal(k(0), c))
        K_ = regular(size, 0, 1)
        most = scale.on_w and branch.norm != "first"  # K's share outgrows the biases' by log L
        q = regular(self.across(replace(scale, on_b=False) if most else scale, size), scale.y_d)
        q = q * regular(1, 0, 1) if most else q
        given = regular(1) if branch.norm == "inner" else q
        square, slope, J_ = self._by_end(end, "square", given, scale.sign == 0 and not far), None, None
        words = "l = tL: K grows as log L, by sums over all scales of l"
        if self.gradients:
            slope = self._by_end(end, "slope", given, scale.sign == 0 and not far)
            rate = slope * regular(branch.strength * t**-self.V, -branch.v.fall - branch.w.fall)
            rho = 1 + rate.exponent - (scale.y_d if branch.norm == "inner" else 0)
            try:
                J_ = slow_tangent(self, rho, rate)
            except Undecided as error:
                words += f"; of J: {error}"
        return Regime(K_, q, square, slope, J_, words, drive="slow", limit=limit)

    def _by_end(self, end: Asymptote, which: str, q: Growth, still: bool) -> Growth:
        if still:
            assert q.constant is not None
            return regular(self.value(which, q.constant))
        a, n, v = end.of_square if which == "square" else end.of_slope
        if n != 0:
            raise Undecided("an average has a logarithm of q, and q one of L; no law in L is derived")
        return q**a * regular(v)

    # -------------------------------------------------------------------------------------------------------- J

    # ----------------------------------------------------------------------------------------------- two inputs

    # ------------------------------------------------------------------------------------- K beyond every power

    def _exploding(self, scale: Scale) -> Regime:
        """⟨φ²⟩_q ~ v q at q → ∞ and 1 - V - Δ > 0: log K ~ W t^{1-V}/(1-V) L^{1-V-Δ}."""
        end, rho = self.branch.infinity, sp.expand(1 - self.branch.v.fall - self.branch.w.fall)

        def outgrown(gain: sp.Expr) -> Growth:
            W = self.branch.strength * gain
            if self.sign(rho - 1) == 0:  # the same factor in every block
                return exponential(sp.log(1 + W) * t, rho, leading=True)
            return exponential(W * t ** (1 - self.V) / (1 - self.V), rho, leading=True)

        K_ = outgrown(end.of_square[2])
        q = K_ * self.falls(self.branch.w)
        square, slope, J_ = q.times(end.of_square[2]), None, None
        quotients: tuple[tuple[str, Growth], ...] = ()
        words = "l = tL: linear feedback, q → ∞"
        if self.gradients:
            if end.of_slope[:2] != (0, 0):
                raise Undecided("⟨φ′²⟩_q tends to no number at q → ∞; no law in L is derived")
            slope, J_ = regular(end.of_slope[2]), outgrown(end.of_slope[2])
            if end.of_slope[2] == end.of_square[2]:
                try:
                    quotients = self._quotients(profile(self)[-1])
                except Undecided as error:
                    words += f"; of K/J: {error}"
        return Regime(K_, q, square, slope, J_, words, drive="total", quotients=quotients)

    def _quotients(self, last: DistanceRatio) -> tuple[tuple[str, Growth], ...]:
        """G_w of both layers over J^{1,L}: K/J stays the power of L that it is when the feedback takes over."""
        beside, v, w = sp.expand(last.scale.kappa - last.J), self.branch.v, self.branch.w
        powers = (("G_w[1]", v), ("G_w[2]", w))
        return tuple(
            (name, regular(CONSTANT * t**-one.beta, beside.coeff(EPS, 0) - one.fall, beside.coeff(EPS, 1)))
            for name, one in powers
        )


def _in_t(regime: Regime) -> Regime:
    """Laws in l at l = tL."""
    if any(g is not None and g.products for g in (regime.K, regime.J)):
        raise Undecided("a product over blocks that knows no L; its law is that in l, with l = tL")
    return replace(_each(regime, in_t), regime=f"l = tL: {regime.regime}", plain=regime)


def _each(regime: Regime, function: Callable[[Growth], Growth]) -> Regime:
    """`function` applied to every law."""
    slope, J_ = (None if g is None else function(g) for g in (regime.slope, regime.J))
    over = tuple((name, function(one)) for name, one in regime.quotients)
    K_, q, square = map(function, (regime.K, regime.q, regime.square))
    return replace(regime, K=K_, q=q, square=square, slope=slope, J=J_, quotients=over)


def regimes(solver: Solver | TotalSolver) -> list[Regime]:
    """Every attracting behaviour of a branch, in L where its variances know it."""
    if isinstance(solver, TotalSolver):
        return [_each(one, lambda g: replace(g, of=L)) for one in solver.regimes()]
    return regimes_in_l(solver)
