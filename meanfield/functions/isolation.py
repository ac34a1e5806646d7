"""Real zeros of a smooth function without parameters, found with certainty in ball arithmetic.

Three proofs make one: far out the function is shown not to vanish (growth rules, intervals that reach ∞, or a monotone
rest with a known limit); between, bisection goes on until the function or its derivative excludes 0, so that every
piece holds no zero or exactly one; and where several derivatives vanish together, an exact point must take the blame.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy as sp
from flint import acb, arb, ctx
from sympy.core.expr import AtomicExpr
from sympy.printing.printer import Printer

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.functions import balls
from meanfield.functions.elementary import cached, elementary_of, records, where
from meanfield.functions.elementary.record import LARGE_SHARE, SHARE, ElementaryFunction, EndBehavior
from meanfield.functions.growth import _leading, decay

BITS = 128  # of the search; a function whose zeros this does not separate is refused
EVALUATIONS = 30_000
MULTIPLICITY = 8
Real = Callable[[arb], arb]
Range = tuple[arb, arb]  # its ends, possibly infinite


class NoProof(Exception):
    """No proof was found; the caller reports it."""


class Root(AtomicExpr):
    """The one zero in [lo, hi], 0 < lo, of a smooth function without a closed form: a positive real number.

    expr: the function, in `Z[0]`; lo, hi: rational numbers between which its derivative has no zero. `evalf(n)` and
    `ball(n)` give any number of digits. A negative zero of f is minus the positive zero of f(-z), so that functions
    with a parity have breaks with one.
    """

    __slots__ = ("expr", "hi", "lo", "place")
    is_commutative = True
    is_positive = True
    is_number = True

    def __new__(cls, expr: sp.Expr, lo: sp.Rational, hi: sp.Rational) -> Root:
        self: Root = super().__new__(cls)
        self.expr, self.lo, self.hi = expr, sp.Rational(lo), sp.Rational(hi)
        self.place = self.ball(30).mid().str(18, radius=False)  # which zero of expr: intervals differ, zeros do not
        return self

    def __getnewargs__(self) -> tuple[sp.Expr, sp.Rational, sp.Rational]:
        return self.expr, self.lo, self.hi

    def _hashable_content(self) -> tuple[sp.Expr, str]:
        return self.expr, self.place

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return set()

    def sort_key(self, order: str | None = None) -> tuple[Any, ...]:
        return self.class_key(), (2, (str(self.expr), self.place)), sp.S.One.sort_key(), sp.S.One

    def ball(self, digits: int = 30) -> arb:
        """A ball that contains the zero, with about `digits` correct digits."""
        return _newton(self.expr, self.lo, self.hi, int(digits * 3.33) + 16)

    def _eval_evalf(self, prec: int) -> sp.Float:
        from mpmath.libmp import from_str

        digits = int(prec / 3.3219) + 3
        return sp.Float._new(from_str(self.ball(digits).mid().str(digits + 5, radius=False), prec), prec)

    def _sympystr(self, printer: Printer) -> str:
        return f"root({printer._print(self.expr.xreplace({Z[0]: sp.Symbol('z')}))}, {sp.Float(self.place, 6)})"

    def _sympyrepr(self, printer: Printer) -> str:
        return f"Root({printer._print(self.expr)}, {self.place})"

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        body = printer._print(self.expr.xreplace({Z[0]: sp.Symbol("z")}))
        text = rf"\operatorname{{root}}_{{{float(self.place):.5g}}}\left({body}\right)"
        return text if exp is None else rf"{text}^{{{exp}}}"

    def _pythoncode(self, printer: Printer) -> str:
        return repr(float(self))

    _numpycode = _lambdacode = _pythoncode

    def _mpmathcode(self, printer: Printer) -> str:
        return f"{printer._module_format('mpmath.mpf')}('{self.ball(60).mid().str(60, radius=False)}')"


@lru_cache(maxsize=1024)
def _newton(expr: sp.Expr, lo: sp.Rational, hi: sp.Rational, bits: int) -> arb:
    """The zero by interval Newton steps: the true zero stays inside at every step."""
    f, slope = real_function(expr, Z[0]), real_function(sp.diff(expr, Z[0]), Z[0])
    precision = 2 * BITS
    with _precision(precision):
        x = _exact(lo).union(_exact(hi))
    while True:
        with _precision(precision):
            middle = x.mid()
            steep = slope(x)
            # where the enclosure is too wide for its slope to have a sign, halve it instead
            new = _half(f, x) if steep.contains(0) else middle - f(middle) / steep
            new = new.intersection(x) if new.overlaps(x) else arb.nan()
        if not new.is_finite():
            raise MeanFieldError(f"A zero of {expr} was asked for to {bits} bits, and its enclosure was lost.")
        stalled = not new.rad() < x.rad() * 0.9
        x = new
        if x.rel_accuracy_bits() >= bits or x.rad().is_zero():
            return x
        if stalled:
            precision *= 2
            if precision > 128 * bits + 8192:
                return x


def _half(f: Callable[[arb], arb], x: arb) -> arb:
    """The part of x in which f, which has one simple zero there, changes sign; x itself where no part is certain."""
    lo, hi = x.lower(), x.upper()
    for quarter in (2, 1, 3):  # the middle may be the zero
        cut = lo + (hi - lo) * quarter / 4
        at, left, right = f(cut), f(lo), f(hi)
        if at.contains(0) or left.contains(0) or right.contains(0):
            continue
        return lo.union(cut) if (at > 0) != (left > 0) else cut.union(hi)
    return x


class _precision:
    def __init__(self, bits: int) -> None:
        self.bits = bits

    def __enter__(self) -> None:
        self.old, ctx.prec = ctx.prec, int(self.bits)

    def __exit__(self, *_: object) -> None:
        ctx.prec = self.old


def _exact(x: sp.Rational) -> arb:
    x = sp.Rational(x)
    return arb(int(x.p)) / arb(int(x.q))


@cached(1024)
def real_function(expr: sp.Expr, x: sp.Symbol) -> Real:
    """A smooth expression as a function of real balls; where it is not real or not known, the answer is not finite."""
    f = balls.compile_ball(expr, (x,))

    def function(u: arb) -> arb:
        try:
            value = f((acb(u),), False)
        except (ZeroDivisionError, ValueError):
            return arb.nan()
        return value.real if value.imag.contains(0) else arb.nan()

    return function


def sign_of_ball(value: arb) -> int:
    """1 or -1 where a ball excludes 0, else 0."""
    return 1 if value > 0 else -1 if value < 0 else 0


# ---------------------------------------------------------------------------------------------------- far out


def _interval(expr: sp.Expr, x: sp.Symbol, lo: arb) -> Range | None:
    """(below, above) every value of `expr` for x in [lo, ∞], ends possibly infinite; None where the rules fail."""
    if expr == x:
        return lo, arb.pos_inf()
    if expr == SHARE:
        return arb(0), arb(1)
    if expr == LARGE_SHARE:
        return arb("0.33"), arb(1)
    if expr.is_polynomial(x) and expr.is_Add and expr.has(x) and not expr.has(SHARE, LARGE_SHARE):
        return _polynomial_interval(sp.Poly(expr, x), x, lo)
    if not expr.has(x, SHARE, LARGE_SHARE):
        c = balls.constant(expr)
        return c.lower(), c.upper()
    if expr.is_Mul and (dying := _dying(expr, x, lo)) is not None:
        return dying
    if expr.is_Add or expr.is_Mul:
        parts = [_interval(a, x, lo) for a in expr.args]
        known = [p for p in parts if p is not None]
        if len(known) < len(parts):
            return None
        total = known[0]
        for p in known[1:]:
            total = _sum(total, p) if expr.is_Add else _times(total, p)
        return total
    if expr.is_Pow and expr.base is not sp.E:
        base = _interval(expr.base, x, lo)
        return None if base is None else _raised(base, expr.exp)
    if len(expr.args) != 1:
        return None
    u = _interval(expr.args[0], x, lo)
    record = elementary_of(expr)
    return None if u is None or record is None else _elementary_interval(record, u)


def _polynomial_interval(poly: sp.Poly, x: sp.Symbol, lo: arb) -> Range | None:
    """Values beyond lo of a polynomial that is monotone there by its Taylor coefficients at lo; None otherwise."""
    coefficients, shifted = [balls.constant(c) for c in poly.all_coeffs()], []
    while coefficients:  # Horner's scheme, once for each derivative
        for k in range(1, len(coefficients)):
            coefficients[k] = coefficients[k] + lo * coefficients[k - 1]
        shifted.append(coefficients.pop())
    value, *rest = shifted
    if all(c >= 0 for c in rest):
        return value.lower(), arb.pos_inf()
    return (arb.neg_inf(), value.upper()) if all(c <= 0 for c in rest) else None


def _dying(product: sp.Expr, x: sp.Symbol, lo: arb) -> Range | None:
    """Values beyond lo of x^k e^{q(x)} (other factors), where x q′ + k ≤ 0: x^k e^q falls from there on."""
    power, exponent, others = 0, sp.S.Zero, []
    for factor in product.args:
        base, e = (sp.E, factor.args[0]) if isinstance(factor, sp.exp) else factor.as_base_exp()
        if base == x and e.is_Integer and e > 0:
            power += int(e)
        elif base is sp.E and e.is_polynomial(x) and exponent == 0:
            exponent = e
        else:
            others.append(factor)
    if power == 0 or exponent == 0:
        return None
    slope = _polynomial_interval(sp.Poly(x * exponent.diff(x) + power, x), x, lo)
    if slope is None or not slope[1] <= 0:
        return None
    own = arb(0), (lo**power * real_function(sp.exp(exponent), x)(lo)).upper()
    rest = _interval(sp.Mul(*others), x, lo)
    return None if rest is None else _times(own, rest)


def _sum(a: Range, b: Range) -> Range:
    low = arb.neg_inf() if not (a[0].is_finite() and b[0].is_finite()) else (a[0] + b[0]).lower()
    high = arb.pos_inf() if not (a[1].is_finite() and b[1].is_finite()) else (a[1] + b[1]).upper()
    return low, high


def _times(a: Range, b: Range) -> Range:
    products = []
    for u in a:
        for v in b:
            products.append(arb(0) if u.is_zero() or v.is_zero() else u * v)
    return _least([p.lower() for p in products]), _most([p.upper() for p in products])


def _least(values: list[arb]) -> arb:
    best = values[0]
    for v in values[1:]:
        best = v if v < best else best
    return best


def _most(values: list[arb]) -> arb:
    best = values[0]
    for v in values[1:]:
        best = v if v > best else best
    return best


def _raised(base: Range, exponent: sp.Expr) -> Range | None:
    low, high = base
    if not exponent.is_Rational:
        return None
    if exponent.is_negative:
        if not (low > 0 or high < 0):
            return None
        flipped = [arb(0) if not v.is_finite() else 1 / v for v in (high, low)]
        return _raised((flipped[0].lower(), flipped[1].upper()), -exponent)
    if exponent.is_Integer and (int(exponent) % 2 == 1 or low >= 0):
        n = int(exponent)
        first, last = (v if not v.is_finite() else v**n for v in base)
        return first, last
    if exponent.is_Integer:
        n, size = int(exponent), _most([abs(low), abs(high)])
        least = arb(0) if not high < 0 else abs(high) ** n
        return least, size if not size.is_finite() else (size**n).upper()
    if not low >= 0:
        return None
    power = _exact(exponent)
    first, last = (v if not v.is_finite() or v.is_zero() else v**power for v in base)
    return first, last


def _elementary_interval(record: ElementaryFunction, u: Range) -> Range | None:
    """(below, above) every value of a function for arguments between u's ends, which may be infinite."""
    if not record.shape:
        found = tuple(balls.constant(v) if v.is_finite else arb(str(v).replace("oo", "inf")) for v in record.values)
        return (found[0].lower(), found[1].upper()) if record.whole else None
    if not (record.whole or (u[0] > balls.constant(record.domain[0]) and record.domain[1] == sp.oo)):
        return None
    if record.shape in ("valley", "hill"):
        far = _most([abs(u[0]), abs(u[1])])
        u = (arb(0) if not (u[0] >= 0 or u[1] <= 0) else _least([abs(u[0]), abs(u[1])])).lower(), far.upper()
    f = real_function(record.function(Z[0]), Z[0])
    rises = record.shape in ("rising", "valley")
    out = []
    for v, upper in zip(u if rises else reversed(u), (False, True)):
        if v.is_finite():
            value = f(v)
        else:  # the supremum is met at ∞ where h rises there, the infimum at -∞
            limit = record.values[(v > 0) == rises]
            value = balls.constant(limit) if limit.is_finite else arb.pos_inf() if limit == sp.oo else arb.neg_inf()
        out.append(value.upper() if upper else value.lower())
    below, above = out
    return (below, above) if not any(v.is_nan() for v in out) else None


