"""Functions of several Gaussian coordinates that switch between them: smooth pieces over cuts by planes.

max(z_a, z_b) is z_a where z_a - z_b > 0 and z_b where z_b - z_a > 0. A function whose switches compare such linear
forms, or polynomials that factor into them, is a sum of smooth functions, each times the indicator of some walls
ℓ_k > 0. Values on the walls themselves have measure zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import sympy as sp
from sympy.core.relational import Relational

from meanfield.base.answers.results import MeanFieldError, Undetermined
from meanfield.base.budgets import tick
from meanfield.functions import zeros
from meanfield.functions.piecewise import SWITCHES, pieces

Wall = tuple[tuple[sp.Expr, ...], sp.Expr]  # coefficients a, one a variable, and b: where Σ a_i z_i + b > 0
Region = tuple[sp.Expr, tuple[Wall, ...]]  # a smooth function and where it holds
Case = tuple[int, sp.Expr, tuple[Wall, ...]]  # sign, piece, where it holds
Variables = tuple[sp.Symbol, ...]
MOST = 6  # comparisons in the conditions of one Piecewise


def mixed(expr: sp.Expr, variables: Sequence[sp.Symbol]) -> bool:
    """Whether some switch of `expr` depends on more than one of the variables."""
    if len(variables) < 2 or not expr.has(*SWITCHES):
        return False
    switches = (e for e in sp.preorder_traversal(expr) if isinstance(e, SWITCHES))
    return any(sum(e.has(v) for v in variables) > 1 for e in switches)


def regions(expr: sp.Expr, variables: Sequence[sp.Symbol]) -> list[Region]:
    """`expr` as Σ smooth × Π 1[ℓ > 0].

    Raises: MeanFieldError where a switch compares anything but linear forms, or what it compares is not decided.
    """
    return list(_resolved(expr, (), tuple(variables)))


def _resolved(expr: sp.Expr, walls: tuple[Wall, ...], variables: Variables) -> Iterator[Region]:
    tick()
    inner = (e for e in sp.postorder_traversal(expr) if isinstance(e, SWITCHES) and e.has(*variables))
    node = next(inner, None)
    if node is None:
        if expr != 0:
            yield expr, walls
        return
    used = [v for v in variables if node.has(v)]
    found = _of_one(node, used[0], variables) if len(used) == 1 else _of_several(node, variables)
    for factor, piece, more in found:
        inside: tuple[Wall, ...] | None = walls
        for wall in more:
            inside = None if inside is None else _cut(inside, wall)
        if inside is not None:
            yield from _resolved(factor * expr.xreplace({node: piece}), inside, variables)


def _of_one(node: sp.Expr, x: sp.Symbol, variables: Variables) -> Iterator[Case]:
    """(sign, piece, walls) of a switch in one variable; [a, b] is 1[z > a] - 1[z > b], which needs fewer walls."""

    def wall(side: int, offset: sp.Expr) -> Wall:
        return tuple(sp.Integer(side) if v == x else sp.S.Zero for v in variables), offset

    for piece, lo, hi in pieces(node, x).intervals():
        if lo == -sp.oo:
            yield 1, piece, () if hi == sp.oo else (wall(-1, hi),)
            continue
        yield 1, piece, (wall(1, -lo),)
        if hi != sp.oo:
            yield -1, piece, (wall(1, -hi),)


def _of_several(node: sp.Expr, variables: Variables) -> Iterator[Case]:
    """(1, piece, walls) of a switch that compares several variables."""
    if isinstance(node, sp.Piecewise):
        yield from _of_conditions(node, variables)
        return
    if isinstance(node, (sp.Max, sp.Min)):
        side = 1 if isinstance(node, sp.Max) else -1
        for best in node.args:
            others = [_sides(side * (best - other), variables) for other in node.args if other != best]
            for choice in itertools.product(*others):
                yield 1, best, tuple(w for walls in choice for w in walls)
        return
    u = node.args[0]
    for way in (1, -1):
        value = way * u if isinstance(node, sp.Abs) else sp.Integer(way) if isinstance(node, sp.sign) else None
        value = sp.Integer(max(way, 0)) if value is None else value
        for walls in _sides(way * u, variables):
            yield 1, value, walls


def _of_conditions(node: sp.Piecewise, variables: Variables) -> Iterator[Case]:
    tests = list(dict.fromkeys(r for _, where in node.args for r in sp.sympify(where).atoms(Relational)))
    if len(tests) > MOST or any(sp.sympify(where).has(sp.ITE) for _, where in node.args):
        raise MeanFieldError(f"A Piecewise of more than {MOST} comparisons between variables is not taken apart.")
    for ways in itertools.product((1, -1), repeat=len(tests)):
        true = {}
        for test, way in zip(tests, ways):  # lhs - rhs > 0 for 1; equality has measure zero
            kind = {sp.Lt: way < 0, sp.Le: way < 0, sp.Gt: way > 0, sp.Ge: way > 0, sp.Eq: False, sp.Ne: True}
            true[test] = sp.true if kind[test.func] else sp.false
        value = next((e for e, where in node.args if sp.sympify(where).xreplace(true) == sp.true), None)
        if value is None:
            raise MeanFieldError(f"{node} is not defined everywhere; give it a value in every case.")
        sides = [_sides(way * (test.lhs - test.rhs), variables) for test, way in zip(tests, ways)]
        for choice in itertools.product(*sides):
            yield 1, value, tuple(w for walls in choice for w in walls)


def _sides(form: sp.Expr, variables: Variables) -> list[tuple[Wall, ...]]:
    """The sets of walls whose union is {form > 0}: one for a linear form, several for a product of such."""
    if not form.has(*variables):
        way = zeros.sign(form)
        if way is None:
            raise Undetermined(f"Whether {form} is positive decides between two branches and is not known.")
        return [()] if way > 0 else []
    if not form.is_polynomial(*variables):
        raise MeanFieldError(f"A switch where {form} changes sign is no plane in the variables it compares.")
    constant, factors = sp.factor_list(form, *variables)
    odd = [sp.Poly(f, *variables) for f, power in factors if power % 2]
    way = zeros.sign(constant)
    if way is None or any(f.total_degree() > 1 for f in odd):
        raise MeanFieldError(f"A switch where {form} changes sign is no plane in the variables it compares.")
    walls = [(tuple(f.coeff_monomial(v) for v in variables), f.nth(*[0] * len(variables))) for f in odd]
    out = []
    for signs in itertools.product((1, -1), repeat=len(walls)):
        if sp.prod(signs) == way:
            out.append(tuple((tuple(s * a for a in c), s * b) for s, (c, b) in zip(signs, walls)))
    return out


def _cut(walls: tuple[Wall, ...], new: Wall) -> tuple[Wall, ...] | None:
    """The walls with one more, without what the others imply; None where nothing is left between them."""
    if _implied(walls, new):
        return walls
    if _implied(walls, (tuple(-a for a in new[0]), -new[1])):
        return None
    kept = list(walls)
    for one in walls:
        if _implied((*(w for w in kept if w != one), new), one):
            kept.remove(one)
    return (*kept, new)


def _implied(walls: tuple[Wall, ...], new: Wall) -> bool:
    """Whether one wall, or two in positive shares, make another hold (False where that is not decided)."""
    coefficients, offset = new
    if any(not c.is_number for w in (*walls, new) for c in w[0]):
        return new in walls
    for size in (1, 2):
        for some in itertools.combinations(walls, size):
            shares = _shares([w[0] for w in some], coefficients)
            if shares is None or any(zeros.sign(s) == -1 for s in shares):
                continue
            left = sp.expand(offset - sum(s * w[1] for s, w in zip(shares, some)))
            if left.is_nonnegative or (left.is_number and zeros.sign(left) in (0, 1)):
                return True
    return False


def _shares(rows: list[tuple[sp.Expr, ...]], target: tuple[sp.Expr, ...]) -> list[sp.Expr] | None:
    """The numbers s with Σ s_k rows[k] = target; None where there are none, or not one set alone."""
    matrix, right = sp.Matrix(rows).T, sp.Matrix(target)
    if matrix.rank() < len(rows):
        return None
    found = (matrix.T * matrix).LUsolve(matrix.T * right)
    return list(found) if all(sp.simplify(d) == 0 for d in matrix * found - right) else None
