r"""Lines in the (σ_w, σ_b) plane as σ_b → 0: σ_w² as a series in σ_b².

A line is a curve in its fixed point, σ_w² = s(K), σ_b² = b(K), and it meets σ_b = 0 at K → 0 where b(0) = 0; with b =
β K^m (1 + …) K is a series in σ_b^{2/m}, and so is σ_w². Source: derived here.
"""

from __future__ import annotations

import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError, Term
from meanfield.base.symbols import K, Z
from meanfield.functions import balls
from meanfield.functions.piecewise import pieces
from meanfield.symbolic.averages.expansions.expansion import at_zero
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.series.asymptotic_law import Law
from meanfield.symbolic.series.coefficients import ONE, ZERO, Atoms, expression, rational
from meanfield.symbolic.series.ring import any_logs, key
from meanfield.symbolic.series.truncated import Calculus, Truncated

sigma_b2 = sp.Symbol("sigma_b2", positive=True)
Powers = dict[sp.Expr, sp.Expr]
MOST = 12  # orders of K that are looked at for the leading one


def inverted(s: Powers, b: Powers, order: int) -> Law:
    """σ_w² as a law in σ_b² → 0 with `order` terms, from the powers of K in s and b (each known far enough)."""
    b = {p: c for p, c in sorted(b.items()) if sp.simplify(c) != 0}
    if not b:
        raise MeanFieldError("sigma_b is 0 along the line to every known order of K.")
    lead = min(b)
    if lead <= 0:
        raise MeanFieldError("The line does not reach sigma_b = 0 as K falls to 0, so it has no expansion there.")
    if balls.certified(b[lead], 20) < 0:
        raise MeanFieldError("Near K = 0 the line would need sigma_b^2 < 0: it does not reach sigma_b = 0 there.")
    d = int(sp.ilcm(*[sp.Rational(p).q for p in (*s, *b)]))
    m, n = int(d * lead), 2 * order + 1
    # in u = K^{1/d} and t = (σ_b²/β)^{1/m} = u·shape(u), 1/u and 1/t for l of the ring
    calc, edge = Calculus(Atoms()), any_logs(-n)

    def series(powers: Powers, first: sp.Expr, c: sp.Expr) -> Truncated:
        """Σ of the powers of u from the first one on, over c u^{d·first}."""
        given = [powers.get(first + sp.Rational(k, d), sp.S.Zero) / c for k in range(n)]
        return calc.made({key(-k): calc.atoms.total(x) for k, x in enumerate(given)}, edge, ())

    def composed(outer: Truncated, inner: Truncated) -> Truncated:
        return calc.composed(inner, lambda k: outer.terms.get(key(-k), ZERO))

    inverse = calc.real_power(series(b, lead, b[lead]), fmpq(-1, m))
    back = Truncated({key(-1): ONE}, any_logs(-2))  # u as a series in t: u = t/shape(u), a power further each time
    for _ in range(n - 1):
        back = calc.scaled(composed(inverse, back), ONE, key(-1))
    first = min(p for p in s if sp.simplify(s[p]) != 0)
    whole = calc.times(composed(series(s, first, sp.S.One), back), calc.real_power(back, rational(d * first)))
    terms = []
    for k, c in calc.order.ordered(whole.terms):
        power = -expression(k[0])
        x = sp.simplify(calc.atoms.expr(c) * b[lead] ** (-power / m))
        if x != 0:
            terms.append(Term(x, power / m))
    return Law(sigma_b2, sp.S.Zero, tuple(terms[:order]), "smaller")


def powers_at_zero(e: sp.Expr, order: int) -> Powers:
    """The powers of K in an expression with averages, K → 0."""
    law = at_zero(e, order)
    if any(t.logs != 0 or t.rate != 0 for t in law.terms):
        raise MeanFieldError("The line's expansion holds logarithms or exponentials in K; it is not inverted.")
    return {t.power: t.coefficient for t in law.terms}


def critical_line_powers(sw2: sp.Expr, sb2: sp.Expr, order: int) -> tuple[Powers, Powers]:
    """The powers of (σ_w², σ_b²) along the critical line, so far that `order` terms of the inverse are right."""
    for far in range(2, MOST + 1):
        b = powers_at_zero(sb2, far)
        lead = [p for p, c in b.items() if sp.simplify(c) != 0]
        if lead:
            more = int(min(lead)) + 2 * order + 1
            return powers_at_zero(sw2, 2 * order + 1), powers_at_zero(sb2, more)
    raise MeanFieldError(f"sigma_b^2 along the line is smaller than K^{MOST} as K falls to 0; it is not expanded.")


def neutrality_powers(f: sp.Expr, c: sp.Expr, kept: sp.Expr, order: int) -> tuple[Powers, Powers]:
    """The powers of (σ_w², σ_b²) on the line c* = c from the Taylor polynomial of f at 0. kept: 1 - μ²."""
    p = pieces(f, Z[0])
    left, right = p.around_zero()
    if sp.simplify(left - right) != 0:
        raise MeanFieldError("phi has a kink at 0, so its correlations near K = 0 do not follow from a Taylor series.")
    for degree in range(2 * order + 3, 4 * MOST + 1, 2):
        poly = sp.series(left, Z[0], 0, degree + 1).removeO()
        top = (degree + 1) // 2
        second, product = (
            _powers(sp.expand(average(sp.expand(g), cov).doit() if g.has(*Z) else g), top)
            for g, cov in ((poly**2, K), (sp.expand(poly * poly.xreplace({Z[0]: Z[1]})), (K, c * K, K)))
        )
        gap = {q: sp.expand(second.get(q, 0) - product.get(q, 0)) for q in {*second, *product}}
        gap = {q: v for q, v in gap.items() if v != 0}
        lead = min(gap, default=sp.S.Zero)
        series = sum(v * K ** (q - lead) for q, v in gap.items())
        s = _powers(sp.series(kept * (1 - c) * K ** (1 - lead) / series, K, 0, top).removeO(), top - lead)
        bias = sp.expand(kept * K - sum(v * K**q for q, v in s.items()) * sum(v * K**q for q, v in second.items()))
        b = {q: v for q, v in _powers(bias, top - lead + 1).items() if sp.simplify(v) != 0}
        if b and min(b) + 2 * order <= top - lead + 1:
            return {q: v for q, v in s.items() if q <= 2 * order + 1}, b
    raise MeanFieldError("The line is not resolved by the first orders of phi at 0; it is not expanded.")


def _powers(e: sp.Expr, top) -> Powers:
    out: Powers = {}
    for t in sp.Add.make_args(sp.expand(e)):
        v, k = t.as_independent(K)
        q = k.as_base_exp()[1] if k != 1 else sp.S.Zero
        if q <= top:
            out[q] = out.get(q, sp.S.Zero) + v
    return out
