r"""Further terms of two inputs of one norm that come together, relative to K: ε = 1 - c = Δ/2K → 0, Δ their distance.

Δ grows by S l^{-V} R in block l, R = ⟨(φ_a - φ_b)²⟩/δ at δ = σ_w² l^{-β_w} Δ: Σ_p f_p(q) δ^p of a smooth φ (whole p) or
of one with kinks (half p), v Σ_p b_p (δ/2q)^p of a homogeneous one and where q outgrows every power. Put into

    l ε′ + (e - κ) ε + (r - κ₂) ε/log l = N(ε)

as in `corrections`, it gives Δ = A l^e (log l)^r (1 + ε) an order each time. Source: derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K as VARIANCE
from meanfield.symbolic.asymptotics.higher_order.corrections import solution_key
from meanfield.symbolic.asymptotics.higher_order.higher_order_laws import Trial, inside, searched
from meanfield.symbolic.asymptotics.higher_order.leading_order import MARGINAL, Piece
from meanfield.symbolic.asymptotics.higher_order.series_solution import (
    Corrections,
    SeriesSolution,
    multiplied,
    power_law,
    raised,
)
from meanfield.symbolic.asymptotics.log_growth import Growth
from meanfield.symbolic.asymptotics.schedules.branch import Branch
from meanfield.symbolic.asymptotics.schedules.power_tails import tail
from meanfield.symbolic.asymptotics.schedules.regimes import Regime
from meanfield.symbolic.averages.expansions.small_distances import distance_ratio_powers
from meanfield.symbolic.series.coefficients import ONE, ZERO, Exact, of, rational
from meanfield.symbolic.series.exponents import NO_POWER, NoHigherOrder
from meanfield.symbolic.series.recurrences import balanced, differences
from meanfield.symbolic.series.ring import (
    ORDER_ONE,
    Key,
    Part,
    Ring,
    Series,
    binomial,
    over,
    plus,
    scaled,
    times,
)
from meanfield.symbolic.series.truncated import Truncated

START = sp.Symbol("C", real=True)
AMPLITUDE = sp.Symbol("C", positive=True)
_T, _C = sp.Dummy("t", positive=True), sp.Dummy("c", real=True)
APART = "Further terms of two inputs are derived where they come together, c → 1"


@dataclass(frozen=True)
class PairTerm:
    """A piece of l(X′/X - 1), times (1 + ε)^power."""

    piece: Piece
    power: fmpq


class PairTrial(Trial):
    """A `Trial` of two inputs; distance: the law of Δ, gamma that of c/(1 - c)."""

    def __init__(
        self, branch: Branch, regime: Regime, distance: Growth, gamma: Growth, floor: fmpq, depth: fmpq, ends: int
    ):
        super().__init__(branch, regime, floor, depth, ends)
        self.distance, self.gamma = distance, gamma

    def law_key(self, law: Growth) -> Key:
        if not law.is_regular or law.power_of(2) != 0:
            raise NoHigherOrder("Further terms of two inputs are not derived where their distance is no power of l.")
        return (*self.basis.of(law.exponent), self.basis.of(law.power_of(1))[0], 0)

    # ------------------------------------------------------------------------------------------------- what is asked

    @cached_property
    def nearness(self) -> SeriesSolution:
        """ε = 1 - c, its leading power in `grown`; the amplitude is that of `small_one`."""
        if self.fast:
            e = tuple(-x for x in self.law_key(self.gamma)[:3])
            return self._iterated((e[0], e[1], e[2], 0), self._fast_terms(), None)
        gap = self._slow_distance
        return multiplied(gap, raised(self.K(alone=False), fmpq(-1)))

    @cached_property
    def small_one(self) -> tuple[Key, Exact]:
        """The leading term of ε."""
        if self.fast:
            k = self.law_key(self.gamma)
            if self.gamma.constant is None:
                raise NoHigherOrder(f"{APART}; here the start decides what it tends to.")
            return (-k[0], -k[1], -k[2], 0), self.atoms.of(1 / self.gamma.constant)
        key = over(self.law_key(self.distance), self.leading.key)
        return key, self.atoms.of(self._size / (2 * self.leading.amplitude))

    def Delta(self) -> SeriesSolution:
        return multiplied(self.nearness, self.K(alone=False)) if self.fast else self._slow_distance

    def gamma_law(self) -> SeriesSolution:
        return multiplied(raised(self.nearness, fmpq(-1)), self.c())

    def c(self) -> SeriesSolution:
        key, size = self.small_one
        one, calculus = self.nearness, self.nearness.calculus
        if calculus.order.size(key) >= (0, 0, 0):
            raise NoHigherOrder(f"{APART}; here c stays below 1.")
        small = calculus.scaled(calculus.plus(calculus.constant(ONE), one.small), -size, key)
        return SeriesSolution(calculus, {}, small, one.short)

    def K_ab(self) -> SeriesSolution:
        return multiplied(self.K(alone=False), self.c())

    # ------------------------------------------------------------------------------------------------- how Δ grows

    @property
    def amplitudes(self) -> dict[str, sp.Expr]:
        """What stands before the leading power of each quantity; C_K is the C of K's law, C that of Δ where it is one.
        """
        K_ = sp.Symbol(self.name, positive=True) if self.fast else self.leading.amplitude
        near = self.atoms.expr(self.small_one[1])
        apart = 2 * near * K_ if self.fast else self._size
        return {"distance": apart, "gamma": sp.cancel(1 / near), "c": sp.S.One, "K_ab": K_}

    @property
    def _size(self) -> sp.Expr:
        """A of Δ ~ A l^e."""
        if self.gamma.constant is not None and self.regime.K.constant is None:
            return 2 * self.leading.amplitude / self.gamma.constant
        return AMPLITUDE if self.distance.constant is None else self.distance.constant

    @cached_property
    def _slow_distance(self) -> SeriesSolution:
        terms, left = self._smooth_terms() if self.branch.degree is None else (self._homogeneous_terms(), None)
        return self._iterated(self.law_key(self.distance), terms, left)

    def _inside(self) -> tuple[sp.Expr, Key]:
        """δ at leading order."""
        return self.branch.w.size * self._size, times(self.law_key(self.distance), self.leading.fall("w"))

    def _rate_key(self) -> Key:
        """l^{1-V}."""
        return times((fmpq(1), NO_POWER, NO_POWER, 0), times(self.leading.fall("v"), self.leading.fall("w")))

    def _smooth_terms(self) -> tuple[list[PairTerm], Key | None]:
        """Σ_p f_p(q) δ^p; its last one stands for what follows."""
        size, key = self._inside()
        powers = distance_ratio_powers(self.branch.phi.pieces.expr, VARIANCE, self.ends)
        if self.leading.size(key) >= (0, 0, 0) and len(powers) > 1:
            raise NoHigherOrder(f"{APART}, and where φ is not homogeneous closer than φ bends; here they stay apart.")
        out, remainder, *_, last = [], None, max(powers)
        for p, f in sorted(powers.items()):
            n = rational(p)
            shift = times(self._rate_key(), (key[0] * n, key[1] * n, key[2] * n, 0))
            number, node = f.as_coeff_Mul()
            expanded = self.leading.expanded(node, self.branch.strength * number * size**p, shift)
            whole = p != last or len(powers) == 1
            full = [] if whole else map(self.leading.full, expanded.pieces)
            remainder = self.order.largest(remainder, expanded.remainder, *full)
            out += [PairTerm(piece, n) for piece in expanded.pieces] if whole else []
        return out, remainder

    def _homogeneous_terms(self) -> list[PairTerm]:
        """v Σ_p b_p (δ/2q)^p."""
        size, key = self._inside()
        a, _, v = self.branch.infinity.of_square
        if a != 1:
            raise NoHigherOrder("Further terms of two inputs are not derived for powers |z|^a with a ≠ 1.")
        ratio, gap = size / (2 * self.leading.q0), over(key, self.leading.q)
        if self.leading.size(gap) >= (0, 0, 0):
            raise NoHigherOrder(f"{APART}; here c stays below 1.")
        out = []
        for p, b in closing_series(self.branch, 2 * self.ends).items():
            n = rational(p)
            shift = times(self._rate_key(), (gap[0] * n, gap[1] * n, gap[2] * n, 0))
            out.append(PairTerm(Piece(shift, self.atoms.of(self.branch.strength * v * b * ratio**p), -n), n))
        return out

    def _fast_terms(self) -> list[PairTerm]:
        """Of ε: l x (Σ_{p > 0} b_p ε^p)/(1 + x), x = W l^{-V}."""
        v = self.branch.infinity.of_square[2]
        b = self.basis.of(self.branch.v.beta + self.branch.w.beta)
        V: Key = (-b[0], -b[1], NO_POWER, 0)
        W = self.branch.strength * v
        key, size = self.small_one
        ring = self.calculus(self.floor + 2).ring()
        x: Series = {V: self.atoms.of(W)}
        divided: Series = {ORDER_ONE: self.atoms.of(1 / (1 + W))}
        if V != ORDER_ONE:
            divided = ring.composed(ring.powers(x), lambda j: binomial(fmpq(-1), j))
        out = []
        for p, f in closing_series(self.branch, 2 * self.ends).items():
            n = rational(p)
            if n == 0:
                continue
            number = self.atoms.of(W * f) * self._root(size, p)
            shift = times((fmpq(1) + V[0], V[1], NO_POWER, 0), (key[0] * n, key[1] * n, key[2] * n, 0))
            out += [PairTerm(Piece(times(k, shift), c * number), n) for k, c in divided.items()]
        return out

    def _root(self, size: Exact, p: sp.Expr) -> Exact:
        return self.atoms.of(sp.powdenest(self.atoms.expr(size) ** p, force=True))

    # ------------------------------------------------------------------------------------------------- the equation

    def _iterated(self, key: Key, terms: list[PairTerm], left: Key | None) -> SeriesSolution:
        """X = l^… (1 + ε) under l(X′/X - 1) = Σ terms."""
        calculus, sizes = self.calculus(), self.order
        e, r = sizes.exponent(*key[:2]), key[2]
        full = [t.piece.key for t in terms]
        if any(sizes.size(k) > (0, 0, 0) for k in full):
            raise NoHigherOrder(
                "Further terms of two inputs are not derived where their distance outgrows powers of l."
            )
        terms = _balanced(self, terms, ORDER_ONE, e)
        kappa = _linear(terms, ORDER_ONE)
        if not kappa:
            own = self._given(terms) if not self.fast else ZERO
            terms = _balanced(self, terms, MARGINAL, of(r) - own)
        kappa2 = _linear(terms, MARGINAL)
        if kappa2.number is None or not self._follows(kappa, e):
            raise NoHigherOrder(
                "Further terms of two inputs are not derived where the start enters by such a power of l."
            )
        gap = self._part(kappa)
        home: Key = (*gap, kappa2.number, 0)
        slope = (-gap[0], -gap[1])
        free: Series = {home: self.atoms.of(START)} if sizes.size(home) < (0, 0, 0) else {}
        eta = Truncated({}) if self.fast else inside(self.solved)
        source, ring = calculus.ring(), calculus.ring()

        def small(eps: Series) -> Series:
            source.lost = None
            rate = plus(*self._rates(source, terms, eps, eta.terms), {ORDER_ONE: -e}, {MARGINAL: of(-r)})
            linear = plus(scaled(eps, -kappa), scaled(eps, -kappa2, MARGINAL))
            one = plus({ORDER_ONE: of(fmpq(1))}, eps)
            return source.cut(plus(source.product(rate, one), linear, *differences(key, source, eps)))

        eps = balanced(ring, small, slope, -kappa2.number, free, "the further terms of two inputs")
        through = None
        if eta.remainder is not None:
            moved = [t.piece.key for t in terms if t.piece.slope or t.piece.logs != 0]
            top = sizes.largest(*moved)
            through = None if top is None else times(top, eta.remainder)
        known = [solution_key(k, home) for k in (left, through, source.lost)]
        remainder = sizes.largest(ring.lost, *known)
        by_solution = not self.fast and remainder == known[1] and self.solved.short
        short = remainder is not None and (remainder == known[0] or by_solution)
        return SeriesSolution(calculus, power_law(ring, key), calculus.made(eps, remainder, ()), short)

    def _rates(self, ring: Ring, terms: list[PairTerm], eps: Series, eta: Series) -> list[Series]:
        """l(X′/X - 1), as a sum over powers of 1 + ε."""
        out = []
        for n in dict.fromkeys(t.power for t in terms):
            pieces = tuple(t.piece for t in terms if t.power == n)
            known = [{p.key: p.prefactor} for p in pieces] if self.fast else self.leading.evaluated(ring, pieces, eta)
            powers = ring.powers(eps)
            raising: Series = plus(
                {ORDER_ONE: of(fmpq(1))}, *[scaled(x, binomial(n, j)) for j, x in enumerate(powers, 1)]
            )
            out.append(ring.product(plus(*known), raising))
        return out

    def _given(self, terms: list[PairTerm]) -> Exact:
        """What η of relative size 1/log l makes of the leading terms at 1/log l."""
        eta = inside(self.solved).terms
        total = ZERO
        for t in terms:
            if t.piece.key == ORDER_ONE and MARGINAL in eta:
                total = total + t.piece.slope * eta[MARGINAL]
        return total

    def _part(self, kappa: Exact) -> tuple[fmpq, Part]:
        return self.basis.of(self.atoms.expr(kappa))

    def _follows(self, kappa: Exact, e: Exact) -> bool:
        return not kappa or self.order.size((*self._part(kappa), NO_POWER, 0)) < (0, 0, 0)


def _balanced(trial: PairTrial, terms: list[PairTerm], at: Key, total: Exact) -> list[PairTerm]:
    """Terms of one key whose fronts sum to `total`, one of them by the balance; a check that they do."""
    here = [i for i, t in enumerate(terms) if t.piece.key == at]
    remainder = total
    for i in here[1:]:
        remainder = remainder + -terms[i].piece.prefactor
    if not here:
        if total:
            raise NoHigherOrder("The law of the distance of two inputs is no balance of its recursion.")
        return terms
    old = terms[here[0]].piece.prefactor
    if not trial.atoms.vanishes(old + -remainder):
        raise NoHigherOrder("The law of the distance of two inputs is no balance of its recursion.")
    out = list(terms)
    out[here[0]] = replace(out[here[0]], piece=replace(out[here[0]].piece, prefactor=remainder))
    return out


def _linear(terms: list[PairTerm], at: Key) -> Exact:
    total = ZERO
    for t in terms:
        if t.piece.key == at:
            total = total + t.piece.prefactor.scaled(t.power)
    return total


@lru_cache(maxsize=64)
def closing_series(branch: Branch, order: int) -> dict[sp.Expr, sp.Expr]:
    """b_p of (1 - κ(1 - ε))/ε = Σ b_p ε^p, κ the correlation that a linear tail leaves of 1 - ε."""
    found = tail(branch.phi.pieces, True)
    if found.d != 1:
        raise NoHigherOrder("Further terms of two inputs are derived for tails that are linear.")
    try:
        kernel = found.kernel(_C)
    except MeanFieldError as error:
        raise NoHigherOrder(str(error)) from None
    ratio = ((1 - kernel) / (1 - _C)).subs(_C, 1 - _T**2)
    series = sp.series(ratio, _T, 0, order + 1).removeO()
    return {sp.Rational(n, 2): c for n in range(order + 1) if (c := sp.simplify(series.coeff(_T, n))) != 0}


PAIR_DERIVED: dict[str, Callable[[PairTrial], SeriesSolution]] = {
    "distance": PairTrial.Delta,
    "gamma": PairTrial.gamma_law,
    "c": PairTrial.c,
    "K_ab": PairTrial.K_ab,
}


def higher_order_pair(
    branch: Branch, regime: Regime, pair: tuple[Growth | None, Growth | None], quantity: str, law: Growth, order: int
) -> tuple[Growth, Corrections]:
    """The law of a quantity of two inputs with `order` further terms; pair: the laws of Δ and γ."""
    distance, gamma = pair
    if distance is None or gamma is None:
        raise NoHigherOrder(f"Further terms of {quantity} were asked for, whose leading law is not derived.")
    derive = PAIR_DERIVED[quantity]

    def tried(floor: fmpq, depth: fmpq, ends: int) -> SeriesSolution:
        return derive(PairTrial(branch, regime, distance, gamma, floor, depth, ends))

    found, more = searched(tried, quantity, law, order)
    if found.constant is None and not found.leading:
        prefactor = PairTrial(branch, regime, distance, gamma, NO_POWER, fmpq(1), 3).amplitudes[quantity]
        found = replace(found, constant=prefactor)
    return found, more
