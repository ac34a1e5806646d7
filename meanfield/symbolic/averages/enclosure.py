"""Gaussian averages as balls: integrals with bounded tails.

Averages are integrated piece by piece in t = (z - m)/√K up to |t| = T, and what lies beyond T is added to the radius
through the growth bound of the integrand.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from functools import lru_cache

import sympy as sp
from flint import acb, arb, ctx

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.budgets import tick
from meanfield.base.symbols import Z
from meanfield.functions.balls import compile_ball, constant, integral, precision
from meanfield.functions.balls.ball_functions import Function
from meanfield.functions.derivatives import expanded
from meanfield.functions.elementary import elementary_of
from meanfield.functions.growth import Bound, bound
from meanfield.functions.piecewise import Pieces, half_line, pieces
from meanfield.symbolic.averages.dominant import far_form
from meanfield.symbolic.averages.oscillatory_half_lines import half_range, oscillation_of
from meanfield.symbolic.averages.singular_ends import SingularEnd, poles, singular_end

# ---------------------------------------------------------------------------------------------------- one Gaussian


def average(expr: sp.Expr, cov: tuple[sp.Expr, ...], mean: tuple[sp.Expr, ...], digits: int = 30) -> arb:
    """A ball containing ⟨expr⟩ for Gaussian Z[0] (or Z[0], Z[1]) with numeric covariance and mean.

    `digits` is the relative accuracy aimed at; where the average is much smaller than the integrand, more precision is
    spent, and after three attempts the ball is returned as it is: its radius says what is known.

    Raises: MeanFieldError if the integrand's growth is not bounded by the rules or exceeds every Gaussian.
    """
    if len(mean) > 2:
        raise MeanFieldError(
            f"Digits of {expr} over {len(mean)} Gaussian variables are not available: two are enclosed."
        )
    bits, best = int(digits * 3.33) + 30, arb.nan()
    small = abs(constant(cov[0])) if len(mean) == 1 else arb(1)
    most = 400 + (int(-4 * _log2(small) / math.log(2)) if 0 < small < 1 else 0)  # tails are cut on the scale z ~ 1, and
    for _ in range(3):  # the average of a fourth power (a square of a square) at a small K is as small as K²
        with precision(bits):
            best = _average_1(expr, cov[0], mean[0]) if len(mean) == 1 else _average_2(expr, cov, mean)
        if best.rel_accuracy_bits() >= digits * 3.33 or best.is_zero():
            break
        missing = max(0, int(digits * 3.33) - best.rel_accuracy_bits())
        if missing > most:
            if small > 1e-12 or bits > most:
                break
            missing = most  # not one digit is known yet, and at a small variance that need not mean 0
        bits += missing + 10
    return best


FLAT = 100  # of a standard deviation: where z ~ 1 is a small part of a piece


@lru_cache(maxsize=1024)
def _piece_bound(expr: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> Bound:
    found = bound(expr, Z[0], half_line(lo, hi), (lo, hi))
    if found is None or found.c > 0:
        found = _bound_of_far_forms(expr, lo, hi) or found
    if found is None:
        raise MeanFieldError(
            f"The growth of {expr} is not bounded by the rules, so its Gaussian average cannot be certified."
        )
    return found


def _bound_of_far_forms(expr: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> Bound | None:
    """A bound without an exponential, from the form of a piece on either side of 0: sinh z/(2 + cosh z) is one."""
    half = half_line(lo, hi)
    sides = [(half, lo, hi)] if half else [(-1, lo, sp.S.Zero), (1, sp.S.Zero, hi)]
    halves = [bound(far_form(expr, side), Z[0], side, (a, b)) for side, a, b in sides]
    known = [b for b in halves if b is not None and b.c == 0]
    return Bound(max(b.A for b in known), max(b.p for b in known)) if len(known) == len(halves) else None


def _tail(b: Bound, m: arb, s: arb, T: arb) -> arb:
    """∫_T^∞ A (1+|m|+s t)^p e^{c(|m|+s t)} φ(t) dt ≤ g(T)/(T - c s - p s/(1+|m|+sT)), since log g has at most that
    slope."""
    edge = 1 + abs(m) + s * T
    slope = T - arb(b.c) * s - arb(b.p) * s / edge
    if not slope > 0:
        return arb.pos_inf()
    g = arb(b.A) * edge ** arb(b.p) * (arb(b.c) * (abs(m) + s * T) - T * T / 2).exp() / (2 * arb.pi()).sqrt()
    return g / slope


def _at_a_point(parts: Pieces, mean: sp.Expr) -> arb:
    """The function at the mean, where the Gaussian has no width. Raises: MeanFieldError where it jumps there."""
    left, right = (sum(bool(b < mean) for b in parts.breaks), sum(bool(b <= mean) for b in parts.breaks))
    values = [parts.exprs[k].subs(Z[0], mean) for k in {left, right}]
    if any(v.has(sp.nan, sp.zoo, sp.oo) for v in values):
        raise MeanFieldError("The average at K = 0 was asked for, of a function that has no finite value at the mean.")
    if sp.simplify(values[0] - values[-1]) != 0:
        raise MeanFieldError("The average at K = 0 was asked for, of a function that jumps at the mean.")
    return constant(values[0])


def _average_1(expr: sp.Expr, variance: sp.Expr, mean: sp.Expr) -> arb:
    m, v = constant(mean), constant(variance)
    parts = pieces(expr, Z[0]).map(_without_roots_below)
    if v.is_zero():
        return _at_a_point(parts, mean)
    unit = _unit(parts.exprs)
    if unit != 1:  # ⟨f(z)⟩ over (m, K) is ⟨f(z/u)⟩ over (u m, u² K): the integration then sees where f bends
        m, v = m * constant(unit), v * constant(unit) ** 2
        exprs = tuple(e.subs(Z[0], Z[0] / unit) for e in parts.exprs)
        parts = Pieces(Z[0], tuple(b * unit for b in parts.breaks), exprs)
    s = v.sqrt()
    parts, singular = _apart(parts, s)
    bounds = [_piece_bound(e, lo, hi) for e, lo, hi in parts.intervals()]
    T = arb(math.sqrt(2 * ctx.prec * math.log(2))) + max(float((arb(b.c) * s).upper()) for b in bounds) + 2
    ends = [-T, *[(constant(b) - m) / s for b in parts.breaks], T]
    total = sum((_integrate_end(end, width, m, s) for end, width in singular), arb(0))
    if not parts.breaks and m.is_zero() and _parity(parts.exprs[0]) == 1:
        total = 2 * _integrate_piece(parts.exprs[0], m, s, arb(0), T, 1)
    else:
        for k, (e, a, b) in enumerate(zip(parts.exprs, ends, ends[1:])):
            side = 0 if not parts.breaks else -1 if k == 0 else 1 if k == len(parts.breaks) else 0
            total += _integrate_piece(e, m, s, _clamp(a, T), _clamp(b, T), side)
    rest = _tail(bounds[0], m, s, T) + _tail(bounds[-1], m, s, T)
    if any(not abs(x) < T for x in ends[1:-1]):
        rest += (
            sum((2 * _tail(b, m, s, T) for b in bounds[1:-1]), arb(0))
            + _tail(bounds[0], m, s, T)
            + _tail(bounds[-1], m, s, T)
        )
    return total + arb(0, rest.abs_upper())


def _apart(parts: Pieces, s: arb) -> tuple[Pieces, list[tuple[SingularEnd, sp.Rational]]]:
    """The pieces with 0 wherever an end is near at which they are not analytic; these ends, and how far they reach."""
    breaks: list[sp.Expr] = []
    exprs: list[sp.Expr] = []
    ends: list[tuple[SingularEnd, sp.Rational]] = []
    for e, lo, hi in parts.intervals():
        places = [lo, *poles(e, lo, hi), hi]
        for a, b in itertools.pairwise(places):
            found = [singular_end(e, at, side) if at not in (-sp.oo, sp.oo) else None for at, side in ((a, 1), (b, -1))]
            if any(found):
                width = _reach(a, b, s)
                ends += [(end, width) for end in found if end is not None]
            for part, upper in (
                *([(sp.S.Zero, a + width)] if found[0] else []),
                (e, b - width if found[1] else b),
                *([(sp.S.Zero, b)] if found[1] else []),
            ):
                exprs.append(part)
                breaks.append(upper)
    return Pieces(Z[0], tuple(breaks[:-1]), tuple(exprs)), ends


def _reach(a: sp.Expr, b: sp.Expr, s: arb) -> sp.Rational:
    """How far from an end of (a, b) its neighbourhood goes: the deviation, 1, or a third of the way at most."""
    length = math.inf if -sp.oo in (a, b) or sp.oo in (a, b) else float((constant(b) - constant(a)).mid())
    return sp.Rational(min(1.0, float(s.mid()), length / 3)).limit_denominator(10**9) or sp.Rational(float(s.mid()))


def _integrate_end(end: SingularEnd, width: sp.Rational, m: arb, s: arb) -> arb:
    """∫ of a piece times the density between an end at which it is not analytic and `width` from there."""
    f, b = end.integrand(), constant(end.b)
    norm = 1 / (s * (2 * arb.pi()).sqrt())

    def integrand(u: acb, analytic: bool) -> acb:
        tick()
        t = (b + end.side * u**end.q - m) / s
        return f(u, analytic) * (-t * t / 2).exp()

    top = constant(width).root(end.q)
    return _integral(integrand, [arb(0), top]) * norm


def _without_roots_below(e: sp.Expr) -> sp.Expr:
    """A piece multiplied out where that takes away roots in a denominator: √z·(tanh z/√z) is finite at 0 term by
    term."""
    if not any(not p.exp.is_Integer and p.exp.is_negative and p.base.has(Z[0]) for p in e.atoms(sp.Pow)):
        return e
    out = expanded(e)  # denominators as they are: √z (1 + z) multiplied out is a root below again
    return out if not any(not p.exp.is_Integer and p.exp.is_negative for p in out.atoms(sp.Pow)) else e


def _unit(exprs: Iterable[sp.Expr]) -> sp.Rational:
    """The power of 2 near the steepest slope of an argument in the pieces (tanh(10^8 z) bends at 10^-8), 1 where that
    is within a factor of 64 of 1."""
    slopes = [u.diff(Z[0]) for e in exprs for h in e.atoms(sp.Function) for u in h.args]
    steepest = max([abs(float(s)) for s in slopes if s.is_number], default=1.0)
    power = round(math.log2(steepest)) if 0 < steepest < math.inf else 0
    return sp.Integer(2) ** power if abs(power) > 6 else sp.S.One


def _parity(expr: sp.Expr) -> int | None:
    """1 if the expression is even in Z[0] by its shape, -1 if it is odd, None if the shape does not say."""
    if expr == Z[0]:
        return -1
    if not expr.has(Z[0]):
        return 1
    parts = [_parity(a) for a in expr.args]
    if expr.is_Add:
        return parts[0] if len(set(parts)) == 1 else None
    if expr.is_Mul:
        return None if None in parts else math.prod(p for p in parts if p is not None)
    if expr.is_Pow:
        odd = parts[0] == -1
        return 1 if parts == [1, 1] or (odd and expr.exp.is_even) else -1 if odd and expr.exp.is_odd else None
    if len(parts) != 1 or parts[0] != -1:
        return 1 if parts == [1] else None
    record = elementary_of(expr)
    return None if record is None else record.parity


def _clamp(x: arb, T: arb) -> arb:
    return T if x > T else -T if x < -T else x


def _integrate_piece(expr: sp.Expr, m: arb, s: arb, a: arb, b: arb, side: int = 0) -> arb:
    """∫ of a piece times the density over (a, b) in t = (z - m)/s; side: of a piece that goes on without end there, up
    to or beyond the cut, which the bound of tails allows for."""
    if a is b or expr == 0 or not a < b:
        return arb(0)
    if side:  # many periods over a half line: the path is moved off the real line
        found = oscillation_of(expr)
        waved = None if found is None else half_range(found, m, s, m + s * (a if side > 0 else b), side)
        if found is not None and waved is not None:
            return waved + _integrate_piece(found.still, m, s, a, b)
    sides = {side: compile_ball(far_form(expr, side)) for side in (-1, 1)}
    norm = 1 / (2 * arb.pi()).sqrt()

    half, centred = acb(-0.5), m.is_zero()

    def integrand(t: acb, analytic: bool) -> acb:
        tick()
        z = s * t if centred else m + s * t
        return sides[1 if z.real.mid() > 0 else -1]((z,), analytic) * (t * t * half).exp()

    # both scales, t ~ 1 and z ~ 1, are seen; the integrand's own size sets the absolute goal (2^-prec alone would ruin
    # small K)
    unit = [(x - m) / s for x in (arb(-1), arb(0), arb(1))]
    # and beside a break, where the mass of a piece that falls may lie: samples on the scale of t alone would miss it
    ends = [a + 1 / s, b - 1 / s] if s > FLAT else []
    middle = sorted((x.mid() for x in (arb(-1), arb(1), *unit, *ends) if a < x and x < b), key=float)
    return _integral(integrand, [a, *middle, b]) * norm


def _integral(integrand: Callable[[acb, bool], acb], points: list[arb]) -> arb:
    """∫ over neighbouring intervals to a share of the integrand's own size that the precision sets."""
    mass = max(
        (
            _magnitude(integrand(acb(_between(lo, hi, x)), False)) * abs(hi - lo)
            for lo, hi in itertools.pairwise(points)
            for x in (0.02, 0.3, 0.7, 0.98)
        ),
        key=_log2,
    )
    goal = arb(2) ** (-ctx.prec) * (mass if mass > 0 else arb(2) ** (-4 * ctx.prec))
    total = arb(0)
    for lo, hi in itertools.pairwise(points):
        total += integral(integrand, acb(lo), acb(hi), abs_tol=goal, eval_limit=200 * ctx.prec + 20000).real
    return total


