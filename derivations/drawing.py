"""Figures of papers: networks beside the theory's line, and what is said of the two; files of a paper's figures.

`beside` draws networks and notes down how they lie beside the line, `note_law` how a law at large depth lies beside an
iteration, so that a report can say how far off they are, and which wrong line would show.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from meanfield.base.storage import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = tuple[np.ndarray, np.ndarray]  # means, standard errors
Drawn = Mapping[str, Callable[[], "Figure"]]  # the figures of a paper by name
ERRORS = 4.5  # standard errors that a point may be off, besides the allowance: of some hundred points none is
EXACT = 1e-9  # of a line's size: errors below are those of rounding
SHIFTS = np.geomspace(1e-3, 1e2, 51)
_NOTED: WeakKeyDictionary[Any, list[Beside]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Beside:
    """A line of the theory at some x, and what networks, or an iteration, give for it: means and standard errors.

    allowance: what else may lie between the two; size: what a wrong line is measured by, in the line's units.
    """

    label: str
    x: np.ndarray
    line: np.ndarray
    means: np.ndarray
    errors: np.ndarray
    allowance: np.ndarray
    size: float

    def errors_off(self, planted: float = 0.0) -> float:
        """How many standard errors the farthest point lies beyond the allowance; planted: what is added to the line,
        in units of its size, but for points that are the same in all networks."""
        rounding = EXACT * self.size
        shift = np.where(self.errors > rounding, planted * self.size, 0.0)
        gap = np.abs(self.means - self.line - shift) - self.allowance
        return float(np.max(np.maximum(gap, 0.0) / np.maximum(self.errors, rounding), initial=0.0))

    @property
    def agrees(self) -> bool:
        return self.errors_off() <= ERRORS

    @property
    def shows(self) -> float:
        """The least wrong line that these points would tell from the right one, in units of its size; inf: none."""
        for planted in SHIFTS:
            if min(self.errors_off(planted), self.errors_off(-planted)) > ERRORS:
                return float(planted)
        return float("inf")

    @property
    def tells(self) -> bool:
        """Whether a line that is wrong by its own size would be seen."""
        return self.shows <= 1


def beside(
    panel: Axes, x: Any, line: Any, found: Points, half: Points, ratio: Any, colour: str, *, size: float | None = None,
    label: str = "", of: Callable[[np.ndarray], np.ndarray] | None = None, **style: Any,
) -> None:
    """Draw networks as dots with two standard errors, and note down how they lie beside the theory's line.

    half: networks of half the width, beside the same line; ratio: l/n, or what else the theory's terms beyond infinite
    width are powers of; size: that of the line, its largest value unless given; of: what is drawn of the networks
    (np.exp where they are logarithms).
    """  # fmt: skip
    note_beside(panel, style.pop("note", label), x, line, found, half, ratio, size)
    means, errors = (np.ravel(np.asarray(v, dtype=float)) for v in found)
    low, y, high = (v if of is None else of(v) for v in (means - 2 * errors, means, means + 2 * errors))
    dots: dict[str, Any] = {"fmt": "o", "ms": 2.5, "lw": 0.8, "label": label} | style
    panel.errorbar(x, y, [y - low, high - y], color=colour, **dots)


def note_beside(
    drawn: Any, label: str, x: Any, line: Any, found: Points, half: Points, ratio: Any, size: float | None = None
) -> None:
    """Note down networks of widths n and n/2 beside a line in the figure, or the panel, in which they are drawn.

    Their means are a series in `ratio` beyond infinite width. Its first term is what the two differ by, and is taken
    away; allowed for is a second one as large, beside the first, as that of an exponential.
    """
    allowed = np.abs(np.ravel(found[0]) - np.ravel(half[0])) * np.ravel(np.asarray(ratio, dtype=float))
    _note(drawn, label, x, line, without_first_term(found, half), allowed, size)


def without_first_term(found: Points, half: Points) -> Points:
    """Networks of widths n and n/2, the term 1/n taken away."""
    (means, errors), (others, their_errors) = found, half
    return 2 * means - others, np.hypot(2 * errors, their_errors)


def note_law(drawn: Any, label: str, l: Any, law: Any, values: Any) -> None:
    """Note down a law at large depth beside an iteration, both logarithms at some l: their slopes against log l over
    the last decade, the iteration's with what it changed by since the decade before as its error."""
    l, law, values = (np.ravel(np.asarray(v, dtype=float)) for v in (l, law, values))
    ends = [int(np.searchsorted(l, l[-1] / 10**k)) for k in (2, 1)] + [len(l) - 1]
    before, last, line = (
        (v[ends[k + 1]] - v[ends[k]]) / np.log(l[ends[k + 1]] / l[ends[k]])
        for v, k in ((values, 0), (values, 1), (law, 1))
    )
    found = np.array([last]), np.array([abs(last - before)])
    _note(drawn, f"{label}: slope at l = {l[-1]:.0f}", l[-1:], line, found, 0.0, max(abs(line), 1.0))


def _note(drawn: Any, label: str, x: Any, line: Any, found: Points, allowed: Any, size: float | None) -> None:
    x, line, means, errors = (np.ravel(np.asarray(v, dtype=float)) for v in (x, line, *found))
    size = (float(np.max(np.abs(line))) or 1.0) if size is None else size
    note = Beside(label, x, line, means, errors, np.broadcast_to(allowed, line.shape), size)
    _NOTED.setdefault(files.figure_of(drawn), []).append(note)


def noted(figure: Figure) -> tuple[Beside, ...]:
    """What `beside` drew into a figure."""
    return tuple(_NOTED.get(figure, ()))


def write_all(drawn: Drawn, folder: str | os.PathLike, suffix: str = ".png") -> list[Path]:
    """Each figure as a file of its name in `folder`, which is made; returns the files."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    return [files.save(draw(), target / f"{name}{suffix}") for name, draw in drawn.items()]
