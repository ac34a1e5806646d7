"""The folder of what is computed once, and files that appear whole or not at all.

The folder is $MEANFIELD_CACHE, else the user's cache folder; where nothing can be written a temporary folder of the
process serves.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO


@lru_cache(maxsize=1)
def folder() -> Path:
    """The cache folder, created if need be."""
    base = os.environ.get("MEANFIELD_CACHE")
    if not base:
        root = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("LOCALAPPDATA") if os.name == "nt" else "~/.cache")
        base = str(Path(root or "~/.cache").expanduser() / "meanfield")
    path = Path(base)
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError:
        path = Path(tempfile.mkdtemp(prefix="meanfield-"))
    return path


def replace(target: Path, fill: Callable[[BinaryIO], object]) -> None:
    """Make the file `target` with what `fill` writes; it is never seen half written."""
    handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as f:
            fill(f)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
