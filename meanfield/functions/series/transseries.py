r"""The sign of an expression far out where its powers cancel: e(z) = Σ c_j(z) e^{-Q_j(z)} with polynomials Q_j.

erf u = 1 - erfc u and softplus u = u + softplus(-u) leave small heads only, and these are enclosed by their alternating
series: erfc u = e^{-u²}/(u√π) (Σ_{k<n} (-1)^k (2k-1)!!/(2u²)^k + (-1)^n (2n-1)!!/(2u²)^n θ), log(1 + v) = Σ_{k≤n}
(-1)^{k+1} v^k/k + (-1)^n v^{n+1}/(n+1) θ with 0 ≤ θ ≤ 1. The term that dies last decides, once the ratios of all others
to it fall from some M on and are too small at M. Source: derived here (DLMF 7.12(i) for the sign of the remainder).
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp
from flint import arb

from meanfield import balls
from meanfield.results import MeanFieldError
from meanfield.symbols import Z, sigmoid, softplus

x = Z[0]
_W = sp.Dummy("w", positive=True)
_HEADS = (sp.exp, sp.erf, sp.erfc, sp.tanh, sp.sech, sp.sinh, sp.cosh, sp.sin, sp.cos, sigmoid, softplus)


class _Undecided(Exception):
    """A term that these rules do not order."""


def far_sign(e: sp.Expr, scales) -> tuple[float, int] | None:
    """(M, sign of e for all z ≥ M), M = 2^k with k from `scales`; None where the rules do not decide it."""
    try:
        small = _small_heads(as_exponentials(e))
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
    """tanh, sech, σ, sinh and cosh as rational functions of exponentials."""
    e = e.replace(sp.tanh, _tanh_exponential).replace(sp.sech, _sech_exponential)
    e = e.replace(sigmoid, lambda u: 1 / (1 + sp.exp(-u)))
    return e.rewrite(sp.exp) if e.has(sp.sinh, sp.cosh) else e


def _tanh_exponential(u):
    if isinstance(u, softplus):  # tanh(log(1 + e^s))
        w = (1 + sp.exp(u.args[0])) ** 2
        return (w - 1) / (w + 1)
    w = sp.exp(-2 * u)
    return (1 - w) / (1 + w)


def _sech_exponential(u):
    if isinstance(u, softplus):
        w = 1 + sp.exp(u.args[0])
        return 2 * w / (w**2 + 1)
    return 2 * sp.exp(-u) / (1 + sp.exp(-2 * u))


def _small_heads(e: sp.Expr) -> sp.Expr:
    """e with erf, erfc and softplus written by heads that tend to 0."""

    def up(u):
        if not u.has(x):
            return None
        if not u.is_polynomial(x):
            raise _Undecided
        return balls.constant(sp.Poly(u, x).LC()) > 0

    def erfc(u):
        way = up(u)
        return sp.erfc(u) if way is None or way else 2 - sp.erfc(-u)

    def soft(u):
        return u + softplus(-u) if up(u) else softplus(u)

    return e.replace(sp.erf, lambda u: 1 - erfc(u)).replace(sp.erfc, erfc).replace(softplus, soft)


@dataclass(frozen=True)
class _Term:
    """c(z)·e^{-Q(z)} (times a power of some θ), with c(z) z^{-d} as a function of w = 1/z that is finite at w = 0."""

    rate: sp.Poly
    degree: sp.Expr
    shape: sp.Expr  # c(1/w) w^d

    def size(self, m: arb) -> arb:
        return balls.compile_ball(self.shape, (_W,))((balls.acb(arb(0).union(1 / m)),), False).real


def _decided(e: sp.Expr, order: int, scales) -> tuple[float, int]:
    lead, rest, arguments = _ordered(e, order)
    for k in scales:
        m = arb(2) ** k
        if not all(_grows(u, m) for u in arguments):
            continue
        head = lead.size(m)
        if not head.is_finite() or head.contains(0):
            continue
        room = arb(abs(head).abs_lower())
        for t in rest:
            gap, power = t.rate - lead.rate, t.degree - lead.degree
            if not _falls(gap, power, m):
                room = arb(-1)
                break
            ratio = m ** balls.constant(power) * (-_at(gap, m)).exp()
            room -= arb(t.size(m).abs_upper()) * ratio
        if room > 0:
            return float(2**k), 1 if head > 0 else -1
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
            elif f.has(*_HEADS) and f.has(x):
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
    inner = sp.together(c.subs(x, 1 / _W)).replace(
        sp.atan, lambda u: sp.pi / 2 - sp.atan(1 / u) if u.has(_W) else sp.atan(u)
    )
    lead, power = inner.leadterm(_W)
    if sp.sympify(lead).has(_W, sp.log) or not power.is_Rational:
        raise _Undecided
    return _Term(rate, -power, sp.cancel(sp.together(inner * _W ** (-power))))


def _enclosed(e: sp.Expr, order: int) -> tuple[sp.Expr, set[sp.Symbol], list[sp.Poly]]:
    """(e with its small heads replaced by their series and a remainder 0 ≤ θ ≤ 1 each, the θ's, what must be ≥ 0)."""
    unknown: dict[sp.Expr, sp.Symbol] = {}
    arguments: list[sp.Poly] = []

    def erfc(u):
        if not u.has(x):
            return sp.erfc(u)
        theta = unknown.setdefault(sp.erfc(u), sp.Dummy("theta", positive=True))
        arguments.append(sp.Poly(u, x))
        series = [(-1) ** k * sp.factorial2(2 * k - 1) / (2 * u**2) ** k for k in range(order + 1)]
        return sp.exp(-sp.expand(u**2)) / (u * sp.sqrt(sp.pi)) * (sp.Add(*series[:-1]) + series[-1] * theta)

    def soft(u):
        if not u.has(x):
            return softplus(u)
        theta = unknown.setdefault(softplus(u), sp.Dummy("theta", positive=True))
        arguments.append(sp.Poly(-u, x))
        series = [(-1) ** (k + 1) * sp.exp(k * u) / k for k in range(1, order + 2)]
        return sp.Add(*series[:-1]) + series[-1] * theta

    found = e.replace(sp.erfc, erfc).replace(softplus, soft)
    return found, set(unknown.values()), arguments
