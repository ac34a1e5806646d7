"""A reader's own numbers beside the line: the log of a run, as a frame or a file."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from meanfield.base.arguments import finite, shown, whole
from meanfield.base.errors import MeanFieldError
from meanfield.base.words import unknown
from meanfield.parametrizations.coordinates.coordinate_rows import COLUMNS

NEEDED = ("width", "layer", "column", "value")
ALSO = ("depth", "matrix", "error", "networks")
SPREAD = 0.1  # relative, of one network of which nothing is known
LEAST = 0.01  # no number of a log without an error is taken to be better
MOST = 10**6  # rows of a file
MANY = 1000  # networks of an error that does not say of how many it is: it is taken as known


def compared(check: Any, frame: Any) -> Any:
    """`CoordinateCheck.compare`; check: the result."""
    given = [_number(row, k) for k, row in enumerate(_records(frame), 1)]
    if not given:
        raise MeanFieldError("The frame holds no rows; it needs " + _wanted() + ".")
    known = {(*row.key, row.width): row for row in check.rows}
    depths = {row.depth for row in check.rows}
    found: dict[tuple, list[dict[str, Any]]] = defaultdict(list)
    for k, row in enumerate(given, 1):
        found[_place(row, k, check, depths)].append(row)
    rows = []
    for key, row in known.items():
        if key in found:
            measured, error, networks = _joined(found[key], check._spread.get(key, SPREAD))
            rows.append(replace(row, measured=measured, error=error, networks=networks))
        else:
            rows.append(replace(row, measured=None, error=None, networks=0))
    return check.with_rows(rows, f"Measured elsewhere: {len(given)} numbers.")


def _records(frame: Any) -> list[Mapping[str, Any]]:
    if isinstance(frame, str | Path):
        try:
            with open(frame, newline="", encoding="utf-8-sig") as file:
                return [dict(row) for _, row in zip(range(MOST), csv.DictReader(file))]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise MeanFieldError(f"The file {str(frame)!r} could not be read as .csv: {error}.") from None
    if hasattr(frame, "to_dict") and hasattr(frame, "columns"):
        return frame.reset_index().to_dict("records")
    if isinstance(frame, list | tuple) and all(isinstance(row, Mapping) for row in frame):
        return list(frame)
    raise MeanFieldError(
        f"compare takes a data frame, rows as mappings, or the path of a .csv file with {_wanted()}, but "
        f"{shown(frame)} was given."
    )


def _wanted() -> str:
    return f"the columns {', '.join(NEEDED)} (and {', '.join(ALSO)} where they say more)"


def _number(row: Mapping[str, Any], k: int) -> dict[str, Any]:
    """One row, read; of a frame of this library `measured` is taken as value."""
    held = {str(name).strip().lower(): value for name, value in row.items() if name is not None}
    if "value" not in held and "measured" in held:
        held["value"] = held["measured"]
    missing = [name for name in NEEDED if _empty(held.get(name))]
    if missing:
        raise MeanFieldError(f"Row {k} has no {' and no '.join(missing)}; a frame to compare needs {_wanted()}.")
    value = finite(held["value"], f"The value of row {k}")
    error = None if _empty(held.get("error")) else finite(held["error"], f"The error of row {k}")
    if value < 0 or (error is not None and error < 0):
        raise MeanFieldError(f"Row {k} holds a number < 0, but sizes are root mean squares.")
    out: dict[str, Any] = {name: _count(held[name], f"The {name} of row {k}", 1 << 30) for name in ("width", "layer")}
    depth = None if _empty(held.get("depth")) else _count(held["depth"], f"The depth of row {k}", 1 << 20)
    matrix = None if _empty(held.get("matrix")) else str(held["matrix"]).strip()
    out |= {"column": str(held["column"]).strip(), "depth": depth, "matrix": matrix}
    networks = None if _empty(held.get("networks")) else _count(held["networks"], f"The networks of row {k}", 1 << 30)
    return out | {"value": value, "error": error, "networks": networks}


def _count(value: Any, what: str, most: int) -> int:
    """A whole number; 32.0 is one, as frames write columns in which something is missing."""
    text = str(value).strip()
    return whole(text[:-2] if isinstance(value, float | str) and text.endswith(".0") else value, what, 1, most)


def _empty(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _place(row: dict[str, Any], k: int, check: Any, depths: set[int]) -> tuple:
    """Which number of the check a row is one of."""
    if row["depth"] is None and len(depths) > 1:
        listed = ", ".join(map(str, sorted(depths)))
        raise MeanFieldError(f"Row {k} has no depth, but the check has several ({listed}); add a column depth.")
    depth = row["depth"] or min(depths)
    column = row["column"]
    if column not in COLUMNS:
        raise unknown(f"column in row {k}", column, COLUMNS)
    here = [one for one in check.rows if (one.depth, one.width, one.layer) == (depth, row["width"], row["layer"])]
    if not here:
        widths = sorted({one.width for one in check.rows})
        raise MeanFieldError(
            f"Row {k} is of width {row['width']}, layer {row['layer']} and depth {depth}, which the check has not: it "
            f"has the widths {', '.join(map(str, widths))} and the layers 1 to {max(depths)}."
        )
    if any(one.matrix == "readout" for one in here):  # the output's own names for what other layers have
        column = {"z": "f", "own": "Df_readout", "total": "Df"}.get(column, column)
    matrices = {one.matrix for one in here if one.column == column}
    if row["matrix"] is None and len(matrices) > 1:
        raise MeanFieldError(f"Row {k} needs a matrix: layer {row['layer']} has {', '.join(sorted(matrices))}.")
    matrix = row["matrix"] or next(iter(matrices), "")
    if matrix not in matrices:
        raise MeanFieldError(
            f"Row {k} is of the column {column} of {matrix or 'a matrix'}, which layer {row['layer']} has not; it has "
            + ", ".join(sorted({f"{one.column} of {one.matrix}" for one in here}))
            + "."
        )
    return depth, row["layer"], matrix, column, row["width"]


def _joined(given: list[dict[str, Any]], spread: float) -> tuple[float, float, int]:
    """The root mean square of several runs, its error (theirs, or that of as many networks, whose scatter counts where
    it is larger) and of how many networks it is."""
    size = math.sqrt(sum(row["value"] ** 2 for row in given) / len(given))
    errors = [row["error"] for row in given if row["error"] is not None]
    if len(errors) == len(given):
        networks = sum(row["networks"] or MANY for row in given)
        return size, math.sqrt(sum(error**2 for error in errors)) / len(given), networks
    seen = math.sqrt(sum((row["value"] - size) ** 2 for row in given) / max(len(given) - 1, 1))
    return size, max(spread * size, LEAST * size, seen) / math.sqrt(len(given)), MANY
