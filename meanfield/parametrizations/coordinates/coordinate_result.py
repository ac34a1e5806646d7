"""`CoordinateCheck`: the picture that coordinate checks draw, with the line that it must follow."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from meanfield.base.answers.export import Result
from meanfield.base.answers.plain_text import columns, wrapped
from meanfield.base.arguments import shown
from meanfield.base.errors import MeanFieldError, one_line
from meanfield.base.tex.prose import prose
from meanfield.base.tex.tabular import booktabs
from meanfield.parametrizations.coordinates.coordinate_rows import (
    COLUMNS,
    CoordinateRow,
    Finding,
    where,
    with_allowances,
    written_power,
)
from meanfield.parametrizations.coordinates.coordinate_verdicts import first_of, not_flat, off_the_line
from meanfield.parametrizations.one_parametrization import Parametrization

SHOWN = 5  # layers at either end of a deep network that are printed
MOST = 12  # findings that are printed


@dataclass(frozen=True, eq=False, repr=False)
class CoordinateCheck(Result):
    """What a training step changes at several widths, by theory and in networks; see `coordinate_check`.

    Its items are `CoordinateRow`s. passed: whether networks follow the line everywhere. findings: columns that are
    beside the line; slopes: changes whose line is no constant of the width (or of the depth, where several were asked
    for), which is what the parametrization itself does. rate: the learning rate; steps: after how many steps, of which
    more than one are measured only.

    >>> from meanfield.parametrizations import parametrization
    >>> dead = parametrization("mup", hidden={"rate": "n**(-3/2)"})
    >>> found = coordinate_check("tanh", dead, widths=(64, 128), depth=4, rate=0.01)
    >>> found.passed, str(found.slopes[0])
    (True, 'layer 2: own change falls as n^(-1/2)')
    """

    parametrization: Parametrization
    about: str
    rate: float
    eps: float
    steps: int
    networks: int
    seed: int
    rows: tuple[CoordinateRow, ...]
    message: str = ""
    _spread: dict[tuple, float] = field(default_factory=dict, repr=False)
    _counts: dict[int, int] = field(default_factory=dict, repr=False)

    def __iter__(self) -> Iterator[CoordinateRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(off_the_line(self.rows))

    @property
    def slopes(self) -> tuple[Finding, ...]:
        return tuple(not_flat(self.rows))

    @property
    def passed(self) -> bool:
        return not any(row.is_off for row in self.rows)

    @property
    def verdict(self) -> str:
        """In words: how much is beside the line, and first what departs most with n or L, a Dense's own change before
        what is inherited."""
        if all(row.measured is None for row in self.rows):
            return "theory alone: nothing was measured"
        if self.steps > 1:
            return f"measured after {self.steps} steps, beside the line of the first"
        found = self.findings
        if not found:
            return "networks follow the line"
        if len(found) == 1:
            return f"1 column is beside the line: {found[0].text}"
        return f"{len(found)} columns are beside the line; first: {first_of(found).text}"

    def column(self, name: str, layer: int | None = None, matrix: str | None = None) -> list[CoordinateRow]:
        """The rows of one column ("own", "total", …), of one layer or matrix where it is given."""
        if name not in COLUMNS:
            raise MeanFieldError(
                f"A coordinate check has the columns {', '.join(COLUMNS)}, but {shown(name)} was asked for."
            )
        return [
            row
            for row in self.rows
            if row.column == name and layer in (None, row.layer) and matrix in (None, row.matrix)
        ]

    def compare(self, frame: Any) -> CoordinateCheck:
        """The same line beside numbers that were measured elsewhere: the log of a run.

        frame: a pandas DataFrame, rows as mappings, or the path of a .csv file, with a row for each number: width,
        layer, column and value; depth where several were asked for, matrix ("up", "down") where a layer has several,
        error where it is known, and of how many networks. Numbers are root mean squares over neurons and inputs. A
        number without an error is taken to be of one network, whose spread the networks of this check have shown (10 %
        without them, 1 % at least); several of one place count as several networks.

        >>> from meanfield.parametrizations import parametrization
        >>> line = coordinate_check("tanh", parametrization("mup"), widths=(64, 256, 1024), depth=4, rate=0.01)
        >>> own = [{"width": row.width, "layer": 2, "column": "own", "value": 2 * row.theory}
        ...        for row in line.column("own", layer=2)]
        >>> print(line.compare(own).verdict)
        1 column is beside the line: layer 2: own change is 2 times the line at every width
        """
        from meanfield.parametrizations.coordinates.measured_frames import compared

        return compared(self, frame)

    def with_rows(self, rows: Sequence[CoordinateRow], message: str = "") -> CoordinateCheck:
        """The same line beside other numbers, with what finite width may change; later steps have no line."""
        judged = with_allowances(rows, self._counts)
        if self.steps > 1:
            judged = [replace(row, allowance=math.inf) for row in judged]
        return replace(self, rows=tuple(judged), message=message)

    def data(self) -> dict[str, Any]:
        about = {"about": self.about, "rate": self.rate, "eps": self.eps, "steps": self.steps, "seed": self.seed}
        said = {"networks": self.networks, "passed": self.passed, "verdict": self.verdict, "message": self.message}
        lists = {n: [one.data() for one in getattr(self, n)] for n in ("findings", "slopes")}
        rows = [{**row.data(), "ratio": row.ratio, "is_off": row.is_off} for row in self.rows]
        return {"parametrization": self.parametrization.data(), **about, **said, **lists, "rows": rows}

    def _table(self) -> list[list[str]]:
        """A row for each Dense: its own and its whole change by theory at the largest width, the power of n where they
        are not constant, and networks over theory; of many Dense the first, the last and those that are off."""
        several = len({row.depth for row in self.rows}) > 1
        groups: dict[tuple, dict[str, list[CoordinateRow]]] = {}
        for row in self.rows:
            groups.setdefault((row.depth, row.layer, row.matrix), {}).setdefault(row.column, []).append(row)
        flat = {(one.depth, one.layer, one.matrix, one.column): one for one in self.slopes if one.of == "n"}
        out = [["", "own change", "", "ratio", "total", "", "ratio", ""]]
        left_out = 0
        for (depth, layer, matrix), columns_ in groups.items():
            names = ("Df_readout", "Df") if matrix == "readout" else ("own", "total")
            cells, off = [where(layer, matrix, depth, several)], False
            for name in names:
                last = max(columns_[name], key=lambda row: row.width)
                power = flat.get((depth, layer, matrix, name))
                ratio = "" if last.ratio is None else f"{last.ratio:.3f}±{last.ratio_error or 0:.3f}"
                cells += [f"{last.theory:.3g}", "" if power is None else f"~{written_power('n', power.power)}", ratio]
                off = off or any(row.is_off for row in columns_[name])
            at_an_end = layer <= SHOWN or layer > depth - SHOWN
            if at_an_end and (not several or layer in (1, 2, depth - 1, depth)):
                out.append([*cells, "off" if off else ""])
            else:
                left_out += 1
        return out + ([[f"… {left_out} more", *[""] * 7]] if left_out else [])

    def __str__(self) -> str:
        after = "one step" if self.steps == 1 else f"{self.steps} steps (measured, not predicted)"
        scheme, widths = self.parametrization, sorted({row.width for row in self.rows})
        head = f"Coordinate check of {self.about}, {scheme.name}, {scheme.optimizer}, rate {self.rate:.4g}: {after}"
        head += f"; widths {', '.join(map(str, widths))}, shown at {widths[-1]}"
        lines = [wrapped(head), *("  " + row for row in columns(self._table())), wrapped(f"Verdict: {self.verdict}.")]
        lines += [wrapped(f"  {one}") for one in _merged(self.findings)]
        if self.slopes:
            lines += ["Lines that are not flat:", *(wrapped(f"  {one}") for one in _merged(self.slopes))]
        return "\n".join([*lines, *([wrapped(self.message)] if self.message else [])])

    def __repr__(self) -> str:
        return one_line("CoordinateCheck", f"{self.about}, {self.parametrization.name}: {self.verdict}")

    def latex(self) -> str:
        """The table of lines and ratios as LaTeX (booktabs)."""
        head, *rows = self._table()
        caption = prose(f"Coordinate check of {self.about}, {self.parametrization.name}: {self.verdict}.")
        cells = [[prose(row[0]), *map(_cell, row[1:])] for row in rows]
        return booktabs(caption, head, cells, texts=1)

    def plot(self, ax: Any = None) -> Any:
        """Widths on one axis, sizes on the other: lines of theory, points of networks, a panel for own changes, one for
        total changes, one for the output."""
        from meanfield.parametrizations.coordinates.coordinate_figures import plot_check

        return plot_check(self, ax)


def _cell(text: str) -> str:
    if text.startswith("~"):
        name, _, power = text[1:].partition("^")
        return rf"$\sim {name}$" if not power else rf"$\sim {name}^{{{power.strip('()')}}}$"
    return text.replace("±", r"$\,\pm\,$")


def _merged(findings: Sequence[Finding]) -> list[str]:
    """Their texts, those of one column that differ in the layer alone as one."""
    groups: dict[tuple, list[Finding]] = {}
    for one in findings:
        how = round(one.power, 1) if one.power else round(math.log2(one.factor), 0) if one.factor > 0 else None
        groups.setdefault((one.depth, one.matrix, one.column, one.of, how), []).append(one)
    out = []
    for held in groups.values():
        others = len(held) - 1
        out.append(held[0].text + (f" (and {others} like it)" if others else ""))
    return out[:MOST] + ([f"and {len(out) - MOST} more"] if len(out) > MOST else [])