def _between(a: arb, b: arb, x: float) -> arb:
    return (a.mid() + arb(x) * (b.mid() - a.mid())).mid()


def _magnitude(w: acb) -> arb:
    return w.abs_upper() if w.is_finite() else arb(0)


def _log2(x: arb) -> float:
    return float(x.log()) if x > 0 else -math.inf


# ---------------------------------------------------------------------------------------------------- two Gaussians


def _average_2(expr: sp.Expr, cov: tuple[sp.Expr, ...], mean: tuple[sp.Expr, ...]) -> arb:
    """Whitened coordinates z_a = m_a + s_a x, z_b = m_b + s_b (ρ x + √(1-ρ²) y); the kinks of the inner variable are
    moving limits."""
    m = [constant(v) for v in mean]
    v_a, v_ab, v_b = (constant(c) for c in cov)
    s_a, s_b = v_a.sqrt(), v_b.sqrt()
    rho = v_ab / (s_a * s_b)
    r2 = 1 - rho * rho
    if not r2 > 0:
        raise MeanFieldError("The two Gaussians are fully correlated; reduce the average to one variable first.")
    r, T = r2.sqrt(), arb(2 * math.sqrt(ctx.prec * math.log(2)) + 3)
    outer = pieces(expr, Z[0])
    rest = _tail_2(expr, v_a, v_b, m, T)  # first: it is what refuses an integrand, and integrals take seconds
    total = arb(0)
    for e, lo, hi in outer.intervals():
        inner, near = _inner_ends(pieces(e, Z[1]), s_b * r)
        walls = [constant(b) for b in inner.breaks]
        a = -T if lo == -sp.oo else _clamp((constant(lo) - m[0]) / s_a, T)
        b = T if hi == sp.oo else _clamp((constant(hi) - m[0]) / s_a, T)
        if a < b:
            total += _strip(inner, near, walls, a, b, m, s_a, s_b, rho, r, T)
    return total + arb(0, rest.abs_upper())