def clear_beyond(expr: sp.Expr, x: sp.Symbol, side: int, depth: int = 3) -> float:
    """A T ≥ 0 such that `expr` has no zero with side·x ≥ T. Raises: NoProof."""
    t = sp.Dummy("t", positive=True)
    flipped = _plain(sp.sympify(expr).subs(x, side * t), t)
    if not flipped.has(t):
        return 0.0
    T = _clear_by_interval(flipped, t)
    if T is not None:
        return T
    rewritten, start = _in_exponentials(flipped, t)
    for form in dict.fromkeys((flipped, rewritten)):
        exponents = {e.args[0] for e in form.atoms(sp.exp) if e.args[0].is_polynomial(t)}
        for q in (sp.S.Zero, *sorted(exponents, key=sp.default_sort_key)):
            scaled = _collected(form * sp.exp(-q))
            T = None if scaled.has(SHARE, LARGE_SHARE) else _clear_by_decay(scaled, t)
            T = _clear_by_interval(scaled, t) if T is None and scaled is not flipped else T
            if T is not None:
                return max(T, start)
    T = _clear_by_leading_term(flipped, t)
    if T is not None:
        return T
    if depth == 0:
        raise NoProof
    return _clear_by_slope(flipped, t, depth)


def _clear_by_interval(g: sp.Expr, t: sp.Symbol) -> float | None:
    for T in (0.0, *(2.0**k for k in range(0, 40, 2))):
        found = _interval(g, t, arb(T))
        if found is not None and (found[0] > 0 or found[1] < 0):
            return T
    return None


