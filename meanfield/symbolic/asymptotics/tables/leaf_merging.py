r"""The rows of a phase table: leaves of its tree of questions put together, whatever the order of the questions was.

Two leaves are one row where their laws are equal expressions (on the smaller of the two, if one is a boundary of the
other) and their union is a polyhedron. They are neighbours then: one has f > 0 where the other has f ≤ 0 or f = 0. All
pairs of neighbours are tried, those first that the shortest forms part; then, around two that are no polyhedron alone,
all that lie between them. What two sides could have, as a plane between them, goes to the same one all along. Where the
region of a law is no polyhedron, its rows may still depend on the leaves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from heapq import heappop, heappush
from typing import Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.symbolic.asymptotics.exponent_cells import Affine, Cell, PartitionNode
from meanfield.symbolic.asymptotics.log_growth import Growth
from meanfield.symbolic.asymptotics.schedules.balance import kept

Hull = tuple[Affine, ...]


@dataclass(frozen=True, eq=False)
class Region:
    """A polyhedron on which all laws are the same."""

    cell: Cell
    laws: Any


def merged(tree: PartitionNode) -> PartitionNode:
    """The same tree, what is found on its leaves being the region that each is a part of: questions between parts of
    one region go."""
    leaves = list(tree.leaves())
    of = _Merging(tree.cell).regions(leaves)
    return _pruned(tree, {id(leaf): region for leaf, region in zip(leaves, of)})


def regions(tree: PartitionNode) -> tuple[Region, ...]:
    """The regions of a merged tree, in the order of its leaves."""
    return tuple(dict.fromkeys(leaf.found for leaf in tree.leaves()))


def _pruned(node: PartitionNode, of: dict[int, Region]) -> PartitionNode:
    """The tree without questions that part nothing; signs become lists of signs."""
    if node.form is None:
        return replace(node, found=of[id(node)])
    parts: list[tuple[tuple[int, ...], PartitionNode]] = []
    for signs, part in ((signs, _pruned(part, of)) for signs, part in node.parts):
        before = parts[-1][1] if parts else None
        if before is not None and before.form is None and part.form is None and before.found is part.found:
            parts[-1] = ((*parts[-1][0], *signs), before)
        else:
            parts.append((signs, part))
    (_, first), *more = parts
    if first.form is None and all(part.form is None and part.found is first.found for _, part in more):
        return replace(node, form=None, parts=(), found=first.found)
    return replace(node, parts=tuple(parts))


# ------------------------------------------------------------------------------------------------------- neighbours


@dataclass(frozen=True, eq=False)
class _Part:
    """A polyhedron of one law, and its inequalities as they are on the plane that it fills.

    words: what equal laws have in common, seen at once; key: a place in an order of all polyhedra, planes last.
    """

    cell: Cell
    laws: Any
    leaves: tuple[int, ...]
    words: tuple
    hull: Hull
    strict: frozenset[Affine]
    weak: frozenset[Affine]
    key: tuple


def _part(cell: Cell, laws: Any, leaves: tuple[int, ...], words: tuple) -> _Part:
    cell = cell.reduced()
    hull = _echelon(cell.equal)
    strict, weak = (frozenset(_on(f, hull) for f in forms) for forms in (cell.strict, cell.weak))
    key = (len(hull), *(sorted(a._key for a in forms) for forms in (hull, strict, weak)))
    return _Part(cell, laws, leaves, words, hull, strict, weak, key)


def _words(laws: Any) -> tuple:
    def of(x: Growth) -> tuple:
        return x.constant is None, x.leading

    return tuple((a.basin, a.regime, a.conditional, *((n, *of(x)) for n, x in a.laws)) for a in laws)


def _row(a: Affine) -> list[Fraction]:
    return [*a.coefficients, a.constant]


def _on(a: Affine, hull: Hull) -> Affine:
    """A form on the plane where the forms of a hull are 0."""
    r = _row(a)
    for e in hull:
        i = next(i for i, c in enumerate(e.coefficients) if c)
        if r[i]:
            r = [x - r[i] / e.coefficients[i] * y for x, y in zip(r, _row(e))]
    return Affine(tuple(r[:-1]), r[-1]).primitive


def _echelon(equal: tuple[Affine, ...]) -> Hull:
    """The plane of some equations: the same forms for all equations of it."""
    hull: Hull = ()
    for a in equal:
        a = _on(a, hull)
        if any(a.coefficients):
            a = a if next(c for c in a.coefficients if c) > 0 else -a
            hull = (*(_on(b, (a,)) for b in hull), a)
    return tuple(sorted(hull, key=lambda a: a._key))


@dataclass
class _Merging:
    """The parts so far, found by the planes that they fill and by their inequalities there."""

    whole: Cell
    parts: dict[int, _Part] = field(default_factory=dict)
    by_form: defaultdict[tuple, list[int]] = field(default_factory=lambda: defaultdict(list))
    by_hull: defaultdict[tuple, list[int]] = field(default_factory=lambda: defaultdict(list))
    by_facet: defaultdict[tuple, list[tuple[int, Affine]]] = field(default_factory=lambda: defaultdict(list))
    planes: dict[tuple[Hull, Affine], Hull] = field(default_factory=dict)
    queue: list[tuple] = field(default_factory=list)
    apart: list[tuple] = field(default_factory=list)  # neighbours of one law that are no polyhedron alone
    made: int = 0

    def regions(self, leaves: list[PartitionNode]) -> list[Region]:
        """The region of each leaf."""
        for i, leaf in enumerate(leaves):
            self.add(_part(leaf.cell, leaf.found, (i,), _words(leaf.found)))
        while self.queue or self.apart:
            by_two = bool(self.queue)
            entry = heappop(self.queue if by_two else self.apart)
            *_, i, j = entry
            if i not in self.parts or j not in self.parts:
                continue
            pair = sorted((i, j), key=lambda n: self.parts[n].key)
            wide, small = (self.parts[n] for n in pair)
            if by_two and not _same(wide.laws, small.laws, small.cell):
                continue
            members, cell = (pair, union(wide.cell, small.cell)) if by_two else self.around(pair)
            if cell is not None:
                leaves_of = sum((self.parts.pop(n).leaves for n in members), ())
                self.add(_part(cell, wide.laws, leaves_of, wide.words))
            elif by_two:
                heappush(self.apart, entry)
        found: dict[int, Region] = {}
        for part in self.parts.values():
            region = Region(part.cell, part.laws)
            found |= dict.fromkeys(part.leaves, region)
        return [found[i] for i in range(len(leaves))]

    def around(self, pair: list[int]) -> tuple[list[int], Cell | None]:
        """(the parts that fill a polyhedron around two of them, all of their law, the polyhedron); None for the second
        where there are none."""
        members, wide = list(pair), self.parts[pair[0]]
        alike = [p.cell for p in self.parts.values() if p.words == wide.words]
        cell = _held(
            self.whole,
            tuple(dict.fromkeys(f for c in alike for f in c.strict)),
            tuple(dict.fromkeys(f for c in alike for f in (*c.weak, *c.strict))),
            [self.parts[n].cell for n in pair],
            wide.cell.equal,
        )
        others = [n for n in self.parts if n not in members]
        while (met := next((n for n in others if _meet(cell, self.parts[n].cell)), None)) is not None:
            part = self.parts[met]
            inside = all(not any(_row(_on(a, part.hull))) for a in wide.cell.equal)
            if part.words != wide.words or not inside or not _same(wide.laws, part.laws, part.cell):
                return members, None
            members.append(met)
            others.remove(met)
            cell = _held(self.whole, cell.strict, (*cell.weak, *cell.strict), [part.cell], cell.equal)
        return members, cell

    def add(self, part: _Part) -> None:
        """A new part, with those beside it in the queue."""
        i, self.made = self.made, self.made + 1
        for j, f in self.neighbours(part):
            if j in self.parts:
                wide, small = sorted((part, self.parts[j]), key=lambda p: p.key)
                length = sum(c != 0 for c in f.coefficients)
                up = max(f, -f, key=lambda a: a._key)  # what two sides could have goes to the same one all along
                side = up not in wide.strict and _on(up, wide.hull) not in wide.strict
                heappush(self.queue, (length, up._key, side, wide.key, small.key, i, j))
        self.parts[i] = part
        here = part.words, part.hull
        for kind, forms in (("strict", part.strict), ("weak", part.weak)):
            for f in forms:
                self.by_form[here, kind, f].append(i)
        for f, facet in self.facets(part):
            self.by_facet[part.words, facet].append((i, f))
        self.by_hull[here].append(i)

    def facets(self, part: _Part) -> Iterator[tuple[Affine, Hull]]:
        """The planes of its boundaries."""
        for f in part.strict:
            if (facet := self.planes.get((part.hull, f))) is None:
                facet = self.planes[part.hull, f] = _echelon((*part.hull, f))
            yield f, facet

    def neighbours(self, part: _Part) -> Iterator[tuple[int, Affine]]:
        """Parts on the other side of one inequality, on its boundary, or whose boundary this one may be."""
        here = part.words, part.hull
        for kind, forms in (("weak", part.strict), ("strict", part.weak)):
            for f in forms:
                for j in self.by_form.get((here, kind, -f), ()):
                    yield j, f
        for f, facet in self.facets(part):
            for j in self.by_hull.get((part.words, facet), ()):
                yield j, f
        yield from self.by_facet.get(here, ())


def _never(cell: Cell, strict: tuple[Affine, ...] = (), weak: tuple[Affine, ...] = ()) -> bool:
    """Whether no point of a cell has these forms > 0 and ≥ 0."""
    return Cell(cell.coordinates, cell.strict + strict, cell.weak + weak, cell.equal).is_empty


def _meet(one: Cell, other: Cell) -> bool:
    pairs = (getattr(one, kind) + getattr(other, kind) for kind in ("strict", "weak", "equal"))
    return not Cell(one.coordinates, *pairs).is_empty


def _held(whole: Cell, strict: tuple, weak: tuple, cells: list[Cell], equal: tuple) -> Cell:
    """The conditions of a list that hold on all of some cells, and those of the whole."""
    over = tuple(f for f in strict if all(_never(c, weak=(-f,)) for c in cells))
    least = tuple(f for f in weak if f not in over and all(_never(c, strict=(-f,)) for c in cells))
    above, least = dict.fromkeys((*over, *whole.strict)), tuple(dict.fromkeys((*least, *whole.weak)))
    return Cell(whole.coordinates, tuple(above), least, equal)


def union(wide: Cell, small: Cell) -> Cell | None:
    """The polyhedron that two of them fill, the second in the plane of the first; None where they fill none.

    It has the conditions of each that hold on the other. What is left of each is broken somewhere on the other; where a
    point of the whole breaks one of both, it lies in neither.
    """

    strict: list[Affine] = []
    weak: list[Affine] = []
    broken: tuple[list[tuple], list[tuple]] = ([], [])  # (strict, weak) of what breaks a condition
    for one, other, out in ((wide, small, broken[0]), (small, wide, broken[1])):
        for f in one.strict:
            if _never(other, weak=(-f,)):
                strict.append(f)
                continue
            if _never(other, strict=(-f,)):
                weak.append(f)
            out.append(((), (-f,)))
        for f in one.weak:
            if _never(other, strict=(-f,)):
                weak.append(f)
            else:
                out.append(((-f,), ()))
        for f in one.equal:
            if one is small:
                out += [((f,), ()), ((-f,), ())]
    kept = tuple(dict.fromkeys(f for f in weak if f not in strict))
    whole = Cell(wide.coordinates, tuple(dict.fromkeys(strict)), kept, wide.equal)
    if all(_never(whole, a[0] + b[0], a[1] + b[1]) for a in broken[0] for b in broken[1]):
        return whole
    return None


# ------------------------------------------------------------------------------------------------------ equal laws


def _same(one: Any, other: Any, cell: Cell) -> bool:
    """Whether the laws of one part, taken to the cell of another, are those of the other."""
    point: dict[sp.Symbol, sp.Rational] | None = None
    pairs = [(x, y) for a, b in zip(one, other) for (_, x), (_, y) in zip(a.laws, b.laws) if x != y]
    for x, y in pairs:  # what a point of the cell tells is no longer asked
        if (gap := x.exponent - y.exponent) != 0 and not gap.is_Rational:
            point = point or cell.point()
            assert point is not None
            with suppress(MeanFieldError):  # of a root that is not there at these numbers
                gap = gap.xreplace(point)
        if gap.is_Rational and gap != 0:
            return False
    for x, y in pairs:
        wide, small = _moved(x, cell), _moved(y, cell)
        if wide is None or small is None or not _equal(wide, small):
            return False
    return all(a.limit == b.limit or a.limit_by(cell.simplified) == b.limit for a, b in zip(one, other))


def _moved(x: Growth, cell: Cell) -> Growth | None:
    """A law on the boundary of where it was derived; None where a number of it has no finite value there."""
    try:
        found = x.map(cell.simplified)
    except ZeroDivisionError:
        return None
    numbers = [c for _, c in found.terms] + ([found.constant] if found.constant is not None else [])
    return None if any(sp.sympify(c).has(sp.zoo, sp.nan, sp.oo) for c in numbers) else found


def _equal(x: Growth, y: Growth) -> bool:
    if (x.constant is None) != (y.constant is None) or x.leading != y.leading:
        return False
    gap = x / y
    numbers = [c for _, c in gap.terms] + ([] if gap.constant is None else [gap.constant - 1])
    return not gap.products and all(_vanishes(c) for c in numbers)


def _vanishes(e: sp.Expr) -> bool:
    """Whether an expression is 0, averages and roots in it being any numbers: a look at numbers spares most proofs."""
    return e == 0 or bool(kept(e, _is_zero))


def _is_zero(e: sp.Expr) -> sp.Expr:
    place = {s: sp.Rational(37 + 12 * i, 91 + 7 * i) for i, s in enumerate(sorted(e.free_symbols, key=str))}
    try:
        if abs(complex(sp.N(e.xreplace(place), 15))) > 1e-9:
            return sp.false
    except (TypeError, ValueError, MeanFieldError):
        pass
    return sp.sympify(sp.expand(e) == 0 or sp.simplify(e) == 0)
