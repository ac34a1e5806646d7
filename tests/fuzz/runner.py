"""Many calls, in processes of their own, each written down when it is made; and what all of them say together."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from .judge import limit_memory
from .kinds import KINDS, Record, kind_of, one_call

SLICE = 60  # calls of one process: what the engine keeps of one formula is no use to another
ENOUGH = 12  # calls of one kind on one family, of which some must be answered
MOST_REFUSED = 0.1
ALONE = "python -m tests.fuzz --seed {seed} --kind {kind} --only {call}"


def repeat(seed: int, call: int, kinds: Sequence[str], seconds: float) -> Record:
    return one_call(seed, call, kind_of(seed, call, tuple(kinds)), seconds=seconds)


def _slice(task: tuple[int, list[int], tuple[str, ...], float, str | None]) -> list[Record]:
    """Some calls in a process of their own; each is written down before the next is made."""
    limit_memory()
    seed, numbers, kinds, seconds, out = task
    records = []
    for n in numbers:
        records.append(repeat(seed, n, kinds, seconds))
        if out is not None:
            line = json.dumps(records[-1].as_json()) + "\n"
            file = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(file, line.encode())  # one write: lines of several processes do not mix
            os.close(file)
    return records


def read(path: Path) -> list[Record]:
    """The calls of a file; a last line that was cut off is left out."""
    found = []
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            found.append(Record(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


def _made(
    seed: int, numbers: list[int], kinds: tuple[str, ...], workers: int, seconds: float, out: str | None
) -> Iterator[Record]:
    if not numbers:
        return
    tasks = [(seed, numbers[i : i + SLICE], kinds, seconds, out) for i in range(0, len(numbers), SLICE)]
    with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
        for records in pool.imap(_slice, tasks):
            yield from records


def hunt(
    seed: int, numbers: Iterable[int], kinds: tuple[str, ...], workers: int, out: str | None, seconds: float
) -> int:
    path = None if out is None else Path(out)
    drawn = {n: kind_of(seed, n, kinds) for n in numbers}
    held = [] if path is None else [r for r in read(path) if r.seed == seed and drawn.get(r.call) == r.kind]
    done = {r.call for r in held}
    left = [n for n in drawn if n not in done]
    for record in _made(seed, left, kinds, workers, seconds, out):
        held.append(record)
        for line in printed(record):
            print(line, flush=True)
    print(summary(held))
    return int(bool(faults(held)))


def printed(record: Record) -> list[str]:
    """What was found, each with the lines that show it."""
    lines = []
    for one in record.findings:
        lines += [f"FOUND {one['what']}", *(f"    {t}" for t in one["snippet"].splitlines())]
        lines += [f"    # engine:      {one['engine']}", f"    # independent: {one['independent']}"]
    if record.status == "broken":
        lines += [f"BROKEN {record.message}"]
    if lines:
        lines.append("    # " + ALONE.format(seed=record.seed, kind=record.kind, call=record.call))
    return lines


def plain(message: str) -> str:
    """A sentence without its numbers and formulas: refusals of one kind."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"|<[^>]*>(_\{[^}]*\})?", "…", message)
    text = re.sub(r"[-+]?\d[\d.e+/-]*", "#", text)
    return " ".join(text.split())[:110]


def faults(records: Sequence[Record]) -> list[str]:
    """Why a hunt is not clean, a line each."""
    found = [f"{r.kind} {r.seed}:{r.call}: {r.findings[0]['what']}" for r in records if r.findings]
    found += [f"{r.kind} {r.seed}:{r.call}: the comparison broke" for r in records if r.status == "broken"]
    refused = [r for r in records if r.status == "refused"]
    if len(records) >= 100 and len(refused) > MOST_REFUSED * len(records):
        found.append(f"{len(refused)} of {len(records)} calls were refused")
    by: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for r in records:
        by[r.kind, r.family.split(",")[0]].append(r)
        by[r.kind, "any"].append(r)
    for (kind, family), those in by.items():
        if len(those) >= ENOUGH and all(r.status == "refused" for r in those):
            found.append(f"{kind} of {family} was refused in all of {len(those)} calls")
    return found


def summary(records: Sequence[Record]) -> str:
    lines = [f"{'kind':16} calls agrees open refused long found broken  CPU s a call"]
    for kind in [k for k in KINDS if any(r.kind == k for r in records)]:
        those = [r for r in records if r.kind == kind]
        count = Counter(r.status for r in those)
        columns = [count[s] for s in ("agrees", "open", "refused", "too long", "found", "broken")]
        mean = sum(r.seconds for r in those) / len(those)
        lines.append(f"{kind:16} {len(those):5} " + "{:6} {:4} {:7} {:4} {:5} {:6}".format(*columns) + f" {mean:13.2f}")
    refused = sum(r.status == "refused" for r in records)
    spent = sum(r.seconds for r in records)
    many = max(1, len(records))
    lines.append(
        f"{len(records)} calls, {refused} refused ({100 * refused / many:.1f} %), {spent / many:.2f} CPU s a call"
    )
    messages = Counter((r.kind, plain(r.message)) for r in records if r.status == "refused")
    lines += [f"  {count:4} {kind}: {text}" for (kind, text), count in messages.most_common(25)]
    wrong = faults(records)
    lines.append(f"{len(wrong)} faults")
    lines += [f"  {w}" for w in wrong]
    return "\n".join(lines)