def _clear_by_leading_term(g: sp.Expr, t: sp.Symbol) -> float | None:
    """An algebraic function over its leading term c t^s, in w = 1/t on [0, 1/T]."""
    w = sp.Dummy("w", positive=True)
    lead = None if g.has(*where("exponential_like")) else _leading(g, t)
    if lead is None or lead == 0:
        return None
    inner = sp.expand(sp.together(g.subs(t, 1 / w)) / lead.subs(t, 1 / w))
    if inner.is_number:
        return 1.0
    f = real_function(inner, w)
    for k in range(0, 40, 2):
        if f(arb(0).union(arb(2.0**-k))) > 0:
            return 2.0**k
    return None


def _in_exponentials(e: sp.Expr, t: sp.Symbol) -> tuple[sp.Expr, float]:
    """(`e` up to a positive factor with saturating functions of polynomials as exponentials, which can be divided out;
    from where on).

    Elementary functions that are no rational function of exponentials come with unknown numbers in [0, 1]
    (`EndBehavior`), for u ≥ 0: beyond the zeros of each u.
    """
    beyond = [0.0]

    def direction(u: sp.Expr) -> int:
        if not (u.is_polynomial(t) and u.has(t)):
            return 0
        poly = sp.Poly(u, t)
        beyond.append(1.001 + max(abs(float(c / poly.LC())) for c in poly.all_coeffs()))  # Cauchy's bound
        return 1 if poly.LC().is_positive else -1 if poly.LC().is_negative else 0

    def by_exponentials(record: ElementaryFunction, u: sp.Expr) -> sp.Expr:
        way = direction(u)
        end = record.end(way) if way else None
        if not isinstance(end, EndBehavior):
            return record.function(u)
        if record.form:
            return record.form[way](u)
        return record.function(u) if end.enclosed is None else end.enclosed(u)

    for record in records("bends"):
        if record.function is not sp.exp and e.has(record.function):
            e = e.replace(record.function, lambda u, h=record: by_exponentials(h, u))
    return _plain(e, t), max(beyond)


