"""Making the calls, in processes of their own, and what is recorded of them."""

from __future__ import annotations

import hashlib
import inspect
import json
import multiprocessing
import os
import platform
import resource
import tempfile
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from .calls import CALLS
from .values import Flat, differences, flat

FILE = Path(__file__).parent / "recorded.json"
SLICE = 12  # calls of one process, whose peak memory is theirs
MEMORY = 1.25  # how much more memory than before is a difference
TOO_LONG = 400  # characters: of a longer text its hash is kept


def machine() -> str:
    """What the bits of a number depend on beside the code."""
    import llvmlite.binding as llvm
    import numba
    import numpy
    import scipy
    import sympy

    versions = " ".join(f"{m.__name__} {m.__version__}" for m in (numpy, scipy, sympy, numba))
    return f"{platform.machine()} {llvm.get_host_cpu_name()} Python {platform.python_version()} {versions}"


def answer(call: str) -> Flat:
    """What one call answers, or its refusal."""
    import numpy as np
    import sympy as sp

    import meanfield as mf
    from meanfield.base.symbols import K, z

    try:
        return shortened(flat(eval(call, {"mf": mf, "np": np, "sp": sp, "K": K, "z": z})))
    except mf.MeanFieldError as refusal:
        return {"refused": str(refusal)}


def shortened(table: Flat) -> Flat:
    def one(value: Any) -> Any:
        if isinstance(value, str) and len(value) > TOO_LONG:
            return f"{len(value)} characters, {hashlib.sha256(value.encode()).hexdigest()[:16]}"
        return value

    return {k: one(v) for k, v in table.items()}


def _several(calls: list[str]) -> tuple[dict[str, Flat], float]:
    os.environ["MEANFIELD_CACHE"] = tempfile.mkdtemp()
    found = {call: answer(call) for call in calls}
    return found, _peak()


def _peak() -> float:
    """The most memory that this process had, in MB; where the system says so, without that of the process which
    started it (Linux hands its `ru_maxrss` down)."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(float(line.split()[1]) for line in status.read_text().splitlines() if "VmHWM" in line) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def made(calls: list[str], workers: int) -> Iterator[tuple[dict[str, Flat], float]]:
    slices = [calls[i : i + SLICE] for i in range(0, len(calls), SLICE)]
    with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
        yield from pool.imap(_several, slices)


def signatures() -> dict[str, str]:
    """Every public name with how it is called, methods and fields of public classes among them."""
    import meanfield as mf

    found = {}
    for name, what in public(mf).items():
        found[name] = "(value)" if inspect.isclass(what) and issubclass(what, Enum) else _signature(what)
        if inspect.isclass(what):
            for own, _ in inspect.getmembers(what):
                if not own.startswith("_") and not _foreign(what, own):
                    found[f"{name}.{own}"] = _signature(inspect.getattr_static(what, own))
    return found


def _foreign(cls: type, name: str) -> bool:
    """Whether a member comes from classes of Python or scikit-learn, whose signatures differ from version to version.
    """
    home = next((one for one in cls.__mro__ if name in vars(one)), None)
    own = ("builtins", "enum", "abc", "typing", "collections.abc")
    return home is None or home.__module__ in own or home.__module__.startswith("sklearn.")


def public(package: Any) -> dict[str, Any]:
    """Every public name: those at the top, and those of the rooms that stand there, as "symbolic.weingarten"."""
    out = {}
    for name in package.__all__:
        out[name] = what = getattr(package, name)
        if inspect.ismodule(what):
            out |= {f"{name}.{own}": getattr(what, own) for own in getattr(what, "__all__", ())}
    return out


def _signature(what: Any) -> str:
    what = getattr(what, "__func__", what)
    if not callable(what):
        return type(what).__name__
    try:
        return str(inspect.signature(what))
    except (ValueError, TypeError):
        return "(…)"


def chosen(only: str) -> list[str]:
    return [c for c in CALLS if only in c]


def written(only: str, workers: int) -> str:
    answers: dict[str, Flat] = {}
    memory = []
    for found, peak in made(chosen(only), workers):
        answers |= found
        memory.append(round(peak))
    data = {"machine": machine(), "memory": memory, "signatures": signatures(), "answers": answers}
    if only:
        before = recorded()
        data |= {
            "memory": before["memory"],
            "answers": {c: a for c, a in (before["answers"] | answers).items() if c in CALLS},
        }
    FILE.write_text(json.dumps(data, indent=0, sort_keys=True, ensure_ascii=False) + "\n")
    return f"{len(answers)} calls" + (f", peaks {min(memory)} to {max(memory)} MB" if memory else "")


def recorded() -> dict[str, Any]:
    return json.loads(FILE.read_text())


def compared(data: dict[str, Any], only: str, workers: int, loose: bool = False) -> list[str]:
    """Differences from what is recorded, a line each; loose: as on another machine."""
    exact, lines = data["machine"] == machine() and not loose, []
    for i, (found, peak) in enumerate(made(chosen(only), workers)):
        for call, new in found.items():
            if call not in data["answers"]:
                lines.append(f"{call}\n    is not recorded")
                continue
            apart = differences(data["answers"][call], new, exact)
            lines += [f"{call}\n    " + "\n    ".join(apart[:5])] if apart else []
        if not only and exact and peak > MEMORY * data["memory"][i]:
            lines.append(f"calls {SLICE * i} to {SLICE * (i + 1)} took {peak:.0f} MB, {data['memory'][i]} before")
    return lines
