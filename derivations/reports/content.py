"""What a report says, in its order, as blocks that pages and documents both write out: what is said stands here once.

A text is plain, a sentence with formulas in plain characters ("σ_b² ≤ 0"), LaTeX text with formulas between dollar
signs, or a formula; its tone is "good", "bad" or the name of a state, its address that of the page it leads to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from derivations.coverage import DECIDED
from derivations.reports.summaries import Report
from derivations.reports.units import Unit, versions


@dataclass(frozen=True)
class Text:
    words: str
    kind: Literal["plain", "sentence", "tex", "formula"] = "plain"
    tone: str = ""
    address: str = ""


@dataclass(frozen=True)
class Paragraph:
    """Texts, set one behind the other with nothing between them."""

    parts: tuple[Text, ...]
    tone: str = ""


@dataclass(frozen=True)
class Listed:
    rows: tuple[Text, ...]
    tone: str = ""


@dataclass(frozen=True)
class Table:
    """columns: the width of each in points where a page is as wide as TeX's, None for one of numbers; folded: what
    stands for the table where it can be folded away."""

    name: str
    header: tuple[str, ...]
    columns: tuple[float | None, ...]
    rows: tuple[tuple[Text, ...], ...]
    folded: str = ""


@dataclass(frozen=True)
class Side:
    """A side of a claim, as `statements.shown` gives it, and what it is called."""

    name: str
    value: Mapping[str, Any]


@dataclass(frozen=True)
class ClaimBlock:
    source: str
    badge: str
    tone: str
    of: Paragraph
    sides: tuple[Side, ...]
    how: Paragraph


@dataclass(frozen=True)
class FigureBlock:
    unit: Unit
    about: str
    compared: Table | Paragraph


Block = Paragraph | Listed | Table | ClaimBlock | FigureBlock


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Content:
    """A whole page or document; up: the page that leads to it."""

    title: str
    by: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...]
    seconds: float
    up: Text | None = None


LEFT_OUT = "These take more than ten seconds each and were left out of this quick report."
NUMBERS = (
    "The line is that of the table of acceptance values in the paper's specification. Deviations are in units of the "
    "tolerance that belongs to the printed digits; beside each stands that of a planted error of one per cent, which "
    "must be above 1."
)


def content(report: Report) -> Content:
    """The report of one paper."""
    paper = report.paper
    left_out = (_plain(LEFT_OUT), Listed(tuple(Text(unit.called) for unit in report.left_out)))
    sections = (
        Section("summary", "Summary", _summary(report)),
        Section("coverage", "What became of everything numbered", (_coverage(report),)),
        Section("claims", "Claims", tuple(map(_claim, report.claims))),
        Section("numbers", "Numbers", (_plain(NUMBERS), _numbers(report.numbers)) if report.numbers else ()),
        Section("figures", "Figures", tuple(_figure(unit, one) for unit, one in report.figures)),
        Section("left-out", "Left out", left_out if report.left_out else ()),
    )
    shown = tuple(section for section in sections if section.blocks)
    notes = (_computed_with(), f"Seeds of networks in figures: {paper.seeds}.")
    return Content(paper.title, paper.authors, shown, notes, report.seconds, Text("All reports", address="index.html"))


def overview(reports: Sequence[Report]) -> Content:
    """What leads to all reports."""
    header = ("Paper", "Claims", "Misprints", "Numbers", "Figures", "Numbered items decided", "Outcome")
    rows = []
    for one in reports:
        counts = len(one.claims), one.misprints, len(one.numbers), len(one.figures)
        decided = f"{one.counts()[DECIDED]} of {len(one.coverage)}"
        outcome = "as expected" if one.passed else f"{len(one.complaints)} not"
        link = Text(one.paper.title, address=f"{one.paper.name}.html")
        rows.append((link, *(Text(str(v)) for v in (*counts, decided, outcome))))
    words = _plain("Each statement of these papers that the engine can decide, derived anew and compared.")
    table = Table("index", header, (None,) * len(header), tuple(rows))
    section = Section("papers", "", (words, table))
    return Content("Papers, reproduced", "", (section,), (_computed_with(),), sum(one.seconds for one in reports))


def _computed_with() -> str:
    return "Computed with " + ", ".join(f"{name} {version}" for name, version in versions().items()) + "."


def _plain(words: str, tone: str = "") -> Paragraph:
    return Paragraph((Text(words),), tone)


def _summary(report: Report) -> tuple[Block, ...]:
    verdicts = ", ".join(f"{n} {verdict}" for verdict, n in report.verdicts.items())
    words = f"{len(report.claims)} claims: {verdicts}. "
    words += f"Misprints, where the print is refuted and what is right holds: {report.misprints}. "
    words += f"Composed, with no map of the engine on either side: {report.composed}." if report.composed else ""
    rows = [(kind, *map(str, report.counts(kind).values())) for kind in report.kinds]
    header = ("Numbered", *report.counts())
    columns = (110.0, *(None,) * (len(header) - 1))
    counts = Table("counts", header, columns, tuple(tuple(map(Text, row)) for row in rows))
    if report.passed:
        return _plain(words), counts, _plain("Every verdict, number and figure is as expected.", "good")
    listed = Listed(tuple(map(Text, report.complaints)), "bad")
    return _plain(words), counts, _plain("Not as expected:", "bad"), listed


def _coverage(report: Report) -> Table:
    rows = tuple(
        (
            Text(f"{item.kind} {item.name}"), Text(item.about, "sentence"), Text(state, tone=state.split()[0]),
            Text(item.reason, "sentence"),
        )
        for item, state in report.coverage
    )  # fmt: skip
    count = ", ".join(f"{n} {state}" for state, n in report.counts().items())
    return Table("coverage", ("Item", "What it is", "State", "Reason"), (70, 95, 45, 95), rows, count)


def _claim(one: Mapping[str, Any]) -> ClaimBlock:
    verdict, bad = one["verdict"], one["complaint"] is not None
    badge = "not as expected" if bad else "misprint" if one["misprint"] else verdict
    tone = "bad" if bad else "misprint" if one["misprint"] else verdict.split()[0]
    of = [Text(one["quantity"], "tex"), Text(" of ")] if one["quantity"] else []
    of.append(Text(one["networks"]))
    for k, condition in enumerate(one["where"]):
        of += [Text(", " if k else ", where "), Text(condition, "formula")]
    sides = [Side("printed", one["printed"])]
    if one["derived"] is not None:
        sides.append(Side(f"derived, {one['shown_for']}" if one["shown_for"] else "derived", one["derived"]))
    elif one["misprint"]:
        sides.append(Side("right", one["contrast"]))
    how = f"The print is {verdict}. What is derived instead holds {one['how']}." if one["misprint"] else ""
    how = how or f"{verdict.capitalize()} {one['how']}."
    how += " Composed: no map of the engine is on either side." if one["composed"] else ""
    how += f" {one['complaint']}." if bad else ""
    return ClaimBlock(one["source"], badge, tone, Paragraph(tuple(of)), tuple(sides), _plain(how))


def _numbers(numbers: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for one in numbers:
        values = [", ".join(f"{v:.8g}" for v in one[side]) for side in ("expected", "found")]
        off, planted = _judged(one["off"], one["agrees"]), _judged(one["planted"], one["tells"])
        rows.append((Text(one["line"]), Text(one["name"], "sentence"), *map(Text, values), off, planted))
    header = ("Line", "Number", "Expected", "Derived", "Off by", "Planted")
    return Table("numbers", header, (24, 76, 62, 62, None, None), tuple(rows))


def _figure(unit: Unit, one: Mapping[str, Any]) -> FigureBlock:
    rows = [
        (
            Text(row["label"], "sentence"), Text(str(row["points"])), _judged(row["off"], row["agrees"]),
            Text("none" if row["shows"] is None else f"{100 * row['shows']:.2g} %", tone="" if row["tells"] else "bad"),
        )
        for row in one["beside"]
    ]  # fmt: skip
    header = ("Compared", "Points", "Standard errors off", "A wrong line that would show")
    none = _plain("No line of the theory is compared in it.")
    compared = Table("beside", header, (110, None, None, 90), tuple(rows)) if rows else none
    return FigureBlock(unit, one["about"], compared)


def _judged(value: float, right: bool) -> Text:
    return Text(f"{value:.2g}", tone="" if right else "bad")
