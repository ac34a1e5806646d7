r"""A phase table up to constant factors, as few rows as there are laws.

Two parts of a table have one law here if it has one form and one exponent function: where K ~ l^f on one part and K ~
l^g on another, and f ≥ g holds on the first and g ≥ f on the second, K = Θ(l^{max(f, g)}) on both. Each claim f ≥ g on
a part is decided by elimination (`exponent_cells`), so nothing is joined that the parts do not prove. Regions are
unions of polyhedra, each widened until the next inequality less would let another law in.

Source: derived here. The variables U, V, W of [variance_variation] Def. C.4, C.8 are such exponents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import sympy as sp

from meanfield.symbolic.asymptotics.comparing import sign_of_number
from meanfield.symbolic.asymptotics.exponent_cells import Affine, Cell, CellSplit, PartitionNode, Undecided
from meanfield.symbolic.asymptotics.log_growth import LEVELS, Growth
from meanfield.symbolic.asymptotics.tables.leaf_merging import regions as merged_regions
from meanfield.symbolic.asymptotics.tables.phase_tree import Laws

MODES = ("max", "min")


@dataclass(frozen=True)
class Slot:
    """The exponent of one law on one part: an affine form; (regime, quantity) says whose it is."""

    place: tuple[int, str]
    form: sp.Expr


@dataclass
class Group:
    """Parts of one law. shape: what is the same on all; forms: the exponents met, by slot; modes: whether the largest
    or the smallest of them holds."""

    shape: tuple
    parts: list[tuple[Cell, tuple[Slot, ...], tuple[Laws, ...]]] = field(default_factory=list)
    forms: dict[tuple[int, str], list[sp.Expr]] = field(default_factory=dict)
    modes: dict[tuple[int, str], tuple[str, ...]] = field(default_factory=dict)

    def takes(self, cell: Cell, slots: tuple[Slot, ...], laws: tuple[Laws, ...]) -> bool:
        """Add a part, if one exponent function serves it, too. Exponents that are new come from parts next to others
        alone: a boundary of another region has its own row."""
        forms, modes = dict(self.forms), dict(self.modes)
        beside = not self.parts or any(_on(cell, other) for other, _, _ in self.parts)
        for i, slot in enumerate(slots):
            known = forms.get(slot.place, [])
            new = [] if any(_same(f, slot.form, cell) for f in known) else [slot.form]
            if new and not beside:
                return False
            pairs = [(cell, slot.form, f) for f in known]
            pairs += [(other, theirs[i].form, f) for other, theirs, _ in self.parts for f in new]
            left = tuple(m for m in modes.get(slot.place, MODES) if all(_holds(m, *one) for one in pairs))
            if not left:
                return False
            forms[slot.place], modes[slot.place] = [*known, *new], left
        self.forms, self.modes = forms, modes
        self.parts.append((cell, slots, laws))
        return True

    def laws(self) -> tuple[Laws, ...]:
        """The law of all parts, constants left out."""
        _, _, regimes = self.parts[0]
        return tuple(
            replace(one, laws=tuple((n, self._order(g, (i, n))) for n, g in one.laws)) for i, one in enumerate(regimes)
        )

    def _order(self, g: Growth, place: tuple[int, str]) -> Growth:
        forms = self.forms.get(place)
        if g.leading:
            (key, _), *_ = g.stretched
            p = key[0] if forms is None else extreme(forms, self.modes[place][0])
            sign = next(s[-1] for s in self.shape if s[0] == place)
            return Growth((((p, *key[1:]), sp.Integer(sign)),), g.products, None, True, g.of)
        if forms is None:
            return replace(g, constant=None)
        log = (sp.S.Zero, sp.S.One, *[sp.S.Zero] * (LEVELS - 2))
        p = extreme(forms, self.modes[place][0])
        rest = tuple((k, c) for k, c in g.terms if k != log)
        terms = (*[t for t in g.stretched], *([(log, p)] if p != 0 else []), *[t for t in rest if t not in g.stretched])
        return Growth(terms, g.products, None, of=g.of)


def grouped(tree: PartitionNode) -> list[tuple[tuple[Cell, ...], tuple[Laws, ...]]]:
    """(polyhedra whose union is the region, laws up to constant factors) of a phase tree: they cover what it covers,
    and the regions are disjoint."""
    met: list[sp.Expr] = []  # exponents of larger regions name those of their boundaries
    leaves = sorted(((one.cell, one.laws) for one in merged_regions(tree)), key=lambda one: len(one[0].equal))
    groups: list[Group] = []
    for cell, regimes in leaves:
        shape, slots = _shape(regimes, cell)
        slots = tuple(replace(slot, form=_named(slot.form, met, cell)) for slot in slots)
        met += [slot.form for slot in slots if slot.form not in met]
        if not any(g.shape == shape and g.takes(cell, slots, regimes) for g in groups):
            groups.append(Group(shape))
            groups[-1].takes(cell, slots, regimes)
    out = []
    for g in groups:
        others = [cell for h in groups if h is not g for cell, _, _ in h.parts]
        out.append((regions([cell for cell, _, _ in g.parts], others, tree.cell), g.laws()))
    return out


def _shape(regimes: tuple[Laws, ...], cell: Cell) -> tuple[tuple, tuple[Slot, ...]]:
    """What parts of one law have in common, and the exponents in which they may differ."""
    shape: list[tuple] = []
    slots: list[Slot] = []
    for i, one in enumerate(regimes):
        shape.append((i, one.basin, one.regime if not one.laws else ""))
        for n, g in one.laws:
            form = g.stretched[0][0][0] if g.leading else g.exponent
            moves = _is_affine(form, cell)
            if moves:
                slots.append(Slot((i, n), sp.expand(form)))
            if g.leading:
                key, c = g.stretched[0]
                shape.append(((i, n), "log", None if moves else key[0], *key[1:], g.products, _sign(c, cell)))
            else:
                rest = tuple((k, c) for k, c in g.terms if k != (0, 1, 0, 0) or not moves)
                shape.append(((i, n), "whole", rest, g.products))
    return tuple(shape), tuple(slots)


def _named(form: sp.Expr, met: list[sp.Expr], cell: Cell) -> sp.Expr:
    """The shortest of the exponents met that are the same on the cell."""
    same = [f for f in met if cell.equal and _same(f, form, cell)]
    return min([form, *same], key=lambda f: len(sp.Add.make_args(f)))


def _on(cell: Cell, other: Cell) -> bool:
    """Whether the equations of another cell hold on this one."""
    return all(sp.expand(cell.simplified(cell.expr(a))) == 0 for a in other.equal)


def _is_affine(form: sp.Expr, cell: Cell) -> bool:
    try:
        cell.affine(form)
    except Undecided:
        return False
    return True


def _sign(c: sp.Expr, cell: Cell) -> int:
    try:
        return sign_of_number(c, cell)
    except (CellSplit, Undecided):
        return 0


def _same(f: sp.Expr, g: sp.Expr, cell: Cell) -> bool:
    return sp.expand(cell.simplified(f - g)) == 0


def _holds(mode: str, cell: Cell, own: sp.Expr, other: sp.Expr) -> bool:
    """Whether own ≥ other ("max") or own ≤ other ("min") on the whole cell."""
    gap = sp.expand(other - own if mode == "max" else own - other)
    if not gap.free_symbols:
        return bool(gap <= 0)
    return cell.parts(gap)[0][1].is_empty


def extreme(forms: list[sp.Expr], mode: str) -> sp.Expr:
    """The largest or smallest of affine forms, what they share taken out: 1 - min(β_a, β_b + β_v)."""
    if len(forms) == 1:
        return forms[0]
    if len(forms) == 2:
        return _of_two(forms[0], forms[1], mode)
    terms = [f.as_coefficients_dict() for f in forms]
    common = sp.S.Zero
    for t in terms[0]:
        sizes = [one[t] for one in terms]
        if min(sizes) * max(sizes) > 0:
            common += t * (min(sizes) if min(sizes) > 0 else max(sizes))
    return common + (sp.Max if mode == "max" else sp.Min)(*[sp.expand(f - common) for f in forms])


def _of_two(f: sp.Expr, g: sp.Expr, mode: str) -> sp.Expr:
    """max(f, g) itself, or with what is over: f = h + u, g = h + d or f = h - d, g = h - u, u and d without minus
    signs; the shortest of the three."""
    gap = dict(sp.expand(f - g).as_coefficients_dict())
    scale = sp.gcd([abs(c) for c in gap.values()])
    u = sp.Add(*[c / scale * t for t, c in gap.items() if c > 0])
    d = sp.Add(*[-c / scale * t for t, c in gap.items() if c < 0])
    largest = mode == "max"
    regimes = [
        (sp.S.Zero, sp.S.One, largest, f, g),
        (sp.expand(f - scale * u), scale, largest, u, d),
        (sp.expand(f + scale * d), -scale, not largest, u, d),
    ]
    h, factor, largest, u, d = min(regimes, key=lambda one: sum(len(sp.Add.make_args(e)) for e in (one[0], *one[3:])))
    return h + factor * (sp.Max if largest else sp.Min)(u, d)


# ------------------------------------------------------------------------------------------------------- regions


def regions(cells: list[Cell], others: list[Cell], whole: Cell) -> tuple[Cell, ...]:
    """Few polyhedra that cover `exponent_cells` and meet none of `others`; with them they fill `whole`."""
    wide = list(dict.fromkeys(_widened(c, others, whole) for c in cells))
    left, chosen = list(cells), []
    while left:
        best = max(wide, key=lambda p: (sum(_inside(c, p) for c in left), -len(p.equal)))
        chosen.append(best)
        left = [c for c in left if not _inside(c, best)]
    return tuple(chosen)


def _widened(cell: Cell, others: list[Cell], whole: Cell) -> Cell:
    """A cell without the inequalities that keep none of `others` out."""
    for old, new in _relaxed(cell, whole):
        if any(a not in getattr(cell, kind) for kind, a in old):
            continue
        kinds = {k: [a for a in getattr(cell, k) if (k, a) not in old] for k in ("strict", "weak", "equal")}
        for kind, a in new:
            kinds[kind].append(a)
        limits = {"strict": whole.strict, "weak": whole.weak, "equal": ()}
        wider = Cell(cell.coordinates, *((*kinds[k], *limits[k]) for k in ("strict", "weak", "equal")))
        if any(k == "equal" for k, _ in old) and _inside(wider, cell):
            continue  # nothing was won
        if all(_apart(wider, other) for other in others):
            cell = wider
    return cell.reduced()


def _relaxed(cell: Cell, whole: Cell) -> Iterator[tuple[list, list]]:
    """Conditions to be weakened, in order: (those that go, those that come)."""
    base = {("strict", a) for a in whole.strict} | {("weak", a) for a in whole.weak}
    for a in cell.equal:
        yield [("equal", a)], []
        yield [("equal", a)], [("weak", a)]
        yield [("equal", a)], [("weak", -a)]
    for kind, forms in (("strict", cell.strict), ("weak", cell.weak)):
        for a in forms:
            if (kind, a) not in base:
                yield [(kind, a)], []
                if kind == "strict":
                    yield [(kind, a)], [("weak", a)]


def _apart(one: Cell, other: Cell) -> bool:
    pairs = (getattr(one, kind) + getattr(other, kind) for kind in ("strict", "weak", "equal"))
    return Cell(one.coordinates, *pairs).is_empty


def _inside(cell: Cell, wide: Cell) -> bool:
    """Whether a cell lies in a polyhedron: no condition of it can fail there."""
    fails: list[tuple[str, Affine]] = [("weak", -a) for a in wide.strict] + [("strict", -a) for a in wide.weak]
    fails += [("strict", s) for a in wide.equal for s in (a, -a)]
    for kind, a in fails:
        kinds = {k: getattr(cell, k) + ((a,) if k == kind else ()) for k in ("strict", "weak", "equal")}
        if not Cell(cell.coordinates, *kinds.values()).is_empty:
            return False
    return True
