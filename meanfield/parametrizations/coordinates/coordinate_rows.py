"""The numbers of a coordinate check: theory and networks beside each other, and where they part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, stdtrit

from meanfield.base.answers.export import Result

SIGMAS = 4.0  # deviations beyond which a number is off
REPLICATES = 16  # of the populations that the theory averages over
FINITE = 4.0  # times the number of Dense over the width: what finite width may change at most
COLUMNS = ("z", "own", "total", "gain", "f", "Df", "Df_readout", "Df_features")
SAID = {
    "z": "size at the start", "own": "own change", "total": "total change", "gain": "gain of the own step",
    "f": "f at the start", "Df": "change of f", "Df_readout": "change of f by the readout",
    "Df_features": "change of f by features",
}  # fmt: skip
LEAST = {"n": 0.05, "L": 0.12}  # an exponent below it is none; few blocks are not yet a power of their number


@dataclass(frozen=True)
class CoordinateRow(Result):
    """One number of a coordinate check: a root mean square over neurons, inputs and networks.

    depth, width: of the network; layer, matrix: the Dense it belongs to, by its role in its block ("input" and
    "readout" outside); column: "z" (size at the start), "own" (change by its own parameters), "total" (all of it); of
    the readout "f", "Df", "Df_readout", "Df_features"; of all "gain", what its own step takes from the loss in first
    order, a mean over networks and no square (of sgd, for one input of slope 1: rate · Θ of this matrix). theory ±
    theory_error; measured ± error, None where nothing was measured; networks: how many the error is of; allowance: what
    finite width may change, relative to the theory.

    >>> CoordinateRow(4, 64, 2, "dense", "own", 0.5, 0.001, measured=0.51, error=0.01, networks=8).ratio
    1.02
    """

    columns: ClassVar[tuple[str, ...]] = (
        "depth", "width", "layer", "matrix", "column", "theory", "theory_error", "measured", "error", "networks",
        "ratio", "ratio_error", "allowance", "is_off",
    )  # fmt: skip

    depth: int
    width: int
    layer: int
    matrix: str
    column: str
    theory: float
    theory_error: float
    measured: float | None = None
    error: float | None = None
    networks: int = 0
    allowance: float = 0.0

    @property
    def key(self) -> tuple[int, int, str, str]:
        """What it is a number of, whatever the width."""
        return self.depth, self.layer, self.matrix, self.column

    @property
    def ratio(self) -> float | None:
        """Measured over theory; 1 where both vanish."""
        if self.measured is None:
            return None
        if self.theory == 0:
            return 1.0 if self.measured == 0 else math.inf
        return self.measured / self.theory

    @property
    def ratio_error(self) -> float | None:
        """The standard error of the ratio, both sides included."""
        ratio = self.ratio
        if ratio is None or self.theory == 0:
            return None if ratio is None else 0.0
        return math.hypot((self.error or 0.0) / self.theory, self.theory_error / self.theory * ratio)

    @property
    def sigmas(self) -> float:
        """How many standard errors are as unlikely as 4 of a normal number: more where errors are of few networks."""
        if not self.measured or not self.theory:
            return SIGMAS
        parts = (self.error or 0.0) / self.measured, self.theory_error / self.theory
        freedom = max(self.networks - 1, 1), REPLICATES - 1
        largest = max(parts)
        if largest == 0 or not math.isfinite(largest):
            return SIGMAS
        parts = parts[0] / largest, parts[1] / largest
        below = sum(part**4 / one for part, one in zip(parts, freedom))
        return float(stdtrit(sum(part**2 for part in parts) ** 2 / below, ndtr(SIGMAS)))

    @property
    def is_off(self) -> bool:
        """Whether networks are beside the line by more than their errors (four deviations) and the allowance."""
        if self.ratio is None:
            return False
        return not abs(self.ratio - 1) <= self.sigmas * (self.ratio_error or 0.0) + self.allowance + 1e-9


@dataclass(frozen=True)
class Finding(Result):
    """What a coordinate check says of one column: where it stands, and how it is beside the line or is not flat.

    layer, matrix, column, depth: as in a row (depth None: over several depths); factor: measured over theory at the
    largest width that is off; power: the exponent of n (of L where `of` is "L") by which it departs; text: the same in
    words.
    """

    columns: ClassVar[tuple[str, ...]] = ("depth", "layer", "matrix", "column", "of", "factor", "power", "text")

    depth: int | None
    layer: int
    matrix: str
    column: str
    factor: float
    power: float
    of: str
    text: str

    def __str__(self) -> str:
        return self.text


def with_allowances(rows: Sequence[CoordinateRow], dense: dict[int, int]) -> list[CoordinateRow]:
    """The rows with what finite width may change. dense: the number of Dense by depth.

    The terms of order 1/n are bounded by 4·(number of Dense)/n, and where several widths were measured by what they are
    at the smallest one, n₀/n times.
    """
    smallest: dict[tuple, CoordinateRow] = {}
    for row in rows:
        if row.measured is not None and (row.key not in smallest or row.width < smallest[row.key].width):
            smallest[row.key] = row
    out = []
    for row in rows:
        most = FINITE * dense[row.depth] / row.width
        first = smallest.get(row.key)
        if first is not None and first.width < row.width and first.ratio is not None:
            seen = abs(first.ratio - 1) + first.sigmas * (first.ratio_error or 0.0)
            most = min(most, seen * first.width / row.width)
        out.append(replace(row, allowance=most))
    return out


def slope(sizes: Sequence[float], values: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """(exponent of a power of the sizes, its standard error) by weighted least squares of logarithms; none (0 ± ∞) of
    numbers that are not finite."""
    if not (np.isfinite(values).all() and np.isfinite(errors).all()):
        return 0.0, math.inf
    x, y = np.log(np.asarray(sizes, dtype=float)), np.log(np.asarray(values, dtype=float))
    w = 1 / np.maximum(np.asarray(errors, dtype=float), 1e-6) ** 2
    centre = (w * x).sum() / w.sum()
    spread = (w * (x - centre) ** 2).sum()
    if not spread > 0:
        return 0.0, math.inf
    found = (w * (x - centre) * y).sum() / spread
    return float(found), float(1 / math.sqrt(spread))


def where(layer: int, matrix: str, depth: int | None, several: bool) -> str:
    """A Dense in words: "layer 3, up (depth 8)"."""
    inside = f"layer {layer}" + ("" if matrix == "dense" else f", {matrix}")
    place = matrix if matrix in ("input", "readout") else inside
    return place + (f" (depth {depth})" if several and depth is not None else "")


def written_power(name: str, power: float) -> str:
    """n^(-1/2) where the exponent is near a whole number or half of one, else n^-0.31."""
    near = Fraction(power).limit_denominator(2)
    shown = str(near) if near and abs(float(near) - power) < 0.06 else f"{power:.2f}"
    if shown == "1":
        return name
    return f"{name}^{shown if '/' not in shown else f'({shown})'}"