def _inner_ends(inner: Pieces, s: arb) -> tuple[Pieces, list[tuple[sp.Expr, SingularEnd, sp.Rational]]]:
    """The pieces in Z[1] with 0 next to ends at which they are not analytic; the factors free of Z[1], these ends (in
    Z[0]), and how far they reach."""
    breaks: list[sp.Expr] = []
    exprs: list[sp.Expr] = []
    near: list[tuple[sp.Expr, SingularEnd, sp.Rational]] = []
    for e, lo, hi in inner.intervals():
        outside, mine = e.as_independent(Z[1], as_Add=False)
        mine = mine.xreplace({Z[1]: Z[0]}) if not mine.has(Z[0]) else sp.S.Zero
        found = [singular_end(mine, at, side) if at.is_finite else None for at, side in ((lo, 1), (hi, -1))]
        width = _reach(lo, hi, s) if any(found) else sp.S.Zero
        near += [(outside, end, width) for end in found if end is not None]
        for part, upper in (
            *([(sp.S.Zero, lo + width)] if found[0] else []),
            (e, hi - width if found[1] else hi),
            *([(sp.S.Zero, hi)] if found[1] else []),
        ):
            exprs.append(part)
            breaks.append(upper)
    return Pieces(Z[1], tuple(breaks[:-1]), tuple(exprs)), near


