"""Piecewise-smooth normal form of functions of one Gaussian coordinate.

SymPy's own calculus loses jumps (`diff` of Piecewise) or invents products of deltas, so every expression with Abs, Max,
Min, sign, Heaviside or Piecewise becomes `Pieces`: increasing breaks and one smooth expression per interval. Values at
the breaks themselves have measure zero and carry no meaning.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp
from sympy.core.relational import Relational

from meanfield.base.answers.results import MeanFieldError, Undetermined
from meanfield.base.arguments import shown
from meanfield.base.budgets import tick
from meanfield.base.symbols import simplified
from meanfield.functions import zeros
from meanfield.functions.derivatives import derivative
from meanfield.functions.elementary import vast, written
from meanfield.functions.growth import tail
from meanfield.functions.isolation import Root

Part = tuple[sp.Expr, sp.Expr, sp.Expr]  # an expression, the lower end and the upper end of where it holds
SamplePoint = tuple[sp.Expr, sp.Expr, sp.Expr]  # a sample point, the lower end and the upper end of its interval
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

    def map(self, function: Callable[[sp.Expr], sp.Expr]) -> Pieces:
        """`function` applied to every smooth piece, equal neighbours merged."""
        return _merge(self.variable, self.breaks, tuple(function(e) for e in self.exprs))

    def diff(self) -> Pieces:
        """The classical derivative, piece by piece; what happens at the breaks is told by `jumps`."""
        return self.map(lambda e: derivative(e, self.variable))

    def jumps(self) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
        """(b, f(b+) - f(b-)) at each break where the function jumps."""
        found = []
        for b, left, right in zip(self.breaks, self.exprs, self.exprs[1:]):
            step = jump(left, right, self.variable, b)
            if step != 0:
                found.append((b, step))
        return tuple(found)

    def around_zero(self) -> tuple[sp.Expr, sp.Expr]:
        """The expressions to the left and to the right of 0.

        Raises: MeanFieldError where a symbolic break may lie on either side of 0.
        """
        places = [zeros.compare(b, sp.S.Zero) for b in self.breaks]
        return self.exprs[sum(p < 0 for p in places)], self.exprs[sum(p <= 0 for p in places)]

    def intervals(self) -> tuple[Part, ...]:
        """(expression, lower end, upper end) from left to right."""
        ends = (-sp.oo, *self.breaks, sp.oo)
        return tuple(zip(self.exprs, ends, ends[1:]))


def half_line(lo: sp.Expr, hi: sp.Expr) -> int:
    """1 where [lo, hi] lies in z ≥ 0, -1 where it lies in z ≤ 0, 0 where it holds both sides or that is not known."""
    if lo != -sp.oo and zeros.sign(lo) in (0, 1):
        return 1
    return -1 if hi != sp.oo and zeros.sign(hi) in (0, -1) else 0


def at(expr: sp.Expr, x: sp.Symbol, value: sp.Expr) -> sp.Expr:
    """The value of a smooth piece at `value`, by continuity where plain substitution is undefined."""
    result = expr.subs(x, value)
    if result.has(sp.nan, sp.zoo, sp.AccumBounds):
        result = sp.limit(expr, x, value)
    if result.has(sp.AccumBounds):
        raise MeanFieldError(f"{expr} has no limit at z = {value}: it oscillates there.")
    return result


def jump(left: sp.Expr, right: sp.Expr, x: sp.Symbol, b: sp.Expr) -> sp.Expr:
    """right - left at x = b: 0 only where that is proved.

    Raises: MeanFieldError where it is too small to be told from 0.
    """
    step = at(right, x, b) - at(left, x, b)
    if not step.is_number:
        return _symbolic_jump(step, b)
    way = zeros.sign(step)
    if way is None:
        raise MeanFieldError(
            f"Whether φ jumps at z = {b} is not decided: its two sides could not be told apart or proved equal."
        )
    if way == 0:
        return sp.S.Zero
    return step if step.has(Root) else simplified(step)


def _symbolic_jump(step: sp.Expr, b: sp.Expr) -> sp.Expr:
    """A step that holds symbols: 0 where that is proved, itself where it is not 0 at sample values of them."""
    explicit = written(step)
    if sp.expand(explicit) == 0:
        return sp.S.Zero
    simple = simplified(explicit)
    if simple == 0:
        return sp.S.Zero
    free = sorted(simple.free_symbols, key=str)
    for k in range(4):
        ways = [1 if s.is_positive else (-1) ** k for s in free]
        sample = {s: w * sp.Rational(7 + 3 * i + 5 * k, 11 + 4 * k) for i, (s, w) in enumerate(zip(free, ways))}
        value = sp.N(simple.subs(sample), 30)
        if value.is_real and abs(value) > sp.Float("1e-20"):
            return simplified(step) if explicit != step else simple
    raise MeanFieldError(
        f"Whether φ jumps at z = {b} is not decided: its two sides could not be told apart or proved equal."
    )


def _same(a: sp.Expr, b: sp.Expr) -> bool:
    """Whether two pieces are equal, seen by expanding them: (2 - e^z)² and (e^z - 2)² are one function."""
    if a == b:
        return True
    longest = max((p.exp for e in (a, b) for p in e.atoms(sp.Pow) if p.base.is_Add and p.exp.is_Integer), default=0)
    return longest <= LONGEST and sp.expand(a - b) == 0


LONGEST = 8  # the highest power of a sum that is multiplied out to see whether two pieces are equal


def _on_both_sides(e: sp.Expr, x: sp.Symbol) -> sp.Expr | None:
    """A formula of two equal pieces that is real on both, as z³ is ((-z)^{3/2})² and (z^{3/2})²; None where one holds a
    root that may be real on its own side alone."""
    for form in (e, sp.expand(e)):
        powers = [p for p in form.atoms(sp.Pow) if p.base.has(x) and p.exp.is_number and not p.exp.is_Integer]
        if all(p.base.is_nonnegative for p in powers):
            return form
    return None


def _merge(x: sp.Symbol, breaks: tuple[sp.Expr, ...], exprs: tuple[sp.Expr, ...]) -> Pieces:
    kept, new = [], [exprs[0]]
    for b, e in zip(breaks, exprs[1:]):
        joined = new[-1] if e == new[-1] else _on_both_sides(new[-1], x) if _same(e, new[-1]) else None
        if joined is not None:
            new[-1] = joined
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


def _resolve(expr: sp.Expr, x: sp.Symbol, lo: sp.Expr, hi: sp.Expr) -> list[Part]:
    tick()
    node = next((e for e in sp.postorder_traversal(expr) if isinstance(e, SWITCHES) and e.has(x)), None)
    if node is None:
        return [(expr, lo, hi)]
    # a comparison with a Piecewise inside is folded into ITE(test, …): its tests come first, so that the zeros of a
    # branch are looked for where that branch holds
    choice = next((c for c in sp.preorder_traversal(node) if isinstance(c, sp.ITE)), None)
    points = _switch_points(node, x, lo, hi) if choice is None else _zeros_of([choice.args[0]], x, lo, hi)
    inside = [r for r in points if zeros.compare(r, lo) > 0 and zeros.compare(hi, r) > 0]
    ends = [lo, *inside, hi]
    out = []
    for a, b in itertools.pairwise(ends):
        sample = _sample(a, b), a, b
        try:
            if choice is None:
                chosen = expr.xreplace({node: _choose(node, x, sample)})
            else:
                chosen = expr.xreplace({choice: choice.args[1 if _holds(choice.args[0], x, sample, node) else 2]})
        except MeanFieldError:
            raise
        except ValueError as error:  # SymPy does not compare what is complex: max(log(-3), z)
            raise MeanFieldError(f"A formula is not real and finite between its switch points: {error}.") from None
        out += _resolve(chosen, x, a, b)
    return out


def _sample(lo: sp.Expr, hi: sp.Expr) -> sp.Expr:
    if lo == -sp.oo:
        return sp.S.Zero if hi == sp.oo else hi - 1 if hi.free_symbols else _beyond(hi, -1)
    if hi == sp.oo:
        return lo + 2 if lo.free_symbols else _beyond(lo, 1)
    middle = (lo + hi) / 2
    if middle.free_symbols:
        return middle
    near = _short(middle)  # strictly between, where rounding leaves it there
    return near if zeros.sign(near - lo) == 1 and zeros.sign(hi - near) == 1 else middle


def _short(point: sp.Expr) -> sp.Rational:
    """A rational of 15 digits close to a number.

    Raises: MeanFieldError where no double holds it.
    """
    if vast(point, 1e6) is not None:
        raise MeanFieldError(f"A switch point lies at {shown(point)}, whose digits would take too long; rescale z.")
    digits = sp.N(point, 15)
    if digits != 0 and not 1e-150 < abs(digits) < 1e150:
        raise MeanFieldError(f"A switch point lies at {sp.N(digits, 3)!s}, whose square no double holds; rescale z.")
    return sp.Rational(str(digits))


def _beyond(point: sp.Expr, side: int) -> sp.Rational:
    """A short number on one side of a point: 1 to 3 away, or 1e-12 of the point where that is more."""
    near = _short(point)
    whole = sp.floor(near)
    step = max(sp.S.One, abs(whole) / 10**12)
    return whole - step if side < 0 else whole + 1 + step


def _switch_points(node: sp.Expr, x: sp.Symbol, lo: sp.Expr, hi: sp.Expr) -> list[sp.Expr]:
    if isinstance(node, sp.Piecewise):
        return _zeros_of([cond for _, cond in node.args], x, lo, hi)
    if isinstance(node, (sp.Max, sp.Min)):
        differences = [a - b for i, a in enumerate(node.args) for b in node.args[i + 1 :]]
    else:
        differences = [node.args[0]]
    return _ordered(differences, x, lo, hi)


def _zeros_of(conditions: Iterable[sp.Basic], x: sp.Symbol, lo: sp.Expr, hi: sp.Expr) -> list[sp.Expr]:
    """Where the comparisons in some conditions may change."""
    return _ordered([c.lhs - c.rhs for cond in conditions for c in sp.sympify(cond).atoms(Relational)], x, lo, hi)


def _ordered(differences: Iterable[sp.Expr], x: sp.Symbol, lo: sp.Expr, hi: sp.Expr) -> list[sp.Expr]:
    roots = [sp.nsimplify(r) if r.is_Float else r for d in differences for r in real_roots(d, x, lo, hi)]
    return zeros.same_place(list(dict.fromkeys(roots)))


def real_roots(expr: sp.Expr, x: sp.Symbol, lo: sp.Expr = -sp.oo, hi: sp.Expr = sp.oo) -> list[sp.Expr]:
    """Every zero (and pole) of a smooth expression in (lo, hi): exact, or a `Root`, an enclosure of any precision.

    Raises: MeanFieldError where they cannot be found with certainty.
    """
    return zeros.real_zeros(expr, x, lo, hi)


def _sign(difference: sp.Expr, x: sp.Symbol, at: SamplePoint, node: sp.Expr) -> int:
    """The sign of a difference on an interval without a zero of it: at a sample point, else far out, where it is
    certain."""
    sample, lo, hi = at
    way = zeros.sign(difference.subs(x, sample))
    for far in (s for s, end in ((1, hi), (-1, lo)) if end in (sp.oo, -sp.oo) and difference.free_symbols - {x}):
        way = _far_sign(difference, x, far) if way is None else way
    if way is None:
        symbols = sorted(s.name for s in difference.free_symbols - {x})
        why = f"depends on the sign of a symbol ({', '.join(symbols)})" if symbols else "could not be decided"
        shown = str(node).replace("_z", "z")
        kind = Undetermined if symbols else MeanFieldError
        raise kind(f"Which branch of {shown} holds {why}; {zeros.ADVICE}.")
    return way


def _far_sign(difference: sp.Expr, x: sp.Symbol, side: int) -> int | None:
    """The sign of a difference as x → side·∞, from its power part there; None where that is not known or tends to 0."""
    power = tail(difference, x, side).power
    if power is None or power == 0 or not power.is_polynomial(x):
        return None
    poly = sp.Poly(power, x)
    way = zeros.sign(poly.LC())
    return way * side ** poly.degree() if way else None


def _holds(condition: sp.Basic, x: sp.Symbol, sample: SamplePoint, node: sp.Expr) -> bool:
    """A condition at a place that is no switch point; nothing undecided counts as false."""
    if condition in (True, False, sp.true, sp.false):
        return bool(condition)
    if isinstance(condition, sp.And):
        return all(_holds(c, x, sample, node) for c in condition.args)
    if isinstance(condition, sp.Or):
        return any(_holds(c, x, sample, node) for c in condition.args)
    if isinstance(condition, sp.Not):
        return not _holds(condition.args[0], x, sample, node)
    if isinstance(condition, sp.ITE):  # a Piecewise inside a comparison is folded into this
        test, yes, no = condition.args
        return _holds(yes if _holds(test, x, sample, node) else no, x, sample, node)
    if not isinstance(condition, Relational):
        raise MeanFieldError(f"The condition {condition} is not a comparison; write it with <, <=, >, >=, & and |.")
    way = _sign(condition.lhs - condition.rhs, x, sample, node)
    holds = {sp.Lt: way < 0, sp.Le: way <= 0, sp.Gt: way > 0, sp.Ge: way >= 0, sp.Eq: way == 0, sp.Ne: way != 0}
    return holds[condition.func]


def _choose(node: sp.Expr, x: sp.Symbol, sample: SamplePoint) -> sp.Expr:
    if isinstance(node, sp.Piecewise):
        for e, cond in node.args:
            if _holds(sp.sympify(cond), x, sample, node):
                return e
        raise MeanFieldError(f"{node} is not defined at z = {sample[0]}; give it a value everywhere.")
    if isinstance(node, (sp.Max, sp.Min)):
        best = node.args[0]
        for e in node.args[1:]:
            if (_sign(e - best, x, sample, node) > 0) == isinstance(node, sp.Max):
                best = e
        return best
    u = node.args[0]
    way = _sign(u, x, sample, node)
    if isinstance(node, sp.Abs):
        return u if way > 0 else -u
    if isinstance(node, sp.sign):
        return sp.Integer(way)
    return node.func(way, *node.args[1:]) if way == 0 else sp.S.One if way > 0 else sp.S.Zero
