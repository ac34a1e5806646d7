"""`trainability`: which networks of a grid train, with what the theory says of each beside it."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.arguments import positive, shown, validated, whole
from meanfield.base.errors import MeanFieldError, one_line
from meanfield.base.progress import Progress
from meanfield.base.words import unknown
from meanfield.training.prepared import prepared
from meanfield.training.train import train, trained
from meanfield.training.trained_networks import Training, with_error

APART = ("network", "data", "networks", "threads", "executor", "checkpoint", "progress")


@validated
def trainability(
    network: Any,
    data: Any,
    *,
    axes: Mapping[str, Any],
    networks: int = 2,
    threads: int | None = None,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> TrainabilityMap:
    """Networks trained at every point of a grid of one or two axes: `train`, with the same data and seeds everywhere.

    axes: the values of one or two arguments of `train`, or of the network's symbols, by their names:
    {"sigma_w": [1, 1.5, 2], "depth": [8, 16]}. settings: the others. The unit of work is one network of one point at
    one rate; threads, executor, checkpoint: as in `train`, for the whole grid.
    Returns: a `TrainabilityMap`. Raises: MeanFieldError as `train`, before anything is trained.

    >>> from meanfield.data import teacher
    >>> data = teacher(inputs=40, test=0, input_dimension=4, classes=2)
    >>> found = trainability("tanh", data, axes={"sigma_w": [0.5, 1.5]}, sigma_b=0.1, width=8, depth=8, steps=30,
    ...     networks=2)
    >>> found.mean("accuracy/train").shape, found.theory("xi").round(2).tolist()
    ((2,), [0.71, 8.24])
    """
    given = _axes(axes, settings)
    networks = whole(networks, "networks", 1, 10**6)
    points = [dict(zip(given, values)) for values in itertools.product(*given.values())]
    own = {n: p.default for n, p in signature(train).parameters.items() if p.kind is p.KEYWORD_ONLY and n not in APART}
    asked = [prepared(network, data, **(own | settings | point)) for point in points]
    runs = trained(asked, networks, threads, executor, checkpoint, progress)
    return TrainabilityMap({k: _array(v) for k, v in given.items()}, tuple(runs))


def _array(values: list[Any]) -> np.ndarray:
    """Numbers as numbers, all else as it is."""
    plain = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in values)
    return np.array(values) if plain else np.array(values, dtype=object)


def _axes(axes: Any, settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    if not isinstance(axes, Mapping) or not 1 <= len(axes) <= 2:
        raise MeanFieldError(
            f"axes must be one or two arguments with their values, as in {{'sigma_w': [1, 2]}}, but {shown(axes)} was "
            "given."
        )
    found = {}
    for name, values in axes.items():
        if name in settings:
            raise MeanFieldError(f"{name} was given as an axis and as a number; give one of them.")
        if name in APART:
            raise MeanFieldError(f"{name} is one for the whole map, and no axis; give it beside axes=.")
        several = isinstance(values, (list, tuple, range)) or getattr(values, "ndim", 0) == 1
        held = [one.item() if isinstance(one, np.generic) else one for one in values] if several else []
        if not held or any(isinstance(one, (list, tuple, dict, np.ndarray)) for one in held):
            raise MeanFieldError(f"The axis {name} must be a list of numbers or words, but {shown(values)} was given.")
        found[str(name)] = held
    return found


@dataclass(frozen=True, eq=False)
class TrainabilityMap(Result):
    """Trainings over a grid. axes: the values by name, the first axis varies slowest; runs: a `Training` for every
    point, in that order; item [i] or [i, j] is that of a point.

    >>> from meanfield.data import teacher
    >>> data = teacher(inputs=30, test=0, input_dimension=4, classes=2)
    >>> found = trainability("tanh", data, axes={"depth": [2, 3]}, sigma_w=1.5, sigma_b=0, width=8, steps=5, networks=1)
    >>> found[1].about
    'MLP, tanh, sigma_w = 1.5, sigma_b = 0, depth 3, width 8; teacher; sgd, cross_entropy, full batch'
    """

    axes: dict[str, np.ndarray]
    runs: tuple[Training, ...] = field(repr=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of values of the axes."""
        return tuple(len(one) for one in self.axes.values())

    def __getitem__(self, place: Any) -> Training:
        try:
            flat = np.arange(len(self.runs)).reshape(self.shape)[place]
        except (IndexError, TypeError, ValueError):
            flat = np.empty(0)
        if np.ndim(flat):
            sizes = " × ".join(map(str, self.shape))
            raise MeanFieldError(
                f"A map of {sizes} points has a run at each, from found[{', '.join('0' * len(self.axes))}] on, but "
                f"{shown(place)} was asked for."
            )
        return self.runs[int(flat)]

    @property
    def quantities(self) -> tuple[str, ...]:
        """What each network has one number of after every step, at all points."""
        first = self.runs[0].values
        return tuple(n for n in first if first[n].ndim == 2 and all(n in run.values for run in self.runs))

    def mean(self, quantity: str) -> np.ndarray:
        """`Training.final` at each point: the mean over the networks that did not diverge; NaN where all did."""
        return self._each(quantity)[0]

    def standard_error(self, quantity: str) -> np.ndarray:
        """Its standard error; NaN of one network."""
        return self._each(quantity)[1]

    def _each(self, quantity: str) -> tuple[np.ndarray, np.ndarray]:
        if quantity not in self.quantities:
            raise unknown("quantity of a map", quantity, self.quantities)
        found = [(np.nan, np.nan) if r.diverged == r.networks else r.final(quantity) for r in self.runs]
        mean, error = np.array(found).T
        return mean.reshape(self.shape), error.reshape(self.shape)

    @cached_property
    def diverged(self) -> np.ndarray:
        """How many networks diverged at each point."""
        return np.array([run.diverged for run in self.runs]).reshape(self.shape)

    @property
    def rates(self) -> np.ndarray:
        """The rate that was taken at each point."""
        return np.array([run.rate for run in self.runs]).reshape(self.shape)

    def theory(self, quantity: str = "xi") -> np.ndarray:
        """ξ ("xi") or χ_J* ("chi_J") of the network at each point, at infinite width; NaN where it is not known.

        Raises: MeanFieldError for another quantity.
        """
        if quantity not in ("xi", "chi_J"):
            raise unknown("quantity of a phase", quantity, ("xi", "chi_J"))
        return np.array([run.depth_scale(quantity) for run in self.runs]).reshape(self.shape)

    def data(self) -> dict[str, Any]:
        """The axes, and the final numbers of every point."""
        names = self.quantities
        own = {n: {"mean": plain(self.mean(n)), "standard_error": plain(self.standard_error(n))} for n in names}
        more = {"diverged": plain(self.diverged), "rate": plain(self.rates), "xi": plain(self.theory("xi"))}
        return {"about": self.runs[0].about, "axes": plain(self.axes), **own, **more}

    def arrays(self) -> Arrays:
        """The final numbers over the axes."""
        axes, columns = tuple(self.axes), dict[str, Any]()
        for name in self.quantities:
            columns[name.replace("/", "_")] = axes, self.mean(name)
            columns[name.replace("/", "_") + "_error"] = axes, self.standard_error(name)
        more = {"diverged": self.diverged, "rate_taken": self.rates, "xi": self.theory("xi")}
        columns |= {name: (axes, one) for name, one in more.items()}
        return Arrays({k: ((k,), v) for k, v in self.axes.items()}, columns, {"about": self.runs[0].about})

    def plot(
        self,
        quantity: str | None = None,
        times: float = 6.0,
        contour: Callable[..., float] | None = None,
        ax: Any = None,
    ) -> Any:
        """The mean of a quantity (accuracy, or loss where there are no classes) over the axes, with what the theory
        says where it is known: ξ beside one axis, the depths `times` ξ where depth is one of two, else the line
        χ_J* = 1. contour: a function of the axes by their names (sigma_w=, depth=), such as a law at that depth, whose
        contours are drawn in their place. Returns: the Axes."""
        from meanfield.training.training_figures import plot_map

        own = "accuracy/train" if "accuracy/train" in self.quantities else "loss/train"
        if contour is not None and not callable(contour):
            raise MeanFieldError(
                f"contour must be a function of the axes by their names, but {shown(contour)} was given."
            )
        return plot_map(self, quantity or own, positive(times, "times"), contour, ax)

    def __repr__(self) -> str:
        sizes = " × ".join(f"{len(v)} {k}" for k, v in self.axes.items())
        return one_line("TrainabilityMap", f"{sizes}, {self.runs[0].networks} networks each")

    def __str__(self) -> str:
        names = [n for n in ("accuracy/train", "accuracy/test", "loss/train") if n in self.quantities][:2]
        lines = [self.runs[0].about.partition(";")[2].strip()]
        head = "".join(f"{k:>9}" for k in self.axes) + "".join(f"  {n:>15}" for n in names)
        lines.append(f"{head}  {'xi':>7}  diverged")
        means = [(self.mean(n), self.standard_error(n)) for n in names]
        xi = self.theory("xi")
        for k, values in enumerate(itertools.product(*self.axes.values())):
            at = np.unravel_index(k, self.shape)
            row = "".join(f"{_short(v):>9}" for v in values)
            row += "".join(f"  {with_error(m[at], e[at]):>15}" for m, e in means)
            lines.append(f"{row}  {xi[at]:>7.4g}  {self.diverged[at]:>8}")
        return wrapped("\n".join(lines))


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:9]
