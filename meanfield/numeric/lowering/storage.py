"""The folder of what is computed once, and files that appear whole or not at all and say whether they are.

The folder is $MEANFIELD_CACHE, else the user's cache folder; where nothing can be written a temporary folder of the
process serves.
"""

from __future__ import annotations

import hashlib
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


def sealed(data: bytes) -> bytes:
    """The data behind a line with their hash."""
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def unsealed(whole: bytes) -> bytes | None:
    """The data of a file that was sealed, None where they are no longer these."""
    digest, _, data = whole.partition(b"\n")
    return data if hashlib.sha256(data).hexdigest().encode() == digest else None
