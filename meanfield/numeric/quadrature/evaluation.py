"""Expressions as NumPy functions of z, in forms that keep their digits where a head saturates."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

from meanfield.functions.piecewise import pieces
from meanfield.symbols import Z, sigmoid

_NUMPY = {
    "sigmoid": lambda x: np.exp(-np.logaddexp(0.0, -x)),
    "softplus": lambda x: np.logaddexp(0.0, x),
    "sech": lambda x: 2 * np.exp(-np.abs(x)) / (1 + np.exp(-2 * np.abs(x))),
}


def _scipy_special():
    from scipy import special  # a quarter of a second; only integrands with erf and no closed form need it

    return {"erf": special.erf, "erfc": special.erfc, "rest_of_erf": special.erfc}


@lru_cache(maxsize=512)
def numpy_function(expr: sp.Expr, others: tuple[sp.Symbol, ...] = ()):
    """A smooth expression in Z[0], and numbers for `others`, as a NumPy function, with stable forms of sigmoid,
    softplus and sech."""
    modules = [_NUMPY, _scipy_special(), "numpy"] if expr.has(sp.erf, sp.erfc) else [_NUMPY, "numpy"]
    # NumPy has no roots of integers beyond 64 bits (constants of a LayerNorm come with 40 digits)
    long = [r for r in expr.atoms(sp.Rational) if max(abs(r.p), r.q) >= 2**53]
    expr = expr.xreplace({r: sp.Float(r, 20) for r in long})
    f = sp.lambdify((Z[0], *others), _without_saturation(_over_one_denominator(expr)), modules=modules, cse=True)
    return lambda x, *more: np.broadcast_to(np.asarray(f(x, *more), dtype=float), x.shape)


def _over_one_denominator(expr: sp.Expr) -> sp.Expr:
    """2z/(1 + z)² - 2z²/(1 + z)³ as 2z/(1 + z)³: quotients that cancel at large z lose their digits there."""
    if expr.is_polynomial(Z[0]) or not expr.is_rational_function(Z[0]) or expr.free_symbols != {Z[0]}:
        return expr
    return sp.factor(expr)


def _without_saturation(expr: sp.Expr) -> sp.Expr:
    """1 + erf(u) as erfc(-u), and 1 + tanh(u) as 2σ(2u): what is left where they saturate keeps its digits."""
    rest_of_erf = sp.Function("rest_of_erf")  # erfc, of which SymPy would make 2 - erfc(-u)
    swap = {sp.erf: rest_of_erf, sp.tanh: lambda u: 2 * sigmoid(-2 * u)}  # 1 - h(u)

    def one(e: sp.Expr) -> sp.Expr:
        constant, rest = e.as_coeff_Add()
        for term in sp.Add.make_args(rest):
            c, head = term.as_independent(Z[0], as_Add=False)
            if constant != 0 and type(head) in swap and constant in (c, -c):
                small = swap[type(head)](head.args[0] if constant == -c else -head.args[0])
                return sp.Add(*[t for t in sp.Add.make_args(rest) if t != term]) + constant * small
        return e

    return expr.replace(lambda e: e.is_Add and e.has(sp.erf, sp.tanh), one)


def evaluate(expr: sp.Expr, x: np.ndarray) -> np.ndarray:
    """A piecewise-smooth expression on an array (values at the breaks are those of the right piece)."""
    p = pieces(expr, Z[0])
    if not p.breaks:
        return numpy_function(expr)(x)
    out = np.empty_like(x)
    which = np.searchsorted(np.array([float(b) for b in p.breaks]), x, side="right")
    for k, e in enumerate(p.exprs):
        mask = which == k
        if mask.any():
            out[mask] = numpy_function(e)(x[mask])
    return out
