"""The map of K as a sum of averages: its linear form, its limit at K = 0, whether it increases, and the variance of an
inner Dense that all its averages share."""

from __future__ import annotations

import itertools

import sympy as sp

from meanfield.base.symbols import K, Z
from meanfield.functions import balls
from meanfield.functions.piecewise import at, pieces
from meanfield.functions.signs import signs
from meanfield.symbolic.averages.node import Average, average, outermost
from meanfield.symbolic.recursion import closed


def linear_parts(gain: sp.Expr):
    """(c₀, c₁, [(a, f)]) with gain = c₀ + c₁K + Σ a⟨f⟩_K; None if it has another form."""
    gain = sp.expand(gain)
    nodes = sorted((n for n in gain.atoms(Average) if n.has(K)), key=str)
    rest, parts = gain, []
    for n in nodes:
        if n.cov != (K,) or n.mean != (sp.S.Zero,) or any(p.has(K) for p in n.args[3]):
            return None
        a = gain.coeff(n)
        parts.append((a, n.integrand))
        rest = sp.expand(rest - a * n)
    c1 = rest.coeff(K, 1)
    for m in range(2, sp.degree(rest, K) + 1 if rest.is_polynomial(K) and rest.has(K) else 0):
        c = rest.coeff(K, m)  # K^m is a moment of z, too
        if c != 0:
            parts.append((c / sp.factorial2(2 * m - 1), Z[0] ** (2 * m)))
            rest = sp.expand(rest - c * K**m)
    c0 = sp.expand(rest - c1 * K)
    if c0.has(K) or c1.has(K) or any(a.has(K) for a, _ in parts):
        return None
    return c0, c1, parts


def integrand(gain: sp.Expr) -> sp.Expr | None:
    """G with gain(K) = ⟨G⟩_K; None where gain is not of that form."""
    found = linear_parts(gain)
    if found is None:
        return None
    c0, c1, parts = found
    return c0 + c1 * Z[0] ** 2 + sp.Add(*[a * f for a, f in parts])


def at_zero_value(step: sp.Expr) -> sp.Expr | None:
    """The exact limit of the map at K → 0+ (None where the form is no polynomial in averages)."""
    nested = {n: value for n in outermost(step) if n.has(K) and (value := inner_at_zero(n)) is not None}
    if nested:
        return at_zero_value(sp.expand(step.xreplace(nested)))
    found = linear_parts(step)
    if found is None:
        return _of_products(step)
    c0, _, parts = found
    total = c0
    for a, f in parts:
        p = pieces(f, Z[0])
        left, right = p.around_zero()
        total += a * (at(right, Z[0], sp.S.Zero) + at(left, Z[0], sp.S.Zero)) / 2
    return sp.simplify(total)


def _of_products(step: sp.Expr) -> sp.Expr | None:
    """The same of a polynomial in averages and K: each of them has a limit of its own (⟨φ⟩² of a mean of nodes)."""
    nodes = [n for n in outermost(step) if n.has(K)]
    limits = {n: at_zero_value(n) for n in nodes if n != step}
    if not limits or None in limits.values():
        return None
    plain = {n: sp.Dummy() for n in limits}
    if not step.xreplace(plain).is_polynomial(K, *plain.values()):
        return None
    return sp.simplify(step.xreplace(limits).subs(K, 0))


def inner_at_zero(node: Average) -> sp.Expr | None:
    """The limit K → 0+ of an average whose variance is the moment of an inner Dense; None for others."""
    if node.dimension > 1 or node.cov == (K,) or any(p.has(K) for p in node.args[3]):
        return None
    variance = at_zero_value(sp.expand(node.cov[0]))
    if variance is None:
        return None
    over = average(node.integrand, K)
    return at_zero_value(over) if variance == 0 else over.subs(K, variance)


def moments_only(step: sp.Expr) -> bool:
    """Whether the map is c₀ + c₁K + Σ a⟨f⟩_K with nothing negative: then √K F(K) increases, and there are no cycles."""
    found = linear_parts(step)
    if found is None:
        return False
    c0, c1, parts = found
    if not all(c.is_number and c >= 0 for c in (c0, c1, *(a for a, _ in parts))):
        return False
    return all(average(f, K).is_nonnegative or -1 not in (signs(f) or (-1,)) for _, f in parts)


def shared_variance(gain: sp.Expr) -> tuple[sp.Expr, sp.Expr] | None:
    """(α, β) where every average is over one variance αK + β other than K, α > 0 and β ≥ 0 (behind a Dense of z)."""
    nodes = [n for n in outermost(gain) if n.has(K)]
    if not nodes or len({n.cov for n in nodes}) > 1 or nodes[0].dimension > 1 or nodes[0].cov == (K,):
        return None
    (v,) = nodes[0].cov
    v = sp.expand(v)
    alpha, beta = v.coeff(K, 1), v.coeff(K, 0)
    if sp.expand(v - alpha * K - beta) != 0 or not (alpha.is_number and beta.is_number and alpha > 0 and beta >= 0):
        return None
    return alpha, beta


