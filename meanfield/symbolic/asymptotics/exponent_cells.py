"""Polyhedral cells of exponents: signs of affine forms on them, decided exactly by Fourier–Motzkin elimination.

A derivation asks an oracle for the sign of a form in β_v, β_w, …. At given numbers the oracle knows it (`At`). On a
cell of the parameter space (`Cell`) it knows it where it is the same everywhere; else `Split` says which form divides
the cell, and `partition` runs the derivation again on each of the parts that are not empty. So the parts cover the
cell, are disjoint, and the tree of questions is the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import gcd, lcm

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.functions import balls
from meanfield.symbolic.series.exponents import is_zero

MOST = 20_000  # inequalities of one elimination, beyond which a question is refused
Vector = tuple[Fraction, ...]
Integers = tuple[int, ...]


class Undecided(MeanFieldError):
    """What happens in a region depends on numbers that are not given."""


class CellSplit(Exception):
    """The sign of `form` is not the same everywhere on the cell."""

    def __init__(self, form: sp.Expr):
        super().__init__(form)
        self.form = form


@dataclass(frozen=True, eq=False)
class Affine:
    """coefficients · x + constant, x the coordinates of a cell in their order."""

    coefficients: Vector
    constant: Fraction

    @cached_property
    def _key(self) -> tuple[int, ...]:  # forms are looked up far more often than made, and fractions compare slowly
        return tuple(n for c in (*self.coefficients, self.constant) for n in (c.numerator, c.denominator))

    @cached_property
    def _hash(self) -> int:
        return hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Affine) and self._key == other._key)

    @cached_property
    def row(self) -> Integers:
        """The coefficients, then the constant, as whole numbers: the form up to a positive factor."""
        whole = lcm(*self._key[1::2])
        return _shortest([n * (whole // d) for n, d in zip(self._key[::2], self._key[1::2])])

    def __neg__(self) -> Affine:
        return Affine(tuple(-c for c in self.coefficients), -self.constant)

    @property
    def primitive(self) -> Affine:
        """The same up to a positive factor: the first coefficient is ±1."""
        lead = next((abs(c) for c in self.coefficients if c), abs(self.constant) or Fraction(1))
        return Affine(tuple(c / lead for c in self.coefficients), self.constant / lead)


@dataclass(frozen=True)
class At:
    """The oracle at one place: values of all symbols, exact.

    A number that is not 0 shows it in its digits, as many as it takes. Raises: MeanFieldError for one that is 0 to 60
    digits and not proved to be.
    """

    values: Mapping[sp.Symbol, sp.Expr]

    def sign(self, form: sp.Expr) -> int:
        """-1, 0 or 1."""
        e = sp.sympify(form).xreplace(dict(self.values))
        if e.free_symbols:
            names = ", ".join(sorted(s.name for s in e.free_symbols))
            raise MeanFieldError(f"A large-depth law depends on the sign of {e}; give {names} numbers.")
        if e.is_Rational:
            return int(sp.sign(e))
        for digits in (20, 60):
            ball = balls.certified(e, digits)
            if not ball.contains(0):
                return 1 if ball > 0 else -1
        if is_zero(e):
            return 0
        raise MeanFieldError(f"60 digits do not decide whether {form} is 0 at this place; nor is the law there.")


@dataclass(frozen=True)
class Cell:
    """The points with strict > 0, weak ≥ 0 and equal = 0 (affine forms in `coordinates`): an oracle that splits."""

    coordinates: tuple[sp.Symbol, ...]
    strict: tuple[Affine, ...] = ()
    weak: tuple[Affine, ...] = ()
    equal: tuple[Affine, ...] = ()

    def affine(self, form: sp.Expr) -> Affine:
        """The form with rational coefficients. Raises: MeanFieldError for others."""
        return _affine(sp.sympify(form), self.coordinates)

    def sign(self, form: sp.Expr) -> int:
        """-1, 0 or 1 where it is the same on the whole cell. Raises: `Split`."""
        if not sp.sympify(form).free_symbols & set(self.coordinates):
            return At({}).sign(form)
        self.affine(form)  # refuses what is none
        found = [s for s, part in self.parts(form) if not part.is_empty]
        if len(found) != 1:
            raise CellSplit(form)
        return found[0]

    def parts(self, form: sp.Expr) -> list[tuple[int, Cell]]:
        """The three parts of the cell by the sign of `form`, empty ones among them."""
        a = self.affine(form).primitive
        return [
            (1, Cell(self.coordinates, (*self.strict, a), self.weak, self.equal)),
            (0, Cell(self.coordinates, self.strict, self.weak, (*self.equal, a))),
            (-1, Cell(self.coordinates, (*self.strict, -a), self.weak, self.equal)),
        ]

    @property
    def is_empty(self) -> bool:
        return _witness(self.strict, self.weak, self.equal, len(self.coordinates)) is None

    def point(self) -> dict[sp.Symbol, sp.Rational] | None:
        """A simple point inside, None for an empty cell."""
        found = _witness(self.strict, self.weak, self.equal, len(self.coordinates))
        if found is None:
            return None
        return {s: sp.Rational(x.numerator, x.denominator) for s, x in zip(self.coordinates, found)}

    def contains(self, values: Mapping[sp.Symbol, sp.Expr]) -> bool:
        """Whether a point lies in it; conditions on what has no value are left out."""
        at = At(values)
        rational = all(s in values and values[s].is_Rational for s in self.coordinates)
        x = [Fraction(int(values[s].p), int(values[s].q)) for s in self.coordinates] if rational else []
        for forms, signs in ((self.strict, (1,)), (self.weak, (0, 1)), (self.equal, (0,))):
            for a in forms:
                if rational:
                    value = a.constant + sum(c * y for c, y in zip(a.coefficients, x))
                    sign = (value > 0) - (value < 0)
                elif (e := self.expr(a)).free_symbols <= set(values):
                    sign = at.sign(e)
                else:
                    continue
                if sign not in signs:
                    return False
        return True

    def expr(self, a: Affine) -> sp.Expr:
        """An affine form as an expression."""
        terms = [sp.Rational(c.numerator, c.denominator) * s for c, s in zip(a.coefficients, self.coordinates)]
        return sp.Add(*terms, sp.Rational(a.constant.numerator, a.constant.denominator))

    def simplified(self, e: sp.Expr) -> sp.Expr:
        """An expression with the cell's equations put in, each solved for a coordinate, and |f| as ±f."""
        e = sp.sympify(e)
        if self.equal and not e.free_symbols.isdisjoint(self._solved):
            e = e.subs(self._solved)
        for size in e.atoms(sp.Abs):
            try:
                e = e.xreplace({size: self.sign(size.args[0]) * size.args[0]})
            except (CellSplit, Undecided):
                continue
        return e

    @cached_property
    def _solved(self) -> dict[sp.Symbol, sp.Expr]:
        found: dict[sp.Symbol, sp.Expr] = {}
        for a in self.equal:
            form = sp.expand(self.expr(a).subs(found))
            symbols = [s for s in reversed(self.coordinates) if form.coeff(s) != 0]
            if symbols:
                s = symbols[0]
                value = sp.expand(s - form / form.coeff(s))
                found = {k: sp.expand(v.subs(s, value)) for k, v in found.items()} | {s: value}
        return found

    def reduced(self) -> Cell:
        """The same cell without inequalities that the others imply."""
        equal = tuple(dict.fromkeys(a.primitive for a in self.equal))
        strict, weak = tuple(dict.fromkeys(self.strict)), tuple(dict.fromkeys(self.weak))
        for a in strict:
            rest = tuple(b for b in strict if b != a)
            if _witness(rest, (*weak, -a), equal, len(self.coordinates)) is None:
                strict = rest
        for a in weak:
            rest = tuple(b for b in weak if b != a)
            if _witness((*strict, -a), rest, equal, len(self.coordinates)) is None:
                weak = rest
        return Cell(self.coordinates, strict, weak, equal)


