r"""Maps with terms K⟨h⟩_K, which a Gate makes: u φ(v) has the second moment U⟨φ²⟩_V.

d(K⟨h⟩)/dK = ⟨h + zh′/2⟩ and d⟨f⟩/dK = ½⟨f″⟩, so that the slope of such a map is one average, ⟨S⟩_K. By Descartes' rule
it has no more zeros than S has changes of sign, and the map no more than one more (Rolle); where S changes once, from -
to +, the map is smallest there. Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby

import sympy as sp

from meanfield.base.symbols import K, Z
from meanfield.functions.derivatives import derivative
from meanfield.functions.piecewise import at, pieces
from meanfield.functions.signs import Masses, segments
from meanfield.symbolic.averages.node import average, outermost
from meanfield.symbolic.fixed_points.certified_roots import enclose
from meanfield.symbolic.fixed_points.half_line import Zeros, zeros


@dataclass(frozen=True)
class ProductMap:
    """c0 + c1 K + Σ a⟨f⟩_K + K Σ b⟨h⟩_K: plain is [(a, f)], times is [(b, h)], which is not empty."""

    c0: sp.Expr
    c1: sp.Expr
    plain: tuple[tuple[sp.Expr, sp.Expr], ...]
    times: tuple[tuple[sp.Expr, sp.Expr], ...]

    def at_zero(self) -> sp.Expr:
        """The limit at K → 0."""
        total = self.c0
        for a, f in self.plain:
            left, right = pieces(f, Z[0]).around_zero()
            total += a * (at(right, Z[0], sp.S.Zero) + at(left, Z[0], sp.S.Zero)) / 2
        return sp.simplify(total)

    def per_K(self) -> tuple[sp.Expr, sp.Expr] | None:
        """(the whole over K, its integrand), where it is proportional to K."""
        if self.c0 != 0 or self.plain:
            return None
        over = self.c1 + sp.Add(*[b * average(h, K) for b, h in self.times])
        return over, self.c1 + sp.Add(*[b * h for b, h in self.times])

    def slope(self) -> tuple[sp.Expr, Masses] | None:
        """(S, masses) of the slope; None where a function jumps."""
        total, masses = self.c1, []
        for b, h in self.times:
            p = pieces(h, Z[0])
            if p.jumps():
                return None
            total += b * p.map(lambda e: e + Z[0] * derivative(e, Z[0]) / 2).expr
        for a, f in self.plain:
            p = pieces(f, Z[0])
            if p.jumps():
                return None
            total += a * p.diff().diff().expr / 2
            masses += [(b, a * jump / 2) for b, jump in p.diff().jumps()]
        return total, tuple(masses)


def products(e: sp.Expr) -> ProductMap | None:
    """The parts of e, all averages over K; None for another form, or one without a term K⟨h⟩."""
    names = {n: sp.Dummy(f"a{i}", real=True) for i, n in enumerate(sorted(outermost(e), key=str)) if n.has(K)}
    if any(n.cov != (K,) or n.mean != (sp.S.Zero,) or any(p.has(K) for p in n.args[3]) for n in names):
        return None
    flat = sp.expand(e.xreplace(names))
    if not flat.is_polynomial(K, *names.values()):
        return None
    c0 = c1 = sp.S.Zero
    plain: list[tuple[sp.Expr, sp.Expr]] = []
    times: list[tuple[sp.Expr, sp.Expr]] = []
    functions = {v: n.integrand for n, v in names.items()}
    for (power, *each), c in sp.Poly(flat, K, *functions).terms():
        held = [f for f, count in zip(functions.values(), each) for _ in range(count)]
        if power > 1 or len(held) > 1:
            return None
        if held:
            (times if power else plain).append((c, held[0]))
        elif power:
            c1 = c
        else:
            c0 = c
    return ProductMap(c0, c1, tuple(plain), tuple(times)) if times else None


def rises(e: sp.Expr) -> bool:
    """Whether the slope of e is proved to be ≥ 0 for every K."""
    found = products(e)
    slope = None if found is None else found.slope()
    known = None if slope is None else segments(*slope)
    return known is not None and all(s >= 0 for s, _, _ in known)


def product_zeros(e: sp.Expr, digits: int) -> Zeros | None:
    """All zeros at K > 0 of an e with terms K⟨h⟩_K; None for another form."""
    found = products(e)
    if found is None:
        return None
    per = found.per_K()
    if per is not None:
        return zeros(*per, digits=digits)
    searched, slope = zeros(e, None, digits=digits), found.slope()
    known = None if slope is None else segments(*slope)
    if known is None or searched.first is None or searched.last is None:
        return searched
    assert slope is not None
    turns = [k for k, _ in groupby(s for s, _, _ in known if s)]
    most, count = len(turns), len(searched.roots)  # one more than the changes of sign of S
    if count == 0 and turns == [-1, 1] and not slope[1]:
        low = zeros(found.c1 + _average(found), slope[0], digits=digits)
        if len(low.roots) == 1 and enclose(e, low.roots[0].lo, low.roots[0].hi, digits) > 0:
            most = 0
    simple = all(r.crosses for r in searched.roots)
    if not simple or most - count - (most - count) % 2 > 0 or (count % 2 == 0) != (searched.first == searched.last):
        return replace(searched, most=most)
    return replace(searched, most=most, outside=True, complete=True, reason="")


def _average(found: ProductMap) -> sp.Expr:
    """The slope without c1, as averages."""
    total = sp.S.Zero
    for b, h in found.times:
        total += b * average(pieces(h, Z[0]).map(lambda e: e + Z[0] * derivative(e, Z[0]) / 2).expr, K)
    for a, f in found.plain:
        total += a * average(pieces(f, Z[0]).diff().diff().expr, K) / 2
    return total


