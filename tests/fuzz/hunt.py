"""A hunt: so many cases of one kind from a seed, and what was found."""

from __future__ import annotations

import time
from collections import Counter

from hypothesis import HealthCheck, Phase, given, seed, settings

from .calls import KINDS
from .judge import SECONDS, Finding, judge, limit_memory


def hunt(kind: str, cases: int, start: int, most: int = 25) -> tuple[list[Finding], int]:
    """(findings, cases tried): `cases` calls of one kind, the same for the same seed; it stops after `most` findings
    and leaves out what was found before at the same place."""
    found: dict[str, Finding] = {}
    counted: Counter[str] = Counter()

    @seed(start)
    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(KINDS[kind]())
    def one(call) -> None:
        counted["tried"] += 1
        if len(found) < most:
            finding = judge(call, SECONDS.get(kind, SECONDS["other"]))
            if finding is not None:
                found.setdefault(finding.problem, finding)

    one()
    return list(found.values()), counted["tried"]


def one_slice(task: tuple[str, int, int]) -> tuple[str, int, list[str], int, float]:
    """A hunt in a process of its own, with its memory limited: (kind, seed, findings, cases, seconds of CPU)."""
    limit_memory()
    kind, cases, start = task
    began = time.process_time()
    found, tried = hunt(kind, cases, start)
    return kind, start, [str(f) for f in found], tried, time.process_time() - began
