"""The verdict of a check: rows of theory, allowance, and measured, as text, plain values, JSON or a figure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, stdtrit

from meanfield.base.answers.drawing import plot_report
from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.latex import tex
from meanfield.base.answers.results import one_line
from meanfield.base.quantities import is_relative
from meanfield.base.symbols import parameter
from meanfield.base.tex.prose import prose
from meanfield.base.tex.tabular import booktabs, decimal
from meanfield.base.words import unknown

THRESHOLD = 4.0  # of a normal number; over 100 rows of exact theory a larger |z| happens once in 160 runs


def threshold(networks: int, sigmas: float = THRESHOLD) -> float:
    """How many standard errors, of a mean over so many networks, are as unlikely as `sigmas` of a normal number
    (Student's distribution): 4.09 of 200 networks, 7 of 10, 33 of 4."""
    return float(stdtrit(max(networks - 1, 1), ndtr(sigmas)))


@dataclass(frozen=True)
class Row(Result):
    """One quantity at one layer: what the theory says at infinite width, what finite width adds, and the ensemble.

    theory: of infinite width, nothing fitted; allowance: the bias of order 1/n, derived or from narrower networks (0
    where none is made); measured: the ensemble's mean; standard_error: of measured minus allowance; z = (measured −
    sum)/standard_error; passed: |z| ≤ `threshold(networks)`.
    """

    quantity: str
    layer: int
    theory: float
    allowance: float
    measured: float
    standard_error: float
    z: float
    passed: bool

    columns = ("quantity", "layer", "theory", "allowance", "sum", "measured", "standard_error", "z", "passed")

    @property
    def sum(self) -> float:
        """theory + allowance: what `measured` is held against."""
        return self.theory + self.allowance

    @property
    def nothing(self) -> bool:
        """Whether theory and networks are all exactly 0: they agree, and there is no spread to measure it by."""
        return self.passed and self.theory == self.measured == self.standard_error == 0

    def data(self) -> dict[str, Any]:
        """The columns by name, as plain values."""
        return {name: plain(getattr(self, name)) for name in self.columns}


@dataclass(frozen=True)
class Report(Result):
    """The verdict of a check. `str` is a table for a terminal, `data()` plain values for JSON, `passed` the answer.

    theory, allowance, measured and standard_error of J, J0 and Theta are in units of the theory's value (so that no
    depth overflows; theory is then 1), but for rows where the theory is exactly 0, which pass only where every network
    is 0; `log_scale` holds the logarithm of J.
    """

    title: str
    settings: dict[str, Any]
    rows: tuple[Row, ...]
    log_scale: dict[str, list[float]]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether there are rows, and every row lies within `threshold(networks)` standard errors."""
        return bool(self.rows) and all(r.passed for r in self.rows)

    def worst(self, quantity: str) -> Row:
        """The row of `quantity` with the largest |z|."""
        rows = [r for r in self.rows if r.quantity == quantity]
        if not rows:
            raise unknown("quantity of this report", quantity, self.quantities)
        return max(rows, key=lambda r: abs(r.z))

    @property
    def quantities(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(r.quantity for r in self.rows))

    def data(self) -> dict[str, Any]:
        """Everything as plain Python values."""
        return {
            "title": self.title,
            "passed": self.passed,
            "threshold": threshold(self.settings["networks"]),
            "settings": self.settings,
            "notes": list(self.notes),
            "log_scale": plain(self.log_scale),
            "rows": [r.data() for r in self.rows],
        }

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def plot(self, ax: Any = None) -> Any:
        """Theory as lines, the ensemble as bands, z-scores below; returns an array of Axes (needs meanfield[plot])."""
        return plot_report(self, ax)

    def __repr__(self) -> str:
        verdict = "passed" if self.passed else "failed"
        return one_line("Report", f"{verdict}: {self.title}; {', '.join(self.quantities)}; {len(self.rows)} rows")

    def latex(self) -> str:
        """The rows that `str` shows as `table` floats (booktabs), one or more for each quantity."""
        out = []
        for q in self.quantities:
            name = tex(parameter(q))
            unit = f" (in units of the theory's ${name}$)" if is_relative(q) else ""
            rows = []
            for r in _selected([r for r in self.rows if r.quantity == q]):
                numbers = (r.theory, r.allowance, r.sum, r.measured, r.standard_error)
                cells = [decimal(v, d) for v, d in zip(numbers, (8, 3, 8, 8, 2))]
                rows.append([str(r.layer), *cells, f"${r.z:.2f}$" + ("" if r.passed else r"\,$\ast$")])
            header = [r"$\ell$", "theory", "allowance", "sum", "measured", r"$\pm$", "$z$"]
            verdict = "passed" if all(r.passed for r in self.rows if r.quantity == q) else r"failed ($\ast$)"
            out.append(booktabs(f"{prose(self.title)}: ${name}${unit}, {verdict}", header, rows))
        return "\n".join(out)

    def __str__(self) -> str:
        s = self.settings
        head = ", ".join(
            f"{k} {s[k]}" for k in ("width", "depth", "networks", "sampler", "seed", "sigma_w", "sigma_b", "input_norm")
        )
        lines = [*textwrap.wrap(self.title, 78), *textwrap.wrap(head, 78), ""]
        for q in self.quantities:
            rows, worst = [r for r in self.rows if r.quantity == q], self.worst(q)
            lines.append(f"{q} (in units of the theory's {q})" if is_relative(q) else q)
            lines.append(
                f"  largest |z| {abs(worst.z):.2f} at layer {worst.layer}; "
                f"{sum(r.passed for r in rows)} of {len(rows)} layers pass"
            )
            lines.append(_line("layer", "theory", "allowance", "sum", "measured", "+-", "z"))
            for r in _selected(rows):
                theory, total, measured = (_digits(v, 12) for v in (r.theory, r.sum, r.measured))
                added, error = f"{r.allowance:.2g}", f"{r.standard_error:.2g}"
                z = f"{r.z:.2f}" if abs(r.z) < 1e4 or not np.isfinite(r.z) else f"{r.z:.0e}"
                mark = " exact" if r.nothing else "" if r.passed else " fails"
                lines.append(_line(str(r.layer), theory, added, total, measured, error, z) + mark)
            lines.append("")
        for note in self.notes:
            lines += textwrap.wrap(note, 78)
        if self.rows:
            lines += textwrap.wrap("theory: infinite width, nothing fitted; z = (measured - sum)/(+-).", 78)
        verdict = "PASSED" if self.passed else "FAILED"
        most = f"{threshold(s['networks']):.3g} standard errors, of so many networks"
        return "\n".join([*lines, f"{verdict} (a row passes within {most})"])


def _line(*columns: str) -> str:
    """One line of a table; 73 columns, so that a mark and the longest numbers still fit into 80."""
    return " ".join(f"{text:>{width}}" for text, width in zip(columns, (7, 12, 9, 12, 12, 8, 7)))


def _digits(value: float, room: int) -> str:
    """At most eight digits, and as many as fit into `room` characters."""
    return next((text for n in range(8, 3, -1) if len(text := f"{value:.{n}g}") <= room), f"{value:.4g}")


def _selected(rows: list[Row]) -> list[Row]:
    """First layers, round ones, the last, the worst, and up to five failures."""
    last = rows[-1].layer
    keep = {1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000, last, max(rows, key=lambda r: abs(r.z)).layer}
    keep |= {r.layer for r in [r for r in rows if not r.passed][:5]}
    return [r for r in rows if r.layer in keep]
