"""Denominators and logarithms of sums of exponentials, with the largest one taken out on either side of 0.

On a wide ball of complex z, e^{-z} may be anything of its size, so that 1/(2 + e^{-z}) is not known there though it is
tiny. As e^z/(2 e^z + 1) it is enclosed wherever Re z < 0: what is left in the sum tends to a constant.
"""

from __future__ import annotations

import sympy as sp

from meanfield.base.symbols import Z
from meanfield.functions.derivatives import expanded
from meanfield.functions.elementary import cached, records, where


@cached(1024)
def far_form(e: sp.Expr, side: int) -> sp.Expr:
    """`e` in the form that balls enclose far out at side·z > 0; e itself where nothing is gained.

    >>> far_form(1 / (2 + sp.exp(-Z[0])), -1).subs(Z[0], sp.Symbol("z"))
    exp(z)/(2*exp(z) + 1)
    """
    plain = e
    for p in sorted(e.atoms(sp.Pow, sp.log), key=str):
        if p.is_Pow and not (p.exp.is_number and p.exp.is_negative):
            continue
        found = _largest_out(p.args[0], side)
        if found is not None:
            slope, rest = found
            u = slope * Z[0]
            e = e.xreplace({p: u + sp.log(rest) if isinstance(p, sp.log) else sp.exp(p.exp * u) * rest**p.exp})
    # e^z/(2 + e^z) = e^z·e^{-z}/(…): what stands above it meets the exponential that was taken out
    return e if e == plain else expanded(_by_exponentials(e))


def _by_exponentials(e: sp.Expr) -> sp.Expr:
    for head in records("grows_exponentially"):
        e = e.replace(head.function, head.form[1]) if e.has(head.function) and head.function is not sp.exp else e
    return e


def _largest_out(h: sp.Expr, side: int) -> tuple[sp.Expr, sp.Expr] | None:
    """(a, g) with h = e^{a z} g, where the other exponentials of g fall at side·z → ∞; None where a is 0, or h is no
    such sum."""
    if not h.has(*where("grows_exponentially")):
        return None
    slopes = []
    for t in sp.Add.make_args(sp.expand(_by_exponentials(h))):
        slope = sp.S.Zero
        for f in sp.Mul.make_args(t):
            if isinstance(f, sp.exp) and f.has(Z[0]):
                inner = sp.expand(f.args[0])
                if not inner.is_polynomial(Z[0]) or sp.degree(inner, Z[0]) > 1:
                    return None
                slope += inner.coeff(Z[0])
            elif f.has(Z[0]) and f.has(sp.exp):
                return None
        if not slope.is_comparable:
            return None
        slopes.append((slope, t))
    largest = max((s for s, _ in slopes), key=lambda s: side * s)
    if largest == 0:
        return None
    return largest, sp.Add(*[sp.powsimp(t * sp.exp(-largest * Z[0])) for _, t in slopes])
