"""Critical lines, critical points, fixed points and phases as table rows, JSON values and a map in characters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import sympy as sp

from meanfield.base.answers.export import plain
from meanfield.base.answers.results import Solution, Status
from meanfield.base.leading import Registry
from meanfield.cli.terminal import output as out
from meanfield.presentation.tables import TableRow, tex
from meanfield.symbolic.asymptotics.depth import DepthLaw
from meanfield.symbolic.criticality.critical_lines import CriticalLine
from meanfield.symbolic.criticality.critical_points import CriticalPoint, CriticalPoints
from meanfield.symbolic.criticality.order_chaos import OrderChaosLine
from meanfield.symbolic.criticality.phases import Phase
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoints

DIGITS = 13  # of a certified number in a table; the JSON document holds all
MAP = (60, 20)  # characters of a map of phases
MARKS = "o#="  # in the order of diagrams.PHASES
SPLIT_MARKS = "O@%"  # the same where other input norms end elsewhere


# -------------------------------------------------------------------------------------------------------- table rows


@dataclass(frozen=True)
class Wording:
    """A table value with its own LaTeX."""

    text: str
    tex: str

    def __str__(self) -> str:
        return self.text

    def latex(self) -> str:
        return self.tex


def rounded(e: Any) -> Any:
    """An expression whose decimals have `DIGITS` digits."""
    if not isinstance(e, sp.Basic):
        return e
    return e.xreplace({f: _decimal(f) for f in e.atoms(sp.Float)})


def _decimal(value: sp.Expr) -> sp.Expr:
    return sp.Float(value, DIGITS)


def _digits(found: Solution) -> Any:
    """A number as decimals, or as it is where those say less."""
    value = found.value
    if value == sp.oo:
        return Wording("infinite", r"\infty")
    return value if value is sp.nan or value.is_Rational or value.free_symbols else _decimal(sp.N(value, 20))


def _shown(name: str, found: Solution, section: str, symbol: str) -> list[TableRow]:
    """A number as a row; an exact one that does not show its size is followed by its digits."""
    value = found.value
    if value == sp.oo or value is sp.nan:
        return [TableRow(section, name, _digits(found), symbol, found.message)]
    if found.status is not Status.EXACT:
        return [TableRow(section, name, rounded(value), symbol)]
    rows = [TableRow(section, name, value, symbol)]
    number, rest = value.as_independent(*value.free_symbols, as_Add=False)
    if not number.is_Rational:
        rows.append(TableRow(section, f"{name}, in digits", _decimal(sp.N(number, 20)) * rest, symbol))
    return rows


#: the rows of a line, by its type
LINES: Registry[type, Callable[[Any, str], list[TableRow]]] = Registry()
SECTIONS = {True: "Critical line (chi_J* = 1)", False: "Order and chaos of tokens"}  # by whether it has points


def line_rows(line: Any) -> list[TableRow]:
    """The critical line as table rows."""
    section = SECTIONS[line.has_points]
    if line.kind in ("everywhere", "none", "unknown"):
        where = Wording(line.kind, rf"\text{{{line.kind}}}")
        condition = r"\chi_J^\ast = 1" if line.has_points else r"\text{line}"
        return [TableRow(section, "line", where, condition, line.message)]
    return LINES[type(line)](line, section)


@LINES.adds(OrderChaosLine)
def _condition(line: OrderChaosLine, section: str) -> list[TableRow]:
    return [TableRow(section, "0", line.condition, "0", f"ordered where < 0; {line.message}")]


@LINES.adds(CriticalLine)
def _curve(line: CriticalLine, section: str) -> list[TableRow]:
    values = [
        (name, e, symbol)
        for name, e, symbol in (("sigma_w", line.sigma_w, r"\sigma_w"), ("sigma_b", line.sigma_b, r"\sigma_b"))
        if e is not None
    ]
    rows = [TableRow(section, name, rounded(e), symbol) for name, e, symbol in values]
    if line.kind != "parametric" and not values[-1][1].free_symbols and not values[-1][1].is_Rational:
        name, e, symbol = values[-1]
        rows.append(TableRow(section, f"{name}, in digits", _decimal(sp.N(e, 20)), symbol))
    return [*rows[:-1], replace(rows[-1], remark=line.message)]


def point_rows(found: CriticalPoints) -> list[TableRow]:
    """Every critical point as table rows, and what is known of others."""
    rows: list[TableRow] = []
    for i, p in enumerate(found, 1):
        section = f"Critical point {i if len(found) > 1 else ''}".rstrip() + f" ({_kind(p)})"
        if p.K.value.free_symbols:
            rows.append(TableRow(section, "K*", Wording("any K", r"\text{any } K"), r"K^\ast", p.K.message))
        else:
            rows += _shown("K*", p.K, section, r"K^\ast")
        rows += _shown("sigma_w", p.sigma_w, section, r"\sigma_w") + _shown("sigma_b", p.sigma_b, section, r"\sigma_b")
        if p.zeta_K is not None and p.kind not in ("scale-invariant", "logarithmic"):
            rows.append(TableRow(section, "zeta_K", p.zeta_K, r"\zeta_K", "K^l - K* falls like l^(-zeta_K)"))
        if p.zeta is not None:
            rows += _shown("zeta", p.zeta, section, r"\zeta")
            rows[-1] = replace(rows[-1], remark="J^(1,l) goes like l^(-zeta)")
        for quantity, law in (("K", p.law_K), ("J", p.law_J)):
            if law is not None:
                plain = all(t.coefficient.is_Rational for t in law.law.terms if t.coefficient.is_number)
                rows += out.law_rows(quantity, _short(law), section, digits=not plain)
    number = sp.Integer(len(found))
    return [
        *rows,
        TableRow("All critical points", "isolated points", number, r"\text{isolated points}", _status(found)),
    ]


def _status(found: CriticalPoints | FixedPoints) -> str:
    return f"{found.status.value}: {found.message}"


def _kind(p: CriticalPoint) -> str:
    return f"{p.kind}, {p.side}" if p.side else p.kind


def _short(law: DepthLaw) -> DepthLaw:
    """The same law with decimals of `DIGITS` digits."""
    terms = tuple(replace(t, coefficient=rounded(t.coefficient)) for t in law.law.terms)
    return replace(law, terms=terms)


def fixed_rows(found: FixedPoints, at: str) -> list[TableRow]:
    """Every fixed point at one place as table rows."""
    rows: list[TableRow] = []
    for i, p in enumerate(found, 1):
        section = f"Fixed point {i if len(found) > 1 else ''}".rstrip() + f" at {at} ({p.stability}, {p.phase})"
        if p.K.value.free_symbols:
            rows.append(TableRow(section, "K*", Wording("any K", r"\text{any } K"), r"K^\ast", p.K.message))
        else:
            rows += _shown("K*", p.K, section, r"K^\ast")
        rows += _shown("chi_J", p.chi_J, section, r"\chi_J") + _shown("chi_K", p.chi_K, section, r"\chi_K")
        rows.append(TableRow(section, "xi", _layers(p.xi), r"\xi"))
        if p.stability != "neutral":
            rows.append(TableRow(section, "basin", _interval(p.basin), r"K^1"))
    section = f"All fixed points at {at}"
    if found.unbounded:
        rows.append(TableRow(section, "unbounded from", _interval(found.unbounded), r"K^\ell \to \infty:\ K^1"))
    return [*rows, TableRow(section, "number", sp.Integer(len(found)), r"\text{number}", _status(found))]


def phase_rows(phase: Phase | str | None, at: str, norm: sp.Expr) -> list[TableRow]:
    """Where a network with this input ends, as table rows."""
    section = f"Phase at {at}, Q0 = {norm}"
    if not isinstance(phase, Phase):
        return [TableRow(section, "phase", Wording("undecided", r"\text{undecided}"), r"\text{phase}", phase or "")]
    more = "Other input norms end in another state." if phase.bistable else ""
    rows = [TableRow(section, "phase", Wording(phase.name, rf"\text{{{phase.name}}}"), r"\text{phase}", more)]
    if phase.fixed_point is None:
        rows.append(TableRow(section, "K* reached", Wording("none: K grows without bound", r"\infty"), r"K^\ast"))
    elif not phase.fixed_point.K.value.free_symbols:
        rows.append(TableRow(section, "K* reached", _digits(phase.fixed_point.K), r"K^\ast"))
    rows.append(TableRow(section, "chi_J*", _digits(phase.chi_J), r"\chi_J^\ast"))
    return [*rows, TableRow(section, "xi", _layers(phase.xi), r"\xi")]


def _layers(xi: float) -> Wording:
    if xi == float("inf"):
        return Wording("infinite", r"\infty")
    if xi != xi:  # whether chi_J is 1 is not decided
        return Wording("not known", r"\text{not known}")
    return Wording(f"{xi:.{DIGITS}g} layers", rf"{xi:.{DIGITS}g}\text{{ layers}}")


def _interval(ends: tuple[sp.Expr, sp.Expr] | None) -> Wording:
    if ends is None:
        return Wording("no open set of K^1", r"\text{no open set}")
    low, high = (e if e in (sp.oo, 0) or len(str(e)) < DIGITS else _decimal(sp.N(e, 20)) for e in ends)
    return Wording(f"K^1 in ({low}, {high})", rf"\in \left({tex(low)}, {tex(high)}\right)")


# -------------------------------------------------------------------------------------------------------------- JSON


def phase_data(phase: Phase | str) -> dict[str, Any]:
    """Where a network with one K^1 ends, or why that is not decided."""
    return {"name": "undecided", "message": phase} if isinstance(phase, str) else phase.data()


# ---------------------------------------------------------------------------------------------------- phase diagrams


def summary(diagram: Any) -> dict[str, Any]:
    """A phase diagram without its arrays: axes, shares of the points, the derived line."""
    from meanfield.presentation.phase_diagram import PHASES

    lost = _lost(diagram)
    shares = {p: float(((diagram.phase == i) & ~lost).mean()) for i, p in enumerate(PHASES)}
    return {
        **{n: axis_data(getattr(diagram, n)) for n in ("sigma_w", "sigma_b")},
        "shares": {**shares, "unknown": float(lost.mean())},
        "bistable": float(diagram.bistable.mean()),
        "status": Status.MEASURED.value,
        "line": plain(diagram.line),
        "critical_points": plain(diagram.points),
    }


def axis_data(values: Any) -> dict[str, Any]:
    return {"low": float(values[0]), "high": float(values[-1]), "count": int(values.size)}


def _lost(diagram: Any) -> Any:
    """Where χ_J* is not a number."""
    return diagram.chi_J != diagram.chi_J


def phase_map(diagram: Any) -> str:
    """The phases as a map of characters, σ_w to the right and σ_b upwards; a cell with a bistable point shows it."""
    import numpy as np

    phase, twin, lost = diagram.phase, diagram.bistable, _lost(diagram)

    def mark(row: tuple[int, int, int], column: tuple[int, int, int]) -> str:
        found = np.argwhere(twin[row[1] : row[2], column[1] : column[2]])
        i, j = (row[0], column[0]) if not len(found) else (row[1] + found[0][0], column[1] + found[0][1])
        return "?" if lost[i, j] else (SPLIT_MARKS if twin[i, j] else MARKS)[phase[i, j]]

    return character_map(diagram, mark, _legend(diagram))


def character_map(diagram: Any, mark: Callable[..., str], legend: str) -> str:
    """A diagram in characters; mark: of a cell, whose row and column are (centre, first, end) of its points."""
    columns, rows = (_cells(n, size) for n, size in zip((diagram.sigma_w.size, diagram.sigma_b.size), MAP))
    lines = ["  sigma_b"]
    for r in range(len(rows) - 1, -1, -1):
        text = "".join(mark(rows[r], column) for column in columns)
        label = f"{diagram.sigma_b[rows[r][0]]:.4g}" if r in (0, len(rows) // 2, len(rows) - 1) else ""
        lines.append(f"{label:>9} |{text}")
    ends = [f"{v:.4g}" for v in (diagram.sigma_w[0], diagram.sigma_w[-1])]
    gap = " " * (MAP[0] - len(ends[0]) - len(ends[1]))
    lines += [
        " " * 10 + "+" + "-" * MAP[0],
        f"{'':11}{ends[0]}{gap}{ends[1]} sigma_w",
        "",
        out.wrapped(legend),
    ]
    return "\n".join(lines)


def _cells(count: int, size: int) -> list[tuple[int, int, int]]:
    """(centre, first, end) of the points that each of `size` cells stands for; both ends of the axis are centres."""
    centres = [round(i * (count - 1) / (size - 1)) for i in range(size)]
    edges = [0, *((a + b + 1) // 2 for a, b in pairwise(centres)), count]
    return [(c, min(a, c), max(b, c + 1)) for c, a, b in zip(centres, edges, edges[1:])]


def _legend(diagram: Any) -> str:
    from meanfield.presentation.phase_diagram import PHASES

    names = [f"{mark} {name}" for mark, name in zip(MARKS, PHASES)]
    if diagram.bistable.any():
        names.append(f"{' '.join(SPLIT_MARKS[:2])} the same, but other input norms end elsewhere")
    if _lost(diagram).any():
        names.append("? not a number")
    return ", ".join(names)
