"""Phase tables: how each quantity of a residual network behaves at large depth, and where in parameter space."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import sympy as sp
from sympy.core.function import AppliedUndef

from meanfield.base.answers.drawing import plot_law
from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.latex import aligned, joined, tex
from meanfield.base.answers.plain_text import named, wrapped
from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.base.answers.terms import big_o, onset_mark, onset_text
from meanfield.base.arguments import choice, shown, validated
from meanfield.functions.reading.parser import number
from meanfield.presentation.phase_orders import PhaseOrders
from meanfield.presentation.phase_regions import (
    conditions,
    conditions_tex,
    displays,
    place,
    quantity_tex,
    rows_tex,
    rows_text,
)
from meanfield.symbolic.asymptotics.comparing import direction
from meanfield.symbolic.asymptotics.exponent_cells import At, Cell, PartitionNode, partition
from meanfield.symbolic.asymptotics.higher_order.higher_order_laws import higher_order_law
from meanfield.symbolic.asymptotics.higher_order.higher_order_pairs import higher_order_pair
from meanfield.symbolic.asymptotics.higher_order.series_solution import Corrections
from meanfield.symbolic.asymptotics.log_growth import CONSTANT, Growth, value_of
from meanfield.symbolic.asymptotics.schedules.branch import Branch
from meanfield.symbolic.asymptotics.schedules.residual import Solver
from meanfield.symbolic.asymptotics.tables.leaf_merging import regions
from meanfield.symbolic.asymptotics.tables.phase_tree import PAIR, Laws, laws_at, laws_of, named_quantities, phase_tree
from meanfield.symbolic.asymptotics.tables.row_orders import grouped
from meanfield.symbolic.asymptotics.two_inputs.pair_laws import pair_laws
from meanfield.symbolic.series.asymptotic_law import Law

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BEHAVIOURS = {"grows": (1,), "vanishes": (-1,), "constant": (0,), "bounded": (0, -1), "at least constant": (0, 1)}


@dataclass(frozen=True)
class Row(Result):
    """One region and what holds everywhere in it; more than one `Laws` where the start decides, one without laws where
    what happens is open without numbers. asked: the table's quantities, some of which may have no law here."""

    region: Cell
    regimes: tuple[Laws, ...]
    asked: tuple[str, ...] = ()

    def __getitem__(self, quantity: str) -> Growth:
        """The law of a quantity, where only one is possible. Raises: MeanFieldError where the start decides."""
        if len(self.regimes) > 1:
            basins = "; ".join(f"{one.regime} ({one.basin})" for one in self.regimes)
            raise MeanFieldError(f"The start decides between {len(self.regimes)} laws of {quantity} here: {basins}.")
        return self.regimes[0][quantity]

    def data(self) -> dict[str, Any]:
        """The conditions of the region, and for each case of the start its regime, basin and laws, as plain values."""
        cases = [
            {
                "regime": one.regime,
                "basin": one.basin,
                "laws": {n: g.text() for n, g in one.laws},
                **({"equations": [equation(e) for e in one.limit]} if one.limit else {}),
            }
            for one in self.regimes
        ]
        return {"conditions": self.conditions(), "cases": cases}

    def cells(self) -> dict[str, Any]:
        """The region, the regime and the law of every quantity, as text; what the start decides is joined by "or"."""
        laws = {n: [g.text() for one in self.regimes for m, g in one.laws if m == n] for n in self.asked}
        regimes = " or ".join(one.regime for one in self.regimes)
        named = {n: " or ".join(dict.fromkeys(found)) or None for n, found in laws.items()}
        return {"region": ", ".join(self.conditions()), "regime": regimes, **named}

    def conditions(self) -> list[str]:
        """The region in text, without β ≥ 0 and S > 0, which hold throughout."""
        return [f"{low} {relation} {high}" for low, relation, high in conditions(self.region)]

    def latex(self) -> str:
        r"""The region and its laws as LaTeX for math mode (amsmath)."""
        blocks = []
        for one in self.regimes:
            laws = [
                (rf"\log {quantity_tex(n)}", g.log) if g.leading else (quantity_tex(n), g.expr) for n, g in one.laws
            ]
            laws += [(tex(e.lhs), e.rhs) for e in one.equations]
            blocks.append(aligned(laws, (f"{one.regime} ({one.basin})",)))
        return "\\begin{gathered}\n" + conditions_tex(self.region) + " \\\\\n" + joined(blocks) + "\n\\end{gathered}"

    def __str__(self) -> str:
        lines = [", ".join(self.conditions()) or "everywhere"]
        for one in self.regimes:
            lines += [f"  {one.regime} ({one.basin})"] + [f"    {n} ~ {g.text()}" for n, g in one.laws]
            if one.laws:  # else the whole regime is open, as its regime says
                lines += [f"    {n}: not derived here" for n in self.asked if n not in dict(one.laws)]
            lines += [f"    {equation(e)}" for e in one.equations]
        return wrapped("\n".join(lines))