def _plain(e: sp.Expr, t: sp.Symbol) -> sp.Expr:
    """The numerator, hyperbolic functions as exponentials where growth must be seen."""
    for record in records("grows_exponentially"):
        if record.function is not sp.exp and e.has(record.function):
            e = e.replace(record.function, lambda u, h=record: h.form[1](u) if h.form else h.function(u))
    if any(p.exp.is_negative and p.base.has(t) and p.base is not sp.E for p in e.atoms(sp.Pow)):
        e = sp.fraction(sp.together(e))[0]
    return _collected(e)


def _collected(e: sp.Expr) -> sp.Expr:
    """A sum of products with one exponential each."""
    total = []
    for term in sp.Add.make_args(sp.expand(e, power_exp=False)):
        powers = [f for f in sp.Mul.make_args(term) if isinstance(f, sp.exp)]
        rest = [f for f in sp.Mul.make_args(term) if not isinstance(f, sp.exp)]
        total.append(sp.Mul(*rest, sp.exp(sp.expand(sp.Add(*[f.args[0] for f in powers])))))
    return sp.Add(*total)


def _clear_by_decay(g: sp.Expr, t: sp.Symbol) -> float | None:
    """By g = power + remainder with |remainder| ≤ A (1+t)^p e^{-ct}: T from where on the power outweighs it."""
    try:
        found = decay(g, t)
    except (TypeError, ValueError, OverflowError):
        return None
    if found is None or not found.power.is_polynomial(t):
        return None
    power = sp.Poly(found.power, t)
    if power.is_zero:
        return None
    for k in range(0, 31):
        T = 2.0**k
        if found.A and not found.c > found.p / (1 + T):
            continue
        shifted = [sp.N(c, 30) for c in power.compose(sp.Poly(t + int(T), t)).all_coeffs()]
        if not (all(c >= 0 for c in shifted) or all(c <= 0 for c in shifted)):
            continue
        rest = found.A * (1 + T) ** found.p * math.exp(-found.c * T) if found.A else 0.0
        if abs(float(shifted[-1])) > rest * (1 + 1e-9):
            return T
    return None


