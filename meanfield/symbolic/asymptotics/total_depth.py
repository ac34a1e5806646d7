r"""Laws in L, the number of blocks, at l = tL of residual networks whose variances fall as σ² l^{-β} L^{-δ}.

K ~ L^κ k(t), and k solves the balance of the terms of that order (`total_scales`),

    dk/dt = σ_v² t^{-β_v} ⟨φ²⟩_q + σ_a² t^{-β_a},    q = σ_w² t^{-β_w} k + σ_b² t^{-β_b},

⟨φ²⟩_q in full where q is Θ(1), by its leading power where q → 0 or ∞, with k(0) = K_0 where κ = 0, else 0. So does
log J ~ L^ρ j(t), dj/dt = S t^{-V} ⟨φ′²⟩_q. What is linear or one power is solved, other equations are returned as they
are. Source: derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import sympy as sp

from meanfield.results import MeanFieldError
from meanfield.symbolic.asymptotics.balance import Balance
from meanfield.symbolic.asymptotics.branch import Branch, End, Variance
from meanfield.symbolic.asymptotics.cells import Undecided
from meanfield.symbolic.asymptotics.growth import CONSTANT, Growth, Oracle, exponential, regular
from meanfield.symbolic.asymptotics.interior import bounded, single
from meanfield.symbolic.asymptotics.normed import ways as ways_in_l
from meanfield.symbolic.asymptotics.residual import Solver, Way
from meanfield.symbolic.asymptotics.total_equations import (
    K_0,
    c_0,
    equal,
    grown,
    h,
    integral,
    j,
    k,
    linear,
    root,
    t,
)
from meanfield.symbolic.asymptotics.total_scales import Scale, Scales
from meanfield.symbolic.averages.node import average
from meanfield.symbols import K, L, Z


@dataclass(frozen=True)
class TotalSolver:
    """The derivation for one branch, as `Solver` is where no variance knows L."""

    branch: Branch
    oracle: Oracle
    gradients: bool = True
    strength: sp.Expr | None = None
    inside: bool = True
    scales: Scales = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scales", Scales(self.branch, self.oracle))

    def sign(self, form: sp.Expr) -> int:
        return self.scales.sign(form)

    def falls(self, one: Variance) -> Growth:
        """A variance in block tL."""
        return regular(one.size * t**-one.beta, -one.fall)

    @property
    def V(self) -> sp.Expr:
        return self.branch.v.beta + self.branch.w.beta

    @property
    def D(self) -> sp.Expr:
        """Δ = δ_v + δ_w."""
        return self.branch.v.total + self.branch.w.total

    def ways(self) -> list[Way]:
        """The behaviour at l = tL; several where no variance falls with L and the start decides."""
        if self.sign(sp.Add(*[one.total for one in self.branch.variances])) == 0:
            plain = Solver(self.branch, self.oracle, self.gradients, self.strength, self.inside)
            try:
                return [_in_t(one) for one in ways_in_l(plain)]
            except MeanFieldError as error:
                raise Undecided(str(error)) from None
        if not self.branch.norm:
            self._require_depth()
        scale = self.scales.scale()
        found = self._exploding(scale) if scale.exploding else self._at(scale)
        return [found]

    def _require_depth(self) -> None:
        """Refuse a feedback without L where the first blocks decide."""
        if self.sign(self.D) != 0:
            return
        strong = self.sign(1 - self.V)
        if strong == 0:
            raise Undecided("V = 1 with no L in the feedback: no law in L is derived")
        if strong > 0 and self.branch.zero.of_square[0] > 1:
            raise Undecided("no L in a feedback that small starts lose: the first blocks decide; no law is derived")

    # -------------------------------------------------------------------------------------------------------- K

    def _at(self, scale: Scale) -> Way:
        """K a power of L."""
        moves = scale.fed or scale.sourced
        if moves and (slow := self._logarithmic(scale)) != 0:
            return self._at_every_scale(scale, slow)
        equation = self._equation(scale) if moves else None
        size = self._solved(scale) if moves else K_0
        limit: tuple[sp.Eq, ...] = ()
        if equation is not None:
            start = K_0 if self.sign(scale.kappa) == 0 else sp.S.Zero
            limit = (equal(sp.Derivative(k(t), t), equation), equal(k(0), start))
        at = k(t) if size is None else size
        K_ = regular(at, scale.kappa)
        across = self._across(scale, at)
        q = regular(across, scale.y_d)
        square = self._average(self.branch.square, "square", scale, at)
        J_ = slope = None
        words = self._words(scale)
        if self.gradients:
            slope = self._average(self.branch.slope, "slope", scale, at)
            try:
                J_, more = self._tangent(scale, at, size is not None)
                limit += more
            except Undecided as error:
                words += f"; of J: {error}"
        return Way(K_, q, square, slope, J_, words, drive="total", limit=limit)

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
            across = sp.S.One if self.branch.norm == "inner" else self._across(scale, K_0)
            return c + (v.size * self._value("square", across) if self.sign(v.total) == 0 else 0)
        a = self.scales.square_power(scale.sign)
        makers = [one for one in self._makers(scale) if self.sign(v.total + a * one.total) == 0]
        if not makers:
            return c
        if a != 0 and not self.branch.norm and self.branch.w in makers:
            raise Undecided("K feeds back at every scale of l with no L in it; no law in L is derived")
        size = v.size * self.branch.zero.of_square[2]
        return c + size * (sp.S.One if a == 0 else sp.Add(*[one.size for one in makers]) ** a)

    def _at_every_scale(self, scale: Scale, c: sp.Expr) -> Way:
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
        q = regular(self._across(replace(scale, on_b=False) if most else scale, size), scale.y_d)
        q = q * regular(1, 0, 1) if most else q
        given = regular(1) if branch.norm == "inner" else q
        square, slope, J_ = self._by_end(end, "square", given, scale.sign == 0 and not far), None, None
        words = "l = tL: K grows as log L, by sums over all scales of l"
        if self.gradients:
            slope = self._by_end(end, "slope", given, scale.sign == 0 and not far)
            rate = slope * regular(branch.strength * t**-self.V, -branch.v.fall - branch.w.fall)
            rho = 1 + rate.exponent - (scale.y_d if branch.norm == "inner" else 0)
            try:
                J_ = self._slow_tangent(rho, rate)
            except Undecided as error:
                words += f"; of J: {error}"
        return Way(K_, q, square, slope, J_, words, drive="slow", limit=limit)

    def _by_end(self, end: End, which: str, q: Growth, still: bool) -> Growth:
        if still:
            assert q.constant is not None
            return regular(self._value(which, q.constant))
        a, n, v = end.of_square if which == "square" else end.of_slope
        if n != 0:
            raise Undecided("an average has a logarithm of q, and q one of L; no law in L is derived")
        return q**a * regular(v)

    def _slow_tangent(self, rho: sp.Expr, rate: Growth) -> Growth:
        """J where K grows as log L."""
        if self.sign(rho) < 0 or (rate.power_of(1).is_number and rate.power_of(1) < 0 and not self.branch.norm):
            return regular(None)
        value = integral(rate.constant) if rate.constant is not None else None
        if self.branch.norm or rate.power_of(1) != 0 or value is None or self.sign(self.D) == 0:
            raise Undecided("J has a share of every scale of l; no law in L is derived")
        return regular(sp.exp(value))

    def _makers(self, scale: Scale) -> list[Variance]:
        """The variances of the inner Dense that make q."""
        w, b = self.branch.w, self.branch.b
        return ([w] if scale.on_w else []) + ([b] if scale.on_b and b is not None else [])

    def _across(self, scale: Scale, at: sp.Expr) -> sp.Expr:
        """What the inner Dense puts out, over L^{y_d}; exponents known to be 0 are put in as 0."""
        w, b, out = self.branch.w, self.branch.b, sp.S.Zero
        still = not self.branch.norm and scale.sign == 0
        if scale.on_w:
            fixed = still and self.sign(scale.kappa) == 0
            carried = sp.S.One if self.branch.norm == "first" else at
            fixed = fixed or (self.branch.norm == "first" and scale.sign == 0)
            out += w.size * (1 if fixed else t**-w.beta) * carried
        if scale.on_b and b is not None:
            out += b.size * (1 if scale.sign == 0 and self.branch.norm != "inner" else t**-b.beta)
        return out

    def _average(self, whole: sp.Expr, which: str, scale: Scale, at: sp.Expr) -> Growth:
        """⟨φ²⟩_q or ⟨φ′²⟩_q."""
        across = sp.S.One if self.branch.norm == "inner" else self._across(scale, at)
        if scale.sign == 0:
            return regular(self._value(which, across))
        end = self.scales.end(scale.sign)
        a, n, v = end.of_square if which == "square" else end.of_slope
        logs = (sp.Abs(scale.y) if not scale.y.free_symbols else scale.sign * scale.y) ** n if n else 1
        return regular(v * across**a * logs, a * scale.y, n)

    def _value(self, which: str, q: sp.Expr) -> sp.Expr:
        """The average at a variance of Θ(1)."""
        if self.branch.degree is not None:
            a, _, v = self.branch.zero.of_square if which == "square" else self.branch.zero.of_slope
            return v * q**a
        return (self.branch.square if which == "square" else self.branch.slope).xreplace({K: q})

    def _equation(self, scale: Scale) -> sp.Expr:
        """dk/dt."""
        a, v, out = self.branch.a, self.branch.v, sp.S.Zero
        if scale.fed:
            constant = self._average(self.branch.square, "square", scale, k(t)).constant
            assert constant is not None
            out += v.size * t**-v.beta * constant
        if scale.sourced and a is not None:
            out += a.size * t**-a.beta
        return out

    def _solved(self, scale: Scale) -> sp.Expr | None:
        """k(t), where its equation is linear or one power; None elsewhere."""
        v, w, b = self.branch.v, self.branch.w, self.branch.b
        start = K_0 if self.sign(scale.kappa) == 0 else sp.S.Zero
        forces: list[tuple[sp.Expr, sp.Expr]] = []  # dk/dt = Σ size·t^{-power} + what holds k
        if scale.sourced and self.branch.a is not None:
            forces.append((self.branch.a.size, self.branch.a.beta))
        if not scale.fed:
            return grown(start, forces)
        if self.branch.norm == "inner":
            return grown(start, [*forces, (v.size * self._value("square", sp.S.One), v.beta)])
        power, size = self._power_law(scale)
        across = self._across(scale, sp.S.One)
        if self.branch.norm or not scale.on_w:
            if power is None:  # q is Θ(1) and made of what does not fall
                return grown(start, [*forces, (v.size * self._value("square", across), v.beta)])
            makers = self._makers(scale)
            if power != 0 and len(makers) == 2 and power != 1 and self.sign(w.beta - (b or w).beta) != 0:
                return None
            if power == 1:
                return grown(start, [*forces, *((v.size * size * m.size, v.beta + m.beta) for m in makers)])
            sizes = sp.Add(*[m.size for m in makers]) ** power
            return grown(start, [*forces, (v.size * size * sizes, v.beta + power * makers[0].beta)])
        if power is None:
            return None
        rate, falls = v.size * size * w.size**power, v.beta + power * w.beta
        if power == 1:
            if scale.on_b and b is not None:
                forces.append((v.size * size * b.size, v.beta + b.beta))
            return linear(start, rate, falls, forces)
        if not forces and not scale.on_b:
            inside = start ** (1 - power) + rate * (1 - power) * t ** (1 - falls) / (1 - falls)
            return sp.powdenest(inside ** (1 / (1 - power)), force=True) if start != 0 else root(inside, power)
        if start != 0:
            return None
        e = (1 - falls) / (1 - power)
        if any(self.sign(1 - p - e) != 0 for _, p in forces):
            return None
        if scale.on_b and b is not None and self.sign(e - w.beta + b.beta) != 0:
            return None
        bias = b.size if scale.on_b and b is not None else sp.S.Zero
        source = sp.Add(*[s for s, _ in forces])
        return Balance(e, v.size * size, w.size, bias, power, source).doit() * t**e

    def _power_law(self, scale: Scale) -> tuple[sp.Expr | None, sp.Expr]:
        """(a, v) of ⟨φ²⟩_q = v q^a in this order; a None where it is no power."""
        if scale.sign != 0:
            a, _, v = self.scales.end(scale.sign).of_square
        elif self.branch.degree is not None:
            a, _, v = self.branch.zero.of_square
        else:
            return None, sp.S.Zero
        if a > 1 and scale.on_w and not self.branch.norm:
            raise Undecided("K's feedback grows faster than K: it may leave this law at some t < 1; none is derived")
        return a, v

    # -------------------------------------------------------------------------------------------------------- J

    def _tangent(self, scale: Scale, at: sp.Expr, solved: bool) -> tuple[Growth, tuple[sp.Eq, ...]]:
        """J = Π (1 + S l^{-V} L^{-Δ} ⟨φ′²⟩_q/N)."""
        end = self.scales.end(scale.sign) if scale.sign else self.branch.zero
        a1, n, _ = end.of_slope
        a1, n = (a1, n) if scale.sign else (a1, sp.S.Zero)
        bare = 1 - self.branch.v.fall - self.branch.w.fall + (a1 * scale.y if scale.sign else 0)
        norm = {"first": scale.kappa, "inner": scale.y_d}.get(self.branch.norm, sp.S.Zero)
        rho = sp.expand(bare - norm)
        grows = self.sign(rho)
        slope = self._average(self.branch.slope, "slope", scale, k(t)).constant
        divided = {"first": k(t), "inner": self._across(scale, k(t))}.get(self.branch.norm, sp.S.One)
        rate = self.branch.strength * t**-self.V * slope / divided
        steep = self._steepness(scale, a1)
        if grows < 0:
            if self.sign(scale.kappa) > 0 and not self._surely_bounded(scale, bare, steep):
                bounded(self.scales, scale, self._slope_of_K(scale))
            return regular(None), ()
        turn = 1 if steep is None else self.sign(steep)
        if turn == 0 and grows == 0 and self.branch.norm and solved:
            e = self._slope_of_K(scale)
            single(self.scales, scale, e)
            share = sp.simplify(rate.subs(k(t), at) * t)
            if not share.has(t):
                return regular(CONSTANT * t**share, scale.kappa * share / e), ()
        if self.branch.norm and turn > 0 and self.sign(scale.kappa) > 0:
            bounded(self.scales, scale, self._slope_of_K(scale))
        if turn <= 0 or (grows == 0 and n != 0):
            raise Undecided("J grows with every scale of l from some L^s on; no law in L is derived")
        equations = (equal(sp.Derivative(j(t), t), rate), equal(j(0), sp.S.Zero))
        value = integral(rate.subs(k(t), at)) if solved else None
        if value is None and solved and self.branch.norm == "first" and self.sign(scale.kappa) == 0:
            share = sp.simplify(rate.subs(k(t), at) * at / sp.diff(at, t))
            value = None if share.has(t) else share * sp.log(at / K_0)
        value = j(t) if value is None else value
        if grows > 0:
            return exponential(value, rho, n, leading=True), equations
        early = self.sign(scale.kappa) > 0 and self.sign(self.D) == 0
        return regular(sp.exp(value) * (CONSTANT if early else 1)), equations

    def _surely_bounded(self, scale: Scale, bare: sp.Expr, steep: sp.Expr | None) -> bool:
        """Whether affine forms show that no scale of l adds to log J; those of the order of L do not, ρ < 0 < κ."""
        v, w = self.branch.v, self.branch.w
        if self.branch.norm == "inner":  # 1/N ≤ l^{β_w} L^{δ_w}/σ_w²
            return self.sign(1 - v.fall) < 0
        flat = self.branch.zero.of_slope[0] >= 0
        if self.branch.norm:  # 1/K is bounded
            return flat and self.sign(bare) < 0
        if scale.sign <= 0 and flat:  # convex in s
            return True
        if flat and self.sign(1 - v.fall - w.fall) < 0:  # ⟨φ′²⟩ is bounded
            return self.branch.infinity.of_slope[0] <= 0
        return steep is not None and self.sign(steep) > 0

    def _slope_of_K(self, scale: Scale) -> sp.Expr:
        """The power of t with which k starts, κ > 0: the least of those that make it."""
        v, w, b, found = self.branch.v, self.branch.w, self.branch.b, []
        if scale.sourced and self.branch.a is not None:
            found.append(1 - self.branch.a.beta)
        if scale.fed:
            a = self.scales.square_power(scale.sign or -1) if self.branch.norm != "inner" else sp.S.Zero
            if self.branch.norm:
                found += [1 - v.beta - a * one.beta for one in self._makers(scale)] or [1 - v.beta]
            else:
                if scale.on_w and a < 1:
                    found.append((1 - v.beta - a * w.beta) / (1 - a))
                if scale.on_b and b is not None:
                    found.append(1 - v.beta - a * b.beta)
        return self._least(found)

    def _least(self, forms: list[sp.Expr]) -> sp.Expr:
        best = forms[0]
        for one in forms[1:]:
            best = one if self.sign(one - best) < 0 else best
        return best

    def _steepness(self, scale: Scale, a1: sp.Expr) -> sp.Expr | None:
        """The power of t with which the sum in log J starts; it is made at l of the order of L where this is > 0. None
        where that is known: K stays Θ(1), or ⟨φ′²⟩_q and N do not vary."""
        w, b = self.branch.w, self.branch.b
        norm = self.branch.norm
        if not norm and a1 == 0:
            return 1 - self.V if self.sign(self.D) == 0 else None
        moving = self.sign(scale.kappa) > 0
        e = sp.S.Zero
        if moving and (norm or scale.on_w):
            e = self._slope_of_K(scale)
        across = []
        if scale.on_w:
            across.append((sp.S.Zero if norm == "first" else e) - w.beta)
        if scale.on_b and b is not None:
            across.append(-b.beta)
        inner = self._least(across)
        falls = {"first": e, "inner": inner}.get(norm, sp.S.Zero)
        still = norm == "inner" or (scale.sign == 0 and (norm == "first" or not moving))
        return 1 - self.V + (sp.S.Zero if still else a1 * inner) - falls

    # ----------------------------------------------------------------------------------------------- two inputs

    def pair(self, way: Way) -> tuple[Growth, Growth, tuple[sp.Eq, ...]]:
        """The distance of two inputs of one norm, γ, and the equations of h = lim K_ab, where q stays of order 1; a
        distance between its start and that times J where J stays bounded. Raises: `Undecided` elsewhere."""
        scale = self.scales.scale() if way.drive == "total" else None
        if scale is None or scale.exploding:
            raise Undecided("how far two inputs part is derived in L where J stays bounded or all stays of order 1")
        still = self.sign(scale.kappa) == 0
        if still and not scale.fed:
            gap = 2 * K_0 * (1 - c_0)
            return regular(gap), regular(2 * (way.K.constant or K_0) / gap - 1), ()
        if not still and way.J is not None and way.J.constant is None and not way.J.terms:
            return regular(None), way.K.of_unknown_size, ()
        if self.branch.norm or scale.sign or not still:
            raise Undecided("how far two inputs part is derived in L where J stays bounded or all stays of order 1")
        assert way.K.constant is not None
        phi, v, a = self.branch.phi.pieces.expr, self.branch.v, self.branch.a
        q, between = self._across(scale, k(t)), self._across(scale, h(t))
        change = v.size * t**-v.beta * average(phi * phi.xreplace({Z[0]: Z[1]}), (q, between, q))
        if scale.sourced and a is not None:
            change += a.size * t**-a.beta
        gap = way.K.constant - h(t)
        equations = (equal(sp.Derivative(h(t), t), change), equal(h(0), c_0 * K_0))
        return regular(2 * gap), regular(h(t) / gap), equations

    # ------------------------------------------------------------------------------------- K beyond every power

    def _exploding(self, scale: Scale) -> Way:
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
        if self.gradients:
            if end.of_slope[:2] != (0, 0):
                raise Undecided("⟨φ′²⟩_q tends to no number at q → ∞; no law in L is derived")
            slope, J_ = regular(end.of_slope[2]), outgrown(end.of_slope[2])
        return Way(K_, q, square, slope, J_, "l = tL: linear feedback, q → ∞", drive="total")


def _in_t(way: Way) -> Way:
    """Laws in l at l = tL."""

    def at(one: Growth) -> Growth:
        constant = None if one.constant is None else one.constant * t ** one.power_of(0)
        if constant is None and one.power_of(0) != 0:
            constant = CONSTANT * t ** one.power_of(0)
        terms = tuple((key, c * t ** key[0]) if key[0] != 0 else (key, c) for key, c in one.terms)
        return replace(one, terms=terms, constant=constant)

    if any(g is not None and g.products for g in (way.K, way.J)):
        raise Undecided("a product over blocks that knows no L; its law is that in l, with l = tL")
    return replace(_each(way, at), regime=f"l = tL: {way.regime}")


def _each(way: Way, function: Callable[[Growth], Growth]) -> Way:
    """`function` applied to every law."""
    slope, J_ = (None if g is None else function(g) for g in (way.slope, way.J))
    return replace(way, K=function(way.K), q=function(way.q), square=function(way.square), slope=slope, J=J_)


def ways(solver: Solver | TotalSolver) -> list[Way]:
    """Every attracting behaviour of a branch, in L where its variances know it."""
    if isinstance(solver, TotalSolver):
        return [_each(one, lambda g: replace(g, of=L)) for one in solver.ways()]
    return ways_in_l(solver)
