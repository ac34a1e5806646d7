r"""The sign of an expression far out where its powers cancel: e(z) = Σ c_j(z) e^{-Q_j(z)} with polynomials Q_j.

erf u = 1 - erfc u and softplus u = u + softplus(-u) leave functions that die, and these are enclosed by their
alternating series with an unknown 0 ≤ θ ≤ 1 (`EndBehavior`). The term that dies last decides, once the ratios of all
others to it fall from some M on and are too small at M. Terms are enclosed and compared, none is left out, and no
series are multiplied. Source: derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp
from flint import acb, arb

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.functions import balls
from meanfield.functions.elementary import ELEMENTARY_FUNCTIONS, elementary_of, far_out, records, where
from meanfield.functions.elementary.record import ElementaryFunction, EndBehavior, rest

x = Z[0]
_W = sp.Dummy("w", positive=True)


class _Undecided(Exception):
    """A term that these rules do not order."""


def far_sign(e: sp.Expr, scales: Sequence[int]) -> tuple[float, int] | None:
    """(M, sign of e for all z ≥ M), M = 2^k with k from `scales`; None where the rules do not decide it."""
    try:
        small = _small_functions(as_exponentials(e))
    except _Undecided:
        return None
    for order in (1, 2, 4):
        try:
            parts = [_decided(p, order, scales) for p in sp.fraction(sp.together(small))]
        except (_Undecided, MeanFieldError, ValueError, NotImplementedError, TypeError, AttributeError, sp.PoleError):
            continue
        return max(parts[0][0], parts[1][0]), parts[0][1] * parts[1][1]
    return None


def as_exponentials(e: sp.Expr) -> sp.Expr:
    """Heads that are rational in exponentials (tanh, sech, σ, sinh, cosh) written so."""
    for record in records("rational_in_exponentials"):
        if record.function is not sp.exp and e.has(record.function):
            e = e.replace(record.function, lambda u, h=record: _exponential(h, u))
    return e


def _exponential(record: ElementaryFunction, u: sp.Expr) -> sp.Expr:
    inner = elementary_of(u)
    if inner is not None and inner.exponentiated is not None:  # tanh(log(1 + e^s))
        return record.exponential(inner.exponentiated(u.args[0]))  # type: ignore[misc]
    return record.form[1](u)


def _small_functions(e: sp.Expr) -> sp.Expr:
    """e with functions that are no rational functions of exponentials written by what dies of them: erf u = 1 - erfc
    u."""

    def small(record: ElementaryFunction, u: sp.Expr) -> sp.Expr:
        if not u.has(x):
            return record.function(u)
        if not u.is_polynomial(x):
            raise _Undecided
        end = record.end(1 if balls.constant(sp.Poly(u, x).LC()) > 0 else -1)
        if not isinstance(end, EndBehavior) or end.remainder is None:
            raise _Undecided
        return end.limit(u) + end.remainder(u)

    for record in [h for h in records("bends") if not h.form and not h.power_like]:
        if e.has(record.function):
            e = e.replace(record.function, lambda u, h=record: small(h, u))
    return e


@dataclass(frozen=True)
class _Term:
    """c(z)·e^{-Q(z)} (times a power of some θ), with c(z) z^{-d} as a function of w = 1/z that is finite at w = 0."""

    rate: sp.Poly
    degree: sp.Expr
    shape: sp.Expr  # c(1/w) w^d

    def size(self, m: arb) -> arb:
        return balls.compile_ball(self.shape, (_W,))((acb(arb(0).union(1 / m)),), False).real


def _decided(e: sp.Expr, order: int, scales: Sequence[int]) -> tuple[float, int]:
    lead, rest, arguments = _ordered(e, order)
    for k in scales:
        m = arb(2) ** k
        if not all(_grows(u, m) for u in arguments):
            continue
        record = lead.size(m)
        if not record.is_finite() or record.contains(0):
            continue
        room = arb(abs(record).abs_lower())
        for t in rest:
            gap, power = t.rate - lead.rate, t.degree - lead.degree
            if not _falls(gap, power, m):
                room = arb(-1)
                break
            ratio = m ** balls.constant(power) * (-_at(gap, m)).exp()
            room -= arb(t.size(m).abs_upper()) * ratio
        if room > 0:
            return float(2**k), 1 if record > 0 else -1
    raise _Undecided


def _at(poly: sp.Poly, m: arb) -> arb:
    value = arb(0)
    for c in poly.all_coeffs():
        value = value * m + balls.constant(c)
    return value


def _falls(gap: sp.Poly, power: sp.Expr, m: arb) -> bool:
    """Whether z^power e^{-gap(z)} falls for z ≥ m: every derivative of z·gap′(z) - power is ≥ 0 there."""
    return _grows(gap.diff(x) * sp.Poly(x, x) - sp.Poly(power, x), m)


def _grows(poly: sp.Poly, m: arb) -> bool:
    """Whether poly and all its derivatives are ≥ 0 at m, hence for z ≥ m."""
    while not poly.is_zero:
        if not _at(poly, m) >= 0:
            return False
        poly = poly.diff(x)
    return True


def _ordered(e: sp.Expr, order: int) -> tuple[_Term, list[_Term], list[sp.Poly]]:
    """(the term that dies last, all others, what must be ≥ 0); terms with an unknown remainder θ are among the others,
    those with different powers of θ apart."""
    groups: dict[tuple[sp.Poly, sp.Expr], list[sp.Expr]] = {}
    expanded, unknown, arguments = _enclosed(e, order)
    for t in sp.Add.make_args(sp.expand(expanded)):
        rate, c, theta = sp.S.Zero, sp.S.One, sp.S.One
        for f in sp.Mul.make_args(t):
            if isinstance(f, sp.exp):
                rate -= f.args[0]
            elif f.free_symbols & unknown:
                if not (f in unknown or (f.is_Pow and f.base in unknown and f.exp.is_Integer and f.exp > 0)):
                    raise _Undecided
                theta *= f
            elif f.has(*where("exponential_like"), rest) and f.has(x):
                raise _Undecided
            else:
                c *= f
        if not rate.is_polynomial(x):
            raise _Undecided
        poly = sp.Poly(rate, x)
        constant = poly.nth(0)
        groups.setdefault((poly - sp.Poly(constant, x), theta), []).append(c * sp.exp(-constant))
    terms = []
    for (rate, theta), parts in groups.items():
        c = sp.expand(sp.Add(*parts))
        c = c if c.is_polynomial(x) else sp.simplify(c)
        if c != 0:
            terms.append((_shaped(rate, c), theta))
    if not terms:
        raise _Undecided
    lead = terms[0]
    for t in terms[1:]:
        if _outlives(t[0], lead[0]):
            lead = t
    if lead[1] != 1:
        raise _Undecided  # only a remainder: more terms of the series say more
    return lead[0], [t for t, _ in terms if t is not lead[0]], arguments


def _outlives(a: _Term, b: _Term) -> bool:
    gap = b.rate - a.rate
    if not gap.is_zero:
        return bool(balls.constant(gap.LC()) > 0)
    return bool(balls.constant(a.degree - b.degree) > 0)


def _shaped(rate: sp.Poly, c: sp.Expr) -> _Term:
    inner = far_out(sp.together(c.subs(x, 1 / _W)), _W)
    lead, power = inner.leadterm(_W)
    if sp.sympify(lead).has(_W, sp.log) or not power.is_Rational:
        raise _Undecided
    return _Term(rate, -power, sp.cancel(sp.together(inner * _W ** (-power))))


def _enclosed(e: sp.Expr, order: int) -> tuple[sp.Expr, set[sp.Symbol], list[sp.Poly]]:
    """(e with its small functions replaced by their series and a remainder 0 ≤ θ ≤ 1 each, the θ's, what must be ≥
    0)."""
    unknown: dict[sp.Expr, sp.Symbol] = {}
    arguments: list[sp.Poly] = []

    def enclosed(atom: sp.Expr) -> sp.Expr:
        record, side = (
            (ELEMENTARY_FUNCTIONS[_named(atom)], int(atom.args[1]))
            if isinstance(atom, rest)
            else (elementary_of(atom), None)
        )
        u = atom.args[-1]
        if not u.has(x) or record is None:
            return atom
        for s in (1, -1) if side is None else (side,):
            end = record.end(s)
            if isinstance(end, EndBehavior) and end.series is not None and (side is not None or end.limit(u) == 0):
                theta = unknown.setdefault(atom, sp.Dummy("theta", positive=True))
                arguments.append(sp.Poly(s * u, x))
                return end.series(u, order, theta)
        return atom

    found = e.replace(lambda a: isinstance(a, (*_with_series(), rest)), enclosed)
    return found, set(unknown.values()), arguments


def _named(atom: sp.Expr) -> type:
    return next(f for f in ELEMENTARY_FUNCTIONS if f.__name__ == atom.args[0].name)


def _with_series() -> tuple[type, ...]:
    """Heads that die at one end, by a series with a known remainder."""
    return tuple(
        h.function
        for h in records("bends")
        if any(isinstance(e, EndBehavior) and e.series is not None and e.limit(x) == 0 for e in h.ends)
    )

