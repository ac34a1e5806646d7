r"""Roots in K of expressions with averages: found by sign changes, certified in balls, counted by Descartes' rule.

A bracket is two rationals at which the ball of the expression has opposite signs, so a root lies between them whatever
the search did. Completeness comes from elsewhere: an upper bound on the number of roots (`signs.changes`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import sympy as sp
from flint import arb

from meanfield.base.answers.results import InfiniteAverage, MeanFieldError, NoClosedForm, Solution, Status
from meanfield.base.arguments import shown
from meanfield.base.budgets import searched, tick
from meanfield.base.symbols import K, Z
from meanfield.functions import balls
from meanfield.functions.piecewise import jump as jump_at
from meanfield.functions.piecewise import pieces
from meanfield.functions.ranges import span
from meanfield.functions.signs import signs
from meanfield.symbolic.averages.node import Average, average, outermost

FAR = 290  # decades of K around 1 that a walk may cover: what a double can say


@dataclass(frozen=True)
class RootInterval:
    """lo < root < hi, both rational, with certified signs of the expression there; `exact` if it is known exactly."""

    lo: sp.Rational
    hi: sp.Rational
    exact: sp.Expr | None = None
    rising: bool = True  # sign at hi is positive
    crosses: bool = True  # False at a root of even multiplicity, where the expression touches 0

    @property
    def mid(self) -> sp.Expr:
        return self.exact if self.exact is not None else (self.lo + self.hi) / 2

    def ball(self) -> arb:
        """A ball that holds the root, at the current precision."""
        if self.exact is not None:
            return balls.constant(self.exact)
        return balls.constant(self.lo).union(balls.constant(self.hi))

    def solution(self) -> Solution:
        return exact_or_ball(self.exact, self)

    def __float__(self) -> float:
        return float(self.mid)


def exact_or_ball(exact: sp.Expr | None, root: RootInterval) -> Solution:
    if exact is not None:
        return Solution(exact, Status.EXACT)
    with balls.precision(200):
        return from_ball(root.ball())


def from_ball(ball: arb, message: str = "", most: int = 60) -> Solution:
    """A certified number: the midpoint to as many digits as are known (at most `most`), and the radius."""
    if not ball.is_finite():
        return Solution(sp.nan, Status.UNKNOWN, None, message or "no finite enclosure was found")
    digits = max(15, min(most, int(ball.rel_accuracy_bits() / 3.3219) + 1)) if not ball.is_zero() else 15
    text = ball.mid().str(digits, radius=False)
    error = _upwards((ball - arb(text)).abs_upper()) if not ball.is_zero() else 0.0
    return Solution(sp.Float(text, digits), Status.CERTIFIED, error, message)


def _upwards(size: arb) -> float:
    """A double that is not below a ball (a radius under 1e-308 must not become 0)."""
    value = float(size)
    return value if size.is_zero() or arb(value) >= size else math.nextafter(value, math.inf)


# ----------------------------------------------------------------------------------------------------- enclosures


def enclose(expr: sp.Expr, lo: sp.Expr, hi: sp.Expr, digits: int = 30) -> arb:
    """A ball that holds expr(K) for every K in [lo, hi]; the narrower the interval, the tighter.

    d⟨f⟩/d log K = ½⟨z f′⟩ (and jumps), and √K⟨u⟩_K grows for u ≥ 0, so that with Cauchy–Schwarz ⟨f⟩ moves by at most
    log(hi/lo)·½(hi/lo)^{1/4}√⟨(z f′)²⟩_hi over the interval.
    """
    nodes, f = _compiled(expr)
    with balls.precision(int(digits * 3.33) + 60):
        values = tuple(balls.acb(_value(n, lo, hi, digits)) for n in nodes)
        k = balls.constant(lo).union(balls.constant(hi)) if lo != hi else balls.constant(lo)
        return f((balls.acb(k), *values), False).real


@lru_cache(maxsize=256)
def _compiled(expr: sp.Expr):
    """The averages in expr that depend on K (outer ones, where a variance holds others), and expr as a function of K
    and of them."""
    nodes = sorted((n for n in outermost(expr) if n.free_symbols & {K}), key=str)
    moving = [n for n in nodes if n.dimension > 1 or n.mean != (sp.S.Zero,) or any(p.has(K) for p in n.args[3])]
    if moving:
        raise MeanFieldError(
            f"{shown(moving[0])} is not over one centred Gaussian of variance K alone (a maximum over nodes, a mean "
            "that moves with K), so that its values are not enclosed; follow K with propagate."
        )
    names = tuple(sp.Dummy(f"a{i}", real=True) for i in range(len(nodes)))
    return nodes, balls.compile_ball(expr.xreplace(dict(zip(nodes, names))), (K, *names))


def _value(node: Average, lo: sp.Expr, hi: sp.Expr, digits: int) -> arb:
    """⟨f⟩_V for lo ≤ K ≤ hi, where V = K or an expression in averages itself (of an inner Dense)."""
    if node.cov == (K,):
        return _node(node, lo, hi, digits)
    (variance,) = node.cov
    inner = enclose(variance, lo, hi, digits + 5)
    if not inner.is_finite() or not inner > 0:
        return arb.nan()
    ends = [exactly(end) for end in (inner.lower(), inner.upper())]
    return enclose(average(node.integrand, K), ends[0], ends[1], digits)


def exactly(end: arb) -> sp.Rational:
    """The midpoint of a ball, which is a dyadic number."""
    mantissa, exponent = end.mid().man_exp()
    return sp.Integer(int(mantissa)) * sp.Integer(2) ** int(exponent)


def evaluate(expr: sp.Expr, k: sp.Expr, digits: int = 15) -> arb:
    """A ball of expr at one K with about `digits` correct digits; more precision is spent where terms cancel."""
    for d in (digits, 2 * digits + 10, 4 * digits + 40):
        tick()
        value = enclose(expr, k, k, d)
        if value.is_finite() and (value.is_zero() or value.rel_accuracy_bits() >= digits * 3.3):
            break
    return value


@lru_cache(maxsize=4096)
def _node(node: Average, lo: sp.Expr, hi: sp.Expr, digits: int) -> arb:
    if lo == hi:
        return node.subs(K, lo).ball(digits)
    middle = (lo + hi) / 2
    value = node.subs(K, middle).ball(digits)
    a, b = balls.constant(lo), balls.constant(hi)
    p = pieces(node.integrand, Z[0])
    moved = p.diff().map(lambda e: (Z[0] * e) ** 2).expr
    second = average(moved, K).subs(K, hi)
    try:
        size = second.coarse_ball() if isinstance(second, Average) else balls.certified(second, 15)
    except InfiniteAverage:  # |z|^{-3/5} has an average, its square has none: the closed form bounds it
        try:
            form = node.closed_form()
        except NoClosedForm:
            return _between_ends(node, lo, hi, digits)
        return balls.compile_ball(form, (K,))((balls.acb(a.union(b)),), False).real
    slope = (b / a).sqrt().sqrt() * size.sqrt() / 2
    breaks = [(b, *sides) for b, *sides in zip(p.breaks, p.exprs, p.exprs[1:]) if b != 0]  # at 0, z f does not jump
    for point, left, right in breaks:
        jump, edge = jump_at(left, right, Z[0], point), balls.constant(point)
        slope += abs(edge * balls.constant(jump)) * (-(edge**2) / (2 * b)).exp() / (2 * arb.pi() * a).sqrt() / 2
    return value + arb(0, ((b / a).log() * slope).abs_upper())


def _between_ends(node: Average, lo: sp.Expr, hi: sp.Expr, digits: int) -> arb:
    """⟨f⟩_K for lo ≤ K ≤ hi from both ends: √K ⟨u⟩_K increases for the positive and for the negative part u of f."""
    one_sign = len(signs(node.integrand) or (1, -1)) == 1  # of f(z) + f(-z), which is all that counts
    parts = [(1, node)] if one_sign else [(s, average(sp.Max(s * node.integrand, 0), K)) for s in (1, -1)]
    left, right = (balls.constant(k).sqrt() for k in (lo, hi))
    total = arb(0)
    for s, part in parts:
        low, high = (balls.certified(part.subs(K, k), digits) for k in (lo, hi))
        total += s * (low * left / right).union(high * right / left)
    return total


def value_at(expr: sp.Expr, root: RootInterval, digits: int = 30) -> arb:
    """A ball of expr at a root."""
    if root.exact is not None:
        return evaluate(expr, root.exact, digits)
    return enclose(expr, root.lo, root.hi, digits)


def sharpened(expr: sp.Expr, root: RootInterval, digits: int) -> RootInterval:
    """The root with a bracket of relative width 10^-digits, as far as certified signs reach."""
    if root.exact is not None or not root.crosses:
        return root
    with balls.precision(int(digits * 3.4) + 60):
        a, b = _secant(expr, _evaluator(expr), root.lo, root.hi, 1 if root.rising else -1, digits)
    return replace(root, lo=a, hi=b)


# ---------------------------------------------------------------------------------------------------- the search


def sign_at(expr: sp.Expr, k: sp.Expr, digits: int = 15) -> int:
    """The certified sign at one K; 0 where even 60 digits (more where K is very small or large) do not decide."""
    sign = rough_sign(expr, k, k) or _sign_of_balls(expr, k, digits)
    searched(k)
    return sign


def _sign_of_balls(expr: sp.Expr, k: sp.Expr, digits: int) -> int:
    for d in (digits, 2 * digits, 60, *_more_digits(k)):
        ball = enclose(expr, k, k, d)
        if not ball.contains(0):
            return 1 if ball > 0 else -1
        if ball.is_zero():
            return 0
    return 0


def rough_sign(expr: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> int:
    """The sign of expr on all of [lo, hi] where the ranges of the averaged functions alone prove it, else 0.

    Nothing is integrated: with 1/3 ≤ φ ≤ 1 the map cannot meet K where K is beyond its ends, and at large K an
    integral over a function that oscillates takes √K steps.
    """
    nodes, f = _compiled(expr)
    ranges = [r for n in nodes if (r := _range(n.integrand)) is not None]
    if not nodes or len(ranges) < len(nodes):
        return 0
    with balls.precision(80):
        k = balls.constant(lo).union(balls.constant(hi)) if lo != hi else balls.constant(lo)
        ball = f((balls.acb(k), *[balls.acb(arb(a).union(arb(b))) for a, b in ranges]), False).real
    return 0 if not ball.is_finite() or ball.contains(0) else 1 if ball > 0 else -1


@lru_cache(maxsize=256)
def _range(integrand: sp.Expr) -> tuple[float, float] | None:
    """Numbers between which a function stays on the whole line; None where they are not known to be finite."""
    try:
        parts = list(pieces(integrand, Z[0]).intervals())
        ends = [(_rounded(lo, -1), _rounded(hi, 1)) for _, lo, hi in parts]
    except (TypeError, MeanFieldError):
        return None
    spans = [span(e, Z[0], a, b) for (e, _, _), (a, b) in zip(parts, ends)]
    low, high = min(a for a, _ in spans), max(b for _, b in spans)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _rounded(place: sp.Expr, side: int) -> float:
    """A double that is not inside of an end of a piece."""
    value = float(place)
    return math.nextafter(value, side * math.inf) if math.isfinite(value) else value


def _more_digits(k: sp.Expr) -> tuple[int, ...]:
    """At K = 10^±e terms of powers of K cancel by multiples of e digits."""
    decades = abs(int(sp.log(k, 10).evalf(5)))
    return (60 + 3 * decades,) if decades > 12 else ()


def walk(expr: sp.Expr, start: sp.Rational, first: int, last: int | None):
    """((a, b), low, high): a bracket of the one sign change of an expression that has the sign `first` at K → 0.

    From `start` towards the side where the change lies, the exponent of 10 doubling, until the other sign is met; with
    the far sign `last` known it must be met. None for the bracket where it is not within the walk.
    """
    start, here = _begin(expr, start)
    up = here == first
    near, exponent = start, 1
    limit = FAR if last is not None else 40
    while True:
        k = sp.Rational(start * sp.Integer(10) ** (exponent if up else -exponent))
        if abs(exponent) > 2 * limit or not sp.Rational(1, 10**FAR) < k < sp.Integer(10) ** FAR:
            return None, min(near, start), max(near, start)
        sign = sign_at(expr, k)
        if sign and sign != here:
            return (min(near, k), max(near, k)), min(near, k), max(near, k)
        if sign:
            near = k
        exponent *= 2


def _begin(expr, start):
    """A K near `start` at which the sign is decided."""
    for n in range(1000, 1100):
        k = start * sp.Rational(n, 1000)
        if sign := sign_at(expr, k):
            return k, sign
    raise MeanFieldError(f"The sign of {expr} cannot be decided near K = {float(start):.3g}.")


def crossings(expr: sp.Expr, low: sp.Expr, high: sp.Expr, most: int | None, ends=(None, None)) -> list:
    """Intervals of [low, high] over which the certified sign changes; `ends`: proved signs at low and high.

    Four points a decade (fewer where the range is very wide), and between points of one sign where |expr| dips.
    """
    decades = float(sp.log(high / low, 10))
    steps = max(8, math.ceil(decades * (4 if decades <= 60 else 1)))
    start = math.log10(low)
    inner = [sp.Rational(float(f"{10 ** (start + decades * j / steps):.3g}")) for j in range(1, steps)]
    grid = [low, *(k for k in inner if low < k < high), high]
    signs = [s if s is not None else sign_at(expr, k) for k, s in ((low, ends[0]), (high, ends[1]))]
    known = [(low, signs[0]), *((k, sign_at(expr, k)) for k in grid[1:-1]), (high, signs[1])]
    known = [(k, s) for k, s in known if s]
    found = [(a, b) for (a, s), (b, t) in itertools.pairwise(known) if s != t]
    if most is None or len(found) + 2 <= most:
        found += _hidden(expr, known)
    return sorted(found)


def _hidden(expr, known):
    """Pairs of roots between grid points of the same sign: looked for where |expr| has a minimum inside."""
    @cache
    def size(k):
        return float(abs(evaluate(expr, k, 12)).mid())

    found = []
    for (a, s), (b, t), (c, r) in zip(known, known[1:], known[2:]):
        if not s == t == r or rough_sign(expr, a, c) or not (size(b) < size(a) and size(b) < size(c)):
            continue
        if (k := _beyond(expr, a, c, s)) is not None:
            found += [(a, k), (k, c)]
    return found


def _beyond(expr, a, c, s):
    """A place between a and c where the sign is not s, by golden section; None where none is met."""
    lo, hi = math.log(a), math.log(c)
    for _ in range(40):
        m1, m2 = lo + 0.381966 * (hi - lo), lo + 0.618034 * (hi - lo)
        k1, k2 = sp.Rational(math.exp(m1)), sp.Rational(math.exp(m2))
        f1, f2 = (s * float(evaluate(expr, k).mid()) for k in (k1, k2))
        for k, f in ((k1, f1), (k2, f2)):
            if f < 0 and sign_at(expr, k) == -s:
                return k
        if f1 < f2:
            hi = m2
        else:
            lo = m1
        if hi - lo < 1e-7:
            break
    return None


def refine(expr: sp.Expr, bracket: tuple[sp.Expr, sp.Expr], digits: int = 30) -> RootInterval:
    """The bracket narrowed to a relative width of 10^-digits, signs certified at both ends."""
    a, b = bracket
    sign = sign_at(expr, b)
    value = _evaluator(expr)
    a, b = _narrow(value, sp.Rational(a), sp.Rational(b), sign, 1e-9, 16)
    for goal in (20, 40, 80, 160):
        accuracy = min(goal, digits)
        a, b = _secant(expr, value, a, b, sign, accuracy)
        if accuracy == digits:
            break
    return RootInterval(a, b, None, sign > 0)


def _evaluator(expr) -> Callable[[sp.Expr, int], arb]:
    return lambda k, digits: evaluate(expr, k, digits)


def _narrow(value, a, b, sign, width, digits):
    """Illinois iteration in log K until (b - a)/a < width."""
    fa, fb = value(a, digits), value(b, digits)
    side = 0
    for _ in range(200):
        if (b - a) < width * a:
            break
        weight = float((fa / (fa - fb)).mid())
        if not 0.01 < weight < 0.99:
            weight = min(max(weight, 0.02), 0.98)
        k = sp.Rational(float(a) * (float(b) / float(a)) ** weight)
        if not a < k < b:
            break
        f = value(k, digits)
        if f.contains(0):
            break
        if (f > 0) == (sign > 0):
            b, fb, fa, side = k, f, (fa / 2 if side == 1 else fa), 1
        else:
            a, fa, fb, side = k, f, (fb / 2 if side == -1 else fb), -1
    return a, b


def _secant(expr, value, a, b, sign, digits):
    """Secant steps at `digits`, then two points at a distance 10^-digits with opposite certified signs."""
    work = digits + 15
    x0, x1 = a, b
    f0, f1 = value(x0, work), value(x1, work)
    for _ in range(8):
        if (f1 - f0).contains(0):
            break
        with balls.precision(int(work * 3.4)):
            step = f1 * (balls.constant(x1) - balls.constant(x0)) / (f1 - f0)
            k = rational((balls.constant(x1) - step).mid(), work)
        if not a < k < b:
            k = (a + b) / 2
        x0, f0, x1 = x1, f1, k
        if abs(x1 - x0) < x1 * sp.Rational(1, 10 ** (digits + 2)):
            break
        f1 = value(x1, work)
        if f1.contains(0):
            break
    for widen in (1, 10, 1000, 10**5):
        delta = x1 * sp.Rational(widen, 10 ** (digits + 1))
        lo, hi = max(a, x1 - delta), min(b, x1 + delta)
        if sign_at(expr, lo, work) == -sign and sign_at(expr, hi, work) == sign:
            return lo, hi
    return _narrow(value, a, b, sign, 10.0**-12, 30)


def rational(ball: arb, digits: int) -> sp.Rational:
    """The midpoint of a ball as a rational of `digits` decimals."""
    return sp.Rational(sp.Float(ball.mid().str(digits + 5, radius=False), digits + 5))
