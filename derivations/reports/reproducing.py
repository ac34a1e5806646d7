"""Reproduce papers: compute what is not on record, in other processes, and write a page and a document for each."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from derivations.reports import mathematics
from derivations.reports.documents import document
from derivations.reports.pages import index, page
from derivations.reports.papers import Paper, chosen
from derivations.reports.records import Records
from derivations.reports.summaries import Report
from derivations.reports.units import Answer, Unit, compute, compute_all, follow_parent, units
from meanfield import MeanFieldError
from meanfield.base.progress import Progress, watched
from meanfield.base.storage import files
from meanfield.base.storage.files import write_whole

SLOW = Path(__file__).with_name("slow.json")  # units of more than ten seconds, which a quick run leaves out
TOGETHER = 4  # claims or numbers that one process is given at a time
#: one thread a process, no window, and no date in a file
SETTINGS = {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg", "SOURCE_DATE_EPOCH": "0"}


@dataclass(frozen=True)
class Reproduction:
    """What a run wrote, and what it found: a `Report` for each paper; remarks on records that could not be used."""

    folder: Path
    reports: tuple[Report, ...]
    files: tuple[Path, ...]
    computed: int
    recalled: int
    remarks: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every verdict, number and figure is as expected."""
        return all(report.passed for report in self.reports)

    def data(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "passed": self.passed, "computed": self.computed, "recalled": self.recalled, "remarks": list(self.remarks),
            "files": list(map(str, self.files)), "papers": {one.paper.name: one.data() for one in self.reports},
        }  # fmt: skip

    def __str__(self) -> str:
        lines = [*self.remarks, *(line for report in self.reports for line in report.lines())]
        kept = f"{self.computed} computed now, {self.recalled} on record before."
        return "\n".join([*lines, kept, f"Written: {self.folder / 'index.html'}"])


def reproduce(
    papers: Sequence[str] = (), folder: str | os.PathLike = "reports", *, quick: bool = False, full: bool = False,
    jobs: int | None = None, progress: Progress | None = None,
) -> Reproduction:
    """Claims, numbers and figures of some papers as an HTML page and a LaTeX document each, and an index.

    papers: names of packages in `derivations`, all five unless given; folder: where everything is written, records
    included: a run that was ended goes on from them; quick: leave out, and list, what takes more than ten seconds;
    full: figures with networks of the papers' sizes (hours); jobs: processes, as many as there are cores unless given;
    progress: called with (done, of how many) after each piece; a bar is drawn on a terminal unless it is given.

    Raises: MeanFieldError for an unknown paper, a folder that is not one of reports, or a process that was lost.
    """  # fmt: skip
    if quick and full:
        raise MeanFieldError("quick leaves out what full makes larger: ask for one of them.")
    if jobs is not None and jobs < 1:
        raise MeanFieldError(f"jobs is a number of processes, 1 or more, but {jobs} was given.")
    wanted = chosen(tuple(papers))
    mathematics.require()  # what a report is written with, before hours are spent on it
    files.require()
    records = Records(folder)
    found: dict[Unit, dict[str, Any]] = {}
    missing: list[Unit] = []
    left: dict[str, list[Unit]] = {paper.name: [] for paper in wanted}
    every = {paper.name: tuple(units(paper, full)) for paper in wanted}
    for unit in (one for some in every.values() for one in some):
        if quick and is_slow(unit):
            left[unit.paper].append(unit)
            continue
        record = records.read(unit)
        if record is None:
            missing.append(unit)
        else:
            found[unit] = record
    recalled = len(found)
    with watched(progress, "claims, numbers, figures") as tell:
        for done, answer in enumerate(_computed(missing, jobs or os.cpu_count() or 1), 1):
            found[answer.unit] = records.write(answer)
            if tell is not None:
                tell(done, len(missing))
    return _written(records, wanted, every, found, left, recalled, len(missing))


def _written(
    records: Records, wanted: Sequence[Paper], every: dict[str, tuple[Unit, ...]], found: dict[Unit, dict[str, Any]],
    left: dict[str, list[Unit]], recalled: int, computed: int,
) -> Reproduction:  # fmt: skip
    reports, written = [], []
    for paper in wanted:
        mine = {unit: found[unit] for unit in every[paper.name] if unit in found}
        report = Report.of(paper, mine, tuple(left[paper.name]))
        reports.append(report)
        written += [
            write_whole(records.folder / f"{paper.name}.html", page(report, records).encode()),
            write_whole(records.folder / f"{paper.name}.tex", document(report, records).encode()),
        ]
    written.append(write_whole(records.folder / "index.html", index(reports, records).encode()))
    return Reproduction(
        records.folder, tuple(reports), tuple(written), computed, recalled, tuple(dict.fromkeys(records.remarks))
    )


def is_slow(unit: Unit) -> bool:
    """Whether a unit takes more than ten seconds, as it was measured."""
    return unit.name in _slow().get(unit.paper, {}).get(unit.kind, ())


@lru_cache(maxsize=1)
def _slow() -> dict[str, dict[str, list[str]]]:
    return json.loads(SLOW.read_text(encoding="utf-8"))


def _computed(missing: Sequence[Unit], jobs: int) -> Iterator[Answer]:
    """The answers as they come in: from this process where there is one job, else from some of their own."""
    pieces = _pieces(missing)
    if jobs == 1 or len(pieces) < 2:
        for piece in pieces:
            for unit in piece:
                yield compute(unit)
        return
    done, spawn = 0, multiprocessing.get_context("spawn")
    ended = spawn.Event()
    try:
        with _settings(), ProcessPoolExecutor(jobs, spawn, follow_parent, (ended,)) as pool:
            waiting = [pool.submit(compute_all, piece) for piece in pieces]
            try:
                for one in as_completed(waiting):
                    yield from one.result()
                    done += len(one.result())
            except BaseException:
                ended.set()  # no process works for a run that has ended
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except BrokenProcessPool:
        raise MeanFieldError(
            f"A process was lost (out of memory, or killed); {done} of {len(missing)} are on record, and the same "
            "command goes on from there."
        ) from None


def _pieces(missing: Sequence[Unit]) -> list[list[Unit]]:
    """Figures alone, first; neighbours of one kind and paper together, as they share what the engine keeps."""
    alone = [[unit] for unit in missing if unit.kind == "figure" or is_slow(unit)]
    rest = [unit for unit in missing if unit.kind != "figure" and not is_slow(unit)]
    return alone + [rest[i : i + TOGETHER] for i in range(0, len(rest), TOGETHER)]


@contextmanager
def _settings() -> Iterator[None]:
    """The environment of the processes, which is read when they start."""
    before = {name: os.environ.get(name) for name in SETTINGS}
    os.environ.update(SETTINGS)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
