"""What a kink away from 0 leaves of an average as K → 0: smaller than every power of K, e^{-b²/2K} of the kink at b.
Source: derived here (Laplace's method on e^{-z²/2K})."""

from __future__ import annotations

import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Term
from meanfield.base.symbols import K, Z
from meanfield.functions import zeros
from meanfield.functions.piecewise import pieces
from meanfield.functions.series.taylor import taylor
from meanfield.symbolic.averages.node import Average


def exponential_at_zero(expr: sp.Expr) -> Term | None:
    """The leading exponentially small term c·K^a·exp(-b²/2K) of an expression linear in averages, as K → 0.

    A kink at b whose two sides differ by Δ(z) = Σ Δ_k (z - b)^k/k! contributes p_K(b) Σ_k Δ_k (K/|b|)^{k+1} to leading
    order. None where there is no kink away from 0.
    """
    found: dict[tuple[sp.Expr, sp.Expr], sp.Expr] = {}
    for coefficient, node in _linear(expr):
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
                    base, extra = (K, sp.S.Zero) if power == 1 else power.as_base_exp()
                    if base != K:
                        raise MeanFieldError(f"The coefficient {coefficient} is not a power of K.")
                    key = (b**2, sp.Rational(2 * k + 1, 2) + extra)
                    size = c * value * sp.factorial(k) / sp.Abs(b) ** (k + 1) / sp.sqrt(2 * sp.pi)
                    found[key] = sp.simplify(found.get(key, sp.S.Zero) + size)
    live = {key: v for key, v in found.items() if v != 0}
    if not live:
        return None
    b2, power = min(live, key=lambda k: (sp.N(k[0]), sp.N(k[1])))
    return Term(live[b2, power], power, sp.S.Zero, -b2 / 2, sp.S.NegativeOne)


def _linear(expr: sp.Expr) -> list[tuple[sp.Expr, Average]]:
    """[(coefficient, node)] of an expression linear in averages over K."""
    expr = sp.expand(expr)
    nodes = sorted((n for n in expr.atoms(Average) if n.has(K)), key=str)
    parts = [(expr.coeff(n), n) for n in nodes]
    remainder = sp.expand(expr - sp.Add(*[c * n for c, n in parts]))
    if remainder.has(sp.exp) or any(e.has(n) for n in nodes for e in (remainder, *[c for c, _ in parts])):
        raise MeanFieldError(f"{expr} is not linear in averages; its exponentially small terms are not known.")
    return parts
