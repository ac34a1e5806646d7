"""Expressions as NumPy functions of z, in forms that keep their digits where a head saturates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import sympy as sp
from sympy.printing.numpy import NumPyPrinter

from meanfield.base.symbols import Z
from meanfield.functions.elementary import numpy_texts, records
from meanfield.functions.elementary.record import ElementaryFunction, EndBehavior
from meanfield.functions.piecewise import pieces
from meanfield.functions.series.small_arguments import small_arguments


def _special():
    from scipy import special  # a quarter of a second; only integrands with erf and no closed form need it

    return special


def compiled(text: str) -> Callable:
    """A head's own text as a function of arrays."""
    return eval(f"lambda x: {text}", {"np": np, "special": _special})


def _functions() -> dict[str, Callable]:
    return {name: compiled(text) for name, text in numpy_texts().items()}


def on_arrays(
    arguments: Sequence[sp.Symbol], expr: sp.Expr, functions: Mapping[str, Callable] = {}, cse: bool = False
) -> Callable:
    """`expr` as a function of arrays; functions: what further names stand for.

    `sp.lambdify(…, "numpy")` is the same function, but takes `from numpy import *`: NumPy's test tools, its Fortran
    compiler and whatever else it loads on request only, four times what all the rest takes.
    """
    how = {"fully_qualified_modules": False, "inline": True, "allow_unknown_functions": True}
    printer = NumPyPrinter(how | {"user_functions": dict(zip(functions, functions))})
    return sp.lambdify(list(arguments), expr, modules=[functions, vars(np)], printer=printer, cse=cse)


@lru_cache(maxsize=512)
def numpy_function(expr: sp.Expr, others: tuple[sp.Symbol, ...] = ()):
    """A smooth expression in Z[0], and numbers for `others`, as a NumPy function, with the heads' stable forms and a
    polynomial where it loses its digits near 0."""
    near = None if others else small_arguments(expr)
    # NumPy has no roots of integers beyond 64 bits (constants of a LayerNorm come with 40 digits)
    long = [r for r in expr.atoms(sp.Rational) if max(abs(r.p), r.q) >= 2**53]
    expr = expr.xreplace({r: sp.Float(r, 20) for r in long})
    stable = _without_saturation(_over_one_denominator(expr))
    f = on_arrays((Z[0], *others), stable, _functions(), cse=True)
    if near is None:
        return lambda x, *more: np.broadcast_to(np.asarray(f(x, *more), dtype=float), x.shape)
    return lambda x: np.where(np.abs(x) < near.reach, near(x), f(x))


def _over_one_denominator(expr: sp.Expr) -> sp.Expr:
    """2z/(1 + z)² - 2z²/(1 + z)³ as 2z/(1 + z)³: quotients that cancel at large z lose their digits there."""
    if expr.is_polynomial(Z[0]) or not expr.is_rational_function(Z[0]) or expr.free_symbols != {Z[0]}:
        return expr
    return sp.factor(expr)


def _without_saturation(expr: sp.Expr) -> sp.Expr:
    """1 + erf(u) as erfc(-u), 1 + tanh(u) as 2σ(2u): what is left where a head saturates keeps its digits."""
    saturating = {h.function: ends for h in records("bends") if (ends := _levels(h))}

    def one(e: sp.Expr) -> sp.Expr:
        constant, rest = e.as_coeff_Add()
        for term in sp.Add.make_args(rest) if constant != 0 else ():
            c, head = term.as_independent(Z[0], as_Add=False)
            for level, small in saturating.get(type(head), ()):
                if constant == -c * level:  # c·h - c·level
                    return sp.Add(*[t for t in sp.Add.make_args(rest) if t != term]) - c * small(head.args[0])
        return e

    return expr.replace(lambda e: e.is_Add and e.has(*saturating), one)


def _levels(head: ElementaryFunction) -> list[tuple[sp.Expr, Callable]]:
    """(limit, u → limit - h(u)) at both ends, where a form without cancellation is known."""
    found = ((e.limit(Z[0]), e.small) for e in head.ends if isinstance(e, EndBehavior))
    return [(limit, small) for limit, small in found if small is not None and not limit.has(Z[0])]


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
