r"""Large-depth laws of residual networks whose variances fall as powers of the block's number l,

    K → K + σ_v² l^{-β_v} ⟨φ²⟩_q + σ_a² l^{-β_a},    q = σ_w² l^{-β_w} K + σ_b² l^{-β_b},    and of their tangents.

What K becomes is a balance of powers: its own source l^{-β_a}, what the biases b send through the branch, and what K
feeds back. V = β_v + β_w decides how strong the feedback is: for V < 1 it drives q to ∞, for V > 1 the sources decide
alone, at V = 1 q follows dq/dlog l = S⟨φ²⟩_q + c - β_w q. Each case asks an oracle for signs of affine forms in the
exponents and nothing else, so that the same lines answer at numbers and, by splitting, everywhere (`cells`).

Source: derived here (dominant balance). The tables of [variance_variation] are what it is tested against.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from meanfield.results import Law, Status
from meanfield.symbolic.asymptotics.balance import Balance, Resting
from meanfield.symbolic.asymptotics.branch import Branch, End, Variance
from meanfield.symbolic.asymptotics.cells import At, Undecided
from meanfield.symbolic.asymptotics.comparing import added, compared, log_of, summed
from meanfield.symbolic.asymptotics.growth import Growth, Oracle, exponential, inverse_gamma, product, regular
from meanfield.symbolic.asymptotics.resting import attractors, is_monotone, resting_points
from meanfield.symbolic.asymptotics.scaling import flow
from meanfield.symbols import K

EVERY = "every start"
RESTS = "V = 1: q settles where its flow falls through 0 (numbers say where)"
UNASKED = regular(None)  # where a law was not wanted


@dataclass(frozen=True)
class Way:
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
    end: End | None = None
    drive: str = ""
    share: sp.Expr = sp.S.Zero
    limit: tuple[sp.Eq, ...] = ()
    plain: Way | None = None
    quotients: tuple[tuple[str, Growth], ...] = ()
    conditional: bool = False


@dataclass(frozen=True)
class Solver:
    """The derivation for one branch; `strength` is S = σ_v²σ_w² as a coordinate of the oracle, if it is one."""

    branch: Branch
    oracle: Oracle
    gradients: bool = True
    strength: sp.Expr | None = None
    inside: bool = True  # whether q and the averages over it are wanted, which may ask more questions

    # ---------------------------------------------------------------------------------------------- abbreviations

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

    # ------------------------------------------------------------------------------------------------------- laws

    def ways(self) -> list[Way]:
        """Every attracting behaviour; more than one where the start decides."""
        if self.branch.degree == 1:
            return [self._linear()]
        strong = self.sign(1 - self.V)
        return self._strong() if strong > 0 else self._weak() if strong < 0 else self._marginal()

    def from_sources(self, feedback: sp.Expr, *sources: Growth | None) -> Growth:
        """K under K' = K + (feedback/l) K + Σ sources: each source alone, and what the start leaves."""
        parts = [regular(None, feedback)]
        for one in sources:
            if one is not None:
                grown = summed(one * regular(1, -feedback), self.oracle)
                parts += [] if grown is None else [grown * regular(1, feedback)]
        return added(parts, self.oracle)

    def _through(self, end: End) -> Growth | None:
        """What the biases b alone send through the branch, σ_v² l^{-β_v} v (σ_b² l^{-β_b})^a."""
        v, other = self.branch.v, self.bias()
        return None if other is None else regular(v.size, -v.beta) * self._at(end.of_square, other)

    def _at(self, law: tuple[sp.Expr, sp.Expr, sp.Expr], q: Growth) -> Growth:
        """v q^a |log q|^k."""
        a, k, v = law
        found = q**a * regular(v)
        return found * log_of(q, self.oracle) ** k if k != 0 else found

    def _linear(self) -> Way:
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
        square = self._at(end.of_square, q) if self.inside else UNASKED
        drive = "weak" if strong < 0 else "feedback" if strong > 0 else self._drive(K_, W)
        return Way(K_, q, square, slope, J_ if self.gradients else None, regime, end=end, drive=drive)

    def _drive(self, K_: Growth, W: sp.Expr) -> str:
        """Whether K outgrows what its linear feedback leaves, by a power ("source") or a logarithm ("tie")."""
        gap = K_ / regular(1, W)
        if self.sign(gap.exponent) > 0:
            return "source"
        return "tie" if gap.power_of(1) != 0 else "feedback"

    def _gain(self, end: End) -> sp.Expr:
        """W = S v of an end where ⟨φ²⟩_q ~ v q."""
        return self.S * end.of_square[2]

    # ------------------------------------------------------------------------------- V < 1: the feedback is strong

    def _strong(self) -> list[Way]:
        end = self.branch.infinity
        if end.is_linear:
            K_ = product(self._gain(end), self.V, self.oracle)
            return self._beside_trap(K_, end, "V < 1: linear feedback, q → ∞", "feedback")
        alone = self._fed_back(end)
        source = self.source_a()
        grown = None if source is None else summed(source, self.oracle)
        regime = "V < 1: q → ∞"
        if grown is None:
            return self._beside_trap(alone, end, regime, "feedback")
        order = compared(grown, alone, self.oracle)
        K_ = grown if order > 0 else alone if order < 0 else self._tied(end, alone)
        drive = {1: "source", -1: "feedback", 0: "tie"}[order]
        shared = source.constant / (K_.exponent * K_.constant) if order == 0 and source is not None else sp.S.Zero
        return self._beside_trap(K_, end, regime, drive, shared)

    def _beside_trap(self, K_: Growth, end: End, regime: str, drive: str, share: sp.Expr = sp.S.Zero) -> list[Way]:
        """q → ∞, and q → 0 where small starts stay there."""
        trap = self._trapped()
        return [self._way(K_, end, regime, "large starts" if trap else EVERY, drive, share), *trap]

    def _fed_back(self, end: End) -> Growth:
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

    def _tied(self, end: End, alone: Growth, bias: bool = False) -> Growth:
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

    def _trapped(self) -> list[Way]:
        """q → 0 beside q → ∞, where ⟨φ²⟩_q vanishes faster than q: the start decides."""
        end = self.branch.zero
        a = end.of_square[0]
        if a <= 1:
            return []
        # the edge between the two falls as l^{-(1 - V)/(a - 1)}; below it the feedback is lost
        found = self._quiet(end)
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
        return [self._way(found, end, "V < 1: q → 0, the feedback is lost", "small starts")]

    def _leaves_edge(self, end: End) -> bool:
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

    def _quiet(self, end: End) -> Growth:
        """K at q → 0 without feedback."""
        return self.from_sources(sp.S.Zero, self.source_a(), self._through(end))

    # --------------------------------------------------------------------------------- V > 1: sources decide alone

    def _weak(self) -> list[Way]:
        a, b, w, v = self.branch.a, self.branch.b, self.branch.w, self.branch.v
        inner_moves = self.sign(w.beta) > 0
        reach = -1 if a is None else self.sign(1 - a.beta - w.beta)
        grown = None if a is None else summed(self.source_a(), self.oracle)  # type: ignore[arg-type]
        if grown is not None and (reach > 0 or (reach == 0 and not inner_moves)):
            return [self._way(grown, self.branch.infinity, "V > 1: q → ∞ by its own source")]
        flat = b is not None and self.sign(b.beta) == 0
        if reach == 0 and grown is not None and a is not None:
            q = w.size * a.size / w.beta + (b.size if flat and b is not None else 0)
            return [self._settled(grown, q, "V > 1: q settles by its own source")]
        if not inner_moves:
            return [self._settled(regular(None), None, "V > 1: K and q tend to what the start says")]
        if flat and b is not None:
            through = regular(v.size * self._square_at(b.size), -v.beta)
            K_ = self.from_sources(sp.S.Zero, self.source_a(), through)
            return [self._settled(K_, b.size, "V > 1: q settles at the variance of its biases")]
        return [self._fading()]

    def _fading(self) -> Way:
        """q → 0."""
        end, regime = self.branch.zero, "V > 1: q → 0"
        a, _, c = end.of_square
        v, w = self.branch.v, self.branch.w
        if a == 0:
            K_ = self.from_sources(sp.S.Zero, self.source_a(), regular(v.size * c, -v.beta))
            return self._way(K_, end, regime)
        quiet = self._quiet(end)
        if a >= 1 or self.sign(1 - v.beta - a * w.beta) < 0:
            return self._way(quiet, end, regime)
        alone = self._fed_back(end)
        order = compared(alone, quiet, self.oracle)
        if order < 0:
            return self._way(quiet, end, regime)
        other, s = self.bias(), self.source_a()
        meets = other is not None and compared(self.inner(alone), other, self.oracle) == 0
        if not meets and (order > 0 or self.sign(alone.exponent) == 0):
            return self._way(alone, end, regime, EVERY, "slow" if self.sign(alone.exponent) == 0 else "feedback")
        K_ = self._tied(end, alone, meets)
        e, C, w2 = alone.exponent, K_.constant, w.size
        # of the variance q = Q l^{e - β_w} that φ is given, what both of two inputs have in common
        own = s.constant if s is not None and order == 0 and self.sign(1 + s.exponent - e) == 0 else sp.S.Zero
        held = other.constant if meets and other is not None else sp.S.Zero
        share = (w2 * own + e * held) / (e * (w2 * C + held))
        return self._way(K_, end, regime, EVERY, "tie", share)

    # ------------------------------------------------------------------------------ V = 1: a flow of q in log l

    def _marginal(self) -> list[Way]:
        a, b, w = self.branch.a, self.branch.b, self.branch.w
        end = self.branch.infinity
        reach = -1 if a is None else self.sign(1 - a.beta - w.beta)
        if reach > 0:
            if end.of_square[0] == 1:
                K_ = self.from_sources(self._gain(end), self.source_a())
            else:
                K_ = summed(self.source_a(), self.oracle)  # type: ignore[arg-type,assignment]
            drive = self._drive(K_, self._gain(end)) if end.is_linear else "source"
            return [self._way(K_, end, "V = 1: q → ∞ by its own source", EVERY, drive)]
        flat = b.size if b is not None and self.sign(b.beta) == 0 else sp.S.Zero
        s0 = w.size * a.size if reach == 0 and a is not None else sp.S.Zero
        c = s0 + w.beta * flat
        moves = self.sign(w.beta) > 0
        if not moves:
            c = s0
        return self._flow(c, flat, moves)

    def _flow(self, c: sp.Expr, flat: sp.Expr, moves: bool) -> list[Way]:
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
        ways: list[Way] = []
        if once:
            if up < 0 < down:
                ways.append(self._at_rest(Resting(self.branch.square, self.S, c, d), flat, "V = 1: q settles"))
            if up > 0:
                ways.append(self._escape(c, d, EVERY if down > 0 else "large starts"))
            if down < 0:
                ways.append(self._decay(d, EVERY if up < 0 else "small starts"))
            return ways
        if d == 0 or (self._rises and self.sign(self._gain(zero) - d) >= 0):  # nothing holds q
            return [self._escape(c, d, EVERY)]
        if not numbers:
            return self._possible(c, d, flat, up, down)
        found = resting_points(self.branch.square, self.S, c, d)
        if any(p.K.value != 0 and p.stability not in ("stable", "unstable") for p in found):
            raise Undecided("V = 1: q rests where it is attracted from one side only; no law is derived there")
        for i, point in enumerate(attractors(self.branch.square, self.S, c, d)):
            if point.K.value + (point.K.error or 0) < flat:
                continue
            basin = EVERY if found.ends == 1 else _between(*(point.basin or (0, sp.oo)))
            ways.append(self._at_rest(Resting(self.branch.square, self.S, c, d, i), flat, "V = 1: q settles", basin))
        edges = [p.K.value for p in found if p.stability == "unstable" and p.K.value != 0]
        if up > 0:
            ways.append(self._escape(c, d, _between(edges[-1], sp.oo) if edges else EVERY))
        if down < 0:
            ways.append(self._decay(d, _between(0, edges[0]) if edges else EVERY))
        if found.status is Status.MEASURED:  # the list could miss a pair of places
            ways = [replace(one, regime=f"{one.regime}, by a search that may miss a close pair") for one in ways]
        return ways

    def _possible(self, c: sp.Expr, d: sp.Expr, flat: sp.Expr, up: int, down: int) -> list[Way]:
        """The ends of the same flow where symbols leave open how often it changes its sign: each that there may be."""
        lone = "starts near it; every start where it is the only one"
        there = lone if up < 0 < down else "starts near it, where there is one"
        ways = [self._at_rest(Resting(self.branch.square, self.S, c, d), flat, RESTS, there)]
        if up >= 0:
            ways.append(self._escape(c, d, "starts above all places of rest"))
        if down < 0:
            ways.append(self._decay(d, "starts below all places of rest"))
        return [replace(one, conditional=True) for one in ways]

    @property
    def _rises(self) -> bool:
        """Whether ⟨φ²⟩_q/q is proved to rise throughout, from a number > 0."""
        return self.branch.zero.is_linear and is_monotone(self.branch.square) and not self._saturates

    @property
    def _saturates(self) -> bool:
        """Whether ⟨φ²⟩_q/q is smaller at q → ∞ than at q → 0, which where it is monotone says that it falls."""
        (a, _, v), (b, _, u) = self.branch.zero.of_square, self.branch.infinity.of_square
        return b < 1 or a < 1 or (a == b == 1 and sign_of(v - u) > 0)

    def _pull(self, end: End, c: sp.Expr, d: sp.Expr) -> int:
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

    def _next_pull(self, end: End, c: sp.Expr, far: bool) -> int:
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

    def _escape(self, c: sp.Expr, d: sp.Expr, basin: str) -> Way:
        """q → ∞ at V = 1."""
        end = self.branch.infinity
        if end.is_linear and self.sign(self._gain(end) - d) > 0:
            K_ = self.from_sources(self._gain(end))
            return self._way(K_, end, "V = 1: q → ∞ by its feedback", basin, "feedback")
        return self._slow(self._without_linear(end) + c, end, "V = 1: q grows with log l", basin, c)

    def _decay(self, d: sp.Expr, basin: str) -> Way:
        """q → 0 at V = 1."""
        end = self.branch.zero
        if not end.is_linear:
            return self._way(self._quiet(end), end, "V = 1: q → 0", basin)
        W = self._gain(end)
        if self.sign(W - d) < 0:
            K_ = self.from_sources(W, self.source_a(), self._through(end))
            return self._way(K_, end, "V = 1: q → 0 against its feedback", basin, self._drive(K_, W))
        return self._slow(self._without_linear(end), end, "V = 1: q falls with log l", basin)

    def _without_linear(self, end: End) -> Law:
        """S⟨φ²⟩_q at one end without its linear term, which d·q cancels where there is one."""
        kept = tuple(t for t in end.square.terms if (t.power, t.logs) != (1, 0))
        return replace(end.square, terms=kept) * self.S

    @staticmethod
    def _slow_drive(law: Law, end: End, c: sp.Expr) -> tuple[str, sp.Expr]:
        if end.square.point == 0:
            return "slow fall", sp.S.Zero
        lead = law.leading
        return "slow", c / lead.coefficient if (lead.power, lead.logs) == (0, 0) else sp.S.Zero

    def _slow(self, law: Law, end: End, regime: str, basin: str, c: sp.Expr = sp.S.Zero) -> Way:
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
            slope = self._at(end.of_slope, q)
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
        return Way(K_, q, self._at(end.of_square, q), slope, J_, regime, basin, end, drive, share)

    def _slow_with_logarithm(self, law: Law, end: End, regime: str, basin: str, c: sp.Expr) -> Way:
        """The same to leading order, dq/dlog l = c q^n (log q)^m."""
        lead, w = law.leading, self.branch.w
        power = 1 / (1 - lead.power)
        size = (lead.coefficient * (1 - lead.power) ** (1 - lead.logs)) ** power
        q = regular(size, 0, power, lead.logs * power)
        slope = J_ = None
        if self.gradients:
            slope = self._at(end.of_slope, q)
            total = summed(slope * regular(self.S, -1), self.oracle)
            J_ = regular(None) if total is None else replace(self._exp(total), leading=True)
        K_, square = q * regular(1 / w.size, w.beta), self._at(end.of_square, q)
        return Way(K_, q, square, slope, J_, regime, basin, end, *self._slow_drive(law, end, c))

    # ------------------------------------------------------------------------------------------------ what follows

    def _square_at(self, q: sp.Expr) -> sp.Expr:
        return (
            self.branch.square.xreplace({K: q})
            if self.branch.degree is None
            else (self.branch.zero.of_square[2] * q**self.branch.degree)
        )

    def _at_rest(self, q: sp.Expr, flat: sp.Expr, regime: str, basin: str = EVERY) -> Way:
        """q → a number, K ~ (q - flat)/σ_w² l^{β_w}."""
        common = q.args[2]  # what both inputs have in common
        if self.branch.degree is not None:
            _, S, c, d, _ = q.args
            v, a = self.branch.zero.of_square[2], self.branch.degree
            q = Balance(d, S * v, 1, 0, a, c).doit()
        w = self.branch.w
        K_ = regular((q - flat) / w.size, w.beta)
        return replace(self._settled(K_, q, regime, basin), drive="rest", share=common)

    def _settled(self, K_: Growth, q: sp.Expr | None, regime: str, basin: str = EVERY) -> Way:
        """q → a number (None: one that the start decides)."""
        if q is None:
            unknown = regular(None)
            return Way(
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
        return Way(K_, regular(q), regular(square), slope, J_, regime, basin, drive="weak")

    def _slope_at(self, q: sp.Expr) -> sp.Expr:
        if self.branch.degree is None:
            return self.branch.slope.xreplace({K: q})
        a1, _, v1 = self.branch.zero.of_slope
        return v1 * q**a1

    def _way(
        self, K_: Growth, end: End, regime: str, basin: str = EVERY, drive: str = "weak", share: sp.Expr = sp.S.Zero
    ) -> Way:
        """q at one of its ends."""
        faint = self.gradients and end.of_slope[0] * (-1 if end.square.point != 0 else 1) >= 0  # ⟨φ′²⟩ stays bounded
        if not self.inside and (not self.gradients or (faint and self.sign(1 - self.V) < 0)):
            J_ = regular(None) if self.gradients else None  # Σ l^{-V} converges
            return Way(K_, UNASKED, UNASKED, UNASKED if self.gradients else None, J_, regime, basin, end, drive, share)
        q = self.variance(K_)
        square = self._at(end.of_square, q)
        if not self.gradients:
            return Way(K_, q, square, None, None, regime, basin, end, drive, share)
        slope = self._at(end.of_slope, q)
        return Way(K_, q, square, slope, self._jacobian(slope, end), regime, basin, end, drive, share)

    def _jacobian(self, slope: Growth, end: End) -> Growth:
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


def _between(low: sp.Expr, high: sp.Expr) -> str:
    """The q that end in one place, in words."""
    return f"K[1] between {sp.N(low, 10)} and {sp.N(high, 10)} at large l"


def sign_of(e: sp.Expr) -> int:
    """The sign of a number, or of what symbols > 0 decide."""
    if e.is_positive or e.is_negative:
        return 1 if e.is_positive else -1
    if e.free_symbols:
        raise Undecided(f"V = 1: the next order decides, by the sign of {e}, which needs numbers")
    return At({}).sign(e)