def equation(e: sp.Eq) -> str:
    """An equation of a limit in t as text."""
    left = f"{e.lhs.expr}".replace("(t)", "'(t)") if isinstance(e.lhs, sp.Derivative) else str(e.lhs)
    return f"{left} = {e.rhs}"


@dataclass(frozen=True)
class ScheduledLaw(Result):
    """How one quantity of a residual network behaves after l → ∞ blocks whose variances fall as powers of l.

    growth: the law; regime: which balance holds, in words; basin: the starts it holds for. As in a `DepthLaw`, the
    quantity is C·l^exponent·exp(rate·l^rate_power) up to logarithms. Where variances fall with the number of blocks L,
    too (a `Schedule` with total=), laws are in L at l = tL, equations those of k(t) and j(t) in them.

    corrections: with `order`, the factor 1 + … of terms that vanish and what is left out. Where the start enters K as a
    correction, C is the coefficient of its power of l in K; C_K is the C of K in the law of another quantity.

    >>> theory = derive("relu", architecture="full_residual", beta_v=1)
    >>> theory.depth_law("K", sigma_w=1, sigma_v=1, sigma_a=0).expr
    C*sqrt(l)
    """

    quantity: str
    growth: Growth
    regime: str
    basin: str
    equations: tuple[sp.Eq, ...] = ()
    corrections: Corrections | None = None

    columns = ("quantity", "exponent", "rate", "rate_power", "regime", "basin")

    def data(self) -> dict[str, Any]:
        """The law as plain values, as that of a `DepthLaw`: quantity ~ C l^exponent exp(rate l^rate_power)."""
        found: dict[str, Any] = {"of": self.quantity, "law": self.text(), "latex": self.latex(), "regime": self.regime}
        if self.corrections is not None:
            found |= {"left_out": plain(self.corrections.left_out), "onset": plain(self.onset)}
        return found | {n: plain(getattr(self, n)) for n in ("basin", "rate", "rate_power", "exponent")}

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
        """The law as an expression in l, without what vanishes beside it; C depends on the start. What is left out of
        log X and grows stands in the exponential as o(·)."""
        more = self.corrections
        if self.growth.leading and more is not None:  # its parts are terms of log X
            left = sp.S.Zero if more.left_out is None else big_o(more.left_out, self.growth.of, sp.oo)
            return sp.exp(sp.Add(*more.parts(), left))
        return self.growth.expr * (1 if more is None else more.expr)

    @property
    def law(self) -> Law:
        """The law as a `Law`, a sum of terms in l. Raises: MeanFieldError where it is none (`expr` is the law then)."""
        more = self.corrections
        if more is None or self.growth.leading:
            return self.growth.law
        small = more.law(self.growth.terms)
        if small is None:
            raise MeanFieldError(f"{self.text()} holds powers of log(log(l)), and so is no Law; take its `expr`.")
        if more.omitted is not None and more.omitted[2] == 0:
            small = replace(small, remainder=more.omitted[0], remainder_logs=more.omitted[1])
        front = replace(self.growth.law, remainder="zero")
        return front * small

    def __call__(self, value: object = None, **named: object) -> sp.Expr:
        """`at`."""
        return self.at(value, **named)

    def at(self, value: object = None, **named: object) -> sp.Expr:
        """The quantity at one l (or L), without what is left out; named: values of l, C and other symbols.

        Raises: MeanFieldError for a place at which the law says nothing yet (`Law.require`), and where terms of log X
        that grow are left out.

        >>> from meanfield import derive
        >>> law = derive("tanh", residual=True).depth_law("K", sigma_w=1, sigma_b=0, order=3)
        >>> print(round(law.at(10**4, C=0), 3), round(float(law.law.at(10**4, C=0)), 3))
        9834.560 9834.56
        """
        x = self.growth.of
        given: dict[str, object] = named if value is None else {x.name: value, **named}
        if x.name not in given or (value is not None and x.name in named):
            raise MeanFieldError(f"The value of a law is not available: give {x.name} once, as in at(100).")
        depth = float(number(given.pop(x.name), x.name))
        if depth <= 1:
            raise MeanFieldError(f"{x.name} must be > 1, but {depth:g} was given.")
        missing = sorted(self._symbols - set(given))
        if missing:
            raise MeanFieldError(f"{missing[0]} has no value; give it, as in at({value}, {missing[0]}=1).")
        solved = sorted(str(f.func) for f in (self.growth.constant or sp.S.One).atoms(AppliedUndef))
        if solved:
            raise MeanFieldError(
                f"The value of a law is not available: it holds {', '.join(solved)}, which the equations beside it "
                "define; follow it with propagate(...)."
            )
        found = float(self.log_at(math.log(depth), given))
        if math.isnan(found) and self.corrections is not None:  # the logarithm of what is below 0
            since = "" if self.onset is None else f"; they fall in their order beyond {x.name} = {self.onset:.4g}"
            raise MeanFieldError(
                f"This law says nothing at {x.name} = {depth:g}: its further terms exceed the first{since}."
            )
        log = sp.exp(sp.Float(found))
        free = self.growth.constant is None and "C" not in given
        return log * CONSTANT if free else log

    @property
    def _symbols(self) -> set[str]:
        """The names that need values, but for a C that is a factor."""
        numbers = [e for key, c in self.growth.terms for e in (*key, c)] + [self.growth.constant or sp.S.One]
        numbers += [] if self.corrections is None else [e for k, c in self.corrections.terms for e in (*k, c)]
        return {s.name for e in numbers for s in sp.sympify(e).free_symbols}

    def plot(self, ax: Axes | None = None) -> Axes:
        """The law against l, from its onset over two decades, C = 1 where the start decides it; returns the Axes."""
        ones: dict[str, Any] = dict.fromkeys(("C", *(n for n in self._symbols if n.startswith("C"))), 1)
        return plot_law(lambda x: float(self.at(x, **ones)), self.onset or 1.0, self.quantity, ax)

    @property
    def onset(self) -> float | None:
        """The least l from which on the further terms fall in their order; None without such, or where symbols decide
        it."""
        found = None if self.corrections is None else self.corrections.law(self.growth.terms)
        return None if found is None else found.onset

    def log_at(self, t: float, values: Mapping[str, object] | None = None, leading: bool = False) -> float:
        """log X at log l = t > 1, in floats; C, where it is a factor without a value, counts as 1; nan where the terms
        are too large yet for 1 + … to be positive.

        values: numbers by name for C, C_K and for σ's that were left symbols; leading: whether the known terms will do
        where log X has further ones that grow. Raises: MeanFieldError where it has, and they were not asked for, and
        where the further terms say nothing yet (`Law.require`).
        """
        given, more = dict(values or {}), self.corrections
        numbers = [e for _, e in self.growth.terms] + [self.growth.constant or sp.S.One]
        numbers += [] if more is None else [e for k, c in more.terms for e in (*k, c)]
        free = {s for e in numbers for s in sp.sympify(e).free_symbols}
        swap = {s: number(given[s.name], s.name) for s in free if s.name in given}
        if more is not None and (found := more.law(self.growth.terms, swap)) is not None:
            found.require(sp.exp(t), swap)
        small = 0.0 if more is None else more.at(t, swap)
        log = self.growth.log_at(t, swap, leading) + (math.log1p(small) if small > -1 else math.nan)
        factor = given.get("C") if self.growth.constant is None else None
        return log if factor is None else log + math.log(value_of(number(factor, "C")))

    def latex(self) -> str:
        r"""The law as LaTeX for math mode (amsmath)."""
        name, more, front = quantity_tex(self.quantity), self.corrections, self.growth.expr
        rows: list[tuple[str, object]] = [(name, front)]
        if self.growth.leading:
            rows = [(rf"\log {name}", self.growth.log if more is None else more)]
        elif more is not None:
            rows = [(name, front * sp.Symbol("r")), ("r", more)]
        rows += [(tex(e.lhs), e.rhs) for e in self.equations]
        late = onset_text(self.onset, self.growth.of)
        return aligned(rows, (f"{self.regime} ({self.basin})", *[late] * bool(late)))

    def __repr__(self) -> str:
        begins = onset_mark(self.onset, self.growth.of)
        return one_line("ScheduledLaw", f"{begins}{self.quantity} ~ {self.text()}; {self.regime}")

    def text(self) -> str:
        """The law on one line, every number as it is."""
        more = self.corrections
        if more is None:
            return self.growth.text()
        return f"exp({more.text()})" if self.growth.leading else f"{self.growth.expr}*({more.text()})"

    def __str__(self) -> str:
        more, where = self.corrections, f"({self.regime}; {self.basin})"
        if more is None:
            lines = [f"{self.quantity} ~ {self.growth.text()}   {where}"]
            if self.growth.has_root and not self.growth.leading:
                lines.append(f"{self.quantity} ~ {sp.N(self.expr, 10)}")
            lines += [f"  {equation(e)}" for e in self.equations]
            return wrapped("\n".join(lines))
        (front, left, *parts), numbers = named([self.growth.expr, more.left_out or sp.S.Zero, *more.parts()])
        text = more.text(parts, left)
        body = f"exp({text})" if self.growth.leading else f"{front}*({text})"
        late = onset_text(self.onset, self.growth.of)
        told = [f"  {where}", *(f"  where {n}" for n in numbers), *[f"  {late}"] * bool(late)]
        return wrapped("\n".join([f"{self.quantity} ~ {body}", *told]))


