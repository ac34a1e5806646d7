"""Piecewise-smooth normal form of functions of one Gaussian coordinate.

SymPy's own calculus loses jumps (`diff` of Piecewise) or invents products of deltas, so every expression with Abs, Max,
Min, sign, Heaviside or Piecewise becomes `Pieces`: increasing breaks and one smooth expression per interval. Values at
the breaks themselves have measure zero and carry no meaning.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from meanfield.limits import tick
from meanfield.results import MeanFieldError
from meanfield.symbols import simplified

SWITCHES = (sp.Abs, sp.Max, sp.Min, sp.sign, sp.Heaviside, sp.Piecewise)


@dataclass(frozen=True)
class Pieces:
    """f(z) = exprs[i] between breaks[i-1] and breaks[i]; breaks increase, len(exprs) = len(breaks) + 1."""

    variable: sp.Symbol
    breaks: tuple[sp.Expr, ...]
    exprs: tuple[sp.Expr, ...]

    @property
    def expr(self) -> sp.Expr:
        """The function as one SymPy expression (a Piecewise where there are breaks)."""
        if not self.breaks:
            return self.exprs[0]
        return sp.Piecewise(
            *[(e, self.variable < b) for e, b in zip(self.exprs, self.breaks)], (self.exprs[-1], True), evaluate=False
        )

    def map(self, function) -> Pieces:
        """`function` applied to every smooth piece, equal neighbours merged."""
        return _merge(self.variable, self.breaks, tuple(function(e) for e in self.exprs))

    def diff(self) -> Pieces:
        """The classical derivative, piece by piece; what happens at the breaks is told by `jumps`."""
        return self.map(lambda e: derivative(e, self.variable))

    def jumps(self) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
        """(b, f(b+) - f(b-)) at each break where the function jumps."""
        found = []
        for b, left, right in zip(self.breaks, self.exprs, self.exprs[1:]):
            jump = simplified(at(right, self.variable, b) - at(left, self.variable, b))
            if jump != 0:
                found.append((b, jump))
        return tuple(found)

    def intervals(self):
        """(expression, lower end, upper end) from left to right."""
        ends = (-sp.oo, *self.breaks, sp.oo)
        return tuple(zip(self.exprs, ends, ends[1:]))


def at(expr: sp.Expr, x: sp.Symbol, value: sp.Expr) -> sp.Expr:
    """The value of a smooth piece at `value`, by continuity where plain substitution is undefined."""
    result = expr.subs(x, value)
    return sp.limit(expr, x, value) if result.has(sp.nan, sp.zoo) else result


def _merge(x, breaks, exprs) -> Pieces:
    kept, new = [], [exprs[0]]
    for b, e in zip(breaks, exprs[1:]):
        if e == new[-1] or (e.is_polynomial(x) and new[-1].is_polynomial(x) and sp.expand(e - new[-1]) == 0):
            continue
        kept.append(b)
        new.append(e)
    return Pieces(x, tuple(kept), tuple(new))


@lru_cache(maxsize=4096)
def pieces(expr: sp.Expr, x: sp.Symbol) -> Pieces:
    """The normal form of `expr` in the real symbol `x`.

    Raises: MeanFieldError when a switching point cannot be found exactly.
    """
    if not expr.has(*SWITCHES):
        return Pieces(x, (), (expr,))
    parts = _resolve(expr, x, -sp.oo, sp.oo)
    return _merge(x, tuple(lo for _, lo, _ in parts[1:]), tuple(e for e, _, _ in parts))


def _resolve(expr, x, lo, hi):
    tick()
    node = next((e for e in sp.postorder_traversal(expr) if isinstance(e, SWITCHES) and e.has(x)), None)
    if node is None:
        return [(expr, lo, hi)]
    inside = [r for r in _switch_points(node, x) if _less(lo, r) and _less(r, hi)]
    ends = [lo, *inside, hi]
    out = []
    for a, b in itertools.pairwise(ends):
        chosen = expr.xreplace({node: _choose(node, x, _sample(a, b))})
        out += _resolve(chosen, x, a, b)
    return out


def _less(a, b) -> bool:
    return bool(sp.N(b - a, 30) > 0) if a not in (-sp.oo, sp.oo) and b not in (-sp.oo, sp.oo) else bool(a < b)


def _sample(lo, hi):
    if lo == -sp.oo:
        return sp.S.Zero if hi == sp.oo else sp.floor(hi) - 1
    return sp.floor(lo) + 2 if hi == sp.oo else (lo + hi) / 2


def _switch_points(node, x):
    if isinstance(node, sp.Piecewise):
        differences = [
            c.lhs - c.rhs for _, cond in node.args for c in sp.sympify(cond).atoms(sp.core.relational.Relational)
        ]
    elif isinstance(node, (sp.Max, sp.Min)):
        differences = [a - b for i, a in enumerate(node.args) for b in node.args[i + 1 :]]
    else:
        differences = [node.args[0]]
    roots = {sp.nsimplify(r) if r.is_Float else r for d in differences for r in real_roots(d, x)}
    return sorted(roots, key=lambda r: sp.N(r, 30))


def real_roots(expr: sp.Expr, x: sp.Symbol) -> list[sp.Expr]:
    """All real zeros of a smooth expression, exact; complex functions without a solvable zero set are refused."""
    expr = sp.expand(expr)
    if not expr.has(x):
        return []
    if expr.is_polynomial(x):
        poly = sp.Poly(expr, x)
        if poly.degree() == 1:
            return [sp.cancel(-poly.nth(0) / poly.nth(1))]
        if poly.domain.is_Exact and not poly.free_symbols_in_domain:
            return list(dict.fromkeys(sp.real_roots(poly)))
        if all(m[0] > 0 for m in poly.monoms()) and len(poly.monoms()) == 1:
            return [sp.S.Zero]
    try:
        solved = sp.solveset(expr, x, sp.S.Reals)
    except (ValueError, TypeError, NotImplementedError):  # an inverse function outside its range, a complex comparison
        solved = None
    if isinstance(solved, sp.FiniteSet):
        return [r for r in solved if r.is_real]
    if solved is sp.S.EmptySet:
        return []
    raise MeanFieldError(
        f"The points where {expr} changes sign were asked for and could not be found exactly; "
        "write the activation with Piecewise and explicit breaks."
    )


def _choose(node, x, sample):
    def value(e):
        return e.subs(x, sample)

    if isinstance(node, sp.Piecewise):
        for e, cond in node.args:
            if cond == True or value(sp.sympify(cond)) == True:  # noqa: E712 - SymPy relationals
                return e
        raise MeanFieldError(f"{node} is not defined at z = {sample}; give it a value everywhere.")
    if isinstance(node, (sp.Max, sp.Min)):
        best = node.args[0]
        for e in node.args[1:]:
            difference = value(e - best)
            if difference.is_positive is None and difference.is_nonpositive is None:
                difference = sp.N(difference, 30)
                if not difference.is_number:
                    raise MeanFieldError(
                        f"Which branch of {node} holds depends on a symbol; declare the sign or use Piecewise."
                    )
            if bool(difference > 0) == isinstance(node, sp.Max):
                best = e
        return best
    u = node.args[0]
    sign = value(u)
    positive = sign.is_positive if sign.is_positive is not None else bool(sp.N(sign, 30) > 0)
    if isinstance(node, sp.Abs):
        return u if positive else -u
    if isinstance(node, sp.sign):
        return sp.S.One if positive else sp.S.NegativeOne
    return sp.S.One if positive else sp.S.Zero


def derivative(expr: sp.Expr, x: sp.Symbol) -> sp.Expr:
    """d expr/dx of a smooth expression, tidied so that equal functions look equal.

    Even powers of tanh(u) become 1 - sech²(u), so the slope of tanh is sech² and its square sech⁴ rather than (1 -
    tanh²)².
    """
    result = expr.diff(x)
    if result.has(sp.tanh):
        # d tanh(u) = 1 - tanh²(u): rewrite just that, so that no polynomial expansion is forced on the rest
        result = result.replace(lambda e: e.is_Add and e.has(sp.tanh), _reduce_tanh)
    if result.has(sp.sech):
        result = result.replace(lambda e: e.is_Add and e.has(sp.sech), _reduce_tanh)
    return result


def _reduce_tanh(e: sp.Expr) -> sp.Expr:
    for u in {a.args[0] for a in e.atoms(sp.tanh)}:
        one_minus, tanh2 = sp.sech(u) ** 2, sp.tanh(u) ** 2
        terms = dict(zip(e.args, e.args))
        for term in e.args:
            # c - c·tanh²  →  c·sech²
            partner = -term * tanh2
            if partner in terms:
                e = e - term - partner + term * one_minus
                return _reduce_tanh(e) if e.is_Add else e
    return e
