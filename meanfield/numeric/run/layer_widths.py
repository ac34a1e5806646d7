r"""Widths for which squared gradients per neuron stay between two bounds, whatever J does.

Per neuron they are χ^l/χ^L = J^{l,L} N_L/N_l, so the widths that keep them follow 1/J^{1,l}; within a factor r a width
may stay as it is while J does not leave it. Each layer has an interval of allowed widths, and going away from the end
that is fixed one width is kept for as many layers as have it in common, which is the least number of changes.
Source: [variance_variation] Sec. 6 for tanh; here for any J.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.base.arguments import shown, whole
from meanfield.networks.folds import dense_of, through
from meanfield.networks.records import Block, Dense, Param, Size

WIDEST = 1 << 24  # as finite networks have it
ENDS = ("first", "last")


@dataclass(frozen=True, eq=False, repr=False)
class WidthSchedule(Result):
    """Widths N_1 … N_L of the layers of a network whose squared gradients per neuron stay within a factor.

    widths: as `check`, `measure` and `run_ensemble` take them (width=schedule.widths). log_G: log J^{l,L}, l = 1 … L,
    that of one width as well. factor: the bound that was asked for; expand: the outputs per neuron of the layer that is
    made of every Dense inside the block. chi, chi_of_one_width: squared gradients by one neuron of layer l, over those
    by one of layer L, with these widths and with one width throughout.
    """

    widths: tuple[int, ...]
    log_G: np.ndarray
    factor: float
    expand: tuple[Fraction, ...] = ()
    layers: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", np.arange(1, len(self.widths) + 1))

    def data(self) -> dict[str, Any]:
        """Widths, layers at which they change, and squared gradients per neuron with and without, as plain values."""
        names = ("widths", "projections", "chi", "spread", "spread_of_one_width", "factor")
        inner = [list(one) for one in self.inner_widths]
        return {**{n: plain(getattr(self, n)) for n in names}, "inner_widths": inner}

    def arrays(self) -> Arrays:
        """Width and squared gradients per neuron over the layer."""
        names = {"width": np.array(self.widths), "chi": self.chi, "chi_of_one_width": self.chi_of_one_width}
        return Arrays({"layer": (("layer",), self.layers)}, {n: (("layer",), v) for n, v in names.items()}, {})

    def log_profile(self, widths: Sequence[int] | np.ndarray | None = None) -> np.ndarray:
        """log(χ^l/χ^L) of any widths, one per layer; of one width where none are given."""
        if widths is None:
            return self.log_G
        sizes = np.asarray(widths, dtype=float)
        if sizes.shape != self.log_G.shape or not (sizes > 0).all():
            raise MeanFieldError(f"{len(self.widths)} widths > 0 are wanted, but {shown(widths)} was given.")
        return self.log_G + np.log(sizes[-1] / sizes)

    @property
    def chi(self) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.exp(self.log_profile(self.widths))

    @property
    def chi_of_one_width(self) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.exp(self.log_G)

    @property
    def spread(self) -> float:
        """max χ/min χ over the layers, as it comes out with whole widths."""
        return float(np.exp(np.ptp(self.log_profile(self.widths))))

    @property
    def spread_of_one_width(self) -> float:
        with np.errstate(over="ignore"):
            return float(np.exp(np.ptp(self.log_G)))

    @property
    def projections(self) -> tuple[int, ...]:
        """The layers l whose width is not that of layer l - 1."""
        return tuple(int(l) for l in self.layers[1:][np.diff(self.widths) != 0])

    @property
    def inner_widths(self) -> tuple[tuple[int, ...], ...]:
        """M_2 … M_L of every Dense inside the block."""
        return tuple(tuple(int(e * N) for N in self.widths[1:]) for e in self.expand)

    def __repr__(self) -> str:
        ends = f"{self.widths[0]} to {self.widths[-1]} neurons"
        found = f"{len(self.widths)} layers, {ends}, {len(self.projections)} changes of width"
        return one_line("WidthSchedule", f"{found}; max/min of chi {self.spread:.4g}")

    def __str__(self) -> str:
        chi, starts = self.log_profile(self.widths), [1, *self.projections, len(self.widths) + 1]
        lines = [
            f"squared gradients per neuron within a factor {self.spread:.4g} (asked: {self.factor:.4g})",
            f"{'layers':>15} {'width':>9} {'chi/chi^L':>22}",
        ]
        for first, after in pairwise(starts):
            part = chi[first - 1 : after - 1]
            low, high = (f"{_decimal(x)}" for x in (part.min(), part.max()))
            lines.append(f"{first:>6} … {after - 1:>6} {self.widths[first - 1]:>9} {low:>10} … {high:>9}")
        spread = _decimal(float(np.ptp(self.log_G)))
        return "\n".join([*lines, f"with one width they differ by a factor {spread}"])


def _decimal(log: float) -> str:
    """e^log to four digits, also beyond doubles."""
    if abs(log) < 690:
        return f"{math.exp(log):.4g}"
    power = math.floor(log / math.log(10))
    return f"{math.exp(log - power * math.log(10)):.3g}e{power:+d}"


def width_schedule(
    log_G: np.ndarray, width: int, factor: float, fixed: str, multiple: int, expand: tuple[Fraction, ...]
) -> WidthSchedule:
    """The widths with the fewest changes; arguments as `Theory.width_schedule` explains them.

    Raises: MeanFieldError where a layer allows no whole width.
    """
    lost = np.flatnonzero(~np.isfinite(log_G))
    if len(lost):
        layer = int(lost[-1]) + 1
        why = "is 0: no width keeps a gradient that is not there" if log_G[lost[-1]] == -math.inf else "is not finite"
        raise MeanFieldError(f"Widths are not available: J from layer {layer} to the last one {why}.")
    multiple = math.lcm(multiple, *(e.denominator for e in expand))
    if width % multiple:
        raise MeanFieldError(f"Widths here are multiples of {multiple}, but {width} was given for the {fixed} layer.")
    along = log_G if fixed == "first" else log_G[::-1]
    found = _stabbed(along - along[0], width, math.log(factor), multiple, fixed)
    return WidthSchedule(tuple(found if fixed == "first" else found[::-1]), log_G, factor, expand)


def _stabbed(rise: np.ndarray, width: int, room: float, multiple: int, fixed: str) -> list[int]:
    """Widths going away from the fixed end, where log χ may differ from its value there by `room` in all."""
    low, high = _window(rise, room)
    done: list[int] = []
    kept, count = (width, width), 0
    for i, up in enumerate(rise):
        wanted = _between(math.log(width) + up - high, math.log(width) + up - low, multiple)
        if wanted[0] > wanted[1] or wanted[1] < multiple or wanted[0] > WIDEST:
            layer = i + 1 if fixed == "first" else len(rise) - i
            raise MeanFieldError(_no_width(layer, math.log(width) + up - high, math.log(width) + up - low, multiple))
        both = max(kept[0], wanted[0]), min(kept[1], wanted[1])
        if both[0] > both[1]:
            done += [_nearest(kept, done)] * count
            both, count = wanted, 0
        kept, count = both, count + 1
    return done + [_nearest(kept, done)] * count


def _window(rise: np.ndarray, room: float) -> tuple[float, float]:
    """Where log χ may lie beside the fixed end: in the direction in which it tends to go, unless another interval of
    this length keeps that end's width for longer. What comes after it is cut alike in all of them, and no later for
    beginning earlier."""
    low, high = (-room, 0.0) if rise[-1] <= 0 else (0.0, room)
    lowest, highest = np.minimum.accumulate(rise), np.maximum.accumulate(rise)
    longest = int((highest - lowest <= room * (1 + 1e-12)).sum())
    usual = int(((lowest >= low - 1e-12) & (highest <= high + 1e-12)).sum())
    if longest <= usual:
        return low, high
    least = float(lowest[longest - 1])
    return least, least + room


def _between(low: float, high: float, multiple: int) -> tuple[int, int]:
    """The multiples between e^low and e^high, to rounding; (1, 0) where they are far beyond any width."""
    if high < -1 or low > 40:
        return (1, 0)
    slack = 1e-12
    first = math.ceil(math.exp(low) / multiple * (1 - slack))
    last = math.floor(math.exp(min(high, 50.0)) / multiple * (1 + slack))
    return max(first, 1) * multiple, min(last * multiple, WIDEST)


def _nearest(kept: tuple[int, int], done: list[int]) -> int:
    """The width of an interval that changes the one before it least."""
    return kept[0] if not done else min(max(done[-1], kept[0]), kept[1])


def _no_width(layer: int, low: float, high: float, multiple: int) -> str:
    of = "whole number" if multiple == 1 else f"multiple of {multiple}"
    return (
        f"The gradients per neuron of layer {layer} stay within the factor at a width between {_decimal(low)} and "
        f"{_decimal(high)}, where there is no {of} up to {WIDEST}; start from another width, allow a larger factor, or "
        "take fewer layers."
    )


# ------------------------------------------------------------------------------------------------ what the block allows


def refuse_rigid(block: Block) -> None:
    """Raises MeanFieldError for a block that does not make any width from any other."""

    def of(part: Block, here: Size) -> Size:
        return part.sizes(here, None, lambda held: Fraction(1) if isinstance(held, Param) else _fraction(held))[0]

    def joined(_: Block, ways: tuple[Size, ...]) -> Size:
        if len(set(ways)) > 1:
            raise MeanFieldError(
                "Widths that vary are not available: a skip of this block carries its input as it is, and adds it "
                "to as many neurons; give the Residual a shortcut that fits any width: Residual(..., Projection())."
            )
        return ways[0]

    before: tuple[Size, Size] = (Fraction(1), Fraction(2))  # N_{l-1}, per N_l: what is made must not depend on it
    if any(through(block, here, of, joined) != 1 for here in before):
        raise MeanFieldError(
            "Widths that vary are not available: this block does not make layers of any width; it has to end in a "
            "Dense with expand = 1."
        )


def inner_factors(block: Block, values: dict) -> tuple[Fraction, ...]:
    """expand of every Dense whose outputs another one takes; values: those of symbols."""
    held, inner = dense_of(block), set[int]()
    places = iter(range(len(held)))

    def of(part: Block, made_by: int | None) -> int | None:
        if not isinstance(part, Dense):
            return made_by
        if made_by is not None:
            inner.add(made_by)
        return next(places)

    through(block, None, of, lambda _, ways: ways[-1])
    return tuple(_factor(held[i], values) for i in sorted(inner))


def _factor(dense: Dense, values: dict) -> Fraction:
    given = dense.expand
    if isinstance(given, Param):
        if given.name not in values:
            raise MeanFieldError(f"Widths inside the block depend on {given.name}; give it a number.")
        number = values[given.name]
        if isinstance(number, bool) or not isinstance(number, int | float | Fraction) or not number > 0:
            raise MeanFieldError(f"{given.name} must be one number > 0 here, but {shown(number)} was given.")
        return _fraction(number)
    return _fraction(given)


def _fraction(number: object) -> Fraction:
    return Fraction(float(number)).limit_denominator(1 << 12)  # type: ignore[arg-type]


def checked_sizes(width: object, multiple: object) -> tuple[int, int]:
    """The width of the fixed end and what widths are multiples of."""
    return whole(width, "width", 1, WIDEST), whole(multiple, "multiple", 1, WIDEST)
