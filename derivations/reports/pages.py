"""Reports as HTML: one file for each paper, with its pictures and mathematics inside, and an index.

A page asks for nothing: its style stands in it, formulas are MathML, pictures are data. It follows the reader's choice
of light or dark, and fits 400 pixels.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from derivations.coverage import DECIDED
from derivations.reports.mathematics import formula, text
from derivations.reports.records import Records
from derivations.reports.summaries import Report
from derivations.reports.units import versions

_STYLE = Path(__file__).with_name("page.css")


def page(report: Report, records: Records) -> str:
    """The page of one paper."""
    paper = report.paper
    figures = [_figure(unit.name, one, records.picture(unit, ".png")) for unit, one in report.figures]
    sections = [
        ("summary", "Summary", _summary(report)),
        ("coverage", "What became of everything numbered", _coverage(report)),
        ("claims", "Claims", "".join(_claim(k, one) for k, one in enumerate(report.claims, 1))),
        ("numbers", "Numbers", _numbers(report.numbers)),
        ("figures", "Figures", "".join(figures)),
    ]
    if report.left_out:
        rows = "".join(f"<li>{html.escape(unit.called)}</li>" for unit in report.left_out)
        words = "<p>These take more than ten seconds each and were left out of this quick report.</p>"
        sections.append(("left-out", "Left out", f"{words}<ul>{rows}</ul>"))
    shown = [(name, title, body) for name, title, body in sections if body]
    links = " ".join(f'<a href="#{name}">{title}</a>' for name, title, _ in shown)
    body = "".join(f'<section id="{name}"><h2>{title}</h2>{body}</section>' for name, title, body in shown)
    by = f"<p>{html.escape(paper.authors)}</p>" if paper.authors else ""
    head = f'<p><a href="index.html">All reports</a></p><h1>{html.escape(paper.title)}</h1>{by}<nav>{links}</nav>'
    return _whole(paper.title, head + body, report.seconds, f" Seeds of networks in figures: {paper.seeds}.")


def index(reports: Sequence[Report]) -> str:
    """The page that leads to all others."""
    rows = []
    for one in reports:
        link = f'<a href="{one.paper.name}.html">{html.escape(one.paper.title)}</a>'
        states = one.counts()
        cells = [
            link, str(len(one.claims)), str(one.misprints), str(len(one.numbers)), str(len(one.figures)),
            f"{states[DECIDED]} of {len(one.coverage)}", "as expected" if one.passed else f"{len(one.complaints)} not",
        ]  # fmt: skip
        rows.append(cells)
    header = ["Paper", "Claims", "Misprints", "Numbers", "Figures", "Numbered items decided", "Outcome"]
    words = "<p>Each statement of these papers that the engine can decide, derived anew and compared.</p>"
    body = f"<h1>Papers, reproduced</h1>{words}{_table(header, rows, 'index')}"
    return _whole("Papers, reproduced", body, sum(one.seconds for one in reports))


def _whole(title: str, body: str, seconds: float, seeds: str = "") -> str:
    used = ", ".join(f"{name} {version}" for name, version in versions().items())
    said = html.escape(f"Computed with {used}.{seeds}")
    made = f"<footer><p>{said}</p>\n<p>Time: {seconds:.0f} s of CPU.</p>\n</footer>"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{html.escape(title)}</title><style>{_STYLE.read_text(encoding='utf-8')}</style></head>\n"
        f"<body>{body}\n{made}</body></html>\n"
    )


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    head = "".join(f"<th>{name}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n" for row in rows)
    whole = f"<thead><tr>{head}</tr></thead><tbody>\n{body}</tbody>"
    return f'<div class="wide"><table class="{kind}">{whole}</table></div>'


def _summary(report: Report) -> str:
    verdicts = ", ".join(f"{n} {verdict}" for verdict, n in report.verdicts.items())
    words = f"{len(report.claims)} claims: {verdicts}. "
    words += f"Misprints, where the print is refuted and what is right holds: {report.misprints}. "
    words += f"Composed, with no map of the engine on either side: {report.composed}." if report.composed else ""
    rows = [[kind, *map(str, report.counts(kind).values())] for kind in report.kinds]
    table = _table(["Numbered", *report.counts()], rows)
    said = report.complaints
    if not said:
        return f"<p>{words}</p>{table}<p class='good'>Every verdict, number and figure is as expected.</p>"
    listed = "".join(f"<li>{html.escape(one)}</li>" for one in said)
    return f"<p>{words}</p>{table}<p class='bad'>Not as expected:</p><ul class='bad'>{listed}</ul>"


def _coverage(report: Report) -> str:
    rows = [
        [
            html.escape(f"{item.kind} {item.name}"), html.escape(item.about),
            f"<span class='{state.split()[0]}'>{state}</span>", html.escape(item.reason),
        ]
        for item, state in report.coverage
    ]  # fmt: skip
    count = ", ".join(f"{n} {state}" for state, n in report.counts().items())
    table = _table(["Item", "What it is", "State", "Reason"], rows, "coverage")
    return f"<details><summary>{count}</summary>{table}</details>"


def _claim(place: int, one: dict[str, Any]) -> str:
    verdict = one["verdict"]
    bad = one["complaint"] is not None
    badge = "not as expected" if bad else "misprint" if one["misprint"] else verdict
    kind = "bad" if bad else "misprint" if one["misprint"] else verdict.split()[0]
    where = ", ".join(formula(tex) for tex in one["where"])
    where = f", where {where}" if where else ""
    of = f"{text(one['quantity'])} of " if one["quantity"] else ""
    lines = [f"<p class='of'>{of}{html.escape(one['networks'])}{where}</p>"]
    sides = [("printed", one["printed"])]
    if one["derived"] is not None:
        sides.append((f"derived, {one['shown_for']}" if one["shown_for"] else "derived", one["derived"]))
    elif one["misprint"]:
        sides.append(("right", one["contrast"]))
    lines += [f"<div class='side'><span>{html.escape(name)}</span>{_side(side)}</div>" for name, side in sides]
    how = f"The print is {verdict}. What is derived instead holds {one['how']}." if one["misprint"] else ""
    how = how or f"{verdict.capitalize()} {one['how']}."
    how += " Composed: no map of the engine is on either side." if one["composed"] else ""
    how += f" {one['complaint']}." if bad else ""
    return (
        f"<article id='claim{place}' class='{kind}'><h3>{html.escape(one['source'])} <b>{badge}</b></h3>"
        f"{''.join(lines)}<p class='how'>{html.escape(how)}</p></article>\n"
    )


def _side(side: dict[str, Any]) -> str:
    if "tex" in side:
        return f"<div class='wide'>{formula(side['tex'], True)}</div>"
    if "text" in side:
        return f"<div>{html.escape(side['text'])}</div>"
    rows = [(f"<i>{html.escape(place)}</i>" if place else "") + _side(value) for place, value in side["rows"]]
    more = f"<div>and {side['more']} more</div>" if side["more"] else ""
    return f"<div>{''.join(rows)}{more}</div>"


def _numbers(numbers: Sequence[dict[str, Any]]) -> str:
    rows = []
    for one in numbers:
        off = f"{one['off']:.2g}" if one["agrees"] else f"<b class='bad'>{one['off']:.2g}</b>"
        planted = f"{one['planted']:.2g}" if one["tells"] else f"<b class='bad'>{one['planted']:.2g}</b>"
        values = [", ".join(f"{v:.10g}" for v in one[side]) for side in ("expected", "found")]
        rows.append([html.escape(one["line"]), html.escape(one["name"]), *values, off, planted])
    words = "<p>Deviations are in units of the tolerance that belongs to the printed digits; beside each stands "
    words += "that of a planted error of one per cent, which must be above 1.</p>"
    header = ["Line", "Number", "Expected", "Derived", "Off by", "Planted"]
    return words + _table(header, rows, "numbers") if rows else ""


def _figure(name: str, one: dict[str, Any], picture: Path) -> str:
    data = base64.b64encode(picture.read_bytes()).decode()
    rows = []
    for row in one["beside"]:
        off = f"{row['off']:.2g}" if row["agrees"] else f"<b class='bad'>{row['off']:.2g}</b>"
        shows = "none" if row["shows"] is None else f"{100 * row['shows']:.2g} %"
        rows.append([html.escape(row["label"]), str(row["points"]), off, shows])
    header = ["Line beside networks", "Points", "Standard errors off", "A wrong line that would show"]
    table = _table(header, rows) if rows else "<p>No line of the theory through networks is compared in it.</p>"
    return (
        f"<figure id='{name}'><img src='data:image/png;base64,{data}' alt='{name}'>"
        f"<figcaption><b>{name}</b> {html.escape(one['about'])}</figcaption>{table}</figure>\n"
    )