@dataclass(frozen=True)
class MatchingRegions(Result):
    """Where a phase table has the behaviour that was asked for: regions, and a simple point in the largest; `reason`
    says why there are none."""

    regions: tuple[Cell, ...]
    point: dict[str, sp.Rational] | None
    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.regions)

    def __repr__(self) -> str:
        if not self.regions:
            return one_line("Found", f"empty: {self.reason}")
        where = "no simple point" if self.point is None else ", ".join(f"{k} = {v}" for k, v in self.point.items())
        return one_line("Found", f"{len(self.regions)} regions; {where}")

    def __str__(self) -> str:
        return wrapped(f"empty: {self.reason}" if not self.regions else repr(self))


@dataclass(frozen=True)
class PhaseTable(Result):
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

    >>> table = derive("relu", architecture="full_residual", beta_v="beta_v").phase_table("K")
    >>> len(table)
    6
    """

    branch: Branch
    quantities: tuple[str, ...]
    tree: PartitionNode
    definitions: tuple[tuple[sp.Symbol, sp.Expr], ...] = ()

    def data(self) -> dict[str, Any]:
        """Quantities, coordinates, definitions and rows as plain values."""
        return {
            "quantities": list(self.quantities),
            "coordinates": list(self.coordinates),
            "definitions": {s.name: str(e) for s, e in self.definitions},
            "rows": [row.data() for row in self.rows],
        }

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of the free parameters."""
        return tuple(s.name for s in self.tree.cell.coordinates)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        return tuple(Row(one.cell, one.laws, self.quantities) for one in regions(self.tree))

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @validated
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
        region: Any = node.found
        found, cell = region.laws, region.cell
        undecided = any(e.has(sp.Max, sp.Min) for one in found for _, g in one.laws for _, e in g.terms)
        known = all(len(one.laws) == len(self.quantities) for one in found)
        lost = not known and (self.branch.knows_depth or not self.branch.subs(given).symbols)
        if any(one.conditional for one in found):
            lost = not self.branch.subs(given).symbols
        if undecided or lost or not found[0].laws:
            return Row(cell, laws_at(self.branch.subs(given), self.quantities), self.quantities)
        swap = {s: e.subs(given) for s, e in self.definitions} | given
        return Row(cell, tuple(one.at(swap) for one in found), self.quantities)

    @validated
    def where(self, **behaviours: str) -> MatchingRegions:
        """The regions where every quantity named behaves as said, for every start: "grows" (→ ∞), "vanishes" (→ 0),
        "constant", "bounded" (one of the last two) or "at least constant".

        Brackets of a quantity's name are left out: G_w1 for G_w[1]. Regions whose laws are not known are left out; the
        answer is false where none is left, and its `reason` says why.
        """
        asked = {}
        for name, behaviour in behaviours.items():
            full = f"{name[:-1]}[{name[-1]}]" if name[-1:].isdigit() else name
            if full not in self.quantities:
                raise MeanFieldError(f"{shown(name)} is not in this table; it has {', '.join(self.quantities)}.")
            choice(behaviour, name, tuple(BEHAVIOURS))
            asked[full] = BEHAVIOURS[behaviour]

        having = sorted(self._having(asked), key=lambda c: len(c.equal))
        point = having[0].point() if having else None
        found = None if point is None else {s.name: v for s, v in point.items()}
        return MatchingRegions(tuple(having), found, "" if having else self._why_not(asked))

    def _having(self, asked: Mapping[str, tuple[int, ...]]) -> list[Cell]:
        """The regions where every quantity goes one of the ways asked for, 1 (→ ∞), 0 or -1 (→ 0)."""

        def holds(here: Cell, found: tuple[Laws, ...]) -> bool:
            known = all({n for n, _ in one.laws} >= set(asked) for one in found)
            return known and all(direction(one[n], here) in signs for one in found for n, signs in asked.items())

        found: list[Cell] = []
        for row in self.rows:
            split = partition(row.region, lambda here, row=row: holds(here, row.regimes))  # type: ignore[misc]
            found += [part.cell.reduced() for part in split.leaves() if part.found]
        return found

    def _why_not(self, asked: Mapping[str, tuple[int, ...]]) -> str:
        """Why nowhere in the table all quantities go the ways asked for: the first that is alone in its way, or what
        it does where the others do as asked."""
        words = {1: "grows", 0: "stays of order 1", -1: "vanishes"}
        held: dict[str, tuple[int, ...]] = {}
        for name, signs in asked.items():
            if self._having(held | {name: signs}):
                held[name] = signs
                continue
            does = [words[s] for s in (1, 0, -1) if s not in signs and self._having(held | {name: (s,)})]
            wanted = " or ".join(words[s] for s in signs)
            where = " and ".join(f"{n} {' or '.join(words[s] for s in regime)}" for n, regime in held.items())
            scope = f"wherever {where}" if held else "in every row"
            if not does:
                return f"no row has a law of {name} for every start" + (f" {scope}" if held else "")
            theorem = ""
            if {name, *held} >= {"J", "distance"} and name in ("J", "distance"):
                theorem = "; the distance of two inputs over that after the first block is at most J, for every φ"
            aside = any(len(row.regimes) > 1 or not row.regimes[0].laws for row in self.rows)
            left = "; rows that are open or where the start decides are left aside" if aside else ""
            return f"{name} {' or '.join(does)} {scope}, so it {wanted} nowhere{theorem}{left}"
        return "no region is left"

    def orders(self) -> PhaseOrders:
        """The same up to constant factors, one row for each law: where exponents f and g meet, max(f, g)."""
        return self._orders

    @cached_property
    def _orders(self) -> PhaseOrders:
        return PhaseOrders(self.quantities, tuple(grouped(self.tree)), self.branch, self.definitions)

    def proof(self) -> str:
        """The questions, indented: each splits its region by the sign of a form, no sign that can occur is left out, so
        the rows cover the parameter space and are disjoint."""
        return wrapped("\n".join(_tree_lines(self.tree, 0)))

    def plot(self, x: str, y: str, ax: Axes | None = None, **rest: object) -> Axes:
        """A map of the rows over two coordinates, the others at numbers (needs matplotlib: meanfield[plot])."""
        from meanfield.presentation.phase_maps import plot_phase_table

        return plot_phase_table(self, x, y, rest, ax)

    def latex(self) -> str:
        r"""Every row as LaTeX (amsmath): one display, which breaks between rows at the end of a page."""
        return displays(self.definitions, self.rows)

    def _math(self) -> str:
        return rows_tex(self.definitions, self.rows)

    def __repr__(self) -> str:
        return one_line("PhaseTable", f"{', '.join(self.quantities)}; {len(self)} rows")

    def __str__(self) -> str:
        return rows_text(self.definitions, self.rows)


