"""Reports as LaTeX: a document for each paper, for amsmath, booktabs, longtable and graphicx.

Formulas are broken by their estimated widths (`meanfield.base.tex`), so that no line is wider than the column.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from derivations.reports.records import Records
from derivations.reports.summaries import Report
from derivations.reports.units import versions
from meanfield.base.tex.prose import escape as escaped
from meanfield.base.tex.prose import prose as sentence

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

_RAISED = str.maketrans("⁰¹⁴⁵⁶⁷⁸⁹⁻", "01456789-")
_SIGNS = {"∇": r"\nabla", "∥": r"\parallel", "⊥": r"\perp", "Φ": r"\Phi", "↔": r"\leftrightarrow", "Ṽ": r"\tilde V"}


def escape(text: str) -> str:
    """Text with everything that T1 fonts lack in math mode."""
    return _set(escaped(unicodedata.normalize("NFC", text)))


def prose(text: str) -> str:
    """The same, formulas in math mode."""
    return _set(sentence(unicodedata.normalize("NFC", text)))


def _set(tex: str) -> str:
    tex = re.sub("[⁰¹⁴⁵⁶⁷⁸⁹⁻]+", lambda m: rf"\ensuremath{{{{}}^{{{m[0].translate(_RAISED)}}}}}", tex)
    for sign, command in _SIGNS.items():
        tex = tex.replace(sign, rf"\ensuremath{{{command}}}")
    tex = re.sub(r"\$([^$]*)\$\u0303", r"$\\tilde{\1}$", tex)  # a letter that is in math mode already
    return re.sub("(.)\u0303", r"\\ensuremath{\\tilde{\1}}", tex)


def document(report: Report, records: Records) -> str:
    """The document of one paper; it includes the pictures in the folder of records."""
    paper = report.paper
    by = rf"\\[4pt]{{\normalsize {escape(paper.authors)}}}" if paper.authors else ""
    parts = [
        _HEAD, rf"{{\Large\bfseries {escape(paper.title)}{by}\par}}",
        *_summary(report), r"\section*{What became of everything numbered}", _coverage(report), r"\section*{Claims}",
        *(_claim(one) for one in report.claims),
    ]  # fmt: skip
    if report.numbers:
        parts += [r"\section*{Numbers}", _numbers(report.numbers)]
    if report.figures:
        parts.append(r"\section*{Figures}")
    for unit, one in report.figures:
        path = os.path.relpath(records.picture(unit, ".pdf"), records.folder).replace(os.sep, "/")
        parts.append(_figure(unit.name, one, path))
    if report.left_out:
        words = "These take more than ten seconds each and were left out of this quick report."
        parts += [r"\section*{Left out}", words]
        parts += [rf"{escape(unit.called)}\par" for unit in report.left_out]
    used = ", ".join(f"{name} {version}" for name, version in versions().items())
    seeds = f"Seeds of networks in figures: {escape(paper.seeds)}."
    parts += [rf"\bigskip\footnotesize Computed with {escape(used)}. {seeds}", f"% {report.seconds:.0f} s of CPU"]
    return "\n\n".join(parts) + "\n\\end{document}\n"


def _summary(report: Report) -> list[str]:
    verdicts = ", ".join(f"{n} {verdict}" for verdict, n in report.verdicts.items())
    parts = [
        rf"\section*{{Summary}} {len(report.claims)} claims: {verdicts}.",
        f"Misprints, where the print is refuted and what is right holds: {report.misprints}.",
    ]
    if report.passed:
        return [*parts, "Every verdict, number and figure is as expected."]
    return [*parts, r"\textbf{Not as expected:}", *(rf"{escape(text)}\par" for text in report.complaints)]


def _long(columns: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = " & ".join(header)
    body = "\n".join(" & ".join(row) + r" \\" for row in rows)
    return (
        rf"{{\footnotesize\begin{{longtable}}{{@{{}}{columns}@{{}}}}" + "\n"
        rf"\toprule {head} \\ \midrule \endhead" + "\n" + body + "\n" + r"\bottomrule\end{longtable}}"
    )


def _coverage(report: Report) -> str:
    rows = [
        [escape(f"{item.kind} {item.name}"), prose(item.about), state, prose(item.reason)]
        for item, state in report.coverage
    ]
    columns = r"P{70pt}P{95pt}P{45pt}P{95pt}"
    return _long(columns, ["Item", "What it is", "State", "Reason"], rows)


def _claim(one: dict[str, Any]) -> str:
    verdict = "not as expected" if one["complaint"] is not None else "misprint" if one["misprint"] else one["verdict"]
    where = ", ".join(f"${tex}$" for tex in one["where"])
    of = f"{one['quantity']} of " if one["quantity"] else ""
    lines = [
        rf"\pagebreak[1]\textbf{{{escape(one['source'])}}} \emph{{{verdict}}}\\*"
        f"\n{of}{escape(one['networks'])}{', where ' + where if where else ''}\\nopagebreak",
        *_side("Printed", one["printed"]),
    ]
    if one["derived"] is not None:
        lines += _side(f"Derived, {escape(one['shown_for'])}" if one["shown_for"] else "Derived", one["derived"])
    elif one["misprint"]:
        lines += _side("Right", one["contrast"])
    if one["complaint"] is not None:
        lines.append(escape(one["complaint"]))
    return "\n\n".join(lines) + "\n\\medskip"


def _side(name: str, side: dict[str, Any]) -> list[str]:
    if "tex" in side:
        return [f"{name}:\n\\[ {side['tex']} \\]"]
    if "text" in side:
        return [f"{name}: {escape(side['text'])}"]
    rows = [f"{name}:"]
    for place, value in side["rows"]:
        if "tex" in value:
            rows.append(f"{escape(place)}\n\\[ {value['tex']} \\]" if place else f"\\[ {value['tex']} \\]")
        else:
            rows += [f"{escape(place)}: {escape(value.get('text', ''))}"]
    return rows + [f"and {side['more']} more"] * bool(side["more"])


def _numbers(numbers: Sequence[dict[str, Any]]) -> str:
    rows = []
    for one in numbers:
        values = [", ".join(f"{v:.8g}" for v in one[side]) for side in ("expected", "found")]
        off = f"{one['off']:.2g}" if one["agrees"] else rf"\textbf{{{one['off']:.2g}}}"
        planted = f"{one['planted']:.2g}" if one["tells"] else rf"\textbf{{{one['planted']:.2g}}}"
        rows.append([prose(f"{one['line']} {one['name']}"), *values, off, planted])
    columns = r"P{95pt}P{68pt}P{68pt}rr"
    return _long(columns, ["Number", "Expected", "Derived", "Off by", "Planted"], rows)


def _figure(name: str, one: dict[str, Any], path: str) -> str:
    parts = [
        rf"\includegraphics[width=\textwidth,height=.6\textheight,keepaspectratio]{{{path}}}",
        rf"\textbf{{{name}}} {prose(one['about'])}",
    ]
    rows = []
    for row in one["beside"]:
        off = f"{row['off']:.2g}" if row["agrees"] else rf"\textbf{{{row['off']:.2g}}}"
        shows = "none" if row["shows"] is None else rf"{100 * row['shows']:.2g}\,\%"
        rows.append([escape(row["label"]), str(row["points"]), off, shows])
    if rows:
        header = ["Line beside networks", "Points", "Standard errors off", "A wrong line that would show"]
        parts.append(_long(r"P{110pt}rrP{90pt}", header, rows))
    return "\n\n".join(parts)
