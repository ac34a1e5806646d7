"""Figures of papers: the theory's line through networks, and what is said of the two; files of a paper's figures.

`beside` draws both and notes them down, so that a report can say how far the networks lie from the line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from meanfield.base import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = tuple[np.ndarray, np.ndarray]  # means, standard errors
Drawn = Mapping[str, Callable[[], "Figure"]]  # the figures of a paper by name
ERRORS = 4.5  # standard errors that a point may be off, besides the allowance: of some hundred points none is


@dataclass(frozen=True)
class Beside:
    """A line of the theory at some x, and networks there: means and standard errors.

    allowance: what a finite width may add to a gap; size: what a wrong line is measured by, in the line's units.
    """

    label: str
    x: np.ndarray
    line: np.ndarray
    means: np.ndarray
    errors: np.ndarray
    allowance: np.ndarray
    size: float

    def errors_off(self, planted: float = 0.0) -> float:
        """How many standard errors the farthest network lies beyond the allowance; planted: what is added to the line,
        in units of its size."""
        gap = np.abs(self.means - self.line - planted * self.size) - self.allowance
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.max(np.where(gap > 0, gap / self.errors, 0.0), initial=0.0))

    @property
    def agrees(self) -> bool:
        return self.errors_off() <= ERRORS

    @property
    def shows(self) -> float:
        """The least wrong line that these networks would tell from the right one, in units of its size; inf: none."""
        for planted in SHIFTS:
            if min(self.errors_off(planted), self.errors_off(-planted)) > ERRORS:
                return float(planted)
        return float("inf")


SHIFTS = np.geomspace(1e-3, 1e2, 51)
_NOTED: WeakKeyDictionary[Any, list[Beside]] = WeakKeyDictionary()


def beside(
    panel: Axes, x: Any, line: Any, found: Points, colour: str, allowance: Any, *, size: float | None = None,
    label: str = "", dashed: bool = False, of: Callable[[np.ndarray], np.ndarray] | None = None, **style: Any,
) -> None:
    """Draw networks as dots with two standard errors beside the theory's line, and note both down.

    allowance: of a finite width, at each x, in units of `size`; size: that of the line, its largest value unless given;
    of: what is drawn of line and networks (np.exp where they are logarithms).
    """  # fmt: skip
    note = note_beside(panel, style.pop("note", label), x, line, found, allowance, size)
    x, means, errors, line = note.x, note.means, note.errors, note.line
    low, y, high = (v if of is None else of(v) for v in (means - 2 * errors, means, means + 2 * errors))
    style = {"fmt": "o", "ms": 2.5, "lw": 0.8, "label": label} | style
    panel.errorbar(x, y, [y - low, high - y], color=colour, **style)
    panel.plot(x, line if of is None else of(line), "--" if dashed else "-", color=colour, lw=0.9)


def note_beside(
    drawn: Any, label: str, x: Any, line: Any, found: Points, allowance: Any, size: float | None = None
) -> Beside:
    """Note down networks beside a line in the figure, or the panel, in which both are drawn."""
    x, line, means, errors = (np.ravel(np.asarray(v, dtype=float)) for v in (x, line, *found))
    size = (float(np.max(np.abs(line))) or 1.0) if size is None else size
    allowed = np.broadcast_to(np.asarray(allowance, dtype=float), line.shape) * size
    note = Beside(label, x, line, means, errors, allowed, size)
    _NOTED.setdefault(files.figure_of(drawn), []).append(note)
    return note


def noted(figure: Figure) -> tuple[Beside, ...]:
    """What `beside` drew into a figure."""
    return tuple(_NOTED.get(figure, ()))


def write_all(drawn: Drawn, folder: str | os.PathLike, suffix: str = ".png") -> list[Path]:
    """Each figure as a file of its name in `folder`, which is made; returns the files."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    return [files.save(draw(), target / f"{name}{suffix}") for name, draw in drawn.items()]
