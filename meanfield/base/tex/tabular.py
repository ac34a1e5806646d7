"""Tables of numbers and rows of math mode as LaTeX: booktabs, stacked rows, headings, and how wide they are."""

from __future__ import annotations

import re
from collections.abc import Iterable

from meanfield.base.tex.lines import lines
from meanfield.base.tex.prose import prose, wrapped
from meanfield.base.tex.read import UnreadableTex, read
from meanfield.base.tex.width import SIZES, column, measure, text_width

_COLSEP = 6.0  # points: half the space between two columns of a tabular


def decimal(value: float, digits: int = 10) -> str:
    r"""A float in math mode: 1.5\cdot 10^{-7}, \infty, or a dash where it is not a number."""
    value = float(value)
    if value != value:
        return "--"
    if value in (float("inf"), float("-inf")):
        return r"$-\infty$" if value < 0 else r"$\infty$"
    mantissa, _, power = f"{value:.{digits}g}".partition("e")
    return rf"${mantissa} \cdot 10^{{{int(power)}}}$" if power else f"${mantissa}$"


def stacked(rows: Iterable[str]) -> str:
    r"""Rows of math mode as an align* of amsmath; a row wider than a column goes on in further lines."""
    found, limit = [], column().width - 2
    for row in rows:
        words = re.fullmatch(r"\\text\{([^{}]*(?:\\[{}][^{}]*)*)\}", row.strip())
        try:
            found += [rf"\text{{{t}}}" for t in wrapped(words[1], limit)] if words else lines(row.strip(), limit)
        except UnreadableTex:  # a word or a formula of somebody else
            found.append(row.strip())
    return "\\begin{align*}\n& " + " \\\\\n& ".join(found) + "\n\\end{align*}"


def heading(text: str, columns: int) -> str:
    """The one cell of a row that heads the rows below it."""
    return rf"\multicolumn{{{columns}}}{{@{{}}l}}{{\textbf{{{prose(text)}}}}}"


def table_width(rows: list[list[str]]) -> float:
    """Estimated width in points of these cells in a footnotesize tabular; cells over several columns do not count."""
    whole = [r for r in rows if not any("multicolumn" in cell for cell in r)]
    wide = [max(map(_cell_width, column)) for column in zip(*whole)]
    return sum(wide) + 2 * _COLSEP * (len(wide) - 1)


def _cell_width(cell: str) -> float:
    size = "footnotesize"
    parts = cell.split("$")  # words and formulas by turns
    return sum(measure(read(p), size, 0).width if k % 2 else text_width(p, SIZES[size][0]) for k, p in enumerate(parts))


def booktabs(
    caption: str, header: list[str], rows: list[list[str]], page: int = 45, label: str | None = None, texts: int = 0
) -> str:
    """`table` floats of at most `page` rows each (booktabs); caption, header and cells are LaTeX already, the first
    `texts` columns words."""
    out = []
    pages = [rows[i : i + page] for i in range(0, len(rows), page)] or [[]]
    for k, part in enumerate(pages, 1):
        number = f" (part {k} of {len(pages)})" if len(pages) > 1 else ""
        out += [rf"\begin{{{column().float}}}[htbp]", r"\centering\footnotesize", rf"\caption{{{caption}{number}}}"]
        out += [rf"\label{{{label}}}"] if label is not None and k == 1 else []
        sides = "l" * texts + "r" * (len(header) - texts)
        out += [rf"\begin{{tabular}}{{@{{}}{sides}@{{}}}}", r"\toprule", " & ".join(header) + r"\\"]
        out += [r"\midrule"]
        out += [" & ".join(r) + r"\\" for r in part]
        out += [r"\bottomrule", r"\end{tabular}", rf"\end{{{column().float}}}"]
    return "\n".join(out)