def _clear_by_slope(g: sp.Expr, t: sp.Symbol, depth: int) -> float:
    """By Rolle: beyond the last zero of g′ the function is monotone, so its limit decides."""
    T = clear_beyond(sp.diff(g, t), t, 1, depth - 1)
    try:
        limit = sp.limit(g, t, sp.oo)
    except (NotImplementedError, ValueError, TypeError):
        raise NoProof from None
    if limit == 0:
        return T
    way = 1 if limit.is_extended_positive else -1 if limit.is_extended_negative else 0
    f, T = real_function(g, t), max(T, 1.0)
    for _ in range(60):
        if way and sign_of_ball(f(arb(T))) == way:
            return T
        T *= 8
    raise NoProof


# ---------------------------------------------------------------------------------------------------- between


def isolate(expr: sp.Expr, x: sp.Symbol, lo: sp.Expr = -sp.oo, hi: sp.Expr = sp.oo) -> list[sp.Expr]:
    """Every zero in (lo, hi) of a smooth expression without parameters, in no order.

    Raises: NoProof where no proof was found.
    """
    with _precision(BITS):
        a = -arb(clear_beyond(expr, x, -1)) if lo == -sp.oo else balls.constant(lo)
        b = arb(clear_beyond(expr, x, 1)) if hi == sp.oo else balls.constant(hi)
        return _search(expr, x, a, b) if a < b else []  # else what is clear far out reaches over the whole interval


def _search(expr: sp.Expr, x: sp.Symbol, a: arb, b: arb) -> list[sp.Expr]:
    f, slope = real_function(expr, x), real_function(sp.diff(expr, x), x)
    found, pending = [], [(a, b)]
    ends = (a, b)
    evaluations = 0
    for width in (0.25, 0.03, 2.0**-10, 2.0**-24, 2.0**-44):
        stuck: list[tuple[arb, arb]] = []
        while pending:
            u, v = pending.pop()
            evaluations += 1
            if evaluations > EVALUATIONS:
                raise NoProof
            box = u.union(v)
            middle = box.mid()
            d = slope(box)
            if sign_of_ball(f(box)) or sign_of_ball(f(middle) + d * (box - middle)):
                continue
            if sign_of_ball(d):
                signs = [_sign_at_end(f, e) for e in (u, v)]
                if 0 not in signs:
                    if signs[0] != signs[1]:
                        found.append(_as_number(expr, x, u, v))
                    continue
                if all(e is ends[0] or e is ends[1] for e, s in zip((u, v), signs) if s == 0):
                    continue  # monotone, and the zero is the end itself
            if not (v - u) > width * (1 + abs(middle)):
                stuck.append((u, v))
                continue
            cut = (u.mid() + (v - u).mid() * arb(0.5078125)).mid()
            pending += [(u, cut), (cut, v)]
        for u, v in _joined(stuck):
            exact = _multiple(expr, x, u, v)
            if exact is None:
                pending.append((u, v))
            else:
                found.append(exact)
        if not pending:
            return found
    raise NoProof


def _sign_at_end(f: Real, e: arb) -> int:
    """The sign at the end of an interval, 0 only where it is zero (a given end) or not known."""
    for bits in (BITS, 4 * BITS):
        with _precision(bits):
            s = sign_of_ball(f(e))
        if s:
            return s
    return 0


