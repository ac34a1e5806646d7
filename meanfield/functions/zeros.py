"""Zeros of a smooth expression on the real line, where it may change sign: every one, or a refusal in one sentence.

Polynomials are solved exactly, monotone functions inverted on their range, products and powers taken apart; what is
left is isolated in ball arithmetic (`isolation`). Signs of numbers are read off balls, signs of symbols off their
assumptions; what neither decides is refused, never guessed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import mpmath
import sympy as sp
from flint import acb, acb_poly, fmpq, fmpq_poly

from meanfield.base.answers.results import MeanFieldError, Undetermined
from meanfield.base.precision import decimals
from meanfield.base.symbols import Z, factored, steep, steep_exponentials
from meanfield.functions import balls
from meanfield.functions.elementary import elementary_of, records, where
from meanfield.functions.elementary.record import ElementaryFunction
from meanfield.functions.isolation import NoProof, Root, isolate, real_function, sign_of_ball

ADVICE = "give the parameters values (derive(..., t=0.3)), or write the activation with explicit breaks"


def sign(e: sp.Expr) -> int | None:
    """1, 0 or -1 where the sign of a real constant is certain, None where it is not.

    Numbers: by balls of up to 1400 bits, zero by an exact identity. Symbols: by their assumptions.
    """
    e = sp.sympify(e)
    if e.has(sp.zoo, sp.nan, sp.I):  # log(0), or √ of what is negative: no real number
        return None
    if e.is_Rational or e in (sp.oo, -sp.oo):
        return 1 if e > 0 else -1 if e < 0 else 0
    if not e.is_number:
        # real numbers all: what stands under a root is not negative (a variance, under LayerNorm's)
        e = e.replace(
            lambda r: r.is_Pow and r.exp.is_Rational and not r.exp.is_Integer and not r.is_positive,
            lambda r: _positive(r.base, r.exp),
        )
        forms: tuple[Callable[[], sp.Expr], ...] = (lambda: e, lambda: sp.expand(e), lambda: factored(e))
        for form in forms:
            shape = form()
            known = _assumed(shape)
            if known is not None:
                return known
        return None
    for bits in (80, 300, 1400):
        try:
            with balls.precision(bits):
                found = sign_of_ball(balls.constant(e))
        except MeanFieldError:  # a function without balls: SymPy's own knowledge
            return _assumed(e)
        if found:
            return found
        if bits == 300 and is_zero(e):
            return 0
    return None


def _assumed(e: sp.Expr) -> int | None:
    """The sign of an expression by SymPy's assumptions."""
    try:
        return 1 if e.is_positive else -1 if e.is_negative else 0 if e.is_zero else None
    except ArithmeticError:  # its evaluation ran out of digits
        return None


def _positive(base: sp.Expr, exponent: sp.Rational) -> sp.Expr:
    """A positive symbol for a root, the same one for the same base."""
    return sp.Symbol(f"root of {base}", positive=True) ** exponent


def is_zero(e: sp.Expr) -> bool:
    """Whether a number (or expression) is proved to be 0 by an exact identity."""
    e = e.replace(lambda f: isinstance(f, where("arc")), _plain_argument)
    for record in records("plain"):
        e = e.replace(record.function, record.plain) if e.has(record.function) else e
    for root in e.atoms(Root):  # steep or not: the exponentials stay symbols
        if _divides(root, e):
            return True
    if steep(e):  # SymPy would write out exp(10^6)
        return bool(sp.expand(e) == 0)
    numerator = sp.fraction(sp.together(e))[0]  # roots in denominators are multiplied out before they are made rational
    e = sp.expand(e)
    if e == 0 or sp.expand(numerator) == 0:
        return True
    if e.has(*where("by_exponentials")):
        e = sp.expand(e.rewrite(sp.exp))
    return e == 0 or (not e.has(Root) and sp.simplify(e) == 0)


def _plain_argument(f: sp.Expr) -> sp.Expr:
    """An arc function of a quotient, the quotient reduced, so that equal arguments look equal."""
    return f.func(sp.cancel(sp.together(f.args[0]))) if f.is_number else f


SMALL_POWER = 8  # of an exponential in the function that defines a root


