"""Derivatives of smooth functions, in a form that floats and balls evaluate without cancellation."""

from __future__ import annotations

import sympy as sp

from meanfield.functions.elementary import records
from meanfield.functions.elementary.record import ElementaryFunction

MOST_TERMS = 400  # of a numerator that is multiplied out to see what cancels


def derivative(expr: sp.Expr, x: sp.Symbol) -> sp.Expr:
    """d expr/dx of a smooth expression, tidied so that equal functions look equal.

    1 - tanh²(u) becomes sech²(u), so the slope of tanh is sech² and its square sech⁴ rather than (1 - tanh²)²; and
    1/√(1 + z²) - z²/√(1 + z²)³ becomes 1/√(1 + z²)³, which far out keeps the digits that the difference loses.

    >>> from meanfield.base.symbols import z
    >>> derivative(z/sp.sqrt(1 + z**2), z)
    (z**2 + 1)**(-3/2)
    """
    result = expr.diff(x)
    for record in records("square"):
        for part in (record.function, record.square):
            if result.has(part):  # just the sums that hold it, so that no polynomial expansion is forced on the rest
                result = result.replace(lambda e, p=part: e.is_Add and e.has(p), lambda e, h=record: _one_square(e, h))
    if any(e.base == -x for e in result.atoms(sp.Pow)):
        result = result.replace(lambda e: e.is_Mul, lambda e: _one_power(e, x))
    return without_cancellation(result, x)


def _one_power(e: sp.Expr, x: sp.Symbol) -> sp.Expr:
    """(-x)^p/x as -(-x)^{p-1}: SymPy puts powers of x together, but not those of -x with them."""
    if any(a.is_Mul for a in e.args):  # √-x·√-x/x, of which SymPy makes (-x)/x
        e = sp.Mul(*[b for a in e.args for b in sp.Mul.make_args(a)])
    mine = [a for a in sp.Mul.make_args(e) if a.is_Pow and a.base == -x and not a.exp.is_Integer]
    whole = [a for a in sp.Mul.make_args(e) if a == x or (a.is_Pow and a.base == x and a.exp.is_Integer)]
    if not mine or not whole:
        return e
    n = sum(a.as_base_exp()[1] for a in whole)
    others = [a for a in e.args if a not in mine and a not in whole]
    return sp.Integer(-1) ** n * (-x) ** (sp.Add(*[a.exp for a in mine]) + n) * sp.Mul(*others)


def _one_square(e: sp.Expr, record: ElementaryFunction) -> sp.Expr:
    """A sum with c - c·h² written as c·g², where 1 - h² = g²."""
    for u in {a.args[0] for a in e.atoms(record.function)}:
        square, other = record.function(u) ** 2, record.square(u) ** 2  # type: ignore[misc]
        terms = dict(zip(e.args, e.args))
        for term in e.args:
            partner = -term * square
            if partner in terms:
                e = e - term - partner + term * other
                return _one_square(e, record) if e.is_Add else e
    return e


def without_cancellation(e: sp.Expr, x: sp.Symbol) -> sp.Expr:
    """`e` with every sum over powers of one sum put over their common one, where terms of the numerators then cancel.

    A quotient's derivative is such a sum: u′/√(1 + u²) - u² u′/√(1 + u²)³ loses u² in relative accuracy far out, and
    what is left, u′/√(1 + u²)³, loses nothing. Sums in which nothing cancels stay as they are.
    """
    if not any(_is_divisor(p, x) for p in e.atoms(sp.Pow)):
        return e
    return e.replace(lambda s: s.is_Add and s.has(x), lambda s: _over_common_powers(s, x))


def _is_divisor(p: sp.Expr, x: sp.Symbol) -> bool:
    """Whether p is a power of a sum by whose powers numerators are worth dividing: a negative or fractional one."""
    return p.is_Pow and p.base.is_Add and p.base.has(x) and not (p.exp.is_Integer and p.exp.is_positive)


def _over_common_powers(total: sp.Expr, x: sp.Symbol) -> sp.Expr:
    """Terms of a sum whose powers of the same sums differ by whole numbers, over the lowest of them."""
    bases = sorted({p.base for t in total.args for p in sp.Mul.make_args(t) if _is_divisor(p, x)}, key=str)
    groups: dict[tuple[sp.Expr, ...], list[tuple[tuple[sp.Expr, ...], sp.Expr]]] = {}
    for t in total.args:
        powers, rest = dict.fromkeys(bases, sp.S.Zero), []
        for factor in sp.Mul.make_args(t):
            base, exponent = factor.as_base_exp()
            if base in powers:
                powers[base] += exponent
            else:
                rest.append(factor)
        exponents = tuple(powers.values())
        parts = tuple(n - sp.floor(n) if n.is_Rational else n - n.as_coeff_Add()[0] for n in exponents)
        groups.setdefault(parts, []).append((exponents, sp.Mul(*rest)))
    out, changed = [], False
    for group in groups.values():
        lowest = [min(column, key=lambda n: n.as_coeff_Add()[0]) for column in zip(*(n for n, _ in group))]
        tops = [
            rest * sp.Mul(*[b ** (n - low) for b, n, low in zip(bases, exponents, lowest)]) for exponents, rest in group
        ]
        top = _cancelled(tops, x) if len(group) > 1 else None
        if top is None:
            out += [rest * sp.Mul(*[b**n for b, n in zip(bases, exponents)]) for exponents, rest in group]
        else:
            out.append(top * sp.Mul(*[b**n for b, n in zip(bases, lowest)]))
            changed = True
    return sp.Add(*out) if changed else total


def _cancelled(tops: list[sp.Expr], x: sp.Symbol) -> sp.Expr | None:
    """The sum of numerators, multiplied out, where terms of it cancel altogether; else None.

    With functions in them a sum that is longer for it stays as it is: one term of many cancels without any loss.
    """
    terms = [a for t in tops for a in sp.Add.make_args(_multiplied(t))]
    if len(terms) > MOST_TERMS:
        return None
    totals: dict[sp.Expr, sp.Expr] = {}
    for a in terms:
        c, rest = a.as_coeff_Mul()
        totals[rest] = totals.get(rest, sp.S.Zero) + c
    if sp.S.Zero not in totals.values():
        return None
    held = any(a.is_Function and a.has(x) for t in tops for a in sp.preorder_traversal(t))
    if held and sum(c != 0 for c in totals.values()) > len(tops):
        return None
    return sp.factor_terms(sp.Add(*[c * rest for rest, c in totals.items()]))


def _multiplied(e: sp.Expr) -> sp.Expr:
    return sp.expand(e, power_exp=False, power_base=False, log=False)


def expanded(e: sp.Expr) -> sp.Expr:
    """`e` multiplied out, but for what it is divided by: (1 + z)^4 as 1 + 4z + 6z² + … would cancel near z = -1, and
    its four roots would no longer be seen to be one.

    >>> from meanfield.base.symbols import z
    >>> expanded((z + 2)*z/(1 + z)**2)
    z**2/(z + 1)**2 + 2*z/(z + 1)**2
    """
    below = {p for p in e.atoms(sp.Pow) if p.base.is_Add and p.exp.is_number and p.exp.is_negative}
    names = {p: sp.Dummy(f"d{i}", real=True) for i, p in enumerate(sorted(below, key=str))}
    return sp.expand(e.xreplace(names)).xreplace({v: p for p, v in names.items()})
