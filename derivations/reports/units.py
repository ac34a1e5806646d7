"""Units of work: one claim, one number or one figure of a paper, and what is computed for it.

A unit's key is the fingerprint of all that it says, of the settings and of the packages that compute it; which modules
of the engine were at work is returned with the answer.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import platform
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import meanfield
from derivations.checks import Check
from derivations.drawing import ERRORS, Drawn, noted
from derivations.judging import judge
from derivations.reports.fingerprints import fingerprint
from derivations.reports.papers import PAPERS, Paper
from derivations.reports.statements import statement
from meanfield.base.storage import files

FORMAT = 2  # of the records: another number makes all of them new
PACKAGES = ("sympy", "mpmath", "numpy", "scipy", "numba", "python-flint")
FIGURE_FILES = (".png", ".pdf")
_ROOT = Path(meanfield.__file__).resolve().parents[1]
_AT_WORK = ("meanfield.", "derivations.reports.statements", "derivations.reports.names", "derivations.drawing")


@dataclass(frozen=True)
class Unit:
    """What is computed: `kind` "claim", "number" or "figure", its place among those of the paper, and its name."""

    paper: str
    kind: str
    place: int
    name: str
    key: str
    full: bool = False

    @property
    def called(self) -> str:
        """The name with its kind."""
        return f"figure {self.name.removeprefix('figure')}" if self.kind == "figure" else f"{self.kind} {self.name}"

    @property
    def file(self) -> str:
        """The name of its record, without a suffix."""
        return f"{self.kind}{self.place:04d}" if self.kind != "figure" else self.name


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Python, the package and what it computes with."""
    found = {"python": platform.python_version(), "meanfield": meanfield.__version__}
    return found | {name: metadata.version(name) for name in PACKAGES}


def units(paper: Paper, full: bool) -> Iterator[Unit]:
    """All units of a paper, figures first: they take longest."""
    ground = (FORMAT, versions())
    for place, (name, draw) in enumerate(paper.drawn(full).items()):
        yield Unit(paper.name, "figure", place, name, fingerprint(ground, name, draw), full)
    for place, check in enumerate(paper.checks):
        yield Unit(paper.name, "number", place, f"{check.line} {check.name}", fingerprint(ground, check), full)
    for place, claim in enumerate(paper.claims):
        name = f"{claim.source} {claim.quantity}"
        to_digits = claim.source in paper.to_digits
        yield Unit(paper.name, "claim", place, name, fingerprint(ground, claim, to_digits), full)


@dataclass(frozen=True)
class Answer:
    """What came out of a unit: its data, files by suffix, seconds of CPU, modules of the engine that were at work."""

    unit: Unit
    result: dict[str, Any]
    pictures: dict[str, bytes]
    seconds: float
    engine: dict[str, str]


def compute(unit: Unit) -> Answer:
    """Compute a unit in this process."""
    (paper,) = (one for one in PAPERS if one.name == unit.paper)
    pictures: dict[str, bytes] = {}
    start = time.process_time()
    if unit.kind == "claim":
        result = statement(judge(paper.claims[unit.place], paper.to_digits))
    elif unit.kind == "number":
        result = number(paper.checks[unit.place])
    else:
        result, pictures = figure(paper.drawn(unit.full), unit.name)
    return Answer(unit, result, pictures, time.process_time() - start, at_work())


def compute_all(some: list[Unit]) -> list[Answer]:
    return [compute(unit) for unit in some]


def follow_parent(ended: Any) -> None:
    """End this process with the run that it works for: when its parent is gone, or has set the event `ended`.

    An interruption is the parent's affair.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def watch() -> None:
        while not ended.wait(0.5) and parent is not None and parent.is_alive():
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="follow-parent", daemon=True).start()


def number(check: Check) -> dict[str, Any]:
    """An acceptance value: what is expected, what the engine gives, and how far off it is with a planted error."""
    found = check.found()
    off, planted = check.deviation(found), check.misses("1/100")
    return {
        "line": check.line,
        "name": check.name,
        "expected": list(map(float, check.expected)),
        "found": found.tolist(),
        "tolerance": check.tolerance,
        "absolute": check.absolute,
        "off": off,
        "planted": planted,
        "agrees": off <= 1,
        "tells": planted > 1,
    }


def figure(drawn: Drawn, name: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """How networks and iterations lie beside the lines of a figure, and its files."""
    with warnings.catch_warnings(), files.require().rc_context(files.LOOK), files.figures_for_files():
        warnings.simplefilter("ignore")
        made = drawn[name]()
        pictures = {suffix: files.as_bytes(made, suffix) for suffix in FIGURE_FILES}
    rows = [
        {
            "label": one.label, "points": len(one.x), "off": one.errors_off(), "agrees": one.agrees,
            "shows": one.shows if np.isfinite(one.shows) else None, "tells": one.tells, "limit": ERRORS,
        }
        for one in noted(made)
    ]  # fmt: skip
    source = drawn[name]
    about = getattr(source, "func", source).__doc__ or ""
    return {"name": name, "about": " ".join(about.split("\n\n")[0].split()), "beside": rows}, pictures


def at_work() -> dict[str, str]:
    """Modules of the engine that this process has, by file, with the hash of their text."""
    found = {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if path is not None and (name == "meanfield" or name.startswith(_AT_WORK)) and path.endswith(".py"):
            found[os.path.relpath(path, _ROOT)] = of_file(path)
    return found


def still(engine: dict[str, str]) -> bool:
    """Whether all these modules are what they were."""
    return all(of_file(str(_ROOT / path)) == digest for path, digest in engine.items())


@lru_cache(maxsize=4096)
def of_file(path: str) -> str:
    """The hash of a file's content; empty where there is none."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:20]
    except OSError:
        return ""