@lru_cache(maxsize=8192)
def _affine(form: sp.Expr, coordinates: tuple[sp.Symbol, ...]) -> Affine:
    coefficients, rest = [Fraction(0)] * len(coordinates), sp.expand(form)
    for i, s in enumerate(coordinates):
        c = rest.coeff(s)
        rest = sp.expand(rest - c * s)
        if not c.is_Rational:
            raise _uncut(form)
        coefficients[i] = Fraction(int(c.p), int(c.q))
    if not rest.is_Rational:
        raise _uncut(form)
    return Affine(tuple(coefficients), Fraction(int(rest.p), int(rest.q)))


def _uncut(form: sp.Expr) -> Undecided:
    text = str(form)
    text = text if len(text) <= 120 else f"{text[:120]}…"
    return Undecided(
        f"the sign of {text} decides, along which no cells are cut, as it is not affine with rational coefficients; "
        "numbers for what it holds decide it"
    )


# --------------------------------------------------------------------------------------------------- elimination


@lru_cache(maxsize=65536)
def _witness(strict: tuple[Affine, ...], weak: tuple[Affine, ...], equal: tuple[Affine, ...], n: int) -> Vector | None:
    """A point with strict > 0, weak ≥ 0, equal = 0, of small fractions; None where there is none."""
    rows = [(a.row, True) for a in strict] + [(a.row, False) for a in weak]
    solved: list[tuple[int, Integers]] = []  # each equation, and the coordinate that it gives
    left = [a.row for a in equal]
    while left:
        e = left.pop()
        i = next((i for i, c in enumerate(e[:-1]) if c), None)
        if i is None:
            if e[-1]:
                return None
            continue
        left = [_without(b, i, e) for b in left]
        rows = [(_without(b, i, e), s) for b, s in rows]
        solved.append((i, e))
    free = [i for i in range(n) if all(i != j for j, _ in solved)]
    found = _search(rows, free, n)
    if found is None:
        return None
    for i, e in reversed(solved):
        found[i] = _bound(e, i, found)
    return tuple(found)


