r"""The zeros of ⟨G⟩_K on the whole half-line 0 < K < ∞: signs at both ends, where zeros can lie, and whether all
are found.

With s = 1/2K, ⟨G⟩_K is up to a positive factor L(s) = ∫₀^∞ (G(z) + G(-z)) e^{-sz²} dz. As K → 0 its sign is that of G's
first block of signs, as K → ∞ that of the last one where ∫|G| diverges. Between two values s₁ < s₂ sharper forms of
Descartes' rule hold: no zero lies at s > s₂ if the first block outweighs all that follows under e^{-s₂z²}, and none at
s < s₁ if the last block outweighs all that precedes it under e^{-s₁z²} (integrate by parts once and apply the rule to
the cumulative integral). So every zero lies between two numbers that are found here.

Source: Pólya and Szegő, Problems and Theorems in Analysis II, part V, nos. 77-80; the two bounds are derived here.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache, lru_cache

import sympy as sp
from flint import acb, arb

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, Z
from meanfield.functions import balls
from meanfield.functions.growth import bound, tail
from meanfield.functions.piecewise import pieces
from meanfield.functions.signs import Masses, Segment, segments
from meanfield.symbolic.averages.expansions.expansion import at_infinity, at_zero
from meanfield.symbolic.averages.expansions.moments import moment, power_parts
from meanfield.symbolic.averages.node import Average, outermost
from meanfield.symbolic.fixed_points.certified_roots import (
    FAR,
    RootInterval,
    crossings,
    enclose,
    exactly,
    refine,
    sign_at,
    walk,
)
from meanfield.symbolic.fixed_points.exclusion import excluded
from meanfield.symbolic.recursion import closed

x = Z[0]
DEAR = 10_000  # values of integrands for the averages at one K
CHEAP = 100  # K up to which a search goes at any price
LOW, HIGH = sp.Rational(1, 10**12), sp.Integer(10) ** 12  # searched where nothing says where to look


@dataclass(frozen=True)
class Zeros:
    """The zeros of ⟨G⟩_K at K > 0 that were found, by increasing K.

    most: Descartes' bound on their number, with multiplicity (None: not known). first, last: the proved signs as K → 0
    and as K → ∞ (None: not known). low, high: what was searched. outside: whether no zero lies elsewhere. complete:
    whether there are no others; if not, reason says why.
    """

    roots: tuple[RootInterval, ...]
    most: int | None
    first: int | None
    last: int | None
    low: sp.Expr
    high: sp.Expr
    outside: bool
    complete: bool
    reason: str = ""


def zeros(expr: sp.Expr, g: sp.Expr | None, masses: Masses = (), digits: int = 25) -> Zeros:
    """All zeros of an expression in averages, which is ⟨g⟩_K (plus masses) where g is known."""
    found = None if g is None else segments(g, masses)
    if g is None or found is None:
        return _searched(expr, digits)
    blocks = tuple(k for k, _ in itertools.groupby(s for s, _, _ in found if s))
    if not blocks:  # identically 0
        return Zeros((), 0, 0, 0, sp.S.Zero, sp.oo, True, True)
    most, first = len(blocks) - 1, blocks[0]
    if most == 0:
        return Zeros((), 0, first, first, sp.S.Zero, sp.oo, True, True)
    last = far_sign(expr, g, masses)
    exact = _polynomial_roots(expr)
    if exact is not None:
        crossing = sum(r.crosses for r in exact) % 2
        return Zeros(exact, most, first, first * (-1) ** crossing, sp.S.Zero, sp.oo, True, True)
    if most == 1:
        return _single(expr, found, first, last, digits)
    return _several(expr, g, masses, found, (most, first, last), digits)


# ------------------------------------------------------------------------------------------------- signs at the ends


def far_sign(expr: sp.Expr, g: sp.Expr, masses: Masses = ()) -> int | None:
    """The proved sign of ⟨g⟩_K (plus masses) as K → ∞; None where it is not known.

    Where ∫|g| diverges it is the sign of g far out; else that of ∫g and the masses, the limit of √(2πK)⟨g⟩.
    """
    found = segments(g, masses)
    if found is not None and _diverges(g):
        return next((s for s, _, _ in reversed(found) if s), None)
    if not masses:
        return sign_at_infinity(expr)
    try:
        if any(p != 0 for p in power_parts(g)):
            return None
        value = balls.certified(moment(g, 0), 20) + sum((balls.constant(w) for _, w in masses), arb(0))
    except MeanFieldError:
        return None
    return None if value.contains(0) else 1 if value > 0 else -1


def _diverges(g: sp.Expr) -> bool:
    """Whether ∫^∞ |g(z) + g(-z)| dz is proved to be infinite: |g| does not fall below a constant over z."""
    p = pieces(g, x)
    e = sp.expand(p.exprs[-1] + p.exprs[0].subs(x, -x))
    power = sp.Add(*[t for t in sp.Add.make_args(e) if t.is_polynomial(x)])
    rest = [bound(t, x, 1) for t in sp.Add.make_args(e) if not t.is_polynomial(x)]
    if power != 0 and all(b is not None and b.c == 0 and b.p < sp.Poly(power, x).degree() for b in rest):
        return True
    end = tail(e, x, 1)
    if end.power is None or sp.simplify(end.power) == 0 or not _is_sure(end.power):
        return False
    if end.power.is_polynomial(x):
        return True
    return end.power.as_coeff_exponent(x)[1] >= -1


def _is_sure(power: sp.Expr) -> bool:
    """Whether the leading coefficient of a power part is certainly not 0."""
    lead = sp.Poly(power, x).LC() if power.is_polynomial(x) else power.as_coeff_exponent(x)[0]
    return bool(lead.is_number) and not balls.certified(lead, 20).contains(0)


def sign_at_infinity(expr: sp.Expr) -> int | None:
    """The sign as K → ∞, from the leading term of the expansion there; None where that is not known."""
    return _sign_of_law(expr, at_infinity)


def sign_at_zero(expr: sp.Expr) -> int | None:
    """The sign as K → 0, from the leading term of the expansion there; None where that is not known."""
    return _sign_of_law(expr, at_zero)


def _sign_of_law(expr: sp.Expr, expansion) -> int | None:
    try:
        lead = expansion(expr, 2).leading
        value = balls.certified(lead.coefficient, 20)
    except MeanFieldError:
        return None
    if lead.logs != 0 and expansion is at_zero:
        value = value * (-1) ** int(lead.logs) if lead.logs.is_Integer else arb.nan()
    return None if not value.is_finite() or value.contains(0) else 1 if value > 0 else -1


# ------------------------------------------------------------------------------------------- one change of sign


def _single(expr, found, first, last, digits) -> Zeros:
    """At most one zero: there is exactly one if the signs at the ends differ, and a walk meets it."""
    if last == first:
        return Zeros((), 1, first, last, sp.S.Zero, sp.oo, True, True)
    bracket, low, high = walk(expr, _scale(found), first, last)
    if bracket is not None:
        root = refine(expr, bracket, digits)
        return Zeros((root,), 1, first, -first, sp.S.Zero, sp.oo, True, True)
    if last is None:
        reason = f"the sign as K -> oo is not known, and K from {_short(low)} to {_short(high)} holds none"
    else:
        reason = f"one more lies outside K from {_short(low)} to {_short(high)}, which were searched"
    return Zeros((), 1, first, last, low, high, False, False, reason)


def _scale(found: tuple[Segment, ...]) -> sp.Rational:
    """K near the square of where G first changes sign. A point mass at 0 has no size: what follows it says one."""
    point, _ = _first_run(found)
    if not point > 0:
        point = next((hi for _, _, hi in found if hi > 0 and hi.is_finite()), arb(1))
    size = min(max(float(point), 1e-120), 1e120)
    return sp.Rational(float(f"{size**2:.3g}"))


def _short(k: sp.Expr) -> str:
    return "0" if k == 0 else "oo" if k == sp.oo else f"{float(k):.3g}"


# ---------------------------------------------------------------------------------------------- several changes


def _several(expr, g, masses, found, ends, digits) -> Zeros:
    most, first, last = ends
    far = _last_run(found)[1]
    low, high = floor(g, masses), ceiling(g, masses) if last == far else None
    low, high = (k if _in_reach(k) else None for k in (low, high))
    start = low if low is not None else min(LOW, high / 10**12 if high is not None else LOW)
    if high is None or high > CHEAP:
        high, stop = _upper(expr, start, high, last)
    else:
        stop = high
    outside = low is not None and high is not None
    if low is None:
        start = _until(expr, start, first, -2)
    brackets = crossings(expr, start, stop, most, (first if low is not None else None, last if high else None))
    roots = tuple(refine(expr, b, digits) for b in brackets)
    count = len(roots)
    here = f"K from {_short(start)} to {_short(stop)}"
    if count == most or (outside and excluded(expr, None if masses else g, roots, start, stop)):
        return Zeros(roots, most, first, first * (-1) ** count, start, stop, True, True)
    if outside:
        reason = f"a close pair in {here} may be missed, none elsewhere"
        return Zeros(roots, most, first, last, start, stop, True, False, reason)
    if last is None:
        reason = f"{here} was searched, and the sign as K -> oo is not known: a close pair or one outside may be missed"
    elif first * (-1) ** count != last:
        reason = f"{here} was searched, and the signs at K -> 0 and K -> oo say that one is missed"
    else:
        reason = f"{here} was searched: a close pair may be missed there, or a pair outside"
    return Zeros(roots, most, first, last, start, stop, False, False, reason)


def _first_run(found) -> tuple[arb, int]:
    """(where the first block of one sign surely still lasts, that sign)."""
    sign = next(s for s, _, _ in found if s)
    point = arb(0)
    for s, _, hi in found:
        if s not in (0, sign):
            break
        point = hi
    return point, sign


def _last_run(found) -> tuple[arb, int]:
    sign = next(s for s, _, _ in reversed(found) if s)
    point = arb.pos_inf()
    for s, lo, _ in reversed(found):
        if s not in (0, sign):
            break
        point = lo
    return point, sign


@lru_cache(maxsize=128)
def floor(g: sp.Expr, masses: Masses = ()) -> sp.Rational | None:
    """A number below which ⟨g⟩_K (plus masses) has no zero; None where none is found.

    Under e^{-z²/2K} the first block of signs outweighs a bound of everything after it.
    """
    found = segments(g, masses)
    if found is None:
        return None
    with balls.precision(100):
        point, sign = _first_run(found)
        a = exactly(point.lower())
        if not a > 0:
            return None
        after = _bounds(g, a)
        if after is None:
            return None
        for j in range(1, 60):
            k = _nice(a**2 / 2**j)
            mine = sign * _integral(g, a / 2**20, a, k)
            others = sum((_beyond(b, lo, hi, k) for b, lo, hi in after), arb(0))
            for b, w in masses:
                if abs(balls.constant(b)) > balls.constant(a) * arb("0.999999"):
                    others += abs(balls.constant(w)) * (-(balls.constant(b) ** 2) / (2 * balls.constant(k))).exp()
            if mine > others:
                return k
    return None


@lru_cache(maxsize=128)
def ceiling(g: sp.Expr, masses: Masses = ()) -> sp.Rational | None:
    """A number above which ⟨g⟩_K (plus masses) has no zero; None where none is found.

    Under e^{-z²/2K} the last block of signs outweighs the absolute integral of everything before it, without weight.
    """
    found = segments(g, masses)
    if found is None:
        return None
    with balls.precision(100):
        point, sign = _last_run(found)
        if not point.is_finite() or not point > 0:
            return None
        b = exactly(point.upper())
        before = _absolute(g, b) + sum((abs(balls.constant(w)) for _, w in masses), arb(0))
        if not before.is_finite():
            return None
        for j in range(1, 100):
            k = _nice(b**2 * 4**j)
            if sign * _integral(g, b, b * 2 ** (j + 1), k) > before:
                return k
    return None


def _nice(k: sp.Rational) -> sp.Rational:
    """About k, with few digits where a double can say it."""
    return k if not _in_reach(k) else sp.Rational(float(f"{float(k):.3g}"))


def _sides(g: sp.Expr):
    """The smooth pieces of g(z) and of g(-z) on z > 0: (expression, lo, hi)."""
    p = pieces(g, x)
    for e, lo, hi in p.intervals():
        if hi == sp.oo or hi.is_positive:
            yield e, (lo if lo != -sp.oo and lo.is_positive else sp.S.Zero), hi
        if lo == -sp.oo or lo.is_negative:
            yield e.subs(x, -x), (-hi if hi != sp.oo and hi.is_negative else sp.S.Zero), -lo


def _parts(g: sp.Expr, lo: sp.Expr, hi: sp.Expr):
    """The pieces of both sides that meet (lo, hi), cut to it, with ends in balls."""
    a, b = balls.constant(lo), balls.constant(hi)
    for e, u, v in _sides(g):
        left = balls.constant(u)
        right = b if v == sp.oo else balls.constant(v)
        left, right = a if left < a else left, b if right > b else right
        if left < right and e != 0:
            yield e, left, right


def _integral(g, lo, hi, k) -> arb:
    """∫ (g(z) + g(-z)) e^{-z²/2K} dz over (lo, hi)."""
    weight = 1 / (2 * balls.constant(k))
    total = arb(0)
    for e, a, b in _parts(g, lo, hi):
        f = balls.compile_ball(e)
        total += _split(lambda z, an, f=f: f((z,), an) * (-z * z * weight).exp(), a, b)
    return total


def _absolute(g, hi) -> arb:
    """A bound of ∫₀^hi |g(z)| + |g(-z)| dz, piece by piece with Cauchy and Schwarz."""
    total = arb(0)
    for e, a, b in _parts(g, sp.S.Zero, hi):
        f = balls.compile_ball(e)
        square = _split(lambda z, an, f=f: f((z,), an) ** 2, a, b)
        total += ((b - a) * arb(square.abs_upper())).sqrt()
    return total.abs_upper() + arb(0)


def _split(f, a: arb, b: arb) -> arb:
    """∫_a^b f by rigorous integration over stretches that double in length, so that no scale is overlooked."""
    points = [b]
    while len(points) < 60 and points[-1] / 4 > a and points[-1] > b * arb(2) ** -40:
        points.append(points[-1] / 4)
    points.append(a)
    total = arb(0)
    for hi, lo in itertools.pairwise(points):
        total += balls.integral(f, acb(lo), acb(hi), rel_tol=arb(2) ** -20, eval_limit=6000).real
    return total


def _bounds(g, a):
    """Growth bounds of the pieces beyond a; None where the rules fail."""
    out = []
    edge = balls.constant(a)
    for e, u, v in _sides(g):
        if e == 0 or (v != sp.oo and not balls.constant(v) > edge):
            continue
        b = bound(e, x, 1)
        if b is None:
            return None
        left = balls.constant(u)
        out.append((b, left if left > edge else edge, v))
    return out


def _beyond(b, lo: arb, hi, k) -> arb:
    """∫_lo^∞ A (1+z)^p e^{cz} e^{-z²/2K} dz from above: log of the integrand falls at least at its rate in lo."""
    size = balls.constant(k)
    slope = lo / size - arb(b.c) - arb(b.p) / (1 + lo)
    if not slope > 0:
        return arb.pos_inf()
    return arb(b.A) * (1 + lo) ** arb(b.p) * (arb(b.c) * lo - lo * lo / (2 * size)).exp() / slope


# --------------------------------------------------------------------------------------------- nothing is counted


def _searched(expr, digits) -> Zeros:
    first, last = sign_at_zero(expr), sign_at_infinity(expr)
    low = _until(expr, LOW, first, -2)
    high = _upper(expr, low, None, last)[1]
    roots = tuple(refine(expr, b, digits) for b in crossings(expr, low, high, None))
    reason = f"found by a search from K = {_short(low)} to {_short(high)} that could miss a pair"
    if first is None or last is None:
        ends = " and ".join(n for n, s in (("0", first), ("oo", last)) if s is None)
        reason += f"; the sign as K -> {ends} is not known"
    return Zeros(roots, None, first, last, low, high, False, False, reason)


def _upper(expr, start, high, last) -> tuple[sp.Expr | None, sp.Expr]:
    """(high, or None where zeros may lie beyond what is searched; how far up a search from `start` goes).

    high: no zero lies above it; None: not known. last: the sign as K → ∞.
    """
    dear = _affordable(expr)
    if dear is not None and (high is None or high > dear):
        return None, max(dear, start * 100)
    return (high, high) if high is not None else (None, _until(expr, max(HIGH, start * 10**12), last, 2))


def _affordable(expr) -> sp.Expr | None:
    """The K from which on the values of the averages are more than `DEAR`, as where φ oscillates many times within √K;
    None: there is none up to `HIGH`."""
    k, nodes = sp.Integer(CHEAP), sorted(outermost(expr), key=str)
    while k < HIGH and sum(_cost(node, k * 100) for node in nodes) <= DEAR:
        k *= 100
    return k if k < HIGH else None


@cache
def _cost(node: sp.Expr, k: sp.Expr) -> int:
    """How many values of its integrand an average takes near K. It is measured once, beside a K that a search asks for:
    what is remembered of other calls must not make it cheaper."""
    before, beside = balls.evaluations(), k * sp.Rational(1010, 1009)
    enclose(node, beside, beside, 15)
    return balls.evaluations() - before


def _until(expr, k, sign, step):
    """From k outwards, the exponent growing, to a K where the expression has its proved sign, or to the last that a
    double can say."""
    while sign is not None and sign_at(expr, k) != sign:
        further = k * sp.Integer(10) ** step
        if not _in_reach(further):
            break
        k = _nice(further)
        step *= 2
    return k


def _in_reach(k: sp.Expr | None) -> bool:
    return k is not None and bool(sp.Rational(1, 10**FAR) < k < sp.Integer(10) ** FAR)


def _polynomial_roots(expr) -> tuple[RootInterval, ...] | None:
    """The zeros with their multiplicities where the closed form is a polynomial in K with rational coefficients whose
    factors are at most quadratic."""
    if len(expr.atoms(Average)) > 4:
        return None
    form = sp.expand(closed(expr))
    if not form.is_polynomial(K):
        return None
    poly = sp.Poly(form, K)
    if not all(c.is_Rational for c in poly.all_coeffs()):
        return None
    roots: list[tuple[sp.Expr, int]] = []
    for factor, times in poly.factor_list()[1]:
        if factor.degree() > 2:
            return None
        roots += [(r, times) for r in sp.roots(factor, K) if r.is_positive]
    ordered = sorted(roots, key=lambda r: sp.N(r[0], 60))
    out = []
    for r, times in ordered:
        digits = sp.Rational(sp.Float(sp.N(r, 60), 60))
        near = digits / 10**50
        lo, hi = digits - near, digits + near
        out.append(RootInterval(lo, hi, r, bool(form.subs(K, hi) > 0), times % 2 == 1))
    return tuple(out)