def _divides(root: Root, e: sp.Expr) -> bool:
    """Whether e vanishes because it is a multiple of the function whose zero the root is."""
    y = sp.Dummy("y", positive=True)
    e, zero = _roots_as_symbols(e.xreplace({root: y}), root.expr.xreplace({Z[0]: y}), y)
    zero = sp.expand(zero)
    inner = {f: f.func(*[_modulo(a, zero) for a in f.args]) for f in e.atoms(sp.Function) if f.has(y)}
    e = sp.expand(e.xreplace(inner))
    names = steep_exponentials(e, zero)
    own = zero.atoms(sp.exp) & names.keys()
    for a in names.keys() - own:  # e^{-2y²} as the square of e^{-y²}
        powers = ((b, sp.cancel(a.args[0] / b.args[0])) for b in own)
        names[a] = next((names[b] ** n for b, n in powers if n.is_Integer and abs(n) <= SMALL_POWER), names[a])
    numerator = sp.fraction(sp.together(e.xreplace(names)))[0]
    try:
        return bool(sp.reduced(sp.expand(numerator), [zero.xreplace(names)])[1] == 0)
    except (sp.PolynomialError, ValueError, NotImplementedError):
        return False


def _roots_as_symbols(e: sp.Expr, zero: sp.Expr, y: sp.Dummy) -> tuple[sp.Expr, sp.Expr]:
    """Both with one symbol for every constant whose root stands in them, so that the square of the root is it again."""
    powers = {p for f in (e, zero) for p in f.atoms(sp.Pow) if not p.has(y) and p.base.is_Add and p.exp.is_Rational}
    bases = {p: p.base.primitive() for p in powers}  # (a positive number, what is a multiple of it)
    parts: dict[sp.Expr, int] = {}
    for p, (_, base) in bases.items():
        parts[base] = sp.ilcm(parts.get(base, 1), p.exp.q)
    roots = {base: sp.Dummy("r", positive=True) for base, q in parts.items() if q > 1}
    named = {p: c**p.exp * roots[b] ** (p.exp * parts[b]) for p, (c, b) in bases.items() if b in roots}
    return e.xreplace(named), zero.xreplace(named)


def _modulo(argument: sp.Expr, zero: sp.Expr) -> sp.Expr:
    """The argument of a function where `zero` vanishes: 0 where it is a multiple of it, itself otherwise."""
    numerator = sp.expand(sp.fraction(sp.together(argument))[0])
    try:
        return sp.S.Zero if sp.reduced(numerator, [zero])[1] == 0 else argument
    except (sp.PolynomialError, ValueError, NotImplementedError):
        return argument


def compare(a: sp.Expr, b: sp.Expr) -> int:
    """The sign of a - b. Raises: MeanFieldError where it depends on a symbol or cannot be decided."""
    if a == b:
        return 0
    for end, way in ((a, 1), (b, -1)):
        if end in (sp.oo, -sp.oo):
            return way if end == sp.oo else -way
    found = sign(a - b)
    if found is None:
        kind = Undetermined if (a - b).free_symbols else MeanFieldError
        raise kind(f"Which of the switch points {a} and {b} comes first is not decided; {ADVICE}.")
    return found


def same_place(roots: list[sp.Expr]) -> list[sp.Expr]:
    """The roots in increasing order, each once."""
    out: list[sp.Expr] = []
    for r in roots:
        for k, other in enumerate(out):
            way = compare(r, other)
            if way <= 0:
                if way < 0:
                    out.insert(k, r)
                break
        else:
            out.append(r)
    return out


def real_zeros(expr: sp.Expr, x: sp.Symbol, lo: sp.Expr = -sp.oo, hi: sp.Expr = sp.oo) -> list[sp.Expr]:
    """Every zero and pole of the smooth `expr` in (lo, hi), exact or as a `Root`; some outside may come with them.

    Raises: MeanFieldError where they cannot be found with certainty.
    """
    expr = sp.sympify(expr)
    if not expr.has(x):
        return []
    found: list[sp.Expr] = []
    try:
        for factor in _factors(expr, x):
            found += _zeros(factor, x, lo, hi)
    except NoProof:
        symbols = sorted(s.name for s in expr.free_symbols - {x})
        why = f"depend on the range of {', '.join(symbols)}" if symbols else "could not all be found with certainty"
        advice = ADVICE if symbols else "write the activation with explicit breaks"
        shown = str(expr).replace("_z", "z")
        kind = Undetermined if symbols else MeanFieldError
        raise kind(f"The points where {shown} is zero are not available: they {why}; {advice}.") from None
    return found