def _without(a: Integers, i: int, e: Integers) -> Integers:
    """A positive multiple of a form without its coordinate i, by the equation e = 0."""
    if not a[i]:
        return a
    p, q = abs(e[i]), a[i] if e[i] > 0 else -a[i]
    return _shortest([p * x - q * y for x, y in zip(a, e)])


def _shortest(a: list[int]) -> Integers:
    common = gcd(*a) or 1
    return tuple(x // common for x in a)


def _search(rows: list[tuple[Integers, bool]], free: list[int], n: int) -> list[Fraction] | None:
    """Fourier–Motzkin elimination of the free coordinates, then a simple value for each, last eliminated first."""
    stages = []
    kept = _kept(rows)
    for i in free:
        if kept is None:
            return None
        low = [(a, s) for a, s in kept if a[i] > 0]
        up = [(a, s) for a, s in kept if a[i] < 0]
        stages.append((i, low, up))
        rest = [(a, s) for a, s in kept if a[i] == 0]
        crossed = [(_shortest([-b[i] * x + a[i] * y for x, y in zip(a, b)]), s or t) for a, s in low for b, t in up]
        kept = _kept(rest + crossed)
    if kept is None:
        return None
    found = [Fraction(0)] * n
    for i, low, up in reversed(stages):
        found[i] = _simplest([(_bound(a, i, found), s) for a, s in low], [(_bound(a, i, found), s) for a, s in up])
    return found


def _kept(rows: list[tuple[Integers, bool]]) -> list[tuple[Integers, bool]] | None:
    """The tightest inequality of each direction; None where one without coordinates fails."""
    tightest: dict[Integers, tuple[int, int, bool]] = {}  # direction: (constant, its denominator, strict)
    for a, strict in rows:
        *direction, constant = a
        size = gcd(*direction)
        if not size:
            if constant < 0 or (constant == 0 and strict):
                return None
            continue
        key = tuple(x // size for x in direction)
        old = tightest.get(key)
        gap = -1 if old is None else constant * old[1] - old[0] * size
        if gap < 0 or (gap == 0 and strict):
            tightest[key] = constant, size, strict
    if len(tightest) > MOST:
        raise MeanFieldError("A phase table has more inequalities than are eliminated here; fix some exponents.")
    return [((*(x * size for x in key), constant), strict) for key, (constant, size, strict) in tightest.items()]


def _bound(a: Integers, i: int, found: list[Fraction]) -> Fraction:
    """The value of coordinate i at which a form is 0."""
    rest = a[-1] + sum(c * x for j, (c, x) in enumerate(zip(a, found)) if j != i and c)
    return -Fraction(rest) / a[i]


def _simplest(low: list[tuple[Fraction, bool]], up: list[tuple[Fraction, bool]]) -> Fraction:
    """A number of small denominator between bounds, inside where they are strict."""
    bottom = max((b for b, _ in low), default=None)
    top = min((b for b, _ in up), default=None)
    open_below = bottom is not None and any(s for b, s in low if b == bottom)
    open_above = top is not None and any(s for b, s in up if b == top)
    if bottom is None and top is None:
        return Fraction(0)
    if bottom is None:
        return Fraction(int(top) - 1) if top is not None else Fraction(0)
    if top is None:
        return Fraction(int(bottom) + 1) if open_below or bottom.denominator != 1 else bottom
    if bottom == top:
        return bottom
    for q in range(1, 10_000):
        p = int(bottom * q)
        for one in (p, p + 1):
            x = Fraction(one, q)
            if (x > bottom or (x == bottom and not open_below)) and (x < top or (x == top and not open_above)):
                return x
    return (bottom + top) / 2


# ------------------------------------------------------------------------------------------------------ partition


@dataclass(frozen=True)
class PartitionNode:
    """One question of a partition: a form, and the parts by its signs there; a leaf has no form, but what holds."""

    cell: Cell
    form: sp.Expr | None
    parts: tuple[tuple[tuple[int, ...], PartitionNode], ...] = ()
    found: object = None

    def leaves(self):
        """The leaves in order."""
        if self.form is None:
            yield self
        for _, part in self.parts:
            yield from part.leaves()


def partition(cell: Cell, derive: Callable[[Cell], object]) -> PartitionNode:
    """What `derive` finds on each part of the cell on which its questions have one answer."""
    form: sp.Expr
    try:
        return PartitionNode(cell, None, found=derive(cell))
    except CellSplit as split:
        form = split.form
    parts = [(s, part) for s, part in cell.parts(form) if not part.is_empty]
    return PartitionNode(cell, form, tuple(((s,), partition(part, derive)) for s, part in parts))
