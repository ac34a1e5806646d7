"""Reports as HTML: one file for each paper, with its pictures and mathematics inside, and an index.

A page asks for nothing: its style stands in it, formulas are MathML, pictures are data. It follows the reader's choice
of light or dark, and fits 400 pixels.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from derivations.reports.content import (
    Block,
    ClaimBlock,
    Content,
    FigureBlock,
    Listed,
    Paragraph,
    Table,
    Text,
    content,
    overview,
)
from derivations.reports.mathematics import formula, text
from derivations.reports.records import Records
from derivations.reports.summaries import Report

_STYLE = Path(__file__).with_name("page.css")


def page(report: Report, records: Records) -> str:
    """The page of one paper."""
    return _whole(content(report), records)


def index(reports: Sequence[Report], records: Records) -> str:
    """The page that leads to all others."""
    return _whole(overview(reports), records)


def _whole(one: Content, records: Records) -> str:
    parts = [] if one.up is None else [f"<p>{_text(one.up)}</p>"]
    parts += [f"<h1>{html.escape(one.title)}</h1>", *[f"<p>{html.escape(one.by)}</p>"] * bool(one.by)]
    if one.up is not None:
        links = " ".join(f'<a href="#{section.name}">{section.title}</a>' for section in one.sections)
        parts.append(f"<nav>{links}</nav>")
    for section in one.sections:
        heading = f"<h2>{section.title}</h2>" if section.title else ""
        body = "".join(_block(block, records) for block in section.blocks)
        parts.append(f'<section id="{section.name}">{heading}{body}</section>')
    said = html.escape(" ".join(one.notes))
    made = f"<footer><p>{said}</p>\n<p>Time: {one.seconds:.0f} s of CPU.</p>\n</footer>"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{html.escape(one.title)}</title><style>{_STYLE.read_text(encoding='utf-8')}</style></head>\n"
        f"<body>{''.join(parts)}\n{made}</body></html>\n"
    )


def _block(block: Block, records: Records) -> str:
    match block:
        case Paragraph():
            return f"<p{_class(block.tone)}>{''.join(map(_text, block.parts))}</p>"
        case Listed():
            return f"<ul{_class(block.tone)}>{''.join(f'<li>{_text(row)}</li>' for row in block.rows)}</ul>"
        case Table():
            return _table(block)
        case ClaimBlock():
            return _claim(block, records)
    return _figure(block, records)


def _class(tone: str) -> str:
    return f' class="{tone}"' if tone else ""


def _text(one: Text) -> str:
    if one.kind == "formula":
        written = formula(one.words)
    else:
        written = text(one.words) if one.kind == "tex" else html.escape(one.words)
    written = f"<span{_class(one.tone)}>{written}</span>" if one.tone else written
    return f'<a href="{one.address}">{written}</a>' if one.address else written


def _table(one: Table) -> str:
    head = "".join(f"<th>{name}</th>" for name in one.header)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>\n" for row in one.rows)
    whole = f"<thead><tr>{head}</tr></thead><tbody>\n{body}</tbody>"
    table = f'<div class="wide"><table class="{one.name}">{whole}</table></div>'
    return f"<details><summary>{one.folded}</summary>{table}</details>" if one.folded else table


def _claim(one: ClaimBlock, records: Records) -> str:
    sides = "".join(f"<div class='side'><span>{html.escape(s.name)}</span>{_side(s.value)}</div>" for s in one.sides)
    of, how = (_block(replace(words, tone=tone), records) for words, tone in ((one.of, "of"), (one.how, "how")))
    heading = f"<h3>{html.escape(one.source)} <b>{one.badge}</b></h3>"
    return f"<article class='{one.tone}'>{heading}{of}{sides}{how}</article>\n"


def _side(side: Mapping[str, Any]) -> str:
    if "tex" in side:
        return f"<div class='wide'>{formula(side['tex'], True)}</div>"
    if "text" in side:
        return f"<div>{html.escape(side['text'])}</div>"
    rows = [(f"<i>{html.escape(place)}</i>" if place else "") + _side(value) for place, value in side["rows"]]
    more = f"<div>and {side['more']} more</div>" if side["more"] else ""
    return f"<div>{''.join(rows)}{more}</div>"


def _figure(one: FigureBlock, records: Records) -> str:
    data = base64.b64encode(records.picture(one.unit, ".png").read_bytes()).decode()
    name = one.unit.name
    return (
        f"<figure id='{name}'><img src='data:image/png;base64,{data}' alt='{name}'>"
        f"<figcaption><b>{name}</b> {html.escape(one.about)}</figcaption>"
        f"{_block(one.compared, records)}</figure>\n"
    )
