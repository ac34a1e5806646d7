r"""Further terms of K under variances that fall with depth: K = A l^e (log l)^r (1 + ε), ε a series in l and log l.

With K put into K′ - K = σ_v² l^{-β_v} ⟨φ²⟩_q + σ_a² l^{-β_a} and divided by K/l, the leading order cancels (it is the
law of `residual`), and what is linear in ε makes

    l ε′ + (e - κ) ε + (r - κ₂) ε/log l = N(ε),

where N holds everything smaller: the sources and powers of q that the balance leaves out, higher powers of ε, and the
difference K′ - K beyond dK/dl. Putting ε in again gains an order each time. l^κ (log l)^κ₂ solves the equation of a
small change of K; it carries the constant of the start, and a term of N of its size makes a logarithm.

Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from flint import fmpq

from meanfield.symbolic.asymptotics.higher_order.leading_order import MARGINAL, Leading
from meanfield.symbolic.series.coefficients import of
from meanfield.symbolic.series.recurrences import balanced, differences
from meanfield.symbolic.series.ring import ORDER_ONE, Key, Ring, Series, plus, scaled
from meanfield.symbolic.series.truncated import Calculus, Truncated


@dataclass(frozen=True)
class SolvedCorrections:
    """ε; short: whether the expansion of ⟨φ²⟩_q sets what it leaves out."""

    leading: Leading
    calculus: Calculus
    eps: Truncated
    short: bool


def solve(leading: Leading, floor: fmpq, depth: fmpq) -> SolvedCorrections:
    """ε down to l^-floor (log l)^-depth; what the start decides is the coefficient of l^κ (log l)^κ₂ in K."""
    home = leading.home
    if leading.soft:
        floor = min(floor, -leading.size(home)[0] - fmpq(1, 10**9))
    slope = (leading.e[0] - leading.kappa[0], leading.e[1] - leading.kappa[1])
    free: Series = {}
    if leading.size(home) < (0, 0, 0):
        free = {home: leading.atoms.of(leading.start / leading.amplitude)}
    calculus = leading.calculus(floor, depth)
    source, ring = calculus.ring(), calculus.ring()
    right = partial(_small, leading, source)
    eps = balanced(ring, right, slope, leading.r - leading.kappa2, free, "the further terms of K")
    averages = solution_key(leading.remainder, home)
    remainder = ring.largest(ring.lost, solution_key(source.lost, home), averages)
    if leading.soft:
        remainder = ring.largest(remainder, (home[0], home[1], fmpq(1000), 0))
    short = averages is not None and remainder == averages
    return SolvedCorrections(leading, calculus, calculus.made(eps, remainder, ()), short)


def solution_key(k: Key | None, home: Key) -> Key | None:
    """The key of what a right-hand side of this key makes of ε; home: that of the start's part."""
    if k is None or k[:2] != home[:2]:
        return k
    return k[0], k[1], k[2] + 1, k[3] + (1 if k[2] + 1 == home[2] else 0)


def _small(leading: Leading, ring: Ring, eps: Series) -> Series:
    """N(ε); `ring.lost` is what it leaves out."""
    ring.lost = None
    parts = leading.evaluated(ring, leading.pieces, leading.eta(ring, eps))
    for p in leading.pieces:
        if leading.full(p) in (ORDER_ONE, MARGINAL):
            linear = leading._constant(p).scaled(p.power) if p.logs != 0 else p.slope
            parts.append(scaled(eps, -(linear * leading.share), leading.full(p)))
            if leading.full(p) == ORDER_ONE:
                parts.append({ORDER_ONE: -leading._constant(p)})
    parts.append({MARGINAL: of(-leading.r)})
    return ring.cut(plus(*parts, *differences(leading.key, ring, eps)))
