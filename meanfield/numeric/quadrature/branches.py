"""Branch points: where a smooth piece ends in |z - b|^p with p not a whole number, or in a whole negative one.

Panels that halve towards b do not reach what lies there: the panel that touches b is integrated in u, |z - b| = h u^m,
with m so large that the integrand is a power series in u or vanishes at u = 0 to high order. There the integrand is
evaluated in t = z - b itself, since b + t has lost the digits of t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import mpmath as mp
import numpy as np
import sympy as sp

from meanfield.base.answers.results import InfiniteAverage
from meanfield.base.precision import decimals
from meanfield.base.symbols import Z
from meanfield.functions.elementary import mpmath_functions
from meanfield.functions.piecewise import pieces
from meanfield.numeric.quadrature.rules import gauss_legendre

_ORDER = 6.0  # m (1 + p) is at least this; much more would ask for more nodes than there are
NEAR = 1 / 64  # the touching panel is this part of the ordinary first panel


@dataclass(frozen=True)
class BranchPoint:
    """A branch point `at`, the power `m` of the substitution, and the pieces left and right of it in t = z - at."""

    at: float
    m: int
    left: sp.Expr
    right: sp.Expr
    power: float


@lru_cache(maxsize=512)
def branches(expr: sp.Expr) -> tuple[BranchPoint, ...]:
    """The branch points of `expr` in Z[0].

    Raises: InfiniteAverage where a piece is not integrable at its end.
    """
    parts = pieces(expr, Z[0])
    found = []
    for b, left, right in zip(parts.breaks, parts.exprs, parts.exprs[1:]):
        near = [_local(e, b) for e in (left, right)]
        exponents = [x for e in near for x in _exponents(e)]
        if not exponents:
            continue
        p = min(_leading(near[0], -1), _leading(near[1], 1))
        if p <= -1:
            raise InfiniteAverage(f"⟨{expr}⟩ is infinite: at z = {b} the integrand grows as |z - {b}|^({p:.3g}).")
        q = math.lcm(*[int(x.q) if x.is_Rational else 1 for x in exponents])
        found.append(BranchPoint(float(b), substitution(p, q), near[0], near[1], p))
    return tuple(found)


def substitution(p: float, q: int = 1) -> int:
    """m for |z - b|^p with a p of denominator q: a multiple of q where that is small, as then nothing is left to
    approximate."""
    m = math.ceil(_ORDER / (1 + min(p, 0.0)))
    return q * math.ceil(m / q) if q <= 2 else m


def _local(expr: sp.Expr, b: sp.Expr) -> sp.Expr:
    """The piece in t = z - b (written Z[0]), bases of powers expanded so that b cancels in symbols."""
    if b == 0:
        return expr
    moved = expr.xreplace({Z[0]: Z[0] + b})
    return moved.replace(lambda e: e.is_Pow and e.base.has(Z[0]), lambda e: sp.expand(e.base) ** e.exp)


def _exponents(expr: sp.Expr) -> list[sp.Expr]:
    """Exponents of the powers whose base vanishes at t = 0 and that are no natural numbers."""
    powers = [e for e in expr.atoms(sp.Pow) if e.base.has(Z[0]) and not (e.exp.is_Integer and e.exp > 0)]
    out = [e.exp for e in powers if e.exp.is_number and e.base.subs(Z[0], 0) == 0]
    return out if any(not x.is_Integer for x in out) else []


def _leading(expr: sp.Expr, side: int) -> float:
    """The power of |t| the piece starts with."""
    if not expr.has(Z[0]):
        return 0.0
    f = sp.lambdify(Z[0], expr, [dict(mpmath_functions()), "mpmath"])
    with decimals(80):
        a, b = (abs(f(side * mp.mpf(10) ** -e)) for e in (30, 31))
        if a == 0 or b == 0:
            return 0.0
        return round(float(mp.log(a / b) / mp.log(10)), 6)


def panel(h: float, m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes t in (0, h) and weights of the substitution t = h u^m."""
    x, w = gauss_legendre(n)
    u = (1 + x) / 2
    return h * u**m, h * m * u ** (m - 1) * w / 2
