"""What a report says of a paper, from its records: counts, verdicts, numbers, figures, coverage, what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from derivations.coverage import KINDS, STATES, Item
from derivations.reports.papers import Paper
from derivations.reports.units import Unit

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Report:
    """The records of one paper; left_out: units of a quick run that take long."""

    paper: Paper
    claims: tuple[dict[str, Any], ...]
    numbers: tuple[dict[str, Any], ...]
    figures: tuple[tuple[Unit, dict[str, Any]], ...]
    coverage: tuple[tuple[Item, str], ...]
    left_out: tuple[Unit, ...]
    seconds: float

    @classmethod
    def of(cls, paper: Paper, found: Mapping[Unit, Record], left_out: tuple[Unit, ...]) -> Report:
        def results(kind: str) -> tuple[dict[str, Any], ...]:
            return tuple(record["result"] for unit, record in found.items() if unit.kind == kind)

        figures = tuple((unit, record["result"]) for unit, record in found.items() if unit.kind == "figure")
        seconds = sum(record["seconds"] for record in found.values())
        states = paper.coverage.states
        return cls(paper, results("claim"), results("number"), figures, states, left_out, seconds)

    @property
    def complaints(self) -> tuple[str, ...]:
        """Whatever is not as expected, one sentence each."""
        said = [f"{one['source']}: {one['complaint']}" for one in self.claims if one["complaint"] is not None]
        for one in self.numbers:
            if not one["agrees"]:
                said.append(f"{one['name']}: the engine's value is {one['off']:.3g} tolerances off")
            if not one["tells"]:
                said.append(f"{one['name']}: a planted error of one per cent is not seen")
        for unit, figure in self.figures:
            said += [
                f"{unit.name}, {row['label']}: a point is {row['off']:.1f} standard errors off the line"
                for row in figure["beside"]
                if not row["agrees"]
            ]
            said += [
                f"{unit.name}, {row['label']}: a line that is wrong by its own size would not be seen"
                for row in figure["beside"]
                if not row["tells"]
            ]
        return tuple(said)

    @property
    def passed(self) -> bool:
        return not self.complaints

    @property
    def verdicts(self) -> dict[str, int]:
        """How many claims have each verdict."""
        return dict(Counter(one["verdict"] for one in self.claims))

    @property
    def misprints(self) -> int:
        return sum(one["misprint"] for one in self.claims)

    @property
    def composed(self) -> int:
        return sum(one["composed"] for one in self.claims)

    def counts(self, kind: str | None = None) -> dict[str, int]:
        """How many numbered things of a kind, of all unless one is named, are in each state."""
        found = Counter(state for item, state in self.coverage if kind in (None, item.kind))
        return {state: found[state] for state in STATES}

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of things that the paper numbers."""
        return tuple(kind for kind in KINDS if any(item.kind == kind for item, _ in self.coverage))

    def data(self) -> dict[str, Any]:
        """The counts as plain data."""
        return {
            "claims": len(self.claims), "verdicts": self.verdicts, "misprints": self.misprints,
            "numbers": len(self.numbers), "figures": len(self.figures), "coverage": self.counts(),
            "left_out": [unit.called for unit in self.left_out], "complaints": list(self.complaints),
        }  # fmt: skip

    def lines(self) -> list[str]:
        """The report on a terminal: a heading, three counts, and what is not as expected."""
        verdicts = ", ".join(f"{n} {verdict}" for verdict, n in self.verdicts.items())
        compared = sum(len(figure["beside"]) for _, figure in self.figures)
        states = ", ".join(f"{n} {state}" for state, n in self.counts().items())
        lines = [
            self.paper.name,
            f"  {len(self.claims)} claims: {verdicts or 'none'}; {self.misprints} misprints",
            f"  {len(self.numbers)} numbers, {len(self.figures)} figures with {compared} lines compared",
            f"  {states} of {len(self.coverage)} equations, tables, figures and statements",
        ]
        if self.left_out:
            lines.append(f"  {len(self.left_out)} left out, of more than ten seconds each")
        return [*lines, *(f"  NOT AS EXPECTED: {text}" for text in self.complaints)]