def polynomial_zeros(poly: sp.Poly, lo: sp.Expr = -sp.oo, hi: sp.Expr = sp.oo) -> list[sp.Expr]:
    """The zeros of a polynomial in (lo, hi) in increasing order, each once; its coefficients may be any real numbers.

    Raises: MeanFieldError where they cannot be found with certainty.
    """
    if poly.domain.is_QQ or poly.domain.is_ZZ:
        return [r for r in dict.fromkeys(sp.real_roots(poly)) if lo < r and r < hi]
    found = real_zeros(poly.as_expr(), poly.gen, lo, hi)  # SymPy sorts the roots of rational polynomials only
    return [r for r in same_place(found) if compare(r, lo) > 0 and compare(hi, r) > 0]


def complex_roots(poly: sp.Poly) -> list[acb]:
    """The distinct complex roots of a polynomial, each in a ball that holds no other one; its coefficients are any real
    numbers. Multiple roots are no difficulty: rational coefficients are factored, others are divided by what they
    share with their derivative.

    Raises: MeanFieldError where the roots of a polynomial with irrational coefficients could not be separated.

    >>> x = sp.Symbol("x")
    >>> [round(float(r.real), 6) for r in complex_roots(sp.Poly((x - 1)**4, x))]
    [1.0]
    """
    if all(c.is_Rational for c in poly.all_coeffs()):
        exact = fmpq_poly([fmpq(int(c.p), int(c.q)) for c in reversed(poly.all_coeffs())])
        pairs: list[Any] = exact.complex_roots()  # (acb, multiplicity), whatever its stub says
        return [pair[0] for pair in pairs]
    with balls.precision(200):
        for shape in (lambda: poly, poly.sqf_part):
            with contextlib.suppress(ValueError):  # squareful
                return acb_poly([acb(balls.constant(c)) for c in reversed(shape().all_coeffs())]).roots()
    raise MeanFieldError(f"The complex roots of {poly.as_expr()} are not available: they could not be separated.")


def _factors(expr: sp.Expr, x: sp.Symbol) -> list[sp.Expr]:
    """Factors of numerator and denominator that hold x, powers taken off."""
    if any(p.exp.is_negative and p.base.has(x) and p.base is not sp.E for p in expr.atoms(sp.Pow)):
        parts = sp.fraction(sp.together(expr))
    else:
        parts = (expr,)
    out: list[sp.Expr] = []
    for part in parts:
        if part.is_Add and not part.is_polynomial(x):
            with contextlib.suppress(sp.PolynomialError, ValueError, NotImplementedError):
                part = factored(part)
        for factor in sp.Mul.make_args(part):
            while factor.is_Pow and factor.base is not sp.E and not factor.exp.has(x):
                factor = factor.base
            if factor.is_Mul:
                out += _factors(factor, x)
            elif factor.has(x) and factor not in out:
                out.append(factor)
    return out


def _zeros(e: sp.Expr, x: sp.Symbol, lo: sp.Expr, hi: sp.Expr) -> list[sp.Expr]:
    if isinstance(e, where("positive")):
        return []
    try:
        return _solve(e, sp.S.Zero, x)
    except NoProof:
        if e.free_symbols - {x}:
            raise
    return isolate(e, x, lo, hi)


def _solve(e: sp.Expr, w: sp.Expr, x: sp.Symbol) -> list[sp.Expr]:
    """All real x with e(x) = w, w free of x. Raises: NoProof where no exact rule applies."""
    if e == x:
        return [w]
    if e.is_Add and w == 0 and (e - x).is_number:
        return [x - e]  # z > log(13/7)/2 switches where it says: a polynomial's coefficients would be written otherwise
    if e.is_polynomial(x):
        return _polynomial(sp.Poly(e - w, x))
    if e.is_Add or e.is_Mul:
        constant, rest = e.as_independent(x, as_Add=e.is_Add)
        if e.is_Add and constant != 0:
            return _solve(rest, w - constant, x)
        if e.is_Mul and constant != 1:
            return _solve(rest, w / constant, x)
    heads = _elementary_in(e, x)
    if len(heads) == 1 and heads[0] != e:  # a polynomial in one function
        y = sp.Dummy("y", real=True)
        inner = e.xreplace({heads[0]: y})
        if not inner.has(x) and (inner.is_polynomial(y) or inner.is_Pow):
            return [r for v in _solve(inner, w, y) for r in _solve(heads[0], v, x)]
    if e.is_Pow and e.base is not sp.E and e.exp.is_number:
        return _root_of_power(e.base, e.exp, w, x)
    if isinstance(e, sp.Function) and len(e.args) == 1:
        return [r for v in _inverse(e.func, w) for r in _solve(e.args[0], v, x)]
    raise NoProof


