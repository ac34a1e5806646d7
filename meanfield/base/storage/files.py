"""Files that are written whole or not at all, and figures: how they look, and as which files.

Matplotlib is imported only when a figure is drawn or written.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from meanfield.base.errors import MeanFieldError

FORMATS = (".png", ".pdf", ".svg")  # of figures
_FOR_FILES = ContextVar("whether new figures are for a file", default=False)
LOOK = {
    "figure.max_open_warning": 0,
    "font.size": 8,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "mathtext.fontset": "cm",
    "hatch.linewidth": 0.5,
}


def write_whole(path: str | os.PathLike[str], content: bytes) -> Path:
    """Put `content` at `path` in one step: a reader sees the old file or the new one, never a part.

    Raises: MeanFieldError where the folder is missing or cannot be written.
    """
    target = Path(path).resolve() if Path(path).is_symlink() else Path(path)
    if target.exists() and not target.is_file():
        raise MeanFieldError(f"{path} cannot be written: it is not a file.")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        try:
            with open(temporary, "wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())  # on the disk before it takes the place of what is there
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise MeanFieldError(f"{path} cannot be written: {error.strerror or error}.") from None
    return Path(path)


def require() -> Any:
    """The matplotlib package; raises `MeanFieldError` where it is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise MeanFieldError(
            "A figure is not available: matplotlib is not installed; try: pip install 'meanfield[plot]'."
        ) from None
    return matplotlib


def new_figure(width: float, height: float) -> Any:
    """An empty figure of so many inches: one of pyplot, which notebooks and `plt.show()` show, or, inside
    `figures_for_files`, one that nobody shows or keeps."""
    if _FOR_FILES.get():
        from matplotlib.figure import Figure

        return Figure(figsize=(width, height), layout="constrained")
    from matplotlib import pyplot

    return pyplot.figure(figsize=(width, height), layout="constrained")


@contextmanager
def figures_for_files() -> Iterator[None]:
    """New figures are not pyplot's: no window, no backend."""
    token = _FOR_FILES.set(True)
    try:
        yield
    finally:
        _FOR_FILES.reset(token)


def figure_of(drawn: Any) -> Any:
    """The figure of some Axes, of an array of them, or a figure itself."""
    if hasattr(drawn, "savefig"):
        return drawn
    panel = drawn if hasattr(drawn, "get_figure") else next(iter(drawn))
    return panel.get_figure(root=True)


def save(drawn: Any, path: str | os.PathLike[str]) -> Path:
    """Write a figure, that of some Axes, or that of what a function draws, as PNG (300 dots per inch), PDF or SVG, by
    the path's suffix; whole or not at all."""
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise MeanFieldError(f"{target.name} is not available: figures are written as {', '.join(FORMATS)}.")
    return write_whole(target, as_bytes(drawn, target.suffix.lower()))


def as_bytes(drawn: Any, suffix: str) -> bytes:
    """What `save` writes into a file of this suffix."""
    with require().rc_context(LOOK), io.BytesIO() as buffer, figures_for_files():
        drawn = drawn() if callable(drawn) else drawn
        figure_of(drawn).savefig(buffer, format=suffix[1:], dpi=300)
        return buffer.getvalue()