def _strip(
    inner: Pieces,
    near: list[tuple[sp.Expr, SingularEnd, sp.Rational]],
    walls: list[arb],
    a: arb,
    b: arb,
    m: list[arb],
    s_a: arb,
    s_b: arb,
    rho: arb,
    r: arb,
    T: arb,
) -> arb:
    tick()
    cuts = []
    if not rho.contains(0):
        for w in walls:  # where the wall enters and leaves |y| < T
            cuts += [((w - m[1]) / s_b - side * r * T) / rho for side in (1, -1)]
    cuts = sorted((x for x in cuts if a < x and x < b), key=lambda x: float(x.mid()))
    functions = [compile_ball(e) for e in inner.exprs]
    scale, half = acb(s_b * r), acb(-0.5)
    points, total = [a, *cuts, b], arb(0)
    goal = arb(2) ** (-ctx.prec + 10) * _scale(inner, functions, m, s_a, s_b, rho, r)
    # a factor that does not change along the inner line stays outside: A·∫B lies in ∫AB
    split = [tuple(map(compile_ball, e.as_independent(Z[1], as_Add=False))) for e in inner.exprs]
    ends_near = [
        (compile_ball(outside), end.integrand(), constant(end.b), end.side, end.q, constant(width).root(end.q))
        for outside, end, width in near
    ]
    for lo, hi in itertools.pairwise(points):
        middle = (lo + hi) / 2
        heights = [((w - m[1]) / s_b - rho * middle) / r for w in walls]
        live = [(w, k) for k, (w, h) in enumerate(zip(walls, heights)) if abs(h) < T]
        first = live[0][1] if live else sum(1 for h in heights if h < -T)
        used = split[first : first + len(live) + 1]

        def integrand(
            x: acb, analytic: bool, live: list[tuple[arb, int]] = live, used: list[tuple[Function, ...]] = used
        ) -> acb:
            tick()
            z_a, shift = m[0] + s_a * x, m[1] + s_b * rho * x
            ends = [acb(-T), *[((w - m[1]) / s_b - rho * x) / r for w, _ in live], acb(T)]
            value = acb(0)
            # on a wide ball only a rough bound is wanted (it enters the error through its logarithm); do not labour for
            # digits there
            effort = {"rel_tol": arb(2) ** -8, "eval_limit": 400} if analytic else {}
            for (outside, f), y0, y1 in zip(used, ends, ends[1:]):
                factor = outside((z_a,), analytic)
                size = factor.abs_upper()
                if not (size > 0 and factor.is_finite()):  # exactly 0, or unknown: then so is the whole
                    value += factor
                    continue

                def along(y: acb, an: bool, f: Function = f) -> acb:
                    # a branch cut in either variable must show, so both flags count
                    return f((z_a, shift + scale * y), an or analytic) * (y * y * half).exp()

                value += factor * integral(along, y0, y1, abs_tol=goal / size, **effort)
            for outside, near_end, w, side, q, top in ends_near:
                factor = outside((z_a,), analytic)
                size = factor.abs_upper()
                if not (size > 0 and factor.is_finite()):
                    value += factor
                    continue

                def next_to_it(
                    u: acb,
                    an: bool,
                    near_end: Callable[[acb, bool], acb] = near_end,
                    w: arb = w,
                    side: int = side,
                    q: int = q,
                ) -> acb:
                    y = (w + side * u**q - shift) / scale
                    return near_end(u, an or analytic) * (y * y * half).exp()

                value += factor / scale * integral(next_to_it, acb(0), acb(top), abs_tol=goal / size, **effort)
            return value * (-x * x / 2).exp()

        total += integral(integrand, acb(lo), acb(hi), abs_tol=goal).real
    return total / (2 * arb.pi())