def _elementary_in(e: sp.Expr, x: sp.Symbol) -> list[sp.Expr]:
    """The largest subexpressions in x that are functions or fractional powers; x itself if it stands free."""
    if not e.has(x):
        return []
    if e == x or isinstance(e, sp.Function) or (e.is_Pow and not (e.exp.is_Integer and e.exp > 0)):
        return [e]
    return list(dict.fromkeys(h for a in e.args for h in _elementary_in(a, x)))


def _polynomial(poly: sp.Poly) -> list[sp.Expr]:
    x = poly.gen
    if poly.degree() <= 0:
        return []
    if poly.degree() == 1:
        return [sp.cancel(-poly.nth(0) / poly.nth(1))]
    if len(poly.monoms()) == 1:
        return [sp.S.Zero]
    if poly.domain.is_QQ or poly.domain.is_ZZ:
        return [_algebraic(r) for r in dict.fromkeys(sp.real_roots(poly))]
    if len(poly.monoms()) == 2 and poly.nth(0) != 0:  # a x^n + c
        return _root_of_power(x, sp.Integer(poly.degree()), -poly.nth(0) / poly.LC(), x)
    if poly.degree() == 2:
        a, b, c = poly.all_coeffs()
        way = sign(b**2 - 4 * a * c)
        if way is None or sign(a) in (None, 0):
            raise NoProof
        root = sp.sqrt(b**2 - 4 * a * c)
        return [] if way < 0 else [-b / (2 * a)] if way == 0 else [(-b - root) / (2 * a), (-b + root) / (2 * a)]
    raise NoProof


def _algebraic(r: sp.Expr) -> sp.Expr:
    """A real algebraic number as it is where it has radicals, else ± the `Root` of its irreducible factor."""
    if not isinstance(r, sp.CRootOf):
        return r
    factor = r.poly.as_expr().subs(r.poly.gen, Z[0])
    poly = sp.Poly(factor, Z[0])
    ways: tuple[Callable[[], sp.Rational], ...] = (lambda: _halved(factor, r), lambda: sp.Rational(sp.N(r, 40)))
    for near in ways:
        at = near()
        margin = sp.Rational(1, 2) * min(1, abs(at))
        for _ in range(60):
            lo, hi = at - margin, at + margin
            if _one_zero(factor, lo, hi):
                if at > 0:
                    return Root(factor, lo, hi)
                reflected = sp.expand(factor.subs(Z[0], -Z[0]))
                return -Root(sp.expand(reflected / sp.Poly(reflected, Z[0]).LC() * poly.LC()), -hi, -lo)
            margin /= 4
    raise NoProof


def _halved(e: sp.Expr, r: sp.CRootOf) -> sp.Rational:
    """12 digits of a real algebraic number by halving its isolating interval with signs of balls; SymPy's own take
    minutes where the polynomial has a high degree and a simple rational number is near."""
    interval, f = r._get_interval(), real_function(e, Z[0])
    lo, hi = sp.Rational(interval.a), sp.Rational(interval.b)
    with balls.precision(400):
        up = sign_of_ball(f(balls.constant(hi))) or -sign_of_ball(f(balls.constant(lo)))
        for _ in range(400):
            middle = (lo + hi) / 2
            way = sign_of_ball(f(balls.constant(middle)))
            if way == 0 or (hi - lo) * 10**12 < abs(middle):
                break
            lo, hi = (lo, middle) if way == up else (middle, hi)
    return (lo + hi) / 2


