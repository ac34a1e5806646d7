"""How wide LaTeX may be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from meanfield.base.arguments import shown
from meanfield.base.errors import MeanFieldError
from meanfield.base.tex.width import COLUMN, Column


@contextmanager
def column_width(points: float, *, across: bool = False) -> Iterator[None]:
    r"""LaTeX that is made inside has lines of at most so many points; 345, an article at 10 pt, unless given.

    points: from 200 to 2000; 229.5 is a column of a two-column article, 246 one of REVTeX. across: tables are floats
    over both columns (`table*`). Raises: MeanFieldError for a width out of range.

    >>> from meanfield.presentation import column_width
    >>> with column_width(229.5):
    ...     narrow = derive("gelu").table().latex()
    >>> narrow.count("tabularnewline") > derive("gelu").table().latex().count("tabularnewline")
    True
    """
    if not isinstance(points, (int, float)) or isinstance(points, bool) or not 200 <= points <= 2000:
        raise MeanFieldError(f"The width of a column must be 200 to 2000 points, but {shown(points)} was given.")
    token = COLUMN.set(Column(float(points), across))
    try:
        yield
    finally:
        COLUMN.reset(token)
