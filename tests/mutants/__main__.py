"""python -m tests.mutants --map            which fast tests run which lines (once per version; some fifteen minutes)
python -m tests.mutants --seed S --count N   plants N errors one at a time, and says which of them the fast tests see
python -m tests.mutants --seed S --list      prints the errors, plants none

Options: --within meanfield/symbolic (a folder or a file), --only 3,17 (of those drawn), --budget SECONDS of tests an
error (600; an error whose tests take longer counts as not seen), --workers W (1), --folder FOLDER (where the map, the
copies of the tree and the verdicts lie: .mutants). Verdicts are appended to verdicts-S.jsonl; those that stand there
are not run again. An error that makes forty tests take a minute more than ten times what they took hangs, and is seen.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import pytest

from .coverage_map import ROOT, Map
from .operators import Mutant, drawn

COPIED = ("meanfield", "derivations", "tests", "docs", "benchmarks", ".ci")
BATCH = 40  # tests a process: most errors are seen by the first batch


def copy_of_tree(folder: Path, number: int = 0) -> Path:
    """A copy in which errors are planted. Compiled code is kept in it from one error to the next."""
    tree = folder / f"tree-{number}"
    for name in COPIED:
        there = tree / name
        if not there.exists() and (ROOT / name).exists():
            shutil.copytree(ROOT / name, there, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, tree / path.name)
    return tree


def forget_compiled(tree: Path) -> None:
    """Numba's cache of a function does not know the functions that it calls in other files."""
    for pattern in ("*.nbi", "*.nbc"):
        for path in tree.rglob(pattern):
            path.unlink()


def write(path: Path, text: str) -> None:
    """Writes a source, and forgets its byte code: Python knows that by a size and a whole second alone."""
    path.write_text(text, "utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def run(tree: Path, tests: list[str], seconds: float) -> tuple[str, str]:
    """'passed', 'failed' or 'out of time', and the test that failed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--no-header",
               "-W", "error", "--tb=no", *tests]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": ""}
    try:
        done = subprocess.run(command, cwd=tree, env=environment, timeout=seconds, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return "out of time", ""
    if done.returncode in (0, pytest.ExitCode.NO_TESTS_COLLECTED):  # all of them went to the slow suites since
        return "passed", ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "failed", failed[0] if failed else (done.stdout + done.stderr).strip()[-300:]


def judged(tree: Path, one: Mutant, tests: Map, budget: float) -> dict:
    """Plants an error, runs the tests that meet it, and puts the file back."""
    path = tree / one.path
    text = path.read_text("utf-8")
    chosen = tests.tests(one.path, one.line, one.end)
    numba = "numba" in text
    begun, verdict, by = time.monotonic(), "no test", ""
    try:
        write(path, one.source(text))
        if numba:
            forget_compiled(tree)
        for first in range(0, len(chosen), BATCH):
            batch = chosen[first : first + BATCH]
            left, longest = budget - (time.monotonic() - begun), 60 + 10 * sum(map(tests.seconds.__getitem__, batch))
            verdict, by = run(tree, batch, min(left, longest)) if left > 0 else ("out of time", "")
            if verdict == "out of time" and longest < left:
                verdict = "hangs"
            if verdict != "passed":
                break
    finally:
        write(path, text)
        if numba:
            forget_compiled(tree)
    seen = verdict in ("failed", "hangs")
    return {"mutant": str(one), "seen": seen, "verdict": verdict, "by": by, "tests": len(chosen),
            "seconds": round(time.monotonic() - begun, 1)}  # fmt: skip


def make_map(folder: Path) -> int:
    shutil.rmtree(folder / "map", ignore_errors=True)
    environment = {**os.environ, "MEANFIELD_COVERAGE_MAP": str(folder / "map"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-p", "tests.mutants.coverage_map"]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--within", default="meanfield")
    parser.add_argument("--only", default="")
    parser.add_argument("--budget", type=float, default=600)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=ROOT / ".mutants")
    parser.add_argument("--map", action="store_true")
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args(arguments)
    if given.map:
        return make_map(given.folder)
    errors = list(enumerate(drawn(ROOT, given.seed, given.count, given.within)))
    if given.only:
        errors = [errors[int(k)] for k in given.only.split(",")]
    if given.list:
        for k, one in errors:
            print(k, one)
        return 0
    tests, verdicts = Map(given.folder / "map"), given.folder / f"verdicts-{given.seed}.jsonl"
    trees: SimpleQueue[Path] = SimpleQueue()
    for number in range(given.workers):
        trees.put(copy_of_tree(given.folder, number))
    lines = verdicts.read_text("utf-8").splitlines() if verdicts.exists() else []
    known = {record["mutant"]: record for record in map(json.loads, lines)}

    def verdict(one: Mutant) -> dict:
        if str(one) not in known:
            tree = trees.get()
            try:
                record = judged(tree, one, tests, given.budget)
            finally:
                trees.put(tree)
            with verdicts.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            return record
        return known[str(one)]

    seen = 0
    with ThreadPoolExecutor(given.workers) as pool:
        for (k, _), record in zip(errors, pool.map(verdict, (one for _, one in errors))):
            seen += record["seen"]
            print(k, "seen" if record["seen"] else f"NOT SEEN ({record['verdict']})", record["mutant"], flush=True)
    print(f"{seen} of {len(errors)} errors are seen by the fast tests")
    return 0


if __name__ == "__main__":
    sys.exit(main())
