"""Regions and quantities of phase tables in text and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import sympy as sp

from meanfield.base.answers.latex import aligned, joined, tex
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import meant, scalar, shown
from meanfield.base.tex.width import column, width
from meanfield.functions.reading.parser import number
from meanfield.symbolic.asymptotics.exponent_cells import Cell

Definitions = tuple[tuple[sp.Symbol, sp.Expr], ...]


class Printable(Protocol):
    """A row of a table."""

    def latex(self) -> str: ...


def conditions(cell: Cell) -> list[tuple[sp.Expr, str, sp.Expr]]:
    """What defines a region as (left, relation, right), without β ≥ 0 and S > 0, which hold throughout."""
    out = []
    for forms, relation in ((cell.equal, "="), (cell.strict, ">"), (cell.weak, ">=")):
        for e in map(cell.expr, forms):
            if e.is_Symbol and relation != "=" and (relation == ">=") == e.name.startswith(("beta", "total")):
                continue
            up = sp.Add(*[t for t in sp.Add.make_args(e) if not t.could_extract_minus_sign()])
            down, sign = up - e, relation
            if (up.is_number and not down.is_number) or (up == 0 and relation == "="):
                up, down, sign = down, up, relation.replace(">", "<")
            out.append((up, sign, down))
    return out


def conditions_tex(cell: Cell) -> str:
    """The same in LaTeX, as rows of `gathered`."""
    signs = {">=": r"\ge", "<=": r"\le"}
    where = [f"{tex(up)} {signs.get(sign, sign)} {tex(down)}" for up, sign, down in conditions(cell)]
    rows: list[str] = []
    for one in where:  # a comma parts them, or a line ends where the next one does not fit
        longer = rf"{rows[-1]},\; {one}" if rows else one
        if rows and width(longer) > column().width - 12:
            rows[-1] += ","
            rows.append(one)
        else:
            rows[-1:] = [longer]
    return " \\\\\n".join(rows) or r"\text{everywhere}"


FISHER_TEX = r"\frac{\max F_{ii}}{\min F_{ii}}"


LETTERS = {
    "K": "K", "J": "J", "fisher": FISHER_TEX, "distance": r"\Delta", "gamma": r"\gamma", "c": "c", "K_ab": "K_{ab}"
}


def quantity_tex(name: str) -> str:
    """A quantity of a phase table in LaTeX."""
    stem, _, index = name.partition("[")
    letter = LETTERS.get(stem) or rf"G_{{{stem[2:]}}}"
    return (
        rf"{letter}_{{{index[:-1]}}}" if index and stem == "K" else f"{letter}^{{({index[:-1]})}}" if index else letter
    )


def place(
    values: Mapping[str, object],
    coordinates: tuple[sp.Symbol, ...],
    symbols: tuple[sp.Symbol, ...],
    definitions: Definitions,
) -> dict[sp.Symbol, sp.Expr]:
    """A place of a table by its symbols, exact (0.1 is 1/10). Raises: MeanFieldError for values of no parameter, and
    for values that contradict each other."""
    known = {s.name: s for s in (*coordinates, *symbols)}
    extra = sorted(set(values) - set(known))
    if extra:
        raise MeanFieldError(f"{extra[0]} is not a parameter of this table.{meant(extra[0], sorted(known))}")
    for n, v in values.items():
        scalar(v, n)
    given = {known[n]: number(v, n) for n, v in values.items()}
    for s in symbols:
        if s not in coordinates and given.get(s, sp.S.One).is_nonpositive:
            raise MeanFieldError(
                f"{s} = {shown(given[s])} is outside of the table, whose σ's are > 0 (phase_table({s}=0): that of 0)."
            )
    for s, e in definitions:
        size = e.subs(given)
        if size.is_number and given.setdefault(s, size) != size:
            raise MeanFieldError(f"{s} = {shown(given[s])} was given beside σ's that make it {shown(size)}.")
    return given


def rows_text(definitions: Definitions, rows: Iterable[object]) -> str:
    """A table as text: what its coordinates stand for, then its rows by number."""
    return "\n".join([*(f"{s} = {e}" for s, e in definitions), *(f"row {i}\n{row}" for i, row in enumerate(rows, 1))])


def displays(definitions: Definitions, rows: Iterable[Printable]) -> str:
    """The same as a display of amsmath that breaks between rows at the end of a page."""
    parts = [*(aligned([(tex(s), e)]) for s, e in definitions), *(row.latex() for row in rows)]
    return "{\\allowdisplaybreaks\n\\begin{gather*}\n" + "\n\\\\[6pt]\n".join(parts) + "\n\\end{gather*}}"


def rows_tex(definitions: Definitions, rows: Iterable[Printable]) -> str:
    """The same in LaTeX for math mode (amsmath)."""
    return joined([*(aligned([(tex(s), e)]) for s, e in definitions), *(row.latex() for row in rows)])
