"""V = 1: q follows dq/dlog l = S⟨φ²⟩_q + c - β_w q, and rests, escapes or decays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from meanfield.base.answers.results import Status
from meanfield.base.symbols import K
from meanfield.symbolic.asymptotics.comparing import summed
from meanfield.symbolic.asymptotics.exponent_cells import Undecided
from meanfield.symbolic.asymptotics.log_growth import Growth, regular
from meanfield.symbolic.asymptotics.scaling import flow
from meanfield.symbolic.asymptotics.schedules.balance import Balance, Resting
from meanfield.symbolic.asymptotics.schedules.branch import Asymptote
from meanfield.symbolic.asymptotics.schedules.regimes import EVERY, RESTS, Derivation, Regime, sign_of
from meanfield.symbolic.asymptotics.schedules.stationary_variance import attractors, is_monotone, resting_points
from meanfield.symbolic.series.asymptotic_law import Law


@dataclass(frozen=True)
class Marginal(Derivation):
    """The laws of a branch where its feedback is as strong as a source (V = 1)."""

    def _marginal(self) -> list[Regime]:
        a, b, w = self.branch.a, self.branch.b, self.branch.w
        end = self.branch.infinity
        reach = -1 if a is None else self.sign(1 - a.beta - w.beta)
        if reach > 0:
            if end.of_square[0] == 1:
                K_ = self.from_sources(self._gain(end), self.source_a())
            else:
                K_ = summed(self.source_a(), self.oracle)  # type: ignore[arg-type,assignment]
            drive = self._drive(K_, self._gain(end)) if end.is_linear else "source"
            return [self._regime(K_, end, "V = 1: q → ∞ by its own source", EVERY, drive)]
        flat = b.size if b is not None and self.sign(b.beta) == 0 else sp.S.Zero
        s0 = w.size * a.size if reach == 0 and a is not None else sp.S.Zero
        c = s0 + w.beta * flat
        moves = self.sign(w.beta) > 0
        if not moves:
            c = s0
        return self._flow(c, flat, moves)

    def _flow(self, c: sp.Expr, flat: sp.Expr, moves: bool) -> list[Regime]:
        """The ends of dq/dlog l = S⟨φ²⟩_q + c - β_w q, q ≥ flat."""
        d = self.branch.w.beta if moves else sp.S.Zero
        zero, infinity = self.branch.zero, self.branch.infinity
        down = 1 if c != 0 or flat != 0 else self._pull(zero, c, d)  # the sign of the flow at q → 0
        numbers = not (sp.sympify(self.S).free_symbols | sp.sympify(c).free_symbols | sp.sympify(d).free_symbols)
        homogeneous = self.branch.degree is not None
        once = homogeneous or (is_monotone(self.branch.square) and (c == 0 or self._saturates))
        try:
            up = self._pull(infinity, c, d)  # and far out, 0 where that needs numbers
        except Undecided:
            if once or numbers:
                raise
            up = 0
        regimes: list[Regime] = []
        if once:
            if up < 0 < down:
                regimes.append(self._at_rest(Resting(self.branch.square, self.S, c, d), flat, "V = 1: q converges"))
            if up > 0:
                regimes.append(self._escape(c, d, EVERY if down > 0 else "large starts"))
            if down < 0:
                regimes.append(self._decay(d, EVERY if up < 0 else "small starts"))
            return regimes
        if d == 0 or (self._rises and self.sign(self._gain(zero) - d) >= 0):  # nothing holds q
            return [self._escape(c, d, EVERY)]
        if not numbers:
            return self._possible(c, d, flat, up, down)
        found = resting_points(self.branch.square, self.S, c, d)
        if any(p.K.value != 0 and p.stability not in ("stable", "unstable") for p in found):
            raise Undecided("V = 1: q is stationary where it is attracted from one side only; no law is derived there")
        if any(p.K.value != 0 and p.stability == "stable" and not p.is_exponential for p in found):
            raise Undecided(
                "V = 1: q is stationary where its flow vanishes to a higher order, to which it comes by a "
                "power of log l; no law is derived there"
            )
        for i, point in enumerate(attractors(self.branch.square, self.S, c, d)):
            if point.K.value + (point.K.error or 0) < flat:
                continue
            basin = EVERY if found.ends == 1 else _between(*(point.basin or (0, sp.oo)))
            regimes.append(
                self._at_rest(Resting(self.branch.square, self.S, c, d, i), flat, "V = 1: q converges", basin)
            )
        edges = [p.K.value for p in found if p.stability == "unstable" and p.K.value != 0]
        if up > 0:
            regimes.append(self._escape(c, d, _between(edges[-1], sp.oo) if edges else EVERY))
        if down < 0:
            regimes.append(self._decay(d, _between(0, edges[0]) if edges else EVERY))
        if found.status is Status.MEASURED:  # the list could miss a pair of places
            regimes = [replace(one, regime=f"{one.regime}, by a search that may miss a close pair") for one in regimes]
        return regimes

    def _possible(self, c: sp.Expr, d: sp.Expr, flat: sp.Expr, up: int, down: int) -> list[Regime]:
        """The ends of the same flow where symbols leave open how often it changes its sign: each that there may be."""
        lone = "starts near it; every start where it is the only one"
        there = lone if up < 0 < down else "starts near it, where there is one"
        regimes = [self._at_rest(Resting(self.branch.square, self.S, c, d), flat, RESTS, there)]
        if up >= 0:
            regimes.append(self._escape(c, d, "starts above all fixed points"))
        if down < 0:
            regimes.append(self._decay(d, "starts below all fixed points"))
        return [replace(one, conditional=True) for one in regimes]

    @property
    def _rises(self) -> bool:
        """Whether ⟨φ²⟩_q/q is proved to rise throughout, from a number > 0."""
        return self.branch.zero.is_linear and is_monotone(self.branch.square) and not self._saturates

    @property
    def _saturates(self) -> bool:
        """Whether ⟨φ²⟩_q/q is smaller at q → ∞ than at q → 0, which where it is monotone says that it falls."""
        (a, _, v), (b, _, u) = self.branch.zero.of_square, self.branch.infinity.of_square
        return b < 1 or a < 1 or (a == b == 1 and sign_of(v - u) > 0)

    def _pull(self, end: Asymptote, c: sp.Expr, d: sp.Expr) -> int:
        """The sign of S⟨φ²⟩_q + c - d q near one end, without c at q → 0."""
        a = end.of_square[0]
        far = end.square.point != 0
        if d == 0:
            return 1
        if a != 1:
            return 1 if (a > 1) == far else -1
        lead = self.sign(self._gain(end) - d)
        if lead:
            return lead
        return self._next_pull(end, c, far)

    def _next_pull(self, end: Asymptote, c: sp.Expr, far: bool) -> int:
        """The same where the linear terms cancel."""
        for term in end.square.terms[1:]:
            if far and term.power < 0 and c != 0:
                return 1
            constant = c / self.S if far and term.power == 0 and term.logs == 0 else 0
            total = term.coefficient + constant
            if total != 0:
                sign = sign_of(total) * ((-1) ** term.logs if not far else 1)
                return sign
        if far and c != 0:
            return 1
        raise self._cancelled()

    def _cancelled(self) -> Undecided:
        return Undecided(
            f"At this balance every known order of the flow of q through {self.branch.phi} cancels; no law is derived."
        )

    def _escape(self, c: sp.Expr, d: sp.Expr, basin: str) -> Regime:
        """q → ∞ at V = 1."""
        end = self.branch.infinity
        if end.is_linear and self.sign(self._gain(end) - d) > 0:
            K_ = self.from_sources(self._gain(end))
            return self._regime(K_, end, "V = 1: q → ∞ by its feedback", basin, "feedback")
        return self._slow(self._without_linear(end) + c, end, "V = 1: q grows with log l", basin, c)

    def _decay(self, d: sp.Expr, basin: str) -> Regime:
        """q → 0 at V = 1."""
        end = self.branch.zero
        if end.is_flat:
            return self._lost(self._without_feedback(end), "V = 1: q → 0", basin)
        if not end.is_linear:
            return self._regime(self._without_feedback(end), end, "V = 1: q → 0", basin)
        W = self._gain(end)
        if self.sign(W - d) < 0:
            K_ = self.from_sources(W, self.source_a(), self._through(end))
            return self._regime(K_, end, "V = 1: q → 0 against its feedback", basin, self._drive(K_, W))
        return self._slow(self._without_linear(end), end, "V = 1: q falls with log l", basin)

    def _without_linear(self, end: Asymptote) -> Law:
        """S⟨φ²⟩_q at one end without its linear term, which d·q cancels where there is one."""
        kept = tuple(t for t in end.square.terms if (t.power, t.logs) != (1, 0))
        return replace(end.square, terms=kept) * self.S

    @staticmethod
    def _slow_drive(law: Law, end: Asymptote, c: sp.Expr) -> tuple[str, sp.Expr]:
        if end.square.point == 0:
            return "slow fall", sp.S.Zero
        lead = law.leading
        return "slow", c / lead.coefficient if (lead.power, lead.logs) == (0, 0) else sp.S.Zero

    def _slow(self, law: Law, end: Asymptote, regime: str, basin: str, c: sp.Expr = sp.S.Zero) -> Regime:
        """q as powers of log l, by the expansion of its flow at one end."""
        if not law.terms:
            raise self._cancelled()
        if law.leading.logs != 0:
            return self._slow_with_logarithm(law, end, regime, basin, c)
        found = flow(law)
        lead = found.x[0]
        w = self.branch.w
        q = regular(lead.coefficient, 0, lead.power, lead.logs)
        K_ = q * regular(1 / w.size, w.beta)
        J_ = slope = None
        if self.gradients:
            slope = self.at(end.of_slope, q)
            expanded = end.slope_expansion
            terms = {(t.power, int(t.logs)): self.S * t.coefficient for t in expanded.terms}
            left = expanded.remainder
            settled = isinstance(left, str) or bool(left / found.root < -1)
            rest = None if settled else (left, int(expanded.remainder_logs))
            x0 = terms.pop((sp.S.Zero, 0), sp.S.Zero)
            grown, complete = found.summed(terms, rest)
            J_ = regular(None, x0)
            for t in grown:
                if (t.power, t.logs) == (0, 1):
                    J_ = J_ * regular(None, 0, t.coefficient)
                elif t.power > 0 or (t.power == 0 and t.logs > 0):
                    J_ = J_ * Growth((((sp.S.Zero, t.power, t.logs, sp.S.Zero), t.coefficient),), (), None)
            merged: dict = {}
            for key, coefficient in J_.terms:
                key = (sp.S.Zero, sp.S.One, sp.S.Zero, sp.S.Zero) if key == (0, 1, 0, 0) else key
                merged[key] = merged.get(key, 0) + coefficient
            J_ = replace(J_, terms=tuple((k, e) for k, e in merged.items() if e != 0), leading=not complete)
        drive, share = self._slow_drive(law, end, c)
        return Regime(K_, q, self.at(end.of_square, q), slope, J_, regime, basin, end, drive, share)

    def _slow_with_logarithm(self, law: Law, end: Asymptote, regime: str, basin: str, c: sp.Expr) -> Regime:
        """The same to leading order, dq/dlog l = c q^n (log q)^m."""
        lead, w = law.leading, self.branch.w
        power = 1 / (1 - lead.power)
        size = (lead.coefficient * (1 - lead.power) ** (1 - lead.logs)) ** power
        q = regular(size, 0, power, lead.logs * power)
        slope = J_ = None
        if self.gradients:
            slope = self.at(end.of_slope, q)
            total = summed(slope * regular(self.S, -1), self.oracle)
            J_ = regular(None) if total is None else replace(self._exp(total), leading=True)
        K_, square = q * regular(1 / w.size, w.beta), self.at(end.of_square, q)
        return Regime(K_, q, square, slope, J_, regime, basin, end, *self._slow_drive(law, end, c))

    def _square_at(self, q: sp.Expr) -> sp.Expr:
        return (
            self.branch.square.xreplace({K: q})
            if self.branch.degree is None
            else (self.branch.zero.of_square[2] * q**self.branch.degree)
        )

    def _at_rest(self, q: sp.Expr, flat: sp.Expr, regime: str, basin: str = EVERY) -> Regime:
        """q → a number, K ~ (q - flat)/σ_w² l^{β_w}."""
        common = q.args[2]  # what both inputs have in common
        if self.branch.degree is not None:
            _, S, c, d, _ = q.args
            v, a = self.branch.zero.of_square[2], self.branch.degree
            q = Balance(d, S * v, 1, 0, a, c).doit()
        w = self.branch.w
        K_ = regular((q - flat) / w.size, w.beta)
        return replace(self._converging(K_, q, regime, basin), drive="rest", share=common)

    def _lost(self, K_: Growth, regime: str, basin: str = EVERY) -> Regime:
        """q → 0 where φ is 0 around 0: nothing comes back, K is left to its sources, J tends to a number."""
        return self._converging(K_, None, regime, basin)

    def _converging(self, K_: Growth, q: sp.Expr | None, regime: str, basin: str = EVERY) -> Regime:
        """q → a number (None: one that the start decides)."""
        if q is None:
            unknown = regular(None)
            return Regime(
                K_,
                unknown,
                unknown,
                unknown if self.gradients else None,
                unknown if self.gradients else None,
                regime,
                basin,
                drive="weak",
            )
        square = self._square_at(q)
        slope = J_ = None
        if self.gradients:
            value = self._slope_at(q)
            slope = regular(value)
            J_ = regular(None, self.S * value if self.sign(1 - self.V) == 0 else 0)
        return Regime(K_, regular(q), regular(square), slope, J_, regime, basin, drive="weak")


def _between(low: sp.Expr, high: sp.Expr) -> str:
    """The q that end in one place, in words."""
    return f"K[1] between {sp.N(low, 10)} and {sp.N(high, 10)} at large l"
