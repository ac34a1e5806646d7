r"""Equations between a sequence and its next layer, solved by truncated series: each right side is put in again.

Everything here comes to l x′ + slope·x + logs·x/log l = N(x), N smaller than x: `Ring.solved` answers it for a known
right side, and an answer put into N is right a further order down.

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Callable

from flint import fmpq

from meanfield.symbolic.series.coefficients import ONE, Exact, of
from meanfield.symbolic.series.exponents import NO_POWER, NoHigherOrder
from meanfield.symbolic.series.ring import ORDER_ONE, Key, Part, Ring, Series, binomial, key, over, plus, scaled

ROUNDS = 200
Power = tuple[fmpq, Part]
Powers = dict[tuple[Power, int], Exact]  # c of c x^p (log x)^m by (p, m)


def put_in(answer: Callable[[Series], Series], what: str) -> Series:
    """The x with answer(x) = x, from 0 on. Raises: NoHigherOrder where it is not found."""
    x: Series = {}
    for _ in range(ROUNDS):
        new = answer(x)
        if new == x:
            return x
        x = new
    raise NoHigherOrder(f"The expansion of {what} at large depth does not converge.")


def balanced(
    ring: Ring,
    right: Callable[[Series], Series],
    slope: Power = (NO_POWER, NO_POWER),
    logs: fmpq = NO_POWER,
    free: Series | None = None,
    what: str = "a sequence",
) -> Series:
    """x with l x′ + slope·x + logs·x/log l = right(x); free: what the start decides, a solution for right = 0.

    `ring.lost` is afterwards what the last round left out.
    """

    def answer(x: Series) -> Series:
        ring.lost = None
        return ring.cut(plus(ring.solved(right(x), slope, logs), free or {}))

    return put_in(answer, what)


def differences(lead: Key, ring: Ring, eps: Series) -> list[Series]:
    """-l Σ_{j ≥ 2} Dʲ/j! of X = l^… (1 + ε), over its leading power: what X′ - X is beyond dX/dl."""
    up = key(1)
    base = over(lead, up)  # of l·Dʲ(1 + ε)
    change, factor, n, out = ring.derivative(scaled(plus({ORDER_ONE: ONE}, eps), ONE, up), base), fmpq(1), 1, []
    while change:
        n, factor = n + 1, factor / (n + 1)
        change = ring.derivative(change, base)
        out.append(scaled(change, of(-factor)))
    return out


def growing(ring: Ring, steps: Powers, log: Exact, free: Series | None = None, continuous: bool = False) -> Series:
    """w of u = l (1 + w) under u′ = u + 1 + Σ c u^p (log u + log)^m, every p < 0, by `steps`; continuous: under du/dl.

    free: {l^-1: C} for the constant C of u that the start decides, nothing where it is left out.
    """

    def right(w: Series) -> Series:
        beyond = [] if continuous else differences(key(1), ring, w)
        return plus(along(ring, steps, w, log), *beyond)

    return balanced(ring, right, (fmpq(1), NO_POWER), free=free, what="K")


def along(ring: Ring, terms: Powers, w: Series, log: Exact) -> Series:
    """Σ c u^p (log u + log)^m of u = l (1 + w), w a series that vanishes."""
    total: Series = {}
    known: dict[Power, tuple[Ring, list[Series], Series]] = {}
    for (p, m), c in terms.items():
        prefactor: Key = (*p, NO_POWER, 0)
        if p not in known:
            inner, e = ring.with_floor(ring.floor + ring.size(prefactor)[0], ring.depth), ring.exponent(*p)
            powers = inner.powers(w)
            known[p] = inner, powers, inner.composed(powers, lambda j, e=e: binomial(e, j))  # type: ignore[misc]
        inner, powers, part = known[p]
        if m:
            logs = plus({ORDER_ONE: log, (NO_POWER, NO_POWER, fmpq(1), 0): ONE}, inner.log1p(powers))
            for _ in range(m):
                part = inner.product(part, logs)
        total = plus(total, ring.cut(scaled(part, c, prefactor)))
        if inner.lost is not None:
            a, b, r, s = inner.lost
            ring.lost = ring.largest(ring.lost, (a + p[0], b + p[1], r, s))
    return total
