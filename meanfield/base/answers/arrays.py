"""Arrays with named axes, and what becomes of them: columns of a frame, .csv and .npz files, tables of a notebook."""

from __future__ import annotations

import csv
import html
import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from enum import Enum
from typing import Any

ROWS = 12  # of a table in a notebook
Column = tuple[tuple[str, ...], Any]  # the axes, and an array over them


@dataclass(frozen=True)
class Arrays:
    """Arrays with named axes: coords: what runs along the axes, by name; columns: the arrays; attrs: numbers and text
    that hold for all of them. Each array is (names of its axes, values), as xarray has it."""

    coords: Mapping[str, Column]
    columns: Mapping[str, Column]
    attrs: Mapping[str, Any]

    @property
    def every(self) -> dict[str, Column]:
        """Coordinates and arrays by name."""
        return {**self.coords, **self.columns}

    def axes(self) -> dict[str, int]:
        """The axes and their lengths, those of the coordinates first."""
        import numpy as np

        found: dict[str, int] = {}
        for names, values in self.every.values():
            found |= dict(zip(names, np.shape(values)))
        return found

    def flat(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """(index, columns): every array over all axes, as lists of equal length; an axis without coordinates counts."""
        import numpy as np

        sizes = self.axes()

        def spread(names: tuple[str, ...], values: Any) -> Any:
            order = sorted(range(len(names)), key=lambda i: list(sizes).index(names[i]))
            moved = np.transpose(np.asarray(values), order) if len(names) > 1 else np.asarray(values)
            shape = tuple(n if axis in names else 1 for axis, n in sizes.items())
            return np.broadcast_to(moved.reshape(shape), tuple(sizes.values())).ravel()

        index: dict[str, Any] = {}
        for axis, n in sizes.items():
            named = {name: column for name, column in self.coords.items() if axis in column[0]}
            index |= {k: spread(*c) for k, c in (named or {axis: ((axis,), np.arange(n))}).items() if k not in index}
        return index, {name: spread(*column) for name, column in self.columns.items()}


def cell(value: Any) -> Any:
    """A value as one cell of a frame, a number as a double where it has one; ... for what is not one value."""
    if isinstance(value, Enum):
        return value.value
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a number of NumPy
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    text = getattr(value, "text", None)
    if text is not None:
        return text()
    if isinstance(value, (Mapping, list, tuple)) or getattr(value, "ndim", False):
        return ...
    try:
        return float(value)
    except (TypeError, ValueError):
        return ... if is_dataclass(value) else str(value)


def of_rows(rows: list[dict[str, Any]]) -> Arrays:
    """Rows as columns over the axis "row"; a cell that a row lacks is None."""
    import numpy as np

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: dict[str, Column] = {}
    for name in names:
        cells = [row.get(name) for row in rows]
        kinds = {type(c) for c in cells}
        if kinds <= {float, int, type(None)} and kinds != {int}:
            cells = [math.nan if c is None else c for c in cells]
        numbers = kinds <= {float, int, type(None)} or kinds == {bool}
        columns[name] = ("row",), np.array(cells) if numbers else np.array(cells, dtype=object)
    return Arrays({"row": (("row",), np.arange(len(rows)))}, columns, {})


def file_content(found: Arrays, kind: str, suffix: str) -> bytes:
    """Arrays as the content of a .csv or .npz file."""
    import numpy as np

    if suffix == ".npz":
        buffer = io.BytesIO()
        axes = {name: names for name, (names, _) in found.every.items()}
        head = {"result": kind, "axes": axes, "coords": list(found.coords), "attrs": dict(found.attrs)}
        arrays = {n: np.asarray(v) for n, (_, v) in found.every.items()}
        arrays = {n: v.astype(str) if v.dtype == object else v for n, v in arrays.items()}
        scalars = {n: np.asarray(v) for n, v in found.attrs.items() if isinstance(v, (str, int, float))}
        np.savez_compressed(buffer, meanfield=json.dumps(head), **scalars, **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()
    index, columns = found.flat()
    text = io.StringIO()
    every = ({} if list(index) == ["row"] else index) | columns
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(every)
    writer.writerows(zip(*([_cell(v) for v in values.tolist()] for values in every.values())))
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    return f"{value:.17g}" if isinstance(value, float) else value


def html_table(found: Arrays, title: str) -> str:
    """The first and the last rows of some arrays as an HTML table."""
    index, columns = found.flat()
    every = ({} if list(index) == ["row"] else index) | columns
    count = len(next(iter(every.values()), ()))
    shown = list(range(count)) if count <= ROWS else [*range(ROWS // 2), None, *range(count - ROWS // 2, count)]
    head = "".join(f"<th>{html.escape(str(name))}</th>" for name in every)
    body = ""
    for i in shown:
        cells = ["…"] * len(every) if i is None else [_digits(values[i]) for values in every.values()]
        body += "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
    return f"<div>{html.escape(title)}<table><tr>{head}</tr>{body}</table></div>"


def _digits(value: Any) -> str:
    return (
        f"{value:.8g}"
        if isinstance(value, float) or (hasattr(value, "dtype") and value.dtype.kind == "f")
        else str(value)
    )
