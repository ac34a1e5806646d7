r"""Linear difference equations x_{l+1} = m_l x_l + s_l as l → ∞, m and s series in powers of l and log l with exact
coefficients, times exponentials.

With x = ρ^l y and m = μ(1 + h) the equation of y is

    l y′ − a y = l s/μ + (l h − a) y − l (½ y″ + y‴/6 + …),    a = lim l h,

where ρ = μ; put in again and again, each time a power further. l^a solves it without s, with a constant that the start
decides, and a term of the right side with just this power makes a logarithm. Where the source grows faster than μ^l,
y is determined, and where it grows less, it is nothing beside the free solution.

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from flint import fmpq

from meanfield.base.answers.results import MeanFieldError
from meanfield.symbolic.series.coefficients import ONE, ZERO, Exact, of
from meanfield.symbolic.series.exponents import NO_POWER
from meanfield.symbolic.series.recurrences import balanced, differences, put_in
from meanfield.symbolic.series.ring import ORDER_ONE, Key, Series, any_logs, key, plus, scaled, shifted
from meanfield.symbolic.series.truncated import Calculus, Rate, Truncated


class NotFar(Exception):
    """Series that go further are needed."""


def solved(calc: Calculus, m: Truncated, s: Truncated, free: Callable[[], Exact]) -> Truncated:
    """x with x_{l+1} = m_l x_l + s_l, m = μ^l-free: m.rate says which exponential the solution without s has, and
    m.terms are 1 + h. free: the constant of the start, asked for where it is not covered by what is left out."""
    sourceless = not s.terms and s.remainder is None
    order = 1 if sourceless else calc.compare(m.rate, s.rate)
    if order < 0:
        return _forced(calc, m, s)
    home = home_of(calc, m)
    if order > 0:  # the source is nothing beside the free solution
        return _homed(calc, m, calc.constant(ZERO), home, free, m.rate)
    return _homed(calc, m, s, home, free, m.rate)


def home_of(calc: Calculus, m: Truncated) -> Key:
    """The power l^a of the solution without a source."""
    edge = calc.edge(m)
    if edge is not None and edge >= -1:
        raise NotFar
    unit = m.terms.get(ORDER_ONE)
    if unit is None or unit.number != 1:
        raise MeanFieldError("A multiplier was expected to tend to 1.")
    for k in m.terms:
        if k != ORDER_ONE and (calc.size(k) > -1 or (calc.size(k) == -1 and k[2] != 0)):
            raise MeanFieldError("A stretched exponential is no series in powers of l.")
    a = m.terms.get(key(-1), ZERO)
    number = a.number
    if number is not None:
        return key(number)
    linear = _linear(calc, a)
    if linear is None:
        raise MeanFieldError(f"The power {calc.atoms.expr(a)} of l is no number that is known as one here.")
    return linear[0], linear[1], NO_POWER, 0


def _linear(calc: Calculus, a: Exact) -> tuple[fmpq, fmpq] | None:
    """(a, b) of a + bλ."""
    if calc.irrational is None:
        return None
    lam = calc.atoms.of(calc.irrational)
    (monomial,) = lam.terms
    remainder = {k: c for k, c in a.terms.items() if k not in ((), monomial)}
    if remainder:
        return None
    return a.terms.get((), fmpq(0)), a.terms.get(monomial, fmpq(0)) / lam.terms[monomial]


def _homed(calc: Calculus, m: Truncated, s: Truncated, home: Key, free: Callable[[], Exact], rate: Rate) -> Truncated:
    """The free solution with the particular one, both ρ^l times series."""
    slow = replace(m, terms={k: c for k, c in m.terms.items() if k != ORDER_ONE and k != key(-1)})
    if any(m.rate):
        s = calc.scaled(s, calc.base(tuple(-r for r in m.rate)))
    edge, near = calc.edge(s), calc.edge(m)
    remainder = edge + 1 if edge is not None else None
    if near is not None:
        most = max([calc.size(home), *(calc.size(k) + 1 for k in s.terms)])
        bound = near + 1 + most
        remainder = bound if remainder is None else max(remainder, bound)
    start: Series = {}
    if remainder is None or calc.size(home) > remainder:
        start = {home: c} if (c := free()) else {}
    x = _iterated(calc, slow, s, (-home[0], -home[1]), remainder, start)
    lead = calc.lead(calc.made(x, any_logs(remainder), rate))
    if near is not None and lead is not None:
        bound = near + 1 + calc.size(lead)
        remainder = bound if edge is None else max(edge + 1, bound)
    return calc.made(x, any_logs(remainder), rate)


def _iterated(
    calc: Calculus, slow: Truncated, s: Truncated, slope: tuple[fmpq, fmpq], remainder: fmpq | None, start: Series
) -> Series:
    ring = calc.ring(any_logs(remainder))
    source, own = (scaled(one.terms, ONE, key(1)) for one in (s, slow))

    def right(x: Series) -> Series:
        return plus(source, ring.product(own, x), *differences(ORDER_ONE, ring, x))

    return balanced(ring, right, slope, free=start)


def _forced(calc: Calculus, m: Truncated, s: Truncated) -> Truncated:
    """ρ^l y of a source that grows faster: y = (s + (μ/ρ)(1 + h) y − Σ y^(j)/j!)/(1 − μ/ρ), ρ^l s/ρ the source."""
    back = tuple(-r for r in s.rate)
    ratio = calc.base(tuple(x + y for x, y in zip(m.rate, back)))
    source = scaled(s.terms, calc.base(back))
    prefactor = calc.atoms.reciprocal(ONE - ratio)
    remainder = s.remainder
    if m.remainder is not None and (most := calc.lead(s)) is not None:
        remainder = calc.order.largest(remainder, shifted(m.remainder, most))
    slow = {k: c * ratio for k, c in m.terms.items() if k != ORDER_ONE}
    ring = calc.ring(remainder)

    def answer(y: Series) -> Series:
        change = plus(calc.later(Truncated(y, remainder, ())).terms, scaled(y, of(fmpq(-1))))
        right = plus(source, ring.product(slow, y), scaled(change, of(fmpq(-1))))
        return calc.made(ring.cut(scaled(right, prefactor)), remainder, ()).terms  # as `later` has it

    return calc.made(put_in(answer, "a sequence"), remainder, s.rate)