def _one_zero(e: sp.Expr, lo: sp.Rational, hi: sp.Rational) -> bool:
    """Whether balls prove that e changes sign in [lo, hi], and that its derivative has no zero there: Sturm's chain of
    a polynomial of degree 64 would take minutes."""
    f, slope = real_function(e, Z[0]), real_function(e.diff(Z[0]), Z[0])
    with balls.precision(400):
        a, b = balls.constant(lo), balls.constant(hi)
        ways = [sign_of_ball(v) for v in (f(a), f(b), slope(a.union(b)))]
    return ways[0] * ways[1] < 0 and ways[2] != 0


def _root_of_power(base: sp.Expr, exponent: sp.Expr, w: sp.Expr, x: sp.Symbol) -> list[sp.Expr]:
    way = sign(w)
    if way == 0:
        return _solve(base, sp.S.Zero, x) if exponent.is_positive else []
    if exponent.is_Integer and exponent % 2 == 1 and way is not None:
        return _solve(base, way * sp.Abs(w) ** (1 / exponent), x)
    if way is None:
        raise NoProof
    if way < 0:
        return []
    root = w ** (1 / exponent)
    both = exponent.is_Integer and exponent % 2 == 0
    return _solve(base, root, x) + (_solve(base, -root, x) if both else [])


def _inside(w: sp.Expr, lo: sp.Expr | None, hi: sp.Expr | None) -> bool:
    """Whether lo < w < hi; an undecided comparison raises."""
    ways = [1 if lo is None else sign(w - lo), 1 if hi is None else sign(hi - w)]
    if None in ways:
        raise NoProof
    return ways == [1, 1]


def _inverse(function: type, w: sp.Expr) -> list[sp.Expr]:
    """All real u with h(u) = w."""
    record = elementary_of(function)
    if record is None:
        raise NoProof
    if w.func is function and record.injective and w.args[0].is_real:
        return [w.args[0]]  # tanh(2) is met at 2, not at a logarithm of it
    if w == 0 and record.injective and record.odd:
        return [sp.S.Zero]
    lo, hi = (None if v in (-sp.oo, sp.oo) else v for v in record.values)
    if record.inverse is None:
        return _numbered(record, w) if record.injective and _inside(w, lo, hi) else _undecided()
    if not _inside(w, lo, hi):
        # the least value of cosh, the largest of sech: met once, at 0, and touched without a change of sign
        touched = record.shape not in ("rising", "falling") and is_zero(record.function(sp.S.Zero) - w)
        return [sp.S.Zero] if touched else []
    found = record.inverse(w)
    if isinstance(found, tuple):
        return _inverse(*found)
    return [found] if record.shape in ("rising", "falling") else _both(found)


def _undecided() -> list[sp.Expr]:
    raise NoProof


def _both(u: sp.Expr) -> list[sp.Expr]:
    return [u, -u]


def _numbered(record: ElementaryFunction, w: sp.Expr) -> list[sp.Expr]:
    """The u with h(u) = w of a rising or falling function without a closed inverse, for a number w: a `Root`."""
    if not sp.sympify(w).is_number:
        raise NoProof
    way, size = (sign(w), sp.Abs(w)) if record.odd else (1, w)
    if not way:
        return [sp.S.Zero]
    with decimals(60):
        near = _bisected(record.mpmath, mpmath.mpf(sp.N(size, 60)), record.shape == "rising")
    if near is None or not near:
        raise NoProof
    side = 1 if near > 0 else -1
    for k in (20, 12, 6):
        lo, hi = sorted(near * (1 + s * sp.Rational(1, 10**k)) for s in (1, -1))
        with balls.precision(400):
            ways = [sign_of_ball(balls.constant(record.function(v) - size)) for v in (lo, hi)]
        if ways[0] * ways[1] < 0:
            lo, hi = sorted((side * lo, side * hi))
            return [way * side * Root(record.function(side * Z[0]) - size, lo, hi)]
    raise NoProof


def _bisected(h: Callable[[mpmath.mpf], mpmath.mpf], value: mpmath.mpf, rises: bool) -> sp.Rational | None:
    """30 digits of the place where a monotone function has a value; None where doubling does not reach it."""
    low, high = mpmath.mpf(-1), mpmath.mpf(1)
    for _ in range(60):
        if ((h(low) < value) == rises) and ((h(high) > value) == rises):
            break
        low, high = 2 * low, 2 * high
    else:
        return None
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if (h(middle) < value) == rises else (low, middle)
    return sp.Rational(mpmath.nstr((low + high) / 2, 30))


