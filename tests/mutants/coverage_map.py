"""Which fast tests run which lines of the package: a plugin of pytest that writes one line of JSON a test.

`python -m tests.mutants --map` runs the fast suite once with it. A line that is run while modules are imported, or
inside compiled code, is seen by no test; what stands in for it is every test that runs some line of the file.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from pathlib import Path

import coverage
import pytest

from tests import ROOT


def bits(lines) -> str:
    """A set of line numbers as one number in base 16."""
    return format(sum(1 << line for line in set(lines)), "x")


class Plugin:
    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.out = (folder / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.jsonl").open("w", encoding="utf-8")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        seen = coverage.Coverage(data_file=None, source=[str(ROOT / "meanfield")], config_file=False)
        begun = time.process_time()
        seen.start()
        yield
        seen.stop()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", coverage.exceptions.CoverageWarning)  # a test that runs nothing here
            data = seen.get_data()
        lines = {Path(f).relative_to(ROOT).as_posix(): bits(data.lines(f) or ()) for f in data.measured_files()}
        record = {"test": item.nodeid, "seconds": time.process_time() - begun, "lines": lines}
        self.out.write(json.dumps(record) + "\n")
        self.out.flush()


def pytest_configure(config):
    folder = os.environ.get("MEANFIELD_COVERAGE_MAP")
    if folder and (hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None)):
        config.pluginmanager.register(Plugin(Path(folder)))


class Map:
    """Fast tests by the lines they run, the quickest first."""

    def __init__(self, folder: Path):
        self.seconds: dict[str, float] = {}
        self.by_file: dict[str, list[tuple[str, int]]] = {}
        for path in sorted(folder.glob("*.jsonl")):
            for text in path.read_text("utf-8").splitlines():
                record = json.loads(text)
                self.seconds[record["test"]] = record["seconds"]
                for file, lines in record["lines"].items():
                    self.by_file.setdefault(file, []).append((record["test"], int(lines, 16)))
        if not self.seconds:
            raise FileNotFoundError(f"{folder} holds no map; make it with: python -m tests.mutants --map")

    def tests(self, path: str, first: int, last: int) -> list[str]:
        """The tests that run one of these lines; where none does, those that run any line of the file, and those
        whose address has the name of its folder: the simulator of CUDA runs kernels where nothing is seen."""
        there = self.by_file.get(path, [])
        mask = (1 << (last + 1)) - (1 << first)
        found = {test for test, lines in there if lines & mask}
        if not found:
            folder = path.split("/")[-2]
            found = {test for test, lines in there if lines} | {test for test in self.seconds if folder in test}
        return sorted(found, key=self.seconds.__getitem__)
