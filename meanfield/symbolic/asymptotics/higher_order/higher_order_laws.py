r"""Laws with further terms of K, of the variance q inside a block, of J, and of squared gradients.

K comes from `corrections`; log J = Σ log(1 + σ_v²σ_w² l^{-V} ⟨φ′²⟩_q), and log K where K is fed back linearly at V < 1,
are sums over blocks of series. A squared gradient is a local factor, σ_v² l^{-β_v} ⟨φ′²⟩_q K or ⟨φ²⟩_q, over J up to
and with its block. Source: derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import sympy as sp
from flint import fmpq

from meanfield.symbolic.asymptotics.higher_order.corrections import SolvedCorrections, solve
from meanfield.symbolic.asymptotics.higher_order.leading_order import Leading
from meanfield.symbolic.asymptotics.higher_order.series_solution import (
    Corrections,
    SeriesSolution,
    count_of,
    multiplied,
    power_law,
    product_of,
    raised,
    stated,
)
from meanfield.symbolic.asymptotics.log_growth import Growth
from meanfield.symbolic.asymptotics.schedules.balance import Exponent
from meanfield.symbolic.asymptotics.schedules.branch import Branch
from meanfield.symbolic.asymptotics.schedules.regimes import Regime
from meanfield.symbolic.series.coefficients import Atoms
from meanfield.symbolic.series.exponents import NO_POWER, Basis, NoHigherOrder
from meanfield.symbolic.series.ring import (
    ORDER_ONE,
    Ring,
    Series,
    TooLong,
    key,
    over,
    plus,
    times,
)
from meanfield.symbolic.series.truncated import Calculus, Truncated

OF_K = "C_K"  # C of the law of K, in the law of J
MOST_ORDER = 12
TRIALS = 30
IDLE = 4  # trials without a new term, after which no more are looked for


class Trial:
    """What one regime says down to l^-floor (log l)^-depth; ends: the order to which averages are expanded; name: of
    what the start decides in K. All that it finds shares one set of named numbers."""

    def __init__(self, branch: Branch, regime: Regime, floor: fmpq, depth: fmpq, ends: int, name: str = OF_K):
        self.branch, self.regime, self.floor, self.depth, self.ends, self.name = (
            branch,
            regime,
            floor,
            depth,
            ends,
            name,
        )
        self.atoms, self.basis = Atoms(), Basis(keeper=Exponent)
        self.fast = bool(regime.K.stretched or regime.K.products)  # K outgrows every power, by a linear feedback

    @cached_property
    def leading(self) -> Leading:
        return Leading(self.branch, self.regime.K, self.ends, self.name, self.atoms, self.basis)

    def calculus(self, floor: fmpq | None = None) -> Calculus:
        deep = self.floor if floor is None else floor
        return Calculus(self.atoms, basis=self.basis, deep=deep, depth=self.depth, counted=True)

    @cached_property
    def order(self) -> Ring:
        """What orders keys."""
        return self.calculus().order

    def plain(self, grown: Series) -> SeriesSolution:
        """A quantity that is exp(terms that grow), with nothing left out."""
        return SeriesSolution(self.calculus(), grown, Truncated({}))

    def fall(self, name: str) -> SeriesSolution:
        """σ² l^-β, up to σ²."""
        a, b = self.basis.of(getattr(self.branch, name).beta, f"beta_{name}")
        return self.plain(power_law(self.order, (-a, -b, NO_POWER, 0)))

    # ------------------------------------------------------------------------------------------------- K and q

    @cached_property
    def solved(self) -> SolvedCorrections:
        return solve(self.leading, self.floor, self.depth)

    def K(self, alone: bool = True) -> SeriesSolution:
        """K; alone: over its leading term, which the law states."""
        if self.fast:
            return self._linear(self.branch.square)
        s = self.solved
        grown = {} if alone else power_law(s.calculus.order, self.leading.key)
        return SeriesSolution(s.calculus, grown, s.eps, s.short)

    def q(self) -> SeriesSolution:
        """q, over its leading term."""
        if self.fast:
            return multiplied(self.K(), self.fall("w"))
        return SeriesSolution(self.solved.calculus, {}, inside(self.solved), self.solved.short, self.leading.q0)

    def average(self, node: sp.Expr) -> SeriesSolution:
        """⟨f⟩_q for the node of f² or φ′²."""
        if self.fast:
            power, logs, _ = self._far(node)
            if logs != 0:
                raise NoHigherOrder("Further terms are not derived where a logarithm multiplies a linear feedback.")
            return raised(self.q(), self.basis.of(power)[0])
        expanded = self.leading.expanded(node, sp.S.One, ORDER_ONE)
        keys = [self.leading.full(p) for p in expanded.pieces]
        lead = self.order.largest(*keys)
        if lead is None:
            raise NoHigherOrder("An average over this law falls faster than every power; no further terms are derived.")
        pieces = tuple(replace(p, key=over(p.key, lead)) for p in expanded.pieces)
        eta, calculus = inside(self.solved), self.solved.calculus
        ring = calculus.ring()
        x = plus(*self.leading.evaluated(ring, pieces, eta.terms))
        left = None if expanded.remainder is None else over(expanded.remainder, lead)
        moved = ring.largest(*[self.leading.full(p) for p in pieces if p.slope or p.logs != 0])
        through = None if eta.remainder is None or moved is None else times(moved, eta.remainder)
        remainder = ring.largest(ring.lost, left, through)
        small = {k: c for k, c in x.items() if k != ORDER_ONE}
        one = x.get(ORDER_ONE)
        if one is None or any(ring.size(k) > (0, 0, 0) for k in small):
            raise NoHigherOrder(
                "The leading term of an average over this law cancels; its further terms are not derived."
            )
        over_one = self.atoms.reciprocal(one)
        small = {k: c * over_one for k, c in small.items()}
        short = remainder is not None and (remainder == left or self.solved.short)
        return SeriesSolution(calculus, power_law(ring, lead), calculus.made(small, remainder, ()), short)

    def _far(self, node: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
        end = self.branch.infinity
        return end.of_square if node == self.branch.square else end.of_slope

    # --------------------------------------------------------------------------------------- sums over the blocks

    def J(self, after: bool = False) -> SeriesSolution:
        """J over the blocks before l; after: and block l."""
        slope = self.branch.slope
        if self.fast:
            return self._linear(slope, after)
        leading, floor = self.leading, 1 + self.floor
        average = leading.expanded(slope, self.branch.strength, times(leading.fall("v"), leading.fall("w")))
        calculus = self.calculus(floor)
        ring = calculus.ring()
        moved = ring.largest(*[leading.full(p) for p in average.pieces if p.slope or p.logs != 0])
        if moved is None:  # ⟨φ′²⟩ is the same at every q
            x = plus(*leading.evaluated(ring, average.pieces, {}))
            remainder = ring.largest(ring.lost, average.remainder)
            return product_of(calculus, Truncated(x, remainder), remainder == average.remainder, after)
        found = solve(leading, max(floor + ring.size(moved)[0], NO_POWER), self.depth)
        eta = inside(found)
        x = plus(*leading.evaluated(ring, average.pieces, eta.terms))
        through = None if eta.remainder is None else times(moved, eta.remainder)
        left = ring.largest(average.remainder, through)
        remainder = ring.largest(ring.lost, left)
        short = left is not None and remainder == left and (left == average.remainder or found.short)
        return product_of(calculus, Truncated(x, remainder), short, after)

    def _linear(self, node: sp.Expr, after: bool = False) -> SeriesSolution:
        """Π (1 + σ_v²σ_w² v l^{-V}), where q → ∞ faster than every power and ⟨φ²⟩_q ~ v q, or ⟨φ′²⟩_q ~ v."""
        power, logs, v = self._far(node)
        if node == self.branch.slope and power < 0:
            return self.plain({})
        if logs != 0:
            raise NoHigherOrder("Further terms are not derived where a logarithm multiplies a linear feedback.")
        a, b = self.basis.of(self.branch.v.beta + self.branch.w.beta)
        V = (-a, -b, NO_POWER, 0)
        W = self.branch.strength * v
        if V == ORDER_ONE:
            return self.plain({key(1): self.atoms.of(sp.log(1 + W))})
        return product_of(self.calculus(1 + self.floor), Truncated({V: self.atoms.of(W)}), False, after)

    # --------------------------------------------------------------------------------------- squared gradients

    def gradient(self, name: str) -> SeriesSolution:
        """G of one group in block l, over J^{1,L}."""
        if name == "G_z":
            return raised(self.J(), fmpq(-1))
        behind = raised(self.J(after=True), fmpq(-1))
        if name == "G_b[2]":
            return behind
        if name == "G_w[2]":
            return multiplied(self.average(self.branch.square), behind)
        through = multiplied(self.fall("v"), self.average(self.branch.slope), behind)
        return multiplied(self.K(alone=False), through) if name == "G_w[1]" else through


GRADIENTS = ("G_z", "G_w[1]", "G_b[1]", "G_w[2]", "G_b[2]")
DERIVED: dict[str, Callable[[Trial], SeriesSolution]] = {
    "K": Trial.K,
    "K[1]": Trial.q,
    "J": Trial.J,
    **{name: (lambda trial, name=name: trial.gradient(name)) for name in GRADIENTS},  # type: ignore[misc]
}


def higher_order_law(
    branch: Branch, regime: Regime, quantity: str, law: Growth, order: int
) -> tuple[Growth, Corrections]:
    """The law with `order` further terms: those of log X that grow first, then those that vanish; fewer where no more
    are derived. Raises: MeanFieldError where none are."""
    derive, name = DERIVED[quantity], "C" if quantity in ("K", "K[1]") else OF_K

    def tried(floor: fmpq, depth: fmpq, ends: int) -> SeriesSolution:
        return derive(Trial(branch, regime, floor, depth, ends, name))

    return searched(tried, quantity, law, order)


def searched(
    derive: Callable[[fmpq, fmpq, int], SeriesSolution], quantity: str, law: Growth, order: int
) -> tuple[Growth, Corrections]:
    """The law with `order` further terms, by trials that go deeper: derive(floor, depth, ends) as in `Trial`."""
    floor, depth, ends, idle, known = NO_POWER, fmpq(1), 3, 0, -1
    found: SeriesSolution | None = None
    for _ in range(TRIALS):
        try:
            found = derive(floor, depth, ends)
        except TooLong:
            break
        count = count_of(found, law)
        idle, known = idle + 1 if count == known else 0, count
        if found.remainder is None or count >= order or idle == IDLE:
            break
        p, r, _ = found.calculus.order.size(found.remainder)
        far = 2 * count < order
        if found.short:
            ends += 1
        elif p >= -floor:  # down to what was left out, and further where that gave little
            depth = max(depth + fmpq(1, 2), 2 * depth if far else -r)
        else:
            floor = max(2 * floor if far else NO_POWER, -p)
    if found is None:
        raise NoHigherOrder(f"The further terms of {quantity} are too many to be worked out here.")
    return stated(found, law, order)


def inside(found: SolvedCorrections) -> Truncated:
    """η of q = q0 (1 + η)."""
    ring, left = found.calculus.ring(), found.eps.remainder
    eta = found.leading.eta(ring, found.eps.terms)
    remainder = ring.largest(ring.lost, None if left is None else times(left, found.leading.own[1]))
    return found.calculus.made(eta, remainder, ())