def _scale(inner: Pieces, functions: list[Function], m: list[arb], s_a: arb, s_b: arb, rho: arb, r: arb) -> arb:
    sizes = [
        _magnitude(f((acb(m[0] + s_a * arb(x)), acb(m[1] + s_b * (rho * arb(x) + r * arb(y)))), False))
        for f in functions
        for x in (-0.7, 0.9)
        for y in (-1.1, 0.6)
    ]
    largest = max(sizes, key=_log2)
    return largest if largest > 0 else arb(1)


def _tail_2(expr: sp.Expr, v_a: arb, v_b: arb, m: list[arb], T: arb) -> arb:
    """Beyond |x| > T or |y| > T by Cauchy–Schwarz: √(E[f²g²]·P(outside)), with moments of the growth bound."""
    factors = [(f, tuple(v for v in Z[:2] if f.has(v))) for f in sp.Mul.make_args(expr)]
    if any(len(v) > 1 for _, v in factors):
        raise MeanFieldError(
            f"{expr} does not separate into functions of one coordinate each; its tail cannot be bounded yet."
        )
    second = arb(1)
    for index, variance in ((0, v_a), (1, v_b)):
        f = (
            sp.Mul(*[g for g, v in factors if not v or v[0] == Z[index]])
            if index == 0
            else sp.Mul(*[g for g, v in factors if v and v[0] == Z[index]])
        )
        parts = pieces(f.xreplace({Z[index]: Z[0]}), Z[0])
        bounds = [_piece_bound(e, lo, hi) for e, lo, hi in parts.intervals()]
        A, p, c = (max(getattr(b, k) for b in bounds) for k in "Apc")
        if c > 0:
            raise MeanFieldError(f"{f} grows exponentially; its two-input average cannot be certified yet.")
        q = 2 * math.ceil(2 * p)  # E|A(1+|z|)^p|^4 ≤ A⁴ 2^q (1 + E(|m|+|z|)^q) with q even
        moment = arb(2) ** q * (
            1
            + (arb(2) ** q)
            * (
                abs(m[index]) ** q
                + variance ** (q // 2) * arb(q + 1).gamma() / (arb(2) ** (q // 2) * arb(q // 2 + 1).gamma())
            )
        )
        second = second * (arb(A) ** 4 * moment)
    outside = 4 * (-T * T / 2).exp() / (T * (2 * arb.pi()).sqrt())
    return second.sqrt().sqrt() * outside.sqrt()
