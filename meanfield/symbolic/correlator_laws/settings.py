r"""What functions of K are along K^l as l → ∞: where K falls to 0, and where it settles at K* > 0.

A `Setting` turns a coefficient of a map (an expression in K and averages over it) into a `Truncated` series in l.
Near a critical K* the distance is y, y′ = y(1 + g(y)); with u = A y^{-m} the map is u′ = u + 1 + Σ f_k u^{-k/m}, so u =
l + v with a v that is a series in l and log l up to a constant, which the start decides. Elsewhere K comes
exponentially close, and a coefficient is its value at K*.

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Protocol

import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K
from meanfield.symbolic.correlator_laws.local_series import Expander, power_series
from meanfield.symbolic.equality import equal, same_structure
from meanfield.symbolic.series.coefficients import ONE, ZERO, Atoms, Exact, of
from meanfield.symbolic.series.exponents import NO_POWER
from meanfield.symbolic.series.recurrences import growing
from meanfield.symbolic.series.ring import ORDER_ONE, any_logs, binomial, key, plus, scaled
from meanfield.symbolic.series.truncated import Calculus, Rate, Truncated, leading

C_K = sp.Symbol("C_K", real=True)
Taylor = Callable[[sp.Expr, int], list[fmpq]]
Value = Callable[[sp.Expr], tuple[Exact, Rate]]


class Setting(Protocol):
    """What a coefficient, and the multiplier of a variable in its own map, are along K^l."""

    @property
    def calculus(self) -> Calculus: ...
    def coefficient(self, e: sp.Expr) -> Truncated: ...
    def multiplier(self, e: sp.Expr) -> Truncated: ...


class PowerApproach:
    """K → K* by a power of l.

    expander: series in y (√K, or the distance from K* > 0); gain: y'/y − 1 or, at K = 0, K'/K − 1 as a series in y, and
    share: the power of y that K, or the distance, is; reach: powers of l that are worked out; start: whether what the
    start decides is carried along.
    """

    def __init__(
        self,
        calculus: Calculus,
        expander: Expander,
        gain: Truncated,
        share: int,
        reach: int,
        start: bool = True,
    ) -> None:
        self.start = calculus.atoms.of(C_K) if start else ZERO
        self.calculus, self.expander, self.reach = calculus, expander, fmpq(reach)
        self.gain, self.share = gain, share
        if not gain.terms:
            raise MeanFieldError("K' − K is smaller than every power here, so K is no power of l; no law is derived.")
        self.m, lead = leading(gain)  # y^m is what leads the gain
        self.A = calculus.atoms.reciprocal((-lead).scaled(fmpq(self.m, share)))
        self.known: dict[int, Truncated] = {}

    def _amplitude(self, k: int) -> Exact:
        """A^{k/m}, so that y^k = A^{k/m} u^{-k/m}."""
        whole, part = divmod(k, self.m)
        out = ONE
        for _ in range(abs(whole)):
            out = out * (self.A if whole > 0 else self.calculus.atoms.reciprocal(self.A))
        if part:
            atoms = self.calculus.atoms
            out = out * atoms.of(atoms.expr(self.A) ** sp.Rational(part, self.m))
        return out

    @cached_property
    def u(self) -> Truncated:
        """A y^{-m} = l + …, with the constant of the start."""
        m, power, near = self.m, fmpq(-self.m, self.share), self.calculus.edge(self.gain)
        assert near is not None
        ring = self.expander.calculus.ring(self.gain.remainder)
        total = ring.composed(ring.powers(self.gain.terms), lambda j: binomial(power, j))
        f = {-int(k[0].p) - m: c * self._amplitude(-int(k[0].p)) for k, c in total.items() if near < k[0] < -m}
        remainder = max(fmpq(2) + near / m, -self.reach)
        calc = self.calculus
        steps = {((fmpq(-k, m), NO_POWER), 0): c for k, c in f.items() if c}
        w = growing(calc.ring(any_logs(remainder - 1)), steps, ZERO, {key(-1): self.start})
        return calc.made(
            scaled(plus({ORDER_ONE: ONE}, w), ONE, key(1)), any_logs(remainder), (NO_POWER,) * len(calc.bases)
        )

    def y(self, k: int) -> Truncated:
        """y^k along the layers."""
        if k not in self.known:
            found = self.calculus.real_power(self.u, fmpq(-k, self.m))
            self.known[k] = self.calculus.scaled(found, self._amplitude(k))
        return self.known[k]

    def along(self, series: Truncated) -> Truncated:
        """A series in y as one in l."""
        calc, near = self.calculus, self.calculus.edge(series)
        assert near is not None
        parts = [calc.scaled(self.y(-int(k[0].p)), c) for k, c in calc.order.ordered(series.terms)]
        whole = calc.plus(*parts) if parts else calc.constant(ZERO)
        remainder = calc.order.largest(any_logs(near / self.m), whole.remainder)
        return calc.made(whole.terms, remainder, whole.rate)

    def coefficient(self, e: sp.Expr) -> Truncated:
        return self.along(self.expander(e))

    def multiplier(self, e: sp.Expr) -> Truncated:
        return self.coefficient(e)


def power_law_at_zero(
    calculus: Calculus, expander: Expander, step: sp.Expr, reach: int, start: bool = True
) -> PowerApproach:
    """K falls to 0 as a power of l: K' = K(1 + g(√K)), where K'/K is known to be 1 at K = 0, however its number is
    written. Raises: MeanFieldError where g is not led by a power."""
    slope = expander(step / K)
    gain = replace(slope, terms={k: c for k, c in slope.terms.items() if k != ORDER_ONE})
    return PowerApproach(calculus, expander, gain, 2, reach, start)


class AtFixedPoint:
    """K comes exponentially close to K*, or, with C_K κ^l, to 0: what is exponentially smaller is left out.

    values: the value of a coefficient, as (its size, the exponential it has); chi_K, chi_J: expressions of the two
    slopes, powers of which every multiplier is.
    """

    def __init__(self, calculus: Calculus, value: Value, chi_K: sp.Expr, chi_J: sp.Expr, rates: list[Rate]) -> None:
        self.calculus, self.value, self.chi_K, self.chi_J, self.rates = calculus, value, chi_K, chi_J, rates

    def coefficient(self, e: sp.Expr) -> Truncated:
        c, rate = self.value(e)
        return Truncated({ORDER_ONE: c} if c else {}, None, rate)

    def multiplier(self, e: sp.Expr) -> Truncated:
        a, b = powers_of(e, self.chi_K, self.chi_J)
        rate = tuple(a * x + b * y for x, y in zip(*self.rates))
        return Truncated({ORDER_ONE: ONE}, None, rate)


def powers_of(e: sp.Expr, chi_K: sp.Expr, chi_J: sp.Expr) -> tuple[int, int]:
    """(a, b) of a multiplier χ_K^a χ_J^b. Raises: MeanFieldError for another one."""
    candidates = [(a, b) for a in range(3) for b in (-1, 0, 1, 2)]
    for a, b in candidates:
        if sp.expand(e - chi_K**a * chi_J**b) == 0:
            return a, b
    for same in (same_structure, equal):  # σσ′ and (σ²)′/2 are written in two ways
        for a, b in candidates:
            if same(e, chi_K**a * chi_J**b):
                return a, b
    raise MeanFieldError(f"The multiplier {e} is no product of chi_K and chi_J.")


def at_fixed_point(atoms: Atoms, value_at: Callable[[sp.Expr], Exact], chi_K: sp.Expr, chi_J: sp.Expr) -> AtFixedPoint:
    """K → K* > 0, χ_K ≠ 1. value_at: the number that an expression is at K*, as an exact coefficient."""
    slopes = [atoms.expr(value_at(e)) for e in (chi_K, chi_J)]
    if not all(s > 0 or e == 0 for s, e in zip(slopes, (chi_K, chi_J))):  # of a slope 0 no multiplier is made
        raise MeanFieldError("chi_K or chi_J is not positive at K*, so powers of it are no exponentials.")
    bases = tuple(dict.fromkeys(s for s in slopes if s not in (0, 1)))
    calculus = Calculus(atoms, bases=bases, transient=True)
    rates = [tuple(fmpq(int(s == b)) for b in bases) for s in slopes]
    none = (NO_POWER,) * len(bases)
    return AtFixedPoint(calculus, lambda e: (value_at(e), none), chi_K, chi_J, rates)


def falling(atoms: Atoms, expander: Expander, chi_K: sp.Expr, chi_J: sp.Expr, slope: sp.Expr) -> AtFixedPoint:
    """K = C_K κ^l to leading order, κ = χ_K = χ_J at K = 0."""
    calculus = Calculus(atoms, bases=(slope,), transient=True)
    start = sp.Symbol("C_K", positive=True)

    def value(e: sp.Expr) -> tuple[Exact, Rate]:
        found = expander(e)
        if not found.terms:
            raise MeanFieldError("A coefficient is smaller than every power of K that was looked at.")
        first, c = leading(found)
        return c * atoms.of(start ** sp.Rational(first, 2)), (fmpq(first, 2),)

    return AtFixedPoint(calculus, value, chi_K, chi_J, [(fmpq(1),), (fmpq(1),)])


class HalfStable(PowerApproach):
    """K* > 0 with χ_K = χ_J = 1: δ = K − K* = −y/g, K' = K + g δ² + …; χ_J = 1 − λ y + ….

    taylor: the numbers f^{(k)}(K*)/k! of an expression, as many as are asked for; lam: λ.
    """

    def __init__(
        self, calculus: Calculus, taylor: Taylor, step: sp.Expr, chi_J: sp.Expr, lam: Exact, length: int, reach: int
    ) -> None:
        atoms, g = calculus.atoms, taylor(step, 3)[2]
        self.chi_J_expr, self.chi_K_expr = chi_J, sp.diff(step, K)
        scale = -1 / g

        def numbers(e: sp.Expr) -> list[fmpq]:
            return [x * scale**k for k, x in enumerate(taylor(e, length))]

        def node(e: sp.Expr) -> Truncated:
            return power_series(map(of, numbers(e)))

        place = power_series([of(taylor(K, 1)[0]), of(scale), *[ZERO] * (length - 2)])
        ahead = numbers(step)[2:]
        ahead = [x / scale for x in ahead]  # y' = y − y² + …
        gain = [-ONE, *map(of, ahead[1:])]
        self.chi_J = power_series([ONE, -lam, *map(of, numbers(chi_J)[2:])])
        self.chi_K = power_series([ONE, *[c.scaled(fmpq(k)) for k, c in enumerate(gain, 2)]])
        super().__init__(calculus, Expander(atoms, node, place, length), power_series(gain, 1), 1, reach)

    def multiplier(self, e: sp.Expr) -> Truncated:
        return self.along(_powers(e, self)[0])


def _powers(e: sp.Expr, at: HalfStable | SlowPoint) -> tuple[Truncated, int]:
    """(χ_K^a χ_J^b as a series in y, by the series of both at a point; b)."""
    a, b = powers_of(e, at.chi_K_expr, at.chi_J_expr)
    calc = at.expander.calculus
    found = calc.times(Truncated({ORDER_ONE: ONE}, at.chi_J.remainder), calc.power(at.chi_K, a))
    return calc.times(found, calc.power(at.chi_J, b)), b


class SlowPoint(PowerApproach):
    """K* > 0 with χ_K = 1, known exactly: y = side·(K - K*), y′ = y + g y^n + …; χ_J may be any number > 0 there.

    taylor: the coefficients of a function of K in powers of y, as many as are asked for; steep: χ_J at K*.
    """

    def __init__(
        self,
        calculus: Calculus,
        taylor: Callable[[sp.Expr, int], list[Exact]],
        step: sp.Expr,
        chi_J: sp.Expr,
        steep: Exact,
        side: int,
        length: int,
        reach: int,
    ) -> None:
        self.chi_J_expr, self.chi_K_expr = chi_J, sp.diff(step, K)
        prefactor = calculus.atoms.reciprocal(steep)
        self.chi_J = power_series([ONE, *[c * prefactor for c in taylor(chi_J, length)[1:]]])
        change = [c.scaled(fmpq(side)) for c in taylor(sp.expand(step - K), length + 1)]
        self.chi_K = power_series([ONE, *[c.scaled(fmpq(k)) for k, c in enumerate(change[2:], 2)]])

        def node(e: sp.Expr) -> Truncated:
            return power_series(taylor(e, length))

        expander = Expander(calculus.atoms, node, node(K), length)
        super().__init__(calculus, expander, power_series(change[1:]), 1, reach)

    def multiplier(self, e: sp.Expr) -> Truncated:
        found, b = _powers(e, self)
        along = self.along(found)
        return replace(along, rate=tuple(fmpq(b) for _ in self.calculus.bases))