_RELATIONS = {(1,): "> 0", (0,): "= 0", (-1,): "< 0", (1, 0): ">= 0", (0, -1): "<= 0"}


def _tree_lines(node: PartitionNode, depth: int) -> list[str]:
    pad, found = "  " * depth, node.found
    if node.form is None:
        return [pad + "; ".join(f"{one.regime} ({one.basin})" for one in found.laws)]  # type: ignore[attr-defined]
    out = []
    for signs, part in node.parts:
        out += [f"{pad}{node.form} {_RELATIONS[signs]}", *_tree_lines(part, depth + 1)]
    return out


@lru_cache(maxsize=64)
def phase_table(branch: Branch, asked: tuple[str, ...]) -> PhaseTable:
    """The table of a branch, whose parameters may be numbers or symbols; see `PhaseTable`."""
    quantities = named_quantities(asked)
    return PhaseTable(branch, quantities, *phase_tree(branch, quantities))


def higher_order_law_of(branch: Branch, asked: str, order: int) -> ScheduledLaw:
    """The law of one quantity with `order` further terms; every exponent of the branch must be a number."""
    if branch.norm or branch.knows_depth:
        where = "behind a LayerNorm" if branch.norm else "where variances fall with the total depth (total=)"
        raise MeanFieldError(f"Further terms (order={order}) are not derived {where}; leave order out.")
    (name,) = named_quantities((asked,))[:1]
    if name not in ("K", "K[1]"):
        _ = branch.slope  # refused where it is infinite
    solver = Solver(branch, At({}), name not in ("K", "K[1]"))
    regimes = solver.regimes()
    if len(regimes) > 1:
        basins = "; ".join(f"{one.regime} ({one.basin})" for one in regimes)
        raise MeanFieldError(f"The start decides between {len(regimes)} laws of {asked} here: {basins}.")
    (regime,) = regimes
    lead = laws_of(regime, solver, (name,))[name]
    if name in PAIR:
        law, corrections = higher_order_pair(branch, regime, pair_laws(solver, regime), name, lead, order)
    else:
        law, corrections = higher_order_law(branch, regime, name, lead, order)
    return ScheduledLaw(name, law, regime.regime, regime.basin, corrections=corrections)
