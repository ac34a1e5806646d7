"""The picture of a coordinate check: lines of theory, points of networks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from meanfield.base.answers.drawing import COLOURS, STYLES, WIDTH, drawn
from meanfield.base.storage.files import LOOK, new_figure, require
from meanfield.parametrizations.coordinates.coordinate_rows import CoordinateRow, where

PANELS = (
    ("own", ("own",), "own change"),
    ("total", ("total",), "total change"),
    ("output", ("f", "Df", "Df_readout", "Df_features"), "output"),
)
OF_OUTPUT = {
    "f": "$f$", "Df": r"$\Delta f$", "Df_readout": r"$\Delta f$, readout", "Df_features": r"$\Delta f$, features",
}  # fmt: skip
MOST = 7  # lines of a panel that have a colour of their own
MARKS = "os^Dv<>"


def plot_check(check: Any, ax: Any) -> Any:
    """`CoordinateCheck.plot`; check: the result."""
    given = [] if ax is None else list(ax) if isinstance(ax, Iterable) else [ax]
    with require().rc_context(LOOK):
        if not given:
            figure = new_figure(WIDTH, 5.4)
            given = list(figure.subplots(3, 1, sharex=True))
        for panel, (_, columns, label) in zip(given, PANELS):
            _panel(panel, [row for row in check.rows if row.column in columns], check)
            panel.set_ylabel(label)
        given[min(len(given), 3) - 1].set_xlabel("width")
        return drawn(given[:3])


def _panel(panel: Any, rows: list[CoordinateRow], check: Any) -> None:
    lines: dict[tuple, list[CoordinateRow]] = {}
    for row in rows:
        lines.setdefault(row.key, []).append(row)
    several = len({row.depth for row in check.rows}) > 1
    chosen = _spread_out(list(lines))
    for k, key in enumerate(chosen):
        held = sorted(lines[key], key=lambda row: row.width)
        depth, layer, matrix, column = key
        name = OF_OUTPUT.get(column) or where(layer, matrix, depth, several)
        if column in OF_OUTPUT and several:
            name += f" (depth {depth})"
        colour, n = COLOURS[k % len(COLOURS)], [row.width for row in held]
        panel.plot(n, [row.theory for row in held], color=colour, linestyle=STYLES[k % len(STYLES)], label=name)
        seen = [row for row in held if row.measured is not None]
        if seen:
            panel.errorbar(
                [row.width for row in seen], [row.measured for row in seen], [2 * (row.error or 0) for row in seen],
                color=colour, linestyle="none", marker=MARKS[k % len(MARKS)], markersize=3, elinewidth=0.8,
            )  # fmt: skip
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.legend(fontsize=5, ncols=2)


def _spread_out(keys: list[tuple]) -> list[tuple]:
    """At most seven of them, from the first to the last."""
    if len(keys) <= MOST:
        return keys
    return [keys[round(k * (len(keys) - 1) / (MOST - 1))] for k in range(MOST)]
