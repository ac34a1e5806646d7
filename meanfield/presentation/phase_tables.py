"""Phase tables: how each quantity of a residual network behaves at large depth, and where in parameter space."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import sympy as sp

from meanfield.arguments import choice, shown, spoken
from meanfield.presentation.phase_orders import PhaseOrders
from meanfield.presentation.phase_regions import conditions, conditions_tex, place, quantity_tex
from meanfield.printed import wrapped
from meanfield.results import MeanFieldError, one_line
from meanfield.symbolic.asymptotics.branch import Branch
from meanfield.symbolic.asymptotics.cells import At, Cell, Node, partition
from meanfield.symbolic.asymptotics.comparing import direction
from meanfield.symbolic.asymptotics.growth import Growth
from meanfield.symbolic.asymptotics.orders import grouped
from meanfield.symbolic.asymptotics.phase_tree import Laws, laws_at, named_quantities, phase_tree
from meanfield.tex.names import aligned, joined, tex

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEHAVIOURS = {"grows": (1,), "vanishes": (-1,), "constant": (0,), "bounded": (0, -1), "at least constant": (0, 1)}


@dataclass(frozen=True)
class Row:
    """One region and what holds everywhere in it; more than one `Laws` where the start decides, one without laws where
    what happens is open without numbers."""

    region: Cell
    ways: tuple[Laws, ...]

    def __getitem__(self, quantity: str) -> Growth:
        """The law of a quantity, where only one is possible. Raises: MeanFieldError where the start decides."""
        if len(self.ways) > 1:
            basins = "; ".join(f"{one.regime} ({one.basin})" for one in self.ways)
            raise MeanFieldError(f"The start decides between {len(self.ways)} laws of {quantity} here: {basins}.")
        return self.ways[0][quantity]

    def conditions(self) -> list[str]:
        """The region in text, without β ≥ 0 and S > 0, which hold throughout."""
        return [f"{low} {relation} {high}" for low, relation, high in conditions(self.region)]

    def latex(self) -> str:
        r"""The region and its laws as LaTeX for math mode (amsmath)."""
        blocks = []
        for one in self.ways:
            laws = [
                (rf"\log {quantity_tex(n)}", g.log) if g.leading else (quantity_tex(n), g.expr) for n, g in one.laws
            ]
            laws += [(tex(e.lhs), e.rhs) for e in one.equations]
            blocks.append(aligned(laws, (f"{one.regime} ({one.basin})",)))
        return "\\begin{gathered}\n" + conditions_tex(self.region) + " \\\\\n" + joined(blocks) + "\n\\end{gathered}"

    def __str__(self) -> str:
        lines = [", ".join(self.conditions()) or "everywhere"]
        for one in self.ways:
            lines += [f"  {one.regime} ({one.basin})"] + [f"    {n} ~ {g.text()}" for n, g in one.laws]
            lines += [f"    {equation(e)}" for e in one.equations]
        return wrapped("\n".join(lines))


def equation(e: sp.Eq) -> str:
    """An equation of a limit in t as text."""
    left = f"{e.lhs.expr}".replace("(t)", "'(t)") if isinstance(e.lhs, sp.Derivative) else str(e.lhs)
    return f"{left} = {e.rhs}"


@dataclass(frozen=True)
class ScheduledLaw:
    """How one quantity of a residual network behaves after l → ∞ blocks whose variances fall as powers of l.

    growth: the law; regime: which balance holds, in words; basin: the starts it holds for. As in a `DepthLaw`, the
    quantity is C·l^exponent·exp(rate·l^rate_power) up to logarithms. Where variances fall with the number of blocks L,
    too (a `Schedule` with total=), laws are in L at l = tL, equations those of k(t) and j(t) in them.
    """

    quantity: str
    growth: Growth
    regime: str
    basin: str
    equations: tuple[sp.Eq, ...] = ()

    @property
    def exponent(self) -> sp.Expr | None:
        """The power of l; None below a leading term that outgrows it."""
        return None if self.growth.leading else self.growth.exponent

    @property
    def rate(self) -> sp.Expr:
        """The coefficient of the leading term of log X that outgrows log l, 0 where there is none."""
        return self.growth.stretched[0][1] if self.growth.stretched else sp.S.Zero

    @property
    def rate_power(self) -> sp.Expr:
        """Its power of l (0 for a power of log l)."""
        return self.growth.stretched[0][0][0] if self.growth.stretched else sp.S.One

    @property
    def expr(self) -> sp.Expr:
        """The law as an expression in l; C depends on the start."""
        return self.growth.expr

    def latex(self) -> str:
        r"""The law as LaTeX for math mode (amsmath)."""
        name = quantity_tex(self.quantity)
        line = (rf"\log {name}", self.growth.log) if self.growth.leading else (name, self.growth.expr)
        lines = [line, *((tex(e.lhs), e.rhs) for e in self.equations)]
        return aligned(lines, (f"{self.regime} ({self.basin})",))

    def __repr__(self) -> str:
        return one_line("ScheduledLaw", f"{self.quantity} ~ {self.growth.text()}; {self.regime}")

    def __str__(self) -> str:
        lines = [f"{self.quantity} ~ {self.growth.text()}   ({self.regime}; {self.basin})"]
        if self.growth.has_root and not self.growth.leading:
            lines.append(f"{self.quantity} ~ {sp.N(self.expr, 10)}")
        lines += [f"  {equation(e)}" for e in self.equations]
        return wrapped("\n".join(lines))


@dataclass(frozen=True)
class Found:
    """Where a phase table has the behaviour that was asked for: regions, and a simple point in the largest."""

    regions: tuple[Cell, ...]
    point: dict[str, sp.Rational] | None

    def __bool__(self) -> bool:
        return bool(self.regions)

    def __repr__(self) -> str:
        where = "nowhere" if self.point is None else ", ".join(f"{k} = {v}" for k, v in self.point.items())
        return one_line("Found", f"{len(self.regions)} regions; {where}")


@dataclass(frozen=True)
class PhaseTable:
    """The laws of `quantities` over the whole parameter space, as rows that cover it and are disjoint.

    Coordinates are the parameters that have no numbers: exponents β ≥ 0 and, where K feeds back linearly, the strength
    S = σ_v²σ_w² (W = S·⟨φ²⟩_q/q where that ratio is irrational), see `definitions`. l counts blocks: K before block l,
    K[1] the variance inside it, J over the blocks before it; G_z, G_w[1], G_b[1] (inner Dense), G_w[2], G_b[2] (outer)
    are squared gradients over J^{1,L}, per output and per input for G_w, as a function of l < L; distance and gamma are
    those of two inputs of one norm that start neither alike nor opposite, c = K_ab/K; fisher is the largest over the
    smallest mean square of gradients by one entry, over the groups G_w, G_b with σ ≠ 0 and the blocks 1 … l of a
    network of l blocks of one width, which its Fisher information has as a lower bound of its condition number (up to a
    factor; the parameters are w and b themselves, of variance σ²/N). Laws are
    exact up to a factor where log X = O(log l), constants included where they are derived (C: one that depends on
    the start, or is not derived); else their leading term. Iterate over it for the rows. With a total= in a schedule:
    laws in L at l = tL (`Laws.limit`).

    Source: derived here (dominant balance, partition by signs of affine forms).
    """

    branch: Branch
    quantities: tuple[str, ...]
    tree: Node
    definitions: tuple[tuple[sp.Symbol, sp.Expr], ...] = ()

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of the free parameters."""
        return tuple(s.name for s in self.tree.cell.coordinates)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        return tuple(Row(leaf.cell.reduced(), leaf.found) for leaf in self.tree.leaves())

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @spoken
    def at(self, **values: object) -> Row:
        """The row of one place, its laws with the numbers put in.

        values: coordinates by name, exact (0.1 is 1/10); what no sign depends on may be left out and stays a symbol.
        Raises: MeanFieldError for values that are missing, unknown, or outside of the table.
        """
        given = place(values, self.tree.cell.coordinates, self.branch.symbols, self.definitions)
        oracle, node = At(given), self.tree
        if not node.cell.contains(given):
            raise MeanFieldError(f"The place {shown(values)} is outside of the table: exponents are ≥ 0 and σ's > 0.")
        while node.form is not None:
            sign = oracle.sign(node.form)
            node = next(part for signs, part in node.parts if sign in signs)
        found: Any = node.found
        undecided = any(e.has(sp.Max, sp.Min) for one in found for _, g in one.laws for _, e in g.terms)
        known = all(len(one.laws) == len(self.quantities) for one in found)
        lost = not known and (self.branch.knows_depth or not self.branch.subs(given).symbols)
        if undecided or lost or not found[0].laws:
            return Row(node.cell.reduced(), laws_at(self.branch.subs(given), self.quantities))
        swap = {s: e.subs(given) for s, e in self.definitions} | given
        return Row(node.cell.reduced(), tuple(one.at(swap) for one in found))

    @spoken
    def where(self, **behaviours: str) -> Found:
        """The regions where every quantity named behaves as said, for every start: "grows" (→ ∞), "vanishes" (→ 0),
        "constant", "bounded" (one of the last two) or "at least constant".

        Brackets of a quantity's name are left out: G_w1 for G_w[1]. Regions whose laws are not known are left out.
        """
        asked = {}
        for name, behaviour in behaviours.items():
            full = f"{name[:-1]}[{name[-1]}]" if name[-1:].isdigit() else name
            if full not in self.quantities:
                raise MeanFieldError(f"{shown(name)} is not in this table; it has {', '.join(self.quantities)}.")
            choice(behaviour, name, tuple(BEHAVIOURS))
            asked[full] = BEHAVIOURS[behaviour]

        def holds(here: Cell, found: tuple[Laws, ...]) -> bool:
            known = all({n for n, _ in one.laws} >= set(asked) for one in found)
            return known and all(direction(one[n], here) in signs for one in found for n, signs in asked.items())

        regions: list[Cell] = []
        for leaf in self.tree.leaves():
            found: Any = leaf.found
            split = partition(leaf.cell, lambda here, found=found: holds(here, found))  # type: ignore[misc]
            regions += [part.cell.reduced() for part in split.leaves() if part.found]
        regions.sort(key=lambda c: len(c.equal))
        point = regions[0].point() if regions else None
        return Found(tuple(regions), None if point is None else {s.name: v for s, v in point.items()})

    def orders(self) -> PhaseOrders:
        """The same up to constant factors, one row for each law: where exponents f and g meet, max(f, g)."""
        return PhaseOrders(self.quantities, tuple(grouped(self.tree)), self.branch.symbols, self.definitions)

    def proof(self) -> str:
        """The questions, indented: each splits its region by the sign of a form, no sign that can occur is left out, so
        the rows cover the parameter space and are disjoint."""
        return "\n".join(_told(self.tree, 0))

    def plot(self, x: str, y: str, **rest: object) -> Figure:
        """A map of the rows over two coordinates, the others at numbers (needs matplotlib: meanfield[plot])."""
        from meanfield.presentation.phase_maps import plot_phase_table

        return plot_phase_table(self, x, y, rest)

    def latex(self) -> str:
        r"""Every row as LaTeX for math mode (amsmath)."""
        head = [aligned([(tex(s), e)]) for s, e in self.definitions]
        return joined([*head, *(row.latex() for row in self.rows)])

    def __repr__(self) -> str:
        return one_line("PhaseTable", f"{', '.join(self.quantities)}; {len(self)} rows")

    def __str__(self) -> str:
        head = [f"{s} = {e}" for s, e in self.definitions]
        return "\n".join([*head, *(f"row {i}\n{row}" for i, row in enumerate(self.rows, 1))])


_RELATIONS = {(1,): "> 0", (0,): "= 0", (-1,): "< 0", (1, 0): ">= 0", (0, -1): "<= 0"}


def _told(node: Node, depth: int) -> list[str]:
    pad, found = "  " * depth, node.found
    if node.form is None:
        return [pad + "; ".join(f"{one.regime} ({one.basin})" for one in found)]  # type: ignore[attr-defined]
    out = []
    for signs, part in node.parts:
        out += [f"{pad}{node.form} {_RELATIONS[signs]}", *_told(part, depth + 1)]
    return out


def phase_table(branch: Branch, asked: tuple[str, ...]) -> PhaseTable:
    """The table of a branch, whose parameters may be numbers or symbols; see `PhaseTable`."""
    quantities = named_quantities(asked)
    return PhaseTable(branch, quantities, *phase_tree(branch, quantities))
