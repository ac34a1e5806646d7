"""Lines and modules of the package by room, and of its core: `python -m tests.rooms`.

The core is what `derive("tanh").propagate(...)` needs: every module of the package that is loaded after it in a fresh
process with an empty cache, and the static closure of `propagate`: nested imports, by-name ones and tables included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.package.test_imports import NAMES, PACKAGE, imported

CALL = (
    "import json, sys, meanfield as mf; mf.derive('tanh').propagate(sigma_w=1.2, sigma_b=.1, depth=500);"
    "print(json.dumps([m for m in sys.modules if m.split('.')[0] == 'meanfield']))"
)

FACE = ("theory.verbs.propagating", "theory.deriving")  # where `derive("tanh").propagate(...)` enters


def path_of(name: str) -> Path:
    """The file of a module: `functions.zeros`, or a package that holds code."""
    if name == "__init__":
        return PACKAGE / "__init__.py"
    file = PACKAGE / f"{name.replace('.', '/')}.py"
    return file if file.exists() else PACKAGE / name.replace(".", "/") / "__init__.py"


def lines(name: str) -> int:
    return len(path_of(name).read_text().splitlines())


def loaded() -> set[str]:
    """Modules that hold code, of a fresh process that has propagated."""
    env = os.environ | {"MEANFIELD_CACHE": tempfile.mkdtemp()}
    found = json.loads(subprocess.check_output([sys.executable, "-c", CALL], env=env, text=True))
    short = {m.removeprefix("meanfield.") if m != "meanfield" else "__init__" for m in found}
    return short & NAMES


def closure(*names: str) -> set[str]:
    """Modules that these import, and what those import, nested imports included."""
    todo, found = list(names), set()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [o for o in imported(path_of(name)) if o in NAMES]
    return found


def main() -> None:
    rooms: dict[str, list[str]] = defaultdict(list)
    for name in NAMES:
        parts = name.split(".")
        rooms[
            ".".join(parts[: 2 if parts[0] in ("symbolic", "numeric", "empirical") else 1][: len(parts) - 1]) or "."
        ].append(name)
    for room in sorted(rooms):
        print(f"{room:32} {len(rooms[room]):4} modules {sum(map(lines, rooms[room])):6} lines")
    print(f"{'whole':32} {len(NAMES):4} modules {sum(map(lines, NAMES)):6} lines")
    for what, core in (("core, as loaded", loaded()), ("core, static", closure(*FACE))):
        print(f"{what:32} {len(core):4} modules {sum(map(lines, core)):6} lines")


if __name__ == "__main__":
    main()
