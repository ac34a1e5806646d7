"""Fixed blocks of networks: the unit of work, of a checkpoint and of the jackknife.

A run of M networks has min(M, 256) blocks of consecutive networks, whatever the number of workers. Of every block the
mean and the sum of squared deviations of every row are kept, so memory does not grow with M; blocks are merged in the
order of their index. So the numbers do not depend on who measured which block, or when.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from threading import Event
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from meanfield.empirical.observables.measurement import MeasurementPlan
from meanfield.empirical.random.buffers import Buffers

MOST_BLOCKS = 256
TOGETHER = 32  # networks whose rows are held at once


def edges(networks: int) -> np.ndarray:
    """Block g holds networks edges[g] … edges[g + 1] − 1."""
    return np.linspace(0, networks, min(networks, MOST_BLOCKS) + 1).round().astype(int)


@dataclass(frozen=True, eq=False)
class BlockStatistics:
    """Of `count` networks: means and squared deviations of every row, and the rows themselves where they are kept.

    "J" stands for exp(log_J − shift), with `shift` the largest log_J of the block at each layer. lost: networks that
    left the finite numbers; reach: the last layer all of them reached.
    """

    count: int
    lost: int
    reach: int
    means: Mapping[str, np.ndarray]
    squares: Mapping[str, np.ndarray]
    shift: np.ndarray | None = None
    rows: Mapping[str, np.ndarray] = field(default_factory=dict)
    diverged_at: np.ndarray | None = None

    def merged(self, other: BlockStatistics) -> BlockStatistics:
        """This block and the next one as a single one."""
        count = self.count + other.count
        shift, scales = self.shift, (1.0, 1.0)
        if self.shift is not None and other.shift is not None:
            shift = np.maximum(self.shift, other.shift)
            scales = np.exp(self.shift - shift), np.exp(other.shift - shift)
        means, squares = {}, {}
        with np.errstate(all="ignore"):  # rows of a network that diverged are NaN
            for name in self.means:
                one, two = scales if name == "J" else (1.0, 1.0)
                a, b = one * self.means[name], two * other.means[name]
                means[name] = a + (b - a) * (other.count / count)
                squares[name] = one**2 * self.squares[name] + two**2 * other.squares[name]
                squares[name] = squares[name] + np.square(b - a) * (self.count * other.count / count)
        rows = {name: np.concatenate((self.rows[name], other.rows[name])) for name in self.rows}
        diverged = None
        if self.diverged_at is not None and other.diverged_at is not None:
            diverged = np.concatenate((self.diverged_at, other.diverged_at))
        lost, reach = self.lost + other.lost, min(self.reach, other.reach)
        return BlockStatistics(count, lost, reach, means, squares, shift, rows, diverged)


def measure_block(
    plan: MeasurementPlan,
    first: int,
    count: int,
    keep: bool,
    device: str = "cpu",
    buffers: Buffers | None = None,
    stop: Event | None = None,
) -> BlockStatistics:
    """Networks first … first + count − 1: a pure function of its arguments, serial, without the GIL in its kernels.

    It runs with one BLAS thread (two would change the last bits), which the caller sees to.
    """
    buffers = buffers or Buffers()
    if device == "cuda":
        return next(measure_on_device(plan, first, [count], keep))
    whole: BlockStatistics | None = None
    for start in range(first, first + count, TOGETHER):
        part = _measure_part(plan, start, min(TOGETHER, first + count - start), keep, buffers, stop)
        whole = part if whole is None else whole.merged(part)
        if stop is not None and stop.is_set():
            break
    assert whole is not None
    return whole


def measure_elsewhere(
    plan: MeasurementPlan, first: int, count: int, keep: bool, device: str, home: int
) -> BlockStatistics:
    """`measure_block` for an executor; a process other than `home` is held to one BLAS thread from then on."""
    if os.getpid() != home:
        _one_blas_thread()
    return measure_block(plan, first, count, keep, device)


@lru_cache(maxsize=1)
def _one_blas_thread() -> None:
    threadpool_limits(limits=1, user_api="blas")


def _measure_part(
    plan: MeasurementPlan, first: int, count: int, keep: bool, buffers: Buffers, stop: Event | None
) -> BlockStatistics:
    rows: dict[str, np.ndarray] = {name: np.empty((count, *shape)) for name, shape in plan.shapes.items()}
    diverged_at = np.zeros(count, dtype=np.int64)
    for i in range(count):
        diverged_at[i], found = plan.measure(first + i, buffers, stop)
        for name, values in found.items():
            rows[name][i] = values
        if stop is not None and stop.is_set():
            break
    return summarize(plan, rows, diverged_at, keep)


def measure_on_device(plan: MeasurementPlan, first: int, counts: list[int], keep: bool) -> Iterator[BlockStatistics]:
    """Consecutive blocks of networks, measured together: a few networks do not fill a GPU."""
    from meanfield.empirical.cuda.device import measure_block_cuda

    diverged_at, rows = measure_block_cuda(plan, first, sum(counts))
    for start, end in pairwise(np.cumsum([0, *counts]).tolist()):
        yield summarize(plan, {name: values[start:end] for name, values in rows.items()}, diverged_at[start:end], keep)


def summarize(
    plan: MeasurementPlan, rows: dict[str, np.ndarray], diverged_at: np.ndarray, keep: bool
) -> BlockStatistics:
    bad = diverged_at[diverged_at > 0]
    means, squares, shift = {}, {}, None
    with np.errstate(all="ignore"):  # rows of a network that diverged are NaN
        for name, values in rows.items():
            means[name], squares[name] = _moments(values)
        if "log_J" in rows:
            shift = np.nan_to_num(rows["log_J"].max(axis=0), nan=0.0, posinf=0.0, neginf=0.0)
            means["J"], squares["J"] = _moments(np.exp(rows["log_J"] - shift))
    return BlockStatistics(
        count=len(diverged_at),
        lost=bad.size,
        reach=int(bad.min()) - 1 if bad.size else plan.ensemble.depth,
        means=means,
        squares=squares,
        shift=shift,
        rows=rows if keep else {},
        diverged_at=diverged_at if keep else None,
    )


def _moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = values.mean(axis=0)
    return mean, np.square(values - mean).sum(axis=0)


@dataclass(frozen=True, eq=False)
class MergedBlocks:
    """The blocks of a run, merged in the order of their index: `counts` (blocks,), every mean (blocks, ...)."""

    counts: np.ndarray
    means: Mapping[str, np.ndarray]
    squares: Mapping[str, np.ndarray]
    shifts: np.ndarray | None

    @classmethod
    def of(cls, found: list[BlockStatistics]) -> MergedBlocks:
        shifts = None if found[0].shift is None else np.stack([np.asarray(block.shift) for block in found])
        return cls(
            np.array([block.count for block in found]),
            {name: np.stack([block.means[name] for block in found]) for name in found[0].means},
            {name: np.stack([block.squares[name] for block in found]) for name in found[0].squares},
            shifts,
        )

    def estimate(self, name: str, scale: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(mean, standard error) over the networks; `scale` (blocks, layers) multiplies block by block."""
        means, squares = self.means[name], self.squares[name]
        if scale is not None:
            means, squares = means * scale, squares * scale**2
        weights = self.counts.reshape(-1, *(1,) * (means.ndim - 1))
        total = int(self.counts.sum())
        mean = (weights * means).sum(axis=0) / total
        deviation = squares.sum(axis=0) + (weights * np.square(means - mean)).sum(axis=0)
        return mean, np.sqrt(deviation / (total - 1) / total)

    def jackknife(
        self, function: Callable[[Mapping[str, np.ndarray], int], Any], names: tuple[str, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """function(means, number of networks) of all networks, and its standard error from leaving out one block at a
        time: √((G − 1)/G Σ_g (f_g − f̄)²)."""
        total, groups = int(self.counts.sum()), len(self.counts)
        sums = {}
        for name in names:
            means = self.means[name] if name != "J" else self.means["J"] * np.exp(self.shifts)  # type: ignore[arg-type]
            weights = self.counts.reshape(-1, *(1,) * (means.ndim - 1))
            sums[name] = (weights * means, (weights * means).sum(axis=0))
        value = np.asarray(function({name: all_ / total for name, (_, all_) in sums.items()}, total))
        without = []
        for g in range(groups):
            left = total - int(self.counts[g])
            without.append(function({name: (all_ - each[g]) / left for name, (each, all_) in sums.items()}, left))
        spread = np.stack([np.asarray(one) for one in without])
        return value, np.sqrt((groups - 1) / groups * np.square(spread - spread.mean(axis=0)).sum(axis=0))
