"""Where compiled theories live: one generated module and one array file per theory, written whole, found again by the
hash of what they compute, of the code that derived it, and of the libraries that code stands on.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING

from meanfield.base.errors import MeanFieldError
from meanfield.numeric.lowering.modules.storage import folder, replace

if TYPE_CHECKING:
    import numpy as np

#: what cannot change a generated module: finite networks, and what prints or draws. Everything else counts.
_APART = (
    *("empirical/", "cli/", "comparison/", "tuning/", "prediction/", "training/"),
    *("presentation/figures.py", "presentation/tables.py"),
)
_LOADING = RLock()
_LIBRARIES = {name: name for name in ("sympy", "mpmath", "numpy", "scipy", "numba")} | {"python-flint": "flint"}


def sources() -> list[Path]:
    """The files whose change makes every stored module unreachable: all of the package that derives or generates."""
    root = Path(__file__).parents[3]
    names = {p: p.relative_to(root).as_posix() for p in (Path(path) for path, _ in _files(root))}
    return sorted((p for p, name in names.items() if not name.startswith(_APART)), key=names.__getitem__)


@lru_cache(maxsize=1)
def _engine() -> str:
    """A hash of the code that derives and generates, and of the libraries' versions: a module holds closed forms,
    breaks and digits that any of them can change.

    It is kept beside the modules under the sizes and times of all files that it is of: reading them takes longer than
    everything else that a process does that finds what it needs.
    """
    kept = folder() / f"engine_{_times()}"
    with suppress(OSError, ValueError):  # it is not there, or no text
        if len(known := kept.read_text()) == 64:
            return known
    digest = hashlib.sha256()
    for path in sources():
        text = path.read_bytes()
        digest.update(f"{path.parent.name}/{path.name} {len(text)}\n".encode() + text)
    digest.update(" ".join(f"{name} {version(name)}" for name in _LIBRARIES).encode())
    with suppress(OSError):  # a full disk
        replace(kept, lambda f: f.write(digest.hexdigest().encode()))
    return digest.hexdigest()


def _times() -> str:
    """A hash of where the files of this package and of the libraries are, how large they are, and of when."""
    found = [f"{p} {s.st_size} {s.st_mtime_ns}" for p, s in _files(Path(__file__).parents[3])]
    for place in dict.fromkeys(sys.path):
        for name in _LIBRARIES.values():
            for path in (f"{place}/{name}", f"{place}/{name}/__init__.py"):  # installing writes both
                if os.path.exists(path):
                    found.append(f"{path} {os.stat(path).st_size} {os.stat(path).st_mtime_ns}")
    return hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()[:24]


def _files(folder: str | Path) -> Iterator[tuple[str, os.stat_result]]:
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            if entry.name != "__pycache__":
                yield from _files(entry.path)
        elif entry.name.endswith(".py"):
            yield entry.path, entry.stat()


def version(library: str) -> str:
    """The version of an installed library, by its metadata or else by its own word; "" where it is neither."""
    from importlib import metadata  # it takes longer to load than everything here

    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:  # not installed, or packed without its metadata
        return str(getattr(sys.modules.get(_LIBRARIES[library]), "__version__", ""))


def _added() -> str:
    """What the functions added in this process compute; a process that has not loaded them has added none, nor has one
    in which another thread is loading them."""
    fingerprint = getattr(sys.modules.get("meanfield.functions.elementary"), "fingerprint", None)
    return "" if fingerprint is None else fingerprint()


def key(description: str) -> str:
    """The name of the module that computes what `description` says."""
    return "theory_" + hashlib.sha256(f"{_engine()}\n{_added()}{description}".encode()).hexdigest()[:24]


def read(name: str) -> tuple[str, dict[str, np.ndarray]] | None:
    """(source, arrays) of a stored module, or None where one of them is missing or not whole."""
    found = arrays(folder() / f"{name}.npz")
    text = _text(name)
    return None if found is None or text is None or str(found.pop("source", "")) != _digest(text) else (text, found)


def arrays(file: Path) -> dict[str, np.ndarray] | None:
    """The arrays of a file that `np.savez` wrote, or None where it is missing or not whole."""
    import numpy as np  # answers are kept where there is no NumPy, too

    try:
        with file.open("rb") as whole, np.load(whole) as data:
            return {k: data[k] for k in data.files}
    except Exception:  # zip files have many ways not to be one
        return None


def _text(name: str) -> str | None:
    with suppress(OSError, ValueError):
        return (folder() / f"{name}.py").read_bytes().decode()
    return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write(name: str, text: str, arrays: dict[str, np.ndarray]) -> None:
    """Store a module and its arrays; each file appears whole or not at all, and a text that is there is not touched
    (its time is part of Numba's key)."""
    import numpy as np

    whole = arrays | {"source": np.array(_digest(text))}
    try:
        replace(folder() / f"{name}.npz", lambda f: np.savez(f, **whole))  # type: ignore[arg-type]
        if _text(name) != text:
            replace(folder() / f"{name}.py", lambda f: f.write(text.encode()))
    except OSError as error:
        raise MeanFieldError(
            f"A compiled theory was to be kept in {folder()}, but it could not be written ({error.strerror}); make "
            "room there, or set MEANFIELD_CACHE to another folder."
        ) from error


def is_compiled(name: str) -> bool:
    """Whether Numba has kept compiled code of a stored module, where it keeps it unless it is told another place."""
    return any((folder() / "__pycache__").glob(f"{name}.*.nbi"))


def load(name: str) -> ModuleType:
    """Import a stored module (compiled code comes from Numba's own cache beside it), whole also for threads that ask
    while another one imports it."""
    full = f"meanfield_cache.{name}"
    with _LOADING:
        if full in sys.modules:
            return sys.modules[full]
        spec = importlib.util.spec_from_file_location(full, folder() / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = sys.modules[full] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:  # half of a module answers nobody
            del sys.modules[full]
            raise
        return module
