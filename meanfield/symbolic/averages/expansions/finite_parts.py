r"""Hadamard finite parts fp∫ zⁿ f(z) dz of functions with algebraic tails: exact where partial fractions, parts or
the Beta function reach, else by a certified ball.

fp∫_a^∞ g is the constant term of ∫_a^T g as T → ∞, once the powers of T and of log T are dropped. Integration by
parts and antiderivatives keep their form under it. Source: derived here.
"""

from __future__ import annotations

import math
from functools import lru_cache

import sympy as sp
from flint import acb, arb
from flint import ctx as flint_context

from meanfield.base.answers.results import MeanFieldError
from meanfield.functions import balls
from meanfield.functions.elementary import where
from meanfield.functions.growth import ExponentialDecay, decay
from meanfield.functions.series.ball_series import ball_series, coefficients
from meanfield.functions.series.infinity import FormAtInfinity, normal_form

t = sp.Dummy("t", positive=True)


def constant_term(e: sp.Expr, x: sp.Symbol) -> sp.Expr:
    """The coefficient of x^0 (no logarithm) of e as x → ∞."""
    return normal_form(e, x).terms(sp.S.Zero).get((sp.S.Zero, 0), sp.S.Zero)


# ------------------------------------------------------------------------------------------------------- exact


@lru_cache(maxsize=512)
def exact(g: sp.Expr, a: sp.Expr, b: sp.Expr) -> sp.Expr | None:
    """fp∫_a^b g(t) dt, g in the dummy `t` of this module, 0 ≤ a < b ≤ ∞; None outside the rules."""
    total = []
    for term in sp.Add.make_args(sp.expand(g)):
        value = _term(term, a, b)
        if value is None:
            return _rational(g, a, b)
        total.append(value)
    return sp.expand(sp.Add(*total))


def _term(g: sp.Expr, a: sp.Expr, b: sp.Expr) -> sp.Expr | None:
    c, g = g.as_independent(t, as_Add=False)
    for rule in (_rational, _beta, _by_parts):
        value = rule(g, a, b)
        if value is not None:
            return sp.expand(c * value)
    return None


