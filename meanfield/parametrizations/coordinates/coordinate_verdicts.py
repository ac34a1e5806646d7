"""What the rows of a coordinate check say: which columns are beside the line, and which lines are not flat."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from meanfield.parametrizations.coordinates.coordinate_rows import (
    LEAST,
    SAID,
    SIGMAS,
    CoordinateRow,
    Finding,
    slope,
    where,
    written_power,
)

ALIKE = 0.15  # powers that differ by less are those of one cause
CHANGES = ("own", "total", "Df", "Df_readout", "Df_features")


def off_the_line(rows: Sequence[CoordinateRow]) -> list[Finding]:
    """A finding for each column that networks have beside the theory, at any width."""
    several = len({row.depth for row in rows}) > 1
    found = []
    for (depth, layer, matrix, column), group in _groups(rows, lambda row: row.key).items():
        held = [row for row in group if row.measured is not None]
        off = [row for row in held if row.is_off]
        if not off:
            continue
        last = off[-1]
        factor = last.ratio
        assert factor is not None
        power = _departs([row.width for row in held], held)
        place = where(layer, matrix, depth, several)
        if power:
            how = f"{'falls' if power < 0 else 'grows'} as {written_power('n', power)} beside the line"
        elif not math.isfinite(last.measured or 0.0) or not math.isfinite(last.theory):
            how = "is no finite number"
        elif factor in (0.0, math.inf):
            how = "vanishes, and the line does not" if factor == 0 else "does not vanish, and the line does"
        else:
            at = "every width" if _constant(held) else f"width {last.width}"
            how = f"is {factor:.3g} times the line at {at}"
        found.append(Finding(depth, layer, matrix, column, factor, power, "n", f"{place}: {SAID[column]} {how}"))
    return found + (_over_depths(rows) if several else [])


def _constant(rows: Sequence[CoordinateRow]) -> bool:
    """Whether the ratio is one number at all of several widths, within errors and what finite width may change."""
    last = rows[-1]
    assert last.ratio is not None
    for row in rows[:-1]:
        error = math.hypot(row.ratio_error or 0.0, last.ratio_error or 0.0)
        bound = max(row.sigmas, last.sigmas) * error + (row.allowance + last.allowance) * last.ratio + 1e-9
        if row.ratio is None or abs(row.ratio - last.ratio) > bound:
            return False
    return len(rows) > 1


def first_of(findings: Sequence[Finding]) -> Finding:
    """The finding that is nearest to a cause: of those that depart by the steepest power, changes by a Dense's own
    parameters before what is inherited, then the first layer."""
    steepest = max(abs(one.power) for one in findings) - ALIKE
    return min(
        (one for one in findings if abs(one.power) >= steepest),
        key=lambda one: (one.column not in ("own", "Df_readout"), one.of != "L", one.layer),
    )


def _over_depths(rows: Sequence[CoordinateRow]) -> list[Finding]:
    """Columns whose distance from the line is a power of the number of blocks, at the largest width."""
    widest = max(row.width for row in rows)
    held = [row for row in rows if row.width == widest and row.measured is not None and row.column in CHANGES]
    found = []
    for (matrix, column), group in _groups(held, _of_ends).items():
        off = [row for row in group if row.is_off]
        power = _departs([max(row.depth - 2, 1) for row in group], group) if off and len(group) > 1 else 0.0
        if power:
            last = group[-1]
            text = (
                f"{_end(matrix)}: {SAID[column]} {'falls' if power < 0 else 'grows'} as {written_power('L', power)} "
                "beside the line"
            )
            found.append(Finding(None, last.layer, matrix, column, last.ratio or 0.0, power, "L", text))
    return found


def _of_ends(row: CoordinateRow) -> tuple[str, str] | None:
    """Networks of several depths are compared in their input layer, last block and readout."""
    if row.matrix in ("input", "readout") or row.layer == row.depth - 1:
        return row.matrix, row.column
    return None


def _end(matrix: str) -> str:
    """Where networks of several depths are compared, in words."""
    if matrix in ("input", "readout"):
        return matrix
    return "last block" + ("" if matrix == "dense" else f", {matrix}")


def _departs(sizes: Sequence[int], rows: Sequence[CoordinateRow]) -> float:
    """The exponent by which the ratio depends on a size; 0 where it does not, beyond its errors."""
    ratios = [row.ratio or 0.0 for row in rows]
    if len(set(sizes)) < 2 or not min(ratios) > 0:
        return 0.0
    errors = [
        max((row.ratio_error or 0.0) * row.sigmas / SIGMAS, 1e-3, row.allowance / row.sigmas * ratio) / ratio
        for row, ratio in zip(rows, ratios)
    ]
    found, error = slope(sizes, ratios, errors)
    return found if abs(found) > max(SIGMAS * error, 2 * LEAST["n"]) else 0.0


def not_flat(rows: Sequence[CoordinateRow]) -> list[Finding]:
    """A finding for each change whose line is a power of the width, or of the number of blocks."""
    several = len({row.depth for row in rows}) > 1
    found = []
    changes = [row for row in rows if row.column in CHANGES]
    for (depth, layer, matrix, column), group in _groups(changes, lambda row: row.key).items():
        text = _power_of("n", [row.width for row in group], group)
        if text:
            place = where(layer, matrix, depth, several)
            found.append(Finding(depth, layer, matrix, column, 1.0, text[0], "n", f"{place}: {SAID[column]} {text[1]}"))
    if several:
        widest = max(row.width for row in rows)
        for (matrix, column), group in _groups([row for row in changes if row.width == widest], _of_ends).items():
            text = _power_of("L", [max(row.depth - 2, 1) for row in group], group)
            if text:
                said = f"{_end(matrix)}: {SAID[column]} {text[1]}"
                found.append(Finding(None, group[-1].layer, matrix, column, 1.0, text[0], "L", said))
    return found


def _power_of(name: str, sizes: Sequence[int], group: Sequence[CoordinateRow]) -> tuple[float, str] | None:
    values = [row.theory for row in group]
    if len(set(sizes)) < 2 or not min(values) > 0:
        return None
    errors = [max(row.theory_error / row.theory, 1e-4) for row in group]
    power, error = slope(sizes, values, errors)
    if abs(power) <= max(SIGMAS * error, LEAST[name]):
        return None
    return power, f"{'falls' if power < 0 else 'grows'} as {written_power(name, power)}"


def _groups(rows: Sequence[CoordinateRow], key: Any) -> dict[Any, list[CoordinateRow]]:
    """The rows by a key, in order of size; rows without one are left out."""
    found: dict[Any, list[CoordinateRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.depth, row.width)):
        if (name := key(row)) is not None:
            found[name].append(row)
    return dict(found)
