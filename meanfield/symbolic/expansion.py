r"""Expansions of averages at both ends of K, as `Law`s.

K → 0: half-Gaussian moments of the Taylor coefficients of the two pieces that meet at 0; a kink elsewhere is
exponentially small. K → ∞: if f = P_±(z) + g with g exponentially small, ⟨f⟩ = ⟨P⟩ + (2πK)^{-1/2} Σ_j (-1)^j m_{2j}/(j!
(2K)^j), m_n = ∫ zⁿ g. An algebraic tail gives its leading order. Source: derived here (Laplace's method on e^{-z²/2K}).
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from meanfield import zeros
from meanfield.growth import tail
from meanfield.isolation import Root
from meanfield.piecewise import pieces
from meanfield.results import Law, MeanFieldError, NoClosedForm, Term
from meanfield.symbolic.average import Average
from meanfield.symbolic.moments import Moment, moment, power_parts
from meanfield.symbols import K, Z
from meanfield.taylor import taylor


def _split(expr: sp.Expr) -> tuple[sp.Expr, list[tuple[sp.Expr, Average]]]:
    """constant + Σ coefficient·node, for an expression linear in centred one-input averages over K."""
    expr = sp.expand(expr)
    nodes = sorted((n for n in expr.atoms(Average) if n.has(K)), key=str)
    rest, parts = expr, []
    for node in nodes:
        if node.cov != (K,) or node.mean != (sp.S.Zero,) or any(p.has(K) for p in node.args[3]):
            raise MeanFieldError(f"{node} is not a centred average over K; its expansion is not known.")
        coefficient = expr.coeff(node)
        parts.append((coefficient, node))
        rest = sp.expand(rest - coefficient * node)
    if any(n.has(K) for n in rest.atoms(Average)) or any(n.has(K) for c, _ in parts for n in c.atoms(Average)):
        raise _NotLinear
    return rest, parts


class _NotLinear(Exception):
    """The expression is a quotient or another function of averages."""


def _composed(expr: sp.Expr, order: int, point: sp.Expr) -> Law:
    """The expansion of a function of averages: each average replaced by its own, then a series in K^{1/2} or
    K^{-1/2}."""
    t = sp.Dummy("t", positive=True)
    sign = 1 if point == 0 else -1
    swap, exact = {}, True
    for node in expr.atoms(Average):
        if not node.has(K):
            continue
        law = at_zero(node, order + 1) if point == 0 else at_infinity(node, order + 1)
        if any(u.logs != 0 or not (2 * u.power).is_Integer for u in law.terms):
            raise MeanFieldError(
                f"⟨{node.integrand}⟩ behaves like {law}; quotients of such averages are not expanded yet."
            )
        swap[node] = sp.Add(*[u.coefficient * t ** (2 * sign * u.power) for u in law.terms])
        exact &= law.remainder == "zero"
        if law.remainder == "smaller":
            order = 0
    inner = expr.xreplace(swap).subs(K, t ** (2 * sign))
    flat = {n: sp.Dummy("a", positive=True) for n in inner.atoms(Average, Moment)}
    try:
        series = sp.series(sp.together(inner.xreplace(flat)), t, 0, 2 * order + 1).removeO()
    except (ValueError, NotImplementedError, TypeError) as error:
        raise MeanFieldError(f"The expansion of {expr} at K → {point} is not known ({error}).") from None
    powers: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(sp.expand(series)):
        c, k = term.as_coeff_exponent(t)
        if k <= 2 * order:
            power = sign * k / 2
            powers[power] = powers.get(power, sp.S.Zero) + c.xreplace({v: n for n, v in flat.items()})
    rest = "smaller" if order == 0 else sign * (sp.Rational(1, 2) + order)
    return _law(powers, point, rest, ascending=point == 0)


def half_moment(k: sp.Expr) -> sp.Expr:
    """½⟨|z|^k⟩ at K = 1: 2^{k/2} Γ((k+1)/2)/(2√π)."""
    return 2 ** (sp.sympify(k) / 2) * sp.gamma((k + 1) / sp.Integer(2)) / (2 * sp.sqrt(sp.pi))


def at_zero(expr: sp.Expr, order: int = 3) -> Law:
    """The expansion of an average (or a linear combination) as K → 0+, up to K^order.

    Raises: MeanFieldError where a piece has no Taylor series at 0.
    """
    try:
        constant, parts = _split(expr)
    except _NotLinear:
        return _composed(expr, order, sp.S.Zero)
    powers: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(sp.expand(constant)):
        _accumulate(powers, term, sp.S.One, sp.S.Zero)
    exact = all(_polynomial_near_zero(n.integrand) for _, n in parts)
    kinked = any(b != 0 for _, n in parts for b in pieces(n.integrand, Z[0]).breaks)
    top = 2 * order
    for coefficient, node in parts:
        left, right = _neighbours(node.integrand)
        if exact:
            top = max([top, *(sp.Poly(e, Z[0]).degree() for e in (left, right) if e.has(Z[0]))])
        a, b = taylor(right, Z[0], top), taylor(left, Z[0], top)
        for k in range(top + 1):
            value = (a[k] + (-1) ** k * b[k]) * half_moment(k)
            if value != 0:
                _accumulate(powers, coefficient * value, coefficient, sp.Rational(k, 2))
    remainder = ("exponential" if kinked else "zero") if exact else sp.Rational(top + 1, 2)
    if not exact and all(_is_smooth_at_zero(n.integrand) for _, n in parts):
        remainder = sp.Integer(order + 1)
    return _law(powers, sp.S.Zero, remainder, ascending=True)


def _accumulate(powers, value, coefficient, power):
    """Add value·K^power; a coefficient may itself carry powers of K."""
    c, k = sp.sympify(value).as_independent(K, as_Add=False)
    own = sp.log(k.subs(K, sp.E)) if k != 1 and k.subs(K, sp.E).is_positive else sp.S.Zero
    powers[sp.sympify(power + own)] = sp.expand(powers.get(sp.sympify(power + own), sp.S.Zero) + c)


def _neighbours(f):
    return pieces(f, Z[0]).around_zero()


def _polynomial_near_zero(f) -> bool:
    return all(e.is_polynomial(Z[0]) for e in _neighbours(f))


def _is_smooth_at_zero(f) -> bool:
    left, right = _neighbours(f)
    return left == right


def _law(powers, point, remainder, ascending):
    terms = [Term(sp.nsimplify(c) if c.is_Float else c, p) for p, c in powers.items() if c != 0]
    return Law(K, point, tuple(sorted(terms, key=lambda t: t.power, reverse=not ascending)), remainder)


def at_infinity(expr: sp.Expr, order: int = 3) -> Law:
    """The expansion of an average (or a linear combination) as K → ∞, down to K^{1/2-order}.

    Raises: MeanFieldError where f has no power-law limit, or an algebraic tail and more than the leading order is
    needed (a combination whose leading orders cancel).
    """
    try:
        constant, parts = _split(expr)
    except _NotLinear:
        return _composed(expr, order, sp.oo)
    powers: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(sp.expand(constant)):
        _accumulate(powers, term, sp.S.One, sp.S.Zero)
    worst: str | sp.Expr = "zero"
    for coefficient, node in parts:
        law = _node_at_infinity(node, order)
        if any(t.logs != 0 for t in law.terms):
            if len(parts) == 1 and not powers and not coefficient.has(K):
                return replace(law, terms=tuple(replace(t, coefficient=coefficient * t.coefficient) for t in law.terms))
            raise MeanFieldError(
                f"⟨{node.integrand}⟩ behaves like {law} as K → ∞; sums with a logarithm are not expanded yet."
            )
        for t in law.terms:
            _accumulate(powers, coefficient * t.coefficient, coefficient, t.power)
        if law.remainder != "zero":
            worst = _coarser(worst, law.remainder)
    return _law(powers, sp.oo, worst, ascending=False)


def _coarser(a, b):
    """The weaker of two statements on what is left out."""
    rank = {"zero": 0, "exponential": 1, "smaller": 3}
    if isinstance(a, str) or isinstance(b, str):
        return max(a, b, key=lambda r: rank.get(r, 2) if isinstance(r, str) else 2)
    return max(a, b)


def _node_at_infinity(node: Average, order: int) -> Law:
    f = node.integrand
    try:
        left, right = power_parts(f)
    except MeanFieldError:
        return _other_limits(node)
    powers: dict[sp.Expr, sp.Expr] = {}
    for part, sign in ((right, 1), (left, -1)):
        for (k,), c in sp.Poly(part, Z[0]).terms():
            _accumulate(powers, c * sign**k * half_moment(k), sp.S.One, sp.Rational(k, 2))
    if all(e - p == 0 for e, p in zip(pieces(f, Z[0]).exprs, (left, right))) and set(pieces(f, Z[0]).breaks) <= {
        sp.S.Zero
    }:
        return _law(powers, sp.oo, "zero", ascending=False)
    moments = [moment(f, 2 * j) for j in range(order)]
    if any(m.has(Moment) for m in moments):
        law = _from_closed_form(node, order)
        if law is not None:
            return law
    for j, m in enumerate(moments):
        value = (-1) ** j * m / (sp.sqrt(2 * sp.pi) * sp.factorial(j) * 2**j)
        _accumulate(powers, value, sp.S.One, -sp.Rational(1, 2) - j)
    return _law(powers, sp.oo, -sp.Rational(1, 2) - order, ascending=False)


def _from_closed_form(node: Average, order: int) -> Law | None:
    """The same expansion read off the closed form, by a series in u = K^{-1/2}; None where there is no closed form or
    no series."""
    u = sp.Dummy("u", positive=True)
    try:
        form = sp.powsimp(node.closed_form().subs(K, u**-2))
        names = {r: sp.Dummy("r", positive=True) for r in form.atoms(Root)}  # a number to a series: a mere symbol
        form = form.xreplace(names)
        # e^{-b²/2K} and erfc(b/√2K) are analytic in u; asin near 1 has a square root, which acos shows
        series = sp.series(form.replace(sp.asin, lambda x: sp.pi / 2 - sp.acos(x)), u, 0, 2 * order + 1).removeO()
    except (NoClosedForm, ValueError, NotImplementedError, TypeError, AttributeError):
        return None
    powers: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(sp.expand(series)):
        c, k = term.xreplace({v: r for r, v in names.items()}).as_coeff_exponent(u)
        if c.has(u):
            return None
        powers[-k / 2] = sp.expand(powers.get(-k / 2, sp.S.Zero) + c)
    return _law(powers, sp.oo, -sp.Rational(1, 2) - order, ascending=False)


def _other_limits(node: Average) -> Law:
    """No exponential approach to powers: an exponentially small average (sin), or the leading order of an algebraic
    tail."""
    f = node.integrand
    exprs = pieces(f, Z[0]).exprs
    tails = tail(exprs[0], Z[0], -1), tail(exprs[-1], Z[0], 1)
    if any(t.power is None for t in tails):
        try:
            form = node.closed_form()
        except NoClosedForm:
            raise MeanFieldError(
                f"{f} has no power-law limit at infinity and no closed average; its expansion at K → ∞ is not known."
            ) from None
        limit = form.replace(
            lambda e: isinstance(e, sp.exp) and sp.limit(e.args[0], K, sp.oo) == -sp.oo, lambda e: sp.S.Zero
        )
        if limit.has(sp.exp, sp.erfc):
            raise MeanFieldError(f"The expansion of {node} at K → ∞ is not known.")
        return Law(K, sp.oo, (Term(limit),) if limit != 0 else (), "exponential")
    return _algebraic(f, tails)


def _algebraic(f, tails) -> Law:
    total: dict[sp.Expr, sp.Expr] = {}
    for t, sign in zip(tails, (-1, 1)):
        if t.power == 0:
            continue
        u = sp.Symbol("t", positive=True)
        for term in sp.Add.make_args(sp.expand(t.power.subs(Z[0], sign * Z[1]).xreplace({Z[1]: u}))):
            c, s = term.as_coeff_exponent(u)
            total[s] = total.get(s, sp.S.Zero) + c
    s = max(total, default=-sp.oo)
    if s > -1 and total[s] != 0:
        lead = Term(sp.simplify(total[s] * half_moment(s)), s / 2)
        return Law(K, sp.oo, (lead,), "smaller")
    if s == -1:
        return Law(K, sp.oo, (Term(total[s] / (2 * sp.sqrt(2 * sp.pi)), -sp.S.Half, sp.S.One),), "smaller")
    if s > -1:
        raise MeanFieldError(
            f"The leading orders of {f} at ±∞ cancel; for an algebraic tail only the leading order is known."
        )
    mass = sp.Add(*[sp.integrate(e, (Z[0], lo, hi)) for e, lo, hi in pieces(f, Z[0]).intervals()])
    if mass.has(sp.Integral):
        raise MeanFieldError(f"∫ {f} dz, the leading coefficient at K → ∞, was not found in closed form.")
    return Law(K, sp.oo, (Term(sp.simplify(mass / sp.sqrt(2 * sp.pi)), -sp.S.Half),), "smaller")


def exponential_at_zero(expr: sp.Expr) -> Term | None:
    """The leading exponentially small term c·K^a·exp(-b²/2K) of an expression linear in averages, as K → 0.

    A kink at b whose two sides differ by Δ(z) = Σ Δ_k (z - b)^k/k! contributes p_K(b) Σ_k Δ_k (K/|b|)^{k+1} to leading
    order. None where there is no kink away from 0.
    """
    _, parts = _split(expr)
    found: dict[tuple[sp.Expr, sp.Expr], sp.Expr] = {}
    for coefficient, node in parts:
        p = pieces(node.integrand, Z[0])
        for b, left, right in zip(p.breaks, p.exprs, p.exprs[1:]):
            if b == 0:
                continue
            side = zeros.compare(b, sp.S.Zero)
            inner, outer = (left, right) if side > 0 else (right, left)
            difference = taylor((outer - inner).subs(Z[0], b + side * Z[0]), Z[0], 4)
            for k, value in enumerate(difference):
                if value != 0:
                    c, power = coefficient.as_independent(K, as_Add=False)
                    extra = sp.degree(power, K) if power != 1 else 0
                    key = (b**2, sp.Rational(2 * k + 1, 2) + extra)
                    size = c * value * sp.factorial(k) / sp.Abs(b) ** (k + 1) / sp.sqrt(2 * sp.pi)
                    found[key] = sp.simplify(found.get(key, sp.S.Zero) + size)
    live = {key: v for key, v in found.items() if v != 0}
    if not live:
        return None
    b2, power = min(live, key=lambda k: (sp.N(k[0]), sp.N(k[1])))
    return Term(live[b2, power], power, sp.S.Zero, -b2 / 2, sp.S.NegativeOne)