def _between(primitive: sp.Expr, a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """The finite part of a primitive taken between a and b."""
    top = constant_term(primitive, t) if b == sp.oo else primitive.subs(t, b)
    return sp.expand(top - primitive.subs(t, a))


def _rational(g: sp.Expr, a: sp.Expr, b: sp.Expr) -> sp.Expr | None:
    if not g.is_rational_function(t):
        return None
    g = sp.cancel(sp.together(g))
    if not all(c.is_Rational for p in sp.fraction(g) for c in sp.Poly(p, t).all_coeffs()):
        return None
    bottom = sp.Poly(sp.denom(g), t)
    factors = [f for f, _ in bottom.factor_list()[1]]
    if any(f.degree() > 2 or (f.degree() == 2 and f.discriminant() >= 0) for f in factors):
        return None
    if any(a <= r <= b for f in factors if f.degree() == 1 for r in sp.real_roots(f)):
        return None
    return _between(sp.Add(*[_primitive(p, a) for p in sp.Add.make_args(sp.apart(g, t))]), a, b)


def _primitive(p: sp.Expr, a: sp.Expr) -> sp.Expr:
    """Of one partial fraction: a polynomial over the power of a linear or quadratic factor."""
    top, bottom = sp.fraction(sp.together(p))
    if not bottom.has(t):
        return sp.integrate(sp.expand(p), t)
    scale, [(base, n)] = sp.Poly(bottom, t).factor_list()
    if base.degree() == 1:
        q, x = sp.Poly(top, t), sp.Poly(base, t)
        slope, u = x.LC(), x.as_expr()
        assert q.degree() <= 0
        value = sp.log(u * sp.sign(u.subs(t, a))) / slope if n == 1 else u ** (1 - n) / ((1 - n) * slope)
        return q.as_expr() / scale * value
    lead, mid, low = base.all_coeffs()
    u, centre = base.as_expr(), t + mid / (2 * lead)
    width = sp.sqrt(low / lead - (mid / (2 * lead)) ** 2)
    top = sp.Poly(top, t)
    slope, remainder = top.nth(1), top.nth(0) - top.nth(1) * mid / (2 * lead)
    odd = sp.log(u / lead) / 2 if n == 1 else (u / lead) ** (1 - n) / (2 * (1 - n))
    even = sp.atan(centre / width) / width  # ∫ (x² + w²)^{-n} by the recurrence in n
    for k in range(1, n):
        x2 = u / lead
        even = centre / (2 * k * width**2 * x2**k) + sp.Rational(2 * k - 1, 2 * k) / width**2 * even
    return (slope * odd + remainder * even) / (scale * lead**n)


def _split(g: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """g = t^n · rest with n as large as it is plain; (n, rest)."""
    n, remainder = sp.S.Zero, []
    for f in sp.Mul.make_args(g):
        base, power = f.as_base_exp()
        if base == t:
            n += power
        else:
            remainder.append(f)
    return n, sp.Mul(*remainder)


def _beta(g: sp.Expr, a: sp.Expr, b: sp.Expr) -> sp.Expr | None:
    """∫₀^∞ t^n (p + q t²)^α dt = p^{α+x} q^{-x} Γ(x)Γ(-α-x)/(2Γ(-α)) with x = (n+1)/2; at a pole of Γ(-α-x) its
    constant term under n → n + δ."""
    n, remainder = _split(g)
    base, alpha = remainder.as_base_exp()
    if a != 0 or b != sp.oo or not base.is_polynomial(t) or not alpha.is_Rational or alpha.is_Integer:
        return None
    poly = sp.Poly(base, t)
    p, q = poly.nth(0), poly.nth(2)
    if poly.degree() != 2 or poly.nth(1) != 0 or not (p.is_Rational and q.is_Rational and p > 0 and q > 0):
        return None
    if not (n.is_Rational and n > -1):
        return None
    x = (n + 1) / 2
    y = -alpha - x
    scale = p ** (alpha + x) * q ** (-x) / (2 * sp.gamma(-alpha))
    if not (y.is_Integer and y <= 0):
        return sp.expand_func(scale * sp.gamma(x) * sp.gamma(y))
    # x → x + ε with ε = δ/2: (p/q)^ε Γ(x + ε) Γ(y - ε), Γ(-k - ε) = (-1)^k/k! (-1/ε + ψ(k + 1) + …)
    k = int(-y)
    bracket = sp.digamma(k + 1) - sp.log(p / q) - sp.digamma(x)
    return sp.expand(sp.expand_func(scale * sp.gamma(x) * sp.Integer(-1) ** k / sp.factorial(k) * bracket))


def _by_parts(g: sp.Expr, a: sp.Expr, b: sp.Expr) -> sp.Expr | None:
    """t^n times a head of a simple argument whose derivative is rational or a root, as atan, log, asinh."""
    n, remainder = _split(g)
    if not (n.is_Integer and n >= 0):
        return None
    if isinstance(remainder, where("algebraic_slope")):
        u = remainder.args[0]
        if not u.is_rational_function(t) and not isinstance(remainder, sp.log):
            return None
        factor = t ** (n + 1) / (n + 1)
        slope = remainder.diff(t)
        inner = exact(sp.expand(factor * slope) if slope.has(sp.sqrt) else sp.cancel(factor * slope), a, b)
        if inner is None:
            return None
        return sp.expand(_between(factor * remainder, a, b) - inner)
    if remainder == sp.atan(t) ** 2 and a == 0 and b == sp.oo:
        # t^{n+1}/(1 + t²) is a polynomial and ±1/(1 + t²) or ±t/(1 + t²), for which fp∫ t atan(t)/(1+t²) = -(π/2) log 2
        quotient, left = sp.div(sp.Poly(2 * t ** (n + 1) / (n + 1), t), sp.Poly(1 + t**2, t))
        known = exact(sp.expand(quotient.as_expr() * sp.atan(t)), a, b)
        if known is None:
            return None
        last = left.nth(0) * sp.pi**2 / 8 - left.nth(1) * sp.pi * sp.log(2) / 2
        return sp.expand(_between(t ** (n + 1) / (n + 1) * remainder, a, b) - known - last)
    return None


# --------------------------------------------------------------------------------------------------- certified


def tail_split(e: sp.Expr, x: sp.Symbol) -> tuple[ExponentialDecay, FormAtInfinity] | None:
    """(its decay with an algebraic part, the form of that part); None where a ball of a finite part would not be
    found."""
    found = decay(e, x, algebraic=True)
    if found is None:
        return None
    try:
        form = normal_form(found.power, x)
        for p in form.parts:
            ball_series(p.factor)
    except MeanFieldError:
        return None
    return None if form.dropped else (found, form)


def outer_ball(e: sp.Expr, x: sp.Symbol, a: sp.Expr, n: int) -> arb:
    """A ball of fp∫_a^∞ xⁿ e(x) dx, a ≥ 0, at the current precision: integration up to T, the tail's series beyond."""
    split = tail_split(e, x)
    if split is None:
        raise MeanFieldError(f"The tail of {e} cannot be bounded by the rules, so its moment cannot be certified.")
    found, form = split
    goal = flint_context.prec
    start = max(6, math.ceil(math.log2(abs(float(a)) + 1)) + 3)
    best = arb.nan()
    for level in (start, start + 4, start + 10, start + 20, start + 36):
        top = max([1.0, *[float(p.power) + n + 1 for p in form.parts]])
        with balls.precision(goal + int(level * top) + 40):
            T = arb(2) ** level
            beyond = _beyond(form, T, n, goal + int(level * top)) + _small_rest(found, T, n)
            if not beyond.is_finite() or beyond.rad() > arb(2) ** (20 - goal):
                continue
            best = beyond + _up_to(e, x, balls.constant(a), T, n)
            break
    if not best.is_finite():
        raise MeanFieldError(f"The finite part of ∫ z^{n} {e} is not available: no finite enclosure was found.")
    return best


def _small_rest(found: ExponentialDecay, T: arb, n: int) -> arb:
    """± ∫_T^∞ A (1+x)^{p+n} e^{-cx} dx."""
    if not found.A:
        return arb(0)
    slope = arb(found.c) - (arb(found.p) + n) / T
    if not slope > 0:
        return arb.nan()
    size = arb(found.A) * (1 + T) ** (arb(found.p) + n) * (-arb(found.c) * T).exp() / slope
    return arb(0, size.abs_upper())


def _beyond(form: FormAtInfinity, T: arb, n: int, bits: int) -> arb:
    """fp∫_T^∞ xⁿ Σ x^s (log x)^m A(x^{-1/d}) dx: the series of A, its last coefficient taken over [0, T^{-1/d}]."""
    edge = (T.log() / -form.d).exp()
    count = int(bits / max(1.0, -float(edge.log()) / math.log(2))) + 8 + form.d * (n + 8)
    total = arb(0)
    for p in form.parts:
        f = ball_series(p.factor)
        # beyond the last power that diverges the plain integral bounds the rest
        least = int(form.d * (p.power + n + 1)) + 2
        size = max(count, least + 1)
        known = coefficients(f, arb(0), size)
        remainder = coefficients(f, arb(0).union(edge), size + 1)
        if known is None or remainder is None:
            return arb.nan()
        for k, c in enumerate(known):
            if not c.is_zero():
                total += c * _power_integral(p.power + n - sp.Rational(k, form.d), p.logs, T)
        total += remainder[size] * _power_integral(p.power + n - sp.Rational(size, form.d), p.logs, T)
    return total


def _power_integral(s: sp.Expr, m: int, T: arb) -> arb:
    """fp∫_T^∞ x^s (log x)^m dx."""
    if s == -1:
        return -(T.log() ** (m + 1)) / (m + 1)
    a = balls.constant(s + 1)
    value = -((a * T.log()).exp()) * T.log() ** m / a
    return value - m / a * _power_integral(s, m - 1, T) if m else value


def _up_to(e: sp.Expr, x: sp.Symbol, a: arb, T: arb, n: int) -> arb:
    f = balls.compile_ball(e, (x,))
    points = [a]
    step = arb(1)
    while points[-1] + step < T:
        points.append(points[-1] + step)
        step = step * 2 if len(points) > 3 else step
    total = arb(0)
    for lo, hi in zip(points, [*points[1:], T]):
        total += balls.integral(lambda z, an: f((z,), an) * z**n, acb(lo), acb(hi)).real
    return total
