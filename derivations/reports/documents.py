"""Reports as LaTeX: a document for each paper, for amsmath, booktabs, longtable and graphicx.

Formulas are broken by their estimated widths (`meanfield.base.tex`), so that no line is wider than the column.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from derivations.reports.content import Block, ClaimBlock, FigureBlock, Listed, Paragraph, Table, Text, content
from derivations.reports.records import Records
from derivations.reports.summaries import Report
from meanfield.base.tex.prose import escape, prose

_HEAD = r"""\documentclass[fleqn]{article}
\usepackage[T1]{fontenc}
\usepackage{lmodern}
\usepackage{amsmath,amssymb,booktabs,longtable,array,graphicx}
\usepackage[hidelinks]{hyperref}
\setlength{\parindent}{0pt}\setlength{\parskip}{4pt}\setlength{\LTleft}{0pt}
\emergencystretch=3em\hbadness=10000\allowdisplaybreaks
\newcolumntype{P}[1]{>{\raggedright\arraybackslash\hspace{0pt}}p{#1}}
\begin{document}\raggedright
"""

_NUMBER = re.compile(r"-?[\d.]+( \\cdot 10\^\{-?\d+\})?")  # as `tex` writes one


def document(report: Report, records: Records) -> str:
    """The document of one paper; it includes the pictures in the folder of records."""
    whole = content(report)
    by = rf"\\[4pt]{{\normalsize {escape(whole.by)}}}" if whole.by else ""
    parts = [_HEAD, rf"{{\Large\bfseries {escape(whole.title)}{by}\par}}"]
    for section in whole.sections:
        parts.append(rf"\section*{{{escape(section.title)}}}")
        parts += (_block(block, records) for block in section.blocks)
    parts += [rf"\bigskip\footnotesize {escape(' '.join(whole.notes))}", f"% {whole.seconds:.0f} s of CPU"]
    return "\n\n".join(parts) + "\n\\end{document}\n"


def _block(block: Block, records: Records) -> str:
    match block:
        case Paragraph():
            words = "".join(map(_text, block.parts))
            return rf"\textbf{{{words}}}" if block.tone == "bad" else words
        case Listed():
            return "\n\n".join(rf"{_text(row)}\par" for row in block.rows)
        case Table():
            return _table(block)
        case ClaimBlock():
            return "\n\n".join(_claim(block)) + "\n\\medskip"
    return _figure(block, records)


def _text(one: Text) -> str:
    if one.kind == "formula":
        written = f"${one.words}$"
    elif one.kind == "sentence":
        written = prose(one.words)
    else:
        written = one.words if one.kind == "tex" else escape(one.words)
    return rf"\textbf{{{written}}}" if one.tone == "bad" else written


def _table(one: Table) -> str:
    columns = "".join("r" if width is None else f"P{{{width:g}pt}}" for width in one.columns)
    body = "\n".join(" & ".join(map(_text, row)) + r" \\" for row in one.rows)
    return (
        rf"{{\footnotesize\begin{{longtable}}{{@{{}}{columns}@{{}}}}" + "\n"
        rf"\toprule {' & '.join(one.header)} \\ \midrule \endhead" + "\n" + body + "\n" + r"\bottomrule\end{longtable}}"
    )


def _claim(one: ClaimBlock) -> Iterator[str]:
    yield (
        rf"\pagebreak[1]\textbf{{{prose(one.source)}}} \emph{{{one.badge}}}\\*" + "\n"
        rf"{''.join(map(_text, one.of.parts))}\nopagebreak"
    )
    for side in one.sides:
        yield from _side(escape(side.name[0].upper() + side.name[1:]), side.value)
    yield "".join(map(_text, one.how.parts))


def _side(name: str, side: Mapping[str, Any]) -> list[str]:
    if "tex" in side:
        return [f"{name}:\n\\[ {side['tex']} \\]"]
    if "text" in side:
        return [f"{name}: {escape(side['text'])}"]
    rows = [f"{name}:"]
    for place, value in side["rows"]:
        if place and _NUMBER.fullmatch(value.get("tex", "")):
            rows.append(f"{escape(place)}: ${value['tex']}$")
        elif "tex" in value:
            rows.append(f"{escape(place)}\n\\[ {value['tex']} \\]" if place else f"\\[ {value['tex']} \\]")
        else:
            rows += [f"{escape(place)}: {escape(value.get('text', ''))}"]
    return rows + [f"and {side['more']} more"] * bool(side["more"])


def _figure(one: FigureBlock, records: Records) -> str:
    path = os.path.relpath(records.picture(one.unit, ".pdf"), records.folder).replace(os.sep, "/")
    return "\n\n".join([
        rf"\includegraphics[width=\textwidth,height=.6\textheight,keepaspectratio]{{{path}}}",
        rf"\textbf{{{one.unit.name}}} {prose(one.about)}",
        _block(one.compared, records),
    ])  # fmt: skip
