r"""Lines in the (σ_w, σ_b) plane as σ_b → 0: σ_w² as a series in σ_b².

A line is a curve in its fixed point, σ_w² = s(K), σ_b² = b(K), and it meets σ_b = 0 at K → 0 where b(0) = 0; with b =
β K^m (1 + …) K is a series in σ_b^{2/m}, and so is σ_w². Source: derived here.
"""

from __future__ import annotations

import sympy as sp

from meanfield.base.answers.results import Law, MeanFieldError, Term
from meanfield.base.symbols import K, Z
from meanfield.functions import balls
from meanfield.functions.piecewise import pieces
from meanfield.symbolic.averages.expansions.expansion import at_zero
from meanfield.symbolic.averages.node import average

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
    # in u = K^{1/d} and t = (σ_b²/β)^{1/m} = u·shape(u)
    shape = _power([b.get(lead + sp.Rational(k, d), sp.S.Zero) / b[lead] for k in range(n)], sp.Rational(1, m))
    inverse = _power(shape, sp.S.NegativeOne)
    back = [sp.S.Zero, sp.S.One] + [sp.S.Zero] * (n - 1)  # u as a series in t, by iterating u = t/shape(u)
    for _ in range(n):
        back = [sp.S.Zero, *_composed(inverse, back)[:n]]
    first = min(p for p in s if sp.simplify(s[p]) != 0)
    rest = [s.get(first + sp.Rational(k, d), sp.S.Zero) for k in range(n)]
    scale = _power([c / back[1] for c in back[1:]], d * first) if first != 0 else [sp.S.One] + [sp.S.Zero] * (n - 1)
    whole, terms = _product(_composed(rest, back)[:n], scale[:n]), []
    for k, c in enumerate(whole[:n]):
        power = d * first + k
        c = sp.simplify(c * back[1] ** (d * first) * b[lead] ** (-sp.Rational(power, m)))
        if c != 0:
            terms.append(Term(c, sp.Rational(power, m)))
    return Law(sigma_b2, sp.S.Zero, tuple(terms[:order]), "smaller")


def _product(a: list[sp.Expr], b: list[sp.Expr]) -> list[sp.Expr]:
    """The product of two series, as long as the shorter one."""
    n = min(len(a), len(b))
    return [sp.expand(sum(a[i] * b[k - i] for i in range(k + 1))) for k in range(n)]


def _power(a: list[sp.Expr], r: sp.Expr) -> list[sp.Expr]:
    """(1 + a_1 u + …)^r by the recurrence that its derivative gives."""
    out = [sp.S.One]
    for k in range(1, len(a)):
        out.append(sp.expand(sum((i * r - k + i) * a[i] * out[k - i] for i in range(1, k + 1)) / k))
    return out


def _composed(a: list[sp.Expr], inner: list[sp.Expr]) -> list[sp.Expr]:
    """Σ a_k inner^k."""
    total = [sp.S.Zero] * len(inner)
    for c in reversed(a):
        total = _product(total, inner)
        total[0] += c
    return total


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
