r"""Descartes' rule for Gaussian averages: how often G changes sign bounds how often ⟨G⟩_K vanishes.

∫₀^∞ G(z) e^{-z²/2K} dz, as a function of K > 0, has at most as many zeros (with multiplicity) as G has sign changes on
z > 0, because the kernel e^{-s z²} is totally positive; point masses (from kinks) count with their sign. Sign changes
of G are decided here in ball arithmetic: exactly for polynomials, else by subdivision with rigorous ends at 0 and ∞.

Source: Pólya and Szegő, Problems and Theorems in Analysis II, part V, no. 80 (Laplace transforms); Karlin, Total
Positivity (1968), ch. 5.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import Any

import sympy as sp
from flint import acb, arb, fmpz_poly
from flint import ctx as flint_context

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z, factored, steep
from meanfield.functions import balls, zeros
from meanfield.functions.elementary import far_out, records, where
from meanfield.functions.growth import bound, decay
from meanfield.functions.piecewise import Pieces, pieces
from meanfield.functions.ranges import span
from meanfield.functions.series.ball_series import BallSeries, ball_series, coefficients
from meanfield.functions.series.infinity import normal_form
from meanfield.functions.series.taylor import taylor
from meanfield.functions.series.transseries import as_exponentials, far_sign

x = Z[0]
Signs = tuple[int, ...]
Sign = tuple[float, int]  # from where on, and which
Segment = tuple[int, arb, arb]
Masses = tuple[tuple[sp.Expr, sp.Expr], ...]


@lru_cache(maxsize=512)
def signs(f: sp.Expr, masses: Masses = ()) -> Signs | None:
    """The signs of f(z) + f(-z) + Σ w δ(z - |b|) on z > 0 in order, equal neighbours merged; None where undecided.

    f: an expression in Z[0], piecewise smooth, without parameters; masses: pairs (b, w).
    """
    found = segments(f, masses)
    return None if found is None else tuple(k for k, _ in itertools.groupby(s for s, _, _ in found if s != 0))


@lru_cache(maxsize=512)
def segments(f: sp.Expr, masses: Masses = ()) -> tuple[Segment, ...] | None:
    """(sign, lo, hi) in order: f(z) + f(-z) has this sign between lo and hi; a point mass has lo = hi.

    Gaps between neighbours of different sign hold one change each, gaps between equal neighbours none.
    """
    for bits in (120, 600):  # where terms cancel at a tiny z (10^-80 + tanh² z - z²), more digits than usual decide
        with balls.precision(bits):
            out = _segments(f, masses)
        if out is not None:
            return tuple(out)
    return None


def _segments(f: sp.Expr, masses: Masses) -> list[Segment] | None:
    p = pieces(f, x)
    cuts = sorted({sp.Abs(b) for b in p.breaks} | {sp.Abs(b) for b, _ in masses}, key=lambda b: sp.N(b, 30))
    weight = {c: sp.Add(*[w for b, w in masses if sp.Abs(b) == c]) for c in cuts}
    cuts = [c for c in cuts if c != 0]
    out: list[Segment] = []
    for lo, hi in itertools.pairwise([sp.S.Zero, *cuts, sp.oo]):
        a, b = _place(lo), _place(hi)
        if lo in weight and weight[lo] != 0:
            heavy = _sign_of_number(weight[lo])
            if heavy is None:
                return None
            out.append((heavy, a, a))
        right, left = _at_side(p, lo, hi, 1), _at_side(p, lo, hi, -1).subs(x, -x)
        alone = {_strip(e) for e in (right, left) if e != 0}
        if len(alone) == 1 and (only := alone.pop())[1] == 1:  # each side has the same sign by itself
            part: list[Segment] | None = [(only[0], a, b)]
        else:
            part = _of_piece(right + left, lo, hi)
        if part is None:
            return None
        out += part
    return out


def _place(end: sp.Expr) -> arb:
    return arb.pos_inf() if end == sp.oo else balls.constant(end)


def _sign_of_number(c: sp.Expr) -> int | None:
    """The certified sign of a constant; None where the digits do not decide it and no rule shows that it is 0."""
    for bits in (0, 200, 800):
        with balls.precision(max(flint_context.prec, bits)):
            ball = balls.constant(c)
        if not ball.contains(0):
            return 1 if ball > 0 else -1
    return 0 if (sp.expand(c) if steep(c) else sp.simplify(c)) == 0 else None


def changes(f: sp.Expr, masses: Masses = ()) -> int | None:
    """The number of sign changes of `signs`: no fewer than the zeros of ⟨f⟩_K on K > 0."""
    found = signs(f, masses)
    return None if found is None else max(0, len(found) - 1)


def _at_side(p: Pieces, lo: sp.Expr, hi: sp.Expr, side: int) -> sp.Expr:
    """The piece of p that holds on (lo, hi), or on (-hi, -lo)."""
    middle = (lo + hi) / 2 if hi != sp.oo else lo + 1
    return next(e for e, a, b in p.intervals() if a < side * middle < b)


def _of_piece(e: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> list[Segment] | None:
    sign, rest = _strip(e)
    if rest == 1:
        return [(sign, _place(lo), _place(hi))]
    if rest.is_polynomial(x) and all(c.is_algebraic for c in sp.Poly(rest, x).all_coeffs()):
        found: list[Segment] | None = _polynomial(sp.Poly(rest, x), lo, hi)
    elif (poly := _in_a_root(rest)) is not None:
        q, power = poly  # the same in u = x^{1/q}
        found = _polynomial(power, lo ** sp.Rational(1, q), hi if hi == sp.oo else hi ** sp.Rational(1, q))
        found = None if found is None else [(s, a**q, b**q) for s, a, b in found]
    else:
        found = _transcendental(rest, lo, hi)
        if found is None:  # a factor that was taken out may have been what kept the rest small
            found, sign = _transcendental(sp.expand(e), lo, hi), 1
    return None if found is None else [(sign * s, a, b) for s, a, b in found]


_MOST_DEGREE = 120  # of a polynomial in a root of x


def _in_a_root(e: sp.Expr) -> tuple[int, sp.Poly] | None:
    """(q, P) with the sign of e that of P(x^{1/q}), for sums of fractional powers of x > 0; None for anything else."""
    powers = [a.exp for a in e.atoms(sp.Pow) if a.base == x]
    if not powers or not all(p.is_Rational for p in powers) or all(p.is_Integer and p.is_positive for p in powers):
        return None
    q, u = math.lcm(*[int(p.q) for p in powers]), sp.Dummy("u", positive=True)
    shift = max(0, *[math.ceil(-p) for p in powers]) * q
    moved = sp.expand(sp.expand(e.subs(x, u**q)) * u**shift)
    if not moved.is_polynomial(u) or sp.degree(moved, u) > _MOST_DEGREE:
        return None
    poly = sp.Poly(moved.xreplace({u: x}), x)
    return (q, poly) if all(c.is_algebraic for c in poly.all_coeffs()) else None


def _strip(e: sp.Expr) -> tuple[int, sp.Expr]:
    """(sign, what is left) after factors of known sign on z > 0 are taken out; (0, 1) for zero."""
    raw = [_sign_of_factor(f) for f in sp.Mul.make_args(e)]
    if e != 0 and all(raw):
        return math.prod(s for s in raw if s), sp.S.One
    e = _without_minus(sp.expand(e))
    if e == 0:
        return 0, sp.S.One
    sign, rest = 1, []
    for f in sp.Mul.make_args(factored(e)):
        known = _sign_of_factor(f)
        if known is None:
            rest.append(f)
        else:
            sign *= known
    return (sign, sp.Mul(*rest)) if rest else (sign, sp.S.One)


def _without_minus(e: sp.Expr) -> sp.Expr:
    """σ(-u) = 1 - σ(u), softplus(-u) = softplus(u) - u and parity of the odd functions, so that equal parts cancel."""
    for record in [h for h in records("reflection") if e.has(h.function)]:
        around = (a for a in e.atoms(*where("by_exponentials")) if a.func is not record.function)
        if record.exponentiated is not None and any(a.has(record.function) for a in around):
            continue  # tanh(softplus(u)) is rational in e^u as it stands
        e = e.replace(
            lambda a, h=record: isinstance(a, h.function) and a.args[0].could_extract_minus_sign(),
            lambda a, h=record: h.reflection(h.function(-a.args[0]), -a.args[0]),
        )
    return sp.expand(e)


def _sign_of_factor(f: sp.Expr) -> int | None:
    if f.is_number:
        return _sign_of_number(f) or None
    if f == x or isinstance(f, where("positive")):
        return 1
    if f.is_Pow:
        if f.exp.is_even:
            return 1
        return _sign_of_factor(f.base) if f.exp.is_Integer else 1
    if isinstance(f, where("odd_rising")) and (f.args[0] / x).is_positive:
        return 1
    if f.is_polynomial(x):
        values = sp.Poly(f, x).all_coeffs()
        if all(c.is_positive or c == 0 for c in values):
            return 1
        if all(c.is_negative or c == 0 for c in values):
            return -1
    if f.is_Add and all(_sign_of_factor(sp.Mul(*sp.Mul.make_args(t))) == 1 for t in f.args if not t.is_Mul):
        known = [math.prod([s if (s := _sign_of_factor(g)) else 0 for g in sp.Mul.make_args(t)]) for t in f.args]
        return known[0] if known[0] and len(set(known)) == 1 else None
    return None


def _polynomial(poly: sp.Poly, lo: sp.Expr, hi: sp.Expr) -> list[Segment] | None:
    try:
        roots = zeros.polynomial_zeros(poly, lo, hi)
    except MeanFieldError:  # zeros of irrational coefficients that lie too close; subdivision may still decide
        return _transcendental(poly.as_expr(), lo, hi)
    places = [_number_place(r) for r in (lo, *roots, hi)]
    out = []
    for a, b in itertools.pairwise(places):
        value = _sign_of_number(poly.as_expr().subs(x, _between(a, b)))
        if not value:
            return None
        out.append((value, a, b))
    return out


def _number_place(r: sp.Expr) -> arb:
    """A ball of an algebraic number (roots of polynomials of high degree are known by their digits)."""
    roots = [] if r == sp.oo else sorted(r.atoms(sp.CRootOf), key=str)
    with balls.precision(160):
        if not roots:
            return _place(r)
        values = tuple(acb(_real_root(one)) for one in roots)
        return balls.compile_ball(r.subs(dict(zip(roots, Z))), tuple(Z[: len(roots)]))(values, False).real


def _real_root(r: sp.CRootOf) -> arb:
    """A ball of a real root: SymPy counts them from the least, and refines them by bisection, which is slow at high
    degrees."""
    _, poly = r.poly.clear_denoms(convert=True)
    every: Any = fmpz_poly([int(c) for c in poly.all_coeffs()[::-1]]).complex_roots()  # real ones have no radius beside
    found: arb = sorted((value.real for value, _ in every if value.imag == 0), key=arb.mid)[r.index]
    return found


def _between(a: arb, b: arb) -> sp.Rational:
    """A rational number strictly between two."""
    if not a < b:
        raise MeanFieldError(f"Two switching points, {a} and {b}, are too close to tell apart.")
    if not b.is_finite():
        return sp.Integer(math.ceil(float(a.upper()))) + 1
    q = ((a.upper() + b.lower()) / 2).mid().fmpq()
    return sp.Rational(int(q.p), int(q.q))


# ------------------------------------------------------------------------------------------ by subdivision


def _transcendental(e: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> list[Segment] | None:
    try:
        f = ball_series(e)
    except MeanFieldError:
        return None
    a, first = _end(e, f, lo, 1)
    if hi == sp.oo:
        b, last = _far(e)
    else:
        b, last = _end(e, f, hi, -1)
    if first is None or last is None:
        return None
    ends = (first, _place(lo), arb(a)), (last, arb(b), _place(hi))
    if not a < b:
        return list(ends)
    middle = _middle(f, arb(a), arb(b))
    return None if middle is None else [ends[0], *middle, ends[1]]


_ORDER = 8  # of the Taylor models
_SCALES = (*range(1, 40), *(int(40 * 1.25**j) for j in range(15)))  # an end may begin at 2^±k: any unit


def _end(e: sp.Expr, f: BallSeries, point: sp.Expr, side: int) -> tuple[float, int | None]:
    """(where the middle starts, sign between the point and there): f/(z - point)^r keeps its sign over the stretch, r
    the order of the first derivative that is not exactly 0."""
    moved = e.subs(x, point + side * x)
    for known in (0, 3, 12):  # exact coefficients can be long: most ends need the first one
        try:
            leads = ((k, _sign_of_number(c)) for k, c in enumerate(taylor(moved, x, known)))
            order, sign = next(((k, s) for k, s in leads if s != 0), (0, 0))
        except MeanFieldError:
            return 0.0, None
        if sign != 0:
            break
    if not sign:
        return 0.0, None
    centre = balls.constant(point)
    for k in _SCALES:
        width = arb(2) ** -k
        t = arb(0).union(side * width)
        exact = coefficients(f, centre, order + _ORDER)
        rest = coefficients(f, centre.union(centre + side * width), order + _ORDER + 1)
        if exact is None or rest is None:
            continue
        value = rest[-1]
        for c in reversed(exact[order:]):
            value = value * t + c
        if not value.contains(0):
            return float((centre + side * width).mid()), (1 if value > 0 else -1) * side**order
    return 0.0, None


def _middle(f: BallSeries, a: arb, b: arb, budget: int = 3000) -> list[Segment] | None:
    """The signs on [a, b]: subdivision until a Taylor model of each part has no zero or is monotone; None when the
    budget is spent."""
    out: list[Segment] = []
    work = [(a, b)]
    while work:
        a, b = work.pop()
        budget -= 1
        if budget < 0:
            return None
        m = (a * b).sqrt().mid() if a > 0 and b > 4 * a else ((a + b) / 2).mid()
        value, slope = _model(f, a, b, ((a + b) / 2).mid())
        if not value.contains(0):
            out.append((1 if value > 0 else -1, a, b))
            continue
        if not slope.contains(0):
            ends = [coefficients(f, k, 1) for k in (a, b)]
            if all(c is not None and not c[0].contains(0) for c in ends):
                u, v = (1 if c[0] > 0 else -1 for c in ends if c is not None)
                out += [(u, a, b)] if u == v else [(u, a, a), (v, b, b)]
                continue
        work += [(m, b), (a, m)]
    return out


def _model(f: BallSeries, a: arb, b: arb, m: arb) -> tuple[arb, arb]:
    """Enclosures of f and f′ over [a, b]: the Taylor polynomial at m with the last coefficient taken over [a, b]."""
    exact, rest = coefficients(f, m, _ORDER), coefficients(f, a.union(b), _ORDER + 1)
    if exact is None or rest is None:
        return arb.nan(), arb.nan()
    t = (a - m).union(b - m)
    value, slope = rest[-1], rest[-1] * _ORDER
    for k in range(_ORDER - 1, -1, -1):
        value = value * t + exact[k]
        if k:
            slope = slope * t + k * exact[k]
    return value, slope


def _far(e: sp.Expr) -> tuple[float, int | None]:
    """(M, sign of e for all z ≥ M) from its power part with an exponentially small remainder, from its leading
    exponential, as a function of 1/z, from its range (logarithms), or from the term that dies last."""
    for rule in (_far_power, _far_bounded, _far_exponential, _far_algebraic, _far_analytic, _far_range, _far_small):
        found = rule(e)
        if found is not None:
            return found
    return 0.0, None


def _far_power(e: sp.Expr) -> Sign | None:
    found = decay(e, x)
    if found is None or found.power == 0 or not found.power.is_polynomial(x):
        return None
    return _dominates(sp.Poly(found.power, x), [(found.A, found.p, found.c)])


def _far_bounded(e: sp.Expr) -> Sign | None:
    """A polynomial and terms that grow more slowly (sin, softsign, …)."""
    e = sp.expand(e)
    power = sp.Add(*[t for t in sp.Add.make_args(e) if t.is_polynomial(x)])
    rest = [bound(t, x, 1) for t in sp.Add.make_args(e) if not t.is_polynomial(x)]
    known = [b for b in rest if b is not None]
    if power == 0 or len(known) < len(rest) or any(b.c > 0 for b in known):
        return None
    poly = sp.Poly(power, x)
    if any(b.p >= poly.degree() for b in known):
        return None
    return _dominates(poly, [(b.A, b.p, 0.0) for b in known])


def _dominates(lead: sp.Poly, rest: list[tuple[float, float, float]]) -> Sign | None:
    """(M, sign) with |lead(z)| > Σ A (1 + z)^p e^{-c z} for z ≥ M; None if no M of the scales is found."""
    d = lead.degree()
    top = balls.constant(lead.LC())
    low = [(k[0], abs(balls.constant(c))) for k, c in lead.terms() if k[0] < d]
    for k in _SCALES:
        m = arb(2) ** k
        room = abs(top) - sum((c * m ** (i - d) for i, c in low), arb(0))
        for size, p, c in rest:
            if size == 0:
                continue
            if not (m * c > p or p <= d):  # (1+z)^p e^{-cz} z^{-d} must fall from m on
                room = arb(-1)
                break
            room -= arb(size) * (1 + m) ** arb(p) * (-arb(c) * m).exp() * m ** (-d)
        if room > 0:
            return float(2**k), (1 if top > 0 else -1)
    return None


def _far_exponential(e: sp.Expr) -> Sign | None:
    """e as a quotient of polynomials in v = e^{-q(z)} with polynomial coefficients; the lowest power of v decides."""
    e = as_exponentials(e)
    exponents = {a.args[0] for a in e.atoms(sp.exp)}
    if not exponents or not all(u.is_polynomial(x) for u in exponents):
        return None
    q = _common(exponents)
    if q is None:
        return None
    v = sp.Dummy("v", positive=True)
    swapped = e.replace(lambda a: isinstance(a, sp.exp), lambda a: v ** sp.cancel(-a.args[0] / q))
    top, bottom = sp.fraction(sp.together(swapped))
    if not (top.is_polynomial(x, v) and bottom.is_polynomial(x, v)):
        return None
    above, below = (_lowest(sp.expand(part), q, v) for part in (top, bottom))
    if above is None or below is None:
        return None
    return max(above[0], below[0]), above[1] * below[1]


def _common(exponents: set[sp.Expr]) -> sp.Expr | None:
    """A polynomial q > 0, without constant, of which every exponent is an integer multiple; None if there is none."""
    first = max(exponents, key=lambda u: sp.Poly(u, x).degree())
    first = first if balls.constant(sp.Poly(first, x).LC()) > 0 else -first
    ratios = [sp.cancel(u / first) for u in exponents]
    if not all(r.is_Rational for r in ratios) or first.subs(x, 0) != 0:
        return None
    coefficients = sp.Poly(first, x).all_coeffs()
    if any(c.is_negative for c in coefficients):
        return None
    return sp.expand(first / math.lcm(*[int(r.q) for r in ratios]))


def _lowest(part: sp.Expr, q: sp.Expr, v: sp.Symbol) -> Sign | None:
    terms: dict[int, sp.Expr] = {}  # not a Poly: the powers of v may be huge
    for t in sp.Add.make_args(part):
        c, k = t.as_coeff_exponent(v)
        terms[int(k)] = terms.get(int(k), sp.S.Zero) + c
    terms = {k: c for k, c in terms.items() if sp.expand(c) != 0}
    slope = float(balls.constant(sp.Poly(q, x).nth(1)).lower())
    if slope <= 0 or not terms:
        return None
    low = min(terms)
    rest = []
    for k, c in terms.items():
        if k != low:
            size = sum(float(abs(balls.constant(a)).upper()) for a in sp.Poly(c, x).all_coeffs())
            rest.append((size, float(sp.Poly(c, x).degree()), (k - low) * slope))
    return _dominates(sp.Poly(terms[low], x), rest)


def _far_algebraic(e: sp.Expr) -> Sign | None:
    """z = 1/w: the leading power of w is taken out, and what is left keeps its sign on 0 ≤ w ≤ 1/M."""
    w = sp.Dummy("w", positive=True)
    if e.has(*where("exponential_like")):
        return None
    try:
        inner = far_out(sp.together(e.subs(x, 1 / w)), w)
        _, power = inner.leadterm(w)
    except (ValueError, NotImplementedError, TypeError, sp.PoleError):
        return None
    rest = sp.cancel(sp.together(inner * w ** (-power)))
    f = balls.compile_ball(rest, (w,))
    for k in _SCALES:
        value = f((acb(arb(0).union(arb(2) ** -k)),), False).real
        if value.is_finite() and not value.contains(0):
            return float(2**k), (1 if value > 0 else -1)
    return None


def _far_analytic(e: sp.Expr) -> Sign | None:
    """z^s A(v) with A analytic at v = z^{-1/d} = 0, where its leading coefficients may cancel."""
    try:
        form = normal_form(e, x)
        if form.dropped or len(form.parts) != 1 or form.parts[0].logs:
            return None
        factor = form.parts[0].factor
        width, sign = _end(factor, ball_series(factor), sp.S.Zero, 1)
    except MeanFieldError:
        return None
    return None if sign is None else (width**-form.d, sign)


def _far_range(e: sp.Expr) -> Sign | None:
    """Interval arithmetic on [M, ∞), with the powers of z collected: z²(asinh² z - 1) + c."""
    for form in (e, sp.collect(sp.expand(e), x)):
        for k in _SCALES:
            low, high = span(form, x, 2.0**k, math.inf)
            if low > 0 or high < 0:
                return 2.0**k, (1 if low > 0 else -1)
    return None


def _far_small(e: sp.Expr) -> Sign | None:
    return far_sign(e, _SCALES)