def linear_map(step: sp.Expr) -> tuple[sp.Expr, sp.Expr] | None:
    """(c, r) where the map is K' = c + rK for every K; None where it is not.

    Averages of constants do not depend on K (LayerNorm); else ⟨G⟩_K is linear exactly where G(z) + G(-z) is a constant
    plus a multiple of z² (a Laplace transform determines its function), or the closed form shows it.
    """
    if not any(n.has(K) for n in step.atoms(Average)):
        r = sp.diff(step, K)
        return (sp.expand(step - r * K), r) if not r.has(K) else None
    g = integrand(step)
    if g is None:
        form = sp.expand(closed(step))
        if form.has(Average) or not form.is_polynomial(K) or sp.degree(form, K) > 1:
            return None
        return form.coeff(K, 0), form.coeff(K, 1)
    p = pieces(g, Z[0])
    folds = _folded(p)
    probes = [sp.sqrt(sp.Rational(n, 7)) * scale for scale in (1, 1000) for n in (3, 8, 20)]
    if any(_is_bent(folds, probes[i : i + 3]) for i in (0, 3)):
        return None  # cheap, and true of nearly every activation
    forms = [sp.expand(e) for e, _, _ in folds]
    if len(set(forms)) > 1 or not _is_square_law(forms[0]):
        form = sp.expand(sp.simplify(closed(step)))
        if form.has(Average) or not form.is_polynomial(K) or sp.degree(form, K) > 1:
            return None
        return form.coeff(K, 0), form.coeff(K, 1)
    return forms[0].coeff(Z[0], 0) / 2, forms[0].coeff(Z[0], 2) / 2


def _is_square_law(e: sp.Expr) -> bool:
    """Whether e = a + b z²."""
    return bool(e.is_polynomial(Z[0])) and all(m[0] in (0, 2) for m in sp.Poly(e, Z[0]).monoms())


def _folded(p) -> list[tuple[sp.Expr, sp.Expr, sp.Expr]]:
    """(G(z) + G(-z), lo, hi) between the breaks of |z|."""
    cuts = sorted({sp.Abs(b) for b in p.breaks} - {sp.S.Zero}, key=lambda b: sp.N(b, 30))
    out = []
    for lo, hi in itertools.pairwise([sp.S.Zero, *cuts, sp.oo]):
        middle = (lo + hi) / 2 if hi != sp.oo else lo + 1
        right = next(e for e, a, b in p.intervals() if a < middle and middle < b)
        left = next(e for e, a, b in p.intervals() if a < -middle and -middle < b)
        out.append((right + left.subs(Z[0], -Z[0]), lo, hi))
    return out


def _is_bent(folds, probes) -> bool:
    """Whether three points of G(z) + G(-z) over z² are certainly not on one line."""
    with balls.precision(200):
        values = []
        for point in probes:
            e = next((e for e, lo, hi in folds if lo < point and point < hi), None)
            if e is None:
                return False
            values.append((balls.constant(point**2), balls.constant(e.subs(Z[0], point))))
        (a, u), (b, v), (c, w) = values
        return not ((v - u) * (c - b) - (w - v) * (b - a)).contains(0)


def increases(step) -> bool:
    """Whether dF/dK ≥ 0 for every K: the closed form has this sign, or z G′(z) has no negative part."""
    g = integrand(step)
    if g is None:
        return _nested_increases(step)
    slope = closed(sp.diff(step, K))
    if not slope.has(Average) and slope.is_nonnegative:
        return True
    p = pieces(g, Z[0])
    masses = tuple((b, sp.Abs(b) * jump * sp.sign(b)) for b, jump in p.jumps())
    found = signs(p.diff().map(lambda e: Z[0] * e).expr, masses)
    return found is not None and -1 not in found


def _nested_increases(step: sp.Expr) -> bool:
    """The same for sums of averages with coefficients ≥ 0 whose variances increase."""
    nodes = {n: sp.Dummy(f"a{i}", real=True) for i, n in enumerate(outermost(step)) if n.has(K)}
    flat = sp.expand(step.xreplace(nodes))
    if not nodes or not all(flat.coeff(v, 1).is_nonnegative for v in (K, *nodes.values())):
        return False
    rest = sp.expand(flat - sp.Add(*[flat.coeff(v, 1) * v for v in (K, *nodes.values())]))
    inner = [(sp.expand(n.cov[0]), average(n.integrand, K)) for n in nodes]
    return not rest.free_symbols and all(increases(f) and (v == K or increases(v)) for v, f in inner)
