"""Phase tables up to constant factors: as few rows as there are laws, printed as theorems have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sympy as sp

from meanfield.base.answers.export import Result
from meanfield.base.answers.latex import aligned, joined
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.base.arguments import shown, validated
from meanfield.presentation.phase_regions import (
    conditions,
    conditions_tex,
    displays,
    place,
    quantity_tex,
    rows_tex,
    rows_text,
)
from meanfield.symbolic.asymptotics.exponent_cells import Cell
from meanfield.symbolic.asymptotics.log_growth import CONSTANT, Growth
from meanfield.symbolic.asymptotics.schedules.branch import Branch
from meanfield.symbolic.asymptotics.tables.phase_tree import Laws, laws_at


@dataclass(frozen=True)
class OrderRow(Result):
    """One law up to constant factors, and where it holds: the union of `regions`, which may overlap."""

    regions: tuple[Cell, ...]
    regimes: tuple[Laws, ...]
    quantities: tuple[str, ...] = ()

    def __getitem__(self, quantity: str) -> Growth:
        """The law of a quantity, where only one is possible. Raises: MeanFieldError where the start decides."""
        if len(self.regimes) > 1:
            raise MeanFieldError(
                f"The start decides between {len(self.regimes)} laws of {quantity} here; see `regimes`."
            )
        return self.regimes[0][quantity]

    def data(self) -> dict[str, Any]:
        """The regions, and for each case of the start its regime, basin and laws, as plain values."""
        cases = [
            {"regime": one.regime, "basin": one.basin, "laws": {n: order(n, g) for n, g in one.laws}}
            for one in self.regimes
        ]
        return {"regions": self.conditions(), "cases": cases}

    def cells(self) -> dict[str, Any]:
        """The regions and the law of every quantity as text; what the start decides is joined by "or"."""
        laws = {n: [order(n, g) for one in self.regimes for m, g in one.laws if m == n] for n in self.quantities}
        named = {n: " or ".join(dict.fromkeys(found)) or None for n, found in laws.items()}
        return {"region": " or ".join(", ".join(one) for one in self.conditions()), **named}

    def conditions(self) -> list[list[str]]:
        """The regions in text, without β ≥ 0 and S > 0, which hold throughout."""
        return [[f"{a} {sign} {b}" for a, sign, b in conditions(cell)] for cell in self.regions]

    def __str__(self) -> str:
        where = [", ".join(one) for one in self.conditions()]
        lines = [("   or " if i else "") + (one or "everywhere") for i, one in enumerate(where)]
        for one in self.regimes:
            if len(self.regimes) > 1 or not one.laws:
                lines.append(f"  {one.basin}:" if one.laws else f"  {one.regime}")
            lines += [f"  {order(n, g)}" for n, g in one.laws]
            known = {n for n, _ in one.laws}
            lines += [f"  {n}: not derived here" for n in self.quantities if one.laws and n not in known]
        return wrapped("\n".join(lines))

    def latex(self) -> str:
        r"""Regions and laws as LaTeX for math mode (amsmath)."""
        where = r" \\ \text{or}\; ".join(map(conditions_tex, self.regions))
        blocks = []
        for one in self.regimes:
            many = len(self.regimes) > 1 or not one.laws
            laws = [_equation(n, g) for n, g in one.laws]
            blocks.append(aligned(laws, (one.basin if one.laws else one.regime,) if many else ()))
        return "\\begin{gathered}\n" + where + " \\\\\n" + joined(blocks) + "\n\\end{gathered}"


def _size(g: Growth) -> tuple[sp.Expr, int]:
    """What X, or |log X| where only its leading term is known, is of the order of, and the sign of log X there."""
    if g.leading:
        (key, c), *_ = g.stretched
        return Growth(((key, sp.S.One),), of=g.of).log, int(c)
    return g.expr.subs(CONSTANT, 1), 1


def order(name: str, g: Growth) -> str:
    """One law on a line: K = Θ(...), or log J = Θ(...) where only its leading term is known."""
    size, sign = _size(g)
    return f"{'log ' if g.leading else ''}{name} = {'-' if sign < 0 else ''}Θ({size})"


def _equation(name: str, g: Growth) -> tuple[str, sp.Expr]:
    size, sign = _size(g)
    letter, theta = quantity_tex(name), sp.Function(r"\Theta")(size)
    return (rf"\log {letter}" if g.leading else letter), -theta if sign < 0 else theta


@dataclass(frozen=True)
class PhaseOrders(Result):
    """A phase table up to constant factors, one row for each law: rows cover the parameter space and are disjoint.

    X = Θ(f) means that X/f stays between two positive constants, log X = Θ(f) the same of log X. A max or min whose
    arguments hold σ's or numbers like 2/π, over which regions are not cut, says nothing of where two of them are equal:
    a logarithm may be missing there (`PhaseTable.at` derives anew or refuses). Iterate for rows.

    Source: `PhaseTable`, joined by what elimination proves (`symbolic/asymptotics/tables/row_orders`).
    """

    quantities: tuple[str, ...]
    groups: tuple[tuple[tuple[Cell, ...], tuple[Laws, ...]], ...]
    branch: Branch
    definitions: tuple[tuple[sp.Symbol, sp.Expr], ...] = ()

    def data(self) -> dict[str, Any]:
        """Quantities and rows as plain values."""
        named = {s.name: str(e) for s, e in self.definitions}
        return {"quantities": list(self.quantities), "definitions": named, "rows": [row.data() for row in self.rows]}

    @property
    def rows(self) -> tuple[OrderRow, ...]:
        return tuple(OrderRow(*group, self.quantities) for group in self.groups)

    def __iter__(self) -> Iterator[OrderRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.groups)

    @validated
    def at(self, **values: object) -> OrderRow:
        """The row of one place, its laws with the numbers put in; values as in `PhaseTable.at`.

        Where q may rest at V = 1 beside a source, numbers of all σ's say where it does; without them the row keeps all
        that may stand there (`Laws.conditional`).

        Raises: MeanFieldError for values that are missing, unknown, or outside of the table.
        """
        coordinates = self.groups[0][0][0].coordinates
        given = place(values, coordinates, self.branch.symbols, self.definitions)
        missing = [s.name for s in coordinates if s not in given]
        if missing:
            raise MeanFieldError(f"A place in a table of orders needs numbers for {', '.join(missing)}.")
        for cells, regimes in self.groups:
            if any(cell.contains(given) for cell in cells):
                if any(one.conditional for one in regimes) and not self.branch.subs(given).symbols:
                    return OrderRow(cells, laws_at(self.branch.subs(given), self.quantities), self.quantities)
                return OrderRow(cells, tuple(one.at(given) for one in regimes), self.quantities)
        raise MeanFieldError(f"The place {shown(values)} is outside of the table: exponents are ≥ 0 and σ's > 0.")

    def latex(self) -> str:
        r"""Every row as LaTeX (amsmath): one display, which breaks between rows at the end of a page."""
        return displays(self.definitions, self.rows)

    def _math(self) -> str:
        return rows_tex(self.definitions, self.rows)

    def __repr__(self) -> str:
        return one_line("PhaseOrders", f"{', '.join(self.quantities)}; {len(self)} rows")

    def __str__(self) -> str:
        return rows_text(self.definitions, self.rows)