def _joined(stuck: list[Range]) -> list[Range]:
    """Neighbouring intervals as one, widened a little so that an exact zero lies inside."""
    out: list[tuple[arb, arb]] = []
    for u, v in sorted(stuck, key=lambda p: float(p[0].mid())):
        if out and not u > out[-1][1]:
            out[-1] = (out[-1][0], v)
        else:
            out.append((u, v))
    return out


def _candidates(u: arb, v: arb) -> list[sp.Rational]:
    """Simple rationals in [u, v], simplest first."""
    lo, hi = Fraction(float(u.lower())), Fraction(float(v.upper()))
    middle = (lo + hi) / 2
    seen = []
    for most in (1, 2, 10, 100, 1000, 10**6):
        c = middle.limit_denominator(most)
        if lo <= c <= hi and c not in seen:
            seen.append(c)
    return [sp.Rational(c.numerator, c.denominator) for c in seen]


def _is_zero(e: sp.Expr) -> bool:
    e = sp.sympify(e)
    if e.is_Rational:
        return bool(e == 0)
    try:
        if sign_of_ball(balls.constant(e)):
            return False
    except MeanFieldError:
        return False
    return bool(sp.expand(e) == 0 or sp.simplify(e) == 0)


def _multiple(expr: sp.Expr, x: sp.Symbol, u: arb, v: arb) -> sp.Rational | None:
    """The one zero in [u, v] where derivatives vanish too, an exact point c; None without a proof.

    f and m - 1 derivatives vanish at c and the m-th has one sign around it: f has the sign of ± (x - c)^m there.
    """
    box = (u - (v - u)).union(v + (v - u))
    for c in _candidates(u, v):
        derivative = expr
        for order in range(MULTIPLICITY):
            if order and _excludes_zero(real_function(derivative, x), box):
                return c
            if not _is_zero(derivative.subs(x, c)):
                break
            derivative = sp.diff(derivative, x)
    return None


def _excludes_zero(f: Real, box: arb, halvings: int = 6) -> bool:
    """Whether f keeps one sign on the box, seen on smaller and smaller parts of it."""
    signs, parts = set(), [box]
    for _ in range(halvings):
        wide = []
        for part in parts:
            s = sign_of_ball(f(part))
            if s:
                signs.add(s)
            else:
                wide += [part.lower().union(part.mid()), part.mid().union(part.upper())]
        if len(signs) > 1 or not wide:
            break
        parts = wide
    return not wide and len(signs) == 1


def _as_number(expr: sp.Expr, x: sp.Symbol, u: arb, v: arb) -> sp.Expr:
    """The one zero in [u, v]: a rational number where it is one, else a `Root`."""
    f, slope = real_function(expr, x), real_function(sp.diff(expr, x), x)
    for _ in range(40):  # narrow, so that a rational candidate is the simple one and 0 is outside
        if (v - u) < 1e-4 * abs(u) and (v - u) < 1e-4 * abs(v):
            break
        if (v - u) < 1e-10 and u.union(v).contains(0):
            break
        box = u.union(v)
        new = box.mid() - f(box.mid()) / slope(box)
        if new.is_finite() and new.overlaps(box) and (new := new.intersection(box)).rad() < box.rad() * 0.9:
            u, v = new.lower(), new.upper()
            continue
        cut = (u + (v - u) * 0.4921875).mid()
        s = sign_of_ball(f(cut))
        if s == 0:
            break
        u, v = (cut, v) if s == sign_of_ball(f(u)) else (u, cut)
    for c in _candidates(u, v):
        if _is_zero(expr.subs(x, c)):
            return c
    lo, hi = _rational(u.lower()), _rational(v.upper())
    if not (lo > 0 or hi < 0):
        raise NoProof
    inner = expr.xreplace({x: Z[0]})
    return Root(_monic(inner), lo, hi) if lo > 0 else -Root(_monic(inner.subs(Z[0], -Z[0])), -hi, -lo)


def _rational(x: arb) -> sp.Rational:
    mantissa, exponent = x.mid().man_exp()
    return sp.Integer(int(mantissa)) * sp.Integer(2) ** int(exponent)


def _monic(e: sp.Expr) -> sp.Expr:
    """One of the multiples c·f, so that f and -2f have the same roots by name."""
    e = sp.expand(e, power_exp=False)
    first = sorted(sp.Add.make_args(e), key=sp.default_sort_key)[-1]
    coefficient = first.as_coeff_Mul()[0]
    return sp.expand(e / coefficient, power_exp=False) if coefficient.is_number and coefficient != 0 else e
