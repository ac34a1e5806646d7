"""Files that are written whole or not at all, and figures: how they look, and as which files.

Matplotlib is imported only when a figure is drawn or written.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from meanfield.base.errors import MeanFieldError

FORMATS = (".png", ".pdf", ".svg")  # of figures
LOOK = {
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


def write_whole(path: str | os.PathLike, content: bytes) -> Path:
    """Put `content` at `path` in one step: a reader sees the old file or the new one, never a part.

    Raises: MeanFieldError where the folder is missing or cannot be written.
    """
    target = Path(path).resolve() if Path(path).is_symlink() else Path(path)
    if target.exists() and not target.is_file():
        raise MeanFieldError(f"{path} cannot be written: it is not a file.")
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        try:
            temporary.write_bytes(content)
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
            "A figure was asked for, but matplotlib is not installed; try: pip install 'meanfield[plot]'."
        ) from None
    return matplotlib


def figure_of(drawn: Any) -> Any:
    """The figure of some Axes, of an array of them, or a figure itself."""
    if hasattr(drawn, "savefig"):
        return drawn
    panel = drawn if hasattr(drawn, "get_figure") else next(iter(drawn))
    return panel.get_figure(root=True)


def save(drawn: Any, path: str | os.PathLike) -> Path:
    """Write a figure, or that of some Axes, as PNG (300 dots per inch), PDF or SVG, by the path's
    suffix; whole or not at all."""
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise MeanFieldError(f"{target.name} was asked for; figures are written as {', '.join(FORMATS)}.")
    with require().rc_context(LOOK), io.BytesIO() as buffer:
        figure_of(drawn).savefig(buffer, format=target.suffix.lower()[1:], dpi=300)
        return write_whole(target, buffer.getvalue())
